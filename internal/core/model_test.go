package core

import (
	"errors"
	"flag"
	"fmt"
	"math/bits"
	"os"
	"reflect"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lockmesh/mesh/internal/env"
	"github.com/lockmesh/mesh/transport"
)

var (
	deep  = flag.Bool("deep", false, "explore the model with larger bounds")
	only  = flag.Int("world", -1, "explore the world of this number alone")
	walks = flag.Int("walks", 350, "how many random walks to take")
	walk  = flag.Int("walk", 0, "the number of the first")
)

// TestMain lets the garbage grow, as states make much of it. With larger bounds memory is short.
func TestMain(m *testing.M) {
	flag.Parse()
	if os.Getenv("GOGC") == "" && !*deep {
		debug.SetGCPercent(400)
	}
	m.Run()
}

// model is the small world in which the acceptors and predicates of this package are explored: n
// entries, at each of which one incarnation lives at a time. A message is delivered at any time, once
// or again, or never, and also after its sender has ended. An answer arrives at once, or is lost: an
// answer that arrives later than that is an answer that arrives at once, followed by a slower proposer.
// An operator's order (Table.Order) is not played: all that it does is that nodes get another list while they run, which a live
// model lets them at any time at which it could be ordered.
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

	tables *tables

	heard    [][]*Report // what the incarnation at each entry heard last of each entry; nil: nodes decide without
	groups   []group     // the one shard's replicas: raft, as far as it matters here
	fences   int         // so far
	versions int         // decided at once, so far
	endings  int         // begun, so far
	vacated  int         // begun, so far
	ttlsSet  int         // begun, so far

	timed bool         // tables say for how long leases may last, and shards for how long they are quiet
	words []Generation // those of which an operator has said that they need not be quiet
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
	hears  int      // how often a node hears another's report; zero: a node may do all that is allowed, by Next or not
	back   bool     // a roll-out may be given up until its list is in force
	live   bool     // a node may get the next list while it runs, and keep it; and the one before, if the operator may go back
	orders bool     // it may be given up after that as well: by an order, which no other change passes
	ends   int      // how often the end of an incarnation is proved before another one has the seat
	lies   int      // how often beyond that, and then such a proof may be false: an operator's word
	vacate int      // how often a seat may be vacated, whether or not its incarnation is silent
	short  bool     // roll calls may be begun without each set of entries, by Next or not
	takes  bool     // a proposer may withdraw a roll call
	ttls   int      // how often an operator changes MaxTTL, to one or two
	words  int      // how often an operator says that the shard need not be quiet
	late   bool     // the mesh that serves has a higher ballot than nodes begin with that have not heard of it
	apart  bool     // there may be two meshes, which know nothing of each other at first
	plain  bool     // states that renamings make of each other are explored each by itself
	serve  int      // in one of how many states comesToServe is tried; zero: every
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
	end
	vacate
	move
	settle
	recovery
	calm
	ttl
	raise
	outlive
)

type call struct {
	Call
	answers []*Report // by place in the roster
	value   *Table
	accepts uint16 // those that the proposer knows of
	over    bool   // it was withdrawn
}

type register struct {
	kind     kind
	want     *Table // what Next said; nil: as kind tells
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
	m := &model{limits: l, timed: l.ttls > 0 || l.words > 0}
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
	m.tables = newTables(m.names, m.lists, m.plain)
	if m.hears > 0 {
		m.heard = make([][]*Report, l.entries)
		for e := range m.heard {
			m.heard[e] = make([]*Report, l.entries)
		}
	}
	return m
}

// file returns the list with which the next incarnation of an entry starts.
func (m *model) file(e int) []string { return strings.Split(m.lists[m.files[e]], "") }

// listed returns which of the lists this is.
func (m *model) listed(list []string) int {
	return slices.IndexFunc(m.lists, func(l string) bool {
		return len(l) == len(list) && !slices.ContainsFunc(list, func(e string) bool { return !strings.Contains(l, e) })
	})
}

// lacks reports whether the node at an entry has another list than this one.
func (m *model) lacks(e, list int) bool { return strings.Join(m.acc[e].list, "") != m.lists[list] }

// runs reports whether an entry is in the list that its incarnation was started with: else that is a
// client.
func (m *model) runs(e int) bool { return slices.Contains(m.acc[e].list, m.names[e]) }

// inForce reports whether the mesh has a list, or the next, and let this one be changed.
func (m *model) inForce(k int) bool {
	if len(m.past) == 0 {
		return false
	}
	now := m.listed(m.past[len(m.past)-1].List())
	return (now == k || now == k+1) && slices.ContainsFunc(m.past, func(t *Table) bool {
		return m.listed(t.List()) == k && t.complete(t.List())
	})
}

