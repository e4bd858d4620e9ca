package simulate_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/lockmesh/mesh/internal/bug"
	"github.com/lockmesh/mesh/internal/core"
	"github.com/lockmesh/mesh/internal/seam"
	"github.com/lockmesh/mesh/simulate"
	"github.com/lockmesh/mesh/transport"
)

const seedsTTL = 3 * time.Second

// fleet is a mesh of real nodes, one per host, and lockers on each.
type fleet struct {
	world   *simulate.World
	lockers *simulate.Lockers
	seeds   []string
	nodes   map[string]*core.Node
	crashed time.Duration // the last crash
}

func newFleet(opts simulate.Options, size int) *fleet {
	f := &fleet{world: simulate.New(opts), nodes: make(map[string]*core.Node)}
	for i := range size {
		name := string(rune('a' + i))
		f.world.Host(name)
		if i < 3 {
			f.seeds = append(f.seeds, name+":7400")
		}
	}
	f.lockers = &simulate.Lockers{TTL: seedsTTL, Join: f.join}
	return f
}

func (f *fleet) join(ctx context.Context, host string) (simulate.Client, error) {
	delete(f.nodes, host)
	n, err := core.Start(ctx, core.Config{
		World: seam.FromContext(ctx), Seeds: f.seeds, Name: host, Shards: 8, Replicas: 3, LeaseTTL: seedsTTL,
		Transport: transport.Config{Bind: ":7400"}, Logger: simulate.Logger(ctx),
	})
	if err != nil {
		return nil, err
	}
	f.nodes[host] = n
	return client{n}, nil
}

// mayCrash allows a crash only if every shard has all its replicas then, as every
// node that lives has heard, and the news of an earlier crash has had time to
// spread: so no shard's majority loses its memory. One crash may disturb the
// founding.
func (f *fleet) mayCrash(string) bool {
	switch now := f.world.Now(); {
	case f.crashed == 0 && now < 4*time.Second:
		f.crashed = now
		return true
	case now-f.crashed < 6*time.Second:
		return false
	}
	for _, h := range f.world.Hosts() {
		if n := f.nodes[h.Name()]; !h.Up() || n == nil || !n.Health().FullyReplicated {
			return false
		}
	}
	f.crashed = f.world.Now()
	return true
}

// run is one random world: its first failure, if any.
func (f *fleet) run(storm time.Duration) error {
	defer f.world.Close()
	return f.lockers.Run(f.world, simulate.ChaosOptions{For: storm, MayCrash: f.mayCrash})
}

// client makes a node a simulate.Client.
type client struct{ node *core.Node }

// handle makes a hold a simulate.Handle.
type handle struct {
	*core.Hold
	ctx context.Context
}

func (h handle) Context() context.Context { return h.ctx }

func (h handle) Unlock(ctx context.Context) error { return h.Release(ctx) }

func (c client) acquire(ctx context.Context, r core.Request) (simulate.Handle, error) {
	h, _, err := c.node.Session().Acquire(ctx, r)
	if err != nil {
		return nil, err
	}
	inner, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	h.OnEnd(cancel)
	return handle{h, inner}, nil
}

func (c client) Lock(ctx context.Context, key string) (simulate.Handle, error) {
	return c.acquire(ctx, core.Request{Key: key})
}

func (c client) TryLock(ctx context.Context, key string) (simulate.Handle, error) {
	return c.acquire(ctx, core.Request{Key: key, Try: true})
}

func (c client) RLock(ctx context.Context, key string) (simulate.Handle, error) {
	return c.acquire(ctx, core.Request{Key: key, Mode: core.Shared})
}

func (c client) Acquire(ctx context.Context, key string, n, capacity int64) (simulate.Handle, error) {
	return c.acquire(ctx, core.Request{Key: key, Mode: core.Permits, Weight: n, Capacity: capacity})
}

// runSeed runs the world of one seed: its size, its faults and its load.
func runSeed(seed uint64, bugs bug.Set, storm time.Duration, test string) (*fleet, error) {
	opts := simulate.RandomOptions(seed)
	opts.Bugs = bugs
	opts.Timeline = *simulate.SeedFlag != 0 && *simulate.SeedsFlag == 1
	opts.Repeat = fmt.Sprintf("go test ./simulate -run '^%s$' -seeds 1 -seed %d", test, seed)
	f := newFleet(opts, 3+int(seed%3))
	return f, f.run(storm)
}

// TestFreshSeeds runs worlds that nobody has seen before: real nodes, random
// faults, all checkers.
func TestFreshSeeds(t *testing.T) {
	first, n := *simulate.SeedFlag, *simulate.SeedsFlag
	if first == 0 {
		first = 1
	}
	if testing.Short() {
		n = min(n, 4)
	}
	start := time.Now()
	var virtual time.Duration
	grants, events := 0, uint64(0)
	for seed := first; seed < first+uint64(n); seed++ {
		f, err := runSeed(seed, 0, 40*time.Second, t.Name())
		if err != nil {
			if tl := f.world.Timeline(); tl != nil {
				t.Logf("\n%v", tl)
			}
			t.Fatal(err)
		}
		virtual += f.world.Now()
		grants += f.lockers.Grants()
		events += f.world.Events()
	}
	t.Logf("%d worlds, %v of virtual time in %v, %d events, %d grants", n, virtual, time.Since(start).Round(time.Millisecond), events, grants)
}
