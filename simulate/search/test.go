package search

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/lockmesh/mesh/internal/shell"
	"github.com/lockmesh/mesh/simulate"
	"github.com/lockmesh/mesh/simulate/timeline"
)

// T is what Test needs of a *testing.T, or of a *testing.B or *testing.F.
type T interface {
	Helper()
	Name() string
	Context() context.Context
	ArtifactDir() string
	Logf(format string, args ...any)
	Fatalf(format string, args ...any)
}

// Environment is the name of an environment variable that tells Test to play something else: one
// case, as a failure names it, or, with seeds=1000 or for=10m in it, a larger search from seed on.
//
//	LOCKMESH_SIMULATE='seed=42 only=crash/1' go test -run '^TestOrders$' .
//	LOCKMESH_SIMULATE='seed=1000 for=8h' go test -run '^TestOrders$' -timeout 0 .
//
// With until=12.5s, or with a number of events, until=1234, a case stops there, and the state of the world is
// logged (see [simulate.World.State]). If a test function calls Test several times, a case belongs to the first call, or with search=2
// to the second, and so on; the other calls then do nothing.
const Environment = "LOCKMESH_SIMULATE"

// shortSeeds is how many seeds Test plays with -short, if the search does not say.
const shortSeeds = 10

// testFlag reports whether go test was called with a flag.
func testFlag(name string) bool {
	f := flag.Lookup("test." + name)
	return f != nil && f.Value.String() == "true"
}

// Test searches, and fails t if a seed fails. It shows the smallest run that fails in the
// same way, the lines of its timeline that bear on the failure, and the line that
// repeats it. The whole timeline goes into two files, run.html for people and run.log for
// programs: in t.ArtifactDir() if the test runs with -artifacts, and otherwise in a new
// temporary directory. Neither a scenario nor an actor may call t.Fatal, since its text would
// come with every run.
//
// A test that passes logs what was played, and names the registers that refused nothing (see
// [Report.Unfenced]), which a terminal also shows without -v.
//
// Test reports progress every ten seconds or less often: in the log with -v, and otherwise on
// standard error if that is a terminal, as it is for go test without the name of a package.
// Shrinking ends when half of the time that remains to -timeout is over.
//
// The first SIGINT or SIGTERM ends the worlds under way, and the shrinking: Test writes what
// it has by then to standard error, and the process ends, with status 130. A second one ends
// it at once.
//
//	func TestOrders(t *testing.T) {
//		search.Test(t, search.Plan{Play: orders, Options: simulate.Options{Profile: simulate.Flaky}})
//	}
func Test(t T, s Plan) {
	t.Helper()
	number := numbered(t)
	if s.Repeat == nil {
		s.Repeat = testLine(t.Name(), testPackage(), number)
	}
	asked, err := s.request(os.Getenv(Environment))
	if err != nil {
		t.Fatalf("%v", err)
		return
	}
	if number != asked.search && (asked.one != nil || asked.search > 1) {
		t.Logf("%s names search %d of this test: search %d is left out", Environment, asked.search, number)
		return
	}
	if s.Seeds == 0 && s.For == 0 && testFlag("short") {
		s.Seeds, s.Wanted = shortSeeds, false // so few need not meet everything
	}
	if err := s.check(); err != nil {
		t.Fatalf("%v", err)
		return
	}
	ctx, over := catch(t)
	defer over()
	if asked.one != nil {
		s.Options.Until, s.Options.Interrupt = asked.until, ctx.Done()
		s.testCase(ctx, t, over, *asked.one)
		return
	}
	s.testSearch(ctx, t, over)
}

// testCase plays one case, and fails t if it fails. Over is what catch returned.
func (s Plan) testCase(ctx context.Context, t T, over func(), c Case) {
	t.Helper()
	o := s.Replay(c, true)
	where := keep(t, o.Timeline)
	stopped, is := errors.AsType[*simulate.Stopped](o.Err)
	switch {
	case is && stopped.Interrupted && signalled(ctx):
		giveUp(ctx, t, over, fmt.Sprintf("%v\n%s%s", o.Err, stopped.State, where))
	case is:
		t.Logf("%v\n%s%s", o.Err, stopped.State, where)
	case o.Err != nil:
		t.Fatalf("%v\n%s", o.Err, where)
	default:
		t.Logf("%v passes: %v simulated, %d events, hash %x\n%s", o.Case, o.Time, o.Events, o.Hash, where)
	}
}

