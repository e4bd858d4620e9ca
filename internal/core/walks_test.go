package core

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
)

// rolls are lists that follow each other.
func rolls() [][]string {
	return [][]string{
		{"abc", "abd"}, {"abc", "abcd"}, {"abcd", "abc"}, {"abc", "abd", "aed"}, {"ab", "abc"}, {"ab", "ac"}, {"abc", "ab"}, {"abc", "abd", "abcd"},
		{"abcde", "abcd", "abcf"}, {"abc", "abcd", "abcde"}, {"a", "ab", "b"}, {"abcd", "abce", "abfe"},
	}
}

// names returns the entries of lists.
func names(lists []string) string {
	all := []rune(strings.Join(lists, ""))
	slices.Sort(all)
	return string(slices.Compact(all))
}

// what returns the kind of a version that was made out of another.
func what(t, from *Table) string {
	s, was := &t.Shards[0], &from.Shards[0]
	switch p, before := t.Params, from.Params; {
	case p.Longest == 0 && before.Longest != 0 && p.MaxTTL == before.MaxTTL && p.Raise == before.Raise:
		return kinds[outlive]
	case p.Raise == 0 && before.Raise != 0 && p.MaxTTL == before.Raise:
		return kinds[raise]
	case p != before:
		return kinds[ttl]
	case s.Calm && s.Generation == was.Generation && !was.Calm:
		return kinds[calm]
	case !slices.Equal(t.List(), from.List()):
		return kinds[relist]
	case s.Generation != was.Generation:
		return kinds[recovery]
	case s.Move != was.Move:
		return kinds[move]
	case was.Next != nil && s.Next == nil:
		return kinds[settle]
	case slices.Equal(t.Bound(), from.Bound()) && len(t.Living()) < len(from.Living()):
		return kinds[end]
	case slices.Equal(t.Bound(), from.Bound()):
		return kinds[start]
	case len(t.Bound()) < len(from.Bound()):
		return kinds[vacate]
	}
	return kinds[bind]
}

// walked is what walks met, and what the first of them that failed was and said.
type walked struct {
	met     map[string]int
	longest int
	failed  int
	names   []string
	why     string
}

// TestWalks walks at random, far beyond what can be explored.
func TestWalks(t *testing.T) {
	if testing.Short() {
		*walks = min(*walks, 500)
	}
	var halves [2]walked // the even and the odd, at once
	var wg sync.WaitGroup
	for i := range halves {
		wg.Go(func() { halves[i] = walkEach(*walk+i, *walk+*walks, len(halves)) })
	}
	wg.Wait()
	met, longest := make(map[string]int), 0
	slices.SortFunc(halves[:], func(a, b walked) int { return cmp.Compare(a.failed, b.failed) })
	for _, h := range halves {
		if h.why != "" {
			for _, s := range h.names {
				t.Log(s)
			}
			t.Fatalf("walk %d: %s", h.failed, h.why)
		}
		for k, n := range h.met {
			met[k] += n
		}
		longest = max(longest, h.longest)
	}
	for _, rare := range append(slices.Clone(kinds), "a release", "two changes of the list", "one that was decided", "a call that was withdrawn") {
		if *walks >= 1500 && met[rare] == 0 {
			t.Errorf("no walk met %s", rare)
		}
	}
	t.Logf("%d walks, the longest of %d steps: %v", *walks, longest, met)
}

// walkEach takes walks of these numbers, until one fails.
func walkEach(from, to, step int) walked {
	w := walked{met: make(map[string]int), failed: to}
	for n := from; n < to; n += step {
		rng := rand.New(rand.NewPCG(1, uint64(n)))
		m := atRandom(rng, rand.New(rand.NewPCG(3, uint64(n))))
		more := rand.New(rand.NewPCG(2, uint64(n))) // so that what came before has the walks that it had
		m.limits.vacate, m.limits.short = more.IntN(4)*more.IntN(2), more.IntN(2) == 0
		m.limits.takes = more.IntN(2) == 0
		l := m.limits
		names, why := m.stroll(rng)
		if why == "" && !l.hasty {
			why = m.comesToServe()
		}
		if why != "" {
			w.failed, w.names, w.why = n, names, fmt.Sprintf("%+v: %s", l, why)
			return w
		}
		w.longest = max(w.longest, len(names))
		m.count(w.met)
	}
	return w
}

