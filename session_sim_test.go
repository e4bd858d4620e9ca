package mesh_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/lockmesh/mesh"
	"github.com/lockmesh/mesh/simulate"
)

func TestCallsInAMinority(t *testing.T) {
	w := newTrial(t, simulate.Options{Seed: 11}, trialTTL, 3)
	for _, owner := range []string{"a", "b"} {
		key := w.ledBy(owner)
		w.Net.Isolate("a")
		w.at("a", func(ctx context.Context, n *mesh.Node) {
			var wait *mesh.WaitError
			start := simulate.Now(ctx)
			_, err := n.TryLock(ctx, key)
			if !errors.Is(err, mesh.ErrNoQuorum) || !errors.As(err, &wait) || wait.Key != key {
				t.Errorf("TryLock = %v, want ErrNoQuorum in a WaitError", err)
			}
			w.between("TryLock", simulate.Now(ctx)-start, quorumIn, quorumIn+50*time.Millisecond)

			for _, patience := range []time.Duration{quorumIn / 2, quorumIn * 3 / 2} {
				ctx, cancel := simulate.WithTimeout(ctx, patience)
				start := simulate.Now(ctx)
				_, err := n.Lock(ctx, fmt.Sprint(key, "/", patience))
				cancel()
				w.between("Lock", simulate.Now(ctx)-start, patience, patience+50*time.Millisecond)
				if !errors.Is(err, context.DeadlineExceeded) || !errors.As(err, &wait) {
					t.Errorf("Lock = %v, want DeadlineExceeded in a WaitError", err)
				}
			}
		})
		w.Net.Heal()
		w.pass(2 * time.Second)
		if !w.free("a", key) || !w.free("c", key) {
			t.Errorf("owner %s: not free after all", owner)
		}
	}
}

func TestNoQuorumIsSaidOnlyIfItIsSo(t *testing.T) {
	w := newTrial(t, simulate.Options{Seed: 12}, 10*time.Second, 3)
	for _, owner := range []string{"a", "b", "c"} {
		key := w.ledBy(owner)
		l := w.lock("c", key)
		w.at("a", func(ctx context.Context, n *mesh.Node) {
			for _, patience := range []time.Duration{500 * time.Millisecond, 2500 * time.Millisecond, 7 * time.Second} {
				ctx, cancel := simulate.WithTimeout(ctx, patience)
				_, err := n.Lock(ctx, key)
				cancel()
				var wait *mesh.WaitError
				if !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, mesh.ErrNoQuorum) || !errors.As(err, &wait) {
					t.Errorf("Lock of what is held, for %v = %v", patience, err)
				} else if wait.Holder != "c" || wait.Token != l.Token() || !wait.Queued || wait.Ahead != 0 || wait.Leader != owner {
					t.Errorf("%+v", wait)
				}
			}
		})
		// A while after the last answer there is no quorum.
		waited := w.begin("a", func(ctx context.Context, n *mesh.Node) {
			ctx, cancel := simulate.WithTimeout(ctx, 8*time.Second)
			defer cancel()
			if _, err := n.Lock(ctx, key); !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, mesh.ErrNoQuorum) {
				t.Errorf("Lock by a waiter that is cut off = %v, want DeadlineExceeded and ErrNoQuorum", err)
			}
		})
		w.pass(500 * time.Millisecond)
		w.Net.Isolate("a")
		waited()
		w.Net.Heal()
		w.check(w.unlock("c", l, 10*time.Second))
		w.pass(20 * time.Second) // its session ends, and shards go back to their owners
	}
}

