package client

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/lockmesh/mesh/internal/fault"
	"github.com/lockmesh/mesh/shard"
)

// fixedHold makes a hold of a fixed length, in the node's own session, and says when its Fix was sent.
func fixedHold(b *bench, length time.Duration) (h *Hold, sent time.Duration) {
	b.tb.Helper()
	sent = b.now
	return b.holds(b.own, Request{Key: "k", MaxHold: length}, 7), sent
}

// Promise: G5, P7: a hold of fixed length counts from the sending of its Fix. Its caller has it once the
// Fix is answered, and from then on nothing is renewed.
func TestAHoldOfFixedLength(t *testing.T) {
	b := newBench(t)
	c := b.asks(b.own, Request{Key: "k", MaxHold: 30 * time.Second})
	p := b.expect("2: lock k")
	b.hears(nodeB, queued(p, 6))
	b.pass(benchTTL / 3)
	b.hears(nodeB, alive(b.expect("2: renewal"), 6))
	b.hears(nodeB, granted(p, 7))
	sent := b.now
	p = b.expect("2: fix k token 7")
	b.pass(50 * time.Millisecond)
	b.hears(nodeB, granted(sending(c), 7)) // told again
	if b.expects(); c.over {
		t.Fatal("the caller has its hold before the Fix is answered")
	}
	b.hears(nodeB, done(p, 8))
	if !c.over || c.Err != nil || c.Hold.Deadline() != sent+believed(30*time.Second) || !c.Hold.Fixed() {
		t.Fatalf("the Lock: %v, %v, until %v, want %v", c.over, c.Err, c.Hold.Deadline(), sent+believed(30*time.Second))
	}
	b.until(c.Hold.Deadline() - 1)
	if b.expects(); c.Hold.Err() != nil {
		t.Error("the hold ends too early")
	}
	if b.pass(1); c.Hold.Err() != fault.ErrLost {
		t.Errorf("the hold: %v", c.Hold.Err())
	}
}

// Promise: G5, P7: a Fix whose answer comes when its time is over makes no hold. The waiting caller is told so.
// If the table has no record of the session any more, its Lock is asked for anew instead.
func TestAFirstFixThatFails(t *testing.T) {
	for _, tt := range []struct {
		name string
		when func(b *bench, fix Send, sent time.Duration)
		want error
		anew bool
	}{
		{"its answer comes late", func(b *bench, fix Send, sent time.Duration) {
			b.until(sent + believed(3*time.Second))
			b.takes()
			b.hears(nodeB, done(fix, 8))
		}, fault.ErrLost, false},
		{"it is refused", func(b *bench, fix Send, _ time.Duration) { b.hears(nodeB, refused(fix, shard.Lost, 8)) }, fault.ErrLost, false},
		{"the record is gone", func(b *bench, fix Send, _ time.Duration) { b.hears(nodeB, refused(fix, shard.Reopen, 8)) }, nil, true},
		{"the record is gone, at the revision of the grant", func(b *bench, fix Send, _ time.Duration) { b.hears(nodeB, refused(fix, shard.Reopen, 7)) }, nil, true},
		{"the record is said to be gone, by an old answer", func(b *bench, fix Send, _ time.Duration) {
			b.hears(nodeB, refused(fix, shard.Reopen, 6))
			b.hears(nodeB, done(fix, 8))
		}, nil, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := newBench(t)
			c := b.asks(b.own, Request{Key: "k", MaxHold: 3 * time.Second})
			b.hears(nodeB, granted(b.expect("2: lock k"), 7))
			sent := b.now
			tt.when(b, b.expect("2: fix k token 7"), sent)
			if c.over == tt.anew || c.Err != tt.want {
				t.Errorf("the Lock: %v, %v", c.over, c.Err)
			}
			if n := b.client.Counters().Grants.Load(); n > 0 && c.Err != nil {
				t.Errorf("%d grants are counted", n)
			}
			if tt.anew {
				if id := sessionOf(b.expect("2: lock k")); id.Number != 2 || c.Hold != nil {
					t.Errorf("it is asked for anew in %v", id)
				}
			} else if b.expects(); c.Err != nil && b.leases() > 0 {
				t.Error("the lease stays")
			}
		})
	}
}

