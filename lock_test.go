package mesh

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/lockmesh/mesh/internal/client"
	"github.com/lockmesh/mesh/internal/fault"
	"github.com/lockmesh/mesh/internal/node"
	"github.com/lockmesh/mesh/simulate"
)

type userKey struct{}

var noContext context.Context

func mustLock(t *testing.T, s locker, ctx context.Context, key string, opts ...LockOption) *Lock {
	t.Helper()
	l, err := s.Lock(ctx, key, opts...)
	if err != nil {
		t.Fatalf("Lock(%q) = %v", key, err)
	}
	return l
}

func closed(ch <-chan struct{}) bool {
	select {
	case <-ch:
		return true
	default:
		return false
	}
}

// locker is the methods that sessions and nodes have in common.
type locker interface {
	Lock(ctx context.Context, key string, opts ...LockOption) (*Lock, error)
	TryLock(ctx context.Context, key string, opts ...LockOption) (*Lock, error)
	RLock(ctx context.Context, key string, opts ...LockOption) (*Lock, error)
	TryRLock(ctx context.Context, key string, opts ...LockOption) (*Lock, error)
	Acquire(ctx context.Context, key string, n, capacity int64, opts ...LockOption) (*Lock, error)
	TryAcquire(ctx context.Context, key string, n, capacity int64, opts ...LockOption) (*Lock, error)
	Do(ctx context.Context, key string, fn func(context.Context, *Lock) error, opts ...LockOption) error
}

func TestWhatIsAskedOfTheNode(t *testing.T) {
	s, refused := newRefused()
	for name, l := range map[string]locker{"a session": s, "a node": nodeOf(s)} {
		refused.requests = nil
		t.Run(name, func(t *testing.T) { testRequests(t, l, refused) })
	}
}

func testRequests(t *testing.T, s locker, refused *refuser) {
	ctx := context.Background()
	s.Lock(ctx, "k")
	s.TryLock(ctx, "k", MaxHold(time.Second), Value([]byte("v")))
	s.RLock(ctx, "k")
	s.TryRLock(ctx, "k")
	s.Acquire(ctx, "k", 2, 3)
	s.TryAcquire(ctx, "k", 2, 3)
	s.Do(ctx, "k", func(context.Context, *Lock) error { return nil }, MaxHold(time.Second))
	want := []client.Request{
		{Key: "k"},
		{Key: "k", Try: true, MaxHold: time.Second, Value: []byte("v")},
		{Key: "k", Mode: client.Shared},
		{Key: "k", Mode: client.Shared, Try: true},
		{Key: "k", Mode: client.Permits, Weight: 2, Capacity: 3},
		{Key: "k", Mode: client.Permits, Weight: 2, Capacity: 3, Try: true},
		{Key: "k", MaxHold: time.Second},
	}
	if got, want := fmt.Sprintf("%+v", refused.requests), fmt.Sprintf("%+v", want); got != want {
		t.Errorf("requests %s, want %s", got, want)
	}
}

func TestAContextEndsWithTheHoldAndNotWithTheCallers(t *testing.T) {
	alone(t, func(ctx context.Context, n *Node, _ *simulate.Host) {
		own, cancel := context.WithCancel(context.WithValue(ctx, userKey{}, "mine"))
		l := mustLock(t, n, own, "a")
		held := l.Context()
		if held != l.Context() {
			t.Error("Context is another one each time")
		}
		cancel()
		if held.Err() != nil || held.Value(userKey{}) != "mine" {
			t.Errorf("after the caller's context ended: %v, value %v", held.Err(), held.Value(userKey{}))
		}
		if err := l.Unlock(ctx); err != nil {
			t.Fatal(err)
		}
		if !errors.Is(held.Err(), context.Canceled) || !errors.Is(context.Cause(held), context.Canceled) {
			t.Errorf("after Unlock: %v, cause %v", held.Err(), context.Cause(held))
		}
		if !errors.Is(l.Err(), ErrClosed) || closed(l.Lost()) {
			t.Errorf("after Unlock: Err %v, Lost %v", l.Err(), closed(l.Lost()))
		}
		if late := l.Context(); late.Err() == nil {
			t.Error("a context that is asked for after Unlock lives")
		}
		if late := l.WithContext(ctx); late.Err() == nil {
			t.Error("a context that is made after Unlock lives")
		}
	})
}

