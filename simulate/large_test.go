package simulate_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/lockmesh/mesh"
	"github.com/lockmesh/mesh/simulate"
)

// Loads of thousands. Whatever costs the square of their number shows here as time: the
// watchdog of a world ends an event of a minute, and the tests' own are bounded.

// crowd is many callers that want one key each, once.
type crowd struct {
	stage          *stage
	let, failed    int
	unlocked, lost int
	leave          chan struct{} // closed: holders unlock
}

func (s *stage) crowd() *crowd { return &crowd{stage: s, leave: make(chan struct{})} }

// come lets n callers ask, in turn on each of hosts.
func (c *crowd) come(n int, take func(ctx context.Context, n *mesh.Node) (*mesh.Lock, error), hosts ...string) {
	for i := range n {
		host := hosts[i%len(hosts)]
		node := c.stage.nodes[host]
		c.stage.Host(host).Go("caller", func(ctx context.Context) {
			l, err := take(ctx, node)
			if err != nil {
				c.failed++
				return
			}
			c.let++
			if simulate.Wait(l.WithContext(ctx), c.leave) != nil {
				c.lost++
			}
			if l.Unlock(ctx) == nil {
				c.unlocked++
			}
		})
	}
}

// large is how many thousands there are in long tests; in others there are fewer.
func large(n int) int {
	if !*simulate.LongFlag {
		return n / 8
	}
	return n
}

// once plays a scenario with one seed, or with that of the flag.
func once(t *testing.T, sc scenario) {
	t.Helper()
	seed := max(*simulate.SeedFlag, 1)
	if err := sc.play(seed); err != nil {
		t.Fatalf("%v\nrepeat: go test ./simulate -run '^%s$' -seed %d", err, t.Name(), seed)
	}
}

// Promise: G3, G5 and G6, thousands of readers are let in together, keep their locks, and
// hold a writer up for no longer than they read.
// Method: they wait on two nodes behind a writer, and then before one. The leader crashes
// while they read.
func TestThousandsOfReaders(t *testing.T) {
	n := large(4000)
	once(t, scenario{clients: 3, story: func(s *stage) {
		read := func(ctx context.Context, n *mesh.Node) (*mesh.Lock, error) { return n.RLock(ctx, "k") }
		writer := s.lock(s.bob, "k")
		first, late := s.crowd(), s.crowd()
		first.come(n, read, s.ann, s.eve)
		s.sleep(2 * time.Second)
		writer.unlock()
		s.within(time.Second, "all readers are let in", func() bool { return first.let == n })
		next := s.ask(s.bob, "k")
		s.sleep(100 * time.Millisecond)
		late.come(n/8, read, s.ann, s.eve)
		s.Host(s.owner).Crash()
		s.sleep(2 * s.ttl)
		s.must(first.lost == 0, "G5 lease: %d readers lost their lock", first.lost)
		s.must(!next.answered() && late.let == 0, "G3: the writer is passed, or does not wait")
		close(first.leave)
		s.within(2*time.Second, "the writer gets its turn", next.holds)
		s.within(time.Second, "all readers have unlocked", func() bool { return first.unlocked == n })
		next.unlock()
		s.within(time.Second, "the late readers are let in", func() bool { return late.let == n/8 })
		close(late.leave)
		s.Host(s.owner).Restart()
	}})
}

// Promise: G3, G4 and G6, of thousands of permits each is given to one, and those that come
// back go to those that wait.
// Method: two nodes take all there are, one by one; as many callers wait, and half of these
// give up. One node's holders are lost with it.
func TestThousandsOfPermits(t *testing.T) {
	t.Parallel()
	n := large(4000)
	once(t, scenario{clients: 3, story: func(s *stage) {
		take := func(ctx context.Context, node *mesh.Node) (*mesh.Lock, error) {
			return node.Acquire(ctx, "k", 1, int64(n))
		}
		hasty := func(ctx context.Context, node *mesh.Node) (*mesh.Lock, error) {
			ctx, cancel := simulate.WithTimeout(ctx, s.draw(time.Second, 3*time.Second))
			defer cancel()
			return take(ctx, node)
		}
		first, second, none := s.crowd(), s.crowd(), s.crowd()
		first.come(n, take, s.ann, s.eve)
		s.within(2*time.Second, "all permits are taken", func() bool { return first.let == n })
		none.come(n/2, hasty, s.bob)
		second.come(n/2, take, s.bob)
		s.within(5*time.Second, "the hasty ones give up", func() bool { return none.failed == n/2 })
		s.must(second.let == 0, "G1: %d permits too many", second.let)
		s.Host(s.eve).Crash()
		s.within(s.ttl+3*time.Second, "the others have the permits of the dead", func() bool { return second.let == n/2 })
		s.must(first.lost == 0, "G5 lease: %d permits are lost", first.lost)
		close(first.leave)
		close(second.leave)
		s.within(2*time.Second, "all permits come back", func() bool { return first.unlocked == n/2 && second.unlocked == n/2 })
		whole := false
		s.on(s.ann, func(ctx context.Context, node *mesh.Node) {
			if l, err := node.Acquire(ctx, "k", int64(n), int64(n)); err == nil {
				whole = l.Unlock(ctx) == nil
			}
		})
		s.must(whole, "G4: a permit is missing")
		s.Host(s.eve).Restart()
	}})
}

