package client

import (
	"cmp"
	"slices"
	"time"

	"github.com/lockmesh/mesh/internal/env"
	"github.com/lockmesh/mesh/internal/fault"
	"github.com/lockmesh/mesh/internal/message"
	"github.com/lockmesh/mesh/internal/point"
	"github.com/lockmesh/mesh/internal/replica"
	"github.com/lockmesh/mesh/shard"
)

// shardClient asks for the keys of one shard: it finds the shard's leader, and keeps the leases
// that this node's sessions have there.
type shardClient struct {
	client     *Client
	shard      int
	generation uint64        // the one that the shard lives in, as far as the client knows
	earlier    shard.Earlier // what reports say of the generations before it: Known and Quiet
	quietUntil time.Duration // when all leases of the generations before it are over

	leader   uint64        // the node that is believed to lead; zero: unknown
	term     uint64        // the latest in which a node is known to have led
	relay    uint64        // the node that relayed the leader's last message; zero: none did (P15)
	revision uint64        // the highest that an answer named in this generation (P12)
	heard    time.Duration // when a leader's last message came
	leases   []*lease
	byNumber map[uint64]*lease // by their numbers
	current  map[*Session]*lease
	asks     []*Call     // questions without an answer
	memories []memory    // what the table remembers, as far as the client knows: the latest last
	watches  []*watch    // elections with observers
	lost     []lostLease // the latest leases of the node's own session that had uses, and were given up: the table may have their records
}

// Repeating what was not answered: soon at first, then less and less often.
const (
	firstRetry   = 200 * time.Millisecond
	longestRetry = 1600 * time.Millisecond
	maxJumps     = 8 // redirects that are followed at once
)

// tries counts how often something was sent. Route goes by it.
type tries struct {
	attempt int
	jumps   int // redirects that were followed since the last retry
}

// repeat: there was no answer for long.
func (t *tries) repeat() { t.attempt, t.jumps = t.attempt+1, 0 }

// jump: what was sent reached a node that does not lead. News: it said which does. Jump reports whether to send again at once; if not, the retry
// timer goes on.
func (t *tries) jump(news bool) bool {
	if t.jumps++; t.jumps > maxJumps {
		return false
	}
	if t.attempt++; news { // else another node may know
		t.attempt = 0
	}
	return true
}

// noQuorumAfter is how long a request may stay unanswered before the shard counts as having no majority.
const noQuorumAfter = 2 * replica.ElectionTimeout

func newShardClient(c *Client, number int) *shardClient {
	return &shardClient{
		client: c, shard: number, generation: c.cfg.Generation, byNumber: make(map[uint64]*lease), current: make(map[*Session]*lease),
	}
}

// leaseFor returns the lease that a call goes into. A Lock of fixed length has a lease of its own.
func (s *shardClient) leaseFor(c *Call) *lease {
	l, fixed := s.current[c.Session], c.Request.alone()
	if fixed || l == nil || !l.fresh() {
		if l = s.newLease(c.Session, fixed); l.ofGuest() {
			l.carriesFirst()
		}
	}
	return l
}

func (s *shardClient) lock(c *Call) {
	s.client.counters.Locks.Add(1)
	c.reports = c.Request.Held != 0
	s.client.watchFor(c)
	s.request(c)
}

// request sends a call under a new number, in a lease of its session.
func (s *shardClient) request(c *Call) { s.requestIn(s.leaseFor(c), c) }

func (s *shardClient) requestIn(l *lease, c *Call) {
	if c.first == 0 {
		c.first = s.client.now
	}
	c.queued, c.attempt = false, 0
	l.issue(c)
}

