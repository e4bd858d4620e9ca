package founding

import (
	"errors"
	"math/rand/v2"
	"time"

	"github.com/lockmesh/mesh/internal/fault"
)

// fates is how bad a world is.
type fates struct {
	loss, double float64
	slow         float64       // how many frames are very late
	late         time.Duration // how late at most
	crash        time.Duration // mean time between crashes
	cutEvery     time.Duration // mean time between partitions
	cutFor       time.Duration
	restart      time.Duration // at most so long until a crashed process is back
	malice       float64       // how often a node that decides is cut off from the other founders, and then dies
}

// betray cuts p off from the other seeds, and makes it crash after a while. The rest of p's side stays
// cut off for longer.
func (w *world) betray(p *proc) {
	others := w.rng.IntN(2) == 0 // are on its side
	side := func(i int) bool { return i == p.i || others && i >= len(w.seeds) }
	w.split(func(from, to int) bool { return side(from) != side(to) })
	w.after(w.upTo(2*time.Second), func() {
		w.crash(p.i)
		for pair := range w.cut {
			if pair[0] == p.addr || pair[1] == p.addr {
				delete(w.cut, pair) // its successor is among the seeds
			}
		}
		if others {
			w.split(func(from, to int) bool { return from == p.i && side(to) || to == p.i && side(from) })
		}
		w.after(w.upTo(w.fates.restart), func() { w.boot(p.i) })
		w.after(w.upTo(3*time.Second), w.heal)
	})
}

// chaos starts every process at some time and injects faults for d. Then the faults stop, and every
// process must end in one mesh.
func (w *world) chaos(d time.Duration) {
	for i := range w.procs {
		w.after(w.upTo(3*time.Second), func() { w.boot(i) })
	}
	var crash, cut func()
	crash = func() {
		if w.healed {
			return
		}
		i := w.rng.IntN(len(w.procs))
		w.crash(i)
		w.after(w.upTo(w.fates.restart), func() { w.boot(i) })
		w.after(w.upTo(2*w.fates.crash), crash)
	}
	cut = func() {
		if w.healed {
			return
		}
		side := make([]int, len(w.procs))
		for i := range side {
			side[i] = w.rng.IntN(2)
		}
		oneWay, lonely := w.rng.IntN(3) == 0, w.rng.IntN(3) == 0
		alone := w.rng.IntN(len(side))
		w.split(func(from, to int) bool {
			if lonely {
				return from == alone || to == alone && !oneWay
			}
			return side[from] < side[to] || side[from] > side[to] && !oneWay
		})
		w.after(w.upTo(w.fates.cutFor), w.heal)
		w.after(w.upTo(2*w.fates.cutEvery), cut)
	}
	if w.fates.crash > 0 {
		w.after(w.upTo(w.fates.crash), crash)
	}
	if w.fates.cutEvery > 0 {
		w.after(w.upTo(w.fates.cutEvery), cut)
	}
	w.run(d)
	w.note("the faults stop")
	w.healed = true
	w.heal()
	w.fates.loss, w.fates.double, w.fates.slow, w.fates.malice = 0, 0, 0, 0
	for i := range w.procs {
		w.boot(i)
	}
	if !w.runUntil(settleIn, w.settled) && w.err == nil {
		w.broken("not all processes are in one mesh:%s", w.waiting())
	}
	for _, err := range w.failed {
		if errors.Is(err, fault.ErrInvalidOption) || errors.Is(err, fault.ErrNameTaken) {
			w.broken("a node failed: %v", err)
		}
	}
}

// settleIn bounds the time from the last fault until every process is in one mesh. Most of it is the
// time for which a founder waits for one that does not know of the mesh.
const settleIn = informFor + 30*time.Second

// randomWorld draws a world and its fates.
func randomWorld(seed uint64) *world {
	r := rand.New(rand.NewPCG(seed, 2))
	w := newWorld(seed, 1+r.IntN(4), r.IntN(3), r.IntN(2) == 0)
	ms := func(from, to int) time.Duration {
		return time.Duration(from+r.IntN(to-from)) * time.Millisecond
	}
	w.fates = fates{restart: ms(10, 3000)}
	if r.IntN(2) == 0 {
		w.fates.loss = r.Float64() * 0.3
		w.fates.double = r.Float64() * 0.3
	}
	if r.IntN(2) == 0 {
		w.fates.slow, w.fates.late = r.Float64()*0.5, ms(100, 5000)
	}
	if r.IntN(4) > 0 {
		w.fates.crash = ms(300, 4000)
	}
	if r.IntN(2) == 0 {
		w.fates.cutEvery, w.fates.cutFor = ms(1000, 5000), ms(200, 5000)
	}
	if r.IntN(2) == 0 {
		w.fates.malice = r.Float64()
	}
	return w
}

// cruelWorld draws a small world on one machine. Nearly always the node that decides is cut off and
// dies, and some frames are very late.
func cruelWorld(seed uint64) *world {
	r := rand.New(rand.NewPCG(seed, 3))
	w := newWorld(seed, 2+r.IntN(2), 1+r.IntN(2), true)
	w.fates = fates{
		restart: time.Duration(1+r.IntN(500)) * time.Millisecond, malice: 0.9,
		loss: r.Float64() * 0.2, slow: r.Float64() * 0.3, late: 3 * time.Second,
	}
	return w
}
