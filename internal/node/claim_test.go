package node

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/lockmesh/mesh/internal/message"
	"github.com/lockmesh/mesh/shard"
)

// claimed makes a hold of a fixed length, in the node's own session, and says when its claim was sent.
func claimed(b *bench, length time.Duration) (h *Hold, sent time.Duration) {
	b.tb.Helper()
	sent = b.now
	return b.holds(b.node.Session(), Request{Key: "k", MaxHold: length}, 7), sent
}

// Promise: G5, P7: a hold of fixed length counts from the sending of its claim, Lock returns after the
// claim's answer, and from then on nothing is renewed.
func TestAFixedHold(t *testing.T) {
	b := newBench(t, Config{})
	c := b.asks(b.node.Session(), Request{Key: "k", MaxHold: 30 * time.Second})
	p := b.expect("2: lock k")
	b.hears(nodeB, told(p, message.Result{Outcome: message.Queued, Revision: 6}))
	b.pass(benchTTL / 3)
	b.hears(nodeB, alive(b.expect("2: renewal"), 6))
	b.hears(nodeB, grant(p, 7))
	sent := b.now
	p = b.expect("2: claim k token 7")
	b.pass(50 * time.Millisecond)
	b.hears(nodeB, grant(parcelOf(c.command), 7)) // told again
	if b.expects(); c.over {
		t.Fatal("Lock returns before the claim is answered")
	}
	b.hears(nodeB, told(p, message.Result{Outcome: message.Done, Revision: 8}))
	if !c.over || c.err != nil || c.got.deadline() != sent+believed(30*time.Second) || !c.got.fixed {
		t.Fatalf("Lock: %v, %v, until %v, want %v", c.over, c.err, c.got.deadline(), sent+believed(30*time.Second))
	}
	b.pass(c.got.deadline() - 1 - b.now)
	if b.expects(); c.got.Over() {
		t.Error("the hold ends too early")
	}
	b.pass(1)
	if c.got.Err() != ErrLost || b.node.Stats().Losses != 0 {
		t.Errorf("the hold: %v; %d losses are counted, though it lasted as long as it was to", c.got.Err(), b.node.Stats().Losses)
	}
}

// Promise: G5, P7: a claim whose answer comes when its time is over is no hold. Who waits for it is told so,
// or, if the table has no record of it any more, asks anew.
func TestAClaimThatFails(t *testing.T) {
	for _, tt := range []struct {
		name string
		then func(b *bench, p parcel, sent time.Duration)
		err  error
		anew bool
	}{
		{"its answer comes late", func(b *bench, p parcel, sent time.Duration) {
			b.pass(believed(3*time.Second) + sent - b.now)
			b.take()
			b.hears(nodeB, told(p, message.Result{Outcome: message.Done, Revision: 8}))
		}, ErrLost, false},
		{"it is refused", func(b *bench, p parcel, _ time.Duration) {
			b.hears(nodeB, told(p, message.Result{Outcome: message.Refused, Reason: shard.Lost, Revision: 8}))
		}, ErrLost, false},
		{"the record is gone", func(b *bench, p parcel, _ time.Duration) {
			b.hears(nodeB, told(p, message.Result{Outcome: message.Refused, Reason: shard.Reopen, Revision: 8}))
		}, nil, true},
		{"the record is said to be gone, by an old answer", func(b *bench, p parcel, _ time.Duration) {
			b.hears(nodeB, told(p, message.Result{Outcome: message.Refused, Reason: shard.Reopen, Revision: 6}))
			b.hears(nodeB, told(p, message.Result{Outcome: message.Done, Revision: 8}))
		}, nil, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := newBench(t, Config{})
			c := b.asks(b.node.Session(), Request{Key: "k", MaxHold: 3 * time.Second})
			b.hears(nodeB, grant(b.expect("2: lock k"), 7))
			sent := b.now
			tt.then(b, b.expect("2: claim k token 7"), sent)
			if c.over == tt.anew || c.err != tt.err {
				t.Errorf("Lock: %v, %v", c.over, c.err)
			}
			if n := b.node.Stats().Grants; n > 0 && c.err != nil {
				t.Errorf("%d grants are counted", n)
			}
			if tt.anew {
				if id, _ := shard.ClientOf(b.expect("2: lock k").command()); id.Number != 2 || c.got != nil {
					t.Errorf("it asks anew in %v", id)
				}
			} else if b.expects(); c.err != nil && len(b.desk().seats) > 0 {
				t.Error("the seat stays")
			}
		})
	}
}

