package replica

import (
	"fmt"
	"math"
	"slices"
	"time"

	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/confchange"
	"go.etcd.io/raft/v3/raftpb"
	"go.etcd.io/raft/v3/tracker"
	"google.golang.org/protobuf/proto"

	"github.com/lockmesh/mesh/internal/bug"
	"github.com/lockmesh/mesh/internal/point"
	"github.com/lockmesh/mesh/internal/wire"
	"github.com/lockmesh/mesh/shard"
)

const (
	chunkBytes  = 16 << 10 // of a snapshot's chunk: an eighth of a second at 1 Mbit/s
	chunkWindow = 64       // chunks on their way without an ack, at most
	resendAfter = 10 * TickInterval
	giveUpAfter = 4 * ElectionTimeout // without progress; or after four of the longest gaps between acks
	longestGap  = learnerPatience / 8
)

// Chunk is a part of a snapshot on its way to a replica. The last one carries Meta:
// the raft message that the snapshot belongs to and the shard's replicas.
type Chunk struct {
	Node       uint64 // where it goes; not on the wire
	Generation uint64
	From, To   uint64
	Transfer   uint64
	Number     uint64 // from zero
	Data       []byte
	Meta       []byte
}

// snapshotMeta is what a snapshot's last chunk carries beside its data.
type snapshotMeta struct {
	message           []byte // raft's, in protobuf
	homes             homes
	highest, founders uint64
}

// Fields is its wire form, an array.
func (m *snapshotMeta) Fields(c *wire.Codec) {
	t := c.Begin()
	c.Bytes(&m.message, maxRaftOther)
	m.homes.Fields(c)
	c.Uint(&m.highest, math.MaxUint64)
	c.Uint(&m.founders, math.MaxUint64)
	c.End(t)
}

// ChunkAck says how many chunks of a transfer arrived in order.
type ChunkAck struct {
	Node       uint64 // where it goes; not on the wire
	Generation uint64
	From, To   uint64
	Transfer   uint64
	Next       uint64
}

// transfer is a snapshot that this replica sends, chunk by chunk, while the table goes on.
type transfer struct {
	number   uint64
	to       uint64
	peer     Peer
	cut      *shard.Cut
	meta     []byte
	index    uint64   // of the snapshot that raft named; raft goes on from there
	flight   []flying // not acknowledged
	away     int      // so many of flight are on their way; the rest is to be sent again
	next     uint64   // the number of the next chunk
	cutDone  bool
	window   int           // how many may be on their way
	widest   int           // how many ever
	most     int           // bytes of a chunk
	got      int           // bytes that were acknowledged
	progress time.Duration // of the last ack that said something new
	gap      time.Duration // the longest between two of those
	quickest time.Duration // from the sending of a chunk to its ack
	patience time.Duration // for the next ack; then it is sent again
	sent     time.Duration
}

// flying is a chunk that was sent.
type flying struct {
	Chunk
	first time.Duration // when
	again bool          // and once more since
}

// patient is how long the receiver may say nothing new.
func (t *transfer) patient() time.Duration { return max(giveUpAfter, 4*min(t.gap, longestGap)) }

// beginTransfer answers raft's wish to send a snapshot. Each such wish ends in exactly
// one report (P40): at the last ack, or when the receiver stays silent.
func (r *Replica) beginTransfer(m *raftpb.Message, to Peer) {
	if r.transfer != nil {
		r.rn.ReportSnapshot(m.GetTo(), raft.SnapshotFailure) // one at a time; raft asks again
		return
	}
	// Raft named the snapshot of the last cut of the log. The table is further by now,
	// and what is sent is the table.
	named := m.GetSnapshot().GetMetadata().GetIndex()
	m.Snapshot = &raftpb.Snapshot{Metadata: &raftpb.SnapshotMetadata{
		ConfState: r.conf, Index: proto.Uint64(r.applied), Term: proto.Uint64(r.appliedTerm),
	}}
	data, err := proto.MarshalOptions{Deterministic: true}.Marshal(m)
	if err != nil {
		panic(fmt.Sprintf("replica: snapshot message: %v", err))
	}
	meta := wire.Append(nil, &snapshotMeta{message: data, homes: r.peers, highest: r.highest, founders: r.founders})
	r.transfer = &transfer{
		number: r.rand.Uint64(), to: m.GetTo(), peer: to, cut: r.table.Cut(), index: named, meta: meta, progress: r.now,
		window: 1, widest: chunkWindow, most: chunkBytes, quickest: never, patience: resendAfter,
	}
	if r.cfg.Points.Taken(point.SmallWindow) {
		r.transfer.widest = 1
	}
	if r.cfg.Points.Taken(point.SmallChunks) {
		r.transfer.most = 16
	}
	r.fill()
}

