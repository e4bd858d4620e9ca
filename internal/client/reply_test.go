package client

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/lockmesh/mesh/internal/fault"
	"github.com/lockmesh/mesh/internal/message"
	"github.com/lockmesh/mesh/internal/replica"
	"github.com/lockmesh/mesh/shard"
)

// Promise: G7, P11: what a caller is told of each result, and that the shard hears once that the result has
// come. A result that does not fit the command says nothing.
func TestResults(t *testing.T) {
	locks := func(b *bench) *Call { return b.asks(b.own, Request{Key: "k"}) }
	locksFor := func(b *bench) *Call { return b.asks(b.own, Request{Key: "k", MaxHold: time.Minute}) }
	unlocks := func(b *bench) *Call { return b.unlocks(b.holds(b.own, Request{Key: "k"}, 3)) }
	fixes := func(b *bench) *Call {
		return b.extends(b.holds(b.own, Request{Key: "k", MaxHold: time.Minute}, 3), time.Second)
	}
	refuse := func(why shard.Reason) message.Reply {
		return message.Reply{Event: shard.Event{What: shard.Refused, Reason: why, Holder: "h", Token: 4}, Revision: 6}
	}
	type result struct {
		over  bool
		err   error
		acked bool   // the result is acknowledged
		sends string // at once
	}
	for _, tt := range []struct {
		name  string
		given func(*bench) *Call
		when  message.Reply
		want  result
	}{
		{"a Lock is granted", locks, message.Reply{Event: shard.Event{What: shard.Granted, Token: 7}, Revision: 7}, result{true, nil, true, ""}},
		{"a Lock is queued", locks, message.Reply{Event: shard.Event{What: shard.Queued, Ahead: 2, Holder: "h", Token: 4}, Revision: 6}, result{}},
		{"a Lock finds its key taken", locks, refuse(shard.Locked), result{true, fault.ErrLocked, true, ""}},
		{"a Lock finds its shard quiet", locks, refuse(shard.Quiet), result{true, fault.ErrQuiet, true, ""}},
		{"a Lock of fixed length finds its shard quiet", locksFor, refuse(shard.Quiet), result{true, fault.ErrQuiet, false, "2: close"}},
		{"a Lock finds its key with another capacity", locks, refuse(shard.Capacity), result{true, fault.ErrCapacity, true, ""}},
		{"a Lock finds too many waiters", locks, refuse(shard.Crowded), result{true, fault.ErrTooManyWaiters, true, ""}},
		{"a Lock has an old number", locks, refuse(shard.Stale), result{true, fault.ErrLost, true, ""}},
		{"a Lock is gone", locks, refuse(shard.Lost), result{true, fault.ErrLost, true, ""}},
		{"the record was opened by a client that knew more", locks, refuse(shard.Behind), result{}},
		{"there is no record", locks, refuse(shard.Reopen), result{false, nil, false, "2: lock k"}},
		{"a Lock was cancelled", locks, message.Reply{Event: shard.Event{What: shard.Done}, Revision: 6}, result{true, fault.ErrLost, false, "2: cancel"}},
		{"an Unlock is done", unlocks, message.Reply{Event: shard.Event{What: shard.Done}, Revision: 6}, result{true, nil, true, ""}},
		{"an Unlock was done before", unlocks, refuse(shard.Lost), result{true, fault.ErrLost, true, ""}},
		{"an Unlock is granted", unlocks, message.Reply{Event: shard.Event{What: shard.Granted, Token: 7}, Revision: 7}, result{}},
		{"a Lock of fixed length finds its key taken", locksFor, refuse(shard.Locked), result{true, fault.ErrLocked, false, "2: close"}},
		{"a Fix is done", fixes, message.Reply{Event: shard.Event{What: shard.Done}, Revision: 6}, result{true, nil, true, ""}},
		{"a Fix is granted", fixes, message.Reply{Event: shard.Event{What: shard.Granted, Token: 7}, Revision: 7}, result{}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := newBench(t)
			c := tt.given(b)
			p := b.takes()[0]
			id, number := c.lease.id, c.number
			b.hears(nodeB, told(p, tt.when))
			if c.over != tt.want.over || c.Err != tt.want.err {
				t.Errorf("%v, %v; want %v, %v", c.over, c.Err, tt.want.over, tt.want.err)
			}
			isQueued := tt.when.What == shard.Queued
			if isQueued || tt.when.What == shard.Refused && tt.want.over && c.Kind == Lock {
				if c.Info.Holder != "h" || c.Info.Token != 4 || c.Info.Queued != isQueued || c.Info.Ahead != tt.when.Ahead {
					t.Errorf("what is known: %+v", c.Info)
				}
			}
			if tt.when.What == shard.Refused && tt.want.over && c.Kind == Lock && (c.Info.Leader != "b" || !c.Info.Quorum) {
				t.Errorf("what is known of the shard: %+v", c.Info)
			}
			if tt.want.sends == "" {
				b.expects()
			} else {
				b.expect(tt.want.sends)
			}
			b.asks(b.own, Request{Key: "n"})
			next := commandOf(b.expect("2: lock n")).(shard.Acquire)
			if got := slices.Contains(next.Acked, number); got != tt.want.acked && next.Session == id {
				t.Errorf("%d is acknowledged with the next command: %v", number, next.Acked)
			}
			if tt.want.acked && c.Kind == Lock {
				// It is told again: to no caller, and is acknowledged again.
				b.hears(nodeB, told(p, tt.when))
				b.asks(b.own, Request{Key: "m"})
				if again := commandOf(b.expect("2: lock m")).(shard.Acquire); !slices.Equal(again.Acked, []uint64{number}) {
					t.Errorf("told again, it acknowledges %v", again.Acked)
				}
			}
			if got := b.shard().revision; got != tt.when.Revision {
				t.Errorf("the client knows revision %d", got)
			}
		})
	}
}

