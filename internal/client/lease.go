package client

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/lockmesh/mesh/internal/env"
	"github.com/lockmesh/mesh/internal/fault"
	"github.com/lockmesh/mesh/internal/point"
	"github.com/lockmesh/mesh/shard"
)

// lease is a session's record in one shard, as the client sees it. Its number is never used
// again: a lease that was lost is replaced by another.
type lease struct {
	client  *Client
	shard   *shardClient
	session *Session
	id      shard.SessionID
	ttl     time.Duration // at most what a lease may last: see shorten
	limit   time.Duration // for how long a lease may last, as a leader has said last
	fixed   bool          // for one hold of fixed length (P7)

	since     uint64        // the shard's revision, as far as it was known when the lease was made: see shard.Call (P12)
	carried   bool          // of a guest: its table knows that this node carries it
	complete  bool          // and an earlier table knew that, too: so this node knows all that the guest had there
	unclaimed int           // how much the guest may have in the shard that this node does not know of: an earlier carrier has asked for it
	recounts  bool          // the shard is to be asked once more how much is unclaimed
	carriedAt uint64        // of a guest: the revision at which the table said that this node carries it
	opened    uint64        // the lowest revision that showed its record
	begun     bool          // something was sent
	from      time.Duration // the first sending, or that of the last confirmed renewal
	until     time.Duration // the end of the belief: a TTL from then (P6), or what was left of it when the TTL was shortened
	lasts     time.Duration // until when the table may keep the record, by all fixed times that were asked for (P7)

	number    uint64           // of the last call
	calls     map[uint64]*Call // without a result, by number
	open      []*Call          // those of calls that may need another sending
	abandoned []*Call          // calls that no caller waits for, in the order in which they were given up; the first is not done, later ones may be
	reports   int              // Reports without an answer: until they have it, the lease is not renewed, and what uses its holds waits (C8)
	fixes     []*Call          // the first is under way, the others wait for it
	holds     []*Hold          // by token
	uses      map[useID]*use   // of resources; nil: none yet
	acks      []uint64         // results that the table can forget, ascending: later commands carry them

	unheard    []shard.Breach // broken grants that a leader has named, of which this node has no hold
	breachesAt uint64         // the revision of the answer that was last taken in about them
	owing      uint64         // of a guest: at this revision a Carry has said that there are breaches, and no answer since has said which; zero: none

	due     time.Duration // when a Tick is to come to this lease: see wakes
	renewAt time.Duration // when the next renewal is due
	refs    uint64        // of the last renewal
	after   uint64        // the next answer shall repeat the results after this number; zero: from the first that is missing
	asked   []question    // renewals without an answer, the latest last
	wanted  uint64        // a Confirm waits for the answer to this renewal, or a later one, which may still have to be sent
	alive   uint64        // the latest renewal to which the answer was that the record is there
	tries                 // of renewals
}

// neverShown is a lease's opened if nothing has shown its record.
const neverShown = 1<<64 - 1

// question is a renewal that was sent.
type question struct {
	ref   uint64
	at    time.Duration
	after uint64
}

// newLease returns another lease for a session.
func (s *shardClient) newLease(session *Session, fixed bool) *lease {
	c := s.client
	c.lastLease++
	l := &lease{
		client: c, shard: s, session: session, ttl: min(session.TTL, c.limit), limit: c.limit, fixed: fixed, since: s.revision, opened: neverShown,
		id: shard.SessionID{Node: c.cfg.Node, Number: c.lastLease}, calls: make(map[uint64]*Call), due: env.Never, renewAt: env.Never,
	}
	s.leases = append(s.leases, l)
	s.byNumber[l.id.Number] = l
	if l.ofGuest() {
		session.leases = append(session.leases, l)
	}
	if !fixed {
		s.current[session] = l
	}
	return l
}

// kept reports whether the client has not given the lease up.
func (l *lease) kept() bool { return l.shard.byNumber[l.id.Number] == l }

// believable is for how long a holder may believe in a lease, from the sending of what was
// confirmed: its own clock may be slow and the leader's fast (P1).
func (l *lease) believable(ttl time.Duration) time.Duration {
	rho := l.client.cfg.Rho
	return time.Duration(float64(ttl) * (1 - rho) / (1 + rho))
}

