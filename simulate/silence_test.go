package simulate_test

import (
	"testing"
	"time"
)

// Promise: G5, a dead holder's key is not kept for longer than P5 says, also when leaders keep
// changing, since what was logged of its silence counts.
// Method: ann holds, and her process dies; each leader is cut off after 8 s, of a lease of 10 s.
var leadersChange = scenario{ttl: 10 * time.Second, story: func(s *stage) {
	s.lock(s.ann, "k")
	s.Host(s.ann).Crash()
	s.deposeEvery(8*time.Second, 8)
}}

// Promise: the same, where no leader is there for long enough to log a silence, but each hands
// over in the end, to the ring's owner.
// Method: as above, but the owner is cut off whenever it has led for a second, until another one
// has led for 2.5 s.
var leadersHandOver = scenario{ttl: 10 * time.Second, story: func(s *stage) {
	s.lock(s.ann, "k")
	s.Host(s.ann).Crash()
	for range 12 {
		s.within(10*time.Second, "the owner leads", func() bool { return s.leads(s.owner) })
		s.sleep(time.Second)
		s.Net.Isolate(s.owner)
		s.within(10*time.Second, "another one leads", func() bool { return s.leads(s.heir) || s.leads(s.third) })
		s.sleep(2500 * time.Millisecond)
		s.Net.Heal()
	}
}}

// deposeEvery cuts the leader off n times, whenever d has passed, until another one leads.
func (s *stage) deposeEvery(d time.Duration, n int) {
	for range n {
		s.sleep(d)
		leader := s.Serving(0)
		if len(leader) != 1 {
			continue
		}
		s.Net.Isolate(leader[0])
		s.sleep(2500 * time.Millisecond)
		s.Net.Heal()
	}
}

func TestADeadHoldersKeyIsFreed(t *testing.T) {
	prove(t, leadersChange)
}

func TestADeadHoldersKeyIsFreedByWhoIsHandedTheShard(t *testing.T) {
	t.Parallel()
	prove(t, leadersHandOver)
}
