package mesh

import (
	"fmt"
	"time"

	"github.com/lockmesh/mesh/internal/env"
	"github.com/lockmesh/mesh/internal/node"
)

// Member is one node of the mesh, as the node that lists it knows it.
type Member struct {
	ID    string // of this incarnation: a restarted node has a new ID
	Name  string
	Addr  string // the host and port at which other nodes reach it
	Zone  string
	State MemberState
}

// MemberState is a member's state as gossip knows it. It may be late, and it may be wrong.
type MemberState string

// The states of a member.
const (
	MemberAlive MemberState = "alive"
	MemberDead  MemberState = "dead" // it does not answer
)

func memberOf(m node.Member) Member {
	state := MemberAlive
	if m.State == env.Dead {
		state = MemberDead
	}
	return Member{ID: fmt.Sprintf("%016x", uint64(m.ID)), Name: m.Name, Addr: m.Addr, Zone: m.Zone, State: state}
}

// Health is the state of the mesh's shards, as far as this node has heard.
type Health struct {
	// Settled: this node has caught up with its mesh once, and stays so. A rolling restart waits for it, and a
	// readiness probe should ask for it: what is down elsewhere is no reason to take this process away.
	Settled         bool
	Ready           bool  // Settled, and every shard has a leader that this node has heard of: all keys can be locked once no shard is quiet
	FullyReplicated bool  // both lists are empty, and every voter is connected to this node
	NoMajority      []int // shards without a leader that this node has heard of
	// UnderReplicated are shards that have fewer up-to-date replicas than WithReplicas and the list allow, or
	// whose replicas are being moved or disagree.
	UnderReplicated []int
	// QuietUntil is when the last quiet shard is expected to grant, by this machine's time of day: a new
	// mesh grants nothing at first, see WithMaxTTL. Zero: this node has heard of no shard that is quiet.
	// Only a shard's leader knows. It tells every node to which it is connected, with replicas or without,
	// at once and about every second; a node believes what it heard last. A time in the past means that the
	// end is late, because a shard has no leader for example.
	QuietUntil time.Time
}

// Stats are counters of one node since it joined.
type Stats struct {
	Acquires uint64 // calls of Lock, RLock, Acquire and the like that were sent
	Grants   uint64 // of these calls, the number that returned a lock
	Releases uint64 // confirmed releases
	Losses   uint64 // locks whose lease ended before Unlock, except those that reached the end of their MaxHold
	Retries  uint64 // commands that were sent again
	Renewals uint64 // lease renewals that were sent
	Entries  uint64 // log entries with commands that this node appended as a leader
	Commands uint64 // commands in them: Commands ÷ Entries is the mean batch
}
