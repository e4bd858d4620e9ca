package seat

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lockmesh/mesh/internal/core"
	"github.com/lockmesh/mesh/internal/fault"
)

// orders lets an operator ask for something by a node, and returns what comes of it.
func (w *world) orders(p *proc, o Order) (outcome func() error) {
	var number uint64
	w.do(p, func() (out []Output) {
		number, out = p.m.Order(w.now, o, nil)
		return out
	})
	return func() error { return p.m.Outcome(number) }
}

func calm(t *core.Table) bool {
	return !slices.ContainsFunc(t.Shards, func(s core.Shard) bool { return !s.Calm })
}

// logged counts the lines of a process that have a text.
func (p *proc) logged(text string) (n int) {
	for _, line := range p.logs {
		if strings.Contains(line, text) {
			n++
		}
	}
	return n
}

// attr returns an attribute of the last line with a text; "" if it has none.
func (p *proc) attr(text, key string) string {
	for _, a := range p.said[text].Attrs {
		if a.Key == key {
			return a.Value.String()
		}
	}
	return ""
}

// Promise: C5: an operator ends the quiet time by any node, also by a client, whichever node of the core it asks and whatever is
// lost; all learn of it, and nothing of an earlier mesh makes a generation quiet that begins later, but the mesh's own leases do.
func TestEndQuiet(t *testing.T) {
	const long = time.Hour
	for _, by := range []string{"10.0.0.2:7946", "10.0.0.9:7946"} {
		w := newWorld(t, 1, 3)
		for _, addr := range w.list {
			w.boot(addr, func(c *Config) { c.Quiet = long })
		}
		w.must(w.runUntil(5*time.Second, w.serves), "not founded")
		w.boot("10.0.0.9:7946")
		w.run(3 * time.Second)
		lost := 0
		w.lose = func(name string) bool {
			if (name == "order" || name == "outcome") && lost < 3 {
				lost++
				return true
			}
			return false
		}
		before := w.table()
		p := w.procs[by]
		outcome := w.orders(p, EndQuiet{before.Era()})
		holds(t, errors.Is(outcome(), fault.ErrNoQuorum), outcome())
		w.must(w.runUntil(10*time.Second, func() bool { return outcome() == nil }), "%s: %v", by, outcome())
		holds(t, calm(p.state.Table), by, "tells its operator, and does not know it")
		w.run(2 * time.Second)
		for _, p := range w.living {
			holds(t, calm(p.state.Table), p.addr, "does not know it")
		}
		warned := 0
		for _, addr := range w.list {
			p := w.procs[addr]
			equal(t, 1, p.logged("quiet time ends by an operator's word"), addr)
			equal(t, w.table().Params.Quiet(), p.m.Quiet(), addr)
			equal(t, 0, len(p.m.changes))
			warned += p.logged("an operator says")
		}
		holds(t, warned > 0, "nobody warns")
		again := w.orders(p, EndQuiet{before.Era()})
		w.must(w.runUntil(3*time.Second, func() bool { return again() == nil }), "the same once more: %v", again())

		s := w.table().Shards[0]
		a := w.procs[w.list[0]]
		w.do(a, func() []Output { return a.m.Change(w.now, Recover{0, s.Generation, w.table().Bound()}, nil) })
		w.must(w.runUntil(5*time.Second, func() bool { return w.table().Shards[0].Generation != s.Generation }), "no other generation")
		next := w.table().Shards[0]
		holds(t, !next.Calm && next.Quiet == w.table().Params.Quiet(), "the next generation begins with", next)
		w.run(time.Second)
		late := w.orders(p, EndQuiet{before.Era()})
		w.must(w.runUntil(3*time.Second, func() bool { return errors.Is(late(), fault.ErrChanged) }), "it was said of another generation: %v", late())
		holds(t, !w.table().Shards[0].Calm, "it was not said of this one")
	}
}

// Promise: C5: an operator's word outlasts the node that took it, whoever decides later. While the core has no majority
// nothing comes of it, and a client whose core does not answer says so.
func TestEndQuietWithoutMost(t *testing.T) {
	w := founded(t, 3)
	a, b, c := w.procs[w.list[0]], w.list[1], w.list[2]
	client := w.boot("10.0.0.9:7946")
	w.run(3 * time.Second)
	before := w.table()
	w.kill(b)
	w.kill(c)
	outcome, asked := w.orders(a, EndQuiet{before.Era()}), w.orders(client, EndQuiet{before.Era()})
	w.run(5 * time.Second)
	for _, err := range []error{outcome(), asked()} {
		holds(t, errors.Is(err, fault.ErrNoQuorum), err)
	}
	holds(t, !calm(a.state.Table), "one of three has decided it")
	w.kill(a.addr)
	w.run(5 * time.Second)
	holds(t, errors.Is(asked(), fault.ErrNoQuorum) && strings.Contains(asked().Error(), "no node of the core"), asked())
	client.m.WithdrawOrder(1)
	equal(t, 0, len(client.m.orders))
}

// An operator's order is forgotten with its caller: nobody proposes it any more.
func TestOrdersEnd(t *testing.T) {
	w := founded(t, 3)
	client := w.boot("10.0.0.9:7946")
	w.run(3 * time.Second)
	w.lose = func(name string) bool { return name == "read" || name == "outcome" } // nothing is decided
	before := w.table()
	outcome := w.orders(client, EndQuiet{before.Era()})
	w.run(3 * time.Second)
	wants := func() (n int) {
		for _, addr := range w.list {
			n += len(w.procs[addr].m.changes)
		}
		return n
	}
	holds(t, wants() > 0 && errors.Is(outcome(), fault.ErrNoQuorum), wants(), outcome())
	client.m.WithdrawOrder(1)
	w.run(orderLife + time.Second)
	w.lose = nil
	w.run(5 * time.Second)
	holds(t, wants() == 0 && !calm(w.table()), "it is decided, though its caller has gone")
}
