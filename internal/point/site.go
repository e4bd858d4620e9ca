package point

// Site is a fault point.
type Site uint8

// The sites: what a simulation may do there. Each is something that a slow, small or
// unlucky machine does by itself, and costs nothing but time, also where it is taken every
// second time. What a network, a clock or a pause can do is none: simulations have those.
const (
	// Of a client.

	// HastyRelay: the first attempt asks to be relayed. Any client that cannot reach a
	// leader does (P15).
	HastyRelay Site = iota + 1
	// ForgetLeader: a client forgets which node leads. What it knew was a hint.
	ForgetLeader
	// LateAcks: a command carries no acknowledgements. They ride on later ones (P11).
	LateAcks
	// FreshSeat: an idle lease is given up for a new one. Once it is old, that is done
	// anyway.
	FreshSeat

	// Of a leader, to its clients.

	// FewResults: an answer repeats one result instead of 64. The others come with later
	// answers (P13).
	FewResults
	// StaleRedirect: a redirect names the first in the ring, who may not lead. What a
	// replica knows may be old.
	StaleRedirect

	// Of the shard loop and its frames.

	// SplitFrame: messages for one node leave in several frames.
	SplitFrame

	// Of the log.

	// SmallEntry: a command has an entry of its own. Entries may be of any size up to the
	// largest.
	SmallEntry
	// LateSeal: a seal is appended later. Until then former voters count as voters (P30).
	LateSeal
	// LateAccession: a leader begins to serve later than it could. It may be slow.
	LateAccession
	// CompactEarly: the log is cut before there is much of it.
	CompactEarly
	// KeepLittle: a cut log keeps one entry instead of 64. A replica that needs more gets a snapshot.
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

	// EarlySilence: a checkpoint of silence is written a quarter of the TTL early. Any
	// number of them may be (P5).
	EarlySilence

	// Of elections.

	// RashCampaign: a replica campaigns half way to E. Voters that hear the leader refuse it.
	RashCampaign
	// CampaignTogether: a replica campaigns at once after its leader's end, though not first
	// in the ring (P21).
	CampaignTogether

	// Of placement and snapshots.

	// StrayTransfer: the ring's owner hands over once in its leadership. Another view may call
	// for it.
	StrayTransfer
	// SmallChunks: a snapshot's chunks are of 16 bytes.
	SmallChunks
	// SmallWindow: one chunk of a snapshot is on its way at a time.
	SmallWindow

	endOfSites
)

// siteNames are what the sites are called in reports and on the command line.
var siteNames = [endOfSites]string{
	HastyRelay:       "hasty-relay",
	ForgetLeader:     "forget-leader",
	LateAcks:         "late-acks",
	FreshSeat:        "fresh-seat",
	FewResults:       "few-results",
	StaleRedirect:    "stale-redirect",
	SplitFrame:       "split-frame",
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
	EarlySilence:     "early-silence",
	RashCampaign:     "rash-campaign",
	CampaignTogether: "campaign-together",
	StrayTransfer:    "stray-transfer",
	SmallChunks:      "small-chunks",
	SmallWindow:      "small-window",
}
