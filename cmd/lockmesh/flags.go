package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/lockmesh/mesh/internal/shell"
	"github.com/lockmesh/mesh/simulate"
	"github.com/lockmesh/mesh/simulate/drill"
	"github.com/lockmesh/mesh/simulate/search"
	"github.com/lockmesh/mesh/simulate/timeline"
)

const simulateUsage = `usage: lockmesh simulate [flags]

Plays the standard drill in one simulated world after another: a fleet of nodes, a load,
and a storm of faults. It checks what the mesh promises. The worlds differ by their seeds.
A failure is made small, and shown with the line that repeats it.

  lockmesh simulate -seeds 1000                     worlds of all profiles
  lockmesh simulate -profile hostile -for 8h        a night of the worst
  lockmesh simulate -seed 42 -profile flaky -timeline run.html
  lockmesh simulate -seed 42 -profile flaky -until 12.5s
  lockmesh simulate -bug NoDedup                    see a bug being noticed
  lockmesh simulate -list                           names for -set, -only, -bug and -profile
  lockmesh simulate -story partition.txt            a story of your own: simulate/story/MANUAL.md

SIGINT and SIGTERM end the worlds under way, or the shrinking, and the command reports what
it has found so far. A second signal ends it at once. The exit status is 0 if nothing failed,
1 if something did or a file could not be written in the end, 2 if the flags make no sense, a file that
they name cannot be read or written, or a -bug does not build, and 130 if the command was interrupted
before anything failed.

flags:
`

// settings are what the flags say.
type settings struct {
	search  search.Plan
	one     bool // only one seed is played
	marks   bool // each mark of the library must be met in some world
	shrink  bool
	list    bool
	page    string // a file, for the timeline as HTML
	log     string // a file, for the timeline as lines of JSON
	text    bool
	mermaid bool
	mutants []string // that are not in this program, and are to be built into another
}

// wantsTimeline reports whether the timeline of a run is wanted.
func (s *settings) wantsTimeline() bool { return s.page != "" || s.log != "" || s.text || s.mermaid }

// parse reads the flags. Its error says what is wrong with them; flag.ErrHelp, that the
// usage was asked for, which goes to out.
func parse(args []string, out io.Writer) (*settings, error) {
	f := newFlagSet()
	if err := f.read(args, out); err != nil {
		return nil, err
	}
	s := f.settings
	if err := s.size(f.given); err != nil {
		return nil, err
	}
	for _, name := range []string{"for", "keep-going", "marks", "shrink"} {
		if f.given["until"] && f.given[name] {
			return nil, fmt.Errorf("-until stops one seed, so -%s makes no sense", name)
		}
	}
	if err := s.until(f.until); err != nil {
		return nil, err
	}
	if err := s.files(); err != nil {
		return nil, err
	}
	if f.story != "" {
		for _, name := range []string{"profile", "set", "only", "marks", "shrink"} {
			if f.given[name] {
				return nil, fmt.Errorf("-story: the story itself says what its world is like and what happens there, so -%s makes no sense", name)
			}
		}
		return s, s.tell(f.story)
	}
	return s, s.profiles(f.profiles)
}

// flagSet defines the flags. Some have their value in settings at once; the others keep it here
// until all flags are known.
type flagSet struct {
	*flag.FlagSet
	settings *settings
	given    map[string]bool // the names of the flags on the command line
	first    search.Case     // what -seed, -set, -only, -variant and -bug say

	profiles, until, replay, story string // the values of the flags of these names
}

