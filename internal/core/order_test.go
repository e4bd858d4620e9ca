package core

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/lockmesh/mesh/internal/env"
)

// list returns the entries that are the letters of s.
func list(s string) []string { return strings.Split(s, "") }

// having gives each seat the list that stands for it, in the order of the seats; "" stands for no incarnation.
func having(t *Table, lists ...string) *Table {
	for i, l := range lists {
		if l == "" {
			t.Seats[i] = Seat{Entry: t.Seats[i].Entry}
		} else {
			t.Seats[i].List = named(list(l))
		}
	}
	return t
}

// ordered returns t, in which a list is ordered, and was is the list before the last change; "" is none.
func ordered(t *Table, to, was string) *Table {
	t.Ordered, t.Was = named(list(to)), named(list(was))
	return t
}

// Promise: C11: an order names one list that is one change away, until all have it; a change that is not complete may be
// taken back.
func TestOrder(t *testing.T) {
	order := func(l string) func(*Table) (*Table, error) {
		return func(t *Table) (*Table, error) { return t.Order(list(l)) }
	}
	start := func(entry, l string) func(*Table) (*Table, error) {
		return func(t *Table) (*Table, error) { return t.Start(entry, list(l)) }
	}
	relist := func(l string) func(*Table) (*Table, error) {
		return func(t *Table) (*Table, error) { return t.Relist(list(l)) }
	}
	has := func(ordered, l string) func(*Table) bool {
		return func(n *Table) bool { return n.Ordered == ordered && strings.Join(n.List(), "") == l }
	}
	moving := serving("abc", 1, 2, 3)
	moving.Shards[0].Next = ids{1, 2}
	for _, tt := range []struct {
		name   string
		table  *Table
		change func(*Table) (*Table, error)
		err    error
		check  func(*Table) bool
	}{
		{"an entry is to be added", serving("abc", 1, 2, 3), order("abcd"), nil, has("a b c d", "abc")},
		{"one is to be dropped", serving("abc", 1, 2, 3), order("ab"), nil, has("a b", "abc")},
		{"the list of now", serving("abc", 1, 2, 3), order("abc"), errSameList, nil},
		{"what is ordered already", ordered(serving("abc", 1, 2, 3), "abcd", ""), order("abcd"), errSameList, nil},
		{"two are to be added", serving("abc", 1, 2, 3), order("abcde"), errTooFar, nil},
		{"one of three is to be replaced", serving("abc", 1, 2, 3), order("abd"), errReplaces, nil},
		{"the only entry is to be replaced", serving("a", 1), order("b"), errOneEntry, nil},
		{"while voters change", moving, order("abcd"), errOngoing, nil},
		{"while a node has the list before", having(serving("abc", 1, 2, 3), "abc", "ab", "abc"), order("abcd"), errOngoing, nil},
		{"while another list is ordered", ordered(serving("abc", 1, 2, 3), "abcd", ""), order("ab"), errOrdered, nil},

		// Some may have a, b, c, d by now, from which the list before that of now is two changes away.
		{"the list before, while another one is ordered", ordered(serving("abc", 1, 2, 3), "abcd", "ab"), order("ab"), errOrdered, nil},
		{"a change that was made is taken back", ordered(having(serving("abcd", 1, 2, 3), "abcd", "abcd", "abc", ""), "abcd", "abc"), order("abc"), nil, has("a b c", "abcd")},
		{"but no third list is ordered", ordered(having(serving("abcd", 1, 2, 3), "abcd", "abcd", "abcd", ""), "abcd", "abc"), order("abd"), errVacant, nil},
		{"a change that is complete is taken back", ordered(serving("abcd", 1, 2, 3), "", "abc"), order("abc"), nil, has("a b c", "abcd")},
		{"the list before is too far", ordered(having(serving("abcd", 1, 2, 3), "abcd", "abcd", "abcd", "abc"), "", "ef"), order("ef"), errTooFar, nil},
		{"the list of now is ordered for those that lack it", having(serving("abcd", 1, 2, 3), "abcd", "abc", "abcd", "abcd"), order("abcd"), nil, has("a b c d", "abcd")},

		{"the first has it", ordered(serving("abc", 1, 2, 3), "abcd", ""), start("a", "abcd"), nil, has("a b c d", "abc")},
		{"and proposes it", ordered(having(serving("abc", 1, 2, 3), "abcd", "abc", "abc"), "abcd", ""), relist("abcd"), nil, has("a b c d", "abcd")},
		{"another list is not decided on", ordered(having(serving("abc", 1, 2, 3), "abcd", "abc", "ab"), "abcd", ""), relist("ab"), errOngoing, nil},
		{"nor one that all could have", ordered(serving("abc", 1, 2, 3), "abcd", ""), relist("ab"), errOrdered, nil},
		{"the last one has it, but the new one is not there", ordered(having(serving("abcd", 1, 2, 3), "abcd", "abcd", "abc", ""), "abcd", ""), start("c", "abcd"), nil, has("a b c d", "abcd")},
		{"the last one has it", ordered(having(serving("abcd", 1, 2, 3), "abcd", "abcd", "abc", "abcd"), "abcd", ""), start("c", "abcd"), nil, has("", "abcd")},
		{"the new one comes", ordered(having(serving("abcd", 1, 2, 3), "abcd", "abcd", "abcd", ""), "abcd", ""),
			func(t *Table) (*Table, error) { return t.Bind("d", env.Member{ID: 4}, list("abcd")) }, nil, has("", "abcd")},
		{"with another list", ordered(having(serving("abcd", 1, 2, 3), "abcd", "abcd", "abcd", ""), "abcd", ""),
			func(t *Table) (*Table, error) { return t.Bind("d", env.Member{ID: 4}, list("abd")) }, nil, has("a b c d", "abcd")},
		{"the last entry that lacked it goes", ordered(having(serving("abc", 1, 2), "ab", "ab", "abc"), "ab", ""), relist("ab"), nil, has("", "ab")},
	} {
		t.Run(tt.name, func(t *testing.T) {
			before := *tt.table
			before.Seats = slices.Clone(before.Seats)
			got, err := tt.change(tt.table)
			if !errors.Is(err, tt.err) || (err == nil) != (got != nil) {
				t.Fatalf("%+v, error %v, want %v", got, err, tt.err)
			}
			if got != nil && (got.Stamp != before.Stamp.Next() || !tt.check(got)) {
				t.Errorf("became %+v", *got)
			}
			if tt.table.Ordered != before.Ordered || !slices.Equal(tt.table.Seats, before.Seats) {
				t.Errorf("the table before was changed: %+v", *tt.table)
			}
		})
	}
}

