package mesh_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/lockmesh/mesh"
	"github.com/lockmesh/mesh/simulate"
)

// tryJoin calls JoinContext on a host that is not a member of the mesh, and waits for its result.
func (w *trial) tryJoin(host string, patience time.Duration, opts ...mesh.Option) (n *mesh.Node, err error) {
	w.t.Helper()
	over := false
	w.Host(host).Go("try", func(ctx context.Context) {
		ctx, cancel := simulate.WithTimeout(ctx, patience)
		defer cancel()
		opts := append([]mesh.Option{mesh.WithName(host), mesh.WithBind(":7400"), mesh.WithLogger(simulate.Logger(ctx))}, opts...)
		n, err = mesh.JoinContext(ctx, w.seeds, opts...)
		over = true
	})
	w.until("Join on "+host, patience+time.Second, func() bool { return over })
	return n, err
}

func TestJoinsThatAreRefused(t *testing.T) {
	w := newTrial(t, simulate.Options{Seed: 31}, trialTTL, 3)
	tests := []struct {
		name string
		opts []mesh.Option
		want error
		says []string
	}{
		{"another mesh's name", []mesh.Option{mesh.WithMeshName("other")}, mesh.ErrForeignMesh, []string{"other", "default"}},
		{"the name of a living node", []mesh.Option{mesh.WithName("b")}, mesh.ErrNameTaken, []string{"b"}},
		{"another number of shards", []mesh.Option{mesh.WithShards(16)}, mesh.ErrInvalidOption, []string{"16", "8"}},
		{"another number of replicas", []mesh.Option{mesh.WithReplicas(5)}, mesh.ErrInvalidOption, []string{"5", "3"}},
		{"another bound of leases", []mesh.Option{mesh.WithMaxTTL(time.Minute)}, mesh.ErrInvalidOption, []string{"1m0s", "3s"}},
		{"a lease beyond the bound", []mesh.Option{mesh.WithLeaseTTL(4 * time.Second)}, mesh.ErrInvalidOption, []string{"4s", "3s"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			start := w.Now()
			n, err := w.tryJoin("x", 30*time.Second, tt.opts...)
			if n != nil || !errors.Is(err, tt.want) {
				t.Fatalf("Join = %v, want %v", err, tt.want)
			}
			if w.between("Join", w.Now()-start, 0, 10*time.Second); err != nil {
				for _, s := range tt.says {
					if !strings.Contains(err.Error(), s) {
						t.Errorf("%q does not name %q", err, s)
					}
				}
			}
		})
	}
	// After these refusals a node with the right options can join.
	n, err := w.tryJoin("x", 30*time.Second, mesh.WithShards(trialShards), mesh.WithReplicas(3), mesh.WithMaxTTL(trialTTL), mesh.WithLeaseTTL(2*time.Second))
	if err != nil {
		t.Fatal(err)
	}
	w.nodes["x"] = n
	w.at("x", func(ctx context.Context, n *mesh.Node) {
		w.check(n.Do(ctx, "k", nothing))
		w.check(n.WaitHealthy(ctx))
		if got := len(n.Members()); got != 4 {
			t.Errorf("%d members, want 4: %+v", got, n.Members())
		}
		if _, err := n.NewSession(ctx, mesh.WithTTL(trialTTL+1)); !errors.Is(err, mesh.ErrInvalidOption) {
			t.Errorf("a session beyond MaxTTL: %v", err)
		}
	})
	// The default lease TTL of 10 s is lowered to the bound.
	y, err := w.tryJoin("y", 30*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	w.nodes["y"] = y
	w.at("y", func(ctx context.Context, n *mesh.Node) {
		s, err := n.NewSession(ctx)
		if err != nil || s.TTL() != trialTTL {
			t.Errorf("a session of the usual TTL: %v, %v", s, err)
		}
	})
}

func TestJoinSaysWhatItWaitedFor(t *testing.T) {
	t.Run("seeds that do not answer", func(t *testing.T) {
		w := &trial{t: t, World: simulate.New(simulate.Options{Seed: 32}), nodes: make(map[string]*mesh.Node), seeds: []string{"a:7400", "b:7400", "c:7400"}}
		defer w.Close()
		w.Host("b")
		joined := 0
		w.Host("b").Go("join", func(ctx context.Context) {
			if _, err := mesh.JoinContext(ctx, w.seeds, mesh.WithBind(":7400"), mesh.WithLogger(simulate.Logger(ctx))); err != nil {
				t.Error(err)
			}
			joined++
		})
		n, err := w.tryJoin("a", 5*time.Second)
		if n != nil || !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "c:7400") || strings.Contains(err.Error(), "b:7400") {
			t.Errorf("Join = %v, want an error that names the seed c:7400", err)
		}
		t.Log(err)
		// A node that gave up can come back.
		for _, host := range []string{"a", "c"} {
			w.Host(host).Go("join", func(ctx context.Context) {
				if _, err := mesh.JoinContext(ctx, w.seeds, mesh.WithBind(":7400"), mesh.WithLogger(simulate.Logger(ctx))); err != nil {
					t.Error(err)
				}
				joined++
			})
		}
		w.until("all found the mesh", 30*time.Second, func() bool { return joined == 3 })
	})
	t.Run("a mesh without a majority", func(t *testing.T) {
		w := newTrial(t, simulate.Options{Seed: 33}, trialTTL, 3)
		w.Net.Isolate("a")
		w.Host("b").Crash()
		w.pass(5 * time.Second)
		n, err := w.tryJoin("x", 5*time.Second)
		if n != nil || !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "shards") {
			t.Errorf("Join = %v, want an error that names the shards without a leader", err)
		}
		t.Log(err)
	})
	t.Run("cancelled", func(t *testing.T) {
		w := newTrial(t, simulate.Options{Seed: 34}, trialTTL, 3)
		over := false
		w.Host("x").Go("join", func(ctx context.Context) {
			ctx, cancel := simulate.WithCancel(ctx)
			cancel()
			n, err := mesh.JoinContext(ctx, w.seeds, mesh.WithBind(":7400"))
			if n != nil || !errors.Is(err, context.Canceled) {
				t.Errorf("Join with a context that is done = %v, want Canceled", err)
			}
			over = true
		})
		w.until("Join", time.Second, func() bool { return over })
	})
}