// command returns the command that a call sends.
func (s *shardClient) command(c *Call) shard.Command {
	l, name := c.lease, s.client.cfg.Name
	base := shard.Call{Session: l.id, Number: c.number, Since: l.since, Acked: c.acks}
	switch c.Kind {
	case Lock:
		q := &c.Request
		switch {
		case c.reports:
			return s.report(c, base)
		case q.Claim:
			return shard.Claim{Call: base, Key: q.Key, Tag: q.Tag}
		case q.Operation != nil:
			return q.within(shard.Begin{Call: base, TTL: l.ttl, Name: name, Key: q.Key, Operation: *q.Operation})
		}
		a := shard.Acquire{Call: base, TTL: l.ttl, Name: name, Key: q.Key, Kind: q.kind(), Try: q.Try, Value: q.Value}
		a.Weight, a.Capacity = q.Share()
		return q.within(a)
	case Cancel:
		return shard.Cancel{Call: base, TTL: l.ttl, Name: name, Target: c.target}
	case Unlock:
		switch h := c.Hold; {
		case h.use != nil:
			return l.drops(c, base, h.use.useID)
		case h.request.Operation != nil:
			return shard.End{Call: base, Key: h.Key, Token: h.Token, Failed: c.Failed}
		}
		return shard.Release{Call: base, Key: c.Hold.Key, Token: c.Hold.Token}
	case Remember:
		return shard.Remember{Call: base, TTL: l.ttl, Name: name, Key: c.Request.Key, User: c.Request.Operation.User, Stamp: c.stamp, Several: c.several}
	case Recall, Arrive:
		return l.tells(c, base)
	case Drop:
		return l.drops(c, base, c.Request.use())
	case Proclaim:
		return c.proclamation(base)
	case Downgrade:
		return shard.Downgrade{Call: base, Key: c.Hold.Key, Token: c.Hold.Token}
	case Resize:
		return l.resizing(c, base)
	case Break:
		return l.breaking(c, base)
	case Waive:
		return shard.Release{Call: base, Key: c.Request.Key, Token: c.Grant}
	case Fix:
		return shard.Fix{Call: base, Key: c.Hold.Key, Token: c.Hold.Token, Hold: c.Length}
	case Report:
		return s.report(c, base)
	case Carry:
		return l.carryOf(c, base)
	}
	return shard.Close{Session: l.id, Number: c.number}
}

// send sends a call, for the first time or again.
func (s *shardClient) send(c *Call) {
	if c.raw == nil || c.ages(s.client.now) {
		c.command = s.command(c)
		c.raw = shard.AppendCommand(make([]byte, 0, 96+len(c.Request.Key)+len(c.Request.Value)), c.command)
	}
	c.lease.sent(c)
	s.pause(c)
	if to, relay := s.route(c.attempt); to != 0 && !c.lease.defers(c) {
		s.post(to, &message.Request{Generation: s.generation, Relay: relay, Command: c.command, Raw: c.raw})
	}
}

// pause sets when a call is sent again.
func (s *shardClient) pause(c *Call) {
	c.retryAt = s.client.now + s.delay(c.attempt)
	if c.lease == nil {
		s.client.wakeAt(c.retryAt) // of a question
	} else {
		c.lease.wakeAt(c.retryAt)
	}
}

// delay returns after how long an attempt is followed by another one.
func (s *shardClient) delay(attempt int) time.Duration {
	pause := min(firstRetry<<min(attempt, 3), longestRetry)
	return pause/2 + time.Duration(s.client.cfg.Rand.Int64N(int64(pause/2)+1))
}

// post leaves a message for a node in the output.
func (s *shardClient) post(to uint64, m message.Message) {
	s.client.out.Sends = append(s.client.out.Sends, Send{To: to, Shard: s.shard, Message: m})
}

