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
	"github.com/lockmesh/mesh/internal/founding"
	"github.com/lockmesh/mesh/transport"
)

// meeting is a world with two meshes of one name.
type meeting struct {
	*world
	lists     [2][]string
	ids       [2]uint64
	revisions map[*proc]uint64 // of the shards' tables, on each node
	raised    bool             // each mesh raises revisions when it is asked to
}

// addrs of letters: "ac" is the first and the third.
func addrsOf(letters string) (list []string) {
	for _, c := range letters {
		list = append(list, fmt.Sprintf("10.0.0.%d:7946", c-'a'+1))
	}
	return list
}

// apart founds two meshes, one after the other, whose lists letters name, while no node of one reaches any of the
// other. The nodes at entries that both have are restarted in between.
func apart(t *testing.T, seed uint64, first, second string) *meeting {
	w := &meeting{world: newWorld(t, seed, 0), lists: [2][]string{addrsOf(first), addrsOf(second)}, revisions: make(map[*proc]uint64), raised: true}
	w.apart = true
	for i, l := range w.lists {
		w.list = l
		for _, addr := range l {
			for _, o := range w.lists[0] {
				if i > 0 && !slices.Contains(l, o) {
					w.cut[[2]string{addr, o}], w.cut[[2]string{o, addr}] = true, true
				}
			}
		}
		for _, addr := range l {
			w.bootAt(addr, 100)
		}
		w.must(w.runUntil(10*time.Second, w.serves), "mesh %d is not founded", i)
		w.ids[i] = w.procs[l[0]].m.acceptor.Table().Mesh
		w.run(3 * time.Second)
	}
	return w
}

// bootAt starts a node whose shards' tables are at a revision.
func (w *meeting) bootAt(addr string, revision uint64) *proc {
	p := w.boot(addr, func(c *Config) {
		c.Wall = time.UnixMilli(w.now.Milliseconds())
		w.revised(c)
	})
	w.revisions[p] = revision
	return p
}

// revised lets a node that starts know, and raise, the revision of its shards' tables.
func (w *meeting) revised(c *Config) {
	id := c.Self.ID
	at := func(int) uint64 {
		p := w.byID[id]
		if p == nil {
			return 0
		}
		if p.m.Raise() >= w.revisions[p] && w.raised {
			w.revisions[p] = p.m.Raise() + 1
		}
		return w.revisions[p]
	}
	c.Known, c.Applied = at, at
}

// meet lets all reach all again, and returns how long it takes after the first contact until all that live know the
// tables of that mesh and no other.
func (w *meeting) meet(within time.Duration, mesh int) time.Duration {
	w.t.Helper()
	clear(w.cut)
	w.must(w.runUntil(10*time.Second, w.inContact), "no contact")
	from := w.now
	w.must(w.runUntil(within, func() bool { return w.allIn(w.ids[mesh]) }), "the mesh of %v does not go on alone", w.lists[mesh])
	return w.now - from
}

// inContact reports whether two nodes of the two meshes are connected.
func (w *meeting) inContact() bool {
	return slices.ContainsFunc(w.living, func(p *proc) bool {
		return slices.ContainsFunc(sorted(p.links), func(id transport.ID) bool {
			o := w.byID[id]
			return p.state.Table != nil && o.state.Table != nil && p.state.Table.Mesh != o.state.Table.Mesh
		})
	})
}

func (w *meeting) allIn(mesh uint64) bool {
	return !slices.ContainsFunc(w.living, func(p *proc) bool { return p.state.Table == nil || p.state.Table.Mesh != mesh })
}

// gaveWay reports whether a node says so.
func (p *proc) gaveWay() bool {
	return slices.Contains(p.logs, "this mesh gives way to another one of its name")
}

