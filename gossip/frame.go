package gossip

import (
	"fmt"
	"math"

	"github.com/lockmesh/mesh/internal/wire"
)

// frameKind is the first element of a frame. Append only: it is the wire form.
type frameKind uint8

const (
	framePacket frameKind = iota
	frameOpen
	frameData
	frameWindow
	frameClose
	frameLeave
)

// Limits of what a frame may carry.
const (
	maxPacket = 4 << 10  // memberlist makes packets of up to 1,400 bytes
	maxData   = 16 << 10 // of a stream in one frame
)

// frame is one gossip message between two nodes. A stream is identified by the node
// that opened it, and by the number that this node gave it.
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

// Fields is the frame's wire form: an array of its kind and the fields of that kind.
func (f *frame) Fields(c *wire.Codec) {
	t := c.Begin()
	wire.Number(c, &f.kind, uint64(frameLeave))
	switch f.kind {
	case framePacket:
		f.content(c, maxPacket)
	case frameOpen:
		c.Uint(&f.stream, math.MaxUint64)
		f.opener = f.opener || c.Reads()
	case frameData, frameWindow, frameClose:
		c.Uint(&f.stream, math.MaxUint64)
		if c.Bool(&f.opener); f.kind == frameClose {
			break
		}
		if c.Uint(&f.offset, math.MaxInt64); f.kind == frameData {
			f.content(c, maxData)
		}
	}
	c.End(t)
}

func (f *frame) content(c *wire.Codec, limit int) {
	c.Bytes(&f.data, limit)
	c.Check(len(f.data) > 0, "no data")
}

func appendFrame(b []byte, f frame) []byte {
	c := wire.Writing(b)
	f.Fields(&c)
	return c.Written()
}

// readFrame reads one frame that fills b. Its data is part of b.
func readFrame(b []byte) (frame, error) {
	var f frame
	c := wire.Reading(wire.NewReader(b))
	f.Fields(&c)
	if err := c.Reader.End(); err != nil {
		return frame{}, err
	}
	return f, nil
}
