package shard

import (
	"slices"
	"testing"
	"time"

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

// Promise: G6, P10: who wakes from a stall gives a silent leader up as soon as anybody else.
// Method: the leader's last heartbeat waits in the followers' mailboxes when they wake up.
func TestAStallPutsNoElectionOff(t *testing.T) {
	w, leader := led(t)
	w.run(t, 2*HeartbeatTicks)
	w.now += 15 * time.Second
	for range HeartbeatTicks {
		leader.Tick(w.now, true)
	}
	w.settle(t)
	w.cut[1] = true
	for _, r := range w.replicas[1:] {
		r.Tick(w.now, true)
	}
	start := w.now
	for !w.replicas[1].Serving() && !w.replicas[2].Serving() && w.now-start < time.Minute {
		w.run(t, 1)
	}
	if d := w.now - start; d > 3*ElectionTimeout {
		t.Errorf("another one leads after %v", d)
	}
}

// A replica without a vote gives its leader up like any other, also if no tick comes between
// E and its deadline: it would go on to tell others what that leader counts.
func TestALearnerForgetsItsLeaderAtTheDeadline(t *testing.T) {
	w, leader := led(t)
	w.run(t, 2*HeartbeatTicks)
	w.add(1)
	learner := w.replicas[3]
	leader.addLearner(learner.cfg.Self)
	w.run(t, 2*HeartbeatTicks)
	if p, ok := learner.Leader(); !ok || p != leader.cfg.Self {
		t.Fatalf("the learner follows %v, %v", p, ok)
	}
	learner.Wake(learner.WakeAt())
	var out Output
	learner.Ready(learner.now, &out)
	if p, ok := learner.Leader(); ok || !learner.election.forgot {
		t.Errorf("the learner follows %v still", p)
	}
}

// Promise: P10: a stall moves the deadlines of an election once, and one that moves nothing leaves
// that to the next.
func TestAStallIsExcusedOnce(t *testing.T) {
	w, _ := led(t)
	w.run(t, 2*HeartbeatTicks)
	r := w.replicas[1]
	stall := func(silence time.Duration) (moved time.Duration) {
		r.election.contact = r.now - silence
		contact, campaign := r.election.contact, r.election.campaign
		r.election.stalled(r, 2*ElectionTimeout)
		if moved = r.election.contact - contact; r.election.campaign-campaign != moved {
			t.Errorf("the contact moved by %v, and the campaign by %v", moved, r.election.campaign-campaign)
		}
		return moved
	}
	if moved := stall(ElectionTimeout * 2 / 3); moved != 0 {
		t.Errorf("moved by %v, though a third was left", moved)
	}
	if moved := stall(2 * ElectionTimeout); moved != 2*ElectionTimeout-ElectionTimeout*2/3 {
		t.Errorf("moved by %v, want a third to be left", moved)
	}
	if moved := stall(2 * ElectionTimeout); moved != 0 {
		t.Errorf("moved once more, by %v", moved)
	}
	r.election.arm(r, r.now)
	if moved := stall(2 * ElectionTimeout); moved == 0 {
		t.Error("not moved after a sign of the leader")
	}
	r.election.arm(r, r.now)
	r.election.stand(r)
	if moved := stall(2 * ElectionTimeout); moved != 0 {
		t.Errorf("moved by %v between two campaigns, with no leader to be heard", moved)
	}
}

// Promise: G6, P20 and P21: the leader of the term, a new term, and a vote that is given begin the
// timer anew, whatever was planned before, and no replica campaigns ahead of time after any of them.
// Method: a follower was about to do all that the timer may make it do. Then it gets one message.
func TestEachSignBeginsTheTimerAnew(t *testing.T) {
	tests := []struct {
		name string
		kind raftpb.MessageType
		from uint64
		term uint64 // more than the follower's
		want bool
	}{
		{"the leader's heartbeat", raftpb.MsgHeartbeat, 1, 0, true},
		{"the leader's append", raftpb.MsgApp, 1, 0, true},
		{"a leader's heartbeat of a later term", raftpb.MsgHeartbeat, 2, 1, true},
		{"a question for a vote, which is given", raftpb.MsgVote, 2, 1, true},
		{"a question for a vote, which would be given", raftpb.MsgPreVote, 2, 1, false},
		{"a replica's answer", raftpb.MsgHeartbeatResp, 2, 0, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w, leader := led(t)
			w.run(t, 2*HeartbeatTicks)
			r := w.replicas[2]
			last, _ := r.store.LastIndex()
			logTerm, err := r.store.Term(last)
			if err != nil {
				t.Fatal(err)
			}
			e := &r.election
			e.forget(r)
			w.cut[1], w.cut[2] = true, true
			w.settle(t)
			w.now += ElectionTimeout / 2
			contact, campaign, early := e.contact, w.now+ElectionTimeout/4, w.now+earlyStep
			e.campaign, e.early, e.excused = campaign, early, true
			term := leader.Term() + tt.term
			m := &raftpb.Message{Type: tt.kind.Enum(), From: &tt.from, To: &r.cfg.ID, Term: &term, Index: &last, LogTerm: &logTerm}
			r.Step(w.now, 100+tt.from, Frame{Generation: 1, From: tt.from, To: r.ID(), Message: m})
			w.settle(t)
			anew := e.contact == w.now && e.campaign >= w.now+ElectionTimeout && e.early == never && !e.excused && !e.forgot
			asItWas := e.contact == contact && e.campaign == campaign && e.early == early && e.excused && e.forgot
			if tt.want && !anew || !tt.want && !asItWas {
				t.Errorf("at %v: %+v", w.now, *e)
			}
			if tt.want {
				role := r.role
				if r.Wake(early); r.role != role || r.WakeAt() <= early {
					t.Errorf("it campaigns at %v: %+v", early, *e)
				}
			}
		})
	}
}
