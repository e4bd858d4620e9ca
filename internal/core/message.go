package core

import (
	"github.com/lockmesh/mesh/internal/replica"
	"github.com/lockmesh/mesh/internal/wire"
	"github.com/lockmesh/mesh/shard"
)

// A frame between lanes is a header (mesh ID, the sender's number of lanes, the lane)
// and then messages, one after another. Each message is an array: its kind, its shard,
// and fields of its own. The numbers are for ever: append only.
const (
	msgRaft      = iota + 1 // a raft message
	msgChunk                // a part of a snapshot
	msgChunkAck             //
	msgHost                 // create a replica
	msgRemoved              // a replica is no longer one
	msgOffer                // would you lead?
	msgAccept               // I would
	msgRequest              // a client's command
	msgReply                // what came of it, or of an earlier one
	msgRedirect             // not here
	msgRenew                // does this session live?
	msgAnswer               // what a confirmed leader knows of it
	msgServing              // I lead this shard now
	msgForward              // pass this on to a node that I cannot reach (P15)
	msgMissing              // the replica that you speak to was here, and is no more (P41)
	msgDecline              // give my replica no vote: I leave soon (P32)
	msgSum                  // the digest of my replica's table (P41)
	lastMessage  = msgSum
	maxMessage   = 600 << 10 // bytes of one message; an append is the largest
	maxMeshLanes = 1024
)

const anyUint = 1<<64 - 1

func appendMessage(b []byte, kind, sh, fields int) []byte {
	b = wire.AppendArray(b, 2+fields)
	b = wire.AppendUint(b, uint64(kind))
	return wire.AppendUint(b, uint64(sh))
}

// outcome is how a request stands, as a reply tells it.
type outcome uint8

const (
	granted outcome = iota + 1
	queued
	done
	refused
)

// reply is what a shard's leader tells a client of one request.
type reply struct {
	session    uint64 // the number; the node is the one that it is sent to
	number     uint64
	outcome    outcome
	token      uint64 // granted: the grant's; queued and refused: a holder's
	reason     shard.Reason
	ahead      int
	holder     string
	generation uint64
	revision   uint64 // of the shard
}

const replyFields = 9

func appendReply(b []byte, p reply) []byte {
	for _, v := range []uint64{p.session, p.number, uint64(p.outcome), p.token, uint64(p.reason), uint64(p.ahead + 1)} {
		b = wire.AppendUint(b, v)
	}
	b = wire.AppendString(b, p.holder)
	b = wire.AppendUint(b, p.generation)
	return wire.AppendUint(b, p.revision)
}

func readReply(r *wire.Reader) reply {
	p := reply{
		session: r.Uint(anyUint), number: r.Uint(anyUint), outcome: outcome(r.Uint(uint64(refused))), token: r.Uint(anyUint),
		reason: shard.Reason(r.Uint(255)), ahead: int(r.Uint(1<<32)) - 1,
		holder: r.String(shard.MaxName), generation: r.Uint(anyUint), revision: r.Uint(anyUint),
	}
	if p.outcome == 0 {
		r.Fail("a reply without an outcome")
	}
	return p
}

// replyOf turns an event of the table into the reply that tells it, if it is for a client.
func replyOf(e shard.Event) (node uint64, p reply, ok bool) {
	switch e := e.(type) {
	case shard.Granted:
		return e.Session.Node, reply{session: e.Session.Number, number: e.Number, outcome: granted, token: e.Token}, true
	case shard.Queued:
		return e.Session.Node, reply{
			session: e.Session.Number, number: e.Number, outcome: queued,
			ahead: e.Ahead, holder: e.Holder, token: e.Token,
		}, true
	case shard.Done:
		return e.Session.Node, reply{session: e.Session.Number, number: e.Number, outcome: done}, true
	case shard.Refused:
		return e.Session.Node, reply{
			session: e.Session.Number, number: e.Number, outcome: refused, reason: e.Reason,
			holder: e.Holder, token: e.Token,
		}, true
	}
	return 0, reply{}, false
}

// office is who speaks when a leader does, and in which term it leads. Another node may pass
// its words on. The zero office is of nobody: of one who led when what it tells came about.
type office struct{ leader, term uint64 }

const officeFields = 2

