package core

import (
	"errors"
	"slices"
	"time"
)

// Why a change of MaxTTL is refused. Nothing is changed then.
var (
	errSameTTL = errors.New("MaxTTL is that already, or is being raised to that")
	errNoRaise = errors.New("no raise is under way")
	errOutlast = errors.New("no lease may last longer than MaxTTL")
)

// SetMaxTTL changes for how long leases may last.
//
// A lowering is in force at once; quiet times stay as long as they were until [Table.Outlive]. A raise is not: whoever
// remembers this mesh must know of it first, or a roll call could go on from what one remembers who does not, and be quiet
// for too short a time. Quiet times count it at once, and [Table.Raise] puts it in force. A change takes the place of
// one that is under way.
func (t *Table) SetMaxTTL(d time.Duration) (*Table, error) {
	p := t.Params
	if d == p.MaxTTL && p.Raise == 0 || d == p.Raise {
		return nil, errSameTTL
	}
	p.Longest, p.Changed = max(p.Outlast(), d), true
	if p.Raise = d; d <= p.MaxTTL {
		p.MaxTTL, p.Raise = d, 0
	}
	if p.Longest <= p.Limit() {
		p.Longest = 0
	}
	n := t.next()
	n.Params = p
	return n, nil
}

// Raise puts a raise of MaxTTL in force. Its caller must know that every incarnation that is bound knows of the raise. While a seat is
// vacant, Raise is refused: the incarnation that had the seat must know of the raise, too, or another one at its entry. Raise is also
// refused while the list of one that is bound has an entry that the last change dropped. The node there may remember the mesh, and not the
// raise; but no node that starts later has its entry on its list either. So no roll call goes on from what it remembers, if nobody else
// does.
func (t *Table) Raise() (*Table, error) {
	switch {
	case t.Params.Raise == 0:
		return nil, errNoRaise
	case slices.ContainsFunc(t.Seats, func(s Seat) bool { return s.Vacant() }):
		return nil, errVacant
	case t.listsDropped():
		return nil, errOngoing
	}
	n := t.next()
	n.Params.MaxTTL, n.Params.Raise = t.Params.Raise, 0
	return n, nil
}

// Outlive notes that all leases that were longer than MaxTTL now allows are over.
func (t *Table) Outlive() (*Table, error) {
	if t.Params.Longest == 0 {
		return nil, errOutlast
	}
	n := t.next()
	n.Params.Longest = 0
	return n, nil
}
