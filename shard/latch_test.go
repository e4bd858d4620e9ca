package shard

import (
	"slices"
	"testing"
	"time"
)

func arrives(by string, n uint64, who string) Arrive {
	return Arrive{Call: call(by, n), TTL: ttl, Name: by, Key: "r", Capacity: 2, Who: who, Retention: retention}
}

func waitsAt(who string, n uint64, key string, kind Kind, size int64) Acquire {
	return Acquire{Call: call(who, n), TTL: ttl, Name: who, Key: key, Kind: kind, Weight: 1, Capacity: size}
}

func awaits(who string, n uint64) Acquire { return waitsAt(who, n, "r", Latch, 2) }

func opens(who string, n uint64, remains time.Duration) Recall {
	return Recall{Call: call(who, n), TTL: ttl, Name: who, Key: "r", Kind: Latch, Capacity: 2, Remains: remains}
}

// Promise: P44.
func TestLatch(t *testing.T) {
	open := []Command{arrives("ann", 1, "one"), arrives("bob", 1, "two")}
	after := func(given []Command, more ...Command) []Command { return append(slices.Clone(given), more...) }
	size := func(n int64, c Arrive) Arrive { c.Capacity = n; return c }
	long := func(c Arrive) Arrive { c.Retention = 2 * retention; return c }
	awaited := func(who string, n uint64) Report {
		return Report{Call: call(who, n), TTL: ttl, Name: who, Key: "r", Kind: Latch, Weight: 1, Capacity: 2}
	}
	for _, tt := range []struct {
		name  string
		given []Command
		when  Command
		want  string
		state string
	}{
		{"one arrives", nil, arrives("ann", 1, "one"), "a1 done", "one came, until 1m0s"},
		{"who arrives again changes nothing", []Command{arrives("ann", 1, "one")}, arrives("bob", 1, "one"), "b1 done", "one came, until 1m0s"},
		{"who waits is not let through before all have come", []Command{arrives("ann", 1, "one")}, awaits("cid", 1), "c1 waits", "cid waits, one came, until 1m0s"},
		{"then all are", []Command{arrives("ann", 1, "one"), awaits("cid", 1), awaits("dan", 1)}, arrives("bob", 1, "two"), "b1 done, c1 skips 5, d1 skips 6", "run  until 1m0s"},
		{"one arrives for several", []Command{awaits("cid", 1), arrives("ann", 1, "one")}, arrives("ann", 2, "two"), "a2 done, c1 skips 4", "run  until 1m0s"},
		{"who comes later need not wait", open, awaits("cid", 1), "c1 skips 4", "run  until 1m0s"},
		{"a repeated call has the same answer", after(open, awaits("cid", 1)), awaits("cid", 1), "c1 skips 4", "run  until 1m0s"},
		{"another arrival changes nothing", open, arrives("cid", 1, "three"), "c1 done", "run  until 1m0s"},
		{"but that it is remembered for longer", open, long(arrives("cid", 1, "three")), "c1 done", "run  until 2m0s"},
		{"the longest retention counts, from the opening on", []Command{long(arrives("ann", 1, "one")), later{now: time.Second}}, arrives("bob", 1, "two"), "b1 done", "run  until 2m1s"},
		{"a latch for one", nil, size(1, arrives("ann", 1, "one")), "a1 done", "run  until 1m0s"},
		{"an open latch is forgotten in time", after(open, later{now: retention}), awaits("cid", 1), "c1 waits", "cid waits"},
		{"so are arrivals", []Command{arrives("ann", 1, "one"), later{now: retention}}, arrives("bob", 1, "two"), "b1 done", "two came, until 2m0s"},
		{"after the last one", []Command{arrives("ann", 1, "one"), later{now: retention - 1}, arrives("ann", 2, "one"), later{now: retention}}, arrives("bob", 1, "two"), "b1 done", "run  until 2m0s"},
		{"but not while somebody waits", []Command{arrives("ann", 1, "one"), awaits("cid", 1), later{now: retention}}, arrives("bob", 1, "two"), "b1 done, c1 skips 4", "run  until 2m0s"},
		{"once nobody does, they are", []Command{arrives("ann", 1, "one"), awaits("cid", 1), later{now: retention}, Check{}}, cancel("cid", 2, 1), "c2 done", ""},
		{"an arrival stays when its session ends", []Command{arrives("ann", 1, "one")}, Close{id("ann"), 2}, "a ended, a2 done", "one came, until 1m0s"},
		{"who waits leaves with its session", []Command{awaits("ann", 1)}, Expire{id("ann"), thisTerm}, "a ended", ""},

		// Kinds (P38).
		{"a latch of another size", []Command{arrives("ann", 1, "one")}, size(3, arrives("bob", 1, "two")), "b1 capacity", "one came, until 1m0s"},
		{"a wait for one of another size", []Command{arrives("ann", 1, "one")}, waitsAt("bob", 1, "r", Latch, 3), "b1 capacity", "one came, until 1m0s"},
		{"an open latch of another size", open, waitsAt("cid", 1, "r", Latch, 3), "c1 capacity", "run  until 1m0s"},
		{"a barrier is no latch", []Command{arrives("ann", 1, "one")}, waitsAt("bob", 1, "r", Barrier, 2), "b1 capacity", "one came, until 1m0s"},
		{"nor is what is done once", []Command{arrives("ann", 1, "one")}, run("bob", 1), "b1 capacity", "one came, until 1m0s"},
		{"nor is a lock", []Command{lock("ann", 1, "r")}, arrives("bob", 1, "one"), "b1 capacity", ""},

		// What is told of an earlier table.
		{"that it was open", []Command{arrives("ann", 1, "one"), awaits("cid", 1)}, opens("bob", 1, time.Second), "b1 done, c1 skips 4", "run  until 1s"},
		{"of another size", []Command{size(3, arrives("ann", 1, "one"))}, opens("bob", 1, time.Second), "b1 capacity", "one came, until 1m0s"},
		{"that somebody waited, too late", nil, awaited("ann", 1), "a1 late", ""},
	} {
		t.Run(tt.name, func(t *testing.T) { tryKey(t, newTable(), tt.given, tt.when, tt.want, tt.state) })
	}
	for _, tt := range []struct {
		name  string
		given []Command
		when  Command
		want  string
		state string
	}{
		{"who waits is reported", nil, awaited("ann", 1), "a1 waits", "ann waits"},
		{"nobody goes on in the quiet time", after(open, awaited("cid", 1)), awaits("dan", 1), "d1 waits", "cid waits, dan waits, run  until 1m0s"},
		{"then all do", after(open, awaited("cid", 1), awaits("dan", 1)), Calm{Term: thisTerm}, "c1 skips 6, d1 skips 7", "run  until 1m0s"},
		{"also if it should be forgotten by then", after(open, awaited("cid", 1), awaits("dan", 1), later{now: 2 * retention}, Check{}), Calm{Term: thisTerm}, "c1 skips 7, d1 skips 8", ""},
		{"or wait for who has not come", []Command{arrives("ann", 1, "one"), awaited("cid", 1)}, Calm{Term: thisTerm}, "", "cid waits, one came, until 1m0s"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			table := NewTable(Founding{Check: true, Settles: time.Second})
			table.Enter(thisTerm, 0)
			tryKey(t, table, tt.given, tt.when, tt.want, tt.state)
		})
	}
	table := newTable()
	table.Enter(thisTerm, 0)
	table.Step(arrives("ann", 1, "one"), nil)
	b := arrives("ann", 2, "one")
	b.Key = "s"
	table.Step(b, nil)
	b.Number, b.Who = 3, "two"
	table.Step(b, nil)
	table.Enter(thisTerm, time.Second)
	want := []Memory{{"r", Latch, 2, "one", retention}, {"s", Latch, 2, "", retention - time.Second}}
	if got := table.Memories(); !slices.Equal(got, want) {
		t.Errorf("remembered: %v, want %v", got, want)
	}
}

// Promise: P44: all that wait for a latch go on, though there are too many for one step, and it is forgotten before the last is answered.
func TestALatchWithManyWaiters(t *testing.T) {
	const waiters = 2*maxWalk + 10
	table := newTable()
	table.Enter(thisTerm, 0)
	for i := range uint64(waiters) {
		table.Step(awaits("ann", i+1), nil)
	}
	table.Step(arrives("bob", 1, "one"), nil)
	through := len(table.Step(arrives("bob", 2, "two"), nil)) - 1
	if through != maxWalk {
		t.Errorf("%d are answered in one step, want %d", through, maxWalk)
	}
	table.Enter(thisTerm, 2*retention)
	for table.Walks() != "" {
		if twin := restored(t, imageOf(table)); twin.Sum() != table.Sum() || twin.Walks() != "r" {
			t.Errorf("restored from a snapshot, %q is to be walked", twin.Walks())
		}
		for _, e := range table.Step(Walk{Key: "r", Term: thisTerm}, nil) {
			if e.What == Skipped {
				through++
			}
		}
		table.checkAll()
	}
	if through != waiters || resourceOf(table) != "" {
		t.Errorf("%d of %d go on, and the latch is: %s", through, waiters, resourceOf(table))
	}
}
