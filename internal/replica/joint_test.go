package replica

import (
	"testing"

	"go.etcd.io/raft/v3/raftpb"

	"github.com/lockmesh/mesh/internal/placement"
)

// Of three replicas one is gone. The second is elected while a change is on its way that
// leaves only the first with a vote, and ends with that change; what it appended after
// the end of the joint configuration reaches nobody. The first has to lead, and needs the
// vote of the second, which must not have a longer log.
func TestALeaderThatIsTakenOutAppendsNothingMore(t *testing.T) {
	w, first := led(t)
	second := w.replicas[1]
	w.run(t, 2*HeartbeatTicks)
	w.cut[3] = true

	// The first cannot commit its change, and leads no more. It has to hear of the second before.
	first.swap(placement.ChangeVoters{Remove: []uint64{3}, Demote: []uint64{2}})
	w.run(t, HeartbeatTicks)
	w.loses = func(f Frame) bool {
		return f.From == 2 && second.Term() == first.Term() ||
			f.From == 1 && f.Message.GetType() == raftpb.MsgPreVote
	}
	first.swap(placement.ChangeVoters{Remove: []uint64{3}, Demote: []uint64{2}})
	for n := 0; first.Serving(); n++ {
		if w.run(t, 1); n > 2*electionTicks {
			t.Fatal("the first leads without a majority")
		}
	}

	// The second does, and is taken out.
	leave := uint64(0)
	w.loses = func(f Frame) bool {
		if f.From == 1 {
			return f.Message.GetType() == raftpb.MsgPreVote
		}
		for _, e := range f.Message.GetEntries() {
			if leave != 0 && e.GetIndex() > leave {
				return true
			}
			if e.GetType() == raftpb.EntryConfChangeV2 && len(e.Data) == 0 {
				leave = e.GetIndex()
			}
		}
		return false
	}
	for n := 0; len(second.Learners()) == 0 || second.Joint(); n++ {
		if w.run(t, 1); n > 10*electionTicks {
			t.Fatalf("the second has the configuration %v, of which it leads %v", second.members.conf, second.Serving())
		}
	}
	if leave == 0 || second.Serving() || first.Serving() {
		t.Fatalf("the end of the change is entry %d; serving: %v, %v", leave, first.Serving(), second.Serving())
	}

	w.loses = nil
	w.run(t, 10*electionTicks)
	if !first.Serving() || first.Joint() {
		t.Errorf("the only voter does not lead: its log ends at %d, and the other's at %d",
			lastIndex(t, first), lastIndex(t, second))
	}
}

func lastIndex(tb testing.TB, r *Replica) uint64 {
	tb.Helper()
	last, err := r.store.LastIndex()
	if err != nil {
		tb.Fatal(err)
	}
	return last
}
