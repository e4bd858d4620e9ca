package founding

import (
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/lockmesh/mesh/internal/env"
	"github.com/lockmesh/mesh/internal/fault"
	"github.com/lockmesh/mesh/internal/point"
	"github.com/lockmesh/mesh/transport"
)

// Config describes the Machine's node. Strings are at most 255 bytes long.
type Config struct {
	// Self is this node; its ID is new at every start. Without an Addr it is a client-only node
	// (package mesh has none yet): it cannot be dialled, founds nothing, and is let in without a
	// check of its name.
	Self Member

	// Seeds are the addresses where a mesh may be found, at most 64, blanks dropped.
	Seeds []string

	Wants    Options
	Found    bool // found a mesh of one if there are no seeds
	Loopback bool // this node's own address is a loopback address

	Rand uint64    // the seed of random values: mesh IDs and jitter
	Wall time.Time // the time of day at Start (P17)
	// Floor is the lowest founding time that every token ever seen by this node allows,
	// in ms (P17), or zero.
	Floor uint64

	// Named returns the member with that name, other than the node except, as far as this
	// node's gossip knows. The member may be dead: it is dialled before a joiner is refused.
	// Nil means that no member is known.
	Named func(name string, except transport.ID) (Member, bool)
	// Members returns the members of the mesh, for a welcome, which carries up to 256. Nil
	// stands for the founders.
	Members func() []Member

	Points point.Points
}

// Output is something to do now, in order: Dial, Send, Drop, Log, Done, Failed or Disband.
type Output interface{ isOutput() }

type (
	// Dial asks for one attempt to find out which node answers at Addr, and for exactly one
	// call of Dialed with its outcome, however long that takes. There is never more than one
	// Dial under way for an address.
	Dial struct{ Addr string }
	// Send is one message, which may be lost.
	Send struct {
		To   transport.ID
		Body []byte
	}
	// Drop reports that a peer sent a malformed message. The connection must be closed.
	Drop struct {
		Peer transport.ID
		Err  error
	}
	// Log is a line for the log.
	Log struct {
		Level slog.Level
		Text  string
		Attrs []slog.Attr
	}
	// Done reports, once, that this node is part of a mesh now. Members are some of its
	// members; nil stands for the founders. The Machine goes on and answers other nodes.
	Done struct {
		Mesh    Mesh
		Members []Member
	}
	// Failed ends the Machine: waiting longer would not help.
	Failed struct{ Err error }
	// Disband reports that a node of another mesh has dialled this node, whose mesh of one was
	// founded without seeds (P28). The node must end with ErrEjected; its program may then join
	// By's mesh. The Machine has ended.
	Disband struct{ By transport.Hello }
)

func (Dial) isOutput()    {}
func (Send) isOutput()    {}
func (Drop) isOutput()    {}
func (Log) isOutput()     {}
func (Done) isOutput()    {}
func (Failed) isOutput()  {}
func (Disband) isOutput() {}

type phase uint8

const (
	idle phase = iota
	searching
	member
	ended
)

// Machine finds or founds a mesh for one node, and then answers nodes that look for a
// mesh. It starts no goroutine and reads no clock: every input carries the time, which never
// goes back. An input appends to out what must now be done, and returns it. After each input,
// Deadline says when to call Tick. One goroutine at a time may use a Machine.
type Machine struct {
	cfg    Config
	self   Member
	card   card
	listen time.Duration
	rng    *rand.Rand
	out    []Output

	phase phase
	start time.Duration
	up    []transport.ID // the connected nodes, sorted
	dials []dialling
	seq   uint64 // of the last ask

	seeds    []seed
	targets  []target // known members of living meshes
	joining  joining
	acceptor acceptor
	proposer proposer

	// The following are of a member.
	mesh        Mesh
	decidedAt   ballot
	since       time.Duration  // when this node became a member
	solo        bool           // founded without seeds, and no node with an address was ever let in
	uninformed  []transport.ID // founders that may not know of the mesh yet, sorted
	informUntil time.Duration  // until then they keep other nodes from joining
	nextInform  time.Duration
	admissions  []admission
}

// New returns a Machine that waits for Start.
func New(cfg Config) *Machine {
	m := &Machine{cfg: cfg, self: cfg.Self}
	m.rng = rand.New(rand.NewPCG(cfg.Rand, uint64(cfg.Self.ID)))
	seeds := Normalise(cfg.Seeds)
	m.card = card{
		Name: cfg.Self.Name, Addr: cfg.Self.Addr, Zone: cfg.Self.Zone, Seeds: seeds, Wants: cfg.Wants,
	}
	m.listen = Listen(seeds)
	for _, addr := range seeds {
		m.seeds = append(m.seeds, seed{addr: addr})
	}
	return m
}

