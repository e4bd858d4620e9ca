package mesh_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/lockmesh/mesh"
	"github.com/lockmesh/mesh/ring"
	"github.com/lockmesh/mesh/simulate"
)

// inside lets a caller on a host wait for a key, inside of a lock. The result is what it has got, once it has got something.
func (w *trial) inside(host string, outer *mesh.Lock, key string, opts ...mesh.LockOption) (got *result) {
	got = &result{at: -1}
	w.begin(host, func(ctx context.Context, n *mesh.Node) {
		l, err := n.Lock(outer.WithContext(ctx), key, opts...)
		if got.at, got.err = w.Now(), err; err == nil {
			w.check(l.Unlock(ctx))
		}
		_ = outer.Unlock(ctx)
	})
	return got
}

// circleOf checks that an error is a deadlock, and returns its circle: "a k2 7, b k1 3".
func circleOf(t *testing.T, err error) (circle string) {
	t.Helper()
	var d *mesh.DeadlockError
	var wait *mesh.WaitError
	if !errors.As(err, &d) || !errors.Is(err, mesh.ErrDeadlock) || !errors.As(err, &wait) || wait.Key != d.Circle[0].Key {
		t.Errorf("%v", err)
		return ""
	}
	for i, c := range d.Circle {
		if i > 0 {
			circle += ", "
		}
		circle += fmt.Sprintf("%s %s %d", c.Node, c.Key, c.Token)
	}
	return circle
}

// Promise: P50: of callers of several nodes that wait for each other, one gives up, the youngest that wants to know, and the others go on. If
// nobody wants to know, they wait.
func TestACircleOfNodes(t *testing.T) {
	detect := mesh.DetectDeadlock()
	for seed := range fewer[uint64](3, 10) {
		w := newTrial(t, simulate.Options{Seed: seed}, 3*time.Second, 3)
		for _, tt := range []struct {
			name string
			opts map[string][]mesh.LockOption
			end  bool // somebody gives up
		}{
			{"all want to know", map[string][]mesh.LockOption{"a": {detect}, "b": {detect}, "c": {detect}}, true},
			{"one wants to know", map[string][]mesh.LockOption{"b": {detect}}, true},
			{"nobody wants to know", nil, false},
		} {
			keys, locks, got := map[string]string{}, map[string]*mesh.Lock{}, map[string]*result{}
			youngest := ""
			age := func(host string) []uint64 {
				return []uint64{locks[host].Token(), uint64(ring.Shard(keys[host], w.shards))}
			}
			for i, host := range hosts {
				keys[host] = fmt.Sprintf("%s/%d", tt.name, i)
				locks[host] = w.lock(host, keys[host])
				if tt.opts[host] != nil && (youngest == "" || slices.Compare(age(host), age(youngest)) > 0) {
					youngest = host
				}
			}
			next := map[string]string{"a": "b", "b": "c", "c": "a"}
			for _, host := range hosts {
				got[host] = w.inside(host, locks[host], keys[next[host]], tt.opts[host]...)
				w.pass(200 * time.Millisecond)
			}
			start := w.Now()
			w.pass(8 * time.Second)
			for _, host := range hosts {
				switch r := got[host]; {
				case !tt.end && r.at >= 0:
					t.Errorf("seed %d, %s: %s returns, %v", seed, tt.name, host, r.err)
				case tt.end && (r.at < 0 || (r.err != nil) != (host == youngest)):
					t.Errorf("seed %d, %s: %s at %v: %v; the youngest is %s", seed, tt.name, host, r.at, r.err, youngest)
				case r.err != nil:
					other, third := next[host], next[next[host]]
					want := fmt.Sprintf("%s %s %d, %s %s %d, %s %s %d", host, keys[other], locks[other].Token(), other, keys[third], locks[third].Token(), third, keys[host], locks[host].Token())
					if circle := circleOf(t, r.err); circle != want {
						t.Errorf("seed %d, %s: the circle is %q, want %q", seed, tt.name, circle, want)
					}
					w.between("a deadlock is found", r.at-start, 0, 5*time.Second)
				}
			}
		}
	}
}

