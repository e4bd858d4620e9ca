package mesh_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/lockmesh/mesh"
	"github.com/lockmesh/mesh/ring"
	"github.com/lockmesh/mesh/shard"
	"github.com/lockmesh/mesh/simulate"
)

// Promise: P48: a leader that is cut off tells nothing, though it knows of holders: others may have the key by then. On the other side
// the answer names the holder of now.
func TestAStaleLeaderTellsNothing(t *testing.T) {
	for seed := range fewer[uint64](3, 10) {
		w := newTrial(t, simulate.Options{Seed: seed}, 5*time.Second, 3)
		token := uint64(0)
		leader := ""
		w.at("a", func(ctx context.Context, n *mesh.Node) {
			l, err := n.Lock(ctx, "k")
			w.check(err)
			token = l.Token()
			k, err := n.Inspect(ctx, "k")
			w.check(err)
			if leader = k.Leader; len(k.Holders) != 1 || k.Holders[0].Token != token || k.Holders[0].Node != "a" {
				t.Errorf("seed %d: k is %+v", seed, k)
			}
		})
		other := "b"
		if leader == "b" {
			other = "c"
		}
		w.Net.Isolate(leader)
		w.at(leader, func(ctx context.Context, n *mesh.Node) {
			if k, err := n.Inspect(ctx, "k"); !errors.Is(err, mesh.ErrNoQuorum) {
				t.Errorf("seed %d: the one that is cut off says %+v, %v", seed, k, err)
			}
		})
		w.pass(20 * time.Second) // the lease of a, if it is that, is over
		w.at(other, func(ctx context.Context, n *mesh.Node) {
			k, err := n.Inspect(ctx, "k")
			w.check(err)
			if held := leader != "a"; k.Leader == leader || held != (len(k.Holders) == 1) || held && k.Holders[0].Token != token {
				t.Errorf("seed %d: k is %+v, with %s cut off", seed, k, leader)
			}
		})
	}
}

// Promise: P48: Inspect tells of all waiters in their order, also where they fill several messages, and List of all keys. A key of the
// same shard is locked about as fast meanwhile.
func TestALongQueueIsTold(t *testing.T) {
	const many = 700
	w := newTrial(t, simulate.Options{Seed: 1}, 5*time.Second, 3)
	keys := 0
	w.at("a", func(ctx context.Context, n *mesh.Node) {
		_, err := n.Lock(ctx, "k")
		w.check(err)
		for i := range 40 {
			_, err := n.Lock(ctx, fmt.Sprint("list/", i))
			w.check(err)
		}
	})
	for range many {
		w.begin("b", func(ctx context.Context, n *mesh.Node) { _, _ = n.Lock(ctx, "k") })
	}
	w.pass(time.Second)
	w.at("c", func(ctx context.Context, n *mesh.Node) {
		k, err := n.Inspect(ctx, "k", mesh.AtMost(1<<16))
		w.check(err)
		if k.Waiting != many || len(k.Waiters) != many || k.Waiters[many-1].Place != many || k.Waiters[0].Node != "b" {
			t.Errorf("%d wait, and %d are told", k.Waiting, len(k.Waiters))
		}
		if k, err := n.Inspect(ctx, "k", mesh.AtMost(3)); err != nil || k.Waiting != many || len(k.Waiters) != 3 {
			t.Errorf("%d of %d are told, %v", len(k.Waiters), k.Waiting, err)
		}
		for k, err := range n.List(ctx, "list/") {
			if w.check(err); len(k.Holders) != 1 || k.Holders[0].Node != "a" {
				t.Errorf("%+v", k)
			}
			keys++
		}
	})
	if keys != 40 {
		t.Errorf("%d keys are listed", keys)
	}
}

// Promise: P48: Inspect takes about as long as what it asks a majority, one question and its confirmation; and a long one that is under
// way holds up no Lock of the same shard.
func TestWhatInspectCosts(t *testing.T) {
	many := fewer(5000, shard.MaxWaiters)
	w := newTrial(t, simulate.Options{Seed: 1}, 5*time.Second, 3)
	key := w.keyWhere(func(r []string) bool { return r[0] == "a" })
	beside := ""
	for i := 0; beside == ""; i++ {
		if k := fmt.Sprint("beside/", i); ring.Shard(k, w.shards) == ring.Shard(key, w.shards) {
			beside = k
		}
	}
	median := func(host string, do func(context.Context, *mesh.Node)) time.Duration {
		var all []time.Duration
		for range 21 {
			start := w.Now()
			w.at(host, do)
			all = append(all, w.Now()-start)
		}
		slices.Sort(all)
		return all[len(all)/2]
	}
	locks := func(ctx context.Context, n *mesh.Node) {
		l, err := n.Lock(ctx, beside)
		w.check(err)
		w.check(l.Unlock(ctx))
	}
	lock := median("c", locks) // two round trips, each with one between the leader and a follower
	inspect := median("c", func(ctx context.Context, n *mesh.Node) {
		_, err := n.Inspect(ctx, beside)
		w.check(err)
	})
	t.Logf("Inspect %v, Lock and Unlock %v: %.2f fan-outs", inspect, lock, 4*float64(inspect)/float64(lock))
	if 4*inspect > lock*5/2 {
		t.Errorf("Inspect takes %v, and Lock and Unlock %v", inspect, lock)
	}
	w.at("b", func(ctx context.Context, n *mesh.Node) { w.check(second(n.Lock(ctx, key))) })
	for range many {
		w.begin("b", func(ctx context.Context, n *mesh.Node) { _, _ = n.Lock(ctx, key) })
	}
	w.pass(2 * time.Second)
	over, told := false, 0
	w.begin("c", func(ctx context.Context, n *mesh.Node) {
		for !over {
			k, err := n.Inspect(ctx, key, mesh.AtMost(1<<16))
			w.check(err)
			told = len(k.Waiters)
		}
	})
	busy := median("c", locks)
	over = true
	w.pass(time.Second)
	t.Logf("while %d waiters are told: %v", told, busy)
	if busy > 2*lock || told != many {
		t.Errorf("Lock and Unlock take %v beside an Inspect of %d waiters, and else %v", busy, told, lock)
	}
}

func second(_ *mesh.Lock, err error) error { return err }
