package mesh_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/lockmesh/mesh"
	"github.com/lockmesh/mesh/simulate"
	"github.com/lockmesh/mesh/transport"
)

const (
	trialTTL = 3 * time.Second
	rho      = 0.01
	quorumIn = 2 * time.Second // 2·E
)

// sure returns the part of a lease that remains whatever the rates of the clocks are.
func sure(ttl time.Duration) time.Duration {
	return time.Duration(float64(ttl) * (1 - rho) / (1 + rho))
}

func closed(ch <-chan struct{}) bool {
	select {
	case <-ch:
		return true
	default:
		return false
	}
}

func TestUnlockWhereAllIsWell(t *testing.T) {
	w := newTrial(t, simulate.Options{Seed: 2}, trialTTL, 3)
	for _, owner := range []string{"a", "b"} { // this node leads the key, or another
		key := w.ledBy(owner)
		l := w.lock("a", key)
		w.check(w.unlock("a", l, time.Second))
		if !w.free("c", key) {
			t.Errorf("%q is not free after Unlock", key)
		}
		w.check(w.unlock("a", l, time.Second)) // returns the first Unlock's result

		// Unlock works with a context that has ended, and does not take its 1 s.
		l = w.lock("a", key)
		w.at("a", func(ctx context.Context, _ *mesh.Node) {
			done, cancel := simulate.WithCancel(ctx)
			cancel()
			start := simulate.Now(ctx)
			w.check(l.Unlock(done))
			w.between("Unlock", simulate.Now(ctx)-start, 0, 100*time.Millisecond)
			w.check(l.Unlock(done))
		})
		if !w.free("c", key) {
			t.Errorf("%q is not free after Unlock with a context that was done", key)
		}
	}
}

func TestTwoUnlocksAtOnce(t *testing.T) {
	w := newTrial(t, simulate.Options{Seed: 3}, trialTTL, 3)
	l := w.lock("a", w.ledBy("b"))
	var waits []func()
	for range 3 {
		waits = append(waits, w.begin("a", func(ctx context.Context, _ *mesh.Node) { w.check(l.Unlock(ctx)) }))
	}
	for _, wait := range waits {
		wait()
	}
	if s := w.nodes["a"].Stats(); s.Releases != 1 {
		t.Errorf("%d releases, want 1", s.Releases)
	}
}

func TestUnlockOfACutOffHolder(t *testing.T) {
	for _, owner := range []string{"a", "b"} {
		w := newTrial(t, simulate.Options{Seed: 4}, trialTTL, 3)
		key := w.ledBy(owner)
		l := w.lock("a", key)
		w.Net.Isolate("a")
		w.at("a", func(ctx context.Context, _ *mesh.Node) {
			done, cancel := simulate.WithCancel(ctx)
			cancel()
			start := simulate.Now(ctx)
			if err := l.Unlock(done); !errors.Is(err, mesh.ErrUnconfirmed) {
				t.Errorf("Unlock with a context that is done = %v, want ErrUnconfirmed", err)
			}
			w.between("it waited", simulate.Now(ctx)-start, time.Second, 1100*time.Millisecond)
			if l.Context().Err() == nil || closed(l.Lost()) || !errors.Is(l.Err(), mesh.ErrClosed) {
				t.Errorf("after Unlock: context %v, lost %v, Err %v", l.Context().Err(), closed(l.Lost()), l.Err())
			}
			short, cancel := simulate.WithTimeout(ctx, 200*time.Millisecond)
			defer cancel()
			if err := l.Unlock(short); !errors.Is(err, mesh.ErrUnconfirmed) {
				t.Errorf("a second Unlock = %v, want ErrUnconfirmed", err)
			}
		})
		// The release is retried, and its answer counts for later calls.
		w.Net.Heal()
		w.pass(1500 * time.Millisecond)
		if err := w.unlock("a", l, time.Second); err != nil {
			t.Errorf("owner %s: Unlock after the release was confirmed = %v", owner, err)
		}
		if !w.free("c", key) {
			t.Errorf("owner %s: not free", owner)
		}
	}
}

