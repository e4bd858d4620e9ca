package shard

import (
	"cmp"
	"maps"
	"slices"
	"time"
)

// session is the record of one session in this shard: the requests that it holds and waits
// for, and the commands that were already done.
type session struct {
	place[*session]
	id       SessionID
	name     string // of its node
	ttl      time.Duration
	fixed    bool              // by a Fix: the lease is not renewed (P7)
	silent   time.Duration     // how long its silence was at the last checkpoint (P5)
	minSince uint64            // the last deletion when it was opened: a command with a smaller Since is for an earlier record (P12)
	seen     numbers           // the numbers of all commands that arrived (P11)
	results  map[uint64]result // of finished commands, until the client acknowledges them
	requests map[uint64]*request
	holds    map[uint64]*request // the granted ones of requests, by token
	uses     map[*use]bool       // of resources; nil: none yet
	guest    *guest              // nil: the session is a node's
	broken   []breach            // grants that an operator has broken (P49), by their tokens
	peaks    struct{ requests, holds, results int }
	image
}

// result is how a command ended.
type result struct {
	what    EventKind // Granted, Done, Refused or Skipped
	token   uint64    // a grant's, also of one that was broken, or the stamp of a use, or the number of a carrier
	refused Reason
}

// opening has the fields of a new record that a command brings.
type opening struct {
	ttl  time.Duration
	name string
}

// begin finds the record of a command's session, or opens one if the command may. It ensures
// that each number takes effect once (P11, P12). It returns a nil session if the events that
// it appended to out are the whole answer.
func (t *Table) begin(c Call, open *opening, out []Event) (*session, []Event) {
	s := t.sessions[c.Session]
	minSince := t.deleted.last(c.Session)
	if s != nil {
		minSince = s.minSince
	}
	if c.Since < minSince {
		why := Reopen
		if s != nil {
			why = Behind
		}
		return nil, append(out, Event{What: Refused, Session: c.Session, Number: c.Number, Reason: why})
	}
	if s == nil {
		if open == nil {
			return nil, append(out, Event{What: Refused, Session: c.Session, Number: c.Number, Reason: Lost})
		}
		s = &session{
			id: c.Session, name: open.name, ttl: open.ttl, minSince: minSince,
			results:  make(map[uint64]result),
			requests: make(map[uint64]*request),
			holds:    make(map[uint64]*request),
		}
		s.born = t.revision
		t.sessions[s.id] = s
		t.records.push(s, &s.place)
		out = append(out, Event{What: Opened, Session: s.id, TTL: s.ttl})
	}
	t.keepSession(s)
	for _, n := range c.Acked {
		if n != c.Number {
			s.forget(n)
		}
	}
	if s.seen.has(c.Number) {
		return nil, append(out, t.resultOf(s, c.Number))
	}
	s.seen.add(c.Number)
	return s, out
}

// forget drops a result that its client will not ask for again.
func (s *session) forget(number uint64) {
	delete(s.results, number)
	s.results = shrink(s.results, &s.peaks.results)
}

// done records that a command took effect, and returns the event.
func (s *session) done(number uint64) Event {
	s.results[number] = result{what: Done}
	return Event{What: Done, Session: s.id, Number: number}
}

// resultOf returns the answer to a repeated command: that of its first copy.
func (t *Table) resultOf(s *session, number uint64) Event {
	if r := s.requests[number]; r != nil && r.token == 0 {
		return t.queued(r)
	}
	res, ok := s.results[number]
	if !ok {
		res = result{what: Refused, refused: Stale} // acknowledged, or cancelled
	}
	e := Event{What: res.what, Session: s.id, Number: number, Token: res.token, Reason: res.refused}
	switch r := s.requests[number]; {
	case res.refused == Quiet:
		e.Quiet = t.Quiet()
	case res.what == Granted && r != nil:
		return r.granted()
	case res.what == Done && s.guest != nil && res.token == s.guest.carrier:
		e.Ahead, e.Quiet, e.Entered = s.unclaimed(), t.Quiet(), uint64(len(s.broken)) // of a Carry; to others it says nothing
	}
	return e
}

// end deletes s, and grants what it held to the waiters. Its requests are removed in the
// order of their numbers, which is the same on every replica.
func (t *Table) end(s *session, out []Event) []Event {
	out = t.erase(s, out)
	gone := s.requestsInOrder()
	// All are removed before any grant, or s's own waiters would be granted.
	for _, r := range gone {
		t.fails(r)
		t.remove(r)
	}
	t.endUses(s)
	for _, r := range gone {
		out = t.grant(r.entry, out)
		t.sweep(r.entry)
	}
	return out
}

// erase deletes the record of s.
func (t *Table) erase(s *session, out []Event) []Event {
	t.keepSession(s)
	delete(t.sessions, s.id)
	t.sessions = shrink(t.sessions, &t.peaks.sessions)
	t.records.remove(&s.place)
	t.deleted.note(s.id, t.revision)
	if s.guest != nil && t.guests[s.guest.name] == s {
		delete(t.guests, s.guest.name)
	}
	return append(out, Event{What: Ended, Session: s.id})
}

