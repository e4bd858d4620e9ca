package client

import (
	"fmt"
	"testing"
	"time"

	"github.com/lockmesh/mesh/internal/fault"
	"github.com/lockmesh/mesh/internal/message"
	"github.com/lockmesh/mesh/shard"
)

func guestSession() *Session {
	s := NewSession(false, benchTTL)
	s.Guest = "gus"
	return s
}

// carried is the word that this node carries the guest.
func carried(request Send, carrier uint64) message.Message {
	return told(request, message.Reply{Event: shard.Event{What: shard.Done, Token: carrier}, Revision: carrier})
}

// carries starts a Carry in a shard.
func (b *bench) carries(shard int, s *Session, only bool) *Call {
	b.tb.Helper()
	c := &Call{Kind: Carry, Shard: shard, Session: s, Only: only}
	b.do(Start{c})
	return c
}

// hearsGuest says that a guest has made a request.
func (b *bench) hearsGuest(s *Session) *Call {
	b.tb.Helper()
	c := &Call{Kind: Hear, Session: s}
	b.do(Start{c})
	return c
}

// unclaimed is that word, where the guest has n things that this node does not know of.
func unclaimed(request Send, carrier uint64, n int) message.Message {
	return told(request, message.Reply{Event: shard.Event{What: shard.Done, Token: carrier, Ahead: n}, Revision: carrier})
}

// printed is the word that what a guest has claimed is granted, and is this.
func printed(request Send, token uint64, q Request) message.Message {
	return told(request, message.Reply{Event: shard.Event{What: shard.Granted, Token: token, Entered: q.fingerprint()}, Revision: token})
}

// visits returns the session of a guest that this node carries as number 6, in shard 0.
func (b *bench) visits() *Session {
	b.tb.Helper()
	s := guestSession()
	c := b.carries(0, s, false)
	b.hears(nodeB, carried(b.expect("2: carry gus"), 6))
	if !c.over || c.Err != nil || c.None {
		b.tb.Fatalf("the guest is not carried: %v, %v", c.Err, c.None)
	}
	return s
}

func named(q Request, tag string) Request {
	q.Tag = tag
	return q
}

// Promise: P42: in each shard a Carry comes first, with the number that the guest's home has given.
func TestAGuestIsCarried(t *testing.T) {
	b := newBench(t, 2)
	b.hearsOf(1, nodeB, serves(benchTerm))
	s := b.visits()
	h := b.holds(s, named(Request{Key: "k"}, "x"), 7)
	if h.Err() != nil {
		t.Error(h.Err())
	}
	c := b.asksOf(1, s, named(Request{Key: "l"}, "x"))
	first := b.expect("2: carry gus")
	if cmd := commandOf(first).(shard.Carry); cmd.Carrier != 6 || cmd.Only || cmd.Guest != "gus" || cmd.TTL != benchTTL {
		t.Errorf("%+v", cmd)
	}
	b.pass(benchTTL / 20)
	for _, again := range b.takes() { // nothing else is sent before the answer
		if _, ok := commandOf(again).(shard.Carry); !ok {
			t.Errorf("sent %v", words(again))
		}
	}
	b.hearsOf(1, nodeB, carried(first, 0))
	then := b.expect("2: lock l")
	if cmd := commandOf(then).(shard.Tagged); cmd.Tag != "x" {
		t.Errorf("the tag is %q", cmd.Tag)
	}
	b.hearsOf(1, nodeB, granted(then, 8))
	if !c.over || c.Err != nil {
		t.Errorf("the lock: %v, %v", c.over, c.Err)
	}
	if c := b.carries(0, s, false); !c.over || c.Err != nil {
		t.Errorf("a shard in which it is carried: %v, %v", c.over, c.Err)
	}
}

// Promise: P42: where another node carries the guest on, the session is lost as a whole.
func TestAGuestIsCarriedOnElsewhere(t *testing.T) {
	for _, tt := range []struct {
		name string
		when func(b *bench, s *Session)
	}{
		{"as it is carried", func(b *bench, s *Session) {
			b.carries(1, s, false)
			b.hearsOf(1, nodeB, refused(b.expect("2: carry gus"), shard.Lost, 9))
		}},
		{"as something is asked for", func(b *bench, s *Session) {
			c := b.asksOf(1, s, named(Request{Key: "l"}, "x"))
			b.hearsOf(1, nodeB, refused(b.expect("2: carry gus"), shard.Lost, 9))
			if !c.over || c.Err != fault.ErrLost {
				b.tb.Errorf("what was asked for: %v, %v", c.over, c.Err)
			}
		}},
		{"as it is renewed", func(b *bench, s *Session) {
			b.pass(benchTTL / 2)
			b.hearsGuest(s)
			b.hears(nodeB, unknown(b.expect("2: renewal"), 9))
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := newBench(t, 2)
			b.hearsOf(1, nodeB, serves(benchTerm))
			s := b.visits()
			h := b.holds(s, named(Request{Key: "k"}, "x"), 7)
			tt.when(b, s)
			if s.Err() != fault.ErrLost || h.Err() != fault.ErrLost || b.leases() > 0 {
				t.Errorf("the session: %v, its hold: %v, %d leases", s.Err(), h.Err(), b.leases())
			}
		})
	}
}

