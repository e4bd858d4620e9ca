package core

import (
	"strings"
	"testing"
	"time"

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
		accepted bool   // its value
		shown    *Table
		learns   bool
	}{
		{"the first", nil, 0, false, at(5, 3, 7, 1), true},
		{"the first, without a seat", nil, 0, false, at(5, 3, 7, 4), false},
		{"the value of its call", nil, 5, false, at(5, 0, 7, 1), true},
		{"what follows its call", nil, 5, false, at(5, 3, 7, 1), true},
		{"an earlier one than its call", nil, 5, false, at(4, 3, 7, 1), true},
		{"a later one than its call", nil, 5, false, at(6, 3, 7, 1), true},
		{"an earlier one than it has accepted", nil, 5, true, at(4, 3, 7, 1), false},
		{"a later one than it has accepted", nil, 5, true, at(6, 3, 7, 1), false},
		{"what follows what it has accepted", nil, 5, true, at(5, 3, 7, 1), true},
		{"the next version", at(5, 3, 7, 1), 0, false, at(5, 4, 7, 1), true},
		{"the next version, and a later call", at(5, 3, 7, 1), 6, false, at(5, 4, 7, 1), true},
		{"the same version", at(5, 3, 7, 1), 0, false, at(5, 3, 7, 1), false},
		{"a version before", at(5, 3, 7, 1), 0, false, at(5, 2, 7, 1), false},
		{"a later generation", at(5, 3, 7, 1), 0, false, at(6, 0, 7, 1), false},
		{"a later generation that it promised", at(5, 3, 7, 1), 6, false, at(6, 0, 7, 1), true},
		{"a later one than it promised", at(5, 3, 7, 1), 6, false, at(7, 0, 7, 1), false},
		{"a later generation, without a seat in its own", at(5, 3, 7, 4), 0, false, at(6, 1, 7, 1), true},
		{"an earlier one, without a seat in its own", at(5, 3, 7, 4), 0, false, at(4, 1, 7, 1), false},
		{"another mesh, without a seat in its own", at(5, 3, 7, 4), 0, false, at(6, 1, 8, 1), false},
		{"a later one than it promised, without a seat in its own", at(5, 3, 7, 4), 6, false, at(7, 1, 7, 1), false},
	} {
		a, value := NewAcceptor(1, []string{"a", "b", "c"}), at(tt.promised, 0, 7, 1)
		if a.table = tt.knows; tt.promised != 0 {
			if _, err := a.Call(Call{Ballot: value.Stamp.Roll, List: a.list, Roster: ids{1, 2, 3}}); err != nil {
				t.Fatal(tt.name, err)
			}
		}
		if tt.accepted && a.Propose(value) != nil {
			t.Fatal(tt.name, "it does not accept")
		}
		if learns := a.Learn(tt.shown); learns != tt.learns {
			t.Errorf("%s: it learns that: %t", tt.name, learns)
		}
		if learned := a.table == tt.shown; learned != tt.learns {
			t.Errorf("%s: it has learned that: %t", tt.name, learned)
		}
	}
}

// Promise: G1, C4: a node that has answered a call, and said that it knew of no mesh, does not accept the value once it has learned of
// one. It answers later calls.
func TestAnAnswerThatIsOutOfDate(t *testing.T) {
	for _, round := range []uint64{1, 5} {
		c, first, call, value := unawareOfThree(t, round)
		if !c.at["b"].Learn(first) {
			t.Fatal("b does not learn")
		}
		if err := c.at["b"].Propose(value); err == nil {
			t.Errorf("round %d: b accepts it", round)
		}
		if _, err := c.at["b"].Call(call); err == nil {
			t.Errorf("round %d: b answers again", round)
		}
		call.Ballot.Round = 9
		if _, err := c.at["b"].Call(call); err != nil {
			t.Errorf("round %d: a later call: %v", round, err)
		}
	}
}

// unawareOfThree: a, b and c serve by a generation of this round. b restarts with the list ab, and is bound by a and
// c, which it has not heard. a and c decide on a MaxTTL. a restarts with the list ab, and calls; b answers, and the value founds another mesh.
func unawareOfThree(t *testing.T, round uint64) (c *course, first *Table, call Call, value *Table) {
	c = started(t, "abc")
	call = c.begins("a", "abc")
	call.Ballot.Round = round
	first = c.roll(call, 1, 3)
	c.start("b", 12, "ab")
	first = c.decide(first, must(first.Bind("b", env.Member{ID: 12}, c.at["b"].list))(t), 1, 3)
	first = c.decide(first, must(first.SetMaxTTL(time.Hour))(t), 1, 3)
	c.start("a", 11, "ab")
	call = c.begins("a", "ab")
	value = c.value(call, 11, 12)
	value.Mesh++
	return c, first, call, value
}

// hears makes a node learn if it is told so.
func (c *course) hears(entry, reach string) {
	if l, is := c.next(entry, reach).(Learn); is {
		c.at[entry].Learn(l.Table)
	}
}

