package mesh

import (
	"context"
	"errors"
	"sync"
	"testing"
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
	ctx := context.Background()
	for _, tt := range tests {
		for name, in := range map[string]func(*Lock) context.Context{
			"":                     func(l *Lock) context.Context { return l.Context() },
			" (a derived context)": func(l *Lock) context.Context { return context.WithValue(l.Context(), userKey{}, 1) },
			" (WithContext)":       func(l *Lock) context.Context { return l.WithContext(ctx) },
		} {
			t.Run(tt.name+name, func(t *testing.T) {
				s, fake := newFakeSession(t)
				outer, err := tt.outer(s, ctx)
				if err != nil {
					t.Fatal(err)
				}
				inner, err := tt.inner(s, in(outer), tt.opts...)
				if (err == nil) != (len(tt.want) == 0) || (inner == nil) != (err != nil) {
					t.Fatalf("inner = %v, %v, want %v", inner, err, tt.want)
				}
				for _, want := range tt.want {
					if !errors.Is(err, want) {
						t.Errorf("error %v, want %v", err, want)
					}
				}
				asked := 1
				if err == nil && !tt.enters {
					asked = 2
				}
				if len(fake.requests) != asked {
					t.Errorf("%d requests were sent, want %d", len(fake.requests), asked)
				}
				if outer.Err() != nil {
					t.Errorf("the outer lock: %v", outer.Err())
				}
				if tt.enters && inner.Token() != outer.Token() {
					t.Errorf("token %d inside %d", inner.Token(), outer.Token())
				}
			})
		}
	}
}

// Promise: P37: a context knows all held locks that it comes from, also those below a lock that
// was unlocked.
func TestAContextKnowsWhatIsBelow(t *testing.T) {
	ctx := context.Background()
	for released := range 3 {
		s, _ := newFakeSession(t)
		a := mustLock(t, s, ctx, "0")
		b := mustLock(t, s, a.Context(), "1")
		c := mustLock(t, s, b.Context(), "2")
		if err := []*Lock{a, b, c}[released].Unlock(ctx); err != nil {
			t.Fatal(err)
		}
		in := context.WithoutCancel(c.WithContext(context.WithoutCancel(b.Context())))
		for i, key := range []string{"0", "1", "2"} {
			if _, err := s.TryLock(in, key); errors.Is(err, ErrSelfDeadlock) != (i != released) {
				t.Errorf("%d was given back: TryLock of %q with the context of all = %v", released, key, err)
			}
		}
	}
}

func TestTheLastUnlockReleases(t *testing.T) {
	for name, innerFirst := range map[string]bool{"inside out": true, "outside in": false} {
		t.Run(name, func(t *testing.T) {
			s, fake := newFakeSession(t)
			ctx := context.Background()
			first := mustLock(t, s, ctx, "a")
			last := mustLock(t, s, first.Context(), "a", Reentrant())
			if innerFirst {
				first, last = last, first
			}
			h := fake.holds[0]
			over, rest := first.Context(), last.Context()
			for range 2 { // the second time does nothing
				if err := first.Unlock(ctx); err != nil {
					t.Fatal(err)
				}
			}
			if h.Err() != nil || h.releases != 0 || last.Err() != nil || rest.Err() != nil {
				t.Fatalf("the first Unlock ended the hold: %v", h.Err())
			}
			if !errors.Is(first.Err(), ErrClosed) || over.Err() == nil || closed(first.Lost()) {
				t.Errorf("after its Unlock: %v, context %v", first.Err(), over.Err())
			}
			if err := last.Unlock(ctx); err != nil || h.releases != 1 || rest.Err() == nil {
				t.Errorf("the last Unlock = %v, %d releases", err, h.releases)
			}
			if err := first.Unlock(ctx); err != nil {
				t.Errorf("a late Unlock of the first = %v", err)
			}
		})
	}
}

