// Command mutate measures how much the tests notice. It makes small changes to the
// library, one at a time, and runs against each of these mutants the tests of packages,
// the standard drill in 60 simulated worlds, and the stories. A mutant that survives shows
// that a test is missing, or that the code is not needed.
//
//	go run ./internal/tools/mutate                          300 mutants, 45 minutes on two idle cores
//	go run ./internal/tools/mutate -n 20 -seed 7
//	go run ./internal/tools/mutate -run 'shard.Table.*:compare' -list
//	go run ./internal/tools/mutate -o results.txt           keep the results; may be interrupted
//	go run ./internal/tools/mutate -o results.txt -resume   continue after an interruption
//	go run ./internal/tools/mutate -o results.txt -again    retry the survivors, with new tests
//
// The file operators.go lists the kinds of changes, and rules.go the packages. It also
// lists what is not mutated because it cannot matter in production: fault points, observers,
// logs, texts and assertions. Counters of Stats are mutated, as they are part of
// the API.
//
// A mutant's name consists of its package, function and operator and a hash of the change,
// so it stays the same when lines move. A mutant that no test can notice gets an entry in
// equivalent.txt, with the reason. Such an entry is an error once its mutant no longer
// exists, or a test does notice it.
//
// A sample has the same share of each package's mutants by each operator, and is the same
// for the same seed. The stages run in the order of their cost, until one notices the
// mutant. A mutant that takes far more processor time than the unchanged program, or far
// longer, is taken to hang, and counts as killed. Before any mutant, all stages run against
// the unchanged program: it must pass, and the time that it takes sets these limits.
//
// Nothing is written into the module, which must not change meanwhile. Each mutant leaves
// up to 30 MB in the build cache, which the go command removes after some days.
//
// The exit status is 0 even if mutants survive, 1 if equivalent.txt is wrong, and 2 if the
// tool fails.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/lockmesh/mesh/internal/tools/load"
)

// settings holds the values of the flags.
type settings struct {
	n, workers, seeds, tales int
	seed, first              uint64
	run                      *regexp.Regexp
	list, resume, again      bool
	baseline                 bool
	cap, limit               time.Duration
	out                      string
}

func main() {
	s := settings{run: regexp.MustCompile("")}
	flag.IntVar(&s.n, "n", 300, "how many mutants to draw")
	flag.Uint64Var(&s.seed, "seed", 1, "`seed` of the sample")
	flag.Func("run", "draw only from mutants whose names match the `pattern`", func(text string) (err error) {
		s.run, err = regexp.Compile(text)
		return err
	})
	flag.BoolVar(&s.list, "list", false, "print the mutants to draw from, and stop")
	flag.IntVar(&s.workers, "p", runtime.NumCPU(), "how many mutants to judge at once")
	flag.DurationVar(&s.cap, "cap", 10*time.Minute, "leave a mutant undecided after this time")
	flag.DurationVar(&s.limit, "for", 0, "stop after this time, and leave the remaining mutants unjudged (default: no limit)")
	flag.IntVar(&s.seeds, "seeds", 60, "how many worlds of the standard drill to run, over all profiles in turn")
	flag.Uint64Var(&s.first, "first", 1, "the first `seed` of these worlds")
	flag.IntVar(&s.tales, "tales", 3, "how many seeds to run of each story")
	flag.BoolVar(&s.baseline, "baseline", true, "first run all stages against the unchanged program")
	flag.StringVar(&s.out, "o", "", "append each result to this `file`")
	flag.BoolVar(&s.resume, "resume", false, "skip mutants that the file of -o has decided")
	flag.BoolVar(&s.again, "again", false, "draw only from mutants that survived or were undecided in the file of -o")
	flag.Parse()
	switch {
	case flag.NArg() > 0:
		fail(fmt.Errorf("unexpected argument %q", flag.Arg(0)))
	case s.n < 1 || s.workers < 1 || s.seeds < 1 || s.tales < 1:
		fail(errors.New("-n, -p, -seeds and -tales must be 1 or more"))
	case (s.resume || s.again) && s.out == "":
		fail(errors.New("-resume and -again need -o"))
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if s.limit > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, s.limit)
		defer cancel()
	}
	wrong, err := s.measure(ctx)
	if err != nil {
		fail(err)
	}
	if wrong {
		os.Exit(1)
	}
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, "mutate:", err)
	os.Exit(2)
}

