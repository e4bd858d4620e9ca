package simulate_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/lockmesh/mesh"
	"github.com/lockmesh/mesh/simulate"
	"github.com/lockmesh/mesh/simulate/internal/check"
	"github.com/lockmesh/mesh/transport"
)

// TestNobodyReports uses everything that a node offers, without a word to the history:
// which has taken down all of it.
func TestNobodyReports(t *testing.T) {
	const calls, held = 14, 12
	prove(t, scenario{clients: 3, story: func(s *stage) {
		begun, got := s.History().Calls()
		s.on(s.ann, func(ctx context.Context, n *mesh.Node) {
			must := func(l *mesh.Lock, err error) *mesh.Lock {
				s.must(err == nil, "a lock: %v", err)
				return l
			}
			end := func(l *mesh.Lock) { s.must(l.Unlock(ctx) == nil, "Unlock") }
			end(must(n.Lock(ctx, "k")))
			end(must(n.TryLock(ctx, "k")))
			r, again := must(n.RLock(ctx, "rw")), must(n.TryRLock(ctx, "rw"))
			end(r)
			end(again)
			end(must(n.Acquire(ctx, "p", 2, 3)))
			end(must(n.TryAcquire(ctx, "p", 3, 3)))
			s.must(n.Do(ctx, "k", func(ctx context.Context, l *mesh.Lock) error {
				inner := must(n.Lock(ctx, "k", mesh.Reentrant())) // no grant of its own
				end(inner)
				return nil
			}) == nil, "Do")

			timed := must(n.Lock(ctx, "timed", mesh.MaxHold(2*time.Second)))
			s.must(timed.Extend(ctx, s.ttl) == nil, "Extend")
			end(timed)
			timed = must(n.Lock(ctx, "timed", mesh.MaxHold(time.Second)))
			_ = simulate.Wait(ctx, timed.Lost()) // it ends by itself

			session, err := n.NewSession(ctx)
			s.must(err == nil, "NewSession: %v", err)
			_ = must(session.Lock(ctx, "mine"))
			must(n.RLock(ctx, "shared")).Context() // held to the end
			_, err = n.TryLock(ctx, "mine")
			s.must(errors.Is(err, mesh.ErrLocked), "TryLock of what a session holds: %v", err)
			s.must(session.Close(ctx) == nil, "Close")
			end(must(n.Lock(ctx, "mine")))

			wait, cancel := simulate.WithTimeout(ctx, 300*time.Millisecond)
			defer cancel()
			_, err = n.Lock(wait, "shared")
			s.must(errors.Is(err, context.DeadlineExceeded), "Lock of what is held: %v", err)
		})
		allBegun, allGot := s.History().Calls()
		s.must(allBegun-begun == calls && allGot-got == held, "%d calls and %d holds were taken down, of %d and %d", allBegun-begun, allGot-got, calls, held)
	}})
}

// TestReportedCalls: what its actor reports is taken down once, also when it tries again
// before it reports; and who reports another call than it makes is told so.
func TestReportedCalls(t *testing.T) {
	prove(t, scenario{story: func(s *stage) {
		begun, held := s.History().Calls()
		l := s.lock(s.ann, "k")
		tries := 0
		again := s.locker(s.bob, check.Exclusive("k"), func(ctx context.Context) (*mesh.Lock, error) {
			for {
				tries++
				lock, err := s.nodes[s.bob].TryLock(ctx, "k")
				if err == nil || ctx.Err() != nil {
					return lock, err
				}
				_ = simulate.Sleep(ctx, 10*time.Millisecond)
			}
		})
		s.sleep(100 * time.Millisecond)
		l.unlock()
		s.within(time.Second, "bob is next", again.holds)
		again.unlock()
		allBegun, allHeld := s.History().Calls()
		s.must(tries > 2 && allBegun == begun+2 && allHeld == held+2, "%d calls, %d holds, %d tries", allBegun-begun, allHeld-held, tries)
	}})
	noticed(t, scenario{story: func(s *stage) {
		l := s.locker(s.ann, check.Exclusive("k"), func(ctx context.Context) (*mesh.Lock, error) { return s.nodes[s.ann].RLock(ctx, "k") })
		s.within(time.Second, "ann reads", l.holds)
	}}, `simulate: `)
}

