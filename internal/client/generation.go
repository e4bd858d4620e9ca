package client

import (
	"slices"
	"time"

	"github.com/lockmesh/mesh/shard"
)

// When a shard's replicas have lost its table, the shard goes on in another generation, with an empty
// one (C8). Its clients know what it held: each reports its holds and its places in queues. The new table
// grants nothing until all leases of the old one that nobody reports are over, so reports come in time.
//
// A hold is believed as long as before: its Report moves nothing, and renewals of its lease go on once all
// Reports of the lease are confirmed. What was under way in the old generation is over there: an Unlock is
// done, since the hold is not reported; a Lock is asked for again, and a Fix that was not answered is
// sent again.

// goOver takes the shard's leases over into another generation, or loses all that are void.
func (s *shardClient) goOver(generation uint64, quiet time.Duration, void bool) {
	if generation == s.generation {
		return
	}
	now := s.client.now
	if now >= s.quietUntil {
		s.earlier.Quiet = 0 // leases may have been longer then than they are now
	}
	s.earlier.Known, s.earlier.Quiet = max(s.earlier.Known, s.revision), max(s.earlier.Quiet, quiet)
	s.quietUntil = max(s.quietUntil, now+quiet)
	s.generation, s.leader, s.term, s.relay, s.revision, s.lost = generation, 0, 0, 0, 0, nil
	if void {
		s.memories = nil
	}
	var over []*lease
	for _, l := range slices.Clone(s.leases) {
		if void || l.expired() || l.unsure() {
			over = append(over, l)
		} else {
			l.goOver()
		}
	}
	for _, l := range over {
		s.withdraw(l) // no Lock moves from one to the other
	}
	for _, l := range over {
		l.lose(true) // its Locks may move to a lease that has gone over by now
	}
	s.askAgain()
	s.watchAnew(true)
}

// goOver reports what the lease holds and waits for.
func (l *lease) goOver() {
	if l.opened == neverShown && len(l.calls) > 0 && !l.ofGuest() {
		l.begun = false // nothing is believed in, and its record is no older than what is sent from now on
	}
	l.since, l.opened, l.acks, l.reports = 0, neverShown, nil, 0
	l.unheard, l.breachesAt, l.owing = nil, 0, 0
	l.complete, l.carried = l.complete || l.carried, false
	l.asked, l.after, l.tries = nil, 0, tries{}
	for _, u := range l.uses { // order-free: each alone
		u.earlier, u.stamp = max(u.earlier, u.stamp), 0
	}
	for _, c := range l.inOrder() {
		c.acks = nil
		switch {
		case c.Kind == Close:
			l.confirmed(c, nil) // there is no record of the lease
			return
		case c.Kind == Unlock:
			l.goOverUnlock(c)
		case c.Kind == Lock:
			if c.Hold != nil { // its caller does not have it yet
				l.forget(c.Hold)
			}
			vague := c.Request.Claim && c.Hold == nil // a place that is known by its tag alone
			c.Hold, c.fixing, c.Skipped, c.reports = nil, false, false, c.Request.Held != 0 || c.entered != 0 && !c.Skipped && !vague
			c.stamp, c.dropped = 0, 0 // the next table's stamps need not be later
			c.askAgain()
		case c.Kind == Fix && c.Hold.pending == nil, c.Kind == Remember, c.Kind == Carry, c.Kind == Proclaim, c.Kind == Downgrade:
			c.askAgain()
		case c.Kind == Recall && c.Hold == nil && l.shard.knows(c.memory):
			l.remove(c) // it is told anew
		case c.Kind == Recall && l.client.now >= c.memory.until:
			l.confirmed(c, nil)
		case c.Kind == Recall || c.Kind == Arrive || c.Kind == Resize || c.Kind == Break:
			c.askAgain()
		case c.Kind == Drop:
			c.goOverDrop()
		case c.Kind == Cancel && c.stamp != 0 && c.Request.Operation.Durable: // replicas may tell of the use
			c.Kind, c.Session, c.vain = Drop, l.session, c.stamp
			c.goOverDrop()
		default: // a Cancel, a Report, or the first Fix of a hold
			l.forgetFix(c)
			l.remove(c)
			if c.Kind == Cancel {
				l.client.finish(c, nil) // nobody reports its Lock
			}
		}
	}
	for id, u := range l.uses { // order-free: each alone
		if u.handles == 0 {
			delete(l.uses, id)
		}
	}
	reported := make(map[*use]bool)
	for _, h := range slices.Clone(l.holds) {
		switch {
		case h.use == nil && (h.Err() != nil || h.broken):
			h.unreported = true
			l.forget(h)
			continue
		case h.use != nil && (h.Err() != nil || reported[h.use]):
			continue // its Unlock is next; or another handle is reported
		case h.use != nil:
			reported[h.use] = true
			h.use.stamp = max(h.use.stamp, h.use.earlier) // its Report raises the table's revision above that
		}
		l.reports++
		l.put(l.reportOf(h))
	}
	if l.ofGuest() && !l.isCarrying() {
		l.put(&Call{Kind: Carry, Shard: l.shard.shard})
	}
	l.open = l.inOrder()
	l.sendUnanswered()
}