// Promise: P50: a caller that waits for itself gives up, and so does a LockAll, with all that it holds so far. Whoever only waits long does not, and who
// gives up in time ends the circle.
func TestCirclesOfAllKinds(t *testing.T) {
	w := newTrial(t, simulate.Options{Seed: 1}, 3*time.Second, 3)
	w.at("a", func(ctx context.Context, n *mesh.Node) {
		outer, err := n.Lock(ctx, "self")
		w.check(err)
		s, err := n.NewSession(ctx)
		w.check(err)
		_, err = s.Lock(outer.WithContext(ctx), "self", mesh.DetectDeadlock()) // another session's lock excludes this one
		if got, want := circleOf(t, err), fmt.Sprintf("a self %d", outer.Token()); got != want || outer.Err() != nil {
			t.Errorf("%q, want %q; %v", got, want, outer.Err())
		}
		w.check(outer.Unlock(ctx))
	})

	held := w.lock("b", "k2")
	var set error
	all := w.begin("a", func(ctx context.Context, n *mesh.Node) {
		_, set = n.LockAll(ctx, []string{"k2", "k1"}, mesh.DetectDeadlock())
	})
	w.pass(100 * time.Millisecond)
	other := w.inside("b", held, "k1")
	all()
	circleOf(t, set)
	w.pass(time.Second)
	if other.at < 0 || !w.free("c", "k1") || !w.free("c", "k2") {
		t.Errorf("the other one has %v at %v, and the keys are not free", other.err, other.at)
	}

	long := w.lock("a", "long")
	waits := w.inside("b", w.lock("b", "k3"), "long", mesh.DetectDeadlock())
	w.pass(30 * time.Second)
	if waits.at >= 0 {
		t.Errorf("a call that waits long returns: %v", waits.err)
	}
	w.check(w.unlock("a", long, time.Second))
	w.pass(time.Second)
	if waits.at < 0 || waits.err != nil {
		t.Errorf("%v: %v", waits.at, waits.err)
	}
}

// Promise: P50: a node that has died waits for nobody: whoever waits for its lock, and would be in a circle with it, gets the lock when the
// lease is over.
func TestTheDeadAreInNoCircle(t *testing.T) {
	for seed := range fewer[uint64](4, 20) {
		w := newTrial(t, simulate.Options{Seed: seed}, 10*time.Second, 3)
		w.Host("x").Go("join", func(ctx context.Context) { w.nodes["x"] = joinClient(ctx, w) })
		w.until("a client has joined", time.Minute, func() bool { return w.nodes["x"] != nil })
		mine, its := w.lock("a", "mine"), w.lock("x", "its")
		w.inside("x", its, "mine")
		w.pass(time.Second)
		w.Host("x").PowerOff()
		w.pass(100 * time.Millisecond)
		got := w.inside("a", mine, "its", mesh.DetectDeadlock())
		w.pass(20 * time.Second)
		if got.at < 0 || got.err != nil {
			t.Errorf("seed %d: at %v: %v", seed, got.at, got.err)
		}
	}
}

// Promise: P50: the leader of one of the keys is killed between the two readings. Its successor tells of the same circle, once it has heard of those in
// it itself.
func TestALeaderDiesBetweenTheReadings(t *testing.T) {
	for seed := range fewer[uint64](3, 20) {
		w := newTrial(t, simulate.Options{Seed: seed}, 10*time.Second, 5)
		k1, k2 := w.ledBy("a"), w.ledBy("b")
		mine, its := w.lock("d", k1), w.lock("e", k2)
		one := w.inside("d", mine, k2, mesh.DetectDeadlock())
		other := w.inside("e", its, k1, mesh.DetectDeadlock())
		w.pass(1500 * time.Millisecond)
		w.Host("a").Crash()
		w.pass(time.Second)
		if one.at >= 0 || other.at >= 0 {
			t.Errorf("seed %d: they return before anybody was heard of again: %v, %v", seed, one.err, other.err)
		}
		w.pass(15 * time.Second)
		if one.at < 0 || other.at < 0 || (one.err == nil) == (other.err == nil) {
			t.Fatalf("seed %d: %v: %v; %v: %v", seed, one.at, one.err, other.at, other.err)
		}
		circleOf(t, cmp.Or(one.err, other.err))
	}
}

// span is a time in which a caller waits for a key, or holds it: from when it began to want it, or had it.
type span struct {
	host, key string
	caller    int
	token     uint64
	holds     bool
	from, to  time.Duration // to is negative while it lasts
}

