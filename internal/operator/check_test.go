package operator

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

// whole is the state of node 1 of a core that is whole, and what its entries answer.
func whole(entries ...string) (*Status, map[string]Reached) {
	c := &Core{Mesh: "ff", Name: "blue", Shards: 2}
	reached := make(map[string]Reached)
	for i, e := range entries {
		id := fmt.Sprint(i + 1)
		c.Seats = append(c.Seats, Seat{Entry: e, ID: id, Name: "n" + id, List: entries, Connected: true})
	}
	for i, s := range c.Seats {
		reached[s.Entry] = Reached{Status: &Status{
			ID: s.ID, Name: s.Name, Entry: s.Entry, List: entries, StateDir: true, Role: "core", Phase: "serving", Settled: true, Core: c,
		}}
		_ = i
	}
	return reached[entries[0]].Status, reached
}

// What is wrong with a core is said in plain words, and what to do.
func TestCheck(t *testing.T) {
	silent := Reached{Err: "refused"}
	fresh := func(id string, list ...string) Reached {
		return Reached{Status: &Status{ID: id, Name: "n" + id, Role: "core", Phase: "waiting", List: list, StateDir: true}}
	}
	for _, tt := range []struct {
		name   string
		change func(*Status, map[string]Reached)
		want   []string // each is in one problem, or what to do about it
		note   string
	}{
		{"all is well", func(*Status, map[string]Reached) {}, nil, ""},
		{"a node is silent", func(_ *Status, r map[string]Reached) { r["c"] = silent }, []string{`node "n3" of c does not answer: refused`, "declare c dead"}, ""},
		{"two are", func(_ *Status, r map[string]Reached) { r["b"], r["c"] = silent, silent },
			[]string{"1 of the 3 nodes that have a seat answer, and 2 must", `"n2" of b does not answer`, `"n3" of c does not answer`}, ""},
		{"a node was declared dead", func(s *Status, r map[string]Reached) { s.Core.Seats[2].Ended = true }, []string{`"n3" of c was declared dead`}, ""},
		{"a seat was never taken", func(s *Status, r map[string]Reached) { s.Core.Seats[2], r["c"] = Seat{Entry: "c"}, silent }, []string{"nobody has the seat of c, and no node answers", "remove the entry"}, ""},
		{"a seat is vacant", func(s *Status, r map[string]Reached) {
			s.Core.Seats[2], r["c"] = Seat{Entry: "c", List: []string{"a", "b", "c"}}, silent
		}, []string{"the seat of c is vacant: its node is silent, and no node answers there: refused", "replace or remove the entry"}, ""},
		{"a node is cut off from the one that is asked", func(s *Status, r map[string]Reached) { s.Core.Seats[1].Connected = false },
			[]string{`node "n2" of b answers, and is not connected with node "n1", which was asked`, "the network between the two"}, ""},
		{"a node waits for its seat", func(s *Status, r map[string]Reached) {
			s.Core.Seats[2], r["c"] = Seat{Entry: "c"}, fresh("9", "a", "b", "c")
		}, []string{`"n9" answers at c, and has no seat yet`}, ""},
		{"two nodes at an entry", func(s *Status, r map[string]Reached) { r["c"] = fresh("9", "a", "b", "c") }, []string{"two nodes are at c: node 9 answers there, and node 3"}, ""},
		{"a successor is about to come", func(s *Status, r map[string]Reached) {
			s.Core.Seats[2].Connected = false
			r["c"] = fresh("9", "a", "b", "c")
		}, []string{"another node, 9, answers at c than 3"}, ""},
		{"a name leads astray", func(s *Status, r map[string]Reached) { r["c"] = r["b"] }, []string{`node "n2" answers at c, whose entry is b`, "name of its own"}, ""},
		{"a node has another list", func(s *Status, r map[string]Reached) { s.Core.Seats[1].List = []string{"a", "b"} }, []string{`"n2" of b has the list [a b], and is to have [a b c]`, "restart it with [a b c]"}, ""},
		{"a change is under way", func(s *Status, r map[string]Reached) {
			s.Core.Ordered = []string{"a", "b", "c", "d"}
			s.Core.Seats[0].List, s.Core.Seats[1].List = s.Core.Ordered, s.Core.Ordered
		}, []string{`"n3" of c has the list [a b c], and is to have [a b c d]`, "see its log; or restart it with [a b c d]"}, "an operator changes the list to [a b c d]"},
		{"a node is in another mesh", func(s *Status, r map[string]Reached) {
			o := *r["c"].Status
			o.Core = &Core{Mesh: "ee"}
			r["c"] = Reached{Status: &o}
		}, []string{"in another mesh: ee"}, ""},
		{"a dropped one votes", func(s *Status, r map[string]Reached) { s.Core.Dropped = "7" }, []string{"node 7, whose entry was dropped, still has a vote"}, ""},
		{"shards without leaders", func(s *Status, r map[string]Reached) { s.NoMajority, s.UnderReplicated = []int{0}, []int{1} },
			[]string{"1 of 2 shards have no leader: [0]", "1 of 2 shards lack replicas, or their replicas move: [1]"}, ""},
		{"it has not caught up", func(s *Status, r map[string]Reached) { s.Settled, s.Phase = false, "founding" }, []string{"has not caught up with its mesh yet: it is founding"}, ""},
		{"quiet", func(s *Status, r map[string]Reached) { s.Quiet = 9 * time.Second }, nil, "another 9s"},
		{"no state directory", func(s *Status, r map[string]Reached) { r["b"].Status.StateDir = false }, nil, `"n2" of b has no state directory`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s, reached := whole("a", "b", "c")
			tt.change(s, reached)
			judge(t, Check(s, reached), tt.want, tt.note)
		})
	}
}

