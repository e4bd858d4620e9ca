package gossip

import (
	"fmt"
	"math"

	"github.com/lockmesh/mesh/internal/wire"
)

// frameKind says what a frame is about. Append only: it is the wire form.
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

	frameFields = 5
	maxFrame    = maxData + 32
)

// frame is one gossip message between two nodes. A stream is identified by the node
// that opened it, and by the number that this node gave it.
type frame struct {
	Kind   frameKind
	Stream uint64
	Opener bool   // the sender opened the stream
	Offset uint64 // in the stream. Of frameData: where Data begins; of frameWindow: up to where the other end may send
	Data   []byte
}

func (f frame) String() string {
	return fmt.Sprintf("{kind %d, stream %d, opener %t, offset %d, %d bytes}", f.Kind, f.Stream, f.Opener, f.Offset, len(f.Data))
}

// readFrame reads one frame that fills b.
func readFrame(b []byte) (frame, error) {
	var f frame
	if err := wire.Unmarshal(b, &f, maxFrame, frameFields); err != nil {
		return frame{}, err
	}
	least, most := 0, 0 // bytes of data
	switch f.Kind {
	case framePacket:
		least, most = 1, maxPacket
	case frameData:
		least, most = 1, maxData
	}
	if n := len(f.Data); f.Kind > frameLeave || f.Offset > math.MaxInt64 || n < least || n > most {
		return frame{}, fmt.Errorf("%w: gossip frame %v", wire.ErrMalformed, f)
	}
	return f, nil
}
