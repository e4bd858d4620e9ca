package node

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/lockmesh/mesh/internal/fault"
	"github.com/lockmesh/mesh/internal/seat"
)

// order gives the core what an operator asks for, and waits for its outcome. With want the shard loop says what that is.
// If ctx ends first (after 15 s, if it has no deadline), the error wraps ErrNoQuorum and the error of ctx: the order is
// withdrawn, but may be carried out still if its decision was under way.
func (n *Node) order(ctx context.Context, want func(*shardLoop) (seat.Order, error)) error {
	number := uint64(0)
	withdraw := func(l *shardLoop) { l.core.seat.WithdrawOrder(number) }
	err := n.pursue(ctx, n.limit(ctx, declareWait), pursuit{
		begin: func(l *shardLoop) error {
			o, err := want(l)
			if err == nil {
				var out []seat.Output
				number, out = l.core.seat.Order(l.now, o, nil)
				l.carryOutCore(out)
			}
			return err
		},
		outcome:  func(l *shardLoop) error { return l.core.seat.Outcome(number) },
		pends:    func(err error) bool { return errors.Is(err, fault.ErrNoQuorum) },
		withdraw: withdraw,
	})
	if number != 0 && !errors.Is(err, fault.ErrNoQuorum) {
		n.ask(withdraw)
	}
	if errors.Is(err, seat.ErrUnseen) {
		return nil // this node will hear of it
	}
	return err
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
