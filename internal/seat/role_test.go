package seat

import (
	"errors"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lockmesh/mesh/internal/core"
	"github.com/lockmesh/mesh/internal/env"
	"github.com/lockmesh/mesh/internal/fault"
	"github.com/lockmesh/mesh/transport"
)

// pods returns a world whose entries are names.
func pods(t *testing.T) *world {
	w := newWorld(t, 3, 0)
	w.list = []string{"a.svc:7946", "b.svc:7946", "c.svc:7946"}
	return w
}

// byOption and byHost tell a node its entry.
func byOption(entry string) func(*Config) { return func(c *Config) { c.Entry = entry } }

func byHost(host string) func(*Config) {
	return func(c *Config) { c.Host, c.Self.Addr = host, "10.0.0.1:7946" }
}

// P25: a node is Unfounded while nothing but processes that are not there is missing for the mesh to be founded. One that restarts
// in a mesh that lives is not, nor is one that may be cut off from it.
func TestUnfounded(t *testing.T) {
	w := newWorld(t, 1, 3)
	a, b, c := w.list[0], w.list[1], w.list[2]
	is := func(addr string, want bool, what string) {
		t.Helper()
		equal(t, want, w.procs[addr].m.Standing().Unfounded, addr, what)
	}
	w.boot(a)
	is(a, false, "no dial has ended")
	w.run(3 * time.Second)
	is(a, true, "it is the first")
	w.boot(b)
	w.run(3 * time.Second)
	is(a, true, "two are there")
	is(b, true, "two are there")
	w.cut[[2]string{a, c}] = true
	w.run(3 * time.Second)
	is(a, false, "the third may be there, and know of a mesh")
	is(b, true, "the third is not there")
	clear(w.cut)
	w.boot(c)
	w.must(w.runUntil(5*time.Second, w.serves), "not founded")
	never := func(d time.Duration, addr, what string) {
		t.Helper()
		w.must(!w.runUntil(d, func() bool { return w.procs[addr].m.Standing().Unfounded }), "%s: %s", addr, what)
	}
	w.boot(b)
	never(5*time.Second, b, "it restarts where a mesh lives")
	w.kill(c)
	w.boot(b)
	never(10*time.Second, b, "it restarts where one that remembers lives")
	w.isolate(b)
	w.boot(b)
	never(10*time.Second, b, "it restarts, and is cut off")
	for _, addr := range []string{a, b} {
		w.kill(addr)
	}
	clear(w.cut)
	w.boot(a)
	w.run(3 * time.Second)
	is(a, true, "all have ended")
}

// Two entries lead to one node: if it knows which is its own, the other one does not count until it has a node of its own.
func TestTwoEntriesOfOneNode(t *testing.T) {
	for name, told := range map[string]func(*Config){"WithEntry": byOption("a.svc:7946"), "the host's name": byHost("a"), "nothing": func(*Config) {}} {
		w := pods(t)
		w.resolve = func(_ *proc, addr string) string {
			if addr == w.list[1] {
				return w.list[0]
			}
			return addr
		}
		a := w.boot(w.list[0], told)
		w.boot(w.list[2])
		w.run(5 * time.Second)
		if name == "nothing" {
			holds(t, errors.Is(a.failed, fault.ErrInvalidOption) && strings.Contains(a.failed.Error(), "answers at both"), a.failed)
			continue
		}
		holds(t, a.failed == nil && a.m.own == w.list[0], name, a.failed, a.m.own)
		equal(t, []Away{{w.list[1], 0, "it leads to this node, whose entry is a.svc:7946"}}, a.m.Standing().Away, name)
		_, counts := a.m.reports(w.now)[w.list[1]]
		holds(t, !counts && len(w.meshes) == 0, "b counts, by ", name)
		w.resolve = nil
		w.boot(w.list[1])
		w.must(w.runUntil(5*time.Second, w.serves), "not founded, by %s", name)
		w.run(time.Second)
		equal(t, 0, len(a.m.Standing().Away), name)
	}
}

// A node that knows its entry, and is not reached there, is Undecided: it knows of no mesh, though one serves; and it
// answers nobody who calls it.
func TestUndecided(t *testing.T) {
	for name, told := range map[string]func(*Config){"WithEntry": byOption("a.svc:7946"), "its host's name": byHost("a")} {
		w := pods(t)
		for _, addr := range w.list {
			w.boot(addr)
		}
		w.must(w.runUntil(5*time.Second, w.serves), "not founded")
		w.kill(w.list[0])
		p := w.boot("10.0.0.9:7946", told) // where no entry leads yet
		w.run(5 * time.Second)
		equal(t, Undecided, p.m.Role(), name)
		equal(t, State{}, p.state, name)
		holds(t, strings.Contains(p.m.Waiting(), "no dial of a.svc:7946, the entry of this node by "+name) && strings.Contains(p.m.Waiting(), "no answer"), p.m.Waiting())
		caller := w.procs[w.list[1]].id
		c := core.Call{Ballot: core.Ballot{Round: 9, By: caller}, List: w.list, Roster: []transport.ID{p.id, caller, w.procs[w.list[2]].id}}
		equal(t, 0, sends(p.m.Message(w.now, caller, encode(call{c}), nil), "answer"))

		w.resolve = func(_ *proc, addr string) string {
			if addr == w.list[0] {
				return p.addr
			}
			return addr
		}
		bound := func() bool { return p.state.Table != nil && slices.Contains(p.state.Table.Bound(), p.id) }
		w.must(w.runUntil(5*time.Second, bound), "%s: it has no seat", name)
		equal(t, AtEntry, p.m.Role(), name)
	}
}

