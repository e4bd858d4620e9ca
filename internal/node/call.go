package node

import (
	"context"
	"time"

	"github.com/lockmesh/mesh/internal/env"
	"github.com/lockmesh/mesh/shard"
)

// call is one command of this node's on its way to a shard and back. Everything but the
// result belongs to the lane; the result is the caller's once it was unparked.
type call struct {
	session *Session // acquire
	shard   int      // where a caller's is asked for
	what    what
	req     Request       // acquire
	hold    *Hold         // release, claim
	target  uint64        // cancel: the number of the Acquire
	length  time.Duration // claim: the hold

	seat     *seat
	number   uint64
	raw      []byte        // the command's wire form
	command  shard.Command //
	acks     []uint64      // the acknowledgements that it carries
	first    time.Duration // acquire, claim: when it was first sent
	retryAt  time.Duration
	attempt  int
	jumps    int  // times it was redirected since the last retry
	queued   bool // it is in the shard's queue
	claiming bool // granted, and its fixed time is being claimed

	parker env.Parker
	over   bool
	info   WaitInfo
	got    *Hold
	err    error
}

// what says what a call is for.
type what uint8

const (
	acquires what = iota
	cancels
	releases
	claims
	closes
)

// finish gives the caller its result. A call is finished once.
func (c *call) finish(err error) {
	if c.over {
		return
	}
	c.over, c.err = true, err
	if c.hold != nil && c.what != claims {
		c.hold.settled(err)
	}
	if c.parker != nil {
		c.parker.Unpark()
	}
}

// await blocks until c is finished, or until ctx ends and the lane has taken note of it:
// then a call that was granted just before counts as granted.
func (l *lane) await(ctx context.Context, c *call) error {
	if c.parker.Park(ctx, env.Never) == env.Unparked {
		return c.err
	}
	if l.post(func(l *lane) { l.desk(c.shard).abandon(c, ctx.Err()) }) {
		c.parker.Park(context.WithoutCancel(ctx), env.Never)
		return c.err
	}
	return ErrClosed
}
