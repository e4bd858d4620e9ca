package client

import (
	"bytes"
	"context"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/lockmesh/mesh/internal/fault"
	"github.com/lockmesh/mesh/internal/message"
	"github.com/lockmesh/mesh/internal/replica"
	"github.com/lockmesh/mesh/shard"
)

// benchQuiet is for how long a shard must grant nothing in the generations to which the bench changes.
const benchQuiet = 15 * time.Second

// of returns m as it is said of a generation.
func of(generation uint64, m message.Message) message.Message {
	switch m := m.(type) {
	case *message.Reply:
		m.Generation = generation
	case *message.Answer:
		m.Generation = generation
	case *message.View:
		m.Generation = generation
	case *message.Redirect:
		m.Generation = generation
	case *message.Serving:
		m.Generation = generation
	}
	return m
}

// changes tells the client that shard 0 lives in another generation, which b leads, and returns what is
// then sent to b.
func (b *bench) changes(generation uint64, want ...string) []Send {
	b.tb.Helper()
	b.do(Generation{Name: generation, Quiet: benchQuiet})
	b.takes()
	b.hears(nodeB, of(generation, serves(1)))
	for i, s := range b.sent {
		if r, ok := s.Message.(*message.Request); ok && r.Generation != generation {
			b.tb.Errorf("message %d is for generation %d, want %d", i, r.Generation, generation)
		}
	}
	return b.expects(want...)
}

// waits makes a Lock that waits in shard 0's queue, which it entered at that revision.
func (b *bench) waits(s *Session, q Request, entered uint64) *Call {
	b.tb.Helper()
	c := b.asks(s, q)
	b.hears(nodeB, enters(b.expect("2: lock "+q.Key), entered))
	return c
}

// enters is the word that a request entered the queue at a revision.
func enters(request Send, revision uint64) message.Message {
	return told(request, message.Reply{Event: shard.Event{What: shard.Queued, Entered: revision}, Revision: revision})
}

// learns lets the client know a revision of shard 0.
func (b *bench) learns(revision uint64) {
	b.tb.Helper()
	b.hears(nodeB, &message.Reply{Event: shard.Event{Session: shard.SessionID{Number: 99}, What: shard.Done}, Revision: revision, Leadership: byB})
}

func reportOf(tb testing.TB, s Send) shard.Report {
	tb.Helper()
	r, ok := commandOf(s).(shard.Report)
	if !ok {
		tb.Fatalf("%q is no report", words(s))
	}
	return r
}

// Promise: C8: what a session holds is reported as it was granted, with its token, under a new number; with it
// the highest revision that the client knew, and for how long nothing must be granted. It is said at once,
// though no leader is known.
func TestReports(t *testing.T) {
	for _, tt := range []struct {
		name string
		ask  Request
		want shard.Report
	}{
		{"a lock", Request{Key: "k", Value: []byte("v")}, shard.Report{Weight: shard.Whole, Capacity: shard.Whole, Value: []byte("v")}},
		{"a reader's", Request{Key: "k", Mode: Shared}, shard.Report{Weight: 1, Capacity: shard.Whole}},
		{"permits", Request{Key: "k", Mode: Permits, Weight: 2, Capacity: 5}, shard.Report{Kind: shard.Semaphore, Weight: 2, Capacity: 5}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := newBench(t)
			b.learns(5)
			h := b.holds(b.own, tt.ask, 7)
			b.learns(11)
			b.pass(time.Second)
			b.do(Generation{Name: 2, Quiet: benchQuiet})
			p := b.expectTo("report k token 7")
			want := tt.want
			want.Call = shard.Call{Session: shard.SessionID{Node: nodeA, Number: 1}, Number: 2}
			want.TTL, want.Name, want.Key = benchTTL, "a", "k"
			want.Earlier = shard.Earlier{Token: 7, Known: 11, Quiet: benchQuiet}
			if got := commandOf(p); !reflect.DeepEqual(got, want) {
				t.Errorf("sent %+v, want %+v", got, want)
			}
			m := p.Message.(*message.Request)
			if !bytes.Equal(m.Raw, shard.AppendCommand(nil, want)) || m.Generation != 2 {
				t.Errorf("sent %x in generation %d", m.Raw, m.Generation)
			}
			until := h.Deadline()
			b.hears(nodeB, of(2, granted(p, 7)))
			if h.Err() != nil || h.Deadline() != until {
				t.Errorf("the hold: %v, until %v; want until %v", h.Err(), h.Deadline(), until)
			}
			b.expect("2: renewal")
			// Its Unlock acknowledges the Report.
			b.hears(nodeB, of(2, done(b.expectUnlock(h, 2), 1008)))
		})
	}
}

// expectUnlock unlocks a hold, and returns the command, which acknowledges one number alone.
func (b *bench) expectUnlock(h *Hold, acked uint64) Send {
	b.tb.Helper()
	b.unlocks(h)
	p := b.expectTo("unlock " + h.Key + " token 7")
	if got := commandOf(p).(shard.Release).Acked; !slices.Equal(got, []uint64{acked}) {
		b.tb.Errorf("it acknowledges %v, want %d", got, acked)
	}
	return p
}

// Promise: C8, P7: a hold of fixed length is reported with the time that is left: the table keeps it for as long
// as its holder believes in it, though one's clock is fast and the other's slow. The end stays where it was.
func TestAHoldOfFixedLengthIsReported(t *testing.T) {
	for _, left := range []time.Duration{20 * time.Second, 3 * time.Second, 1} {
		b := newBench(t)
		h, _ := fixedHold(b, 30*time.Second)
		end := h.Deadline()
		b.until(end - left)
		p := b.changes(2, "2: report k token 7")[0]
		got := reportOf(t, p).Hold
		if kept := believed(got); kept < left || kept > left+2 {
			t.Errorf("with %v left, it is to be kept for %v, in which one may believe for %v", left, got, kept)
		}
		b.hears(nodeB, of(2, granted(p, 7)))
		if h.Deadline() != end || h.Err() != nil {
			t.Errorf("with %v left: until %v, %v, want %v", left, h.Deadline(), h.Err(), end)
		}
		b.until(end)
		if b.expects(); h.Err() != fault.ErrLost || b.leases() != 0 {
			t.Errorf("with %v left: in the end %v; %d leases", left, h.Err(), b.leases())
		}
	}
}

