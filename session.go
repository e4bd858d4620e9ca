package mesh

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/lockmesh/mesh/internal/client"
	"github.com/lockmesh/mesh/internal/node"
	"github.com/lockmesh/mesh/shard"
)

// Session is a group of locks with its own lease TTL: see [Node.NewSession]. It is lost as a whole: if its lease
// is lost in any shard, all its locks are lost, and Done is closed. A lock with [MaxHold]
// has a lease of its own, whose end does not end the session or its other locks. A zero or
// nil Session behaves like a closed session.
type Session struct {
	inner   *node.Session
	acquire func(context.Context, client.Request) (*node.Hold, *client.WaitInfo, error) // inner.Acquire; tests replace it
	config  *sessionConfig
}

func newSession(inner *node.Session, config *sessionConfig) *Session {
	return &Session{inner: inner, acquire: inner.Acquire, config: config}
}

// sessionConfig is what all sessions of a node share.
type sessionConfig struct {
	log           *slog.Logger
	maxTTL        func() time.Duration // in force now: a command may change it
	shards        int
	reportDropped bool // log a Lock that is garbage-collected while it is held
}

// Done returns a channel that is closed when the session has ended.
func (s *Session) Done() <-chan struct{} {
	if s.isZero() {
		return closedChannel()
	}
	return s.inner.Done()
}

func (s *Session) isZero() bool { return s == nil || s.inner == nil }

// closedChannel returns the Done channel of a zero Node or Session.
func closedChannel() <-chan struct{} {
	done := make(chan struct{})
	close(done)
	return done
}

// Err returns nil while the session lasts, and afterwards ErrLost or ErrClosed.
func (s *Session) Err() error {
	if s.isZero() {
		return ErrClosed
	}
	return s.inner.Err()
}

// TTL returns the session's TTL as it was set. If MaxTTL is lowered below it ([Node.SetMaxTTL]), locks outlive their last confirmed renewal
// for their holder by MaxTTL only; for others their keys may stay locked for the whole TTL.
func (s *Session) TTL() time.Duration {
	if s.isZero() {
		return 0
	}
	return s.inner.TTL()
}

// Close ends the session. The contexts of its locks, operations and uses end first. Then the locks and uses are
// released, except [Durable] uses; operations that have not ended count as failed; and waiting calls return ErrClosed. Close returns nil
// once the shards have confirmed that. Ctx bounds only the wait for the
// confirmation: if ctx or the node ends first, Close returns ErrUnconfirmed, and a key whose release was
// not confirmed is free when its lease ends. If ctx has already ended, Close waits up to 1 s.
// If the session had ended before, Close does nothing and returns nil.
func (s *Session) Close(ctx context.Context) error {
	switch {
	case ctx == nil:
		return invalid("the context", "nil", "a context")
	case s.isZero():
		return nil
	}
	return s.inner.Close(ctx)
}

// Abandon ends the session as if its lease were lost: its locks, operations and uses are ErrLost, and their contexts have
// ended when Abandon returns. Only locks with [MaxHold] are released, at once; all other keys are free when their leases end, within
// [Session.TTL]. It is for a program that gives up and does not know that its work has stopped: work under a lock with MaxHold must have
// stopped before. It waits for no other node. If the session has ended, Abandon does nothing.
func (s *Session) Abandon() {
	if !s.isZero() {
		s.inner.Abandon()
	}
}

// Lock waits until key is granted exclusively, and returns the lock.
//
// A key is 1 to 1024 bytes, any bytes. Callers are served in the order in which their
// requests entered the key's queue. Every call is a request of its own: two goroutines
// that lock one key exclude each other. On any error nothing is held and no place in the
// queue is kept:
//
//   - a *[WaitError] that unwraps to ctx.Err() if ctx ends first, and also to ErrNoQuorum
//     if the key's replicas have not answered for 2 s
//   - ErrCapacityMismatch, ErrTooManyWaiters, ErrClosed, or ErrLost if the session was lost
//   - ErrLost for a lock with [MaxHold] that ended before it could be returned, because the
//     answer took that long or this process was suspended; ErrBroken if an operator broke the
//     lock before it could be returned ([Node.Break])
//   - ErrSelfDeadlock or ErrUpgrade if ctx comes from a lock of the same key; see [Reentrant]
//   - ErrDeadlock, in a *WaitError, with [DetectDeadlock]
//   - ErrInvalidKey, ErrInvalidOption
//
// Call Unlock when done.
func (s *Session) Lock(ctx context.Context, key string, opts ...LockOption) (*Lock, error) {
	return s.take(ctx, client.Request{Key: key}, opts)
}

