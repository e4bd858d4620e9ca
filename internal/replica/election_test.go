package replica

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/raftpb"

	"github.com/lockmesh/mesh/internal/env"
)

// Checkers hear of each role that a replica takes, once, with its term (P19, P20).
func TestRolesAreTold(t *testing.T) {
	w := newTrio()
	w.add(1)
	told := make(map[uint64][]string)
	for _, r := range w.replicas {
		r.cfg.Watch = func(fact any) {
			if b, is := fact.(env.Became); is {
				told[r.ID()] = append(told[r.ID()], fmt.Sprint(b.Role, " ", b.Term))
			}
		}
	}
	w.run(t, 3)
	leader := w.replicas[0]
	leader.addLearner(w.replicas[3].cfg.Self)
	w.run(t, 4*HeartbeatTicks)
	leader.Receive(w.now, 102, &Accept{leader.Term()})
	w.run(t, 2*HeartbeatTicks)
	w.cut[3] = true
	for n := 0; w.replicas[2].role == raft.StateFollower; n++ {
		if w.run(t, 1); n > 2*electionTicks {
			t.Fatal("replica 3 does not stand")
		}
	}
	w.replicas[1].Fail(errors.New("a panic"))
	w.run(t, 1)
	want := map[uint64][]string{
		1: {"candidate 1", "candidate 2", "leader 2", "follower 3"},
		2: {"follower 1", "follower 2", "candidate 3", "leader 3", "none 3"},
		3: {"follower 1", "follower 2", "follower 3", "candidate 3"},
		4: {"learner 2", "learner 3"},
	}
	for id := range want {
		if !slices.Equal(told[id], want[id]) {
			t.Errorf("replica %d becomes %q, want %q", id, told[id], want[id])
		}
	}
}

// Promise: P20: who leads is woken by nothing but its ticks, nor is who has stopped; a follower is when
// it may stand, at its deadline or ahead of that.
func TestWhoIsWoken(t *testing.T) {
	w, leader := led(t)
	w.run(t, 2*HeartbeatTicks)
	r := w.replicas[1]
	if got := leader.WakeAt(); got != never {
		t.Errorf("a leader is woken at %v", got)
	}
	if got := r.WakeAt(); got < w.now+ElectionTimeout-HeartbeatTicks*TickInterval || got > w.now+2*ElectionTimeout {
		t.Errorf("a follower is woken at %v, and it is %v", got, w.now)
	}
	r.SetTarget(Target{Nodes: []Peer{w.replicas[2].cfg.Self, r.cfg.Self}})
	if r.NodeGone(w.now, 101); r.WakeAt() != w.now+earlyStep {
		t.Errorf("it is woken at %v to stand ahead of time, and it is %v", r.WakeAt(), w.now)
	}
	if r.Fail(errors.New("a panic")); r.WakeAt() != never {
		t.Errorf("one that has stopped is woken at %v", r.WakeAt())
	}
}

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
	if !slices.ContainsFunc(sent[*Frame](&out), func(f *Frame) bool { return f.Message.GetType() == raftpb.MsgPreVote }) {
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
		r.election.stalled(r.now, 2*ElectionTimeout)
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
	r.election.arm(r.now)
	if moved := stall(2 * ElectionTimeout); moved == 0 {
		t.Error("not moved after a sign of the leader")
	}
	r.election.arm(r.now)
	r.stand()
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
			r.forgetLeader()
			w.cut[1], w.cut[2] = true, true
			w.settle(t)
			w.now += ElectionTimeout / 2
			contact, campaign, early := e.contact, w.now+ElectionTimeout/4, w.now+earlyStep
			e.campaign, e.early, e.excused = campaign, early, true
			term := leader.Term() + tt.term
			m := &raftpb.Message{Type: tt.kind.Enum(), From: &tt.from, To: &r.cfg.ID, Term: &term, Index: &last, LogTerm: &logTerm}
			r.Receive(w.now, 100+tt.from, &Frame{Generation: 1, From: tt.from, To: r.ID(), Message: m})
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

// Promise: G6, P20: who stands for election and wins nothing stands again after E to 2E; only the
// first founder of a shard that nobody has led yet does so as soon as the others may be there.
func TestWhoWinsNothingStandsAgain(t *testing.T) {
	tests := []struct {
		name string
		id   uint64
		term uint64 // what it has heard of; at first it is 1
		soon bool
	}{
		{"the first founder", 1, 1, true},
		{"the first founder, when somebody has led", 1, 2, false},
		{"another founder", 2, 1, false},
		{"a replica that was added", 4, 1, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := newReplica(tt.id, time.Second)
			from := tt.id%3 + 1
			m := &raftpb.Message{Type: raftpb.MsgHeartbeat.Enum(), From: &from, To: &r.cfg.ID, Term: &tt.term}
			if tt.term > 1 {
				r.Receive(r.now, 100+from, &Frame{Generation: 1, From: from, To: tt.id, Message: m})
			}
			var out Output
			r.Ready(r.now, &out)
			for range 2 {
				at := r.WakeAt()
				r.Wake(at)
				r.Ready(at, &out)
				again := r.WakeAt() - at
				if soon := again == 2*TickInterval; soon != tt.soon || !soon && (again < ElectionTimeout || again >= 2*ElectionTimeout) {
					t.Errorf("in term %d it stands, and again after %v", r.term, again)
				}
				if _, known := r.Leader(); known || !r.election.forgot {
					t.Error("it stands, and follows somebody")
				}
			}
		})
	}
}