// Promise: G5, P7: from the sending of an Extend the holder believes in no more than both the old end and the new one
// allow; once it is answered, in the new one. One is under way at a time.
func TestExtend(t *testing.T) {
	for _, length := range []time.Duration{2 * time.Second, 50 * time.Second} {
		b := newBench(t, Config{})
		h, begun := claimed(b, 30*time.Second)
		b.pass(time.Second)
		first, sent := b.extends(h, length), b.now
		p := b.expect("2: claim k token 7")
		if c := p.command().(shard.Claim); c.Hold != length {
			t.Errorf("%v is claimed, want %v", c.Hold, length)
		}
		if want := min(begun+believed(30*time.Second), sent+believed(length)); h.deadline() != want {
			t.Errorf("once sent, it is believed in until %v, want %v", h.deadline(), want)
		}
		b.pass(50 * time.Millisecond)
		second := b.extends(h, 20*time.Second)
		b.expects()
		if want := min(sent+believed(length), b.now+believed(20*time.Second)); h.deadline() != want {
			t.Errorf("with another one, it is believed in until %v, want %v", h.deadline(), want)
		}
		b.hears(nodeB, told(p, message.Result{Outcome: message.Done, Revision: 8}))
		if want := min(sent+believed(length), b.now+believed(20*time.Second)); h.deadline() != want || !first.over || first.err != nil || second.over {
			t.Errorf("once answered, it is believed in until %v, want %v; the first: %v, %v; the second: %v", h.deadline(), want, first.over, first.err, second.over)
		}
		sent = b.now
		b.hears(nodeB, told(b.expect("2: claim k token 7"), message.Result{Outcome: message.Done, Revision: 8}))
		if want := sent + believed(20*time.Second); h.deadline() != want || !second.over || second.err != nil {
			t.Errorf("in the end it is believed in until %v, want %v; the second: %v, %v", h.deadline(), want, second.over, second.err)
		}
		b.pass(h.deadline() - 1 - b.now)
		if b.expects(); h.Over() {
			t.Error("it ends too early")
		}
		if b.pass(1); !h.Over() {
			t.Error("it does not end")
		}
	}
}

