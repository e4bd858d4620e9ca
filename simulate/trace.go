package simulate

import (
	"encoding/binary"

	"github.com/cespare/xxhash/v2"
)

// trace is a running hash of everything that happened.
type trace struct {
	digest *xxhash.Digest
	events uint64
	buf    [41]byte
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
}