// Promise: C8, P7: a Report that is sent again says how much time is left by then. One that goes out after the end says
// what was said before.
func TestAReportAges(t *testing.T) {
	b := newBench(t)
	h, _ := fixedHold(b, 30*time.Second)
	b.pass(time.Second)
	b.changes(2, "2: report k token 7")
	last := time.Duration(0)
	for range 3 {
		b.pass(2 * time.Second)
		sent := b.takes()
		p := sent[len(sent)-1]
		b.hears(nodeB, of(2, redirect(p, nodeB, 1)))
		r := reportOf(t, b.expect("2: report k token 7"))
		if left, kept := h.Deadline()-b.now, believed(r.Hold); kept < left || kept > left+2 || r.Number != numberOf(commandOf(p)) {
			t.Errorf("sent %+v: kept for %v, want %v", r, kept, left)
		}
		last = r.Hold
	}
	b.now = h.Deadline()
	b.step(Received{From: nodeB, Message: of(2, serves(2))})
	if r := reportOf(t, b.expect("2: report k token 7")); r.Hold != last {
		t.Errorf("when it is over, %v are said to be left", r.Hold)
	}
	if b.settle(); h.Err() != fault.ErrLost {
		t.Errorf("in the end: %v", h.Err())
	}
}

// Promise: C8, P7: the record of a reported hold of fixed length may last longer than the hold, if the Report is
// applied late. The Close is repeated until it must be over.
func TestAReportOfAFixedHoldArrivesLate(t *testing.T) {
	for _, answered := range []bool{false, true} {
		b := newBench(t)
		h, _ := fixedHold(b, 30*time.Second)
		end := h.Deadline()
		b.until(end - 8*time.Second)
		b.changes(2, "2: report k token 7")
		b.pass(5 * time.Second)
		sent := b.takes()
		last := b.now
		if p := sent[len(sent)-1]; answered {
			b.hears(nodeB, of(2, granted(p, 7)))
		} else {
			last -= 2 * longestRetry
		}
		c := b.unlocks(h)
		b.expectTo("close")
		b.until(last + 8*time.Second - 1)
		if b.takes(); c.over {
			t.Errorf("answered: %t; the Close ends %v before its record may: %v", answered, last+8*time.Second-b.now, c.Err)
		}
		b.pass(5*time.Second + 100*time.Millisecond)
		if !c.over || c.Err != fault.ErrUnconfirmed {
			t.Errorf("answered: %t; the Close: %v, %v", answered, c.over, c.Err)
		}
	}
}

// Promise: C8, G3: a Lock that waited reports its place, under its number; one that was not known to wait is asked
// for again. A grant that its caller does not have yet counts for nothing.
func TestALockGoesOver(t *testing.T) {
	tried := func(b *bench) *Call {
		c := b.asks(b.own, Request{Key: "k", Try: true})
		b.takes()
		return c
	}
	asked := func(b *bench) *Call {
		c := b.asks(b.own, Request{Key: "k"})
		b.takes()
		return c
	}
	waits := func(b *bench) *Call { return b.waits(b.own, Request{Key: "k"}, 6) }
	// Its grant came too late to be believed in without a renewal.
	late := func(ask func(*bench) *Call) func(*bench) *Call {
		return func(b *bench) *Call {
			c := ask(b)
			b.stall(benchTTL)
			b.hears(nodeB, granted(sending(c), 7))
			b.takes()
			if c.Hold == nil || c.over {
				b.tb.Fatalf("the grant is believed in")
			}
			return c
		}
	}
	fixing := func(first func(*bench, Request) *Call) func(*bench) *Call {
		return func(b *bench) *Call {
			c := first(b, Request{Key: "k", MaxHold: time.Minute})
			b.hears(nodeB, granted(sending(c), 7))
			b.expect("2: fix k token 7")
			return c
		}
	}
	for _, tt := range []struct {
		name  string
		given func(*bench) *Call
		says  string // asked for anew, or by the revision of its place
	}{
		{"it is not known to wait", asked, "2: lock k"},
		{"it tries", tried, "2: lock k"},
		{"it waits", waits, "2: report k token 0"},
		{"it waited, and its grant came late", late(waits), "2: report k token 0"},
		{"its grant came late", late(asked), "2: report k token 0"},
		{"its time was being fixed", fixing(func(b *bench, q Request) *Call {
			c := b.asks(b.own, q)
			b.takes()
			return c
		}), "2: report k token 0"},
		{"it waited, and its time was being fixed", fixing(func(b *bench, q Request) *Call { return b.waits(b.own, q, 6) }), "2: report k token 0"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := newBench(t)
			c := tt.given(b)
			number, entered := c.number, uint64(6)
			if c.Hold != nil && !c.Info.Queued {
				entered = c.Hold.Token // it never waited: its place is that of its grant
			}
			p := b.changes(2, tt.says)[0]
			switch cmd := commandOf(p).(type) {
			case shard.Acquire:
				if cmd.Number != number || cmd.Try != c.Request.Try || cmd.Since != 0 {
					t.Errorf("sent %+v", cmd)
				}
			case shard.Report:
				if cmd.Number != number || cmd.Token != 0 || cmd.Entered != entered || cmd.Hold != 0 || cmd.Since != 0 || cmd.Weight != shard.Whole {
					t.Errorf("sent %+v", cmd)
				}
			}
			if c.Hold != nil || len(c.lease.holds) > 0 || c.over {
				t.Fatalf("an earlier grant counts: %+v; the call: %v, %v", c.Hold, c.over, c.Err)
			}
			b.hears(nodeB, of(2, queued(p, 1001)))
			if b.expects(); !c.queued || !c.Info.Queued {
				t.Errorf("it is not in the queue: %+v", c)
			}
			b.pass(200 * time.Millisecond)
			b.takes()
			b.hears(nodeB, of(2, granted(p, 1007)))
			if c.Request.MaxHold > 0 {
				b.hears(nodeB, of(2, done(b.expect("2: fix k token 1007"), 1008)))
				b.expects()
			} else if late := b.now >= c.lease.until; late {
				b.hears(nodeB, of(2, alive(b.expect("2: renewal"), 1008)))
			}
			if !c.over || c.Err != nil || c.Hold.Token != 1007 || c.Hold.Err() != nil {
				t.Errorf("granted: %v, %v, %+v", c.over, c.Err, c.Hold)
			}
		})
	}
}

