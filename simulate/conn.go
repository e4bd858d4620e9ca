package simulate

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/lockmesh/mesh/simulate/timeline"
	"github.com/lockmesh/mesh/transport"
)

// conn is one connection. Each of its two sides learns for itself that it is over: that
// one of them has given it up does not mean that the other one knows.
type conn struct {
	net     *Net
	ends    [2]*endpoint // the dialler first
	hellos  [2]transport.Hello
	open    [2]bool // what each side believes
	pending bool    // the last step of the handshake is on its way
	forgets bool    // frames that meet a cut are gone, not only late
	line    bool    // for the messages of actors

	since   [2]time.Duration    // nothing arrives at that side before
	last    [2][2]time.Duration // by sender and class: the last arrival
	frames  [2]int              // by sender: on their way
	bytes   [2]int
	held    [2][]*frame // by sender: waiting for a cut to end, in order
	silence [2]event    // by side: gives up then
	reset   [2]bool     // by side: news that the other gave up is on its way
	bye     [2]*event   // by side: the other's goodbye, if that was sent
}

func (n *Net) newConn(dialler, acceptor *endpoint, hellos [2]transport.Hello) *conn {
	c := &conn{net: n, ends: [2]*endpoint{dialler, acceptor}, hellos: hellos}
	for i := range c.silence {
		c.silence[i] = event{kind: silenceEvent, slot: idle, owner: c.ends[i].process, conn: c, side: i}
	}
	c.forgets = n.path(c.host(0), c.host(1)).link.harsh() && n.losses.chance(million/2)
	n.conns = append(n.conns, c)
	return c
}

// tally makes one text of the names of messages, and names those that are alike once.
func tally(names []string) string {
	times := make(map[string]int, len(names))
	for _, name := range names {
		times[name]++
	}
	var b strings.Builder
	for _, name := range names {
		n := times[name]
		if n == 0 {
			continue // it has its place already
		}
		if b.Len() > 0 {
			b.WriteString(", ")
		}
		b.WriteString(name)
		if n > 1 {
			fmt.Fprintf(&b, " ×%d", n)
		}
		times[name] = 0
	}
	return b.String()
}

func (c *conn) host(side int) *Host { return c.ends[side].process.host }

// believes reports whether an end holds on to the connection, or is about to.
func (c *conn) believes(side int) bool {
	return c.open[side] || side == 1 && c.pending && !c.ends[1].gone
}

// alive reports whether both ends hold on to the connection.
func (c *conn) alive() bool { return c.open[0] && c.believes(1) }

// refresh lets every connection notice what has changed around it.
func (n *Net) refresh() {
	kept := n.conns[:0]
	for _, c := range n.conns {
		if c.open[0] || c.believes(1) {
			kept = append(kept, c)
		}
	}
	clear(n.conns[len(kept):])
	n.conns = kept
	// What follows makes events only, and no connections.
	for _, c := range n.conns {
		c.notice()
	}
}

// How long an end that hears nothing waits before it gives the connection up: it
// has missed several keep-alives by then.
const (
	minSilence = 3 * time.Second
	maxSilence = 5 * time.Second
)

// notice arms or disarms both ends' patience, tells an end that the other one has
// gone, and sends on what was held.
func (c *conn) notice() {
	w := c.net.world
	for side := range c.ends {
		other := 1 - side
		if !c.open[side] {
			w.cancel(&c.silence[side])
			continue
		}
		through := c.net.open(c.host(other), c.host(side)) && c.net.open(c.host(side), c.host(other))
		gone := !c.believes(other)
		switch {
		case gone && through && !c.reset[side]:
			c.reset[side] = true
			d, late := c.net.delay(c.host(other), c.host(side))
			w.after(d, c.ends[side].process, func() { c.rst(side) })
			if late > minSilence {
				c.tire(side, w.now+d-late, w.now+d, func() bool { return c.reset[side] })
			}
		case !gone && !c.paused(other) && c.net.open(c.host(other), c.host(side)):
			w.cancel(&c.silence[side])
		case c.silence[side].slot == idle:
			w.schedule(&c.silence[side], w.now+c.net.dials.between(minSilence, maxSilence))
		}
		if c.open[other] && c.net.open(c.host(side), c.host(other)) {
			held := c.held[side]
			c.held[side] = nil
			for _, f := range held {
				f.held, f.began = false, w.now
				c.net.fly(f, 0, false)
			}
		}
	}
}

