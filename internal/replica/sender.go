package replica

import (
	"math"
	"time"

	"github.com/lockmesh/mesh/internal/wire"
	"github.com/lockmesh/mesh/shard"
)

const (
	chunkBytes  = 16 << 10 // of a snapshot's chunk: an eighth of a second at 1 Mbit/s
	chunkWindow = 64       // chunks on their way without an ack, at most
	resendAfter = 10 * TickInterval
	giveUpAfter = 4 * ElectionTimeout // without progress; or after four of the longest gaps between acks
	longestGap  = 7500 * time.Millisecond
)

// Chunk is a part of a snapshot on its way to a replica. The last one carries Meta:
// the raft message that the snapshot belongs to and the shard's replicas.
type Chunk struct {
	Generation uint64
	From, To   uint64
	Transfer   uint64
	Number     uint64 // from zero
	Data       []byte
	Meta       []byte
}

// snapshotMeta is what a snapshot's last chunk carries beside its data.
type snapshotMeta struct {
	message []byte // raft's, in protobuf
	history
}

// Fields is its wire form, an array.
func (m *snapshotMeta) Fields(c *wire.Codec) {
	t := c.Begin()
	c.Bytes(&m.message, maxRaftMessage)
	m.homes.Fields(c)
	c.Uint(&m.highest, math.MaxUint64)
	c.Uint(&m.founders, math.MaxUint64)
	c.End(t)
}

// ChunkAck says how many chunks of a transfer arrived in order.
type ChunkAck struct {
	Generation uint64
	From, To   uint64
	Transfer   uint64
	Next       uint64
}

// sender sends a snapshot to one replica at a time, chunk by chunk, while the table goes on. It is
// told of acks and ticks.
type sender struct {
	transfer *transfer // under way, or nil
	sends    []Send    // chunks to be sent, also of a transfer that has ended
}

// transfer is a snapshot on its way.
type transfer struct {
	node     uint64
	head     Chunk // what its chunks have in common
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

// begin begins to send a cut of the table to node, in chunks of as many bytes as most and with as many as
// widest on their way. Raft goes on from the entry at index.
func (s *sender) begin(
	now time.Duration, node uint64, head Chunk, cut *shard.Cut, meta []byte, index uint64, most, widest int,
) {
	s.transfer = &transfer{
		node: node, head: head, cut: cut, meta: meta, index: index, most: most, widest: widest,
		window: 1, progress: now, quickest: never, patience: resendAfter,
	}
	s.fill(now)
}

// busy reports whether a snapshot is under way.
func (s *sender) busy() bool { return s.transfer != nil }

// to returns the replica that gets the snapshot under way, zero if there is none.
func (s *sender) to() uint64 {
	if s.transfer == nil {
		return 0
	}
	return s.transfer.head.To
}

// got returns how many bytes of that have arrived.
func (s *sender) got() int {
	if s.transfer == nil {
		return 0
	}
	return s.transfer.got
}

// index returns the entry behind which the log must not be cut for it.
func (s *sender) index() uint64 { return s.transfer.index }

// fill sends chunks as far as the window allows.
func (s *sender) fill(now time.Duration) {
	t := s.transfer
	for t.away < t.window && (t.away < len(t.flight) || !t.cutDone) {
		if t.away < len(t.flight) {
			t.flight[t.away].again = true
		} else {
			c := t.head
			c.Number = t.next
			c.Data, t.cutDone = t.cut.Next(t.most)
			if t.cutDone {
				c.Meta = t.meta
			}
			t.next++
			t.flight = append(t.flight, flying{Chunk: c, first: now})
		}
		c := t.flight[t.away].Chunk
		s.sends = append(s.sends, Send{t.node, &c})
		t.away++
		t.sent = now
	}
}

// expects reports whether an ack is for the transfer that is under way.
func (s *sender) expects(a ChunkAck) bool {
	t := s.transfer
	return t != nil && a.Generation == t.head.Generation && a.To == t.head.From && a.From == t.head.To && a.Transfer == t.head.Transfer
}

// ack handles what the receiver says of how far it is, and reports whether it has all. With each chunk
// that took less than twice as long as the quickest, one more may be on its way: a narrow link is
// filled, and what else is to be said to the receiver does not wait behind a megabyte.
func (s *sender) ack(now time.Duration, a ChunkAck) (done bool) {
	t := s.transfer
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
		return true
	}
	s.fill(now)
	return false
}

// overdue reports whether the receiver has said nothing new for so long that it is given up.
func (s *sender) overdue(now time.Duration) bool {
	t := s.transfer
	return now-t.progress >= max(giveUpAfter, 4*min(t.gap, longestGap))
}

// resend sends again what the receiver has not confirmed in time, and reports whether there is
// such. It takes chunks in their order alone: what was sent after a lost one is lost, too.
func (s *sender) resend(now time.Duration) bool {
	t := s.transfer
	if now-t.sent < t.patience || now-t.progress < t.patience {
		return false
	}
	t.window, t.away = 1, 0
	t.patience *= 2
	s.fill(now)
	return true
}

// end ends the transfer.
func (s *sender) end() {
	s.transfer.cut.Stop()
	s.transfer = nil
}

// Fields is the chunk's wire form, seven elements.
func (k *Chunk) Fields(c *wire.Codec) {
	c.Uint(&k.Generation, math.MaxUint64)
	c.Uint(&k.From, math.MaxUint64)
	c.Uint(&k.To, math.MaxUint64)
	c.Uint(&k.Transfer, math.MaxUint64)
	c.Uint(&k.Number, math.MaxUint64)
	c.Bytes(&k.Data, chunkBytes)
	c.Bytes(&k.Meta, maxRaftMessage)
}

// Fields is the ack's wire form, five elements.
func (a *ChunkAck) Fields(c *wire.Codec) {
	c.Uint(&a.Generation, math.MaxUint64)
	c.Uint(&a.From, math.MaxUint64)
	c.Uint(&a.To, math.MaxUint64)
	c.Uint(&a.Transfer, math.MaxUint64)
	c.Uint(&a.Next, math.MaxUint64)
}
