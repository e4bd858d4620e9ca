package mesh

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/lockmesh/mesh/internal/client"
	"github.com/lockmesh/mesh/internal/fault"
	"github.com/lockmesh/mesh/ring"
)

// Errors of Join, for errors.Is. The texts may change.
var (
	// ErrNoSeeds: no seed was listed, or only blank ones, and neither WithFound nor WithDiscovery was given. Without
	// seeds, every node of a fleet would found a mesh of its own.
	ErrNoSeeds = fault.ErrNoSeeds
	// ErrForeignMesh: the seeds or the state directory belong to a mesh with another name.
	ErrForeignMesh = fault.ErrForeignMesh
	// ErrNameTaken: a living node of the mesh already has the name.
	ErrNameTaken = fault.ErrNameTaken
	// ErrEntryTaken: another node answers at the entry that this node has found to be its own.
	ErrEntryTaken = fault.ErrEntryTaken
	// ErrCoreDiffers: a node at an entry of this node's list belongs to another mesh of the same name, which serves, and whose list
	// shares no entry with this node's. The text names both lists.
	ErrCoreDiffers = fault.ErrCoreDiffers
)

// ErrNotFounded: the node cannot serve yet: its mesh is not founded, or the node has not joined it. The text says
// what the node waits for. Nothing was sent, and the next call on a node of [Start] may succeed.
var ErrNotFounded = fault.ErrNotFounded

// Errors of operators' calls, for errors.Is; ErrNoQuorum is one as well. After ErrAlive, ErrUnfinished and ErrNoQuorum the core may still
// decide what was asked for. What has come of the order, each call says of its errors.
var (
	// ErrNoSeat: the node has no seat in the core, and so cannot take this order: ask a node of the core.
	ErrNoSeat = fault.ErrNoSeat
	// ErrAlive: the node that was declared dead is connected with a node of the core.
	ErrAlive = fault.ErrAlive
	// ErrUnchanged: the list of the core cannot be changed in this way: see [Node.ChangeCore].
	ErrUnchanged = fault.ErrUnchanged
	// ErrUnfinished: the list of the core has not changed in time, or not all nodes have saved it yet. The core may still go on with it.
	ErrUnfinished = fault.ErrUnfinished
	// ErrNotQuiet: no shard is quiet, so there is no quiet time to end.
	ErrNotQuiet = fault.ErrNotQuiet
	// ErrChanged: what the call is about has changed meanwhile. The text says what.
	ErrChanged = fault.ErrChanged
)

// Errors of arguments, for errors.Is. Nothing was sent and nothing has changed. But ErrInvalidOption may also be the mesh's answer, to
// Join or SetMaxTTL for example, or the reason for which a node has ended: see [Node.Err].
var (
	// ErrInvalidKey: the key is empty, or longer than 1024 bytes.
	ErrInvalidKey = errors.New("mesh: invalid key")
	// ErrInvalidOption: an argument or an option is out of range, or differs from what the
	// mesh was founded with. The text names it, its value and its range.
	ErrInvalidOption = fault.ErrInvalidOption
	// ErrSelfDeadlock: the context comes from a lock, an operation, a leadership or a passage of the same key and session, so the
	// call would wait for its own caller. LockAll also returns it if the key of that one is not before all keys that LockAll asks for.
	// See [Reentrant].
	ErrSelfDeadlock = errors.New("mesh: the context holds the key already")
	// ErrUpgrade: the context comes from a lock of the same key and session that holds
	// less than the call requests: a write lock inside a read lock, for example.
	ErrUpgrade = errors.New("mesh: the context holds less of the key than requested")
)

