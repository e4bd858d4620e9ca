package node

import (
	"sync"

	"github.com/lockmesh/mesh/transport"
)

// input is one thing that comes into the shard loop: a frame, or something to do there.
type input struct {
	from  transport.ID
	frame []byte
	do    func(*shardLoop)
}

// mailbox is where other goroutines leave what the shard loop is to take in. The loop drains it
// whole: the more has gathered, the larger the batches.
type mailbox struct {
	mu     sync.Mutex
	inputs []input
	closed bool
}

// put adds in and reports whether the mailbox is open.
func (b *mailbox) put(in input) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.closed {
		b.inputs = append(b.inputs, in)
	}
	return !b.closed
}

// drain returns everything, and takes spare for what comes next.
func (b *mailbox) drain(spare []input) []input {
	b.mu.Lock()
	defer b.mu.Unlock()
	all := b.inputs
	b.inputs = spare[:0]
	return all
}

// close ends the mailbox, and returns what was left in it: nothing stays for a later run.
func (b *mailbox) close() []input {
	b.mu.Lock()
	defer b.mu.Unlock()
	all := b.inputs
	b.inputs, b.closed = nil, true
	return all
}
