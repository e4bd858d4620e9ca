package shard

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

// retention is how long an operation is remembered in these tests.
const retention = time.Minute

func begin(op Op, who string, n uint64) Begin {
	b := Begin{Call: call(who, n), TTL: ttl, Name: who, Key: "r", Operation: Operation{Op: op, Version: "1", Retention: retention}}
	b.Alone = op != Update
	if op == Pull {
		b.User = who
	}
	return b
}

func pull(who string, n uint64) Begin   { return begin(Pull, who, n) }
func update(who string, n uint64) Begin { return begin(Update, who, n) }
func remove(who string, n uint64) Begin { return begin(Delete, who, n) }

func with(b Begin, change func(*Operation)) Begin {
	change(&b.Operation)
	return b
}

func durable(o *Operation)   { o.Durable = true }
func whileUsed(o *Operation) { o.Alone = false }
func alone(o *Operation)     { o.Alone = true }
func second(o *Operation)    { o.Version = "2" }
func longer(o *Operation)    { o.Retention = 2 * retention }

func end(who string, n, token uint64) End { return End{Call: call(who, n), Key: "r", Token: token} }

func fails(who string, n, token uint64) End {
	e := end(who, n, token)
	e.Failed = true
	return e
}

func remembers(who string, n uint64, user string, stamp uint64) Remember {
	return Remember{Call: call(who, n), TTL: ttl, Name: who, Key: "r", User: user, Stamp: stamp}
}

func uses(who string, n, stamp uint64) Report {
	return Report{
		Call: call(who, n), TTL: ttl, Name: who, Key: "r", Kind: Resource, Weight: 1, Capacity: 1,
		Earlier: Earlier{Token: stamp, Uses: true, Known: stamp}, Operation: pull(who, 1).Operation,
	}
}

func drop(who string, n, stamp uint64) Drop {
	return Drop{Call: call(who, n), TTL: ttl, Name: who, Key: "r", User: who, Stamp: stamp, Lone: stamp}
}

// byName returns a Drop that ends a use without a session whenever it was stamped.
func byName(who string, n, stamp uint64) Drop {
	d := drop(who, n, stamp)
	d.Lone = anyUint
	return d
}

// later is a step of time, and no command.
type later struct {
	Command
	now time.Duration
}

// in returns a command whose session is another one of the same name.
func in(session uint64, cmd Command) Command {
	switch c := cmd.(type) {
	case Begin:
		c.Session.Number = session
		return c
	case Drop:
		c.Session.Number = session
		return c
	}
	panic("no such command")
}

// told writes events down: "ann 1 granted 2, bob 1 queued".
func told(events []Event) string {
	var all []string
	for _, e := range events {
		who := string(rune(e.Session.Node))
		switch e.What {
		case Opened:
			continue
		case Led:
			all = append(all, e.Key+" led")
			continue
		case Ended:
			all = append(all, who+" ended")
			continue
		}
		text := fmt.Sprintf("%s%d ", who, e.Number)
		switch e.What {
		case Granted:
			text += fmt.Sprintf("runs %d", e.Token)
		case Skipped:
			text += fmt.Sprintf("skips %d", e.Token)
		case Queued:
			text += "waits"
		case Done:
			if text += "done"; e.Token != 0 {
				text += fmt.Sprintf(" %d", e.Token)
			}
			if e.Ahead != 0 {
				text += fmt.Sprintf(" with %d unclaimed", e.Ahead)
			}
		case Refused:
			if text += e.Reason.String(); e.Reason == InUse {
				text += " by " + e.Holder
			}
		}
		all = append(all, text)
	}
	return strings.Join(all, ", ")
}

