package transport

import (
	"context"
	"errors"
	"time"
)

// peer is another node, while there is a connection with it, or Connect asked to keep
// one. One goroutine per peer makes all calls of Up, Down and Receive for this peer, so
// they are in order. It also reads from the peer's connection, and redials. It ends when
// nothing is left to do, or with Close.
type peer struct {
	t    *Transport
	id   ID
	wake chan struct{} // one pending signal: something below has changed

	// Guarded by t.mu.
	conn    *conn  // nil: none
	kept    bool   // Connect was called, and no Disconnect since
	addr    string // the address given to Connect
	moved   bool   // addr has changed; the goroutine has not noticed yet
	severed bool   // Disconnect was called; the goroutine has not noticed yet

	// Used by the goroutine only.
	up       bool   // Up was reported, and no Down since
	replaced bool   // Down(Replaced) was reported, and no Up since
	last     string // the address in the peer's last Hello, if this end dialled; else ""
	tries    int    // dials since it was up
	flaps    int    // connections in a row that broke soon
}

// maxFlaps bounds the wait between redials of a connection that keeps breaking, to less
// than a second.
const maxFlaps = 5

func (p *peer) signal() {
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

// peerLocked returns the peer with that ID, and creates it if there is none. t must
// not be closed.
func (t *Transport) peerLocked(id ID) *peer {
	p := t.peers[id]
	if p == nil {
		p = &peer{t: t, id: id, wake: make(chan struct{}, 1)}
		t.peers[id] = p
		t.wg.Go(p.run)
	}
	return p
}

// Connect keeps a connection with the node id, last known at addr, until
// Disconnect or Close: it dials now and whenever there is no connection, with pauses that
// double from 50 ms to 5 s, each shortened at random by up to a half. A later call with another address
// replaces the address, and dials again. With an empty addr it waits for the peer to
// dial.
//
// If another node answers at addr, Down(id, Replaced) is reported, once until the
// next Up and even if there was none before; dialling goes on. The connection
// with the other node is kept like one from Dial.
func (t *Transport) Connect(id ID, addr string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed || id == t.id || id == 0 {
		return
	}
	p := t.peerLocked(id)
	if p.kept && p.addr == addr {
		return
	}
	p.moved = p.moved || p.addr != addr
	p.kept, p.addr = true, addr
	p.signal()
}

// Disconnect ends the connection with id, and stops dialling it. Queued frames are
// still sent, within a second, then a goodbye: the other end reports Down(Goodbye).
// Once a Handler call under way has returned, this end reports Down(id, Disconnected)
// if it has reported Up, and then nothing about id until the next Up.
func (t *Transport) Disconnect(id ID) {
	t.mu.Lock()
	defer t.mu.Unlock()
	p := t.peers[id]
	if p == nil || t.closed {
		return
	}
	p.kept, p.addr, p.severed = false, "", true
	if c := p.conn; c != nil {
		p.conn = nil
		t.routeLocked(id, nil)
		c.leave()
		t.wg.Go(c.linger)
	}
	p.signal()
}

// run is the peer's goroutine.
func (p *peer) run() {
	for {
		c, addr, left, done := p.look()
		switch {
		case done:
			return
		case left:
			p.down(Disconnected)
		case c != nil:
			p.serve(c)
		case p.up:
			p.probe(addr)
		case addr == "":
			p.pause(-1)
		default:
			p.redial(addr)
		}
	}
}

// look takes note of what has changed, and returns what run shall do next: serve the
// connection c, dial addr, report the end by Disconnect (left), or end (done).
func (p *peer) look() (c *conn, addr string, left, done bool) {
	t := p.t
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		if p.conn != nil {
			p.conn.shut(errClosed)
		}
		return nil, "", false, true
	}
	if p.severed {
		p.severed, p.replaced, p.tries, p.flaps = false, false, 0, 0
		if p.up {
			return nil, "", true, false
		}
	}
	if p.moved {
		p.moved, p.tries = false, 0
	}
	if p.conn == nil && !p.kept && !p.up {
		delete(t.peers, p.id)
		return nil, "", false, true
	}
	return p.conn, p.addr, false, false
}

// changed reports whether something has changed that look must take note of first.
func (p *peer) changed() bool {
	p.t.mu.Lock()
	defer p.t.mu.Unlock()
	return p.t.closed || p.conn != nil || p.severed || p.moved
}

