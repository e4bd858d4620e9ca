// Package ring spreads shards over the entries of the core's list, its members: key → shard → owner and successors.
//
// It is pure: the same members give the same [Table] in any process, in whatever
// order they are given. A table is a hint for placement and routing, and decides
// nothing: which nodes vote in a shard is in the core's table.
package ring

import (
	"cmp"
	"slices"

	"github.com/buraksezer/consistent"
	"github.com/cespare/xxhash/v2"
)

// The constants of the ring. To change one moves shards in every mesh, and changes
// [Fingerprint].
const (
	points = 20   // of each member on the circle
	load   = 1.25 // a member owns at most so many times the average number of shards, rounded up
)

// Member is an entry of the core's list. Its name alone decides where on the ring it is, so a
// node that comes back at its entry gets its shards back.
type Member struct {
	Name string
	Zone string // members in one zone may fail together; the empty zone is one, too
}

// String returns the name: it is what consistent hashes.
func (m Member) String() string { return m.Name }

// Shard returns the shard of key, from 0 to shards-1. Shards below one count as one.
func Shard(key string, shards int) int {
	return int(xxhash.Sum64String(key) % uint64(max(shards, 1)))
}

// Table says who ought to hold each shard, for one list of members. It does not
// change; any goroutine may use it.
type Table struct {
	owners   []int32    // by shard, into replicas
	replicas [][]string // by owner
}

// New returns the table of members. Shards and replicas below one count as one. Of
// several members with one name, only that with the smallest zone counts.
//
// The cost grows faster than the members: see the benchmarks, and build off the
// hot path.
func New(members []Member, shards, replicas int) *Table {
	shards, replicas = max(shards, 1), max(replicas, 1)
	sorted := slices.Clone(members)
	slices.SortFunc(sorted, func(a, b Member) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Zone, b.Zone))
	})
	sorted = slices.CompactFunc(sorted, func(a, b Member) bool { return a.Name == b.Name })

	if len(sorted) == 0 {
		return &Table{}
	}
	t := &Table{owners: owners(sorted, shards)}
	t.replicas = successors(sorted, t.owners, min(replicas, len(sorted)))
	return t
}

// Replicas returns the owner of shard and after it its successors: as many
// distinct names as New was asked for, or fewer if there are fewer members; nil for
// a shard that the table does not have. The caller must not change them.
func (t *Table) Replicas(shard int) []string {
	if shard < 0 || shard >= len(t.owners) {
		return nil
	}
	return t.replicas[t.owners[shard]]
}

type hasher struct{}

func (hasher) Sum64(b []byte) uint64 { return xxhash.Sum64(b) }

// owners asks consistent for the owner of each shard. Its bound is
// ceil(load·shards/members) shards a member, at least one, so there is room for
// all of them however few the shards.
func owners(sorted []Member, shards int) []int32 {
	list := make([]consistent.Member, len(sorted))
	index := make(map[string]int32, len(sorted))
	for i, m := range sorted {
		list[i] = m
		index[m.Name] = int32(i)
	}
	c := consistent.New(list, consistent.Config{
		Hasher:            hasher{},
		PartitionCount:    shards,
		ReplicationFactor: points,
		Load:              load,
	})
	owners := make([]int32, shards)
	for shard := range owners {
		owners[shard] = index[c.GetPartitionOwner(shard).String()]
	}
	return owners
}

// successors gives each owner those that follow it in the order of consistent's
// GetClosestNForPartition: by the hash of the name, from the owner on. That function hashes and sorts all members at each call; this does it
// once.
//
// No zone gets a second replica while another one with a member to spare has none, nor a third while one has only one, and so on.
func successors(sorted []Member, owners []int32, replicas int) [][]string {
	type point struct {
		hash   uint64
		member int32
	}
	circle := make([]point, len(sorted))
	zones := make(map[string]int) // zone → its number
	zone := make([]int, len(sorted))
	for i, m := range sorted {
		circle[i] = point{xxhash.Sum64String(m.Name), int32(i)}
		z, ok := zones[m.Zone]
		if !ok {
			z = len(zones)
			zones[m.Zone] = z
		}
		zone[i] = z
	}
	slices.SortFunc(circle, func(a, b point) int {
		return cmp.Or(cmp.Compare(a.hash, b.hash), cmp.Compare(a.member, b.member))
	})
	at := make([]int, len(sorted)) // member → its place on the circle
	for i, p := range circle {
		at[p.member] = i
	}

	out := make([][]string, len(sorted))
	chosen := make([]int32, 0, replicas)
	count := make([]int, len(zones)) // replicas in a zone
	for _, owner := range owners {
		if out[owner] != nil {
			continue
		}
		chosen = chosen[:0]
		clear(count)
		for most := 1; len(chosen) < replicas; most++ {
			for i := 0; i < len(circle) && len(chosen) < replicas; i++ {
				m := circle[(at[owner]+i)%len(circle)].member
				if count[zone[m]] < most && !slices.Contains(chosen, m) {
					chosen = append(chosen, m)
					count[zone[m]]++
				}
			}
		}
		for _, m := range chosen {
			out[owner] = append(out[owner], sorted[m].Name)
		}
	}
	return out
}

// Fingerprint returns a hash over the tables of a fixed sample of members, and over
// the shards of a fixed sample of keys. Two nodes with the same fingerprint compute
// the same ring; it differs if a dependency of one of them computes another ring.
func Fingerprint() uint64 {
	digest := xxhash.New()
	write := func(b ...byte) { _, _ = digest.Write(b) } // never fails
	var members []Member
	for i := range byte(12) {
		members = append(members, Member{Name: "sample-" + string(rune('a'+i)), Zone: string(rune('x' + i%3))})
		write(byte(Shard(members[i].Name, 251)))
		t := New(members, 31, 3)
		for shard := range 31 {
			for _, name := range t.Replicas(shard) {
				write(name[len(name)-1])
			}
		}
	}
	return digest.Sum64()
}
