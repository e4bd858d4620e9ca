package simulate_test

import (
	"flag"
	"fmt"
	"strings"
	"testing"
	"text/tabwriter"
	"time"

	"github.com/lockmesh/mesh/internal/bug"
	"github.com/lockmesh/mesh/simulate"
	"github.com/lockmesh/mesh/simulate/drill"
)

var everyBug = flag.Bool("every-bug", false, "TestShrinking looks for every deliberate bug, which takes an hour, and not for a few")

// TestShrinking looks for deliberate bugs in random worlds and makes the failures small.
// With -every-bug it prints what is to be had: for each bug, in which world it is noticed
// first, and what is left of that world.
func TestShrinking(t *testing.T) {
	const (
		fewFaults = 10 // to which a failure is to shrink
		seeds     = 400
	)
	bugs := []bug.Bug{bug.TokenFromCounter, bug.GrantBeforeCommit}
	if *everyBug {
		bugs = bug.All()
	} else if testing.Short() {
		bugs = bugs[:1]
	}
	var table strings.Builder
	rows := tabwriter.NewWriter(&table, 0, 0, 2, ' ', 0)
	fmt.Fprintln(rows, "bug\tnoticed by\tseed\tworlds\truns\tfaults\tthen\thosts\tthen\tfails at\tthen\ttook")
	noticed, small := 0, 0
	for _, b := range bugs {
		start := time.Now()
		s := simulate.Search{
			Play: drill.Play, Profiles: []simulate.Profile{simulate.Flaky, simulate.Hostile},
			Options: simulate.Options{Seed: 1, Bugs: bug.Of(b)}, Seeds: seeds,
			Budget: simulate.Budget{Runs: 800, For: 3 * time.Minute},
		}
		first, ok := dueTo(t, s)
		if !ok {
			fmt.Fprintf(rows, "%v\tnot in %d worlds\n", b, seeds)
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
		fmt.Fprintf(rows, "%v\t%s\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%v\t%v\t%v\n", b, said, first.Case.Seed, first.Case.Seed, x.Runs,
			len(x.Before.Faults), len(x.After.Faults), hostsOf(x.Before), hostsOf(x.After),
			x.Before.Time.Round(time.Second), x.After.Time.Round(time.Second), time.Since(start).Round(time.Second))
		t.Logf("%v: %v", b, x.After.Case)
		if *everyBug {
			_ = rows.Flush()
			fmt.Print(table.String()) // it takes long
			table.Reset()
		}
	}
	_ = rows.Flush()
	t.Logf("\n%s", table.String())
	if noticed == 0 || small*5 < noticed*4 {
		t.Errorf("of %d failures, only %d shrink to %d faults", noticed, small, fewFaults)
	}
	if !*everyBug && noticed < len(bugs) {
		t.Errorf("of %d bugs, only %d are noticed in %d worlds each", len(bugs), noticed, seeds)
	}
}

// dueTo returns the first failure that is due to the deliberate bug: the same world
// without it passes.
func dueTo(t *testing.T, s simulate.Search) (simulate.Outcome, bool) {
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
	return simulate.Outcome{}, false
}

func without(c simulate.Case) simulate.Case {
	c.Bugs = bug.Set{}
	return c
}

func hostsOf(o simulate.Outcome) int64 {
	for _, p := range o.Parameters {
		if p.Name == "hosts" {
			return p.Value
		}
	}
	return 0
}