// silent is a load of users that report nothing: each locks, works, and unlocks, over
// and over; some only read, and one takes locks of fixed length.
var silent = scenario{clients: 3, story: func(s *stage) {
	until, busy := s.Now()+20*time.Second, 0
	for i, host := range []string{s.ann, s.bob, s.eve, s.bob, s.ann} {
		busy++
		s.Host(host).Go("user", func(ctx context.Context) {
			defer func() { busy-- }()
			n := s.nodes[host]
			for s.Now() < until {
				var opts []mesh.LockOption
				if i == 2 {
					opts = append(opts, mesh.MaxHold(time.Second))
				}
				lock := n.Lock
				if i%2 == 1 || i == 4 {
					lock = n.RLock
				}
				l, err := lock(ctx, "k", opts...)
				if err == nil {
					_ = simulate.Sleep(l.Context(), s.draw(0, 100*time.Millisecond))
					_ = l.Unlock(ctx)
				}
			}
		})
	}
	s.within(time.Minute, "the users are done", func() bool { return busy == 0 })
}}

// TestNobodyReportsBugs: what the mutants LateBelief and QueueJumpers do is noticed while nobody
// reports.
func TestNobodyReportsBugs(t *testing.T) { prove(t, silent) }

// noticed plays a scenario that breaks a promise, until a checker notices.
func noticed(t *testing.T, sc scenario, want string) {
	t.Helper()
	for seed := uint64(1); seed <= 200; seed++ {
		if err := sc.play(seed); err != nil {
			if said, _, _ := strings.Cut(err.Error(), "\n"); !strings.HasPrefix(said, want) {
				t.Errorf("%s, want %q", said, want)
			} else {
				t.Logf("seed %d: %s", seed, said)
			}
			return
		}
	}
	t.Error("not noticed in 200 seeds")
}

// Promise: G4, a grant that no client knows of does not stay.
// Method: ann gives up while nothing that she says arrives; her session lives on.
var noOrphans = scenario{story: func(s *stage) {
	s.lock(s.ann, "other")
	b := s.lock(s.bob, "k")
	a := s.ask(s.ann, "k")
	s.sleep(100 * time.Millisecond)
	spoke := s.rule(simulate.Drop, func(f simulate.Frame) bool { return f.From == s.ann && f.Kind == transport.KindShard })
	a.leave = true
	s.within(time.Second, "ann gives up", func() bool { return a.over })
	spoke()
	b.unlock()
	s.sleep(s.ttl + 3*time.Second)
	orphans := s.History().Orphans()
	s.must(len(orphans) == 0, "G4 orphans: %q", orphans)
}}

func TestOrphans(t *testing.T) { prove(t, noOrphans) }

// TestTwoMeshes: a world has one mesh at a time, unless its scenario says otherwise.
func TestTwoMeshes(t *testing.T) {
	one := scenario{story: func(s *stage) {
		s.seeds = []string{"x" + stagePort} // x is to be a client, and is told that it is the core
		s.boot("x", mesh.WithFound())
		s.within(30*time.Second, "x founds a mesh", func() bool { return s.nodes["x"] != nil })
	}}
	noticed(t, one, "G1 founding")
}

// Promise: G1, a replica that learns everything from a snapshot is like the others.
// Method: ann holds, bob waits; a replica dies, and starts again with empty memory.
var newReplica = scenario{story: func(s *stage) {
	l := s.lock(s.ann, "k")
	b := s.ask(s.bob, "k")
	s.sleep(s.draw(0, time.Second))
	s.on(s.heir, func(ctx context.Context, n *mesh.Node) { // and does nothing else
		_, err := n.Lock(ctx, "kept")
		s.must(err == nil, "Lock: %v", err)
	})
	s.Host(s.third).Crash()
	delete(s.nodes, s.third)
	s.sleep(7 * time.Second)
	s.Host(s.third).Restart()
	s.within(time.Minute, "the third is back", func() bool { return s.nodes[s.third] != nil && s.healthy() })
	l.unlock()
	s.within(time.Second, "bob is next", b.holds)
}}

