package simulate

import (
	"fmt"
	"slices"

	"github.com/lockmesh/mesh/internal/bug"
	"github.com/lockmesh/mesh/internal/mutant"
)

// withMutants returns the names of bugs together with those of the mutants that are
// switched on in this program, and so in all of its worlds.
func withMutants(names, active []string) []string {
	for _, name := range active {
		if !slices.Contains(names, name) {
			names = append(slices.Clip(names), name)
		}
	}
	return names
}

// bugSet returns the deliberate bugs of those names, the active mutants aside. It refuses
// a name that is neither: the run would not be the one that the name was found with.
func bugSet(names []string) (bug.Set, error) { return bugsBeside(mutant.Active(), names) }

func bugsBeside(active, names []string) (set bug.Set, err error) {
	for _, name := range names {
		b, ok := bug.Parse(name)
		switch {
		case slices.Contains(active, name):
		case !ok:
			return bug.Set{}, fmt.Errorf("simulate: no bug %q in this program: simulate/mutants/README.md tells how to build one with a mutant", name)
		default:
			set = set.Union(bug.Of(b))
		}
	}
	return set, nil
}
