package simulate

import (
	"fmt"
	"slices"
	"time"

	"github.com/lockmesh/mesh/simulate/internal/check"
	"github.com/lockmesh/mesh/transport"
)

// inStep watches, once all faults are over, whether every voter of every shard comes to have
// what its leader has, and not just some majority: with one that stays behind, the next fault
// takes the shard.
type inStep struct {
	world *World
	hosts []string                   // whose leaders and voters are judged; nil: all
	upTo  map[check.ShardName]uint64 // what each shard's leader had applied when it was first looked at
	over  bool                       // they all were
}

// stepLook is how often it looks.
const stepLook = 500 * time.Millisecond

// within fails the run unless the voters are in step in d from now.
func (s *inStep) within(d time.Duration) {
	w := s.world
	until := w.now + d
	var look func()
	look = func() {
		switch behind := s.behind(); {
		case len(behind) == 0:
			s.over = true
		case w.now >= until:
			w.Fail(fmt.Errorf("G6 step: %v after all faults ended, not every voter is in step: %q", d, behind))
		default:
			w.after(stepLook, nil, look)
		}
	}
	look()
}

// name is that of the replica's shard.
func (r replica) name() check.ShardName {
	return check.ShardName{Mesh: r.on.node.Mesh(), Generation: r.Generation, Shard: r.Shard}
}

// behind returns a description of each voter that has not applied what its leader had at
// the first look, of each shard without a leader, and of each whose voters are changing. A
// leader outside of the hosts that are judged may not reach all of them: its shard is not judged.
func (s *inStep) behind() (all []string) {
	up := make(map[transport.ID]*Host)
	for h, n := range s.world.living() {
		up[n.id] = h
	}
	replicas := slices.Collect(s.world.replicas())
	led := make(map[check.ShardName]bool)
	for _, r := range replicas {
		if !r.Serving {
			continue
		}
		led[r.name()] = true
		target, looked := s.upTo[r.name()]
		switch {
		case !s.judges(r.host):
			continue
		case !looked:
			s.upTo[r.name()] = r.Applied
			all = append(all, fmt.Sprintf("shard %d has only now a leader", r.Shard))
			continue
		case len(r.Outgoing) > 0 && s.hosts == nil:
			all = append(all, fmt.Sprintf("the voters of shard %d are changing", r.Shard))
			continue
		}
		for _, v := range r.Voters {
			if up[v] != nil && !s.judges(up[v]) || up[v] == nil && s.hosts != nil {
				continue
			}
			i := slices.IndexFunc(replicas, func(o replica) bool { return o.on.id == v && o.name() == r.name() })
			switch host := s.world.hostOf(v); {
			case up[v] == nil:
				all = append(all, fmt.Sprintf("the voter of shard %d on %s is gone", r.Shard, host))
			case i < 0:
				all = append(all, fmt.Sprintf("the node on %s has no replica of shard %d, and is a voter", host, r.Shard))
			case replicas[i].Applied < target:
				all = append(all, fmt.Sprintf("the voter of shard %d on %s has applied %d entries of %d",
					r.Shard, host, replicas[i].Applied, target))
			}
		}
	}
	for _, r := range replicas {
		if !led[r.name()] && s.judges(r.host) { // another one may have a replica of a generation that is over
			led[r.name()] = true
			all = append(all, fmt.Sprintf("nobody leads shard %d", r.Shard))
		}
	}
	return all
}

func (s *inStep) judges(h *Host) bool { return s.hosts == nil || slices.Contains(s.hosts, h.name) }