// route returns where an attempt goes, and whether the receiver is asked to relay it (P15). Zero:
// nowhere.
//
//	attempt     goes to                                            relayed
//	0           the leader, if it is known, else the first target  no
//	1, 5, 9 …   the relay, if there is one                         yes
//	1           else the leader, if it is known, else a member     no
//	2, 4, 6 …   the next target, or member if there is none        yes
//	3, 5, 7 …   the next member, unless the relay has it           yes
func (s *shardClient) route(attempt int) (to uint64, relay bool) {
	cfg := &s.client.cfg
	if cfg.Points.Taken(point.ForgetLeader) {
		s.leader = 0
	}
	if cfg.Points.Taken(point.HastyRelay) {
		attempt += 2
	}
	switch {
	case attempt%4 == 1 && s.relay != 0:
		// Again and again: what went this way may have been lost, and most others know no
		// better one.
		return s.relay, true
	case attempt < 2 && s.leader != 0:
		return s.leader, false
	}
	// Every other attempt goes to a node that should have a replica, however many others there
	// are: a renewal that has to ask them all comes too late.
	from, n := s.client.view.Core, attempt/2
	if s.relay != 0 && attempt%2 == 1 {
		n = attempt / 4 // the relay had the others
	}
	if target := s.client.view.target(s.shard); attempt%2 == 0 && len(target) > 0 {
		from = target
	}
	if len(from) == 0 {
		return 0, false
	}
	return from[n%len(from)].Node, attempt >= 2
}

// learn notes the revision that an answer of the leader names.
func (s *shardClient) learn(revision uint64) {
	s.revision = max(s.revision, revision)
	s.heard = s.client.now
}

// follow accepts a node as the leader, unless a leader of a later term is known. It reports whether
// it did.
func (s *shardClient) follow(o message.Leadership) bool {
	if o.Leader == 0 || o.Term < s.term {
		return false
	}
	s.leader, s.term = o.Leader, max(s.term, o.Term)
	return true
}

// spoke: a leader's message came from a node. If that is not the leader, it has relayed the message,
// and may do so again (P15).
func (s *shardClient) spoke(from uint64, o message.Leadership) {
	switch {
	case !s.follow(o):
	case from == o.Leader:
		s.relay = 0
	default:
		s.relay = from
	}
}

// replied handles what a leader says of a call, at a revision of the shard.
func (s *shardClient) replied(e shard.Event, revision uint64) {
	s.learn(revision)
	l := s.byNumber[e.Session.Number]
	if l == nil {
		return
	}
	if e.What != shard.Refused || e.Reason != shard.Reopen && e.Reason != shard.Behind && e.Reason != shard.Lost {
		l.opened = min(l.opened, revision)
	}
	defer l.renewSoon() // its record was shown, or what kept it from being renewed is answered
	c := l.calls[e.Number]
	if c != nil && c.ends() != (tag{}) {
		defer l.sendNext(c.ends())
	}
	if c == nil {
		l.acknowledge(e.Number) // of a call that was abandoned, or told twice
		l.skippedInVain(e)
		return
	}
	switch e.What {
	case shard.Queued:
		c.queued, c.retryAt, c.acks, c.entered = true, env.Never, nil, e.Entered
		c.Info.Queued, c.Info.Ahead, c.Info.Holder, c.Info.Token = true, e.Ahead, e.Holder, e.Token
		c.quietUntil = s.client.now + e.Quiet
		if c.Request.Tag != "" {
			s.client.emit(Placed{c})
		}
		l.recount(c)
	case shard.Granted:
		switch c.Kind {
		case Lock:
			if l.granted(c, e.Token, e.Entered); c.Hold != nil {
				c.Hold.capacity = e.Capacity
			}
			l.recount(c)
		case Report:
			l.resumed(c)
		}
	case shard.Skipped:
		if c.Kind == Lock {
			l.skipped(c, e)
		}
	case shard.Done:
		switch {
		case c.Kind == Lock && c.Request.Claim:
			l.claimed(c, e.Token)
		case c.Kind == Lock:
			s.abandon(c, fault.ErrLost) // nothing grants it any more
		case c.Kind == Unlock && e.Token != 0:
			l.pulled(c, e.Token)
		default:
			c.stamp = max(c.stamp, e.Token)
			c.Info.Ahead, c.quietUntil = e.Ahead, s.client.now+e.Quiet // of a Carry
			if c.Kind == Carry && e.Entered > 0 {
				l.owing = max(l.owing, revision)
			}
			l.acknowledge(e.Number)
			l.confirmed(c, nil)
		}
	case shard.Refused:
		s.refused(c, e, revision)
	}
}

