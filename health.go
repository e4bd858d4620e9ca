package mesh

import (
	"fmt"
	"time"
)

// Role is what a node is to the core of its mesh.
type Role uint8

// The roles. RoleUndecided becomes one of the others, and a client that is reached at an entry later is of the core
// from then on.
const (
	// RoleUndecided: the node has not been reached at its entry yet, or does not know yet whether it has one. It is
	// no client, and keeps nothing.
	RoleUndecided Role = iota
	// RoleCore: the node answers at an entry of the list. It votes, or is about to.
	RoleCore
	// RoleClient: the node answers at no entry.
	RoleClient
)

// String returns "undecided", "core" or "client".
func (r Role) String() string { return nameOf(r, "undecided", "core", "client") }

// MarshalText implements encoding.TextMarshaler, by String.
func (r Role) MarshalText() ([]byte, error) { return []byte(r.String()), nil }

// Phase is how far a mesh is in its life, as one of its nodes knows.
type Phase uint8

// The phases. If several fit, the first of them counts, but PhaseRecovering comes before PhaseQuiet and PhaseServing.
const (
	// PhaseWaiting: the node is in no mesh yet. It waits for entries that do not answer, perhaps its own, or,
	// as a client, for a mesh.
	PhaseWaiting Phase = iota
	// PhaseFounding: all entries answer, and the mesh is being founded; or the node has entered a mesh, and has not
	// caught up with it ([Health].Settled).
	PhaseFounding
	// PhaseQuiet: every shard has a leader, and some grant nothing yet: see [Health].QuietUntil.
	PhaseQuiet
	// PhaseServing: every shard has a leader, and grants.
	PhaseServing
	// PhaseRecovering: some shards have no leader that this node has heard of, or the core is deciding how the mesh
	// goes on. If it cannot, [Health].Waiting says who is missing.
	PhaseRecovering
)

// String returns "waiting", "founding", "quiet", "serving" or "recovering".
func (p Phase) String() string {
	return nameOf(p, "waiting", "founding", "quiet", "serving", "recovering")
}

// MarshalText implements encoding.TextMarshaler, by String.
func (p Phase) MarshalText() ([]byte, error) { return []byte(p.String()), nil }

func nameOf[T ~uint8](v T, names ...string) string {
	if int(v) < len(names) {
		return names[v]
	}
	return fmt.Sprint("unknown ", uint8(v))
}

// Waiting is an entry of the list that a node waits for.
type Waiting struct {
	Entry string    `json:"entry"`
	Since time.Time `json:"since"` // by this machine's time of day
	Why   string    `json:"why"`   // for people: for example, why the last dial failed
}

// Health is the state of a node, and of its mesh's shards as far as this node has heard. After the node has ended it is
// the last one, and not Ready.
type Health struct {
	Role  Role  `json:"role"`
	Phase Phase `json:"phase"`
	// Settled: this node has caught up with its mesh once, and stays so. A rolling restart waits for it, and a
	// readiness probe should ask for it: what is down elsewhere is no reason to take this process away.
	Settled bool `json:"settled"`
	// Ready: the node is Settled, and the phase is PhaseServing: all keys can be locked. It is false in quiet time, and
	// after Leave was called. It is not what probe.Ready answers: that is Settled.
	Ready bool `json:"ready"`
	// Unfounded: this node is reached at its entry and knows of no mesh, nor does any node that answers at another entry; and at
	// every entry that does not answer, the connection was refused, or its name does not exist: no process runs there. So the mesh will be
	// founded once those processes run: an ordered roll-out may start the next one. False while an entry may be cut off.
	Unfounded bool `json:"unfounded"`
	// SafeToStop: this node may end now, with or without Leave, and every shard keeps a majority of its voters. True
	// for a client, whose own locks then end with their leases. True for a node of the core only if it is Settled; every
	// shard has a leader; those of which it has a replica have all of their voters, at least three, in step; all nodes that
	// vote in any shard are connected with it; and neither it nor one of them leaves.
	// So it is never true in a core of one or two. False means that it is not known to be safe. Of several nodes
	// that are safe to stop one may be stopped; then ask the next one again.
	SafeToStop      bool  `json:"safeToStop"`
	FullyReplicated bool  `json:"fullyReplicated"` // NoMajority and UnderReplicated are empty, and every voter is connected to this node
	NoMajority      []int `json:"noMajority"`      // shards without a leader that this node has heard of
	// UnderReplicated are shards that have fewer up-to-date replicas than WithReplicas and the list allow, or
	// whose replicas are being moved or disagree.
	UnderReplicated []int `json:"underReplicated"`
	// Waiting are the entries that this node waits for, sorted: those of the list that do not answer, or do not count, as Why says. A
	// client that knows of a mesh which serves waits for none.
	Waiting []Waiting `json:"waiting"`
	// QuietUntil is when the last quiet shard is expected to grant (see [WithMaxTTL]), by this machine's wall clock.
	// Zero: this node has heard of no shard that is quiet.
	// Only a shard's leader knows. It tells every node to which it is connected, with replicas or without, at once, and
	// again and again: a node of the core about every second, a client every 5 s. A node believes what it heard last. A
	// time in the past means that the end is late, because a shard has no leader for example.
	QuietUntil time.Time `json:"quietUntil,omitzero"`
}
