package meshtest

import (
	"context"

	"github.com/lockmesh/mesh"
)

// Locker is what code needs that only wants something done while it holds a lock: [Fake] is one, and [LockerOf] makes one of a
// node. A program declares such an interface itself, beside the code that needs it, and has an adapter like
// LockerOf's, so that it need not import this package: the Example of Fake shows both.
//
// A Locker shows no token, so fn cannot be fenced. Code that passes tokens on is tested with a [Fleet], or with [mesh.Solo].
type Locker interface {
	// Do calls fn while it holds key. Fn's context is derived from ctx and ends when the lock is lost, with
	// [context.Cause] [mesh.ErrLost]. Do returns fn's error; or an error that is ErrLost if the lock was lost
	// during fn; or, without a call of fn, why there was no lock: then it unwraps to ctx.Err() if ctx ended first.
	Do(ctx context.Context, key string, fn func(ctx context.Context) error) error
}

// LockerOf returns a Locker by a node's own session, whose locks have the options: see [mesh.Node.Do].
func LockerOf(n *mesh.Node, opts ...mesh.LockOption) Locker { return locker{n, opts} }

type locker struct {
	node *mesh.Node
	opts []mesh.LockOption
}

// Do implements Locker.
func (l locker) Do(ctx context.Context, key string, fn func(context.Context) error) error {
	if fn == nil {
		return l.node.Do(ctx, key, nil, l.opts...)
	}
	return l.node.Do(ctx, key, func(ctx context.Context, _ *mesh.Lock) error { return fn(ctx) }, l.opts...)
}
