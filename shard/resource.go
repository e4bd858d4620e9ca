package shard

import (
	"cmp"
	"container/heap"
	"slices"
	"time"

	"github.com/lockmesh/mesh/internal/wire"
)

// A resource is a key with operations instead of locks (P39). One operation runs at a time, in the order of the
// key's queue. What succeeded is remembered for a while: who asks for it then skips it. And the resource knows who
// uses it: who has pulled it, or skipped a pull, and has not dropped that use. A Once is a resource of its own kind, with
// one operation, a Run, and no uses (P43).

// Op is what an operation does with a resource. The numbers are sent over the network: append only.
type Op uint8

// The operations.
const (
	Pull   Op = iota // bring it here: the session uses it afterwards
	Update           // change it
	Delete           // remove it
	Run              // do what is done once: the only one of a Once

	lastOp = Run
)

func (o Op) String() string { return [...]string{"pull", "update", "delete", "run"}[o] }

// kind returns the kind of a key that has this operation.
func (o Op) kind() Kind {
	if o == Run {
		return Once
	}
	return Resource
}

// Operation is what a Begin asks for.
type Operation struct {
	Op        Op
	Version   string        // of two operations with different ones, neither makes the other superfluous
	User      string        // Pull: the name under which the session uses the resource afterwards
	Durable   bool          // Pull: the use outlives the session
	Alone     bool          // it must not run while anybody uses the resource
	Retention time.Duration // for how long a success is remembered at least
	Attempts  uint64        // Run: refused once so many have failed; zero: never
}

// Begin asks for the turn of an operation on a resource. It opens the session's record. It is Granted: the session
// carries the operation out, and sends an End. Or it is Skipped: that was done already. It may wait for either.
// Refused with InUse: the operation is to run Alone, and the resource is used; with Failed: see Attempts.
type Begin struct {
	Call
	TTL  time.Duration // of the session
	Name string        // of the client's node, to show to waiters
	Key  string
	Operation
}

// End ends the operation that Token names, and says whether it failed. After a Pull that did not fail, the answer
// has the stamp of the session's use.
type End struct {
	Call
	Key    string
	Token  uint64
	Failed bool
}

// Drop ends a user's uses of a resource: the session's own, unless it was stamped after Stamp; a durable one that outlived its
// session, unless it was stamped after Lone; and those of the same node's sessions that Lost names. A use with the stamp Vain was made for
// nobody: it also ends if it has outlived its session, and stands for no other. Drop opens the session's record.
type Drop struct {
	Call
	TTL   time.Duration
	Name  string
	Key   string
	User  string
	Stamp uint64
	Lone  uint64
	Vain  uint64   // zero: there is none
	Lost  []uint64 // numbers of sessions that the client has given up, and whose records may live
}

func (Begin) number() uint64 { return wireBegin }
func (End) number() uint64   { return wireEnd }
func (Drop) number() uint64  { return wireDrop }

// Walk goes on with the queue of a resource whose waiters were too many to be answered in one step.
type Walk struct {
	Key  string
	Term uint64
}

func (Walk) number() uint64 { return wireWalk }

// maxWalk is how many waiters of a resource one step answers, at most.
const maxWalk = 256

// MaxLost is how many earlier sessions a Drop names, at most.
const MaxLost = 16

// maxForgotten is how many resources one step forgets, at most.
const maxForgotten = 64

// resource is the part of an entry that only keys have of which something is remembered: resources, Onces and latches.
type resource struct {
	done [lastOp + 1]*completion // what is remembered, by operation; nil: nothing
	uses list[*use]              // in the order of their stamps
	by   map[useID]*use
	peak int // of by, for shrink

	failures uint64 // of a Once: the Runs that failed or were lost since the last success, or since the key came into use
	arrivals        // of a latch that is not open

	forgetAt time.Duration // when the next completion is forgotten, or a latch's arrivals are, in table time; zero: neither is due
	index    int           // in the table's memories, if it is there
	walking  bool          // it is among the table's walks
}

// completion is an operation that succeeded.
type completion struct {
	version   string
	at, until time.Duration // when, and for how long it is remembered, in table time
}

