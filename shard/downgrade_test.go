package shard

import (
	"slices"
	"testing"
)

func TestDowngrade(t *testing.T) {
	down := func(who string, n, token uint64) Downgrade { return Downgrade{call(who, n), "k", token} }
	ann := lock("ann", 1, "k")
	given := func(more ...Command) []Command { return append([]Command{ann}, more...) }
	done, lost := Event{What: Done, Session: id("ann"), Number: 2}, Event{What: Refused, Session: id("ann"), Number: 2, Reason: Lost}
	granted := func(who string, token uint64) Event {
		return Event{What: Granted, Session: id(who), Number: 1, Token: token}
	}
	for _, tt := range []struct {
		name  string
		given []Command
		when  Command
		want  []Event
		taken int64
	}{
		{"a writer is a reader now", given(), down("ann", 2, 2), []Event{done}, 1},
		{"the readers at the head of the queue get in", given(read("bob", 1, "k"), read("eve", 1, "k"), lock("joe", 1, "k"), read("sue", 1, "k")),
			down("ann", 2, 2), []Event{done, granted("bob", 8), granted("eve", 9)}, 3},
		{"a writer waits on", given(lock("bob", 1, "k")), down("ann", 2, 2), []Event{done}, 1},
		{"a copy changes nothing", given(down("ann", 2, 2), read("bob", 1, "k")), down("ann", 2, 2), []Event{done}, 2},
		{"a reader is one already", []Command{read("ann", 1, "k")}, down("ann", 2, 2), []Event{done}, 1},
		{"another token", given(), down("ann", 2, 3), []Event{lost}, Whole},
		{"another key", given(), Downgrade{call("ann", 2), "j", 2}, []Event{lost}, Whole},
		{"who waits holds nothing", []Command{lock("bob", 1, "k"), ann}, down("ann", 2, 2), []Event{lost}, Whole},
		{"a semaphore has no writer", []Command{permits("ann", 1, "k", 3, 3)}, down("ann", 2, 2), []Event{lost}, 3},
		{"late, after a release", given(release("ann", 3, "k", 2), lock("bob", 1, "k")), down("ann", 2, 2), []Event{lost}, Whole},
	} {
		t.Run(tt.name, func(t *testing.T) {
			table := newTable()
			for _, cmd := range tt.given {
				table.Step(cmd, nil)
			}
			if got := table.Step(tt.when, nil); !slices.Equal(got, tt.want) {
				t.Errorf("after %+v: Step(%+v) = %+v, want %+v", tt.given, tt.when, got, tt.want)
			}
			if got := table.keys["k"].taken; got != tt.taken {
				t.Errorf("%d of the key is taken, want %d", got, tt.taken)
			}
		})
	}
}

// Promise: C8, P47: who has begun a Downgrade reports a reader's hold, though an earlier copy of its report was a writer's.
func TestADowngradeIsReported(t *testing.T) {
	report := func(n uint64, weight int64) Report {
		return Report{Call: call("ann", n), TTL: ttl, Key: "k", Weight: weight, Capacity: Whole, Earlier: Earlier{Token: 7, Known: 7}}
	}
	table := NewTable(Founding{Revision: 10, Settles: ttl, Check: true})
	table.Enter(thisTerm, 0)
	for _, cmd := range []Command{report(1, Whole), report(2, 1), Downgrade{call("ann", 3), "k", 7}} {
		if out := table.Step(cmd, nil); out[len(out)-1].What != Granted && out[len(out)-1].What != Done {
			t.Errorf("Step(%+v) = %+v", cmd, out)
		}
	}
	if got := table.keys["k"].taken; got != 1 {
		t.Errorf("%d of the key is taken, want 1", got)
	}
}
