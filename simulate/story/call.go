package story

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/lockmesh/mesh"
	"github.com/lockmesh/mesh/simulate"
)

// request is what a caller asks for.
type request struct {
	key      string // as the story calls it
	mode     mode
	n, of    int64 // permits
	hold     time.Duration
	patience time.Duration
	value    []byte
	session  *session
	as       string // the name of the call; default: the key

	outer     *call // by whose context it calls
	reentrant bool
}

// mode is how a key is taken.
type mode uint8

const (
	locks mode = iota
	triesToLock
	reads
	triesToRead
	permits
	triesPermits
)

// session is a session that a sentence opened.
type session struct {
	*mesh.Session
	err error
}

// call is a caller that wants a key.
type call struct {
	caller
	request
	real string // the key, as the mesh knows it

	lock        *mesh.Lock
	downgrading chan struct{} // closed when lock is the reader's
	granted     time.Duration // when Lock returned
	told        time.Duration // when the hold ended before its unlock; zero: it did not
	left        time.Duration // when it began to unlock; zero: not yet
	hasty       bool          // does not wait for the answer to its unlock
	undone      error         // what Unlock returned
}

// take lets a caller on a host ask for something.
func (t *teller) take(host string, r request) *call {
	c := &call{request: r, real: t.plan.key(r.key)}
	t.begin(c, host, "caller of", cmp.Or(r.as, r.key), c.run)
	return c
}

// haste is how long a hasty caller waits for the answer to an unlock, which never comes so fast.
const haste = 100 * time.Microsecond

func (c *call) run(ctx context.Context, n *mesh.Node) {
	wait := c.patient
	if c.patience > 0 {
		var cancel context.CancelFunc
		wait, cancel = simulate.WithTimeout(wait, c.patience)
		defer cancel()
	}
	if c.outer != nil {
		wait = c.outer.lock.WithContext(wait)
	}
	c.lock, c.err = c.ask(wait, n)
	c.answered, c.granted = true, c.stage.Now()
	if c.err != nil {
		return
	}
	// It works until it is told to stop, and does not ask: to ask would end a lock that
	// is lost, and hide that the caller was not told.
	for {
		_ = simulate.Wait(c.lock.WithContext(c.patient), nil)
		if c.downgrading == nil || c.patient.Err() != nil {
			break
		}
		_ = simulate.Wait(c.patient, c.downgrading) // then it has another lock
		c.downgrading = nil
	}
	if c.lock.Context().Err() != nil {
		c.told = c.stage.Now()
	}
	c.left = c.stage.Now()
	if c.hasty {
		var stop context.CancelFunc
		ctx, stop = simulate.WithTimeout(ctx, haste)
		defer stop()
	}
	c.undone = c.lock.Unlock(ctx)
}

// ask makes the call.
func (c *call) ask(ctx context.Context, n *mesh.Node) (*mesh.Lock, error) {
	var opts []mesh.LockOption
	if c.hold > 0 {
		opts = append(opts, mesh.MaxHold(c.hold))
	}
	if len(c.value) > 0 {
		opts = append(opts, mesh.Value(c.value))
	}
	if c.reentrant {
		opts = append(opts, mesh.Reentrant())
	}
	s, key := locker(n), c.real
	if c.session != nil {
		s = c.session.Session
	}
	switch c.mode {
	case triesToLock:
		return s.TryLock(ctx, key, opts...)
	case reads:
		return s.RLock(ctx, key, opts...)
	case triesToRead:
		return s.TryRLock(ctx, key, opts...)
	case permits:
		return s.Acquire(ctx, key, c.n, c.of, opts...)
	case triesPermits:
		return s.TryAcquire(ctx, key, c.n, c.of, opts...)
	}
	return s.Lock(ctx, key, opts...)
}

