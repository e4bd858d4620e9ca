package node

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lockmesh/mesh/internal/bug"
	"github.com/lockmesh/mesh/internal/env"
)

// Hold is one granted request. Its methods are safe for concurrent use.
type Hold struct {
	key     string
	token   uint64
	session *Session
	lane    *lane
	shard   int

	until atomic.Int64 // the end of the belief, on the world's clock

	mu        sync.Mutex
	ended     error // why the hold is over; nil while it is held
	watchers  []*watcher
	releasing *call
	waiting   []env.Parker // other callers of Release
	result    error        // of the release, once confirmed
	confirmed bool
	given     bool // nothing more will be said of the release
	fixed     bool // MaxHold, so that it is not renewed; written by the lane, before the holder has it

	forsaken atomic.Bool // nobody can give it back any more, nor see its end

	seat    *seat // the lane's; it may be given up
	pending *call // the lane's: the acquire whose caller does not know yet
	place   int   // the watch's

	holder env.Holder // hears of its fate in a simulation, else nil
}

type watcher struct{ f func(cause error) }

// Token returns the grant's fencing token.
func (h *Hold) Token() uint64 { return h.token }

func (h *Hold) deadline() time.Duration { return time.Duration(h.until.Load()) }

func (h *Hold) extend(to time.Duration) {
	if to > h.deadline() {
		h.until.Store(int64(to))
		if h.holder != nil {
			h.holder.Renewed()
		}
	}
}

func (h *Hold) shorten(to time.Duration) {
	if to < h.deadline() {
		h.until.Store(int64(to))
		h.lane.node.watch.soon(to)
	}
}

// prolong moves the deadline of a hold of fixed length, and reports false if the holder
// has been told of its end.
func (h *Hold) prolong(to time.Duration) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.ended == ErrLost {
		return false
	}
	h.until.Store(int64(to))
	return true
}

// expire ends a hold whose deadline has passed by now, and with it a user's session: as its
// lane does, or in its place. It reports false if the hold goes on, or had ended before.
func (h *Hold) expire(now time.Duration) bool {
	if !h.endBy(now, ErrLost) {
		return false
	}
	if !h.session.own && !h.fixed && !h.lane.node.bugs.Has(bug.SessionOutlivesLease) {
		h.session.lose()
	}
	return true
}

func (h *Hold) isLost() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.ended == ErrLost
}

// Deadline returns the end of the lease as far as it is confirmed, as a time of day.
func (h *Hold) Deadline() time.Time {
	w := h.lane.env
	return w.Wall().Add(h.deadline() - w.Now())
}

// Err returns nil while the key is held, by the clock at this call.
func (h *Hold) Err() error {
	if now := h.lane.env.Now(); now >= h.deadline() && !h.lane.node.bugs.Has(bug.LossByTimer) {
		h.expire(now) // the timer may fire late, after a suspend for example (P1)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.ended
}

// OnEnd arranges for f to be called once with the cause, ErrLost or ErrClosed, when the hold
// ends; at once if it has. Stop takes that back.
func (h *Hold) OnEnd(f func(cause error)) (stop func()) {
	h.mu.Lock()
	if ended := h.ended; ended != nil {
		h.mu.Unlock()
		f(ended)
		return func() {}
	}
	defer h.mu.Unlock()
	w := &watcher{f}
	h.watchers = append(h.watchers, w)
	return func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		if i := slices.Index(h.watchers, w); i >= 0 {
			h.watchers = append(h.watchers[:i:i], h.watchers[i+1:]...)
		}
	}
}

// end ends the belief. The first cause counts.
func (h *Hold) end(cause error) { h.endBy(env.Never, cause) }

// endBy is end, if the deadline has passed by now: no answer moves it meanwhile. It reports
// whether the belief ends.
func (h *Hold) endBy(now time.Duration, cause error) bool {
	h.mu.Lock()
	if h.ended != nil || now < h.deadline() {
		h.mu.Unlock()
		return false
	}
	h.ended = cause
	watchers := h.watchers
	h.watchers = nil
	h.mu.Unlock()
	if cause == ErrLost && !h.spent() {
		h.lane.node.counts.losses.Add(1)
	}
	h.lane.node.watch.drop(h)
	for _, w := range watchers {
		w.f(cause)
	}
	if h.holder != nil {
		h.holder.Ended(h.mayEnd())
	}
	return true
}

// spent reports whether a hold that ends lasted for the time that was fixed for it, or nobody
// cared: that is no loss.
func (h *Hold) spent() bool {
	return h.fixed && (h.forsaken.Load() || h.lane.env.Now() >= h.deadline())
}