// fill sends chunks as far as the window allows.
func (r *Replica) fill() {
	t := r.transfer
	for t.away < t.window && (t.away < len(t.flight) || !t.cutDone) {
		if t.away < len(t.flight) {
			t.flight[t.away].again = true
		} else {
			c := Chunk{
				Node: t.peer.Node, Generation: r.cfg.Generation, From: r.cfg.ID, To: t.to,
				Transfer: t.number, Number: t.next,
			}
			c.Data, t.cutDone = t.cut.Next(t.most)
			if t.cutDone {
				c.Meta = t.meta
			}
			t.next++
			t.flight = append(t.flight, flying{Chunk: c, first: r.now})
		}
		r.chunks = append(r.chunks, t.flight[t.away].Chunk)
		t.away++
		t.sent = r.now
	}
	r.dirty = true
}

// StepAck takes the receiver's word on how far it is. With each chunk that took less than twice
// as long as the quickest, one more may be on its way: a narrow link is filled, and what else
// is to be said to the receiver does not wait behind a megabyte.
func (r *Replica) StepAck(now time.Duration, a ChunkAck) {
	r.now = now
	t := r.transfer
	if t == nil || a.Generation != r.cfg.Generation || a.To != r.cfg.ID || a.From != t.to || a.Transfer != t.number {
		return
	}
	for len(t.flight) > 0 && t.flight[0].Number < a.Next {
		c := t.flight[0]
		t.flight, t.away = t.flight[1:], max(t.away-1, 0)
		t.got += len(c.Data)
		t.gap, t.progress = max(t.gap, now-t.progress), now
		took := now - c.first
		if c.again { // this may answer either copy
			t.patience = max(resendAfter, took)
			continue
		}
		t.quickest, t.patience = min(t.quickest, took), max(resendAfter, 2*took)
		if took <= 2*t.quickest {
			t.window = min(t.window+1, t.widest)
		}
	}
	if t.cutDone && len(t.flight) == 0 {
		r.endTransfer(raft.SnapshotFinish)
		return
	}
	r.fill()
}

func (r *Replica) endTransfer(how raft.SnapshotStatus) {
	t := r.transfer
	r.transfer = nil
	t.cut.Stop()
	if how == raft.SnapshotFinish || !r.cfg.Bugs.Has(bug.FailureUnreported) {
		r.rn.ReportSnapshot(t.to, how)
	}
	r.dirty = true
}

func (r *Replica) transferTick() {
	t := r.transfer
	if t == nil {
		return
	}
	_, there := r.peers[t.to]
	silent := r.now - t.progress
	switch {
	case r.role != raft.StateLeader || !there:
		r.endTransfer(raft.SnapshotFailure)
	case silent >= t.patient():
		r.endTransfer(raft.SnapshotFailure)
	case r.now-t.sent >= t.patience && silent >= t.patience:
		// The receiver takes chunks in their order alone: what was sent after a lost one is lost, too.
		t.window, t.away = 1, 0
		t.patience *= 2
		r.fill()
	}
}

// incoming is a snapshot that this replica receives.
type incoming struct {
	from     uint64
	transfer uint64
	next     uint64
	restore  *shard.Restore
	table    *shard.Table // once whole, and then of this entry
	index    uint64
	term     uint64
	peers    map[uint64]Peer
	highest  uint64
	founders uint64
}

