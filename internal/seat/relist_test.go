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
	"github.com/lockmesh/mesh/transport"
)

func able(c *Config) {
	c.Saved = func() time.Duration { return maxQuiet }
}

// keeping is a founded core of n whose nodes keep lists.
func keeping(t *testing.T, n int) *world {
	t.Helper()
	w := newWorld(t, 1, n)
	w.lists = make(map[string][]string)
	for _, addr := range w.list {
		w.boot(addr, able)
	}
	w.must(w.runUntil(10*time.Second, w.serves), "not founded")
	return w
}

// order has an operator change the list by the node at an address.
func (w *world) changes(addr, add, remove string) (o Relist, err error) {
	p := w.procs[addr]
	w.do(p, func() []Output {
		var out []Output
		o, out, err = p.m.ChangeList(w.now, add, remove, nil)
		return out
	})
	return o, err
}

// carriesOut waits until an order is carried out, as the node at an address knows.
func (w *world) carriesOut(addr string, o Relist) {
	w.t.Helper()
	p := w.procs[addr]
	w.must(w.runUntil(10*time.Second, func() bool { return p.m.Unlisted(o) == nil }), "not carried out: %v", p.m.Unlisted(o))
}

// comes starts a node at another entry, with the list that the core has or is to have.
func (w *world) comes(addr string, list []string) {
	w.t.Helper()
	w.lists[addr] = list
	w.boot(addr, able)
}

const fourth = "10.0.0.4:7946"

// Promise: C11: the list grows and shrinks while its nodes run. None takes a list over before it is kept, and each of them starts
// with it when it is restarted.
func TestOrderedLists(t *testing.T) {
	w := keeping(t, 3)
	w.disk = time.Second
	all := append(slices.Clone(w.list), fourth)
	o, err := w.changes(w.list[0], fourth, "")
	w.must(err == nil, "refused: %v", err)
	until := w.now + 900*time.Millisecond
	for w.now < until {
		w.run(10 * time.Millisecond)
		for _, addr := range w.list {
			equal(t, w.list, w.procs[addr].m.List())
			equal(t, w.list, w.procs[addr].state.Table.List())
		}
	}
	w.carriesOut(w.list[0], o)
	for _, addr := range w.list {
		equal(t, all, w.procs[addr].m.List())
		equal(t, all, w.lists[addr])
	}
	holds(t, strings.Contains(w.procs[w.list[0]].m.acceptor.Table().Unfinished(), "no node has come to "+fourth))
	w.comes(fourth, all)
	w.list = all
	w.must(w.runUntil(10*time.Second, w.serves), "the fourth does not come")
	equal(t, "", w.table().Unfinished())
	equal(t, "", w.table().Ordered)
	w.boot(w.list[1], able)
	w.must(w.runUntil(10*time.Second, w.serves), "a node does not come back")
	equal(t, all, w.procs[w.list[1]].m.List())

	// A node whose entry goes may be asked as well, and keeps nothing.
	o, err = w.changes(fourth, "", fourth)
	w.must(err == nil, "refused: %v", err)
	w.list = all[:3]
	w.carriesOut(fourth, o)
	w.must(w.runUntil(10*time.Second, w.serves), "the fourth does not go")
	equal(t, all, w.lists[fourth])
	equal(t, w.list, w.lists[w.list[0]])
}

// A node whose entry is to go is restarted with a list that is not in force any more, once its removal is ordered. It keeps the
// list of now: else the change would never be made.
func TestWhoGoesKeepsTheListOfNow(t *testing.T) {
	w := keeping(t, 3)
	old, all := w.list, append(slices.Clone(w.list), fourth)
	o, err := w.changes(old[0], fourth, "")
	w.must(err == nil, "refused: %v", err)
	w.carriesOut(old[0], o)
	w.comes(fourth, all)
	w.list = all
	w.must(w.runUntil(10*time.Second, func() bool { return w.serves() && w.table().Ordered == "" }), "the fourth does not come")
	w.disk = 2 * time.Second // until then nobody keeps the next list
	o, err = w.changes(old[0], "", old[2])
	w.must(err == nil, "refused: %v", err)
	w.must(w.runUntil(time.Second, func() bool { return w.table().Ordered == o.To }), "nothing is ordered")
	w.lists[old[2]] = old
	goer := w.boot(old[2], able)
	equal(t, old, goer.m.List())
	w.carriesOut(old[0], o)
	equal(t, all, goer.m.List())
	equal(t, all, w.lists[old[2]])
}

