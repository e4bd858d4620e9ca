package story

import (
	"flag"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/lockmesh/mesh/simulate"
)

// median is how many seeds the median story may need to show its bug.
const median = 200

var mostFlag = flag.Int("most", 5000, "how many seeds a story has to show its bug")

// TestStoriesShowTheirBugs plays each story with the bugs that its head names, one at a
// time: each leaves out the rule that keeps the story's promise. Within some seeds a
// checker, or a sentence, must notice, and for one of the reasons that the head gives.
func TestStoriesShowTheirBugs(t *testing.T) {
	var mu sync.Mutex
	var needed []int
	t.Run("stories", func(t *testing.T) {
		for _, file := range stories(t) {
			s := read(t, file)
			for _, name := range list(s.Field("Bug")) {
				t.Run(filepath.Base(file)+"/"+name, func(t *testing.T) {
					t.Parallel()
					seed, said := showBug(t, s, name)
					t.Logf("%s noticed with seed %d: %s", name, seed, said)
					mu.Lock()
					needed = append(needed, seed)
					mu.Unlock()
				})
			}
		}
	})
	slices.Sort(needed)
	if n := len(needed); n > 0 && needed[n/2] > median {
		t.Errorf("the median story needs %d seeds to show its bug, want at most %d", needed[n/2], median)
	}
}

// showBug returns the first seed that shows a bug, and what was said.
func showBug(t *testing.T, s *Story, name string) (int, string) {
	t.Helper()
	classes := list(s.Field("Noticed"))
	if len(classes) == 0 {
		t.Fatalf("%s: its head does not say who notices", s.Name())
	}
	most := *mostFlag
	if testing.Short() {
		most = min(most, 1000)
	}
	for seed := 1; seed <= most; seed++ {
		run := s.Play(simulate.Options{Seed: uint64(seed), Bugs: strings.Split(name, "+"), Repeat: fmt.Sprintf("bug %s, seed %d", name, seed)})
		if run.Err == nil {
			continue
		}
		if right := s.Play(simulate.Options{Seed: uint64(seed)}); right.Err != nil {
			t.Fatalf("seed %d: the story does not hold without the bug: %v", seed, right.Err)
		}
		said, _, _ := strings.Cut(run.Err.Error(), "\n")
		if !slices.ContainsFunc(classes, func(c string) bool { return strings.HasPrefix(said, c) }) {
			t.Fatalf("seed %d: noticed, but not by %q: %v", seed, classes, run.Err)
		}
		return seed, said
	}
	t.Fatalf("not noticed in %d seeds", most)
	return 0, ""
}

// list takes a field of several values apart.
func list(field string) (all []string) {
	for _, v := range strings.Split(field, ",") {
		if v = strings.TrimSpace(v); v != "" {
			all = append(all, v)
		}
	}
	return all
}
