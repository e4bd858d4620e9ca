package seat

import (
	"slices"
	"testing"
	"time"

	"github.com/lockmesh/mesh/internal/core"
	"github.com/lockmesh/mesh/internal/env"
	"github.com/lockmesh/mesh/transport"
)

// pairOf places each shard on the first two of those that have a seat.
func pairOf(seats []core.Seat, _, _ int) (ids []transport.ID) { return place(seats, 0, 2) }

// coreOf returns a world whose core of so many entries is founded, with its shards on the first two.
func coreOf(t *testing.T, n int) *world {
	w := newWorld(t, uint64(n), n)
	w.place = pairOf
	for _, addr := range w.list {
		w.boot(addr)
	}
	w.must(w.runUntil(5*time.Second, w.serves), "not founded")
	return w
}

// bearer returns the node with the seat of an entry, as the first entry's node knows.
func (w *world) bearer(addr string) transport.ID {
	t := w.table()
	return t.Seats[slices.Index(t.List(), addr)].Node.ID
}

// goesOn reports whether all entries but one have a node that lives, and that these act by one table.
func (w *world) goesOn(without string) func() bool {
	return func() bool {
		var one *core.Table
		for _, addr := range w.list {
			if p := w.procs[addr]; addr != without {
				t := p.state.Table
				if t == nil || p.state.Fenced || !slices.Contains(t.Bound(), p.id) || one != nil && t.Stamp != one.Stamp {
					return false
				}
				one = t
			}
		}
		return true
	}
}

// Promise: C4: one node of three is gone for good, and a while later another one restarts: the two go on without a word of
// the first, with what they had decided, and again, and the next node at that entry has its seat.
func TestTwoOfThreeGoOn(t *testing.T) {
	w := coreOf(t, 3)
	a, b, c := w.list[0], w.list[1], w.list[2]
	w.kill(c)
	w.run(goneAfter - 200*time.Millisecond)
	holds(t, w.bearer(c) != 0, "too early")
	w.must(w.runUntil(3*time.Second, func() bool { return w.bearer(c) == 0 }), "its seat is not vacated")
	for range 2 {
		for _, addr := range []string{b, a} {
			w.run(afar.fresh) // until each of them knows that it is silent
			roll := w.table().Stamp.Roll
			w.boot(addr)
			w.must(w.runUntil(2*time.Second, w.goesOn(c)), "%s waits", addr)
			holds(t, w.table().Stamp.Roll.Compare(roll) > 0 && w.bearer(c) == 0, w.table())
		}
	}
	mesh := w.table().Mesh
	w.boot(c)
	w.must(w.runUntil(3*time.Second, w.serves), "the next one gets no seat")
	equal(t, mesh, w.table().Mesh)
}

// Promise: C4: the machine of one node of three loses its power: nothing refuses connections in its place. A while later
// another node restarts, and the two go on. Until then the silent one keeps its seat, since it may come back.
func TestTwoOfThreeGoOnWithoutTheSilent(t *testing.T) {
	w := coreOf(t, 3)
	b, c := w.list[1], w.list[2]
	w.isolate(c)
	w.kill(c)
	w.run(silentAfter - time.Second)
	holds(t, w.bearer(c) != 0, "too early")
	w.must(w.runUntil(5*time.Second, func() bool { return w.bearer(c) == 0 }), "its seat is not vacated")
	holds(t, w.now < 30*time.Second, "that takes", w.now)
	w.boot(b)
	w.must(w.runUntil(2*time.Second, w.goesOn(c)), "%s waits", b)
}

// Promise: C4, C6: one node of three is declared dead, which comes before its silence has lasted for long. Its seat is vacated all the same,
// and then another node may restart.
func TestTwoOfThreeGoOnWithoutTheDeclared(t *testing.T) {
	w := coreOf(t, 3)
	a, b, c := w.list[0], w.list[1], w.list[2]
	w.isolate(c)
	w.kill(c)
	w.run(Grace)
	_, err := w.tells(w.procs[a], c)
	equal(t, nil, err)
	w.must(w.runUntil(3*time.Second, w.ended(c)), "it is not decided")
	w.must(w.runUntil(silentAfter, func() bool { return w.bearer(c) == 0 }), "its seat is not vacated")
	w.boot(b)
	w.must(w.runUntil(2*time.Second, w.goesOn(c)), "%s waits", b)
}