// reportOf returns a Report of a hold.
func (l *lease) reportOf(h *Hold) *Call {
	c := &Call{Kind: Report, Shard: l.shard.shard, Hold: h}
	if h.timed {
		c.Length = l.timeLeft(h)
	}
	return c
}

// askAgain makes c a call that was not sent yet, under its number.
func (c *Call) askAgain() { c.raw, c.queued = nil, false }

// sendUnanswered sends every call that may not have arrived, as if for the first time.
func (l *lease) sendUnanswered() {
	for _, c := range slices.Clone(l.unanswered()) {
		if !l.isDone(c) {
			c.tries = tries{}
			l.shard.send(c)
		}
	}
}

// defers reports whether c must wait until all Reports of the lease are answered: a Release that comes
// before its hold's Report would find nothing, and the Report would then make a hold that nobody has. A
// Close ends the Reports, and waits for none. Nor do a Remember, a Recall and an Arrive: they are about nothing that is reported.
func (l *lease) defers(c *Call) bool {
	switch {
	case c.Kind == Carry || c.Kind == Close:
		return false
	case l.ofGuest() && !l.carried:
		return true // it would open a record of something else
	case c.Kind == Lock && c.Request.Tag != "" && l.ending(c.Request.tag()):
		return true // it would be answered with what is about to end
	}
	switch c.Kind {
	case Report, Remember, Recall, Arrive:
		return false
	}
	return l.reports > 0 && !c.reports
}

// report returns the command that asks for the place of a Report's hold, or of a Lock that waited.
func (s *shardClient) report(c *Call, base shard.Call) shard.Command {
	r := shard.Report{Call: base, TTL: c.lease.ttl, Name: s.client.cfg.Name, Earlier: s.earlier}
	q := &c.Request
	if h := c.Hold; h != nil {
		q, r.Token, r.Sequence = &h.request, h.Token, h.sequence
		if h.use != nil {
			r.Uses, r.Token = true, h.use.stamp
			r.Known = max(r.Known, r.Token)
		}
		if h.timed {
			r.Hold = c.lease.timeLeft(h)
		}
	} else {
		r.Entered, r.Token = c.entered, q.Held
		r.Known = max(r.Known, r.Token)
	}
	r.Key, r.Kind, r.Value = q.Key, q.kind(), q.Value
	if q.Operation != nil {
		r.Operation = *q.Operation
	}
	if r.Uses {
		r.Durable = c.Hold.use.durable
	}
	if r.Weight, r.Capacity = q.Share(); c.Hold != nil && c.Hold.capacity != 0 {
		r.Capacity = c.Hold.capacity
	}
	switch {
	case r.Uses:
		return r
	case c.Hold != nil:
		return q.tagged(r)
	}
	return q.within(r)
}

// timeLeft is for how long the table must keep a hold of fixed length so that its holder may believe in it
// to its end: the inverse of believable.
func (l *lease) timeLeft(h *Hold) time.Duration {
	rho := l.client.cfg.Rho
	return time.Duration(float64(h.Deadline()-l.client.now)*(1+rho)/(1-rho)) + 1
}

// ages reports whether c says how much time is left of a hold that goes on: less by now than when c was
// last sent. Its end stays where it was, however late a Report comes.
func (c *Call) ages(now time.Duration) bool {
	return c.Kind == Report && c.Hold.timed && now < c.Hold.Deadline()
}

// resumed: the table of the new generation has the hold that c reported.
func (l *lease) resumed(c *Call) {
	l.acknowledge(c.number)
	l.remove(c)
	l.lasts = max(l.lasts, l.client.now+l.believable(c.Length)) // its first copy may have been applied just now
	if h := c.Hold; h.pending != nil && l.client.now < h.Deadline() {
		l.deliver(h)
	}
	if l.reports--; l.reports > 0 {
		return
	}
	if !l.fixed {
		l.renewAt = l.client.now
	}
	l.sendUnanswered()
}

// reopens reports whether the lease tries again to open its record in the new generation: c was refused, since
// other leases have ended there (P12). Nothing has shown that a record has ended, and the belief lasts: so none has
// been there and expired. C is sent again, with a later Since. So are the other Reports when their time comes,
// and under new numbers: an answer to one that opened a record, which has ended since, must not be taken for theirs.
func (l *lease) reopens(c *Call, revision uint64) bool {
	now := l.client.now
	if l.reports == 0 || now >= l.until || l.opened != neverShown && revision > l.opened {
		return false
	}
	l.since = max(l.since, revision)
	for _, o := range l.unanswered() {
		o.raw = nil
	}
	for _, o := range l.inOrder() {
		if o.Kind == Report {
			l.remove(o)
			n := l.reportOf(o.Hold)
			n.retryAt = now + firstRetry
			if l.put(n); o == c {
				c = n
			}
		}
	}
	l.wakeAt(now + firstRetry)
	l.shard.send(c)
	return true
}

// dropReports forgets the Reports without an answer: the lease is to be closed.
func (l *lease) dropReports() {
	if l.reports == 0 {
		return // as a rule
	}
	for _, c := range l.inOrder() {
		if c.Kind == Report {
			l.remove(c)
		}
	}
	l.reports = 0
}
