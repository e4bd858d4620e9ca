package transport

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
)

// How a pair of nodes agrees on one connection.
//
// Both may dial at once, and either may still use a connection that the other has
// lost. So a tie-break is needed: the node with the smaller ID decides. It assigns each
// connection that it adopts an epoch, larger than all earlier ones. The other node
// follows: it uses the connection with the largest epoch that it has received, as long
// as that connection lasts. Which end dialled does not matter. A handshake is
//
//	dialler           accepting end
//	opening       ->                  magic, version, greeting
//	              <-  opening, verdict
//	verdict       ->
//	              <-  verdict         if the accepting end decides
//
// The last verdict is the decision: welcome with an epoch, or duplicate. Before it,
// the following end sends a report, in a verdict of its own, with the epoch of its
// current connection; the deciding end's first verdict, if it has to send one, tells the
// same. So a connection that only one end has is replaced, and one that both have is kept:
// a dialler that sees this hangs up and sends no verdict, for most dials only ask which
// node answers. The report also lists the dials for which the following end awaits
// a decision: a connection that the deciding end has adopted, and that the following
// end cannot know of yet, is kept too. Reports are numbered, since they may arrive in
// another order than they were sent: a report that is older than the one on which a
// connection was decided says nothing about that connection.
//
// The deciding end uses a connection from its decision on, which is the first frame
// that it queues; the other end uses it once the decision arrives. So no frame is sent
// over a connection that is then not used, unless it broke.

// decides reports whether this end decides about connections with a peer.
func (t *Transport) decides(peer ID) bool { return t.id < peer }

// currentLocked returns the connection of the pair that has not ended; nil: there is none.
func (t *Transport) currentLocked(peer ID) *conn {
	if p := t.peers[peer]; p != nil && p.conn != nil && !p.conn.ended() {
		return p.conn
	}
	return nil
}

// decide adopts c, or returns false if the pair's current connection is to be kept.
// Only the deciding end calls it, with the other end's report in c.verdict.
func (t *Transport) decide(c *conn) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if current := t.currentLocked(c.theirs.ID); current != nil {
		switch {
		case c.verdict.Epoch == current.epoch: // the other end has it
			return false
		case slices.Contains(c.verdict.Awaited, dial{current.attempt, !current.dialled}): // or is about to have it
			return false
		case c.verdict.Number < current.verdict.Number: // the report is older than the current connection
			return false
		}
	}
	t.epoch++
	c.epoch = t.epoch
	c.out.push(Urgent, outgoing{kind: kindVerdict, body: appendVerdict(nil, verdict{Judgement: welcome, Epoch: c.epoch})})
	return t.adoptLocked(c)
}

// follow adopts c with the epoch that the deciding end assigned, or returns false if
// the current connection's epoch is not smaller. The epoch of a connection that is over
// does not count: an impostor that used the deciding end's ID may have invented it, and
// would keep the real node out. Without that epoch an older connection may be adopted;
// the deciding end closed it when it decided on the newer one, so it breaks.
func (t *Transport) follow(c *conn, epoch uint64) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if current := t.currentLocked(c.theirs.ID); current != nil && epoch <= current.epoch {
		return false
	}
	c.epoch = epoch
	return t.adoptLocked(c)
}

// dial names one attempt to connect a pair.
type dial struct {
	Number uint64 // given by the dialler
	Mine   bool   // the sender of this struct dialled
}

// shares reports whether the pair's current connection has the epoch that the deciding end reports: both
// ends have it then. Only the following end calls it.
func (t *Transport) shares(peer ID, epoch uint64) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	current := t.currentLocked(peer)
	return current != nil && current.epoch == epoch
}

// report returns the verdict that an end sends before the decision.
func (t *Transport) report(peer ID) verdict {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.reports++
	v := verdict{Judgement: welcome, Number: t.reports, Awaited: slices.Clone(t.awaited[peer])}
	if current := t.currentLocked(peer); current != nil {
		v.Epoch = current.epoch
	}
	return v
}

