package mesh

import (
	"context"
	"errors"
	"runtime"
	"testing"
	"time"
	"weak"

	"github.com/lockmesh/mesh/simulate"
)

func TestReentrance(t *testing.T) {
	type take func(s *Session, ctx context.Context, opts ...LockOption) (*Lock, error)
	lock := func(s *Session, ctx context.Context, opts ...LockOption) (*Lock, error) {
		return s.Lock(ctx, "a", opts...)
	}
	try := func(s *Session, ctx context.Context, opts ...LockOption) (*Lock, error) {
		return s.TryLock(ctx, "a", opts...)
	}
	read := func(s *Session, ctx context.Context, opts ...LockOption) (*Lock, error) {
		return s.RLock(ctx, "a", opts...)
	}
	other := func(s *Session, ctx context.Context, opts ...LockOption) (*Lock, error) {
		return s.Lock(ctx, "b", opts...)
	}
	permits := func(n, capacity int64) take {
		return func(s *Session, ctx context.Context, opts ...LockOption) (*Lock, error) {
			return s.Acquire(ctx, "a", n, capacity, opts...)
		}
	}
	again := []LockOption{Reentrant()}
	tests := []struct {
		name         string
		outer, inner take
		opts         []LockOption
		want         []error // none: inner gets a lock
		enters       bool    // inner enters the outer lock
	}{
		{name: "a lock inside a lock", outer: lock, inner: lock, want: []error{ErrSelfDeadlock}},
		{name: "a lock inside a lock, reentrant", outer: lock, inner: lock, opts: again, enters: true},
		{name: "a try inside a lock", outer: lock, inner: try, want: []error{ErrSelfDeadlock}},
		{name: "a try inside a lock, reentrant", outer: lock, inner: try, opts: again, enters: true},
		{name: "a read inside a lock, reentrant", outer: lock, inner: read, opts: again, enters: true},
		{name: "a read inside a read", outer: read, inner: read, want: []error{ErrSelfDeadlock}},
		{name: "a read inside a read, reentrant", outer: read, inner: read, opts: again, enters: true},
		{name: "a lock inside a read", outer: read, inner: lock, want: []error{ErrSelfDeadlock, ErrUpgrade}},
		{name: "a lock inside a read, reentrant", outer: read, inner: lock, opts: again, want: []error{ErrUpgrade}},
		{name: "another key", outer: lock, inner: other},
		{name: "another key, reentrant", outer: lock, inner: other, opts: again},
		{name: "permits inside permits", outer: permits(2, 3), inner: permits(1, 3), want: []error{ErrSelfDeadlock}},
		{name: "as many permits, reentrant", outer: permits(2, 3), inner: permits(2, 3), opts: again, enters: true},
		{name: "fewer permits, reentrant", outer: permits(2, 3), inner: permits(1, 3), opts: again, enters: true},
		{name: "more permits, reentrant", outer: permits(2, 3), inner: permits(3, 3), opts: again, want: []error{ErrUpgrade}},
		{name: "permits of another capacity", outer: permits(2, 3), inner: permits(2, 4), opts: again, want: []error{ErrCapacityMismatch}},
		{name: "permits inside a lock", outer: lock, inner: permits(1, 1), opts: again, want: []error{ErrCapacityMismatch}},
		{name: "a lock inside permits", outer: permits(1, 1), inner: lock, opts: again, want: []error{ErrCapacityMismatch}},
	}
	alone(t, func(ctx context.Context, n *Node, _ *simulate.Host) {
		for _, tt := range tests {
			for how, in := range map[string]func(*Lock) context.Context{
				"":                     func(l *Lock) context.Context { return l.Context() },
				" (a derived context)": func(l *Lock) context.Context { return context.WithValue(l.Context(), userKey{}, 1) },
				" (WithContext)":       func(l *Lock) context.Context { return l.WithContext(ctx) },
			} {
				outer, err := tt.outer(n.session(), ctx)
				if err != nil {
					t.Fatal(err)
				}
				sent := n.Stats().Acquires
				inner, err := tt.inner(n.session(), in(outer), tt.opts...)
				if (err == nil) != (len(tt.want) == 0) || (inner == nil) != (err != nil) {
					t.Fatalf("inner = %v, %v, want %v: %s%s", inner, err, tt.want, tt.name, how)
				}
				for _, want := range tt.want {
					if !errors.Is(err, want) {
						t.Errorf("%s%s: error %v, want %v", tt.name, how, err, want)
					}
				}
				if sent := n.Stats().Acquires > sent; sent != (err == nil && !tt.enters) {
					t.Errorf("%s%s: a request was sent: %v", tt.name, how, sent)
				}
				if outer.Err() != nil {
					t.Errorf("%s%s: the outer lock: %v", tt.name, how, outer.Err())
				}
				if tt.enters && inner.Token() != outer.Token() {
					t.Errorf("%s%s: token %d inside %d", tt.name, how, inner.Token(), outer.Token())
				}
				inner.Unlock(ctx)
				outer.Unlock(ctx)
			}
		}
	})
}

