// Package hosting decides which replicas a node has, and where its shards' replicas are to be: a [Machine]
// goes by the core's table (package seat) and by what the node's replicas see of each other. It sends
// nothing, and makes no replica: its outputs say what the node is to do.
//
//   - A generation of a shard begins with the replicas of its voters, which each of them makes as soon as
//     it knows the table. Later ones are made by the shard's leader alone.
//   - The leader asks the core for a change of voters (Move), makes the one change that the table then names,
//     and tells the core what came of it (Settle). Where voters are to be follows from the ring of entries,
//     from who has a seat, and from whom the leader hears (C3, C13).
//   - A shard that can have no leader any more begins a new generation (Recover), on nodes that the one which asks
//     for it reaches (C7). Its tables are empty: the node's client reports to them what its sessions hold.
//
// (P12), (C8) and the like are rules in PROTOCOL.md. ARCHITECTURE.md defines the terms, also E and ρ.
package hosting

import (
	"cmp"
	"slices"
	"time"

	"github.com/lockmesh/mesh/internal/core"
	"github.com/lockmesh/mesh/internal/founding"
	"github.com/lockmesh/mesh/internal/replica"
	"github.com/lockmesh/mesh/internal/seat"
	"github.com/lockmesh/mesh/ring"
	"github.com/lockmesh/mesh/shard"
	"github.com/lockmesh/mesh/transport"
)

// Output is something to do now, in order: Make, Drop, Aim, Ask or Begun.
type Output interface{ isOutput() }

type (
	// Make makes one of a generation's first replicas. The node fills in what it knows of itself.
	Make struct{ replica.Config }
	// Drop destroys the replica of a shard, before anything else that it would say.
	Drop struct{ Shard int }
	// Aim is where a shard's replicas are to be.
	Aim struct {
		Shard  int
		Target replica.Target
	}
	// Ask asks the core for a change.
	Ask struct{ seat.Change }
	// Begun: the shard lives in another generation now, as the client is to know.
	Begun struct {
		Shard      int
		Generation uint64
		Quiet      time.Duration // for how long leases of the generation before may last
		Used       uint64        // replica IDs up to this one are of the first replicas: no other is ever made under them
	}
)

func (Make) isOutput()  {}
func (Drop) isOutput()  {}
func (Aim) isOutput()   {}
func (Ask) isOutput()   {}
func (Begun) isOutput() {}

// Times of the Machine.
const (
	// Grace is for how long a voter may be silent before it is replaced, and a shard without a leader before
	// another generation is asked for: as long as three elections take at worst.
	Grace = 6 * replica.ElectionTimeout
	// lost is for how long a shard may have no leader though a majority of its voters is connected. Then it is their
	// replicas that are not there, and their nodes have not said so: they have not heard of the generation, for example.
	lost = 3 * Grace
	// apart is for how long most of a shard's voters must not be connected as well: after a cut, connections are made
	// again one by one.
	apart = 2 * replica.ElectionTimeout
	// orphaned is for how long a shard's voters may be without a majority that lives before a node without a
	// replica, which sees no leaders, asks for another generation. It is more than a Settle takes.
	orphaned = 2 * Grace
)

// Seen is what a node sees of a replica that it has.
type Seen struct {
	Shard    int
	Leads    bool           // it serves as the leader
	Sure     bool           // it leads, as a majority has confirmed since it has the latest Aim
	Led      bool           // it leads or knows the leader
	Voters   []transport.ID // by its applied log, sorted
	Changing bool           // its voters are changing, or may be
	Silent   []transport.ID // voters that the leader has not heard for Grace
	Vanished []transport.ID // voters that have no replica any more, or never made one, as they have said
}

// See looks at a replica.
func See(r *replica.Replica) Seen {
	s := Seen{Shard: r.Shard(), Leads: r.Serving(), Sure: r.Sure(), Changing: r.Changing()}
	_, s.Led = r.Leader()
	voters, _, _, _ := r.Configuration()
	s.Voters, s.Vanished = ids(voters), ids(r.Vanished())
	if s.Leads {
		s.Silent = ids(r.Silent(Grace))
	}
	return s
}

