package client

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/lockmesh/mesh/internal/env"
	"github.com/lockmesh/mesh/internal/fault"
	"github.com/lockmesh/mesh/internal/message"
	"github.com/lockmesh/mesh/shard"
)

// Promise: G9, P32: a node that is to leave gives up what it waits for, and leaves no grant behind. What it holds
// goes on.
func TestWaitersAreCancelled(t *testing.T) {
	b := newBench(t, 2)
	h := b.holds(b.own, Request{Key: "h"}, 3)
	f := b.holds(b.own, Request{Key: "f", MaxHold: time.Minute}, 4)
	extend := b.extends(f, 2*time.Minute)
	b.takes()
	asked := b.asks(b.own, Request{Key: "k"})
	waits := b.asks(NewSession(false, benchTTL), Request{Key: "w"})
	fixed := b.asks(b.own, Request{Key: "g", MaxHold: time.Minute})
	b.hears(nodeB, queued(sending(waits), 5), queued(sending(fixed), 5))
	b.takes()
	b.do(CancelWaiters{})
	for i, c := range []*Call{asked, waits, fixed} {
		if !c.over || c.Err != fault.ErrClosed || c.Hold != nil {
			t.Errorf("call %d: %v, %v", i, c.over, c.Err)
		}
	}
	b.expects("2: cancel", "2: cancel", "2: close")
	if h.Err() != nil || f.Err() != nil || extend.over {
		t.Errorf("the holds: %v, %v; the Fix of one: %v", h.Err(), f.Err(), extend.over)
	}
	b.do(CancelWaiters{})
	b.expects()
}

// Promise: G9, P7: a node that is to leave waits for its holds, also for those of fixed length and those whose Unlock
// is under way, but not for one that nobody can give back.
func TestHeld(t *testing.T) {
	forsake := func(_ *bench, h *Hold) { h.Forsake() }
	unlock := func(b *bench, h *Hold) { b.unlocks(h) }
	unlocked := func(b *bench, h *Hold) { b.hears(nodeB, done(sending(b.unlocks(h)), 9)) }
	for _, tt := range []struct {
		name   string
		length time.Duration
		when   func(*bench, *Hold)
		want   int
	}{
		{"it is held", 0, nil, 1},
		{"it is held, and of fixed length", time.Minute, nil, 1},
		{"its Unlock is under way", 0, unlock, 1},
		{"its Unlock is under way, and it is of fixed length", time.Minute, unlock, 1},
		{"it is unlocked", 0, unlocked, 0},
		{"it is unlocked, and of fixed length", time.Minute, unlocked, 0},
		{"it is forsaken", time.Minute, forsake, 0},
		{"it is over", 0, func(b *bench, h *Hold) { b.until(h.Deadline()) }, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := newBench(t)
			h := b.holds(b.own, Request{Key: "k", MaxHold: tt.length}, 7)
			if tt.when != nil {
				tt.when(b, h)
			}
			if got := b.client.Held(); got != tt.want {
				t.Errorf("%d are waited for, want %d", got, tt.want)
			}
		})
	}
	b := newBench(t)
	b.asks(b.own, Request{Key: "k"})
	if got := b.client.Held(); got != 0 {
		t.Errorf("of a Lock that is not granted %d are waited for", got)
	}
}