// resourceOf writes down the resource r: what runs, who waits, what is remembered, who uses it.
func resourceOf(t *Table) string {
	e := t.keys["r"]
	if e == nil || e.resource == nil {
		return ""
	}
	var all []string
	for r := e.holders.first(); r != nil; r = r.place.next() {
		all = append(all, fmt.Sprintf("%s %ss", r.session.name, r.op.Op))
	}
	for r := e.queue.first(); r != nil; r = r.place.next() {
		all = append(all, r.session.name+" waits")
	}
	for o, d := range e.done {
		if d != nil {
			all = append(all, fmt.Sprintf("%v %s until %v", Op(o), d.version, d.until))
		}
	}
	if len(e.names) > 0 {
		all = append(all, fmt.Sprintf("%s came, until %v", strings.Join(e.names, " "), e.forgottenAt()))
	}
	if e.failures > 0 {
		all = append(all, fmt.Sprintf("%d failed", e.failures))
	}
	for u := e.uses.first(); u != nil; u = u.place.next() {
		text := fmt.Sprintf("used by %s since %d", u.user, u.stamp)
		if u.session == nil {
			text += " for ever"
		}
		all = append(all, text)
	}
	return strings.Join(all, ", ")
}

// Promise: P39.
func TestResource(t *testing.T) {
	pulled := []Command{pull("ann", 1), end("ann", 2, 2)}
	after := func(given []Command, more ...Command) []Command { return append(slices.Clone(given), more...) }
	for _, tt := range []struct {
		name  string
		given []Command
		when  Command
		want  string // what is told
		state string // of the resource, afterwards
	}{
		{"the first caller acts", nil, pull("ann", 1), "a1 runs 2", "ann pulls"},
		{"the next one waits", []Command{pull("ann", 1)}, pull("bob", 1), "b1 waits", "ann pulls, bob waits"},
		{"a pull that is done makes a use", []Command{pull("ann", 1)}, end("ann", 2, 2), "a2 done 3", "pull 1 until 1m0s, used by ann since 3"},
		{"who waited skips, and uses", []Command{pull("ann", 1), pull("bob", 1), pull("cid", 1)}, end("ann", 2, 2), "a2 done 5, b1 skips 6, c1 skips 7",
			"pull 1 until 1m0s, used by ann since 5, used by bob since 6, used by cid since 7"},
		{"who comes later skips, and uses", pulled, pull("bob", 1), "b1 skips 5", "pull 1 until 1m0s, used by ann since 3, used by bob since 5"},
		{"of a failure nothing is remembered: the next one acts", []Command{pull("ann", 1), pull("bob", 1), pull("cid", 1)}, fails("ann", 2, 2), "a2 done, b1 runs 6", "bob pulls, cid waits"},
		{"a failure leaves nothing", []Command{pull("ann", 1)}, fails("ann", 2, 2), "a2 done", ""},
		{"who acts and is lost has failed", []Command{pull("ann", 1), pull("bob", 1)}, Expire{id("ann"), thisTerm}, "a ended, b1 runs 5", "bob pulls"},
		{"and its late end counts for nothing", []Command{pull("ann", 1), pull("bob", 1), Expire{id("ann"), thisTerm}}, end("ann", 2, 2), "a2 lost", "bob pulls"},
		{"another one's end counts for nothing", []Command{pull("ann", 1), pull("bob", 1)}, end("bob", 2, 2), "b2 lost", "ann pulls, bob waits"},
		{"a wrong token ends nothing", []Command{pull("ann", 1)}, end("ann", 2, 1), "a2 lost", "ann pulls"},
		{"a release is an end that failed", []Command{pull("ann", 1), pull("bob", 1)}, release("ann", 2, "r", 2), "a2 done, b1 runs 5", "bob pulls"},
		{"nor is an end a release", []Command{lock("ann", 1, "r")}, end("ann", 2, 2), "a2 lost", ""},
		{"a repeated end has the same answer", after(pulled, pull("ann", 3)), end("ann", 2, 2), "a2 done 3", "pull 1 until 1m0s, used by ann since 5"},
		{"a repeated pull that was skipped has the same answer", after(pulled, pull("bob", 1), pull("bob", 2)), pull("bob", 1), "b1 skips 5", "pull 1 until 1m0s, used by ann since 3, used by bob since 7"},

		// One queue for all operations.
		{"a pull that runs holds up a delete", []Command{pull("ann", 1)}, remove("bob", 1), "b1 waits", "ann pulls, bob waits"},
		{"which is refused if it makes a user", []Command{pull("ann", 1), remove("bob", 1), pull("cid", 1)}, end("ann", 2, 2), "a2 done 5, b1 in use by ann, c1 skips 6",
			"pull 1 until 1m0s, used by ann since 5, used by cid since 6"},
		{"and runs if that fails", []Command{pull("ann", 1), remove("bob", 1), pull("cid", 1)}, fails("ann", 2, 2), "a2 done, b1 runs 6", "bob deletes, cid waits"},
		{"a pull waits for a delete, and then runs", []Command{remove("ann", 1), pull("bob", 1)}, end("ann", 2, 2), "a2 done, b1 runs 5", "bob pulls"},
		{"nobody deletes what somebody uses", pulled, remove("bob", 1), "b1 in use by ann", "pull 1 until 1m0s, used by ann since 3"},
		{"not even the one who does", pulled, remove("ann", 3), "a3 in use by ann", "pull 1 until 1m0s, used by ann since 3"},
		{"and hears so at once", []Command{with(pull("ann", 1), durable), end("ann", 2, 2), update("bob", 1)}, remove("cid", 1), "c1 in use by ann", "bob updates, used by ann since 3"},
		{"once the last use is dropped it may", after(pulled, drop("ann", 3, 3)), remove("bob", 1), "b1 runs 6", "bob deletes"},
		{"a delete that is done is skipped", []Command{remove("ann", 1), remove("bob", 1)}, end("ann", 2, 2), "a2 done, b1 skips 5", "delete 1 until 1m0s"},
		{"an update that is done is skipped", []Command{update("ann", 1), update("bob", 1)}, end("ann", 2, 2), "a2 done, b1 skips 5", "update 1 until 1m0s"},
		{"but not to another version", []Command{update("ann", 1), with(update("bob", 1), second)}, end("ann", 2, 2), "a2 done, b1 runs 5", "bob updates"},
		{"an update runs beside users", pulled, update("bob", 1), "b1 runs 5", "bob updates, used by ann since 3"},
		{"unless it is to run alone", pulled, with(update("bob", 1), alone), "b1 in use by ann", "pull 1 until 1m0s, used by ann since 3"},
		{"what is done is skipped, also alone and beside users", []Command{update("ann", 1), end("ann", 2, 2), pull("bob", 1), end("bob", 2, 5)}, with(update("cid", 1), alone), "c1 skips 8",
			"pull 1 until 1m0s, update 1 until 1m0s, used by bob since 6"},

		// What an operation makes doubtful is forgotten when it begins.
		{"a delete that fails restores nothing", after(pulled, drop("ann", 3, 3), remove("bob", 1), fails("bob", 2, 6)), pull("cid", 1), "c1 runs 9", "cid pulls"},
		{"delete, pull, release, delete: the second one runs", []Command{remove("ann", 1), end("ann", 2, 2), pull("bob", 1), end("bob", 2, 5), drop("bob", 3, 6)}, remove("ann", 3), "a3 runs 9", "ann deletes"},
		{"an update that fails, beside users: a pull is refused", after(pulled, update("bob", 1), fails("bob", 2, 5)), pull("cid", 1), "c1 in use by ann", "used by ann since 3"},
		{"unless it may run while the resource is used", after(pulled, update("bob", 1), fails("bob", 2, 5)), with(pull("cid", 1), whileUsed), "c1 runs 8", "cid pulls, used by ann since 3"},
		{"after an update to a version, a pull of it runs", []Command{update("ann", 1), end("ann", 2, 2)}, pull("bob", 1), "b1 runs 5", "bob pulls, update 1 until 1m0s"},
		{"a pull of another version is refused beside users", pulled, with(pull("bob", 1), second), "b1 in use by ann", "pull 1 until 1m0s, used by ann since 3"},
		{"a pull that fails forgets the one before", after(pulled, with(pull("bob", 1), func(o *Operation) { second(o); whileUsed(o) }), fails("bob", 2, 5)), with(pull("cid", 1), whileUsed), "c1 runs 8",
			"cid pulls, used by ann since 3"},

		// How long it is remembered.
		{"until the retention is over", after(pulled, drop("ann", 3, 3), later{now: retention - 1}), pull("bob", 1), "b1 skips 6", "pull 1 until 1m0s, used by bob since 6"},
		{"then a pull runs again", after(pulled, drop("ann", 3, 3), later{now: retention}), pull("bob", 1), "b1 runs 6", "bob pulls"},
		{"but not while the resource is used", after(pulled, later{now: retention}), pull("bob", 1), "b1 skips 5", "pull 1 until 1m0s, used by ann since 3, used by bob since 5"},
		{"unless it may run so", after(pulled, later{now: retention}), with(pull("bob", 1), whileUsed), "b1 runs 5", "bob pulls, used by ann since 3"},
		{"a use that ends after the retention leaves nothing", after(pulled, later{now: retention}), drop("ann", 3, 3), "a3 done", ""},
		{"the longest retention counts, from the success on", []Command{update("ann", 1), with(update("bob", 1), longer)}, end("ann", 2, 2), "a2 done, b1 skips 5", "update 1 until 2m0s"},
		{"and a shorter one shortens nothing", []Command{with(update("ann", 1), longer), update("bob", 1)}, end("ann", 2, 2), "a2 done, b1 skips 5", "update 1 until 2m0s"},

		// Uses.
		{"a pull confirms the session's use", after(pulled, pull("ann", 3)), drop("ann", 4, 3), "a4 done", "pull 1 until 1m0s, used by ann since 5"},
		{"and the latest stamp drops it", after(pulled, pull("ann", 3)), drop("ann", 4, 5), "a4 done", "pull 1 until 1m0s"},
		{"but no stamp does not", after(pulled, pull("ann", 3)), byName("ann", 4, 0), "a4 done", "pull 1 until 1m0s, used by ann since 5"},
		{"nobody drops another session's use", after(pulled, in(2, with(pull("bob", 1), func(o *Operation) { o.User = "ann" }))), byName("ann", 3, 9), "a3 done", "pull 1 until 1m0s, used by ann since 5"},
		{"a use ends with its session", after(pulled, pull("bob", 1)), Close{id("ann"), 3}, "a ended, a3 done", "pull 1 until 1m0s, used by bob since 5"},
		{"a use of the same user through another session stays", after(pulled, in(2, pull("ann", 1))), Expire{id("ann"), thisTerm}, "a ended", "pull 1 until 1m0s, used by ann since 5"},
		{"a durable one outlives its session", []Command{with(pull("ann", 1), durable), end("ann", 2, 2)}, Expire{id("ann"), thisTerm}, "a ended", "pull 1 until 1m0s, used by ann since 3 for ever"},
		{"and is dropped by the user's name", []Command{with(pull("ann", 1), durable), end("ann", 2, 2), Expire{id("ann"), thisTerm}}, in(2, byName("ann", 1, 0)), "a1 done", "pull 1 until 1m0s"},
		{"or by its stamp", []Command{with(pull("ann", 1), durable), end("ann", 2, 2), Expire{id("ann"), thisTerm}}, in(2, drop("ann", 1, 3)), "a1 done", "pull 1 until 1m0s"},
		{"but not by an earlier stamp", []Command{with(pull("ann", 1), durable), end("ann", 2, 2), Expire{id("ann"), thisTerm}}, in(2, drop("ann", 1, 2)), "a1 done", "pull 1 until 1m0s, used by ann since 3 for ever"},
		{"two durable uses of one user are one", []Command{with(pull("ann", 1), durable), end("ann", 2, 2), in(2, with(pull("ann", 1), durable)), Expire{id("ann"), thisTerm}}, Close{SessionID{'a', 2}, 2}, "a ended, a2 done",
			"pull 1 until 1m0s, used by ann since 5 for ever"},
		{"a lost session's own use does not hold up its successor's delete", after(pulled, with(update("ann", 3), whileUsed), remove("bob", 1)), Expire{id("ann"), thisTerm}, "a ended", ""},
		{"who gives up after it was skipped still uses", after(pulled, pull("bob", 1)), cancel("bob", 2, 1), "b2 done 5", "pull 1 until 1m0s, used by ann since 3, used by bob since 5"},
		{"who gives up while it waits uses nothing", []Command{pull("ann", 1), pull("bob", 1), cancel("bob", 2, 1)}, end("ann", 2, 2), "a2 done 5", "pull 1 until 1m0s, used by ann since 5"},
		{"who gives up while it acts has failed", []Command{pull("ann", 1), pull("bob", 1)}, cancel("ann", 2, 1), "b1 runs 5, a2 done", "bob pulls"},

		// Kinds (P38).
		{"a resource is no lock", pulled, lock("bob", 1, "r"), "b1 capacity", "pull 1 until 1m0s, used by ann since 3"},
		{"nor is a lock a resource", []Command{lock("ann", 1, "r")}, pull("bob", 1), "b1 capacity", ""},
		{"once nothing is known of it, it may become one", after(pulled, drop("ann", 3, 3), later{now: retention}), lock("bob", 1, "r"), "b1 runs 6", ""},
		{"a drop of what is a lock drops nothing", []Command{lock("ann", 1, "r")}, byName("ann", 2, 9), "a2 done", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			table := newTable()
			for _, cmd := range tt.given {
				if l, ok := cmd.(later); ok {
					table.Enter(thisTerm, l.now)
					continue
				}
				table.Step(cmd, nil)
				table.checkAll()
			}
			if got := told(table.Step(tt.when, nil)); got != tt.want {
				t.Errorf("told: %s\nwant: %s", got, tt.want)
			}
			table.checkAll()
			if got := resourceOf(table); got != tt.state {
				t.Errorf("the resource: %s\nwant:         %s", got, tt.state)
			}
			twin := restored(t, imageOf(table))
			if got := resourceOf(twin); got != tt.state || twin.Sum() != table.Sum() {
				t.Errorf("restored from a snapshot: %s", got)
			}
		})
	}
}

