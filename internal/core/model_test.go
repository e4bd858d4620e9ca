package core

import (
	"encoding/binary"
	"flag"
	"fmt"
	"hash/maphash"
	"math/bits"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lockmesh/mesh/internal/env"
	"github.com/lockmesh/mesh/transport"
)

var (
	deep  = flag.Bool("deep", false, "explore the model with larger bounds")
	walks = flag.Int("walks", 5000, "how many random walks to take")
	walk  = flag.Int("walk", 0, "the number of the first")
)

// model is the small world in which the acceptors and predicates of this package are explored: n
// entries, at each of which one incarnation lives at a time. A message is delivered at any time, once
// or again, or never, and also after its sender has ended. An answer arrives at once, or is lost: an
// answer that arrives later than that is an answer that arrives at once, followed by a slower proposer.
type model struct {
	limits
	names []string    // of all entries that there may be
	files []int       // the list, one of lists, with which the next incarnation of each entry starts
	lives []int       // incarnations so far of each entry, from 1
	acc   []*Acceptor // of the incarnation that lives at the entry
	calls []call
	regs  []register
	asks  []question
	sent  []*Table // decisions that were told to others
	voted []vote   // who accepted what, ever
	past  []*Table // what was decided, in this order
	wrong string   // what went wrong in the last step

	groups   []group // the one shard's replicas: raft, as far as it matters here
	fences   int     // so far
	versions int     // decided at once, so far
}

// every is in how many states comesToServe is tried once, as it takes longer than a step.
const every = 20

// limits are the bounds of an exploration. The one shard has so many replicas.
type limits struct {
	entries, replicas, restarts, calls, registers, asks, fences int

	atOnce bool     // a register decides in one step, which begins and ends with no other in between
	lists  []string // a letter for each entry; the first is that of the founding
	edits  int      // how often an entry's file gets the next of lists
	hasty  bool     // the second list may be in use before the first is in force
}

// group is one generation of the shard. Its raft is taken to be right: a change of voters happens at
// one moment, at which a majority of those before and one of those to come could vote.
type group struct {
	generation Generation
	voters     []transport.ID
	moved      uint64 // the last change of voters that was made
	void       uint64 // none up to this one will be made any more, but for those that were
}

// What a register is to decide.
type kind int

const (
	bind kind = iota
	start
	relist
	move
	settle
	recovery
)

type call struct {
	Call
	answers []*Report // by place in the roster
	value   *Table
	accepts uint16 // those that the proposer knows of
}

type register struct {
	kind     kind
	by       transport.ID
	ballot   Ballot
	prev     *Table
	answered []transport.ID
	at       []Ballot
	accepted []*Table
	value    *Table
	writes   []transport.ID
}

type question struct {
	by        transport.ID
	promised  Ballot
	table     *Table
	confirmed []transport.ID
}

type vote struct {
	by    transport.ID
	at    Ballot
	table *Table
}

func newModel(l limits) *model {
	if l.replicas == 0 {
		l.replicas = l.entries
	}
	if l.lists == nil {
		l.lists = []string{"abcdefg"[:l.entries]}
	}
	m := &model{limits: l}
	for e := range l.entries {
		m.names = append(m.names, string(rune('a'+e)))
		m.lives = append(m.lives, 1)
		m.files = append(m.files, 0)
		if first := slices.IndexFunc(m.lists, func(l string) bool { return strings.Contains(l, m.names[e]) }); first > 0 {
			m.files[e] = first - 1
			if m.hasty {
				m.files[e] = first
			}
		}
	}
	for e := range l.entries {
		m.acc = append(m.acc, NewAcceptor(m.id(e), m.file(e)))
	}
	return m
}

// file returns the list with which the next incarnation of an entry starts.
func (m *model) file(e int) []string { return strings.Split(m.lists[m.files[e]], "") }

// runs reports whether an entry is in the list that its incarnation was started with: else that is a
// client.
func (m *model) runs(e int) bool { return slices.Contains(m.acc[e].list, m.names[e]) }

// inForce reports whether the mesh has this list, and will let it be changed.
func (m *model) inForce(list []string) bool {
	if len(m.past) == 0 {
		return false
	}
	t := m.past[len(m.past)-1]
	return slices.Equal(t.List(), list) && t.complete()
}

// id returns the incarnation that lives at an entry.
func (m *model) id(e int) transport.ID { return transport.ID(1 + e + m.entries*(m.lives[e]-1)) }

// at returns the acceptor of an incarnation, or nil if it has ended.
func (m *model) at(id transport.ID) *Acceptor {
	e := int(id-1) % m.entries
	if m.id(e) != id {
		return nil
	}
	return m.acc[e]
}

// edit makes the acceptor of an entry one that may be changed.
func (m *model) edit(id transport.ID) *Acceptor {
	e := int(id-1) % m.entries
	a := *m.acc[e]
	m.acc[e] = &a
	return &a
}

func (m *model) clone() *model {
	c := *m
	c.lives, c.acc, c.calls, c.regs = slices.Clone(m.lives), slices.Clone(m.acc), slices.Clone(m.calls), slices.Clone(m.regs)
	c.asks, c.sent, c.voted, c.past = slices.Clone(m.asks), slices.Clone(m.sent), slices.Clone(m.voted), slices.Clone(m.past)
	c.groups, c.files = slices.Clone(m.groups), slices.Clone(m.files)
	return &c
}

