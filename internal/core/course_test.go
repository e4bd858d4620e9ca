package core

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lockmesh/mesh/internal/env"
	"github.com/lockmesh/mesh/internal/founding"
	"github.com/lockmesh/mesh/transport"
)

// course is a course of events, told step by step: which incarnation lives at each entry, and what it has done.
type course struct {
	*testing.T
	at map[string]*Acceptor
}

// started returns a course in which incarnation i lives at the ith entry of a list.
func started(t *testing.T, list string) *course {
	c := &course{t, make(map[string]*Acceptor)}
	for i, e := range strings.Split(list, "") {
		c.start(e, transport.ID(i+1), list)
	}
	return c
}

func (c *course) start(entry string, id transport.ID, list string) {
	c.at[entry] = NewAcceptor(id, strings.Split(list, ""))
}

func (c *course) node(id transport.ID) *Acceptor {
	for _, a := range c.at { // order-free: one has it
		if a.self == id {
			return a
		}
	}
	c.Fatalf("incarnation %d has ended", id)
	return nil
}

// next returns what the node of an entry does by what it hears from the entries in reach.
func (c *course) next(entry, reach string) Action {
	told := make(map[string]Report)
	for _, e := range strings.Split(reach, "") {
		r := c.at[e].Report()
		if e != entry {
			own := c.at[entry].Report()
			r.Asked = own.Mark()
		}
		told[e] = r
	}
	a, _ := Next(c.at[entry].self, told)
	return a
}

// begins returns the roll call that the node of an entry begins.
func (c *course) begins(entry, reach string) Call {
	c.Helper()
	b, is := c.next(entry, reach).(Begin)
	if !is {
		c.Fatalf("%s begins no roll call with %s", entry, reach)
	}
	return b.Call
}

// waits fails the test if the node of an entry begins a roll call.
func (c *course) waits(entry, reach string) {
	c.Helper()
	if b, is := c.next(entry, reach).(Begin); is {
		c.Errorf("%s begins %+v", entry, b.Call)
	}
}

// answer makes an incarnation answer a roll call.
func (c *course) answer(call Call, id transport.ID) Report {
	c.Helper()
	r, err := c.node(id).Call(call)
	if err != nil {
		c.Fatal(id, err)
	}
	return r
}

// value returns the value of a roll call that its whole roster has answered. New generations of shards have these voters.
func (c *course) value(call Call, voters ...transport.ID) *Table {
	c.Helper()
	answers := make([]Report, len(call.List))
	for i, id := range call.Roster {
		if id != 0 {
			answers[i] = c.answer(call, id)
		}
	}
	fresh := &Table{Mesh: 8, Params: founding.Params{MaxTTL: longer}, Shards: make([]Shard, 1)}
	return call.Value(answers, fresh, func(int) []transport.ID { return voters })
}

func (c *course) accept(t *Table, by ...transport.ID) {
	c.Helper()
	for _, id := range by {
		if err := c.node(id).Propose(t); err != nil {
			c.Fatal(id, err)
		}
	}
}

// roll carries out a roll call.
func (c *course) roll(call Call, voters ...transport.ID) *Table {
	c.Helper()
	t := c.value(call, voters...)
	asked := slices.DeleteFunc(slices.Clone(call.Roster), func(id transport.ID) bool { return id == 0 })
	c.accept(t, asked...)
	for _, id := range asked {
		c.node(id).Learn(t)
	}
	return t
}

// decide makes next the version after prev, with these nodes.
func (c *course) decide(prev, next *Table, by ...transport.ID) *Table {
	c.Helper()
	b := Ballot{prev.Stamp.Version + 1, by[0]}
	if n := len(slices.DeleteFunc(prev.Bound(), func(id transport.ID) bool { return !slices.Contains(by, id) })); n < Majority(len(prev.Bound())) {
		c.Fatalf("%d are no majority", n)
	}
	for _, id := range by {
		if _, accepted, err := c.node(id).Read(Read{b, prev.Stamp}); err != nil || accepted != nil {
			c.Fatal(id, err, accepted)
		}
	}
	for _, id := range by {
		if err := c.node(id).Write(b, prev.Stamp, next); err != nil {
			c.Fatal(id, err)
		}
	}
	for _, id := range by {
		c.node(id).Learn(next)
	}
	return next
}

