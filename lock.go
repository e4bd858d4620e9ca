package mesh

import (
	"context"
	"errors"
	"log/slog"
	"runtime"
	"strings"
	"sync"
	"time"

	"github.com/lockmesh/mesh/internal/client"
)

// Lock is one acquisition: of a key, of a reader's share in it, or of a semaphore's
// permits. It is held until Unlock, or until it is lost with its lease. A Lock that is
// garbage-collected while it is held is not released; a warning is logged, unless it has
// [MaxHold]. A zero or nil Lock behaves like a lock that was unlocked: ErrClosed. A Lock must not be
// copied.
type Lock struct {
	_       noCopy
	*handle // contexts and the node refer to the handle, so that they do not keep the Lock alive
	cleanup runtime.Cleanup
}

// noCopy makes go vet report copies of what has it.
type noCopy struct{}

func (*noCopy) Lock()   {}
func (*noCopy) Unlock() {}

// What a lock consists of, from the program to the shard:
//
//	Lock         what the program has; the garbage collector watches it
//	handle       its contexts, and whether it was unlocked: one for each call of Lock
//	grant        what handles share that entered one lock again (Reentrant)
//	node.Hold    the callers that wait for the release, and who is told of the end
//	client.Hold  until when the holder may count on the key

// handle is a Lock without the part that the garbage collector watches.
type handle struct {
	grant   *grant
	base    context.Context // Context carries its values
	callers [4]uintptr      // the stack at newLock, see takenAt

	mu       sync.Mutex
	armed    bool  // the hold will call end
	ended    error // ErrLost, ErrBroken or ErrClosed; nil while the handle is held
	unlocked bool
	last     bool   // this handle's Unlock released the grant
	result   error  // what Unlock returns if it was not the last
	stop     func() // undoes arm; nil if there is nothing to undo
	lost     chan struct{}
	ctx      context.Context
	cancel   context.CancelCauseFunc
	derived  []derived
	prune    int // at this length of derived, contexts that have ended are removed
}

// derived is a context that WithContext returned.
type derived struct {
	ctx    context.Context
	cancel context.CancelCauseFunc
}

func newLock(ctx context.Context, g *grant) *Lock {
	l := &Lock{handle: &handle{grant: g, base: ctx}}
	if g.owner.config.reportDropped {
		runtime.Callers(2, l.callers[:])
		l.cleanup = runtime.AddCleanup(l, dropped, l.handle)
	}
	return l
}

// of returns l's handle: for a zero or nil Lock, a handle that has ended.
func (l *Lock) of() *handle {
	if l.isZero() {
		return &handle{grant: &grant{}, base: context.Background(), ended: ErrClosed}
	}
	return l.handle
}

func (l *Lock) isZero() bool { return l == nil || l.handle == nil }

// Key returns the locked key.
func (l *Lock) Key() string { return l.of().grant.key }

// Token returns the fencing token of the grant, from 1 to 2^53 − 1. Of two grants of a
// key in one mesh the later has the larger token. Tokens of a mesh that was founded after an earlier one has ended are larger than those
// of that mesh, unless three things come together: its clients had all stopped as well; the time of day went back in between; and no state
// directory ([WithStateDir]) remembers the tokens.
// So a resource that remembers the largest token it has seen can refuse a holder that does
// not yet know that it lost the lock. A lock entered again by [Reentrant] has the token of
// the first.
func (l *Lock) Token() uint64 {
	if l.isZero() {
		return 0
	}
	return l.grant.hold.Token()
}

// Deadline returns until when the lock is held as far as renewals have confirmed it, as a
// time of day. Every confirmed renewal moves it, also after an Unlock that is not confirmed
// yet. If the lock is lost, its key is free soon after that time.
func (l *Lock) Deadline() time.Time {
	if l.isZero() {
		return time.Time{}
	}
	return l.grant.hold.Deadline()
}

// Err returns nil while the lock is held, by the clock at this call: call it right before a write. Afterwards it returns ErrLost, or ErrBroken if an
// operator has broken it ([Node.Break]), or ErrClosed if Unlock or the session's Close ended it.
func (l *Lock) Err() error {
	h := l.of()
	err := h.grant.err()
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.ended != nil {
		return h.ended
	}
	return err
}

