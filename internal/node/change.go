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

// changeWait is for how long a change of the list is waited for, if ctx has no deadline.
const changeWait = 30 * time.Second

// ChangeCore adds an entry to the core's list, removes another one, or both, on an operator's word (C11); "" is none. It returns
// nil once the list is in force, and every node that has a seat in it keeps it. Errors: one that wraps ErrNoSeat,
// ErrInvalidOption or ErrUnchanged; ErrUnfinished, with the error of ctx if that has ended; and the reason if the
// node ends meanwhile.
func (n *Node) ChangeCore(ctx context.Context, add, remove string) error {
	limit := env.Never
	if _, ok := ctx.Deadline(); !ok {
		limit = n.env.Now() + changeWait
	}
	var steps [][2]string
	n.ask(func(l *shardLoop) int { steps = l.core.seat.Steps(add, remove); return 0 })
	for _, s := range steps {
		if len(steps) > 1 {
			n.log.Info("a list of three entries or fewer changes in two steps", "add", s[0], "remove", s[1])
		}
		if err := n.changeStep(ctx, limit, s[0], s[1]); err != nil {
			return n.because(err)
		}
	}
	return nil
}

// changeStep is ChangeCore for one change of the list.
func (n *Node) changeStep(ctx context.Context, limit time.Duration, add, remove string) error {
	o, err := seat.Relist{}, error(fault.ErrClosed)
	n.ask(func(l *shardLoop) int {
		o, l.core.outputs, err = l.core.seat.ChangeList(l.now, add, remove, l.core.outputs)
		l.carryOutCore()
		return 0
	})
	if err != nil {
		return err
	}
	n.pollUntil(ctx, limit, func() bool {
		err = fault.ErrClosed
		n.ask(func(l *shardLoop) int { err = l.core.seat.Unlisted(o); return 0 })
		return !errors.Is(err, fault.ErrUnfinished)
	})
	if !errors.Is(err, fault.ErrUnfinished) {
		return err
	}
	n.ask(func(l *shardLoop) int { l.core.seat.WithdrawRelist(o); return 0 })
	if ctx.Err() != nil {
		return fmt.Errorf("%w: %w", err, ctx.Err())
	}
	return err
}
