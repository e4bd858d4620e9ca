package mesh

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/lockmesh/mesh/internal/client"
	"github.com/lockmesh/mesh/internal/fault"
)

type userKey struct{}

var noContext context.Context

func mustLock(t *testing.T, s *Session, ctx context.Context, key string, opts ...LockOption) *Lock {
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

func TestWhatIsAskedOfTheCore(t *testing.T) {
	s, fake := newFakeSession(t)
	for name, l := range map[string]locker{"a session": s, "a node": &Node{own: s}} {
		fake.requests = nil
		t.Run(name, func(t *testing.T) { testRequests(t, l, fake) })
	}
}

func testRequests(t *testing.T, s locker, fake *fakeBackend) {
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
	if got, want := fmt.Sprintf("%+v", fake.requests), fmt.Sprintf("%+v", want); got != want {
		t.Errorf("requests %s, want %s", got, want)
	}
}

func TestAContextEndsWithTheHoldAndNotWithTheCallers(t *testing.T) {
	s, _ := newFakeSession(t)
	ctx, cancel := context.WithCancel(context.WithValue(context.Background(), userKey{}, "mine"))
	l := mustLock(t, s, ctx, "a")
	held := l.Context()
	if held != l.Context() {
		t.Error("Context is another one each time")
	}
	cancel()
	if held.Err() != nil || held.Value(userKey{}) != "mine" {
		t.Errorf("after the caller's context ended: %v, value %v", held.Err(), held.Value(userKey{}))
	}
	if err := l.Unlock(context.Background()); err != nil {
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
	if late := l.WithContext(context.Background()); late.Err() == nil {
		t.Error("a context that is made after Unlock lives")
	}
}

func TestALossIsTold(t *testing.T) {
	s, fake := newFakeSession(t)
	parent, cancel := context.WithCancel(context.WithValue(context.Background(), userKey{}, "yours"))
	defer cancel()
	l := mustLock(t, s, context.Background(), "a")
	lost, ctx, with := l.Lost(), l.Context(), l.WithContext(parent)
	if l.Err() != nil || closed(lost) || ctx.Err() != nil || with.Err() != nil || with.Value(userKey{}) != "yours" {
		t.Fatal("it has ended before it is lost")
	}
	fake.holds[0].lose()
	if !errors.Is(l.Err(), ErrLost) || !closed(lost) || !closed(l.Lost()) {
		t.Errorf("Err %v, Lost %v", l.Err(), closed(lost))
	}
	for _, c := range []context.Context{ctx, with, l.Context(), l.WithContext(parent)} {
		if !errors.Is(context.Cause(c), ErrLost) {
			t.Errorf("cause %v, want ErrLost", context.Cause(c))
		}
	}
	if parent.Err() != nil {
		t.Error("the parent ended, too")
	}
	for range 2 {
		if err := l.Unlock(context.Background()); !errors.Is(err, ErrLost) {
			t.Errorf("Unlock = %v, want ErrLost", err)
		}
	}
}

func TestALossIsSeenByWhoDidNotWatch(t *testing.T) {
	s, fake := newFakeSession(t)
	l := mustLock(t, s, context.Background(), "a")
	fake.holds[0].lose()
	if !errors.Is(l.Err(), ErrLost) || !closed(l.Lost()) || !errors.Is(context.Cause(l.Context()), ErrLost) {
		t.Errorf("Err %v, Lost %v, cause %v", l.Err(), closed(l.Lost()), context.Cause(l.Context()))
	}
}

// A timer may fire late, for example after a suspend, so every call checks the clock.
func TestAnExpiryIsNoticedByEveryCall(t *testing.T) {
	ctx := context.Background()
	for name, notices := range map[string]func(*Lock) bool{
		"Err":         func(l *Lock) bool { return errors.Is(l.Err(), ErrLost) },
		"Lost":        func(l *Lock) bool { return closed(l.Lost()) },
		"Context":     func(l *Lock) bool { return errors.Is(context.Cause(l.Context()), ErrLost) },
		"WithContext": func(l *Lock) bool { return errors.Is(context.Cause(l.WithContext(ctx)), ErrLost) },
		"Extend":      func(l *Lock) bool { return errors.Is(l.Extend(ctx, fakeMaxTTL), ErrLost) },
		"Unlock":      func(l *Lock) bool { return errors.Is(l.Unlock(ctx), ErrLost) },
	} {
		for _, watched := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, watched before: %v", name, watched), func(t *testing.T) {
				s, fake := newFakeSession(t)
				outer := mustLock(t, s, ctx, "a", MaxHold(time.Second))
				inner := mustLock(t, s, outer.WithContext(ctx), "a", Reentrant())
				if watched {
					inner.Context()
					inner.Lost()
					outer.Context()
				}
				fake.holds[0].late = true
				if !notices(inner) {
					t.Error("it did not notice")
				}
				if inner.Context().Err() == nil || outer.Context().Err() == nil {
					t.Error("a context lives on")
				}
			})
		}
	}
}

