package node

import (
	"cmp"
	"context"
	"sync"

	"github.com/lockmesh/mesh/internal/client"
	"github.com/lockmesh/mesh/internal/fault"
)

// Pending is a request of a guest: it goes on when no caller waits for it. Its methods may be called by several goroutines at once.
type Pending struct {
	session *Session
	call    *client.Call
	bell    *Bell

	mu      sync.Mutex
	placed  bool  // it is known to have a place in a queue
	over    bool  // it has its result
	cancels bool  // it was taken back
	undone  bool  // and that has its result,
	undoing error // which is this
}

// Request makes a request of a guest, or claims one.
func (s *Session) Request(req client.Request) (*Pending, error) {
	c := s.call(client.Lock, req)
	p := &Pending{session: s, call: c, bell: s.node.NewBell()}
	c.Owner = p
	if !s.node.shards.post(func(l *shardLoop) { l.admit(c) }) {
		return nil, fault.ErrClosed
	}
	return p, nil
}

// tell notes what has changed, and wakes those that wait.
func (p *Pending) tell(change func()) {
	p.mu.Lock()
	change()
	p.mu.Unlock()
	p.bell.Ring()
}

func (p *Pending) is(what *bool) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return *what
}

// finished: the request has its result, or the Cancel by which it was taken back.
func (p *Pending) finished(c *client.Call) {
	p.tell(func() {
		if c == p.call {
			p.over = true
		} else {
			p.undone, p.undoing = true, c.Err
		}
	})
}

// Over reports whether the request has its result.
func (p *Pending) Over() bool { return p.is(&p.over) }

// Wait waits for the result, or until ctx ends; the request goes on then.
func (p *Pending) Wait(ctx context.Context) error { return p.bell.Await(ctx, p.Over) }

// Known waits until it is known what a claim is about: the claim has its result then, or a place in a queue. Of a request
// that is no claim, and names no token (Held), that is known at once.
func (p *Pending) Known(ctx context.Context) error {
	if q := &p.call.Request; !q.Claim && q.Held == 0 {
		return nil
	}
	return p.Placed(ctx)
}

// Placed waits until the shard has said of the request that it has a place in a queue, or how it has ended.
func (p *Pending) Placed(ctx context.Context) error {
	return p.bell.Await(ctx, func() bool { return p.is(&p.placed) || p.Over() })
}

// Place returns what is known of a request that waits.
func (p *Pending) Place() (info client.WaitInfo) {
	p.session.node.ask(func(*shardLoop) { info = p.call.Info })
	return info
}

// Cancel takes the request back: from then on its result is ErrNotHeld. If the request has another result already, Cancel does nothing,
// and returns nil. Else it waits until the table has confirmed that nothing is left of the request, or until ctx ends: then it returns
// ctx.Err(), the Cancel goes on, and later calls wait for the same one. ErrClosed: the node has ended.
func (p *Pending) Cancel(ctx context.Context) error {
	if p.Over() && !p.is(&p.cancels) {
		return nil
	}
	posted := p.session.node.shards.post(func(l *shardLoop) {
		if p.Over() || p.is(&p.cancels) {
			return
		}
		p.tell(func() { p.cancels = true })
		if l.step(client.Abandon{Call: p.call, Cause: fault.ErrNotHeld}); p.call.Undo == nil {
			p.tell(func() { p.undone = true }) // it was never sent
		}
	})
	if !posted {
		return fault.ErrClosed
	}
	err := p.bell.Await(ctx, func() bool { return p.is(&p.undone) || p.Over() && !p.is(&p.cancels) })
	p.mu.Lock()
	defer p.mu.Unlock()
	return cmp.Or(err, p.undoing)
}

// Outcome returns the result, once the request has it. ErrNotHeld: it was taken back; or it is a claim of a request that the guest has
// not made, or whose end is forgotten. Other errors are those with which it was refused.
func (p *Pending) Outcome() (Outcome, error) {
	c := p.call
	o := Outcome{Skipped: c.Skipped, Ended: c.Ended, Token: c.Token(), Info: c.Info}
	if c.Hold != nil && c.Err == nil {
		o.Hold = c.Hold.Owner.(*Hold)
	}
	return o, c.Err
}
