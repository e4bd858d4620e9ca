package shard

import (
	"fmt"
	"slices"
	"testing"
	"time"
)

func breaks(who string, n uint64, key string, token uint64) Break {
	return Break{Call: call(who, n), TTL: ttl, Name: who, Key: key, Token: token, Why: "it hangs"}
}

// Promise: P49: a Break names one grant, and frees nothing by itself; its session hears of it until it has given the grant back.
func TestBreak(t *testing.T) {
	ann, bob := id("ann"), id("bob")
	is := func(holder string, key string, token uint64) Event {
		return Event{What: Breached, Session: id(holder), Key: key, Token: token, Holder: holder}
	}
	broke := func(session SessionID, number, token uint64) Event {
		return Event{What: Refused, Session: session, Number: number, Token: token, Reason: Broke}
	}
	one := []Command{lock("ann", 1, "k")} // token 2
	after := func(given []Command, more ...Command) []Command { return append(slices.Clone(given), more...) }
	broken := after(one, lock("bob", 1, "k"), breaks("bob", 2, "k", 2))
	free := Free{"k", 2, thisTerm}
	freed := after(broken, free) // bob's token is 6
	full := []Command{}
	for i := range uint64(MaxBroken + 1) {
		full = append(full, lock("ann", i+1, fmt.Sprint("k", i)))
	}
	for i := range uint64(MaxBroken) {
		full = append(full, breaks("bob", i+1, fmt.Sprint("k", i), 2*i+2))
	}
	onceRuns := []Command{run("ann", 1), run("bob", 1)} // token 2
	for _, tt := range []struct {
		name   string
		given  []Command
		when   Command
		want   []Event
		broken []Breach // of ann's afterwards
	}{
		{"a grant is broken, and stays", one, breaks("bob", 1, "k", 2), []Event{opened(bob, ttl), done(bob, 1), is("ann", "k", 2)}, []Breach{{"k", 2}}},
		{"a copy changes nothing", broken, breaks("bob", 2, "k", 2), []Event{done(bob, 2)}, []Breach{{"k", 2}}},
		{"what is broken is not broken again", broken, breaks("bob", 3, "k", 2), []Event{done(bob, 3)}, []Breach{{"k", 2}}},
		{"nobody holds the key under that token", one, breaks("bob", 1, "k", 1), []Event{opened(bob, ttl), refused(bob, 1, Lost)}, nil},
		{"who waits holds nothing", after(one, lock("bob", 1, "k")), breaks("bob", 2, "k", 0), []Event{refused(bob, 2, Lost)}, nil},
		{"another key has that token", one, breaks("bob", 1, "j", 2), []Event{opened(bob, ttl), refused(bob, 1, Lost)}, nil},
		{"the grant was given back before", after(one, release("ann", 2, "k", 2)), breaks("ann", 3, "k", 2), []Event{refused(ann, 3, Lost)}, nil},
		{"one reader of two", []Command{read("ann", 1, "k"), read("bob", 1, "k")}, breaks("bob", 2, "k", 2), []Event{done(bob, 2), is("ann", "k", 2)}, []Breach{{"k", 2}}},
		{"permits", []Command{permits("ann", 1, "s", 2, 3), permits("ann", 2, "s", 1, 3)}, breaks("ann", 3, "s", 4), []Event{done(ann, 3), is("ann", "s", 4)}, []Breach{{"s", 4}}},
		{"a session has too many", full, breaks("bob", 99, "k64", 130), []Event{refused(bob, 99, Crowded)}, nil},
		{"its answer was lost, and now it is broken", broken, lock("ann", 1, "k"), []Event{broke(ann, 1, 2)}, []Breach{{"k", 2}}},
		{"its session gives it back", broken, release("ann", 2, "k", 2), []Event{done(ann, 2), granted(bob, 1, 6)}, nil},
		{"its session cancels it", broken, cancel("ann", 2, 1), []Event{granted(bob, 1, 6), done(ann, 2)}, nil},
		{"its end is not fixed any more", broken, fix("ann", 2, "k", 2, time.Minute), []Event{broke(ann, 2, 2)}, []Breach{{"k", 2}}},
		{"it is not downgraded", broken, Downgrade{call("ann", 2), "k", 2}, []Event{broke(ann, 2, 2)}, []Breach{{"k", 2}}},
		{"a leader proclaims nothing any more", []Command{campaign("ann", 1, "v"), breaks("bob", 1, "e", 2)}, proclaim("ann", 2, 2, 1, "w"), []Event{broke(ann, 2, 2)}, []Breach{{"e", 2}}},
		{"the leader frees it", broken, free, []Event{granted(bob, 1, 6)}, []Breach{{"k", 2}}},
		{"a leader of another term frees nothing", broken, Free{"k", 2, thisTerm - 1}, nil, []Breach{{"k", 2}}},
		{"nothing is freed that is not broken", one, free, nil, nil},
		{"what is free is not freed again", freed, free, nil, []Breach{{"k", 2}}},
		{"its session gives it back after that", freed, release("ann", 2, "k", 2), []Event{done(ann, 2)}, nil},
		{"its session cancels it after that", freed, cancel("ann", 2, 1), []Event{done(ann, 2)}, nil},
		{"a repeated request gets no other grant", freed, lock("ann", 1, "k"), []Event{broke(ann, 1, 2)}, []Breach{{"k", 2}}},
		{"a broken run that is freed has failed", after(onceRuns, breaks("bob", 2, "r", 2)), Free{"r", 2, thisTerm}, []Event{granted(bob, 1, 6)}, []Breach{{"r", 2}}},
		{"it succeeds before it is freed", after(onceRuns, breaks("bob", 2, "r", 2)), end("ann", 2, 2),
			[]Event{done(ann, 2), {What: Skipped, Session: bob, Number: 1, Token: 6, Quiet: retention}}, nil},
		{"or ends too late", after(onceRuns, breaks("bob", 2, "r", 2), Free{"r", 2, thisTerm}), end("ann", 2, 2), []Event{broke(ann, 2, 2)}, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			table := newTable()
			for _, cmd := range tt.given {
				table.Step(cmd, nil)
			}
			if got := table.Step(tt.when, nil); !slices.Equal(got, tt.want) {
				t.Errorf("after %+v: Step(%+v) = %+v, want %+v", tt.given, tt.when, got, tt.want)
			}
			if got := table.Breaches(ann); !slices.Equal(got, tt.broken) && len(table.Breaches(ann)) < MaxBroken {
				t.Errorf("ann is told of %v, want %v", got, tt.broken)
			}
			if twin := restored(t, imageOf(table)); twin.dump() != table.dump() {
				t.Errorf("a restored table is\n%s\nwant\n%s", twin.dump(), table.dump())
			}
		})
	}
}

