package point

// Mark is a rare situation.
type Mark uint8

// The marks, named by what has come about. New ones come before the end.
const (
	// Of tables. Every replica meets these.

	LateUnlock       Mark = iota + 1 // a repeated unlock meets a newer hold of its session
	RepeatedGrant                    // a repeated acquire is told of its grant from the results
	StaleCommand                     // a command arrives after its result was acknowledged
	GhostRefused                     // a command older than the last deletion opens no record
	CancelAfterGrant                 // a cancel finds that its acquire holds the key
	CancelOvertakes                  // a cancel arrives before its acquire
	LostWaiting                      // a session ends while it waits
	LostHolding                      // a session ends that holds a key for which others wait
	FixedEnd                         // a lock of fixed length ends by its fixed end
	Extended                         // a claim moves a fixed end
	LateClaim                        // a claim finds that its lock is over
	DeepQueue                        // ten wait for a key
	ReadersTogether                  // several readers are let in at once
	PermitsTogether                  // a release of permits lets several in at once
	TryPassesNobody                  // a try fits, and fails because somebody waits
	GrantWhileCut                    // a key is granted before the snapshot under way has come to it
	SilenceLogged                    // a session's silence is logged
	HeardLogged                      // a silent session is heard again, through the log
	Settled                          // a young table begins to grant

	// Of leaders and their clients.

	RenewalOfDeposed // a leader is deposed between a renewal and its confirmation
	RoundDropped     // a round is dropped, for no majority answered
	CommandsDropped  // a leader is deposed before it appended what it had taken
	ExpiringIgnored  // a session speaks after its expiry was appended
	ExpiryAverted    // a session speaks while a majority is asked about its expiry
	LegacySilence    // a new leader counts a silence from before its reign
	ResultsInTurn    // a session has more results than an answer repeats
	CommandRelayed   // a replica relays a command to the leader
	RenewalRelayed   // a replica relays a renewal to the leader
	AnswerForwarded  // what a leader says goes through another node
	GrantTooLate     // a grant arrives when the belief in the lease is over
	GrantBelieved    // a grant that waited for a renewal is believed
	GrantOfNobody    // a grant arrives for a call that was given up
	CancelRacesGrant // a caller gives up after the grant arrived, and before it was believed
	SeatReopened     // a seat without a record is given up for a new one
	AskedAnew        // a lease is lost, and who waited in it asks anew
	SessionLost      // a user's session ends with one of its leases
	BelievedTooLong  // a holder finds at a look at the clock that its lease is over
	ManyJumps        // a command is redirected too often to be sent on at once
	OrphanAdopted    // a leader hears of an abandoned command by a renewal first

	// Of elections.

	Stalled         // a replica was not ticked for more than two ticks
	PreVoteRefused  // a pre-vote is refused
	TwoCandidates   // two candidates stand in one term
	EarlyWon        // an early campaign makes a leader
	EarlyLost       // an early campaign is lost to another replica
	ToldToLead      // a leader hands over to this replica
	HeldForTransfer // commands are held while leadership moves
	LeaderInJoint   // a new leader serves while the voters change
	OfferRefused    // a node refuses to lead, for its view is another

	// Of replicas, the log and snapshots.

	LearnerPromoted   // a learner gets a vote
	JointEntered      // the voters change in two halves
	JointLeft         // the change of voters is over
	LeaderUnwanted    // a leader takes out others of its shard, and leaves itself to its successor
	LearnerRemoved    // a learner is removed again
	WrongReplica      // a frame for another replica of this shard is dropped
	StrangerHeard     // a replica speaks before the entry that adds it is applied
	RemovedTold       // a replica hears that it was removed
	NewcomerReplaces  // a node gets another replica of a shard while it has one
	MissingReplaced   // a leader hears that a replica is gone for good
	CutBehindLearner  // the log is cut while a learner is behind
	ChunkResent       // a chunk of a snapshot is repeated
	SnapshotAbandoned // a snapshot under way ends with its leader's reign
	SnapshotGivenUp   // a snapshot without progress is given up
	SnapshotOverLog   // a snapshot replaces a table that had begun

	// Of membership and founding.

	NameReturns      // a node started again answers at its predecessor's address
	PredecessorVotes // a joiner waits, for its predecessor is still a voter
	FoundersDuel     // a ballot gives way to a higher one
	ValueAdopted     // a founder takes over the value of an earlier ballot
	EpochRaised      // founders go on without one that died
	OldDecision      // a decision older than a promise is not believed
	JoinRefused      // a joiner is refused for now, and asks again
	LeaverHeard      // a node says that it leaves
	HandedOver       // a leaver has handed everything over
	HandoverTimedOut // a leaver goes before everything is handed over

	// Of storms.

	StruckRenewal  // a fault strikes right after a renewal was sent
	StruckClaim    // … after an Extend, or the claim of a lock of fixed length
	StruckGrant    // … after a grant
	StruckChange   // … after a leader has passed on a change of replicas
	StruckSnapshot // … after a snapshot's first chunk
	StruckHandover // … after a word of handing leadership over
	StruckRare     // … after another rare situation
	Outlasted      // a cut that was longer than all that is timed ends
	AllPaused      // all hosts stop at once
	AllIsolated    // all hosts are cut off from all
	AllCrashed     // all processes end at once

	endOfMarks
)