// Promise: G5, P7: from the sending of a Fix the holder believes in no more than both the old end and the new one
// allow; once it is answered, in the new one. One is under way at a time.
func TestExtend(t *testing.T) {
	for _, length := range []time.Duration{2 * time.Second, 50 * time.Second} {
		t.Run(length.String(), func(t *testing.T) {
			b := newBench(t)
			h, begun := fixedHold(b, 30*time.Second)
			b.pass(time.Second)
			first, sent := b.extends(h, length), b.now
			p := b.expect("2: fix k token 7")
			if c := commandOf(p).(shard.Fix); c.Hold != length {
				t.Errorf("%v is asked for, want %v", c.Hold, length)
			}
			if want := min(begun+believed(30*time.Second), sent+believed(length)); h.Deadline() != want {
				t.Errorf("once sent, it is believed in until %v, want %v", h.Deadline(), want)
			}
			b.pass(50 * time.Millisecond)
			second := b.extends(h, 20*time.Second)
			b.expects()
			if want := min(sent+believed(length), b.now+believed(20*time.Second)); h.Deadline() != want {
				t.Errorf("with another one, it is believed in until %v, want %v", h.Deadline(), want)
			}
			b.hears(nodeB, done(p, 8))
			if want := min(sent+believed(length), b.now+believed(20*time.Second)); h.Deadline() != want || !first.over || first.Err != nil || second.over {
				t.Errorf("once answered, it is believed in until %v, want %v; the first: %v, %v; the second: %v", h.Deadline(), want, first.over, first.Err, second.over)
			}
			sent = b.now
			b.hears(nodeB, done(b.expect("2: fix k token 7"), 8))
			if want := sent + believed(20*time.Second); h.Deadline() != want || !second.over || second.Err != nil {
				t.Errorf("in the end it is believed in until %v, want %v; the second: %v, %v", h.Deadline(), want, second.over, second.Err)
			}
			b.until(h.Deadline() - 1)
			if b.expects(); h.Err() != nil {
				t.Error("it ends too early")
			}
			if b.pass(1); h.Err() == nil {
				t.Error("it does not end")
			}
		})
	}
}

// Promise: G5, P7: a Fix whose own time is over when its answer comes, before the Tick, is a loss like one without an answer.
func TestTheAnswerToAFixComesAtItsEnd(t *testing.T) {
	for _, late := range []time.Duration{-1, 0, time.Second} {
		b := newBench(t)
		h, _ := fixedHold(b, 30*time.Second)
		c, end := b.extends(h, time.Second), b.now+believed(time.Second)
		fix := b.expect("2: fix k token 7")
		b.until(end - 1)
		b.takes()
		b.now = end + late
		b.hears(nodeB, done(fix, 8))
		if late < 0 {
			if !c.over || c.Err != nil || h.Err() != nil {
				t.Errorf("just in time: %v, %v; the hold: %v", c.over, c.Err, h.Err())
			}
			continue
		}
		if b.expect("2: close"); !c.over || c.Err != fault.ErrLost || h.Err() != fault.ErrLost {
			t.Errorf("%v late: %v, %v; the hold: %v", late, c.over, c.Err, h.Err())
		}
	}
}

// Promise: G5, P7: an earlier end counts at once, also if its Fix waits for another one.
func TestAFixThatWaitsCountsAtOnce(t *testing.T) {
	b := newBench(t)
	h, _ := fixedHold(b, 30*time.Second)
	b.extends(h, 40*time.Second)
	b.extends(h, 20*time.Millisecond)
	b.expect("2: fix k token 7")
	b.pass(believed(20*time.Millisecond) - 1)
	if h.Err() != nil {
		t.Error("it ends too early")
	}
	b.pass(1)
	if b.expect("2: close"); h.Err() != fault.ErrLost {
		t.Errorf("the hold: %v", h.Err())
	}
}

// Promise: G5, P7: whoever watches a hold's end hears when it comes earlier than was said before, and only then.
func TestExtendTellsOfAnEarlierEnd(t *testing.T) {
	for _, tt := range []struct {
		name string
		when time.Duration
		want bool
	}{
		{"an earlier end", 2 * time.Second, true},
		{"the same end", 30 * time.Second, false},
		{"a later end", 50 * time.Second, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := newBench(t)
			h, _ := fixedHold(b, 30*time.Second)
			b.happened()
			b.extends(h, tt.when)
			if got := slices.Contains(b.happened(), Event(Shortened{h})); got != tt.want {
				t.Errorf("it is told of: %t", got)
			}
		})
	}
}

