package core

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"hash/maphash"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/lockmesh/mesh/internal/env"
	"github.com/lockmesh/mesh/transport"
)

// tables are those of one world. Equal ones that were made out of the same are one, so that tables can
// be compared by address.
//
// They also know the renamings of the world's entries that map each of its lists to itself. Two states
// of which a renaming makes one of the other are explored as one. That is sound because a step knows
// entries and incarnations only by what they hold:
//
//   - Lists are compared as sets, and sorted. Where the order of a list or of IDs chooses (the voters
//     of a new generation, the seat that is given first), the model makes each choice, as a step.
//   - The shipped code compares IDs in one place, where two ballots have one round ([Ballot.Compare]).
//     IDs are random. So the model gives each ballot a round of its own, and where two proposers have
//     the same round in mind each order of them is a step: see ballots.
//
// TestModel compares the number of states with that of an exploration that renames nothing.
type tables struct {
	names     []string
	renamings []renaming // the first changes nothing

	mu       sync.Mutex
	interned map[string]*Table
	facts    sync.Map // *Table to *fact
}

// renaming is a permutation of entries.
type renaming struct {
	to, from []int
}

type fact struct {
	number  int
	parent  *Table
	renamed []atomic.Int32 // the number of the table that each renaming makes of it; zero: not known yet
}

func newTables(names, lists []string, plain bool) *tables {
	ts := &tables{names: names, interned: make(map[string]*Table)}
	var extend func(to []int)
	extend = func(to []int) {
		if plain && len(ts.renamings) > 0 {
			return
		}
		if len(to) < len(names) {
			for e := range names {
				if !slices.Contains(to, e) {
					extend(append(slices.Clone(to), e))
				}
			}
			return
		}
		r := renaming{to: to, from: make([]int, len(to))}
		for e, p := range to {
			r.from[p] = e
		}
		for _, l := range lists {
			for e, p := range to {
				if strings.Contains(l, names[e]) != strings.Contains(l, names[p]) {
					return
				}
			}
		}
		ts.renamings = append(ts.renamings, r)
	}
	extend(nil)
	return ts
}

// id returns the incarnation that a renaming makes of another.
func (r *renaming) id(id transport.ID) transport.ID {
	if id == 0 {
		return 0
	}
	n := len(r.to)
	e := int(id-1) % n
	return id + transport.ID(r.to[e]-e)
}

func (r *renaming) ids(ids []transport.ID) []transport.ID {
	if ids == nil {
		return nil
	}
	to := make([]transport.ID, len(ids))
	for i, id := range ids {
		to[i] = r.id(id)
	}
	slices.Sort(to)
	return to
}

func (r *renaming) ballot(b Ballot) Ballot { return Ballot{b.Round, r.id(b.By)} }

// intern returns the one Table with t's content and parent.
func (ts *tables) intern(t, parent *Table) *Table {
	key := string(ts.key(t, parent))
	ts.mu.Lock()
	defer ts.mu.Unlock()
	if o := ts.interned[key]; o != nil {
		return o
	}
	ts.interned[key] = t
	ts.facts.Store(t, &fact{number: len(ts.interned), parent: parent, renamed: make([]atomic.Int32, len(ts.renamings))})
	return t
}

// key returns what tells a table from others.
func (ts *tables) key(t, parent *Table) []byte {
	b := make([]byte, 0, 128)
	num := func(n uint64) { b = binary.AppendUvarint(b, n) }
	num(uint64(ts.number(parent)))
	num(t.Stamp.Roll.Round)
	num(uint64(t.Stamp.Roll.By))
	num(t.Stamp.Version)
	num(t.Mesh)
	num(uint64(t.Dropped))
	num(uint64(t.Params.MaxTTL) | uint64(t.Params.Raise)<<4 | uint64(t.Params.Longest)<<8)
	b = append(b, t.Was...)
	b = append(b, t.Ordered...)
	num(uint64(len(t.Seats)))
	for _, s := range t.Seats {
		b = append(b, s.Entry...)
		num(uint64(s.Node.ID))
		b = append(b, s.List...)
		num(0)
		if s.Unasked {
			num(1 << 20)
		}
		if s.Ended {
			num(1)
		}
	}
	for _, s := range t.Shards {
		num(s.Generation.Core.Round)
		num(uint64(s.Generation.Core.By))
		num(s.Generation.Number)
		num(s.Move)
		num(uint64(s.Quiet))
		if s.Calm {
			num(1 << 20)
		}
		num(uint64(len(s.Voters)))
		for _, id := range slices.Concat(s.Voters, s.Next) {
			num(uint64(id))
		}
		num(0)
	}
	return b
}

