package seat

import (
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lockmesh/mesh/internal/core"
	"github.com/lockmesh/mesh/internal/env"
	"github.com/lockmesh/mesh/internal/fault"
	"github.com/lockmesh/mesh/internal/founding"
	"github.com/lockmesh/mesh/transport"
)

// founded returns a world of n entries that has a mesh.
func founded(t *testing.T, n int) *world {
	w := newWorld(t, uint64(n), n)
	for _, addr := range w.list {
		w.boot(addr)
	}
	w.must(w.runUntil(5*time.Second, w.serves), "not founded")
	return w
}

// table returns the table that the first entry knows.
func (w *world) table() *core.Table { return w.procs[w.list[0]].m.acceptor.Table() }

// However far apart they start, the nodes at a list's entries found one mesh, in 3 s from the last start.
func TestFounding(t *testing.T) {
	for n := 1; n <= 7; n++ {
		for seed := range uint64(20) {
			w := newWorld(t, seed, n)
			for _, addr := range w.list {
				w.after(w.upTo(3*time.Second), func() { w.boot(addr) })
			}
			w.must(w.runUntil(6*time.Second, w.serves), "%d entries, seed %d: not founded", n, seed)
			equal(t, 1, len(w.meshes))
		}
	}
}

// What restarts do to a mesh of three.
func TestRestarts(t *testing.T) {
	for _, tt := range []struct {
		restarts                int
		sameGeneration, sameOne bool
	}{{1, true, true}, {2, false, true}, {3, false, false}} {
		t.Run(fmt.Sprint(tt.restarts), func(t *testing.T) {
			w := founded(t, 3)
			before := w.table()
			for _, addr := range w.list[:tt.restarts] {
				w.boot(addr)
			}
			w.must(w.runUntil(5*time.Second, w.serves), "the core does not come back")
			after := w.table()
			equal(t, tt.sameGeneration, after.Stamp.Roll == before.Stamp.Roll)
			equal(t, tt.sameOne, after.Mesh == before.Mesh)
			for i, s := range after.Shards {
				equal(t, tt.sameGeneration, s.Generation == before.Shards[i].Generation)
			}
			for _, s := range after.Seats {
				equal(t, s.Entry, s.Node.Addr, "the seat names its node in full")
			}
		})
	}
}

// Promise: C4, G9: two of four restart. The roll call leaves the shards as they are of which most voters stayed.
func TestHalfOfTheCoreRestarts(t *testing.T) {
	w := founded(t, 4)
	before := w.table()
	w.boot(w.list[1])
	w.boot(w.list[3])
	w.must(w.runUntil(5*time.Second, w.serves), "the core does not come back")
	after := w.table()
	holds(t, after.Stamp.Roll != before.Stamp.Roll && after.Mesh == before.Mesh, after.Stamp)
	on := 0
	for i, s := range before.Shards {
		stayed := 0
		for _, id := range s.Voters {
			if slices.Contains(after.Bound(), id) {
				stayed++
			}
		}
		switch is := after.Shards[i]; {
		case stayed >= core.Majority(len(s.Voters)):
			on++
			holds(t, reflect.DeepEqual(is, s), i, is, s)
		default:
			holds(t, is.Generation.Core == after.Stamp.Roll && is.Revision > s.Revision, i, is)
		}
	}
	holds(t, on > 0 && on < len(before.Shards), on)
	holds(t, strings.Contains(strings.Join(w.procs[w.list[0]].logs, "\n"), "the core has recovered: some shards begin again"), w.procs[w.list[0]].logs)
}

