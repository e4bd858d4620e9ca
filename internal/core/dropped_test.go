package core

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/lockmesh/mesh/transport"
)

// What a roll call goes on from if nobody remembers the mesh but a node that was dropped from its list, and runs on.

const usual, longer = 10 * time.Second, time.Minute

// dropping returns a course in which the nodes of a list serve, and the version that drops its entries but those of the next list. Of
// these, the nodes of some have the next list already.
func dropping(t *testing.T, list, next, have string) (*course, *Table) {
	t.Helper()
	c := started(t, list)
	old := serving(list, 1, 2)
	old.Params.MaxTTL = usual
	for _, a := range c.at {
		a.table = old
	}
	now := must(old.Relist(strings.Split(next, "")))(t)
	for _, e := range strings.Split(have, "") {
		now = must(now.Start(e, strings.Split(next, "")))(t)
	}
	return c, now
}

// raised returns t with a raise of MaxTTL in force.
func raised(t *testing.T, now *Table) *Table {
	t.Helper()
	return must(must(now.SetMaxTTL(longer))(t).Raise())(t)
}

// restarts starts the next incarnations at entries.
func (c *course) restarts(entries, list string) {
	for _, e := range strings.Split(entries, "") {
		c.start(e, c.at[e].self+10, list)
	}
}

// Promise: C5, C11: no mesh goes on from what a dropped node remembers alone: it may not know of a raise of MaxTTL that was in force.
// Method: c was dropped, MaxTTL was raised, and all that knew restart. Then c calls them.
func TestTheDroppedDoNotKnowOfARaise(t *testing.T) {
	c, now := dropping(t, "abcd", "abd", "abd")
	raised(t, now)
	c.restarts("abd", "abd")
	v := c.roll(c.begins("c", "abcd"), 11, 12, 14)
	if v.Mesh == 7 || v.Params.MaxTTL != longer {
		t.Errorf("it goes on: %+v", v)
	}
	if !c.at["c"].Left(7) {
		t.Error("c may go back to the mesh before, in which it has forgotten what it accepted")
	}
	if p, is := c.next("a", "abcd").(Propose); !is || strings.Join(p.Table.List(), "") != "abd" {
		t.Errorf("the list of those that were started again is not the next one: %+v", p.Table)
	}
}

// Promise: C5, C11: so too of two dropped nodes, whichever of them calls.
func TestTwoDroppedDoNotKnowOfARaise(t *testing.T) {
	for _, caller := range []struct{ entry, reach string }{{"e", "abcde"}, {"d", "abcd"}} {
		c, now := dropping(t, "abcde", "abcd", "abcd")
		for _, e := range []string{"a", "b", "c", "d"} {
			c.at[e].table = now
			c.at[e].SetList(strings.Split("abcd", ""))
		}
		now = must(now.Relist(strings.Split("abc", "")))(t)
		for _, e := range []string{"a", "b", "c"} {
			now = must(now.Start(e, strings.Split("abc", "")))(t)
		}
		raised(t, now)
		c.restarts("abc", "abc")
		if v := c.roll(c.begins(caller.entry, caller.reach), 11, 12, 13); v.Mesh == 7 {
			t.Errorf("%s calls, and it goes on: %+v", caller.entry, v.Params)
		}
	}
}

