package seat

import (
	"math/rand/v2"
	"testing"
	"time"
)

// Promise: G6, C4: nodes whose roll calls overtake each other, each decided, wait before their next attempts, and longer each time.
func TestADuelOfRollCallsEnds(t *testing.T) {
	const unit = 100 * time.Millisecond // of the pace of machines that are apart
	m := &Machine{pace: afar, rng: rand.New(rand.NewPCG(1, 2))}
	now := time.Minute
	for i, tt := range []struct {
		later, want time.Duration // zero: it does not wait
		first       bool
	}{
		{first: true},
		{later: time.Second}, // once in a row may come of a restart
		{later: 400 * time.Millisecond, want: 4 * unit},
		{later: 400 * time.Millisecond, want: 8 * unit},
		{later: 1900 * time.Millisecond, want: 16 * unit},
		{later: 400 * time.Millisecond, want: 16 * unit},
		{later: 2 * time.Second}, // it served in between
		{later: time.Second},
		{later: time.Second, want: 4 * unit},
	} {
		now, m.rest = now+tt.later, 0
		m.duel(now, !tt.first)
		if waits := max(m.rest-now, 0); waits < tt.want/2 || waits > tt.want {
			t.Errorf("step %d: it waits for %v, want %v at most, and half of that at least", i, waits, tt.want)
		}
	}
}
