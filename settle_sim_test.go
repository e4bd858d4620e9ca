package mesh_test

import (
	"context"
	"slices"
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
	hosts := []string{"h1", "h2", "h3", "h4", "h5", "h6"}
	nodes := make(map[string]*mesh.Node)
	for _, host := range hosts {
		w.Host(host).Go("start", func(ctx context.Context) {
			n, err := mesh.StartContext(ctx, hosts, mesh.WithName(host), mesh.WithShards(1), mesh.WithReplicas(5))
			if err != nil {
				w.Fail(err)
				return
			}
			nodes[host] = n
		})
	}
	until := func(what string, d time.Duration, cond func() bool) {
		t.Helper()
		if err := w.RunUntil(cond, d); err != nil {
			t.Fatalf("%s: %v", what, err)
		}
	}
	pass := func(d time.Duration) {
		t.Helper()
		if err := w.Run(d); err != nil {
			t.Fatal(err)
		}
	}
	whole := func() bool {
		return len(nodes) == len(hosts) && !slices.ContainsFunc(hosts, func(h string) bool { return !nodes[h].Health().FullyReplicated })
	}
	until("not whole", time.Minute, func() bool { return whole() && nodes["h1"].Health().QuietUntil.IsZero() })
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
	until("not all vote that are to", 20*time.Second, whole)
}
