package client

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/lockmesh/mesh/internal/fault"
	"github.com/lockmesh/mesh/internal/message"
	"github.com/lockmesh/mesh/internal/replica"
	"github.com/lockmesh/mesh/shard"
)

// Promise: G5, P1, P6: a lease counts from the first sending of the request that opened it, and then
// from the sending of each renewal that was confirmed; never from an answer's arrival, nor from a grant.
func TestALeaseCountsFromTheSending(t *testing.T) {
	b := newBench(t)
	begun := b.now
	c := b.asks(b.own, Request{Key: "k"})
	p := b.expect("2: lock k")
	b.pass(50 * time.Millisecond)
	b.hears(nodeB, queued(p, 6))
	b.pass(3 * time.Second)
	b.hears(nodeB, granted(p, 7))
	h := c.Hold
	ends := func(want time.Duration, when string) {
		t.Helper()
		if got := h.Deadline(); got != want {
			t.Errorf("%s the belief ends at %v, want %v", when, got-begun, want-begun)
		}
	}
	ends(begun+believed(benchTTL), "when granted,")
	b.expects()
	b.until(begun + benchTTL/3)
	q := b.expect("2: renewal")
	if r := renewalOf(q); r.Session != c.lease.id || r.Ref != 1 || r.After != 0 || r.Relay {
		t.Errorf("the renewal is %+v", r)
	}
	b.pass(300 * time.Millisecond)
	b.hears(nodeB, alive(q, 8))
	ends(begun+benchTTL/3+believed(benchTTL), "once renewed,")
	b.hears(nodeB, alive(q, 8))
	b.expects()

	// Without an answer the client asks again every second, and each answer counts from its own question,
	// whatever came before.
	b.until(begun + 2*benchTTL/3 - 1)
	b.expects()
	b.pass(1)
	var asked []Send
	for i := range 4 {
		if i > 0 {
			b.pass(time.Second - 1)
			b.expects()
			b.pass(1)
		}
		asked = append(asked, b.takes()...)
	}
	if len(asked) != 4 || asked[0].To != nodeB || relayed(asked[0]) || !relayed(asked[2]) {
		t.Fatalf("asked %q", inWords(asked))
	}
	b.hears(nodeB, alive(asked[2], 8))
	ends(begun+2*benchTTL/3+2*time.Second+believed(benchTTL), "after the answer to the last but one,")
	b.hears(nodeB, alive(asked[1], 8))
	ends(begun+2*benchTTL/3+2*time.Second+believed(benchTTL), "after an older answer,")
	b.until(begun + benchTTL + 2*time.Second - 1)
	b.expects()
	b.pass(1)
	q = b.expect("2: renewal") // by the leader's own way again
	b.hears(nodeB, alive(q, 8))
	ends(begun+benchTTL+2*time.Second+believed(benchTTL), "in the end")
	if n := b.client.Counters(); n.Renewals.Load() != 6 || n.Grants.Load() != 1 || n.Locks.Load() != 1 || h.Err() != nil {
		t.Errorf("%d renewals, %d grants, %d locks; the hold: %v", n.Renewals.Load(), n.Grants.Load(), n.Locks.Load(), h.Err())
	}

	// An old answer (P13) says nothing of the lease; one at the revision that showed its record does.
	b.pass(benchTTL / 3)
	q = b.expect("2: renewal")
	b.hears(nodeB, unknown(q, 5))
	if h.Err() != nil {
		t.Error("an answer that is older than the record ends the hold")
	}
	b.pass(time.Second)
	b.hears(nodeB, unknown(b.expect("2: renewal"), 6))
	if h.Err() != fault.ErrLost {
		t.Errorf("the hold: %v", h.Err())
	}
	b.pass(time.Minute)
	b.expects() // nothing hangs on it any more
	if s := b.shard(); len(s.leases)+len(s.byNumber)+len(s.current) != 0 {
		t.Error("the client keeps a lease that is over")
	}
}