// Forsake tells that nobody has a hold of fixed length any more who could give it back, or see
// its end. It goes on to its end all the same, but Leave does not wait for it.
func (h *Hold) Forsake() { h.forsaken.Store(true) }

// mayEnd reports whether the hold may end before its deadline: with a user's session
// (P9), or with its node.
func (h *Hold) mayEnd() bool {
	return !h.session.own && h.session.Err() != nil || h.lane.node.Err() != nil
}

// Over reports whether the belief was ended, without a look at the clock.
func (h *Hold) Over() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.ended != nil
}

// Shared tells those who watch a simulation how many handles share the hold now.
func (h *Hold) Shared(handles int) {
	if h.holder != nil {
		h.holder.Shared(handles)
	}
}

// lateRelease is how long Release waits for a confirmation when its context has ended
// before it began.
const lateRelease = time.Second

// Release gives the key up. The holder's belief ends before anything is sent (P8), and
// the release is repeated until it is confirmed or the lease has ended. Ctx bounds only
// the wait: if it ends first, or after a second if it had ended already, Release returns
// ErrUnconfirmed. ErrLost: the lease had ended before. Later calls return what the first
// confirmed.
func (h *Hold) Release(ctx context.Context) error {
	if h.holder == nil {
		return h.release(ctx)
	}
	h.holder.Unlocking()
	err := h.release(ctx)
	h.holder.Unlocked(err)
	return err
}

func (h *Hold) release(ctx context.Context) error {
	w := h.lane.env
	if h.Err() == ErrLost {
		return ErrLost
	}
	h.mu.Lock()
	limit := env.Never
	if ctx.Err() != nil {
		ctx, limit = context.WithoutCancel(ctx), w.Now()+lateRelease
	}
	if h.releasing != nil {
		return h.await(ctx, limit) // which unlocks
	}
	if ended := h.ended; ended != nil {
		h.mu.Unlock()
		return ended // with its session or its node; or its time ended since it was looked at
	}
	c := &call{what: releases, shard: h.shard, hold: h, parker: w.NewParker()}
	h.releasing = c
	h.mu.Unlock()

	if !h.lane.node.bugs.Has(bug.LateBelief) {
		h.end(ErrClosed)
	} else {
		defer h.end(ErrClosed)
	}
	if !h.lane.post(func(l *lane) { l.desk(c.shard).release(c) }) {
		h.settled(ErrUnconfirmed)
		return ErrClosed
	}
	if c.parker.Park(ctx, limit) == env.Unparked {
		return c.err
	}
	h.lane.post(func(l *lane) { l.desk(c.shard).abandon(c, nil) })
	return ErrUnconfirmed
}

// await waits, as a later caller of Release, for what the first one's comes to. It is
// called with the mutex, which it unlocks.
func (h *Hold) await(ctx context.Context, limit time.Duration) error {
	if !h.confirmed && !h.given {
		p := h.lane.env.NewParker()
		h.waiting = append(h.waiting, p)
		h.mu.Unlock()
		p.Park(ctx, limit)
		h.mu.Lock()
		h.waiting = slices.DeleteFunc(h.waiting, func(o env.Parker) bool { return o == p })
	}
	defer h.mu.Unlock()
	if h.confirmed {
		return h.result
	}
	return ErrUnconfirmed
}

// settled notes what the shard said of the release; or, if that is ErrUnconfirmed, that it
// will say nothing.
func (h *Hold) settled(err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if err == ErrUnconfirmed {
		h.given = true
	} else {
		h.result, h.confirmed = err, true
	}
	for _, p := range h.waiting {
		p.Unpark()
	}
}

// Extend makes a hold of fixed length end d from now, however much that was before. For
// other holds it fails with ErrInvalidOption.
func (h *Hold) Extend(ctx context.Context, d time.Duration) error {
	if !h.fixed {
		return ErrInvalidOption
	}
	if h.holder == nil {
		return h.claim(ctx, d)
	}
	h.holder.Extending(d)
	err := h.claim(ctx, d)
	h.holder.Extended(d, err)
	return err
}

func (h *Hold) claim(ctx context.Context, d time.Duration) error {
	if err := h.Err(); err != nil {
		return err
	}
	c := &call{what: claims, shard: h.shard, hold: h, length: d, parker: h.lane.env.NewParker()}
	if !h.lane.post(func(l *lane) { l.desk(c.shard).claim(c) }) {
		return ErrClosed
	}
	if err := h.lane.await(ctx, c); err != nil || h.lane.node.bugs.Has(bug.OverWhenReturned) {
		return err
	}
	return h.Err() // this goroutine, or all, may have stood still since the answer (P1)
}
