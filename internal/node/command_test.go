package node

import (
	"context"
	"errors"
	"reflect"
	"testing"
	"time"

	"github.com/lockmesh/mesh/internal/message"
	"github.com/lockmesh/mesh/shard"
)

// Promise: P11, P12, P14: each command says whose it is, under the next number of its seat, what
// its client knew when the seat was made, and once which results it has; and what it is about.
func TestCommands(t *testing.T) {
	b := newBench(t, Config{})
	own := b.node.Session()
	first := shard.SessionID{Node: nodeA, Number: 1}
	single := shard.SessionID{Node: nodeA, Number: 2}
	says := func(want shard.Command) parcel {
		t.Helper()
		sent := b.take()
		if len(sent) != 1 || sent[0].to != nodeB || sent[0].relay() || !reflect.DeepEqual(sent[0].command(), want) {
			t.Fatalf("sent %+v, want %+v", sent, want)
		}
		return sent[0]
	}
	done := message.Result{Outcome: message.Done, Revision: 8}

	b.asks(own, Request{Key: "k", Value: []byte("v")})
	k := says(shard.Acquire{
		Call: shard.Call{Session: first, Number: 1}, TTL: benchTTL, Name: "a", Key: "k", Weight: shard.Whole, Capacity: shard.Whole, Value: []byte("v"),
	})
	b.hears(nodeB, grant(k, 7))
	b.asks(own, Request{Key: "r", Mode: Shared, Try: true})
	says(shard.Acquire{
		Call: shard.Call{Session: first, Number: 2, Acked: []uint64{1}}, TTL: benchTTL, Name: "a", Key: "r", Weight: 1, Capacity: shard.Whole, Try: true,
	})
	p := b.asks(own, Request{Key: "p", Mode: Permits, Weight: 2, Capacity: 5})
	says(shard.Acquire{
		Call: shard.Call{Session: first, Number: 3}, TTL: benchTTL, Name: "a", Key: "p", Kind: shard.Semaphore, Weight: 2, Capacity: 5,
	})
	b.do(func(l *lane) { l.desk(0).abandon(p, context.Canceled) })
	b.hears(nodeB, told(says(shard.Cancel{Call: shard.Call{Session: first, Number: 4}, TTL: benchTTL, Name: "a", Target: 3}), done))
	h := b.desk().seats[0].holds[0]
	b.meanwhile(func() {
		b.mail(nodeB, told(says(shard.Release{Call: shard.Call{Session: first, Number: 5, Acked: []uint64{4}}, Key: "k", Token: 7}), done))
	})
	if err := h.Release(t.Context()); err != nil {
		t.Error(err)
	}

	f := b.asks(own, Request{Key: "f", MaxHold: 3 * time.Second})
	b.hears(nodeB, grant(says(shard.Acquire{
		Call: shard.Call{Session: single, Number: 1, Since: 8}, TTL: benchTTL, Name: "a", Key: "f", Weight: shard.Whole, Capacity: shard.Whole,
	}), 9))
	if f.over {
		t.Error("a hold of fixed length is told of before it is claimed")
	}
	b.hears(nodeB, told(says(shard.Claim{Call: shard.Call{Session: single, Number: 2, Since: 8}, Key: "f", Token: 9, Hold: 3 * time.Second}), done))
	b.meanwhile(func() {
		b.mail(nodeB, told(says(shard.Claim{
			Call: shard.Call{Session: single, Number: 3, Since: 8, Acked: []uint64{1, 2}}, Key: "f", Token: 9, Hold: 5 * time.Second,
		}), done))
	})
	if err := f.got.Extend(t.Context(), 5*time.Second); err != nil {
		t.Error(err)
	}
	b.meanwhile(func() {
		b.mail(nodeB, told(says(shard.Close{Session: single, Number: 4}), done))
	})
	if err := f.got.Release(t.Context()); err != nil {
		t.Error(err)
	}
	if err := h.Extend(t.Context(), time.Second); !errors.Is(err, ErrInvalidOption) {
		t.Errorf("a hold that is renewed is extended: %v", err)
	}
	b.expects()
}
