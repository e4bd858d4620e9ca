package simulate_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/lockmesh/mesh"
	"github.com/lockmesh/mesh/simulate"
	"github.com/lockmesh/mesh/transport"
)

// comparesOften makes replicas compare their tables every few entries.
var comparesOften = map[string]int64{"site-check-often-percent": 50}

// works lets bob lock and unlock a key until what was waited for is so.
func (s *stage) works(d time.Duration, what string, until func() bool) {
	s.within(d, what, func() bool {
		if !until() {
			s.lock(s.bob, "other").unlock()
		}
		return until()
	})
}

// Promise: G1 and G6, P41: a leader whose table differs from those of both others stops, and they go on.
// Method: the leader's table is corrupted while ann holds a key, for which bob waits.
func TestAnOddLeaderStops(t *testing.T) {
	prove(t, oddLeader)
}

var oddLeader = scenario{set: comparesOften, story: func(s *stage) {
	a := s.lock(s.ann, "k")
	b := s.ask(s.bob, "k")
	stopped := s.CorruptTable(s.owner, 0)
	s.works(20*time.Second, "the leader stops", stopped)
	s.within(3*time.Second, "another one leads", func() bool { return s.leads(s.heir) || s.leads(s.third) })
	s.within(20*time.Second, "the odd one is replaced", s.healthy)
	s.must(a.holds(), "G5 lease: ann has lost the key")
	a.unlock()
	s.within(2*time.Second, "bob is next", b.holds)
}}

// Promise: G1 and G6, P41: of two tables that differ, neither replica stops while the third is away;
// the third decides.
// Method: the third is cut off, and the leader's table, or the other one's, is corrupted. Later the third is
// back.
func TestTheThirdDecidesWhichTableIsRight(t *testing.T) {
	prove(t, scenario{set: comparesOften, ttl: 10 * time.Second, story: func(s *stage) {
		a := s.lock(s.ann, "k")
		odd := []string{s.owner, s.heir}[s.Rand().Uint64()%2]
		s.Net.Isolate(s.third)
		stopped := s.CorruptTable(odd, 0)
		for range 25 { // the third is not replaced by then, and needs no snapshot
			s.lock(s.bob, "other").unlock()
			s.sleep(100 * time.Millisecond)
		}
		s.must(s.leads(s.owner) && !stopped(), "%q lead", s.Serving(0))
		s.Net.Heal()
		s.works(20*time.Second, "the odd one stops", stopped)
		s.sleep(3 * time.Second)
		s.within(20*time.Second, "the odd one is replaced", s.healthy)
		s.must(a.holds(), "G5 lease: ann has lost the key")
		a.unlock()
	}})
}

// Promise: G1 and G6, P40: a voter that needs a snapshot gets it whole from the next leader, if the one that
// began to send it dies.
// Method: the third is cut off for longer than the log is kept. It is back, and has the first chunks of a
// snapshot, when the leader dies: without the third the heir has no majority. Then the heir dies, too,
// and the third has all.
func TestALeaderDiesInTheMiddleOfASnapshot(t *testing.T) {
	t.Parallel()
	prove(t, halfSnapshot)
}

var halfSnapshot = scenario{spares: 1, ttl: 10 * time.Second, story: func(s *stage) {
	back := s.rule(simulate.Drop, func(f simulate.Frame) bool {
		return f.Kind == transport.KindShard && (f.From == s.third || f.To == s.third)
	})
	s.sleep(500 * time.Millisecond) // it is not waited for
	key := func(i int) string { return strings.Repeat("k", 1000) + fmt.Sprint(i) }
	held := make([]*mesh.Lock, 400) // of so many entries
	for i := range held {
		var err error
		s.on(s.ann, func(ctx context.Context, n *mesh.Node) { held[i], err = n.Lock(ctx, key(i)) })
		s.must(err == nil, "Lock: %v", err)
	}
	waits := s.ask(s.bob, key(7))
	chunks, got := 0, 0
	s.rule(simulate.Verdict(s.draw(20*time.Millisecond, 100*time.Millisecond)), func(f simulate.Frame) bool {
		if f.From == s.owner && f.Says("snapshot chunk") {
			chunks++
		}
		return f.From == s.third && f.Says("chunk received")
	})
	begun := int(s.Rand().Uint64() % 4) // frames of it that the owner sends before it dies
	back()
	s.within(3*time.Second, "some of the snapshot is sent", func() bool { return chunks > begun })
	s.sleep(s.draw(0, 20*time.Millisecond))
	s.rule(simulate.Pass, func(f simulate.Frame) bool {
		if f.From == s.heir && f.To == s.third && f.Says("snapshot chunk") {
			got++
		}
		return false
	})
	s.Host(s.owner).PowerOff()
	s.within(8*time.Second, "the heir leads, and has a majority", func() bool { return s.leads(s.heir) })
	s.must(got > 0, "the heir has sent nothing of a snapshot")
	var err error
	s.on(s.ann, func(ctx context.Context, n *mesh.Node) { err = held[7].Unlock(ctx) })
	s.must(err == nil, "Unlock: %v", err)
	s.within(time.Second, "bob is next", waits.holds)
	s.within(20*time.Second, "the owner is replaced", func() bool { return s.nodes[s.bob].Health().FullyReplicated && len(s.Serving(0)) == 1 })
	s.Host(s.heir).Crash()
	s.within(5*time.Second, "another one leads", func() bool { return len(s.Serving(0)) == 1 })
	waits.unlock()
	for i := range held {
		if i != 7 {
			s.must(held[i].Err() == nil, "G5 lease: ann lost key %d: %v", i, held[i].Err())
		}
	}
}}

// Promise: G6 and P40: a replica that stops itself while it gets a snapshot keeps nobody else from getting one.
// Method: the heir is lost, and its successor is slow to acknowledge the first part of its snapshot, so that the
// leader is patient with it. Then the successor stops itself.
func TestASnapshotForTheStopped(t *testing.T) {
	t.Parallel()
	prove(t, stoppedReceiver)
}

var stoppedReceiver = scenario{spares: 1, ttl: time.Minute, story: func(s *stage) {
	for i := range 60 {
		var err error
		s.on(s.ann, func(ctx context.Context, n *mesh.Node) { _, err = n.Lock(ctx, strings.Repeat("k", 1000)+fmt.Sprint(i)) })
		s.must(err == nil, "Lock: %v", err)
	}
	to := ""
	s.rule(simulate.Pass, func(f simulate.Frame) bool {
		if f.From == s.owner && f.Says("snapshot chunk") {
			to = f.To
		}
		return false
	})
	const late = 3500 * time.Millisecond // a little more, and the snapshot is given up
	acks := func(f simulate.Frame) bool { return f.To == s.owner && f.Says("chunk received") }
	slow := s.rule(simulate.Verdict(late), acks)
	s.Host(s.heir).Crash()
	s.within(15*time.Second, "a snapshot is sent", func() bool { return to != "" })
	s.sleep(late + s.draw(100*time.Millisecond, 400*time.Millisecond))
	lost := s.rule(simulate.Drop, acks)
	slow()
	s.sleep(s.draw(0, 2*time.Second))
	s.Host(to).BreakReplica(0)
	lost()
	s.within(8*time.Second, "the heir is replaced", func() bool { return s.nodes[s.owner].Health().FullyReplicated })
}}
