package core

import (
	"slices"
	"testing"
	"time"

	"github.com/lockmesh/mesh/transport"
)

// Promise: G6, P15: what is not answered is repeated under its number, soon at first and then less
// and less often; from the third attempt on it may be passed on.
func TestRequestsAreRepeated(t *testing.T) {
	b := newBench(t, Config{})
	c := b.asks(b.node.Session(), Request{Key: "k"})
	gaps := make(map[time.Duration]bool)
	for attempt, pause := range []time.Duration{200, 400, 800, 1600, 1600, 1600, 1600} {
		begun := b.now
		p := b.expect([]string{"2: lock k", "3: lock k"}[b.sent[0].to-nodeB])
		if id, _ := clientOf(p.command); id != c.seat.id || numberOf(p.command) != c.number || p.class != transport.Normal {
			t.Errorf("attempt %d is %+v", attempt, p)
		}
		if p.relay != (attempt >= 2) || attempt < 2 && p.to != nodeB {
			t.Errorf("attempt %d goes to %d, to be passed on: %t", attempt, p.to, p.relay)
		}
		for !slices.ContainsFunc(b.sent, func(p parcel) bool { return p.kind == msgRequest }) {
			if b.pass(time.Millisecond); b.now > begun+longestRetry {
				t.Fatalf("attempt %d is not repeated", attempt)
			}
		}
		gap, pause := b.now-begun, pause*time.Millisecond
		if gap < pause/2 || gap > pause+time.Millisecond {
			t.Errorf("attempt %d is repeated after %v, want %v to %v", attempt, gap, pause/2, pause)
		}
		gaps[gap*100/pause] = true
		b.sent = slices.DeleteFunc(b.sent, func(p parcel) bool { return p.kind == msgRenew })
	}
	if len(gaps) < 4 {
		t.Errorf("the pauses are no matter of chance: %v", gaps)
	}
	if n := b.node.Stats().Retries; n != 7 {
		t.Errorf("%d retries are counted, want 7", n)
	}
	b.take()
	b.hears(nodeB, told(parcel{message: message{command: c.command}}, reply{outcome: queued, revision: 3}))
	for range 100 {
		b.pass(100 * time.Millisecond)
		for _, p := range b.take() {
			if p.kind == msgRequest {
				t.Fatal("one that waits in the queue is repeated")
			}
		}
	}
}

// Promise: G6, P15: a request that reached somebody else goes on at once: to the leader that is
// named, or to whoever may know; but not for ever in a circle.
func TestRedirects(t *testing.T) {
	b := newBench(t, Config{})
	c := b.asks(b.node.Session(), Request{Key: "k"})
	p := b.expect("2: lock k")
	b.hears(nodeB, redirected(p, nodeC, 6))
	p = b.expect("3: lock k")
	if p.relay {
		t.Error("the leader that was named is asked to pass a request on")
	}
	// They name each other, in terms that grow, without end.
	jumps := 1
	for term := uint64(7); term < 100; term++ {
		b.hears(p.to, redirected(p, nodeB+nodeC-p.to, term))
		if len(b.sent) == 0 {
			break
		}
		jumps, p = jumps+1, b.take()[0]
	}
	if jumps != maxJumps {
		t.Errorf("%d redirects are followed at once, want %d", jumps, maxJumps)
	}
	b.pass(firstRetry) // the retry goes on, and redirects count afresh
	p = b.take()[0]
	b.hears(p.to, redirected(p, nodeB+nodeC-p.to, 100))
	b.expect([]string{"2: lock k", "3: lock k"}[nodeC-p.to])

	// One that names nobody makes others be asked: the next attempts are as if it was silent.
	b.hears(nodeC, serves(101))
	b.take()
	if c.attempt != 0 {
		t.Errorf("attempt %d after a leader announced itself", c.attempt)
	}
	var asked []uint64
	for range 4 {
		b.hears(b.desk().leader, redirected(p, 0, 0))
		if p := b.take(); len(p) == 1 {
			asked = append(asked, p[0].to)
		}
	}
	if len(asked) != 4 || !slices.Contains(asked, nodeB) || !slices.Contains(asked, nodeC) {
		t.Errorf("where nobody knows the leader, %v are asked", asked)
	}
}
