package founding

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/lockmesh/mesh/internal/env"
	"github.com/lockmesh/mesh/internal/fault"
	"github.com/lockmesh/mesh/transport"
)

// The defaults of a mesh, for what no founder asks for explicitly.
const (
	DefaultMeshName = "default"
	DefaultShards   = 16
	DefaultReplicas = 3
	DefaultLeaseTTL = 10 * time.Second
	DefaultMaxTTL   = 10 * time.Second // whatever the lease TTLs are
	DefaultRho      = 100              // clock rates differ by at most 1 %
)

// Member is one node of a mesh.
type Member = env.Member

// Params are what every member of a mesh has in common for as long as it lives (P29).
type Params struct {
	MeshName string
	Shards   int
	Replicas int
	MaxTTL   time.Duration
	Rho      uint32 // the bound on clock rates, in 1/10000
}

// Mesh is the founding value: the founders agree on it, and a joiner adopts it.
type Mesh struct {
	// MeshID names the mesh: random, never zero.
	MeshID uint64

	// Epoch counts the rosters of this founding, from 1. It is above 1 only if a founder was
	// replaced by a new incarnation after some founder had accepted a value and before all knew
	// the decision. Then the survivors and the successor of the dead founder are the founders,
	// and all that the dead founder may have done alone is void. Of two values with one MeshID
	// the one with the larger Epoch counts; tables and raft messages of a smaller one are
	// dropped. Shards begin in the generation Epoch.
	Epoch uint64

	Params Params

	// Founded is the founding time in ms since 1970 (P17): the largest of the
	// founders' clocks and of every token floor that they know.
	Founded uint64

	// Grace means that tables grant nothing for MaxTTL·(1+2ρ), so that every lock of an
	// earlier mesh has ended (P27).
	Grace bool

	// Roster lists the founders, sorted by name. Every shard's first voters are computed
	// from it (P26).
	Roster []Member
}

// Drift returns the bound on clock rates as a fraction: 0.01 means 1 %.
func (p Params) Drift() float64 { return float64(p.Rho) / 10000 }

// Quiet is for how long a new table must grant nothing: by then every lease of an earlier one is over, whichever
// clocks measured the two (P27).
func (p Params) Quiet() time.Duration { return time.Duration(float64(p.MaxTTL) * (1 + 2*p.Drift())) }

// founder reports whether id is in the roster.
func (v *Mesh) founder(id transport.ID) bool {
	return slices.ContainsFunc(v.Roster, func(m Member) bool { return m.ID == id })
}

// ids returns the roster's node IDs, sorted.
func (v *Mesh) ids() []transport.ID {
	ids := make([]transport.ID, 0, len(v.Roster))
	for _, m := range v.Roster {
		ids = append(ids, m.ID)
	}
	slices.Sort(ids)
	return ids
}

// Options are the parameters that a node asks for explicitly; zero means the mesh's
// value.
type Options struct {
	MeshName string
	Shards   int
	Replicas int
	MaxTTL   time.Duration
	LeaseTTL time.Duration // not a parameter of the mesh, but bounded by MaxTTL
}

// Fits returns why a node called name cannot be part of a mesh with the parameters p,
// with the option and both values, or nil.
func (o Options) Fits(name string, p Params) error {
	return o.Agrees(name, Options{
		MeshName: p.MeshName, Shards: p.Shards, Replicas: p.Replicas, MaxTTL: p.MaxTTL,
	}, fmt.Sprintf("mesh %q has", p.MeshName))
}

// Agrees returns the first contradiction between the explicit options o of the node called
// name and those of another node, or nil. The text has introduces the other node's value.
func (o Options) Agrees(name string, other Options, has string) error {
	differ := func(sentinel error, option string, mine, theirs any) error {
		return fmt.Errorf("%w: node %q asks for %s %v, %s %v", sentinel, name, option, mine, has, theirs)
	}
	switch {
	case o.MeshName != "" && other.MeshName != "" && o.MeshName != other.MeshName:
		return differ(fault.ErrForeignMesh, "the mesh name", quoted(o.MeshName), quoted(other.MeshName))
	case o.Shards != 0 && other.Shards != 0 && o.Shards != other.Shards:
		return differ(fault.ErrInvalidOption, "WithShards", o.Shards, other.Shards)
	case o.Replicas != 0 && other.Replicas != 0 && o.Replicas != other.Replicas:
		return differ(fault.ErrInvalidOption, "WithReplicas", o.Replicas, other.Replicas)
	case o.MaxTTL != 0 && other.MaxTTL != 0 && o.MaxTTL != other.MaxTTL:
		return differ(fault.ErrInvalidOption, "WithMaxTTL", o.MaxTTL, other.MaxTTL)
	case o.LeaseTTL != 0 && other.MaxTTL != 0 && o.LeaseTTL > other.MaxTTL:
		return differ(fault.ErrInvalidOption, "WithLeaseTTL", o.LeaseTTL, fmt.Sprintf("WithMaxTTL %v", other.MaxTTL))
	}
	return nil
}