// proposes makes the version that the node of an entry proposes next.
func (c *course) proposes(prev *Table, entry, reach string, by ...transport.ID) *Table {
	c.Helper()
	p, is := c.next(entry, reach).(Propose)
	if !is {
		c.Fatalf("%s proposes nothing with %s", entry, reach)
	}
	return c.decide(prev, p.Table, by...)
}

// order makes a list the ordered one, which the nodes of these entries keep.
func (c *course) order(t *Table, list, entries string, by ...transport.ID) *Table {
	c.Helper()
	next := must(t.Order(strings.Split(list, "")))(c.T)
	for _, e := range strings.Split(entries, "") {
		c.at[e].SetList(strings.Split(list, ""))
	}
	return c.decide(t, next, by...)
}

func must(t *Table, err error) func(*testing.T) *Table {
	return func(tt *testing.T) *Table {
		tt.Helper()
		if err != nil {
			tt.Fatal(err)
		}
		return t
	}
}

// Promise: G1, C4: a short call goes on from a generation that is known to be decided, and from no call that some have
// accepted.
// Method: of a, b and c, the seat of c is vacant. c is back, b restarts, and calls all three; a is cut off before it has
// accepted. If b and c went on without it, c might later serve with another entry's node, d; and a, which knows of none of
// that, with the next incarnation of b.
func TestNoShortCallFromOneThatMayBeUndecided(t *testing.T) {
	for _, by := range [][]transport.ID{{3, 12}, {3}} {
		c := started(t, "abc")
		v := c.roll(c.begins("a", "abc"), 1, 2)
		c.decide(v, must(v.Vacate("c", 3))(t), 1, 2)
		c.start("b", 12, "abc")
		c.accept(c.value(c.begins("b", "abc"), 3, 12), by...)
		c.waits("c", "bc")
		c.waits("b", "bc")
	}
}

// Promise: G1, C4, C11: no short call while a list changes.
// Method: a, b and c drop c. b and c, which are fenced, would call without a; their generation drops c. Then a and b call each
// other, and c, which is no entry any more, counts as one that may live in the generation before.
func TestNoShortCallWhileAListIsOrdered(t *testing.T) {
	c := started(t, "abc")
	call := c.begins("a", "abc")
	v := c.roll(call, 1, 2)
	v = c.order(v, "ab", "ab", 1, 2, 3)
	for range 2 { // a and b have it
		v = c.proposes(v, "a", "abc", 1, 2, 3)
	}
	call.Ballot = Ballot{5, 1} // some call that two have promised
	c.answer(call, 2)
	c.answer(call, 3)
	c.waits("c", "bc")
	c.waits("b", "bc")
}

// Promise: G1, C4, C11: no short call while a node that was dropped votes.
// Method: d gives its place to e. c and d have the votes of a shard, and are cut off together; b has restarted.
func TestNoShortCallWhileTheDroppedVotes(t *testing.T) {
	c := started(t, "abcd")
	v := c.roll(c.begins("a", "abcd"), 3, 4)
	v = c.order(v, "abce", "abc", 1, 2, 3, 4)
	c.start("e", 5, "abce")
	for range 4 { // three have it, and it is in force
		v = c.proposes(v, "a", "abcde", 1, 2, 3, 4)
	}
	v = c.proposes(v, "a", "abce", 1, 2, 3) // binds e
	c.node(5).Learn(v)
	c.start("b", 12, "abce")
	c.waits("a", "abe")
	v = c.decide(v, must(v.Bind("b", env.Member{ID: 12}, c.at["b"].list))(t), 1, 3, 5)
	c.node(12).Learn(v)
	v = c.decide(v, must(v.Move(0, ids{1, 3}))(t), 1, 3, 5)
	c.decide(v, must(v.Settle(0, v.Shards[0].Generation, v.Shards[0].Move, true))(t), 1, 3, 5)
	c.start("b", 22, "abce") // it votes no more, and c alone is cut off
	if r := c.roll(c.begins("a", "abe"), 1, 5); !slices.Equal(r.Bound(), ids{1, 3, 5, 22}) {
		t.Errorf("it goes on as %+v", r)
	}
}

