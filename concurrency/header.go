package concurrency

import (
	"errors"

	"github.com/lockmesh/mesh"
)

// ResponseHeader says when the mesh decided something. It has the fields of etcd's; a mesh has numbers for Revision only, and the
// others are zero.
type ResponseHeader struct {
	ClusterId uint64 //lint:ignore ST1003 as in etcd
	MemberId  uint64 //lint:ignore ST1003 as in etcd
	Revision  int64  // the fencing token: see [mesh.Lock.Token]; in a GetResponse, the ModRevision of its KeyValue
	RaftTerm  uint64
}

// Cmp is the condition that a session holds a lock: that the lock's key exists, and was created at a revision. In etcd a transaction
// checks such a condition beside the data. A mesh keeps no data, so the program calls Err before a write, and gives CreateRevision
// with the write to a store that refuses revisions lower than the highest it has seen.
type Cmp struct {
	Key            string // see [Mutex.Key]
	CreateRevision int64  // the fencing token

	hold    *hold
	session *Session
}

// Err returns nil while the condition holds, by the clock at this call; then ErrSessionExpired if the session has ended or the lock was
// broken, else ErrLockReleased. Of the zero Cmp it returns ErrLockReleased.
func (c Cmp) Err() error {
	if c.hold == nil {
		return ErrLockReleased
	}
	err := c.hold.Err()
	switch {
	case errors.Is(err, mesh.ErrLost) || c.session.inner.Err() != nil: // the locks of a session may end a moment after it
		return ErrSessionExpired
	case err != nil:
		return ErrLockReleased
	}
	return nil
}

// GetResponse says who leads: see [Election.Leader]. It has the fields of etcd's.
type GetResponse struct {
	Header *ResponseHeader
	Kvs    []*KeyValue // one
	More   bool        // false
	Count  int64       // of Kvs
}

// KeyValue is a leader. It has the fields of etcd's.
type KeyValue struct {
	Key            []byte // see [Election.Key]
	CreateRevision int64  // the fencing token: larger than those of all leaders before
	ModRevision    int64  // grows with each value of one leader
	Version        int64  // 1 for the value of Campaign; grows with each that was proclaimed
	Value          []byte
	Lease          int64 // [Session.Lease], if the session that was asked is the leader; else zero
}
