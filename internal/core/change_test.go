package core

import (
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/lockmesh/mesh/internal/env"
	"github.com/lockmesh/mesh/transport"
)

type ids = []transport.ID

// serving returns a table of entries a, b, c and so on, which incarnations 1, 2, 3 have the seats of,
// and of one shard with these voters.
func serving(entries string, voters ...transport.ID) *Table {
	t := &Table{Stamp: Stamp{Ballot{1, 1}, 4}, Mesh: 7, Shards: []Shard{{Generation: Generation{Ballot{1, 1}, 1}, Voters: voters}}}
	for i, e := range strings.Split(entries, "") {
		t.Seats = append(t.Seats, Seat{Entry: e, Node: env.Member{ID: transport.ID(i + 1)}, List: strings.Join(strings.Split(entries, ""), " ")})
	}
	return t
}

// Promise: G1: what a decision may change in a table, and that the table before stays as it is.
func TestChanges(t *testing.T) {
	list := func(s string) []string { return strings.Split(s, "") }
	node := func(id transport.ID) env.Member { return env.Member{ID: id} }
	moving := func(t *Table) *Table {
		t.Shards[0].Next, t.Shards[0].Move = ids{1, 2, 4}, 3
		return t
	}
	dropped := func(t *Table) *Table {
		t.Dropped = 9
		return t
	}
	unstarted := func(t *Table) *Table {
		t.Seats[1].List = "a b"
		return t
	}
	back := func(t *Table) *Table { // to a list of a, b, c
		for i := range t.Seats {
			t.Seats[i].List = "a b c"
		}
		t.Was, t.Seats[3] = "a b c", Seat{Entry: "d"}
		return t
	}
	forth := func(t *Table) *Table {
		t.Seats[1].List = "a b c d"
		return t
	}
	ended := func(t *Table, entries ...string) *Table {
		for i, s := range t.Seats {
			t.Seats[i].Ended = slices.Contains(entries, s.Entry)
		}
		return t
	}
	alone := serving("ab", 1) // nobody has come to b
	alone.Was, alone.Seats[0].List, alone.Seats[1] = "a", "a", Seat{Entry: "b"}
	vacant := func(t *Table) *Table {
		t.Seats[1].Node.ID = 0
		return t
	}
	tests := []struct {
		name   string
		table  *Table
		change func(*Table) (*Table, error)
		err    error
		check  func(*Table) bool
	}{
		{"a seat gets another incarnation", serving("abc", 1, 2, 3), func(t *Table) (*Table, error) { return t.Bind("b", node(8), list("abc")) }, nil,
			func(n *Table) bool { return n.Seats[1].Node.ID == 8 && n.Seats[1].List == "a b c" }},
		{"which was started with another list", serving("abc", 1, 2, 3), func(t *Table) (*Table, error) { return t.Bind("b", node(8), list("abd")) }, nil,
			func(n *Table) bool { return n.Seats[1].List == "a b d" }},
		{"the same incarnation", serving("abc", 1, 2, 3), func(t *Table) (*Table, error) { return t.Bind("b", node(2), list("abc")) }, errNotLater, nil},
		{"an entry that is not in the list", serving("abc", 1, 2, 3), func(t *Table) (*Table, error) { return t.Bind("d", node(8), list("abc")) }, errNoEntry, nil},
		{"the seat of one that is known to have ended", ended(serving("abc", 1, 2, 3), "b"), func(t *Table) (*Table, error) { return t.Bind("b", node(8), list("abc")) }, nil,
			func(n *Table) bool { return slices.Equal(n.Living(), ids{1, 3, 8}) }},

		// It counts in the majority: of a, b, f, e two are none, though a and b have ended. The list was a, b, c, d two
		// changes before, and a roll call of that does not ask e and f.
		{"an incarnation has ended", serving("abfe", 1, 2, 3), func(t *Table) (*Table, error) { return t.End("a", 1) }, nil,
			func(n *Table) bool {
				return slices.Equal(n.Bound(), ids{1, 2, 3, 4}) && slices.Equal(n.Living(), ids{2, 3, 4}) && n.Seats[0].List != ""
			}},
		{"it is known already", ended(serving("abcde", 1, 2, 3), "b"), func(t *Table) (*Table, error) { return t.End("b", 2) }, errEnded, nil},
		{"another one has the seat", serving("abc", 1, 2, 3), func(t *Table) (*Table, error) { return t.End("b", 9) }, errAnother, nil},
		{"none has it", vacant(serving("abc", 1, 2, 3)), func(t *Table) (*Table, error) { return t.End("b", 0) }, errAnother, nil},
		{"the end of one at no entry", serving("abc", 1, 2, 3), func(t *Table) (*Table, error) { return t.End("d", 2) }, errNoEntry, nil},
		{"two of five have ended", ended(serving("abcde", 1, 2, 3), "a"), func(t *Table) (*Table, error) { return t.End("b", 2) }, nil,
			func(n *Table) bool { return slices.Equal(n.Living(), ids{3, 4, 5}) }},
		{"and a third one", ended(serving("abcde", 1, 2, 3), "a", "b"), func(t *Table) (*Table, error) { return t.End("c", 3) }, errTooMany, nil},
		{"one of two", serving("ab", 1, 2), func(t *Table) (*Table, error) { return t.End("b", 2) }, errTooMany, nil},

		{"one of three is silent", serving("abc", 1, 3), func(t *Table) (*Table, error) { return t.Vacate("b", 2) }, nil,
			func(n *Table) bool {
				return slices.Equal(n.Bound(), ids{1, 3}) && n.Seats[1].List == "a b c" && len(n.Seats) == 3
			}},
		{"and is known to have ended", ended(serving("abc", 1, 3), "b"), func(t *Table) (*Table, error) { return t.Vacate("b", 2) }, nil,
			func(n *Table) bool { return slices.Equal(n.Bound(), ids{1, 3}) && !n.Seats[1].Ended }},
		{"and votes", serving("abc", 1, 2), func(t *Table) (*Table, error) { return t.Vacate("b", 2) }, errVotes, nil},
		{"and is to vote", moving(serving("abc", 1, 3)), func(t *Table) (*Table, error) { return t.Vacate("b", 2) }, errVotes, nil},
		{"of three, one has ended, and another one is silent", ended(serving("abc", 1, 3), "a"), func(t *Table) (*Table, error) { return t.Vacate("b", 2) }, errNeeded, nil},
		{"a second one of three", vacant(serving("abc", 1, 4)), func(t *Table) (*Table, error) { return t.Vacate("c", 3) }, errNeeded, nil},
		{"one of four", serving("abcd", 1, 3), func(t *Table) (*Table, error) { return t.Vacate("b", 2) }, errNeeded, nil},
		{"one of two", serving("ab", 1), func(t *Table) (*Table, error) { return t.Vacate("b", 2) }, errNeeded, nil},
		{"one whose seat another one has", serving("abc", 1, 3), func(t *Table) (*Table, error) { return t.Vacate("b", 9) }, errAnother, nil},
		{"one at no entry", serving("abc", 1, 3), func(t *Table) (*Table, error) { return t.Vacate("d", 2) }, errNoEntry, nil},
		{"the silent one is back", vacant(serving("abc", 1, 3)), func(t *Table) (*Table, error) { return t.Bind("b", node(2), list("abc")) }, nil,
			func(n *Table) bool { return slices.Equal(n.Bound(), ids{1, 2, 3}) }},
		{"its entry is dropped", vacant(serving("abc", 1, 3)), func(t *Table) (*Table, error) { return t.Relist(list("ac")) }, nil,
			func(n *Table) bool { return slices.Equal(n.Bound(), ids{1, 3}) && n.Dropped == 0 }},
		{"an entry is added, and it stays", vacant(serving("abc", 1, 3)), func(t *Table) (*Table, error) { return t.Relist(list("abcd")) }, errVacant, nil},
		{"another one is dropped, and it stays", vacant(serving("abc", 1, 3)), func(t *Table) (*Table, error) { return t.Relist(list("ab")) }, errVacant, nil},

		{"a node is given another list", serving("abc", 1, 2, 3), func(t *Table) (*Table, error) { return t.Start("b", list("abd")) }, nil,
			func(n *Table) bool { return n.Seats[1].List == "a b d" }},
		{"the same list", serving("abc", 1, 2, 3), func(t *Table) (*Table, error) { return t.Start("b", list("abc")) }, errSameList, nil},
		{"at no entry", serving("abc", 1, 2, 3), func(t *Table) (*Table, error) { return t.Start("d", list("abc")) }, errNoEntry, nil},

		{"an entry is added", serving("abc", 1, 2, 3), func(t *Table) (*Table, error) { return t.Relist(list("abcd")) }, nil,
			func(n *Table) bool {
				return len(n.Seats) == 4 && n.Seats[3].Node.ID == 0 && n.Seats[0].List == "a b c" && n.Dropped == 0
			}},
		{"an entry is dropped", serving("abc", 1, 2, 3), func(t *Table) (*Table, error) { return t.Relist(list("ab")) }, nil,
			func(n *Table) bool { return len(n.Seats) == 2 && n.Dropped == 3 }},
		{"one that votes in no shard", serving("abc", 1, 2), func(t *Table) (*Table, error) { return t.Relist(list("ab")) }, nil,
			func(n *Table) bool { return n.Dropped == 0 }},
		{"one that has ended", ended(serving("abc", 1, 2, 3), "c"), func(t *Table) (*Table, error) { return t.Relist(list("ab")) }, nil,
			func(n *Table) bool { return n.Dropped == 0 }},
		{"one that lives, while another one has ended", ended(serving("abc", 1, 2, 3), "c"), func(t *Table) (*Table, error) { return t.Relist(list("bc")) }, errTooMany, nil},
		{"an entry is added while one has ended", ended(serving("abc", 1, 2, 3), "c"), func(t *Table) (*Table, error) { return t.Relist(list("abcd")) }, nil,
			func(n *Table) bool { return n.Seats[2].Ended }},
		{"an entry is replaced", serving("abcd", 1, 2, 3), func(t *Table) (*Table, error) { return t.Relist(list("aecd")) }, nil,
			func(n *Table) bool { return n.Seats[1].Node.ID == 0 && n.Seats[2].Node.ID == 3 && n.Dropped == 2 }},
		{"the list stays as it is", serving("abc", 1, 2, 3), func(t *Table) (*Table, error) { return t.Relist(list("abc")) }, errSameList, nil},
		{"two entries are added", serving("abc", 1, 2, 3), func(t *Table) (*Table, error) { return t.Relist(list("abcde")) }, errTooFar, nil},
		{"two entries are dropped", serving("abc", 1, 2, 3), func(t *Table) (*Table, error) { return t.Relist(list("a")) }, errTooFar, nil},
		{"all entries are dropped", serving("ab", 1, 2), func(t *Table) (*Table, error) { return t.Relist(nil) }, errTooFar, nil},
		{"the only entry is replaced", serving("a", 1), func(t *Table) (*Table, error) { return t.Relist(list("b")) }, errOneEntry, nil},
		{"the only entry is joined by another", serving("a", 1), func(t *Table) (*Table, error) { return t.Relist(list("ab")) }, nil,
			func(n *Table) bool { return len(n.Seats) == 2 }},
		{"two entries become one", serving("ab", 1, 2), func(t *Table) (*Table, error) { return t.Relist(list("a")) }, nil,
			func(n *Table) bool { return len(n.Seats) == 1 }},
		{"one of three is replaced", serving("abc", 1, 2, 3), func(t *Table) (*Table, error) { return t.Relist(list("abd")) }, errReplaces, nil},
		{"a node may come back with an earlier list", unstarted(serving("abc", 1, 2, 3)), func(t *Table) (*Table, error) { return t.Relist(list("abcd")) }, errOngoing, nil},
		{"a node has the next list already", unstarted(serving("abc", 1, 2, 3)), func(t *Table) (*Table, error) { return t.Relist(list("ab")) }, nil,
			func(n *Table) bool { return n.Seats[1].List == "a b" && n.Was == "a b c" }},
		{"a node has not come yet", vacant(serving("abc", 1, 3)), func(t *Table) (*Table, error) { return t.Relist(list("abcd")) }, errVacant, nil},
		{"the last change is taken back", back(serving("abcd", 1, 2, 3)), func(t *Table) (*Table, error) { return t.Relist(list("abc")) }, nil,
			func(n *Table) bool { return len(n.Seats) == 3 && n.Was == "a b c d" }},
		{"where only one of a list of two has come", alone, func(t *Table) (*Table, error) { return t.Relist(list("a")) }, nil,
			func(n *Table) bool { return len(n.Seats) == 1 && n.Was == "a b" }},
		{"while a node has not been started so", forth(back(serving("abcd", 1, 2, 3))), func(t *Table) (*Table, error) { return t.Relist(list("abc")) }, errOngoing, nil},
		{"a voter was dropped before", dropped(serving("abc", 1, 2, 9)), func(t *Table) (*Table, error) { return t.Relist(list("abcd")) }, errOngoing, nil},
		{"a shard's voters change", moving(serving("abcd", 1, 2, 3)), func(t *Table) (*Table, error) { return t.Relist(list("abc")) }, errOngoing, nil},
		{"most voters of a shard have ended", serving("abc", 1, 8, 9), func(t *Table) (*Table, error) { return t.Relist(list("abcd")) }, errOngoing, nil},

		{"most voters of a shard are known to have ended", ended(serving("abcde", 1, 2), "a"), func(t *Table) (*Table, error) { return t.Relist(list("abcdef")) }, errOngoing, nil},

		{"the voters may change", serving("abcd", 1, 2, 3), func(t *Table) (*Table, error) { return t.Move(0, ids{1, 2, 4}) }, nil,
			func(n *Table) bool { return slices.Equal(n.Shards[0].Next, ids{1, 2, 4}) && n.Shards[0].Move == 1 }},
		{"while they change", moving(serving("abcd", 1, 2, 3)), func(t *Table) (*Table, error) { return t.Move(0, ids{1, 2}) }, errMoving, nil},
		{"to one without a seat", serving("abc", 1, 2, 3), func(t *Table) (*Table, error) { return t.Move(0, ids{1, 2, 4}) }, errUnbound, nil},
		{"to one that has ended", ended(serving("abcd", 1, 2, 3), "d"), func(t *Table) (*Table, error) { return t.Move(0, ids{1, 2, 4}) }, errUnbound, nil},
		{"to one alone", serving("abc", 1, 2, 3), func(t *Table) (*Table, error) { return t.Move(0, ids{1}) }, errFew, nil},
		{"to one of them twice", serving("abc", 1, 2, 3), func(t *Table) (*Table, error) { return t.Move(0, ids{1, 1, 2}) }, errTwice, nil},
		{"to one alone, of a list of one", serving("a", 9), func(t *Table) (*Table, error) { return t.Move(0, ids{1}) }, nil,
			func(n *Table) bool { return n.Shards[0].Move == 1 }},

		{"they have changed", moving(serving("abcd", 1, 2, 3)), func(t *Table) (*Table, error) { return t.Settle(0, Generation{Ballot{1, 1}, 1}, 3, true) }, nil,
			func(n *Table) bool { return slices.Equal(n.Shards[0].Voters, ids{1, 2, 4}) && n.Shards[0].Next == nil }},
		{"they never will", moving(serving("abcd", 1, 2, 3)), func(t *Table) (*Table, error) { return t.Settle(0, Generation{Ballot{1, 1}, 1}, 3, false) }, nil,
			func(n *Table) bool { return slices.Equal(n.Shards[0].Voters, ids{1, 2, 3}) && n.Shards[0].Next == nil }},
		{"an earlier change came to nothing", moving(serving("abcd", 1, 2, 3)), func(t *Table) (*Table, error) { return t.Settle(0, Generation{Ballot{1, 1}, 1}, 2, false) }, errNoMove, nil},
		{"a change of an earlier generation", moving(serving("abcd", 1, 2, 3)), func(t *Table) (*Table, error) { return t.Settle(0, Generation{Ballot{1, 1}, 0}, 3, true) }, errNoMove, nil},
		{"no change is under way", serving("abcd", 1, 2, 3), func(t *Table) (*Table, error) { return t.Settle(0, Generation{Ballot{1, 1}, 1}, 0, true) }, errNoMove, nil},
		{"and with it the dropped one goes", dropped(moving(serving("abcd", 1, 2, 9))), func(t *Table) (*Table, error) { return t.Settle(0, Generation{Ballot{1, 1}, 1}, 3, true) }, nil,
			func(n *Table) bool { return n.Dropped == 0 }},

		{"two of three voters have ended", serving("abc", 1, 8, 9), func(t *Table) (*Table, error) { return t.Recover(0, nil, ids{1, 2, 3}) }, nil,
			func(n *Table) bool {
				s := n.Shards[0]
				return s.Generation == Generation{Ballot{1, 1}, 2} && slices.Equal(s.Voters, ids{1, 2, 3}) && s.Next == nil
			}},
		{"two of three voters are known to have", ended(serving("abcde", 1, 2, 3), "a", "b"), func(t *Table) (*Table, error) { return t.Recover(0, nil, ids{3, 4, 5}) }, nil,
			func(n *Table) bool { return n.Shards[0].Generation.Number == 2 }},
		{"one is known to have", ended(serving("abcde", 1, 2, 3), "a"), func(t *Table) (*Table, error) { return t.Recover(0, nil, ids{3, 4, 5}) }, errQuorum, nil},
		{"one is known to have, on itself", ended(serving("abcde", 1, 2, 9), "a"), func(t *Table) (*Table, error) { return t.Recover(0, nil, ids{1, 4, 5}) }, errUnbound, nil},
		{"one has, and one is fenced", serving("abc", 1, 2, 9), func(t *Table) (*Table, error) { return t.Recover(0, ids{2}, ids{1, 2, 3}) }, nil,
			func(n *Table) bool { return n.Shards[0].Generation.Number == 2 }},
		{"one has", serving("abc", 1, 2, 9), func(t *Table) (*Table, error) { return t.Recover(0, nil, ids{1, 2, 3}) }, errQuorum, nil},
		{"the voters to come could go on", moving(serving("abcd", 1, 8, 9)), func(t *Table) (*Table, error) { return t.Recover(0, ids{3}, ids{1, 2, 3}) }, errQuorum, nil},
		{"the voters of now could go on", moving(serving("abcd", 1, 2, 3)), func(t *Table) (*Table, error) { return t.Recover(0, ids{4}, ids{1, 2, 3}) }, errQuorum, nil},
		{"the dropped one may live", dropped(serving("abc", 1, 8, 9)), func(t *Table) (*Table, error) { return t.Recover(0, nil, ids{1, 2, 3}) }, errQuorum, nil},
		{"the dropped one is fenced", dropped(serving("abc", 1, 8, 9)), func(t *Table) (*Table, error) { return t.Recover(0, ids{9}, ids{1, 2, 3}) }, nil,
			func(n *Table) bool { return n.Dropped == 0 }},
		{"to voters without a seat", serving("abc", 1, 8, 9), func(t *Table) (*Table, error) { return t.Recover(0, nil, ids{1, 9}) }, errUnbound, nil},
		{"to one voter twice", serving("abc", 1, 8, 9), func(t *Table) (*Table, error) { return t.Recover(0, nil, ids{1, 1}) }, errTwice, nil},
		{"to one voter", serving("abc", 1, 8, 9), func(t *Table) (*Table, error) { return t.Recover(0, nil, ids{1}) }, errFew, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			before := *tt.table
			before.Seats, before.Shards = slices.Clone(before.Seats), slices.Clone(before.Shards)
			got, err := tt.change(tt.table)
			if !errors.Is(err, tt.err) || (err == nil) != (got != nil) {
				t.Fatalf("%+v, error %v, want %v", got, err, tt.err)
			}
			if got != nil && (got.Stamp != Stamp{before.Stamp.Roll, before.Stamp.Version + 1} || got.Mesh != 7 || !tt.check(got)) {
				t.Errorf("became %+v", *got)
			}
			same := func(a, b Shard) bool {
				return a.Generation == b.Generation && a.Move == b.Move && slices.Equal(a.Voters, b.Voters) && slices.Equal(a.Next, b.Next)
			}
			if after := *tt.table; !slices.Equal(after.Seats, before.Seats) || !slices.EqualFunc(after.Shards, before.Shards, same) || after.Dropped != before.Dropped || after.Stamp != before.Stamp {
				t.Errorf("the table before was changed: %+v", after)
			}
		})
	}
}

