// Package message holds what the nodes of a mesh say to each other about one shard: one type
// for each kind of message, and in its Fields method the list of its fields, from which it is
// written, read and checked. See [Append] and [Reader].
package message

import (
	"math"

	"github.com/lockmesh/mesh/internal/replica"
	"github.com/lockmesh/mesh/internal/wire"
	"github.com/lockmesh/mesh/shard"
)

// Message is one of the types of this package, or, as they are what a shard's replicas say to
// each other: *replica.Frame, *replica.Chunk, *replica.ChunkAck or *replica.Sum.
type Message interface{ wire.Message }

// The numbers of the kinds on the wire. They are for ever: append only.
const (
	kindRaft     = iota + 1 // *replica.Frame
	kindChunk               // *replica.Chunk
	kindChunkAck            // *replica.ChunkAck
	kindHost
	kindRemoved
	kindOffer
	kindAccept
	kindRequest
	kindReply
	kindRedirect
	kindRenewal
	kindAnswer
	kindServing
	kindForward
	kindMissing
	kindDecline
	kindSum  // *replica.Sum
	lastKind = kindSum
)

// MaxForward is the size of the largest message that a Forward may carry.
const MaxForward = 600 << 10

type (
	// Host: create a replica.
	Host struct{ Generation, ID uint64 }

	// Removed: your replica is no longer one. Highest is the largest ID that the sender's
	// table knows.
	Removed struct{ Generation, ID, Highest uint64 }

	// Missing: the replica that you speak to was here, and is no more (P41).
	Missing struct{ Generation, ID uint64 }

	// Decline: give my replica no vote, I leave soon (P32).
	Decline struct{ Generation, ID uint64 }

	// Offer: would you lead? Term is the offering leader's.
	Offer struct{ Term uint64 }

	// Accept: I would lead.
	Accept struct{ Term uint64 }

	// Serving: I lead this shard now.
	Serving struct{ Term uint64 }

	// Request is a client's command, with its wire form.
	Request struct {
		Relay   bool // who gets this passes it on to the leader, once (P15)
		Command shard.Command
		Raw     []byte
	}

	// Reply tells what came of a request, or of an earlier one.
	Reply struct {
		Result
		Office // who tells it
	}

	// Redirect tells a client that its request was not taken here, and who leads, if known.
	Redirect struct {
		Session uint64
		Number  uint64 // of the request; zero: a renewal
		Office         // who leads; zero: unknown
	}

	// Renewal is a client's question whether its session lives.
	Renewal struct {
		Session shard.SessionID
		Ref     uint64
		After   uint64 // the answer shall repeat results from behind this one on (P13)
		Relay   bool   // as in Request
		Orphans []replica.Abandoned
	}

	// Answer is what a confirmed leader tells of a session.
	Answer struct {
		Session  uint64
		Ref      uint64
		Alive    bool
		Revision uint64
		Results  []Result
		More     bool // there are results behind the last of these
		Office        // who tells it
	}

	// Forward: pass this message on to a node that I cannot reach (P15). See NewForward.
	Forward struct {
		To     uint64
		Inside Message // as it was read: a Reply, a Redirect or an Answer, about the same shard
		inner  []byte  // its wire form
	}
)

// Outcome is how a request stands, as a result tells it.
type Outcome uint8

// The outcomes.
const (
	Granted Outcome = iota + 1
	Queued
	Done
	Refused
)

// Result is what a shard's leader tells a client of one request.
type Result struct {
	Session  uint64 // the number; the node is the one that it is sent to
	Number   uint64
	Outcome  Outcome
	Token    uint64 // granted: the grant's; queued and refused: a holder's
	Reason   shard.Reason
	Ahead    int
	Holder   string
	Revision uint64 // of the shard
}

// Office is who speaks when a leader does, and in which term it leads. Another node may pass
// its words on. The zero Office is of nobody: of one who led when what it tells came about.
type Office struct{ Leader, Term uint64 }

// Limits of what a message may carry.
const (
	MaxOrphans = 128 // of a Renewal
	maxResults = 1024
	maxAhead   = 1 << 32
	anyUint    = math.MaxUint64
)

func (m *Host) Fields(c *wire.Codec) {
	c.Uint(&m.Generation, anyUint)
	replica.ReplicaID(c, &m.ID)
}

