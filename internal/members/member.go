package members

import (
	"cmp"
	"slices"
	"time"

	"github.com/lockmesh/mesh/internal/env"
	"github.com/lockmesh/mesh/transport"
)

// member is what this node believes of a node, itself included.
type member struct {
	env.Member
	state     env.MemberState // as gossip says
	since     time.Duration   // of state, or of the proof
	leaving   bool            // it said so itself
	proven    bool            // dead: another node answers at its address (P33)
	connected bool
	unheard   bool   // the core's table alone speaks of it: it may be dead
	said      string // what was logged of it last: see tellOf
}

// grace is for how long a node may be silent before it counts as gone.
const grace = 5 * time.Second

// For how long a node remembers silent nodes, to show them, and those that are proven dead, so that late
// gossip does not bring them back.
const (
	forgetAfter  = 24 * time.Hour
	forgetProven = 10 * time.Minute
)

// believe takes in what is said of a node.
func (m *Machine) believe(said env.Member, state env.MemberState) {
	o := m.members[said.ID]
	if o == nil {
		_, connected := m.connected[said.ID]
		o = &member{Member: said, since: m.now, connected: connected}
		m.members[said.ID] = o
		m.stale = true
	}
	o.unheard = false
	if o.state == env.Left || o.proven {
		return // that is for ever
	}
	if state == env.Alive && said.Addr != "" {
		o.Addr = said.Addr
		if said.ID != m.cfg.Self.ID {
			m.emit(Connect{ID: said.ID, Addr: said.Addr}) // nothing new, if it is kept already
		}
	}
	if o.state != state {
		o.state, o.since, m.stale = state, m.now, true
		if state == env.Left {
			m.emit(Disconnect{ID: said.ID})
		}
	}
	if self := m.cfg.Self; o.Name == self.Name && o.Addr == self.Addr && o.ID != self.ID {
		m.prove(o) // it is this node that answers there now
	}
}

// prove records as proven that a node is dead: another node answers at its address (P33).
func (m *Machine) prove(o *member) {
	if o.proven {
		return
	}
	o.proven, o.since, m.stale = true, m.now, true
	m.emit(Disconnect{ID: o.ID})
	m.emit(NodeGone{ID: o.ID})
}

// introduce tells gossip of a node of this mesh that answers, if gossip does not believe that
// it lives: gossip gives up nodes that were lost long ago, and its rumours miss a node now and then.
func (m *Machine) introduce(peer transport.Hello) {
	if !m.joined || peer.ID == m.cfg.Self.ID || peer.MeshID != m.mesh.ID {
		return
	}
	if o := m.members[peer.ID]; o == nil || o.state == env.Dead && !o.proven {
		m.emit(Join{Members: []env.Member{{ID: peer.ID, Name: peer.Name, Addr: peer.Addr, Zone: peer.Zone}}})
	}
}

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
	case o.state == env.Alive || o.connected:
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
