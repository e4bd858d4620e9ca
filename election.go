package mesh

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"

	"github.com/lockmesh/mesh/internal/client"
	"github.com/lockmesh/mesh/shard"
)

// Election chooses one leader among those that campaign, in the order of their calls, and tells every node that asks who it is.
// Its name is a key of the mesh: while somebody leads or campaigns, the key cannot be locked; while it is locked, nobody can campaign.
//
//	err := node.Election("scheduler").Lead(ctx, []byte(addr), func(ctx context.Context, l *mesh.Leadership) error {
//		return schedule(ctx, l.Token())
//	})
//
// A leadership is a lock, with all that this means: it is lost if its lease cannot be renewed, its contexts end before another
// one leads, and its token is larger than those of all leaders before. The leader has a value of 0 to 4096 bytes, the one that
// it campaigned with until it proclaims another: an address, for example.
//
// An Election has no state of its own. It may be used by several goroutines at once.
type Election struct{ keyed }

// Election returns the election of this name, 1 to 1024 bytes, any bytes. Its leaderships belong to the node's own session. If the
// name is not valid, every call of the election returns ErrInvalidKey.
func (n *Node) Election(name string) *Election {
	return &Election{newKeyed(name, n.anySession)}
}

// Election is [Node.Election] in this session.
func (s *Session) Election(name string) *Election {
	return &Election{newKeyed(name, s.itself)}
}

// Name returns the election's name.
func (e *Election) Name() string {
	if e == nil {
		return ""
	}
	return e.key
}

// check checks the arguments, and returns the session.
func (e *Election) check(ctx context.Context) (*Session, error) {
	if e == nil {
		e = &Election{}
	}
	return e.keyed.check(ctx)
}

func checkValue(value []byte) error {
	if len(value) > shard.MaxValue {
		return invalid("the value", fmt.Sprintf("%d bytes", len(value)), fmt.Sprintf("at most %d", shard.MaxValue))
	}
	return nil
}

// Campaign waits until its caller leads, and returns the leadership; call Resign when done. Value is what others see of
// the leader, 0 to 4096 bytes. Each call is a candidate of its own, also beside other calls on its node. On an error nothing is led and no
// place in the queue is kept:
//
//   - a *[WaitError] that unwraps to ctx.Err() if ctx ends first, and also to ErrNoQuorum if the election's replicas have
//     not answered for 2 s
//   - ErrCapacityMismatch if the key is in use as something else; ErrTooManyWaiters, ErrClosed, ErrLost as for [Session.Lock]
//   - ErrSelfDeadlock if ctx comes from a leadership of this election
//   - ErrInvalidKey, ErrInvalidOption
func (e *Election) Campaign(ctx context.Context, value []byte) (*Leadership, error) {
	s, err := e.check(ctx)
	if err == nil {
		err = checkValue(value)
	}
	if err != nil {
		return nil, err
	}
	g, err := s.obtain(ctx, client.Request{Key: e.key, Mode: client.Elects, Value: slices.Clone(value)}, false)
	if err != nil {
		return nil, err
	}
	return &Leadership{newLock(ctx, g)}, nil
}

// Lead campaigns, and calls fn while it leads. Fn's context is derived from ctx, and also ends with the leadership, and when the
// node begins to leave: see [Node.Leave]. When fn returns, Lead resigns and returns fn's error, joined with that of [Leadership.Resign]. But if
// the leadership was lost or broken, Lead drops fn's error, and campaigns again with the same value once fn has returned. It resigns
// also if fn panics. Other errors are those of Campaign: so Lead ends with ctx, with the node and, in a session of NewSession, with
// the session.
func (e *Election) Lead(ctx context.Context, value []byte, fn func(context.Context, *Leadership) error) error {
	if fn == nil {
		return invalid("the function", "nil", "a function")
	}
	for {
		l, err := e.Campaign(ctx, value)
		if err != nil {
			return err
		}
		if lost, err := l.lead(ctx, fn); !lost {
			return err
		}
	}
}

// lead calls fn, and resigns. Lost: the leadership had ended before.
func (l *Leadership) lead(ctx context.Context, fn func(context.Context, *Leadership) error) (lost bool, err error) {
	run, cancel := context.WithCancelCause(l.WithContext(ctx))
	stop := l.lock.grant.owner.inner.OnLeave(func() { cancel(ErrClosed) })
	defer func() {
		stop()
		cancel(nil)
		resignErr := l.Resign(ctx)
		lost = errors.Is(resignErr, ErrLost)
		err = joined(err, resignErr)
	}()
	return false, fn(run, l)
}