// Promise: C8: what was under way in the old generation is over there. An Unlock is done, a Cancel is not needed any
// more, and a Close has nothing to close.
func TestWhatWasUnderWay(t *testing.T) {
	for _, tt := range []struct {
		name  string
		given func(b *bench) *Call // the call whose result is awaited, or nil
	}{
		{"an Unlock", func(b *bench) *Call { return b.unlocks(b.holds(b.own, Request{Key: "k"}, 7)) }},
		{"an Unlock that its caller does not wait for", func(b *bench) *Call {
			c := b.unlocks(b.holds(b.own, Request{Key: "k"}, 7))
			b.do(Abandon{c, context.Canceled})
			return c
		}},
		{"an Unlock of a hold of fixed length", func(b *bench) *Call { return b.unlocks(b.holds(b.own, Request{Key: "k", MaxHold: time.Minute}, 7)) }},
		{"a Cancel", func(b *bench) *Call {
			b.do(Abandon{b.waits(b.own, Request{Key: "k"}, 6), context.Canceled})
			return nil
		}},
		{"a Close for one that gave up", func(b *bench) *Call {
			b.do(Abandon{b.waits(b.own, Request{Key: "k", MaxHold: time.Minute}, 6), context.Canceled})
			return nil
		}},
		{"the Close of a session", func(b *bench) *Call {
			s := NewSession(false, benchTTL)
			b.holds(s, Request{Key: "k"}, 7)
			b.waits(s, Request{Key: "n"}, 8)
			return b.closes(s)[0]
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := newBench(t)
			c := tt.given(b)
			if b.takes(); c != nil && c.over {
				t.Fatal("it has its result before")
			}
			before := b.client.Counters().Unlocks.Load()
			b.changes(2)
			if c != nil && (!c.over || c.Err != nil) {
				t.Errorf("the call: %v, %v", c.over, c.Err)
			}
			if got := b.client.Counters().Unlocks.Load() - before; c != nil && c.Hold != nil && got != 1 {
				t.Errorf("%d Unlocks are counted", got)
			}
			if b.client.Held() != 0 {
				t.Errorf("%d are held", b.client.Held())
			}
			b.pass(benchTTL)
			if b.expects(); b.leases() != 0 {
				t.Errorf("%d leases are left", b.leases())
			}
		})
	}
}

// Promise: C8: an Extend that was under way was not given: the hold is reported with the time that is left in any
// case, and the Fix is sent again once it is reported.
func TestAnExtendGoesOver(t *testing.T) {
	for _, length := range []time.Duration{10 * time.Second, 50 * time.Second} {
		b := newBench(t)
		h, begun := fixedHold(b, 30*time.Second)
		b.pass(time.Second)
		first, sent := b.extends(h, length), b.now
		b.pass(100 * time.Millisecond)
		second := b.extends(h, 40*time.Second)
		end := min(begun+believed(30*time.Second), sent+believed(length))
		b.expect("2: fix k token 7")
		p := b.changes(2, "2: report k token 7")[0]
		if kept := believed(reportOf(t, p).Hold); kept < end-b.now || kept > end-b.now+2 || h.Deadline() != end {
			t.Errorf("it is to be kept so that one may believe in it for %v, want %v", kept, end-b.now)
		}
		b.pass(100 * time.Millisecond)
		b.hears(nodeB, of(2, granted(p, 7)))
		fix := b.expect("2: fix k token 7")
		if cmd := commandOf(fix).(shard.Fix); cmd.Hold != length || cmd.Since != 0 {
			t.Errorf("sent %+v, want %v", cmd, length)
		}
		b.hears(nodeB, of(2, done(fix, 1008)))
		if !first.over || first.Err != nil || second.over || h.Deadline() > sent+believed(length) {
			t.Errorf("the first: %v, %v; the second: %v; until %v", first.over, first.Err, second.over, h.Deadline())
		}
		sent = b.now
		fix = b.expect("2: fix k token 7")
		b.hears(nodeB, of(2, done(fix, 1009)))
		if !second.over || second.Err != nil || h.Deadline() != sent+believed(40*time.Second) {
			t.Errorf("the second: %v, %v; until %v", second.over, second.Err, h.Deadline())
		}
	}
}

// Promise: C8: until all Reports of a lease are confirmed, what could come before them waits: Unlocks, Fixes,
// Cancels and new Locks. A place in a queue is reported, and a Close sent, at once. Then all go out, and the lease
// is renewed.
func TestWhatWaitsForReports(t *testing.T) {
	b := newBench(t)
	h, o := b.holds(b.own, Request{Key: "h"}, 7), b.holds(b.own, Request{Key: "o"}, 8)
	w := b.waits(b.own, Request{Key: "w"}, 9)
	b.hears(nodeB, refused(sending(b.asks(b.own, Request{Key: "t", Try: true})), shard.Locked, 10))
	asked := b.asks(b.own, Request{Key: "k"})
	b.pass(time.Second)
	b.takes()
	sent := b.changes(2, "2: report w token 0", "2: report h token 7", "2: report o token 8")
	unlock := b.unlocks(h)
	n := b.asks(b.own, Request{Key: "n"})
	b.do(Abandon{n, context.Canceled})
	b.expects()
	b.hears(nodeB, of(2, queued(sent[0], 1001)), of(2, granted(sent[2], 8)))
	b.hears(nodeB, of(2, granted(sent[2], 8))) // told twice
	b.hears(nodeB, of(2, redirect(sending(unlock), nodeB, 1)))
	b.pass(benchTTL / 3)
	for _, s := range b.takes() {
		if words(s) != "report h token 7" {
			t.Errorf("%q is sent before its Report is confirmed", words(s))
		}
	}
	if c := sent[1]; b.now >= h.Deadline() || unlock.over || w.over {
		t.Fatalf("%+v: too late", c)
	}
	b.hears(nodeB, of(2, granted(sent[1], 7)))
	out := b.expects("2: lock k", "2: unlock h token 7", "2: cancel", "2: renewal")
	if a := commandOf(out[0]).(shard.Acquire); len(a.Acked) > 0 || a.Since != 0 {
		t.Errorf("what was acknowledged in the earlier generation is acknowledged in this one: %+v", a)
	}
	if o.Err() != nil || asked.over {
		t.Errorf("%v, %v", o.Err(), asked.over)
	}
	b.hears(nodeB, of(2, done(sending(unlock), 1005)))
	if !unlock.over || unlock.Err != nil || b.client.Held() != 1 {
		t.Errorf("the Unlock: %v, %v; %d are held", unlock.over, unlock.Err, b.client.Held())
	}
}

