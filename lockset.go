package mesh

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/lockmesh/mesh/internal/client"
	"github.com/lockmesh/mesh/internal/node"
)

// maxSet is how many keys a LockAll may ask for: as many requests are under way at a time.
const maxSet = 1024

// LockSet is several locks that [Node.LockAll] has taken together. Its methods may be called by several goroutines at once. A zero or nil
// LockSet behaves like one that was unlocked: ErrClosed.
type LockSet struct {
	locks []*Lock // by key
	base  context.Context

	mu  sync.Mutex
	ctx context.Context // nil until somebody asks for it
}

// LockAll is [Session.LockAll] in the node's own session. While a node of [Start] cannot serve yet, LockAll waits; if ctx ends first, the
// error unwraps to ErrNotFounded and to ctx.Err().
func (n *Node) LockAll(ctx context.Context, keys []string, opts ...LockOption) (*LockSet, error) {
	if err := checkCall(ctx, n.isZero()); err != nil {
		return nil, err
	}
	if _, err := checkSet(keys, opts); err != nil {
		return nil, err
	}
	s, err := n.anySession(ctx)
	if err != nil {
		return nil, err
	}
	return s.LockAll(ctx, keys, opts...)
}

// LockAll waits until it holds all keys exclusively, and returns their locks. Keys may be given in any order: 1 to 1024 of them, each 1 to
// 1024 bytes, none twice.
//
// Calls of LockAll do not deadlock with each other, whatever their keys. LockAll asks for all keys at once, and takes those that are free. Then
// it waits for the first key that it did not get, in the order of the keys' bytes. While it waits it holds only keys before that one: those
// after it, LockAll gives back, and asks for again later. So if the keys are free, it takes as long as one Lock; and if they are not, it may
// hold some of them for a moment, and others see that. For each key it waits in the key's queue as Lock does, and for each once at most.
//
// A caller that holds a lock already must go by the same order. If ctx comes from a lock of the same session, and the key of that lock is
// not before all keys of the call, LockAll returns ErrSelfDeadlock. So it does if ctx comes from an operation, a leadership or a passage of
// a barrier with such a key; a use of a resource does not matter.
//
// [Value] goes with each lock. With [DetectDeadlock] LockAll also gives up in a circle of calls, whatever the order of their keys. With
// [MaxHold] all locks end by themselves at the same time, MaxHold after the last key was granted: until then those that LockAll holds are
// renewed. [Lock.Extend] moves the end of one of them. [Reentrant] does not fit, and is ErrInvalidOption.
//
// On any error nothing is held, and no place in a queue is kept. LockAll gives back what it had before it returns. The releases are repeated
// as those of Unlock are; but if ctx has ended, LockAll does not wait for their confirmation. Errors:
//
//   - a *[WaitError] that unwraps to ctx.Err() if ctx ends first, and also to ErrNoQuorum if the replicas of the key that it names have not
//     answered for 2 s
//   - ErrCapacityMismatch, ErrTooManyWaiters or ErrClosed, in a *WaitError; ErrDeadlock with [DetectDeadlock]
//   - ErrLost if the session was lost, or one of the locks while others were waited for; with MaxHold also if one was over before LockAll could
//     return it
//   - ErrSelfDeadlock, ErrInvalidKey, ErrInvalidOption
//
// Call Unlock when done.
func (s *Session) LockAll(ctx context.Context, keys []string, opts ...LockOption) (*LockSet, error) {
	if err := checkCall(ctx, s.isZero()); err != nil {
		return nil, err
	}
	reqs, err := checkSet(keys, opts)
	if err != nil {
		return nil, err
	}
	if d := reqs[0].MaxHold; d > s.config.maxTTL() {
		return nil, s.config.invalidHold("MaxHold", d)
	}
	for l := linkOf(ctx); l != nil; l = l.up {
		if g := l.grant; g.owner == s && g.key >= reqs[0].Key && g.mode != client.Uses && g.living() {
			return nil, fmt.Errorf("%w, or one that is not before all that LockAll asks for: it holds %q, and %q is asked for",
				ErrSelfDeadlock, brief(g.key), brief(reqs[0].Key))
		}
	}
	if err := ctx.Err(); err != nil {
		return nil, s.waitError(reqs[0].Key, &client.WaitInfo{Quorum: true}, err)
	}
	t := newTaking(s, reqs)
	if err := t.all(ctx); err != nil {
		return nil, err
	}
	set := &LockSet{locks: make([]*Lock, len(reqs)), base: context.WithoutCancel(ctx)}
	for i, h := range t.holds {
		set.locks[i] = newLock(ctx, &grant{hold: h, owner: s, key: reqs[i].Key, fixed: t.maxHold > 0, entries: 1})
	}
	return set, nil
}

