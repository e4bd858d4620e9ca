package shard

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/lockmesh/mesh/internal/wire"
)

// Nodes ann, bob and cid carry the guest gus, each in a session of its own.

func carry(who string, n, carrier uint64) Carry {
	return Carry{Call: call(who, n), TTL: ttl, Guest: "gus", Carrier: carrier}
}

func onOnly(c Carry) Carry {
	c.Only = true
	return c
}

func complete(c Carry) Carry {
	c.Complete = true
	return c
}

func tagged(cmd Command, tag string) Tagged { return Tagged{cmd, tag} }

func claim(who string, n uint64, key, tag string) Claim {
	return Claim{Call: call(who, n), Key: key, Tag: tag}
}

// guestOf writes down what the table knows of gus: which session, what it holds and waits for, and what has ended.
func guestOf(t *Table) string {
	s := t.guests["gus"]
	if s == nil {
		return ""
	}
	all := []string{fmt.Sprintf("%c carries as %d", rune(s.id.Node), s.guest.carrier)}
	for _, r := range s.requestsInOrder() {
		text := fmt.Sprintf("%s of %s", r.tag, r.entry.key)
		if r.token != 0 {
			text += fmt.Sprintf(" %d", r.token)
		}
		if r.number >= carriedOn {
			text += " unclaimed"
		}
		all = append(all, text)
	}
	for _, u := range s.usesInOrder() {
		all = append(all, fmt.Sprintf("uses %s since %d", u.entry.key, u.stamp))
	}
	for _, f := range s.guest.finished {
		all = append(all, fmt.Sprintf("%s of %s ended %d", f.tag, f.key, f.token))
	}
	return strings.Join(all, ", ")
}

