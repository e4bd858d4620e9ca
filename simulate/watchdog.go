package simulate

import (
	"fmt"
	"runtime"
	"sync/atomic"
	"time"
)

// stallLimit is how much real time one event may take.
const stallLimit = 10 * time.Second

// watchdog is the only goroutine beside the simulation. It reads two atomics, so
// it cannot change what happens.
type watchdog struct {
	progress atomic.Uint64
	actor    atomic.Pointer[actor] // who runs, or nil
	limit    time.Duration
	quit     chan struct{}
}

func (d *watchdog) start(w *World) {
	if d.limit == 0 {
		d.limit = stallLimit
	}
	d.quit = make(chan struct{})
	go d.watch(d.quit, d.limit, w.opts.Stalled, w.opts.Repeat)
}

func (d *watchdog) stop() { close(d.quit) }

func (d *watchdog) watch(quit chan struct{}, limit time.Duration, stalled func(string), repeat string) {
	tick := time.NewTicker(limit / 4)
	defer tick.Stop()
	last, since := d.progress.Load(), time.Now()
	for {
		select {
		case <-quit:
			return
		case <-tick.C:
		}
		if p := d.progress.Load(); p != last {
			last, since = p, time.Now()
			continue
		}
		if time.Since(since) < limit {
			continue
		}
		who := "the simulation"
		if a := d.actor.Load(); a != nil {
			who = "actor " + a.String()
		}
		report := fmt.Sprintf("simulate: %s blocks outside of the simulation for %v: inside of an actor, wait with simulate.Sleep, simulate.Wait and the mesh only (joined by mesh.JoinContext with the actor's context), and lock no mutex across them\nrepeat: %s", who, limit, repeat)
		if stalled == nil {
			stacks := make([]byte, 1<<20)
			panic(report + "\n" + string(stacks[:runtime.Stack(stacks, true)]))
		}
		stalled(report)
		since = time.Now()
	}
}
