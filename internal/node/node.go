// Package node drives one node of a mesh by event loops. The shard loop owns the replicas, the node's part in the core (seat, hosting)
// and the client. The membership loop hears of other nodes. The watch ends holds on time. The pulse, from the first call of Live on,
// notices when one of the first two hangs. Only callers block, in an [env.Parker]; loops never do.
//
// Over the real world that makes a node of a mesh; over the simulator's it makes the
// same node, one event at a time.
//
// (P12), (C8) and the like are rules in PROTOCOL.md. ARCHITECTURE.md defines the terms, also E and ρ.
package node

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lockmesh/mesh/internal/core"
	"github.com/lockmesh/mesh/internal/env"
	"github.com/lockmesh/mesh/internal/fault"
	"github.com/lockmesh/mesh/internal/founding"
	"github.com/lockmesh/mesh/internal/message"
	"github.com/lockmesh/mesh/internal/point"
	"github.com/lockmesh/mesh/internal/replica"
	"github.com/lockmesh/mesh/internal/seat"
	"github.com/lockmesh/mesh/ring"
	"github.com/lockmesh/mesh/transport"
)

// The wire versions that this code speaks.
const (
	minVersion = 1
	maxVersion = 1
)

// ringHash is the ring's fingerprint, for which 12 rings are built: once per process.
var ringHash = sync.OnceValue(ring.Fingerprint)

// Node is one node of a mesh. Its methods are safe for concurrent use.
type Node struct {
	cfg      Config
	env      env.Env
	log      *slog.Logger
	points   point.Points
	observer env.Observer
	clients  env.Clients
	id       uint64
	name     string
	addr     string
	net      env.Network
	gossip   env.Membership
	begun    atomic.Bool // net, addr, name and log are as they stay; peers may send something before

	membership *membership

	mesh     atomic.Pointer[mesh] // nil: none yet
	standing atomic.Pointer[seat.Standing]
	shards   *shardLoop
	watch    *watch
	pulse    *pulse
	own      *Session      // made before mesh is set
	losses   atomic.Uint64 // locks that were lost
	breaks   atomic.Uint64 // locks that operators have broken
	refused  atomic.Int64  // malformed frames that no warning has told of
	warned   atomic.Int64  // when the next warning may be, on env.Now's clock
	turned   *Bell         // rings when the status has changed
	leaves   ending        // of the node's life among the others: Leave has begun

	mu     sync.Mutex
	hello  transport.Hello
	status phase
	err    error
	done   chan struct{}

	sessions map[*Session]bool // the users', as long as they live
	down     bool              // shut has been called
	search   func()            // ends the context of the last search for contact points; nil: there was none
}

// phase is how far a node is in its life.
type phase uint8

const (
	starting phase = iota
	serving
	leaving
	closed
)

// slowElection is how long a silent leader's successor may take at worst (P10).
const slowElection = 2 * replica.ElectionTimeout

// Start makes a node, which looks for its mesh from now on: see WaitReady. The caller must Close it. On an error nothing runs: the state
// directory cannot be used (see Config.StateDir), or the network cannot listen.
func Start(cfg Config) (*Node, error) {
	n := &Node{
		cfg: cfg, env: cfg.Env, log: cfg.Logger,
		done: make(chan struct{}), sessions: make(map[*Session]bool),
	}
	n.turned = n.NewBell()
	for n.id == 0 {
		n.id = cfg.Env.Seed()
	}
	keeper, err := n.openState()
	if err != nil {
		return nil, err
	}
	if w, ok := cfg.Env.(env.Instrumented); ok {
		n.points, n.observer, n.clients, n.cfg.Check = w.Points(), w.Observer(), w.Clients(), true
		w.Inspect(transport.ID(n.id), n)
	}
	n.hello = transport.Hello{
		MeshName: n.cfg.MeshName, Name: cfg.Name, ID: transport.ID(n.id), Zone: cfg.Zone,
		MinVersion: minVersion, MaxVersion: maxVersion, RingHash: ringHash(),
	}
	t := cfg.Transport
	t.Hello, t.Logger, t.Accept = n.hello, cfg.Logger, n.accept
	n.standing.Store(new(seat.Standing))
	n.membership = newMembership(n)
	n.shards, n.watch, n.pulse = newShardLoop(n), newWatch(n), newPulse(n)
	n.shards.keeper = keeper
	net, err := cfg.Env.Listen(t, n)
	if err != nil {
		keeper.undo()
		return nil, err
	}
	n.net, n.addr, n.name = net, net.Addr(), cfg.Name
	switch {
	case n.name != "":
	case n.addr != "":
		n.name = n.addr
	default:
		n.name = fmt.Sprintf("client-%016x", n.id)
	}
	n.log = n.log.With("node", n.name)
	n.mu.Lock()
	n.hello.Name, n.hello.Addr = n.name, n.addr
	hello := n.hello
	n.mu.Unlock()
	n.net.Update(hello)
	n.watch.loop = n.env.NewLoop("watch", n.watch.run)
	n.begun.Store(true)
	n.membership.start()
	n.shards.start()

	return n, nil
}

