package replica

import (
	"bytes"
	"fmt"
	"math"
	"slices"

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

// AppendFrame appends f in its wire form: five fields, the last of them the message.
func AppendFrame(b []byte, f Frame) []byte {
	m := f.Message
	b = wire.AppendUint(b, f.Generation)
	b = wire.AppendUint(b, f.From)
	b = wire.AppendUint(b, f.To)
	switch m.GetType() {
	case raftpb.MsgApp:
		b = wire.AppendUint(b, wireAppend)
		b = wire.AppendUint(wire.AppendArray(b, 5), m.GetTerm())
		b = wire.AppendUint(b, m.GetLogTerm())
		b = wire.AppendUint(b, m.GetIndex())
		b = wire.AppendUint(b, m.GetCommit())
		b = wire.AppendArray(b, 3*len(m.Entries)) // their indices follow from Index
		for _, e := range m.Entries {
			b = wire.AppendUint(b, uint64(e.GetType()))
			b = wire.AppendUint(b, e.GetTerm())
			b = wire.AppendBytes(b, e.Data)
		}
	case raftpb.MsgAppResp:
		b = wire.AppendUint(b, wireAppendResp)
		b = wire.AppendUint(wire.AppendArray(b, 5), m.GetTerm())
		b = wire.AppendUint(b, m.GetIndex())
		b = wire.AppendBool(b, m.GetReject())
		b = wire.AppendUint(b, m.GetRejectHint())
		b = wire.AppendUint(b, m.GetLogTerm())
	case raftpb.MsgHeartbeat:
		b = wire.AppendUint(b, wireHeartbeat)
		b = wire.AppendUint(wire.AppendArray(b, 3), m.GetTerm())
		b = wire.AppendUint(b, m.GetCommit())
		b = wire.AppendBytes(b, m.Context)
	case raftpb.MsgHeartbeatResp:
		b = wire.AppendUint(b, wireHeartbeatResp)
		b = wire.AppendUint(wire.AppendArray(b, 2), m.GetTerm())
		b = wire.AppendBytes(b, m.Context)
	default:
		data, err := proto.MarshalOptions{Deterministic: true}.Marshal(m)
		if err != nil {
			panic(fmt.Sprintf("replica: raft message %v: %v", m.GetType(), err))
		}
		b = wire.AppendUint(b, wireProtobuf)
		b = wire.AppendBytes(b, data)
	}
	return b
}

// FrameFields is how many array elements AppendFrame appends.
const FrameFields = 5

// ReadFrame reads what AppendFrame wrote. Entries live as long as the log, and none of them
// keeps much more memory than its own from being freed: see lasting.
func ReadFrame(r *wire.Reader) Frame {
	f := Frame{Generation: r.Uint(math.MaxUint64), From: ReadID(r), To: ReadID(r)}
	kind := r.Uint(wireProtobuf)
	if f.From == f.To {
		r.Fail("a replica's message to itself")
	}
	b := &raftMessage{from: f.From, to: f.To}
	m := &b.Message
	m.From, m.To = &b.from, &b.to
	f.Message = m
	switch kind {
	case wireAppend:
		r.Tuple(5)
		b.kind, m.Type = raftpb.MsgApp, &b.kind
		m.Term, m.LogTerm, m.Index, m.Commit = b.number(r), b.number(r), b.number(r), b.number(r)
		n := r.Array(3 * maxEntries)
		if n%3 != 0 {
			r.Fail("part of an entry")
		}
		if n > 0 && r.Err() == nil {
			m.Entries = make([]*raftpb.Entry, n/3)
			index := m.GetIndex()
			for part := range slices.Chunk(m.Entries, entryBlock) {
				block := make([]raftEntry, len(part))
				for i := range block {
					e := &block[i]
					index++
					e.kind = raftpb.EntryType(r.Uint(uint64(raftpb.EntryConfChangeV2)))
					e.term = r.Uint(math.MaxUint64)
					e.index = index
					e.Data = lasting(r, r.Bytes(maxEntry))
					e.Type, e.Term, e.Index = &e.kind, &e.term, &e.index
					part[i] = &e.Entry
				}
			}
		}
	case wireAppendResp:
		r.Tuple(5)
		b.kind, m.Type = raftpb.MsgAppResp, &b.kind
		m.Term, m.Index = b.number(r), b.number(r)
		if r.Bool() {
			m.Reject = proto.Bool(true)
		}
		m.RejectHint, m.LogTerm = b.number(r), b.number(r)
	case wireHeartbeat:
		r.Tuple(3)
		b.kind, m.Type = raftpb.MsgHeartbeat, &b.kind
		m.Term, m.Commit, m.Context = b.number(r), b.number(r), readRound(r)
	case wireHeartbeatResp:
		r.Tuple(2)
		b.kind, m.Type = raftpb.MsgHeartbeatResp, &b.kind
		m.Term, m.Context = b.number(r), readRound(r)
	case wireProtobuf:
		data := r.Bytes(maxRaftOther)
		if r.Err() != nil {
			break
		}
		if err := proto.Unmarshal(data, m); err != nil {
			r.Fail("raft message: " + err.Error())
			break
		}
		if m.GetFrom() != f.From || m.GetTo() != f.To {
			r.Fail("a raft message under a false name")
		}
		switch m.GetType() {
		case raftpb.MsgVote, raftpb.MsgVoteResp, raftpb.MsgPreVote, raftpb.MsgPreVoteResp, raftpb.MsgTimeoutNow:
			if m.GetTerm() == 0 {
				r.Fail("a vote without a term")
			}
		case raftpb.MsgProp, raftpb.MsgReadIndex, raftpb.MsgReadIndexResp: // dropped by Step (P3)
		default:
			r.Fail(fmt.Sprintf("a raft message %v from a peer", m.GetType())) // snapshots come in chunks
		}
	default:
		r.Fail("unknown raft message")
	}
	return f
}

// smallFrame is how large a frame may be that any entry keeps in memory.
const smallFrame = 4 << 10

// lasting returns data that r has read, for a log to keep. Out of a frame that is not small, what
// is less than half of it is copied: a few bytes would keep all of it in memory for as long as
// they last themselves. So an entry keeps twice its data, or smallFrame, at most.
func lasting(r *wire.Reader, data []byte) []byte {
	if size := r.Size(); size > smallFrame && 2*len(data) < size {
		return bytes.Clone(data)
	}
	return data
}

// readRound reads the number of the last ReadIndex round that a heartbeat is for, if it is
// for any. Raft panics on one that is too short.
func readRound(r *wire.Reader) []byte {
	round := r.Bytes(roundSize)
	if len(round) != 0 && len(round) != roundSize {
		r.Fail("part of a round's number")
	}
	return round
}

// maxID is the largest ID of a replica: raft keeps those above for itself.
const maxID = raft.LocalApplyThread - 1

// ReadID reads the ID of a replica.
func ReadID(r *wire.Reader) uint64 {
	id := r.Uint(maxID)
	if id == 0 {
		r.Fail("replica zero")
	}
	return id
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

// number reads the message's next number.
func (b *raftMessage) number(r *wire.Reader) *uint64 {
	n := &b.numbers[b.used]
	b.used++
	*n = r.Uint(math.MaxUint64)
	return n
}

// urgent reports whether a raft message must not wait behind lock traffic (P16).
func urgent(m *raftpb.Message) bool {
	switch m.GetType() {
	case raftpb.MsgApp, raftpb.MsgAppResp:
		return false
	}
	return true
}