// steps calls yield with each state that one step leads to, and the step's name.
func (m *model) steps(yield func(next *model, name func() string)) {
	do := func(name func() string, f func(*model)) {
		c := m.clone()
		f(c)
		yield(c, name)
	}
	for e := range m.names {
		id := m.id(e)
		if m.edits > 0 && m.files[e] < len(m.lists)-1 && (m.hasty || m.inForce(m.file(e))) {
			do(func() string { return fmt.Sprintf("%s is to start with the next list", m.names[e]) }, func(c *model) {
				c.edits--
				c.files[e]++
				if !c.runs(e) {
					c.acc[e] = NewAcceptor(id, c.file(e))
				}
			})
		}
		if m.restarts > 0 {
			do(func() string { return fmt.Sprintf("%s restarts", m.names[e]) }, func(c *model) {
				c.restarts--
				c.lives[e]++
				c.acc[e] = NewAcceptor(c.id(e), c.file(e))
			})
		}
		if len(m.calls) < m.limits.calls && mayStart(m, e) {
			for _, list := range m.callable(e) {
				do(func() string { return fmt.Sprintf("%d calls %v", id, list) }, func(c *model) { c.startCall(e, list) })
			}
		}
		if m.atOnce && m.versions < m.limits.registers {
			m.decideAtOnce(e, do)
		}
		if !m.atOnce && len(m.regs) < m.limits.registers {
			for k := bind; k <= recovery; k++ {
				if m.acc[e].table != nil && m.acc[e].Serves(m.acc[e].table.Stamp) == nil && m.change(k, m.acc[e].table) != nil {
					do(func() string { return fmt.Sprintf("%d begins a version that %ss", id, kinds[k]) }, func(c *model) { c.startRegister(e, k) })
				}
			}
		}
		if t := m.acc[e].table; m.fences < m.limits.fences && t != nil && m.acc[e].Votes(0, t.Shards[0].Generation) {
			do(func() string { return fmt.Sprintf("%d fences its replica", id) }, func(c *model) {
				c.edit(id).Fence(0, t.Shards[0].Generation)
				c.fences++
			})
		}
		for i, t := range m.sent {
			a := *m.acc[e]
			if a.Learn(t) {
				do(func() string { return fmt.Sprintf("%d learns %v", id, m.sent[i].Stamp) }, func(c *model) { c.edit(id).Learn(c.sent[i]) })
			}
		}
		if a := m.acc[e]; len(m.asks) < m.limits.asks && a.roll != (Ballot{}) {
			for _, t := range m.shown() {
				if t.Stamp.Roll != a.roll {
					do(func() string { return fmt.Sprintf("%d asks for %v", id, t.Stamp) }, func(c *model) {
						c.asks = append(c.asks, question{by: id, promised: m.acc[e].roll, table: t})
					})
				}
			}
		}
	}
	for i := range m.groups {
		m.groupSteps(i, do)
	}
	for i := range m.calls {
		m.callSteps(i, do)
	}
	for i := range m.regs {
		m.registerSteps(i, do)
	}
	for i := range m.asks {
		m.askSteps(i, do)
	}
}

// mayStart leaves out what changes nothing: a second call of the same incarnation without anything in
// between.
func mayStart(m *model, e int) bool {
	return !slices.ContainsFunc(m.calls, func(c call) bool { return c.Ballot.By == m.id(e) && c.value == nil })
}

// shown returns the tables that incarnations which live know to be decided.
func (m *model) shown() (ts []*Table) {
	for _, a := range m.acc {
		if a.table != nil && !a.Fenced() && !slices.Contains(ts, a.table) {
			ts = append(ts, a.table)
		}
	}
	return ts
}

// told returns the reports of all that live.
func (m *model) told() map[string]Report {
	all := make(map[string]Report)
	for e, a := range m.acc {
		if m.runs(e) {
			all[m.names[e]] = a.Report()
		}
	}
	return all
}

// callable returns the lists of which an incarnation may begin a roll call: its own, and that of the mesh.
func (m *model) callable(e int) (lists [][]string) {
	a := m.acc[e]
	lists = [][]string{a.list}
	if a.table != nil && !slices.Equal(a.table.List(), a.list) {
		lists = append(lists, a.table.List())
	}
	return slices.DeleteFunc(lists, func(list []string) bool {
		_, err := begin(m.id(e), list, m.told())
		return err != nil
	})
}

// startCall begins a roll call of those that live. Its proposer is the first to answer.
func (m *model) startCall(e int, list []string) {
	action, _ := begin(m.id(e), list, m.told())
	c := call{Call: action.(Begin).Call, answers: make([]*Report, len(list))}
	if r, err := m.edit(m.id(e)).Call(c.Call); err == nil {
		c.answers[slices.Index(c.Roster, m.id(e))] = &r
		if len(list) == 1 {
			c.value = m.value(c)
		}
	}
	m.calls = append(m.calls, c)
}

