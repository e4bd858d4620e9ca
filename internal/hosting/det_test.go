package hosting_test

import (
	"testing"
	"time"

	"github.com/lockmesh/mesh/simulate"
)

// One seed is one world, bit for bit.
func TestFleetsAreDeterministic(t *testing.T) {
	var hashes [2]uint64
	for i := range hashes {
		hashes[i] = simulate.Play(simulate.Options{Seed: 4, Profile: "hostile"}, func(w *simulate.World) error {
			_, err := play(w, 5, 3, simulate.ChaosOptions{For: 20 * time.Second, MayCrash: func(string) bool { return true }})
			return err
		}).Hash
	}
	if hashes[0] != hashes[1] {
		t.Errorf("%x and %x", hashes[0], hashes[1])
	}
}