// Promise: C8, G9: a session of which a shard has no record has its whole lease before it when a shard begins another generation, though it
// had asked long before: its record is no older than what it sends then. (Seed 490000280, calm: two nodes left, and the lease was over a
// moment after the new table had answered for the first time.)
func TestALeaseThatHoldsNothingBeginsAgain(t *testing.T) {
	b := newBench(t)
	s := NewSession(false, benchTTL)
	c := b.asks(s, Request{Key: "k"})
	b.takes()
	b.pass(believed(benchTTL) - time.Second)
	b.takes()
	sent := b.changes(2, "2: lock k")
	b.pass(500 * time.Millisecond)
	b.hears(nodeB, of(2, queued(sent[0], 1001)))
	b.takes() // a renewal, whose answer takes a second
	b.pass(time.Second)
	if c.over || s.Err() != nil {
		t.Fatalf("the call: %v; the session: %v", c.Err, s.Err())
	}
}

// Promise: C8, P6: a lease is renewed no sooner than its Reports are confirmed, and then at once: the belief goes on
// from that renewal.
func TestALeaseIsRenewedOnceItIsReported(t *testing.T) {
	b := newBench(t)
	h := b.holds(b.own, Request{Key: "k"}, 7)
	until := h.Deadline()
	b.pass(benchTTL / 2) // some renewals stay without an answer
	p := b.changes(2, "2: report k token 7")[0]
	b.until(until - time.Second)
	for _, s := range b.takes() {
		if words(s) != "report k token 7" {
			t.Errorf("%q is sent", words(s))
		}
	}
	b.hears(nodeB, of(2, granted(p, 7)))
	at, q := b.now, b.expect("2: renewal")
	if r := renewalOf(q); r.Generation != 2 || r.Relay || r.After != 0 {
		t.Errorf("it renews with %+v", r)
	}
	b.pass(100 * time.Millisecond)
	b.hears(nodeB, of(2, alive(q, 1002)))
	if h.Err() != nil || h.Deadline() != at+believed(benchTTL) {
		t.Errorf("the hold: %v, until %v, want %v", h.Err(), h.Deadline(), at+believed(benchTTL))
	}
}

// Promise: C8, G5: nothing is believed in for longer because it was reported: without an answer the hold ends when it
// would have ended.
func TestNobodyAnswersAReport(t *testing.T) {
	b := newBench(t)
	s := NewSession(false, benchTTL)
	h := b.holds(s, Request{Key: "k"}, 7)
	until := h.Deadline()
	b.pass(time.Second)
	b.takes()
	b.changes(2, "2: report k token 7")
	b.until(until - 1)
	if b.takes(); h.Err() != nil || h.Deadline() != until {
		t.Errorf("too early: %v, until %v, want %v", h.Err(), h.Deadline(), until)
	}
	b.pass(1)
	if h.Err() != fault.ErrLost || s.Err() != fault.ErrLost || !b.lost[s] {
		t.Errorf("in the end: %v; the session: %v", h.Err(), s.Err())
	}
}

// Promise: C8: a hold whose holder has ended its belief is not reported: its Unlock, which comes next, is done.
func TestAHoldThatHasEndedIsNotReported(t *testing.T) {
	for _, length := range []time.Duration{0, time.Minute} {
		b := newBench(t)
		h := b.holds(b.own, Request{Key: "k", MaxHold: length}, 7)
		if !h.End(h.Deadline(), fault.ErrClosed) {
			t.Fatal("it had ended before")
		}
		b.changes(2)
		before := b.client.Counters().Unlocks.Load()
		if c := b.unlocks(h); !c.over || c.Err != nil || b.client.Counters().Unlocks.Load() != before+1 {
			t.Errorf("for %v: the Unlock: %v, %v", length, c.over, c.Err)
		}
		if b.expects(); b.client.Held() != 0 {
			t.Errorf("for %v: %d are held", length, b.client.Held())
		}
		b.pass(benchTTL + length)
		if b.expects(); b.client.Held() != 0 || b.leases() != 0 {
			t.Errorf("for %v: %d are held, %d leases", length, b.client.Held(), b.leases())
		}
	}
}

// Promise: C8, G5: what was lost before the change is not reported, also if nobody has noticed yet. A Lock that
// waited in that lease has lost its place with it, and is asked for in another one.
func TestALeaseThatWasOver(t *testing.T) {
	b := newBench(t)
	h := b.holds(b.own, Request{Key: "k"}, 7)
	w := b.waits(b.own, Request{Key: "w"}, 8)
	b.now += benchTTL
	b.step(Generation{Name: 2, Quiet: benchQuiet})
	if h.Err() != fault.ErrLost {
		t.Errorf("the hold: %v", h.Err())
	}
	b.settle()
	p := b.expectTo("lock w")
	if a := commandOf(p).(shard.Acquire); a.Session.Number != 2 || a.Since != 0 || w.over {
		t.Errorf("sent %+v; the Lock: %v, %v", a, w.over, w.Err)
	}
	b.changes(3, "2: lock w") // it has no place to report
}

// Promise: C10: what was held in a mesh that gave way to an earlier one is lost at once, with the sessions that held it,
// and is not reported. A Lock that waited asks again in a new lease, wherever it waited.
func TestALeaseThatIsVoid(t *testing.T) {
	b := newBench(t)
	s := NewSession(false, benchTTL)
	holds := []*Hold{b.holds(b.own, Request{Key: "k"}, 7), b.holds(s, Request{Key: "o"}, 8)}
	w := b.waits(b.own, Request{Key: "w"}, 9)
	b.do(Generation{Name: 2, Quiet: benchQuiet, Void: true})
	for i, h := range holds {
		if h.Err() != fault.ErrLost {
			t.Errorf("hold %d: %v", i, h.Err())
		}
	}
	p := b.expectTo("lock w")
	if a := commandOf(p).(shard.Acquire); a.Session.Number <= 2 || a.Since != 0 || w.over || p.Message.(*message.Request).Generation != 2 {
		t.Errorf("sent %+v; the Lock: %v, %v", a, w.over, w.Err)
	}
	if s.Err() != fault.ErrLost || b.own.Err() != nil {
		t.Errorf("the session: %v, the node's own: %v", s.Err(), b.own.Err())
	}
	b.changes(3, "2: lock w") // it has no place to report
}

