package simulate_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/lockmesh/mesh/simulate"
	"github.com/lockmesh/mesh/simulate/drill"
	"github.com/lockmesh/mesh/simulate/timeline"
)

// TestTimelineMovesNothing: a world of which an account is kept is the world that it
// would be without, to the last event. And the account has what it should.
func TestTimelineMovesNothing(t *testing.T) {
	kinds := make(map[timeline.Kind]int)
	for seed := uint64(1); seed <= 4; seed++ {
		var hashes [2]uint64
		for i := range hashes {
			w := simulate.New(simulate.Options{
				Seed: seed, Profile: simulate.Hostile, Timeline: i == 1,
				Set: map[string]int64{"hosts": 4, "shards": 2, "storm-s": 8, "calls": 100},
			})
			err := drill.Play(w)
			w.Close()
			if err != nil {
				t.Fatal(err)
			}
			hashes[i] = w.Hash()
			if tl := w.Timeline(); tl != nil {
				branches(t, tl)
				for _, m := range tl.Moments {
					kinds[m.Kind]++
				}
			}
		}
		if hashes[0] != hashes[1] {
			t.Errorf("seed %d: hash %x, and %x with a timeline", seed, hashes[0], hashes[1])
		}
	}
	for _, k := range []timeline.Kind{timeline.Called, timeline.Held, timeline.Unlocked, timeline.Refused, timeline.Role, timeline.Depth} {
		if kinds[k] == 0 {
			t.Errorf("no moment is %v, of %v", k, kinds)
		}
	}
}

// A clock that changes its rate moves the timers of its host, and is not why they ring.
func TestAClockIsNoCause(t *testing.T) {
	w := simulate.New(simulate.Options{Seed: 1, Timeline: true})
	defer w.Close()
	w.Host("a").Go("sleeper", func(ctx context.Context) {
		_ = simulate.Sleep(ctx, 10*time.Second)
		simulate.Logf(ctx, "awake")
	})
	w.At(5*time.Second, func() { w.Host("a").Clock.SetRate(500) })
	if err := w.Run(20 * time.Second); err != nil {
		t.Fatal(err)
	}
	tl := w.Timeline()
	var kinds []timeline.Kind
	for _, m := range tl.Moments {
		if m.Text == "awake" {
			for _, id := range tl.Chain(m.ID) {
				kinds = append(kinds, tl.Moment(id).Kind)
			}
		}
	}
	if !slices.Contains(kinds, timeline.Note) || slices.Contains(kinds, timeline.Fault) {
		t.Errorf("the sleeper woke because of %v", kinds)
	}
}
