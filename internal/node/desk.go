package node

import (
	"maps"
	"slices"
	"time"

	"github.com/lockmesh/mesh/internal/bug"
	"github.com/lockmesh/mesh/internal/env"
	"github.com/lockmesh/mesh/internal/message"
	"github.com/lockmesh/mesh/internal/point"
	"github.com/lockmesh/mesh/internal/replica"
	"github.com/lockmesh/mesh/shard"
	"github.com/lockmesh/mesh/transport"
)

// desk is where this node's callers ask for the keys of one shard: it finds the shard's
// leader, repeats what got lost, and keeps the seats, which are this node's sessions in
// the shard.
type desk struct {
	lane     *lane
	shard    int
	leader   uint64        // the node that is believed to lead; zero: unknown
	term     uint64        // the latest in which one is known to have led
	revision uint64        // the highest that an answer named (P12)
	heard    time.Duration // the last word of a leader
	through  uint64        // who passed the leader's last word on; zero: nobody (P15)
	seats    []*seat
	current  map[*Session]*seat // where a session's next call goes
	by       map[uint64]*seat   // by session number
}

// Repeating what was not answered: soon at first, then less and less often.
const (
	firstRetry   = 200 * time.Millisecond
	longestRetry = 1600 * time.Millisecond
	maxJumps     = 8 // redirects that are followed at once
)

func newDesk(l *lane, sh int) *desk {
	return &desk{lane: l, shard: sh, current: make(map[*Session]*seat), by: make(map[uint64]*seat)}
}

// seatFor returns the seat for a session's next call.
func (d *desk) seatFor(s *Session, fixed bool) *seat {
	t := d.current[s]
	if fixed || t == nil || !t.fresh() {
		t = newSeat(d, s)
		d.seats = append(d.seats, t)
		d.by[t.id.Number] = t
		if fixed {
			t.single = true
		} else {
			d.current[s] = t
		}
	}
	return t
}

func (d *desk) acquire(c *call) {
	switch {
	case d.lane.node.closing():
		c.finish(ErrClosed)
		return
	case c.session.Err() != nil:
		c.finish(c.session.Err())
		return
	}
	d.lane.node.counts.acquires.Add(1)
	d.enqueue(c, d.seatFor(c.session, c.req.MaxHold > 0))
}

// enqueue gives an acquire its place in a seat and sends it.
func (d *desk) enqueue(c *call, t *seat) {
	if c.first == 0 {
		c.first = d.lane.now
	}
	c.queued, c.attempt = false, 0
	t.put(c)
	d.send(c)
}

// command makes the command that a call sends.
func (d *desk) command(c *call) {
	t := c.seat
	base := shard.Call{Session: t.id, Number: c.number, Since: t.since, Acked: c.acks}
	switch c.what {
	case acquires:
		q := &c.req
		a := shard.Acquire{Call: base, TTL: t.ttl, Name: d.lane.node.Name(), Key: q.Key, Try: q.Try, Value: q.Value}
		a.Weight, a.Capacity = q.share()
		if q.Mode == Permits {
			a.Kind = shard.Semaphore
		}
		c.command = a
	case cancels:
		c.command = shard.Cancel{Call: base, TTL: t.ttl, Name: d.lane.node.Name(), Target: c.target}
	case releases:
		c.command = shard.Release{Call: base, Key: c.hold.key, Token: c.hold.token}
	case claims:
		c.command = shard.Claim{Call: base, Key: c.hold.key, Token: c.hold.token, Hold: c.length}
	case closes:
		c.command = shard.Close{Session: t.id, Number: c.number}
	}
	if c.raw == nil {
		c.raw = make([]byte, 0, 96+len(c.req.Key)+len(c.req.Value))
	}
	c.raw = shard.AppendCommand(c.raw[:0], c.command)
}

