package shard

import (
	"slices"
	"time"

	"github.com/lockmesh/mesh/internal/wire"
)

// The capacity of a semaphore may be changed while it is in use (P38). Nobody is evicted for that: what is held may be more than the new
// capacity, and then nothing is granted until it fits. Programs learn of the new capacity one after the other, so the former ones are
// accepted from callers until the key is idle.

// maxFormer is how many former capacities of a semaphore a table accepts, the latest.
const maxFormer = 8

// Resize changes the capacity of a semaphore from From to To. It is Done if that was so, if the capacity is To already, or if the key is
// not in use, and so has none. Refused with Capacity, and nothing is changed: the key is something else, or has another capacity, which
// the first answer says. Refused with Quiet: the table grants nothing yet, and nobody has reported the key so far. It opens the session's record.
type Resize struct {
	Call
	TTL      time.Duration // of the session
	Name     string        // of the client's node
	Key      string
	From, To int64
}

func (Resize) number() uint64 { return wireResize }

// resize carries out a Resize.
func (t *Table) resize(c Resize, out []Event) []Event {
	s, out := t.begin(c.Call, &opening{c.TTL, c.Name}, out)
	if s == nil {
		return out
	}
	e := t.find(c.Key)
	switch {
	case e == nil && t.settles != 0:
		return append(out, t.refused(s, c.Number, Quiet, nil))
	case e != nil && e.kind != Semaphore:
		return append(out, t.refused(s, c.Number, Capacity, e))
	case e != nil && e.capacity != c.From && e.capacity != c.To:
		no := t.refused(s, c.Number, Capacity, e)
		no.Capacity = e.capacity
		return append(out, no)
	}
	out = append(out, s.done(c.Number))
	if e == nil || e.capacity == c.To {
		return out
	}
	if t.observe != nil {
		t.observe(Decision{
			What: Resized, Revision: t.revision, Key: c.Key, Session: s.id, Number: c.Number, Kind: e.kind, From: e.capacity, Capacity: c.To, Settling: t.settles != 0,
		})
	}
	t.keepEntry(e)
	e.keepSizes()
	e.formerly(e.capacity)
	e.become(c.To)
	out = t.refuseLarge(e, out)
	out = t.grant(e, out)
	t.sweep(e)
	return out
}

// accepts reports whether a caller may name this capacity.
func (e *entry) accepts(capacity int64) bool {
	return e.capacity == capacity || slices.Contains(e.former, capacity)
}

// formerly notes a capacity that callers may still name.
func (e *entry) formerly(capacity int64) {
	e.former = append(e.former[max(0, len(e.former)+1-maxFormer):], capacity)
}

// become makes a capacity the present one.
func (e *entry) become(capacity int64) {
	e.capacity = capacity
	e.former = slices.DeleteFunc(e.former, func(f int64) bool { return f == capacity })
}

// keepSizes notes in each hold the capacity of its grant, as that of the key is about to change.
func (e *entry) keepSizes() {
	for r := e.holders.first(); r != nil; r = r.place.next() {
		r.size = r.grantedOf()
	}
}

// grantedOf is the capacity of which the hold was granted.
func (r *request) grantedOf() int64 {
	if r.size != 0 {
		return r.size
	}
	return r.entry.capacity
}

// refuseLarge refuses the requests that wait for more than there is.
func (t *Table) refuseLarge(e *entry, out []Event) []Event {
	for r := e.queue.first(); r != nil; {
		next := r.place.next()
		if r.weight > e.capacity {
			no := t.dismiss(r, Capacity, nil)
			no.Capacity = e.capacity
			out = append(out, no)
		}
		r = next
	}
	return out
}

// resized notes a capacity that is reported to a table which grants nothing yet. A Resize may be lost with the table before, and
// whoever has heard of it reports another capacity than who has not. The smallest one counts: never more is granted than any of them believes.
func (t *Table) resized(e *entry, capacity int64, out []Event) []Event {
	if e.accepts(capacity) {
		return out
	}
	e.keepSizes()
	if capacity > e.capacity {
		e.formerly(capacity)
		return out
	}
	e.formerly(e.capacity)
	e.become(capacity)
	return t.refuseLarge(e, out)
}

// holds reports whether a hold that is reported fits beside those that the table has. What is held at any time fits into the capacity of
// the last grant, as that was made only because it fitted; later Resizes change nothing of it.
func (e *entry) holds(c Report) bool {
	capacity, last := c.Capacity, c.Token
	for r := e.holders.first(); r != nil && e.kind == Semaphore; r = r.place.next() {
		if r.token > last {
			capacity, last = r.grantedOf(), r.token
		}
	}
	return e.taken+c.Weight <= capacity
}

// sizes is the part of a semaphore's image that says which capacities it had.
func (e *entry) sizes(c *wire.Codec) {
	for i := range wire.List(c, &e.former, maxFormer) {
		f := &e.former[i]
		wire.Number(c, f, MaxWeight)
		c.Check(*f >= 1 && *f != e.capacity && !slices.Contains(e.former[:i], *f), "a former capacity out of place")
	}
}

func (a *Resize) fields(c *wire.Codec) {
	openingFields(c, &a.Call, &a.TTL, &a.Name)
	key(c, &a.Key)
	wire.Number(c, &a.From, MaxWeight)
	wire.Number(c, &a.To, MaxWeight)
	c.Check(a.From >= 1 && a.To >= 1, "a semaphore without permits")
}
