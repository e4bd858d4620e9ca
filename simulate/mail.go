package simulate

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/lockmesh/mesh/internal/env"
	"github.com/lockmesh/mesh/simulate/timeline"
	"github.com/lockmesh/mesh/transport"
)

// Message is what an actor sent to another one.
type Message struct {
	From string // the sender's host
	Body []byte // the receiver's to keep
}

// kindMail is the kind of frames that carry actors' messages.
const kindMail transport.Kind = 0x6d

// maxMail is how many messages wait at a port; what comes beside them is lost.
const maxMail = 4096

// Send sends a message of an actor's own to the given port of a host, where Receive takes
// it. It travels as a datagram does, on the links of the mesh: late, lost, doubled or out
// of order where they are bad; a cut swallows it, and so does a process that dies before it
// arrives. The sender does not learn of it. Rules see it as "port body", [Net.Hold] and the timeline as
// any other frame. It panics if there is no such host, if port is empty or has a zero
// byte, if body is longer than a frame of a mesh may be, and for an actor of World.Go, which has no address.
//
//	simulate.Send(ctx, "bank", "payments", []byte("pay 17"))
//	answer, err := simulate.Receive(patience, "answers")
func Send(ctx context.Context, to, port string, body []byte) {
	p := processOf(ctx, "Send")
	w := p.world
	h := w.named(to)
	switch {
	case p.host.index == 0:
		panic("simulate: actors of World.Go have no address: use Host.Go")
	case port == "" || strings.Contains(port, "\x00"):
		panic(fmt.Sprintf("simulate: %q is not the name of a port", port))
	case len(port)+1+len(body) > transport.MaxFrame:
		panic(fmt.Sprintf("simulate: Send: the port and the body of %d bytes are more than a frame may carry", len(body)))
	case p.dead:
		return
	}
	frame := slices.Concat([]byte(port), []byte{0}, body)
	lost := func(why string) {
		if w.timeline != nil {
			sent := w.record(timeline.Moment{Kind: timeline.Sent, Host: p.host.name, Peer: to, Text: mailText(frame)})
			w.record(timeline.Moment{Kind: timeline.Lost, Host: to, Peer: p.host.name, Frame: sent, Cause: sent, Text: why})
		}
	}
	if h.process == nil {
		lost("down")
		return
	}
	c := p.lines[h.process]
	if c == nil {
		c = w.Net.newLine(p, h.process)
		p.lines[h.process] = c
	}
	if !c.send(0, kindMail, transport.Normal, frame) {
		lost("full")
	}
}

// Receive waits for the next message that was sent to the given port of the actor's host,
// and takes it, or returns the error of ctx when it ends. Messages that came before
// an actor asked for them wait, up to 4,096 at a port; several actors at one port take turns.
// A crash loses what was not received.
//
//	for m, err := simulate.Receive(ctx, "payments"); err == nil; m, err = simulate.Receive(ctx, "payments") {
//		simulate.Send(ctx, m.From, "answers", pay(m.Body))
//	}
func Receive(ctx context.Context, port string) (Message, error) {
	p := caller(ctx, "Receive").process
	b := p.inbox(port)
	for len(b.mail) == 0 {
		if err := ctx.Err(); err != nil {
			return Message{}, err
		}
		pk := &parker{process: p, mail: true}
		b.waiting = append(b.waiting, pk)
		pk.Park(ctx, env.Never)
		b.waiting = slices.DeleteFunc(b.waiting, func(w *parker) bool { return w == pk })
	}
	m := b.mail[0]
	b.mail = b.mail[1:]
	return m, nil
}

// inbox is one port of a process.
type inbox struct {
	mail    []Message
	waiting []*parker // of the actors that wait for mail, in order
}

func (p *process) inbox(port string) *inbox {
	b := p.inboxes[port]
	if b == nil {
		b = &inbox{}
		p.inboxes[port] = b
	}
	return b
}

// newLine makes the way of one process's messages to another. It is a connection that
// is never made or broken, and at which nothing waits.
func (n *Net) newLine(from, to *process) *conn {
	c := &conn{net: n, line: true, forgets: true, open: [2]bool{true, true}}
	for side, p := range []*process{from, to} {
		c.ends[side] = &endpoint{net: n, process: p, handler: postman{c: c, to: p}}
	}
	return c
}

// postman takes the frames of a line.
type postman struct {
	transport.Handler // which is not there: lines have no handshakes
	c                 *conn
	to                *process
}

// Receive implements transport.Handler.
func (m postman) Receive(_ transport.ID, _ transport.Kind, frame []byte) {
	port, body, _ := bytes.Cut(frame, []byte{0})
	b := m.to.inbox(string(port))
	if len(b.mail) == maxMail {
		m.to.world.note(timeline.Note, m.to.host.name, "lost, for %d messages wait: %s", maxMail, mailText(frame))
		return
	}
	b.mail = append(b.mail, Message{m.c.host(0).name, body})
	if len(b.waiting) > 0 {
		b.waiting[0].Unpark()
		b.waiting = b.waiting[1:]
	}
}

// mailText names a message, as rules and the timeline do.
func mailText(frame []byte) string {
	port, body, _ := bytes.Cut(frame, []byte{0})
	const most = 80
	text := strconv.Quote(string(body[:min(len(body), most)]))
	return strings.TrimSuffix(string(port)+" "+text[1:len(text)-1], " ")
}