// Promise: C14: of two neither goes on alone, however long the other one is gone: its seat stays its own, and nothing can be
// decided. Then all goes on in the same mesh.
func TestNeitherOfTwoGoesOn(t *testing.T) {
	for _, silent := range []bool{false, true} {
		w := coreOf(t, 2)
		a, b := w.list[0], w.list[1]
		before := w.table()
		if silent {
			w.isolate(b)
		}
		w.kill(b)
		w.run(silentAfter + goneAfter + 10*time.Second)
		holds(t, w.table() == before && w.procs[a].state.Table == before, "one of two has decided something: ", w.table())
		clear(w.cut)
		w.boot(b)
		w.must(w.runUntil(5*time.Second, w.serves), "it does not come back")
		equal(t, before.Mesh, w.table().Mesh)
	}
}

// Two that restart while the third is gone know nothing: they wait for it.
func TestTwoThatForgotWait(t *testing.T) {
	w := coreOf(t, 3)
	a, b, c := w.list[0], w.list[1], w.list[2]
	w.kill(c)
	w.must(w.runUntil(goneAfter+3*time.Second, func() bool { return w.bearer(c) == 0 }), "its seat is not vacated")
	w.kill(a)
	w.boot(b)
	w.boot(a)
	w.run(10 * time.Second)
	holds(t, w.procs[a].state.Table == nil && w.procs[b].state.Table == nil, w.waits())
	w.boot(c)
	w.must(w.runUntil(5*time.Second, w.serves), "not founded anew")
}

// One that restarts before the seat of the silent one is vacated waits: it may have decided with that one what the third
// does not know.
func TestOneThatRestartsTooEarlyWaits(t *testing.T) {
	w := coreOf(t, 3)
	w.kill(w.list[2])
	w.run(goneAfter / 2)
	w.boot(w.list[1])
	w.run(10 * time.Second)
	holds(t, !w.goesOn(w.list[2])(), w.table())
	w.boot(w.list[2])
	w.must(w.runUntil(5*time.Second, w.serves), "it does not recover")
}

// A node that is cut off loses its seat, and has it back as soon as it is heard, though the others have begun another
// generation meanwhile. While it is cut off, it can decide nothing.
func TestTheSilentComesBack(t *testing.T) {
	for _, restarts := range []bool{false, true} {
		w := coreOf(t, 3)
		b, c := w.list[1], w.procs[w.list[2]]
		for _, o := range w.list[:2] {
			w.cut[[2]string{c.addr, o}], w.cut[[2]string{o, c.addr}] = true, true
			w.breakLink(c.addr, o)
		}
		holds(t, !w.runUntil(silentAfter-time.Second, func() bool { return w.bearer(c.addr) == 0 }), "it may come back")
		w.must(w.runUntil(4*time.Second, func() bool { return w.bearer(c.addr) == 0 }), "its seat is not vacated")
		if restarts {
			w.boot(b)
			w.must(w.runUntil(2*time.Second, w.goesOn(c.addr)), "%s waits", b)
		}
		clear(w.cut)
		w.must(w.runUntil(5*time.Second, w.serves), "it does not come back")
		holds(t, c.alive && w.bearer(c.addr) == c.id, "another one has its seat")
	}
}

// A node that is silent for one of the others alone keeps its seat.
func TestWhoIsHeardKeepsItsSeat(t *testing.T) {
	w := coreOf(t, 3)
	a, c := w.list[0], w.list[2]
	w.cut[[2]string{a, c}], w.cut[[2]string{c, a}] = true, true
	w.breakLink(a, c)
	holds(t, !w.runUntil(silentAfter+3*goneAfter, func() bool { return w.bearer(c) == 0 }), "its seat is vacated")
}

// Promise: C4: of four, two that remember go on with the next incarnation of a third: the fourth cannot decide anything
// without them. It keeps its seat.
func TestThreeOfFourGoOn(t *testing.T) {
	w := coreOf(t, 4)
	c, d := w.list[2], w.list[3]
	w.kill(d)
	w.run(time.Second)
	shards := w.table().Shards
	w.boot(c)
	w.run(afar.fresh - time.Second - w.delay)
	holds(t, !w.goesOn(d)(), "the fourth may be about to tell")
	w.must(w.runUntil(5*time.Second, w.goesOn(d)), "%s waits", c)
	holds(t, w.bearer(d) != 0 && slices.EqualFunc(shards, w.table().Shards, func(s, o core.Shard) bool { return s.Generation == o.Generation }), w.table())
	w.boot(d)
	w.must(w.runUntil(5*time.Second, w.serves), "the next one gets no seat")
}

