package simulate

import (
	"encoding/binary"
	"time"

	"github.com/cespare/xxhash/v2"
)

// Checkpoint is the hash of everything that has happened after so many events: one is
// taken every 4096 of them. Two runs that should be equal and are not part between two
// checkpoints.
type Checkpoint struct {
	Events uint64
	Time   time.Duration
	Hash   uint64
}

const checkpointEvery = 4096

// trace is a running hash of everything that happened.
type trace struct {
	digest      *xxhash.Digest
	events      uint64
	checkpoints []Checkpoint
	buf         [41]byte
	kept        *keeper // nil: no event is kept
}

func newTrace() trace { return trace{digest: xxhash.New()} }

// add hashes one event by its typed fields, never by a text.
func (t *trace) add(ev *event, host int, payload, draws uint64) {
	b := t.buf[:0]
	b = binary.LittleEndian.AppendUint64(b, uint64(ev.at))
	b = binary.LittleEndian.AppendUint64(b, ev.seq)
	b = append(b, byte(ev.kind))
	b = binary.LittleEndian.AppendUint64(b, uint64(host))
	b = binary.LittleEndian.AppendUint64(b, payload)
	b = binary.LittleEndian.AppendUint64(b, draws)
	_, _ = t.digest.Write(b)
	t.events++
	if t.kept != nil {
		t.kept.add(t.events, ev, host, payload, draws)
	}
	if t.events%checkpointEvery == 0 {
		t.checkpoints = append(t.checkpoints, Checkpoint{t.events, ev.at, t.digest.Sum64()})
	}
}
