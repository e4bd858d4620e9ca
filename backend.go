package mesh

import (
	"context"

	"github.com/lockmesh/mesh/internal/client"
	"github.com/lockmesh/mesh/internal/node"
	"github.com/lockmesh/mesh/ring"
)

// nodeSession is the backend of a running node's sessions.
type nodeSession struct{ *node.Session }

// Acquire implements backend.
func (s nodeSession) Acquire(ctx context.Context, req client.Request) (hold, *client.WaitInfo, error) {
	h, info, err := s.Session.Acquire(ctx, req)
	if err != nil {
		return nil, info, err
	}
	return h, info, nil
}

var _ hold = (*node.Hold)(nil)

func shardOf(shards int) func(key string) int {
	return func(key string) int { return ring.Shard(key, shards) }
}
