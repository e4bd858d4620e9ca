package node

import (
	"cmp"
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

// seat is one session in one shard, as the client sees it. Its number is never used
// again: a seat that was lost is replaced by another.
type seat struct {
	desk    *desk
	session *Session
	id      shard.SessionID
	ttl     time.Duration
	single  bool // for one hold of fixed length (P7)

	since   uint64        // the shard's revision, as far as it was known when the seat was made: every command names it (P12)
	opened  uint64        // the lowest revision that showed its record
	until   time.Duration // the end of the belief: from the first sending, or the last confirmed renewal (P6)
	begun   bool          // something was sent
	number  uint64        // of the last call
	calls   map[uint64]*call
	open    []*call       // those of calls that may need another sending
	holds   []*Hold       // by token
	orphans []*call       // calls that nobody waits for, the earliest first; some are answered
	acks    []uint64      // results that the table can forget, ascending: later commands carry them
	claims  []*call       // of fixed time: the first is under way, the others wait for it
	lasts   time.Duration // until when the record may last by what was claimed: longer than is believed (P7)

	renewAt time.Duration // when the next renewal is due
	refs    uint64        // of the last renewal
	after   uint64        // the next answer shall repeat results from behind this one on; zero: from the first that is missed
	asked   []asked       // renewals without an answer, the latest last
	attempt int
	jumps   int
}

// neverShown is a seat's opened if nothing has shown its record.
const neverShown = 1<<64 - 1

type asked struct {
	ref   uint64
	at    time.Duration
	after uint64
}

const maxAsked = 8

func newSeat(d *desk, s *Session) *seat {
	number := d.lane.node.sessionNumber()
	if s.own && d.lane.node.bugs.Has(bug.SeatComesBack) {
		number = 0
	}
	return &seat{
		desk: d, session: s, ttl: s.ttl, since: d.revision, opened: neverShown, calls: make(map[uint64]*call), renewAt: env.Never,
		id: shard.SessionID{Node: d.lane.node.id, Number: number},
	}
}

// believes is for how long a holder may believe in a lease, from the sending of what was
// confirmed: its own clock may be slow and the leader's fast (P1).
func (t *seat) believes(ttl time.Duration) time.Duration {
	rho := t.desk.lane.node.mesh.rho()
	if t.desk.lane.node.bugs.Has(bug.NoRateMargin) {
		return ttl
	}
	return time.Duration(float64(ttl) * (1 - rho) / (1 + rho))
}

// fresh reports whether a new call should still go into this seat. One that lay idle
// until its lease is about to end would lose what it is granted; and from half of it on, the
// leader has logged its silence, and answers its next renewal a log entry later (P5).
func (t *seat) fresh() bool {
	if t.doomed() {
		return false
	}
	return len(t.calls) > 0 || len(t.holds) > 0 ||
		t.until-t.desk.lane.now > t.ttl/2 && !t.desk.lane.node.points.Taken(point.FreshSeat)
}

// doomed reports whether the belief has ended, and something was lost with it.
func (t *seat) doomed() bool {
	until := t.until
	if t.desk.lane.node.bugs.Has(bug.LossToldLate) {
		until += t.ttl
	}
	told := func(h *Hold) bool { return h.pending == nil }
	// No user's session ends with a lock of P7: who waits for one goes on, as in the node's own.
	bugs := t.desk.lane.node.bugs
	goesOn := t.session.own || t.single && t.session.Err() == nil && !bugs.Has(bug.ClaimEndsWithLease)
	return t.begun && t.desk.lane.now >= until &&
		(t.orphan() != nil || !goesOn && len(t.calls) > 0 || slices.ContainsFunc(t.holds, told))
}

// orphan returns the earliest unanswered call that nobody waits for, or nil.
func (t *seat) orphan() *call {
	for len(t.orphans) > 0 && t.calls[t.orphans[0].number] != t.orphans[0] {
		t.orphans = t.orphans[1:]
	}
	if len(t.orphans) == 0 {
		t.orphans = nil
		return nil
	}
	return t.orphans[0]
}

// lapses reports whether the seat is to end, unless its table hears of what was abandoned:
// one for a single hold, since nothing else hangs on it.
func (t *seat) lapses() bool {
	bugs := t.desk.lane.node.bugs
	return t.orphan() != nil && !bugs.Has(bug.OrphansRenewed) && (t.single || bugs.Has(bug.OrphansStarve))
}

// maxOrphanBytes is how many bytes of a seat's orphans a renewal names, the earliest.
const maxOrphanBytes = 32 << 10

// named returns what a renewal says of the seat's orphans: the earliest, as many as it has
// room for, and the others once these are answered. So no session is renewed whose leader
// hears of none of them (P12).
func (t *seat) named() (named []replica.Abandoned) {
	t.orphans = slices.DeleteFunc(t.orphans, func(c *call) bool { return t.calls[c.number] != c })
	if t.desk.lane.node.bugs.Has(bug.OrphansRenewed) {
		return nil
	}
	room := maxOrphanBytes
	for _, c := range t.orphans[:min(len(t.orphans), message.MaxOrphans)] {
		if room -= len(c.raw); room < 0 {
			break
		}
		named = append(named, replica.Abandoned{Command: c.command, Raw: c.raw})
	}
	return named
}

// put gives c a number in the seat.
func (t *seat) put(c *call) {
	t.number++
	c.seat, c.number = t, t.number
	n := min(len(t.acks), shard.MaxAcked)
	if n > 0 && !t.desk.lane.node.points.Taken(point.LateAcks) {
		c.acks = slices.Clone(t.acks[:n])
		t.acks = t.acks[n:]
	}
	t.calls[c.number] = c
	t.open = append(t.open, c)
	if t.renewAt <= t.desk.lane.now && t.renewable() {
		t.renew()
	}
}

// remove takes c out of the seat.
func (t *seat) remove(c *call) {
	delete(t.calls, c.number)
	for _, n := range c.acks { // unless its command is known to be applied
		t.acknowledge(n)
	}
	c.acks = nil
}

// unanswered returns the calls that may have to be sent again, in their order.
func (t *seat) unanswered() []*call {
	t.open = slices.DeleteFunc(t.open, func(c *call) bool { return c.queued || t.calls[c.number] != c })
	return t.open
}

// sent notes that c goes out for this seat: the lease counts from the first.
func (t *seat) sent(c *call) {
	if !t.begun {
		t.begun = true
		t.until = t.desk.lane.now + t.believes(t.ttl)
		t.renewAt = t.desk.lane.now + t.ttl/3
	}
	if c.what == claims {
		end := t.desk.lane.now + t.believes(c.length)
		if !t.desk.lane.node.bugs.Has(bug.ShorterCounts) {
			end = max(end, t.lasts) // it may get lost
		}
		t.lasts = end
	}
	t.desk.wakeAt(min(t.renewAt, t.until))
}

// due sees to it that the lane looks at the seat when its next renewal is due: it may just
// have become renewable.
func (t *seat) due() {
	if t.renewable() && !t.desk.lane.node.bugs.Has(bug.RenewedByChance) {
		t.desk.wakeAt(t.renewAt)
	}
}

// ended: the table has no record, and opens none any more. If it was to be closed, this says
// that it is, before the Close's own answer.
func (t *seat) ended() {
	if i := slices.IndexFunc(t.unanswered(), func(c *call) bool { return c.what == closes }); i >= 0 {
		t.confirmed(t.open[i], nil)
		return
	}
	t.desk.lose(t, true)
}

// acknowledge remembers to tell the table that it can forget a result (P11).
func (t *seat) acknowledge(number uint64) {
	if i, known := slices.BinarySearch(t.acks, number); !known {
		t.acks = slices.Insert(t.acks, i, number)
	}
}

// granted: an acquire holds its key.
func (t *seat) granted(c *call, p message.Result) {
	l := t.desk.lane
	if c.claiming {
		return // told again
	}
	if l.node.bugs.Has(bug.GrantExtendsLease) {
		t.until = max(t.until, l.now+t.believes(t.ttl))
	}
	h := &Hold{key: c.req.Key, token: p.Token, session: t.session, lane: l, shard: t.desk.shard, seat: t}
	h.until.Store(int64(t.until))
	i, known := slices.BinarySearchFunc(t.holds, p.Token, byToken)
	if known {
		return
	}
	t.holds = slices.Insert(t.holds, i, h)
	c.got, h.pending = h, c
	switch {
	case t.single:
		// Its fixed time starts with a claim (P7).
		c.claiming = true
		claim := &call{what: claims, hold: h, length: c.req.MaxHold}
		t.claims = append(t.claims, claim)
		t.claim(claim)
	case l.now >= t.until:
		// Too late to be believed as it is; a renewal decides (P6), one for all that come now.
		if n := len(t.asked); n == 0 || t.asked[n-1].at != l.now {
			t.renew()
		}
	default:
		t.held(c)
	}
}

func byToken(h *Hold, token uint64) int { return cmp.Compare(h.token, token) }

// held tells the caller that it holds its key.
func (t *seat) held(c *call) {
	t.acknowledge(c.number)
	c.acks = nil // the command that carried them is applied
	c.got.pending = nil
	t.remove(c)
	t.desk.lane.node.counts.grants.Add(1)
	t.desk.wakeAt(c.got.deadline())
	t.desk.lane.node.watch.add(c.got)
	c.finish(nil)
}

// confirmed: the table answered a call, with a refusal if err is not nil.
func (t *seat) confirmed(c *call, err error) {
	c.acks = nil
	t.remove(c)
	switch c.what {
	case acquires:
		t.desk.fill(c)
		c.finish(err)
		if t.single && !t.desk.lane.node.bugs.Has(bug.RefusedStay) {
			t.desk.close(t) // its record was for this alone
		}
	case releases, closes:
		if c.hold != nil {
			t.forget(c.hold)
			if err == nil {
				t.desk.lane.node.counts.releases.Add(1)
			}
		}
		c.finish(err)
		if c.what == closes {
			t.closed()
		}
	case claims:
		t.claimed(c, err)
	}
}

// claim sends a claim of fixed time.
func (t *seat) claim(c *call) {
	c.first = t.desk.lane.now
	t.put(c)
	t.desk.send(c)
}

// claimed: the fixed time of a hold counts, from the sending of the claim.
func (t *seat) claimed(c *call, err error) {
	l := t.desk.lane
	waiting := c.hold.pending
	if l.node.bugs.Has(bug.ClaimFromArrival) {
		c.first = l.now
	}
	if err != nil {
		t.desk.lose(t, false) // c among its claims
		return
	}
	until := c.first + t.believes(c.length)
	believed := until
	for _, next := range t.claims {
		if next != c && !l.node.bugs.Has(bug.LongerBelieved) {
			believed = min(believed, l.now+t.believes(next.length))
		}
	}
	if goesOn := c.hold.prolong(believed); waiting == nil && (!goesOn || l.now >= until) && !l.node.bugs.Has(bug.LateClaimStays) {
		t.withdraw(c) // its holder looked at the clock before this answer came, and stopped; or it is over
		return
	}
	if !c.hold.fixed {
		c.hold.fixed = true // before its holder has it: from then on others read it
	}
	t.lasts = l.now + t.believes(c.length)
	if t.claims = slices.DeleteFunc(t.claims, func(o *call) bool { return o == c }); len(t.claims) > 0 && !l.node.bugs.Has(bug.ClaimsTogether) {
		t.claim(t.claims[0])
	}
	t.until = believed // not before the desk and the watch look next: they know the end that was before
	t.renewAt = env.Never
	t.asked = nil // what is said of the session from now on moves nothing
	c.finish(nil)
	if waiting != nil {
		if l.now >= t.until {
			t.desk.lose(t, false)
			return
		}
		t.held(waiting)
	}
}

// withdraw closes the record of a hold that is over for its holder, while the table has,
// or may have, extended it: nothing brings a lost lock back, and the key would be nobody's
// until then. C is the claim under way.
func (t *seat) withdraw(c *call) {
	h := c.hold
	h.end(ErrLost)
	t.dropClaims(ErrLost)
	t.forget(h)
	t.desk.close(t)
}

// outlast keeps a seat whose record is to be closed for as long as that record may last:
// until then the Close is repeated, and no claim any more.
func (t *seat) outlast() {
	if !t.desk.lane.node.bugs.Has(bug.LateClaimStays) {
		t.until = max(t.until, t.lasts)
	}
	t.dropClaims(ErrClosed)
}

// late returns the claim under way of a hold that is over, if its record may last still.
func (t *seat) late() *call {
	if len(t.claims) == 0 || t.desk.lane.node.bugs.Has(bug.LateClaimStays) {
		return nil
	}
	if c := t.claims[0]; c.hold.pending == nil && t.lasts > t.desk.lane.now {
		return c
	}
	return nil
}

// closed: the table has ended the record, and with it whatever was held or asked for.
func (t *seat) closed() {
	t.desk.vacate(t)
	for _, n := range slices.Sorted(maps.Keys(t.calls)) {
		// Acquires and claims ended before the Close was sent, and nobody waits for a Cancel.
		if c := t.calls[n]; c.what == releases || c.what == closes {
			c.finish(nil)
		}
	}
}

func (t *seat) forget(h *Hold) {
	if i, ok := slices.BinarySearchFunc(t.holds, h.token, byToken); ok {
		t.holds = slices.Delete(t.holds, i, i+1)
	}
}

// loseHolds ends every hold of a seat that is given up.
func (t *seat) loseHolds() {
	for _, h := range t.holds {
		if h.pending == nil {
			h.end(ErrLost)
		}
	}
}

// dropClaims fails the claim under way, and those that wait for it.
func (t *seat) dropClaims(why error) {
	for _, c := range t.claims {
		t.remove(c)
		c.finish(why)
	}
	t.claims = nil
}

// renewable reports whether the seat's lease is to be kept: something hangs on it, and it is
// not to lapse.
func (t *seat) renewable() bool {
	unopened := t.opened == neverShown && !t.desk.lane.node.bugs.Has(bug.OldUnknownEnds)
	if unopened || t.lapses() || len(t.calls) == 0 && len(t.holds) == 0 {
		return false
	}
	return len(t.holds) == 0 || !t.holds[0].fixed
}

// renew asks the leader to confirm that the session lives.
func (t *seat) renew() {
	d := t.desk
	l := d.lane
	t.refs++
	l.node.counts.renewals.Add(1)
	if len(t.asked) == maxAsked {
		t.asked = slices.Delete(t.asked, 0, 1)
	}
	if next := t.misses(0); t.after == 0 && next > 0 {
		t.after = next - 1
	}
	t.asked = append(t.asked, asked{t.refs, l.now, t.after})
	t.renewAt = l.now + min(max(t.ttl/12, 100*time.Millisecond), time.Second)
	d.wakeAt(t.renewAt)
	to, relay := d.target(t.attempt)
	t.attempt++
	class := transport.Urgent
	if l.node.bugs.Has(bug.RenewalsInLine) {
		class = transport.Normal
	}
	q := message.Renewal{Session: t.id, Ref: t.refs, After: t.after, Relay: relay, Orphans: t.named()}
	switch to {
	case 0:
	case l.node.id:
		own := q
		l.local = append(l.local, letter{d.shard, &own})
	default:
		l.say(to, class, d.shard, &q)
	}
}

// answered takes the word of a confirmed leader. It counts from the sending of the
// question (P1); "unknown" says nothing of a record that was opened after its revision (P13).
func (t *seat) answered(a message.Answer) {
	l := t.desk.lane
	i := slices.IndexFunc(t.asked, func(q asked) bool { return q.ref == a.Ref })
	if l.node.bugs.Has(bug.AnswersCountForLatest) {
		i = len(t.asked) - 1
	}
	if i < 0 {
		return
	}
	at, after := t.asked[i].at, t.asked[i].after
	t.asked = slices.Delete(t.asked, 0, i+1)
	t.attempt, t.jumps = 0, 0
	if !a.Alive {
		if a.Revision >= t.opened || l.node.bugs.Has(bug.OldUnknownEnds) {
			t.ended()
		}
		return
	}
	if slices.ContainsFunc(t.holds, (*Hold).isLost) {
		// Its holder looked at the clock before this answer came, and stopped: nothing
		// brings a lost lock back, and renewing the seat would keep its key for nobody.
		t.desk.lose(t, false)
		return
	}
	believed := at + t.believes(t.ttl)
	if l.node.bugs.Has(bug.LeaseFromArrival) {
		believed = l.now + t.ttl
	}
	t.until = max(t.until, believed)
	t.renewAt = max(at+t.ttl/3, l.now)
	for _, h := range t.holds {
		// Also those that were granted after the answer was formed: a seat's number
		// opens one record ever, and that one lives for a TTL from the question on,
		// with all that it is granted meanwhile.
		if !h.fixed {
			h.extend(believed)
		}
	}
	for _, p := range a.Results {
		t.desk.replied(p)
		if t.desk.by[t.id.Number] != t {
			return
		}
	}
	if after == t.after { // else another answer has got further
		t.goOn(a)
	}
	// Grants that came too late to be believed are believed now.
	for _, h := range slices.Clone(t.holds) {
		if c := h.pending; c != nil && !c.claiming && l.now < h.deadline() {
			t.held(c)
		}
	}
	t.desk.wakeAt(min(t.renewAt, t.until))
}

// goOn asks for what a's results are followed by, at once, if something is missed that may be
// among it. Each question goes further than the one before, so that they come to an end.
func (t *seat) goOn(a message.Answer) {
	asked := t.after
	t.after = 0
	if !a.More || len(a.Results) == 0 {
		return
	}
	last := a.Results[len(a.Results)-1].Number
	next := t.misses(last)
	if last <= asked || next == 0 {
		return
	}
	t.after = next - 1
	if t.renewable() && !t.desk.lane.node.bugs.Has(bug.MoreUnasked) {
		if t.desk.through != 0 {
			t.attempt = 1 // the way by which this answer came (P15)
		}
		t.renew()
	}
}

// misses returns the lowest number above after of a call without a result, or zero.
func (t *seat) misses(after uint64) (least uint64) {
	for n, c := range t.calls { // order-free: the lowest is sought
		if n > after && c.got == nil && (least == 0 || n < least) {
			least = n
		}
	}
	return least
}

// tick does what the time asks of this seat.
func (t *seat) tick() {
	d := t.desk
	now := d.lane.now
	switch {
	case t.doomed():
		if c := t.late(); c != nil {
			t.withdraw(c)
		} else {
			d.lose(t, false)
		}
		return
	case t.begun && now >= t.until && len(t.calls) == 0 && len(t.holds) == 0:
		d.vacate(t)
		return
	}
	if t.renewable() && now >= t.renewAt {
		t.renew()
	}
	next := env.Never
	for _, c := range slices.Clone(t.unanswered()) {
		if t.calls[c.number] != c {
			continue // what was done for the one before ended it
		}
		if c.what == acquires && c.req.Try && now-c.first >= 2*replica.ElectionTimeout {
			d.abandon(c, ErrNoQuorum)
			continue
		}
		if now >= c.retryAt {
			c.attempt++
			c.jumps = 0
			d.lane.node.counts.retries.Add(1)
			d.send(c)
		}
		next = min(next, c.retryAt)
		if c.what == acquires && c.req.Try {
			next = min(next, c.first+2*replica.ElectionTimeout)
		}
	}
	if t.begun {
		if now < t.until {
			next = min(next, t.until)
		}
		if t.renewable() {
			next = min(next, max(t.renewAt, now+time.Millisecond))
		}
	}
	d.wakeAt(next)
}
