package client

import (
	"bytes"
	"context"
	"reflect"
	"testing"
	"time"

	"github.com/lockmesh/mesh/internal/message"
	"github.com/lockmesh/mesh/internal/replica"
	"github.com/lockmesh/mesh/shard"
)

// Promise: P11, P12, P14: a command names its session, the next number of its lease, the revision that
// the client knew when the lease was made, and what it is about. It acknowledges each result once.
func TestCommands(t *testing.T) {
	b := newBench(t)
	first := shard.SessionID{Node: nodeA, Number: 1}
	second := shard.SessionID{Node: nodeA, Number: 2} // of the hold of fixed length
	says := func(want shard.Command) Send {
		t.Helper()
		sent := b.takes()
		if len(sent) != 1 || sent[0].To != nodeB || relayed(sent[0]) {
			t.Fatalf("sent %q, want %+v", inWords(sent), want)
		}
		if got := commandOf(sent[0]); !reflect.DeepEqual(got, want) {
			t.Fatalf("sent %+v, want %+v", got, want)
		}
		if got, want := sent[0].Message.(*message.Request).Raw, shard.AppendCommand(nil, want); !bytes.Equal(got, want) {
			t.Fatalf("sent %x, want %x", got, want)
		}
		return sent[0]
	}
	finished := func(c *Call) {
		t.Helper()
		if !c.over || c.Err != nil {
			t.Errorf("a call of kind %d: %v, %v", c.Kind, c.over, c.Err)
		}
	}

	k := b.asks(b.own, Request{Key: "k", Value: []byte("v")})
	b.hears(nodeB, granted(says(shard.Acquire{
		Call: shard.Call{Session: first, Number: 1}, TTL: benchTTL, Name: "a", Key: "k", Weight: shard.Whole, Capacity: shard.Whole, Value: []byte("v"),
	}), 7))
	finished(k)
	b.asks(b.own, Request{Key: "r", Mode: Shared, Try: true})
	says(shard.Acquire{
		Call: shard.Call{Session: first, Number: 2, Acked: []uint64{1}}, TTL: benchTTL, Name: "a", Key: "r", Weight: 1, Capacity: shard.Whole, Try: true,
	})
	p := b.asks(b.own, Request{Key: "p", Mode: Permits, Weight: 2, Capacity: 5})
	says(shard.Acquire{
		Call: shard.Call{Session: first, Number: 3}, TTL: benchTTL, Name: "a", Key: "p", Kind: shard.Semaphore, Weight: 2, Capacity: 5,
	})
	b.do(Abandon{p, context.Canceled})
	b.hears(nodeB, done(says(shard.Cancel{Call: shard.Call{Session: first, Number: 4}, TTL: benchTTL, Name: "a", Target: 3}), 8))
	u := b.unlocks(k.Hold)
	b.hears(nodeB, done(says(shard.Release{Call: shard.Call{Session: first, Number: 5, Acked: []uint64{4}}, Key: "k", Token: 7}), 8))
	finished(u)

	f := b.asks(b.own, Request{Key: "f", MaxHold: 3 * time.Second})
	b.hears(nodeB, granted(says(shard.Acquire{
		Call: shard.Call{Session: second, Number: 1, Since: 8}, TTL: benchTTL, Name: "a", Key: "f", Weight: shard.Whole, Capacity: shard.Whole,
	}), 9))
	if f.over {
		t.Error("the caller has a hold of fixed length before its time is fixed")
	}
	b.hears(nodeB, done(says(shard.Fix{Call: shard.Call{Session: second, Number: 2, Since: 8}, Key: "f", Token: 9, Hold: 3 * time.Second}), 8))
	finished(f)
	x := b.extends(f.Hold, 5*time.Second)
	b.hears(nodeB, done(says(shard.Fix{
		Call: shard.Call{Session: second, Number: 3, Since: 8, Acked: []uint64{1, 2}}, Key: "f", Token: 9, Hold: 5 * time.Second,
	}), 8))
	finished(x)
	c := b.unlocks(f.Hold)
	b.hears(nodeB, done(says(shard.Close{Session: second, Number: 4}), 8))
	finished(c)
	b.expects()
}

