package seat

import (
	"fmt"
	"testing"
	"time"
)

// onLoopback is a founded core of n on one machine, that has been idle for a while.
func onLoopback(t *testing.T, n int) *world {
	t.Helper()
	w := newWorld(t, 1, n)
	w.delay = 10 * time.Millisecond
	for i := range w.list {
		w.list[i] = fmt.Sprintf("127.0.0.1:%d", 7001+i)
	}
	for _, addr := range w.list {
		w.boot(addr)
	}
	w.must(w.runUntil(10*time.Second, w.serves), "not founded")
	w.run(5 * time.Second)
	return w
}

// away returns the entries that one node misses.
func (w *world) away(addr string) []Away { return w.procs[addr].m.Standing().Away }

// Promise: C10: a node that has nothing to find out dials each entry about once a second, also on loopback, and all
// entries count meanwhile.
func TestIdle(t *testing.T) {
	w := onLoopback(t, 3)
	dials, d := w.dials, 30*time.Second
	for range d / (10 * time.Millisecond) {
		w.run(10 * time.Millisecond)
		for _, addr := range w.list {
			holds(t, len(w.away(addr)) == 0, "at", w.now, addr, "misses", w.away(addr))
		}
	}
	n := float64(w.dials-dials) / 9 / d.Seconds()
	t.Logf("each node dials each entry %.2f times a second", n)
	holds(t, n >= 1 && n < 1.15, "dials a second:", n)
}

// A node that has nothing to find out wakes once a second to dial, whatever the number of entries.
func TestIdleDialsTogether(t *testing.T) {
	w := onLoopback(t, 5)
	a := w.procs[w.list[0]]
	at := map[time.Duration]bool{}
	for range 3000 {
		w.run(10 * time.Millisecond)
		for _, e := range a.m.book.entries {
			at[e.begun] = true
		}
	}
	t.Logf("dials of 5 entries at %d times in 30 s", len(at))
	holds(t, len(at) <= 35, "it dials at", len(at), "times in 30 s")
}

// What an idle node is told counts until it is told again, though frames take a while.
func TestIdleCounts(t *testing.T) {
	w := onLoopback(t, 3)
	w.delay = 50 * time.Millisecond
	for range 3000 {
		w.run(10 * time.Millisecond)
		for _, addr := range w.list {
			holds(t, len(w.away(addr)) == 0, "at", w.now, addr, "misses", w.away(addr))
		}
	}
}

// A node that hears nothing of another, though they are connected, dials all soon.
func TestIdleInSilence(t *testing.T) {
	w := onLoopback(t, 3)
	a, c := w.procs[w.list[0]], w.procs[w.list[2]]
	own := a.m.book.entry(a.addr)
	for i := range 10 {
		w.run(time.Duration(i) * 100 * time.Millisecond)
		w.cut[[2]string{c.addr, a.addr}] = true
		w.must(w.runUntil(2*afar.fresh, func() bool { return !a.m.idle.is }), "it is idle still")
		from := w.now
		w.run(250 * time.Millisecond)
		holds(t, own.begun >= from, "it goes on as slowly")
		delete(w.cut, [2]string{c.addr, a.addr})
		w.must(w.runUntil(10*time.Second, func() bool { return a.m.idle.is }), "it is not idle again")
	}
}

// A node that misses an entry dials all of them soon, and goes on so; those that answer count meanwhile.
func TestIdleNoMore(t *testing.T) {
	w := onLoopback(t, 3)
	a := w.list[0]
	own, b := w.procs[a].m.book.entry(a), w.procs[a].m.book.entry(w.list[1])
	w.must(w.runUntil(5*time.Second, func() bool { return !own.dials && !b.dials && w.now < min(own.begun, b.begun)+200*time.Millisecond }), "it dials at no time")
	w.kill(w.list[2])
	w.must(w.runUntil(time.Second, func() bool { return len(w.away(a)) > 0 }), "it does not miss the third")
	from, begun, dials := w.now, b.begun, 0
	for i := range 100 {
		w.run(10 * time.Millisecond)
		if b.begun != begun {
			begun, dials = b.begun, dials+1
		}
		holds(t, i < 21 || own.begun >= from && b.begun >= from, "it goes on as slowly")
		holds(t, len(w.away(a)) == 1, "a misses", w.away(a))
	}
	holds(t, dials >= 4, "dials of b in a second:", dials)
}

// Of two nodes one cannot dial the other, which asks it in time.
func TestIdleIsTold(t *testing.T) {
	w := newWorld(t, 1, 3)
	w.delay = 100 * time.Millisecond
	a, b := w.list[0], w.list[1]
	astray := false
	w.resolve = func(p *proc, addr string) string {
		if astray && p.addr == b && addr == a {
			return "nowhere"
		}
		return addr
	}
	for _, addr := range w.list {
		w.boot(addr)
	}
	w.must(w.runUntil(10*time.Second, w.serves), "not founded")
	w.run(5 * time.Second)
	astray = true
	for range 12000 {
		w.run(10 * time.Millisecond)
		holds(t, len(w.away(a)) == 0, "at", w.now, a, "misses", w.away(a))
	}
}
