package replica

import (
	"fmt"

	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"

	"github.com/lockmesh/mesh/internal/point"
	"github.com/lockmesh/mesh/internal/wire"
)

// beginTransfer answers raft's wish to send a snapshot. Each such wish ends in exactly one report
// (P40): at once, if another snapshot is under way; at the last ack; or when the snapshot is given up.
func (r *Replica) beginTransfer(m *raftpb.Message, to Peer) {
	if r.sender.busy() {
		r.rn.ReportSnapshot(m.GetTo(), raft.SnapshotFailure) // one at a time; raft asks again
		return
	}
	// Raft named the snapshot of the last cut of the log. The table is further by now,
	// and what is sent is the table.
	named := m.GetSnapshot().GetMetadata().GetIndex()
	m.Snapshot = &raftpb.Snapshot{Metadata: &raftpb.SnapshotMetadata{
		ConfState: r.members.conf, Index: proto.Uint64(r.applied.index), Term: proto.Uint64(r.applied.term),
	}}
	data, err := proto.MarshalOptions{Deterministic: true}.Marshal(m)
	if err != nil {
		panic(fmt.Sprintf("replica: snapshot message: %v", err))
	}
	meta := wire.Append(nil, &snapshotMeta{message: data, history: r.members.history()})
	most, widest := chunkBytes, chunkWindow
	if r.cfg.Points.Taken(point.SmallWindow) {
		widest = 1
	}
	if r.cfg.Points.Taken(point.SmallChunks) {
		most = 16
	}
	head := Chunk{Generation: r.cfg.Generation, From: r.cfg.ID, To: m.GetTo(), Transfer: r.rand.Uint64()}
	r.sender.begin(r.now, to.Node, head, r.table.Cut(), meta, named, most, widest)
	r.dirty = true
}

// ack handles what the receiver says of how far it is.
func (r *Replica) ack(a ChunkAck) {
	if !r.sender.expects(a) {
		return
	}
	if r.sender.ack(r.now, a) {
		r.endTransfer(raft.SnapshotFinish)
	}
	r.dirty = true
}

func (r *Replica) transferTick() {
	if !r.sender.busy() {
		return
	}
	switch {
	case r.role != raft.StateLeader || r.gone(r.sender.to()) || r.sender.overdue(r.now):
		r.endTransfer(raft.SnapshotFailure)
	case r.sender.resend(r.now):
		r.dirty = true
	}
}

// gone reports whether replica id is no more. While a snapshot is sent to it, all others wait for theirs.
func (r *Replica) gone(id uint64) bool {
	_, there := r.Peer(id)
	return !there || r.vanished[id]
}

func (r *Replica) endTransfer(how raft.SnapshotStatus) {
	to := r.sender.to()
	r.sender.end()
	r.rn.ReportSnapshot(to, how)
	r.dirty = true
}

// addChunk takes a part of a snapshot.
func (r *Replica) addChunk(node uint64, c Chunk) {
	if c.Generation != r.cfg.Generation || c.To != r.cfg.ID {
		return
	}
	whole, taken, err := r.receiver.add(node, c)
	if err != nil {
		r.log.Warn("malformed snapshot", "error", err)
	}
	if whole != nil {
		if err := r.stepRaft(whole); err != nil {
			r.log.Debug("raft refused a snapshot", "error", err)
		}
	}
	r.dirty = r.dirty || taken
}

// install replaces the table by the snapshot that raft accepted.
func (r *Replica) install(s *raftpb.Snapshot) {
	meta := s.GetMetadata()
	table, history := r.receiver.accepted(meta.GetIndex(), meta.GetTerm())
	if err := r.store.ApplySnapshot(s); err != nil {
		panic(fmt.Sprintf("replica: snapshot: %v", err))
	}
	r.table = table
	r.members.restore(meta.GetConfState(), history)
	r.applied.restore(meta.GetIndex(), meta.GetTerm())
	r.sums = sums{}
	r.log.Debug("installed a snapshot", "index", r.applied.index, "revision", r.table.Revision())
}