// Promise: C8, P12: all commands of a lease carry one Since in a generation, also of one to which a Lock moves
// while the shard goes over.
func TestALockMovesToALeaseThatGoesOver(t *testing.T) {
	b := newBench(t)
	b.holds(b.own, Request{Key: "k"}, 7)
	b.waits(b.own, Request{Key: "w"}, 8)
	b.now += benchTTL
	b.step(Start{&Call{Kind: Lock, Session: b.own, Request: Request{Key: "n"}}})
	b.takes()
	b.step(Generation{Name: 2, Quiet: benchQuiet})
	b.settle()
	for _, s := range b.takes() {
		id, _ := shard.ClientOf(commandOf(s))
		switch cmd := commandOf(s).(type) {
		case shard.Acquire:
			if cmd.Since != 0 || id.Number != 2 {
				t.Errorf("sent %+v", cmd)
			}
		case shard.Report:
			if cmd.Since != 0 || id.Number != 2 {
				t.Errorf("sent %+v", cmd)
			}
		}
	}
}

// Promise: C8, P9: the Close of a session whose holds are being reported is sent at once, and ends the Reports.
func TestASessionIsClosedWhileItReports(t *testing.T) {
	b := newBench(t)
	s := NewSession(false, benchTTL)
	h := b.holds(s, Request{Key: "k"}, 7)
	b.holds(s, Request{Key: "o"}, 8)
	sent := b.changes(2, "2: report k token 7", "2: report o token 8")
	b.hears(nodeB, of(2, granted(sent[0], 7)))
	b.expects()
	c := b.closes(s)[0]
	p := b.expect("2: close")
	b.pass(2 * time.Second)
	for _, m := range b.takes() {
		if words(m) != "close" && words(m) != "renewal" {
			t.Errorf("%q is sent after the Close", words(m))
		}
	}
	b.hears(nodeB, of(2, granted(sent[1], 8)))
	b.hears(nodeB, of(2, done(p, 1009)))
	if !c.over || c.Err != nil || b.leases() != 0 || h.Err() != fault.ErrClosed {
		t.Errorf("the Close: %v, %v; %d leases; the hold: %v", c.over, c.Err, b.leases(), h.Err())
	}
}

// Promise: C8, P7: so is the one of a hold of fixed length that is given back.
func TestAHoldOfFixedLengthIsGivenBackWhileItReports(t *testing.T) {
	b := newBench(t)
	h, _ := fixedHold(b, 30*time.Second)
	b.changes(2, "2: report k token 7")
	c := b.unlocks(h)
	p := b.expect("2: close")
	b.pass(2 * time.Second)
	for _, m := range b.takes() {
		if words(m) != "close" {
			t.Errorf("%q is sent after the Close", words(m))
		}
	}
	b.hears(nodeB, of(2, done(p, 1009)))
	if !c.over || c.Err != nil || b.leases() != 0 {
		t.Errorf("the Close: %v, %v; %d leases", c.over, c.Err, b.leases())
	}
}

// Promise: C8, P9, P7: a session that is lost in another shard while a hold of fixed length is being reported closes
// its record.
func TestASessionIsLostWhileAHoldOfFixedLengthIsReported(t *testing.T) {
	for _, answered := range []bool{false, true} {
		b := newBench(t)
		s := NewSession(false, benchTTL)
		h := b.holds(s, Request{Key: "k", MaxHold: time.Minute}, 7)
		p := b.changes(2, "2: report k token 7")[0]
		if answered {
			b.hears(nodeB, of(2, granted(p, 7)))
		}
		s.End(fault.ErrLost)
		b.do(LoseSession{s})
		b.expect("2: close")
		b.hears(nodeB, of(2, granted(p, 7)))
		b.pass(time.Second)
		for _, m := range b.takes() {
			if words(m) != "close" {
				t.Errorf("answered: %t; %q is sent after the Close", answered, words(m))
			}
		}
		if h.Err() != fault.ErrLost || b.client.Held() != 0 {
			t.Errorf("answered: %t; the hold: %v; %d are held", answered, h.Err(), b.client.Held())
		}
		// Once more, as when it is lost in a third shard: its Close is under way.
		b.do(LoseSession{s})
		b.expects()
	}
}

// Promise: C8, P12: a Report that may not open its record, since others have ended in the new generation, is sent
// again with the revision that said so: under another number, or an answer to the first could be taken for one to
// the second. So is all else of the lease, when its time comes: a thousand holds are not reported a thousand times.
func TestAReportMayNotOpenItsRecord(t *testing.T) {
	b := newBench(t)
	s := NewSession(false, benchTTL)
	h := b.holds(s, Request{Key: "k"}, 7)
	b.waits(s, Request{Key: "w"}, 8)
	sent := b.changes(2, "2: report w token 0", "2: report k token 7")
	unlock := b.unlocks(h)
	b.expects()
	b.hears(nodeB, of(2, refused(sent[0], shard.Reopen, 1001)))
	again := b.expects("2: report w token 0")
	b.hears(nodeB, of(2, refused(sent[1], shard.Reopen, 1000)))
	b.expects() // of the first number: nothing new
	b.hears(nodeB, of(2, refused(again[0], shard.Reopen, 1004)))
	again = b.expects("2: report w token 0")
	b.pass(firstRetry)
	again = append(again, b.expects("2: report w token 0", "2: report k token 7")[1])
	for i, p := range again {
		if r := reportOf(t, p); r.Since != 1004 || (r.Number == numberOf(commandOf(sent[i]))) == (r.Token != 0) {
			t.Errorf("sent %+v", r)
		}
		if !bytes.Equal(p.Message.(*message.Request).Raw, shard.AppendCommand(nil, commandOf(p))) {
			t.Errorf("it is sent as it was before: %x", p.Message.(*message.Request).Raw)
		}
	}
	b.hears(nodeB, of(2, queued(again[0], 1005)), of(2, granted(again[1], 7)))
	if r := commandOf(b.expects("2: unlock k token 7", "2: renewal")[0]).(shard.Release); r.Since != 1004 {
		t.Errorf("sent %+v", r)
	}
	if s.Err() != nil || unlock.over {
		t.Errorf("the session: %v", s.Err())
	}
}

