package node

import (
	"cmp"
	"context"
	"time"

	"github.com/lockmesh/mesh/internal/client"
	"github.com/lockmesh/mesh/internal/fault"
	"github.com/lockmesh/mesh/ring"
)

// Carry returns a session of a guest (P42), a caller outside the mesh with that name, which this node carries from now on: it has all
// that the guest holds and waits for. Another node that carried it loses its session. The guest's home shard
// gives this node its number; then every other shard is asked whether it knows the guest. On an error the guest stays where it was, or
// nowhere.
func (n *Node) Carry(ctx context.Context, guest string, ttl time.Duration) (*Session, error) {
	s := newSession(n, false, ttl)
	s.life.Guest = guest
	if err := n.register(s); err != nil {
		return nil, err
	}
	shards := n.mesh.Load().params.Shards
	home := ring.Shard("guest\x00"+guest, shards)
	err := s.carryIn(ctx, false, home)
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
	return s.hear(ctx, &client.Call{Kind: client.Hear, Session: s.life})
}

// Confirm renews a guest's session as Heard does, and returns once it is certain of what this node knew of the guest before the call:
// at some moment after the call began, no other node had been told that it carries the guest on, and the shards of these keys had the
// guest's records. So the guest may be told what was known before the call, and the lease: the next carrier finds all of that. What this
// node hears of the guest during the call is for the next Confirm. ErrLost: another node carries the guest on, or its lease has ended.
// On an error nothing is certain.
func (s *Session) Confirm(ctx context.Context, keys ...string) (lease time.Duration, err error) {
	c := &client.Call{Kind: client.Confirm, Session: s.life}
	for _, key := range keys {
		c.Shards = append(c.Shards, s.node.shardOf(key))
	}
	return s.hear(ctx, c)
}

func (s *Session) hear(ctx context.Context, c *client.Call) (lease time.Duration, err error) {
	if err := cmp.Or(ctx.Err(), s.Err()); err != nil {
		return 0, err
	}
	if err := s.node.do(ctx, c, (*shardLoop).admit); err != nil {
		return 0, err
	}
	return s.Lease(), s.Err()
}

// Unsure returns for how much longer the guest may have other things than this node knows of: a shard has lost its table, and the
// next one grants nothing yet. Until is the moment, on the clock of env.Now, at which that ends; a later call that returns another
// moment tells that another table was lost. The guest may have something that an earlier carrier knew of and could not report before it
// ended; and it may have given back what is reported. What the guest names meanwhile, in requests with Held, it has. Rest is zero if the
// node knows what the guest has.
func (s *Session) Unsure() (rest, until time.Duration) {
	s.node.ask(func(l *shardLoop) {
		until = l.client.UnsureUntil(s.life)
		rest = max(0, until-s.node.env.Now())
	})
	return rest, until
}

// Lease returns for how long a guest may believe in all that its session holds, and in its places in queues, from when it asked: its
// own clock may be slow, and this node's fast (P1). That is certain if Confirm has returned it. Zero: the session has ended, or there is
// nothing to count on (see client.Client.LeaseOf).
func (s *Session) Lease() (lease time.Duration) {
	s.node.ask(func(l *shardLoop) { lease = l.client.LeaseOf(s.life, s.node.env.Now()) })
	return lease
}

// Outcome is what came of a request.
type Outcome struct {
	Hold    *Hold // it is held, or it is a use
	Skipped bool  // its operation was done already
	Ended   bool  // of a claim: the guest has ended it
	Token   uint64
	Info    client.WaitInfo // if it was refused
}

// Claim claims a request, and waits until it is more than a place in a queue.
func (s *Session) Claim(ctx context.Context, req client.Request) (Outcome, error) {
	req.Claim = true
	p, err := s.Request(req)
	if err == nil {
		err = p.Wait(ctx)
	}
	if err != nil {
		return Outcome{}, err
	}
	return p.Outcome()
}

// letGuestsGo ends the sessions of guests, and leaves to other nodes what they hold and wait for.
func (n *Node) letGuestsGo() {
	n.mu.Lock()
	var guests []*Session
	for s := range n.sessions { // order-free: each is ended alone
		if s.life.Guest != "" {
			guests = append(guests, s)
		}
	}
	n.mu.Unlock()
	for _, s := range guests {
		s.end(fault.ErrClosed)
	}
	n.ask(func(l *shardLoop) { l.step(client.LetGo{}) })
}
