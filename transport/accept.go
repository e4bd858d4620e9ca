package transport

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"slices"
	"sync"
	"time"
)

// maxUnfinished is how many accepted connections may be in their handshake at
// once. A handshake takes a few round trips, so this limit allows thousands of
// them per second. More means that a client opens connections and sends nothing.
const maxUnfinished = 128

// listen accepts connections until Close.
func (t *Transport) listen() {
	var pause time.Duration
	for {
		raw, err := t.listener.Accept()
		if err != nil {
			if errors.Is(err, net.ErrClosed) {
				return
			}
			// Most likely out of file descriptors, which may pass.
			pause = min(max(2*pause, 5*time.Millisecond), time.Second)
			t.warn("cannot accept connections", "err", err)
			select {
			case <-time.After(pause):
			case <-t.ctx.Done():
				return
			}
			continue
		}
		pause = 0
		tune(raw)
		c := t.newConn(raw, false)
		t.lobby.enter(c)
		t.work(func() { t.serve(c) })
	}
}

// serve runs the accepting end's handshake and logs its failure.
func (t *Transport) serve(c *conn) {
	defer t.lobby.leave(c)
	err := t.handshake(c)
	if err == nil {
		return
	}
	c.shut(err)
	err = c.cause() // if the connection had been ended before, err is only the consequence
	var refusal *RefusedError
	remote := c.raw.RemoteAddr()
	switch {
	case t.ctx.Err() != nil, err == ErrSelf, errors.Is(err, errDuplicate):
	case errors.As(err, &refusal) && !refusal.Remote:
		t.warn("refused a node", "remote", remote, "peer", c.theirs.Name, "mesh", c.theirs.MeshName, "reason", refusal.Reason)
	case errors.As(err, &refusal):
		t.warn("another node refuses this one", "remote", remote, "peer", c.theirs.Name, "mesh", c.theirs.MeshName, "reason", refusal.Reason)
	case errors.Is(err, errMalformed), errors.Is(err, errCrowded), t.serverTLS != nil && c.stream == c.raw && !isCut(err):
		t.warn("refused a connection", "remote", remote, "reason", err)
	default: // a port scan, a health check
		t.log.Debug("handshake did not finish", "remote", remote, "reason", err)
	}
}

// handshake performs the accepting end's handshake. If it returns nil, c is adopted.
func (t *Transport) handshake(c *conn) error {
	c.raw.SetDeadline(time.Now().Add(t.timing.handshake))
	if t.serverTLS != nil {
		s := tls.Server(c.raw, t.serverTLS)
		if err := s.HandshakeContext(context.Background()); err != nil { // the deadline and Close end it
			return err
		}
		c.stream = s
	}
	theirs, err := readOpening(c.in)
	if err != nil {
		return err
	}
	c.theirs, c.attempt = theirs.Hello, theirs.Attempt
	t.mu.Lock()
	mine := greeting{Hello: t.hello}
	t.mu.Unlock()
	reply := func(v verdict) error {
		b := appendOpening(nil, mine)
		_, err := c.stream.Write(appendFrame(b, kindVerdict, appendVerdict(nil, v)))
		return err
	}
	if theirs.ID == t.id {
		reply(verdict{Judgement: itself})
		return ErrSelf
	}
	if reason := t.judge(mine.Hello, c.theirs); reason != "" {
		reply(verdict{Judgement: refused, Reason: reason})
		return &RefusedError{Peer: c.theirs, Reason: reason}
	}
	if !t.decides(theirs.ID) {
		defer t.addAwaited(theirs.ID, dial{theirs.Attempt, false})()
	}
	if err := reply(t.report(theirs.ID)); err != nil {
		return err
	}
	return t.finishAccepted(c)
}

// lobby holds the accepted connections that are in their handshake. When it is
// full, a new connection replaces the oldest one. A node needs milliseconds, so
// the oldest connection is the least likely to be from a node.
type lobby struct {
	mu    sync.Mutex
	conns []*conn // oldest first
}

var errCrowded = errors.New("too many connections with an unfinished handshake")

func (l *lobby) enter(c *conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.conns) >= maxUnfinished {
		l.conns[0].shut(errCrowded)
		l.conns = slices.Delete(l.conns, 0, 1)
	}
	l.conns = append(l.conns, c)
}

// leave removes c. It returns false if c is no longer in the lobby.
func (l *lobby) leave(c *conn) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	i := slices.Index(l.conns, c)
	if i >= 0 {
		l.conns = slices.Delete(l.conns, i, i+1)
	}
	return i >= 0
}
