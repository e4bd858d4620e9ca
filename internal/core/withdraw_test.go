package core

import (
	"slices"
	"testing"

	"github.com/lockmesh/mesh/transport"
)

// A promise to a roll call is taken back if its proposer has given it up without a value: what else was promised, or
// accepted, binds as before.
func TestWithdraw(t *testing.T) {
	now := serving("abc", 1, 2, 3)
	list := now.List()
	at := func(round uint64, by transport.ID) Ballot { return Ballot{now.Stamp.Roll.Round + round, by} }
	promise := func(b Ballot) func(*Acceptor) {
		return func(a *Acceptor) {
			if _, err := a.Call(Call{Ballot: b, List: list, Roster: ids{1, 2, 3}}); err != nil {
				t.Fatal(b, err)
			}
		}
	}
	accept := func(b Ballot) func(*Acceptor) {
		return func(a *Acceptor) {
			v := *now
			if v.Stamp = (Stamp{Roll: b}); a.Propose(&v) != nil {
				t.Fatal(b)
			}
		}
	}
	withdraw := func(by transport.ID, after, upTo uint64) func(*Acceptor) {
		first := now.Stamp.Roll.Round
		return func(a *Acceptor) { a.Withdraw(by, first+after, first+upTo) }
	}
	learn := func(b Ballot) func(*Acceptor) {
		return func(a *Acceptor) {
			v := *now
			if v.Stamp = (Stamp{Roll: b}); !a.Learn(&v) {
				t.Fatal(b)
			}
		}
	}
	release := func(promised Ballot) func(*Acceptor) {
		return func(a *Acceptor) {
			if !a.Release(now, promised) {
				t.Fatal(promised)
			}
		}
	}
	var many []func(*Acceptor)
	for n := range uint64(mostOpen + 1) {
		many = append(many, promise(at(n+1, 2)))
	}
	for _, tt := range []struct {
		name   string
		steps  []func(*Acceptor)
		roll   Ballot
		fenced bool
	}{
		{"none", nil, Ballot{}, false},
		{"a promise", []func(*Acceptor){promise(at(1, 2))}, at(1, 2), true},
		{"it is withdrawn", []func(*Acceptor){promise(at(1, 2)), withdraw(2, 0, 1)}, now.Stamp.Roll, false},
		{"that of another one is", []func(*Acceptor){promise(at(1, 2)), withdraw(3, 0, 1)}, at(1, 2), true},
		{"an earlier one is", []func(*Acceptor){promise(at(2, 2)), withdraw(2, 0, 1)}, at(2, 2), true},
		{"a later one is", []func(*Acceptor){promise(at(1, 2)), withdraw(2, 1, 2)}, at(1, 2), true},
		{"all since are", []func(*Acceptor){promise(at(2, 2)), withdraw(2, 0, 9)}, now.Stamp.Roll, false},
		{"it was promised after another one", []func(*Acceptor){promise(at(1, 3)), promise(at(2, 2)), withdraw(2, 0, 2)}, at(1, 3), true},
		{"it was promised before another one", []func(*Acceptor){promise(at(1, 3)), promise(at(2, 2)), withdraw(3, 0, 1)}, at(2, 2), true},
		{"both are withdrawn", []func(*Acceptor){promise(at(1, 3)), promise(at(2, 2)), withdraw(3, 0, 1), withdraw(2, 0, 2)}, now.Stamp.Roll, false},
		{"in another order", []func(*Acceptor){promise(at(1, 3)), promise(at(2, 2)), withdraw(2, 0, 2), withdraw(3, 0, 1)}, now.Stamp.Roll, false},
		{"its value was accepted", []func(*Acceptor){promise(at(1, 2)), accept(at(1, 2)), withdraw(2, 0, 1)}, at(1, 2), true},
		{"that of an earlier one was", []func(*Acceptor){promise(at(1, 3)), accept(at(1, 3)), promise(at(2, 2)), withdraw(2, 0, 2)}, at(1, 3), true},
		{"and is decided", []func(*Acceptor){promise(at(1, 3)), accept(at(1, 3)), promise(at(2, 2)), withdraw(2, 0, 2), learn(at(1, 3))}, at(1, 3), false},
		{"a later value is accepted", []func(*Acceptor){promise(at(1, 2)), withdraw(2, 0, 1), promise(at(2, 2)), accept(at(2, 2))}, at(2, 2), true},
		{"more than are kept apart", slices.Concat(many, []func(*Acceptor){withdraw(2, 1, 99)}), at(1, 2), true},
		{"of those the first", slices.Concat(many, []func(*Acceptor){withdraw(2, 0, 99)}), at(1, 2), true},
		{"it was released", []func(*Acceptor){promise(at(1, 3)), promise(at(2, 2)), release(at(2, 2)), withdraw(2, 0, 2)}, now.Stamp.Roll, false},
		{"it was released, and has promised again", []func(*Acceptor){promise(at(1, 3)), release(at(1, 3)), promise(at(2, 2)), withdraw(2, 0, 2)}, now.Stamp.Roll, false},
	} {
		a := NewAcceptor(1, list)
		a.Learn(now)
		marks := make(map[Mark]bool)
		for _, step := range tt.steps {
			before := a.Report()
			step(a)
			after := a.Report()
			if after.Mark() != before.Mark() && marks[after.Mark()] {
				t.Errorf("%s: the mark %v comes again", tt.name, after.Mark())
			}
			marks[before.Mark()] = true
		}
		if a.roll != tt.roll || a.Fenced() != tt.fenced || (a.Serves(a.table.Stamp) != nil) != tt.fenced {
			t.Errorf("%s: it has promised %v, and is fenced: %v; want %v, %v", tt.name, a.roll, a.Fenced(), tt.roll, tt.fenced)
		}
	}
}

// What comes late of a call that was withdrawn is refused, and the next call has a later round.
func TestCallsAfterAWithdrawal(t *testing.T) {
	now := serving("abc", 1, 2, 3)
	a := NewAcceptor(1, now.List())
	a.Learn(now)
	call := Call{Ballot: Ballot{now.Stamp.Roll.Round + 1, 2}, List: now.List(), Roster: ids{1, 2, 3}}
	if _, err := a.Call(call); err != nil {
		t.Fatal(err)
	}
	a.Withdraw(2, 0, call.Ballot.Round)
	if _, err := a.Call(call); err == nil || a.Fenced() {
		t.Errorf("a withdrawn call: %v, fenced %v", err, a.Fenced())
	}
	next, err := callOf(1, now.List(), map[string]Report{"a": a.Report(), "b": {Node: 2, List: now.List()}, "c": {Node: 3, List: now.List()}})
	if err != nil || next.Ballot.Round != call.Ballot.Round+1 {
		t.Errorf("the next call is %v: %v", next.Ballot, err)
	}
	if _, err := a.Call(next); err != nil || !a.Fenced() {
		t.Errorf("the next call: %v", err)
	}
}
