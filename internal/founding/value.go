// Package founding says what nodes must agree on to be in one mesh: the parameters of the mesh, what a node asks for
// of them, and the list of entries.
package founding

import (
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/lockmesh/mesh/internal/fault"
	"github.com/lockmesh/mesh/transport"
)

// The defaults of a mesh, for what none of its first nodes asks for explicitly.
const (
	DefaultMeshName = "default"
	DefaultShards   = 16
	DefaultReplicas = 3
	DefaultLeaseTTL = 10 * time.Second
	DefaultMaxTTL   = 10 * time.Second // whatever the lease TTLs are
	DefaultRho      = 100              // the rate of each clock is within 1 % of the true one
)

// Params are what every member of a mesh has in common (P29). They stay as they are for as long as it lives, but for how
// long a lease may last, which a command may change (C5).
type Params struct {
	MeshName string
	Shards   int
	Replicas int
	MaxTTL   time.Duration // in force: for how long a lease may last that is taken, or renewed, now
	Rho      uint32        // the bound on clock rates, in 1/10000

	Raise   time.Duration // MaxTTL is to be raised to this, once all nodes that may remember the mesh know of it; zero: it is not
	Longest time.Duration // how long leases may last that were taken before MaxTTL was lowered; zero: those are over
	Changed bool          // MaxTTL was changed by a command: what options say of it does not count in this mesh any more
}

// Limit is for how long any lease may last that is taken, or renewed, from now on, also when a raise is in force.
func (p Params) Limit() time.Duration { return max(p.MaxTTL, p.Raise) }

// Outlast is for how long any lease may last that was ever taken in the mesh, and is not over.
func (p Params) Outlast() time.Duration { return max(p.Limit(), p.Longest) }

// Like reports whether two meshes have the same parameters, but for how long a lease may last.
func (p Params) Like(o Params) bool {
	return p.MeshName == o.MeshName && p.Shards == o.Shards && p.Replicas == o.Replicas && p.Rho == o.Rho
}

// Drift returns the bound on clock rates as a fraction: 0.01 means 1 %.
func (p Params) Drift() float64 { return float64(p.Rho) / 10000 }

// Voters returns how many voters each shard is to have, if the list has so many entries: as many as Replicas, but two
// at least, so that the end of one node loses nothing (C3), and one for each entry at most.
func (p Params) Voters(entries int) int { return min(max(p.Replicas, 2), entries) }

// Quiet is for how long a new table must grant nothing: by then every lease of an earlier one is over, whichever
// clocks measured the two (P27).
func (p Params) Quiet() time.Duration { return time.Duration(float64(p.Outlast()) * (1 + 2*p.Drift())) }

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
// with the option and both values, or nil. If a command has changed MaxTTL, WithMaxTTL says nothing of this mesh.
func (o Options) Fits(name string, p Params) error {
	if p.Changed {
		o.MaxTTL = 0
	}
	return o.Agrees(name, Options{
		MeshName: p.MeshName, Shards: p.Shards, Replicas: p.Replicas, MaxTTL: p.MaxTTL,
	}, fmt.Sprintf("mesh %q has", p.MeshName))
}

// Follows returns why a node called name, which is in a mesh, cannot go over to one with the parameters p, or nil. What it
// asks for by WithMaxTTL was for the mesh that it entered first: a command may have changed MaxTTL since, which this node
// need not have heard of, and the founders of the next mesh may have been started with the new value.
func (o Options) Follows(name string, p Params) error {
	o.MaxTTL = 0
	return o.Fits(name, p)
}

// Agrees returns the first contradiction between the explicit options o of the node called
// name and those of another node, or nil. The text has introduces the other node's value.
func (o Options) Agrees(name string, other Options, has string) error {
	differ := func(sentinel error, option string, mine, theirs any) error {
		return fmt.Errorf("%w: node %q asks for %s %v, %s %v", sentinel, name, option, mine, has, theirs)
	}
	switch {
	case o.MeshName != "" && other.MeshName != "" && o.MeshName != other.MeshName:
		return differ(fault.ErrForeignMesh, "the mesh name", strconv.Quote(o.MeshName), strconv.Quote(other.MeshName))
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

// CheckHello returns why two nodes may not talk at all, an error that wraps ErrForeignMesh: they ask for different
// mesh names. A node that asks for none talks to all.
func CheckHello(mine, theirs transport.Hello) error {
	if mine.MeshName != "" && theirs.MeshName != "" && mine.MeshName != theirs.MeshName {
		return fmt.Errorf("%w: node %q is for mesh %q, node %q at %s for mesh %q",
			fault.ErrForeignMesh, mine.Name, mine.MeshName, theirs.Name, theirs.Addr, theirs.MeshName)
	}
	return nil
}

// Normalise sorts entries and removes duplicates. Two are the same only if they are written alike.
func Normalise(list []string) []string {
	list = slices.Clone(list)
	slices.Sort(list)
	return slices.Compact(list)
}

// AllLoopback reports whether every entry is an address of this machine.
func AllLoopback(list []string) bool {
	return !slices.ContainsFunc(list, func(s string) bool {
		host := s[:max(0, strings.LastIndexByte(s, ':'))]
		host = strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
		if host == "localhost" {
			return false
		}
		a, err := netip.ParseAddr(host)
		return err != nil || !a.IsLoopback()
	})
}