// Promise: P42.
func TestGuest(t *testing.T) {
	holds := []Command{carry("ann", 1, 0), tagged(lock("ann", 2, "k"), "x")} // token 3
	waits := []Command{lock("eve", 1, "k"), carry("ann", 1, 0), tagged(lock("ann", 2, "k"), "x")}
	after := func(given []Command, more ...Command) []Command { return append(slices.Clone(given), more...) }
	for _, tt := range []struct {
		name  string
		given []Command
		when  Command
		want  string // what is told
		state string // of the guest, afterwards
	}{
		{"the first carrier gets a number", nil, carry("ann", 1, 0), "a1 done 1", "a carries as 1"},
		{"or brings it from the guest's home", nil, carry("ann", 1, 7), "a1 done 7", "a carries as 7"},
		{"the next one gets a higher one, and the record", []Command{carry("ann", 1, 0)}, carry("bob", 1, 0), "a ended, b1 done 2", "b carries as 2"},
		{"also if another shard is further on", []Command{carry("ann", 1, 700)}, carry("bob", 1, 0), "a ended, b1 done 701", "b carries as 701"},
		{"an earlier one is refused", []Command{carry("ann", 1, 7)}, carry("bob", 1, 6), "b1 lost", "a carries as 7"},
		{"and one with the same number", []Command{carry("ann", 1, 7)}, carry("bob", 1, 7), "b1 lost", "a carries as 7"},
		{"one that comes again has the same answer", []Command{carry("ann", 1, 0)}, carry("ann", 1, 0), "a1 done 1", "a carries as 1"},
		{"the session that carries may say so twice", []Command{carry("ann", 1, 0)}, carry("ann", 2, 0), "a2 done 1", "a carries as 1"},
		{"one that was overtaken does not come back under its number", []Command{carry("ann", 1, 0), carry("bob", 1, 0)}, func() Command { c := carry("ann", 1, 0); c.Since = 1; return c }(), "a1 reopen", "b carries as 2"},
		{"where there is nothing to carry on, none is opened", nil, onOnly(carry("ann", 1, 7)), "a1 lost", ""},
		{"where there is, it is carried on", holds, onOnly(carry("bob", 1, 7)), "a ended, b1 done 7 with 1 unclaimed", "b carries as 7, x of k 3 unclaimed"},
		{"a later session of the node carries on as it did", holds, func() Command { c := carry("ann", 1, 1); c.Session.Number = 2; return c }(), "a ended, a1 done 1 with 1 unclaimed", "a carries as 1, x of k 3 unclaimed"},
		{"a session of something else carries nobody", []Command{lock("ann", 1, "k")}, carry("ann", 2, 0), "a2 lost", ""},
		{"nor two guests", []Command{carry("ann", 1, 0)}, func() Command { c := carry("ann", 2, 0); c.Guest = "hal"; return c }(), "a2 lost", "a carries as 1"},

		// What is carried on.
		{"a hold stays with its token", holds, carry("bob", 1, 0), "a ended, b1 done 4 with 1 unclaimed", "b carries as 4, x of k 3 unclaimed"},
		{"and is claimed by its tag", after(holds, carry("bob", 1, 0)), tagged(lock("bob", 2, "k"), "x"), "b2 runs 3", "b carries as 4, x of k 3"},
		{"or by a claim", after(holds, carry("bob", 1, 0)), claim("bob", 2, "k", "x"), "b2 runs 3", "b carries as 4, x of k 3"},
		{"twice, if an answer was lost", after(holds, carry("bob", 1, 0), claim("bob", 2, "k", "x")), claim("bob", 3, "k", "x"), "b3 runs 3", "b carries as 4, x of k 3"},
		{"and by a third carrier", after(holds, carry("bob", 1, 0), carry("cid", 1, 0)), claim("cid", 2, "k", "x"), "c2 runs 3", "c carries as 5, x of k 3"},
		{"but not as something else", after(holds, carry("bob", 1, 0)), tagged(read("bob", 2, "k"), "x"), "b2 capacity", "b carries as 4, x of k 3 unclaimed"},
		{"another tag is another request", after(holds, carry("bob", 1, 0)), tagged(lock("bob", 2, "k"), "y"), "b2 waits", "b carries as 4, y of k, x of k 3 unclaimed"},
		{"another key as well", after(holds, carry("bob", 1, 0)), claim("bob", 2, "l", "x"), "b2 lost", "b carries as 4, x of k 3 unclaimed"},
		{"what is unclaimed can be asked again", after(holds, tagged(lock("ann", 3, "l"), "x"), carry("bob", 1, 0), claim("bob", 2, "k", "x")), carry("bob", 3, 0), "b3 done 6 with 1 unclaimed", "b carries as 6, x of k 3, x of l 5 unclaimed"},
		{"a place in a queue stays", waits, carry("bob", 1, 0), "a ended, b1 done 5 with 1 unclaimed", "b carries as 5, x of k unclaimed"},
		{"is granted unclaimed", after(waits, carry("bob", 1, 0)), release("eve", 2, "k", 2), "e2 done, b4611686018427387904 runs 7", "b carries as 5, x of k 7 unclaimed"},
		{"and claimed then", after(waits, carry("bob", 1, 0), release("eve", 2, "k", 2)), claim("bob", 2, "k", "x"), "b2 runs 7", "b carries as 5, x of k 7"},
		{"or claimed while it waits", after(waits, carry("bob", 1, 0)), claim("bob", 2, "k", "x"), "b2 waits", "b carries as 5, x of k"},
		{"the earlier carrier cannot give it back", after(holds, carry("bob", 1, 0)), release("ann", 3, "k", 3), "a3 lost", "b carries as 4, x of k 3 unclaimed"},
		{"nor close it", after(holds, carry("bob", 1, 0)), Close{id("ann"), 3}, "a3 done", "b carries as 4, x of k 3 unclaimed"},
		{"nor does its lease end it", after(holds, carry("bob", 1, 0)), Expire{id("ann"), thisTerm}, "", "b carries as 4, x of k 3 unclaimed"},
		{"that of the present one does", after(waits, carry("bob", 1, 0), tagged(lock("bob", 2, "l"), "x")), Expire{id("bob"), thisTerm}, "b ended", ""},
		{"and whoever waits gets the key", after(holds, lock("eve", 1, "k"), carry("bob", 1, 0)), Expire{id("bob"), thisTerm}, "b ended, e1 runs 7", ""},

		// What has ended.
		{"an end is remembered", after(holds), release("ann", 3, "k", 3), "a3 done", "a carries as 1, x of k ended 3"},
		{"for the next carrier as well", after(holds, release("ann", 3, "k", 3), carry("bob", 1, 0)), claim("bob", 2, "k", "x"), "b2 done 3", "b carries as 5, x of k ended 3"},
		{"but the tag may be used again", after(holds, release("ann", 3, "k", 3)), tagged(lock("ann", 4, "k"), "x"), "a4 runs 6", "a carries as 1, x of k 6"},
		{"then only the end of the later request is known", after(holds, release("ann", 3, "k", 3), tagged(lock("ann", 4, "k"), "x"), cancel("ann", 5, 4)), claim("ann", 6, "k", "x"), "a6 lost", "a carries as 1"},
		{"a cancel leaves nothing", holds, cancel("ann", 3, 2), "a3 done", "a carries as 1"},
		{"no more is remembered than that", after(holds, cancel("ann", 3, 2)), claim("ann", 4, "k", "x"), "a4 lost", "a carries as 1"},

		// Resources.
		{"an operation is carried on", []Command{carry("ann", 1, 0), tagged(pull("ann", 2), "x"), carry("bob", 1, 0)}, tagged(func() Command { b := pull("bob", 2); b.User = "ann"; return b }(), "x"), "b2 runs 3", "b carries as 4, x of r 3"},
		{"not as another one", []Command{carry("ann", 1, 0), tagged(pull("ann", 2), "x"), carry("bob", 1, 0)}, tagged(update("bob", 2), "x"), "b2 capacity", "b carries as 4, x of r 3 unclaimed"},
		{"a use as well", []Command{carry("ann", 1, 0), tagged(pull("ann", 2), "x"), end("ann", 3, 3)}, carry("bob", 1, 0), "a ended, b1 done 5 with 1 unclaimed", "b carries as 5, uses r since 4, x of r ended 3"},
		{"which is known if it is durable", []Command{carry("ann", 1, 0), tagged(with(pull("ann", 2), durable), "x"), end("ann", 3, 3)}, carry("bob", 1, 0), "a ended, b1 done 5", "b carries as 5, uses r since 4, x of r ended 3"},
		{"or confirmed", []Command{carry("ann", 1, 0), tagged(pull("ann", 2), "x"), end("ann", 3, 3), carry("bob", 1, 0), with(pull("bob", 2), func(o *Operation) { o.User = "ann" })}, carry("bob", 3, 0), "b3 done 5", "b carries as 5, uses r since 7, x of r ended 3"},
		{"and the next carrier drops it", []Command{carry("ann", 1, 0), tagged(pull("ann", 2), "x"), end("ann", 3, 3), carry("bob", 1, 0)}, func() Command { d := drop("bob", 2, 4); d.User = "ann"; return d }(), "b2 done", "b carries as 5, x of r ended 3"},
		{"who skipped hears of it again", []Command{pull("eve", 1), carry("ann", 1, 0), tagged(pull("ann", 2), "x"), end("eve", 2, 2), carry("bob", 1, 0)}, claim("bob", 2, "r", "x"), "b2 skips 6", "b carries as 7, uses r since 6, x of r ended 6"},
		{"and who was refused", []Command{pull("eve", 1), carry("ann", 1, 0), tagged(remove("ann", 2), "x"), end("eve", 2, 2), carry("bob", 1, 0)}, claim("bob", 2, "r", "x"), "b2 in use by ", "b carries as 6, x of r ended 0"},

		// What is done once, latches and barriers.
		{"a run is carried on", []Command{carry("ann", 1, 0), tagged(run("ann", 2), "x"), carry("bob", 1, 0)}, tagged(run("bob", 2), "x"), "b2 runs 3", "b carries as 4, x of r 3"},
		{"not as another operation", []Command{carry("ann", 1, 0), tagged(run("ann", 2), "x"), carry("bob", 1, 0)}, tagged(pull("bob", 2), "x"), "b2 capacity", "b carries as 4, x of r 3 unclaimed"},
		{"that is no failure", []Command{carry("ann", 1, 0), tagged(run("ann", 2), "x"), upTo(1, run("eve", 1)), carry("bob", 1, 0), claim("bob", 2, "r", "x")}, cancel("bob", 3, 2), "e1 runs 8, b3 done", "b carries as 5"},
		{"who skipped what was done once hears of it again", []Command{run("eve", 1), carry("ann", 1, 0), tagged(run("ann", 2), "x"), end("eve", 2, 2), carry("bob", 1, 0)}, claim("bob", 2, "r", "x"), "b2 skips 6", "b carries as 7, x of r ended 6"},
		{"and who was refused, since it failed too often", []Command{run("eve", 1), carry("ann", 1, 0), tagged(upTo(1, run("ann", 2)), "x"), fails("eve", 2, 2), carry("bob", 1, 0)}, claim("bob", 2, "r", "x"), "b2 failed", "b carries as 6, x of r ended 0"},
		{"a wait for a latch is carried on", []Command{carry("ann", 1, 0), tagged(awaits("ann", 2), "x"), carry("bob", 1, 0)}, tagged(awaits("bob", 2), "x"), "b2 waits", "b carries as 3, x of r"},
		{"and who waited hears that it has opened", []Command{carry("ann", 1, 0), tagged(awaits("ann", 2), "x"), carry("bob", 1, 0), arrives("eve", 1, "eve"), arrives("eve", 2, "fay")}, claim("bob", 2, "r", "x"), "b2 skips 6", "b carries as 3, x of r ended 6"},
		{"a member of a barrier stays inside", []Command{waitsAt("eve", 1, "r", Barrier, 2), carry("ann", 1, 0), tagged(waitsAt("ann", 2, "r", Barrier, 2), "x")}, carry("bob", 1, 0), "a ended, b1 done 6 with 1 unclaimed", "b carries as 6, x of r 5 unclaimed"},

		// Only guests have tags.
		{"no other session has a tag", []Command{lock("ann", 1, "l")}, tagged(lock("ann", 2, "k"), "x"), "a2 lost", ""},
		{"nor an operation", []Command{lock("ann", 1, "l")}, tagged(pull("ann", 2), "x"), "a2 lost", ""},
		{"nor claims anything", []Command{lock("ann", 1, "l")}, claim("ann", 2, "l", "x"), "a2 lost", ""},
		{"a guest's lease is not fixed", holds, fix("ann", 3, "k", 3, ttl), "a3 lost", "a carries as 1, x of k 3"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			table := newTable()
			for _, cmd := range tt.given {
				table.Step(cmd, nil)
				table.checkAll()
			}
			cut := table.Cut()
			before := table.Sum()
			if got := told(table.Step(tt.when, nil)); got != tt.want {
				t.Errorf("told: %s\nwant: %s", got, tt.want)
			}
			table.checkAll()
			if got := guestOf(table); got != tt.state {
				t.Errorf("the guest: %s\nwant:      %s", got, tt.state)
			}
			image, _ := cut.Next(1 << 20)
			if restored(t, image).Sum() != before {
				t.Error("a snapshot that was begun before the step has another table")
			}
			twin := restored(t, imageOf(table))
			if got := guestOf(twin); got != tt.state || twin.Sum() != table.Sum() {
				t.Errorf("restored from a snapshot: %s", got)
			}
		})
	}
}

