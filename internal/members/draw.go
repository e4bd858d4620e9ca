package members

import (
	"maps"
	"slices"

	"github.com/lockmesh/mesh/internal/env"
	"github.com/lockmesh/mesh/internal/replica"
)

// draw makes a new view, and forgets the nodes that were gone for long.
func (m *Machine) draw() {
	m.drawAt = env.Never
	bearers := make(map[string]*member) // by name
	leaves := make(map[uint64]bool)
	for _, o := range m.sorted() {
		if gone := m.now - o.since; !o.seated && !o.connected && o.ID != m.cfg.Self.ID {
			if gone > forgetAfter {
				delete(m.members, o.ID)
				continue
			}
			m.drawAt = min(m.drawAt, o.since+forgetAfter+1)
		}
		if o.unheard && m.now-o.since >= grace {
			o.unheard, o.state, o.since = false, env.Dead, m.now
		}
		l, until := m.liveness(o)
		if o.leaving {
			leaves[uint64(o.ID)] = true
		}
		m.tellOf(o, l)
		m.drawAt = min(m.drawAt, until)
		if !o.proven && o.state != env.Left {
			if p := bearers[o.Name]; p == nil || m.prefer(o, p) {
				bearers[o.Name] = o
			}
		}
	}
	shown, here := make([]Member, 0, len(bearers)), make([]replica.Peer, 0, len(bearers))
	for _, name := range slices.Sorted(maps.Keys(bearers)) {
		o := bearers[name]
		shown = append(shown, Member{Member: o.Member, State: o.state})
		if l, _ := m.liveness(o); l <= doubted {
			here = append(here, replica.Peer{Node: uint64(o.ID), Name: name, Addr: o.Addr})
		}
	}
	v := NewView(m.leaving, here)
	v.leaves = leaves
	m.emit(Drawn{View: v, Members: shown})
}