func (m *model) callSteps(i int, do func(func() string, func(*model))) {
	k := &m.calls[i]
	alive := m.at(k.Ballot.By) != nil
	for p, id := range k.Roster {
		a := m.at(id)
		if a == nil {
			continue
		}
		try := *a
		if k.value == nil && k.answers[p] == nil && alive {
			if r, err := try.Call(k.Call); err == nil {
				do(func() string { return fmt.Sprintf("%d answers call %v", id, k.Ballot) }, func(c *model) {
					_, _ = c.edit(id).Call(k.Call)
					n := *k
					n.answers = slices.Clone(n.answers)
					n.answers[p] = &r
					if !slices.Contains(n.answers, nil) {
						n.value = c.value(n)
					}
					c.calls[i] = n
				})
			}
		}
		try = *a
		if r, err := try.Call(k.Call); err == nil && r.Roll != a.roll {
			do(func() string { return fmt.Sprintf("%d answers call %v, which is lost", id, k.Ballot) }, func(c *model) { _, _ = c.edit(id).Call(k.Call) })
		}
		if k.value == nil {
			continue
		}
		try = *a
		if try.Propose(k.value) == nil && k.accepts&(1<<p) == 0 {
			accept := func(c *model) {
				_ = c.edit(id).Propose(k.value)
				c.vote(vote{id, k.Ballot, k.value})
			}
			if a.rollAt != k.Ballot {
				do(func() string { return fmt.Sprintf("%d accepts %v, and that is lost", id, k.Ballot) }, accept)
			}
			if alive {
				do(func() string { return fmt.Sprintf("%d accepts %v", id, k.Ballot) }, func(c *model) {
					accept(c)
					c.calls[i].accepts |= 1 << p
					if c.calls[i].accepts == 1<<len(k.Roster)-1 {
						c.edit(k.Ballot.By).Learn(k.value)
						c.sent = append(c.sent, k.value)
					}
				})
			}
		}
	}
}

func (m *model) value(k call) *Table {
	answers := make([]Report, len(k.answers))
	for i, r := range k.answers {
		answers[i] = *r
	}
	fresh := func() *Table {
		return &Table{Mesh: k.Ballot.Round<<8 | uint64(k.Ballot.By), Shards: make([]Shard, 1)}
	}
	t := k.Call.Value(answers, fresh, func(int) []transport.ID { return k.Roster[:min(m.replicas, len(k.Roster))] })
	return intern(t, k.Call.Recovered(answers))
}

var kinds = []string{"bind", "start", "relist", "move", "settle", "recover"}

func (m *model) startRegister(e int, k kind) {
	var round uint64
	for _, o := range m.regs {
		round = max(round, o.ballot.Round)
	}
	m.regs = append(m.regs, register{kind: k, by: m.id(e), ballot: Ballot{round + 1, m.id(e)}, prev: m.acc[e].table})
}

// decideAtOnce decides the version after that which an incarnation knows, by each majority that can.
func (m *model) decideAtOnce(e int, do func(func() string, func(*model))) {
	id, prev := m.id(e), m.acc[e].table
	if prev == nil || m.acc[e].Serves(prev.Stamp) != nil {
		return
	}
	bound := prev.Bound()
	ballot := Ballot{uint64(m.versions + 1), id}
	for set := range 1 << len(bound) {
		var by []transport.ID
		var at []Ballot
		var accepted []*Table
		for i, voter := range bound {
			if a := m.at(voter); set&(1<<i) != 0 && a != nil {
				try := *a
				if b, t, err := try.Read(Read{ballot, prev.Stamp}); err == nil {
					by, at, accepted = append(by, voter), append(at, b), append(accepted, t)
				}
			}
		}
		if len(by) != bits.OnesCount(uint(set)) || len(by) != Majority(len(bound)) {
			continue
		}
		decide := func(what string, t *Table) {
			do(func() string { return fmt.Sprintf("%d %ss, by %v", id, what, by) }, func(c *model) {
				for _, voter := range by {
					a := c.edit(voter)
					_, _, _ = a.Read(Read{ballot, prev.Stamp})
					_ = a.Write(ballot, prev.Stamp, t)
				}
				c.versions++
				c.regs = append(c.regs, register{prev: prev, value: t})
				for _, voter := range by {
					c.vote(vote{voter, ballot, t})
				}
				c.edit(id).Learn(t)
				if !slices.Contains(c.sent, t) {
					c.sent = append(c.sent, t)
				}
			})
		}
		if t := Chosen(at, accepted); t != nil {
			decide("finish", t)
			continue
		}
		for k := bind; k <= recovery; k++ {
			if t := m.change(k, prev); t != nil {
				decide(kinds[k], t)
			}
		}
	}
}

func (m *model) registerSteps(i int, do func(func() string, func(*model))) {
	k := &m.regs[i]
	if m.atOnce {
		return
	}
	alive := m.at(k.by) != nil
	for e := range m.names {
		id := m.id(e)
		a := m.at(id)
		try := *a
		if at, accepted, err := try.Read(Read{k.ballot, k.prev.Stamp}); err == nil && k.value == nil {
			if try.promised != a.promised {
				do(func() string { return fmt.Sprintf("%d answers read %v, which is lost", id, k.ballot) }, func(c *model) {
					_, _, _ = c.edit(id).Read(Read{k.ballot, k.prev.Stamp})
				})
			}
			if alive && !slices.Contains(k.answered, id) {
				do(func() string { return fmt.Sprintf("%d answers read %v", id, k.ballot) }, func(c *model) {
					_, _, _ = c.edit(id).Read(Read{k.ballot, k.prev.Stamp})
					n := *k
					n.answered = append(slices.Clone(n.answered), id)
					n.at = append(slices.Clone(n.at), at)
					n.accepted = append(slices.Clone(n.accepted), accepted)
					if len(n.answered) >= Majority(len(k.prev.Bound())) {
						if n.value = Chosen(n.at, n.accepted); n.value == nil {
							n.value = c.change(k.kind, k.prev)
						}
					}
					c.regs[i] = n
				})
			}
		}
		if k.value == nil {
			continue
		}
		try = *a
		if try.Write(k.ballot, k.prev.Stamp, k.value) == nil && !slices.Contains(k.writes, id) {
			write := func(c *model) {
				_ = c.edit(id).Write(k.ballot, k.prev.Stamp, k.value)
				c.vote(vote{id, k.ballot, k.value})
			}
			if a.at != k.ballot {
				do(func() string { return fmt.Sprintf("%d writes %v, and that is lost", id, k.value.Stamp) }, write)
			}
			if alive {
				do(func() string { return fmt.Sprintf("%d writes %v", id, k.value.Stamp) }, func(c *model) {
					write(c)
					n := c.regs[i]
					n.writes = append(slices.Clone(n.writes), id)
					c.regs[i] = n
					if len(n.writes) == Majority(len(k.prev.Bound())) {
						c.edit(k.by).Learn(k.value)
						if !slices.Contains(c.sent, k.value) {
							c.sent = append(c.sent, k.value)
						}
					}
				})
			}
		}
	}
}

