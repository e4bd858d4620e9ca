package replica

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"

	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/raftpb"

	"github.com/lockmesh/mesh/internal/wire"
)

// Frame is one raft message on its way between two replicas of a shard (P23).
type Frame struct {
	Generation uint64
	From, To   uint64 // replica IDs
	Message    *raftpb.Message
}

const (
	maxEntries     = 1 << 14 // of one append
	maxEntry       = 1 << 19 // bytes of one entry
	maxRaftMessage = 1 << 16 // bytes of the message that comes with a snapshot, in protobuf
	roundSize      = 8       // bytes of a ReadIndex round's number
	maxContext     = 64      // bytes; raft's mark of a campaign after a hand-over has 16
)

// Fields is the frame's wire form, four elements, the last of them the message: an array of all fields
// that any message between two replicas has. Entries that are read live as long as the log, and none of
// them keeps much more memory than its own from being freed: see lasting.
func (f *Frame) Fields(c *wire.Codec) {
	c.Uint(&f.Generation, math.MaxUint64)
	ReplicaID(c, &f.From)
	ReplicaID(c, &f.To)
	c.Check(f.From != f.To, "a replica's message to itself")
	var b *raftMessage
	if c.Reads() {
		b = &raftMessage{from: f.From, to: f.To}
		b.Type, b.From, b.To, b.Reject = &b.kind, &b.from, &b.to, &b.reject
		f.Message = &b.Message
	}
	m := f.Message
	kind, reject := m.GetType(), m.GetReject()
	t := c.Begin()
	wire.Number(c, &kind, math.MaxInt32)
	b.number(c, &m.Term)
	b.number(c, &m.LogTerm)
	b.number(c, &m.Index)
	b.number(c, &m.Commit)
	c.Bool(&reject)
	b.number(c, &m.RejectHint)
	c.Bytes(&m.Context, maxContext)
	entries(c, m)
	c.End(t)
	if b != nil {
		b.kind, b.reject = kind, reject
		admit(c, m)
	}
}

// admit checks a message of a peer: raft panics on some that no peer sends.
func admit(c *wire.Codec, m *raftpb.Message) {
	switch m.GetType() {
	case raftpb.MsgApp, raftpb.MsgAppResp:
	case raftpb.MsgHeartbeat, raftpb.MsgHeartbeatResp: // for a ReadIndex round, or for none
		c.Check(len(m.Context) == 0 || len(m.Context) == roundSize, "part of a round's number")
	case raftpb.MsgVote, raftpb.MsgVoteResp, raftpb.MsgPreVote, raftpb.MsgPreVoteResp, raftpb.MsgTimeoutNow:
		c.Check(m.GetTerm() != 0, "a vote without a term")
	case raftpb.MsgProp, raftpb.MsgReadIndex, raftpb.MsgReadIndexResp: // dropped by Replica.step (P3)
	default:
		c.Fail(fmt.Sprintf("a raft message %v from a peer", m.GetType())) // snapshots come in chunks
	}
}

// roundOf returns the number that raft gave the ReadIndex round that a heartbeat, or its answer, is for. Each has a
// higher one than those before it in its term.
func roundOf(m *raftpb.Message) (number uint64, is bool) {
	if len(m.Context) != roundSize {
		return 0, false
	}
	return binary.LittleEndian.Uint64(m.Context), true
}

// entries are the entries of an append, three elements each: their indices follow from its own.
func entries(c *wire.Codec, m *raftpb.Message) {
	n := c.Array(3*len(m.Entries), 3*maxEntries)
	if c.Check(n%3 == 0, "part of an entry"); c.Err() != nil {
		return
	}
	var block []raftEntry
	if c.Reads() && n > 0 {
		m.Entries = make([]*raftpb.Entry, n/3)
	}
	for i, e := range m.Entries {
		kind, term, data := e.GetType(), e.GetTerm(), e.GetData()
		wire.Number(c, &kind, uint64(raftpb.EntryConfChangeV2))
		c.Uint(&term, math.MaxUint64)
		c.Bytes(&data, maxEntry)
		if !c.Reads() {
			continue
		}
		if i%entryBlock == 0 {
			block = make([]raftEntry, min(entryBlock, len(m.Entries)-i))
		}
		r := &block[i%entryBlock]
		r.kind, r.term, r.index, r.Data = kind, term, m.GetIndex()+uint64(i)+1, lasting(c, data)
		r.Type, r.Term, r.Index = &r.kind, &r.term, &r.index
		m.Entries[i] = &r.Entry
	}
}

// smallFrame is how large a frame may be that any entry keeps in memory.
const smallFrame = 4 << 10

// lasting returns data that c has read, for a log to keep. Out of a frame that is not small, what
// is less than half of it is copied: a few bytes would keep all of it in memory for as long as
// they last themselves. So an entry keeps twice its data, or smallFrame, at most.
func lasting(c *wire.Codec, data []byte) []byte {
	if size := c.Size(); size > smallFrame && 2*len(data) < size {
		return bytes.Clone(data)
	}
	return data
}

// maxID is the largest ID of a replica: raft keeps those above for itself.
const maxID = raft.LocalApplyThread - 1

// ReplicaID is the ID of a replica, as a field of a message.
func ReplicaID(c *wire.Codec, id *uint64) {
	c.Uint(id, maxID)
	c.Check(*id != 0, "replica zero")
}

// entryBlock is how many entries of one append are allocated together, and freed when the
// last of them is.
const entryBlock = 16

// raftEntry is an entry with the numbers that it points to, in one allocation.
type raftEntry struct {
	raftpb.Entry
	kind  raftpb.EntryType
	term  uint64
	index uint64
}

// raftMessage is a message with the values that it points to, in one allocation.
type raftMessage struct {
	raftpb.Message
	kind     raftpb.MessageType
	reject   bool
	from, to uint64
	numbers  [5]uint64
	used     int
}

// number is one of the message's numbers; of a message that is written, b is nil. Absent ones are zero.
func (b *raftMessage) number(c *wire.Codec, n **uint64) {
	if b != nil {
		*n = &b.numbers[b.used]
		b.used++
		c.Uint(*n, math.MaxUint64)
		return
	}
	var v uint64
	if *n != nil {
		v = **n
	}
	c.Uint(&v, math.MaxUint64)
}

// Urgent reports whether the frame must not wait behind lock traffic (P16).
func (f *Frame) Urgent() bool {
	switch f.Message.GetType() {
	case raftpb.MsgApp, raftpb.MsgAppResp:
		return false
	case raftpb.MsgTimeoutNow:
		return string(f.Message.Context) != behind
	}
	return true
}

// behind marks the message by which a late leader tells a voter to stand for election: it must not overtake what was appended. With a
// shorter log than the others that voter would not be elected (P22).
const behind = "behind appends"
