package shard

import (
	"slices"
	"testing"

	"go.etcd.io/raft/v3/raftpb"
)

// Followers whose ticks coincide stand when their deadlines are over, and not together at
// the next tick.
func TestCampaignsBeginAtTheirMoment(t *testing.T) {
	w, _ := led(t)
	w.run(t, 2*HeartbeatTicks)
	w.cut[1], w.cut[3] = true, true
	r := w.replicas[1]
	for n := 0; r.WakeAt() > w.now+TickInterval; n++ {
		if w.run(t, 1); n > 2*electionTicks {
			t.Fatalf("at %v it wants to be woken at %v", w.now, r.WakeAt())
		}
	}
	if r.WakeAt() <= w.now {
		t.Fatalf("the time %v has passed at %v", r.WakeAt(), w.now)
	}
	var out Output
	r.Wake(r.WakeAt())
	r.Ready(r.now, &out)
	if !slices.ContainsFunc(out.Frames, func(o Outgoing) bool { return o.Frame.Message.GetType() == raftpb.MsgPreVote }) {
		t.Errorf("at %v, after the tick at %v and before the next, it does not stand", r.now, w.now)
	}
}
