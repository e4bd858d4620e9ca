package replica

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"

	"github.com/lockmesh/mesh/internal/placement"
	"github.com/lockmesh/mesh/internal/point"
	"github.com/lockmesh/mesh/internal/wire"
	"github.com/lockmesh/mesh/shard"
)

// compared returns a trio that compares its tables every eight entries.
func compared(t *testing.T) (*trio, *Replica) {
	t.Helper()
	w, leader := led(t)
	w.run(t, 2*HeartbeatTicks)
	for _, r := range w.replicas {
		r.compareOften()
	}
	return w, leader
}

func (r *Replica) compareOften() {
	r.cfg.Points = func(s point.Site) bool { return s == point.CheckOften }
}

// work lets whoever leads append n entries.
func (w *trio) work(t *testing.T, n int) {
	t.Helper()
	for range n {
		for _, r := range w.replicas {
			if r.Serving() && !w.cut[r.ID()] {
				r.appendOwn(shard.Silent{Term: r.term})
			}
		}
		w.run(t, 1)
	}
}

// stopped returns which replicas stopped themselves because of their tables.
func (w *trio) stopped(t *testing.T) (ids []uint64) {
	t.Helper()
	for _, r := range w.replicas {
		if r.Err() != nil && !errors.Is(r.Err(), errDiverged) {
			t.Errorf("replica %d: %v", r.ID(), r.Err())
		}
		if r.Err() != nil {
			ids = append(ids, r.ID())
		}
	}
	return ids
}

// Promise: G1, P41: of replicas whose tables differ those go on whose table most voters have.
func TestMostDecideWhichTableIsRight(t *testing.T) {
	tests := []struct {
		name    string
		corrupt []uint64 // once for each time that a replica is named
		cut     uint64   // for as long as the tables are compared, and then heard again
		want    []uint64 // who has stopped by then
		after   []uint64 // and when it is heard again
	}{
		{name: "all are equal"},
		{name: "a follower differs", corrupt: []uint64{3}, want: []uint64{3}, after: []uint64{3}},
		{name: "the leader differs", corrupt: []uint64{1}, want: []uint64{1}, after: []uint64{1}},
		{name: "the leader is alone with the right one", corrupt: []uint64{2, 3}, want: []uint64{1}, after: []uint64{1}},
		{name: "all differ", corrupt: []uint64{2, 3, 3}},
		{name: "two differ, and the third, who is like the leader, is away", corrupt: []uint64{3}, cut: 2, after: []uint64{3}},
		{name: "two differ, and the third, who is like the other, is away", corrupt: []uint64{1}, cut: 2, after: []uint64{1}},
		{name: "two are equal, and the third is away", cut: 2},
		{name: "two are equal, and the third, who differs, is away", corrupt: []uint64{2}, cut: 2, after: []uint64{2}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w, leader := compared(t)
			for _, id := range tt.corrupt {
				w.replicas[id-1].Corrupt()
			}
			w.cut[tt.cut] = true
			w.work(t, 20)
			if got := w.stopped(t); !slices.Equal(got, tt.want) {
				t.Errorf("%v stopped, want %v", got, tt.want)
			}
			if differ := len(tt.corrupt) > 0 && tt.cut != tt.corrupt[0]; len(tt.want) == 0 && leader.doubted(3) != differ {
				t.Errorf("the leader doubts replica 3: %v, want %v", leader.doubted(3), differ)
			}
			delete(w.cut, tt.cut)
			w.run(t, 6*electionTicks)
			w.work(t, 20)
			if got := w.stopped(t); !slices.Equal(got, tt.after) {
				t.Errorf("in the end %v stopped, want %v", got, tt.after)
			}
			serving := 0
			for _, r := range w.replicas {
				if r.Serving() {
					serving++
				}
				if slices.ContainsFunc(r.sums.kept, func(s checksum) bool { return s.index <= r.sums.checked }) {
					t.Errorf("replica %d keeps %v, and entry %d was checked", r.ID(), r.sums.kept, r.sums.checked)
				}
				if r.Err() == nil && len(tt.corrupt) < 3 && (r.sums.checked+24 < r.applied.index || len(r.sums.kept) > 3) {
					t.Errorf("replica %d is at entry %d, and compared its table at %d; it keeps %v", r.ID(), r.applied.index, r.sums.checked, r.sums.kept)
				}
			}
			if serving != 1 {
				t.Errorf("%d replicas serve", serving)
			}
		})
	}
}

// Promise: G1, P41: that a word on a table is lost, or comes under another name, changes nothing.
func TestAWordOnATableIsRepeated(t *testing.T) {
	w, leader := compared(t)
	leader.Corrupt()
	lost := make(map[uint64]int)
	w.unsaid = func(s Sum) bool {
		for _, forge := range []func(s *Sum){
			func(s *Sum) { s.From = 5 - s.From }, // the other follower's
			func(s *Sum) { s.From = 4 },
			func(s *Sum) { s.To++ },
			func(s *Sum) { s.Generation++ },
		} {
			forged, before := s, fmt.Sprint(leader.leading.comparison.words)
			forge(&forged)
			if leader.Receive(w.now, 100+s.From, &forged); fmt.Sprint(leader.leading.comparison.words) != before {
				t.Errorf("the leader takes %+v from node %d", forged, 100+s.From)
			}
		}
		lost[s.From]++
		return lost[s.From] <= 2
	}
	w.work(t, 8)
	w.run(t, electionTicks)
	if got := w.stopped(t); len(got) != 0 {
		t.Fatalf("%v stopped, and nobody has heard of their tables", got)
	}
	w.run(t, 2*electionTicks)
	if got := w.stopped(t); !slices.Equal(got, []uint64{1}) {
		t.Errorf("%v stopped, want the leader, whose table is alone", got)
	}
}

