package client

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lockmesh/mesh/internal/fault"
	"github.com/lockmesh/mesh/internal/message"
	"github.com/lockmesh/mesh/internal/replica"
	"github.com/lockmesh/mesh/shard"
)

// broken answers a renewal: the session lives, and these grants of k are broken.
func broken(renewal Send, revision uint64, tokens ...uint64) *message.Answer {
	m := alive(renewal, revision)
	for _, token := range tokens {
		m.Broken = append(m.Broken, shard.Breach{Key: "k", Token: token})
	}
	return m
}

// unasked is what a leader says of a session without being asked.
func unasked(id shard.SessionID, revision uint64, tokens ...uint64) *message.Answer {
	m := broken(Send{Message: &message.Renewal{Renewal: replica.Renewal{Session: id}}}, revision, tokens...)
	m.Ref = 0
	return m
}

// renewed passes the time until the lease is renewed.
func (b *bench) renewed() Send {
	b.tb.Helper()
	b.pass(benchTTL / 3)
	return b.expect("2: renewal")
}

// Promise: P49: an answer that names a broken grant ends the belief in that, and in nothing else; the lease goes on. The key is given back when the holder unlocks.
func TestAGrantIsBroken(t *testing.T) {
	b := newBench(t)
	h, other := b.holds(b.own, Request{Key: "k"}, 7), b.holds(b.own, Request{Key: "j"}, 8)
	until := h.Deadline()
	b.hears(nodeB, broken(b.renewed(), 10, 7))
	if h.Err() != fault.ErrBroken || other.Err() != nil || h.Deadline() != until || other.Deadline() <= until {
		t.Errorf("it is %v until %v, and another hold %v until %v", h.Err(), h.Deadline(), other.Err(), other.Deadline())
	}
	for range 4 { // the leader may have freed it by then
		b.hears(nodeB, broken(b.renewed(), 12, 7))
	}
	if h.Deadline() != until || other.Err() != nil {
		t.Errorf("the belief goes on until %v; another hold: %v", h.Deadline(), other.Err())
	}
	c := b.unlocks(h)
	b.hears(nodeB, done(b.expect("2: unlock k token 7"), 13))
	if b.hears(nodeB, alive(b.renewed(), 14)); !c.over || c.Err != nil || other.Err() != nil || len(b.shard().leases) != 1 {
		t.Errorf("the Unlock: %v, %v; another hold: %v", c.over, c.Err, other.Err())
	}
}

// Promise: P49: an answer that comes when the belief is over says which grants are broken, also of those that the leader has freed: it extends none of these.
func TestALateAnswerRevivesNothing(t *testing.T) {
	b := newBench(t)
	h, other := b.holds(b.own, Request{Key: "k"}, 7), b.holds(b.own, Request{Key: "j"}, 8)
	b.now += benchTTL * 3 / 4 // nobody has looked at the clock
	b.step(Tick{})
	q := b.takes()[0]
	b.now += benchTTL
	b.step(Received{From: nodeB, Message: broken(q, 20, 7)})
	if h.Err() != fault.ErrBroken {
		t.Errorf("it is believed in until %v, now is %v", h.Deadline(), b.now)
	}
	if other.Err() != nil {
		t.Errorf("another hold is %v", other.Err())
	}
}

// Promise: P49: what a leader says unasked ends the belief, and extends none.
func TestABreakIsToldUnasked(t *testing.T) {
	b := newBench(t)
	h, other := b.holds(b.own, Request{Key: "k"}, 7), b.holds(b.own, Request{Key: "j"}, 8)
	until := other.Deadline()
	b.pass(time.Second)
	b.hears(nodeB, unasked(b.shard().leases[0].id, 10, 7))
	if h.Err() != fault.ErrBroken || other.Deadline() != until {
		t.Errorf("it is %v; another one is believed in until %v, not %v", h.Err(), other.Deadline(), until)
	}
	fixed := b.holds(b.own, Request{Key: "k", MaxHold: 30 * time.Second}, 11)
	b.hears(nodeB, unasked(fixed.lease.id, 12, 11))
	if fixed.Err() != fault.ErrBroken {
		t.Errorf("one of fixed length is %v", fixed.Err())
	}
	b.unlocks(fixed)
	b.expect("2: close")
}