// A shard in which there is nothing to carry on has no record of the guest.
func TestNothingToCarryOn(t *testing.T) {
	b := newBench(t, 2)
	b.hearsOf(1, nodeB, serves(benchTerm))
	s := b.visits()
	c := b.carries(1, s, true)
	first := b.expect("2: carry gus")
	if !commandOf(first).(shard.Carry).Only {
		t.Error("a record would be opened")
	}
	b.hearsOf(1, nodeB, refused(first, shard.Lost, 9))
	if !c.over || c.Err != nil || !c.None || b.leases() != 1 || s.Err() != nil {
		t.Errorf("the Carry: %v, %v, %v; %d leases; %v", c.over, c.Err, c.None, b.leases(), s.Err())
	}

	// Something is asked for while that is found out.
	c = b.carries(1, s, true)
	first = b.expect("2: carry gus")
	l := b.asksOf(1, s, named(Request{Key: "l"}, "x"))
	b.expects()
	b.hearsOf(1, nodeB, refused(first, shard.Lost, 9))
	second := b.expect("2: carry gus")
	if commandOf(second).(shard.Carry).Only || !c.None {
		t.Error("nothing is carried for what was asked for")
	}
	b.hearsOf(1, nodeB, carried(second, 0))
	b.hearsOf(1, nodeB, granted(b.expect("2: lock l"), 10))
	if !l.over || l.Err != nil {
		t.Errorf("the lock: %v, %v", l.over, l.Err)
	}
}

// Promise: P42: a guest's session is renewed when the guest was heard, and not else.
func TestAGuestIsRenewedWhenHeard(t *testing.T) {
	b := newBench(t)
	s := b.visits()
	begun := b.now
	h := b.holds(s, named(Request{Key: "k"}, "x"), 7)
	b.pass(benchTTL / 2)
	b.expects() // nobody was heard
	c := b.hearsGuest(s)
	heard := b.now
	if c.over {
		t.Error("the guest is answered before its lease is renewed")
	}
	b.hears(nodeB, alive(b.expect("2: renewal"), 8))
	if !c.over || c.Err != nil || h.Deadline() != heard+believed(benchTTL) || b.client.LeaseOf(s, b.now) != believed(h.Deadline()-b.now) {
		t.Errorf("the guest is answered: %v, %v; its hold until %v, its lease %v", c.over, c.Err, h.Deadline(), b.client.LeaseOf(s, b.now))
	}
	if c := b.hearsGuest(s); !c.over || c.Err != nil {
		t.Error("a lease that was just renewed is renewed again")
	}
	b.expects()
	b.pass(benchTTL/3 - 1)
	b.expects()
	b.pass(1) // it was heard after that renewal was sent
	if b.now == heard+benchTTL/3 {
		b.expects()
	}
	b.until(h.Deadline())
	if h.Err() != fault.ErrLost || s.Err() != fault.ErrLost {
		t.Errorf("silent since %v, it ends: %v, %v", begun, h.Err(), s.Err())
	}
}

// A guest that is heard while an answer is late waits for it, and hears of a loss.
func TestAGuestWaitsForItsRenewal(t *testing.T) {
	b := newBench(t)
	s := b.visits()
	b.holds(s, named(Request{Key: "k"}, "x"), 7)
	b.pass(benchTTL / 2)
	c, d := b.hearsGuest(s), b.hearsGuest(s)
	b.expect("2: renewal")
	b.pass(benchTTL)
	b.takes()
	if !c.over || c.Err != fault.ErrLost || !d.over || d.Err != fault.ErrLost {
		t.Errorf("%v, %v; %v, %v", c.over, c.Err, d.over, d.Err)
	}
	if e := b.hearsGuest(s); !e.over || e.Err != fault.ErrLost {
		t.Errorf("afterwards: %v, %v", e.over, e.Err)
	}
	if left := b.client.LeaseOf(s, b.now); left != 0 {
		t.Errorf("its lease lasts for %v", left)
	}
}

// Promise: P42: a request that a guest takes back is out once its Cancel has its result: the table has answered it, or has lost what it knew.
func TestAGuestTakesARequestBack(t *testing.T) {
	for _, tt := range []struct {
		name string
		ends func(b *bench, s *Session, cancel Send)
		want error
	}{
		{"the table has answered", func(b *bench, _ *Session, cancel Send) { b.hears(nodeB, done(cancel, 9)) }, nil},
		{"the table is lost", func(b *bench, _ *Session, _ Send) { b.do(Generation{Shard: 0, Name: 2, Quiet: benchTTL}) }, nil},
		{"another node carries the guest", func(b *bench, s *Session, cancel Send) {
			b.hears(nodeB, refused(cancel, shard.Lost, 9))
			b.pass(2 * benchTTL)
		}, fault.ErrLost},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := newBench(t)
			s := b.visits()
			c := b.asks(s, named(Request{Key: "k"}, "x"))
			c.Owner = t
			b.hears(nodeB, queued(b.expect("2: lock k"), 7))
			b.do(Abandon{c, fault.ErrNotHeld})
			undo, cancel := c.Undo, b.takes()[0]
			if c.Err != fault.ErrNotHeld || undo == nil || undo.Owner != t || undo.over {
				t.Fatalf("%v, %+v", c.Err, undo)
			}
			if tt.ends(b, s, cancel); !undo.over || undo.Err != tt.want {
				t.Errorf("%t, %v, want %v", undo.over, undo.Err, tt.want)
			}
		})
	}
}

