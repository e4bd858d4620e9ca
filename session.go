package mesh

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/lockmesh/mesh/internal/client"
	"github.com/lockmesh/mesh/shard"
)

// Session is the life of several locks, with a lease time of its own. It has one fate: if
// the lease is lost anywhere, all its locks are lost, and Done is closed. Only a lock with
// [MaxHold] has a lease of its own: its end ends no other lock of the session. The zero
// Session and a nil one behave like a session that was closed.
type Session struct {
	life   life
	house  *house
	ownTTL time.Duration
}

// house is what all sessions of a node have in common.
type house struct {
	log     *slog.Logger
	maxTTL  time.Duration
	shardOf func(key string) int
	leaks   bool // report handles that were dropped while they hold
}

// life is what a Session needs of the node.
type life interface {
	Acquire(context.Context, client.Request) (hold, *client.WaitInfo, error)
	Done() <-chan struct{}
	Err() error
	Close(context.Context) error
}

// hold is what a Lock needs of it: one grant.
type hold interface {
	Token() uint64
	Err() error
	Deadline() time.Time
	Release(context.Context) error
	Extend(context.Context, time.Duration) error
	OnEnd(func(cause error)) (stop func())
	Shared(handles int) // so many share it now: for simulations
	Forsake()           // nobody can give it back any more, nor see its end
}

// Done returns a channel that is closed when the session has ended.
func (s *Session) Done() <-chan struct{} {
	if s.none() {
		return past()
	}
	return s.life.Done()
}

func (s *Session) none() bool { return s == nil || s.life == nil }

// past is the end of what never lived.
func past() <-chan struct{} {
	done := make(chan struct{})
	close(done)
	return done
}

// Err returns nil while the session lives, then ErrLost or ErrClosed.
func (s *Session) Err() error {
	if s.none() {
		return ErrClosed
	}
	return s.life.Err()
}

// TTL returns how long the session's locks outlive its last confirmed renewal.
func (s *Session) TTL() time.Duration {
	if s.none() {
		return 0
	}
	return s.ownTTL
}

// Close ends the session. The contexts of its locks end first, then the locks are
// released, and calls that wait return ErrClosed. Ctx bounds only the wait for the
// confirmation: if it ends, Close returns ErrUnconfirmed, and what was not confirmed is
// free when its lease ends. Closing a session twice does nothing.
func (s *Session) Close(ctx context.Context) error {
	switch {
	case ctx == nil:
		return invalid("the context", "nil", "a context")
	case s.none():
		return nil
	}
	return s.life.Close(ctx)
}

// Lock waits until this handle alone holds key, and returns it.
//
// A key is 1 to 1024 bytes, any bytes. Callers are served in the order in which their
// requests entered the key's queue. Every call is a request of its own: two goroutines
// that lock one key exclude each other. On any error nothing is held and no place in the
// queue is kept:
//
//   - a *[WaitError] that unwraps to ctx.Err() when ctx ends first, and to ErrNoQuorum too
//     if the key's replicas do not answer
//   - ErrCapacityMismatch, ErrTooManyWaiters, ErrClosed, or ErrLost for a session that was lost
//   - ErrLost with [MaxHold] if the lock was over before it could be returned: the answer took
//     that long, or this process stood still
//   - ErrSelfDeadlock or ErrUpgrade if ctx comes from a lock of the same key; see [Reentrant]
//   - ErrInvalidKey, ErrInvalidOption
//
// Call Unlock when done.
func (s *Session) Lock(ctx context.Context, key string, opts ...LockOption) (*Lock, error) {
	return s.take(ctx, client.Request{Key: key}, opts)
}

// TryLock is Lock without waiting for others: if the key is held, or others wait for it,
// it returns ErrLocked in a *[WaitError]. If the key's replicas do not answer it returns
// ErrNoQuorum, after 2 s or when the lease ends; and ErrLost if this process stood still for
// so long that the lock it got was over.
func (s *Session) TryLock(ctx context.Context, key string, opts ...LockOption) (*Lock, error) {
	return s.take(ctx, client.Request{Key: key, Try: true}, opts)
}

// RLock is Lock for a reader: readers share the key, and exclude those who Lock it. A
// writer that waits lets no later reader pass.
func (s *Session) RLock(ctx context.Context, key string, opts ...LockOption) (*Lock, error) {
	return s.take(ctx, client.Request{Key: key, Mode: client.Shared}, opts)
}

// TryRLock is RLock without waiting for others; see TryLock.
func (s *Session) TryRLock(ctx context.Context, key string, opts ...LockOption) (*Lock, error) {
	return s.take(ctx, client.Request{Key: key, Mode: client.Shared, Try: true}, opts)
}

// Acquire waits until it has n permits of the semaphore key, which has capacity of them:
// 1 ≤ n ≤ capacity ≤ 2^40. All who use the semaphore at a time name the same capacity,
// or get ErrCapacityMismatch. A large request that waits lets no later one pass. See Lock.
func (s *Session) Acquire(ctx context.Context, key string, n, capacity int64, opts ...LockOption) (*Lock, error) {
	return s.take(ctx, client.Request{Key: key, Mode: client.Permits, Weight: n, Capacity: capacity}, opts)
}

