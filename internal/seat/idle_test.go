package seat

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/lockmesh/mesh/internal/env"
	"github.com/lockmesh/mesh/transport"
)

// onLoopback is a founded core of n on one machine, that has been idle for a while.
func onLoopback(t *testing.T, n int) *world {
	t.Helper()
	w := justFounded(t, n)
	w.run(5 * time.Second)
	return w
}

func justFounded(t *testing.T, n int) *world {
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
	return w
}

// away returns the entries that one node misses.
func (w *world) away(addr string) []Away { return w.procs[addr].m.Standing().Away }

// Promise: C6, C10: a node that has nothing to find out dials its own entry about once a second, also on loopback, and the
// others' every other second; it tells them once a second, and all entries count meanwhile.
func TestIdle(t *testing.T) {
	w := justFounded(t, 3)
	a := w.procs[w.list[0]]
	w.must(w.runUntil(5*time.Second, func() bool { return a.m.idle.is }), "it is not idle")
	begun, last := map[string]time.Duration{}, map[string]time.Duration{}
	frames, from, d := w.frames, w.now, 30*time.Second
	for range d / (10 * time.Millisecond) {
		w.run(10 * time.Millisecond)
		for _, addr := range w.list {
			holds(t, len(w.away(addr)) == 0, "at", w.now, addr, "misses", w.away(addr))
		}
		for _, e := range a.m.book.entries {
			if e.begun == begun[e.addr] {
				continue
			}
			pause, least, most := e.begun-begun[e.addr], 19*afar.contact/10, 2*afar.contact
			if begun[e.addr] = e.begun; e.addr == a.addr {
				least, most = least/2, most/2
			}
			holds(t, last[e.addr] == 0 || pause <= most+100*time.Millisecond, e.addr, "is dialled after", pause)
			holds(t, last[e.addr] < from+afar.contact || pause >= least, e.addr, "is dialled after", pause)
			last[e.addr] = e.begun
		}
	}
	equal(t, 3, len(last))
	n := float64(w.frames-frames) / 6 / d.Seconds()
	holds(t, n >= 1 && n < 1.15, "frames a second from each to each:", n)
}

// An idle node finds another one where the name leads it alone, though the one that it knows lives, and reaches itself.
func TestIdleLedElsewhere(t *testing.T) {
	w := onLoopback(t, 3)
	a, b, c := w.procs[w.list[0]], w.list[1], w.list[2]
	w.resolve = func(p *proc, addr string) string {
		if p == a && addr == b {
			return c
		}
		return addr
	}
	w.must(w.runUntil(2*afar.contact+w.delay*2, func() bool { return a.m.book.entry(b).node == w.procs[c].id }), "it goes by what it found before")
}

// An idle node dials an entry at once, of which another one says that it is its own; if a dial is under way, after that.
func TestIdleHearsOfAnother(t *testing.T) {
	for _, under := range []bool{false, true} {
		w := onLoopback(t, 3)
		m, entry := w.procs[w.list[0]].m, w.list[1]
		e := m.book.entry(entry)
		w.must(w.runUntil(3*time.Second, func() bool { return e.dials == under && (under || m.vouched(e, w.now)) }), "it dials at no time")
		m.Up(w.now, 77, nil)
		dials := func() bool {
			return slices.Contains(m.Message(w.now, 77, encode(told{card: card{Member: env.Member{ID: 77}, List: w.list}, Entry: entry}), nil), Output(Dial{entry}))
		}
		holds(t, dials() != under, "it dials while it dials, or does not")
		if under {
			out := m.Dialed(w.now, entry, transport.Hello{ID: w.procs[entry].id}, nil, nil)
			holds(t, slices.Contains(out, Output(Dial{entry})), "what it was told is lost")
		}
	}
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
