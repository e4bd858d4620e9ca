package shard

import (
	"slices"
	"time"

	"github.com/lockmesh/mesh/internal/wire"
)

// A request waits within a grant if its caller's context comes from that one (P37). Whoever waits for the grant then waits for the
// request, too: a circle of such waits is a deadlock (P50). A table knows what each request waits within, and tells who waits within
// which grants. It decides nothing by that.

// Limits of what is known of a wait.
const (
	MaxWithin = 16  // grants that one request waits within; at least one
	MaxAsked  = 256 // grants that one Inspection asks for

	maxHolding = 64   // holders of its key that are told with a wait, those of the lowest tokens
	maxShards  = 4096 // of a mesh
)

// Grant names a grant in any shard of the mesh: a token is one grant of a shard, and others may have the same one.
type Grant struct {
	Shard int
	Token uint64
}

// Within is an Acquire that is no Try, a Begin, or the Report of a place in a queue, of a caller whose context comes from these grants. If
// the request waits, the table keeps them with it until it is granted or withdrawn. It is answered as its Command is.
type Within struct {
	Command
	Grants  []Grant
	Detects bool // its caller wants to know of a deadlock
}

func (Within) number() uint64 { return wireWithin }

func (a Within) client() (SessionID, uint64) { return ClientOf(a.Command) }

// Bare returns a command without what it waits within.
func Bare(cmd Command) Command {
	if w, ok := cmd.(Within); ok {
		return w.Command
	}
	return cmd
}

// scope is what a request waits within.
type scope struct {
	grants  []Grant
	detects bool
	links   []place[*request] // by grant, in the lists of Table.scopes
}

// Wait is a request that waits within one of the grants that were asked for.
type Wait struct {
	Session  SessionID
	Number   uint64
	Name     string // of its node
	Key      string
	Needs    int64 // at least so much of the key must be free before the request is granted: the larger of its own share and the share of the queue's head
	Capacity int64 // of the key
	Within   []Grant
	Detects  bool
	Holders  []Holding // of the key

	Silent time.Duration // for how long the leader has not heard of the session; MaxDuration: not since it leads. A table leaves it zero
}

// Holding is a hold of a key that others wait for.
type Holding struct {
	Token  uint64
	Weight int64
	Name   string // of its node
}

// within carries out the command, and notes what the request waits within, if it does wait.
func (t *Table) within(c Within, out []Event) []Event {
	out = t.ask(c.Command, "", out)
	id, number := ClientOf(c.Command)
	if s := t.sessions[id]; s != nil {
		if r := s.requests[number]; r != nil && r.token == 0 && r.scope == nil {
			t.keepEntry(r.entry)
			r.scope = &scope{grants: c.Grants, detects: c.Detects}
			t.link(r)
		}
	}
	return out
}

// link enters a request that waits into the lists of the grants that it waits within.
func (t *Table) link(r *request) {
	in := r.scope
	if in == nil {
		return
	}
	in.links = make([]place[*request], len(in.grants))
	for i, g := range in.grants {
		l := t.scopes[g]
		if l == nil {
			l = new(list[*request])
			t.scopes[g] = l
		}
		l.push(r, &in.links[i])
	}
}

// unlink forgets what a request waits within: it is granted, or is withdrawn.
func (t *Table) unlink(r *request) {
	in := r.scope
	if in == nil {
		return
	}
	for i, g := range in.grants {
		if l := t.scopes[g]; l.len > 1 {
			l.remove(&in.links[i])
		} else {
			delete(t.scopes, g)
			t.scopes = shrink(t.scopes, &t.peaks.scopes)
		}
	}
	r.scope = nil
}

// waits tells who waits within some grants.
func (p *page) waits(grants []Grant) {
	told := make(map[*request]bool)
	for _, g := range grants {
		l := p.t.scopes[g]
		if l == nil {
			continue
		}
		for r := l.first(); r != nil; r = r.scope.after(g) {
			if p.visits++; p.full() || p.visits >= maxVisits {
				p.More = true
				return
			}
			if !told[r] {
				told[r] = true
				p.Waits = append(p.Waits, p.wait(r))
			}
		}
	}
}

// after returns the next request that waits within g, or nil.
func (in *scope) after(g Grant) *request {
	for i := range in.grants {
		if in.grants[i] == g {
			return in.links[i].next()
		}
	}
	return nil
}

func (p *page) wait(r *request) Wait {
	e := r.entry
	w := Wait{
		Session: r.session.id, Number: r.number, Name: r.session.name, Key: e.key, Needs: max(r.weight, e.queue.first().weight), Capacity: e.capacity,
		Within: r.scope.grants, Detects: r.scope.detects,
	}
	if e.kind == Barrier {
		w.Needs = e.capacity // the round before must be over
	}
	p.tell(len(w.Name) + len(w.Key) + 16*len(w.Within))
	for h := e.holders.first(); h != nil && len(w.Holders) < maxHolding; h = h.place.next() {
		w.Holders = append(w.Holders, Holding{h.token, h.weight, h.session.name})
		p.tell(len(h.session.name))
	}
	return w
}

func (a *Within) fields(c *wire.Codec) {
	grants(c, &a.Grants, MaxWithin)
	c.Check(len(a.Grants) > 0, "within nothing")
	c.Bool(&a.Detects)
	contained(c, &a.Command)
	switch cmd := a.Command.(type) {
	case Acquire:
		c.Check(!cmd.Try, "a try that waits")
	case Begin:
	case Report:
		c.Check(cmd.Token == 0, "a hold that waits")
	default:
		c.Fail("another command that waits")
	}
}

// within is the last part of the image of a request that waits, if it waits within anything.
func (q *requestImage) within(c *wire.Codec) {
	in := q.scope
	if in == nil {
		in = &scope{}
	}
	grants(c, &in.grants, MaxWithin)
	c.Check(len(in.grants) > 0, "within nothing")
	c.Bool(&in.detects)
	q.scope = in
}

// grants is a list of grants: what a request waits within names none twice.
func grants(c *wire.Codec, all *[]Grant, limit int) {
	n := c.Array(2*len(*all), 2*limit)
	c.Check(n%2 == 0, "part of a grant")
	if c.Reads() && n > 0 {
		*all = make([]Grant, n/2)
	}
	for i := range *all {
		g := &(*all)[i]
		wire.Number(c, &g.Shard, maxShards-1)
		c.Uint(&g.Token, maxRevision)
		c.Check(g.Token != 0, "a grant without a token")
		c.Check(limit > MaxWithin || !slices.Contains((*all)[:i], *g), "a grant twice")
	}
}

func (p *Page) fieldsOfWaits(c *wire.Codec) {
	waits := wire.List(c, &p.Waits, maxPage)
	c.Check(len(waits) > 0, "nobody who waits")
	for i := range waits {
		waits[i].fields(c)
	}
}

func (w *Wait) fields(c *wire.Codec) {
	t := c.Begin()
	w.Session.Fields(c)
	c.Uint(&w.Number, anyUint)
	c.String(&w.Name, MaxName)
	key(c, &w.Key)
	wire.Number(c, &w.Needs, MaxWeight)
	wire.Number(c, &w.Capacity, MaxWeight)
	grants(c, &w.Within, MaxWithin)
	c.Bool(&w.Detects)
	for i := range wire.List(c, &w.Holders, maxHolding) {
		h := &w.Holders[i]
		t := c.Begin()
		c.Uint(&h.Token, anyUint)
		wire.Number(c, &h.Weight, MaxWeight)
		c.String(&h.Name, MaxName)
		c.End(t)
	}
	duration(c, &w.Silent)
	c.End(t)
}