// Promise: G1, C4, C11: no short call where one that answers has another list.
// Method: of six, f is silent, and d and e restart with a list without f. e calls the roll of that list, which a and b never
// accept. c, d and e would go on without them; then e restarts, and a, b and f are a majority that knows of none of that.
func TestNoShortCallAcrossLists(t *testing.T) {
	c := started(t, "abcdef")
	c.roll(c.begins("a", "abcdef"), 1, 2, 6)
	c.start("d", 14, "abcde")
	c.start("e", 15, "abcde")
	c.accept(c.value(c.begins("e", "abcde"), 3, 14), 3, 14, 15)
	c.waits("c", "cde")
	told := make(map[string]Report)
	for _, e := range []string{"c", "d", "e"} {
		told[e] = c.at[e].Report()
	}
	if a := beginWithout(3, strings.Split("abcde", ""), told); a != nil {
		t.Errorf("the rules allow %+v", a)
	}
}

// Promise: C4: where the list is settled, and the generation is decided, a call is short still.
func TestShortAfterAChangeOfTheList(t *testing.T) {
	c := started(t, "abc")
	v := c.roll(c.begins("a", "abc"), 1, 2)
	v = c.decide(v, must(v.SetMaxTTL(time.Hour))(t), 1, 2, 3)
	v = c.order(v, "abcd", "abc", 1, 2, 3)
	c.start("d", 4, "abcd")
	for range 4 { // three have it, and it is in force
		v = c.proposes(v, "a", "abcd", 1, 2, 3)
	}
	v = c.proposes(v, "a", "abcd", 1, 2, 3) // binds d
	c.node(4).Learn(v)
	c.start("b", 12, "abcd")
	if r := c.roll(c.begins("a", "abd"), 1, 4); r.Params.Raise != v.Params.Raise || !slices.Equal(r.Bound(), ids{1, 3, 4, 12}) {
		t.Errorf("it goes on as %+v", r)
	}
}

// duel is a generation that last has accepted, and not learned when it calls again: nobody else promises that, and it is
// released.
func (c *course) duel(list, caller, last string, voters ...transport.ID) *Table {
	c.Helper()
	t := c.value(c.begins(caller, list), voters...)
	c.accept(t, t.Bound()...)
	call, l := c.begins(last, list), c.at[last]
	c.answer(call, l.self)
	for _, id := range t.Bound() {
		c.node(id).Learn(t)
		if id != l.self && !c.node(id).Confirm(t, call.Ballot) {
			c.Fatal("not confirmed")
		}
	}
	if !l.Release(t, call.Ballot) {
		c.Fatal("not released")
	}
	return t
}

// restart starts the next incarnation at an entry, and another entry's node has it bound.
func (c *course) restart(t *Table, entry string, id transport.ID, list, other string, by ...transport.ID) *Table {
	c.Helper()
	c.start(entry, id, list)
	t = c.proposes(t, other, list, by...)
	for _, id := range t.Bound() {
		c.node(id).Learn(t)
	}
	return t
}

// move gives the shard other voters.
func (c *course) move(t *Table, to ids, by ...transport.ID) *Table {
	c.Helper()
	t = c.decide(t, must(t.Move(0, to))(c.T), by...)
	return c.decide(t, must(t.Settle(0, t.Shards[0].Generation, t.Shards[0].Move, true))(c.T), by...)
}