// A process that ends before it has kept the list comes back with the one before, and is given the next.
func TestOrdersReachWhoRestarts(t *testing.T) {
	w := keeping(t, 3)
	w.disk = 500 * time.Millisecond
	_, err := w.changes(w.list[0], fourth, "")
	w.must(err == nil, "refused: %v", err)
	w.must(w.runUntil(5*time.Second, func() bool { return w.procs[w.list[2]].m.heeding.keeping != "" }), "nothing is ordered")
	w.kill(w.list[2])
	delete(w.lists, w.list[2])
	w.kill(w.list[0]) // which was asked, and forgets it
	delete(w.lists, w.list[0])
	w.run(100 * time.Millisecond)
	w.boot(w.list[0], able)
	w.boot(w.list[2], able)
	all := append(slices.Clone(w.list), fourth)
	w.comes(fourth, all)
	w.list = all
	w.must(w.runUntil(20*time.Second, func() bool {
		return w.serves() && !slices.ContainsFunc(all, func(addr string) bool { return !slices.Equal(w.lists[addr], all) })
	}), "the order is lost")
}

// Promise: C4: one of two goes by a decision of both. The one that stays has a list of itself alone as soon as it keeps that; it does
// not call itself together meanwhile, which would make all shards begin again.
func TestOneOfTwoGoesByDecision(t *testing.T) {
	found := func(c *Config) {
		able(c)
		c.Found = true
	}
	for seed := range uint64(10) {
		w := newWorld(t, seed, 2)
		w.lists, w.delay = make(map[string][]string), 150*time.Millisecond
		for _, addr := range w.list {
			w.boot(addr, found)
		}
		w.must(w.runUntil(10*time.Second, w.serves), "not founded")
		before := w.procs[w.list[0]].state.Table.Stamp.Roll
		o, err := w.changes(w.list[0], "", w.list[1])
		w.must(err == nil, "refused: %v", err)
		w.carriesOut(w.list[0], o)
		equal(t, before, w.procs[w.list[0]].state.Table.Stamp.Roll)
	}
}

// An entry at which no node ever comes is removed again.
func TestOrdersAreTakenBack(t *testing.T) {
	w := keeping(t, 3)
	o, err := w.changes(w.list[0], "typo:1", "")
	w.must(err == nil, "refused: %v", err)
	w.carriesOut(w.list[0], o)
	_, err = w.changes(w.list[1], fourth, "") // waits
	w.must(err == nil, "refused: %v", err)
	w.run(3 * time.Second)
	equal(t, []string{w.list[0], w.list[1], w.list[2], "typo:1"}, w.procs[w.list[1]].m.acceptor.Table().List())
	o, err = w.changes(w.list[0], "", "typo:1")
	w.must(err == nil, "refused: %v", err)
	w.carriesOut(w.list[0], o)
	w.must(w.runUntil(5*time.Second, w.serves), "not taken back")
	equal(t, "", w.table().Ordered)
}

// Of two operators one comes first, and the other is told.
func TestTwoOperators(t *testing.T) {
	w := keeping(t, 5)
	a, errA := w.changes(w.list[0], "10.0.0.6:7946", "")
	b, errB := w.changes(w.list[1], "", w.list[4])
	w.must(errA == nil && errB == nil, "refused: %v, %v", errA, errB)
	p, q := w.procs[w.list[0]], w.procs[w.list[1]]
	w.run(5 * time.Second)
	first, second := p.m.Unlisted(a), q.m.Unlisted(b)
	w.must((first == nil) != (second == nil), "%v, %v", first, second)
	w.must(errors.Is(errors.Join(first, second), fault.ErrUnchanged), "%v, %v", first, second)
}

