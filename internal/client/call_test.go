package client

import (
	"context"
	"testing"
	"time"

	"github.com/lockmesh/mesh/shard"
)

// Promise: G4, P11: that another node leads is no answer to an Unlock, which goes on to that node.
func TestARedirectIsNoAnswer(t *testing.T) {
	b := newBench(t)
	u := b.unlocks(b.holds(b.own, Request{Key: "k"}, 7))
	b.hears(nodeB, redirect(b.expect("2: unlock k token 7"), nodeC, benchTerm+1))
	p := b.expect("3: unlock k token 7")
	if u.over {
		t.Errorf("a redirect ends an Unlock: %v", u.Err)
	}
	if b.hears(nodeC, done(p, 8)); !u.over || u.Err != nil {
		t.Errorf("the Unlock: %v, %v", u.over, u.Err)
	}
}

// Promise: G4, P14: an Unlock that its caller does not wait for any more is repeated until it is answered, and
// each renewal names it.
func TestAnUnlockIsRepeatedForNobody(t *testing.T) {
	b := newBench(t)
	b.holds(b.own, Request{Key: "o"}, 6)
	u := b.unlocks(b.holds(b.own, Request{Key: "k"}, 7))
	p := b.expect("2: unlock k token 7")
	b.do(Abandon{u, context.Canceled})
	b.pass(firstRetry)
	b.expect("2: unlock k token 7")
	b.pass(benchTTL/3 - firstRetry)
	named := 0
	for _, p := range b.takes() {
		named += len(renewalOf(p).Orphans)
	}
	if named != 1 {
		t.Errorf("renewals name it %d times", named)
	}
	b.hears(nodeB, done(p, 8))
	b.pass(longestRetry)
	for _, p := range b.takes() {
		if commandOf(p) != nil || len(renewalOf(p).Orphans) > 0 {
			t.Errorf("%q is sent after the answer", words(p))
		}
	}
}

// Promise: G1: a Lock that has succeeded stays, though its context ends in the same moment.
func TestALockThatSucceededStays(t *testing.T) {
	b := newBench(t)
	c := b.asks(b.own, Request{Key: "k"})
	b.hears(nodeB, granted(b.expect("2: lock k"), 7))
	b.do(Abandon{c, context.Canceled})
	if b.expects(); c.Err != nil || c.Hold.Err() != nil {
		t.Errorf("the Lock: %v, its hold: %v", c.Err, c.Hold.Err())
	}
}

// Promise: G4, P12: a refusal that shows that a record is gone answers its Close, and the Unlocks in it.
func TestARecordThatIsGoneIsClosed(t *testing.T) {
	b := newBench(t)
	s := NewSession(false, benchTTL)
	u := b.unlocks(b.holds(s, Request{Key: "k"}, 7))
	p := b.expect("2: unlock k token 7")
	calls := b.closes(s)
	b.expect("2: close")
	b.hears(nodeB, refused(p, shard.Reopen, 8))
	for _, c := range append(calls, u) {
		if !c.over || c.Err != nil {
			t.Errorf("a call of kind %d: %v, %v", c.Kind, c.over, c.Err)
		}
	}
	if b.leases() > 0 {
		t.Error("the lease stays")
	}
}

// Promise: G6, P9: a caller that waits for a hold of fixed length waits in the same lease when that may be over: in a
// user's session as in the node's own.
func TestAWaiterForAFixedLengthGoesOn(t *testing.T) {
	for _, own := range []bool{true, false} {
		for _, fixing := range []bool{false, true} {
			b := newBench(t)
			s := NewSession(own, benchTTL)
			c := b.asks(s, Request{Key: "k", MaxHold: 2 * benchTTL})
			p := b.expect("2: lock k")
			b.hears(nodeB, queued(p, 6))
			var fix Send
			if fixing {
				b.hears(nodeB, granted(p, 7))
				fix = b.expect("2: claim k token 7")
			}
			id := c.lease.id
			b.pass(benchTTL)
			if c.over || c.lease.id != id || s.Err() != nil {
				t.Errorf("own session: %t, fixing: %t: the Lock: %v, %v, in %v, which was in %v; the session: %v", own, fixing, c.over, c.Err, c.lease.id, id, s.Err())
				continue
			}
			b.takes()
			if !fixing {
				b.hears(nodeB, granted(p, 7))
				fix = b.expect("2: claim k token 7")
			}
			if b.hears(nodeB, done(fix, 8)); !c.over || c.Err != nil || c.Hold.Err() != nil {
				t.Errorf("the Lock: %v, %v", c.over, c.Err)
			}
		}
	}
}

// Promise: G6, P7: a request for a hold of fixed length that is refused leaves no record behind.
func TestARefusedRequestIsClosed(t *testing.T) {
	b := newBench(t)
	c := b.asks(b.own, Request{Key: "k", Try: true, MaxHold: time.Minute})
	b.hears(nodeB, refused(b.expect("2: lock k"), shard.Locked, 6))
	if !c.over || c.Err != ErrLocked {
		t.Errorf("the Try: %v, %v", c.over, c.Err)
	}
	if b.hears(nodeB, done(b.expect("2: close"), 7)); b.leases() > 0 {
		t.Error("the lease stays")
	}
}