// Promise: C10: of two meshes that serve, and have an entry in common, the one that was founded later ends within 3 s of
// contact, on all its nodes and clients, and says so; the other goes on as it was, and gets all its entries back.
func TestTheLaterMeshGivesWay(t *testing.T) {
	for _, lists := range [][2]string{{"abc", "cde"}, {"abc", "c"}, {"abcde", "efghi"}} {
		var all []time.Duration
		for seed := range half(20) {
			w := apart(t, seed, lists[0], lists[1])
			client := w.boot("10.0.1.1:7946", func(c *Config) { c.List = w.lists[1] })
			w.run(3 * time.Second)
			equal(t, w.ids[1], client.state.Table.Mesh)
			before := w.procs[w.lists[0][0]].m.acceptor.Table()
			all = append(all, w.meet(3*time.Second, 0))
			for _, p := range w.living {
				later := p == client || slices.Contains(w.lists[1], p.addr)
				equal(t, later, p.gaveWay(), lists, seed, p.addr)
			}
			w.list, w.apart = w.lists[0], false
			w.must(w.runUntil(5*time.Second, w.serves), "the first mesh does not get its entry back")
			equal(t, before.Stamp.Roll, w.table().Stamp.Roll)
			w.must(w.runUntil(5*time.Second, func() bool { return client.state.Table.Stamp == w.table().Stamp }), "the client does not follow")
			w.run(5 * time.Second)
			holds(t, w.serves() && w.allIn(w.ids[0]), "it is not over", w.waits())
		}
		slices.Sort(all)
		t.Logf("%v: from contact to the end %v, at most %v", lists, all[len(all)/2].Round(time.Millisecond), slices.Max(all).Round(time.Millisecond))
	}
}

// Promise: C10: a mesh that most of its bound do not stand by gives way to one that most stand by, also if it was
// founded first. It need not be raised above.
func TestTheMeshWithoutAMajorityGivesWay(t *testing.T) {
	for _, later := range []bool{false, true} {
		for seed := range half(20) {
			w := apart(t, seed, "abc", "cde")
			w.raised = later // a later mesh waits for it
			if gone := []string{w.lists[0][0], w.lists[1][1]}[b2i(later)]; true {
				w.kill(gone)
			}
			if later {
				w.kill(w.lists[1][2])
			}
			w.meet(5*time.Second, b2i(!later))
		}
	}
}

func b2i(b bool) int {
	if b {
		return 1
	}
	return 0
}

// Promise: C10: where neither has a majority, neither gives way: what they remember is waited for.
func TestNoMeshGivesWayWithoutAMajority(t *testing.T) {
	w := apart(t, 1, "abc", "cde")
	b, c := w.procs[w.lists[0][1]], w.procs[w.lists[1][0]]
	w.kill(w.lists[0][0])
	w.kill(w.lists[1][1])
	w.kill(w.lists[1][2])
	clear(w.cut)
	w.run(20 * time.Second)
	holds(t, w.inContact(), "no contact")
	equal(t, w.ids, [2]uint64{b.m.acceptor.Table().Mesh, c.m.acceptor.Table().Mesh})
	holds(t, !b.gaveWay() && !c.gaveWay(), "one gives way")
	holds(t, strings.Contains(b.m.Waiting(), "no answer at "+w.lists[0][0]), b.m.Waiting())
}

// Promise: C10, G2: a later mesh ends only once all revisions of the earlier one are above its own.
func TestTheEarlierMeshRisesFirst(t *testing.T) {
	w := apart(t, 1, "abc", "cde")
	w.raised = false
	for _, addr := range w.lists[1] {
		w.revisions[w.procs[addr]] = 1 << 50
	}
	clear(w.cut)
	w.run(10 * time.Second)
	for i, l := range w.lists {
		for _, addr := range [][]string{l[:2], l}[i] {
			equal(t, w.ids[i], w.procs[addr].m.acceptor.Table().Mesh, addr)
		}
	}
	holds(t, w.inContact(), "no contact")
	a := w.procs[w.lists[0][0]]
	equal(t, uint64(1<<50+revisionJump), a.m.Raise())
	w.raised = true
	w.meet(4*time.Second, 0)
	holds(t, w.revisions[a] > 1<<50+revisionJump, w.revisions[a])
	equal(t, uint64(1<<50+revisionJump), a.m.Raise(), "raised again")
}

