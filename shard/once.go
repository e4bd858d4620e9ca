package shard

import (
	"cmp"
	"slices"
	"time"

	"github.com/lockmesh/mesh/internal/wire"
)

// Recall tells a table that a Once has succeeded, in an earlier table of the shard, which its replicas have lost (P43). Sessions
// that know of it say so, and replicas of the earlier table. It opens the session's record.
//
// It may come at any time: what has succeeded has succeeded. A Run that is under way by then goes on.
type Recall struct {
	Call
	TTL     time.Duration // of the session
	Name    string        // of the node
	Key     string
	Kind    Kind          // Once
	Remains time.Duration // for how much longer it is to be remembered
}

func (Recall) isCommand() {}

// Memory is what a table remembers, for a Recall.
type Memory struct {
	Key     string
	Kind    Kind
	Remains time.Duration
}

// Memories returns which Onces have succeeded, in the order of their keys.
func (t *Table) Memories() (all []Memory) {
	for _, e := range t.memories {
		if d := e.done[Run]; d != nil && t.now < d.until {
			all = append(all, Memory{e.key, e.kind, d.until - t.now})
		}
	}
	slices.SortFunc(all, func(a, b Memory) int { return cmp.Compare(a.Key, b.Key) })
	return all
}

// recall carries out a Recall.
func (t *Table) recall(c Recall, out []Event) []Event {
	s, out := t.begin(c.Call, &opening{c.TTL, c.Name}, out)
	if s == nil {
		return out
	}
	e := t.find(c.Key)
	switch {
	case e == nil:
		e = t.newEntry(c.Key, c.Kind, 1)
	case e.kind != c.Kind:
		return append(out, t.refused(s, c.Number, Capacity, e))
	}
	t.keepEntry(e)
	d := e.done[Run]
	if d == nil {
		d = &completion{at: t.now}
		e.done[Run] = d
	}
	d.until = max(d.until, t.now+c.Remains)
	t.remind(e)
	s.results[c.Number] = result{what: Done}
	out = append(out, Event{What: Done, Session: s.id, Number: c.Number})
	out = t.grant(e, out)
	t.sweep(e)
	return out
}

// keeps reports whether a success counts until those who wait are answered, though its time is over: all that waited for a Run
// skip it, also if there are too many for one step.
func (e *entry) keeps() bool { return e.kind == Once && e.walking }

// fails notes that a request of a Once ends without success. A Cancel is no failure: its caller never had its turn.
func (t *Table) fails(r *request) {
	if r.token != 0 && r.entry.kind == Once {
		t.keepEntry(r.entry)
		r.entry.failures++
	}
}

func (a *Recall) fields(c *wire.Codec) {
	a.Call.fields(c)
	duration(c, &a.TTL)
	c.String(&a.Name, MaxName)
	key(c, &a.Key)
	wire.Number(c, &a.Kind, uint64(lastKind))
	duration(c, &a.Remains)
	c.Check(a.Kind == Once && a.Remains > 0, "nothing to remember")
}