// use is one user's use of a resource, through one session.
type use struct {
	place[*use]
	useID
	entry   *entry
	session *session // nil: a durable use whose session has ended
	durable bool
	several bool   // it has outlived its session, and stands for those of several
	stamp   uint64 // the revision at which it began, or was confirmed last
}

// useID names a use: a user may use a resource through several sessions. The session is zero for a durable use that
// outlived its own.
type useID struct {
	user    string
	session SessionID
}

func (e *entry) used() bool { return e.uses.len > 0 }

// idle reports whether nothing need be known of e any more.
func (e *entry) idle() bool {
	return e.holders.len == 0 && e.queue.len == 0 && (e.resource == nil || e.uses.len == 0 && e.forgetAt == 0)
}

// operate queues an operation, or answers it if it need not wait.
func (t *Table) operate(c Begin, tag string, out []Event) []Event {
	s, out := t.begin(c.Call, &opening{c.TTL, c.Name}, out)
	if s == nil {
		return out
	}
	out, known := t.again(s, c.Number, tagID{c.Key, tag}, want{c.Op.kind(), 1, 1, &c.Operation}, out)
	if known {
		return out
	}
	e := t.open(c.Key, c.Op.kind(), 1)
	refuse := Reason(0)
	if e.kind != c.Op.kind() {
		refuse = Capacity
	} else if _, no := t.verdict(e, &c.Operation); t.settles == 0 && no == InUse && c.Op != Pull {
		refuse = InUse // it need not wait to hear that
	} else if e.queue.len >= MaxWaiters || c.Op == Pull && e.uses.len >= MaxUses && e.by[useID{c.User, s.id}] == nil {
		refuse = Crowded
	}
	if refuse != 0 {
		out = append(out, t.refused(s, c.Number, refuse, e))
		t.sweep(e)
		return out
	}
	return t.enqueue(&request{entry: e, session: s, number: c.Number, weight: 1, entered: t.revision, op: &c.Operation}, tag, out)
}

// verdict says what becomes of an operation, were it its turn: it is skipped, or refused; if neither, it runs. A pull that must not run while the resource is used
// goes by the last pull for as long as that is so.
func (t *Table) verdict(e *entry, o *Operation) (skipped bool, no Reason) {
	d := e.done[o.Op]
	switch {
	case d != nil && d.version == o.Version && (t.now < d.until || e.keeps() || o.Op == Pull && o.Alone && e.used()):
		return true, 0
	case o.Attempts > 0 && e.failures >= o.Attempts:
		return false, Failed
	case o.Alone && e.used():
		return false, InUse
	}
	return false, 0
}

// walk answers the waiters of a resource on which no operation runs, from the head of its queue on, until one is
// to run.
func (t *Table) walk(e *entry, out []Event) []Event {
	for n := 0; e.due(); n++ {
		if n == maxWalk {
			if !e.walking {
				e.walking = true
				t.walks = append(t.walks, e)
			}
			return out
		}
		r := e.queue.first()
		switch skipped, no := t.verdict(e, r.op); {
		case skipped:
			out = t.skip(r, out)
		case no != 0:
			out = append(out, t.dismiss(r, no, e))
		default:
			out = t.admit(r, out)
			t.overrule(e, r.op.Op)
		}
	}
	if e.walking {
		t.walks = slices.DeleteFunc(t.walks, func(o *entry) bool { return o == e })
		if e.walking = false; e.kind != Resource {
			t.forget(e)
		}
	}
	return out
}

// overrule forgets what an operation that begins makes doubtful, whether or not it will succeed: all but an update, if
// it is a pull.
func (t *Table) overrule(e *entry, by Op) {
	for o := range e.done {
		if by != Pull || Op(o) != Update {
			e.done[o] = nil
		}
	}
	t.remind(e)
}

