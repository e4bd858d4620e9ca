package replica

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"go.etcd.io/raft/v3/raftpb"
	"go.etcd.io/raft/v3/tracker"
	"google.golang.org/protobuf/proto"

	"github.com/lockmesh/mesh/internal/placement"
	"github.com/lockmesh/mesh/internal/wire"
)

// replacing returns a shard whose first replica leads and whose third is dead. The fourth is to vote in its place,
// and is out of the leader's reach.
func replacing(t *testing.T) (*trio, *Replica) {
	t.Helper()
	w, leader := led(t)
	w.run(t, 2*HeartbeatTicks)
	w.add(1)
	w.cut[3], w.cut[4] = true, true
	for _, r := range w.replicas {
		r.SetTarget(targetOf(leader, 1, 2, 4))
	}
	w.run(t, 2*placeEvery)
	if got := leader.Learners(); !slices.Equal(got, []uint64{4}) {
		t.Fatalf("learners %v, want the replica that is to vote", got)
	}
	return w, leader
}

// fill makes a table of several chunks, and a log that is cut: who comes new gets a snapshot.
func (w *trio) fill(t *testing.T, leader *Replica) {
	t.Helper()
	for n := range uint64(400) {
		a, raw := ask(n+1, fmt.Sprint("k", n))
		if err := leader.Submit(w.now, a, raw); err != nil {
			t.Fatal(err)
		}
		w.settle(t)
	}
}

// A leader at rest looks at a new target in its next tick.
func TestANewTargetIsLookedAtAtOnce(t *testing.T) {
	w, leader := led(t)
	w.add(1)
	leader.SetTarget(targetOf(leader, 1, 2, 3))
	w.run(t, 4*placeEvery)
	for leader.leading.placing.skipped != 1 {
		w.run(t, 1)
	}
	leader.SetTarget(targetOf(leader, 1, 2, 4))
	if w.run(t, 1); !slices.Equal(leader.Learners(), []uint64{4}) {
		t.Errorf("learners %v a tick after another node was to vote", leader.Learners())
	}
}

const graceTicks = int(learnerGrace / TickInterval)

// A learner that is out of reach counts as no move for long, and gets its vote when it is reached at last.
func TestWhoIsReachedAtLastGetsItsVote(t *testing.T) {
	w, leader := replacing(t)
	if w.run(t, graceTicks-4*placeEvery); !leader.Moving() {
		t.Error("a new learner is no move")
	}
	if w.run(t, 8*placeEvery); leader.Moving() {
		t.Error("who cannot be reached counts as a move forever")
	}
	w.run(t, 2*graceTicks)
	if got := leader.Voters(); !slices.Equal(got, []uint64{1, 2, 3}) || leader.Joint() {
		t.Errorf("voters %v, though it is not reached", got)
	}
	w.cut[4] = false
	w.run(t, 8*placeEvery)
	if got := leader.Voters(); !slices.Equal(got, []uint64{1, 2, 4}) || leader.members.highest != 4 || !leader.AtRest() {
		t.Errorf("voters %v, and replicas up to %d: want 4 in place of 3, and no more", got, leader.members.highest)
	}
}

// A replica that hears nothing asks whether it is one still. That is no answer, not even from a learner that had the
// whole log when it last heard of the leader.
func TestTheDeafGetNoVote(t *testing.T) {
	w, leader := led(t)
	w.run(t, 2*HeartbeatTicks)
	w.add(1)
	leader.addLearner(w.replicas[3].cfg.Self)
	w.run(t, 4*placeEvery)
	w.loses = func(f Frame) bool { return f.To == 4 && f.From == 1 }
	w.run(t, 2*graceTicks)
	w.cut[3] = true
	leader.SetTarget(targetOf(leader, 1, 2, 4))
	w.run(t, graceTicks)
	if got, want := leader.Voters(), []uint64{1, 2, 3}; !slices.Equal(got, want) || leader.Joint() {
		t.Errorf("voters %v, want %v", got, want)
	}
}

// Promise: P30: the answers that were on their way when a change was wanted do not show that their senders live: the change
// could need one that has heard nothing since.
// Method: replica 3 is cut off, and is to lose its vote. Replica 2 is 200 ms away, and hears nothing any more that the leader
// says from then on; what it has said before still arrives.
func TestEarlierAnswersDoNotCount(t *testing.T) {
	for _, deaf := range []bool{true, false} {
		w, leader := led(t)
		w.far = map[uint64]time.Duration{2: 4 * TickInterval}
		w.run(t, electionTicks)
		w.cut[3] = true
		w.run(t, HeartbeatTicks)
		leader.SetTarget(targetOf(leader, 1, 2))
		if deaf {
			heard := slices.DeleteFunc(slices.Clone(w.flying), func(f flight) bool { return f.from != leader })
			w.loses = func(f Frame) bool {
				return f.To == 2 && !slices.ContainsFunc(heard, func(h flight) bool { return h.at == w.now })
			}
		}
		last := lastIndex(t, leader)
		for range electionTicks {
			w.run(t, 1)
			if leader.Changing() && deaf || !leader.Serving() {
				t.Fatalf("at %v it changes the voters: %v; and leads: %v", w.now, leader.Changing(), leader.Serving())
			}
		}
		if changed := lastIndex(t, leader) > last; changed == deaf {
			t.Errorf("the other one is deaf: %v; it changes the voters: %v", deaf, changed)
		}
	}
}