// fresh reports whether a new Lock should still go into this lease. One that lay idle
// until it is about to end would lose what it is granted; and once half of its TTL has passed,
// the leader has logged its silence, and answers its next renewal a log entry later (P5).
func (l *lease) fresh() bool {
	if l.expired() {
		return false
	}
	return len(l.calls) > 0 || len(l.holds) > 0 || l.ofGuest() && !l.over() ||
		l.until-l.client.now > l.ttl/2 && !l.client.cfg.Points.Taken(point.FreshSeat)
}

// over reports whether the belief has ended.
func (l *lease) over() bool { return l.begun && l.client.now >= l.until }

// expired reports whether the belief has ended, and something was lost with it.
func (l *lease) expired() bool {
	told := func(h *Hold) bool { return h.pending == nil }
	// No user's session ends with a hold of fixed length: a caller that waits for one goes on, as in the
	// node's own session (P7).
	goesOn := l.session.Own || l.fixed && l.session.Err() == nil
	return l.over() &&
		(len(l.abandoned) > 0 || l.ofGuest() && l.matters() || !goesOn && len(l.calls) > 0 || slices.ContainsFunc(l.holds, told))
}

// isDone reports whether nothing remains to be done about a call: it was answered, or given up.
func (l *lease) isDone(c *Call) bool { return l.calls[c.number] != c }

// runsOut reports whether the lease is not to be renewed. That is so for one of fixed length with an
// abandoned call: nothing else depends on the lease, and its record ends with it.
func (l *lease) runsOut() bool {
	return l.fixed && len(l.abandoned) > 0
}

// issue gives c a number in the lease, and sends it.
func (l *lease) issue(c *Call) {
	l.put(c)
	l.shard.send(c)
}

// put gives c a number in the lease.
func (l *lease) put(c *Call) {
	if c.Kind == Close {
		l.dropReports()
	}
	l.number++
	c.lease, c.number = l, l.number
	if n := min(len(l.acks), shard.MaxAcked); n > 0 && !l.client.cfg.Points.Taken(point.LateAcks) {
		c.acks = slices.Clone(l.acks[:n])
		l.acks = l.acks[n:]
	}
	l.calls[c.number] = c
	l.open = append(l.open, c)
	if l.renewAt <= l.client.now && l.renewable() {
		l.renew()
	}
}

// remove takes c out of the lease.
func (l *lease) remove(c *Call) {
	delete(l.calls, c.number)
	for _, n := range c.acks { // c may never be applied; a call that was applied has none left
		l.acknowledge(n)
	}
	c.acks = nil
	for len(l.abandoned) > 0 && l.isDone(l.abandoned[0]) {
		l.abandoned = l.abandoned[1:]
	}
}

// settle takes c out of the lease: the table has answered it, and may forget the result.
func (l *lease) settle(c *Call) {
	l.acknowledge(c.number)
	c.acks = nil // the command that carried them is applied
	l.remove(c)
}

// hasCall reports whether there is such a call without a result.
func (l *lease) hasCall(is func(*Call) bool) bool {
	for _, c := range l.calls { // order-free: whether there is one
		if is(c) {
			return true
		}
	}
	return false
}

// inOrder returns the calls without a result, in their order.
func (l *lease) inOrder() []*Call {
	all := make([]*Call, 0, len(l.calls))
	for _, n := range slices.Sorted(maps.Keys(l.calls)) {
		all = append(all, l.calls[n])
	}
	return all
}

// unanswered returns the calls that may have to be sent again, in their order.
func (l *lease) unanswered() []*Call {
	l.open = slices.DeleteFunc(l.open, func(c *Call) bool { return c.queued || c.Use != nil || l.isDone(c) })
	return l.open
}

// sent notes that c goes out for this lease: the belief counts from the first.
func (l *lease) sent(c *Call) {
	now := l.client.now
	if !l.begun {
		l.begun, l.from = true, now
		l.until = now + l.believable(l.ttl)
		l.renewAt = now + l.ttl/3
	}
	if c.Kind == Fix || c.Kind == Report {
		l.lasts = max(l.lasts, now+l.believable(c.Length)) // it may get lost
	}
	l.wakeAt(min(l.renewAt, l.until))
}

// acknowledge remembers to tell the table that it can forget a result (P11).
func (l *lease) acknowledge(number uint64) {
	if i, known := slices.BinarySearch(l.acks, number); !known {
		l.acks = slices.Insert(l.acks, i, number)
	}
}

