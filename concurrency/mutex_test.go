package concurrency_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lockmesh/mesh"
	"github.com/lockmesh/mesh/concurrency"
)

func solo(t *testing.T, opts ...mesh.Option) *mesh.Node {
	t.Helper()
	n, err := mesh.Solo(append(opts, mesh.WithLogger(slog.New(slog.DiscardHandler)))...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { n.Close() })
	return n
}

func session(t *testing.T, n *mesh.Node, opts ...concurrency.SessionOption) *concurrency.Session {
	t.Helper()
	s, err := concurrency.NewSession(n, opts...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// is fails unless err is want itself: programs written for etcd compare with ==.
func is(t *testing.T, what string, err, want error) {
	t.Helper()
	if err != want {
		t.Errorf("%s: %v, want %v", what, err, want)
	}
}

func unwraps(t *testing.T, what string, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Errorf("%s: %v, want %v", what, err, want)
	}
}

// patience returns a context that ends before the test's process would.
func patience(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	t.Cleanup(cancel)
	return ctx
}

// soon fails unless over is closed in time.
func soon(t *testing.T, what string, over <-chan struct{}) {
	t.Helper()
	select {
	case <-over:
	case <-time.After(10 * time.Second):
		t.Fatalf("%s: it goes on", what)
	}
}

// begin runs a call, and returns a function that waits for its result.
func begin(t *testing.T, call func() error) (result func() error) {
	var err error
	over := make(chan struct{})
	go func() { err = call(); close(over) }()
	return func() error {
		t.Helper()
		soon(t, "a call", over)
		return err
	}
}

// moreThan waits until the node has asked for more than so many locks.
func moreThan(t *testing.T, n *mesh.Node, asked uint64) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); n.Stats().Acquires <= asked; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("no call begins")
		}
	}
}

func TestMutexesOfTwoSessions(t *testing.T) {
	t.Parallel() // it waits for real time
	ctx := patience(t)
	n := solo(t)
	m1 := concurrency.NewMutex(session(t, n), "job")
	m2 := concurrency.NewMutex(session(t, n), "job")

	is(t, "Unlock before Lock", m1.Unlock(ctx), concurrency.ErrLockReleased)
	is(t, "Err before Lock", m1.IsOwner().Err(), concurrency.ErrLockReleased)
	if m1.Header() != nil || m1.Key() != "" {
		t.Errorf("before Lock: header %v, key %q", m1.Header(), m1.Key())
	}

	is(t, "Lock", m1.Lock(ctx), nil)
	is(t, "TryLock of the other", m2.TryLock(ctx), concurrency.ErrLocked)
	is(t, "Unlock of the other", m2.Unlock(ctx), concurrency.ErrLockReleased)
	if _, err := n.TryLock(ctx, "job"); !errors.Is(err, mesh.ErrLocked) {
		t.Errorf("TryLock of the node: %v, want ErrLocked", err)
	}
	owner := m1.IsOwner()
	is(t, "Err", owner.Err(), nil)
	if owner.Key != m1.Key() || owner.CreateRevision != m1.Header().Revision || owner.CreateRevision < 1 {
		t.Errorf("IsOwner = %+v, key %q, header %+v", owner, m1.Key(), m1.Header())
	}
	waits := begin(t, func() error { return m2.Lock(ctx) })
	is(t, "Unlock", m1.Unlock(ctx), nil)
	is(t, "Lock of the other", waits(), nil)
	is(t, "Err after Unlock", owner.Err(), concurrency.ErrLockReleased)
	is(t, "a second Unlock", m1.Unlock(ctx), concurrency.ErrLockReleased)
	if m1.Key() != "" || m2.Header().Revision <= owner.CreateRevision || m1.Header().Revision != owner.CreateRevision {
		t.Errorf("after Unlock: key %q, headers %+v and %+v", m1.Key(), m1.Header(), m2.Header())
	}

	short, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
	defer cancel()
	unwraps(t, "Lock in time", m1.Lock(short), context.DeadlineExceeded)
	unwraps(t, "Lock with a context that has ended", m1.Lock(short), context.DeadlineExceeded)
	is(t, "Unlock after a Lock that failed", m1.Unlock(ctx), concurrency.ErrLockReleased)
	is(t, "Unlock", m2.Unlock(ctx), nil)
	is(t, "TryLock", m2.TryLock(ctx), nil) // the call that failed kept no place
	is(t, "Unlock", m2.Unlock(ctx), nil)
}