// Promise: P11, P12, P39: so do the commands about a resource. The Drop with the last handle names the latest stamp, for a use that outlived
// its session as well; one by name ends such a use whatever its stamp.
func TestCommandsAboutAResource(t *testing.T) {
	b := newBench(t)
	says := func(want shard.Command) Send {
		t.Helper()
		sent := b.takes()
		if len(sent) != 1 || sent[0].To != nodeB || !reflect.DeepEqual(commandOf(sent[0]), want) {
			t.Fatalf("sent %q: %+v, want %+v", inWords(sent), commandOf(sent[0]), want)
		}
		if got, want := sent[0].Message.(*message.Request).Raw, shard.AppendCommand(nil, want); !bytes.Equal(got, want) {
			t.Fatalf("sent %x, want %x", got, want)
		}
		return sent[0]
	}
	call := func(number uint64, acked ...uint64) shard.Call {
		return shard.Call{Session: shard.SessionID{Node: nodeA, Number: 1}, Number: number, Acked: acked}
	}
	q := pull()
	c := b.asks(b.own, q)
	b.hears(nodeB, granted(says(shard.Begin{Call: call(1), TTL: benchTTL, Name: "a", Key: "r", Operation: *q.Operation}), 7))
	end := b.unlocks(c.Hold)
	b.hears(nodeB, stamped(says(shard.End{Call: call(2, 1), Key: "r", Token: 7}), 9))
	b.unlocks(end.Use)
	b.hears(nodeB, done(says(shard.Drop{Call: call(3, 2), TTL: benchTTL, Name: "a", Key: "r", User: "ann", Stamp: 9, Lone: 9}), 10))
	c = b.asks(b.own, to(shard.Update))
	b.hears(nodeB, granted(says(shard.Begin{Call: call(4, 3), TTL: benchTTL, Name: "a", Key: "r", Operation: *to(shard.Update).Operation}), 11))
	b.fails(c.Hold)
	b.hears(nodeB, done(says(shard.End{Call: call(5, 4), Key: "r", Token: 11, Failed: true}), 12))
	b.drops(b.own, "bob")
	says(shard.Drop{Call: call(6, 5), TTL: benchTTL, Name: "a", Key: "r", User: "bob", Lone: 1<<64 - 1})
}

// Promise: P12: the revision that a command names is the highest that any answer has named before its lease was made.
func TestALeaseNamesTheHighestRevision(t *testing.T) {
	b := newBench(t)
	other := func(revision uint64) message.Message {
		return &message.Reply{Event: shard.Event{Session: shard.SessionID{Number: 99}, Number: 1, What: shard.Done}, Revision: revision, Leadership: byB}
	}
	b.hears(nodeB, other(7), other(9), &message.Answer{Answer: replica.Answer{Session: shard.SessionID{Number: 99}, Revision: 8}, Leadership: byB})
	b.asks(b.own, Request{Key: "k"})
	b.hears(nodeB, other(12))
	b.asks(b.own, Request{Key: "m"})
	b.asks(b.own, Request{Key: "f", MaxHold: time.Second})
	for i, p := range b.expects("2: lock k", "2: lock m", "2: lock f") {
		if got, want := commandOf(p).(shard.Acquire).Since, []uint64{9, 9, 12}[i]; got != want {
			t.Errorf("%q names revision %d, want %d", words(p), got, want)
		}
	}
}

// Pending names the command under a number as long as its result is not known: whoever watches a
// simulation sees what a reply is about.
func TestPendingNamesWhatWasSent(t *testing.T) {
	b := newBench(t)
	c := b.asks(b.own, Request{Key: "k"})
	p := b.expect("2: lock k")
	if got := b.client.Pending(0, c.lease.id.Number, c.number); !reflect.DeepEqual(got, commandOf(p)) {
		t.Errorf("under its number %+v was asked, want %+v", got, commandOf(p))
	}
	if got := b.client.Pending(0, c.lease.id.Number, c.number+1); got != nil {
		t.Errorf("under another number %+v was asked", got)
	}
	if got := b.client.Pending(0, c.lease.id.Number+1, c.number); got != nil {
		t.Errorf("in another session %+v was asked", got)
	}
	b.hears(nodeB, granted(p, 7))
	if got := b.client.Pending(0, c.lease.id.Number, c.number); got != nil {
		t.Errorf("once it is granted, %+v is asked", got)
	}
}
