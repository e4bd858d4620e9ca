package node

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/lockmesh/mesh/internal/env"
	"github.com/lockmesh/mesh/internal/fault"
)

// ask runs f on the shard loop, and waits for that: the loop is quick. It reports false, and does nothing, if the loop has ended.
func (n *Node) ask(f func(*shardLoop)) bool {
	p := n.env.NewParker()
	if !n.shards.post(func(l *shardLoop) { f(l); p.Unpark() }) {
		return false
	}
	p.Park(context.Background(), env.Never)
	return true
}

// try runs f on the shard loop, and returns its error, or ErrClosed if the loop has ended.
func (n *Node) try(f func(*shardLoop) error) error {
	err := error(fault.ErrClosed)
	n.ask(func(l *shardLoop) { err = f(l) })
	return err
}

// pollUntil asks until the answer is yes, ctx ends, or the time is up.
func (n *Node) pollUntil(ctx context.Context, limit time.Duration, yes func() bool) bool {
	p := n.env.NewParker()
	for !yes() {
		now := n.env.Now()
		if now >= limit || p.Park(ctx, min(limit, now+leavePause)) == env.ContextEnded {
			return yes()
		}
	}
	return true
}

// limit returns when a call of a user ends by itself: after d, if ctx has no deadline.
func (n *Node) limit(ctx context.Context, d time.Duration) time.Duration {
	if _, ok := ctx.Deadline(); ok {
		return env.Never
	}
	return n.env.Now() + d
}

// pursuit is what an operator asks of the core. All of it runs on the shard loop, but for pends.
type pursuit struct {
	begin, outcome func(*shardLoop) error
	pends          func(outcome error) bool // the outcome is not known yet
	withdraw       func(*shardLoop)
}

// pursue begins p, and polls until its outcome is known, ctx ends or the limit comes: then it withdraws p, and the error wraps that
// of ctx as well. If the node ends meanwhile, it returns why.
func (n *Node) pursue(ctx context.Context, limit time.Duration, p pursuit) error {
	err := n.try(p.begin)
	if err != nil {
		return n.because(err)
	}
	n.pollUntil(ctx, limit, func() bool { err = n.try(p.outcome); return !p.pends(err) })
	if p.pends(err) {
		n.ask(p.withdraw)
		if ctx.Err() != nil {
			err = fmt.Errorf("%w: %w", err, ctx.Err())
		}
	}
	return n.because(err)
}

// because returns why the node ended, if err is that it has.
func (n *Node) because(err error) error {
	if errors.Is(err, fault.ErrClosed) {
		if why := n.Err(); why != nil {
			return why
		}
	}
	return err
}
