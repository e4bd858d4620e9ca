package drill

import (
	"context"

	"github.com/lockmesh/mesh"
	"github.com/lockmesh/mesh/simulate"
)

// Client makes a node a simulate.Client.
type Client struct{ *mesh.Node }

var _ simulate.Client = Client{}

// Lock implements simulate.Client.
func (c Client) Lock(ctx context.Context, key string) (simulate.Handle, error) {
	return handle(c.Node.Lock(ctx, key))
}

// TryLock implements simulate.Client.
func (c Client) TryLock(ctx context.Context, key string) (simulate.Handle, error) {
	return handle(c.Node.TryLock(ctx, key))
}

// RLock implements simulate.Client.
func (c Client) RLock(ctx context.Context, key string) (simulate.Handle, error) {
	return handle(c.Node.RLock(ctx, key))
}

// Acquire implements simulate.Client.
func (c Client) Acquire(ctx context.Context, key string, n, capacity int64) (simulate.Handle, error) {
	return handle(c.Node.Acquire(ctx, key, n, capacity))
}

// handle keeps a nil *mesh.Lock from becoming a Handle that is not nil.
func handle(l *mesh.Lock, err error) (simulate.Handle, error) {
	if err != nil {
		return nil, err
	}
	return l, nil
}
