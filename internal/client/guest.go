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
	switch l := s.current[c.Session]; {
	case l != nil && l.carried:
		s.client.finish(c, nil)
	case l != nil:
		s.requestIn(l, c) // beside the one under way
	default:
		s.requestIn(s.newLease(c.Session, false), c)
	}
}

// carriesFirst begins a lease of a guest.
func (l *lease) carriesFirst() {
	l.issue(&Call{Kind: Carry, Shard: l.shard.shard})
}

// carryOf returns the command of a Carry.
func (l *lease) carryOf(c *Call, base shard.Call) shard.Carry {
	return shard.Carry{Call: base, TTL: l.ttl, Guest: l.session.Guest, Carrier: l.session.carrier, Only: c.Only, Complete: l.complete}
}

// carries: the table has answered a Carry. If it grants nothing yet, it knows what the guest has by reports alone. What an earlier node that
// is gone has asked for is not reported, unless the guest names it; and what is reported by a node that has not heard yet that it was
// overtaken, the guest may have given back. Both are over when the table grants: then all have reported, and nobody believes in anything
// else.
func (l *lease) carries(c *Call, err error) {
	if !l.carried && (err == nil || c.Only) {
		l.session.unsure = max(l.session.unsure, c.quietUntil)
	}
	switch {
	case err != nil && c.Only && !l.carried:
		c.None = true
		l.client.finish(c, nil)
		l.dropCarry()
	case err != nil:
		l.client.finish(c, err)
		if l.session.End(fault.ErrLost) { // another node carries the guest on
			l.client.emit(SessionLost{l.session})
			l.client.answerGuest(l.session)
		}
		if l.kept() {
			l.lose(true)
		}
	case l.carried:
		l.unclaimed = min(l.unclaimed, c.Info.Ahead)
		l.client.finish(c, nil)
		if l.recounts {
			l.recounts = false
			l.countAgain()
		}
	default:
		l.carried, l.carriedAt, l.unclaimed = true, l.shard.revision, c.Info.Ahead
		if l.session.carrier == 0 {
			l.session.carrier, l.session.home = c.stamp, l.shard.shard
		}
		l.client.finish(c, nil)
		l.sendUnanswered()
		if l.unconfirmed() {
			l.renewAt = l.client.now
		}
	}
}

// dropCarry: a Carry is over, and the lease has no record. It is dropped, unless something was asked for meanwhile.
func (l *lease) dropCarry() {
	if len(l.calls) == 0 {
		l.shard.withdraw(l)
	} else if !l.isCarrying() {
		l.carriesFirst()
	}
}

// isCarrying reports whether a Carry is under way.
func (l *lease) isCarrying() bool {
	return l.hasCall(func(c *Call) bool { return c.Kind == Carry })
}

// abandonCarry: the caller of a Carry has given up. Its answer, if it comes, changes nothing.
func (l *lease) abandonCarry(c *Call) {
	if l == nil || !l.kept() || l.isDone(c) {
		return
	}
	l.remove(c)
	if !l.carried {
		l.dropCarry()
	}
}

// recount asks how much is unclaimed, now that c was answered, which may have claimed something.
func (l *lease) recount(c *Call) {
	switch {
	case l.unclaimed == 0 || c.Kind != Lock || !l.kept():
	case l.isCarrying():
		l.recounts = true
	default:
		l.countAgain()
	}
}

// countAgain sends a Carry for its answer.
func (l *lease) countAgain() {
	if l.unclaimed > 0 {
		l.carriesFirst()
	}
}

// unsure reports whether the guest may have something in the lease that this node could not report to another table: what an earlier
// node has asked for, and this one has not claimed, or knows by its tag alone.
func (l *lease) unsure() bool {
	return l.carried && l.unclaimed > 0 || slices.ContainsFunc(l.holds, func(h *Hold) bool { return h.vague })
}

// matters reports whether a guest loses something with the lease. That of its home shard orders its carriers.
func (l *lease) matters() bool {
	return l.isHome() || len(l.holds) > 0 || len(l.abandoned) > 0 || l.carried && l.unclaimed > 0 ||
		l.hasCall(func(c *Call) bool { return c.Kind == Lock && c.entered != 0 })
}

// ends returns the tag of a request that a call gives back, or cancels.
func (c *Call) ends() (t tag) {
	switch {
	case c.Kind == Cancel:
		t = c.Request.tag()
	case c.Kind == Unlock && c.Use == nil && c.Hold.use == nil:
		t = c.Hold.request.tag()
	}
	return t
}

// ending reports whether a request with the tag is being given back, or cancelled.
func (l *lease) ending(t tag) bool {
	return l.hasCall(func(c *Call) bool { return c.ends() == t })
}

// sendNext sends what has waited for the end of a request with the tag.
func (l *lease) sendNext(t tag) {
	if !l.kept() || l.ending(t) {
		return
	}
	for _, c := range slices.Clone(l.unanswered()) {
		if c.Kind == Lock && c.Request.tag() == t && !l.isDone(c) {
			l.shard.send(c)
		}
	}
}

// tagged returns a command that asks for q, with its tag, if it has one.
func (q *Request) tagged(cmd shard.Command) shard.Command {
	if q.Tag == "" {
		return cmd
	}
	return shard.Tagged{Command: cmd, Tag: q.Tag}
}

// isHome reports whether the lease is that of a guest's home shard, which orders the carriers. With it the session ends.
func (l *lease) isHome() bool {
	return l.ofGuest() && l.session.carrier != 0 && l.session.home == l.shard.shard
}