// After a kill, Health of a node is never from before the kill, even if the node is not the
// leader and receives no status from it: a caller may wait for health in order to kill the next
// node.
func TestHealthKnowsOfAKillAtOnce(t *testing.T) {
	w := newTrialOf(t, simulate.Options{Seed: 36}, trialTTL, 3, 1)
	at := w.replicas("k")
	leader, victim, third := at[0], at[1], at[2]
	stop := w.Net.Rule(func(f simulate.Frame) simulate.Verdict {
		if f.From == leader && f.To == third && f.Says("status") {
			return simulate.Drop
		}
		return simulate.Pass
	})
	w.Host(victim).Crash()
	w.pass(5 * time.Millisecond)
	w.at(third, func(ctx context.Context, n *mesh.Node) {
		if h := n.Health(); h.FullyReplicated {
			t.Errorf("health after a kill: %+v", h)
		}
	})
	stop()
	w.restart(victim, 15*time.Second)
	w.at(third, func(ctx context.Context, n *mesh.Node) { w.check(n.WaitHealthy(ctx)) })
	if !w.Host(leader).MaySpare() {
		t.Error("healthy, and no other node can be spared")
	}
}

// A killed node that restarts under its name and address has taken its predecessor's place when
// Join returns: from then on any other node may be killed.
func TestAKilledNodeComesBack(t *testing.T) {
	for seed := range uint64(8) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			opts := simulate.Options{Seed: seed, Profile: simulate.Flaky, Set: truthful()}
			w := newTrial(t, opts, trialTTL, 3)
			l := w.lock("a", "k")
			for i, victim := range []string{"b", "c", "b"} {
				w.Host(victim).Crash()
				w.pass(time.Duration(i) * 300 * time.Millisecond)
				w.Host(victim).Restart()
				start := w.Now()
				back := false
				w.Host(victim).Go("join", func(ctx context.Context) {
					if w.join(ctx, victim) == nil {
						return
					}
					back = true
					for _, h := range w.Hosts() {
						if !h.MaySpare() {
							t.Errorf("%s is back, and %s cannot be spared", victim, h.Name())
						}
					}
				})
				w.until(victim+" is back", time.Minute, func() bool { return back })
				w.between("the return of "+victim, w.Now()-start, 0, 15*time.Second)
				w.at(victim, func(ctx context.Context, n *mesh.Node) {
					w.check(n.Do(ctx, "other", nothing))
					if m := n.Members(); len(m) != 3 {
						t.Errorf("members after the return of %s: %+v", victim, m)
					}
				})
			}
			w.check(l.Err())
			w.check(w.unlock("a", l, time.Second))
		})
	}
}