// Promise: G1: what a node does next by what others tell.
func TestNext(t *testing.T) {
	list := strings.Split("abc", "")
	now := serving("abc", 1, 2, 3)
	fresh := func(id transport.ID) Report { return Report{Node: id, List: list} }
	knows := func(id transport.ID, table *Table) Report {
		return Report{Node: id, List: list, Table: table, Roll: table.Stamp.Roll}
	}
	promised := func(r Report, b Ballot) Report {
		r.Roll = b
		return r
	}
	lists := func(r Report, list string) Report {
		r.List = strings.Split(list, "")
		return r
	}
	first := serving("abc", 1, 2, 3)
	first.Stamp.Version = 0
	asked := func(r Report, by Report) Report {
		r.Asked = by.Mark()
		return r
	}
	other := serving("abc", 1, 2, 3)
	other.Stamp.Roll = Ballot{1, 2}
	later := *now
	later.Stamp.Version++
	unstarted := serving("abc", 1, 2, 3)
	unstarted.Seats[2].List = "a b"
	relisted, far := *now, *now
	relisted.Seats, far.Seats = slices.Clone(now.Seats), slices.Clone(now.Seats)
	relisted.Seats[0].List, far.Seats[0].List = "a b c d", "a b d"
	replaced := *now
	replaced.Seats = slices.Clone(now.Seats)
	replaced.Seats[2].Node.ID = 9
	tests := []struct {
		name string
		told []Report // of a, b and c; Node 0: no answer
		want any      // the action, or a part of the error
	}{
		{"nobody remembers", []Report{fresh(1), fresh(2), fresh(3)}, Ballot{1, 1}},
		{"one does not answer", []Report{fresh(1), fresh(2), {}}, "no answer at c"},
		{"a call was promised", []Report{fresh(1), promised(fresh(2), Ballot{5, 2}), fresh(3)}, Ballot{6, 1}},
		{"a ballot is refused", []Report{fresh(1), {Node: 2, List: list, Refused: Ballot{5, 2}}, fresh(3)}, Ballot{6, 1}},
		{"a list is too far", []Report{fresh(1), lists(fresh(2), "bde"), fresh(3)}, "differs in more than one entry"},
		{"a list differs in one entry", []Report{fresh(1), lists(fresh(2), "abd"), fresh(3)}, Ballot{1, 1}},
		{"this node knows nothing yet", []Report{fresh(1), knows(2, now), knows(3, now)}, Learn{now}},
		{"this node is behind", []Report{knows(1, now), knows(2, &later), knows(3, now)}, Learn{&later}},
		{"all is well", []Report{knows(1, now), knows(2, now), knows(3, now)}, nil},
		{"one does not answer, and most remember", []Report{knows(1, now), knows(2, now), {}}, nil},
		{"one has another incarnation", []Report{knows(1, now), knows(2, now), fresh(9)}, Propose{&replaced}},
		{"one that answered before this version, and has ended since", []Report{knows(1, now), knows(2, now), asked(fresh(9), knows(1, first))}, nil},
		{"one that was started with the list before", []Report{knows(1, unstarted), knows(2, unstarted), asked(fresh(3), knows(1, first))}, nil},
		{"others answered before this node promised a call", []Report{promised(knows(1, now), Ballot{3, 2}), asked(knows(2, now), knows(1, now)), asked(knows(3, now), knows(1, now))}, "no answer at b"},
		{"two have other incarnations", []Report{knows(1, now), fresh(8), fresh(9)}, Ballot{2, 1}},
		{"two have, and one is silent", []Report{knows(1, now), fresh(8), {}}, "no answer at c"},
		{"most are fenced", []Report{knows(1, now), promised(knows(2, now), Ballot{3, 2}), promised(knows(3, now), Ballot{3, 2})}, Ballot{4, 1}},
		{"this node is fenced, and most are not", []Report{promised(knows(1, now), Ballot{3, 1}), knows(2, now), knows(3, now)}, Ask{now}},
		{"this node has no seat", []Report{{Node: 9, List: list, Table: now, Roll: now.Stamp.Roll}, knows(2, now), knows(3, now)}, "no seat"},
		{"this node has another list than is known", []Report{lists(knows(1, now), "abcd"), knows(2, now), knows(3, now)}, Propose{&relisted}},
		{"this node was started with another list", []Report{lists(knows(1, &relisted), "abcd"), knows(2, &relisted), knows(3, &relisted)}, "abcd"},
		{"with one that the mesh cannot change to", []Report{lists(knows(1, &far), "abd"), knows(2, &far), knows(3, &far)}, "to change the list"},
		{"others that answer know less", []Report{knows(1, &later), knows(2, now), knows(3, now)}, nil},
		{"one alone knows a generation of a higher ballot, in which all have seats", []Report{knows(1, now), knows(2, now), knows(3, other)}, nil},
		{"one that has a seat knows another generation", []Report{knows(1, now), {Node: 2, List: list, Table: other, Roll: other.Stamp.Roll}, fresh(9)}, Ballot{2, 1}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			told := make(map[string]Report)
			for i, r := range tt.told {
				if r.Asked == (Mark{}) {
					r.Asked = tt.told[0].Mark()
				}
				if r.Node != 0 {
					told[list[i]] = r
				}
			}
			action, err := Next(tt.told[0].Node, told)
			switch want := tt.want.(type) {
			case nil:
				if action != nil || err != nil {
					t.Errorf("it does %+v, error %v", action, err)
				}
			case string:
				p, proposes := action.(Propose)
				if proposes && strings.Join(p.Table.List(), "") == want {
					break
				}
				if err == nil || !strings.Contains(err.Error(), want) {
					t.Errorf("it does %+v, error %v", action, err)
				}
			case Ballot:
				if b, ok := action.(Begin); !ok || b.Call.Ballot != want || !slices.Equal(b.Call.List, list) || b.Call.Roster[0] != 1 || len(b.Call.Roster) != 3 {
					t.Errorf("it does %+v, error %v", action, err)
				}
			case Propose:
				p, ok := action.(Propose)
				if !ok || !slices.Equal(p.Table.Seats, want.Table.Seats) {
					t.Errorf("it does %+v, error %v", action, err)
				}
			default:
				if action != want {
					t.Errorf("it does %+v, error %v, want %+v", action, err, want)
				}
			}
		})
	}
}

