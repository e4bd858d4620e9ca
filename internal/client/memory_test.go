package client

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/lockmesh/mesh/internal/fault"
	"github.com/lockmesh/mesh/internal/message"
	"github.com/lockmesh/mesh/shard"
)

// onceFor asks for what is done once.
func onceFor(key string, retention time.Duration) Request {
	return Request{Key: key, Mode: Operates, Operation: &shard.Operation{Op: shard.Run, Retention: retention}}
}

func once() Request { return onceFor("r", time.Minute) }

// skippedFor is the word that what is done once was done, and is remembered for so long.
func skippedFor(request Send, revision uint64, remains time.Duration) message.Message {
	return told(request, message.Reply{Event: shard.Event{What: shard.Skipped, Token: revision, Quiet: remains}, Revision: revision})
}

// does lets something be done once.
func (b *bench) does(s *Session, q Request, token uint64) {
	b.tb.Helper()
	c := b.unlocks(b.runs(s, q, token))
	b.hears(nodeB, done(b.expectTo(fmt.Sprintf("end %s token %d", q.Key, token)), token+1))
	if !c.over || c.Err != nil {
		b.tb.Fatalf("the End of %s: %t, %v", q.Key, c.over, c.Err)
	}
}

// goesOver is changes, and leaves what is sent for later.
func (b *bench) goesOver(generation uint64) {
	b.tb.Helper()
	b.do(Generation{Name: generation, Quiet: benchQuiet})
	b.takes()
	b.hears(nodeB, of(generation, serves(1)))
}

// recalled checks what the client tells the table of a new generation of what was done once: key and time, in order.
func (b *bench) recalled(want ...string) []Send {
	b.tb.Helper()
	var got []string
	var sent []Send
	for _, p := range b.takes() {
		if m, ok := commandOf(p).(shard.Recall); ok {
			got, sent = append(got, fmt.Sprintf("%s for %v", m.Key, m.Remains)), append(sent, p)
			if m.Kind != shard.Once || m.Capacity != 1 || m.TTL != benchTTL || m.Name != "a" {
				b.tb.Errorf("sent %+v", m)
			}
		}
	}
	if !slices.Equal(got, want) {
		b.tb.Errorf("the next table is told of %q, want %q", got, want)
	}
	return sent
}

// Promise: C8, P43: the table of a new generation is told of what this node has done, and of what it has skipped; and of what a replica
// knew that was here, if that is more. Not of what has failed.
func TestRecall(t *testing.T) {
	b := newBench(t)
	b.does(b.own, once(), 7)
	c := b.asks(b.own, onceFor("s", time.Minute))
	b.hears(nodeB, skippedFor(b.expectTo("run s"), 9, time.Hour))
	d := b.asks(b.own, onceFor("t", time.Minute))
	b.hears(nodeB, skippedFor(b.expectTo("run t"), 10, 0)) // told again: only the first answer says how long
	if !c.over || c.Err != nil || !c.Skipped || c.Hold != nil || !d.Skipped {
		t.Errorf("skipped: %+v", c)
	}
	failed := b.fails(b.runs(b.own, onceFor("u", time.Minute), 11))
	b.hears(nodeB, done(b.expectTo("fail u token 11"), 12))
	if !failed.over || failed.Err != nil {
		t.Errorf("the End of a failure: %t, %v", failed.over, failed.Err)
	}
	b.pass(time.Second)
	b.goesOver(2)
	b.do(Remembered{Session: b.own, Done: []shard.Memory{
		{Key: "r", Kind: shard.Once, Capacity: 1, Remains: 30 * time.Second}, {Key: "t", Kind: shard.Once, Capacity: 1, Remains: time.Hour}, {Key: "v", Kind: shard.Once, Capacity: 1, Remains: time.Second},
	}})
	sent := b.recalled("r for 59s", "s for 59m59s", "t for 59s", "t for 1h0m0s", "v for 1s")
	for i, p := range sent {
		b.hears(nodeB, of(2, done(p, 1001+uint64(i))))
	}
	b.pass(time.Second)
	b.recalled()

	// What was not confirmed is told again: by the client, or as it was told to it.
	b.goesOver(3)
	b.do(Remembered{Session: b.own, Done: []shard.Memory{{Key: "w", Kind: shard.Once, Capacity: 1, Remains: time.Second}}})
	b.recalled("r for 58s", "s for 59m58s", "t for 58s", "w for 1s")
	b.goesOver(4)
	b.recalled("w for 1s")
	b.do(Remembered{Session: b.own})
	b.recalled("r for 58s", "s for 59m58s", "t for 58s")
}

