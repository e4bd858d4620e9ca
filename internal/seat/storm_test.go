package seat

import (
	"flag"
	"fmt"
	"os"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lockmesh/mesh/internal/core"
	"github.com/lockmesh/mesh/transport"
)

var (
	storms = flag.Int("storms", 15, "how many random worlds to play")
	first  = flag.Uint64("first", 1, "the seed of the first")
	long   = flag.Bool("long", false, "play all worlds of tests that play many: CI does")
)

// TestMain lets the garbage grow as the command does: worlds make much of it and are small.
func TestMain(m *testing.M) {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(400)
	}
	m.Run()
}

// fewer is how many of n worlds are played: under the race detector one of five, as a world takes ten times as long.
func fewer(n int) uint64 {
	if testing.Short() {
		n = (n + 4) / 5
	}
	return uint64(n)
}

// half is how many of n worlds are played: without -long half of them.
func half(n int) uint64 {
	if !*long {
		n /= 2
	}
	return fewer(n)
}

// Through restarts, stalls, takeovers, cut links and frames that are lost, late or come twice, while shards
// change their voters and are recovered, the judge of the world must find nothing. After it all entries come
// to serve, in the time that follows from the pauses between attempts and the time for which an entry counts
// as heard, each shard gets a majority of its voters back,
// and a client knows the table.
func TestStorms(t *testing.T) {
	for seed := *first; seed < *first+fewer(*storms); seed++ {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			w := newWorld(t, seed, 1+int(seed%7))
			w.toldToo = *storms == 1
			w.storm()
			w.calm()
			w.must(w.runUntil(20*time.Second, w.serves), "the core does not come to serve")
			w.must(w.runUntil(20*time.Second, func() bool { return w.serves() && w.lead() }), "the shards do not come to serve")
			w.must(w.runUntil(20*time.Second, func() bool { return w.serves() && w.followed() }), "a client does not follow")
			w.must(w.forgotten(), "a node remembers others that are gone")
		})
	}
}

// The list changes by rolling restarts, twice, while bad things come to pass: each node is started with the new
// list at some time, and those that were missed are when the storm is over. An entry that goes is not asked:
// its node lives on, or ends.
func TestRollingStorms(t *testing.T) {
	for seed := *first; seed < *first+fewer(*storms/6); seed++ {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			w := newWorld(t, seed, 1+int(seed%6))
			w.toldToo = *storms == 6
			w.lists = map[string][]string{}
			for _, addr := range w.list {
				w.boot(addr)
			}
			w.must(w.runUntil(10*time.Second, w.serves), "not founded")
			for range 2 {
				before := w.list
				w.list = w.nextList()
				for _, addr := range w.addrs() { // what was dropped must not run any more: see C11
					if !slices.Contains(before, addr) {
						w.kill(addr)
					}
				}
				w.roll(before)
				w.must(w.runUntil(30*time.Second, w.inForce), "the list %v does not come into force after %v", w.list, before)
			}
		})
	}
}

// nextList returns the list with one more entry, one less, or both.
func (w *world) nextList() []string {
	list := slices.Clone(w.list)
	n := len(list)
	add, drop := w.rng.IntN(2) == 0, w.rng.IntN(2) == 0
	if add = add || n == 1; drop && n > 1 && (!add || n > 3) {
		i := w.rng.IntN(n)
		list = slices.Delete(list, i, i+1)
	} else {
		add = true
	}
	if add {
		list = append(list, fmt.Sprintf("10.0.0.%d:7946", 10+len(w.byID)))
	}
	slices.Sort(list)
	return list
}

// roll restarts all entries with the new list, in a storm.
func (w *world) roll(before []string) {
	w.note("roll from %v to %v", before, w.list)
	for _, addr := range slices.Concat(before, w.list) {
		if w.lists[addr] = before; !slices.Contains(before, addr) {
			w.lists[addr] = w.list
		}
	}
	for _, addr := range w.list {
		w.after(w.upTo(15*time.Second), func() {
			w.lists[addr] = w.list
			w.boot(addr)
		})
	}
	for _, addr := range before {
		if !slices.Contains(w.list, addr) && w.rng.IntN(2) == 0 {
			w.after(w.upTo(15*time.Second), func() { w.kill(addr) })
		}
	}
	w.weather(15 * time.Second)
	w.run(6 * time.Second) // what was begun may end
	w.calm()
}