// Promise: G1: what a roll call goes on from, by the answers of its roster.
func TestRecovered(t *testing.T) {
	made := func(roll Ballot, version uint64, entries string, bound ...transport.ID) *Table {
		n := &Table{Stamp: Stamp{roll, version}}
		for i, e := range strings.Split(entries, "") {
			n.Seats = append(n.Seats, Seat{Entry: e, Node: env.Member{ID: bound[i]}})
		}
		return n
	}
	old := made(Ballot{1, 1}, 0, "abc", 1, 2, 3)
	next := made(Ballot{1, 1}, 1, "abc", 1, 2, 3)
	higher := made(Ballot{5, 2}, 0, "abc", 1, 2, 3)
	without := made(Ballot{2, 2}, 0, "abd", 7, 2, 4) // founded without c, when a had another incarnation
	others := made(Ballot{2, 2}, 0, "abc", 7, 2, 9)
	knows := func(id transport.ID, table *Table) Report { return Report{Node: id, Table: table} }
	accepts := func(r Report, proposed *Table) Report {
		r.RollAt, r.Proposed = proposed.Stamp.Roll, proposed
		return r
	}
	writes := func(r Report, b Ballot, accepted *Table) Report {
		r.At, r.Accepted = b, accepted
		return r
	}
	released := func(r Report, b Ballot) Report {
		r.Released = b
		return r
	}
	over := made(Ballot{5, 5}, 0, "abd", 7, 2, 6)
	short := made(Ballot{5, 5}, 0, "abd", 7, 2, 6)
	short.Seats[1].Unasked = true
	vacant := made(Ballot{5, 5}, 0, "abc", 7, 8, 0)
	lower := made(Ballot{1, 0}, 0, "abd", 7, 2, 4)
	tests := []struct {
		name    string
		list    string
		answers []Report
		want    *Table
	}{
		{"nobody remembers", "abc", []Report{knows(1, nil), knows(2, nil), knows(3, nil)}, nil},
		{"one does", "abc", []Report{knows(7, nil), knows(8, nil), knows(3, old)}, old},
		{"two know versions of one generation", "abc", []Report{knows(7, nil), knows(2, next), knows(3, old)}, next},
		{"and the later version has lost more of its bound", "abc", []Report{knows(1, old), knows(7, made(Ballot{1, 1}, 1, "abc", 8, 9, 3)), knows(3, old)}, made(Ballot{1, 1}, 1, "abc", 8, 9, 3)},
		{"the next version was accepted", "abc", []Report{knows(7, nil), writes(knows(2, old), Ballot{1, 2}, next), knows(3, old)}, next},
		{"after a version that is not the latest", "abc", []Report{knows(1, next), writes(knows(2, old), Ballot{1, 2}, old), knows(3, old)}, next},
		{"a roll call was accepted", "abc", []Report{knows(1, old), accepts(knows(2, old), higher), knows(3, old)}, higher},
		{"by one that knows nothing", "abc", []Report{knows(7, nil), accepts(knows(2, nil), higher), knows(3, old)}, higher},
		{"and one of its roster was released from it", "abc", []Report{released(knows(1, old), Ballot{5, 2}), accepts(knows(2, old), higher), knows(3, old)}, old},
		{"and one that is not in its roster was released from a higher one", "abc", []Report{released(knows(9, old), Ballot{6, 1}), accepts(knows(2, old), higher), knows(3, old)}, higher},
		{"one that was left out remembers a higher ballot", "abc", []Report{knows(7, without), knows(2, without), accepts(knows(9, nil), made(Ballot{5, 5}, 0, "abc", 5, 6, 9))}, without},
		{"most that are bound to the lower ballot may live, where nobody was asked", "abd", []Report{knows(7, nil), knows(2, old), knows(4, made(Ballot{5, 5}, 0, "abd", 5, 6, 4))}, old},
		{"and one of them has promised the higher one", "abd", []Report{accepts(knows(7, nil), over), knows(2, old), knows(4, nil)}, over},
		{"and it was not asked", "abd", []Report{accepts(knows(7, nil), short), knows(2, old), knows(4, nil)}, old},
		{"and nobody was, where nobody answers", "abd", []Report{accepts(knows(7, nil), vacant), knows(2, old), knows(4, nil)}, old},
		{"and one of them has promised a lower one", "abd", []Report{accepts(knows(7, nil), lower), knows(2, old), knows(4, nil)}, old},
		{"and the higher one is void", "abd", []Report{accepts(knows(7, nil), over), released(knows(2, old), Ballot{5, 5}), knows(4, made(Ballot{4, 4}, 0, "abd", 5, 6, 4))}, old},
		{"a node accepted another roll call, of whose roster most seem gone", "abc", []Report{knows(1, old), accepts(knows(2, old), others), knows(8, nil)}, others},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c := Call{Ballot: Ballot{9, 9}, List: strings.Split(tt.list, "")}
			for i, r := range tt.answers {
				c.Roster = append(c.Roster, r.Node)
				tt.answers[i].List = c.List
			}
			got := c.Recovered(tt.answers)
			if (got == nil) != (tt.want == nil) || got != nil && (got.Stamp != tt.want.Stamp || !slices.Equal(got.Seats, tt.want.Seats)) {
				t.Errorf("it goes on from %+v, want %+v", got, tt.want)
			}
		})
	}
}

