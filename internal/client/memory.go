package client

import (
	"slices"
	"time"

	"github.com/lockmesh/mesh/internal/fault"
	"github.com/lockmesh/mesh/shard"
)

// A shard's table remembers what was done once (P43), which latches are open, and who has arrived at the others (P44). Should the
// shard lose it, the next one is told by replicas that had the table, and by clients that know of it: those that did it, skipped
// it, arrived, or waited.

// maxMemories is how many of these a client keeps for a shard, at most: the latest.
const maxMemories = 128

// memory is what a client knows of what its shard's table remembers.
type memory struct {
	shard.Memory
	until time.Duration // on the client's clock
}

// is reports whether both are about the same.
func (m *memory) is(o shard.Memory) bool {
	return m.Key == o.Key && m.Kind == o.Kind && m.Capacity == o.Capacity && m.Who == o.Who
}

// learnMemory notes what the table remembers.
func (s *shardClient) learnMemory(m shard.Memory) {
	if m.Remains == 0 {
		return // it is not known for how long
	}
	now := s.client.now
	until := now + m.Remains
	s.memories = slices.DeleteFunc(s.memories, func(o memory) bool {
		if o.is(m) {
			until = max(until, o.until)
		}
		return o.is(m) || now >= o.until
	})
	if len(s.memories) == maxMemories {
		s.memories = slices.Delete(s.memories, 0, 1)
	}
	s.memories = append(s.memories, memory{m, until})
}

// done returns what the table remembers once this request is skipped, or has succeeded; zero remains: it is not known for how long.
func (q *Request) done() (m shard.Memory, ok bool) {
	_, capacity := q.Share()
	m = shard.Memory{Key: q.Key, Kind: q.kind(), Capacity: capacity}
	if m.Kind == shard.Once {
		m.Remains = q.Operation.Retention
	}
	return m, m.Kind == shard.Once || m.Kind == shard.Latch
}

// arrive sends an Arrive. Until it is answered it is repeated, also in another lease or generation: who arrives twice has arrived once.
func (s *shardClient) arrive(c *Call) {
	c.memory = memory{c.Arrival, s.client.now + c.Arrival.Remains}
	s.request(c)
}

// tells returns the command that tells the table of c's memory.
func (l *lease) tells(c *Call, base shard.Call) shard.Command {
	m, name := &c.memory, l.client.cfg.Name
	remains := max(m.until-l.client.now, time.Millisecond)
	if m.Who != "" {
		return shard.Arrive{Call: base, TTL: l.ttl, Name: name, Key: m.Key, Capacity: m.Capacity, Who: m.Who, Retention: remains}
	}
	return shard.Recall{Call: base, TTL: l.ttl, Name: name, Key: m.Key, Kind: m.Kind, Capacity: m.Capacity, Remains: remains}
}

// recall tells the shard's table what the one before remembered: what this client knows of that, and more. Nobody waits for the
// answers.
func (s *shardClient) recall(session *Session, more []shard.Memory) {
	tell := func(m memory) {
		s.request(&Call{Kind: Recall, Session: session, Request: Request{Key: m.Key}, memory: m})
	}
	now := s.client.now
	for _, m := range slices.Clone(s.memories) {
		if now < m.until {
			tell(m)
		}
	}
	for _, m := range more {
		if o := (memory{m, now + m.Remains}); !s.knows(o) {
			tell(o)
		}
	}
}

// knows reports whether the client knows of m itself, and for as long: then it tells the next table of m in any case.
func (s *shardClient) knows(m memory) bool {
	return slices.ContainsFunc(s.memories, func(o memory) bool { return o.is(m.Memory) && o.until >= m.until })
}

// goOverDone: the End of what has succeeded was under way when the shard's table was lost. The next one is told of the success: no other
// Run has begun since, as the lease is believed in.
func (l *lease) goOverDone(c *Call, m shard.Memory) {
	l.forget(c.Hold)
	l.shard.learnMemory(m)
	if c.leaves {
		l.confirmed(c, nil)
		return
	}
	c.Kind, c.Session, c.memory = Recall, l.session, memory{m, l.client.now + m.Remains}
	c.askAgain()
}

// unanswered returns the result of a call of which it is not known whether the table has carried it out: ErrUnconfirmed where the caller
// must know of that doubt, else err.
func (c *Call) unanswered(err error) error {
	ended := c.Kind == Recall && c.Hold != nil // it was an End: the operation may count as done
	if ended || c.Kind == Arrive || c.Kind == Resize || c.Kind == Break {
		return fault.ErrUnconfirmed
	}
	return err
}
