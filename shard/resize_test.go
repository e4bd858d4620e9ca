package shard

import (
	"slices"
	"testing"
	"time"
)

func resize(who string, n uint64, key string, from, to int64) Resize {
	return Resize{Call: call(who, n), TTL: ttl, Name: who, Key: key, From: from, To: to}
}

// Promise: P38: a Resize compares, evicts nobody, and never lets more be granted than there is.
func TestResize(t *testing.T) {
	of := func(e Event, capacity int64) Event { e.Capacity = capacity; return e }
	by := func(e Event, holder string, token uint64) Event { e.Holder, e.Token = holder, token; return e }
	ann, bob := id("ann"), id("bob")
	two := []Command{permits("ann", 1, "s", 2, 3)} // token 2
	full := append(slices.Clone(two), permits("bob", 1, "s", 2, 3))
	after := func(given []Command, more ...Command) []Command { return append(slices.Clone(given), more...) }
	shrunk := after(two, permits("ann", 2, "s", 1, 3), resize("ann", 3, "s", 3, 2)) // tokens 2 and 4, 3 of 2
	many := slices.Clone(two)
	for i := range uint64(9) {
		many = append(many, resize("ann", 2+i, "s", 3+int64(i), 4+int64(i)))
	}
	for _, tt := range []struct {
		name  string
		given []Command
		when  Command
		want  []Event
		keys  string
	}{
		{"more permits let in who fits", full, resize("ann", 2, "s", 3, 4), []Event{done(ann, 2), of(granted(bob, 1, 5), 4)}, "s: ann=2 bob=5"},
		{"a repeated one has the same answer", after(full, resize("ann", 2, "s", 3, 4)), resize("ann", 2, "s", 3, 4), []Event{done(ann, 2)}, "s: ann=2 bob=5"},
		{"nobody is evicted", after(two, permits("ann", 2, "s", 1, 3)), resize("ann", 3, "s", 3, 1), []Event{done(ann, 3)}, "s: ann=2 ann=4"},
		{"who can never fit is told so", full, resize("ann", 2, "s", 3, 1), []Event{done(ann, 2), of(refused(bob, 1, Capacity), 1)}, "s: ann=2"},
		{"who can never fit does not stand before others", after(full, permits("ann", 2, "s", 1, 3)), resize("ann", 3, "s", 3, 1),
			[]Event{done(ann, 3), of(refused(bob, 1, Capacity), 1)}, "s: ann=2 | ann"},
		{"who comes and can never fit is told so", shrunk, permits("bob", 1, "s", 3, 3), []Event{opened(bob, ttl), by(refused(bob, 1, Capacity), "ann", 2)}, "s: ann=2 ann=4"},
		{"the former capacity is accepted, and nothing is granted until it fits", shrunk, permits("bob", 1, "s", 1, 3), []Event{opened(bob, ttl), queued(bob, 1, 0, "ann", 2, 6)}, "s: ann=2 ann=4 | bob"},
		{"also not to a try", shrunk, try(permits("bob", 1, "s", 1, 2)), []Event{opened(bob, ttl), by(refused(bob, 1, Locked), "ann", 2)}, "s: ann=2 ann=4"},
		{"nor when one of several is given back", after(shrunk, permits("bob", 1, "s", 1, 2)), release("ann", 4, "s", 4), []Event{done(ann, 4)}, "s: ann=2 | bob"},
		{"then it is", after(shrunk, permits("bob", 1, "s", 1, 2), release("ann", 4, "s", 4)), release("ann", 5, "s", 2), []Event{done(ann, 5), of(granted(bob, 1, 9), 2)}, "s: bob=9"},
		{"another one is not accepted", shrunk, permits("bob", 1, "s", 1, 4), []Event{opened(bob, ttl), by(refused(bob, 1, Capacity), "ann", 2)}, "s: ann=2 ann=4"},
		{"once the key is idle, the former one means nothing", after(two, resize("ann", 2, "s", 3, 2), release("ann", 3, "s", 2), permits("ann", 4, "s", 1, 2)),
			permits("bob", 1, "s", 1, 3), []Event{opened(bob, ttl), by(refused(bob, 1, Capacity), "ann", 6)}, "s: ann=6"},
		{"the eighth capacity before is accepted", many, permits("bob", 1, "s", 1, 4), []Event{opened(bob, ttl), of(granted(bob, 1, 13), 12)}, "s: ann=2 bob=13"},
		{"the ninth is not", many, permits("bob", 1, "s", 1, 3), []Event{opened(bob, ttl), by(refused(bob, 1, Capacity), "ann", 2)}, "s: ann=2"},
		{"it compares", two, resize("bob", 1, "s", 4, 5), []Event{opened(bob, ttl), by(of(refused(bob, 1, Capacity), 3), "ann", 2)}, "s: ann=2"},
		{"a former capacity is another one", shrunk, resize("bob", 1, "s", 3, 5), []Event{opened(bob, ttl), by(of(refused(bob, 1, Capacity), 2), "ann", 2)}, "s: ann=2 ann=4"},
		{"what it is to be it may be already", two, resize("bob", 1, "s", 9, 3), []Event{opened(bob, ttl), done(bob, 1)}, "s: ann=2"},
		{"it comes back to what it was", shrunk, resize("ann", 9, "s", 2, 3), []Event{done(ann, 9)}, "s: ann=2 ann=4"},
		{"a lock has no capacity", []Command{lock("ann", 1, "s")}, resize("bob", 1, "s", Whole, 3), []Event{opened(bob, ttl), by(refused(bob, 1, Capacity), "ann", 2)}, "s: ann=2"},
		{"an unused key has none, and keeps none", nil, resize("ann", 1, "s", 3, 5), []Event{opened(ann, ttl), done(ann, 1)}, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			table := newTable()
			for _, cmd := range tt.given {
				table.Step(cmd, nil)
				table.checkAll()
			}
			twin := restored(t, imageOf(table))
			got := table.Step(tt.when, nil)
			table.checkAll()
			if !slices.Equal(got, tt.want) || keysOf(table) != tt.keys {
				t.Errorf("Step(%+v) = %+v, %s\nwant %+v, %s", tt.when, got, keysOf(table), tt.want, tt.keys)
			}
			twin.Enter(thisTerm, 0)
			if same := twin.Step(tt.when, nil); !slices.Equal(same, got) || twin.Sum() != table.Sum() {
				t.Errorf("restored from a snapshot, Step(%+v) = %+v", tt.when, same)
			}
		})
	}
}

