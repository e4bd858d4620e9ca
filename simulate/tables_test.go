package simulate_test

import (
	"testing"
	"time"

	"github.com/lockmesh/mesh/internal/bug"
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
	noticed(t, oddLeader, bug.LeaderIsRight, "P23 stopped")
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
		s.Isolate(s.third)
		stopped := s.CorruptTable(odd, 0)
		for range 25 { // the third is not replaced by then, and needs no snapshot
			s.lock(s.bob, "other").unlock()
			s.sleep(100 * time.Millisecond)
		}
		s.must(s.leads(s.owner) && !stopped(), "%q lead", s.Serving(0))
		s.Heal()
		s.works(20*time.Second, "the odd one stops", stopped)
		s.sleep(3 * time.Second)
		s.within(20*time.Second, "the odd one is replaced", s.healthy)
		s.must(a.holds(), "G5 lease: ann has lost the key")
		a.unlock()
	}})
}
