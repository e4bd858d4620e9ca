package seat

import (
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/lockmesh/mesh/internal/core"
	"github.com/lockmesh/mesh/internal/env"
	"github.com/lockmesh/mesh/internal/fault"
	"github.com/lockmesh/mesh/internal/founding"
	"github.com/lockmesh/mesh/transport"
)

// Config describes the Machine's node. Strings are at most 255 bytes long.
type Config struct {
	Self  env.Member // its ID is new at every start
	List  []string   // the entries of the core: host:port, 1 to 64 of them; of a Client that discovers, perhaps none
	Entry string     // the one of this node; "": the one that Host names, else the one at which a dial reaches it, or none
	Host  string     // the name of this node's host: see founding.EntryOf
	Found bool       // the only entry of a list that is not loopback may found a mesh

	// Client: the node answers at no entry, wherever a dial reaches it. List is of contact points.
	Client bool
	// Discovers: while a Client knows of no mesh that serves, it asks for contact points, by Discover.
	Discovers bool

	// Oracle: Inquire is answered: there is somebody who can tell whether a node has ended.
	Oracle bool

	Anew  bool // no node was at this address before: the system chose the port
	Wants founding.Options
	Rand  uint64    // the seed of random values: mesh IDs and jitter
	Wall  time.Time // the time of day at Start

	// Clock returns the time of day: it may have been set since Start. It may be nil.
	Clock func() time.Time

	// What the incarnation before this one has kept beyond its life; zero: nothing.
	Floor    uint64        // the highest revision of any shard
	Quiet    time.Duration // for how long a mesh that is founded anew must grant nothing
	Replaces transport.ID  // that incarnation, which is known to have ended

	// Known returns the highest revision of a shard that the node has heard of, as its replica or as its client.
	// It may be nil.
	Known func(shard int) uint64

	// Saved returns the Quiet that the state directory has now, for the incarnation after this one. Nil: there is no directory, so
	// no place where that one would find a list, and Keep is not carried out.
	Saved func() time.Duration

	// Applied returns the revision of a shard's table in the replica on this node; zero: it has none. It may be nil.
	Applied func(shard int) uint64

	// Place returns, for any shard, the voters with which it begins in a new generation of the core: of those that
	// have a seat, as many as the mesh has replicas, or all.
	Place func(seats []core.Seat, p founding.Params) func(shard int) []transport.ID
}

// Output is something to do now, in order: Dial, Send, Part, Drop, Log, State, Cut, Discover, Inquire, Keep or Failed.
type Output interface{ isOutput() }

type (
	// Dial asks for one attempt to find out which node answers at Addr, and for exactly one
	// call of Dialed with its outcome, however long that takes. The name is resolved anew. There is never
	// more than one Dial under way for an address.
	Dial struct{ Addr string }
	// Send is one message, which may be lost.
	Send struct {
		To   transport.ID
		Body []byte
	}
	// Part ends the connection with a peer: it is not of the core any more, or not yet, and this node is a client.
	Part struct{ Peer transport.ID }
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
	// State is what the node knows of its mesh. While Fenced, no replica on this node may vote, append or
	// answer; what follows a State must not be done before that holds. A Table is never nil again once
	// there was one.
	//
	// Void: the mesh before gave way to an earlier one, in which this node is now (C10). What was held there was never
	// held alone.
	State struct {
		Table  *core.Table
		Fenced bool
		Void   bool
	}
	// Failed ends the Machine: waiting longer would not help.
	Failed struct{ Err error }
)

func (Dial) isOutput()   {}
func (Send) isOutput()   {}
func (Part) isOutput()   {}
func (Drop) isOutput()   {}
func (Log) isOutput()    {}
func (State) isOutput()  {}
func (Failed) isOutput() {}