// A node that is cut off decides nothing, and is not replaced; it learns afterwards what it has missed.
func TestCutOff(t *testing.T) {
	w := founded(t, 3)
	a, b, c := w.list[0], w.list[1], w.list[2]
	for _, o := range []string{b, c} {
		w.cut[[2]string{a, o}], w.cut[[2]string{o, a}] = true, true
		w.breakLink(a, o)
	}
	before := w.table()
	w.run(5 * time.Second)
	w.boot(c)
	w.run(10 * time.Second)
	equal(t, before, w.table(), "it is cut off")
	equal(t, before, w.procs[b].m.acceptor.Table(), "one of three cannot bind c, for a may live")
	holds(t, strings.Contains(w.procs[b].m.Waiting(), "no answer at "+a), "it waits for", w.procs[b].m.Waiting())
	clear(w.cut)
	w.must(w.runUntil(5*time.Second, w.serves), "the core does not come back")
	equal(t, before.Stamp.Roll, w.table().Stamp.Roll)
}

// All that can still be lost of a message is lost once: it is sent again.
func TestLostMessages(t *testing.T) {
	for _, kind := range []string{"call", "answer", "propose", "proposed", "read", "value", "write", "written", "shown"} {
		w := newWorld(t, 1, 3)
		lost := 0
		w.lose = func(name string) bool {
			if name == kind && lost < 4 {
				lost++
				return true
			}
			return false
		}
		for _, addr := range w.list {
			w.boot(addr)
		}
		w.must(w.runUntil(1900*time.Millisecond, w.serves), "%s: not founded in the first attempt", kind)
		w.boot(w.list[0])
		w.must(w.runUntil(1900*time.Millisecond, w.serves), "%s: not bound in the first attempt", kind)
		holds(t, lost > 0, kind)
	}
}

// Nothing is decided without the answers of others: not a roll call, nor a version.
func TestNothingIsDecidedAlone(t *testing.T) {
	for _, lost := range []string{"call", "answer", "propose", "proposed"} {
		w := newWorld(t, 1, 3)
		w.lose = func(name string) bool { return name == lost }
		for _, addr := range w.list {
			w.boot(addr)
		}
		w.run(5 * time.Second)
		for _, addr := range w.list {
			holds(t, w.procs[addr].m.acceptor.Table() == nil, "founded without any", lost)
		}
	}
	for _, lost := range []string{"read", "value", "write", "written"} {
		w := founded(t, 3)
		before := w.table()
		w.lose = func(name string) bool { return name == lost }
		w.boot(w.list[2])
		w.run(5 * time.Second)
		equal(t, before, w.table(), "bound without any", lost)
	}
}

// One of five cannot release a node, nor can two.
func TestReleaseNeedsMost(t *testing.T) {
	w := founded(t, 5)
	p, caller := w.procs[w.list[0]], w.procs[w.list[1]]
	c := core.Call{Ballot: core.Ballot{Round: 9, By: caller.id}, List: w.list}
	for _, addr := range w.list {
		c.Roster = append(c.Roster, w.procs[addr].id)
	}
	came := 0
	w.lose = func(name string) bool {
		if name == "confirmed" {
			came++
		}
		return name == "confirmed" && came > 2
	}
	w.do(p, func() []Output { return p.m.Message(w.now, caller.id, encode(call{c}), nil) })
	w.run(5 * time.Second)
	holds(t, came > 2 && p.state.Fenced, "it is released")
	w.lose = nil
	w.must(w.runUntil(5*time.Second, w.serves), "it is not released")
}

// A node at no entry knows what the core knows, and asks it for nothing.
func TestClient(t *testing.T) {
	w := founded(t, 3)
	client := w.boot("10.0.0.9:7946")
	knows := func() bool { return client.state.Table != nil && client.state.Table.Stamp == w.table().Stamp }
	w.must(w.runUntil(2*time.Second, knows), "the client knows no table")
	holds(t, !client.state.Fenced, "a client is not fenced")
	w.boot(w.list[1])
	w.boot(w.list[2])
	w.must(w.runUntil(5*time.Second, func() bool { return w.serves() && knows() }), "the client does not know the new generation")
	equal(t, "", client.m.Waiting())
}

// A client does not follow a node that stands alone: its mesh may be over.
func TestClientFollowsMost(t *testing.T) {
	w := founded(t, 3)
	for _, addr := range w.list[1:] {
		w.cut[[2]string{"10.0.0.9:7946", addr}] = true
	}
	client := w.boot("10.0.0.9:7946")
	w.run(3 * time.Second)
	equal(t, State{}, client.state)
	holds(t, client.m.Waiting() != "", "it waits")
}

