package core

import (
	"slices"
	"strings"
	"testing"

	"github.com/lockmesh/mesh/transport"
)

// Promise: C4, G1: a roll call leaves out an entry that is silent only if those that told show all that was decided, and no
// others could show that without them. So too when it makes its value.
func TestShortCalls(t *testing.T) {
	vacant := func(t *Table, entry int) *Table {
		n := t.next()
		n.Seats[entry].Node.ID = 0
		return n
	}
	three, four := serving("abc", 1, 2), serving("abcd", 1, 2, 3)
	two, pair := vacant(three, 2), serving("ab", 1, 2)
	knows := func(id transport.ID, table *Table) Report { return Report{Node: id, Table: table} }
	writes := func(r Report, accepted *Table) Report {
		r.At, r.Accepted = Ballot{3, 3}, accepted
		return r
	}
	back := vacant(three, 2)
	back.Stamp, back.Seats[2].Node.ID = two.Stamp.Next(), 3
	voted := two.next()
	full := *three // the value of a roll call of all three, after two
	full.Stamp = Stamp{Ballot{7, 2}, 0}
	full.Seats = slices.Clone(three.Seats)
	full.Seats[1].Node.ID = 8
	accepts := func(r Report) Report {
		r.Roll, r.RollAt, r.Proposed = full.Stamp.Roll, full.Stamp.Roll, &full
		return r
	}
	change := func(do func(*Table)) *Table {
		t := *four
		t.Seats = slices.Clone(t.Seats)
		do(&t)
		return &t
	}
	ordered := change(func(t *Table) { t.Ordered = "a b c d e" })
	dropped := change(func(t *Table) { t.Dropped = 9 })
	unstarted := change(func(t *Table) { t.Seats[3].List = "a b c" })
	undecided := change(func(t *Table) { t.Stamp = Stamp{Ballot{7, 1}, 0} })
	accepted := func(id transport.ID) Report {
		return Report{Node: id, Table: four, Roll: undecided.Stamp.Roll, RollAt: undecided.Stamp.Roll, Proposed: undecided}
	}
	asks := change(func(t *Table) { t.Stamp, t.Seats[2].Node.ID = Stamp{Ballot{7, 1}, 0}, 8 })
	called := Report{Node: 8, Roll: asks.Stamp.Roll, RollAt: asks.Stamp.Roll, Proposed: asks}
	orders := four.next()
	orders.Ordered = ordered.Ordered
	done := ordered.next()
	done.Ordered = ""
	elsewhere := knows(8, nil)
	elsewhere.List = strings.Split("abce", "")
	six := serving("abcdef", 1, 5, 6)
	five := serving("abcde", 1, 2, 3)
	for _, tt := range []struct {
		name    string
		list    string
		answers []Report // Node zero: silent
		bound   ids      // by the value; nil: there is none
		anew    bool     // the shard begins anew
	}{
		{"one of three is silent, and one forgot", "abc", []Report{knows(1, three), knows(8, nil), {}}, nil, false},
		{"and its seat is vacant", "abc", []Report{knows(1, two), knows(8, nil), {}}, ids{1, 8}, true},
		{"and a later version was accepted, by which it is not", "abc", []Report{writes(knows(1, two), back), knows(8, nil), {}}, nil, false},
		{"and a later one was, by which it still is", "abc", []Report{writes(knows(1, two), voted), knows(8, nil), {}}, ids{1, 8}, true},
		{"and a roll call of all was accepted", "abc", []Report{accepts(knows(1, two)), knows(9, nil), {}}, nil, false},
		{"and both forgot", "abc", []Report{knows(7, nil), knows(8, nil), {}}, nil, false},
		{"of two one is silent", "ab", []Report{knows(1, pair), {}}, nil, false},
		{"of four one is silent, and one forgot", "abcd", []Report{knows(1, four), knows(2, four), knows(8, nil), {}}, ids{1, 2, 4, 8}, false},
		{"of four two are silent", "abcd", []Report{knows(1, four), knows(2, four), {}, {}}, nil, false},
		{"of four one is silent, and two forgot", "abcd", []Report{knows(1, four), knows(7, nil), knows(8, nil), {}}, nil, false},
		{"and a list is ordered", "abcd", []Report{knows(1, ordered), knows(2, ordered), knows(8, nil), {}}, nil, false},
		{"and one is, in what was accepted", "abcd", []Report{writes(knows(1, four), orders), knows(2, four), knows(8, nil), {}}, nil, false},
		{"and one is, though not in what was accepted", "abcd", []Report{writes(knows(1, ordered), done), knows(2, ordered), knows(8, nil), {}}, nil, false},
		{"and one that was dropped votes", "abcd", []Report{knows(1, dropped), knows(2, dropped), knows(8, nil), {}}, nil, false},
		{"and one has another list, by the table", "abcd", []Report{knows(1, unstarted), knows(2, unstarted), knows(8, nil), {}}, nil, false},
		{"and the one that forgot has another list", "abcd", []Report{knows(1, four), knows(2, four), elsewhere, {}}, nil, false},
		{"and one has a table of another list", "abcd", []Report{knows(1, four), knows(2, four), knows(8, serving("abce", 1, 2, 3)), {}}, nil, false},
		{"and the roll call that both accepted may be undecided", "abcd", []Report{accepted(1), accepted(2), knows(8, nil), {}}, nil, false},
		{"and one of them knows that it was decided", "abcd", []Report{accepted(1), knows(2, undecided), knows(8, nil), {}}, ids{1, 2, 4, 8}, false},
		{"and only the one that forgot has accepted a later one", "abcd", []Report{knows(1, four), knows(2, four), called, {}}, ids{1, 2, 4, 8}, false},
		{"of three one is silent, and the others are fenced", "abc", []Report{knows(1, three), knows(2, three), {}}, ids{1, 2, 3}, false},
		{"of five one is silent, and one forgot", "abcde", []Report{knows(1, five), knows(2, five), knows(3, five), knows(9, nil), {}}, ids{1, 2, 3, 5, 9}, false},
		{"of five two are silent, and the others are fenced", "abcde", []Report{knows(1, five), knows(2, five), knows(3, five), {}, {}}, nil, false},
		{"of six two are silent, and one forgot", "abcdef", []Report{knows(1, six), knows(2, six), knows(3, six), knows(9, nil), {}, {}}, nil, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			list, told := strings.Split(tt.list, ""), make(map[string]Report)
			c := Call{Ballot: Ballot{9, 9}, List: list}
			for i, r := range tt.answers {
				if c.Roster = append(c.Roster, r.Node); r.Node != 0 {
					if r.List == nil {
						r.List = list
					}
					told[list[i]], tt.answers[i] = r, r
				}
			}
			got := c.Value(tt.answers, nil, func(int) []transport.ID { return c.Roster[:2] })
			if (got == nil) != (tt.bound == nil) || got != nil && (!slices.Equal(got.Bound(), tt.bound) || got.Stamp != (Stamp{Roll: c.Ballot})) {
				t.Errorf("the value: %+v", got)
			}
			if got != nil && (got.Shards[0].Generation.Core == c.Ballot) != tt.anew {
				t.Errorf("the shard: %+v", got.Shards[0])
			}
			a := beginWithout(tt.answers[0].Node, list, told)
			if b, begins := a.(Begin); begins != (tt.bound != nil) || begins && (!slices.Equal(b.Call.Roster, c.Roster) || !b.Call.Short()) {
				t.Errorf("it does %+v", a)
			}
		})
	}
}

// Promise: G1: what a node acts by now counts, not what it knew before it went over to another generation: of three, one
// was left out of a roll call, which bound the two others; one of these ended.
func TestWhoWentOverDoesNotCount(t *testing.T) {
	old := serving("abc", 1, 2)
	later := old.next()
	later.Stamp = Stamp{Roll: Ballot{5, 2}}
	later.Seats[2].Node.ID = 0
	c := Call{Ballot: Ballot{9, 9}, List: []string{"a", "b", "c"}, Roster: ids{7, 2, 3}}
	if got := c.Recovered([]Report{{Node: 7, List: c.List}, {Node: 2, List: c.List, Table: later}, {Node: 3, List: c.List, Table: old}}); got != later {
		t.Errorf("it goes on from %+v", got)
	}
}