// Context returns a context that ends with the hold. Its Err is context.Canceled then, as that of any context that is
// cancelled; [context.Cause] says why: ErrLost if the lock was lost, ErrBroken if it was broken, and context.Canceled after Unlock or the session's
// Close. So code below the lock returns or logs context.Cause(ctx), not ctx.Err(). The context carries the values of
// the one that the lock was acquired with, but does not end with that one.
func (l *Lock) Context() context.Context {
	h := l.of()
	h.arm()
	h.mu.Lock()
	ctx := h.ctx
	h.mu.Unlock()
	if ctx != nil {
		return ctx
	}
	ctx = withGrant(context.WithoutCancel(h.base), h.grant) // not under the mutex: it asks holds whether they have ended
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.ctx == nil {
		h.ctx, h.cancel = context.WithCancelCause(ctx)
		if h.ended != nil {
			h.cancel(causeOf(h.ended))
		}
	}
	return h.ctx
}

// WithContext returns a context that is derived from parent and also ends with the hold. [context.Cause] says which
// of the two ended it: ErrLost if the lock was lost, ErrBroken if it was broken; see Context. If parent is nil, the context has
// already ended, with the cause ErrInvalidOption.
func (l *Lock) WithContext(parent context.Context) context.Context {
	if parent == nil {
		ctx, cancel := context.WithCancelCause(context.Background())
		cancel(invalid("the context", "nil", "a context"))
		return ctx
	}
	h := l.of()
	h.arm()
	ctx, cancel := context.WithCancelCause(withGrant(parent, h.grant))
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.ended != nil {
		cancel(causeOf(h.ended))
		return ctx
	}
	if len(h.derived) >= h.prune {
		kept := h.derived[:0]
		for _, d := range h.derived {
			if d.ctx.Err() == nil {
				kept = append(kept, d)
			}
		}
		clear(h.derived[len(kept):])
		h.derived, h.prune = kept, max(8, 2*len(kept))
	}
	h.derived = append(h.derived, derived{ctx, cancel})
	return ctx
}

// Lost returns a channel that is closed when the lease ends before Unlock, or the lock is broken. Unlock does not
// close it.
func (l *Lock) Lost() <-chan struct{} {
	h := l.of()
	h.arm()
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.lost == nil {
		h.lost = make(chan struct{})
		if errors.Is(h.ended, ErrLost) {
			close(h.lost)
		}
	}
	return h.lost
}

// Extend gives a lock with [MaxHold] a new end: the time d after this call has sent its request, and for its holder 98 % of d
// after that, however much time was left before. d has the range of MaxHold. Locks without MaxHold are renewed, and need
// no extension. Until the answer comes, Deadline returns the earlier of the old and the new end,
// and the key may stay held until the later. If [Node.SetMaxTTL] has lowered the mesh's MaxTTL while the lock was
// held, the new end is no further away than the lowest MaxTTL of that time, even if MaxTTL has been raised again since.
//
// Errors:
//
//   - ctx.Err() if ctx ends first: the old or the new end counts
//   - ErrInvalidOption if ctx is nil, if l has no MaxHold, or if d is out of range: nothing has changed
//   - ErrLost, ErrBroken or ErrClosed if the lock had ended, or ended before the answer came
func (l *Lock) Extend(ctx context.Context, d time.Duration) error {
	if err := checkCall(ctx, l.isZero()); err != nil {
		return err
	}
	if !l.grant.fixed {
		return invalid("Extend", "of a lock without MaxHold", "of one with MaxHold")
	}
	if cfg := l.grant.owner.config; d < minHold || d > cfg.maxTTL() {
		return cfg.invalidHold("Extend", d)
	}
	if err := l.Err(); err != nil {
		return err
	}
	return l.grant.hold.Extend(ctx, d)
}

// Unlock ends the hold. Its contexts end first. Then the release is sent, even if ctx has
// ended, and retried until it is confirmed or the lease has ended; after Unlock has
// returned, the retries also go with each renewal of the session. Ctx bounds only the wait
// for the confirmation; if ctx has already ended, or ends with the hold, Unlock waits up to 1 s. If a lock was
// entered several times, only the last Unlock releases it.
//
// Unlock returns
//
//   - nil when the key is released; also if this is not the last Unlock of a lock that was entered several times: then the key
//     stays held, and nothing is sent
//   - ErrLost if the lease or the node had ended before
//   - ErrBroken if an operator has broken the lock; the release is sent all the same
//   - ErrUnconfirmed if the wait or the node ended first. The key is free at the latest when
//     the lease ends: soon after Deadline or, if an Extend was not answered, after the later
//     of the old and the new end
//   - ErrClosed if the session had been closed before
//
// Later calls wait for the same confirmation and return its result.
func (l *Lock) Unlock(ctx context.Context) error {
	if err := checkCall(ctx, l.isZero()); err != nil {
		return err
	}
	h := l.handle
	first, last, held, result := l.leave()
	if last {
		// The node ends the hold, and with it the contexts, before it sends the release (P8).
		result = h.grant.hold.Release(ctx)
	}
	if first {
		h.end(held)
	}
	return result
}

