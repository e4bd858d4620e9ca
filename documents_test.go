package mesh

import (
	"cmp"
	"go/build"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// The list in ARCHITECTURE.md is complete: it names each package of the module that imports others
// of the module, and all of these imports. Packages that every package may import are named below
// the list.
func TestTheListOfImportsIsTrue(t *testing.T) {
	text, err := os.ReadFile("ARCHITECTURE.md")
	if err != nil {
		t.Fatal(err)
	}
	_, list, _ := strings.Cut(string(text), "## Packages")
	_, list, _ = strings.Cut(list, "```text\n")
	list, _, found := strings.Cut(list, "```")
	if !found {
		t.Fatal("no list of imports")
	}
	remark := regexp.MustCompile(`\([^)]*\)`)
	said := make(map[string][]string)
	for line := range strings.Lines(list) {
		importer, imports, _ := strings.Cut(line, "→")
		importer = strings.TrimSpace(importer)
		for name := range strings.SplitSeq(remark.ReplaceAllString(imports, ""), ",") {
			name = strings.TrimSpace(name)
			said[importer] = append(said[importer], name)
			if _, has := said[name]; !has {
				said[name] = nil // unless it has a line of its own
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(said)) {
		if is, want := imports(t, name), slices.Sorted(slices.Values(said[name])); !slices.Equal(is, want) {
			t.Errorf("%s imports\n\t%s, and ARCHITECTURE.md says\n\t%s", name, strings.Join(is, ", "), strings.Join(want, ", "))
		}
	}
}

// imports returns the packages of the module that a package imports, sorted, as paths below the
// module; the root package is "mesh".
func imports(t *testing.T, name string) (all []string) {
	dir := name
	if name == "mesh" {
		dir = "."
	}
	p, err := build.ImportDir(dir, 0)
	if err != nil {
		t.Fatal(err)
	}
	for _, i := range p.Imports {
		below, ours := strings.CutPrefix(i, "github.com/lockmesh/mesh")
		if below = cmp.Or(strings.TrimPrefix(below, "/"), "mesh"); !ours || slices.Contains(everywhere, below) {
			continue
		}
		all = append(all, below)
	}
	return slices.Sorted(slices.Values(all))
}

// everywhere lists the packages that every package may import.
var everywhere = []string{"internal/fault", "internal/point"}
