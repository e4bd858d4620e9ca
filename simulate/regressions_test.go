package simulate_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"go.etcd.io/raft/v3/raftpb"

	"github.com/lockmesh/mesh"
	"github.com/lockmesh/mesh/internal/message"
	"github.com/lockmesh/mesh/internal/replica"
	"github.com/lockmesh/mesh/simulate"
	"github.com/lockmesh/mesh/transport"
)

// What seeds and scenarios found, one story each.

// Promise: G6, a session that was expired is never taken for alive under its old number.
// Method: ann waits, and is cut off for longer than her lease. When she is back, her
// renewals are slow; a lock with a longest hold, which has a record of its own, tells
// her node the shard's revision; then her first session asks for something else. A
// command that named the newer revision opened a second record under the number of the
// expired one, and a call that waited under that number waited for ever.
func TestAnExpiredSessionStaysExpired(t *testing.T) {
	prove(t, scenario{story: func(s *stage) {
		b := s.lock(s.bob, "k")
		a := s.ask(s.ann, "k")
		s.sleep(s.draw(time.Second, 2*time.Second))
		back := s.rule(simulate.Drop, func(f simulate.Frame) bool {
			return f.Kind == transport.KindShard && (f.From == s.ann || f.To == s.ann)
		})
		s.sleep(s.ttl + time.Second)
		s.rule(simulate.Verdict(500*time.Millisecond), func(f simulate.Frame) bool { return f.From == s.ann && f.Says("renewal") })
		back()
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
		s.rule(simulate.Drop, func(f simulate.Frame) bool {
			if !appends(f) || lost[f.To] {
				return false
			}
			lost[f.To] = true
			return true
		})
		b := s.ask(s.bob, "k")
		s.within(time.Second, "bob gets the key", b.holds)
		s.must(len(lost) == 2, "appends were lost to %v", lost)
	}})
}

// appends tells whether a frame brings entries of a log.
func appends(f simulate.Frame) bool {
	return slices.ContainsFunc(f.Messages(), func(m string) bool { return strings.HasPrefix(m, "append ") && m != "append 0" })
}

// Promise: G6, a replica that was removed and never heard of it gives way to its successor.
// Method: the spare one takes the place of a node that died, and hears nothing of the shard while it is removed,
// since that node is back. When that one dies again, the spare one is wanted under a new ID.
func TestARemovedReplicaGivesWay(t *testing.T) {
	prove(t, scenario{clients: 1, spares: 1, story: func(s *stage) {
		follows, removed := false, false
		s.Net.Rule(func(f simulate.Frame) simulate.Verdict {
			follows = follows || f.To == s.spare && f.Says("host a replica")
			removed = removed || f.To == s.spare && f.Says("you are removed")
			return simulate.Pass
		})
		s.Host(s.third).Crash()
		delete(s.nodes, s.third)
		s.within(20*time.Second, "the spare one follows", func() bool { return follows && s.healthy() })
		s.sleep(s.draw(time.Second, 5*time.Second))
		follows = false
		s.rule(simulate.Drop, func(f simulate.Frame) bool {
			return f.To == s.spare && f.Kind == transport.KindShard && (!follows || f.Says("you are removed"))
		})
		s.Host(s.third).Restart()
		s.within(20*time.Second, "the third is back", func() bool { return s.nodes[s.third] != nil && removed && s.healthy() })
		s.sleep(time.Second)
		s.Host(s.third).Crash()
		delete(s.nodes, s.third)
		s.within(20*time.Second, "the spare one is to be back", func() bool { return follows })
		s.sleep(5 * time.Second) // Health is right a few seconds after a change
		s.within(time.Second, "the mesh is whole, as Health tells", s.healthy)
		s.Host(s.third).Restart()
	}})
}