// awaited is what a Confirm waits for in a shard: the answer to a renewal of this number, or a later one.
type awaited struct {
	lease *lease
	ref   uint64
}

// hear: the guest has made a request, or is about to be answered. The call is finished once every lease of the session is confirmed
// to have been renewed less than a third of its TTL before. A Confirm also waits for renewals that begin now: see confirm.
func (c *Client) hear(call *Call) {
	s := call.Session
	s.heard, call.first = c.now, c.now
	if s.hears = append(s.hears, call); len(s.hears) == 1 {
		c.heard = append(c.heard, s)
	}
	if call.Kind == Confirm {
		c.confirm(call)
	}
	for _, l := range slices.Clone(s.leases) {
		if l.renewable() && c.now >= l.renewAt {
			l.renew()
		}
		l.renewSoon()
	}
	c.answerGuest(s)
}

// confirm has the session renewed in its home shard, and in those that the call names. What was known of the guest before is true if
// the answers are that its records are there: no other node was told before that it carries the guest on (P42).
func (c *Client) confirm(call *Call) {
	s := call.Session
	home := c.shard(s.home).current[s]
	if home == nil {
		c.finish(call, fault.ErrLost)
		return
	}
	call.awaits = append(call.awaits, awaited{home, home.confirm()})
	for _, sh := range call.Shards {
		l := c.shard(sh).current[s]
		if l != nil && !slices.ContainsFunc(call.awaits, func(a awaited) bool { return a.lease == l }) {
			call.awaits = append(call.awaits, awaited{l, l.confirm()})
		}
	}
	for _, l := range s.leases {
		if l.owing != 0 {
			call.awaits = append(call.awaits, awaited{l, l.confirm()}) // it tells what is broken
		}
	}
}

// maxConfirming is how many renewals of a lease may be under way before another Confirm waits for the next answer: all that wait share
// the renewal that is sent then.
const maxConfirming = maxAsked / 2

// confirm sees to it that a renewal is sent from now on, and returns its number.
func (l *lease) confirm() (ref uint64) {
	l.wanted = l.refs + 1
	if l.renewable() && len(l.asked) < maxConfirming {
		l.renew()
	}
	l.renewSoon()
	return l.wanted
}

// unconfirmed reports whether a Confirm waits for an answer.
func (l *lease) unconfirmed() bool { return l.wanted > l.alive }

// answerGuests finishes, of all guests, each Hear and Confirm that need not wait any more.
func (c *Client) answerGuests() {
	for _, s := range slices.Clone(c.heard) {
		c.answerGuest(s)
	}
}

// answerGuest finishes each Hear and Confirm of a guest that need not wait any more.
func (c *Client) answerGuest(s *Session) {
	if len(s.hears) == 0 {
		return
	}
	s.hears = slices.DeleteFunc(s.hears, func(call *Call) bool {
		if err := s.Err(); err != nil {
			c.finish(call, err)
		} else if call.renewed() {
			c.finish(call, nil)
		}
		return call.over
	})
	if len(s.hears) == 0 {
		c.heard = slices.DeleteFunc(c.heard, func(o *Session) bool { return o == s })
	}
}

// renewed reports whether what a Hear or a Confirm waits for has come.
func (c *Call) renewed() bool {
	for _, l := range c.Session.leases {
		if l.renewable() && l.matters() && c.first >= l.from+l.ttl/3 {
			return false
		}
	}
	for i := range c.awaits {
		a := &c.awaits[i]
		switch l := a.lease.shard.current[c.Session]; {
		case l == nil && i == 0:
			return false // its home: the session is about to end
		case l == nil:
		case l != a.lease:
			a.lease, a.ref = l, l.confirm()
			return false
		case l.alive < a.ref:
			return false
		}
	}
	return true
}

// sendGuestsAway finishes each Hear and Confirm of all guests, with why.
func (c *Client) sendGuestsAway(why error) {
	for _, s := range c.heard {
		for _, call := range s.hears {
			c.finish(call, why)
		}
		s.hears = nil
	}
	c.heard = nil
}

// silent reports whether the lease is not to be renewed, because its guest was not heard since the last renewal that was confirmed.
func (l *lease) silent() bool { return l.ofGuest() && l.session.heard <= l.from && !l.unconfirmed() }

// UnsureUntil returns until when what this node knows of the guest need not be what the guest has: see carries.
func (c *Client) UnsureUntil(s *Session) time.Duration { return s.unsure }

// LeaseOf returns for how long a guest may believe in all that its session holds, and in its places in queues: by a clock that may be
// slow, where this node's is fast (P1). Zero: the session has ended, or is about to be renewed for a shorter time than before; or an operator has
// broken what the guest may believe in.
func (c *Client) LeaseOf(s *Session, now time.Duration) time.Duration {
	if s.Err() != nil || c.owes(s, now) {
		return 0
	}
	left := s.TTL
	for _, l := range s.leases {
		if l.begun && l.matters() {
			left = min(left, l.trusted()-now)
		}
	}
	return max(0, time.Duration(float64(left)*(1-c.cfg.Rho)/(1+c.cfg.Rho)))
}

// claimed handles the end of a request that a guest claims.
func (l *lease) claimed(c *Call, token uint64) {
	c.Ended, c.stamp = true, token
	l.acknowledge(c.number)
	l.confirmed(c, nil)
}

// errorOfClaim returns what the caller of a claim, or of a request for a hold that the guest says it has, is told if the table has refused it.
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
