package seat

import (
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"time"

	"github.com/lockmesh/mesh/internal/core"
	"github.com/lockmesh/mesh/internal/env"
	"github.com/lockmesh/mesh/internal/fault"
	"github.com/lockmesh/mesh/transport"
)

// Died is a change: the incarnation with the seat of an entry has ended, as an operator or an oracle says. It is
// proposed only while most of the core say that they have no connection with it, and nobody that is heard has one; and dropped
// as soon as this node gets a new one.
type Died struct {
	Entry string
	Node  transport.ID
}

// Inquire asks an oracle whether the incarnation of a node has ended, which this node has not been connected
// with for the grace. It is to be followed by one call of Answered, however long that takes.
type Inquire struct{ Node env.Member }

func (Inquire) isOutput() {}

// Grace is for how long a node with a seat must not have been connected before an oracle is asked about
// it, and between two questions: as long as a silent voter keeps its vote.
const Grace = 6 * stalled

// inquiry is what this node does to find out about a node that it is not connected with.
type inquiry struct {
	next  time.Duration // when to ask
	asked bool          // there is no answer yet
}

func (c Died) over(t *core.Table) bool {
	return !slices.ContainsFunc(t.Seats, func(s core.Seat) bool { return s.Entry == c.Entry && s.Node.ID == c.Node && !s.Ended })
}

func (c Died) apply(m *Machine, t *core.Table) (*core.Table, error) {
	if err := m.silent(c.Node); err != nil {
		return nil, err
	}
	return t.End(c.Entry, c.Node)
}

// silent returns nil if most of those with a seat say that they have no connection with a node, and none of
// those that are heard says otherwise. They must know the same table as this node: what they say is about its seats.
func (m *Machine) silent(id transport.ID) error {
	t := m.acceptor.Table()
	bound, n := t.Bound(), 0
	for _, o := range bound {
		p := m.book.peers[o]
		switch {
		case o == id:
		case o == m.cfg.Self.ID:
			if m.up(id) {
				return fmt.Errorf("%w: it is connected with this node", fault.ErrAlive)
			}
			n++
		case p == nil || p.told.Known != t.Stamp || !m.heardLately(p, m.last):
		case !slices.Contains(p.told.Apart, id):
			return fmt.Errorf("%w: it is connected with node %q", fault.ErrAlive, p.told.Member.Name)
		default:
			n++
		}
	}
	if need := core.Majority(len(bound)); n < need {
		return fmt.Errorf("%w: %d of %d nodes of the core say that it is silent, and %d must", fault.ErrNoQuorum, n, len(bound), need)
	}
	return nil
}

// up reports whether there is a connection with a node.
func (m *Machine) up(id transport.ID) bool {
	p := m.book.peers[id]
	return p != nil && p.up
}

// apart returns the nodes with a seat that this node is not connected with, sorted; also those that are known to have ended, whose seats
// may be vacated.
func (m *Machine) apart() (ids []transport.ID) {
	t := m.acceptor.Table()
	if t == nil {
		return nil
	}
	for _, id := range t.Bound() {
		if id != m.cfg.Self.ID && !m.up(id) {
			ids = append(ids, id)
		}
	}
	return ids
}

// DeclareDead asks for the decision that the node with the seat of an entry has ended, on an operator's word. It
// returns the change by which Undecided tells what becomes of it, or why it cannot be asked for: an error that wraps
// ErrNoSeat, ErrInvalidOption, ErrAlive if it is this node, or ErrNoQuorum. If no node has the seat, or it is known to have
// ended, there is nothing to decide. A connection with that node may be one that has not been missed yet: so the
// change waits for its end.
func (m *Machine) DeclareDead(now time.Duration, entry string, out []Output) (Died, []Output, error) {
	t := m.acceptor.Table()
	if !m.decides() {
		return Died{}, out, fmt.Errorf("%w: ask a node of the core", fault.ErrNoSeat)
	}
	i := slices.Index(t.List(), entry)
	if i < 0 {
		return Died{}, out, fmt.Errorf("%w: %q is no entry of the core, which has %q", fault.ErrInvalidOption, entry, t.List())
	}
	s := t.Seats[i]
	d := Died{entry, s.Node.ID}
	if s.Node.ID == 0 || d.over(t) {
		return d, out, nil
	}
	if s.Node.ID == m.cfg.Self.ID {
		return d, out, fmt.Errorf("%w: it is this node", fault.ErrAlive)
	}
	if _, err := t.End(entry, s.Node.ID); err != nil {
		return d, out, fmt.Errorf("%w: %w", fault.ErrNoQuorum, err)
	}
	return d, m.input(now, out, func() { m.said("an operator declares a node dead: the core is to decide it", d, s.Node) }), nil
}

