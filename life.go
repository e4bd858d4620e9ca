package mesh

import (
	"context"

	"github.com/lockmesh/mesh/internal/client"
	"github.com/lockmesh/mesh/internal/node"
	"github.com/lockmesh/mesh/ring"
)

// nodeLife is a session of the node.
type nodeLife struct{ *node.Session }

// Acquire implements life.
func (c nodeLife) Acquire(ctx context.Context, req client.Request) (hold, *client.WaitInfo, error) {
	h, info, err := c.Session.Acquire(ctx, req)
	if err != nil {
		return nil, info, err
	}
	return h, info, nil
}

var _ hold = (*node.Hold)(nil)

func shardOf(shards int) func(key string) int {
	return func(key string) int { return ring.Shard(key, shards) }
}