// Promise: P49: a grant that is broken before its caller hears of it is given back, whichever message comes first. The caller is told.
func TestAGrantIsBrokenUnheard(t *testing.T) {
	for _, tt := range []struct {
		name string
		when func(b *bench, lock Send)
	}{
		{"its answer is late", func(b *bench, lock Send) {
			b.hears(nodeB, broken(b.renewed(), 10, 7))
			b.hears(nodeB, granted(lock, 7))
		}},
		{"its answer was lost", func(b *bench, lock Send) {
			a := broken(b.renewed(), 10, 7)
			a.Results = []shard.Event{told(lock, message.Reply{Event: shard.Event{What: shard.Refused, Reason: shard.Broke, Token: 7}}).(*message.Reply).Event}
			b.hears(nodeB, a)
		}},
		{"it comes too late to be believed in", func(b *bench, lock Send) {
			b.pass(benchTTL / 3)
			b.takes()
			b.now += benchTTL
			b.step(Received{From: nodeB, Message: granted(lock, 7)})
			all := b.takes()
			b.step(Received{From: nodeB, Message: broken(all[len(all)-1], 10, 7)})
			b.settle()
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := newBench(t)
			c := b.asks(b.own, Request{Key: "k"})
			lock := b.expect("2: lock k")
			b.hears(nodeB, queued(lock, 6))
			tt.when(b, lock)
			if !c.over || c.Err != fault.ErrBroken || c.Hold != nil {
				t.Fatalf("the caller: %v, %v, %v", c.over, c.Err, c.Hold)
			}
			sent := b.takes()
			if i := slices.IndexFunc(sent, func(s Send) bool { return words(s) == "unlock k token 7" }); i < 0 {
				t.Errorf("sent %q", inWords(sent))
			} else {
				b.hears(nodeB, done(sent[i], 11))
			}
			b.hears(nodeB, granted(lock, 7)) // once more
			if len(b.shard().leases) > 0 && len(b.shard().leases[0].holds) > 0 {
				t.Error("there is a hold that nobody has")
			}
		})
	}
}

// Promise: P49, P7: a broken hold of fixed length is not extended, and who waits for it is told.
func TestABrokenHoldIsNotExtended(t *testing.T) {
	b := newBench(t)
	h, _ := fixedHold(b, 30*time.Second)
	c, waits := b.extends(h, time.Minute), b.extends(h, 50*time.Second)
	b.hears(nodeB, told(b.expect("2: fix k token 7"), message.Reply{Event: shard.Event{What: shard.Refused, Reason: shard.Broke, Token: 7}, Revision: 9}))
	if !c.over || c.Err != fault.ErrBroken || !waits.over || waits.Err != fault.ErrBroken || h.Err() != fault.ErrBroken {
		t.Errorf("the first Extend: %v; the second: %v; the hold: %v", c.Err, waits.Err, h.Err())
	}
	first := b.asks(b.own, Request{Key: "k", MaxHold: time.Minute})
	b.hears(nodeB, granted(b.expect("2: lock k"), 17))
	b.hears(nodeB, told(b.expect("2: fix k token 17"), message.Reply{Event: shard.Event{What: shard.Refused, Reason: shard.Broke, Token: 17}, Revision: 19}))
	if !first.over || first.Err != fault.ErrBroken {
		t.Errorf("who waited for its hold: %v, %v", first.over, first.Err)
	}
	b.expect("2: close")
}