// TryAcquire is Acquire without waiting for others; see TryLock.
func (s *Session) TryAcquire(ctx context.Context, key string, n, capacity int64, opts ...LockOption) (*Lock, error) {
	return s.take(ctx, client.Request{Key: key, Mode: client.Permits, Weight: n, Capacity: capacity, Try: true}, opts)
}

// Do locks key, calls fn with the lock, and unlocks, also if fn panics. Fn's context is derived
// from ctx and ends with the hold, too: see [Lock.WithContext]. So ctx governs not only the wait
// but the work as well; if it has ended when fn returns, Do waits up to 1 s for the unlock.
//
// Do returns what Lock failed with; else fn's error joined with Unlock's, so that a lock
// that was lost meanwhile is an error (ErrLost) though fn returned nil.
func (s *Session) Do(ctx context.Context, key string, fn func(context.Context, *Lock) error, opts ...LockOption) error {
	return s.do(ctx, key, fn, opts)
}

func (s *Session) do(ctx context.Context, key string, fn func(context.Context, *Lock) error, opts []LockOption) (err error) {
	if fn == nil {
		return invalid("the function", "nil", "a function")
	}
	l, err := s.take(ctx, client.Request{Key: key}, opts)
	if err != nil {
		return err
	}
	defer func() {
		if no := l.Unlock(ctx); err == nil {
			err = no
		} else if no != nil && !errors.Is(err, no) {
			err = errors.Join(err, no)
		}
	}()
	return fn(l.WithContext(ctx), l)
}

// take checks a request, and enters or acquires what it asks for.
func (s *Session) take(ctx context.Context, req client.Request, opts []LockOption) (*Lock, error) {
	reentrant, err := s.check(ctx, &req, opts)
	if err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, newWaitError(req.Key, s.house.shardOf(req.Key), client.WaitInfo{Quorum: true}, err)
	}
	g, err := s.reenter(ctx, &req, reentrant)
	if err != nil {
		return nil, err
	}
	if g == nil {
		h, info, err := s.life.Acquire(ctx, req)
		if err != nil {
			return nil, newWaitError(req.Key, s.house.shardOf(req.Key), *info, err)
		}
		g = &grant{
			hold: h, owner: s, key: req.Key, mode: req.Mode, weight: req.Weight, capacity: req.Capacity,
			fixed: req.MaxHold > 0, entries: 1,
		}
	}
	return newLock(ctx, g), nil
}

// check completes req and returns whether it may enter what its context holds.
func (s *Session) check(ctx context.Context, req *client.Request, opts []LockOption) (reentrant bool, err error) {
	switch {
	case ctx == nil:
		return false, invalid("the context", "nil", "a context")
	case s.none():
		return false, ErrClosed
	}
	if n := len(req.Key); n == 0 || n > shard.MaxKey {
		return false, fmt.Errorf("%w: %q has %d bytes, want 1 to %d", ErrInvalidKey, brief(req.Key), n, shard.MaxKey)
	}
	if req.Mode == client.Permits {
		switch n, most := req.Weight, req.Capacity; {
		case most < 1 || most > shard.MaxWeight:
			return false, invalid("the capacity", most, fmt.Sprintf("1 to %d", int64(shard.MaxWeight)))
		case n < 1 || n > most:
			return false, invalid("the number of permits", n, fmt.Sprintf("1 to the capacity, %d", most))
		}
	}
	if len(opts) == 0 {
		return false, nil
	}
	var o lockOptions
	for i, opt := range opts {
		if opt == nil {
			return false, invalid(fmt.Sprintf("option %d", i+1), "nil", "a LockOption")
		}
		opt(&o)
	}
	switch {
	case len(o.value) > shard.MaxValue:
		return false, invalid("Value", fmt.Sprintf("%d bytes", len(o.value)), fmt.Sprintf("at most %d", shard.MaxValue))
	case o.fixed && (o.hold < minHold || o.hold > s.house.maxTTL):
		return false, s.house.invalidHold("MaxHold", o.hold)
	}
	req.Value, req.MaxHold = slices.Clone(o.value), o.hold
	return o.reentrant, nil
}

func (h *house) invalidHold(what string, d time.Duration) error {
	return invalid(what, d, fmt.Sprintf("%v to the mesh's MaxTTL, %v", minHold, h.maxTTL))
}

// ttl checks the options of a new session and returns its lease time.
func (h *house) ttl(usual time.Duration, opts []SessionOption) (time.Duration, error) {
	o := sessionOptions{ttl: usual}
	for i, opt := range opts {
		if opt == nil {
			return 0, invalid(fmt.Sprintf("option %d", i+1), "nil", "a SessionOption")
		}
		opt(&o)
	}
	if o.set && (o.ttl < minTTL || o.ttl > h.maxTTL) {
		return 0, invalid("WithTTL", o.ttl, fmt.Sprintf("%v to the mesh's MaxTTL, %v", minTTL, h.maxTTL))
	}
	return o.ttl, nil
}
