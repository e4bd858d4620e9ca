package node

import (
	"context"
	"sync"
	"time"

	"github.com/lockmesh/mesh/internal/bug"
	"github.com/lockmesh/mesh/internal/env"
	"github.com/lockmesh/mesh/ring"
	"github.com/lockmesh/mesh/transport"
)

// Session is the life of several holds. In each shard it has a record of its own (a
// seat). The node's own session loses, in a shard, what it holds there, and reopens; a
// user's session has one fate: a lease lost anywhere ends it everywhere (P9).
type Session struct {
	node *Node
	own  bool
	ttl  time.Duration

	mu   sync.Mutex
	err  error
	done chan struct{}
}

func newSession(n *Node, own bool, ttl time.Duration) *Session {
	return &Session{node: n, own: own, ttl: ttl, done: make(chan struct{})}
}

// Done is closed when the session has ended: closed, or lost with one of its leases, or
// with its node.
func (s *Session) Done() <-chan struct{} { return s.done }

// Err returns why the session ended: ErrLost or ErrClosed; nil while it lives.
func (s *Session) Err() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err
}

// end marks the session as over and reports whether it was not yet.
func (s *Session) end(err error) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		return false
	}
	s.err = err
	close(s.done)
	s.node.forget(s)
	return true
}

// Acquire waits until it holds what req asks for, or until ctx ends. On an error nothing
// is held, and the WaitInfo says what was known.
func (s *Session) Acquire(ctx context.Context, req Request) (*Hold, *WaitInfo, error) {
	if s.node.clients == nil {
		return s.acquire(ctx, req)
	}
	weight, capacity := req.share()
	caller := s.node.clients.Called(transport.ID(s.node.id), env.Ask{
		Key: req.Key, Weight: weight, Capacity: capacity, MaxHold: req.MaxHold,
	})
	h, info, err := s.acquire(ctx, req)
	if err != nil {
		caller.Returned(nil, err)
		return nil, info, err
	}
	if h.holder = caller.Returned(h, nil); h.Over() {
		h.holder.Ended(h.mayEnd()) // before anybody listened
	}
	return h, info, nil
}

func (s *Session) acquire(ctx context.Context, req Request) (*Hold, *WaitInfo, error) {
	if err := ctx.Err(); err != nil {
		return nil, &WaitInfo{Quorum: true}, err // the shard was not asked
	}
	if err := s.Err(); err != nil {
		return nil, &WaitInfo{Quorum: true}, err // the shard was not asked
	}
	sh := ring.Shard(req.Key, s.node.params.Shards)
	l := s.node.laneOf(sh)
	c := &call{what: acquires, session: s, shard: sh, req: req, parker: l.env.NewParker()}
	if !l.post(func(l *lane) { l.desk(sh).acquire(c) }) {
		return nil, &c.info, ErrClosed
	}
	if err := l.await(ctx, c); err != nil {
		return nil, &c.info, err
	}
	err := c.got.Err()
	switch {
	case err == nil, s.node.bugs.Has(bug.OverWhenReturned):
		return c.got, &c.info, nil
	case err == ErrLost && req.MaxHold == 0 && s.node.mayAskAnew(req):
		return s.acquire(ctx, req)
	}
	// This goroutine, or all, stood still until it was over (P1): for longer than the lease,
	// or while another one closed the session.
	return nil, &c.info, err
}

// Close ends the session: what it holds is free for others once the shards have
// confirmed it. It returns nil then, and ErrUnconfirmed if ctx ends first; what was not
// confirmed lapses with its lease.
func (s *Session) Close(ctx context.Context) error {
	if !s.end(ErrClosed) {
		return nil
	}
	return s.leave(ctx)
}

// leave closes the session's seats on every lane and waits for the shards' word.
func (s *Session) leave(ctx context.Context) error {
	w := s.node.env
	limit := env.Never
	if ctx.Err() != nil {
		ctx, limit = context.WithoutCancel(ctx), w.Now()+lateRelease
	}
	calls := make([][]*call, len(s.node.all))
	for i, l := range s.node.all {
		p := w.NewParker()
		if l.post(func(l *lane) { calls[i] = l.closeSeats(s); p.Unpark() }) {
			p.Park(context.WithoutCancel(ctx), env.Never) // a lane is quick
		}
	}
	var err error
	for i, l := range s.node.all {
		for _, c := range calls[i] {
			switch {
			case c.parker.Park(ctx, limit) != env.Unparked:
				l.post(func(l *lane) { l.desk(c.shard).abandon(c, nil) })
				err = ErrUnconfirmed
			case c.err != nil && err == nil:
				err = c.err
			}
		}
	}
	return err
}

// lose ends a user's session that lost a lease in one shard, in all others (P9).
func (s *Session) lose() {
	if !s.end(ErrLost) {
		return
	}
	for _, l := range s.node.all {
		l.post(func(l *lane) { l.loseSeats(s) })
	}
}
