package client

import (
	"slices"

	"github.com/lockmesh/mesh/internal/fault"
	"github.com/lockmesh/mesh/internal/message"
	"github.com/lockmesh/mesh/internal/replica"
	"github.com/lockmesh/mesh/shard"
)

// A question to a shard takes nothing and changes nothing: it has no lease, and any number of copies does no harm.

func (s *shardClient) ask(c *Call) {
	c.first = s.client.now
	s.asks = append(s.asks, c)
	s.askPage(c)
}

// askPage asks for what comes after the uses that are known.
func (s *shardClient) askPage(c *Call) {
	s.client.lastAsk++
	c.number, c.tries = s.client.lastAsk, tries{}
	s.sendAsk(c)
}

func (s *shardClient) sendAsk(c *Call) {
	s.pause(c)
	if c.Inspect != nil {
		s.postInspect(c)
		return
	}
	if c.Request.Mode == Elects {
		s.postObserve(replica.Observe{Node: s.client.cfg.Node, Ref: c.number, Key: c.Request.Key}, c.attempt)
		return
	}
	q := &message.Query{Query: replica.Query{Node: s.client.cfg.Node, Ref: c.number, Key: c.Request.Key}, Generation: s.generation}
	if n := len(c.Refs); n > 0 {
		q.After = c.Refs[n-1].Stamp
	}
	to, relay := s.route(c.attempt)
	if q.Relay = relay; to != 0 {
		s.post(to, q)
	}
}

// asked returns the question that a node has refused to answer, or nil.
func (s *shardClient) asked(r message.Redirect) *Call {
	if i := slices.IndexFunc(s.asks, func(c *Call) bool { return r.Session == 0 && c.number == r.Number }); i >= 0 {
		return s.asks[i]
	}
	return nil
}

// viewed handles a confirmed leader's answer.
func (s *shardClient) viewed(m *message.View) {
	s.learn(m.Revision)
	i := slices.IndexFunc(s.asks, func(c *Call) bool { return c.number == m.Ref && c.Request.Mode != Elects && c.Inspect == nil })
	if i < 0 {
		return
	}
	c := s.asks[i]
	if c.Refs = append(c.Refs, m.Refs...); m.More && len(m.Refs) > 0 {
		c.first = s.client.now
		s.askPage(c)
		return
	}
	s.asks = slices.Delete(s.asks, i, i+1)
	s.client.finish(c, nil)
}

// tickAsks asks again what had no answer, or gives it up.
func (s *shardClient) tickAsks() {
	now := s.client.now
	for _, c := range slices.Clone(s.asks) {
		switch {
		case c.over:
			continue
		case now-c.first >= noQuorumAfter:
			s.abandon(c, fault.ErrNoQuorum)
			continue
		case now >= c.retryAt:
			c.repeat()
			s.client.counters.Retries.Add(1)
			s.sendAsk(c)
		}
		s.client.wakeAt(min(c.retryAt, c.first+noQuorumAfter))
	}
}

// askAgain asks a new leader, from the beginning.
func (s *shardClient) askAgain() {
	for _, c := range s.asks {
		c.Refs = []shard.Ref{}
		s.askPage(c)
	}
}

func (s *shardClient) endAsks() {
	for _, c := range slices.Clone(s.asks) {
		s.abandon(c, fault.ErrClosed)
	}
}
