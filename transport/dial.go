package transport

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"time"
)

// outcome is what a dial found out.
type outcome struct {
	peer  Hello // who answered; zero: nobody
	err   error
	other *conn // another node than the one that was wanted answered: to settle or to shut
	cut   bool  // something took the connection and dropped it before it said who it is
}

// replaced tells whether another node than want answered. That it was then refused, by
// either end, does not matter.
func (o *outcome) replaced(want ID) bool { return o.peer.ID != 0 && o.peer.ID != want }

// attempt dials addr once. A connection to want (or to anyone, if that is zero)
// is adopted, unless there is one.
func (t *Transport) attempt(ctx context.Context, addr string, want ID) outcome {
	c, err := t.greet(ctx, addr)
	if err != nil {
		o := outcome{err: err}
		if c != nil {
			o.peer = c.theirs
		}
		o.cut = o.peer.ID == 0 && isCut(err)
		return o
	}
	if want != 0 && c.theirs.ID != want {
		return outcome{peer: c.theirs, other: c}
	}
	return outcome{peer: c.theirs, err: t.settle(ctx, c)}
}

// greet dials addr and exchanges openings. With an error, the connection is shut;
// it is returned if the other end said who it is.
func (t *Transport) greet(ctx context.Context, addr string) (*conn, error) {
	within, cancel := context.WithTimeout(ctx, t.timing.dial)
	raw, err := t.sources.Dial(within, addr)
	cancel()
	if err != nil {
		return nil, fmt.Errorf("transport: %w", err)
	}
	if !t.sockets.add(raw) {
		raw.Close()
		return nil, errClosed
	}
	tune(raw)
	c := t.newConn(raw, true)
	err = c.until(ctx, func() error { return t.introduce(ctx, c, addr) })
	if err == nil {
		return c, nil
	}
	c.shut(err)
	if errors.Is(err, errMalformed) {
		t.warn("what was dialled is no node of ours", "addr", addr, "reason", err)
	}
	var refusal *RefusedError
	switch {
	case err == ErrSelf || errors.As(err, &refusal):
	case c.theirs.ID == 0 && isCut(err) && t.clientTLS == nil:
		err = fmt.Errorf("transport: handshake with %s: it hung up without a word (does it want TLS?): %w", addr, err)
	default:
		err = fmt.Errorf("transport: handshake with %s: %w", addr, err)
	}
	if c.theirs.ID == 0 {
		return nil, err
	}
	return c, err
}

// introduce is the dialler's part of the exchange of openings.
func (t *Transport) introduce(ctx context.Context, c *conn, addr string) error {
	c.raw.SetDeadline(time.Now().Add(t.timing.handshake))
	if t.clientTLS != nil {
		s := tls.Client(c.raw, clientFor(t.clientTLS, addr))
		if err := s.HandshakeContext(ctx); err != nil {
			return err
		}
		c.stream = s
	}
	t.mu.Lock()
	t.attempts++
	mine := greeting{Hello: t.hello, Attempt: t.attempts}
	c.attempt = t.attempts
	t.mu.Unlock()
	if _, err := c.stream.Write(appendOpening(nil, mine)); err != nil {
		return err
	}
	theirs, err := readOpening(c.in)
	if err != nil {
		return err
	}
	if c.claim, err = readVerdict(c.in); err != nil {
		return err
	}
	c.theirs = theirs.Hello
	switch {
	case theirs.ID == t.id:
		return ErrSelf
	case c.claim.Judgement == refused:
		return &RefusedError{Peer: c.theirs, Reason: c.claim.Reason, Remote: true}
	case c.claim.Judgement != welcome:
		return fmt.Errorf("%w: verdict %d from the accepting end", errMalformed, c.claim.Judgement)
	}
	if reason := t.judge(mine.Hello, c.theirs); reason != "" {
		c.say(verdict{Judgement: refused, Reason: reason})
		return &RefusedError{Peer: c.theirs, Reason: reason}
	}
	return nil
}

// judge returns why a connection between two nodes cannot be, or nothing.
func (t *Transport) judge(mine, theirs Hello) string {
	if theirs.ID == 0 {
		return "the node ID is zero"
	}
	if theirs.MinVersion > theirs.MaxVersion {
		return fmt.Sprintf("the wire versions %d to %d are no range", theirs.MinVersion, theirs.MaxVersion)
	}
	if min(mine.MaxVersion, theirs.MaxVersion) < max(mine.MinVersion, theirs.MinVersion) {
		return fmt.Sprintf("no common wire version: %q speaks %d to %d, %q speaks %d to %d",
			mine.Name, mine.MinVersion, mine.MaxVersion, theirs.Name, theirs.MinVersion, theirs.MaxVersion)
	}
	if t.accept != nil {
		if err := t.accept(theirs); err != nil {
			return err.Error()
		}
	}
	return ""
}

// Dial finds out who answers at addr, with one attempt, and reports it to
// Handler.Dialed: once, unless Close comes first. A connection that comes of it is
// kept as the pair's, and Up comes before Dialed; if there is one already, that
// one stays. When this node itself answers, Dialed gets its own Hello and ErrSelf;
// when either end turns the connection down, a *RefusedError.
func (t *Transport) Dial(addr string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return
	}
	t.wg.Go(func() {
		o := t.attempt(t.ctx, addr, 0)
		if o.err == nil || o.err == errDuplicate {
			t.waitUp(o.peer.ID)
			o.err = nil
		}
		if t.ctx.Err() != nil {
			return
		}
		t.log.Debug("dialled", "addr", addr, "peer", o.peer.Name, "err", o.err)
		t.handler.Dialed(addr, o.peer, o.err)
	})
}

// waitUp waits until Up was reported for a peer with which we have, or soon shall
// have, a connection.
func (t *Transport) waitUp(id ID) {
	limit := time.NewTimer(t.timing.duplicate)
	defer limit.Stop()
	for {
		t.mu.Lock()
		var c *conn
		if p := t.peers[id]; p != nil {
			c = p.conn
		}
		adopted := t.adopted
		t.mu.Unlock()
		var announced, over chan struct{}
		if c != nil {
			announced, over = c.announced, c.over
		}
		select {
		case <-announced:
			return
		case <-over: // and the keeper may not have noticed yet
			return
		case <-adopted:
		case <-limit.C:
			return
		case <-t.ctx.Done():
			return
		}
	}
}