func TestACancelledWaiterLeavesNothing(t *testing.T) {
	w := newTrial(t, simulate.Options{Seed: 13}, trialTTL, 3)
	key := w.ledBy("b")
	for i := range 40 { // some of them near the moment of the grant
		l := w.lock("a", key)
		waited := w.begin("c", func(ctx context.Context, n *mesh.Node) {
			short, cancel := simulate.WithTimeout(ctx, 5*time.Millisecond+time.Duration(i)*50*time.Microsecond)
			defer cancel()
			if got, err := n.Lock(short, key); err == nil {
				w.check(got.Unlock(ctx))
			} else if !errors.Is(err, context.DeadlineExceeded) {
				t.Error(err)
			}
		})
		w.pass(5 * time.Millisecond)
		w.check(w.unlock("a", l, time.Second))
		waited()
		w.pass(5 * time.Millisecond)
		if !w.free("a", key) {
			t.Fatalf("try %d: a grant was left behind", i)
		}
	}
	// A waiter that is cut off when it gives up is removed when its session ends, not before.
	l := w.lock("a", key)
	waited := w.begin("c", func(ctx context.Context, n *mesh.Node) {
		ctx, cancel := simulate.WithTimeout(ctx, time.Second)
		defer cancel()
		if _, err := n.Lock(ctx, key); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Lock = %v", err)
		}
	})
	w.pass(500 * time.Millisecond)
	w.Net.Isolate("c")
	waited()
	cut := w.Now()
	w.check(w.unlock("a", l, time.Second))
	l = w.lock("a", key)
	w.between("granted again", w.Now()-cut, time.Second, trialTTL+time.Second)
	w.Net.Heal()
	w.pass(time.Second)
	w.check(w.unlock("a", l, time.Second))
	if !w.free("c", key) {
		t.Error("a grant was left behind")
	}
}

// apart returns two keys whose shards have no host in common, and none on host.
func (w *trial) apart(host string) (one, other string) {
	w.t.Helper()
	for i := range 200 {
		one = fmt.Sprint("one", i)
		at := w.replicas(one)
		if slices.Contains(at, host) {
			continue
		}
		for j := range 200 {
			other = fmt.Sprint("other", j)
			if and := w.replicas(other); !slices.ContainsFunc(and, func(h string) bool { return h == host || slices.Contains(at, h) }) {
				return one, other
			}
		}
	}
	w.t.Fatal("no two such keys")
	return "", ""
}

