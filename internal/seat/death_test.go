package seat

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lockmesh/mesh/internal/core"
	"github.com/lockmesh/mesh/internal/env"
	"github.com/lockmesh/mesh/internal/fault"
)

// tells lets an operator tell a node that the one at an entry has ended.
func (w *world) tells(p *proc, entry string) (d Died, err error) {
	w.do(p, func() (out []Output) {
		d, out, err = p.m.DeclareDead(w.now, entry, nil)
		return out
	})
	return d, err
}

// ended reports whether all that live know that the node with the seat of an entry has ended.
func (w *world) ended(entry string) func() bool {
	return func() bool {
		return !slices.ContainsFunc(w.living, func(p *proc) bool {
			return !slices.ContainsFunc(p.state.Table.Seats, func(s core.Seat) bool { return s.Entry == entry && s.Ended })
		})
	}
}

// Promise: C6: what an operator says is decided by a majority; it needs no answer of the node that has ended, whose seat
// the next one at the entry gets. A shard most of whose voters have ended begins again without them.
func TestDeclareDead(t *testing.T) {
	w := founded(t, 5)
	a, d, e := w.procs[w.list[0]], w.list[3], w.list[4]
	before := w.table()
	w.kill(d)
	w.kill(e)
	w.run(time.Second)
	for _, entry := range []string{d, e} {
		died, err := w.tells(a, entry)
		holds(t, err == nil && a.m.Undecided(died) != nil, err)
		w.must(w.runUntil(5*time.Second, w.ended(entry)), "%s has not ended", entry)
		equal(t, nil, a.m.Undecided(died))
		_, err = w.tells(a, entry)
		equal(t, nil, err, "again")
	}
	equal(t, before.Bound(), w.table().Bound())
	equal(t, 0, len(a.m.changes))
	for i, s := range before.Shards {
		to := w.table().Living()
		if slices.Contains(s.Voters, w.procs[d].id) && slices.Contains(s.Voters, w.procs[e].id) {
			w.do(a, func() []Output { return a.m.Change(w.now, Recover{i, s.Generation, to}, nil) })
			recovered := func() bool { return w.table().Shards[i].Generation.Number == s.Generation.Number+1 }
			w.must(w.runUntil(5*time.Second, recovered), "shard %d does not begin again", i)
		}
	}
	w.boot(d)
	w.boot(e)
	w.must(w.runUntil(5*time.Second, w.serves), "the next ones get no seats")
	equal(t, w.table().Bound(), w.table().Living())
	equal(t, before.Stamp.Roll, w.table().Stamp.Roll)
}

// What an operator may not say, and of what: it changes nothing.
func TestDeclareDeadRefused(t *testing.T) {
	w := founded(t, 3)
	a, b, c := w.procs[w.list[0]], w.list[1], w.list[2]
	client := w.boot("10.0.0.9:7946")
	fresh := New(Config{})
	w.run(time.Second)
	before := w.table()
	_, err := w.tells(a, "10.0.0.77:1")
	holds(t, errors.Is(err, fault.ErrInvalidOption) && strings.Contains(err.Error(), b), err)
	_, err = w.tells(a, a.addr)
	holds(t, errors.Is(err, fault.ErrAlive), err)
	d, err := w.tells(a, b)
	why := a.m.Undecided(d)
	holds(t, err == nil && errors.Is(why, fault.ErrAlive) && strings.Contains(why.Error(), "this node"), err, why)
	_, err = w.tells(client, b)
	holds(t, errors.Is(err, fault.ErrNoSeat), err)
	_, _, err = fresh.DeclareDead(0, b, nil)
	holds(t, errors.Is(err, fault.ErrNoSeat), err)
	w.run(3 * time.Second)
	equal(t, before, w.table())
	a.m.Withdraw(d)

	w.kill(b)
	w.run(time.Second)
	_, err = w.tells(a, b)
	w.must(err == nil && w.runUntil(5*time.Second, w.knowsEnd(a, b)), "%v", err)
	w.kill(c)
	w.run(time.Second)
	_, err = w.tells(a, c)
	holds(t, errors.Is(err, fault.ErrNoQuorum), "two of three:", err)
}

// knowsEnd reports whether one node knows that the node with the seat of an entry has ended.
func (w *world) knowsEnd(p *proc, entry string) func() bool {
	return func() bool {
		return slices.ContainsFunc(p.state.Table.Seats, func(s core.Seat) bool { return s.Entry == entry && s.Ended })
	}
}

// Nothing is decided while another node of the core is connected with the one that is declared dead, or is not heard; nor
// once the operator takes the word back, or this node is connected.
func TestDeclaredDeadIsConnected(t *testing.T) {
	w := founded(t, 3)
	a, b, c := w.procs[w.list[0]], w.procs[w.list[1]], w.procs[w.list[2]]
	cut := func(from, to *proc) {
		w.cut[[2]string{from.addr, to.addr}], w.cut[[2]string{to.addr, from.addr}] = true, true
		w.breakLink(from.addr, to.addr)
	}
	before := w.table()
	cut(a, c)
	w.run(4 * time.Second)
	d, err := w.tells(a, c.addr)
	equal(t, nil, err)
	w.run(5 * time.Second)
	equal(t, before, a.state.Table)
	err = a.m.Undecided(d)
	holds(t, errors.Is(err, fault.ErrAlive) && strings.Contains(err.Error(), b.addr), err)

	clear(w.cut)
	w.run(3 * time.Second)
	err = a.m.Undecided(d)
	holds(t, errors.Is(err, fault.ErrAlive) && len(a.m.changes) == 0, "it has come back:", err)

	cut(a, c)
	cut(a, b)
	w.run(5 * time.Second)
	d, err = w.tells(a, c.addr)
	equal(t, nil, err)
	w.run(4 * time.Second)
	err = a.m.Undecided(d)
	holds(t, errors.Is(err, fault.ErrNoQuorum) && strings.Contains(err.Error(), "and 2 must"), "nobody else is heard:", err)
	a.m.Withdraw(d)
	w.kill(c.addr)
	clear(w.cut)
	w.run(5 * time.Second)
	equal(t, before.Bound(), a.state.Table.Living(), "the word was taken back")
}