// What cannot be is refused at once; what may pass is waited for.
func TestRefusedOrders(t *testing.T) {
	for _, tt := range []struct {
		name        string
		n           int
		prepare     func(w *world)
		add, remove string
		want        error
		says        string
	}{
		{"no such entry", 3, nil, "", "x:1", fault.ErrInvalidOption, "is no entry"},
		{"an entry on loopback", 3, nil, "127.0.0.1:7946", "", fault.ErrInvalidOption, `"127.0.0.1:7946" leads each node to itself`},
		{"in place of another one", 4, nil, "localhost:7946", "10.0.0.4:7946", fault.ErrInvalidOption, `"localhost:7946" leads each node to itself`},
		{"all interfaces", 3, nil, "0.0.0.0:7946", "", fault.ErrInvalidOption, `"0.0.0.0:7946" leads each node to itself`},
		{"not an entry", 3, nil, "a b", "", fault.ErrInvalidOption, "one with a blank"},
		{"the only entry", 1, nil, "x:1", "10.0.0.1:7946", fault.ErrUnchanged, "from [10.0.0.1:7946] to [x:1]"},
		{"all entries", 1, nil, "", "10.0.0.1:7946", fault.ErrUnchanged, "only entry"},
		{"one of three", 3, nil, "x:1", "10.0.0.2:7946", fault.ErrUnchanged, "grows before it drops one"},
		{"a node cannot keep a list", 3, func(w *world) {
			w.boot(w.list[2])
			w.must(w.runUntil(10*time.Second, w.serves), "does not come back")
		}, "x:1", "", fault.ErrUnchanged, `of 10.0.0.3:7946 has no state directory`},
		{"nor can this one", 3, func(w *world) {
			w.boot(w.list[0])
			w.must(w.runUntil(10*time.Second, w.serves), "does not come back")
		}, "x:1", "", fault.ErrUnchanged, `of 10.0.0.1:7946 has no state directory`},
		{"a node has ended", 5, func(w *world) {
			w.kill(w.list[4])
			w.run(3 * time.Second)
			p := w.procs[w.list[0]]
			w.do(p, func() []Output {
				_, out, err := p.m.DeclareDead(w.now, w.list[4], nil)
				w.must(err == nil, "%v", err)
				return out
			})
			w.run(5 * time.Second)
		}, "x:1", "", fault.ErrUnchanged, "replace or remove 10.0.0.5:7946 first"},
		{"a node is silent", 3, func(w *world) {
			w.kill(w.list[2])
			w.run(8 * time.Second)
		}, "x:1", "", fault.ErrUnfinished, "of 10.0.0.3:7946 is not heard"},
		{"the change before is not complete", 3, func(w *world) {
			o, err := w.changes(w.list[0], "y:1", "")
			w.must(err == nil, "%v", err)
			w.carriesOut(w.list[0], o)
		}, "x:1", "", fault.ErrUnfinished, "no node has come to y:1 yet"},
		{"another one is under way", 3, func(w *world) {
			w.disk = -1
			_, err := w.changes(w.list[1], "y:1", "")
			w.must(err == nil, "%v", err)
			w.run(3 * time.Second)
		}, "x:1", "", fault.ErrUnfinished, "a change to [10.0.0.1:7946 10.0.0.2:7946 10.0.0.3:7946 y:1] is under way"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := keeping(t, tt.n)
			if tt.prepare != nil {
				tt.prepare(w)
			}
			before := w.procs[w.list[0]].m.acceptor.Table().List()
			o, err := w.changes(w.list[0], tt.add, tt.remove)
			if w.run(3 * time.Second); err == nil {
				err = w.procs[w.list[0]].m.Unlisted(o)
			}
			holds(t, errors.Is(err, tt.want) && strings.Contains(fmt.Sprint(err), tt.says), err)
			equal(t, before, w.procs[w.list[0]].m.acceptor.Table().List())
		})
	}
}

// A node that has no state directory says so when a list is ordered nevertheless: it came after that.
func TestWhoCannotKeepSaysSo(t *testing.T) {
	w := keeping(t, 3)
	w.disk = time.Second
	_, err := w.changes(w.list[0], fourth, "")
	w.must(err == nil, "refused: %v", err)
	w.must(w.runUntil(5*time.Second, func() bool { return w.procs[w.list[0]].m.acceptor.Table().Ordered != "" }), "not ordered")
	p := w.boot(w.list[2])
	said := func() bool {
		return slices.Contains(p.logs, "an operator changes the list, and this node has no state directory: restart it with the next one")
	}
	w.must(w.runUntil(20*time.Second, said), "it says nothing")
	w.run(20 * time.Second)
	equal(t, w.list, p.m.List())
	equal(t, 1, strings.Count(strings.Join(p.logs, "\n"), "an operator changes the list, and"))
	holds(t, strings.Contains(w.procs[w.list[0]].m.acceptor.Table().Unfinished(), "of "+w.list[2]+" has the list"))
}