// locker is what *mesh.Node and *mesh.Session have in common.
type locker interface {
	Lock(ctx context.Context, key string, opts ...mesh.LockOption) (*mesh.Lock, error)
	TryLock(ctx context.Context, key string, opts ...mesh.LockOption) (*mesh.Lock, error)
	RLock(ctx context.Context, key string, opts ...mesh.LockOption) (*mesh.Lock, error)
	TryRLock(ctx context.Context, key string, opts ...mesh.LockOption) (*mesh.Lock, error)
	Acquire(ctx context.Context, key string, n, capacity int64, opts ...mesh.LockOption) (*mesh.Lock, error)
	TryAcquire(ctx context.Context, key string, n, capacity int64, opts ...mesh.LockOption) (*mesh.Lock, error)
}

// holds reports whether the caller believes that it holds the key.
func (c *call) holds() bool {
	return c.answered && c.err == nil && !c.over && !c.gone && !c.crashed() && c.lock.Context().Err() == nil
}

// lost reports whether the hold ended before the caller gave it back.
func (c *call) lost() bool {
	return c.answered && c.err == nil && (errors.Is(c.undone, mesh.ErrLost) || errors.Is(context.Cause(c.lock.Context()), mesh.ErrLost))
}

func (c *call) fate() string {
	key := c.name
	if c.name != c.key {
		key = c.key + " (" + c.name + ")"
	}
	switch {
	case c.crashed():
		return fmt.Sprintf("%s crashed", c.host)
	case !c.answered:
		return fmt.Sprintf("%s waits for %s", c.host, key)
	case c.err != nil:
		return fmt.Sprintf("%s does not get %s: %s", c.host, key, reason(c.err))
	case c.holds():
		return fmt.Sprintf("%s holds %s", c.host, key)
	case c.lost():
		return fmt.Sprintf("%s has lost %s", c.host, key)
	case !c.over:
		return fmt.Sprintf("%s is unlocking %s", c.host, key)
	case c.undone != nil:
		return fmt.Sprintf("%s unlocks %s: %s", c.host, key, reason(c.undone))
	}
	return fmt.Sprintf("%s has unlocked %s", c.host, key)
}

// reasons are how stories call the errors of calls.
var reasons = []struct {
	err  error
	name string
}{
	{mesh.ErrNoQuorum, "no quorum"},
	{mesh.ErrNotQuiet, "nothing is quiet"},
	{mesh.ErrChanged, "it has changed meanwhile"},
	{mesh.ErrAlive, "it lives"},
	{mesh.ErrNoSeat, "no seat"},
	{mesh.ErrUnchanged, "the list stays"},
	{mesh.ErrUnfinished, "not finished"},
	{mesh.ErrLocked, "locked"},
	{mesh.ErrInUse, "in use"},
	{mesh.ErrFailed, "failed too often"},
	{mesh.ErrNoLeader, "no leader"},
	{mesh.ErrQuiet, "quiet"},
	{mesh.ErrLost, "lost"},
	{mesh.ErrUnconfirmed, "unconfirmed"},
	{mesh.ErrCapacityMismatch, "another capacity"},
	{mesh.ErrTooManyWaiters, "too many wait"},
	{mesh.ErrSelfDeadlock, "held already"},
	{mesh.ErrUpgrade, "held for reading"},
	{mesh.ErrLeft, "left"},
	{mesh.ErrEjected, "ejected"},
	{mesh.ErrClosed, "closed"},
	{mesh.ErrInvalidOption, "an invalid option"},
	{mesh.ErrForeignMesh, "a foreign mesh"},
	{mesh.ErrNoSeeds, "no seeds"},
	{mesh.ErrNameTaken, "the name is taken"},
	{mesh.ErrEntryTaken, "the entry is taken"},
	{context.DeadlineExceeded, "out of time"},
	{context.Canceled, "given up"},
}

func reason(err error) string {
	for _, r := range reasons {
		if errors.Is(err, r.err) {
			return r.name
		}
	}
	return err.Error()
}

// granted returns the latest call of a host, which must have been granted.
func (t *teller) granted(host, name string) *call {
	c := find[*call](t, host, name)
	if !c.answered || c.err != nil {
		t.fail("story", "%s never held %s", host, name)
	}
	return c
}
