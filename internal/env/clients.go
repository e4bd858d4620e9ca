package env

import (
	"errors"
	"time"

	"github.com/lockmesh/mesh/shard"
	"github.com/lockmesh/mesh/transport"
)

// Clients observes the calls of nodes: what callers ask for, what is returned to them,
// which locks they may believe they hold, and what they are told of elections. So a simulation can check a mesh by what its users
// see, and users need not report anything.
//
// Its methods, and those of what it returns, must not block, and must not call the node.
type Clients interface {
	// Called: a caller is about to ask a node for a key.
	Called(node transport.ID, ask Ask) Caller
	// Asks: a caller is about to ask a node who leads an election. Answered is called if it is about to be told.
	Asks(node transport.ID, key string) (answered func(Elected))
	// Looks: a caller is about to ask what is known of keys. Answered is called with each page that comes, before the caller is told.
	Looks(node transport.ID) (answered func(shard.Page))
	// Observes: a caller begins to observe an election. A state that was not confirmed for as long as lasts is not known any more.
	Observes(node transport.ID, key string, lasts time.Duration) Watcher
	// Resizes: a caller is about to ask for another capacity of a semaphore (P38).
	Resizes(node transport.ID, key string, from, to int64)
	// Abandons: a caller has abandoned a session, and is about to lose what that holds.
	Abandons(node transport.ID)
	// Breaks: an operator is about to break a grant (P49).
	Breaks(node transport.ID, key string, token uint64)
}

// Elected is what a caller is told of an election's leader (P46).
type Elected struct {
	Unknown         bool   // it is not known whether there is a leader
	Token, Sequence uint64 // zero: there is none; it has proclaimed nothing
	Value           string
}

// Watcher observes what one observer of an election is told.
type Watcher interface {
	// Told: this is the latest, and what was not taken before is dropped.
	Told(Elected)
	// Over: nobody looks any more.
	Over()
}

// Ask is what a call asks for.
type Ask struct {
	Key              string
	Weight, Capacity int64         // a lock is all of its key, a reader one part of it
	MaxHold          time.Duration // zero: renewed until it is released
	Once             bool          // to do what is done once (P43): a call that is skipped returns ErrSkipped
	Use              bool          // of a resource: a node that leaves does not wait for its end (P39)
	Leads            bool          // to lead an election (P46)
}

// ErrSkipped is what a Caller is told of a call that has no hold, as what it asked for was done, or became something else.
var ErrSkipped = errors.New("skipped")

// UsesOf names, for observers, who may use a resource (P39): its users share that, and an operation that must run alone has all of it.
func UsesOf(key string) string { return key + " (uses)" }

// Caller observes how a call ends.
type Caller interface {
	// Returned: the call is about to return. On an error there is no hold.
	Returned(hold Hold, err error) Holder
}

// Hold is a lock as its holder sees it. Its methods have no effect.
type Hold interface {
	Token() uint64
	Deadline() time.Time
	// Over reports whether the hold was ended. It does not look at the clock.
	Over() bool
}

// Holder observes what becomes of a hold.
type Holder interface {
	// Renewed: the deadline has moved on.
	Renewed()
	// Ended: the hold is over. Excused: it may end before its deadline, since the user's
	// session or the node that it belongs to has ended.
	Ended(excused bool)
	// Broken: the holder is about to be told that an operator has broken the grant (P49). Ended follows.
	Broken()
	// Unlocking: a release is about to be sent, by Unlock or by the session's Close.
	Unlocking()
	// Succeeding: the Unlocking that follows ends the run of a Once with success, which is to be remembered for retention (P43).
	Succeeding(retention time.Duration)
	// Proclaimed: the leadership's value is the one with this sequence now, or a later one (P46).
	Proclaimed(sequence uint64)
	// Downgrading: the hold is a reader's from now on, and a Downgrade is about to be sent; Downgraded: the call is about to return (P47).
	Downgrading()
	Downgraded(err error)
	// Unlocked: the Unlock is about to return.
	Unlocked(err error)
	// Extending: the fixed end is about to be moved to d from now; Extended: it was, or not.
	Extending(d time.Duration)
	Extended(d time.Duration, err error)
	// Shared: handles is how many handles share the hold now.
	Shared(handles int)
}
