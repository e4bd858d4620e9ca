package simulate_test

import (
	"testing"

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