// Promise: G5, P6: a grant that comes too late waits for a renewal: one for all that come at once.
func TestAGrantThatComesTooLate(t *testing.T) {
	for _, late := range []time.Duration{-1, 0, time.Second} {
		b := newBench(t)
		begun := b.now
		k := b.asks(b.own, Request{Key: "k"})
		m := b.asks(b.own, Request{Key: "m"})
		sent := b.expects("2: lock k", "2: lock m")
		b.hears(nodeB, queued(sent[0], 6), queued(sent[1], 6))
		b.until(begun + believed(benchTTL) + late)
		b.takes()
		b.hears(nodeB, granted(sent[0], 7), granted(sent[1], 8))
		if late < 0 {
			if !k.over || !m.over || k.Hold.Deadline() != begun+believed(benchTTL) {
				t.Error("the caller is not told of a grant that comes just in time")
			}
			continue
		}
		q := b.expectTo("renewal")
		if k.over || m.over {
			t.Fatalf("%v after the deadline a caller is told of a grant", late)
		}
		asked := b.now
		b.pass(300 * time.Millisecond)
		b.takes()
		b.hears(nodeB, alive(q, 8))
		for _, c := range []*Call{k, m} {
			if !c.over || c.Err != nil || c.Hold.Deadline() != asked+believed(benchTTL) {
				t.Errorf("a late grant that was confirmed: %v, %v", c.over, c.Err)
			}
		}
	}
}

// Promise: G5, P6: a late grant waits for an answer that is not late itself, also if it is the first word of its shard. A caller
// that gives up meanwhile has nothing.
func TestALateGrantWaitsForARenewal(t *testing.T) {
	for _, tt := range []struct {
		name  string
		trip  time.Duration // from the renewal to its answer
		gives bool          // the caller gives up before
		held  bool
	}{
		{"the answer comes just in time", believed(benchTTL) - 1, false, true},
		{"the answer comes too late", believed(benchTTL), false, false},
		{"the answer comes far too late", 2 * benchTTL, false, false},
		{"the caller gives up", time.Second, true, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := newBench(t)
			begun := b.now
			c := b.asks(b.own, Request{Key: "k"})
			b.until(begun + believed(benchTTL))
			b.takes()
			b.hears(nodeB, granted(sending(c), 7))
			q := b.expectTo("renewal")
			if tt.gives {
				b.do(Abandon{c, context.Canceled})
				if n := b.client.Held(); n != 0 {
					t.Errorf("%d holds are waited for", n)
				}
			}
			asked := b.now
			b.stall(tt.trip)
			b.takes()
			b.hears(nodeB, alive(q, 8))
			if held := c.over && c.Err == nil; held != tt.held || held && c.Hold.Deadline() != asked+believed(benchTTL) {
				t.Errorf("it is held: %v, %v", c.over, c.Err)
			}
		})
	}
}

// Promise: P10: a renewal without an answer is repeated after a twelfth of the TTL, but no sooner than after 100 ms and no
// later than after 1 s. Eight are remembered: an answer to an earlier one says nothing.
func TestRenewalsAreRepeated(t *testing.T) {
	for _, tt := range []struct{ ttl, want time.Duration }{
		{600 * time.Millisecond, 100 * time.Millisecond},
		{6 * time.Second, 500 * time.Millisecond},
		{time.Minute, time.Second},
	} {
		b := newBench(t)
		h := b.holds(NewSession(false, tt.ttl), Request{Key: "k"}, 7)
		b.pass(tt.ttl / 3)
		b.expect("2: renewal")
		b.pass(tt.want - 1)
		b.expects()
		b.pass(1)
		if b.expect("2: renewal"); h.Err() != nil {
			t.Error(h.Err())
		}
	}
	b := newBench(t)
	h := b.holds(NewSession(false, time.Minute), Request{Key: "k"}, 7)
	var sent []Send
	for range maxAsked + 1 {
		b.until(h.lease.renewAt)
		sent = append(sent, b.expectTo("renewal"))
	}
	end := h.Deadline()
	if b.hears(nodeB, alive(sent[0], 8)); h.Deadline() != end || len(h.lease.asked) != maxAsked {
		t.Errorf("an answer to the first of %d moves the end to %v; %d are remembered", len(sent), h.Deadline(), len(h.lease.asked))
	}
	if b.hears(nodeB, alive(sent[1], 8)); h.Deadline() <= end {
		t.Error("an answer to the second does not move the end")
	}
}