// Promise: G4 and G5, a request that is older than its session's record costs it nothing.
// Method: ann's first request is late. Meanwhile records are deleted, her node hears of
// that through another session, and her second request is granted.
func TestALateFirstRequest(t *testing.T) {
	prove(t, scenario{story: func(s *stage) {
		sent := false
		s.rule(simulate.Verdict(s.draw(time.Second, 2*time.Second)), func(f simulate.Frame) bool {
			if sent || f.From != s.ann || !f.Says("lock first") {
				return false
			}
			sent = true
			return true
		})
		first := s.ask(s.ann, "first")
		s.lock(s.bob, "fixed", mesh.MaxHold(time.Second)).unlock()
		s.lock(s.ann, "fixed", mesh.MaxHold(time.Second)).unlock()
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
			s.Net.PartitionOneWay([]string{deaf}, []string{s.owner})
			s.Net.PartitionOneWay([]string{s.owner}, []string{deaf})
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

// readers lets so many on a host read a key, and counts those who may.
func (s *stage) readers(host, key string, n int) (let *int) {
	let = new(int)
	for range n {
		s.Host(host).Go("reader", func(ctx context.Context) {
			if _, err := s.nodes[host].RLock(ctx, key); err == nil {
				*let++
			}
		})
	}
	return let
}

// Promise: G6, a waiter hears of its grant, however many others of its session were granted.
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
		let := s.readers(s.ann, "k", readers)
		s.sleep(s.draw(time.Second, 2*time.Second))
		s.rule(simulate.Drop, func(f simulate.Frame) bool { return f.To == s.ann && f.Says("granted") })
		writer.unlock()
		s.within(2*s.ttl, "all readers are let in", func() bool { return *let == readers })
		s.must(other.Err() == nil, "G5 lease: ann lost a lock")
	}})
}

// Promise: G6, however many grants of one session are lost, its callers hear of them soon.
// Method: a thousand readers of ann's node are let in at once, and nothing but the answers to
// renewals tells her so. Each repeated 64 of them, and the next was asked for a third of the
// TTL later: the last reader waited for 15 s, and with the default lease for 51 s. Then the
// same where ann's node and the leader do not hear each other.
func TestAThousandLostGrants(t *testing.T) { prove(t, thousandLostGrants) }

var thousandLostGrants = scenario{clients: 3, story: func(s *stage) {
	const readers = 1000
	for i, host := range []string{s.ann, s.eve} {
		key := fmt.Sprint("k", i)
		writer := s.lock(s.bob, key)
		let := s.readers(host, key, readers)
		s.sleep(s.draw(time.Second, 2*time.Second))
		s.rule(simulate.Drop, func(f simulate.Frame) bool { return f.To == host && f.Says("granted") })
		if host == s.eve {
			s.Net.PartitionOneWay([]string{host}, []string{s.owner})
			s.Net.PartitionOneWay([]string{s.owner}, []string{host})
			s.sleep(2 * s.ttl)
		}
		writer.unlock()
		s.within(s.ttl, "all readers are let in", func() bool { return *let == readers })
	}
}}

// Promise: G6, grants that come too late to be believed cost one question, however many they are.
// Method: the answers to ann's renewals are lost until she believes in nothing any more; then
// a thousand of her readers are let in. Each grant asked for itself whether her session lives.
func TestAThousandLateGrants(t *testing.T) {
	const readers = 1000
	prove(t, scenario{story: func(s *stage) {
		writer := s.lock(s.bob, "k")
		let := s.readers(s.ann, "k", readers)
		s.sleep(time.Second)
		heal := s.rule(simulate.Drop, func(f simulate.Frame) bool { return f.To == s.ann && f.Says("renewal answered") })
		s.sleep(2 * s.ttl)
		renewals := 0
		s.rule(simulate.Drop, func(f simulate.Frame) bool {
			for _, m := range f.Messages() {
				if f.From == s.ann && m == "renewal" {
					renewals++
				}
			}
			return false
		})
		heal()
		writer.unlock()
		s.within(s.ttl, "all readers are let in", func() bool { return *let == readers })
		s.must(renewals < 50, "ann has sent %d renewals", renewals)
	}})
}