func TestAReleaseThatIsNeverConfirmedLapses(t *testing.T) {
	for _, owner := range []string{"a", "b"} {
		w := newTrial(t, simulate.Options{Seed: 5}, trialTTL, 3)
		key := w.ledBy(owner)
		l := w.lock("a", key)
		w.Net.Isolate("a")
		cut := w.Now()
		got := w.begin("c", func(ctx context.Context, n *mesh.Node) {
			next, err := n.Lock(ctx, key)
			if err != nil {
				t.Error(err)
				return
			}
			if next.Token() <= l.Token() {
				t.Errorf("token %d after %d", next.Token(), l.Token())
			}
			w.between("granted after the cut", w.Now()-cut, sure(trialTTL)-trialTTL/3, trialTTL+3*time.Second)
			w.check(next.Unlock(ctx))
		})
		if err := w.unlock("a", l, 300*time.Millisecond); !errors.Is(err, mesh.ErrUnconfirmed) {
			t.Errorf("Unlock = %v, want ErrUnconfirmed", err)
		}
		got()
		if err := w.unlock("a", l, 300*time.Millisecond); !errors.Is(err, mesh.ErrUnconfirmed) {
			t.Errorf("Unlock after the lease = %v, want ErrUnconfirmed", err)
		}
		w.Net.Heal()
		again := w.lock("a", key)
		w.check(w.unlock("a", again, time.Second))
	}
}

func TestUnlockOfALostLock(t *testing.T) {
	w := newTrial(t, simulate.Options{Seed: 6}, trialTTL, 3)
	key := w.ledBy("b")
	l := w.lock("a", key)
	lost := time.Duration(0)
	w.Net.Isolate("a")
	cut := w.Now()
	told := w.begin("a", func(ctx context.Context, _ *mesh.Node) {
		_ = simulate.Wait(ctx, l.Lost())
		lost = w.Now()
		if !errors.Is(context.Cause(l.Context()), mesh.ErrLost) || !errors.Is(l.Err(), mesh.ErrLost) {
			t.Errorf("cause %v, Err %v", context.Cause(l.Context()), l.Err())
		}
		start := simulate.Now(ctx)
		for range 2 {
			if err := l.Unlock(ctx); !errors.Is(err, mesh.ErrLost) {
				t.Errorf("Unlock = %v, want ErrLost", err)
			}
		}
		w.between("Unlock", simulate.Now(ctx)-start, 0, time.Millisecond)
	})
	next := w.lock("c", key)
	taken := w.Now()
	told()
	if lost >= taken || next.Token() <= l.Token() {
		t.Errorf("lost at %v, taken at %v; tokens %d, %d", lost, taken, l.Token(), next.Token())
	}
	w.between("the loss after the cut", lost-cut, sure(trialTTL)-trialTTL/3-100*time.Millisecond, trialTTL)
	w.Net.Heal()
	w.check(w.unlock("c", next, time.Second))
	again := w.lock("a", key)
	w.check(w.unlock("a", again, time.Second))
}

func TestMaxHoldEndsByItself(t *testing.T) {
	const hold = 2 * time.Second
	w := newTrial(t, simulate.Options{Seed: 7}, trialTTL, 3)
	for _, owner := range []string{"a", "b"} {
		key := w.ledBy(owner)
		w.at("a", func(ctx context.Context, n *mesh.Node) {
			before := n.Stats().Renewals
			start := simulate.Now(ctx)
			l, err := n.Lock(ctx, key, mesh.MaxHold(hold))
			if err != nil {
				t.Error(err)
				return
			}
			next := w.begin("c", func(ctx context.Context, n *mesh.Node) {
				next, err := n.Lock(ctx, key)
				if err != nil {
					t.Error(err)
					return
				}
				w.between("the next had it after", simulate.Now(ctx)-start, hold, hold+500*time.Millisecond)
				if !closed(l.Lost()) {
					t.Error("the holder was not told before")
				}
				w.check(next.Unlock(ctx))
			})
			_ = next
			_ = simulate.Wait(ctx, l.Lost())
			w.between("it ended after", simulate.Now(ctx)-start, sure(hold), hold)
			if n := n.Stats().Renewals - before; n > 0 {
				t.Errorf("%d renewals", n)
			}
			if err := l.Extend(ctx, hold); !errors.Is(err, mesh.ErrLost) {
				t.Errorf("Extend of what has ended = %v, want ErrLost", err)
			}
			if err := l.Unlock(ctx); !errors.Is(err, mesh.ErrLost) {
				t.Errorf("Unlock = %v, want ErrLost", err)
			}
		})
		w.pass(time.Second)
		if !w.free("b", key) {
			t.Error("not free in the end")
		}
	}
}

