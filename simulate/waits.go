package simulate

import (
	"slices"
	"time"
)

const (
	tick            = 50 * time.Millisecond // of a node's shard loop
	stalledTick     = 5 * tick
	electionTimeout = 20 * tick
)

// tardy is for how long a frame is on its way before those at its ends count as waiting for it:
// one that was lost and sent again may come as late.
const tardy = electionTimeout

// waits are times in which a host had to wait, in order.
type waits struct {
	all []wait
	sum time.Duration // of their lengths
}

type wait struct{ from, to time.Duration }

// add adds a wait that ends now.
func (w *waits) add(from, now time.Duration) {
	for n := len(w.all); n > 0 && w.all[n-1].to >= from; n-- {
		last := w.all[n-1]
		from = min(from, last.from)
		w.all, w.sum = w.all[:n-1], w.sum-(last.to-last.from)
	}
	w.all, w.sum = append(w.all, wait{from, now}), w.sum+now-from
}

// waited: a frame to or from the host was on its way from began until now.
func (h *Host) waited(began time.Duration) { h.behind.add(began+tardy, h.world.Now()) }

// refused: a link to or from the host had no room for a frame. What is to be said waits from the first time to the last, if it
// was tried as often as one that was lost.
func (h *Host) refused() {
	now := h.world.Now()
	if h.full > 0 && now-h.full <= tardy {
		h.behind.add(h.full, now)
	}
	h.full = now
}

// waitsFor returns how much longer the host has waited if frames count that are still on
// their way.
func (h *Host) waitsFor() time.Duration {
	now := h.world.Now()
	all := waits{slices.Clone(h.behind.all), h.behind.sum}
	for _, f := range h.world.Net.flying() {
		if (f.from() == h || f.to() == h) && !f.held && f.began+tardy < now {
			all.add(f.began+tardy, now)
		}
	}
	return all.sum - h.behind.sum
}
