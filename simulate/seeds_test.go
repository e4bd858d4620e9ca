package simulate_test

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/lockmesh/mesh"
	"github.com/lockmesh/mesh/internal/bug"
	"github.com/lockmesh/mesh/simulate"
)

const seedsTTL = 3 * time.Second

// fleet is a mesh of real nodes, one per host, and lockers on each.
type fleet struct {
	world   *simulate.World
	lockers *simulate.Lockers
	seeds   []string
	crashed time.Duration // the last crash
}

func newFleet(opts simulate.Options, size int) *fleet {
	f := &fleet{world: simulate.New(opts)}
	for i := range size {
		name := string(rune('a' + i))
		f.world.Host(name)
		if i < 3 {
			f.seeds = append(f.seeds, name+":7400")
		}
	}
	f.lockers = &simulate.Lockers{TTL: seedsTTL, Join: f.join, Calls: fewestCalls}
	return f
}

func (f *fleet) join(ctx context.Context, host string) (simulate.Client, error) {
	ctx, cancel := simulate.WithTimeout(ctx, time.Hour)
	defer cancel()
	n, err := mesh.JoinContext(ctx, f.seeds, mesh.WithName(host), mesh.WithBind(":7400"),
		mesh.WithShards(8), mesh.WithLeaseTTL(seedsTTL), mesh.WithLogger(simulate.Logger(ctx)))
	if err != nil {
		return nil, err
	}
	return client{n}, nil
}

// mayCrash allows a crash only if every shard keeps a majority of its voters, and
// the last one was a while ago: a founder that has not heard of the founding yet is
// missing from what the others know.
func (f *fleet) mayCrash(host string) bool {
	now := f.world.Now()
	if f.crashed != 0 && now-f.crashed < 6*time.Second || !f.world.MaySpare(host) {
		return false
	}
	f.crashed = now
	return true
}

// run is one random world: its first failure, if any.
func (f *fleet) run(storm time.Duration) error {
	defer f.world.Close()
	return f.lockers.Run(f.world, simulate.ChaosOptions{For: storm, Least: fewestFaults, MayCrash: f.mayCrash})
}

// client makes a node a simulate.Client.
type client struct{ *mesh.Node }

func handleOf(l *mesh.Lock, err error) (simulate.Handle, error) {
	if err != nil {
		return nil, err
	}
	return l, nil
}

func (c client) Lock(ctx context.Context, key string) (simulate.Handle, error) {
	return handleOf(c.Node.Lock(ctx, key))
}

func (c client) TryLock(ctx context.Context, key string) (simulate.Handle, error) {
	return handleOf(c.Node.TryLock(ctx, key))
}

func (c client) RLock(ctx context.Context, key string) (simulate.Handle, error) {
	return handleOf(c.Node.RLock(ctx, key))
}

func (c client) Acquire(ctx context.Context, key string, n, capacity int64) (simulate.Handle, error) {
	return handleOf(c.Node.Acquire(ctx, key, n, capacity))
}

// runSeed runs the world of one seed: its size, its faults and its load.
func runSeed(seed uint64, b bug.Bug, storm time.Duration, test string) (*fleet, error) {
	opts := simulate.Options{Seed: seed, Profile: simulate.Flaky}
	opts.Bugs = bug.Of(b)
	opts.Timeline = *simulate.SeedFlag != 0 && *simulate.SeedsFlag == 1
	opts.Repeat = fmt.Sprintf("go test ./simulate -run '^%s$' -seeds 1 -seed %d", test, seed)
	f := newFleet(opts, 5)
	return f, f.run(storm)
}

// What every world of TestFreshSeeds must have come to, or it proves little.
const (
	fewestCalls  = 200
	fewestFaults = 5
)

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
	var mu sync.Mutex
	var virtual time.Duration
	grants, calls, faults, events, tame := 0, 0, 0, uint64(0), 0
	next := first
	var wg sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		wg.Go(func() {
			for {
				mu.Lock()
				seed := next
				next++
				mu.Unlock()
				if seed >= first+uint64(n) || t.Failed() {
					return
				}
				f, err := runSeed(seed, 0, 25*time.Second, t.Name())
				if err != nil {
					if tl := f.world.Timeline(); tl != nil {
						t.Logf("\n%v", tl)
					}
					t.Error(err)
					return
				}
				mu.Lock()
				begun, _ := f.world.History().Calls()
				virtual += f.world.Now()
				grants += f.lockers.Grants()
				calls += begun
				faults += f.lockers.Faults()
				events += f.world.Events()
				if begun < fewestCalls || f.lockers.Faults() < fewestFaults {
					tame++
					t.Logf("seed %d: %d calls, %d faults", seed, begun, f.lockers.Faults())
				}
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	t.Logf("%d worlds from seed %d, %v of virtual time in %v, %d events, %d faults, %d calls, %d grants, %d tame worlds",
		n, first, virtual, time.Since(start).Round(time.Millisecond), events, faults, calls, grants, tame)
	if tame > 0 {
		t.Errorf("%d worlds had fewer than %d calls or %d faults", tame, fewestCalls, fewestFaults)
	}
}