// Promise: G5, P6: a late grant that is told twice makes one hold.
func TestALateGrantThatIsToldTwice(t *testing.T) {
	b := newBench(t)
	begun := b.now
	c := b.asks(b.own, Request{Key: "k"})
	p := b.expect("2: lock k")
	b.hears(nodeB, queued(p, 6))
	b.until(begun + believed(benchTTL))
	b.takes()
	b.hears(nodeB, granted(p, 7))
	h := c.Hold
	b.pass(time.Millisecond)
	b.takes()
	b.hears(nodeB, granted(p, 7))
	if b.expects(); c.over || c.Hold != h || b.client.Held() != 1 {
		t.Errorf("%d holds; another one: %t; the Lock: %v", b.client.Held(), c.Hold != h, c.over)
	}
}

// Promise: G5: whoever watches a hold hears of each answer that moves its end, and of no other.
func TestWhatMovesTheEndIsTold(t *testing.T) {
	b := newBench(t)
	h := b.holds(b.own, Request{Key: "k"}, 7)
	b.pass(benchTTL / 3)
	first := b.expect("2: renewal")
	b.pass(time.Second)
	second := b.expect("2: renewal")
	b.happened()
	b.hears(nodeB, alive(second, 8))
	if got := b.happened(); len(got) != 1 || got[0] != Event(Extended{h}) {
		t.Errorf("an answer that moves the end: %+v", got)
	}
	b.hears(nodeB, alive(first, 8))
	if got := b.happened(); len(got) != 0 {
		t.Errorf("an older answer: %+v", got)
	}
}

// Promise: G5, P9: a lease whose holder saw the end before the answer to a renewal came is given up: its key is not kept
// for nobody.
func TestAnAnswerComesAfterItsHolderStopped(t *testing.T) {
	b := newBench(t)
	h := b.holds(b.own, Request{Key: "k"}, 7)
	other := b.holds(b.own, Request{Key: "o"}, 8)
	b.pass(benchTTL / 3)
	q := b.expect("2: renewal")
	b.now = h.Deadline()
	if !h.End(b.now, fault.ErrLost) {
		t.Fatal("its holder does not see the end")
	}
	b.hears(nodeB, alive(q, 9))
	if h.Deadline() != b.now || other.Err() != fault.ErrLost || b.leases() != 0 {
		t.Errorf("it ends at %v, and it is %v; another hold: %v; %d leases", h.Deadline(), b.now, other.Err(), b.leases())
	}
	b.pass(time.Minute)
	b.expects()
}

// Promise: P10, G5: an answer that comes late but before the Tick counts, as long as no holder saw the end.
func TestAnAnswerComesBeforeTheTick(t *testing.T) {
	b := newBench(t)
	h := b.holds(b.own, Request{Key: "k"}, 7)
	b.pass(benchTTL / 3)
	q, asked := b.expect("2: renewal"), b.now
	b.now = h.Deadline()
	b.hears(nodeB, alive(q, 9))
	if h.Err() != nil || h.Deadline() != asked+believed(benchTTL) {
		t.Errorf("the hold: %v, until %v, want %v", h.Err(), h.Deadline(), asked+believed(benchTTL))
	}
}

// Promise: G5, P9: a Lock that comes between the end of a lease and the Tick goes into a new one.
func TestALockComesBeforeTheTick(t *testing.T) {
	b := newBench(t)
	h := b.holds(b.own, Request{Key: "k"}, 7)
	b.now = h.Deadline()
	b.step(Start{&Call{Kind: Lock, Session: b.own, Request: Request{Key: "m"}}})
	if id := sessionOf(b.expect("2: lock m")); id == h.lease.id {
		t.Error("it goes into the lease that is over")
	}
}