func (s *shardClient) refused(c *Call, e shard.Event, revision uint64) {
	l := c.lease
	switch {
	case e.Reason == shard.Reopen && l.reopens(c, revision):
		return
	case e.Reason == shard.Late && c.Kind == Lock && c.Request.Held == 0:
		s.requestAnew(c) // it has lost its place
		return
	case e.Reason == shard.Reopen && (l.opened == neverShown || revision >= l.opened):
		// The record is gone, or never was. Its number is never used again: what this
		// lease asked for may have happened under it.
		l.gone()
		return
	case e.Reason == shard.Reopen || e.Reason == shard.Behind:
		return // an old answer, or Behind, which cannot concern this lease: its commands all carry one Since (P12)
	case e.Reason == shard.Broke:
		l.refusedAsBroken(c, e.Token)
		return
	}
	l.acknowledge(e.Number)
	c.Info.Holder, c.Info.Token, c.Now = e.Holder, e.Token, e.Capacity
	c.quietUntil = s.client.now + e.Quiet
	l.confirmed(c, errorOf(e.Reason))
}

// requestAnew asks for a Lock under another number, since nothing holds that was said of it.
func (s *shardClient) requestAnew(c *Call) {
	l := c.lease
	l.settle(c)
	l.open = slices.DeleteFunc(l.open, func(o *Call) bool { return o == c })
	c.reports, c.entered, c.raw = false, 0, nil
	s.requestIn(l, c)
}

// errorOf returns the error by which a caller learns why it was refused.
func errorOf(r shard.Reason) error {
	switch r {
	case shard.Locked:
		return fault.ErrLocked
	case shard.Quiet:
		return fault.ErrQuiet
	case shard.Capacity:
		return fault.ErrCapacity
	case shard.Crowded:
		return fault.ErrTooManyWaiters
	case shard.InUse:
		return fault.ErrInUse
	case shard.Failed:
		return fault.ErrFailed
	case shard.Broke:
		return fault.ErrBroken
	}
	return fault.ErrLost
}

// answered handles a confirmed leader's answer to a renewal.
func (s *shardClient) answered(a message.Answer) {
	s.learn(a.Revision)
	if l := s.byNumber[a.Session.Number]; l != nil {
		l.answered(a)
	}
}

// redirected: a call or a renewal reached a node that does not lead.
func (s *shardClient) redirected(from uint64, r message.Redirect) {
	l, asked, watched := s.byNumber[r.Session], s.asked(r), s.watchAsked(r)
	if l == nil && asked == nil && watched == nil {
		return
	}
	led := s.leader == from
	news := s.follow(r.Leadership)
	switch {
	case news && led:
		s.relay = from // it knows which node leads now
	case r.Leader == 0 && s.relay == from:
		s.relay = 0
	}
	if r.Leader == 0 && led {
		s.leader = 0
	}
	switch {
	case watched != nil:
		if watched.jump(news) {
			s.sendWatch(watched)
		}
	case asked != nil:
		if asked.jump(news) {
			s.sendAsk(asked)
		}
	case r.Number == 0:
		l.redirected(news)
	default:
		if c := l.calls[r.Number]; c != nil && !c.queued && c.jump(news) {
			s.send(c)
		}
	}
}

// served: a new leader serves. What was not answered goes to it at once, and so does a
// renewal of every lease: its answer repeats what got lost with the old leader.
func (s *shardClient) served(by message.Leadership) {
	if !s.follow(by) {
		return // late: it does not lead any more
	}
	for _, l := range slices.Clone(s.leases) {
		for _, c := range l.unanswered() {
			c.tries = tries{}
			s.send(c)
		}
		if l.renewable() {
			l.tries = tries{}
			l.renew()
		}
	}
	s.askAgain()
	s.watchAnew(false)
}

// nodeGone: no process answers for the node any more, as leader or as relay.
func (s *shardClient) nodeGone(node uint64) {
	if s.leader == node {
		s.leader = 0
	}
	if s.relay == node {
		s.relay = 0
	}
}

