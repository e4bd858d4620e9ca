package simulate

import (
	"errors"
	"fmt"
	"time"

	"github.com/lockmesh/mesh/transport"
)

// How long a dial takes that gets no answer.
const (
	minDial = 1500 * time.Millisecond
	maxDial = 2500 * time.Millisecond
)

// maxRetry is the longest wait between two dials.
const maxRetry = 5 * time.Second

// attempt is one dial: the dialler's hello, the listener's, and the dialler's confirmation.
type attempt struct {
	net   *Net
	from  *endpoint
	want  transport.ID // the node that it is meant for; zero: any
	done  func(transport.Hello, error)
	over  bool
	timer *event
}

// dial tries addr once, and calls done with who answered, or why nobody did. The
// connection with the node that answers is adopted: before done is called if it is the node
// that the dial was meant for, else before or after, as the seed draws.
func (e *endpoint) dial(addr string, want transport.ID, done func(transport.Hello, error)) {
	n := e.net
	a := &attempt{net: n, from: e, want: want, done: done}
	fail := func(err error) func() {
		return func() { a.end(transport.Hello{}, fmt.Errorf("dial %s: %w", addr, err)) }
	}
	a.timer = n.world.after(n.dials.between(minDial, maxDial), e.process, fail(errTimeout))
	here := e.process.host
	there, where, err := n.resolve(here, addr)
	if err != nil {
		n.world.after(n.dials.between(time.Millisecond, 5*time.Millisecond), e.process, fail(err))
		return
	}
	n.travel(here, there, nil, func() {
		l := n.listeners[where]
		if l == nil || l.local && here != there { // the kernel answers, paused or not
			n.travel(there, here, e.process, fail(errRefused))
			return
		}
		n.world.after(0, l.process, func() { a.accept(l) })
	})
}

// travel calls fn when something sent now has got from one host to another, if
// it does.
func (n *Net) travel(from, to *Host, owner *process, fn func()) {
	if !n.open(from, to) {
		return
	}
	n.world.after(n.latency(from, to), nil, func() {
		if !n.open(from, to) {
			return
		}
		if owner == nil {
			fn()
		} else {
			n.world.after(0, owner, fn)
		}
	})
}

func (a *attempt) end(h transport.Hello, err error) {
	if a.over || a.from.gone {
		return
	}
	a.over = true
	a.net.world.cancel(a.timer)
	a.done(h, err)
}

// accept is the listener's part.
func (a *attempt) accept(l *endpoint) {
	n, e := a.net, a.from
	here, there := e.process.host, l.process.host
	if l.gone {
		n.travel(there, here, e.process, func() { a.end(transport.Hello{}, errRefused) })
		return
	}
	mine, theirs := e.hello, l.hello
	if l == e {
		n.travel(there, here, e.process, func() { a.end(theirs, transport.ErrSelf) })
		return
	}
	if reason := l.judge(mine); reason != "" {
		n.travel(there, here, e.process, func() {
			a.end(theirs, &transport.RefusedError{Peer: theirs, Reason: reason, Remote: true})
		})
		return
	}
	n.travel(there, here, e.process, func() { a.answered(l, mine, theirs) })
}

// answered is the dialler's part.
func (a *attempt) answered(l *endpoint, mine, theirs transport.Hello) {
	n, e := a.net, a.from
	if a.over || e.gone {
		return
	}
	if reason := e.judge(theirs); reason != "" {
		a.end(theirs, &transport.RefusedError{Peer: theirs, Reason: reason})
		return
	}
	if p := e.peers[theirs.ID]; p != nil && p.conn != nil && p.conn.alive() {
		a.end(theirs, nil) // one connection is enough
		return
	}
	if a.want != theirs.ID && n.dials.below(2) == 0 { // Dialed or Down(Replaced) comes before Up
		a.end(theirs, nil)
		if e.gone {
			return
		}
	}
	c := n.newConn(e, l, [2]transport.Hello{mine, theirs})
	c.pending = true
	e.adopt(c, 0)
	if !n.open(e.process.host, l.process.host) {
		c.pending = false
		c.notice()
	} else {
		d := n.latency(e.process.host, l.process.host)
		c.since[1] = n.world.now + d + 1
		c.last[0] = [2]time.Duration{c.since[1], c.since[1]}
		n.world.after(d, nil, func() { n.world.after(0, l.process, func() { c.established() }) })
		if d > minSilence { // nothing comes back before the listener has the connection
			c.tire(0, n.world.now, n.world.now+d, func() bool { return c.pending })
		}
	}
	a.end(theirs, nil)
}