// checkSet checks the arguments of LockAll, and returns its requests, in the order of their keys.
func checkSet(keys []string, opts []LockOption) ([]client.Request, error) {
	if len(keys) == 0 || len(keys) > maxSet {
		return nil, invalid("the number of keys", len(keys), fmt.Sprintf("1 to %d", maxSet))
	}
	keys = slices.Clone(keys)
	slices.Sort(keys)
	reqs := make([]client.Request, len(keys))
	for i, key := range keys {
		reqs[i].Key = key
		reentrant, err := checkRequest(&reqs[i], opts)
		switch {
		case err != nil:
			return nil, err
		case reentrant:
			return nil, invalid("Reentrant", "set", "none: a set enters no lock")
		case i > 0 && keys[i-1] == key:
			return nil, invalid("a key of LockAll", fmt.Sprintf("%q, twice", brief(key)), "each key once")
		}
	}
	return reqs, nil
}

// taking is a LockAll under way (P36).
type taking struct {
	session *Session
	reqs    []client.Request // in the order of their keys
	holds   []*node.Hold     // by request; nil: it has none
	maxHold time.Duration    // zero: none
}

// newTaking returns a LockAll that has nothing yet. With MaxHold each lock has a lease of its own, but no end before the last one is there.
func newTaking(s *Session, reqs []client.Request) *taking {
	t := &taking{session: s, reqs: reqs, holds: make([]*node.Hold, len(reqs)), maxHold: reqs[0].MaxHold}
	for i := range reqs {
		reqs[i].Alone, reqs[i].MaxHold = t.maxHold > 0, 0
	}
	return t
}

// all takes all keys, or none.
func (t *taking) all(ctx context.Context) error {
	err := t.wait(ctx)
	if err == nil && t.maxHold > 0 {
		err = t.fix(ctx)
	}
	if err == nil {
		err = t.lost()
	}
	if err != nil {
		t.release(t.holds).Wait(ctx, 0)
	}
	return err
}

// wait takes the keys that are free, and waits for the first of the others: again and again until it has all. The errors leave in holds what
// it has.
func (t *taking) wait(ctx context.Context) error {
	for {
		first, err := t.try(ctx)
		if err != nil || first < 0 {
			return err
		}
		later := t.release(t.holds[first+1:])
		if err := t.queue(ctx, first); err != nil {
			later.Wait(ctx, 0)
			return err
		}
		later.Wait(ctx, 0) // or the next try may meet what this caller held
	}
}

// try asks for all keys that are missing, without waiting for others, and returns the first that it does not get, or -1.
func (t *taking) try(ctx context.Context) (first int, err error) {
	missing, reqs := make([]int, 0, len(t.reqs)), make([]client.Request, 0, len(t.reqs))
	for i, req := range t.reqs {
		if t.holds[i] == nil {
			req.Try = true
			missing, reqs = append(missing, i), append(reqs, req)
		}
	}
	if len(missing) == 0 {
		return -1, nil
	}
	first = -1
	for i, a := range t.session.inner.AcquireEach(ctx, reqs) {
		switch {
		case a.Err == nil:
			t.holds[missing[i]] = a.Hold
		case errors.Is(a.Err, ErrLocked), errors.Is(a.Err, ErrQuiet), errors.Is(a.Err, ErrNoQuorum):
			if first < 0 {
				first = missing[i]
			}
		case err == nil:
			err = t.session.waitError(reqs[i].Key, a.Info, a.Err)
		}
	}
	return first, err
}

// queue waits for one key, until one that is held is lost.
func (t *taking) queue(ctx context.Context, i int) error {
	wait, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	for _, h := range t.holds {
		if h != nil {
			defer h.OnEnd(func(cause error) { cancel(cause) })()
		}
	}
	req := t.reqs[i]
	req.Within = t.within(ctx)
	h, info, err := t.session.acquire(wait, req)
	if err == nil {
		t.holds[i] = h
		return t.lost()
	}
	if lost := t.lost(); lost != nil {
		return lost
	}
	return t.session.waitError(t.reqs[i].Key, info, err)
}

