package node

import (
	"context"
	"slices"
	"sync"

	"github.com/lockmesh/mesh/internal/env"
)

// Bell wakes callers that wait until something has changed. Its methods may be called from any goroutine.
type Bell struct {
	env env.Env

	mu      sync.Mutex
	waiting []env.Parker
}

// NewBell returns a bell.
func (n *Node) NewBell() *Bell { return &Bell{env: n.env} }

// Ring wakes all callers that wait. It does not block.
func (b *Bell) Ring() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, p := range b.waiting {
		p.Unpark()
	}
}

// Await waits until yes, which is asked at each ring, or until ctx ends: then it returns ctx.Err().
func (b *Bell) Await(ctx context.Context, yes func() bool) error {
	if yes() {
		return nil
	}
	p := b.env.NewParker()
	b.mu.Lock()
	b.waiting = append(b.waiting, p)
	b.mu.Unlock()
	defer func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.waiting = slices.DeleteFunc(b.waiting, func(o env.Parker) bool { return o == p })
	}()
	for !yes() {
		if p.Park(ctx, env.Never) != env.Unparked {
			return ctx.Err()
		}
	}
	return nil
}

// ending tells its listeners once that something is over, and why. Its methods may be called from any goroutine.
type ending struct {
	mu        sync.Mutex
	over      bool
	cause     error
	listeners []*listener
}

type listener struct{ hear func(cause error) }

// on arranges for hear to be called once with the cause; at once if there is one. Stop takes that back.
func (e *ending) on(hear func(cause error)) (stop func()) {
	e.mu.Lock()
	if e.over {
		e.mu.Unlock()
		hear(e.cause)
		return func() {}
	}
	defer e.mu.Unlock()
	l := &listener{hear}
	e.listeners = append(e.listeners, l)
	return func() {
		e.mu.Lock()
		defer e.mu.Unlock()
		e.listeners = slices.DeleteFunc(e.listeners, func(o *listener) bool { return o == l })
	}
}

// tell tells the listeners. It is called once.
func (e *ending) tell(cause error) {
	e.mu.Lock()
	all := e.listeners
	e.over, e.cause, e.listeners = true, cause, nil
	e.mu.Unlock()
	for _, l := range all {
		l.hear(cause)
	}
}
