package mesh_test

import (
	"testing"
	"time"

	"github.com/lockmesh/mesh"
	"github.com/lockmesh/mesh/simulate"
	"github.com/lockmesh/mesh/transport"
)

// Promise: C2: a leader stands still. Meanwhile its shard's voters change, and are to change back to those that it knows. When it wakes,
// it hears of the second change before it hears that it was deposed. It must not say that this change is made.
func TestALeaderOfLongAgoSettlesNothing(t *testing.T) {
	w := simulate.New(simulate.Options{Seed: 3})
	defer w.Close()
	nodes := coreOf(t, w, 6, mesh.WithShards(1), mesh.WithReplicas(5))
	pass := func(d time.Duration) {
		t.Helper()
		if err := w.Run(d); err != nil {
			t.Fatal(err)
		}
	}
	leader := w.Serving(0)[0]

	w.Host(leader).Pause()
	pass(9 * time.Second) // it has lost its vote
	stop := w.Net.Rule(func(f simulate.Frame) simulate.Verdict {
		if f.Kind == transport.KindShard && f.To == leader {
			return simulate.Drop
		}
		return simulate.Pass
	})
	w.Host(leader).Resume()
	pass(3 * time.Second) // it is to have it again, and acts once it has reached its own entry (C6)
	stop()
	whole := func() bool {
		for _, n := range nodes {
			if !n.Health().FullyReplicated {
				return false
			}
		}
		return true
	}
	if err := w.RunUntil(whole, 20*time.Second); err != nil {
		t.Fatalf("not all vote that are to: %v", err)
	}
}
