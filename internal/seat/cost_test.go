package seat

import (
	"slices"
	"testing"
	"time"
)

// What a core at rest costs, and how long it takes to found, to bind a restarted node, and to begin a
// generation; all frames take 10 ms on the average. The figures are in the package comment.
func TestFigures(t *testing.T) {
	var found, bind, roll []time.Duration
	for seed := range uint64(50) {
		w := newWorld(t, seed, 3)
		took := func(all *[]time.Duration) {
			from := w.now
			w.must(w.runUntil(5*time.Second, w.serves), "the core does not serve")
			*all = append(*all, w.now-from)
		}
		for _, addr := range w.list {
			w.boot(addr)
		}
		took(&found)
		w.run(time.Second)
		w.boot(w.list[0])
		took(&bind)
		w.run(time.Second)
		w.boot(w.list[1])
		w.boot(w.list[2])
		took(&roll)
	}
	for _, f := range []struct {
		name string
		all  []time.Duration
		most time.Duration
	}{{"found", found, time.Second}, {"bind", bind, 2 * time.Second}, {"begin a generation", roll, 2 * time.Second}} {
		slices.Sort(f.all)
		t.Logf("to %s: %v, at most %v", f.name, f.all[len(f.all)/2].Round(time.Millisecond), slices.Max(f.all).Round(time.Millisecond))
		holds(t, slices.Max(f.all) <= f.most, f.name, slices.Max(f.all))
	}

	w := founded(t, 3)
	w.run(5 * time.Second)
	frames, bytes, dials := w.frames, w.bytes, w.dials
	w.run(100 * time.Second)
	t.Logf("a node at rest, a second: %.1f frames of %d bytes, %.1f dials", float64(w.frames-frames)/300, (w.bytes-bytes)/(w.frames-frames), float64(w.dials-dials)/300)
	holds(t, w.frames-frames <= 300*3, "frames:", w.frames-frames)
	holds(t, w.dials-dials <= 300*5, "dials:", w.dials-dials)
}