func quoted(s string) string { return fmt.Sprintf("%q", s) }

// params returns the parameters of a mesh that nodes with these options found, or the
// first contradiction among them. Package mesh checks that no node's own lease TTL exceeds its own
// MaxTTL, or the default of it.
func params(cards []card) (Params, error) {
	p := Params{Rho: DefaultRho}
	for i, c := range cards {
		for _, d := range cards[:i] {
			for _, pair := range [2][2]card{{c, d}, {d, c}} {
				if err := pair[0].Wants.Agrees(pair[0].Name, pair[1].Wants, fmt.Sprintf("node %q", pair[1].Name)); err != nil {
					return Params{}, err
				}
			}
		}
		w := c.Wants
		p.MeshName = cmp.Or(p.MeshName, w.MeshName)
		p.Shards = cmp.Or(p.Shards, w.Shards)
		p.Replicas = cmp.Or(p.Replicas, w.Replicas)
		p.MaxTTL = cmp.Or(p.MaxTTL, w.MaxTTL)
	}
	p.MeshName = cmp.Or(p.MeshName, DefaultMeshName)
	p.Shards = cmp.Or(p.Shards, DefaultShards)
	p.Replicas = cmp.Or(p.Replicas, DefaultReplicas)
	p.MaxTTL = cmp.Or(p.MaxTTL, DefaultMaxTTL)
	return p, nil
}

// CheckHello checks whether two nodes may talk at all. If they belong to two meshes, or ask
// for different mesh names, it returns an error that wraps ErrForeignMesh and names both. A
// node that is in no mesh yet may talk to every node whose mesh name does not differ from the
// one that it asks for; if it asks for none, to all.
func CheckHello(mine, theirs transport.Hello) error {
	if mine.MeshName != "" && theirs.MeshName != "" && mine.MeshName != theirs.MeshName {
		return fmt.Errorf("%w: node %q is for mesh %q, node %q at %s for mesh %q",
			fault.ErrForeignMesh, mine.Name, mine.MeshName, theirs.Name, theirs.Addr, theirs.MeshName)
	}
	if mine.MeshID != 0 && theirs.MeshID != 0 && mine.MeshID != theirs.MeshID {
		return fmt.Errorf("%w: node %q is in mesh %q (%016x), node %q at %s in mesh %q (%016x)",
			fault.ErrForeignMesh, mine.Name, mine.MeshName, mine.MeshID,
			theirs.Name, theirs.Addr, theirs.MeshName, theirs.MeshID)
	}
	return nil
}

// Normalise sorts seeds and removes duplicates. Two seeds are the same only if they
// are written alike.
func Normalise(seeds []string) []string {
	seeds = slices.Clone(seeds)
	slices.Sort(seeds)
	return slices.Compact(seeds)
}

// AllLoopback reports whether every seed is an address of this machine.
func AllLoopback(seeds []string) bool {
	return !slices.ContainsFunc(seeds, func(s string) bool {
		host := s[:max(0, strings.LastIndexByte(s, ':'))]
		host = strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
		if host == "localhost" {
			return false
		}
		a, err := netip.ParseAddr(host)
		return err != nil || !a.IsLoopback()
	})
}

// Listen returns how long a founder listens for a living mesh before it takes part
// in a founding with these seeds.
//
// The members of a living mesh, all together, contact each seed that is not a member once in
// [ContactEvery] on average, at random moments (see members.Machine); and each of them redials
// the members whose connections broke. Listen is twice that average. So one founder alone may
// hear of no mesh in that time; but a founding needs every listed seed, and a founder that
// has heard of a mesh refuses. Where every seed is a loopback address, nothing is lost between
// the nodes and contact costs nothing. There, members contact a seed about ten times a second,
// and a founder on a developer's machine waits for 300 ms.
func Listen(seeds []string) time.Duration {
	if AllLoopback(seeds) {
		return 300 * time.Millisecond
	}
	return 2 * time.Second
}

// ContactEvery returns how often, on average, the members of a mesh, all together, are to contact
// each seed that is not a member, for [Listen] to be long enough.
func ContactEvery(seeds []string) time.Duration {
	if AllLoopback(seeds) {
		return 100 * time.Millisecond
	}
	return time.Second
}