// change returns the version after t that a proposer of this kind proposes, or nil if there is nothing
// to do.
func (m *model) change(k kind, t *Table) *Table {
	s := &t.Shards[0]
	n, err := (*Table)(nil), errNoMove
	switch k {
	case bind:
		for _, seat := range t.Seats {
			if e := slices.Index(m.names, seat.Entry); m.runs(e) && m.id(e) != seat.Node.ID && err != nil {
				n, err = t.Bind(seat.Entry, env.Member{ID: m.id(e)}, m.acc[e].list)
			}
		}
	case start:
		for _, seat := range t.Seats {
			if e := slices.Index(m.names, seat.Entry); m.id(e) == seat.Node.ID && err != nil {
				n, err = t.Start(seat.Entry, m.acc[e].list)
			}
		}
	case relist:
		for _, seat := range t.Seats {
			if e := slices.Index(m.names, seat.Entry); m.id(e) == seat.Node.ID && err != nil {
				n, err = t.Relist(m.acc[e].list)
			}
		}
	case move:
		if to := m.voters(t); !slices.Equal(to, s.Voters) {
			n, err = t.Move(0, to)
		}
	case settle:
		if g := m.group(s.Generation); g != nil && (g.moved == s.Move || g.void >= s.Move) {
			n, err = t.Settle(0, s.Generation, s.Move, g.moved == s.Move)
		}
	case recovery:
		n, err = t.Recover(0, m.fenced(s.Generation), m.others(t))
	}
	if err != nil {
		return nil
	}
	return intern(n, t)
}

// voters returns those that are to vote by t: those of now that have a seat, then others that have one.
func (m *model) voters(t *Table) []transport.ID {
	bound := t.Bound()
	to := slices.DeleteFunc(slices.Clone(t.Shards[0].Voters), func(id transport.ID) bool { return !slices.Contains(bound, id) })
	for _, id := range bound {
		if len(to) < m.replicas && !slices.Contains(to, id) {
			to = append(to, id)
		}
	}
	slices.Sort(to)
	return to
}

// others returns as many, but those that do not vote now first: the worst choice for a new generation.
func (m *model) others(t *Table) []transport.ID {
	to := t.Bound()
	slices.SortStableFunc(to, func(a, b transport.ID) int {
		if was := slices.Contains(t.Shards[0].Voters, a); was != slices.Contains(t.Shards[0].Voters, b) {
			return map[bool]int{false: -1, true: 1}[was]
		}
		return 0
	})
	to = to[:min(len(to), m.replicas)]
	slices.Sort(to)
	return to
}

// fenced returns the incarnations that live and have fenced their replicas of a generation.
func (m *model) fenced(g Generation) (ids []transport.ID) {
	for e, a := range m.acc {
		if g.Number <= a.cut[life{0, g.Core}] {
			ids = append(ids, m.id(e))
		}
	}
	return ids
}

// group returns the shard's replicas of a generation, or nil.
func (m *model) group(g Generation) *group {
	for i := range m.groups {
		if m.groups[i].generation == g {
			return &m.groups[i]
		}
	}
	return nil
}

// votes reports whether an incarnation's replica of a generation can vote.
func (m *model) votes(g Generation) func(transport.ID) bool {
	return func(id transport.ID) bool {
		a := m.at(id)
		return a != nil && a.Votes(0, g)
	}
}

func (m *model) groupSteps(i int, do func(func() string, func(*model))) {
	g := &m.groups[i]
	if !quorum(g.voters, m.votes(g.generation)) {
		return
	}
	for _, id := range g.voters {
		a := m.at(id)
		if a == nil || !a.Votes(0, g.generation) {
			continue
		}
		s := &a.table.Shards[0]
		if s.Next == nil || s.Move <= max(g.moved, g.void) {
			continue
		}
		if quorum(s.Next, m.votes(g.generation)) {
			do(func() string { return fmt.Sprintf("the shard makes change %d of its voters", s.Move) }, func(c *model) {
				c.groups[i].voters, c.groups[i].moved = s.Next, s.Move
			})
		}
		do(func() string { return fmt.Sprintf("the shard gives up change %d of its voters", s.Move) }, func(c *model) {
			c.groups[i].void = s.Move
		})
	}
}

