package mesh

import (
	"context"
	"fmt"
	"time"

	"github.com/lockmesh/mesh/internal/client"
	"github.com/lockmesh/mesh/shard"
)

// Latch is a gate that opens once so many have arrived: n migrations that must be done before anybody serves, for example. See
// [Node.Latch].
//
// It has no state of its own. It may be used by several goroutines at once.
type Latch struct {
	assembly
	keep time.Duration
}

// assembly is what a latch and a barrier have in common.
type assembly struct {
	keyed
	n int // how many are to come
}

// Latch returns the latch with this name, 1 to 1024 bytes, any bytes, which opens when count different names have arrived: 1 to 1024.
// The name is a key of the mesh, which cannot be used for anything else until nothing is known of it any more. All that use it at
// the same time must pass the same number; others get ErrCapacityMismatch. If an argument is not valid, every call of the latch returns
// an error.
//
// A latch stays open for 24 hours, or as [OpenFor] says; then its name may be used again. Arrivals at a latch that is not open are
// remembered for as long, counted from the last one; while somebody waits they are not forgotten.
//
// When the latch's shard has lost its majority and begins again, an open latch is still open, and arrivals count, if a replica is left
// that knew of them, or a process that arrived or waited lately: each process tells, in each shard, of the latest 128 arrivals, open latches
// and successes of Once that it knows of. So a latch may miss arrivals then, and those who have arrived should arrive again if they can; but
// it never opens too early.
func (n *Node) Latch(name string, count int, opts ...LatchOption) *Latch {
	return newLatch(name, count, opts, n.anySession)
}

// Latch is [Node.Latch] in this session.
func (s *Session) Latch(name string, count int, opts ...LatchOption) *Latch {
	return newLatch(name, count, opts, s.itself)
}

func newLatch(name string, n int, opts []LatchOption, session func(context.Context) (*Session, error)) *Latch {
	l := &Latch{newAssembly(name, n, session), defaultOpen}
	if l.err == nil {
		l.err = apply(l, opts, "a LatchOption")
	}
	return l
}

func newAssembly(name string, n int, session func(context.Context) (*Session, error)) assembly {
	a := assembly{newKeyed(name, session), n}
	if a.err == nil && (n < 1 || n > shard.MaxMembers) {
		a.err = invalid("the number of those that are to come", n, fmt.Sprintf("1 to %d", shard.MaxMembers))
	}
	return a
}

// Arrive records the arrival of who: a name of 1 to 255 bytes, which counts once, however often it arrives, from whichever process.
// An arrival does not end with its session. Arrive returns nil once it is confirmed; ErrUnconfirmed if ctx or the session ends first:
// then the arrival may count or not, and may be repeated; ctx.Err() if ctx has ended already; ErrCapacityMismatch, ErrClosed,
// ErrLost, ErrInvalidKey, ErrInvalidOption.
func (l *Latch) Arrive(ctx context.Context, who string) error {
	s, err := l.of().check(ctx)
	switch {
	case err != nil:
		return err
	case who == "" || len(who) > shard.MaxName:
		return invalid("the name that arrives", fmt.Sprintf("%d bytes", len(who)), fmt.Sprintf("1 to %d", shard.MaxName))
	}
	return s.inner.Arrive(ctx, shard.Memory{Key: l.key, Kind: shard.Latch, Capacity: int64(l.n), Who: who, Remains: l.keep})
}

// Wait waits until the latch is open, and returns nil. It waits in the queue of the key: nothing polls. Errors:
//
//   - a *[WaitError] that unwraps to ctx.Err() if ctx ends first, and also to ErrNoQuorum if the latch's replicas have not
//     answered for 2 s
//   - ErrCapacityMismatch, ErrTooManyWaiters, ErrClosed, ErrLost as for [Session.Lock]
//   - ErrInvalidKey, ErrInvalidOption
func (l *Latch) Wait(ctx context.Context) error {
	s, err := l.of().check(ctx)
	if err != nil {
		return err
	}
	info, err := s.inner.Await(ctx, client.Request{Key: l.key, Mode: client.Waits, Capacity: int64(l.n), Within: s.within(ctx)})
	if err != nil {
		return s.waitError(l.key, info, err)
	}
	return nil
}

func (l *Latch) of() *keyed {
	if l == nil {
		return &keyed{}
	}
	return &l.keyed
}

// LatchOption is an option of a [Latch].
type LatchOption func(*Latch) error

// defaultOpen is for how long it is remembered that a latch is open, if OpenFor does not say otherwise.
const defaultOpen = 24 * time.Hour

// OpenFor sets a minimum: how long a latch stays open after the arrival that opens it, and how long arrivals at one that is not open
// are remembered after the latest of them, if nobody waits: 1 s to 365 days. Default: 24 hours. The longest that an
// arrival has named counts.
func OpenFor(d time.Duration) LatchOption {
	return func(l *Latch) error {
		if l.keep = d; d < time.Second || d > shard.MaxDuration {
			return invalid("OpenFor", d, fmt.Sprintf("1s to %v", shard.MaxDuration))
		}
		return nil
	}
}