// changeable reports whether the mesh may change to a list from the one before it.
func (m *model) changeable(k int) bool {
	was, to := strings.Split(m.lists[k-1], ""), strings.Split(m.lists[k], "")
	return len(was) > 3 || outside(to, was) == 0 || outside(was, to) == 0
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
	c.groups, c.files, c.heard, c.words = slices.Clone(m.groups), slices.Clone(m.files), slices.Clone(m.heard), slices.Clone(m.words)
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
		m.operatorSteps(e, do)
		if m.heard != nil {
			m.hearSteps(e, do)
		} else {
			m.ownSteps(e, do)
		}
		m.nodeSteps(e, do)
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

// fresh starts the incarnation of an entry that has its number, without memory.
func (m *model) fresh(e int) {
	m.acc[e] = NewAcceptor(m.id(e), m.file(e))
	if m.heard != nil {
		m.heard[e] = make([]*Report, m.entries)
	}
}

// operatorSteps are those that change lists and restart nodes.
func (m *model) operatorSteps(e int, do func(func() string, func(*model))) {
	if m.edits > 0 && m.files[e] < len(m.lists)-1 && (m.hasty || m.inForce(m.files[e])) {
		do(func() string { return fmt.Sprintf("%s is to start with the next list", m.names[e]) }, func(c *model) {
			c.edits--
			c.files[e]++
			if !c.runs(e) {
				c.fresh(e)
			}
		})
	}
	if m.live && m.edits > 0 && m.files[e] < len(m.lists)-1 && m.inForce(m.files[e]) && m.runs(e) && strings.Contains(m.lists[m.files[e]+1], m.names[e]) {
		do(func() string { return fmt.Sprintf("%s gets the next list", m.names[e]) }, func(c *model) {
			c.edits--
			c.files[e]++
			c.edit(m.id(e)).SetList(c.file(e))
		})
	}
	if m.live && m.edits > 0 && m.mayGoBack(e) && m.runs(e) {
		do(func() string { return fmt.Sprintf("%s gets the list before back", m.names[e]) }, func(c *model) {
			c.edits--
			c.files[e]--
			c.edit(m.id(e)).SetList(c.file(e))
		})
	}
	if m.edits > 0 && m.mayGoBack(e) {
		do(func() string { return fmt.Sprintf("%s is to start with the list before", m.names[e]) }, func(c *model) {
			c.edits--
			c.files[e]--
		})
	}
	if m.restarts > 0 {
		do(func() string { return fmt.Sprintf("%s restarts", m.names[e]) }, func(c *model) {
			c.restarts--
			c.lives[e]++
			c.fresh(e)
		})
	}
}

// mayGoBack reports whether the operator may take the list back with which an entry is to start.
func (m *model) mayGoBack(e int) bool {
	f := m.files[e]
	return m.back && f > 0 && strings.Contains(m.lists[f-1], m.names[e]) && (!m.inForce(f) || m.reordered(f))
}

// reordered reports whether an operator may order the list before this one, though it is in force: while no later one is in use.
func (m *model) reordered(f int) bool { return m.orders && f == len(m.lists)-1 }

// ownSteps are what a node may decide by itself, whether or not Next would.
func (m *model) ownSteps(e int, do func(func() string, func(*model))) {
	id, a := m.id(e), m.acc[e]
	if len(m.calls) < m.limits.calls && mayStart(m, e) {
		for _, list := range m.callable(e) {
			action, _ := begin(id, list, m.told(e))
			m.callsOf(action.(Begin).Call, do)
		}
		m.shortCalls(e, do)
	}
	if m.atOnce && m.versions < m.limits.registers {
		m.decideAtOnce(e, func(prev *Table) (ts []*Table) {
			for k := range kinds {
				ts = append(ts, m.allowed(kind(k), prev)...)
			}
			return ts
		}, do)
	}
	if !m.atOnce && len(m.regs) < m.limits.registers && a.table != nil && a.Serves(a.table.Stamp) == nil {
		for k := bind; int(k) < len(kinds); k++ {
			if len(m.allowed(k, a.table)) > 0 {
				do(func() string { return fmt.Sprintf("%d begins a version that %ss", id, kinds[k]) }, func(c *model) { c.startRegister(e, k, nil) })
			}
		}
	}
	if len(m.asks) < m.limits.asks && a.roll != (Ballot{}) {
		for _, t := range m.shown() {
			if t.Stamp.Roll != a.roll {
				m.asksFor(e, t, do)
			}
		}
	}
}

func (m *model) asksFor(e int, t *Table, do func(func() string, func(*model))) {
	do(func() string { return fmt.Sprintf("%d asks for %v", m.id(e), t.Stamp) }, func(c *model) {
		c.asks = append(c.asks, question{by: m.id(e), promised: m.acc[e].roll, table: t})
	})
}

// hearSteps are those of a node that does what Next says by what it has heard. That may be old, or of
// an incarnation that has ended, and there may be nothing of some entry.
func (m *model) hearSteps(e int, do func(func() string, func(*model))) {
	if !m.runs(e) {
		return
	}
	id := m.id(e)
	for o := range m.names {
		if r := m.reportTo(e, o); o != e && m.limits.hears > 0 && r != nil && !sameReport(r, m.heard[e][o]) {
			do(func() string { return fmt.Sprintf("%d hears %d", id, m.id(o)) }, func(c *model) {
				c.limits.hears--
				c.hear(e, o)
			})
		}
	}
	action, _ := Next(id, m.heardBy(e))
	switch a := action.(type) {
	case Learn:
		do(func() string { return fmt.Sprintf("%d learns %v", id, a.Table.Stamp) }, func(c *model) { c.edit(id).Learn(a.Table) })
	case Ask:
		if len(m.asks) < m.limits.asks {
			m.asksFor(e, a.Table, do)
		}
	case Begin:
		if len(m.calls) < m.limits.calls && mayStart(m, e) {
			m.callsOf(a.Call, do)
		}
	}
	if t := m.acc[e].table; t != nil && m.acc[e].Serves(t.Stamp) == nil {
		var own []*Table
		if a, ok := action.(Propose); ok {
			own = []*Table{m.tables.intern(a.Table, t)}
		}
		m.proposeSteps(e, t, own, do)
	}
}

// proposeSteps are those of a node that proposes the version after t: what Next says, or a change of the
// shard.
func (m *model) proposeSteps(e int, t *Table, own []*Table, do func(func() string, func(*model))) {
	id := m.id(e)
	if m.atOnce && m.versions < m.limits.registers {
		m.decideAtOnce(e, func(prev *Table) []*Table {
			return slices.Concat(own, m.allowed(end, prev), m.allowed(vacate, prev), m.changes(move, prev), m.changes(settle, prev), m.changes(recovery, prev),
				m.allowed(calm, prev), m.allowed(ttl, prev), m.changes(raise, prev), m.changes(outlive, prev))
		}, do)
	}
	if !m.atOnce && len(m.regs) < m.limits.registers {
		for _, want := range own {
			do(func() string { return fmt.Sprintf("%d proposes %v", id, want.Bound()) }, func(c *model) { c.startRegister(e, bind, want) })
		}
		for k := end; int(k) < len(kinds); k++ {
			if len(m.allowed(k, t)) > 0 {
				do(func() string { return fmt.Sprintf("%d begins a version that %ss", id, kinds[k]) }, func(c *model) { c.startRegister(e, k, nil) })
			}
		}
	}
}

// reportTo returns what an entry tells another, or nil.
func (m *model) reportTo(e, o int) *Report {
	if !m.runs(o) {
		return nil
	}
	own, r := m.acc[e].Report(), m.acc[o].Report()
	r.Asked = own.Mark()
	return &r
}

func (m *model) hear(e, o int) {
	if e == o {
		return
	}
	m.heard[e] = slices.Clone(m.heard[e])
	m.heard[e][o] = m.reportTo(e, o)
}

// heardBy returns what the node at an entry knows of others, and of itself.
func (m *model) heardBy(e int) map[string]Report {
	all := map[string]Report{m.names[e]: m.acc[e].Report()}
	for o, r := range m.heard[e] {
		if r != nil && o != e {
			all[m.names[o]] = *r
		}
	}
	return all
}

func sameReport(a, b *Report) bool {
	if a == nil || b == nil {
		return a == b
	}
	x, y := *a, *b
	x.List, y.List = nil, nil
	return reflect.DeepEqual(x, y) && slices.Equal(a.List, b.List)
}

// nodeSteps are those that a node makes whatever it has heard.
func (m *model) nodeSteps(e int, do func(func() string, func(*model))) {
	id, a := m.id(e), m.acc[e]
	for i, t := range m.sent {
		if r := a.Report(); r.mayLearn(t) {
			do(func() string { return fmt.Sprintf("%d learns %v", id, m.sent[i].Stamp) }, func(c *model) { c.edit(id).Learn(c.sent[i]) })
		}
	}
	if t := a.table; m.fences < m.limits.fences && t != nil && a.Votes(0, t.Shards[0].Generation) {
		do(func() string { return fmt.Sprintf("%d fences its replica", id) }, func(c *model) {
			c.edit(id).Fence(0, t.Shards[0].Generation)
			c.fences++
		})
	}
	if t := a.table; len(m.words) < m.limits.words && t != nil && !slices.Contains(m.words, t.Shards[0].Generation) {
		do(func() string { return fmt.Sprintf("an operator says by %d that the shard need not be quiet", id) }, func(c *model) {
			c.words = append(c.words, t.Shards[0].Generation)
		})
	}
}

// shortCalls are the calls of the mesh's list without some entries that an incarnation may begin.
func (m *model) shortCalls(e int, do func(func() string, func(*model))) {
	t := m.acc[e].table
	if !m.limits.short {
		return
	}
	for silent := range 1 << len(m.names) {
		told := m.told(e)
		for o, name := range m.names {
			if silent&(1<<o) != 0 {
				delete(told, name)
			}
		}
		lists := [][]string{m.acc[e].list}
		if t != nil && !slices.Equal(t.List(), m.acc[e].list) {
			lists = append(lists, t.List())
		}
		for _, list := range lists {
			all := !slices.ContainsFunc(list, func(name string) bool { _, ok := told[name]; return !ok })
			if a, ok := beginWithout(m.id(e), list, told).(Begin); ok && !all {
				m.callsOf(a.Call, do)
			}
		}
	}
}

// callsOf begins a call, in each round that it may have.
func (m *model) callsOf(call Call, do func(func() string, func(*model))) {
	for _, round := range m.rounds(call.Ballot.Round) {
		call.Ballot.Round = round
		do(func() string { return fmt.Sprintf("%d calls %v in round %d", call.Ballot.By, call.List, round) }, func(c *model) { c.startCall(call) })
	}
}

// mayStart leaves out what changes nothing: a second call of the same incarnation without anything in
// between.
func mayStart(m *model, e int) bool {
	return !slices.ContainsFunc(m.calls, func(c call) bool { return c.Ballot.By == m.id(e) && c.value == nil && c.missing() && !c.over })
}

// asked returns the places in a call's roster of those that are asked, a bit each.
func (c *call) asked() (places uint16) {
	for i, id := range c.Roster {
		if id != 0 {
			places |= 1 << i
		}
	}
	return places
}

// missing reports whether an answer is missing.
func (c *call) missing() bool {
	for i, id := range c.Roster {
		if id != 0 && c.answers[i] == nil {
			return true
		}
	}
	return false
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

// told returns the reports of all that live, if an entry asks now.
func (m *model) told(e int) map[string]Report {
	all := make(map[string]Report)
	for o := range m.names {
		if r := m.reportTo(e, o); r != nil {
			all[m.names[o]] = *r
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
		_, err := begin(m.id(e), list, m.told(e))
		return err != nil
	})
}

// rounds returns the rounds in which an incarnation may begin a call of a list. It is told which round
// is above all that it knows of. Where others had the same in mind, IDs tell which is the higher ballot,
// and IDs are random: so each order is possible. For that a round is divided by the calls that there
// may be. The last call need not leave any place to others.
func (m *model) rounds(told uint64) (rounds []uint64) {
	const parts = 16
	first := (told-1)/parts*parts + parts
	taken := func(round uint64) bool {
		return slices.ContainsFunc(m.calls, func(c call) bool { return c.Ballot.Round == round })
	}
	last := len(m.calls)+1 == m.limits.calls
	gap := true
	for round := first + 1; round <= first+uint64(m.limits.calls); round++ {
		if taken(round) {
			gap = true
		} else if gap || !last {
			rounds = append(rounds, round)
			gap = false
		}
	}
	return rounds
}

// startCall begins a roll call of those that live. Its proposer is the first to answer.
func (m *model) startCall(of Call) {
	c := call{Call: of, answers: make([]*Report, len(of.List))}
	if r, err := m.edit(c.Ballot.By).Call(c.Call); err == nil {
		c.answers[slices.Index(c.Roster, c.Ballot.By)] = &r
		if !c.missing() {
			c.value = m.values(c)[0]
		}
	}
	m.calls = append(m.calls, c)
}

func (m *model) callSteps(i int, do func(func() string, func(*model))) {
	k := &m.calls[i]
	alive := m.at(k.Ballot.By) != nil
	if m.takes && alive && k.value == nil && !k.over {
		do(func() string { return fmt.Sprintf("%d withdraws its call %v", k.Ballot.By, k.Ballot) }, func(c *model) {
			c.calls[i].over = true
			c.withdraw(k.Ballot.By, k.Ballot)
		})
	}
	for p, id := range k.Roster {
		if id == 0 {
			continue
		}
		a := m.at(id)
		if a == nil {
			continue
		}
		try := *a
		if k.over && slices.Contains(a.open, k.Ballot) {
			do(func() string { return fmt.Sprintf("%d hears that %v is withdrawn", id, k.Ballot) }, func(c *model) { c.withdraw(id, k.Ballot) })
		}
		if k.value == nil && k.answers[p] == nil && alive && !k.over {
			if r, err := try.Call(k.Call); err == nil {
				n := *k
				n.answers = slices.Clone(n.answers)
				n.answers[p] = &r
				for _, value := range m.values(n) {
					do(func() string { return fmt.Sprintf("%d answers call %v", id, k.Ballot) }, func(c *model) {
						_, _ = c.edit(id).Call(k.Call)
						c.calls[i] = n
						c.calls[i].value = value
					})
				}
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
					if c.calls[i].accepts == k.asked() {
						c.edit(k.Ballot.By).Learn(k.value)
						c.sent = append(c.sent, k.value)
					}
				})
			}
		}
	}
}

