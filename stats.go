package mesh

import (
	"fmt"

	"github.com/lockmesh/mesh/internal/env"
	"github.com/lockmesh/mesh/internal/node"
)

// Member is one node of the mesh, as another knows it.
type Member struct {
	ID    string // of this incarnation: a node that starts again has a new one
	Name  string
	Addr  string // where others reach it
	Zone  string
	State MemberState
}

// MemberState is what gossip believes of a member. It may be late, and it may be wrong. In
// JSON, and wherever [encoding.TextMarshaler] counts, it is what String returns: "alive",
// "dead" or "left".
type MemberState uint8

//go:generate go run golang.org/x/tools/cmd/stringer@v0.52.0 -type=MemberState -linecomment

// The states of a member.
const (
	MemberAlive MemberState = iota // alive
	// It does not answer.
	MemberDead // dead
	// It has said that it leaves.
	MemberLeft // left
)

// MarshalText returns what String does, and ErrInvalidOption for what is no state.
func (s MemberState) MarshalText() ([]byte, error) {
	if s > MemberLeft {
		return nil, invalid("the member state", uint8(s), fmt.Sprintf("0 to %d", MemberLeft))
	}
	return []byte(s.String()), nil
}

// UnmarshalText takes what MarshalText returns. For any other text it returns
// ErrInvalidOption, and s is as it was.
func (s *MemberState) UnmarshalText(text []byte) error {
	for state := range MemberLeft + 1 {
		if state.String() == string(text) {
			*s = state
			return nil
		}
	}
	return invalid("the member state", fmt.Sprintf("%q", brief(string(text))), `"alive", "dead" or "left"`)
}

func memberOf(m node.Member) Member {
	state := MemberAlive
	switch m.State {
	case env.Dead:
		state = MemberDead
	case env.Left:
		state = MemberLeft
	}
	return Member{ID: fmt.Sprintf("%016x", uint64(m.ID)), Name: m.Name, Addr: m.Addr, Zone: m.Zone, State: state}
}

// Health is how the mesh's shards are, as far as this node has heard.
type Health struct {
	Ready           bool  // this node can serve calls
	FullyReplicated bool  // every shard has as many replicas in step as the members allow
	NoMajority      []int // shards that do not answer
	UnderReplicated []int // shards that have fewer replicas in step than they should
}

// Stats are counters of one node since it joined.
type Stats struct {
	Acquires uint64 // calls of Lock and its like that were sent
	Grants   uint64 // of them, those that ended with a lock
	Releases uint64 // confirmed
	Losses   uint64 // locks whose lease ended before Unlock, without those that only reached the end of their MaxHold
	Retries  uint64 // commands sent again
	Renewals uint64 // of leases, sent
	Entries  uint64 // log entries that this node appended as a leader
	Commands uint64 // commands in them: Commands ÷ Entries is the mean batch
}
