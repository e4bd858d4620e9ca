package shard

import (
	"slices"
	"testing"
	"time"
)

func TestReports(t *testing.T) {
	const quiet = 10 * time.Second
	readers := func(r Report, weight int64) Report {
		r.Kind, r.Weight, r.Capacity = Semaphore, weight, 5
		return r
	}
	old := func(a Acquire, revision uint64) Acquire { return since(a, revision) }
	fixedFor := func(r Report, hold time.Duration) Report {
		r.Hold = hold
		return r
	}
	tests := []struct {
		name  string
		given []Command
		when  Command
		want  []Event
		keys  string // after it, and after the Settle
		then  string
	}{
		{
			name:  "a hold counts again, with its token, before what waits already",
			given: []Command{lock("bob", 1, "a")},
			when:  held("ann", 3, "a", 7),
			want:  []Event{opened(id("ann"), ttl), granted(id("ann"), 3, 7)},
			keys:  "a: ann=7 | bob",
			then:  "a: ann=7 | bob",
		},
		{
			name:  "a hold that is reported again counts once",
			given: []Command{held("ann", 3, "a", 7)},
			when:  held("ann", 3, "a", 7),
			want:  []Event{granted(id("ann"), 3, 7)},
			keys:  "a: ann=7",
			then:  "a: ann=7",
		},
		{
			name:  "so does one that is reported under another number",
			given: []Command{held("ann", 3, "a", 7)},
			when:  held("ann", 4, "a", 7),
			want:  []Event{granted(id("ann"), 4, 7)},
			keys:  "a: ann=7",
			then:  "a: ann=7",
		},
		{
			name:  "a session that has a token reports it for another key, in vain",
			given: []Command{held("ann", 3, "a", 7)},
			when:  held("ann", 4, "b", 7),
			want:  []Event{refused(id("ann"), 4, Lost)},
			keys:  "a: ann=7",
			then:  "a: ann=7",
		},
		{
			name:  "waiters keep their order, those of an unknown place are last of them, and new ones follow",
			given: []Command{lock("fay", 1, "a"), waited("eve", 1, "a", 0), waited("bob", 1, "a", 9), lock("gus", 1, "a")},
			when:  waited("ann", 1, "a", 8),
			want:  []Event{opened(id("ann"), ttl), {What: Queued, Session: id("ann"), Number: 1, Ahead: 4, Entered: 8, Quiet: quiet}},
			keys:  "a: | fay eve bob gus ann",
			then:  "a: ann=1073741837 | bob eve fay gus",
		},
		{
			name:  "of two holds that do not fit together the later grant stays: it is reported last",
			given: []Command{held("ann", 1, "a", 7), held("ann", 2, "b", 6)},
			when:  held("bob", 1, "a", 8),
			want:  []Event{opened(id("bob"), ttl), ended(id("ann")), granted(id("bob"), 1, 8)},
			keys:  "a: bob=8",
			then:  "a: bob=8",
		},
		{
			name:  "it is reported first",
			given: []Command{held("bob", 1, "a", 8)},
			when:  held("ann", 1, "a", 7),
			want: []Event{opened(id("ann"), ttl), {
				What: Refused, Session: id("ann"), Number: 1, Reason: Lost, Holder: "bob", Token: 8, Quiet: quiet,
			}},
			keys: "a: bob=8",
			then: "a: bob=8",
		},
		{
			name: "the lowest tokens of a semaphore yield until a hold fits",
			given: []Command{
				readers(held("bob", 1, "s", 9), 1), readers(held("ann", 1, "s", 6), 2), readers(held("eve", 1, "s", 5), 2),
			},
			when: readers(held("fay", 1, "s", 8), 4),
			want: []Event{opened(id("fay"), ttl), ended(id("eve")), ended(id("ann")), granted(id("fay"), 1, 8)},
			keys: "s: bob=9 fay=8",
			then: "s: fay=8 bob=9",
		},
		{
			name:  "requests for something else yield to a hold",
			given: []Command{permits("bob", 1, "a", 1, 5), permits("eve", 1, "a", 1, 5)},
			when:  held("ann", 1, "a", 7),
			want: []Event{
				opened(id("ann"), ttl), refused(id("bob"), 1, Capacity), refused(id("eve"), 1, Capacity), granted(id("ann"), 1, 7),
			},
			keys: "a: ann=7",
			then: "a: ann=7",
		},
		{
			name:  "a hold of something else yields to a later one",
			given: []Command{readers(held("bob", 1, "a", 6), 1), readers(waited("eve", 1, "a", 5), 1)},
			when:  held("ann", 1, "a", 7),
			want:  []Event{opened(id("ann"), ttl), ended(id("bob")), refused(id("eve"), 1, Capacity), granted(id("ann"), 1, 7)},
			keys:  "a: ann=7",
			then:  "a: ann=7",
		},
		{
			name:  "a waiter for something else is refused",
			given: []Command{held("ann", 1, "a", 7)},
			when:  readers(waited("bob", 1, "a", 8), 1),
			want: []Event{opened(id("bob"), ttl), {
				What: Refused, Session: id("bob"), Number: 1, Reason: Capacity, Holder: "ann", Token: 7, Quiet: quiet,
			}},
			keys: "a: ann=7",
			then: "a: ann=7",
		},
		{
			name: "a hold of fixed length ends when it would have ended",
			when: fixedFor(held("ann", 1, "a", 7), 3*time.Second),
			want: []Event{opened(id("ann"), ttl), fixed(id("ann"), 3*time.Second), granted(id("ann"), 1, 7)},
			keys: "a: ann=7",
			then: "a: ann=7",
		},
		{
			name:  "a hold that was given back before its report came",
			given: []Command{cancel("ann", 2, 1)},
			when:  held("ann", 1, "a", 7),
			want:  []Event{refused(id("ann"), 1, Stale)},
		},
		{
			name:  "a session that was closed before its report came",
			given: []Command{Close{id("ann"), 9}},
			when: func() Command {
				r := held("ann", 1, "a", 7)
				r.Since = 0
				return r
			}(),
			want: []Event{refused(id("ann"), 1, Reopen)},
		},
		{
			name:  "a report to a table that grants comes too late",
			given: []Command{old(lock("bob", 1, "a"), 1), Settle{Term: thisTerm}},
			when:  held("ann", 1, "b", 7),
			want:  []Event{opened(id("ann"), ttl), refused(id("ann"), 1, Late)},
			keys:  "a: bob=3",
			then:  "a: bob=3",
		},
		{
			name:  "so does a waiter's",
			given: []Command{old(lock("bob", 1, "a"), 1), Settle{Term: thisTerm}},
			when:  waited("ann", 1, "a", 1),
			want:  []Event{opened(id("ann"), ttl), refused(id("ann"), 1, Late)},
			keys:  "a: bob=3",
			then:  "a: bob=3",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			table := NewTable(Founding{Check: true, Settles: quiet})
			table.Enter(thisTerm, 0)
			for _, cmd := range tt.given {
				stepDue(table, cmd)
			}
			if got := table.Step(tt.when, nil); !slices.Equal(got, tt.want) {
				t.Errorf("after %+v: Step(%+v) = %+v, want %+v", tt.given, tt.when, got, tt.want)
			}
			table.checkAll()
			if got := keysOf(table); got != tt.keys {
				t.Errorf("after %+v and %+v: keys %q, want %q", tt.given, tt.when, got, tt.keys)
			}
			stepDue(table, Settle{Term: thisTerm})
			table.checkAll()
			if got := keysOf(table); got != tt.then {
				t.Errorf("after %+v, %+v and a Settle: keys %q, want %q", tt.given, tt.when, got, tt.then)
			}
		})
	}
}

