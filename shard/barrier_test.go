package shard

import (
	"testing"
	"time"
)

func enters(who string, n uint64) Acquire { return waitsAt(who, n, "r", Barrier, 2) }

func inside(who string, n, token uint64) Report {
	return Report{Call: call(who, n), TTL: ttl, Name: who, Key: "r", Kind: Barrier, Weight: 1, Capacity: 2, Earlier: Earlier{Token: token, Known: 100}}
}

// Promise: P45.
func TestBarrier(t *testing.T) {
	round := []Command{enters("ann", 1), enters("bob", 1)} // tokens 3 and 4
	after := func(more ...Command) []Command { return append(round[:2:2], more...) }
	for _, tt := range []struct {
		name  string
		given []Command
		when  Command
		want  string
	}{
		{"who comes first waits", nil, enters("ann", 1), "a1 waits"},
		{"the last lets all in", []Command{enters("ann", 1)}, enters("bob", 1), "a1 runs 3, b1 runs 4"},
		{"a barrier for one", nil, waitsAt("ann", 1, "r", Barrier, 1), "a1 runs 2"},
		{"who comes later waits for the next round", round, enters("cid", 1), "c1 waits"},
		{"which does not begin while one is inside", after(enters("cid", 1), enters("dan", 1)), release("ann", 2, "r", 3), "a2 done"},
		{"but once all have left", after(enters("cid", 1), enters("dan", 1), enters("eve", 1), release("ann", 2, "r", 3)), release("bob", 2, "r", 4), "b2 done, c1 runs 10, d1 runs 11"},
		{"nor before as many wait", after(enters("cid", 1), release("ann", 2, "r", 3)), release("bob", 2, "r", 4), "b2 done"},
		{"who has left may come again", after(release("ann", 2, "r", 3)), enters("ann", 3), "a3 waits"},
		{"who is lost inside has left", after(enters("cid", 1), enters("dan", 1), release("ann", 2, "r", 3)), Expire{id("bob"), thisTerm}, "b ended, c1 runs 9, d1 runs 10"},
		{"who is lost before has not come", []Command{enters("ann", 1), Expire{id("ann"), thisTerm}}, enters("bob", 1), "b1 waits"},
		{"who gives up has not come", []Command{enters("ann", 1), cancel("ann", 2, 1)}, enters("bob", 1), "b1 waits"},
		{"who gives up as it gets in has left", after(enters("cid", 1), enters("dan", 1), release("ann", 2, "r", 3)), cancel("bob", 2, 1), "c1 runs 9, d1 runs 10, b2 done"},
		{"one session may come twice", []Command{enters("ann", 1)}, enters("ann", 2), "a1 runs 3, a2 runs 4"},
		{"both leave with it", []Command{enters("ann", 1), enters("ann", 2), enters("bob", 1), enters("cid", 1)}, Close{id("ann"), 3}, "a ended, b1 runs 8, c1 runs 9, a3 done"},
		{"a late one of a round leaves another one alone", after(release("ann", 2, "r", 3), release("bob", 2, "r", 4), enters("cid", 1), enters("dan", 1)), release("ann", 3, "r", 3), "a3 lost"},
		{"a barrier of another size", []Command{enters("ann", 1)}, waitsAt("bob", 1, "r", Barrier, 3), "b1 capacity"},
		{"a latch is no barrier", []Command{enters("ann", 1)}, awaits("bob", 1), "b1 capacity"},
		{"nor is a semaphore", []Command{enters("ann", 1)}, permits("bob", 1, "r", 1, 2), "b1 capacity"},
		{"once nobody waits or is inside it may become one", after(release("ann", 2, "r", 3), release("bob", 2, "r", 4)), permits("bob", 3, "r", 1, 2), "b3 runs 8"},
	} {
		t.Run(tt.name, func(t *testing.T) { tryKey(t, newTable(), tt.given, tt.when, tt.want, "") })
	}
	for _, tt := range []struct {
		name  string
		given []Command
		when  Command
		want  string
	}{
		{"who is inside is reported", nil, inside("ann", 1, 50), "a1 runs 50"},
		{"who waits is", nil, inside("ann", 1, 0), "a1 waits"},
		{"the quiet time lets nobody in", []Command{enters("ann", 1)}, enters("bob", 1), "b1 waits"},
		{"its end begins a round", []Command{enters("ann", 1), enters("bob", 1)}, Calm{Term: thisTerm}, "a1 runs 4, b1 runs 5"},
		{"unless one is inside", []Command{inside("cid", 1, 50), enters("ann", 1), enters("bob", 1)}, Calm{Term: thisTerm}, ""},
		{"more inside than there are: the latest stay", []Command{inside("ann", 1, 50), inside("bob", 1, 51)}, inside("cid", 1, 52), "a ended, c1 runs 52"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			table := NewTable(Founding{Check: true, Settles: time.Second})
			table.Enter(thisTerm, 0)
			tryKey(t, table, tt.given, tt.when, tt.want, "")
		})
	}
}
