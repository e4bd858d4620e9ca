package search

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lockmesh/mesh/simulate"
)

// fails returns a scenario that fails for the seeds given, and otherwise passes a second.
func fails(seeds ...uint64) func(*simulate.World) error {
	return func(w *simulate.World) error {
		if err := w.Run(time.Second); err != nil {
			return err
		}
		if slices.Contains(seeds, w.Seed()) {
			return fmt.Errorf("broken: seed %d", w.Seed())
		}
		return nil
	}
}

func search(t *testing.T, s Plan) *Report {
	t.Helper()
	r, err := s.Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestSearchFindsNothing(t *testing.T) {
	told := 0
	r := search(t, Plan{Play: fails(), Seeds: 250, Options: simulate.Options{Seed: 3}, Progress: func(p Progress) {
		if told++; p.Seeds != told {
			t.Errorf("the call %d of Progress says %d seeds", told, p.Seeds)
		}
	}})
	if r.Err() != nil || r.Seeds != 250 || r.Simulated != 250*time.Second || told != 250 || r.Failures != 0 || len(r.Findings) != 0 {
		t.Errorf("%+v", r)
	}
	if r := search(t, Plan{Play: fails()}); r.Seeds != 100 {
		t.Errorf("without a size: %d seeds", r.Seeds)
	}
}

// The first failure is the lowest seed's, however many workers there are.
func TestSearchStopsAtTheFirstFailure(t *testing.T) {
	for _, workers := range []int{1, 2, 7} {
		r := search(t, Plan{Play: fails(17, 18, 19, 40), Seeds: 1000, Workers: workers})
		// While the machine holds one worker up in seed 17, the others go on.
		if len(r.Findings) != 1 || r.Findings[0].First.Case.Seed != 17 || r.Seeds < 18 || r.Seeds == 1000 || workers == 1 && r.Seeds != 18 || r.Err() == nil {
			t.Errorf("%d workers: %+v", workers, r)
		}
	}
}

func TestSearchKeepsGoing(t *testing.T) {
	play := func(w *simulate.World) error {
		if w.Seed()%2 == 0 {
			return fmt.Errorf("even: %d", w.Seed())
		}
		if w.Seed()%5 == 0 {
			return fmt.Errorf("five: %d", w.Seed())
		}
		return nil
	}
	r := search(t, Plan{Play: play, Seeds: 40, Options: simulate.Options{Seed: 1}, KeepGoing: true})
	if r.Seeds != 40 || r.Failures != 24 || len(r.Findings) != 2 {
		t.Fatalf("%+v", r)
	}
	for i, want := range []struct {
		class  string
		first  uint64
		seeds  int
		others []uint64
	}{{"even", 2, 20, []uint64{4, 6, 8, 10, 12, 14, 16, 18, 20}}, {"five", 5, 4, []uint64{15, 25, 35}}} {
		f := r.Findings[i]
		var others []uint64
		for _, c := range f.Others {
			others = append(others, c.Seed)
		}
		if f.Class != want.class || f.First.Case.Seed != want.first || f.Seeds != want.seeds || !slices.Equal(others, want.others) {
			t.Errorf("finding %d: %q %d %d %d, want %+v", i, f.Class, f.First.Case.Seed, f.Seeds, others, want)
		}
	}
	all := search(t, Plan{Play: func(w *simulate.World) error { return fmt.Errorf("%c", 0x4e00+w.Seed()) }, Seeds: 300, KeepGoing: true})
	if all.Failures != 300 || len(all.Findings) != maxFindings {
		t.Errorf("all fail, each in its way: %d failures, %d findings", all.Failures, len(all.Findings))
	}
}

func TestSearchTakesProfilesInTurns(t *testing.T) {
	s := Plan{Play: fails(), Profiles: []simulate.Profile{simulate.LAN, simulate.WAN}, Options: simulate.Options{Profile: simulate.Calm}}
	for seed := uint64(0); seed < 4; seed++ {
		if got := s.Case(seed).Profile; got != s.Profiles[seed%2] {
			t.Errorf("seed %d has profile %v", seed, got)
		}
	}
}

// A scenario that something else decides is reported as one, whether a seed of it fails
// or, as the first and one in a hundred, passes. What it says is what is so.
func TestSearchNoticesWhatTheSeedDoesNotDecide(t *testing.T) {
	var runs atomic.Int64
	says := map[string]string{
		"failure":  "their events are the same, but not what the scenario says",
		"course":   "the last in common",
		"message":  "their events are the same, but not what the scenario says",
		"luck":     "their events differ, but two further runs were equal",
		"once":     "the last in common",
		"property": `one of them has sometimes "odd": met 1 of 1 times`,
	}
	for name, play := range map[string]func(*simulate.World) error{
		"failure": func(w *simulate.World) error {
			if w.Seed() == 30 && runs.Add(1) == 1 {
				return errors.New("broken: once")
			}
			return nil
		},
		"course": func(w *simulate.World) error {
			w.At(time.Duration(runs.Add(1)), func() {})
			return w.Run(time.Second)
		},
		"message": func(w *simulate.World) error {
			if w.Seed() == 30 {
				return fmt.Errorf("broken: %d", runs.Add(1))
			}
			return nil
		},
		"luck": func(w *simulate.World) error {
			if runs.Add(1) == 1 {
				w.At(time.Millisecond, func() {})
			}
			return w.Run(time.Second)
		},
		"once": func(w *simulate.World) error { // the first two that are compared are alike
			ticking(w)
			if n := runs.Add(1); n == 1 || n > 4 {
				w.At(time.Duration(n)*time.Millisecond, func() {})
			}
			return w.Run(time.Second)
		},
		"property": func(w *simulate.World) error {
			w.Sometimes("odd", runs.Add(1)%2 == 1)
			return nil
		},
	} {
		runs.Store(0)
		s := Plan{Play: play, Seeds: 100, Workers: 1}
		r := search(t, s)
		if len(r.Findings) != 1 {
			t.Errorf("%s: %+v", name, r)
			continue
		}
		var u *Unrepeatable
		if err := r.Err(); !errors.As(err, &u) || !strings.Contains(err.Error(), "first:") || !strings.Contains(err.Error(), says[name]) {
			t.Errorf("%s: %v, want %q", name, err, says[name])
		}
		if shrunk := s.Shrink(t.Context(), r.Findings[0].First); shrunk.Runs != 0 || shrunk.Confirmed {
			t.Errorf("%s: a failure that does not repeat was shrunk: %+v", name, shrunk)
		}
	}
}

func TestSearchDemandsProperties(t *testing.T) {
	play := func(w *simulate.World) error {
		w.Expect("never", "rare")
		w.Sometimes("common", true)
		if w.Seed() == 77 {
			w.Sometimes("rare", true)
		}
		return nil
	}
	missing := func(s Plan) (missing []string) {
		s.Play = play
		for _, p := range search(t, s).Missing {
			missing = append(missing, p.Name)
		}
		return missing
	}
	if got := missing(Plan{Seeds: 50, Wanted: true}); !slices.Equal(got, []string{"never", "rare"}) {
		t.Errorf("50 seeds miss %q", got)
	}
	if got := missing(Plan{Seeds: 100, Wanted: true}); !slices.Equal(got, []string{"never"}) {
		t.Errorf("100 seeds miss %q", got)
	}
	// Most seeds only expect "rare": the one that met it says of what kind it is.
	properties := search(t, Plan{Seeds: 100, Wanted: true, Play: play}).Properties
	if i := slices.IndexFunc(properties, func(p simulate.Property) bool { return p.Name == "rare" }); i < 0 || properties[i].Kind != simulate.Sometimes || properties[i].Met != 1 {
		t.Errorf("after 100 seeds: %v", properties)
	}
	if got := missing(Plan{Seeds: 50}); got != nil {
		t.Errorf("without Wanted, %q are missing", got)
	}
	if err := search(t, Plan{Seeds: 3, Wanted: true, Play: play}).Err(); err == nil || !strings.HasSuffix(err.Error(), "in none of 3 seeds:\n\texpected \"never\"\n\texpected \"rare\"") {
		t.Errorf("missing properties are no error: %v", err)
	}
}

func TestSearchEnds(t *testing.T) {
	t.Run("with its time", func(t *testing.T) {
		r := search(t, Plan{Play: fails(), For: time.Nanosecond})
		if r.Seeds != 0 || r.Err() != nil || r.Missing != nil {
			t.Errorf("%+v", r)
		}
	})
	t.Run("with its context", func(t *testing.T) {
		ctx, cancel := context.WithCancelCause(t.Context())
		enough := errors.New("enough")
		r, err := Plan{Play: fails(), For: time.Hour, Wanted: true, Progress: func(p Progress) {
			if p.Seeds == 10 {
				cancel(enough)
			}
		}}.Run(ctx)
		if !errors.Is(err, enough) || r.Seeds < 10 || r.Missing != nil {
			t.Errorf("%+v, %v", r, err)
		}
	})
}

func TestBadSearches(t *testing.T) {
	for _, tt := range []struct {
		s    Plan
		want string
	}{
		{Plan{}, "Play"},
		{Plan{Play: fails(), Seeds: -1}, "Seeds"},
		{Plan{Play: fails(), For: -1}, "For"},
		{Plan{Play: fails(), Workers: -1}, "Workers"},
		{Plan{Play: fails(), Options: simulate.Options{Only: []string{"crash"}}}, `fault "crash" is not of the form kind/number`},
		{Plan{Play: fails(), Options: simulate.Options{Link: simulate.Link{Loss: -1}}}, "Link.Loss is -1"},
		{Plan{Play: fails(), Profiles: []simulate.Profile{simulate.Calm, "dull"}}, "dull"},
		{Plan{Play: fails(), Options: simulate.Options{Profile: "dull"}}, "dull"},
	} {
		if r, err := tt.s.Run(t.Context()); r != nil || err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%+v: %v, %v, want an error that names %s", tt.s, r, err, tt.want)
		}
	}
	set := Plan{Play: fails(), Options: simulate.Options{Set: map[string]int64{"hots": 3}}}
	if r := search(t, set); r.Err() == nil || !strings.Contains(r.Err().Error(), "hots") {
		t.Errorf("a parameter that is set, and not there: %v", r.Err())
	}
}

