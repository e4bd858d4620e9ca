package seat

import (
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lockmesh/mesh/internal/core"
	"github.com/lockmesh/mesh/internal/env"
	"github.com/lockmesh/mesh/transport"
)

// heldElsewhere is what is logged of an entry at which another node answers than the one that has its seat, which lives.
const heldElsewhere = "a node answers at an entry whose seat belongs to another node, which is still alive"

// times returns how often a process has logged a text.
func (p *proc) times(text string) (n int) {
	for _, l := range p.logs {
		if l == text {
			n++
		}
	}
	return n
}

// suspects starts another process at an entry of a mesh whose bearer lives: its name leads everybody but the
// bearer to that one, and the bearer nowhere. It returns the two.
func (w *world) suspects(entry string) (bearer, other *proc) {
	const elsewhere, nowhere = "10.0.0.98:7946", "10.0.0.99:7946"
	bearer = w.procs[entry]
	w.resolve = func(p *proc, addr string) string {
		switch {
		case addr != entry:
			return addr
		case p == bearer:
			return nowhere
		}
		return elsewhere
	}
	return bearer, w.boot(elsewhere)
}

// Promise: C6: nobody takes an entry while a node of the core is connected with the one that has its seat, though
// most of the core that hear of the other one are not.
func TestNoTakeoverOfTheConnected(t *testing.T) {
	for n := 3; n <= 5; n++ {
		w := founded(t, n)
		a, other := w.suspects(w.list[0])
		for _, addr := range w.list[2:] {
			w.cut[[2]string{a.addr, addr}], w.cut[[2]string{addr, a.addr}] = true, true
			w.breakLink(a.addr, addr)
		}
		w.run(20 * time.Second)
		w.must(a.alive && a.links[w.procs[w.list[1]].id] != 0, "%d nodes: the old one is not connected any more", n)
		now := w.procs[w.list[2]].state.Table
		w.must(!slices.Contains(now.Bound(), other.id) && slices.Contains(now.Bound(), a.id), "the other one has the seat, of %d", n)

		w.end(a)
		taken := func() bool { return slices.Contains(w.procs[w.list[2]].state.Table.Bound(), other.id) }
		w.must(w.runUntil(5*time.Second, taken), "%d nodes: the next one gets no seat", n)
	}
}

// C6: who knows by hearsay alone that the one with a seat lives, at whose entry another one answers, logs that as an error once it has
// lasted for 3 s, and not again soon.
func TestHearsayOfTheBearerIsLogged(t *testing.T) {
	w := founded(t, 3)
	a, c := w.procs[w.list[0]], w.procs[w.list[2]]
	w.cut[[2]string{a.addr, c.addr}], w.cut[[2]string{c.addr, a.addr}] = true, true
	w.breakLink(a.addr, c.addr)
	w.run(5 * time.Second)
	w.suspects(a.addr)
	w.run(2 * time.Second)
	equal(t, 0, c.times(heldElsewhere), "it may be over soon")
	w.run(20 * time.Second)
	w.must(c.said[heldElsewhere].Level == slog.LevelError && c.times(heldElsewhere) == 1, "c logs %+v, %d times", c.said[heldElsewhere], c.times(heldElsewhere))
}

// What others decide of the one that a node is connected with, or of itself, it does not accept, unless the next one proves
// that the one before has ended; nor does it answer a roll call in which another one answers at that entry.
func TestNoVoteForATakeover(t *testing.T) {
	w := founded(t, 3)
	a, b, c := w.procs[w.list[0]], w.procs[w.list[1]], w.procs[w.list[2]]
	ballot := core.Ballot{Round: 9, By: c.id}
	next := env.Member{ID: 77}
	for _, taken := range []*proc{a, b} {
		v, err := w.table().Bind(taken.addr, next, w.list)
		holds(t, err == nil, err)
		out := b.m.Message(w.now, c.id, encode(write{ballot, w.table().Stamp, pack(v)}), nil)
		equal(t, 1, sends(out, "refused"), taken.addr)
	}
	roster := []transport.ID{next.ID, b.id, c.id}
	out := b.m.Message(w.now, c.id, encode(call{core.Call{Ballot: ballot, List: w.list, Roster: roster}}), nil)
	equal(t, 1, sends(out, "refused"))
	holds(t, !b.m.acceptor.Fenced() && strings.Contains(refusal(t, out), "lives"), refusal(t, out))

	b.m.Up(w.now, next.ID, nil)
	b.m.Message(w.now, next.ID, encode(told{card: card{Member: next, List: w.list}, Entry: a.addr, Replaces: a.id}), nil)
	v, _ := w.table().Bind(a.addr, next, w.list)
	out = b.m.Message(w.now, c.id, encode(write{ballot, w.table().Stamp, pack(v)}), nil)
	equal(t, 1, sends(out, "written"), "it proves that the one before has ended")
}

// refusal returns why a node refuses.
func refusal(t *testing.T, out []Output) string {
	for _, o := range out {
		if s, ok := o.(Send); ok && Describe(s.Body) == "refused" {
			m, err := decode(s.Body)
			holds(t, err == nil, err)
			return m.(refused).Why
		}
	}
	return ""
}

// A node that restarts at once does not wait until the others have told by the way who is connected.
func TestABearerThatEndsIsReplacedAtOnce(t *testing.T) {
	w := founded(t, 5)
	var slowest time.Duration
	for round := range 20 {
		w.run(w.upTo(time.Second))
		w.boot(w.list[round%5])
		begun := w.now
		w.must(w.runUntil(5*time.Second, w.serves), "it gets no seat")
		slowest = max(slowest, w.now-begun)
	}
	for _, addr := range w.list {
		w.must(w.procs[addr].times(heldElsewhere) == 0, "%s takes a restart for a takeover", addr)
	}
	w.must(slowest < 400*time.Millisecond, "the last one has its seat after %v", slowest)
	t.Log(slowest)
}