// confirms asks for a confirmation of what is known of a guest in its home and in these shards.
func (b *bench) confirms(s *Session, shards ...int) *Call {
	b.tb.Helper()
	c := &Call{Kind: Confirm, Session: s, Shards: shards}
	b.do(Start{c})
	return c
}

// Promise: P42: a guest is told what this node knows of it once its home, and the shards that this is about, have answered renewals
// that began after it was known.
func TestAGuestIsConfirmed(t *testing.T) {
	t.Run("by each of the shards", func(t *testing.T) {
		b := newBench(t, 3)
		b.hearsOf(1, nodeB, serves(benchTerm))
		s := b.visits()
		b.asksOf(1, s, named(Request{Key: "l"}, "x"))
		b.hearsOf(1, nodeB, carried(b.expect("2: carry gus"), 6))
		b.hearsOf(1, nodeB, granted(b.expect("2: lock l"), 7))
		c := b.confirms(s, 1, 1, 2)
		if c.over { // it has nothing in shard 2
			t.Fatal("nobody was asked")
		}
		asked := b.expects("2: renewal", "2: renewal")
		b.hears(nodeB, alive(asked[0], 8))
		if c.over {
			t.Error("one of the shards has not answered")
		}
		b.hearsOf(1, nodeB, alive(asked[1], 8))
		if !c.over || c.Err != nil {
			t.Errorf("%v, %v", c.over, c.Err)
		}
		c = b.confirms(s)
		if b.hears(nodeB, alive(b.expect("2: renewal"), 8)); !c.over || c.Err != nil {
			t.Errorf("once more, by its home: %v, %v", c.over, c.Err)
		}
	})
	t.Run("by no earlier renewal", func(t *testing.T) {
		b := newBench(t)
		s := b.visits()
		b.pass(benchTTL / 2)
		b.hearsGuest(s)
		early := b.expect("2: renewal")
		c := b.confirms(s)
		later := b.expect("2: renewal")
		if b.hears(nodeB, alive(early, 8)); c.over {
			t.Error("a renewal that was sent before confirms it")
		}
		if b.hears(nodeB, alive(later, 8)); !c.over || c.Err != nil {
			t.Errorf("%v, %v", c.over, c.Err)
		}
	})
	t.Run("not if another node carries it", func(t *testing.T) {
		b := newBench(t)
		s := b.visits()
		c, d := b.confirms(s), b.confirms(s)
		if b.hears(nodeB, unknown(b.takes()[0], 9)); !c.over || c.Err != fault.ErrLost || d.Err != fault.ErrLost || s.Err() != fault.ErrLost {
			t.Errorf("%v, %v, %v; %v", c.over, c.Err, d.Err, s.Err())
		}
	})
	t.Run("again, if a renewal is lost", func(t *testing.T) {
		b := newBench(t)
		s := b.visits()
		b.pass(benchTTL / 2)
		b.hearsGuest(s)
		early := b.expect("2: renewal")
		c := b.confirms(s)
		b.expect("2: renewal")
		b.hears(nodeB, alive(early, 8))
		b.pass(benchTTL / 12)
		if b.hears(nodeB, alive(b.expect("2: renewal"), 8)); !c.over || c.Err != nil {
			t.Errorf("%v, %v", c.over, c.Err)
		}
	})
	t.Run("many at a time share renewals", func(t *testing.T) {
		b := newBench(t)
		s := b.visits()
		var calls []*Call
		for range 100 {
			calls = append(calls, b.confirms(s))
		}
		asked := b.takes()
		if len(asked) != maxConfirming {
			t.Errorf("%d renewals are sent", len(asked))
		}
		for _, q := range asked {
			b.hears(nodeB, alive(q, 8))
		}
		last := calls[len(calls)-1]
		if !calls[0].over || last.over {
			t.Errorf("the first: %v, the last: %v", calls[0].over, last.over)
		}
		b.hears(nodeB, alive(b.expect("2: renewal"), 8))
		for _, c := range calls {
			if !c.over || c.Err != nil {
				t.Fatalf("%v, %v", c.over, c.Err)
			}
		}
	})
	t.Run("in the next generation", func(t *testing.T) {
		b := newBench(t)
		s := b.visits()
		c := b.confirms(s)
		old := b.expect("2: renewal")
		b.do(Generation{Shard: 0, Name: 2})
		b.takes()
		b.hears(nodeB, alive(old, 8))
		b.hears(nodeB, of(2, serves(1)))
		b.hears(nodeB, of(2, carried(b.expect("2: carry gus"), 6)))
		if c.over {
			t.Error("nobody has confirmed it")
		}
		if b.hears(nodeB, of(2, alive(b.expect("2: renewal"), 8))); !c.over || c.Err != nil {
			t.Errorf("%v, %v", c.over, c.Err)
		}
	})
	t.Run("in a lease that is just begun", func(t *testing.T) {
		b := newBench(t, 2)
		b.hearsOf(1, nodeB, serves(benchTerm))
		s := b.visits()
		b.asksOf(1, s, named(Request{Key: "l"}, "x"))
		first := b.expect("2: carry gus")
		c := b.confirms(s, 1)
		b.hears(nodeB, alive(b.expect("2: renewal"), 8))
		b.hearsOf(1, nodeB, carried(first, 6))
		if sent := b.expects("2: lock l", "2: renewal"); c.over {
			t.Error("shard 1 was not asked")
		} else if b.hearsOf(1, nodeB, alive(sent[1], 8)); !c.over || c.Err != nil {
			t.Errorf("%v, %v", c.over, c.Err)
		}
	})
}

