package mesh

import (
	"context"
	"fmt"

	"github.com/lockmesh/mesh/shard"
)

// BreakOption changes a Break.
type BreakOption func(*breakOptions) error

type breakOptions struct{ why string }

// Because says why a grant is broken, and by whom: at most 255 bytes, for the logs of the nodes. Default: nothing.
func Because(reason string) BreakOption {
	return func(o *breakOptions) error {
		if len(reason) > shard.MaxWhy {
			return invalid("the reason", fmt.Sprintf("%d bytes", len(reason)), fmt.Sprintf("at most %d", shard.MaxWhy))
		}
		o.why = reason
		return nil
	}
}

// Break ends the grant that holds a key under a token, by an operator's word: a lock, permits, an operation, a leadership, or a passage of a
// barrier. [Node.Inspect] tells the tokens. A holder that hangs keeps its key for as long as its node lives; Break takes the key away from
// that holder, and nothing else: other grants of its session go on, and so does the session.
//
// The holder hears of it with the next renewal of its lease, within a third of its TTL: the contexts of the grant end with the cause
// [ErrBroken], and its Err and Unlock return that. ErrBroken is an [ErrLost], too. The key is free when the holder calls Unlock (or End,
// Resign, Leave), as its code has stopped by then. If it does not, or is cut off, the key is free when the shard's leader has waited for the
// TTL of the holder's session since it applied the Break; a new leader of the shard waits for the whole TTL once more. By then the holder
// does not believe in its grant any more, and nobody else gets the key before. A lock with [MaxHold] cannot be extended
// any more, and its holder is told once a second; if the holder is cut off, the lock lasts to its end. A caller over HTTP is told with its
// next request, and given no lease until it has given the lock back, or its lease is over.
//
// Break returns nil when nobody holds the key under this token any more. The token names one grant, so Break never breaks a later one. Break
// may be called again for the same token: the wait does not begin anew. If the shard loses its majority meanwhile and begins again, Break goes
// on once it is known there who holds the key. Errors:
//
//   - [ErrNotHeld] if nobody holds the key under this token; the use of a resource has a token, but does not hold the key
//   - ErrUnconfirmed, with ctx.Err(), if ctx ends first: the grant may be broken, and the key free later. With ErrQuiet as well if the shard
//     grants nothing yet (see [WithMaxTTL]), and nobody has reported such a grant to it so far
//   - [ErrTooManyBroken] if 64 other grants of that session are broken, and its node has not given them back
//   - ctx.Err() if ctx has ended already; ErrClosed, ErrInvalidKey, ErrInvalidOption
//
// While a node of [Start] cannot serve yet, Break waits; if ctx ends first, the error unwraps to ErrNotFounded and to ctx.Err(). Each Break
// is logged by the shard's leader, with key, token, holder, the node that was asked, and [Because]. Safe for concurrent use.
func (n *Node) Break(ctx context.Context, key string, token uint64, opts ...BreakOption) error {
	if err := checkCall(ctx, n.isZero()); err != nil {
		return err
	}
	if err := checkKey(key); err != nil {
		return err
	}
	if token == 0 {
		return invalid("the token", token, "that of a grant")
	}
	var o breakOptions
	if err := apply(&o, opts, "a BreakOption"); err != nil {
		return err
	}
	s, err := n.anySession(ctx)
	if err != nil {
		return err
	}
	return s.inner.Break(ctx, key, token, o.why)
}
