package client

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/lockmesh/mesh/internal/fault"
	"github.com/lockmesh/mesh/internal/message"
	"github.com/lockmesh/mesh/internal/replica"
	"github.com/lockmesh/mesh/shard"
)

// detects asks for k, in a context that holds the token 9, and wants to know of a deadlock.
var detects = Request{Key: "k", Within: []shard.Grant{{Shard: 0, Token: 9}}, Detects: true}

// inCircle makes a Lock that detects, and waits in the queue.
func (b *bench) inCircle(q Request) *Call {
	b.tb.Helper()
	return b.waits(b.own, q, 11)
}

// looksSent returns the questions who waits that were sent since the last call, and forgets all else.
func (b *bench) looksSent() (all []Send) {
	for _, s := range b.takes() {
		if words(s) == "look for waits" {
			all = append(all, s)
		}
	}
	return all
}

// oneLook returns the one question that was sent, which must be for the grants of these tokens.
func (b *bench) oneLook(tokens ...uint64) Send {
	b.tb.Helper()
	all := b.looksSent()
	if len(all) != 1 {
		b.tb.Fatalf("%d questions were sent, want one", len(all))
	}
	var got []uint64
	for _, g := range all[0].Message.(*message.Inspect).Within {
		got = append(got, g.Token)
	}
	if !slices.Equal(got, tokens) {
		b.tb.Fatalf("asked for %v, want %v", got, tokens)
	}
	return all[0]
}

// tells answers a question who waits.
func (b *bench) tells(question Send, waits ...shard.Wait) {
	b.tb.Helper()
	q := question.Message.(*message.Inspect)
	by := byB
	by.Generation = q.Generation
	b.hears(nodeB, &message.State{State: replica.State{Ref: q.Ref, Revision: 12, Page: shard.Page{Waits: waits}}, Leadership: by})
}

// itself is what a leader tells of c, and another what it tells of the one for whom c waits.
func itself(c *Call) shard.Wait {
	return shard.Wait{
		Session: c.lease.id, Number: c.number, Name: "a", Key: "k", Needs: shard.Whole, Capacity: shard.Whole, Within: c.Request.Within, Detects: true,
		Holders: []shard.Holding{{Token: 20, Weight: shard.Whole}},
	}
}

func another() shard.Wait {
	return shard.Wait{
		Session: shard.SessionID{Node: nodeC, Number: 1}, Number: 1, Name: "c", Key: "o", Needs: shard.Whole, Capacity: shard.Whole, Within: []shard.Grant{{Token: 20}},
		Holders: []shard.Holding{{Token: 9, Weight: shard.Whole}},
	}
}

func silent(w shard.Wait, d time.Duration) shard.Wait {
	w.Silent = d
	return w
}

// firstReading plays the first reading, which finds a circle.
func (b *bench) firstReading(c *Call) {
	b.tb.Helper()
	b.tells(b.oneLook(9), itself(c))
	b.tells(b.oneLook(20), another())
	b.tells(b.oneLook(9), itself(c))
	if n := len(b.looksSent()); n != 0 || c.over {
		b.tb.Fatalf("%d questions for what is known; over: %t", n, c.over)
	}
}

// Promise: P50: a Lock that waits within a grant says so in its command, and looks after a second. It gives up after a second reading, once all in the
// circle were heard of since the first one.
func TestALockLooksForACircle(t *testing.T) {
	b := newBench(t)
	b.do(Start{&Call{Kind: Lock, Session: b.own, Request: detects}})
	if cmd, ok := commandOf(b.expect("2: lock k")).(shard.Within); !ok || !slices.Equal(cmd.Grants, detects.Within) || !cmd.Detects {
		t.Errorf("sent %+v", cmd)
	}
	b = newBench(t)
	c := b.inCircle(detects)
	b.pass(searchAfter - 1)
	if n := len(b.looksSent()); n > 0 {
		t.Errorf("it looks %d times within a second", n)
	}
	b.pass(1)
	b.firstReading(c)
	first := b.now
	for _, tt := range []struct {
		self, other time.Duration // for how long they were silent at the second reading
		over        bool
	}{
		{shard.MaxDuration, shard.MaxDuration, false}, {time.Millisecond, 2 * time.Second, false}, {3 * time.Second, time.Millisecond, false},
		{time.Millisecond, time.Second, true},
	} {
		b.pass(searchAfter)
		all := b.looksSent()
		if len(all) != 1 {
			t.Fatalf("%v after the first reading, %d questions are sent", b.now-first, len(all))
		}
		b.tells(all[0], silent(itself(c), tt.self), silent(another(), tt.other))
		if c.over != tt.over {
			t.Fatalf("%v after the first reading: over is %t, %v", b.now-first, c.over, c.Err)
		}
	}
	var d *Deadlock
	if !errors.As(c.Err, &d) || !slices.Equal(d.Circle, []Waiting{{"k", "a", 20}, {"o", "c", 9}}) || len(b.client.searches) != 0 {
		t.Errorf("%v, %+v", c.Err, d)
	}
	b.expect("2: cancel")
}

// Promise: P50: a circle that is gone, or another one, at the second reading is none. The Lock looks on.
func TestACircleThatIsGone(t *testing.T) {
	for name, second := range map[string]func(c *Call) []shard.Wait{
		"nobody waits":           func(*Call) []shard.Wait { return nil },
		"it waits alone":         func(c *Call) []shard.Wait { return []shard.Wait{itself(c)} },
		"the other one holds it": func(c *Call) []shard.Wait { w := another(); w.Number++; return []shard.Wait{itself(c), w} },
	} {
		b := newBench(t)
		c := b.inCircle(detects)
		b.pass(searchAfter)
		b.firstReading(c)
		b.pass(searchAfter)
		b.tells(b.looksSent()[0], second(c)...)
		b.pass(searchAfter)
		if b.oneLook(9); c.over {
			t.Errorf("%s: %v", name, c.Err)
		}
	}
}

