package story

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"testing"

	"github.com/lockmesh/mesh/simulate"
)

var (
	rewrite  = flag.Bool("rewrite", false, "write the answers that the stories give into their files; then read the diff")
	seedFlag = flag.Uint64("seed", 0, "the only seed of the stories")
	seeds    = flag.Uint64("seeds", 3, "under how many seeds each story is played")
	from     = flag.Uint64("first", 1, "the first of them")
)

// TestMain lets the garbage grow as the command does: worlds make much of it and are small.
func TestMain(m *testing.M) {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(400)
	}
	m.Run()
}

// seedsOf returns the seeds under which each story is played.
func seedsOf() (first, n uint64) {
	switch {
	case *seedFlag != 0:
		return *seedFlag, 1
	case testing.Short():
		return *from, min(*seeds, 3)
	}
	return *from, *seeds
}

// stories returns the files of the stories that ship.
func stories(t testing.TB) (files []string) {
	t.Helper()
	files, err := filepath.Glob("testdata/*/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("stories: %q, %v", files, err)
	}
	return files
}

func read(t *testing.T, file string) *Story {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	s, err := Parse(file, text)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestStories plays every story with the correct protocol: it must give its answers, the
// same for every seed, and no checker may complain.
func TestStories(t *testing.T) {
	for _, file := range stories(t) {
		t.Run(filepath.Base(file), func(t *testing.T) {
			t.Parallel()
			s := read(t, file)
			first, n := seedsOf()
			if *rewrite {
				run := s.Play(simulate.Options{Seed: first})
				if _, differs := run.Err.(*Differs); run.Err != nil && !differs {
					t.Fatal(run.Err)
				}
				if err := os.WriteFile(file, run.Text, 0o644); err != nil {
					t.Fatal(err)
				}
				s = read(t, file)
			}
			for seed := first; seed < first+n; seed++ {
				run := s.Play(simulate.Options{
					Seed: seed, Timeline: *seedFlag != 0,
					Repeat: fmt.Sprintf("go test ./simulate/story -run 'TestStories/%s' -seed %d", filepath.Base(file), seed),
				})
				if run.Err != nil {
					if run.Timeline != nil {
						t.Logf("%v\n%s", run.Timeline, run.Text)
					}
					t.Fatalf("seed %d: %v", seed, run.Err)
				}
			}
		})
	}
}
