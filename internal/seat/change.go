package seat

import (
	"fmt"
	"reflect"
	"slices"
	"time"

	"github.com/lockmesh/mesh/internal/core"
	"github.com/lockmesh/mesh/transport"
)

// Change is what somebody wants of the core: a shard, a [Move], [Settle] or [Recover]; an operator, a [Relist], a [Died], which an
// oracle may want as well, or an [Order]; or this node, that a seat is vacant. It is proposed until it is decided, or makes no sense
// any more; a State shows which. A shard asks again if it must.
type Change interface {
	// apply returns the version after t, or why the change makes no sense: it may have been made.
	apply(m *Machine, t *core.Table) (*core.Table, error)
	// over reports whether it can never make sense again.
	over(t *core.Table) bool
}

type (
	// Move is a leader's: its shard is to have these voters, sorted. It takes the place of one that was asked
	// for before, and is not decided yet.
	Move struct {
		Shard      int
		Generation core.Generation
		To         []transport.ID
	}
	// Settle is a leader's: the change of voters of this number was made, or never will be.
	Settle struct {
		Shard      int
		Generation core.Generation
		Move       uint64
		Made       bool
	}
	// Recover is of any node with a seat: the shard has had no leader for long, and is to begin another
	// generation with these voters, sorted. The voters so far are asked to fence their replicas until no quorum of
	// them is left. It takes the place of one that was asked for before, and is not decided yet; those that have
	// fenced their replicas for that one count.
	Recover struct {
		Shard      int
		Generation core.Generation
		To         []transport.ID
	}
)

// Cut asks for what a [Recover] wants of a voter: the replica of a shard on this node must never again vote,
// append or answer in this generation or an earlier one, from before what follows.
type Cut struct {
	Shard      int
	Generation core.Generation
}

func (Cut) isOutput() {}

// cut is what those said that have fenced their replicas.
type cut struct {
	by     []transport.ID
	floors []floors
}

// another reports whether generation g of a shard is not the one that t has.
func another(t *core.Table, shard int, g core.Generation) bool {
	return shard < 0 || shard >= len(t.Shards) || t.Shards[shard].Generation != g
}

func (c Move) over(t *core.Table) bool {
	if another(t, c.Shard, c.Generation) {
		return true
	}
	s := t.Shards[c.Shard]
	return s.Next != nil || slices.Equal(s.Voters, c.To)
}

func (c Move) apply(m *Machine, t *core.Table) (*core.Table, error) {
	for _, id := range c.To {
		if !slices.Contains(t.Shards[c.Shard].Voters, id) && !m.hears(id) {
			return nil, fmt.Errorf("node %v is not heard", id)
		}
	}
	return t.Move(c.Shard, c.To)
}

// hears reports whether a node is this one, or has told something lately. The connection with a machine that was switched
// off lasts for seconds. Were that node to get a vote, the change could be neither made nor given up.
func (m *Machine) hears(id transport.ID) bool {
	p := m.book.peers[id]
	return id == m.cfg.Self.ID || p != nil && p.up && m.heardLately(p, m.last)
}

func (c Settle) over(t *core.Table) bool {
	if another(t, c.Shard, c.Generation) {
		return true
	}
	s := t.Shards[c.Shard]
	return s.Next == nil || s.Move != c.Move
}

func (c Settle) apply(_ *Machine, t *core.Table) (*core.Table, error) {
	return t.Settle(c.Shard, c.Generation, c.Move, c.Made)
}

func (c Recover) cut() Cut { return Cut{c.Shard, c.Generation} }

func (c Recover) over(t *core.Table) bool { return another(t, c.Shard, c.Generation) }

func (c Recover) apply(m *Machine, t *core.Table) (*core.Table, error) {
	cut := m.cuts[c.cut()]
	n, err := t.Recover(c.Shard, cut.by, c.To)
	if err == nil {
		m.endow(&n.Shards[c.Shard], &t.Shards[c.Shard], t.Params, 0, cut.floors, sameTime)
	}
	return n, err
}