// Promise: P50: who waits for one that goes on looks less and less often, also if nobody answers.
func TestLooksGrowRare(t *testing.T) {
	b := newBench(t)
	c := b.inCircle(detects)
	for _, pause := range []time.Duration{1, 1, 2, 4, 8, 10, 10} {
		b.pass(pause*time.Second - 1)
		if n := len(b.looksSent()); n > 0 {
			t.Fatalf("it looks before %v s are over", pause)
		}
		b.pass(1)
		b.tells(b.oneLook(9), itself(c))
		b.tells(b.oneLook(20))
	}
	b = newBench(t)
	c = b.inCircle(detects)
	b.pass(searchAfter + noQuorumAfter)
	b.looksSent()
	b.pass(searchAfter)
	if b.oneLook(9); c.over {
		t.Errorf("%v", c.Err)
	}
}

// Promise: P50: a shard without a majority hides no circle of others.
func TestASilentShardHidesNoCircle(t *testing.T) {
	b := newBench(t, 2)
	c := b.inCircle(detects)
	b.pass(searchAfter)
	b.tells(b.oneLook(9), itself(c))
	answer := func(want int, waits ...shard.Wait) {
		t.Helper()
		n := 0
		for _, s := range b.looksSent() {
			if s.Shard == 0 {
				n++
				b.tells(s, waits...)
			}
		}
		if n != want {
			t.Fatalf("%d questions for shard 0, want %d", n, want)
		}
	}
	answer(1, another())
	b.pass(noQuorumAfter)
	answer(1, itself(c))
	b.pass(noQuorumAfter)
	answer(0)
	b.pass(searchAfter)
	if answer(1, itself(c), another()); !c.over {
		t.Errorf("it waits on")
	}
	if !errors.Is(c.Err, fault.ErrDeadlock) {
		t.Errorf("%v", c.Err)
	}
}

// Promise: P50: only a Lock that wants to know, and within whose grants others can wait, looks. So many do at a time.
func TestWhoLooks(t *testing.T) {
	for name, q := range map[string]Request{
		"within nothing":       {Key: "k", Detects: true},
		"does not want to":     {Key: "k", Within: detects.Within},
		"does not wait for it": {Key: "k", Within: detects.Within, Detects: true, Try: true},
	} {
		b := newBench(t)
		c := b.inCircle(q)
		b.pass(time.Minute)
		if n := len(b.looksSent()); n > 0 || c.over {
			t.Errorf("%s: it looks %d times", name, n)
		}
		if _, ok := c.command.(shard.Within); ok != (name == "does not want to") {
			t.Errorf("%s: sent %+v", name, c.command)
		}
	}
	b := newBench(t)
	for range maxSearches + 3 {
		b.inCircle(detects)
	}
	b.pass(searchAfter)
	looks := b.looksSent()
	if len(looks) != maxSearches {
		t.Fatalf("%d look at a time", len(looks))
	}
	for range 3 {
		b.tells(looks[0])
		looks = append(looks[1:], b.looksSent()...)
	}
	if len(looks) != maxSearches {
		t.Errorf("%d look at a time", len(looks))
	}
}

// Promise: P50: a Lock that is granted, or given up, looks no more. A Lock that has moved to another lease begins anew.
func TestALookEndsWithItsLock(t *testing.T) {
	b := newBench(t)
	c := &Call{Kind: Lock, Session: b.own, Request: detects}
	b.do(Start{c})
	p := b.expect("2: lock k")
	b.hears(nodeB, enters(p, 11))
	b.pass(searchAfter)
	look := b.oneLook(9)
	b.hears(nodeB, granted(p, 12))
	if !c.over || c.Err != nil || len(b.client.searches) != 0 || len(b.shard().asks) != 0 {
		t.Errorf("%t, %v: %d searches and %d questions", c.over, c.Err, len(b.client.searches), len(b.shard().asks))
	}
	b.tells(look, itself(c))

	b = newBench(t)
	c = b.inCircle(detects)
	b.pass(searchAfter)
	b.tells(b.oneLook(9), itself(c))
	look = b.oneLook(20)
	b.do(Abandon{Call: c, Cause: fault.ErrClosed})
	b.tells(look, another())
	b.pass(10 * time.Second)
	if len(b.looksSent()) > 0 || len(b.client.searches) != 0 {
		t.Error("it looks on")
	}

	b = newBench(t)
	c = b.inCircle(detects)
	b.pass(searchAfter)
	b.firstReading(c)
	b.pass(searchAfter)
	was := itself(c)
	look = b.looksSent()[0]
	c.number += 5 // as in another lease
	b.tells(look, was, another())
	if c.over {
		t.Errorf("it gives up for a request that it does not wait for any more: %v", c.Err)
	}
	c.number -= 5
}

// Promise: P50, C8: what a Lock waits within is reported with its place.
func TestWaitsAreReported(t *testing.T) {
	b := newBench(t)
	b.inCircle(detects)
	b.do(Generation{Name: 2, Quiet: benchQuiet})
	w, ok := commandOf(b.expectTo("report k token 0")).(shard.Within)
	if r, report := w.Command.(shard.Report); !ok || !report || r.Entered != 11 || !slices.Equal(w.Grants, detects.Within) || !w.Detects {
		t.Errorf("sent %+v", w)
	}
}
