package members

import (
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"time"

	"github.com/lockmesh/mesh/internal/env"
	"github.com/lockmesh/mesh/transport"
)

// Config is what a Machine is told about its node.
type Config struct {
	Self     env.Member
	RingHash uint64 // of the ring of entries that this node computes
	Logger   *slog.Logger
}

// Mesh is what never changes in a mesh.
type Mesh struct {
	ID     uint64
	Shards int
}

// Output is something to do now, in order: Connect, Disconnect, SendStatus, SendLeaving, Gossip, Join, NodeGone,
// Drawn, Ready, NameTaken, SendQuery, SendPage or Listed.
type Output interface{ isOutput() }

type (
	// Connect asks for a connection to a node, to be kept until Disconnect.
	Connect struct {
		ID   transport.ID
		Addr string
	}
	// Disconnect ends the connection to a node, saying goodbye.
	Disconnect struct{ ID transport.ID }
	// SendStatus is a message to the Machine of another node, for Status. It may be lost. Body
	// must not be changed.
	SendStatus struct {
		To   transport.ID
		Body []byte
	}
	// SendLeaving is a message saying that this node is leaving, for Leaves. It may be lost.
	SendLeaving struct{ To transport.ID }
	// Gossip starts this node's gossip, or stops it without a word: it gossips while it has a seat. No Join comes
	// while there is none.
	Gossip struct{ On bool }
	// Join tells gossip of members that it may not know of.
	Join struct{ Members []env.Member }
	// NodeGone tells that a node is proven dead (P33).
	NodeGone struct{ ID transport.ID }
	// Drawn is a new view, and what users are shown of it: each name once, sorted.
	Drawn struct {
		View    *View
		Members []Member
	}
	// Ready tells, once, that this node can serve: see Waiting.
	Ready struct{}
	// NameTaken tells that another living node has this node's name, before this one is ready.
	NameTaken struct{ By env.Member }
)

func (Connect) isOutput()     {}
func (Disconnect) isOutput()  {}
func (SendStatus) isOutput()  {}
func (SendLeaving) isOutput() {}
func (Gossip) isOutput()      {}
func (Join) isOutput()        {}
func (NodeGone) isOutput()    {}
func (Drawn) isOutput()       {}
func (Ready) isOutput()       {}
func (NameTaken) isOutput()   {}

// Member is a node as users are shown it.
type Member struct {
	env.Member
	State env.MemberState
}

// Machine is what one node believes of its mesh. Every input carries the time, which never
// goes back, appends to out what must now be done, and returns it. After one or more inputs
// call Tick, and ask Deadline when to call it again. One goroutine at a time may use it.
type Machine struct {
	cfg  Config
	now  time.Duration
	out  []Output
	mesh Mesh

	joined   bool // in the mesh
	joinedAt time.Duration
	core     bool // it has a seat; else it is a client
	ready    bool
	leaving  bool

	members    map[transport.ID]*member
	connected  map[transport.ID]transport.Hello // all connected nodes, members or not
	ringWarned bool

	drawAt time.Duration // when a new view is to be made

	own      Report // what this node's replicas are
	lacks    int    // in how many shards it is to vote and does not yet
	statuses map[transport.ID]status
	statusAt time.Duration   // when this node's own is sent
	shards   []shardState    // made by assess
	quiet    []time.Duration // by shard: when it is expected to grant, as its leader last said; zero: it may
	health   Health

	brief  Report        // what clients are told, or are about to be
	passAt time.Duration // when clients that are owed a status get theirs, at the earliest

	listings    []*listing // in the order in which they began
	lastListing uint64

	leaderless leaderless
	quietSince time.Duration // since when a shard is known to be quiet; zero: none is
}

// New returns a Machine that is in no mesh yet.
func New(cfg Config) *Machine {
	return &Machine{
		cfg: cfg, members: make(map[transport.ID]*member), connected: make(map[transport.ID]transport.Hello),
		statuses: make(map[transport.ID]status), passAt: env.Never,
	}
}

