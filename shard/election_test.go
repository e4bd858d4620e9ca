package shard

import (
	"fmt"
	"math/rand/v2"
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

// office is an election again, slow and plain.
type office struct {
	queue    []candidacy // the first leads
	token    uint64
	sequence uint64
	value    string
}

type candidacy struct {
	who    string
	number uint64
	value  string
}

// settle lets the first candidate lead, if nobody does.
func (o *office) settle(revision uint64) {
	if o.token == 0 && len(o.queue) > 0 {
		o.token, o.sequence, o.value = revision, 0, o.queue[0].value
	}
}

// gone takes candidacies out.
func (o *office) gone(is func(candidacy) bool) {
	if len(o.queue) > 0 && is(o.queue[0]) {
		o.token, o.sequence, o.value = 0, 0, ""
	}
	o.queue = slices.DeleteFunc(o.queue, is)
}

func (o *office) String() string {
	text := "nobody"
	if o.token != 0 {
		text = fmt.Sprintf("%s says %q (%d) with %d", o.queue[0].who, o.value, o.sequence, o.token)
	}
	if n := len(o.queue); n > 1 {
		text += fmt.Sprintf(", %d wait", n-1)
	}
	return text
}

// Promise: P46: whatever comes in whatever order, an election is the plain one; also after snapshots, and whenever it changes that is told.
func TestElectionsBehaveLikeTheModel(t *testing.T) {
	leaders := 0
	for seed := range uint64(200) {
		random := rand.New(rand.NewPCG(seed, 0))
		table, plain := newTable(), office{}
		table.Enter(thisTerm, 0)
		numbers := make(map[string]uint64)
		var late []Proclaim // those that may come again
		var tokens []uint64
		for step := range 200 {
			who := []string{"ann", "bob", "eve"}[random.IntN(3)]
			numbers[who]++
			n, value := numbers[who], fmt.Sprint("v", step)
			token := uint64(1)
			if len(tokens) > 0 {
				token = tokens[len(tokens)-1-random.IntN(min(2, len(tokens)))]
			}
			leads := plain.token == token && len(plain.queue) > 0 && plain.queue[0].who == who
			var cmd Command
			switch random.IntN(10) {
			case 0, 1, 2:
				cmd = campaign(who, n, value)
				plain.queue = append(plain.queue, candidacy{who, n, value})
			case 3, 4:
				p := proclaim(who, n, token, 1+uint64(random.IntN(8)), value)
				if cmd = p; leads && p.Sequence > plain.sequence {
					plain.sequence, plain.value = p.Sequence, value
				}
				late = append(late, p)
			case 5:
				if len(late) > 0 { // a copy: nothing happens
					cmd = late[random.IntN(len(late))]
					break
				}
				cmd = Check{}
			case 6, 7:
				if cmd = release(who, n, "e", token); leads {
					number := plain.queue[0].number
					plain.gone(func(c candidacy) bool { return c.who == who && c.number == number })
				}
			case 8:
				target := 1 + uint64(random.IntN(int(n)))
				cmd = Cancel{Call: call(who, n), TTL: ttl, Name: who, Target: target}
				plain.gone(func(c candidacy) bool { return c.who == who && c.number == target })
			default:
				cmd = lock(who, n, "e") // to be refused, unless nobody is there
				if len(plain.queue) == 0 {
					cmd = Check{}
				}
			}
			before := table.Leader("e")
			events := table.Step(cmd, nil)
			for _, e := range events {
				if e.What == Granted && e.Token > before.Token && !slices.Contains(tokens, e.Token) {
					tokens = append(tokens, e.Token)
				}
			}
			plain.settle(table.Revision())
			now := table.Leader("e")
			changed := !before.Same(now)
			if told := slices.ContainsFunc(events, func(e Event) bool { return e.What == Led && e.Key == "e" }); changed && !told {
				t.Fatalf("seed %d, step %d: %+v changes the leader from %+v to %+v, and nobody is told", seed, step, cmd, before, now)
			}
			if now.Token != 0 && before.Token != 0 && now.Token < before.Token {
				t.Fatalf("seed %d, step %d: token %d after %d", seed, step, now.Token, before.Token)
			}
			if got := electionOf(table); got != plain.String() {
				t.Fatalf("seed %d, step %d: after %+v %s, want %s", seed, step, cmd, got, plain.String())
			}
			if random.IntN(20) == 0 {
				table = restored(t, imageOf(table))
				table.Enter(thisTerm, 0)
			}
		}
		leaders += len(tokens)
	}
	if leaders < 1000 {
		t.Errorf("%d leaders: too little happened", leaders)
	}
}