// Promise: P43: a client remembers what was done for as long as the table, and the latest of each shard; and nothing of a mesh that gave way.
func TestMemoriesAreBounded(t *testing.T) {
	b := newBench(t)
	for i := range maxMemories + 1 {
		c := b.asks(b.own, onceFor(fmt.Sprint("k", i), time.Minute))
		b.hears(nodeB, skippedFor(sending(c), uint64(9+i), 20*time.Second))
		b.takes()
	}
	b.asks(b.own, onceFor("k1", time.Minute))
	b.hears(nodeB, skippedFor(b.expectTo("run k1"), 900, time.Second))
	b.goesOver(2)
	b.do(Remembered{Session: b.own})
	var keys []string
	for _, p := range b.takes() {
		if m, ok := commandOf(p).(shard.Recall); ok {
			keys = append(keys, m.Key)
			if m.Remains != 20*time.Second {
				t.Errorf("%s for %v", m.Key, m.Remains)
			}
		}
	}
	if len(keys) != maxMemories || keys[0] != "k2" || keys[len(keys)-1] != "k1" {
		t.Errorf("it tells of %d: %q", len(keys), keys)
	}
	b.pass(20 * time.Second)
	b.takes()
	b.goesOver(3)
	b.do(Remembered{Session: b.own})
	b.recalled()

	b = newBench(t)
	b.does(b.own, once(), 7)
	b.do(Generation{Name: 2, Void: true})
	b.do(Remembered{Session: b.own})
	b.recalled()

	b = newBench(t)
	b.does(b.own, once(), 7)
	b.goesOver(2)
	b.own.End(fault.ErrClosed)
	b.do(Remembered{Session: b.own})
	b.recalled()
}

// Promise: C8, P43: a success whose End is under way when the table is lost is told to the next table, and the caller hears of that.
func TestAnEndGoesOver(t *testing.T) {
	begun := func(t *testing.T, s func(*bench) *Session) (*bench, *Call) {
		b := newBench(t)
		c := b.unlocks(b.runs(s(b), once(), 7))
		b.expectTo("end r token 7")
		b.goesOver(2)
		return b, c
	}
	own := func(b *bench) *Session { return b.own }
	user := func(*bench) *Session { return NewSession(false, benchTTL) }

	b, c := begun(t, own)
	sent := b.recalled("r for 1m0s")
	if c.over {
		t.Errorf("it is over: %v", c.Err)
	}
	b.hears(nodeB, of(2, done(sent[0], 1001)))
	if !c.over || c.Err != nil || len(c.lease.holds) > 0 {
		t.Errorf("once it was told: %t, %v", c.over, c.Err)
	}

	b, c = begun(t, own)
	b.hears(nodeB, of(2, refused(b.recalled("r for 1m0s")[0], shard.Capacity, 1001)))
	if !c.over || c.Err != fault.ErrUnconfirmed {
		t.Errorf("the key is something else by now: %t, %v", c.over, c.Err)
	}

	b, c = begun(t, own) // the table has no record of the lease
	b.hears(nodeB, of(2, refused(b.recalled("r for 1m0s")[0], shard.Reopen, 1001)))
	b.hears(nodeB, of(2, done(b.recalled("r for 1m0s")[0], 1002)))
	if !c.over || c.Err != nil || c.Hold == nil {
		t.Errorf("told in another lease: %t, %v", c.over, c.Err)
	}

	b, c = begun(t, user)
	b.do(LoseSession{c.Hold.lease.session})
	if !c.over || c.Err != fault.ErrUnconfirmed {
		t.Errorf("its session is lost: %t, %v", c.over, c.Err)
	}

	b, c = begun(t, own)
	b.do(Shut{})
	if !c.over || c.Err != fault.ErrUnconfirmed {
		t.Errorf("the node ends: %t, %v", c.over, c.Err)
	}

	b, c = begun(t, user)
	closing := b.closes(c.Hold.lease.session)
	b.hears(nodeB, of(2, done(sending(closing[0]), 1001)))
	if !c.over || c.Err != fault.ErrUnconfirmed {
		t.Errorf("its session is closed: %t, %v", c.over, c.Err)
	}

	b, c = begun(t, own) // its caller gives up
	b.do(Abandon{Call: c})
	sent = b.recalled("r for 1m0s")
	b.pass(benchTTL / 2)
	for _, p := range b.takes() {
		if r, ok := p.Message.(*message.Renewal); ok && len(r.Abandoned) > 0 {
			t.Errorf("a renewal names %+v", r.Abandoned)
		}
	}
	b.hears(nodeB, of(2, done(sent[0], 1001)))
	if !c.over {
		t.Error("it does not end")
	}

	b = newBench(t) // its caller has given up before
	c = b.unlocks(b.runs(b.own, once(), 7))
	b.expectTo("end r token 7")
	b.do(Abandon{Call: c})
	b.goesOver(2)
	b.do(Remembered{Session: b.own})
	b.recalled("r for 1m0s")

	b = newBench(t)
	c = b.fails(b.runs(b.own, once(), 7))
	b.expectTo("fail r token 7")
	b.goesOver(2)
	if b.recalled(); !c.over || c.Err != nil {
		t.Errorf("a failure: %t, %v", c.over, c.Err)
	}
}

// Promise: C8, P44: a caller gives up its wait for a latch, which opens meanwhile. Should the table be lost before the Cancel is answered,
// the next one hears of neither.
func TestACancelledWaitGoesOver(t *testing.T) {
	b := newBench(t)
	c := b.asks(b.own, Request{Key: "l", Mode: Waits, Capacity: 2})
	wait := b.expectTo("wait l")
	b.do(Abandon{c, context.Canceled})
	b.expectTo("cancel")
	b.hears(nodeB, skippedFor(wait, 9, time.Hour))
	b.goesOver(2)
	b.do(Remembered{Session: b.own})
	if sent := b.takes(); !c.over || c.Err != context.Canceled || len(sent) > 0 {
		t.Errorf("%t, %v, sent %q", c.over, c.Err, inWords(sent))
	}
}
