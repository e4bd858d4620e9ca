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
	six := serving("abcdef", 1, 5, 6)
	stays := ids{1, 2, 3, 5, 6, 9}
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
		{"of three one is silent, and the others are fenced", "abc", []Report{knows(1, three), knows(2, three), {}}, ids{1, 2, 3}, false},
		{"of six two are silent, which have two votes of three", "abcdef", []Report{knows(1, six), knows(2, six), knows(3, six), knows(9, nil), {}, {}}, stays, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			list, told := strings.Split(tt.list, ""), make(map[string]Report)
			c := Call{Ballot: Ballot{9, 9}, List: list}
			for i, r := range tt.answers {
				if c.Roster = append(c.Roster, r.Node); r.Node != 0 {
					r.List = list
					told[list[i]] = r
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
	if got := c.Recovered([]Report{{Node: 7}, {Node: 2, Table: later}, {Node: 3, Table: old}}); got != later {
		t.Errorf("it goes on from %+v", got)
	}
}