func newFlagSet() *flagSet {
	s := &settings{search: search.Plan{Play: drill.Play, Repeat: commandLine}}
	f := &flagSet{
		FlagSet:  flag.NewFlagSet("lockmesh simulate", flag.ContinueOnError),
		settings: s,
		given:    make(map[string]bool),
		first:    search.Case{Seed: 1},
	}
	f.SetOutput(io.Discard)
	f.StringVar(&f.profiles, "profile", "all", "`profiles` of worlds, to be taken in turns: all, or some of "+list(simulate.Profiles()))
	f.caseVar("seed", "the `number` of the first seed (default 1); if -seed is given without -seeds and -for, only this seed is played")
	f.IntVar(&s.search.Seeds, "seeds", 0, "the `number` of seeds (default 100, or 1 with -seed, or as many as -for allows)")
	f.DurationVar(&s.search.For, "for", 0, "begin no more seeds after this `time`, such as 8h")
	f.IntVar(&s.search.Workers, "workers", runtime.GOMAXPROCS(0), "the `number` of worlds that run at once")
	f.BoolVar(&s.search.KeepGoing, "keep-going", false, "do not stop at the first failure")
	f.BoolVar(&s.marks, "marks", false, "fail unless each rare situation that -list names came about in some world")
	f.BoolVar(&s.shrink, "shrink", true, "make the first failure small; false by default if only one seed is played, and always with -story")
	f.DurationVar(&s.search.Budget.For, "shrink-for", 2*time.Minute, "shrink for no longer than this `time`")
	f.caseVar("set", "set `parameters` instead of drawing them: hosts=3,keys=2; site-*=least sets all that begin with site-")
	f.caseVar("only", "allow only these `faults`: crash/1,pair/3, or none")
	f.caseVar("variant", "play another course of events in the same world, of this `number`")
	f.caseVar("bug", "switch on deliberate bugs: the `names` of mutants, which are patches in simulate/mutants of the source tree")
	f.StringVar(&f.until, "until", "", "stop one seed at this `point`, a number of events or a simulated time (12.5s), and print the state of the world")
	f.StringVar(&s.page, "timeline", "", "write the timeline of the only seed, or of the first failure, into this HTML `file`")
	f.StringVar(&s.log, "log", "", "write the timeline of the only seed, or of the first failure, as lines of JSON, for programs and for -replay, into this `file`")
	f.BoolVar(&s.text, "text", false, "print the timeline of the only seed, or of the first failure")
	f.BoolVar(&s.mermaid, "mermaid", false, "print a Mermaid diagram of what led to the first failure, or to the end of the only seed")
	f.StringVar(&f.replay, "replay", "", "repeat the run of a `file` that -log wrote; other flags take precedence")
	f.StringVar(&f.story, "story", "", "play the story in this `file` instead of the drill")
	f.BoolVar(&s.list, "list", false, "list parameters, faults, fault points, kinds of messages, marks and bugs")
	return f
}

// caseVar defines a flag that sets a field of the first case.
func (f *flagSet) caseVar(name, usage string) {
	f.Func(name, usage, func(value string) error {
		_, err := f.first.Take(name, value)
		if name != "bug" {
			return trim(err)
		}
		f.settings.mutants = nil // of a -bug before this one
		if err == nil {
			return nil
		}
		if f.settings.mutants = mutantsOf(value, ownMutant); len(f.settings.mutants) > 0 {
			return nil
		}
		return fmt.Errorf("%w (see -list)", trim(err))
	})
}

// read parses args, and before them those of the run that -replay names.
func (f *flagSet) read(args []string, out io.Writer) error {
	if err := f.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			explain(out, simulateUsage, f.FlagSet)
		}
		return err
	}
	if f.replay != "" {
		recorded, err := repeated(f.replay)
		if err != nil {
			return err
		}
		if err := f.Parse(slices.Concat(recorded, args)); err != nil {
			return err
		}
	}
	if f.NArg() > 0 {
		return fmt.Errorf("unexpected argument %q", f.Arg(0))
	}
	f.Visit(func(g *flag.Flag) { f.given[g.Name] = true })
	c := f.first
	f.settings.search.Options = simulate.Options{Seed: c.Seed, Set: c.Set, Only: c.Only, Variant: c.Variant}
	return nil
}

// size checks how much is to be searched and shrunk, and chooses what was not given.
func (s *settings) size(given map[string]bool) error {
	switch {
	case given["seeds"] && s.search.Seeds < 1:
		return fmt.Errorf("-seeds %d: it must be 1 or more", s.search.Seeds)
	case given["for"] && s.search.For <= 0:
		return fmt.Errorf("-for %v: it must be more than 0", s.search.For)
	case s.search.Budget.For <= 0:
		return fmt.Errorf("-shrink-for %v: it must be more than 0", s.search.Budget.For)
	case s.search.Workers < 1:
		return fmt.Errorf("-workers %d: it must be 1 or more", s.search.Workers)
	case !given["seeds"] && !given["for"] && (given["seed"] || given["until"]):
		s.search.Seeds = 1
	case !given["seeds"] && !given["for"]:
		s.search.Seeds = 100
	}
	s.one = s.search.Seeds == 1
	if !given["shrink"] {
		s.shrink = !s.one
	}
	return nil
}