// Promise: P42: a guest's home shard orders its carriers: one that has no lease there any more does not carry the guest.
func TestALeaseAtHomeEndsTheSession(t *testing.T) {
	b := newBench(t)
	s := b.visits()
	b.do(Generation{Shard: 0, Name: 2}) // whose table is never heard
	if b.pass(benchTTL); s.Err() != fault.ErrLost {
		t.Errorf("the session: %v", s.Err())
	}
	if c := b.confirms(s); !c.over || c.Err != fault.ErrLost {
		t.Errorf("%v, %v", c.over, c.Err)
	}
}

// A guest that was heard is renewed as soon as that is due, also if nothing else happens.
func TestAGuestIsRenewedInTime(t *testing.T) {
	b := newBench(t)
	s := b.visits()
	b.pass(benchTTL / 4)
	b.step(Start{&Call{Kind: Hear, Session: s}})
	if due := b.client.Deadline(); due > b.now+benchTTL/12 {
		t.Errorf("its renewal is due after %v, and the next Tick comes after %v", benchTTL/12, due-b.now)
	}
}

// A node that ends does not keep a guest's request waiting.
func TestAGuestIsAnsweredAtTheEnd(t *testing.T) {
	for _, in := range []Input{Shut{}, LetGo{}} {
		b := newBench(t, 2)
		s := b.visits()
		b.holds(s, named(Request{Key: "k"}, "x"), 7)
		b.pass(benchTTL / 2)
		for _, c := range []*Call{b.hearsGuest(s), b.confirms(s), b.carries(1, s, false)} {
			s.End(fault.ErrClosed) // as the node does first
			if b.do(in); !c.over || c.Err != fault.ErrClosed {
				t.Errorf("%T: %v: %v, %v", in, c.Kind, c.over, c.Err)
			}
		}
	}
}

// A guest that gives up its wait is answered so.
func TestAGuestGoesAway(t *testing.T) {
	b := newBench(t)
	s := b.visits()
	b.holds(s, named(Request{Key: "k"}, "x"), 7)
	b.pass(benchTTL / 2)
	c := b.hearsGuest(s)
	b.expect("2: renewal")
	b.do(Abandon{c, fault.ErrClosed})
	if !c.over || c.Err != fault.ErrClosed {
		t.Errorf("%v, %v", c.over, c.Err)
	}
	b.hears(nodeB, alive(Send{Message: &message.Renewal{}}, 8))
}

// Promise: P42: a claim asks for nothing.
func TestClaims(t *testing.T) {
	claim := Request{Key: "k", Tag: "x", Claim: true}
	for _, tt := range []struct {
		name  string
		says  func(p Send) message.Message
		check func(c *Call) bool
	}{
		{"what is held is held", func(p Send) message.Message { return granted(p, 7) }, func(c *Call) bool { return c.Err == nil && c.Hold != nil && c.Hold.Token == 7 && !c.Ended }},
		{"what waits waits", func(p Send) message.Message { return queued(p, 7) }, func(c *Call) bool { return !c.over && c.Info.Queued }},
		{"what has ended has", func(p Send) message.Message {
			return told(p, message.Reply{Event: shard.Event{What: shard.Done, Token: 7}, Revision: 9})
		}, func(c *Call) bool { return c.Err == nil && c.Hold == nil && c.Ended && c.stamp == 7 }},
		{"what is not known is not", func(p Send) message.Message { return refused(p, shard.Lost, 9) }, func(c *Call) bool { return c.Err == fault.ErrNotHeld }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := newBench(t)
			c := b.asks(b.visits(), claim)
			b.hears(nodeB, tt.says(b.expect("2: claim x of k")))
			if !tt.check(c) {
				t.Errorf("%+v", c)
			}
		})
	}
}