// A client's list is of contact points: one of three entries will do, or a name at which all answer in turn.
func TestContactPoints(t *testing.T) {
	w := founded(t, 3)
	next := 0
	w.resolve = func(p *proc, addr string) string {
		if next++; addr == "core:7946" {
			return w.list[next%3]
		}
		return addr
	}
	for i, list := range [][]string{{w.list[1]}, {"core:7946"}} {
		client := w.boot(fmt.Sprintf("10.0.0.%d:7946", 50+i), func(c *Config) { c.List = list })
		knows := func() bool { return client.state.Table != nil && client.state.Table.Stamp == w.table().Stamp }
		w.must(w.runUntil(3*time.Second, knows), "the client of %v knows no table", list)
	}
}

// A node at which two of a client's contact points end counts once.
func TestContactPointsOfOneNode(t *testing.T) {
	w := founded(t, 3)
	w.resolve = func(p *proc, addr string) string {
		if addr == "core:7946" {
			return w.list[0]
		}
		return addr
	}
	for _, addr := range w.list[1:] {
		w.cut[[2]string{"10.0.0.9:7946", addr}] = true
	}
	client := w.boot("10.0.0.9:7946", func(c *Config) { c.List = []string{"core:7946", w.list[0]} })
	w.run(3 * time.Second)
	equal(t, State{}, client.state)
}

// What a node remembers of others does not grow with their restarts, nor with changes of the list.
func TestForgetsTheGone(t *testing.T) {
	w := founded(t, 3)
	p, o := w.procs[w.list[0]], w.procs[w.list[2]]
	for range 5 {
		w.boot(w.list[1])
		w.must(w.runUntil(5*time.Second, w.serves), "the core does not come back")
	}
	equal(t, 2, len(p.m.book.peers))
	p.m.Message(w.now, 99, encode(told{card: card{Member: env.Member{ID: 99}, List: w.list}}), nil)
	equal(t, 2, len(p.m.book.peers), "the connection of that one had ended")

	p.m.book.cover([]string{"10.0.0.9:1"}, env.Never)
	w.run(time.Second)
	equal(t, 3, len(p.m.book.entries))
	holds(t, p.m.book.peers[o.id] != nil, "the others are remembered")
}

// A node whose entry is answered by another one ends.
func TestEntryTaken(t *testing.T) {
	w := founded(t, 3)
	old := w.procs[w.list[0]]
	delete(w.procs, old.addr) // the address is another machine's now
	w.boot(w.list[0])
	w.run(2 * time.Second)
	holds(t, errors.Is(old.failed, fault.ErrEntryTaken), old.failed)
	w.must(w.runUntil(5*time.Second, w.serves), "the core does not come back")
}

// After a stall a node answers no proposer before a dial of its entry, begun after the stall, has reached it.
func TestAfterAStall(t *testing.T) {
	w := founded(t, 3)
	p := w.procs[w.list[0]]
	peer := w.procs[w.list[1]].id
	w.runUntil(5*time.Second, func() bool { return p.m.book.entry(p.addr).dials })
	now := w.now + 3*time.Second
	read := encode(read{core.Read{Ballot: core.Ballot{Round: 9, By: peer}, Prev: w.table().Stamp}})
	out := p.m.Message(now, peer, read, nil)
	holds(t, slices.Contains(out, Output(State{Table: w.table(), Fenced: true})), "fenced")
	equal(t, 0, sends(out, "value"))
	out = p.m.Dialed(now, p.addr, transport.Hello{ID: p.id}, nil, nil)
	holds(t, slices.Contains(out, Output(Dial{p.addr})) && p.m.state.Fenced, "that dial was begun before")
	out = p.m.Dialed(now, p.addr, transport.Hello{ID: p.id}, nil, nil)
	holds(t, slices.Contains(out, Output(State{Table: w.table()})), "no longer fenced")
	equal(t, 1, sends(p.m.Message(now, peer, read, nil), "value"))
}

