package node

import (
	"context"
	"time"

	"github.com/lockmesh/mesh/internal/client"
	"github.com/lockmesh/mesh/internal/env"
	"github.com/lockmesh/mesh/internal/fault"
)

// send lets the shard loop begin a call, whose result wakes the call's Parker. It reports false if the node has ended.
func (n *Node) send(c *client.Call, begin func(*shardLoop, *client.Call)) bool {
	c.Parker = n.env.NewParker()
	return n.shards.post(func(l *shardLoop) { begin(l, c) })
}

// do sends a caller's call, and waits for its result as await does. ErrClosed: the node has ended.
func (n *Node) do(ctx context.Context, c *client.Call, begin func(*shardLoop, *client.Call)) error {
	if !n.send(c, begin) {
		return fault.ErrClosed
	}
	return n.await(ctx, c)
}

// confirm sends a call that is repeated until it is confirmed, and waits for that. If ctx ends or the limit comes first, it returns
// ErrUnconfirmed, and the client knows that no caller waits. ErrClosed: the node has ended.
func (n *Node) confirm(ctx context.Context, limit time.Duration, c *client.Call, begin func(*shardLoop, *client.Call)) error {
	switch {
	case !n.send(c, begin):
		return fault.ErrClosed
	case c.Parker.Park(ctx, limit) == env.Unparked:
		return c.Err
	}
	n.shards.post(func(l *shardLoop) { l.step(client.Abandon{Call: c, Cause: fault.ErrUnconfirmed}) })
	return fault.ErrUnconfirmed
}

// await blocks until c has its result, or until ctx ends and the shard loop has taken note of it:
// then a call that was granted just before counts as granted.
func (n *Node) await(ctx context.Context, c *client.Call) error {
	if c.Parker.Park(ctx, env.Never) == env.Unparked {
		return c.Err
	}
	if n.shards.post(func(l *shardLoop) { l.step(client.Abandon{Call: c, Cause: ctx.Err()}) }) {
		c.Parker.Park(context.WithoutCancel(ctx), env.Never)
		return c.Err
	}
	return fault.ErrClosed
}

// admit begins a caller's call, unless the node leaves or has ended.
func (l *shardLoop) admit(c *client.Call) {
	if l.node.phase() >= leaving {
		l.step(client.Abandon{Call: c, Cause: fault.ErrClosed})
	} else {
		l.step(client.Start{Call: c})
	}
}

// begin begins a call about what is held, also while the node leaves.
func (l *shardLoop) begin(c *client.Call) { l.step(client.Start{Call: c}) }

// closeLeases closes the leases of a session that has ended, and returns the calls that do so.
func (l *shardLoop) closeLeases(s *client.Session) []*client.Call {
	l.closing = nil
	l.step(client.CloseSession{Session: s})
	return l.closing
}

// step gives the client one input, and carries out what comes of it: the events first, so that a
// belief ends before anything is sent (P8).
func (l *shardLoop) step(in client.Input) {
	if l.client == nil {
		return // in no mesh, nobody has a session
	}
	o := &l.clientOut
	l.client.Step(l.now, in, o)
	for _, e := range o.Events {
		l.tellCaller(e)
	}
	for _, s := range o.Sends {
		l.say(s.To, s.Shard, s.Message)
	}
	o.Reset()
}

// tellCaller carries out one event of the client.
func (l *shardLoop) tellCaller(e client.Event) {
	switch e := e.(type) {
	case client.Finished:
		l.finished(e.Call)
	case client.End:
		if h, known := e.Hold.Owner.(*Hold); known { // else no caller has it, nor will
			h.end(env.Never, e.Cause)
		}
	case client.Extended:
		if h, known := e.Hold.Owner.(*Hold); known {
			h.holders.Renewed()
		}
	case client.Shortened:
		l.node.watch.soon(e.Hold.Deadline())
	case client.Closing:
		e.Call.Parker = l.node.env.NewParker()
		l.closing = append(l.closing, e.Call)
	case client.Unlocking:
		if h, known := e.Hold.Owner.(*Hold); known {
			h.holders.Unlocking() // the key is free before the lease is over
		}
	case client.Observed:
		e.Observer.Owner.(*Observer).told()
	case client.Placed:
		if p, ok := e.Call.Owner.(*Pending); ok {
			p.tell(func() { p.placed = true })
		}
	case client.SessionLost:
		e.Session.Owner.(*Session).lost()
	}
}

// own gives a caller's hold an owner.
func (l *shardLoop) own(belief *client.Hold, s *Session) {
	h := &Hold{belief: belief, session: s, node: l.node}
	belief.Owner = h
	l.node.watch.add(h)
}

// finished gives a caller its result.
func (l *shardLoop) finished(c *client.Call) {
	switch {
	case c.Kind == client.Lock && c.Err == nil && c.Hold != nil:
		l.own(c.Hold, c.Session.Owner.(*Session))
	case c.Kind == client.Unlock && c.Use != nil:
		op := c.Hold.Owner.(*Hold)
		l.own(c.Use, op.session)
		op.released(nil)
	case (c.Kind == client.Unlock || c.Kind == client.Close || c.Kind == client.Recall) && c.Hold != nil:
		c.Hold.Owner.(*Hold).released(c.Err)
	}
	if p, ok := c.Owner.(*Pending); ok {
		p.finished(c)
	}
	if c.Parker != nil {
		c.Parker.Unpark()
	}
}