// requestsInOrder returns the requests of a session in the order of their numbers.
func (s *session) requestsInOrder() []*request {
	all := make([]*request, 0, len(s.requests))
	for _, n := range slices.Sorted(maps.Keys(s.requests)) {
		all = append(all, s.requests[n])
	}
	return all
}

// Lease is what a leader must know about a session.
type Lease struct {
	Session SessionID
	TTL     time.Duration
	Fixed   bool          // by a Fix: TTL is the time that it set, and no renewal moves the end (P7)
	Silent  time.Duration // the silence that the log holds; zero: none (P5)
	Busy    bool          // it holds a key or uses a resource, or waits for one
}

func (s *session) lease() Lease {
	return Lease{s.id, s.ttl, s.fixed, s.silent, len(s.requests)+len(s.uses) > 0}
}

// Leases returns the sessions that have a record, in the order of their IDs.
func (t *Table) Leases() []Lease {
	all := make([]Lease, 0, len(t.sessions))
	for _, s := range t.ordered() {
		all = append(all, s.lease())
	}
	return all
}

// Lease returns the lease of one session, if it has a record.
func (t *Table) Lease(id SessionID) (l Lease, known bool) {
	if s := t.sessions[id]; s != nil {
		return s.lease(), true
	}
	return Lease{}, false
}

// Has reports whether the session has a record.
func (t *Table) Has(id SessionID) bool { return t.sessions[id] != nil }

// Expects reports whether the session has a record, and no command with this number has
// arrived.
func (t *Table) Expects(id SessionID, number uint64) bool {
	s := t.sessions[id]
	return s != nil && !s.seen.has(number)
}

// Results returns the results of the session's finished commands that the session has not
// acknowledged, in the order of their numbers, at most limit of them. If there are more than
// limit, it begins with the first number above after, or with the lowest if none is above it. So
// a caller that continues from the last number returned gets all of them. More reports whether
// there are some after the last.
func (t *Table) Results(id SessionID, limit int, after uint64) (events []Event, more bool) {
	s := t.sessions[id]
	if s == nil {
		return nil, false
	}
	if len(s.results) <= limit {
		after = 0
	}
	page, more := s.page(limit, after)
	if len(page) == 0 && after > 0 {
		page, more = s.page(limit, 0)
	}
	for _, n := range page {
		events = append(events, t.resultOf(s, n))
	}
	return events, more
}

// page returns the lowest numbers above after that have results, ascending, at most limit of
// them, and whether there are more.
func (s *session) page(limit int, after uint64) (page []uint64, more bool) {
	// Numbers mostly lie close together: the next ones are found without a walk over all.
	for n := after + 1; n-after <= uint64(len(s.results)/2); n++ {
		if _, ok := s.results[n]; !ok {
			continue
		}
		if len(page) == limit {
			return page, true
		}
		page = append(page, n)
	}
	page = slices.Sorted(maps.Keys(s.results))
	first, _ := slices.BinarySearch(page, after+1)
	page = page[first:]
	return page[:min(limit, len(page))], len(page) > limit
}

// deletions has, for each of 1024 parts of all sessions, the revision of the last deletion of
// a record, or of the last Close that found none. An ended session must not be opened again, and the
// table cannot remember it for ever. One revision for all sessions would be safe; but while nearby
// clients end sessions all the time, no distant client could open a record: each revision that it
// names is old when it arrives.
type deletions [1024]uint64 // revisions; zero: never

func (d *deletions) part(id SessionID) int {
	return int(mix(mix(0, id.Node), id.Number) % uint64(len(d)))
}

// last returns the revision that the Since of a command must reach for the command to open the
// record.
func (d *deletions) last(id SessionID) uint64 { return d[d.part(id)] }

func (d *deletions) note(id SessionID, revision uint64) { d[d.part(id)] = revision }

// numbers is a set of request numbers. Clients number requests in order, and they arrive
// nearly in order: a floor and a few ranges above it represent any number of them.
type numbers struct {
	floor  uint64 // all up to this one are in the set
	ranges []span // above it, apart from each other, ascending
}

type span struct{ first, last uint64 }

// find returns the index of the first range that does not end below n.
func (s *numbers) find(n uint64) int {
	i, _ := slices.BinarySearchFunc(s.ranges, n, func(r span, n uint64) int { return cmp.Compare(r.last, n) })
	return i
}

func (s *numbers) has(n uint64) bool {
	if n <= s.floor {
		return true
	}
	i := s.find(n)
	return i < len(s.ranges) && s.ranges[i].first <= n
}

func (s *numbers) add(n uint64) {
	if s.has(n) {
		return
	}
	i := s.find(n)
	// n lies in the gap before ranges[i]: it may touch that one, the one before, or both.
	below := i > 0 && s.ranges[i-1].last+1 == n
	above := i < len(s.ranges) && s.ranges[i].first == n+1
	switch {
	case below && above:
		s.ranges[i-1].last = s.ranges[i].last
		s.ranges = slices.Delete(s.ranges, i, i+1)
	case below:
		s.ranges[i-1].last = n
	case above:
		s.ranges[i].first = n
	default:
		s.ranges = slices.Insert(s.ranges, i, span{n, n})
	}
	if s.ranges[0].first == s.floor+1 {
		s.floor = s.ranges[0].last
		s.ranges = slices.Delete(s.ranges, 0, 1)
	}
}
