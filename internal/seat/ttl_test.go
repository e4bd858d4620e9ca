package seat

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lockmesh/mesh/internal/core"
	"github.com/lockmesh/mesh/internal/fault"
)

// limited reports whether all that live know MaxTTL to be d, and no change to be under way but for quiet times.
func (w *world) limited(d time.Duration) func() bool {
	return func() bool {
		return !slices.ContainsFunc(w.living, func(p *proc) bool {
			return p.state.Table == nil || p.state.Table.Params.MaxTTL != d || p.state.Table.Params.Raise != 0
		})
	}
}

// again lets a shard begin another generation, and returns what that begins with.
func (w *world) again(by *proc, shard int) core.Shard {
	w.t.Helper()
	s := w.table().Shards[shard]
	w.do(by, func() []Output { return by.m.Change(w.now, Recover{shard, s.Generation, w.table().Living()}, nil) })
	w.must(w.runUntil(5*time.Second, func() bool { return by.state.Table.Shards[shard].Generation != s.Generation }), "shard %d does not begin again", shard)
	return by.state.Table.Shards[shard]
}

// quietFor is for how long a table is quiet because of leases that last d.
func quietFor(d time.Duration) time.Duration { return time.Duration(float64(d) * 1.02) }

// Promise: C5: a raise of MaxTTL is in force only when every node with a seat knows of it; quiet times count it from the
// beginning. A client may order it.
func TestARaiseOfMaxTTL(t *testing.T) {
	const long = time.Minute
	w := founded(t, 3)
	a, c := w.procs[w.list[0]], w.procs[w.list[2]]
	client := w.boot("10.0.0.9:7946")
	w.run(3 * time.Second)
	for _, o := range w.list[:2] {
		w.cut[[2]string{o, c.addr}], w.cut[[2]string{c.addr, o}] = true, true
		w.breakLink(o, c.addr)
	}
	w.run(4 * time.Second)
	outcome := w.orders(client, SetMaxTTL{long})
	noted := func() bool { return a.state.Table.Params.Raise == long }
	w.must(w.runUntil(5*time.Second, noted), "the raise is not noted: %v", outcome())
	w.run(10 * time.Second)
	holds(t, noted() && a.state.Table.Params.MaxTTL == 10*time.Second, "one of three does not know of it, and it is in force:", a.state.Table.Params)
	equal(t, "10s 1m0s", a.attr("a change of MaxTTL has come one step further", "MaxTTL")+" "+a.attr("a change of MaxTTL has come one step further", "raiseTo"))
	names := func() bool { // the nodes are asked in turn, and c does not know of the raise
		err := outcome()
		return errors.Is(err, fault.ErrNoQuorum) && strings.Contains(err.Error(), c.addr) && !strings.Contains(err.Error(), a.addr)
	}
	w.must(w.runUntil(5*time.Second, names), "the operator is not told of %s: %v", c.addr, outcome())
	equal(t, quietFor(long), w.again(a, 0).Quiet)
	equal(t, quietFor(long), a.m.Quiet(), "for a state directory")
	clear(w.cut)
	w.must(w.runUntil(10*time.Second, func() bool { return w.limited(long)() && outcome() == nil }), "it does not come into force: %v", outcome())
	holds(t, w.table().Params.Changed && w.table().Params.Longest == 0, w.table().Params)
	equal(t, "1m0s ", a.attr("MaxTTL has changed", "MaxTTL")+" "+a.attr("MaxTTL has changed", "raiseTo"))
	again := w.orders(client, SetMaxTTL{long})
	w.must(w.runUntil(3*time.Second, func() bool { return again() == nil }), "the same once more: %v", again())
}

// A node that is bound while a raise is under way knows of it, or it is waited for. One that is known to have ended is, too, until
// another one has its seat: it may have been declared dead by mistake.
func TestARaiseWaitsForWhoIsBound(t *testing.T) {
	w := founded(t, 3)
	a, c := w.procs[w.list[0]], w.list[2]
	w.kill(c)
	w.run(time.Second)
	outcome := w.orders(a, SetMaxTTL{time.Minute})
	d, err := w.tells(a, c)
	w.must(err == nil && w.runUntil(5*time.Second, w.knowsEnd(a, c)), "%v %v", d, err)
	w.run(5 * time.Second)
	holds(t, a.state.Table.Params.Raise != 0 && errors.Is(outcome(), fault.ErrNoQuorum), "the dead one is not waited for:", outcome())
	deaf := true
	w.lose = func(name string) bool { return deaf && name == "shown" }
	w.boot(c)
	w.run(5 * time.Second)
	holds(t, slices.Contains(a.state.Table.Bound(), w.procs[c].id) && a.state.Table.Params.Raise != 0, "it has a seat, and knows nothing:", a.state.Table.Params)
	deaf = false
	w.must(w.runUntil(5*time.Second, func() bool { return w.limited(time.Minute)() && outcome() == nil }), "%v", outcome())
}

