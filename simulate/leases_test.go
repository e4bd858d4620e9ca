package simulate_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"go.etcd.io/raft/v3/raftpb"

	"github.com/lockmesh/mesh"
	"github.com/lockmesh/mesh/simulate"
)

// Leases and sessions: P1 to P10 of the protocol.

// Promise: G5, a holder that is cut off stops before the key is handed on.
// Method: ann's clock is slow, the replicas' clocks are fast, both as far as the bound
// on rates allows; answers are slow. Ann holds and is cut off; bob waits.
var leaseArithmetic = scenario{story: func(s *stage) {
	s.ClockRate(s.ann, -10_000)
	for _, r := range []string{s.owner, s.heir, s.third} {
		s.ClockRate(r, 10_000)
	}
	s.rule(func(_, to string, w word) simulate.Verdict {
		if to == s.ann && w.kind == answers {
			return late(200 * time.Millisecond)
		}
		return simulate.Pass
	})
	s.lock(s.ann, "k")
	b := s.ask(s.bob, "k")
	s.sleep(s.draw(3*time.Second, 5*time.Second))
	s.Isolate(s.ann)
	s.within(s.ttl+3*time.Second, "bob gets the key of ann, who is cut off", b.holds)
}}

func TestP01LeaseArithmetic(t *testing.T) { prove(t, leaseArithmetic) }

// Promise: G1 and G5, a leader that was deposed confirms no renewal.
// Method: the owner and ann, who holds, are cut off from all others, who elect another
// leader; bob waits on that side.
var confirmation = scenario{ttl: time.Second, story: func(s *stage) {
	s.lock(s.ann, "k")
	b := s.ask(s.bob, "k")
	s.sleep(s.draw(time.Second, 3*time.Second))
	s.Partition([]string{s.owner, s.ann})
	s.within(s.ttl+3*time.Second, "bob gets the key on the side of the majority", b.holds)
}}

func TestP02Confirmation(t *testing.T) { prove(t, confirmation) }

// Promise: G5, a leader that was deposed and does not know it expires nobody.
// Method: the owner is cut off from all others for longer than a lease, while ann
// renews hers at its successor; then it comes back.
var noOfficeByForwarding = scenario{story: func(s *stage) {
	a := s.lock(s.ann, "k")
	s.ask(s.bob, "k")
	s.sleep(s.draw(0, time.Second))
	s.Isolate(s.owner)
	s.sleep(s.ttl + s.draw(-time.Second, 2*time.Second))
	s.Heal()
	s.sleep(s.ttl)
	s.must(a.holds(), "G5 lease: ann lost a lease that she renewed")
}}

func TestP03NoOfficeByForwarding(t *testing.T) { prove(t, noOfficeByForwarding) }

// Promise: G1, a session is refused from the moment that its end is appended.
// Method: ann is cut off while she waits, so she does not know that the key became
// hers. When her Expire is appended, it is slow to commit, and she is back.
var expiryAtAppend = scenario{clients: 3, story: func(s *stage) {
	b := s.lock(s.bob, "k")
	s.ask(s.ann, "k")
	s.sleep(time.Second)
	s.ask(s.eve, "k")
	s.sleep(s.draw(100*time.Millisecond, time.Second))
	heard, spoke := s.deafen(s.ann), s.mute(s.ann)
	b.unlock()
	appended := false
	s.rule(func(from, _ string, w word) simulate.Verdict {
		if !appended && s.expires(w, s.ann) {
			appended = true
			heard()
			spoke()
		}
		if appended && from == s.owner && w.is(raftpb.MsgApp) {
			return late(600 * time.Millisecond)
		}
		return simulate.Pass
	})
	s.until("ann's session is expired", func() bool { return appended })
	s.sleep(s.ttl)
}}

func TestP04ExpiryBeginsAtAppend(t *testing.T) { prove(t, expiryAtAppend) }