// Promise: P49, C8: what is broken is not reported to another generation; and if it was reported before, its table may say so.
func TestABrokenHoldIsNotReported(t *testing.T) {
	b := newBench(t)
	b.holds(b.own, Request{Key: "k"}, 7)
	b.holds(b.own, Request{Key: "j"}, 8)
	b.hears(nodeB, broken(b.renewed(), 10, 7))
	b.goesOver(2)
	if all := inWords(b.takes()); strings.Contains(strings.Join(all, ", "), "report k") {
		t.Errorf("sent %q", all)
	}
	b = newBench(t)
	h, other := b.holds(b.own, Request{Key: "k"}, 7), b.holds(b.own, Request{Key: "j"}, 8)
	b.goesOver(2)
	for _, s := range b.takes() {
		switch c := commandOf(s).(type) {
		case shard.Report:
			if c.Key == "k" {
				b.hears(nodeB, of(2, told(s, message.Reply{Event: shard.Event{What: shard.Refused, Reason: shard.Broke, Token: 7}, Revision: 1009})))
			} else {
				b.hears(nodeB, of(2, granted(s, 1010)))
			}
		}
	}
	if h.Err() != fault.ErrBroken || other.Err() != nil {
		t.Errorf("what is broken is %v, and another one %v", h.Err(), other.Err())
	}
}

// Promise: P49, P42: a guest is told no lease from when a grant of it is broken until it has given that back, or for a TTL. What it never heard of counts as well.
func TestAGuestIsToldNoLease(t *testing.T) {
	for _, known := range []bool{true, false} {
		b := newBench(t)
		s := b.visits()
		var h *Hold
		token := uint64(7)
		if known {
			h = b.holds(s, named(Request{Key: "k"}, "x"), token)
		}
		lease := func() time.Duration { return b.client.LeaseOf(s, b.now) }
		renew := func(revision uint64, tokens ...uint64) {
			t.Helper()
			b.pass(benchTTL/3 + time.Second)
			b.hearsGuest(s)
			b.hears(nodeB, broken(b.expect("2: renewal"), revision, tokens...))
		}
		if lease() == 0 {
			t.Fatal("it is told no lease")
		}
		began := b.now
		renew(10, token)
		if got := b.client.Owes(s, b.now); lease() != 0 || len(got) != 1 || got[0].Token != token {
			t.Errorf("known %t: it is told a lease of %v, and %v is broken", known, lease(), got)
		}
		waive := &Call{Kind: Waive, Session: s, Request: Request{Key: "k"}, Grant: token}
		if known {
			waive = &Call{Kind: Unlock, Hold: h, Failed: true}
		}
		b.do(Start{waive})
		if sent := b.expect("2: unlock k token 7"); lease() == 0 {
			t.Errorf("known %t: it has given it back, and is told no lease after %v", known, b.now-began)
		} else {
			b.hears(nodeB, done(sent, 12))
			renew(11, token) // formed before
		}
		if lease() == 0 {
			t.Errorf("known %t: it has given it back, and is told no lease", known)
		}
		renew(13, 9)
		for range 4 {
			b.pass(benchTTL/3 + time.Second)
			b.hearsGuest(s)
			for _, q := range b.takes() {
				if is[*message.Renewal](q) {
					b.hears(nodeB, broken(q, 14, 9))
				}
			}
		}
		if lease() == 0 {
			t.Errorf("known %t: it is told no lease for ever", known)
		}
	}
}