// Promise: G6: two nodes of four that cannot reach each other, and both reach the two others, do not call without each other in turn:
// that would go on as long as the cut. The mesh serves, without the one that was left out.
func TestNobodyCallsWithoutTheLiving(t *testing.T) {
	for _, later := range []time.Duration{0, 300 * time.Millisecond, 600 * time.Millisecond} {
		w := coreOf(t, 4)
		w.run(later)
		b, c, d := w.list[1], w.list[2], w.list[3]
		w.cut[[2]string{b, d}], w.cut[[2]string{d, b}] = true, true
		w.breakLink(b, d)
		for _, o := range []string{w.list[0], c} {
			w.cut[[2]string{b, o}], w.cut[[2]string{o, b}] = true, true
			w.breakLink(b, o)
		}
		w.run(5 * time.Second)
		w.boot(d)
		w.must(w.runUntil(10*time.Second, w.goesOn(b)), "%s waits", d)
		for _, o := range []string{w.list[0], c} {
			w.cut[[2]string{b, o}], w.cut[[2]string{o, b}] = false, false
		}
		w.run(2 * afar.fresh)
		roll := w.table().Stamp.Roll
		w.run(10 * time.Second)
		equal(t, roll, w.table().Stamp.Roll)
		clear(w.cut)
		w.must(w.runUntil(5*time.Second, w.serves), "it does not come back")
	}
}

// Promise: C4: two of six restart while a third is cut off, and end while the others answer the call that leaves that one out. The
// call is given up: the four that remember act as before as soon as they are connected.
func TestACallIsGivenUp(t *testing.T) {
	for seed := range uint64(20) {
		w := newWorld(t, seed, 6)
		for _, addr := range w.list {
			w.boot(addr)
		}
		w.must(w.runUntil(5*time.Second, w.serves), "not founded")
		away, gone := w.list[1], []string{w.list[0], w.list[3]}
		w.isolate(away)
		stamp := w.table().Stamp
		for _, addr := range gone {
			w.boot(addr)
		}
		calling := func() bool {
			return slices.ContainsFunc(w.living, func(p *proc) bool { _, is := p.m.attempt.(*rollCall); return is })
		}
		w.must(w.runUntil(10*time.Second, calling), "nobody calls")
		for _, addr := range gone {
			w.kill(addr)
		}
		w.run(time.Second)
		fenced := slices.ContainsFunc(w.living, func(p *proc) bool { return p.state.Fenced })
		holds(t, fenced, "nobody has answered the call")
		clear(w.cut)
		act := func() bool {
			return !slices.ContainsFunc(w.living, func(p *proc) bool { return p.state.Fenced || p.state.Table.Stamp.Roll != stamp.Roll })
		}
		w.must(w.runUntil(3*time.Second, act), "seed %d: they wait", seed)
		w.run(3 * time.Second)
		holds(t, act(), "seed", seed, "they wait again")
		for _, addr := range gone {
			w.boot(addr)
		}
		w.must(w.runUntil(5*time.Second, w.serves), "seed %d: those that are back get no seat", seed)
		equal(t, stamp.Roll, w.table().Stamp.Roll, "they were bound by the four")
	}
}

// Promise: C4: a node gives up the next version that it proposes when a roll call is due: too few are left to decide it.
func TestACallIsNotHeldUpByAVersion(t *testing.T) {
	w := founded(t, 3)
	a, s := w.procs[w.list[0]], w.table().Shards[1]
	w.lose = func(name string) bool { return name == "read" }
	w.do(a, func() []Output { return a.m.Change(w.now, Move{1, s.Generation, w.table().Bound()[:2]}, nil) })
	_, proposes := a.m.attempt.(*version)
	w.must(proposes, "it proposes nothing")
	a.m.giveUp = w.now + time.Hour
	w.boot(w.list[1])
	w.boot(w.list[2])
	w.must(w.runUntil(3*time.Second, func() bool { _, due := a.m.wants.action.(core.Begin); return due }), "no call is due")
	_, proposes = a.m.attempt.(*version)
	holds(t, !proposes, "it proposes still")
}

