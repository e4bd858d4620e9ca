package shard

import (
	"fmt"
	"time"
)

// Event is what a step tells, of a session as a rule: an answer to a command of it, which the shard's leader
// must now send to the session's node, or a change that the leader must keep track of. Followers
// drop events.
type Event struct {
	What    EventKind
	Session SessionID
	Number  uint64 // of the command that is answered

	Token   uint64        // Granted, Breached, and Refused with Broke: the grant's; Skipped, and Done for the End of a pull or the Cancel of what was Skipped: the stamp; Queued and Refused: of one that holds the key, if any does
	Holder  string        // Queued and Refused: the name of that one's node; with InUse: of a user of the resource
	Ahead   int           // Queued: how many requests are before it (-1: too many to count again); Done for a Carry: how much is unclaimed
	Entered uint64        // Queued: the revision at which it entered the queue, for a Report; Granted to a guest: see Fingerprint; Done for a Carry: how many breaches the record has
	Reason  Reason        // Refused
	TTL     time.Duration // Opened: of the lease; Fixed: for how long it lasts from now on
	// Quiet. Queued and Refused, and Done for a Carry: for how much longer the table grants nothing; zero: it may grant (P27), or a Refused does not
	// tell. Skipped, the first time, of a Run: for how much longer its success is remembered; of an Acquire: for how much longer that the latch is open.
	Quiet time.Duration
	Key   string // Led and Breached
	// Capacity: of a semaphore. Granted: the one of which it was granted; zero: the one that was asked for. Refused with Capacity: the one that it
	// has, to a Resize, and to a request that waited; zero: it is not told.
	Capacity int64
}

// EventKind says what happened.
type EventKind uint8

// The kinds of events. Those up to Skipped answer a command; their numbers are sent over the network
// and must not change.
const (
	// The request holds its key.
	Granted EventKind = iota + 1
	// The request waits.
	Queued
	// A command that neither waits nor grants took effect, now or earlier: a Cancel, Release, Fix, End or Close, for example. In answer to a
	// Claim: the request that it names has ended by a Release or an End.
	Done
	// The command did not take effect, and never will under this number (except with Reopen and
	// Behind: then the command was not examined).
	Refused
	// What the Begin asks for was done already; or the latch that the Acquire waits for is open.
	Skipped

	// The session now has a record.
	Opened
	// The end of the session's lease is fixed, and no renewal moves it.
	Fixed
	// The session's record is gone.
	Ended
	// The session's silence is over (P5).
	Reheard
	// The leader of the election Key, or its value, may be another one. It is of no session.
	Led
	// The grant of Key that Token names is broken (P49), and Holder is the name of its session's node.
	Breached
)

// Answers reports whether the event answers a command.
func (e *Event) Answers() bool { return e.What <= Skipped }

// Reason is why a command was refused. The numbers are sent over the network: append only.
type Reason uint8

// The reasons.
const (
	Locked   Reason = iota + 1 // a Try that would have to wait, in a table that may grant
	Lost                       // the session or the grant is gone
	Reopen                     // there is no record, and the command's revision is too old to open one (P12)
	Capacity                   // the key is in use with another kind or capacity (P38)
	Crowded                    // MaxWaiters requests wait already; or the resource has MaxUses uses; or, to a Break: the session has MaxBroken breaches
	Stale                      // a late copy: the number was finished and acknowledged, or cancelled, before
	Behind                     // there is a record, opened by a command that knew of a later revision (P12)
	Late                       // a Report or a Remember to a table that may grant already
	Quiet                      // a Try, a Resize or a Break, while the table grants nothing yet (P27)
	InUse                      // an operation that is to run alone, on a resource that is used
	Failed                     // a Run that has failed as often as its caller allows
	Broke                      // an operator has broken the grant (P49)

	lastReason = Broke
)

var reasons = [lastReason + 1]string{
	0: "none", Locked: "locked", Lost: "lost", Reopen: "reopen", Capacity: "capacity", Crowded: "crowded", Stale: "stale", Behind: "behind", Late: "late", Quiet: "quiet", InUse: "in use", Failed: "failed", Broke: "broken",
}

func (r Reason) String() string {
	if r > lastReason {
		return fmt.Sprintf("Reason(%d)", uint8(r))
	}
	return reasons[r]
}