// inForce does for the shards what their leaders would, and reports whether a change of the list is complete.
func (w *world) inForce() bool {
	if led := w.lead(); !led || !w.serves() {
		return false
	}
	t := w.table()
	return t.Dropped == 0 && !slices.ContainsFunc(t.Seats, func(s core.Seat) bool { return s.List != strings.Join(w.list, " ") })
}

// storm starts all entries, and does to them what comes to pass in bad minutes.
func (w *world) storm() {
	w.delay = w.upTo(100 * time.Millisecond)
	for _, addr := range w.list {
		w.after(w.upTo(5*time.Second), func() { w.boot(addr) })
	}
	w.after(w.upTo(20*time.Second), func() {
		some := w.list[w.rng.IntN(len(w.list))]
		w.clients = append(w.clients, w.boot("10.0.1.1:7946", func(c *Config) { c.List = []string{some} }))
	})
	w.weather(30 * time.Second)
}

// weather is bad for a while.
func (w *world) weather(d time.Duration) {
	w.place = w.anywhere
	w.loss, w.twice, w.late = w.rng.IntN(100), w.rng.IntN(100), w.rng.IntN(50)
	often := 200*time.Millisecond + w.upTo(3*time.Second)
	for at := time.Duration(0); at < d; at += w.upTo(2 * often) {
		w.after(at, w.harm)
	}
	w.run(d)
}

// anywhere is place with any voters: those of two generations need not be the same.
func (w *world) anywhere(seats []core.Seat, _, replicas int) []transport.ID {
	return place(seats, w.rng.IntN(len(seats)), replicas)
}

// harm does one bad thing.
func (w *world) harm() {
	a, b := w.list[w.rng.IntN(len(w.list))], w.list[w.rng.IntN(len(w.list))]
	switch p := w.procs[a]; w.rng.IntN(15) {
	case 0, 1:
		w.boot(a)
	case 2:
		w.kill(a)
		w.after(w.upTo(3*time.Second), func() { w.declare(a, b) })
		w.after(w.upTo(5*time.Second), func() { w.boot(a) })
	case 3: // most at once
		for _, addr := range w.list {
			if w.rng.IntN(3) > 0 {
				w.boot(addr)
			}
		}
	case 4:
		if p != nil && p.alive {
			p.paused = max(p.paused, w.now+w.upTo(5*time.Second)) // what it missed waits for the end of the longer stall
			w.note("%s stalls until %v", a, p.paused)
		}
	case 5:
		w.note("cut %s -> %s", a, b)
		w.cut[[2]string{a, b}] = a != b
		w.breakLink(a, b)
	case 6:
		w.split()
	case 7:
		w.usurp(a)
	case 8, 9, 10, 11:
		if p != nil && p.alive && p.state.Table != nil {
			c := w.someChange(p.state.Table)
			w.note("%s wants %+v", a, c)
			w.do(p, func() []Output { return p.m.Change(w.now, c, nil) })
		}
	default:
		w.note("healed")
		clear(w.cut)
	}
}

// declare lets an operator tell one node that the process at an address has ended, if that is true.
func (w *world) declare(addr, to string) {
	p := w.procs[to]
	if p == nil || !p.alive || w.now < p.paused || slices.ContainsFunc(w.living, func(o *proc) bool { return o.addr == addr }) {
		return
	}
	w.do(p, func() []Output {
		_, out, err := p.m.DeclareDead(w.now, addr, nil)
		w.note("%s is told that %s has ended: %v", to, addr, err)
		return out
	})
}