// A stall shows as well where all dials were under way when it began, so that nothing was due.
func TestStallWhileDialling(t *testing.T) {
	w := founded(t, 3)
	w.run(5 * time.Second) // nothing is waited for any more
	p := w.procs[w.list[0]]
	w.must(w.runUntil(2*time.Second, func() bool { return p.m.waiting.next == 0 }), "it waits, and will log that")
	dialling := func() bool {
		return !slices.ContainsFunc(p.m.book.entries, func(e entry) bool { return !e.dials })
	}
	for i := 0; i < 20 && !dialling(); i++ { // their answers take long
		p.m.Tick(w.now+time.Duration(i)*100*time.Millisecond, nil)
	}
	holds(t, dialling(), "not all dials are under way")
	out := p.m.Tick(w.now+time.Minute, nil)
	holds(t, slices.Contains(out, Output(State{Table: w.table(), Fenced: true})), "not fenced")
}

// sends counts the messages of a name.
func sends(out []Output, name string) int { return len(sendsTo(out, name)) }

// sendsTo returns to whom messages of a name are sent, sorted.
func sendsTo(out []Output, name string) (all []transport.ID) {
	for _, o := range out {
		if s, ok := o.(Send); ok && Describe(s.Body) == name {
			all = append(all, s.To)
		}
	}
	slices.Sort(all)
	return all
}

// A node is fenced before it answers a roll call, and cut before it says so.
func TestFencesFirst(t *testing.T) {
	w := founded(t, 3)
	p, o := w.procs[w.list[0]], w.procs[w.list[1]]
	generation := w.table().Shards[2].Generation
	out := p.m.Message(w.now, o.id, encode(fence{2, generation}), nil)
	at := slices.Index(out, Output(Cut{2, generation}))
	holds(t, at >= 0, out)
	equal(t, 1, sends(out[at:], "fenced"))
	holds(t, !p.m.acceptor.Votes(2, generation), "it votes")

	b := core.Ballot{Round: 9, By: o.id}
	roster := []transport.ID{p.id, o.id, w.procs[w.list[2]].id}
	out = p.m.Message(w.now, o.id, encode(call{core.Call{Ballot: b, List: w.list, Roster: roster}}), nil)
	at = slices.Index(out, Output(State{Table: w.table(), Fenced: true}))
	holds(t, at >= 0, out)
	equal(t, 1, sends(out[at:], "answer"))
}

// A node that promised a roll call which never ends, since its caller has ended, is released by the mesh
// that lives on.
func TestRelease(t *testing.T) {
	w := founded(t, 5)
	p, caller := w.procs[w.list[0]], w.procs[w.list[1]]
	before := w.table()
	c := core.Call{Ballot: core.Ballot{Round: 9, By: caller.id}, List: w.list}
	for _, addr := range w.list {
		c.Roster = append(c.Roster, w.procs[addr].id)
	}
	confirmed := 0
	w.lose = func(name string) bool {
		if name == "confirmed" {
			confirmed++
		}
		return name == "confirmed" && confirmed > 1
	}
	w.do(p, func() []Output { return p.m.Message(w.now, caller.id, encode(call{c}), nil) })
	w.boot(caller.addr)
	w.run(time.Second)
	holds(t, confirmed > 1 && p.state.Fenced, "released by one")
	w.lose = nil
	w.must(w.runUntil(5*time.Second, w.serves), "it is not released")
	equal(t, before.Stamp.Roll, w.table().Stamp.Roll)
	_, err := w.procs[w.list[2]].m.acceptor.Call(c)
	holds(t, err != nil, "the others refuse that roll call for ever")
}

