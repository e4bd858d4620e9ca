package mesh_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/lockmesh/mesh"
	"github.com/lockmesh/mesh/internal/bridge"
	"github.com/lockmesh/mesh/internal/client"
	"github.com/lockmesh/mesh/internal/fault"
	"github.com/lockmesh/mesh/internal/visit"
	"github.com/lockmesh/mesh/ring"
	"github.com/lockmesh/mesh/shard"
	"github.com/lockmesh/mesh/simulate"
)

// breaking is a world with a client, x, which holds a key whose shard is led by a.
type breaking struct {
	*trial
	key  string
	held *mesh.Lock
}

const breakTTL = 5 * time.Second

func newBreaking(t *testing.T, seed uint64, opts ...mesh.LockOption) *breaking {
	w := &breaking{trial: newTrial(t, simulate.Options{Seed: seed}, breakTTL, 3)}
	w.Host("x").Go("join", func(ctx context.Context) { w.nodes["x"] = joinClient(ctx, w.trial) })
	w.until("a client has joined", time.Minute, func() bool { return w.nodes["x"] != nil })
	w.key = w.ledBy("a")
	w.held = w.lock("x", w.key, opts...)
	return w
}

// breaks begins a Break, and returns its result.
func (w *breaking) breaks(host string, token uint64) (err *error) {
	err = new(error)
	*err = errors.New("under way")
	w.begin(host, func(ctx context.Context, n *mesh.Node) { *err = n.Break(ctx, w.key, token, mesh.Because("a test")) })
	return err
}

// next begins a Lock by b, which waits.
func (w *breaking) next() (l **mesh.Lock) {
	l = new(*mesh.Lock)
	w.begin("b", func(ctx context.Context, n *mesh.Node) {
		got, err := n.Lock(ctx, w.key)
		w.check(err)
		*l = got
	})
	w.pass(time.Second)
	return l
}

// Promise: P49: a holder that is heard stops within a renewal, and the key is free when it unlocks. What else its session holds stays.
func TestALivingHolderIsBroken(t *testing.T) {
	for seed := range fewer[uint64](3, 10) {
		w := newBreaking(t, seed)
		other := w.lock("x", w.keyWhere(func(r []string) bool { return r[0] == "a" && w.key != "" })+"/other")
		next := w.next()
		began := w.Now()
		result := w.breaks("b", w.held.Token())
		ctx := w.held.Context()
		w.until("the holder hears of it", breakTTL/3+time.Second, func() bool { return ctx.Err() != nil })
		if cause := context.Cause(ctx); cause != mesh.ErrBroken || !errors.Is(cause, mesh.ErrLost) || w.held.Err() != mesh.ErrBroken {
			t.Errorf("seed %d: the holder is told %v and %v", seed, cause, w.held.Err())
		}
		select {
		case <-w.held.Lost():
		default:
			t.Errorf("seed %d: Lost is not closed", seed)
		}
		w.pass(time.Second)
		if *next != nil {
			t.Fatalf("seed %d: the next one has the key, and the holder has not unlocked", seed)
		}
		if err := w.unlock("x", w.held, time.Second); err != mesh.ErrBroken {
			t.Errorf("seed %d: Unlock returns %v", seed, err)
		}
		w.until("the next one has the key", time.Second, func() bool { return *next != nil })
		w.until("Break returns", 2*time.Second, func() bool { return *result == nil })
		if w.Now()-began >= breakTTL || (*next).Token() <= w.held.Token() || other.Err() != nil {
			t.Errorf("seed %d: after %v; token %d after %d; another lock of the session: %v", seed, w.Now()-began, (*next).Token(), w.held.Token(), other.Err())
		}
		if s := w.nodes["x"].Stats(); s.Broken != 1 || s.Losses != 0 {
			t.Errorf("seed %d: %+v", seed, s)
		}
		w.pass(2 * breakTTL)
		if other.Err() != nil {
			t.Errorf("seed %d: another lock of the session: %v", seed, other.Err())
		}
		w.check(w.unlock("x", other, time.Minute))
		w.check(w.unlock("b", *next, time.Minute))
		w.check(w.History().Quiet(3 * breakTTL))
	}
}

