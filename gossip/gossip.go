// Package gossip reports which nodes of the core are there, which seem dead, and which leave.
//
// It runs memberlist over the connections that the nodes have anyway: its packets and
// streams travel as frames between node IDs, and no second port is opened. Its reports
// are hints and may be false: it detects a dead node late, and under load reports
// living nodes as dead.
package gossip

import (
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/memberlist"

	"github.com/lockmesh/mesh/internal/env"
	"github.com/lockmesh/mesh/transport"
)

// Intervals. A member that stops answering is probed by some node within about one
// probeInterval, and that probe fails after one more. Then the member is suspect, and
// dead 1.2 to 2.4 s later unless it refutes. Each node probes one other per interval,
// whatever the size of the mesh.
const (
	probeInterval  = 400 * time.Millisecond
	probeTimeout   = 200 * time.Millisecond // then other nodes are asked to probe, too
	gossipInterval = 200 * time.Millisecond // a refutation has six rounds to spread
	syncInterval   = 30 * time.Second       // full exchange with a random member; memberlist stretches it for more than 32
	streamTimeout  = 3 * time.Second        // of one full exchange
	rememberDead   = 30 * time.Second       // how long a dead member may still refute

	// A suspected member counts as dead after suspicion·probeInterval once a second node
	// suspects it, too, or if there is no other node that could; else after suspicionMax times that.
	// In a mesh of more than ten nodes both times grow by the logarithm of its size.
	suspicion    = 3
	suspicionMax = 2

	// Each node sends a rumour in retransmits packets, times the number of decimal digits
	// of the number of members. Memberlist's default of 4 is less than two rounds of three:
	// of five members, one missed a refutation once in a hundred times, and counted the
	// member as dead until the next full exchange.
	retransmits = 8
)

// Config configures New. All fields must be set.
type Config struct {
	// Self describes this node to the others: name, address and zone together have at
	// most env.MaxMember bytes.
	Self env.Member
	// Network carries the frames. The node decides with which members it keeps
	// connections.
	Network env.Network
	// Events is called for other members: with Alive when one appears, comes back from the
	// dead or changes its description, and after that with Dead or Left once, when it is gone.
	// It must not block, nor call the Gossip. It is not called once Close has returned.
	Events func(env.MemberEvent)
	Logger *slog.Logger
}

// Gossip runs gossip for one node. Its methods may be called from any goroutine.
type Gossip struct {
	self   env.Member
	list   *memberlist.Memberlist
	mux    *mux
	news   *news
	joiner *joiner

	life    sync.Mutex // Leave and Close exclude each other
	closed  bool
	leaving atomic.Bool
}

var _ env.Membership = (*Gossip)(nil)

// New starts gossip for cfg.Self, which knows no other member until Join. Close ends the
// gossip.
func New(cfg Config) (*Gossip, error) {
	g := &Gossip{
		self: cfg.Self,
		mux:  newMux(cfg.Self.ID, cfg.Network, cfg.Logger),
		news: newNews(cfg.Self.ID, cfg.Events),
	}
	mc := memberlist.DefaultLANConfig()
	mc.Name = cfg.Self.ID.String()
	mc.Transport = g.mux
	mc.RequireNodeNames = true
	mc.Delegate = &delegate{g}
	mc.Alive = g.news
	mc.Events = g.news
	mc.Logger = newLogger(cfg.Logger)
	mc.ProbeInterval = probeInterval
	mc.ProbeTimeout = probeTimeout
	mc.GossipInterval = gossipInterval
	mc.PushPullInterval = syncInterval
	mc.GossipToTheDeadTime = rememberDead
	mc.TCPTimeout = streamTimeout
	mc.SuspicionMult = suspicion
	mc.SuspicionMaxTimeoutMult = suspicionMax
	mc.RetransmitMult = retransmits
	mc.AwarenessMaxMultiplier = 1 // probes under way end one interval after Close, not eight
	mc.UDPBufferSize = 1400
	mc.EnableCompression = false // costs more than it saves
	mc.DisableTcpPings = true    // a stream would use the same connection as the packet did
	list, err := memberlist.Create(mc)
	if err != nil {
		return nil, fmt.Errorf("gossip: %w", err)
	}
	g.list = list
	g.joiner = newJoiner(func(id transport.ID) {
		_, _ = list.Join([]string{id.String() + "/" + hostPort}) // memberlist logs failures
	}, g.news.alive)
	return g, nil
}

// Join contacts peers in the background; the members that they know and those that this
// node knows then learn of each other. It may be called at any time and repeatedly, also
// after a partition in which each side forgot the other. Peers that are alive already
// are contacted only every few seconds.
func (g *Gossip) Join(peers []env.Member) {
	if g.leaving.Load() {
		return
	}
	for _, p := range peers {
		if p.ID != 0 && p.ID != g.self.ID {
			g.joiner.add(p.ID)
		}
	}
}

// Leave announces that this node leaves: at once to the members that it knows, and to
// the rest by rumour. The node still takes part in the gossip until Close.
func (g *Gossip) Leave() {
	g.life.Lock()
	defer g.life.Unlock()
	if g.closed || g.leaving.Swap(true) {
		return
	}
	for _, id := range g.news.living() {
		g.mux.send(id, frame{Kind: frameLeave})
	}
	_ = g.list.UpdateNode(time.Nanosecond) // spreads the new NodeMeta; does not wait for that
}

// Close stops gossip without announcing it.
func (g *Gossip) Close() {
	g.life.Lock()
	defer g.life.Unlock()
	if g.closed {
		return
	}
	g.closed = true
	g.news.stop()
	_ = g.list.Shutdown() // never fails; closes the mux, so that joins under way end
	g.joiner.stop()
}

// Receive processes one gossip frame, and keeps body. It never blocks: a frame for which
// there is no room is dropped.
func (g *Gossip) Receive(from transport.ID, body []byte) {
	if g.mux.receive(from, body) {
		g.news.setLeft(from)
	}
}

// Down must be called when the connection with peer is gone. It breaks the streams
// with peer.
func (g *Gossip) Down(peer transport.ID) { g.mux.down(peer) }

// delegate gives memberlist the metadata of this node.
type delegate struct{ g *Gossip }

func (d *delegate) NodeMeta(int) []byte             { return appendMeta(nil, d.g.self, d.g.leaving.Load()) }
func (d *delegate) NotifyMsg([]byte)                {}
func (d *delegate) GetBroadcasts(_, _ int) [][]byte { return nil }
func (d *delegate) LocalState(bool) []byte          { return nil }
func (d *delegate) MergeRemoteState([]byte, bool)   {}
