package main

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestMutantsOfTheSourceTree(t *testing.T) {
	own := func(name string) bool { return name == "Own" }
	for list, want := range map[string][]string{
		"LateBelief":                    {"LateBelief"},
		"Own,LateBelief,LeavesOneEarly": {"LateBelief", "LeavesOneEarly"},
		"Own":                           nil,
		"LateBelief,Heisenbug":          nil,
		"../mutants/LateBelief":         nil,
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

// The flag -bug asks for another program if a name is only a patch.
func TestBugsThatArePatches(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{"go.mod": "module github.com/lockmesh/mesh\n", "simulate/mutants/OnlyAPatch.patch": "", "simulate/mutants/AnotherPatch.patch": ""} {
		file := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o777), os.WriteFile(file, []byte(text), 0o666)); err != nil {
			t.Fatal(err)
		}
	}
	t.Chdir(filepath.Join(dir, "simulate"))
	for args, want := range map[string][]string{
		"-bug OnlyAPatch":                   {"OnlyAPatch"},
		"-bug OnlyAPatch,AnotherPatch":      {"OnlyAPatch", "AnotherPatch"},
		"-bug OnlyAPatch -bug AnotherPatch": {"AnotherPatch"},
		"-seed 1":                           nil,
	} {
		if s, err := parse(strings.Fields(args), io.Discard); err != nil || !slices.Equal(s.mutants, want) {
			t.Errorf("%s: %+v, %v, want the mutants %q", args, s, err, want)
		}
	}
	if _, err := parse([]string{"-bug", "OnlyAPatch,Heisenbug"}, io.Discard); err == nil {
		t.Error("a name that is nothing is taken")
	}
}

// heard is a writer that does something once it is given a text.
type heard struct {
	all  strings.Builder
	text string
	then func()
}

func (h *heard) Write(b []byte) (int, error) {
	n, err := h.all.Write(b)
	if strings.Contains(h.all.String(), h.text) {
		h.then()
	}
	return n, err
}

// Mutants are built in, noticed, and named by the line that repeats the run.
func TestSimulateBuildsMutants(t *testing.T) {
	const story = "../../simulate/story/testdata/rules/P08-holder-stops-first.txt"
	var out, errs strings.Builder
	args := []string{"-story", story, "-bug", "LateBelief,LossToldLate", "-seed", "1"}
	code := runMutants(t.Context(), []string{"LateBelief", "LossToldLate"}, args, console{out: &out, err: &errs})
	if code != exitFailed || !strings.Contains(out.String(), "FAILED, 1 seed: G1") ||
		!strings.Contains(out.String(), "repeat: lockmesh simulate -seed 1 -bug LateBelief,LossToldLate -story "+story) {
		t.Errorf("code %d\n%s\n%s", code, out.String(), errs.String())
	}

	// A signal reaches it, once, and it says what it has by then.
	ctx, cancel := context.WithCancel(t.Context())
	out.Reset()
	told := heard{text: " failed: ", then: cancel}
	code = runMutants(ctx, []string{"LateBelief"}, []string{"-profile", "flaky", "-bug", "LateBelief", "-keep-going", "-for", "1h"}, console{out: &out, err: &told})
	if code != exitFailed || !strings.Contains(out.String(), "\ninterrupted\n") || !strings.Contains(out.String(), "FAILED, ") {
		t.Errorf("interrupted: code %d\n%s\n%s", code, out.String(), told.all.String())
	}

	code = runMutants(t.Context(), []string{"Heisenbug"}, args, console{out: &out, err: &errs})
	if code != exitUsage || !strings.Contains(errs.String(), `there is no mutant "Heisenbug"`) {
		t.Errorf("of no patch: code %d\n%s", code, errs.String())
	}
}

// A replica that panics fails the run, and both the report and the page have what the panic said.
func TestAPanicEndsTheRun(t *testing.T) {
	const said = "panic: tocommit(" // raft's own words
	page := filepath.Join(t.TempDir(), "run.html")
	var out, errs strings.Builder
	args := []string{"-story", "../../simulate/story/testdata/rules/P23-late-frames.txt", "-bug", "MisdirectedFrames", "-seed", "1", "-timeline", page}
	code := runMutants(t.Context(), []string{"MisdirectedFrames"}, args, console{out: &out, err: &errs})
	if code != exitFailed || !strings.Contains(out.String(), "P23 stopped: ") || !strings.Contains(out.String(), said) {
		t.Errorf("code %d\n%s\n%s", code, out.String(), errs.String())
	}
	if html, err := os.ReadFile(page); err != nil || !strings.Contains(string(html), said) {
		t.Errorf("the page does not say why (%v)", err)
	}
}