// Promise: P30: what was answered before one change does not count for another.
func TestEachChangeAsksAnew(t *testing.T) {
	_, leader := led(t)
	leader.SetTarget(targetOf(leader, 1, 2))
	leader.swap(placement.ChangeVoters{Remove: []uint64{3}})
	asked := leader.leading.contacts.asked
	leader.SetTarget(targetOf(leader, 1, 2))
	if got := leader.leading.contacts.asked; asked == 0 || got != asked {
		t.Errorf("asked at %v, and with the same target at %v", asked, got)
	}
	leader.SetTarget(targetOf(leader, 1, 3))
	if got := leader.leading.contacts.asked; got != 0 {
		t.Errorf("asked at %v for another change", got)
	}
}

// Promise: P30: only an answer of the leader's own term shows that its sender hears this leader.
func TestAnswersAreOfTheLeadersTerm(t *testing.T) {
	for off, want := range map[int]bool{-1: false, 0: true, 1: false} {
		w, leader := led(t)
		w.run(t, 2*HeartbeatTicks)
		leader.leading.contacts.forget(2)
		m := &raftpb.Message{
			Type: raftpb.MsgHeartbeatResp.Enum(), From: proto.Uint64(2), To: proto.Uint64(1), Term: proto.Uint64(leader.term + uint64(off)),
		}
		leader.Receive(w.now, 102, &Frame{Generation: 1, From: 2, To: 1, Message: m})
		if got := leader.answers(2); got != want {
			t.Errorf("an answer of term %d to the leader of term %d counts: %v", m.GetTerm(), leader.term, got)
		}
	}
}

// Promise: G9, P24: a voter that was removed while it stood still asks all whom it knows, also
// the learner that has its vote now, and may lead: the others, whom it asks for theirs, must not tell.
func TestARemovedVoterAsksAll(t *testing.T) {
	w, leader := led(t)
	w.run(t, 2*HeartbeatTicks)
	w.add(1)
	leader.addLearner(w.replicas[3].cfg.Self)
	w.run(t, 4*placeEvery)
	w.cut[3] = true
	leader.SetTarget(targetOf(leader, 1, 2, 4))
	w.run(t, 4*placeEvery)
	if got := leader.Voters(); !slices.Equal(got, []uint64{1, 2, 4}) {
		t.Fatalf("voters %v", got)
	}
	w.cut[3] = false
	asked := false
	w.loses = func(f Frame) bool {
		asked = asked || f.From == 3 && f.To == 4
		return false
	}
	w.run(t, 4*electionTicks)
	if !asked {
		t.Error("it asks only those whom it knows as voters")
	}
}

// Promise: G9, P24: a voter was removed while it was cut off. Those whom it knows must not tell it so,
// and it never knew the one that leads now. It asks that one, which is to vote.
func TestARemovedVoterAsksWhomItNeverKnew(t *testing.T) {
	w, leader := led(t)
	w.run(t, 2*HeartbeatTicks)
	w.add(1)
	w.cut[3] = true
	leader.SetTarget(targetOf(leader, 1, 2, 4))
	w.run(t, 8*placeEvery)
	leader.Receive(w.now, 104, &Accept{leader.term})
	w.run(t, 2*HeartbeatTicks)
	if next := w.replicas[3]; !next.Serving() || !slices.Equal(next.Voters(), []uint64{1, 2, 4}) {
		t.Fatalf("4 does not lead, or voters %v", next.Voters())
	}
	w.cut[3] = false
	w.replicas[2].SetTarget(targetOf(leader, 1, 4))
	w.run(t, 4*electionTicks)
	if len(w.ended) == 0 || w.ended[0] != (Removed{Generation: 1, ID: 3, Highest: 4}) {
		t.Errorf("it heard %v", w.ended)
	}
}

// Who asks whether it was removed may have stood for election, alone, before.
func TestAQuestionDeposesNobody(t *testing.T) {
	w, leader := led(t)
	term := leader.term
	w.replicas[2].term = term + 1
	w.replicas[2].inquires = true
	w.run(t, 2*HeartbeatTicks)
	for _, r := range w.replicas[:2] {
		if r.term != term {
			t.Errorf("replica %d went from term %d to %d", r.ID(), term, r.term)
		}
	}
	if !leader.Serving() {
		t.Error("the leader does not lead any more")
	}
}

// Promise: P23: a question may be for whatever replica is there; nothing else is.
func TestOnlyQuestionsAreForAnybody(t *testing.T) {
	w, leader := led(t)
	for _, kind := range []raftpb.MessageType{raftpb.MsgHeartbeat, raftpb.MsgHeartbeatResp, raftpb.MsgVote} {
		leader.Receive(w.now, 102, &Frame{Generation: 1, From: 2, To: anybody, Message: &raftpb.Message{
			Type: kind.Enum(), From: proto.Uint64(2), To: proto.Uint64(anybody), Term: proto.Uint64(leader.term + 1),
		}})
	}
	w.run(t, 1)
	if !leader.Serving() {
		t.Error("it took what is for nobody")
	}
}

// Promise: G6, P30: voters are replaced also where each answer is heard only once in half a
// second or more, which is enough to lead.
// Method: of five voters three are left, and two learners; what they say reaches the leader in
// one of so many ticks, in each one's own.
func TestVotersChangeWhereAnswersAreRare(t *testing.T) {
	for rare := 1; rare <= 8; rare++ {
		w, leader := led(t)
		w.run(t, 2*HeartbeatTicks)
		w.add(4)
		want := func(ids ...uint64) {
			target := targetOf(leader, ids...)
			for _, r := range w.replicas {
				r.SetTarget(target)
			}
		}
		want(1, 2, 3, 4, 5)
		w.run(t, 4*graceTicks)
		w.cut[4], w.cut[5] = true, true
		want(1, 2, 3, 6, 7)
		tick := 0
		w.loses = func(f Frame) bool { return f.To == 1 && (tick/HeartbeatTicks+int(f.From))%rare != 0 }
		for ; tick < 10*graceTicks && !slices.Equal(leader.Voters(), []uint64{1, 2, 3, 6, 7}); tick++ {
			w.run(t, 1)
		}
		if got := leader.Voters(); !slices.Equal(got, []uint64{1, 2, 3, 6, 7}) {
			t.Errorf("voters %v though each answers every %v", got, time.Duration(rare*HeartbeatTicks)*TickInterval)
		}
	}
}