func (ts *tables) fact(t *Table) *fact {
	f, _ := ts.facts.Load(t)
	return f.(*fact)
}

// number returns a table's number, from 1; that of nil is 0.
func (ts *tables) number(t *Table) int {
	if t == nil {
		return 0
	}
	return ts.fact(t).number
}

func (ts *tables) parent(t *Table) *Table { return ts.fact(t).parent }

// descends reports whether t was made out of o, directly or by way of others.
func (ts *tables) descends(t, o *Table) bool {
	for ; t != nil; t = ts.parent(t) {
		if t == o {
			return true
		}
	}
	return false
}

// founded returns the table by which t's mesh was founded.
func (ts *tables) founded(t *Table) *Table {
	for o := ts.parent(t); o != nil; o = ts.parent(o) {
		t = o
	}
	return t
}

// renamed returns the number of the table that renaming number i makes of t.
func (ts *tables) renamed(t *Table, i int) int {
	if t == nil {
		return 0
	}
	f := ts.fact(t)
	if i == 0 {
		return f.number
	}
	n := f.renamed[i].Load()
	if n == 0 {
		n = int32(ts.number(ts.rename(t, i)))
		f.renamed[i].Store(n)
	}
	return int(n)
}

func (ts *tables) rename(t *Table, i int) *Table {
	if t == nil {
		return nil
	}
	r := &ts.renamings[i]
	n := *t
	n.Stamp.Roll, n.Dropped = r.ballot(t.Stamp.Roll), r.id(t.Dropped)
	n.Seats = make([]Seat, len(t.Seats))
	for p, s := range t.Seats {
		e := slices.Index(ts.names, s.Entry)
		n.Seats[p] = Seat{Entry: ts.names[r.to[e]], Node: env.Member{ID: r.id(s.Node.ID)}, List: s.List, Ended: s.Ended, Unasked: s.Unasked}
	}
	slices.SortFunc(n.Seats, func(a, b Seat) int { return cmp.Compare(a.Entry, b.Entry) })
	n.Shards = slices.Clone(t.Shards)
	for p := range n.Shards {
		s := &n.Shards[p]
		s.Generation.Core, s.Voters, s.Next = r.ballot(s.Generation.Core), r.ids(s.Voters), r.ids(s.Next)
	}
	return ts.intern(&n, ts.rename(ts.parent(t), i))
}

var seed = maphash.MakeSeed()

// fingerprint returns a number for the state, the same for all states that renamings make of it, and
// how many those are. Two states of one number are taken for one: of a hundred million states, that
// happens to any two with a probability of one in three thousand.
func (m *model) fingerprint(s *scratch) (h uint64, images int) {
	s.keys = s.keys[:0]
	for e := range m.names {
		s.keys = append(s.keys, s.signature(m, e))
	}
	least := 0
	same := s.same[:0]
	for i := range m.tables.renamings {
		r := &m.tables.renamings[i]
		c := 0
		for p := 0; c == 0 && p < len(r.from); p++ {
			c = cmp.Compare(s.keys[r.from[p]], s.keys[m.tables.renamings[least].from[p]])
		}
		if c < 0 {
			least, same = i, same[:0]
		}
		if c <= 0 {
			same = append(same, i)
		}
	}
	s.same = same
	var best []byte
	fix := 0
	for _, i := range same {
		b := s.encode(m, i)
		switch c := bytes.Compare(b, best); {
		case best == nil || c < 0:
			s.best = append(s.best[:0], b...)
			best, fix = s.best, 1
		case c == 0:
			fix++
		}
	}
	return maphash.Bytes(seed, best), len(m.tables.renamings) / fix
}

// scratch is memory that is used again for each state.
type scratch struct {
	b, best []byte
	keys    []uint64
	same    []int
	numbers []uint64
}

func (s *scratch) num(n int) { s.b = binary.AppendUvarint(s.b, uint64(n)) }

// encoder writes down the state that a renaming makes of m.
type encoder struct {
	*scratch
	m *model
	i int // the renaming's number
	r *renaming
}

