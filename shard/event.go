package shard

import "time"

// Event is a message that the shard's leader must now send to the session's node, or a
// change of which the leader must keep track. Followers drop events.
type Event interface{ isEvent() }

// Granted: the request holds its key.
type Granted struct {
	Session SessionID
	Number  uint64
	Token   uint64
}

// Queued: the request waits. Ahead counts the requests before it (-1: too many to
// count again), and Holder is the node name of one that holds the key, with its token.
type Queued struct {
	Session SessionID
	Number  uint64
	Ahead   int
	Holder  string
	Token   uint64
}

// Done: a Cancel, Release, Fix or Close took effect, now or earlier.
type Done struct {
	Session SessionID
	Number  uint64
}

// Refused: the command did not take effect, and never will under this number
// (except with Reopen and Behind: then the command was not examined).
type Refused struct {
	Session SessionID
	Number  uint64
	Reason  Reason
	Holder  string // of a Locked: the node of one that holds the key, and its token
	Token   uint64
}

// Opened: the session now has a record.
type Opened struct {
	Session SessionID
	TTL     time.Duration
}

// Fixed: the session's lease ends For after now, and no renewal moves that end.
type Fixed struct {
	Session SessionID
	For     time.Duration
}

// Ended: the session's record is gone.
type Ended struct {
	Session SessionID
}

// Reheard: a session's silence is over (P5).
type Reheard struct {
	Session SessionID
}

func (Granted) isEvent() {}
func (Queued) isEvent()  {}
func (Done) isEvent()    {}
func (Refused) isEvent() {}
func (Opened) isEvent()  {}
func (Fixed) isEvent()   {}
func (Ended) isEvent()   {}
func (Reheard) isEvent() {}

// Reason is why a command was refused. The numbers are sent over the network: append only.
type Reason uint8

//go:generate go run golang.org/x/tools/cmd/stringer@v0.52.0 -type=Reason -linecomment

// The reasons.
const (
	// A Try that would have to wait.
	Locked Reason = iota + 1 // locked
	// The session or the grant is gone.
	Lost // lost
	// There is no record, and the command's revision is too old to open one (P12).
	Reopen // reopen
	// The key is in use with another kind or capacity (P38).
	Capacity // capacity
	// MaxWaiters requests wait already.
	Crowded // crowded
	// A late copy: the number was finished and acknowledged, or cancelled, before.
	Stale // stale
	// There is a record, opened by a command that knew of a later revision (P12).
	Behind // behind

	lastReason = Behind
)
