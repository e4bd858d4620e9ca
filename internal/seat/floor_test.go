package seat

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/lockmesh/mesh/internal/core"
	"github.com/lockmesh/mesh/internal/fault"
	"github.com/lockmesh/mesh/internal/founding"
)

// A generation's tables begin above all revisions that are told, and above each one's time of day. If that is not
// above the revisions, they begin above these: a little, if the revisions are at most a second ahead, else by the step, as some
// are not told.
func TestEndow(t *testing.T) {
	const step = 1 << 20
	clock := uint64(time.Hour.Milliseconds()) << 10
	p := founding.Params{MaxTTL: 10 * time.Second, Rho: 100}
	for _, tt := range []struct {
		name   string
		before uint64
		all    []floors
		want   uint64
	}{
		{"nobody knows of any", 0, nil, clock},
		{"another one's time is later", 0, []floors{{Clock: 1}, {Clock: clock + 5}}, clock + 5},
		{"lower ones are known", 7, []floors{{Known: []uint64{0, 9}}}, clock},
		{"a higher one is known", 7, []floors{{Known: []uint64{0, clock + 9}}, {Known: []uint64{0, clock + 3}}}, clock + 9 + unheard},
		{"that of the generation before is of this moment", clock, nil, clock + unheard},
		{"it is of the next second", clock + sameTime, nil, clock + sameTime + unheard},
		{"it is later", clock + sameTime + 1, nil, clock + sameTime + 1 + step},
		{"a later one is known", 7, []floors{{Known: []uint64{0, clock + 2*sameTime}}}, clock + 2*sameTime + step},
		{"of another shard", 7, []floors{{Known: []uint64{clock + 9}}}, clock},
	} {
		m := New(Config{Wall: time.UnixMilli(0)})
		m.started, m.last = time.Minute, time.Minute+time.Hour
		var s core.Shard
		m.endow(&s, &core.Shard{Revision: tt.before}, p, 1, tt.all, step)
		equal(t, tt.want, s.Revision, tt.name)
		equal(t, 10200*time.Millisecond, s.Quiet, tt.name)
	}
}

// The time of day is set right after a node has started: what begins goes by that. If it is set back, it counts as it was.
func TestAClockThatIsSet(t *testing.T) {
	for _, tt := range []struct {
		now  time.Duration // after the time of day at the start
		want uint64
	}{{time.Hour, 3_600_000 << 10}, {time.Minute, 60_000 << 10}, {30 * time.Second, 60_000 << 10}, {-time.Hour, 60_000 << 10}} {
		m := New(Config{Wall: time.UnixMilli(0), Clock: func() time.Time { return time.UnixMilli(tt.now.Milliseconds()) }})
		m.last = time.Minute
		equal(t, tt.want, m.clock(), tt.now)
	}
}

// A node that has not heard most of the others for a while tells of revisions that have risen as time has.
func TestRevisionsRiseUnheard(t *testing.T) {
	const clock = 3_600_000 << 10
	for _, tt := range []struct {
		name  string
		known uint64
		alone time.Duration
		want  uint64
	}{
		{"it knows of none", 0, time.Minute, 0},
		{"it hears the others", clock, 0, clock},
		{"it has not for a while", clock, 40 * time.Second, clock + 40*sameTime},
		{"it is as high as can be", maxFloor, time.Hour, maxFloor},
	} {
		m := New(Config{Wall: time.UnixMilli(0)})
		m.last = time.Hour
		m.among = m.last - tt.alone
		equal(t, tt.want, m.risen(tt.known), tt.name)
	}
}

// ahead starts all nodes, with right clocks but for one, which is ahead by d whenever its node starts.
func (w *world) ahead(addr string, d time.Duration) {
	w.boots = func(c *Config) {
		if c.Wall = time.UnixMilli(0).Add(time.Hour + w.now); c.Self.Addr == addr {
			c.Wall = c.Wall.Add(d)
		}
	}
	for _, a := range w.list {
		w.boot(a)
	}
}