// atRandom returns a world in which a walk begins: before it is founded, as it serves, or while the
// second or third of its lists is rolled out.
func atRandom(rng, more *rand.Rand) *model {
	l := limits{entries: 2 + rng.IntN(4), restarts: rng.IntN(5), calls: 1 + rng.IntN(5), plain: true, registers: rng.IntN(8), asks: rng.IntN(5), fences: rng.IntN(4)}
	if rolls := rolls(); rng.IntN(2) == 0 {
		l.lists = rolls[rng.IntN(len(rolls))]
		if more.IntN(6) == 0 {
			l.lists = []string{"abcde", "abcdf"}
		}
		l.entries = len(names(l.lists))
		l.edits, l.hasty = rng.IntN(2*l.entries*len(l.lists)), len(l.lists) == 2 && rng.IntN(2) == 0
	}
	if l.late = more.IntN(2) == 0; more.IntN(3) == 0 {
		l.ttls, l.words = more.IntN(4), more.IntN(3)
	}
	l.replicas = 2 + rng.IntN(l.entries-1)
	l.atOnce = rng.IntN(2) == 0
	if rng.IntN(4) == 0 {
		l.hears = 5 + rng.IntN(40)
	}
	l.back, l.live = !l.hasty && len(l.lists) > 1 && rng.IntN(3) == 0, rng.IntN(3) == 0
	l.orders = l.back && l.live
	begin := rng.IntN(4)
	if l.ends = rng.IntN(3); rng.IntN(3) == 0 {
		l.lies = rng.IntN(4)
	}
	if begin < 2 {
		return newModel(l)
	}
	all := newServing(l)
	m := all[rng.IntN(len(all))]
	if begin == 3 && !l.hasty {
		for k := 1; k < len(m.lists) && m.inForce(k-1); k++ {
			most := len(m.lists[k])
			if k == len(m.lists)-1 {
				most = rng.IntN(most)
			}
			m.rollOut(k, rng.Perm(l.entries), most)
		}
	}
	return m
}

// rollOut starts so many nodes of a list anew with it, one after the other. The mesh goes on in
// between. An entry that the list drops stays as it is.
func (m *model) rollOut(k int, order []int, most int) {
	for _, e := range order {
		if most > 0 && strings.Contains(m.lists[k], m.names[e]) {
			m.files[e] = k
			m.lives[e]++
			m.fresh(e)
			_ = m.play() // it may have to wait for others
			most--
		}
	}
	m.calls, m.regs, m.sent = nil, nil, slices.Clone(m.past)
}

// stroll takes steps at random, and returns their names, and what is wrong.
func (m *model) stroll(rng *rand.Rand) (names []string, why string) {
	rare := 1 << rng.IntN(6) // how much rarer what goes wrong is
	for range 300 {
		var chosen *model
		var name func() string
		seen := 0
		m.steps(func(s *model, nm func() string) {
			weight := rare
			if s.restarts < m.restarts || s.edits < m.edits || strings.Contains(nm(), "lost") || len(s.calls) > len(m.calls) {
				weight = 1
			}
			if seen += weight; rng.IntN(seen) < weight {
				chosen, name = s, nm
			}
		})
		if chosen == nil {
			break
		}
		names = append(names, name())
		*m = *chosen
		if why := m.check(); why != "" {
			return names, why
		}
	}
	return names, ""
}

// count notes what a walk met.
func (m *model) count(met map[string]int) {
	if m.heard != nil {
		met["by what was heard"]++
	}
	met["decisions"] += len(m.past)
	changes := 0
	for _, d := range m.past {
		if d.Stamp.Version > 0 {
			w := what(d, m.tables.parent(d))
			met[w]++
			if w == kinds[relist] {
				changes++
			}
		}
	}
	if changes > 1 {
		met["two changes of the list"]++
	}
	for _, a := range m.acc {
		if a.released != (Ballot{}) {
			met["a release"]++
		}
	}
	for _, c := range m.calls {
		if c.over {
			met["a call that was withdrawn"]++
		}
		if c.Short() {
			met["a call without a silent entry"]++
			if c.accepts == c.asked() {
				met["one that was decided"]++
			}
		}
	}
}
