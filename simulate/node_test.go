package simulate

import (
	"context"
	"errors"
	"testing"
)

// option and optionalNode are what a *mesh.Node has: calls that take options.
type option func()

type optionalNode struct{ fails error }

func (n optionalNode) Lock(_ context.Context, key string, _ ...option) (*tale, error) {
	if n.fails != nil {
		return nil, n.fails
	}
	return &tale{token: uint64(len(key))}, nil
}

func (n optionalNode) TryLock(ctx context.Context, key string, _ ...option) (*tale, error) {
	return n.Lock(ctx, "try "+key)
}

func (n optionalNode) RLock(ctx context.Context, key string, _ ...option) (*tale, error) {
	return n.Lock(ctx, "read "+key)
}

func (n optionalNode) Acquire(ctx context.Context, key string, permits, _ int64, _ ...option) (*tale, error) {
	return n.Lock(ctx, key[:permits])
}

// TestAsNode: each call is the one of that name, and a call without a lock returns nil.
func TestAsNode(t *testing.T) {
	broken := errors.New("broken")
	for _, fails := range []error{nil, broken} {
		n := AsNode(optionalNode{fails})
		for want, call := range map[uint64]func() (Lock, error){
			3: func() (Lock, error) { return n.Lock(t.Context(), "key") },
			7: func() (Lock, error) { return n.TryLock(t.Context(), "key") },
			8: func() (Lock, error) { return n.RLock(t.Context(), "key") },
			2: func() (Lock, error) { return n.Acquire(t.Context(), "key", 2, 9) },
		} {
			l, err := call()
			if err != fails || (l == nil) != (fails != nil) || l != nil && l.Token() != want {
				t.Errorf("%v, %v, want token %d or %v", l, err, want, fails)
			}
		}
	}
}