func (m *model) askSteps(i int, do func(func() string, func(*model))) {
	k := &m.asks[i]
	asker := m.at(k.by)
	if asker == nil || asker.roll != k.promised || len(k.confirmed) >= Majority(len(k.table.Bound())) {
		return
	}
	for _, id := range k.table.Bound() {
		a := m.at(id)
		if a == nil || slices.Contains(k.confirmed, id) {
			continue
		}
		try := *a
		if !try.Confirm(k.table, k.promised) {
			continue
		}
		do(func() string { return fmt.Sprintf("%d confirms %v to %d", id, k.table.Stamp, k.by) }, func(c *model) {
			c.edit(id).Confirm(k.table, k.promised)
			n := *k
			n.confirmed = append(slices.Clone(n.confirmed), id)
			c.asks[i] = n
			if len(n.confirmed) == Majority(len(k.table.Bound())) {
				c.edit(k.by).Release(k.table, k.promised)
			}
		})
	}
}

func (m *model) vote(v vote) {
	if !slices.Contains(m.voted, v) {
		m.voted = append(m.voted, v)
	}
	for _, t := range m.decided() {
		if !slices.Contains(m.past, t) {
			m.judge(t)
			m.past = append(m.past, t)
			if s := &t.Shards[0]; m.group(s.Generation) == nil {
				m.groups = append(m.groups, group{generation: s.Generation, voters: s.Voters})
			}
		}
	}
}

// judge looks at a decision that was made in this moment.
func (m *model) judge(t *Table) {
	for _, o := range m.past {
		// Where lists differ, a roll call may leave one entry out, and what that alone remembers; and
		// that entry may complete a decision for which too few live.
		remembers := func(id transport.ID) bool { return m.at(id) != nil && m.accepted(id, o) }
		remembered := slices.ContainsFunc(t.Bound(), remembers)
		if len(m.lists) > 1 {
			remembered = quorum(o.Bound(), remembers) && quorum(t.Bound(), func(id transport.ID) bool {
				if m.at(id) == nil {
					return false
				}
				r := m.at(id).Report()
				return r.mayLearn(t) || r.Table.Stamp.Roll == t.Stamp.Roll // else it acts by another generation
			})
		}
		switch later := t.Stamp.Compare(o.Stamp); {
		case later == 0:
			m.wrong = fmt.Sprintf("two decisions are called %v", t.Stamp)
		case later < 0 && remembered && !descends(o, t): // another roster may complete a decision that o was made out of
			m.wrong = fmt.Sprintf("%v is decided after %v", t.Stamp, o.Stamp)
		case later > 0 && remembered && !descends(t, o):
			m.wrong = fmt.Sprintf("%v does not descend from %v", t.Stamp, o.Stamp)
		}
	}
	if t.Stamp.Version > 0 || slices.ContainsFunc(m.past, func(o *Table) bool { return t.Stamp.Compare(o.Stamp) < 0 && descends(o, t) }) {
		return
	}
	for _, id := range t.Bound() {
		if a := m.at(id); a != nil && a.released.Compare(t.Stamp.Roll) >= 0 {
			m.wrong = fmt.Sprintf("%v is decided, and %d was released from it", t.Stamp, id)
		}
	}
}

// accepted reports whether an incarnation has accepted o.
func (m *model) accepted(id transport.ID, o *Table) bool {
	return slices.ContainsFunc(m.voted, func(v vote) bool { return v.by == id && v.table == o })
}

// decided returns every table that was ever decided, whether or not anybody knows.
func (m *model) decided() (ts []*Table) {
	for _, v := range m.voted {
		if slices.Contains(ts, v.table) {
			continue
		}
		var need []transport.ID
		quorum := 0
		if v.table.Stamp.Version == 0 {
			need = v.table.Bound()
			quorum = len(need)
		} else {
			for _, r := range m.regs {
				if r.value == v.table {
					need = r.prev.Bound()
					quorum = Majority(len(need))
				}
			}
		}
		n := 0
		for _, o := range m.voted {
			if o.table == v.table && o.at == v.at && slices.Contains(need, o.by) {
				n++
			}
		}
		if n >= quorum {
			ts = append(ts, v.table)
		}
	}
	return ts
}

// check returns what is wrong with a state, or "".
func (m *model) check() string {
	if m.wrong != "" {
		return m.wrong
	}
	var capable []Generation
	for i := range m.groups {
		if g := &m.groups[i]; quorum(g.voters, m.votes(g.generation)) {
			capable = append(capable, g.generation)
		}
	}
	if len(capable) > 1 {
		return fmt.Sprintf("two generations of a shard can commit: %v", capable)
	}
	return ""
}

// comesToServe plays on while all entries are up and connected, nothing is lost, and nodes act by Next,
// one at a time. It returns why the mesh does not come to serve, or "".
func (m *model) comesToServe() string {
	m = m.clone()
	m.limits = limits{entries: m.entries, replicas: m.replicas, lists: m.lists, atOnce: true}
	why := m.play()
	last := slices.Max(m.files)
	for e := range m.names { // the operator brings every node to the last list that is in use
		if m.files[e] = last; why != "" && !slices.Equal(m.acc[e].list, m.file(e)) {
			m.lives[e]++
			m.acc[e] = NewAcceptor(m.id(e), m.file(e))
			why = m.play()
		}
	}
	return why
}

func (m *model) play() string {
	var last []string
	for range 8 * m.entries {
		last = last[:0]
		for e := range m.names {
			last = append(last, fmt.Sprint(m.names[e], ": ", m.act(e)))
		}
		if m.tend() {
			return m.check()
		}
		if why := m.check(); why != "" {
			return why
		}
	}
	return fmt.Sprintf("the mesh does not come to serve: %q", last)
}

