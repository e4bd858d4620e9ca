package simulate_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/lockmesh/mesh"
	"github.com/lockmesh/mesh/ring"
	"github.com/lockmesh/mesh/simulate"
)

// Requests, tokens and time: P11 to P18 of the protocol.

func shardOf(key string, shards int) int { return ring.Shard(key, shards) }

// Promise: G4, a request whose answer got lost takes effect once.
// Method: all replies to ann are lost for a while, so that she asks again and again.
var exactlyOnce = scenario{ttl: 10 * time.Second, story: func(s *stage) {
	deaf := func() (stop func()) {
		return s.rule(func(_, to string, w word) simulate.Verdict {
			if to == s.ann && (w.kind == replies || w.kind == answers) {
				return simulate.Drop
			}
			return simulate.Pass
		})
	}
	hear := deaf()
	a := s.ask(s.ann, "k")
	s.sleep(s.draw(time.Second, 2*time.Second))
	hear()
	s.within(2*time.Second, "ann hears of her lock", a.holds)
	hear = deaf()
	a.leave = true
	s.sleep(s.draw(time.Second, 2*time.Second))
	hear()
	s.within(2*time.Second, "ann hears of her unlock", func() bool { return a.over })
	s.must(a.undone == nil, "G4 once: ann's unlock: %v", a.undone)
	b := s.ask(s.bob, "k")
	s.within(time.Second, "G4 once: the key is free after the unlock", b.holds)
}}

func TestP11ExactlyOnce(t *testing.T) { prove(t, exactlyOnce) }

// Promise: G4, a request that arrives after its session's end leaves no grant behind.
// Method: the first copy of ann's request is late by some seconds. Meanwhile a second
// copy got the lock, it was unlocked, and the session closed.
var noGhosts = scenario{story: func(s *stage) {
	sent := false
	s.rule(func(from, _ string, w word) simulate.Verdict {
		if from == s.ann && w.kind == requests && !sent {
			sent = true
			return late(4 * time.Second)
		}
		return simulate.Pass
	})
	s.on(s.ann, func(ctx context.Context, n *mesh.Node) {
		session, err := n.NewSession(ctx)
		s.must(err == nil, "NewSession: %v", err)
		l, err := session.Lock(ctx, "k")
		s.must(err == nil, "Lock: %v", err)
		s.must(l.Unlock(ctx) == nil, "Unlock")
		s.must(session.Close(ctx) == nil, "Close")
	})
	s.sleep(4 * time.Second)
	s.on(s.bob, func(ctx context.Context, n *mesh.Node) {
		l, err := n.TryLock(ctx, "k")
		s.must(err == nil, "G4 orphan grant: nobody holds the key, and TryLock fails: %v", err)
		s.must(l.Unlock(ctx) == nil, "Unlock")
	})
}}

func TestP12NoGhosts(t *testing.T) { prove(t, noGhosts) }

// Promise: G4, who gave up waiting is not granted the key.
// Method: ann gives up while nothing that she says arrives. She holds another key of
// the shard, so that her session lives on.
var cancelUntilAnswered = scenario{clients: 3, story: func(s *stage) {
	s.lock(s.ann, "other")
	b := s.lock(s.bob, "k")
	a := s.ask(s.ann, "k")
	s.sleep(100 * time.Millisecond)
	e := s.ask(s.eve, "k")
	s.sleep(s.draw(0, time.Second))
	spoke := s.mute(s.ann)
	a.leave = true
	s.within(time.Second, "ann gives up", func() bool { return a.over })
	spoke()
	b.unlock()
	s.within(s.ttl+3*time.Second, "G4 orphan grant: eve is next, as ann gave up", e.holds)
}}

func TestP12CancelUntilAnswered(t *testing.T) { prove(t, cancelUntilAnswered) }

// Promise: G5, an old answer ends no newer grant.
// Method: ann's request is late, so that whatever she asks about her session is answered
// with "unknown"; and that answer is later still than her lock.
var oldUnknown = scenario{ttl: 10 * time.Second, story: func(s *stage) {
	lost := true
	s.rule(func(from, to string, w word) simulate.Verdict {
		switch {
		case from == s.ann && w.kind == requests && lost:
			return simulate.Drop
		case to == s.ann && w.kind == answers:
			return late(3 * time.Second)
		}
		return simulate.Pass
	})
	a := s.ask(s.ann, "k")
	s.sleep(s.ttl/3 + s.draw(50*time.Millisecond, 300*time.Millisecond))
	lost = false
	s.within(3*time.Second, "ann gets the key", a.holds)
	s.sleep(4 * time.Second)
	s.must(a.holds(), "G5 lease: ann lost a good lock to an old answer")
}}

func TestP13OldUnknown(t *testing.T) { prove(t, oldUnknown) }

// Promise: G1, an unlock frees the grant that it names and no other of its session.
// Method: ann holds one and two of three permits, and gives the one back; bob wants two.
var releaseNamesToken = scenario{story: func(s *stage) {
	permits := func(host string, n int64) *locker {
		node := s.nodes[host]
		return s.locker(host, simulate.Permits("p", n, 3), func(ctx context.Context) (*mesh.Lock, error) {
			return node.Acquire(ctx, "p", n, 3)
		})
	}
	two := permits(s.ann, 2)
	s.within(time.Second, "ann gets two permits", two.holds)
	one := permits(s.ann, 1)
	s.within(time.Second, "ann gets one more", one.holds)
	b := permits(s.bob, 2)
	s.sleep(s.draw(0, time.Second))
	one.unlock()
	s.sleep(time.Second)
	s.must(!b.answered(), "G1 exclusion: bob got two of three permits, and ann holds two")
	two.unlock()
	s.within(time.Second, "bob gets his permits", b.holds)
}}