// Promise: C10: a mesh of which only others tell ends none. Who is bound in it is dialled, and says nothing of it.
func TestHearsayEndsNoMesh(t *testing.T) {
	for _, by := range []string{"a client", "a node of the core"} {
		w := founded(t, 3)
		before := w.table()
		earlier := *before
		earlier.Mesh, earlier.Founded, earlier.Stamp = 5, 1, core.Stamp{Roll: core.Ballot{Round: 9, By: 7}}
		earlier.Seats = slices.Clone(before.Seats)
		var liar *proc
		if by == "a client" {
			liar = w.boot("10.0.0.9:7946", func(c *Config) { c.List = w.list })
		} else {
			liar = w.boot(w.list[2])
		}
		earlier.Seats[2].Node.ID = liar.id
		liar.m.acceptor.Learn(&earlier)
		w.run(10 * time.Second)
		for _, addr := range w.list[:2] {
			equal(t, before.Mesh, w.procs[addr].m.acceptor.Table().Mesh, by)
			holds(t, w.procs[addr].m.acceptor.Report().Refused == (core.Ballot{}) || by != "a client", by)
		}
		if by != "a client" {
			equal(t, before.Mesh, liar.m.acceptor.Table().Mesh, "it was in no mesh that most stand by")
			holds(t, liar.gaveWay(), "silently")
		}
	}
}

// moved is a world with two meshes whose lists have no entry in common: the operator has moved the core, and started
// one of its nodes with the new list.
func moved(t *testing.T, seed uint64) (w *meeting, astray *proc) {
	w = apart(t, seed, "abc", "def")
	astray = w.boot(w.lists[0][0], func(c *Config) { c.List = w.lists[1] })
	clear(w.cut)
	return w, astray
}

func (p *proc) alarmed() (n int) {
	for _, l := range p.logs {
		if l == "there is another mesh of this name" {
			n++
		}
	}
	return n
}

// Promise: C10: two meshes of one name without a common entry refuse each other, and both say so again and again.
func TestMeshesWithoutACommonEntry(t *testing.T) {
	w, _ := moved(t, 1)
	w.run(15 * time.Second)
	for i, l := range w.lists {
		for _, addr := range l[1-i:] {
			p := w.procs[addr]
			equal(t, w.ids[i], p.m.acceptor.Table().Mesh, addr)
			holds(t, p.alarmed() == 2 && !p.gaveWay(), addr, "logs it", p.alarmed(), "times")
			holds(t, strings.Contains(p.m.Waiting(), fault.ErrCoreDiffers.Error()), p.m.Waiting())
		}
	}
	w.kill(w.lists[0][1]) // the first has lost its majority, and gives way to none
	w.run(15 * time.Second)
	p := w.procs[w.lists[0][2]]
	equal(t, w.ids[0], p.m.acceptor.Table().Mesh)
	holds(t, p.alarmed() >= 3, "logged", p.alarmed(), "times")
	n := w.procs[w.lists[1][0]].alarmed()
	w.run(20 * time.Second)
	equal(t, n, w.procs[w.lists[1][0]].alarmed(), "the first does not live any more")
}

// Promise: C10: a node that starts with a list of which the mesh at its entries has none ends, and names both lists. A
// client at whose contact points there are two meshes says so, and stays in the one that it found first.
func TestStartedForAnotherCore(t *testing.T) {
	w, astray := moved(t, 1)
	w.kill(w.lists[0][2])
	w.run(2 * time.Second)
	equal(t, w.ids[1], astray.state.Table.Mesh)
	w.list = w.lists[0]
	b := w.boot(w.list[1])
	w.run(3 * time.Second)
	holds(t, errors.Is(b.failed, fault.ErrCoreDiffers), b.failed, b.m.Waiting())
	for _, list := range w.lists {
		holds(t, strings.Contains(fmt.Sprint(b.failed), fmt.Sprintf("%q", list)), b.failed)
	}

	w = apart(t, 1, "abc", "def")
	clear(w.cut)
	for _, addr := range w.lists[1] {
		w.cut[[2]string{"10.0.1.1:7946", addr}] = true
	}
	stays := w.boot("10.0.1.1:7946", func(c *Config) { c.List = slices.Concat(w.lists[0], w.lists[1]) })
	w.run(5 * time.Second)
	clear(w.cut)
	w.run(5 * time.Second)
	equal(t, w.ids[0], stays.state.Table.Mesh)
	holds(t, stays.alarmed() > 0 && stays.failed == nil, stays.failed)
	p := w.boot("10.0.1.2:7946", func(c *Config) { c.List = slices.Concat(w.lists[0], w.lists[1]) })
	w.run(5 * time.Second)
	holds(t, p.alarmed() > 0 && p.state.Table != nil, "it says nothing, or is in no mesh")
}

