package mesh

import (
	"context"

	"github.com/lockmesh/mesh/internal/client"
)

// Barrier lets so many members go on together, again and again: the rounds of a computation on n processes, for example. See
// [Node.Barrier].
//
// It has no state of its own. It may be used by several goroutines at once.
type Barrier struct{ assembly }

// Barrier returns the barrier with this name, 1 to 1024 bytes, any bytes, for this number of members, 1 to 1024. The name is a key of the mesh,
// which cannot be used for anything else while anybody is inside or waits. All that use it at the same time must pass the same number;
// others get ErrCapacityMismatch. An argument that is not valid is an error of every call.
func (n *Node) Barrier(name string, members int) *Barrier {
	return &Barrier{newAssembly(name, members, n.anySession)}
}

// Barrier is [Node.Barrier] in this session.
func (s *Session) Barrier(name string, members int) *Barrier {
	return &Barrier{newAssembly(name, members, s.itself)}
}

// Enter waits for the next round of the barrier, and returns when it is inside. A round begins when as many calls wait as the barrier has
// members, and everybody has left the round before. It lets the members through together, those that have waited longest; other calls wait
// for another round. A caller that gives up while it waits has not entered. A
// member is inside until [Passage.Leave], or until its session ends: a member that is lost has left. Every call is a member of its
// own. After the barrier's shard has lost its majority, members that live are inside as before. Errors:
//
//   - a *[WaitError] that unwraps to ctx.Err() if ctx ends first, and also to ErrNoQuorum if the barrier's replicas have not
//     answered for 2 s
//   - ErrCapacityMismatch, ErrTooManyWaiters, ErrClosed, ErrLost as for [Session.Lock]
//   - ErrSelfDeadlock if ctx comes from a passage of this barrier
//   - ErrInvalidKey, ErrInvalidOption
func (b *Barrier) Enter(ctx context.Context) (*Passage, error) {
	if b == nil {
		b = &Barrier{}
	}
	s, err := b.check(ctx)
	if err != nil {
		return nil, err
	}
	req := client.Request{Key: b.key, Mode: client.Enters, Capacity: int64(b.n)}
	g, err := s.obtain(ctx, req, false)
	if err != nil {
		return nil, err
	}
	return &Passage{newLock(ctx, g)}, nil
}

// Passage is one member's way through a [Barrier]: it is inside until Leave, or until its session ends. A Passage that is
// garbage-collected has not left; a warning is logged. A zero or nil Passage has left.
type Passage struct{ lock *Lock }

func (p *Passage) of() *Lock {
	if p == nil {
		return nil
	}
	return p.lock
}

// Token returns the fencing token of the passage. Those of a later round are larger.
func (p *Passage) Token() uint64 { return p.of().Token() }

// Context returns a context that ends before the passage can lapse: with the cause ErrLost when the lease is lost, ErrBroken when an
// operator has broken the passage ([Node.Break]), else at Leave or the session's Close. See [Lock.Context].
func (p *Passage) Context() context.Context { return p.of().Context() }

// Lost returns a channel that is closed when the lease ends before Leave, or an operator breaks the passage ([Node.Break]): then the others may be
// in the next round.
func (p *Passage) Lost() <-chan struct{} { return p.of().Lost() }

// Err returns nil while the member is inside, by the clock at this call; then ErrLost, ErrBroken if an operator has broken the passage, or ErrClosed after
// Leave.
func (p *Passage) Err() error { return p.of().Err() }

// Leave says that the member has left. The passage's context ends first. Once all have left, the next round may begin. Leave returns
// what [Lock.Unlock] returns.
func (p *Passage) Leave(ctx context.Context) error { return p.of().Unlock(ctx) }
