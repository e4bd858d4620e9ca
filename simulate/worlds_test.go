package simulate_test

import (
	"flag"
	"testing"
	"time"

	"github.com/lockmesh/mesh/simulate"
	"github.com/lockmesh/mesh/simulate/drill"
)

// TestRandomWorlds plays one seed after another until one fails, and does not shrink the
// failure. It is there for the mutants that no story shows.
func TestRandomWorlds(t *testing.T) {
	first, n := uint64(1), 1
	flag.Visit(func(f *flag.Flag) {
		if f.Name == "seeds" {
			n = *simulate.SeedsFlag
		}
	})
	if *simulate.SeedFlag != 0 {
		first, n = *simulate.SeedFlag, 1
	}
	for name, play := range map[string]func(seed uint64) error{ // order-free: each is a test
		"flaky": func(seed uint64) error {
			_, err := runSeed(seed, 40*time.Second, "TestRandomWorlds")
			return err
		},
		"calm": func(seed uint64) error {
			return simulate.Play(simulate.Options{Seed: seed, Profile: simulate.Calm}, drill.Play).Err
		},
		"core": core,
		"lan": func(seed uint64) error {
			return simulate.Play(simulate.Options{Seed: seed, Profile: simulate.LAN, Set: oneKey}, drill.Play).Err
		},
	} {
		t.Run(name, func(t *testing.T) {
			for seed := first; seed < first+uint64(n); seed++ {
				if err := play(seed); err != nil {
					t.Fatalf("seed %d: %v", seed, err)
				}
			}
		})
	}
}