// Machine is one node's part in the core of its mesh. It starts no goroutine and reads no clock: every
// input carries the time, which never goes back. An input appends to out what must now be done, and
// returns it. After each input, Deadline says when to call Tick. One goroutine at a time may use a
// Machine.
type Machine struct {
	cfg     Config
	pace    pace
	rng     *rand.Rand
	out     []Output
	here    []message // from this node to itself
	ended   bool
	started time.Duration
	last    time.Duration // of the last input
	due     time.Duration // the Deadline after it

	acceptor *core.Acceptor
	book     book
	own      string        // the entry at which this node answers
	named    string        // the one that its host's name tells; "": none
	looked   bool          // the dials of all entries have ended once
	sure     bool          // a dial of its entry has reached it, begun at surely or later
	surely   time.Duration // the start, or the end of the last stall

	attempt   attempt       // of this node as a proposer; nil: none
	resend    time.Duration // when its messages are sent again
	giveUp    time.Duration // when it is given up
	round     uint64        // the highest that it has seen in ballots on versions: it uses none twice
	rest      time.Duration // no attempt begins before
	misses    int           // attempts in a row that came to nothing
	lull      time.Duration // nor before this, since roll calls overtook each other
	called    time.Duration // when this node promised one last
	calls     int           // that it has promised in a row, each no later after the one before than an attempt may take
	couldCall time.Duration // since when there is a roll call that it may begin; zero: there is none
	withdrew  rounds        // of its own roll calls
	wants     wish
	changes   []Change
	cuts      map[Cut]cut

	orders    []*standingOrder // in the order in which they came
	lastOrder uint64           // the number of this node's last one

	inquiries map[transport.ID]*inquiry // about nodes that this one is not connected with
	silence   map[transport.ID]*silence // nodes with a seat that this one is not connected with
	heeding   heeding                   // about an operator's order

	lifetimes lifetimes

	kept    span          // of what the state directory says, and of a mesh that gave way
	listed  span          // of what the table showed when this node learned it: see calmed
	floor   uint64        // see Floor
	floorAt time.Duration // when it was computed last
	among   time.Duration // when most of those with a seat were heard last, as by this node's table, or not long before
	then    []uint64      // what this node knew at that time of the revisions of each shard
	raise   uint64        // see Raise
	voids   uint64        // the earlier mesh to which this node's gave way; zero: none
	moved   bool          // its mesh gave way to another one, in which it is now
	alone   time.Duration // when it last was not so that only a mesh lives which this node has left: see leaveOut

	serving *core.Table // of the generation that serves: what a node without a seat goes by
	state   State
	brief   told
	passAt  time.Duration // when clients are told that are owed it, at the earliest
	waiting waiting
	alarm   alarm

	idle      idle
	discovery discovery
	moves     moves
	standing  *Standing
}

// pace is how fast a Machine goes that is not idle. Contact and rest are upper limits: a time is drawn from half to all of them.
type pace struct {
	contact time.Duration // between two dials of an entry; between two times that a client is told unasked
	fresh   time.Duration // for how long an entry counts as heard
	unit    time.Duration // longer than an answer takes, as a rule

	// Of a client that knows which mesh serves:
	ask  time.Duration // between two questions to a node that is connected
	rest time.Duration // between two dials of an entry that is connected
}

var (
	afar     = pace{contact: time.Second, fresh: 3 * time.Second, unit: 100 * time.Millisecond, ask: 5 * time.Second, rest: 30 * time.Second}
	loopback = pace{contact: 200 * time.Millisecond, fresh: time.Second, unit: 20 * time.Millisecond, ask: time.Second, rest: 6 * time.Second}
)

// paceOf returns how fast a node goes with a list.
func paceOf(list []string) pace {
	if len(list) > 0 && founding.AllLoopback(list) {
		return loopback
	}
	return afar
}

// stalled is after how long without an input, though one was due, the node must make sure that no other
// has taken its entry: an election timeout (E).
const stalled = time.Second

// New returns a Machine that waits for Start.
func New(cfg Config) *Machine {
	cfg.List = founding.Normalise(cfg.List)
	m := &Machine{cfg: cfg, pace: paceOf(cfg.List), due: env.Never, passAt: env.Never, acceptor: core.NewAcceptor(cfg.Self.ID, cfg.List)}
	m.named, m.standing = founding.EntryOf(cfg.Host, cfg.List, cfg.Self.Addr), new(Standing)
	m.rng = rand.New(rand.NewPCG(cfg.Rand, uint64(cfg.Self.ID)))
	m.book.peers = make(map[transport.ID]*peer)
	m.floor, m.kept = min(cfg.Floor, maxFloor), span{max(cfg.Quiet, 0), env.Never}
	m.cuts, m.inquiries, m.silence = make(map[Cut]cut), make(map[transport.ID]*inquiry), make(map[transport.ID]*silence)
	return m
}

// Start begins. The Machine fails with an error that wraps ErrInvalidOption, or ErrNoSeeds if the list is
// empty.
func (m *Machine) Start(now time.Duration, out []Output) []Output {
	return m.input(now, out, func() {
		m.surely, m.started, m.last, m.among = now, now, now, now
		if err := m.validate(); err != nil {
			m.fail(err)
			return
		}
		m.cover(now)
	})
}

func (m *Machine) validate() error {
	var l limits
	if len(m.cfg.List) > 0 {
		l.list(m.cfg.List)
	}
	switch {
	case len(m.cfg.List) == 0 && !m.cfg.Discovers:
		return fmt.Errorf("%w: list at least one", fault.ErrNoSeeds)
	case l.broken != "":
		return fmt.Errorf("%w: %s", fault.ErrInvalidOption, l.broken)
	case m.cfg.Entry != "" && !slices.Contains(m.cfg.List, m.cfg.Entry):
		return fmt.Errorf("%w: WithEntry %q, which is none of %q", fault.ErrInvalidOption, m.cfg.Entry, m.cfg.List)
	}
	if m.card().check(&l); l.broken != "" {
		return fmt.Errorf("%w: %s", fault.ErrInvalidOption, l.broken)
	}
	return nil
}

func (m *Machine) card() card {
	return card{Member: m.cfg.Self, List: m.cfg.List, Wants: m.cfg.Wants}
}