// A node whose entry by WithEntry is that of another node, and that is reached at none, waits, and says so; one that
// has only its host's name to go by, which the other node's host has as well, is a client.
func TestAnotherHoldsTheEntry(t *testing.T) {
	w := pods(t)
	for _, addr := range w.list {
		w.boot(addr)
	}
	w.must(w.runUntil(5*time.Second, w.serves), "not founded")
	named, told := w.boot("10.0.0.8:7946", byHost("a")), w.boot("10.0.0.9:7946", byOption("a.svc:7946"))
	w.run(5 * time.Second)
	equal(t, Client, named.m.Role())
	holds(t, named.state.Table != nil, "it follows the mesh")
	equal(t, Undecided, told.m.Role())
	holds(t, told.failed == nil && told.state.Table == nil && strings.Contains(told.m.Waiting(), "answers there"), told.failed, told.m.Waiting())
	w.must(w.serves(), "the core serves no more")
}

// A node that knows of no entry is a client once the dials of all have ended, or a second is over; then it may still be
// reached at one.
func TestUntilItKnows(t *testing.T) {
	w := pods(t)
	m := New(Config{Self: env.Member{ID: 9}, List: w.list})
	m.Start(0, nil)
	for i, addr := range w.list {
		equal(t, Undecided, m.Role(), addr)
		m.Dialed(time.Duration(i+1)*time.Millisecond, addr, transport.Hello{}, errors.New("no answer"), nil)
	}
	equal(t, Client, m.Role())

	m = New(Config{Self: env.Member{ID: 9}, List: w.list})
	m.Start(0, nil)
	equal(t, time.Second, m.Deadline())
	m.Tick(time.Second-1, nil)
	equal(t, Undecided, m.Role())
	m.Tick(time.Second, nil)
	equal(t, Client, m.Role())
	m.Dialed(time.Second, w.list[1], transport.Hello{ID: 9}, nil, nil)
	equal(t, AtEntry, m.Role())
}

// A Client is at no entry, wherever a dial reaches it, and whatever its host is called.
func TestClientAtAnEntry(t *testing.T) {
	w := pods(t)
	p := w.boot(w.list[0], byHost("a"), func(c *Config) { c.Client = true })
	w.boot(w.list[1])
	w.boot(w.list[2])
	w.run(5 * time.Second)
	equal(t, Client, p.m.Role())
	holds(t, p.failed == nil && len(w.meshes) == 0, p.failed)
	w.boot(w.list[0])
	w.must(w.runUntil(5*time.Second, w.serves), "not founded")
}

// C12: an entry at which several nodes answer in turn does not count for a node of the core, though none of them is
// connected when another one answers. Once, that is how a successor comes; so it counts until an earlier one is back.
func TestSeveralInTurn(t *testing.T) {
	w := founded(t, 3)
	p, entry := w.procs[w.list[0]], w.list[1]
	w.kill(entry)
	w.run(100 * time.Millisecond)
	var out []Output
	answers := func(id transport.ID) {
		w.now += time.Second
		p.m.Tick(w.now, nil)
		p.m.Up(w.now, id, nil)
		out = p.m.Dialed(w.now, entry, transport.Hello{ID: id, Addr: entry}, nil, nil)
		p.m.Message(w.now, id, encode(told{card: card{Member: env.Member{ID: id}, List: w.list}, Entry: entry}), nil)
	}
	counts := func() bool { _, ok := p.m.reports(w.now)[entry]; return ok }
	errorsLogged := func() (n int) {
		for _, o := range out {
			if l, ok := o.(Log); ok && strings.Contains(l.Text, "several nodes answer") {
				n++
			}
		}
		return n
	}
	answers(7)
	p.m.Down(w.now, 7, nil)
	answers(8)
	p.m.Down(w.now, 8, nil)
	holds(t, counts(), "8 has come after 7")
	answers(7)
	holds(t, !counts() && errorsLogged() == 1, "7 and 8 answer in turn, logged ", errorsLogged())
	holds(t, strings.Contains(p.m.Waiting(), "list each by a name of its own") && p.m.Standing().Away[0].Entry == entry, p.m.Waiting(), p.m.Standing())
	p.m.Down(w.now, 7, nil)
	answers(8)
	holds(t, !counts() && errorsLogged() == 0, "logged again")
	for range 9 {
		answers(8)
		holds(t, !counts(), "several answered lately")
	}
	answers(8)
	holds(t, counts(), "for ten seconds it was always the same")
}

