package shard

import (
	"cmp"
	"slices"
	"time"
)

// Report asks a table for the place that a session had in an earlier table of the shard, which its
// replicas have lost: a hold, or a place in a queue (C8). A table takes reports until it is told to
// grant. It opens the session's record.
//
// What is reported was confirmed by the earlier table, and its session believed in it when the Report
// was sent. It counts again once the Report is applied.
type Report struct {
	Call
	TTL      time.Duration // of the session
	Name     string        // of the client's node
	Key      string
	Kind     Kind
	Weight   int64
	Capacity int64
	Value    []byte
	Earlier
	Operation        // on a resource: that runs, or waits; or the pull that made a use
	Sequence  uint64 // of an election's leader: that of Value; zero: it has proclaimed nothing
}

// Earlier is what a session knows of an earlier table.
type Earlier struct {
	Token   uint64        // of the hold, or the stamp of the use; zero: the request waited
	Uses    bool          // it was the use of a resource
	Entered uint64        // the revision at which the request entered its queue; zero: unknown
	Hold    time.Duration // of a hold of fixed length: how much longer it lasts; zero: its lease is renewed
	Known   uint64        // the highest revision that the client knows of
	Quiet   time.Duration // for how long a new table must grant nothing, because leases of the earlier one may last so long
}

// Remember asks a table for a durable use that an earlier table of the shard had, which a replica of that one knows of
// (P39). A table takes it until it is told to grant. It opens the session's record.
type Remember struct {
	Call
	TTL     time.Duration // of the session
	Name    string        // of the node
	Key     string
	User    string
	Stamp   uint64
	Several bool // see Durable
}

func (Remember) number() uint64 { return wireRemember }

// remember gives a user back its durable use.
func (t *Table) remember(c Remember, out []Event) []Event {
	s, out := t.begin(c.Call, &opening{c.TTL, c.Name}, out)
	if s == nil {
		return out
	}
	if c.Stamp >= t.revision {
		t.revision = c.Stamp + floorJump
	}
	if t.settles == 0 {
		return append(out, t.refused(s, c.Number, Late, nil))
	}
	e := t.open(c.Key, Resource, 1)
	if e.kind != Resource {
		return append(out, t.refused(s, c.Number, Capacity, e))
	}
	t.keepEntry(e)
	t.outlive(&use{useID: useID{user: c.User}, entry: e, durable: true, several: c.Several, stamp: c.Stamp})
	return append(out, s.done(c.Number))
}

const (
	// floorJump is how far above a reported revision a table goes on whose first revision, a time of day, is
	// not above it: other clients may know of later ones.
	floorJump = 1 << 30
	// maxKnown leaves a table a trillion revisions.
	maxKnown = maxRevision - 1<<40
)

// resume gives a session the place that it reports.
func (t *Table) resume(c Report, tag string, out []Event) []Event {
	s, out := t.begin(c.Call, &opening{c.TTL, c.Name}, out)
	if s == nil {
		return out
	}
	if c.Known >= t.revision {
		t.revision = c.Known + floorJump
	}
	place, out, known := t.reported(s, c, tag, out)
	if known {
		return out
	}
	if t.settles == 0 {
		return append(out, t.refused(s, c.Number, Late, nil))
	}
	t.settles = max(t.settles, c.Quiet)
	if _, broken := s.breach(c.Token); broken && !c.Uses {
		return t.isBroken(s, c.Number, c.Token, out)
	}
	if r := s.holds[c.Token]; r != nil && !c.Uses && r.entry.key == c.Key && (r.weight == c.Weight || r.weight > c.Weight && !r.entry.differs(c) && c.Kind == RW) {
		// Its answer was lost, and the client gave it another number; or has begun to downgrade it (P47).
		t.lessen(r, c.Weight)
		return append(out, s.regained(c))
	}
	why := Reason(0)
	if c.Token != 0 {
		why, out = t.vacate(s, c, out)
	}
	e := t.find(c.Key)
	if c.Token == 0 && e != nil && e.differs(c) && e.isNew() {
		t.forsake(e)
		out = t.refuseWaiters(e, out)
		e = t.find(c.Key) // a resource on which something was done already
	}
	switch {
	case why != 0:
	case e == nil:
		e = t.newEntry(c.Key, c.Kind, c.Capacity)
	case e.differs(c):
		why = Capacity
	case c.Token == 0 && c.Weight > e.capacity:
		why = Capacity // it can never fit
	case c.Token == 0 && e.queue.len >= MaxWaiters:
		why = Crowded
	}
	if why != 0 {
		return append(out, t.refused(s, c.Number, why, e))
	}
	t.keepEntry(e)
	if place != nil && s.requests[place.number] == place { // else it has made room
		t.remove(place)
	}
	out = t.resized(e, c.Capacity, out)
	if c.Uses {
		t.stamp(e, s, &c.Operation, c.Token)
		return append(out, s.regained(c))
	}
	return t.reenter(s, e, c, tag, out)
}