// Promise: P42, C8: in the next generation the guest is carried first, and then its places are reported, with their tags.
func TestAGuestIsReported(t *testing.T) {
	b := newBench(t)
	s := b.visits()
	b.holds(s, named(Request{Key: "k"}, "x"), 7)
	waits := b.asks(s, named(Request{Key: "l"}, "y"))
	b.hears(nodeB, told(b.expect("2: lock l"), message.Reply{Event: shard.Event{What: shard.Queued, Entered: 8}, Revision: 8}))
	b.do(Generation{Shard: 0, Name: 2})
	b.takes()
	in := func(m message.Message) message.Message {
		switch m := m.(type) {
		case *message.Reply:
			m.Generation = 2
		case *message.Serving:
			m.Generation = 2
		}
		return m
	}
	b.hears(nodeB, in(serves(benchTerm)))
	first := b.expect("2: carry gus")
	if cmd := commandOf(first).(shard.Carry); cmd.Carrier != 6 {
		t.Errorf("%+v", cmd)
	}
	b.hears(nodeB, in(carried(first, 6)))
	all := b.expects("2: report l token 0", "2: report k token 7")
	for i, tag := range []string{"y", "x"} {
		if cmd, ok := commandOf(all[i]).(shard.Tagged); !ok || cmd.Tag != tag {
			t.Errorf("%+v", commandOf(all[i]))
		}
	}
	b.hears(nodeB, in(queued(all[0], 9)), in(granted(all[1], 7)))
	if waits.over || s.Err() != nil {
		t.Errorf("the one that waits: %v; the session: %v", waits.Err, s.Err())
	}
}

// Promise: P42, C8: a hold that only the guest knows of is reported, on its word.
func TestAGuestSaysWhatItHolds(t *testing.T) {
	for _, tt := range []struct {
		name string
		says func(p Send) message.Message
		want error
	}{
		{"the table has lost it", func(p Send) message.Message { return granted(p, 5) }, nil},
		{"the table has not, and knows of none", func(p Send) message.Message { return refused(p, shard.Late, 9) }, fault.ErrNotHeld},
		{"another one has it", func(p Send) message.Message { return refused(p, shard.Lost, 9) }, fault.ErrNotHeld},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := newBench(t)
			c := b.asks(b.visits(), Request{Key: "k", Tag: "x", Held: 5})
			p := b.expect("2: report k token 5")
			if r := commandOf(p).(shard.Tagged).Command.(shard.Report); r.Known < 5 || r.Weight != shard.Whole {
				t.Errorf("%+v", r)
			}
			b.hears(nodeB, tt.says(p))
			if !c.over || c.Err != tt.want || (c.Err == nil) != (c.Hold != nil) {
				t.Errorf("%v, %v, %v", c.over, c.Err, c.Hold)
			}
			b.expects()
		})
	}
}

// Promise: P42: a shard in which the node knows of nothing that the guest has may have what an earlier node asked for: its lease is
// renewed, counts, and ends the session with it.
func TestWhatAnEarlierNodeAskedFor(t *testing.T) {
	b := newBench(t, 2)
	b.hearsOf(1, nodeB, serves(benchTerm))
	s := b.visits()
	b.carries(1, s, false)
	b.hearsOf(1, nodeB, unclaimed(b.expect("2: carry gus"), 6, 1))
	b.pass(benchTTL / 2)
	c := b.hearsGuest(s)
	for _, q := range b.expects("2: renewal", "2: renewal") {
		if b.hearsOf(q.Shard, nodeB, alive(q, 8)); c.over != (q.Shard == 1) {
			t.Errorf("shard %d has answered, and the guest: %v", q.Shard, c.over)
		}
	}
	if left := b.client.LeaseOf(s, b.now); left != believed(believed(benchTTL)) {
		t.Errorf("the guest may believe for %v", left)
	}
	for range 4 { // from now on only its home answers
		b.pass(benchTTL / 5)
		b.hearsGuest(s)
		for _, q := range b.takes() {
			if is[*message.Renewal](q) && q.Shard == 0 {
				b.hears(nodeB, alive(q, 8))
			}
		}
	}
	if left := b.client.LeaseOf(s, b.now); left > benchTTL/4 {
		t.Errorf("the guest may believe for %v, and one of the shards has not answered", left)
	}
	b.pass(benchTTL / 4)
	if s.Err() != fault.ErrLost || b.leases() != 0 {
		t.Errorf("the session: %v, %d leases", s.Err(), b.leases())
	}
}