// Promise: P49: what a leader must wait for it finds in its table.
func TestBroken(t *testing.T) {
	table := newTable()
	for _, cmd := range []Command{
		lock("bob", 1, "j"), lock("ann", 1, "k"), permits("ann", 2, "s", 1, 3), breaks("eve", 1, "k", 4), breaks("eve", 2, "j", 2), breaks("eve", 3, "s", 6),
		fix("bob", 2, "j", 2, time.Hour), Free{"s", 6, thisTerm},
	} {
		table.Step(cmd, nil)
	}
	k, j := Breach{"k", 4}, Breach{"j", 2}
	want := []Broken{{k, id("ann"), ttl, false}, {j, id("bob"), ttl, false}}
	if got := table.Broken(); !slices.Equal(got, want) {
		t.Errorf("Broken() = %+v, want %+v", got, want)
	}
	if got, still := table.StillBroken(k); !still || got != want[0] {
		t.Errorf("StillBroken(%v) = %+v, %v", k, got, still)
	}
	for _, over := range []Breach{{"s", 6}, {"k", 5}, {"x", 1}} {
		if got, still := table.StillBroken(over); still {
			t.Errorf("StillBroken(%v) = %+v", over, got)
		}
	}
	for _, p := range table.Inspect(Inspection{Key: "k", Most: 9}, 0).Keys[0].Holders {
		if !p.Broken {
			t.Errorf("%+v is not told as broken", p)
		}
	}
}

// Promise: P49, C8: a table that grants nothing yet says of a grant that nobody has reported that it may come; and one that was reported and is
// broken is not reported again.
func TestABreakInTheQuietTime(t *testing.T) {
	report := func(n uint64) Report {
		return Report{Call: call("ann", n), TTL: ttl, Name: "ann", Key: "k", Weight: Whole, Capacity: Whole, Earlier: Earlier{Token: 7, Known: 7}}
	}
	table := NewTable(Founding{Revision: 10, Settles: ttl, Check: true})
	table.Enter(thisTerm, 0)
	for _, tt := range []struct {
		cmd  Command
		last EventKind
		why  Reason
	}{
		{breaks("bob", 1, "k", 7), Refused, Quiet},
		{report(1), Granted, 0},
		{breaks("bob", 2, "k", 7), Breached, 0},
		{report(2), Refused, Broke},
		{Free{"k", 7, thisTerm}, 0, 0},
		{report(3), Refused, Broke},
		{breaks("bob", 3, "k", 7), Refused, Quiet},
	} {
		out := append([]Event{{}}, table.Step(tt.cmd, nil)...)
		if got := out[len(out)-1]; got.What != tt.last || got.Reason != tt.why {
			t.Errorf("Step(%+v) ends with %+v", tt.cmd, got)
		}
	}
}

// Promise: P49, P42: who carries a guest on hears which of its grants are broken, also of those that are free; and nobody can claim them.
func TestABrokenGuest(t *testing.T) {
	table := newTable()
	step := func(cmd Command) Event {
		out := append([]Event{{}}, table.Step(cmd, nil)...)
		return out[len(out)-1]
	}
	step(carry("ann", 1, 0))
	j := step(tagged(lock("ann", 2, "j"), "x")).Token
	k := step(tagged(lock("ann", 3, "k"), "x")).Token
	step(breaks("eve", 1, "j", j))
	step(Free{"j", j, thisTerm})
	step(breaks("eve", 2, "k", k))
	if got := step(carry("bob", 1, 0)); got.What != Done || got.Ahead != 0 || got.Entered != 2 {
		t.Errorf("the Carry is answered %+v; two grants are broken, and nothing else is to be claimed", got)
	}
	if got, want := table.Breaches(id("bob")), []Breach{{"j", j}, {"k", k}}; !slices.Equal(got, want) {
		t.Errorf("the next carrier is told of %v, want %v", got, want)
	}
	for i, tt := range []struct {
		cmd  Command
		want uint64
	}{{claim("bob", 2, "j", "x"), j}, {claim("bob", 3, "k", "x"), k}, {tagged(lock("bob", 4, "k"), "x"), k}} {
		if got := step(tt.cmd); got.What != Refused || got.Reason != Broke || got.Token != tt.want {
			t.Errorf("%d: Step(%+v) = %+v", i, tt.cmd, got)
		}
	}
	if twin := restored(t, imageOf(table)); twin.Sum() != table.Sum() {
		t.Error("a restored table differs")
	}
	step(release("bob", 5, "k", k))
	step(release("bob", 6, "j", j))
	if got := table.Breaches(id("bob")); len(got) > 0 || table.keys["k"] != nil {
		t.Errorf("all is given back, and the carrier is told of %v", got)
	}
}
