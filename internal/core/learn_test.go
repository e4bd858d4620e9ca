package core

import (
	"testing"

	"github.com/lockmesh/mesh/internal/env"
	"github.com/lockmesh/mesh/transport"
)

// Promise: G1, C4: a node takes a table over without a confirmation only if it has a seat in it, and no roll call that it
// promised may have been decided without regard to that table.
func TestWhatANodeLearns(t *testing.T) {
	at := func(round, version, mesh uint64, a transport.ID) *Table {
		s := serving("abc", 1, 2, 3)
		s.Stamp, s.Mesh, s.Seats[0].Node.ID = Stamp{Ballot{round, 9}, version}, mesh, a
		return s
	}
	for _, tt := range []struct {
		name     string
		knows    *Table
		promised uint64 // the round of the call; zero: none
		shown    *Table
		learns   bool
	}{
		{"the first", nil, 0, at(5, 3, 7, 1), true},
		{"the first, without a seat", nil, 0, at(5, 3, 7, 4), false},
		{"the value of its call", nil, 5, at(5, 0, 7, 1), true},
		{"what follows its call", nil, 5, at(5, 3, 7, 1), true},
		{"an earlier one than its call", nil, 5, at(4, 3, 7, 1), false},
		{"a later one than its call", nil, 5, at(6, 3, 7, 1), false},
		{"the next version", at(5, 3, 7, 1), 0, at(5, 4, 7, 1), true},
		{"the next version, and a later call", at(5, 3, 7, 1), 6, at(5, 4, 7, 1), true},
		{"the same version", at(5, 3, 7, 1), 0, at(5, 3, 7, 1), false},
		{"a version before", at(5, 3, 7, 1), 0, at(5, 2, 7, 1), false},
		{"a later generation", at(5, 3, 7, 1), 0, at(6, 0, 7, 1), false},
		{"a later generation that it promised", at(5, 3, 7, 1), 6, at(6, 0, 7, 1), true},
		{"a later one than it promised", at(5, 3, 7, 1), 6, at(7, 0, 7, 1), false},
		{"a later generation, without a seat in its own", at(5, 3, 7, 4), 0, at(6, 1, 7, 1), true},
		{"an earlier one, without a seat in its own", at(5, 3, 7, 4), 0, at(4, 1, 7, 1), false},
		{"another mesh, without a seat in its own", at(5, 3, 7, 4), 0, at(6, 1, 8, 1), false},
		{"a later one than it promised, without a seat in its own", at(5, 3, 7, 4), 6, at(7, 1, 7, 1), false},
	} {
		a := NewAcceptor(1, []string{"a", "b", "c"})
		if a.table = tt.knows; tt.promised != 0 {
			if _, err := a.Call(Call{Ballot: Ballot{tt.promised, 9}, List: a.list, Roster: ids{1, 2, 3}}); err != nil {
				t.Fatal(tt.name, err)
			}
		}
		if learns := a.Learn(tt.shown); learns != tt.learns {
			t.Errorf("%s: it learns that: %t", tt.name, learns)
		}
		if learned := a.table == tt.shown; learned != tt.learns {
			t.Errorf("%s: it has learned that: %t", tt.name, learned)
		}
	}
}

// Promise: G1, C4, C11: a node that is bound before it has heard of the mesh, and founds another one, has no part in the first.
// Method: of five, a and b restart with a list that has f in place of e, and are bound, which they have not heard. c and d restart
// as well, and the five of that list found another mesh. It has a lower ballot than the first one, which began after several calls.
// The proposer learns that it is decided; a and b have accepted it, and hear from e.
func TestTheBoundThatFoundAnotherMesh(t *testing.T) {
	c := started(t, "abcde")
	call := c.begins("a", "abcde")
	call.Ballot.Round = 5
	first := c.roll(call, 1, 2, 3)
	for i, entry := range []string{"a", "b"} {
		next := transport.ID(11 + i)
		c.start(entry, next, "abcdf")
		first = c.decide(first, must(first.Bind(entry, env.Member{ID: next}, c.at[entry].list))(t), 3, 4, 5)
	}
	c.start("c", 13, "abcdf")
	c.start("d", 14, "abcdf")
	c.start("f", 6, "abcdf")
	second := c.value(c.begins("f", "abcdf"), 6, 13, 14)
	c.accept(second, 6, 11, 12, 13, 14)
	c.node(6).Learn(second)
	for _, entry := range []string{"a", "b"} {
		if c.at[entry].Learn(first) {
			t.Errorf("%s takes the first mesh over", entry)
		}
		if l, is := c.next(entry, "abcdef").(Learn); !is || l.Table != second {
			t.Errorf("%s does not take the second one over", entry)
		}
	}
	if ask, is := c.next("e", "abcdef").(Ask); !is || ask.Table != second {
		t.Error("e does not give way")
	}
}