// Promise: P42, C8. After its shard has lost its table a guest's places are reported, by a carrier that knows of them
// or by a later one that the guest has told.
func TestGuestsAreReported(t *testing.T) {
	reports := func(who string, n, token uint64) Tagged {
		r := Report{Call: call(who, n), TTL: ttl, Name: who, Key: "k", Weight: Whole, Capacity: Whole}
		r.Token, r.Known = token, 90
		if token == 0 {
			r.Entered = 80
		}
		return tagged(r, "x")
	}
	for _, tt := range []struct {
		name  string
		given []Command
		when  Command
		want  string
		state string
	}{
		{"a hold", []Command{carry("ann", 1, 7)}, reports("ann", 2, 50), "a2 runs 50", "a carries as 7, x of k 50"},
		{"a place", []Command{carry("ann", 1, 7)}, reports("ann", 2, 0), "a2 waits", "a carries as 7, x of k"},
		{"by the next carrier as well", []Command{carry("ann", 1, 7), reports("ann", 2, 50), carry("bob", 1, 8)}, reports("bob", 2, 50), "b2 runs 50", "b carries as 8, x of k 50"},
		{"which knows more", []Command{carry("ann", 1, 7), reports("ann", 2, 0), carry("bob", 1, 8)}, reports("bob", 2, 50), "b2 runs 50", "b carries as 8, x of k 50"},
		{"or less", []Command{carry("ann", 1, 7), reports("ann", 2, 50), carry("bob", 1, 8)}, reports("bob", 2, 0), "b2 runs 50", "b carries as 8, x of k 50"},
		{"by an earlier one too late", []Command{carry("bob", 1, 8), reports("bob", 2, 50)}, carry("ann", 1, 7), "a1 lost", "b carries as 8, x of k 50"},
		{"a carrier that knows all ends what an earlier one has reported", []Command{carry("ann", 1, 7), reports("ann", 2, 50)}, complete(carry("bob", 1, 8)), "a ended, b1 done 8", "b carries as 8"},
		{"and not what it has reported itself", []Command{complete(carry("bob", 1, 8)), reports("bob", 2, 50)}, complete(carry("bob", 1, 8)), "b1 done 8", "b carries as 8, x of k 50"},
		{"it may be the earlier one itself", []Command{complete(carry("bob", 1, 8))}, complete(carry("ann", 1, 7)), "a1 lost", "b carries as 8"},
		{"and by no other session", []Command{lock("ann", 1, "l")}, reports("ann", 2, 50), "a2 lost", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			table := NewTable(Founding{Settles: ttl, Check: true})
			table.Enter(thisTerm, 0)
			for _, cmd := range tt.given {
				table.Step(cmd, nil)
			}
			if got := told(table.Step(tt.when, nil)); got != tt.want {
				t.Errorf("told: %s\nwant: %s", got, tt.want)
			}
			if got := guestOf(table); got != tt.state {
				t.Errorf("the guest: %s\nwant:      %s", got, tt.state)
			}
		})
	}
}

