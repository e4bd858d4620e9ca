package client

import (
	"time"

	"github.com/lockmesh/mesh/internal/env"
	"github.com/lockmesh/mesh/shard"
)

// Kind says what a call is for.
type Kind uint8

// The kinds of calls. A caller makes a Lock, an Unlock, a Fix, a Drop, an Ask, a Proclaim, an Arrive, a Carry, a Hear,
// a Confirm, a Downgrade, a Resize, a Break or a Waive.
const (
	Lock      Kind = iota // wait for a key
	Cancel                // undo a Lock whose caller has given up
	Unlock                // give a hold back
	Fix                   // make a hold of fixed length end Length from now (P7)
	Close                 // end a lease, with all that it holds
	Report                // ask the table of a new generation for a hold (C8)
	Drop                  // end a user's use of a resource (P39)
	Ask                   // ask who uses a resource, who leads an election, or what is known of keys (P48)
	Remember              // tell the table of a new generation of a durable use that the one before had
	Proclaim              // give a leadership another value
	Recall                // tell the table of a new generation what the one before remembered (P43, P44)
	Arrive                // arrive at a latch (P44)
	Carry                 // carry a guest on, in one shard (P42)
	Hear                  // renew a guest's session
	Confirm               // a Hear that waits until the guest's home shard, and others, confirm what was known before it
	Downgrade             // make a writer's hold a reader's (P47)
	Resize                // change a semaphore's capacity (P38)
	Break                 // break a grant, for an operator (P49)
	Waive                 // give a broken grant back of which there is no hold
)

// Call is one command on its way to a shard and back. A caller fills in the first part, hands the
// call over with Start, and has it back when Finished names it.
type Call struct {
	Kind    Kind
	Shard   int
	Session *Session          // of a Lock, Break, Resize, Drop, Arrive, Remember, Recall, Hear and Confirm, and of a Waive or a Carry that a caller made
	Request Request           // of a Lock; of a Drop: its key, and its Operation's user; of an Ask: its key, and Elects; of a Proclaim: its Value
	Inspect *shard.Inspection // of an Ask what is known of keys
	Arrival shard.Memory      // of an Arrive: the latch, who arrives, and for how long that is remembered
	From    int64             // of a Resize: what the capacity is to be before; its Request has the key, and the Capacity that it is to be
	Grant   uint64            // of a Break and a Waive: the token; its Request has the key
	Why     string            // of a Break: for logs
	Length  time.Duration     // of a Fix; of a Report: the time that was left of a hold of fixed length at its first sending
	Hold    *Hold             // of an Unlock, a Fix, a Proclaim and a Downgrade; the result of a Lock
	Failed  bool              // of the Unlock of an operation: it failed
	Only    bool              // of a Carry: only if there is something to carry on
	Shards  []int             // of a Confirm: those beside the guest's home; where the session has no lease, there is nothing to confirm
	Parker  env.Parker        // the driver's: where the caller waits, if one does
	Owner   any               // the driver's

	Err     error       // the result
	Skipped bool        // of a Lock: its operation was done already; then Hold is a use, if it was a pull, else nil
	Use     *Hold       // of the Unlock of a pull that did not fail
	Refs    []shard.Ref // of an Ask who uses a resource
	Now     int64       // of a Resize that is refused: the present capacity; zero: it is not known, or there is none
	Leader  Leader      // of an Ask who leads an election
	Page    Page        // of an Ask with an Inspection
	Info    WaitInfo    // of a Lock: what was known
	None    bool        // of a Carry: there was nothing to carry on
	Ended   bool        // of a claim: what it claims has ended; then stamp is its token
	Undo    *Call       // of a Lock that was abandoned: the Cancel, with the same Owner; nil: the table need not be told

	lease    *lease
	number   uint64        // in the lease; of an Ask: in the client
	target   uint64        // of a Cancel: the number of the Lock, whose Request it has
	stamp    uint64        // of a Remember; of a Drop: a later use stays; of a Lock, and of its Cancel: the use that it made, if known; of a Carry: the carrier; zero: none
	several  bool          // of a Remember: see shard.Durable
	memory   memory        // of a Recall and an Arrive
	lone     uint64        // of what drops a use: a later one that outlived its session stays
	vain     uint64        // but for one with this stamp, which nobody has had
	sequence uint64        // of a Proclaim
	dropped  uint64        // of what makes a use: a Drop names this stamp
	command  shard.Command // made when it is first sent
	raw      []byte        // its wire form
	acks     []uint64      // the acknowledgements that it carries
	first    time.Duration // when it was first sent
	retryAt  time.Duration
	tries
	entered uint64 // of a Lock: the revision at which it entered the queue, once it is known
	queued  bool   // it is in the shard's queue
	reports bool   // a Lock: it asks for the place that it had in an earlier generation
	fixing  bool   // a Lock: it is granted, and its fixed time is asked for
	over    bool   // it has its result
	leaves  bool   // an Unlock whose caller does not wait any more

	awaits []awaited // of a Confirm
	search *search   // of a Lock that looks for a deadlock, and of its questions

	quietUntil time.Duration // when the shard is expected to grant, as it last said (P27)
}