// Promise: P37: a context knows all held locks that it comes from, also those below a lock that
// was unlocked.
func TestAContextKnowsWhatIsBelow(t *testing.T) {
	for released := range 3 {
		alone(t, func(ctx context.Context, n *Node, _ *simulate.Host) {
			a := mustLock(t, n, ctx, "0")
			b := mustLock(t, n, a.Context(), "1")
			c := mustLock(t, n, b.Context(), "2")
			if err := []*Lock{a, b, c}[released].Unlock(ctx); err != nil {
				t.Fatal(err)
			}
			in := context.WithoutCancel(c.WithContext(context.WithoutCancel(b.Context())))
			for i, key := range []string{"0", "1", "2"} {
				if _, err := n.TryLock(in, key); errors.Is(err, ErrSelfDeadlock) != (i != released) {
					t.Errorf("%d was given back: TryLock of %q with the context of all = %v", released, key, err)
				}
			}
		})
	}
}

func TestTheLastUnlockReleases(t *testing.T) {
	for name, innerFirst := range map[string]bool{"inside out": true, "outside in": false} {
		t.Run(name, func(t *testing.T) {
			alone(t, func(ctx context.Context, n *Node, _ *simulate.Host) {
				first := mustLock(t, n, ctx, "a")
				last := mustLock(t, n, first.Context(), "a", Reentrant())
				if innerFirst {
					first, last = last, first
				}
				over, rest := first.Context(), last.Context()
				for range 2 { // the second time does nothing
					if err := first.Unlock(ctx); err != nil {
						t.Fatal(err)
					}
				}
				if r := n.Stats().Releases; r != 0 || last.Err() != nil || rest.Err() != nil {
					t.Fatalf("the first Unlock ended the hold: %d releases, %v", r, last.Err())
				}
				if !errors.Is(first.Err(), ErrClosed) || over.Err() == nil || closed(first.Lost()) {
					t.Errorf("after its Unlock: %v, context %v", first.Err(), over.Err())
				}
				if err := last.Unlock(ctx); err != nil || n.Stats().Releases != 1 || rest.Err() == nil {
					t.Errorf("the last Unlock = %v, %d releases", err, n.Stats().Releases)
				}
				if err := first.Unlock(ctx); err != nil {
					t.Errorf("a late Unlock of the first = %v", err)
				}
			})
		})
	}
}