func TestWithContextEndsWithItsParent(t *testing.T) {
	s, fake := newFakeSession(t)
	l := mustLock(t, s, context.Background(), "a")
	reason := errors.New("reason")
	parent, cancel := context.WithCancelCause(context.Background())
	ctx := l.WithContext(parent)
	cancel(reason)
	if !errors.Is(context.Cause(ctx), reason) || l.Err() != nil {
		t.Errorf("cause %v, lock %v", context.Cause(ctx), l.Err())
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
	many, end := context.WithCancel(context.Background())
	for range 1000 {
		l.WithContext(many)
	}
	end()
	for range 2000 {
		parent, cancel := context.WithCancel(context.Background())
		l.WithContext(parent)
		cancel()
	}
	if n := kept(); n > 16 {
		t.Errorf("%d contexts that have ended are kept", n)
	}
	if n := len(fake.holds[0].watchers); n > 1 {
		t.Errorf("%d watchers for one lock", n)
	}
	// The living contexts are not searched at each call.
	for range 1000 {
		l.WithContext(context.Background())
	}
	if n := len(l.derived); n < 1000 || l.prune < n {
		t.Errorf("of %d contexts those that have ended are looked for at %d", n, l.prune)
	}
	l.Unlock(context.Background())
	if l.WithContext(context.Background()); kept() > 0 {
		t.Errorf("%d contexts of a lock that has ended are kept", kept())
	}
}

// Repeated calls of Context allocate only once.
func TestContextIsMadeOnce(t *testing.T) {
	s, _ := newFakeSession(t)
	l := mustLock(t, s, context.WithValue(context.Background(), userKey{}, "mine"), "a")
	if n := testing.AllocsPerRun(100, func() { l.Context() }); n > 0 {
		t.Errorf("Context allocates %v times", n)
	}
}

func TestContextsEndBeforeTheReleaseIsSent(t *testing.T) {
	s, fake := newFakeSession(t)
	l := mustLock(t, s, context.Background(), "a")
	ctx, with := l.Context(), l.WithContext(context.Background())
	sent := false
	fake.holds[0].during = func() {
		sent = true
		if ctx.Err() == nil || with.Err() == nil || l.Err() == nil {
			t.Error("the release is sent, and the holder still believes")
		}
	}
	if err := l.Unlock(context.Background()); err != nil || !sent {
		t.Errorf("Unlock = %v, sent %v", err, sent)
	}
}

func TestUnlockPassesOnWhatTheCoreSays(t *testing.T) {
	s, fake := newFakeSession(t)
	l := mustLock(t, s, context.Background(), "a")
	fake.holds[0].result = fault.ErrUnconfirmed
	if err := l.Unlock(context.Background()); !errors.Is(err, ErrUnconfirmed) {
		t.Errorf("Unlock = %v, want ErrUnconfirmed", err)
	}
	fake.holds[0].result = nil // confirmed meanwhile
	if err := l.Unlock(context.Background()); err != nil {
		t.Errorf("Unlock again = %v", err)
	}
	if err := l.Unlock(noContext); !errors.Is(err, ErrInvalidOption) {
		t.Errorf("Unlock(nil) = %v, want ErrInvalidOption", err)
	}
}

func TestExtend(t *testing.T) {
	s, fake := newFakeSession(t)
	ctx := context.Background()
	plain := mustLock(t, s, ctx, "a")
	if err := plain.Extend(ctx, time.Second); !errors.Is(err, ErrInvalidOption) {
		t.Errorf("Extend of a lock that is renewed = %v, want ErrInvalidOption", err)
	}
	l := mustLock(t, s, ctx, "b", MaxHold(time.Second))
	for _, d := range []time.Duration{0, -time.Second, minHold - 1, fakeMaxTTL + 1} {
		if err := l.Extend(ctx, d); !errors.Is(err, ErrInvalidOption) {
			t.Errorf("Extend by %v = %v, want ErrInvalidOption", d, err)
		}
	}
	if err := l.Extend(noContext, time.Second); !errors.Is(err, ErrInvalidOption) {
		t.Errorf("Extend without a context = %v, want ErrInvalidOption", err)
	}
	if n := len(fake.holds[1].extended); n != 0 {
		t.Errorf("%d extensions were sent", n)
	}
	for i, d := range []time.Duration{minHold, fakeMaxTTL} {
		if err := l.Extend(ctx, d); err != nil || len(fake.holds[1].extended) != i+1 || fake.holds[1].extended[i] != d {
			t.Errorf("Extend by %v = %v, sent %v", d, err, fake.holds[1].extended)
		}
	}
	l.Unlock(ctx)
	if err := l.Extend(ctx, time.Second); !errors.Is(err, ErrClosed) {
		t.Errorf("Extend after Unlock = %v, want ErrClosed", err)
	}
}

func TestWaitError(t *testing.T) {
	s, fake := newFakeSession(t)
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
			text: `mesh: key "a" (shard 5, led by n1): context deadline exceeded; held by n3 with token 17; 2 ahead in the queue`,
		},
		{
			name: "the context ends deep in the queue",
			ctx:  context.Background(), fail: context.Canceled,
			info: client.WaitInfo{Queued: true, Ahead: -1, Quorum: true},
			text: `mesh: key "a" (shard 5): context canceled; many ahead in the queue`,
		},
		{
			name: "the context ends, and no replica answers",
			ctx:  context.Background(), fail: context.Canceled, noQuorum: true,
			text: `mesh: key "a" (shard 5): context canceled; no majority of the shard's replicas answers`,
		},
		{
			name: "the context's deadline passes, and no replica answers",
			ctx:  context.Background(), fail: context.DeadlineExceeded, noQuorum: true,
			text: `mesh: key "a" (shard 5): context deadline exceeded; no majority of the shard's replicas answers`,
		},
		{
			name: "the context has ended before anything is sent",
			ctx:  ended, fail: context.Canceled,
			text: `mesh: key "a" (shard 5): context canceled`,
		},
		{
			name: "a try is refused",
			ctx:  context.Background(), fail: fault.ErrLocked,
			info: client.WaitInfo{Holder: "n3", Token: 17, Quorum: true},
			text: `mesh: key "a" (shard 5): the call would have to wait; held by n3 with token 17`,
		},
		{
			name: "the node is closed",
			ctx:  context.Background(), fail: fault.ErrClosed,
			text: `mesh: key "a" (shard 5): closed`,
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			fake.fail, fake.info = tt.fail, tt.info
			l, err := s.Lock(tt.ctx, "a")
			var wait *WaitError
			if l != nil || !errors.As(err, &wait) || !errors.Is(err, tt.fail) || errors.Is(err, ErrNoQuorum) != tt.noQuorum {
				t.Fatalf("Lock = %v, %v, want a WaitError of %v, and of ErrNoQuorum: %v", l, err, tt.fail, tt.noQuorum)
			}
			if err.Error() != tt.text {
				t.Errorf("text %q, want %q", err, tt.text)
			}
			if wait.Key != "a" || wait.Shard != 5 || wait.Holder != tt.info.Holder || wait.Token != tt.info.Token ||
				wait.Ahead != tt.info.Ahead || wait.Queued != tt.info.Queued || wait.Leader != tt.info.Leader {
				t.Errorf("details %+v", wait)
			}
		})
	}
}