// Promise: C5, C11: so too of a node that has accepted the decision which drops it, or learned of it, though the next incarnations have it on
// their list again.
// Method: of a, which serves alone, and b the list becomes a, b, and a again, since a still runs with that list. MaxTTL is raised, a restarts
// with the list a, b, and b calls. (Walk 97318 of the model.)
func TestTheTakenBackDoNotKnowOfARaise(t *testing.T) {
	for _, learned := range []bool{false, true} {
		c := started(t, "ab")
		c.at["a"].SetList([]string{"a"})
		old := serving("ab", 1, 2)
		old.Params.MaxTTL = usual
		now := must(old.Relist([]string{"a"}))(t)
		for _, a := range c.at {
			a.table = old
		}
		c.decide(old, now, 1, 2)
		if !learned {
			b := NewAcceptor(2, []string{"a", "b"})
			b.table = old
			if err := b.Write(Ballot{1, 1}, old.Stamp, now); err != nil {
				t.Fatal(err)
			}
			c.at["b"] = b
		}
		raised(t, must(now.Start("a", []string{"a"}))(t))
		c.restarts("a", "ab")
		if v := c.roll(c.begins("b", "ab"), 11, 2); v.Mesh == 7 || v.Params.MaxTTL != longer {
			t.Errorf("it goes on: %+v; b has learned what dropped it: %v", v.Params, learned)
		}
	}
}

// Promise: C5, C11: so too of a node that was bound by a call, where another one that was bound may have called again without it.
// Method: b comes with the list a, b to a, which serves alone. a accepts the value of b's call, and then calls by its own list, which has no b.
// MaxTTL is raised, b completes its call, a restarts with the list a, b, and b calls. (Walk 103998 of the model.)
func TestACallWithoutOneThatWasBound(t *testing.T) {
	c := started(t, "a")
	c.start("b", 2, "ab")
	old := serving("a", 1)
	old.Params.MaxTTL = usual
	c.at["a"].table = old
	both := c.value(Call{Ballot: Ballot{5, 2}, List: []string{"a", "b"}, Roster: []transport.ID{1, 2}}, 1, 2)
	c.accept(both, 1)
	now := c.roll(c.begins("a", "a"), 1)
	if now.Mesh != 7 {
		t.Fatalf("a does not go on: %+v", now)
	}
	raised(t, now)
	c.accept(both, 2)
	c.at["b"].Learn(both)
	c.restarts("a", "ab")
	if v := c.roll(c.begins("b", "ab"), 11, 2); v.Mesh == 7 || v.Params.MaxTTL != longer {
		t.Errorf("it goes on: %+v", v.Params)
	}
}

// Promise: C5: so too of a node that was released from a roll call and has no seat in what it was shown then: no raise waits for it.
// Method: c has ended, and its successor is shown the table in which c has the seat. MaxTTL is raised, the three others restart, and the
// successor calls them. (Walk 169603 of the model.) But one whose seat is vacant is believed: a raise waits for it.
func TestWhoHasNoSeatDoesNotKnowOfARaise(t *testing.T) {
	for _, vacant := range []bool{false, true} {
		list := "abcd"
		if vacant {
			list = "abc"
		}
		c := started(t, list)
		old := serving(list, 1, 2)
		old.Params.MaxTTL = usual
		if vacant {
			old = must(old.Vacate("c", 3))(t)
		} else {
			raised(t, old)
		}
		c.restarts(list, list)
		promised := Ballot{9, 12}
		c.answer(Call{Ballot: promised, List: strings.Split(list, ""), Roster: []transport.ID{0, 0, 13, 0}[:len(list)]}, 13)
		if !c.at["c"].Release(old, promised) {
			t.Fatal("it is not released")
		}
		v := c.roll(c.begins("c", list), 11, 12)
		if goesOn := v.Mesh == 7; goesOn != vacant || !vacant && v.Params.MaxTTL != longer {
			t.Errorf("its seat is vacant: %v; it goes on: %+v", vacant, v.Params)
		}
	}
}

// Promise: C4, C5: but what most of those that are bound live to show counts.
// Method: a had the next list already, which has no b, and restarts. c was dropped before, and calls a and b; d, which is not on its list, lives.
// (Walk 113850 of the model.)
func TestACallWithoutOneThatMostRemember(t *testing.T) {
	c := started(t, "abd")
	old := must(serving("abd", 1, 2).Start("a", []string{"a", "d", "e"}))(t)
	for _, a := range c.at {
		a.table = old
	}
	c.start("c", 3, "abc")
	c.restarts("a", "abd")
	v := c.value(Call{Ballot: Ballot{9, 3}, List: []string{"a", "b", "c"}, Roster: []transport.ID{11, 2, 3}}, 2, 3)
	if v.Mesh != 7 {
		t.Errorf("what b and d know is lost: %+v", v)
	}
}

