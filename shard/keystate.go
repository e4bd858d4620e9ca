package shard

import (
	"cmp"
	"strings"
	"time"

	"github.com/lockmesh/mesh/internal/wire"
)

// What a table tells of its keys (P48). Nothing here changes the table. An answer is a page: its work and its bytes are bounded,
// however long a queue is and however few keys match. The next page goes on behind a Cursor, which names the last element that was
// told, and its place in an order that all replicas of the generation have: it survives a change of leaders.

// Inspection says what is to be told: of one key, or of the keys with a prefix.
type Inspection struct {
	Key   string // the key, or the prefix, which may be empty
	List  bool   // the keys with this prefix that are in use, in the order in which they came into use
	Most  int    // of one key: how many elements each list of its KeyState has at most, with those of earlier pages
	After Cursor

	Within []Grant // MaxAsked at most; if there are any, the other fields here are zero, and only who waits within these is told
}

// Page is what a table tells in one answer.
type Page struct {
	Keys  []KeyState // one, or those of a list
	Quiet time.Duration
	Next  Cursor
	More  bool   // there may be more behind Next
	Again bool   // what the cursor named is gone, and nothing says where that was: the lists are to be read from the beginning
	Waits []Wait // some of those within the grants that were asked for; More: there are others, and they are not told
}

// KeyState is what is known of a key. The lists are those of a page, and the numbers count all that there are. A list of keys tells
// a few holders of each, and of the other lists only the numbers.
type KeyState struct {
	Key             string
	Used            bool // else it is not in use, and the rest is zero
	Kind            Kind
	Capacity, Taken int64
	Failures        uint64 // of a Once: its runs that failed or were lost, since one has succeeded

	Holding, Waiting, Using, Arrived int

	Holders  []Party // in the order of their tokens, once the table may grant; the one on a resource is the operation that runs
	Waiters  []Party // the next one first, once the table may grant
	Users    []Ref   // of a resource, in the order of their stamps
	Arrivals []string
	Done     []Remembered
}

// Party is a request that holds a key or waits for it.
type Party struct {
	Name     string // of its node or, if Guest, of the guest
	Guest    bool
	Token    uint64 // zero while it waits
	Weight   int64
	Value    []byte // of a holder; nobody may change it
	Sequence uint64 // of an election's leader: that of Value
	Op       Op     // on a resource or a Once
	Version  string
	Broken   bool // of a holder: an operator has broken that, and it is not free yet (P49)
}

// Remembered is an operation that is remembered as done.
type Remembered struct {
	Op      Op
	Version string
	Remains time.Duration // for how much longer, at least
}

// Cursor is where a page ended. The zero Cursor is the beginning.
type Cursor struct {
	Part     Part
	Born     uint64    // the revision at which the key came into use; of a list, at which that of the last one did
	Told     int       // how many elements of the part were told
	After    uint64    // the place of the last of them: its token, the revision at which it entered, its stamp, or their number
	Reported bool      // of a waiter: it was reported, and After is a revision of an earlier table
	Session  SessionID // whose request, or use, the walk goes on behind
	Number   uint64    // of a waiter: the request's number; of a holder: its token
	Key      string    // of a list: the last key; of users: the user
	At       string    // of a list: where the walk goes on, if that is before Key
}

// Part is a list of a KeyState.
type Part uint8

// The parts, in the order in which they are told.
const (
	theHolders Part = iota
	theUsers
	theArrivals
	theWaiters

	lastPart = theWaiters
)

// What one page costs at most.
const (
	maxPage      = 256      // elements
	maxPageBytes = 64 << 10 // bytes; beyond that no further element is begun
	maxVisits    = 4096     // elements that are looked at
	listHolders  = 4        // of each key of a list
)

// page is a Page in the making.
type page struct {
	Page
	t      *Table
	at     time.Duration // table time, as the leader counts
	told   int
	bytes  int
	visits int
}

// full reports whether no other element fits. One always does.
func (p *page) full() bool { return p.told >= maxPage || p.bytes >= maxPageBytes }

