package node

import (
	"context"
	"slices"
	"time"

	"github.com/lockmesh/mesh/internal/client"
	"github.com/lockmesh/mesh/internal/env"
	"github.com/lockmesh/mesh/internal/fault"
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
	calls := make([]*client.Call, len(reqs))
	callers := make([]env.Caller, len(reqs))
	for i, req := range reqs {
		calls[i] = s.call(client.Lock, req)
		callers[i] = s.calls(askOf(&req))
	}
	errs, now := s.node.callEach(ctx, calls), s.node.env.Now()
	all := make([]Acquired, len(reqs))
	for i, c := range calls {
		a := &all[i]
		a.Info, a.Err = &c.Info, errs[i]
		if a.Err == nil {
			a.Hold = c.Hold.Owner.(*Hold)
			if a.Err = a.Hold.errAt(now); a.Err != nil { // it ended while others had no result yet, or everything stood still (P1)
				if a.Err == fault.ErrBroken {
					a.Hold.yield()
				}
				a.Hold = nil
			}
		}
		returned(callers[i], a.Hold, a.Err)
	}
	return all
}

// FirstOver returns which of several holds of one node is the first that is over, by the clock at this call, and why. No error: none is. A nil hold
// stands for none.
func FirstOver(holds []*Hold) (i int, cause error) {
	now := time.Duration(env.Never)
	for i, h := range holds {
		if h == nil {
			continue
		}
		if now == env.Never {
			now = h.node.env.Now()
		}
		if err := h.errAt(now); err != nil {
			return i, err
		}
	}
	return 0, nil
}

// ExtendEach makes several holds of fixed length of one node end together, d from now, as Extend does with one. It returns when each has its
// result, or when ctx ends. The errors are those of the holds, nil for one that was held when the last result came.
func ExtendEach(ctx context.Context, holds []*Hold, d time.Duration) []error {
	calls := make([]*client.Call, len(holds))
	for i, h := range holds {
		calls[i] = h.call(client.Fix)
		calls[i].Length = d
		h.holders.Extending(d)
	}
	errs, now := holds[0].node.callEach(ctx, calls), holds[0].node.env.Now()
	for i, h := range holds {
		if errs[i] == nil {
			errs[i] = h.errAt(now) // it ended while others had no result yet, or everything stood still (P1)
		}
		h.holders.Extended(d, errs[i])
	}
	return errs
}

// callEach begins several calls together, and blocks until each has its result, as await does for one. It returns their errors. If ctx has ended, none
// begins.
func (n *Node) callEach(ctx context.Context, calls []*client.Call) []error {
	all := func(err error) []error { return slices.Repeat([]error{err}, len(calls)) }
	if err := ctx.Err(); err != nil {
		return all(err)
	}
	each := func(do func(*shardLoop, *client.Call)) bool {
		return n.shards.post(func(l *shardLoop) {
			for _, c := range calls {
				do(l, c)
			}
		})
	}
	results := n.awaitEach(calls)
	if !each((*shardLoop).admit) {
		return all(fault.ErrClosed)
	}
	if results.Park(ctx, env.Never) != env.Unparked {
		if !each(func(l *shardLoop, c *client.Call) { l.step(client.Abandon{Call: c, Cause: ctx.Err()}) }) {
			return all(fault.ErrClosed)
		}
		results.Park(context.WithoutCancel(ctx), env.Never)
	}
	errs := make([]error, len(calls))
	for i, c := range calls {
		errs[i] = c.Err
	}
	return errs
}

// lastResult is the Parker of several calls: the last result wakes their caller.
type lastResult struct {
	env.Parker
	missing int // the shard loop's, once a call has begun
}

// awaitEach gives calls that have not begun one place where their caller waits for all of them.
func (n *Node) awaitEach(calls []*client.Call) *lastResult {
	r := &lastResult{n.env.NewParker(), len(calls)}
	for _, c := range calls {
		c.Parker = r
	}
	return r
}

// Unpark implements env.Parker.
func (r *lastResult) Unpark() {
	if r.missing--; r.missing == 0 {
		r.Parker.Unpark()
	}
}

// Releases are several releases under way.
type Releases struct {
	node  *Node
	holds []*Hold
	errs  []error        // of those of which there is nothing to wait for
	calls []*client.Call // nil: it is not this one's release
	last  *lastResult    // of the calls; nil: there are none that have begun
}

// ReleaseEach gives several keys of one node up, as Release gives up one: all beliefs end before anything is sent (P8), and the releases
// are sent together. Wait waits for their confirmations.
func ReleaseEach(holds []*Hold) *Releases {
	r := &Releases{holds: holds, errs: make([]error, len(holds)), calls: make([]*client.Call, len(holds))}
	if len(holds) == 0 {
		return r
	}
	r.node = holds[0].node
	now := r.node.env.Now()
	begun := make([]*client.Call, 0, len(holds))
	for i, h := range holds {
		h.holders.Unlocking()
		if r.calls[i], r.errs[i] = h.beginRelease(now, false); r.calls[i] != nil {
			begun = append(begun, r.calls[i])
		}
	}
	for _, c := range begun {
		c.Hold.Owner.(*Hold).end(env.Never, fault.ErrClosed)
	}
	if len(begun) == 0 {
		return r
	}
	r.last = r.node.awaitEach(begun)
	if !r.node.shards.post(func(l *shardLoop) {
		for _, c := range begun {
			l.begin(c)
		}
	}) {
		for _, c := range begun {
			c.Hold.Owner.(*Hold).released(fault.ErrUnconfirmed)
		}
		r.last = nil
	}
	return r
}

// Wait, which is called once, returns what came of each release, as Release does. If ctx ends, those without a result are ErrUnconfirmed, and go
// on in the background. If ctx has ended before the call, Wait waits for late at most.
func (r *Releases) Wait(ctx context.Context, late time.Duration) []error {
	if len(r.holds) == 0 {
		return nil
	}
	ctx, limit := r.node.bounds(ctx, late)
	if r.last != nil {
		r.last.Park(ctx, limit)
	}
	var open []*client.Call
	for i, h := range r.holds {
		if r.errs[i] == nil {
			r.errs[i] = h.await(ctx, limit)
			if c := r.calls[i]; c != nil && r.errs[i] == fault.ErrUnconfirmed {
				open = append(open, c)
			}
		}
		h.holders.Unlocked(r.errs[i])
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