// skip answers a waiter that what it asks for was done.
func (t *Table) skip(r *request, out []Event) []Event {
	e, s, d := r.entry, r.session, r.entry.done[r.op.Op]
	t.revision++
	t.remove(r)
	if until := d.at + r.op.Retention; until > d.until {
		d.until = until
		t.remind(e)
	}
	if r.op.Op == Pull {
		t.stamp(e, s, r.op, t.revision)
	}
	s.results[r.number] = result{what: Skipped, token: t.revision}
	s.ended(r, s.results[r.number])
	told := Event{What: Skipped, Session: s.id, Number: r.number, Token: t.revision}
	if e.kind != Resource {
		told.Quiet = max(d.until-t.now, time.Millisecond)
	}
	return append(out, told)
}

// finish ends an operation.
func (t *Table) finish(c End, out []Event) []Event {
	s, out := t.begin(c.Call, nil, out)
	if s == nil {
		return out
	}
	r := s.holds[c.Token]
	if r == nil && t.mend(s, c.Token) { // it is free already, and has failed
		return t.isBroken(s, c.Number, c.Token, out)
	}
	if r == nil || r.entry.key != c.Key || r.op == nil {
		return append(out, t.refused(s, c.Number, Lost, nil))
	}
	t.mend(s, c.Token)
	e, stamp := r.entry, uint64(0)
	t.keepEntry(e)
	if !c.Failed {
		e.failures = 0
		e.done[r.op.Op] = &completion{r.op.Version, t.now, t.now + r.op.Retention}
		t.remind(e)
		if r.op.Op == Pull {
			stamp = t.revision
			t.stamp(e, s, r.op, stamp)
		}
	} else {
		t.fails(r)
	}
	s.results[c.Number] = result{what: Done, token: stamp}
	s.ended(r, result{what: Done, token: r.token})
	out = append(out, Event{What: Done, Session: s.id, Number: c.Number, Token: stamp})
	return t.drop(r, out)
}

// stamp makes a session use a resource, or confirms that it does.
func (t *Table) stamp(e *entry, s *session, o *Operation, stamp uint64) {
	t.keepEntry(e)
	u := e.by[useID{o.User, s.id}]
	if u == nil {
		u = &use{useID: useID{o.User, s.id}, entry: e}
		e.by[u.useID] = u
		u.of(s)
	} else {
		e.uses.remove(&u.place)
	}
	u.durable = u.durable || o.Durable
	u.stamp = max(u.stamp, stamp)
	e.enlist(u)
}

// of makes u a use of a session.
func (u *use) of(s *session) {
	u.session = s
	if s.uses == nil {
		s.uses = make(map[*use]bool)
	}
	s.uses[u] = true
}

// enlist puts a use in its place among the others. As a rule it is the last: its stamp is the latest.
func (e *entry) enlist(u *use) {
	last := e.uses.tail
	if e.uses.push(u, &u.place); last != nil && inOrderOfStamps(last.value, u) > 0 {
		e.uses.sort(inOrderOfStamps)
	}
}

// unuse carries out a Drop.
func (t *Table) unuse(c Drop, out []Event) []Event {
	s, out := t.begin(c.Call, &opening{c.TTL, c.Name}, out)
	if s == nil {
		return out
	}
	out = append(out, s.done(c.Number))
	e := t.find(c.Key)
	if e == nil || e.kind != Resource {
		return out
	}
	t.keepEntry(e)
	if u := e.by[useID{c.User, s.id}]; u != nil && u.stamp <= c.Stamp {
		t.lapse(u)
	}
	if u := e.by[useID{user: c.User}]; u != nil && (u.stamp <= c.Lone || u.stamp == c.Vain && !u.several) {
		t.lapse(u)
	}
	for _, n := range c.Lost {
		if u := e.by[useID{c.User, SessionID{c.Session.Node, n}}]; u != nil {
			t.lapse(u)
		}
	}
	t.forget(e)
	t.sweep(e)
	return out
}

// lapse ends a use. The caller then forgets and sweeps.
func (t *Table) lapse(u *use) {
	e := u.entry
	t.keepEntry(e)
	e.uses.remove(&u.place)
	delete(e.by, u.useID)
	e.by = shrink(e.by, &e.peak)
	if u.session != nil {
		delete(u.session.uses, u)
	}
}

