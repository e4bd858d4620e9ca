package search

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lockmesh/mesh/simulate"
)

// first makes what minimize asks of what is known of each part.
func first(fails func(part []string) bool) func(int, [][]string) int {
	return func(_ int, parts [][]string) int { return slices.IndexFunc(parts, fails) }
}

func TestMinimize(t *testing.T) {
	items := strings.Split("abcdefghijklmnopqrstuvwxyz", "")
	for _, need := range []string{"", "a", "z", "m", "az", "amz", "bcde", "acegikmoqsuwy", "abcdefghijklmnopqrstuvwxyz"} {
		asked := 0
		got := minimize(items, 1, first(func(part []string) bool {
			asked++
			for _, n := range strings.Split(need, "") {
				if n != "" && !slices.Contains(part, n) {
					return false
				}
			}
			return true
		}))
		if strings.Join(got, "") != need {
			t.Errorf("of all letters, %q is what fails, not %q", need, got)
		}
		if most := 50 + 32*len(need); asked > most {
			t.Errorf("%q: asked %d times, expected at most %d", need, asked, most)
		}
	}
	if got := minimize(nil, 1, first(func([]string) bool { t.Error("asked about nothing"); return true })); got != nil {
		t.Errorf("minimize(nil) = %q", got)
	}
	if got := minimize([]string{"a", "b"}, 1, first(func([]string) bool { return false })); !slices.Equal(got, []string{"a", "b"}) {
		t.Errorf("what never fails is made %q", got)
	}
	if got := minimize(items, 4, first(func(part []string) bool { return slices.Contains(part, "m") })); len(got) > 4 || !slices.Contains(got, "m") {
		t.Errorf("by four, m is found as %q", got)
	}
	// Not monotonic: an odd number of letters fails.
	if got := minimize(items[:25], 1, first(func(part []string) bool { return len(part)%2 == 1 })); len(got) != 1 {
		t.Errorf("an odd number fails, and it ends with %q", got)
	}
}

// stormy fails if two pauses and an isolation have come about in a world of three hosts
// or more whose noise is at least 12.
func stormy(w *simulate.World) error {
	hosts, noise := w.Pick("hosts", 1, 9), w.Pick("noise", 0, 100)
	w.Pick("idle", 0, 1000)
	for i := range hosts {
		w.Host(fmt.Sprint("h", i)).Boot("sleeper", func(ctx context.Context) {
			for simulate.Sleep(ctx, time.Second) == nil {
			}
		})
	}
	storm := w.Chaos(simulate.ChaosOptions{For: 30 * time.Second, Without: []string{"outlast"}})
	if err := w.RunUntil(storm.Over, time.Hour); err != nil {
		return err
	}
	pauses, isolations := 0, 0
	for _, f := range storm.Faults() {
		if f.Happened && strings.HasPrefix(f.Name, "pause/") {
			pauses++
		}
		if f.Happened && strings.HasPrefix(f.Name, "isolate/") {
			isolations++
		}
	}
	switch {
	case pauses >= 2 && isolations >= 1 && hosts >= 3 && noise >= 12:
		return fmt.Errorf("broken: after %d pauses", pauses)
	case pauses >= 1 && isolations == 0:
		return errors.New("broken in another way: no isolation")
	}
	return nil
}

func found(t *testing.T, s Plan) Outcome {
	t.Helper()
	s.KeepGoing = true
	for _, f := range search(t, s).Findings {
		if f.Class == "broken" {
			return f.First
		}
	}
	t.Fatal("no seed fails")
	return Outcome{}
}

func TestShrink(t *testing.T) {
	s := Plan{Play: stormy, Options: simulate.Options{Seed: 1, Profile: simulate.Hostile}}
	first := found(t, s)
	var before Shrunk
	for i, workers := range []int{1, 3} {
		s.Workers = workers
		x := s.Shrink(t.Context(), first)
		got := parameterValues(x.After)
		if len(x.After.Faults) != 3 || len(x.After.Case.Only) != 3 || got["hosts"] != 3 || got["noise"] != 12 || got["idle"] != 0 || !x.Confirmed {
			t.Errorf("%v\n%v", x, x.After.Case)
		}
		// A ceiling just above what it takes, so that no part of the strategy is lost unnoticed.
		const smallest, most = "seed=1 profile=hostile set=*=least,hosts=3,noise=12 only=pause/25,isolate/3,pause/34", 172
		if x.After.Case.String() != smallest || x.Runs > most {
			t.Errorf("%d workers: shrunk in %d runs to %v, want at most %d to %s", workers, x.Runs, x.After.Case, most, smallest)
		}
		if !strings.HasPrefix(x.After.Err.Error(), "broken: after 2 pauses") {
			t.Errorf("shrunk into another failure: %v", x.After.Err)
		}
		if i > 0 && (!reflect.DeepEqual(x.After.Case, before.After.Case) || x.Runs != before.Runs) {
			t.Errorf("with other workers, another case:\n%v, %d runs\n%v, %d runs", before.After.Case, before.Runs, x.After.Case, x.Runs)
		}
		before = x
		again, err := parseCase(x.After.Case.String())
		if err != nil {
			t.Fatal(err)
		}
		if o := s.Replay(again, true); o.Hash != x.After.Hash || errors.Unwrap(o.Err).Error() != errors.Unwrap(x.After.Err).Error() || o.Timeline == nil {
			t.Errorf("the case's text is another run: %v", o.Err)
		}
	}
}

// A change that leaves out many things at once is tried in more courses of events.
func TestCourses(t *testing.T) {
	x := &shrinker{variants: 2, budget: Budget{Variants: 5}, best: Outcome{Case: Case{Variant: 1}}}
	for size, want := range map[int][]uint64{
		1:   {1, 0},
		12:  {1, 0, 2, 3},
		300: {1, 0, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14},
	} {
		if got := x.courses(size); !slices.Equal(got, want) {
			t.Errorf("a change of %d things is tried in the courses %d, want %d", size, got, want)
		}
	}
}

