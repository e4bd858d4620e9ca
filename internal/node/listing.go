package node

import (
	"context"
	"fmt"
	"time"

	"github.com/lockmesh/mesh/internal/env"
	"github.com/lockmesh/mesh/internal/fault"
	"github.com/lockmesh/mesh/internal/members"
)

// listWait is how long a listing may take, if ctx has no deadline.
const listWait = 15 * time.Second

// listing is a caller of ListMembers.
type listing struct {
	parker env.Parker
	result []Member
}

// ListMembers returns the members of the mesh that the nodes of the core know: each name once, sorted. Errors: one that
// wraps ErrNotFounded if the node is in no mesh; ErrNoQuorum, with the error of ctx if that has ended (15 s, if ctx has no
// deadline), if no majority of the core has answered; and the reason if the node ends meanwhile.
func (n *Node) ListMembers(ctx context.Context) ([]Member, error) {
	if err := n.Err(); err != nil {
		return nil, err
	}
	if n.mesh.Load() == nil {
		return nil, fmt.Errorf("%w: %s", fault.ErrNotFounded, n.Waiting())
	}
	limit := n.limit(ctx, listWait)
	c, number := &listing{parker: n.env.NewParker()}, uint64(0)
	n.membership.post(func(m *membership) {
		var out []members.Output
		number, out = m.members.List(m.now, m.out)
		m.lists[number] = c
		m.carryOut(out)
	})
	for {
		wait := min(limit, n.env.Now()+healthEvery) // the node may end meanwhile
		end := c.parker.Park(ctx, wait)
		switch {
		case end == env.Unparked:
			return c.result, nil
		case n.Err() != nil:
			return nil, n.Err()
		case end != env.ContextEnded && n.env.Now() < limit:
			continue
		}
		n.membership.post(func(m *membership) {
			m.members.Unlist(number)
			delete(m.lists, number)
		})
		err := fmt.Errorf("%w: too few nodes of the core say which members they know", fault.ErrNoQuorum)
		if ctx.Err() != nil {
			err = fmt.Errorf("%w: %w", err, ctx.Err())
		}
		return nil, err
	}
}

// listed gives a caller its result.
func (m *membership) listed(o members.Listed) {
	if c := m.lists[o.Number]; c != nil {
		delete(m.lists, o.Number)
		c.result = o.Members
		c.parker.Unpark()
	}
}
