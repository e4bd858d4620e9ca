package simulate_test

import (
	"context"
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/lockmesh/mesh"
	"github.com/lockmesh/mesh/internal/replica"
	"github.com/lockmesh/mesh/simulate"
)

// calmMesh is a healthy mesh on a network of one rack that all its nodes founded
// together, with a caller on each of the first hosts.
func calmMesh(tb testing.TB, seed uint64, size, shards, callers int) *simulate.World {
	w := simulate.New(simulate.Options{
		Seed: seed, Link: simulate.Link{Latency: 200 * time.Microsecond, Jitter: 100 * time.Microsecond},
	})
	var seeds []string
	for i := range size {
		seeds = append(seeds, fmt.Sprintf("n%02d:7400", i))
	}
	healthy := 0
	for i := range size {
		w.Host(fmt.Sprintf("n%02d", i)).Go("node", func(ctx context.Context) {
			join, cancel := simulate.WithTimeout(ctx, time.Hour)
			defer cancel()
			n, err := mesh.JoinContext(join, seeds, mesh.WithName(fmt.Sprintf("n%02d", i)), mesh.WithBind(":7400"),
				mesh.WithShards(shards), mesh.WithLogger(simulate.Logger(ctx)))
			if err == nil {
				err = n.WaitHealthy(join)
			}
			if err != nil {
				w.Fail(err)
				return
			}
			healthy++
			if i < callers {
				simulate.Go(ctx, "caller", func(ctx context.Context) { lockOften(ctx, w, n) })
			}
		})
	}
	if err := w.RunUntil(func() bool { return healthy == size }, 5*time.Minute); err != nil {
		tb.Fatal(err)
	}
	return w
}

// lockOften locks, works for a moment, and unlocks, about five times a second.
func lockOften(ctx context.Context, w *simulate.World, n *mesh.Node) {
	pause := func(most time.Duration) error {
		return simulate.Sleep(ctx, time.Duration(w.Rand().Uint64()%uint64(most)))
	}
	for pause(300*time.Millisecond) == nil {
		l, err := n.Lock(ctx, fmt.Sprint("key/", w.Rand().Uint64()%16))
		if err != nil {
			w.Fail(err)
			return
		}
		_ = pause(100 * time.Millisecond)
		if err := l.Unlock(ctx); err != nil {
			w.Fail(err)
			return
		}
	}
}

// cost is what a stretch of simulated time takes.
type cost struct {
	events float64 // per simulated second
	allocs float64 // per event
}

func costOf(tb testing.TB, w *simulate.World, d time.Duration) cost {
	tb.Helper()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	events := w.Events()
	if err := w.Run(d); err != nil {
		tb.Fatal(err)
	}
	runtime.ReadMemStats(&after)
	events = w.Events() - events
	return cost{float64(events) / d.Seconds(), float64(after.Mallocs-before.Mallocs) / float64(events)}
}

// The price of a world grows with what its mesh has to say, and with nothing else. Real
// time is not measured here: that is what BenchmarkSpeed is for.
func TestCostOfAWorld(t *testing.T) {
	// A frame is two events: it arrives, and the shard loop runs. Leaders beat once in 100 ms;
	// all of a node's heartbeats for another are one frame, and so are the answers. So an
	// ordered pair of nodes has at most 20 frames a second, and one with the status. Each core node tells
	// each other one what it knows of the core once a second, and dials its entry every other time: both have room where not all beat. A
	// shard loop ticks 20 times a second, and membership, gossip and the rest run a few times.
	const (
		beats    = float64(time.Second / (replica.TickInterval * replica.HeartbeatTicks))
		pair     = 2 * (2*beats + 1)
		node     = float64(time.Second/replica.TickInterval) + 10
		perCall  = 60 // two calls of two round trips to a leader and from it to two others, an actor that wakes six times, a renewal
		perEvent = 40 // a frame with the heartbeats of five shards is 15 for the sender, and as many for the receiver
	)
	tests := []struct{ size, shards, callers int }{{3, 1, 0}, {3, 1, 3}, {5, 16, 0}, {5, 16, 5}, {9, 64, 4}}
	switch {
	case testing.Short():
		tests = tests[:3]
	case !*simulate.LongFlag:
		tests = tests[:4]
	}
	for _, tt := range tests {
		t.Run(fmt.Sprintf("%d nodes, %d shards, %d callers", tt.size, tt.shards, tt.callers), func(t *testing.T) {
			w := calmMesh(t, 1, tt.size, tt.shards, tt.callers)
			defer w.Close()
			if err := w.Run(10 * time.Second); err != nil { // until everything has found its place
				t.Fatal(err)
			}
			bound := float64(tt.size*(tt.size-1))*pair + float64(tt.size)*node + float64(tt.callers)*5*perCall
			young := costOf(t, w, 10*time.Second)
			if err := w.Run(time.Minute); err != nil {
				t.Fatal(err)
			}
			old := costOf(t, w, 10*time.Second)
			t.Logf("%.0f events a second of at most %.0f, with %.1f allocations each; a minute later %.0f with %.1f",
				young.events, bound, young.allocs, old.events, old.allocs)
			for _, c := range []cost{young, old} {
				if c.events > bound {
					t.Errorf("%.0f events a second, want at most %.0f", c.events, bound)
				}
				if c.allocs > perEvent {
					t.Errorf("%.1f allocations per event, want at most %d", c.allocs, perEvent)
				}
			}
			if old.events > 1.2*young.events || old.allocs > 1.2*young.allocs {
				t.Errorf("the world grew dearer with time: from %+v to %+v", young, old)
			}
		})
	}
}
