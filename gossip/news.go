package gossip

import (
	"fmt"
	"sync"

	"github.com/hashicorp/memberlist"

	"github.com/lockmesh/mesh/internal/env"
	"github.com/lockmesh/mesh/transport"
)

// news turns memberlist's notifications into events about other members. Memberlist
// holds its own lock while it calls news. While news holds its lock, it calls nothing but
// the function events: so the two locks cannot deadlock.
type news struct {
	self transport.ID

	mu     sync.Mutex
	events func(env.MemberEvent)  // nil: stopped
	places map[transport.ID]place // members as last reported
}

type place struct {
	member env.Member
	state  env.MemberState // Alive or Left; dead members have no place
}

func newNews(self transport.ID, events func(env.MemberEvent)) *news {
	return &news{self: self, events: events, places: make(map[transport.ID]place)}
}

// emitLocked is called with the lock held, so that events come in order.
func (n *news) emitLocked(m env.Member, state env.MemberState) {
	if n.events != nil {
		n.events(env.MemberEvent{Member: m, State: state})
	}
}

func (n *news) stop() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.events = nil
}

// alive reports whether id counts as alive.
func (n *news) alive(id transport.ID) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	p, ok := n.places[id]
	return ok && p.state == env.Alive
}

// living returns the members that count as alive, in no particular order.
func (n *news) living() []transport.ID {
	n.mu.Lock()
	defer n.mu.Unlock()
	all := make([]transport.ID, 0, len(n.places))
	for id, p := range n.places {
		if p.state == env.Alive {
			all = append(all, id)
		}
	}
	return all
}

// setLeft records a member's own announcement that it leaves.
func (n *news) setLeft(id transport.ID) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if p, ok := n.places[id]; ok && p.state == env.Alive {
		n.places[id] = place{p.member, env.Left}
		n.emitLocked(p.member, env.Left)
	}
}

// NotifyAlive refuses members that are not lockmesh nodes: memberlist then ignores them.
func (n *news) NotifyAlive(node *memberlist.Node) error {
	id, err := parseID(node.Name)
	if err != nil {
		return err
	}
	if node.Port != port || !node.Addr.Equal(ip) {
		return fmt.Errorf("gossip: member %s has the address %s, which no lockmesh node has", id, node.Address())
	}
	_, _, err = readMeta(id, node.Meta)
	return err
}

// NotifyJoin: a member that was unknown or dead is alive.
func (n *news) NotifyJoin(node *memberlist.Node) { n.update(node) }

// NotifyUpdate: a member has changed its metadata.
func (n *news) NotifyUpdate(node *memberlist.Node) { n.update(node) }

func (n *news) update(node *memberlist.Node) {
	id, err := parseID(node.Name)
	if err != nil || id == n.self {
		return
	}
	m, leaving, err := readMeta(id, node.Meta)
	if err != nil {
		return // NotifyAlive has refused it
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	p, known := n.places[id]
	switch {
	case known && p.state == env.Left: // a member that left does not come back under this ID
	case !leaving:
		n.places[id] = place{m, env.Alive}
		n.emitLocked(m, env.Alive)
	default:
		n.places[id] = place{m, env.Left}
		if known {
			n.emitLocked(m, env.Left)
		}
	}
}

// NotifyLeave: a member is dead.
func (n *news) NotifyLeave(node *memberlist.Node) {
	id, err := parseID(node.Name)
	if err != nil {
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	p, known := n.places[id]
	delete(n.places, id)
	if known && p.state == env.Alive {
		n.emitLocked(p.member, env.Dead)
	}
}
