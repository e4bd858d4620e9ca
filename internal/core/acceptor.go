package core

import (
	"errors"
	"maps"
	"slices"

	"github.com/lockmesh/mesh/internal/founding"
	"github.com/lockmesh/mesh/transport"
)

// Reasons for which an acceptor refuses. A refusal changes nothing.
var (
	errFenced  = errors.New("takes part in a later roll call")
	errOutbid  = errors.New("promised a higher ballot, or knows its outcome")
	errBehind  = errors.New("does not know that version of the core's table")
	errAhead   = errors.New("knows a later version of the core's table")
	errNoSeat  = errors.New("has no seat in that version of the core's table")
	errLists   = errors.New("is configured with a list that differs in more than one entry")
	errRefused = errors.New("refused that ballot, for another mesh lives")
	errForeign = errors.New("has a node of another mesh, which has not given way yet")
)

// Acceptor is the memory of one incarnation: what it promised, what it accepted, and what it
// knows to be decided. It is lost with the incarnation, which never acts again.
type Acceptor struct {
	self transport.ID
	list []string // that this incarnation was started with, or keeps for the next one

	table *Table // the latest decision that it knows; nil: none, it is fresh

	// Of the version after table.
	promised Ballot
	at       Ballot // of accepted; zero: none
	accepted *Table

	// Of roll calls.
	roll      Ballot   // the highest ballot promised, of those that were not withdrawn
	open      []Ballot // those promised that may be withdrawn yet, ascending
	firm      Ballot   // the highest promised that may not be any more
	withdrawn Ballot   // the highest that was promised, and withdrawn
	refused   Ballot   // it answers no ballot up to this one
	released  Ballot   // no ballot up to this one with itself in the roster is decided, or will be
	rollAt    Ballot   // of proposed; zero: none
	proposed  *Table

	cut  map[life]uint64 // replicas up to this number are fenced, for a recovery
	left []uint64        // the meshes from which this node has gone over to another: what it accepted in them is forgotten
}

// NewAcceptor returns the memory of a fresh incarnation. The order of the list means nothing.
func NewAcceptor(self transport.ID, list []string) *Acceptor {
	return &Acceptor{self: self, list: founding.Normalise(list)}
}

// SetList notes that the next incarnation at this node's entry starts with another list. It must be so already: whoever
// hears of it relies on that. The order of the list means nothing.
func (a *Acceptor) SetList(list []string) { a.list = founding.Normalise(list) }

// Table returns the latest decision that this node knows, or nil.
func (a *Acceptor) Table() *Table { return a.table }

// Promised returns the highest ballot that this node has promised for the version after Table.
func (a *Acceptor) Promised() Ballot { return a.promised }

// Fenced reports whether this node has promised a roll call that is later than the mesh that
// it knows, or is Ended. Until that roll call is decided or the node is released, and if it is Ended for
// ever, neither the node nor any replica on it votes, appends or answers.
func (a *Acceptor) Fenced() bool {
	return a.table != nil && (a.roll.Compare(a.table.Stamp.Roll) > 0 || a.Ended())
}

// Pending reports whether this node has accepted the value of a roll call, and does not know yet that it was decided.
func (a *Acceptor) Pending() bool {
	return a.proposed != nil && (a.table == nil || a.rollAt.Compare(a.table.Stamp.Roll) > 0)
}

// Ended reports whether this node knows that its mesh takes it for one that has ended.
func (a *Acceptor) Ended() bool {
	return a.table != nil && slices.ContainsFunc(a.table.Seats, func(s Seat) bool { return s.Node.ID == a.self && s.Ended })
}

// Fence fences this node's replicas of shard s up to generation g of its core for ever, so that the
// shard can be recovered. The recovery must then be completed: these replicas never vote in g again, even if
// g goes on without them.
func (a *Acceptor) Fence(s int, g Generation) {
	if l := (life{s, g.Core}); g.Number > a.cut[l] {
		a.cut = maps.Clone(a.cut)
		if a.cut == nil {
			a.cut = make(map[life]uint64)
		}
		a.cut[l] = g.Number
	}
}

