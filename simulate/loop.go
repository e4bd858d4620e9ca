package simulate

import (
	"time"

	"github.com/lockmesh/mesh/internal/seam"
)

// loop implements seam.Loop: one event that moves about.
type loop struct {
	process *process
	id      int
	name    string
	run     func(now time.Duration) time.Duration
	ev      event
	until   time.Duration // by the process's clock: what run returned
	free    time.Duration // true time: the last run is over
	woken   bool
	running bool
	stopped bool
}

// Wake implements seam.Loop.
func (l *loop) Wake() {
	if l.stopped || l.woken || l.process.dead {
		return
	}
	l.woken = true
	if !l.running {
		l.arm()
	}
}

// Stop implements seam.Loop.
func (l *loop) Stop() {
	l.stopped = true
	l.process.world.cancel(&l.ev)
}

func (l *loop) fire() {
	p := l.process
	l.woken, l.running = false, true
	l.until = l.run(p.Now())
	l.running = false
	l.free = p.world.now + p.host.service()
	if !l.stopped && !p.dead {
		l.arm()
	}
}

// arm schedules the next run, for a wake or for the time.
func (l *loop) arm() {
	p, w := l.process, l.process.world
	at := time.Duration(seam.Never)
	if l.until != seam.Never {
		at = p.when(l.until)
	}
	if l.woken {
		at = min(at, w.now+p.host.delay())
	}
	if at == seam.Never {
		w.cancel(&l.ev)
		return
	}
	w.schedule(&l.ev, max(at, l.free))
}

// stall keeps the loop from running before the true time t.
func (l *loop) stall(t time.Duration) {
	if !l.stopped && l.free != t && (t > l.process.world.now || l.free > t) {
		l.free = t
		if !l.running {
			l.arm()
		}
	}
}

// hangs tells whether one of the process's loops is kept from running at this moment.
func (p *process) hangs() bool {
	for _, l := range p.loops {
		if !l.stopped && l.free >= p.world.now {
			return true
		}
	}
	return false
}

// rearm follows a change of the clock.
func (l *loop) rearm() {
	if !l.stopped && !l.woken && !l.running {
		l.arm()
	}
}