// act lets the incarnation at an entry do what it is to do next.
func (m *model) act(e int) string {
	if !m.runs(e) {
		return "does not run"
	}
	id := m.id(e)
	action, err := Next(id, m.told())
	switch a := action.(type) {
	case nil:
		return fmt.Sprint("waits: ", err)
	case Learn:
		m.edit(id).Learn(a.Table)
	case Ask:
		n := 0
		for _, other := range a.Table.Bound() {
			if m.at(other) != nil && m.edit(other).Confirm(a.Table, m.acc[e].roll) {
				n++
			}
		}
		if n < Majority(len(a.Table.Bound())) {
			return fmt.Sprintf("%d confirm", n)
		}
		m.edit(id).Release(a.Table, m.acc[e].roll)
	case Propose:
		return m.decideNow(e, intern(a.Table, m.acc[e].table))
	case Begin:
		k := call{Call: a.Call}
		for _, other := range a.Call.Roster {
			r, err := m.edit(other).Call(a.Call)
			if err != nil {
				return fmt.Sprintf("calls, and %d %v", other, err)
			}
			k.answers = append(k.answers, &r)
		}
		k.value = m.value(k)
		m.calls = append(m.calls, k)
		for _, other := range a.Call.Roster {
			if err := m.edit(other).Propose(k.value); err != nil {
				return fmt.Sprintf("proposes, and %d %v", other, err)
			}
			m.vote(vote{other, k.Ballot, k.value})
		}
		m.edit(id).Learn(k.value)
	}
	return fmt.Sprintf("%T", action)
}

// decideNow decides t, or what others have begun to decide, with all who can.
func (m *model) decideNow(e int, t *Table) string {
	prev := m.acc[e].table
	var by []transport.ID
	var at []Ballot
	var accepted []*Table
	var round uint64
	for _, a := range m.acc {
		round = max(round, a.promised.Round+1)
	}
	ballot := Ballot{round, m.id(e)}
	for _, id := range prev.Bound() {
		if m.at(id) == nil {
			continue
		}
		if b, v, err := m.edit(id).Read(Read{ballot, prev.Stamp}); err == nil {
			by, at, accepted = append(by, id), append(at, b), append(accepted, v)
		}
	}
	if len(by) < Majority(len(prev.Bound())) {
		return fmt.Sprintf("%d of %d can decide", len(by), len(prev.Bound()))
	}
	if v := Chosen(at, accepted); v != nil {
		t = v
	}
	m.regs = append(m.regs, register{prev: prev, value: t})
	for _, id := range by {
		_ = m.edit(id).Write(ballot, prev.Stamp, t)
		m.vote(vote{id, ballot, t})
	}
	m.edit(m.id(e)).Learn(t)
	return "decides"
}

// tend brings the shard forward where all know the same table, and reports whether all is well.
func (m *model) tend() bool {
	var all []Report
	for _, a := range m.acc {
		all = append(all, a.Report())
	}
	t := newest(all)
	if t == nil {
		return false
	}
	first := -1
	for e, a := range m.acc {
		if !slices.Contains(t.List(), m.names[e]) || !m.runs(e) {
			continue
		}
		if a.table != t || a.Fenced() || !slices.Contains(t.Bound(), m.id(e)) {
			return false
		}
		if first < 0 {
			first = e
		}
	}
	s := &t.Shards[0]
	g := m.group(s.Generation)
	if !quorum(g.voters, m.votes(g.generation)) {
		for e := range m.acc {
			m.edit(m.id(e)).Fence(0, s.Generation)
		}
	} else if s.Next != nil && s.Move > max(g.moved, g.void) {
		if quorum(s.Next, m.votes(g.generation)) {
			g.voters, g.moved = s.Next, s.Move
		} else {
			g.void = s.Move
		}
	}
	for k := bind; k <= recovery; k++ {
		if n := m.change(k, t); n != nil {
			m.decideNow(first, n)
			return false
		}
	}
	return quorum(g.voters, m.votes(g.generation))
}

var interned = make(map[string]*Table)

var parents = make(map[*Table]*Table)

// descends reports whether t was made out of o, directly or by way of others.
func descends(t, o *Table) bool {
	for ; t != nil; t = parents[t] {
		if t == o {
			return true
		}
	}
	return false
}

// intern returns the one Table with t's content and parent, so that tables can be compared by address.
func intern(t, parent *Table) *Table {
	key := fmt.Sprint(*t, numbers[parent])
	if o := interned[key]; o != nil {
		return o
	}
	interned[key], parents[t] = t, parent
	numbers[t] = len(numbers) + 1
	return t
}

var numbers = make(map[*Table]int)

var seed = maphash.MakeSeed()