// life is a shard within one generation of the core.
type life struct {
	shard int
	core  Ballot
}

// Votes reports whether a replica of shard s in generation g on this node may vote, append and answer.
// A node that knows of a later generation has none of g any more.
func (a *Acceptor) Votes(s int, g Generation) bool {
	return a.table != nil && !a.Fenced() && a.table.Shards[s].Generation == g && g.Number > a.cut[life{s, g.Core}]
}

// Report is what an entry tells of itself. It binds nothing.
type Report struct {
	Node      transport.ID
	List      []string       // that it was started with, or keeps for the next one, sorted
	Table     *Table         // the latest decision that it knows; nil: none
	At        Ballot         // of Accepted
	Accepted  *Table         // the version after Table, if it accepted one
	Roll      Ballot         // the highest roll call that it promised, of those that were not withdrawn
	Refused   Ballot         // it answers no ballot up to this one
	Released  Ballot         // it was released from all roll calls up to this one
	RollAt    Ballot         // of Proposed
	Proposed  *Table         // the value of a roll call that it accepted, if it did
	Withdrawn Ballot         // the highest that it promised, and that was withdrawn
	Accepts   []transport.ID // bound in Accepted or Proposed and not in Table, where a report does not have those

	Asked Mark // of the node that asked for this report, as it was then: the answer repeats it
}

// Mark names what a node knew and had promised at some moment. It goes with the question for a report,
// and comes back with it: a report that was asked for under another mark is old.
type Mark struct {
	Known Stamp
	Roll  Ballot
}

// tables returns the tables that the report shows.
func (r *Report) tables() []*Table {
	return slices.DeleteFunc([]*Table{r.Table, r.Accepted, r.Proposed}, func(t *Table) bool { return t == nil })
}

// Mark returns the node's mark when it reported. No earlier one comes again, also if a promise is withdrawn.
func (r *Report) Mark() Mark {
	m := Mark{Roll: later(r.Roll, r.Withdrawn)}
	if r.Table != nil {
		m.Known = r.Table.Stamp
	}
	return m
}

// Report returns what this node knows, promised and accepted.
func (a *Acceptor) Report() Report {
	return Report{
		Node: a.self, List: a.list, Table: a.table, At: a.at, Accepted: a.accepted,
		Roll: a.roll, Refused: a.refused, Released: a.released, RollAt: a.rollAt, Proposed: a.proposed, Withdrawn: a.withdrawn,
	}
}

// Call is phase one of a roll call: of the incarnations Roster, which answered at the entries List,
// in the same order. Zero: nobody answered there. Such a call has a value only if its answers show all that can have been
// decided; see Value.
type Call struct {
	Ballot Ballot
	List   []string
	Roster []transport.ID

	// The incarnations that were bound in some table of which the caller had heard when it named the roster, sorted. They are not
	// later than the roster. Nil: it is not known.
	Elders []transport.ID `msgpack:"-"`
}

// Short reports whether an entry is left out, since nobody answered there.
func (c Call) Short() bool { return slices.Contains(c.Roster, 0) }

// Call promises to take part in no lower roll call, and fences this node.
func (a *Acceptor) Call(c Call) (Report, error) {
	switch {
	case a.Ended():
		return Report{}, errEnded
	case !slices.Contains(c.Roster, a.self):
		return Report{}, errNoSeat
	case c.Ballot.Compare(later(a.refused, a.withdrawn)) <= 0:
		return Report{}, errRefused
	case c.Ballot.Compare(a.roll) < 0 || a.table != nil && c.Ballot.Compare(a.table.Stamp.Roll) <= 0:
		return Report{}, errOutbid
	case !a.agrees(c.List):
		return Report{}, errLists
	}
	a.promise(c.Ballot)
	return a.Report(), nil
}

// mostOpen is how many promises to roll calls an acceptor keeps apart. Of more, the oldest can be withdrawn no more.
const mostOpen = 16