// withdraw lets an incarnation know that a call was withdrawn.
func (m *model) withdraw(id transport.ID, b Ballot) { m.edit(id).Withdraw(b.By, b.Round-1, b.Round) }

// values returns the values of a call, by each choice of voters: nil alone while an answer is missing.
func (m *model) values(k call) (values []*Table) {
	if k.missing() {
		return []*Table{nil}
	}
	answers := make([]Report, len(k.answers))
	for i, r := range k.answers {
		if r != nil {
			answers[i] = *r
		}
	}
	fresh := &Table{Mesh: k.Ballot.Round, Shards: make([]Shard, 1)}
	if m.timed {
		fresh.Params.MaxTTL = 1
	}
	if k.Call.Value(answers, fresh, func(int) []transport.ID { return nil }) == nil {
		return []*Table{nil}
	}
	from := k.Call.Recovered(answers)
	asked := slices.DeleteFunc(slices.Clone(k.Roster), func(id transport.ID) bool { return id == 0 })
	for _, voters := range sets(nil, asked, m.replicas) {
		t := k.Call.Value(answers, fresh, func(int) []transport.ID { return voters })
		m.quieten(t, from)
		values = append(values, m.tables.intern(t, from))
	}
	return values
}

// quieten makes a generation of the shard quiet that begins with t, which is not in use yet.
func (m *model) quieten(t, from *Table) {
	if s := &t.Shards[0]; m.timed && (from == nil || s.Generation != from.Shards[0].Generation) {
		s.Quiet = t.Params.Outlast()
	}
}

