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
// Both may dial at once, and either may believe in a connection that the other
// has lost. So one of the two, the node with the smaller ID, decides: it gives
// each connection that it adopts an epoch, larger than all before, and the other
// end follows the largest epoch that it was told, as long as the connection with that
// epoch lasts. Which end dialled does not matter. A handshake is
//
//	dialler           accepting end
//	opening       ->                  magic, version, greeting
//	              <-  opening, verdict
//	verdict       ->
//	              <-  verdict         if the accepting end decides
//
// The last verdict is the decision: welcome with an epoch, or duplicate. The end
// that follows tells before, in its own verdict, the epoch of the connection that
// it has, so that a connection which only one end believes in is replaced, and a
// good one is kept. It also names the attempts on whose decision it waits: a
// connection that was decided on, and of which it could not know yet, is good too.
// What it tells is numbered, since it may arrive in another order: what was said
// before the words that a connection rests on says nothing about that one.
//
// A connection is in use at the deciding end from the decision on, which is the
// first frame that it queues, and at the other end when that arrives. So nothing
// is sent over a connection that is then not used, unless it broke.

// decides tells whether this end decides about connections with a peer.
func (t *Transport) decides(peer ID) bool { return t.id < peer }

// decide adopts c, or returns false if there is a better one. Only the deciding
// end calls it, with the other end's claim in c.
func (t *Transport) decide(c *conn) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if p := t.peers[c.theirs.ID]; p != nil && p.conn != nil && !p.conn.ended() {
		has := p.conn
		switch {
		case c.claim.Epoch == has.epoch: // it knows that one
			return false
		case slices.Contains(c.claim.Awaited, dial{has.attempt, !has.dialled}): // it is about to
			return false
		case c.claim.Number < has.claim.Number: // it did not yet wait for that one
			return false
		}
	}
	t.epoch++
	c.epoch = t.epoch
	c.out.push(Urgent, outgoing{kind: kindVerdict, body: appendVerdict(nil, verdict{Judgement: welcome, Epoch: c.epoch})})
	return t.adoptLocked(c)
}

// follow adopts c as the deciding end said, or returns false if it has said
// something newer since. The epoch of a connection that is over does not count: whoever
// shook hands under the deciding end's ID may have made it up, and would shut that one
// out. An older connection that is adopted for want of it was closed by the deciding end
// when it decided on the newer one, and breaks.
func (t *Transport) follow(c *conn, epoch uint64) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if p := t.peers[c.theirs.ID]; p != nil && p.conn != nil && !p.conn.ended() && epoch <= p.conn.epoch {
		return false
	}
	c.epoch = epoch
	return t.adoptLocked(c)
}

// dial names one attempt to connect a pair.
type dial struct {
	Number uint64 // the dialler's
	Mine   bool   // who speaks of it dialled
}

// stand returns what the following end tells the deciding one.
func (t *Transport) stand(peer ID) verdict {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.stands++
	v := verdict{Judgement: welcome, Number: t.stands, Awaited: slices.Clone(t.awaited[peer])}
	if p := t.peers[peer]; p != nil && p.conn != nil && !p.conn.ended() {
		v.Epoch = p.conn.epoch
	}
	return v
}

// await notes that a handshake waits for a peer's decision, until the returned
// function is called.
func (t *Transport) await(peer ID, d dial) (done func()) {
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
	// From here on the pulse looks after it.
	c.raw.SetDeadline(time.Time{})
	c.began = time.Now()
	p := t.peerLocked(c.theirs.ID)
	old := p.conn
	p.conn = c
	t.routeLocked(p.id, c)
	t.wg.Go(c.write)
	p.signal()
	close(t.adopted)
	t.adopted = make(chan struct{})
	if old != nil {
		old.shut(errReplace)
	}
	return true
}

// settle is the dialler's part of the handshake after the openings: it returns
// nil when c was adopted, and errDuplicate when another connection is.
func (t *Transport) settle(ctx context.Context, c *conn) error {
	peer := c.theirs.ID
	if t.decides(peer) {
		if t.decide(c) {
			return nil
		}
		c.say(verdict{Judgement: duplicate})
		c.shut(errDuplicate)
		return errDuplicate
	}
	defer t.await(peer, dial{c.attempt, true})()
	var v verdict
	err := c.until(ctx, func() (err error) {
		if err = c.say(t.stand(peer)); err == nil {
			v, err = readVerdict(c.in)
		}
		return err
	})
	switch {
	case err != nil:
	case v.Judgement == duplicate:
		err = errDuplicate
	case v.Judgement != welcome || v.Epoch == 0:
		err = fmt.Errorf("%w: verdict %d with epoch %d in place of a decision", errMalformed, v.Judgement, v.Epoch)
	case t.follow(c, v.Epoch):
		return nil
	default:
		err = errDuplicate
	}
	c.shut(err)
	return err
}

// settleAccepted is the accepting end's part.
func (t *Transport) settleAccepted(c *conn) error {
	v, err := readVerdict(c.in)
	switch {
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
		c.claim = v
		if t.decide(c) {
			return nil
		}
		return errors.Join(errDuplicate, c.say(verdict{Judgement: duplicate}))
	}
	if v.Epoch == 0 {
		return fmt.Errorf("%w: a decision without an epoch", errMalformed)
	}
	if !t.follow(c, v.Epoch) {
		return errDuplicate
	}
	return nil
}

// say writes a verdict. Only the handshake does, before the writer starts.
func (c *conn) say(v verdict) error {
	_, err := c.stream.Write(appendFrame(nil, kindVerdict, appendVerdict(nil, v)))
	return err
}

// until calls fn, which uses the socket, and makes it fail when ctx ends.
func (c *conn) until(ctx context.Context, fn func() error) error {
	stop := context.AfterFunc(ctx, func() { c.raw.Close() })
	err := fn()
	if !stop() {
		return context.Cause(ctx) // also if fn was faster: the socket is closed
	}
	return err
}