// One node's clock is ahead. Another node is cut off for two minutes, and then all others end that have begun a generation by that
// clock. They come back with good clocks: the next generation begins above that one nevertheless.
func TestRevisionsOfWhichNoneIsLeftToTell(t *testing.T) {
	w := newWorld(t, 1, 5)
	last := w.list[4]
	w.ahead(w.list[0], 50*time.Second)
	w.must(w.runUntil(5*time.Second, w.serves), "not founded")
	w.isolate(last)
	w.run(2 * time.Minute)
	shard := slices.IndexFunc(w.table().Shards, func(s core.Shard) bool { return slices.Contains(s.Voters, w.procs[w.list[0]].id) })
	before := w.again(w.procs[w.list[1]], shard).Revision
	for _, addr := range w.list[:4] {
		w.kill(addr)
	}
	clear(w.cut)
	w.boots = func(c *Config) { c.Wall = time.UnixMilli(0).Add(time.Hour + w.now) }
	for _, addr := range w.list[:4] {
		w.boot(addr)
	}
	w.must(w.runUntil(10*time.Second, w.serves), "it does not come back")
	next := w.table().Shards[shard].Revision
	holds(t, next > before, "the shard begins with", next, "which is not above", before)
}

// Where clocks are a minute apart, a roll call goes as far above what is known: a node whose clock was further ahead yet began a generation
// of which the only one that is left has not heard.
func TestRollCallsGoFarAboveWhatIsKnown(t *testing.T) {
	ahead := 50 * time.Second
	w := newWorld(t, 1, 5)
	first, last := w.list[0], w.list[4]
	w.boots = func(c *Config) {
		if c.Wall = time.UnixMilli(0).Add(time.Hour + w.now); c.Self.Addr == first {
			c.Wall = c.Wall.Add(ahead)
		}
	}
	for _, addr := range w.list {
		w.boot(addr)
	}
	w.must(w.runUntil(5*time.Second, w.serves), "not founded")
	shard := slices.IndexFunc(w.table().Shards, func(s core.Shard) bool { return slices.Contains(s.Voters, w.procs[first].id) })
	w.isolate(last)
	ahead = 90 * time.Second
	p := w.boot(first)
	w.must(w.runUntil(5*time.Second, func() bool { return p.state.Table != nil && slices.Contains(p.state.Table.Bound(), p.id) }), "no seat")
	before := w.again(p, shard).Revision
	for _, addr := range w.list[:4] {
		w.kill(addr)
	}
	clear(w.cut)
	ahead = 0
	for _, addr := range w.list[:4] {
		w.boot(addr)
	}
	w.must(w.runUntil(10*time.Second, w.serves), "it does not come back")
	next := w.table().Shards[shard].Revision
	holds(t, next > before, "the shard begins with", next, "which is not above", before)
}

// A mesh is founded after another one of its name, whose revisions are ahead of all clocks. Of that one nobody knows each generation.
func TestFoundersGoFarAboveWhatIsKnown(t *testing.T) {
	const known uint64 = 1 << 52
	w := newWorld(t, 1, 3)
	for i, addr := range w.list {
		w.boot(addr, func(c *Config) {
			if i == 1 {
				c.Floor = known
			}
		})
	}
	w.must(w.runUntil(5*time.Second, w.serves), "not founded")
	for _, s := range w.table().Shards {
		equal(t, known+revisionJump, s.Revision)
	}
}

// One node's clock is seconds ahead. It is cut off, and of the others so many remember that they know of each generation there may be.
// A roll call then stays below the first one's clock: it alone is left to tell when all others end, and has not heard of that generation.
func TestRollCallsOfThoseThatKnowEachGeneration(t *testing.T) {
	const shard = 0
	w := newWorld(t, 1, 4)
	first := w.list[0]
	w.ahead(first, 12*time.Second)
	w.must(w.runUntil(5*time.Second, w.serves), "not founded")
	w.isolate(first)
	w.boot(w.list[1])
	other := w.procs[w.list[2]]
	founded := other.m.acceptor.Table().Shards[shard]
	again := func() bool { return other.m.acceptor.Table().Shards[shard].Generation != founded.Generation }
	w.must(w.runUntil(10*time.Second, again), "no roll call")
	before := other.m.acceptor.Table().Shards[shard].Revision
	for _, addr := range w.list[1:] {
		w.kill(addr)
	}
	w.run(10 * time.Second)
	clear(w.cut)
	for _, addr := range w.list[1:] {
		w.boot(addr)
	}
	w.must(w.runUntil(10*time.Second, w.serves), "it does not come back")
	next := w.table().Shards[shard].Revision
	holds(t, next > before && before > founded.Revision, "the shard begins with", next, "after", before, "and", founded.Revision)
}

