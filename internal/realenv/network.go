package realenv

import (
	"sync/atomic"

	"github.com/lockmesh/mesh/gossip"
	"github.com/lockmesh/mesh/internal/env"
	"github.com/lockmesh/mesh/transport"
)

// network is a node's connections, and their handler: gossip's frames go to the gossip, all
// else to the node.
type network struct {
	env.Network
	transport.Handler // the node's
	gossip            atomic.Pointer[gossip.Gossip]
}

// Receive implements transport.Handler. Without gossip its frames are dropped: it is
// made to lose some.
func (n *network) Receive(from transport.ID, kind transport.Kind, body []byte) {
	if kind != transport.KindGossip {
		n.Handler.Receive(from, kind, body)
	} else if g := n.gossip.Load(); g != nil {
		g.Receive(from, body)
	}
}

// Down implements transport.Handler.
func (n *network) Down(peer transport.ID, cause transport.Cause) {
	if g := n.gossip.Load(); g != nil {
		g.Down(peer)
	}
	n.Handler.Down(peer, cause)
}
