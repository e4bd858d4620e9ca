package ring_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/buraksezer/consistent"
	"github.com/cespare/xxhash/v2"

	"github.com/lockmesh/mesh/ring"
)

func named(n int) []ring.Member {
	members := make([]ring.Member, n)
	for i := range members {
		members[i] = ring.Member{Name: fmt.Sprintf("app-%d:7411", i)}
	}
	return members
}

func zoned(n, zones int) []ring.Member {
	members := named(n)
	for i := range members {
		members[i].Zone = fmt.Sprintf("zone-%d", i%zones)
	}
	return members
}

// namesOf returns the members' names, sorted.
func namesOf(members []ring.Member) []string {
	var names []string
	for _, m := range members {
		names = append(names, m.Name)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// owner returns the shard's first replica.
func owner(t *ring.Table, shard int) string { return t.Replicas(shard)[0] }

var sizes = []struct{ members, shards, replicas int }{
	{1, 1, 1}, {1, 1, 7}, {1, 64, 3}, {2, 1, 3}, {2, 64, 3}, {3, 7, 3}, {3, 64, 3}, {3, 271, 3},
	{5, 64, 5}, {7, 64, 7}, {16, 2, 3}, {64, 64, 3}, {65, 64, 3}, {100, 1, 3}, {100, 64, 7},
}

func TestEveryShardHasDistinctReplicas(t *testing.T) {
	for _, s := range sizes {
		for _, members := range [][]ring.Member{named(s.members), zoned(s.members, 3)} {
			table := ring.New(members, s.shards, s.replicas)
			for shard := range s.shards {
				got := slices.Clone(table.Replicas(shard))
				if len(got) != min(s.replicas, s.members) {
					t.Fatalf("%+v: shard %d has replicas %q", s, shard, got)
				}
				slices.Sort(got)
				if len(slices.Compact(got)) != min(s.replicas, s.members) {
					t.Fatalf("%+v: shard %d has replicas %q", s, shard, table.Replicas(shard))
				}
				for _, name := range got {
					if _, found := slices.BinarySearch(namesOf(members), name); !found {
						t.Fatalf("%+v: shard %d has the replica %q, which is no member", s, shard, name)
					}
				}
			}
		}
	}
}

func TestAThousandMembersHaveATable(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds under the race detector")
	}
	table := ring.New(zoned(1000, 3), 64, 3)
	for shard := range 64 {
		if got := len(table.Replicas(shard)); got != 3 {
			t.Fatalf("shard %d has %d replicas", shard, got)
		}
	}
}

func TestOwnersStayBelowTheirBound(t *testing.T) {
	for _, s := range sizes {
		bound := int(math.Ceil(float64(s.shards) / float64(s.members) * 1.25))
		table := ring.New(named(s.members), s.shards, s.replicas)
		owned := make(map[string]int)
		for shard := range s.shards {
			owned[owner(table, shard)]++
		}
		for name, n := range owned {
			if n > bound {
				t.Errorf("%+v: %s owns %d shards, bound %d", s, name, n, bound)
			}
		}
	}
}

func TestAnyOrderOfArrivalGivesTheSameTable(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for _, n := range []int{2, 3, 10, 100} {
		members := zoned(n, 4)
		want := ring.New(members, 64, 3)
		for range 5 {
			random.Shuffle(n, func(i, j int) { members[i], members[j] = members[j], members[i] })
			given := slices.Clone(members)
			if got := ring.New(members, 64, 3); !equal(got, want) {
				t.Fatalf("%d members in another order give another table", n)
			}
			if !slices.Equal(members, given) {
				t.Fatal("New changed its argument")
			}
		}
	}
}

func equal(a, b *ring.Table) bool {
	for shard := range 64 {
		if !slices.Equal(a.Replicas(shard), b.Replicas(shard)) {
			return false
		}
	}
	return true
}

// One member of n owns about shards/n. When it comes or goes that many must move,
// and bounded loads push some further ones aside.
func TestOneMemberMoreOrLessMovesFewShards(t *testing.T) {
	const shards = 64
	for _, n := range []int{3, 5, 10, 30, 100} {
		members := named(n + 1)
		with := ring.New(members, shards, 3)
		worst, sum := 0, 0
		tries := min(len(members), 20)
		for gone := range tries {
			without := ring.New(slices.Delete(slices.Clone(members), gone, gone+1), shards, 3)
			moved := 0
			for shard := range shards {
				if owner(with, shard) != owner(without, shard) {
					moved++
				}
			}
			sum += moved
			worst = max(worst, moved)
		}
		share := float64(shards) / float64(n)
		mean := float64(sum) / float64(tries)
		t.Logf("%d members ± 1: %.1f of %d shards change owner, at worst %d", n, mean, shards, worst)
		if mean > 2*share+2 || float64(worst) > 3*share+6 {
			t.Errorf("%d members ± 1: %.1f of %d shards change owner, at worst %d: too many", n, mean, shards, worst)
		}
	}
}

type hasher struct{}

func (hasher) Sum64(b []byte) uint64 { return xxhash.Sum64(b) }

func TestReplicasAreInTheOrderOfGetClosestN(t *testing.T) {
	for _, s := range sizes {
		list := make([]consistent.Member, s.members)
		for i, m := range named(s.members) {
			list[i] = m
		}
		slices.SortFunc(list, func(a, b consistent.Member) int {
			if a.String() < b.String() {
				return -1
			}
			return 1
		})
		c := consistent.New(list, consistent.Config{
			Hasher: hasher{}, PartitionCount: s.shards, ReplicationFactor: 20, Load: 1.25,
		})
		table := ring.New(named(s.members), s.shards, s.replicas)
		for shard := range s.shards {
			closest, err := c.GetClosestNForPartition(shard, min(s.replicas, s.members))
			if err != nil {
				t.Fatal(err)
			}
			for i, name := range table.Replicas(shard) {
				if name != closest[i].String() {
					t.Fatalf("%+v: shard %d has replicas %q, GetClosestNForPartition says %v", s, shard, table.Replicas(shard), closest)
				}
			}
		}
		for key := range 100 {
			key := fmt.Sprint(key)
			if got, want := ring.Shard(key, s.shards), c.FindPartitionID([]byte(key)); got != want {
				t.Fatalf("Shard(%q, %d) = %d, FindPartitionID says %d", key, s.shards, got, want)
			}
		}
	}
}

func TestReplicasSpreadOverZones(t *testing.T) {
	tests := []struct {
		name           string
		zones          []string // of the members
		replicas, most int      // most replicas in one zone
	}{
		{"three zones, a replica in each", []string{"a", "a", "a", "b", "b", "c"}, 3, 1},
		{"two zones, none has all", []string{"a", "a", "a", "a", "b"}, 3, 2},
		{"five replicas in three zones, no zone has a majority", []string{"a", "a", "a", "a", "b", "b", "c", "c"}, 5, 2},
		{"one zone", []string{"a", "a", "a", "a"}, 3, 3},
		{"no zones", []string{"", "", "", ""}, 3, 3},
		{"no zone counts as one", []string{"", "", "", "b", "c"}, 3, 1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			members := named(len(tt.zones))
			zone := make(map[string]string)
			for i := range members {
				members[i].Zone = tt.zones[i]
				zone[members[i].Name] = tt.zones[i]
			}
			table := ring.New(members, 64, tt.replicas)
			plain := ring.New(named(len(tt.zones)), 64, tt.replicas)
			for shard := range 64 {
				count := make(map[string]int)
				for _, name := range table.Replicas(shard) {
					if count[zone[name]]++; count[zone[name]] > tt.most {
						t.Fatalf("shard %d has replicas %q, more than %d in zone %q", shard, table.Replicas(shard), tt.most, zone[name])
					}
				}
				if owner(table, shard) != owner(plain, shard) {
					t.Fatalf("shard %d is owned by %s, without zones by %s", shard, owner(table, shard), owner(plain, shard))
				}
			}
		})
	}
}

