package members

import (
	"maps"
	"slices"

	"github.com/lockmesh/mesh/internal/env"
	"github.com/lockmesh/mesh/internal/placement"
	"github.com/lockmesh/mesh/internal/replica"
	"github.com/lockmesh/mesh/ring"
)

// draw makes a new view, and forgets the nodes that were gone for long.
func (m *Machine) draw() {
	m.stale, m.drawAt = false, env.Never
	// A node that joined just now has not heard of all others. Later, one that it does not
	// know is gone.
	unknown := placement.Silent
	if known := m.joinedAt + grace; m.now < known {
		unknown, m.drawAt = placement.Suspect, known
	}
	liveness := make(map[uint64]placement.Liveness)
	bearers := make(map[string]*member) // by name
	placed := make(map[string]*member)  // those with a place on the ring
	for _, o := range m.sorted() {
		if o.state != env.Alive && m.now-o.since > forgetAfter || o.proven && m.now-o.since > forgetProven {
			delete(m.members, o.ID)
			m.emit(Disconnect{ID: o.ID})
			continue
		}
		l, until := m.liveness(o)
		liveness[uint64(o.ID)] = l
		m.tellOf(o, l)
		m.drawAt = min(m.drawAt, until)
		switch {
		case !o.proven && o.state != env.Left:
			if p := bearers[o.Name]; p == nil || m.prefer(o, p) {
				bearers[o.Name] = o
			}
		case o.proven && !o.leaving && m.now-o.since < grace:
			// Another node answers at its address already, and will be here in a moment: no
			// shard should shrink to fewer voters for that.
			placed[o.Name] = o
			m.drawAt = min(m.drawAt, o.since+grace)
		}
	}
	shown := make([]Member, 0, len(bearers))
	for _, name := range slices.Sorted(maps.Keys(bearers)) {
		o := bearers[name]
		shown = append(shown, Member{Member: o.Member, State: o.state})
		if liveness[uint64(o.ID)] <= placement.Suspect {
			placed[name] = o
		}
	}
	v := NewView(m.leaving, m.ringOver(placed), m.table)
	v.liveness, v.unknown = liveness, unknown
	m.emit(Drawn{View: v, Members: shown})
}

// ringOver makes the ring over these members, and returns them sorted by name. A ring over the same
// names and zones is not made again.
func (m *Machine) ringOver(members map[string]*member) []replica.Peer {
	var peers []replica.Peer
	var positions []ring.Member
	key := ""
	for _, name := range slices.Sorted(maps.Keys(members)) {
		o := members[name]
		peers = append(peers, replica.Peer{Node: uint64(o.ID), Name: name, Addr: o.Addr})
		positions = append(positions, ring.Member{Name: name, Zone: o.Zone})
		key += name + "\x00" + o.Zone + "\x00"
	}
	if m.table == nil || key != m.names {
		m.table, m.names = ring.New(positions, m.mesh.Shards, m.mesh.Replicas), key
	}
	return peers
}