// A node that never promised a roll call goes over to the generation that was begun without it, too.
func TestReleaseWithoutAPromise(t *testing.T) {
	w := founded(t, 4)
	d := w.boot(w.list[3])
	w.must(w.runUntil(5*time.Second, w.serves), "it gets no seat")
	equal(t, core.Ballot{}, d.m.acceptor.Report().Roll)
	w.list = w.list[:3]
	for _, addr := range w.list {
		w.boot(addr)
	}
	w.must(w.runUntil(10*time.Second, w.serves), "the core does not come back")
	over := func() bool { return d.state.Table.Stamp.Roll == w.table().Stamp.Roll }
	w.must(w.runUntil(5*time.Second, over), "it does not go over")
}

// A node whose entry has left the list, and one whose entry is not in it yet, know what the core knows.
func TestWithoutASeat(t *testing.T) {
	w := founded(t, 4)
	d := w.procs[w.list[3]]
	fresh := w.boot("10.0.0.9:7946", func(c *Config) { c.List = append(c.List, "10.0.0.9:7946") })
	w.list = w.list[:3]
	for _, addr := range w.list {
		w.boot(addr)
		w.run(2 * time.Second)
	}
	w.must(w.runUntil(10*time.Second, w.serves), "the new list is not in force")
	w.boot(w.list[0])
	w.must(w.runUntil(5*time.Second, w.serves), "the core does not come back")
	w.run(time.Second)
	holds(t, fresh.m.own != "" && fresh.m.acceptor.Table() == nil && d.m.own != "", "it has an entry, but no seat")
	for _, p := range []*proc{d, fresh} {
		equal(t, w.table(), p.state.Table)
		holds(t, !p.state.Fenced, "it may go on")
	}
	ask := encode(fence{0, w.table().Shards[0].Generation})
	equal(t, 1, sends(d.m.Message(w.now, w.procs[w.list[0]].id, ask, nil), "fenced"), "a shard may have it as a voter still")
}

// Promise: P30: a node at an entry is unseated while another one, or nobody, has the seat of that.
func TestUnseated(t *testing.T) {
	w := founded(t, 3)
	holds(t, !w.procs[w.list[0]].m.Unseated(), "it has its seat")
	m := New(Config{Self: env.Member{ID: 9}, List: w.list})
	m.own = w.list[0]
	holds(t, !m.Unseated(), "it knows no mesh")
	m.state.Table = w.table()
	holds(t, m.Unseated(), "another one has its seat")
	m.own = ""
	holds(t, !m.Unseated(), "it is a client")
	m.own = "10.0.0.9:7946"
	holds(t, !m.Unseated(), "its entry is not in the list")
}

// A decision that one node alone names is asked for once, though other nodes name others.
func TestShownOnce(t *testing.T) {
	w := founded(t, 3)
	p, before := w.procs[w.list[0]], w.table()
	var out []Output
	for range 3 {
		for i, addr := range w.list[1:] {
			o := *before
			o.Stamp.Version += uint64(7 + i)
			id := w.procs[addr].id
			asked := sends(out, "show")
			out = p.m.Message(w.now, id, encode(told{card: card{Member: env.Member{ID: id}, List: w.list}, Known: o.Stamp}), out)
			if sends(out, "show") > asked {
				p.m.Message(w.now, id, encode(shown{pack(&o)}), nil)
			}
		}
	}
	equal(t, 2, sends(out, "show"))
}

// Answers to an attempt on one version say nothing about one on the next, and who accepts a value must have
// been told it.
func TestAnswersOfOneAttempt(t *testing.T) {
	w := founded(t, 3)
	p := w.procs[w.list[0]].m
	seen := map[core.Ballot]bool{}
	for range 3 {
		now, bound := w.now, w.table().Bound()
		p.begin(now, core.Propose{Table: must(w.table().Move(0, bound))})
		v := p.attempt.(*version)
		holds(t, !seen[v.ballot], "a ballot is used again")
		seen[v.ballot] = true
		for _, id := range bound {
			v.answered(p, now, id, written{v.ballot, v.prev.Stamp})
		}
		holds(t, p.attempt == attempt(v), "decided without a value")
		p.attempt, p.here = nil, nil
		w.run(2 * time.Second)
		w.boot(w.list[1])
		w.must(w.runUntil(5*time.Second, w.serves), "it is not bound")
	}
}

