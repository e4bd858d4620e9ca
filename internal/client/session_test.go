package client

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/lockmesh/mesh/internal/fault"
	"github.com/lockmesh/mesh/internal/message"
	"github.com/lockmesh/mesh/shard"
)

// Promise: G5, P8, P9: a session that is closed ends what it holds and waits for before anything is sent, and
// closes its record in each shard. Each Close is repeated until it is answered, or the lease is over.
func TestCloseOfASession(t *testing.T) {
	for _, tt := range []struct {
		name    string
		answers []int   // shards
		want    []error // of the Closes, by shard
	}{
		{"both shards answer", []int{0, 1}, []error{nil, nil}},
		{"one of them does", []int{1}, []error{fault.ErrUnconfirmed, nil}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := newBench(t, 2)
			s := NewSession(false, benchTTL)
			keep := b.holds(b.own, Request{Key: "o"}, 6)
			var holds []*Hold
			for sh := range 2 {
				c := b.asksOf(sh, s, Request{Key: "k"})
				b.hearsOf(sh, nodeB, granted(b.expect("2: lock k"), 7))
				holds = append(holds, c.Hold)
			}
			waits := b.asks(s, Request{Key: "w"})
			b.takes()
			b.play = func(p Send) {
				if b.sent = append(b.sent, p); words(p) != "close" || holds[0].Err() == nil || holds[1].Err() == nil {
					t.Errorf("%q is sent, while the holds have ended: %v, %v", words(p), holds[0].Err(), holds[1].Err())
				}
			}
			calls := b.closes(s)
			b.play = nil
			if len(calls) != 2 || calls[0].Shard != 0 || calls[1].Shard != 1 {
				t.Fatalf("the calls %+v close its leases", calls)
			}
			if !waits.over || waits.Err != fault.ErrClosed {
				t.Errorf("the Lock that waits in it: %v, %v", waits.over, waits.Err)
			}
			for _, h := range holds {
				if h.Err() != fault.ErrClosed || !slices.Contains(b.events, Event(Unlocking{h})) {
					t.Errorf("a hold of it: %v; events: %+v", h.Err(), b.events)
				}
			}
			for _, p := range b.takes() {
				if slices.Contains(tt.answers, p.Shard) {
					b.hearsOf(p.Shard, nodeB, done(p, 8))
				}
			}
			late := b.asks(s, Request{Key: "n"})
			if b.expects(); !late.over || late.Err != fault.ErrClosed {
				t.Errorf("a Lock that comes after the end: %v, %v", late.over, late.Err)
			}
			if keep.Err() != nil {
				t.Errorf("a hold of another session: %v", keep.Err())
			}
			for i, c := range calls {
				if answered := slices.Contains(tt.answers, i); c.over != answered || c.Err != nil {
					t.Errorf("shard %d answered: %t; its Close: %v, %v", i, answered, c.over, c.Err)
				}
			}
			b.pass(time.Second)
			repeated := slices.ContainsFunc(b.takes(), func(p Send) bool { return words(p) == "close" })
			if repeated != (len(tt.answers) < 2) {
				t.Errorf("a Close is repeated: %t", repeated)
			}
			b.pass(benchTTL)
			for i, c := range calls {
				if !c.over || c.Err != tt.want[i] {
					t.Errorf("in the end the Close of shard %d: %v, %v, want %v", i, c.over, c.Err, tt.want[i])
				}
			}
		})
	}
}

// Promise: P9, P7: the Close of a lease in which a Lock of fixed length waited ends with the lease, like any other.
func TestCloseOfASessionInWhichALockOfFixedLengthWaits(t *testing.T) {
	for _, shown := range []bool{false, true} {
		b := newBench(t)
		s := NewSession(false, benchTTL)
		c := b.asks(s, Request{Key: "k", MaxHold: time.Minute})
		if shown {
			b.hears(nodeB, queued(sending(c), 6))
		}
		calls := b.closes(s)
		if !c.over || c.Err != fault.ErrClosed || len(calls) != 1 {
			t.Fatalf("the Lock: %v, %v; %d calls", c.over, c.Err, len(calls))
		}
		b.pass(benchTTL)
		if !calls[0].over || calls[0].Err != fault.ErrUnconfirmed || b.leases() > 0 {
			t.Errorf("the Close: %v, %v; %d leases", calls[0].over, calls[0].Err, b.leases())
		}
	}
}