// granted: the table has granted a Lock.
func (l *lease) granted(c *Call, token, fingerprint uint64) {
	if c.fixing {
		return // a repeated Granted
	}
	if l.isBroken(c.Request.Key, token) {
		l.brokenUnheard(c, token)
		return
	}
	if c.entered == 0 {
		c.entered = token // it never waited: its place is where it was granted
	}
	if c.Hold == nil {
		c.Hold = &Hold{Key: c.Request.Key, Token: token, request: c.Request, vague: c.Request.Claim && fingerprint != c.Request.fingerprint()}
		if c.Request.Claim {
			c.Hold.fingerprint = fingerprint
		}
		l.hold(c.Hold, c)
	}
}

// hold takes a hold of which the table has told, in answer to c.
func (l *lease) hold(h *Hold, c *Call) {
	now := l.client.now
	h.pending = c
	l.insert(h)
	switch {
	case c.Request.MaxHold > 0:
		l.startFixed(c)
	case now >= l.trusted():
		// Too late to be believed as it is; a renewal decides (P6), one for all that come now. It would also confirm what is still to
		// be reported: that comes first (C8).
		if n := len(l.asked); l.reports == 0 && (n == 0 || l.asked[n-1].at != now) {
			l.renew()
		}
	default:
		l.deliver(h)
	}
}

func (l *lease) insert(h *Hold) {
	h.Shard, h.lease, h.fixed = l.shard.shard, l, l.fixed
	h.deadline.Store(int64(l.trusted()))
	i, _ := slices.BinarySearchFunc(l.holds, h.Token, byToken)
	l.holds = slices.Insert(l.holds, i, h)
}

func byToken(h *Hold, token uint64) int { return cmp.Compare(h.Token, token) }

// deliver tells the caller that waits for a hold that it has it.
func (l *lease) deliver(h *Hold) {
	c := h.pending
	h.pending = nil
	l.settle(c)
	if c.Kind == Lock {
		l.client.counters.Grants.Add(1)
	}
	if h.use != nil {
		h.use.had = max(h.use.had, h.Token)
	}
	l.wakeAt(h.Deadline())
	l.client.finish(c, nil)
}

// confirmed: the table has answered a call, with a refusal if err is not nil.
func (l *lease) confirmed(c *Call, err error) {
	c.acks = nil
	l.remove(c)
	switch c.Kind {
	case Lock:
		l.shard.fill(c)
		l.client.finish(c, errorOfClaim(c, err))
		if l.fixed {
			l.close() // its record was for this alone
		}
	case Unlock, Close:
		if c.Hold != nil {
			l.forget(c.Hold)
			if err == nil {
				l.client.counters.Unlocks.Add(1)
			}
			if m, ok := c.Hold.request.done(); ok && err == nil && !c.Failed {
				l.shard.learnMemory(m)
			}
		}
		l.client.finish(c, err)
		if id, ok := c.makes(); ok {
			l.dropUnused(id) // the last handle may have left that to this End
		}
		if c.Kind == Close {
			l.closed()
		}
	case Fix:
		l.fixConfirmed(c, err)
	case Report:
		l.lose(false)
	case Cancel:
		l.cancelled(c)
		l.client.finish(c, err)
	case Drop, Proclaim, Downgrade, Resize, Waive:
		l.client.finish(c, err)
	case Break:
		l.client.finish(c, errorOfBreak(err))
	case Recall:
		if err != nil {
			err = c.unanswered(err) // the key is something else by now
		}
		l.client.finish(c, err)
	case Arrive:
		if err == nil {
			l.shard.learnMemory(c.memory.Memory)
		}
		l.client.finish(c, err)
	case Carry:
		l.carries(c, err)
	}
}

// gone: the table has no record, and never opens one under this number again. If the record was to be
// closed, this says that it is closed, before the Close's own answer.
func (l *lease) gone() {
	if i := slices.IndexFunc(l.unanswered(), func(c *Call) bool { return c.Kind == Close }); i >= 0 {
		l.confirmed(l.open[i], nil)
		return
	}
	l.lose(true)
}

