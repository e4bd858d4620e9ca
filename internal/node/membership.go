package node

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/lockmesh/mesh/internal/env"
	"github.com/lockmesh/mesh/internal/fault"
	"github.com/lockmesh/mesh/internal/founding"
	"github.com/lockmesh/mesh/internal/members"
	"github.com/lockmesh/mesh/internal/wire"
	"github.com/lockmesh/mesh/transport"
)

// membership is the loop that keeps track of the other nodes of the mesh. It feeds members' machine, and does what
// that wants done. Only its loop touches the machine.
type membership struct {
	node *Node
	box  mailbox[*membership]

	mu     sync.Mutex
	waits  string   // what WaitReady waits for, in a mesh
	shown  []Member // what Members returns
	health members.Health

	now     time.Duration
	born    time.Duration
	logAt   time.Duration // when to log what the node waits for
	members *members.Machine
	out     []members.Output // empty: room that is used again
	in      bool             // part of a mesh
	lists   map[uint64]*listing
	ended   bool // ejected
}

// The kinds of control messages: the first byte of the body.
const (
	ctlCore = iota + 1
	ctlStatus
	ctlLeaving
	ctlAsk    // an operator's question
	ctlAnswer // to one: no node gets it
	ctlQuery
	ctlPage
)

func newMembership(n *Node) *membership {
	return &membership{node: n, lists: make(map[uint64]*listing)}
}

func (m *membership) start() {
	n := m.node
	m.born = n.env.Now()
	m.members = members.New(members.Config{Self: n.self(), RingHash: n.hello.RingHash, Logger: n.log})
	// The loop exists only once there is something for it to run; what came before waits.
	m.box.start(n.env.NewLoop("membership", m.run))
	m.box.loop.Wake()
}

func (n *Node) self() env.Member {
	return env.Member{ID: transport.ID(n.id), Name: n.name, Addr: n.addr, Zone: n.cfg.Zone}
}

// IsLoopback reports whether an address is one of this machine alone.
func IsLoopback(addr string) bool { return founding.AllLoopback([]string{addr}) }

// post leaves something to do in the loop.
func (m *membership) post(do func(*membership)) { m.box.post(do) }

func (m *membership) shut() {
	m.box.close()
	m.box.loop.Stop()
}

// run is one turn of the loop.
func (m *membership) run(now time.Duration) time.Duration {
	todo, open := m.box.drain(nil)
	if !open {
		return env.Never
	}
	m.now = now
	for _, do := range todo {
		do(m)
	}
	m.carryOut(m.members.Tick(now, m.out))
	if m.ended {
		return env.Never
	}
	if m.in && !m.ready() {
		m.tellWaiting()
	}
	return m.members.Deadline()
}

// tellWaiting notes what this node waits for in its mesh, and logs it after 2 s, and then every 10 s.
func (m *membership) tellWaiting() {
	waits := "joined; " + m.members.Waiting()
	m.mu.Lock()
	m.waits = waits
	m.mu.Unlock()
	switch {
	case m.logAt == 0:
		m.logAt = m.now + 2*time.Second
	case m.now >= m.logAt:
		m.logAt = m.now + 10*time.Second
		m.node.log.Info("not ready yet", "because", waits)
	}
}

// ready reports whether the node can serve, or could before it ended.
func (m *membership) ready() bool { return m.members.Health().Settled }

// control sends a control message.
func (n *Node) control(to transport.ID, kind byte, body []byte) {
	n.net.Send(to, transport.KindControl, transport.Normal, append([]byte{kind}, body...))
}

// enter: this node is part of a mesh now, its first or another one, in which these nodes have a seat.
func (m *membership) enter(id uint64, p founding.Params, seated []env.Member) {
	m.in = true
	m.carryOut(m.members.Joined(m.now, members.Mesh{ID: id, Shards: p.Shards}, seated, m.out))
}

// gossip starts this node's gossip, or stops it without a word: the node stays, but has no seat any more.
func (m *membership) gossip(on bool) {
	n := m.node
	var g env.Membership
	if on {
		var err error
		g, err = n.env.NewMembership(n.self(), n.net, func(e env.MemberEvent) {
			m.post(func(m *membership) { m.carryOut(m.members.News(m.now, e, m.out)) })
		})
		if err != nil {
			m.eject(fmt.Errorf("mesh: gossip: %w", err))
			return
		}
	} else if n.gossip != nil {
		n.gossip.Close()
	}
	n.mu.Lock()
	n.gossip = g
	n.mu.Unlock()
}

