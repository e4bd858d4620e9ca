package mesh

import (
	"context"
	"errors"
	"log/slog"
	"runtime"
	"strings"
	"sync"
	"time"
)

// Lock is one acquisition: of a key, of a reader's share in it, or of a semaphore's
// permits. It is held until Unlock, or until it is lost with its lease. A Lock that is
// garbage-collected while it is held is not released; a warning is logged, unless it has
// [MaxHold]. The zero Lock and a nil one behave like a lock that is over: ErrClosed.
type Lock struct {
	*handle // what contexts and the node refer to, so that they do not keep the Lock itself
	cleanup runtime.Cleanup
}

// handle is a Lock without the part that the garbage collector watches.
type handle struct {
	grant   *grant
	base    context.Context // whose values Context has
	callers [4]uintptr      // of newLock: see takenAt

	mu       sync.Mutex
	armed    bool // ended will be called
	over     error
	unlocked bool
	last     bool  // this handle's Unlock released the grant
	result   error // of an Unlock that was not the last
	stop     func()
	lost     chan struct{}
	ctx      context.Context
	cancel   context.CancelCauseFunc
	derived  []derived
	prune    int // when derived is so long, those that have ended are taken out
}

// derived is a context of WithContext.
type derived struct {
	ctx    context.Context
	cancel context.CancelCauseFunc
}

func newLock(ctx context.Context, g *grant) *Lock {
	l := &Lock{handle: &handle{grant: g, base: ctx}}
	if h := g.owner.house; h.leaks {
		runtime.Callers(2, l.callers[:])
		l.cleanup = runtime.AddCleanup(l, dropped, l.handle)
	}
	return l
}

// of returns l's handle: for a Lock that no call has returned, one that is over.
func (l *Lock) of() *handle {
	if l.none() {
		return &handle{grant: &grant{hold: nothing{}}, base: context.Background(), over: ErrClosed}
	}
	return l.handle
}

func (l *Lock) none() bool { return l == nil || l.handle == nil }

// nothing is a hold that is over, and was none.
type nothing struct{}

func (nothing) Token() uint64                               { return 0 }
func (nothing) Err() error                                  { return ErrClosed }
func (nothing) Deadline() time.Time                         { return time.Time{} }
func (nothing) Release(context.Context) error               { return ErrClosed }
func (nothing) Extend(context.Context, time.Duration) error { return ErrClosed }
func (nothing) Shared(int)                                  {}
func (nothing) OnEnd(func(error)) (stop func())             { return nil } // a handle that is over does not ask
func (nothing) Forsake()                                    {}

// Key returns what is locked.
func (l *Lock) Key() string { return l.of().grant.key }

// Token returns the fencing token of the grant. Of two grants of a key the later has the
// larger token, whatever fails in between, so that a resource which remembers the largest
// that it has seen can refuse a holder that does not know yet that it is none. Tokens are
// from 1 to 2^53 − 1, and what enters a lock again has its token.
func (l *Lock) Token() uint64 { return l.of().grant.hold.Token() }

// Deadline returns when the lease ends as far as it is confirmed, as a time of day. It
// moves on with every renewal, and stays what it was when the hold is over.
func (l *Lock) Deadline() time.Time { return l.of().grant.hold.Deadline() }

// Err returns nil while the lock is held, by the clock at this call: ask right before
// a write. Then it returns ErrLost, or ErrClosed after Unlock.
func (l *Lock) Err() error {
	h := l.of()
	err := h.grant.hold.Err()
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.over != nil {
		return h.over
	}
	return err
}

// Context returns a context that ends with the hold: with [context.Cause] ErrLost when
// the lock is lost, else at Unlock. It carries the values of the context that the lock
// was taken with, and does not end with it.
func (l *Lock) Context() context.Context {
	h := l.of()
	h.arm()
	h.mu.Lock()
	ctx := h.ctx
	h.mu.Unlock()
	if ctx != nil {
		return ctx
	}
	ctx = withGrant(context.WithoutCancel(h.base), h.grant) // not under the mutex: it looks at holds
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.ctx == nil {
		h.ctx, h.cancel = context.WithCancelCause(ctx)
		if h.over != nil {
			h.cancel(causeOf(h.over))
		}
	}
	return h.ctx
}