// Promise: P49, P42: who carries a guest on tells it no lease before it has heard what is broken, in whatever shard that is, and asks for that at once.
func TestANextCarrierOwes(t *testing.T) {
	b := newBench(t, 2)
	b.hearsOf(1, nodeB, serves(benchTerm))
	s := b.visits()
	c := b.carries(1, s, true)
	carry := b.expect("2: carry gus")
	b.hearsOf(1, nodeB, told(carry, message.Reply{Event: shard.Event{What: shard.Done, Token: 6, Entered: 1}, Revision: 9}))
	if !c.over || c.Err != nil || b.client.LeaseOf(s, b.now) != 0 {
		t.Errorf("the Carry: %v, %v; a lease of %v", c.over, c.Err, b.client.LeaseOf(s, b.now))
	}
	b.pass(time.Second)
	b.hearsGuest(s)
	b.takes()
	confirm := &Call{Kind: Confirm, Session: s}
	b.do(Start{confirm})
	var asked *Send
	for _, q := range b.takes() {
		switch {
		case !is[*message.Renewal](q):
		case q.Shard == 1:
			asked = &q
		default:
			b.hears(nodeB, alive(q, 9))
		}
	}
	if asked == nil || confirm.over {
		t.Fatal("it does not ask what is broken, or does not wait for that")
	}
	b.hearsOf(1, nodeB, unasked(renewalOf(*asked).Session, 8)) // it left before the Carry came
	if b.client.LeaseOf(s, b.now) != 0 {
		t.Error("what was said before the Carry counts")
	}
	b.hearsOf(1, nodeB, broken(*asked, 10, 7))
	if got := b.client.Owes(s, b.now); !confirm.over || len(got) != 1 || b.client.LeaseOf(s, b.now) != 0 {
		t.Errorf("confirmed: %v; %v is broken, and it is told a lease of %v", confirm.over, got, b.client.LeaseOf(s, b.now))
	}
}

// Promise: P49: a Break is repeated until it is answered, in another lease and generation as well.
func TestBreak(t *testing.T) {
	breaks := func(b *bench) *Call {
		c := &Call{Kind: Break, Session: b.own, Request: Request{Key: "k"}, Grant: 7, Why: "why"}
		b.do(Start{c})
		return c
	}
	ended := func(t *testing.T, c *Call, want error) {
		t.Helper()
		if !c.over || c.Err != want {
			t.Errorf("over %t with %v, want %v", c.over, c.Err, want)
		}
	}
	t.Run("it is repeated", func(t *testing.T) {
		b := newBench(t)
		c := breaks(b)
		first := commandOf(b.expectTo("break k token 7")).(shard.Break)
		if first.Key != "k" || first.Token != 7 || first.Why != "why" || first.TTL != benchTTL || first.Name != "a" {
			t.Errorf("sent %+v", first)
		}
		b.pass(firstRetry)
		again := b.takes()
		if len(again) != 1 || numberOf(commandOf(again[0])) != first.Number {
			t.Fatalf("sent again: %v", inWords(again))
		}
		b.hears(nodeB, done(again[0], 7))
		ended(t, c, nil)
	})
	for why, want := range map[shard.Reason]error{shard.Lost: fault.ErrNotHeld, shard.Quiet: fault.ErrQuiet, shard.Crowded: fault.ErrTooManyBroken} { // order-free: each alone
		b := newBench(t)
		c := breaks(b)
		b.hears(nodeB, refused(b.expectTo("break k token 7"), why, 7))
		ended(t, c, want)
	}
	t.Run("another lease", func(t *testing.T) {
		b := newBench(t)
		c := breaks(b)
		first := b.expectTo("break k token 7")
		b.hears(nodeB, refused(first, shard.Reopen, 9))
		again := b.expectTo("break k token 7")
		if sessionOf(again) == sessionOf(first) {
			t.Error("it is asked for again under a number that means nothing any more")
		}
		b.hears(nodeB, done(again, 10))
		ended(t, c, nil)
	})
	t.Run("another generation", func(t *testing.T) {
		b := newBench(t)
		c := breaks(b)
		b.expectTo("break k token 7")
		b.goesOver(2)
		b.hears(nodeB, of(2, done(sending(c), 1001)))
		ended(t, c, nil)
	})
	t.Run("its caller gives up", func(t *testing.T) {
		b := newBench(t)
		c := breaks(b)
		b.expectTo("break k token 7")
		b.do(Abandon{c, fault.ErrUnconfirmed})
		ended(t, c, fault.ErrUnconfirmed)
		b.pass(time.Second)
		b.expects()
	})
}