// carryOut does what members' machine wants done, and publishes Health.
func (m *membership) carryOut(out []members.Output) {
	n := m.node
	m.mu.Lock()
	m.health = m.members.Health()
	m.mu.Unlock()
	for _, o := range out {
		if m.ended {
			break
		}
		switch o := o.(type) {
		case members.Gossip:
			m.gossip(o.On)
		case members.Connect:
			n.net.Connect(o.ID, o.Addr)
		case members.Disconnect:
			n.net.Disconnect(o.ID)
		case members.SendStatus:
			n.control(o.To, ctlStatus, o.Body)
		case members.SendLeaving:
			n.control(o.To, ctlLeaving, nil)
		case members.SendQuery:
			n.control(o.To, ctlQuery, o.Body)
		case members.SendPage:
			n.control(o.To, ctlPage, o.Body)
		case members.Listed:
			m.listed(o)
		case members.Join:
			n.gossip.Join(o.Members)
		case members.NodeGone:
			n.shards.post(func(l *shardLoop) { l.nodeGone(uint64(o.ID)) })
		case members.Drawn:
			m.mu.Lock()
			m.shown = o.Members
			m.mu.Unlock()
			n.shards.post(func(l *shardLoop) { l.look(o.View) })
		case members.Ready:
			m.arrive()
		case members.NameTaken:
			m.eject(fmt.Errorf("mesh: join: %w: %q, by the node at %s", fault.ErrNameTaken, n.name, cmp.Or(o.By.Addr, "no address, a client")))
		}
	}
	clear(out)
	m.out = out[:0]
}

// arrive lets WaitReady return.
func (m *membership) arrive() {
	n := m.node
	n.mu.Lock()
	if n.status == starting {
		n.status = serving
	}
	n.mu.Unlock()
	n.turned.Ring()
	in := n.mesh.Load()
	n.log.Info("joined the mesh: this node serves its callers", "name", in.params.MeshName, "mesh", fmt.Sprintf("%016x", in.id), "after", (m.now - m.born).Round(time.Millisecond))
}

// receive takes a control message.
func (m *membership) receive(from transport.ID, body []byte) {
	kind := byte(0)
	if len(body) > 0 {
		kind, body = body[0], body[1:]
	}
	what, out, err := "message", m.out, error(nil)
	switch kind {
	case ctlStatus:
		what = "status"
		out, err = m.members.Status(m.now, from, body, out)
	case ctlQuery:
		what = "query"
		out, err = m.members.Query(m.now, from, body, out)
	case ctlPage:
		what = "page"
		out, err = m.members.Page(m.now, from, body, out)
	case ctlLeaving:
		if err = wire.NewReader(body).End(); err == nil {
			out = m.members.Leaves(m.now, from, out)
		}
	default:
		err = fmt.Errorf("%w: control message %d", wire.ErrMalformed, kind)
	}
	if m.carryOut(out); err != nil {
		m.node.refuse(from, what, err)
	}
}

// goodbye ends gossip and connections, and says so to the other nodes.
func (m *membership) goodbye() {
	if m.node.gossip != nil {
		m.node.gossip.Leave()
	}
	m.carryOut(m.members.Goodbye(m.now, m.out))
}

// eject ends the node from within. Nothing is held, promised or answered here any more, and Close
// only stops the loops.
func (m *membership) eject(err error) {
	n := m.node
	n.log.Error("the node has ended", "because", err)
	n.fail(err)
	if m.ready() && n.observer != nil {
		n.observer.Ended(transport.ID(n.id), err)
	}
	n.net.Close()
	n.endSessions()
	n.shards.post((*shardLoop).close)
	if n.gossip != nil {
		n.gossip.Close()
	}
	m.ended = true
	m.box.close()
}

func (m *membership) waitsFor() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.waits
}

// Members returns the nodes of the mesh as this one knows them, this one included, each
// name once, sorted.
func (n *Node) Members() []Member {
	n.membership.mu.Lock()
	defer n.membership.mu.Unlock()
	return slices.Clone(n.membership.shown)
}

// Date returns a moment of the node's clock as a time of day, and the zero time for zero.
func (n *Node) Date(at time.Duration) time.Time {
	if at == 0 {
		return time.Time{}
	}
	return n.env.Wall().Add(at - n.env.Now())
}

const healthEvery = 50 * time.Millisecond

// WaitHealthy returns nil when every shard is fully replicated; else the error of ctx, or the reason
// for which the node ended.
func (n *Node) WaitHealthy(ctx context.Context) error {
	p := n.env.NewParker()
	for {
		if err := n.Err(); err != nil {
			return err
		}
		if n.Health().FullyReplicated {
			return nil
		}
		if p.Park(ctx, n.env.Now()+healthEvery) == env.ContextEnded {
			if n.Starting() {
				return fmt.Errorf("mesh: %w: %s", ctx.Err(), n.Waiting())
			}
			h := n.Health()
			if len(h.NoMajority)+len(h.UnderReplicated) == 0 {
				return fmt.Errorf("mesh: %w: a voter is not connected", ctx.Err())
			}
			return fmt.Errorf("mesh: %w: %d shards without a leader, %d under-replicated", ctx.Err(), len(h.NoMajority), len(h.UnderReplicated))
		}
	}
}
