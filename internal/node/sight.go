package node

import (
	"cmp"
	"context"
	"fmt"

	"github.com/lockmesh/mesh/internal/fault"
	"github.com/lockmesh/mesh/internal/operator"
	"github.com/lockmesh/mesh/internal/wire"
	"github.com/lockmesh/mesh/shard"
)

// maxMost is how many elements of each list an operator is told of a key, at most.
const maxMost = 1000

// operateOn answers a question of an operator about keys, through this node's own session. ErrNotFounded: it cannot serve yet.
func (n *Node) operateOn(ctx context.Context, q operator.Question) (*operator.Sight, error) {
	s := n.Session()
	if s == nil {
		return nil, fmt.Errorf("%w: %s", fault.ErrNotFounded, n.Waiting())
	}
	switch q.Verb {
	case operator.Break:
		return nil, s.Break(ctx, q.Key, q.Token, q.Text)
	case operator.Release:
		one, err := n.NewSession(s.TTL()) // this node's own session may use it, and lives
		if err != nil {
			return nil, err
		}
		err = one.Drop(ctx, q.Key, q.Text)
		if err := cmp.Or(err, one.Close(ctx)); err != nil {
			return nil, err
		}
		return s.tell(ctx, q.Shard, shard.Inspection{Key: q.Key, Most: maxMost})
	}
	var look shard.Inspection
	if err := wire.Decode(q.Look, &look); err != nil {
		return nil, fmt.Errorf("%w: %w", fault.ErrInvalidOption, err)
	}
	return s.tell(ctx, q.Shard, look)
}

// tell returns what is known of a key, or some of the keys of a shard. Of one key it tells as much as fits into an answer.
func (s *Session) tell(ctx context.Context, sh int, look shard.Inspection) (*operator.Sight, error) {
	shards := s.node.Params().Shards
	if look.List {
		if sh >= shards {
			return nil, fmt.Errorf("%w: there is no shard %d: the mesh has %d, from 0 on", fault.ErrInvalidOption, sh, shards)
		}
		p, err := s.look(ctx, sh, look)
		if err != nil {
			return nil, err
		}
		return &operator.Sight{Shard: sh, Shards: shards, Leader: p.Leader, Page: wire.Append(nil, &p.Page)}, nil
	}
	for most := min(look.Most, maxMost); ; most /= 4 {
		seen, err := s.Inspect(ctx, look.Key, most)
		if err != nil {
			return nil, err
		}
		page := shard.Page{Keys: []shard.KeyState{seen.KeyState}, Quiet: seen.Quiet}
		if b := wire.Append(nil, &page); len(b) <= operator.MaxSight || most == 0 {
			return &operator.Sight{Shard: seen.Shard, Shards: shards, Leader: seen.Leader, Page: b}, nil
		}
	}
}