// Promise: C8, P12: nothing is asked for again under a lease's number once its record was shown, or its belief is over:
// the record may have been there, and have expired.
func TestARecordIsNotOpenedAgain(t *testing.T) {
	for _, tt := range []struct {
		name string
		when func(b *bench, sent []Send)
		lost bool
	}{
		{"it was never shown", func(b *bench, sent []Send) { b.pass(time.Second) }, false},
		{"it was shown", func(b *bench, sent []Send) { b.hears(nodeB, of(2, granted(sent[1], 8))) }, true},
		{"the belief is over", func(b *bench, sent []Send) { b.now += benchTTL }, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := newBench(t)
			s := NewSession(false, benchTTL)
			h := b.holds(s, Request{Key: "k"}, 7)
			b.holds(s, Request{Key: "o"}, 8)
			sent := b.changes(2, "2: report k token 7", "2: report o token 8")
			tt.when(b, sent)
			b.takes()
			b.step(Received{From: nodeB, Message: of(2, refused(sent[0], shard.Reopen, 1009))})
			if lost := h.Err() == fault.ErrLost; lost != tt.lost || (s.Err() == fault.ErrLost) != tt.lost {
				t.Errorf("the hold: %v, the session: %v", h.Err(), s.Err())
			}
			if b.settle(); tt.lost {
				b.expects()
			} else {
				b.expects("2: report k token 7")
				b.pass(2 * firstRetry)
				b.expects("2: report k token 7", "2: report o token 8")
			}
		})
	}
}

// Promise: C8, P12: a lease in which nothing is held loses nothing if it may not open its record: its Locks report
// their places in another one.
func TestWaitersAreReportedInAnotherLease(t *testing.T) {
	b := newBench(t)
	s := NewSession(false, benchTTL)
	w := b.waits(s, Request{Key: "w"}, 8)
	p := b.changes(2, "2: report w token 0")[0]
	b.hears(nodeB, of(2, refused(p, shard.Reopen, 1001)))
	r := reportOf(t, b.expect("2: report w token 0"))
	if r.Session.Number != 2 || r.Number != 1 || r.Since != 1001 || r.Entered != 8 || s.Err() != nil || w.over {
		t.Errorf("sent %+v; the session: %v, the Lock: %v", r, s.Err(), w.Err)
	}
}

// Promise: C8: a Lock whose Report comes too late has lost its place: it is asked for under a new number, and has
// none to report in the generation after that. The result of its Report is acknowledged once.
func TestALockReportsTooLate(t *testing.T) {
	b := newBench(t)
	s := NewSession(false, benchTTL)
	w := b.waits(s, Request{Key: "w"}, 8)
	p := b.changes(2, "2: report w token 0")[0]
	b.hears(nodeB, of(2, refused(p, shard.Late, 1001)))
	p = b.expect("2: lock w")
	if a := commandOf(p).(shard.Acquire); a.Number != 2 || a.Session.Number != 1 || !slices.Equal(a.Acked, []uint64{1}) || s.Err() != nil {
		t.Errorf("sent %+v; the session: %v", a, s.Err())
	}
	p = b.changes(3, "2: lock w")[0]
	b.hears(nodeB, of(3, enters(p, 2001)))
	p = b.changes(4, "2: report w token 0")[0]
	if r := reportOf(t, p); r.Entered != 2001 || w.over {
		t.Errorf("sent %+v; the Lock: %v", r, w.Err)
	}
}

// Promise: C8, P9: a hold whose Report is refused is lost, with its lease and a user's session. Locks that waited
// in the lease go on.
func TestAReportIsRefused(t *testing.T) {
	for _, why := range []shard.Reason{shard.Late, shard.Lost, shard.Stale, shard.Capacity, shard.Behind} {
		for _, own := range []bool{false, true} {
			b := newBench(t)
			s := NewSession(own, benchTTL)
			h := b.holds(s, Request{Key: "k"}, 7)
			w := b.waits(s, Request{Key: "w"}, 8)
			p := b.changes(2, "2: report w token 0", "2: report k token 7")[1]
			b.hears(nodeB, of(2, refused(p, why, 1001)))
			if why == shard.Behind {
				if b.expects(); h.Err() != nil {
					t.Errorf("refused with %v: %v", why, h.Err())
				}
				continue
			}
			if h.Err() != fault.ErrLost || (s.Err() == fault.ErrLost) == own {
				t.Errorf("refused with %v: %v; the session: %v", why, h.Err(), s.Err())
			}
			if w.over == own {
				t.Errorf("refused with %v: the Lock that waits: %v, %v", why, w.over, w.Err)
			}
			if own {
				if r := reportOf(t, b.expect("2: report w token 0")); r.Session.Number != 2 || r.Entered != 8 {
					t.Errorf("sent %+v", r)
				}
			}
			b.pass(2 * time.Second)
			for _, m := range b.takes() {
				if words(m) == "report k token 7" {
					t.Errorf("it is reported again")
				}
			}
		}
	}
}

// Promise: C8: what is said of another generation counts for nothing, be it an earlier or a later one.
func TestMessagesOfAnotherGeneration(t *testing.T) {
	for _, generation := range []uint64{0, 1, 3} {
		b := newBench(t)
		h := b.holds(b.own, Request{Key: "k"}, 7)
		w := b.waits(b.own, Request{Key: "w"}, 8)
		b.pass(benchTTL / 3)
		q := b.expect("2: renewal")
		until := h.Deadline()
		sent := b.changes(2, "2: report w token 0", "2: report k token 7")
		b.hears(nodeB, of(2, queued(sent[0], 1001)))
		b.hears(nodeC, of(generation, &message.Serving{Term: 9}))
		b.hears(nodeC, of(generation, redirect(sent[1], nodeC, 9)))
		b.hears(nodeB, of(generation, granted(sent[0], 9)), of(generation, granted(sent[1], 7)))
		b.hears(nodeB, of(generation, refused(sent[1], shard.Reopen, 9000)), of(generation, refused(sent[1], shard.Lost, 9000)))
		b.hears(nodeB, of(generation, alive(q, 9000)), of(generation, unknown(q, 9000)))
		if sent := b.takes(); len(sent) > 0 || w.over || h.Err() != nil || h.Deadline() != until || b.shard().leader != nodeB || b.shard().revision != 1001 {
			t.Errorf("of generation %d: %q is sent; the Lock: %v; the hold: %v, until %v; %d leads, at revision %d",
				generation, inWords(sent), w.over, h.Err(), h.Deadline(), b.shard().leader, b.shard().revision)
		}
		// An answer to a renewal that was asked in the earlier generation is none in this one.
		b.hears(nodeB, of(2, alive(q, 1001)))
		if h.Deadline() != until {
			t.Errorf("an answer to an earlier question: until %v, want %v", h.Deadline(), until)
		}
	}
}