// closed: the table has ended the record, and with it whatever was held or asked for.
func (l *lease) closed() {
	l.shard.withdraw(l)
	for _, c := range l.inOrder() {
		// Every Lock and Fix ended before the Close was sent, and no caller waits for a Cancel.
		switch {
		case c.Kind == Drop, c.Kind == Unlock && c.Hold.use != nil && c.Hold.use.durable:
			l.client.finish(c, fault.ErrUnconfirmed) // a durable use outlives the record
		case c.Kind == Unlock && c.Hold.use == nil && c.Hold.request.Operation != nil && !c.Failed:
			l.client.finish(c, fault.ErrUnconfirmed) // the Close may have come first: then the operation has failed
		case c.Kind == Unlock || c.Kind == Close:
			l.client.finish(c, nil)
		case c.Kind == Proclaim || c.Kind == Downgrade:
			l.client.finish(c, fault.ErrClosed)
		case c.Kind == Recall || c.Kind == Arrive || c.Kind == Resize || c.Kind == Break:
			l.client.finish(c, c.unanswered(fault.ErrClosed))
		}
	}
}

// forget takes a hold out of the lease.
func (l *lease) forget(h *Hold) {
	h.uncount()
	i, _ := slices.BinarySearchFunc(l.holds, h.Token, byToken)
	for ; i < len(l.holds) && l.holds[i].Token == h.Token; i++ {
		if l.holds[i] == h {
			l.holds = slices.Delete(l.holds, i, i+1)
			return
		}
	}
}

// loseHolds ends the belief in every hold of which a caller knows.
func (l *lease) loseHolds() {
	for _, h := range l.holds {
		if h.pending == nil {
			l.client.emit(End{h, fault.ErrLost})
		}
	}
}

// cancel sees to it that a Lock leaves no grant behind: the Cancel is repeated until it is
// answered, and each renewal names it: the lease is not renewed unless the shard can be told
// (P12).
func (l *lease) cancel(c *Call) {
	if l.fixed {
		l.close()
	} else {
		c.Undo = &Call{Kind: Cancel, target: c.number, Request: c.Request, stamp: c.stamp, Owner: c.Owner}
		l.sendAbandoned(c.Undo)
	}
}

// close sees to it in the same way that the record of a lease ends.
func (l *lease) close() {
	l.outlast()
	l.sendAbandoned(&Call{Kind: Close})
}

// sendAbandoned sends a call that no caller waits for.
func (l *lease) sendAbandoned(c *Call) {
	l.issue(c)
	l.abandoned = append(l.abandoned, c)
}

// outlast keeps a lease whose record is to be closed for as long as that record may last:
// until then the Close is repeated, and no fixed time is asked for any more.
func (l *lease) outlast() {
	l.until = max(l.until, l.lasts)
	l.dropFixes(fault.ErrClosed)
}

// lose gives the lease up: its holds are lost, and a Lock that waited in it is asked for anew, in
// a new lease; a user's session ends with it. Gone: the table has no record of it, and never opens
// one under this number again.
func (l *lease) lose(gone bool) {
	c := l.client
	l.shard.withdraw(l)
	if !l.session.Own && !l.fixed && l.endsSession(gone) && l.session.End(fault.ErrLost) {
		c.emit(SessionLost{l.session})
		c.answerGuest(l.session)
	}
	var again []*Call
	if l.session.Err() == nil {
		again = append(l.dropsLeft(), l.dropsUnheard()...)
	}
	if s := l.shard; !gone && l.session.Own && l.mayUse() {
		s.lost = append(s.lost[max(0, len(s.lost)+1-shard.MaxLost):], lostLease{l.id.Number, l.keeps()})
	}
	l.loseHolds()
	l.dropFixes(fault.ErrLost)
	for _, call := range l.inOrder() {
		switch {
		case call.Kind == Lock && l.session.Err() == nil && (gone || !call.fixing):
			if !gone && call.Request.Try {
				c.finish(call, fault.ErrNoQuorum) // it may have been granted: a second Try would be refused because of the first (P16)
			} else {
				again = append(again, call)
			}
		case (call.Kind == Drop || call.Kind == Remember || call.Kind == Recall || call.Kind == Arrive || call.Kind == Carry || call.Kind == Break) && call.Session != nil && l.session.Err() == nil:
			again = append(again, call) // it may be about a use that has no session any more
		case call.Kind == Resize && l.session.Err() == nil && gone && l.neverOpened():
			again = append(again, call)
		case call.Kind == Unlock || call.Kind == Close:
			call.Use = nil
			c.finish(call, fault.ErrUnconfirmed)
		default:
			c.finish(call, call.unanswered(fault.ErrLost))
		}
	}
	for _, call := range again {
		if call.Kind != Recall {
			call.Hold = nil
		}
		call.raw, call.acks, call.fixing, call.Skipped = nil, nil, false, false
		if call.dropped = 0; call.Kind != Remember {
			call.stamp = 0 // it was about a use through this lease
		}
		if call.queued || !call.reports {
			call.entered, call.reports = 0, false // its place is lost with the record
		}
		l.shard.request(call)
	}
}

