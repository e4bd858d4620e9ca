package shard

import (
	"fmt"
	"slices"
	"testing"
	"time"
)

func campaign(who string, n uint64, value string) Acquire {
	return Acquire{Call: call(who, n), TTL: ttl, Name: who, Key: "e", Kind: Election, Weight: 1, Capacity: 1, Value: []byte(value)}
}

func proclaim(who string, n, token, sequence uint64, value string) Proclaim {
	return Proclaim{Call: call(who, n), Key: "e", Token: token, Sequence: sequence, Value: []byte(value)}
}

// leads is a report of a leadership.
func leads(who string, n, token, sequence uint64, value string) Report {
	return Report{
		Call: call(who, n), TTL: ttl, Name: who, Key: "e", Kind: Election, Weight: 1, Capacity: 1, Value: []byte(value),
		Earlier: Earlier{Token: token, Known: token}, Sequence: sequence,
	}
}

// electionOf writes down the election e: its leader, and how many wait.
func electionOf(t *Table) string {
	l, text := t.Leader("e"), "nobody"
	switch {
	case l.Quiet:
		text = "unknown"
	case l.Token != 0:
		text = fmt.Sprintf("%s says %q (%d) with %d", l.Name, l.Value, l.Sequence, l.Token)
	}
	if e := t.keys["e"]; e != nil && e.queue.len > 0 {
		text += fmt.Sprintf(", %d wait", e.queue.len)
	}
	return text
}

func TestElection(t *testing.T) {
	ann := campaign("ann", 1, "a")
	both := []Command{ann, campaign("bob", 1, "b")}
	after := func(given []Command, more ...Command) []Command { return append(slices.Clone(given), more...) }
	for _, tt := range []struct {
		name  string
		given []Command
		when  Command
		want  string // what is told
		state string
	}{
		{"the first candidate leads", nil, ann, "a1 runs 2, e led", `ann says "a" (0) with 2`},
		{"the next one waits, and nothing changes for others", []Command{ann}, campaign("bob", 1, "b"), "b1 waits", `ann says "a" (0) with 2, 1 wait`},
		{"it leads when the first resigns, with a larger token", both, release("ann", 2, "e", 2), "a2 done, b1 runs 5, e led", `bob says "b" (0) with 5`},
		{"or is lost", both, Expire{id("ann"), thisTerm}, "a ended, b1 runs 5, e led", `bob says "b" (0) with 5`},
		{"or closes its session", both, Close{id("ann"), 2}, "a ended, b1 runs 5, e led, a2 done", `bob says "b" (0) with 5`},
		{"or cancels", both, Cancel{Call: call("ann", 2), Target: 1}, "b1 runs 5, e led, a2 done", `bob says "b" (0) with 5`},
		{"then nobody leads", []Command{ann}, release("ann", 2, "e", 2), "a2 done, e led", "nobody"},
		{"a candidate that gives up changes nothing", both, Cancel{Call: call("bob", 2), Target: 1}, "b2 done", `ann says "a" (0) with 2`},

		{"a leader proclaims", []Command{ann}, proclaim("ann", 2, 2, 1, "x"), "a2 done, e led", `ann says "x" (1) with 2`},
		{"nothing is a value, too", []Command{ann}, proclaim("ann", 2, 2, 1, ""), "a2 done, e led", `ann says "" (1) with 2`},
		{"a later value takes its place", []Command{ann, proclaim("ann", 2, 2, 1, "x")}, proclaim("ann", 3, 2, 2, "y"), "a3 done, e led", `ann says "y" (2) with 2`},
		{"a late one overwrites nothing", []Command{ann, proclaim("ann", 3, 2, 2, "y")}, proclaim("ann", 2, 2, 1, "x"), "a2 done", `ann says "y" (2) with 2`},
		{"nor does a copy", []Command{ann, proclaim("ann", 2, 2, 1, "x"), proclaim("ann", 3, 2, 2, "y")}, proclaim("ann", 2, 2, 1, "x"), "a2 done", `ann says "y" (2) with 2`},
		{"who resigned proclaims nothing", after(both, release("ann", 2, "e", 2)), proclaim("ann", 3, 2, 1, "x"), "a3 lost", `bob says "b" (0) with 5`},
		{"nor who was lost", after(both, Expire{id("ann"), thisTerm}), proclaim("ann", 2, 2, 1, "x"), "a2 lost", `bob says "b" (0) with 5`},
		{"nor a candidate", both, proclaim("bob", 2, 2, 1, "x"), "b2 lost", `ann says "a" (0) with 2, 1 wait`},
		{"nor with the token of before", after(both, release("ann", 2, "e", 2), release("bob", 2, "e", 5), campaign("ann", 3, "c")), proclaim("ann", 4, 2, 1, "x"), "a4 lost", `ann says "c" (0) with 8`},
		{"what a leader proclaimed ends with it", []Command{ann, proclaim("ann", 2, 2, 9, "x"), release("ann", 3, "e", 2)}, campaign("ann", 4, "b"), "a4 runs 6, e led", `ann says "b" (0) with 6`},
		{"a lock's holder proclaims nothing", []Command{lock("ann", 1, "e")}, proclaim("ann", 2, 2, 1, "x"), "a2 lost", "nobody"},

		{"an election is no lock", []Command{ann}, lock("bob", 1, "e"), "b1 capacity", `ann says "a" (0) with 2`},
		{"nor a semaphore", []Command{ann}, permits("bob", 1, "e", 1, 1), "b1 capacity", `ann says "a" (0) with 2`},
		{"nor a lock an election", []Command{lock("bob", 1, "e")}, ann, "a1 capacity", "nobody"},
		{"nor a resource", []Command{ann}, Begin{Call: call("bob", 1), TTL: ttl, Key: "e", Operation: Operation{Op: Update}}, "b1 capacity", `ann says "a" (0) with 2`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			table := newTable()
			table.Enter(thisTerm, 0)
			for _, cmd := range tt.given {
				table.Step(cmd, nil)
			}
			if got := told(table.Step(tt.when, nil)); got != tt.want {
				t.Errorf("after %+v: Step(%+v) tells %q, want %q", tt.given, tt.when, got, tt.want)
			}
			if got := electionOf(table); got != tt.state {
				t.Errorf("then %s, want %s", got, tt.state)
			}
			table.checkAll()
			twin := restored(t, imageOf(table))
			if got := electionOf(twin); got != tt.state || twin.Sum() != table.Sum() {
				t.Errorf("restored: %s, want %s", got, tt.state)
			}
		})
	}
}

