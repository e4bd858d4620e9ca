package node

import (
	"context"

	"github.com/lockmesh/mesh/internal/client"
	"github.com/lockmesh/mesh/internal/env"
	"github.com/lockmesh/mesh/internal/fault"
)

// Downgrade makes a writer's hold a reader's. End ends the belief in the rest of it, before anything is sent (P8, P47). The Downgrade
// is repeated until it is confirmed or the lease has ended. If ctx ends first, or after a second if it had ended already, Downgrade returns
// ErrUnconfirmed. ErrLost, ErrBroken, ErrClosed: the hold is over.
func (h *Hold) Downgrade(ctx context.Context, end func()) error {
	w := h.node.env
	ctx, limit := h.node.bounds(ctx, LateRelease)
	end()
	if h.holder != nil {
		h.holder.Downgrading()
	}
	if limit == env.Never { // ctx may be the hold's own
		ctx, limit = h.node.bounds(ctx, LateRelease)
	}
	c := &client.Call{Kind: client.Downgrade, Shard: h.belief.Shard, Hold: h.belief, Parker: w.NewParker()}
	var err error
	switch {
	case !h.node.shards.post(func(l *shardLoop) { l.step(client.Start{Call: c}) }):
		err = fault.ErrClosed
	case c.Parker.Park(ctx, limit) == env.Unparked:
		err = c.Err
	default:
		h.node.shards.post(func(l *shardLoop) { l.step(client.Abandon{Call: c}) })
		err = fault.ErrUnconfirmed
	}
	switch over := h.Err(); {
	case over != nil:
		err = over // this goroutine, or all, may have stood still since the answer (P1)
	case err != nil:
		err = fault.ErrUnconfirmed // the hold may go on for a moment
	}
	if h.holder != nil {
		h.holder.Downgraded(err)
	}
	return err
}
