package mesh_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/lockmesh/mesh"
	"github.com/lockmesh/mesh/simulate"
)

// leave calls Leave on the node of a host, with a time limit, and returns its result.
func (w *trial) leave(host string, within time.Duration) (err error) {
	w.t.Helper()
	w.at(host, func(ctx context.Context, n *mesh.Node) {
		start := simulate.Now(ctx)
		err = n.Leave(ctx)
		w.between("Leave of "+host, simulate.Now(ctx)-start, 0, within)
		w.t.Logf("%s left in %v", host, simulate.Now(ctx)-start)
		if !closed(n.Done()) || !errors.Is(n.Err(), mesh.ErrLeft) {
			w.t.Errorf("%s after Leave: done %v, %v", host, closed(n.Done()), n.Err())
		}
	})
	delete(w.nodes, host)
	return err
}

// restart ends the process on a host and starts the next one, which joins under the same
// name and address, and waits until every shard is fully replicated.
func (w *trial) restart(host string, within time.Duration) {
	w.t.Helper()
	w.Host(host).Crash()
	w.Host(host).Restart()
	start := w.Now()
	healthy := false
	w.Host(host).Go("join", func(ctx context.Context) {
		if n := w.join(ctx, host); n != nil {
			w.check(n.WaitHealthy(ctx))
			healthy = true
		}
	})
	w.until(host+" is back and all is healthy", time.Minute, func() bool { return healthy })
	w.between("the return of "+host, w.Now()-start, 0, within)
}

// truthful returns settings for a world whose links lose nothing and whose gossip makes no
// false claims.
func truthful() map[string]int64 {
	return map[string]int64{"link-loss-ppm": 0, "link-duplicate-ppm": 0, "link-reorder-ppm": 0, "gossip-lies-ppm": 0}
}

func TestARollingRestart(t *testing.T) {
	for seed := range fewer[uint64](1, 3) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			opts := simulate.Options{Seed: seed, Profile: simulate.Flaky, Set: truthful()}
			roll(newTrialOf(t, opts, trialTTL, 3+2*int(seed%2), 2*trialShards)) // so many that each node leads one
		})
	}
}

// roll restarts every node of a mesh, one after the other, while all others use it.
func roll(w *trial) {
	t := w.t
	var hosts []string
	held := make(map[string]*mesh.Lock) // by the name of the host that holds it
	for _, h := range w.Hosts() {
		hosts = append(hosts, h.Name())
		held[h.Name()] = w.lock(h.Name(), "held by "+h.Name())
	}
	over, pairs := false, 0
	away := make(map[string]bool) // hosts whose callers stop
	busy := make(map[string]int)
	work := func(host string) {
		for i := range 2 {
			w.Host(host).Go("worker", func(ctx context.Context) {
				for j := i; !over; j++ {
					if away[host] {
						return
					}
					busy[host]++
					n := w.nodes[host]
					short, cancel := simulate.WithTimeout(ctx, 5*time.Second)
					l, err := n.Lock(short, fmt.Sprint("work", j%7))
					if err == nil {
						_ = simulate.Sleep(ctx, time.Millisecond)
						err = l.Unlock(ctx)
					}
					cancel()
					busy[host]--
					if err != nil {
						t.Errorf("at %v a caller on %s got: %v", w.Now(), host, err)
						return
					}
					pairs++
					_ = simulate.Sleep(ctx, 3*time.Millisecond)
				}
			})
		}
	}
	for _, h := range hosts {
		work(h)
	}
	var queued []string // the waiters in the queues, in order
	var served []string
	for i, victim := range hosts {
		// A queue of all others, for a key of each shard that the victim may lead.
		keys := []string{w.ledBy(victim), w.ledBy(hosts[(i+1)%len(hosts)])}
		others := slices.DeleteFunc(slices.Clone(hosts), func(h string) bool { return h == victim })
		var heads []*mesh.Lock
		var waits []func()
		queued, served = nil, nil
		for _, key := range keys {
			heads = append(heads, w.lock(others[0], key))
			for _, h := range append(others[1:], others...) {
				waits = append(waits, w.begin(h, func(ctx context.Context, n *mesh.Node) {
					l, err := n.Lock(ctx, key)
					if err != nil {
						t.Errorf("a waiter on %s: %v", h, err)
						return
					}
					served = append(served, key+h)
					w.check(l.Unlock(ctx))
				}))
				queued = append(queued, key+h)
				w.pass(100 * time.Millisecond) // in this order
			}
		}

		away[victim] = true
		w.until("the callers on "+victim+" rest", 10*time.Second, func() bool { return busy[victim] == 0 })
		w.check(w.unlock(victim, held[victim], time.Second))
		if err := w.leave(victim, 10*time.Second); err != nil {
			t.Errorf("%s leaves: %v", victim, err)
		}
		if len(served) > 0 {
			t.Errorf("served although the keys are held: %v", served)
		}
		w.restart(victim, 20*time.Second)
		away[victim] = false
		held[victim] = w.lock(victim, "held by "+victim)
		work(victim)

		for j, key := range keys {
			if err := heads[j].Err(); err != nil {
				t.Errorf("%q, held on %s while %s left: %v", key, others[0], victim, err)
			}
			w.check(w.unlock(others[0], heads[j], time.Second))
		}
		for _, wait := range waits {
			wait()
		}
		slices.SortStableFunc(served, func(a, b string) int { // the keys' queues are independent
			return slices.Index(keys, a[:len(a)-1]) - slices.Index(keys, b[:len(b)-1])
		})
		if !slices.Equal(served, queued) {
			t.Errorf("while %s left, %v queued; served %v", victim, queued, served)
		}
		for _, h := range others {
			if err := held[h].Err(); err != nil {
				t.Errorf("the lock on %s, while %s left: %v", h, victim, err)
			}
		}
		if t.Failed() {
			return
		}
	}
	over = true
	for _, h := range hosts {
		w.until("the callers on "+h+" end", 10*time.Second, func() bool { return busy[h] == 0 })
		w.check(w.unlock(h, held[h], time.Second))
	}
	t.Logf("%d locks in %v", pairs, w.Now())
}