func (p *page) tell(bytes int) {
	p.told++
	p.bytes += bytes + 32
}

// Inspect tells what is known of a key, or of keys. At is table time, as the leader counts it.
func (t *Table) Inspect(q Inspection, at time.Duration) Page {
	p := page{t: t, at: max(at, t.now)}
	p.Quiet = t.quiet(p.at)
	switch {
	case len(q.Within) > 0:
		p.waits(q.Within)
	case q.List:
		p.list(q)
	default:
		p.one(q)
	}
	return p.Page
}

// known reports whether anything is known of e: what it remembers may be over, though no command has come since.
func (e *entry) known(at time.Duration) bool {
	if e.holders.len+e.queue.len > 0 || e.resource == nil || e.used() || len(e.names) > 0 && at < e.forgottenAt() {
		return true
	}
	for o := range e.done {
		if e.remembers(Op(o), at) {
			return true
		}
	}
	return false
}

// remembers reports whether an operation on e counts as done.
func (e *entry) remembers(o Op, at time.Duration) bool {
	d := e.done[o]
	return d != nil && (at < d.until || e.outlasts(o))
}

// arrived returns who has arrived at a latch that is not open.
func (e *entry) arrived(at time.Duration) []string {
	if e.resource == nil || at >= e.forgottenAt() && e.queue.len == 0 {
		return nil
	}
	return e.names
}

// describe tells what is not in a list.
func (p *page) describe(e *entry) KeyState {
	k := KeyState{Key: e.key, Used: true, Kind: e.kind, Capacity: e.capacity, Taken: e.taken, Holding: e.holders.len, Waiting: e.queue.len}
	p.bytes += len(e.key) + 32
	if e.resource == nil {
		return k
	}
	k.Using, k.Arrived, k.Failures = e.uses.len, len(e.arrived(p.at)), e.failures
	for o, d := range e.done {
		if e.remembers(Op(o), p.at) {
			k.Done = append(k.Done, Remembered{Op(o), d.version, max(d.until-p.at, 0)})
			p.bytes += len(d.version) + 16
		}
	}
	return k
}

func (p *page) party(r *request) Party {
	a := Party{Name: r.session.name, Guest: r.session.guest != nil, Token: r.token, Weight: r.weight}
	if r.token != 0 {
		a.Value, a.Sequence, a.Broken = r.value, r.sequence, r.broken()
	}
	if r.entry.kind.operates() {
		a.Op, a.Version = r.op.Op, r.op.Version
	}
	p.tell(len(a.Name) + len(a.Value) + len(a.Version))
	return a
}

// one tells of one key.
func (p *page) one(q Inspection) {
	e, c := p.t.keys[q.Key], q.After
	if e == nil || !e.known(p.at) || c.Born != 0 && c.Born != e.born {
		p.Keys = []KeyState{{Key: q.Key}} // with the key, all that was behind the cursor is gone
		return
	}
	p.Keys = []KeyState{p.describe(e)}
	k := &p.Keys[0]
	if c.Born == 0 {
		c = Cursor{Born: e.born}
	}
	for ; c.Part <= lastPart; c = (Cursor{Part: c.Part + 1, Born: e.born}) {
		done := true
		switch c.Part {
		case theHolders:
			done = walk(p, &e.holders, &c, q.Most, p.holder(e, c), func(r *request) bool { return p.passed(r.token <= c.After) }, func(r *request) {
				k.Holders = append(k.Holders, p.party(r))
				c.After = r.token
			}, func(r *request) { c.Session, c.Number = r.session.id, r.token })
		case theUsers:
			if e.resource == nil {
				continue
			}
			done = walk(p, &e.uses, &c, q.Most, p.user(e, c), func(u *use) bool { return u.stamp <= c.After }, func(u *use) {
				k.Users = append(k.Users, Ref{u.user, u.durable, u.stamp})
				p.tell(len(u.user))
				c.After = u.stamp
			}, func(u *use) { c.Session, c.Key = u.useID.session, u.user })
		case theArrivals:
			for i, who := range e.arrived(p.at) {
				if uint64(i) < c.After {
					continue
				}
				if done = i >= q.Most || !p.full(); i >= q.Most || !done {
					break
				}
				k.Arrivals = append(k.Arrivals, who)
				p.tell(len(who))
				c.After = uint64(i + 1)
			}
		case theWaiters:
			done = walk(p, &e.queue, &c, q.Most, p.waiter(e, c), func(r *request) bool {
				return p.passed(c.After != 0 && inTurn(r, &request{entered: c.After, reported: c.Reported}) <= 0)
			}, func(r *request) {
				k.Waiters = append(k.Waiters, p.party(r))
				c.After, c.Reported = r.entered, r.reported
			}, func(r *request) { c.Session, c.Number = r.session.id, r.number })
		}
		if !done {
			p.Next, p.More = c, true
			return
		}
		if p.Again {
			return
		}
	}
}

