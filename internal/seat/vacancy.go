package seat

import (
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"time"

	"github.com/lockmesh/mesh/internal/core"
	"github.com/lockmesh/mesh/internal/env"
	"github.com/lockmesh/mesh/transport"
)

// vacant is a change: the incarnation with the seat of an entry is silent, and the others decide without it: see
// core.Table.Vacate. It is proposed under the conditions of Died; but silence is no proof, and proves nothing here: the
// node has its seat back as soon as it is heard.
type vacant struct {
	Entry string
	Node  transport.ID
}

func (c vacant) over(t *core.Table) bool {
	return !slices.ContainsFunc(t.Seats, func(s core.Seat) bool { return s.Entry == c.Entry && s.Node.ID == c.Node })
}

func (c vacant) apply(m *Machine, t *core.Table) (*core.Table, error) {
	if err := m.silent(c.Node); err != nil {
		return nil, err
	}
	return t.Vacate(c.Entry, c.Node)
}

// For how long a node must not have been connected before its seat is vacated. One whose process has ended, as its host
// says, remembers nothing: after goneAfter its shards have replaced it, and an oracle has been asked. One that is silent may
// come back with all that it knows. While it has its seat, it and one other of the three are a majority if the third dies meanwhile; but if
// another one restarts meanwhile, that one waits for it. The second case is the more frequent one: a machine has lost its power, and an
// operator restarts the others. So the time is short, though longer than a process usually stalls. No promise relies on either time.
const (
	goneAfter   = Grace + 2*stalled
	silentAfter = 15 * time.Second
)

// silence is since when a node with a seat has not been connected, and whether its process has ended.
type silence struct {
	since time.Duration
	gone  bool
}

// Gone reports that no process answers for a node any more at its address: connections are refused, or another node
// answers. It comes before the Down of the connection, or later.
func (m *Machine) Gone(id transport.ID) {
	if s := m.silence[id]; s != nil {
		s.gone = true
	} else if t := m.acceptor.Table(); t != nil && slices.Contains(t.Bound(), id) {
		m.silence[id] = &silence{since: env.Never, gone: true}
	}
}

// vacate asks for the seats of nodes that this one has not been connected with for long.
func (m *Machine) vacate(now time.Duration) {
	t := m.acceptor.Table()
	if t == nil || m.own == "" || m.acceptor.Serves(t.Stamp) != nil {
		clear(m.silence)
		return
	}
	apart := m.apart()
	// order-free: each is looked at alone
	maps.DeleteFunc(m.silence, func(id transport.ID, _ *silence) bool { return !slices.Contains(apart, id) })
	for _, s := range t.Seats {
		id := s.Node.ID
		if !slices.Contains(apart, id) {
			continue
		}
		o := m.silence[id]
		if o == nil {
			o = &silence{since: env.Never}
			m.silence[id] = o
		}
		o.since = min(o.since, now)
		patience := silentAfter
		if o.gone {
			patience = goneAfter
		}
		c := vacant{s.Entry, id}
		if _, err := t.Vacate(s.Entry, id); err == nil && now-o.since >= patience && !m.wanted(c) {
			m.log(slog.LevelInfo, "a node of the core is silent: this node proposes that its seat be vacant, and that the two others decide without it", slog.String("entry", s.Entry), slog.String("peer", s.Node.Name))
			m.changes = append(m.changes, c)
		}
	}
}

// missed returns an error if a generation may serve with nodes that a roll call leaves out: they are connected with this node, or with
// one that is to answer the call, as that one says. Otherwise two nodes that cannot reach each other would call in turn, each without
// the other.
func (m *Machine) missed(c core.Call, reports map[string]core.Report) error {
	for _, e := range m.book.entries {
		t := reports[e.addr].Table
		if t == nil {
			continue
		}
		n, living := m.serve(t, reports), 0
		for i, entry := range c.List {
			if id := seated(t, entry); c.Roster[i] == 0 && id != 0 && m.connected(id, c) {
				living++
			}
		}
		if living > 0 && n+living >= core.Majority(len(t.Bound())) {
			return fmt.Errorf("the mesh may serve with %d nodes that do not answer this one, and are connected with it or with others", living)
		}
	}
	return nil
}

// connected reports whether a node is connected with this one, or with one that is to answer, as that one says.
func (m *Machine) connected(id transport.ID, c core.Call) bool {
	return m.up(id) || slices.ContainsFunc(c.Roster, func(o transport.ID) bool {
		p := m.book.peers[o]
		return p != nil && p.knows != nil && p.told.Known == p.knows.Stamp && slices.Contains(p.knows.Living(), id) && !slices.Contains(p.told.Apart, id)
	})
}

// silentSince returns since when the entries do not count that a roll call leaves out.
func (m *Machine) silentSince(now time.Duration, c core.Call) (since time.Duration) {
	for _, e := range m.book.entries {
		if i := slices.Index(c.List, e.addr); i >= 0 && c.Roster[i] == 0 {
			if e.counted { // until a moment ago
				return now
			}
			since = max(since, e.away)
		}
	}
	return since
}