// Promise: a session that is lost in one shard is lost as a whole, and its locks with it: those of fixed
// length are free at once. The node's own session loses only the locks of that shard.
// Method: a is cut off from all replicas of one shard, and not from those of the other.
func TestWhatIsLostWithOneShard(t *testing.T) {
	w := newTrial(t, simulate.Options{Seed: 14}, trialTTL, 8)
	one, other := w.apart("a")
	t.Logf("%v and %v", w.replicas(one), w.replicas(other))
	skipped := 0 // the first of these keys is for the node's own session
	fixed := w.keyWhere(func(r []string) bool {
		if slices.Equal(r, w.replicas(other)) {
			skipped++
		}
		return skipped == 2
	})
	var s *mesh.Session
	var mine, mine2, own, own2 *mesh.Lock
	w.at("a", func(ctx context.Context, n *mesh.Node) {
		var errs [6]error
		s, errs[0] = n.NewSession(ctx, mesh.WithTTL(2*time.Second))
		if errs[0] != nil {
			t.Error(errs[0])
			return
		}
		mine, errs[1] = s.Lock(ctx, one)
		mine2, errs[2] = s.Lock(ctx, other)
		own, errs[3] = n.RLock(ctx, one+"/own")
		own2, errs[4] = n.RLock(ctx, other+"/own")
		_, errs[5] = s.Lock(ctx, fixed, mesh.MaxHold(trialTTL))
		w.check(errors.Join(errs[:]...))
	})
	if t.Failed() {
		return
	}
	// The node's own locks: one in the shard of the user's first key, one in that of the second.
	ownOne := w.keyWhere(func(r []string) bool { return slices.Equal(r, w.replicas(one)) })
	ownOther := w.keyWhere(func(r []string) bool { return slices.Equal(r, w.replicas(other)) })
	w.check(w.unlock("a", own, time.Second))
	w.check(w.unlock("a", own2, time.Second))
	own, own2 = w.lock("a", ownOne), w.lock("a", ownOther)

	for _, h := range w.replicas(one) {
		w.Net.PartitionOneWay([]string{"a"}, []string{h})
		w.Net.PartitionOneWay([]string{h}, []string{"a"})
	}
	cut := w.Now()
	ownLost := w.begin("a", func(ctx context.Context, _ *mesh.Node) {
		_ = simulate.Wait(ctx, own.Lost())
		w.between("the loss of the node's lock", w.Now()-cut, sure(trialTTL)*2/3-100*time.Millisecond, trialTTL+50*time.Millisecond)
	})
	w.at("a", func(ctx context.Context, _ *mesh.Node) { _ = simulate.Wait(ctx, s.Done()) })
	w.pass(time.Millisecond)
	w.between("the end of the session", w.Now()-cut, sure(2*time.Second)*2/3-100*time.Millisecond, 2*time.Second+50*time.Millisecond)
	if !errors.Is(s.Err(), mesh.ErrLost) || !errors.Is(mine.Err(), mesh.ErrLost) || !errors.Is(mine2.Err(), mesh.ErrLost) || !closed(mine2.Lost()) {
		t.Errorf("session %v, its locks %v and %v", s.Err(), mine.Err(), mine2.Err())
	}
	w.at("a", func(ctx context.Context, _ *mesh.Node) {
		if _, err := s.Lock(ctx, "more"); !errors.Is(err, mesh.ErrLost) {
			t.Errorf("Lock in a session that was lost = %v, want ErrLost", err)
		}
		w.check(s.Close(ctx))
	})
	// The lock with MaxHold is released at once, however long it was to last.
	lost := w.Now()
	l := w.lock("b", fixed)
	w.between("the next grant of the key of fixed length", w.Now()-lost, 0, trialTTL/10)
	w.check(w.unlock("b", l, time.Second))
	// The key in the other shard is free as soon as its table knows, at the latest when the
	// lease ends.
	l = w.lock("b", other)
	w.between("the other key's next grant", w.Now()-cut, sure(2*time.Second)/2, 2*time.Second+2*time.Second)
	w.check(w.unlock("b", l, time.Second))

	// The node's own session loses its lock in the shard that is cut off, and no other.
	ownLost()
	w.pass(5 * time.Second)
	if !errors.Is(own.Err(), mesh.ErrLost) || own2.Err() != nil {
		t.Errorf("the node's locks: %v and %v", own.Err(), own2.Err())
	}
	w.Net.Heal()
	again := w.lock("a", ownOne)
	w.check(w.unlock("a", again, time.Second))
	w.check(w.unlock("a", own2, time.Second))
}

func TestCloseOfASessionFreesAtOnce(t *testing.T) {
	w := newTrial(t, simulate.Options{Seed: 15}, trialTTL, 3)
	var s *mesh.Session
	var locks []*mesh.Lock
	w.at("a", func(ctx context.Context, n *mesh.Node) {
		var err error
		if s, err = n.NewSession(ctx); err != nil {
			t.Error(err)
			return
		}
		for i := range 20 {
			var opts []mesh.LockOption
			if i%3 == 0 {
				opts = append(opts, mesh.MaxHold(2*time.Second))
			}
			l, err := s.Lock(ctx, fmt.Sprint(i), opts...)
			if err != nil {
				t.Error(err)
				return
			}
			locks = append(locks, l)
		}
	})
	if len(locks) != 20 {
		t.FailNow()
	}
	blocked := w.lock("c", "blocked")
	queued := w.begin("a", func(ctx context.Context, _ *mesh.Node) {
		if _, err := s.Lock(ctx, "blocked"); !errors.Is(err, mesh.ErrClosed) {
			t.Errorf("Lock of a session that is closed meanwhile = %v, want ErrClosed", err)
		}
	})
	var waits []func()
	start := w.Now()
	for i := range 20 {
		waits = append(waits, w.begin("b", func(ctx context.Context, n *mesh.Node) {
			l, err := n.Lock(ctx, fmt.Sprint(i))
			if err != nil {
				t.Error(err)
				return
			}
			w.between("the next had it after", w.Now()-start, 100*time.Millisecond, 150*time.Millisecond)
			w.check(l.Unlock(ctx))
		}))
	}
	w.pass(100 * time.Millisecond)
	// Two of the locks are unlocked at the same time.
	unlocks := []func(){
		w.begin("a", func(ctx context.Context, _ *mesh.Node) { w.check(locks[0].Unlock(ctx)) }),
		w.begin("a", func(ctx context.Context, _ *mesh.Node) { w.check(locks[1].Unlock(ctx)) }),
	}
	w.pass(50 * time.Microsecond)
	w.at("a", func(ctx context.Context, _ *mesh.Node) {
		w.check(s.Close(ctx))
		w.check(s.Close(ctx))
	})
	if !closed(s.Done()) || !errors.Is(s.Err(), mesh.ErrClosed) {
		t.Errorf("the session: done %v, %v", closed(s.Done()), s.Err())
	}
	for _, l := range locks[2:] {
		if err := w.unlock("a", l, time.Second); l.Context().Err() == nil || closed(l.Lost()) || !errors.Is(err, mesh.ErrClosed) {
			t.Errorf("a lock: context %v, lost %v, Unlock %v", l.Context().Err(), closed(l.Lost()), err)
		}
	}
	for _, wait := range append(append(waits, unlocks...), queued) {
		wait()
	}
	w.check(w.unlock("c", blocked, time.Second))
	if !w.free("b", "blocked") {
		t.Error("the closed session's place in the queue was left behind")
	}
}

