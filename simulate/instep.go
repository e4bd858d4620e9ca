package simulate

import (
	"fmt"
	"slices"
	"time"

	"github.com/lockmesh/mesh/internal/env"
	"github.com/lockmesh/mesh/transport"
)

// shardName names a shard's history.
type shardName struct {
	mesh       uint64
	generation uint64
	shard      int
}

// inStep watches, once all faults are over, whether every voter of every shard comes to have
// what its leader has, and not just some majority: with one that stays behind, the next fault
// takes the shard.
type inStep struct {
	world *World
	hosts []string             // whose leaders and voters are judged; nil: all
	upTo  map[shardName]uint64 // what each shard's leader had applied when it was first looked at
	over  bool                 // they all were
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

// behind returns a description of each voter that has not applied what its leader had at
// the first look, of each shard without a leader, and of each whose voters are changing. A
// leader outside of the hosts that are judged may not reach all of them: its shard is not judged.
func (s *inStep) behind() (all []string) {
	type replica struct {
		shardName
		node transport.ID
	}
	w := s.world
	var shards []shardName
	led := make(map[shardName]bool)
	applied := make(map[replica]uint64)
	up := make(map[transport.ID]*Host)
	for h, n := range w.living() {
		up[n.id] = h
		for _, r := range n.node.Replicas() {
			name := shardName{n.node.Mesh(), r.Generation, r.Shard}
			if !slices.Contains(shards, name) {
				shards = append(shards, name)
			}
			applied[replica{name, n.id}] = r.Applied
		}
	}
	for h, n := range w.living() {
		for _, r := range n.node.Replicas() {
			name := shardName{n.node.Mesh(), r.Generation, r.Shard}
			if !r.Serving {
				continue
			}
			led[name] = true
			target, looked := s.upTo[name]
			switch {
			case !s.judges(h):
			case !looked:
				s.upTo[name] = applied[replica{name, n.id}]
				all = append(all, fmt.Sprintf("shard %d has only now a leader", r.Shard))
			case len(r.Outgoing) > 0 && s.hosts == nil:
				all = append(all, fmt.Sprintf("the voters of shard %d are changing", r.Shard))
			default:
				all = append(all, s.late(r, target, up, func(v transport.ID) (uint64, bool) {
					has, is := applied[replica{name, v}]
					return has, is
				})...)
			}
		}
	}
	for _, name := range shards {
		if !led[name] {
			all = append(all, fmt.Sprintf("nobody leads shard %d", name.shard))
		}
	}
	return all
}

func (s *inStep) judges(h *Host) bool { return s.hosts == nil || slices.Contains(s.hosts, h.name) }

// late returns those of a leader's voters that have applied less than target.
func (s *inStep) late(r env.Replica, target uint64, up map[transport.ID]*Host, applied func(transport.ID) (uint64, bool)) (all []string) {
	for _, v := range r.Voters {
		if up[v] != nil && !s.judges(up[v]) || up[v] == nil && s.hosts != nil {
			continue
		}
		switch has, is := applied(v); {
		case up[v] == nil:
			all = append(all, fmt.Sprintf("the voter of shard %d on %s is gone", r.Shard, s.world.hostOf(v)))
		case !is:
			all = append(all, fmt.Sprintf("the node on %s has no replica of shard %d, and is a voter", s.world.hostOf(v), r.Shard))
		case has < target:
			all = append(all, fmt.Sprintf("the voter of shard %d on %s has applied %d entries of %d", r.Shard, s.world.hostOf(v), has, target))
		}
	}
	return all
}