func parameterValues(o Outcome) map[string]int64 {
	values := make(map[string]int64)
	for _, p := range o.Parameters {
		values[p.Name] = p.Value
	}
	return values
}

func TestShrinkKeepsItsBudget(t *testing.T) {
	s := Plan{Play: stormy, Options: simulate.Options{Seed: 1, Profile: simulate.Hostile}}
	first := found(t, s)
	for _, most := range []int{1, 7, 20} {
		s.Budget.Runs = most
		x := s.Shrink(t.Context(), first)
		if x.Runs > most+1 || !x.Confirmed || classOf(x.After.Err) != "broken" {
			t.Errorf("a budget of %d runs: %v", most, x)
		}
	}
	s.Budget = Budget{For: time.Nanosecond}
	if x := s.Shrink(t.Context(), first); x.Runs > 1 || x.After.Case.Only != nil {
		t.Errorf("without time: %v", x)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	s.Budget = Budget{}
	if x := s.Shrink(ctx, first); x.Runs > 1 || x.After.Case.Only != nil {
		t.Errorf("with a context that has ended: %v", x)
	}
}

// What goes on for long after the time at which the failure came is given up.
func TestShrinkDoesNotWait(t *testing.T) {
	var mu sync.Mutex
	longest := time.Duration(0)
	s := Plan{Play: func(w *simulate.World) error {
		if w.Pick("noise", 0, 9) > 0 {
			_ = w.Run(time.Second)
			return errors.New("broken: soon")
		}
		err := w.Run(time.Hour)
		mu.Lock()
		defer mu.Unlock()
		longest = max(longest, w.Now())
		return err
	}}
	x := s.Shrink(t.Context(), s.Replay(Case{Set: map[string]int64{"noise": 9}}, false))
	if parameterValues(x.After)["noise"] != 1 {
		t.Errorf("shrunk to %v", x.After.Case)
	}
	if longest == 0 || longest > 10*time.Second {
		t.Errorf("a run was given up after %v, for a failure after %v", longest, x.Before.Time)
	}
}

func TestShrinkOfWhatDidNotFail(t *testing.T) {
	s := Plan{Play: fails()}
	if x := s.Shrink(t.Context(), s.Replay(s.Case(1), false)); x.Runs != 0 || x.After.Err != nil {
		t.Errorf("%+v", x)
	}
}

// A failure whose smallest run does not repeat, in its events or in what it says, is not confirmed,
// and the text says so.
func TestShrinkOfWhatDoesNotRepeat(t *testing.T) {
	for name, play := range map[string]func(w *simulate.World, run int64) error{
		"events": func(w *simulate.World, run int64) error {
			w.At(time.Duration(run), func() {})
			if err := w.Run(time.Second); err != nil {
				return err
			}
			return errors.New("broken: same")
		},
		"text": func(w *simulate.World, run int64) error {
			if err := w.Run(time.Second); err != nil {
				return err
			}
			return fmt.Errorf("broken: in run %d", run)
		},
	} {
		var runs atomic.Int64
		s := Plan{Workers: 1, Play: func(w *simulate.World) error {
			w.Pick("n", 0, 9)
			return play(w, runs.Add(1))
		}}
		x := s.Shrink(t.Context(), s.Replay(s.Case(1), false))
		if x.Confirmed || x.Interrupted || !strings.Contains(x.String(), "something other than the seed decides") {
			t.Errorf("%s: confirmed %v, %v", name, x.Confirmed, x)
		}
	}
}

// However many parameters and fault points there are, what is at its least is one word.
func TestShrinkTurnsFaultPointsOff(t *testing.T) {
	s := Plan{Options: simulate.Options{Seed: 1, Profile: simulate.Hostile}, Play: func(w *simulate.World) error {
		for _, p := range w.Parameters() {
			if strings.HasPrefix(p.Name, "site-") && p.Value > 0 {
				w.Pick("other", 1, 2)
				return errors.New("broken: or so it seems")
			}
		}
		return nil
	}}
	first := found(t, s)
	x := s.Shrink(t.Context(), first) // the sites matter here: one of them stays on
	on := 0
	for _, p := range x.After.Parameters {
		if strings.HasPrefix(p.Name, "site-") && p.Value > 0 {
			on++
		}
	}
	if on != 1 || !x.Confirmed {
		t.Errorf("%d fault points are on: %v", on, x)
	}
	s.Play = func(*simulate.World) error { return errors.New("broken: always") }
	x = s.Shrink(t.Context(), s.Replay(first.Case, false))
	if slices.ContainsFunc(x.After.Parameters, func(p simulate.Parameter) bool { return p.Value > p.Least }) {
		t.Errorf("not all is at its least: %v", x.After.Case)
	}
	if want := (Case{Seed: first.Case.Seed, Profile: simulate.Hostile, Set: map[string]int64{"*": simulate.Least}, Only: []string{}}).String(); x.After.Case.String() != want {
		t.Errorf("shrunk to %v, want %s", x.After.Case, want)
	}
}

// What is not shrunk is not called unrepeatable.
func TestWhatIsNotShrunk(t *testing.T) {
	s := Plan{Play: func(*simulate.World) error { runtime.Goexit(); return nil }, Seeds: 1}
	x := s.Shrink(t.Context(), search(t, s).Findings[0].First)
	if x.Runs != 0 || x.Confirmed || strings.Contains(x.String(), "differs") {
		t.Errorf("confirmed: %t: %v", x.Confirmed, x)
	}
}
