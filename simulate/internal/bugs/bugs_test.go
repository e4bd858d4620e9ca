package bugs

import (
	"slices"
	"strings"
	"testing"

	"github.com/lockmesh/mesh/internal/bug"
)

// A run with a mutant names it, and is not repeated without it.
func TestMutantsAreNamed(t *testing.T) {
	for _, tt := range []struct{ names, active, want []string }{
		{nil, nil, nil},
		{[]string{"LateBelief"}, nil, []string{"LateBelief"}},
		{nil, []string{"A", "B"}, []string{"A", "B"}},
		{[]string{"B", "LateBelief"}, []string{"A", "B"}, []string{"B", "LateBelief", "A"}},
	} {
		if got := with(tt.names, tt.active); !slices.Equal(got, tt.want) {
			t.Errorf("with(%q, %q) = %q, want %q", tt.names, tt.active, got, tt.want)
		}
	}
	b := bug.All()[0]
	if set, err := beside([]string{"A", "B"}, []string{b.String(), "A", "B"}); err != nil || set != bug.Of(b) {
		t.Errorf("beside mutants: %v, %v, want %v: the mutants are in the code", set.Names(), err, b)
	}
	if _, err := beside([]string{"A"}, []string{"A", "B"}); err == nil || !strings.Contains(err.Error(), `no bug "B" in this program`) {
		t.Errorf("a mutant that is not there: %v", err)
	}
}