// established is the listener's end of the handshake.
func (c *conn) established() {
	if !c.pending {
		return
	}
	l := c.ends[1]
	c.pending = false
	if l.gone || !c.open[0] || !c.net.open(c.host(0), c.host(1)) {
		c.notice()
		return
	}
	// Both may have dialled at once. Both ends keep the connection that the node
	// with the smaller ID dialled.
	if p := l.peers[c.hellos[0].ID]; p != nil && p.conn != nil && p.conn.alive() && p.conn.hellos[0].ID < c.hellos[0].ID {
		c.notice()
		return
	}
	l.adopt(c, 1)
}

// judge returns why e does not want the peer, or nothing.
func (e *endpoint) judge(h transport.Hello) string {
	if min(e.hello.MaxVersion, h.MaxVersion) < max(e.hello.MinVersion, h.MinVersion) {
		return "no common version"
	}
	if e.cfg.Accept != nil {
		if err := e.cfg.Accept(h); err != nil {
			return err.Error()
		}
	}
	return ""
}

// redials is how often the immediate redial is repeated when it finds the peer and
// still no connection comes of it: one that the peer dialled may be on its way.
const redials = 7

// patience is for how long an end that was dialled waits for the other one to dial again.
const patience = time.Second

// redial finds out at once what became of a peer whose connection broke.
func (e *endpoint) redial(p *peer, tries int) {
	addr := p.addr
	if addr == "" && p.side == 0 {
		addr = p.hello.Addr // who was dialled does not dial back
	}
	if addr == "" {
		e.net.world.after(patience, e.process, func() {
			if p.conn == nil && e.peers[p.id] == p {
				e.down(p, transport.Lost)
			}
		})
		return
	}
	if p.busy {
		return
	}
	p.busy = true
	e.dial(addr, p.id, func(h transport.Hello, err error) {
		p.busy = false
		switch {
		case p.conn != nil || e.peers[p.id] != p:
		case err == nil && h.ID != p.id:
			e.down(p, transport.Replaced)
		case err != nil && errors.Is(err, errRefused):
			e.down(p, transport.Refused)
		case err == nil && tries < redials:
			e.net.world.after(5*time.Millisecond<<tries, e.process, func() {
				if p.conn == nil && p.up && e.peers[p.id] == p {
					e.redial(p, tries+1)
				}
			})
		default:
			e.down(p, transport.Lost)
		}
	})
}

// again keeps trying to reach a peer that Connect asked for.
func (e *endpoint) again(p *peer, d time.Duration) {
	w := e.net.world
	if p.addr == "" {
		return // it will dial us
	}
	p.retry = w.after(d, e.process, func() {
		p.retry = nil
		if p.conn != nil || p.busy || !p.kept || e.peers[p.id] != p {
			return
		}
		p.busy = true
		e.dial(p.addr, p.id, func(h transport.Hello, err error) {
			p.busy = false
			switch {
			case p.conn != nil || e.peers[p.id] != p || p.retry != nil:
				return
			case p.up: // a connection came and went meanwhile
				e.redial(p, 0)
				return
			case !p.kept:
				return
			case err == nil && h.ID != p.id && !p.told:
				p.told = true
				e.handler.Down(p.id, transport.Replaced)
				if p.conn != nil || !p.kept || e.peers[p.id] != p || p.retry != nil {
					return
				}
			}
			p.tries = min(p.tries+1, 7)
			most := min(50*time.Millisecond<<p.tries, maxRetry)
			e.again(p, e.net.dials.between(most/2, most))
		})
	})
}