// passed reports whether a request is before the cursor, by its place. In a quiet table requests are not in the order of their
// places: there the walk goes on behind a request that is in the list, or begins again.
func (p *page) passed(before bool) bool { return before && p.t.settles == 0 }

// walk tells the elements of a list that are behind the cursor c: from hint on, if that is there, else from the first. It reports whether
// there is none left, or most are told.
func walk[T any](p *page, l *list[T], c *Cursor, most int, hint *place[T], passed func(T) bool, tell, visit func(T)) (done bool) {
	from := l.head
	switch begins := c.Told == 0; {
	case hint != nil:
		from = hint.succ
	case !begins && p.t.settles != 0, !begins && c.Part == theWaiters && c.After == 0:
		p.Again = true
		return true
	}
	for from != nil {
		v := from.value
		switch {
		case c.Told > 0 && passed(v):
		case c.Told >= most:
			return true
		case p.full():
			return false
		default:
			tell(v)
			c.Told++
		}
		visit(v)
		if p.visits++; p.visits >= maxVisits {
			return false
		}
		from = from.succ
	}
	return true
}

// holder returns the place of the holder that the cursor names, or nil.
func (p *page) holder(e *entry, c Cursor) *place[*request] {
	if s := p.t.sessions[c.Session]; s != nil {
		if r := s.holds[c.Number]; r != nil && r.entry == e {
			return &r.place
		}
	}
	return nil
}

// waiter returns the place of the waiter that the cursor names, or nil.
func (p *page) waiter(e *entry, c Cursor) *place[*request] {
	if s := p.t.sessions[c.Session]; s != nil {
		if r := s.requests[c.Number]; r != nil && r.entry == e && r.token == 0 {
			return &r.place
		}
	}
	return nil
}

// user returns the place of the use that the cursor names, or nil.
func (p *page) user(e *entry, c Cursor) *place[*use] {
	if u := e.by[useID{c.Key, c.Session}]; u != nil && u.stamp <= c.After {
		return &u.place
	}
	return nil
}

// list tells of keys.
func (p *page) list(q Inspection) {
	c := q.After
	from := p.t.entries.head
	if e := p.t.keys[cmp.Or(c.At, c.Key)]; e != nil && c.Born != 0 && inOrderOfBirth(e, c.Born, c.Key) <= 0 {
		from = e.place.succ
	}
	for ; from != nil; from = from.succ {
		e := from.value
		switch {
		case c.Born != 0 && inOrderOfBirth(e, c.Born, c.Key) <= 0:
			c.At = e.key // the last key that was told is not in use any more
		case p.full():
			p.Next, p.More = c, true
			return
		default:
			if strings.HasPrefix(e.key, q.Key) && e.known(p.at) {
				k := p.describe(e)
				for r := e.holders.first(); r != nil && len(k.Holders) < listHolders; r = r.place.next() {
					k.Holders = append(k.Holders, p.party(r))
				}
				p.Keys = append(p.Keys, k)
			}
			c = Cursor{Born: e.born, Key: e.key}
		}
		if p.visits++; p.visits >= maxVisits {
			p.Next, p.More = c, true
			return
		}
	}
}

