// Package message holds the messages that the nodes of a mesh send each other about one shard.
// Each kind of message is a type; its Fields method lists its fields, and writes, reads and
// checks them. See [Append] and [Reader].
package message

import (
	"math"
	"time"

	"github.com/lockmesh/mesh/internal/replica"
	"github.com/lockmesh/mesh/internal/wire"
	"github.com/lockmesh/mesh/shard"
)

// Message is one of the types of this package, or one of package replica.
type Message interface{ wire.Message }

// The numbers of the kinds on the wire. They must not change: append only.
const (
	kindRaft     = iota + 1 // *replica.Frame
	kindChunk               // *replica.Chunk
	kindChunkAck            // *replica.ChunkAck
	kindHost                // *replica.Host
	kindRemoved             // *replica.Removed
	kindOffer               // *replica.Offer
	kindAccept              // *replica.Accept
	kindRequest
	kindReply
	kindRedirect
	kindRenewal
	kindAnswer
	kindServing
	kindForward
	kindMissing // *replica.Missing
	_           // no message any more
	kindSum     // *replica.Sum
	kindQuery
	kindView
	kindObserve
	kindLed
	kindInspect
	kindState
	lastKind = kindState
)

// maxForward is the size of the largest message that a Forward may carry.
const maxForward = 600 << 10

type (
	// Serving says that the sender leads this shard now.
	Serving struct{ Generation, Term uint64 }

	// Request is a client's command, with its wire form. It is for one life of the shard, and is refused
	// in every other (C8).
	Request struct {
		Generation uint64
		Relay      bool // the receiver shall pass the request on to the leader, once (P15)
		Command    shard.Command
		Raw        []byte
	}

	// Reply carries the event that answers a request, or answered an earlier one. The session's node
	// is the receiver.
	Reply struct {
		shard.Event
		Revision   uint64 // of the shard
		Leadership        // of the leader that replies
	}

	// Redirect tells a client that its request or question was not accepted here, and which node leads,
	// if known.
	Redirect struct {
		Session    uint64 // zero: it was a question
		Number     uint64 // of the request, or the Ref of the question; zero: a renewal
		Leadership        // of the current leader; Leader zero: unknown
	}

	// Renewal is a client's question whether its session is alive.
	Renewal struct {
		replica.Renewal
		Generation uint64 // as in Request
		Relay      bool   // as in Request
	}

	// Answer is a confirmed leader's answer to a Renewal. The session's node is the receiver.
	Answer struct {
		replica.Answer
		Leadership // of the leader that answers
	}

	// Query is a client's question who uses a resource.
	Query struct {
		replica.Query
		Generation uint64 // as in Request
		Relay      bool   // as in Request
	}

	// View is a confirmed leader's answer to a Query. Node is not sent: it is the receiver.
	View struct {
		replica.View
		Leadership // of the leader that answers
	}

	// Observe is a client's question who leads an election, and its wish to be told of changes.
	Observe struct {
		replica.Observe
		Generation uint64 // as in Request
		Relay      bool   // as in Request
	}

	// Led is what a leader says of an election. Node is not sent: it is the receiver.
	Led struct {
		replica.Led
		Leadership // of the shard's leader, which says it
	}

	// Inspect is a client's question what is known of keys.
	Inspect struct {
		replica.Inspect
		Generation uint64 // as in Request
		Relay      bool   // as in Request
	}

	// State is a confirmed leader's answer to an Inspect. Node is not sent: it is the receiver.
	State struct {
		replica.State
		Leadership // of the leader that answers
	}

	// Forward asks a node to pass a message on to another node, which the sender cannot
	// reach (P15). See NewForward.
	Forward struct {
		To     uint64
		Inside Message // a Reply, a Redirect, an Answer, a View, a Led or a State, about the same shard
		inner  []byte  // its wire form
	}
)

// Leadership names a shard's leader and its term, in one generation of the shard. In a Reply or an Answer it
// is the leader from which the message comes, whichever node passed it on; Leader zero: a former leader,
// about an event of its term.
//
// Limit is for how long a lease may last from now on, as the leader knows; zero: as long as it is asked for (C5).
type Leadership struct {
	Generation, Leader, Term uint64
	Limit                    time.Duration
}

// Limits of what a message may carry.
const (
	MaxAbandoned = 128 // of a Renewal
	maxResults   = 1024
	maxRefs      = 4096
	maxAhead     = 1 << 32
	anyUint      = math.MaxUint64
)

func (m *Serving) Fields(c *wire.Codec) {
	c.Uint(&m.Generation, anyUint)
	c.Uint(&m.Term, anyUint)
}

func (m *Request) Fields(c *wire.Codec) {
	c.Uint(&m.Generation, anyUint)
	c.Bool(&m.Relay)
	command(c, &m.Command, &m.Raw)
	if c.Reads() {
		client, _ := shard.ClientOf(m.Command)
		c.Check(client.Node != 0, "not a client's command")
	}
}

// command writes or reads a command; raw is its wire form.
func command(c *wire.Codec, cmd *shard.Command, raw *[]byte) {
	if c.Reads() {
		all := c.Rest()
		*cmd = shard.ReadCommand(&c.Reader)
		*raw = all[:len(all)-c.Len()]
	}
	c.Raw(*raw)
}

func (m *Reply) Fields(c *wire.Codec) {
	event(c, &m.Event)
	c.Uint(&m.Revision, anyUint)
	m.Leadership.Fields(c)
}

