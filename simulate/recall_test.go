package simulate_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lockmesh/mesh/internal/bug"
	"github.com/lockmesh/mesh/simulate/story"
)

// Each deliberate bug that is a switch in the code is named by a story, which must show it (package
// story, TestStoriesShowTheirBugs). The others are mutants, and their patches say who notices them.
func TestDeliberateBugs(t *testing.T) {
	told := bugsOfStories(t)
	for _, b := range bug.All() {
		if told[b] == "" {
			t.Errorf("no story shows the bug %v", b)
		}
	}
}

// bugsOfStories returns the bugs that the heads of the stories name, each with a story
// that does.
func bugsOfStories(t *testing.T) map[bug.Bug]string {
	t.Helper()
	files, err := filepath.Glob("story/testdata/*/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("stories: %q, %v", files, err)
	}
	told := make(map[bug.Bug]string)
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		s, err := story.Parse(file, text)
		if err != nil {
			t.Fatal(err)
		}
		names := strings.FieldsFunc(s.Field("Bug"), func(r rune) bool { return strings.ContainsRune(", +", r) })
		for _, name := range names {
			b, ok := bug.Parse(name)
			if !ok {
				t.Fatalf("%s: there is no bug %q", file, name)
			}
			told[b] = file
		}
	}
	return told
}