// Promise: P27: a caller that is refused, or gives up, hears for how much longer its shard is expected to
// grant nothing: as the shard last said, less the time since.
func TestQuiet(t *testing.T) {
	const said = 9 * time.Second
	refuse := func(why shard.Reason, quiet time.Duration) shard.Event {
		return shard.Event{What: shard.Refused, Reason: why, Quiet: quiet}
	}
	for _, tt := range []struct {
		name   string
		answer shard.Event
		pass   time.Duration // until it gives up; zero: it is refused
		err    error
		want   time.Duration
	}{
		{"a try in quiet", refuse(shard.Quiet, said), 0, fault.ErrQuiet, said},
		{"a try in a quiet that was over when it was told again", refuse(shard.Quiet, 0), 0, fault.ErrQuiet, 0},
		{"a try of what is held", refuse(shard.Locked, 0), 0, fault.ErrLocked, 0},
		{"a key with another capacity, in quiet", refuse(shard.Capacity, said), 0, fault.ErrCapacity, said},
		{"a waiter gives up in quiet", shard.Event{What: shard.Queued, Quiet: said}, 2 * time.Second, context.Canceled, 7 * time.Second},
		{"a waiter gives up after quiet", shard.Event{What: shard.Queued, Quiet: said}, said, context.Canceled, 0},
		{"a waiter gives up that quiet has nothing to do with", shard.Event{What: shard.Queued}, 2 * time.Second, context.Canceled, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := newBench(t)
			c := b.asks(b.own, Request{Key: "k", Try: tt.answer.What == shard.Refused})
			b.hears(nodeB, told(b.takes()[0], message.Reply{Event: tt.answer, Revision: 6}))
			if tt.pass > 0 {
				b.pass(tt.pass)
				b.do(Abandon{c, context.Canceled})
			}
			if !c.over || c.Err != tt.err || c.Info.Quiet != tt.want {
				t.Errorf("%v, %v, quiet for another %v; want %v, quiet for %v", c.over, c.Err, c.Info.Quiet, tt.err, tt.want)
			}
		})
	}
}

// Promise: G4, P8: a caller that gives up when its Lock was granted just before has the hold: the shard hears of nothing.
func TestAGrantComesBeforeTheCallerGivesUp(t *testing.T) {
	for _, length := range []time.Duration{0, time.Minute} {
		b := newBench(t)
		h := b.holds(b.own, Request{Key: "k", MaxHold: length}, 7)
		var c *Call
		for _, e := range b.happened() {
			if f, ok := e.(Finished); ok && f.Kind == Lock {
				c = f.Call
			}
		}
		b.do(Abandon{c, context.Canceled})
		b.expects()
		if c.Err != nil || c.Hold != h || h.Err() != nil || b.client.Held() != 1 {
			t.Errorf("for %v: %v; the hold: %v", length, c.Err, h.Err())
		}
	}
}