// Start begins. The Machine fails with an error that wraps ErrInvalidOption, or ErrNoSeeds
// if there is no seed and the node may not found a mesh of one (P28).
func (m *Machine) Start(now time.Duration, out []Output) []Output {
	return m.input(now, out, func() {
		m.phase = searching
		m.start = now
		if err := m.validate(); err != nil {
			m.fail(err)
			return
		}
		if len(m.seeds) > 0 {
			return
		}
		if !m.cfg.Found || m.self.Addr == "" {
			m.fail(fmt.Errorf("%w: list at least one, or use WithFound to found a mesh of one", fault.ErrNoSeeds))
			return
		}
		m.foundAlone(now)
	})
}

// foundAlone founds a mesh of one.
func (m *Machine) foundAlone(now time.Duration) {
	p, _ := params([]card{m.card}) // one founder cannot contradict another
	m.solo = true
	m.log(slog.LevelInfo, "founded a mesh of one", slog.String("mesh", p.MeshName), slog.String("addr", m.self.Addr))
	m.becomeMember(now, Mesh{
		MeshID: m.newMeshID(), Epoch: 1, Params: p, Founded: m.floor(now), Roster: []Member{m.self},
		Grace: !m.cfg.Loopback,
	}, ballot{}, nil)
}

func (m *Machine) validate() error {
	if len(m.seeds) > maxSeeds {
		return fmt.Errorf("%w: %d seeds, at most %d", fault.ErrInvalidOption, len(m.seeds), maxSeeds)
	}
	texts := append([]string{m.self.Name, m.self.Addr, m.self.Zone, m.cfg.Wants.MeshName}, m.card.Seeds...)
	for _, s := range texts {
		if len(s) > maxString {
			return fmt.Errorf("%w: %.20q… has %d bytes, at most %d", fault.ErrInvalidOption, s, len(s), maxString)
		}
	}
	if ms := m.cfg.Wall.UnixMilli(); ms > maxFounded {
		return fmt.Errorf("%w: the clock shows %v", fault.ErrInvalidOption, m.cfg.Wall)
	}
	return nil
}

// Tick does what is due.
func (m *Machine) Tick(now time.Duration, out []Output) []Output {
	return m.input(now, out, func() {})
}

// Dialed reports the outcome of a Dial. If this node reached itself, peer has its own ID,
// whatever err is. A connection is reported by Up, before or after Dialed.
func (m *Machine) Dialed(now time.Duration, addr string, peer transport.Hello, err error, out []Output) []Output {
	return m.input(now, out, func() {
		begun, ok := m.endDial(now, addr)
		switch {
		case !ok:
		case m.phase == searching:
			m.seedDialed(now, addr, peer, err)
			m.targetDialed(now, addr, peer, err)
		case m.phase == member:
			m.founderDialed(begun, addr, peer, err)
			m.joinerDialed(now, begun, addr, peer, err)
		}
	})
}

// Up reports a connection with a peer, whichever of the two dialled.
func (m *Machine) Up(now time.Duration, peer transport.Hello, out []Output) []Output {
	return m.input(now, out, func() {
		m.connected(peer.ID)
		switch {
		case m.phase == searching && peer.MeshID != 0:
			m.noteMember(now, target{id: peer.ID, addr: peer.Addr, mesh: peer.MeshID, name: peer.MeshName})
		case slices.Contains(m.uninformed, peer.ID):
			m.nextInform = now
		}
	})
}

// Down reports that there is no connection with the peer any more.
func (m *Machine) Down(now time.Duration, id transport.ID, out []Output) []Output {
	return m.input(now, out, func() {
		if i, ok := slices.BinarySearch(m.up, id); ok {
			m.up = slices.Delete(m.up, i, i+1)
		}
	})
}

// Foreign reports a connection that CheckHello refused. It matters to a mesh of one that was
// founded without seeds and dials no other node. So the other mesh has dialled this node: it
// lists the node's address, or has lost a member there. The node gives up its own mesh (P28).
func (m *Machine) Foreign(now time.Duration, peer transport.Hello, out []Output) []Output {
	return m.input(now, out, func() {
		if m.phase != member || !m.solo || peer.MeshID == 0 || peer.MeshID == m.mesh.MeshID || peer.Addr == "" {
			return
		}
		if w := m.cfg.Wants.MeshName; w != "" && peer.MeshName != w {
			return
		}
		m.log(slog.LevelError, "a node of another mesh has dialled this node: this mesh of one gives way to that mesh",
			slog.String("mesh", peer.MeshName), slog.String("member", peer.Name), slog.String("addr", peer.Addr))
		m.phase = ended
		m.emit(Disband{By: peer})
	})
}

