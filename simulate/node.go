package simulate

import (
	"context"
	"time"
)

// Node is what [Lockers] need of a node: a *mesh.Node without the options. [AsNode] makes
// one.
type Node interface {
	Lock(ctx context.Context, key string) (Lock, error)
	TryLock(ctx context.Context, key string) (Lock, error)
	RLock(ctx context.Context, key string) (Lock, error)
	Acquire(ctx context.Context, key string, permits, capacity int64) (Lock, error)
}

// Lock is what a call for a key returns: a *mesh.Lock is one. After the hold has ended,
// Deadline stays what it was.
type Lock interface {
	Token() uint64
	Context() context.Context
	Deadline() time.Time
	Unlock(ctx context.Context) error
}

// AsNode makes a Node of a *mesh.Node, or of a *mesh.Session.
//
//	Join: func(ctx context.Context, host string) (simulate.Node, error) {
//		node, err := mesh.JoinContext(ctx, seeds, mesh.WithBind(":7300"))
//		if err != nil {
//			return nil, err
//		}
//		return simulate.AsNode(node), nil
//	}
func AsNode[L Lock, O any](node meshNode[L, O]) Node { return plainNode[L, O]{node} }

// meshNode is a *mesh.Node. Package mesh is not imported here, for tests of what it is
// made of import this one.
type meshNode[L Lock, O any] interface {
	Lock(ctx context.Context, key string, opts ...O) (L, error)
	TryLock(ctx context.Context, key string, opts ...O) (L, error)
	RLock(ctx context.Context, key string, opts ...O) (L, error)
	Acquire(ctx context.Context, key string, permits, capacity int64, opts ...O) (L, error)
}

// plainNode implements Node.
type plainNode[L Lock, O any] struct{ node meshNode[L, O] }

func (n plainNode[L, O]) Lock(ctx context.Context, key string) (Lock, error) {
	return plainLock(n.node.Lock(ctx, key))
}

func (n plainNode[L, O]) TryLock(ctx context.Context, key string) (Lock, error) {
	return plainLock(n.node.TryLock(ctx, key))
}

func (n plainNode[L, O]) RLock(ctx context.Context, key string) (Lock, error) {
	return plainLock(n.node.RLock(ctx, key))
}

func (n plainNode[L, O]) Acquire(ctx context.Context, key string, permits, capacity int64) (Lock, error) {
	return plainLock(n.node.Acquire(ctx, key, permits, capacity))
}

// plainLock keeps a nil *mesh.Lock from becoming a Lock that is not nil.
func plainLock[L Lock](l L, err error) (Lock, error) {
	if err != nil {
		return nil, err
	}
	return l, nil
}