// Promise: G6, a waiter hears of its grant, whichever renewals are lost.
// Method: as above, with every other renewal lost, as it is for a node that its leader never
// hears without help. When the number of a renewal said which results were next, those that
// arrived had even numbers, and all asked for the same half.
func TestAnswersRepeatEveryResultThoughRenewalsAreLost(t *testing.T) {
	const readers = 70
	prove(t, scenario{story: func(s *stage) {
		writer := s.lock(s.bob, "k")
		let := s.readers(s.ann, "k", readers)
		s.sleep(s.draw(time.Second, 2*time.Second))
		renewals := 0
		s.rule(simulate.Drop, func(f simulate.Frame) bool {
			if f.From == s.ann && f.Says("renewal") {
				renewals++
				return renewals%2 == 1
			}
			return f.To == s.ann && f.Says("granted")
		})
		writer.unlock()
		s.within(3*s.ttl, "all readers are let in", func() bool { return *let == readers })
	}})
}

// Promise: G6, a caller that extends a lock is answered when it is unlocked meanwhile.
// Method: two extend a lock of fixed length at once, so that one waits for the other; what
// they send is lost, and a third unlocks it. The second was never told.
func TestExtendsEndWithTheirLock(t *testing.T) {
	prove(t, scenario{story: func(s *stage) {
		var l *mesh.Lock
		var err error
		s.on(s.ann, func(ctx context.Context, n *mesh.Node) { l, err = n.Lock(ctx, "k", mesh.MaxHold(s.ttl)) })
		s.must(err == nil, "ann locks: %v", err)
		s.rule(simulate.Drop, func(f simulate.Frame) bool { return f.From == s.ann && f.Says("fix") })
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
// Method: of three nodes one is cut off from the leader for so long that it loses its vote. The leader
// leaves; what tells its successor to lead is lost, until it leaves without that. The leader
// had taken the other one out of the voters, itself stayed one, and so the last of the three waited
// for it for ever.
func TestALeaverTakesNoMajorityAlong(t *testing.T) {
	w := simulate.New(simulate.Options{Seed: max(*simulate.SeedFlag, 1), Repeat: "go test ./simulate -run '^" + t.Name() + "$'"})
	defer w.Close()
	names := []string{"a", "b", "c"}
	nodes := make(map[string]*mesh.Node)
	for _, name := range names {
		w.Host(name).Boot("node", func(ctx context.Context) {
			n, err := mesh.JoinContext(ctx, []string{"a:7400", "b:7400", "c:7400"}, mesh.WithName(name), mesh.WithBind(":7400"),
				mesh.WithShards(1), mesh.WithLeaseTTL(2*time.Second), mesh.WithMaxTTL(2*time.Second), mesh.WithLogger(simulate.Logger(ctx)))
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
	hosts := hostsOf("a:7400", "b:7400", "c:7400")
	silent, last := hosts[1], hosts[2]
	if leader != hosts[0] {
		t.Fatalf("%s leads, and not the ring's owner", leader)
	}
	w.Net.PartitionOneWay([]string{leader}, []string{silent})
	w.Net.PartitionOneWay([]string{silent}, []string{leader})
	until("ten seconds", func() bool { return w.Now() > 30*time.Second }, time.Minute)
	stop := w.Net.Rule(func(f simulate.Frame) simulate.Verdict {
		if f.Says("campaign now") {
			return simulate.Drop
		}
		return simulate.Pass
	})
	w.Host(leader).Leave()
	until("the leader is gone", func() bool { return !w.Host(leader).Up() }, time.Minute)
	stop()
	w.Net.Heal()
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

var lateFarewell = scenario{spares: 1, story: func(s *stage) {
	s.lock(s.bob, "k").unlock()
	changes, last := 0, uint64(0)
	s.rule(simulate.Drop, func(f simulate.Frame) bool {
		if f.From != s.owner || f.To == s.third {
			return false
		}
		// A learner comes, takes the leaver's place, and that is that.
		return slices.ContainsFunc(rafts(f), func(m *raftpb.Message) bool {
			for _, e := range m.Entries {
				if f.To == s.heir && e.GetType() != raftpb.EntryNormal && e.GetIndex() > last {
					changes, last = changes+1, e.GetIndex()
				}
			}
			return changes == 3 && m.GetCommit() >= last
		})
	})
	s.Host(s.third).Leave()
	s.within(10*time.Second, "the voters change", func() bool { return changes == 3 })
	s.sleep(s.draw(100*time.Millisecond, 500*time.Millisecond))
	s.Host(s.owner).Crash()
	s.lock(s.bob, "k").unlock()
	s.within(30*time.Second, "the leaver leaves", func() bool { return !s.Host(s.third).Up() })
}}

// rafts returns the messages of raft in a frame.
func rafts(f simulate.Frame) (all []*raftpb.Message) {
	if f.Kind != transport.KindShard {
		return nil
	}
	var r message.Reader
	for r.Reset(f.Body, 1<<20); r.Next(); {
		if f, ok := r.Message.(*replica.Frame); ok {
			all = append(all, f.Message)
		}
	}
	return all
}

// Promise: G6: over a long way, too, no lock is lost because its session lay idle.
// Method: the way is 87 ms long, the shard is never idle, and the session's TTL is as short as
// nine ways there and back. It asks again after every time in which its old lease may serve.
func TestAnIdleSessionFarAway(t *testing.T) {
	t.Parallel()
	const sessionTTL = 1500 * time.Millisecond
	once(t, scenario{story: func(s *stage) {
		s.Net.SetLinks(simulate.Link{Latency: 87 * time.Millisecond})
		over := false
		for i := range 4 {
			node := s.nodes[s.bob]
			s.Host(s.bob).Go("busy", func(ctx context.Context) {
				for !over {
					if l, err := node.Lock(ctx, fmt.Sprint("busy/", i)); err == nil {
						_ = l.Unlock(ctx)
					}
				}
			})
		}
		s.on(s.ann, func(ctx context.Context, n *mesh.Node) {
			session, err := n.NewSession(ctx, mesh.WithTTL(sessionTTL))
			s.must(err == nil, "NewSession: %v", err)
			for idle := time.Duration(0); idle < sessionTTL; idle += 20 * time.Millisecond {
				_ = simulate.Sleep(ctx, idle)
				l, err := session.Lock(ctx, "k")
				s.must(err == nil, "G6: asked again %v after an unlock: %v", idle, err)
				s.must(l.Unlock(ctx) == nil, "G5: lost, asked for again after %v", idle)
			}
		})
		over = true
	}})
}

// Promise: G6: who was cut off for long, and is back, takes nothing from a shard that serves.
// Method: a voter is cut off over a long way, and loses its vote. When it is back, it reaches most of the core before
// it hears what was decided, and that somebody leads. It began another generation of the shard, whose voters fenced
// their replicas.
func TestWhoIsBackFencesNobody(t *testing.T) {
	t.Parallel()
	for _, spares := range []int{0, 2} {
		prove(t, scenario{spares: spares, ttl: 10 * time.Second, story: func(s *stage) {
			s.Net.SetLinks(simulate.Link{Latency: 100 * time.Millisecond, Jitter: 50 * time.Millisecond})
			s.Net.Isolate(s.third)
			s.sleep(s.draw(10*time.Second, 25*time.Second))
			fenced := 0
			s.rule(simulate.Pass, func(f simulate.Frame) bool {
				if f.Says("fenced") {
					fenced++
				}
				return false
			})
			s.Net.Heal()
			s.sleep(10 * time.Second)
			s.must(fenced == 0, "%d replicas were fenced", fenced)
		}})
	}
}

// Promise: G6: who does not hear the leader, and is to lose its vote, takes nothing from a shard that serves.
// Method: over a long way the third and the leader do not hear each other; the change that takes its vote is under way.
func TestABrokenPairOverALongWay(t *testing.T) {
	t.Parallel()
	prove(t, scenario{ttl: 10 * time.Second, story: func(s *stage) {
		s.Net.SetLinks(simulate.Link{Latency: 150 * time.Millisecond, Jitter: 50 * time.Millisecond})
		s.sleep(s.draw(0, 3*time.Second))
		fenced := 0
		s.rule(simulate.Pass, func(f simulate.Frame) bool {
			if f.Says("fenced") {
				fenced++
			}
			return false
		})
		s.Net.PartitionOneWay([]string{s.third}, []string{s.owner})
		s.Net.PartitionOneWay([]string{s.owner}, []string{s.third})
		s.sleep(30 * time.Second)
		s.must(fenced == 0, "%d replicas were fenced", fenced)
	}})
}
