package node

import (
	"context"

	"github.com/lockmesh/mesh/internal/client"
	"github.com/lockmesh/mesh/internal/env"
	"github.com/lockmesh/mesh/internal/fault"
	"github.com/lockmesh/mesh/transport"
)

// Resize changes the capacity of a semaphore (P38), and repeats that until it is confirmed. ErrUnconfirmed: ctx ended first, or the
// lease, and it may take effect or not. ErrCapacity: the key is no semaphore of from
// permits; now is the capacity that it has, or zero if that is not known, or if the key is no semaphore.
func (s *Session) Resize(ctx context.Context, key string, from, to int64) (now int64, err error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	c := s.call(client.Resize, client.Request{Key: key, Mode: client.Permits, Weight: 1, Capacity: to})
	c.From = from
	if s.node.clients != nil {
		s.node.clients.Resizes(transport.ID(s.node.id), key, from, to)
	}
	if !s.node.shards.post(func(l *shardLoop) { l.admit(c) }) {
		return 0, fault.ErrClosed
	}
	if c.Parker.Park(ctx, env.Never) == env.Unparked {
		return c.Now, c.Err
	}
	s.node.shards.post(func(l *shardLoop) { l.step(client.Abandon{Call: c, Cause: fault.ErrUnconfirmed}) })
	return 0, fault.ErrUnconfirmed
}