// split cuts some entries off from the others, but not from each other.
func (w *world) split() {
	some := map[string]bool{}
	for range 1 + w.rng.IntN(1+len(w.list)/2) {
		some[w.list[w.rng.IntN(len(w.list))]] = true
	}
	w.note("cut off: %v", some)
	for _, a := range w.list {
		for _, b := range w.list {
			if some[a] && !some[b] {
				w.cut[[2]string{a, b}], w.cut[[2]string{b, a}] = true, true
				w.breakLink(a, b)
			}
		}
	}
}

// usurp starts another process at the address of one that stalls, for longer than a stall goes unnoticed.
func (w *world) usurp(addr string) {
	p := w.procs[addr]
	if p == nil || !p.alive {
		return
	}
	p.paused = max(p.paused, w.now+3*time.Second+w.upTo(5*time.Second))
	w.note("%s stalls until %v, and another takes its address", addr, p.paused)
	for _, id := range sorted(p.links) {
		w.hangUp(w.byID[id], p, w.upTo(3*time.Second))
	}
	delete(w.procs, addr)
	w.boot(addr)
}

// someChange is what a shard may want: its leader says that a change was made, or was not.
func (w *world) someChange(t *core.Table) Change {
	i := w.rng.IntN(len(t.Shards))
	s := t.Shards[i]
	to := t.Bound()
	w.rng.Shuffle(len(to), func(i, j int) { to[i], to[j] = to[j], to[i] })
	to = to[:min(len(to), 2+w.rng.IntN(2))]
	slices.Sort(to)
	switch {
	case w.rng.IntN(3) == 0:
		return Recover{i, s.Generation, to}
	case s.Next != nil:
		return Settle{i, s.Generation, s.Move, w.rng.IntN(2) == 0}
	default:
		return Move{i, s.Generation, to}
	}
}

// lead does for the shards what their leaders would, or those that miss one: a generation without a
// majority is recovered, and voters move to their places, once in a second. It reports whether all is done.
func (w *world) lead() bool {
	var t *core.Table
	var p *proc
	for _, addr := range w.list {
		o := w.procs[addr]
		if own := o.m.acceptor.Table(); own != nil && o.m.acceptor.Serves(own.Stamp) == nil && (t == nil || own.Stamp.Compare(t.Stamp) > 0) {
			t, p = own, o
		}
	}
	if t == nil || w.now < w.led+time.Second {
		return false
	}
	w.led = w.now
	done := true
	living := slices.DeleteFunc(slices.Clone(t.Seats), func(s core.Seat) bool {
		o := w.byID[s.Node.ID]
		return o == nil || !o.alive // who is silent is given no vote
	})
	for i, s := range t.Shards {
		var c Change
		switch to := place(living, i, t.Params.Replicas); {
		case !w.commits(life{i, s.Generation}):
			c = Recover{i, s.Generation, to}
		case s.Next != nil:
			c = Settle{i, s.Generation, s.Move, true}
		case !slices.Equal(s.Voters, to):
			c = Move{i, s.Generation, to}
		default:
			continue
		}
		done = false
		w.do(p, func() []Output { return p.m.Change(w.now, c, nil) })
	}
	return done
}

// followed reports whether all clients know the table.
func (w *world) followed() bool {
	return !slices.ContainsFunc(w.clients, func(p *proc) bool {
		return !p.alive || p.state.Table == nil || p.state.Table.Stamp != w.table().Stamp
	})
}

// forgotten reports whether no node remembers more of others than their connections and its entries.
func (w *world) forgotten() bool {
	return !slices.ContainsFunc(w.living, func(p *proc) bool {
		for id := range p.m.book.peers {
			if _, ok := p.links[id]; !ok && p.m.book.entryOf(id) == nil && w.now >= p.paused {
				return true
			}
		}
		return len(p.m.book.entries) > len(w.list)
	})
}

// calm ends what is bad, and starts what does not run.
func (w *world) calm() {
	w.note("calm")
	clear(w.cut)
	w.loss, w.twice, w.late = 0, 0, 0
	for _, addr := range w.list {
		if p := w.procs[addr]; p == nil || !p.alive {
			w.boot(addr)
		}
	}
}
