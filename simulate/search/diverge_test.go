package search

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lockmesh/mesh/simulate"
)

// ticking is a world in which an actor runs a thousand times a second.
func ticking(w *simulate.World) {
	w.Host("a").Boot("ticker", func(ctx context.Context) {
		for simulate.Sleep(ctx, time.Millisecond) == nil {
		}
	})
}

// everySecond returns a scenario that behaves differently at every other run.
func everySecond(good, bad func(w *simulate.World)) func(w *simulate.World) error {
	var runs atomic.Int32
	return func(w *simulate.World) error {
		ticking(w)
		if runs.Add(1)%2 == 0 {
			bad(w)
		} else {
			good(w)
		}
		return w.Run(20 * time.Second)
	}
}

func TestDivergeNamesTheEvent(t *testing.T) {
	const at = 12345 * time.Millisecond
	call := func(fn func(w *simulate.World)) func(w *simulate.World) {
		return func(w *simulate.World) { w.At(at, func() { fn(w) }) }
	}
	tests := []struct {
		name      string
		good, bad func(w *simulate.World)
		differs   func(x, y simulate.Event) bool
	}{
		{
			"one random number more", call(func(*simulate.World) {}), call(func(w *simulate.World) { w.Host("a").Go("x", func(context.Context) {}) }),
			func(x, y simulate.Event) bool { return x.Draws != y.Draws },
		},
		{
			"one event more", call(func(*simulate.World) {}), call(func(w *simulate.World) { w.At(w.Now(), func() {}) }),
			func(x, y simulate.Event) bool {
				return strings.Contains(x.String()+y.String(), "actor ticker, on a") && strings.Contains(x.String()+y.String(), "a call of")
			},
		},
		{
			"the end", call(func(*simulate.World) {}), call(func(w *simulate.World) { w.Host("a").Crash() }),
			func(x, y simulate.Event) bool { return (x.Number == 0) != (y.Number == 0) },
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			d := Diverge(simulate.Options{}, simulate.Options{}, everySecond(tt.good, tt.bad))
			if d == nil {
				t.Fatal("Diverge noticed nothing")
			}
			if d.Common.Time != at || !strings.Contains(d.String(), "a call of") || !tt.differs(d.First, d.Second) {
				t.Errorf("Diverge says %v", d)
			}
			for _, e := range []simulate.Event{d.First, d.Second} {
				if e.Number != 0 && e.Number != d.Common.Number+1 {
					t.Errorf("%v follows %v", e, d.Common)
				}
			}
		})
	}
}

func TestDivergeOfEqualRuns(t *testing.T) {
	quiet := func(*simulate.World) {}
	if d := Diverge(simulate.Options{Seed: 1}, simulate.Options{Seed: 1, Timeline: true}, everySecond(quiet, quiet)); d != nil {
		t.Errorf("equal runs part: %v", d)
	}
}

// Runs without an end are compared until they are interrupted.
func TestDivergeIsInterrupted(t *testing.T) {
	stop := make(chan struct{})
	var once atomic.Bool
	d := Diverge(simulate.Options{Interrupt: stop}, simulate.Options{}, ages(func() {
		if once.CompareAndSwap(false, true) {
			close(stop)
		}
	}))
	if d != nil {
		t.Errorf("what was interrupted parts: %v", d)
	}
}

func TestDivergeDescribesFrames(t *testing.T) {
	var runs atomic.Int32
	d := Diverge(simulate.Options{}, simulate.Options{}, func(w *simulate.World) error {
		for _, name := range []string{"a", "b"} {
			w.Host(name).Boot("sender", func(ctx context.Context) {
				for simulate.Sleep(ctx, time.Second) == nil {
					simulate.Send(ctx, "a", "port", []byte("hello"))
				}
			})
		}
		frames := 0
		run := runs.Add(1)
		w.Net.Rule(func(simulate.Frame) simulate.Verdict {
			if frames++; frames == 100 {
				return simulate.Verdict(time.Duration(run) * time.Microsecond)
			}
			return simulate.Pass
		})
		return w.Run(2 * time.Minute)
	})
	if d == nil || d.First.Time == d.Second.Time || !strings.Contains(d.String(), "a frame from ") || !strings.Contains(d.String(), " bytes with hash ") || !strings.Contains(d.String(), ": port hello") {
		t.Errorf("Diverge says %v", d)
	}
}