// Errors of calls, for errors.Is.
var (
	// ErrLocked: TryLock and its like would have had to wait for other callers.
	ErrLocked = fault.ErrLocked
	// ErrQuiet: TryLock and its like, Resize, Break or Election.Leader asked a shard that grants nothing yet: some callers may still
	// believe in locks that an earlier mesh granted, or the shard itself before it lost its majority. It is not ErrLocked: perhaps nobody
	// holds the key or waits for it. See [WithMaxTTL].
	ErrQuiet = fault.ErrQuiet
	// ErrNoLeader: nobody leads the election: see [Election.Leader].
	ErrNoLeader = fault.ErrNoLeader
	// ErrInUse: a resource is used, and the operation must not run then: see [InUseError].
	ErrInUse = fault.ErrInUse
	// ErrFailed: [Node.Once] has failed as often as [Attempts] allows.
	ErrFailed = fault.ErrFailed
	// ErrCapacityMismatch: the key is in use as something else than the call takes it for (a lock, a semaphore, a resource, an election, a
	// latch, a barrier, or for Once); or as a semaphore, a latch or a barrier with another capacity or number. Also if
	// more permits are wanted than a semaphore has by now: see [Node.Resize].
	ErrCapacityMismatch = fault.ErrCapacity
	// ErrTooManyWaiters: 65,536 requests already wait for the key, or the resource has as many uses.
	ErrTooManyWaiters = fault.ErrTooManyWaiters
	// ErrNoQuorum: no majority of the key's replicas answers; or, in operators' calls and ListMembers, no majority of the core answers, or
	// is left for what was asked. The text says which.
	ErrNoQuorum = fault.ErrNoQuorum
	// ErrLost: the lease ended before Unlock, for example while this node was cut off.
	// Another caller may hold the key by now.
	ErrLost = fault.ErrLost
	// ErrBroken: an operator has broken the lock: see [Node.Break]. It is an ErrLost, too, for errors.Is.
	ErrBroken = fault.ErrBroken
	// ErrNotHeld: nobody holds the key under the token that Break names.
	ErrNotHeld = fault.ErrNotHeld
	// ErrTooManyBroken: 64 other grants of the holder's session are broken, and its node has not given them back: see [Node.Break].
	ErrTooManyBroken = fault.ErrTooManyBroken
	// ErrUnconfirmed: the release was sent, and no answer came. The node keeps retrying, also
	// with each renewal of the session, until the release is confirmed or the lease has ended.
	// The key is free at the latest when the lease ends: soon after the lock's Deadline or, if
	// an Extend was not answered, after the later of the old and the new end.
	// Other calls return it as well, [Node.Resize] for example: their documentation says what it means.
	ErrUnconfirmed = fault.ErrUnconfirmed
	// ErrClosed: the lock was unlocked, its session was closed, or the node of the call leaves, or
	// has ended. Locks that a node holds when it is closed are ErrLost.
	ErrClosed = fault.ErrClosed
	// ErrHung: a loop of the node has done nothing for 10 s: see [Node.Live].
	ErrHung = fault.ErrHung
	// ErrLeft: the node has left the mesh.
	ErrLeft = fault.ErrLeft
	// ErrEjected: the node cannot go on as a part of its mesh. The text says why: for example, another process
	// answers at its entry of the list, or its core founded a mesh anew with other parameters.
	ErrEjected = fault.ErrEjected
)

// WaitError is the error of Lock, TryLock and the other acquiring calls when their context
// ends or when they are refused. It unwraps to the context's error or, for example, to
// ErrLocked or ErrQuiet; when the context has ended, also to ErrNoQuorum if the key's replicas had not answered for 2 s.
type WaitError struct {
	Key    string
	Shard  int    // the shard that the key belongs to
	Leader string // the name of the node that leads the shard; "" if not known
	Holder string // who held the key, or one of several, when the request was queued or refused: a node's name, or a guest's (lockhttp); "" if not known
	Token  uint64 // of Holder's grant
	Queued bool   // the request had entered the queue
	Ahead  int    // requests ahead of it when it was queued; -1 if there were too many to count

	// Quiet is for how much longer, from when the call failed, the shard is expected to grant nothing: what
	// the shard's leader said, less the time since. The mesh is new, or the shard has lost a majority of its replicas and begun again.
	// Zero: the shard may grant, or has not answered. See WithMaxTTL.
	Quiet time.Duration

	err      error
	noQuorum bool
	mode     client.Mode
}

