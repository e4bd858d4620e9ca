package lockhttp

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"sync"
	"time"

	"github.com/lockmesh/mesh"
	"github.com/lockmesh/mesh/internal/fault"
	"github.com/lockmesh/mesh/internal/node"
)

// guest is a guest that this server carries, and what became of its requests here.
type guest struct {
	begun   chan struct{} // closed once session and err are set
	session *node.Session
	err     *Error // why it is not carried

	mu       sync.Mutex
	requests map[name]*request
	settled  []*request // those whose end is known, the oldest first
}

// maxSettled is how many ends a server remembers of a guest.
const maxSettled = 1024

func newGuest() *guest {
	return &guest{begun: make(chan struct{}), requests: make(map[name]*request)}
}

func (g *guest) begin(s *node.Session, err *Error) {
	g.session, g.err = s, err
	close(g.begun)
}

// over reports whether the guest is not carried here any more.
func (g *guest) over() bool {
	select {
	case <-g.begun:
		return g.err != nil || g.session.Err() != nil
	default:
		return false
	}
}

func (g *guest) leaseMS() int64 { return milliseconds(g.session.Lease()) }

// request is one request of a guest.
type request struct {
	guest   *guest
	asks    ask
	pending *node.Pending
	placed  chan struct{} // closed once a claim is known to be one of a place in a queue
	over    chan struct{} // closed once outcome and err are set: it does not wait any more
	outcome node.Outcome
	err     error

	mu     sync.Mutex
	ending chan struct{} // nil until the guest ends it; closed once endErr is set
	endErr error
}

// request makes a request, unless one of its name goes on.
func (g *guest) request(a ask) (*request, *Error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if r := g.requests[a.name()]; r != nil && !r.settled() {
		return r, r.differs(a)
	}
	return g.make(a)
}

// differs refuses a request under the name of r that asks for something else. Of what is claimed only the name is known.
func (r *request) differs(a ask) *Error {
	was := r.asks
	if was.Held = 0; was.Claim || reflect.DeepEqual(was, a) {
		return nil
	}
	return &Error{Status: http.StatusConflict, Code: CodeMismatch, Message: "the guest has made this request, and asked for something else"}
}

// make makes a request. It is called with the mutex held.
func (g *guest) make(a ask) (*request, *Error) {
	r := &request{guest: g, asks: a, placed: make(chan struct{}), over: make(chan struct{})}
	pending, err := g.session.Request(a.Request, sync.OnceFunc(func() { close(r.placed) }))
	if err != nil {
		return nil, failure(err)
	}
	r.pending = pending
	g.requests[a.name()] = r
	go func() {
		_ = pending.Wait(context.Background())
		r.outcome, r.err = pending.Outcome()
		close(r.over)
		if r.settled() {
			g.settle(r)
		}
	}()
	return r, nil
}

// settled reports whether the request has come to its end: nothing of it goes on.
func (r *request) settled() bool {
	if r.waits() {
		return false
	}
	if r.err != nil || r.outcome.Skipped || r.outcome.Ended || r.outcome.Hold == nil || r.outcome.Hold.Err() != nil {
		return true
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.ending != nil
}

// settle keeps the number of ends that are remembered in bounds.
func (g *guest) settle(r *request) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.settled = append(g.settled, r); len(g.settled) > maxSettled {
		g.forget(g.settled[0])
		g.settled = g.settled[1:]
	}
}

func (g *guest) forget(r *request) {
	if g.requests[r.asks.name()] == r {
		delete(g.requests, r.asks.name())
	}
}

// find returns what has become of a request, here or on an earlier server; nil: the guest has not made it, or that is forgotten, and
// the key is held by a holder with that name, if it is held.
func (g *guest) find(ctx context.Context, a ask) (r *request, holder string, err *Error) {
	g.mu.Lock()
	r = g.requests[a.name()]
	if r == nil {
		a.Claim, a.Try = true, false
		r, err = g.make(a)
	}
	g.mu.Unlock()
	if err != nil {
		return nil, "", err
	}
	return g.known(ctx, r)
}

// say is find of a hold that nobody knows of but the guest.
func (g *guest) say(ctx context.Context, a ask, token uint64) (r *request, err *Error) {
	a.Held, a.Try = token, false
	g.mu.Lock()
	r, err = g.make(a)
	g.mu.Unlock()
	if err != nil {
		return nil, err
	}
	r, _, err = g.known(ctx, r)
	return r, err
}

