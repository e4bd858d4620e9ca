package realenv

import (
	"log/slog"
	"sync/atomic"

	"github.com/lockmesh/mesh/gossip"
	"github.com/lockmesh/mesh/internal/env"
	"github.com/lockmesh/mesh/transport"
)

// network is a node's connections, and knows where its gossip goes.
type network struct {
	env.Network
	router *router
}

// router is the handler of a node's connections: gossip's frames go to the gossip, all
// else to the node.
type router struct {
	transport.Handler // the node's
	gossip            atomic.Pointer[gossip.Gossip]
}

// Receive implements transport.Handler. Without gossip its frames are dropped: it is
// made to lose some.
func (r *router) Receive(from transport.ID, kind transport.Kind, body []byte) {
	if kind != transport.KindGossip {
		r.Handler.Receive(from, kind, body)
	} else if g := r.gossip.Load(); g != nil {
		g.Receive(from, body)
	}
}

// Down implements transport.Handler.
func (r *router) Down(peer transport.ID, cause transport.Cause) {
	if g := r.gossip.Load(); g != nil {
		g.Down(peer)
	}
	r.Handler.Down(peer, cause)
}

func (r *router) join(self env.Member, n *network, events func(env.MemberEvent), logger *slog.Logger) (env.Membership, error) {
	g, err := gossip.New(gossip.Config{Self: self, Network: n, Events: events, Logger: logger})
	if err != nil {
		return nil, err
	}
	r.gossip.Store(g)
	return g, nil
}