// Promise: G1, C4: a roll call that was decided counts, though one that it did not ask was released from a later ballot once.
// Method: d was released from a call of its own; the others restart one after the other, and nobody remembers that they
// refused it. d is cut off, c restarts, and a, b and c call without d. b and c learn the outcome, their shard serves in a new
// generation, and they restart. Then d is back. a has accepted that call, and d must not make it void.
func TestWhoWasNotAskedMakesNoCallVoid(t *testing.T) {
	c := started(t, "abcd")
	c.start("d", 90, "abcd")
	v := c.duel("abcd", "a", "d", 1, 90)
	v = c.move(v, ids{3, 90}, 1, 2, 3, 90)
	v = c.restart(v, "a", 11, "abcd", "b", 2, 3, 90)
	v = c.move(v, ids{11, 90}, 11, 2, 3, 90)
	v = c.restart(v, "b", 12, "abcd", "a", 11, 3, 90)
	v = c.restart(v, "c", 13, "abcd", "a", 11, 12, 90)
	c.start("c", 14, "abcd")
	short := c.value(c.begins("b", "abc"), 12, 14)
	c.accept(short, 11, 12, 14)
	c.node(12).Learn(short)
	c.node(14).Learn(short)
	if short.Shards[0].Generation == v.Shards[0].Generation {
		t.Fatalf("the shard goes on: %+v", short.Shards[0])
	}
	c.start("b", 22, "abcd")
	c.start("c", 24, "abcd")
	r := c.roll(c.begins("a", "abcd"), 22, 24)
	if r.Shards[0].Generation == v.Shards[0].Generation {
		t.Errorf("%v was decided, and %v goes on from %v: %+v", short.Stamp, r.Stamp, v.Stamp, r.Shards[0])
	}
}

// Promise: G1, C4: a short call has no value if one of its roster has ended, and the next incarnation was bound since.
// Method: of six, e is silent, a is fenced, and f has restarted. a calls without e. f answers, and restarts again; e is back,
// and four bind the next incarnation, before they answer. That was not asked, and lives.
func TestWhoWasBoundSinceWasNotAsked(t *testing.T) {
	for _, learns := range []bool{true, false} {
		c := started(t, "abcdef")
		c.start("a", 50, "abcdef")
		call := c.begins("a", "abcdef")
		v := c.roll(call, 4, 5)
		call.Ballot.Round = 9
		c.answer(call, 50)
		c.start("f", 16, "abcdef")
		short := c.begins("a", "abcdf")
		answers := []Report{c.answer(short, 50), {}, {}, {}, {}, c.answer(short, 16)}
		c.start("f", 26, "abcdef")
		if learns {
			c.proposes(v, "b", "bcdef", 2, 3, 4, 5)
		} else {
			p := c.next("b", "bcdef").(Propose)
			for _, id := range []transport.ID{2, 3, 4, 5} {
				if err := c.node(id).Write(Ballot{1, 2}, v.Stamp, p.Table); err != nil {
					t.Fatal(id, err)
				}
			}
		}
		for i, id := range []transport.ID{2, 3, 4} {
			answers[i+1] = c.answer(short, id)
		}
		if got := short.Value(answers, nil, func(int) []transport.ID { return ids{50, 2} }); got != nil {
			t.Errorf("learned %t: the value is %+v", learns, got)
		}
	}
}

// Promise: G1, C4, C11: of five, no call leaves out two. The next list might drop one of those that took part: with those two it would
// be a majority of the generation before.
func TestNoShortCallWithoutTwoOfFive(t *testing.T) {
	c := started(t, "abcde")
	call := c.begins("a", "abcde")
	c.roll(call, 1, 2)
	call.Ballot = Ballot{9, 3}
	for _, id := range []transport.ID{1, 2, 3} {
		c.answer(call, id)
	}
	c.waits("a", "abc")
}

// outdated fails the test if a roll call has a value by these answers.
func (c *course) outdated(call Call, answers []Report) {
	c.Helper()
	if t := call.Value(answers, nil, func(int) []transport.ID { return call.Roster[:2] }); t != nil {
		c.Errorf("it has the value %+v", t)
	}
}

