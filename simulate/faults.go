package simulate

import (
	"time"

	"github.com/lockmesh/mesh/simulate/timeline"
)

// Crash ends the process on a host at once, as SIGKILL does: its memory is gone,
// its connections are reset, and dialling it is refused until Restart.
func (w *World) Crash(host string) {
	h := w.named(host)
	if h.process == nil {
		return
	}
	h.fault = w.fault(host, "crash %s", host)
	h.process.kill()
}

// PowerOff ends the process on a host, and the machine with it: nobody tells the
// others, and nothing answers them, until Restart.
func (w *World) PowerOff(host string) {
	h := w.named(host)
	h.fault = w.fault(host, "power off %s", host)
	h.dark = true
	w.net.refresh()
	if h.process != nil {
		h.process.kill()
	}
}

// Restart starts the next incarnation of a host that is down, and the actors that
// Boot gave it.
func (w *World) Restart(host string) {
	h := w.named(host)
	if h.process != nil {
		return
	}
	w.ended(h.fault, host, "restart %s", host)
	h.dark = false
	h.start()
	w.net.refresh()
}

// Pause stops the process on a host, as SIGSTOP or a long collection of garbage
// does: no actor and no loop runs, and what arrives piles up until Resume.
func (w *World) Pause(host string) {
	h := w.named(host)
	if h.process == nil || h.paused {
		return
	}
	h.stall = w.fault(host, "pause %s", host)
	w.note(timeline.Paused, host, "")
	h.paused = true
	w.net.refresh()
}

// Resume lets a paused process go on. What came due meanwhile happens now, and it
// is up to chance whether messages or timers come first.
func (w *World) Resume(host string) {
	h := w.named(host)
	if !h.paused {
		return
	}
	w.ended(h.stall, host, "resume %s", host)
	w.note(timeline.Resumed, host, "")
	h.paused, h.resumed = false, w.now
	timersLater := h.sched.chance(million / 2)
	for _, ev := range h.deferred {
		if ev.slot != deferred {
			continue // cancelled meanwhile
		}
		ev.slot = idle
		at := w.now
		if timersLater && ev.kind != frameEvent && ev.kind != callEvent {
			at += h.sched.between(0, time.Millisecond)
		}
		w.schedule(ev, at)
	}
	clear(h.deferred)
	h.deferred = h.deferred[:0]
	w.net.refresh()
}

// ClockRate makes a host's clocks gain ppm millionths (or lose, if it is negative)
// from now on. The mesh's promises hold within its bound on rates.
func (w *World) ClockRate(host string, ppm int64) {
	h := w.named(host)
	w.fault(host, "clock of %s gains %d ppm", host, ppm)
	h.clock.setRate(w.now, max(ppm, -million/2))
	h.reclock()
}

// ClockStep moves a host's time of day by d. Its monotonic clock stays.
func (w *World) ClockStep(host string, d time.Duration) {
	w.fault(host, "time of day of %s steps by %v", host, d)
	w.named(host).clock.offset += d
}

// Slow makes everything that a host does take factor times as long.
func (w *World) Slow(host string, factor int64) {
	h := w.named(host)
	if h.slow > 1 {
		w.ended(h.drag, host, "%s is as fast as before", host)
	}
	if h.slow = max(factor, 1); h.slow > 1 {
		h.drag = w.fault(host, "slow %s: everything takes %d times as long", host, factor)
	}
}

// HealAll ends every fault: cuts, pauses, slowness and bad links are over, and all
// hosts run. Clocks keep their rates, and rules stay.
func (w *World) HealAll() {
	w.Heal()
	for i := range w.net.paths {
		for j := range w.net.paths[i] {
			l := w.net.paths[i][j].link
			l.Loss, l.Duplicate, l.Reorder = 0, 0, 0
		}
	}
	w.gossip.opts.Lies, w.gossip.opts.Lost = 0, 0
	for _, h := range w.Hosts() {
		if h.slow != 1 {
			w.Slow(h.name, 1)
		}
		w.Resume(h.name)
		if h.process == nil {
			w.Restart(h.name)
		}
	}
}