// Promise: P10: the time in which the leader stood still was nobody's to answer in.
func TestAStallIsNoLearnersSilence(t *testing.T) {
	w, leader := replacing(t)
	w.now += 2 * learnerGrace
	if w.run(t, placeEvery); !leader.Moving() {
		t.Error("a learner is stuck after a stall of its leader")
	}
	if w.run(t, graceTicks+placeEvery); leader.Moving() {
		t.Error("it counts as a move forever")
	}
}

// Promise: G6, P31: three learners get snapshots that take longer than the grace, one after the other. All the time
// that is a move, and in the end all get their votes.
func TestLongSnapshots(t *testing.T) {
	w, leader := led(t)
	w.run(t, 2*HeartbeatTicks)
	w.add(4)
	w.cut[3] = true
	w.fill(t, leader)
	second, passed := w.now, 0
	w.misses = func(Chunk) bool {
		if w.now-second >= time.Second {
			second, passed = w.now, 0
		}
		passed++
		return passed > 16
	}
	leader.SetTarget(targetOf(leader, 1, 2, 4, 5, 6))
	start := w.now
	for n := 0; len(leader.Voters()) != 5; n++ {
		if w.run(t, 1); n > 20*graceTicks {
			t.Fatalf("voters %v, learners %v", leader.Voters(), leader.Learners())
		}
		if slow := slices.ContainsFunc(leader.Learners(), func(id uint64) bool { return !leader.replicates(id) }); slow && !leader.Moving() {
			t.Fatalf("after %v the learners %v are no move", w.now-start, leader.Learners())
		}
	}
	if got := leader.Voters(); !slices.Equal(got, []uint64{1, 2, 4, 5, 6}) || leader.members.highest != 6 {
		t.Errorf("voters %v, and replicas up to %d: want those that are to vote", got, leader.members.highest)
	}
	if took := w.now - start; took < 3*learnerGrace {
		t.Errorf("the snapshots took %v: nobody had to wait", took)
	}
}

// Promise: P40: a learner that needs a second snapshot, having followed, gets on with each part of
// it, though it had more of the first.
func TestASecondSnapshotIsAnotherOne(t *testing.T) {
	ls, now := make(learners), time.Hour
	note := func(replicates bool, got int) learner {
		now += TickInterval
		pr, s := tracker.Progress{State: tracker.StateSnapshot}, sender{}
		if replicates {
			pr.State = tracker.StateReplicate
		}
		if got > 0 {
			s.transfer = &transfer{head: Chunk{To: 9}, got: got}
		}
		ls.note(9, now, pr, false, false, &s)
		return ls[9]
	}
	for _, got := range []int{1, 100} {
		if l := note(false, got); l.progressed != now {
			t.Errorf("with %d bytes of the first snapshot it gets on since %v", got, l.progressed)
		}
	}
	if l := note(false, 100); l.progressed == now {
		t.Error("it gets on with nothing")
	}
	note(true, 100) // the log was enough, and the snapshot is under way still
	if l := note(true, 100); l.progressed == now {
		t.Error("it gets on with nothing, for raft sends it the log")
	}
	note(true, 0)
	for _, got := range []int{1, 2} {
		if l := note(false, got); l.progressed != now {
			t.Errorf("with %d bytes of the second snapshot it gets on since %v", got, l.progressed)
		}
	}
}

// Promise: P10: a stall moves a learner's time once, and one that moves nothing leaves that to the next.
func TestALearnersStallIsExcusedOnce(t *testing.T) {
	now := time.Hour
	l := learner{progressed: now}
	if l.stalled(now, time.Second); l.excused || l.progressed != now {
		t.Errorf("%+v, and it was heard a moment ago", l)
	}
	was := learner{progressed: now - learnerGrace}
	l = was
	if l.stalled(now, time.Second); !l.excused || l.progressed != was.progressed+time.Second {
		t.Errorf("%+v of %+v", l, was)
	}
	was = l
	if l.stalled(now+time.Second, time.Second); l != was {
		t.Errorf("a second stall makes %+v of %+v", l, was)
	}
}

// Founders are never ordered, for the founding act made them; and no follower is told of a commit
// in an append of its own once it has the entry.
func TestWhoIsOrderedAndWhoIsTold(t *testing.T) {
	w, leader := led(t)
	if got := leader.members.added(); len(got) != 0 {
		t.Errorf("the leader would order %v", got)
	}
	w.add(1)
	leader.addLearner(w.replicas[3].cfg.Self)
	w.run(t, 2*HeartbeatTicks)
	if got := leader.members.added(); !slices.Equal(got, []Hosted{{w.replicas[3].cfg.Self, 4}}) {
		t.Errorf("the leader would order %v, want the learner", got)
	}
	match := leader.progress()[2].Match
	if !leader.confirmedUpTo(2, match) || leader.confirmedUpTo(2, match+1) {
		t.Errorf("up to %d, replica 2 has confirmed %v; and one more %v", match, leader.confirmedUpTo(2, match), leader.confirmedUpTo(2, match+1))
	}
}