// WaitReady returns nil as soon as the node can serve, and the reason if it has ended. If ctx ends first, the
// error wraps ErrNotFounded and the error of ctx, and says what the node waits for. Any number of callers may
// wait.
func (n *Node) WaitReady(ctx context.Context) error {
	err := n.turned.Await(ctx, func() bool { return !n.Starting() })
	switch n.phase() {
	case starting:
		return fmt.Errorf("%w: %w, %s", fault.ErrNotFounded, err, n.Waiting())
	case leaving:
		return fault.ErrClosed
	}
	return n.Err()
}

// phase returns how far the node is in its life.
func (n *Node) phase() phase {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.status
}

// Starting reports whether the node cannot serve yet.
func (n *Node) Starting() bool { return n.phase() == starting }

// Waiting says what a node that cannot serve yet waits for.
func (n *Node) Waiting() string {
	if n.mesh.Load() == nil {
		return cmp.Or(n.standing.Load().Why, "the node is still looking for its mesh")
	}
	return n.membership.waitsFor()
}

// accept decides which nodes may connect (P29).
func (n *Node) accept(theirs transport.Hello) error {
	n.mu.Lock()
	mine := n.hello
	n.mu.Unlock()
	return founding.CheckHello(mine, theirs)
}

// Dialed, Up, Down and Receive make Node a transport.Handler.
func (n *Node) Dialed(addr string, peer transport.Hello, err error) {
	n.shards.post(func(l *shardLoop) { l.dialed(addr, peer, err) })
	if err == nil {
		n.membership.post(func(m *membership) { m.carryOut(m.members.Answered(m.now, peer, m.out)) })
	}
}

func (n *Node) Up(peer transport.Hello) {
	n.shards.post(func(l *shardLoop) { l.connected(peer.ID) })
	n.membership.post(func(m *membership) { m.carryOut(m.members.Up(m.now, peer, m.out)) })
}

func (n *Node) Down(peer transport.ID, cause transport.Cause) {
	n.shards.post(func(l *shardLoop) {
		if cause == transport.Refused || cause == transport.Replaced {
			l.nodeGone(uint64(peer)) // straight to the replicas: elections wait for it (P21)
		}
		l.disconnected(peer)
	})
	n.membership.post(func(m *membership) { m.carryOut(m.members.Down(m.now, peer, cause, m.out)) })
}

func (n *Node) Receive(from transport.ID, kind transport.Kind, body []byte) {
	switch kind {
	case transport.KindControl:
		if len(body) > 0 && body[0] == ctlCore {
			n.shards.post(func(l *shardLoop) { l.hearCore(from, body[1:]) })
			return
		}
		if len(body) > 0 && body[0] == ctlAsk {
			n.asked(from, body[1:])
			return
		}
		n.membership.post(func(m *membership) { m.receive(from, body) })
	case transport.KindShard:
		n.route(from, body)
	}
}

// route gives a frame to the shard loop.
func (n *Node) route(from transport.ID, body []byte) {
	of, err := message.ReadHeader(body)
	if err != nil {
		n.refuse(from, "frame", err)
		return
	}
	if m := n.mesh.Load(); m != nil && m.id == of { // else one of the two does not know yet in which mesh it is (P23)
		n.shards.post(func(l *shardLoop) { l.receive(from, body) })
	}
}

// refuse ends the connection with a peer that sent something malformed: while Start has not returned yet, as soon as the shard loop
// runs. It logs at most one warning a second.
func (n *Node) refuse(from transport.ID, what string, err error) {
	if !n.begun.Load() {
		n.shards.post(func(*shardLoop) { n.refuse(from, what, err) })
		return
	}
	n.refused.Add(1)
	now := int64(n.env.Now())
	if last := n.warned.Load(); now >= last && n.warned.CompareAndSwap(last, now+int64(time.Second)) {
		n.log.Warn("a malformed "+what, "from", from, "error", err, "since the last warning", n.refused.Swap(0))
	}
	n.net.Disconnect(from)
}

func (n *Node) peer() replica.Peer { return replica.Peer{Node: n.id, Name: n.name, Addr: n.addr} }

// Name returns the node's name.
func (n *Node) Name() string { return n.name }

// Addr returns the address at which others reach the node.
func (n *Node) Addr() string { return n.addr }

// MaxTTL returns for how long a lease of the mesh may last, as this node knows; zero: it is in no mesh.
func (n *Node) MaxTTL() time.Duration {
	if m := n.mesh.Load(); m != nil {
		return m.params.MaxTTL
	}
	return 0
}

// Params returns the parameters of the mesh. The node must have a Session.
func (n *Node) Params() founding.Params { return n.mesh.Load().params }

// Session returns the node's own session, or nil if the node cannot serve yet, or never could.
func (n *Node) Session() *Session {
	if n.Starting() || n.mesh.Load() == nil {
		return nil
	}
	return n.own
}

// NewSession returns a new session of a user. For their holders its locks end a little less than ttl
// after the last confirmed renewal was sent, for the table ttl after the session's last message
// arrived (P1). ErrClosed: the node leaves, or has ended.
func (n *Node) NewSession(ttl time.Duration) (*Session, error) {
	s := newSession(n, false, ttl)
	if err := n.register(s); err != nil {
		return nil, err
	}
	return s, nil
}

