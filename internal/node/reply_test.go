package node

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/lockmesh/mesh/internal/message"
	"github.com/lockmesh/mesh/internal/replica"
	"github.com/lockmesh/mesh/shard"
)

// Promise: G7, P11: what a caller is told of each result, and that the shard hears once that he has it. A
// result that is not one of this command's says nothing.
func TestResults(t *testing.T) {
	locks := func(b *bench) *call { return b.asks(b.node.Session(), Request{Key: "k"}) }
	unlocks := func(b *bench) *call { return b.unlocks(b.holds(b.node.Session(), Request{Key: "k"}, 3)) }
	claims := func(b *bench) *call {
		return b.extends(b.holds(b.node.Session(), Request{Key: "k", MaxHold: time.Minute}, 3), time.Second)
	}
	refuse := func(why shard.Reason) message.Result {
		return message.Result{Outcome: message.Refused, Reason: why, Holder: "h", Token: 4, Revision: 6}
	}
	for _, tt := range []struct {
		name  string
		asks  func(*bench) *call
		told  message.Result
		over  bool
		err   error
		acks  bool   // the result is acknowledged
		sends string // at once
	}{
		{"granted", locks, message.Result{Outcome: message.Granted, Token: 7, Revision: 7}, true, nil, true, ""},
		{"queued", locks, message.Result{Outcome: message.Queued, Ahead: 2, Holder: "h", Token: 4, Revision: 6}, false, nil, false, ""},
		{"taken", locks, refuse(shard.Locked), true, ErrLocked, true, ""},
		{"with another capacity", locks, refuse(shard.Capacity), true, ErrCapacity, true, ""},
		{"crowded", locks, refuse(shard.Crowded), true, ErrTooManyWaiters, true, ""},
		{"an old number", locks, refuse(shard.Stale), true, ErrLost, true, ""},
		{"gone", locks, refuse(shard.Lost), true, ErrLost, true, ""},
		{"opened by one that knew more", locks, refuse(shard.Behind), false, nil, false, ""},
		{"no record", locks, refuse(shard.Reopen), false, nil, false, "2: lock k"},
		{"cancelled", locks, message.Result{Outcome: message.Done, Revision: 6}, true, ErrLost, false, "2: cancel"},
		{"unlocked", unlocks, message.Result{Outcome: message.Done, Revision: 6}, true, nil, true, ""},
		{"unlocked before", unlocks, refuse(shard.Lost), true, ErrLost, true, ""},
		{"granted by an unlock", unlocks, message.Result{Outcome: message.Granted, Token: 7, Revision: 7}, false, nil, false, ""},
		{"claimed", claims, message.Result{Outcome: message.Done, Revision: 6}, true, nil, true, ""},
		{"granted by a claim", claims, message.Result{Outcome: message.Granted, Token: 7, Revision: 7}, false, nil, false, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := newBench(t, Config{})
			c := tt.asks(b)
			p := b.take()[0]
			id, number := c.seat.id, c.number
			b.hears(nodeB, told(p, tt.told))
			if c.over != tt.over || c.err != tt.err {
				t.Errorf("%v, %v; want %v, %v", c.over, c.err, tt.over, tt.err)
			}
			if tt.told.Outcome == message.Queued || tt.told.Outcome == message.Refused && tt.over && tt.sends == "" && c.what == acquires {
				if c.info.Holder != "h" || c.info.Token != 4 || c.info.Queued != (tt.told.Outcome == message.Queued) || c.info.Ahead != tt.told.Ahead {
					t.Errorf("what is known: %+v", c.info)
				}
			}
			if tt.sends == "" {
				b.expects()
			} else {
				b.expect(tt.sends)
			}
			b.asks(b.node.Session(), Request{Key: "n"})
			next := b.expect("2: lock n").command().(shard.Acquire)
			if got := slices.Contains(next.Acked, number); got != tt.acks && next.Session == id {
				t.Errorf("%d is acknowledged with the next command: %v", number, next.Acked)
			}
			if tt.acks && c.what == acquires {
				// It is told again: to nobody, and is acknowledged again.
				b.hears(nodeB, told(p, tt.told))
				b.asks(b.node.Session(), Request{Key: "m"})
				if again := b.expect("2: lock m").command().(shard.Acquire); !slices.Equal(again.Acked, []uint64{number}) {
					t.Errorf("told again, it acknowledges %v", again.Acked)
				}
			}
			if got := b.desk().revision; got != tt.told.Revision {
				t.Errorf("the desk knows revision %d", got)
			}
		})
	}
}

