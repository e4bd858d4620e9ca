package mesh

import (
	"context"

	"github.com/lockmesh/mesh/internal/core"
	"github.com/lockmesh/mesh/ring"
)

// coreLife is a session of the node's core.
type coreLife struct{ *core.Session }

// Acquire implements life.
func (c coreLife) Acquire(ctx context.Context, req core.Request) (hold, *core.WaitInfo, error) {
	h, info, err := c.Session.Acquire(ctx, req)
	if err != nil {
		return nil, info, err
	}
	return h, info, nil
}

var _ hold = (*core.Hold)(nil)

func shardOf(shards int) func(key string) int {
	return func(key string) int { return ring.Shard(key, shards) }
}
