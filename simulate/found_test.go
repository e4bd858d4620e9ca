package simulate_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestFoundIsTrue: each bug in FOUND.md names a test, or a story, that exists.
func TestFoundIsTrue(t *testing.T) {
	text, err := os.ReadFile("FOUND.md")
	if err != nil {
		t.Fatal(err)
	}
	command := regexp.MustCompile("`go test (\\S+) -run '\\^?(\\w+)\\$?(?:/([\\w-]+))?'` \\|$")
	bugs := 0
	for line := range strings.Lines(string(text)) {
		if cells := strings.Count(line, " | "); cells != 3 || strings.HasPrefix(line, "| what it was") {
			continue
		}
		bugs++
		m := command.FindStringSubmatch(strings.TrimSpace(line))
		if m == nil {
			t.Errorf("no command that shows it again: %s", line)
			continue
		}
		dir := filepath.Join("..", m[1])
		files, _ := filepath.Glob(filepath.Join(dir, "*_test.go"))
		found := false
		for _, file := range files {
			code, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			found = found || strings.Contains(string(code), "\nfunc "+m[2]+"(t *testing.T)")
		}
		if !found {
			t.Errorf("%s has no test %s", dir, m[2])
		}
		if stories, _ := filepath.Glob(filepath.Join(dir, "testdata", "*", m[3]+"*.txt")); m[3] != "" && len(stories) != 1 {
			t.Errorf("%s is the beginning of the stories %q", m[3], stories)
		}
	}
	if bugs == 0 {
		t.Error("no table")
	}
	t.Logf("%d bugs", bugs)
}