// A caller that carries a guest, and gives up, is answered so. The Carry is not repeated, no renewal names it, and its answer changes nothing.
func TestACarryIsAbandoned(t *testing.T) {
	b := newBench(t, 2)
	b.hearsOf(1, nodeB, serves(benchTerm))
	s := b.visits()
	c := b.carries(1, s, false)
	p := b.expect("2: carry gus")
	b.do(Abandon{c, fault.ErrClosed})
	if !c.over || c.Err != fault.ErrClosed || b.leases() != 1 {
		t.Errorf("%v, %v; %d leases", c.over, c.Err, b.leases())
	}
	b.hearsOf(1, nodeB, carried(p, 0))
	b.pass(benchTTL / 2)
	b.hearsGuest(s)
	if q := renewalOf(b.expect("2: renewal")); len(q.Abandoned) > 0 {
		t.Errorf("a renewal names %v", q.Abandoned)
	}

	// What was asked for meanwhile has a Carry of its own.
	c = b.carries(1, s, true)
	first := b.expect("2: carry gus")
	l := b.asksOf(1, s, named(Request{Key: "l"}, "x"))
	b.do(Abandon{c, fault.ErrClosed})
	second := b.expect("2: carry gus")
	b.hearsOf(1, nodeB, refused(first, shard.Lost, 8), carried(second, 0))
	b.hearsOf(1, nodeB, granted(b.expect("2: lock l"), 10))
	if commandOf(second).(shard.Carry).Only || !l.over || l.Err != nil {
		t.Errorf("the lock: %v, %v", l.over, l.Err)
	}
}

// Promise: P42: a shard has one record of a guest, also of one that was not heard for long: what it asks for goes into the lease that there is.
func TestAGuestHasOneLease(t *testing.T) {
	b := newBench(t)
	s := b.visits()
	b.pass(believed(benchTTL) - time.Second)
	c := b.asks(s, named(Request{Key: "k"}, "x"))
	b.hears(nodeB, granted(b.expect("2: lock k"), 7))
	if b.leases() != 1 || c.over && c.Err != nil {
		t.Errorf("%d leases; %v", b.leases(), c.Err)
	}
}

// Promise: P42, C8: what an earlier node has asked for, and this one has not claimed, is not reported when the table is lost: the session ends.
func TestWhatIsUnclaimedIsNotReported(t *testing.T) {
	lock := named(Request{Key: "k"}, "x")
	claim := lock
	claim.Claim = true
	v3 := Request{Key: "k", Tag: "x", Mode: Operates, Operation: &shard.Operation{Op: shard.Update, Version: "v3"}}
	update := Request{Key: "k", Tag: "x", Claim: true, Mode: Operates, Operation: &shard.Operation{Op: shard.Update}}
	for _, tt := range []struct {
		name string
		when func(b *bench, s *Session)
		ends bool
	}{
		{"it is not claimed", func(*bench, *Session) {}, true},
		{"it is asked for again", func(b *bench, s *Session) {
			b.asks(s, lock)
			b.hears(nodeB, printed(b.expect("2: lock k"), 7, lock))
			b.hears(nodeB, unclaimed(b.expect("2: carry gus"), 6, 0))
		}, false},
		{"it is claimed as what it is", func(b *bench, s *Session) {
			b.asks(s, claim)
			b.hears(nodeB, printed(b.expect("2: claim x of k"), 7, lock))
			b.hears(nodeB, unclaimed(b.expect("2: carry gus"), 6, 0))
		}, false},
		{"it is claimed as something like it", func(b *bench, s *Session) {
			b.asks(s, update)
			b.hears(nodeB, printed(b.expect("2: claim x of k"), 7, v3))
			b.hears(nodeB, unclaimed(b.expect("2: carry gus"), 6, 0))
		}, true},
		{"a place is claimed, of which only the tag is known", func(b *bench, s *Session) {
			b.asks(s, claim)
			b.hears(nodeB, enters(b.expect("2: claim x of k"), 5))
			b.hears(nodeB, unclaimed(b.expect("2: carry gus"), 6, 0))
		}, false},
		{"another one is claimed", func(b *bench, s *Session) {
			b.asks(s, named(Request{Key: "l"}, "x"))
			b.hears(nodeB, granted(b.expect("2: lock l"), 7))
			b.hears(nodeB, unclaimed(b.expect("2: carry gus"), 6, 1))
		}, true},
		{"two are claimed at a time", func(b *bench, s *Session) {
			b.asks(s, lock)
			b.hears(nodeB, printed(b.expect("2: lock k"), 7, lock))
			first := b.expect("2: carry gus")
			b.asks(s, named(Request{Key: "l"}, "x"))
			b.hears(nodeB, granted(b.expect("2: lock l"), 8))
			b.hears(nodeB, unclaimed(first, 6, 1))
			b.hears(nodeB, unclaimed(b.expect("2: carry gus"), 6, 0))
		}, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := newBench(t)
			s := guestSession()
			b.carries(0, s, false)
			b.hears(nodeB, unclaimed(b.expect("2: carry gus"), 6, 1))
			tt.when(b, s)
			b.expects()
			b.do(Generation{Shard: 0, Name: 2})
			if ended := s.Err() == fault.ErrLost; ended != tt.ends || b.client.LeaseOf(s, b.now) == 0 != tt.ends {
				t.Errorf("the session ends: %v, the guest may believe for %v", s.Err(), b.client.LeaseOf(s, b.now))
			}
			if b.takes(); tt.ends {
				return
			}
			b.hears(nodeB, of(2, serves(1)))
			if first := commandOf(b.takes()[0]).(shard.Carry); !first.Complete {
				t.Error("the table is not told that all is reported")
			}
		})
	}
}

