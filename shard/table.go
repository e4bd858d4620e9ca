// Package shard holds the lock table of one shard.
//
// A [Table] is a plain state machine: it starts no goroutine, reads no clock and
// sends no message. Feed it with [Table.Step], and deliver the events that Step
// returns. Replicas that apply the same commands in the same order have equal tables; a new
// replica gets a [Cut] of another one's table, and restores it with [NewRestore].
//
// (P12), (C8) and the like are rules in PROTOCOL.md. ARCHITECTURE.md defines the terms, also E and ρ.
package shard

import (
	"fmt"
	"maps"
	"slices"
	"time"
)

// Table is the lock table of one shard. One goroutine at a time may use it.
//
// Per key there is one weighted FIFO: a capacity, the requests that hold some of
// it, and the requests that wait. The head of the queue waits until it fits, and no
// request passes it (G3), so writers and large requests never starve. All decisions of
// a table follow from the commands and their order alone.
type Table struct {
	keys     map[string]*entry // only keys in use: held, waited for, or of which something is known (P38)
	sessions map[SessionID]*session
	guests   map[string]*session // the sessions that carry a guest, by the guest's name
	entries  list[*entry]        // all of keys, oldest first: the order of a snapshot
	records  list[*session]
	scopes   map[Grant]*list[*request] // by grant, the requests that wait within it (P50)

	revision uint64        // raised by each command, grant and skip; a grant's revision is its token (P17)
	deleted  deletions     // the last deletions of records (P12)
	now      time.Duration // table time (P18), never a date
	term     uint64        // of the entry that is being applied (P3)
	settles  time.Duration // nothing is granted before the Settle that is due at this time; zero: the table may grant (P27)
	memories memories      // the resources that remember something
	walks    []*entry      // the resources whose waiters a Walk is to answer
	digest   uint64        // over revisions and grants; equal on all replicas (P41)

	peaks struct{ keys, sessions, scopes int } // for shrink
	cut   *Cut                                 // the snapshot that is being taken, or nil
	check bool                                 // verify the invariants after each step

	observe func(Decision)
}

// Founding is what a new table starts from.
type Founding struct {
	Revision uint64         // the first revision: a time of day in ms << 10, or above (P17)
	Settles  time.Duration  // how long queues may form but nothing is granted; zero: not at all (P27)
	Check    bool           // verify the invariants after each step; panics if one is broken
	Observe  func(Decision) // is called at every decision; for simulations
}

// Decision is what the table did with one request, for the observer of a simulation.
type Decision struct {
	What     DecisionKind
	Revision uint64 // of the table when it decided
	Key      string
	Session  SessionID
	Number   uint64
	Token    uint64 // of the grant; zero while the request waits
	Kind     Kind
	Weight   int64
	Capacity int64
	Settling bool   // the table grants nothing yet (P27)
	Reported bool   // Entered: it waited already in an earlier table (C8)
	Earlier  uint64 // and entered its queue there at this revision; zero: unknown

	From int64 // Resized: the capacity before

	Was       SessionID // Renamed: whose it was before
	WasNumber uint64    // and under which number
}

func (t *Table) decision(what DecisionKind, r *request) Decision {
	return Decision{
		What: what, Revision: t.revision, Key: r.entry.key, Session: r.session.id, Number: r.number, Token: r.token, Kind: r.entry.kind, Weight: r.weight,
		Capacity: r.entry.capacity, Settling: t.settles != 0, Reported: r.reported, Earlier: r.entered,
	}
}

// DecisionKind says what the table did.
type DecisionKind uint8

// The kinds of decisions.
const (
	Entered   DecisionKind = iota + 1 // the request is in its key's queue
	Admitted                          // it holds the key
	Finished                          // it no longer holds the key
	Withdrawn                         // it left the queue without a grant
	Declined                          // it was a Try, and would have had to wait
	Resumed                           // it holds the key as it did in an earlier table (C8)
	Renamed                           // it belongs to another session now, or has another number (P42)
	Lessened                          // it holds no more than Weight of the key now (P47)
	Resized                           // the key has another capacity, by this command
	BrokenUp                          // it holds the key, and an operator has broken that (P49)
)

// report calls the observer, if there is one.
func (t *Table) report(what DecisionKind, r *request) {
	if t.observe != nil {
		t.observe(t.decision(what, r))
	}
}