// Promise: G5, P7, P8: what becomes of a Fix under way, of one that waits for it, and of the record, when
// something else comes first.
func TestExtendMeets(t *testing.T) {
	for _, tt := range []struct {
		name    string
		when    func(b *bench, h *Hold, fix Send)
		extend  error // of both
		hold    error
		sent    []string // at once
		leases  int
		forgets bool // the lease is kept for its Close until the record may last no longer
	}{
		{"an Unlock", func(b *bench, h *Hold, _ Send) { b.unlocks(h) }, fault.ErrClosed, fault.ErrClosed, []string{"2: close"}, 1, true},
		{"the end of its session", func(b *bench, h *Hold, _ Send) { b.do(CloseSession{b.own}) }, fault.ErrClosed, fault.ErrClosed, []string{"2: close"}, 1, true},
		{"the old end, and no answer", func(b *bench, h *Hold, _ Send) { b.stall(h.Deadline() - b.now) }, fault.ErrLost, fault.ErrLost, []string{"2: close"}, 1, true},
		{"the old end, which its holder sees, and then the answer", func(b *bench, h *Hold, fix Send) {
			b.now = h.Deadline()
			h.End(b.now, fault.ErrLost)
			b.hears(nodeB, done(fix, 8))
		}, fault.ErrLost, fault.ErrLost, []string{"2: close"}, 1, true},
		{"a refusal", func(b *bench, h *Hold, fix Send) { b.hears(nodeB, refused(fix, shard.Lost, 8)) }, fault.ErrLost, fault.ErrLost, nil, 0, false},
		{"the end of the node", func(b *bench, h *Hold, _ Send) { b.do(Shut{}) }, fault.ErrClosed, fault.ErrLost, nil, 0, false},
	} {
		for _, two := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, two are under way: %t", tt.name, two), func(t *testing.T) {
				b := newBench(t)
				h, _ := fixedHold(b, 3*time.Second)
				first := b.extends(h, 40*time.Second)
				lasts := b.now + believed(40*time.Second)
				fix := b.expect("2: fix k token 7")
				calls := []*Call{first}
				if two {
					calls = append(calls, b.extends(h, 30*time.Second))
				}
				end := h.Deadline()
				b.play = func(p Send) {
					if b.sent = append(b.sent, p); words(p) == "close" && h.Err() == nil {
						t.Error("its record is closed before the belief has ended") // P8
					}
				}
				tt.when(b, h, fix)
				for _, c := range calls {
					if !c.over || c.Err != tt.extend {
						t.Errorf("the Fix: %v, %v, want %v", c.over, c.Err, tt.extend)
					}
				}
				if h.Err() != tt.hold || h.Deadline() != end {
					t.Errorf("the hold: %v, want %v; it was believed in until %v, want %v", h.Err(), tt.hold, h.Deadline(), end)
				}
				if n := b.client.Held(); n != 0 && tt.hold == fault.ErrLost {
					t.Errorf("%d holds are waited for", n)
				}
				b.sent = slices.DeleteFunc(b.takes(), func(p Send) bool { return words(p) == "fix k token 7" && tt.name == "the old end, and no answer" })
				b.expects(tt.sent...)
				if n := b.leases(); n != tt.leases {
					t.Errorf("%d leases are left", n)
				}
				if third := b.extends(h, time.Second); tt.hold == fault.ErrLost && third.Err != fault.ErrLost || third.Err != fault.ErrLost && third.Err != fault.ErrClosed || !third.over {
					t.Errorf("another Fix: %v, %v", third.over, third.Err)
				}
				if !tt.forgets {
					return
				}
				for b.now < lasts-1 {
					b.pass(min(time.Second, lasts-1-b.now))
					for _, p := range b.takes() {
						if w := words(p); w != "close" {
							t.Fatalf("%v before the record's end %q is sent", lasts-b.now, w)
						}
					}
				}
				if b.leases() != 1 {
					t.Error("its Close is forgotten before the record's end")
				}
				if b.pass(1); b.leases() != 0 {
					t.Error("its Close is repeated after the record's end")
				}
			})
		}
	}
}

// Promise: P7: a caller that gives up a Fix which waits for another one has not asked for it; a Fix that was
// sent counts all the same.
func TestExtendGivenUp(t *testing.T) {
	b := newBench(t)
	h, _ := fixedHold(b, 30*time.Second)
	first, sent := b.extends(h, 40*time.Second), b.now
	p := b.expect("2: fix k token 7")
	second := b.extends(h, 50*time.Second)
	third := b.extends(h, 35*time.Second)
	b.do(Abandon{second, context.Canceled})
	b.do(Abandon{first, context.Canceled})
	if !first.over || !second.over || first.Err != context.Canceled || second.Err != context.Canceled || third.over {
		t.Fatalf("%v, %v, %v", first.Err, second.Err, third.Err)
	}
	b.hears(nodeB, done(p, 8))
	if want := min(sent+believed(40*time.Second), b.now+believed(35*time.Second)); h.Deadline() != want {
		t.Errorf("it is believed in until %v, want %v", h.Deadline(), want)
	}
	if c := commandOf(b.expect("2: fix k token 7")).(shard.Fix); c.Hold != 35*time.Second {
		t.Errorf("then %v is asked for", c.Hold)
	}
}

