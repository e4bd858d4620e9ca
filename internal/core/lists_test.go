package core

import (
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/lockmesh/mesh/transport"
)

// Promise: C4: a node answers a roll call, and is counted on for one, only if its own list and that of the table that it knows each
// have at most one entry outside the call's; none, if such a list has one entry. Else it promises nothing.
func TestListsOfRollCalls(t *testing.T) {
	for _, tt := range []struct {
		name             string
		own, known, call string // lists; known: of the table, "": the node knows none
		answers          bool
	}{
		{"the call's own list", "abc", "", "abc", true},
		{"in another order", "cba", "", "abc", true},
		{"of two, one is outside", "ab", "", "ac", true},
		{"of two, both are outside", "ab", "", "cd", false},
		{"of three, one is outside", "abc", "", "abd", true},
		{"of three, two are outside", "abc", "", "ade", false},
		{"of five, two are outside", "abcde", "", "abcfg", false},
		{"the call's list has more entries", "ab", "", "abcd", true},
		{"the only entry is on the call's list", "a", "", "ab", true},
		{"the only entry is outside", "a", "", "bc", false},
		{"the table's list is the call's", "abc", "abc", "abc", true},
		{"of the table's list one is outside", "abd", "abc", "abd", true},
		{"of the table's list two are outside", "abc", "ade", "abc", false},
		{"the table's list has more than the call's by two", "abc", "abcde", "abc", false},
		{"of the own list two are outside, of the table's none", "ade", "abc", "abc", false},
		{"of both one is outside", "abd", "abe", "abc", true},
		{"the table's only entry is outside", "ab", "a", "bc", false},
	} {
		const self = 1
		a := NewAcceptor(self, strings.Split(tt.own, ""))
		if tt.known != "" {
			a.table = serving(tt.known, self)
		}
		list := strings.Split(tt.call, "")
		c := Call{Ballot: Ballot{9, 2}, List: list, Roster: make([]transport.ID, len(list))}
		c.Roster[0] = self // the node is at the first entry of the call's list, wherever else that is: the rule asks for lists alone
		before := a.Report()
		_, err := a.Call(c)
		want := error(nil)
		if !tt.answers {
			want = errLists
			if after := a.Report(); !reflect.DeepEqual(after, before) {
				t.Errorf("%s: the node has promised something: %+v", tt.name, after)
			}
		}
		if !errors.Is(err, want) {
			t.Errorf("%s: a node with the list %s answers a call of %s: %v, want %v", tt.name, tt.own, tt.call, err, want)
		}
		told := make(map[string]Report)
		for i, e := range list {
			told[e] = Report{Node: transport.ID(i + 1), List: slices.Clone(list)}
		}
		told[list[0]] = before
		if _, err := callOf(2, list, told); !errors.Is(err, want) {
			t.Errorf("%s: a call of %s counts on a node with the list %s: %v, want %v", tt.name, tt.call, tt.own, err, want)
		}
	}
}