// NewTable returns the table of a new shard.
func NewTable(f Founding) *Table {
	return &Table{
		keys:     make(map[string]*entry),
		sessions: make(map[SessionID]*session),
		guests:   make(map[string]*session),
		scopes:   make(map[Grant]*list[*request]),
		revision: f.Revision,
		settles:  f.Settles,
		check:    f.Check,
		observe:  f.Observe,
	}
}

// entry is one key in use, not an entry of the log. It is deleted once it is idle.
type entry struct {
	place[*entry]
	key       string
	kind      Kind
	capacity  int64
	former    []int64 // capacities that a semaphore had, and that callers may still name; the latest last
	taken     int64   // the holders' weights; at most capacity when one is granted: a Resize may lower that
	holders   list[*request]
	queue     list[*request] // as they were committed; when the table begins to grant, those that were reported come before the others (C8)
	*resource                // what the key remembers; nil if it is of a kind that remembers nothing
	image                    // for snapshots
}

// request is one Acquire or Begin, or what was reported in its place, while it waits and then while it holds.
type request struct {
	place[*request]
	entry   *entry
	session *session
	number  uint64
	weight  int64
	token   uint64 // zero while it waits
	value   []byte
	op      *Operation // on a resource
	tag     string     // of a guest; else empty
	scope   *scope     // while it waits: nil, within nothing

	sequence uint64 // of an election's leader: that of value
	size     int64  // of a semaphore's hold: the capacity of which it was granted; zero: the key's

	entered  uint64 // the revision at which it entered the queue: its place, should it be reported (C8)
	reported bool   // by its client: entered is a revision of an earlier table
}

// Revision returns the number of the table's last change: see P17.
func (t *Table) Revision() uint64 { return t.revision }

// Digest is a hash over the table's revisions and grants so far, equal on all replicas that
// applied the same entries.
func (t *Table) Digest() uint64 { return t.digest }

// Now is the table's time: how long the shard has been led, as its leaders counted.
func (t *Table) Now() time.Duration { return t.now }

// Settles returns when a new table is due for its Settle, in table time; zero: it may grant already.
func (t *Table) Settles() time.Duration { return t.settles }

// Quiet returns for how much longer the table grants nothing; zero: it may grant (P27). Until the Settle is applied,
// which may be later than it was due, Quiet returns a millisecond at least.
func (t *Table) Quiet() time.Duration { return t.quiet(t.now) }

// quiet is Quiet at a time that may be later.
func (t *Table) quiet(at time.Duration) time.Duration {
	if t.settles == 0 {
		return 0
	}
	return max(t.settles-at, time.Millisecond)
}

// Enter begins an entry of the log: its term, and its leader's reading of table time.
func (t *Table) Enter(term uint64, now time.Duration) {
	t.term = term
	t.now = max(t.now, now)
}

// Step applies cmd and appends its events to out, in the order of delivery. Equal
// commands in equal order give equal events on every replica. Step has no error: a client's
// command that cannot be carried out is Refused, and changes no key, but for a Report that has
// made room in vain (see vacate). If there is a record of
// its session, which the command may have opened, the record remembers it, unless it was not
// examined (see Refused). A leader's command without effect yields nothing.
func (t *Table) Step(cmd Command, out []Event) []Event {
	t.revision++
	before := len(out)
	t.pass()
	switch cmd := cmd.(type) {
	case Acquire, Begin, Report:
		out = t.ask(cmd, "", out)
	case Cancel:
		out = t.cancel(cmd, out)
	case Release:
		out = t.release(cmd, out)
	case Fix:
		out = t.fix(cmd, out)
	case Close:
		out = t.close(cmd, out)
	case End:
		out = t.finish(cmd, out)
	case Drop:
		out = t.unuse(cmd, out)
	case Remember:
		out = t.remember(cmd, out)
	case Proclaim:
		out = t.proclaim(cmd, out)
	case Recall:
		out = t.recall(cmd, out)
	case Arrive:
		out = t.arrive(cmd, out)
	case Carry:
		out = t.carry(cmd, out)
	case Claim:
		out = t.reclaim(cmd, out)
	case Downgrade:
		out = t.downgrade(cmd, out)
	case Resize:
		out = t.resize(cmd, out)
	case Break:
		out = t.breaks(cmd, out)
	case Tagged:
		out = t.ask(cmd.Command, cmd.Tag, out)
	case Within:
		out = t.within(cmd, out)
	default:
		out = t.leaderCommand(cmd, out)
	}
	t.digest = mix(t.digest, t.revision)
	for _, e := range out[before:] {
		if e.What == Granted || e.What == Skipped {
			t.digest = mix(mix(t.digest, e.Session.Node^e.Session.Number), e.Token)
		}
	}
	if t.check {
		t.checkCommand(cmd)
	}
	return out
}