// TestTablesAreCompared: after each entry by what happened, and in the end as a whole.
func TestTablesAreCompared(t *testing.T) {
	prove(t, newReplica)
}

// TestNothingIsLeftBehind: when a world is closed, no actor of it is left, whether it
// worked, waited for a lock, or never began. And while it lives nobody waits whom
// nobody would wake: closing a node ends all calls of it.
func TestNothingIsLeftBehind(t *testing.T) {
	others := goleak.IgnoreCurrent()
	sc := scenario{story: func(s *stage) {
		s.on(s.bob, func(ctx context.Context, n *mesh.Node) {
			_, err := n.Lock(ctx, "k")
			s.must(err == nil, "Lock: %v", err)
		})
		for i := range 5 {
			s.Host(s.ann).Go(fmt.Sprint("waiter", i), func(ctx context.Context) {
				n := s.nodes[s.ann]
				_, _ = n.Lock(ctx, "k")
			})
		}
		s.sleep(time.Second)
		s.must(len(s.Parked()) == 5, "%q wait, and not 5", s.Parked())
		s.on(s.ann, func(ctx context.Context, n *mesh.Node) { s.must(n.Close() == nil, "Close") })
		s.sleep(time.Second)
		s.must(len(s.Parked()) == 0, "ann's node is closed, and %q wait", s.Parked())
		s.Host(s.heir).Go("late", func(ctx context.Context) { _ = simulate.Sleep(ctx, time.Hour) })
		s.over = true
	}}
	for seed := uint64(1); seed <= 5; seed++ {
		if err := sc.play(seed); err != nil {
			t.Fatal(err)
		}
	}
	goleak.VerifyNone(t, others)
}

// TestThousandWaiters: to hand a key over takes as many messages among a thousand who
// wait for it as among ten (Consul #7523 woke them all).
func TestThousandWaiters(t *testing.T) {
	perHandover := func(waiters int) float64 {
		var handovers, messages, counted int
		sc := scenario{clients: 3, story: func(s *stage) {
			first := s.lock(s.ann, "k")
			granted := 0
			for i := range waiters {
				host := []string{s.ann, s.bob, s.eve}[i%3]
				s.Host(host).Go("waiter", func(ctx context.Context) {
					l, err := s.nodes[host].Lock(ctx, "k")
					s.must(err == nil, "Lock: %v", err)
					granted++
					_ = l.Unlock(ctx)
				})
			}
			s.sleep(2 * time.Second) // all have their place
			s.Net.Rule(func(f simulate.Frame) simulate.Verdict {
				for _, m := range f.Messages() {
					what, _, _ := strings.Cut(m, " ")
					switch what {
					case "lock", "queued", "granted", "unlock", "unlocked", "pass":
						messages++
					}
				}
				if appends(f) {
					messages++
				}
				return simulate.Pass
			})
			first.leave = true
			s.within(time.Minute, "ten of them were granted the key", func() bool { return granted >= 10 })
			handovers, counted = granted, messages
			s.within(time.Minute, "all of them were", func() bool { return granted == waiters })
		}}
		if err := sc.play(1); err != nil {
			t.Fatal(err)
		}
		return float64(counted) / float64(handovers)
	}
	few, many := perHandover(10), perHandover(1000)
	t.Logf("messages for each hand-over: %.1f among 10, %.1f among 1000", few, many)
	// A release, its answer, the grant, and for each of two entries an append to two followers.
	if many > few+2 || many > 10 {
		t.Errorf("%.1f messages for each hand-over among 1000 waiters, %.1f among 10", many, few)
	}
}