func TestDo(t *testing.T) {
	ctx := context.WithValue(context.Background(), userKey{}, "mine")
	ours := errors.New("ours")
	tests := []struct {
		name   string
		fn     func(ctx context.Context, l *Lock, h *fakeHold) error
		want   []error // none: nil
		panics bool
	}{
		{name: "it succeeds", fn: func(ctx context.Context, l *Lock, h *fakeHold) error {
			if l.Err() != nil || ctx.Err() != nil || ctx.Value(userKey{}) != "mine" || l.Token() != h.token {
				return errors.New("not held")
			}
			return nil
		}},
		{name: "it fails", fn: func(context.Context, *Lock, *fakeHold) error { return ours }, want: []error{ours}},
		{
			name: "it succeeds, and the lock is lost meanwhile",
			fn:   func(_ context.Context, _ *Lock, h *fakeHold) error { h.lose(); return nil },
			want: []error{ErrLost},
		},
		{
			name: "it fails because the lock is lost",
			fn:   func(ctx context.Context, _ *Lock, h *fakeHold) error { h.lose(); return context.Cause(ctx) },
			want: []error{ErrLost},
		},
		{
			name: "it fails, and the release is not confirmed",
			fn:   func(_ context.Context, _ *Lock, h *fakeHold) error { h.result = ErrUnconfirmed; return ours },
			want: []error{ours, ErrUnconfirmed},
		},
		{
			name: "it unlocks by itself",
			fn:   func(ctx context.Context, l *Lock, _ *fakeHold) error { return l.Unlock(context.WithoutCancel(ctx)) },
		},
		{
			name:   "it panics",
			fn:     func(context.Context, *Lock, *fakeHold) error { panic("oh") },
			panics: true,
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s, fake := newFakeSession(t)
			var l *Lock
			var inside context.Context
			err := func() (err error) {
				defer func() {
					if p := recover(); (p != nil) != tt.panics {
						t.Errorf("panic %v", p)
					}
				}()
				return s.Do(ctx, "a", func(c context.Context, got *Lock) error {
					l, inside = got, c
					return tt.fn(c, got, fake.holds[0])
				})
			}()
			if (err == nil) != (len(tt.want) == 0) {
				t.Errorf("Do = %v, want %v", err, tt.want)
			}
			for _, want := range tt.want {
				if !errors.Is(err, want) {
					t.Errorf("Do = %v, want %v", err, want)
				}
			}
			if l.Err() == nil || inside.Err() == nil || fake.holds[0].Err() == nil {
				t.Error("the lock is held after Do")
			}
		})
	}
	t.Run("its context ends with the caller's", func(t *testing.T) {
		s, fake := newFakeSession(t)
		reason := errors.New("reason")
		ctx, cancel := context.WithCancelCause(ctx)
		err := s.Do(ctx, "a", func(inside context.Context, l *Lock) error {
			cancel(reason)
			if !errors.Is(context.Cause(inside), reason) || l.Err() != nil || l.Context().Err() != nil {
				t.Errorf("the caller's context ended: cause %v; the lock: %v, %v", context.Cause(inside), l.Err(), l.Context().Err())
			}
			return inside.Err()
		})
		if !errors.Is(err, context.Canceled) || errors.Is(err, ErrLost) || fake.holds[0].releases != 1 {
			t.Errorf("Do = %v, and %d releases", err, fake.holds[0].releases)
		}
	})
	t.Run("its context says that the lock was lost", func(t *testing.T) {
		s, fake := newFakeSession(t)
		_ = s.Do(ctx, "a", func(inside context.Context, _ *Lock) error {
			if fake.holds[0].lose(); !errors.Is(context.Cause(inside), ErrLost) {
				t.Errorf("cause %v, want ErrLost", context.Cause(inside))
			}
			return nil
		})
	})
	t.Run("it is not called without the lock", func(t *testing.T) {
		s, fake := newFakeSession(t)
		fake.fail = fault.ErrClosed
		err := s.Do(ctx, "a", func(context.Context, *Lock) error { t.Error("called"); return nil })
		if !errors.Is(err, ErrClosed) {
			t.Errorf("Do = %v, want ErrClosed", err)
		}
	})
}

