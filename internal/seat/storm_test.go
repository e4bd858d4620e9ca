package seat

import (
	"flag"
	"testing"
	"time"
)

var (
	storms = flag.Int("storms", 40, "how many random worlds to play")
	first  = flag.Uint64("first", 1, "the seed of the first")
)

// Through restarts, stalls, cut links and lost frames no two generations can decide, and no two decisions
// bear one stamp. After it all entries come to serve, in the time that follows from the pauses between
// attempts and the time for which an entry counts as heard.
func TestStorms(t *testing.T) {
	for seed := *first; seed < *first+uint64(*storms); seed++ {
		w := newWorld(t, seed, 1+int(seed%7))
		w.toldToo = *storms == 1
		w.storm()
		w.calm()
		w.must(w.runUntil(20*time.Second, w.serves), "seed %d: the core does not come to serve", seed)
	}
}

// storm starts all entries, and does to them what comes to pass in bad minutes.
func (w *world) storm() {
	w.loss = w.rng.IntN(100)
	w.delay = w.upTo(100 * time.Millisecond)
	for _, addr := range w.list {
		w.after(w.upTo(5*time.Second), func() { w.boot(addr) })
	}
	often := 200*time.Millisecond + w.upTo(3*time.Second)
	for at := time.Duration(0); at < 40*time.Second; at += w.upTo(2 * often) {
		w.after(at, w.harm)
	}
	w.run(40 * time.Second)
}

// harm does one bad thing.
func (w *world) harm() {
	a, b := w.list[w.rng.IntN(len(w.list))], w.list[w.rng.IntN(len(w.list))]
	switch p := w.procs[a]; w.rng.IntN(10) {
	case 0, 1:
		w.boot(a)
	case 2:
		w.kill(a)
		w.after(w.upTo(5*time.Second), func() { w.boot(a) })
	case 3: // most at once
		for _, addr := range w.list {
			if w.rng.IntN(3) > 0 {
				w.boot(addr)
			}
		}
	case 4:
		if p != nil && p.alive {
			p.paused = w.now + w.upTo(5*time.Second)
			w.note("%s stalls until %v", a, p.paused)
		}
	case 5:
		w.note("cut %s -> %s", a, b)
		w.cut[[2]string{a, b}] = a != b
		w.breakLink(a, b)
	case 6:
		w.note("cut off: %s", a)
		for _, o := range w.list {
			w.cut[[2]string{a, o}], w.cut[[2]string{o, a}] = a != o, a != o
			w.breakLink(a, o)
		}
	default:
		w.note("healed")
		clear(w.cut)
	}
}

// calm ends what is bad, and starts what does not run.
func (w *world) calm() {
	w.note("calm")
	clear(w.cut)
	w.loss = 0
	for _, addr := range w.list {
		if p := w.procs[addr]; p == nil || !p.alive {
			w.boot(addr)
		}
	}
}