// What a scenario does to itself is a failure of its seed, and no more.
func TestScenariosThatMisbehave(t *testing.T) {
	for name, play := range map[string]func(*simulate.World) error{
		"panic:":  func(*simulate.World) error { panic("oh no") },
		"t.Fatal": func(*simulate.World) error { runtime.Goexit(); return nil },
		"panicked:": func(w *simulate.World) error {
			w.Host("a").Go("x", func(context.Context) { panic("oh no") })
			return w.Run(time.Second)
		},
		"unheard of": func(w *simulate.World) error { w.Fail(errors.New("unheard of")); return nil },
		"outside of an actor: in a simulation, start nothing with a go statement (use simulate.Go)": func(w *simulate.World) error {
			var actors context.Context
			w.Host("a").Go("x", func(ctx context.Context) { actors = ctx })
			w.At(time.Second, func() { _ = simulate.Sleep(actors, time.Second) })
			return w.Run(time.Minute)
		},
		"it must call Run": func(w *simulate.World) error {
			w.Host("a").Go("x", func(context.Context) {})
			return nil
		},
	} {
		r := search(t, Plan{Play: play, Seeds: 3})
		if _, ok := errors.AsType[*Unrepeatable](r.Err()); ok {
			t.Errorf("%s: not repeatable: %v", name, r.Err())
		}
		if r.Failures == 0 || !strings.Contains(fmt.Sprint(r.Err()), name) || !strings.Contains(r.Err().Error(), "repeat: ") {
			t.Errorf("%s: %v", name, r.Err())
		}
	}
}