// Promise: G6, P21: those who hear that nothing answers for their leader's node give it up at once.
// They stand in the ring's order, and once in each term.
func TestTheLeadersNodeIsGone(t *testing.T) {
	ring := func(nodes ...uint64) (w Target) {
		for _, n := range nodes {
			w.Nodes = append(w.Nodes, Peer{Node: n})
		}
		return w
	}
	tests := []struct {
		name    string
		id      uint64 // who hears it; 4 is a learner
		target  Target
		gone    uint64
		before  bool          // it stood early in this term
		forgets bool          // the leader
		after   time.Duration // it stands; never: only when its deadline is over
	}{
		{"the first of those that are left", 2, ring(101, 102, 103), 101, false, true, 0},
		{"the second", 3, ring(101, 102, 103), 101, false, true, earlyStep},
		{"the leader is not the first", 3, ring(102, 101, 103), 101, false, true, earlyStep},
		{"the leader is the last", 3, ring(102, 103, 101), 101, false, true, earlyStep},
		{"whom the ring does not name", 3, ring(101, 102, 105), 101, false, true, 2 * earlyStep},
		{"a replica without a vote", 4, ring(101, 104), 101, false, true, never},
		{"who stood early in this term", 2, ring(101, 102, 103), 101, true, true, never},
		{"another node is gone", 2, ring(101, 102, 103), 103, false, false, never},
		{"the leader", 1, ring(101, 102, 103), 101, false, false, never},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w, leader := led(t)
			w.add(1)
			leader.addLearner(w.replicas[3].cfg.Self)
			w.run(t, 2*HeartbeatTicks)
			r := w.replicas[tt.id-1]
			r.SetTarget(tt.target)
			if p, known := r.Leader(); !known || p.Node != 101 {
				t.Fatalf("it follows %v, %v", p, known)
			}
			if tt.before {
				r.election.earlyTerm = r.term
			}
			w.cut[1] = true
			deadline, now := r.WakeAt(), w.now+TickInterval/2
			stood := func() bool {
				var out Output
				r.Ready(r.now, &out)
				return slices.ContainsFunc(sent[*Frame](&out), func(f *Frame) bool { return f.Message.GetType() == raftpb.MsgPreVote })
			}
			r.NodeGone(now, tt.gone)
			if stood() {
				t.Error("it stands before it is woken")
			}
			if _, known := r.Leader(); known == tt.forgets {
				t.Errorf("it has forgotten its leader: %v, want %v", !known, tt.forgets)
			}
			switch wake := r.WakeAt(); {
			case tt.after == never:
				if wake != deadline {
					t.Errorf("it stands at %v, want its deadline, %v", wake, deadline)
				}
				return
			case wake != now+tt.after:
				t.Fatalf("it stands after %v, want %v", wake-now, tt.after)
			}
			asks := earlyAsks[:1]
			if tt.after == 0 {
				asks = earlyAsks[:] // others may notice later
			}
			for _, more := range asks {
				at := now + tt.after + more
				if r.Wake(at - 1); stood() {
					t.Errorf("it stands too early, before %v", tt.after+more)
				}
				if r.Wake(at); !stood() {
					t.Errorf("it does not stand after %v", tt.after+more)
				}
			}
			if wake := r.WakeAt(); wake < r.now+ElectionTimeout {
				t.Errorf("it stands once more after %v", wake-r.now)
			}
		})
	}
}