// Where all clocks are right, revisions stay near them, whatever the one has heard that is left to tell: else tokens fall if the
// whole fleet restarts soon after.
func TestRevisionsStayNearRightClocks(t *testing.T) {
	const shard = 0
	for _, tt := range []struct {
		name string
		play func(w *world, lead func(known func() uint64)) // until the core has forgotten, and all are back
	}{
		{"one hears another one alone, and of a new generation by that", func(w *world, _ func(func() uint64)) {
			for _, addr := range w.list {
				w.boot(addr)
			}
			w.must(w.runUntil(5*time.Second, w.serves), "not founded")
			one, other := w.list[4], w.list[1]
			for _, addr := range w.list[:4] {
				if addr != other {
					w.cut[[2]string{addr, one}], w.cut[[2]string{one, addr}] = true, true
					w.breakLink(addr, one)
				}
			}
			w.run(10 * time.Minute)
			w.again(w.procs[other], shard)
			w.run(time.Second)
			for _, addr := range w.list[:4] {
				w.kill(addr)
			}
			clear(w.cut)
			for _, addr := range w.list[:4] {
				w.boot(addr)
			}
		}},
		{"two of five serve their shard for long", func(w *world, lead func(func() uint64)) {
			for _, addr := range w.list {
				w.boot(addr)
			}
			w.must(w.runUntil(5*time.Second, w.serves), "not founded")
			first, since := w.again(w.procs[w.list[0]], shard).Revision, w.now
			lead(func() uint64 { return first + uint64((w.now-since)/time.Second)*12_000 })
			w.run(time.Second)
			for _, addr := range w.list[2:] {
				w.kill(addr)
			}
			w.run(10 * time.Minute)
			for _, addr := range w.list[2:] {
				w.boot(addr)
			}
		}},
		{"the mesh is young, and was waited for", func(w *world, _ func(func() uint64)) {
			for _, addr := range w.list[1:] {
				w.boot(addr)
			}
			w.run(10 * time.Minute)
			w.boot(w.list[0])
			one := func() int {
				return slices.IndexFunc(w.living, func(p *proc) bool { return p.m.acceptor.Table() != nil })
			}
			w.must(w.runUntil(5*time.Second, func() bool { return one() >= 0 }), "not founded")
			knows := w.living[one()].addr
			for _, addr := range w.list {
				if addr != knows {
					w.boot(addr)
				}
			}
		}},
	} {
		w := newWorld(t, 1, 5)
		lead := func() uint64 { return 0 }
		w.boots = func(c *Config) {
			born := w.now
			c.Wall = time.UnixMilli(0).Add(time.Hour + w.now)
			c.Known = func(i int) uint64 {
				if i == shard && born == 0 && (c.Self.Addr == w.list[0] || c.Self.Addr == w.list[1]) {
					return lead()
				}
				return 0
			}
		}
		tt.play(w, func(known func() uint64) { lead = known })
		w.must(w.runUntil(10*time.Second, w.serves), "%s: it does not come back", tt.name)
		clock := uint64((time.Hour + w.now).Milliseconds()) << 10
		began := w.table().Shards[shard].Revision
		holds(t, began < clock+2*sameTime, tt.name, "ahead of all clocks by", time.Duration((began-clock)>>10)*time.Millisecond)
	}
}

// Where clocks are seconds apart, a generation begins above one that no node is left to tell of.
func TestRevisionsWhereClocksDiffer(t *testing.T) {
	const shard = 1
	w := newWorld(t, 1, 3)
	ahead := w.list[2]
	w.ahead(ahead, 12*time.Second)
	w.must(w.runUntil(5*time.Second, w.serves), "not founded")
	a, b := w.procs[w.list[0]], w.procs[w.list[1]]
	for _, o := range []*proc{a, b} {
		w.cut[[2]string{o.addr, ahead}], w.cut[[2]string{ahead, o.addr}] = true, true
		w.breakLink(o.addr, ahead)
	}
	w.run(4 * time.Second)
	first := w.table().Shards[shard].Revision
	second := w.again(a, shard).Revision
	holds(t, second > first, first, second)
	w.kill(a.addr)
	w.kill(b.addr)
	clear(w.cut)
	w.boot(a.addr)
	w.boot(b.addr)
	w.must(w.runUntil(10*time.Second, w.serves), "it does not come back")
	last := w.table().Shards[shard].Revision
	holds(t, last > second, "the shard begins with", last, "which is not above", second)
}

