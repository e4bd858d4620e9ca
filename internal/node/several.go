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

// Acquired is what came of one of several requests.
type Acquired struct {
	Hold *Hold // nil on an error
	Info *client.WaitInfo
	Err  error
}

// AcquireEach sends all requests together, and returns when each has its result, or when ctx ends: the result of the i-th request is the
// i-th. A hold that it returns was held when the last result came.
func (s *Session) AcquireEach(ctx context.Context, reqs []client.Request) []Acquired {
	all := make([]Acquired, len(reqs))
	calls := make([]*client.Call, len(reqs))
	callers := make([]env.Caller, len(reqs))
	for i, req := range reqs {
		calls[i] = s.call(client.Lock, req)
		all[i].Info = &calls[i].Info
		if s.node.clients != nil {
			weight, capacity := req.Share()
			callers[i] = s.node.clients.Called(transport.ID(s.node.id), env.Ask{Key: req.Key, Weight: weight, Capacity: capacity})
		}
	}
	err := cmp.Or(ctx.Err(), s.Err())
	if err == nil && !s.node.shards.post(func(l *shardLoop) {
		for _, c := range calls {
			l.admit(c)
		}
	}) {
		err = fault.ErrClosed
	}
	for i, c := range calls {
		if all[i].Err = err; err == nil {
			all[i].Err = s.node.await(ctx, c)
		}
	}
	for i, c := range calls {
		a := &all[i]
		if a.Err == nil {
			a.Hold = c.Hold.Owner.(*Hold)
			if a.Err = a.Hold.Err(); a.Err != nil { // it ended while others had no result yet, or everything stood still (P1)
				if a.Err == fault.ErrBroken {
					a.Hold.yield()
				}
				a.Hold = nil
			}
		}
		switch {
		case callers[i] == nil:
		case a.Err != nil:
			callers[i].Returned(nil, a.Err)
		default:
			a.Hold.observe(callers[i])
		}
	}
	return all
}

// Releases are several releases under way.
type Releases struct {
	node  *Node
	holds []*Hold
	errs  []error        // of those of which there is nothing to wait for
	calls []*client.Call // nil: it is not this one's release
}

// ReleaseEach gives several keys of one node up, as Release gives up one: all beliefs end before anything is sent (P8), and the releases
// are sent together. Wait waits for their confirmations.
func ReleaseEach(holds []*Hold) *Releases {
	r := &Releases{holds: holds, errs: make([]error, len(holds)), calls: make([]*client.Call, len(holds))}
	var begun []*client.Call
	for i, h := range holds {
		r.node = h.node
		if h.holder != nil {
			h.holder.Unlocking()
		}
		if r.calls[i], r.errs[i] = h.beginRelease(); r.calls[i] != nil {
			begun = append(begun, r.calls[i])
		}
	}
	for _, c := range begun {
		c.Hold.Owner.(*Hold).end(env.Never, fault.ErrClosed)
	}
	if len(begun) > 0 && !r.node.shards.post(func(l *shardLoop) {
		for _, c := range begun {
			l.step(client.Start{Call: c})
		}
	}) {
		for _, c := range begun {
			c.Hold.Owner.(*Hold).released(fault.ErrUnconfirmed)
		}
	}
	return r
}

// beginRelease returns a call that releases h, and has not begun. No call: the hold is over, for the reason that is returned, or another
// caller releases it.
func (h *Hold) beginRelease() (*client.Call, error) {
	switch err := h.Err(); err {
	case fault.ErrLost:
		return nil, err
	case fault.ErrBroken:
		h.yield()
		return nil, err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.releasing != nil {
		return nil, nil
	}
	if cause := h.belief.Err(); cause != nil {
		return nil, cause // with its session or its node; or its time ended since it was looked at
	}
	h.releasing = &client.Call{Kind: client.Unlock, Shard: h.belief.Shard, Hold: h.belief}
	return h.releasing, nil
}

// Wait returns what came of each release, as Release does. If ctx ends, those without a result are ErrUnconfirmed, and go on; if it has
// ended already, Wait gives them so long.
func (r *Releases) Wait(ctx context.Context, late time.Duration) []error {
	if len(r.holds) == 0 {
		return nil
	}
	ctx, limit := r.node.bounds(ctx, late)
	var open []*client.Call
	for i, h := range r.holds {
		if r.errs[i] == nil {
			h.mu.Lock()
			r.errs[i] = h.await(ctx, limit) // which unlocks the mutex
			if c := r.calls[i]; c != nil && r.errs[i] == fault.ErrUnconfirmed {
				open = append(open, c)
			}
		}
		if h.holder != nil {
			h.holder.Unlocked(r.errs[i])
		}
	}
	if len(open) > 0 {
		r.node.shards.post(func(l *shardLoop) {
			for _, c := range open {
				l.step(client.Abandon{Call: c})
			}
		})
	}
	return r.errs
}
