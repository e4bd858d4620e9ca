package check

import (
	"fmt"

	"github.com/lockmesh/mesh/internal/env"
	"github.com/lockmesh/mesh/transport"
)

// Counts fails the run (P30) if a leader has come to count by a configuration, and no majority of its voters has what the leader has
// applied; while the voters change, if neither a majority of the earlier nor one of the next voters has it. The caller calls it
// after the event in which the leader told of the configuration.
//
// A voter that is gone counts as one that had it.
func (o *Observer) Counts(at env.At, c env.Configured) {
	name, on := o.Name(at), make(map[transport.ID]env.Replica)
	for n, r := range replicas(o.world) {
		if shardOf(n, r) == name {
			on[n.ID] = r
		}
	}
	leader := on[at.Node]
	if !leader.Serving {
		return
	}
	lacks := func(node transport.ID) bool {
		placed := 0 // of two replicas on one node, the earlier one is gone
		for _, p := range c.Replicas {
			if p.Node == node {
				placed++
			}
		}
		r, there := on[node]
		return there && placed < 2 && r.Last < leader.Applied
	}
	most := func(voters []transport.ID) (have bool, without []string) {
		for _, v := range voters {
			if lacks(v) {
				without = append(without, HostOf(o.world, v))
			}
		}
		return 2*len(without) < len(voters), without
	}
	have, without := most(leader.Voters)
	if before, _ := most(leader.Outgoing); !have && !before {
		o.world.Fail(fmt.Errorf("P30 voters: at entry %d of shard %d, the voters come to be %d, and of these %q have not got it, which the leader on %s has applied",
			leader.Applied, name.Shard, len(leader.Voters), without, HostOf(o.world, at.Node)))
	}
}
