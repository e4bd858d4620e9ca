package node

import (
	"context"
	"errors"
	"time"

	"github.com/lockmesh/mesh/internal/env"
	"github.com/lockmesh/mesh/internal/fault"
	"github.com/lockmesh/mesh/internal/seat"
)

const (
	oracleLimit = 5 * time.Second  // for an oracle's answer
	declareWait = 15 * time.Second // for a decision, if ctx has no deadline: a connection that is silent ends in 8 s
)

// inquire asks the user's oracle whether a node has ended, beside the loops (C6).
func (n *Node) inquire(m env.Member) {
	n.env.Go("oracle", oracleLimit, func(ctx context.Context) {
		dead, err := n.cfg.Oracle(ctx, m)
		n.shards.post(func(l *shardLoop) {
			l.carryOutCore(l.core.seat.Answered(l.now, m.ID, dead && err == nil, err, nil))
		})
	})
}

// DeclareDead brings about the decision that the node with the seat of an entry has ended, on an operator's word (C6).
// It returns nil once that is decided, if another node has the seat, or if none has. Errors: one that wraps ErrNoSeat or
// ErrInvalidOption; ErrAlive or ErrNoQuorum, with the error of ctx if that has ended (15 s, if ctx has no deadline): then the
// decision may still be made if it was under way; seat.ErrConnected; and the reason if the node ends meanwhile.
func (n *Node) DeclareDead(ctx context.Context, entry string) error {
	var d seat.Died
	return n.pursue(ctx, n.limit(ctx, declareWait), pursuit{
		begin: func(l *shardLoop) (err error) {
			var out []seat.Output
			d, out, err = l.core.seat.DeclareDead(l.now, entry, nil)
			l.carryOutCore(out)
			return err
		},
		outcome: func(l *shardLoop) error { return l.core.seat.Undecided(d) },
		pends: func(err error) bool {
			return err != nil && !errors.Is(err, fault.ErrClosed) && !errors.Is(err, seat.ErrConnected)
		},
		withdraw: func(l *shardLoop) { l.core.seat.Withdraw(d) },
	})
}
