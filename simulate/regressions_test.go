package simulate_test

import (
	"context"
	"testing"
	"time"

	"github.com/lockmesh/mesh"
	"github.com/lockmesh/mesh/simulate"
)

// What seeds and scenarios found, one story each.

// Promise: G6, a session that was expired is never taken for alive under its old number.
// Method: ann waits, and is cut off for longer than her lease. When she is back, her
// renewals are slow; a lock with a longest hold, which has a record of its own, tells
// her node the shard's revision; then her first session asks for something else. A
// command that named the newer revision opened a second record under the number of the
// expired one, and who waited under that number waited for ever.
func TestAnExpiredSessionStaysExpired(t *testing.T) {
	prove(t, scenario{story: func(s *stage) {
		b := s.lock(s.bob, "k")
		a := s.ask(s.ann, "k")
		s.sleep(s.draw(time.Second, 2*time.Second))
		heard, spoke := s.deafen(s.ann), s.mute(s.ann)
		s.sleep(s.ttl + time.Second)
		s.rule(func(from, _ string, w word) simulate.Verdict {
			if from == s.ann && w.kind == renews {
				return late(500 * time.Millisecond)
			}
			return simulate.Pass
		})
		heard()
		spoke()
		fixed := s.ask(s.ann, "fixed", mesh.MaxHold(time.Second))
		s.within(3*time.Second, "ann gets another key", fixed.holds)
		other := s.ask(s.ann, "other")
		s.within(3*time.Second, "and one more", other.holds)
		s.sleep(time.Second)
		b.unlock()
		s.within(3*time.Second, "ann gets the key, for which she waits", a.holds)
	}})
}

// Promise: G6, a log entry that got lost on its way is sent again.
// Method: one append to each follower is lost, and no other one comes after it. The
// leader asks with empty appends, which it once saved as needless.
func TestALostAppendIsFound(t *testing.T) {
	prove(t, scenario{story: func(s *stage) {
		s.sleep(s.draw(time.Second, 2*time.Second))
		lost := make(map[string]bool)
		s.rule(func(from, to string, w word) simulate.Verdict {
			if w.appends() && !lost[to] {
				lost[to] = true
				return simulate.Drop
			}
			return simulate.Pass
		})
		b := s.ask(s.bob, "k")
		s.within(time.Second, "bob gets the key", b.holds)
		s.must(len(lost) == 2, "appends were lost to %v", lost)
	}})
}

// Promise: G6, a replica that was removed and never heard of it gives way to its successor.
// Method: a learner hears nothing of the shard while it is removed, and comes back under
// a new ID.
func TestARemovedReplicaGivesWay(t *testing.T) {
	prove(t, scenario{clients: 1, story: func(s *stage) {
		learner, other := s.learners()
		s.boot(learner)
		s.within(20*time.Second, "the learner follows", func() bool { return s.nodes[learner] != nil && s.healthy() })
		s.sleep(s.draw(time.Second, 5*time.Second))
		stop := s.rule(func(_, to string, w word) simulate.Verdict {
			if to == learner && (w.kind == rafts || w.kind == removals) {
				return simulate.Drop
			}
			return simulate.Pass
		})
		s.boot(other)
		s.within(20*time.Second, "the ring names another one", func() bool { return s.nodes[other] != nil && s.healthy() })
		again := false
		s.rule(func(_, to string, w word) simulate.Verdict {
			if to == learner && w.kind == hosts && !again {
				again = true
				stop()
			}
			return simulate.Pass
		})
		s.on(other, func(ctx context.Context, n *mesh.Node) { _ = n.Leave(ctx) })
		delete(s.nodes, other)
		s.within(10*time.Second, "the learner is to be back", func() bool { return again })
		s.sleep(5 * time.Second) // Health is right a few seconds after a change
		s.within(time.Second, "the mesh is whole, as Health tells", s.healthy)
	}})
}

// Promise: G4 and G5, a request that is older than its session's record costs it nothing.
// Method: ann's first request is late. Meanwhile records are deleted, her node hears of
// that through another session, and her second request is granted.
func TestALateFirstRequest(t *testing.T) {
	prove(t, scenario{story: func(s *stage) {
		sent := 0
		s.rule(func(from, _ string, w word) simulate.Verdict {
			if from == s.ann && w.kind == requests {
				if sent++; sent == 1 {
					return late(s.draw(time.Second, 2*time.Second))
				}
			}
			return simulate.Pass
		})
		first := s.ask(s.ann, "first")
		s.lock(s.bob, "fixed", mesh.MaxHold(time.Second)).unlock()
		s.lock(s.ann, "fixed", mesh.MaxHold(time.Second)).unlock()
		s.lock(s.bob, "fixed", mesh.MaxHold(time.Second)).unlock()
		second := s.ask(s.ann, "second")
		s.within(2*time.Second, "ann gets both keys", func() bool { return first.holds() && second.holds() })
		s.sleep(2 * s.ttl)
		s.must(first.holds() && second.holds(), "G5 lease: ann lost a lock")
	}})
}
