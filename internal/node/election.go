package node

import (
	"cmp"
	"context"

	"github.com/lockmesh/mesh/internal/client"
	"github.com/lockmesh/mesh/internal/env"
	"github.com/lockmesh/mesh/internal/fault"
	"github.com/lockmesh/mesh/transport"
)

// Proclaim gives a leadership another value. Nil: others are told of it, or of a later one. If ctx ends first, it returns
// ctx.Err(), and they may be.
func (h *Hold) Proclaim(ctx context.Context, value []byte) error {
	if err := cmp.Or(ctx.Err(), h.Err()); err != nil {
		return err
	}
	c := h.call(client.Proclaim)
	c.Request.Value = value
	err := h.node.do(ctx, c, (*shardLoop).begin)
	if err == nil {
		h.holders.Proclaimed(c.Sequence())
	}
	if err == fault.ErrLost {
		err = cmp.Or(h.Err(), err) // the leader may have resigned meanwhile
	}
	return err
}

// Leader returns who leads an election. ErrNoQuorum: its replicas have not answered for 2·E.
func (s *Session) Leader(ctx context.Context, key string) (client.Leader, error) {
	if err := cmp.Or(ctx.Err(), s.Err()); err != nil {
		return client.Leader{}, err
	}
	answered := func(env.Elected) {}
	if clients := s.node.clients; clients != nil {
		answered = clients.Asks(transport.ID(s.node.id), key)
	}
	c := s.call(client.Ask, client.Request{Key: key, Mode: client.Elects})
	err := s.node.do(ctx, c, (*shardLoop).admit)
	if err == nil {
		answered(elected(c.Leader))
	}
	return c.Leader, err
}

// elected is what observers of callers are told of a leader.
func elected(l client.Leader) env.Elected {
	return env.Elected{Unknown: l.Unknown, Token: l.Token, Sequence: l.Sequence, Value: string(l.Value)}
}

// Observer is told who leads an election, until Close. One goroutine at a time may use it.
type Observer struct {
	inner   *client.Observer
	node    *Node
	parker  env.Parker
	watcher env.Watcher // nil outside simulations
}

// Observe returns an observer of an election. The session lends its node.
func (s *Session) Observe(key string) *Observer {
	n := s.node
	o := &Observer{
		inner: &client.Observer{Key: key, Shard: n.shardOf(key)},
		node:  n, parker: n.env.NewParker(),
	}
	o.inner.Owner = o
	if n.clients != nil {
		o.watcher = n.clients.Observes(transport.ID(n.id), key, n.own.TTL())
	}
	n.shards.post(func(l *shardLoop) { l.step(client.Observe{Observer: o.inner}) })
	return o
}

// Next waits for a state that it has not returned before, and returns the latest. Errors: of ctx, or ErrClosed if the node has ended.
func (o *Observer) Next(ctx context.Context) (client.Leader, error) {
	for {
		l, news, err := o.inner.Next()
		switch err = cmp.Or(ctx.Err(), err); {
		case err != nil:
			return client.Leader{}, err
		case news:
			return l, nil
		case o.node.phase() == closed:
			return client.Leader{}, fault.ErrClosed // before it listened, perhaps
		}
		o.parker.Park(ctx, env.Never)
	}
}

// told: there is a state to take, or there will be no other.
func (o *Observer) told() {
	if l, err := o.inner.Latest(); err == nil && o.watcher != nil {
		o.watcher.Told(elected(l))
	}
	o.parker.Unpark()
}

// Close ends the observer.
func (o *Observer) Close() {
	if o.watcher != nil {
		o.watcher.Over()
	}
	o.node.shards.post(func(l *shardLoop) { l.step(client.Unobserve{Observer: o.inner}) })
}

// OnLeave arranges for f to be called once when the session's node begins to leave; at once if it has. Stop takes that back.
func (s *Session) OnLeave(f func()) (stop func()) {
	if s.node.phase() == closed { // without Leave, perhaps
		f()
		return func() {}
	}
	return s.node.leaves.on(func(error) { f() })
}
