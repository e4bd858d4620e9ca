package client

import (
	"slices"

	"github.com/lockmesh/mesh/internal/message"
	"github.com/lockmesh/mesh/internal/replica"
	"github.com/lockmesh/mesh/shard"
)

// A look at keys (P48) is a question as others are. Each page is a call of its own: what is behind a page has its own time, and goes
// to whoever leads by then.

// Page is what a confirmed leader told of keys.
type Page struct {
	shard.Page
	Generation uint64 // of the shard: a cursor means something in that alone
	Leader     string // the name of the node that leads the shard; "" if it is not known
}

// postInspect sends a look where an attempt goes.
func (s *shardClient) postInspect(c *Call) {
	if to, relay := s.route(c.attempt); to != 0 {
		q := replica.Inspect{Node: s.client.cfg.Node, Ref: c.number, Inspection: *c.Inspect}
		s.post(to, &message.Inspect{Inspect: q, Generation: s.generation, Relay: relay})
	}
}

// inspected handles a confirmed leader's answer.
func (s *shardClient) inspected(m *message.State) {
	s.learn(m.Revision)
	i := slices.IndexFunc(s.asks, func(c *Call) bool { return c.number == m.Ref && c.Inspect != nil })
	if i < 0 {
		return
	}
	c := s.asks[i]
	s.asks = slices.Delete(s.asks, i, i+1)
	c.Page = Page{m.Page, s.generation, s.client.view.name(m.Leader)}
	s.client.finish(c, nil)
}