// addAwaited records that a handshake awaits a peer's decision. The returned function
// deletes the record.
func (t *Transport) addAwaited(peer ID, d dial) (done func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.awaited[peer] = append(t.awaited[peer], d)
	return func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		i := slices.Index(t.awaited[peer], d)
		t.awaited[peer] = slices.Delete(t.awaited[peer], i, i+1)
		if len(t.awaited[peer]) == 0 {
			delete(t.awaited, peer)
		}
	}
}

// adoptLocked makes c the pair's connection.
func (t *Transport) adoptLocked(c *conn) bool {
	if t.closed || !c.dialled && !t.lobby.leave(c) {
		return false
	}
	// From here on the pulse watches the connection in place of a deadline.
	c.raw.SetDeadline(time.Time{})
	c.began = time.Now()
	p := t.peerLocked(c.theirs.ID)
	old := p.conn
	p.conn = c
	t.routeLocked(p.id, c)
	t.wg.Go(c.write)
	p.signal()
	if old != nil {
		old.shut(errReplace)
	}
	return true
}

// finishDialled is the dialler's part of the handshake after the openings. It returns
// nil if c was adopted, and errDuplicate if the pair keeps another connection.
func (t *Transport) finishDialled(ctx context.Context, c *conn) error {
	peer := c.theirs.ID
	decides := t.decides(peer)
	switch {
	case decides && t.decide(c):
		return nil
	case decides, t.shares(peer, c.verdict.Epoch):
		c.shut(errDuplicate)
		return errDuplicate
	}
	defer t.addAwaited(peer, dial{c.attempt, true})()
	var v verdict
	err := c.until(ctx, func() (err error) {
		if err = c.send(t.report(peer)); err == nil {
			v, err = readVerdict(c.in)
		}
		return err
	})
	switch {
	case err != nil:
	case v.Judgement == duplicate:
		err = errDuplicate
	case v.Judgement != welcome || v.Epoch == 0:
		err = fmt.Errorf("%w: verdict %d with epoch %d, want a decision", errMalformed, v.Judgement, v.Epoch)
	case t.follow(c, v.Epoch):
		return nil
	default:
		err = errDuplicate
	}
	c.shut(err)
	return err
}

// finishAccepted is the accepting end's part. It returns nil if c was adopted.
func (t *Transport) finishAccepted(c *conn) error {
	v, err := readVerdict(c.in)
	switch {
	case isCut(err):
		return fmt.Errorf("%w, or the dialler gave up: %w", errDuplicate, err)
	case err != nil:
		return err
	case v.Judgement == refused:
		return &RefusedError{Peer: c.theirs, Reason: v.Reason, Remote: true}
	case v.Judgement == duplicate:
		return errDuplicate
	case v.Judgement != welcome:
		return fmt.Errorf("%w: verdict %d from the dialler", errMalformed, v.Judgement)
	}
	if t.decides(c.theirs.ID) {
		c.verdict = v
		if t.decide(c) {
			return nil
		}
		return errors.Join(errDuplicate, c.send(verdict{Judgement: duplicate}))
	}
	if v.Epoch == 0 {
		return fmt.Errorf("%w: a decision without an epoch", errMalformed)
	}
	if !t.follow(c, v.Epoch) {
		return errDuplicate
	}
	return nil
}

// send writes a verdict. It is used in the handshake only, before the writer starts.
func (c *conn) send(v verdict) error {
	_, err := c.stream.Write(appendFrame(nil, kindVerdict, appendVerdict(nil, v)))
	return err
}

// until calls fn, which uses the socket, and makes it fail once ctx ends.
func (c *conn) until(ctx context.Context, fn func() error) error {
	if ctx == c.t.ctx { // Close sees to that
		return fn()
	}
	stop := afterEnd(ctx, func() { c.raw.Close() })
	err := fn()
	if !stop() {
		return context.Cause(ctx) // even if fn succeeded: the socket is closed
	}
	return err
}