func appendOffice(b []byte, o office) []byte {
	return wire.AppendUint(wire.AppendUint(b, o.leader), o.term)
}

func readOffice(r *wire.Reader) office { return office{r.Uint(anyUint), r.Uint(anyUint)} }

// answer is what a confirmed leader tells of a session.
type answer struct {
	session    uint64
	ref        uint64
	alive      bool
	generation uint64
	revision   uint64
	results    []reply
	more       bool // there are results behind the last of these
}

const answerFields = 7

func appendAnswer(b []byte, a answer) []byte {
	b = wire.AppendUint(b, a.session)
	b = wire.AppendUint(b, a.ref)
	b = wire.AppendBool(b, a.alive)
	b = wire.AppendUint(b, a.generation)
	b = wire.AppendUint(b, a.revision)
	b = wire.AppendArray(b, len(a.results))
	for _, p := range a.results {
		b = appendReply(wire.AppendArray(b, replyFields), p)
	}
	return wire.AppendBool(b, a.more)
}

func readAnswer(r *wire.Reader) answer {
	a := answer{
		session: r.Uint(anyUint), ref: r.Uint(anyUint), alive: r.Bool(),
		generation: r.Uint(anyUint), revision: r.Uint(anyUint),
	}
	for range r.Array(1024) {
		r.Tuple(replyFields)
		a.results = append(a.results, readReply(r))
	}
	a.more = r.Bool()
	return a
}

// renewal is a client's question whether its session lives.
type renewal struct {
	session shard.SessionID
	ref     uint64
	after   uint64 // the answer shall repeat results from behind this one on (P13)
	relay   bool   // whoever gets this passes it on to the leader, once (P15)
	orphans []replica.Abandoned
}

const renewalFields = 6

// Of a session's orphans a renewal names the earliest, up to so many and so many bytes.
const (
	maxOrphans     = 128
	maxOrphanBytes = 32 << 10
)

func appendRenewal(b []byte, q renewal) []byte {
	b = wire.AppendUint(b, q.session.Node)
	b = wire.AppendUint(b, q.session.Number)
	b = wire.AppendUint(wire.AppendUint(b, q.ref), q.after)
	b = wire.AppendBool(b, q.relay)
	b = wire.AppendArray(b, len(q.orphans))
	for _, o := range q.orphans {
		b = append(b, o.Raw...)
	}
	return b
}

func readRenewal(r *wire.Reader) renewal {
	q := renewal{
		session: shard.SessionID{Node: r.Uint(anyUint), Number: r.Uint(anyUint)},
		ref:     r.Uint(anyUint), after: r.Uint(anyUint), relay: r.Bool(),
	}
	if q.session.Node == 0 {
		r.Fail("a renewal of nobody's")
	}
	for range r.Array(maxOrphans) {
		o := readOrder(r)
		switch id, _ := clientOf(o.Command); o.Command.(type) {
		case shard.Cancel, shard.Release, shard.Close:
			if id != q.session {
				r.Fail("a renewal that names another session's command")
			}
		default:
			r.Fail("a renewal that names what cannot be abandoned")
		}
		if r.Err() != nil {
			break
		}
		q.orphans = append(q.orphans, o)
	}
	return q
}

// readOrder reads a command, and keeps its wire form.
func readOrder(r *wire.Reader) replica.Abandoned {
	all := r.Rest()
	cmd := shard.ReadCommand(r)
	return replica.Abandoned{Command: cmd, Raw: all[:len(all)-r.Len()]}
}

// redirect tells a client that its request was not taken here, and who leads, if known.
type redirect struct {
	session uint64
	number  uint64 // of the request; zero: a renewal
	office         // who leads; zero: unknown
}

const redirectFields = 2 + officeFields

func appendRedirect(b []byte, d redirect) []byte {
	return appendOffice(wire.AppendUint(wire.AppendUint(b, d.session), d.number), d.office)
}

func readRedirect(r *wire.Reader) redirect {
	return redirect{r.Uint(anyUint), r.Uint(anyUint), readOffice(r)}
}