func nodes(all []transport.ID) (nodes []uint64) {
	for _, id := range all {
		nodes = append(nodes, uint64(id))
	}
	return nodes
}

func ids(nodes []uint64) []transport.ID {
	all := make([]transport.ID, len(nodes))
	for i, n := range nodes {
		all[i] = transport.ID(n)
	}
	slices.Sort(all)
	return all
}

// Machine decides for one node. It reads no clock; the time that its inputs carry never falls. One
// goroutine at a time may use it.
type Machine struct {
	self   transport.ID
	table  *core.Table    // nil: none yet
	bound  []transport.ID // that have a seat in it
	living []transport.ID // of these the ones that are not known to have ended, sorted
	lacks  int            // see Lacks
	fenced bool
	shards []hosted
	cuts   map[life]uint64 // up to which generation no replica may live here any more
	order  [][]int         // by shard, the seats in the order of the ring
	names  string          // of the entries and zones that order was made of
	out    []Output
}

// hosted is what the Machine knows of one shard.
type hosted struct {
	generation core.Generation
	had        bool           // this node has made a replica of the generation
	led        time.Duration  // when a leader was last known here, or none could be known here, or the generation began
	lived      time.Duration  // when a majority of the voters last lived
	near       time.Duration  // when this node was last connected with a majority of them, or could not ask the core
	recovers   bool           // this node asked for another generation, and does so until that has begun
	dropped    uint64         // the change of voters that this leader does not make any more
	aimed      replica.Target // the last one that the node was told
}

// life is a shard within one generation of the core.
type life struct {
	shard int
	core  core.Ballot
}

// New returns a Machine for a node.
func New(self transport.ID) *Machine { return &Machine{self: self, cuts: make(map[life]uint64)} }

// Hosts reports whether a leader may ask this node now to host a replica of that generation.
func (m *Machine) Hosts(shard int, generation uint64) bool {
	return m.table != nil && !m.fenced && shard < len(m.shards) && !m.isCut(shard, m.shards[shard].generation) &&
		m.shards[shard].generation.Name() == generation
}

// Calm reports whether the replica of that generation need be quiet no longer, by an operator's word.
func (m *Machine) Calm(shard int, generation uint64) bool {
	if m.table == nil {
		return false
	}
	s := &m.table.Shards[shard]
	return s.Calm && s.Generation.Name() == generation
}

// isCut reports whether no replica of that generation may live here any more.
func (m *Machine) isCut(shard int, g core.Generation) bool {
	return g.Number <= m.cuts[life{shard, g.Core}]
}

// Core takes in what the node knows of the core.
func (m *Machine) Core(now time.Duration, s seat.State, out []Output) []Output {
	m.out = out
	m.fenced = s.Fenced
	// A node that has no seat any more may be shown an older version again than it has acted by. A replica of
	// a generation that is over must not be made a second time.
	if t := s.Table; t != nil && (m.table == nil || t.Stamp.Roll != m.table.Stamp.Roll || t.Stamp.Version > m.table.Stamp.Version) {
		m.learn(now, t)
	}
	out, m.out = m.out, nil
	return out
}

func (m *Machine) learn(now time.Duration, t *core.Table) {
	quiet := t.Params.Quiet()
	if m.table != nil {
		quiet = max(quiet, m.table.Params.Quiet()) // of what may have been granted until now
	}
	m.table, m.bound, m.living = t, t.Bound(), t.Living()
	m.reorder()
	m.lacks = m.countLacks()
	if len(m.shards) != len(t.Shards) {
		m.shards = make([]hosted, len(t.Shards))
	}
	for i := range t.Shards {
		s, h := &t.Shards[i], &m.shards[i]
		if s.Generation != h.generation {
			if h.generation != (core.Generation{}) {
				m.emit(Drop{i})
			}
			*h = hosted{generation: s.Generation, led: now, lived: now, near: now}
			m.emit(Begun{i, s.Generation.Name(), quiet, uint64(len(s.Voters))})
			founders := s.Move == 0 || s.Move == 1 && s.Next != nil // the voters: their first change may be under way when a node hears of it
			if founders && slices.Contains(s.Voters, m.self) && !m.isCut(i, s.Generation) {
				m.found(i, s)
			}
		}
		m.aim(i)
	}
}