func must(t *core.Table, err error) *core.Table {
	if err != nil {
		panic(err)
	}
	return t
}

// Messages in another's name, and those of strangers, have no effect.
func TestStrangers(t *testing.T) {
	w := founded(t, 3)
	p, o := w.procs[w.list[0]], w.procs[w.list[1]]
	roster := []transport.ID{p.id, o.id, w.procs[w.list[2]].id}
	before := p.m.acceptor.Report()
	next := *w.table()
	next.Stamp = core.Stamp{Roll: core.Ballot{Round: 9, By: o.id}}
	for _, msg := range []message{
		call{core.Call{Ballot: core.Ballot{Round: 9, By: o.id}, List: w.list, Roster: roster}},
		propose{pack(&next)},
		fence{0, w.table().Shards[0].Generation},
		told{card: card{Member: env.Member{ID: o.id, Addr: "x"}, List: w.list}},
		answer{Ballot: core.Ballot{Round: 9, By: p.id}, card: card{Member: env.Member{ID: 5}, List: w.list}},
	} {
		equal(t, 0, len(p.m.Message(w.now, 99, encode(msg), nil)))
	}
	equal(t, before, p.m.acceptor.Report())
	equal(t, o.addr, p.m.book.peers[o.id].told.Member.Addr)
}

// Where two nodes are connected that answer at one entry, one after the other, it does not count: either
// may be the older one.
func TestTwoNodesAtAnEntry(t *testing.T) {
	w := founded(t, 3)
	p := w.procs[w.list[0]]
	other := transport.Hello{ID: 7, Addr: w.list[1]}
	p.m.Dialed(w.now, w.list[1], other, nil, nil) // perhaps no dial was under way
	w.must(w.runUntil(2*time.Second, func() bool { return p.m.book.entry(w.list[1]).dials }), "it dials at no time")
	p.m.Up(w.now, 7, nil)
	p.m.Dialed(w.now, w.list[1], other, nil, nil)
	p.m.Message(w.now, 7, encode(told{card: card{Member: env.Member{ID: 7}, List: w.list}, Entry: w.list[1]}), nil)
	equal(t, 2, len(p.m.reports(w.now)))
	holds(t, strings.Contains(p.m.Waiting(), "list each by a name of its own"), p.m.Waiting())

	p.m.Down(w.now, 7, nil) // and a third one comes: the first is connected still
	other.ID = 8
	p.m.Up(w.now, 8, nil)
	p.m.Dialed(w.now, w.list[1], other, nil, nil)
	p.m.Message(w.now, 8, encode(told{card: card{Member: env.Member{ID: 8}, List: w.list}, Entry: w.list[1]}), nil)
	equal(t, 2, len(p.m.reports(w.now)))
	first, third := w.procs[w.list[1]], w.procs[w.list[2]]
	p.m.Down(w.now, first.id, nil)
	equal(t, 2, len(p.m.reports(w.now)), "another node is connected with the first")
	says := third.m.told()
	says.Apart = []transport.ID{first.id}
	p.m.Message(w.now, third.id, encode(says), nil)
	holds(t, slices.Contains(slices.Collect(maps.Keys(p.m.reports(w.now))), w.list[1]), "nobody is connected with the first")
}

// A node that proves that the one before it has ended, by the lock of a state directory, counts though a connection with
// that one has not been missed yet.
func TestSuccessorOfOneThatHasEnded(t *testing.T) {
	for _, proves := range []bool{false, true} {
		w := founded(t, 3)
		b := w.procs[w.list[1]]
		b.paused = w.now + time.Hour // its machine was switched off, and nobody has noticed
		delete(w.procs, b.addr)
		w.boot(b.addr, func(c *Config) {
			if proves {
				c.Replaces = b.id
			}
		})
		equal(t, proves, w.runUntil(3*time.Second, w.serves))
	}
}