// The node that has made the core drop another one ends before anybody else knows. Those two that are left decide the same
// again. The one that was dropped cannot take that over; the other one does as soon as it is shown it.
func TestTheDroppedShowWhatIsDecided(t *testing.T) {
	ended := 0 // worlds in which that happens
	for seed := range uint64(100) {
		w := newWorld(t, seed, 3)
		w.lists, w.delay = make(map[string][]string), time.Duration(1+seed%3)*50*time.Millisecond
		for _, addr := range w.list {
			w.boot(addr, able)
		}
		w.must(w.runUntil(20*time.Second, w.serves), "not founded")
		a, b, c := w.list[0], w.list[1], w.list[2]
		_, err := w.changes(a, "", c)
		w.must(err == nil, "refused: %v", err)
		two := func(addr string) func() bool {
			return func() bool { return len(w.procs[addr].m.acceptor.Table().List()) == 2 }
		}
		w.must(w.runUntil(20*time.Second, func() bool { return two(a)() || two(b)() }), "c is not dropped")
		if two(b)() {
			continue // it was the first to know
		}
		w.kill(a)
		w.boot(a, able)
		w.must(w.runUntil(10*time.Second, two(b)), "c decides for ever")
		ended++
	}
	holds(t, ended > 0)
}

// An entry of a list of three or fewer is replaced in two steps: the one that is gone goes first.
func TestSteps(t *testing.T) {
	w := keeping(t, 3)
	p := w.procs[w.list[0]]
	for _, tt := range []struct {
		add, remove string
		want        [][2]string
	}{
		{"x", "", [][2]string{{"x", ""}}},
		{"", "x", [][2]string{{"", "x"}}},
		{"x", w.list[2], [][2]string{{"x", ""}, {"", w.list[2]}}},
		{w.list[1], w.list[2], [][2]string{{"", w.list[2]}}},
		{"x", "gone", [][2]string{{"x", ""}}},
	} {
		equal(t, tt.want, steps(t, p.m, tt.add, tt.remove))
	}
	w.kill(w.list[2])
	w.run(5 * time.Second)
	equal(t, [][2]string{{"", w.list[2]}, {"x", ""}}, steps(t, p.m, "x", w.list[2]))
	equal(t, [][2]string{{"x", w.list[2]}}, steps(t, keeping(t, 4).procs[w.list[0]].m, "x", w.list[2]))
	equal(t, [][2]string{{"x", w.list[0]}}, steps(t, keeping(t, 1).procs[w.list[0]].m, "x", w.list[0]))

	// Nothing is removed for an entry that cannot be added.
	_, err := p.m.Steps("127.0.0.1:7946", w.list[2])
	holds(t, errors.Is(err, fault.ErrInvalidOption), err)
}

func steps(t *testing.T, m *Machine, add, remove string) [][2]string {
	t.Helper()
	all, err := m.Steps(add, remove)
	holds(t, err == nil, err)
	return all
}

// A list that is all on loopback, of one machine, grows by another port of it, and keeps an entry that it has.
func TestListsOnLoopback(t *testing.T) {
	for _, tt := range []struct {
		list []string
		add  string
		want bool
	}{
		{[]string{"127.0.0.1:1", "localhost:2"}, "127.0.0.1:3", true},
		{[]string{"127.0.0.1:1", "localhost:2"}, "10.0.0.1:1", true},
		{[]string{"127.0.0.1:1", "localhost:2"}, "[::]:3", false},
		{[]string{"10.0.0.1:1", "127.0.0.1:1"}, "127.0.0.1:1", true},
		{[]string{"10.0.0.1:1", "10.0.0.2:1"}, "[::1]:1", false},
		{[]string{"10.0.0.1:1", "10.0.0.2:1"}, "", true},
	} {
		err := leadsBack(tt.list, tt.add)
		holds(t, (err == nil) == tt.want, tt, err)
	}
}

