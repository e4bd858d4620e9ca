package simulate

import (
	"cmp"
	"fmt"
	"runtime"
	"strings"
	"sync/atomic"
	"time"
)

const (
	// stallLimit is how much real time a turn may take: all that happens in one event.
	stallLimit = time.Minute
	// looks is how often a turn is seen before the limit is over.
	looks = 8
)

// watchdog is a goroutine beside the simulation. It reads atomics, and stacks once it
// reports, so it cannot change what happens.
//
// It counts its looks and not the time: a process that was stopped meanwhile has looked once.
type watchdog struct {
	progress atomic.Uint64
	actor    atomic.Pointer[actor] // that runs, or nil
	limit    time.Duration
	quit     chan struct{}
}

// start watches the goroutine that calls it, and the actors, until stop.
func (d *watchdog) start(w *World) {
	d.limit = cmp.Or(d.limit, stallLimit)
	d.quit = make(chan struct{})
	go d.watch(d.quit, d.limit, thisGoroutine(), w.opts.Stalled, w.opts.Repeat)
}

func (d *watchdog) stop() { close(d.quit) }

func (d *watchdog) watch(quit chan struct{}, limit time.Duration, runs string, stalled func(string), repeat string) {
	tick := time.NewTicker(limit / looks)
	defer tick.Stop()
	progress, seen := d.progress.Load(), 0
	for {
		select {
		case <-quit:
			return
		case <-tick.C:
		}
		if n := d.progress.Load(); n != progress {
			progress, seen = n, 0
			continue
		}
		if seen++; seen < looks {
			continue
		}
		who, goroutine := "the simulation", runs
		if a := d.actor.Load(); a != nil {
			who = "actor " + a.String()
			if name := a.goroutine.Load(); name != nil {
				goroutine = *name
			}
		}
		report := fmt.Sprintf("simulate: %s does not go on, and the simulation's time stands still. Inside of an "+
			"actor, wait with simulate.Sleep, Wait, Receive and the mesh only (joined by mesh.JoinContext with the "+
			"actor's context), also in a loop, and lock no mutex across them\nrepeat: %s\n%s",
			who, repeat, stackOf(goroutine))
		select {
		case <-quit:
			return
		default:
		}
		if d.progress.Load() != progress {
			continue // it went on meanwhile, and the stack may be of another turn: the next look sees that
		}
		if stalled == nil {
			panic(report)
		}
		stalled(report)
		seen = 0 // it is told of again
	}
}

// thisGoroutine names the goroutine that calls it as its stack does: "goroutine 7".
func thisGoroutine() string {
	var head [64]byte
	name, _, _ := strings.Cut(string(head[:runtime.Stack(head[:], false)]), " [")
	return name
}

// stackOf returns the stack of the goroutine of that name.
func stackOf(name string) string {
	buffer := make([]byte, 1<<16)
	n := runtime.Stack(buffer, true)
	for n == len(buffer) { // there may be more
		buffer = make([]byte, 4*len(buffer))
		n = runtime.Stack(buffer, true)
	}
	for stack := range strings.SplitSeq(string(buffer[:n]), "\n\n") {
		if strings.HasPrefix(stack, name+" [") {
			return stack
		}
	}
	return name + " has ended"
}