// WithContext returns a context that is derived from parent and that ends with the hold, too;
// see Context. If parent is nil, the context has already ended, with the cause ErrInvalidOption.
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
	if h.over != nil {
		cancel(causeOf(h.over))
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

// Lost returns a channel that is closed when the lease ends before Unlock, and never by
// Unlock.
func (l *Lock) Lost() <-chan struct{} {
	h := l.of()
	h.arm()
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.lost == nil {
		h.lost = make(chan struct{})
		if h.over == ErrLost {
			close(h.lost)
		}
	}
	return h.lost
}

// Extend makes a lock with MaxHold end d from now, however much that was before; d is in
// the range of MaxHold, and time counts from sending. Other locks need no extension: for
// them it is ErrInvalidOption. If ctx ends first the old end stays, or the new one counts;
// Deadline tells. ErrLost, ErrClosed: it was too late.
func (l *Lock) Extend(ctx context.Context, d time.Duration) error {
	switch {
	case ctx == nil:
		return invalid("the context", "nil", "a context")
	case l.none():
		return ErrClosed
	case !l.grant.fixed:
		return invalid("Extend", d, "a lock with MaxHold")
	}
	if house := l.grant.owner.house; d < minHold || d > house.maxTTL {
		return house.invalidHold("Extend", d)
	}
	if err := l.Err(); err != nil {
		return err
	}
	return l.grant.hold.Extend(ctx, d)
}

// Unlock ends the hold. Its contexts end first; then the release is sent, also when ctx
// is done, and repeated until it is confirmed or the lease is over; once Unlock has returned,
// also with each renewal of its session. Ctx bounds only the wait for that; if it is done when
// Unlock is called, Unlock waits up to 1 s. Of a lock that was entered several times only the
// last Unlock releases.
//
// It returns nil when the key is released; ErrLost if the lease had ended before, or the
// node; ErrUnconfirmed if the wait ended first, and then the key is free at the latest
// when the lease ends: soon after Deadline or, if an Extend was not answered, after the later
// of the old and the new end; ErrClosed if the session was closed before.
// Later calls wait for, and return, what the first confirmed.
func (l *Lock) Unlock(ctx context.Context) error {
	switch {
	case ctx == nil:
		return invalid("the context", "nil", "a context")
	case l.none():
		return ErrClosed
	}
	h := l.handle
	held := h.grant.hold.Err() // not under the mutex: it may end contexts
	h.mu.Lock()
	first := !h.unlocked
	if first {
		h.unlocked = true
		if h.last = h.grant.leave(); !h.last {
			h.result = held
		}
	}
	last, result := h.last, h.result
	h.mu.Unlock()
	if first {
		l.cleanup.Stop()
	}
	if last {
		// The node ends the belief, and with it the contexts, before it sends (P8).
		result = h.grant.hold.Release(ctx)
	}
	if first {
		h.end(held)
	}
	return result
}

// arm sees to it that end is called with the hold's end.
func (h *handle) arm() {
	h.mu.Lock()
	armed := h.armed || h.over != nil
	h.armed = true
	h.mu.Unlock()
	if armed {
		_ = h.grant.hold.Err() // by the clock at this call: a timer may be late
		return
	}
	stop := h.grant.hold.OnEnd(h.end)
	_ = h.grant.hold.Err()
	h.mu.Lock()
	h.stop = stop
	h.mu.Unlock()
}

// end ends everything that hangs on the handle. The first cause counts.
func (h *handle) end(cause error) {
	over := ErrClosed
	if errors.Is(cause, ErrLost) {
		over = ErrLost
	}
	h.mu.Lock()
	if h.over != nil {
		h.mu.Unlock()
		return
	}
	h.over = over
	if h.lost != nil && over == ErrLost {
		close(h.lost)
	}
	cancel, all, stop := h.cancel, h.derived, h.stop
	h.derived, h.stop = nil, nil
	h.mu.Unlock()
	if cancel != nil {
		cancel(causeOf(over))
	}
	for _, d := range all {
		d.cancel(causeOf(over))
	}
	if stop != nil {
		stop() // a handle may end before its grant does
	}
}

// causeOf is the cause that contexts end with.
func causeOf(over error) error {
	if over == ErrLost {
		return ErrLost
	}
	return context.Canceled
}

// takenAt returns where the program called Lock or its like: the first of the callers that is
// no method of this package.
func (h *handle) takenAt() runtime.Frame {
	frames := runtime.CallersFrames(h.callers[:])
	frame, more := frames.Next()
	methods, _, _ := strings.Cut(frame.Function, ".(*")
	for more && strings.HasPrefix(frame.Function, methods+".(*") {
		frame, more = frames.Next()
	}
	return frame
}

// dropped is called when the garbage collector has found a Lock that nobody refers to.
// It is not released: its owner may well go on working in the belief that it holds.
func dropped(h *handle) {
	h.mu.Lock()
	unlocked, watched := h.unlocked, h.armed
	h.mu.Unlock()
	switch {
	case unlocked || h.grant.hold.Err() != nil:
		return
	case h.grant.fixed:
		// It ends by itself, and who takes it may well leave it at that. Only a context that
		// was made of it can tell anybody of its end.
		if !watched && h.grant.leave() {
			h.grant.hold.Forsake()
		}
		return
	}
	frame := h.takenAt()
	h.grant.owner.house.log.Warn("a lock was dropped without Unlock, and is held until its session ends",
		"key", h.grant.key, "token", h.grant.hold.Token(),
		slog.Group("taken", "file", frame.File, "line", frame.Line))
}