// hash returns a number for the state. Two states with one number are taken for one.
func (m *model) hash() [2]uint64 {
	var b []byte
	num := func(n int) { b = binary.AppendUvarint(b, uint64(n)) }
	ballot := func(x Ballot) { num(int(x.Round)); num(int(x.By)) }
	table := func(t *Table) { num(numbers[t]) }
	report := func(a *Acceptor) {
		table(a.table)
		ballot(a.promised)
		ballot(a.at)
		table(a.accepted)
		ballot(a.roll)
		ballot(a.released)
		ballot(a.refused)
		ballot(a.rollAt)
		table(a.proposed)
		for _, g := range m.groups {
			num(int(a.cut[life{0, g.generation.Core}]))
		}
	}
	num(m.restarts)
	num(m.edits)
	for _, f := range m.files {
		num(f)
	}
	num(m.fences)
	num(m.versions)
	for _, g := range m.groups {
		ballot(g.generation.Core)
		num(int(g.generation.Number))
		for _, id := range g.voters {
			num(int(id))
		}
		num(int(g.moved))
		num(int(g.void))
	}
	for e, a := range m.acc {
		num(m.lives[e])
		if len(a.list) > 0 {
			num(slices.Index(m.lists, strings.Join(a.list, "")))
		}
		report(a)
	}
	for _, k := range m.calls {
		ballot(k.Ballot)
		num(slices.Index(m.lists, strings.Join(k.List, "")))
		for p, id := range k.Roster {
			num(int(id))
			if r := k.answers[p]; r == nil {
				num(0)
			} else if k.value == nil {
				num(1)
				report(&Acceptor{table: r.Table, at: r.At, accepted: r.Accepted, roll: r.Roll, released: r.Released, refused: r.Refused, rollAt: r.RollAt, proposed: r.Proposed})
			}
		}
		table(k.value)
		num(int(k.accepts))
	}
	for _, k := range m.regs {
		if m.atOnce {
			break
		}
		num(int(k.kind))
		num(int(k.by))
		ballot(k.ballot)
		table(k.prev)
		table(k.value)
		num(len(k.answered))
		for i, id := range k.answered {
			num(int(id))
			if k.value == nil {
				ballot(k.at[i])
				table(k.accepted[i])
			}
		}
		for _, id := range sorted(k.writes) {
			num(int(id))
		}
	}
	for _, k := range m.asks {
		num(int(k.by))
		ballot(k.promised)
		table(k.table)
		for _, id := range sorted(k.confirmed) {
			num(int(id))
		}
	}
	sent := make([]int, 0, len(m.sent))
	for _, t := range m.sent {
		sent = append(sent, numbers[t])
	}
	slices.Sort(sent)
	for _, n := range sent {
		num(n)
	}
	num(-1 & 0xffff)
	vs := slices.Clone(m.voted)
	slices.SortFunc(vs, func(a, b vote) int {
		return slices.Compare([]int{int(a.by), int(a.at.Round), numbers[a.table]}, []int{int(b.by), int(b.at.Round), numbers[b.table]})
	})
	for _, v := range vs {
		num(int(v.by))
		ballot(v.at)
		table(v.table)
	}
	var h maphash.Hash
	h.SetSeed(seed)
	_, _ = h.Write(b)
	one := h.Sum64()
	_ = h.WriteByte(1)
	return [2]uint64{one, h.Sum64()}
}

func sorted(ids []transport.ID) []transport.ID {
	s := slices.Clone(ids)
	slices.Sort(s)
	return s
}

// newServing returns a mesh that was founded, and that all know.
func newServing(l limits) *model {
	l.calls++
	m := newModel(l)
	m.startCall(0, m.file(0))
	for len(m.past) == 0 || slices.ContainsFunc(m.past[0].Bound(), func(id transport.ID) bool { return m.at(id).table == nil }) {
		var next *model
		m.steps(func(s *model, name func() string) {
			if len(s.calls) == 1 && s.restarts == l.restarts && len(s.regs) == 0 && s.fences == 0 && !strings.Contains(name(), "lost") {
				next = s
			}
		})
		m = next
	}
	return m
}

// worlds are small enough to be explored whole. Those that are deep take minutes.
var worlds = []struct {
	serving, deep bool
	limits
}{
	{limits: limits{entries: 3, restarts: 1, calls: 2, asks: 1, lists: []string{"ab", "ac"}, hasty: true}},
	{limits: limits{entries: 2, restarts: 2, calls: 2, registers: 1, asks: 1}},
	{limits: limits{entries: 3, restarts: 1, calls: 2}, deep: true},
	{limits: limits{entries: 3, restarts: 1, calls: 1, registers: 1}, serving: true},
	{limits: limits{entries: 3, restarts: 1, registers: 2}, serving: true},
	{limits: limits{entries: 2, restarts: 1, calls: 2, registers: 1, asks: 1}, serving: true},
	{limits: limits{entries: 3, calls: 2, asks: 2}, serving: true, deep: true},
	{limits: limits{entries: 3, replicas: 2, restarts: 1, registers: 4, fences: 1, atOnce: true}, serving: true},
	{limits: limits{entries: 4, replicas: 3, restarts: 1, registers: 2, fences: 1, atOnce: true}, serving: true},
	{limits: limits{entries: 3, replicas: 2, restarts: 2, registers: 3, fences: 1, atOnce: true}, serving: true, deep: true},
	{limits: limits{entries: 3, restarts: 2, registers: 4, atOnce: true}, serving: true, deep: true},
	{limits: limits{entries: 3, replicas: 2, restarts: 1, calls: 1, registers: 2, fences: 1, atOnce: true}, serving: true, deep: true},
	{limits: limits{entries: 3, replicas: 2, restarts: 2, calls: 1, registers: 2, atOnce: true, lists: []string{"ab", "ac"}, edits: 2}, serving: true},
	{limits: limits{entries: 4, replicas: 2, restarts: 1, registers: 3, atOnce: true, lists: []string{"abc", "abd"}, edits: 2}, serving: true},
}

