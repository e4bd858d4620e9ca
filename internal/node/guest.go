package node

import (
	"cmp"
	"context"
	"time"

	"github.com/lockmesh/mesh/internal/client"
	"github.com/lockmesh/mesh/internal/env"
	"github.com/lockmesh/mesh/internal/fault"
	"github.com/lockmesh/mesh/ring"
)

// Carry returns a session of a guest (P40), a caller outside the mesh with that name, which this node carries from now on: it has all
// that the guest holds and waits for. Another node that carried it loses its session. The guest's home shard
// gives this node its number; then every other shard is asked whether it knows the guest. On an error the guest stays where it was, or
// nowhere.
func (n *Node) Carry(ctx context.Context, guest string, ttl time.Duration) (*Session, error) {
	s, err := n.NewSession(ttl)
	if err != nil {
		return nil, err
	}
	s.life.Guest = guest // nobody else has the session yet
	shards := n.mesh.Load().params.Shards
	home := ring.Shard("guest\x00"+guest, shards)
	err = s.carryIn(ctx, false, home)
	if err == nil {
		others := make([]int, 0, shards)
		for sh := range shards {
			if sh != home {
				others = append(others, sh)
			}
		}
		err = s.carryIn(ctx, true, others...)
	}
	if err != nil {
		s.lose()
		return nil, err
	}
	return s, nil
}

// carryIn carries a guest on in several shards at once.
func (s *Session) carryIn(ctx context.Context, only bool, shards ...int) error {
	calls := make([]*client.Call, 0, len(shards))
	for _, sh := range shards {
		calls = append(calls, &client.Call{Kind: client.Carry, Shard: sh, Session: s.life, Only: only, Parker: s.node.env.NewParker()})
	}
	started := s.node.shards.post(func(l *shardLoop) {
		for _, c := range calls {
			l.admit(c)
		}
	})
	if !started {
		return fault.ErrClosed
	}
	var first error
	for _, c := range calls {
		first = cmp.Or(first, s.node.await(ctx, c))
	}
	return first
}

// Heard renews a guest's session, since the guest has made a request, and returns for how long the guest may now believe in all that it
// holds, and in its places in queues. ErrLost: another node carries the guest on, or its lease has ended.
func (s *Session) Heard(ctx context.Context) (lease time.Duration, err error) {
	if err := cmp.Or(ctx.Err(), s.Err()); err != nil {
		return 0, err
	}
	c := &client.Call{Kind: client.Hear, Session: s.life, Parker: s.node.env.NewParker()}
	if !s.node.shards.post(func(l *shardLoop) { l.admit(c) }) {
		return 0, fault.ErrClosed
	}
	if err := s.node.await(ctx, c); err != nil {
		return 0, err
	}
	until := env.Never
	s.node.ask(func(l *shardLoop) { until = l.client.Until(s.life) })
	return max(until-s.node.env.Now(), 0), s.Err()
}

// Claimed is what came of a request that a guest had made before.
type Claimed struct {
	Hold    *Hold // it is held, or it is a use
	Skipped bool  // its operation was done already
	Ended   bool  // the guest has ended it
	Token   uint64
}

// Claim returns what became of a request with this tag, for the key of req, and waits until it is more than a place in a queue, or
// until ctx ends. ErrNotHeld: the guest has not made it, or its end is forgotten. Other errors are those with which it
// was refused.
func (s *Session) Claim(ctx context.Context, req client.Request) (Claimed, *client.WaitInfo, error) {
	req.Claim = true
	c := s.call(client.Lock, req)
	if !s.node.shards.post(func(l *shardLoop) { l.admit(c) }) {
		return Claimed{}, &c.Info, fault.ErrClosed
	}
	if err := s.node.await(ctx, c); err != nil {
		return Claimed{}, &c.Info, err
	}
	got := Claimed{Skipped: c.Skipped, Ended: c.Ended, Token: c.Token()}
	if c.Hold != nil {
		got.Hold = c.Hold.Owner.(*Hold)
	}
	return got, &c.Info, nil
}