// known waits until it is known what a claim is about.
func (g *guest) known(ctx context.Context, r *request) (_ *request, holder string, err *Error) {
	if !r.asks.Claim && r.asks.Held == 0 {
		return r, "", nil
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	select {
	case <-r.over:
	case <-r.placed:
	case <-ctx.Done():
		return nil, "", failure(ctx.Err())
	}
	if r.waits() || !errors.Is(r.err, fault.ErrNotHeld) {
		return r, "", nil
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.forget(r)
	return nil, r.outcome.Info.Holder, nil
}

// waits reports whether the request has no outcome yet.
func (r *request) waits() bool {
	select {
	case <-r.over:
		return false
	default:
		return true
	}
}

// wait waits until the request does not wait any more, for a while.
func (r *request) wait(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-r.over:
	case <-t.C:
	case <-ctx.Done():
	}
}

// state tells what has become of the request.
func (r *request) state() (State, *Error) {
	if r.waits() {
		info := r.pending.Place()
		return State{State: "waiting", Ahead: info.Ahead, Holder: info.Holder}, nil
	}
	o := r.outcome
	switch {
	case r.err != nil:
		return State{}, failure(r.err)
	case o.Skipped:
		return State{State: "done", Skip: true, Token: o.Token}, nil
	case o.Ended:
		return State{State: "done", Token: o.Token}, nil
	}
	r.mu.Lock()
	ending := r.ending
	r.mu.Unlock()
	if ending != nil {
		select {
		case <-ending:
			if r.endErr != nil {
				return State{}, failure(r.endErr)
			}
		default:
		}
		return State{State: "done", Token: o.Token}, nil
	}
	if err := o.Hold.Err(); err != nil {
		return State{}, failure(err)
	}
	return State{State: "running", Acquired: true, Token: o.Token}, nil
}

// answer waits as long as the guest wishes, and tells what has become of the request.
func (g *guest) answer(ctx context.Context, h *handler, r *request, q Request) (any, *Error) {
	if q.WaitMS > 0 {
		r.wait(ctx, min(time.Duration(q.WaitMS)*time.Millisecond, g.session.TTL()/3))
	} else if q.Try {
		r.wait(ctx, patience)
	} else {
		r.wait(ctx, usualWait)
	}
	s, err := r.state()
	if err != nil {
		if errors.Is(r.err, mesh.ErrInUse) {
			err = h.inUse(ctx, r)
		}
		err.LeaseMS = g.leaseMS()
		return nil, err
	}
	s.LeaseMS = g.leaseMS()
	return s, nil
}

// usualWait is how long an answer to a guest that does not wish to wait is put off: as a rule a free key is granted by then.
const usualWait = 100 * time.Millisecond

func (h *handler) inUse(ctx context.Context, r *request) *Error {
	e := &Error{Status: http.StatusConflict, Code: CodeInUse, Message: r.err.Error(), Users: []Ref{}}
	if users, err := h.usersOf(ctx, r.asks.Key); err == nil {
		e.Users = users
	}
	return e
}

// leave takes a request out of its queue.
func (g *guest) leave(r *request) *Error {
	r.pending.Cancel()
	r.wait(context.Background(), patience)
	if s, err := r.state(); err == nil && s.State != "done" {
		return &Error{Status: http.StatusConflict, Code: CodeRunning, Message: "it does not wait: it is " + s.State, LeaseMS: g.leaseMS()}
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.forget(r)
	return nil
}

// end ends a request. One that has ended is answered as it was.
func (g *guest) end(ctx context.Context, a ask, q Request) (any, *Error) {
	r, holder, err := g.find(ctx, a)
	switch {
	case err != nil:
		return nil, err
	case r == nil && q.Token != 0:
		return nil, g.refuse(CodeLost, "the guest does not hold it any more")
	case r == nil && holder != "":
		return nil, g.refuse(CodeNotHolder, fmt.Sprintf("it is held by %q", holder))
	case r == nil:
		return nil, g.refuse(CodeNotLocked, "the guest has not asked for it, or has lost it")
	}
	s, err := r.state()
	switch {
	case err != nil:
		return nil, err
	case s.State == "waiting" && s.Holder != "":
		return nil, g.refuse(CodeNotHolder, fmt.Sprintf("it is held by %q, and the guest waits for it", s.Holder))
	case s.State == "waiting":
		return nil, g.refuse(CodeNotLocked, "the guest waits for it")
	case q.Token != 0 && q.Token != s.Token:
		return nil, g.refuse(CodeLost, "the guest holds it under another token")
	case s.State == "running":
		ctx, cancel := context.WithTimeout(ctx, patience)
		defer cancel()
		select {
		case <-r.end(q.Failed):
		case <-ctx.Done():
			return nil, failure(ctx.Err())
		}
		if s, err = r.state(); err != nil {
			return nil, err
		}
	}
	s.LeaseMS = g.leaseMS()
	return s, nil
}

func (g *guest) refuse(code, message string) *Error {
	return &Error{Status: http.StatusForbidden, Code: code, Message: message, LeaseMS: g.leaseMS()}
}

// end ends a hold, unless that is under way, and returns a channel that is closed when it has ended. That goes on until it is confirmed, or
// the lease is over.
func (r *request) end(failed bool) <-chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ending != nil {
		return r.ending
	}
	ended := make(chan struct{})
	r.ending = ended
	go func() {
		var err error
		if r.asks.Operation != nil {
			_, err = r.outcome.Hold.Finish(context.Background(), failed)
		} else {
			err = r.outcome.Hold.Release(context.Background())
		}
		r.mu.Lock()
		r.endErr = err
		r.mu.Unlock()
		close(ended)
		r.guest.settle(r)
	}()
	return ended
}