// Promise: G1, P41: whose table differs from the leader's is not offered to lead, and its shard
// does not count as healthy.
func TestTheDoubtedAreNotAskedToLead(t *testing.T) {
	w, leader := compared(t)
	w.cut[2] = true
	w.run(t, 4*HeartbeatTicks)
	leader.SetTarget(targetOf(leader, 3, 1, 2))
	w.run(t, 1) // it has asked the owner how late that is
	next := func() placement.Action {
		a, _ := placement.Next(leader.placement(leader.progress()))
		return a
	}
	if next() != (placement.HandOver{To: 3}) {
		t.Fatalf("%v: the ring's owner cannot lead anyway", next())
	}
	w.replicas[2].Corrupt()
	w.work(t, 20)
	if next() != nil {
		t.Errorf("%v: its table differs", next())
	}
	leader.Receive(w.now, 103, &Accept{leader.Term()}) // to an earlier offer
	if to := leader.rn.BasicStatus().LeadTransferee; to != 0 {
		t.Errorf("leadership goes to %d, whose table differs", to)
	}
	delete(w.cut, 2)
	if leader.AtRest() {
		t.Error("two tables differ, and the shard is at rest")
	}
}

// Promise: G1, P41: a learner, which has no word, stops itself if its table differs; and while the
// voters change, most of those before and of those to come must have a table.
func TestLearnersAndJointMajorities(t *testing.T) {
	w, leader := compared(t)
	w.add(1)
	w.replicas[3].compareOften()
	leader.addLearner(w.replicas[3].cfg.Self)
	w.run(t, 4*HeartbeatTicks)
	learner := w.replicas[3]
	w.work(t, 9)
	learner.sums.kept = append(learner.sums.kept, checksum{learner.applied.index, learner.table.Digest()})
	learner.sums.told = learner.now - ElectionTimeout
	learner.Ready(learner.now, &Output{})
	if learner.Tick(learner.now+TickInterval, false); !learner.Rests() {
		t.Error("a learner, which has nothing to tell, is to be made ready at each tick")
	}
	learner.Corrupt()
	said := false
	w.unsaid = func(s Sum) bool { said = said || s.From == 4; return false }
	w.work(t, 20)
	if got := w.stopped(t); !slices.Equal(got, []uint64{4}) || said {
		t.Errorf("%v stopped, want the learner; it said so: %v", got, said)
	}

	sum := checksum{8, 1}
	leader.sums.kept = []checksum{sum}
	for _, tt := range []struct {
		voters, outgoing, with []uint64
		want                   bool
	}{
		{[]uint64{1, 2, 3}, nil, nil, false},
		{[]uint64{1, 2, 3}, nil, []uint64{3}, true},
		{[]uint64{1, 2, 3}, []uint64{1, 4, 5}, []uint64{3}, false},
		{[]uint64{1, 2, 3}, []uint64{1, 4, 5}, []uint64{4}, false},
		{[]uint64{1, 2, 3}, []uint64{1, 4, 5}, []uint64{3, 4}, true},
		{[]uint64{2, 3, 4}, nil, []uint64{3}, false},
	} {
		leader.members.conf.Voters, leader.members.conf.VotersOutgoing = tt.voters, tt.outgoing
		clear(leader.leading.comparison.words)
		for _, id := range tt.with {
			leader.leading.comparison.words[id] = sum
		}
		if got := leader.mostHave(sum); got != tt.want {
			t.Errorf("of %v and %v, %v beside the leader have it: most %v", tt.voters, tt.outgoing, tt.with, got)
		}
	}
}

// One Check is logged for an entry, and one doubt, however often voters speak of it.
func TestAnEntryIsCheckedOnce(t *testing.T) {
	w, leader := compared(t)
	var log bytes.Buffer
	leader.log = slog.New(slog.NewTextHandler(&log, nil))
	for leader.applied.index%8 != 7 {
		w.work(t, 1)
	}
	doubts := func(index, digest uint64) (checks, doubts int) {
		for range 2 {
			for id := uint64(2); id <= 3; id++ {
				leader.Receive(w.now, 100+id, &Sum{Generation: 1, From: id, To: 1, Index: index, Digest: digest + id})
			}
		}
		for rd := wire.NewReader(leader.batch.data); rd.Len() > 0; checks++ {
			if _, ok := shard.ReadCommand(rd).(shard.Check); !ok {
				t.Fatal("the leader logs something else")
			}
		}
		return checks, strings.Count(log.String(), "different tables")
	}
	leader.sums.kept = []checksum{{8, 100}}
	if checks, doubts := doubts(8, 50); checks != 0 || doubts != 1 {
		t.Errorf("%d Checks and %d doubts, want one doubt", checks, doubts)
	}
	leader.sums.kept = append(leader.sums.kept, checksum{16, 202})
	if checks, doubts := doubts(16, 200); checks != 1 || doubts != 1 {
		t.Errorf("%d Checks and %d doubts, want one Check and no more doubts", checks, doubts)
	}
}