// files checks -timeline and -log.
func (s *settings) files() error {
	for _, file := range []string{s.page, s.log} {
		if err := writable(file); err != nil {
			return err
		}
	}
	if s.page != "" && s.page == s.log {
		return fmt.Errorf("-timeline and -log are both %s", s.page)
	}
	return nil
}

// writable returns an error if a file cannot be written, before hours are spent on what
// is to be in it. It leaves no file behind.
func writable(file string) error {
	if file == "" {
		return nil
	}
	if info, err := os.Stat(filepath.Dir(file)); err != nil || !info.IsDir() {
		return fmt.Errorf("%s: no such directory", file)
	}
	info, err := os.Stat(file)
	if err == nil && info.Mode()&os.ModeNamedPipe != 0 {
		return nil // its reader would take the end of this try for the end of all
	}
	isNew := errors.Is(err, os.ErrNotExist)
	f, err := os.OpenFile(file, os.O_WRONLY|os.O_CREATE, 0o666)
	if err != nil {
		return err
	}
	if isNew {
		defer os.Remove(file)
	}
	return f.Close()
}

// until reads -until.
func (s *settings) until(point string) error {
	if point == "" {
		return nil
	}
	u := &s.search.Options.Until
	var err error
	if u.Events, err = strconv.ParseUint(point, 10, 64); err != nil {
		u.Time, err = time.ParseDuration(point)
	}
	switch {
	case err != nil || u.Time < 0 || u.Time == 0 && u.Events == 0:
		return fmt.Errorf("-until %s: neither a number of events nor a time such as 12.5s", point)
	case !s.one:
		return errors.New("-until is for one seed: name it with -seed")
	}
	return nil
}

// profiles reads -profile, and checks that each of them can be drawn with what is set.
func (s *settings) profiles(names string) error {
	if names == "all" {
		s.search.Profiles = simulate.Profiles()
	} else {
		for _, name := range strings.Split(names, ",") {
			p, err := simulate.ParseProfile(name)
			switch {
			case name == "all":
				return errors.New("-profile: all cannot be combined with others")
			case err != nil:
				return trim(err)
			case slices.Contains(s.search.Profiles, p):
				return fmt.Errorf("-profile: %s is named twice", p)
			}
			s.search.Profiles = append(s.search.Profiles, p)
		}
	}
	if s.one { // it has one of them only
		s.search.Profiles = []simulate.Profile{s.search.Case(s.search.Options.Seed).Profile}
	}
	for _, p := range s.search.Profiles {
		if err := draws(p, s.search.Options.Set).Err; err != nil {
			message, _, _ := strings.Cut(trim(err).Error(), "\n")
			return fmt.Errorf("profile %s: %s (see -list)", p, message)
		}
	}
	return nil
}

// draws makes a world of a profile, and plays nothing in it.
func draws(p simulate.Profile, set map[string]int64) simulate.Outcome {
	return simulate.Play(simulate.Options{Seed: 1, Profile: p, Set: set}, func(w *simulate.World) error {
		drill.New(w)
		return nil
	})
}

const thisCommand = "lockmesh simulate "

// commandLine is what repeats a case.
func commandLine(c search.Case) string {
	var b strings.Builder
	b.WriteString(strings.TrimSpace(thisCommand))
	for _, w := range c.Words() {
		fmt.Fprintf(&b, " -%s %s", w[0], shell.Word(w[1]))
	}
	return b.String()
}

// repeated returns the flags of the run that an event log is about.
func repeated(file string) ([]string, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, fmt.Errorf("-replay: %w", err)
	}
	defer f.Close()
	t, err := timeline.Read(f)
	if err != nil {
		return nil, fmt.Errorf("-replay %s: %w", file, err)
	}
	args, ok := strings.CutPrefix(t.Repeat, thisCommand)
	if !ok {
		return nil, fmt.Errorf("-replay %s: its run is not one of lockmesh simulate; repeat it with\n\t%s", file, t.Repeat)
	}
	return shell.Split(args), nil
}

// trim takes the name of the package that made an error off its message: here it says nothing.
func trim(err error) error {
	if err == nil {
		return nil
	}
	for _, pkg := range []string{"simulate: ", "search: "} {
		if message, ok := strings.CutPrefix(err.Error(), pkg); ok {
			return errors.New(message)
		}
	}
	return err
}

// list makes one text of names.
func list[T ~string](names []T) string {
	var all []string
	for _, n := range names {
		all = append(all, string(n))
	}
	return strings.Join(all, ", ")
}