// Promise: P16: a Try that may have been granted in a lease that ended is not asked for again: the second one would be
// refused because of the first. If the table has no record, there is no grant.
func TestATryMeetsTheEndOfItsLease(t *testing.T) {
	for _, tt := range []struct {
		name string
		when func(b *bench, renewal Send)
		want error
		anew bool
	}{
		{"the belief has ended", func(b *bench, _ Send) { b.stall(time.Second) }, fault.ErrNoQuorum, false},
		{"the record is gone", func(b *bench, q Send) { b.hears(nodeB, unknown(q, 9)) }, nil, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := newBench(t)
			h := b.holds(b.own, Request{Key: "h"}, 3)
			b.pass(benchTTL / 3)
			q := b.expect("2: renewal")
			b.until(h.Deadline() - time.Second)
			b.takes()
			c := b.asks(b.own, Request{Key: "k", Try: true})
			b.expect("2: lock k")
			tt.when(b, q)
			again := slices.DeleteFunc(b.takes(), func(p Send) bool { return words(p) != "lock k" || sessionOf(p) == h.lease.id })
			if c.over == tt.anew || c.Err != tt.want || (len(again) > 0) != tt.anew || h.Err() != fault.ErrLost {
				t.Errorf("the Try: %v, %v; it is asked for again: %q; the hold: %v", c.over, c.Err, inWords(again), h.Err())
			}
		})
	}
}

// Promise: G5, P7, P9: the end of the belief in a lease for one hold of fixed length ends no user's session: its Lock waits
// on, and a grant that comes then is fixed like any other.
func TestALockOfFixedLengthOutlivesItsLease(t *testing.T) {
	for _, fixing := range []bool{false, true} {
		t.Run(fmt.Sprintf("a Fix is under way: %t", fixing), func(t *testing.T) {
			b := newBench(t)
			s := NewSession(false, benchTTL)
			c := b.asks(s, Request{Key: "k", MaxHold: time.Minute})
			p := b.expect("2: lock k")
			b.hears(nodeB, queued(p, 6))
			var fix Send
			var sent time.Duration
			fixes := func() {
				b.hears(nodeB, granted(p, 7))
				fix, sent = b.expect("2: fix k token 7"), b.now
			}
			if fixing {
				fixes()
			}
			b.pass(2 * benchTTL)
			b.takes()
			if c.over || s.Err() != nil {
				t.Fatalf("the Lock: %v, %v; the session: %v", c.over, c.Err, s.Err())
			}
			if !fixing {
				fixes()
			}
			b.hears(nodeB, done(fix, 8))
			if !c.over || c.Err != nil || c.Hold.Deadline() != sent+believed(time.Minute) {
				t.Errorf("the Lock: %v, %v", c.over, c.Err)
			}
		})
	}
}

// Promise: P9: a user's session in which a Lock waits ends with its lease, unless no answer has shown that there is one.
func TestAWaitingSessionThatIsLost(t *testing.T) {
	for _, shown := range []bool{false, true} {
		b := newBench(t)
		s := NewSession(false, benchTTL)
		c := b.asks(s, Request{Key: "k"})
		p := b.expect("2: lock k")
		if shown {
			b.hears(nodeB, queued(p, 6))
		}
		b.pass(believed(benchTTL) - 1)
		if c.over || s.Err() != nil {
			t.Fatalf("%v; the session: %v", c.Err, s.Err())
		}
		b.takes()
		b.pass(1)
		if lost := s.Err() == fault.ErrLost; lost != shown || c.over != shown {
			t.Errorf("its record was shown: %t; the Lock: %v, %v; the session: %v", shown, c.over, c.Err, s.Err())
		}
		if sent := b.takes(); !shown && (len(sent) != 1 || words(sent[0]) != "lock k" || sessionOf(sent[0]).Number != 2) {
			t.Errorf("the Lock is not asked for anew: %q", inWords(sent))
		}
	}
}

