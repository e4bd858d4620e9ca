package mesh_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/lockmesh/mesh"
	"github.com/lockmesh/mesh/ring"
	"github.com/lockmesh/mesh/simulate"
)

// setKeys are keys of several shards.
var setKeys = []string{"k0", "k1", "k2", "k3", "k4", "k5"}

// Promise: P36: callers that take overlapping sets, some inside of a lock, and others that take one key, never wait in a circle; and no
// key has two holders, which every simulation judges. Nodes are killed and cut off meanwhile.
func TestSetsNeverWaitInACircle(t *testing.T) {
	for seed := range fewer[uint64](4, 40) {
		w := newTrial(t, simulate.Options{Seed: seed}, 3*time.Second, 5)
		taken, over, quiet := 0, 0, false
		caller := func(host string, chance *rand.Rand) {
			w.Host(host).Go("caller", func(ctx context.Context) {
				n := w.nodes[host]
				for !quiet {
					keys := chance.Perm(len(setKeys))[:1+chance.IntN(4)]
					var names []string
					for _, k := range keys {
						names = append(names, setKeys[k])
					}
					in, outer := ctx, (*mesh.Lock)(nil)
					if chance.IntN(3) == 0 {
						var err error
						if outer, err = n.Lock(ctx, names[0]); err != nil {
							return // its node has ended
						}
						in = outer.WithContext(ctx)
					}
					set, err := n.LockAll(in, names)
					switch {
					case err == nil:
						taken++
						_ = simulate.Sleep(set.Context(), time.Duration(chance.IntN(50))*time.Millisecond)
						unlock, cancel := simulate.WithTimeout(ctx, time.Second)
						_ = set.Unlock(unlock)
						cancel()
					case errors.Is(err, mesh.ErrClosed):
						return
					case !errors.Is(err, mesh.ErrSelfDeadlock) && !errors.Is(err, mesh.ErrLost) && !errors.Is(err, context.Canceled):
						t.Errorf("seed %d: %s takes %q: %v", seed, host, names, err)
					}
					if outer != nil {
						_ = outer.Unlock(ctx)
					}
				}
				over++
			})
		}
		chance := rand.New(rand.NewPCG(seed, 1))
		for _, host := range []string{"a", "b", "c", "c"} {
			caller(host, rand.New(rand.NewPCG(seed, chance.Uint64())))
		}
		caller("e", rand.New(rand.NewPCG(seed, chance.Uint64())))
		w.pass(2 * time.Second)
		w.Host("e").Crash()
		w.pass(time.Second)
		w.Net.Isolate("b")
		w.pass(5 * time.Second)
		w.Net.Heal()
		w.pass(5 * time.Second)
		before := taken
		w.pass(2 * time.Second)
		if taken < before+5 {
			t.Errorf("seed %d: %d sets were taken, and %d more in 2 s", seed, before, taken-before)
		}
		quiet = true
		w.until("all callers have what they want", time.Minute, func() bool { return over == 4 })
		w.at("d", func(ctx context.Context, n *mesh.Node) {
			for _, key := range setKeys {
				if l, err := n.TryLock(ctx, key); err != nil {
					t.Errorf("seed %d: %q is not free after all: %v", seed, key, err)
				} else {
					w.check(l.Unlock(ctx))
				}
			}
		})
	}
}

// Promise: P36: a caller holds k1 and asks for a set of k2, while another one asks for both. Whoever enters all queues at once, and keeps
// its places, waits for ever here.
func TestASetInsideOfALock(t *testing.T) {
	for seed := range fewer[uint64](3, 20) {
		w := newTrial(t, simulate.Options{Seed: seed}, 3*time.Second, 3)
		k2 := w.lock("c", "k2")
		done := 0
		first := w.lock("a", "k1")
		both := w.begin("b", func(ctx context.Context, n *mesh.Node) {
			set, err := n.LockAll(ctx, []string{"k1", "k2"})
			if w.check(err); err == nil {
				w.check(set.Unlock(ctx))
			}
			done++
		})
		w.pass(200 * time.Millisecond) // it waits for k1, and has no place in the queue of k2
		inside := w.begin("a", func(ctx context.Context, n *mesh.Node) {
			set, err := n.LockAll(first.WithContext(ctx), []string{"k2", "k3"})
			if w.check(err); err == nil {
				w.check(set.Unlock(ctx))
			}
			w.check(first.Unlock(ctx))
			done++
		})
		w.pass(200 * time.Millisecond)
		w.check(w.unlock("c", k2, time.Second))
		inside()
		both()
		if done != 2 {
			t.Errorf("seed %d: %d of 2 callers are through", seed, done)
		}
	}
}

// Promise: P36: while a caller waits for a key, it holds none that comes after it.
func TestASetWaitsWithoutLaterKeys(t *testing.T) {
	w := newTrial(t, simulate.Options{Seed: 1}, 3*time.Second, 3)
	l := w.lock("a", "k3")
	got := w.begin("b", func(ctx context.Context, n *mesh.Node) {
		set, err := n.LockAll(ctx, []string{"k5", "k4", "k3", "k2", "k1"})
		if w.check(err); err == nil {
			w.check(set.Unlock(ctx))
		}
	})
	w.pass(500 * time.Millisecond)
	for key, free := range map[string]bool{"k1": false, "k2": false, "k3": false, "k4": true, "k5": true} {
		if w.free("c", key) != free {
			t.Errorf("%q, while k3 is waited for: free %v, want %v", key, !free, free)
		}
	}
	w.check(w.unlock("a", l, time.Second))
	got()
}

