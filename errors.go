package mesh

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/lockmesh/mesh/internal/client"
	"github.com/lockmesh/mesh/internal/fault"
	"github.com/lockmesh/mesh/internal/node"
)

// Errors of Join, for errors.Is. The texts may change.
var (
	// ErrNoSeeds: no seed was listed, or blank ones only, and the node is not to be reached at loopback
	// only, so that it might be one of many that all would found a mesh alone.
	ErrNoSeeds = fault.ErrNoSeeds
	// ErrForeignMesh: the seeds belong to a mesh of another name, or to several meshes.
	ErrForeignMesh = fault.ErrForeignMesh
	// ErrNameTaken: a living node of the mesh has the name already.
	ErrNameTaken = fault.ErrNameTaken
	// ErrUnreachable: the mesh could not dial the node at the address that it advertises.
	ErrUnreachable = fault.ErrUnreachable
)

// Errors of input, for errors.Is. Nothing was sent and nothing has changed.
var (
	// ErrInvalidKey: a key has 1 to 1024 bytes.
	ErrInvalidKey = errors.New("mesh: invalid key")
	// ErrInvalidOption: an argument or an option is out of its range, or differs from
	// what the mesh was founded with. The text names it, its value and its range.
	ErrInvalidOption = node.ErrInvalidOption
	// ErrSelfDeadlock: the context comes from a lock of the same key and session, and
	// would wait for itself. See [Reentrant].
	ErrSelfDeadlock = errors.New("mesh: the context holds the key already")
	// ErrUpgrade: the context comes from a lock of the same key and session that holds
	// less than is wanted now: a write lock inside a read lock, for example.
	ErrUpgrade = errors.New("mesh: the context holds less of the key than is wanted")
)

// Errors of calls, for errors.Is.
var (
	// ErrLocked: TryLock and its like would have had to wait.
	ErrLocked = node.ErrLocked
	// ErrCapacityMismatch: somebody uses the key as another kind of thing: as a lock and
	// not a semaphore, or as a semaphore of another capacity.
	ErrCapacityMismatch = node.ErrCapacity
	// ErrTooManyWaiters: 65,536 requests wait for the key.
	ErrTooManyWaiters = node.ErrTooManyWaiters
	// ErrNoQuorum: no majority of the key's replicas answers.
	ErrNoQuorum = node.ErrNoQuorum
	// ErrLost: the lease ended before Unlock, for example while this node was cut off.
	// Somebody else may hold the key by now.
	ErrLost = node.ErrLost
	// ErrUnconfirmed: the release was sent, and no answer came. The node goes on repeating it,
	// also with each renewal of the session, until it is confirmed or the lease is over. The key
	// is free at the latest when the lease ends: soon after the lock's Deadline or, if an Extend
	// was not answered, after the later of the old and the new end.
	ErrUnconfirmed = node.ErrUnconfirmed
	// ErrClosed: the lock was unlocked, its session was closed, or the call came after the end of
	// its node. The locks that a node holds when it closes are ErrLost.
	ErrClosed = node.ErrClosed
	// ErrLeft: the node has left the mesh.
	ErrLeft = node.ErrLeft
	// ErrEjected: the node had founded a mesh of one, and a mesh that lists its address
	// lives. Join that one.
	ErrEjected = node.ErrEjected
)

// WaitError is a lock that was not to be had: what Lock, TryLock and their like return
// when their context ends or when they are refused. It unwraps to the context's error or
// to ErrLocked, for example, and to ErrNoQuorum too if the key's replicas did not answer.
type WaitError struct {
	Key    string
	Shard  int    // the shard that the key belongs to
	Leader string // the name of the node that leads it; "" if not known
	Holder string // the name of a node that holds the key; "" if not known
	Token  uint64 // of that hold
	Queued bool   // the request had its place in the queue
	Ahead  int    // requests before it when it was queued; -1 if they were too many to count

	err      error
	noQuorum bool
}

func newWaitError(key string, shard int, info client.WaitInfo, err error) *WaitError {
	e := &WaitError{
		Key: key, Shard: shard, Leader: info.Leader, Holder: info.Holder, Token: info.Token,
		Queued: info.Queued, Ahead: info.Ahead, err: err,
	}
	waited := errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
	e.noQuorum = waited && !info.Quorum
	return e
}

// Error implements error.
func (e *WaitError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "mesh: key %q (shard %d", brief(e.Key), e.Shard)
	if e.Leader != "" {
		fmt.Fprintf(&b, ", led by %s", e.Leader)
	}
	why := "no lock"
	if e.err != nil {
		why = strings.TrimPrefix(e.err.Error(), "mesh: ")
	}
	b.WriteString("): " + why)
	if e.noQuorum {
		b.WriteString("; " + strings.TrimPrefix(ErrNoQuorum.Error(), "mesh: "))
	}
	if e.Holder != "" {
		fmt.Fprintf(&b, "; held by %s with token %d", e.Holder, e.Token)
	}
	switch {
	case e.Queued && e.Ahead >= 0:
		fmt.Fprintf(&b, "; %d ahead in the queue", e.Ahead)
	case e.Queued:
		b.WriteString("; many ahead in the queue")
	}
	return b.String()
}

// Unwrap returns what errors.Is and errors.As look into.
func (e *WaitError) Unwrap() []error {
	switch {
	case e.err == nil:
		return nil // of the zero value
	case e.noQuorum:
		return []error{e.err, ErrNoQuorum}
	}
	return []error{e.err}
}

// invalid returns an ErrInvalidOption that names what is wrong, and what would be right.
func invalid(what string, got any, want string) error {
	return fmt.Errorf("%w: %s is %v, want %s", ErrInvalidOption, what, got, want)
}

// brief shortens a key for an error's text.
func brief(key string) string {
	const most = 64
	if len(key) <= most {
		return key
	}
	return key[:most] + "…"
}