// markNames are what the marks are called in reports.
var markNames = [endOfMarks]string{
	LateUnlock:        "a repeated unlock meets a newer hold of its session",
	RepeatedGrant:     "a repeated acquire is told of its grant from the results",
	StaleCommand:      "a command arrives after its result was acknowledged",
	GhostRefused:      "a command older than the last deletion opens no record",
	CancelAfterGrant:  "a cancel finds that its acquire holds the key",
	CancelOvertakes:   "a cancel arrives before its acquire",
	LostWaiting:       "a session ends while it waits",
	LostHolding:       "a session ends that holds a key for which others wait",
	FixedEnd:          "a lock of fixed length ends by its fixed end",
	Extended:          "a claim moves a fixed end",
	LateClaim:         "a claim finds that its lock is over",
	DeepQueue:         "ten wait for a key",
	ReadersTogether:   "several readers are let in at once",
	PermitsTogether:   "a release of permits lets several in at once",
	TryPassesNobody:   "a try fits, and fails because somebody waits",
	GrantWhileCut:     "a key is granted before the snapshot under way has come to it",
	SilenceLogged:     "a session's silence is logged",
	HeardLogged:       "a silent session is heard again, through the log",
	Settled:           "a young table begins to grant",
	RenewalOfDeposed:  "a leader is deposed between a renewal and its confirmation",
	RoundDropped:      "a round is dropped, for no majority answered",
	CommandsDropped:   "a leader is deposed before it appended what it had taken",
	ExpiringIgnored:   "a session speaks after its expiry was appended",
	ExpiryAverted:     "a session speaks while a majority is asked about its expiry",
	LegacySilence:     "a new leader counts a silence from before its reign",
	ResultsInTurn:     "a session has more results than an answer repeats",
	CommandRelayed:    "a replica relays a command to the leader",
	RenewalRelayed:    "a replica relays a renewal to the leader",
	AnswerForwarded:   "what a leader says goes through another node",
	GrantTooLate:      "a grant arrives when the belief in the lease is over",
	GrantBelieved:     "a grant that waited for a renewal is believed",
	GrantOfNobody:     "a grant arrives for a call that was given up",
	CancelRacesGrant:  "a caller gives up after the grant arrived, and before it was believed",
	SeatReopened:      "a seat without a record is given up for a new one",
	AskedAnew:         "a lease is lost, and who waited in it asks anew",
	SessionLost:       "a user's session ends with one of its leases",
	BelievedTooLong:   "a holder finds at a look at the clock that its lease is over",
	ManyJumps:         "a command is redirected too often to be sent on at once",
	OrphanAdopted:     "a leader hears of an abandoned command by a renewal first",
	Stalled:           "a replica was not ticked for more than two ticks",
	PreVoteRefused:    "a pre-vote is refused",
	TwoCandidates:     "two candidates stand in one term",
	EarlyWon:          "an early campaign makes a leader",
	EarlyLost:         "an early campaign is lost to another replica",
	ToldToLead:        "a leader hands over to this replica",
	HeldForTransfer:   "commands are held while leadership moves",
	LeaderInJoint:     "a new leader serves while the voters change",
	OfferRefused:      "a node refuses to lead, for its view is another",
	LearnerPromoted:   "a learner gets a vote",
	JointEntered:      "the voters change in two halves",
	JointLeft:         "the change of voters is over",
	LeaderUnwanted:    "a leader takes out others of its shard, and leaves itself to its successor",
	LearnerRemoved:    "a learner is removed again",
	WrongReplica:      "a frame for another replica of this shard is dropped",
	StrangerHeard:     "a replica speaks before the entry that adds it is applied",
	RemovedTold:       "a replica hears that it was removed",
	NewcomerReplaces:  "a node gets another replica of a shard while it has one",
	MissingReplaced:   "a leader hears that a replica is gone for good",
	CutBehindLearner:  "the log is cut while a learner is behind",
	ChunkResent:       "a chunk of a snapshot is repeated",
	SnapshotAbandoned: "a snapshot under way ends with its leader's reign",
	SnapshotGivenUp:   "a snapshot without progress is given up",
	SnapshotOverLog:   "a snapshot replaces a table that had begun",
	NameReturns:       "a node started again answers at its predecessor's address",
	PredecessorVotes:  "a joiner waits, for its predecessor is still a voter",
	FoundersDuel:      "a ballot gives way to a higher one",
	ValueAdopted:      "a founder takes over the value of an earlier ballot",
	EpochRaised:       "founders go on without one that died",
	OldDecision:       "a decision older than a promise is not believed",
	JoinRefused:       "a joiner is refused for now, and asks again",
	LeaverHeard:       "a node says that it leaves",
	HandedOver:        "a leaver has handed everything over",
	HandoverTimedOut:  "a leaver goes before everything is handed over",
	StruckRenewal:     "a fault strikes right after a renewal",
	StruckClaim:       "a fault strikes right after a claim",
	StruckGrant:       "a fault strikes right after a grant",
	StruckChange:      "a fault strikes right after a change of replicas",
	StruckSnapshot:    "a fault strikes right after a snapshot's first chunk",
	StruckHandover:    "a fault strikes right after a word of handing over",
	StruckRare:        "a fault strikes right after another rare situation",
	Outlasted:         "a cut ends that was longer than all that is timed",
	AllPaused:         "all hosts stop at once",
	AllIsolated:       "all hosts are cut off from all",
	AllCrashed:        "all processes end at once",
}