// A node that is silent, and has lost its seat, may remember the mesh as it was before a raise: that waits for it.
func TestARaiseWaitsForWhoIsSilent(t *testing.T) {
	w := coreOf(t, 3)
	c := w.procs[w.list[2]]
	for _, o := range w.list[:2] {
		w.cut[[2]string{c.addr, o}], w.cut[[2]string{o, c.addr}] = true, true
		w.breakLink(c.addr, o)
	}
	w.must(w.runUntil(silentAfter+3*time.Second, func() bool { return w.bearer(c.addr) == 0 }), "its seat is not vacated")
	outcome := w.orders(w.procs[w.list[0]], SetMaxTTL{time.Minute})
	w.run(5 * time.Second)
	holds(t, w.table().Params.Raise != 0 && strings.Contains(fmt.Sprint(outcome()), c.addr), "it is in force:", outcome())
	clear(w.cut)
	w.must(w.runUntil(5*time.Second, func() bool { return w.limited(time.Minute)() && outcome() == nil }), "%v", outcome())
}

// Promise: C5: a raise waits until state directories have it: what all forget who have a seat, a directory must know.
func TestARaiseWaitsForStateDirectories(t *testing.T) {
	w := newWorld(t, 1, 3)
	saved := time.Hour
	for _, addr := range w.list {
		w.boot(addr, func(c *Config) {
			if addr == w.list[1] {
				c.Saved = func() time.Duration { return saved }
			}
		})
	}
	w.must(w.runUntil(5*time.Second, w.serves), "not founded")
	saved = 11 * time.Second
	a, b := w.procs[w.list[0]], w.procs[w.list[1]]
	outcome := w.orders(a, SetMaxTTL{time.Minute})
	w.run(5 * time.Second)
	holds(t, errors.Is(outcome(), fault.ErrNoQuorum) && strings.Contains(outcome().Error(), b.addr), outcome())
	saved = b.m.Quiet()
	equal(t, quietFor(time.Minute), saved)
	w.must(w.runUntil(3*time.Second, func() bool { return w.limited(time.Minute)() && outcome() == nil }), "%v", outcome())
}

// Promise: C5: after a lowering quiet times stay long until all who may lead know of it, and every longer lease is over.
func TestALoweringOfMaxTTL(t *testing.T) {
	const short, usual = 2 * time.Second, 10 * time.Second
	w := founded(t, 3)
	a, c := w.procs[w.list[0]], w.procs[w.list[2]]
	for _, o := range w.list[:2] {
		w.cut[[2]string{o, c.addr}], w.cut[[2]string{c.addr, o}] = true, true
		w.breakLink(o, c.addr)
	}
	w.run(4 * time.Second)
	outcome := w.orders(a, SetMaxTTL{short})
	w.must(w.runUntil(5*time.Second, func() bool { return outcome() == nil }), "it is not in force: %v", outcome())
	equal(t, short, a.state.Table.Params.MaxTTL)
	w.run(3 * usual)
	equal(t, quietFor(usual), w.again(a, 0).Quiet, "one who may lead does not know of it")
	clear(w.cut)
	w.must(w.runUntil(5*time.Second, w.limited(short)), "not all know of it")
	w.run(usual)
	equal(t, quietFor(usual), w.again(a, 1).Quiet, "longer leases may last yet")
	w.run(2 * time.Second)
	equal(t, quietFor(short), w.again(a, 2).Quiet, "longer leases are over")
	equal(t, time.Duration(0), w.table().Params.Longest)
	equal(t, quietFor(short), a.m.Quiet())
}