// Promise: P39, C8: what runs, waits and is used is reported to the table of a new generation, and durable uses are remembered
// by the replicas of the one before. Nothing is remembered as done.
func TestResourcesInANewGeneration(t *testing.T) {
	runs := func(b Begin, token uint64) Report {
		r := uses(b.Name, b.Number, token)
		r.Uses, r.Operation = false, b.Operation
		return r
	}
	for _, tt := range []struct {
		name  string
		given []Command
		when  Command
		want  string
		state string
	}{
		{"a use", nil, uses("ann", 1, 50), "a1 runs 50", "used by ann since 50"},
		{"a use twice: the later stamp counts", []Command{uses("ann", 1, 50)}, uses("ann", 2, 40), "a2 runs 40", "used by ann since 50"},
		{"what runs", nil, runs(update("ann", 1), 50), "a1 runs 50", "ann updates"},
		{"two that run: the later one stays", []Command{runs(update("ann", 1), 50)}, runs(update("bob", 1), 60), "a ended, b1 runs 60", "bob updates"},
		{"it ends, and who waits must wait for the end of the quiet time", []Command{runs(pull("ann", 1), 50), pull("bob", 1)}, end("ann", 2, 50), "a2 done 1073741876", "bob waits, pull 1 until 1m0s, used by ann since 1073741876"},
		{"who waits is not granted", nil, remove("ann", 1), "a1 waits", "ann waits"},
		{"nor refused: more may be reported", []Command{uses("ann", 1, 50)}, remove("bob", 1), "b1 waits", "bob waits, used by ann since 50"},
		{"until the quiet time is over", []Command{uses("ann", 1, 50), remove("bob", 1), pull("cid", 1)}, Calm{Term: thisTerm}, "b1 in use by ann, c1 in use by ann", "used by ann since 50"},
		{"then a pull runs again", []Command{pull("cid", 1)}, Calm{Term: thisTerm}, "c1 runs 3", "cid pulls"},
		{"a durable use", nil, remembers("ann", 1, "team", 50), "a1 done", "used by team since 50 for ever"},
		{"that two replicas remember", []Command{remembers("ann", 1, "team", 50)}, remembers("bob", 1, "team", 40), "b1 done", "used by team since 50 for ever"},
		{"nobody deletes or pulls beside it", []Command{remembers("ann", 1, "team", 50), Calm{Term: thisTerm}}, pull("bob", 1), "b1 in use by team", "used by team since 50 for ever"},
		{"tokens go on above its stamp", []Command{remembers("ann", 1, "team", 50), Calm{Term: thisTerm}}, update("bob", 1), "b1 runs 1073741877", "bob updates, used by team since 50 for ever"},
		{"too late", []Command{Calm{Term: thisTerm}}, remembers("ann", 1, "team", 50), "a1 late", ""},
		{"of what is a lock by now", []Command{lock("bob", 1, "r")}, remembers("ann", 1, "team", 50), "a1 capacity", ""},
		{"a place in the queue of a lock, after something was done", []Command{runs(update("ann", 1), 50), end("ann", 2, 50)}, waited("bob", 1, "r", 60), "b1 capacity", "update 1 until 1m0s"},
		{"a lock that is reported is later than a use", []Command{uses("ann", 1, 50)}, held("bob", 1, "r", 60), "a ended, b1 runs 60", ""},
		{"and than a durable one", []Command{remembers("ann", 1, "team", 50)}, held("bob", 1, "r", 60), "b1 runs 60", ""},
		{"or earlier", []Command{uses("ann", 1, 50)}, held("bob", 1, "r", 40), "b1 lost", "used by ann since 50"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			table := NewTable(Founding{Check: true, Settles: time.Second})
			table.Enter(thisTerm, 0)
			for _, cmd := range tt.given {
				table.Step(cmd, nil)
				table.checkAll()
			}
			if got := told(table.Step(tt.when, nil)); got != tt.want {
				t.Errorf("told: %s\nwant: %s", got, tt.want)
			}
			table.checkAll()
			if got := resourceOf(table); got != tt.state {
				t.Errorf("the resource: %s\nwant:         %s", got, tt.state)
			}
			if twin := restored(t, imageOf(table)); resourceOf(twin) != tt.state || twin.Sum() != table.Sum() {
				t.Errorf("restored from a snapshot: %s", resourceOf(twin))
			}
		})
	}
	table := newTable()
	for i, who := range []string{"ann", "bob"} {
		b := with(pull(who, 1), durable)
		b.Key = "r" + who
		e := end(who, 2, table.Step(b, nil)[1].Token)
		e.Key = b.Key
		table.Step(e, nil)
		table.Step(with(pull("cid", uint64(1+i)), durable), nil)
	}
	if got, want := table.Durables(), []Durable{{"rann", "ann", 3, false}, {"rbob", "bob", 8, false}}; !slices.Equal(got, want) {
		t.Errorf("durable uses %v, want %v", got, want)
	}
}

