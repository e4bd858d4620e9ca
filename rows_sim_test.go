package mesh_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lockmesh/mesh"
	"github.com/lockmesh/mesh/ring"
	"github.com/lockmesh/mesh/simulate"
)

// ofShard returns a key of a shard, of so many, whose name begins with this.
func ofShard(name string, shard, shards int) string {
	for ring.Shard(name, shards) != shard {
		name += "!"
	}
	return name
}

// grants are those of a free key, which a host locks and unlocks again and again.
type grants struct{ last, longest time.Duration }

// locks lets a host lock a key and unlock it until the world ends.
func (f *liveFleet) locks(host, key string) *grants {
	g := &grants{}
	f.w.Host(host).Go(key, func(ctx context.Context) {
		g.last = simulate.Now(ctx)
		for simulate.Sleep(ctx, 50*time.Millisecond) == nil {
			if err := f.nodes[host].Do(ctx, key, nothing); err != nil {
				if ctx.Err() == nil {
					f.w.Fail(err)
				}
				return
			}
			now := simulate.Now(ctx)
			g.last, g.longest = now, max(g.longest, now-g.last)
		}
	})
	return g
}

// Promise: C7, C8, and ARCHITECTURE's table of failures: two of five are killed together and started again. Shards of which a majority lives
// do not pause, with five replicas none does. In the others, holders keep their locks, with their tokens, and free keys are
// granted once the quiet time is over, and not before.
func TestTwoOfFiveAreKilled(t *testing.T) {
	const (
		shards = 16
		pause  = 2 * time.Second // for elections
		away   = 500 * time.Millisecond
		call   = 100 * time.Millisecond   // from one lock to the next
		quiet  = 10200 * time.Millisecond // of the default MaxTTL
	)
	for _, replicas := range []int{3, 5} {
		for seed := uint64(1); seed <= fewer[uint64](1, 4); seed++ {
			w := simulate.New(simulate.Options{Seed: seed})
			hosts := []string{"a", "b", "c", "d", "e"}
			f := newLiveFleetOf(t, w, []mesh.Option{mesh.WithShards(shards), mesh.WithReplicas(replicas), mesh.WithMaxTTL(10 * time.Second)}, hosts...)
			var entries []ring.Member
			for _, h := range hosts {
				entries = append(entries, ring.Member{Name: h + ":7300"})
			}
			placed := ring.New(entries, shards, replicas)
			f.start("x", hosts, mesh.WithClientOnly())
			f.must(10*time.Second, "ready", func() bool { return f.ready("x") })
			var held []*mesh.Lock
			var tokens []uint64
			f.w.Host("x").Go("holder", func(ctx context.Context) {
				for sh := range shards {
					l, err := f.nodes["x"].Lock(ctx, ofShard("held", sh, shards))
					if err != nil {
						f.w.Fail(err)
						return
					}
					held, tokens = append(held, l), append(tokens, l.Token())
				}
			})
			f.must(20*time.Second, "held", func() bool { return len(held) == shards })
			var free []*grants
			for sh := range shards {
				free = append(free, f.locks("x", ofShard("free", sh, shards)))
			}
			run := func(d time.Duration) {
				if err := w.Run(d); err != nil {
					t.Fatal(err)
				}
			}
			run(2 * time.Second)
			for _, g := range free {
				g.longest = 0
			}
			f.restart("a", away)
			f.restart("b", away)
			run(25 * time.Second)
			lossy := 0
			var longest time.Duration
			for sh, g := range free {
				voters := placed.Replicas(sh)
				dead := slices.DeleteFunc(slices.Clone(voters), func(e string) bool { return !strings.HasPrefix(e, "a:") && !strings.HasPrefix(e, "b:") })
				g.longest = max(g.longest, w.Now()-g.last)
				switch {
				case 2*len(dead) < len(voters):
					if longest = max(longest, g.longest); g.longest > pause {
						t.Errorf("%d replicas, seed %d: shard %d, of whose voters %v live most, pauses for %v", replicas, seed, sh, voters, g.longest)
					}
				default:
					if lossy++; g.longest < quiet || g.longest > away+quiet+time.Second+call {
						t.Errorf("%d replicas, seed %d: shard %d begins again with a pause of %v, want %v, and at most a second more after they are back", replicas, seed, sh, g.longest, quiet)
					}
				}
			}
			for sh, l := range held {
				if l.Err() != nil || l.Token() != tokens[sh] {
					t.Errorf("%d replicas, seed %d: the holder in shard %d has token %d, and had %d: %v", replicas, seed, sh, l.Token(), tokens[sh], l.Err())
				}
			}
			if (lossy > 0) != (replicas == 3) || lossy == shards {
				t.Errorf("%d replicas, seed %d: %d shards begin again", replicas, seed, lossy)
			}
			t.Logf("%d replicas: %d shards begin again; the others pause for %v", replicas, lossy, longest.Round(time.Millisecond))
			w.Close()
		}
	}
}