// A fresh mesh is quiet, but not on loopback; each generation after it is. And its number of moves begins anew.
func TestQuietMeshes(t *testing.T) {
	for _, addr := range []string{"10.0.0.1:7946", "127.0.0.1:7946"} {
		w := newWorld(t, 1, 0)
		w.list = []string{addr, addr[:len(addr)-1] + "7", addr[:len(addr)-1] + "8"}
		for _, a := range w.list {
			w.boot(a)
		}
		w.must(w.runUntil(5*time.Second, w.serves), "not founded")
		quiet := time.Duration(float64(w.table().Params.MaxTTL) * (1 + 2*float64(w.table().Params.Rho)/1e4))
		for _, s := range w.table().Shards {
			equal(t, addr[:3] != "127", s.Quiet == quiet, "a fresh mesh at", addr)
			equal(t, addr[:3] == "127", s.Quiet == 0, "a fresh mesh at", addr)
		}
		s, bound := w.table().Shards[0], w.table().Bound()
		w.change(w.list[0], Move{0, s.Generation, bound[:2]}, func(t *core.Table) bool { return t.Shards[0].Move == 1 })
		before := w.table()
		for _, a := range w.list[1:] {
			w.boot(a)
		}
		w.must(w.runUntil(5*time.Second, w.serves), "it does not come back")
		after := w.table()
		equal(t, before.Mesh, after.Mesh)
		for i, s := range after.Shards {
			holds(t, s.Generation.Name() != before.Shards[i].Generation.Name(), "two generations of one name")
			holds(t, s.Quiet == quiet && s.Revision > before.Shards[i].Revision, "it begins with", s)
			holds(t, s.Move == 0 && s.Next == nil, "moves of the generation before count:", s)
		}
	}
}

// Promise: P17, C7: what clients of the core have heard of is told to it: a new generation begins above that.
func TestRevisionsThatClientsKnowOf(t *testing.T) {
	const known = 1 << 50
	w := founded(t, 3)
	w.boot("10.0.0.9:7946", func(c *Config) { c.Known = func(int) uint64 { return known } })
	told := func() bool {
		for _, a := range w.list {
			if w.procs[a].m.Floor() != known {
				return false
			}
		}
		return true
	}
	w.must(w.runUntil(5*time.Second, told), "the core does not hear of it")
	w.kill("10.0.0.9:7946")
	for _, a := range w.list[1:] {
		w.boot(a)
	}
	w.must(w.runUntil(5*time.Second, w.serves), "it does not come back")
	for _, s := range w.table().Shards {
		holds(t, s.Revision > known, "it begins with", s.Revision)
	}
}

// Promise: C5: a mesh on loopback is quiet if clients of an earlier one are around: they hold its locks.
func TestQuietForClientsOnLoopback(t *testing.T) {
	for seed := range uint64(20) {
		w := newWorld(t, seed, 0)
		w.delay = time.Millisecond
		w.list = []string{"127.0.0.1:7946", "127.0.0.1:7947", "127.0.0.1:7948"}
		boot := func() {
			for _, a := range w.list {
				w.boot(a)
			}
			w.must(w.runUntil(5*time.Second, w.serves), "not founded")
		}
		boot()
		client := w.boot("127.0.0.1:7949", func(c *Config) { c.Known = func(int) uint64 { return 7 } })
		w.must(w.runUntil(5*time.Second, func() bool { return client.state.Table != nil }), "the client knows no table")
		first := w.table().Mesh
		boot()
		holds(t, w.table().Mesh != first, "it is the mesh before")
		for _, s := range w.table().Shards {
			equal(t, w.table().Params.Quiet(), s.Quiet, "seed", seed)
		}
	}
}

// Promise: P35: a mesh on loopback is quiet for the leases of an earlier one that a state directory knows of, though no
// client of that dials, no revision of it was saved yet, and its leases were not longer.
func TestQuietForStateDirectoriesOnLoopback(t *testing.T) {
	for _, earlier := range []time.Duration{0, time.Second, 20 * time.Second} {
		for seed := range uint64(6) {
			w := newWorld(t, seed, 0)
			w.list = []string{"127.0.0.1:7946", "127.0.0.1:7947", "127.0.0.1:7948"}
			for i, a := range w.list {
				w.boot(a, func(c *Config) {
					if i == 1 {
						c.Quiet = earlier
					}
				})
			}
			w.must(w.runUntil(5*time.Second, w.serves), "not founded")
			want := time.Duration(0)
			if earlier > 0 {
				want = max(earlier, w.table().Params.Quiet())
			}
			for _, s := range w.table().Shards {
				equal(t, want, s.Quiet, "seed", seed, "earlier", earlier)
			}
		}
	}
}