// Promise: P39: thousands that wait for one operation are answered in several steps.
func TestAWalkIsBounded(t *testing.T) {
	const waiters = 2*maxWalk + 10
	table := newTable()
	table.Step(update("ann", 1), nil)
	for i := range uint64(waiters) {
		table.Step(in(i+2, update("bob", 1)), nil)
	}
	if n := len(table.Step(end("ann", 2, 2), nil)); n != 1+maxWalk {
		t.Errorf("%d events in one step, want %d", n, 1+maxWalk)
	}
	table.checkAll()
	twin := restored(t, imageOf(table))
	twin.Enter(thisTerm, 0)
	for _, table := range []*Table{table, twin} {
		if got := table.Step(Walk{Key: "r", Term: thisTerm - 1}, nil); len(got) != 0 {
			t.Errorf("a walk of an earlier term answers %d", len(got))
		}
		if got := told(table.Step(update("cid", 1), nil)[maxWalk+1:]); got != "c1 waits" {
			t.Errorf("who comes meanwhile: %s", got)
		}
		answered := 0
		for table.Walks() != "" {
			answered += len(table.Step(Walk{Key: table.Walks(), Term: thisTerm}, nil))
			table.checkAll()
		}
		if answered != waiters-2*maxWalk+1 || resourceOf(table) != "update 1 until 1m0s" {
			t.Errorf("%d are answered in the end, and the resource is: %s", answered, resourceOf(table))
		}
	}
}