// A tag is of an Acquire, a Begin, or the Report of a place.
func TestTagsOnTheirWay(t *testing.T) {
	report := Report{Call: call("ann", 2), TTL: ttl, Name: "ann", Key: "k", Weight: Whole, Capacity: Whole}
	fixed := report
	fixed.Hold = ttl
	for _, tt := range []struct {
		cmd   Command
		valid bool
	}{
		{tagged(lock("ann", 2, "k"), "x"), true},
		{tagged(pull("ann", 2), strings.Repeat("x", MaxTag)), true},
		{tagged(report, "x"), true},
		{tagged(fixed, "x"), false},
		{tagged(uses("ann", 2, 7), "x"), false},
		{tagged(lock("ann", 2, "k"), ""), false},
		{tagged(lock("ann", 2, "k"), strings.Repeat("x", MaxTag+1)), false},
		{tagged(release("ann", 2, "k", 7), "x"), false},
		{tagged(tagged(lock("ann", 2, "k"), "x"), "x"), false},
		{claim("ann", 2, "k", ""), false},
		{Carry{Call: call("ann", 1), TTL: ttl}, false},
	} {
		r := wire.NewReader(AppendCommand(nil, tt.cmd))
		got := ReadCommand(r)
		if valid := r.End() == nil; valid != tt.valid {
			t.Errorf("%+v: %v", tt.cmd, r.Err())
		} else if valid && fmt.Sprint(got) != fmt.Sprint(tt.cmd) {
			t.Errorf("%+v came back as %+v", tt.cmd, got)
		}
	}
}