// endUses ends the uses of a session that ends, in the order of their stamps. The durable ones stay.
func (t *Table) endUses(s *session) {
	for _, u := range s.usesInOrder() {
		e := u.entry
		t.lapse(u)
		if u.durable {
			t.outlive(u)
		}
		t.forget(e)
		t.sweep(e)
	}
}

func (s *session) usesInOrder() []*use {
	all := make([]*use, 0, len(s.uses))
	for u := range s.uses { // order-free: sorted below
		all = append(all, u)
	}
	slices.SortFunc(all, inOrderOfStamps)
	return all
}

// outlive keeps a durable use whose session has ended.
func (t *Table) outlive(u *use) {
	e, id := u.entry, useID{user: u.user}
	if o := e.by[id]; o != nil {
		u.several = u.several || o.several || o.stamp != u.stamp
		u.stamp = max(u.stamp, o.stamp)
		t.lapse(o)
	}
	u.useID, u.session = id, nil
	e.by[id] = u
	e.enlist(u)
}

// inOrderOfStamps compares uses by their stamps; any two uses differ.
func inOrderOfStamps(a, b *use) int {
	return cmp.Or(cmp.Compare(a.stamp, b.stamp), cmp.Compare(a.entry.key, b.entry.key), cmp.Compare(a.user, b.user), a.useID.session.Compare(b.useID.session))
}

// forget forgets what a resource need not remember any more.
func (t *Table) forget(e *entry) {
	t.keepEntry(e)
	for o := range e.done {
		if !e.remembers(Op(o), t.now) {
			e.done[o] = nil
		}
	}
	if len(e.names) > 0 && t.now >= e.forgottenAt() && e.queue.len == 0 {
		e.arrivals = arrivals{}
	}
	t.remind(e)
}

// outlasts reports whether a success of o is remembered although its time is over.
func (e *entry) outlasts(o Op) bool { return o == Pull && e.used() || e.keeps() }

// remind notes when a completion of e, or its arrivals, are to be forgotten next.
func (t *Table) remind(e *entry) {
	was := e.forgetAt
	e.forgetAt = 0
	for o, d := range e.done {
		if d != nil && (t.now < d.until || !e.outlasts(Op(o))) && (e.forgetAt == 0 || d.until < e.forgetAt) {
			e.forgetAt = d.until
		}
	}
	if len(e.names) > 0 && (t.now < e.forgottenAt() || e.queue.len == 0) {
		e.forgetAt = e.forgottenAt()
	}
	switch {
	case was == 0 && e.forgetAt != 0:
		heap.Push(&t.memories, e)
	case was != 0 && e.forgetAt == 0:
		heap.Remove(&t.memories, e.index)
	case was != e.forgetAt:
		heap.Fix(&t.memories, e.index)
	}
}

// pass lets table time pass: completions are forgotten.
func (t *Table) pass() {
	for range maxForgotten {
		if len(t.memories) == 0 || t.now < t.memories[0].forgetAt {
			return
		}
		e := t.memories[0]
		t.forget(e)
		t.sweep(e)
	}
}

// Walks returns a resource whose waiters a Walk is to answer, or "".
func (t *Table) Walks() string {
	if len(t.walks) == 0 {
		return ""
	}
	return t.walks[0].key
}

// Ref is a use of a resource, as Refs tells of it.
type Ref struct {
	User    string
	Durable bool
	Stamp   uint64
}

// Fields is a list of its own.
func (u *Ref) Fields(c *wire.Codec) {
	t := c.Begin()
	c.String(&u.User, MaxName)
	c.Bool(&u.Durable)
	c.Uint(&u.Stamp, anyUint)
	c.End(t)
}

// Users returns each user of uses once, in the order of their last pulls: durable if one of its uses is.
func Users(uses []Ref) (users []Ref) {
	for _, u := range slices.Backward(uses) {
		if i := slices.IndexFunc(users, func(o Ref) bool { return o.User == u.User }); i < 0 {
			users = append(users, u)
		} else {
			users[i].Durable = users[i].Durable || u.Durable
		}
	}
	slices.Reverse(users)
	return users
}