// In random worlds an operator changes the list again and again, by any node, while processes end at any moment and come back by
// what they keep. No two generations of the core can decide, and in the end the operator's last word counts.
func TestOrdersInStorms(t *testing.T) {
	for seed := *first; seed < *first+fewer(max(8, *storms/20)); seed++ {
		w := newWorld(t, seed, 3+int(seed%3))
		w.lists, w.disk = make(map[string][]string), time.Duration(seed%4)*100*time.Millisecond
		w.loss = int(seed%3) * 20
		first := slices.Clone(w.list)
		for _, addr := range first {
			w.lists[addr] = first
			w.boot(addr, able)
		}
		w.must(w.runUntil(20*time.Second, w.serves), "not founded")
		w.host()
		for range 8 {
			w.orderAtRandom()
			for range w.rng.IntN(3) {
				addrs := w.addrs()
				addr := addrs[w.rng.IntN(len(addrs))]
				w.kill(addr)
				w.run(w.upTo(2 * time.Second))
				w.boot(addr, able)
			}
			w.run(w.upTo(4 * time.Second))
		}
		w.loss = 0
		w.settleOrders()
	}
}

// host moves the votes of shards to nodes that live, now and every second, as package hosting does.
func (w *world) host() {
	w.after(time.Second, w.host)
	for _, p := range w.living {
		t := p.m.acceptor.Table()
		if t == nil || p.m.acceptor.Serves(t.Stamp) != nil {
			continue
		}
		for i, s := range t.Shards {
			living := func(id transport.ID) bool { return slices.Contains(t.Living(), id) }
			to := place(t.Seats, i, 3)
			var c Change = Move{i, s.Generation, to}
			switch {
			case s.Next != nil:
				c = Settle{i, s.Generation, s.Move, true}
			case slices.Equal(s.Voters, to):
				continue
			case len(slices.DeleteFunc(slices.Clone(s.Voters), living)) > len(s.Voters)/2:
				c = Recover{i, s.Generation, to}
			}
			w.do(p, func() []Output { return p.m.Change(w.now, c, nil) })
		}
	}
}

// orderAtRandom has an operator add or remove an entry, by any node; a node is started at one that is added, sooner or later.
func (w *world) orderAtRandom() {
	addrs := w.addrs()
	p := w.procs[addrs[w.rng.IntN(len(addrs))]]
	if !p.alive || p.m.acceptor.Table() == nil {
		return
	}
	list := p.m.acceptor.Table().List()
	if len(list) > 3 && w.rng.IntN(2) == 0 {
		_, _ = w.changes(p.addr, "", list[w.rng.IntN(len(list))])
		return
	}
	add := fmt.Sprintf("10.0.1.%d:7946", w.rng.IntN(4))
	if slices.Contains(list, add) {
		return
	}
	if o, err := w.changes(p.addr, add, ""); err == nil && w.procs[add] == nil {
		w.lists[add] = strings.Fields(o.To)
		w.after(w.upTo(2*time.Second), func() {
			if w.procs[add] == nil {
				w.boot(add, able)
			}
		})
	}
}

// settleOrders has a process at each entry. The operator orders the list of now for those that lack it, and the core is to come to
// rest.
func (w *world) settleOrders() {
	var latest *core.Table
	again := w.now
	done := func() bool {
		for _, p := range w.living {
			if t := p.m.acceptor.Table(); t != nil && (latest == nil || latest.Stamp.Compare(t.Stamp) < 0) {
				latest = t
			}
		}
		if latest == nil {
			return false
		}
		w.list = latest.List()
		for _, addr := range w.list {
			if p := w.procs[addr]; p == nil || !p.alive {
				if w.lists[addr] == nil {
					w.lists[addr] = w.list
				}
				w.boot(addr, able)
			}
		}
		if w.serves() && w.now >= again {
			again = w.now + 5*time.Second
			_, _ = w.changes(w.list[0], w.list[0], "")
		}
		return w.serves() && w.table().Ordered == "" && !slices.ContainsFunc(w.table().Seats, func(s core.Seat) bool { return !s.Keeps(w.list) })
	}
	w.must(w.runUntil(3*time.Minute, done), "the list does not come to rest: %+v", latest)
	holds(w.t, !slices.Contains(w.table().Bound(), transport.ID(0)))
}

