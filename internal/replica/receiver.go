package replica

import (
	"fmt"
	"slices"

	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/confchange"
	"go.etcd.io/raft/v3/raftpb"
	"go.etcd.io/raft/v3/tracker"
	"google.golang.org/protobuf/proto"

	"github.com/lockmesh/mesh/internal/wire"
	"github.com/lockmesh/mesh/shard"
)

// receiver puts snapshots together that come in chunks.
type receiver struct {
	generation, self uint64
	founding         shard.Founding
	incoming         *incoming   // the latest snapshot, or nil
	whole            []*incoming // those that arrived whole, until raft has taken or left them
	acks             []Send      // to be sent
}

// incoming is a snapshot that a replica receives.
type incoming struct {
	from     uint64
	transfer uint64
	next     uint64
	restore  *shard.Restore // nil once the snapshot is whole
	table    *shard.Table   // from then on, until raft has decided
	index    uint64         // the table's last entry
	term     uint64         // and that entry's term
	history
}

// add takes a chunk from node. Chunks that do not come in order are left for the sender to repeat.
// When the snapshot is whole, add returns the message that raft is to decide on; one that is
// malformed is dropped, and add says why.
func (rc *receiver) add(node uint64, c Chunk) (whole *raftpb.Message, taken bool, err error) {
	in := rc.incoming
	if c.Number == 0 && (in == nil || in.transfer != c.Transfer) {
		in = &incoming{from: c.From, transfer: c.Transfer, restore: shard.NewRestore(rc.founding)}
		rc.incoming = in
	}
	if in == nil || in.transfer != c.Transfer || in.from != c.From {
		return nil, false, nil
	}
	if c.Number == in.next && in.restore != nil {
		if err = in.restore.Add(c.Data); err == nil && c.Meta != nil {
			whole, err = in.complete(c.Meta, rc.self)
		}
		if err != nil {
			rc.incoming = nil
			return nil, false, err
		}
		in.next++
		if whole != nil {
			rc.whole = append(rc.whole, in) // there may be more, of other leaders, before raft's answer is seen
		}
	}
	rc.acks = append(rc.acks, Send{node, &ChunkAck{
		Generation: rc.generation, From: rc.self, To: c.From, Transfer: c.Transfer, Next: in.next,
	}})
	return whole, true, nil
}

// complete makes the table, and returns raft's message, which meta carries.
func (in *incoming) complete(meta []byte, to uint64) (*raftpb.Message, error) {
	table, err := in.restore.Table()
	if err != nil {
		return nil, err
	}
	var sm snapshotMeta
	if err := wire.Decode(meta, &sm); err != nil {
		return nil, err
	}
	m := &raftpb.Message{}
	if err := proto.Unmarshal(sm.message, m); err != nil {
		return nil, err
	}
	if m.GetType() != raftpb.MsgSnap || m.GetTo() != to || m.GetFrom() != in.from || raft.IsEmptySnap(m.GetSnapshot()) {
		return nil, wire.ErrMalformed
	}
	if !sound(m.GetSnapshot().GetMetadata().GetConfState(), sm.homes) {
		return nil, fmt.Errorf("%w: the shard's replicas do not fit together", wire.ErrMalformed)
	}
	in.restore, in.table, in.history = nil, table, sm.history
	in.index, in.term = m.GetSnapshot().GetMetadata().GetIndex(), m.GetSnapshot().GetMetadata().GetTerm()
	return m, nil
}

// sound reports whether raft can take cs as the configuration of a shard, and knows where
// its replicas live. Raft panics if it cannot.
func sound(cs *raftpb.ConfState, peers map[uint64]Peer) bool {
	most := 2 * len(peers) // each in both halves
	if cs == nil || len(cs.Voters)+len(cs.VotersOutgoing)+len(cs.Learners)+len(cs.LearnersNext) > most {
		return false
	}
	t := tracker.MakeProgressTracker(1, 0)
	config, progress, err := confchange.Restore(confchange.Changer{Tracker: t, LastIndex: 1}, cs)
	t.Config, t.Progress = config, progress
	if err != nil || len(progress) == 0 || cs.Equivalent(t.ConfState()) != nil {
		return false
	}
	for id := range progress { // order-free: all must be known
		if _, known := peers[id]; !known {
			return false
		}
	}
	return true
}

// accepted returns the table and the members' history of the snapshot that raft took.
func (rc *receiver) accepted(index, term uint64) (*shard.Table, *history) {
	i := slices.IndexFunc(rc.whole, func(in *incoming) bool { return in.index == index && in.term == term })
	if i < 0 {
		panic("replica: raft accepted a snapshot that did not arrive")
	}
	return rc.whole[i].table, &rc.whole[i].history
}

// decided notes that raft has taken or left all that arrived. The latest snapshot's chunks may still
// come again, but nothing needs its table.
func (rc *receiver) decided() {
	for _, in := range rc.whole {
		in.table = nil
	}
	rc.whole = nil
}
