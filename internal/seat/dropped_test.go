package seat

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lockmesh/mesh/internal/core"
	"github.com/lockmesh/mesh/internal/fault"
	"github.com/lockmesh/mesh/transport"
)

// part cuts the nodes at two addresses off from each other.
func (w *world) part(a, b string) {
	w.cut[[2]string{a, b}], w.cut[[2]string{b, a}] = true, true
	w.breakLink(a, b)
}

// Promise: C5, C11: a raise of MaxTTL waits until all nodes have the list of now. When all have forgotten it, a node that was dropped
// before, and is not up to date, brings its mesh back to nobody: a mesh is founded, by the options of now, and is quiet for as long as
// these say.
// Method: the first of four is dropped, and cut off; MaxTTL is raised; the others restart, with the new value. They reach the first one
// alone, which calls them.
func TestTheDroppedForgetARaise(t *testing.T) {
	const usual, long = 10 * time.Second, time.Minute
	w := newWorld(t, 1, 4)
	dropped, next := w.list[0], w.list[1:]
	w.place = func(seats []core.Seat, shard, replicas int) []transport.ID {
		return place(slices.DeleteFunc(slices.Clone(seats), func(s core.Seat) bool { return s.Entry == dropped }), shard, replicas)
	}
	before := func(c *Config) { c.Wants.MaxTTL = usual }
	for _, addr := range w.list {
		w.boot(addr, before)
	}
	w.must(w.runUntil(5*time.Second, w.serves), "not founded")
	mesh := w.table().Mesh
	for _, addr := range next {
		w.part(dropped, addr)
	}
	w.run(4 * time.Second)

	w.list = next[:2] // who start with the next list
	b := w.boot(next[0], before, func(c *Config) { c.List = next })
	knows := func() bool { return b.state.Table != nil && slices.Equal(b.state.Table.List(), next) }
	w.must(w.runUntil(10*time.Second, knows), "the first is not dropped")
	outcome := w.orders(b, SetMaxTTL{long})
	w.run(5 * time.Second)
	why := outcome()
	holds(t, b.state.Table.Params.Raise == long && b.state.Table.Params.MaxTTL == usual, "not all have the list:", b.state.Table.Params)
	holds(t, errors.Is(why, fault.ErrNoQuorum) && strings.Contains(why.Error(), "has the list ["+strings.Join(append([]string{dropped}, next...), " ")), "what it waits for:", why)
	w.list = next
	for _, addr := range next[1:] {
		w.boot(addr, before)
		w.must(w.runUntil(10*time.Second, w.serves), "%s does not come back", addr)
	}
	w.must(w.runUntil(5*time.Second, func() bool { return b.state.Table.Params.MaxTTL == long }), "it does not come into force: %v", outcome())
	equal(t, mesh, b.state.Table.Mesh)

	clear(w.cut)
	for i, addr := range next {
		for _, other := range next[i+1:] {
			w.part(addr, other)
		}
	}
	for _, addr := range next {
		w.boot(addr, func(c *Config) { c.Wants.MaxTTL = long })
	}
	called := func() bool { return w.table() != nil && w.table().Stamp.Version == 0 && len(w.table().Seats) == 4 }
	w.must(w.runUntil(20*time.Second, called), "the first does not call")
	holds(t, w.table().Mesh != mesh, "the mesh goes on from what a dropped node remembers")
	equal(t, long, w.table().Params.MaxTTL)
	for i, s := range w.table().Shards {
		equal(t, quietFor(long), s.Quiet, "shard", i)
	}
	clear(w.cut)
	w.must(w.runUntil(20*time.Second, w.serves), "the others do not come to serve by their list")
}

// A mesh that is founded so is quiet for leases as the dropped node knows them, if those are longer than what its founders ask for.
func TestTheDroppedKnowOfLongerLeases(t *testing.T) {
	const long = time.Minute
	w := newWorld(t, 1, 3)
	last := w.list[2]
	for _, addr := range w.list {
		w.boot(addr, func(c *Config) { c.Wants.MaxTTL = long })
	}
	w.must(w.runUntil(5*time.Second, w.serves), "not founded")
	mesh := w.table().Mesh
	w.list = w.list[:2]
	w.part(w.list[0], w.list[1])
	for _, addr := range w.list {
		w.boot(addr, func(c *Config) { c.Wants.MaxTTL = 10 * time.Second })
	}
	founds := func() bool { t := w.table(); return t != nil && t.Mesh != mesh }
	w.must(w.runUntil(20*time.Second, founds), "%s does not call", last)
	equal(t, 10*time.Second, w.table().Params.MaxTTL)
	equal(t, quietFor(long), w.table().Shards[0].Quiet)
}

// Promise: C5: a change of MaxTTL waits for a node that the list has dropped, until that votes in no shard. Whoever asked for it is told so.
func TestAChangeOfMaxTTLWaitsForTheDropped(t *testing.T) {
	w := founded(t, 3)
	w.run(2 * time.Second)
	m := w.procs[w.list[0]].m
	table := *m.acceptor.Table()
	holds(t, m.allAware(&table), m.unaware(&table))
	table.Dropped = 99
	holds(t, !m.allAware(&table), "the dropped node may know nothing of it")
	why := m.raiseWaits(&table)
	holds(t, strings.Contains(why, "node "+table.Dropped.String()+", which the list has dropped"), why)
}
