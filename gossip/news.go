package gossip

import (
	"fmt"
	"sync"

	"github.com/hashicorp/memberlist"

	"github.com/lockmesh/mesh/internal/env"
	"github.com/lockmesh/mesh/transport"
)

// news turns what memberlist tells into events about other members. Memberlist calls
// it with its own lock held; news calls nothing but the hearer with its.
type news struct {
	self transport.ID

	mu     sync.Mutex
	hear   func(env.MemberEvent)  // nil: nobody listens any more
	places map[transport.ID]place // members as last told
}

type place struct {
	member env.Member
	state  env.MemberState // Alive or Left; the dead have no place
}

func newNews(self transport.ID, hear func(env.MemberEvent)) *news {
	return &news{self: self, hear: hear, places: make(map[transport.ID]place)}
}

// tell is called with the lock held, so that events come in order.
func (n *news) tell(m env.Member, state env.MemberState) {
	if n.hear != nil {
		n.hear(env.MemberEvent{Member: m, State: state})
	}
}

func (n *news) stop() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.hear = nil
}

// alive tells whether id is believed to live.
func (n *news) alive(id transport.ID) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	p, ok := n.places[id]
	return ok && p.state == env.Alive
}

// everyone returns the members that are believed to live, in no order.
func (n *news) everyone() []transport.ID {
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

// left takes a member's own word that it leaves.
func (n *news) left(id transport.ID) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if p, ok := n.places[id]; ok && p.state == env.Alive {
		n.places[id] = place{p.member, env.Left}
		n.tell(p.member, env.Left)
	}
}

// NotifyAlive refuses members that are not ours: memberlist then ignores them.
func (n *news) NotifyAlive(node *memberlist.Node) error {
	id, err := parseID(node.Name)
	if err != nil {
		return err
	}
	if node.Port != port || !node.Addr.Equal(addressOf(id).ip()) {
		return fmt.Errorf("gossip: %s has the address %s", id, node.Address())
	}
	_, _, err = readMeta(id, node.Meta)
	return err
}

// NotifyJoin: a member is alive that was unknown or dead.
func (n *news) NotifyJoin(node *memberlist.Node) { n.here(node) }

// NotifyUpdate: a member says something new of itself.
func (n *news) NotifyUpdate(node *memberlist.Node) { n.here(node) }

func (n *news) here(node *memberlist.Node) {
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
	case known && p.state == env.Left: // whoever leaves does not come back
	case !leaving:
		n.places[id] = place{m, env.Alive}
		n.tell(m, env.Alive)
	default:
		n.places[id] = place{m, env.Left}
		if known {
			n.tell(m, env.Left)
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
		n.tell(p.member, env.Dead)
	}
}
