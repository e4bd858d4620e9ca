// Package bug names the deliberate bugs of the project's own tests: each
// leaves one rule of the protocol out, and a simulation must notice it.
//
// The type lives under internal so that no program can switch one on: only the
// worlds of package simulate have them, by their names. A set of zero, which is what
// every program runs with, is the correct protocol.
package bug

import "slices"

// Bug is one deliberate bug. Zero is none.
type Bug uint8

// The bugs, named after the rule that each leaves out.
const (
	// UnconfirmedRenewal: a leader acknowledges renewals without a ReadIndex (P2).
	UnconfirmedRenewal Bug = iota + 1
	// ExpireAtCommit: an expiring session is refused only once its Expire is committed (P4).
	// Its silence was logged by then, and so the log would have the last word on it all the
	// same (P5): renewals of silent sessions are answered past the log, too.
	ExpireAtCommit
	// FreshLeaderExpires: a new leader does not give sessions their TTL again (P5).
	FreshLeaderExpires
	// SilenceForgotten: silence is not checkpointed, so changing leaders keep a dead holder for ever (P5).
	SilenceForgotten
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
	// LeaseByTimeOfDay: leaders measure silence by the time of day (P1, P18, entry 4).
	LeaseByTimeOfDay
	// HeardByName: a leader takes whatever a node says as a sign of all sessions of that name, also of
	// those of an earlier incarnation (P24, entry 14).
	HeardByName
	// StallCounts: a leader counts the time in which it stood still as silence of others (P10).
	StallCounts
	// EarlyFarewell: a removed replica is told of its end, and destroyed, as soon as its leader knows of it (P24).
	EarlyFarewell
	// TableTimeOfDay: leaders count the table's time by the time of day (P18).
	TableTimeOfDay
	// OpenElections: raft runs without PreVote and CheckQuorum (P19).
	OpenElections
	// WaitsForSilence: followers wait for an election timeout although the leader's process is gone (P21).
	WaitsForSilence
	// ChangesInRow: replicas are changed one after another in place of one joint change, and the
	// next change does not wait for the one before (P19, entry 31).
	ChangesInRow
	// LateConfiguration: a follower counts votes by the configuration before the latest (P19, entry 32).
	LateConfiguration
	// JointLeftEarly: a joint configuration is left as soon as it is entered, not by an entry of the
	// log (P19, entry 33).
	JointLeftEarly
	// RemovedHeard: replicas listen to those that were removed, and do not tell them so (P24, entry 34).
	RemovedHeard
	// ClaimUnheard: a claim that is on its way is no sign of life: the silence of before it is logged behind it (P7).
	ClaimUnheard
	// ClaimByOldLength: a claim that is on its way leaves its lease the length that it had (P7).
	ClaimByOldLength
	// StallProlongsLeases: a stall moves the leases of those who were heard after it, too (P10).
	StallProlongsLeases
	// StallDelaysElections: a stall moves the election deadline that a message after it has set, too (P10).
	StallDelaysElections
	// WaitsForFarewell: a replica that hears nothing of its shard does not ask whether it was removed (P24).
	WaitsForFarewell
	// ChangesAlone: a leader changes the voters also while no majority answers it (P30).
	ChangesAlone
	// QuestionsAnswer: a replica's question whether it was removed counts as an answer to its leader (P19, P31).
	QuestionsAnswer
	// StrayStays: a replica that got nothing, and hears of nobody, waits to be told that it was removed (P24).
	StrayStays
	// HostsAtTheEnd: who leaves takes in replicas and votes until its locks are free and it says that it leaves (P32).
	HostsAtTheEnd
	// AsksAcquaintances: a replica that hears nothing of its shard asks only where it knows another one (P24).
	AsksAcquaintances
	// StallsAddUp: each tick that is late is a stall, and moves leases and elections by as much,
	// however often there was one (P10).
	StallsAddUp
	// FailureUnreported: raft does not hear of a snapshot that did not arrive, and sends its receiver nothing more (P40).
	FailureUnreported
	// NumbersComeBack: a new replica's ID is one above those that there are, not above all that there were (P24).
	NumbersComeBack
	// LeaderIsRight: whose table differs from the leader's stops, whatever most replicas have (P41).
	LeaderIsRight
	// OrphansUntaken: a leader renews a session and leaves what the renewal names as abandoned to its client (P12).
	OrphansUntaken
	// SlowLearnersGo: a learner is removed a minute after it last followed the log, however much of its
	// snapshot it gets (P40).
	SlowLearnersGo
	// LogOutgrowsSnapshot: the log is not cut while a snapshot is under way, however long that takes (P40).
	LogOutgrowsSnapshot
	// HalfSnapshotKept: a replica that has a part of a snapshot waits for the rest, and takes no other
	// one's (P40).
	HalfSnapshotKept
	// LegacyIgnored: a new leader starts a session's silence at nothing, whatever was logged of it (P5).
	LegacyIgnored
	// NothingBequeathed: a leader that hands over does not log how long everybody was silent (P5).
	NothingBequeathed

	end // of the bugs: new ones come before it
)

// Set is a set of deliberate bugs. The zero value is empty.
type Set [end/64 + 1]uint64

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
func (s Set) Union(t Set) Set {
	for i := range s {
		s[i] |= t[i]
	}
	return s
}

// Empty reports whether no bug is in s.
func (s Set) Empty() bool { return s == Set{} }

// Names returns the names of the bugs in s.
func (s Set) Names() (names []string) {
	for _, b := range All() {
		if s.Has(b) {
			names = append(names, b.String())
		}
	}
	return names
}

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
