package replica

import (
	"slices"
	"time"

	"github.com/lockmesh/mesh/internal/env"
	"github.com/lockmesh/mesh/shard"
)

// unlogged is how much silence a leader that hands over keeps to itself.
const unlogged = ElectionTimeout / 2

// leases are a serving leader's clocks of all sessions that have a record in its table. They are
// told what was heard and what the table did, and say which sessions' silence is to be logged, and which
// leases are over.
type leases struct {
	byID  map[shard.SessionID]*lease
	next  time.Duration  // no lease needs a look before; a lower bound
	watch func(fact any) // see Config
}

// lease is what a serving leader knows of a session's life. Times are the leader's.
type lease struct {
	id         shard.SessionID
	ttl        time.Duration
	fixed      bool          // a Fix set its end: nothing else that the session says moves it (P7)
	heard      time.Duration // when it last spoke, or this leader began to serve
	last       time.Duration // when it last spoke, which no stall moves; zero: it has not since this leader serves
	before     time.Duration // how long it had been silent by heard, as the log says (P5)
	excused    bool          // a stall has moved its end since: see stalled
	recalled   bool          // a Silent of zero is on its way
	checkpoint time.Duration // the silence that was logged last, or is about to be; zero: none, or it was heard again
	awaiting   []Renewal     // to be answered when that is applied
	asked      time.Duration // when a round for its expiry began; zero: none did
	expiring   bool          // an Expire is in the log, or about to be (P4)
	fixNumber  uint64        // the number of the Fix that is under way, or was the last: see fixing
}

// newLeases returns no leases. Watch is told of each sign of life; it may be nil.
func newLeases(watch func(fact any)) leases {
	return leases{byID: make(map[shard.SessionID]*lease), next: never, watch: watch}
}

func (ls *leases) spoke(l *lease) {
	if ls.watch != nil {
		ls.watch(env.Heard{Session: l.id, TTL: l.ttl})
	}
}

// inherit starts the lease of a session that had a record before this leader served. It starts
// afresh, but for the silence that was checkpointed (P5).
func (ls *leases) inherit(s shard.Lease, now time.Duration, rho float64) {
	l := ls.start(s.Session, s.TTL, now)
	l.fixed = s.Fixed
	if s.Silent > 0 {
		l.checkpoint = s.Silent
		l.before = time.Duration(float64(s.Silent) * (1 - 2*rho))
	}
}

// open starts the lease of a session that has a record from now on.
func (ls *leases) open(id shard.SessionID, ttl, now time.Duration) {
	l := ls.start(id, ttl, now)
	l.last = now
	ls.spoke(l)
}

// unheard returns for how long a session has said nothing, or MaxDuration if it has not since this leader serves.
func (ls *leases) unheard(id shard.SessionID, now time.Duration) time.Duration {
	if l := ls.byID[id]; l != nil && l.last != 0 {
		return min(now-l.last, shard.MaxDuration)
	}
	return shard.MaxDuration
}

func (ls *leases) start(id shard.SessionID, ttl, now time.Duration) *lease {
	l := &lease{id: id, ttl: ttl, heard: now}
	ls.byID[id] = l
	ls.reviewAt(now)
	return l
}

// end forgets a session whose record is gone.
func (ls *leases) end(id shard.SessionID) { delete(ls.byID, id) }

// reviewAt makes the next review due by then.
func (ls *leases) reviewAt(at time.Duration) { ls.next = min(ls.next, at) }

// hear notes that a session spoke, and reports whether its leader still listens to it: not from
// the append of its Expire on (P4).
func (ls *leases) hear(id shard.SessionID, now time.Duration) bool {
	l := ls.byID[id]
	switch {
	case l == nil:
		return true
	case l.expiring:
		return false
	case l.fixed:
		return true // no word moves its end (P7)
	}
	l.heard, l.before, l.excused, l.last = now, 0, false, now
	ls.spoke(l)
	return true
}

// fixing notes that a session's Fix is on its way into the log. Entries behind it must not rely on
// silence seen before it, nor end the lease before the time that it fixes. If it is refused, refused
// restores the lease's length. If it is lost, leadership is lost with it as a rule, and this lease is
// forgotten; at worst the session lives for the longer of its old length and the Fix's, from now.
func (ls *leases) fixing(id shard.SessionID, now, hold time.Duration, number uint64) {
	if l := ls.byID[id]; l != nil {
		l.heard, l.before, l.excused, l.fixNumber = now, 0, false, number
		l.ttl = max(l.ttl, hold)
		ls.spoke(l)
	}
}

// refused notes that a command was refused: if it was the Fix under way, and not a late copy of an
// older command, the lease is as long again as its record says.
func (ls *leases) refused(id shard.SessionID, number uint64, ttl time.Duration) {
	if l := ls.byID[id]; l != nil && l.fixNumber == number {
		l.ttl = ttl
	}
}

