package client

import (
	"testing"
	"time"

	"github.com/lockmesh/mesh/internal/fault"
	"github.com/lockmesh/mesh/internal/message"
	"github.com/lockmesh/mesh/shard"
)

// resizes starts a Resize of k from 3 to 5.
func (b *bench) resizes() *Call {
	b.tb.Helper()
	c := &Call{Kind: Resize, Session: b.own, Request: Request{Key: "k", Mode: Permits, Weight: 1, Capacity: 5}, From: 3}
	b.do(Start{c})
	return c
}

// Promise: P38: a Resize is repeated until it is answered, under one number; and asked for again in another lease only if it cannot have happened.
func TestResize(t *testing.T) {
	ended := func(t *testing.T, c *Call, want error) {
		t.Helper()
		if !c.over || c.Err != want {
			t.Errorf("over %t with %v, want %v", c.over, c.Err, want)
		}
	}
	t.Run("it is repeated", func(t *testing.T) {
		b := newBench(t)
		c := b.resizes()
		first := commandOf(b.expectTo("resize k")).(shard.Resize)
		if first.From != 3 || first.To != 5 || first.TTL != benchTTL || first.Name != "a" {
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
	t.Run("it hears what the capacity is", func(t *testing.T) {
		b := newBench(t)
		c := b.resizes()
		b.hears(nodeB, told(b.expectTo("resize k"), message.Reply{Event: shard.Event{What: shard.Refused, Reason: shard.Capacity, Capacity: 4}, Revision: 7}))
		if ended(t, c, fault.ErrCapacity); c.Now != 4 {
			t.Errorf("the capacity is %d", c.Now)
		}
	})
	t.Run("its caller gives up", func(t *testing.T) {
		b := newBench(t)
		c := b.resizes()
		b.expectTo("resize k")
		b.do(Abandon{c, fault.ErrUnconfirmed})
		ended(t, c, fault.ErrUnconfirmed)
		b.pass(time.Second)
		b.expects()
	})
	t.Run("its record was never there", func(t *testing.T) {
		b := newBench(t)
		c := b.resizes()
		first := b.expectTo("resize k")
		b.hears(nodeB, refused(first, shard.Reopen, 9))
		again := b.expectTo("resize k")
		if sessionOf(again) == sessionOf(first) {
			t.Error("it is asked for again under a number that means nothing any more")
		}
		b.hears(nodeB, done(again, 10))
		ended(t, c, nil)
	})
	t.Run("its record may have been there, and ended", func(t *testing.T) {
		b := newBench(t)
		c := b.resizes()
		first := b.expectTo("resize k")
		b.pass(benchTTL)
		b.takes()
		b.hears(nodeB, refused(first, shard.Reopen, 9))
		ended(t, c, fault.ErrUnconfirmed)
	})
	t.Run("another generation", func(t *testing.T) {
		b := newBench(t)
		c := b.resizes()
		b.expectTo("resize k")
		b.goesOver(2)
		again := sending(c)
		b.hears(nodeB, of(2, done(again, 1001)))
		ended(t, c, nil)
	})
}

// Promise: P38, C8: a hold is reported with the capacity that its grant has told.
func TestReportsOfWhatWasResized(t *testing.T) {
	b := newBench(t)
	c := b.asks(b.own, Request{Key: "k", Mode: Permits, Weight: 1, Capacity: 3})
	b.hears(nodeB, told(b.expectTo("lock k"), message.Reply{Event: shard.Event{What: shard.Granted, Token: 7, Capacity: 5}, Revision: 7}))
	if !c.over || c.Err != nil {
		t.Fatalf("%t, %v", c.over, c.Err)
	}
	b.do(Generation{Name: 2, Quiet: benchQuiet})
	for _, s := range b.takes() {
		if r, ok := commandOf(s).(shard.Report); ok && r.Capacity != 5 {
			t.Errorf("reported %+v", r)
		}
	}
}