// TryLock is Lock without waiting for other holders: if the key is held, or requests wait
// for it, it returns ErrLocked in a *[WaitError]; while the key's shard is quiet,
// ErrQuiet (see [WithMaxTTL]). If the key's replicas do not answer, it
// returns ErrNoQuorum after 2 s or when the lease ends. If this process was suspended for so
// long that the lock had ended before it could be returned, it returns ErrLost.
func (s *Session) TryLock(ctx context.Context, key string, opts ...LockOption) (*Lock, error) {
	return s.take(ctx, client.Request{Key: key, Try: true}, opts)
}

// RLock is Lock for readers: readers share the key and exclude writers, which call Lock.
// Readers that come after a waiting writer wait behind it.
func (s *Session) RLock(ctx context.Context, key string, opts ...LockOption) (*Lock, error) {
	return s.take(ctx, client.Request{Key: key, Mode: client.Shared}, opts)
}

// TryRLock is RLock without waiting; see TryLock.
func (s *Session) TryRLock(ctx context.Context, key string, opts ...LockOption) (*Lock, error) {
	return s.take(ctx, client.Request{Key: key, Mode: client.Shared, Try: true}, opts)
}

// Acquire waits until it gets this number of permits of the semaphore key, which has capacity permits in all:
// 1 ≤ permits ≤ capacity ≤ 2^40. All calls that use a semaphore at the same time must pass the
// same capacity; others get ErrCapacityMismatch. [Session.Resize] changes it. Requests are served in their order: a small one
// waits behind a large one, even if there are permits for the small one. Errors are those of Lock.
func (s *Session) Acquire(ctx context.Context, key string, permits, capacity int64, opts ...LockOption) (*Lock, error) {
	return s.take(ctx, client.Request{Key: key, Mode: client.Permits, Weight: permits, Capacity: capacity}, opts)
}

// TryAcquire is Acquire without waiting; see TryLock.
func (s *Session) TryAcquire(ctx context.Context, key string, permits, capacity int64, opts ...LockOption) (*Lock, error) {
	return s.take(ctx, client.Request{Key: key, Mode: client.Permits, Weight: permits, Capacity: capacity, Try: true}, opts)
}

// Do locks key, calls fn with the lock, and unlocks, even if fn panics. Fn's context is
// derived from ctx and also ends with the lock: see [Lock.WithContext]. So ctx bounds both
// the wait and the work. If fn's context ends because the lock was lost, its Err is context.Canceled as if the caller had
// given up, and its [context.Cause] is ErrLost: return or log the cause. If ctx has ended when fn returns, Do waits up to 1 s for the
// unlock's confirmation.
//
// Do returns Lock's error, or fn's error joined with Unlock's. So a lock that was lost
// during fn is an error (ErrLost), even if fn returned nil.
func (s *Session) Do(ctx context.Context, key string, fn func(context.Context, *Lock) error, opts ...LockOption) error {
	return do(ctx, s.Lock, key, fn, opts)
}

type locking func(ctx context.Context, key string, opts ...LockOption) (*Lock, error)

// do is Do, by the Lock of a node or of a session.
func do(ctx context.Context, lock locking, key string, fn func(context.Context, *Lock) error, opts []LockOption) (err error) {
	if fn == nil {
		return invalid("the function", "nil", "a function")
	}
	l, err := lock(ctx, key, opts...)
	if err != nil {
		return err
	}
	defer func() { err = joined(err, l.Unlock(ctx)) }()
	return fn(l.WithContext(ctx), l)
}

// keyed is what a Resource, an Election, a Latch and a Barrier have in common.
type keyed struct {
	key     string
	err     error // of an argument
	session func(context.Context) (*Session, error)
}