// TestModel explores every state within bounds.
func TestModel(t *testing.T) {
	for i, w := range worlds {
		switch {
		case w.deep && !*deep, i > 0 && testing.Short():
		case w.serving:
			explore(t, fmt.Sprintf("serving %+v", w.limits), newServing(w.limits))
		default:
			explore(t, fmt.Sprintf("founding %+v", w.limits), newModel(w.limits))
		}
	}
}

func explore(t *testing.T, name string, m *model) {
	t.Helper()
	begun, depth := time.Now(), 0
	type node struct {
		m    *model
		from *node
		name string
	}
	fail := func(n *node, why string) {
		for ; n != nil; n = n.from {
			t.Log(n.name)
		}
		t.Fatal(why)
	}
	visited := map[[2]uint64]bool{m.hash(): true}
	level := []*node{{m: m}}
	for ; len(level) > 0; depth++ {
		var next []*node
		for _, at := range level {
			at.m.steps(func(s *model, name func() string) {
				h := s.hash()
				if visited[h] {
					return
				}
				visited[h] = true
				n := &node{s, at, name()}
				if why := s.check(); why != "" {
					fail(n, why)
				}
				if h[1]%every == 0 {
					if why := s.comesToServe(); why != "" {
						fail(n, why)
					}
				}
				next = append(next, n)
			})
			at.m = nil
		}
		level = next
	}
	t.Logf("%s: %d states, %d steps deep, %v", name, len(visited), depth, time.Since(begun).Round(time.Millisecond))
}

// rolls are lists that follow each other.
func rolls() [][]string {
	return [][]string{
		{"abc", "abd"}, {"abc", "abcd"}, {"abcd", "abc"}, {"abc", "abd", "aed"}, {"ab", "abc"}, {"ab", "ac"}, {"abc", "ab"}, {"abc", "abd", "abcd"},
		{"abcde", "abcd", "abcf"}, {"abc", "abcd", "abcde"}, {"a", "ab", "b"}, {"abcd", "abce", "abfe"},
	}
}

// names returns the entries of lists.
func names(lists []string) string {
	all := []rune(strings.Join(lists, ""))
	slices.Sort(all)
	return string(slices.Compact(all))
}

// what returns the kind of a version that was made out of another.
func what(t, from *Table) string {
	s, was := &t.Shards[0], &from.Shards[0]
	started := func(s Seat) bool { return s.Started }
	switch {
	case !slices.Equal(t.List(), from.List()):
		return kinds[relist]
	case s.Generation != was.Generation:
		return kinds[recovery]
	case s.Move != was.Move:
		return kinds[move]
	case was.Next != nil && s.Next == nil:
		return kinds[settle]
	case slices.Equal(t.Bound(), from.Bound()) && slices.ContainsFunc(t.Seats, started):
		return kinds[start]
	}
	return kinds[bind]
}

// TestWalks walks at random, far beyond what can be explored.
func TestWalks(t *testing.T) {
	longest := 0
	met := make(map[string]int)
	if testing.Short() {
		*walks = min(*walks, 500)
	}
	for n := *walk; n < *walk+*walks; n++ {
		rng := rand.New(rand.NewPCG(1, uint64(n)))
		l := limits{entries: 2 + rng.IntN(4), restarts: rng.IntN(5), calls: 1 + rng.IntN(5), registers: rng.IntN(8), asks: rng.IntN(5), fences: rng.IntN(4)}
		if rolls := rolls(); rng.IntN(2) == 0 {
			l.lists = rolls[rng.IntN(len(rolls))]
			l.entries = len(names(l.lists))
			l.edits, l.hasty = rng.IntN(2*l.entries*len(l.lists)), len(l.lists) == 2 && rng.IntN(2) == 0
		}
		l.replicas = 2 + rng.IntN(l.entries-1)
		l.atOnce = rng.IntN(2) == 0
		m := newModel(l)
		if rng.IntN(2) == 0 {
			m = newServing(l)
		}
		var names []string
		rare := 1 << rng.IntN(6) // how much rarer what goes wrong is
		for range 300 {
			var chosen *model
			var name func() string
			seen := 0
			m.steps(func(s *model, nm func() string) {
				weight := rare
				if s.restarts < m.restarts || s.edits < m.edits || strings.Contains(nm(), "lost") || len(s.calls) > len(m.calls) {
					weight = 1
				}
				if seen += weight; rng.IntN(seen) < weight {
					chosen, name = s, nm
				}
			})
			if chosen == nil {
				break
			}
			names = append(names, name())
			m = chosen
			if why := m.check(); why != "" {
				for _, s := range names {
					t.Log(s)
				}
				t.Fatalf("walk %d, %+v: %s", n, l, why)
			}
		}
		if why := m.comesToServe(); why != "" && !l.hasty {
			for _, s := range names {
				t.Log(s)
			}
			t.Fatalf("walk %d, %+v: %s", n, l, why)
		}
		longest = max(longest, len(names))
		met[fmt.Sprintf("%d decisions", len(m.past))]++
		for _, d := range m.past {
			if d.Stamp.Version > 0 {
				met[what(d, parents[d])]++
			}
		}
		for _, a := range m.acc {
			if a.released != (Ballot{}) {
				met["a release"]++
			}
		}
	}
	for _, rare := range append(slices.Clone(kinds), "a release") {
		if *walks >= 5000 && met[rare] == 0 {
			t.Errorf("no walk met %s", rare)
		}
	}
	t.Logf("%d walks, the longest of %d steps: %v", *walks, longest, met)
}