// found makes this node's first replica of a generation, whose founders are its voters. The first of them, which
// is the first to stand for election, is another one from shard to shard.
func (m *Machine) found(i int, s *core.Shard) {
	first := i % len(s.Voters)
	founders := slices.Concat(s.Voters[first:], s.Voters[:first])
	c := replica.Config{
		Shard: i, Generation: s.Generation.Name(), ID: uint64(slices.Index(founders, m.self) + 1),
		Founding: shard.Founding{Revision: s.Revision, Settles: s.Quiet}, Rho: m.table.Params.Drift(),
	}
	for _, id := range founders {
		c.Founders = append(c.Founders, m.peer(id))
	}
	m.emit(Make{c})
	m.shards[i].had = true
}

// peer returns where a node with a seat lives. Of one that has none any more only the ID is known.
func (m *Machine) peer(id transport.ID) replica.Peer {
	for _, s := range m.table.Seats {
		if s.Node.ID == id {
			return replica.Peer{Node: uint64(id), Name: s.Node.Name, Addr: s.Node.Addr}
		}
	}
	return replica.Peer{Node: uint64(id)}
}

// aims returns where the shard's replicas are to be now: at the next voters, if there are some that the
// shard may still change to.
func (m *Machine) aims(i int) []transport.ID {
	s := &m.table.Shards[i]
	if s.Next != nil && s.Move != m.shards[i].dropped {
		return s.Next
	}
	return s.Voters
}

// aim says where the shard's replicas are to be, if that is new. Another list may have another order, and so another
// owner. A voter whose entry was dropped from the list is to lead no more: it could not ask the core to replace it, nor
// say what came of a change.
func (m *Machine) aim(i int) {
	s, h := &m.table.Shards[i], &m.shards[i]
	t := replica.Target{From: nodes(s.Voters), Move: s.Move, Moving: s.Next != nil}
	for _, id := range m.inOrder(i, m.aims(i)) {
		t.Nodes = append(t.Nodes, m.peer(id))
		if !m.alive(id) { // as if it left: any other voter may lead
			t.Leave, t.Dropped = append(t.Leave, uint64(id)), append(t.Dropped, uint64(id))
			t.Yields = t.Yields || id == m.self
		}
	}
	for _, id := range s.Voters {
		if !m.alive(id) && !slices.Contains(t.Dropped, uint64(id)) {
			t.Dropped = append(t.Dropped, uint64(id))
		}
	}
	if !same(&t, &h.aimed) {
		h.aimed = t
		m.emit(Aim{i, t})
	}
}

// same reports whether two targets differ at most in what is known of where a node lives.
func same(t, o *replica.Target) bool {
	node := func(p, o replica.Peer) bool { return p.Node == o.Node }
	return slices.EqualFunc(t.Nodes, o.Nodes, node) && slices.Equal(t.From, o.From) && slices.Equal(t.Dropped, o.Dropped) &&
		t.Move == o.Move && t.Moving == o.Moving
}

// Cut destroys the replica of a shard for good, as a node that recovers the shard wants it. If the core's table
// names that generation to this node only later, no replica is made then.
func (m *Machine) Cut(c seat.Cut, out []Output) []Output {
	l := life{c.Shard, c.Generation.Core}
	m.cuts[l] = max(m.cuts[l], c.Generation.Number)
	if c.Shard < len(m.shards) && m.isCut(c.Shard, m.shards[c.Shard].generation) {
		out = append(out, Drop{c.Shard})
	}
	return out
}

