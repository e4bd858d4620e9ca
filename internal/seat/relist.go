package seat

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/lockmesh/mesh/internal/core"
	"github.com/lockmesh/mesh/internal/fault"
	"github.com/lockmesh/mesh/internal/founding"
	"github.com/lockmesh/mesh/transport"
)

// Relist is a change: the list is to become another one, on an operator's word (see core.Table.Order). It is proposed only
// while every node that stays is heard, and can keep a list.
type Relist struct{ From, To string } // entries, with blanks between them

// Keep asks for a list to be kept where the next incarnation at this node's entry finds it, in place of the list of an earlier Keep.
// Once this list is kept, Kept is to be called, whatever else was asked for meanwhile.
type Keep struct{ List []string }

func (Keep) isOutput() {}

func (o Relist) over(t *core.Table) bool {
	now := strings.Join(t.List(), " ")
	return t.Wants(strings.Fields(o.To)) || now != o.From && now != o.To
}

func (o Relist) apply(m *Machine, t *core.Table) (*core.Table, error) {
	to := strings.Fields(o.To)
	if err := m.mayOrder(t, to); err != nil {
		return nil, err
	}
	return t.Order(to)
}

// errLater is a reason for which a list cannot be ordered that may pass.
var errLater = errors.New("not yet")

// ChangeList asks for an entry to be added to the core's list, another one to be removed, or both; "" is none. It returns the
// change by which Unlisted tells what becomes of it, or why it cannot be asked for: an error that wraps ErrNoSeat,
// ErrInvalidOption, or ErrUnchanged. What may pass is waited for.
func (m *Machine) ChangeList(now time.Duration, add, remove string, out []Output) (Relist, []Output, error) {
	t := m.acceptor.Table()
	if !m.decides() {
		return Relist{}, out, fmt.Errorf("%w: ask a node of the core", fault.ErrNoSeat)
	}
	to, err := relisted(t, add, remove)
	if err != nil {
		return Relist{}, out, err
	}
	o := Relist{strings.Join(t.List(), " "), strings.Join(to, " ")}
	if o.over(t) || m.wanted(o) {
		return o, out, nil
	}
	if err := m.mayOrder(t, to); err != nil && !errors.Is(err, errLater) {
		return o, out, fmt.Errorf("%w from [%s] to [%s]: %w", fault.ErrUnchanged, o.From, o.To, err)
	}
	return o, m.input(now, out, func() {
		m.log(slog.LevelInfo, "an operator changes the list of the core", slog.String("was", o.From), slog.String("next", o.To))
		m.changes = append(m.changes, o)
	}), nil
}

// relisted returns the core's list with an entry added, and another one removed. What was done by the last change already is
// not done again.
func relisted(t *core.Table, add, remove string) ([]string, error) {
	list, was := t.List(), strings.Fields(t.Was)
	if remove != "" && !slices.Contains(list, remove) && !slices.Contains(was, remove) {
		return nil, fmt.Errorf("%w: %q is no entry of the core, which has %q", fault.ErrInvalidOption, remove, list)
	}
	if err := leadsBack(list, add); err != nil {
		return nil, err
	}
	if add != "" {
		list = append(list, add)
	}
	list = slices.DeleteFunc(list, func(e string) bool { return e == remove })
	if list = founding.Normalise(list); len(list) > 0 {
		l := limits{}
		if l.list(list); l.broken != "" {
			return nil, fmt.Errorf("%w: the core's list would be %q: %s", fault.ErrInvalidOption, list, l.broken)
		}
	}
	return list, nil
}

// leadsBack returns an error if a dial of an entry that is to be added to a list would reach whichever node dials it: each node of
// the core would be at two entries, and end. To a list that is all on loopback, so of one machine, another entry on loopback may be
// added.
func leadsBack(list []string, add string) error {
	host, _, err := net.SplitHostPort(add)
	elsewhere := !founding.AllLoopback(list) && founding.AllLoopback([]string{add})
	if err != nil || slices.Contains(list, add) || !elsewhere && !transport.IsWildcard(host) {
		return nil
	}
	return fmt.Errorf("%w: %q leads each node to itself: write the entry as the other nodes reach it", fault.ErrInvalidOption, add)
}

// mayOrder returns why a list may not be ordered now, or nil. The error wraps errLater if that may pass.
func (m *Machine) mayOrder(t *core.Table, to []string) error {
	for _, s := range t.Seats {
		if err := m.keeps(s, to); err != nil {
			return err
		}
	}
	if alone := len(to) == 1 && len(t.Seats) > 1 && !founding.AllLoopback(to); alone && (m.own != to[0] || !m.cfg.Found) {
		return fmt.Errorf("all locks would live on one node: to allow it, start the node of %s with WithFound, and ask that one", to[0])
	}
	_, err := t.Order(to)
	switch {
	case err == nil:
		return nil
	case !core.IsOngoing(err):
		return err
	case t.Ordered != "" && t.Ordered != strings.Join(t.List(), " "):
		return fmt.Errorf("%w: a change to [%s] is under way", errLater, t.Ordered)
	}
	return fmt.Errorf("%w: %w: %s", errLater, err, t.Unfinished())
}