func TestADroppedLockIsReportedAndNotReleased(t *testing.T) {
	s, fake := newFakeSession(t)
	log := &page{}
	s.config.log, s.config.reportDropped = slog.New(slog.NewTextHandler(log, nil)), true
	n := &Node{own: s}
	ctx := context.Background()
	unlocked := mustLock(t, s, ctx, "unlocked")
	unlocked.Context()
	unlocked.Unlock(ctx)
	var lines []int
	func() { // so that nothing on this frame refers to the locks
		_, _, line, _ := runtime.Caller(0)
		l, _ := n.Lock(ctx, "dropped") // line + 1
		l.Context()
		n.RLock(ctx, "dropped/read")                 // line + 3
		s.TryAcquire(ctx, "dropped/semaphore", 1, 2) // line + 4
		lines = append(lines, line+1, line+3, line+4)
	}()
	deadline := time.Now().Add(10 * time.Second)
	for strings.Count(log.String(), "\n") < 3 && time.Now().Before(deadline) {
		runtime.GC()
		runtime.Gosched()
	}
	_, file, _, _ := runtime.Caller(0)
	for i, key := range []string{"dropped", "dropped/read", "dropped/semaphore"} {
		line := fmt.Sprintf("taken.line=%d", lines[i])
		found := false
		for _, s := range strings.Split(log.String(), "\n") {
			found = found || strings.Contains(s, "key="+key+" ") && strings.Contains(s, line) && strings.Contains(s, filepath.Base(file))
		}
		if !found {
			t.Errorf("no line for key %s with %s in\n%s", key, line, log)
		}
	}
	if strings.Contains(log.String(), "key=unlocked") {
		t.Errorf("an unlocked one was reported:\n%s", log)
	}
	for _, h := range fake.holds[1:] {
		if h.Err() != nil || h.releases > 0 {
			t.Error("a dropped lock was released")
		}
	}
}
