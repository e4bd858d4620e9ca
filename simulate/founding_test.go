package simulate_test

import (
	"testing"
	"time"
)

// Founding, joining and leaving: P25 to P32 of the protocol.

// Promise: G1, whoever held a lock of an earlier mesh has stopped before a new one
// grants it.
// Method: ann, who is no seed, holds; all seeds die and found anew, while she is cut off.
var oldLeases = scenario{clients: 1, ttl: 20 * time.Second, story: func(s *stage) {
	s.lock(s.ann, "k")
	s.sleep(s.draw(0, 5*time.Second))
	s.Isolate(s.ann)
	for _, host := range []string{s.owner, s.heir, s.third} {
		s.Crash(host)
		delete(s.nodes, host)
		s.Restart(host)
	}
	s.within(30*time.Second, "the seeds found a new mesh", func() bool { return len(s.nodes) == 4 && s.leads(s.owner) })
	l := s.ask(s.owner, "k")
	s.within(s.ttl*102/100+time.Second, "the new mesh grants the key", l.holds)
	s.Crash(s.ann) // she is of a mesh that is no more
}}

func TestP27OldLeases(t *testing.T) { prove(t, oldLeases) }