// Promise: G5, P9: an idle session's next Lock goes into the old lease only while much of it is left. A lease in
// which nothing is held or waited for is not renewed, and goes when it is over.
func TestAnIdleLease(t *testing.T) {
	for _, tt := range []struct {
		left time.Duration // of the belief
		same bool
	}{
		{believed(benchTTL) - time.Second, true},
		{believed(benchTTL) - benchTTL/3 + 1, true},
		{believed(benchTTL) - benchTTL/3, true},
		{benchTTL/2 + 1, true},
		{benchTTL / 2, false},
		{1, false},
		{0, false},
	} {
		b := newBench(t)
		c := b.asks(b.own, Request{Key: "k"})
		b.hears(nodeB, granted(b.expect("2: lock k"), 7))
		id, end := c.lease.id, c.Hold.Deadline()
		u := b.unlocks(c.Hold)
		if b.hears(nodeB, done(b.expect("2: unlock k token 7"), 8)); !u.over || u.Err != nil {
			t.Fatal(u.Err)
		}
		b.until(end - tt.left)
		b.expects()
		if there := b.leases(); there != 1 && tt.left > 0 || there != 0 && tt.left == 0 {
			t.Errorf("%v before its end there are %d leases", tt.left, there)
		}
		b.asks(b.own, Request{Key: "m"})
		want := []string{"2: renewal", "2: lock m"} // it is overdue, and goes first (P16)
		if !tt.same || tt.left > believed(benchTTL)-benchTTL/3 {
			want = want[1:]
		}
		sent := b.expects(want...)
		if got := sessionOf(sent[len(sent)-1]); (got == id) != tt.same {
			t.Errorf("%v before the end of %v a Lock goes into %v", tt.left, id, got)
		}
	}
}

// Promise: G5, P1, P12: a lease whose record no answer has shown yet is not renewed: the answer could only be
// "unknown".
func TestNoRenewalBeforeTheRecordIsShown(t *testing.T) {
	for _, tt := range []struct {
		name string
		when message.Reply
		want bool // it is renewed
	}{
		{"queued", message.Reply{Event: shard.Event{What: shard.Queued}, Revision: 3}, true},
		{"refused, for the key is taken", message.Reply{Event: shard.Event{What: shard.Refused, Reason: shard.Locked}, Revision: 3}, true},
		{"behind", message.Reply{Event: shard.Event{What: shard.Refused, Reason: shard.Behind}, Revision: 3}, false},
		{"lost", message.Reply{Event: shard.Event{What: shard.Refused, Reason: shard.Lost}, Revision: 3}, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := newBench(t)
			b.asks(b.own, Request{Key: "k"})
			b.asks(b.own, Request{Key: "m"})
			sent := b.expects("2: lock k", "2: lock m")
			b.hears(nodeB, told(sent[0], tt.when))
			b.pass(benchTTL / 2)
			b.asks(b.own, Request{Key: "n"})
			if got := slices.ContainsFunc(b.takes(), is[*message.Renewal]); got != tt.want {
				t.Errorf("it is renewed: %t", got)
			}
		})
	}
	t.Run("once it is shown, a renewal that is overdue goes at once", func(t *testing.T) {
		b := newBench(t)
		b.asks(b.own, Request{Key: "k"})
		p := b.expect("2: lock k")
		b.pass(benchTTL / 2)
		b.takes()
		b.hears(nodeB, queued(p, 3))
		if q := b.takes(); len(q) != 1 || !is[*message.Renewal](q[0]) {
			t.Errorf("sent %q, want a renewal", inWords(q))
		}
	})
}