// Refs returns the uses of a resource after a stamp, in their order, at most limit of them, and whether there are
// more. A user that uses it through several sessions has several.
func (t *Table) Refs(key string, after uint64, limit int) (refs []Ref, more bool) {
	e := t.keys[key]
	if e == nil || e.resource == nil {
		return nil, false
	}
	for u := e.uses.first(); u != nil; u = u.place.next() {
		switch {
		case u.stamp <= after:
		case len(refs) == limit:
			return refs, true
		default:
			refs = append(refs, Ref{u.user, u.durable, u.stamp})
		}
	}
	return refs, false
}

// Durable is a durable use of a resource.
type Durable struct {
	Key, User string
	Stamp     uint64
	Several   bool // it stands for uses of several sessions
}

// Durables returns the durable uses, in the order of their stamps.
func (t *Table) Durables() (all []Durable) {
	for e := t.entries.first(); e != nil; e = e.place.next() {
		if e.resource == nil {
			continue
		}
		for u := e.uses.first(); u != nil; u = u.place.next() {
			if u.durable {
				all = append(all, Durable{e.key, u.user, u.stamp, u.several})
			}
		}
	}
	slices.SortFunc(all, func(a, b Durable) int {
		return cmp.Or(cmp.Compare(a.Stamp, b.Stamp), cmp.Compare(a.Key, b.Key), cmp.Compare(a.User, b.User))
	})
	return all
}

// memories is a heap of resources that remember something, the first to forget it first.
type memories []*entry

func (m memories) Len() int { return len(m) }

func (m memories) Less(i, j int) bool {
	return cmp.Or(cmp.Compare(m[i].forgetAt, m[j].forgetAt), cmp.Compare(m[i].key, m[j].key)) < 0
}

func (m memories) Swap(i, j int) {
	m[i], m[j] = m[j], m[i]
	m[i].index, m[j].index = i, j
}

func (m *memories) Push(x any) {
	e := x.(*entry)
	e.index = len(*m)
	*m = append(*m, e)
}

func (m *memories) Pop() any {
	last := len(*m) - 1
	e := (*m)[last]
	(*m)[last] = nil
	*m = (*m)[:last]
	return e
}

func (o *Operation) fields(c *wire.Codec) {
	t := c.Begin()
	wire.Number(c, &o.Op, uint64(lastOp))
	c.String(&o.Version, MaxVersion)
	c.String(&o.User, MaxName)
	c.Bool(&o.Durable)
	c.Bool(&o.Alone)
	duration(c, &o.Retention)
	if o.Op == Run {
		c.Uint(&o.Attempts, anyUint)
	}
	c.Check(o.Op != Run || o.Version == "" && !o.Alone, "a run of a version, or alone")
	c.Check(o.Op != Pull || o.User != "", "a pull without a user")
	c.Check(o.Op == Pull || o.User == "" && !o.Durable, "a use without a pull")
	c.End(t)
}

func (a *Begin) fields(c *wire.Codec) {
	openingFields(c, &a.Call, &a.TTL, &a.Name)
	key(c, &a.Key)
	a.Operation.fields(c)
}

func (a *End) fields(c *wire.Codec) {
	a.Call.fields(c)
	key(c, &a.Key)
	c.Uint(&a.Token, anyUint)
	c.Bool(&a.Failed)
}

func (a *Drop) fields(c *wire.Codec) {
	openingFields(c, &a.Call, &a.TTL, &a.Name)
	key(c, &a.Key)
	c.String(&a.User, MaxName)
	c.Check(a.User != "", "a use of nobody")
	c.Uint(&a.Stamp, anyUint)
	c.Uint(&a.Lone, anyUint)
	c.Uint(&a.Vain, anyUint)
	uints(c, &a.Lost, MaxLost)
}

func (a *Remember) fields(c *wire.Codec) {
	openingFields(c, &a.Call, &a.TTL, &a.Name)
	key(c, &a.Key)
	c.String(&a.User, MaxName)
	c.Check(a.User != "", "a use of nobody")
	c.Uint(&a.Stamp, maxKnown)
	c.Check(a.Stamp != 0, "a use without a stamp")
	c.Bool(&a.Several)
}

func (a *Walk) fields(c *wire.Codec) {
	key(c, &a.Key)
	c.Uint(&a.Term, anyUint)
}
