package mesh_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/lockmesh/mesh"
	"github.com/lockmesh/mesh/simulate"
)

// atOnce is how long nodes that nothing ails take at most to say and to hear something.
const atOnce = 200 * time.Millisecond

// ends returns when the locks of a set end, by its holder's time of day. They must end together.
func ends(t *testing.T, set *mesh.LockSet, keys ...string) (end time.Time) {
	t.Helper()
	for i, key := range keys {
		switch d := set.Lock(key).Deadline(); {
		case i == 0:
			end = d
		case d.Sub(end).Abs() > time.Microsecond: // each is counted from its own look at the clocks
			t.Errorf("%q ends at %v, and %q at %v", keys[0], end, key, d)
		}
	}
	return end
}

// Promise: P36: with MaxHold, the locks of a set are renewed until the last key is there, however long that takes, and then end together. The session
// lives on, and no loss is counted.
func TestASetEndsByItself(t *testing.T) {
	const ttl, hold = 3 * time.Second, time.Second
	for seed := range fewer[uint64](3, 20) {
		w := newTrial(t, simulate.Options{Seed: seed}, ttl, 3)
		slow := w.lock("a", "k3")
		keys := []string{"k1", "k2", "k3", "k4"}
		var set *mesh.LockSet
		var s *mesh.Session
		var came time.Duration
		got := w.begin("b", func(ctx context.Context, n *mesh.Node) {
			var err error
			s, err = n.NewSession(ctx)
			w.check(err)
			set, err = s.LockAll(ctx, keys, mesh.MaxHold(hold))
			w.check(err)
			came = simulate.Now(ctx)
		})
		w.pass(2 * ttl)
		if w.free("c", "k1") {
			t.Errorf("seed %d: while another key is waited for, k1 is free", seed)
		}
		w.check(w.unlock("a", slow, time.Second))
		given := w.Now()
		if got(); set == nil {
			t.Fatalf("seed %d: there is no set", seed)
		}
		w.at("b", func(ctx context.Context, n *mesh.Node) {
			if left := ends(t, set, keys...).Sub(simulate.Wall(ctx)); left > hold || left < hold*9/10-(came-given)-atOnce {
				t.Errorf("seed %d: the set lasts for %v when LockAll has returned, %v after the last key was given back, want %v", seed, left, came-given, hold)
			}
			held := set.Context()
			if err := simulate.Sleep(held, 2*hold); err == nil || context.Cause(held) != mesh.ErrLost {
				t.Errorf("seed %d: the set's context: %v, %v", seed, err, context.Cause(held))
			}
			for _, key := range keys {
				if err := set.Lock(key).Err(); err != mesh.ErrLost {
					t.Errorf("seed %d: %q after the end: %v", seed, key, err)
				}
			}
			if err := set.Unlock(ctx); err != mesh.ErrLost || s.Err() != nil || n.Stats().Losses != 0 {
				t.Errorf("seed %d: Unlock: %v; the session: %v; %d losses", seed, err, s.Err(), n.Stats().Losses)
			}
		})
		w.pass(atOnce)
		for _, key := range keys {
			if !w.free("c", key) {
				t.Errorf("seed %d: %q is not free after its end", seed, key)
			}
		}
	}
}