// Look takes in what the node sees of its replicas, which other nodes it has a connection with, and which nodes
// leave. It is to be called several times in an election timeout.
func (m *Machine) Look(now time.Duration, seen []Seen, reaches, leaves func(transport.ID) bool, out []Output) []Output {
	if m.table == nil || m.fenced || !m.alive(m.self) {
		for i := range m.shards {
			m.shards[i].led = now // this node could not know of a leader
		}
		return out
	}
	m.out = out
	bySeen := make([]*Seen, len(m.shards))
	for i := range seen {
		bySeen[seen[i].Shard] = &seen[i]
	}
	for i := range m.shards {
		s := bySeen[i]
		if s == nil || s.Led {
			m.shards[i].led = now // without a replica this node cannot know of a leader
		}
		if s != nil && s.Leads {
			m.lead(i, s, reaches, leaves)
		}
		m.recover(now, i, s, reaches, leaves)
	}
	out, m.out = m.out, nil
	return out
}

// lead brings a shard that this node leads to where its voters are to be. What came of a change it tells the core only if it is sure that
// it leads, since it knows of the change: one that was deposed while it stood still may have the voters of long ago, to which the table's change
// happens to lead back.
func (m *Machine) lead(i int, seen *Seen, reaches, leaves func(transport.ID) bool) {
	s, h := &m.table.Shards[i], &m.shards[i]
	if s.Next == nil {
		// A leader without a majority is about to be deposed, and cannot carry out a change of voters. If it asked for one, the
		// core could no longer tell which voters the shard has. Then a proof that most of the former voters have ended would not
		// be enough for the shard to begin again.
		connected := func(id transport.ID) bool { return id == m.self || reaches(id) }
		if want := m.wanted(i, seen, reaches, leaves); !seen.Changing && !slices.Equal(want, s.Voters) && majority(s.Voters, connected) {
			m.emit(Ask{seat.Move{Shard: i, Generation: s.Generation, To: want}})
		}
		return
	}
	switch {
	case slices.Equal(seen.Voters, s.Next) && !seen.Changing:
		if seen.Sure {
			m.emit(Ask{seat.Settle{Shard: i, Generation: s.Generation, Move: s.Move, Made: true}})
		}
	case h.dropped != s.Move:
		if !m.possible(s) { // if the change is in the log, it takes place; else it never will
			h.dropped = s.Move
			m.aim(i)
		}
	case slices.Equal(seen.Voters, s.Voters) && !seen.Changing && seen.Sure:
		m.emit(Ask{seat.Settle{Shard: i, Generation: s.Generation, Move: s.Move, Made: false}})
	}
}

// majority reports whether is holds for a majority of voters. Of no voters it holds for none.
func majority(voters []transport.ID, is func(transport.ID) bool) bool {
	n := 0
	for _, id := range voters {
		if is(id) {
			n++
		}
	}
	return n >= core.Majority(len(voters))
}

// possible reports whether a leader may still begin with the change of voters that the table names. Each of
// them makes it only if it keeps its vote, and hears all who are to get one, and most of the next voters. So
// nobody does any more once these have ended, not even a leader that does not know it, nor that this one gave
// the change up. While only one of several that keep their votes has ended, such a leader may.
func (m *Machine) possible(s *core.Shard) bool {
	stays := func(id transport.ID) bool { return slices.Contains(s.Voters, id) && m.alive(id) }
	never := func(id transport.ID) bool { return !slices.Contains(s.Voters, id) && !m.alive(id) }
	return slices.ContainsFunc(s.Next, stays) && !slices.ContainsFunc(s.Next, never) && majority(s.Next, m.alive)
}

func (m *Machine) alive(id transport.ID) bool {
	_, is := slices.BinarySearch(m.living, id)
	return is
}

