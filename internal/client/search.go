package client

import (
	"cmp"
	"slices"
	"time"

	"github.com/lockmesh/mesh/internal/env"
	"github.com/lockmesh/mesh/internal/fault"
	"github.com/lockmesh/mesh/shard"
)

// A Lock whose caller wants to know of a deadlock, and waits within a grant, looks for a circle again and again (P50). Who waits within none
// is waited for by nobody, and does not look.

// When a Lock looks, and how many do at a time.
const (
	// searchAfter is how long a Lock waits before its first look: most wait for less. A circle stays, so that nothing is lost by a second.
	searchAfter = time.Second
	// longestSearch is the longest pause between two looks. Each pause is twice as long as the one before.
	longestSearch = 10 * time.Second
	// maxSearches bounds the looks of a client at one time, each of which may ask all leaders. The others wait for their turn.
	maxSearches = 8
)

// search is a Lock that looks for a circle.
type search struct {
	call    *Call
	due     time.Duration // the next look
	pause   time.Duration // after it
	lookout *lookout      // the look under way, or that is to go on when the next one is due; nil: there is none
	asked   time.Duration // when it asked last
	asks    []*Call       // its questions without an answer
	answers []lookAnswer
}

// watchFor makes a Lock look for a circle, if its caller wants that.
func (c *Client) watchFor(call *Call) {
	if q := &call.Request; q.Detects && len(q.Within) > 0 && !q.Try {
		call.search = &search{call: call, due: c.now + searchAfter, pause: searchAfter}
		c.searches = append(c.searches, call.search)
		c.searchAt(call.search.due)
	}
}

// searchAt sees to it that a Tick looks after the searches at a time.
func (c *Client) searchAt(t time.Duration) {
	c.nextSearch = min(c.nextSearch, t)
	c.wakeAt(c.nextSearch)
}

// tickSearches begins the looks that are due.
func (c *Client) tickSearches() {
	if c.now < c.nextSearch {
		c.wakeAt(c.nextSearch)
		return
	}
	c.nextSearch = env.Never
	looking := 0
	for _, s := range c.searches {
		if len(s.asks) > 0 {
			looking++
		}
	}
	for _, s := range slices.Clone(c.searches) {
		switch call := s.call; {
		case len(s.asks) > 0:
		case c.now < s.due:
			c.searchAt(s.due)
		case !call.queued || call.Hold != nil:
			s.lookout, s.due = nil, c.now+searchAfter
			c.searchAt(s.due)
		case looking >= maxSearches: // until another one has its answers
		case s.lookout != nil && s.lookout.of(call):
			looking++
			s.ask(c, s.lookout.again())
		default:
			looking++
			s.lookout = newLookout(call.Shard, call.lease.id, call.number, call.Request.Within)
			s.ask(c, s.lookout.begin())
		}
	}
}

// ask sends the questions of a look.
func (s *search) ask(c *Client, queries []lookQuery) {
	s.answers, s.asked = nil, c.now
	add := func(sh int, grants []shard.Grant) {
		s.asks = append(s.asks, &Call{Kind: Ask, Shard: sh, Session: s.call.Session, Inspect: &shard.Inspection{Within: grants}, search: s})
	}
	for _, q := range queries {
		if q.shard >= 0 {
			add(q.shard, q.grants)
			continue
		}
		for sh := range c.cfg.Shards {
			add(sh, q.grants)
		}
	}
	for _, a := range s.asks {
		c.shard(a.Shard).ask(a)
	}
}

// searched takes the answer to one question of a look, or why there is none.
func (c *Client) searched(ask *Call) {
	s := ask.search
	if s.lookout == nil {
		return // it is over
	}
	s.asks = slices.DeleteFunc(s.asks, func(o *Call) bool { return o == ask })
	// A shard without a majority tells of nobody: a circle over it is not seen, and others are.
	s.answers = append(s.answers, lookAnswer{ask.Shard, ask.Page.Generation, ask.Page.Waits})
	if len(s.asks) > 0 {
		return
	}
	slices.SortStableFunc(s.answers, func(a, b lookAnswer) int { return cmp.Compare(a.shard, b.shard) })
	switch o := s.lookout.told(s.asked, c.now, s.answers); {
	case len(o.next) > 0:
		s.ask(c, o.next)
	case o.later:
		s.due = c.now + searchAfter
		c.searchAt(c.now) // another one may look meanwhile
	case o.deadlock != nil && s.call.Hold == nil && s.lookout.of(s.call):
		c.shard(s.call.Shard).abandon(s.call, o.deadlock)
	default:
		c.rest(s)
	}
}

// of reports whether the lookout looks for a call as that is now: it may have moved to another lease.
func (l *lookout) of(c *Call) bool { return c.lease.id == l.self.session && c.number == l.self.number }

// rest ends a look. The next one comes after a pause.
func (c *Client) rest(s *search) {
	c.stop(s)
	s.due, s.pause = c.now+s.pause, min(2*s.pause, longestSearch)
	c.searchAt(s.due)
}

// stop ends a look, if there is one, and lets another Lock look.
func (c *Client) stop(s *search) {
	if s.lookout == nil {
		return
	}
	asks := s.asks
	s.lookout, s.asks, s.answers = nil, nil, nil
	for _, a := range asks {
		c.shard(a.Shard).abandon(a, fault.ErrClosed)
	}
	c.searchAt(c.now)
}

// endSearch: the Lock has its result.
func (c *Client) endSearch(s *search) {
	c.searches = slices.DeleteFunc(c.searches, func(o *search) bool { return o == s })
	c.stop(s)
}

// within returns a command that asks for q, with what its caller's context comes from. No guest has a context.
func (q *Request) within(cmd shard.Command) shard.Command {
	if len(q.Within) == 0 || q.Try || q.Tag != "" {
		return q.tagged(cmd)
	}
	return shard.Within{Command: cmd, Grants: q.Within, Detects: q.Detects}
}
