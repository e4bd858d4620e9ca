package mesh

import (
	"fmt"

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

// MemberState is what the node that lists a member believes of that member. It may be late, and it may be wrong.
type MemberState string

// The states of a member.
const (
	MemberAlive MemberState = "alive"
	MemberDead  MemberState = "dead" // it does not answer, or no node of the core is connected with it
)

func memberOf(m node.Member) Member {
	state := MemberAlive
	if m.State == env.Dead {
		state = MemberDead
	}
	return Member{ID: fmt.Sprintf("%016x", uint64(m.ID)), Name: m.Name, Addr: m.Addr, Zone: m.Zone, State: state}
}

// Stats are counters of one node since it was started; zero before it is in a mesh.
type Stats struct {
	Acquires uint64 // calls of Lock, RLock, Acquire, Resource.Begin, Election.Campaign and the like that were sent
	Grants   uint64 // how many of these returned a lock, an operation, a use or a leadership
	Releases uint64 // confirmed releases, and ends of operations
	Losses   uint64 // locks, operations and uses whose lease ended before Unlock, except those that reached the end of their MaxHold
	Broken   uint64 // locks, operations and the like that operators have broken: see Node.Break
	Retries  uint64 // commands that were sent again
	Renewals uint64 // lease renewals that were sent
	Entries  uint64 // log entries with commands that this node appended as a leader
	Commands uint64 // commands in them: Commands ÷ Entries is the mean batch
}