// A session that holds the lock locks its other mutexes at once. The lock is released with the last of them.
func TestMutexesOfOneSession(t *testing.T) {
	ctx := patience(t)
	n := solo(t)
	s := session(t, n)
	one, two := concurrency.NewMutex(s, "job"), concurrency.NewMutex(s, "job")
	other := concurrency.NewMutex(session(t, n), "job")

	is(t, "Lock", one.Lock(ctx), nil)
	is(t, "the same Lock", one.Lock(ctx), nil)
	is(t, "Lock of the second", two.Lock(ctx), nil)
	is(t, "TryLock of the second", two.TryLock(ctx), nil)
	if one.Key() != two.Key() || *one.Header() != *two.Header() || one.Key() != fmt.Sprintf("job/%x", one.Header().Revision) {
		t.Errorf("keys %q and %q, headers %+v and %+v", one.Key(), two.Key(), one.Header(), two.Header())
	}
	is(t, "Unlock", one.Unlock(ctx), nil)
	is(t, "Unlock again", one.Unlock(ctx), concurrency.ErrLockReleased)
	is(t, "TryLock of another session", other.TryLock(ctx), concurrency.ErrLocked)
	is(t, "Err of the second", two.IsOwner().Err(), nil)
	is(t, "Lock again", one.Lock(ctx), nil)
	is(t, "Unlock of the second", two.Unlock(ctx), nil)
	is(t, "Err of the first", one.IsOwner().Err(), nil)
	is(t, "Unlock of the first", one.Unlock(ctx), nil)
	is(t, "TryLock of another session", other.TryLock(ctx), nil)

	// A late Unlock does not release what the session has got since.
	is(t, "Unlock of the other", other.Unlock(ctx), nil)
	is(t, "Lock of the second", two.Lock(ctx), nil)
	is(t, "a late Unlock", one.Unlock(ctx), concurrency.ErrLockReleased)
	is(t, "TryLock of another session", other.TryLock(ctx), concurrency.ErrLocked)
}

// watched is a context that says when its end is waited for.
type watched struct {
	context.Context
	waits func()
}

func (c watched) Done() <-chan struct{} {
	c.waits()
	return c.Context.Done()
}

// Of two calls of one session that wait for a lock, both get it when the session gets it; and one goes on when the other gives up.
func TestCallsOfOneSessionWaitTogether(t *testing.T) {
	t.Parallel() // it waits for real time
	ctx := patience(t)
	n := solo(t)
	s := session(t, n)
	holder := concurrency.NewMutex(session(t, n), "job")
	for _, givesUp := range []bool{false, true} {
		is(t, "Lock", holder.Lock(ctx), nil)
		first, second := concurrency.NewMutex(s, "job"), concurrency.NewMutex(s, "job")
		asked := n.Stats().Acquires
		firstCtx, cancel := context.WithCancel(ctx)
		defer cancel()
		waits := begin(t, func() error { return first.Lock(firstCtx) })
		moreThan(t, n, asked)
		began := make(chan struct{})
		waits2 := begin(t, func() error { return second.Lock(watched{ctx, sync.OnceFunc(func() { close(began) })}) })
		soon(t, "the second", began)
		is(t, "TryLock meanwhile", concurrency.NewMutex(s, "job").TryLock(ctx), concurrency.ErrLocked)
		ended, end := context.WithCancel(ctx)
		third := begin(t, func() error { return concurrency.NewMutex(s, "job").Lock(ended) })
		end()
		unwraps(t, "a third", third(), context.Canceled)
		if givesUp {
			cancel()
			unwraps(t, "the first", waits(), context.Canceled)
		}
		is(t, "Unlock", holder.Unlock(ctx), nil)
		is(t, "the second", waits2(), nil)
		if !givesUp {
			is(t, "the first", waits(), nil)
			is(t, "Unlock of the first", first.Unlock(ctx), nil)
		}
		is(t, "TryLock of the holder", holder.TryLock(ctx), concurrency.ErrLocked)
		is(t, "Unlock of the second", second.Unlock(ctx), nil)
	}
	is(t, "TryLock at last", holder.TryLock(ctx), nil)
}

// Calls that wait when their session ends do not wait any longer.
func TestASessionThatEndsWhileACallWaits(t *testing.T) {
	t.Parallel() // it waits for real time
	ctx := patience(t)
	n := solo(t)
	holder := concurrency.NewMutex(session(t, n), "job")
	is(t, "Lock", holder.Lock(ctx), nil)
	for what, end := range map[string]func(*concurrency.Session){
		"Close":  func(s *concurrency.Session) { is(t, "Close", s.Close(), nil) },
		"Orphan": (*concurrency.Session).Orphan,
	} {
		s := session(t, n)
		asked := n.Stats().Acquires
		waits := []func() error{
			begin(t, func() error { return concurrency.NewMutex(s, "job").Lock(ctx) }),
			begin(t, func() error { return concurrency.NewMutex(s, "job").Lock(ctx) }),
		}
		moreThan(t, n, asked)
		end(s)
		for _, w := range waits {
			is(t, what, w(), concurrency.ErrSessionExpired)
		}
		is(t, "TryLock after "+what, concurrency.NewMutex(s, "job").TryLock(ctx), concurrency.ErrSessionExpired)
	}
	is(t, "the holder", holder.IsOwner().Err(), nil)
}

