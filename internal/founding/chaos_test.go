package founding

import (
	"flag"
	"slices"
	"strings"
	"testing"
	"time"
)

var seedFlag = flag.Uint64("seed", 0, "run TestChaos with this seed alone and print its trace")

const chaosFor = 12 * time.Second

// draw draws the world of a seed: every third is cruel.
func draw(seed uint64) *world {
	if seed%3 == 0 {
		return cruelWorld(seed)
	}
	return randomWorld(seed)
}

// Under crashes, restarts, cuts, and frames that are lost, late or doubled, no two meshes are founded
// while a founder lives, and all nodes agree. Once the faults stop, all nodes are in the mesh.
func TestChaos(t *testing.T) {
	if *seedFlag != 0 {
		w := draw(*seedFlag)
		w.chaos(chaosFor)
		t.Log(strings.Join(w.trace, "\n"))
		if w.err != nil {
			t.Fatal(w.err)
		}
		return
	}
	n := uint64(2000)
	if testing.Short() {
		n = 500
	}
	epochs, again := 0, 0
	for seed := uint64(1); seed <= n; seed++ {
		w := draw(seed)
		w.chaos(chaosFor)
		if w.err != nil {
			t.Fatalf("%v\nrepeat: go test ./internal/founding -run TestChaos -v -seed %d", w.err, seed)
		}
		if slices.ContainsFunc(w.decided, func(d decision) bool { return d.mesh.Epoch > 1 }) {
			epochs++
		}
		if w.decided[len(w.decided)-1].mesh.MeshID != w.decided[0].mesh.MeshID {
			again++
		}
	}
	t.Logf("%d worlds, %d of them founded with a new roster, %d anew after all founders had died", n, epochs, again)
	if epochs == 0 || again == 0 {
		t.Error("the worlds are too kind to show anything")
	}
}

// The same seed gives the same trace.
func TestChaosRepeats(t *testing.T) {
	for seed := uint64(1); seed <= 20; seed++ {
		a, b := draw(seed), draw(seed)
		a.chaos(chaosFor)
		b.chaos(chaosFor)
		if !slices.Equal(a.trace, b.trace) {
			t.Fatalf("seed %d runs in two ways", seed)
		}
	}
}