// Promise: P50: each ErrDeadlock names a circle that there was at one moment, as the callers themselves know it, though nodes are killed and cut off, and
// leaders change; and where all want to know, nobody waits for ever.
func TestOnlyCirclesAreDeadlocks(t *testing.T) {
	found := 0
	for seed := range fewer[uint64](2, 60) {
		w := newTrial(t, simulate.Options{Seed: seed}, 3*time.Second, 5)
		chance := rand.New(rand.NewPCG(seed, 1))
		var spans []*span
		begin := func(s span) *span {
			s.from, s.to = w.Now(), -1
			spans = append(spans, &s)
			return &s
		}
		lasted := func(s *span, from, to time.Duration) (time.Duration, time.Duration) {
			if from = max(from, s.from); s.to >= 0 {
				to = min(to, s.to)
			}
			return from, to
		}
		judge := func(caller int, err error) {
			var d *mesh.DeadlockError
			if !errors.As(err, &d) {
				t.Errorf("seed %d: %v", seed, err)
				return
			}
			found++
			// Each call in the circle was one caller's, who held the lock that the one before waits for.
			var match func(i int, of *span, from, to time.Duration) bool
			match = func(i int, first *span, from, to time.Duration) bool {
				for _, wait := range spans {
					if wait.holds || wait.host != d.Circle[i].Node || wait.key != d.Circle[i].Key || i == 0 && wait.caller != caller {
						continue
					}
					f, u := lasted(wait, from, to)
					if i > 0 {
						held := false
						for _, h := range spans {
							if h.holds && h.key == d.Circle[i-1].Key && h.token == d.Circle[i-1].Token && h.caller == wait.caller {
								f, u = lasted(h, f, u)
								held = true
							}
						}
						if !held {
							continue
						}
					}
					if i == 0 {
						first = wait
					}
					if i < len(d.Circle)-1 {
						if match(i+1, first, f, u) {
							return true
						}
						continue
					}
					for _, h := range spans {
						if h.holds && h.key == d.Circle[i].Key && h.token == d.Circle[i].Token && h.caller == first.caller {
							if f, u := lasted(h, f, u); f <= u {
								return true
							}
						}
					}
				}
				return false
			}
			if !match(0, nil, 0, w.Now()) {
				t.Errorf("seed %d, at %v: there was no such circle: %v", seed, w.Now(), err)
			}
			d = &mesh.DeadlockError{Circle: slices.Clone(d.Circle)}
			d.Circle[0].Token++
			if match(0, nil, 0, w.Now()) {
				t.Errorf("seed %d: this test believes in a lock that nobody had", seed)
			}
		}
		quiet, over, callers := false, 0, 0
		caller := func(host string) {
			callers++
			me, chance := callers, rand.New(rand.NewPCG(seed, chance.Uint64()))
			w.Host(host).Go("caller", func(ctx context.Context) {
				n := w.nodes[host]
				for !quiet {
					in, depth := ctx, 1+chance.IntN(3)
					var locks []*mesh.Lock
					var held []*span
					for _, k := range chance.Perm(len(setKeys))[:depth] {
						waits := begin(span{host: host, key: setKeys[k], caller: me})
						l, err := n.Lock(in, setKeys[k], mesh.DetectDeadlock())
						waits.to = w.Now()
						if errors.Is(err, mesh.ErrDeadlock) {
							judge(me, err)
						}
						if err != nil {
							break
						}
						locks, held = append(locks, l), append(held, begin(span{host: host, key: setKeys[k], caller: me, token: l.Token(), holds: true}))
						in = l.WithContext(in)
						_ = simulate.Sleep(in, time.Duration(chance.IntN(30))*time.Millisecond)
					}
					for i := len(locks) - 1; i >= 0; i-- {
						held[i].to = w.Now()
						unlock, cancel := simulate.WithTimeout(ctx, time.Second)
						_ = locks[i].Unlock(unlock)
						cancel()
					}
					if n.Err() != nil {
						return
					}
					_ = simulate.Sleep(ctx, time.Duration(chance.IntN(200))*time.Millisecond)
				}
				over++
			})
		}
		for _, host := range []string{"a", "b", "c", "c", "d", "e"} {
			caller(host)
		}
		ends := func(host string) {
			for _, s := range spans {
				if s.host == host && s.to < 0 {
					s.to = w.Now()
				}
			}
		}
		for range 3 {
			w.pass(time.Duration(1000+chance.IntN(4000)) * time.Millisecond)
			w.Net.Isolate(string(rune('a' + chance.IntN(4))))
			w.pass(time.Duration(500+chance.IntN(5000)) * time.Millisecond)
			w.Net.Heal()
		}
		w.Host("e").Crash()
		ends("e")
		w.pass(10 * time.Second)
		quiet = true
		w.until("all callers have what they want", time.Minute, func() bool { return over == 5 })
	}
	if found == 0 {
		t.Error("there was no deadlock")
	}
	t.Logf("%d deadlocks", found)
}