// Promise: C11, G9: one of four entries is dropped by a rolling restart of the others with the next list, while its node
// lives on as a client, and then comes back. No shard begins anew: no lock is lost, and no key is quiet.
func TestTheListShrinksAndGrows(t *testing.T) {
	for seed := range fewer[uint64](2, 8) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			opts := simulate.Options{Seed: seed, Profile: simulate.Flaky, Set: truthful()}
			w := newTrialOf(t, opts, trialTTL, 4, trialShards)
			all := w.seeds
			w.seeds = all[:3]
			w.relist("a", "b", "c")
			w.seeds = all
			w.relist("b", "c", "a", "d")
		})
	}
}

// relist restarts hosts in an orderly way, one after the other, while every other one holds a lock, and can have others.
func (w *trial) relist(hosts ...string) {
	t := w.t
	t.Helper()
	held := make(map[string]*mesh.Lock)
	everywhere := slices.Sorted(maps.Keys(w.nodes))
	for _, host := range everywhere {
		held[host] = w.lock(host, "held by "+host)
	}
	for _, victim := range hosts {
		w.check(w.unlock(victim, held[victim], time.Second))
		w.check(w.leave(victim, 10*time.Second))
		w.restart(victim, 20*time.Second)
		for i := range 2 * trialShards {
			w.at("d", func(ctx context.Context, n *mesh.Node) {
				l, err := n.TryLock(ctx, fmt.Sprint("free", i))
				if err != nil {
					t.Errorf("when %s is back with the list %v: %v", victim, w.seeds, err)
					return
				}
				w.check(l.Unlock(ctx))
			})
		}
		held[victim] = w.lock(victim, "held by "+victim)
		for _, host := range everywhere {
			if err := held[host].Err(); err != nil {
				t.Errorf("the lock on %s, when %s is back with the list %v: %v", host, victim, w.seeds, err)
			}
		}
	}
	for _, host := range everywhere {
		w.check(w.unlock(host, held[host], time.Second))
	}
}

// Promise: C3: two of three go on without the one that left, and the last one alone grants nothing: it waits for the
// others, and says so. When they are back, all goes on.
func TestTheLastNodesLeave(t *testing.T) {
	for seed := range uint64(4) {
		w := newTrial(t, simulate.Options{Seed: seed}, trialTTL, 3)
		w.pass(time.Duration(seed) * 700 * time.Millisecond)
		l := w.lock("c", "mine")
		if err := w.leave("a", 10*time.Second); err != nil {
			t.Errorf("seed %d: a leaves: %v", seed, err)
		}
		w.at("c", func(ctx context.Context, n *mesh.Node) {
			for i := range 16 { // every shard serves
				ctx, cancel := simulate.WithTimeout(ctx, 2*time.Second)
				w.check(n.Do(ctx, fmt.Sprint(i), nothing))
				cancel()
			}
		})
		w.pass(10 * time.Second)
		if h := w.nodes["c"].Health(); !h.Ready || h.FullyReplicated || len(h.UnderReplicated) != trialShards {
			t.Errorf("seed %d: health with two of three: %+v", seed, h)
		}
		if l.Err() != nil || l.Context().Err() != nil {
			t.Errorf("seed %d: the held lock after a has left: %v", seed, l.Err())
		}
		w.check(w.unlock("c", l, time.Second))
		if err := w.leave("b", 10*time.Second); err == nil {
			t.Errorf("seed %d: b leaves, and does not say that c waits for it", seed)
		}
		w.pass(5 * time.Second)
		w.at("c", func(ctx context.Context, n *mesh.Node) {
			ctx, cancel := simulate.WithTimeout(ctx, 10*time.Second)
			defer cancel()
			if err := n.Do(ctx, "k", nothing); !errors.Is(err, mesh.ErrNoQuorum) {
				t.Errorf("seed %d: the last one: %v, want ErrNoQuorum", seed, err)
			}
		})
		for _, host := range []string{"a", "b"} {
			w.Host(host).Crash()
			w.Host(host).Restart()
			w.Host(host).Go("join", func(ctx context.Context) { w.join(ctx, host) })
		}
		w.until("a and b are back", 20*time.Second, func() bool { return len(w.nodes) == 3 })
		w.at("c", func(ctx context.Context, n *mesh.Node) {
			ctx, cancel := simulate.WithTimeout(ctx, 20*time.Second)
			defer cancel()
			w.check(n.WaitHealthy(ctx))
			w.check(n.Do(ctx, "k", nothing))
		})
	}
}