// Promise: C5: what is under way goes on after a roll call, and counts for the quiet times that begin with it.
func TestMaxTTLAndRollCalls(t *testing.T) {
	w := founded(t, 3)
	a := w.procs[w.list[0]]
	w.kill(w.list[2])
	outcome := w.orders(a, SetMaxTTL{time.Minute})
	w.must(w.runUntil(10*time.Second, func() bool { return a.state.Table.Params.Raise != 0 }), "the raise is not noted")
	w.boot(w.list[1])
	w.boot(w.list[2])
	roll := a.state.Table.Stamp.Roll
	w.must(w.runUntil(10*time.Second, func() bool { return w.serves() && w.table().Stamp.Roll != roll }), "no roll call")
	for _, s := range w.table().Shards {
		equal(t, quietFor(time.Minute), s.Quiet)
	}
	w.must(w.runUntil(5*time.Second, func() bool { return w.limited(time.Minute)() && outcome() == nil }), "%v", outcome())
}

// Promise: P29, C5: once MaxTTL was changed, a node that asks for another one by an option has its seat all the same; one that asks
// for longer leases than there are has not. When all have forgotten, the founders' options count.
func TestOptionsAfterMaxTTL(t *testing.T) {
	const usual = 10 * time.Second
	w := newWorld(t, 1, 3)
	old := func(c *Config) { c.Wants.MaxTTL = usual }
	for _, addr := range w.list {
		w.boot(addr, old)
	}
	w.must(w.runUntil(5*time.Second, w.serves), "not founded")
	a := w.procs[w.list[0]]
	next := func(c *Config) { c.Wants.MaxTTL = time.Minute }
	early := w.boot("10.0.0.9:7946", next)
	w.run(3 * time.Second)
	holds(t, errors.Is(early.failed, fault.ErrInvalidOption), "before the change:", early.failed)
	outcome := w.orders(a, SetMaxTTL{time.Minute})
	w.must(w.runUntil(5*time.Second, func() bool { return outcome() == nil }), "%v", outcome())
	w.boot(w.list[1], old)
	w.must(w.runUntil(5*time.Second, w.serves), "a node with the option of before gets no seat")
	w.boot(w.list[2], old)
	w.boot(w.list[1], next) // together: what they ask for differs, and does not count
	w.must(w.runUntil(10*time.Second, w.serves), "nor do two")
	greedy := w.boot("10.0.0.9:7946", func(c *Config) { c.Wants.LeaseTTL = time.Hour })
	w.run(3 * time.Second)
	holds(t, errors.Is(greedy.failed, fault.ErrInvalidOption), "it asks for leases of an hour:", greedy.failed)
	for _, addr := range w.list {
		w.kill(addr)
	}
	for _, addr := range w.list {
		w.boot(addr, old)
	}
	w.must(w.runUntil(5*time.Second, w.serves), "not founded anew")
	holds(t, w.table().Params.MaxTTL == usual && !w.table().Params.Changed, w.table().Params)
}

// What an operator may not set, and what comes of two that set it.
func TestMaxTTLRefused(t *testing.T) {
	w := founded(t, 3)
	a, b := w.procs[w.list[0]], w.procs[w.list[1]]
	w.boot("10.0.0.9:7946", func(c *Config) { c.Wants.LeaseTTL, c.Self.Name = 8*time.Second, "eve" })
	w.run(3 * time.Second)
	before := w.table()
	outcome := w.orders(a, SetMaxTTL{5 * time.Second})
	holds(t, errors.Is(outcome(), fault.ErrInvalidOption) && strings.Contains(outcome().Error(), `"eve"`), outcome())
	w.run(2 * time.Second)
	equal(t, before, w.table())
	w.kill(w.list[2]) // a raise waits for it
	first := w.orders(a, SetMaxTTL{time.Minute})
	w.must(w.runUntil(5*time.Second, func() bool { return b.state.Table.Params.Raise != 0 }), "%v", first())
	second := w.orders(b, SetMaxTTL{20 * time.Second})
	w.must(w.runUntil(5*time.Second, func() bool { return errors.Is(first(), fault.ErrChanged) }), "the first: %v", first())
	equal(t, 20*time.Second, a.state.Table.Params.Raise)
	back := w.orders(a, SetMaxTTL{10 * time.Second})
	w.must(w.runUntil(5*time.Second, func() bool { return back() == nil && errors.Is(second(), fault.ErrChanged) }), "it is taken back: %v, %v", back(), second())
	holds(t, a.state.Table.Params.Raise == 0 && a.state.Table.Params.Longest == time.Minute, a.state.Table.Params)
}

