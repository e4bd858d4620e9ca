package mesh

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/lockmesh/mesh/internal/client"
	"github.com/lockmesh/mesh/internal/fault"
	"github.com/lockmesh/mesh/internal/node"
	"github.com/lockmesh/mesh/shard"
)

// ErrDeadlock: the call waited in a circle of calls, anywhere in the mesh: each of them waits for a lock from which the next one's context
// comes. See [DetectDeadlock] and [DeadlockError].
var ErrDeadlock = fault.ErrDeadlock

// DetectDeadlock makes a call that waits look for a deadlock: a circle of calls that wait for each other, on any nodes. A call waits for another
// one if that one's context comes from a lock of the key ([Lock.Context], [Lock.WithContext], [Node.Do]): a lock is taken to be held until the
// calls that wait in its context have their result. An operation, a leadership and a passage of a barrier count as locks here. In a circle one
// of the calls with this option gives up: the one whose context comes from the lock with the highest token, which across shards need not be the
// latest. It returns a *[WaitError] that unwraps to a *[DeadlockError] and to ErrDeadlock. The locks that its context comes from are still held,
// and in the others' way: unlock them, and begin again.
//
// Only a call whose context comes from a lock looks, or a [Node.LockAll] that holds some of its keys: nobody waits for any other call, so
// that is in no circle. It looks after a second, and then less and less often, at least every ten seconds. Each look asks the leaders of
// all shards. A circle counts only if all its locks and waits were there at one moment, and if the mesh has heard from all its sessions
// since. So a call that is merely late, or that a cut or a crash holds up, is no deadlock. A circle is found within some ten seconds, and a third
// of the longest of its sessions' TTLs ([WithLeaseTTL]), after it has formed. A lease that runs out, a context that ends, or the end of a
// lock with [MaxHold] may end a circle before.
//
// Every call that waits in the context of a lock, an operation, a leadership or a passage is seen, with or without this option. So one call with it
// is enough to break a circle. A [Node.LockAll] that waits counts as holding the keys that it has so far. These circles are not seen:
//
//   - one with a caller that holds a lock and waits with a context that does not come from that lock
//   - one that needs more than the innermost 16 locks of a context, more than the first 64 holders of a key, more than 256 calls, or more
//     than 16 steps from one call to the next
//   - one with a caller over HTTP, or anything outside the mesh
//   - one with a key whose shard has no majority
//
// A call of TryLock and its like does not wait, and a call that enters its context's lock ([Reentrant]) does not either: there the
// option has no effect.
func DetectDeadlock() LockOption {
	return func(o *lockOptions) { o.detects = true }
}

// DeadlockError is the error of a call with [DetectDeadlock] that waited in a circle, and gave up. It is ErrDeadlock.
type DeadlockError struct {
	// Circle has the calls in it. The first one has returned this error. Each waits for the next one, and the last for the first.
	Circle []DeadlockedCall
}

// DeadlockedCall is a call that waits in a circle.
type DeadlockedCall struct {
	Node  string // the name of the node that the call was made on
	Key   string // that it waits for
	Token uint64 // of the lock of Key that the next call's context holds
}

// Error implements error.
func (e *DeadlockError) Error() string {
	var b strings.Builder
	b.WriteString(ErrDeadlock.Error())
	for i, c := range e.Circle {
		if i == 4 {
			fmt.Fprintf(&b, ", and so on, %d in a circle", len(e.Circle))
			break
		}
		sep := "; in that lock's context a call"
		if i == 0 {
			sep = ": a call"
		}
		fmt.Fprintf(&b, "%s on %s waits for %q, held with token %d", sep, c.Node, brief(c.Key), c.Token)
	}
	return b.String()
}

// Is reports whether target is ErrDeadlock.
func (e *DeadlockError) Is(target error) bool { return target == ErrDeadlock }

// deadlockOf returns err; if that tells of a circle, the *DeadlockError for it.
func deadlockOf(err error) error {
	var d *client.Deadlock
	if !errors.As(err, &d) {
		return err
	}
	e := &DeadlockError{}
	for _, w := range d.Circle {
		e.Circle = append(e.Circle, DeadlockedCall{w.Node, w.Key, w.Token})
	}
	return e
}

// within returns the grants that ctx comes from, the latest first and MaxWithin at most, as a request of s names them.
func (s *Session) within(ctx context.Context) (all []shard.Grant) {
	for l := linkOf(ctx); l != nil && len(all) < shard.MaxWithin; l = l.up {
		if g := l.grant; g.mode != client.Uses && g.living() { // nobody waits for the end of a use
			all = s.alsoWithin(all, g.hold)
		}
	}
	return all
}

// alsoWithin adds a hold's grant, unless it is known, or of another mesh.
func (s *Session) alsoWithin(all []shard.Grant, h *node.Hold) []shard.Grant {
	if g, ours := h.Grant(s.inner); ours && len(all) < shard.MaxWithin && !slices.Contains(all, g) {
		all = append(all, g)
	}
	return all
}

// within returns the grants that a LockAll under way waits within: those that it has so far, and then those that ctx comes from.
func (t *taking) within(ctx context.Context) (all []shard.Grant) {
	for _, h := range t.holds {
		if h != nil {
			all = t.session.alsoWithin(all, h)
		}
	}
	all = append(all, t.session.within(ctx)...)
	return all[:min(len(all), shard.MaxWithin)]
}