// Promise: P36: callers that take overlapping sets with MaxHold, and do not give all back, do not keep each other waiting; and each set is held until
// its end. Nodes are killed and cut off meanwhile; then sets end early, and nothing is left behind.
func TestSetsThatEndByThemselves(t *testing.T) {
	const ttl = 3 * time.Second
	for seed := range fewer[uint64](3, 30) {
		w := newTrial(t, simulate.Options{Seed: seed}, ttl, 5)
		taken, over, quiet, ails := 0, 0, false, false
		caller := func(host string, chance *rand.Rand) {
			w.Host(host).Go("caller", func(ctx context.Context) {
				n := w.nodes[host]
				for !quiet {
					var keys []string
					for _, k := range chance.Perm(len(setKeys))[:1+chance.IntN(4)] {
						keys = append(keys, setKeys[k])
					}
					hold := time.Duration(300+chance.IntN(400)) * time.Millisecond
					wait, cancel := simulate.WithTimeout(ctx, 10*ttl)
					set, err := n.LockAll(wait, keys, mesh.MaxHold(hold))
					cancel()
					switch {
					case errors.Is(err, mesh.ErrClosed):
						return
					case errors.Is(err, mesh.ErrLost):
						continue
					case err != nil:
						t.Errorf("seed %d: %s takes %q: %v", seed, host, keys, err)
						return
					}
					taken++
					ends(t, set, keys...)
					began, healthy := simulate.Now(ctx), !ails
					if chance.IntN(2) == 0 {
						_ = simulate.Sleep(set.Context(), hold/4)
						unlock, cancel := simulate.WithTimeout(ctx, time.Second)
						_ = set.Unlock(unlock)
						cancel()
						continue
					}
					_ = simulate.Sleep(set.Context(), 2*hold)
					if lasted := simulate.Now(ctx) - began; lasted > hold+atOnce || healthy && !ails && lasted < hold*9/10-atOnce {
						t.Errorf("seed %d: on %s a set with a MaxHold of %v was held for %v", seed, host, hold, lasted)
					}
				}
				over++
			})
		}
		chance := rand.New(rand.NewPCG(seed, 1))
		for _, host := range []string{"a", "b", "c", "c", "e"} {
			caller(host, rand.New(rand.NewPCG(seed, chance.Uint64())))
		}
		w.pass(4 * time.Second)
		ails = true
		w.Host("e").Crash()
		w.pass(time.Second)
		w.Net.Isolate("b")
		w.pass(5 * time.Second)
		w.Net.Heal()
		w.pass(5 * time.Second)
		ails = false
		before := taken
		w.pass(4 * time.Second)
		if taken < before+5 {
			t.Errorf("seed %d: %d sets were taken, and %d more in 4 s", seed, before, taken-before)
		}
		quiet = true
		w.until("all callers have what they want", time.Minute, func() bool { return over == 4 })
		w.pass(time.Second)
		for _, key := range setKeys {
			if !w.free("d", key) {
				t.Errorf("seed %d: %q is not free after all", seed, key)
			}
		}
	}
}

// Promise: P36: a caller that is cut off when the last key comes, or gives up then, has all locks of the set, or none: nothing is left behind.
func TestASetFailsAtItsLastGrant(t *testing.T) {
	const ttl = 3 * time.Second
	keys := []string{"k1", "k2", "k3"}
	sets, errs := 0, 0
	for seed := range fewer[uint64](12, 60) {
		w := newTrial(t, simulate.Options{Seed: seed}, ttl, 3)
		slow := w.lock("a", "k3")
		cut, when := seed%3 > 0, time.Duration(seed%12)*200*time.Microsecond // after the last key is given back
		var set *mesh.LockSet
		over := false
		w.begin("b", func(ctx context.Context, n *mesh.Node) {
			wait, cancel := ctx, func() {}
			if !cut {
				wait, cancel = simulate.WithTimeout(ctx, time.Second+when)
			}
			defer cancel()
			var err error
			switch set, err = n.LockAll(wait, keys, mesh.MaxHold(ttl)); {
			case err == nil:
				sets++
				w.check(set.Err())
				ends(t, set, keys...)
			case errors.Is(err, mesh.ErrLost) == cut:
				errs++
			default:
				t.Errorf("seed %d: cut off: %t, and LockAll returns %v", seed, cut, err)
			}
			over = true
		})
		w.pass(time.Second)
		w.begin("a", func(ctx context.Context, _ *mesh.Node) { _ = slow.Unlock(ctx) })
		if w.pass(when); cut {
			w.Net.Isolate("b")
		}
		w.until("LockAll returns", ttl+time.Second, func() bool { return over })
		if w.Net.Heal(); cut || set != nil {
			w.pass(ttl + time.Second) // another leader may give each lease its time anew
		}
		w.pass(atOnce)
		for _, key := range keys {
			if !w.free("c", key) {
				t.Errorf("seed %d: %q is not free after all", seed, key)
			}
		}
	}
	if t.Logf("%d sets, and %d errors", sets, errs); sets == 0 || errs == 0 {
		t.Errorf("%d sets, and %d errors: want both", sets, errs)
	}
}
