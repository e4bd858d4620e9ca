package replica

import (
	"slices"

	"github.com/lockmesh/mesh/internal/point"
	"github.com/lockmesh/mesh/shard"
)

const (
	maxBatch = 128 << 10 // bytes of commands in one entry
	maxHeld  = 1 << 20   // bytes of clients' commands that wait while leadership moves
)

// batch is what a leader is about to append, in the order in which it came. While an entry is on
// its way the next one gathers: the log commits in order, so nothing is late by that, and one entry
// carries many commands.
type batch struct {
	data    []byte    // commands in their wire form
	clients []Dropped // whose they are; a leader's own have none
	pieces  []piece   // the first parts of data, each as long as an entry gets
	flying  bool      // an entry is appended and not applied yet
	points  *point.Points

	entries, commands uint64 // that were ever appended, and clients' commands in them
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

// split ends an entry if it is as long as one may be: no follower would take a longer one.
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

// fillsEntry reports whether an entry need not gather any more.
func (b *batch) fillsEntry() bool { return len(b.data) >= maxBatch }

// next returns the commands of the next entry; none while the batch gathers.
func (b *batch) next() []byte {
	if len(b.pieces) == 0 && b.flying {
		return nil
	}
	return b.data[:b.first().bytes]
}

// gathers reports whether commands wait for the entry before them.
func (b *batch) gathers() bool { return len(b.data) > 0 }

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
	b.flying = true
	b.entries++
	b.commands += uint64(p.clients)
}

// landed notes that an entry of this leadership is applied, or that the next need not wait for it.
func (b *batch) landed() { b.flying = false }

// empty ends a leadership. It returns whose commands were not appended.
func (b *batch) empty() []Dropped {
	dropped := slices.Clone(b.clients)
	*b = batch{points: b.points, entries: b.entries, commands: b.commands}
	return dropped
}

// totals returns how many entries were appended, and how many clients' commands were in them.
func (b *batch) totals() (entries, commands uint64) { return b.entries, b.commands }