// Promise: G5, P9: a lease that ends loses what was held. A Lock that waits in the node's own session is asked
// for anew, in a new lease; a user's session ends as a whole.
func TestALeaseThatEnds(t *testing.T) {
	for _, user := range []bool{false, true} {
		b := newBench(t, 2)
		s := b.own
		if user {
			s = NewSession(false, benchTTL)
		}
		h := b.holds(s, Request{Key: "k"}, 7)
		old := h.lease.id
		waits := b.asks(s, Request{Key: "w"})
		try := b.asks(s, Request{Key: "t", Try: true})
		sent := b.expects("2: lock w", "2: lock t")
		b.hears(nodeB, queued(sent[0], 8))
		b.pass(replica.ElectionTimeout)
		elsewhere := b.asksOf(1, s, Request{Key: "e"})
		b.takes()
		b.hearsOf(1, nodeB, granted(sending(elsewhere), 9))
		if elsewhere.Err != nil || try.over {
			t.Fatal(elsewhere.Err, try.over)
		}
		b.takes()
		b.stall(h.Deadline() - b.now - 1)
		if h.Err() != nil {
			t.Fatal("the hold ends before its deadline")
		}
		b.takes()
		b.pass(1)
		if h.Err() != fault.ErrLost || s.Err() == nil == user {
			t.Errorf("the hold: %v, the session: %v", h.Err(), s.Err())
		}
		if (elsewhere.Hold.Err() == nil) == user {
			t.Errorf("of a user: %t; the hold in another shard: %v", user, elsewhere.Hold.Err())
		}
		if user {
			if s.Err() != fault.ErrLost || waits.Err != fault.ErrLost || !waits.over {
				t.Errorf("the session: %v, the waiting Lock: %v", s.Err(), waits.Err)
			}
			if slices.Contains(b.events, Event(Unlocking{elsewhere.Hold})) {
				t.Error("it is said that the key in another shard may be free before its lease is over")
			}
			if b.expects(); b.leases() > 0 {
				t.Errorf("%d leases are left", b.leases())
			}
			continue
		}
		if !try.over || try.Err != fault.ErrNoQuorum {
			t.Errorf("a Try ends with %v", try.Err)
		}
		again := slices.DeleteFunc(b.takes(), func(p Send) bool { return words(p) != "lock w" })
		if len(again) == 0 || waits.over {
			t.Fatalf("the waiting Lock: %v, %v", waits.over, waits.Err)
		}
		if sessionOf(again[0]) == old || numberOf(commandOf(again[0])) != 1 {
			t.Errorf("the waiting Lock is asked for anew in %v, which was over", sessionOf(again[0]))
		}
		b.hears(nodeB, granted(again[0], 12))
		if !waits.over || waits.Err != nil || waits.Hold.Deadline() != b.now+believed(benchTTL) {
			t.Errorf("the Lock that was asked for anew: %v, until %v", waits.Err, waits.Hold)
		}
	}
}

// Promise: G5, P9: nothing is sent for a lease that is over, even if that is seen late. An Unlock in it is not confirmed any more.
func TestNothingIsSentForALeaseThatIsOver(t *testing.T) {
	b := newBench(t)
	h := b.holds(b.own, Request{Key: "k"}, 7)
	u := b.unlocks(b.holds(b.own, Request{Key: "m"}, 8))
	c := b.asks(b.own, Request{Key: "n"})
	b.until(h.Deadline() - 1)
	b.takes()
	b.stall(2 * time.Second)
	for _, p := range b.takes() {
		if sessionOf(p) == h.lease.id || !is[*message.Request](p) {
			t.Errorf("%q is sent for it", words(p))
		}
	}
	if h.Err() != fault.ErrLost || !u.over || u.Err != fault.ErrUnconfirmed || c.over {
		t.Errorf("the hold: %v; the Unlock: %v, %v; the Lock: %v", h.Err(), u.over, u.Err, c.over)
	}
}

// Promise: P9: a user's session that loses leases in two shards at once is lost once. An idle one is not lost with its
// lease, nor one whose hold of fixed length has ended.
func TestWhichLeasesEndASession(t *testing.T) {
	b := newBench(t, 2)
	s := NewSession(false, benchTTL)
	for sh := range 2 {
		c := b.asksOf(sh, s, Request{Key: "k"})
		b.hearsOf(sh, nodeB, granted(sending(c), 7))
	}
	b.pass(benchTTL)
	count := 0
	for _, e := range b.happened() {
		if _, ok := e.(SessionLost); ok {
			count++
		}
	}
	if s.Err() != fault.ErrLost || count != 1 {
		t.Errorf("the session: %v; that is told %d times", s.Err(), count)
	}

	b = newBench(t)
	s = NewSession(false, benchTTL)
	u := b.unlocks(b.holds(s, Request{Key: "k"}, 7))
	b.hears(nodeB, done(sending(u), 8))
	b.takes()
	f := b.holds(s, Request{Key: "f", MaxHold: 2 * benchTTL}, 9)
	b.pass(3 * benchTTL)
	if s.Err() != nil || f.Err() != fault.ErrLost || b.leases() != 0 {
		t.Errorf("an idle session: %v; its hold of fixed length: %v; %d leases", s.Err(), f.Err(), b.leases())
	}
	b.takes()
	b.asks(s, Request{Key: "m"})
	if id := sessionOf(b.expect("2: lock m")); id.Number != 3 {
		t.Errorf("its next Lock goes into %v", id)
	}
}

