package point

// Site is a fault point.
type Site uint8

// The sites: what a simulation may do there. Each is something that a slow, small or
// unlucky machine does by itself, and costs nothing but time, also where it is taken every
// second time. New ones come before the end.
const (
	// Of a client.

	// DropRenewal: a renewal is not sent. Frames get lost, and the next renewal is soon.
	DropRenewal Site = iota + 1
	// DoubleRenewal: a renewal is sent twice. Frames are doubled, too.
	DoubleRenewal
	// EarlyRenewal: a renewal goes before it is due. Nothing says how often a client may
	// ask.
	EarlyRenewal
	// LoseRequest: a command is not sent this time. Frames get lost, and it is repeated.
	LoseRequest
	// DoubleRequest: a command is sent twice. It takes effect once (P11).
	DoubleRequest
	// HastyRetry: a command is repeated after a millisecond. A retry may always come.
	HastyRetry
	// HastyRelay: the first attempt asks to be relayed. Any client that cannot reach a
	// leader does (P15).
	HastyRelay
	// ForgetLeader: a desk forgets who leads. What it knew was a hint.
	ForgetLeader
	// LateAcks: a command carries no acknowledgements. They ride on later ones (P11).
	LateAcks
	// FreshSeat: an idle seat is given up for a new one. Once it is old, that is done
	// anyway.
	FreshSeat
	// DoubtGrant: a grant waits for a confirmed renewal. A slow client does so with late
	// ones (P6).
	DoubtGrant

	// Of a leader, to its clients.

	// LoseReply: what a table decided is not told. Frames get lost; the client asks again.
	LoseReply
	// DoubleReply: it is told twice.
	DoubleReply
	// LoseAnswer: the answer to a renewal is not sent.
	LoseAnswer
	// FewResults: an answer repeats one result instead of 64. The others come with later
	// answers (P13).
	FewResults
	// LoggedRenewal: a renewal is acknowledged through the log, as if its session had been
	// silent (P5).
	LoggedRenewal
	// BlindRedirect: a redirect names nobody. A replica may know of no leader.
	BlindRedirect
	// StaleRedirect: a redirect names the first in the ring, who may not lead. What a
	// replica knows may be old.
	StaleRedirect
	// LoseServing: a new leader is not announced to a node. Its clients find it by
	// redirects.
	LoseServing

	// Of a lane and its frames.

	// PartInputs: a lane settles and sends between two inputs. They might have come one by
	// one.
	PartInputs
	// SplitFrame: messages for one node leave in several frames.
	SplitFrame
	// LateFlush: what a run of a lane gathered leaves with the next run. Loops may be
	// slow.
	LateFlush
	// ShuffleFrames: a replica's messages leave in the opposite order. Raft and clients
	// bear any order.
	ShuffleFrames
	// FewMoves: one shard moves at a time, instead of four.
	FewMoves
	// RefuseOffer: an offered leadership is not accepted. The node's view may be another
	// one (P22).
	RefuseOffer
	// LoseMissing: a leader is not told that a replica is gone. The next message to it
	// tells (P41).
	LoseMissing

	// Of the hall.

	// LateView: a new view of the mesh is drawn later. Views are hints, and news may be
	// late.
	LateView
	// SkipStatus: a report of health is not sent. The next one comes in a second.
	SkipStatus
	// LoseLeaving: a leaver's word is not sent to a node. It is repeated with each report.
	LoseLeaving
	// PollOften: who waits for a condition looks again after a millisecond.
	PollOften

	// Of raft's messages.

	// SkipBeat: a leader's tick is left out. Heartbeats may be late.
	SkipBeat
	// LoseAppend: an append is not sent. Heartbeats find the gap.
	LoseAppend
	// LoseAppendReply: a follower's answer to an append is not sent.
	LoseAppendReply
	// LoseHeartbeat: a heartbeat, or the answer to one, is not sent. Some of E may be
	// lost.
	LoseHeartbeat
	// LoseVote: a vote, or a request for one, is not sent. A candidate stands again.
	LoseVote
	// DoubleMessage: a raft message is sent twice.
	DoubleMessage
	// NeedlessCommit: an append that only tells of a commit is sent after all.
	NeedlessCommit

	// Of the log.

	// LateProposal: the batch waits for another turn. Nothing was promised yet.
	LateProposal
	// SmallEntry: a command has an entry of its own. Entries may be of any size up to the
	// largest.
	SmallEntry
	// LateSeal: a seal is appended later. Until then former voters count as voters (P30).
	LateSeal
	// LateAccession: a leader begins to serve later than it could. It may be slow.
	LateAccession
	// CompactEarly: the log is cut before there is much of it.
	CompactEarly
	// KeepLittle: a cut log keeps one entry instead of 64. Who needs more gets a snapshot.
	KeepLittle
	// CheckOften: tables are compared every eight entries instead of 4,096 (P41).
	CheckOften
	// SmallAppends: a replica's appends carry one entry each. It is a setting of raft.
	SmallAppends
	// SmallCommits: a replica takes one committed entry at a time. It is a setting of
	// raft.
	SmallCommits
	// FewInFlight: a replica sends one append and waits for its answer. It is a setting of
	// raft.
	FewInFlight
	// FewUncommitted: a leader holds 512 bytes of uncommitted entries. It is a setting of
	// raft; what does not fit waits.
	FewUncommitted

	// Of confirmation and leases.

	// LateRound: a ReadIndex round begins a turn later.
	LateRound
	// DoubleRound: a ReadIndex round is asked for twice, with one number.
	DoubleRound
	// LostRound: a ReadIndex round gets no answer. It is dropped after E (P2).
	LostRound
	// EarlySilence: a checkpoint of silence is written a quarter of the TTL early. Any
	// number of them may be (P5).
	EarlySilence
	// LateExpiry: a lease that ran out is looked at again a moment later.
	LateExpiry

	// Of elections.

	// EarliestCampaign: a campaign is due at E, the earliest moment. It is drawn out of E
	// to 2E.
	EarliestCampaign
	// LatestCampaign: a campaign is due at 2E, the latest moment.
	LatestCampaign
	// RashCampaign: a replica stands half way to E. Who hears the leader refuses it.
	RashCampaign
	// MissGone: a replica does not hear that its leader's node is gone. It waits for E.
	MissGone
	// CampaignTogether: a replica stands at once after its leader's end, though not first
	// in the ring (P21).
	CampaignTogether

	// Of placement and snapshots.

	// LatePlacement: a leader looks later at what the ring wants.
	LatePlacement
	// LoseHost: a node is not asked to host its replica. It is asked again soon.
	LoseHost
	// StrayTransfer: the ring's owner hands over once in its reign. Another view may call
	// for it.
	StrayTransfer
	// SmallChunks: a snapshot's chunks are of 16 bytes.
	SmallChunks
	// SmallWindow: one chunk of a snapshot is on its way at a time.
	SmallWindow
	// LoseChunk: a chunk is not sent. It is repeated.
	LoseChunk
	// LoseChunkAck: a chunk is not acknowledged. It is repeated, and then it is.
	LoseChunkAck
	// HastyGiveUp: a snapshot without progress is given up after E/2. Raft asks for
	// another (P40).
	HastyGiveUp
	// BusySender: a snapshot is refused, as if another were on its way. Raft asks again.
	BusySender

	// Of founding.

	// LosePromise: a founder's promise is not sent. The ballot asks again.
	LosePromise
	// LoseAccepted: a founder's acceptance is not sent.
	LoseAccepted
	// LoseDecision: a founder is not told of the decision this time.
	LoseDecision
	// LoseWelcome: a joiner that is let in is not told. It asks again.
	LoseWelcome
	// BusyMember: a member refuses a joiner for now, as if too many joined. It asks again.
	BusyMember
	// HastyBallot: a founder does not wait for its turn. Ballots that meet end in the
	// higher one.
	HastyBallot
	// LateBallot: a founder waits for a second longer before its ballot.
	LateBallot

	endOfSites
)

