package simulate

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/lockmesh/mesh/simulate/timeline"
)

// lab is the name of the host on which World.Go's actors run.
const lab = "-"

// Host is one machine. It runs one process at a time, its incarnation: a crash
// ends that with all its actors and nodes, and a restart begins another one, with
// empty memory, under the same name.
type Host struct {
	Clock *Clock

	world *World
	index int
	name  string
	clock clock
	sched *stream // delays of loops and actors
	boots []boot

	known    bool     // it was named a second time, has run something, or Run was called: see exists
	process  *process // nil: down
	started  int      // incarnations so far
	born     time.Duration
	dark     bool // the whole machine is off
	paused   bool
	resumed  time.Duration // true time of the last Resume
	slow     int64         // how many times longer everything takes
	deferred []*event
	ports    int
	disks    map[string]*disk

	behind waits         // for frames that were long on their way, or did not fit
	full   time.Duration // when one did not fit

	detector  detector
	wandering *event // the next change of the clock's rate, in Clock.Wave and Clock.Noise

	fault, stall, drag, skew int // moments at which a crash, a pause, a slowness and an error of the clocks began
}

type boot struct {
	name string
	fn   func(context.Context)
}

// Host returns the host of that name, and makes it, running, if there is none. The name is
// what others dial: Host panics if it has a colon or a space, and if it is a name by which every host finds
// itself, such as "localhost".
func (w *World) Host(name string) *Host {
	if h := w.byName[name]; h != nil {
		h.known = true
		return h
	}
	if name == lab || strings.ContainsAny(name, ": ") || isOwn(name) {
		panic(fmt.Sprintf("simulate: Host: a host named %q cannot be dialled", name))
	}
	h := w.newHost(name)
	w.byName[name] = h
	return h
}

// Hosts returns all hosts in the order in which they were made.
func (w *World) Hosts() []*Host { return w.hosts[1:len(w.hosts):len(w.hosts)] }

func (w *World) newHost(name string) *Host {
	h := &Host{world: w, index: len(w.hosts), name: name, slow: 1, ports: 40000}
	h.Clock = &Clock{h}
	h.sched = w.stream(hostStream + uint64(h.index))
	clocks := w.stream(clockStream<<40 + uint64(h.index))
	if h.index > 0 {
		h.clock.rate = clocks.below(2*w.opts.ClockRate+1) - w.opts.ClockRate
		h.clock.offset = clocks.between(-w.opts.ClockOffset, w.opts.ClockOffset)
		h.clock.base = clocks.between(time.Second, time.Hour)
	}
	h.clock.since, h.clock.zero = w.now, h.clock.base-w.now
	w.hosts = append(w.hosts, h)
	w.Net.grow()
	h.start()
	return h
}

// named returns the host that a fault is meant for.
func (w *World) named(name string) *Host {
	h := w.byName[name]
	if h == nil {
		panic(fmt.Sprintf("simulate: no host %q", name))
	}
	h.known = true
	return h
}

// exists panics if a fault is the first that the world hears of the host: its name is a mistake.
func (h *Host) exists() {
	if !h.known {
		panic(fmt.Sprintf("simulate: no host %q", h.name))
	}
}

func (h *Host) start() {
	h.started++
	h.born = h.world.now
	h.process = newProcess(h)
	if h.index > 0 {
		h.world.note(timeline.Up, h.name, "")
	}
	for _, b := range h.boots {
		h.process.spawn(b.name, b.fn)
	}
}

// Name returns the host's name, which is also where it can be dialled.
func (h *Host) Name() string { return h.name }

// Up reports whether a process runs on the host, paused or not.
func (h *Host) Up() bool { return h.process != nil }

// Paused reports whether the host's process is paused.
func (h *Host) Paused() bool { return h.paused }

// Incarnation returns how often the host has started: 1 for the first process.
func (h *Host) Incarnation() int { return h.started }

// Go starts an actor on the host: ordinary blocking code, which runs while nothing
// else does. It may block in Sleep, Wait, Receive, Host.Do and in the calls of a node
// that was joined with its ctx, and nowhere else. ctx carries the host, and ends when the
// host crashes; the actor is unwound then: its deferred calls run, its next call
// into the simulation does not return. The channel returned is closed when the
// actor has ended, for Wait.
//
// On a host that is down, Go does nothing.
//
//	done := w.Host("a").Go("worker", func(ctx context.Context) {
//		node, err := mesh.JoinContext(ctx, []string{"b:7300"}, mesh.WithBind(":7300"))
//		…
//	})
func (h *Host) Go(name string, fn func(ctx context.Context)) <-chan struct{} {
	if h.process == nil {
		done := make(chan struct{})
		close(done)
		return done
	}
	return h.process.spawn(name, fn).done
}

// Boot starts an actor now and after each restart of the host, as an init system
// would.
func (h *Host) Boot(name string, fn func(ctx context.Context)) {
	h.known = true
	h.boots = append(h.boots, boot{name, fn})
	h.Go(name, fn)
}

// Do runs fn as an actor on the host, waits until it has ended, and reports whether
// fn returned. It returns false if the host is down or crashes meanwhile, and if ctx, the
// caller's own context, ends first: then fn goes on.
func (h *Host) Do(ctx context.Context, name string, fn func(ctx context.Context)) bool {
	ended := false
	done := h.Go(name, func(ctx context.Context) { fn(ctx); ended = true })
	return Wait(ctx, done) == nil && ended
}

// delay is how long an actor or a loop that is ready waits until it runs.
func (h *Host) delay() time.Duration {
	return h.sched.between(time.Microsecond, 30*time.Microsecond) * time.Duration(h.slow)
}

// service is how long a run takes.
func (h *Host) service() time.Duration {
	return h.sched.between(2*time.Microsecond, 20*time.Microsecond) * time.Duration(h.slow)
}

// reclock moves every timer of the host after its clock has changed. What was waited for
// is as it was: the clock brings none of it about.
func (h *Host) reclock() {
	p := h.process
	if p == nil {
		return
	}
	h.world.moving = true
	for _, l := range p.loops {
		l.rearm()
	}
	for _, a := range p.actors {
		a.rearm()
	}
	for _, c := range p.timers {
		c.rearm()
	}
	h.world.moving = false
}