func TestP14ReleaseNamesToken(t *testing.T) { prove(t, releaseNamesToken) }

// Promise: G6, a broken pair hinders nobody: another replica passes requests on.
// Method: nothing gets from ann to the leader or back; ann locks, holds on, and unlocks.
func TestP15BrokenPair(t *testing.T) {
	prove(t, scenario{story: func(s *stage) {
		s.PartitionOneWay([]string{s.ann}, []string{s.owner})
		s.PartitionOneWay([]string{s.owner}, []string{s.ann})
		s.sleep(s.draw(0, 8*time.Second))
		a := s.ask(s.ann, "k")
		s.within(3*time.Second, "ann gets the key", a.holds)
		s.sleep(3 * s.ttl)
		s.must(a.holds(), "G6: ann lost a lock that others could have renewed for her")
		b := s.ask(s.bob, "k")
		a.unlock()
		s.must(a.undone == nil, "ann's unlock: %v", a.undone)
		s.within(time.Second, "bob gets the key", b.holds)
	}})
}

// Promise: G3, nobody passes those who wait.
// Method: ann reads; bob waits to write; eve tries to read, and would fit.
var noQueueJumpers = scenario{clients: 3, story: func(s *stage) {
	reader := s.nodes[s.ann]
	a := s.locker(s.ann, simulate.Shared("k"), func(ctx context.Context) (*mesh.Lock, error) { return reader.RLock(ctx, "k") })
	s.within(time.Second, "ann reads", a.holds)
	b := s.ask(s.bob, "k")
	s.sleep(s.draw(100*time.Millisecond, time.Second))
	s.on(s.eve, func(ctx context.Context, n *mesh.Node) {
		_, err := n.TryRLock(ctx, "k")
		s.must(errors.Is(err, mesh.ErrLocked), "G3 order: TryRLock passes a writer who waits: %v", err)
	})
	a.unlock()
	s.within(time.Second, "bob writes", b.holds)
}}

func TestP16TryWaitsForNobody(t *testing.T) { prove(t, noQueueJumpers) }

// Promise: G2, every grant has a token of its own, and later ones have larger ones,
// also after a failover and a move to a new replica.
// Method: readers are let in together; then each of the first replicas dies in turn and
// comes back empty.
func TestP17Tokens(t *testing.T) {
	prove(t, scenario{clients: 3, story: func(s *stage) {
		b := s.lock(s.bob, "k")
		var readers []*locker
		for _, host := range []string{s.ann, s.eve, s.bob} {
			n := s.nodes[host]
			readers = append(readers, s.locker(host, simulate.Shared("k"), func(ctx context.Context) (*mesh.Lock, error) { return n.RLock(ctx, "k") }))
			s.sleep(50 * time.Millisecond)
		}
		b.unlock()
		var tokens []uint64
		for _, r := range readers {
			s.within(time.Second, "the readers get in", r.holds)
			tokens = append(tokens, r.lock.Token())
		}
		for _, r := range readers {
			r.unlock()
		}
		for _, host := range []string{s.owner, s.heir, s.third} {
			s.sleep(s.draw(0, time.Second))
			s.restart(host)
			l := s.lock(s.ann, "k")
			tokens = append(tokens, l.lock.Token())
			l.unlock()
		}
		s.must(slices.IsSorted(tokens) && len(slices.Compact(tokens)) == 6, "G2 tokens: %v", tokens)
		s.must(tokens[5] < 1<<53, "G2 tokens: %v", tokens)
	}})
}

// restart kills a host's process, starts another one, and waits until the mesh is whole.
func (s *stage) restart(host string) {
	s.Crash(host)
	delete(s.nodes, host)
	s.sleep(s.draw(0, time.Second))
	s.Restart(host)
	s.within(20*time.Second, host+" is back", func() bool { return s.nodes[host] != nil && s.healthy() })
}

// Promise: G8, the time of day decides nothing.
// Method: clocks step by years, ahead and back, while ann holds, bob has a longest
// hold, and eve waits.
func TestP18TableTime(t *testing.T) {
	prove(t, scenario{clients: 3, ttl: 10 * time.Second, story: func(s *stage) {
		const years = 24 * 365 * time.Hour
		a := s.lock(s.ann, "k")
		e := s.ask(s.eve, "k")
		b := s.lock(s.bob, "fixed", mesh.MaxHold(10*time.Second))
		for i, host := range []string{s.owner, s.heir, s.third, s.ann, s.bob} {
			s.ClockStep(host, years*time.Duration(40-20*i))
			s.sleep(time.Second)
		}
		s.must(a.holds() && b.holds() && !e.answered(), "G8 clocks: a clock step ended a lock")
		s.depose(s.ctx)
		s.sleep(time.Second)
		s.must(a.holds() && b.holds() && !e.answered(), "G8 clocks: a new leader with another time of day ended a lock")
		s.within(6*time.Second, "bob's longest hold ends", func() bool { return b.over })
		a.unlock()
		s.within(time.Second, "eve gets the key", e.holds)
	}})
}
