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

// ErrDeadlock: the call waited in a circle of calls, anywhere in the mesh, each of which waits for a lock that the next one's context holds.
// See [DetectDeadlock] and [DeadlockError].
var ErrDeadlock = fault.ErrDeadlock

// DetectDeadlock makes a call that waits look for a deadlock: a circle of calls that wait for each other, on any nodes. A call waits for another
// one if that one's context comes from a lock of the key ([Lock.Context], [Lock.WithContext], [Node.Do]): a lock counts as needed by all that
// waits in its context. In a circle one of the calls with this option gives up: the one whose context
// holds the highest token, which across shards need not be the latest. It returns a *[WaitError] that unwraps to a *[DeadlockError] and to
// ErrDeadlock. What its context holds is still held, and in the others' way: unlock it, and begin again.
//
// Only a call whose context comes from a lock looks, for nobody waits for another one: after a second, and then less and less
// often, at least every ten seconds. Each look asks the leaders of all shards. A circle counts only if it was there at one moment, with all its
// locks and waits, and once all its nodes were heard of since. So a call that is merely late, or that a cut or a crash holds up, is no
// deadlock; and a circle is found after some ten seconds, and a third of the longest of its sessions' TTLs ([WithLeaseTTL]). A lease that runs
// out, a context that ends, or the end of a lock with [MaxHold] might have ended it as well.
//
// Every call that waits in the context of a lock, an operation, a leadership or a passage is seen, with or without this option. So one call with it
// is enough to break a circle. [Node.LockAll] holds the locks that it has so far. These circles are not seen:
//
//   - over a caller that holds a lock and waits with a context that does not come from that
//   - over more than 16 locks of one context, the innermost, or 64 holders of one key, or over more than 256 calls or 16 calls in a row
//   - over a caller over HTTP, or anything outside the mesh
//   - while a shard that it leads through has no majority
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
		sep := ", which"
		if i == 0 {
			sep = ": a call"
		}
		fmt.Fprintf(&b, "%s on %s waits for %q, held with token %d", sep, c.Node, brief(c.Key), c.Token)
	}
	return b.String()
}

// Is reports whether target is ErrDeadlock.
func (e *DeadlockError) Is(target error) bool { return target == ErrDeadlock }

// deadlockOf returns err, or what it says of a circle.
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