// Promise: G5, P7, P8: what becomes of an Extend under way, of one that waits for it, and of the
// record, when something else comes first.
func TestExtendMeets(t *testing.T) {
	for _, tt := range []struct {
		name    string
		then    func(b *bench, h *Hold, claim parcel)
		extend  error // of both
		hold    error
		sent    []string // at once
		seats   int
		forgets bool // the seat is kept for its Close until the record may last no longer
	}{
		{"a release", func(b *bench, h *Hold, _ parcel) { b.unlocks(h) }, ErrClosed, ErrClosed, []string{"2: close"}, 1, true},
		{"the end of its session", func(b *bench, h *Hold, _ parcel) {
			b.do(func(l *lane) { l.closeSeats(b.node.Session()) })
		}, ErrClosed, ErrClosed, []string{"2: close"}, 1, true},
		{"the old end, and no answer", func(b *bench, h *Hold, _ parcel) { b.now = h.deadline(); b.lane().run(b.now) }, ErrLost, ErrLost, []string{"2: close"}, 1, true},
		{"the old end, and then the answer", func(b *bench, h *Hold, p parcel) {
			b.now = h.deadline()
			h.Err()
			b.hears(nodeB, told(p, message.Result{Outcome: message.Done, Revision: 8}))
		}, ErrLost, ErrLost, []string{"2: close"}, 1, true},
		{"a refusal", func(b *bench, h *Hold, p parcel) {
			b.hears(nodeB, told(p, message.Result{Outcome: message.Refused, Reason: shard.Lost, Revision: 8}))
		}, ErrLost, ErrLost, nil, 0, false},
		{"the end of the node", func(b *bench, h *Hold, p parcel) { b.do(func(l *lane) { l.close(b.NewParker()) }) }, ErrClosed, ErrLost, nil, 0, false},
	} {
		for _, two := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, two are under way: %t", tt.name, two), func(t *testing.T) {
				b := newBench(t, Config{})
				h, _ := claimed(b, 3*time.Second)
				first := b.extends(h, 40*time.Second)
				lasts := b.now + believed(40*time.Second)
				p := b.expect("2: claim k token 7")
				calls := []*call{first}
				if two {
					calls = append(calls, b.extends(h, 30*time.Second))
				}
				end := h.deadline()
				b.play = func(p parcel) {
					if b.sent = append(b.sent, p); p.words() == "close" && !h.Over() {
						t.Error("its record is closed before the belief has ended") // P8
					}
				}
				tt.then(b, h, p)
				for _, c := range calls {
					if !c.over || c.err != tt.extend {
						t.Errorf("Extend: %v, %v, want %v", c.over, c.err, tt.extend)
					}
				}
				if h.ended != tt.hold || h.deadline() != end {
					t.Errorf("the hold: %v, want %v; it was believed in until %v, want %v", h.ended, tt.hold, h.deadline(), end)
				}
				if n := b.lane().heldLocks(); n != 0 && tt.hold == ErrLost {
					t.Errorf("%d holds are waited for", n)
				}
				sent := slices.DeleteFunc(b.take(), func(p parcel) bool { return p.words() == "claim k token 7" && tt.name == "the old end, and no answer" })
				b.sent = sent
				b.expects(tt.sent...)
				if n := len(b.desk().seats); n != tt.seats {
					t.Errorf("%d seats are left", n)
				}
				if b.lane().box.closed {
					return
				}
				if third := b.extends(h, time.Second); tt.hold == ErrLost && third.err != ErrLost || third.err != ErrLost && third.err != ErrClosed || !third.over {
					t.Errorf("another Extend: %v, %v", third.over, third.err)
				}
				if !tt.forgets {
					return
				}
				for b.now < lasts-1 {
					b.pass(min(time.Second, lasts-1-b.now))
					for _, p := range b.take() {
						if w := p.words(); w != "close" {
							t.Fatalf("%v before the record's end %q is sent", lasts-b.now, w)
						}
					}
				}
				if len(b.desk().seats) != 1 {
					t.Error("its Close is forgotten before the record's end")
				}
				if b.pass(1); len(b.desk().seats) != 0 {
					t.Error("its Close is repeated after the record's end")
				}
			})
		}
	}
}

// Promise: P7: who gives an Extend up that waits for another one has not asked for it; one that was sent
// counts all the same.
func TestExtendGivenUp(t *testing.T) {
	b := newBench(t, Config{})
	h, _ := claimed(b, 30*time.Second)
	first, sent := b.extends(h, 40*time.Second), b.now
	p := b.expect("2: claim k token 7")
	second := b.extends(h, 50*time.Second)
	third := b.extends(h, 35*time.Second)
	b.do(func(l *lane) {
		l.desk(0).abandon(second, context.Canceled)
		l.desk(0).abandon(first, context.Canceled)
	})
	if !first.over || !second.over || first.err != context.Canceled || second.err != context.Canceled || third.over {
		t.Fatalf("%v, %v, %v", first.err, second.err, third.err)
	}
	b.hears(nodeB, told(p, message.Result{Outcome: message.Done, Revision: 8}))
	if want := min(sent+believed(40*time.Second), b.now+believed(35*time.Second)); h.deadline() != want {
		t.Errorf("it is believed in until %v, want %v", h.deadline(), want)
	}
	if c := b.expect("2: claim k token 7").command().(shard.Claim); c.Hold != 35*time.Second {
		t.Errorf("then %v is claimed", c.Hold)
	}
}