// In a simulated world as elsewhere, a node without seeds founds a mesh of one if it is told to, and is
// refused otherwise.
func TestAMeshOfOne(t *testing.T) {
	for _, tt := range []struct {
		bind string
		opts []mesh.Option
		want error
	}{
		{"127.0.0.1:7400", []mesh.Option{mesh.WithFound()}, nil},
		{":7400", []mesh.Option{mesh.WithFound()}, nil},
		{"127.0.0.1:7400", nil, mesh.ErrNoSeeds},
		{":7400", nil, mesh.ErrNoSeeds},
	} {
		w := simulate.New(simulate.Options{Seed: 36})
		var err error
		w.Host("a").Go("join", func(ctx context.Context) {
			var n *mesh.Node
			if n, err = mesh.JoinContext(ctx, nil, append(tt.opts, mesh.WithBind(tt.bind))...); err == nil {
				err = n.Do(ctx, "k", nothing)
			}
		})
		if failed := w.Run(30 * time.Second); failed != nil || !errors.Is(err, tt.want) {
			t.Errorf("bound to %s: %v, %v, want %v", tt.bind, err, failed, tt.want)
		}
		w.Close()
	}
}

// Promise: G6, P30: when Join of a restarted node returns, any other node may be killed.
// Method: the node's statuses come late. Its own replica knows that its predecessor was removed;
// of the other two nodes, one learns this only later. The leader knows that.
func TestAJoinerTakesTheLeadersWord(t *testing.T) {
	for seed := range uint64(16) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			w := newTrialOf(t, simulate.Options{Seed: seed}, trialTTL, 3, 1)
			at := w.replicas("k")
			leader, victim, third := at[0], at[1], at[2]
			w.Host(victim).Crash()
			w.pass(500 * time.Millisecond)
			w.Host(victim).Restart()
			start := w.Now()
			stop := w.Net.Rule(func(f simulate.Frame) simulate.Verdict {
				switch {
				case w.Now()-start > 3*time.Second:
				case f.To == victim && f.Says("status"):
					return simulate.Drop
				case f.From == leader && f.To == third:
					return simulate.Verdict(300 * time.Millisecond) // each of them, for so long
				}
				return simulate.Pass
			})
			defer stop()
			back := false
			w.Host(victim).Go("join", func(ctx context.Context) {
				if w.join(ctx, victim) == nil {
					return
				}
				back = true
				for _, h := range w.Hosts() {
					if !h.MaySpare() {
						t.Errorf("%s is back after %v, and %s cannot be spared", victim, w.Now()-start, h.Name())
					}
				}
			})
			w.until(victim+" is back", 10*time.Second, func() bool { return back })
		})
	}
}
