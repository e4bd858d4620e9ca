package node

import (
	"cmp"
	"context"
	"errors"

	"github.com/lockmesh/mesh/internal/client"
	"github.com/lockmesh/mesh/internal/env"
	"github.com/lockmesh/mesh/internal/fault"
	"github.com/lockmesh/mesh/ring"
	"github.com/lockmesh/mesh/shard"
)

// Operate waits for the turn of an operation on a resource (P39), or until ctx ends. Skipped: it was done already; then the
// hold is the use of a pull, and nil after another operation. On an error nothing is held, and the WaitInfo says what
// was known.
func (s *Session) Operate(ctx context.Context, req client.Request) (h *Hold, skipped bool, info *client.WaitInfo, err error) {
	if !s.observed() {
		return s.acquire(ctx, req)
	}
	runs := s.calls(env.Ask{Key: req.Key, Weight: 1, Capacity: 1, Once: req.Operation.Op == shard.Run})
	var uses env.Caller
	if req.Operation.Op == shard.Pull {
		uses = s.calls(useOf(req.Key))
	}
	alone := []env.Caller{runs}
	if req.Operation.Alone {
		alone = append(alone, s.calls(env.Ask{Key: env.UsesOf(req.Key), Weight: shard.Whole, Capacity: shard.Whole}))
	}
	h, skipped, info, err = s.acquire(ctx, req)
	became := func(what bool, callers ...env.Caller) {
		if what && h != nil {
			h.observe(callers...)
			return
		}
		for _, c := range callers {
			c.Returned(nil, noHold(err))
		}
	}
	became(err == nil && !skipped, alone...)
	if uses != nil {
		became(err == nil && skipped, uses)
	}
	return h, skipped, info, err
}

// noHold is what an observer is told of a call that returns without a hold, and with err.
func noHold(err error) error {
	if err == nil {
		return env.ErrSkipped
	}
	return errors.Join(env.ErrSkipped, err)
}

// useOf is what a call asks for that makes a use.
func useOf(key string) env.Ask {
	return env.Ask{Key: env.UsesOf(key), Weight: 1, Capacity: shard.Whole, Use: true}
}

// Finish ends an operation, and says whether it failed. The holder's belief ends before anything is sent, and the end is
// repeated until it is confirmed or the lease has ended: ctx bounds only the wait, as in Release. After a pull that
// did not fail it returns the use. Later calls wait for the same confirmation.
func (h *Hold) Finish(ctx context.Context, failed bool) (use *Hold, err error) {
	h.mu.Lock()
	again := h.releasing != nil
	h.mu.Unlock()
	if h.holders == nil || again {
		return h.finish(ctx, failed)
	}
	var uses env.Caller
	if h.belief.Pulls() && !failed {
		uses = h.session.calls(useOf(h.belief.Key))
	}
	if retention, once := h.belief.Once(); once && !failed {
		h.holders.Succeeding(retention)
	}
	h.holders.Unlocking()
	use, err = h.finish(ctx, failed)
	h.holders.Unlocked(err)
	switch {
	case uses == nil:
	case use != nil && use.Err() == nil: // else this goroutine stood still until it was over (P1)
		use.observe(uses)
	default:
		uses.Returned(nil, noHold(err))
	}
	return use, err
}

func (h *Hold) finish(ctx context.Context, failed bool) (use *Hold, err error) {
	err = h.release(ctx, failed)
	if err == fault.ErrUnconfirmed {
		h.node.ask(func(*shardLoop) {}) // the answer may have come as ctx ended: then there is a use
	}
	if use := h.Use(); use != nil {
		return use, nil
	}
	return nil, err
}

// Use returns the use that a pull has made, once its end is confirmed; else nil.
func (h *Hold) Use() *Hold {
	h.mu.Lock()
	defer h.mu.Unlock()
	if c := h.releasing; c != nil && h.confirmed && c.Use != nil && c.Use.Owner != nil {
		return c.Use.Owner.(*Hold)
	}
	return nil
}

// Drop ends a user's use of a resource, with all its handles in this session, and one that outlived its session. It is
// repeated until it is confirmed. ErrUnconfirmed: ctx ended first, or after a second if it had ended already.
func (s *Session) Drop(ctx context.Context, key, user string) error {
	if err := s.Err(); err != nil {
		return err
	}
	ctx, limit := s.node.bounds(ctx, LateRelease)
	c := s.call(client.Drop, client.Request{Key: key, Operation: &shard.Operation{User: user}})
	return s.node.confirm(ctx, limit, c, (*shardLoop).admit)
}

// Refs returns the uses of a resource. ErrNoQuorum: its replicas have not answered for 2·E.
func (s *Session) Refs(ctx context.Context, key string) ([]shard.Ref, error) {
	if err := cmp.Or(ctx.Err(), s.Err()); err != nil {
		return nil, err
	}
	c := s.call(client.Ask, client.Request{Key: key})
	err := s.node.do(ctx, c, (*shardLoop).admit)
	return c.Refs, err
}

// call returns a call about a key, which has not begun.
func (s *Session) call(kind client.Kind, req client.Request) *client.Call {
	return &client.Call{Kind: kind, Shard: s.node.shardOf(req.Key), Session: s.life, Request: req}
}

// call returns a call about the hold, which has not begun.
func (h *Hold) call(kind client.Kind) *client.Call {
	return &client.Call{Kind: kind, Shard: h.belief.Shard, Hold: h.belief}
}

// shardOf returns the shard that has a key. The node must have a Session.
func (n *Node) shardOf(key string) int { return ring.Shard(key, n.mesh.Load().params.Shards) }

// Keep: no handle of a use is left in the program. The use lasts as long as its lease. It is called once for each handle.
func (h *Hold) Keep() {
	h.node.shards.post(func(l *shardLoop) { l.step(client.Keep{Hold: h.belief}) })
}