// serve reports Up, and delivers a connection's frames until it ends.
func (p *peer) serve(c *conn) {
	t := p.t
	if !p.up {
		p.up, p.replaced, p.tries = true, false, 0
		t.log.Debug("connection is up", "peer", c.theirs.Name, "id", p.id, "addr", c.theirs.Addr)
		t.handler.Up(c.theirs)
	}
	p.last = ""
	if c.dialled {
		p.last = c.theirs.Addr
	}
	err := c.receive(t.handler)
	if c.muted.Load() {
		return // linger and look finish the connection
	}
	c.shut(err)
	if err != errGoodbye {
		err = c.cause() // if the connection had been ended before, err is only the consequence
	}
	t.mu.Lock()
	current := p.conn == c
	if current {
		p.conn = nil
		t.routeLocked(p.id, nil)
	}
	t.mu.Unlock()
	switch {
	case t.ctx.Err() != nil:
	case err == errGoodbye:
		p.down(Goodbye)
	case current:
		if errors.Is(err, errMalformed) {
			t.warn("a peer sent a malformed frame", "peer", c.theirs.Name, "addr", c.theirs.Addr, "reason", err)
		}
		t.log.Debug("connection broke", "peer", c.theirs.Name, "id", p.id, "reason", err)
		if p.flaps++; time.Since(c.began) >= t.timing.stable {
			p.flaps = 0
		}
	}
}

// down reports the end of the peer's connection.
func (p *peer) down(cause Cause) {
	p.up, p.replaced, p.tries = false, cause == Replaced, 1
	if p.t.ctx.Err() == nil {
		p.t.log.Debug("connection is down", "id", p.id, "cause", cause)
		p.t.handler.Down(p.id, cause)
	}
}

// probe redials a peer whose connection broke, at once, to learn why it broke. An end does so that dialled
// it, or that Connect keeps, without jitter: an election may wait for the answer (P21). An end that was only
// dialled waits for a second whether the peer dials again: the peer may be a client, which nobody can reach (C1).
func (p *peer) probe(addr string) {
	t := p.t
	if addr == "" {
		addr = p.last
	}
	if addr == "" {
		if !p.pause(t.timing.await) {
			p.down(Lost)
		}
		return
	}
	// A connection that breaks again and again as soon as it is up must not keep both
	// ends busy.
	if p.flaps > 1 && p.pause(t.timing.wait(min(p.flaps-1, maxFlaps))) {
		return
	}
	ctx, cancel := context.WithTimeout(t.ctx, t.timing.probe)
	defer cancel()
	for wait := t.timing.retry; ; wait *= 2 {
		o, ok := p.attempt(ctx, addr)
		switch {
		case !ok || p.changed():
			return
		case o.replaced(p.id):
			p.down(Replaced)
			return
		case o.err != nil && isRefused(o.err):
			p.down(Refused)
			return
		case ctx.Err() == nil && (o.cut || o.err == nil || o.err == errDuplicate):
			// Cut: a process that dies closes its sockets one by one; the kernel accepted
			// this connection for a listener that is now gone. Duplicate: the connection
			// that the peer keeps is about to appear here. Nil: it has broken again already.
			if p.pause(wait) {
				return
			}
		default:
			t.log.Debug("redial failed", "id", p.id, "addr", addr, "err", o.err)
			p.down(Lost)
			return
		}
	}
}

// redial makes the next dial to a peer that Connect keeps.
func (p *peer) redial(addr string) {
	t := p.t
	if p.tries > 0 && p.pause(t.timing.wait(p.tries)) {
		return
	}
	o, ok := p.attempt(t.ctx, addr)
	if !ok || p.changed() {
		return
	}
	p.tries++
	t.log.Debug("dial did not connect", "id", p.id, "addr", addr, "answered", o.peer.ID, "err", o.err)
	if o.replaced(p.id) && !p.replaced {
		p.replaced = true
		t.handler.Down(p.id, Replaced)
	}
}

// attempt dials once. When something changes that look must take note of, it gives up
// and returns false.
func (p *peer) attempt(ctx context.Context, addr string) (outcome, bool) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	result := make(chan outcome, 1)
	p.t.work(func() { result <- p.t.attempt(ctx, addr) })
	o, changed := await(p, result)
	if changed {
		cancel()
		o = <-result
	}
	return o, !changed
}

// pause waits for d, or for ever if d is negative. It returns true if something
// changes before that look must take note of.
func (p *peer) pause(d time.Duration) bool {
	var after <-chan time.Time
	if d >= 0 {
		timer := time.NewTimer(d)
		defer timer.Stop()
		after = timer.C
	}
	_, changed := await(p, after)
	return changed
}

// await waits for what comes from a channel. Changed: it did not come before something that look must take note of.
func await[T any](p *peer, from <-chan T) (value T, changed bool) {
	for {
		select {
		case value = <-from:
			return value, false
		case <-p.wake:
			if p.changed() {
				return value, true
			}
		case <-p.t.ctx.Done():
			return value, true
		}
	}
}