func TestSoundConfigurations(t *testing.T) {
	peers := map[uint64]Peer{1: {}, 2: {}}
	for _, tt := range []struct {
		cs   *raftpb.ConfState
		want bool
	}{
		{nil, false},
		{&raftpb.ConfState{}, false},
		{&raftpb.ConfState{Voters: []uint64{1}}, true},
		{&raftpb.ConfState{Voters: []uint64{1, 2}}, true},
		{&raftpb.ConfState{Voters: []uint64{1, 2}, VotersOutgoing: []uint64{1, 2}}, true}, // each in both halves
		{&raftpb.ConfState{Voters: []uint64{1, 2}, VotersOutgoing: []uint64{1, 2}, Learners: []uint64{2}}, false},
		{&raftpb.ConfState{Voters: []uint64{1, 3}}, false},
		{&raftpb.ConfState{Voters: []uint64{1}, Learners: []uint64{3}}, false},
		{&raftpb.ConfState{Voters: []uint64{1, 1}}, false},
	} {
		if got := sound(tt.cs, peers); got != tt.want {
			t.Errorf("%v: %v, want %v", tt.cs, got, tt.want)
		}
	}
}

// Promise: G6: how many shards move at once is bounded, so that only what goes on counts as a move: a
// change of replicas, or a learner that gets the log and can be reached.
func TestWhatCountsAsAMove(t *testing.T) {
	nothing := func(*testing.T, *trio, *Replica) {}
	tests := []struct {
		name  string
		lacks bool // the learner, replica 4, has nothing yet; else it follows
		then  func(t *testing.T, w *trio, leader *Replica)
		want  bool
	}{
		{"a learner that is yet to get the log", true, nothing, true},
		{"whose node leaves", true, func(_ *testing.T, _ *trio, leader *Replica) { leader.target.Leave = []uint64{104} }, false},
		{"whose node is not to vote", true, func(_ *testing.T, _ *trio, leader *Replica) { leader.target.Nodes = leader.target.Nodes[:2] }, false},
		{"that gets nowhere", true, func(t *testing.T, w *trio, _ *Replica) {
			w.run(t, graceTicks+2*placeEvery)
		}, false},
		{"a learner that has it", false, nothing, false},
		{"and a voter may have missed something", false, func(_ *testing.T, _ *trio, leader *Replica) {
			leader.rn.ReportUnreachable(2)
		}, false},
		{"and somebody else is added", false, func(_ *testing.T, w *trio, leader *Replica) {
			leader.addLearner(w.replicas[4].cfg.Self)
		}, true},
		{"and the voters change", false, func(t *testing.T, w *trio, leader *Replica) {
			w.loses = endsChange
			leader.swap(placement.ChangeVoters{Promote: []uint64{4}, Remove: []uint64{3}})
			w.run(t, HeartbeatTicks)
			leader.swap(placement.ChangeVoters{Promote: []uint64{4}, Remove: []uint64{3}}) // they have answered
			if w.run(t, HeartbeatTicks); !leader.Joint() || leader.leading.placing.pending {
				t.Fatalf("voters %v, and pending %v", leader.Voters(), leader.leading.placing.pending)
			}
		}, true},
		{"and leads no more", true, func(t *testing.T, w *trio, leader *Replica) {
			w.cut[1] = true
			if w.run(t, 2*electionTicks); leader.Serving() {
				t.Fatal("it leads")
			}
		}, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w, leader := led(t)
			w.run(t, 2*HeartbeatTicks)
			w.add(2)
			w.cut[4] = tt.lacks
			leader.addLearner(w.replicas[3].cfg.Self)
			w.run(t, HeartbeatTicks)
			if tt.lacks {
				leader.SetTarget(targetOf(leader, 1, 2, 4))
			}
			w.run(t, 2*placeEvery)
			leader.target = targetOf(leader, 1, 2, 4)
			if got := leader.progress()[4].State == tracker.StateReplicate; !slices.Equal(leader.Learners(), []uint64{4}) || got == tt.lacks {
				t.Fatalf("learners %v, which follow: %v", leader.Learners(), got)
			}
			if tt.then(t, w, leader); leader.Moving() != tt.want {
				t.Errorf("it moves: %v, want %v", !tt.want, tt.want)
			}
		})
	}
}

// hasSeal reports whether f has an entry that says nothing, as a seal does.
func hasSeal(f Frame) bool {
	return slices.ContainsFunc(f.Message.GetEntries(), func(e *raftpb.Entry) bool {
		return e.GetType() == raftpb.EntryNormal && len(e.Data) == 0
	})
}

// endsChange reports whether f has the entry that ends a change of voters.
func endsChange(f Frame) bool {
	return slices.ContainsFunc(f.Message.GetEntries(), func(e *raftpb.Entry) bool {
		return e.GetType() == raftpb.EntryConfChangeV2 && len(e.Data) == 0
	})
}

// Promise: G6, P19 and P22: while the voters change, a leader begins no further change, and offers
// leadership to no voter: raft would take neither, and its offers would be paid for with longer pauses.
func TestNothingElseBeginsWhileVotersChange(t *testing.T) {
	for _, more := range []bool{true, false} { // one replica more is to vote; or else another one is to lead
		w, leader := led(t)
		w.run(t, 2*HeartbeatTicks)
		w.add(2)
		w.cut[3], w.cut[5] = true, true
		leader.SetTarget(targetOf(leader, 1, 2, 4))
		w.loses = endsChange
		for n := 0; !leader.Joint(); n++ {
			if w.run(t, 1); n > 2*electionTicks {
				t.Fatalf("voters %v, learners %v", leader.Voters(), leader.Learners())
			}
		}
		target := Target{Nodes: peersOf(2, 1, 4), From: []uint64{101, 102, 104}}
		if more {
			target.Nodes = peersOf(1, 2, 4, 5)
		}
		leader.SetTarget(target)
		w.run(t, 1)
		last := lastIndex(t, leader)
		w.run(t, 2*electionTicks+2*placeEvery)
		if !leader.Joint() || !leader.Serving() {
			t.Fatal("the change is over, or the leadership is")
		}
		if got := lastIndex(t, leader); got != last || len(w.offers) > 0 || len(w.replicas[1].Voters()) != 4 {
			t.Errorf("%d entries more in the log, and the offers %v", got-last, w.offers)
		}
		w.loses = nil
		if w.run(t, 2*electionTicks); leader.Joint() || more != slices.Equal(leader.Learners(), []uint64{5}) || more == (len(w.offers) > 0) {
			t.Errorf("when the change is over: learners %v, and the offers %v", leader.Learners(), w.offers)
		}
	}
}