// lull lets an end lose its patience while it waits for a late frame. Frames keep their order, so the end
// hears nothing from the one time to the other, and no keep-alive either.
func (c *conn) lull(f *frame, from, to time.Duration) {
	number := f.number
	c.tire(1-f.side, from, to, func() bool { return f.conn == c && f.number == number && f.ev.slot >= 0 })
}

// tire lets an end lose its patience that hears nothing from the one time to the other, while what it waits for
// is still on its way.
func (c *conn) tire(side int, from, to time.Duration, onItsWay func() bool) {
	n := c.net
	if at := from + n.dials.between(minSilence, maxSilence); at < to {
		n.world.after(at-n.world.now, c.ends[side].process, func() {
			if onItsWay() {
				c.broken(side)
			}
		})
	}
}

func (c *conn) paused(side int) bool { return c.host(side).paused }

// hold keeps a frame until the cut that it met is over.
func (c *conn) hold(f *frame) {
	f.held = true
	c.held[f.side] = append(c.held[f.side], f)
}

// rst is the kernel's word that the other end is gone.
func (c *conn) rst(side int) {
	c.reset[side] = false
	if !c.net.open(c.host(1-side), c.host(side)) {
		return // it did not get through; notice sends another, later
	}
	c.broken(side)
}

// close ends the connection for one end. The other one finds out.
func (c *conn) close(side int) {
	c.open[side] = false
	if side == 0 {
		c.pending = false
	}
	for s := range c.held {
		for _, f := range c.held[s] {
			c.net.free(f)
		}
		c.held[s] = nil
	}
	c.notice()
}

// goodbye ends the connection for one end, and tells the other in order.
func (c *conn) goodbye(side int) {
	n, other := c.net, 1-side
	c.open[side] = false
	c.pending = false
	c.net.world.cancel(&c.silence[side])
	if !n.open(c.host(side), c.host(other)) {
		c.close(side)
		return
	}
	d, late := n.delay(c.host(side), c.host(other))
	at := max(n.world.now+d, c.last[side][0]+1, c.last[side][1]+1, c.since[other]+1)
	c.reset[other] = true // nothing else tells it
	if late > minSilence {
		c.tire(other, at-late, at, func() bool { return c.reset[other] })
	}
	c.bye[other] = n.world.after(at-n.world.now, c.ends[other].process, func() {
		c.reset[other] = false
		if !c.open[other] {
			return
		}
		if !n.open(c.host(side), c.host(other)) {
			c.notice()
			return
		}
		e := c.ends[other]
		c.close(other)
		if p := e.peers[c.hellos[side].ID]; p != nil && p.conn == c {
			p.conn = nil
			e.down(p, transport.Goodbye)
		}
	})
}

// broken is how an end learns that the connection is no more: it redials at once.
func (c *conn) broken(side int) {
	if !c.open[side] {
		return
	}
	e, id := c.ends[side], c.hellos[1-side].ID
	c.close(side)
	p := e.peers[id]
	if p == nil || p.conn != c {
		return
	}
	p.conn = nil
	e.redial(p, 0)
}

// adopt makes c the connection of one of its ends.
func (e *endpoint) adopt(c *conn, side int) {
	hello := c.hellos[1-side]
	p := e.peer(hello.ID)
	if old, oldSide := p.conn, p.side; old != nil && old != c {
		p.conn = nil
		old.close(oldSide)
	}
	if p.retry != nil {
		e.net.world.cancel(p.retry)
		p.retry = nil
	}
	p.conn, p.side, p.hello, p.tries = c, side, hello, 0
	c.open[side] = true
	c.since[side] = e.net.world.now
	c.notice()
	if !p.up {
		p.up, p.told = true, false
		e.net.world.note(timeline.News, e.process.host.name, "connection to %s is up", hello.Name)
		e.handler.Up(hello)
	}
}

// Reset breaks the connections between two hosts, as a proxy or a reload of TLS
// does: frames on their way are lost, and a redial succeeds.
//
//	w.Net.Reset("a", "b") // a request or its answer may be gone
func (n *Net) Reset(a, b string) {
	w := n.world
	x, y := w.named(a), w.named(b)
	w.struck(lab, "reset %s - %s", a, b)
	for _, c := range slices.Clone(n.conns) {
		if c.alive() && !c.pending && (c.host(0) == x && c.host(1) == y || c.host(0) == y && c.host(1) == x) {
			for side := range c.ends {
				w.after(n.delays.exponential(time.Millisecond), c.ends[side].process, func() { c.broken(side) })
			}
		}
	}
}