// A search of a night must not grow.
func TestSearchForgetsWhatPasses(t *testing.T) {
	play := func(w *simulate.World) error {
		var hosts []*simulate.Host
		for i := range 5 {
			h := w.Host(fmt.Sprint("h", i))
			hosts = append(hosts, h)
			h.Boot("sleeper", func(ctx context.Context) {
				simulate.Go(ctx, "child", func(ctx context.Context) { _ = simulate.Sleep(ctx, time.Hour) })
				_ = simulate.Sleep(ctx, time.Hour)
			})
		}
		w.At(time.Second, func() { hosts[0].Go("late", func(context.Context) {}); w.Host("h0").Crash() }) // it never runs
		return w.Run(time.Second)
	}
	measure := func(seeds int) (heap uint64, goroutines int) {
		search(t, Plan{Play: play, Seeds: seeds, Workers: 1})
		var m runtime.MemStats
		for range 3 {
			runtime.GC()
		}
		runtime.ReadMemStats(&m)
		return m.HeapAlloc, runtime.NumGoroutine()
	}
	heap, goroutines := measure(50)
	after, more := measure(1000)
	if more > goroutines+5 {
		t.Errorf("%d goroutines after 50 seeds, %d after 1050", goroutines, more)
	}
	if after > heap+1<<20 {
		t.Errorf("%d bytes in use after 50 seeds, %d after 1050", heap, after)
	}
}