// C12: where an entry leads to several nodes that end because of that, and are started again, a node at another entry sees each of them once
// only. It goes by their addresses, and logs an error. A node that moves, and moves back later, is none of several, nor is one that is
// restarted where it was, again and again.
func TestSeveralThatAreStartedAgain(t *testing.T) {
	for _, tt := range []struct {
		name  string
		addrs string // one letter for each node that answers
		every time.Duration
		want  int // which one shows that the name has several addresses; -1: none
	}{
		{"three nodes", "xyzxyz", time.Second, 3},
		{"two nodes", "xyxy", time.Second, 2},
		{"one that is restarted", "xxxxxx", time.Second, -1},
		{"one that moves", "xxxyyy", time.Second, -1},
		{"one that moves back later", "xyx", 11 * time.Second, -1},
	} {
		w := founded(t, 3)
		p, entry := w.procs[w.list[0]], w.list[1]
		w.kill(entry)
		w.run(100 * time.Millisecond)
		shown := -1
		for i, at := range tt.addrs {
			w.now += tt.every
			out := p.m.Tick(w.now, nil)
			id, addr := transport.ID(100+i), "10.1.1."+string(at)+":7946"
			out = p.m.Up(w.now, id, out)
			out = p.m.Dialed(w.now, entry, transport.Hello{ID: id, Addr: addr}, nil, out)
			out = p.m.Message(w.now, id, encode(told{card: card{Member: env.Member{ID: id}, List: w.list}, Entry: entry}), out)
			out = p.m.Down(w.now, id, out)
			for _, o := range out {
				if l, ok := o.(Log); ok && shown < 0 && strings.Contains(l.Text, "several nodes answer") {
					equal(t, slog.LevelError, l.Level)
					shown = i
				}
			}
		}
		equal(t, tt.want, shown, tt.name)
	}
}

// C12: where an entry leads to several nodes, those that found themselves there end, and say why. There is one mesh at
// most. If none is ever led to itself, the others of the core say why the entry does not count.
func TestHeadlessService(t *testing.T) {
	for _, back := range []bool{true, false} {
		w := newWorld(t, 1, 3)
		lb, addrs := w.list[2], []string{"10.0.0.51:7946", "10.0.0.52:7946", "10.0.0.53:7946"}
		next := 0
		w.resolve = func(p *proc, addr string) string {
			if addr != lb {
				return addr
			}
			if next++; !back && addrs[next%3] == p.addr {
				next++
			}
			return addrs[next%3]
		}
		var pods []*proc
		for _, addr := range addrs {
			pods = append(pods, w.boot(addr))
		}
		a := w.boot(w.list[0])
		w.boot(w.list[1])
		w.run(20 * time.Second)
		w.must(len(w.meshes) <= 1, "several meshes")
		ended := 0
		for _, p := range pods {
			if p.failed != nil {
				ended++
				holds(t, errors.Is(p.failed, fault.ErrEntryTaken) && strings.Contains(p.failed.Error(), "list each by a name of its own"), p.failed)
			}
		}
		equal(t, back, ended > 0)
		if away := a.m.Standing().Away; !back {
			holds(t, len(away) == 1 && away[0].Entry == lb, away)
			holds(t, slices.Contains(a.logs, "several nodes answer at one entry: the entry does not count"), a.logs)
			holds(t, strings.Contains(away[0].Why, "list each by a name of its own") && len(w.meshes) == 0, away)
			// A process is to be started only where none answers.
			holds(t, a.logged("the core waits") > 0 && a.attr("the core waits", "advice") == "", a.said["the core waits"])
			w.kill(w.list[1])
			w.run(15 * time.Second)
			equal(t, "["+w.list[1]+"]", a.attr("the core waits", "missing"))
		}
	}
}

// What the log advises about an entry that is gone for good helps: the others start again, one after the other, with a
// list without it. Where a majority remembers, and where it has forgotten.
func TestGoneForGood(t *testing.T) {
	for _, forgets := range []bool{false, true} {
		w := founded(t, 3)
		mesh := w.table().Mesh
		w.kill(w.list[2])
		if forgets {
			w.boot(w.list[1])
			w.run(10 * time.Second)
			holds(t, !w.serves() && slices.Contains(w.procs[w.list[0]].logs, "the core waits"), "it does not wait")
		}
		w.list = w.list[:2]
		w.boot(w.list[1])
		w.run(10 * time.Second)
		w.boot(w.list[0])
		w.must(w.runUntil(10*time.Second, w.serves), "it does not come back, forgets %t", forgets)
		equal(t, mesh, w.table().Mesh)
	}
}