func (a *Acceptor) promise(b Ballot) {
	if a.roll == b {
		return
	}
	a.roll = b
	if a.open = append(slices.Clone(a.open), b); len(a.open) > mostOpen {
		a.firm, a.open = a.open[0], a.open[1:]
	}
}

// Withdraw takes back what this node promised to the roll calls of the proposer by in the rounds from after+1 to upTo. That
// proposer has given them up before it proposed a value: so nobody accepts one, and they are as if they had never been. What else
// this node promised binds it as before.
func (a *Acceptor) Withdraw(by transport.ID, after, upTo uint64) {
	is := func(b Ballot) bool { return b.By == by && after < b.Round && b.Round <= upTo && b != a.rollAt }
	open := slices.DeleteFunc(slices.Clone(a.open), is)
	if len(open) == len(a.open) {
		return
	}
	for _, b := range a.open {
		if is(b) {
			a.withdrawn = later(a.withdrawn, b)
		}
	}
	a.open, a.roll = open, a.firm
	if a.table != nil {
		a.roll = later(a.roll, a.table.Stamp.Roll)
	}
	if len(open) > 0 {
		a.roll = later(a.roll, open[len(open)-1])
	}
}

// agrees reports whether this node may answer a ballot for a list: neither its own list nor that of the
// table that it knows has more than one entry outside it.
func (a *Acceptor) agrees(list []string) bool {
	return near(a.list, list) && (a.table == nil || near(a.table.List(), list))
}

// near reports whether at most one of a list's entries is outside another; none, if it has only one.
func near(list, other []string) bool {
	n := outside(list, other)
	return n == 0 || n == 1 && len(list) > 1
}

// outside returns how many of a list's entries are not in another.
func outside(list, other []string) int {
	return count(list, func(e string) bool { return !slices.Contains(other, e) })
}

// Propose accepts the value of a roll call, whose Stamp names the ballot. A node that has learned of a
// later generation since it answered the call does not: it could not take the value over. Nor does a node that had answered that it
// knew of none, and has learned of one since.
func (a *Acceptor) Propose(t *Table) error {
	if a.roll != t.Stamp.Roll || t.Stamp.Version != 0 || a.table != nil && a.table.Stamp.Roll.Compare(t.Stamp.Roll) > 0 {
		return errOutbid
	}
	if t.Stamp.Roll.Compare(a.refused) <= 0 {
		return errRefused
	}
	a.rollAt, a.proposed = t.Stamp.Roll, t
	return nil
}

// Read is phase one of the version after Prev.
type Read struct {
	Ballot Ballot
	Prev   Stamp
}

// Read promises to accept no lower ballot for the version after r.Prev. It returns what this node
// accepted for it, and at which ballot.
func (a *Acceptor) Read(r Read) (Ballot, *Table, error) {
	if err := a.Serves(r.Prev); err != nil {
		return Ballot{}, nil, err
	}
	if r.Ballot.Compare(a.promised) < 0 {
		return Ballot{}, nil, errOutbid
	}
	a.promised = r.Ballot
	return a.at, a.accepted, nil
}

// Write accepts t as the version after prev.
func (a *Acceptor) Write(b Ballot, prev Stamp, t *Table) error {
	if err := a.Serves(prev); err != nil {
		return err
	}
	if t.Stamp != prev.Next() {
		return errAhead
	}
	if b.Compare(a.promised) < 0 {
		return errOutbid
	}
	a.promised, a.at, a.accepted = b, b, t
	return nil
}

// Serves returns nil if this node takes part in the decision on the version after prev, else why it does not.
func (a *Acceptor) Serves(prev Stamp) error {
	switch {
	case a.table == nil || a.table.Stamp.Compare(prev) < 0:
		return errBehind
	case a.table.Stamp != prev:
		return errAhead
	case a.Fenced():
		return errFenced
	case !slices.Contains(a.table.Bound(), a.self):
		return errNoSeat
	}
	return nil
}

