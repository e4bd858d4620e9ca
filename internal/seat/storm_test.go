package seat

import (
	"flag"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/lockmesh/mesh/internal/core"
)

var (
	storms = flag.Int("storms", 40, "how many random worlds to play")
	first  = flag.Uint64("first", 1, "the seed of the first")
)

// Through restarts, stalls, takeovers, cut links and frames that are lost, late or come twice, while shards
// change their voters and are recovered, the judge of the world must find nothing. After it all entries come
// to serve, in the time that follows from the pauses between attempts and the time for which an entry counts
// as heard, each shard gets a majority of its voters back,
// and a client knows the table.
func TestStorms(t *testing.T) {
	for seed := *first; seed < *first+uint64(*storms); seed++ {
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

// storm starts all entries, and does to them what comes to pass in bad minutes.
func (w *world) storm() {
	w.loss, w.twice, w.late = w.rng.IntN(100), w.rng.IntN(100), w.rng.IntN(50)
	w.delay = w.upTo(100 * time.Millisecond)
	for _, addr := range w.list {
		w.after(w.upTo(5*time.Second), func() { w.boot(addr) })
	}
	w.after(w.upTo(20*time.Second), func() {
		some := w.list[w.rng.IntN(len(w.list))]
		w.clients = append(w.clients, w.boot("10.0.1.1:7946", func(c *Config) { c.List = []string{some} }))
	})
	often := 200*time.Millisecond + w.upTo(3*time.Second)
	for at := time.Duration(0); at < 40*time.Second; at += w.upTo(2 * often) {
		w.after(at, w.harm)
	}
	w.run(40 * time.Second)
}

// harm does one bad thing.
func (w *world) harm() {
	a, b := w.list[w.rng.IntN(len(w.list))], w.list[w.rng.IntN(len(w.list))]
	switch p := w.procs[a]; w.rng.IntN(15) {
	case 0, 1:
		w.boot(a)
	case 2:
		w.kill(a)
		w.after(w.upTo(5*time.Second), func() { w.boot(a) })
	case 3: // most at once
		for _, addr := range w.list {
			if w.rng.IntN(3) > 0 {
				w.boot(addr)
			}
		}
	case 4:
		if p != nil && p.alive {
			p.paused = w.now + w.upTo(5*time.Second)
			w.note("%s stalls until %v", a, p.paused)
		}
	case 5:
		w.note("cut %s -> %s", a, b)
		w.cut[[2]string{a, b}] = a != b
		w.breakLink(a, b)
	case 6:
		w.note("cut off: %s", a)
		for _, o := range w.list {
			w.cut[[2]string{a, o}], w.cut[[2]string{o, a}] = a != o, a != o
			w.breakLink(a, o)
		}
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

// usurp starts another process at the address of one that stalls, for longer than a stall goes unnoticed.
func (w *world) usurp(addr string) {
	p := w.procs[addr]
	if p == nil || !p.alive {
		return
	}
	p.paused = w.now + 3*time.Second + w.upTo(5*time.Second)
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
	switch to := t.Bound(); {
	case w.rng.IntN(3) == 0:
		return Recover{i, s.Generation}
	case s.Next != nil:
		return Settle{i, s.Generation, s.Move, w.rng.IntN(2) == 0}
	default:
		w.rng.Shuffle(len(to), func(i, j int) { to[i], to[j] = to[j], to[i] })
		to = to[:min(len(to), 2+w.rng.IntN(2))]
		slices.Sort(to)
		return Move{i, s.Generation, to}
	}
}

// lead does for the shards what their leaders would, or those that miss one: a generation without a
// majority is recovered, and voters move to their places. It reports whether all is done.
func (w *world) lead() bool {
	t, p := w.table(), w.procs[w.list[0]]
	done := true
	for i, s := range t.Shards {
		var c Change
		switch to := place(t.Seats, i, t.Params.Replicas); {
		case !w.commits(life{i, s.Generation}):
			c = Recover{i, s.Generation}
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