// An unlocked handle is not told of the end of a hold that other handles still share, whether it
// asked to be told before or after its Unlock.
func TestAHandleThatIsOverHearsOfNothing(t *testing.T) {
	s, fake := newFakeSession(t)
	ctx := context.Background()
	outer := mustLock(t, s, ctx, "a")
	for range 3 {
		inner := mustLock(t, s, outer.Context(), "a", Reentrant())
		inner.Lost()
		inner.Unlock(ctx)
		late := mustLock(t, s, outer.Context(), "a", Reentrant())
		late.Unlock(ctx)
		late.Lost()
	}
	if n := len(fake.holds[0].watchers); n != 1 {
		t.Errorf("%d handles hear of the end, want that which is held", n)
	}
}

func TestALossIsToldToEveryHandleThatIsHeld(t *testing.T) {
	s, fake := newFakeSession(t)
	ctx := context.Background()
	outer := mustLock(t, s, ctx, "a")
	inner := mustLock(t, s, outer.Context(), "a", Reentrant())
	gone := mustLock(t, s, inner.Context(), "a", Reentrant())
	watch := gone.Lost()
	gone.Unlock(ctx)
	fake.holds[0].lose()
	if !closed(outer.Lost()) || !closed(inner.Lost()) || closed(watch) || !errors.Is(gone.Err(), ErrClosed) {
		t.Errorf("outer %v, inner %v, unlocked before %v", closed(outer.Lost()), closed(inner.Lost()), closed(watch))
	}
	if err := inner.Unlock(ctx); !errors.Is(err, ErrLost) {
		t.Errorf("the inner Unlock = %v, want ErrLost", err)
	}
	if err := outer.Unlock(ctx); !errors.Is(err, ErrLost) {
		t.Errorf("the outer Unlock = %v, want ErrLost", err)
	}
}

func TestSessionsDoNotMix(t *testing.T) {
	one, _ := newFakeSession(t)
	two, fake := newFakeSession(t)
	ctx := context.Background()
	l := mustLock(t, one, ctx, "a")
	// The other session acquires its own lock, with and without Reentrant.
	mustLock(t, two, l.Context(), "a")
	both := mustLock(t, two, l.Context(), "a", Reentrant())
	if len(fake.requests) != 2 {
		t.Errorf("%d requests, want 2", len(fake.requests))
	}
	// A chain through both knows the holds of each.
	if _, err := one.Lock(both.Context(), "a"); !errors.Is(err, ErrSelfDeadlock) {
		t.Errorf("Lock = %v, want ErrSelfDeadlock", err)
	}
	if _, err := two.Lock(both.Context(), "a"); !errors.Is(err, ErrSelfDeadlock) {
		t.Errorf("Lock = %v, want ErrSelfDeadlock", err)
	}
}

func TestAHoldThatIsOverIsNotEntered(t *testing.T) {
	ctx := context.Background()
	for name, end := range map[string]func(*Lock, *fakeHold){
		"unlocked": func(l *Lock, _ *fakeHold) { l.Unlock(ctx) },
		"lost":     func(_ *Lock, h *fakeHold) { h.lose() },
	} {
		t.Run(name, func(t *testing.T) {
			s, fake := newFakeSession(t)
			l := mustLock(t, s, ctx, "a")
			inside := context.WithoutCancel(l.Context())
			end(l, fake.holds[0])
			again := mustLock(t, s, inside, "a", Reentrant())
			if again.Token() == l.Token() {
				t.Error("it entered a hold that has ended")
			}
			// Nor does the chain keep holds that have ended.
			if up := linkOf(again.Context()).up; up != nil {
				t.Errorf("the context still knows %+v", up.grant)
			}
		})
	}
}

func TestHandlesMayBeUsedFromManyGoroutines(t *testing.T) {
	s, fake := newFakeSession(t)
	ctx := context.Background()
	l := mustLock(t, s, ctx, "a")
	inside := l.Context()
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			for range 50 {
				inner, err := s.Lock(inside, "a", Reentrant())
				if err != nil {
					return // the lock was lost
				}
				inner.Context()
				inner.WithContext(ctx)
				inner.Lost()
				inner.Err()
				inner.Unlock(ctx)
				if i == 0 {
					l.WithContext(ctx)
				}
			}
		})
	}
	wg.Go(fake.holds[0].lose)
	wg.Wait()
	if err := l.Unlock(ctx); !errors.Is(err, ErrLost) {
		t.Errorf("Unlock = %v, want ErrLost", err)
	}
}