// judge compares findings with what was wanted: so many problems, which say these things.
func judge(t *testing.T, found []Finding, want []string, note string) {
	t.Helper()
	text := fmt.Sprintf("%+v", found)
	problems := slices.DeleteFunc(slices.Clone(found), func(f Finding) bool { return !f.Problem })
	if (len(problems) > 0) != (len(want) > 0) || (note != "") != (len(problems) < len(found)) || !strings.Contains(text, note) {
		t.Errorf("found %s", text)
	}
	if len(problems) > 0 && !slices.EqualFunc(problems, found[:len(problems)], func(a, b Finding) bool { return a == b }) {
		t.Errorf("problems do not come first: %s", text)
	}
	for _, w := range want {
		if !strings.Contains(text, w) {
			t.Errorf("found %s, want %q", text, w)
		}
	}
}

// An entry that answers the operator may be silent for the node.
func TestCheckOneWay(t *testing.T) {
	s := &Status{Name: "n1", Role: "core", Phase: "waiting", List: []string{"a", "b"}, Waiting: []Away{{"b", 12 * time.Second, "timeout"}}}
	b := &Status{Name: "n2", Role: "core", Phase: "waiting", List: s.List}
	judge(t, Check(s, map[string]Reached{"a": {Status: s}, "b": {Status: b}}), []string{`"n1" (core) is in no mesh yet`}, "waits for b, for 12s by now: timeout")
}

// Before there is a mesh, who is missing and whose list differs is said.
func TestCheckUnfounded(t *testing.T) {
	node := func(id, role string, list ...string) *Status {
		return &Status{ID: id, Name: "n" + id, Role: role, Phase: "waiting", List: list, Why: "no answer at c", Waiting: []Away{{"c", 12 * time.Second, "refused"}}}
	}
	s := node("1", "core", "a", "b", "c")
	for _, tt := range []struct {
		name string
		b    Reached
		want []string
	}{
		{"one is missing", Reached{Status: node("2", "core", "a", "b", "c")}, []string{`"n1" (core) is in no mesh yet: it is waiting: no answer at c`, "no node answers at c: refused", "a list without it"}},
		{"one has another list", Reached{Status: node("2", "core", "a", "b", "d")}, []string{`"n2" at b was started with the list [a b d], and node "n1" with [a b c]`}},
		{"one takes itself for a client", Reached{Status: node("2", "client", "a", "b", "c")}, []string{`"n2" answers at b, and takes itself for a client`}},
		{"one is in a mesh", Reached{Status: &Status{Name: "n2", Core: &Core{Mesh: "ee", Seats: []Seat{{Entry: "x"}}}}}, []string{`"n2" at b is in mesh ee, whose core is [x]`}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			judge(t, Check(s, map[string]Reached{"a": {Status: s}, "b": tt.b, "c": {Err: "refused"}}), tt.want, "")
		})
	}
}