// Promise: what is not used is forgotten in time, whether or not anybody asks for it.
func TestResourcesAreForgotten(t *testing.T) {
	table := newTable()
	for i := range uint64(3 * maxForgotten) {
		b := update("ann", 2*i+1)
		b.Key = fmt.Sprint("r", i)
		e := end("ann", 2*i+2, table.Step(b, nil)[0].Token)
		if i == 0 {
			e.Token = table.Revision()
		}
		e.Key = b.Key
		table.Step(e, nil)
	}
	if len(table.keys) != 3*maxForgotten {
		t.Fatalf("%d resources are remembered", len(table.keys))
	}
	table.Enter(thisTerm, retention-1)
	table.Step(Check{}, nil)
	if len(table.keys) != 3*maxForgotten {
		t.Errorf("%d are remembered before the retention is over", len(table.keys))
	}
	table.Enter(thisTerm, retention)
	for i := range 3 {
		table.Step(Check{}, nil)
		if want := (2 - i) * maxForgotten; len(table.keys) != want || len(table.memories) != want {
			t.Errorf("after %d steps %d are remembered, want %d", i+1, len(table.keys), want)
		}
	}
}

// Promise: P39: a durable use that is dropped by name through a later lease does not outlive the earlier one.
func TestADropByNameReachesEarlierLeases(t *testing.T) {
	table := newTable()
	table.Enter(thisTerm, 0)
	tok := table.Step(with(pull("ann", 1), durable), nil)[1].Token
	table.Step(end("ann", 2, tok), nil)
	tok = table.Step(in(2, with(pull("ann", 1), durable)), nil)[1].Token // of another session of the node, which lives
	drop := in(3, byName("ann", 1, 0)).(Drop)
	drop.Lost = []uint64{1}
	table.Step(drop, nil)
	if refs, _ := table.Refs("r", 0, 9); len(refs) != 1 || !refs[0].Durable || refs[0].Stamp != tok {
		t.Errorf("dropped for another session: %+v", refs)
	}
	drop.Number, drop.Lone, drop.Lost = 2, 0, []uint64{1, 2, 7}
	table.Step(drop, nil)
	if refs, _ := table.Refs("r", 0, 9); len(refs) > 0 {
		t.Errorf("dropped by name, and used: %+v", refs)
	}
	if got, want := told(table.Step(remove("bob", 1), nil)), fmt.Sprintf("b1 runs %d", table.Revision()); got != want {
		t.Errorf("a delete: %s, want %s", got, want)
	}
}

