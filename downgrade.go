package mesh

import (
	"context"
	"errors"
	"fmt"

	"github.com/lockmesh/mesh/internal/client"
)

// Downgrade turns a writer's lock, of Lock or TryLock, into a reader's lock, which it returns. Other readers get in, and no writer has had the
// key in between. L ends at once, before anything is sent: its contexts end, and its Err and Unlock return ErrClosed. The reader's lock
// has the same token and the same lease, and [MaxHold] ends it when it would have ended l. Nothing upgrades it again.
//
// The request is repeated until it is confirmed or the lease has ended, also after Downgrade has returned, as a release is. Ctx
// bounds only the wait for the confirmation; if it has already ended, or ends with l, Downgrade waits up to 1 s. Errors:
//
//   - ErrUnconfirmed, together with the reader's lock, if the wait ended first: the reader's lock is held, and no other reader need be in yet
//   - ErrLost, ErrBroken or ErrClosed if the lock had ended before, or ended before the answer came: nothing is held
//   - ErrInvalidOption if ctx is nil, if l is no writer's lock, or if it is entered more than once ([Reentrant]): nothing has changed
func (l *Lock) Downgrade(ctx context.Context) (*Lock, error) {
	if err := checkCall(ctx, l.isZero()); err != nil {
		return nil, err
	}
	if l.grant.mode != client.Exclusive {
		return nil, invalid("Downgrade", fmt.Sprintf("of %q, which is not held by a writer", brief(l.grant.key)), "a lock of Lock or TryLock")
	}
	if err := l.Err(); err != nil {
		return nil, err
	}
	if err := l.yield(); err != nil {
		return nil, err
	}
	l.cleanup.Stop()
	h, g := l.handle, l.grant
	reader := newLock(h.base, &grant{hold: g.hold, owner: g.owner, key: g.key, mode: client.Shared, fixed: g.fixed, entries: 1})
	err := g.hold.Downgrade(ctx, func() { h.end(nil) })
	if err != nil && !errors.Is(err, ErrUnconfirmed) {
		return nil, err
	}
	return reader, err
}

// yield takes a handle out of its grant, which is to go on under another handle.
func (h *handle) yield() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.unlocked {
		return ErrClosed
	}
	g := h.grant
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.entries != 1 {
		return invalid("Downgrade", fmt.Sprintf("of a lock that is entered %d times", g.entries), "one that is entered once")
	}
	g.entries = 0
	h.unlocked, h.result = true, ErrClosed
	return nil
}