func TestWrongInputToAMutex(t *testing.T) {
	ctx := patience(t)
	s := session(t, solo(t))
	for what, name := range map[string]string{"an empty name": "", "a long name": strings.Repeat("x", 1025)} {
		m := concurrency.NewMutex(s, name)
		unwraps(t, what, m.Lock(ctx), mesh.ErrInvalidKey)
		unwraps(t, what, m.TryLock(ctx), mesh.ErrInvalidKey)
		unwraps(t, what, m.Unlock(ctx), concurrency.ErrLockReleased)
	}
	m := concurrency.NewMutex(s, "job")
	var none context.Context
	unwraps(t, "no context", m.Lock(none), mesh.ErrInvalidOption)
	unwraps(t, "no context", m.TryLock(none), mesh.ErrInvalidOption)
	is(t, "Lock", m.Lock(ctx), nil)
	unwraps(t, "no context", m.Unlock(none), mesh.ErrInvalidOption)
	is(t, "Unlock", m.Unlock(ctx), nil)

	if _, err := s.Client().Acquire(ctx, "permits", 1, 2); err != nil {
		t.Fatal(err)
	}
	unwraps(t, "a semaphore's key", concurrency.NewMutex(s, "permits").Lock(ctx), mesh.ErrCapacityMismatch)

	for what, m := range map[string]*concurrency.Mutex{
		"nil": nil, "zero": {}, "no session": concurrency.NewMutex(nil, "job"), "a zero session": concurrency.NewMutex(&concurrency.Session{}, "job"),
	} {
		is(t, what, m.Lock(ctx), concurrency.ErrSessionExpired)
		is(t, what, m.TryLock(ctx), concurrency.ErrSessionExpired)
		is(t, what, m.Unlock(ctx), concurrency.ErrLockReleased)
		is(t, what, m.IsOwner().Err(), concurrency.ErrLockReleased)
		if m.Key() != "" || m.Header() != nil {
			t.Errorf("%s: key %q, header %v", what, m.Key(), m.Header())
		}
	}
}

func TestALocker(t *testing.T) {
	n := solo(t)
	counter, overlaps := 0, 0
	var all sync.WaitGroup
	for range 4 {
		s := session(t, n)
		all.Go(func() {
			l := concurrency.NewLocker(s, "counter")
			for range 50 {
				l.Lock()
				before := counter
				counter++
				if counter != before+1 {
					overlaps++
				}
				l.Unlock()
			}
		})
	}
	all.Wait()
	if counter != 200 || overlaps != 0 {
		t.Errorf("counted to %d, %d overlaps", counter, overlaps)
	}
	s := session(t, n)
	l := concurrency.NewLocker(s, "counter")
	panics(t, "Unlock before Lock", l.Unlock, concurrency.ErrLockReleased)
	l.Lock()
	s.Close()
	panics(t, "Unlock after the session", l.Unlock, concurrency.ErrSessionExpired)
	panics(t, "Lock after the session", l.Lock, concurrency.ErrSessionExpired)
}

func panics(t *testing.T, what string, f func(), want error) {
	t.Helper()
	defer func() {
		t.Helper()
		if got := recover(); got != want {
			t.Errorf("%s panics with %v, want %v", what, got, want)
		}
	}()
	f()
}

// The methods of one mutex may be called by many goroutines.
func TestAMutexOfManyGoroutines(t *testing.T) {
	t.Parallel() // it waits for real time
	ctx := patience(t)
	n := solo(t)
	s := session(t, n)
	m, other := concurrency.NewMutex(s, "job"), concurrency.NewMutex(s, "job")
	rival := concurrency.NewMutex(session(t, n), "job")
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			for range 50 {
				m := m
				switch {
				case i%4 == 1:
					m = other
				case i%4 == 2:
					m = rival
				}
				if err := m.Lock(ctx); err != nil {
					t.Errorf("Lock: %v", err)
				}
				_, _, _ = m.Key(), m.Header(), m.IsOwner().Err()
				if err := m.TryLock(ctx); err != nil && err != concurrency.ErrLocked {
					t.Errorf("TryLock: %v", err)
				}
				if err := m.Unlock(ctx); err != nil && err != concurrency.ErrLockReleased {
					t.Errorf("Unlock: %v", err)
				}
			}
		})
	}
	all.Wait()
	for _, m := range []*concurrency.Mutex{m, other, rival} {
		_ = m.Unlock(ctx) // its last TryLock may have succeeded after another goroutine's Unlock
	}
	last := concurrency.NewMutex(session(t, n), "job")
	is(t, "TryLock at last", last.TryLock(ctx), nil)
}