// Promise: G5, a dead holder's lock ends soon after its lease, also when leaders keep
// changing.
// Method: ann dies; each leader is deposed after 0.8 of a lease.
var changingLeaders = scenario{ttl: 10 * time.Second, story: func(s *stage) {
	s.lock(s.ann, "k")
	b := s.ask(s.bob, "k")
	s.sleep(s.draw(time.Second, 2*time.Second))
	s.PowerOff(s.ann)
	died := s.Now()
	s.Go("deposer", func(ctx context.Context) {
		for !b.answered() {
			if simulate.Sleep(ctx, s.ttl*8/10) != nil || b.answered() {
				return
			}
			s.depose(ctx)
		}
	})
	const elections = 2
	s.within(s.ttl+elections*3*time.Second-(s.Now()-died), "bob gets the key of ann, who is dead", b.holds)
}}

func TestP05DeadHolderUnderChangingLeaders(t *testing.T) { prove(t, changingLeaders) }

// depose cuts the leader off until another one serves.
func (s *stage) depose(ctx context.Context) {
	led := s.Serving(0)
	if len(led) != 1 {
		return
	}
	s.Isolate(led[0])
	for s.leads(led[0]) || len(s.Serving(0)) == 0 {
		if simulate.Sleep(ctx, time.Millisecond) != nil {
			return
		}
	}
	s.Heal()
}

// Promise: G5, elections cost no living holder its lock.
// Method: leaders are deposed one after the other while ann holds.
func TestP05LivingHolderUnderChangingLeaders(t *testing.T) {
	prove(t, scenario{ttl: 10 * time.Second, story: func(s *stage) {
		a := s.lock(s.ann, "k")
		s.ask(s.bob, "k")
		for range 6 {
			s.sleep(s.draw(time.Second, 4*time.Second))
			s.depose(s.ctx)
		}
		s.must(a.holds(), "G5 lease: ann lost her lock to an election")
	}})
}

// Promise: G1, a grant that comes after the lease is no hold.
// Method: ann waits; the grant is on its way to her for longer than her lease lasts,
// and nothing that she says arrives. The key goes on to eve.
var lateGrant = scenario{clients: 3, story: func(s *stage) {
	b := s.lock(s.bob, "k")
	s.ask(s.ann, "k")
	s.sleep(time.Second)
	e := s.ask(s.eve, "k")
	s.sleep(s.draw(0, time.Second))
	s.rule(func(_, to string, w word) simulate.Verdict {
		if to == s.ann && w.kind == replies {
			return late(s.ttl + 500*time.Millisecond)
		}
		return simulate.Pass
	})
	spoke := s.mute(s.ann)
	b.unlock()
	s.within(s.ttl+3*time.Second, "eve gets the key after ann's lease", e.holds)
	s.sleep(time.Second)
	spoke()
	s.sleep(s.ttl)
}}

func TestP06LateGrant(t *testing.T) { prove(t, lateGrant) }

// Promise: G5, a lock with a longest hold ends with it, though its node lives.
// Method: ann waits for a lock of two seconds behind bob, and overstays; eve is next.
func TestP07OwnTerms(t *testing.T) {
	prove(t, scenario{clients: 3, story: func(s *stage) {
		b := s.lock(s.bob, "k")
		a := s.ask(s.ann, "k", mesh.MaxHold(2*time.Second))
		s.sleep(s.draw(0, 5*time.Second))
		b.unlock()
		s.within(time.Second, "ann gets the key", a.holds)
		e := s.ask(s.eve, "k")
		s.within(5*time.Second, "eve gets the key after ann's two seconds", e.holds)
		s.must(a.told != 0 && a.told <= e.granted, "G5 lease: ann was told at %v, and eve granted at %v", a.told, e.granted)
		s.must(a.told-a.granted <= 2*time.Second, "P7: ann held for %v", a.told-a.granted)
		s.must(errors.Is(context.Cause(a.lock.Context()), mesh.ErrLost), "P7: ann's lock ended with %v", context.Cause(a.lock.Context()))
	}})
}

