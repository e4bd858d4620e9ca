package concurrency

import (
	"errors"

	"github.com/lockmesh/mesh"
)

// ResponseHeader says when the mesh decided something. It has the fields of etcd's; a mesh has numbers for Revision only, and the
// others are zero.
type ResponseHeader struct {
	ClusterId uint64
	MemberId  uint64
	Revision  int64 // the fencing token: see [mesh.Lock.Token]
	RaftTerm  uint64
}

// Cmp is the condition that a session holds a lock: that the lock's key exists, and was created at a revision. In etcd a transaction
// checks such a condition beside the data. A mesh keeps no data, so the program calls Err before a write, and gives CreateRevision
// with the write to a store that refuses revisions lower than the highest it has seen.
type Cmp struct {
	Key            string // see [Mutex.Key]
	CreateRevision int64  // the fencing token

	lock    *mesh.Lock
	session *Session
}

// Err returns nil while the condition holds, by the clock at this call; then ErrSessionExpired if the session has ended, else
// ErrLockReleased. The zero Cmp is ErrLockReleased.
func (c Cmp) Err() error {
	if c.lock == nil {
		return ErrLockReleased
	}
	err := c.lock.Err()
	switch {
	case err == nil:
		return nil
	case errors.Is(err, mesh.ErrLost) || c.session.inner.Err() != nil:
		return ErrSessionExpired
	}
	return ErrLockReleased
}
