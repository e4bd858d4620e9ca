package simulate_test

import (
	"flag"
	"strings"
	"testing"
	"time"

	"github.com/lockmesh/mesh/internal/bug"
	"github.com/lockmesh/mesh/simulate"
	"github.com/lockmesh/mesh/simulate/drill"
	"github.com/lockmesh/mesh/simulate/search"
)

var bugNames = flag.String("bugs", "FreshLeaderExpires,NumbersComeBack", "the deliberate bugs that TestShrinking looks for; all: every one, which takes half an hour or less")

// TestShrinking looks for deliberate bugs in random hostile worlds and makes the failures
// small: most of them to few faults. It prints, for each bug, in which world it is noticed
// first, and what is left of that world. Bugs that few worlds notice are left to stories.
//
//	go test ./simulate -run '^TestShrinking$' -bugs all -timeout 1h -v
func TestShrinking(t *testing.T) {
	const (
		fewFaults = 10 // to which a failure is to shrink, for
		percent   = 80 // of the bugs
		seeds     = 60
	)
	bugs := bug.All()
	if *bugNames != "all" {
		bugs = nil
		for _, name := range strings.Split(*bugNames, ",") {
			b, ok := bug.Parse(name)
			if !ok {
				t.Fatalf("-bugs: no bug %q", name)
			}
			bugs = append(bugs, b)
		}
	}
	noticed, small := 0, 0
	var unnoticed []bug.Bug
	t.Logf(row, "bug", "noticed by", "seed", "runs", "faults", "then", "hosts", "then", "fails at", "then", "took")
	for _, b := range bugs {
		start := time.Now()
		s := search.Plan{
			Play: drill.Play, Options: simulate.Options{Seed: 1, Profile: simulate.Hostile, Bugs: bug.Of(b).Names()}, Seeds: seeds,
			Budget: search.Budget{Runs: 600, For: 5 * time.Minute},
		}
		first, ok := dueTo(t, s)
		if !ok {
			unnoticed = append(unnoticed, b)
			continue
		}
		x := s.Shrink(t.Context(), first)
		noticed++
		if len(x.After.Faults) <= fewFaults {
			small++
		}
		if !x.Confirmed {
			t.Errorf("%v: the shrunk run does not repeat: %v", b, x.After.Case)
		}
		if c := without(x.After.Case); s.Replay(c, false).Err != nil {
			t.Errorf("%v: shrunk into a world that fails without it: %v", b, c)
		}
		said, _, _ := strings.Cut(x.After.Err.Error(), ":")
		t.Logf(row, b, said, first.Case.Seed, x.Runs, len(x.Before.Faults), len(x.After.Faults), hostsOf(x.Before), hostsOf(x.After),
			x.Before.Time.Round(time.Second), x.After.Time.Round(time.Second), time.Since(start).Round(time.Second))
		t.Logf("    %v", x.After.Case)
	}
	if len(unnoticed) > 0 {
		t.Logf("%d bugs are not noticed in %d worlds each: %v", len(unnoticed), seeds, unnoticed)
	}
	t.Logf("shrunk to at most %d faults: %d of %d", fewFaults, small, noticed)
	if noticed == 0 || small*100 < noticed*percent {
		t.Errorf("that is less than %d %%", percent)
	}
	if *bugNames != "all" && noticed < len(bugs) {
		t.Errorf("of %d bugs, only %d are noticed", len(bugs), noticed)
	}
}

// row is a line of TestShrinking's table.
const row = "%-22v %-14v %4v %5v %6v %4v %5v %4v %8v %5v %6v"

// dueTo returns the first failure that is due to the deliberate bug: the same world
// without it passes.
func dueTo(t *testing.T, s search.Plan) (search.Outcome, bool) {
	for s.Seeds > 0 {
		report, err := s.Run(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if len(report.Findings) == 0 {
			break
		}
		first := report.Findings[0].First
		if s.Replay(without(first.Case), false).Err == nil {
			return first, true
		}
		s.Seeds -= int(first.Case.Seed - s.Options.Seed + 1)
		s.Options.Seed = first.Case.Seed + 1
	}
	return search.Outcome{}, false
}

func without(c search.Case) search.Case {
	c.Bugs = nil
	return c
}

func hostsOf(o search.Outcome) int64 {
	for _, p := range o.Parameters {
		if p.Name == "hosts" {
			return p.Value
		}
	}
	return 0
}
