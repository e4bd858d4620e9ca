package message

import (
	"fmt"

	"github.com/lockmesh/mesh/internal/replica"
	"github.com/lockmesh/mesh/internal/wire"
)

// AppendHeader appends the header of a frame, the ID of the mesh. Messages follow it, one
// after another.
func AppendHeader(b []byte, mesh uint64) []byte {
	c := wire.Writing(b)
	c.Uint(&mesh, anyUint)
	return c.Written()
}

// ReadHeader reads the header of a frame.
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
	// Each type's method is called directly: a call through the interface would make m and
	// c escape to the heap.
	switch m := m.(type) {
	case *replica.Frame:
		m.Fields(head(kindRaft))
	case *replica.Chunk:
		m.Fields(head(kindChunk))
	case *replica.ChunkAck:
		m.Fields(head(kindChunkAck))
	case *replica.Sum:
		m.Fields(head(kindSum))
	case *replica.Host:
		m.Fields(head(kindHost))
	case *replica.Removed:
		m.Fields(head(kindRemoved))
	case *replica.Offer:
		m.Fields(head(kindOffer))
	case *replica.Accept:
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
	case *Query:
		m.Fields(head(kindQuery))
	case *View:
		m.Fields(head(kindView))
	case *Observe:
		m.Fields(head(kindObserve))
	case *Led:
		m.Fields(head(kindLed))
	case *Inspect:
		m.Fields(head(kindInspect))
	case *State:
		m.Fields(head(kindState))
	case *Forward:
		m.Fields(head(kindForward))
	case *replica.Missing:
		m.Fields(head(kindMissing))
	default:
		panic("message: this type has no wire form")
	}
	c.End(t)
	return c.Written()
}

// kinds has, for each kind, the function that reads a message of that kind. It reads into
// room, an earlier message of the kind, or into a new one if room is nil. With a nil codec it
// only clears room.
var kinds = [...]func(*wire.Codec, Message) Message{
	kindRaft:     into[replica.Frame],
	kindChunk:    into[replica.Chunk],
	kindChunkAck: into[replica.ChunkAck],
	kindHost:     into[replica.Host],
	kindRemoved:  into[replica.Removed],
	kindOffer:    into[replica.Offer],
	kindAccept:   into[replica.Accept],
	kindRequest:  into[Request],
	kindReply:    into[Reply],
	kindRedirect: into[Redirect],
	kindRenewal:  into[Renewal],
	kindAnswer:   into[Answer],
	kindServing:  into[Serving],
	kindForward:  into[Forward],
	kindMissing:  into[replica.Missing],
	kindSum:      into[replica.Sum],
	kindQuery:    into[Query],
	kindView:     into[View],
	kindObserve:  into[Observe],
	kindLed:      into[Led],
	kindInspect:  into[Inspect],
	kindState:    into[State],
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
	room    [lastKind + 1]Message // one of each kind, reused so that frequent ones cost no allocation
	err     error
}

// Reset makes r read the messages of a frame. Their shard numbers must be below shards.
func (r *Reader) Reset(frame []byte, shards int) {
	r.shards, r.err, r.codec = shards, nil, wire.Reading(wire.NewReader(frame))
	var mesh uint64
	r.codec.Uint(&mesh, anyUint)
}

// Next reads the next message. It returns false at the end of the frame, or if the frame is
// malformed: see Err. Then r keeps nothing of the frame.
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

// Err returns the error for a malformed frame, or nil, once Next has returned false.
func (r *Reader) Err() error { return r.err }

// Keep makes r.Message stay valid after the next call of Next.
func (r *Reader) Keep() { clear(r.room[:]) }

func (r *Reader) read() {
	c := &r.codec
	t := c.Begin()
	var kind uint64
	c.Uint(&kind, lastKind)
	wire.Number(c, &r.Shard, uint64(r.shards-1))
	if c.Check(kind <= lastKind && kinds[kind] != nil, "unknown message"); c.Err() != nil {
		return
	}
	r.Message = kinds[kind](c, r.room[kind])
	r.room[kind] = r.Message
	if f, ok := r.Message.(*Forward); ok {
		r.inside(f)
	}
	c.End(t)
}

// inside reads the one message that a Forward carries. Only what replicas answer to a client, or tell it of an
// election, is accepted: nothing else is relayed back.
func (r *Reader) inside(f *Forward) {
	c := &r.codec
	if c.Err() != nil {
		return
	}
	kind := wire.NewReader(f.inner)
	kind.Array(lastKind)
	switch kind.Uint(lastKind) {
	case kindReply, kindRedirect, kindAnswer, kindView, kindLed, kindState:
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
