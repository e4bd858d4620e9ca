package simulate

import (
	"strings"
	"testing"
	"time"
)

// ticking is a world in which a loop runs a thousand times a second.
func ticking(w *World) {
	w.Host("a").process.NewLoop("ticker", func(now time.Duration) time.Duration { return now + time.Millisecond }).Wake()
}

// everySecond returns a scenario that behaves differently at every other run.
func everySecond(good, bad func(w *World)) func(w *World) error {
	runs := 0
	return func(w *World) error {
		ticking(w)
		if runs++; runs%2 == 0 {
			bad(w)
		} else {
			good(w)
		}
		return w.Run(20 * time.Second)
	}
}

func TestDivergeNamesTheEvent(t *testing.T) {
	const at = 12345 * time.Millisecond
	call := func(fn func(w *World)) func(w *World) {
		return func(w *World) { w.At(at, func() { fn(w) }) }
	}
	tests := []struct {
		name      string
		good, bad func(w *World)
		common    string
		differs   func(first, second Event) bool
	}{
		{
			"one random number more", call(func(*World) {}), call(func(w *World) { w.Net.delays.Uint64() }), "a call of",
			func(first, second Event) bool { return first.Draws+1 == second.Draws && first.Time == second.Time },
		},
		{
			"one event more", call(func(*World) {}), call(func(w *World) { w.At(w.Now(), func() {}) }), "a call of",
			func(first, second Event) bool {
				return strings.Contains(first.What, "ticker, on a") && strings.Contains(second.What, "a call of")
			},
		},
		{
			"the end", call(func(*World) {}), call(func(w *World) { w.Host("a").process.kill() }), "a call of",
			func(first, second Event) bool { return first.Number != 0 && second.Number == 0 },
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			d := Diverge(Options{}, Options{}, everySecond(tt.good, tt.bad))
			if d == nil {
				t.Fatal("Diverge noticed nothing")
			}
			if d.Common.Time != at || !strings.Contains(d.Common.What, tt.common) || !tt.differs(d.First, d.Second) {
				t.Errorf("Diverge says %v", d)
			}
			if d.Checkpoint.Events == 0 || d.Checkpoint.Events%checkpointEvery != 0 || d.Checkpoint.Time > at || d.Common.Number-d.Checkpoint.Events >= checkpointEvery {
				t.Errorf("the last checkpoint in common is %+v", d.Checkpoint)
			}
			for _, e := range []Event{d.First, d.Second} {
				if e.Number != 0 && e.Number != d.Common.Number+1 {
					t.Errorf("%v follows %v", e, d.Common)
				}
			}
		})
	}
}

func TestDivergeOfEqualRuns(t *testing.T) {
	quiet := func(*World) {}
	if d := Diverge(Options{Seed: 1}, Options{Seed: 1, Timeline: true}, everySecond(quiet, quiet)); d != nil {
		t.Errorf("equal runs part: %v", d)
	}
}

// Runs that part once, and never while events are kept, are reported all the same.
func TestDivergeOfRunsThatPartOnce(t *testing.T) {
	runs := 0
	d := Diverge(Options{}, Options{}, func(w *World) error {
		ticking(w)
		if runs++; runs == 1 {
			w.At(10*time.Second, func() { w.Net.delays.Uint64() })
		} else {
			w.At(10*time.Second, func() {})
		}
		return w.Run(20 * time.Second)
	})
	if d == nil || d.First.Number != 0 || d.Checkpoint.Events != 2*checkpointEvery || !strings.Contains(d.String(), "each time somewhere else") {
		t.Errorf("Diverge says %v", d)
	}
}

func TestDivergeDescribesFrames(t *testing.T) {
	runs := 0
	d := Diverge(Options{}, Options{}, func(w *World) error {
		l := &Lockers{Hosts: []string{"c1", "c2"}, Join: fakeJoin(fakeBugs{}), TTL: fakeTTL}
		fakeServe(w, fakeBugs{})
		for _, h := range l.Hosts {
			w.Host(h)
		}
		frames := 0
		runs++
		w.Net.Rule(func(Frame) Verdict {
			if frames++; frames == 100 {
				return Verdict(time.Duration(runs) * time.Microsecond)
			}
			return Pass
		})
		l.Start(w)
		return w.Run(time.Minute)
	})
	if d == nil || d.First.Time == d.Second.Time || !strings.Contains(d.First.What, "a frame from ") || !strings.Contains(d.First.What, " bytes with hash ") {
		t.Errorf("Diverge says %v", d)
	}
}