// Promise: P38, C8: of the capacities that are reported the smallest counts, and no hold is lost because of a Resize.
func TestReportsOfSeveralCapacities(t *testing.T) {
	of := func(r Report, weight, capacity int64) Report {
		r.Kind, r.Weight, r.Capacity = Semaphore, weight, capacity
		return r
	}
	for _, tt := range []struct {
		name  string
		given []Command
		keys  string // once it may grant
		then  int64  // the capacity
	}{
		{"more was granted once there was more", []Command{of(held("ann", 1, "s", 5), 3, 3), of(held("bob", 1, "s", 6), 2, 5)}, "s: ann=5 bob=6", 3},
		{"it is reported in another order", []Command{of(held("bob", 1, "s", 6), 2, 5), of(held("ann", 1, "s", 5), 3, 3)}, "s: ann=5 bob=6", 3},
		{"less was granted once there was less", []Command{of(held("ann", 1, "s", 5), 1, 5), of(held("bob", 1, "s", 6), 2, 3)}, "s: ann=5 bob=6", 3},
		{"of what does not fit the higher tokens stay", []Command{of(held("ann", 1, "s", 5), 3, 5), of(held("bob", 1, "s", 6), 2, 3)}, "s: bob=6", 3},
		{"who waits for more than the least is refused", []Command{of(waited("eve", 1, "s", 4), 4, 5), of(held("ann", 1, "s", 5), 2, 3)}, "s: ann=5", 3},
		{"also if that comes later", []Command{of(held("ann", 1, "s", 5), 2, 3), of(waited("eve", 1, "s", 4), 4, 5)}, "s: ann=5", 3},
		{"who waits may have heard of another one", []Command{of(held("ann", 1, "s", 5), 3, 3), of(waited("eve", 1, "s", 4), 1, 5), of(waited("bob", 1, "s", 3), 1, 2)}, "s: ann=5 | bob eve", 2},
		{"it is resized in the quiet time", []Command{of(held("ann", 1, "s", 5), 3, 3), of(waited("eve", 1, "s", 4), 1, 3), resize("bob", 1, "s", 3, 4)}, "s: ann=5 eve=1073741833", 4},
		{"what is new yields to a report", []Command{permits("bob", 1, "s", 1, 4), of(held("ann", 1, "s", 5), 3, 3)}, "s: ann=5", 3},
	} {
		t.Run(tt.name, func(t *testing.T) {
			table := NewTable(Founding{Check: true, Settles: time.Second})
			table.Enter(thisTerm, 0)
			for _, cmd := range tt.given {
				table.Step(cmd, nil)
				table.checkAll()
			}
			table.Step(Calm{Term: thisTerm}, nil)
			table.checkAll()
			e := table.keys["s"]
			if got := keysOf(table); got != tt.keys || e.capacity != tt.then {
				t.Errorf("%s, a capacity of %d; want %s, %d", got, e.capacity, tt.keys, tt.then)
			}
			if twin := restored(t, imageOf(table)); twin.Sum() != table.Sum() {
				t.Error("a snapshot gives another table")
			}
		})
	}
	table := NewTable(Founding{Check: true, Settles: time.Second})
	want := Event{What: Refused, Session: id("ann"), Number: 1, Reason: Quiet, Quiet: time.Second}
	if got := table.Step(resize("ann", 1, "s", 3, 4), nil); !slices.Contains(got, want) {
		t.Errorf("nobody has reported the key yet: %+v", got)
	}
}
