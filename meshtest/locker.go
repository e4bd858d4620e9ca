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
	// Do calls fn while it holds key. Fn's context is derived from ctx and also ends when the lock is lost, with the
	// [context.Cause] [mesh.ErrLost]. Do returns fn's error. If the lock was lost during fn, Do's error is ErrLost, whatever
	// fn returned. If there was no lock, fn was not called, and the error says why: it unwraps to ctx.Err() if ctx ended first.
	Do(ctx context.Context, key string, fn func(ctx context.Context) error) error
}

// LockerOf returns a Locker whose Do is [mesh.Node.Do] of node n with these options, without the lock for fn.
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
