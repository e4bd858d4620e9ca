package simulate

import (
	"context"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// An actor that waits for something outside of the simulation is named, with its state and stack.
func TestWatchdogNamesTheActor(t *testing.T) {
	for state, block := range map[string]func(free chan struct{}){
		"chan receive": func(free chan struct{}) { <-free },
		"select": func(free chan struct{}) {
			select {
			case <-free:
			case <-time.After(time.Hour):
			}
		},
		"sync.Mutex.Lock": func(free chan struct{}) {
			var mu sync.Mutex
			mu.Lock()
			go func() { <-free; mu.Unlock() }()
			mu.Lock()
		},
		"sync.WaitGroup.Wait": func(free chan struct{}) {
			var wg sync.WaitGroup
			wg.Go(func() { <-free })
			wg.Wait()
		},
		"sleep": func(free chan struct{}) {
			for !closed(free) {
				time.Sleep(time.Millisecond)
			}
		},
	} {
		free := make(chan struct{})
		var report string
		w := New(Options{Stalled: func(r string) {
			if report == "" {
				report = r
				close(free)
			}
		}})
		w.dog.limit = 80 * time.Millisecond
		w.Host("a").Go("innocent", func(ctx context.Context) { _ = Sleep(ctx, time.Millisecond) })
		w.Host("a").Go("guilty", func(context.Context) { block(free) })
		run(t, w, time.Second)
		w.Close()
		if !strings.Contains(report, "actor a/guilty blocks outside of the simulation, in ["+state+"]") || !strings.Contains(report, "watchdog_test.go") ||
			!strings.Contains(report, "\nrepeat: simulate.Options.Seed = 0\n") {
			t.Errorf("%s: report %q", state, report)
		}
	}
}

// A function of the scenario's that blocks is no actor's.
func TestWatchdogNamesTheSimulation(t *testing.T) {
	free := make(chan struct{})
	var report string
	w := New(Options{Stalled: func(r string) {
		if report == "" {
			report = r
			close(free)
		}
	}})
	defer w.Close()
	w.dog.limit = 80 * time.Millisecond
	w.Host("a").Go("innocent", func(ctx context.Context) { _ = Sleep(ctx, time.Minute) })
	w.At(time.Millisecond, func() { <-free })
	run(t, w, time.Second)
	if !strings.HasPrefix(report, "simulate: the simulation blocks outside of the simulation, in [chan receive]") {
		t.Errorf("report %q", report)
	}
}

// An actor that computes does not block, for however long, and however little of the processor it
// gets; one that computes for too long is reported.
func TestWatchdogKnowsWhoComputes(t *testing.T) {
	compute := func(spin, atMost time.Duration) (report string) {
		var told atomic.Bool
		w := New(Options{Stalled: func(r string) {
			if !told.Load() {
				report = r
				told.Store(true)
			}
		}})
		defer w.Close()
		w.dog.limit, w.dog.spin = 40*time.Millisecond, spin
		w.Host("a").Go("busy", func(context.Context) {
			for start := time.Now(); time.Since(start) < atMost && !told.Load(); {
			}
		})
		run(t, w, time.Second)
		return report
	}
	defer othersCompute(4 * runtime.GOMAXPROCS(0))()
	if report := compute(time.Hour, 800*time.Millisecond); report != "" {
		t.Errorf("twenty times the limit: %s", report)
	}
	before := processorTime()
	report := compute(50*time.Millisecond, time.Minute)
	if !strings.HasPrefix(report, "simulate: actor a/busy has used ") || !strings.Contains(report, "ms of processor time in one turn") || !strings.Contains(report, "watchdog_test.go") {
		t.Errorf("a loop without an end: %q", report)
	}
	if used := processorTime() - before; used < 150*time.Millisecond {
		t.Errorf("with others that compute, it has had 50 of %v", used)
	}
}

// othersCompute keeps so many goroutines busy until stop is called.
func othersCompute(n int) (stop func()) {
	var over atomic.Bool
	var wg sync.WaitGroup
	for range n {
		wg.Go(func() {
			for !over.Load() {
			}
		})
	}
	return func() { over.Store(true); wg.Wait() }
}

// The looks decide, and not the time between them: a process that was stopped, or had no
// processor, has looked once.
func TestATurnIsJudgedByLooks(t *testing.T) {
	type look struct {
		state    string
		runnable int
		wait     time.Duration // since the one before
		cpu      time.Duration // used meanwhile, by all
	}
	const ms = time.Millisecond
	for _, tt := range []struct {
		name    string
		looks   []look
		used    time.Duration
		blocked int
	}{
		{"it has the processor for itself", []look{{"running", 1, 10 * ms, 9 * ms}, {"runnable", 1, 10 * ms, 10 * ms}}, 19 * ms, 0},
		{"two worlds on two processors", []look{{"running", 2, 10 * ms, 20 * ms}}, 10 * ms, 0},
		{"four on two", []look{{"running", 4, 10 * ms, 20 * ms}}, 5 * ms, 0},
		{"the collector's threads are not its own", []look{{"GC assist wait", 1, 10 * ms, 40 * ms}}, 10 * ms, 0},
		{"other processes have all", []look{{"runnable", 1, 10_000 * ms, 3 * ms}}, 3 * ms, 0},
		{"the machine slept", []look{{"sleep", 0, 10 * ms, 0}, {"sleep", 0, 3_600_000 * ms, 0}}, 0, 2},
		{"a mutex that others had now and then", []look{{"sync.Mutex.Lock", 1, 10 * ms, 10 * ms}, {"running", 1, 10 * ms, 10 * ms}, {"sync.Mutex.Lock", 1, 10 * ms, 10 * ms}}, 10 * ms, 1},
	} {
		at := time.Unix(0, 0)
		x := turn{at: at}
		cpu := time.Duration(0)
		for _, l := range tt.looks {
			at, cpu = at.Add(l.wait), cpu+l.cpu
			x.look(l.state, l.runnable, at, cpu)
		}
		if x.used != tt.used || x.blocked != tt.blocked {
			t.Errorf("%s: used %v, and blocked at %d looks, want %v and %d", tt.name, x.used, x.blocked, tt.used, tt.blocked)
		}
	}
}

// Many short turns are none that goes on, also where time does not: when a world is closed.
func TestWatchdogTellsTurnsApart(t *testing.T) {
	var report string
	w := New(Options{Stalled: func(r string) { report = r }})
	w.dog.limit = 80 * time.Millisecond
	for range 50 {
		w.Host("a").Go("slow to go", func(ctx context.Context) {
			defer time.Sleep(5 * time.Millisecond)
			_ = Sleep(ctx, time.Hour)
		})
	}
	run(t, w, time.Second)
	w.Close()
	if report != "" {
		t.Errorf("report %q", report)
	}
}
