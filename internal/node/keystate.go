package node

import (
	"cmp"
	"context"
	"iter"
	"time"

	"github.com/lockmesh/mesh/internal/client"
	"github.com/lockmesh/mesh/shard"
	"github.com/lockmesh/mesh/transport"
)

// Sight is what was seen of a key (P48).
type Sight struct {
	shard.KeyState
	Shard  int
	Leader string        // the name of the node that leads the shard; "" if it is not known
	Quiet  time.Duration // for how much longer the shard grants nothing
}

// Inspect returns what is known of a key; most is how many elements each of its lists has at most. ErrNoQuorum: its replicas have not answered
// for 2·E.
func (s *Session) Inspect(ctx context.Context, key string, most int) (Sight, error) {
	sh := s.node.shardOf(key)
	var seen Sight
	q, generation := shard.Inspection{Key: key, Most: most}, uint64(0)
	for first := true; ; {
		p, err := s.look(ctx, sh, q)
		switch {
		case err != nil:
			return Sight{}, err
		case p.Again || !first && p.Generation != generation:
			q.After, first = shard.Cursor{}, true
			continue
		case first:
			seen, first, generation = Sight{p.Keys[0], sh, p.Leader, p.Quiet}, false, p.Generation
		default:
			k := &p.Keys[0]
			seen.Holders, seen.Waiters = append(seen.Holders, k.Holders...), append(seen.Waiters, k.Waiters...)
			seen.Users, seen.Arrivals = append(seen.Users, k.Users...), append(seen.Arrivals, k.Arrivals...)
		}
		if q.After = p.Next; !p.More {
			return seen, nil
		}
	}
}

// List yields the keys in use that have the prefix, shard by shard.
func (s *Session) List(ctx context.Context, prefix string) iter.Seq2[Sight, error] {
	return func(yield func(Sight, error) bool) {
		for sh := range s.node.mesh.Load().params.Shards {
			seen, next, err := s.ListPage(ctx, prefix, sh, shard.Cursor{})
			for ; ; seen, next, err = s.ListPage(ctx, prefix, sh, *next) {
				if err != nil {
					yield(Sight{}, err)
					return
				}
				for _, k := range seen {
					if !yield(k, nil) {
						return
					}
				}
				if next == nil {
					break
				}
			}
		}
	}
}

// ListPage returns some keys of one shard that have the prefix, behind a cursor, and where the next page begins; nil: there is none.
func (s *Session) ListPage(ctx context.Context, prefix string, sh int, after shard.Cursor) (seen []Sight, next *shard.Cursor, err error) {
	p, err := s.look(ctx, sh, shard.Inspection{Key: prefix, List: true, After: after})
	if err != nil {
		return nil, nil, err
	}
	for _, k := range p.Keys {
		seen = append(seen, Sight{k, sh, p.Leader, p.Quiet})
	}
	if p.More {
		next = &p.Next
	}
	return seen, next, nil
}

// look asks for one page.
func (s *Session) look(ctx context.Context, sh int, q shard.Inspection) (client.Page, error) {
	if err := cmp.Or(ctx.Err(), s.Err()); err != nil {
		return client.Page{}, err
	}
	answered := func(shard.Page) {}
	if clients := s.node.clients; clients != nil {
		answered = clients.Looks(transport.ID(s.node.id))
	}
	c := &client.Call{Kind: client.Ask, Shard: sh, Session: s.life, Request: client.Request{Key: q.Key}, Inspect: &q}
	if err := s.node.do(ctx, c, (*shardLoop).admit); err != nil {
		return client.Page{}, err
	}
	answered(c.Page.Page)
	return c.Page, nil
}