func TestCloseOfASessionThatIsCutOff(t *testing.T) {
	w := newTrial(t, simulate.Options{Seed: 16}, trialTTL, 3)
	key := w.ledBy("b")
	var l *mesh.Lock
	var s *mesh.Session
	w.at("a", func(ctx context.Context, n *mesh.Node) {
		var err error
		if s, err = n.NewSession(ctx); err == nil {
			l, err = s.Lock(ctx, key)
		}
		w.check(err)
	})
	w.Net.Isolate("a")
	cut := w.Now()
	w.at("a", func(ctx context.Context, _ *mesh.Node) {
		done, cancel := simulate.WithCancel(ctx)
		cancel()
		start := simulate.Now(ctx)
		if err := s.Close(done); !errors.Is(err, mesh.ErrUnconfirmed) {
			t.Errorf("Close = %v, want ErrUnconfirmed", err)
		}
		w.between("Close", simulate.Now(ctx)-start, time.Second, 1100*time.Millisecond)
	})
	if l.Context().Err() == nil || closed(l.Lost()) {
		t.Errorf("context %v, lost %v", l.Context().Err(), closed(l.Lost()))
	}
	next := w.lock("c", key)
	w.between("granted after the cut", w.Now()-cut, sure(trialTTL)*2/3-100*time.Millisecond, trialTTL+3*time.Second)
	w.check(w.unlock("c", next, time.Second))
}

