package story

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/lockmesh/mesh/simulate"
)

// TestTour plays the stories that go through all sentences, and demands that there is no
// form of a sentence or of a condition that no story has.
func TestTour(t *testing.T) {
	files, err := filepath.Glob("testdata/tour-*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("tours: %q, %v", files, err)
	}
	used := make(map[*form]bool)
	for _, file := range files {
		s := read(t, file)
		for f := range s.used {
			used[f] = true
		}
		for seed := uint64(1); seed <= 20; seed++ {
			run := s.Play(simulate.Options{Seed: seed})
			if _, differs := run.Err.(*Differs); differs && *rewrite {
				if err := os.WriteFile(file, run.Text, 0o644); err != nil {
					t.Fatal(err)
				}
				run.Err, s = nil, read(t, file)
			}
			if run.Err != nil {
				t.Errorf("seed %d: %v", seed, run.Err)
			}
		}
	}
	for _, file := range stories(t) {
		for f := range read(t, file).used {
			used[f] = true
		}
	}
	for _, f := range sentences() {
		if !used[f] {
			t.Errorf("no story has a sentence like %q", f.text)
		}
	}
	for _, s := range conditions() {
		if !used[&s.form] {
			t.Errorf("no story has a condition like %q", s.text)
		}
	}
}
