package mesh_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/lockmesh/mesh"
	"github.com/lockmesh/mesh/simulate"
)

// Promise: P43: of many that call at once one runs its function at a time. If it fails, or its node is cut off, the next one's runs; and
// once one has succeeded all others skip.
func TestOnceInAFleet(t *testing.T) {
	for seed := range fewer[uint64](2, 10) {
		w := newTrial(t, simulate.Options{Seed: seed}, 5*time.Second, 5)
		var order []string
		ran, failed := 0, 0
		oh := errors.New("oh")
		call := func(host string, opts ...mesh.OnceOption) func() {
			return w.begin(host, func(ctx context.Context, n *mesh.Node) {
				did, err := n.Once(ctx, "r", time.Hour, func(ctx context.Context, op *mesh.Operation) error {
					order = append(order, host)
					_ = simulate.Sleep(ctx, 2*time.Second)
					if host == "a" {
						return oh
					}
					return nil
				}, opts...)
				switch {
				case errors.Is(err, mesh.ErrFailed):
					failed++
				case host == "a" && !errors.Is(err, oh), host == "d" && !errors.Is(err, mesh.ErrLost) && !errors.Is(err, mesh.ErrUnconfirmed):
					t.Errorf("seed %d: %s: %t, %v", seed, host, did, err)
				case did:
					ran++
				case host != "a" && host != "d":
					w.check(err)
				}
			})
		}
		var waits []func()
		for _, host := range []string{"a", "d", "b"} {
			waits = append(waits, call(host))
			w.pass(200 * time.Millisecond)
		}
		waits = append(waits, call("c", mesh.Attempts(2)), call("e"))
		w.pass(3 * time.Second)
		w.Net.Isolate("d")
		w.pass(10 * time.Second)
		w.Net.Heal()
		for _, wait := range waits {
			wait()
		}
		if got := fmt.Sprint(order); got != "[a d b]" || ran != 1 || failed != 0 {
			t.Errorf("seed %d: %s ran, %d of them with success; %d were refused", seed, got, ran, failed)
		}
	}
}

// Promise: P43: Attempts counts the failures of all callers, and a doer that is lost.
func TestAttempts(t *testing.T) {
	for seed := range fewer[uint64](2, 10) {
		w := newTrial(t, simulate.Options{Seed: seed}, 5*time.Second, 5)
		starts := 0
		var errs []error
		call := func(host string) func() {
			return w.begin(host, func(ctx context.Context, n *mesh.Node) {
				_, err := n.Once(ctx, "r", time.Hour, func(ctx context.Context, op *mesh.Operation) error {
					starts++
					_ = simulate.Sleep(ctx, 2*time.Second)
					return errors.New("oh")
				}, mesh.Attempts(2))
				errs = append(errs, err)
			})
		}
		call("d")
		w.pass(500 * time.Millisecond)
		waits := []func(){call("a"), call("b"), call("c")}
		w.pass(500 * time.Millisecond)
		w.Host("d").Crash()
		for _, wait := range waits {
			wait()
		}
		failed := 0
		for _, err := range errs {
			if errors.Is(err, mesh.ErrFailed) {
				failed++
			}
		}
		if starts != 2 || failed != 2 || len(errs) != 3 {
			t.Errorf("seed %d: %d started, and the callers were told %v", seed, starts, errs)
		}
	}
}

// Promise: C8, P43: when a shard has lost its table, what was done once is still known: from those that did it or skipped it, or from a replica that
// is left. What runs goes on.
func TestOnceOutlivesItsShard(t *testing.T) {
	for seed := range fewer[uint64](2, 10) {
		w := newTrial(t, simulate.Options{Seed: seed}, 5*time.Second, 3)
		w.Host("x").Go("join", func(ctx context.Context) { w.nodes["x"] = joinClient(ctx, w) })
		w.until("a client has joined", time.Minute, func() bool { return w.nodes["x"] != nil })
		once := func(host, key string, fn mesh.OpFunc) (ran bool) {
			w.at(host, func(ctx context.Context, n *mesh.Node) {
				var err error
				ran, err = n.Once(ctx, key, time.Hour, fn)
				w.check(err)
			})
			return ran
		}
		if !once("x", "done", doNothing) || !once("a", "skipped", doNothing) || once("x", "skipped", doNothing) || !once("b", "forgotten", doNothing) {
			t.Fatalf("seed %d: the first time", seed)
		}
		late := false
		begun := w.begin("x", func(ctx context.Context, n *mesh.Node) {
			ran, err := n.Once(ctx, "runs", time.Hour, func(ctx context.Context, _ *mesh.Operation) error {
				return simulate.Sleep(ctx, 3*time.Second)
			})
			w.check(err)
			late = ran
		})
		w.pass(time.Second)
		for _, host := range []string{"a", "b", "c"} {
			w.Host(host).Crash()
			w.Host(host).Restart()
			w.Host(host).Go("join", func(ctx context.Context) { w.join(ctx, host) })
		}
		w.pass(time.Second)
		for _, key := range []string{"done", "skipped", "runs"} {
			if once("b", key, doNothing) {
				t.Errorf("seed %d: %s is done again", seed, key)
			}
		}
		if begun(); !late {
			t.Errorf("seed %d: what ran did not succeed", seed)
		}
		if !once("b", "forgotten", doNothing) {
			t.Errorf("seed %d: nobody is left that knew of it, and it is skipped", seed)
		}
		w.pass(time.Second)
		for _, host := range []string{"a", "b"} {
			w.Host(host).Crash()
			w.Host(host).Restart()
			w.Host(host).Go("join", func(ctx context.Context) { w.join(ctx, host) })
		}
		w.Host("x").Crash()
		w.pass(time.Second)
		if once("c", "done", doNothing) || once("c", "forgotten", doNothing) {
			t.Errorf("seed %d: a replica is left that knew of it, and it is done again", seed)
		}
	}
}