// Promise: G1, C4: a roll call has no value once a later incarnation than one of its roster was bound: it could not be decided, and
// whoever accepted it would take what the later one knows for over.
// Method: e calls by reports from before anybody learned that the mesh was founded. b, c and d answer, restart, and are bound, one
// after the other, by those that have not answered yet; they are a majority. a answers last.
func TestNoValueForThoseWhoEnded(t *testing.T) {
	c := started(t, "abcde")
	v := c.value(c.begins("a", "abcde"), 1, 2)
	c.accept(v, 1, 2, 3, 4, 5)
	call, answers := c.begins("e", "abcde"), make([]Report, 5)
	answers[4] = c.answer(call, 5)
	for _, id := range []transport.ID{1, 2, 3, 4} {
		c.node(id).Learn(v)
	}
	for i, by := range []ids{{1, 3, 4}, {1, 12, 4}, {1, 12, 13}} {
		at, entry, next := i+1, string(rune('b'+i)), transport.ID(12+i)
		answers[at] = c.answer(call, transport.ID(at+1))
		c.start(entry, next, "abcde")
		v = c.proposes(v, "a", "abcd", by...)
		c.node(next).Learn(v)
	}
	answers[0] = c.answer(call, 1)
	c.outdated(call, answers)
}

// Promise: G1, C4: so too where short calls bound the later incarnations.
// Method: of three, the seat of c is vacant, and c calls all. b answers, and restarts; a and the next b go on by a short call. Then a
// answers c. And of four, d is not asked by two short calls, and its own call is answered by those that they bound, or that ended.
func TestNoValueAfterShortCalls(t *testing.T) {
	c := started(t, "abc")
	call := c.begins("c", "abc")
	v := c.roll(c.begins("a", "abc"), 1, 2)
	call.Ballot.Round = 8 // some call that c alone has promised
	c.answer(call, 3)
	c.decide(v, must(v.Vacate("c", 3))(t), 1, 2)
	c.start("b", 12, "abc")
	call = c.begins("c", "abc")
	answers := []Report{{}, c.answer(call, 12), c.answer(call, 3)}
	c.start("b", 22, "abc")
	c.roll(c.begins("a", "ab"), 1, 22)
	answers[0] = c.answer(call, 1)
	c.outdated(call, answers)

	c = started(t, "abcd")
	call = c.begins("d", "abcd")
	c.roll(c.begins("a", "abcd"), 1, 2)
	call.Ballot.Round = 8 // some call that b and d have promised
	c.answer(call, 4)
	c.answer(call, 2)
	call = c.begins("d", "abcd")
	answers = []Report{{}, c.answer(call, 2), {}, c.answer(call, 4)}
	c.start("b", 12, "abcd")
	c.roll(c.begins("a", "abc"), 1, 12)
	answers[2] = c.answer(call, 3)
	c.start("c", 13, "abcd")
	c.roll(c.begins("a", "abc"), 1, 12)
	answers[0] = c.answer(call, 1)
	c.outdated(call, answers)
}

// Promise: G6, C4: an incarnation that was to be bound, and ended before, makes no call outdated that began after that.
// Method: of four, d is silent. a alone has accepted a version that binds the next b, which restarts.
func TestWhoEndedBeforeTheCallMakesItNotOutdated(t *testing.T) {
	c := started(t, "abcd")
	v := c.roll(c.begins("a", "abcd"), 1, 2)
	c.start("b", 12, "abcd")
	if err := c.node(1).Write(Ballot{1, 1}, v.Stamp, c.next("a", "abcd").(Propose).Table); err != nil {
		t.Fatal(err)
	}
	c.start("b", 22, "abcd")
	if r := c.roll(c.begins("a", "abc"), 1, 3); !slices.Equal(r.Bound(), ids{1, 3, 4, 22}) {
		t.Errorf("it goes on as %+v", r)
	}
}

// Promise: G1, C4: what anybody shows makes a call outdated, also if the call would go on from something else.
// Method: of three, a calls all, and c answers. The seat of a is vacant, c restarts, and b and the next c go on by a short call.
// Then b answers a. By what c said, the generation before may live; but the c that said it has ended.
func TestNoValueBesideALaterGeneration(t *testing.T) {
	c := started(t, "abc")
	call := c.begins("a", "abc")
	v := c.roll(call, 2, 3)
	call.Ballot = Ballot{9, 1} // some call that a had begun before
	answers := []Report{{}, {}, c.answer(call, 3)}
	next := must(v.Vacate("a", 1))(t)
	if err := c.node(1).Write(Ballot{1, 2}, v.Stamp, next); err != nil { // a accepts it, and does not hear that it was decided
		t.Fatal(err)
	}
	c.node(2).Learn(next)
	answers[0] = c.answer(call, 1)
	c.start("c", 13, "abc")
	c.roll(c.begins("b", "bc"), 2, 13)
	answers[1] = c.answer(call, 2)
	c.outdated(call, answers)
}