// Promise: P8, G4: an Unlock that comes when the lease is given up learns that it will not be confirmed. One that is
// under way when its session is closed ends with the record.
func TestAnUnlockMeetsTheEnd(t *testing.T) {
	for _, length := range []time.Duration{0, time.Minute} {
		t.Run(length.String(), func(t *testing.T) {
			b := newBench(t)
			h := b.holds(b.own, Request{Key: "k", MaxHold: length}, 7)
			b.do(Shut{})
			for range 2 {
				if c := b.unlocks(h); !c.over || c.Err != fault.ErrUnconfirmed {
					t.Errorf("after the end: %v, %v", c.over, c.Err)
				}
			}
			b.expects()

			b = newBench(t)
			s := NewSession(false, benchTTL)
			h = b.holds(s, Request{Key: "k", MaxHold: length}, 7)
			other := b.holds(s, Request{Key: "o", MaxHold: length}, 8)
			unlock := b.unlocks(h)
			b.takes()
			calls := b.closes(s)
			for _, p := range b.takes() {
				if words(p) != "close" {
					t.Errorf("%q is sent", words(p))
				}
				b.hears(nodeB, done(p, 9))
			}
			for _, c := range append(calls, unlock) {
				if !c.over || c.Err != nil {
					t.Errorf("Unlock and Close: %v, %v", c.over, c.Err)
				}
			}
			if other.Err() == nil || b.leases() > 0 {
				t.Errorf("another hold: %v; %d leases are left", other.Err(), b.leases())
			}
			b.pass(time.Minute)
			b.expects()
		})
	}
}

// Promise: G5, P9: a session that lost a lease in one shard ends everywhere: its waiting callers are told, what
// is renewed lapses, and what is fixed is closed.
func TestALostSessionEndsEverywhere(t *testing.T) {
	b := newBench(t)
	s := NewSession(false, benchTTL)
	h := b.holds(s, Request{Key: "k"}, 7)
	fixed := b.holds(s, Request{Key: "f", MaxHold: 40 * time.Second}, 8)
	unlocked := b.holds(s, Request{Key: "u", MaxHold: 40 * time.Second}, 8)
	unlock := b.unlocks(unlocked)
	b.takes()
	waits := b.asks(s, Request{Key: "w"})
	alone := b.asks(s, Request{Key: "g", MaxHold: 40 * time.Second})
	fixing := b.asks(s, Request{Key: "c", MaxHold: 40 * time.Second})
	sent := b.expects("2: lock w", "2: lock g", "2: lock c")
	if unlock.over {
		t.Error("an Unlock is over before its answer")
	}
	b.hears(nodeB, queued(sent[0], 9), queued(sent[1], 9), granted(sent[2], 10))
	b.expect("2: fix c token 10")
	b.pass(benchTTL / 3)
	for _, p := range b.takes() {
		if is[*message.Renewal](p) && renewalOf(p).Session != h.lease.id {
			b.hears(nodeB, alive(p, 10))
		}
	}
	b.stall(h.Deadline() - b.now)
	if s.Err() != fault.ErrLost || h.Err() != fault.ErrLost || fixed.Err() != fault.ErrLost {
		t.Errorf("the session: %v, its holds: %v, %v", s.Err(), h.Err(), fixed.Err())
	}
	if !slices.Contains(b.events, Event(Unlocking{fixed})) || slices.Contains(b.events, Event(Unlocking{h})) {
		t.Error("it is not said that the key of a fixed hold alone may be free before its lease is over")
	}
	for i, c := range []*Call{waits, alone, fixing} {
		if !c.over || c.Err != fault.ErrLost {
			t.Errorf("call %d: %v, %v", i, c.over, c.Err)
		}
	}
	closed := make(map[uint64]bool)
	for _, p := range b.takes() { // also what went out before, in the same step
		if words(p) == "close" {
			closed[sessionOf(p).Number] = true
		}
	}
	b.pass(2 * longestRetry)
	for _, p := range b.takes() {
		if words(p) != "close" {
			t.Errorf("%q is sent after the end", words(p))
		}
	}
	if len(closed) != 4 || closed[h.lease.id.Number] {
		t.Errorf("the records %v are closed, want those of one hold each", closed)
	}
	if n := b.client.Held(); n != 0 {
		t.Errorf("%d holds are waited for", n)
	}
}

