package members

import (
	"cmp"
	"slices"
	"time"

	"github.com/lockmesh/mesh/internal/env"
	"github.com/lockmesh/mesh/transport"
)

// member is what this node believes of a node, itself included. One without a seat is a client.
type member struct {
	env.Member
	seated    bool
	state     env.MemberState // as gossip says, if both have a seat; else by their connection
	since     time.Duration   // of state, or of the proof
	leaving   bool            // it said so itself
	proven    bool            // dead: another node answers at its address (P33)
	connected bool
	unheard   bool   // the core's table alone speaks of it: it may be dead
	said      string // what was logged of it last: see tellOf

	heard time.Duration // a client: when it last asked for a status; zero: not yet
	told  time.Duration // a client: when it was last sent one
	owed  bool          // a client: it is to be sent one
}

// grace is for how long a node may be silent before it counts as gone.
const grace = 5 * time.Second

// forgetAfter is for how long a node remembers those that are gone and have no seat, to show them: there may be many.
const forgetAfter = time.Minute

// add makes a node known, if it is not.
func (m *Machine) add(said env.Member) *member {
	o := m.members[said.ID]
	if o == nil {
		_, connected := m.connected[said.ID]
		o = &member{Member: said, since: m.now, connected: connected}
		m.members[said.ID] = o
		m.drawAt = m.now
	}
	return o
}

// believe takes in what gossip says of a node that has a seat.
func (m *Machine) believe(said env.Member, state env.MemberState) {
	o := m.members[said.ID]
	if o == nil || !o.seated {
		return // it is too early, or too late
	}
	o.unheard = false
	if o.state == env.Left || o.proven {
		return // that is for ever
	}
	if state == env.Alive && said.Addr != "" {
		o.Addr = said.Addr
		m.keep(o)
	}
	m.becomes(o, state)
	m.succeeds(o)
}

// keep asks for a connection to a node with a seat. It is nothing new, if it is kept already. Nobody else is dialled.
func (m *Machine) keep(o *member) {
	if o.ID != m.cfg.Self.ID {
		m.emit(Connect{ID: o.ID, Addr: o.Addr})
	}
}

// becomes notes another state of a node.
func (m *Machine) becomes(o *member, state env.MemberState) {
	if o.state == state {
		return
	}
	o.state, o.since, m.drawAt = state, m.now, m.now
	if state == env.Left {
		m.emit(Disconnect{ID: o.ID})
	}
}

// succeeds proves a node dead if it is this one that answers at its address now (P33).
func (m *Machine) succeeds(o *member) {
	if self := m.cfg.Self; self.Addr != "" && o.Name == self.Name && o.Addr == self.Addr && o.ID != self.ID {
		m.prove(o)
	}
}

// prove records as proven that a node is dead: another node answers at its address (P33).
func (m *Machine) prove(o *member) {
	if o.proven {
		return
	}
	o.proven, o.since, m.drawAt = true, m.now, m.now
	m.emit(Disconnect{ID: o.ID})
	m.emit(NodeGone{ID: o.ID})
}

// introduce takes in a node of this mesh that answers. Gossip is told of one with a seat that it does not believe to
// live: it gives up nodes that were lost long ago, and its rumours miss a node now and then. A node of the core takes
// any other for a client, while it is connected.
func (m *Machine) introduce(peer transport.Hello) {
	if !m.joined || !m.core || peer.ID == m.cfg.Self.ID || peer.MeshID != m.mesh.ID {
		return
	}
	o := m.members[peer.ID]
	_, connected := m.connected[peer.ID]
	switch {
	case o != nil && o.seated:
		if o.state == env.Dead && !o.proven {
			m.emit(Join{Members: []env.Member{o.Member}})
		}
	case o == nil && connected:
		m.add(env.Member{ID: peer.ID, Name: peer.Name, Addr: peer.Addr, Zone: peer.Zone})
	}
}

// byConnection reports whether this node goes by its connection with another one alone, and not by gossip.
func (m *Machine) byConnection(o *member) bool { return !m.core || !o.seated }

// sorted returns all known nodes, in the order of their IDs.
func (m *Machine) sorted() []*member {
	all := make([]*member, 0, len(m.members))
	for _, o := range m.members { // order-free: sorted below
		all = append(all, o)
	}
	slices.SortFunc(all, func(a, b *member) int { return cmp.Compare(a.ID, b.ID) })
	return all
}

// peers returns the other members that are connected, in the order of their IDs.
func (m *Machine) peers() []*member {
	return slices.DeleteFunc(m.sorted(), func(o *member) bool { return !o.connected || o.ID == m.cfg.Self.ID })
}

// liveness is what a node believes of another one. The later, the less it lives.
type liveness int

const (
	present  liveness = iota
	doubted           // silent, for less than the grace
	silent            // it may come back
	departed          // it left, leaves, or is proven dead
)

// liveness returns what is believed of a node, and until when.
func (m *Machine) liveness(o *member) (l liveness, until time.Duration) {
	switch {
	case o.ID == m.cfg.Self.ID && m.leaving:
		return departed, env.Never
	case o.ID == m.cfg.Self.ID:
		return present, env.Never
	case o.state == env.Left || o.leaving || o.proven:
		return departed, env.Never
	case o.unheard:
		return present, o.since + grace
	case o.connected || o.seated && o.state == env.Alive:
		return present, env.Never
	case m.now-o.since < grace:
		return doubted, o.since + grace
	}
	return silent, env.Never
}

// prefer reports whether o rather than p is the node that now bears their name. Gossip still
// speaks of a node that was killed when its successor is here already.
func (m *Machine) prefer(o, p *member) bool {
	is, was := m.standing(o), m.standing(p)
	return is > was || is == was && o.since > p.since
}

// standing is how strong a node's claim to its name is.
func (m *Machine) standing(o *member) int {
	switch l, _ := m.liveness(o); {
	case l != present:
		return -int(l)
	case o.ID == m.cfg.Self.ID:
		return 3
	case o.connected:
		return 2
	}
	return 1
}
