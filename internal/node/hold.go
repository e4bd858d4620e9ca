package node

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/lockmesh/mesh/internal/client"
	"github.com/lockmesh/mesh/internal/env"
	"github.com/lockmesh/mesh/internal/fault"
	"github.com/lockmesh/mesh/shard"
)

// Hold is one granted request, as its holder sees it. Its methods are safe for concurrent use.
type Hold struct {
	belief  *client.Hold
	session *Session
	node    *Node

	ending ending

	mu          sync.Mutex
	releasing   *client.Call
	waiting     []env.Parker // other callers of Release
	result      error        // of the release, once confirmed
	confirmed   bool
	unconfirmed bool // the release will get no result any more

	place   int     // its index in watch.holds: only the watch uses it
	holders holders // hear of its fate
}

// Token returns the grant's fencing token.
func (h *Hold) Token() uint64 { return h.belief.Token }

// Grant names the hold's grant as requests of a session do; false: that is of another mesh, in which the name means nothing.
func (h *Hold) Grant(s *Session) (g shard.Grant, ours bool) {
	mine, other := h.node.mesh.Load(), s.node.mesh.Load()
	return shard.Grant{Shard: h.belief.Shard, Token: h.belief.Token}, mine != nil && other != nil && mine.id == other.id
}

// Is reports whether the hold is what q asks for, as far as that is known of one that a guest has claimed.
func (h *Hold) Is(q client.Request) bool { return h.belief.Is(&q) }

// User returns the name of the user of a resource, or "".
func (h *Hold) User() string { return h.belief.User() }

// Deadline returns the end of the lease as far as it is confirmed, as a time of day.
func (h *Hold) Deadline() time.Time {
	w := h.node.env
	return w.Wall().Add(h.belief.Deadline() - w.Now())
}

// Err returns nil while the key is held, by the clock at this call; else ErrLost, ErrBroken or ErrClosed.
func (h *Hold) Err() error { return h.errAt(h.node.env.Now()) }

func (h *Hold) errAt(now time.Duration) error {
	if now >= h.belief.Deadline() {
		h.expire(now) // the timer may fire late, after a suspend for example (P1)
	}
	return h.belief.Err()
}

// Over reports whether the belief was ended, without a look at the clock.
func (h *Hold) Over() bool { return h.belief.Err() != nil }

// expire ends a hold whose deadline has passed by now, and with it a user's session: as its
// client does, or in its place. It reports false if the hold goes on, or had ended before.
func (h *Hold) expire(now time.Duration) bool {
	if !h.end(now, fault.ErrLost) {
		return false
	}
	if !h.session.life.Own && !h.belief.Fixed() {
		h.session.lose()
	}
	return true
}

// end ends the belief if its deadline is not after now (env.Never: in any case), tells of that, and
// reports whether this call did.
func (h *Hold) end(now time.Duration, cause error) bool {
	if !h.belief.End(now, cause) {
		return false
	}
	h.over(cause)
	return true
}

// over tells of the end of the belief.
func (h *Hold) over(cause error) {
	switch {
	case cause == fault.ErrBroken:
		h.node.breaks.Add(1)
	case cause == fault.ErrLost && !h.spent():
		h.node.losses.Add(1)
	}
	h.node.watch.drop(h)
	h.ending.tell(cause)
	if cause == fault.ErrBroken {
		h.node.log.Warn("an operator has broken a lock of this node", "key", h.belief.Key, "token", h.Token())
	}
	if h.holders != nil {
		if cause == fault.ErrBroken {
			h.holders.Broken()
		}
		h.holders.Ended(h.mayEnd())
	}
}

// OnEnd arranges for f to be called once with the cause, ErrLost, ErrBroken or ErrClosed, when the hold
// ends; at once if it has. Stop takes that back.
func (h *Hold) OnEnd(f func(cause error)) (stop func()) { return h.ending.on(f) }

// spent reports whether the end of a hold is no loss: it lasted for the time that was fixed for it,
// or it was forsaken.
func (h *Hold) spent() bool {
	return h.belief.Fixed() && (h.belief.Forsaken() || h.node.env.Now() >= h.belief.Deadline())
}

// Forsake tells that no handle of a hold of fixed length is left: nothing can give the hold back, or
// see its end. It lasts to its end all the same, but Leave does not wait for it.
func (h *Hold) Forsake() { h.belief.Forsake() }