// input runs one input.
func (m *Machine) input(now time.Duration, out []Output, do func()) []Output {
	m.now, m.out = now, out
	do()
	out, m.out = m.out, nil
	return out
}

func (m *Machine) emit(o Output) { m.out = append(m.out, o) }

// Joined reports that this node is in a mesh now, in which these nodes have a seat: its first one, or another one
// with as many shards. The node must report after that (Reported): it is not ready before.
func (m *Machine) Joined(now time.Duration, mesh Mesh, seated []env.Member, out []Output) []Output {
	return m.input(now, out, func() {
		if !m.joined {
			m.joined, m.joinedAt = true, now
			m.lacks = mesh.Shards // until the node has reported: others may tell that all is well before that
		}
		m.mesh = mesh
		m.quiet = make([]time.Duration, mesh.Shards)
		clear(m.statuses) // they were of another mesh
		m.drawAt, m.statusAt = now, now
		m.add(m.cfg.Self)
		m.seated(seated, 0)
		m.introduceAll() // of those that were connected before this node was in the mesh
	})
}

// Seated reports which nodes have a seat in the core, and which node (zero: none) lost its entry but still votes. If that one was
// seated, it stays so until it votes no more: it may lead shards, and these have no leader if it is parted with before it has
// handed them over.
func (m *Machine) Seated(now time.Duration, all []env.Member, dropped transport.ID, out []Output) []Output {
	return m.input(now, out, func() {
		if m.joined {
			m.seated(all, dropped)
		}
	})
}

// seated takes in which nodes have a seat. This node keeps connections with these, and with the dropped one if it knows that, and
// with no others. It is of the core, and gossips, if it is one of them.
func (m *Machine) seated(all []env.Member, dropped transport.ID) {
	has := func(id transport.ID) bool {
		return id == dropped || slices.ContainsFunc(all, func(o env.Member) bool { return o.ID == id })
	}
	was := m.core
	if m.core = has(m.cfg.Self.ID); m.core != was {
		m.emit(Gossip{On: m.core})
		m.statusAt, m.passAt = m.now, env.Never
	}
	for _, o := range m.sorted() {
		if o.ID == m.cfg.Self.ID {
			continue
		}
		if o.seated && !has(o.ID) {
			m.unseat(o)
		}
		switch {
		case m.core:
		case !o.seated:
			delete(m.members, o.ID)
			m.drawAt = m.now
		case was && !o.connected && o.state == env.Alive:
			m.becomes(o, env.Dead)
		}
	}
	var news []env.Member
	for _, o := range all {
		if isNew := m.seat(o); o.ID != m.cfg.Self.ID && (isNew || !was) {
			news = append(news, o)
		}
	}
	switch {
	case !m.core:
	case len(news) > 0:
		m.emit(Join{Members: news})
		fallthrough
	case !was:
		m.introduceAll()
	}
}

// introduceAll introduces all that are connected.
func (m *Machine) introduceAll() {
	for _, id := range slices.Sorted(maps.Keys(m.connected)) {
		m.introduce(m.connected[id])
	}
}

// seat notes that a node has a seat, and reports whether that is new.
func (m *Machine) seat(said env.Member) bool {
	known := m.members[said.ID] != nil
	o := m.add(said)
	if o.seated {
		return false
	}
	o.seated, o.Addr, m.drawAt = true, said.Addr, m.now
	if o.proven || o.state == env.Left {
		return false // that is for ever
	}
	o.unheard = !o.connected && (!known || o.state == env.Dead)
	if o.state == env.Dead {
		m.becomes(o, env.Alive)
	}
	m.keep(o)
	m.succeeds(o)
	if o.connected {
		m.statusAt = m.now
	}
	return true
}

// unseat notes that a node has a seat no more: from now on it is a client, or nothing.
func (m *Machine) unseat(o *member) {
	o.seated, o.unheard, o.heard, o.owed, m.drawAt = false, false, 0, false, m.now
	delete(m.statuses, o.ID)
	if !o.proven {
		m.emit(Disconnect{ID: o.ID}) // it is not dialled any more
	}
	if !o.connected && o.state == env.Alive {
		m.becomes(o, env.Dead)
	}
}