// Promise: C10, C12: where a name leads to several nodes, each of which found a mesh there, the later mesh ends once a
// node of one reaches one of the other. Where the earlier one has a living node at the same entry, the node ends.
func TestNamesThatLeadToTwoMeshes(t *testing.T) {
	var all []time.Duration
	for seed := range half(20) {
		w := &meeting{world: newWorld(t, seed, 3), revisions: make(map[*proc]uint64), raised: true}
		w.apart, w.list = true, []string{"a.locks:7946", "b.locks:7946", "c.locks:7946"}
		leaks := false
		w.resolve = func(p *proc, addr string) string {
			i := slices.Index(w.list, addr)
			switch second := strings.HasPrefix(p.addr, "10.0.1."); {
			case i < 0:
				return addr
			case second || leaks && p.addr == "10.0.0.1:7946" && i == 1:
				return fmt.Sprintf("10.0.1.%d:7946", i+1)
			}
			return fmt.Sprintf("10.0.0.%d:7946", i+1)
		}
		for side, revision := range []uint64{100, 200} {
			for i := range w.list {
				w.bootAt(fmt.Sprintf("10.0.%d.%d:7946", side, i+1), revision)
			}
			w.run(3 * time.Second)
			w.ids[side] = w.procs[fmt.Sprintf("10.0.%d.1:7946", side)].state.Table.Mesh
		}
		holds(t, w.ids[0] != w.ids[1], "one mesh")
		second := w.procs["10.0.1.1:7946"]
		leaks = true
		w.must(w.runUntil(5*time.Second, w.inContact), "no contact")
		from := w.now
		w.must(w.runUntil(4*time.Second, func() bool { return w.allIn(w.ids[0]) && len(w.living) == 3 }), "the second mesh does not end")
		all = append(all, w.now-from)
		holds(t, errors.Is(second.failed, fault.ErrEntryTaken) && second.gaveWay(), second.failed)
		leaks, w.apart = false, false
		// An entry that led to two nodes does not count for ten dials, a second each, after the one that leads back (C12); that is seen
		// at the next input.
		w.run(13 * time.Second)
		for _, p := range w.living {
			holds(t, p.m.acceptor.Serves(p.m.acceptor.Table().Stamp) == nil && p.m.Waiting() == "", p.m.Waiting())
		}
	}
	slices.Sort(all)
	t.Logf("from contact to the end %v, at most %v", all[len(all)/2].Round(time.Millisecond), slices.Max(all).Round(time.Millisecond))
}