// mayEnd reports whether the hold may end before its deadline: with a user's session
// (P9), or with its node, or by an operator's word (P49).
func (h *Hold) mayEnd() bool {
	return !h.session.life.Own && h.session.Err() != nil || h.node.Err() != nil || h.belief.Err() == fault.ErrBroken
}

// Shared tells the observers of a simulation how many handles share the hold now.
func (h *Hold) Shared(handles int) { h.holders.Shared(handles) }

// LateRelease is how long a confirmation is waited for if the caller's context has ended before the wait.
const LateRelease = time.Second

// bounds returns what bounds a wait for a confirmation: ctx, or a time if it has ended already.
func (n *Node) bounds(ctx context.Context, late time.Duration) (context.Context, time.Duration) {
	if ctx.Err() == nil {
		return ctx, env.Never
	}
	return context.WithoutCancel(ctx), n.env.Now() + late
}

// Release gives the key up. The holder's belief ends before anything is sent (P8), and
// the release is repeated until it is confirmed or the lease has ended. Ctx bounds only
// the wait: if it ends first, or after a second if it had ended already, Release returns
// ErrUnconfirmed. ErrLost: the lease had ended before. ErrBroken: an operator has broken the grant, and the release is sent. Later calls return
// what the first confirmed.
func (h *Hold) Release(ctx context.Context) error {
	h.holders.Unlocking()
	err := h.release(ctx, false)
	h.holders.Unlocked(err)
	return err
}

func (h *Hold) release(ctx context.Context, failed bool) error {
	c, err := h.beginRelease(h.node.env.Now(), failed)
	if err != nil {
		return err
	}
	if c == nil {
		ctx, limit := h.node.bounds(ctx, LateRelease)
		return h.await(ctx, limit)
	}
	h.end(env.Never, fault.ErrClosed)
	ctx, limit := h.node.bounds(ctx, LateRelease) // not before: ctx may be the hold's own
	switch {
	case !h.node.send(c, (*shardLoop).begin):
		h.released(fault.ErrUnconfirmed)
	case c.Parker.Park(ctx, limit) == env.Unparked:
		return c.Err
	case h.session.life.Guest == "": // a guest asks again how it ended
		h.node.shards.post(func(l *shardLoop) { l.step(client.Abandon{Call: c}) })
	}
	return fault.ErrUnconfirmed
}

// beginRelease returns a call that releases h, and has not begun. No call: the hold is over, for the reason that is returned, or another
// caller releases it.
func (h *Hold) beginRelease(now time.Duration, failed bool) (*client.Call, error) {
	switch err := h.errAt(now); err {
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
	h.releasing = h.call(client.Unlock)
	h.releasing.Failed = failed
	return h.releasing, nil
}

// await waits, as a later caller of Release, for the result of the first. The mutex is free meanwhile: a simulation may end the caller as it
// waits.
func (h *Hold) await(ctx context.Context, limit time.Duration) error {
	h.mu.Lock()
	if !h.confirmed && !h.unconfirmed {
		p := h.node.env.NewParker()
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
	return fault.ErrUnconfirmed
}

// released notes what the shard said of the release; or, if that is ErrUnconfirmed, that it
// will say nothing.
func (h *Hold) released(err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if err == fault.ErrUnconfirmed {
		h.unconfirmed = true
	} else {
		h.result, h.confirmed = err, true
	}
	for _, p := range h.waiting {
		p.Unpark()
	}
}

// Extend makes a hold of fixed length end d from now, however much time was left. For
// other holds it fails with ErrInvalidOption. Other errors: those of Err if the hold is over, ErrClosed if the node has ended, and that
// of ctx: then the end may have moved or not.
func (h *Hold) Extend(ctx context.Context, d time.Duration) error {
	if !h.belief.Fixed() {
		return fault.ErrInvalidOption
	}
	h.holders.Extending(d)
	err := h.extend(ctx, d)
	h.holders.Extended(d, err)
	return err
}

func (h *Hold) extend(ctx context.Context, d time.Duration) error {
	if err := h.Err(); err != nil {
		return err
	}
	c := h.call(client.Fix)
	c.Length = d
	if err := h.node.do(ctx, c, (*shardLoop).begin); err != nil {
		return err
	}
	return h.Err() // this goroutine, or all, may have stood still since the answer (P1)
}
