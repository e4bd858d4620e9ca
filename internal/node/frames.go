package node

import (
	"slices"

	"github.com/lockmesh/mesh/internal/message"
	"github.com/lockmesh/mesh/internal/point"
	"github.com/lockmesh/mesh/internal/replica"
	"github.com/lockmesh/mesh/transport"
)

type outKey struct {
	to    uint64
	class transport.Class
}

// letter is a message about a shard.
type letter struct {
	shard int
	message.Message
}

// outFrame is where the messages of one class for one peer gather during a run. Its room is used
// again; what is sent is a copy of the right size.
type outFrame struct {
	outKey
	body   []byte
	queued bool // it is among the loop's frames
}

// maxFrame is the size in bytes above which a frame is sent although the run goes on.
const maxFrame = 512 << 10

// frame returns the frame that gathers for node.
func (l *shardLoop) frame(node uint64, class transport.Class) *outFrame {
	key := outKey{node, class}
	f := l.framed[key]
	if f == nil {
		f = &outFrame{outKey: key}
		l.framed[key] = f
	}
	if !f.queued {
		f.queued = true
		l.frames = append(l.frames, f)
	}
	if len(f.body) > maxFrame || len(f.body) > 0 && l.node.points.Taken(point.SplitFrame) {
		l.send(f)
	}
	if len(f.body) == 0 {
		f.body = message.AppendHeader(f.body, l.core.table.Mesh)
	}
	return f
}

// say sends a message about a shard to a node: in a frame, or to the loop itself, which keeps m until
// it has settled.
func (l *shardLoop) say(node uint64, sh int, m message.Message) {
	if node == l.node.id {
		l.local = append(l.local, letter{sh, m})
		return
	}
	class := transport.Normal
	if urgent(m) {
		class = transport.Urgent
	}
	f := l.frame(node, class)
	f.body = message.Append(f.body, sh, m)
}

// urgent reports whether a message must not wait behind lock traffic (P16).
func urgent(m message.Message) bool {
	switch m := m.(type) {
	case *message.Renewal, *message.Answer:
		return true
	case *message.Forward:
		return urgent(m.Inside)
	case *replica.Frame:
		return m.Urgent()
	}
	return false
}

// keptRoom is the largest room of a frame, in bytes, that is kept for the next frame.
const keptRoom = 16 << 10

func (l *shardLoop) send(f *outFrame) {
	if len(f.body) == 0 {
		return
	}
	l.node.net.Send(transport.ID(f.to), transport.KindShard, f.class, slices.Clone(f.body))
	if cap(f.body) > keptRoom {
		f.body = nil
	}
	f.body = f.body[:0]
}

// flush sends what the run has gathered.
func (l *shardLoop) flush() {
	for _, f := range l.frames {
		l.send(f)
		f.queued = false
	}
	l.frames = l.frames[:0]
}