// Promise: G5, P32: what is held when a node leaves lapses with its lease: it is not unlocked, since its holder may not
// have stopped yet. A lease without a hold is closed.
func TestLapse(t *testing.T) {
	for _, tt := range []struct {
		name    string
		given   func(b *bench) (*Hold, []*Call)
		want    []error // of the calls
		sent    []string
		repeats bool
	}{
		{"a hold", func(b *bench) (*Hold, []*Call) { return b.holds(b.own, Request{Key: "k"}, 7), nil }, nil, nil, false},
		{"a hold of fixed length, and an Extend", func(b *bench) (*Hold, []*Call) {
			h := b.holds(b.own, Request{Key: "k", MaxHold: time.Minute}, 7)
			return h, []*Call{b.extends(h, 2*time.Minute)}
		}, []error{fault.ErrClosed}, nil, false},
		{"an Unlock beside a hold", func(b *bench) (*Hold, []*Call) {
			h := b.holds(b.own, Request{Key: "k"}, 7)
			return h, []*Call{b.unlocks(b.holds(b.own, Request{Key: "m"}, 8))}
		}, []error{fault.ErrUnconfirmed}, nil, false},
		{"an idle lease", func(b *bench) (*Hold, []*Call) {
			u := b.unlocks(b.holds(b.own, Request{Key: "k"}, 7))
			b.hears(nodeB, done(sending(u), 8))
			return nil, []*Call{u}
		}, []error{nil}, []string{"2: close"}, true},
		{"a lease that the table may not have", func(b *bench) (*Hold, []*Call) {
			c := b.asks(b.own, Request{Key: "k"})
			b.do(Abandon{c, context.Canceled})
			return nil, nil
		}, nil, nil, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := newBench(t)
			h, calls := tt.given(b)
			b.takes()
			b.do(Lapse{})
			if h != nil && h.Err() != fault.ErrLost {
				t.Errorf("the hold: %v", h.Err())
			}
			for i, c := range calls {
				if !c.over || c.Err != tt.want[i] {
					t.Errorf("call %d: %v, %v, want %v", i, c.over, c.Err, tt.want[i])
				}
			}
			sent := b.expects(tt.sent...)
			b.pass(firstRetry)
			if repeated := len(b.takes()) > 0; repeated != tt.repeats {
				t.Errorf("it is repeated: %t", repeated)
			}
			if len(sent) > 0 {
				b.hears(nodeB, done(sent[0], 9))
			}
			if b.pass(2 * benchTTL); len(b.takes()) > 0 || b.leases() > 0 || b.client.Held() > 0 {
				t.Errorf("more is sent, or of %d leases and %d holds is more to come", b.leases(), b.client.Held())
			}
		})
	}
}

// Promise: G7: a node that is closed tells its own callers, and no other node.
func TestShut(t *testing.T) {
	b := newBench(t, 2)
	user := NewSession(false, benchTTL)
	h := b.holds(b.own, Request{Key: "h"}, 3)
	f := b.holds(user, Request{Key: "f", MaxHold: time.Minute}, 4)
	u := b.unlocks(b.holds(b.own, Request{Key: "u"}, 5))
	extend := b.extends(f, 2*time.Minute)
	waits := b.asksOf(1, user, Request{Key: "w"})
	closing := NewSession(false, benchTTL)
	b.asks(closing, Request{Key: "c"})
	closes := b.closes(closing)[0]
	b.takes()
	b.do(Shut{})
	if h.Err() != fault.ErrLost || f.Err() != fault.ErrLost {
		t.Errorf("the holds: %v, %v", h.Err(), f.Err())
	}
	for i, tt := range []struct {
		call *Call
		want error
	}{{u, fault.ErrUnconfirmed}, {closes, fault.ErrUnconfirmed}, {extend, fault.ErrClosed}, {waits, fault.ErrClosed}} {
		if !tt.call.over || tt.call.Err != tt.want {
			t.Errorf("call %d: %v, %v, want %v", i, tt.call.over, tt.call.Err, tt.want)
		}
	}
	if b.pass(time.Hour); len(b.takes()) > 0 || b.leases() > 0 || b.client.Deadline() != env.Never {
		t.Errorf("it goes on with %d leases, next at %v", b.leases(), b.client.Deadline())
	}
}