// isolate cuts the node at an address off from all others.
func (w *world) isolate(addr string) {
	for _, other := range w.list {
		if other != addr {
			w.cut[[2]string{addr, other}], w.cut[[2]string{other, addr}] = true, true
			w.breakLink(addr, other)
		}
	}
}

// Promise: C4: a call whose value may have been accepted is not withdrawn, though it comes to nothing: all who promised it stay fenced
// until the next one.
func TestAProposedCallIsNotWithdrawn(t *testing.T) {
	w := coreOf(t, 4)
	w.lose = func(name string) bool { return name == "proposed" }
	for _, addr := range w.list[:2] {
		w.boot(addr)
	}
	w.must(w.runUntil(3*time.Second, func() bool { return w.procs[w.list[3]].m.acceptor.Pending() }), "nobody accepts the call")
	roll := w.procs[w.list[3]].m.acceptor.Report().RollAt
	for range 40 {
		w.run(100 * time.Millisecond)
		for _, addr := range w.list[2:] {
			r := w.procs[addr].m.acceptor.Report()
			holds(t, w.procs[addr].state.Fenced && r.Withdrawn != roll, addr, "has taken back its promise to", roll)
		}
	}
	w.lose = nil
	w.must(w.runUntil(5*time.Second, w.serves), "they wait")
}

// Promise: C4, G6: of four one has restarted, and can reach all. One of the others has accepted the value of a call, which no report shows,
// and so calls that leave out the fourth never have a value. The restarted one calls all four, however often they do.
func TestCallsInVainStarveNobody(t *testing.T) {
	for seed := range uint64(5) {
		w := coreOf(t, 4)
		a, b, c, d := w.list[0], w.list[1], w.list[2], w.list[3]
		w.isolate(d)
		w.run(5 * time.Second)
		w.boot(c)
		var caller *proc
		w.seen = func(from, _ *proc, name string) { // what the caller proposes reaches nobody else
			if name == "propose" && (from.addr == a || from.addr == b) {
				caller = from
				for _, to := range []string{a, b, c} {
					w.cut[[2]string{from.addr, to}] = to != from.addr
				}
			}
		}
		w.must(w.runUntil(15*time.Second, func() bool { return caller != nil && caller.m.acceptor.Pending() }), "seed %d: nothing is accepted", seed)
		w.run(500 * time.Millisecond)
		w.seen = nil
		w.boot(c) // it has accepted nothing
		w.run(2 * time.Second)
		for _, to := range []string{a, b, c} {
			delete(w.cut, [2]string{caller.addr, to})
		}
		delete(w.cut, [2]string{c, d})
		delete(w.cut, [2]string{d, c})
		roll := w.table().Stamp.Roll
		serve := func() bool {
			return !slices.ContainsFunc([]string{a, b, c}, func(addr string) bool {
				s := w.procs[addr].state
				return s.Table == nil || s.Fenced || s.Table.Stamp.Roll == roll
			})
		}
		w.must(w.runUntil(15*time.Second, serve), "seed %d: they wait", seed)
	}
}

// Promise: C12, G1: after a stall a node has no entry until a dial of it has reached the node: another one may have had its seat.
func TestWhoWakesTellsNoEntry(t *testing.T) {
	w := coreOf(t, 3)
	p := w.procs[w.list[0]]
	equal(t, p.addr, p.m.told().Entry)
	p.m.sure = false
	equal(t, "", p.m.told().Entry)
}

// An entry is dialled at once, once, if a node says that it answers there and a dial has not found it yet.
func TestWhoTellsItsEntryIsLookedFor(t *testing.T) {
	w := founded(t, 3)
	m, entry := w.procs[w.list[0]].m, w.list[1]
	said := told{card: card{Member: env.Member{ID: 77}}, Entry: entry}
	m.book.peer(77)
	for _, want := range []bool{true, false} {
		m.book.entry(entry).next = w.now + time.Hour
		m.heard(w.now, 77, said)
		equal(t, want, m.book.entry(entry).next == w.now)
	}
}