// send sends a call, for the first time or again.
func (d *desk) send(c *call) {
	if c.raw == nil {
		d.command(c)
	}
	c.seat.sent(c)
	pause := min(firstRetry<<min(c.attempt, 3), longestRetry)
	c.retryAt = d.lane.now + pause/2 + time.Duration(d.lane.rand.Int64N(int64(pause/2)+1))
	d.wakeAt(c.retryAt)
	to, relay := d.target(c.attempt)
	if to == 0 {
		return
	}
	if to == d.lane.node.id {
		d.lane.local = append(d.lane.local, letter{d.shard, &message.Request{Relay: relay, Command: c.command, Raw: c.raw}})
		return
	}
	d.lane.say(to, transport.Normal, d.shard, &message.Request{Relay: relay, Command: c.command, Raw: c.raw})
}

// target says where the given attempt goes: to the leader, as far as it is known; then
// to those who should know it, who are asked to pass the request on (P15).
func (d *desk) target(attempt int) (node uint64, relay bool) {
	if d.lane.node.points.Taken(point.ForgetLeader) {
		d.leader = 0
	}
	if d.lane.node.points.Taken(point.HastyRelay) {
		attempt += 2
	}
	if d.lane.node.bugs.Has(bug.AsksTheRing) {
		if target := d.lane.view.Target(d.shard); len(target) > 0 {
			return target[0].Node, false
		}
	}
	switch {
	case attempt%4 == 1 && d.through != 0 && (attempt == 1 || !d.lane.node.bugs.Has(bug.HelperAskedOnce)):
		// Again and again: what went this way may have been lost, and most others know no
		// better one.
		return d.through, true
	case attempt < 2 && d.leader != 0:
		return d.leader, false
	}
	// Every other attempt goes to who should have a replica, however many members there
	// are: a renewal that has to ask them all comes too late.
	from, n := d.lane.view.Members(), attempt/2
	if d.through != 0 && attempt%2 == 1 {
		n = attempt / 4 // the helper had the others
	}
	if target := d.lane.view.Target(d.shard); attempt%2 == 0 && len(target) > 0 {
		from = target
	}
	if len(from) == 0 {
		return 0, false
	}
	return from[n%len(from)].Node, attempt >= 2 && !d.lane.node.bugs.Has(bug.NoRelay)
}

func (d *desk) wakeAt(t time.Duration) { d.lane.deskAt = min(d.lane.deskAt, t) }

// learn notes the revision that an answer named.
func (d *desk) learn(revision uint64) {
	d.revision = max(d.revision, revision)
	d.heard = d.lane.now
}

// believe takes a node for the leader, unless one of a later term is known. It reports
// whether that is news that counts.
func (d *desk) believe(o message.Office) bool {
	if o.Leader == 0 || o.Term < d.term && !d.lane.node.bugs.Has(bug.OldLeaderCounts) {
		return false
	}
	d.leader, d.term = o.Leader, max(d.term, o.Term)
	return true
}

// speaks: a leader has answered, whoever is believed to lead. If its word came from another
// node, that one has passed it on, and may do so again (P15).
func (d *desk) speaks(from uint64, o message.Office) {
	switch {
	case d.lane.node.bugs.Has(bug.KeepsWrongLeader) && d.leader != 0 && d.leader != o.Leader:
		d.through = from
	case !d.believe(o):
	case from == o.Leader:
		d.through = 0
	default:
		d.through = from
	}
}

// replied takes what a leader says of a call.
func (d *desk) replied(p message.Result) {
	d.learn(p.Revision)
	t := d.by[p.Session]
	if t == nil {
		return
	}
	if p.Outcome != message.Refused || p.Reason != shard.Reopen && p.Reason != shard.Behind && p.Reason != shard.Lost {
		t.opened = min(t.opened, p.Revision)
	}
	defer t.due() // its record was shown, or what kept it from being renewed is answered
	c := t.calls[p.Number]
	if c == nil {
		t.acknowledge(p.Number) // of a call that was abandoned, or told twice
		return
	}
	switch p.Outcome {
	case message.Queued:
		c.queued, c.retryAt, c.acks = true, env.Never, nil
		c.info.Queued, c.info.Ahead, c.info.Holder, c.info.Token = true, p.Ahead, p.Holder, p.Token
	case message.Granted:
		if c.what == acquires {
			t.granted(c, p)
		}
	case message.Done:
		if c.what == acquires {
			d.abandon(c, ErrLost) // nobody grants it any more
			return
		}
		t.acknowledge(p.Number)
		t.confirmed(c, nil)
	case message.Refused:
		d.refused(c, p)
	}
}