// Two sessions that name one token: one of them is wrong, and tokens must differ.
func TestOneTokenIsReportedTwice(t *testing.T) {
	table := NewTable(Founding{Check: true, Settles: time.Second})
	for i, who := range []string{"ann", "bob", "eve"} {
		r := held(who, 1, "s", []uint64{8, 7, 8}[i])
		r.Kind, r.Weight, r.Capacity = Semaphore, 1, 3
		table.Step(r, nil)
	}
	got := stepDue(table, Settle{Term: thisTerm})
	if want := []Event{ended(id("eve"))}; !slices.Equal(got, want) || keysOf(table) != "s: bob=7 ann=8" {
		t.Errorf("Settle = %+v, keys %q, want %+v and only the first of the two", got, keysOf(table), want)
	}
	table.checkAll()
}

// A table's revisions go on above all that its clients know of, though the clock of its first revision is
// behind (P17); and nothing is granted for as long as the longest of their leases lasts.
func TestReportsRaiseTheFloorAndTheQuietTime(t *testing.T) {
	tests := []struct {
		name            string
		known           uint64
		quiet           time.Duration
		revision, token uint64
		settles         time.Duration
	}{
		{"nothing new", 999, 5 * time.Second, 1001, 1005, 10 * time.Second},
		{"the revision that comes next", 1001, 10 * time.Second, 1001 + 1<<30, 1005 + 1<<30, 10 * time.Second},
		{"a later one, and a longer lease", 5000, 11 * time.Second, 5000 + 1<<30, 5004 + 1<<30, 11 * time.Second},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			table := NewTable(Founding{Check: true, Revision: 1000, Settles: 10 * time.Second})
			r := held("ann", 1, "a", 7)
			r.Known, r.Quiet = tt.known, tt.quiet
			table.Step(r, nil)
			if table.Revision() != tt.revision || table.Settles() != tt.settles {
				t.Errorf("revision %d, settles at %v, want %d and %v", table.Revision(), table.Settles(), tt.revision, tt.settles)
			}
			table.Step(lock("bob", 1, "b"), nil)
			table.Step(lock("bob", 2, "a"), nil)
			if got := stepDue(table, Settle{Term: thisTerm}); !slices.Equal(got, []Event{granted(id("bob"), 1, tt.token)}) {
				t.Errorf("Settle = %+v, want b with token %d", got, tt.token)
			}
			if got := table.Step(Release{Call: call("ann", 2), Key: "a", Token: 7}, nil); !slices.Contains(got, granted(id("bob"), 2, tt.token+2)) {
				t.Errorf("Release = %+v, want a for bob with token %d", got, tt.token+2)
			}
		})
	}
}

