package simulate

import (
	"context"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// An actor that waits for something outside of the simulation, or computes, is named, with its state and stack.
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
		"": func(free chan struct{}) { // it computes, if it gets a processor
			for n := 0; !closed(free); n++ {
			}
		},
	} {
		testWatchdog(t, state, block)
	}
	synctest.Test(t, func(t *testing.T) { // the bubble's clock does not wait for those that sleep
		testWatchdog(t, "sleep", func(free chan struct{}) {
			for !closed(free) {
				time.Sleep(time.Second)
			}
		})
	})
}

// testWatchdog plays a world with an actor that does not go on until free is closed.
func testWatchdog(t *testing.T, state string, block func(free chan struct{})) {
	t.Helper()
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
	if !strings.HasPrefix(report, "simulate: actor a/guilty does not go on") || !strings.Contains(report, " ["+state) ||
		!strings.Contains(report, "watchdog_test.go") || !strings.Contains(report, "\nrepeat: simulate.Options.Seed = 0\n") {
		t.Errorf("%s: report %q", state, report)
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
	if !strings.HasPrefix(report, "simulate: the simulation does not go on") || !strings.Contains(report, "[chan receive]") {
		t.Errorf("report %q", report)
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