func TestALossIsTold(t *testing.T) {
	alone(t, func(ctx context.Context, n *Node, _ *simulate.Host) {
		parent, cancel := context.WithCancel(context.WithValue(ctx, userKey{}, "yours"))
		defer cancel()
		l := mustLock(t, n, ctx, "a", MaxHold(time.Second))
		lost, own, with := l.Lost(), l.Context(), l.WithContext(parent)
		if l.Err() != nil || closed(lost) || own.Err() != nil || with.Err() != nil || with.Value(userKey{}) != "yours" {
			t.Fatal("it has ended before it is lost")
		}
		simulate.Sleep(ctx, 2*time.Second)
		if !closed(lost) || !errors.Is(context.Cause(own), ErrLost) || !errors.Is(context.Cause(with), ErrLost) {
			t.Errorf("Lost %v, causes %v and %v", closed(lost), context.Cause(own), context.Cause(with))
		}
		if late := l.WithContext(parent); !errors.Is(l.Err(), ErrLost) || !closed(l.Lost()) || !errors.Is(context.Cause(late), ErrLost) {
			t.Errorf("Err %v, Lost %v, cause %v", l.Err(), closed(l.Lost()), context.Cause(late))
		}
		if parent.Err() != nil {
			t.Error("the parent ended, too")
		}
		for range 2 {
			if err := l.Unlock(ctx); !errors.Is(err, ErrLost) {
				t.Errorf("Unlock = %v, want ErrLost", err)
			}
		}
	})
}

func TestALossIsSeenByWhoDidNotWatch(t *testing.T) {
	alone(t, func(ctx context.Context, n *Node, _ *simulate.Host) {
		l := mustLock(t, n, ctx, "a", MaxHold(time.Second))
		simulate.Sleep(ctx, 2*time.Second)
		if !errors.Is(l.Err(), ErrLost) || !closed(l.Lost()) || !errors.Is(context.Cause(l.Context()), ErrLost) {
			t.Errorf("Err %v, Lost %v, cause %v", l.Err(), closed(l.Lost()), context.Cause(l.Context()))
		}
	})
}

// A timer may fire late, for example after a suspend, so every call checks the clock.
func TestAnExpiryIsNoticedByEveryCall(t *testing.T) {
	for name, notices := range map[string]func(ctx context.Context, l *Lock) bool{
		"Err":         func(_ context.Context, l *Lock) bool { return errors.Is(l.Err(), ErrLost) },
		"Lost":        func(_ context.Context, l *Lock) bool { return closed(l.Lost()) },
		"Context":     func(_ context.Context, l *Lock) bool { return errors.Is(context.Cause(l.Context()), ErrLost) },
		"WithContext": func(ctx context.Context, l *Lock) bool { return errors.Is(context.Cause(l.WithContext(ctx)), ErrLost) },
		"Extend":      func(ctx context.Context, l *Lock) bool { return errors.Is(l.Extend(ctx, testMaxTTL), ErrLost) },
		"Unlock":      func(ctx context.Context, l *Lock) bool { return errors.Is(l.Unlock(ctx), ErrLost) },
	} {
		for _, watched := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, watched before: %v", name, watched), func(t *testing.T) {
				alone(t, func(ctx context.Context, n *Node, host *simulate.Host) {
					outer := mustLock(t, n, ctx, "a", MaxHold(time.Second))
					inner := mustLock(t, n, outer.WithContext(ctx), "a", Reentrant())
					held := outer.WithContext(ctx)
					if watched {
						inner.Context()
						inner.Lost()
						outer.Context()
					}
					host.Stall("shards", time.Minute)
					host.Stall("watch", time.Minute)
					if simulate.Sleep(ctx, 2*time.Second); held.Err() != nil {
						t.Fatal("a timer told of it")
					}
					if !notices(ctx, inner) {
						t.Error("it did not notice")
					}
					if inner.Context().Err() == nil || outer.Context().Err() == nil || held.Err() == nil {
						t.Error("a context lives on")
					}
				})
			})
		}
	}
}