// Promise: P17, C7: a quiet table goes on above what its leader has heard that clients know of, though none reports.
func TestASettleRaisesTheFloor(t *testing.T) {
	table := NewTable(Founding{Check: true, Revision: 1000, Settles: 10 * time.Second})
	table.Step(lock("bob", 1, "b"), nil)
	table.Enter(thisTerm, time.Second)
	if got := table.Step(Settle{Term: thisTerm, Floor: 3000}, nil); len(got) > 0 || table.Revision() <= 3000 || table.Settles() == 0 {
		t.Errorf("before its time: %+v; it is at %d", got, table.Revision())
	}
	if got := stepDue(table, Settle{Term: thisTerm, Floor: 5000}); len(got) != 1 || got[0].What != Granted || got[0].Token <= 5000 {
		t.Errorf("above 5000: %+v", got)
	}
	if table.Step(Settle{Term: thisTerm + 1, Floor: 1 << 40}, nil); table.Revision() >= 1<<40 {
		t.Errorf("by a leader of another term it is at %d", table.Revision())
	}
	if got := table.Step(Settle{Term: thisTerm, Floor: 1 << 40}, nil); len(got) > 0 || table.Revision() <= 1<<40 {
		t.Errorf("a table that grants is at %d: %+v", table.Revision(), got)
	}
}

// Promise: C5: a Settle that was appended before a Report with a longer lease came is void.
func TestASettleComesTooEarly(t *testing.T) {
	table := NewTable(Founding{Check: true, Settles: 10 * time.Second})
	table.Enter(thisTerm, 10*time.Second)
	table.Step(lock("bob", 1, "b"), nil)
	r := held("ann", 1, "a", 7)
	r.Quiet = 30 * time.Second
	table.Step(r, nil)
	if got := table.Step(Settle{Term: thisTerm}, nil); len(got) > 0 {
		t.Errorf("it grants after 10 s: %+v", got)
	}
	table.Enter(thisTerm, 30*time.Second)
	if got := table.Step(Settle{Term: thisTerm}, nil); len(got) != 1 || got[0].What != Granted {
		t.Errorf("after 30 s: %+v", got)
	}
}

// Promise: C8: a request that waited for a key goes before new ones that want it as something else.
func TestAWaiterIsReportedBesideNewcomers(t *testing.T) {
	table := NewTable(Founding{Check: true, Settles: 10 * time.Second})
	table.Step(permits("bob", 1, "a", 1, 5), nil)
	got := table.Step(waited("ann", 1, "a", 6), nil)
	want := []Event{opened(id("ann"), ttl), refused(id("bob"), 1, Capacity)}
	if len(got) != 3 || !slices.Equal(got[:2], want) || got[2].What != Queued {
		t.Errorf("got %+v", got)
	}
	if got := table.Step(permits("eve", 1, "a", 1, 5), nil); got[1].Reason != Capacity {
		t.Errorf("a newcomer got %+v", got)
	}
}

// Promise: G2: a Report that comes too late still says of which revisions its client knows.
func TestALateReportRaisesTheFloor(t *testing.T) {
	table := NewTable(Founding{Check: true, Revision: 1000})
	r := held("ann", 1, "a", 7)
	r.Known = 5000
	table.Step(r, nil)
	if got := table.Step(lock("bob", 1, "b"), nil); got[1].Token <= 5000 {
		t.Errorf("after a report of revision 5000: %+v", got)
	}
}
