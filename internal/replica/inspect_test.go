package replica

import (
	"testing"

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