func TestWithContextEndsWithItsParent(t *testing.T) {
	alone(t, func(ctx context.Context, n *Node, _ *simulate.Host) {
		l := mustLock(t, n, ctx, "a")
		reason := errors.New("reason")
		parent, cancel := context.WithCancelCause(ctx)
		with := l.WithContext(parent)
		cancel(reason)
		if !errors.Is(context.Cause(with), reason) || l.Err() != nil {
			t.Errorf("cause %v, lock %v", context.Cause(with), l.Err())
		}
		// Contexts that have ended are removed, however many there are.
		kept := func() (n int) {
			for _, d := range l.derived[:cap(l.derived)] {
				if d.ctx != nil {
					n++
				}
			}
			return n
		}
		many, end := context.WithCancel(ctx)
		for range 1000 {
			l.WithContext(many)
		}
		end()
		for range 2000 {
			parent, cancel := context.WithCancel(ctx)
			l.WithContext(parent)
			cancel()
		}
		if n := kept(); n > 16 {
			t.Errorf("%d contexts that have ended are kept", n)
		}
		// The living contexts are not searched at each call.
		for range 1000 {
			l.WithContext(ctx)
		}
		if n := len(l.derived); n < 1000 || l.prune < n {
			t.Errorf("of %d contexts those that have ended are looked for at %d", n, l.prune)
		}
		l.Unlock(ctx)
		if l.WithContext(ctx); kept() > 0 {
			t.Errorf("%d contexts of a lock that has ended are kept", kept())
		}
	})
}

// Repeated calls of Context and Lost allocate only once: the hold is asked once to tell of its end.
func TestContextIsMadeOnce(t *testing.T) {
	alone(t, func(ctx context.Context, n *Node, _ *simulate.Host) {
		l := mustLock(t, n, context.WithValue(ctx, userKey{}, "mine"), "a")
		if n := testing.AllocsPerRun(100, func() { l.Context(); l.Lost() }); n > 0 {
			t.Errorf("Context and Lost allocate %v times", n)
		}
	})
}

// Promise: P8: contexts end when the hold does, and so before the release is sent.
func TestContextsEndBeforeTheReleaseIsSent(t *testing.T) {
	alone(t, func(ctx context.Context, n *Node, _ *simulate.Host) {
		l := mustLock(t, n, ctx, "a")
		own, with := l.Context(), l.WithContext(ctx)
		told := false
		l.grant.hold.OnEnd(func(error) {
			told = true
			if own.Err() == nil || with.Err() == nil || l.Err() == nil || n.Stats().Releases > 0 {
				t.Error("the hold has ended, and the holder still believes")
			}
		})
		if err := l.Unlock(ctx); err != nil || !told {
			t.Errorf("Unlock = %v, told %v", err, told)
		}
	})
}

func TestUnlockPassesOnWhatTheNodeSays(t *testing.T) {
	alone(t, func(ctx context.Context, n *Node, host *simulate.Host) {
		l := mustLock(t, n, ctx, "a")
		host.Stall("shards", 2*time.Second)
		ended, cancel := context.WithCancel(ctx)
		cancel()
		if err := l.Unlock(ended); !errors.Is(err, ErrUnconfirmed) {
			t.Errorf("Unlock = %v, want ErrUnconfirmed", err)
		}
		if err := l.Unlock(ctx); err != nil { // confirmed meanwhile
			t.Errorf("Unlock again = %v", err)
		}
		if err := l.Unlock(noContext); !errors.Is(err, ErrInvalidOption) {
			t.Errorf("Unlock(nil) = %v, want ErrInvalidOption", err)
		}
	})
}

