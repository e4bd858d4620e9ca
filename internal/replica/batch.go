package replica

import (
	"sync/atomic"

	"github.com/lockmesh/mesh/internal/point"
	"github.com/lockmesh/mesh/shard"
)

const (
	maxBatch = 128 << 10 // bytes of commands in one entry
	maxHeld  = 1 << 20   // bytes of commands that wait to be appended; beyond that no client's is taken
)

// batch is what a leader is about to append, in the order in which it came. While an entry is in
// flight, commands gather for the next one: the log commits in order, so this delays nothing, and
// one entry carries many commands.
type batch struct {
	data     []byte    // commands in their wire form
	clients  []Dropped // whose they are; a leader's own have none
	pieces   []piece   // the first parts of data, each a full entry
	inFlight bool      // an entry is appended and not applied yet
	points   point.Points
	counters *Counters
}

// Counters count what leaders appended. They may be read at any time.
type Counters struct {
	Entries  atomic.Uint64
	Commands atomic.Uint64 // of clients, in the entries
}

// piece is a part of the batch that will be one entry.
type piece struct{ bytes, clients int }

// add takes a client's command.
func (b *batch) add(raw []byte, from Dropped) {
	b.data, b.clients = append(b.data, raw...), append(b.clients, from)
	b.split()
}

// addOwn takes a command of the leader's own.
func (b *batch) addOwn(cmd shard.Command) {
	b.data = shard.AppendCommand(b.data, cmd)
	b.split()
}

// split closes the current entry once it has reached maxBatch, well below the maxEntry that
// followers accept.
func (b *batch) split() {
	rest := piece{len(b.data), len(b.clients)}
	for _, p := range b.pieces {
		rest.bytes, rest.clients = rest.bytes-p.bytes, rest.clients-p.clients
	}
	if rest.bytes >= maxBatch || b.points.Taken(point.SmallEntry) {
		b.pieces = append(b.pieces, rest)
	}
}

// full reports whether no more clients' commands are taken.
func (b *batch) full() bool { return len(b.data) >= maxHeld }

// fits reports whether there is room for so many bytes.
func (b *batch) fits(bytes int) bool { return bytes == 0 || len(b.data)+bytes <= maxHeld }

// fillsEntry reports whether an entry need not gather any more. It is appended at once, so that a
// burst between two Readys is not discarded by full.
func (b *batch) fillsEntry() bool { return len(b.data) >= maxBatch }

// next returns the commands of the next entry: nil while an entry is in flight, unless the next
// one is full.
func (b *batch) next() []byte {
	if len(b.pieces) == 0 && b.inFlight {
		return nil
	}
	return b.data[:b.first().bytes]
}

// pending reports whether there are commands that have not been appended.
func (b *batch) pending() bool { return len(b.data) > 0 }

func (b *batch) first() piece {
	if len(b.pieces) > 0 {
		return b.pieces[0]
	}
	return piece{len(b.data), len(b.clients)}
}

// appended takes out what next returned, which is an entry now.
func (b *batch) appended() {
	p := b.first()
	b.data = append(b.data[:0], b.data[p.bytes:]...)
	b.clients = append(b.clients[:0], b.clients[p.clients:]...)
	b.pieces = b.pieces[min(1, len(b.pieces)):]
	b.inFlight = true
	b.counters.Entries.Add(1)
	b.counters.Commands.Add(uint64(p.clients))
}

// unblock lets the next entry be appended. It is called at each applied entry that has commands,
// and when the one in flight need not be waited for.
func (b *batch) unblock() { b.inFlight = false }

// reset empties the batch at the end of a leadership. It returns whose commands were not appended.
func (b *batch) reset() []Dropped {
	dropped := b.clients
	*b = batch{points: b.points, counters: b.counters}
	return dropped
}