// A hold that other handles still share does not keep an unlocked handle in memory, whether that
// asked to be told of the end before or after its Unlock.
func TestAHandleThatIsOverIsNotKept(t *testing.T) {
	alone(t, func(ctx context.Context, n *Node, _ *simulate.Host) {
		outer := mustLock(t, n, ctx, "a")
		var over []weak.Pointer[handle]
		func() { // so that nothing on this frame refers to the handles
			for _, watch := range []func(*Lock){func(l *Lock) { l.Lost(); l.Unlock(ctx) }, func(l *Lock) { l.Unlock(ctx); l.Lost() }} {
				inner := mustLock(t, n, outer.Context(), "a", Reentrant())
				watch(inner)
				over = append(over, weak.Make(inner.handle))
			}
		}()
		runtime.GC()
		for i, h := range over {
			if h.Value() != nil {
				t.Errorf("handle %d is kept", i)
			}
		}
		if err := outer.Err(); err != nil {
			t.Error(err)
		}
	})
}

func TestALossIsToldToEveryHandleThatIsHeld(t *testing.T) {
	alone(t, func(ctx context.Context, n *Node, _ *simulate.Host) {
		outer := mustLock(t, n, ctx, "a", MaxHold(time.Second))
		inner := mustLock(t, n, outer.Context(), "a", Reentrant())
		gone := mustLock(t, n, inner.Context(), "a", Reentrant())
		watch := gone.Lost()
		gone.Unlock(ctx)
		simulate.Sleep(ctx, 2*time.Second)
		if !closed(outer.Lost()) || !closed(inner.Lost()) || closed(watch) || !errors.Is(gone.Err(), ErrClosed) {
			t.Errorf("outer %v, inner %v, unlocked before %v", closed(outer.Lost()), closed(inner.Lost()), closed(watch))
		}
		if err := inner.Unlock(ctx); !errors.Is(err, ErrLost) {
			t.Errorf("the inner Unlock = %v, want ErrLost", err)
		}
		if err := outer.Unlock(ctx); !errors.Is(err, ErrLost) {
			t.Errorf("the outer Unlock = %v, want ErrLost", err)
		}
	})
}

func TestSessionsDoNotMix(t *testing.T) {
	alone(t, func(ctx context.Context, n *Node, _ *simulate.Host) {
		other, err := n.NewSession(ctx)
		if err != nil {
			t.Fatal(err)
		}
		l, err := n.RLock(ctx, "a")
		if err != nil {
			t.Fatal(err)
		}
		// The other session acquires its own lock, also with Reentrant.
		both, err := other.RLock(l.Context(), "a", Reentrant())
		if err != nil || both.Token() == l.Token() {
			t.Fatalf("RLock = %v, with the token of the other session: %v", err, err == nil)
		}
		if _, err := other.TryLock(l.Context(), "a"); !errors.Is(err, ErrLocked) {
			t.Errorf("TryLock = %v, want ErrLocked", err)
		}
		// A chain through both knows the holds of each.
		if _, err := n.RLock(both.Context(), "a"); !errors.Is(err, ErrSelfDeadlock) {
			t.Errorf("RLock = %v, want ErrSelfDeadlock", err)
		}
		if _, err := other.RLock(both.Context(), "a"); !errors.Is(err, ErrSelfDeadlock) {
			t.Errorf("RLock = %v, want ErrSelfDeadlock", err)
		}
	})
}

func TestAHoldThatIsOverIsNotEntered(t *testing.T) {
	for name, end := range map[string]func(context.Context, *Lock){
		"unlocked": func(ctx context.Context, l *Lock) { l.Unlock(ctx) },
		"lost":     func(ctx context.Context, _ *Lock) { simulate.Sleep(ctx, 2*time.Second) },
	} {
		t.Run(name, func(t *testing.T) {
			alone(t, func(ctx context.Context, n *Node, _ *simulate.Host) {
				l := mustLock(t, n, ctx, "a", MaxHold(time.Second))
				inside := context.WithoutCancel(l.Context())
				end(ctx, l)
				again := mustLock(t, n, inside, "a", Reentrant())
				if again.Token() == l.Token() {
					t.Error("it entered a hold that has ended")
				}
				// Nor does the chain keep holds that have ended.
				if up := linkOf(again.Context()).up; up != nil {
					t.Errorf("the context still knows %+v", up.grant)
				}
			})
		})
	}
}
