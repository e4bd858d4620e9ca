package node

import (
	"cmp"
	"context"
	"time"

	"github.com/lockmesh/mesh/internal/client"
	"github.com/lockmesh/mesh/internal/env"
	"github.com/lockmesh/mesh/internal/fault"
	"github.com/lockmesh/mesh/transport"
)

// Session groups several holds, as their callers see it: see client.Session.
type Session struct {
	node *Node
	life *client.Session
	done chan struct{}
}

func newSession(n *Node, own bool, ttl time.Duration) *Session {
	s := &Session{node: n, life: client.NewSession(own, ttl), done: make(chan struct{})}
	s.life.Owner = s
	return s
}

// TTL returns the TTL of the session's leases.
func (s *Session) TTL() time.Duration { return s.life.TTL }

// NodeName returns the name of the session's node.
func (s *Session) NodeName() string { return s.node.Name() }

// Done is closed when the session has ended: closed, or lost with one of its leases, or
// with its node.
func (s *Session) Done() <-chan struct{} { return s.done }

// Err returns why the session ended: ErrLost or ErrClosed; nil while it lives.
func (s *Session) Err() error { return s.life.Err() }

// end ends the session, and reports whether it lived.
func (s *Session) end(err error) bool {
	if !s.life.End(err) {
		return false
	}
	s.over()
	return true
}

// over tells of the session's end.
func (s *Session) over() {
	close(s.done)
	s.node.forget(s)
}

// Acquire waits until it holds what req asks for, or until ctx ends. On an error nothing
// is held, and the WaitInfo says what was known.
func (s *Session) Acquire(ctx context.Context, req client.Request) (*Hold, *client.WaitInfo, error) {
	caller := s.calls(askOf(&req))
	h, _, info, err := s.acquire(ctx, req)
	returned(caller, h, err)
	return h, info, err
}

// acquire waits for the result of a Lock. A nil hold without an error: what it was to do is done, and leaves nothing to hold.
func (s *Session) acquire(ctx context.Context, req client.Request) (h *Hold, skipped bool, info *client.WaitInfo, err error) {
	if err := cmp.Or(ctx.Err(), s.Err()); err != nil {
		return nil, false, &client.WaitInfo{Quorum: true}, err // the shard was not asked
	}
	c := s.call(client.Lock, req)
	c.Info.Mode = req.Mode
	if err := s.node.do(ctx, c, (*shardLoop).admit); err != nil || c.Hold == nil {
		return nil, c.Skipped, &c.Info, err
	}
	h = c.Hold.Owner.(*Hold)
	switch err := h.Err(); {
	case err == nil:
		return h, c.Skipped, &c.Info, nil
	case err == fault.ErrLost && req.MaxHold == 0 && !req.Try, c.Skipped && s.Err() == nil: // or the use was released by name
		return s.acquire(ctx, req)
	case err == fault.ErrBroken:
		h.yield()
		return nil, false, &c.Info, err
	default:
		// This goroutine, or all, stood still until it was over (P1): for longer than the lease,
		// or while another one closed the session.
		return nil, false, &c.Info, err
	}
}

// Close ends the session: what it holds is free for others once the shards have
// confirmed it. It returns nil then, or if the session had ended before. It returns ErrUnconfirmed if
// ctx ends first, or after a second if ctx had ended already, or if the node has ended; what was not
// confirmed lapses with its lease.
func (s *Session) Close(ctx context.Context) error {
	if !s.end(fault.ErrClosed) {
		return nil
	}
	ctx, limit := s.node.bounds(ctx, LateRelease)
	var calls []*client.Call
	if !s.node.ask(func(l *shardLoop) { calls = l.closeLeases(s.life) }) {
		return fault.ErrUnconfirmed // the node has ended
	}
	var err error
	for _, c := range calls {
		switch {
		case c.Parker.Park(ctx, limit) != env.Unparked:
			s.node.shards.post(func(l *shardLoop) { l.step(client.Abandon{Call: c}) })
			err = fault.ErrUnconfirmed
		case c.Err != nil && err == nil:
			err = c.Err
		}
	}
	return err
}

// Abandon ends the session as if its lease were lost (P9), and returns once the beliefs of its holders have ended. Nothing
// is sent: what is held lapses with the leases, except holds of fixed length, which are released.
func (s *Session) Abandon() {
	if s.end(fault.ErrLost) {
		if s.node.clients != nil {
			s.node.clients.Abandons(transport.ID(s.node.id))
		}
		s.node.ask(func(l *shardLoop) { l.step(client.LoseSession{Session: s.life}) })
	}
}

// lose ends a user's session that lost a lease in one shard, in all others (P9).
func (s *Session) lose() {
	if s.life.End(fault.ErrLost) {
		s.lost()
	}
}

// lost tells of the loss.
func (s *Session) lost() {
	s.over()
	s.node.shards.post(func(l *shardLoop) { l.step(client.LoseSession{Session: s.life}) })
}
