package simulate

import (
	"fmt"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/lockmesh/mesh/transport"
)

// traceOf runs one rough world, and returns the hashes after each of its events.
func traceOf(t testing.TB, seed uint64) (hashes []uint64) {
	hear := func(e Event) {
		if hashes = append(hashes, e.Hash); e.Number != uint64(len(hashes)) {
			t.Errorf("event %d is the call %d of Options.Event", e.Number, len(hashes))
		}
	}
	w, l := fakeWorld(Options{Seed: seed, Profile: Flaky, Event: hear}, fakeBugs{})
	defer w.Close()
	if err := l.Run(w, ChaosOptions{For: 30 * time.Second, MayCrash: mayCrashClients}); err != nil {
		t.Fatal(err)
	}
	if last := hashes[len(hashes)-1]; last != w.Hash() {
		t.Errorf("after the last event the hash is %x, and the world's is %x", last, w.Hash())
	}
	return hashes
}

func TestSameSeedSameTrace(t *testing.T) {
	seen := make(map[uint64]bool)
	for seed := uint64(1); seed <= 5; seed++ {
		hashes := traceOf(t, seed)
		for _, procs := range []int{1, 2} {
			before := runtime.GOMAXPROCS(procs)
			again := traceOf(t, seed)
			runtime.GOMAXPROCS(before)
			if !slices.Equal(again, hashes) {
				t.Fatalf("seed %d: two runs of %d and %d events differ", seed, len(hashes), len(again))
			}
		}
		hash := hashes[len(hashes)-1]
		if seen[hash] {
			t.Errorf("seed %d: another seed has the same trace", seed)
		}
		seen[hash] = true
	}
}

// A draw in one concern must not shift another's.
func TestStreamsAreApart(t *testing.T) {
	var draws uint64
	a, b := newStream(1, latencyStream, &draws), newStream(1, lossStream, &draws)
	a.Uint64()
	first := b.Uint64()
	if c := newStream(1, lossStream, &draws); c.Uint64() != first || draws != 3 {
		t.Error("streams depend on each other")
	}
	if newStream(2, lossStream, &draws).Uint64() == first {
		t.Error("the seed does not matter")
	}
	var sum time.Duration
	for range 100_000 {
		sum += a.exponential(time.Second)
	}
	if mean := sum / 100_000; mean < 900*time.Millisecond || mean > 1200*time.Millisecond {
		t.Errorf("the mean of exponential is %v", mean)
	}
	hits := 0
	for range 100_000 {
		if a.chance(200_000) {
			hits++
		}
	}
	if hits < 19_000 || hits > 21_000 {
		t.Errorf("%d of 100000 draws with a chance of a fifth", hits)
	}
}

func TestQueueIsOrdered(t *testing.T) {
	var draws uint64
	s := newStream(1, 1, &draws)
	var q queue
	all := make([]event, 500)
	seq := uint64(0)
	for i := range all {
		all[i].slot = idle
	}
	for range 20_000 {
		ev := &all[s.below(int64(len(all)))]
		seq++
		switch {
		case ev.slot == idle:
			ev.at, ev.seq = time.Duration(s.below(1000)), seq
			q.push(ev)
		case s.below(3) == 0:
			q.remove(ev)
		default:
			ev.at, ev.seq = time.Duration(s.below(1000)), seq
			q.fix(ev)
		}
	}
	last := entry{at: -1}
	for n := len(q.heap); n > 0; n-- {
		ev := q.pop()
		e := entry{ev.at, ev.seq, ev}
		if !last.before(e) || ev.slot != idle {
			t.Fatalf("%v came after %v", e, last)
		}
		last = e
	}
}

// BenchmarkWorld measures events per second with lockers on three clients, one
// server, and all faults.
func BenchmarkWorld(b *testing.B) {
	var events uint64
	var virtual time.Duration
	for i := range b.N {
		w, l := fakeWorld(Options{Seed: uint64(i), Profile: Flaky}, fakeBugs{})
		if err := l.Run(w, ChaosOptions{For: time.Minute, MayCrash: mayCrashClients}); err != nil {
			b.Fatal(err)
		}
		events += w.Events()
		virtual += w.Now()
		w.Close()
	}
	b.ReportMetric(float64(events)/b.Elapsed().Seconds(), "events/s")
	b.ReportMetric(virtual.Seconds()/b.Elapsed().Seconds(), "x-real-time")
}

// BenchmarkKernel measures the kernel alone: five hosts, a loop of 20 ticks a
// second on each, and 500 frames a second between them.
func BenchmarkKernel(b *testing.B) {
	w := New(Options{Seed: 1})
	defer w.Close()
	var probes []*probe
	for i := range 5 {
		p := &probe{w: w}
		h := w.Host(fmt.Sprint("h", i))
		p.id = transport.ID(i + 1)
		p.net, _ = h.process.Listen(transport.Config{Bind: ":1", Hello: transport.Hello{ID: p.id}}, p)
		for _, q := range probes {
			p.net.Connect(q.id, q.net.Addr())
		}
		probes = append(probes, p)
		n := 0
		h.process.NewLoop("ticker", func(now time.Duration) time.Duration {
			for range 5 {
				n++
				p.net.Send(probes[n%len(probes)].id, 1, 1, make([]byte, 200))
			}
			p.frames = p.frames[:0]
			return now + 50*time.Millisecond
		}).Wake()
	}
	b.ResetTimer()
	for range b.N {
		if err := w.Run(time.Second); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(w.Events())/b.Elapsed().Seconds(), "events/s")
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "x-real-time")
}
