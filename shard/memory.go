package shard

import (
	"time"

	"github.com/lockmesh/mesh/internal/wire"
)

// Recall tells a table that a Once has succeeded (P43), or that a latch is open (P44), in an earlier table of the shard, which its
// replicas have lost. Sessions that know of it say so, and replicas of the earlier table. It opens the session's record.
//
// It may come at any time: what has succeeded has succeeded. A Run that is under way by then goes on.
type Recall struct {
	Call
	TTL      time.Duration // of the session
	Name     string        // of the node
	Key      string
	Kind     Kind          // Once or Latch
	Capacity int64         // of the latch; of a Once it is 1
	Remains  time.Duration // for how much longer it is to be remembered
}

func (Recall) number() uint64 { return wireRecall }

// Memory is what a table remembers, and another one may be told: by an Arrive that Who has arrived at a latch; if Who is empty, by a
// Recall that the latch is open, or that a Once has succeeded.
type Memory struct {
	Key      string
	Kind     Kind
	Capacity int64
	Who      string
	Remains  time.Duration // for how much longer, at least; of an arrival: its retention, which begins anew where it is told
}

// Memories returns what the table remembers, in the order in which its keys came into use.
func (t *Table) Memories() (all []Memory) {
	for e := t.entries.first(); e != nil; e = e.place.next() {
		if e.kind != Once && e.kind != Latch {
			continue
		}
		if d := e.done[Run]; d != nil && t.now < d.until {
			all = append(all, Memory{e.key, e.kind, e.capacity, "", d.until - t.now})
		}
		for _, who := range e.names {
			all = append(all, Memory{e.key, e.kind, e.capacity, who, e.keep})
		}
	}
	return all
}

// recall carries out a Recall.
func (t *Table) recall(c Recall, out []Event) []Event {
	s, out := t.begin(c.Call, &opening{c.TTL, c.Name}, out)
	if s == nil {
		return out
	}
	e := t.open(c.Key, c.Kind, c.Capacity)
	if e.kind != c.Kind || e.capacity != c.Capacity {
		return append(out, t.refused(s, c.Number, Capacity, e))
	}
	t.keepEntry(e)
	d := e.done[Run]
	if d == nil {
		d = &completion{at: t.now}
		e.done[Run] = d
	}
	d.until = max(d.until, t.now+c.Remains)
	e.arrivals = arrivals{}
	t.remind(e)
	out = append(out, s.done(c.Number))
	out = t.grant(e, out)
	t.sweep(e)
	return out
}

// keeps reports whether what e remembers counts until those who wait are answered, though its time is over: all that waited skip,
// also if there are too many for one step, or the table may not answer them yet.
func (e *entry) keeps() bool {
	return e.kind == Once && e.walking || e.kind == Latch && e.queue.len > 0
}

// forsake forgets that something was done, or who arrived: a client whose clock is slow has told of that, and the key was something else
// already.
func (t *Table) forsake(e *entry) {
	if e.kind == Once || e.kind == Latch {
		t.keepEntry(e)
		e.done[Run], e.arrivals = nil, arrivals{}
		t.remind(e)
	}
}

func (a *Recall) fields(c *wire.Codec) {
	openingFields(c, &a.Call, &a.TTL, &a.Name)
	key(c, &a.Key)
	wire.Number(c, &a.Kind, uint64(lastKind))
	wire.Number(c, &a.Capacity, MaxMembers)
	duration(c, &a.Remains)
	c.Check((a.Kind == Once || a.Kind == Latch) && share(a.Kind, 1, a.Capacity) && a.Remains > 0, "nothing to remember")
}