// Promise: P11: what a command carried that is known to be applied is not told again; what one carried
// that nobody may have seen, is.
func TestAcknowledgementsOfALostCommand(t *testing.T) {
	for _, seen := range []bool{false, true} {
		b := newBench(t, Config{})
		b.holds(b.node.Session(), Request{Key: "k"}, 3)
		c := b.asks(b.node.Session(), Request{Key: "n"})
		p := b.expect("2: lock n")
		if a := p.command().(shard.Acquire).Acked; !slices.Equal(a, []uint64{1}) {
			t.Fatalf("it carries %v", a)
		}
		if seen {
			b.hears(nodeB, told(p, message.Result{Outcome: message.Queued, Revision: 4}))
		}
		b.do(func(l *lane) { l.desk(0).abandon(c, context.Canceled) })
		if got := slices.Equal(b.expect("2: cancel").command().(shard.Cancel).Acked, []uint64{1}); got == seen {
			t.Errorf("its first copy was seen: %t, and what it carried is told again: %t", seen, got)
		}
	}
}

// Promise: G7: who gives up learns whether a majority answered in the last 2·E, or since it was asked, who leads as far as
// is known, and how it stood.
func TestWhatIsKnown(t *testing.T) {
	const limit = 2 * replica.ElectionTimeout
	for _, tt := range []struct {
		name   string
		then   func(b *bench, p parcel)
		quorum bool
		leader string
	}{
		{"asked just now", func(b *bench, _ parcel) { b.pass(limit - 1) }, true, "b"},
		{"asked long ago", func(b *bench, _ parcel) { b.pass(limit) }, false, "b"},
		{"another was answered since", func(b *bench, p parcel) {
			b.pass(limit / 2)
			b.hears(nodeB, letter{0, &message.Reply{Result: message.Result{Session: 99, Number: 1, Outcome: message.Done}, Office: byB}})
			b.pass(limit - 1)
		}, true, "b"},
		{"another's renewal was answered since", func(b *bench, p parcel) {
			b.pass(limit / 2)
			b.hears(nodeB, letter{0, &message.Answer{Session: 99, Ref: 1, Office: byB}})
			b.pass(limit - 1)
		}, true, "b"},
		{"another was answered, long ago", func(b *bench, p parcel) {
			b.hears(nodeB, letter{0, &message.Reply{Result: message.Result{Session: 99, Number: 1, Outcome: message.Done}, Office: byB}})
			b.pass(limit)
		}, false, "b"},
		{"it waits in the queue, and nothing was asked since", func(b *bench, p parcel) {
			b.hears(nodeB, told(p, message.Result{Outcome: message.Queued, Revision: 3}))
			b.pass(limit + time.Second)
		}, true, "b"},
		{"it waits in the queue, and a renewal is not answered", func(b *bench, p parcel) {
			b.hears(nodeB, told(p, message.Result{Outcome: message.Queued, Revision: 3}))
			b.pass(benchTTL/3 + limit)
		}, false, "b"},
		{"it waits in the queue, and a renewal was answered", func(b *bench, p parcel) {
			b.hears(nodeB, told(p, message.Result{Outcome: message.Queued, Revision: 3}))
			b.take()
			b.pass(benchTTL / 3)
			b.hears(nodeB, alive(b.expect("2: renewal"), 3))
			b.pass(limit + time.Second)
		}, true, "b"},
		{"the leader is gone", func(b *bench, _ parcel) { b.do(func(l *lane) { l.nodeGone(nodeB) }) }, true, ""},
		{"another one leads", func(b *bench, _ parcel) { b.hears(nodeC, serves(benchTerm+1)) }, true, "c"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := newBench(t, Config{})
			c := b.asks(b.node.Session(), Request{Key: "k"})
			tt.then(b, b.expect("2: lock k"))
			b.do(func(l *lane) { l.desk(0).abandon(c, context.Canceled) })
			if c.info.Quorum != tt.quorum || c.info.Leader != tt.leader {
				t.Errorf("a majority: %t, the leader: %q", c.info.Quorum, c.info.Leader)
			}
		})
	}
	// A Try does not wait for longer than that.
	b := newBench(t, Config{})
	c := b.asks(b.node.Session(), Request{Key: "k", Try: true})
	if b.pass(limit - 1); c.over {
		t.Error("a Try ends too early")
	}
	if b.pass(1); !c.over || c.err != ErrNoQuorum || c.info.Quorum {
		t.Errorf("a Try without an answer: %v, %v", c.over, c.err)
	}
}