// Message handles one message, which is all of body.
func (m *Machine) Message(now time.Duration, from transport.ID, body []byte, out []Output) []Output {
	return m.input(now, out, func() {
		msg, err := decode(body)
		switch {
		case err != nil:
			m.emit(Drop{Peer: from, Err: err})
		case m.phase == searching:
			m.searcherMessage(now, from, msg)
		case m.phase == member:
			m.memberMessage(now, from, msg)
		}
	})
}

// input runs one input, and then all that is due.
func (m *Machine) input(now time.Duration, out []Output, do func()) []Output {
	m.out = out
	do()
	if m.phase == searching {
		m.search(now)
	}
	if m.phase == member {
		m.serve(now)
	}
	out, m.out = m.out, nil
	return out
}

// Deadline returns when to call Tick next, or env.Never.
func (m *Machine) Deadline() time.Duration {
	switch m.phase {
	case searching:
		return m.searchDeadline()
	case member:
		return m.serveDeadline()
	}
	return env.Never
}

// Mesh returns the mesh of the Done, and whether there was one.
func (m *Machine) Mesh() (Mesh, bool) { return m.mesh, m.phase == member }

// becomeMember makes this node a member of v.
func (m *Machine) becomeMember(now time.Duration, v Mesh, at ballot, members []Member) {
	m.phase = member
	m.mesh, m.decidedAt, m.since = v, at, now
	if v.founder(m.self.ID) {
		m.uninformed = slices.DeleteFunc(v.ids(), func(id transport.ID) bool { return id == m.self.ID })
		m.informUntil = now + informFor
	}
	m.emit(Done{Mesh: v, Members: members})
}

func (m *Machine) newMeshID() uint64 {
	for {
		if id := m.rng.Uint64(); id != 0 {
			return id
		}
	}
}

func (m *Machine) connected(id transport.ID) {
	if i, ok := slices.BinarySearch(m.up, id); !ok {
		m.up = slices.Insert(m.up, i, id)
	}
}

func (m *Machine) isUp(id transport.ID) bool {
	_, ok := slices.BinarySearch(m.up, id)
	return ok
}

func (m *Machine) emit(o Output) { m.out = append(m.out, o) }

// dialling is a Dial whose outcome is not known yet.
type dialling struct {
	addr  string
	begun time.Duration
	again bool // an attempt that begins later is needed, too
}

// dial begins an attempt at addr, now or when the one under way has ended.
func (m *Machine) dial(now time.Duration, addr string) {
	for i := range m.dials {
		if m.dials[i].addr == addr {
			m.dials[i].again = true
			return
		}
	}
	m.dials = append(m.dials, dialling{addr: addr, begun: now})
	m.emit(Dial{Addr: addr})
}

// endDial ends the attempt at addr and returns when it began: its outcome may be as old as
// that.
func (m *Machine) endDial(now time.Duration, addr string) (begun time.Duration, ok bool) {
	i := slices.IndexFunc(m.dials, func(d dialling) bool { return d.addr == addr })
	if i < 0 {
		return 0, false
	}
	d := m.dials[i]
	m.dials = slices.Delete(m.dials, i, i+1)
	if d.again && m.phase != ended {
		m.dial(now, addr)
	}
	return d.begun, true
}

func (m *Machine) send(to transport.ID, msg message) {
	m.emit(Send{To: to, Body: encode(msg)})
}

func (m *Machine) log(level slog.Level, text string, attrs ...slog.Attr) {
	m.emit(Log{Level: level, Text: text, Attrs: attrs})
}

func (m *Machine) fail(err error) {
	if m.phase != ended {
		m.phase = ended
		m.emit(Failed{Err: err})
	}
}

// between draws a duration in [from, to).
func (m *Machine) between(from, to time.Duration) time.Duration {
	return from + time.Duration(m.rng.Int64N(int64(to-from)))
}

// floor returns the earliest founding time that this node allows, in ms. It is not below the
// node's clock, nor below the tokens that it knows of. If this node accepted a value, another
// node may have served that mesh since; then it is not below a time that no token of that
// mesh has reached. A table's revision grows by less than 1024 a millisecond in the long run,
// for which twice the time is allowed. A margin of 2^20 ms, which is 2^30 revisions, covers the
// short run (P17).
func (m *Machine) floor(now time.Duration) uint64 {
	wall := m.cfg.Wall.Add(now - m.start).UnixMilli()
	floor := max(uint64(max(wall, 1)), m.cfg.Floor)
	if a := &m.acceptor; a.at != (ballot{}) {
		floor = max(floor, a.value.Founded+2*uint64((now-a.since).Milliseconds())+1<<20)
	}
	return min(floor, maxFounded)
}