// fix notes that a Fix took effect.
func (ls *leases) fix(id shard.SessionID, now, hold time.Duration) {
	if l := ls.byID[id]; l != nil {
		l.fixed, l.ttl = true, hold
		l.heard, l.before, l.excused = now, 0, false
		l.checkpoint, l.recalled = 0, false
		ls.spoke(l)
		ls.reviewAt(now)
	}
}

// reheard notes that the log undid a session's silence, and returns the renewals that waited for
// that.
func (ls *leases) reheard(id shard.SessionID) (answerable []Renewal) {
	if l := ls.byID[id]; l != nil {
		l.recalled, l.checkpoint, l.before = false, 0, 0
		answerable, l.awaiting = l.awaiting, nil
	}
	return answerable
}

// recall reports whether the log is to undo a session's silence now, since the session is to be told that it
// lives (P5). To a lease of fixed length that means nothing, and undoes no silence (P7).
func (ls *leases) recall(id shard.SessionID) bool {
	l := ls.byID[id]
	if l == nil || l.expiring || l.fixed || l.checkpoint == 0 || l.recalled {
		return false
	}
	l.recalled = true
	return true
}

// confirmed reports whether a renewal is answered at once, now that a majority has confirmed its leader. If not, it
// is answered when the log has undone the session's silence (P5); or never, as the session is expiring (P4).
func (ls *leases) confirmed(q Renewal) (answer bool) {
	l := ls.byID[q.Session]
	switch {
	case l == nil:
		return true
	case l.expiring:
		return false
	case l.fixed || l.checkpoint == 0:
		return true
	}
	l.awaiting = append(l.awaiting, q)
	return false
}

// due reports whether it is time for a review.
func (ls *leases) due(now time.Duration) bool { return now >= ls.next }

// review looks at every lease. It returns the silences to be logged, and the sessions that were
// silent for so long that a majority is to be asked before they end, each in the order of their IDs. If
// early is set, silences are logged a quarter of the TTL before their time.
func (ls *leases) review(now time.Duration, early bool) (silent []shard.Silent, over []shard.SessionID) {
	ls.next = never
	for _, l := range ls.byID { // order-free: what is found is sorted below
		s := l.silence(now)
		switch due := l.nextCheckpoint(); {
		case l.expiring:
		case s >= l.ttl:
			if again(l.asked, now) {
				l.asked = now
				over = append(over, l.id)
			}
		case (s >= due || s >= due-l.ttl/4 && early) && !l.recalled:
			l.checkpoint = s
			silent = append(silent, shard.Silent{Session: l.id, For: s})
		}
		ls.next = min(ls.next, now+l.nextCheckpoint()-s, now+max(l.ttl-s, TickInterval))
	}
	slices.SortFunc(over, shard.SessionID.Compare)
	return sorted(silent), over
}

// expire reports whether a session's Expire is to be logged, now that a majority has confirmed its
// leader. From then on the leader does not listen to it (P4).
func (ls *leases) expire(id shard.SessionID, now time.Duration) bool {
	l := ls.byID[id]
	if l == nil {
		return false
	}
	l.asked = 0
	if l.silence(now) < l.ttl || l.expiring {
		return false
	}
	l.expiring = true
	return true
}

// handOver returns the silences to be logged before another leader counts from nothing (P5): those
// of sessions that hold or wait.
func (ls *leases) handOver(now time.Duration, busy func(shard.SessionID) bool) (silent []shard.Silent) {
	for _, l := range ls.byID { // order-free: what is found is sorted below
		s := l.silence(now)
		if l.expiring || l.recalled || s-l.checkpoint < unlogged || !busy(l.id) {
			continue
		}
		l.checkpoint = s
		silent = append(silent, shard.Silent{Session: l.id, For: s})
	}
	return sorted(silent)
}

// sorted sorts silences by their sessions, since they are logged in this order.
func sorted(all []shard.Silent) []shard.Silent {
	slices.SortFunc(all, func(a, b shard.Silent) int { return a.Session.Compare(b.Session) })
	return all
}

// stalled: the leader stood still for d.
func (ls *leases) stalled(now, d time.Duration) {
	for _, l := range ls.byID { // order-free: each is treated alike
		l.stalled(now, d)
		l.asked = 0
	}
}

// silence is for how long the session was not heard.
func (l *lease) silence(now time.Duration) time.Duration { return l.before + now - l.heard }

// nextCheckpoint is the silence at which the next Silent is due: half the TTL, which is
// longer than a renewal interval, then after each further quarter.
func (l *lease) nextCheckpoint() time.Duration {
	if l.checkpoint == 0 {
		return l.ttl / 2
	}
	return l.checkpoint + l.ttl/4
}

// stalled: the leader stood still for d. That moves the lease's end once between two messages of
// its session, or a host that stalls again and again would keep the keys of the dead; and not
// that of a lease of fixed length, which no message moves either (P10).
func (l *lease) stalled(now, d time.Duration) {
	if l.fixed || l.excused {
		return
	}
	if by := min(excused(d, l.silence(now), l.ttl), now-l.heard); by > 0 {
		l.heard += by
		l.excused = true
	}
}