// event writes or reads an event that answers a command.
func event(c *wire.Codec, e *shard.Event) {
	c.Uint(&e.Session.Number, anyUint)
	c.Uint(&e.Number, anyUint)
	wire.Number(c, &e.What, uint64(shard.Skipped))
	c.Check(e.What != 0, "a reply without an outcome")
	c.Uint(&e.Token, anyUint)
	wire.Number(c, &e.Reason, math.MaxUint8)
	ahead := e.Ahead + 1
	wire.Number(c, &ahead, maxAhead)
	e.Ahead = ahead - 1
	c.String(&e.Holder, shard.MaxName)
	c.Uint(&e.Entered, anyUint)
	wire.Number(c, &e.Quiet, uint64(shard.MaxDuration))
	wire.Number(c, &e.Capacity, shard.MaxWeight)
}

// Fields is a list of its own: a Reply has no room for all of it.
func (o *Leadership) Fields(c *wire.Codec) {
	t := c.Begin()
	c.Uint(&o.Generation, anyUint)
	c.Uint(&o.Leader, anyUint)
	c.Uint(&o.Term, anyUint)
	wire.Number(c, &o.Limit, uint64(shard.MaxDuration))
	c.End(t)
}

func (m *Redirect) Fields(c *wire.Codec) {
	c.Uint(&m.Session, anyUint)
	c.Uint(&m.Number, anyUint)
	m.Leadership.Fields(c)
}

func (m *Renewal) Fields(c *wire.Codec) {
	m.Session.Fields(c)
	c.Check(m.Session.Node != 0, "a renewal without a session")
	c.Uint(&m.Ref, anyUint)
	c.Uint(&m.After, anyUint)
	c.Uint(&m.Generation, anyUint)
	c.Bool(&m.Relay)
	for i := range wire.List(c, &m.Abandoned, MaxAbandoned) {
		o := &m.Abandoned[i]
		if command(c, &o.Command, &o.Raw); !c.Reads() {
			continue
		}
		switch client, _ := shard.ClientOf(o.Command); o.Command.(type) {
		case shard.Cancel, shard.Release, shard.End, shard.Drop, shard.Close, shard.Downgrade:
			c.Check(client == m.Session, "a renewal that names another session's command")
		default:
			c.Fail("a renewal that names what cannot be abandoned")
		}
	}
}

func (m *Answer) Fields(c *wire.Codec) {
	c.Uint(&m.Session.Number, anyUint)
	c.Uint(&m.Ref, anyUint)
	c.Bool(&m.Alive)
	c.Uint(&m.Revision, anyUint)
	for i := range wire.List(c, &m.Results, maxResults) {
		t := c.Begin()
		event(c, &m.Results[i])
		c.End(t)
	}
	c.Bool(&m.More)
	for i := range wire.List(c, &m.Broken, shard.MaxBroken) {
		m.Broken[i].Fields(c)
	}
	m.Leadership.Fields(c)
}

func (m *Query) Fields(c *wire.Codec) {
	c.Uint(&m.Node, anyUint)
	c.Check(m.Node != 0, "a query of nobody")
	c.Uint(&m.Ref, anyUint)
	c.String(&m.Key, shard.MaxKey)
	c.Check(m.Key != "", "a query without a key")
	c.Uint(&m.After, anyUint)
	c.Uint(&m.Generation, anyUint)
	c.Bool(&m.Relay)
}

func (m *View) Fields(c *wire.Codec) {
	c.Uint(&m.Ref, anyUint)
	c.Uint(&m.Revision, anyUint)
	for i := range wire.List(c, &m.Refs, maxRefs) {
		m.Refs[i].Fields(c)
	}
	c.Bool(&m.More)
	m.Leadership.Fields(c)
}

func (m *Observe) Fields(c *wire.Codec) {
	c.Uint(&m.Node, anyUint)
	c.Check(m.Node != 0, "a question of nobody")
	c.Uint(&m.Ref, anyUint)
	c.String(&m.Key, shard.MaxKey)
	c.Check(m.Key != "", "a question without a key")
	wire.Number(c, &m.For, uint64(shard.MaxDuration))
	c.Uint(&m.Generation, anyUint)
	c.Bool(&m.Relay)
}

func (m *Led) Fields(c *wire.Codec) {
	c.Uint(&m.Ref, anyUint)
	c.String(&m.Key, shard.MaxKey)
	c.Check(m.Key != "", "an election without a key")
	c.Uint(&m.Revision, anyUint)
	t := c.Begin()
	c.Uint(&m.Token, anyUint)
	c.Uint(&m.Sequence, anyUint)
	c.Bytes(&m.Value, shard.MaxValue)
	c.String(&m.Name, shard.MaxName)
	c.Bool(&m.Quiet)
	c.Check(m.Token != 0 || m.Sequence == 0 && len(m.Value) == 0 && m.Name == "", "what nobody has proclaimed")
	c.End(t)
	m.Leadership.Fields(c)
}

func (m *Inspect) Fields(c *wire.Codec) {
	c.Uint(&m.Node, anyUint)
	c.Check(m.Node != 0, "an inspection by nobody")
	c.Uint(&m.Ref, anyUint)
	m.Inspection.Fields(c)
	c.Uint(&m.Generation, anyUint)
	c.Bool(&m.Relay)
}

func (m *State) Fields(c *wire.Codec) {
	c.Uint(&m.Ref, anyUint)
	c.Uint(&m.Revision, anyUint)
	m.Page.Fields(c)
	m.Leadership.Fields(c)
}

// NewForward returns a Forward that carries m, about a shard, to the node to.
func NewForward(to uint64, sh int, m Message) *Forward {
	return &Forward{To: to, Inside: m, inner: Append(nil, sh, m)}
}

// Fields does not read the message inside: a Reader does.
func (m *Forward) Fields(c *wire.Codec) {
	c.Uint(&m.To, anyUint)
	c.Bytes(&m.inner, maxForward)
}