func (d *desk) refused(c *call, p message.Result) {
	t := c.seat
	switch {
	case p.Reason == shard.Reopen && (t.opened == neverShown || p.Revision >= t.opened):
		// The record is gone, or never was. Its number is never used again: what this
		// seat asked for may have happened under it.
		if d.lane.node.bugs.Has(bug.CloseUnheard) {
			d.lose(t, true)
			return
		}
		t.ended()
		return
	case p.Reason == shard.Reopen || p.Reason == shard.Behind:
		// An old answer (P13), or one to an old command of whoever had this number.
		return
	}
	t.acknowledge(p.Number)
	c.info.Holder, c.info.Token = p.Holder, p.Token
	var err error
	switch p.Reason {
	case shard.Locked:
		err = ErrLocked
	case shard.Capacity:
		err = ErrCapacity
	case shard.Crowded:
		err = ErrTooManyWaiters
	default:
		err = ErrLost
	}
	t.confirmed(c, err)
}

// redirected: a call or a renewal reached a node that does not lead.
func (d *desk) redirected(from uint64, r message.Redirect) {
	t := d.by[r.Session]
	if t == nil {
		return
	}
	led := d.leader == from
	knows := d.believe(r.Office)
	switch {
	case knows && led:
		d.through = from // it hears who leads now
	case r.Leader == 0 && d.through == from:
		d.through = 0
	}
	if r.Leader == 0 && led {
		d.leader = 0
	}
	if r.Number == 0 {
		if knows {
			t.attempt = 0
		}
		if t.jumps++; t.jumps <= maxJumps && knows && t.renewable() {
			t.renew()
		}
		return
	}
	c := t.calls[r.Number]
	if c == nil || c.queued {
		return
	}
	if c.what == releases && d.lane.node.bugs.Has(bug.RedirectEndsUnlock) {
		t.confirmed(c, nil)
		return
	}
	if c.jumps++; c.jumps > maxJumps {
		return // the retry timer goes on
	}
	if knows {
		c.attempt = 0
	} else {
		c.attempt++ // somebody else may know
	}
	d.send(c)
}

// served: a new leader serves. What was not answered goes to it at once, and so does a
// renewal of every seat: its answer repeats what got lost with the old one.
func (d *desk) served(by message.Office) {
	if !d.believe(by) {
		return // late: it does not lead any more
	}
	for _, t := range slices.Clone(d.seats) {
		if d.lane.node.bugs.Has(bug.AsksNewLeaders) {
			d.askAnew(t)
		}
		for _, c := range t.unanswered() {
			c.attempt, c.jumps = 0, 0
			d.send(c)
		}
		if t.renewable() {
			t.attempt, t.jumps = 0, 0
			t.renew()
		}
	}
}

// askAnew gives up the places of a seat's waiters, and takes new ones: a deliberate bug.
func (d *desk) askAnew(t *seat) {
	for _, n := range slices.Sorted(maps.Keys(t.calls)) {
		if c := t.calls[n]; c != nil && c.queued && !t.single {
			t.remove(c)
			d.cancel(t, n)
			c.raw, c.acks = nil, nil
			d.enqueue(c, t)
		}
	}
}

// nodeGone: no process answers for the node any more, as leader or in between.
func (d *desk) nodeGone(node uint64) {
	if d.leader == node {
		d.leader = 0
	}
	if d.through == node {
		d.through = 0
	}
}

// answered takes a confirmed leader's word on a session.
func (d *desk) answered(a message.Answer) {
	d.learn(a.Revision)
	if t := d.by[a.Session]; t != nil {
		t.answered(a)
	}
}