func TestExtend(t *testing.T) {
	const hold = time.Second
	w := newTrial(t, simulate.Options{Seed: 8}, trialTTL, 3)
	key := w.ledBy("b")
	w.at("a", func(ctx context.Context, n *mesh.Node) {
		usual, err := n.Lock(ctx, "usual")
		if err != nil {
			t.Error(err)
			return
		}
		if err := usual.Extend(ctx, hold); !errors.Is(err, mesh.ErrInvalidOption) {
			t.Errorf("Extend of a renewed lock = %v, want ErrInvalidOption", err)
		}
		w.check(usual.Unlock(ctx))

		l, err := n.Lock(ctx, key, mesh.MaxHold(hold))
		if err != nil {
			t.Error(err)
			return
		}
		for _, d := range []time.Duration{-1, 0, time.Millisecond, trialTTL + 1} {
			if err := l.Extend(ctx, d); !errors.Is(err, mesh.ErrInvalidOption) {
				t.Errorf("Extend(%v) = %v, want ErrInvalidOption", d, err)
			}
		}
		start := simulate.Now(ctx)
		for range 5 { // together longer than any single lease
			_ = simulate.Sleep(ctx, hold*3/4)
			w.check(l.Extend(ctx, hold))
		}
		if left := l.Deadline().Sub(simulate.Wall(ctx)); left < hold*9/10 || left > hold {
			t.Errorf("%v left after Extend", left)
		}
		w.check(l.Extend(ctx, 200*time.Millisecond)) // to an earlier end
		_ = simulate.Wait(ctx, l.Lost())
		w.between("it ended after", simulate.Now(ctx)-start, 5*hold*3/4+sure(200*time.Millisecond), 5*hold*3/4+300*time.Millisecond)
	})
	w.pass(500 * time.Millisecond)
	if !w.free("c", key) {
		t.Error("not free when its time was over")
	}

	l := w.lock("a", key, mesh.MaxHold(trialTTL))
	w.Net.Isolate("a")
	w.at("a", func(ctx context.Context, _ *mesh.Node) {
		short, cancel := simulate.WithTimeout(ctx, 300*time.Millisecond)
		defer cancel()
		if err := l.Extend(short, trialTTL); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Extend by a holder that is cut off = %v, want DeadlineExceeded", err)
		}
		if l.Err() != nil {
			t.Errorf("the old end does not stay: %v", l.Err())
		}
	})
	w.at("a", func(ctx context.Context, _ *mesh.Node) {
		if err := l.Extend(ctx, trialTTL); !errors.Is(err, mesh.ErrLost) {
			t.Errorf("Extend that is never answered = %v, want ErrLost", err)
		}
	})
}

// A holder pauses during a renewal, wakes after its deadline, and sees the loss before the answer
// is processed. The answer must not keep the key locked without a holder.
func TestALossSeenBeforeTheAnswer(t *testing.T) {
	lost := 0
	for i := 0; i < 60; i += fewer(3, 1) {
		w := newTrial(t, simulate.Options{Seed: uint64(100 + i)}, trialTTL, 3)
		key := w.ledBy("b")
		l := w.lock("a", key)
		taken := w.Now()
		seen := w.begin("a", func(ctx context.Context, _ *mesh.Node) {
			// If the answer came before the pause, the lock is not lost.
			for end := simulate.Now(ctx) + 2*trialTTL; l.Err() == nil && simulate.Now(ctx) < end; {
				_ = simulate.Sleep(ctx, 250*time.Microsecond)
			}
			if l.Err() != nil {
				lost++
			}
			_ = l.Unlock(ctx)
		})
		w.pass(taken + trialTTL/3 - time.Millisecond + time.Duration(i)*100*time.Microsecond - w.Now())
		w.Host("a").Pause()
		w.pass(trialTTL - trialTTL/6)
		w.Host("a").Resume()
		seen()
		next := w.lock("c", key)
		w.check(w.unlock("c", next, time.Second))
	}
	if lost == 0 {
		t.Error("in no world was the lock lost")
	}
}