// Promise: G1, C4, C11: a node that is bound before it has heard of that, and founds a mesh by an earlier list, stays with the mesh
// that it founded. The first mesh has no majority without it, and the third node gives way.
func TestTheBoundThatFoundByAnEarlierList(t *testing.T) {
	w := newWorld(t, 1, 3)
	for _, addr := range w.list {
		w.boot(addr)
	}
	w.must(w.runUntil(10*time.Second, w.serves), "not founded")
	first := w.table().Mesh
	earlier, third := w.list[:2], w.list[2]
	w.lists = map[string][]string{earlier[0]: earlier, earlier[1]: earlier}
	var from, to *proc
	w.seen = func(p, o *proc, _ string) { from, to = p, o }
	deaf := slices.Clone(w.list) // what these show does not reach the second
	w.lose = func(name string) bool {
		return to.addr == earlier[1] && name == "shown" && slices.Contains(deaf, from.addr)
	}
	b := w.boot(earlier[1])
	w.must(w.runUntil(10*time.Second, func() bool { return slices.Contains(w.procs[third].m.acceptor.Table().Bound(), b.id) }), "not bound")
	for _, addr := range earlier {
		w.cut[[2]string{addr, third}], w.cut[[2]string{third, addr}] = true, true
		w.breakLink(addr, third)
	}
	a := w.boot(earlier[0])
	w.must(w.runUntil(20*time.Second, func() bool { return a.m.acceptor.Table() != nil }), "no other mesh")
	equal(t, true, b.m.acceptor.Table() == nil && b.m.acceptor.Pending())
	clear(w.cut)
	deaf = earlier[:1]
	w.run(5 * time.Second)
	equal(t, true, b.m.acceptor.Table() == nil, "it takes over what the third shows")
	deaf = nil
	second := a.m.acceptor.Table().Mesh
	w.must(w.runUntil(10*time.Second, func() bool {
		return !slices.ContainsFunc(w.living, func(p *proc) bool { return p.state.Table == nil || p.state.Fenced || p.state.Table.Mesh != second })
	}), "not one mesh")
	equal(t, true, second != first)
}

// Promise: G1, C4, C5: a node that has promised a call, and heard nothing more of it, takes over the mesh that has bound it: what that
// has decided counts in what begins now.
// Method: of three, MaxTTL is raised to a minute. Then the third is to go: the second restarts with a list of two, and is bound, which it
// does not hear. Cut off from the third, the first restarts with that list, calls, and is gone before it has an answer.
// The third is connected again, and the first is back.
func TestAPromiseToOneThatEnded(t *testing.T) {
	w := newWorld(t, 1, 3)
	for _, addr := range w.list {
		w.boot(addr)
	}
	w.must(w.runUntil(10*time.Second, w.serves), "not founded")
	w.run(3 * time.Second)
	raised := w.orders(w.procs[w.list[0]], SetMaxTTL{time.Minute})
	w.must(w.runUntil(20*time.Second, func() bool { return raised() == nil && w.limited(time.Minute)() }), "not raised: %v", raised())
	first, two, third := w.table(), w.list[:2], w.list[2]
	w.lists = map[string][]string{two[0]: two, two[1]: two}
	var from, to *proc
	w.seen = func(p, o *proc, _ string) { from, to = p, o }
	answered := false
	w.lose = func(name string) bool {
		is := to.addr == two[0] && from.addr == two[1] && name == "answer"
		answered = answered || is
		return is || to.addr == two[1] && name == "shown"
	}
	b := w.boot(two[1])
	w.must(w.runUntil(10*time.Second, func() bool { return slices.Contains(w.procs[third].m.acceptor.Table().Bound(), b.id) }), "not bound")
	for _, addr := range two {
		w.cut[[2]string{addr, third}], w.cut[[2]string{third, addr}] = true, true
		w.breakLink(addr, third)
	}
	w.boot(two[0])
	w.must(w.runUntil(20*time.Second, func() bool { return answered }), "no call")
	w.kill(two[0])
	w.lose = nil
	clear(w.cut)
	w.run(5 * time.Second)
	a := w.boot(two[0])
	w.must(w.runUntil(30*time.Second, func() bool { return a.m.acceptor.Table() != nil && b.m.acceptor.Table() != nil }), "no mesh")
	now := a.m.acceptor.Table()
	equal(t, first.Mesh, now.Mesh)
	for i, s := range now.Shards {
		holds(t, s.Generation == first.Shards[i].Generation || s.Quiet >= quietFor(time.Minute), "shard ", i, " is quiet for ", s.Quiet)
	}
}