// Promise: C4, G9: in a roll call shards go on whose voters can, if those that forgot are too few to have decided
// something alone; else every shard begins anew.
func TestWhatGoesOnAfterARollCall(t *testing.T) {
	four, five := serving("abcd", 1, 2, 3, 4), serving("abcde", 1, 2, 3, 4, 5)
	votes := func(t *Table, voters ids, next ids) *Table {
		n := t.next()
		n.Shards[0].Voters, n.Shards[0].Next = voters, next
		return n
	}
	knows := func(id transport.ID, table *Table) Report { return Report{Node: id, List: []string{"a"}, Table: table} }
	writes := func(r Report, accepted *Table) Report {
		r.At, r.Accepted = Ballot{3, 3}, accepted
		return r
	}
	began := votes(four, ids{1, 3}, nil)
	recovers, err := votes(four, ids{2, 4}, nil).Recover(0, ids{2, 4}, ids{1, 3})
	if err != nil {
		t.Fatal(err)
	}
	before := votes(four, ids{2, 4}, nil)
	called := *began // the value of a roll call after it, which two have accepted
	called.Stamp = Stamp{Ballot{7, 2}, 0}
	accepts := func(r Report) Report {
		r.Roll, r.RollAt, r.Proposed = called.Stamp.Roll, called.Stamp.Roll, &called
		return r
	}
	left := votes(four, ids{1, 9}, nil)
	left.Dropped = 9
	for _, tt := range []struct {
		name    string
		answers []Report
		from    *Table // the shard goes on as here; nil: it begins anew
	}{
		{"two of four remember", []Report{knows(1, began), knows(7, nil), knows(3, began), knows(8, nil)}, began},
		{"one of four", []Report{knows(1, began), knows(7, nil), knows(9, nil), knows(8, nil)}, nil},
		{"two of five", []Report{knows(1, votes(five, ids{1, 3}, nil)), knows(7, nil), knows(3, votes(five, ids{1, 3}, nil)), knows(8, nil), knows(9, nil)}, nil},
		{"one is a version behind", []Report{knows(1, began), knows(7, nil), knows(3, four), knows(8, nil)}, began},
		{"one has gone over to another generation", []Report{knows(1, began), knows(7, nil), knows(3, &Table{Stamp: Stamp{Roll: Ballot{1, 0}}, Seats: []Seat{{Entry: "a", Node: env.Member{ID: 9}}}}), knows(8, nil)}, nil},
		{"most voters forgot", []Report{knows(1, votes(four, ids{1, 2, 4}, nil)), knows(7, nil), knows(3, votes(four, ids{1, 2, 4}, nil)), knows(8, nil)}, nil},
		{"most of those that it may have changed to forgot", []Report{knows(1, votes(four, ids{1, 3}, ids{2, 4})), knows(7, nil), knows(3, votes(four, ids{1, 3}, ids{2, 4})), knows(8, nil)}, nil},
		{"it may have changed, to others that remember", []Report{knows(1, votes(four, ids{1, 2, 3}, ids{1, 3})), knows(7, nil), knows(3, votes(four, ids{1, 2, 3}, ids{1, 3})), knows(8, nil)}, votes(four, ids{1, 2, 3}, ids{1, 3})},
		{"a version was accepted after it", []Report{knows(1, before), knows(7, nil), writes(knows(3, before), recovers), knows(8, nil)}, recovers},
		{"a roll call that bound two of them was accepted", []Report{accepts(knows(1, began)), knows(7, nil), accepts(knows(3, nil)), knows(8, nil)}, &called},
		{"a voter whose entry was dropped may not remember", []Report{knows(1, left), knows(7, nil), knows(3, left), knows(8, nil)}, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := Call{Ballot: Ballot{9, 9}, List: strings.Split("abcde"[:len(tt.answers)], "")}
			for _, r := range tt.answers {
				c.Roster = append(c.Roster, r.Node)
			}
			got := c.Value(tt.answers, nil, func(int) []transport.ID { return c.Roster[:2] })
			want := Shard{Generation: Generation{c.Ballot, got.Shards[0].Generation.Number}, Voters: c.Roster[:2]}
			if tt.from != nil {
				want = tt.from.Shards[0]
			}
			if !reflect.DeepEqual(got.Shards[0], want) {
				t.Errorf("the shard: %+v, want %+v", got.Shards[0], want)
			}
			if !slices.Equal(got.Bound(), sorted(c.Roster)) || got.Stamp != (Stamp{Roll: c.Ballot}) || got.Dropped != 0 {
				t.Errorf("%+v", got)
			}
		})
	}
	c := Call{Ballot: Ballot{9, 9}, List: []string{"a", "b", "c"}, Roster: ids{1, 2, 7}}
	if got := c.Value([]Report{knows(1, began), knows(2, began), knows(7, nil)}, nil, func(int) []transport.ID { return c.Roster }); got.Shards[0].Generation.Core != c.Ballot {
		t.Errorf("a roll call of another list: %+v", got.Shards[0])
	}
}

