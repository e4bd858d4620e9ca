package replica

import (
	"container/list"
	"iter"
	"time"

	"github.com/lockmesh/mesh/shard"
)

// lease is what a serving leader knows of a session's life. Times are the leader's.
type lease struct {
	id         shard.SessionID
	ttl        time.Duration
	fixed      bool          // claimed: nothing that the session says moves its end (P7)
	heard      time.Duration // when it last spoke, or this leader began to serve
	before     time.Duration // how long it had been silent by then (P5)
	excused    bool          // a stall has moved its end since: see stalled
	silent     bool          // a Silent is in the log and no Heard after it
	recalled   bool          // a Heard is on its way
	checkpoint time.Duration // the silence that was logged last
	awaiting   []Renewal     // to be answered when the Heard is applied
	asked      time.Duration // when a round for its expiry began; zero: none did
	expiring   bool          // an Expire is in the log (P4)
	element    *list.Element // of leases.order
	claim      uint64        // the number of the claim that is on its way, or was the last: see claimed
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

func (l *lease) hear(now time.Duration) {
	if l.fixed {
		return
	}
	l.heard, l.before, l.excused = now, 0, false
	if !l.silent {
		l.checkpoint = 0
	}
}

// claimed: a claim is on its way into the log. What is logged behind it counts after it, so
// from now on neither a silence nor an end may be from before it, and no end from before
// what it claims is over. If it is refused, see note; if it is lost, so is this leader's
// word, or its session lives for as long as it might have.
func (l *lease) claimed(now, hold time.Duration, number uint64) {
	l.heard, l.before, l.excused, l.claim = now, 0, false, number
	l.ttl = max(l.ttl, hold)
}

func (l *lease) fix(now, hold time.Duration) {
	l.fixed, l.ttl = true, hold
	l.heard, l.before, l.excused = now, 0, false
	l.silent, l.checkpoint, l.recalled = false, 0, false
}

// stalled: the leader stood still for d. That moves the lease's end once between two words of
// its session, or a host that stalls again and again would keep the keys of the dead; and not
// that of a lease of fixed length, which no word moves either (P10).
func (l *lease) stalled(now, d time.Duration) {
	if l.fixed || l.excused {
		return
	}
	if by := min(excused(d, l.silence(now), l.ttl), now-l.heard); by > 0 {
		l.heard += by
		l.excused = true
	}
}

// leases are all of a shard's sessions.
type leases struct {
	byID  map[shard.SessionID]*lease
	order list.List     // of *lease, in the order in which they were opened
	next  time.Duration // no lease needs a look before; a lower bound
}

func newLeases() leases {
	return leases{byID: make(map[shard.SessionID]*lease), next: never}
}

// all yields the leases in the order in which they were opened.
func (ls *leases) all() iter.Seq[*lease] {
	return func(yield func(*lease) bool) {
		for e := ls.order.Front(); e != nil && yield(e.Value.(*lease)); e = e.Next() {
		}
	}
}

func (ls *leases) get(id shard.SessionID) *lease { return ls.byID[id] }

func (ls *leases) open(id shard.SessionID, ttl, now time.Duration) *lease {
	l := &lease{id: id, ttl: ttl, heard: now}
	ls.byID[id] = l
	l.element = ls.order.PushBack(l)
	ls.soon(now)
	return l
}

// soon makes the next tick look at every lease.
func (ls *leases) soon(now time.Duration) { ls.next = min(ls.next, now) }

func (ls *leases) end(id shard.SessionID) {
	if l := ls.byID[id]; l != nil {
		delete(ls.byID, id)
		ls.order.Remove(l.element)
	}
}