// said: somebody who can know says that a node has ended.
func (m *Machine) said(text string, d Died, node env.Member) {
	if !m.wanted(d) {
		m.log(slog.LevelWarn, text, attrsOf(d, node)...)
		m.changes = append(m.changes, d)
	}
}

func attrsOf(d Died, node env.Member) []slog.Attr {
	return []slog.Attr{slog.String("entry", d.Entry), slog.String("peer", node.Name), slog.String("id", d.Node.String())}
}

// ErrConnected is Undecided's error of a Died that this node has dropped: nothing comes of it any more.
var ErrConnected = fmt.Errorf("%w: it was connected with this node meanwhile: the declaration is dropped", fault.ErrAlive)

// Undecided returns why a Died has no effect yet, or nil if it has, or is about a node that has lost its seat.
func (m *Machine) Undecided(d Died) error {
	t := m.acceptor.Table()
	switch {
	case d.Node == 0 || d.over(t):
		return nil
	case !m.wanted(d):
		return ErrConnected
	}
	if err := m.silent(d.Node); err != nil {
		return err
	}
	if _, err := t.End(d.Entry, d.Node); err != nil {
		return fmt.Errorf("%w: %w", fault.ErrNoQuorum, err)
	}
	return errUndecided
}

var errUndecided = fmt.Errorf("%w: the decision is under way", fault.ErrNoQuorum)

// lives: there is a connection with a node, so nobody is believed who says that it has ended.
func (m *Machine) lives(id transport.ID) {
	m.changes = slices.DeleteFunc(m.changes, func(c Change) bool { v, is := c.(vacant); return is && v.Node == id })
	m.changes = slices.DeleteFunc(m.changes, func(c Change) bool {
		d, is := c.(Died)
		if is && d.Node == id {
			m.log(slog.LevelError, "a node was declared dead, but is connected with this node: the declaration is dropped", slog.String("entry", d.Entry), slog.String("id", id.String()))
		}
		return is && d.Node == id
	})
}

// inquire asks the oracle about nodes with a seat that this node has not been connected with for the grace.
func (m *Machine) inquire(now time.Duration) {
	t := m.acceptor.Table()
	if !m.cfg.Oracle || t == nil || m.own == "" || m.acceptor.Serves(t.Stamp) != nil {
		clear(m.inquiries)
		return
	}
	apart, living := m.apart(), t.Living()
	apart = slices.DeleteFunc(apart, func(id transport.ID) bool { return !slices.Contains(living, id) }) // else it is known
	// order-free: each is looked at alone
	maps.DeleteFunc(m.inquiries, func(id transport.ID, _ *inquiry) bool { return !slices.Contains(apart, id) })
	for _, s := range t.Seats {
		if !slices.Contains(apart, s.Node.ID) {
			continue
		}
		q := m.inquiries[s.Node.ID]
		if q == nil {
			q = &inquiry{next: now + Grace}
			m.inquiries[s.Node.ID] = q
		}
		switch {
		case q.asked || now < q.next:
		case m.wanted(Died{s.Entry, s.Node.ID}): // it has said so, and nothing is decided yet
			q.next = now + Grace
		default:
			q.asked = true
			m.emit(Inquire{s.Node})
		}
	}
}

// Answered is the oracle's answer to Inquire. It counts only if there was no connection with the node since.
func (m *Machine) Answered(now time.Duration, id transport.ID, dead bool, err error, out []Output) []Output {
	return m.input(now, out, func() {
		q, t := m.inquiries[id], m.acceptor.Table()
		if q == nil || !q.asked {
			return
		}
		q.asked, q.next = false, now+Grace
		i := slices.IndexFunc(t.Seats, func(s core.Seat) bool { return s.Node.ID == id })
		if i < 0 {
			return
		}
		d := Died{t.Seats[i].Entry, id}
		switch {
		case err != nil:
			m.log(slog.LevelWarn, "the death oracle failed", append(attrsOf(d, t.Seats[i].Node), slog.String("error", err.Error()))...)
		case dead:
			m.said("the death oracle declares a node dead: the core is to decide it", d, t.Seats[i].Node)
		}
	})
}

// inquireAt is when the oracle is to be asked next.
func (m *Machine) inquireAt() time.Duration {
	next := env.Never
	for _, q := range m.inquiries { // order-free: a minimum
		if !q.asked {
			next = min(next, q.next)
		}
	}
	return next
}

// errSaidDead: what a node ends with that learns that its mesh takes it for dead.
var errSaidDead = errors.New("an operator or an oracle has declared this node dead, and its mesh goes on without it")
