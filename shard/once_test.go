package shard

import (
	"slices"
	"testing"
	"time"
)

func run(who string, n uint64) Begin {
	return Begin{Call: call(who, n), TTL: ttl, Name: who, Key: "r", Operation: Operation{Op: Run, Retention: retention}}
}

// upTo returns a Begin that is refused once so many have failed.
func upTo(attempts uint64, b Begin) Begin {
	b.Attempts = attempts
	return b
}

func recalls(who string, n uint64, remains time.Duration) Recall {
	return Recall{Call: call(who, n), TTL: ttl, Name: who, Key: "r", Kind: Once, Capacity: 1, Remains: remains}
}

func ran(who string, n, token uint64) Report {
	return Report{
		Call: call(who, n), TTL: ttl, Name: who, Key: "r", Kind: Once, Weight: 1, Capacity: 1,
		Earlier: Earlier{Token: token, Known: 100}, Operation: run(who, n).Operation,
	}
}

// Promise: P43.
func TestOnce(t *testing.T) {
	done := []Command{run("ann", 1), end("ann", 2, 2)}
	after := func(given []Command, more ...Command) []Command { return append(slices.Clone(given), more...) }
	for _, tt := range []struct {
		name  string
		given []Command
		when  Command
		want  string // what is told
		state string // of the key, afterwards
	}{
		{"the first caller acts", nil, run("ann", 1), "a1 runs 2", "ann runs"},
		{"the next one waits", []Command{run("ann", 1)}, run("bob", 1), "b1 waits", "ann runs, bob waits"},
		{"who waited skips what is done", []Command{run("ann", 1), run("bob", 1), run("cid", 1)}, end("ann", 2, 2), "a2 done, b1 skips 6, c1 skips 7", "run  until 1m0s"},
		{"who comes later skips it", done, run("bob", 1), "b1 skips 5", "run  until 1m0s"},
		{"also who did it", done, run("ann", 3), "a3 skips 5", "run  until 1m0s"},
		{"until the retention is over", after(done, later{now: retention - 1}), run("bob", 1), "b1 skips 5", "run  until 1m0s"},
		{"then it is done again", after(done, later{now: retention}), run("bob", 1), "b1 runs 5", "bob runs"},
		{"the retention counts from the success", []Command{run("ann", 1), later{now: time.Second}}, end("ann", 2, 2), "a2 done", "run  until 1m1s"},
		{"the longest retention counts, of those that wait", []Command{run("ann", 1), with(run("bob", 1), longer)}, end("ann", 2, 2), "a2 done, b1 skips 5", "run  until 2m0s"},
		{"and of those that come later", done, with(run("bob", 1), longer), "b1 skips 5", "run  until 2m0s"},
		{"a failure is not remembered: the next one acts", []Command{run("ann", 1), run("bob", 1), run("cid", 1)}, fails("ann", 2, 2), "a2 done, b1 runs 6", "bob runs, cid waits, 1 failed"},
		{"of a failure without waiters nothing is known", []Command{run("ann", 1)}, fails("ann", 2, 2), "a2 done", ""},
		{"who acts and is lost has failed", []Command{run("ann", 1), run("bob", 1)}, Expire{id("ann"), thisTerm}, "a ended, b1 runs 5", "bob runs, 1 failed"},
		{"and its late end counts for nothing", []Command{run("ann", 1), run("bob", 1), Expire{id("ann"), thisTerm}}, end("ann", 2, 2), "a2 lost", "bob runs, 1 failed"},
		{"the one that took over decides", []Command{run("ann", 1), run("bob", 1), run("cid", 1), Expire{id("ann"), thisTerm}}, end("bob", 2, 6), "b2 done, c1 skips 8", "run  until 1m0s"},
		{"a doer that is lost after its end has done it", after(done, run("bob", 1)), Expire{id("ann"), thisTerm}, "a ended", "run  until 1m0s"},
		{"another one's end counts for nothing", []Command{run("ann", 1), run("bob", 1)}, end("bob", 2, 2), "b2 lost", "ann runs, bob waits"},
		{"a repeated call has the same answer", after(done, run("bob", 1)), run("bob", 1), "b1 skips 5", "run  until 1m0s"},

		// Attempts.
		{"nobody acts after so many failures", []Command{run("ann", 1), upTo(1, run("bob", 1))}, fails("ann", 2, 2), "a2 done, b1 failed", ""},
		{"a doer that is lost counts as one", []Command{run("ann", 1), upTo(1, run("bob", 1))}, Expire{id("ann"), thisTerm}, "a ended, b1 failed", ""},
		{"one whose session is closed, too", []Command{run("ann", 1), upTo(1, run("bob", 1))}, Close{id("ann"), 2}, "a ended, b1 failed, a2 done", ""},
		{"and one that only releases", []Command{run("ann", 1), upTo(1, run("bob", 1))}, release("ann", 2, "r", 2), "a2 done, b1 failed", ""},
		{"but not one that gave up before it began", []Command{run("ann", 1), upTo(1, run("bob", 1))}, cancel("ann", 2, 1), "b1 runs 5, a2 done", "bob runs"},
		{"fewer do not count", []Command{run("ann", 1), upTo(2, run("bob", 1))}, fails("ann", 2, 2), "a2 done, b1 runs 5", "bob runs, 1 failed"},
		{"failures of all callers count", []Command{run("ann", 1), run("bob", 1), upTo(2, run("cid", 1)), fails("ann", 2, 2)}, fails("bob", 2, 6), "b2 done, c1 failed", ""},
		{"each caller has its own limit", []Command{run("ann", 1), upTo(1, run("bob", 1)), upTo(2, run("cid", 1)), upTo(1, run("dan", 1))}, fails("ann", 2, 2), "a2 done, b1 failed, c1 runs 7", "cid runs, dan waits, 1 failed"},
		{"who comes with a limit that is reached waits for the one that acts", []Command{run("ann", 1), run("bob", 1), fails("ann", 2, 2)}, upTo(1, run("cid", 1)), "c1 waits", "bob runs, cid waits, 1 failed"},
		{"and skips if that succeeds", []Command{run("ann", 1), run("bob", 1), fails("ann", 2, 2), upTo(1, run("cid", 1))}, end("bob", 2, 5), "b2 done, c1 skips 8", "run  until 1m0s"},
		{"a success forgets the failures", []Command{run("ann", 1), run("bob", 1), fails("ann", 2, 2), end("bob", 2, 5), later{now: retention}, run("ann", 3), upTo(1, run("cid", 1))}, fails("ann", 4, 8), "a4 done, c1 failed", ""},
		{"an empty queue forgets them", []Command{run("ann", 1), fails("ann", 2, 2), run("bob", 1), upTo(2, run("cid", 1))}, fails("bob", 2, 5), "b2 done, c1 runs 8", "cid runs, 1 failed"},

		// Kinds (P38).
		{"what is done once is no resource", done, pull("bob", 1), "b1 capacity", "run  until 1m0s"},
		{"nor is a resource done once", []Command{pull("ann", 1), end("ann", 2, 2)}, run("bob", 1), "b1 capacity", "pull 1 until 1m0s, used by ann since 3"},
		{"nor a lock", []Command{lock("ann", 1, "r")}, run("bob", 1), "b1 capacity", ""},
		{"nor is it a lock", []Command{run("ann", 1)}, lock("bob", 1, "r"), "b1 capacity", "ann runs"},
		{"a drop is not about it", done, byName("ann", 3, 9), "a3 done", "run  until 1m0s"},

		// What is told of an earlier table.
		{"what was done is told", nil, recalls("ann", 1, time.Second), "a1 done", "run  until 1s"},
		{"the longest time counts", []Command{recalls("ann", 1, time.Second)}, recalls("bob", 1, time.Minute), "b1 done", "run  until 1m0s"},
		{"in whichever order", []Command{recalls("ann", 1, time.Minute)}, recalls("bob", 1, time.Second), "b1 done", "run  until 1m0s"},
		{"then it is not done again", []Command{recalls("ann", 1, time.Second)}, run("bob", 1), "b1 skips 3", "run  until 1m0s"},
		{"a run that is under way goes on", []Command{run("ann", 1), run("bob", 1)}, recalls("cid", 1, time.Second), "c1 done", "ann runs, bob waits, run  until 1s"},
		{"though it fails the others skip", []Command{run("ann", 1), upTo(1, run("bob", 1)), recalls("cid", 1, time.Second)}, fails("ann", 2, 2), "a2 done, b1 skips 6", "run  until 1m0s, 1 failed"},
		{"what is a lock by now was not done once", []Command{lock("ann", 1, "r")}, recalls("bob", 1, time.Second), "b1 capacity", ""},
	} {
		t.Run(tt.name, func(t *testing.T) { tryKey(t, newTable(), tt.given, tt.when, tt.want, tt.state) })
	}
}