// sets returns the sets of n that have all of some and otherwise of more, or all if there are fewer.
func sets(some, more []transport.ID, n int) [][]transport.ID {
	if len(some) >= n || len(more) == 0 {
		return [][]transport.ID{sorted(some)}
	}
	with := sets(append(slices.Clone(some), more[0]), more[1:], n)
	if len(some)+len(more) <= n {
		return with
	}
	return append(with, sets(some, more[1:], n)...)
}

func sorted(ids []transport.ID) []transport.ID {
	s := slices.Clone(ids)
	slices.Sort(s)
	return s
}

var kinds = []string{"bind", "start", "relist", "end", "vacate", "move", "settle", "recover", "calm", "set MaxTTL", "raise", "outlive"}

func (m *model) startRegister(e int, k kind, want *Table) {
	var round uint64
	for _, o := range m.regs {
		round = max(round, o.ballot.Round)
	}
	switch k {
	case end:
		m.endings++
	case vacate:
		m.vacated++
	case ttl:
		m.ttlsSet++
	}
	m.regs = append(m.regs, register{kind: k, want: want, by: m.id(e), ballot: Ballot{round + 1, m.id(e)}, prev: m.acc[e].table})
}

// decideAtOnce decides the version after that which an incarnation knows, by each majority that can.
func (m *model) decideAtOnce(e int, own func(*Table) []*Table, do func(func() string, func(*model))) {
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
				switch what {
				case kinds[end]:
					c.endings++
				case kinds[vacate]:
					c.vacated++
				case kinds[ttl]:
					c.ttlsSet++
				}
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
		for _, t := range own(prev) {
			decide(what(t, prev), t)
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
				n := *k
				n.answered = append(slices.Clone(n.answered), id)
				n.at = append(slices.Clone(n.at), at)
				n.accepted = append(slices.Clone(n.accepted), accepted)
				for _, value := range m.proposals(n) {
					do(func() string { return fmt.Sprintf("%d answers read %v", id, k.ballot) }, func(c *model) {
						_, _, _ = c.edit(id).Read(Read{k.ballot, k.prev.Stamp})
						c.regs[i] = n
						c.regs[i].value = value
					})
				}
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

// proposals returns the values that the proposer of a register may propose by the answers to its
// reads: nil alone if it has none.
func (m *model) proposals(k register) []*Table {
	if len(k.answered) < Majority(len(k.prev.Bound())) {
		return []*Table{nil}
	}
	if t := Chosen(k.at, k.accepted); t != nil {
		return []*Table{t}
	}
	if k.want != nil {
		return []*Table{k.want}
	}
	if ts := m.changes(k.kind, k.prev); len(ts) > 0 {
		return ts
	}
	return []*Table{nil}
}

// changes returns the versions after t that a proposer of this kind may propose.
func (m *model) changes(k kind, t *Table) (ts []*Table) {
	add := func(n *Table, err error) {
		if err == nil {
			m.quieten(n, t)
			ts = append(ts, m.tables.intern(n, t))
		}
	}
	s := &t.Shards[0]
	switch k {
	case bind, start, relist:
		for _, seat := range t.Seats {
			e := slices.Index(m.names, seat.Entry)
			switch id := m.id(e); {
			case k == bind && m.runs(e) && (m.acc[e].table == nil || m.acc[e].table.Mesh == t.Mesh): // else it decides elsewhere
				add(t.Bind(seat.Entry, env.Member{ID: id}, m.acc[e].list))
			case k == start && id == seat.Node.ID:
				add(t.Start(seat.Entry, m.acc[e].list))
			case k == relist && id == seat.Node.ID:
				if n, err := t.Relist(m.acc[e].list); err == nil && !slices.Contains(ts, m.tables.intern(n, t)) {
					add(n, nil)
				}
			}
		}
	case end:
		for _, seat := range t.Seats {
			if id := seat.Node.ID; id != 0 && (m.at(id) == nil || m.lies > 0) {
				add(t.End(seat.Entry, id))
			}
		}
	case vacate:
		for _, seat := range t.Seats {
			add(t.Vacate(seat.Entry, seat.Node.ID))
		}
	case move:
		for _, to := range m.voters(t) {
			if !slices.Equal(to, s.Voters) {
				add(t.Move(0, to))
			}
		}
	case settle:
		if g := m.group(s.Generation); g != nil && (g.moved == s.Move || g.void >= s.Move) {
			add(t.Settle(0, s.Generation, s.Move, g.moved == s.Move))
		}
	case recovery:
		for _, to := range m.others(t) {
			add(t.Recover(0, m.fenced(s.Generation), to))
		}
	case calm:
		for _, g := range m.words {
			said := Table{Shards: []Shard{{Generation: g}}}
			add(t.Calm(said.Era()))
		}
	case ttl:
		for d := range time.Duration(2) {
			add(t.SetMaxTTL(1 + d))
		}
	case raise:
		if m.known(t) {
			add(t.Raise())
		}
	case outlive: // so much time has passed
		if m.known(t) {
			add(t.Outlive())
		}
	}
	return ts
}

// allowed returns the versions after t of a kind, if there may be more of that.
func (m *model) allowed(k kind, t *Table) []*Table {
	if k == end && m.endings >= m.ends+m.lies || k == vacate && m.vacated >= m.limits.vacate || k == ttl && m.ttlsSet >= m.ttls {
		return nil
	}
	return m.changes(k, t)
}

// known reports whether all that are bound in t know, or have ended, what it says of MaxTTL; and nobody votes that was dropped. Who
// is to propose the next version hears it of them. Those of vacant seats it does not ask here.
func (m *model) known(t *Table) bool {
	first := t.Stamp.Version
	for o := m.tables.parent(t); o != nil && o.Stamp.Roll == t.Stamp.Roll && o.Params == t.Params; o = m.tables.parent(o) {
		first = o.Stamp.Version
	}
	return t.Dropped == 0 && !slices.ContainsFunc(t.Bound(), func(id transport.ID) bool {
		a := m.at(id)
		return a != nil && (a.table == nil || a.table.Stamp.Roll != t.Stamp.Roll || a.table.Stamp.Version < first)
	})
}

// voters returns those that may be to vote by t: those of now that have a seat, then others that have one.
func (m *model) voters(t *Table) [][]transport.ID {
	var stay, others []transport.ID
	for _, id := range t.Bound() {
		if slices.Contains(t.Shards[0].Voters, id) {
			stay = append(stay, id)
		} else {
			others = append(others, id)
		}
	}
	return sets(stay, others, m.replicas)
}

// others returns as many, but those that do not vote now first: the worst choice for a new generation.
func (m *model) others(t *Table) [][]transport.ID {
	var were, others []transport.ID
	for _, id := range t.Bound() {
		if slices.Contains(t.Shards[0].Voters, id) {
			were = append(were, id)
		} else {
			others = append(others, id)
		}
	}
	if len(others) >= m.replicas {
		return sets(nil, others, m.replicas)
	}
	return sets(others, were, m.replicas)
}

// fenced returns the incarnations that live and have fenced their replicas of a generation.
func (m *model) fenced(g Generation) (ids []transport.ID) {
	for e, a := range m.acc {
		if g.Number <= a.cut[replica(g)] {
			ids = append(ids, m.id(e))
		}
	}
	return ids
}

// replica names the one shard within a generation of the core.
func replica(g Generation) life { return life{0, g.Core} }

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
		if m.apart && o.Mesh != t.Mesh {
			continue
		}
		// Where lists differ, a roll call may leave one entry out, and what that alone remembers; and
		// that entry may complete a decision for which too few live. Nor is one believed that remembers alone, and may have been
		// dropped since. So most of those must live that are bound in the last decision of o's generation, too.
		remembers := func(id transport.ID) bool { return m.at(id) != nil && m.accepted(id, o) }
		remembered := slices.ContainsFunc(t.Bound(), remembers)
		if len(m.lists) > 1 {
			remembered = quorum(o.Bound(), func(id transport.ID) bool { return remembers(id) && m.actsBy(id, o) }) &&
				quorum(m.last(o).Bound(), func(id transport.ID) bool { return m.at(id) != nil }) &&
				quorum(t.Bound(), func(id transport.ID) bool { return m.actsBy(id, t) })
		}
		switch later := t.Stamp.Compare(o.Stamp); {
		case later == 0:
			m.wrong = fmt.Sprintf("two decisions are called %v", t.Stamp)
		case later < 0 && remembered && !m.tables.descends(o, t): // another roster may complete a decision that o was made out of
			m.wrong = fmt.Sprintf("%v is decided after %v", t.Stamp, o.Stamp)
		case later > 0 && remembered && !m.tables.descends(t, o):
			m.wrong = fmt.Sprintf("%v does not descend from %v", t.Stamp, o.Stamp)
		}
	}
	// A decision that is complete only after another was made out of it, and that too few act by, is quiet for nobody. What goes on from
	// it is judged in its turn.
	late := slices.ContainsFunc(m.past, func(o *Table) bool { return m.tables.descends(o, t) }) &&
		!quorum(t.Bound(), func(id transport.ID) bool { return m.actsBy(id, t) })
	if o := m.outlasts(t); t.Stamp.Version == 0 && o != nil && !late {
		m.wrong = fmt.Sprintf("%v is quiet for leases of up to %d, and by %v they last up to %d", t.Stamp, t.Params.Outlast(), o.Stamp, o.Params.MaxTTL)
	}
	for _, s := range t.Seats {
		if had := m.had(t, s.Entry); t.Stamp.Version > 0 && s.Node.ID != 0 && s.Node.ID < had { // a later incarnation of an entry has a higher ID here
			m.wrong = fmt.Sprintf("%v gives the seat of %d to %d, which has ended", t.Stamp, had, s.Node.ID)
		}
	}
	if m.apart { // who releases a node of another mesh had no part in its roll calls
		return
	}
	if t.Stamp.Version > 0 || slices.ContainsFunc(m.past, func(o *Table) bool { return t.Stamp.Compare(o.Stamp) < 0 && m.tables.descends(o, t) }) {
		return
	}
	for _, id := range t.Bound() {
		if a := m.at(id); a != nil && a.released.Compare(t.Stamp.Roll) >= 0 {
			m.wrong = fmt.Sprintf("%v is decided, and %d was released from it", t.Stamp, id)
		}
	}
}