// Promise: C8: what is reported in a generation that ends as well is reported again, with the highest revision of all;
// and what waits there keeps its first place.
func TestTwoChangesInARow(t *testing.T) {
	for _, applied := range []bool{false, true} {
		b := newBench(t)
		s := NewSession(false, benchTTL)
		h := b.holds(s, Request{Key: "k"}, 7)
		o := b.holds(s, Request{Key: "o"}, 8)
		w := b.waits(s, Request{Key: "w"}, 9)
		sent := b.changes(2, "2: report w token 0", "2: report k token 7", "2: report o token 8")
		known := uint64(9)
		unlock := b.unlocks(o)
		b.expects()
		if applied {
			known = 1003
			b.hears(nodeB, of(2, enters(sent[0], 9)), of(2, granted(sent[1], 7)), of(2, granted(sent[2], 8)))
			b.shard().learn(known)
			b.expects("2: unlock o token 8", "2: renewal")
		}
		b.pass(100 * time.Millisecond)
		b.takes()
		again := b.changes(3, "2: report w token 0", "2: report k token 7")
		if !unlock.over || unlock.Err != nil {
			t.Errorf("the Unlock: %v, %v", unlock.over, unlock.Err)
		}
		for _, p := range again {
			r := reportOf(t, p)
			if r.Known != known || r.Since != 0 || len(r.Acked) > 0 || r.Session.Number != 1 {
				t.Errorf("sent %+v, want revision %d", r, known)
			}
			if r.Token == 0 && r.Entered != 9 || r.Token != 0 && r.Number <= numberOf(commandOf(sent[2])) {
				t.Errorf("sent %+v", r)
			}
		}
		b.hears(nodeB, of(3, queued(again[0], 2001)), of(3, granted(again[1], 7)))
		if b.expect("2: renewal"); h.Err() != nil || w.over || s.Err() != nil {
			t.Errorf("the hold: %v, the Lock: %v, the session: %v", h.Err(), w.over, s.Err())
		}
		// To hear once more of this generation changes nothing.
		b.do(Generation{Name: 3, Quiet: benchQuiet})
		b.expects()
	}
}

// Promise: C8, P6: a grant that comes too late to be believed waits until all Reports of its lease are confirmed: an answer to a renewal
// would confirm what the table does not have.
func TestALateGrantWaitsForReports(t *testing.T) {
	b := newBench(t)
	h := b.holds(b.own, Request{Key: "k"}, 7)
	w := b.waits(b.own, Request{Key: "w"}, 8)
	b.pass(3 * time.Second)
	b.do(Limited{2 * time.Second}) // what is granted now was asked for too long ago
	b.takes()
	sent := b.changes(2, "2: report w token 0", "2: report k token 7")
	b.hears(nodeB, of(2, enters(sent[0], 8)), of(2, granted(sent[0], 1001)))
	b.pass(time.Second)
	for _, p := range b.takes() {
		if words(p) != "report k token 7" {
			t.Errorf("%q is sent", words(p))
		}
	}
	if w.over || w.Hold == nil || h.Err() != nil {
		t.Fatalf("the late grant: %t; the hold that is reported: %v", w.over, h.Err())
	}
	b.hears(nodeB, of(2, granted(sent[1], 7)))
	b.hears(nodeB, of(2, alive(b.expect("2: renewal"), 1002)))
	if !w.over || w.Err != nil || w.Hold.Token != 1001 || h.Err() != nil {
		t.Errorf("then: %t, %v; the other hold: %v", w.over, w.Err, h.Err())
	}
}

// Promise: C8: the leases of other shards are left alone, and so are commands to them.
func TestOtherShardsGoOn(t *testing.T) {
	b := newBench(t, 2)
	s := NewSession(false, benchTTL)
	b.holds(s, Request{Key: "k"}, 7)
	c := b.asksOf(1, s, Request{Key: "o"})
	b.hearsOf(1, nodeB, granted(b.expectTo("lock o"), 8))
	other := c.Hold
	unlock := b.unlocks(other)
	b.takes()
	p := b.changes(2, "2: report k token 7")[0]
	if unlock.over || p.Shard != 0 {
		t.Errorf("the Unlock in the other shard: %v, %v", unlock.over, unlock.Err)
	}
	b.pass(longestRetry)
	if !slices.ContainsFunc(b.takes(), func(s Send) bool {
		m, ok := s.Message.(*message.Request)
		return ok && s.Shard == 1 && words(s) == "unlock o token 8" && m.Generation == 0
	}) {
		t.Error("it is not repeated")
	}
	b.hearsOf(1, nodeB, done(sending(unlock), 9))
	if !unlock.over || unlock.Err != nil {
		t.Errorf("the Unlock in the other shard: %v, %v", unlock.over, unlock.Err)
	}
}

// Promise: C8: a renewal that names what nobody waits for is in the new generation, and carries its commands.
func TestACancelInTheNewGeneration(t *testing.T) {
	b := newBench(t)
	b.holds(b.own, Request{Key: "k"}, 7)
	w := b.waits(b.own, Request{Key: "w"}, 8)
	sent := b.changes(2, "2: report w token 0", "2: report k token 7")
	b.hears(nodeB, of(2, queued(sent[0], 1001)))
	b.do(Abandon{w, context.Canceled})
	b.expects()
	b.hears(nodeB, of(2, granted(sent[1], 7)))
	out := b.expects("2: cancel", "2: renewal")
	cancel := commandOf(out[0])
	if got := renewalOf(out[1]).Abandoned; len(got) != 1 || !reflect.DeepEqual(got[0].Command, cancel) ||
		!bytes.Equal(got[0].Raw, shard.AppendCommand(nil, cancel)) {
		t.Errorf("the renewal names %+v, want %+v", got, replica.Abandoned{Command: cancel})
	}
	if c := cancel.(shard.Cancel); c.Target != numberOf(commandOf(sent[0])) {
		t.Errorf("sent %+v", c)
	}
}

