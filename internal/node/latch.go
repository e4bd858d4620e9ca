package node

import (
	"context"

	"github.com/lockmesh/mesh/internal/client"
	"github.com/lockmesh/mesh/internal/env"
	"github.com/lockmesh/mesh/shard"
)

// Arrive tells a latch that somebody has arrived (P44), and repeats that until it is confirmed. ErrUnconfirmed: ctx ended first, and the
// arrival may count or not.
func (s *Session) Arrive(ctx context.Context, at shard.Memory) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	c := s.call(client.Arrive, client.Request{Key: at.Key})
	c.Arrival = at
	return s.node.confirm(ctx, env.Never, c, (*shardLoop).admit)
}

// Await waits until a latch is open, or until ctx ends.
func (s *Session) Await(ctx context.Context, req client.Request) (*client.WaitInfo, error) {
	_, _, info, err := s.acquire(ctx, req)
	return info, err
}
