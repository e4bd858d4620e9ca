// Package fault holds the error sentinels that several internal packages return and
// package mesh exports, so that those packages need not import one another.
package fault

import "errors"

// Errors of Join. The texts may change.
var (
	// ErrInvalidOption: an option is out of its range, or differs from what the
	// mesh was founded with.
	ErrInvalidOption = errors.New("mesh: invalid option")
	// ErrNoSeeds: no seed was listed, and the node may not found a mesh alone.
	ErrNoSeeds = errors.New("mesh: no seeds")
	// ErrForeignMesh: the node met a mesh that is not its own, or found one in its state directory.
	ErrForeignMesh = errors.New("mesh: foreign mesh")
	// ErrNameTaken: a living node answers to the wanted name.
	ErrNameTaken = errors.New("mesh: name taken by a living node")
	// ErrEntryTaken: another node answers at the node's entry in the list.
	ErrEntryTaken = errors.New("mesh: entry taken by another node")
	// ErrCoreDiffers: two meshes of one name have lists without a common entry.
	ErrCoreDiffers = errors.New("mesh: another mesh of this name has none of these entries")
	// ErrNotFounded: the node cannot serve yet.
	ErrNotFounded = errors.New("mesh: not founded, or not joined yet")
)

// Errors of operators' calls.
var (
	// ErrNoSeat: the node has no seat in the core.
	ErrNoSeat = errors.New("mesh: no seat in the core")
	// ErrAlive: the node that was declared dead is connected.
	ErrAlive = errors.New("mesh: the node lives")
	// ErrUnchanged: the list of the core cannot be changed so.
	ErrUnchanged = errors.New("mesh: the list of the core is not changed")
	// ErrUnfinished: the list of the core has not changed yet, or not on all nodes.
	ErrUnfinished = errors.New("mesh: the change of the core's list is not finished")
	// ErrNotQuiet: no shard is quiet.
	ErrNotQuiet = errors.New("mesh: no shard is quiet")
	// ErrChanged: what an operator spoke of has changed meanwhile.
	ErrChanged = errors.New("mesh: what the call is about has changed meanwhile")
)

// What a node ends with, beside ErrClosed.
var (
	// ErrLeft: the node left the mesh.
	ErrLeft = errors.New("mesh: node left the mesh")
	// ErrHung: a loop of the node does nothing any more.
	ErrHung = errors.New("mesh: the node hangs")
	// ErrEjected: the node cannot go on as a part of its mesh.
	ErrEjected = errors.New("mesh: node was ejected from the mesh")
)

// Errors of calls.
var (
	// ErrLocked: a call that does not wait would have had to.
	ErrLocked = errors.New("mesh: the call would have to wait")
	// ErrQuiet: a call that does not wait, and its shard grants nothing yet.
	ErrQuiet = errors.New("mesh: the quiet time is not over")
	// ErrNoLeader: nobody leads the election.
	ErrNoLeader = errors.New("mesh: no leader")
	// ErrInUse: an operation that is to run alone, on a resource that is used.
	ErrInUse = errors.New("mesh: the resource is used")
	// ErrFailed: what is done once has failed as often as the caller allows.
	ErrFailed = errors.New("mesh: the job has failed too often")
	// ErrNotHeld: nobody holds the key under the token that an operator names; or a guest claims a request that it has not made, or whose
	// end is forgotten.
	ErrNotHeld = errors.New("mesh: not held")
	// ErrLost: the lease ended before the release.
	ErrLost = errors.New("mesh: lock lost")
	// ErrNoQuorum: no majority answers, or is left: of the shard's replicas, or of the core.
	ErrNoQuorum = errors.New("mesh: no quorum")
	// ErrClosed: the lock was unlocked, or its session or node was closed.
	ErrClosed = errors.New("mesh: closed")
	// ErrCapacity: the key is in use with another kind or capacity.
	ErrCapacity = errors.New("mesh: the key is in use with another kind or capacity")
	// ErrTooManyWaiters: no more requests may wait for the key, or the resource has too many uses.
	ErrTooManyWaiters = errors.New("mesh: too many waiters for the key, or uses of the resource")
	// ErrDeadlock: a call was in a circle of calls that wait for each other, and has given up.
	ErrDeadlock = errors.New("mesh: deadlock")
	// ErrUnconfirmed: a release was sent, and not confirmed.
	ErrUnconfirmed = errors.New("mesh: sent, not confirmed")
	// ErrBroken: an operator has broken the grant. It is an ErrLost, too.
	ErrBroken error = broken{}
	// ErrTooManyBroken: too many grants of the session are broken, and not given back.
	ErrTooManyBroken = errors.New("mesh: too many broken grants of one session")
)

// broken is the type of ErrBroken: who looks for ErrLost alone stops as well.
type broken struct{}

func (broken) Error() string        { return "mesh: lock broken by an operator" }
func (broken) Is(target error) bool { return target == ErrLost }