// Promise: P39: a use that was made for a caller that had given up ends alone, also once its session has ended: a durable use of the same
// user that has outlived an earlier session stays. Where both have become one, that stays: rather a use too many than one too few.
func TestAUseForNobodyEndsAlone(t *testing.T) {
	for _, tt := range []struct {
		name    string
		earlier bool // the user has such a use
		ends    bool // the session of the pull has ended
		want    bool // there is a use in the end
	}{
		{"nothing else", false, false, false},
		{"its session has ended", false, true, false},
		{"there is an earlier use", true, false, true},
		{"there is one, and its session has ended", true, true, true},
	} {
		for _, anew := range []bool{false, true} { // in another generation
			table := newTable()
			table.Enter(thisTerm, 0)
			tok := table.Step(with(pull("ann", 1), durable), nil)[1].Token
			table.Step(end("ann", 2, tok), nil)
			if tt.earlier {
				table.Step(Expire{call("ann", 0).Session, thisTerm}, nil)
			} else {
				table.Step(byName("ann", 3, anyUint), nil)
			}
			vain := table.Step(in(2, with(pull("ann", 1), durable)), nil)[1].Token // skipped: the pull is remembered
			if tt.ends {
				table.Step(Expire{in(2, pull("ann", 1)).(Begin).Session, thisTerm}, nil)
			}
			of := uint64(2)
			if tt.ends {
				of = 3
			}
			if anew {
				next := NewTable(Founding{Check: true, Settles: time.Minute})
				next.Enter(thisTerm, 0)
				for i, d := range table.Durables() {
					r := remembers("eve", uint64(i)+1, d.User, d.Stamp)
					r.Several = d.Several
					next.Step(r, nil)
				}
				table, of = next, 4
			}
			d := in(of, drop("ann", 2, vain)).(Drop)
			d.Lone, d.Vain = 0, vain
			table.Step(d, nil)
			if refs, _ := table.Refs("r", 0, 9); (len(refs) > 0) != tt.want {
				t.Errorf("%s, in another generation %t: %+v, want a use: %t", tt.name, anew, refs, tt.want)
			}
		}
	}
}

