// Package bugs says which deliberate bugs a run has: switches in the code, and mutants, which are
// compiled in.
package bugs

import (
	"fmt"
	"slices"

	"github.com/lockmesh/mesh/internal/bug"
	"github.com/lockmesh/mesh/internal/mutant"
)

// WithMutants returns the names of bugs together with those of the mutants that this program, and so
// each of its worlds, has.
func WithMutants(names []string) []string { return with(names, mutant.Active()) }

func with(names, active []string) []string {
	for _, name := range active {
		if !slices.Contains(names, name) {
			names = append(slices.Clip(names), name)
		}
	}
	return names
}

// Set returns the switches of those names, the mutants of this program aside. A name that is neither is
// an error: the run would not be the one in which the name was noted.
func Set(names []string) (bug.Set, error) { return beside(mutant.Active(), names) }

func beside(active, names []string) (set bug.Set, err error) {
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