// An abandoned session's locks are over for their holder at once, and for others when the lease ends.
func TestAnAbandonedSession(t *testing.T) {
	w := newTrial(t, simulate.Options{Seed: 18}, trialTTL, 3)
	blocked := w.lock("c", "blocked")
	var s *mesh.Session
	var plain, fixed *mesh.Lock
	w.at("a", func(ctx context.Context, n *mesh.Node) {
		var err error
		s, err = n.NewSession(ctx)
		w.check(err)
		plain, err = s.Lock(ctx, "plain")
		w.check(err)
		fixed, err = s.Lock(ctx, "fixed", mesh.MaxHold(trialTTL))
		w.check(err)
	})
	queued := w.begin("a", func(ctx context.Context, _ *mesh.Node) {
		if _, err := s.Lock(ctx, "blocked"); !errors.Is(err, mesh.ErrLost) {
			t.Errorf("Lock of a session that is abandoned meanwhile = %v, want ErrLost", err)
		}
	})
	w.pass(100 * time.Millisecond)
	held := plain.Context()
	start := w.Now()
	w.at("a", func(ctx context.Context, n *mesh.Node) {
		s.Abandon()
		for _, l := range []*mesh.Lock{plain, fixed} {
			if !errors.Is(l.Err(), mesh.ErrLost) || !closed(l.Lost()) {
				t.Errorf("%s: %v, want ErrLost", l.Key(), l.Err())
			}
		}
		if !errors.Is(context.Cause(held), mesh.ErrLost) || !errors.Is(s.Err(), mesh.ErrLost) || !closed(s.Done()) {
			t.Errorf("context %v, session %v", context.Cause(held), s.Err())
		}
		s.Abandon()
		w.check(s.Close(ctx))
		if _, err := s.Lock(ctx, "other"); !errors.Is(err, mesh.ErrLost) {
			t.Errorf("Lock of an abandoned session = %v, want ErrLost", err)
		}
	})
	queued()
	w.check(w.unlock("c", blocked, time.Second))
	w.between("all this took", w.Now()-start, 0, 100*time.Millisecond)
	w.pass(100 * time.Millisecond)
	if !w.free("b", "fixed") {
		t.Error("the lock of fixed length was not released")
	}
	next := w.lock("c", "plain")
	w.between("granted after", w.Now()-start, sure(trialTTL)*2/3-200*time.Millisecond, trialTTL+time.Second)
	w.check(w.unlock("c", next, time.Second))
	if !w.free("b", "blocked") {
		t.Error("the abandoned session's place in the queue stayed")
	}
	(*mesh.Session)(nil).Abandon()
	(&mesh.Session{}).Abandon()
	w.check(w.History().Finish()) // nothing else ailed this world
}

func TestCloseOfANode(t *testing.T) {
	w := newTrial(t, simulate.Options{Seed: 17}, trialTTL, 3)
	key := w.ledBy("b")
	l := w.lock("a", key)
	var s *mesh.Session
	w.at("a", func(ctx context.Context, n *mesh.Node) {
		var err error
		s, err = n.NewSession(ctx)
		w.check(err)
	})
	blocked := w.lock("c", "blocked")
	ends := 0
	for _, call := range []func(context.Context, *mesh.Node) error{
		func(ctx context.Context, n *mesh.Node) error { _, err := n.Lock(ctx, "blocked"); return err },
		func(ctx context.Context, n *mesh.Node) error {
			_, err := n.Lock(ctx, "blocked", mesh.MaxHold(time.Second))
			return err
		},
		func(ctx context.Context, n *mesh.Node) error { _, err := s.Lock(ctx, "blocked"); return err },
		func(ctx context.Context, n *mesh.Node) error { _ = simulate.Wait(ctx, n.Done()); return n.Err() },
		func(ctx context.Context, n *mesh.Node) error { _ = simulate.Wait(ctx, s.Done()); return s.Err() },
	} {
		w.begin("a", func(ctx context.Context, n *mesh.Node) {
			if err := call(ctx, n); !errors.Is(err, mesh.ErrClosed) {
				t.Errorf("a call that waited when its node was closed = %v, want ErrClosed", err)
			}
			ends++
		})
	}
	w.pass(100 * time.Millisecond)
	start := w.Now()
	w.at("a", func(ctx context.Context, n *mesh.Node) {
		w.check(n.Close())
		w.check(n.Close())
		w.check(n.Leave(ctx))
	})
	w.until("all calls end", 100*time.Millisecond, func() bool { return ends == 5 })
	if l.Context().Err() == nil || l.Err() == nil {
		t.Errorf("the lock: context %v, Err %v", l.Context().Err(), l.Err())
	}
	w.at("a", func(ctx context.Context, n *mesh.Node) {
		if err := l.Unlock(ctx); !errors.Is(err, mesh.ErrLost) {
			t.Errorf("Unlock = %v, want ErrLost", err)
		}
		_, err1 := n.Lock(ctx, "x")
		_, err2 := n.TryLock(ctx, "x")
		_, err3 := n.NewSession(ctx)
		_, err4 := s.Lock(ctx, "x")
		for i, err := range []error{err1, err2, err3, err4, n.WaitHealthy(ctx)} {
			if !errors.Is(err, mesh.ErrClosed) {
				t.Errorf("call %d = %v, want ErrClosed", i+1, err)
			}
		}
		_, _, _, _ = n.Members(), n.Health(), n.Stats(), n.Name()
	})
	// Its key is free when the lease ends, not before.
	next := w.lock("c", key)
	w.between("granted after the end", w.Now()-start, sure(trialTTL)*2/3-200*time.Millisecond, trialTTL+time.Second)
	w.check(w.unlock("c", next, time.Second))
	w.check(w.unlock("c", blocked, time.Second))
	if !w.free("b", "blocked") {
		t.Error("the closed node's place in the queue stayed")
	}
}