// Promise: P42, C8: a table that grants nothing yet knows what a guest has by reports alone. So a node that carries the guest for the first time
// may not know of everything, until the table grants.
func TestWhatNobodyHasReported(t *testing.T) {
	quiet := func(p Send, e shard.Event) message.Message {
		e.Quiet = benchTTL
		return told(p, message.Reply{Event: e, Revision: 7})
	}
	for _, tt := range []struct {
		name  string
		says  shard.Event
		quiet bool
		want  bool
	}{
		{"the table has a record", shard.Event{What: shard.Done, Token: 6}, true, true},
		{"it has none", shard.Event{What: shard.Refused, Reason: shard.Lost}, true, true},
		{"it grants", shard.Event{What: shard.Done, Token: 6}, false, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := newBench(t, 2)
			b.hearsOf(1, nodeB, serves(benchTerm))
			s := b.visits()
			c := b.carries(1, s, true)
			p := b.expect("2: carry gus")
			says := told(p, message.Reply{Event: tt.says, Revision: 7})
			if tt.quiet {
				says = quiet(p, tt.says)
			}
			b.hearsOf(1, nodeB, says)
			want := time.Duration(0)
			if tt.want {
				want = b.now + benchTTL
			}
			if got := b.client.UnsureUntil(s); !c.over || c.Err != nil || got > b.now != tt.want || tt.want && got != want {
				t.Errorf("unsure until %v, want %v; %v, %v", got, want, c.over, c.Err)
			}
		})
	}
	t.Run("it was carried before, and may have been overtaken", func(t *testing.T) {
		b := newBench(t)
		s := b.visits()
		b.do(Generation{Shard: 0, Name: 2, Quiet: benchTTL})
		b.takes()
		b.hears(nodeB, of(2, serves(1)))
		b.hears(nodeB, of(2, quiet(b.expect("2: carry gus"), shard.Event{What: shard.Done, Token: 6})))
		if got, want := b.client.UnsureUntil(s), b.now+benchTTL; got != want {
			t.Errorf("unsure until %v, want %v", got, want)
		}
	})
}

// Promise: P42, C8: a place in a queue that is known by its tag alone is lost with the table, and the guest hears so.
func TestAPlaceThatIsKnownByItsTag(t *testing.T) {
	b := newBench(t)
	s := b.visits()
	c := b.asks(s, Request{Key: "k", Tag: "x", Claim: true})
	b.hears(nodeB, enters(b.expect("2: claim x of k"), 5))
	b.do(Generation{Shard: 0, Name: 2})
	b.takes()
	b.hears(nodeB, of(2, serves(1)))
	b.hears(nodeB, of(2, carried(b.expect("2: carry gus"), 6)))
	b.hears(nodeB, of(2, refused(b.expect("2: claim x of k"), shard.Lost, 8)))
	if !c.over || c.Err != fault.ErrNotHeld || s.Err() != nil {
		t.Errorf("%v, %v; the session: %v", c.over, c.Err, s.Err())
	}
}

// Promise: P42: a node that has not carried the guest in the table before knows of nothing that it had there.
func TestANewCarrierIsNotComplete(t *testing.T) {
	b := newBench(t, 2)
	b.hearsOf(1, nodeB, serves(benchTerm))
	s := b.visits()
	b.carries(1, s, false)
	p := b.expect("2: carry gus")
	b.do(Generation{Shard: 1, Name: 2})
	b.hearsOf(1, nodeB, of(2, serves(1)))
	if again := commandOf(b.takes()[0]).(shard.Carry); commandOf(p).(shard.Carry).Complete || again.Complete {
		t.Error("a table is told that all is reported")
	}
}

// Promise: P42: a guest is told no longer lease than MaxTTL, also if it was lowered while the first message was on its way.
func TestAGuestIsToldNoLongerLeaseThanTheLimit(t *testing.T) {
	b := newBench(t)
	s := guestSession()
	b.carries(0, s, false)
	b.hears(nodeB, limited(carried(b.expect("2: carry gus"), 6)))
	b.takes()
	if left, most := b.client.LeaseOf(s, b.now), believed(shortTTL); left == 0 || left > most {
		t.Errorf("the guest may believe for %v, and leases last for %v at most", left, most)
	}
}

