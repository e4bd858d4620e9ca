package simulate_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"go.etcd.io/raft/v3/raftpb"

	"github.com/lockmesh/mesh"
	"github.com/lockmesh/mesh/shard"
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
		first, latest := uint64(0), uint64(0) // IDs of the learner's replica
		s.rule(func(_, to string, w word) simulate.Verdict {
			if to == learner && w.kind == hosts {
				if latest = max(latest, w.replica); first == 0 {
					first = latest
				}
			}
			return simulate.Pass
		})
		s.boot(learner)
		s.within(20*time.Second, "the learner follows", func() bool { return first != 0 && s.nodes[learner] != nil && s.healthy() })
		s.sleep(s.draw(time.Second, 5*time.Second))
		s.rule(func(_, to string, w word) simulate.Verdict {
			if to == learner && (w.kind == rafts && latest == first || w.kind == removals) {
				return simulate.Drop
			}
			return simulate.Pass
		})
		s.boot(other)
		s.within(20*time.Second, "the ring names another one", func() bool { return s.nodes[other] != nil && s.healthy() })
		s.sleep(time.Second) // and the learner is removed
		s.on(other, func(ctx context.Context, n *mesh.Node) { _ = n.Leave(ctx) })
		delete(s.nodes, other)
		s.within(20*time.Second, "the learner is to be back", func() bool { return latest > first })
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

// Promise: G5, a holder keeps its lock though it and the shard's leader never hear each other.
// Method: the leader is cut off from the holder and from one follower, both ways, so that
// one node alone can pass on what they say. Each renewal asked the members for a way round,
// one after the other, beginning anew each time, until the lease was over.
func TestABrokenPairKeepsItsLock(t *testing.T) {
	prove(t, scenario{clients: 3, ttl: time.Second, story: func(s *stage) {
		held := s.lock(s.bob, "k")
		s.sleep(s.draw(0, time.Second))
		for _, deaf := range []string{s.bob, s.third} {
			s.PartitionOneWay([]string{deaf}, []string{s.owner})
			s.PartitionOneWay([]string{s.owner}, []string{deaf})
		}
		for range 20 {
			s.sleep(s.ttl)
			s.must(held.holds(), "G5 lease: bob lost the lock")
		}
		s.must(s.leads(s.owner), "the leader has changed, which is not what this is about")
		held.unlock()
		s.lock(s.bob, "k").unlock()
	}})
}

// readers lets so many on ann's host read k, and counts those who may.
func (s *stage) readers(n int) (let *int) {
	let = new(int)
	for range n {
		s.Host(s.ann).Go("reader", func(ctx context.Context) {
			if _, err := s.nodes[s.ann].RLock(ctx, "k"); err == nil {
				*let++
			}
		})
	}
	return let
}

// Promise: G6, who waits hears of its grant, however many others of its session were granted.
// Method: more readers of ann's node wait than an answer repeats results, and what tells
// them of their grants is lost, so that renewals have to. Another session renews in turns
// with theirs: when all of a node's renewals were numbered together, one half of the
// results was repeated for ever, and the other never.
func TestAnswersRepeatEveryResult(t *testing.T) {
	const readers = 70
	prove(t, scenario{story: func(s *stage) {
		writer := s.lock(s.bob, "k")
		var session *mesh.Session
		var other *mesh.Lock
		var err error
		s.on(s.ann, func(ctx context.Context, n *mesh.Node) {
			if session, err = n.NewSession(ctx); err == nil {
				other, err = session.Lock(ctx, "other")
			}
		})
		s.must(err == nil, "a session of its own: %v", err)
		let := s.readers(readers)
		s.sleep(s.draw(time.Second, 2*time.Second))
		s.rule(func(_, to string, w word) simulate.Verdict {
			if to == s.ann && w.kind == replies && w.outcome == 1 { // granted
				return simulate.Drop
			}
			return simulate.Pass
		})
		writer.unlock()
		s.within(2*s.ttl, "all readers are let in", func() bool { return *let == readers })
		s.must(other.Err() == nil, "G5 lease: ann lost a lock")
	}})
}

// Promise: G6, who waits hears of its grant, whichever renewals are lost.
// Method: as above, with every other renewal lost, as it is for a node that its leader never
// hears without help. When the number of a renewal said which results were next, those that
// arrived had even numbers, and all asked for the same half.
func TestAnswersRepeatEveryResultThoughRenewalsAreLost(t *testing.T) {
	const readers = 70
	prove(t, scenario{story: func(s *stage) {
		writer := s.lock(s.bob, "k")
		let := s.readers(readers)
		s.sleep(s.draw(time.Second, 2*time.Second))
		renewals := 0
		s.rule(func(from, to string, w word) simulate.Verdict {
			switch {
			case to == s.ann && w.kind == replies && w.outcome == 1: // granted
				return simulate.Drop
			case from == s.ann && w.kind == renews:
				if renewals++; renewals%2 == 1 {
					return simulate.Drop
				}
			}
			return simulate.Pass
		})
		writer.unlock()
		s.within(3*s.ttl, "all readers are let in", func() bool { return *let == readers })
	}})
}

