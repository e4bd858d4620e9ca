package client

import (
	"slices"
	"time"

	"github.com/lockmesh/mesh/internal/message"
	"github.com/lockmesh/mesh/internal/replica"
)

const (
	maxAsked          = 8        // renewals that may be without an answer
	maxAbandonedBytes = 32 << 10 // how many bytes of abandoned commands a renewal names, the earliest
)

// renewable reports whether the lease is to be renewed: its record was shown, something depends
// on it, and it is not to run out. On that of a guest depends what an earlier node has asked for.
func (l *lease) renewable() bool {
	if l.reports > 0 || l.opened == neverShown || l.runsOut() || l.silent() || len(l.calls) == 0 && len(l.holds) == 0 && !l.carried {
		return false
	}
	return len(l.holds) == 0 || !l.holds[0].timed
}

// renewSoon sees to it that a Tick comes when the next renewal is due: the lease may just
// have become renewable.
func (l *lease) renewSoon() {
	if l.renewable() {
		l.wakeAt(l.renewAt)
	}
}

// renew asks the leader to confirm that the session lives.
func (l *lease) renew() {
	c := l.client
	l.refs++
	c.counters.Renewals.Add(1)
	if len(l.asked) == maxAsked {
		l.asked = slices.Delete(l.asked, 0, 1)
	}
	if next := l.missing(0); l.after == 0 && next > 0 {
		l.after = next - 1
	}
	l.asked = append(l.asked, question{l.refs, c.now, l.after})
	l.renewAt = c.now + min(max(l.ttl/12, 100*time.Millisecond), time.Second)
	l.wakeAt(l.renewAt)
	to, relay := l.shard.route(l.attempt)
	l.attempt++
	q := &message.Renewal{
		Renewal: replica.Renewal{Session: l.id, Ref: l.refs, After: l.after, Abandoned: l.named()}, Generation: l.shard.generation, Relay: relay,
	}
	if to != 0 {
		l.shard.post(to, q)
	}
}

// named returns what a renewal says of the abandoned calls: the earliest, as many as it has
// room for, and the others once these are answered. So a session is renewed only if its leader
// has heard of the earliest of them (P12).
func (l *lease) named() (named []replica.Abandoned) {
	l.abandoned = slices.DeleteFunc(l.abandoned, l.isDone)
	room := maxAbandonedBytes
	for _, c := range l.abandoned[:min(len(l.abandoned), message.MaxAbandoned)] {
		if room -= len(c.raw); room < 0 {
			break
		}
		named = append(named, replica.Abandoned{Command: c.command, Raw: c.raw})
	}
	return named
}

// redirected: a renewal reached a node that does not lead. News: it said which does.
func (l *lease) redirected(news bool) {
	if news {
		l.attempt = 0
	}
	if l.jumps++; l.jumps <= maxJumps && news && l.renewable() {
		l.renew()
	}
}

// answered handles the answer of a confirmed leader. It counts from the sending of the
// question (P1); "unknown" says nothing of a record that was opened after its revision (P13). An answer that nobody asked for says
// which grants are broken (P49).
func (l *lease) answered(a message.Answer) {
	l.hearBreaches(a)
	q, ok := l.question(a.Ref)
	if !ok {
		return
	}
	l.tries = tries{}
	if !a.Alive {
		if a.Revision >= l.opened {
			l.gone()
		}
		return
	}
	if slices.ContainsFunc(l.holds, (*Hold).lost) {
		// Its holder looked at the clock before this answer came, and stopped: nothing
		// brings a lost lock back, and renewing the lease would keep its key for nothing.
		l.lose(false)
		return
	}
	due := l.renewAt
	l.alive = max(l.alive, q.ref)
	if l.extendTo(q.at); l.unconfirmed() {
		if l.renewAt = min(l.renewAt, due); l.refs < l.wanted {
			l.renewAt = l.client.now // it was put off until now
		}
	}
	for _, e := range a.Results {
		l.shard.replied(e, a.Revision)
		if !l.kept() {
			return
		}
	}
	if q.after == l.after { // else another answer has got further
		l.goOn(a)
	}
	// Grants that came too late to be believed are believed now.
	for _, h := range slices.Clone(l.holds) {
		if c := h.pending; c != nil && !c.fixing && l.client.now < h.Deadline() {
			l.deliver(h)
		}
	}
	l.client.answerGuest(l.session)
	l.wakeAt(min(l.renewAt, l.until))
}

// question takes the question with this number out of those without an answer, and the earlier
// ones with it.
func (l *lease) question(ref uint64) (q question, ok bool) {
	i := slices.IndexFunc(l.asked, func(q question) bool { return q.ref == ref })
	if i < 0 {
		return question{}, false
	}
	q = l.asked[i]
	l.asked = slices.Delete(l.asked, 0, i+1)
	return q, true
}

// extendTo moves the belief on: the session lived when the question was sent.
func (l *lease) extendTo(sent time.Duration) {
	c := l.client
	until := sent + l.believable(l.ttl)
	l.from, l.until = max(l.from, sent), max(l.until, until)
	l.renewAt = max(sent+l.ttl/3, c.now)
	for _, h := range l.holds {
		// Also those that were granted after the answer was formed: a lease's number
		// opens one record ever, and that one lives for a TTL from the question on,
		// with all that it is granted meanwhile.
		if !h.timed && !h.broken && until > h.Deadline() {
			h.deadline.Store(int64(until))
			c.emit(Extended{h})
		}
	}
}

// goOn asks at once for the results after a's last one, if there are more and a call still misses its
// result. Each question goes further than the one before, so that they come to an end.
func (l *lease) goOn(a message.Answer) {
	asked := l.after
	l.after = 0
	if !a.More || len(a.Results) == 0 {
		return
	}
	last := a.Results[len(a.Results)-1].Number
	next := l.missing(last)
	if last <= asked || next == 0 {
		return
	}
	l.after = next - 1
	if l.renewable() {
		if l.shard.relay != 0 {
			l.attempt = 1 // the way by which this answer came (P15)
		}
		l.renew()
	}
}

// missing returns the lowest number above after of a call without a result, or zero.
func (l *lease) missing(after uint64) (least uint64) {
	for n, c := range l.calls { // order-free: the lowest is sought
		if n > after && (c.Kind != Lock || c.Hold == nil) && c.Use == nil && (least == 0 || n < least) {
			least = n
		}
	}
	return least
}
