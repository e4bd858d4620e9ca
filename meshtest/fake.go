package meshtest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/lockmesh/mesh"
	"github.com/lockmesh/mesh/shard"
)

// Fake is a [Locker] in memory: for unit tests, also of code that runs in a bubble of testing/synctest. It has no leases, so a lock
// is lost only by [Fake.Lose]. The zero value is ready for use, by several goroutines at once. A Fake must not be copied.
type Fake struct {
	mu   sync.Mutex
	keys map[string]*queue // those that are held
}

var _ Locker = (*Fake)(nil)

// queue is a key that is held.
type queue struct {
	holder  *hold
	waiters []*hold // the longest first
}

// hold is one call of Do.
type hold struct {
	granted chan struct{}
	ended   chan struct{}           // closed when the key has been held and is not any more
	end     context.CancelCauseFunc // of its context
	lost    bool                    // under the Fake's mutex
}

// Do implements [Locker]. Calls with the same key get it in the order in which they came. A call whose ctx ends first keeps no place.
// The key goes to the next caller when fn returns, or panics, or has lost the lock.
//
// Errors are fn's error, and these of [mesh.Node.Do]: [mesh.ErrLost], [mesh.ErrInvalidKey],
// [mesh.ErrInvalidOption] for a nil ctx or fn, [mesh.ErrSelfDeadlock] if ctx comes from a Do of this Fake that still holds the
// same key, or ctx.Err(). For errors.Is they are the same values; but none is a *[mesh.WaitError].
func (f *Fake) Do(ctx context.Context, key string, fn func(ctx context.Context) error) (err error) {
	switch {
	case ctx == nil:
		return fmt.Errorf("%w: the context is nil, want a context", mesh.ErrInvalidOption)
	case fn == nil:
		return fmt.Errorf("%w: the function is nil, want a function", mesh.ErrInvalidOption)
	case key == "" || len(key) > shard.MaxKey:
		return fmt.Errorf("%w: it has %d bytes, want 1 to %d", mesh.ErrInvalidKey, len(key), shard.MaxKey)
	case ctx.Err() != nil:
		return fmt.Errorf("meshtest: no lock of %q: %w", key, ctx.Err())
	}
	if outer, _ := ctx.Value(holdOf{f, key}).(*hold); outer != nil && !outer.over() {
		return fmt.Errorf("%w: %q", mesh.ErrSelfDeadlock, key)
	}
	h := &hold{granted: make(chan struct{}), ended: make(chan struct{})}
	var held context.Context
	held, h.end = context.WithCancelCause(context.WithValue(ctx, holdOf{f, key}, h))
	f.enter(key, h)
	select {
	case <-h.granted:
	case <-ctx.Done():
		f.leave(key, h)
		return fmt.Errorf("meshtest: no lock of %q: %w", key, ctx.Err())
	}
	defer func() {
		switch lost := f.leave(key, h); {
		case !lost || errors.Is(err, mesh.ErrLost):
		case err == nil:
			err = fmt.Errorf("%w: %q", mesh.ErrLost, key)
		default:
			err = errors.Join(err, fmt.Errorf("%w: %q", mesh.ErrLost, key))
		}
	}()
	return fn(held)
}

// Lose takes the lock from the holder of key, as if its node had been cut off for too long: the context of the holder's function ends, with
// the [context.Cause] [mesh.ErrLost], and its Do will return an error that is ErrLost. Then the next caller that waits gets the key, whether
// that function has returned or not. Lose reports whether key was held.
func (f *Fake) Lose(key string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	q := f.keys[key]
	if q == nil {
		return false
	}
	q.holder.lost = true
	q.holder.end(mesh.ErrLost) // before another one holds the key
	f.next(key, q)
	return true
}

// holdOf is the key of a context's value: the hold of a key that the context comes from.
type holdOf struct {
	fake *Fake
	key  string
}

func (h *hold) over() bool {
	select {
	case <-h.ended:
		return true
	default:
		return false
	}
}

// enter grants key to h, or lets it wait.
func (f *Fake) enter(key string, h *hold) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if q := f.keys[key]; q != nil {
		q.waiters = append(q.waiters, h)
		return
	}
	if f.keys == nil {
		f.keys = make(map[string]*queue)
	}
	f.keys[key] = &queue{holder: h}
	close(h.granted)
}

// leave ends a hold, or a wait. Lost: Lose has ended the hold before.
func (f *Fake) leave(key string, h *hold) (lost bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	h.end(context.Canceled) // before another one holds the key
	switch q := f.keys[key]; {
	case h.lost:
	case q.holder == h:
		f.next(key, q)
	default:
		q.waiters = slices.DeleteFunc(q.waiters, func(w *hold) bool { return w == h })
	}
	return h.lost
}

// next ends the hold of key, and grants it to the longest waiter.
func (f *Fake) next(key string, q *queue) {
	close(q.holder.ended)
	if len(q.waiters) == 0 {
		delete(f.keys, key)
		return
	}
	q.holder, q.waiters = q.waiters[0], q.waiters[1:]
	close(q.holder.granted)
}