// Promise: G6: a new leader is asked at once for what was not answered, and for each lease: its answers repeat
// what got lost with the old one.
func TestANewLeaderIsAsked(t *testing.T) {
	b := newBench(t, Config{})
	h := b.holds(b.node.Session(), Request{Key: "h"}, 3)
	b.asks(b.node.Session(), Request{Key: "q"})
	b.hears(nodeB, told(b.expect("2: lock q"), message.Result{Outcome: message.Queued, Revision: 4}))
	b.asks(b.node.Session(), Request{Key: "k"})
	b.expect("2: lock k")
	b.pass(3 * time.Second)
	for _, p := range b.take() {
		if is[*message.Renewal](p) {
			t.Fatal("it is renewed too early")
		}
	}
	b.hears(nodeC, serves(benchTerm-1))
	b.expects()
	b.hears(nodeC, serves(benchTerm+1))
	sent := b.expects("3: lock k", "3: renewal")
	if sent[0].relay() || sent[1].renewal().Relay {
		t.Error("it is asked to pass them on")
	}
	// Renewals that are sent elsewhere, again and again, end; with a new leader they count afresh.
	term := uint64(benchTerm + 2)
	follow := func(p parcel) (jumps int) {
		for {
			b.hears(p.to, redirected(p, nodeB+nodeC-p.to, term))
			if term++; len(b.sent) == 0 {
				return jumps
			}
			jumps++
			p = b.take()[0]
		}
	}
	if jumps := follow(sent[1]); jumps != maxJumps {
		t.Errorf("%d redirects of a renewal are followed, want %d", jumps, maxJumps)
	}
	b.hears(nodeC, serves(term))
	sent = b.take()
	i := slices.IndexFunc(sent, func(p parcel) bool { return is[*message.Renewal](p) })
	if i < 0 || sent[i].to != nodeC || sent[i].renewal().Relay {
		t.Fatalf("a new leader is told %+v", sent)
	}
	if jumps := follow(sent[i]); jumps != maxJumps {
		t.Errorf("with a new leader %d redirects of a renewal are followed, want %d", jumps, maxJumps)
	}
	if h.Err() != nil {
		t.Error(h.Err())
	}
}

// Promise: P13, G6: results that do not fit into one answer are asked for in turn, and that comes to an end.
func TestResultsInTurn(t *testing.T) {
	b := newBench(t, Config{})
	var calls []*call
	for i := range 6 {
		calls = append(calls, b.asks(b.node.Session(), Request{Key: fmt.Sprint(i)}))
	}
	sent := b.take()
	for _, p := range sent {
		b.hears(nodeB, told(p, message.Result{Outcome: message.Queued, Revision: 4}))
	}
	grants := func(from, to int) (all []message.Result) { // of the calls from to to
		for i := from; i < to; i++ {
			all = append(all, message.Result{Session: calls[i].seat.id.Number, Number: uint64(i + 1), Outcome: message.Granted, Token: uint64(10 + i), Revision: 20})
		}
		return all
	}
	more := func(p parcel, results []message.Result) letter {
		m := alive(p, 20, results...)
		m.Message.(*message.Answer).More = true
		return m
	}
	b.hears(nodeB, grant(sent[0], 10)) // it is acknowledged with the next command
	b.pass(benchTTL / 3)
	p := b.expect("2: renewal")
	if p.renewal().After != 1 {
		t.Errorf("it asks for what is behind %d, want 1", p.renewal().After)
	}
	b.hears(nodeB, more(p, grants(1, 3)))
	next := b.expect("2: renewal") // at once
	if next.renewal().After != 3 || !calls[2].over || calls[3].over {
		t.Errorf("it asks for what is behind %d, want 3", next.renewal().After)
	}
	b.hears(nodeB, more(p, grants(1, 3))) // again
	b.expects()
	b.hears(nodeB, more(next, grants(3, 5)))
	last := b.expect("2: renewal")
	if last.renewal().After != 5 {
		t.Errorf("it asks for what is behind %d, want 5", last.renewal().After)
	}
	// No further than before, though there is more, and something is missed: it does not ask again at once.
	b.hears(nodeB, more(last, grants(3, 5)))
	b.expects()
	b.pass(benchTTL / 3)
	p = b.expect("2: renewal")
	if p.renewal().After != 5 {
		t.Errorf("the next renewal asks for what is behind %d, want 5", p.renewal().After)
	}
	m := alive(p, 20, grants(5, 6)...)
	b.hears(nodeB, m)
	b.expects()
	for i, c := range calls {
		if !c.over || c.err != nil {
			t.Errorf("call %d: %v, %v", i, c.over, c.err)
		}
	}
	// Nothing is missed: more of it is not asked for.
	b.pass(benchTTL / 3)
	p = b.expect("2: renewal")
	if p.renewal().After != 0 {
		t.Errorf("it asks for what is behind %d, want 0", p.renewal().After)
	}
	b.hears(nodeB, more(p, grants(0, 6)))
	b.expects()
}

// What one run of a lane has to say to a peer leaves in one frame for each class.
func TestOneFrame(t *testing.T) {
	b := newBench(t, Config{})
	frames := b.frames
	b.do(func(l *lane) {
		for i := range 5 {
			l.desk(0).acquire(&call{what: acquires, session: b.node.Session(), req: Request{Key: fmt.Sprint(i)}})
		}
	})
	if b.expects("2: lock 0", "2: lock 1", "2: lock 2", "2: lock 3", "2: lock 4"); b.frames != frames+1 {
		t.Errorf("they leave in %d frames", b.frames-frames)
	}
	frames = b.frames
	b.do(func(l *lane) {
		for range 200 {
			l.desk(0).acquire(&call{what: acquires, session: b.node.Session(), req: Request{Key: "k", Value: make([]byte, shard.MaxValue)}})
		}
	})
	if len(b.take()) != 200 || b.frames != frames+2 {
		t.Errorf("much to say leaves in %d frames", b.frames-frames)
	}
}
