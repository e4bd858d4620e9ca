package node

import (
	"context"

	"github.com/lockmesh/mesh/internal/client"
	"github.com/lockmesh/mesh/internal/fault"
)

// Downgrade makes a writer's hold a reader's. End ends the belief in the rest of it, before anything is sent (P8, P47). The Downgrade
// is repeated until it is confirmed or the lease has ended. If ctx ends first, or after a second if it had ended already, Downgrade returns
// ErrUnconfirmed. ErrLost, ErrBroken, ErrClosed: the hold is over.
func (h *Hold) Downgrade(ctx context.Context, end func()) error {
	end()
	h.holders.Downgrading()
	ctx, limit := h.node.bounds(ctx, LateRelease) // not before: ctx may be the hold's own
	err := h.node.confirm(ctx, limit, h.call(client.Downgrade), (*shardLoop).begin)
	switch over := h.Err(); {
	case over != nil:
		err = over // this goroutine, or all, may have stood still since the answer (P1)
	case err != nil:
		err = fault.ErrUnconfirmed // the hold may go on for a moment
	}
	h.holders.Downgraded(err)
	return err
}