// testSearch searches, and fails t if a seed fails. Over is what catch returned.
func (s Plan) testSearch(ctx context.Context, t T, over func()) {
	t.Helper()
	x := newTeller(t)
	x.hear(&s)
	report, err := s.Run(ctx)
	if err == nil && len(report.Missing) > 0 {
		err = report.Err()
	}
	text := ""
	if len(report.Findings) > 0 {
		text = s.failure(ctx, t, x, report)
	}
	switch {
	case signalled(ctx):
		giveUp(ctx, t, over, s.soFar(report)+text)
	case text != "":
		t.Fatalf("%s", text)
	case err != nil:
		t.Fatalf("%v", err)
	default:
		notes := report.Unfenced()
		t.Logf("%s", strings.Join(append([]string{s.played(report) + ": no failure"}, notes...), "\n"))
		x.also(notes)
	}
}

// played tells what a search has done.
func (s Plan) played(r *Report) string {
	return fmt.Sprintf("%s from %d on, %v simulated in %v, %d faults, %d calls, %d locks", seeds(r.Seeds), s.Options.Seed,
		r.Simulated.Round(time.Second), r.Elapsed.Round(time.Millisecond), r.Faults, r.Calls, r.Grants)
}

// soFar tells what an interrupted search has done, and what it was about to.
func (s Plan) soFar(r *Report) string {
	text := s.played(r)
	if r.Failures == 0 {
		text += ": no failure so far"
	}
	for _, o := range r.UnderWay {
		text += fmt.Sprintf("\nunder way: seed %d, at %v\nrepeat: %s", o.Case.Seed, o.Time.Round(time.Millisecond), s.repeat(o.Case))
	}
	if r.Failures > 0 {
		text += "\n"
	}
	return text
}

// searches counts the searches of each test.
var searches struct {
	sync.Mutex
	of map[T]int
}

// numbered returns the number of a search of t, from 1.
func numbered(t T) int {
	searches.Lock()
	defer searches.Unlock()
	if searches.of == nil {
		searches.of = make(map[T]int)
	}
	searches.of[t]++
	return searches.of[t]
}

// request is what Environment asks for.
type request struct {
	search int            // which of the test's searches it is about, from 1
	one    *Case          // to be played in place of that search; nil: none
	until  simulate.Until // where that case stops
}

// request reads the words of Environment, and lets them change the search.
func (s *Plan) request(words string) (r request, err error) {
	r.search = 1
	c := caseOf(s.Options)
	named, profile, larger := false, false, false // words of a case, its profile, another size of the search
	for _, word := range strings.Fields(words) {
		name, value, _ := strings.Cut(word, "=")
		switch name {
		case "search":
			if r.search, err = strconv.Atoi(value); err != nil || r.search < 1 {
				err = fmt.Errorf("%q is not the number of a search", word)
			}
		case "until":
			if r.until.Events, err = strconv.ParseUint(value, 10, 64); err != nil {
				r.until.Time, err = time.ParseDuration(value)
			}
			if err != nil || r.until.Time < 0 || r.until == (simulate.Until{}) {
				err = fmt.Errorf("%q is neither a number of events nor a time such as until=12.5s", word)
			}
		case "seeds", "for":
			if !larger {
				s.Seeds, s.For = 0, 0
			}
			larger = true
			err = s.resize(name, value)
		default:
			var known bool
			if known, err = c.Take(name, value); !known {
				err = fmt.Errorf("there is no %q: there are seed, profile, set, only, variant, bug, until, search, seeds and for", name)
			}
			named, profile = true, profile || name == "profile"
		}
		if err != nil {
			return request{}, fmt.Errorf("%s: %w", Environment, err)
		}
	}
	s.Options = c.apply(s.Options)
	if profile {
		s.Profiles = nil
	}
	switch {
	case named && !larger:
		c = s.Case(c.Seed)
		r.one = &c
	case r.until != simulate.Until{}:
		return request{}, fmt.Errorf("%s: until= stops one seed: name it with seed=", Environment)
	}
	return r, nil
}

// resize lets seeds=1000 or for=10m say how long the search is.
func (s *Plan) resize(name, value string) (err error) {
	if name == "seeds" {
		if s.Seeds, err = strconv.Atoi(value); err != nil || s.Seeds < 1 {
			return fmt.Errorf("\"seeds=%s\" is not a number of seeds", value)
		}
		return nil
	}
	if s.For, err = time.ParseDuration(value); err != nil || s.For <= 0 {
		return fmt.Errorf("\"for=%s\" is not a time such as for=10m", value)
	}
	return nil
}

