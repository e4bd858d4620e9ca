package simulate

// mark is a rare situation that searches must have met, or they prove little (a
// sometimes-assertion).
type mark uint8

// The marks, named by what has come about.
const (
	// Of tables: whichever replica is the first to apply an entry meets these.

	lateUnlock       mark = iota + 1
	repeatedGrant         // the acquire came again
	staleCommand          // the table has forgotten its result
	ghostRefused          // it opens no record (P12)
	cancelAfterGrant      // its caller gave up meanwhile
	cancelOvertakes       // or the acquire was lost
	lostWaiting           // the session expired, or was closed
	lostHolding
	fixedEnd
	extended
	lateFix
	deepQueue
	readersTogether
	permitsTogether
	tryPassesNobody
	silenceLogged
	heardLogged
	settled

	// Of leaders.

	legacySilence
	campaignsMeet
	earlyWon
	toldToLead
	leaderInJoint

	// Of replicas.

	learnerPromoted
	learnerRemoved
	jointEntered
	jointLeft
	newcomerReplaces
	snapshotOverLog

	// Of frames, in worlds that look into all of them: see sieve.

	preVoteRefused
	answerForwarded
	removedTold
	missingTold
	leaverHeard
	ballotRefused
	joinRefused

	// Of members, and of users' calls.

	predecessorVotes
	handedOver
	handoverTimedOut
	askedAnew
	sessionLost

	// Of storms.

	struckRenewal
	struckFix
	struckGrant
	struckChange
	struckSnapshot
	struckHandover
	struckRare
	outlasted
	allPaused
	allIsolated
	allCrashed

	endOfMarks
)

var markNames = [endOfMarks]string{
	lateUnlock:       "a repeated unlock meets a newer hold of its session",
	repeatedGrant:    "a repeated acquire is told of its grant from the results",
	staleCommand:     "a command arrives after its result was acknowledged",
	ghostRefused:     "a command older than the last deletion opens no record",
	cancelAfterGrant: "a cancel finds that its acquire holds the key",
	cancelOvertakes:  "a cancel arrives before its acquire",
	lostWaiting:      "a session ends while it waits",
	lostHolding:      "a session ends that holds a key for which others wait",
	fixedEnd:         "a lock of fixed length ends by its fixed end",
	extended:         "a Fix moves a fixed end",
	lateFix:          "a Fix finds that its lock is over",
	deepQueue:        "ten wait for a key",
	readersTogether:  "several readers are let in at once",
	permitsTogether:  "a release of permits lets several in at once",
	tryPassesNobody:  "a try fits, but fails because another call waits",
	silenceLogged:    "a session's silence is logged",
	heardLogged:      "a silent session is heard again, through the log",
	settled:          "a young table begins to grant",
	legacySilence:    "a leader begins to serve, and knows of a silence from before its leadership",
	campaignsMeet:    "two replicas campaign at once",
	earlyWon:         "a leader is elected before the election timeout of the dead one is over",
	toldToLead:       "a leader hands over to another replica",
	leaderInJoint:    "a new leader serves while the voters change",
	learnerPromoted:  "a learner gets a vote",
	learnerRemoved:   "a learner is removed again",
	jointEntered:     "the voters change in two halves",
	jointLeft:        "the change of voters is over",
	newcomerReplaces: "a node gets another replica of a shard",
	snapshotOverLog:  "a snapshot replaces a table that had begun",
	preVoteRefused:   "a pre-vote is refused",
	answerForwarded:  "what a leader says goes through another node",
	removedTold:      "a replica is told that it was removed",
	missingTold:      "a leader is told that a replica is gone for good",
	leaverHeard:      "a node says that it leaves",
	ballotRefused:    "a founder refuses a ballot",
	joinRefused:      "a joiner is refused",
	predecessorVotes: "a node joins, and its predecessor is still a voter",
	handedOver:       "a leaver has handed everything over",
	handoverTimedOut: "a leaver goes before everything is handed over",
	askedAnew:        "a lease is lost, and a call that waited in it asks anew",
	sessionLost:      "a hold ends with the rest of its user's session",
	struckRenewal:    "a fault strikes right after a renewal",
	struckFix:        "a fault strikes right after a Fix",
	struckGrant:      "a fault strikes right after a grant",
	struckChange:     "a fault strikes right after a change of replicas",
	struckSnapshot:   "a fault strikes right after a snapshot's first chunk",
	struckHandover:   "a fault strikes right after a word of handing over",
	struckRare:       "a fault strikes right after another rare situation",
	outlasted:        "a cut ends that was longer than all that is timed",
	allPaused:        "all hosts stop at once",
	allIsolated:      "all hosts are cut off from all",
	allCrashed:       "all processes end at once",
}

func (m mark) String() string { return markNames[m] }