// message is one decoded message of a lane.
type message struct {
	kind  int
	shard int

	frame    replica.Frame
	chunk    replica.Chunk
	ack      replica.ChunkAck
	sum      replica.Sum
	numbers  [3]uint64 // host, missing, decline: generation, ID; removed: generation, ID, highest; offer, accept, serving: term
	relay    bool
	command  shard.Command
	raw      []byte // the command's wire form
	office   office // reply, answer: who tells it
	reply    reply
	answer   answer
	renewal  renewal
	redirect redirect
	inner    []byte   // forward: a whole message, for the node in numbers[0]
	inside   *message // and what it says
}

// readMessage reads one message. Shards are below shards.
func readMessage(r *wire.Reader, shards int) message {
	var m message
	n := r.Array(16)
	m.kind = int(r.Uint(lastMessage))
	m.shard = int(r.Uint(uint64(shards - 1)))
	if r.Err() != nil {
		return m
	}
	fields := 0
	switch m.kind {
	case msgRaft:
		fields, m.frame = replica.FrameFields, replica.ReadFrame(r)
	case msgChunk:
		fields, m.chunk = replica.ChunkFields, replica.ReadChunk(r)
	case msgChunkAck:
		fields, m.ack = replica.AckFields, replica.ReadAck(r)
	case msgSum:
		fields, m.sum = replica.SumFields, replica.ReadSum(r)
	case msgHost, msgMissing, msgDecline:
		fields = 2
		m.numbers = [3]uint64{r.Uint(anyUint), replica.ReadID(r)}
	case msgRemoved:
		fields = 3
		m.numbers = [3]uint64{r.Uint(anyUint), r.Uint(anyUint), r.Uint(anyUint)}
	case msgOffer, msgAccept, msgServing:
		fields = 1
		m.numbers[0] = r.Uint(anyUint)
	case msgRequest:
		fields = 2
		m.relay = r.Bool()
		o := readOrder(r)
		m.command, m.raw = o.Command, o.Raw
		if id, ok := clientOf(m.command); r.Err() == nil && (!ok || id.Node == 0) {
			r.Fail("not a client's command")
		}
	case msgReply:
		fields, m.reply, m.office = replyFields+officeFields, readReply(r), readOffice(r)
	case msgRedirect:
		fields, m.redirect = redirectFields, readRedirect(r)
	case msgRenew:
		fields, m.renewal = renewalFields, readRenewal(r)
	case msgAnswer:
		fields, m.answer, m.office = answerFields+officeFields, readAnswer(r), readOffice(r)
	case msgForward:
		fields = 2
		m.numbers[0] = r.Uint(anyUint)
		m.inner = r.Bytes(maxMessage)
		if r.Err() == nil {
			m.readInner(r, shards)
		}
	default:
		r.Fail("unknown message")
	}
	if r.Err() == nil && n != 2+fields {
		r.Fail("a message with a wrong number of fields")
	}
	return m
}

// readInner reads what a forward carries: one message, and of a kind that goes from a
// leader to a client, for nothing else is ever relayed back.
func (m *message) readInner(r *wire.Reader, shards int) {
	kind := wire.NewReader(m.inner)
	kind.Array(16)
	switch kind.Uint(lastMessage) {
	case msgReply, msgRedirect, msgAnswer:
	default:
		r.Fail("a forward of what is not forwarded")
		return
	}
	inner := wire.NewReader(m.inner)
	inside := readMessage(inner, shards)
	switch err := inner.End(); {
	case err != nil:
		r.Fail("inside of a forward: " + err.Error())
	case m.numbers[0] == 0 || inside.shard != m.shard:
		r.Fail("a forward that says something else than what it carries")
	}
	m.inside = &inside
}

// clientOf returns whose command it is; false for commands of office.
func clientOf(cmd shard.Command) (shard.SessionID, bool) {
	switch c := cmd.(type) {
	case shard.Acquire:
		return c.Session, true
	case shard.Cancel:
		return c.Session, true
	case shard.Release:
		return c.Session, true
	case shard.Claim:
		return c.Session, true
	case shard.Close:
		return c.Session, true
	}
	return shard.SessionID{}, false
}

// numberOf returns a client's command's request number.
func numberOf(cmd shard.Command) uint64 {
	switch c := cmd.(type) {
	case shard.Acquire:
		return c.Number
	case shard.Cancel:
		return c.Number
	case shard.Release:
		return c.Number
	case shard.Claim:
		return c.Number
	case shard.Close:
		return c.Number
	}
	return 0
}
