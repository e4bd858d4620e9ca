package mesh_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lockmesh/mesh"
	"github.com/lockmesh/mesh/simulate"
)

// Promise: P39: of many that pull at once one does, and all use; a delete waits for nobody, and runs once nobody does.
func TestAResourceIsPulledOnce(t *testing.T) {
	for seed := range fewer[uint64](2, 10) {
		w := newTrial(t, simulate.Options{Seed: seed}, 5*time.Second, 5)
		ran, skipped, uses := 0, 0, make(map[string]*mesh.Use)
		var waits []func()
		for _, host := range []string{"a", "b", "c", "d", "e"} {
			waits = append(waits, w.begin(host, func(ctx context.Context, n *mesh.Node) {
				use, err := n.Resource("image").Pull(ctx, func(ctx context.Context, op *mesh.Operation) error {
					ran++
					return simulate.Sleep(ctx, 3*time.Second)
				})
				if w.check(err); err == nil {
					uses[host] = use
				}
				op, err := n.Resource("image").Begin(ctx, mesh.OpPull)
				if w.check(err); err == nil && op.Skipped() && op.Use().Err() == nil && op.Err() == mesh.ErrClosed && op.End(ctx, nil) == nil {
					skipped++
					w.check(op.Use().Release(ctx))
				}
			}))
		}
		for _, wait := range waits {
			wait()
		}
		if ran != 1 || skipped != 5 || len(uses) != 5 {
			t.Fatalf("seed %d: fn ran %d times, %d skipped a second one, %d use the image", seed, ran, skipped, len(uses))
		}
		w.at("a", func(ctx context.Context, n *mesh.Node) {
			r := n.Resource("image")
			refs, err := r.Refs(ctx)
			if err != nil || len(refs) != 5 {
				t.Errorf("refs %v, %v", refs, err)
			}
			ran, err := r.Delete(ctx, doNothing)
			var used *mesh.InUseError
			if ran || !errors.Is(err, mesh.ErrInUse) || !errors.As(err, &used) || len(used.Users) != 5 {
				t.Errorf("deleted while it is used: %t, %v", ran, err)
			}
			if _, err := n.Lock(ctx, "image"); !errors.Is(err, mesh.ErrCapacityMismatch) {
				t.Errorf("it is locked: %v", err)
			}
			if _, err := r.Update(ctx, func(ctx context.Context, op *mesh.Operation) error {
				if _, err := r.Begin(ctx, mesh.OpUpdate); !errors.Is(err, mesh.ErrSelfDeadlock) {
					t.Errorf("an operation in an operation: %v", err)
				}
				if _, err := n.Lock(ctx, "image", mesh.Reentrant()); !errors.Is(err, mesh.ErrCapacityMismatch) {
					t.Errorf("an operation is entered as a lock: %v", err)
				}
				return errors.New("failed")
			}); err == nil || err.Error() != "failed" {
				t.Errorf("a failed update: %v", err)
			}
			if _, err := r.Pull(ctx, doNothing); !errors.Is(err, mesh.ErrInUse) {
				t.Errorf("pulled again after an update that failed, beside users: %v", err)
			}
		})
		for host, use := range uses {
			w.at(host, func(ctx context.Context, n *mesh.Node) {
				if host == "b" {
					w.check(n.Resource("image").Release(ctx)) // by name
					if err := use.Err(); err != mesh.ErrClosed {
						t.Errorf("the use of %s after Release: %v", host, err)
					}
					return
				}
				w.check(use.Release(ctx))
				if err := use.Context().Err(); err == nil {
					t.Error("a use was released, and its context lives")
				}
			})
		}
		w.at("c", func(ctx context.Context, n *mesh.Node) {
			if ran, err := n.Resource("image").Delete(ctx, doNothing); !ran || err != nil {
				t.Errorf("delete: %t, %v", ran, err)
			}
			if ran, err := n.Resource("image").Delete(ctx, doNothing); ran || err != nil {
				t.Errorf("a second delete: %t, %v", ran, err)
			}
			refs, err := n.Resource("image").Refs(ctx)
			if err != nil || len(refs) != 0 {
				t.Errorf("refs %v, %v", refs, err)
			}
		})
	}
}