// abandon: the caller of c does not wait any more.
func (s *shardClient) abandon(c *Call, cause error) {
	l := c.lease
	switch {
	case c.over:
	case c.Kind == Carry:
		s.client.finish(c, cause)
		l.abandonCarry(c)
	case c.Kind == Hear, c.Kind == Confirm:
		s.client.finish(c, cause)
		s.client.answerGuest(c.Session)
	case c.Kind == Ask:
		s.asks = slices.DeleteFunc(s.asks, func(o *Call) bool { return o == c })
		s.client.finish(c, cause)
	case l == nil: // it was never sent
		if c.Kind == Fix {
			c.Hold.lease.forgetFix(c) // which waits for another one
		}
		s.client.finish(c, cause)
	case c.Kind == Lock:
		s.fill(c)
		l.remove(c)
		if c.Hold != nil {
			l.forget(c.Hold)
		}
		s.client.finish(c, cause)
		l.cancel(c)
	case c.Kind == Proclaim: // it is not sent again; if it has arrived, the others are told of it
		l.remove(c)
		s.client.finish(c, cause)
	case c.Kind == Fix:
		s.client.finish(c, cause) // its answer still counts for the hold
	case c.Use != nil:
		l.giveUp(c, nil)
	case c.Kind == Recall:
		c.leaves = true // it goes on
	case c.Kind == Arrive || c.Kind == Resize || c.Kind == Break:
		l.remove(c)
		s.client.finish(c, fault.ErrUnconfirmed)
	default:
		c.leaves = true
		l.abandoned = append(l.abandoned, c)
	}
}

// fill notes in c what is known of the shard: its leader, for how long it is quiet, and whether it seems
// to have a majority. It does not if for 2·E there was no answer: for a queued call, to the oldest renewal of its lease; for
// another, to any call since it was first sent.
func (s *shardClient) fill(c *Call) {
	asked := max(s.heard, c.first)
	if c.queued {
		asked = s.client.now
		if len(c.lease.asked) > 0 {
			asked = c.lease.asked[0].at
		}
	}
	c.Info.Quorum = s.client.now-asked < noQuorumAfter
	c.Info.Quiet = max(0, c.quietUntil-s.client.now)
	c.Info.Leader = cmp.Or(s.client.view.name(s.leader), c.Info.Leader)
}

// unlock sends an Unlock. Its caller's belief has ended already.
func (s *shardClient) unlock(c *Call) {
	l := c.Hold.lease
	if c.Hold.unreported {
		// The shard's table does not know of it (C8).
		if _, ok := c.makes(); ok {
			s.client.finish(c, fault.ErrLost) // another one may pull
			return
		}
		s.client.counters.Unlocks.Add(1)
		s.client.finish(c, nil)
		return
	}
	if !l.kept() {
		// The lease ended between the caller's look at the clock and now, or the
		// node is closing: the record expires, and what it held is free.
		s.client.finish(c, fault.ErrUnconfirmed)
		return
	}
	if c.Hold.use != nil && !l.unuse(c) {
		l.forget(c.Hold)
		s.client.finish(c, nil)
		return
	}
	if c.Hold.broken && l.ofGuest() {
		l.session.waived(s.shard, shard.Breach{Key: c.Hold.Key, Token: c.Hold.Token})
	}
	if l.fixed {
		c.Kind = Close // its record goes with its one hold
		l.outlast()
	}
	l.issue(c)
}

// withdraw takes a lease out of the client.
func (s *shardClient) withdraw(l *lease) {
	delete(s.byNumber, l.id.Number)
	if s.current[l.session] == l {
		delete(s.current, l.session)
	}
	if i := slices.Index(s.leases, l); i >= 0 {
		s.leases = slices.Delete(s.leases, i, i+1)
	}
	if l.ofGuest() {
		l.session.leases = slices.DeleteFunc(l.session.leases, func(o *lease) bool { return o == l })
	}
}