func (s *Session) waitError(key string, info *client.WaitInfo, err error) *WaitError {
	err = deadlockOf(err)
	waited := errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
	return &WaitError{
		Key: key, Shard: ring.Shard(key, s.config.shards), Leader: info.Leader, Holder: info.Holder, Token: info.Token,
		Queued: info.Queued, Ahead: info.Ahead, Quiet: info.Quiet, err: err, noQuorum: waited && !info.Quorum, mode: info.Mode,
	}
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
	if e.noQuorum && e.Leader == "" {
		b.WriteString(", and no leader of the shard is known")
	}
	if why := e.occupied(); why != "" {
		b.WriteString("; " + why)
	}
	switch {
	case e.Queued && e.Ahead >= 0:
		fmt.Fprintf(&b, "; %d ahead in the queue", e.Ahead)
	case e.Queued:
		b.WriteString("; many ahead in the queue")
	}
	if e.Quiet > 0 {
		fmt.Fprintf(&b, "; the shard grants nothing for another %v", e.Quiet.Round(time.Millisecond))
	}
	return b.String()
}

// occupied says who or what keeps the request waiting, as far as the shard has said.
func (e *WaitError) occupied() string {
	does := "held"
	switch {
	case e.Holder == "" && e.Quiet > 0:
		return "" // nobody knows yet
	case e.Holder == "" && e.Queued && e.mode == client.Waits:
		return "the latch is not open"
	case e.Holder == "" && e.Queued && e.mode == client.Enters:
		return "not all members have come to the barrier"
	case e.Holder == "":
		return ""
	case errors.Is(e.err, ErrCapacityMismatch): // and not as what the call took the key for
	case errors.Is(e.err, ErrInUse):
		does = "used"
	case e.mode == client.Operates:
		does = "an operation is run"
	case e.mode == client.Elects:
		does = "led"
	case e.mode == client.Enters:
		return fmt.Sprintf("the round before is not over: one inside is of %s, with token %d", e.Holder, e.Token)
	}
	return fmt.Sprintf("%s by %s with token %d", does, e.Holder, e.Token)
}

// Unwrap returns the causes, for errors.Is and errors.As.
func (e *WaitError) Unwrap() []error {
	switch {
	case e.err == nil:
		return nil // of the zero value
	case e.noQuorum:
		return []error{e.err, ErrNoQuorum}
	}
	return []error{e.err}
}

// invalid returns an ErrInvalidOption that names an argument, its value and its valid range.
func invalid(what string, got any, want string) error {
	return fmt.Errorf("%w: %s is %v, want %s", ErrInvalidOption, what, got, want)
}

// checkCall returns the error of every call without a context, or on a receiver that is zero or nil; else nil.
func checkCall(ctx context.Context, zero bool) error {
	switch {
	case ctx == nil:
		return invalid("the context", "nil", "a context")
	case zero:
		return ErrClosed
	}
	return nil
}

// invalidOption is invalid for a nil among options.
func invalidOption(index int, want string) error {
	return invalid(fmt.Sprintf("option %d", index+1), "nil", want)
}

// apply applies options, up to the first that is not valid.
func apply[T any, O ~func(*T) error](to *T, opts []O, what string) error {
	for i, opt := range opts {
		if opt == nil {
			return invalidOption(i, what)
		}
		if err := opt(to); err != nil {
			return err
		}
	}
	return nil
}

// joined returns a function's error, joined with that of the end of its lock, unless the one is the other.
func joined(err, end error) error {
	switch {
	case err == nil:
		return end
	case end == nil || errors.Is(err, end):
		return err
	}
	return errors.Join(err, end)
}

// brief shortens a text to 64 bytes for an error message.
func brief(key string) string {
	const most = 64
	if len(key) <= most {
		return key
	}
	n := most
	for n > most-utf8.UTFMax && !utf8.RuneStart(key[n]) {
		n--
	}
	return key[:n] + "…"
}