// reenter gives a session the place in a key's queue, or the hold, that it reports; there is room for it.
func (t *Table) reenter(s *session, e *entry, c Report, tag string, out []Event) []Event {
	r := &request{
		entry: e, session: s, number: c.Number, weight: c.Weight, token: c.Token, entered: c.Entered, reported: true, op: e.waits(), sequence: c.Sequence,
	}
	if len(e.former) > 0 && c.Token != 0 {
		r.size = c.Capacity
	}
	r.name(tag)
	if c.Kind.operates() {
		r.op = &c.Operation
	}
	if len(c.Value) > 0 {
		r.value = slices.Clone(c.Value)
	}
	s.requests[c.Number] = r
	if c.Token == 0 {
		e.queue.push(r, &r.place)
		t.report(Entered, r)
		return append(out, t.queued(r))
	}
	e.holders.push(r, &r.place)
	e.taken += c.Weight
	s.holds[c.Token] = r
	t.report(Resumed, r)
	out = e.led(out)
	if c.Hold != 0 {
		s.ttl, s.fixed = c.Hold, true
		out = append(out, Event{What: Fixed, Session: s.id, TTL: c.Hold})
	}
	return append(out, s.regained(c))
}

// regained records that a session has what it reports, and returns the event.
func (s *session) regained(c Report) Event {
	s.results[c.Number] = result{what: Granted, token: c.Token}
	return Event{What: Granted, Session: s.id, Number: c.Number, Token: c.Token}
}

// vacate makes room for a hold or a use that s reports. Of those that do not fit together the highest tokens
// stay, and the sessions of the others end: if two believe in one place, the later grant is the valid
// one. Requests that wait for the key as something else are refused. A reason says that there is no
// room for the hold itself.
func (t *Table) vacate(s *session, c Report, out []Event) (Reason, []Event) {
	if s.holds[c.Token] != nil && !c.Uses {
		return Lost, out
	}
	for {
		e := t.find(c.Key)
		if e == nil {
			return 0, out
		}
		other := e.differs(c)
		if !other && (c.Uses || e.holds(c)) {
			return 0, out
		}
		lowest, token := e.lowest(other)
		switch {
		case token == 0:
			t.forsake(e)
			return 0, t.refuseWaiters(e, out)
		case token >= c.Token || lowest == s:
			return Lost, out
		case lowest != nil:
			out = t.end(lowest, out)
		default:
			t.lapse(e.uses.first())
			t.forget(e)
			t.sweep(e)
		}
	}
}

// lowest returns the lowest token that is held of e and, if uses count, the lowest stamp of its uses, with the session; nil:
// of the first use, which is durable and has none.
func (e *entry) lowest(uses bool) (s *session, token uint64) {
	for r := e.holders.first(); r != nil; r = r.place.next() {
		if token == 0 || r.token < token {
			s, token = r.session, r.token
		}
	}
	if uses && e.resource != nil {
		if u := e.uses.first(); u != nil && (token == 0 || u.stamp < token) {
			s, token = u.session, u.stamp
		}
	}
	return s, token
}

// differs reports whether the key is in use as something else than what is reported.
func (e *entry) differs(c Report) bool {
	return e.kind != c.Kind || !e.accepts(c.Capacity) && (e.kind != Semaphore || e.isNew())
}

// isNew reports whether no place in the key was reported.
func (e *entry) isNew() bool {
	for r := e.queue.first(); r != nil; r = r.place.next() {
		if r.reported {
			return false
		}
	}
	return e.holders.len == 0 && (e.resource == nil || !e.used())
}

// refuseWaiters refuses every request in e's queue, which is in use as something else, and deletes e, which has no holder, unless something is remembered of it.
func (t *Table) refuseWaiters(e *entry, out []Event) []Event {
	for r := e.queue.first(); r != nil; r = e.queue.first() {
		out = append(out, t.dismiss(r, Capacity, nil))
	}
	t.sweep(e)
	return out
}

// order puts the holders of each key in the order of their tokens, and the queues in that of their
// places: those that were reported come first, those of an unknown place last of them. If two sessions
// reported one token, the second ends.
func (t *Table) order(out []Event) []Event {
	var ends []*session
	for e := t.entries.first(); e != nil; e = e.place.next() {
		t.keepEntry(e)
		e.holders.sort(func(a, b *request) int { return cmp.Compare(a.token, b.token) })
		e.queue.sort(inTurn)
		last := uint64(0)
		for r := e.holders.first(); r != nil; r = r.place.next() {
			if r.token == last {
				ends = append(ends, r.session)
			}
			last = r.token
		}
	}
	for _, s := range ends {
		if t.sessions[s.id] == s {
			out = t.end(s, out)
		}
	}
	return out
}

// inTurn compares two requests that wait for one key by their turns.
func inTurn(a, b *request) int {
	switch {
	case a.reported && !b.reported:
		return -1
	case b.reported && !a.reported:
		return 1
	}
	return cmp.Compare(a.entered-1, b.entered-1) // zero, unknown, becomes the highest
}

func (Report) number() uint64 { return wireReport }
