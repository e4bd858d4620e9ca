package core

import (
	"errors"
	"slices"

	"github.com/lockmesh/mesh/internal/env"
	"github.com/lockmesh/mesh/transport"
)

// Why a change of a table is refused. Nothing is changed then.
var (
	errNoEntry  = errors.New("the list has no such entry")
	errUnbound  = errors.New("a voter has no seat")
	errFew      = errors.New("a shard needs more voters")
	errTwice    = errors.New("a node is named twice as a voter, or voters are not sorted")
	errMoving   = errors.New("the shard's voters are changing")
	errNoMove   = errors.New("the shard is in no such change of voters")
	errQuorum   = errors.New("a quorum of the shard's voters may be alive")
	errAnother  = errors.New("the seat has another incarnation, or none")
	errEnded    = errors.New("that incarnation is known to have ended")
	errTooMany  = errors.New("fewer than a majority of the core would be left")
	errNotLater = errors.New("the seat has that incarnation")
	errSameList = errors.New("the list is the same")
	errTooFar   = errors.New("the lists differ in more than one entry")
	errReplaces = errors.New("a list of three entries or fewer grows before it drops one")
	errOneEntry = errors.New("the only entry cannot be dropped")
	errOngoing  = errors.New("the last change of the list is not complete")
	errVacant   = errors.New("an entry that stays has no node: start one there, or drop it first")
	errNeeded   = errors.New("without that seat, two of four or more would decide, or one of two")
	errVotes    = errors.New("that incarnation votes in a shard")
)

// next returns a copy of t that is the next version, for its caller to change.
func (t *Table) next() *Table {
	n := *t
	n.Stamp.Version++
	n.Seats, n.Shards = slices.Clone(t.Seats), slices.Clone(t.Shards)
	return &n
}

// Bind gives the seat of an entry to another incarnation. The one that had it must have ended, unless the
// seat is vacant; Bind cannot check that. List is the
// one that the new incarnation was started with.
func (t *Table) Bind(entry string, node env.Member, list []string) (*Table, error) {
	i := slices.IndexFunc(t.Seats, func(s Seat) bool { return s.Entry == entry })
	switch {
	case i < 0:
		return nil, errNoEntry
	case t.Seats[i].Node.ID == node.ID:
		return nil, errNotLater
	}
	n := t.next()
	n.Seats[i] = Seat{Entry: entry, Node: node, List: named(list)}
	return n.carried(), nil
}

// End notes, by proof, that the incarnation with the seat of an entry has ended, though no other one has come
// yet. It counts in the core's majority until another one has the seat, or it is vacated; so what is true of restarts stays true, and
// a false proof gives no power to decide to anybody. But it votes in no shard. If it lives after all, it
// is fenced as soon as it learns of this. A majority of the bound must be left, not known to have ended.
func (t *Table) End(entry string, id transport.ID) (*Table, error) {
	i := slices.IndexFunc(t.Seats, func(s Seat) bool { return s.Entry == entry })
	switch {
	case i < 0:
		return nil, errNoEntry
	case t.Seats[i].Node.ID != id || id == 0:
		return nil, errAnother
	case t.Seats[i].Ended:
		return nil, errEnded
	case len(t.Living()) <= Majority(len(t.Bound())):
		return nil, errTooMany
	}
	n := t.next()
	n.Seats[i].Ended = true
	return n, nil
}

// Vacate takes the seat of an entry from an incarnation that is silent: those of a list of three can decide
// without it, and it is not one of those that a roll call must ask. So if it is gone for good, and one of the other two
// restarts, the third shows all that was decided, and goes on. It need not have ended: it votes in no shard, and gets its
// seat back when it is heard again; see Bind. Then it decides as before, by what it knows. Of longer lists none is
// vacated: two of four or more must not be a majority, as a roll call may miss two.
func (t *Table) Vacate(entry string, id transport.ID) (*Table, error) {
	i := slices.IndexFunc(t.Seats, func(s Seat) bool { return s.Entry == entry })
	rest := slices.DeleteFunc(t.Living(), func(o transport.ID) bool { return o == id })
	switch {
	case i < 0:
		return nil, errNoEntry
	case t.Seats[i].Node.ID != id || id == 0:
		return nil, errAnother
	case len(t.Seats) != 3 || len(rest) != 2:
		return nil, errNeeded
	case t.votes(id):
		return nil, errVotes
	}
	n := t.next()
	n.Seats[i].Node, n.Seats[i].Ended = env.Member{}, false
	return n, nil
}

// Start notes that the incarnation with the seat of an entry has another list than before, which it
// keeps where its next incarnation finds it.
func (t *Table) Start(entry string, list []string) (*Table, error) {
	i := slices.IndexFunc(t.Seats, func(s Seat) bool { return s.Entry == entry })
	switch {
	case i < 0:
		return nil, errNoEntry
	case t.Seats[i].List == named(list):
		return nil, errSameList
	}
	n := t.next()
	n.Seats[i].List = named(list)
	return n.carried(), nil
}