// wanted returns which nodes are to vote in a shard that this node leads, sorted: of those that have a seat, are
// heard and do not leave, the first ones in the order of the ring. A shard never gets fewer than two (C3): voters that
// are silent, or leave, stay if there are too few others. One at least votes already, or this node does until it has
// handed over to a new one: only a leader that keeps its vote changes the voters.
func (m *Machine) wanted(i int, seen *Seen, reaches, leaves func(transport.ID) bool) []transport.ID {
	s := &m.table.Shards[i]
	heard := func(id transport.ID) bool {
		if leaves(id) {
			return false
		}
		if slices.Contains(s.Voters, id) {
			return !slices.Contains(seen.Silent, id)
		}
		return reaches(id)
	}
	votes := func(id transport.ID) bool { return slices.Contains(s.Voters, id) }
	most := m.table.Params.Voters(len(m.table.Seats))
	want := m.choose(i, most, heard, votes)
	if !slices.ContainsFunc(want, votes) {
		nobody := func(transport.ID) bool { return false }
		want = append(m.choose(i, max(most-1, 1), heard, nobody), m.self)
		slices.Sort(want)
	}
	if len(want) < min(2, len(m.table.Seats)) {
		return s.Voters
	}
	return want
}

// choose returns nodes that have a seat, sorted: of those for which is holds the first ones in the order of the ring, at
// most so many; and if they are fewer than two (C3), of the others those for which may holds.
func (m *Machine) choose(i, most int, is, may func(transport.ID) bool) (want []transport.ID) {
	all := m.inOrder(i, m.living)
	add := func(most int, is func(transport.ID) bool) {
		for _, id := range all {
			if len(want) < most && is(id) && !slices.Contains(want, id) {
				want = append(want, id)
			}
		}
	}
	add(most, is)
	add(min(2, len(m.table.Seats)), may)
	slices.Sort(want)
	return want
}

// votes reports whether leaders must be speaking to the replica on this node: it has a vote, by the core's table. A replica
// that is to get a vote counts once its own log gives it the vote, and not while a long snapshot is on its way to it.
func (m *Machine) votes(i int, seen *Seen) bool {
	s := &m.table.Shards[i]
	return slices.Contains(s.Voters, m.self) || slices.Contains(s.Next, m.self) && slices.Contains(seen.Voters, m.self)
}

// recover asks for another generation of a shard that can have no leader any more. It is to begin on nodes that this
// one reaches: of those that have a seat some may have ended again, and would be waited for.
func (m *Machine) recover(now time.Duration, i int, seen *Seen, reaches, leaves func(transport.ID) bool) {
	s, h := &m.table.Shards[i], &m.shards[i]
	here := seen != nil && m.votes(i, seen)
	lives := func(voters []transport.ID, lives func(transport.ID) bool) bool {
		return majority(voters, func(id transport.ID) bool {
			return (m.alive(id) || id == m.table.Dropped) && lives(id) // it votes until it is moved away, though its entry was dropped
		})
	}
	votes := func(id transport.ID) bool { return !slices.Contains(seen.Vanished, id) }
	near := func(id transport.ID) bool { return id == m.self || reaches(id) }
	// A node that never made a replica of this generation, though it is a voter, makes none: it heard of the generation too
	// late, and only a leader adds one.
	h.had = h.had || seen != nil
	may := func(id transport.ID) bool { return id != m.self || h.had }
	dead := !lives(s.Voters, may)
	if lives(s.Voters, func(transport.ID) bool { return true }) {
		h.lived = now
	}
	if (!slices.Contains(s.Voters, m.self) || lives(s.Voters, near)) && (!slices.Contains(s.Next, m.self) || lives(s.Next, near)) {
		h.near = now
	}
	switch {
	case !lives(m.bound, near):
		// The core could not decide it, and what is fenced for it never serves again. Nor does it say anything of
		// the shard that this node, which is cut off, hears of no leader.
		h.led, h.near = now, now
		return
	case h.recovers, m.isCut(i, s.Generation): // others may be cut by now: there is no way back, and the node that began it may have ended
	case dead && (s.Next == nil || !lives(s.Next, may)): // by proof: it has no leader
	case dead && now-h.lived >= orphaned:
	case here && now-h.led >= lost:
	case here && now-h.led >= Grace && now-h.near >= apart:
	case here && now-h.led >= Grace && !lives(seen.Voters, votes): // the change was made, and the core has not heard of it; or voters have said that they have no replica
	default:
		return
	}
	h.recovers = true
	stays := func(id transport.ID) bool { return near(id) && !leaves(id) }
	m.emit(Ask{seat.Recover{Shard: i, Generation: s.Generation, To: m.choose(i, m.table.Params.Voters(len(m.table.Seats)), stays, near)}})
}