// Promise: C4, G9: two of four entries leave, one after the other, two serve on, and then both are started again. That
// takes a roll call, for two of four decide nothing; but it binds them, and no more: no lock is lost, no key is
// quiet, and no shard begins anew.
func TestHalfOfTheCoreLeaves(t *testing.T) {
	for seed := range fewer[uint64](3, 8) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			w := newTrialOf(t, simulate.Options{Seed: seed, Profile: simulate.Flaky, Set: truthful()}, trialTTL, 4, trialShards)
			held := map[string]*mesh.Lock{"a": w.lock("a", "held by a"), "c": w.lock("c", "held by c")}
			for _, host := range []string{"b", "d"} {
				w.check(w.leave(host, 10*time.Second))
				w.serves("a")
			}
			w.Host("d").Crash()
			w.Host("d").Restart()
			w.Host("d").Go("join", func(ctx context.Context) { w.join(ctx, "d") })
			w.pass(time.Duration(1+seed) * time.Second) // it has no seat yet
			w.serves("c")
			w.restart("b", 30*time.Second)
			if until := w.nodes["a"].Health().QuietUntil; !until.IsZero() {
				t.Errorf("quiet until %v", until)
			}
			w.serves("a")
			w.until("d is back", 20*time.Second, func() bool { return len(w.nodes) == 4 })
			for _, host := range []string{"a", "c"} {
				if err := held[host].Err(); err != nil {
					t.Errorf("the lock on %s: %v", host, err)
				}
				w.check(w.unlock(host, held[host], time.Second))
			}
		})
	}
}

// serves: a node gets keys of all shards at once.
func (w *trial) serves(host string) {
	w.t.Helper()
	w.at(host, func(ctx context.Context, n *mesh.Node) {
		for i := range 4 * trialShards {
			ctx, cancel := simulate.WithTimeout(ctx, 2*time.Second)
			if err := n.Do(ctx, fmt.Sprint("any", i), nothing); err != nil {
				w.t.Errorf("at %v: %v", w.Now(), err)
			}
			cancel()
		}
	})
}