// tryKey gives a table some commands, and compares what it tells of the last, and what it knows of the key r then.
func tryKey(t *testing.T, table *Table, given []Command, when Command, want, state string) {
	t.Helper()
	for _, cmd := range given {
		if l, ok := cmd.(later); ok {
			table.Enter(thisTerm, l.now)
			continue
		}
		table.Step(cmd, nil)
		table.checkAll()
	}
	if got := told(table.Step(when, nil)); got != want {
		t.Errorf("told: %s\nwant: %s", got, want)
	}
	table.checkAll()
	if got := resourceOf(table); got != state {
		t.Errorf("the key: %s\nwant:    %s", got, state)
	}
	if twin := restored(t, imageOf(table)); resourceOf(twin) != state || twin.Sum() != table.Sum() {
		t.Errorf("restored from a snapshot: %s", resourceOf(twin))
	}
}

// Promise: P43, C8: to the table of a new generation is told what runs, who waits, and what was done.
func TestOnceInANewGeneration(t *testing.T) {
	for _, tt := range []struct {
		name  string
		given []Command
		when  Command
		want  string
		state string
	}{
		{"what runs", nil, ran("ann", 1, 50), "a1 runs 50", "ann runs"},
		{"two that run: the later one stays, and the other one has failed", []Command{ran("ann", 1, 50)}, ran("bob", 1, 60), "a ended, b1 runs 60", "bob runs"},
		{"who waits", []Command{ran("ann", 1, 50)}, ran("bob", 1, 0), "b1 waits", "ann runs, bob waits"},
		{"what succeeds is remembered", []Command{ran("ann", 1, 50)}, end("ann", 2, 50), "a2 done", "run  until 1m0s"},
		{"nothing runs before the quiet time is over", nil, run("bob", 1), "b1 waits", "bob waits"},
		{"nor is anything skipped", []Command{recalls("ann", 1, time.Minute)}, run("bob", 1), "b1 waits", "bob waits, run  until 1m0s"},
		{"then who waits skips what was done", []Command{recalls("ann", 1, time.Minute), run("bob", 1)}, Calm{Term: thisTerm}, "b1 skips 4", "run  until 1m0s"},
		{"or does it, if nobody knows of that", []Command{run("bob", 1)}, Calm{Term: thisTerm}, "b1 runs 3", "bob runs"},
		{"what was done may be told late", []Command{run("bob", 1), Calm{Term: thisTerm}}, recalls("ann", 1, time.Minute), "a1 done", "bob runs, run  until 1m0s"},
		{"a lock that is reported is later than what was done", []Command{recalls("ann", 1, time.Minute), run("cid", 1)}, held("bob", 1, "r", 60), "c1 capacity, b1 runs 60", ""},
		{"so is a place in its queue", []Command{recalls("ann", 1, time.Minute)}, waited("bob", 1, "r", 60), "b1 waits", ""},
		{"a key that was reported as a lock was not done once", []Command{held("bob", 1, "r", 60)}, recalls("ann", 1, time.Minute), "a1 capacity", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			table := NewTable(Founding{Check: true, Settles: time.Second})
			table.Enter(thisTerm, 0)
			tryKey(t, table, tt.given, tt.when, tt.want, tt.state)
		})
	}
	table := newTable()
	for i, who := range []string{"bob", "ann"} {
		b := run(who, 1)
		b.Key = "r" + who
		e := end(who, 2, table.Step(b, nil)[1].Token)
		e.Key = b.Key
		table.Enter(thisTerm, time.Duration(i)*time.Second)
		table.Step(e, nil)
		b = pull(who, 3)
		b.Key = "other" + who
		table.Step(b, nil)
	}
	want := []Memory{{"rbob", Once, 1, "", retention - time.Second}, {"rann", Once, 1, "", retention}}
	if got := table.Memories(); !slices.Equal(got, want) {
		t.Errorf("remembered: %v, want %v", got, want)
	}
	table.Enter(thisTerm, retention)
	if got := table.Memories(); !slices.Equal(got, []Memory{{"rann", Once, 1, "", time.Second}}) {
		t.Errorf("remembered later: %v", got)
	}
}

