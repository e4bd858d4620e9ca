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

// Promise: P44: a latch lets nobody through before all names have arrived, and then all; the arrival of one that has died stays.
func TestALatchOpens(t *testing.T) {
	for seed := range fewer[uint64](2, 10) {
		w := newTrial(t, simulate.Options{Seed: seed}, 5*time.Second, 5)
		through := 0
		wait := func(host string) func() {
			return w.begin(host, func(ctx context.Context, n *mesh.Node) {
				w.check(n.Latch("migrated", 3).Wait(ctx))
				through++
			})
		}
		arrive := func(host, who string) {
			w.at(host, func(ctx context.Context, n *mesh.Node) { w.check(n.Latch("migrated", 3).Arrive(ctx, who)) })
		}
		waits := []func(){wait("a"), wait("b"), wait("d")}
		arrive("a", "one")
		arrive("b", "one")
		arrive("e", "two")
		w.Host("e").Crash() // its arrival stays
		w.pass(8 * time.Second)
		if through != 0 {
			t.Errorf("seed %d: %d are let through by two names", seed, through)
		}
		arrive("d", "three")
		for _, wait := range append(waits, wait("d")) {
			wait()
		}
		if through != 4 {
			t.Errorf("seed %d: %d are let through", seed, through)
		}
	}
}

// Promise: C8, P44: when a shard has lost its table, arrivals and open latches are known from those that arrived or waited, or from a replica that is
// left. Who waits goes on waiting.
func TestALatchOutlivesItsShard(t *testing.T) {
	for seed := range fewer[uint64](2, 10) {
		w := newTrial(t, simulate.Options{Seed: seed}, 5*time.Second, 3)
		w.Host("x").Go("join", func(ctx context.Context) { w.nodes["x"] = joinClient(ctx, w) })
		w.until("a client has joined", time.Minute, func() bool { return w.nodes["x"] != nil })
		do := func(host string, what func(context.Context, *mesh.Node) error) {
			w.at(host, func(ctx context.Context, n *mesh.Node) { w.check(what(ctx, n)) })
		}
		do("a", func(ctx context.Context, n *mesh.Node) error {
			return errors.Join(n.Latch("open", 2).Arrive(ctx, "one"), n.Latch("open", 2).Arrive(ctx, "two"))
		})
		do("x", func(ctx context.Context, n *mesh.Node) error { return n.Latch("open", 2).Wait(ctx) })
		do("x", func(ctx context.Context, n *mesh.Node) error { return n.Latch("half", 2).Arrive(ctx, "one") })
		through := false
		waits := w.begin("x", func(ctx context.Context, n *mesh.Node) {
			w.check(n.Latch("half", 2).Wait(ctx))
			through = true
		})
		w.pass(time.Second)
		restart := func(hosts ...string) {
			for _, host := range hosts {
				w.Host(host).Crash()
				w.Host(host).Restart()
				w.Host(host).Go("join", func(ctx context.Context) { w.join(ctx, host) })
			}
			w.pass(time.Second)
		}
		restart("a", "b", "c")
		do("b", func(ctx context.Context, n *mesh.Node) error { return n.Latch("open", 2).Wait(ctx) })
		w.pass(8 * time.Second)
		if through {
			t.Errorf("seed %d: let through by one", seed)
		}
		do("c", func(ctx context.Context, n *mesh.Node) error { return n.Latch("half", 2).Arrive(ctx, "two") })
		waits()
		do("c", func(ctx context.Context, n *mesh.Node) error { return n.Latch("third", 2).Arrive(ctx, "one") })
		w.pass(time.Second)
		w.Host("x").Crash()
		restart("a", "b")
		do("b", func(ctx context.Context, n *mesh.Node) error {
			return errors.Join(n.Latch("open", 2).Wait(ctx), n.Latch("half", 2).Wait(ctx), n.Latch("third", 2).Arrive(ctx, "two"), n.Latch("third", 2).Wait(ctx))
		})
	}
}

