package replica

import (
	"slices"
	"testing"
	"time"

	"github.com/lockmesh/mesh/shard"
)

// Promise: P48: after one round a leader tells a few pages, and the others, in their order, after the next ones. A replica that does
// not lead takes no question.
func TestFewPagesARound(t *testing.T) {
	w, leader := led(t)
	const questions = 2*maxInspects + 3
	for _, r := range w.replicas {
		if err := r.Inspect(w.now, Inspect{Node: 9, Ref: 1, Inspection: shard.Inspection{Key: "k"}}); (err == nil) != (r == leader) {
			t.Errorf("replica %d: %v", r.ID(), err)
		}
	}
	waiting := make([]Inspect, questions)
	for i := range waiting {
		waiting[i] = Inspect{Node: 9, Ref: uint64(i), Inspection: shard.Inspection{Key: "k", Most: 1}}
	}
	leader.leading.reads.waiting.inspects = nil
	next := uint64(0)
	for _, want := range []int{maxInspects, maxInspects, 3} {
		var out Output
		leader.inspected(waiting, &out)
		if len(out.States) != want {
			t.Errorf("%d pages are told, want %d", len(out.States), want)
		}
		for _, s := range out.States {
			if s.Ref != next || s.Node != 9 {
				t.Errorf("the page of question %d of node %d, want %d", s.Ref, s.Node, next)
			}
			next++
		}
		waiting = leader.leading.reads.waiting.inspects
		leader.leading.reads.waiting.inspects = nil
	}
	if len(waiting) != 0 || next != questions {
		t.Errorf("%d were answered, and %d wait", next, len(waiting))
	}
}

// Promise: P50: a leader says for how long it has not heard of those who wait. One that it has not heard of since it leads, it may know
// nothing of.
func TestALeaderTellsWhoIsSilent(t *testing.T) {
	_, leader := led(t)
	var all []shard.SessionID
	for i := range uint64(3) {
		id := shard.SessionID{Node: 7, Number: i + 1}
		all = append(all, id)
		ask := shard.Acquire{Call: shard.Call{Session: id, Number: 1}, TTL: time.Minute, Name: "n", Key: "k", Weight: shard.Whole, Capacity: shard.Whole}
		leader.table.Step(shard.Within{Command: ask, Grants: []shard.Grant{{Token: 9}}}, nil)
	}
	leases := &leader.leading.leases
	leases.inherit(shard.Lease{Session: all[1], TTL: time.Minute}, leader.now, 0.01)
	leases.open(all[2], time.Minute, leader.now)
	silent := func(after time.Duration) (told []time.Duration) {
		var out Output
		leader.now += after
		leader.inspected([]Inspect{{Node: 9, Inspection: shard.Inspection{Within: []shard.Grant{{Token: 9}}}}}, &out)
		for _, w := range out.States[0].Waits { // the first holds the key
			told = append(told, w.Silent)
		}
		return told
	}
	if got := silent(time.Second); !slices.Equal(got, []time.Duration{shard.MaxDuration, time.Second}) {
		t.Errorf("silent for %v", got)
	}
	leases.hear(all[1], leader.now)
	if got := silent(2 * time.Second); !slices.Equal(got, []time.Duration{2 * time.Second, 3 * time.Second}) {
		t.Errorf("then for %v", got)
	}
	leases.end(all[1])
	if got := silent(0); got[0] != shard.MaxDuration {
		t.Errorf("without a lease: %v", got)
	}
}
