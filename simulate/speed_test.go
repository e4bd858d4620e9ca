//go:build unix

package simulate_test

import (
	"runtime"
	"syscall"
	"testing"
	"time"

	"github.com/lockmesh/mesh/simulate"
	"github.com/lockmesh/mesh/simulate/drill"
)

// How much faster than life a world runs, on one core: go test -run '^$' -bench Speed ./simulate
//
// The metrics are simulated time by real time (sim/real), and by the processor time of
// the whole process (sim/cpu), which neighbours on the machine disturb less.

// stopwatch measures one benchmark on one core.
type stopwatch struct {
	b        *testing.B
	cpu      time.Duration // processor time while it ran
	virtual  time.Duration
	events   uint64
	from     time.Duration // of cpu
	restores int
}

func newStopwatch(b *testing.B) *stopwatch {
	s := &stopwatch{b: b, restores: runtime.GOMAXPROCS(1)}
	b.StopTimer()
	b.ReportAllocs()
	return s
}

// run measures what fn does to w.
func (s *stopwatch) run(w *simulate.World, fn func() error) {
	now, events := w.Now(), w.Events()
	s.from = processorTime()
	s.b.StartTimer()
	err := fn()
	s.b.StopTimer()
	if err != nil {
		s.b.Fatal(err)
	}
	s.cpu += processorTime() - s.from
	s.virtual += w.Now() - now
	s.events += w.Events() - events
}

func (s *stopwatch) report() {
	runtime.GOMAXPROCS(s.restores)
	b := s.b
	b.ReportMetric(s.virtual.Seconds()/b.Elapsed().Seconds(), "sim/real")
	b.ReportMetric(s.virtual.Seconds()/s.cpu.Seconds(), "sim/cpu")
	b.ReportMetric(float64(s.events)/s.virtual.Seconds(), "events/sim-s")
	b.ReportMetric(float64(s.cpu.Nanoseconds())/float64(s.events), "cpu-ns/event")
}

// processorTime is what the process has used of all processors so far.
func processorTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkSpeed measures whole worlds: the public door, the codecs, the network, the
// checkers.
func BenchmarkSpeed(b *testing.B) {
	for _, c := range []struct {
		name                  string
		size, shards, callers int
	}{
		{"3 nodes, 1 shard", 3, 1, 3},
		{"5 nodes, 16 shards", 5, 16, 5},
		{"32 nodes, 256 shards", 32, 256, 8},
	} {
		b.Run(c.name, func(b *testing.B) {
			s := newStopwatch(b)
			w := calmMesh(b, 1, c.size, c.shards, c.callers)
			defer w.Close()
			for range b.N {
				s.run(w, func() error { return w.Run(time.Second) })
			}
			s.report()
		})
	}
	b.Run("5 nodes, 16 shards, chaos", func(b *testing.B) {
		s := newStopwatch(b)
		for i := range b.N {
			// A load of middling size: what each seed draws on top of it is what its guests do.
			w := simulate.New(simulate.Options{Seed: uint64(i + 1), Profile: simulate.Flaky, Set: map[string]int64{
				"hosts": 5, "shards": 16, "lockers": 2, "guests": 1, "errands": 4, "keys": 4, "storm-s": 30,
			}})
			s.run(w, func() error { return drill.Play(w) })
			w.Close()
		}
		s.report()
	})
}