// Promise: P49: the key of a holder that hears of it, and never unlocks, is free a TTL later, and not before; and a second Break does not begin anew.
func TestABrokenHolderHangs(t *testing.T) {
	for seed := range fewer[uint64](3, 10) {
		w := newBreaking(t, seed)
		next := w.next()
		began := w.Now()
		result := w.breaks("b", w.held.Token())
		w.pass(breakTTL / 2)
		again := w.breaks("c", w.held.Token())
		w.at("a", func(ctx context.Context, n *mesh.Node) {
			k, err := n.Inspect(ctx, w.key)
			if w.check(err); len(k.Holders) != 1 || !k.Holders[0].Broken {
				t.Errorf("seed %d: Inspect tells %+v", seed, k.Holders)
			}
		})
		w.until("the next one has the key", breakTTL, func() bool { return *next != nil })
		w.between("free", w.Now()-began, breakTTL*99/100, breakTTL+time.Second)
		w.until("both calls return", 2*time.Second, func() bool { return *result == nil && *again == nil })
		w.pass(3 * breakTTL)
		w.at("x", func(ctx context.Context, n *mesh.Node) {
			if err := w.held.Unlock(ctx); err != mesh.ErrBroken {
				t.Errorf("seed %d: Unlock returns %v", seed, err)
			}
			if err := n.Break(ctx, w.key, w.held.Token()); !errors.Is(err, mesh.ErrNotHeld) {
				t.Errorf("seed %d: another Break returns %v", seed, err)
			}
		})
		w.check(w.unlock("b", *next, time.Minute))
		w.check(w.History().Quiet(3 * breakTTL))
	}
}

// Promise: P49: the key of a holder that is cut off is free once it does not believe in it any more.
func TestABrokenHolderIsCutOff(t *testing.T) {
	for seed := range fewer[uint64](3, 10) {
		w := newBreaking(t, seed)
		next := w.next()
		w.pass(time.Duration(seed) * 300 * time.Millisecond) // since its last renewal
		w.Net.Isolate("x")
		began := w.Now()
		result := w.breaks("b", w.held.Token())
		w.until("the next one has the key", breakTTL+2*time.Second, func() bool { return *next != nil })
		if w.Now()-began < breakTTL*6/10 || w.held.Err() == nil {
			t.Errorf("seed %d: after %v, the holder is told %v", seed, w.Now()-began, w.held.Err())
		}
		w.until("Break returns", 2*time.Second, func() bool { return *result == nil })
	}
}

// Promise: P49: the answers of a leader that was told of a Break may be under way when it dies. So the next one waits for a whole TTL, though the one before had
// waited already.
func TestALeaderDiesWhileItWaits(t *testing.T) {
	for seed := range fewer[uint64](3, 10) {
		for _, cut := range []bool{false, true} {
			w := newBreaking(t, seed)
			next := w.next()
			if cut {
				w.pass(time.Duration(seed) * 300 * time.Millisecond)
				w.Net.Isolate("x")
			}
			result := w.breaks("b", w.held.Token())
			w.pass(500 * time.Millisecond)
			killed := w.Now()
			w.Host("a").Crash()
			w.until("the next one has the key", breakTTL+5*time.Second, func() bool { return *next != nil })
			if !cut && w.Now()-killed < breakTTL {
				t.Errorf("seed %d: a new leader waits for %v only", seed, w.Now()-killed)
			}
			w.until("Break returns", 5*time.Second, func() bool { return *result == nil })
			if w.held.Err() == nil {
				t.Errorf("seed %d: the holder is not told", seed)
			}
		}
	}
}

// Promise: P49: a lock of fixed length is not extended any more, its holder hears of the Break though it asks nothing, and its end stays.
func TestALockOfFixedLengthIsBroken(t *testing.T) {
	for seed := range fewer[uint64](2, 10) {
		w := newBreaking(t, seed, mesh.MaxHold(4*time.Second))
		next := w.next()
		result := w.breaks("b", w.held.Token())
		w.until("the holder hears of it", 2*time.Second, func() bool { return w.held.Err() == mesh.ErrBroken })
		w.at("x", func(ctx context.Context, _ *mesh.Node) {
			if err := w.held.Extend(ctx, 5*time.Second); err != mesh.ErrBroken {
				t.Errorf("seed %d: Extend returns %v", seed, err)
			}
		})
		if *next != nil {
			t.Errorf("seed %d: the next one has the key", seed)
		}
		w.at("x", func(ctx context.Context, _ *mesh.Node) { _ = w.held.Unlock(ctx) })
		w.until("the next one has the key", time.Second, func() bool { return *next != nil && *result == nil })

		w = newBreaking(t, seed, mesh.MaxHold(4*time.Second))
		next, began := w.next(), w.Now()
		w.Net.Isolate("x")
		w.breaks("b", w.held.Token())
		w.until("the next one has the key", 5*time.Second, func() bool { return *next != nil })
		w.between("free at its end", w.Now()-began, 2*time.Second, 4500*time.Millisecond)
	}
}

// Promise: P49, C8: a Break goes on though the shard loses its table meanwhile.
func TestABreakOutlivesItsShard(t *testing.T) {
	for seed := range fewer[uint64](2, 10) {
		w := newBreaking(t, seed)
		result := w.breaks("x", w.held.Token())
		for _, host := range []string{"a", "b", "c"} { // before the Break is answered
			w.Host(host).Crash()
			w.Host(host).Restart()
			w.Host(host).Go("join", func(ctx context.Context) { w.join(ctx, host) })
		}
		w.until("the holder hears of it", time.Minute, func() bool { return w.held.Err() != nil })
		if w.held.Err() != mesh.ErrBroken || *result == nil {
			t.Errorf("seed %d: the holder is told %v, and Break has returned %v", seed, w.held.Err(), *result)
		}
		w.at("x", func(ctx context.Context, _ *mesh.Node) { _ = w.held.Unlock(ctx) })
		w.until("Break returns", 3*breakTTL, func() bool { return *result == nil })
	}
}