// ask carries out a command that asks for a place in a key's queue, or for what was reported. The tag is that of a guest's request; else it is empty.
func (t *Table) ask(cmd Command, tag string, out []Event) []Event {
	switch cmd := cmd.(type) {
	case Acquire:
		out = t.acquire(cmd, tag, out)
	case Begin:
		out = t.operate(cmd, tag, out)
	case Report:
		out = t.resume(cmd, tag, out)
	}
	return out
}

// leaderCommand carries out what a leader has decided by itself, in the term that the command names.
func (t *Table) leaderCommand(cmd Command, out []Event) []Event {
	switch cmd := cmd.(type) {
	case Expire:
		if s := t.sessions[cmd.Session]; s != nil && t.isCurrentTerm(cmd.Term) {
			out = t.end(s, out)
		}
	case Silent:
		if s := t.sessions[cmd.Session]; s != nil && t.isCurrentTerm(cmd.Term) {
			t.keepSession(s)
			if s.silent = cmd.For; s.silent == 0 {
				out = append(out, Event{What: Reheard, Session: cmd.Session})
			}
		}
	case Settle:
		if t.isCurrentTerm(cmd.Term) {
			t.revision = max(t.revision, cmd.Floor+1)
			if t.settles != 0 && t.now >= t.settles { // a Report before it may have put it off
				out = t.settle(out)
			}
		}
	case Calm:
		if t.isCurrentTerm(cmd.Term) {
			t.revision = max(t.revision, cmd.Floor+1)
			if t.settles != 0 {
				out = t.settle(out)
			}
		}
	case Walk:
		if e := t.keys[cmd.Key]; e != nil && t.isCurrentTerm(cmd.Term) {
			out = t.grant(e, out)
			t.sweep(e)
		}
	case Free:
		out = t.free(cmd, out)
	case Check:
		// The replica compares digests; the table only raises its revision.
	default:
		panic(fmt.Sprintf("shard: unknown command %T", cmd))
	}
	return out
}

// isCurrentTerm reports whether a leader's command was decided in the term of its entry.
// One that was forwarded to a later leader has no effect (P3).
func (t *Table) isCurrentTerm(term uint64) bool { return term == t.term }

// acquire queues a request, and grants it if it fits.
func (t *Table) acquire(c Acquire, tag string, out []Event) []Event {
	s, out := t.begin(c.Call, &opening{c.TTL, c.Name}, out)
	if s == nil {
		return out
	}
	out, known := t.again(s, c.Number, tagID{c.Key, tag}, want{c.Kind, c.Weight, c.Capacity, nil}, out)
	if known {
		return out
	}
	e := t.open(c.Key, c.Kind, c.Capacity)
	refuse := Reason(0)
	switch fits := t.fits(e, c.Weight); {
	case e.kind != c.Kind || !e.accepts(c.Capacity) || c.Weight > e.capacity:
		refuse = Capacity
	case c.Try && t.settles != 0:
		refuse = Quiet
	case c.Try && !fits:
		refuse = Locked
	case !fits && e.queue.len >= MaxWaiters:
		refuse = Crowded
	}
	if refuse != 0 {
		if refuse == Locked || refuse == Quiet {
			t.report(Declined, &request{entry: e, session: s, number: c.Number, weight: c.Weight})
		}
		out = append(out, t.refused(s, c.Number, refuse, e))
		t.sweep(e)
		return out
	}
	r := &request{entry: e, session: s, number: c.Number, weight: c.Weight, entered: t.revision, op: e.waits()}
	if len(c.Value) > 0 {
		r.value = slices.Clone(c.Value)
	}
	return t.enqueue(r, tag, out)
}

// enqueue gives a request the last place in its key's queue, and grants the key if it may.
func (t *Table) enqueue(r *request, tag string, out []Event) []Event {
	e, s := r.entry, r.session
	t.keepEntry(e)
	r.name(tag)
	s.requests[r.number] = r
	e.queue.push(r, &r.place)
	t.report(Entered, r)
	out = t.grant(e, out)
	if s.requests[r.number] == r && r.token == 0 {
		out = append(out, t.queued(r))
	}
	t.sweep(e)
	return out
}

