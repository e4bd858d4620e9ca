package core

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/lockmesh/mesh/transport"
)

// An operator changes the list of a mesh that runs by an order, which is a decision as all others: [Table.Order]. Every
// bound incarnation then keeps the ordered list where its next incarnation finds it, and says so ([Acceptor.SetList]).
// From there on all is as if it had been restarted with that list: the first that has it proposes it (Relist), and
// the change is complete when all have it. Until that, no other list is decided on.
//
// The order is in the table, and not a message of the operator, so that it outlives who gave it; that nodes which
// restart meanwhile with the list before get the next one; and that of two orders one comes first.

var errOrdered = errors.New("a change to another list is under way")

// IsOngoing reports whether an error says that the last change of the list is not complete, an entry has no node, or another change
// is under way.
func IsOngoing(err error) bool {
	return errors.Is(err, errOngoing) || errors.Is(err, errVacant) || errors.Is(err, errOrdered)
}

// Order notes that an operator wants another list, sorted. What holds for Relist must hold now. But once the last change is
// made, complete or not, it may be taken back, by an order for the list before; and the list of now may be ordered for
// those that do not have it. An operator may take a change back by restarts, too, while it is not complete; once it is,
// all have the list of now, and the list before is ordered like any other.
func (t *Table) Order(list []string) (*Table, error) {
	now, to := named(t.List()), named(list)
	switch {
	case t.Wants(list):
		return nil, errSameList
	case t.Ordered != "" && t.Ordered != now:
		return nil, errOrdered // some may have that list already, from which this one is too far
	case to == now:
	case to == t.Was && t.step(list) == nil:
	default:
		if _, err := t.Relist(list); err != nil {
			return nil, err
		}
	}
	n := t.next()
	n.Ordered = to
	return n, nil
}

// step returns why a list is not one change away from t's, or nil.
func (t *Table) step(list []string) error {
	old := t.List()
	adds, drops := outside(list, old), outside(old, list)
	switch {
	case adds == 0 && drops == 0:
		return errSameList
	case len(old) == 1 && drops > 0:
		return errOneEntry
	case len(list) == 0 || adds > 1 || drops > 1:
		return errTooFar
	case len(old) <= 3 && adds > 0 && drops > 0:
		return errReplaces
	}
	return nil
}

// held reports whether every seat has an incarnation that has the list of now.
func (t *Table) held() bool {
	now := named(t.List())
	return !slices.ContainsFunc(t.Seats, func(s Seat) bool { return s.Node.ID == 0 || s.List != now })
}

// listsDropped reports whether some incarnation that has a seat has an entry on its list that the last change dropped.
func (t *Table) listsDropped() bool {
	now, was := t.List(), strings.Fields(t.Was)
	dropped := func(e string) bool { return slices.Contains(was, e) && !slices.Contains(now, e) }
	return slices.ContainsFunc(t.Seats, func(s Seat) bool {
		return s.Node.ID != 0 && slices.ContainsFunc(strings.Fields(s.List), dropped)
	})
}

// settled reports whether no change of the list is under way: none is ordered, every incarnation that has a seat, or had one that is
// vacant, has the list of now, and none that was dropped votes.
func (t *Table) settled() bool {
	now := named(t.List())
	return t.Ordered == "" && t.Dropped == 0 && !slices.ContainsFunc(t.Seats, func(s Seat) bool { return s.List != now })
}

// carried ends the order of t, if that is carried out.
func (t *Table) carried() *Table {
	if t.Ordered == named(t.List()) && t.held() {
		t.Ordered = ""
	}
	return t
}

// Keeps reports whether the incarnation with the seat was started with a list, or keeps it for the next one, as far as it has said.
func (s *Seat) Keeps(list []string) bool { return s.List == named(list) }

// OrderedList returns the list that is ordered; nil: none is.
func (t *Table) OrderedList() []string {
	if t.Ordered == "" {
		return nil
	}
	return strings.Fields(t.Ordered)
}

// Unfinished says why the last change of the list is not complete, for people; "" if it is.
func (t *Table) Unfinished() string {
	now, living := named(t.List()), t.Living()
	another := func(s Seat) string {
		return fmt.Sprintf("node %q of %s has the list [%s], and the core has [%s]", s.Node.Name, s.Entry, s.List, now)
	}
	for _, s := range t.Seats { // a node that has the ordered list hinders nobody
		if s.Node.ID != 0 && s.List != now && t.Ordered != "" && s.List != t.Ordered {
			return another(s)
		}
	}
	for _, s := range t.Seats {
		switch {
		case s.Vacant():
			return fmt.Sprintf("the node of %s is silent, and its seat is vacant: start one there, or replace or remove %[1]s first", s.Entry)
		case s.Node.ID == 0:
			return fmt.Sprintf("no node has come to %s yet: start one there", s.Entry)
		case s.List != now:
			return another(s)
		}
	}
	lives := func(id transport.ID) bool { return slices.Contains(living, id) }
	for i, s := range t.Shards {
		switch {
		case s.Next != nil:
			return fmt.Sprintf("the voters of shard %d change", i)
		case count(s.Voters, lives) < min(2, len(t.Seats)):
			return fmt.Sprintf("shard %d has too few voters that live", i)
		}
	}
	if t.Dropped != 0 {
		return fmt.Sprintf("node %v, whose entry was dropped, still has a vote", t.Dropped)
	}
	return ""
}

// Wants reports whether there is nothing to order: the list is ordered already, or it is in force and every incarnation has it.
func (t *Table) Wants(list []string) bool {
	to := named(list)
	return to != "" && to == t.Ordered || to == named(t.List()) && t.held()
}