// leave counts the handle out of its grant, if it is the first Unlock. Last: this handle's Unlock releases the grant; else result is what
// that returns. Held is why the grant was over before, or nil.
func (l *Lock) leave() (first, last bool, held, result error) {
	h := l.handle
	held = h.grant.err() // not under the mutex: it may end contexts
	h.mu.Lock()
	first = !h.unlocked
	if first {
		h.unlocked = true
		if h.last = h.grant.leave(); !h.last {
			h.result = held
		}
	}
	last, result = h.last, h.result
	h.mu.Unlock()
	if first {
		l.cleanup.Stop()
	}
	return first, last, held, result
}

// arm makes the hold call end when it ends.
func (h *handle) arm() {
	h.mu.Lock()
	armed := h.armed || h.ended != nil
	h.armed = true
	h.mu.Unlock()
	if armed {
		_ = h.grant.err() // ends the hold if it is over by the clock: a timer may be late
		return
	}
	stop := h.grant.hold.OnEnd(h.end)
	_ = h.grant.err()
	h.mu.Lock()
	h.stop = stop
	h.mu.Unlock()
}

// end ends the handle and its contexts. Only the first call has an effect.
func (h *handle) end(cause error) {
	ended := ErrClosed
	switch {
	case errors.Is(cause, ErrBroken):
		ended = ErrBroken
	case errors.Is(cause, ErrLost):
		ended = ErrLost
	}
	h.mu.Lock()
	if h.ended != nil {
		h.mu.Unlock()
		return
	}
	h.ended = ended
	if h.lost != nil && errors.Is(ended, ErrLost) {
		close(h.lost)
	}
	cancel, all, stop := h.cancel, h.derived, h.stop
	h.derived, h.stop = nil, nil
	h.mu.Unlock()
	if cancel != nil {
		cancel(causeOf(ended))
	}
	for _, d := range all {
		d.cancel(causeOf(ended))
	}
	if stop != nil {
		stop() // a handle may end before its grant does
	}
}

// causeOf returns the cause that contexts end with.
func causeOf(ended error) error {
	if errors.Is(ended, ErrLost) {
		return ended
	}
	return context.Canceled
}

// takenAt returns where the program called Lock, RLock, Acquire or the like: the first
// caller that is not a method of this package.
func (h *handle) takenAt() runtime.Frame {
	frames := runtime.CallersFrames(h.callers[:])
	frame, more := frames.Next()
	methods, _, _ := strings.Cut(frame.Function, ".(*")
	for more && strings.HasPrefix(frame.Function, methods+".(*") {
		frame, more = frames.Next()
	}
	return frame
}

// dropped is called when a Lock was garbage-collected. A lock that is still held is not
// released: its owner may go on working and believe that it holds the key.
func dropped(h *handle) {
	h.mu.Lock()
	unlocked, watched := h.unlocked, h.armed
	h.mu.Unlock()
	switch {
	case unlocked || h.grant.err() != nil:
		return
	case h.grant.mode == client.Uses:
		if !watched {
			h.grant.hold.Keep() // nobody watches its end
		}
		return
	case h.grant.fixed:
		// A lock with MaxHold ends by itself, so a program may drop it. If Context, WithContext
		// or Lost was called, the program may still watch its end.
		if !watched && h.grant.leave() {
			h.grant.hold.Forsake()
		}
		return
	}
	frame, what := h.takenAt(), "a lock was dropped without Unlock, and is held until its session ends"
	switch h.grant.mode {
	case client.Operates:
		what = "an operation on a resource was dropped without End, and runs until its session ends"
	case client.Elects:
		what = "a leadership was dropped without Resign, and lasts until its session ends"
	case client.Enters:
		what = "a passage of a barrier was dropped without Leave, and lasts until its session ends"
	}
	h.grant.owner.config.log.Warn(what,
		"key", h.grant.key, "token", h.grant.hold.Token(),
		slog.Group("taken", "file", frame.File, "line", frame.Line))
}
