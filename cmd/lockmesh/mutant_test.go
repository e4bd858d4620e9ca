package main

import (
	"slices"
	"strings"
	"testing"
)

func TestMutantsOfTheSourceTree(t *testing.T) {
	own := func(name string) bool { return name == "NoDedup" }
	for list, want := range map[string][]string{
		"LateBelief":                        {"LateBelief"},
		"NoDedup,LateBelief,LeavesOneEarly": {"LateBelief", "LeavesOneEarly"},
		"NoDedup":                           nil,
		"LateBelief,Heisenbug":              nil,
		"../mutants/LateBelief":             nil,
	} {
		if got := mutantsOf(list, own); !slices.Equal(got, want) {
			t.Errorf("mutantsOf(%q) = %q, want %q", list, got, want)
		}
	}
	t.Chdir(t.TempDir())
	if got := mutantsOf("LateBelief", own); got != nil {
		t.Errorf("outside of the source tree: %q", got)
	}
}

// A mutant is built in, noticed, and named by the line that repeats the run.
func TestSimulateBuildsMutants(t *testing.T) {
	if testing.Short() {
		t.Skip("builds the command")
	}
	const story = "../../simulate/story/testdata/rules/P08-holder-stops-first.txt"
	var out, errs strings.Builder
	args := []string{"-story", story, "-bug", "LateBelief", "-seed", "1"}
	code := runMutants(t.Context(), []string{"LateBelief"}, args, console{out: &out, err: &errs})
	if code != exitFailed || !strings.Contains(out.String(), "FAILED, 1 seed: G1") ||
		!strings.Contains(out.String(), "repeat: lockmesh simulate -seed 1 -bug LateBelief -story "+story) {
		t.Errorf("code %d\n%s\n%s", code, out.String(), errs.String())
	}
	code = runMutants(t.Context(), []string{"Heisenbug"}, args, console{out: &out, err: &errs})
	if code != exitUsage || !strings.Contains(errs.String(), `there is no mutant "Heisenbug"`) {
		t.Errorf("of no patch: code %d\n%s", code, errs.String())
	}
}