// Leader returns the leader, as a majority of the election's replicas confirms it after the call. It takes nothing. Errors: [ErrNoLeader] if
// nobody leads; [ErrQuiet] if the shard does not know yet, because it is quiet (see [WithMaxTTL]); ErrNoQuorum if no majority answers for
// 2 s; ctx.Err() if ctx ends first; ErrClosed, ErrLost, ErrInvalidKey, ErrInvalidOption.
func (e *Election) Leader(ctx context.Context) (LeaderState, error) {
	s, err := e.check(ctx)
	if err != nil {
		return LeaderState{}, err
	}
	l, err := s.inner.Leader(ctx, e.key)
	switch {
	case err != nil:
	case l.Unknown:
		err = ErrQuiet
	case l.Token == 0:
		err = ErrNoLeader
	}
	if err != nil {
		return LeaderState{}, err
	}
	return newLeaderState(l), nil
}

// Observe returns who leads, and who leads after each change: for as long as the loop goes on, until ctx or the node ends. It does not
// poll: the leader of the election's shard tells each node of a change once, however many observers it has. A slow loop
// misses states, and gets the latest; the last one is never missed. Tokens never go back, nor do sequences of one token.
//
// The first state comes when it is confirmed. A state is Unknown if nothing was confirmed for the lease TTL of the node ([WithLeaseTTL]), or
// while the shard is quiet and does not know who leads. A message that is lost delays a state by up to a third of that TTL. If the name is
// not valid or ctx is nil, the loop ends at once: Leader returns the error.
func (e *Election) Observe(ctx context.Context) iter.Seq[LeaderState] {
	return func(yield func(LeaderState) bool) {
		s, err := e.check(ctx)
		if err != nil {
			return
		}
		o := s.inner.Observe(e.key)
		defer o.Close()
		for {
			l, err := o.Next(ctx)
			if err != nil || !yield(newLeaderState(l)) {
				return
			}
		}
	}
}

// LeaderState is what is known of an election's leader. If Token is not zero, somebody leads; if it is zero, nobody does, unless Unknown is set.
type LeaderState struct {
	Unknown  bool   // it is not known now who leads
	Token    uint64 // the leader's fencing token
	Sequence uint64 // how many values the leader has proclaimed, as far as they are shown
	Value    []byte // the latest of them, or the one that it campaigned with
	Node     string // the name of the leader's node
}

func newLeaderState(l client.Leader) LeaderState {
	return LeaderState{Unknown: l.Unknown, Token: l.Token, Sequence: l.Sequence, Value: slices.Clone(l.Value), Node: l.Name}
}

// Leadership is that of one candidate, from Campaign to Resign, or until it is lost with its lease. A Leadership that is
// garbage-collected is not resigned; a warning is logged. A zero or nil Leadership has ended.
type Leadership struct{ lock *Lock }

func (l *Leadership) of() *Lock {
	if l == nil {
		return nil
	}
	return l.lock
}

// Token returns the fencing token: see [Lock.Token].
func (l *Leadership) Token() uint64 { return l.of().Token() }

// Context returns a context that ends with the leadership, before another one can begin: see [Lock.Context].
func (l *Leadership) Context() context.Context { return l.of().Context() }

// WithContext returns a context that is derived from parent and also ends with the leadership: see [Lock.WithContext].
func (l *Leadership) WithContext(parent context.Context) context.Context {
	return l.of().WithContext(parent)
}

// Lost returns a channel that is closed when the leadership is lost, or broken ([Node.Break]), before Resign.
func (l *Leadership) Lost() <-chan struct{} { return l.of().Lost() }

// Err returns nil while the leadership lasts, by the clock at this call; then ErrLost, ErrBroken if an operator has broken it, or ErrClosed after Resign.
func (l *Leadership) Err() error { return l.of().Err() }

// Proclaim gives the leader another value, 0 to 4096 bytes, which others see in place of the one before. Of calls at once the last to
// begin wins: an earlier value never overwrites a later one, however late it arrives. It returns
//
//   - nil if a majority has taken this value, or a later one of this leadership
//   - ErrLost, ErrBroken or ErrClosed if the leadership had ended before; or if it ends meanwhile: then others may have seen the value
//   - ctx.Err() if ctx ends first; then the value may be shown, until another one is proclaimed
//   - ErrInvalidOption
func (l *Leadership) Proclaim(ctx context.Context, value []byte) error {
	if err := checkCall(ctx, l.of().isZero()); err != nil {
		return err
	}
	if err := checkValue(value); err != nil {
		return err
	}
	if err := l.Err(); err != nil {
		return err
	}
	return l.lock.grant.hold.Proclaim(ctx, slices.Clone(value))
}

// Resign ends the leadership. Its contexts end first; then the next candidate leads. Resign returns what [Lock.Unlock] returns.
func (l *Leadership) Resign(ctx context.Context) error { return l.of().Unlock(ctx) }