// What was said to a guest of its lease stays true with its next carrier.
func TestACarrierKeepsTheLongerLease(t *testing.T) {
	table := newTable()
	table.Step(carry("ann", 1, 0), nil)
	shorter := carry("bob", 1, 0)
	shorter.TTL = ttl / 2
	for _, e := range table.Step(shorter, nil) {
		if e.What == Opened && e.TTL != ttl {
			t.Errorf("the leader is told of a lease of %v, want %v", e.TTL, ttl)
		}
	}
	if l, _ := table.Lease(id("bob")); l.TTL != ttl {
		t.Errorf("the lease of the next carrier is %v, want %v", l.TTL, ttl)
	}
}

// A shard remembers a bounded number of ends.
func TestEndsAreForgotten(t *testing.T) {
	table := newTable()
	table.Step(carry("ann", 1, 0), nil)
	n := uint64(1)
	for i := range maxFinished + 3 {
		n++
		token := table.Step(tagged(lock("ann", n, "k"), fmt.Sprint("x", i)), nil)[0].Token
		n++
		table.Step(release("ann", n, "k", token), nil)
	}
	finished := table.guests["gus"].guest.finished
	if len(finished) != maxFinished || finished[0].tag != "x3" {
		t.Errorf("%d ends are remembered, the first of %s", len(finished), finished[0].tag)
	}
}