func (s *scratch) encode(m *model, i int) []byte {
	e := encoder{s, m, i, &m.tables.renamings[i]}
	s.b = s.b[:0]
	for _, n := range [...]int{m.restarts, m.edits, m.fences, m.versions, m.limits.hears, m.endings, m.vacated, m.ttlsSet} {
		s.num(n)
	}
	if len(m.lists) > 1 && len(m.past) > 0 {
		s.num(m.listed(m.past[len(m.past)-1].List())) // inForce looks at it
	}
	e.num(len(m.words))
	for _, g := range m.words {
		e.ballot(g.Core)
		e.num(int(g.Number))
	}
	e.groups()
	e.entries()
	e.hearsay()
	e.calls()
	if !m.atOnce {
		e.registers()
	}
	for _, k := range m.asks {
		e.id(k.by)
		e.ballot(k.promised)
		e.table(k.table)
		e.ids(k.confirmed)
	}
	s.num(0)
	s.sort(len(m.sent), func(n int) uint64 { return uint64(m.tables.renamed(m.sent[n], i)) })
	s.sort(len(m.voted), func(n int) uint64 {
		v := &m.voted[n]
		return uint64(m.tables.renamed(v.table, i))<<32 | v.at.Round<<16 | uint64(e.r.id(v.by))<<8 | uint64(e.r.id(v.at.By))
	})
	return s.b
}

func (e *encoder) id(id transport.ID) { e.num(int(e.r.id(id))) }

func (e *encoder) ballot(b Ballot) {
	e.num(int(b.Round))
	e.id(b.By)
}

func (e *encoder) table(t *Table) { e.num(e.m.tables.renamed(t, e.i)) }

func (e *encoder) ids(ids []transport.ID) {
	e.num(len(ids))
	for _, id := range e.r.ids(ids) {
		e.num(int(id))
	}
}

func (e *encoder) report(r *Report) {
	for _, t := range [...]*Table{r.Table, r.Accepted, r.Proposed} {
		e.table(t)
	}
	for _, b := range [...]Ballot{r.At, r.Roll, r.Released, r.Refused, r.RollAt, r.Withdrawn} {
		e.ballot(b)
	}
}

func (e *encoder) groups() {
	for _, g := range e.m.groups {
		e.ballot(g.generation.Core)
		e.num(int(g.generation.Number))
		e.ids(g.voters)
		e.num(int(g.moved))
		e.num(int(g.void))
	}
	e.num(0)
}

func (e *encoder) entries() {
	m := e.m
	for _, entry := range e.r.from {
		a := m.acc[entry]
		e.num(m.files[entry])
		e.num(m.lives[entry])
		e.num(m.listed(a.list))
		e.ballot(a.promised)
		r := a.Report()
		e.report(&r)
		if m.takes {
			e.ballot(a.firm)
			e.num(len(a.open))
			for _, b := range a.open {
				e.ballot(b)
			}
		}
		for _, g := range m.groups {
			e.num(int(a.cut[replica(g.generation)]))
		}
	}
}

func (e *encoder) hearsay() {
	if e.m.heard == nil {
		return
	}
	for _, by := range e.r.from {
		for _, of := range e.r.from {
			r := e.m.heard[by][of]
			if r == nil {
				e.num(0)
				continue
			}
			e.id(r.Node)
			e.num(e.m.listed(r.List))
			e.report(r)
			e.ballot(r.Asked.Roll)
			e.ballot(r.Asked.Known.Roll)
			e.num(int(r.Asked.Known.Version))
		}
	}
}

// byRound returns the order of calls by their ballots: in which order they began means nothing.
func byRound(m *model) []int {
	order := make([]int, len(m.calls))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int { return cmp.Compare(m.calls[a].Ballot.Round, m.calls[b].Ballot.Round) })
	return order
}

func (e *encoder) calls() {
	for _, c := range byRound(e.m) {
		k := &e.m.calls[c]
		e.ballot(k.Ballot)
		e.num(e.m.listed(k.List))
		for _, entry := range e.r.from {
			at := slices.Index(k.List, e.m.names[entry])
			if at < 0 {
				continue
			}
			e.id(k.Roster[at])
			e.num(int(k.accepts >> at & 1))
			if a := k.answers[at]; a == nil {
				e.num(0)
			} else if e.num(1); k.value == nil {
				e.report(a)
			}
		}
		e.table(k.value)
		if k.value == nil {
			e.ids(k.Elders)
		}
		if k.over {
			e.num(1)
		} else {
			e.num(0)
		}
	}
	e.num(0)
}