// had returns the incarnation that had an entry's seat last before t, in its generation; zero: none had.
func (m *model) had(t *Table, entry string) transport.ID {
	for o := t; o.Stamp.Version > 0; {
		o = m.tables.parent(o)
		i := slices.IndexFunc(o.Seats, func(s Seat) bool { return s.Entry == entry })
		if i < 0 {
			return 0
		}
		if id := o.Seats[i].Node.ID; id != 0 {
			return id
		}
	}
	return 0
}

// actsBy reports whether an incarnation lives and acts by a table, or may still: else it has gone over to
// another generation.
func (m *model) actsBy(id transport.ID, t *Table) bool {
	if m.at(id) == nil {
		return false
	}
	r := m.at(id).Report()
	return r.mayLearn(t) || r.Table != nil && r.Table.Stamp.Roll == t.Stamp.Roll
}

// last returns the last decision of t's generation.
func (m *model) last(t *Table) *Table {
	for _, o := range m.past {
		if o.Stamp.Roll == t.Stamp.Roll && o.Stamp.Version > t.Stamp.Version {
			t = o
		}
	}
	return t
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
			need = m.asked(v.table)
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

// asked returns those that must accept a roll call's value.
func (m *model) asked(t *Table) []transport.ID {
	for _, c := range m.calls {
		if c.Ballot == t.Stamp.Roll {
			return slices.DeleteFunc(slices.Clone(c.Roster), func(id transport.ID) bool { return id == 0 })
		}
	}
	return t.Bound()
}

// check returns what is wrong with a state, or "".
func (m *model) check() string {
	if m.wrong != "" {
		return m.wrong
	}
	if m.timed {
		if why := m.cutShort(); why != "" {
			return why
		}
	}
	var capable []Generation
	for i := range m.groups {
		g := &m.groups[i]
		votes := m.votes(g.generation)
		if quorum(g.voters, func(id transport.ID) bool { return votes(id) && !m.wronged(id, g.generation.Core) }) {
			capable = append(capable, g.generation)
		}
	}
	if len(capable) > 1 && !m.apart {
		return fmt.Sprintf("two generations of a shard can commit: %v", capable)
	}
	return ""
}

// cutShort returns which quiet time may be over too early, or "". While the list changes, a node may remember the mesh that has no
// seat in it any more; so then only what a roll call goes on from is looked at: see judge.
func (m *model) cutShort() string {
	for _, t := range m.past {
		if s := &t.Shards[0]; s.Calm && !slices.Contains(m.words, s.Generation) {
			return fmt.Sprintf("%v need not be quiet, and no operator has said so of it", s.Generation)
		}
	}
	for _, a := range m.acc {
		if a.table == nil || len(m.lists) > 1 {
			continue
		}
		seat := func(s Seat) bool {
			return s.Node.ID == a.self || s.Vacant() && s.Entry == m.names[int(a.self-1)%m.entries]
		}
		if !slices.ContainsFunc(a.table.Seats, seat) {
			continue // it is not believed alone
		}
		if o := m.outlasts(a.table); o != nil {
			return fmt.Sprintf("%d remembers that leases last up to %d, and by %v up to %d", a.self, a.table.Params.Outlast(), o.Stamp, o.Params.MaxTTL)
		}
	}
	return ""
}

// outlasts returns a decision by which leases may last for longer than t says, or nil. They may last as long as any decision of its
// mesh had MaxTTL, but those after which it was noted that all leases which are longer than those of now are over.
func (m *model) outlasts(t *Table) *Table {
	for _, o := range m.past {
		over := func(d *Table) bool {
			return d.Stamp.Version > 0 && m.tables.descends(d, o) && what(d, m.tables.parent(d)) == kinds[outlive]
		}
		if o.Params.MaxTTL > t.Params.Outlast() && m.tables.founded(o) == m.tables.founded(t) && !slices.ContainsFunc(m.past, over) {
			return o
		}
	}
	return nil
}

// wronged reports whether a decision on shards of this generation of the core says falsely that an incarnation has ended, and
// it has not learned that yet. What its replicas do until then is the harm of a false word, and all of it.
func (m *model) wronged(id transport.ID, core Ballot) bool {
	return !m.at(id).Ended() && slices.ContainsFunc(m.past, func(t *Table) bool {
		return t.Shards[0].Generation.Core == core && slices.ContainsFunc(t.Seats, func(s Seat) bool { return s.Node.ID == id && s.Ended })
	})
}

// comesToServe plays on while all entries are up and connected, nothing is lost, and nodes act by Next,
// one at a time. It returns why the mesh does not come to serve, or "".
func (m *model) comesToServe() string {
	m = m.clone()
	m.limits = limits{entries: m.entries, replicas: m.replicas, lists: m.lists, atOnce: true, back: m.back, orders: m.orders, hasty: m.hasty}
	last := slices.Max(m.files)
	if b := m.clone(); m.back && last > 0 && (!m.inForce(last) || m.reordered(last)) {
		if why := b.settles(last - 1); why != "" {
			return why + ", after the operator went back"
		}
	}
	return m.settles(last)
}

// settles plays on, and then restarts each node that has another list than this one with it: at last
// those, too, that it drops, if the mesh does not serve. But the mesh does not change to it before all nodes have the list before
// it (C11): so first each node that has an older one, and that it drops, is restarted with the list before.
func (m *model) settles(list int) string {
	why := m.play()
	restart := func(e int) {
		m.lives[e]++
		m.fresh(e)
		why = m.play()
	}
	drops := func(e int) bool { return !strings.Contains(m.lists[list], m.names[e]) }
	for e := range m.names {
		if list > 0 && m.runs(e) && drops(e) && m.lacks(e, list-1) && strings.Contains(m.lists[list-1], m.names[e]) {
			m.files[e] = list - 1
			restart(e)
		}
	}
	for _, dropped := range []bool{false, true} {
		for e := range m.names {
			if dropped != (m.files[e] < list && drops(e)) || dropped && why == "" {
				continue
			}
			if m.files[e] = list; (why != "" || list > 0 && m.changeable(list)) && m.lacks(e, list) {
				restart(e)
			}
		}
	}
	if t := m.latest(); why == "" && t != nil && list > 0 && m.changeable(list) {
		if _, err := t.Relist(strings.Split(m.lists[list], "")); errors.Is(err, errOngoing) || errors.Is(err, errSameList) && !t.complete(t.List()) {
			return fmt.Sprintf("the change of the list stays incomplete: %+v", *t)
		}
	}
	return why
}

func (m *model) play() string {
	var last []string
	for range 8 * m.entries {
		last = last[:0]
		for e := range m.names {
			last = append(last, fmt.Sprint(m.names[e], ": ", m.turn(e)))
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

// turn lets the incarnation at an entry act, if it goes by what it has heard after it has heard of each
// entry anew.
func (m *model) turn(e int) (did string) {
	if m.heard == nil || !m.runs(e) {
		return m.act(e, m.told(e))
	}
	for o := range m.names {
		m.hear(e, o)
		did = m.act(e, m.heardBy(e))
	}
	return did
}

// act lets the incarnation at an entry do what it is to do next.
func (m *model) act(e int, told map[string]Report) string {
	if !m.runs(e) {
		return "does not run"
	}
	if m.acc[e].Ended() {
		m.lives[e]++
		m.fresh(e)
		return "ends, as it is said to have ended, and comes back"
	}
	id := m.id(e)
	action, err := Next(id, told)
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
		return m.decideNow(e, m.tables.intern(a.Table, m.acc[e].table))
	case Begin:
		if a.Call.Short() {
			return "waits: a node leaves nobody out who will tell"
		}
		return m.callNow(a.Call)
	}
	return fmt.Sprintf("%T", action)
}

// callNow makes a roll call, if all answer.
func (m *model) callNow(c Call) string {
	k := call{Call: c}
	for _, other := range c.Roster {
		if m.at(other) == nil {
			return fmt.Sprintf("calls, and %d has ended", other)
		}
		r, err := m.edit(other).Call(c)
		if err != nil {
			return fmt.Sprintf("calls, and %d %v", other, err)
		}
		k.answers = append(k.answers, &r)
	}
	if k.value = m.values(k)[0]; k.value == nil {
		return "calls, by old reports"
	}
	m.calls = append(m.calls, k)
	for _, other := range c.Roster {
		if err := m.edit(other).Propose(k.value); err != nil {
			return fmt.Sprintf("proposes, and %d %v", other, err)
		}
		m.vote(vote{other, k.Ballot, k.value})
	}
	m.edit(c.Ballot.By).Learn(k.value)
	return "core.Begin"
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
	for o := range m.names { // who loses its seat shows others what it has decided
		if o == e || !slices.Contains(t.Bound(), m.id(e)) {
			m.edit(m.id(o)).Learn(t)
		}
	}
	return "decides"
}

// gone reports whether an incarnation does not run.
func (m *model) gone(id transport.ID) bool {
	return m.at(id) == nil || !m.runs(int(id-1)%m.entries)
}

// latest returns the latest decision that somebody knows.
func (m *model) latest() *Table {
	var all []Report
	for _, a := range m.acc {
		all = append(all, a.Report())
	}
	return newest(all)
}

// tend brings the shard forward where all know the same table, and reports whether all is well.
func (m *model) tend() bool {
	t := m.latest()
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
	able := m.tendShard(s)
	for k := bind; int(k) < len(kinds); k++ {
		ts := slices.DeleteFunc(m.changes(k, t), func(n *Table) bool {
			return k == vacate || k == calm || k == ttl || k == move && (!able || slices.ContainsFunc(n.Shards[0].Next, m.gone))
		})
		if k == recovery {
			run := slices.DeleteFunc(t.Bound(), m.gone)
			n, err := t.Recover(0, m.fenced(s.Generation), run[:min(len(run), m.replicas)])
			if ts = nil; err == nil {
				m.quieten(n, t)
				ts = append(ts, m.tables.intern(n, t))
			}
		}
		if len(ts) > 0 {
			m.decideNow(first, ts[0])
			return false
		}
	}
	g := m.group(s.Generation)
	raised := t.Params.Raise == 0 || t.listsDropped() // it waits until the operator has set lists right
	return quorum(g.voters, m.votes(g.generation)) && raised && t.Params.Longest == 0
}

// tendShard lets a shard change its voters as it may, or fences those that are left if it cannot. It
// reports whether it had a majority.
func (m *model) tendShard(s *Shard) (able bool) {
	g := m.group(s.Generation)
	able = quorum(g.voters, m.votes(g.generation))
	changes := s.Next != nil && s.Move > max(g.moved, g.void)
	switch {
	case able && changes && quorum(s.Next, m.votes(g.generation)):
		g.voters, g.moved = s.Next, s.Move
	case able && !changes:
	default: // those that are fenced never vote in this generation: another must begin
		if able {
			g.void = s.Move
		}
		for e := range m.acc {
			m.edit(m.id(e)).Fence(0, s.Generation)
		}
	}
	return able
}

// newServing returns meshes that were founded, and that all know: one for each choice of voters. The
// founding's ballot is nobody's, so that none of the entries is another than the others.
func newServing(l limits) (ms []*model) {
	for n := 0; ; n++ {
		m := newModel(l)
		if n > 0 {
			m.tables = ms[0].tables
		}
		c := Call{Ballot: Ballot{Round: 1}, List: m.file(0)}
		if m.late {
			c.Ballot.Round = 99
		}
		for _, entry := range c.List {
			c.Roster = append(c.Roster, m.id(slices.Index(m.names, entry)))
		}
		voters := sets(nil, c.Roster, m.replicas)
		if n == len(voters) {
			return ms
		}
		k := call{Call: c}
		for _, id := range c.Roster {
			r, _ := m.at(id).Call(c)
			k.answers = append(k.answers, &r)
		}
		t := m.values(k)[n]
		for _, id := range c.Roster {
			_ = m.at(id).Propose(t)
			m.vote(vote{id, c.Ballot, t})
			m.at(id).Learn(t)
		}
		m.sent = []*Table{t}
		for e := range m.heard { // all have told each other
			for o := range m.names {
				m.hear(e, o)
			}
		}
		ms = append(ms, m)
	}
}