// abandon: nobody waits for c any more.
func (d *desk) abandon(c *call, cause error) {
	if c.over {
		if c.what == acquires && c.err == nil && d.by[c.seat.id.Number] == c.seat && d.lane.node.bugs.Has(bug.ContextUndoesLock) {
			d.cancel(c.seat, c.number)
		}
		return
	}
	if c.what == acquires && d.lane.now-d.heard > 2*replica.ElectionTimeout && d.lane.node.bugs.Has(bug.DeafToContext) {
		return
	}
	t := c.seat
	switch {
	case t == nil: // it waits for another claim, and was never sent
		if !d.lane.node.bugs.Has(bug.ClaimOfNobody) {
			c.hold.seat.claims = slices.DeleteFunc(c.hold.seat.claims, func(o *call) bool { return o == c })
		}
		c.finish(cause)
	case c.what == acquires:
		d.fill(c)
		t.remove(c)
		if c.got != nil {
			t.forget(c.got)
		}
		c.finish(cause)
		d.cancel(t, c.number)
	case c.what == claims:
		c.finish(cause) // its answer still counts for the hold
	case d.lane.node.bugs.Has(bug.UnlockForgotten):
		t.remove(c)
	default:
		t.orphans = append(t.orphans, c)
	}
}

// cancel sees to it that an Acquire leaves no grant behind: it is repeated until it is
// answered, and each renewal names it: the seat is not renewed unless the shard can be told
// (P12).
func (d *desk) cancel(t *seat, target uint64) {
	if t.single {
		d.close(t)
	} else {
		d.forsake(t, &call{what: cancels, target: target})
	}
}

// close sees to it in the same way that the record of a seat for a single hold ends.
func (d *desk) close(t *seat) {
	t.outlast()
	d.forsake(t, &call{what: closes})
}

// forsake sends a call that nobody waits for.
func (d *desk) forsake(t *seat, c *call) {
	t.put(c)
	d.send(c)
	t.orphans = append(t.orphans, c)
	if d.lane.node.bugs.Has(bug.CancelForgotten) {
		t.remove(c)
	}
}

// fill tells c what is known of the shard: there was a majority, unless a question that
// went to it has had no answer for 2·E.
func (d *desk) fill(c *call) {
	info, asked := &c.info, max(d.heard, c.first)
	if c.queued {
		asked = d.lane.now
		if len(c.seat.asked) > 0 {
			asked = c.seat.asked[0].at
		}
	}
	info.Quorum = d.lane.now-asked < 2*replica.ElectionTimeout
	if m, ok := d.lane.view.Name(d.leader); ok {
		info.Leader = m
	}
}

// release sends a release. Its caller's belief has ended already.
func (d *desk) release(c *call) {
	t := c.hold.seat
	if d.by[t.id.Number] != t {
		// The lease ended between the caller's look at the clock and now, or the
		// node is closing: what it held lapses.
		c.finish(ErrUnconfirmed)
		return
	}
	if t.single {
		c.what = closes // its record goes with its one hold
		t.outlast()
	}
	t.put(c)
	d.send(c)
}

// claim sends a claim of fixed time.
func (d *desk) claim(c *call) {
	t := c.hold.seat
	switch {
	case d.by[t.id.Number] != t || c.hold.isLost():
		c.finish(ErrLost)
		return
	case c.hold.Over():
		c.finish(ErrClosed) // its Close is on its way
		return
	}
	// The table may apply a claim whose answer is lost: from its sending on, the holder
	// believes in no more than both the old end and the new one allow. One claim is
	// under way at a time, or an answer could be taken for another's.
	if !d.lane.node.bugs.Has(bug.LongerBelieved) {
		c.hold.shorten(d.lane.now + t.believes(c.length))
	}
	t.until = min(t.until, c.hold.deadline())
	d.wakeAt(t.until)
	if t.claims = append(t.claims, c); len(t.claims) == 1 || d.lane.node.bugs.Has(bug.ClaimsTogether) {
		t.claim(c)
	}
}

// tick does what the time asks for, seat by seat.
func (d *desk) tick() {
	for _, t := range slices.Clone(d.seats) {
		t.tick()
	}
}