// Tick does what is due.
func (m *Machine) Tick(now time.Duration, out []Output) []Output {
	return m.input(now, out, func() {})
}

// Dialed reports the outcome of a Dial. If this node reached itself, peer has its own ID, whatever err
// is. A connection is reported by Up, before or after Dialed.
func (m *Machine) Dialed(now time.Duration, addr string, peer transport.Hello, err error, out []Output) []Output {
	return m.input(now, out, func() { m.dialed(now, addr, peer, err) })
}

// Up reports a connection with a peer, whichever of the two dialled.
func (m *Machine) Up(now time.Duration, id transport.ID, out []Output) []Output {
	return m.input(now, out, func() {
		p := m.book.peer(id)
		p.up, p.parted = true, false
		m.lives(id)
		if m.book.entryOf(id) != nil {
			m.tell(now, id)
		}
		for _, c := range m.changes { // it may have been away when the others were asked
			m.askToFence(c, id)
		}
	})
}

// Down reports that there is no connection with the peer any more.
func (m *Machine) Down(now time.Duration, id transport.ID, out []Output) []Output {
	return m.input(now, out, func() { m.book.down(now, id) })
}

// Message handles one message, which is all of body. It does not come before the Up of its connection.
func (m *Machine) Message(now time.Duration, from transport.ID, body []byte, out []Output) []Output {
	return m.input(now, out, func() {
		msg, err := decode(body)
		if err != nil {
			m.emit(Drop{Peer: from, Err: err})
			return
		}
		m.handle(now, from, msg)
	})
}

// input runs one input, and then all that is due.
func (m *Machine) input(now time.Duration, out []Output, do func()) []Output {
	if m.ended {
		return out
	}
	m.out = out
	if m.due != env.Never && now > m.due+stalled {
		m.sure, m.surely = false, now
		m.abandon()
		m.book.hurry(now, m.own)
		m.publish()
	}
	do()
	m.orient(now)
	m.obey(now)
	for again := true; again && !m.ended; {
		m.pursue(now)
		again = m.decide(now)
		for len(m.here) > 0 && !m.ended {
			msg := m.here[0]
			m.here = m.here[1:]
			m.handle(now, m.cfg.Self.ID, msg)
			again = true
		}
	}
	if !m.ended {
		m.discover(now)
		m.contact(now)
		m.inquire(now)
		m.vacate(now)
		m.heed(now)
		m.publish()
		m.obey(now)
		m.spread(now)
		m.stand(now)
		m.idles(now)
		m.accuse(now)
		m.tellOfMoves(now)
		m.waiting.log(m, now)
		m.alarm.log(m, now)
	}
	m.last = now
	m.due = m.Deadline()
	out, m.out = m.out, nil
	return out
}

// Deadline returns when to call Tick next, or env.Never.
func (m *Machine) Deadline() time.Duration {
	if m.ended {
		return env.Never
	}
	next := min(m.last+stalled, m.book.deadline(), m.asksAt(), m.passAt, m.waiting.deadline()) // a stall shows though nothing is due
	next = min(next, m.roleDeadline(), m.discoverAt(), m.inquireAt(), m.obeyAt())
	switch {
	case m.attempt != nil:
		next = min(next, m.giveUp, m.resend)
	case m.wants.action != nil:
		next = min(next, max(m.rest, m.lull, m.wants.turn))
	}
	return next
}

// publish says what the node knows, if that has changed.
func (m *Machine) publish() {
	s := State{Table: m.acceptor.Table(), Fenced: m.acceptor.Fenced() || !m.sure}
	if role := m.Role(); role == Undecided {
		return // what it must not do as a client, it may have to do as a voter
	} else if role == Client {
		s = State{Table: m.serving}
	} else if t := m.serving; t != nil && !slices.Contains(t.Bound(), m.cfg.Self.ID) {
		if s.Table == nil || s.Table.Stamp.Roll == t.Stamp.Roll && s.Table.Stamp.Version < t.Stamp.Version {
			s.Table = t // it has no seat yet, or no more: its acceptor learns of no such table
		}
	}
	s.Void = s.Table != nil && m.voids == s.Table.Mesh
	if s != m.state && s.Table != nil {
		m.state = s
		m.emit(s)
	}
}

func (m *Machine) emit(o Output) { m.out = append(m.out, o) }

func (m *Machine) send(to transport.ID, msg message) {
	if to == m.cfg.Self.ID {
		m.here = append(m.here, msg)
		return
	}
	m.emit(Send{To: to, Body: encode(msg)})
}

func (m *Machine) log(level slog.Level, text string, attrs ...slog.Attr) {
	m.emit(Log{Level: level, Text: text, Attrs: attrs})
}

func (m *Machine) fail(err error) {
	if !m.ended {
		m.ended = true
		m.emit(Failed{Err: err})
	}
}

// upTo draws a duration from half of d to d.
func (m *Machine) upTo(d time.Duration) time.Duration {
	return d/2 + time.Duration(m.rng.Int64N(int64(d/2)))
}
