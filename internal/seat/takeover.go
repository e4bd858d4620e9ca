package seat

import (
	"fmt"
	"slices"
	"time"

	"github.com/lockmesh/mesh/internal/core"
	"github.com/lockmesh/mesh/internal/fault"
	"github.com/lockmesh/mesh/transport"
)

// held returns an error if another node answers at e than the one that has its seat, and the one with the seat is connected with this
// node, or with another node of the core that is heard and says so. Then nobody takes its place (C6).
func (m *Machine) held(e entry, now time.Duration) error {
	t := m.acceptor.Table()
	bearer := seated(t, e.addr)
	if e.back || e.node == m.cfg.Self.ID || !m.displaces(e.node, bearer) {
		return nil
	}
	if m.up(bearer) {
		return fmt.Errorf("%w: node %v answers at %s, and node %v, which has its seat, is connected", fault.ErrEntryTaken, e.node, e.addr, bearer)
	}
	for _, id := range t.Living() {
		p := m.book.peers[id]
		if id == bearer || p == nil || !p.up || p.told.Known != t.Stamp || !m.heardLately(p, now) {
			continue
		}
		if !slices.Contains(p.told.Apart, bearer) {
			return fmt.Errorf("%w: node %v answers at %s, and node %v, which has its seat, is connected with node %q", fault.ErrEntryTaken, e.node, e.addr, bearer, p.told.Member.Name)
		}
	}
	return nil
}

// seated returns the node that has the seat of an entry, and is not known to have ended; zero: there is none.
func seated(t *core.Table, entry string) transport.ID {
	if t != nil {
		for _, s := range t.Seats {
			if s.Entry == entry && !s.Ended {
				return s.Node.ID
			}
		}
	}
	return 0
}

// displaces reports whether a node would take the seat of another one without a proof of its own that that one has ended.
func (m *Machine) displaces(next, bearer transport.ID) bool {
	p := m.book.peers[next]
	return next != 0 && bearer != 0 && next != bearer && (p == nil || p.told.Member.ID != next || p.told.Replaces != bearer)
}

// takesOver returns why this node takes no part in a decision that gives the seats of these entries to these nodes: one
// that has such a seat now lives. It is this node, or is connected with it (C6).
func (m *Machine) takesOver(entries []string, nodes []transport.ID) error {
	for i, entry := range entries {
		if bearer := seated(m.acceptor.Table(), entry); m.displaces(nodes[i], bearer) && (bearer == m.cfg.Self.ID || m.up(bearer)) {
			return fmt.Errorf("node %v, which has the seat of %s, lives", bearer, entry)
		}
	}
	return nil
}

// takes is takesOver for a version of the table.
func (m *Machine) takes(t *core.Table) error {
	nodes := make([]transport.ID, len(t.Seats))
	for i, s := range t.Seats {
		nodes[i] = s.Node.ID
	}
	return m.takesOver(t.List(), nodes)
}
