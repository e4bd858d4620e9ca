package client

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/lockmesh/mesh/internal/fault"
)

// Hold is one grant as the client sees it: the belief in it, that is, until when its holder may
// count on the key (P1). The client moves the deadline. The belief ends once: the client ends it,
// or the holder, or the node's watch, which looks at the clock.
//
// Its methods are safe for concurrent use.
type Hold struct {
	Key   string
	Token uint64 // the grant's fencing token
	Shard int
	Owner any // the driver's

	fixed    bool         // of fixed length; written before the holder has the hold
	deadline atomic.Int64 // on the environment's clock
	forsaken atomic.Bool

	mu    sync.Mutex
	cause error // why the belief is over; nil while it lasts

	// The client's:
	lease   *lease  // the client may have given it up since
	pending *Call   // the Lock, or the Unlock of a pull, whose caller does not know of the hold yet; nil: it does
	use     *use    // nil if it is none
	counts  bool    // it is a handle of the use
	timed   bool    // of fixed length, and its time runs: it is not renewed any more
	request Request // of the Lock; its Value is the latest

	sequence uint64 // of the last Proclaim

	broken   bool          // an operator has broken it
	brokenAt time.Duration // when that was heard

	unreported bool // its belief was over when the shard's generation changed
	vague      bool // a guest has claimed it, and request may not be what it is

	capacity int64 // of a semaphore: the one of which it was granted, if the table has said so; zero: that of request

	fingerprint uint64 // of what is held, if request is a claim, and may say something else; zero: it is not known, or it is what request says
}

// Is reports whether the hold is what q asks for, as far as that is known.
func (h *Hold) Is(q *Request) bool {
	return h.fingerprint == 0 || h.fingerprint == q.fingerprint() && (q.Mode != Permits || q.Capacity == h.capacity || q.Capacity == h.request.Capacity)
}

// Deadline returns the end of the belief, as far as it is confirmed, on the environment's clock.
func (h *Hold) Deadline() time.Duration { return time.Duration(h.deadline.Load()) }

// Pulls reports whether it is the hold of a pull, or the use that it made.
func (h *Hold) Pulls() bool { return h.request.pulls() }

// Once reports whether it is the hold of what is done once, and for how long a success is remembered.
func (h *Hold) Once() (retention time.Duration, ok bool) {
	m, ok := h.request.done()
	return m.Remains, ok
}

// User returns the name of the user of a resource, or "".
func (h *Hold) User() string {
	if h.use == nil {
		return ""
	}
	return h.use.user
}

// Fixed reports whether the hold is of fixed length (P7): its lease is its own, and ends by a Fix, also if that is not sent yet.
func (h *Hold) Fixed() bool { return h.fixed }

// Err returns why the belief was ended: ErrLost, ErrBroken or ErrClosed; nil while it lasts. It does not
// look at the clock.
func (h *Hold) Err() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.cause
}

// End ends the belief if its deadline has passed at the time now, and reports whether this call
// ended it. The answer to a Fix cannot move the deadline meanwhile: fix takes the mutex. The answer to
// a renewal can. Then the next answer finds the hold lost, and the lease is given up.
func (h *Hold) End(now time.Duration, cause error) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.cause != nil || now < h.Deadline() {
		return false
	}
	h.cause = cause
	return true
}

// Forsake tells the client that no handle of a hold of fixed length is left: nothing can give the
// hold back, or see its end.
func (h *Hold) Forsake() { h.forsaken.Store(true) }

// Forsaken reports whether Forsake was called.
func (h *Hold) Forsaken() bool { return h.forsaken.Load() }

func (h *Hold) lost() bool { return h.Err() == fault.ErrLost }

// fix moves the deadline of a hold of fixed length, and reports whether its holder may use it:
// not if it was told of a loss.
func (h *Hold) fix(to time.Duration) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.cause == fault.ErrLost {
		return false
	}
	h.deadline.Store(int64(to))
	return true
}
