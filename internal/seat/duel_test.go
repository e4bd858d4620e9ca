package seat

import (
	"math/rand/v2"
	"testing"
	"time"
)

// Promise: G6, C4: a node that promises roll calls which overtake each other waits before its next attempt, and longer each time.
func TestADuelOfRollCallsEnds(t *testing.T) {
	const unit = 100 * time.Millisecond // of the pace of machines that are apart
	m := &Machine{pace: afar, rng: rand.New(rand.NewPCG(1, 2))}
	now := time.Minute
	for i, tt := range []struct{ later, want time.Duration }{ // zero: it does not wait
		{},
		{later: time.Second, want: 10 * unit},
		{later: 400 * time.Millisecond, want: 20 * unit},
		{later: 1900 * time.Millisecond, want: 40 * unit},
		{later: 400 * time.Millisecond, want: 40 * unit},
		{later: 2 * time.Second}, // there was time for one to be decided, and to serve
		{later: time.Second, want: 10 * unit},
	} {
		now, m.lull = now+tt.later, 0
		m.duel(now)
		if waits := max(m.lull-now, 0); waits < tt.want/2 || waits > tt.want {
			t.Errorf("step %d: it waits for %v, want %v at most, and half of that at least", i, waits, tt.want)
		}
	}
}
