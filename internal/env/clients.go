package env

import (
	"time"

	"github.com/lockmesh/mesh/transport"
)

// Clients hears what the callers of nodes ask for, what they are told, and what they
// believe: where the call begins, and where it returns. So a simulation can judge a mesh
// by what its users see, and they need not report anything.
//
// Its methods, and those of what it returns, must not block, and must not call the node.
type Clients interface {
	// Called: somebody is about to ask a node for a key.
	Called(node transport.ID, ask Ask) Caller
}

// Ask is what a call asks for.
type Ask struct {
	Key              string
	Weight, Capacity int64         // a lock is all of its key, a reader one part of it
	MaxHold          time.Duration // zero: renewed until it is released
}

// Caller hears how its call ends.
type Caller interface {
	// Returned: the caller is about to be told. On an error there is no hold.
	Returned(hold Hold, err error) Holder
}

// Hold can be asked what its holder believes. To ask changes nothing.
type Hold interface {
	Token() uint64
	Deadline() time.Time
	// Over reports whether the belief was ended. It does not look at the clock.
	Over() bool
}

// Holder hears of a hold's fate.
type Holder interface {
	// Renewed: the deadline has moved on.
	Renewed()
	// Ended: the belief is over. Excused: that may be before the deadline, since the
	// hold shares the fate of a user's session that has ended, or of a node that has.
	Ended(excused bool)
	// Unlocking: a release is about to be sent, by Unlock or by the session's Close.
	Unlocking()
	// Unlocked: the Unlock is about to return.
	Unlocked(err error)
	// Extending: the fixed end is about to be moved to d from now; Extended: it was, or not.
	Extending(d time.Duration)
	Extended(d time.Duration, err error)
	// Shared: so many handles share the hold now.
	Shared(handles int)
}
