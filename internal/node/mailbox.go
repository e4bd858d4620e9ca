package node

import (
	"sync"

	"github.com/lockmesh/mesh/internal/env"
)

// mailbox is where other goroutines leave functions for a loop to call. Each gets the loop's state, a
// T, to which only the loop has access. The loop drains it whole: the more has gathered, the larger
// the batches.
type mailbox[T any] struct {
	mu     sync.Mutex
	loop   env.Loop // nil before start
	todo   []func(T)
	closed bool
}

// start tells which loop drains the mailbox. It is not woken yet for what came before.
func (b *mailbox[T]) start(loop env.Loop) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.loop = loop
}

// post makes the loop run do. It reports false if the mailbox is closed.
func (b *mailbox[T]) post(do func(T)) bool {
	b.mu.Lock()
	loop, open := b.loop, !b.closed
	if open {
		b.todo = append(b.todo, do)
	}
	b.mu.Unlock()
	if open && loop != nil {
		loop.Wake()
	}
	return open
}

// drain returns everything, and takes spare for what comes next. It reports false if the mailbox is
// closed.
func (b *mailbox[T]) drain(spare []func(T)) (all []func(T), open bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	all = b.todo
	b.todo = spare[:0]
	return all, !b.closed
}

// close ends the mailbox, and returns what was left in it: nothing stays for a later run.
func (b *mailbox[T]) close() []func(T) {
	b.mu.Lock()
	defer b.mu.Unlock()
	all := b.todo
	b.todo, b.closed = nil, true
	return all
}
