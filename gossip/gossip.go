// Package gossip tells who is in the mesh and who seems gone.
//
// Inside is memberlist, over the connections that the nodes have anyway: its
// packets and streams travel as frames between node IDs, and no second port is
// opened. What it says is a hint and may be false: it is late with the dead, and
// under load calls the living dead.
package gossip

import (
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/memberlist"

	"github.com/lockmesh/mesh/internal/env"
	"github.com/lockmesh/mesh/transport"
)

// ErrInvalidConfig: New was given what it cannot work with.
var ErrInvalidConfig = errors.New("gossip: invalid config")

// Intervals. A member that stops answering is probed by somebody within about
// probeInterval; that probe fails after one more; then the member is suspect, and dead
// 1.2 to 2.4 s later unless it refutes. Each node probes one other per interval,
// whatever the size of the mesh.
const (
	probeInterval  = 400 * time.Millisecond
	probeTimeout   = 200 * time.Millisecond // then others are asked to probe, too
	gossipInterval = 200 * time.Millisecond // a refutation has six rounds to get round
	syncInterval   = 30 * time.Second       // full exchange with a random member; memberlist stretches it for more than 32
	streamTimeout  = 3 * time.Second        // of one full exchange
	rememberDead   = 30 * time.Second       // how long the dead may still refute

	// The suspicion of a member ends after suspicion·probeInterval (more in a mesh of
	// more than ten, by the logarithm of its size) once a second node shares it or
	// there is none to share it, and after suspicionMax times that at the latest.
	suspicion    = 3
	suspicionMax = 2

	// Each node tells a rumour in so many packets, times the digits of the number of
	// members. Memberlist's default of 4 are not even two rounds of three: of five members
	// one missed a refutation once in a hundred times, and believed in the death until a full
	// exchange.
	retransmits = 8
)

// Config says whose gossip this is. All fields but Logger must be set.
type Config struct {
	// Self tells the others of this node: name, address and zone together have at most
	// env.MaxMember bytes.
	Self env.Member
	// Network carries the frames. It keeps connections to members while core says so.
	Network env.Network
	// Events hears the news of other members: Alive when one appears or changes what
	// it says of itself, then Dead or Left at most once. It must not block, nor call the
	// Gossip. No call comes once Close has returned.
	Events func(env.MemberEvent)
	Logger *slog.Logger // nil: nothing is logged
}

// Gossip is one node's part in the gossip. Its methods may be called from any
// goroutine.
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

// New starts gossip for cfg.Self, which knows nobody until Join. On a config that it
// cannot work with the error wraps ErrInvalidConfig. Close ends it.
func New(cfg Config) (*Gossip, error) {
	switch {
	case cfg.Self.ID == 0:
		return nil, fmt.Errorf("%w: no node ID", ErrInvalidConfig)
	case cfg.Network == nil:
		return nil, fmt.Errorf("%w: no network", ErrInvalidConfig)
	case cfg.Events == nil:
		return nil, fmt.Errorf("%w: no events", ErrInvalidConfig)
	}
	if n := len(cfg.Self.Name) + len(cfg.Self.Addr) + len(cfg.Self.Zone); n > env.MaxMember {
		return nil, fmt.Errorf("%w: name, address and zone have %d bytes, more than %d", ErrInvalidConfig, n, env.MaxMember)
	}
	logger := cfg.Logger
	if logger == nil {
		logger = slog.New(slog.DiscardHandler)
	}

	g := &Gossip{
		self: cfg.Self,
		mux:  newMux(cfg.Self.ID, cfg.Network, logger),
		news: newNews(cfg.Self.ID, cfg.Events),
	}
	mc := memberlist.DefaultLANConfig()
	mc.Name = cfg.Self.ID.String()
	mc.Transport = g.mux
	mc.RequireNodeNames = true
	mc.Delegate = &delegate{g}
	mc.Alive = g.news
	mc.Events = g.news
	mc.Logger = newLogger(logger)
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
	mc.DisableTcpPings = true    // a stream would take the same connection as the packet did
	list, err := memberlist.Create(mc)
	if err != nil {
		return nil, fmt.Errorf("gossip: %w", err)
	}
	g.list = list
	g.joiner = newJoiner(func(id transport.ID) {
		_, _ = list.Join([]string{id.String() + "/" + addressOf(id).String()}) // memberlist logs failures
	}, g.news.alive)
	return g, nil
}

// Join makes contact with peers, in the background: their members and ours come to
// know each other. It works at any time and as often as wanted, also after a partition
// that made each side forget the other. Peers that are alive already are contacted now
// and then only.
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

// Leave tells the others that this node goes: at once those that it knows, the rest by
// rumour. It still takes part until Close.
func (g *Gossip) Leave() {
	g.life.Lock()
	defer g.life.Unlock()
	if g.closed || g.leaving.Swap(true) {
		return
	}
	for _, id := range g.news.everyone() {
		g.mux.send(id, frame{kind: frameLeave})
	}
	_ = g.list.UpdateNode(time.Nanosecond) // spreads what NodeMeta says now; does not wait for it
}

// Close stops gossip without a word.
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

// Receive takes one gossip frame, and keeps body. It never blocks: what there is no
// room for is dropped.
func (g *Gossip) Receive(from transport.ID, body []byte) {
	if g.mux.receive(from, body) {
		g.news.left(from)
	}
}

// Down says that the connection with peer is gone, and ends what was under way on it.
func (g *Gossip) Down(peer transport.ID) { g.mux.down(peer) }

// delegate tells memberlist what to say of this node.
type delegate struct{ g *Gossip }

func (d *delegate) NodeMeta(int) []byte             { return appendMeta(nil, d.g.self, d.g.leaving.Load()) }
func (d *delegate) NotifyMsg([]byte)                {}
func (d *delegate) GetBroadcasts(_, _ int) [][]byte { return nil }
func (d *delegate) LocalState(bool) []byte          { return nil }
func (d *delegate) MergeRemoteState([]byte, bool)   {}