// Promise: C5: through restarts, cuts, stalls and roll calls, while MaxTTL changes now and then, each generation is quiet until
// every lease is over that could be taken in the mesh before. Afterwards the last order comes into force.
func TestMaxTTLStorms(t *testing.T) {
	for seed := *first; seed < *first+fewer(*storms); seed++ {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			w := newWorld(t, seed, 1+int(seed%5))
			w.toldToo = *storms == 1
			w.taken = map[lease]time.Duration{}
			lengths := []time.Duration{time.Second, 3 * time.Second, 10 * time.Second, 20 * time.Second}
			for at := time.Duration(0); at < 40*time.Second; at += w.upTo(8 * time.Second) {
				w.after(at, func() {
					p := w.procs[w.list[w.rng.IntN(len(w.list))]]
					if d := lengths[w.rng.IntN(len(lengths))]; p != nil && p.alive && w.now >= p.paused {
						w.note("%s is to set MaxTTL to %v", p.addr, d)
						w.orders(p, SetMaxTTL{d})
					}
				})
			}
			w.storm()
			w.calm()
			w.must(w.runUntil(20*time.Second, func() bool { return w.serves() && w.lead() }), "the shards do not come to serve")
			w.forgetRaise(20 * time.Second)
			w.must(w.runUntil(30*time.Second, func() bool { return w.serves() && w.lead() }), "the shards do not come to serve again")
			w.run(20 * time.Second) // what was ordered is over
			last := w.orders(w.procs[w.list[0]], SetMaxTTL{7 * time.Second})
			w.must(w.runUntil(60*time.Second, func() bool {
				return last() == nil && w.limited(7*time.Second)() && w.table().Params.Longest == 0
			}), "the last order: %v, %+v", last(), w.table().Params)
		})
	}
}

// forgetRaise lets all but one node know of a raise of MaxTTL, and then forget.
func (w *world) forgetRaise(d time.Duration) {
	last := w.list[w.rng.IntN(len(w.list))]
	for _, addr := range w.list {
		w.cut[[2]string{last, addr}], w.cut[[2]string{addr, last}] = true, true
		w.breakLink(last, addr)
	}
	w.run(w.upTo(5 * time.Second))
	for _, addr := range w.list {
		if addr != last {
			w.orders(w.procs[addr], SetMaxTTL{d})
		}
	}
	w.run(w.upTo(5 * time.Second))
	for _, addr := range w.list {
		if addr != last {
			w.boot(addr)
		}
	}
	w.calm()
}

// lease is for how long a lease may last that is taken in a mesh.
type lease struct {
	mesh   uint64
	length time.Duration
}

// judgeLeases notes which leases can be taken now: somebody believes that they may be so long, and a node of the core
// that may lead, in a shard that has a majority, allows it.
func (w *world) judgeLeases() {
	for _, leader := range w.living {
		t := leader.state.Table
		if t == nil || !slices.ContainsFunc(w.shards(t), func(l life) bool { return leader.votes(w.now, l) && w.commits(l) }) {
			continue
		}
		for _, p := range w.living {
			if o := p.state.Table; o != nil && o.Mesh == t.Mesh && w.now >= p.paused {
				length := o.Params.MaxTTL
				if t.Params.Changed {
					length = min(length, t.Params.Limit())
				}
				w.taken[lease{t.Mesh, length}] = w.now
			}
		}
	}
}

func (w *world) shards(t *core.Table) (all []life) {
	for i, s := range t.Shards {
		all = append(all, life{i, s.Generation})
	}
	return all
}

// judgeQuiet looks whether the generations that begin with t are quiet for long enough.
func (w *world) judgeQuiet(t *core.Table) {
	for i, s := range t.Shards {
		if _, known := w.lines[life{i, s.Generation}]; known {
			continue
		}
		for l, at := range w.taken {
			if l.mesh == t.Mesh && at+l.length > w.now+s.Quiet {
				w.err = fmt.Errorf("%v: shard %d begins again at %v, is quiet for %v, and a lease of %v could be taken at %v", t.Stamp, i, w.now, s.Quiet, l.length, at)
			}
		}
	}
}