// endsSession reports whether a user's session, or a guest's, ends with the lease.
func (l *lease) endsSession(gone bool) bool {
	if l.ofGuest() && !gone {
		return l.matters()
	}
	return l.opened != neverShown || len(l.holds) > 0 || l.isHome()
}

// drop ends the lease without telling the shard.
func (l *lease) drop(why error) {
	l.shard.withdraw(l)
	l.loseHolds()
	l.dropFixes(why)
	for _, c := range l.inOrder() {
		if c.Kind == Unlock || c.Kind == Close {
			c.Use = nil
			l.client.finish(c, fault.ErrUnconfirmed)
		} else {
			l.client.finish(c, c.unanswered(why))
		}
	}
}

// finishWaiting finishes every call whose caller waits for a hold, and has none yet.
func (l *lease) finishWaiting(why error) {
	for _, c := range l.inOrder() {
		if c.Kind == Lock || c.Use != nil {
			c.Use = nil
			l.remove(c)
			l.client.finish(c, why)
		}
	}
}

// closeForSession closes the lease of a session that was closed.
func (l *lease) closeForSession() {
	for _, h := range l.holds {
		l.client.emit(Unlocking{h})
		l.client.emit(End{h, fault.ErrClosed})
	}
	l.finishWaiting(fault.ErrClosed)
	l.outlast()
	c := &Call{Kind: Close, Shard: l.shard.shard}
	l.client.emit(Closing{c})
	l.issue(c)
}

// loseForSession gives up the lease of a session that was lost in another shard (P9). Its record
// expires or, if it is of fixed length, is closed.
func (l *lease) loseForSession() {
	if !l.fixed {
		l.drop(fault.ErrLost)
		return
	}
	l.loseHolds()
	for _, h := range l.holds {
		l.client.emit(Unlocking{h})
	}
	l.holds = nil // Leave need not wait for them
	l.dropFixes(fault.ErrLost)
	l.dropReports()
	l.dropDowngrades(fault.ErrLost)
	l.finishWaiting(fault.ErrLost)
	if len(l.calls) == 0 { // else its Close is under way
		l.close()
	}
}

// cancelWaiters cancels every Lock whose caller does not have its hold yet.
func (l *lease) cancelWaiters() {
	for _, c := range l.inOrder() {
		if c.Kind == Lock && !l.isDone(c) {
			l.shard.abandon(c, fault.ErrClosed)
		}
	}
}

// lapse ends the belief in what is held, and gives the lease up. A lease without holds is closed, so that
// its record need not expire; until that is answered it is renewed.
func (l *lease) lapse() {
	if len(l.holds) == 0 && l.opened != neverShown {
		l.issue(&Call{Kind: Close})
	} else {
		l.drop(fault.ErrClosed)
	}
}

// tick does what is due.
func (l *lease) tick() {
	now := l.client.now
	switch {
	case l.expired():
		if c := l.lateFix(); c != nil {
			l.giveUpFixed(c)
		} else {
			l.lose(false)
		}
		return
	case l.begun && now >= l.until && len(l.calls) == 0 && len(l.holds) == 0:
		l.shard.withdraw(l)
		return
	}
	if l.renewable() && now >= l.renewAt {
		l.renew()
	}
	next := l.retry()
	if l.begun {
		if now < l.until {
			next = min(next, l.until)
		}
		if l.renewable() {
			next = min(next, max(l.renewAt, now+time.Millisecond))
		}
	}
	l.wakeAt(next)
}

// retry sends again what had no answer for long, and returns when it is due again.
func (l *lease) retry() (next time.Duration) {
	now := l.client.now
	next = env.Never
	for _, c := range slices.Clone(l.unanswered()) {
		if l.isDone(c) {
			continue // what was done for the one before ended it
		}
		tries := c.Kind == Lock && c.Request.Try
		if tries && now-c.first >= noQuorumAfter {
			l.shard.abandon(c, fault.ErrNoQuorum)
			continue
		}
		if now >= c.retryAt {
			c.repeat()
			l.client.counters.Retries.Add(1)
			l.shard.send(c)
		}
		next = min(next, c.retryAt)
		if tries {
			next = min(next, c.first+noQuorumAfter)
		}
	}
	return next
}