// Promise: G6, P24: a removed replica that asks hears of its end from who knows that most voters know
// of it: a leader whose seal they have, or another replica when there was one more change.
// Method: replica 4 is added and removed; the third follower gets all that by a snapshot.
func TestWhoTellsTheRemoved(t *testing.T) {
	w, leader := led(t)
	w.run(t, 2*HeartbeatTicks)
	w.add(1)
	leader.addLearner(w.replicas[3].cfg.Self)
	w.run(t, 4*HeartbeatTicks)
	removed := w.replicas[3]
	w.cut[3], w.cut[4] = true, true
	tells := func(name string, r *Replica, want bool) {
		t.Helper()
		m := &raftpb.Message{
			Type: raftpb.MsgHeartbeatResp.Enum(), From: proto.Uint64(4), To: proto.Uint64(anybody),
			Term: proto.Uint64(removed.term), Context: []byte(question),
		}
		got := r.Receive(w.now, 104, &Frame{Generation: 1, From: 4, To: anybody, Message: m})
		if want && (got == nil || *got.(*Removed) != Removed{Generation: 1, ID: 4, Highest: r.members.highest}) || !want && got != nil {
			t.Errorf("%s tells it %v", name, got)
		}
	}
	tells("who counts it", leader, false)
	w.loses = hasSeal
	leader.change([]*raftpb.ConfChangeSingle{single(raftpb.ConfChangeRemoveNode, 4)}, nil)
	w.run(t, HeartbeatTicks)
	if len(leader.Learners()) > 0 || len(w.replicas[1].Learners()) > 0 {
		t.Fatal("it was not removed")
	}
	tells("a leader without a seal", leader, false)
	tells("a follower that has just heard of it", w.replicas[1], false)
	w.loses = nil
	w.run(t, 4*HeartbeatTicks)
	tells("a leader with its seal", leader, true)
	tells("a follower that knows of no seal", w.replicas[1], false)

	w.fill(t, leader)
	delete(w.cut, 3)
	if w.run(t, 4*HeartbeatTicks); w.replicas[2].applied.index != leader.applied.index || !w.replicas[2].members.removalsUnknown {
		t.Fatalf("at entry %d of %d, by a snapshot: %v", w.replicas[2].applied.index, leader.applied.index, w.replicas[2].members.removalsUnknown)
	}
	tells("who knows it by a snapshot", w.replicas[2], false)
	leader.addLearner(Peer{Node: 105, Name: "n5", Addr: "n5:1"})
	w.run(t, 2*HeartbeatTicks)
	tells("a follower after the next change", w.replicas[1], true)
	tells("and who knew it by a snapshot", w.replicas[2], true)
}

