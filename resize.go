package mesh

import (
	"context"
	"errors"
	"fmt"

	"github.com/lockmesh/mesh/shard"
)

// Resize changes the capacity of the semaphore key from one number of permits to another, each 1 to 2^40, while it is in use. It
// returns nil once that is confirmed; also if the capacity equals the argument to already, and if nobody holds the key or waits for it: an unused key
// has no capacity, and nothing is changed then. The next Acquire says what it is.
//
// Nobody loses permits. If more are held than the new capacity, none is granted until a request fits. Callers that wait for more permits
// than the new capacity get ErrCapacityMismatch. Acquire still accepts the latest 8 capacities that the semaphore had before, until nobody
// holds the key or waits for it, so that the processes of a fleet may learn of a new capacity one after the other. Once it is idle,
// the next Acquire makes its own capacity that of the key. Resize may be called through any node.
// An Acquire that enters permits which its ctx holds already ([Reentrant]) must name the capacity of the Acquire that got them.
//
// Other errors:
//
//   - ErrCapacityMismatch if the key is not a semaphore, or has another capacity than from or to. The text says which, as a rule. Nothing is changed.
//   - ErrUnconfirmed if ctx ends first, or the lease of the session in the key's shard, or the session: the capacity may be changed or not, also a moment
//     later. Resize may be repeated: it changes the capacity only if that equals the argument from.
//   - ErrQuiet if the key's shard grants nothing yet (see [WithMaxTTL]), and nobody has told it of the key so far. Nothing is changed.
//   - ctx.Err() if ctx has ended already; ErrClosed, ErrLost, ErrInvalidKey, ErrInvalidOption
//
// When the key's shard has lost its majority and begins again, it knows the capacity from those who hold permits or wait. If they report
// several capacities, the smallest counts until Resize changes it, and Acquire accepts the others, too: so a Resize may be lost then.
//
// Safe for concurrent use.
func (s *Session) Resize(ctx context.Context, key string, from, to int64) error {
	if err := checkCall(ctx, s.isZero()); err != nil {
		return err
	}
	if err := checkResize(key, from, to); err != nil {
		return err
	}
	now, err := s.inner.Resize(ctx, key, from, to)
	switch {
	case errors.Is(err, ErrCapacityMismatch) && now != 0:
		return fmt.Errorf("%w: %q has %d permits, not %d", err, brief(key), now, from)
	case errors.Is(err, ErrCapacityMismatch):
		return fmt.Errorf("%w: %q is no semaphore of %d permits", err, brief(key), from)
	}
	return err
}

// Resize is [Session.Resize] in the node's own session. While a node of [Start] cannot serve yet, it waits; if ctx ends first,
// the error unwraps to ErrNotFounded and to ctx.Err().
func (n *Node) Resize(ctx context.Context, key string, from, to int64) error {
	if ctx == nil {
		return invalid("the context", "nil", "a context")
	}
	if err := checkResize(key, from, to); err != nil && !n.isZero() {
		return err
	}
	s, err := n.anySession(ctx)
	if err != nil {
		return err
	}
	return s.Resize(ctx, key, from, to)
}

func checkResize(key string, from, to int64) error {
	if err := checkKey(key); err != nil {
		return err
	}
	for _, permits := range []int64{from, to} {
		if permits < 1 || permits > shard.MaxWeight {
			return invalid("the capacity", permits, fmt.Sprintf("1 to %d", int64(shard.MaxWeight)))
		}
	}
	return nil
}