// Promise: C10: a mesh reaches a later one, and that gives way, before the quiet time of that is over, though one node alone is led
// to a node of it, and has nothing to find out.
// Method: the name of c leads a to x, as soon as that is there; b and c go on. x founds a mesh with two others, of whom a and b do not know.
func TestAQuietMeshGivesWay(t *testing.T) {
	met := 0
	for seed := range half(60) {
		w := &meeting{world: newWorld(t, seed, 0), revisions: make(map[*proc]uint64), raised: true}
		w.boots = func(c *Config) { c.Wants = founding.Options{Shards: 4, MaxTTL: time.Second} }
		first, second, x := addrsOf("abc"), addrsOf("cde"), "10.0.0.99:7946"
		w.apart = true
		w.resolve = func(p *proc, addr string) string {
			later := p.addr == x || slices.Contains(second[1:], p.addr)
			if o := w.procs[x]; addr == second[0] && (later || p.addr == first[0] && o != nil) {
				return x
			}
			return addr
		}
		w.list = first
		for _, addr := range first {
			w.bootAt(addr, 100)
		}
		w.must(w.runUntil(10*time.Second, w.serves), "not founded")
		w.run(5*time.Second + w.upTo(2*time.Second))
		before := w.procs[first[0]].m.acceptor.Table().Mesh
		w.list = second
		later := []*proc{w.bootAt(second[1], 100), w.bootAt(second[2], 100), w.bootAt(x, 100)}
		in := func() (n int) {
			for _, p := range later {
				if t := p.m.acceptor.Table(); p.alive && t != nil && t.Mesh != before {
					n++
				}
			}
			return n
		}
		if !w.runUntil(2*time.Second, func() bool { return in() > 0 }) {
			continue // it was reached before it was founded
		}
		met++
		quiet := time.Duration(0)
		for _, p := range later {
			if t := p.m.acceptor.Table(); t != nil && t.Mesh != before {
				quiet = t.Shards[0].Quiet
			}
		}
		w.run(quiet)
		holds(t, in() < 2, "seed", seed, "it grants")
	}
	holds(t, met > int(half(60))/6, "meetings:", met)
}

// Promise: C10: if all seeds of a list but some restart behind a cut from those, they found nothing: they wait, and say
// for whom. Afterwards the mesh goes on.
func TestFoundersBehindACut(t *testing.T) {
	for seed := range half(20) {
		w := newWorld(t, seed, 5)
		for _, addr := range w.list {
			w.boot(addr)
		}
		w.must(w.runUntil(5*time.Second, w.serves), "not founded")
		before := w.table().Mesh
		for _, a := range w.list[:3] {
			for _, b := range w.list[3:] {
				w.cut[[2]string{a, b}], w.cut[[2]string{b, a}] = true, true
				w.breakLink(a, b)
			}
			w.boot(a)
		}
		w.run(30 * time.Second)
		for _, a := range w.list[:3] {
			p := w.procs[a]
			holds(t, p.m.acceptor.Table() == nil && strings.Contains(p.m.Waiting(), "no answer at "+w.list[3]), p.m.Waiting())
		}
		clear(w.cut)
		w.must(w.runUntil(5*time.Second, w.serves), "the mesh does not go on")
		equal(t, before, w.table().Mesh)
	}
}

// A node that hears nothing of most of its mesh, and goes over to a later one, has no way back: when that one gives way in
// turn it ends, and says that it must be started again.
func TestANodeThatWentAstray(t *testing.T) {
	w := apart(t, 1, "abcde", "efg")
	b := w.procs[w.lists[0][1]]
	for _, o := range w.lists[1] {
		w.cut[[2]string{b.addr, o}], w.cut[[2]string{o, b.addr}] = false, false
	}
	for _, i := range []int{0, 2, 3} {
		o := w.lists[0][i]
		w.cut[[2]string{b.addr, o}], w.cut[[2]string{o, b.addr}] = true, true
		w.breakLink(b.addr, o)
	}
	w.must(w.runUntil(10*time.Second, func() bool { return b.state.Table.Mesh == w.ids[1] }), "it does not go over")
	holds(t, b.gaveWay(), "silently")
	w.run(20 * time.Second)
	holds(t, b.failed == nil && w.procs[w.lists[1][1]].state.Table.Mesh == w.ids[1], b.failed)
	clear(w.cut)
	w.must(w.runUntil(10*time.Second, func() bool { return b.failed != nil && w.allIn(w.ids[0]) }), "it does not end")
	holds(t, errors.Is(b.failed, fault.ErrForeignMesh) && strings.Contains(b.failed.Error(), "started again"), b.failed)
	w.list, w.apart = w.lists[0], false
	w.boot(b.addr)
	w.must(w.runUntil(5*time.Second, w.serves), "the first mesh does not get its entries back")
}