// Promise: P11: acknowledgements that a command carried are not repeated if the command is known to be applied,
// and are repeated if it may have got lost.
func TestAcknowledgementsOfALostCommand(t *testing.T) {
	for _, applied := range []bool{false, true} {
		b := newBench(t)
		b.holds(b.own, Request{Key: "k"}, 3)
		c := b.asks(b.own, Request{Key: "n"})
		p := b.expect("2: lock n")
		if a := commandOf(p).(shard.Acquire).Acked; !slices.Equal(a, []uint64{1}) {
			t.Fatalf("it carries %v", a)
		}
		if applied {
			b.hears(nodeB, queued(p, 4))
		}
		b.do(Abandon{c, context.Canceled})
		if got := slices.Equal(commandOf(b.expect("2: cancel")).(shard.Cancel).Acked, []uint64{1}); got == applied {
			t.Errorf("it was applied: %t, and what it carried is told again: %t", applied, got)
		}
	}
}

// Promise: P11: a command that was answered is applied, and what it carried is not told again.
func TestAcknowledgementsOfAnAnsweredCommand(t *testing.T) {
	for _, tt := range []struct {
		name string
		when func(b *bench, k *Hold) (number uint64)
	}{
		{"a Lock that is granted", func(b *bench, _ *Hold) uint64 {
			c := b.asks(b.own, Request{Key: "n"})
			b.hears(nodeB, granted(sending(c), 8))
			return c.number
		}},
		{"a Lock that is refused", func(b *bench, _ *Hold) uint64 {
			c := b.asks(b.own, Request{Key: "n"})
			b.hears(nodeB, refused(sending(c), shard.Locked, 8))
			return c.number
		}},
		{"an Unlock that is done", func(b *bench, k *Hold) uint64 {
			c := b.unlocks(k)
			b.hears(nodeB, done(sending(c), 8))
			return c.number
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := newBench(t)
			number := tt.when(b, b.holds(b.own, Request{Key: "k"}, 7))
			b.takes()
			b.asks(b.own, Request{Key: "m"})
			if a := commandOf(b.expect("2: lock m")).(shard.Acquire).Acked; !slices.Equal(a, []uint64{number}) {
				t.Errorf("the next command acknowledges %v, want %d", a, number)
			}
		})
	}
}

// Promise: G7: a caller that gives up learns whether a majority answered in the last 2·E, or since it was asked,
// and which node leads as far as is known.
func TestWhatIsKnown(t *testing.T) {
	another := &message.Reply{Event: shard.Event{Session: shard.SessionID{Number: 99}, Number: 1, What: shard.Done}, Leadership: byB}
	for _, tt := range []struct {
		name   string
		when   func(b *bench, p Send)
		quorum bool
		leader string
	}{
		{"it was asked for just now", func(b *bench, _ Send) { b.pass(noQuorumAfter - 1) }, true, "b"},
		{"it was asked for long ago", func(b *bench, _ Send) { b.pass(noQuorumAfter) }, false, "b"},
		{"another call was answered since", func(b *bench, _ Send) {
			b.pass(noQuorumAfter / 2)
			b.hears(nodeB, another)
			b.pass(noQuorumAfter - 1)
		}, true, "b"},
		{"another session's renewal was answered since", func(b *bench, _ Send) {
			b.pass(noQuorumAfter / 2)
			b.hears(nodeB, &message.Answer{Answer: replica.Answer{Session: shard.SessionID{Number: 99}, Ref: 1}, Leadership: byB})
			b.pass(noQuorumAfter - 1)
		}, true, "b"},
		{"another call was answered long ago", func(b *bench, _ Send) {
			b.hears(nodeB, another)
			b.pass(noQuorumAfter)
		}, false, "b"},
		{"it waits in the queue, and nothing was asked since", func(b *bench, p Send) {
			b.hears(nodeB, queued(p, 3))
			b.pass(noQuorumAfter + time.Second)
		}, true, "b"},
		{"it waits in the queue, and a renewal is not answered", func(b *bench, p Send) {
			b.hears(nodeB, queued(p, 3))
			b.pass(benchTTL/3 + noQuorumAfter)
		}, false, "b"},
		{"it waits in the queue, and a renewal was answered", func(b *bench, p Send) {
			b.hears(nodeB, queued(p, 3))
			b.takes()
			b.pass(benchTTL / 3)
			b.hears(nodeB, alive(b.expect("2: renewal"), 3))
			b.pass(noQuorumAfter + time.Second)
		}, true, "b"},
		{"the leader is gone", func(b *bench, _ Send) { b.do(NodeGone{nodeB}) }, true, ""},
		{"another node leads", func(b *bench, _ Send) { b.hears(nodeC, serves(benchTerm+1)) }, true, "c"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := newBench(t)
			c := b.asks(b.own, Request{Key: "k"})
			tt.when(b, b.expect("2: lock k"))
			b.do(Abandon{c, context.Canceled})
			if c.Info.Quorum != tt.quorum || c.Info.Leader != tt.leader {
				t.Errorf("a majority: %t, the leader: %q", c.Info.Quorum, c.Info.Leader)
			}
		})
	}
}