func doNothing(context.Context, *mesh.Operation) error { return nil }

// Promise: P39: if the one that acts is lost, another one does; what it did counts for nothing, and its use ends with it.
func TestAPullerIsLost(t *testing.T) {
	for seed := range fewer[uint64](2, 10) {
		w := newTrial(t, simulate.Options{Seed: seed}, 5*time.Second, 5)
		var lost error
		wait := w.begin("d", func(ctx context.Context, n *mesh.Node) {
			op, err := n.Resource("image").Begin(ctx, mesh.OpPull)
			w.check(err)
			_ = simulate.Sleep(ctx, 8*time.Second)
			lost = errors.Join(op.Err(), op.End(ctx, nil))
			if op.Use() != nil {
				t.Error("a pull that was lost makes a use")
			}
		})
		w.pass(time.Second)
		ran := false
		next := w.begin("a", func(ctx context.Context, n *mesh.Node) {
			_, err := n.Resource("image").Pull(ctx, func(context.Context, *mesh.Operation) error { ran = true; return nil })
			w.check(err)
		})
		w.Net.Isolate("d")
		next()
		w.Net.Heal()
		wait()
		if !ran || !errors.Is(lost, mesh.ErrLost) {
			t.Errorf("seed %d: the next one ran: %t; the lost one was told %v", seed, ran, lost)
		}
		w.Host("a").Crash()
		w.pass(6 * time.Second)
		w.at("b", func(ctx context.Context, n *mesh.Node) {
			if ran, err := n.Resource("image").Delete(ctx, doNothing); !ran || err != nil {
				t.Errorf("delete after the user's end: %t, %v", ran, err)
			}
		})
	}
}

// Promise: C8: when a shard has lost its table, uses are reported; what was done is not remembered.
func TestUsesOutliveTheirShard(t *testing.T) {
	for seed := range fewer[uint64](2, 10) {
		w := newTrial(t, simulate.Options{Seed: seed}, 5*time.Second, 3)
		w.Host("x").Go("join", func(ctx context.Context) { w.nodes["x"] = joinClient(ctx, w) })
		w.until("a client has joined", time.Minute, func() bool { return w.nodes["x"] != nil })
		var use, second *mesh.Use
		var op *mesh.Operation
		w.at("x", func(ctx context.Context, n *mesh.Node) {
			var err error
			use, err = n.Resource("image").Pull(ctx, doNothing)
			w.check(err)
			second, err = n.Resource("image", mesh.User("x")).Pull(ctx, doNothing)
			w.check(err)
			op, err = n.Resource("model").Begin(ctx, mesh.OpPull)
			w.check(err)
		})
		for _, host := range []string{"a", "b", "c"} {
			w.Host(host).Crash()
			w.Host(host).Restart()
			w.Host(host).Go("join", func(ctx context.Context) { w.join(ctx, host) })
		}
		w.pass(time.Second)
		w.at("x", func(ctx context.Context, n *mesh.Node) {
			w.check(op.End(ctx, nil))
			if op.Use() == nil || op.Use().Err() != nil || op.Use().Token() <= op.Token() {
				t.Errorf("seed %d: the pull that ran has no use, or one with token %d", seed, op.Use().Token())
			}
		})
		w.at("b", func(ctx context.Context, n *mesh.Node) {
			if _, err := n.Resource("image").Delete(ctx, doNothing); !errors.Is(err, mesh.ErrInUse) {
				t.Errorf("seed %d: deleted under its user: %v", seed, err)
			}
		})
		w.at("x", func(ctx context.Context, n *mesh.Node) {
			w.check(use.Release(ctx))
			if second.Err() != nil {
				t.Errorf("seed %d: the other handle has ended: %v", seed, second.Err())
			}
		})
		w.at("b", func(ctx context.Context, n *mesh.Node) {
			if _, err := n.Resource("image").Delete(ctx, doNothing); !errors.Is(err, mesh.ErrInUse) {
				t.Errorf("seed %d: deleted under its other handle: %v", seed, err)
			}
		})
		w.at("x", func(ctx context.Context, n *mesh.Node) { w.check(second.Release(ctx)) })
		w.at("b", func(ctx context.Context, n *mesh.Node) {
			if ran, err := n.Resource("image").Delete(ctx, doNothing); !ran || err != nil {
				t.Errorf("seed %d: delete: %t, %v", seed, ran, err)
			}
		})
	}
}