func TestExtend(t *testing.T) {
	alone(t, func(ctx context.Context, n *Node, _ *simulate.Host) {
		plain := mustLock(t, n, ctx, "a")
		if err := plain.Extend(ctx, time.Second); !errors.Is(err, ErrInvalidOption) {
			t.Errorf("Extend of a lock that is renewed = %v, want ErrInvalidOption", err)
		}
		l := mustLock(t, n, ctx, "b", MaxHold(time.Second))
		end := l.Deadline()
		for _, d := range []time.Duration{0, -time.Second, minHold - 1, testMaxTTL + 1} {
			if err := l.Extend(ctx, d); !errors.Is(err, ErrInvalidOption) {
				t.Errorf("Extend by %v = %v, want ErrInvalidOption", d, err)
			}
		}
		if err := l.Extend(noContext, time.Second); !errors.Is(err, ErrInvalidOption) {
			t.Errorf("Extend without a context = %v, want ErrInvalidOption", err)
		}
		if !l.Deadline().Equal(end) {
			t.Errorf("it ends at %v, want %v", l.Deadline(), end)
		}
		for _, d := range []time.Duration{minHold, testMaxTTL} {
			err := l.Extend(ctx, d)
			if left := l.Deadline().Sub(simulate.Wall(ctx)); err != nil || left > d || left < d*9/10 {
				t.Errorf("Extend by %v = %v, %v left", d, err, left)
			}
		}
		inner := mustLock(t, n, l.Context(), "b", Reentrant())
		for _, l := range []*Lock{inner, l} {
			l.Unlock(ctx)
			if err := l.Extend(ctx, time.Second); !errors.Is(err, ErrClosed) {
				t.Errorf("Extend after Unlock = %v, want ErrClosed", err)
			}
		}
	})
}