// keeps returns why the node with a seat cannot keep a list for its next incarnation, or nil if it can, or need not. If it
// cannot, the change would never be complete.
func (m *Machine) keeps(s core.Seat, list []string) error {
	p := m.book.peers[s.Node.ID]
	switch {
	case s.Node.ID == 0 || !slices.Contains(list, s.Entry) || s.Keeps(list):
		return nil
	case s.Ended:
		return fmt.Errorf("node %q of %s has ended: replace or remove %[2]s first, or start another process there", s.Node.Name, s.Entry)
	case s.Node.ID == m.cfg.Self.ID && m.cfg.Saved != nil, p != nil && p.told.Keeps && m.heardLately(p, m.last):
		return nil
	case s.Node.ID != m.cfg.Self.ID && (p == nil || !m.heardLately(p, m.last)):
		return fmt.Errorf("%w: node %q of %s is not heard, and must keep the list as well; if it is gone for good, replace or remove %[3]s first", errLater, s.Node.Name, s.Entry)
	}
	return fmt.Errorf("node %q of %s has no state directory (WithStateDir) in which its next incarnation would find the list: restart the nodes of the core with the next list instead, one after the other", s.Node.Name, s.Entry)
}

// Unlisted returns why a Relist is not carried out yet, or nil if it is: the list is in force, and every node that has a seat
// in it keeps it. Errors wrap ErrUnfinished, or ErrUnchanged if another change came first.
func (m *Machine) Unlisted(o Relist) error {
	t := m.state.Table // also of a node that has no seat in it any more
	now, to := strings.Join(t.List(), " "), strings.Fields(o.To)
	lacks := slices.IndexFunc(t.Seats, func(s core.Seat) bool {
		return s.Node.ID != 0 && slices.Contains(to, s.Entry) && !s.Keeps(to)
	})
	asked := m.wanted(o)
	switch {
	case lacks < 0 && now == o.To:
		return nil
	case asked && m.mayOrder(t, to) != nil:
		return fmt.Errorf("%w: from [%s] to [%s]: %w", fault.ErrUnfinished, now, o.To, m.mayOrder(t, to))
	case asked:
		return fmt.Errorf("%w: the decision is under way", fault.ErrUnfinished)
	case now != o.To && t.Ordered != o.To:
		return fmt.Errorf("%w: another change came first, to [%s]", fault.ErrUnchanged, now)
	case lacks >= 0:
		s := t.Seats[lacks]
		return fmt.Errorf("%w: node %q of %s has not stored the list [%s] yet: the log of that node may say why", fault.ErrUnfinished, s.Node.Name, s.Entry, o.To)
	}
	return fmt.Errorf("%w: all nodes have stored the list [%s], and the core still has [%s]: %s", fault.ErrUnfinished, o.To, now, t.Unfinished())
}

// Steps returns the changes, one after the other, by which one entry is added and another one removed: pairs of what to add and
// what to remove. A list of three or fewer does not do both at once. It grows first, unless it has three entries and the node that goes
// is gone. The error wraps ErrInvalidOption: the entry cannot be added, so none is to be removed for it.
func (m *Machine) Steps(add, remove string) ([][2]string, error) {
	t := m.acceptor.Table()
	if t == nil || add == "" || remove == "" || len(t.Seats) > 3 || len(t.Seats) == 1 {
		return [][2]string{{add, remove}}, nil
	}
	if err := leadsBack(t.List(), add); err != nil {
		return nil, err
	}
	i := slices.Index(t.List(), remove)
	switch {
	case i < 0:
		return [][2]string{{add, ""}}, nil
	case slices.Contains(t.List(), add):
		return [][2]string{{"", remove}}, nil
	}
	if s := t.Seats[i]; len(t.Seats) == 3 && (s.Node.ID == 0 || s.Ended || m.silent(s.Node.ID) == nil) {
		return [][2]string{{"", remove}, {add, ""}}, nil
	}
	return [][2]string{{add, ""}, {"", remove}}, nil
}

// heeding is what a node does about an order.
type heeding struct {
	keeping string        // the list that it has asked to be kept
	warnAt  time.Duration // when it says again that it cannot
}

// heed has the list kept that is ordered, if this node has a seat, and another list. A node whose entry is to go, and which was
// started with a list before the core's present one, has the present one kept: until then the change is not made.
func (m *Machine) heed(now time.Duration) {
	t := m.acceptor.Table()
	if t == nil || t.Ordered == "" || m.acceptor.Ended() || !slices.Contains(t.Bound(), m.cfg.Self.ID) {
		m.heeding = heeding{}
		return
	}
	to := t.OrderedList()
	ordered := slices.Equal(to, m.cfg.List)
	if !slices.Contains(to, m.own) {
		to = t.List()
	}
	switch {
	case ordered || slices.Equal(to, m.cfg.List):
		m.heeding = heeding{}
	case m.cfg.Saved == nil:
		if now >= m.heeding.warnAt {
			m.heeding.warnAt = now + time.Minute
			m.log(slog.LevelWarn, "an operator changes the list, and this node has no state directory: restart it with the next one",
				slog.String("was", strings.Join(m.cfg.List, " ")), slog.String("next", strings.Join(to, " ")))
		}
	case m.heeding.keeping != strings.Join(to, " "):
		m.heeding.keeping = strings.Join(to, " ")
		m.emit(Keep{to})
	}
}

// Kept reports that the next incarnation at this node's entry starts with this list, whatever happens now.
func (m *Machine) Kept(now time.Duration, list []string, out []Output) []Output {
	return m.input(now, out, func() {
		m.log(slog.LevelInfo, "this node has stored the next list", slog.String("was", strings.Join(m.cfg.List, " ")), slog.String("is", strings.Join(list, " ")))
		m.cfg.List = list
		m.acceptor.SetList(list)
		m.pace = paceOf(list)
		if m.heeding.keeping == strings.Join(list, " ") {
			m.heeding.keeping = ""
		}
	})
}
