package core

import (
	"io"
	"log"
	"slices"
	"testing"

	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"
)

// rafts are replicas 1, 2 and 3 of a shard, of which the first leads.
type rafts struct {
	nodes  map[uint64]*raft.RawNode
	stores map[uint64]*raft.MemoryStorage
	confs  map[uint64]*raftpb.ConfState
	commit map[uint64]uint64
	cut    uint64 // one that no message reaches
}

func newRafts(t *testing.T) *rafts {
	w := &rafts{make(map[uint64]*raft.RawNode), make(map[uint64]*raft.MemoryStorage), make(map[uint64]*raftpb.ConfState), make(map[uint64]uint64), 0}
	for id := uint64(1); id <= 3; id++ {
		store := raft.NewMemoryStorage()
		conf := &raftpb.ConfState{Voters: []uint64{1, 2, 3}}
		first := &raftpb.Snapshot{Metadata: &raftpb.SnapshotMetadata{Index: proto.Uint64(1), Term: proto.Uint64(1), ConfState: conf}}
		if err := store.ApplySnapshot(first); err != nil {
			t.Fatal(err)
		}
		n, err := raft.NewRawNode(&raft.Config{ID: id, ElectionTick: 10, HeartbeatTick: 1, Storage: store, Applied: 1, MaxSizePerMsg: 1 << 20, MaxInflightMsgs: 256,
			Logger: &raft.DefaultLogger{Logger: log.New(io.Discard, "", 0)}})
		if err != nil {
			t.Fatal(err)
		}
		w.nodes[id], w.stores[id], w.confs[id] = n, store, conf
	}
	if err := w.nodes[1].Campaign(); err != nil {
		t.Fatal(err)
	}
	w.run(t)
	return w
}

// run delivers messages until there are none.
func (w *rafts) run(t *testing.T) {
	for again := true; again; {
		again = false
		for id := uint64(1); id <= 3; id++ {
			n := w.nodes[id]
			if !n.HasReady() {
				continue
			}
			again = true
			rd := n.Ready()
			if err := w.stores[id].Append(rd.Entries); err != nil {
				t.Fatal(err)
			}
			for _, e := range rd.CommittedEntries {
				w.apply(t, id, e)
			}
			for _, m := range rd.Messages {
				if m.GetTo() != w.cut && id != w.cut {
					_ = w.nodes[m.GetTo()].Step(m)
				}
			}
			n.Advance(rd)
		}
	}
}

func (w *rafts) apply(t *testing.T, id uint64, e *raftpb.Entry) {
	w.commit[id] = e.GetIndex()
	if e.GetType() != raftpb.EntryConfChangeV2 {
		return
	}
	cc := &raftpb.ConfChangeV2{}
	if err := proto.Unmarshal(e.Data, cc); err != nil {
		t.Fatal(err)
	}
	w.confs[id] = w.nodes[id].ApplyConfChange(cc)
}

// holds reports whether most voters of the leader's configuration have all that it knows committed.
func (w *rafts) holds(t *testing.T) bool {
	n := 0
	for _, id := range w.confs[1].Voters {
		last, err := w.stores[id].LastIndex()
		if err != nil {
			t.Fatal(err)
		}
		if last >= w.commit[1] {
			n++
		}
	}
	return n >= Majority(len(w.confs[1].Voters))
}

// The model takes it that a shard's voters change at one moment, at which most of those before and most
// of those to come could vote. With raft, a joint change is made when its joint configuration ends. A
// change by one without a joint configuration is made too early: the new voters may lack what was
// committed, so it must not be used, not even to remove a replica.
func TestVotersChangeAtOneMoment(t *testing.T) {
	for _, tt := range []struct {
		name       string
		transition raftpb.ConfChangeTransition
		early      bool // the change is made while most of the new voters are away
	}{
		{"joint", raftpb.ConfChangeTransitionJointImplicit, false},
		{"by one", raftpb.ConfChangeTransitionAuto, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := newRafts(t)
			w.cut = 3
			remove := &raftpb.ConfChangeSingle{Type: raftpb.ConfChangeRemoveNode.Enum(), NodeId: proto.Uint64(2)}
			if err := w.nodes[1].ProposeConfChange(&raftpb.ConfChangeV2{Transition: tt.transition.Enum(), Changes: []*raftpb.ConfChangeSingle{remove}}); err != nil {
				t.Fatal(err)
			}
			if err := w.nodes[1].Propose([]byte("behind the change")); err != nil {
				t.Fatal(err)
			}
			w.run(t)
			made := len(w.confs[1].VotersOutgoing) == 0 // until then, those before count as well
			if lacks := made && !w.holds(t); made != tt.early || lacks != tt.early {
				t.Fatalf("while 3 is away the configuration is %v; most of the new voters have what is committed: %v", w.confs[1], w.holds(t))
			}
			w.cut = 0
			for range 3 {
				w.nodes[1].Tick()
				w.run(t)
			}
			if c := w.confs[1]; len(c.VotersOutgoing) > 0 || !slices.Equal(c.Voters, []uint64{1, 3}) || !w.holds(t) {
				t.Errorf("the configuration is %v; most of the voters have what is committed: %v", c, w.holds(t))
			}
		})
	}
}