// Relist changes the list: it adds an entry, drops one, or both. The change before must be complete. A
// list of three or fewer does not do both at once: an entry that was dropped two changes ago may find a
// list that is one change behind, and two of three that have been replaced by then would be a majority
// that it does not ask. Of the seats that stay a majority must be left that are not known to have ended.
func (t *Table) Relist(list []string) (*Table, error) {
	if err := t.step(list); err != nil {
		return nil, err
	}
	old := t.List()
	switch {
	case slices.ContainsFunc(t.Seats, func(s Seat) bool { return s.Node.ID == 0 && slices.Contains(list, s.Entry) }):
		return nil, errVacant
	case !t.complete(list):
		return nil, errOngoing
	case t.Ordered != "" && t.Ordered != named(list):
		return nil, errOrdered
	}
	n := t.next()
	n.Seats, n.Was = nil, named(old)
	for _, entry := range list {
		seat := Seat{Entry: entry}
		if i := slices.Index(old, entry); i >= 0 {
			seat = t.Seats[i]
		}
		n.Seats = append(n.Seats, seat)
	}
	for _, s := range t.Seats {
		if !slices.Contains(list, s.Entry) && !s.Ended {
			n.Dropped = s.Node.ID
		}
	}
	if len(n.Living()) < Majority(len(n.Bound())) {
		return nil, errTooMany // nothing would ever be decided any more
	}
	return n.carried().forget(), nil
}

// complete reports whether the last change of the list is complete, so that the list to may follow:
// every incarnation was started with the list of now, or with to already, and enough voters of
// each shard live: two, or one while only one node has a seat. If to is the list before the last change, that is taken back: then all
// incarnations at entries of to must have been started with it.
func (t *Table) complete(to []string) bool {
	living := t.Living()
	lives := func(id transport.ID) bool { return slices.Contains(living, id) }
	for _, s := range t.Shards {
		if s.Next != nil || count(s.Voters, lives) < min(2, len(t.Bound())) {
			return false
		}
	}
	now, then := named(t.List()), named(to)
	return t.Dropped == 0 && !slices.ContainsFunc(t.Seats, func(s Seat) bool {
		if then == t.Was {
			return slices.Contains(to, s.Entry) && s.List != then
		}
		if s.Node.ID == 0 { // a vacant seat may be dropped, but not one that nobody has had
			return !s.Vacant() || slices.Contains(to, s.Entry)
		}
		return s.List != now && s.List != then
	})
}

// forget forgets the dropped incarnation if it votes in no shard any more.
func (t *Table) forget() *Table {
	if !t.votes(t.Dropped) {
		t.Dropped = 0
	}
	return t
}

// votes reports whether an incarnation is a voter of some shard, or may become one.
func (t *Table) votes(id transport.ID) bool {
	return slices.ContainsFunc(t.Shards, func(s Shard) bool { return slices.Contains(s.Voters, id) || slices.Contains(s.Next, id) })
}

// Move allows shard s to change its voters. The shard makes one change at a time, by a joint
// configuration; its leader says afterwards what came of it: see Settle. The new voters are sorted.
func (t *Table) Move(s int, to []transport.ID) (*Table, error) {
	if t.Shards[s].Next != nil {
		return nil, errMoving
	}
	if err := t.mayVote(to); err != nil {
		return nil, err
	}
	n := t.next()
	n.Shards[s].Next = to
	n.Shards[s].Move++
	return n, nil
}

// Settle ends the change of voters of this number in generation g of shard s: the shard's own log
// shows, committed, that the voters changed, or else that they never will by this number.
func (t *Table) Settle(s int, g Generation, move uint64, changed bool) (*Table, error) {
	old := &t.Shards[s]
	if old.Generation != g || old.Move != move || old.Next == nil {
		return nil, errNoMove
	}
	n := t.next()
	if changed {
		n.Shards[s].Voters = old.Next
	}
	n.Shards[s].Next = nil
	return n.forget(), nil
}

// Recover begins a new generation of shard s, with these voters, after those named were fenced. Every
// quorum of the old voters, of those now and of those that they may be changing to, must have a member
// that was fenced or has ended. A voter without a seat has ended, as its seat has another incarnation,
// unless it was dropped. A voter with a seat has ended if that is known: see End.
func (t *Table) Recover(s int, fenced, voters []transport.ID) (*Table, error) {
	old := &t.Shards[s]
	living := t.Living()
	able := func(id transport.ID) bool {
		return (slices.Contains(living, id) || id == t.Dropped) && !slices.Contains(fenced, id)
	}
	if quorum(old.Voters, able) || quorum(old.Next, able) {
		return nil, errQuorum
	}
	if err := t.mayVote(voters); err != nil {
		return nil, err
	}
	n := t.next()
	n.Shards[s] = Shard{Generation: Generation{old.Generation.Core, old.Generation.Number + 1}, Voters: voters}
	return n.forget(), nil
}

// mayVote returns nil if a shard may have these voters: nodes with a seat that are not known to have ended, sorted, and at
// least two of them if the list has two entries.
func (t *Table) mayVote(voters []transport.ID) error {
	living := t.Living()
	for i, id := range voters {
		if !slices.Contains(living, id) {
			return errUnbound
		}
		if i > 0 && id <= voters[i-1] {
			return errTwice
		}
	}
	if len(voters) < min(2, len(t.Seats)) {
		return errFew
	}
	return nil
}

// quorum reports whether is holds for a majority of voters. Of no voters it holds for none.
func quorum(voters []transport.ID, is func(transport.ID) bool) bool {
	return count(voters, is) >= Majority(len(voters))
}

// count returns for how many of all something holds.
func count[T any](all []T, is func(T) bool) (n int) {
	for _, one := range all {
		if is(one) {
			n++
		}
	}
	return n
}