// A node that was declared dead, and lives, ends as soon as it learns of it. The next one at its entry gets the seat.
func TestDeclaredDeadLives(t *testing.T) {
	w := founded(t, 3)
	a, c := w.procs[w.list[0]], w.procs[w.list[2]]
	for _, o := range w.list[:2] {
		w.cut[[2]string{c.addr, o}], w.cut[[2]string{o, c.addr}] = true, true
		w.breakLink(c.addr, o)
	}
	w.run(4 * time.Second)
	_, err := w.tells(a, c.addr)
	w.must(err == nil && w.runUntil(5*time.Second, w.knowsEnd(a, c.addr)), "%v", err)
	holds(t, c.alive && !c.state.Fenced, "it cannot know yet")
	clear(w.cut)
	w.run(5 * time.Second)
	holds(t, !c.alive && errors.Is(c.failed, errSaidDead) && c.state.Fenced, c.failed)
	w.boot(c.addr)
	w.must(w.runUntil(5*time.Second, w.serves), "the next one gets no seat")
	equal(t, 3, len(w.table().Living()))
}

// Promise: C6, G6: what an oracle has said waits for its decision, and nothing is asked or done meanwhile: the world of these tests
// fails where time stands still.
func TestAnOraclesWordWaits(t *testing.T) {
	w := newWorld(t, 4, 5)
	asked := 0
	w.oracle = func(*proc, env.Member) { asked++ }
	a := w.boot(w.list[0], func(c *Config) { c.Oracle = true })
	for _, addr := range w.list[1:] {
		w.boot(addr)
	}
	w.must(w.runUntil(5*time.Second, w.serves), "not founded")
	w.isolate(a.addr)
	w.must(w.runUntil(2*Grace, func() bool { return asked == 4 }), "it is not asked about all others")
	gone := w.procs[w.list[4]]
	w.kill(gone.addr)
	w.do(a, func() []Output { return a.m.Answered(w.now, gone.id, true, nil, nil) })
	w.run(3 * Grace)
	equal(t, 4, asked, "again")
	clear(w.cut)
	w.must(w.runUntil(5*time.Second, w.ended(gone.addr)), "it is not decided")
}

// Promise: C6: an oracle is asked about a node that was not connected for the grace, and again after it; not while it has
// not answered, nor by a node without a seat. What it says does not count once the node is connected.
func TestOracle(t *testing.T) {
	w := newWorld(t, 3, 3)
	var asked []time.Duration
	var of env.Member
	w.oracle = func(p *proc, node env.Member) { asked, of = append(asked, w.now), node }
	a := w.boot(w.list[0], func(c *Config) { c.Oracle = true })
	for _, addr := range w.list[1:] {
		w.boot(addr)
	}
	w.boot("10.0.0.9:7946", func(c *Config) { c.Oracle = true })
	w.must(w.runUntil(5*time.Second, w.serves), "not founded")
	c := w.procs[w.list[2]]
	w.kill(c.addr)
	gone := w.now
	answer := func(dead bool, err error) {
		w.do(a, func() []Output { return a.m.Answered(w.now, c.id, dead, err, nil) })
	}
	w.run(Grace - 100*time.Millisecond)
	equal(t, 0, len(asked), "too early")
	w.run(Grace)
	holds(t, len(asked) == 1 && asked[0] >= gone+Grace && asked[0] <= gone+Grace+time.Second && of.ID == c.id && of.Addr == c.addr, asked, of)
	for i, err := range []error{nil, errors.New("the cloud is down")} {
		answer(false, err)
		answer(true, nil) // nobody has asked
		at := w.now
		w.run(Grace - time.Millisecond)
		equal(t, i+1, len(asked), "before the grace is over")
		w.run(time.Second)
		holds(t, len(asked) == i+2 && asked[i+1] >= at+Grace, asked)
	}
	holds(t, slices.Contains(a.logs, "the death oracle failed"), a.logs)
	answer(true, nil)
	w.must(w.runUntil(5*time.Second, w.knowsEnd(a, c.addr)), "it has not ended")
	w.run(3 * Grace)
	equal(t, 3, len(asked), "it is known to have ended")

	w.boot(c.addr)
	w.must(w.runUntil(5*time.Second, w.serves), "the next one gets no seat")
	c = w.procs[c.addr]
	for _, o := range w.list[:2] {
		w.cut[[2]string{c.addr, o}], w.cut[[2]string{o, c.addr}] = true, true
		w.breakLink(c.addr, o)
	}
	w.must(w.runUntil(2*Grace, func() bool { return len(asked) == 4 }), "not asked again")
	clear(w.cut)
	w.must(w.runUntil(5*time.Second, func() bool { return a.m.up(c.id) }), "it is not connected")
	before := w.table()
	answer(true, nil)
	w.run(3 * time.Second)
	equal(t, before, w.table())
}
