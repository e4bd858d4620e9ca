package core

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
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
	started := func(s Seat) bool { return s.Started }
	switch {
	case !slices.Equal(t.List(), from.List()):
		return kinds[relist]
	case s.Generation != was.Generation:
		return kinds[recovery]
	case s.Move != was.Move:
		return kinds[move]
	case was.Next != nil && s.Next == nil:
		return kinds[settle]
	case slices.Equal(t.Bound(), from.Bound()) && slices.ContainsFunc(t.Seats, started):
		return kinds[start]
	}
	return kinds[bind]
}

// TestWalks walks at random, far beyond what can be explored.
func TestWalks(t *testing.T) {
	longest := 0
	met := make(map[string]int)
	if testing.Short() {
		*walks = min(*walks, 500)
	}
	for n := *walk; n < *walk+*walks; n++ {
		rng := rand.New(rand.NewPCG(1, uint64(n)))
		l := limits{entries: 2 + rng.IntN(4), restarts: rng.IntN(5), calls: 1 + rng.IntN(5), plain: true, registers: rng.IntN(8), asks: rng.IntN(5), fences: rng.IntN(4)}
		if rolls := rolls(); rng.IntN(2) == 0 {
			l.lists = rolls[rng.IntN(len(rolls))]
			l.entries = len(names(l.lists))
			l.edits, l.hasty = rng.IntN(2*l.entries*len(l.lists)), len(l.lists) == 2 && rng.IntN(2) == 0
		}
		l.replicas = 2 + rng.IntN(l.entries-1)
		l.atOnce = rng.IntN(2) == 0
		if rng.IntN(4) == 0 {
			l.hears = 5 + rng.IntN(40)
		}
		m := newModel(l)
		if rng.IntN(2) == 0 {
			all := newServing(l)
			m = all[rng.IntN(len(all))]
		}
		var names []string
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
			m = chosen
			if why := m.check(); why != "" {
				for _, s := range names {
					t.Log(s)
				}
				t.Fatalf("walk %d, %+v: %s", n, l, why)
			}
		}
		if why := m.comesToServe(); why != "" && !l.hasty {
			for _, s := range names {
				t.Log(s)
			}
			t.Fatalf("walk %d, %+v: %s", n, l, why)
		}
		if m.heard != nil {
			met["by what was heard"]++
		}
		longest = max(longest, len(names))
		met[fmt.Sprintf("%d decisions", len(m.past))]++
		for _, d := range m.past {
			if d.Stamp.Version > 0 {
				met[what(d, m.tables.parent(d))]++
			}
		}
		for _, a := range m.acc {
			if a.released != (Ballot{}) {
				met["a release"]++
			}
		}
	}
	for _, rare := range append(slices.Clone(kinds), "a release") {
		if *walks >= 5000 && met[rare] == 0 {
			t.Errorf("no walk met %s", rare)
		}
	}
	t.Logf("%d walks, the longest of %d steps: %v", *walks, longest, met)
}