// Promise: G6 and G9, P22: a leader offers leadership to the ring's owner, again and again, with pauses
// that double from 1 s to 1 min. One whose node leaves asks nobody: it hands over to whoever can lead,
// the owner if that is one, within 1 s of when somebody can.
// Promise: G6, P19 and P22: a leader hands over at once to a voter, in the term in which that said that
// it would lead, and not while the voters change.
// Promise: G6, P30: a shard is at rest, which is what Join and Leave of others wait for, if those vote
// that are to, and nobody else has a replica, and each of them is there, answers, has a table like the leader's, and
// knows who the replicas are.
func TestWhenAShardIsAtRest(t *testing.T) {
	nothing := func(*testing.T, *trio, *Replica) {}
	tests := []struct {
		name string
		then func(t *testing.T, w *trio, leader *Replica)
		want bool
	}{
		{"all that are to vote do", nothing, true},
		{"the leader leads no more", func(_ *testing.T, w *trio, r *Replica) {
			r.Receive(w.now, 102, &Accept{r.Term()})
		}, false},
		{"the voters change", func(_ *testing.T, _ *trio, r *Replica) { r.members.conf.VotersOutgoing = []uint64{1, 2, 3} }, false},
		{"a replica is being added", func(_ *testing.T, w *trio, r *Replica) {
			w.loses = func(f Frame) bool { return f.From == 1 && len(f.Message.Entries) > 0 }
			r.addLearner(Peer{Node: 105, Name: "n5", Addr: "n5:1"})
		}, false},
		{"nobody knows who is to vote", func(_ *testing.T, _ *trio, r *Replica) { r.SetTarget(Target{}) }, false},
		{"one more is to vote", func(_ *testing.T, _ *trio, r *Replica) { r.target.Nodes = peersOf(1, 2, 3, 4, 5) }, false},
		{"one fewer is", func(_ *testing.T, _ *trio, r *Replica) { r.target.Nodes = peersOf(1, 2, 3) }, false},
		{"another one is", func(_ *testing.T, _ *trio, r *Replica) { r.target.Nodes = peersOf(1, 2, 3, 5) }, false},
		{"there is a learner", func(t *testing.T, w *trio, r *Replica) {
			w.add(1)
			was := r.target
			r.target = Target{}
			r.addLearner(w.replicas[4].cfg.Self)
			if w.run(t, 2*HeartbeatTicks); len(r.Learners()) != 1 || r.leading.placing.pending {
				t.Fatalf("learners %v", r.Learners())
			}
			r.target = was
		}, false},
		{"a voter's node leaves", func(_ *testing.T, _ *trio, r *Replica) { r.target.Leave = []uint64{102} }, false},
		{"the leader's node leaves", func(_ *testing.T, _ *trio, r *Replica) { r.target.Leave = []uint64{101} }, false},
		{"nobody knows where a replica lives", func(_ *testing.T, _ *trio, r *Replica) { delete(r.members.peers, 4) }, false},
		{"a voter was heard a moment ago", func(t *testing.T, w *trio, r *Replica) {
			w.cut[3] = true
			w.run(t, int(answerTime/TickInterval))
		}, true},
		{"and longer ago", func(t *testing.T, w *trio, r *Replica) {
			w.cut[3] = true
			w.run(t, int(answerTime/TickInterval)+1)
		}, false},
		{"another one was heard longer ago", func(t *testing.T, w *trio, r *Replica) {
			w.cut[4] = true
			w.run(t, int(answerTime/TickInterval)+1)
		}, false},
		{"a follower may have missed something", func(_ *testing.T, _ *trio, r *Replica) { r.rn.ReportUnreachable(2) }, false},
		{"the seal is not appended", func(_ *testing.T, _ *trio, r *Replica) { r.leading.seal.index = 0 }, false},
		{"all have the seal, and no more", func(_ *testing.T, _ *trio, r *Replica) { r.leading.seal.index = r.progress()[2].Match }, true},
		{"somebody lacks it", func(t *testing.T, w *trio, r *Replica) {
			w.loses = func(f Frame) bool { return f.To == 3 && len(f.Message.Entries) > 0 }
			w.work(t, 1)
			r.leading.seal.index = r.progress()[2].Match
			if r.progress()[3].Match >= r.leading.seal.index {
				t.Fatal("all have it")
			}
		}, false},
		{"a voter's table differs", func(_ *testing.T, _ *trio, r *Replica) {
			r.sums.kept, r.leading.comparison.words = []checksum{{8, 1}}, map[uint64]checksum{3: {8, 2}}
		}, false},
		{"a voter's table is the same", func(_ *testing.T, _ *trio, r *Replica) {
			r.sums.kept, r.leading.comparison.words = []checksum{{8, 1}}, map[uint64]checksum{3: {8, 1}}
		}, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w, leader := led(t)
			w.add(1)
			leader.SetTarget(targetOf(leader, 1, 2, 3, 4))
			w.run(t, 8*placeEvery)
			if !leader.AtRest() || w.replicas[1].AtRest() {
				t.Fatalf("at rest, says the leader: %v; and a follower: %v", leader.AtRest(), w.replicas[1].AtRest())
			}
			tt.then(t, w, leader)
			w.settle(t)
			if got := leader.AtRest(); got != tt.want {
				t.Errorf("at rest: %v, want %v", got, tt.want)
			}
		})
	}
}

// decides lets a leader look once at where its replicas are, and returns what it does, in words. A
// majority is ready for a change of voters.
func decides(t *testing.T, w *trio, leader *Replica) string {
	t.Helper()
	var did []string
	leader.cfg.Watch = handsOver(func(node uint64) { did = append(did, fmt.Sprint("hands over to ", node-100)) })
	g := &leader.leading
	g.placing.rests, g.contacts.asked, g.contacts.patience = false, w.now-1, time.Second
	last := lastIndex(t, leader)
	leader.place()
	if g.offers.made == w.now && did == nil {
		did = append(did, "makes an offer")
	}
	leader.dirty = true
	leader.Ready(w.now, new(Output))
	entries, err := leader.store.Entries(last+1, lastIndex(t, leader)+1, 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		cc := new(raftpb.ConfChangeV2)
		if e.GetType() == raftpb.EntryNormal {
			continue
		}
		if err := proto.Unmarshal(e.Data, cc); err != nil {
			t.Fatal(err)
		}
		var added homes
		if len(cc.Context) > 0 {
			if err := wire.Decode(cc.Context, &added); err != nil {
				t.Fatal(err)
			}
		}
		for _, c := range cc.Changes {
			id := c.GetNodeId()
			switch p, is := added[id]; {
			case is:
				did = append(did, fmt.Sprint("adds a learner on ", p.Node-100))
			case c.GetType() == raftpb.ConfChangeAddNode:
				did = append(did, fmt.Sprint("promotes ", id))
			case c.GetType() == raftpb.ConfChangeRemoveNode:
				did = append(did, fmt.Sprint("removes ", id))
			default:
				t.Errorf("%v", c)
			}
			if _, adds := added[id]; !adds && c.GetType() != raftpb.ConfChangeRemoveNode && g.contacts.asked != 0 {
				t.Error("the answers that it has count for the next change of voters, too")
			}
		}
	}
	return strings.Join(did, ", ")
}