func joinClient(ctx context.Context, w *trial) *mesh.Node {
	n, err := mesh.JoinContext(ctx, w.seeds, mesh.WithName("x"), mesh.WithClientOnly(), mesh.WithShards(w.shards),
		mesh.WithLeaseTTL(w.ttl), mesh.WithMaxTTL(w.ttl), mesh.WithLogger(simulate.Logger(ctx)))
	w.check(err)
	return n
}

// Promise: C8: a durable use outlives its session, and its shard, while a replica is left that knows of it.
func TestDurableUsesOutliveTheirShard(t *testing.T) {
	for seed := range fewer[uint64](2, 10) {
		w := newTrial(t, simulate.Options{Seed: seed}, 5*time.Second, 3)
		w.at("a", func(ctx context.Context, n *mesh.Node) {
			s, err := n.NewSession(ctx)
			w.check(err)
			_, err = s.Resource("image", mesh.User("team"), mesh.Durable()).Pull(ctx, doNothing)
			w.check(err)
			w.check(s.Close(ctx))
		})
		w.pass(time.Second)
		for _, host := range []string{"a", "b"} {
			w.Host(host).Crash()
			w.Host(host).Restart()
			w.Host(host).Go("join", func(ctx context.Context) { w.join(ctx, host) })
		}
		w.pass(time.Second)
		w.at("c", func(ctx context.Context, n *mesh.Node) {
			if _, err := n.Resource("image").Delete(ctx, doNothing); !errors.Is(err, mesh.ErrInUse) {
				t.Errorf("seed %d: deleted under a durable use: %v", seed, err)
			}
			w.check(n.Resource("image", mesh.User("team")).Release(ctx))
			if ran, err := n.Resource("image").Delete(ctx, doNothing); !ran || err != nil {
				t.Errorf("seed %d: delete: %t, %v", seed, ran, err)
			}
		})
	}
}

// Promise: P39: a pull whose caller gives up ends nothing: a durable use of the same user stays, which has outlived an earlier session.
func TestWhoGivesUpEndsNoDurableUse(t *testing.T) {
	w := newTrial(t, simulate.Options{Seed: 1}, 5*time.Second, 3)
	failed := 0
	for i := range 40 {
		key := fmt.Sprint("image", i)
		w.at("a", func(ctx context.Context, n *mesh.Node) {
			pull := func(limited context.Context) error {
				s, err := n.NewSession(ctx)
				w.check(err)
				_, failure := s.Resource(key, mesh.User("team"), mesh.Durable()).Pull(limited, doNothing)
				w.check(simulate.Sleep(ctx, time.Second))
				w.check(s.Close(ctx))
				return failure
			}
			w.check(pull(ctx))
			short, cancel := simulate.WithTimeout(ctx, time.Duration(i)*50*time.Microsecond)
			defer cancel()
			if pull(short) != nil {
				failed++
			}
		})
		w.at("b", func(ctx context.Context, n *mesh.Node) {
			if _, err := n.Resource(key).Delete(ctx, doNothing); !errors.Is(err, mesh.ErrInUse) {
				t.Errorf("after %d: deleted under a durable use: %v", i, err)
			}
		})
	}
	if failed == 0 || failed == 40 {
		t.Errorf("%d of 40 have given up", failed)
	}
}

