package simulate

// mark is a rare situation that searches must have met, or they prove little (a
// sometimes-assertion).
type mark int

// markNames say what has come about, by mark.
var markNames []string

func newMark(name string) mark {
	markNames = append(markNames, name)
	return mark(len(markNames) - 1)
}

func (m mark) String() string { return markNames[m] }

// The marks, in the order in which they are listed.
var (
	// Of tables: whichever replica is the first to apply an entry meets these.

	lateUnlock       = newMark("a repeated unlock meets a newer hold of its session")
	repeatedGrant    = newMark("a repeated acquire is told of its grant from the results")
	staleCommand     = newMark("a command arrives after its result was acknowledged")
	ghostRefused     = newMark("a command older than the last deletion opens no record") // P12
	cancelAfterGrant = newMark("a cancel finds that its acquire holds the key")
	cancelOvertakes  = newMark("a cancel arrives before its acquire") // or the acquire was lost
	lostWaiting      = newMark("a session ends while it waits")       // the session expired, or was closed
	lostHolding      = newMark("a session ends that holds a key for which others wait")
	fixedEnd         = newMark("a lock of fixed length ends by its fixed end")
	extended         = newMark("a Fix moves a fixed end")
	lateFix          = newMark("a Fix finds that its lock is over")
	deepQueue        = newMark("ten wait for a key")
	readersTogether  = newMark("several readers are let in at once")
	permitsTogether  = newMark("a release of permits lets several in at once")
	tryPassesNobody  = newMark("a try fits, but fails because another call waits")
	silenceLogged    = newMark("a session's silence is logged")
	heardLogged      = newMark("a silent session is heard again, through the log")
	settled          = newMark("a young table begins to grant")
	appeased         = newMark("an operator's word ends the quiet time of a shard") // C5
	resumedHold      = newMark("a report gives a hold back")                        // C8
	keptToken        = newMark("a lock is unlocked that an earlier generation of its shard granted")
	lateReport       = newMark("a report comes when its table grants already")

	// Of leaders.

	legacySilence = newMark("a leader begins to serve, and knows of a silence from before its leadership")
	campaignsMeet = newMark("two replicas campaign at once")
	earlyWon      = newMark("a leader is elected before the election timeout of the dead one is over")
	toldToLead    = newMark("a leader hands over to another replica")
	leaderInJoint = newMark("a new leader serves while the voters change")

	// Of replicas.

	learnerPromoted  = newMark("a learner gets a vote")
	learnerRemoved   = newMark("a learner is removed again")
	jointEntered     = newMark("the voters change in two halves")
	jointLeft        = newMark("the change of voters is over")
	newcomerReplaces = newMark("a node gets another replica of a shard")
	snapshotOverLog  = newMark("a snapshot replaces a table that had begun")

	// Of frames, in worlds that look into all of them: see sieve.

	preVoteRefused  = newMark("a pre-vote is refused")
	answerForwarded = newMark("what a leader says goes through another node")
	removedTold     = newMark("a replica is told that it was removed")
	leaverHeard     = newMark("a node says that it leaves")
	callRefused     = newMark("a roll call is refused")

	// Of the core.

	generationBegun = newMark("a shard goes on in another generation")
	calledAgain     = newMark("a node of a mesh proposes a roll call") // in worlds that look into all frames
	awayTogether    = newMark("two of the core restart at once")
	foundedAgain    = newMark("the core forgets its mesh, and founds another one while locks are held")
	followed        = newMark("a client follows the core into another mesh")

	// Of members, and of users' calls.

	predecessorVotes = newMark("a node joins, and its predecessor is still a voter")
	handedOver       = newMark("a leaver has handed everything over")
	handoverTimedOut = newMark("a leaver goes before everything is handed over")
	askedAnew        = newMark("a lease is lost, and a call that waited in it asks anew")
	sessionLost      = newMark("a hold ends with the rest of its user's session")

	// Of storms.

	struckRenewal  = newMark("a fault strikes right after a renewal")
	struckFix      = newMark("a fault strikes right after a Fix")
	struckGrant    = newMark("a fault strikes right after a grant")
	struckChange   = newMark("a fault strikes right after a change of replicas")
	struckSnapshot = newMark("a fault strikes right after a snapshot's first chunk")
	struckHandover = newMark("a fault strikes right after a word of handing over")
	struckFence    = newMark("a fault strikes right after a fence")
	struckVersion  = newMark("a fault strikes right after a version of the core's table")
	struckProposal = newMark("a fault strikes right after a roll call's proposal")
	struckRare     = newMark("a fault strikes right after another rare situation")
	outlasted      = newMark("a cut ends that was longer than all that is timed")
	allPaused      = newMark("all hosts stop at once")
	allIsolated    = newMark("all hosts are cut off from all")
	allCrashed     = newMark("all processes end at once")
)