// Change asks for a change of the table. A shard out of range is ignored.
func (m *Machine) Change(now time.Duration, c Change, out []Output) []Output {
	return m.input(now, out, func() {
		t := m.acceptor.Table()
		if t == nil || c.over(t) || m.wanted(c) {
			return
		}
		m.changes = slices.DeleteFunc(m.changes, func(o Change) bool { return replaces(c, o) })
		m.changes = append(m.changes, c)
		m.askToFence(c, 0)
	})
}

// replaces reports whether a change takes the place of another one.
func replaces(c, old Change) bool {
	switch c := c.(type) {
	case Move:
		o, also := old.(Move)
		return also && c.Shard == o.Shard
	case Recover:
		o, also := old.(Recover)
		return also && c.cut() == o.cut()
	}
	return false
}

// wanted reports whether a change is asked for, and neither decided nor dropped yet.
func (m *Machine) wanted(c Change) bool {
	return slices.ContainsFunc(m.changes, func(o Change) bool { return reflect.DeepEqual(o, c) })
}

// Withdraw takes back what an operator wants: a [Died] or a [Relist]; as for an [Order], see WithdrawOrder. If the decision is under
// way already, it may still be made.
func (m *Machine) Withdraw(c Change) {
	m.changes = slices.DeleteFunc(m.changes, func(o Change) bool { return o == c })
}

// nextChange returns the version that has all changes that are wanted, or nil.
func (m *Machine) nextChange(now time.Duration) core.Action {
	t := m.acceptor.Table()
	if t == nil || m.acceptor.Serves(t.Stamp) != nil {
		return nil
	}
	seated := m.state.Table == nil || slices.Contains(m.state.Table.Bound(), m.cfg.Self.ID) // else nobody would answer what it proposes
	m.changes = slices.DeleteFunc(m.changes, func(c Change) bool {
		over := c.over(t) || !seated
		if r, ok := c.(Recover); ok && over {
			delete(m.cuts, r.cut())
		}
		return over
	})
	n := t
	for _, c := range m.changes {
		if c.over(n) { // by one before it
			continue
		}
		if with, err := c.apply(m, n); err == nil {
			n = with
		}
	}
	if n.Params == t.Params && seated { // else others do not know yet what this version says
		n = m.relive(now, n)
	}
	if n == t {
		return nil
	}
	n.Stamp = t.Stamp.Next()
	return core.Propose{Table: n}
}

// askToFence asks the voters of the shard that c recovers, if it recovers one, to fence their replicas: only one of them, or all
// if only is zero.
func (m *Machine) askToFence(c Change, only transport.ID) {
	t := m.acceptor.Table()
	r, ok := c.(Recover)
	if !ok || c.over(t) {
		return
	}
	voters := slices.Concat(t.Shards[r.Shard].Voters, t.Shards[r.Shard].Next)
	slices.Sort(voters)
	for _, id := range slices.Compact(voters) {
		if (only == 0 || id == only) && !slices.Contains(m.cuts[r.cut()].by, id) {
			m.send(id, fence(r.cut()))
		}
	}
}

// fence fences the replica of a shard on this node, for another node that recovers the shard.
func (m *Machine) fence(from transport.ID, f fence) {
	t := m.state.Table
	if t == nil || f.Shard >= len(t.Shards) || !slices.Contains(t.Bound(), from) {
		return
	}
	m.acceptor.Fence(f.Shard, f.Generation)
	m.emit(Cut(f))
	m.send(from, fenced{f.Shard, f.Generation, floors{m.clock(), []uint64{max(m.known(f.Shard), m.Floor())}, m.earlier()}})
}

func (m *Machine) fenced(from transport.ID, f fenced) {
	c := Cut{f.Shard, f.Generation}
	asked := func(o Change) bool { r, ok := o.(Recover); return ok && r.cut() == c }
	if by := m.cuts[c]; slices.ContainsFunc(m.changes, asked) && !slices.Contains(by.by, from) {
		m.cuts[c] = cut{append(by.by, from), append(by.floors, f.Floors)}
	}
}
