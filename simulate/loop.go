package simulate

import (
	"fmt"
	"time"

	"github.com/lockmesh/mesh/internal/env"
)

// loop implements env.Loop: one event that moves about.
type loop struct {
	process *process
	id      int
	name    string
	run     func(now time.Duration) time.Duration
	ev      event
	until   time.Duration // by the process's clock: what run returned
	free    time.Duration // true time: the last run is over
	woken   bool
	due     int // the latest moment that woke it, of those that are known
	running bool
	stopped bool
	hasty   int // so many runs in a row asked for another one at once

	ticked time.Duration // by the process's clock: a node's shard loop had its tick
	stood  time.Duration // for so long it had none, and was to
}

// Wake implements env.Loop.
func (l *loop) Wake() {
	if l.stopped || l.process.dead {
		return
	}
	if due := l.process.world.why.due(); due != 0 || !l.woken {
		l.due = due
	}
	if l.woken {
		if !l.running {
			l.ev.due = l.due
		}
		return
	}
	l.woken = true
	if !l.running {
		l.arm()
	}
}

// Stop implements env.Loop.
func (l *loop) Stop() {
	l.stopped = true
	l.process.world.cancel(&l.ev)
}

func (l *loop) fire() {
	p := l.process
	l.woken, l.running = false, true
	l.ticks()
	p.world.turn = l
	l.until = l.run(p.Now())
	p.world.turn = nil
	l.running = false
	l.free = p.world.now + p.host.service()
	l.spins()
	if !l.stopped && !p.dead {
		l.arm()
	}
}

// mostHasty is how many runs in a row may ask for another one at once: a loop that goes on so takes a whole processor, and does nothing.
const mostHasty = 1000

// spins fails the run if the loop spins.
func (l *loop) spins() {
	if l.hasty++; l.until > l.process.Now() {
		l.hasty = 0
	}
	if l.hasty > mostHasty {
		l.process.world.Fail(fmt.Errorf("G6 spin: the loop %s on %s has asked %d times in a row to run again at once", l.name, l.process.host.name, l.hasty))
	}
}

// ticks counts the time in which a shard loop stood still: a tick is due after 50 ms, and one that comes
// more than 250 ms after the last one is a stall (P10).
func (l *loop) ticks() {
	now := l.process.Now()
	switch gap := now - l.ticked; {
	case gap < tick:
		return
	case gap > stalledTick:
		l.stood += gap - tick
	}
	l.ticked = now
}

// arm schedules the next run, for a wake or for the time.
func (l *loop) arm() {
	p, w := l.process, l.process.world
	at := env.Never
	if l.until != env.Never {
		at = p.when(l.until)
	}
	if l.woken {
		at = min(at, w.now+p.host.delay())
	}
	if at == env.Never {
		w.cancel(&l.ev)
		return
	}
	w.schedule(&l.ev, max(at, l.free))
	if l.ev.due = 0; l.woken { // of the clock it is not known what set it
		l.ev.due = l.due
	}
}

// stall keeps the loop from running before the true time t.
func (l *loop) stall(t time.Duration) {
	if !l.stopped && l.free != t && (t > l.process.world.now || l.free > t) {
		l.process.hung = max(l.process.hung, l.free, t)
		l.free = t
		if !l.running {
			l.arm()
		}
	}
}

// rearm follows a change of the clock.
func (l *loop) rearm() {
	if !l.stopped && !l.woken && !l.running {
		l.arm()
	}
}