// Promise: G1: two decisions of one stamp are equal, and each version follows the one before.
func TestWritesTheNextVersionAlone(t *testing.T) {
	a := NewAcceptor(1, []string{"c", "a", "b", "a"})
	now := serving("abc", 1, 2, 3)
	if !a.Learn(now) || a.Learn(now) || !slices.Equal(a.Report().List, []string{"a", "b", "c"}) {
		t.Fatalf("it knows %+v", a.Report())
	}
	other, err := now.Move(0, ids{1, 2})
	if err != nil {
		t.Fatal(err)
	}
	same := *other
	same.Stamp = now.Stamp
	if err := a.Write(Ballot{1, 1}, now.Stamp, &same); !errors.Is(err, errAhead) {
		t.Errorf("a version that does not follow: %v", err)
	}
	if err := a.Write(Ballot{1, 1}, now.Stamp, other); err != nil || a.Report().Accepted != other {
		t.Errorf("the one that does: %v", err)
	}
}

// Promise: G1: an incarnation that lives, though its mesh was told that it has ended, takes no part in anything any
// more once it knows that; the one after it does.
func TestSaidToHaveEnded(t *testing.T) {
	now := serving("abc", 1, 2, 3)
	said, err := now.End("a", 1)
	if err != nil {
		t.Fatal(err)
	}
	g := now.Shards[0].Generation
	for _, tt := range []struct {
		self transport.ID
		ends bool
	}{{1, true}, {2, false}} {
		a := NewAcceptor(tt.self, []string{"a", "b", "c"})
		a.Learn(now)
		if a.Fenced() || a.Ended() || !a.Votes(0, g) {
			t.Fatalf("%v is fenced before it knows", tt.self)
		}
		if !a.Learn(said) || a.Ended() != tt.ends || a.Fenced() != tt.ends || a.Votes(0, g) == tt.ends || (a.Serves(said.Stamp) != nil) != tt.ends || a.Confirm(said, Ballot{}) == tt.ends {
			t.Errorf("%v has ended %v, is fenced %v, votes %v, decides: %v", tt.self, a.Ended(), a.Fenced(), a.Votes(0, g), a.Serves(said.Stamp))
		}
		if _, err := a.Call(Call{Ballot: Ballot{9, 2}, List: said.List(), Roster: ids{1, 2, 3}}); errors.Is(err, errEnded) != tt.ends {
			t.Errorf("%v answers a roll call: %v", tt.self, err)
		}
	}
	next, err := said.Bind("a", env.Member{ID: 4}, said.List())
	a := NewAcceptor(4, said.List())
	if err != nil || !a.Learn(next) || a.Fenced() || !a.Votes(0, g) {
		t.Errorf("the next incarnation: %v, %+v", err, a.Report())
	}
}
