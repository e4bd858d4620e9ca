package story

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const (
	entries = 45 // of the catalogue
	rules   = 47 // of the protocol
	lives   = 14 // rules of how a mesh lives, dies and comes back; not each has a story
)

// row is one line of CATALOGUE.md.
type row struct{ name, title, story, bug string }

func rows(t *testing.T) (all []row) {
	t.Helper()
	text, err := os.ReadFile("CATALOGUE.md")
	if err != nil {
		t.Fatal(err)
	}
	named := regexp.MustCompile(`^[PC]?[0-9]+$`)
	for line := range strings.Lines(string(text)) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		if len(cells) == 4 && named.MatchString(cells[0]) {
			all = append(all, row{cells[0], cells[1], cells[2], cells[3]})
		}
	}
	return all
}

// mutants returns the mutants that must be noticed in each story, by the story's file.
func mutants(t *testing.T) map[string][]string {
	t.Helper()
	patches, err := filepath.Glob("../mutants/*.patch")
	if err != nil || len(patches) == 0 {
		t.Fatalf("mutants: %q, %v", patches, err)
	}
	watches := regexp.MustCompile(`(?m)^Noticed: simulate/story TestStories/(\S+) `)
	by := make(map[string][]string)
	for _, patch := range patches {
		text, err := os.ReadFile(patch)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range watches.FindAllStringSubmatch(string(text), -1) {
			by[m[1]] = append(by[m[1]], strings.TrimSuffix(filepath.Base(patch), ".patch"))
		}
	}
	return by
}

// TestTheCatalogueIsComplete: the table has every entry and every rule; each has a story that
// says the same of itself, or more than one, or a reason why not; and every story is in it.
func TestTheCatalogueIsComplete(t *testing.T) {
	left := make(map[string]bool)
	for i := range entries {
		left[fmt.Sprint(i+1)] = true
	}
	for i := range rules {
		left[fmt.Sprint("P", i+1)] = true
	}
	for i := range lives {
		left[fmt.Sprint("C", i+1)] = false
	}
	listed, there := make(map[string]bool), make(map[row]bool)
	waiting, noticed := 0, mutants(t)
	for _, r := range rows(t) {
		if _, is := left[r.name]; !is || there[row{name: r.name, story: r.story}] {
			t.Errorf("%s is there twice, or is nothing", r.name)
		}
		left[r.name], there[row{name: r.name, story: r.story}] = false, true
		if why, ok := strings.CutPrefix(r.story, "not yet: "); ok {
			if waiting++; len(why) < 20 || r.bug != "" {
				t.Errorf("%s: say why, and no bug: %q, %q", r.name, why, r.bug)
			}
			continue
		}
		file := filepath.Join("testdata", filepath.FromSlash(r.story))
		listed[file] = true
		s := read(t, file)
		bugs, said := list(r.bug), noticed[filepath.Base(file)]
		slices.Sort(bugs)
		slices.Sort(said)
		if said = slices.Compact(said); !slices.Equal(bugs, said) {
			t.Errorf("%s: the bugs are %q in the table, and %q in the patches of mutants that name %s", r.name, bugs, said, file)
		}
		switch field := s.Field("Entry") + s.Field("Rule"); {
		case !strings.ContainsAny(r.name, "PC"), s.Field("Rule") != "":
			if name, title, _ := strings.Cut(field, " "); name != r.name || strings.TrimSpace(title) != r.title {
				t.Errorf("%s is %q in the table, and %q in %s", r.name, r.title, field, file)
			}
		case !slices.Contains(list(s.Field("Rules")), r.name):
			t.Errorf("%s is no rule of %s, which has %q", r.name, file, s.Field("Rules"))
		}
		for _, field := range []string{"Promise", "Method"} {
			if s.Field(field) == "" {
				t.Errorf("%s does not say its %s", file, field)
			}
		}
	}
	for name, is := range left {
		if is {
			t.Errorf("%s is not in the table", name)
		}
	}
	for _, file := range stories(t) {
		if !listed[file] {
			t.Errorf("%s is not in the table", file)
		}
	}
	t.Logf("%d entries and rules, %d of them not yet", entries+rules, waiting)
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