// lose gives a seat up: its holds are lost, and who waited in it asks anew, in a new
// seat; a user's session ends with it. Gone: the table has no record of it any more, and
// opens none.
func (d *desk) lose(t *seat, gone bool) {
	d.vacate(t)
	if !t.session.own && !t.single && t.opened != neverShown && !d.lane.node.bugs.Has(bug.SessionOutlivesLease) {
		t.session.lose()
	}
	t.loseHolds()
	t.dropClaims(ErrLost)
	var again []*call
	for _, n := range slices.Sorted(maps.Keys(t.calls)) {
		c := t.calls[n]
		switch {
		case c.what == acquires && t.session.Err() == nil && (!c.claiming || gone && !d.lane.node.bugs.Has(bug.ClaimLosesWaiter)):
			if !gone && !d.lane.node.mayAskAnew(c.req) {
				c.finish(ErrNoQuorum)
				continue
			}
			again = append(again, c)
		case c.what == releases || c.what == closes:
			c.finish(ErrUnconfirmed)
		default:
			c.finish(ErrLost)
		}
	}
	for _, c := range again {
		c.raw, c.acks, c.got, c.claiming = nil, nil, nil, false
		d.enqueue(c, d.seatFor(c.session, c.req.MaxHold > 0))
	}
}

// mayAskAnew reports whether a request that may have been granted, to nobody now, is made
// again: a Try would be refused because of itself (P16).
func (n *Node) mayAskAnew(req Request) bool { return !req.Try || n.bugs.Has(bug.TryMeetsItself) }

// vacate takes a seat out of the desk.
func (d *desk) vacate(t *seat) {
	delete(d.by, t.id.Number)
	if d.current[t.session] == t {
		delete(d.current, t.session)
	}
	if i := slices.Index(d.seats, t); i >= 0 {
		d.seats = slices.Delete(d.seats, i, i+1)
	}
}

// closeSeats sends a Close for every seat of a session and returns the calls.
func (l *lane) closeSeats(s *Session) []*call {
	var calls []*call
	for _, d := range l.desks {
		for _, t := range slices.Clone(d.seats) {
			if t.session != s {
				continue
			}
			for _, h := range t.holds {
				if h.holder != nil {
					h.holder.Unlocking()
				}
				h.end(ErrClosed)
			}
			for _, n := range slices.Sorted(maps.Keys(t.calls)) {
				if c := t.calls[n]; c.what == acquires {
					t.remove(c)
					c.finish(ErrClosed)
				}
			}
			t.outlast()
			c := &call{what: closes, shard: d.shard, parker: l.env.NewParker()}
			t.put(c)
			d.send(c)
			calls = append(calls, c)
		}
	}
	return calls
}

// loseSeats gives up every seat of a session that is lost. Their records lapse, or, if their time
// is fixed, are closed.
func (l *lane) loseSeats(s *Session) {
	for _, d := range l.desks {
		for _, t := range slices.Clone(d.seats) {
			switch {
			case t.session != s:
			case t.single && !l.node.bugs.Has(bug.LostSessionKeeps):
				d.surrender(t)
			default:
				d.drop(t, ErrLost)
			}
		}
	}
}

// surrender closes the record of a seat whose session is lost.
func (d *desk) surrender(t *seat) {
	t.loseHolds()
	for _, h := range t.holds {
		if h.holder != nil {
			h.holder.Unlocking() // the key is free before the lease is over
		}
	}
	if !d.lane.node.bugs.Has(bug.LostHoldsAwaited) {
		t.holds = nil // Leave need not wait for them
	}
	t.dropClaims(ErrLost)
	for _, n := range slices.Sorted(maps.Keys(t.calls)) {
		if c := t.calls[n]; c.what == acquires {
			t.remove(c)
			c.finish(ErrLost)
		}
	}
	if len(t.calls) == 0 { // else its Close is under way
		d.close(t)
	}
}

// drop ends a seat for good.
func (d *desk) drop(t *seat, why error) {
	d.vacate(t)
	t.loseHolds()
	t.dropClaims(why)
	for _, n := range slices.Sorted(maps.Keys(t.calls)) {
		c := t.calls[n]
		if c.what == releases || c.what == closes {
			c.finish(ErrUnconfirmed)
		} else {
			c.finish(why)
		}
	}
}