// Promise: P36: on any error nothing is held when LockAll returns: neither what it has taken, nor a place in a queue.
func TestASetOnAnError(t *testing.T) {
	w := newTrial(t, simulate.Options{Seed: 1}, 3*time.Second, 3)
	rest := func(text string) {
		t.Helper()
		for _, key := range []string{"k1", "k2", "k4", "k5"} {
			if !w.free("c", key) {
				t.Errorf("%s: %q is not free", text, key)
			}
		}
	}
	l := w.lock("a", "k3")
	for name, end := range map[string]error{"a deadline": context.DeadlineExceeded, "a capacity": mesh.ErrCapacityMismatch, "a session": mesh.ErrClosed} {
		w.at("b", func(ctx context.Context, n *mesh.Node) {
			s, err := n.NewSession(ctx)
			w.check(err)
			keys := []string{"k1", "k2", "k3", "k4", "k5"}
			switch end {
			case context.DeadlineExceeded:
				var cancel context.CancelFunc
				ctx, cancel = simulate.WithTimeout(ctx, 300*time.Millisecond)
				defer cancel()
			case mesh.ErrCapacityMismatch:
				p, err := n.Acquire(ctx, "k6", 1, 2)
				w.check(err)
				defer func() { w.check(p.Unlock(ctx)) }()
				keys = append(keys, "k6")
			default:
				simulate.Go(ctx, "close", func(ctx context.Context) {
					_ = simulate.Sleep(ctx, 300*time.Millisecond)
					w.check(s.Close(ctx))
				})
			}
			set, err := s.LockAll(ctx, keys)
			if set != nil || !errors.Is(err, end) {
				t.Errorf("%s: %v, %v", name, set, err)
			}
		})
		w.pass(10 * time.Millisecond) // a release is sent, and perhaps not waited for
		rest(name)
	}

	// What is held while others are waited for is lost with its lease. Then nothing is waited for any more.
	lost := w.begin("b", func(ctx context.Context, n *mesh.Node) {
		s, err := n.NewSession(ctx)
		w.check(err)
		simulate.Go(ctx, "abandon", func(ctx context.Context) {
			_ = simulate.Sleep(ctx, 300*time.Millisecond)
			s.Abandon()
		})
		if set, err := s.LockAll(ctx, []string{"k1", "k3"}); set != nil || !errors.Is(err, mesh.ErrLost) {
			t.Errorf("a session that is lost: %v, %v", set, err)
		}
	})
	lost()
	w.pass(4 * time.Second)
	rest("a loss")
	w.check(w.unlock("a", l, time.Second))
	if !w.free("c", "k3") {
		t.Error("a place in a queue is left behind")
	}
}

// Promise: P36: who loses a key that it holds hears so at once, though it still waits for another one.
func TestASetLosesAKeyWhileItWaits(t *testing.T) {
	w := newTrial(t, simulate.Options{Seed: 1}, 3*time.Second, 3)
	l := w.lock("a", "k3")
	over := false
	w.begin("b", func(ctx context.Context, n *mesh.Node) {
		if set, err := n.LockAll(ctx, []string{"k1", "k3"}); set != nil || !errors.Is(err, mesh.ErrLost) {
			t.Errorf("a set whose key is lost: %v, %v", set, err)
		}
		over = true
	})
	w.pass(500 * time.Millisecond)
	w.Net.Isolate("b")
	w.pass(4 * time.Second)
	if !over {
		t.Error("LockAll waits on, and what it held is lost")
	}
	w.Net.Heal()
	w.pass(4 * time.Second)
	w.check(w.unlock("a", l, time.Second))
	w.pass(100 * time.Millisecond)
	for _, key := range []string{"k1", "k3"} {
		if !w.free("c", key) {
			t.Errorf("%q is not free after all", key)
		}
	}
}

// TestWhatASetCosts compares LockAll of ten free keys, in several shards, with Lock of one: it takes about as long, and all requests for keys of one
// shard are one log entry.
func TestWhatASetCosts(t *testing.T) {
	const rounds = 20
	w := newTrial(t, simulate.Options{Seed: 1}, 3*time.Second, 3)
	var keys []string
	shards := make(map[int]bool)
	for i := range 10 {
		keys = append(keys, fmt.Sprint("key", i))
		shards[ring.Shard(keys[i], w.shards)] = true
	}
	entries := func() (count uint64) {
		w.pass(time.Second) // they are counted once in a while
		for _, n := range w.nodes {
			count += n.Stats().Entries
		}
		return count
	}
	var one, ten time.Duration
	before := entries()
	w.at("b", func(ctx context.Context, n *mesh.Node) {
		for range rounds {
			start := simulate.Now(ctx)
			l, err := n.Lock(ctx, w.ledBy("a"))
			w.check(err)
			one = max(one, simulate.Now(ctx)-start)
			w.check(l.Unlock(ctx))
			start = simulate.Now(ctx)
			set, err := n.LockAll(ctx, keys)
			w.check(err)
			ten = max(ten, simulate.Now(ctx)-start)
			w.check(set.Unlock(ctx))
		}
	})
	if t.Logf("one key: %v, ten: %v", one, ten); ten > one*3/2 {
		t.Errorf("ten keys take %v, and one %v", ten, one)
	}
	if got, want := entries()-before, uint64(2*rounds*(1+len(shards))); got != want {
		t.Errorf("%d log entries for %d times one key, and ten keys in %d shards, want %d", got, rounds, len(shards), want)
	}
}
