package node

import (
	"context"
	"errors"
	"fmt"
	"time"

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
	if add != "" && add == remove {
		return fmt.Errorf("%w: %q is to be added and removed", fault.ErrInvalidOption, add)
	}
	limit := n.limit(ctx, changeWait)
	var steps [][2]string
	if err := n.try(func(l *shardLoop) (err error) { steps, err = l.core.seat.Steps(add, remove); return err }); err != nil {
		return n.because(err)
	}
	for _, s := range steps {
		if len(steps) > 1 {
			n.log.Info("a list of three entries or fewer changes in two steps", "add", s[0], "remove", s[1])
		}
		var o seat.Relist
		err := n.pursue(ctx, limit, pursuit{
			begin: func(l *shardLoop) (err error) {
				var out []seat.Output
				o, out, err = l.core.seat.ChangeList(l.now, s[0], s[1], nil)
				l.carryOutCore(out)
				return err
			},
			outcome:  func(l *shardLoop) error { return l.core.seat.Unlisted(o) },
			pends:    func(err error) bool { return errors.Is(err, fault.ErrUnfinished) },
			withdraw: func(l *shardLoop) { l.core.seat.Withdraw(o) },
		})
		if err != nil {
			return err
		}
	}
	return nil
}