// fix makes all locks end together.
func (t *taking) fix(ctx context.Context) error {
	errs := node.ExtendEach(ctx, t.holds, t.maxHold)
	if lost := t.lost(); lost != nil {
		return lost
	}
	for i, err := range errs {
		if err != nil {
			return t.session.waitError(t.reqs[i].Key, &client.WaitInfo{Quorum: true}, err)
		}
	}
	return nil
}

// lost returns why a key that was held is no longer, or nil.
func (t *taking) lost() error {
	if i, err := node.FirstOver(t.holds); err != nil {
		return t.session.waitError(t.reqs[i].Key, &client.WaitInfo{Quorum: true}, err)
	}
	return nil
}

// release gives some keys back, and takes them out of holds.
func (t *taking) release(holds []*node.Hold) *node.Releases {
	held := slices.DeleteFunc(slices.Clone(holds), func(h *node.Hold) bool { return h == nil })
	clear(holds)
	return node.ReleaseEach(held)
}

// of returns the locks of s, by key.
func (s *LockSet) of() []*Lock {
	if s == nil {
		return nil
	}
	return s.locks
}

// Lock returns the lock of a key of the set; nil if the set has no such key.
func (s *LockSet) Lock(key string) *Lock {
	all := s.of()
	if i, ok := slices.BinarySearchFunc(all, key, func(l *Lock, key string) int { return cmp.Compare(l.Key(), key) }); ok {
		return all[i]
	}
	return nil
}

// Err returns nil while all locks of the set are held, by the clock at this call. Afterwards it returns ErrLost if one of them was lost,
// ErrBroken (an ErrLost, too) if it was broken, else ErrClosed: also if only one of them was unlocked.
func (s *LockSet) Err() error {
	if len(s.of()) == 0 {
		return ErrClosed
	}
	var first error
	for _, l := range s.locks {
		err := l.Err()
		if errors.Is(err, ErrLost) {
			return err
		}
		first = cmp.Or(first, err)
	}
	return first
}

// Context returns a context that ends as soon as one lock of the set does. [context.Cause] says why: ErrLost if that lock was lost, ErrBroken
// if it was broken. The other locks stay held until Unlock. See [Lock.Context].
func (s *LockSet) Context() context.Context {
	if len(s.of()) == 0 {
		return s.WithContext(context.Background())
	}
	s.mu.Lock()
	ctx := s.ctx
	s.mu.Unlock()
	if ctx != nil {
		return ctx
	}
	ctx = s.WithContext(s.base) // not under the mutex: it asks holds whether they have ended
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ctx = cmp.Or(s.ctx, ctx)
	return s.ctx
}

// WithContext returns a context that is derived from parent and also ends as soon as one lock of the set does. See [Lock.WithContext].
func (s *LockSet) WithContext(parent context.Context) context.Context {
	if len(s.of()) == 0 {
		return (*Lock)(nil).WithContext(parent)
	}
	for _, l := range s.locks {
		parent = l.WithContext(parent)
	}
	return parent
}

// Unlock ends all locks of the set, and then sends their releases together; see [Lock.Unlock], also for what ctx bounds. It returns nil when all
// keys are released. Else it returns the errors that the locks' Unlock would return, joined; the set holds nothing any more, also then. But a
// nil ctx is ErrInvalidOption, and changes nothing.
func (s *LockSet) Unlock(ctx context.Context) error {
	if err := checkCall(ctx, len(s.of()) == 0); err != nil {
		return err
	}
	return unlockEach(ctx, s.locks)
}

// unlockEach unlocks several locks of one node together.
func unlockEach(ctx context.Context, locks []*Lock) error {
	errs := make([]error, len(locks))
	held := make([]error, len(locks))
	last, holds := make([]int, 0, len(locks)), make([]*node.Hold, 0, len(locks))
	for i, l := range locks {
		_, final, was, result := l.leave()
		if held[i], errs[i] = was, result; final {
			last, holds = append(last, i), append(holds, l.grant.hold)
		}
	}
	// The node ends the holds, and with them the contexts, before it sends the releases (P8).
	results := node.ReleaseEach(holds)
	for i, l := range locks {
		l.end(held[i])
	}
	for i, err := range results.Wait(ctx, node.LateRelease) {
		errs[last[i]] = err
	}
	var all []error
	for _, err := range errs {
		if err != nil && !slices.ContainsFunc(all, func(o error) bool { return errors.Is(o, err) }) {
			all = append(all, err)
		}
	}
	if len(all) == 1 {
		return all[0]
	}
	return errors.Join(all...)
}