// Promise: G7, P16: a Try without an answer ends after 2·E.
func TestATryDoesNotWaitForLong(t *testing.T) {
	b := newBench(t)
	c := b.asks(b.own, Request{Key: "k", Try: true})
	if b.pass(noQuorumAfter - 1); c.over {
		t.Error("a Try ends too early")
	}
	if b.pass(1); !c.over || c.Err != fault.ErrNoQuorum || c.Info.Quorum {
		t.Errorf("a Try without an answer: %v, %v", c.over, c.Err)
	}
	b = newBench(t)
	c = b.asks(b.own, Request{Key: "k", Try: true})
	b.expect("2: lock k")
	b.stall(noQuorumAfter) // also if it is due to be repeated
	if b.expectTo("cancel"); !c.over || c.Err != fault.ErrNoQuorum {
		t.Errorf("a Try without an answer, after a stall: %v, %v", c.over, c.Err)
	}
}

// Promise: P7, P16: a Try of fixed length whose Fix is not answered ends like any other Try. Its record is closed.
func TestATryOfFixedLengthWithoutAnAnswer(t *testing.T) {
	b := newBench(t)
	c := b.asks(b.own, Request{Key: "k", MaxHold: time.Minute, Try: true})
	b.hears(nodeB, granted(b.expect("2: lock k"), 7))
	b.pass(noQuorumAfter - 1)
	if b.takes(); c.over {
		t.Error("it ends too early")
	}
	b.pass(1)
	if b.expect("2: close"); !c.over || c.Err != fault.ErrNoQuorum {
		t.Errorf("%v, %v", c.over, c.Err)
	}
	stalled := newBench(t)
	c = stalled.asks(stalled.own, Request{Key: "k", MaxHold: time.Minute, Try: true})
	stalled.hears(nodeB, granted(stalled.expect("2: lock k"), 7))
	stalled.expect("2: fix k token 7")
	stalled.stall(noQuorumAfter) // also if its Fix is due to be repeated
	if stalled.expect("2: close"); !c.over || c.Err != fault.ErrNoQuorum {
		t.Errorf("after a stall: %v, %v", c.over, c.Err)
	}
	b.pass(time.Second)
	for _, p := range b.takes() {
		if words(p) != "close" {
			t.Errorf("then %q is sent", words(p))
		}
	}
}

// Promise: G6: a new leader is asked at once for what was not answered, and for each lease: its answers repeat
// what got lost with the old leader.
func TestANewLeaderIsAsked(t *testing.T) {
	b := newBench(t)
	h := b.holds(b.own, Request{Key: "h"}, 3)
	b.asks(b.own, Request{Key: "q"})
	b.hears(nodeB, queued(b.expect("2: lock q"), 4))
	b.asks(b.own, Request{Key: "k"})
	b.expect("2: lock k")
	b.pass(3 * time.Second)
	if slices.ContainsFunc(b.takes(), is[*message.Renewal]) {
		t.Fatal("the lease is renewed too early")
	}
	b.hears(nodeC, serves(benchTerm-1))
	b.expects()
	b.hears(nodeC, serves(benchTerm+1))
	sent := b.expects("3: lock k", "3: renewal")
	if relayed(sent[0]) || relayed(sent[1]) {
		t.Error("the new leader is asked to relay them")
	}
	// Renewals that are redirected again and again come to an end; with a new leader they count afresh.
	term := uint64(benchTerm + 2)
	follow := func(p Send) (jumps int) {
		for {
			b.hears(p.To, redirect(p, nodeB+nodeC-p.To, term))
			if term++; len(b.sent) == 0 {
				return jumps
			}
			jumps++
			p = b.takes()[0]
		}
	}
	if jumps := follow(sent[1]); jumps != maxJumps {
		t.Errorf("%d redirects of a renewal are followed, want %d", jumps, maxJumps)
	}
	b.hears(nodeC, serves(term))
	sent = b.takes()
	i := slices.IndexFunc(sent, is[*message.Renewal])
	if i < 0 || sent[i].To != nodeC || relayed(sent[i]) {
		t.Fatalf("a new leader is told %q", inWords(sent))
	}
	if jumps := follow(sent[i]); jumps != maxJumps {
		t.Errorf("with a new leader %d redirects of a renewal are followed, want %d", jumps, maxJumps)
	}
	if h.Err() != nil {
		t.Error(h.Err())
	}
}