// Promise: G5, P7: a holder that makes the end earlier stops at that end, even without an answer. Its record is
// closed if it may last longer, and lapses if not.
func TestExtendToAnEarlierEnd(t *testing.T) {
	type extend struct {
		to       time.Duration
		answered bool
	}
	for _, tt := range []struct {
		name   string
		length time.Duration // of the hold; all are milliseconds
		trip   time.Duration // from a Fix to its answer
		given  []extend
		kept   time.Duration // the end that the record may have in any case, after the last Fix
		closes bool
	}{
		{"the old end is later", 30_000, 50, []extend{{1000, false}}, 30_000, true},
		{"an end before the last was later", 30_000, 50, []extend{{50_000, true}, {1000, false}}, 50_000, true},
		{"an end before the last was not much later", 30_000, 50, []extend{{1100, true}, {1000, false}}, 1100, true},
		{"an end that was not answered is later", 30_000, 50, []extend{{50_000, false}, {1000, false}}, 50_000, true},
		{"no end is later", 50, 0, []extend{{50, false}}, 0, false},
		{"it was answered", 30_000, 50, []extend{{1000, true}}, 0, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := newBench(t)
			c := b.asks(b.own, Request{Key: "k", MaxHold: tt.length * time.Millisecond})
			b.hears(nodeB, granted(b.expect("2: lock k"), 7))
			answer := func() {
				p := b.takes()[0]
				b.pass(tt.trip * time.Millisecond)
				b.hears(nodeB, done(p, 8))
			}
			answer()
			h, end, lasts := c.Hold, c.Hold.Deadline(), time.Duration(0)
			for _, e := range tt.given {
				d := e.to * time.Millisecond
				lasts, end = b.now+believed(tt.kept*time.Millisecond), min(end, b.now+believed(d))
				b.extends(h, d)
				if e.answered {
					end = b.now + believed(d)
					answer()
				}
			}
			b.play = func(p Send) {
				if b.sent = append(b.sent, p); words(p) == "fix k token 7" { // again; it may be this one that counts
					lasts = max(lasts, b.now+believed(commandOf(p).(shard.Fix).Hold))
				}
			}
			b.until(end - 1)
			if h.Err() != nil {
				t.Error("it ends too early")
			}
			b.takes()
			b.pass(1)
			if h.Err() == nil {
				t.Error("it does not end")
			}
			if !tt.closes {
				if b.expects(); b.leases() > 0 {
					t.Error("the lease stays")
				}
				return
			}
			b.expect("2: close")
			b.until(lasts - 1)
			if b.leases() != 1 {
				t.Error("the Close is given up before the record's end")
			}
			if b.pass(1); b.leases() != 0 {
				t.Error("the Close is not given up at the record's end")
			}
		})
	}
}

// Promise: G5, P7: the answer to a renewal from before the Fix moves nothing any more: a hold of fixed length ends
// with its own time.
func TestAnAnswerFromBeforeTheFix(t *testing.T) {
	b := newBench(t)
	c := b.asks(b.own, Request{Key: "k", MaxHold: 3 * time.Second})
	p := b.expect("2: lock k")
	b.hears(nodeB, queued(p, 6))
	b.pass(benchTTL / 3)
	q := b.expect("2: renewal")
	b.hears(nodeB, granted(p, 7))
	b.hears(nodeB, done(b.expect("2: fix k token 7"), 8))
	end := c.Hold.Deadline()
	b.hears(nodeB, alive(q, 8))
	if c.Hold.Deadline() != end {
		t.Errorf("it is believed in until %v, want %v", c.Hold.Deadline(), end)
	}
	b.hears(nodeB, unknown(q, 8))
	if c.Hold.Err() != nil {
		t.Error("it ends too early")
	}
	if b.until(end); c.Hold.Err() == nil || b.leases() > 0 {
		t.Errorf("it has ended: %v; the lease stays: %t", c.Hold.Err(), b.leases() > 0)
	}
}
