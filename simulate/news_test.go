package simulate_test

import (
	"context"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/lockmesh/mesh"
	"github.com/lockmesh/mesh/simulate"
	"github.com/lockmesh/mesh/simulate/timeline"
	"github.com/lockmesh/mesh/transport"
)

// A rumour that reaches no node must not keep a node from its mesh: a node that has a
// connection with a member gets to know it over that. Before, Join waited for the next
// full exchange of gossip, up to a minute later.
func TestAJoinerIsKnownThoughRumoursAreLost(t *testing.T) {
	t.Parallel()
	seeds := uint64(4)
	if *simulate.LongFlag {
		seeds = 20
	}
	for seed := uint64(1); seed <= seeds; seed++ {
		w := simulate.New(simulate.Options{Seed: seed, Gossip: simulate.Gossip{Lost: 1_000_000}})
		joined, nodes := make(map[string]time.Duration), make(map[string]*mesh.Node)
		join := func(name string) func(context.Context) {
			return func(ctx context.Context) {
				delete(joined, name)
				start := w.Now()
				n, err := mesh.JoinContext(ctx, []string{"a:7400", "b:7400", "c:7400"}, mesh.WithName(name),
					mesh.WithBind(":7400"), mesh.WithLogger(slog.New(slog.DiscardHandler)))
				if err != nil {
					t.Errorf("seed %d: %s: %v", seed, name, err)
				}
				joined[name], nodes[name] = w.Now()-start, n
			}
		}
		for _, name := range []string{"a", "b", "c"} {
			w.Host(name).Boot("node", join(name))
		}
		run := func(d time.Duration) {
			if err := w.Run(d); err != nil {
				t.Fatal(err)
			}
		}
		run(20 * time.Second)
		for _, name := range []string{"d", "e", "f"} {
			w.Host(name).Boot("node", join(name))
			run(10 * time.Second)
			for by, n := range nodes {
				want := len(nodes)
				if by > "c" {
					want = 4 // a client knows the core and itself
				}
				if m := n.Members(); len(m) != want {
					t.Errorf("seed %d: 10s after %s has joined %s knows %d members of %d", seed, name, by, len(m), want)
				}
			}
		}
		w.Host("b").Crash()
		w.Host("b").Restart()
		run(20 * time.Second)
		for name, most := range map[string]time.Duration{"d": 2 * time.Second, "e": 2 * time.Second, "f": 2 * time.Second, "b": 10 * time.Second} {
			if took, ok := joined[name]; !ok || took > most {
				t.Errorf("seed %d: %s joined after %v (%t), want %v", seed, name, took, ok, most)
			}
		}
		w.Close()
	}
}

// A node drops gossip that it cannot read, as the real one does, and hears the news later.
func TestGarbledGossipIsDropped(t *testing.T) {
	t.Parallel()
	w := simulate.New(simulate.Options{Seed: 1, Timeline: true})
	defer w.Close()
	names := []string{"a", "b", "c"}
	nodes := make(map[string]*mesh.Node)
	for _, name := range names {
		w.Host(name).Boot("node", func(ctx context.Context) {
			n, err := mesh.JoinContext(ctx, []string{"a:7400", "b:7400", "c:7400"}, mesh.WithName(name),
				mesh.WithBind(":7400"), mesh.WithLogger(slog.New(slog.DiscardHandler)))
			if err != nil {
				t.Errorf("%s: %v", name, err)
			}
			nodes[name] = n
		})
	}
	seen := 0
	stop := w.Net.Rule(func(f simulate.Frame) simulate.Verdict {
		if f.Kind == transport.KindGossip {
			if seen++; seen%2 == 1 {
				return simulate.Garble
			}
		}
		return simulate.Pass
	})
	if err := w.Run(30 * time.Second); err != nil {
		t.Fatal(err)
	}
	stop()
	if err := w.Run(30 * time.Second); err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		if n := nodes[name]; n == nil || len(n.Members()) != len(names) {
			t.Errorf("%s does not know all members", name)
		}
	}
	dropped := 0
	for _, m := range w.Timeline().Moments {
		if m.Kind == timeline.Note && strings.Contains(m.Text, "gossip: dropped a frame") {
			dropped++
		}
	}
	if dropped == 0 {
		t.Error("no node says that it dropped a frame")
	}
}