func TestWaitError(t *testing.T) {
	s, refused := newRefused()
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	tests := []struct {
		name     string
		ctx      context.Context
		fail     error
		info     client.WaitInfo
		noQuorum bool
		text     string
	}{
		{
			name: "the context ends in the queue",
			ctx:  context.Background(), fail: context.DeadlineExceeded,
			info: client.WaitInfo{Queued: true, Ahead: 2, Holder: "n3", Token: 17, Leader: "n1", Quorum: true},
			text: `mesh: key "a" (shard 11, led by n1): context deadline exceeded; held by n3 with token 17; 2 ahead in the queue`,
		},
		{
			name: "the context ends deep in the queue",
			ctx:  context.Background(), fail: context.Canceled,
			info: client.WaitInfo{Queued: true, Ahead: -1, Quorum: true},
			text: `mesh: key "a" (shard 11): context canceled; many ahead in the queue`,
		},
		{
			name: "the context ends, and no replica answers",
			ctx:  context.Background(), fail: context.Canceled, noQuorum: true,
			text: `mesh: key "a" (shard 11): context canceled; no quorum, and no leader of the shard is known`,
		},
		{
			name: "the context's deadline passes, and no replica answers",
			ctx:  context.Background(), fail: context.DeadlineExceeded, noQuorum: true,
			text: `mesh: key "a" (shard 11): context deadline exceeded; no quorum, and no leader of the shard is known`,
		},
		{
			name: "the context has ended before anything is sent",
			ctx:  ended, fail: context.Canceled,
			text: `mesh: key "a" (shard 11): context canceled`,
		},
		{
			name: "no replica answers, and a leader was known",
			ctx:  context.Background(), fail: context.Canceled, noQuorum: true, info: client.WaitInfo{Leader: "n1"},
			text: `mesh: key "a" (shard 11, led by n1): context canceled; no quorum`,
		},
		{
			name: "an operation runs",
			ctx:  context.Background(), fail: context.Canceled, info: client.WaitInfo{Queued: true, Holder: "n3", Token: 17, Quorum: true, Mode: client.Operates},
			text: `mesh: key "a" (shard 11): context canceled; an operation is run by n3 with token 17; 0 ahead in the queue`,
		},
		{
			name: "somebody leads",
			ctx:  context.Background(), fail: context.Canceled, info: client.WaitInfo{Queued: true, Holder: "n3", Token: 17, Quorum: true, Mode: client.Elects},
			text: `mesh: key "a" (shard 11): context canceled; led by n3 with token 17; 0 ahead in the queue`,
		},
		{
			name: "a latch is not open",
			ctx:  context.Background(), fail: context.Canceled, info: client.WaitInfo{Queued: true, Ahead: 1, Quorum: true, Mode: client.Waits},
			text: `mesh: key "a" (shard 11): context canceled; the latch is not open; 1 ahead in the queue`,
		},
		{
			name: "a latch in the quiet time",
			ctx:  context.Background(), fail: context.DeadlineExceeded,
			info: client.WaitInfo{Queued: true, Ahead: 1, Quorum: true, Quiet: time.Second, Mode: client.Waits},
			text: `mesh: key "a" (shard 11): context deadline exceeded; 1 ahead in the queue; the shard grants nothing for another 1s`,
		},
		{
			name: "a barrier is not full",
			ctx:  context.Background(), fail: context.Canceled, info: client.WaitInfo{Queued: true, Ahead: 1, Quorum: true, Mode: client.Enters},
			text: `mesh: key "a" (shard 11): context canceled; not all members have come to the barrier; 1 ahead in the queue`,
		},
		{
			name: "a barrier's round is not over",
			ctx:  context.Background(), fail: context.Canceled, info: client.WaitInfo{Queued: true, Holder: "n3", Token: 17, Quorum: true, Mode: client.Enters},
			text: `mesh: key "a" (shard 11): context canceled; the round before is not over: one inside is of n3, with token 17; 0 ahead in the queue`,
		},
		{
			name: "the key is no election",
			ctx:  context.Background(), fail: fault.ErrCapacity, info: client.WaitInfo{Holder: "n3", Token: 17, Quorum: true, Mode: client.Elects},
			text: `mesh: key "a" (shard 11): the key is in use with another kind or capacity; held by n3 with token 17`,
		},
		{
			name: "a try is refused",
			ctx:  context.Background(), fail: fault.ErrLocked,
			info: client.WaitInfo{Holder: "n3", Token: 17, Quorum: true},
			text: `mesh: key "a" (shard 11): the call would have to wait; held by n3 with token 17`,
		},
		{
			name: "a try in the quiet time",
			ctx:  context.Background(), fail: fault.ErrQuiet,
			info: client.WaitInfo{Leader: "n1", Quorum: true, Quiet: 9183456 * time.Microsecond},
			text: `mesh: key "a" (shard 11, led by n1): the quiet time is not over; the shard grants nothing for another 9.183s`,
		},
		{
			name: "the context ends in the quiet time",
			ctx:  context.Background(), fail: context.DeadlineExceeded,
			info: client.WaitInfo{Queued: true, Quorum: true, Quiet: time.Second},
			text: `mesh: key "a" (shard 11): context deadline exceeded; 0 ahead in the queue; the shard grants nothing for another 1s`,
		},
		{
			name: "the node is closed",
			ctx:  context.Background(), fail: fault.ErrClosed,
			text: `mesh: key "a" (shard 11): closed`,
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			refused.err, refused.info = tt.fail, tt.info
			l, err := s.Lock(tt.ctx, "a")
			var wait *WaitError
			if l != nil || !errors.As(err, &wait) || !errors.Is(err, tt.fail) || errors.Is(err, ErrNoQuorum) != tt.noQuorum ||
				errors.Is(err, ErrLocked) != (tt.fail == fault.ErrLocked) || errors.Is(err, ErrQuiet) != (tt.fail == fault.ErrQuiet) {
				t.Fatalf("Lock = %v, %v, want a WaitError of %v, and of ErrNoQuorum: %v", l, err, tt.fail, tt.noQuorum)
			}
			if err.Error() != tt.text {
				t.Errorf("text %q, want %q", err, tt.text)
			}
			if wait.Key != "a" || wait.Shard != 11 || wait.Holder != tt.info.Holder || wait.Token != tt.info.Token ||
				wait.Ahead != tt.info.Ahead || wait.Queued != tt.info.Queued || wait.Leader != tt.info.Leader || wait.Quiet != tt.info.Quiet {
				t.Errorf("details %+v", wait)
			}
		})
	}
}