// Promise: C8, P15: what waited long for a Report goes to the leader first, as if it were sent for the first time.
func TestWhatWaitedGoesToTheLeader(t *testing.T) {
	b := newBench(t)
	h := b.holds(b.own, Request{Key: "k"}, 7)
	p := b.changes(2, "2: report k token 7")[0]
	b.unlocks(h)
	b.pass(3 * time.Second)
	b.takes()
	b.hears(nodeB, of(2, granted(p, 7)))
	if u := b.expects("2: unlock k token 7", "2: renewal")[0]; relayed(u) {
		t.Error("it is to be relayed")
	}
	b.pass(firstRetry)
	if again := b.takes(); len(again) == 0 || words(again[0]) != "unlock k token 7" {
		t.Errorf("it is not repeated soon: %q", inWords(again))
	}
}

// Promise: C8, P15: of the generation before, the client forgets who led it in which term, and who relayed its words.
func TestALeaderIsSoughtAnew(t *testing.T) {
	b := newBench(t)
	b.holds(b.own, Request{Key: "k"}, 7)
	b.hears(nodeC, &message.Reply{Event: shard.Event{What: shard.Done}, Revision: 7, Leadership: byB}) // relayed
	b.do(Generation{Name: 2, Quiet: benchQuiet})
	p := b.expect("3: report k token 7") // the shard's first target
	b.hears(nodeC, of(2, redirect(p, nodeC, 1)))
	b.expects("3: report k token 7")
	b.hears(nodeC, of(2, &message.Serving{Term: 1}))
	b.expects("3: report k token 7")
	b.pass(firstRetry)
	if sent := b.takes(); len(sent) != 1 || sent[0].To != nodeC || relayed(sent[0]) {
		t.Errorf("sent %q, want one to 3, which leads", inWords(sent))
	}
}

// Promise: C8: a node that ends while it reports tells no shard.
func TestTheNodeEndsWhileItReports(t *testing.T) {
	for _, end := range []Input{Shut{}, Lapse{}} {
		b := newBench(t)
		h := b.holds(b.own, Request{Key: "k"}, 7)
		b.changes(2, "2: report k token 7")
		unlock := b.unlocks(h)
		b.do(end)
		if !unlock.over || unlock.Err != fault.ErrUnconfirmed || b.leases() != 0 {
			t.Errorf("%T: the Unlock: %v, %v; %d leases", end, unlock.over, unlock.Err, b.leases())
		}
		b.pass(benchTTL)
		b.expects()
	}
}

// Promise: C8, G3: a place is lost with its lease. A Lock that is asked for anew does not name it in the next
// generation, where others that waited would be behind it.
func TestAPlaceIsLostWithItsLease(t *testing.T) {
	b := newBench(t)
	h := b.holds(b.own, Request{Key: "h"}, 5)
	b.waits(b.own, Request{Key: "k"}, 6)
	sent := b.changes(2, "2: report k token 0", "2: report h token 5")
	b.hears(nodeB, of(2, enters(sent[0], 6)), of(2, granted(sent[1], 5)))
	b.pass(benchTTL) // no renewal is answered
	if h.Err() != fault.ErrLost {
		t.Fatalf("the hold: %v", h.Err())
	}
	b.takes()
	b.changes(3, "2: lock k")
}

// Promise: C8: a refusal at the revision at which another hold of the lease was taken over may be the older of the
// two. The lease goes on.
func TestAReportIsRefusedBesideOneThatIsTaken(t *testing.T) {
	b := newBench(t)
	h := b.holds(b.own, Request{Key: "k"}, 7)
	b.holds(b.own, Request{Key: "o"}, 8)
	sent := b.changes(2, "2: report k token 7", "2: report o token 8")
	by := message.Leadership{Generation: 2, Leader: nodeB, Term: 1}
	b.hears(nodeB, toldAt(sent[1], shard.Event{What: shard.Granted, Token: 8}, 1001, by), toldAt(sent[0], shard.Event{What: shard.Refused, Reason: shard.Reopen}, 1001, by))
	if p := b.expect("2: report k token 7"); h.Err() != nil || reportOf(t, p).Since != 1001 {
		t.Errorf("the hold: %v; sent %+v", h.Err(), commandOf(p))
	}
}

// toldAt is what a leader says of a request at a revision.
func toldAt(request Send, e shard.Event, revision uint64, by message.Leadership) message.Message {
	c := commandOf(request).(shard.Report)
	e.Session.Number, e.Number = c.Session.Number, c.Number
	return &message.Reply{Event: e, Revision: revision, Leadership: by}
}

// Promise: C8: the revision that is known of a shard is the highest of all generations; of one that was not used, none.
func TestTheHighestRevision(t *testing.T) {
	b := newBench(t, 2)
	b.learns(900)
	b.do(Generation{Name: 2, Quiet: benchQuiet})
	b.hears(nodeB, of(2, serves(1)))
	b.shard().learn(5)
	if b.client.Revision(0) != 900 || b.client.Revision(1) != 0 {
		t.Errorf("%d, and %d", b.client.Revision(0), b.client.Revision(1))
	}
	if b.shard().learn(901); b.client.Revision(0) != 901 {
		t.Errorf("then %d", b.client.Revision(0))
	}
}

// Promise: C5: reports tell of the longest leases that there were, not of the latest.
func TestReportsTellOfTheLongestLeases(t *testing.T) {
	b := newBench(t)
	b.holds(b.own, Request{Key: "k"}, 7)
	b.do(Generation{Name: 2, Quiet: 2 * benchQuiet})
	b.takes()
	if r := reportOf(t, b.changes(3, "2: report k token 7")[0]); r.Quiet != 2*benchQuiet {
		t.Errorf("sent %+v", r)
	}
}