// Promise: G1, C4: a node that has promised a call, and heard nothing more of it, learns of the mesh that has bound it: there
// is no other mesh, and no call that is not needed.
func TestAPromiseToOneThatEnded(t *testing.T) {
	for _, round := range []uint64{1, 5} {
		c, first, _, _ := unawareOfThree(t, round)
		c.start("a", 21, "ab")
		c.hears("b", "abc")
		if b, is := c.next("b", "abc").(Begin); is {
			if r := c.roll(b.Call, 12, 21); r.Params != first.Params {
				t.Errorf("round %d: b calls %v, and loses what was decided: %+v", round, b.Call.List, r)
			}
		}
	}
	c, first, _, _ := unawareOfThree(t, 5)
	c.start("a", 21, "abc")
	c.hears("b", "abc")
	if c.proposes(first, "c", "abc", 3, 12); c.next("c", "abc") != nil {
		t.Errorf("c does %T once it has bound a", c.next("c", "abc"))
	}
}

// Promise: C4: the same, of one list. Of five, c and e restart; e hears a and b before they bind c, which has not heard of that, and then
// the next incarnation of d. It calls, c promises that, and e ends. The shard of a and b goes on.
func TestAPromiseByOldReports(t *testing.T) {
	c := started(t, "abcde")
	first := c.roll(c.begins("a", "abcde"), 1, 2)
	c.start("c", 13, "abcde")
	c.start("e", 15, "abcde")
	own := c.at["e"].Report()
	told := map[string]Report{"e": own}
	tell := func(e string) {
		r := c.at[e].Report()
		r.Asked = own.Mark()
		told[e] = r
	}
	tell("a")
	tell("b")
	tell("c")
	first = c.decide(first, must(first.Bind("c", env.Member{ID: 13}, c.at["c"].list))(t), 1, 2, 4)
	c.start("d", 14, "abcde")
	tell("d")
	a, _ := Next(15, told)
	c.answer(a.(Begin).Call, 15)
	c.answer(a.(Begin).Call, 13)
	c.start("e", 25, "abcde")
	c.hears("c", "abcde")
	if r := c.roll(c.begins("a", "abcde"), 1, 2); r.Shards[0].Generation != first.Shards[0].Generation {
		t.Errorf("the shard begins anew: %+v", r.Shards[0])
	}
}

// Promise: G1, C4: a mesh that was to be founded, and was not, since one that was asked has not accepted it and never will, counts
// for nothing where one that answers remembers a mesh.
// Method: of unawareOfThree, a alone accepts the value. c calls, before b has heard of the mesh and after; or a and b do.
func TestAMeshThatWasNeverFounded(t *testing.T) {
	for _, tt := range []struct {
		hears      bool
		by, reach  string
		then, also transport.ID
	}{{false, "c", "abc", 3, 11}, {true, "c", "abc", 3, 11}, {true, "b", "abc", 11, 12}} {
		c, first, _, value := unawareOfThree(t, 1)
		c.accept(value, 11)
		if tt.hears {
			c.hears("b", "abc")
		}
		if r := c.roll(c.begins(tt.by, tt.reach), tt.then, tt.also); r.Params != first.Params {
			t.Errorf("%+v: what was decided is lost: %+v", tt, r)
		}
	}
}

// Promise: G1, C4: the same, where the call's ballot is the lower one.
// Method: of five, a and b are bound, which they have not heard, and f calls the roll of abcdf; f alone accepts its value. a and b hear of
// the mesh, and decide with e. Then d calls the roll of abcdf.
func TestAMeshThatWasNeverFoundedByALowerBallot(t *testing.T) {
	c := started(t, "abcde")
	call := c.begins("a", "abcde")
	call.Ballot.Round = 5
	first := c.roll(call, 1, 2, 3)
	for i, entry := range []string{"a", "b"} {
		c.start(entry, transport.ID(11+i), "abcdf")
		first = c.decide(first, must(first.Bind(entry, env.Member{ID: transport.ID(11 + i)}, c.at[entry].list))(t), 3, 4, 5)
	}
	c.start("c", 13, "abcdf")
	c.start("d", 14, "abcdf")
	c.start("f", 6, "abcdf")
	value := c.value(c.begins("f", "abcdf"), 6, 13, 14)
	value.Mesh++
	c.accept(value, 6)
	c.hears("a", "abcdef")
	c.hears("b", "abcdef")
	first = c.decide(first, must(first.SetMaxTTL(time.Hour))(t), 5, 11, 12)
	first = c.decide(first, must(first.Recover(0, nil, ids{11, 12}))(t), 5, 11, 12)
	first = c.decide(first, must(first.Relist(strings.Split("abcdf", "")))(t), 5, 11, 12)
	if r := c.roll(c.begins("d", "abcdf"), 11, 12); r.Params != first.Params {
		t.Errorf("what a, b and e decided is lost: %+v", r)
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
	second.Mesh++
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