// A request that is claimed has one number: nothing is remembered under the one before.
func TestAClaimLeavesNoNumberBehind(t *testing.T) {
	table := newTable()
	for _, cmd := range []Command{
		lock("eve", 1, "k"), carry("ann", 1, 0), tagged(lock("ann", 2, "k"), "x"), carry("bob", 1, 0), release("eve", 2, "k", 2), claim("bob", 2, "k", "x"), claim("bob", 3, "k", "x"),
	} {
		table.Step(cmd, nil)
	}
	s := table.sessions[id("bob")]
	if numbers := slices.Sorted(maps.Keys(s.results)); !slices.Equal(numbers, []uint64{1, 3}) || len(s.requests) != 1 || s.requests[3] == nil {
		t.Errorf("results of %v, %d requests", numbers, len(s.requests))
	}
}

// C8: a Report that comes too late is refused, and changes nothing: neither what the guest has asked for meanwhile under the same tag, nor
// what was granted to it.
func TestALateReportOfAGuestChangesNothing(t *testing.T) {
	for _, tt := range []struct {
		name  string
		given []Command
	}{
		{"a place in the queue", []Command{lock("eve", 1, "k"), carry("ann", 1, 0), tagged(lock("ann", 2, "k"), "x")}},
		{"a hold", []Command{carry("ann", 1, 0), tagged(lock("ann", 2, "k"), "x"), lock("eve", 1, "k")}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			table := newTable()
			for _, cmd := range tt.given {
				table.Step(cmd, nil)
			}
			want := guestOf(table)
			late := Report{Call: call("ann", 3), TTL: ttl, Name: "ann", Key: "k", Weight: Whole, Capacity: Whole}
			late.Token, late.Known = 50, 50
			if got := told(table.Step(tagged(late, "x"), nil)); got != "a3 late" || guestOf(table) != want {
				t.Errorf("told: %s\nthe guest had: %s\nand has now:   %s", got, want, guestOf(table))
			}
		})
	}
}

// C8: a Report that is refused as another one has the key under a higher token leaves the guest the place that an earlier carrier has reported.
func TestARefusedReportOfAGuestChangesNothing(t *testing.T) {
	report := func(who string, n uint64, e Earlier) Report {
		e.Known = 90
		return Report{Call: call(who, n), TTL: ttl, Name: who, Key: "k", Weight: Whole, Capacity: Whole, Earlier: e}
	}
	table := NewTable(Founding{Settles: ttl, Check: true})
	table.Enter(thisTerm, 0)
	for _, cmd := range []Command{
		report("eve", 1, Earlier{Token: 60}), carry("ann", 1, 7), tagged(report("ann", 2, Earlier{Entered: 80}), "x"), carry("bob", 1, 8),
	} {
		table.Step(cmd, nil)
	}
	want := guestOf(table)
	if got := told(table.Step(tagged(report("bob", 2, Earlier{Token: 50}), "x"), nil)); got != "b2 lost" || guestOf(table) != want {
		t.Errorf("told: %s\nthe guest had: %s\nand has now:   %s", got, want, guestOf(table))
	}
}