// Promise: G6, C4: a caller has heard of those that are bound in what others have accepted, and that have ended.
// Method: b accepts the value of a's call, and a ends before it does so itself. The next one at its entry calls: what b told before
// names who is bound in that value, and not the value.
func TestWhatOthersAcceptedIsHeardOf(t *testing.T) {
	c := started(t, "ab")
	c.accept(c.value(c.begins("a", "ab"), 1, 2), 2)
	c.start("a", 11, "ab")
	own, b := c.at["a"].Report(), c.at["b"].Report()
	b.Accepts, b.Proposed, b.Asked = b.Proposed.Bound(), nil, own.Mark()
	action, _ := Next(11, map[string]Report{"a": own, "b": b})
	begin, is := action.(Begin)
	if !is {
		t.Fatalf("it does %#v", action)
	}
	if c.value(begin.Call, 2, 11) == nil {
		t.Error("the call has no value")
	}
}

// leftOut returns what a and c decide after they have called the roll without b, which is cut off from c. Either the seat of b was
// vacated before, and c has restarted: then the next incarnation of c answers, and b gets its seat back. Or a and c had promised a call
// that b has begun, and remember everything.
func (c *course) leftOut(vacant bool) *Table {
	c.Helper()
	call, last := c.begins("a", "abc"), transport.ID(3)
	v := c.roll(call, 1, 3)
	if vacant {
		c.decide(v, must(v.Vacate("b", 2))(c.T), 1, 3)
		last = 13
		c.start("c", last, "abc")
	} else {
		call.Ballot = Ballot{5, 2}
		c.answer(call, 1)
		c.answer(call, 3)
	}
	if v = c.roll(c.begins("a", "ac"), 1, last); vacant {
		v = c.proposes(v, "a", "abc", 1, last)
	}
	return c.decide(v, must(v.SetMaxTTL(time.Hour))(c.T), 1, last)
}

// goesOn fails the test if the next roll call of a and b goes on without what t has.
func (c *course) goesOn(t *Table) {
	c.Helper()
	if r := c.roll(c.begins("a", "ab"), 1, 2); r.Params != t.Params {
		c.Errorf("%v goes on without what %v has: %+v, want %+v", r.Stamp, t.Stamp, r.Params, t.Params)
	}
}

// Promise: G1, C4, C11: what is decided after a short call of three is not lost where the list drops an entry.
// Method: a and c drop c, before b has heard of any of that. Of the two that are bound then, b does not act by that generation. The
// one before has no majority either: the node that was bound at c's entry has promised the call that was decided, or has ended.
func TestWhoWasAskedActsByNoEarlierGeneration(t *testing.T) {
	for _, vacant := range []bool{false, true} {
		c := started(t, "abc")
		v := c.leftOut(vacant)
		last := c.at["c"].self
		v = c.order(v, "ab", "a", 1, last)
		for range 2 { // a has it, and it is in force
			v = c.proposes(v, "a", "abc", 1, last)
		}
		if !slices.Equal(v.Bound(), ids{1, 2}) {
			t.Fatalf("bound are %v", v.Bound())
		}
		c.goesOn(v)
	}
}

// Promise: G1, C4, C11: so too where a roll call drops the entry, and is not decided.
// Method: a has the next list, and calls b alone. b answers, and only a has accepted the value when it calls again.
func TestWhoHasPromisedActsByNoEarlierGeneration(t *testing.T) {
	for _, vacant := range []bool{false, true} {
		c := started(t, "abc")
		v := c.leftOut(vacant)
		c.at["a"].SetList(list("ab"))
		c.accept(c.value(c.begins("a", "ab"), 1, 2), 1)
		c.goesOn(v)
	}
}