func (e *encoder) registers() {
	for _, k := range e.m.regs {
		e.num(int(k.kind))
		e.table(k.want)
		e.id(k.by)
		e.num(int(k.ballot.Round))
		e.table(k.prev)
		e.table(k.value)
		e.num(len(k.answered))
		for _, entry := range e.r.from { // the order of answers means nothing
			for i, id := range k.answered {
				if int(id-1)%len(e.r.from) != entry {
					continue
				}
				e.id(id)
				if k.value == nil {
					e.ballot(k.at[i])
					e.table(k.accepted[i])
				}
			}
		}
		e.ids(k.writes)
	}
	e.num(0)
}

// sort appends numbers in their order.
func (s *scratch) sort(n int, number func(int) uint64) {
	s.numbers = s.numbers[:0]
	for i := range n {
		s.numbers = append(s.numbers, number(i))
	}
	slices.Sort(s.numbers)
	s.num(n)
	for _, v := range s.numbers {
		s.b = binary.AppendUvarint(s.b, v)
	}
}

// signature returns a number for what an entry is in a state. A renaming leaves it as it is. So only
// those renamings need be tried that put the entries in the order of their signatures.
func (s *scratch) signature(m *model, entry int) uint64 {
	s.b = s.b[:0]
	e := signer{s, m, entry}
	e.memory()
	if m.heard != nil {
		s.sort(len(m.heard), func(by int) uint64 {
			if r := m.heard[by][entry]; r != nil {
				return uint64(e.life(r.Node))<<32 | r.Roll.Round
			}
			return 0
		})
	}
	for _, g := range m.groups {
		s.num(int(m.acc[entry].cut[replica(g.generation)]))
		e.lives(g.voters)
	}
	for _, c := range byRound(m) {
		e.call(&m.calls[c])
	}
	for _, k := range m.regs {
		s.num(e.life(k.by))
		e.lives(k.answered)
		e.lives(k.writes)
	}
	for _, k := range m.asks {
		s.num(e.life(k.by))
		e.lives(k.confirmed)
	}
	s.sort(len(m.voted), func(n int) uint64 {
		v := &m.voted[n]
		if e.life(v.by) == 0 {
			return 0
		}
		return uint64(e.life(v.by))<<48 | v.at.Round<<32 | v.table.Stamp.Roll.Round<<16 | v.table.Stamp.Version
	})
	return maphash.Bytes(seed, s.b)
}

// signer writes down what one entry is in a state.
type signer struct {
	*scratch
	m     *model
	entry int
}

func (e *signer) memory() {
	a := e.m.acc[e.entry]
	for _, n := range [...]int{e.m.lives[e.entry], e.m.files[e.entry], e.m.listed(a.list)} {
		e.num(n)
	}
	for _, b := range [...]Ballot{a.promised, a.at, a.roll, a.released, a.refused, a.rollAt, a.withdrawn} {
		e.num(int(b.Round))
	}
	for _, t := range [...]*Table{a.table, a.accepted, a.proposed} {
		e.table(t)
	}
}

// life returns which incarnation of this entry that is, from 1; zero: it is of another.
func (e *signer) life(id transport.ID) int {
	if id == 0 || int(id-1)%e.m.entries != e.entry {
		return 0
	}
	return 1 + int(id-1)/e.m.entries
}

func (e *signer) lives(ids []transport.ID) {
	n := 0
	for _, id := range ids {
		n = max(n, e.life(id))
	}
	e.num(n)
}

func (e *signer) table(t *Table) {
	if t == nil {
		e.num(0)
		return
	}
	e.num(int(t.Stamp.Roll.Round))
	e.num(int(t.Stamp.Version))
	for _, seat := range t.Seats {
		if l := e.life(seat.Node.ID); l != 0 {
			e.num(l)
		}
	}
	e.lives(t.Shards[0].Voters)
	e.lives(t.Shards[0].Next)
}

func (e *signer) call(k *call) {
	e.num(e.life(k.Ballot.By))
	if at := slices.Index(k.List, e.m.names[e.entry]); at >= 0 {
		e.num(e.life(k.Roster[at])<<2 | int(k.accepts>>at&1)<<1)
		if k.answers[at] != nil {
			e.num(1)
		}
	}
}