// A node that learns that a seat was given to another incarnation than the one that it knows at the entry does
// not give it back: what that one told was before.
func TestNoSeatGoesBack(t *testing.T) {
	w := founded(t, 3)
	p, b := w.procs[w.list[2]], w.procs[w.list[1]]
	next, err := w.table().Bind(w.list[0], env.Member{ID: 77}, w.list)
	holds(t, err == nil, err)
	out := p.m.Message(w.now, b.id, encode(shown{pack(next)}), nil)
	tell := func() {
		r := p.m.acceptor.Report()
		out = p.m.Message(w.now, b.id, encode(told{card: card{Member: env.Member{ID: b.id}, List: w.list}, Entry: w.list[1], Known: next.Stamp, Heard: r.Mark(), Apart: []transport.ID{77}}), out)
	}
	tell()
	equal(t, next.Stamp, p.m.acceptor.Table().Stamp)
	tell() // and again, after what p knows now
	for range 40 {
		w.now += 50 * time.Millisecond
		out = p.m.Tick(w.now, out)
	}
	equal(t, 0, sends(out, "read"))
}

// A node that answers at another's entry as well gets no second seat.
func TestOneSeatForOneNode(t *testing.T) {
	for _, alias := range [][2]int{{0, 1}, {1, 0}} {
		w := founded(t, 3)
		node, other, p := w.procs[w.list[alias[0]]], w.procs[w.list[alias[1]]], w.procs[w.list[2]]
		before := w.table()
		w.kill(other.addr)
		w.resolve = func(who *proc, addr string) string {
			if addr == other.addr && who == p {
				return node.addr
			}
			return addr
		}
		w.run(5 * time.Second)
		equal(t, before, p.m.acceptor.Table())
		equal(t, 2, len(p.m.reports(w.now)))
	}
}

// A node that does not take an entry for its own gets no seat for it, though a name leads to it.
func TestNameLeadsAstray(t *testing.T) {
	w := founded(t, 3)
	p, before := w.procs[w.list[0]], w.table()
	client := w.boot("10.0.0.9:7946")
	w.kill(w.list[1])
	w.resolve = func(who *proc, addr string) string {
		if addr == w.list[1] && who != client {
			return client.addr
		}
		return addr
	}
	w.run(5 * time.Second)
	equal(t, client.id, p.m.book.entry(w.list[1]).node)
	equal(t, before, w.table())
	w.resolve = nil
	w.boot(w.list[1])
	w.must(w.runUntil(5*time.Second, w.serves), "the core does not come back")
}

// An entry that has not told anything for a while does not count.
func TestOldReports(t *testing.T) {
	w := founded(t, 3)
	p := w.procs[w.list[0]]
	equal(t, 3, len(p.m.reports(w.now)))
	equal(t, 1, len(p.m.reports(w.now+p.m.pace.fresh+time.Second)))
}

func TestInput(t *testing.T) {
	for _, tt := range []struct {
		name   string
		change func(*Config)
		want   error
		text   string
	}{
		{"no list", func(c *Config) { c.List = nil }, fault.ErrNoSeeds, ""},
		{"an empty entry", func(c *Config) { c.List = append(c.List, "") }, fault.ErrInvalidOption, "empty entry"},
		{"a long entry", func(c *Config) { c.List = []string{strings.Repeat("x", 300)} }, fault.ErrInvalidOption, "too long"},
		{"many entries", func(c *Config) {
			for i := range 65 {
				c.List = append(c.List, fmt.Sprint("h", i, ":1"))
			}
		}, fault.ErrInvalidOption, "more than 64"},
		{"another's entry", func(c *Config) { c.Entry = "10.0.0.77:1" }, fault.ErrInvalidOption, "WithEntry"},
		{"its entry, but not the one", func(c *Config) { c.Entry = "10.0.0.2:7946" }, fault.ErrInvalidOption, "a dial of 10.0.0.1:7946 reaches this node"},
		{"other shards", func(c *Config) { c.Wants.Shards = 5 }, fault.ErrInvalidOption, "WithShards 5"},
		{"another name", func(c *Config) { c.Wants.MeshName = "other" }, fault.ErrForeignMesh, "other"},
		{"a negative TTL", func(c *Config) { c.Wants.MaxTTL = -1 }, fault.ErrInvalidOption, "negative"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := founded(t, 3)
			p := w.boot(w.list[0], tt.change)
			w.run(2 * time.Second)
			holds(t, errors.Is(p.failed, tt.want) && strings.Contains(p.failed.Error(), tt.text), p.failed)
		})
	}
}

