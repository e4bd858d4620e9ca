package node

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/lockmesh/mesh/internal/client"
	"github.com/lockmesh/mesh/internal/env"
	"github.com/lockmesh/mesh/internal/fault"
	"github.com/lockmesh/mesh/shard"
	"github.com/lockmesh/mesh/transport"
)

// How often Break looks whether the key is free: soon at first.
const (
	firstLook   = 50 * time.Millisecond
	longestLook = time.Second
)

// Break breaks the grant of a key that a token names (P49), and returns nil once nobody holds the key under that token any more. Why goes into logs.
// Errors: ErrNotHeld if nobody did; ErrTooManyBroken; ErrUnconfirmed, with the error of ctx, if that ended first: a grant that is broken by then is
// free after a lease at the latest. While the shard grants nothing yet, Break waits until it is known who holds the key.
func (s *Session) Break(ctx context.Context, key string, token uint64, why string) error {
	if err := cmp.Or(ctx.Err(), s.Err()); err != nil {
		return err
	}
	if s.node.clients != nil {
		s.node.clients.Breaks(transport.ID(s.node.id), key, token)
	}
	p := s.node.env.NewParker()
	broken, last := false, error(nil)
	for pause := firstLook; ; pause = min(2*pause, longestLook) {
		err := s.breaks(ctx, key, token, why)
		switch {
		case err == nil:
			broken, last = true, nil
		case broken && err == fault.ErrNotHeld:
			return nil
		case err == fault.ErrQuiet:
			last = err
		case errors.Is(err, fault.ErrUnconfirmed) && ctx.Err() != nil:
			return fmt.Errorf("%w: %w", err, ctx.Err())
		default:
			return err
		}
		if p.Park(ctx, s.node.env.Now()+pause) == env.ContextEnded {
			return errors.Join(fmt.Errorf("%w: %w", fault.ErrUnconfirmed, ctx.Err()), last)
		}
	}
}

// breaks sends one Break.
func (s *Session) breaks(ctx context.Context, key string, token uint64, why string) error {
	c := s.call(client.Break, client.Request{Key: key})
	c.Grant, c.Why = token, why
	return s.node.confirm(ctx, env.Never, c, (*shardLoop).admit)
}

// yield gives the key of a broken hold up, as its holder has stopped. Nobody waits for that: its leader frees the key in any case.
func (h *Hold) yield() {
	h.mu.Lock()
	if h.releasing != nil {
		h.mu.Unlock()
		return
	}
	c := h.call(client.Unlock)
	c.Failed, h.releasing = true, c
	h.mu.Unlock()
	h.node.shards.post(func(l *shardLoop) {
		l.begin(c)
		l.step(client.Abandon{Call: c})
	})
}

// Waive gives a broken grant of a guest back, of which this node has no hold: the guest has stopped.
func (s *Session) Waive(key string, token uint64) {
	c := s.call(client.Waive, client.Request{Key: key})
	c.Grant = token
	s.node.shards.post(func(l *shardLoop) { l.begin(c) })
}

// Owes returns the broken grants that a guest may believe in, as far as this node knows: it is told no lease as long as there is one.
func (s *Session) Owes() (all []shard.Breach) {
	s.node.ask(func(l *shardLoop) { all = l.client.Owes(s.life, s.node.env.Now()) })
	return all
}