// Promise: G1, whoever unlocks has stopped before anybody else begins.
// Method: ann unlocks, and the answers to her are late; bob waits.
var holderStopsFirst = scenario{story: func(s *stage) {
	a := s.lock(s.ann, "k")
	b := s.ask(s.bob, "k")
	s.sleep(s.draw(0, time.Second))
	s.rule(func(_, to string, w word) simulate.Verdict {
		if to == s.ann && w.kind == replies {
			return late(time.Second)
		}
		return simulate.Pass
	})
	a.leave = true
	s.within(time.Second, "bob gets the key", b.holds)
	s.must(!a.over, "the answer to ann was to be late")
}}

func TestP08HolderStopsFirst(t *testing.T) { prove(t, holderStopsFirst) }

// Promise: P9, a user's session has one fate; the node's own loses only what is in the
// shard that it lost.
// Method: a session of ann holds keys in two shards, ann's node itself another one in
// the first. Then nothing of what ann says to the second shard arrives.
func TestP09OneFate(t *testing.T) {
	prove(t, scenario{shards: 8, story: func(s *stage) {
		first, second, own := s.keyIn(0, "x"), s.keyIn(5, "x"), s.keyIn(0, "y")
		var session *mesh.Session
		s.on(s.ann, func(ctx context.Context, n *mesh.Node) {
			var err error
			session, err = n.NewSession(ctx)
			s.must(err == nil, "NewSession: %v", err)
		})
		o := s.lock(s.ann, own)
		var held []*locker
		for _, key := range []string{first, second} {
			l := s.locker(s.ann, simulate.Exclusive(key), func(ctx context.Context) (*mesh.Lock, error) { return session.Lock(ctx, key) })
			s.within(2*time.Second, "ann's session locks", l.holds)
			held = append(held, l)
		}
		s.sleep(s.draw(0, s.ttl))
		s.rule(func(from, _ string, w word) simulate.Verdict {
			if from == s.ann && w.shard == 5 {
				return simulate.Drop
			}
			return simulate.Pass
		})
		s.within(s.ttl, "the session ends", func() bool { return session.Err() != nil })
		s.sleep(10 * time.Millisecond)
		s.must(errors.Is(session.Err(), mesh.ErrLost), "P9: the session ended with %v", session.Err())
		s.must(!held[0].holds() && !held[1].holds(), "P9: the session has ended, and its locks are held")
		s.sleep(s.ttl)
		s.must(o.holds(), "P9: the node's own lock in the other shard was lost")
	}})
}

// keyIn returns a key of a shard.
func (s *stage) keyIn(sh int, prefix string) string {
	for i := 0; ; i++ {
		if key := prefix + string(rune('a'+i%26)) + string(rune('a'+i/26)); shardOf(key, s.shards) == sh {
			return key
		}
	}
}

// Promise: G3 and G5, a leader that stalls does not expire those who spoke meanwhile.
// Method: ann waits, and her lease nears its end when the leader stalls; her renewals
// arrive during the stall.
func TestP10Stall(t *testing.T) {
	prove(t, scenario{clients: 3, story: func(s *stage) {
		b := s.lock(s.bob, "k")
		a := s.ask(s.ann, "k")
		s.sleep(100 * time.Millisecond)
		e := s.ask(s.eve, "k")
		s.sleep(s.draw(time.Second, 2*time.Second))
		spoke := s.mute(s.ann)
		s.sleep(1600 * time.Millisecond) // since her last renewal perhaps a second more
		s.Pause(s.owner)
		spoke()
		s.sleep(850 * time.Millisecond)
		s.Resume(s.owner)
		s.sleep(200 * time.Millisecond)
		b.unlock()
		s.within(3*time.Second, "one of them gets the key", func() bool { return a.holds() || e.holds() })
		s.must(a.holds(), "G3 order: ann lost her place to a stall")
	}})
}

// Promise: G6, an expiry hands the key on, without anybody's help.
// Method: ann dies while she holds; bob waits, and nobody else asks for anything.
var expiryWakes = scenario{story: func(s *stage) {
	s.lock(s.ann, "k")
	b := s.ask(s.bob, "k")
	s.sleep(s.draw(100*time.Millisecond, 2*time.Second))
	s.Crash(s.ann)
	s.within(s.ttl+time.Second, "bob gets the key of ann, who is dead", b.holds)
}}

func TestExpiryWakesTheNext(t *testing.T) { prove(t, expiryWakes) }
