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
	if err = s.node.confirm(ctx, env.Never, c, (*shardLoop).admit); err != fault.ErrUnconfirmed { // else its answer may be about to come
		now = c.Now
	}
	return now, err
}
