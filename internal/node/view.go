package node

import (
	"github.com/lockmesh/mesh/internal/placement"
	"github.com/lockmesh/mesh/internal/replica"
	"github.com/lockmesh/mesh/ring"
)

// view is what a node believes of its mesh at one moment. Views never change; a new
// one replaces the old, and every lane gets it.
type view struct {
	leaving  bool
	members  []replica.Peer // living, not leaving, this node included; sorted by name
	liveness map[uint64]placement.Liveness
	unknown  placement.Liveness      // of nodes that are not in liveness
	table    *ring.Table             // over members
	byName   map[string]replica.Peer // of members
}

// target returns where the ring wants a shard's replicas.
func (v *view) target(sh int) []replica.Peer {
	if v.table == nil {
		return nil
	}
	return v.peers(v.table.Replicas(sh))
}

// spares returns who comes next where the ring's own do not answer.
func (v *view) standby(sh int) []replica.Peer {
	if v.table == nil {
		return nil
	}
	return v.peers(v.table.Spares(sh))
}

func (v *view) peers(names []string) []replica.Peer {
	peers := make([]replica.Peer, len(names))
	for i, name := range names {
		peers[i] = v.byName[name]
	}
	return peers
}

func (v *view) name(node uint64) (string, bool) {
	for _, m := range v.members {
		if m.Node == node {
			return m.Name, true
		}
	}
	return "", false
}

func (v *view) has(node uint64) bool {
	_, has := v.name(node)
	return has
}
