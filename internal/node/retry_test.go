package node

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lockmesh/mesh/internal/message"
	"github.com/lockmesh/mesh/internal/replica"
	"github.com/lockmesh/mesh/shard"
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
		if id, _ := shard.ClientOf(p.command()); id != c.seat.id || numberOf(p.command()) != c.number || p.class != transport.Normal {
			t.Errorf("attempt %d is %+v", attempt, p)
		}
		if p.relay() != (attempt >= 2) || attempt < 2 && p.to != nodeB {
			t.Errorf("attempt %d goes to %d, to be passed on: %t", attempt, p.to, p.relay())
		}
		for !slices.ContainsFunc(b.sent, func(p parcel) bool { return is[*message.Request](p) }) {
			if b.pass(time.Millisecond); b.now > begun+longestRetry {
				t.Fatalf("attempt %d is not repeated", attempt)
			}
		}
		gap, pause := b.now-begun, pause*time.Millisecond
		if gap < pause/2 || gap > pause+time.Millisecond {
			t.Errorf("attempt %d is repeated after %v, want %v to %v", attempt, gap, pause/2, pause)
		}
		gaps[gap*100/pause] = true
		b.sent = slices.DeleteFunc(b.sent, func(p parcel) bool { return is[*message.Renewal](p) })
	}
	if len(gaps) < 4 {
		t.Errorf("the pauses are no matter of chance: %v", gaps)
	}
	if n := b.node.Stats().Retries; n != 7 {
		t.Errorf("%d retries are counted, want 7", n)
	}
	b.take()
	b.hears(nodeB, told(parcelOf(c.command), message.Result{Outcome: message.Queued, Revision: 3}))
	for range 100 {
		b.pass(100 * time.Millisecond)
		for _, p := range b.take() {
			if is[*message.Request](p) {
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
	if p.relay() {
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

// Promise: G6, P15: the leader is asked, then its helper if there is one, and then in turns who should
// have a replica and all others, who may pass it on.
func TestWhereAnAttemptGoes(t *testing.T) {
	b := newBench(t, Config{})
	var members []replica.Peer
	for i := range uint64(5) {
		name := string(rune('f' + i))
		members = append(members, replica.Peer{Node: 6 + i, Name: name, Addr: name + ":1"})
	}
	b.looks(members...)
	target := b.lane().view.Target(0)
	names := make(map[string]uint64)
	for i, p := range members {
		names[fmt.Sprint("m", i)] = p.Node
	}
	for i, p := range target {
		names[fmt.Sprint("w", i)] = p.Node
	}
	names["leader"], names["helper"] = 20, 30
	for _, tt := range []struct {
		leader, helper bool
		want           string // of the attempts from 0 on; one with a ! may be passed on
	}{
		{true, false, "leader leader w1! m1! w2! m2! w0! m3! w1! m4! w2! m0!"},
		{false, false, "w0 m0 w1! m1! w2! m2! w0! m3! w1! m4! w2! m0!"},
		{true, true, "leader helper! w1! m0! w2! helper! w0! m1! w1! helper! w2! m2!"},
		{false, true, "w0 helper! w1! m0! w2! helper! w0! m1! w1! helper! w2! m2!"},
	} {
		d := b.desk()
		if d.leader = 0; tt.leader {
			d.leader = 20
		}
		if d.through = 0; tt.helper {
			d.through = 30
		}
		for attempt, want := range strings.Fields(tt.want) {
			name, relay := strings.CutSuffix(want, "!")
			if to, passed := d.target(attempt); to != names[name] || passed != relay {
				t.Errorf("%+v: attempt %d goes to %d, to be passed on: %t; want %s", tt, attempt, to, passed, want)
			}
		}
	}
}

// Promise: G6, P15: a helper stays one until it says that it knows no leader; what it repeats of an
// earlier term changes nothing, nor does an answer that names no leader.
func TestWhatAHelperSays(t *testing.T) {
	for _, tt := range []struct {
		name    string
		from    uint64
		to      uint64
		term    uint64
		through uint64
		leader  uint64
	}{
		{"it knows no leader", nodeC, 0, 0, 0, nodeB},
		{"it names one of an earlier term", nodeC, 9, benchTerm - 1, nodeC, nodeB},
		{"it names the same", nodeC, nodeB, benchTerm, nodeC, nodeB},
		{"it names a new one", nodeC, 9, benchTerm + 1, nodeC, 9},
		{"a third knows no leader", 9, 0, 0, nodeC, nodeB},
		{"the leader leads no more, and knows none", nodeB, 0, 0, nodeC, 0},
		{"the leader names its successor, whom it hears", nodeB, 9, benchTerm + 1, nodeB, 9},
		{"nobody, in a later term", 9, 0, benchTerm + 1, nodeC, nodeB},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := newBench(t, Config{})
			b.asks(b.node.Session(), Request{Key: "k"})
			p := b.expect("2: lock k")
			d := b.desk()
			d.through = nodeC
			if b.hears(tt.from, redirected(p, tt.to, tt.term)); d.through != tt.through || d.leader != tt.leader {
				t.Errorf("through %d to %d, want %d and %d", d.through, d.leader, tt.through, tt.leader)
			}
		})
	}
}

// Promise: G6: a call that waited in the queue of a session that ended asks anew, and like any other
// is repeated and goes where it is sent on to.
func TestAskedAnewIsAsNew(t *testing.T) {
	waiting := func(t *testing.T) (*bench, parcel) {
		b := newBench(t, Config{})
		b.asks(b.node.Session(), Request{Key: "k"})
		b.hears(nodeB, told(b.expect("2: lock k"), message.Result{Outcome: message.Queued, Revision: 4}))
		b.pass(benchTTL / 3)
		b.hears(nodeB, unknown(b.expect("2: renewal"), 5))
		return b, b.expect("2: lock k")
	}
	b, p := waiting(t)
	b.hears(nodeB, redirected(p, nodeC, benchTerm+1))
	b.expect("3: lock k")
	b, _ = waiting(t)
	b.pass(firstRetry)
	b.expect("2: lock k")
}

// Promise: G9: a node that leaves takes no new calls, also such as were on their way to their lane
// when it began to.
func TestALeavingNodeAsksForNothing(t *testing.T) {
	b := newBench(t, Config{})
	b.node.status = leaving
	c := b.asks(b.node.Session(), Request{Key: "k"})
	b.expects()
	if !c.over || c.err != ErrClosed || b.node.Stats().Acquires != 0 {
		t.Errorf("over: %t, %v; %d are counted", c.over, c.err, b.node.Stats().Acquires)
	}
}

// A call ends once: what is said of it later changes nothing.
func TestACallEndsOnce(t *testing.T) {
	b := newBench(t, Config{})
	h := b.holds(b.node.Session(), Request{Key: "k"}, 3)
	c := b.unlocks(h)
	b.hears(nodeB, told(b.expect("2: unlock k token 3"), message.Result{Outcome: message.Done, Revision: 4}))
	if c.finish(ErrLost); !c.over || c.err != nil || h.result != nil {
		t.Errorf("over: %t, %v", c.over, c.err)
	}
}