// Promise: P39: a resource takes no more than MaxUses uses, but those that there are can be confirmed.
func TestAResourceWithManyUses(t *testing.T) {
	table := newTable()
	table.Enter(thisTerm, 0)
	tok := table.Step(pull("ann", 1), nil)[1].Token
	table.Step(end("ann", 2, tok), nil)
	var out []Event
	by := func(n uint64, user string) Begin {
		b := pull("bob", n)
		b.User = user
		return b
	}
	for n := range uint64(MaxUses) - 1 {
		out = table.Step(by(n+1, fmt.Sprint(n)), out[:0])
	}
	if e := out[len(out)-1]; e.What != Skipped {
		t.Fatalf("the last that fits got %+v", out)
	}
	if out = table.Step(by(MaxUses, "one more"), out[:0]); len(out) != 1 || out[0].What != Refused || out[0].Reason != Crowded {
		t.Errorf("one more got %+v", out)
	}
	if out = table.Step(by(MaxUses+1, "0"), out[:0]); len(out) != 1 || out[0].What != Skipped {
		t.Errorf("one that is there got %+v", out)
	}
}

// Promise: P39, P40: one step forgets a bounded number of successes whose time is over; a snapshot has the others.
func TestASnapshotOfWhatIsOver(t *testing.T) {
	table := newTable()
	for i := range uint64(maxForgotten + 3) {
		b, e := update("ann", 2*i+1), end("ann", 2*i+2, 0)
		b.Key = fmt.Sprint("r", i)
		e.Key, e.Token = b.Key, granting(table.Step(b, nil))
		table.Step(e, nil)
	}
	table.Enter(thisTerm, 2*retention)
	table.Step(lock("bob", 1, "k"), nil)
	if n := len(table.keys); n != 1+3 {
		t.Fatalf("%d keys are known", n)
	}
	twin := restored(t, imageOf(table))
	if twin.Sum() != table.Sum() {
		t.Error("the restored table is another one")
	}
	for _, each := range []*Table{table, twin} {
		each.Step(lock("bob", 2, "l"), nil)
		if n := len(each.keys); n != 2 {
			t.Errorf("%d keys are known a step later", n)
		}
	}
}

// granting returns the token of the grant among events.
func granting(events []Event) uint64 {
	for _, e := range events {
		if e.What == Granted {
			return e.Token
		}
	}
	return 0
}
