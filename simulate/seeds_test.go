package simulate_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/lockmesh/mesh/simulate"
	"github.com/lockmesh/mesh/simulate/drill"
	"github.com/lockmesh/mesh/simulate/search"
)

// What every world of TestFreshSeeds must have come to, or it proves little.
const (
	fewestCalls  = 200
	fewestFaults = 5
)

// sizes are those of the worlds of these tests. Everything else is drawn.
func sizes(storm time.Duration) map[string]int64 {
	return map[string]int64{"hosts": 5, "shards": 8, "storm-s": int64(storm / time.Second), "calls": fewestCalls, "faults": fewestFaults}
}

// runSeed runs the world of one seed: its faults and its load.
func runSeed(seed uint64, storm time.Duration, test string) (simulate.Outcome, error) {
	o := simulate.Play(simulate.Options{
		Seed: seed, Profile: simulate.Flaky, Set: sizes(storm),
		Repeat: fmt.Sprintf("go test ./simulate -run '^%s$' -seeds 1 -seed %d", test, seed),
	}, drill.Play)
	return o, o.Err
}

// TestFreshSeeds runs worlds that have never been seen before: real nodes, random faults, all
// checkers.
func TestFreshSeeds(t *testing.T) {
	first, n := *simulate.SeedFlag, *simulate.SeedsFlag
	if first == 0 {
		first = 1
	}
	if testing.Short() {
		n = min(n, 4)
	}
	search.Test(t, search.Plan{
		Options: simulate.Options{Seed: first, Profile: simulate.Flaky, Set: sizes(25 * time.Second)},
		Seeds:   n,
		Play: func(w *simulate.World) error {
			d := drill.New(w)
			if err := d.Run(); err != nil {
				return err
			}
			calls, _ := w.History().Calls()
			if faults := w.Storm().Total(); calls < fewestCalls || faults < fewestFaults {
				return fmt.Errorf("a tame world: %d calls, %d faults", calls, faults)
			}
			return nil
		},
	})
}