// register notes a new session, whose end comes with that of the node at the latest. ErrClosed: the node leaves, or has ended.
func (n *Node) register(s *Session) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.status >= leaving {
		return fault.ErrClosed
	}
	n.sessions[s] = true
	return nil
}

// forget: a session has ended.
func (n *Node) forget(s *Session) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.sessions, s)
}

// endSessions ends the sessions that are open, with the node.
func (n *Node) endSessions() {
	n.mu.Lock()
	all, own := slices.Collect(maps.Keys(n.sessions)), n.own // order-free: each is ended alone
	n.mu.Unlock()
	for _, s := range all {
		s.end(fault.ErrClosed)
	}
	if own != nil {
		own.end(fault.ErrClosed)
	}
}

// Done is closed when the node has ended.
func (n *Node) Done() <-chan struct{} { return n.done }

// Err returns why the node ended: ErrClosed, ErrLeft, or what ejected it; nil before.
func (n *Node) Err() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.err
}

// Stats are counters since the node was started.
type Stats struct {
	Acquires uint64 // calls of Lock and its like
	Grants   uint64 // of them, those that ended with a lock
	Releases uint64 // confirmed
	Losses   uint64 // locks whose lease ended before Unlock, and before the end that MaxHold gave them
	Broken   uint64 // locks that operators have broken
	Retries  uint64 // commands sent again
	Renewals uint64 // of leases, sent
	Entries  uint64 // log entries that this node's leaders appended
	Commands uint64 // commands in them; Commands ÷ Entries is the mean batch
}

// Stats returns the node's counters.
func (n *Node) Stats() Stats {
	if n.mesh.Load() == nil {
		return Stats{}
	}
	l := n.shards
	c := l.client.Counters()
	return Stats{
		Acquires: c.Locks.Load(), Grants: c.Grants.Load(), Releases: c.Unlocks.Load(), Losses: n.losses.Load(), Broken: n.breaks.Load(),
		Retries: c.Retries.Load(), Renewals: c.Renewals.Load(),
		Entries: l.appended.Entries.Load(), Commands: l.appended.Commands.Load(),
	}
}

// fail ends the node's life for the given reason. The first counts.
func (n *Node) fail(err error) {
	n.mu.Lock()
	first := n.status != closed
	if first {
		n.status, n.err = closed, err
		close(n.done)
	}
	n.mu.Unlock()
	n.turned.Ring()
	if first && err != fault.ErrLeft && n.observer != nil {
		n.observer.Closed(transport.ID(n.id))
	}
}

// shut stops everything at once, and tells no other node. What was held lapses with its
// leases. It must not be called from a loop.
func (n *Node) shut() {
	n.mu.Lock()
	down, search := n.down, n.search
	n.down = true
	n.mu.Unlock()
	if down {
		return
	}
	if search != nil {
		search()
	}
	n.pulse.shut()
	n.net.Close()
	n.membership.shut()
	n.endSessions()
	n.shards.shut()
	n.shards.keeper.close()
	n.watch.loop.Stop()
	if n.gossip != nil {
		n.gossip.Close()
	}
}

// Close stops the node at once. What it held lapses with its leases. It returns nil;
// closing a node twice does nothing.
func (n *Node) Close() error {
	n.fail(fault.ErrClosed)
	n.shut()
	return nil
}

// enter makes the node part of a mesh, its first or another one. It is called on the shard loop. It reports false if
// the node has ended.
func (n *Node) enter(t *core.Table) bool {
	first := n.mesh.Load() == nil
	ttl := min(cmp.Or(n.cfg.LeaseTTL, founding.DefaultLeaseTTL), t.Params.MaxTTL)
	n.mu.Lock()
	if n.status == closed {
		n.mu.Unlock()
		return false
	}
	if first {
		n.own = newSession(n, true, ttl)
	}
	n.hello.MeshID, n.hello.MeshName = t.Mesh, t.Params.MeshName
	hello := n.hello
	n.mu.Unlock()
	n.net.Update(hello)
	if first {
		n.shards.enter(t)
		if ttl < 3*slowElection {
			n.log.Warn("the lease TTL is short: a leader that falls silent may cost locks before another one is elected",
				"ttl", ttl, "safe", 3*slowElection)
		}
	}
	n.mesh.Store(&mesh{t.Mesh, t.Params})
	if asked := n.cfg.MaxTTL; t.Params.Changed && asked != 0 && asked != t.Params.MaxTTL {
		n.log.Warn("SetMaxTTL has changed MaxTTL in this mesh: WithMaxTTL has no effect in it", "WithMaxTTL", asked, "MaxTTL", t.Params.MaxTTL)
	}
	if !first {
		n.log.Info("this node is in another mesh now", "mesh", fmt.Sprintf("%016x", t.Mesh))
	}
	if n.observer != nil {
		n.observer.Founded(transport.ID(n.id), t.Mesh)
	}
	all := seated(t)
	n.membership.post(func(m *membership) { m.enter(t.Mesh, t.Params, all) })
	return true
}
