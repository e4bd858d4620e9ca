// Package bug names the deliberate bugs of the project's own tests: each
// leaves one rule of the protocol out, and a simulation must notice it.
//
// The type lives under internal so that the core and the simulator can set it
// and users cannot. A set of zero, which is what every program runs with, is
// the correct protocol.
package bug

import "slices"

// Bug is one deliberate bug. Zero is none.
type Bug uint8

// The bugs, named after the rule that each leaves out.
const (
	// LeaseFromArrival: the client counts a renewal from the arrival of its
	// answer instead of its sending, and without the margin for clock rates (P1).
	LeaseFromArrival Bug = iota + 1
	// UnconfirmedRenewal: a leader acknowledges renewals without a ReadIndex (P2).
	UnconfirmedRenewal
	// OfficeWithoutTerm: the table takes an Expire or Silent that another term decided (P3).
	OfficeWithoutTerm
	// ExpireAtCommit: an expiring session is refused only once its Expire is committed (P4).
	// Its silence was logged by then, and so the log would have the last word on it all the
	// same (P5): renewals of silent sessions are answered past the log, too.
	ExpireAtCommit
	// FreshLeaderExpires: a new leader does not give sessions their TTL again (P5).
	FreshLeaderExpires
	// SilenceForgotten: silence is not checkpointed, so changing leaders keep a dead holder for ever (P5).
	SilenceForgotten
	// GrantExtendsLease: a grant or a duplicate extends the client's belief (P6).
	GrantExtendsLease
	// LateBelief: the holder's context ends only after its release was answered (P8).
	LateBelief
	// NoDedup: the table does not remember finished request numbers (P11).
	NoDedup
	// GhostSessions: a late command opens a record that was deleted (P12).
	GhostSessions
	// CancelForgotten: a cancelled waiter sends its Cancel once and forgets it (P12).
	CancelForgotten
	// OldUnknownEnds: an old answer "unknown" ends newer grants (P13). A question that is
	// asked once the record is known to exist cannot be answered so, as long as leaders
	// confirm themselves (P2); so clients ask before they know.
	OldUnknownEnds
	// ReleaseByKey: a release frees whatever its session holds of the key (P14).
	ReleaseByKey
	// QueueJumpers: a request that fits is granted although others wait (P16).
	QueueJumpers
	// TokenFromCounter: a shard's tokens start at one after a snapshot is restored (P17).
	TokenFromCounter
	// ServeBeforeOwnTerm: a leader serves, and answers from its table, before an entry of
	// its own term is applied (P19).
	ServeBeforeOwnTerm
	// CampaignOnce: a candidate that did not win is not re-armed (P20).
	CampaignOnce
	// MisdirectedFrames: a replica steps raft messages meant for another replica ID, and
	// heartbeats that commit more than it has (P23).
	MisdirectedFrames
	// Amnesia: a restarted node takes up its old node and replica IDs with empty memory (P24).
	Amnesia
	// GrantBeforeCommit: the leader answers an acquire when it is appended, not when it is committed.
	GrantBeforeCommit
	// LostWakeUp: an expiry does not grant to the waiters behind it.
	LostWakeUp
	// NoFreshGrace: tables founded over seeds grant at once (P27).
	NoFreshGrace
	// FoundWithMajority: a majority of the listed seeds founds, although none of them remembers anything after a restart (P25).
	FoundWithMajority
	// FoundTwice: a founder forgets what was accepted before and proposes a mesh of its own (P25).
	FoundTwice
	// LateDecision: a founder believes an old decision after it promised a later ballot that it knows of none (P25).
	LateDecision
	// WelcomeEarly: a founder lets nodes join before every founder knows of the mesh (P25).
	WelcomeEarly

	end // of the bugs: new ones come before it
)

// Set is a set of deliberate bugs. The zero value is empty.
type Set [2]uint64

// Of returns the set of bugs.
func Of(bugs ...Bug) (s Set) {
	for _, b := range bugs {
		if b != 0 {
			s[b/64] |= 1 << (b % 64)
		}
	}
	return s
}

// Has reports whether b is in s.
func (s Set) Has(b Bug) bool { return s[b/64]&(1<<(b%64)) != 0 }

// Union returns the bugs that are in s or in t.
func (s Set) Union(t Set) Set { return Set{s[0] | t[0], s[1] | t[1]} }

// Empty reports whether no bug is in s.
func (s Set) Empty() bool { return s == Set{} }

// All returns every bug.
func All() (all []Bug) {
	for b := Bug(1); b < end; b++ {
		all = append(all, b)
	}
	return all
}

// Parse returns the bug of that name.
func Parse(name string) (Bug, bool) {
	i := slices.Index(names[:], name)
	return Bug(max(i, 0)), i > 0
}

func (b Bug) String() string {
	if b > 0 && b < end {
		return names[b]
	}
	return "none"
}
