package seat

import (
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/lockmesh/mesh/internal/core"
	"github.com/lockmesh/mesh/internal/env"
	"github.com/lockmesh/mesh/internal/fault"
	"github.com/lockmesh/mesh/internal/founding"
)

// SetMaxTTL is an operator's order: MaxTTL is for how long leases may last from now on (C5).
//
// A lowering is carried out as soon as it is decided. A raise is noted first, and counts for quiet times; it is put in
// force, by a second decision, by a node that has heard from all that are bound that they know of it, and have kept it in
// their state directories, if they have any. So whoever remembers the mesh, when others have forgotten, is quiet for long enough.
type SetMaxTTL struct{ MaxTTL time.Duration }

// lifetimes is what this node knows of changes of MaxTTL.
type lifetimes struct {
	version uint64        // of the table by which it learned of Params as they are, in this generation of the core
	since   time.Duration // when all that were bound were heard to know of them, so that those bound later know; env.Never: not yet
}

func (c SetMaxTTL) over(t *core.Table) bool {
	_, err := t.SetMaxTTL(c.MaxTTL)
	return err != nil
}

func (c SetMaxTTL) apply(_ *Machine, t *core.Table) (*core.Table, error) {
	return t.SetMaxTTL(c.MaxTTL)
}

func (c SetMaxTTL) outcome(m *Machine, t *core.Table, seen bool) error {
	p := t.Params
	switch {
	case c.MaxTTL == p.MaxTTL && p.Raise == 0:
		return nil
	case c.MaxTTL == p.Raise:
		return fmt.Errorf("%w: the raise is decided, and comes into force when %s", fault.ErrNoQuorum, m.raiseWaits(t))
	case seen:
		return fmt.Errorf("%w: another command sets MaxTTL to %v", fault.ErrChanged, p.Limit())
	}
	if err := m.needs(c.MaxTTL); err != nil {
		return err
	}
	return errUndecided
}

// needs returns an error if a node that this one knows asks for longer leases by an option: when it starts again, it
// would be refused.
func (m *Machine) needs(d time.Duration) error {
	asks := func(name string, o founding.Options) error {
		if o.LeaseTTL <= d {
			return nil
		}
		return fmt.Errorf("%w: MaxTTL is to be %v, and node %q asks for WithLeaseTTL %v", fault.ErrInvalidOption, d, name, o.LeaseTTL)
	}
	if err := asks(m.cfg.Self.Name, m.cfg.Wants); err != nil {
		return err
	}
	for _, id := range slices.Sorted(maps.Keys(m.book.peers)) {
		if p := m.book.peers[id]; p.up {
			if err := asks(p.told.Member.Name, p.told.Wants); err != nil {
				return err
			}
		}
	}
	return nil
}

func (c SetMaxTTL) message(number uint64) order { return order{Number: number, MaxTTL: c.MaxTTL} }

func (c SetMaxTTL) news() (string, []slog.Attr) {
	return "an operator asks for another MaxTTL, the longest time that a lease may last", []slog.Attr{slog.Duration("MaxTTL", c.MaxTTL)}
}

// unsaved reports whether the state directory of this node, if it has one, does not say yet for how long a mesh must be
// quiet that is founded after this one.
func (m *Machine) unsaved() bool { return m.cfg.Saved != nil && m.cfg.Saved() < m.Quiet() }

// allAware reports whether all nodes that may remember the mesh know the Params of t, and keep them. A node that has ended counts until
// another one has its seat; one that is dropped, until it votes in no shard.
func (m *Machine) allAware(t *core.Table) bool { return len(m.unaware(t)) == 0 && t.Dropped == 0 }

// unaware returns the entries whose nodes have not said that they know the Params of t, and keep them.
func (m *Machine) unaware(t *core.Table) (entries []string) {
	for _, s := range t.Seats {
		p := m.book.peers[s.Node.ID]
		switch {
		case s.Node.ID == 0 && !s.Vacant(): // nobody is there who could remember anything
		case s.Node.ID == m.cfg.Self.ID && !m.unsaved():
		case p != nil && p.told.Known.Roll == t.Stamp.Roll && p.told.Known.Version >= m.lifetimes.version && !p.told.Unsaved:
		default:
			entries = append(entries, s.Entry)
		}
	}
	return entries
}

// raiseWaits says what a raise waits for, for people.
func (m *Machine) raiseWaits(t *core.Table) string {
	if entries := m.unaware(t); len(entries) > 0 {
		return fmt.Sprintf("the nodes at %s have said that they know of it", strings.Join(entries, " "))
	}
	if t.Dropped != 0 {
		return fmt.Sprintf("node %s, which the list has dropped, votes in no shard any more", t.Dropped)
	}
	if why := t.Unfinished(); why != "" {
		return fmt.Sprintf("all nodes of the core have its list: %s", why)
	}
	return "the core has decided that"
}

// relived notes what a table says of MaxTTL that this node knows in place of before.
func (m *Machine) relived(before, t *core.Table) {
	if before != nil && before.Stamp.Roll == t.Stamp.Roll && before.Params == t.Params {
		return
	}
	m.lifetimes = lifetimes{t.Stamp.Version, env.Never}
	if before == nil || before.Mesh != t.Mesh || before.Params == t.Params {
		return
	}
	p, text := t.Params, "MaxTTL has changed"
	if p.MaxTTL == before.Params.MaxTTL { // a raise is noted, or leases that were longer are over
		text = "a change of MaxTTL has come one step further"
	}
	attrs := []slog.Attr{slog.Duration("MaxTTL", p.MaxTTL)}
	if p.Raise != 0 {
		attrs = append(attrs, slog.Duration("raiseTo", p.Raise))
	}
	m.log(slog.LevelInfo, text, append(attrs, slog.Duration("quiet", p.Quiet()))...)
}

// relive returns t with what is due of a change of MaxTTL: a raise that all know of comes into force; and leases that were
// longer than they may be now are over when so much time has passed since all knew of the lowering.
func (m *Machine) relive(now time.Duration, t *core.Table) *core.Table {
	if p := t.Params; p.Raise == 0 && p.Longest == 0 {
		return t
	}
	if m.lifetimes.since == env.Never {
		if !m.allAware(t) {
			return t
		}
		m.lifetimes.since = now
	}
	if n, err := t.Raise(); err == nil {
		t = n
	}
	if now-m.lifetimes.since >= t.Params.Quiet() {
		if n, err := t.Outlive(); err == nil {
			t = n
		}
	}
	return t
}