// inOrderOfBirth compares e with the place of a key in the order of entries.
func inOrderOfBirth(e *entry, born uint64, key string) int {
	return cmp.Or(cmp.Compare(e.born, born), cmp.Compare(e.key, key))
}

// Fields is a list of its own.
func (q *Inspection) Fields(c *wire.Codec) {
	t := c.Begin()
	c.String(&q.Key, MaxKey)
	c.Bool(&q.List)
	wire.Number(c, &q.Most, MaxWaiters)
	q.After.fields(c)
	if len(q.Within) > 0 || c.Further(t) {
		grants(c, &q.Within, MaxAsked)
		c.Check(len(q.Within) > 0, "within nothing")
	}
	c.Check(q.List || q.Key != "" || len(q.Within) > 0, "an inspection without a key")
	c.End(t)
}

func (a *Cursor) fields(c *wire.Codec) {
	t := c.Begin()
	wire.Number(c, &a.Part, uint64(lastPart))
	c.Uint(&a.Born, anyUint)
	wire.Number(c, &a.Told, MaxWaiters)
	c.Uint(&a.After, anyUint)
	c.Bool(&a.Reported)
	a.Session.Fields(c)
	c.Uint(&a.Number, anyUint)
	c.String(&a.Key, MaxKey)
	c.String(&a.At, MaxKey)
	c.End(t)
}

// Fields is a list of its own.
func (p *Page) Fields(c *wire.Codec) {
	t := c.Begin()
	for i := range wire.List(c, &p.Keys, maxPageKeys) {
		p.Keys[i].fields(c)
	}
	wire.Number(c, &p.Quiet, uint64(MaxDuration))
	p.Next.fields(c)
	c.Bool(&p.More)
	c.Bool(&p.Again)
	if len(p.Waits) > 0 || c.Further(t) {
		p.fieldsOfWaits(c)
	}
	c.End(t)
}

// maxPageKeys is how many keys a page may have on the wire, and how many elements each of their lists: more than any table tells.
const maxPageKeys = 4096

func (k *KeyState) fields(c *wire.Codec) {
	t := c.Begin()
	c.String(&k.Key, MaxKey)
	c.Bool(&k.Used)
	wire.Number(c, &k.Kind, uint64(lastKind))
	wire.Number(c, &k.Capacity, MaxWeight)
	wire.Number(c, &k.Taken, MaxWeight)
	c.Uint(&k.Failures, anyUint)
	for _, n := range []*int{&k.Holding, &k.Waiting, &k.Using, &k.Arrived} {
		wire.Number(c, n, MaxWeight)
	}
	parties(c, &k.Holders)
	parties(c, &k.Waiters)
	for i := range wire.List(c, &k.Users, maxPageKeys) {
		k.Users[i].Fields(c)
	}
	for i := range wire.List(c, &k.Arrivals, maxPageKeys) {
		c.String(&k.Arrivals[i], MaxName)
	}
	for i := range wire.List(c, &k.Done, int(lastOp)+1) {
		d := &k.Done[i]
		t := c.Begin()
		wire.Number(c, &d.Op, uint64(lastOp))
		c.String(&d.Version, MaxVersion)
		wire.Number(c, &d.Remains, uint64(MaxDuration))
		c.End(t)
	}
	c.End(t)
}

func parties(c *wire.Codec, all *[]Party) {
	for i := range wire.List(c, all, maxPageKeys) {
		a := &(*all)[i]
		t := c.Begin()
		c.String(&a.Name, MaxName)
		c.Bool(&a.Guest)
		c.Uint(&a.Token, anyUint)
		wire.Number(c, &a.Weight, MaxWeight)
		c.Bytes(&a.Value, MaxValue)
		c.Uint(&a.Sequence, anyUint)
		wire.Number(c, &a.Op, uint64(lastOp))
		c.String(&a.Version, MaxVersion)
		c.Bool(&a.Broken)
		c.End(t)
	}
}