// measure draws and judges mutants, and prints a summary. It reports whether
// equivalent.txt is wrong.
func (s *settings) measure(ctx context.Context) (wrong bool, err error) {
	dir, all, err := everyMutant()
	if err != nil {
		return false, err
	}
	reasons, err := explained(equivalents, all)
	if err != nil {
		fmt.Println(err)
		return true, nil
	}
	before, err := s.before()
	if err != nil {
		return false, err
	}
	pool := slices.DeleteFunc(slices.Clone(all), func(m *mutant) bool {
		return !s.run.MatchString(m.id) || s.again && !slices.Contains([]verdict{survived, undecided}, before[m.id].verdict)
	})
	if s.list {
		for _, m := range pool {
			fmt.Println(m)
		}
		fmt.Printf("%d mutants\n", len(pool))
		return false, nil
	}
	drawn := sample(pool, s.n, s.seed, (*mutant).compiles)
	fmt.Printf("%d mutants of %d, seed %d\n", len(drawn), len(pool), s.seed)
	if s.resume {
		drawn = slices.DeleteFunc(drawn, func(m *mutant) bool { return before[m.id].decided() })
		fmt.Printf("%d of them are still to be judged\n", len(drawn))
	}
	results, err := s.judge(ctx, dir, drawn, reasons)
	if err != nil {
		return false, err
	}
	for _, r := range results {
		if reasons[r.id] != "" && r.verdict == killed && r.detail != byTime {
			fmt.Printf("equivalent.txt: %s is not equivalent: %s noticed it (%s)\n", r.id, r.stage, r.detail)
			wrong = true
		}
	}
	if s.out != "" {
		if results, err = readResults(s.out); err != nil {
			return wrong, err
		}
	}
	summarize(os.Stdout, results)
	return wrong, nil
}

// everyMutant returns the module's directory, and all mutants of the packages that rules.go
// lists.
func everyMutant() (dir string, all []*mutant, err error) {
	root, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}").Output()
	if err != nil {
		return "", nil, fmt.Errorf("go list -m: %w", err)
	}
	dir = strings.TrimSpace(string(root))
	var paths []string
	for _, t := range mutated {
		paths = append(paths, path(t.pkg))
	}
	packages, err := load.Packages(dir, paths)
	if err != nil {
		return "", nil, err
	}
	all, err = mutants(dir, packages, exceptions)
	return dir, all, err
}

// before returns the results of earlier runs, by the mutants' names.
func (s *settings) before() (map[string]result, error) {
	byID := make(map[string]result)
	if !s.resume && !s.again {
		return byID, nil
	}
	old, err := readResults(s.out)
	for _, r := range old {
		byID[r.id] = r
	}
	return byID, err
}

// judge judges mutants, several at once. It returns the results that it has when ctx ends.
func (s *settings) judge(ctx context.Context, dir string, drawn []*mutant, reasons map[string]string) ([]result, error) {
	stories, err := filepath.Glob(filepath.Join(dir, "simulate/story/testdata/*/*.txt"))
	if err != nil {
		return nil, err
	}
	if len(stories) == 0 {
		return nil, errors.New("no stories in simulate/story/testdata")
	}
	b := &bench{
		dir: dir, seeds: s.seeds, first: s.first, tales: s.tales, cap: s.cap, workers: s.workers, stories: stories,
		usual: make(map[string]spent), hits: make(map[string]int),
	}
	if s.baseline && len(drawn) > 0 {
		if err := b.prove(ctx, targetsOf(drawn), func(line string) { fmt.Println(line) }); err != nil {
			return nil, err
		}
	}
	to := &record{reasons: reasons, expected: len(drawn)}
	if s.out != "" {
		if to.file, err = os.OpenFile(s.out, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o666); err != nil {
			return nil, err
		}
		defer to.file.Close()
	}
	err = b.judgeAll(ctx, drawn, to.add)
	return to.results, err
}

// record collects results. It prints each, and appends it to a file.
type record struct {
	reasons  map[string]string // of equivalent mutants, by name
	expected int               // how many results there will be, unless the tool is interrupted
	file     *os.File          // nil: none

	mu      sync.Mutex
	results []result
}

func (c *record) add(r result) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if r.verdict == survived && c.reasons[r.id] != "" {
		r.verdict = excused
	}
	c.results = append(c.results, r)
	fmt.Printf("%d/%d %v\n", len(c.results), c.expected, r)
	if c.file == nil {
		return nil
	}
	_, err := c.file.WriteString(r.line())
	return err
}

// targetsOf returns the targets of the mutants, in the order of rules.go.
func targetsOf(drawn []*mutant) (some []target) {
	of := make(map[string]bool)
	for _, m := range drawn {
		of[m.pkg.Path] = true
	}
	for _, t := range mutated {
		if of[path(t.pkg)] {
			some = append(some, t)
		}
	}
	return some
}