// Promise: C5, C11: so too of a node of three whose seat was vacant when its entry was dropped.
func TestTheVacatedDoNotKnowOfARaise(t *testing.T) {
	c := started(t, "abc")
	old := serving("abc", 1, 2)
	old.Params.MaxTTL = usual
	for _, a := range c.at {
		a.table = old
	}
	now := must(old.Vacate("c", 3))(t)
	if _, err := must(now.SetMaxTTL(longer))(t).Raise(); !errors.Is(err, errVacant) {
		t.Errorf("c may remember the mesh: %v", err)
	}
	now = must(now.Relist(strings.Split("ab", "")))(t)
	for _, e := range []string{"a", "b"} {
		now = must(now.Start(e, strings.Split("ab", "")))(t)
	}
	raised(t, now)
	c.restarts("ab", "ab")
	if v := c.roll(c.begins("c", "abc"), 11, 12); v.Mesh == 7 {
		t.Errorf("it goes on: %+v", v.Params)
	}
}

// Promise: C5, C11: a raise is not in force before all that have a seat have the list of now. Else their next incarnations might start
// with the list before, as the change may be taken back, and nothing would tell that the node which calls them was dropped.
func TestARaiseWaitsForTheList(t *testing.T) {
	c, now := dropping(t, "abcd", "abd", "ab")
	now = must(now.SetMaxTTL(longer))(t)
	if _, err := now.Raise(); !errors.Is(err, errOngoing) {
		t.Errorf("d has another list: %v", err)
	}
	c.restarts("ab", "abd")
	c.restarts("d", "abcd")
	if v := c.roll(c.begins("c", "abcd"), 11, 12, 14); v.Mesh != 7 || v.Params.Outlast() != usual {
		t.Errorf("no lease may last longer than c knows: %+v", v)
	}
	must(must(now.Start("d", strings.Split("abd", "")))(t).Raise())(t)

	_, now = dropping(t, "abc", "abcd", "abc") // nobody has come to d yet, and could remember anything
	raised(t, now)
}

// Promise: C5, C11: what a dropped node remembers does not go before a mesh that was founded after it, whichever ballot is higher.
// Method: a, b and d have founded anew, by the options of now. c has not heard of that. a and b restart, and c calls.
func TestTheDroppedDoNotDisplaceTheNextMesh(t *testing.T) {
	c, now := dropping(t, "abcd", "abd", "abd")
	high := *c.at["c"].table
	high.Stamp.Roll.Round = 9
	c.at["c"].table = &high
	raised(t, now)
	c.restarts("abd", "abd")
	next := c.roll(c.begins("a", "abd"), 11, 12)
	c.restarts("ab", "abd")
	if v := c.roll(c.begins("c", "abcd"), 21, 22); v.Mesh != next.Mesh || v.Mesh == 7 {
		t.Errorf("it goes on from what c remembers: %+v", v)
	}
}

// Promise: G1, C4: who is bound in a value counts among those that remember, and is no witness against the one that has accepted it.
// Method: of two, both remember, and a has the next list, without b. b calls, accepts the value alone, and calls again.
func TestWhoIsBoundIsNoWitness(t *testing.T) {
	c := started(t, "ab")
	call := c.begins("a", "ab")
	first := c.roll(call, 1, 2)
	first = c.decide(first, must(first.SetMaxTTL(time.Hour))(t), 1, 2)
	c.at["a"].SetList([]string{"a", "c"})
	call.Ballot = Ballot{8, 2}
	c.accept(c.value(call, 1, 2), 2)
	call.Ballot.Round = 9
	if v := c.value(call, 1, 2); v.Params != first.Params {
		t.Errorf("what was decided is lost: %+v", v)
	}
}
