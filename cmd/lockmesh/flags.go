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
  lockmesh simulate -story partition.txt            a story of your own: go doc ./simulate/story

SIGINT and SIGTERM end the worlds under way, or the shrinking, and the command reports what
it has found so far. A second signal ends it at once. The exit status is 0 if nothing failed,
1 if something did, 2 if the flags make no sense, and 130 if the command was interrupted
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

// account reports whether the timeline of a run is wanted.
func (s *settings) account() bool { return s.page != "" || s.log != "" || s.text || s.mermaid }

// parse reads the flags. Its error says what is wrong with them; flag.ErrHelp, that the
// usage was asked for, which goes to out.
func parse(args []string, out io.Writer) (*settings, error) {
	s := &settings{search: search.Plan{Play: drill.Play, Repeat: commandLine}}
	flags := flag.NewFlagSet("lockmesh simulate", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	said := make(map[string]bool)
	c := search.Case{Seed: 1}
	word := func(name, usage string) {
		flags.Func(name, usage, func(value string) error {
			_, err := c.Take(name, value)
			if name == "bug" {
				s.mutants = nil // of a -bug before this one
			}
			if err != nil && name == "bug" {
				if s.mutants = mutantsOf(value, ownMutant); len(s.mutants) > 0 {
					return nil
				}
				return fmt.Errorf("%w (see -list)", trim(err))
			}
			return trim(err)
		})
	}
	profiles := flags.String("profile", "all", "`profiles` of worlds, to be taken in turns: all, or some of "+list(simulate.Profiles()))
	word("seed", "the `number` of the first seed (default 1), or without -seeds and -for of the only one")
	flags.IntVar(&s.search.Seeds, "seeds", 0, "the `number` of seeds (default 100, or 1 with -seed, or as many as -for allows)")
	flags.DurationVar(&s.search.For, "for", 0, "begin no more seeds after this `time`, such as 8h")
	flags.IntVar(&s.search.Workers, "workers", runtime.GOMAXPROCS(0), "the `number` of worlds that run at once")
	flags.BoolVar(&s.search.KeepGoing, "keep-going", false, "do not stop at the first failure")
	flags.BoolVar(&s.marks, "marks", false, "fail unless each rare situation that -list names came about in some world")
	flags.BoolVar(&s.shrink, "shrink", true, "make the first failure small; false by default if only one seed is played")
	flags.DurationVar(&s.search.Budget.For, "shrink-for", 2*time.Minute, "shrink for no longer than this `time`")
	word("set", "set `parameters` instead of drawing them: hosts=3,keys=2; site-*=least sets all that begin with site-")
	word("only", "allow only these `faults`: crash/1,pair/3, or none")
	word("variant", "play another course of events in the same world, of this `number`")
	word("bug", "leave out rules of the protocol: the `names` of mutants, which are patches in simulate/mutants of the source tree")
	until := flags.String("until", "", "stop one seed at this `point`, a number of events or a simulated time (12.5s), and print the state of the world")
	flags.StringVar(&s.page, "timeline", "", "write the timeline of the only seed, or of the first failure, into this HTML `file`")
	flags.StringVar(&s.log, "log", "", "write the same timeline as lines of JSON, for programs and for -replay, into this `file`")
	flags.BoolVar(&s.text, "text", false, "print the same timeline")
	flags.BoolVar(&s.mermaid, "mermaid", false, "print what led to the failure, or to the end, as a Mermaid diagram")
	replay := flags.String("replay", "", "repeat the run of a `file` that -log wrote; other flags take precedence")
	tale := flags.String("story", "", "play the story in this `file` instead of the drill")
	flags.BoolVar(&s.list, "list", false, "list parameters, faults, fault points, kinds of messages, marks and bugs")

	if err := flags.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			fmt.Fprint(out, simulateUsage)
			flags.SetOutput(out)
			flags.PrintDefaults()
		}
		return nil, err
	}
	if *replay != "" {
		first, err := repeated(*replay)
		if err != nil {
			return nil, err
		}
		if err := flags.Parse(slices.Concat(first, args)); err != nil {
			return nil, err
		}
	}
	if flags.NArg() > 0 {
		return nil, fmt.Errorf("unexpected argument %q", flags.Arg(0))
	}
	flags.Visit(func(f *flag.Flag) { said[f.Name] = true })
	s.search.Options = simulate.Options{Seed: c.Seed, Set: c.Set, Only: c.Only, Variant: c.Variant}

	switch {
	case said["seeds"] && s.search.Seeds < 1:
		return nil, fmt.Errorf("-seeds %d: it must be 1 or more", s.search.Seeds)
	case said["for"] && s.search.For <= 0:
		return nil, fmt.Errorf("-for %v: it must be more than 0", s.search.For)
	case s.search.Budget.For <= 0:
		return nil, fmt.Errorf("-shrink-for %v: it must be more than 0", s.search.Budget.For)
	case s.search.Workers < 1:
		return nil, fmt.Errorf("-workers %d: it must be 1 or more", s.search.Workers)
	case !said["seeds"] && !said["for"] && (said["seed"] || said["until"]):
		s.search.Seeds = 1
	case !said["seeds"] && !said["for"]:
		s.search.Seeds = 100
	}
	s.one = s.search.Seeds == 1
	if !said["shrink"] {
		s.shrink = !s.one
	}
	for _, name := range []string{"for", "keep-going", "marks", "shrink"} {
		if said["until"] && said[name] {
			return nil, fmt.Errorf("-until stops one seed, so -%s makes no sense", name)
		}
	}
	if err := s.until(*until); err != nil {
		return nil, err
	}
	for _, file := range []string{s.page, s.log} {
		if err := writable(file); err != nil {
			return nil, err
		}
	}
	if s.page != "" && s.page == s.log {
		return nil, fmt.Errorf("-timeline and -log are both %s", s.page)
	}
	if *tale != "" {
		for _, name := range []string{"profile", "set", "only", "marks", "shrink"} {
			if said[name] {
				return nil, fmt.Errorf("-story: the story itself says what its world is like and what happens there, so -%s makes no sense", name)
			}
		}
		return s, s.tell(*tale)
	}
	return s, s.profiles(*profiles)
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
	_, err := os.Stat(file)
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
		fmt.Fprintf(&b, " -%s %s", w[0], quoted(w[1]))
	}
	return b.String()
}

// quoted makes one word for a shell of s.
func quoted(s string) string {
	if s != "" && !strings.ContainsAny(s, " \t\n*?[]{}()<>|&;$`\"'\\~#!") {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

// unquoted takes a line apart that is made of words and of what quoted returned.
func unquoted(line string) (words []string) {
	word, begun, inside := "", false, false
	for i := 0; i < len(line); i++ {
		switch c := line[i]; {
		case c == '\'':
			begun, inside = true, !inside
		case c == ' ' && !inside:
			if begun {
				words = append(words, word)
			}
			word, begun = "", false
		default:
			if c == '\\' && !inside && i+1 < len(line) {
				i++
			}
			word, begun = word+string(line[i]), true
		}
	}
	if begun {
		words = append(words, word)
	}
	return words
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
		return nil, fmt.Errorf("-replay %s: it is about something else, to be repeated with\n\t%s", file, t.Repeat)
	}
	return unquoted(args), nil
}

// trim takes the package's name off an error's message: here it says nothing.
func trim(err error) error {
	if err == nil {
		return nil
	}
	if message, ok := strings.CutPrefix(err.Error(), "simulate: "); ok {
		return errors.New(message)
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