// Promise: C10: a mesh that is founded grants nothing for 4 s, however short its leases are: a mesh that has one of its
// entries reaches for that by then. A generation after that time is quiet for as long as leases last.
func TestFoundersListen(t *testing.T) {
	w := newWorld(t, 1, 3)
	for _, addr := range w.list {
		w.boot(addr, func(c *Config) { c.Wants.MaxTTL = time.Second })
	}
	w.must(w.runUntil(5*time.Second, w.serves), "not founded")
	equal(t, 4*time.Second, w.table().Shards[0].Quiet)
	holds(t, w.table().Founded == w.table().Shards[0].Revision && w.table().Founded > 0, "founded", w.table().Founded)
	founded := w.table().Founded
	w.run(4 * time.Second)
	for _, addr := range w.list[1:] {
		w.boot(addr)
	}
	w.must(w.runUntil(5*time.Second, w.serves), "it does not come back")
	equal(t, w.table().Params.Quiet(), w.table().Shards[0].Quiet)
	equal(t, founded, w.table().Founded)
}

// Through restarts, stalls, cuts and lost frames, while nodes of two meshes meet and part again, no two decisions of one
// stamp differ. Once that is over, and all reach all, at most one mesh that has one of the shared entries can decide, and
// if the first has a majority it is that one.
func TestMeetingStorms(t *testing.T) {
	both, ends := 0, map[bool]int{}
	for seed := *first; seed < *first+fewer(*storms); seed++ {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			lists := [][2]string{{"abc", "cde"}, {"abcde", "efg"}, {"abcd", "def"}}[seed%3]
			w := apart(t, seed, lists[0], lists[1])
			all := slices.Compact(slices.Sorted(slices.Values(slices.Concat(w.lists[0], w.lists[1]))))
			w.list = all
			w.keepLists(all)
			w.boots = w.revised
			w.loss, w.twice, w.late = w.rng.IntN(100), w.rng.IntN(100), w.rng.IntN(50)
			often := 500*time.Millisecond + w.upTo(5*time.Second)
			for at := time.Duration(0); at < 20*time.Second; at += w.upTo(2 * often) {
				w.after(at, w.harm)
			}
			w.run(28 * time.Second)
			w.calm()
			w.run(15 * time.Second)
			w.apart = false
			w.run(10 * time.Second)
			w.must(true, "it is not over")
			one := w.procs[w.lists[0][0]].m.acceptor.Table()
			ends[one != nil && one.Mesh == w.ids[0]]++
			if len(w.meshes) > 1 {
				both++
			}
		})
	}
	t.Logf("%d worlds with several meshes; the first goes on: %v", both, ends)
}

// keepLists lets the processes that start at an address have the list that it had before: the second, if it is in that.
func (w *meeting) keepLists(all []string) {
	w.world.lists = make(map[string][]string)
	for _, addr := range all {
		w.world.lists[addr] = w.lists[0]
		if slices.Contains(w.lists[1], addr) {
			w.world.lists[addr] = w.lists[1]
		}
	}
}

// Promise: C10: a client that follows its core into a mesh which that founded by a clock that was set back has not given
// way: it reports what it holds.
func TestAClockThatIsBehindTakesNothing(t *testing.T) {
	w := newWorld(t, 1, 3)
	for _, addr := range w.list {
		w.boot(addr, func(c *Config) { c.Wall = time.UnixMilli(0).Add(time.Hour) })
	}
	w.must(w.runUntil(5*time.Second, w.serves), "not founded")
	client := w.boot("10.0.9.9:7946")
	w.must(w.runUntil(5*time.Second, func() bool { return client.state.Table != nil }), "the client finds no mesh")
	before := client.state.Table
	for _, addr := range w.list {
		w.kill(addr)
		w.cut[[2]string{client.addr, addr}], w.cut[[2]string{addr, client.addr}] = true, true // it tells of no revision in time
	}
	for _, addr := range w.list {
		w.boot(addr, func(c *Config) { c.Wall = time.UnixMilli(1) })
	}
	w.must(w.runUntil(5*time.Second, w.serves), "not founded anew")
	clear(w.cut)
	w.must(w.runUntil(20*time.Second, func() bool { return client.state.Table.Mesh != before.Mesh }), "the client does not follow")
	holds(t, client.state.Table.Before(before), "the next mesh does not look like the earlier one: nothing is tried")
	holds(t, !client.state.Void, "what the client holds is void")
}
