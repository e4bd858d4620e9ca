package replica

import (
	"bytes"
	"fmt"
	"math"

	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"

	"github.com/lockmesh/mesh/internal/wire"
)

// Frame is one raft message on its way between two replicas of a shard (P23).
type Frame struct {
	Generation uint64
	From, To   uint64 // replica IDs
	Message    *raftpb.Message
}

// The wire numbers of raft messages. The four that every lock costs have a form of
// their own; the rest travel as protobuf.
const (
	wireAppend = iota + 1
	wireAppendResp
	wireHeartbeat
	wireHeartbeatResp
	wireProtobuf
)

const (
	maxEntries   = 1 << 14 // of one append
	maxEntry     = 1 << 19 // bytes of one entry
	maxRaftOther = 1 << 16 // bytes of a message in protobuf
	roundSize    = 8       // bytes of a ReadIndex round's number
)

// wireNumber is the wire number of a kind of raft messages.
func wireNumber(kind raftpb.MessageType) uint64 {
	switch kind {
	case raftpb.MsgApp:
		return wireAppend
	case raftpb.MsgAppResp:
		return wireAppendResp
	case raftpb.MsgHeartbeat:
		return wireHeartbeat
	case raftpb.MsgHeartbeatResp:
		return wireHeartbeatResp
	}
	return wireProtobuf
}

// Fields is the frame's wire form, five elements, the last of them the message. Entries that
// are read live as long as the log, and none of them keeps much more memory than its own from
// being freed: see lasting.
func (f *Frame) Fields(c *wire.Codec) {
	c.Uint(&f.Generation, math.MaxUint64)
	ReplicaID(c, &f.From)
	ReplicaID(c, &f.To)
	c.Check(f.From != f.To, "a replica's message to itself")
	var b *raftMessage
	if c.Reads() {
		b = &raftMessage{from: f.From, to: f.To}
		b.Message.From, b.Message.To = &b.from, &b.to
		f.Message = &b.Message
	}
	m := f.Message
	number := wireNumber(m.GetType())
	c.Uint(&number, wireProtobuf)
	switch number {
	case wireAppend:
		b.is(raftpb.MsgApp)
		t := c.Begin()
		b.number(c, &m.Term)
		b.number(c, &m.LogTerm)
		b.number(c, &m.Index)
		b.number(c, &m.Commit)
		entries(c, m)
		c.End(t)
	case wireAppendResp:
		b.is(raftpb.MsgAppResp)
		t := c.Begin()
		b.number(c, &m.Term)
		b.number(c, &m.Index)
		reject := m.GetReject()
		if c.Bool(&reject); reject && c.Reads() {
			m.Reject = proto.Bool(true)
		}
		b.number(c, &m.RejectHint)
		b.number(c, &m.LogTerm)
		c.End(t)
	case wireHeartbeat:
		b.is(raftpb.MsgHeartbeat)
		t := c.Begin()
		b.number(c, &m.Term)
		b.number(c, &m.Commit)
		roundNumber(c, &m.Context)
		c.End(t)
	case wireHeartbeatResp:
		b.is(raftpb.MsgHeartbeatResp)
		t := c.Begin()
		b.number(c, &m.Term)
		roundNumber(c, &m.Context)
		c.End(t)
	case wireProtobuf:
		f.protobuf(c)
	default:
		c.Fail("unknown raft message")
	}
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

// protobuf is a message that has no form of its own.
func (f *Frame) protobuf(c *wire.Codec) {
	var data []byte
	if !c.Reads() {
		var err error
		if data, err = (proto.MarshalOptions{Deterministic: true}).Marshal(f.Message); err != nil {
			panic(fmt.Sprintf("replica: raft message %v: %v", f.Message.GetType(), err))
		}
	}
	if c.Bytes(&data, maxRaftOther); !c.Reads() || c.Err() != nil {
		return
	}
	m := f.Message
	if err := proto.Unmarshal(data, m); err != nil {
		c.Fail("raft message: " + err.Error())
		return
	}
	c.Check(m.GetFrom() == f.From && m.GetTo() == f.To, "a raft message whose sender or receiver is not that of its frame")
	switch m.GetType() {
	case raftpb.MsgVote, raftpb.MsgVoteResp, raftpb.MsgPreVote, raftpb.MsgPreVoteResp, raftpb.MsgTimeoutNow:
		c.Check(m.GetTerm() != 0, "a vote without a term")
	case raftpb.MsgProp, raftpb.MsgReadIndex, raftpb.MsgReadIndexResp: // dropped by Step (P3)
	default:
		c.Fail(fmt.Sprintf("a raft message %v from a peer", m.GetType())) // snapshots come in chunks
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

// roundNumber is the number of the last ReadIndex round that a heartbeat is for, if it is for any.
// Raft panics on one that is too short.
func roundNumber(c *wire.Codec, n *[]byte) {
	c.Bytes(n, roundSize)
	c.Check(len(*n) == 0 || len(*n) == roundSize, "part of a round's number")
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

// raftMessage is a message with the numbers that it points to, in one allocation.
type raftMessage struct {
	raftpb.Message
	kind     raftpb.MessageType
	from, to uint64
	numbers  [4]uint64
	used     int
}

// is notes the kind of a message that is read; of one that is written, b is nil.
func (b *raftMessage) is(kind raftpb.MessageType) {
	if b != nil {
		b.kind, b.Type = kind, &b.kind
	}
}

// number is one of the message's numbers. Absent ones are zero.
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
	}
	return true
}
