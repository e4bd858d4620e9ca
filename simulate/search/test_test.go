package search

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/lockmesh/mesh/simulate"
)

func TestTheLineThatRepeatsATest(t *testing.T) {
	c := Case{Seed: 7, Set: map[string]int64{"*": simulate.Least}}
	for _, tt := range []struct{ test, want string }{
		{"TestX", `LOCKMESH_SIMULATE='seed=7 set=*=least' go test -count 1 -run '^TestX$' shop`},
		{"TestX/a.b", `LOCKMESH_SIMULATE='seed=7 set=*=least' go test -count 1 -run '^TestX$/^a\.b$' shop`},
		{"TestX/it's", `LOCKMESH_SIMULATE='seed=7 set=*=least' go test -count 1 -run '^TestX$/^it'\''s$' shop`},
	} {
		if got := testLine(tt.test, "shop", 1)(c); got != tt.want {
			t.Errorf("%s: %s\nwant %s", tt.test, got, tt.want)
		}
	}
	const here = "github.com/lockmesh/mesh/simulate/search"
	if got := testPackage(); got != here {
		t.Errorf("this test is in %s, not %s", here, got)
	}
}

// With KeepGoing, each way in which seeds failed is told of.
func TestTestTellsOfEveryFailure(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	t.Setenv(Environment, "")
	r := &silent{T: t}
	Test(r, Plan{Seeds: 9, KeepGoing: true, Play: func(w *simulate.World) error {
		switch w.Seed() {
		case 3, 4:
			return fails(3, 4)(w)
		case 5:
			panic("oh no")
		}
		return nil
	}})
	for _, want := range []string{"broken: seed 3", "1 more seed", "1 seed: panic: oh no", "seed=5"} {
		if !strings.Contains(r.said, want) {
			t.Errorf("no %q in\n%s", want, r.said)
		}
	}
}

// What a scenario says itself is shown with its seed, what it took, and the line that
// repeats it, in a search and alone.
func TestTestNamesTheSeedOfEveryError(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	own := errors.New("broken: as I see it")
	ten := func(w *simulate.World) error { return w.RunUntil(func() bool { return false }, 10*time.Second) }
	breaks := func(w *simulate.World) error {
		w.At(time.Second, func() { w.Always("sun", false, "rain") })
		return w.Run(2 * time.Second)
	}
	for _, tt := range []struct {
		name string
		play func(w *simulate.World) error
		want string
	}{
		{"its own", func(*simulate.World) error { return own }, "broken: as I see it"},
		{"its own, of what it waited for", func(w *simulate.World) error { _ = ten(w); return own }, "broken: as I see it"},
		{"what it waited for, wrapped", func(w *simulate.World) error { return fmt.Errorf("%w: %w", own, ten(w)) }, "broken: as I see it: simulate: not within 10s"},
		{"its own, of what a checker saw", func(w *simulate.World) error { _ = breaks(w); return own }, `always "sun": rain`},
		{"a panic", func(w *simulate.World) error {
			w.Host("a").Go("x", func(context.Context) { panic("oh no") })
			return w.Run(time.Second)
		}, "simulate: actor a/x panicked: oh no"},
	} {
		for _, words := range []string{"seeds=1", "seed=0"} {
			t.Setenv(Environment, words)
			r := &silent{T: t}
			Test(r, Plan{Play: tt.play})
			if !strings.HasPrefix(r.said, tt.want) || strings.Count(r.said, "\nseed 0, at ") != 1 || strings.Count(r.said, "\nrepeat: LOCKMESH_SIMULATE='seed=0") != 1 ||
				strings.Count(r.said, "debug.Stack()") > 1 || strings.Contains(r.said, "faults 0") || strings.Contains(r.said, "1 seeds") {
				t.Errorf("%s, %s: it says\n%s", tt.name, words, r.said)
			}
		}
	}
}

// A scenario that calls t.Fatal in a simulation is told not to, and calls it once.
func TestTestPlaysOnceWhatCallsFatal(t *testing.T) {
	t.Setenv(Environment, "")
	for who, play := range map[string]func(w *simulate.World, fatal func()) error{
		"the scenario": func(_ *simulate.World, fatal func()) error { fatal(); return nil },
		"actor a/x": func(w *simulate.World, fatal func()) error {
			w.Host("a").Go("x", func(context.Context) { fatal() })
			return w.Run(time.Second)
		},
	} {
		calls := 0
		r := &silent{T: t}
		Test(r, Plan{Workers: 1, Play: func(w *simulate.World) error { return play(w, func() { calls++; runtime.Goexit() }) }})
		if calls != 1 || !strings.HasPrefix(r.said, "simulate: "+who+" ended its goroutine") || !strings.Contains(r.said, "seed=0") {
			t.Errorf("%s: %d calls, and the test says\n%s", who, calls, r.said)
		}
	}
}

// What a search wants is missed by Test, but not by the few seeds of -short.
func TestTestMissesProperties(t *testing.T) {
	t.Setenv(Environment, "")
	r := &silent{T: t}
	Test(r, Plan{Wanted: true, Play: func(w *simulate.World) error { w.Expect("never"); return nil }})
	want := "search: these properties were met in none of 100 seeds:\n\texpected \"never\""
	if testing.Short() {
		want = ""
	}
	if r.said != want {
		t.Errorf("it says %q, want %q", r.said, want)
	}
}