// A roll call goes on with an order, unless its list is too far from that, and ends one that it carries out.
func TestOrdersSurviveARollCall(t *testing.T) {
	for _, tt := range []struct {
		call, ordered string
		lists         []string // of those that answer
		want          string
	}{
		{"abc", "abcd", []string{"abc", "abc", "abc"}, "a b c d"},
		{"abc", "abcd", []string{"abcd", "abc", "abcd"}, "a b c d"},
		{"abcd", "abcd", []string{"abcd", "abc", "abcd", "abcd"}, "a b c d"},
		{"abcd", "abcd", []string{"abcd", "abcd", "abcd", "abcd"}, ""},
		{"ab", "abcd", []string{"ab", "ab"}, ""},
		{"abd", "abcd", []string{"abd", "abc", "abd"}, "a b c d"},
		{"abc", "", []string{"abc", "abc", "abc"}, ""},
	} {
		table := serving("abc", 1, 2, 3)
		if tt.ordered != "" {
			table.Ordered = named(list(tt.ordered))
		}
		c := Call{Ballot: Ballot{9, 1}, List: list(tt.call)}
		var answers []Report
		for i, l := range tt.lists {
			r := Report{Node: ids{1, 8, 9, 10}[i], List: list(l)}
			if i == 0 {
				r.Table = table
			}
			c.Roster, answers = append(c.Roster, r.Node), append(answers, r)
		}
		got := c.Value(answers, nil, func(int) ids { return c.Roster })
		if got.Ordered != tt.want {
			t.Errorf("a call of %s, by nodes that have %v, while %q is ordered: %q is", tt.call, tt.lists, tt.ordered, got.Ordered)
		}
	}
}

// What a change waits for is said exactly while it is not complete.
func TestUnfinished(t *testing.T) {
	moving := serving("abc", 1, 2, 3)
	moving.Shards[0].Next = ids{1, 2}
	dropped := serving("abc", 1, 2, 9)
	dropped.Dropped = 9
	hindered := having(serving("abc", 1, 2, 3), "ab", "ab", "bc")
	hindered.Ordered = "a b"
	for _, tt := range []struct {
		table *Table
		want  string
	}{
		{serving("abc", 1, 2, 3), ""},
		{having(serving("abc", 1, 2), "abc", "abc", ""), "no node has come to c yet"},
		{having(serving("abc", 1, 2, 3), "abc", "abc", "ab"), "of c has the list [a b], and the core has [a b c]"},
		{hindered, "of c has the list [b c], and the core has [a b c]"},
		{moving, "the voters of shard 0 change"},
		{serving("abc", 1, 8, 9), "shard 0 has too few voters that live"},
		{dropped, "node 0000000000000009, whose entry was dropped, still has a vote"},
	} {
		got := tt.table.Unfinished()
		if !strings.Contains(got, tt.want) || (got == "") != (tt.want == "") || (got == "") != tt.table.complete(tt.table.List()) {
			t.Errorf("%q, want %q", got, tt.want)
		}
	}
}