// Promise: P1, P6, G2, G4: Lock does not return a lock that has already ended, and Extend does not
// return nil for one.
// Method: a slow process is stopped for longer than its lease at every moment between the
// arrival of the answer and the return of the call.
func TestLockAfterAStallIsHeld(t *testing.T) {
	const hold = time.Second
	for _, tt := range []struct {
		call  string
		until answer
		take  func(ctx context.Context, n *mesh.Node, key string) (*mesh.Lock, error)
		want  error
	}{
		{"Lock", answer{1, "granted"}, func(ctx context.Context, n *mesh.Node, key string) (*mesh.Lock, error) {
			return n.Lock(ctx, key)
		}, nil}, // it sends its request again
		{"Lock with MaxHold", answer{1, "fixed"}, func(ctx context.Context, n *mesh.Node, key string) (*mesh.Lock, error) {
			return n.Lock(ctx, key, mesh.MaxHold(hold))
		}, mesh.ErrLost},
		{"Extend", answer{2, "fixed"}, func(ctx context.Context, n *mesh.Node, key string) (*mesh.Lock, error) {
			l, err := n.Lock(ctx, key, mesh.MaxHold(hold))
			if err == nil {
				err = l.Extend(ctx, hold)
			}
			return l, err
		}, mesh.ErrLost},
	} {
		t.Run(tt.call, func(t *testing.T) {
			stalled := 0
			afterAStall(t, tt.until, 20*time.Millisecond, 2*trialTTL, func(ctx context.Context, n *mesh.Node, key string, resumed func() bool) {
				l, err := tt.take(ctx, n, key)
				if !resumed() {
					return // it was stopped too late
				}
				stalled++
				if !errors.Is(err, tt.want) {
					t.Errorf("%v, want %v", err, tt.want)
				} else if err == nil && l.Err() != nil {
					t.Errorf("a lock that has ended: %v", l.Err())
				}
			})
			if stalled < fewer(3, 10) {
				t.Errorf("%d calls were stopped", stalled)
			}
		})
	}
}

// Promise: P16, G2: a TryLock whose lock ended before it returned may still find its own grant in
// the table. It does not report that another caller holds the key.
// Method: as above, for a little less than the lease.
func TestTryAfterAStallMeetsNobody(t *testing.T) {
	lost := 0
	afterAStall(t, answer{1, "granted"}, 40*time.Millisecond, trialTTL*99/100, func(ctx context.Context, n *mesh.Node, key string, _ func() bool) {
		l, err := n.TryLock(ctx, key)
		switch {
		case errors.Is(err, mesh.ErrLost):
			lost++
		case err != nil && !errors.Is(err, mesh.ErrNoQuorum):
			t.Error(err)
		case err == nil:
			_ = l.Unlock(ctx)
		}
	})
	if lost == 0 {
		t.Error("no lock had ended before its TryLock returned")
	}
}

// answer identifies the nth answer of a kind.
type answer struct {
	nth  int
	kind string
}