// silent is a test whose failure is recorded, and fails nothing.
type silent struct {
	*testing.T
	said string
}

func (s *silent) Fatalf(format string, args ...any) { s.said = fmt.Sprintf(format, args...) }

// noted is silent, and keeps what is logged.
type noted struct {
	silent
	logged string
}

func (s *noted) Logf(format string, args ...any) { s.logged += fmt.Sprintf(format, args...) + "\n" }

func newNoted(t *testing.T) *noted { return &noted{silent: silent{T: t}} }

// The line of a test's second search repeats it.
func TestTheSecondSearchIsRepeated(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	both := func() (first, second *noted) {
		r := newNoted(t)
		calm := func(w *simulate.World) error { w.Host("a"); return w.Run(time.Second) }
		Test(r, Plan{Seeds: 2, Play: calm})
		first, r.said = &noted{silent: silent{said: r.said}}, ""
		Test(r, Plan{Seeds: 2, Play: func(w *simulate.World) error {
			n := w.Pick("n", 3, 9)
			w.At(time.Second, func() { w.Always("small", n < 3, "n is %d", n) })
			return w.Run(2 * time.Second)
		}})
		return first, r
	}
	t.Setenv(Environment, "")
	_, found := both()
	_, words, _ := strings.Cut(found.said, Environment+"='")
	words, _, _ = strings.Cut(words, "'")
	t.Setenv(Environment, words)
	first, again := both()
	if first.said != "" || !strings.Contains(again.said, `always "small"`) {
		t.Errorf("%s: the first says %q, the second %q", words, first.said, again.said)
	}
}

// A user's own world stops where he wants to look at it.
func TestUntilInATest(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	t.Setenv(Environment, "seed=3 until=1.5s")
	r := newNoted(t)
	Test(r, Plan{Play: func(w *simulate.World) error { w.Host("shop"); return w.Run(3 * time.Second) }})
	if r.said != "" || !strings.Contains(r.logged, "stopped at 1.5s") || !strings.Contains(r.logged, "shop: incarnation 1") {
		t.Errorf("it says %q, and logs %q", r.said, r.logged)
	}
}

// A register that had nothing to refuse in any world is named, and fails nothing.
func TestRegistersThatRefuseNothingAreToldOf(t *testing.T) {
	t.Setenv(Environment, "seeds=10")
	r := newNoted(t)
	Test(r, Plan{Wanted: true, Play: func(w *simulate.World) error {
		for i := range uint64(10) {
			w.Register("calm").Write(i)
			if stale := i > 5 && w.Seed() == 3; stale {
				w.Register("rough").Write(i - 5)
			} else {
				w.Register("rough").Write(i)
			}
		}
		w.Register("unused")
		return nil
	}})
	said := " 0 locks: no failure\n" +
		"register \"calm\" refused none of 100 writes: no stale token came to it, so this shows nothing about fencing\n" +
		"register \"unused\" refused none of 0 writes: no stale token came to it, so this shows nothing about fencing\n"
	if r.said != "" || !strings.HasSuffix(r.logged, said) {
		t.Errorf("it says %q, and logs %q", r.said, r.logged)
	}
}

// Where a test's log is not shown, it is said on the terminal, and nowhere twice.
func TestNotesAreShownOnce(t *testing.T) {
	for _, logs := range []bool{true, false} {
		said := 0
		x := &teller{logs: logs, say: func(string) { said++ }}
		x.also([]string{"one", "two"})
		if want := map[bool]int{true: 0, false: 2}[logs]; said != want {
			t.Errorf("logged: %v: %d are said, want %d", logs, said, want)
		}
	}
	new(teller).also([]string{"nobody listens"})
}

// A deferred call that ends its goroutine when the world is closed takes no outcome along.
func TestGoexitAtClose(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	t.Setenv(Environment, "")
	for _, broken := range []bool{true, false} {
		r := newNoted(t)
		Test(r, Plan{Seeds: 10, Workers: 1, Play: func(w *simulate.World) error {
			w.Host("a").Go("x", func(ctx context.Context) {
				defer runtime.Goexit()
				_ = simulate.Sleep(ctx, time.Hour)
			})
			w.At(time.Second, func() { w.Always("sun", !broken, "rain") })
			return w.Run(2 * time.Second)
		}})
		want := "ended its goroutine"
		if broken {
			want = `always "sun": rain`
		}
		if !strings.Contains(r.said, want) {
			t.Errorf("broken %v: it fails with %q, and logs %q", broken, r.said, r.logged)
		}
	}
}

// Words that size a search replace the test's own size, and are one size together.
func TestWordsSizeASearch(t *testing.T) {
	for _, tt := range []struct {
		words string
		seeds int
		long  time.Duration
	}{
		{"seeds=2", 2, 0},
		{"for=1m", 0, time.Minute},
		{"seeds=2 for=1m", 2, time.Minute},
		{"profile=calm for=1m seeds=2", 2, time.Minute},
		{"profile=calm", 7, time.Hour},
	} {
		p := Plan{Seeds: 7, For: time.Hour}
		if _, err := p.request(tt.words); err != nil || p.Seeds != tt.seeds || p.For != tt.long {
			t.Errorf("%s: %v, %d seeds, for %v", tt.words, err, p.Seeds, p.For)
		}
	}
}