// siteNames are what the sites are called in reports and on the command line.
var siteNames = [endOfSites]string{
	DropRenewal:      "drop-renewal",
	DoubleRenewal:    "double-renewal",
	EarlyRenewal:     "early-renewal",
	LoseRequest:      "lose-request",
	DoubleRequest:    "double-request",
	HastyRetry:       "hasty-retry",
	HastyRelay:       "hasty-relay",
	ForgetLeader:     "forget-leader",
	LateAcks:         "late-acks",
	FreshSeat:        "fresh-seat",
	DoubtGrant:       "doubt-grant",
	LoseReply:        "lose-reply",
	DoubleReply:      "double-reply",
	LoseAnswer:       "lose-answer",
	FewResults:       "few-results",
	LoggedRenewal:    "logged-renewal",
	BlindRedirect:    "blind-redirect",
	StaleRedirect:    "stale-redirect",
	LoseServing:      "lose-serving",
	PartInputs:       "part-inputs",
	SplitFrame:       "split-frame",
	LateFlush:        "late-flush",
	ShuffleFrames:    "shuffle-frames",
	FewMoves:         "few-moves",
	RefuseOffer:      "refuse-offer",
	LoseMissing:      "lose-missing",
	LateView:         "late-view",
	SkipStatus:       "skip-status",
	LoseLeaving:      "lose-leaving",
	PollOften:        "poll-often",
	SkipBeat:         "skip-beat",
	LoseAppend:       "lose-append",
	LoseAppendReply:  "lose-append-reply",
	LoseHeartbeat:    "lose-heartbeat",
	LoseVote:         "lose-vote",
	DoubleMessage:    "double-message",
	NeedlessCommit:   "needless-commit",
	LateProposal:     "late-proposal",
	SmallEntry:       "small-entry",
	LateSeal:         "late-seal",
	LateAccession:    "late-accession",
	CompactEarly:     "compact-early",
	KeepLittle:       "keep-little",
	CheckOften:       "check-often",
	SmallAppends:     "small-appends",
	SmallCommits:     "small-commits",
	FewInFlight:      "few-in-flight",
	FewUncommitted:   "few-uncommitted",
	LateRound:        "late-round",
	DoubleRound:      "double-round",
	LostRound:        "lost-round",
	EarlySilence:     "early-silence",
	LateExpiry:       "late-expiry",
	EarliestCampaign: "earliest-campaign",
	LatestCampaign:   "latest-campaign",
	RashCampaign:     "rash-campaign",
	MissGone:         "miss-gone",
	CampaignTogether: "campaign-together",
	LatePlacement:    "late-placement",
	LoseHost:         "lose-host",
	StrayTransfer:    "stray-transfer",
	SmallChunks:      "small-chunks",
	SmallWindow:      "small-window",
	LoseChunk:        "lose-chunk",
	LoseChunkAck:     "lose-chunk-ack",
	HastyGiveUp:      "hasty-give-up",
	BusySender:       "busy-sender",
	LosePromise:      "lose-promise",
	LoseAccepted:     "lose-accepted",
	LoseDecision:     "lose-decision",
	LoseWelcome:      "lose-welcome",
	BusyMember:       "busy-member",
	HastyBallot:      "hasty-ballot",
	LateBallot:       "late-ballot",
}