// An early campaign (P21) makes a leader, unless another replica was sooner; and one that comes to
// nothing is followed by the usual one.
func TestEarlyCampaigns(t *testing.T) {
	preVotes := func(f Frame) bool { return f.From == 2 && f.Message.GetType() == raftpb.MsgPreVote }
	tests := []struct {
		name      string
		campaigns func(t *testing.T, w *trio, r, other *Replica)
		wins      bool
	}{
		{"an early one wins", func(_ *testing.T, w *trio, r, _ *Replica) {
			r.NodeGone(w.now, 101)
			r.Wake(w.now)
		}, true},
		{"another replica wins", func(_ *testing.T, w *trio, r, other *Replica) {
			w.loses = preVotes
			r.NodeGone(w.now, 101)
			r.Wake(w.now)
			other.stand()
		}, false},
		{"one at the deadline wins", func(_ *testing.T, _ *trio, r, _ *Replica) {
			r.stand()
		}, true},
		{"an early one comes to nothing, and the next one wins", func(t *testing.T, w *trio, r, _ *Replica) {
			w.loses = preVotes
			r.NodeGone(w.now, 101)
			r.Wake(w.now)
			w.settle(t)
			w.loses = nil
			r.stand()
		}, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w, _ := led(t)
			w.run(t, 2*HeartbeatTicks)
			r, other := w.replicas[1], w.replicas[2]
			w.cut[1] = true
			other.forgetLeader()
			tt.campaigns(t, w, r, other)
			w.settle(t)
			w.loses = nil
			if w.run(t, 2*HeartbeatTicks); r.Serving() != tt.wins || other.Serving() == tt.wins {
				t.Fatalf("it leads: %v, want %v", r.Serving(), tt.wins)
			}
		})
	}
}

// Promise: G9, P24: a replica that was ordered, and gets nothing, is given up after 5 s, at the next
// question whether it is one still. One that has a part of the log is not, nor one with a vote.
func TestWhoGetsNothingIsGivenUp(t *testing.T) {
	for id, want := range map[uint64]bool{2: false, 4: false, 5: true} {
		w, leader := led(t)
		w.add(2)
		leader.addLearner(w.replicas[3].cfg.Self)
		w.run(t, 2*HeartbeatTicks)
		r := w.replicas[id-1]
		start, questions := w.now, 0
		r.election.arm(start)
		for r.Err() == nil && r.now-start < 2*learnerGrace {
			r.Wake(r.WakeAt())
			var out Output
			r.Ready(r.now, &out)
			for _, f := range sent[*Frame](&out) {
				if string(f.Message.Context) == question {
					questions++
					break
				}
			}
		}
		took := r.now - start
		if gone := r.Err() != nil; gone != want || gone && (took < learnerGrace || took > learnerGrace+2*ElectionTimeout) {
			t.Errorf("replica %d: after %v, %v", id, took, r.Err())
		}
		if knowsOthers := id != 5; knowsOthers != (questions > 3) {
			t.Errorf("replica %d asks %d times", id, questions)
		}
	}
}

// Promise: P10: a replica that was ordered, and stood still, hears first what came meanwhile. What
// it gets of nobody ends it all the same, stalls or not.
func TestALearnerIsNotGivenUpAfterAStall(t *testing.T) {
	w, _ := led(t)
	w.add(1)
	r := w.replicas[3]
	r.election.arm(w.now)
	silent := func(d time.Duration) {
		for range d / TickInterval {
			w.now += TickInterval
			r.Tick(w.now, true)
		}
	}
	silent(learnerGrace / 2)
	w.now += learnerGrace
	if r.Tick(w.now, true); r.Err() != nil {
		t.Fatalf("after a stall: %v", r.Err())
	}
	for range 2 {
		silent(ElectionTimeout)
		w.now += learnerGrace
		r.Tick(w.now, true)
	}
	if r.Err() == nil {
		t.Error("stalls keep it forever")
	}
}