// News reports what gossip says of a node, true or not. It counts of those that have a seat.
func (m *Machine) News(now time.Duration, e env.MemberEvent, out []Output) []Output {
	return m.input(now, out, func() {
		if e.Member.ID != m.cfg.Self.ID && m.core {
			m.believe(e.Member, e.State)
		}
	})
}

// Answered reports which node answered a dial.
func (m *Machine) Answered(now time.Duration, peer transport.Hello, out []Output) []Output {
	return m.input(now, out, func() { m.introduce(peer) })
}

// Up reports a connection with a node, whichever of the two dialled.
func (m *Machine) Up(now time.Duration, peer transport.Hello, out []Output) []Output {
	return m.input(now, out, func() {
		m.connected[peer.ID] = peer
		if mine := m.cfg.RingHash; peer.RingHash != mine && !m.ringWarned {
			// Legal, since the ring is a hint: shards stay where they are (P29).
			m.ringWarned = true
			m.cfg.Logger.Warn("another node computes a different ring, so that leadership may move to and fro: build all nodes with the same versions of Lockmesh and its libraries",
				"peer", peer.Name, "ring", fmt.Sprintf("%016x", peer.RingHash), "mine", fmt.Sprintf("%016x", mine))
		}
		if o := m.members[peer.ID]; o != nil {
			o.connected, o.unheard, m.drawAt = true, false, now
			o.heard, o.told = 0, 0
			if m.byConnection(o) && o.state == env.Dead && !o.proven {
				m.becomes(o, env.Alive)
			}
		}
		m.introduce(peer)
		if o := m.members[peer.ID]; o != nil && o.seated && !m.core {
			m.ask(o)
		}
		if m.leaving {
			m.emit(SendLeaving{To: peer.ID})
		}
	})
}

// Down reports that a connection has ended, and why.
func (m *Machine) Down(now time.Duration, id transport.ID, cause transport.Cause, out []Output) []Output {
	return m.input(now, out, func() {
		delete(m.connected, id)
		o := m.members[id]
		if o == nil {
			return
		}
		o.connected, m.drawAt = false, now
		m.assess()
		if cause == transport.Replaced {
			m.prove(o)
		}
		switch {
		case o.proven || o.state == env.Left:
		case o.leaving && cause == transport.Goodbye:
			m.becomes(o, env.Left)
		case m.byConnection(o):
			m.becomes(o, env.Dead)
		}
	})
}

// Leaves reports a node's announcement that it is leaving.
func (m *Machine) Leaves(now time.Duration, from transport.ID, out []Output) []Output {
	return m.input(now, out, func() {
		if o := m.members[from]; o != nil && !o.leaving {
			o.leaving, m.drawAt = true, now
		}
	})
}

// Leave announces that this node is leaving, to all that it is connected with.
func (m *Machine) Leave(now time.Duration, out []Output) []Output {
	return m.input(now, out, func() {
		m.leaving, m.drawAt = true, now
		for _, o := range m.peers() {
			m.emit(SendLeaving{To: o.ID})
		}
	})
}

// Goodbye ends all connections with members.
func (m *Machine) Goodbye(now time.Duration, out []Output) []Output {
	return m.input(now, out, func() {
		for _, o := range m.peers() {
			m.emit(Disconnect{ID: o.ID})
		}
	})
}

// Tick does what is due.
func (m *Machine) Tick(now time.Duration, out []Output) []Output {
	return m.input(now, out, func() {
		if !m.joined {
			return
		}
		if now >= m.drawAt {
			m.draw()
		}
		if now >= m.statusAt {
			m.sendStatus()
		}
		if m.core {
			m.inform()
		}
		m.pursueListings()
		if !m.ready {
			m.arrive()
		}
		m.tellOfShards()
		m.tellOfQuiet()
	})
}

// Deadline returns when to call Tick next, or env.Never.
func (m *Machine) Deadline() time.Duration {
	if !m.joined {
		return env.Never
	}
	return min(m.drawAt, m.statusAt, m.passAt, m.listAt())
}