// Mode says how much of a key a request wants.
type Mode uint8

// The modes.
const (
	Exclusive Mode = iota // a lock, the whole of it
	Shared                // a lock, beside other readers
	Permits               // a semaphore's permits
	Operates              // an operation on a resource
	Uses                  // a use of one; no request asks for it
	Elects                // to lead an election
	Waits                 // until a latch is open
	Enters                // a barrier
)

// Request is what a Lock asks for. Package mesh checks it.
type Request struct {
	Key      string
	Mode     Mode
	Weight   int64 // Permits only
	Capacity int64 // Permits, Waits and Enters
	Try      bool  // do not wait
	Value    []byte
	MaxHold  time.Duration // zero: renewed until it is given back
	Alone    bool          // the hold has a lease of its own, as with MaxHold, and is renewed until its caller's first Fix

	Operation *shard.Operation // Operates only

	Within  []shard.Grant // the grants that the caller's context comes from, in no order, none twice, MaxWithin at most
	Detects bool          // the caller wants to know of a deadlock

	Tag   string // of a guest's: names it, among those for its key
	Claim bool   // only if the guest has asked for it before
	Held  uint64 // the token under which it holds that, by its own word: to be reported to a table that has lost it (C8)
}

// pulls reports whether the request makes its session use a resource.
func (q *Request) pulls() bool { return q.Operation != nil && q.Operation.Op == shard.Pull }

// alone reports whether the hold is to have a lease of its own (P7).
func (q *Request) alone() bool { return q.Alone || q.MaxHold > 0 }

// Share returns how much of the key the request wants, and the key's whole capacity as the request names it.
func (q *Request) Share() (weight, capacity int64) {
	switch {
	case q.Operation != nil || q.Mode == Elects:
		return 1, 1
	case q.Mode == Shared:
		return 1, shard.Whole
	case q.Mode == Permits:
		return q.Weight, q.Capacity
	case q.Mode == Waits || q.Mode == Enters:
		return 1, q.Capacity
	}
	return shard.Whole, shard.Whole
}

// fingerprint returns the hash of what the request asks for.
func (q *Request) fingerprint() uint64 {
	weight, capacity := q.Share()
	return shard.Fingerprint(q.kind(), weight, capacity, q.Operation)
}

// tag names a request of a guest. The zero tag names none.
type tag struct{ key, tag string }

func (q *Request) tag() (t tag) {
	if q.Tag != "" {
		t = tag{q.Key, q.Tag}
	}
	return t
}

// kind returns what the key is for the request.
func (q *Request) kind() shard.Kind {
	switch {
	case q.Operation != nil && q.Operation.Op == shard.Run:
		return shard.Once
	case q.Operation != nil:
		return shard.Resource
	case q.Mode == Permits:
		return shard.Semaphore
	case q.Mode == Elects:
		return shard.Election
	case q.Mode == Waits:
		return shard.Latch
	case q.Mode == Enters:
		return shard.Barrier
	}
	return shard.RW
}

// WaitInfo is what is known of a Lock that did not become a hold.
type WaitInfo struct {
	Holder string // the name of the node that holds the key, as far as known
	Token  uint64 // the holder's
	Ahead  int    // requests before this one in the queue
	Queued bool   // the request was in the queue
	Leader string // the shard's leader, as far as known
	Quorum bool   // nothing shows that the shard has no majority: see fill

	Quiet time.Duration // for how much longer the shard is expected to grant nothing (P27)
	Mode  Mode          // of the request
}
