package node

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/lockmesh/mesh/internal/env"
	"github.com/lockmesh/mesh/internal/fault"
	"github.com/lockmesh/mesh/internal/seat"
)

// order gives the core what an operator asks for, and waits for its outcome. With want the shard loop says what that is.
// If ctx ends first (after 15 s, if it has no deadline), the error wraps ErrNoQuorum and the error of ctx: the order is
// withdrawn, but may be carried out still if its decision was under way.
func (n *Node) order(ctx context.Context, want func(*shardLoop) (seat.Order, error)) error {
	number, err := uint64(0), error(fault.ErrClosed)
	n.ask(func(l *shardLoop) int {
		var o seat.Order
		if o, err = want(l); err == nil {
			number, l.core.outputs = l.core.seat.Order(l.now, o, l.core.outputs)
			l.carryOutCore()
		}
		return 0
	})
	if err != nil {
		return n.because(err)
	}
	limit := env.Never
	if _, ok := ctx.Deadline(); !ok {
		limit = n.env.Now() + declareWait
	}
	n.pollUntil(ctx, limit, func() bool {
		err = fault.ErrClosed
		n.ask(func(l *shardLoop) int { err = l.core.seat.Outcome(number); return 0 })
		return !errors.Is(err, fault.ErrNoQuorum)
	})
	n.ask(func(l *shardLoop) int { l.core.seat.WithdrawOrder(number); return 0 })
	switch {
	case errors.Is(err, seat.ErrUnseen):
		return nil // this node will hear of it
	case errors.Is(err, fault.ErrNoQuorum) && ctx.Err() != nil:
		err = fmt.Errorf("%w: %w", err, ctx.Err())
	}
	return n.because(err)
}

// EndQuiet brings about the decision that no shard need be quiet any longer, on an operator's word (C5). Errors: one that
// wraps ErrNotFounded if the node is in no mesh, ErrNotQuiet if no shard is quiet as far as it has heard, ErrChanged if a
// shard has begun another generation meanwhile, or ErrNoQuorum: see order; and the reason if the node ends.
func (n *Node) EndQuiet(ctx context.Context) error {
	h := n.Health()
	return n.order(ctx, func(l *shardLoop) (seat.Order, error) {
		switch t := l.core.table; {
		case t == nil:
			return nil, fmt.Errorf("%w: %s", fault.ErrNotFounded, n.Waiting())
		case h.Settled && len(h.NoMajority) == 0 && h.QuietUntil == 0:
			return nil, fault.ErrNotQuiet
		default:
			return seat.EndQuiet{Era: t.Era()}, nil
		}
	})
}

// SetMaxTTL changes for how long a lease may last (C5). It returns nil once that is in force. Errors: one that wraps
// ErrNotFounded if the node is in no mesh; ErrInvalidOption if a node asks for longer leases by an option; ErrChanged if
// another command came after it; ErrNoQuorum: see order, and a raise that is decided by then still comes into force; and the
// reason if the node ends.
func (n *Node) SetMaxTTL(ctx context.Context, d time.Duration) error {
	return n.order(ctx, func(l *shardLoop) (seat.Order, error) {
		if l.core.table == nil {
			return nil, fmt.Errorf("%w: %s", fault.ErrNotFounded, n.Waiting())
		}
		return seat.SetMaxTTL{MaxTTL: d}, nil
	})
}