// Promise: G6 and G9: a leader tells package placement what it knows, and does what that says.
// Method: replicas 1 to so many vote, and as many learners follow, each on the node of its number. All
// answer, but for those that are silent. Then the leader, replica 1, looks once.
func TestPlacement(t *testing.T) {
	type ids = []uint64
	tests := []struct {
		name             string
		voters, learners int
		target           ids // replicas that are to vote; nil: nobody knows
		silent           ids // replicas that answered 2 s ago, the last time
		slow             ids // learners that do not follow
		missing          ids
		before           func(r *Replica)
		want             string
	}{
		{name: "all is well", voters: 3, target: ids{1, 2, 3}},
		{name: "nobody knows who is to vote", voters: 3, learners: 1},
		{name: "one more is to vote", voters: 3, target: ids{1, 2, 3, 4}, want: "adds a learner on 4"},
		{name: "and enough shards move", voters: 3, target: ids{1, 2, 3, 4}, before: func(r *Replica) { r.Limit(true) }},
		{name: "and then fewer do", voters: 3, target: ids{1, 2, 3, 4}, before: func(r *Replica) { r.Limit(true); r.Limit(false) }, want: "adds a learner on 4"},
		{name: "a change is under way", voters: 3, target: ids{1, 2, 3, 4}, before: func(r *Replica) { r.leading.placing.pending, r.leading.placing.changed = true, r.now }},
		{name: "the target is about other voters", voters: 3, target: ids{1, 2, 3, 4}, before: func(r *Replica) { r.target.From = []uint64{101, 102} }},
		{name: "another one is to vote", voters: 3, learners: 1, target: ids{1, 2, 4}, want: "promotes 4, removes 3"},
		{name: "and it is silent", voters: 3, learners: 1, target: ids{1, 2, 4}, silent: ids{4}},
		{name: "and it does not follow", voters: 3, learners: 1, target: ids{1, 2, 4}, slow: ids{4}},
		{name: "one fewer is to vote, and it is silent", voters: 3, target: ids{1, 2}, silent: ids{3}, want: "removes 3"},
		{name: "a learner is not to vote", voters: 3, learners: 1, target: ids{1, 2, 3}, want: "removes 4"},
		{name: "a voter's replica is missing", voters: 3, target: ids{1, 2, 3}, missing: ids{3}, want: "adds a learner on 3"},
		{name: "the leader is to go", voters: 4, target: ids{2, 3, 4}, want: "hands over to 2"},
		{name: "it yields", voters: 3, target: ids{1, 2, 3}, before: func(r *Replica) { r.target.Yields = true }, want: "hands over to 2"},
		{name: "it is late", voters: 3, target: ids{1, 2, 3}, before: func(r *Replica) { r.leading.reads.vain = r.now - lateAfter }, want: "hands over to 2"},
		{name: "it is hardly late", voters: 3, target: ids{1, 2, 3}, before: func(r *Replica) { r.leading.reads.vain = r.now - lateAfter + 1 }},
		{name: "it yields, was dropped, and the others leave", voters: 3, target: ids{1, 2, 3}, before: func(r *Replica) {
			r.target.Yields, r.target.Dropped, r.target.Leave = true, []uint64{101, 102}, []uint64{101, 102, 103}
		}, want: "hands over to 3"},
		{name: "it yields, and so does another one", voters: 3, target: ids{1, 2, 3}, before: func(r *Replica) { r.target.Yields, r.target.Leave = true, []uint64{101, 102} }, want: "hands over to 3"},
		{name: "another one is to lead", voters: 3, target: ids{2, 1, 3}, want: "makes an offer"},
		{name: "and has not shown how late it is", voters: 3, target: ids{2, 1, 3}, before: func(r *Replica) { delete(r.leading.contacts.lags, 2) }},
		{name: "and is late", voters: 3, target: ids{2, 1, 3}, before: func(r *Replica) { r.leading.contacts.lags[2] = lag{proven: true, took: promptly + 1} }},
		{name: "and is hardly prompt", voters: 3, target: ids{2, 1, 3}, before: func(r *Replica) { r.leading.contacts.lags[2] = lag{proven: true, took: promptly} }, want: "makes an offer"},
		{name: "and leaves", voters: 3, target: ids{2, 1, 3}, before: func(r *Replica) { r.target.Leave = []uint64{102} }},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w, leader := led(t)
			w.run(t, 2*HeartbeatTicks)
			w.add(tt.voters + tt.learners - 3)
			for id := uint64(4); id <= uint64(tt.voters+tt.learners); id++ {
				leader.addLearner(peersOf(id)[0])
				w.run(t, HeartbeatTicks)
				if int(id) <= tt.voters {
					leader.change([]*raftpb.ConfChangeSingle{single(raftpb.ConfChangeAddNode, id)}, nil)
				}
				w.run(t, 2*HeartbeatTicks)
			}
			if len(leader.Voters()) != tt.voters || len(leader.Learners()) != tt.learners {
				t.Fatalf("voters %v, learners %v", leader.Voters(), leader.Learners())
			}
			leader.noteLearners(leader.progress()) // it has seen them
			leader.SetTarget(targetOf(leader, tt.target...))
			for _, id := range leader.members.known() {
				leader.leading.contacts.heard[id] = w.now
				leader.leading.contacts.lags[id] = lag{proven: true}
				leader.leading.contacts.rounds[id] = math.MaxUint64
			}
			for _, id := range tt.silent {
				leader.leading.contacts.heard[id] = w.now - 2*ElectionTimeout
			}
			for _, id := range tt.slow {
				leader.rn.ReportUnreachable(id)
			}
			for _, id := range tt.missing {
				leader.missing(100+id, id)
			}
			if tt.before != nil {
				tt.before(leader)
			}
			if got := decides(t, w, leader); got != tt.want {
				t.Errorf("it %q, want %q", got, tt.want)
			}
		})
	}
}

