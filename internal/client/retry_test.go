package client

import (
	"slices"
	"testing"
	"time"

	"github.com/lockmesh/mesh/internal/fault"
	"github.com/lockmesh/mesh/internal/message"
)

// Promise: G6, P15: a request without an answer is repeated under its number, soon at first and then
// less and less often. From the third attempt on its receiver may relay it.
func TestRequestsAreRepeated(t *testing.T) {
	b := newBench(t)
	c := b.asks(b.own, Request{Key: "k"})
	gaps := make(map[time.Duration]bool)
	for attempt, pause := range []time.Duration{200, 400, 800, 1600, 1600, 1600, 1600} {
		begun := b.now
		p := b.expectTo("lock k")
		if sessionOf(p) != c.lease.id || numberOf(commandOf(p)) != c.number || p.Shard != 0 {
			t.Errorf("attempt %d is %+v", attempt, p)
		}
		if relayed(p) != (attempt >= 2) || attempt < 2 && p.To != nodeB {
			t.Errorf("attempt %d goes to %d, to be relayed: %t", attempt, p.To, relayed(p))
		}
		for !slices.ContainsFunc(b.sent, is[*message.Request]) {
			if b.pass(time.Millisecond); b.now > begun+longestRetry {
				t.Fatalf("attempt %d is not repeated", attempt)
			}
		}
		gap, pause := b.now-begun, pause*time.Millisecond
		if gap < pause/2 || gap > pause+time.Millisecond {
			t.Errorf("attempt %d is repeated after %v, want %v to %v", attempt, gap, pause/2, pause)
		}
		gaps[gap*100/pause] = true
		b.sent = slices.DeleteFunc(b.sent, is[*message.Renewal])
	}
	if len(gaps) < 4 {
		t.Errorf("the pauses are no matter of chance: %v", gaps)
	}
	if n := b.client.Counters().Retries.Load(); n != 7 {
		t.Errorf("%d retries are counted, want 7", n)
	}
	b.takes()
	b.hears(nodeB, queued(sending(c), 3))
	for range 100 {
		b.pass(100 * time.Millisecond)
		if slices.ContainsFunc(b.takes(), is[*message.Request]) {
			t.Fatal("a Lock that waits in the queue is repeated")
		}
	}
}

// Promise: G6, P15: a request that reached a node which does not lead goes on at once: to the leader that is
// named, or to a node that may know it; but not for ever in a circle.
func TestRedirects(t *testing.T) {
	b := newBench(t)
	c := b.asks(b.own, Request{Key: "k"})
	p := b.expect("2: lock k")
	b.hears(nodeB, redirect(p, nodeC, 6))
	p = b.expect("3: lock k")
	if relayed(p) {
		t.Error("the leader that was named is asked to relay the request")
	}
	// They name each other, in terms that grow, without end.
	jumps := 1
	for term := uint64(7); term < 100; term++ {
		b.hears(p.To, redirect(p, nodeB+nodeC-p.To, term))
		if len(b.sent) == 0 {
			break
		}
		jumps, p = jumps+1, b.takes()[0]
	}
	if jumps != maxJumps {
		t.Errorf("%d redirects are followed at once, want %d", jumps, maxJumps)
	}
	b.pass(firstRetry) // the retry goes on, and redirects count afresh
	p = b.takes()[0]
	b.hears(p.To, redirect(p, nodeB+nodeC-p.To, 100))
	if q := b.expectTo("lock k"); q.To == p.To {
		t.Errorf("it goes to %d again", q.To)
	}

	// A redirect that names no leader makes the client ask others: the next attempts are as if it had
	// not come.
	b.hears(nodeC, serves(101))
	b.takes()
	if c.attempt != 0 {
		t.Errorf("attempt %d after a leader announced itself", c.attempt)
	}
	var asked []uint64
	for range 4 {
		b.hears(b.shard().leader, redirect(p, 0, 0))
		if p := b.takes(); len(p) == 1 {
			asked = append(asked, p[0].To)
		}
	}
	if len(asked) != 4 || !slices.Contains(asked, nodeB) || !slices.Contains(asked, nodeC) {
		t.Errorf("where no node knows the leader, %v are asked", asked)
	}
}