// Promise: P8: an Unlock whose caller does not wait any more is repeated until it is answered, and renewals name it. One
// of a hold of fixed length closes its record, which is not renewed.
func TestAnUnlockThatIsAbandoned(t *testing.T) {
	for _, tt := range []struct {
		name   string
		length time.Duration
		want   string
	}{
		{"of a hold that is renewed", 0, "unlock k token 7"},
		{"of a hold of fixed length", time.Minute, "close"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := newBench(t)
			h := b.holds(b.own, Request{Key: "k", MaxHold: tt.length}, 7)
			u := b.unlocks(h)
			p := b.expect("2: " + tt.want)
			b.do(Abandon{u, nil})
			if b.expects(); u.over {
				t.Error("it is finished")
			}
			b.until(time.Minute + benchTTL/3 - 1)
			if repeated := b.takes(); len(repeated) < 2 || slices.ContainsFunc(repeated, func(p Send) bool { return words(p) != tt.want }) {
				t.Errorf("then %q is sent, want it again and again", inWords(repeated))
			}
			b.pass(1)
			renewals := slices.DeleteFunc(b.takes(), func(p Send) bool { return !is[*message.Renewal](p) })
			if tt.length > 0 {
				if len(renewals) > 0 {
					t.Error("a record that is to be closed is renewed")
				}
			} else if len(renewals) != 1 || len(renewalOf(renewals[0]).Abandoned) != 1 || numberOf(renewalOf(renewals[0]).Abandoned[0].Command) != u.number {
				t.Errorf("%q does not name it", inWords(renewals))
			}
			b.hears(nodeB, done(p, 8))
			if !u.over || u.Err != nil || b.client.Counters().Unlocks.Load() != 1 {
				t.Errorf("once answered: %v, %v; %d are counted", u.over, u.Err, b.client.Counters().Unlocks.Load())
			}
			b.takes()
			b.pass(time.Second)
			b.expects()
		})
	}
}

// Promise: P8, P15: an Unlock that reached a node which does not lead goes on to the leader, and is not done before that
// says so.
func TestAnUnlockIsRedirected(t *testing.T) {
	b := newBench(t)
	u := b.unlocks(b.holds(b.own, Request{Key: "k"}, 7))
	b.hears(nodeB, redirect(b.expect("2: unlock k token 7"), nodeC, benchTerm+1))
	if p := b.expect("3: unlock k token 7"); u.over || numberOf(commandOf(p)) != u.number {
		t.Errorf("over: %t, %v; then it is asked for under %d", u.over, u.Err, numberOf(commandOf(p)))
	}
}

// Promise: P8, P13: a Close is confirmed also by the word that the table has no record, and opens none: its own answer
// may have got lost.
func TestACloseIsConfirmedByTheEndOfTheRecord(t *testing.T) {
	unlocks := func(b *bench) *Call { return b.unlocks(b.holds(b.own, Request{Key: "k", MaxHold: time.Minute}, 7)) }
	closes := func(b *bench) *Call {
		s := NewSession(false, benchTTL)
		b.holds(s, Request{Key: "k"}, 7)
		b.pass(benchTTL / 3)
		return b.closes(s)[0]
	}
	for _, tt := range []struct {
		name  string
		given func(*bench) *Call
		when  func(renewal, close Send) message.Message
		want  bool
	}{
		{"it is repeated, and there is no record", unlocks, func(_, c Send) message.Message { return refused(c, shard.Reopen, 9) }, true},
		{"an old answer says that there is no record", unlocks, func(_, c Send) message.Message { return refused(c, shard.Reopen, 1) }, false},
		{"a renewal finds no record", closes, func(q, _ Send) message.Message { return unknown(q, 9) }, true},
		{"an old answer to a renewal says that there is no record", closes, func(q, _ Send) message.Message { return unknown(q, 1) }, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := newBench(t)
			c := tt.given(b)
			sent := b.takes()
			if words(sent[len(sent)-1]) != "close" {
				t.Fatalf("sent %q", inWords(sent))
			}
			b.hears(nodeB, tt.when(sent[0], sent[len(sent)-1]))
			if c.over != tt.want || c.Err != nil {
				t.Errorf("the call: %v, %v", c.over, c.Err)
			}
			if b.expects(); (b.leases() == 0) != tt.want {
				t.Errorf("%d leases are left", b.leases())
			}
		})
	}
}