// As above, with the answer to an Extend of a lock with MaxHold. Extend must not return nil, and
// the key must not stay locked for the time of the extension.
func TestALossSeenBeforeTheExtension(t *testing.T) {
	const hold, longer = time.Second, 3 * time.Second
	lost := 0
	for i := range 40 {
		w := newTrial(t, simulate.Options{Seed: uint64(200 + i)}, trialTTL, 3)
		key := w.ledBy("b")
		l := w.lock("a", key, mesh.MaxHold(hold))
		taken := w.Now()
		asks := taken + hold - 60*time.Millisecond
		var extended error
		var told time.Duration // when the holder learned that the lock is lost
		answered := w.begin("a", func(ctx context.Context, _ *mesh.Node) {
			_ = simulate.Sleep(ctx, asks-simulate.Now(ctx))
			extended = l.Extend(ctx, longer)
		})
		seen := w.begin("a", func(ctx context.Context, _ *mesh.Node) {
			for l.Err() == nil {
				_ = simulate.Sleep(ctx, 250*time.Microsecond)
			}
			told = simulate.Now(ctx)
		})
		w.pass(asks + time.Duration(i)*100*time.Microsecond - w.Now())
		w.Host("a").Pause()
		w.pass(70 * time.Millisecond)
		w.Host("a").Resume()
		resumed := w.Now()
		answered()
		seen()
		next := w.lock("c", key)
		if told < resumed+time.Second { // else it was extended in time
			lost++
			if free := w.Now() - resumed; !errors.Is(extended, mesh.ErrLost) || free > 2*time.Second {
				t.Errorf("seed %d: Extend of a lost lock says %v, and its key was free after %v", 200+i, extended, free)
			}
		}
		w.check(w.unlock("c", next, time.Second))
	}
	if lost == 0 {
		t.Error("in no world was the lock lost")
	}
}

// A process is suspended from the sending of an Extend until the requested time has passed. Extend
// must not return nil then.
func TestAnExtensionThatIsOverWhenItIsAnswered(t *testing.T) {
	const hold = 2 * time.Second
	w := newTrial(t, simulate.Options{Seed: 22}, trialTTL, 3)
	key := w.ledBy("b")
	l := w.lock("a", key, mesh.MaxHold(hold))
	var extended error
	answered := w.begin("a", func(ctx context.Context, _ *mesh.Node) { extended = l.Extend(ctx, hold) })
	w.pass(100 * time.Microsecond)
	w.Host("a").Pause()
	w.pass(2 * hold)
	w.Host("a").Resume()
	answered()
	if !errors.Is(extended, mesh.ErrLost) {
		t.Errorf("Extend = %v, want ErrLost: its %v were over", extended, hold)
	}
}

// The renewals of a waiter are answered late, after the fixed time of its grant has begun. Their
// answers no longer move the end of the lock, and the holder is told of it in time.
func TestALateRenewalDoesNotMoveAFixedEnd(t *testing.T) {
	const hold = time.Second
	w := newTrial(t, simulate.Options{Seed: 21}, trialTTL, 3)
	key := w.ledBy("b")
	l := w.lock("c", key)
	stop := w.Net.Rule(func(f simulate.Frame) simulate.Verdict {
		if f.From == "b" && f.To == "a" && f.Class == transport.Urgent {
			return simulate.Verdict(400 * time.Millisecond)
		}
		return simulate.Pass
	})
	defer stop()
	waited := w.begin("a", func(ctx context.Context, n *mesh.Node) {
		own, err := n.Lock(ctx, key, mesh.MaxHold(hold))
		if err != nil {
			t.Error(err)
			return
		}
		start := simulate.Now(ctx)
		_ = simulate.Wait(ctx, own.Lost())
		w.between("it ended after", simulate.Now(ctx)-start, 0, hold)
	})
	w.pass(trialTTL/3 + 50*time.Millisecond) // a renewal is under way
	w.check(w.unlock("c", l, time.Second))
	waited()
}