// find returns the entry of a key in use, or nil.
func (t *Table) find(key string) *entry {
	e := t.keys[key]
	if e != nil && e.resource != nil && e.forgetAt != 0 && t.now >= e.forgetAt {
		t.forget(e) // pass has not come to it yet
		t.sweep(e)
		e = t.keys[key]
	}
	return e
}

// open returns the entry of a key, which is from now on in use: as this, if it was not in use yet.
func (t *Table) open(key string, kind Kind, capacity int64) *entry {
	if e := t.find(key); e != nil {
		return e
	}
	return t.newEntry(key, kind, capacity)
}

// newEntry returns the entry of a key that is not in use yet.
func (t *Table) newEntry(key string, kind Kind, capacity int64) *entry {
	e := &entry{key: key, kind: kind, capacity: capacity}
	if kind.remembers() {
		e.resource = &resource{by: make(map[useID]*use)}
	}
	e.born = t.revision
	t.keys[key] = e
	t.entries.push(e, &e.place)
	return e
}

// fits reports whether a request of this weight would be granted at once: there is
// room, and no earlier request waits (P16).
func (t *Table) fits(e *entry, weight int64) bool {
	return t.settles == 0 && e.taken+weight <= e.capacity && e.queue.len == 0
}

// grant grants the key to as many requests from the head of e's queue as fit. Each raises
// the revision, which becomes its token.
func (t *Table) grant(e *entry, out []Event) []Event {
	if t.settles != 0 {
		return out
	}
	switch {
	case e.kind == Barrier:
		return t.assemble(e, out)
	case e.kind.remembers():
		return t.walk(e, out)
	case e.kind == Election:
		return t.elect(e, out)
	}
	for e.due() {
		out = t.admit(e.queue.first(), out)
	}
	return out
}

// admit grants its key to a request that waits, and fits.
func (t *Table) admit(r *request, out []Event) []Event {
	e := r.entry
	t.keepEntry(e)
	t.keepSession(r.session)
	e.queue.remove(&r.place)
	t.unlink(r)
	e.holders.push(r, &r.place)
	if e.taken += r.weight; len(e.former) > 0 {
		r.size = e.capacity // its caller may have named another one
	}
	if t.check && e.taken > e.capacity {
		panic(fmt.Sprintf("shard: key %q: %d of %d are granted", e.key, e.taken, e.capacity))
	}
	t.revision++
	r.token = t.revision
	r.session.holds[r.token] = r
	r.session.results[r.number] = result{what: Granted, token: r.token}
	t.report(Admitted, r)
	return append(out, r.granted())
}

// due reports whether the first request in e's queue is to be answered, by a table that may grant.
func (e *entry) due() bool {
	head := e.queue.first()
	switch {
	case head == nil:
		return false
	case e.kind == Latch:
		return e.done[Run] != nil
	case e.kind == Barrier:
		return e.gathered()
	}
	return e.taken+head.weight <= e.capacity
}

func (t *Table) cancel(c Cancel, out []Event) []Event {
	s, out := t.begin(c.Call, &opening{c.TTL, c.Name}, out)
	if s == nil {
		return out
	}
	s.seen.add(c.Target) // if it is still under way, it comes too late
	if i := slices.IndexFunc(s.broken, func(b breach) bool { return b.number == c.Target && c.Target != 0 }); i >= 0 {
		t.mend(s, s.broken[i].Token)
	}
	if r := s.requests[c.Target]; r != nil {
		out = t.drop(r, out)
	}
	stamp := uint64(0)
	if was := s.results[c.Target]; was.what == Skipped {
		stamp = was.token // the client drops the use
	}
	s.forget(c.Target)
	s.results[c.Number] = result{what: Done, token: stamp}
	return append(out, Event{What: Done, Session: s.id, Number: c.Number, Token: stamp})
}

func (t *Table) release(c Release, out []Event) []Event {
	s, out := t.begin(c.Call, nil, out)
	if s == nil {
		return out
	}
	r := s.holds[c.Token]
	if r == nil && t.mend(s, c.Token) { // it is free already
		return append(out, s.done(c.Number))
	}
	if r == nil || r.entry.key != c.Key {
		return append(out, t.refused(s, c.Number, Lost, nil))
	}
	t.mend(s, c.Token)
	out = append(out, s.done(c.Number))
	s.ended(r, result{what: Done, token: r.token})
	t.fails(r)
	return t.drop(r, out)
}