// P42, C8: a hold that the guest has given back through a later carrier does not come back by the report of an earlier one. Ann carried the guest, who
// got k with token 50; bob carried it on, and it gave k back; eve had k with token 60, and gave it back as well. Then the table is
// lost, and ann's lease is not over.
func TestWhatAGuestGaveBackDoesNotComeBack(t *testing.T) {
	stale := Report{Call: call("ann", 2), TTL: ttl, Name: "ann", Key: "k", Weight: Whole, Capacity: Whole}
	stale.Token, stale.Known = 50, 90
	table := NewTable(Founding{Settles: ttl, Check: true})
	table.Enter(thisTerm, 0)
	for _, cmd := range []Command{carry("ann", 1, 7), tagged(stale, "x"), complete(carry("bob", 1, 8))} {
		table.Step(cmd, nil)
	}
	table.Enter(thisTerm, 2*ttl)
	table.Step(Settle{Term: thisTerm}, nil)
	if got := told(table.Step(lock("eve", 1, "k"), nil)); !strings.Contains(got, "e1 runs") {
		t.Errorf("told: %s; the guest: %s", got, guestOf(table))
	}
}

// P42: a Granted tells a guest's node what is held, also when it is told again, so that a node which has claimed it by its tag alone knows.
func TestAGrantSaysWhatItIs(t *testing.T) {
	table := newTable()
	for _, cmd := range []Command{carry("ann", 1, 0), tagged(with(pull("ann", 2), durable), "x"), carry("bob", 1, 0)} {
		table.Step(cmd, nil)
	}
	op := with(pull("ann", 2), durable).Operation
	want := Fingerprint(Resource, 1, 1, &op)
	told := table.Step(claim("bob", 2, "r", "x"), nil)
	again, _ := table.Results(id("bob"), 8, 1)
	for _, e := range append(told, again...) {
		if e.Number == 2 && (e.What != Granted || e.Entered != want) {
			t.Errorf("%+v, want the fingerprint %d", e, want)
		}
	}
	for _, change := range []func(*Operation){
		whileUsed, func(o *Operation) { o.Durable = false }, func(o *Operation) { o.Op = Update }, func(o *Operation) { o.Version = "v" },
		func(o *Operation) { o.User = "eve" }, func(o *Operation) { o.Version, o.User = "a", "nn" }, func(o *Operation) { o.Retention++ },
	} {
		other := op
		if change(&other); Fingerprint(Resource, 1, 1, &other) == want {
			t.Errorf("%+v has the fingerprint of %+v", other, op)
		}
	}
	if Fingerprint(RW, 1, Whole, nil) == Fingerprint(RW, Whole, Whole, nil) || Fingerprint(Semaphore, 1, 2, nil) == Fingerprint(Semaphore, 2, 2, nil) || Fingerprint(Semaphore, 1, 2, nil) != Fingerprint(Semaphore, 1, 3, nil) || Fingerprint(Semaphore, 1, Whole, nil) == Fingerprint(RW, 1, Whole, nil) {
		t.Error("two requests have one fingerprint")
	}
}

// C8: a table that grants nothing yet says so in its answer to a Carry, also when it is told again: it knows of the guest by reports alone.
func TestACarryInTheQuietTime(t *testing.T) {
	table := NewTable(Founding{Settles: ttl, Check: true})
	table.Enter(thisTerm, 0)
	for _, cmd := range []Command{onOnly(carry("ann", 1, 7)), carry("ann", 2, 7), carry("ann", 2, 7), onOnly(carry("bob", 1, 6))} {
		events := table.Step(cmd, nil)
		if e := events[len(events)-1]; e.Quiet != ttl {
			t.Errorf("after %+v it is quiet for %v, want %v", cmd, e.Quiet, ttl)
		}
	}
	table.Enter(thisTerm, ttl)
	table.Step(Settle{Term: thisTerm}, nil)
	for _, cmd := range []Command{carry("ann", 3, 7), onOnly(carry("bob", 2, 6))} {
		events := table.Step(cmd, nil)
		if e := events[len(events)-1]; e.Quiet != 0 {
			t.Errorf("after %+v it is quiet for %v", cmd, e.Quiet)
		}
	}
}
