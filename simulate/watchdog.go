package simulate

import (
	"fmt"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

const (
	// stallLimit is for how much real time a turn may block: all that happens in one event.
	stallLimit = 10 * time.Second
	// spinLimit is how much processor time a turn may use.
	spinLimit = time.Minute
	// looks is how often a turn must be seen to block, within the limit at the earliest,
	// before that is believed.
	looks = 8
)

// watchdog is the only goroutine beside the simulation. It reads three atomics and the
// states of goroutines, so it cannot change what happens.
//
// The clock alone cannot tell an actor that blocks from one that computes, or from one that gets no
// processor since other programs have it. The scheduler can: an actor that blocks waits for
// something, and the other two are running or could. So the clock only says when to look, and a late look is
// one look.
type watchdog struct {
	progress atomic.Uint64
	actor    atomic.Pointer[actor] // that runs, or nil
	limit    time.Duration
	spin     time.Duration
	quit     chan struct{}
}

func (d *watchdog) start(w *World) {
	if d.limit == 0 {
		d.limit = stallLimit
	}
	if d.spin == 0 {
		d.spin = spinLimit
	}
	d.quit = make(chan struct{})
	go d.watch(d.quit, d.limit, d.spin, w.opts.Stalled, w.opts.Repeat)
}

func (d *watchdog) stop() { close(d.quit) }

// watch is called on a goroutine that the one which runs the simulation has created.
func (d *watchdog) watch(quit chan struct{}, limit, spin time.Duration, stalled func(string), repeat string) {
	tick := time.NewTicker(limit / looks)
	defer tick.Stop()
	var number uint64
	var t turn
	for {
		select {
		case <-quit:
			return
		case <-tick.C:
		}
		now, cpu := time.Now(), processorTime()
		if n := d.progress.Load(); n != number || t.at.IsZero() {
			number, t = n, turn{at: now, cpu: cpu}
			continue
		}
		who, id := "the simulation", uint64(0)
		if a := d.actor.Load(); a != nil {
			if who, id = "actor "+a.String(), a.goroutine.Load(); id == 0 {
				continue // it is about to begin
			}
		}
		g, runnable, ok := lookAt(id)
		if !ok || d.progress.Load() != number {
			continue
		}
		t.look(g.state, runnable, now, cpu)
		report := ""
		switch {
		case t.blocked == looks:
			report = fmt.Sprintf("simulate: %s blocks outside of the simulation, in [%s] for %v: inside of an actor, wait with simulate.Sleep, simulate.Wait and the mesh only (joined by mesh.JoinContext with the actor's context), and lock no mutex across them",
				who, g.state, now.Sub(t.since).Round(limit/looks))
		case t.used >= spin:
			report = fmt.Sprintf("simulate: %s has used %v of processor time in one turn, and the simulation's time stands still meanwhile: a loop must wait with simulate.Sleep or simulate.Wait for what others are to do", who, t.used.Round(spin/10))
		default:
			continue
		}
		report += "\nrepeat: " + repeat + "\n" + g.stack
		if stalled == nil {
			panic(report)
		}
		stalled(report)
		t = turn{} // it is told of again
	}
}

// turn is what is known of an event that goes on.
type turn struct {
	at      time.Time     // the latest look
	cpu     time.Duration // the process's processor time by then
	used    time.Duration // processor time of this turn, as far as can be told
	blocked int           // so many looks in a row saw it wait
	since   time.Time     // the look before the first of these
}

// look takes one more look into account: at a goroutine in that state, and so many that run
// or could. They share the processor time, and so does the goroutine that runs the simulation.
func (t *turn) look(state string, runnable int, now time.Time, cpu time.Duration) {
	if computes(state) {
		t.used += min((cpu-t.cpu)/time.Duration(max(runnable, 1)), now.Sub(t.at))
		t.blocked = 0
	} else {
		if t.blocked == 0 {
			t.since = t.at
		}
		t.blocked++
	}
	t.at, t.cpu = now, cpu
}

// computes reports whether a goroutine in that state runs, or would if the scheduler or the
// garbage collector let it. What a system call, or code in C, does is unknown: it
// counts as waiting.
func computes(state string) bool {
	switch state {
	case "running", "runnable", "preempted", "copystack", "stopping the world", "flushing proc caches":
		return true
	}
	return strings.Contains(state, "GC")
}

// goroutine is one, as the runtime shows it.
type goroutine struct {
	state string // "running", "chan receive", "sleep"
	stack string // with the line that has the state
}

// lookAt finds a goroutine by its number, or if that is 0, the one that created the caller's.
// It also counts those that run, or could, without the caller's.
func lookAt(id uint64) (found goroutine, runnable int, ok bool) {
	buffer := make([]byte, 1<<16)
	n := runtime.Stack(buffer, true)
	for n == len(buffer) { // there may be more
		buffer = make([]byte, 4*len(buffer))
		n = runtime.Stack(buffer, true)
	}
	own, rest, _ := strings.Cut(strings.TrimSpace(string(buffer[:n])), "\n\n")
	if id == 0 {
		_, creator, _ := strings.Cut(own, " in goroutine ")
		creator, _, _ = strings.Cut(creator, "\n")
		id, _ = strconv.ParseUint(creator, 10, 64)
	}
	for stack := range strings.SplitSeq(rest, "\n\n") {
		number, state := headOf(stack)
		if computes(state) {
			runnable++
		}
		if number == id && id != 0 {
			found, ok = goroutine{state, stack}, true
		}
	}
	return found, runnable, ok
}

// headOf reads the first line of a goroutine's stack: "goroutine 7 [chan receive, 2 minutes]:".
func headOf(stack string) (number uint64, state string) {
	head, _, _ := strings.Cut(stack, "\n")
	digits, state, _ := strings.Cut(strings.TrimPrefix(head, "goroutine "), " [")
	number, _ = strconv.ParseUint(digits, 10, 64)
	state = strings.TrimSuffix(state, "]:")
	state, _, _ = strings.Cut(state, ",")
	return number, state
}

// thisGoroutine returns the number of the goroutine that calls it.
func thisGoroutine() uint64 {
	var head [64]byte
	number, _ := headOf(string(head[:runtime.Stack(head[:], false)]))
	return number
}
