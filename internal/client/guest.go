package client

import (
	"slices"
	"time"

	"github.com/lockmesh/mesh/internal/fault"
	"github.com/lockmesh/mesh/shard"
)

// The session of a guest (P42) is that of a caller outside the mesh, which this node carries. It differs from a user's
// session in three ways. In each shard a Carry comes before anything else, and the shard refuses it once another node
// carries the guest on. The session is renewed only when the guest was heard. And its requests have tags, under which
// this node, or the next one, claims what the guest asked for through an earlier one.

// ofGuest reports whether the lease is one of a guest's session.
func (l *lease) ofGuest() bool { return l.session.Guest != "" }

// carry carries a guest on in a shard, for a caller.
func (s *shardClient) carry(c *Call) {
	switch l, err := s.current[c.Session], c.Session.Err(); {
	case err != nil:
		s.client.finish(c, err)
	case l != nil && l.carried:
		s.client.finish(c, nil)
	case l != nil:
		s.request(c, l) // beside the one under way
	default:
		s.request(c, s.newLease(c.Session, false))
	}
}

// carriesFirst begins a lease of a guest.
func (l *lease) carriesFirst() {
	c := &Call{Kind: Carry, Shard: l.shard.shard}
	l.put(c)
	l.shard.send(c)
}

// carryOf returns the command of a Carry.
func (l *lease) carryOf(c *Call, base shard.Call) shard.Carry {
	return shard.Carry{Call: base, TTL: l.ttl, Guest: l.session.Guest, Carrier: l.session.carrier, Only: c.Only}
}

// carries: the table has answered a Carry.
func (l *lease) carries(c *Call, err error) {
	switch {
	case err != nil && c.Only && !l.carried:
		c.None = true
		l.client.finish(c, nil)
		if len(l.calls) == 0 {
			l.shard.withdraw(l) // there is no record
		} else if !slices.ContainsFunc(l.inOrder(), func(c *Call) bool { return c.Kind == Carry }) {
			l.carriesFirst() // something was asked for meanwhile
		}
	case err != nil:
		l.client.finish(c, err)
		if l.session.End(fault.ErrLost) { // another node carries the guest on
			l.client.emit(SessionLost{l.session})
		}
		if l.kept() {
			l.lose(true)
		}
	default:
		l.carried, l.carriedAt = true, l.shard.revision
		if l.session.carrier == 0 {
			l.session.carrier = c.stamp
		}
		l.client.finish(c, nil)
		l.sendUnanswered()
	}
}

// tagged returns a command that asks for q, with its tag, if it has one.
func (q *Request) tagged(cmd shard.Command) shard.Command {
	if q.Tag == "" {
		return cmd
	}
	return shard.Tagged{Command: cmd, Tag: q.Tag}
}

// hear: the guest has made a request. The call is finished once every lease of the session is confirmed to have been
// renewed less than a third of its TTL before.
func (c *Client) hear(call *Call) {
	s := call.Session
	if err := s.Err(); err != nil {
		c.finish(call, err)
		return
	}
	s.heard, call.first = c.now, c.now
	c.hears = append(c.hears, call)
	c.each(func(l *lease) {
		if l.session == s && l.renewable() && c.now >= l.renewAt {
			l.renew()
		}
	})
	c.heard()
}

// heard finishes those of the guests' calls that need not wait any more.
func (c *Client) heard() {
	c.hears = slices.DeleteFunc(c.hears, func(call *Call) bool {
		if err := call.Session.Err(); err != nil {
			c.finish(call, err)
			return true
		}
		fresh := true
		c.each(func(l *lease) {
			if l.session == call.Session && l.renewable() && call.first >= l.from+l.ttl/3 {
				fresh = false
			}
		})
		if fresh {
			c.finish(call, nil)
		}
		return fresh
	})
}

// silent reports whether the lease is not to be renewed, as its guest was not heard since it was.
func (l *lease) silent() bool { return l.ofGuest() && l.session.heard <= l.from }

// LeaseOf returns for how long a guest may believe in all that its session holds, and in its places in queues: by a clock that may be
// slow, where this node's is fast (P1). Zero: the session has ended.
func (c *Client) LeaseOf(s *Session, now time.Duration) time.Duration {
	if s.Err() != nil {
		return 0
	}
	left := s.TTL
	c.each(func(l *lease) {
		if l.session == s && l.begun && (len(l.holds) > 0 || len(l.calls) > 0 || l.carried) {
			left = min(left, l.until-now)
		}
	})
	return max(0, time.Duration(float64(left)*(1-c.cfg.Rho)/(1+c.cfg.Rho)))
}

// claimed handles the end of a request that a guest claims.
func (l *lease) claimed(c *Call, token uint64) {
	c.Ended, c.stamp = true, token
	l.acknowledge(c.number)
	l.confirmed(c, nil)
}

// errorOfClaim is what a claim, or a hold that a guest says it has, is told if the table has refused it.
func errorOfClaim(c *Call, err error) error {
	if (c.Request.Claim || c.Request.Held != 0) && err == fault.ErrLost {
		return fault.ErrNotHeld
	}
	return err
}

// Token returns the token of what a Lock has found: of its hold, or of what it claims.
func (c *Call) Token() uint64 {
	if c.Hold != nil {
		return c.Hold.Token
	}
	return c.stamp
}