func TestOddInputIsTakenCalmly(t *testing.T) {
	tests := []struct {
		name             string
		members          []ring.Member
		shards, replicas int
		want             []string // of shard 0
	}{
		{"no members", nil, 64, 3, nil},
		{"no shards", named(1), 0, 3, []string{"app-0:7411"}},
		{"fewer than no shards", named(1), -5, 3, []string{"app-0:7411"}},
		{"no replicas", named(1), 64, 0, []string{"app-0:7411"}},
		{"a name twice", append(named(1), named(1)...), 64, 3, []string{"app-0:7411"}},
		{"an empty name", []ring.Member{{}}, 64, 3, []string{""}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			table := ring.New(tt.members, tt.shards, tt.replicas)
			if got := table.Replicas(0); !slices.Equal(got, tt.want) {
				t.Errorf("Replicas(0) = %q, want %q", got, tt.want)
			}
			for _, shard := range []int{-1, 64, math.MaxInt, math.MinInt} {
				if table.Replicas(shard) != nil {
					t.Errorf("Replicas(%d) = %q, want nobody", shard, table.Replicas(shard))
				}
			}
		})
	}
	if got := ring.Shard("a", 0); got != 0 {
		t.Errorf("Shard with no shards = %d, want 0", got)
	}
}

func FuzzNew(f *testing.F) {
	f.Add("a,b,c", 64, 3)
	f.Add(",,", -1, 9)
	f.Fuzz(func(t *testing.T, names string, shards, replicas int) {
		var members []ring.Member
		for i, r := range names {
			members = append(members, ring.Member{Name: string(r), Zone: string(rune('a' + i%3))})
			if len(members) == 50 {
				break
			}
		}
		shards %= 500
		table := ring.New(members, shards, replicas)
		for shard := range max(shards, 1) {
			if got := len(table.Replicas(shard)); got != min(max(replicas, 1), len(namesOf(members))) {
				t.Fatalf("shard %d has %d replicas", shard, got)
			}
		}
	})
}

// The fingerprint travels in handshakes. It may change only with a deliberate change
// of the ring, which moves shards in every mesh.
func TestFingerprint(t *testing.T) {
	const want = 0x3c42cb6185a09966
	if got := ring.Fingerprint(); got != want {
		t.Errorf("Fingerprint() = %#x, want %#x: the ring has changed", got, uint64(want))
	}
}

// Without zones, a ring that wants more replicas has those of one that wants fewer, and further ones.
func TestMoreReplicasFollowTheOthers(t *testing.T) {
	few, many := ring.New(named(10), 64, 3), ring.New(named(10), 64, 10)
	for shard := range 64 {
		if got := many.Replicas(shard); !slices.Equal(few.Replicas(shard), got[:3]) {
			t.Fatalf("shard %d: %q, want those that %q begins with", shard, few.Replicas(shard), got)
		}
	}
}
