package shard

import (
	"slices"

	"github.com/lockmesh/mesh/internal/wire"
)

// An election is a key with a leader and candidates (P46): a leadership is a hold of the whole key, a candidacy a request for it
// that waits its turn. A leader has a value: that of its Acquire, and then what it has proclaimed. Others may ask for
// both, and be told when they change.

// Proclaim gives the leader that Token names another value, unless it has one of a later Sequence: a late copy overwrites
// nothing. It is Done if the leader leads, and has this value, or has or had a later one.
type Proclaim struct {
	Call
	Key      string
	Token    uint64
	Sequence uint64 // counts the leader's Proclaims from 1
	Value    []byte
}

func (Proclaim) number() uint64 { return wireProclaim }

// Leader is the leader of an election, as others see it.
type Leader struct {
	Token    uint64 // of its leadership; zero: there is none
	Sequence uint64 // of its last Proclaim; zero: Value is that of its Acquire
	Value    []byte // nobody may change it
	Name     string // of its node
	Quiet    bool   // the table does not know: it grants nothing yet, and leaders may still be reported (P27)
}

// Same reports whether l and o are the same leader with the same value.
func (l Leader) Same(o Leader) bool {
	return l.Token == o.Token && l.Sequence == o.Sequence && l.Quiet == o.Quiet
}

// Leader returns the leader of an election. A key that is no election has none.
func (t *Table) Leader(key string) Leader {
	l := Leader{Quiet: t.settles != 0}
	e := t.keys[key]
	if e == nil || e.kind != Election || l.Quiet {
		return l
	}
	if r := e.holders.first(); r != nil {
		l.Token, l.Sequence, l.Value, l.Name = r.token, r.sequence, r.value, r.session.name
	}
	return l
}

// elect makes the first candidate the leader, if there is no leader.
func (t *Table) elect(e *entry, out []Event) []Event {
	if e.holders.len > 0 {
		return out
	}
	if e.due() {
		out = t.admit(e.queue.first(), out)
	}
	return e.led(out)
}

// led tells that the leader, or its value, may be another one, if e is an election.
func (e *entry) led(out []Event) []Event {
	if e.kind != Election {
		return out
	}
	return append(out, Event{What: Led, Key: e.key})
}

// proclaim carries out a Proclaim.
func (t *Table) proclaim(c Proclaim, out []Event) []Event {
	s, out := t.begin(c.Call, nil, out)
	if s == nil {
		return out
	}
	r := s.holds[c.Token]
	if r == nil || r.entry.key != c.Key || r.entry.kind != Election {
		return append(out, t.refused(s, c.Number, Lost, nil))
	}
	if r.broken() {
		return t.isBroken(s, c.Number, r.token, out)
	}
	out = append(out, s.done(c.Number))
	if c.Sequence <= r.sequence {
		return out
	}
	t.keepEntry(r.entry)
	r.sequence, r.value = c.Sequence, slices.Clone(c.Value)
	return r.entry.led(out)
}

func (a *Proclaim) fields(c *wire.Codec) {
	a.Call.fields(c)
	key(c, &a.Key)
	c.Uint(&a.Token, anyUint)
	c.Uint(&a.Sequence, anyUint)
	c.Check(a.Sequence != 0, "a proclamation without a sequence")
	c.Bytes(&a.Value, MaxValue)
}