// Promise: P49, P42: a guest is told no lease from when one of its grants is broken until it has given that back, through whichever server; for it believes in all
// that it has. Nobody else has the key before, nor before its lease is over.
func TestAGuestIsBroken(t *testing.T) {
	for seed := range fewer[uint64](2, 10) {
		for _, end := range []string{"unlocks", "unlocks elsewhere", "renews without it", "never gives it back"} {
			w := &breaking{trial: newTrial(t, simulate.Options{Seed: seed}, breakTTL, 3)}
			home := ring.Shard("guest\x00gus", w.shards)
			var other string // in another shard, and neither is the guest's home
			for i := 0; w.key == "" || other == ""; i++ {
				switch key := fmt.Sprint("key", i); {
				case ring.Shard(key, w.shards) == home:
				case w.key == "":
					w.key = key
				case ring.Shard(key, w.shards) != ring.Shard(w.key, w.shards):
					other = key
				}
			}
			desks := make(map[string]*visit.Desk)
			ask := func(host, key string) (a visit.Answer, err error) {
				w.at(host, func(ctx context.Context, n *mesh.Node) {
					if desks[host] == nil {
						desks[host] = visit.New(bridge.NodeOf(n), visit.Config{TTL: func() (time.Duration, error) { return w.ttl, nil }, WithTimeout: simulate.WithTimeout})
					}
					a, err = desks[host].Ask(ctx, "gus", visit.Request{Request: client.Request{Key: key, Tag: "lock"}, Wait: time.Second})
				})
				return a, err
			}
			held, err := ask("a", w.key)
			w.check(err)
			kept, err := ask("a", other)
			w.check(err)
			told := w.Now()
			next := w.next()
			result := w.breaks("b", held.Token)
			w.pass(time.Second)
			server := "a"
			if end == "unlocks elsewhere" {
				server = "c"
			}
			for range 2 {
				a, err := ask(server, other)
				if err != nil || a.State != visit.Running || a.Token != kept.Token || a.Lease != 0 || len(a.Broken) != 1 || a.Broken[0] != (shard.Breach{Key: w.key, Token: held.Token}) {
					t.Errorf("seed %d, it %s: about another lock it is told %+v, %v", seed, end, a, err)
				}
			}
			if _, err := ask(server, w.key); !errors.Is(err, fault.ErrBroken) {
				t.Errorf("seed %d, it %s: about what is broken it is told %v", seed, end, err)
			}
			if *next != nil {
				t.Errorf("seed %d, it %s: the next one has the key", seed, end)
			}
			before := w.Now() - told
			w.at(server, func(ctx context.Context, _ *mesh.Node) {
				switch end {
				case "renews without it": // as a renewal does that was sent before it had the lock
					_, _, _, err := desks[server].Renew(ctx, "gus", []client.Request{{Key: other, Tag: "lock", Held: kept.Token}})
					w.check(err)
				case "never gives it back":
				default:
					q := visit.Request{Request: client.Request{Key: w.key, Tag: "lock"}}
					if _, err := desks[server].End(ctx, "gus", q, held.Token+1, false); errors.Is(err, fault.ErrBroken) || !errors.Is(err, fault.ErrLost) {
						t.Errorf("seed %d: what it does not hold it unlocks: %v", seed, err)
					}
					if _, err := desks[server].End(ctx, "gus", q, held.Token, false); !errors.Is(err, fault.ErrBroken) {
						t.Errorf("seed %d: it unlocks, and is told %v", seed, err)
					}
				}
			})
			gives := strings.HasPrefix(end, "unlocks")
			for !gives && *next == nil && w.Now()-told < 2*breakTTL { // its session lasts
				_, err := ask(server, other)
				w.check(err)
				w.pass(300 * time.Millisecond)
			}
			w.until("the next one has the key", breakTTL+time.Second, func() bool { return *next != nil })
			if late := w.Now() - told; !gives && late < breakTTL || gives && late > before+time.Second {
				t.Errorf("seed %d, it %s: the next one has the key after %v", seed, end, late)
			}
			w.until("Break returns", 2*time.Second, func() bool { return *result == nil })
			w.pass(time.Second)
			if a, err := ask(server, other); err != nil || a.State != visit.Running || a.Token != kept.Token || a.Lease == 0 || len(a.Broken) > 0 {
				t.Errorf("seed %d, it %s: afterwards, about another lock, it is told %+v, %v", seed, end, a, err)
			}
		}
	}
}