// Promise: C14: one entry is an error, unless it is on loopback, or the user wants it.
func TestOneEntry(t *testing.T) {
	for _, tt := range []struct {
		list  []string
		found bool
		fails bool
	}{
		{[]string{"10.0.0.1:7946"}, false, true},
		{[]string{"10.0.0.1:7946"}, true, false},
		{[]string{"127.0.0.1:7946"}, false, false},
		{[]string{"10.0.0.1:7946", "10.0.0.2:7946"}, false, false},
	} {
		w := newWorld(t, 1, 0)
		w.list = tt.list
		for _, a := range tt.list {
			w.boot(a, func(c *Config) { c.Found = tt.found })
		}
		w.run(5 * time.Second)
		p := w.procs[tt.list[0]]
		equal(t, tt.fails, errors.Is(p.failed, fault.ErrInvalidOption), tt.list, tt.found, p.failed)
		equal(t, !tt.fails, p.state.Table != nil, tt.list, tt.found)
	}
}

// Each part of a generation counts for its name.
func TestGenerationNames(t *testing.T) {
	seen := make(map[uint64]core.Generation)
	for _, g := range []core.Generation{
		{}, {Number: 1}, {Core: core.Ballot{Round: 1}}, {Core: core.Ballot{By: 1}}, {Core: core.Ballot{Round: 1}, Number: 1}, {Core: core.Ballot{Round: 1, By: 1}, Number: 1},
	} {
		o, twice := seen[g.Name()]
		holds(t, !twice, "one name:", g, o)
		seen[g.Name()] = g
	}
}

// Promise: C5: what a node's state directory remembers of an earlier mesh holds for the mesh that is founded now, and
// for generations that begin before the time has passed in it; then no more.
func TestQuietOfAnEarlierMesh(t *testing.T) {
	const long = 20 * time.Second
	w := newWorld(t, 1, 3)
	var floor uint64 = 1 << 52
	w.boot(w.list[0])
	c := w.boot(w.list[1], func(c *Config) { c.Quiet, c.Floor = long, floor })
	w.boot(w.list[2])
	w.must(w.runUntil(5*time.Second, w.serves), "not founded")
	for _, s := range w.table().Shards {
		holds(t, s.Quiet == long && s.Revision > floor, "it begins with", s.Quiet, s.Revision)
	}
	equal(t, long, c.m.Quiet())
	equal(t, long, w.procs[w.list[0]].m.Quiet(), "as the table says")
	again := func(p *proc, shard int) core.Shard {
		t.Helper()
		s := w.table().Shards[shard]
		w.do(p, func() []Output { return p.m.Change(w.now, Recover{shard, s.Generation, w.table().Bound()}, nil) })
		w.must(w.runUntil(5*time.Second, func() bool { return w.serves() && w.table().Shards[shard].Generation != s.Generation }), "shard %d", shard)
		return w.table().Shards[shard]
	}
	w.boot(w.list[0]) // it knows of no earlier mesh
	w.must(w.runUntil(5*time.Second, w.serves), "it gets no seat")
	equal(t, long, again(w.procs[w.list[2]], 0).Quiet)
	w.run(2 * time.Second)
	for _, addr := range w.list {
		equal(t, long, w.procs[addr].m.Quiet(), "nobody knows that it is over")
	}
	w.run(2*long + time.Second)
	p := w.table().Params
	equal(t, p.Quiet(), again(w.procs[w.list[1]], 1).Quiet)
	equal(t, p.Quiet(), c.m.Quiet())
}

// A mesh that begins again and again is quiet for the leases of an earlier mesh once: a node that starts does not count that
// time from its own start, if another one knows that it is over.
func TestEarlierLeasesEndOnce(t *testing.T) {
	const long = 20 * time.Second
	w := newWorld(t, 1, 3)
	w.boot(w.list[0])
	w.boot(w.list[1], func(c *Config) { c.Quiet = long })
	w.boot(w.list[2])
	w.must(w.runUntil(5*time.Second, w.serves), "not founded")
	w.run(2 * long)
	for range 2 {
		w.boot(w.list[0])
		w.must(w.runUntil(10*time.Second, w.serves), "not again")
		w.run(2 * time.Second)
		w.kill(w.list[1])
		w.kill(w.list[2])
		w.boot(w.list[1])
		w.boot(w.list[2])
		w.must(w.runUntil(10*time.Second, w.serves), "not again")
		w.must(w.table().Stamp.Roll.Round > 1 && w.table().Shards[0].Quiet == w.table().Params.Quiet(), "quiet for %v", w.table().Shards[0].Quiet)
		w.run(long)
	}
}