func TestElectionsInANewGeneration(t *testing.T) {
	for _, tt := range []struct {
		name  string
		given []Command
		when  Command
		want  string
		state string
	}{
		{"a leader, with what it has proclaimed", []Command{leads("ann", 1, 50, 3, "x")}, Calm{Term: thisTerm}, "", `ann says "x" (3) with 50`},
		{"until then nobody knows", nil, leads("ann", 1, 50, 3, "x"), "e led, a1 runs 50", "unknown"},
		{"a late value overwrites nothing there", []Command{leads("ann", 1, 50, 3, "x"), Calm{Term: thisTerm}}, proclaim("ann", 2, 50, 2, "w"), "a2 done", `ann says "x" (3) with 50`},
		{"a later one does", []Command{leads("ann", 1, 50, 3, "x"), Calm{Term: thisTerm}}, proclaim("ann", 2, 50, 4, "y"), "a2 done, e led", `ann says "y" (4) with 50`},
		{"of two the later leads", []Command{leads("ann", 1, 50, 3, "x"), leads("bob", 1, 60, 0, "b"), Calm{Term: thisTerm}}, Check{}, "", `bob says "b" (0) with 60`},
		{"who waits leads with a larger token", []Command{leads("ann", 1, 50, 3, "x"), campaign("bob", 1, "b"), Calm{Term: thisTerm}}, release("ann", 2, "e", 50),
			"a2 done, b1 runs 1073741878, e led", `bob says "b" (0) with 1073741878`},
		{"who was not reported leads no more", []Command{campaign("bob", 1, "b")}, Calm{Term: thisTerm}, "b1 runs 3, e led", `bob says "b" (0) with 3`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			table := NewTable(Founding{Settles: time.Hour, Check: true})
			table.Enter(thisTerm, 0)
			for _, cmd := range tt.given {
				table.Step(cmd, nil)
			}
			if got := told(table.Step(tt.when, nil)); got != tt.want {
				t.Errorf("after %+v: Step(%+v) tells %q, want %q", tt.given, tt.when, got, tt.want)
			}
			if got := electionOf(table); got != tt.state {
				t.Errorf("then %s, want %s", got, tt.state)
			}
			table.checkAll()
		})
	}
}