func TestDo(t *testing.T) {
	ours, reason := errors.New("ours"), errors.New("reason")
	for name, tt := range map[string]struct {
		fn     func(ctx context.Context, l *Lock, host *simulate.Host) error
		ends   bool    // the caller's context ends before fn begins
		want   []error // none: nil
		panics bool
	}{
		"it succeeds": {fn: func(ctx context.Context, l *Lock, _ *simulate.Host) error {
			if l.Err() != nil || ctx.Err() != nil || ctx.Value(userKey{}) != "mine" {
				return errors.New("not held")
			}
			return nil
		}},
		"it fails": {fn: func(context.Context, *Lock, *simulate.Host) error { return ours }, want: []error{ours}},
		"it succeeds, and the lock is lost meanwhile": {
			fn: func(ctx context.Context, _ *Lock, _ *simulate.Host) error {
				simulate.Sleep(ctx, time.Minute) // until ctx ends
				return nil
			},
			want: []error{ErrLost},
		},
		"it fails because the lock is lost": {
			fn: func(ctx context.Context, _ *Lock, _ *simulate.Host) error {
				simulate.Sleep(ctx, time.Minute)
				return context.Cause(ctx)
			},
			want: []error{ErrLost},
		},
		"the caller's context ends": {
			ends: true,
			fn: func(ctx context.Context, l *Lock, _ *simulate.Host) error {
				if !errors.Is(context.Cause(ctx), reason) || l.Err() != nil || l.Context().Err() != nil {
					return fmt.Errorf("cause %w; the lock: %w, %w", context.Cause(ctx), l.Err(), l.Context().Err())
				}
				return ctx.Err()
			},
			want: []error{context.Canceled},
		},
		"it fails, and the release is not confirmed": {
			ends: true,
			fn: func(_ context.Context, _ *Lock, host *simulate.Host) error {
				host.Stall("shards", 10*time.Second)
				return ours
			},
			want: []error{ours, ErrUnconfirmed},
		},
		"it unlocks by itself": {
			fn: func(ctx context.Context, l *Lock, _ *simulate.Host) error {
				return l.Unlock(context.WithoutCancel(ctx))
			},
		},
		"it panics": {fn: func(context.Context, *Lock, *simulate.Host) error { panic("oh") }, panics: true},
	} {
		t.Run(name, func(t *testing.T) {
			alone(t, func(ctx context.Context, n *Node, host *simulate.Host) {
				var l *Lock
				var inside context.Context
				ctx, cancel := context.WithCancelCause(context.WithValue(ctx, userKey{}, "mine"))
				defer cancel(nil)
				err := func() (err error) {
					defer func() {
						if p := recover(); (p != nil) != tt.panics {
							t.Errorf("panic %v", p)
						}
					}()
					return n.Do(ctx, "a", func(c context.Context, got *Lock) error {
						if l, inside = got, c; tt.ends {
							cancel(reason)
						}
						return tt.fn(c, got, host)
					}, MaxHold(5*time.Second))
				}()
				if (err == nil) != (len(tt.want) == 0) || errors.Is(err, ErrLost) != slices.Contains(tt.want, ErrLost) {
					t.Errorf("Do = %v, want %v", err, tt.want)
				}
				for _, want := range tt.want {
					if !errors.Is(err, want) {
						t.Errorf("Do = %v, want %v", err, want)
					}
				}
				if l.Err() == nil || inside.Err() == nil {
					t.Error("the lock is held after Do")
				}
				released := !slices.Contains(tt.want, ErrLost) && !slices.Contains(tt.want, ErrUnconfirmed)
				if r := n.Stats().Releases; (r == 1) != released {
					t.Errorf("%d releases", r)
				}
			})
		})
	}
	t.Run("it is not called without the lock", func(t *testing.T) {
		s, _ := newRefused()
		err := s.Do(context.Background(), "a", func(context.Context, *Lock) error { t.Error("called"); return nil })
		if !errors.Is(err, ErrLocked) {
			t.Errorf("Do = %v, want ErrLocked", err)
		}
	})
}

// nodeOf returns a node whose own session is s.
func nodeOf(s *Session) *Node {
	n := &Node{node: &node.Node{}}
	n.own.Store(s)
	return n
}