// Promise: P43: all that waited for a Run skip it, though there are too many for one step, and its retention is over before the last is answered.
func TestAWalkOutlastsTheRetention(t *testing.T) {
	const waiters = 2*maxWalk + 10
	table := newTable()
	table.Enter(thisTerm, 0)
	table.Step(run("ann", 1), nil)
	for i := range uint64(waiters) {
		table.Step(in(i+2, run("bob", 1)), nil)
	}
	skipped := len(table.Step(end("ann", 2, 2), nil)) - 1
	table.Enter(thisTerm, 2*retention)
	table.Step(Check{}, nil)
	table.checkAll()
	if twin := restored(t, imageOf(table)); twin.Sum() != table.Sum() || twin.Walks() != "r" {
		t.Errorf("restored from a snapshot, %q is to be walked", twin.Walks())
	}
	for table.Walks() != "" {
		for _, e := range table.Step(Walk{Key: table.Walks(), Term: thisTerm}, nil) {
			if e.What == Skipped {
				skipped++
			}
		}
		table.checkAll()
	}
	if skipped != waiters || resourceOf(table) != "" {
		t.Errorf("%d of %d skipped, and the key is: %s", skipped, waiters, resourceOf(table))
	}
	if got := told(table.Step(run("cid", 1), nil)); got[:7] != "c1 runs" {
		t.Errorf("who comes afterwards: %s", got)
	}
}