func newKeyed(key string, session func(context.Context) (*Session, error)) keyed {
	return keyed{key, checkKey(key), session}
}

func (s *Session) itself(context.Context) (*Session, error) { return s, nil }

// check checks the arguments, and returns the session.
func (k *keyed) check(ctx context.Context) (*Session, error) {
	if err := checkCall(ctx, k.session == nil); err != nil {
		return nil, err
	}
	if k.err != nil {
		return nil, k.err
	}
	s, err := k.session(ctx)
	if err == nil && s.isZero() {
		err = ErrClosed
	}
	return s, err
}

// take checks a request, and then enters the lock that its context holds or acquires one.
func (s *Session) take(ctx context.Context, req client.Request, opts []LockOption) (*Lock, error) {
	reentrant, err := s.check(ctx, &req, opts)
	if err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, s.waitError(req.Key, &client.WaitInfo{Quorum: true}, err)
	}
	g, err := s.obtain(ctx, req, reentrant)
	if err != nil {
		return nil, err
	}
	return newLock(ctx, g), nil
}

// obtain enters the grant that ctx holds, if that is allowed, or acquires one.
func (s *Session) obtain(ctx context.Context, req client.Request, reentrant bool) (*grant, error) {
	if g, err := s.reenter(ctx, &req, reentrant); err != nil || g != nil {
		return g, err
	}
	req.Within = s.within(ctx)
	h, info, err := s.acquire(ctx, req)
	if err != nil {
		return nil, s.waitError(req.Key, info, err)
	}
	return &grant{
		hold: h, owner: s, key: req.Key, mode: req.Mode, weight: req.Weight, capacity: req.Capacity,
		fixed: req.MaxHold > 0, entries: 1,
	}, nil
}

// check checks the arguments, adds those of opts to req, and returns whether req may enter
// the lock that ctx holds.
func (s *Session) check(ctx context.Context, req *client.Request, opts []LockOption) (reentrant bool, err error) {
	if err := checkCall(ctx, s.isZero()); err != nil {
		return false, err
	}
	reentrant, err = checkRequest(req, opts)
	if err == nil && req.MaxHold > s.config.maxTTL() {
		err = s.config.invalidHold("MaxHold", req.MaxHold)
	}
	return reentrant, err
}

// checkRequest is that part of check for which no mesh is needed.
func checkRequest(req *client.Request, opts []LockOption) (reentrant bool, err error) {
	if err := checkKey(req.Key); err != nil {
		return false, err
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
			return false, invalidOption(i, "a LockOption")
		}
		opt(&o)
	}
	switch {
	case len(o.value) > shard.MaxValue:
		return false, invalid("Value", fmt.Sprintf("%d bytes", len(o.value)), fmt.Sprintf("at most %d", shard.MaxValue))
	case o.fixed && o.hold < minHold:
		return false, invalid("MaxHold", o.hold, fmt.Sprintf("%v to the mesh's MaxTTL", minHold))
	}
	req.Value, req.MaxHold, req.Detects = slices.Clone(o.value), o.hold, o.detects
	return o.reentrant, nil
}

func checkKey(key string) error {
	if n := len(key); n == 0 || n > shard.MaxKey {
		return fmt.Errorf("%w: %q has %d bytes, want 1 to %d", ErrInvalidKey, brief(key), n, shard.MaxKey)
	}
	return nil
}

func (c *sessionConfig) invalidHold(what string, d time.Duration) error {
	return invalid(what, d, fmt.Sprintf("%v to the mesh's MaxTTL, %v", minHold, c.maxTTL()))
}

// sessionTTL checks the options of a new session and returns its lease TTL.
func (c *sessionConfig) sessionTTL(usual time.Duration, opts []SessionOption) (time.Duration, error) {
	o := sessionOptions{ttl: usual}
	for i, opt := range opts {
		if opt == nil {
			return 0, invalidOption(i, "a SessionOption")
		}
		opt(&o)
	}
	if most := c.maxTTL(); o.set && (o.ttl < minTTL || o.ttl > most) {
		return 0, invalid("WithTTL", o.ttl, fmt.Sprintf("%v to the mesh's MaxTTL, %v", minTTL, most))
	}
	return o.ttl, nil
}