func (t *Table) fix(c Fix, out []Event) []Event {
	s, out := t.begin(c.Call, nil, out)
	if s == nil {
		return out
	}
	r := s.holds[c.Token]
	if r == nil || r.entry.key != c.Key || s.guest != nil {
		return append(out, t.refused(s, c.Number, Lost, nil))
	}
	if r.broken() {
		return t.isBroken(s, c.Number, r.token, out)
	}
	s.ttl, s.fixed = c.Hold, true
	s.silent = 0
	return append(out, Event{What: Fixed, Session: s.id, TTL: c.Hold}, s.done(c.Number))
}

func (t *Table) close(c Close, out []Event) []Event {
	if s := t.sessions[c.Session]; s != nil {
		out = t.end(s, out)
	} else {
		t.deleted.note(c.Session, t.revision) // its Acquire may come late, and must not open it (P12)
	}
	return append(out, Event{What: Done, Session: c.Session, Number: c.Number})
}

// drop removes r, and grants the key to the requests that now fit.
func (t *Table) drop(r *request, out []Event) []Event {
	t.remove(r)
	out = t.grant(r.entry, out)
	t.sweep(r.entry)
	return out
}

// remove takes r out of its key and its session. The caller then grants and sweeps.
func (t *Table) remove(r *request) {
	e, s := r.entry, r.session
	t.keepEntry(e)
	t.keepSession(s)
	delete(s.requests, r.number)
	s.requests = shrink(s.requests, &s.peaks.requests)
	if r.tag != "" {
		delete(s.guest.tagged, tagID{e.key, r.tag})
	}
	if r.token == 0 {
		t.report(Withdrawn, r)
		e.queue.remove(&r.place)
		t.unlink(r)
	} else {
		t.report(Finished, r)
		delete(s.holds, r.token)
		s.holds = shrink(s.holds, &s.peaks.holds)
		e.holders.remove(&r.place)
		e.taken -= r.weight
	}
}

// sweep deletes e if it is idle and not deleted yet.
func (t *Table) sweep(e *entry) {
	if e.idle() && t.keys[e.key] == e {
		t.keepEntry(e)
		delete(t.keys, e.key)
		t.keys = shrink(t.keys, &t.peaks.keys)
		t.entries.remove(&e.place)
	}
}

// settle lets the table grant from now on, and grants each key to the requests that fit, in the order of the keys' bytes.
func (t *Table) settle(out []Event) []Event {
	out = t.order(out)
	t.settles = 0
	for _, key := range slices.Sorted(maps.Keys(t.keys)) {
		e := t.keys[key]
		out = t.grant(e, out)
		t.sweep(e)
	}
	return out
}

// queued returns the event of a request that waits.
func (t *Table) queued(r *request) Event {
	q := Event{What: Queued, Session: r.session.id, Number: r.number, Ahead: -1, Entered: r.entered, Quiet: t.Quiet()}
	switch {
	case r.place.next() == nil:
		q.Ahead = r.entry.queue.len - 1
	case r.entry.queue.len <= maxCounted:
		q.Ahead = 0
		for p := r.entry.queue.first(); p != r; p = p.place.next() {
			q.Ahead++
		}
	}
	if h := r.entry.holders.first(); h != nil {
		q.Holder, q.Token = h.session.name, h.token
	}
	return q
}

// maxCounted is the longest queue in which the requests ahead of a retried one are counted.
const maxCounted = 128

// refused records that a command is refused, and returns the event. With e, the event names
// a holder, and says whether the table is quiet, as it does also if that is why.
func (t *Table) refused(s *session, number uint64, why Reason, e *entry) Event {
	s.results[number] = result{what: Refused, refused: why}
	r := Event{What: Refused, Session: s.id, Number: number, Reason: why}
	if e != nil || why == Quiet {
		r.Quiet = t.Quiet()
	}
	if e != nil {
		if h := e.holders.first(); h != nil {
			r.Holder, r.Token = h.session.name, h.token
		}
		if why == InUse {
			u := e.uses.first()
			r.Holder, r.Token = u.user, u.stamp
		}
	}
	return r
}

// dismiss refuses a request that waits, and returns the event: see refused.
func (t *Table) dismiss(r *request, why Reason, e *entry) Event {
	t.remove(r)
	r.session.ended(r, result{what: Refused, refused: why})
	return t.refused(r.session, r.number, why, e)
}

// mix folds v into the hash h.
func mix(h, v uint64) uint64 {
	h = (h ^ v) * 0x9e3779b97f4a7c15
	return h ^ h>>29
}