// Promise: P13: a renewal asks for the results from the first that is missed, whatever kind of call that is. One that
// goes on asks for those behind what the answer had.
func TestWhichResultsARenewalAsksFor(t *testing.T) {
	for _, tt := range []struct {
		name  string
		given func(b *bench, h *Hold)
		want  uint64 // what it asks for is behind this number
	}{
		{"nothing is missed", func(*bench, *Hold) {}, 0},
		{"a Lock is missed", func(b *bench, _ *Hold) { b.asks(b.own, Request{Key: "m"}) }, 1},
		{"an Unlock is missed", func(b *bench, h *Hold) {
			u := b.unlocks(h)
			b.asks(b.own, Request{Key: "m"})
			b.do(Abandon{u, nil})
		}, 1},
		{"the second of two Locks is missed", func(b *bench, _ *Hold) {
			m := b.asks(b.own, Request{Key: "m"})
			for range 20 {
				b.asks(b.own, Request{Key: "n"})
			}
			b.hears(nodeB, granted(sending(m), 8))
		}, 2},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := newBench(t)
			tt.given(b, b.holds(b.own, Request{Key: "k"}, 7))
			b.until(time.Minute + benchTTL/3 - 1)
			b.takes()
			b.pass(1)
			sent := slices.DeleteFunc(b.takes(), func(p Send) bool { return !is[*message.Renewal](p) })
			if len(sent) != 1 || renewalOf(sent[0]).After != tt.want {
				t.Fatalf("it sends %q, and asks for what is behind %d, want %d", inWords(sent), renewalOf(sent[0]).After, tt.want)
			}
		})
	}

	b := newBench(t)
	var calls []*Call
	for i := range 3 {
		calls = append(calls, b.asks(b.own, Request{Key: fmt.Sprint(i)}))
		b.hears(nodeB, queued(sending(calls[i]), 4))
	}
	b.takes()
	b.pass(benchTTL / 3)
	q := b.expect("2: renewal")
	second := shard.Event{Session: shard.SessionID{Number: 1}, Number: 2, What: shard.Granted, Token: 10}
	m := alive(q, 20, second)
	m.More = true
	b.hears(nodeB, m)
	if next := b.expect("2: renewal"); renewalOf(next).After != 2 || calls[0].over || !calls[1].over {
		t.Errorf("the first waits on, and what is behind %d is asked for, want 2", renewalOf(next).After)
	}

	b = newBench(t)
	for i := range 3 {
		b.hears(nodeB, queued(sending(b.asks(b.own, Request{Key: fmt.Sprint(i)})), 4))
	}
	b.takes()
	b.pass(benchTTL / 3)
	b.hears(nodeB, alive(b.expect("2: renewal"), 20, second))
	b.expects() // there is no more
	b.pass(benchTTL / 3)
	q = b.expect("2: renewal")
	m = alive(q, 20)
	m.More = true
	b.hears(nodeB, m)
	b.expects() // it has nothing
}