func TestLeaveWhileHolding(t *testing.T) {
	w := newTrial(t, simulate.Options{Seed: 21}, trialTTL, 3)
	key := w.ledBy("a")
	l := w.lock("a", key)
	kept := w.lock("a", "kept")
	var errs []error
	calls := 0
	w.begin("a", func(ctx context.Context, n *mesh.Node) { // a waiter of its own
		blocked, err := n.Lock(ctx, key)
		if blocked != nil {
			t.Error("a waiter of the leaver was granted")
		}
		errs = append(errs, err)
		calls++
	})
	next := w.begin("b", func(ctx context.Context, n *mesh.Node) {
		got, err := n.Lock(ctx, key)
		if err != nil {
			t.Errorf("a waiter elsewhere: %v", err)
			return
		}
		if at := w.Now(); l.Err() == nil || l.Context().Err() == nil {
			t.Errorf("granted at %v, while the leaver believes in it", at)
		}
		w.check(got.Unlock(ctx))
	})
	w.pass(200 * time.Millisecond)
	const patience = 2 * time.Second
	var lapsed time.Duration
	told := w.begin("a", func(ctx context.Context, _ *mesh.Node) {
		_ = simulate.Wait(ctx, l.Lost())
		lapsed = w.Now()
	})
	began := w.Now()
	w.at("a", func(ctx context.Context, n *mesh.Node) {
		w.begin("a", func(ctx context.Context, n *mesh.Node) { // while it leaves
			_ = simulate.Sleep(ctx, 100*time.Millisecond)
			_, err1 := n.Lock(ctx, "new")
			_, err2 := n.NewSession(ctx)
			errs = append(errs, err1, err2)
			calls++
			if n.Err() != nil || l.Err() != nil {
				t.Errorf("while it waits: node %v, lock %v", n.Err(), l.Err())
			}
			w.check(kept.Unlock(ctx)) // what is held can be unlocked
		})
		ctx, cancel := simulate.WithTimeout(ctx, patience)
		defer cancel()
		err := n.Leave(ctx)
		if err == nil {
			t.Error("Leave = nil, although a lock was held")
		}
		t.Log(err)
		w.between("Leave", w.Now()-began, patience, patience+8*time.Second)
	})
	told()
	w.between("the contexts ended", lapsed-began, patience, patience+200*time.Millisecond)
	next()
	w.between("the next had it", w.Now()-lapsed, sure(trialTTL)/2, trialTTL+2*time.Second)
	if calls != 2 || len(errs) != 3 {
		t.Fatalf("calls %d, errors %v", calls, errs)
	}
	for _, err := range errs {
		if !errors.Is(err, mesh.ErrClosed) {
			t.Errorf("a call of a node that leaves = %v, want ErrClosed", err)
		}
	}
	if err := l.Context().Err(); err == nil || !errors.Is(context.Cause(l.Context()), mesh.ErrLost) {
		t.Errorf("the context: %v, %v", err, context.Cause(l.Context()))
	}
}

func TestLeaveWaitsTwentySecondsForHolders(t *testing.T) {
	w := newTrial(t, simulate.Options{Seed: 22}, trialTTL, 3)
	w.lock("a", "k")
	began := w.Now()
	w.at("a", func(ctx context.Context, n *mesh.Node) {
		if err := n.Leave(ctx); err == nil {
			t.Error("Leave = nil, although a lock was held")
		}
	})
	w.between("Leave", w.Now()-began, 20*time.Second, 28*time.Second)
}

func TestLeaveHandsManyShardsOver(t *testing.T) {
	for _, size := range []int{3, 5}[:fewer(1, 2)] {
		w := newTrialOf(t, simulate.Options{Seed: 25}, trialTTL, size, 256)
		l := w.lock("b", w.ledBy("a"))
		if err := w.leave("a", 15*time.Second); err != nil {
			t.Errorf("of %d nodes: %v", size, err)
		}
		if size > 3 { // others take its place
			start := w.Now()
			w.at("b", func(ctx context.Context, n *mesh.Node) { w.check(n.WaitHealthy(ctx)) })
			t.Logf("of %d nodes: healthy %v later", size, w.Now()-start)
		}
		w.pass(5 * time.Second)
		if h := w.nodes["b"].Health(); !h.Ready {
			t.Errorf("of %d nodes: health %+v", size, h)
		}
		w.check(l.Err())
		w.check(w.unlock("b", l, time.Second))
	}
}

func TestLeaveOfACutOffNode(t *testing.T) {
	for _, cut := range []time.Duration{100 * time.Millisecond, 10 * time.Second, time.Minute} {
		w := newTrial(t, simulate.Options{Seed: 23}, trialTTL, 3)
		w.Net.Isolate("a")
		w.pass(cut)
		began := w.Now()
		if err := w.leave("a", 21*time.Second); err == nil {
			t.Errorf("cut off for %v: Leave = nil, although no node took over", cut)
		} else {
			t.Logf("after %v: %v", w.Now()-began, err)
		}
		w.at("b", func(ctx context.Context, n *mesh.Node) { w.check(n.Do(ctx, "k", nothing)) })
	}
}

func nothing(context.Context, *mesh.Lock) error { return nil }

func TestLeaveAndCloseAtOnce(t *testing.T) {
	w := newTrial(t, simulate.Options{Seed: 24}, trialTTL, 3)
	w.lock("a", "k")
	left := w.begin("a", func(ctx context.Context, n *mesh.Node) {
		if err := n.Leave(ctx); !errors.Is(err, mesh.ErrClosed) {
			t.Errorf("Leave of a node that is closed meanwhile = %v, want ErrClosed", err)
		}
	})
	w.pass(time.Second)
	w.at("a", func(ctx context.Context, n *mesh.Node) {
		if err := n.Leave(ctx); !errors.Is(err, mesh.ErrClosed) {
			t.Errorf("a second Leave = %v, want ErrClosed", err)
		}
		w.check(n.Close())
	})
	left()
	if err := w.nodes["a"].Err(); !errors.Is(err, mesh.ErrClosed) {
		t.Errorf("Err = %v, want ErrClosed", err)
	}
}
