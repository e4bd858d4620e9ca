package transport

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"time"
)

// outcome is the result of a dial.
type outcome struct {
	peer Hello // the node that answered; zero: none did
	err  error // nil: the connection was adopted
	cut  bool  // the connection was accepted, and dropped before a Hello and a verdict had arrived
}

// replaced reports whether another node than want answered, even if one end then
// refused the connection.
func (o *outcome) replaced(want ID) bool { return o.peer.ID != 0 && o.peer.ID != want }

// attempt dials addr once. The connection with the node that answers is adopted, unless
// the pair already has one.
func (t *Transport) attempt(ctx context.Context, addr string) outcome {
	c, err := t.greet(ctx, addr)
	if err != nil {
		o := outcome{err: err}
		if c != nil {
			o.peer = c.theirs
		}
		o.cut = o.peer.ID == 0 && isCut(err)
		return o
	}
	return outcome{peer: c.theirs, err: t.finishDialled(ctx, c)}
}

// greet dials addr and exchanges openings. On an error the connection is shut, and
// returned only if the other end's Hello and verdict arrived.
func (t *Transport) greet(ctx context.Context, addr string) (*conn, error) {
	within, cancel := context.WithTimeout(ctx, t.timing.dial)
	raw, err := t.sources.Dial(within, addr)
	cancel()
	if err != nil {
		return nil, fmt.Errorf("transport: %w", err)
	}
	tune(raw)
	c := t.newConn(raw, true)
	err = c.until(ctx, func() error { return t.exchangeOpenings(ctx, c, addr) })
	if err == nil {
		return c, nil
	}
	c.shut(err)
	if errors.Is(err, errMalformed) {
		t.warn("no valid handshake with the dialled address", "addr", addr, "reason", err)
	}
	var refusal *RefusedError
	switch {
	case err == ErrSelf || errors.As(err, &refusal):
	case c.theirs.ID == 0 && isCut(err) && t.clientTLS == nil:
		err = fmt.Errorf("transport: handshake with %s: it hung up without an answer (does it want TLS?): %w", addr, err)
	default:
		err = fmt.Errorf("transport: handshake with %s: %w", addr, err)
	}
	if c.theirs.ID == 0 {
		return nil, err
	}
	return c, err
}

// exchangeOpenings is the dialler's part of the handshake, up to the accepting end's
// verdict.
func (t *Transport) exchangeOpenings(ctx context.Context, c *conn, addr string) error {
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
	if c.verdict, err = readVerdict(c.in); err != nil {
		return err
	}
	c.theirs = theirs.Hello
	switch {
	case theirs.ID == t.id:
		return ErrSelf
	case c.verdict.Judgement == refused:
		return &RefusedError{Peer: c.theirs, Reason: c.verdict.Reason, Remote: true}
	case c.verdict.Judgement != welcome:
		return fmt.Errorf("%w: verdict %d from the accepting end", errMalformed, c.verdict.Judgement)
	}
	if reason := t.judge(mine.Hello, c.theirs); reason != "" {
		c.send(verdict{Judgement: refused, Reason: reason})
		return &RefusedError{Peer: c.theirs, Reason: reason}
	}
	return nil
}

// judge returns the reason to refuse a connection between two nodes, or "".
func (t *Transport) judge(mine, theirs Hello) string {
	if theirs.ID == 0 {
		return "the node ID is zero"
	}
	if theirs.MinVersion > theirs.MaxVersion {
		return fmt.Sprintf("the lowest wire version %d is above the highest, %d", theirs.MinVersion, theirs.MaxVersion)
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

// Dial dials addr once to learn which node answers, and reports the outcome to
// Handler.Dialed: once, unless Close comes first. If both ends have a connection of the
// pair, that is kept; else the new one is, and Up, if it comes, comes before or after
// Dialed. If this node itself answers, Dialed gets its own Hello and ErrSelf. If either
// end refuses the connection, Dialed gets a *RefusedError.
func (t *Transport) Dial(addr string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return
	}
	t.work(func() {
		o := t.attempt(t.ctx, addr)
		if o.err == errDuplicate {
			o.err = nil
		}
		if t.ctx.Err() != nil {
			return
		}
		t.log.Debug("dialled", "addr", addr, "peer", o.peer.Name, "err", o.err)
		t.handler.Dialed(addr, o.peer, o.err)
	})
}