// afterAStall makes a slow node lock a key. It stops the node for length, once for each delay up
// to latest after the answer was sent to the node.
func afterAStall(t *testing.T, until answer, latest, length time.Duration, take func(ctx context.Context, n *mesh.Node, key string, resumed func() bool)) {
	for delay := time.Duration(0); delay <= latest; delay += fewer(4*time.Millisecond, time.Millisecond) {
		t.Run(fmt.Sprint(delay), func(t *testing.T) {
			w := newTrial(t, simulate.Options{Seed: 3}, trialTTL, 3)
			key := w.ledBy("a")
			w.Host("c").Slow(1000)
			answers, resumed, ended := 0, false, false
			w.Net.Rule(func(f simulate.Frame) simulate.Verdict {
				if f.From != "a" || f.To != "c" || !f.Says(until.kind) {
					return simulate.Pass
				}
				if answers++; answers == until.nth {
					w.At(w.Now()+delay, func() {
						w.Host("c").Pause()
						w.At(w.Now()+length-delay, func() { w.Host("c").Slow(1); w.Host("c").Resume(); resumed = true })
					})
				}
				return simulate.Pass
			})
			w.begin("c", func(ctx context.Context, n *mesh.Node) {
				take(ctx, n, key, func() bool { return resumed })
				ended = true
			})
			w.pass(6 * trialTTL)
			if !resumed || !ended {
				t.Error("the node was not stopped, or did not go on")
			}
		})
	}
}

// A loss is a lock that ended before its Unlock, no matter whether the node or a call of Err
// notices first. A lock that ended by its MaxHold, extended or not, does not count.
func TestWhatCountsAsALoss(t *testing.T) {
	for _, asked := range []bool{false, true} {
		w := newTrial(t, simulate.Options{Seed: 31}, trialTTL, 3)
		n := w.nodes["a"]
		losses := func(what string, want uint64) {
			t.Helper()
			if got := n.Stats().Losses; got != want {
				t.Errorf("asked first (%v): %s: %d losses, want %d", asked, what, got, want)
			}
		}
		// over lets the locks end. If asked is set, Err of each is called before the node notices.
		over := func(d time.Duration, locks ...*mesh.Lock) {
			t.Helper()
			if asked {
				w.Host("a").Stall("shards", d+time.Millisecond)
			}
			w.pass(d)
			for _, l := range locks {
				if asked && !errors.Is(l.Err(), mesh.ErrLost) {
					t.Errorf("%s: %v, want ErrLost", l.Key(), l.Err())
				}
			}
			w.pass(10 * time.Millisecond)
			for _, l := range locks {
				if !errors.Is(context.Cause(l.Context()), mesh.ErrLost) || !closed(l.Lost()) {
					t.Errorf("%s: %v, lost %v", l.Key(), context.Cause(l.Context()), closed(l.Lost()))
				}
			}
		}
		over(time.Second, w.lock("a", "fixed", mesh.MaxHold(time.Second)))
		losses("a fixed end", 0)

		moved := w.lock("a", "moved", mesh.MaxHold(2*time.Second))
		w.at("a", func(ctx context.Context, _ *mesh.Node) { w.check(moved.Extend(ctx, time.Second)) })
		over(time.Second, moved)
		losses("an earlier end", 0)

		unheard := w.lock("a", "unheard", mesh.MaxHold(2*time.Second))
		w.Net.Isolate("a")
		w.begin("a", func(ctx context.Context, _ *mesh.Node) {
			if err := unheard.Extend(ctx, trialTTL); !errors.Is(err, mesh.ErrLost) {
				t.Errorf("Extend = %v, want ErrLost", err)
			}
		})
		over(2*time.Second, unheard)
		w.Net.Heal()
		w.pass(5 * time.Second)
		losses("an end that could not be moved", 0)

		var s *mesh.Session
		var plain, long *mesh.Lock
		w.at("a", func(ctx context.Context, n *mesh.Node) {
			var err error
			s, err = n.NewSession(ctx, mesh.WithTTL(trialTTL/2))
			w.check(err)
			plain, err = s.Lock(ctx, "plain")
			w.check(err)
			long, err = s.Lock(ctx, "long", mesh.MaxHold(trialTTL))
			w.check(err)
		})
		w.Net.Isolate("a")
		over(trialTTL/2, plain)
		w.pass(10 * time.Millisecond)
		if err := long.Err(); !errors.Is(err, mesh.ErrLost) {
			t.Errorf("the locks of a lost session: %v", err)
		}
		losses("a session", 2)
		w.Net.Heal()
	}
}