// Promise: G3, G4 and G6, thousands who wait for one key get it one after the other, whoever
// gives up or leads meanwhile.
// Method: they wait on two nodes, and a fourth of them gives up; the leader crashes; the rest
// is served.
func TestThousandsOfWaiters(t *testing.T) {
	n := large(4000)
	once(t, scenario{clients: 3, story: func(s *stage) {
		holder := s.lock(s.bob, "k")
		patient, hasty := s.crowd(), s.crowd()
		close(patient.leave)
		patient.come(n*3/4, func(ctx context.Context, node *mesh.Node) (*mesh.Lock, error) { return node.Lock(ctx, "k") }, s.ann, s.eve)
		hasty.come(n/4, func(ctx context.Context, node *mesh.Node) (*mesh.Lock, error) {
			ctx, cancel := simulate.WithTimeout(ctx, s.draw(time.Second, 3*time.Second))
			defer cancel()
			return node.Lock(ctx, "k")
		}, s.ann, s.eve)
		s.within(4*time.Second, "the hasty ones give up", func() bool { return hasty.failed == n/4 })
		s.Host(s.owner).Crash()
		s.sleep(time.Second)
		s.must(patient.let == 0 && holder.holds(), "G1: somebody passes the holder")
		began := s.Now()
		holder.unlock()
		s.within(time.Duration(n)*5*time.Millisecond, "all others are served", func() bool { return patient.unlocked == n*3/4 })
		t.Logf("%v for each", (s.Now()-began)/time.Duration(n*3/4))
		s.Host(s.owner).Restart()
	}})
}

// Promise: G5, G6 and G9, a shard with 50,000 held keys moves to other nodes while locks go
// on, and nothing is lost.
// Method: one session of ann holds them all. The leader leaves, and its successor; spare nodes
// take their replicas. Then ann unlocks all.
func TestManyKeysMove(t *testing.T) {
	t.Parallel()
	keys := large(50_000)
	const holders = 100
	once(t, scenario{spares: 2, ttl: 10 * time.Second, story: func(s *stage) {
		held, gone, failed := 0, 0, 0
		over := make(chan struct{})
		for i := range holders {
			node := s.nodes[s.ann]
			s.Host(s.ann).Go("holder", func(ctx context.Context) {
				var locks []*mesh.Lock
				for k := range keys / holders {
					l, err := node.Lock(ctx, fmt.Sprint("key/", i, "/", k))
					if err != nil {
						failed++
						return
					}
					locks = append(locks, l)
					held++
				}
				_ = simulate.Wait(ctx, over)
				for _, l := range locks {
					if l.Unlock(ctx) != nil {
						failed++
					}
					gone++
				}
			})
		}
		s.within(5*time.Minute, "ann holds all keys", func() bool { return held == keys/holders*holders })
		pairs, worst := 0, time.Duration(0)
		for _, host := range []string{s.owner, s.heir} {
			for s.World.Host(host).Leave(); s.Host(host).Up(); {
				from := s.Now()
				s.lock(s.bob, "k").unlock()
				pairs, worst = pairs+1, max(worst, s.Now()-from)
			}
			delete(s.nodes, host)
		}
		s.within(10*time.Second, "the mesh is whole", s.healthy)
		s.sleep(2 * s.ttl)
		t.Logf("%d locks meanwhile, the slowest pair %v", pairs, worst)
		s.must(worst < time.Second, "G9: a lock took %v meanwhile", worst)
		close(over)
		s.within(5*time.Minute, "ann unlocks all", func() bool { return gone == held })
		s.must(failed == 0, "G5: %d of %d keys were lost", failed, keys)
	}})
}