// reorder computes the ring of the entries, if the list is new.
func (m *Machine) reorder() {
	names := ""
	for _, s := range m.table.Seats {
		names += s.Entry + "\x00" + s.Node.Zone + "\x00"
	}
	if names == m.names && len(m.order) == len(m.table.Shards) {
		return
	}
	m.names, m.order = names, make([][]int, len(m.table.Shards))
	r := ringOver(m.table.Seats, len(m.table.Shards))
	for i := range m.order {
		m.order[i] = ringOrder(r, m.table.Seats, i)
	}
}

// ringOver returns the ring of the entries.
func ringOver(seats []core.Seat, shards int) *ring.Table {
	all := make([]ring.Member, len(seats))
	for i, s := range seats {
		all[i] = ring.Member{Name: s.Entry, Zone: s.Node.Zone}
	}
	return ring.New(all, shards, len(seats))
}

// ringOrder returns the positions of seats in the order in which a ring names them for a shard.
func ringOrder(r *ring.Table, seats []core.Seat, shard int) (order []int) {
	for _, entry := range r.Replicas(shard) {
		order = append(order, slices.IndexFunc(seats, func(s core.Seat) bool { return s.Entry == entry }))
	}
	return order
}

// inOrder sorts nodes by the order of the ring; those without a seat are last.
func (m *Machine) inOrder(i int, nodes []transport.ID) []transport.ID {
	at := func(id transport.ID) int {
		seat := slices.IndexFunc(m.table.Seats, func(s core.Seat) bool { return s.Node.ID == id })
		if seat < 0 {
			return len(m.table.Seats)
		}
		return slices.Index(m.order[i], seat)
	}
	nodes = slices.Clone(nodes)
	slices.SortFunc(nodes, func(a, b transport.ID) int { return cmp.Or(cmp.Compare(at(a), at(b)), cmp.Compare(a, b)) })
	return nodes
}

// Lacks counts the shards in which this node is to vote and does not yet: its seat is one of the first in the order of
// the ring of those that have a node.
func (m *Machine) Lacks() int { return m.lacks }

func (m *Machine) countLacks() (lacks int) {
	if !m.alive(m.self) {
		return 0
	}
	for i := range m.table.Shards {
		first := m.inOrder(i, m.living)[:min(m.table.Params.Voters(len(m.table.Seats)), len(m.living))]
		if slices.Contains(first, m.self) && !slices.Contains(m.table.Shards[i].Voters, m.self) {
			lacks++
		}
	}
	return lacks
}

// Place returns the voters with which a generation of a shard begins: see seat.Config.
func Place(seats []core.Seat, p founding.Params) func(shard int) []transport.ID {
	r := ringOver(seats, p.Shards)
	return func(shard int) (voters []transport.ID) {
		for _, at := range ringOrder(r, seats, shard) {
			if id := seats[at].Node.ID; id != 0 && len(voters) < p.Voters(len(seats)) {
				voters = append(voters, id)
			}
		}
		slices.Sort(voters)
		return voters
	}
}

func (m *Machine) emit(o Output) { m.out = append(m.out, o) }