// Promise: G5, P9: as long as a Lock waits in a lease, the next one goes there, too, however little of it is left.
func TestALeaseInWhichALockWaits(t *testing.T) {
	b := newBench(t)
	c := b.asks(b.own, Request{Key: "k"})
	b.pass(believed(benchTTL) - 1)
	b.takes()
	b.asks(b.own, Request{Key: "m"})
	if id := sessionOf(b.expect("2: lock m")); id != c.lease.id {
		t.Errorf("it goes into %v, and not into %v", id, c.lease.id)
	}
}

// Promise: G5, P5: a lease is renewed when a third of it is over, even if nothing hung on it until shortly before.
func TestARenewalIsNotLate(t *testing.T) {
	for _, before := range []time.Duration{0, 1, 20 * time.Millisecond, 90 * time.Millisecond} {
		b := newBench(t)
		due := b.now + benchTTL/3
		h := b.holds(b.own, Request{Key: "k"}, 7)
		b.unlocks(h)
		b.hears(nodeB, done(b.expect("2: unlock k token 7"), 8))
		b.until(due - before)
		b.expects()
		c := b.asks(b.own, Request{Key: "m"})
		p := b.takes()
		b.hears(nodeB, queued(sending(c), 9))
		b.pass(before)
		if p = append(p, b.takes()...); len(p) != 2 || is[*message.Renewal](p[0]) == is[*message.Renewal](p[1]) {
			t.Errorf("asked %v before a renewal is due: sent %q by then", before, inWords(p))
		}
	}
}

// Promise: G5, P12: a renewal names the calls that were abandoned first, and no more than it has room for.
func TestARenewalNamesTheEarliestAbandonedCalls(t *testing.T) {
	for _, tt := range []struct{ abandoned, answered, bytes, want int }{
		{0, 0, 100, 0},
		{5, 0, 100, 5},
		{5, 2, 100, 3},
		{1000, 10, 100, message.MaxAbandoned},
		{1000, 10, maxAbandonedBytes / message.MaxAbandoned, message.MaxAbandoned},
		{1000, 10, 1000, maxAbandonedBytes / 1000},
	} {
		l := &lease{client: newBench(t).client, calls: make(map[uint64]*Call)}
		for i := range tt.abandoned {
			c := &Call{Kind: Cancel, number: uint64(i + 1), raw: make([]byte, tt.bytes)}
			c.command = shard.Cancel{Target: c.number}
			if l.abandoned = append(l.abandoned, c); i >= tt.answered {
				l.calls[c.number] = c
			}
		}
		named := l.named()
		if len(named) != tt.want {
			t.Errorf("of %d abandoned calls of %d bytes, %d of them answered, %d are named, want %d", tt.abandoned, tt.bytes, tt.answered, len(named), tt.want)
		}
		for i, o := range named {
			if got, want := o.Command.(shard.Cancel).Target, uint64(tt.answered+i+1); got != want {
				t.Errorf("%d is named in place of %d", got, want)
			}
		}
	}
}

// Promise: P11: each result is acknowledged once, however many there are and whichever commands carry them: also
// when a command that carried some was given up.
func TestAcknowledgements(t *testing.T) {
	const results = 5000
	b := newBench(t)
	l := b.shard().newLease(b.own, false)
	for _, i := range rand.New(rand.NewPCG(1, 2)).Perm(results) {
		l.acknowledge(uint64(i + 1))
		l.acknowledge(uint64(i + 1))
	}
	lost := &Call{}
	l.put(lost)
	l.remove(lost)
	told := uint64(0)
	for len(l.acks) > 0 {
		c := &Call{}
		l.put(c)
		if len(c.acks) > shard.MaxAcked {
			t.Fatalf("a command carries %d acknowledgements", len(c.acks))
		}
		for _, n := range c.acks {
			if told++; n != told {
				t.Fatalf("%d is acknowledged in place of %d", n, told)
			}
		}
	}
	if told != results {
		t.Errorf("%d of %d results are acknowledged", told, results)
	}
}