// failure shrinks the first failure and tells of it. Once ctx has ended it tells what it has.
func (s Plan) failure(ctx context.Context, t T, x *teller, report *Report) string {
	first, others := report.Findings[0].First, s.others(report)
	if u, ok := errors.AsType[*Unrepeatable](first.Err); ok {
		return fmt.Sprintf("%v\nrepeat: %s%s", u, s.repeat(u.Case), others)
	}
	if !smaller(first.Err) || ctx.Err() != nil {
		return fmt.Sprintf("%v%s", first.Err, others)
	}
	s.Budget = spare(t, s.Budget)
	x.shrinks(&s, first)
	shrunk := s.Shrink(ctx, first)
	s.Options.Interrupt = ctx.Done()
	o := s.Replay(shrunk.After.Case, true)
	if interrupted(o.Err) {
		return fmt.Sprintf("%v\n%s%s", shrunk.After.Err, shrunk, others)
	}
	return fmt.Sprintf("%v\n%s\n%s%s", o.Err, shrunk, keep(t, o.Timeline), others)
}

// others tells of the failures that are not shown whole.
func (s Plan) others(report *Report) (text string) {
	if n := report.Findings[0].Seeds; n > 1 {
		text = fmt.Sprintf("\n%s failed in this way", strings.Replace(seeds(n-1), " ", " more ", 1))
	}
	for _, f := range report.Findings[1:] {
		text += fmt.Sprintf("\n%s: %s\nrepeat: %s", seeds(f.Seeds), firstLine(f.First.Err), s.repeat(f.First.Case))
	}
	return text
}

// String says what has become smaller, and by how much.
func (s Shrunk) String() string {
	a, b := s.Before, s.After
	text := fmt.Sprintf("shrunk in %s: ", count(s.Runs, "run"))
	if s.Interrupted {
		text = fmt.Sprintf("shrunk in %s, and interrupted: ", count(s.Runs, "run"))
	}
	if n := len(a.Faults); n > 0 { // those of a script have no names, and stay
		text += fmt.Sprintf("faults %d -> %d, ", n, len(b.Faults))
	}
	switches := 0
	for _, p := range b.Parameters {
		for _, q := range a.Parameters {
			switch {
			case p.Name != q.Name || p.Value == q.Value:
			case p.Switch && p.Value == p.Least:
				switches++ // there may be dozens
			default:
				text += fmt.Sprintf("%s %d -> %d, ", p.Name, q.Value, p.Value)
			}
		}
	}
	if switches > 0 {
		text += fmt.Sprintf("fault points and lost messages off: %d, ", switches)
	}
	text += fmt.Sprintf("failing at %v -> %v", a.Time.Round(time.Millisecond), b.Time.Round(time.Millisecond))
	if s.Runs > 0 && !s.Confirmed && !s.Interrupted {
		text += "; its last run differs from the one before: something other than the seed decides"
	}
	return text
}

// soFar tells of a failure that is being shrunk.
func (s Shrunk) soFar() string {
	text := count(s.Runs, "run")
	if n := len(s.Before.Faults); n > 0 {
		text += fmt.Sprintf(", faults %d -> %d", n, len(s.After.Faults))
	}
	return text
}

// keep writes the timeline's files, and says where they are.
func keep(t T, tl *timeline.Timeline) string {
	var dir string
	var err error
	if testFlag("artifacts") {
		dir = t.ArtifactDir()
	} else {
		dir, err = os.MkdirTemp("", "lockmesh-")
	}
	page := filepath.Join(dir, "run.html")
	if err == nil {
		err = errors.Join(timeline.WriteFile(page, tl.WriteHTML), timeline.WriteFile(filepath.Join(dir, "run.log"), tl.WriteLog))
	}
	if err != nil {
		return fmt.Sprintf("the timeline is not kept: %v", err)
	}
	return "open " + page
}

// testLine returns what repeats cases of a test's search: an environment and a command.
func testLine(test, pkg string, search int) func(Case) string {
	var pattern []string
	for _, part := range strings.Split(test, "/") {
		pattern = append(pattern, "^"+regexp.QuoteMeta(part)+"$")
	}
	return func(c Case) string {
		words := c.String()
		if search > 1 {
			words += fmt.Sprintf(" search=%d", search)
		}
		return fmt.Sprintf("%s=%s go test -count 1 -run %s %s", Environment, shell.Quote(words), shell.Quote(strings.Join(pattern, "/")), pkg)
	}
}

// testPackage returns the import path of the package whose tests this program runs. If it
// is not known, that is the directory at hand.
func testPackage() string {
	if info, ok := debug.ReadBuildInfo(); ok {
		if path, ok := strings.CutSuffix(info.Path, ".test"); ok {
			return path
		}
	}
	return "."
}