// Promise: G6, whoever extends a lock is answered when it is unlocked meanwhile.
// Method: two extend a lock of fixed length at once, so that one waits for the other; what
// they send is lost, and a third unlocks it. The second was never told.
func TestExtendsEndWithTheirLock(t *testing.T) {
	prove(t, scenario{story: func(s *stage) {
		var l *mesh.Lock
		var err error
		s.on(s.ann, func(ctx context.Context, n *mesh.Node) { l, err = n.Lock(ctx, "k", mesh.MaxHold(s.ttl)) })
		s.must(err == nil, "ann locks: %v", err)
		s.rule(func(from, _ string, w word) simulate.Verdict {
			if _, claims := w.command.(shard.Claim); from == s.ann && claims {
				return simulate.Drop
			}
			return simulate.Pass
		})
		ended := 0
		for range 2 {
			s.Host(s.ann).Go("extends", func(ctx context.Context) {
				if err := l.Extend(ctx, s.ttl); errors.Is(err, mesh.ErrClosed) {
					ended++
				}
			})
		}
		s.sleep(s.draw(100*time.Millisecond, time.Second))
		s.on(s.ann, func(ctx context.Context, _ *mesh.Node) { err = l.Unlock(ctx) })
		s.must(err == nil, "ann unlocks: %v", err)
		s.within(s.ttl, "both are told", func() bool { return ended == 2 })
	}})
}

// Promise: G6, a node that leaves and cannot hand over takes no majority with it.
// Method: of three nodes one is cut off for so long that it counts as gone. The leader
// leaves; what tells its successor to lead is lost, until it leaves without that. The one
// that was cut off comes back. The leader had taken it out of the voters, itself stayed
// one, and so the last of the three waited for it for ever.
func TestALeaverTakesNoMajorityAlong(t *testing.T) {
	w := simulate.New(simulate.Options{Seed: max(*simulate.SeedFlag, 1), Repeat: "go test ./simulate -run '^" + t.Name() + "$'"})
	defer w.Close()
	names := []string{"a", "b", "c"}
	nodes := make(map[string]*mesh.Node)
	for _, name := range names {
		w.Host(name).Boot("node", func(ctx context.Context) {
			n, err := mesh.JoinContext(ctx, []string{"a:7400", "b:7400", "c:7400"}, mesh.WithName(name), mesh.WithBind(":7400"),
				mesh.WithShards(1), mesh.WithLeaseTTL(2*time.Second), mesh.WithLogger(simulate.Logger(ctx)))
			if err == nil {
				nodes[name] = n
			}
		})
	}
	until := func(what string, cond func() bool, d time.Duration) {
		t.Helper()
		if err := w.RunUntil(cond, d); err != nil {
			t.Fatalf("%s: %v", what, err)
		}
	}
	until("all are there", func() bool { return len(nodes) == 3 && nodes["a"].Health().FullyReplicated }, time.Minute)
	leader := w.Serving(0)[0]
	silent, last := replicasOf(1, 0, names...)[1], replicasOf(1, 0, names...)[2]
	if leader != replicasOf(1, 0, names...)[0] {
		t.Fatalf("%s leads, and not the ring's owner", leader)
	}
	w.Isolate(silent)
	until("ten seconds", func() bool { return w.Now() > 30*time.Second }, time.Minute)
	stop := w.Rule(func(f simulate.Frame) simulate.Verdict {
		for _, m := range words(f) {
			if m.is(raftpb.MsgTimeoutNow) {
				return simulate.Drop
			}
		}
		return simulate.Pass
	})
	w.Leave(leader)
	until("the leader is gone", func() bool { return !w.Host(leader).Up() }, time.Minute)
	stop()
	w.Heal()
	locked := false
	w.Host(last).Go("caller", func(ctx context.Context) {
		ctx, cancel := simulate.WithTimeout(ctx, 15*time.Second)
		defer cancel()
		_, err := nodes[last].Lock(ctx, "k")
		locked = err == nil
	})
	until("the other two grant locks", func() bool { return locked }, 15*time.Second)
}

// Promise: G6, a shard survives the loss of one node, whatever it was about to do.
// Method: a node leaves, so that another one takes its place among the voters. The leader
// learns that the change is committed, the others do not, and the leader crashes. They still
// count the leaver's vote, which it could not give if it had been told to forget the shard
// as soon as the leader knew.
func TestTheRemovedAreNeededForAMoment(t *testing.T) { prove(t, lateFarewell) }

var lateFarewell = scenario{story: func(s *stage) {
	s.lock(s.bob, "k").unlock()
	changes, last := 0, uint64(0)
	s.rule(func(from, to string, w word) simulate.Verdict {
		if from != s.owner || to == s.third {
			return simulate.Pass
		}
		if w.appends() && to == s.heir {
			for _, e := range w.raft.Message.Entries {
				if e.GetType() != raftpb.EntryNormal && e.GetIndex() > last {
					changes, last = changes+1, e.GetIndex()
				}
			}
		}
		// A learner comes, takes the leaver's place, and that is that.
		if changes == 3 && w.kind == rafts && w.raft.Message.GetCommit() >= last {
			return simulate.Drop
		}
		return simulate.Pass
	})
	s.Leave(s.third)
	s.within(10*time.Second, "the voters change", func() bool { return changes == 3 })
	s.sleep(s.draw(100*time.Millisecond, 500*time.Millisecond))
	s.Crash(s.owner)
	s.lock(s.bob, "k").unlock()
	s.within(30*time.Second, "the leaver leaves", func() bool { return !s.Host(s.third).Up() })
}}