// Promise: P15, P13: if a relay brought an answer after which there is more, the next question takes the same way.
func TestResultsInTurnThroughARelay(t *testing.T) {
	b := newBench(t)
	var calls []*Call
	for i := range 3 {
		calls = append(calls, b.asks(b.own, Request{Key: fmt.Sprint(i)}))
	}
	for _, p := range b.takes() {
		b.hears(nodeB, queued(p, 4))
	}
	b.pass(benchTTL / 3)
	m := alive(b.expect("2: renewal"), 20, shard.Event{
		Session: shard.SessionID{Number: calls[0].lease.id.Number}, Number: 1, What: shard.Granted, Token: 10,
	})
	m.More = true
	b.hears(nodeC, m)
	if q := b.expect("3: renewal"); !relayed(q) || renewalOf(q).After != 1 {
		t.Errorf("then it asks for %+v", renewalOf(q))
	}
}

// Promise: P13: an answer whose results end the lease says no more of it.
func TestAnAnswerThatEndsItsLease(t *testing.T) {
	b := newBench(t)
	s := NewSession(false, benchTTL)
	h := b.holds(s, Request{Key: "k"}, 7)
	b.pass(benchTTL / 3)
	q := b.expect("2: renewal")
	c := b.closes(s)[0]
	u := b.unlocks(h) // which came just before, and runs only now
	b.expects("2: close", "2: unlock k token 7")
	m := alive(q, 9, shard.Event{Session: shard.SessionID{Number: h.lease.id.Number}, Number: c.number, What: shard.Done})
	m.More = true
	b.hears(nodeB, m)
	if !u.over || u.Err != nil {
		t.Errorf("the Unlock: %v, %v", u.over, u.Err)
	}
	if b.expects(); !c.over || c.Err != nil || b.leases() != 0 {
		t.Errorf("the Close: %v, %v; %d leases", c.over, c.Err, b.leases())
	}
	b.pass(time.Minute)
	b.expects()
}

// Promise: P13, G6: results that do not fit into one answer are asked for in turn, and that comes to an end.
func TestResultsInTurn(t *testing.T) {
	b := newBench(t)
	var calls []*Call
	for i := range 6 {
		calls = append(calls, b.asks(b.own, Request{Key: fmt.Sprint(i)}))
	}
	sent := b.takes()
	for _, p := range sent {
		b.hears(nodeB, queued(p, 4))
	}
	grants := func(from, to int) (all []shard.Event) { // of the calls from from to to
		for i := from; i < to; i++ {
			all = append(all, shard.Event{
				Session: shard.SessionID{Number: calls[i].lease.id.Number}, Number: uint64(i + 1), What: shard.Granted, Token: uint64(10 + i),
			})
		}
		return all
	}
	more := func(p Send, results []shard.Event) message.Message {
		m := alive(p, 20, results...)
		m.More = true
		return m
	}
	b.hears(nodeB, granted(sent[0], 10)) // it is acknowledged with the next command
	b.pass(benchTTL / 3)
	p := b.expect("2: renewal")
	if renewalOf(p).After != 1 {
		t.Errorf("it asks for what is behind %d, want 1", renewalOf(p).After)
	}
	b.hears(nodeB, more(p, grants(1, 3)))
	next := b.expect("2: renewal") // at once
	if renewalOf(next).After != 3 || !calls[2].over || calls[3].over {
		t.Errorf("it asks for what is behind %d, want 3", renewalOf(next).After)
	}
	b.hears(nodeB, more(p, grants(1, 3))) // again
	b.expects()
	b.hears(nodeB, more(next, grants(3, 5)))
	last := b.expect("2: renewal")
	if renewalOf(last).After != 5 {
		t.Errorf("it asks for what is behind %d, want 5", renewalOf(last).After)
	}
	// The answer goes no further than the one before. Though there is more, and something is missed, the
	// client does not ask again at once.
	b.hears(nodeB, more(last, grants(3, 5)))
	b.expects()
	b.pass(benchTTL / 3)
	p = b.expect("2: renewal")
	if renewalOf(p).After != 5 {
		t.Errorf("the next renewal asks for what is behind %d, want 5", renewalOf(p).After)
	}
	b.hears(nodeB, alive(p, 20, grants(5, 6)...))
	b.expects()
	for i, c := range calls {
		if !c.over || c.Err != nil {
			t.Errorf("call %d: %v, %v", i, c.over, c.Err)
		}
	}
	// Nothing is missed: more of it is not asked for.
	b.pass(benchTTL / 3)
	p = b.expect("2: renewal")
	if renewalOf(p).After != 0 {
		t.Errorf("it asks for what is behind %d, want 0", renewalOf(p).After)
	}
	b.hears(nodeB, more(p, grants(0, 6)))
	b.expects()
}
