package shard

import "time"

// Event is one thing that the shard's leader must now tell the session's node, or
// note for its own books. Followers drop them.
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
// (Reopen and Behind aside: there the command was not looked at).
type Refused struct {
	Session SessionID
	Number  uint64
	Reason  Reason
	Holder  string // Locked: a holder's node, and its token
	Token   uint64
}

// Opened: the session has a record from now on.
type Opened struct {
	Session SessionID
	TTL     time.Duration
}

// Fixed: the session's lease ends For after now, and no renewal moves that.
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

// Reason tells why a command was refused. The numbers travel: append only.
type Reason uint8

//go:generate go run golang.org/x/tools/cmd/stringer@v0.52.0 -type=Reason -linecomment

// The reasons.
const (
	// A Try that would have to wait.
	Locked Reason = iota + 1 // locked
	// The session or the grant is gone.
	Lost // lost
	// No record, and the command's revision is too old to open one (P12).
	Reopen // reopen
	// The key is in use with another kind or capacity (P38).
	Capacity // capacity
	// MaxWaiters wait already.
	Crowded // crowded
	// The number was finished and acknowledged, or cancelled, before: a late copy.
	Stale // stale
	// There is a record, but opened by a command that knew more (P12).
	Behind // behind

	lastReason = Behind
)
