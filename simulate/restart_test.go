package simulate_test

import (
	"context"
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/lockmesh/mesh"
	"github.com/lockmesh/mesh/simulate"
)

// P30: a fleet is whole again soon after each restart under an old name, however often
// that happens, and to whom: to one of four entries, or to a client. With the default number of shards: moves are
// limited.
func TestAFleetIsWholeAfterEveryRestart(t *testing.T) {
	w := simulate.New(simulate.Options{Seed: 1, Repeat: "go test ./simulate -run " + t.Name()})
	defer w.Close()
	names := []string{"a", "b", "c", "d", "e"}
	nodes := make(map[string]*mesh.Node)
	healthy := 0 // nodes that have come up, and seen the whole mesh healthy
	for _, name := range names {
		w.Host(name).Boot("node", func(ctx context.Context) {
			n, err := mesh.JoinContext(ctx, []string{"a:7400", "b:7400", "c:7400", "d:7400"}, mesh.WithName(name), mesh.WithBind(":7400"),
				mesh.WithLeaseTTL(2*time.Second), mesh.WithMaxTTL(2*time.Second), mesh.WithLogger(simulate.Logger(ctx)))
			if err != nil {
				w.Fail(fmt.Errorf("%s: %w", name, err))
				return
			}
			nodes[name] = n
			if n.WaitHealthy(ctx) == nil {
				healthy++
			}
		})
	}
	all := 15
	if *simulate.LongFlag {
		all = 40
	}
	for restarts := range all {
		if err := w.RunUntil(func() bool { return healthy == len(names)+restarts }, 20*time.Second); err != nil {
			for _, name := range names {
				h := nodes[name].Health()
				t.Logf("%s: %d shards do not answer, %d lack replicas", name, len(h.NoMajority), len(h.UnderReplicated))
			}
			t.Fatalf("after %d restarts: %v", restarts, err)
		}
		victim := names[w.Rand().Uint64()%uint64(len(names))]
		w.Host(victim).Crash()
		away := 100 * time.Millisecond
		if restarts%2 == 1 {
			away = 8 * time.Second // so long that others take its place
		}
		if err := w.Run(away); err != nil {
			t.Fatal(err)
		}
		w.Host(victim).Restart()
	}
}

// A world that runs for long with many crashes does not grow by each node that there was.
func TestDeadNodesAreForgotten(t *testing.T) {
	w := simulate.New(simulate.Options{Seed: 1})
	defer w.Close()
	for _, name := range []string{"a", "b", "c"} {
		w.Host(name).Boot("node", func(ctx context.Context) {
			_, _ = mesh.JoinContext(ctx, []string{"a:7400", "b:7400", "c:7400"}, mesh.WithName(name), mesh.WithBind(":7400"), mesh.WithShards(4))
		})
	}
	run := func(d time.Duration) {
		t.Helper()
		if err := w.Run(d); err != nil {
			t.Fatal(err)
		}
	}
	run(10 * time.Second)
	var dead []func() bool
	for _, name := range []string{"a", "b", "c"} { // each shard has one of them for its leader
		dead = append(dead, w.NodeLives(name))
		w.Host(name).Crash()
		run(2 * time.Second)
		w.Host(name).Restart()
		run(10 * time.Second)
	}
	runtime.GC()
	for i, lives := range dead {
		if lives() {
			t.Errorf("the node that crashed as number %d is still in memory", i+1)
		}
	}
}
