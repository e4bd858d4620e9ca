package client

import (
	"math"
	"time"
)

// MaxTTL may be lowered while sessions live whose TTL is longer (C5). From then on no holder may believe in a lease for
// longer than the new MaxTTL after what confirms it was sent. A client may learn that late; so each message of a leader
// that moves a belief has the limit with it, once there was a change. What was believed before lasts as long as
// it was to: for that the core waits before it counts on the new limit.

// unlimited is the limit while nobody has told of one.
const unlimited = time.Duration(math.MaxInt64)

// Limited tells for how long a lease may last from now on, as this node knows by the core's table.
type Limited struct{ Limit time.Duration }

func (Limited) isInput() {}

// limited takes in for how long a lease may last.
func (c *Client) limited(d time.Duration) {
	c.limit = d
	c.each(func(l *lease) { l.shorten(d) })
}

// heed takes in what a leader says with a message about a lease. Zero: it says nothing.
func (s *shardClient) heed(number uint64, limit time.Duration) {
	if l := s.byNumber[number]; l != nil && limit != 0 {
		l.shorten(limit)
	}
}

// shorten makes what confirms the lease from now on count for no longer than d; what somebody believes already lasts as long as it
// was to. A lease is not lengthened again: its session's next
// one may be longer.
func (l *lease) shorten(d time.Duration) {
	l.limit = min(l.limit, d)
	if d >= l.ttl {
		return
	}
	l.ttl = d
	if l.begun {
		l.renewAt = min(l.renewAt, l.client.now) // a third of the TTL may be over
		l.renewSoon()
	}
}

// trusted is until when the holder of what is granted now may believe in it: what was sent before the lease was
// shortened is believed for the shorter time, if nobody has believed in it yet.
func (l *lease) trusted() time.Duration { return min(l.until, l.from+l.believable(l.ttl)) }
