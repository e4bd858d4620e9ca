package client

import (
	"sync"
	"time"
)

// Session groups several holds: the node's own session, or a user's. In each shard it has a lease.
// The node's own session, if it loses the lease of a shard, loses what it holds there, and goes on.
// A user's session ends as a whole: a lease lost in one shard ends it in all (P9).
//
// Its methods are safe for concurrent use.
type Session struct {
	Own bool          // the node's own
	TTL time.Duration // of its leases

	Guest string // the name of the guest that this node carries (P42); else empty

	Owner any // the driver's

	// The client's, of a guest's session:
	carrier uint64        // the number of this node as the guest's carrier; zero until the guest's home shard has given it
	home    int           // that shard
	heard   time.Duration // when the guest made its last request
	unsure  time.Duration // until when what this node knows of the guest need not be what the guest has: see carries
	leases  []*lease      // by the order in which they began
	owes    []owed        // its broken grants (P49)
	hears   []*Call       // each a Hear or a Confirm without a result

	mu  sync.Mutex
	err error
}

// NewSession returns a session that lives.
func NewSession(own bool, ttl time.Duration) *Session { return &Session{Own: own, TTL: ttl} }

// Err returns why the session ended; nil while it lives.
func (s *Session) Err() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err
}

// End ends the session, and reports whether it lived. The first cause counts.
func (s *Session) End(cause error) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		return false
	}
	s.err = cause
	return true
}