// Promise: P12: a caller that gives up leaves no grant behind: a Cancel is repeated until it is answered, and each
// renewal names it; for a hold of fixed length the record is closed instead.
func TestACallerThatGivesUp(t *testing.T) {
	inQueue := message.Reply{Event: shard.Event{What: shard.Queued}, Revision: 6}
	for _, tt := range []struct {
		name   string
		hold   time.Duration
		given  []message.Reply // before it gives up
		want   string          // is sent
		closed bool
	}{
		{name: "its Lock was not answered", want: "2: cancel"},
		{name: "its Lock was queued", given: []message.Reply{inQueue}, want: "2: cancel"},
		{name: "its Lock was not answered, and the time would be fixed", hold: time.Minute, want: "2: close", closed: true},
		{name: "its Lock was queued, and the time would be fixed", hold: time.Minute, given: []message.Reply{inQueue}, want: "2: close", closed: true},
		{
			name: "its time is being fixed", hold: time.Minute, given: []message.Reply{inQueue, {Event: shard.Event{What: shard.Granted, Token: 7}, Revision: 7}},
			want: "2: close", closed: true,
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := newBench(t)
			h := b.holds(b.own, Request{Key: "h"}, 3)
			c := b.asks(b.own, Request{Key: "k", MaxHold: tt.hold})
			p := b.expect("2: lock k")
			for _, r := range tt.given {
				b.hears(nodeB, told(p, r))
			}
			b.takes()
			b.do(Abandon{c, context.Canceled})
			if !c.over || c.Err != context.Canceled || !c.Info.Quorum || c.Info.Queued != (len(tt.given) > 0) {
				t.Errorf("%v, %v, %+v", c.over, c.Err, c.Info)
			}
			if n := b.client.Held(); n != 1 {
				t.Errorf("%d holds are waited for, want the other one alone", n)
			}
			cancel := b.expect(tt.want)
			if a, ok := commandOf(cancel).(shard.Cancel); ok && a.Target != numberOf(commandOf(p)) {
				t.Errorf("%+v is sent", a)
			}
			b.do(Abandon{c, context.Canceled})
			b.expects()
			b.until(time.Minute + benchTTL/3 - 1)
			repeated := b.takes()
			if len(repeated) < 2 || slices.ContainsFunc(repeated, func(p Send) bool { return !is[*message.Request](p) || "2: "+words(p) != tt.want }) {
				t.Errorf("then %d messages are sent, want the command again and again", len(repeated))
			}
			b.pass(1)
			renewed := slices.DeleteFunc(b.takes(), func(p Send) bool { return !is[*message.Renewal](p) || renewalOf(p).Session != c.lease.id })
			if tt.closed {
				if len(renewed) > 0 {
					t.Error("a record that is to be closed is renewed")
				}
			} else if len(renewed) != 1 || len(renewalOf(renewed[0]).Abandoned) != 1 || numberOf(renewalOf(renewed[0]).Abandoned[0].Command) != numberOf(commandOf(cancel)) {
				t.Errorf("%q does not name it", inWords(renewed))
			}
			// A grant that comes all the same is no caller's.
			b.hears(nodeB, granted(p, 9))
			b.takes()
			b.hears(nodeB, done(cancel, 9))
			b.pass(time.Second)
			for _, p := range b.takes() {
				if is[*message.Request](p) || renewalOf(p).Session == c.lease.id && len(renewalOf(p).Abandoned) > 0 {
					t.Errorf("%q is sent after the answer", words(p))
				}
			}
			if n := b.client.Counters().Grants.Load(); h.Err() != nil || n != 1 || b.leases() != 1 {
				t.Errorf("the other hold: %v; %d grants; %d leases", h.Err(), n, b.leases())
			}
		})
	}
}