func (m *Removed) Fields(c *wire.Codec) {
	c.Uint(&m.Generation, anyUint)
	c.Uint(&m.ID, anyUint)
	c.Uint(&m.Highest, anyUint)
}

func (m *Missing) Fields(c *wire.Codec) {
	c.Uint(&m.Generation, anyUint)
	replica.ReplicaID(c, &m.ID)
}

func (m *Decline) Fields(c *wire.Codec) {
	c.Uint(&m.Generation, anyUint)
	replica.ReplicaID(c, &m.ID)
}

func (m *Offer) Fields(c *wire.Codec) { c.Uint(&m.Term, anyUint) }

func (m *Accept) Fields(c *wire.Codec) { c.Uint(&m.Term, anyUint) }

func (m *Serving) Fields(c *wire.Codec) { c.Uint(&m.Term, anyUint) }

func (m *Request) Fields(c *wire.Codec) {
	c.Bool(&m.Relay)
	command(c, &m.Command, &m.Raw)
	if c.Reads() {
		client, _ := shard.ClientOf(m.Command)
		c.Check(client.Node != 0, "not a client's command")
	}
}

// command takes a command that is in its wire form, raw.
func command(c *wire.Codec, cmd *shard.Command, raw *[]byte) {
	if c.Reads() {
		all := c.Rest()
		*cmd = shard.ReadCommand(&c.Reader)
		*raw = all[:len(all)-c.Len()]
	}
	c.Raw(*raw)
}

func (m *Reply) Fields(c *wire.Codec) {
	m.Result.Fields(c)
	m.Office.Fields(c)
}

func (p *Result) Fields(c *wire.Codec) {
	c.Uint(&p.Session, anyUint)
	c.Uint(&p.Number, anyUint)
	wire.Number(c, &p.Outcome, uint64(Refused))
	c.Check(p.Outcome != 0, "a reply without an outcome")
	c.Uint(&p.Token, anyUint)
	wire.Number(c, &p.Reason, math.MaxUint8)
	ahead := p.Ahead + 1
	wire.Number(c, &ahead, maxAhead)
	p.Ahead = ahead - 1
	c.String(&p.Holder, shard.MaxName)
	c.Uint(&p.Revision, anyUint)
}

func (o *Office) Fields(c *wire.Codec) {
	c.Uint(&o.Leader, anyUint)
	c.Uint(&o.Term, anyUint)
}

func (m *Redirect) Fields(c *wire.Codec) {
	c.Uint(&m.Session, anyUint)
	c.Uint(&m.Number, anyUint)
	m.Office.Fields(c)
}

func (m *Renewal) Fields(c *wire.Codec) {
	m.Session.Fields(c)
	c.Check(m.Session.Node != 0, "a renewal of nobody's")
	c.Uint(&m.Ref, anyUint)
	c.Uint(&m.After, anyUint)
	c.Bool(&m.Relay)
	if n := c.Array(len(m.Orphans), MaxOrphans); c.Reads() && n > 0 {
		m.Orphans = make([]replica.Abandoned, n)
	}
	for i := range m.Orphans {
		o := &m.Orphans[i]
		if command(c, &o.Command, &o.Raw); !c.Reads() {
			continue
		}
		switch client, _ := shard.ClientOf(o.Command); o.Command.(type) {
		case shard.Cancel, shard.Release, shard.Close:
			c.Check(client == m.Session, "a renewal that names another session's command")
		default:
			c.Fail("a renewal that names what cannot be abandoned")
		}
	}
}

func (m *Answer) Fields(c *wire.Codec) {
	c.Uint(&m.Session, anyUint)
	c.Uint(&m.Ref, anyUint)
	c.Bool(&m.Alive)
	c.Uint(&m.Revision, anyUint)
	if n := c.Array(len(m.Results), maxResults); c.Reads() && n > 0 {
		m.Results = make([]Result, n)
	}
	for i := range m.Results {
		t := c.Begin()
		m.Results[i].Fields(c)
		c.End(t)
	}
	c.Bool(&m.More)
	m.Office.Fields(c)
}

// NewForward returns the Forward that brings m, about a shard, to the node to.
func NewForward(to uint64, sh int, m Message) *Forward {
	return &Forward{To: to, inner: Append(nil, sh, m)}
}

// Fields does not read what is inside: a Reader does.
func (m *Forward) Fields(c *wire.Codec) {
	c.Uint(&m.To, anyUint)
	c.Bytes(&m.inner, MaxForward)
}