// Promise: G5, P7: a holder who makes the end earlier stops at that end, though nobody answered; his record is
// closed if it may last longer, and lapses if not.
func TestExtendToAnEarlierEnd(t *testing.T) {
	type extend struct {
		to       time.Duration
		answered bool
	}
	for _, tt := range []struct {
		name    string
		first   time.Duration // the length of the hold
		trip    time.Duration // from a claim to its answer
		extends []extend
		kept    time.Duration // the end that the record may have in any case, after the last Extend
		closes  bool
	}{
		{"the old end is later", 30_000, 50, []extend{{1000, false}}, 30_000, true},
		{"an end before the last was later", 30_000, 50, []extend{{50_000, true}, {1000, false}}, 50_000, true},
		{"an end before the last was not much later", 30_000, 50, []extend{{1100, true}, {1000, false}}, 1100, true},
		{"one that was not answered is later", 30_000, 50, []extend{{50_000, false}, {1000, false}}, 50_000, true},
		{"nothing is later", 50, 0, []extend{{50, false}}, 0, false},
		{"it was answered", 30_000, 50, []extend{{1000, true}}, 0, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := newBench(t, Config{})
			c := b.asks(b.node.Session(), Request{Key: "k", MaxHold: tt.first * time.Millisecond})
			b.hears(nodeB, grant(b.expect("2: lock k"), 7))
			answer := func() {
				p := b.take()[0]
				b.pass(tt.trip * time.Millisecond)
				b.hears(nodeB, told(p, message.Result{Outcome: message.Done, Revision: 8}))
			}
			answer()
			h, end, lasts := c.got, c.got.deadline(), time.Duration(0)
			for _, e := range tt.extends {
				d := e.to * time.Millisecond
				lasts, end = b.now+believed(tt.kept*time.Millisecond), min(end, b.now+believed(d))
				b.extends(h, d)
				if e.answered {
					end = b.now + believed(d)
					answer()
				}
			}
			b.play = func(p parcel) {
				if b.sent = append(b.sent, p); p.words() == "claim k token 7" { // again; it may be this one that counts
					lasts = max(lasts, b.now+believed(p.command().(shard.Claim).Hold))
				}
			}
			b.pass(end - 1 - b.now)
			if h.Over() {
				t.Error("it ends too early")
			}
			b.take()
			b.pass(1)
			if !h.Over() {
				t.Error("it does not end")
			}
			if !tt.closes {
				if b.expects(); len(b.desk().seats) > 0 {
					t.Error("the seat stays")
				}
				return
			}
			b.expect("2: close")
			b.pass(lasts - 1 - b.now)
			if len(b.desk().seats) != 1 {
				t.Error("the Close is given up before the record's end")
			}
			if b.pass(1); len(b.desk().seats) != 0 {
				t.Error("the Close is not given up at the record's end")
			}
		})
	}
}

// Promise: G5, P7: what is said of a lease that was asked for before the claim moves nothing any more: a hold of
// fixed length ends with its own time.
func TestAnAnswerFromBeforeTheClaim(t *testing.T) {
	b := newBench(t, Config{})
	c := b.asks(b.node.Session(), Request{Key: "k", MaxHold: 3 * time.Second})
	p := b.expect("2: lock k")
	b.hears(nodeB, told(p, message.Result{Outcome: message.Queued, Revision: 6}))
	b.pass(benchTTL / 3)
	q := b.expect("2: renewal")
	b.hears(nodeB, grant(p, 7))
	b.hears(nodeB, told(b.expect("2: claim k token 7"), message.Result{Outcome: message.Done, Revision: 8}))
	end := c.got.deadline()
	b.hears(nodeB, alive(q, 8))
	if c.got.deadline() != end {
		t.Errorf("it is believed in until %v, want %v", c.got.deadline(), end)
	}
	b.hears(nodeB, unknown(q, 8))
	if c.got.Over() {
		t.Error("it ends too early")
	}
	if b.pass(end - b.now); !c.got.Over() || len(b.desk().seats) > 0 {
		t.Errorf("it has ended: %t; the seat stays: %t", c.got.Over(), len(b.desk().seats) > 0)
	}
}