// Promise: a caller that gives up leaves no use behind, wherever its pull is.
func TestWhoGivesUpUsesNothing(t *testing.T) {
	w := newTrial(t, simulate.Options{Seed: 1}, 5*time.Second, 3)
	for i := range 60 {
		key := fmt.Sprint("image", i)
		done := w.begin("a", func(ctx context.Context, n *mesh.Node) {
			op, err := n.Resource(key).Begin(ctx, mesh.OpPull)
			w.check(err)
			_ = simulate.Sleep(ctx, 20*time.Millisecond)
			w.check(op.End(ctx, nil))
			w.check(op.Use().Release(ctx))
		})
		w.at("b", func(ctx context.Context, n *mesh.Node) {
			short, cancel := simulate.WithTimeout(ctx, time.Duration(10+i)*time.Millisecond)
			defer cancel()
			if use, err := n.Resource(key).Pull(short, func(ctx context.Context, _ *mesh.Operation) error { return ctx.Err() }); err == nil {
				w.check(use.Release(ctx))
			}
		})
		done()
		w.pass(time.Second)
		w.at("c", func(ctx context.Context, n *mesh.Node) {
			refs, err := n.Resource(key).Refs(ctx)
			if err != nil || len(refs) != 0 {
				t.Errorf("after %d ms: %v, %v", 10+i, refs, err)
			}
		})
	}
}

// Promise: P39: when a thousand processes want one thing at once, one fetches it and all others are told. None polls: a waiter costs
// its request, two answers, and its share of its session's renewals.
func TestAThousandPullers(t *testing.T) {
	clients, each := fewer(40, 197), 5
	w := newTrial(t, simulate.Options{Seed: 1}, 5*time.Second, 3)
	w.clients(clients)
	ran, used, messages := 0, 0, 0
	w.Net.Rule(func(f simulate.Frame) simulate.Verdict {
		for _, m := range f.Messages() {
			if about, _, _ := strings.Cut(m, " "); slices.Contains([]string{"pull", "queued", "skipped", "renewal", "cancel", "not"}, about) {
				messages++
			}
		}
		return simulate.Pass
	})
	all := len(w.nodes) * each
	for _, host := range w.Hosts() {
		for range each {
			host.Go("puller", func(ctx context.Context) {
				use, err := w.nodes[host.Name()].Resource("image").Pull(ctx, func(ctx context.Context, _ *mesh.Operation) error {
					ran++
					return simulate.Sleep(ctx, 2*time.Second)
				})
				if w.check(err); err == nil {
					used++
					_ = simulate.Wait(use.Context(), nil)
				}
			})
		}
	}
	start := w.Now()
	w.until("all use it", time.Minute, func() bool { return used == all })
	t.Logf("%d pullers of %d processes, %v, %.1f messages each", all, len(w.nodes), w.Now()-start, float64(messages)/float64(all))
	if ran != 1 || messages > 4*all {
		t.Errorf("fn ran %d times, and %d pullers cost %d messages", ran, all, messages)
	}
	w.at("a", func(ctx context.Context, n *mesh.Node) {
		refs, err := n.Resource("image").Refs(ctx)
		if err != nil || len(refs) != len(w.nodes) {
			t.Errorf("%d users, %v", len(refs), err)
		}
	})
}

// Promise: P39: Leave does not wait for uses. Their contexts end, and they lapse with their leases.
func TestLeaveEndsUses(t *testing.T) {
	w := newTrial(t, simulate.Options{Seed: 1}, 5*time.Second, 5)
	var use *mesh.Use
	w.at("d", func(ctx context.Context, n *mesh.Node) {
		var err error
		use, err = n.Resource("image").Pull(ctx, doNothing)
		w.check(err)
	})
	w.check(w.leave("d", 4*time.Second))
	if err := context.Cause(use.Context()); !errors.Is(err, mesh.ErrLost) && !errors.Is(err, context.Canceled) {
		t.Errorf("the context of a use lives, though its node has left: %v", err)
	}
	w.at("a", func(ctx context.Context, n *mesh.Node) {
		if _, err := n.Resource("image").Delete(ctx, doNothing); !errors.Is(err, mesh.ErrInUse) {
			t.Errorf("deleted before the use has lapsed: %v", err)
		}
		_ = simulate.Sleep(ctx, 6*time.Second)
		if ran, err := n.Resource("image").Delete(ctx, doNothing); !ran || err != nil {
			t.Errorf("delete: %t, %v", ran, err)
		}
	})
}