// Promise: G6, P30: Join and Leave count on what a shard's leader tells of its voters. Those that were
// removed count until everybody knows; and a leader that is alone with its vote misses the others.
func TestWhoIsCountedAndWhoIsMissed(t *testing.T) {
	w, leader := led(t)
	w.run(t, 2*HeartbeatTicks)
	w.add(1)
	leader.addLearner(w.replicas[3].cfg.Self)
	w.run(t, 4*HeartbeatTicks)
	follower := w.replicas[1]
	counted := func(r *Replica) (nodes []uint64) {
		for _, p := range r.Counted() {
			nodes = append(nodes, p.Node)
		}
		slices.Sort(nodes)
		return nodes
	}
	expect := func(when string, leaders, followers, missed []uint64) {
		t.Helper()
		if got := counted(leader); !slices.Equal(got, leaders) {
			t.Errorf("%s: the leader counts %v, want %v", when, got, leaders)
		}
		if got := counted(follower); !slices.Equal(got, followers) {
			t.Errorf("%s: a follower counts %v, want %v", when, got, followers)
		}
		if got := leader.Missed(); !slices.Equal(got, missed) {
			t.Errorf("%s: the leader misses %v, want %v", when, got, missed)
		}
		if got := follower.Missed(); got != nil {
			t.Errorf("%s: a follower misses %v", when, got)
		}
	}
	all := []uint64{101, 102, 103}
	expect("all is well", all, all, nil)
	leaves := targetOf(leader, 1, 2, 3)
	leaves.Leave = []uint64{101, 102}
	leader.SetTarget(leaves)
	expect("one leaves", all, all, []uint64{102})
	leader.SetTarget(targetOf(leader, 1, 3))
	expect("one is not to vote any more", all, all, []uint64{102})
	leader.SetTarget(Target{})
	w.cut[3], w.cut[4] = true, true
	w.run(t, int(answerTime/TickInterval))
	expect("one was heard a moment ago", all, all, nil)
	w.run(t, 1)
	expect("one is silent", all, all, []uint64{103})

	w.loses = hasSeal
	leader.change([]*raftpb.ConfChangeSingle{single(raftpb.ConfChangeRemoveNode, 3)}, nil)
	w.run(t, 2*HeartbeatTicks)
	expect("it was removed, and nobody has confirmed that", all, all[:2], nil)
	w.loses = nil
	w.run(t, 2*HeartbeatTicks)
	expect("the other voter has", all[:2], all[:2], nil)
}

// Checkers go by what a replica says of its configuration (P30): who votes, in both halves, and who
// will when it has applied what is in its log.
func TestConfigurations(t *testing.T) {
	type ids = []uint64
	add, remove, learn := raftpb.ConfChangeAddNode, raftpb.ConfChangeRemoveNode, raftpb.ConfChangeAddLearnerNode
	change := func(changes ...*raftpb.ConfChangeSingle) []byte {
		b, err := proto.Marshal(&raftpb.ConfChangeV2{Changes: changes})
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	all := ids{101, 102, 103}
	tests := []struct {
		name      string
		kind      raftpb.EntryType
		data      []byte // of what is in the log, and not applied
		joint     bool   // replica 4 is about to vote in the place of 2
		coming    ids
		unsettled bool
	}{
		{"a command", raftpb.EntryNormal, change(single(remove, 2)), false, all, false},
		{"a new learner", raftpb.EntryConfChangeV2, change(single(learn, 5)), false, all, false},
		{"a learner goes", raftpb.EntryConfChangeV2, change(single(remove, 4)), false, all, false},
		{"a learner is to vote", raftpb.EntryConfChangeV2, change(single(add, 4)), false, ids{101, 102, 103, 104}, true},
		{"a stranger is to vote", raftpb.EntryConfChangeV2, change(single(add, 6)), false, ids{101, 102, 103, 0}, true},
		{"a voter goes", raftpb.EntryConfChangeV2, change(single(remove, 2)), false, ids{101, 103}, true},
		{"a voter is to be a learner", raftpb.EntryConfChangeV2, change(single(learn, 2)), false, ids{101, 103}, true},
		{"a voter is to vote", raftpb.EntryConfChangeV2, change(single(add, 2)), false, ids{101, 103, 102}, true},
		{"a learner is to vote in a voter's place", raftpb.EntryConfChangeV2, change(single(add, 4), single(remove, 2)), false, ids{101, 103, 104}, true},
		{"the end of such a change", raftpb.EntryConfChangeV2, change(), true, ids{101, 103, 104}, true},
		{"the voter goes", raftpb.EntryConfChangeV2, change(single(remove, 2)), true, ids{101, 103, 104}, true},
		{"a change of another kind", raftpb.EntryConfChange, change(single(remove, 2)), false, all, true},
		{"what nobody can read", raftpb.EntryConfChangeV2, []byte{0xff}, false, all, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w, leader := led(t)
			w.run(t, 2*HeartbeatTicks)
			w.add(1)
			leader.addLearner(w.replicas[3].cfg.Self)
			w.run(t, 4*HeartbeatTicks)
			incoming, outgoing := all, ids(nil)
			if tt.joint {
				leader.members.conf.Voters, leader.members.conf.VotersOutgoing = ids{1, 3, 4}, ids{1, 2, 3}
				incoming, outgoing = ids{101, 103, 104}, all
			}
			for n, coming := range []ids{nil, tt.coming} { // before, and with the entry
				in, out, next, unsettled := leader.Configuration()
				if !slices.Equal(in, incoming) || !slices.Equal(out, outgoing) || !slices.Equal(next, coming) || unsettled != (tt.unsettled && n > 0) {
					t.Errorf("with %d entries: %v, %v, then %v, unsettled %v; want %v, %v, then %v, unsettled %v", n, in, out, next, unsettled, incoming, outgoing, coming, tt.unsettled)
				}
				err := leader.store.Append([]*raftpb.Entry{{
					Type: tt.kind.Enum(), Term: proto.Uint64(leader.term), Index: proto.Uint64(leader.applied.index + 1), Data: tt.data,
				}})
				if err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}