// StepChunk takes a part of a snapshot. Chunks that do not come in order are left for
// the sender to repeat.
func (r *Replica) StepChunk(now time.Duration, node uint64, c Chunk) {
	r.now = now
	if r.stopped != nil || c.Generation != r.cfg.Generation || c.To != r.cfg.ID {
		return
	}
	in := r.incoming
	if c.Number == 0 && (in == nil || in.transfer != c.Transfer && !r.cfg.Bugs.Has(bug.HalfSnapshotKept)) {
		in = &incoming{from: c.From, transfer: c.Transfer, restore: shard.NewRestore(r.cfg.Founding)}
		r.incoming = in
	}
	if in == nil || in.transfer != c.Transfer || in.from != c.From {
		return
	}
	if c.Number == in.next && in.restore != nil {
		if err := in.restore.Add(c.Data); err != nil {
			r.log.Warn("snapshot", "error", err)
			r.incoming = nil
			return
		}
		in.next++
		if c.Meta != nil && !r.arrived(in, c.Meta) {
			return
		}
	}
	r.acks = append(r.acks, ChunkAck{
		Node: node, Generation: r.cfg.Generation, From: r.cfg.ID, To: c.From, Transfer: c.Transfer, Next: in.next,
	})
	r.dirty = true
}

// arrived hands a whole snapshot to raft, which decides whether it is of use.
func (r *Replica) arrived(in *incoming, meta []byte) bool {
	table, err := in.restore.Table()
	m := &raftpb.Message{}
	var sm snapshotMeta
	if err == nil {
		err = wire.Decode(meta, &sm)
	}
	if err == nil {
		err = proto.Unmarshal(sm.message, m)
	}
	in.peers, in.highest, in.founders = sm.homes, sm.highest, sm.founders
	if err == nil && (m.GetType() != raftpb.MsgSnap || m.GetTo() != r.cfg.ID || m.GetFrom() != in.from || raft.IsEmptySnap(m.GetSnapshot())) {
		err = wire.ErrMalformed
	}
	if err == nil && !sound(m.GetSnapshot().GetMetadata().GetConfState(), in.peers) {
		err = fmt.Errorf("%w: the shard's replicas do not fit together", wire.ErrMalformed)
	}
	if err != nil {
		r.log.Warn("snapshot", "error", err)
		r.incoming = nil
		return false
	}
	in.restore, in.table = nil, table
	in.index, in.term = m.GetSnapshot().GetMetadata().GetIndex(), m.GetSnapshot().GetMetadata().GetTerm()
	r.whole = append(r.whole, in) // there may be more, of other leaders, before raft's answer is seen
	r.election.stepped(r, m)
	if err := r.rn.Step(m); err != nil {
		r.log.Debug("raft refused a snapshot", "error", err)
	}
	r.dirty = true
	return true
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

// install replaces the table by the snapshot that raft accepted.
func (r *Replica) install(s *raftpb.Snapshot) {
	meta := s.GetMetadata()
	i := slices.IndexFunc(r.whole, func(in *incoming) bool { return in.index == meta.GetIndex() && in.term == meta.GetTerm() })
	if i < 0 {
		panic("replica: raft accepted a snapshot that did not arrive")
	}
	in := r.whole[i]
	if err := r.store.ApplySnapshot(s); err != nil {
		panic(fmt.Sprintf("replica: snapshot: %v", err))
	}
	r.table, r.peers, r.highest, r.founders = in.table, in.peers, in.highest, in.founders
	r.conf = meta.GetConfState()
	r.applied, r.appliedTerm, r.cutAt, r.appliedBytes = meta.GetIndex(), meta.GetTerm(), meta.GetIndex(), 0
	r.sums, r.cuts = sums{}, nil
	r.young, r.blind = nil, true
	in.table = nil
	clear(r.strangers)
	r.log.Debug("installed a snapshot", "index", r.applied, "revision", r.table.Revision())
}

// Fields is the chunk's wire form, seven elements.
func (k *Chunk) Fields(c *wire.Codec) {
	c.Uint(&k.Generation, math.MaxUint64)
	c.Uint(&k.From, math.MaxUint64)
	c.Uint(&k.To, math.MaxUint64)
	c.Uint(&k.Transfer, math.MaxUint64)
	c.Uint(&k.Number, math.MaxUint64)
	c.Bytes(&k.Data, chunkBytes)
	c.Bytes(&k.Meta, maxRaftOther)
}

// Fields is the ack's wire form, five elements.
func (a *ChunkAck) Fields(c *wire.Codec) {
	c.Uint(&a.Generation, math.MaxUint64)
	c.Uint(&a.From, math.MaxUint64)
	c.Uint(&a.To, math.MaxUint64)
	c.Uint(&a.Transfer, math.MaxUint64)
	c.Uint(&a.Next, math.MaxUint64)
}
