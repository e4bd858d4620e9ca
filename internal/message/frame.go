package message

import (
	"fmt"

	"github.com/lockmesh/mesh/internal/replica"
	"github.com/lockmesh/mesh/internal/wire"
)

// AppendHeader appends what a frame begins with, the ID of the mesh. Messages follow it, one
// after another.
func AppendHeader(b []byte, mesh uint64) []byte {
	c := wire.Writing(b)
	c.Uint(&mesh, anyUint)
	return c.Written()
}

// ReadHeader reads what a frame begins with.
func ReadHeader(frame []byte) (mesh uint64, err error) {
	c := wire.Reading(wire.NewReader(frame))
	c.Uint(&mesh, anyUint)
	return mesh, c.Err()
}

// Append appends a message about a shard: an array of its kind, the shard, and its fields.
func Append(b []byte, sh int, m Message) []byte {
	c := wire.Writing(b)
	t := c.Begin()
	head := func(kind uint64) *wire.Codec {
		c.Uint(&kind, lastKind)
		wire.Number(&c, &sh, anyUint)
		return &c
	}
	// Each type is called by its name: through the interface, m and c would have to be
	// allocated.
	switch m := m.(type) {
	case *replica.Frame:
		m.Fields(head(kindRaft))
	case *replica.Chunk:
		m.Fields(head(kindChunk))
	case *replica.ChunkAck:
		m.Fields(head(kindChunkAck))
	case *replica.Sum:
		m.Fields(head(kindSum))
	case *Host:
		m.Fields(head(kindHost))
	case *Removed:
		m.Fields(head(kindRemoved))
	case *Offer:
		m.Fields(head(kindOffer))
	case *Accept:
		m.Fields(head(kindAccept))
	case *Request:
		m.Fields(head(kindRequest))
	case *Reply:
		m.Fields(head(kindReply))
	case *Redirect:
		m.Fields(head(kindRedirect))
	case *Renewal:
		m.Fields(head(kindRenewal))
	case *Answer:
		m.Fields(head(kindAnswer))
	case *Serving:
		m.Fields(head(kindServing))
	case *Forward:
		m.Fields(head(kindForward))
	case *Missing:
		m.Fields(head(kindMissing))
	case *Decline:
		m.Fields(head(kindDecline))
	default:
		panic("message: a type without a wire form")
	}
	c.End(t)
	return c.Written()
}

// kinds reads a message of each kind, into one that was read before, or nil. Without a codec
// it only forgets what was in that.
var kinds = [...]func(*wire.Codec, Message) Message{
	kindRaft:     into[replica.Frame],
	kindChunk:    into[replica.Chunk],
	kindChunkAck: into[replica.ChunkAck],
	kindHost:     into[Host],
	kindRemoved:  into[Removed],
	kindOffer:    into[Offer],
	kindAccept:   into[Accept],
	kindRequest:  into[Request],
	kindReply:    into[Reply],
	kindRedirect: into[Redirect],
	kindRenewal:  into[Renewal],
	kindAnswer:   into[Answer],
	kindServing:  into[Serving],
	kindForward:  into[Forward],
	kindMissing:  into[Missing],
	kindDecline:  into[Decline],
	kindSum:      into[replica.Sum],
}

func into[T any, P interface {
	*T
	Message
}](c *wire.Codec, room Message) Message {
	m, ok := room.(P)
	if !ok {
		m = new(T)
	}
	*m = *new(T)
	if c != nil {
		m.Fields(c)
	}
	return m
}

// Reader reads the messages of a frame. The zero Reader is ready for Reset.
//
//	for r.Reset(frame, shards); r.Next(); {
//		… r.Shard, r.Message
//	}
//	if r.Err() != nil { … }
type Reader struct {
	Shard   int
	Message Message // until the next call of Next: see Keep
	codec   wire.Codec
	shards  int
	room    [lastKind + 1]Message // one of each kind: what comes often is not allocated each time
	err     error
}

// Reset makes r read a frame, behind its header. Messages are about shards below the number of
// shards.
func (r *Reader) Reset(frame []byte, shards int) {
	r.shards, r.err, r.codec = shards, nil, wire.Reading(wire.NewReader(frame))
	var mesh uint64
	r.codec.Uint(&mesh, anyUint)
}

// Next reads the next message. It reports false at the end of the frame, or if that is
// malformed: see Err. Then nothing of the frame is kept here.
func (r *Reader) Next() bool {
	if r.codec.Len() > 0 {
		if r.read(); r.codec.Err() == nil {
			return true
		}
	}
	if err := r.codec.Err(); err != nil {
		r.err = err
	}
	r.Message, r.codec = nil, wire.Codec{}
	for kind, m := range r.room {
		if m != nil {
			kinds[kind](nil, m)
		}
	}
	return false
}

// Err returns what was wrong with the frame, once Next has reported false.
func (r *Reader) Err() error { return r.err }

// Keep makes r.Message last.
func (r *Reader) Keep() { clear(r.room[:]) }

func (r *Reader) read() {
	c := &r.codec
	t := c.Begin()
	var kind uint64
	c.Uint(&kind, lastKind)
	wire.Number(c, &r.Shard, uint64(r.shards-1))
	if c.Check(kind != 0, "unknown message"); c.Err() != nil {
		return
	}
	r.Message = kinds[kind](c, r.room[kind])
	r.room[kind] = r.Message
	if f, ok := r.Message.(*Forward); ok {
		r.inside(f)
	}
	c.End(t)
}

// inside reads what a Forward carries: one message, and of a kind that goes from a leader to a
// client, for nothing else is ever relayed back.
func (r *Reader) inside(f *Forward) {
	c := &r.codec
	if c.Err() != nil {
		return
	}
	kind := wire.NewReader(f.inner)
	kind.Array(lastKind)
	switch kind.Uint(lastKind) {
	case kindReply, kindRedirect, kindAnswer:
	default:
		c.Fail("a forward of what is not forwarded")
		return
	}
	in := Reader{shards: r.shards, codec: wire.Reading(wire.NewReader(f.inner))}
	in.read()
	if err := in.codec.Reader.End(); err != nil {
		c.Fail(fmt.Sprintf("inside of a forward: %v", err))
		return
	}
	c.Check(f.To != 0 && in.Shard == r.Shard, "a forward that says something else than what it carries")
	f.Inside = in.Message
}