// Promise: P42: a request under the tag of one that is being given back, or cancelled, waits until that is confirmed: it would be answered with
// what is about to end.
func TestARequestWaitsForTheEndOfTheLast(t *testing.T) {
	b := newBench(t)
	s := b.visits()
	q := named(Request{Key: "k"}, "x")
	u := b.unlocks(b.holds(s, q, 7))
	release := b.expect("2: unlock k token 7")
	c, other := b.asks(s, q), b.asks(s, named(Request{Key: "k"}, "y"))
	b.hears(nodeB, queued(b.expect("2: lock k"), 8)) // the other one
	b.hears(nodeB, done(release, 9))
	b.hears(nodeB, granted(b.expect("2: lock k"), 10))
	if !u.over || u.Err != nil || !c.over || c.Err != nil || c.Hold.Token != 10 || other.over {
		t.Errorf("the release: %v, %v; the request: %v, %v; the other one: %v", u.over, u.Err, c.over, c.Err, other.over)
	}
	c = b.asks(s, named(Request{Key: "l"}, "x"))
	b.hears(nodeB, queued(b.expect("2: lock l"), 11))
	b.do(Abandon{c, fault.ErrClosed})
	cancel := b.expect("2: cancel")
	b.asks(s, named(Request{Key: "l"}, "x"))
	b.expects()
	b.hears(nodeB, done(cancel, 12))
	b.expect("2: lock l")
}

// Promise: P42: a shard that has nothing of the guest does not end its lease in the others when it falls silent, and keeps no request waiting.
func TestAnIdleShardEndsNoLease(t *testing.T) {
	for _, tt := range []struct {
		name string
		when func(b *bench, s *Session)
	}{
		{"it has never answered", func(b *bench, s *Session) { b.asksOf(1, s, named(Request{Key: "l"}, "x")) }},
		{"what it had was given back", func(b *bench, s *Session) {
			c := b.asksOf(1, s, named(Request{Key: "l"}, "x"))
			b.hearsOf(1, nodeB, carried(b.expect("2: carry gus"), 6))
			b.hearsOf(1, nodeB, granted(b.expect("2: lock l"), 8))
			b.unlocks(c.Hold)
			b.hearsOf(1, nodeB, done(b.expect("2: unlock l token 8"), 9))
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := newBench(t, 2)
			b.hearsOf(1, nodeB, serves(benchTerm))
			s := b.visits()
			b.holds(s, named(Request{Key: "k"}, "x"), 7)
			tt.when(b, s)
			var c *Call
			for range 18 {
				b.pass(benchTTL / 7)
				c = b.hearsGuest(s)
				for _, q := range b.takes() {
					if is[*message.Renewal](q) && q.Shard == 0 {
						b.hears(nodeB, alive(q, 8))
					}
				}
			}
			if left := b.client.LeaseOf(s, b.now); s.Err() != nil || left < benchTTL/3 || !c.over || c.Err != nil {
				t.Errorf("the session: %v; its lease: %v; the guest is answered: %v, %v", s.Err(), left, c.over, c.Err)
			}
		})
	}
}

// A use is dropped by its name through a node that has claimed the pull, and does not know for whom that was.
func TestAUseIsDroppedThroughALaterCarrier(t *testing.T) {
	b := newBench(t)
	s := b.visits()
	claim := Request{Key: "r", Tag: "x", Claim: true, Mode: Operates, Operation: &shard.Operation{Op: shard.Pull, User: "gus", Durable: true, Alone: true}}
	c := b.asks(s, claim)
	b.hears(nodeB, granted(b.expect("2: claim x of r"), 7))
	u := b.unlocks(c.Hold)
	b.hears(nodeB, told(b.expect("2: end r token 7"), message.Reply{Event: shard.Event{What: shard.Done, Token: 9}, Revision: 9})) // the use of "app"
	if !u.over || u.Err != nil || u.Use == nil {
		t.Fatalf("the end: %v, %v, %v", u.over, u.Err, u.Use)
	}
	b.do(Start{&Call{Kind: Drop, Session: s, Request: Request{Key: "r", Operation: &shard.Operation{User: "app"}}}})
	if d := commandOf(b.takes()[0]).(shard.Drop); d.User != "app" || d.Stamp < 9 {
		t.Errorf("the drop of the use of %q names the stamp %d, and the use has 9", d.User, d.Stamp)
	}
}

// A request of a guest, and a Tick, cost the client no more if there are many guests.
func TestManyGuests(t *testing.T) {
	b := newBench(t)
	b.play = func(p Send) { b.sent = append(b.sent, p) }
	visits := func(i int) *Session {
		s := guestSession()
		s.Guest = fmt.Sprint("gus", i)
		b.step(Start{&Call{Kind: Carry, Session: s}})
		b.step(Received{From: nodeB, Message: carried(b.sent[len(b.sent)-1], uint64(6+i))})
		b.sent = nil
		return s
	}
	s := visits(0)
	cost := func() float64 {
		return testing.AllocsPerRun(100, func() {
			c := &Call{Kind: Hear, Session: s}
			if b.step(Start{c}); !c.over || b.client.LeaseOf(s, b.now) == 0 {
				t.Fatal("it waits")
			}
			b.step(Tick{})
			b.events, b.finished = nil, make(map[*Call]bool)
		})
	}
	few := cost()
	for i := range 1000 {
		visits(i + 1)
	}
	begun := time.Now()
	many := cost()
	if took := time.Since(begun) / 100; many > few || took > 10*time.Millisecond {
		t.Errorf("a request allocates %v with one guest, and %v with a thousand; it takes %v", few, many, took)
	}
}
