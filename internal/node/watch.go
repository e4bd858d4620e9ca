package node

import (
	"sync"
	"time"

	"github.com/lockmesh/mesh/internal/env"
	"github.com/lockmesh/mesh/internal/replica"
)

// watch ends beliefs at their deadlines beside the shard loop. That does so itself, unless it
// hangs: in a user's log handler, or in a page fault. The watch runs on a loop of its own,
// and does not wait for that one.
type watch struct {
	node *Node
	loop env.Loop

	mu     sync.Mutex
	holds  []*Hold       // those that are believed in; each knows its place
	next   time.Duration // no deadline is before it; when the loop runs again
	waited bool          // it was late, and has let the shard loop go first
}

// drainTime is how long the shard loop has for what gathered in its mailbox while everything stood still.
const drainTime = 10 * time.Millisecond

func newWatch(n *Node) *watch { return &watch{node: n, next: env.Never} }

// add begins to watch h.
func (w *watch) add(h *Hold) {
	w.mu.Lock()
	h.place = len(w.holds)
	w.holds = append(w.holds, h)
	w.mu.Unlock()
	w.soon(h.belief.Deadline())
}

// drop forgets h, if it is watched.
func (w *watch) drop(h *Hold) {
	w.mu.Lock()
	defer w.mu.Unlock()
	last := len(w.holds) - 1
	if h.place > last || w.holds[h.place] != h {
		return
	}
	w.holds[h.place] = w.holds[last]
	w.holds[h.place].place = h.place
	w.holds[last] = nil
	w.holds = w.holds[:last]
}

// soon: some deadline is at t.
func (w *watch) soon(t time.Duration) {
	w.mu.Lock()
	earlier := t < w.next
	w.next = min(w.next, t)
	w.mu.Unlock()
	if earlier {
		w.loop.Wake()
	}
}

// run ends what is over, and returns when it wants to be called again.
func (w *watch) run(time.Duration) time.Duration {
	now := w.node.env.Now()
	over, next := w.look(now)
	w.end(over, now)
	return next
}

// end ends what was over at the time now, unless an answer has moved its deadline since.
func (w *watch) end(over []*Hold, now time.Duration) {
	for _, h := range over {
		if !h.expire(now) && !h.Over() {
			w.add(h)
		}
	}
}

// look takes out what is over at the time now, and finds the earliest deadline of the rest.
func (w *watch) look(now time.Duration) (over []*Hold, next time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if late := now-w.next > replica.TickInterval; late && !w.waited {
		// Everything stood still. What came meanwhile counts before any timer (P10); and
		// a holder that asks its hold is told by the clock.
		w.waited = true
		return nil, now + drainTime
	}
	kept := w.holds[:0]
	w.next, w.waited = env.Never, false
	for _, h := range w.holds {
		if d := h.belief.Deadline(); now < d {
			h.place = len(kept)
			kept = append(kept, h)
			w.next = min(w.next, d)
		} else {
			over = append(over, h)
		}
	}
	clear(w.holds[len(kept):])
	w.holds = kept
	return over, w.next
}
