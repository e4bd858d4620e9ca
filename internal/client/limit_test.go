package client

import (
	"testing"
	"time"

	"github.com/lockmesh/mesh/internal/message"
	"github.com/lockmesh/mesh/shard"
)

const shortTTL = benchTTL / 4

// limited is a leader's message, with the limit of leases that it knows of.
func limited(m message.Message) message.Message {
	switch m := m.(type) {
	case *message.Reply:
		m.Limit = shortTTL
	case *message.Answer:
		m.Limit = shortTTL
	}
	return m
}

// Promise: C5, G5: once a leader says that leases may not last so long any more, it confirms no longer belief: that of a renewal lasts
// for the new time, and so does that in what is granted. What was believed before lasts as long as it was to. Renewals come in the
// new time's third.
func TestALeaseIsShortened(t *testing.T) {
	b := newBench(t)
	begun := b.now
	first := b.holds(b.own, Request{Key: "k"}, 7)
	ends := func(h *Hold, want time.Duration, when string) {
		t.Helper()
		if got := h.Deadline(); got != want {
			t.Errorf("%s the belief ends at %v, want %v", when, got-begun, want-begun)
		}
	}
	b.until(begun + benchTTL/3)
	q := b.expect("2: renewal")
	b.hears(nodeB, limited(alive(q, 7)))
	ends(first, begun+believed(benchTTL), "after a renewal that reaches less far,")
	b.expects()
	b.until(begun + benchTTL/3 + shortTTL/3 - 1)
	b.expects()
	b.pass(1)
	asked := b.now
	b.hears(nodeB, limited(alive(b.expect("2: renewal"), 7)))
	for range 12 {
		b.pass(shortTTL / 3)
		asked = b.now
		b.hears(nodeB, limited(alive(b.expect("2: renewal"), 7)))
	}
	ends(first, asked+believed(shortTTL), "later")
	next := b.asks(b.own, Request{Key: "m"})
	b.hears(nodeB, limited(granted(b.expect("2: lock m"), 8)))
	ends(next.Hold, asked+believed(shortTTL), "of another hold")
}

// Promise: C5, G5: a request that was on its way when the limit came makes no longer belief, whether it is granted at once or later.
func TestALeaseIsShortWhenItIsGranted(t *testing.T) {
	for _, waits := range []bool{false, true} {
		b := newBench(t)
		begun := b.now
		c := b.asks(b.own, Request{Key: "k"})
		p := b.expect("2: lock k")
		if waits {
			b.hears(nodeB, queued(p, 6)) // by a leader that has not heard of it
		}
		b.pass(200 * time.Millisecond)
		b.takes()
		b.hears(nodeB, limited(granted(p, 7)))
		if !c.over || c.Hold.Deadline() != begun+believed(shortTTL) {
			t.Errorf("waits %t: granted %t, until %v", waits, c.over, c.Hold.Deadline()-begun)
		}
		late := newBench(t)
		begun = late.now
		c = late.asks(late.own, Request{Key: "k"})
		p = late.expect("2: lock k")
		late.hears(nodeB, queued(p, 6))
		late.until(begun + believed(shortTTL) + time.Second)
		late.takes()
		late.hears(nodeB, limited(granted(p, 7)))
		q := late.expectTo("renewal")
		if c.over {
			t.Error("a grant is believed for longer than a lease may last")
		}
		asked := late.now
		late.hears(nodeB, limited(alive(q, 8)))
		if !c.over || c.Hold.Deadline() != asked+believed(shortTTL) {
			t.Errorf("confirmed: %t, until %v", c.over, c.Hold.Deadline()-asked)
		}
	}
}

// Promise: C5: a fixed time that a leader confirms lasts no longer than a lease may by then.
func TestAFixedTimeIsShortened(t *testing.T) {
	b := newBench(t)
	c := b.asks(b.own, Request{Key: "k", MaxHold: 30 * time.Second})
	b.hears(nodeB, granted(b.expect("2: lock k"), 7))
	sent := b.now
	b.hears(nodeB, limited(done(b.expect("2: fix k token 7"), 8)))
	if !c.over || c.Hold.Deadline() != sent+believed(shortTTL) {
		t.Errorf("it lasts until %v", c.Hold.Deadline()-sent)
	}
}

// Promise: C5: what the node itself knows of the limit counts for all leases, and for those of sessions that are opened later; a longer one
// for later leases alone. A leader's word is about the lease alone to which it speaks.
func TestALimitOfTheNode(t *testing.T) {
	b := newBench(t)
	b.do(Limited{benchTTL})
	begun := b.now
	k := b.holds(b.own, Request{Key: "k"}, 7)
	b.do(Limited{shortTTL})
	asked := b.now
	b.hears(nodeB, alive(b.expect("2: renewal"), 7)) // at once
	b.pass(believed(benchTTL))
	b.takes()
	if begun+believed(benchTTL) != k.Deadline() || asked != begun {
		t.Errorf("it lasts until %v", k.Deadline()-begun)
	}
	s := NewSession(false, benchTTL)
	c := b.asks(s, Request{Key: "m"})
	a := commandOf(b.expect("2: lock m")).(shard.Acquire)
	b.do(Limited{10 * benchTTL})
	if a.TTL != shortTTL || c.lease.ttl != shortTTL {
		t.Errorf("a session of %v asks for a lease of %v", benchTTL, a.TTL)
	}
	o := b.asks(NewSession(false, benchTTL), Request{Key: "n"})
	if a := commandOf(b.expect("2: lock n")).(shard.Acquire); a.TTL != benchTTL {
		t.Errorf("after a raise it asks for a lease of %v", a.TTL)
	}
	b.hears(nodeB, limited(granted(sending(c), 9)))
	if o.lease.ttl != benchTTL {
		t.Errorf("what a leader says of another lease makes it last %v", o.lease.ttl)
	}
}

// Promise: C5: when the leases of the generations before are over, reports tell of those that there are now.
func TestReportsForgetLongerLeases(t *testing.T) {
	b := newBench(t)
	b.do(Generation{Name: 2, Quiet: 2 * benchQuiet})
	b.pass(2*benchQuiet - time.Second)
	b.do(Generation{Name: 3, Quiet: benchQuiet})
	if q := b.shard().earlier.Quiet; q != 2*benchQuiet {
		t.Errorf("before, they tell of %v", q)
	}
	b.pass(time.Second)
	b.do(Generation{Name: 4, Quiet: benchQuiet})
	if q := b.shard().earlier.Quiet; q != 2*benchQuiet {
		t.Errorf("two generations later they tell of %v", q)
	}
	b.pass(2 * benchQuiet)
	b.do(Generation{Name: 5, Quiet: benchQuiet})
	if q := b.shard().earlier.Quiet; q != benchQuiet {
		t.Errorf("when they are over, they tell of %v", q)
	}
}