// Founders that contradict each other end, and say in what.
func TestFoundersDisagree(t *testing.T) {
	w := newWorld(t, 1, 2)
	a := w.boot(w.list[0], func(c *Config) { c.Wants.Replicas = 2 })
	b := w.boot(w.list[1], func(c *Config) { c.Wants.Replicas = 3 })
	w.run(2 * time.Second)
	err := errors.Join(a.failed, b.failed)
	holds(t, errors.Is(err, fault.ErrInvalidOption) && strings.Contains(err.Error(), "WithReplicas"), err)
}

// A mesh does not end for one node of another mesh that answers at one of its entries, nor does it bind it.
func TestForeignMesh(t *testing.T) {
	for _, tt := range []struct {
		wants  founding.Options
		change func(*core.Table)
	}{
		{founding.Options{}, func(o *core.Table) { o.Params.MeshName = "other" }},
		{founding.Options{Shards: 5}, func(o *core.Table) { o.Params.Shards, o.Shards = 5, append(slices.Clone(o.Shards), o.Shards[0]) }},
	} {
		w := founded(t, 3)
		a, b := w.procs[w.list[0]], w.procs[w.list[1]]
		c := w.boot(w.list[2], func(c *Config) { c.Wants = tt.wants })
		other := *w.table()
		other.Mesh, other.Stamp = 5, core.Stamp{Roll: core.Ballot{Round: 9, By: 7}}
		other.Seats = slices.Clone(other.Seats)
		other.Seats[2].Node.ID = c.id
		tt.change(&other)
		c.m.acceptor.Learn(&other)
		before := w.table()
		w.run(5 * time.Second)
		holds(t, a.alive && b.alive, a.failed, b.failed)
		equal(t, before, w.table())
		holds(t, a.m.Waiting() != "", "it says why it waits")
	}
}

// A malformed message ends the connection that it came by.
func TestMalformed(t *testing.T) {
	w := founded(t, 1)
	out := w.procs[w.list[0]].m.Message(w.now, 5, []byte{1, 2, 3}, nil)
	_, dropped := out[0].(Drop)
	holds(t, dropped, out)
}

// What a node waits for is logged after 2 s, and then every 10 s.
func TestWaiting(t *testing.T) {
	w := newWorld(t, 1, 3)
	p := w.boot(w.list[0])
	w.run(25 * time.Second)
	equal(t, 3, strings.Count(strings.Join(p.logs, "\n"), "the core waits"))
	equal(t, "[10.0.0.2:7946 10.0.0.3:7946]", p.attr("the core waits", "missing"))
	equal(t, advice, p.attr("the core waits", "advice"))
	holds(t, strings.HasPrefix(p.m.Waiting(), "no answer at 10.0.0.2:7946"), p.m.Waiting())
}

// Promise: C4, G6: nodes end and start again while the mesh is founded, at moments at which some have accepted the value of one roll call
// and some that of another, each with an incarnation that has ended. Then it is founded all the same.
func TestRestartsWhileTheMeshIsFounded(t *testing.T) {
	for seed := uint64(70); seed < 130; seed++ {
		w := newWorld(t, seed, 4+int(seed%2))
		w.lose = func(name string) bool { return name == "proposed" || name == "propose" && w.rng.IntN(2) == 0 }
		for _, addr := range w.list {
			w.boot(addr)
		}
		for range 6 {
			w.run(w.upTo(time.Second))
			addr := w.list[w.rng.IntN(len(w.list))]
			w.kill(addr)
			w.boot(addr)
		}
		w.lose = nil
		w.must(w.runUntil(20*time.Second, w.serves), "world %d is not founded", seed)
	}
}