// Promise: P45: members go on together, round by round; who is lost inside, or gives up before, holds nobody up.
func TestABarrier(t *testing.T) {
	for seed := range fewer[uint64](2, 10) {
		w := newTrial(t, simulate.Options{Seed: seed}, 5*time.Second, 5)
		inside, most, rounds := 0, 0, make(map[string]int)
		member := func(host string, count int) func() {
			return w.begin(host, func(ctx context.Context, n *mesh.Node) {
				for range count {
					p, err := n.Barrier("step", 3).Enter(ctx)
					if w.check(err); err != nil {
						return
					}
					inside++
					most = max(most, inside)
					rounds[host]++
					_ = simulate.Sleep(p.Context(), 500*time.Millisecond)
					inside--
					w.check(p.Leave(ctx))
				}
			})
		}
		w.at("e", func(ctx context.Context, n *mesh.Node) {
			short, cancel := simulate.WithTimeout(ctx, time.Second)
			defer cancel()
			if _, err := n.Barrier("step", 3).Enter(short); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("seed %d: alone inside: %v", seed, err)
			}
		})
		waits := []func(){member("a", 4), member("b", 4)}
		w.pass(2 * time.Second)
		if inside > 0 {
			t.Errorf("seed %d: %d are inside, and one of three gave up before", seed, inside)
		}
		waits = append(waits, member("c", 4))
		for _, wait := range waits {
			wait()
		}
		if got := fmt.Sprint(rounds, most); got != "map[a:4 b:4 c:4] 3" {
			t.Errorf("seed %d: rounds %s", seed, got)
		}

		// One dies inside: the next round begins once its lease is over.
		dies := w.begin("d", func(ctx context.Context, n *mesh.Node) {
			_, err := n.Barrier("step", 3).Enter(ctx)
			w.check(err)
			_ = simulate.Wait(ctx, nil)
		})
		_ = dies
		first := []func(){member("a", 1), member("b", 1)}
		for _, wait := range first {
			wait()
		}
		w.Host("d").Crash()
		next := []func(){member("a", 1), member("b", 1), member("c", 1)}
		w.pass(time.Second)
		if rounds["c"] != 4 {
			t.Errorf("seed %d: the next round has begun while one is inside", seed)
		}
		for _, wait := range next {
			wait()
		}
	}
}

// Promise: C8, P45: when a shard has lost its table, those inside are still inside, and those that wait still wait.
func TestABarrierOutlivesItsShard(t *testing.T) {
	for seed := range fewer[uint64](2, 10) {
		w := newTrial(t, simulate.Options{Seed: seed}, 5*time.Second, 3)
		w.Host("x").Go("join", func(ctx context.Context) { w.nodes["x"] = joinClient(ctx, w) })
		w.until("a client has joined", time.Minute, func() bool { return w.nodes["x"] != nil })
		passages := make([]*mesh.Passage, 4)
		enter := func(i int) func() {
			return w.begin("x", func(ctx context.Context, n *mesh.Node) {
				var err error
				passages[i], err = n.Barrier("step", 2).Enter(ctx)
				w.check(err)
			})
		}
		first := []func(){enter(0), enter(1)}
		for _, wait := range first {
			wait()
		}
		next := []func(){enter(2), enter(3)}
		w.pass(time.Second)
		for _, host := range []string{"a", "b", "c"} {
			w.Host(host).Crash()
			w.Host(host).Restart()
			w.Host(host).Go("join", func(ctx context.Context) { w.join(ctx, host) })
		}
		w.pass(10 * time.Second)
		if passages[0].Err() != nil || passages[1].Err() != nil || passages[2] != nil || passages[3] != nil {
			t.Errorf("seed %d: %v, %v are inside, and then %v, %v", seed, passages[0].Err(), passages[1].Err(), passages[2], passages[3])
		}
		w.at("x", func(ctx context.Context, n *mesh.Node) {
			w.check(errors.Join(passages[0].Leave(ctx), passages[1].Leave(ctx)))
		})
		for _, wait := range next {
			wait()
		}
	}
}
