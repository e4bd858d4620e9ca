package gossip

import (
	"fmt"
	"math"

	"github.com/lockmesh/mesh/internal/wire"
)

// frameKind is the first element of a frame. Append only: it is the wire form.
type frameKind uint8

const (
	framePacket frameKind = iota // [0, data]
	frameOpen                    // [1, stream]
	frameData                    // [2, stream, opener, offset, data]
	frameWindow                  // [3, stream, opener, offset]
	frameClose                   // [4, stream, opener]
	frameLeave                   // [5]
)

// Limits of what a frame may carry.
const (
	maxPacket = 4 << 10  // memberlist makes packets of up to 1,400 bytes
	maxData   = 16 << 10 // of a stream in one frame
)

// frame is one message between the gossip of two nodes. A stream is named by the
// number that its opener gave it, and by who that is.
type frame struct {
	kind   frameKind
	stream uint64
	opener bool   // the sender opened the stream
	offset uint64 // in the stream: where data belongs; how far the other end may send
	data   []byte
}

func (f frame) String() string {
	return fmt.Sprintf("{kind %d, stream %d, opener %t, offset %d, %d bytes}", f.kind, f.stream, f.opener, f.offset, len(f.data))
}

func appendFrame(b []byte, f frame) []byte {
	fields := [...]int{framePacket: 2, frameOpen: 2, frameData: 5, frameWindow: 4, frameClose: 3, frameLeave: 1}
	b = wire.AppendArray(b, fields[f.kind])
	b = wire.AppendUint(b, uint64(f.kind))
	if f.kind == frameLeave {
		return b
	}
	if f.kind != framePacket {
		b = wire.AppendUint(b, f.stream)
		if f.kind != frameOpen {
			b = wire.AppendBool(b, f.opener)
		}
	}
	if f.kind == frameData || f.kind == frameWindow {
		b = wire.AppendUint(b, f.offset)
	}
	if f.kind == framePacket || f.kind == frameData {
		b = wire.AppendBytes(b, f.data)
	}
	return b
}

// readFrame reads one frame that fills b. Its data is part of b.
func readFrame(b []byte) (frame, error) {
	r := wire.NewReader(b)
	fields := r.Array(5)
	f := frame{kind: frameKind(r.Uint(uint64(frameLeave)))}
	want, limit := 0, maxData
	switch f.kind {
	case framePacket:
		want, limit = 2, maxPacket
		f.data = r.Bytes(limit)
	case frameOpen:
		want = 2
		f.stream, f.opener = r.Uint(math.MaxUint64), true
	case frameData:
		want = 5
		f.stream, f.opener = r.Uint(math.MaxUint64), r.Bool()
		f.offset = r.Uint(math.MaxInt64)
		f.data = r.Bytes(limit)
	case frameWindow:
		want = 4
		f.stream, f.opener = r.Uint(math.MaxUint64), r.Bool()
		f.offset = r.Uint(math.MaxInt64)
	case frameClose:
		want = 3
		f.stream, f.opener = r.Uint(math.MaxUint64), r.Bool()
	case frameLeave:
		want = 1
	}
	if r.Err() == nil && fields != want {
		r.Fail("wrong number of fields")
	}
	if r.Err() == nil && len(f.data) == 0 && (f.kind == framePacket || f.kind == frameData) {
		r.Fail("no data")
	}
	if err := r.End(); err != nil {
		return frame{}, err
	}
	return f, nil
}
