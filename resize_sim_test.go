package mesh_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/lockmesh/mesh"
	"github.com/lockmesh/mesh/simulate"
)

// Promise: P38: a fleet learns of another capacity one process after the other, and nobody loses a permit.
func TestResizeInAFleet(t *testing.T) {
	for seed := range fewer[uint64](2, 10) {
		w := newTrial(t, simulate.Options{Seed: seed}, 5*time.Second, 3)
		acquire := func(host string, n, of int64) (l *mesh.Lock) {
			t.Helper()
			w.at(host, func(ctx context.Context, node *mesh.Node) {
				var err error
				l, err = node.Acquire(ctx, "pool", n, of)
				w.check(err)
			})
			return l
		}
		resize := func(host string, from, to int64) (err error) {
			t.Helper()
			w.at(host, func(ctx context.Context, node *mesh.Node) { err = node.Resize(ctx, "pool", from, to) })
			return err
		}
		begin := func(host string, n, of int64) (result *error) {
			result = new(error)
			*result = errors.New("it waits")
			w.begin(host, func(ctx context.Context, node *mesh.Node) {
				l, err := node.Acquire(ctx, "pool", n, of)
				if *result = err; err == nil {
					w.check(l.Unlock(ctx))
				}
			})
			w.pass(time.Second)
			return result
		}
		w.check(resize("b", 3, 5)) // nobody uses it: nothing is changed
		first := acquire("a", 3, 3)
		waits := begin("b", 2, 3)
		if *waits == nil {
			t.Errorf("seed %d: five of three are taken", seed)
		}
		w.check(resize("c", 3, 5))
		w.pass(time.Second)
		w.check(*waits)
		second := acquire("c", 2, 5)
		if err := resize("b", 3, 4); !errors.Is(err, mesh.ErrCapacityMismatch) {
			t.Errorf("seed %d: resized from what it is not: %v", seed, err)
		}
		large := begin("b", 4, 5)
		w.check(resize("b", 5, 2))
		w.pass(time.Second)
		if first.Err() != nil || second.Err() != nil || !errors.Is(*large, mesh.ErrCapacityMismatch) {
			t.Errorf("seed %d: smaller now: %v, %v; who waited for more than there is: %v", seed, first.Err(), second.Err(), *large)
		}
		waits = begin("b", 1, 3)
		w.check(w.unlock("a", first, time.Minute))
		w.pass(time.Second)
		if *waits == nil {
			t.Errorf("seed %d: three of two are taken", seed)
		}
		w.check(w.unlock("c", second, time.Minute))
		w.pass(time.Second)
		w.check(*waits)
	}
}

// Promise: C8, P38: when a shard has lost its table, no permit is lost because of a Resize, though not all callers have heard of it; and not more are
// given than any of them believes that there are.
func TestResizeOutlivesItsShard(t *testing.T) {
	for seed := range fewer[uint64](2, 10) {
		w := newTrial(t, simulate.Options{Seed: seed}, 5*time.Second, 3)
		w.Host("x").Go("join", func(ctx context.Context) { w.nodes["x"] = joinClient(ctx, w) })
		w.until("a client has joined", time.Minute, func() bool { return w.nodes["x"] != nil })
		var held []*mesh.Lock
		var third error = errors.New("it waits")
		w.at("x", func(ctx context.Context, n *mesh.Node) {
			for range 2 {
				l, err := n.Acquire(ctx, "pool", 2, 3)
				w.check(err)
				held = append(held, l)
				w.check(n.Resize(ctx, "pool", 3, 4))
			}
		})
		w.begin("x", func(ctx context.Context, n *mesh.Node) { _, third = n.Acquire(ctx, "pool", 1, 3) })
		w.pass(time.Second)
		for _, host := range []string{"a", "b", "c"} {
			w.Host(host).Crash()
			w.Host(host).Restart()
			w.Host(host).Go("join", func(ctx context.Context) { w.join(ctx, host) })
		}
		w.pass(10 * time.Second)
		if held[0].Err() != nil || held[1].Err() != nil || third == nil {
			t.Errorf("seed %d: %v and %v hold two each, and one more has come: %v", seed, held[0].Err(), held[1].Err(), third)
		}
		w.check(w.unlock("x", held[0], time.Minute))
		w.pass(time.Second)
		if third != nil {
			t.Errorf("seed %d: two of three are held, and another one waits: %v", seed, third)
		}
	}
}
