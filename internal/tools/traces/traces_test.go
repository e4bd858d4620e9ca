package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
)

func TestCompare(t *testing.T) {
	was := []string{"drill lan 1: 0a after 5 events", "drill wan 2: 0b after 6 events", "story P1 1: 0c after 7s"}
	is := []string{"drill lan 1: 0a after 5 events", "drill wan 2: 0d after 6 events", "story P2 1: 0c after 7s"}
	want := []string{
		"drill wan 2: was 0b after 6 events, is 0d after 6 events",
		"story P2 1: new",
		"story P1 1: gone",
	}
	if got := compare(was, is); !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	if got := compare(was, was); got != nil {
		t.Errorf("equal traces differ: %q", got)
	}
}

// Lines are in the order of their worlds, however many are played at a time; one that fails ends all.
func TestAllWorlds(t *testing.T) {
	broken := errors.New("broken")
	var worlds []func() (string, error)
	var want []string
	for i := range 100 {
		want = append(want, fmt.Sprint(i))
		worlds = append(worlds, func() (string, error) { return fmt.Sprint(i), nil })
	}
	if lines, err := all(t.Context(), worlds); err != nil || !slices.Equal(lines, want) {
		t.Errorf("%q, %v", lines, err)
	}
	worlds[50] = func() (string, error) { return "", broken }
	if _, err := all(t.Context(), worlds); err != broken {
		t.Errorf("a world that fails: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := all(ctx, worlds[:1]); err != context.Canceled {
		t.Errorf("interrupted: %v", err)
	}
}

func TestWorldsAreRepeated(t *testing.T) {
	lines := make(map[string]bool)
	for range 2 {
		for seed := range uint64(5) {
			line, err := playDrill(seed)
			if err != nil {
				t.Fatal(err)
			}
			lines[line] = true
		}
	}
	if len(lines) != 5 {
		t.Errorf("five worlds, played twice: %v", lines)
	}
}

func TestBadArguments(t *testing.T) {
	t.Chdir("../../..")
	for _, args := range []string{"-seeds -1", "more", "-seeds 0 -against no-such-commit"} {
		if _, err := run(t.Context(), strings.Fields(args), io.Discard); err == nil {
			t.Errorf("%s: no error", args)
		}
	}
}