// Promise: G6: a Lock that waited in the queue of a session that ended is asked for anew. It is then repeated
// and follows redirects like any other.
func TestALockThatIsAskedForAnewIsLikeANewOne(t *testing.T) {
	waiting := func(t *testing.T) (*bench, Send) {
		b := newBench(t)
		b.asks(b.own, Request{Key: "k"})
		b.hears(nodeB, queued(b.expect("2: lock k"), 4))
		b.pass(benchTTL / 3)
		b.hears(nodeB, unknown(b.expect("2: renewal"), 5))
		return b, b.expect("2: lock k")
	}
	b, p := waiting(t)
	b.hears(nodeB, redirect(p, nodeC, benchTerm+1))
	b.expect("3: lock k")
	b, _ = waiting(t)
	b.pass(firstRetry)
	b.expect("2: lock k")
}

// Promise: G6, P15: a renewal that reached a node which does not lead goes on at once to the leader that is named. If none
// is named that is news, the next one goes elsewhere.
func TestARenewalIsRedirected(t *testing.T) {
	given := func() (*bench, *Hold, Send) {
		b := newBench(t)
		h := b.holds(b.own, Request{Key: "k"}, 7)
		b.pass(benchTTL / 3)
		return b, h, b.expect("2: renewal")
	}
	t.Run("to a leader", func(t *testing.T) {
		b, _, q := given()
		b.pass(2 * time.Second) // the next attempt would be the fourth
		b.takes()
		b.hears(nodeC, redirect(q, nodeC, benchTerm+1))
		if again := b.expect("3: renewal"); relayed(again) {
			t.Error("the leader that was named is asked to relay the renewal")
		}
	})
	for _, tt := range []struct {
		name         string
		leader, term uint64
	}{
		{"to a leader of an earlier term", nodeC, benchTerm - 1},
		{"to none", 0, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b, _, q := given()
			b.pass(time.Second)
			b.takes()
			b.hears(nodeC, redirect(q, tt.leader, tt.term))
			b.expects()
			b.pass(time.Second)
			if again := b.expectTo("renewal"); !relayed(again) {
				t.Error("the third attempt is not to be relayed")
			}
		})
	}
	t.Run("when nothing hangs on the lease any more", func(t *testing.T) {
		b, h, q := given()
		b.hears(nodeB, done(sending(b.unlocks(h)), 9))
		b.takes()
		b.hears(nodeB, redirect(q, nodeC, benchTerm+1))
		b.expects()
	})
}

// A call is finished once: what is said of it later changes nothing.
func TestACallIsFinishedOnce(t *testing.T) {
	b := newBench(t)
	h := b.holds(b.own, Request{Key: "k"}, 3)
	c := b.unlocks(h)
	p := b.expect("2: unlock k token 3")
	b.hears(nodeB, done(p, 4))
	b.happened()
	b.do(Abandon{c, fault.ErrLost})
	b.hears(nodeB, done(p, 4))
	b.client.out = &Output{}
	if b.client.finish(c, fault.ErrLost); !c.over || c.Err != nil || len(b.happened())+len(b.client.out.Events) > 0 {
		t.Errorf("over: %t, %v", c.over, c.Err)
	}
}

// A caller that gives up before its call was started has its result, and the shard hears of nothing.
func TestACallThatIsAbandonedBeforeItsStart(t *testing.T) {
	b := newBench(t)
	c := &Call{Kind: Lock, Session: b.own, Request: Request{Key: "k"}}
	b.do(Abandon{c, fault.ErrClosed})
	if b.expects(); !c.over || c.Err != fault.ErrClosed || b.client.Counters().Locks.Load() != 0 {
		t.Errorf("over: %t, %v; %d are counted", c.over, c.Err, b.client.Counters().Locks.Load())
	}
}