// mayLearn reports whether t is news, and to be taken over without any confirmation. A node learns only
// of tables in which it has a seat. If it knows none, it learns of any; but once it has accepted the value of a roll call,
// of the generation alone that began with the one which it promised last. If it knows one, it learns of later versions of that; of the
// generation that began with a later roll call, if it promised that one; and of any later generation, if it promised no later roll call and has no seat in
// its own. Of others it learns by Release: ballots do not order generations of which one was founded
// without this entry, and a mesh ends only for one that a majority confirms.
func (r *Report) mayLearn(t *Table) bool {
	var known Ballot
	if r.Table != nil {
		known = r.Table.Stamp.Roll
	}
	switch roll := t.Stamp.Roll; {
	case !slices.Contains(t.Bound(), r.Node):
		return false
	case r.Table != nil && roll == known:
		return t.Stamp.Version > r.Table.Stamp.Version
	case r.Table == nil && r.RollAt == Ballot{}:
		return true
	case r.Roll.Compare(known) > 0:
		return roll == r.Roll
	default:
		return t.Mesh == r.Table.Mesh && roll.Compare(known) > 0 && !slices.Contains(r.Table.Bound(), r.Node)
	}
}

// Learn takes over a decision, and reports whether it was news. A node that promised a later roll
// call stays fenced, whatever it learns: the promise said what the node knew then.
func (a *Acceptor) Learn(t *Table) bool {
	if r := a.Report(); !r.mayLearn(t) {
		return false
	}
	if a.table == nil && a.roll != t.Stamp.Roll {
		a.refused = later(a.refused, a.roll) // it has answered that it knew of none
	}
	a.leave(t.Mesh)
	a.take(t)
	return true
}

func (a *Acceptor) take(t *Table) {
	a.table = t
	a.open = slices.DeleteFunc(slices.Clone(a.open), func(b Ballot) bool { return b.Compare(t.Stamp.Roll) <= 0 })
	a.promised, a.at, a.accepted = Ballot{}, Ballot{}, nil
}

// Confirm confirms that this node serves by t's generation, and refuses the ballot promised, which the
// asking node is bound to, and all lower ones for ever. It reports whether it does.
func (a *Acceptor) Confirm(t *Table, promised Ballot) bool {
	if a.table == nil || a.table.Stamp.Roll != t.Stamp.Roll || a.Fenced() || !slices.Contains(t.Bound(), a.self) {
		return false
	}
	a.refused = later(a.refused, promised)
	return true
}

// Left reports whether this node was once in that mesh, and has gone over to another one. It has no part in that mesh any more.
func (a *Acceptor) Left(mesh uint64) bool { return slices.Contains(a.left, mesh) }

// Release frees this node of the roll call that it promised last, and takes over t: a majority of t's
// seats has confirmed t in answer to a question that named this promise. So that roll call cannot be
// decided any more: in such a majority there is one of its roster, which refuses it. If t is of another
// mesh, its own has given way to that (C10), and this node takes no part in its own any more, whether or not that
// goes on without it: what it accepted there is forgotten. Release reports whether it has done so. It changes nothing if this
// node's latest promise is another one by now, or if this node has left t's mesh.
func (a *Acceptor) Release(t *Table, promised Ballot) bool {
	if a.roll != promised || a.Left(t.Mesh) {
		return false
	}
	a.leave(t.Mesh)
	a.released = later(a.released, a.roll)
	a.refused = later(a.refused, a.released)
	a.roll, a.open, a.firm, a.rollAt, a.proposed = t.Stamp.Roll, nil, Ballot{}, Ballot{}, nil
	if a.table == nil || a.table.Stamp.Roll != t.Stamp.Roll || a.table.Stamp.Version < t.Stamp.Version {
		a.take(t)
	}
	return true
}

// leave notes that this node goes over to another mesh, if it is one.
func (a *Acceptor) leave(to uint64) {
	if a.table != nil && a.table.Mesh != to {
		a.left = append(slices.Clone(a.left), a.table.Mesh)
	}
}

func later(a, b Ballot) Ballot {
	if a.Compare(b) < 0 {
		return b
	}
	return a
}
