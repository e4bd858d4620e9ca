// Command mutate measures how much the tests notice. It makes small changes in the
// library, one at a time, and plays against each of these mutants what there is: the
// tests of packages, the standard drill in 60 simulated worlds, and the stories. What
// nothing notices shows a promise that nothing holds up, or code that nobody needs.
//
//	go run ./internal/tools/mutate                          300 mutants, 45 minutes on two idle cores
//	go run ./internal/tools/mutate -n 20 -seed 7
//	go run ./internal/tools/mutate -run 'shard.Table.*:compare' -list
//	go run ./internal/tools/mutate -o results.txt           to be interrupted,
//	go run ./internal/tools/mutate -o results.txt -resume   and to go on with
//	go run ./internal/tools/mutate -o results.txt -again    the survivors, after a test was written
//
// Operators.go says how code is changed, rules.go in which packages, and what is left
// alone because it cannot matter in a program: deliberate bugs, fault points, logs,
// texts and assertions. Counters of Stats are mutated, since they are part of the API.
//
// A mutant is named after its package, function and operator and a hash of what it
// changes, so that its name survives when lines move. One that no test can notice gets an
// entry in equivalent.txt, with the reason. Such an entry is an error once its mutant does
// not exist any more, or is noticed after all.
//
// A sample has as large a part of each package's mutants by each operator, and is the same
// for the same seed. Stages are played in the order of their cost, and the first that
// notices a mutant ends it. A mutant that takes far more processor time than the program,
// or far longer, is taken to hang, and counts as killed by its time. First of all everything
// is played without a mutant: it must pass, and says how long things take.
//
// Nothing is written into the module, which must not change meanwhile. Each mutant leaves
// up to 30 MB in the build cache, which the go command removes after some days.
//
// It exits with 0 also if mutants survive, with 1 if equivalent.txt is wrong, and with 2 if
// it cannot do its work.
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

// settings are what the flags say.
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
	flag.Uint64Var(&s.seed, "seed", 1, "decides which")
	flag.Func("run", "draw of those only whose names match the `pattern`", func(text string) (err error) {
		s.run, err = regexp.Compile(text)
		return err
	})
	flag.BoolVar(&s.list, "list", false, "print those that match, and judge none")
	flag.IntVar(&s.workers, "p", runtime.NumCPU(), "how many mutants to judge at once")
	flag.DurationVar(&s.cap, "cap", 10*time.Minute, "leave a mutant undecided after this time")
	flag.DurationVar(&s.limit, "for", 0, "stop after this time, and leave out what is not judged by then (default: no limit)")
	flag.IntVar(&s.seeds, "seeds", 60, "worlds of the standard drill, in all profiles in turns")
	flag.Uint64Var(&s.first, "first", 1, "the first of their seeds")
	flag.IntVar(&s.tales, "tales", 3, "seeds of each story")
	flag.BoolVar(&s.baseline, "baseline", true, "first play everything without a mutant")
	flag.StringVar(&s.out, "o", "", "append each result to this `file`")
	flag.BoolVar(&s.resume, "resume", false, "leave out what the file of -o has already")
	flag.BoolVar(&s.again, "again", false, "draw of those only that survived in the file of -o, or were not decided")
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

// measure does it all. It reports whether equivalent.txt is wrong.
func (s *settings) measure(ctx context.Context) (wrong bool, err error) {
	root, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}").Output()
	if err != nil {
		return false, fmt.Errorf("go list -m: %w", err)
	}
	dir := strings.TrimSpace(string(root))
	var paths []string
	for _, t := range mutated {
		paths = append(paths, path(t.pkg))
	}
	packages, err := load.Packages(dir, paths)
	if err != nil {
		return false, err
	}
	all, err := mutants(dir, packages, exceptions)
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

// before returns the results that there are already, by the mutants' names.
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

// judge judges mutants, some at once, and returns the results, as far as ctx lets it get.
func (s *settings) judge(ctx context.Context, dir string, drawn []*mutant, reasons map[string]string) ([]result, error) {
	stories, err := filepath.Glob(filepath.Join(dir, "simulate/story/testdata/*/*.txt"))
	if err != nil || len(stories) == 0 {
		return nil, fmt.Errorf("stories: %q, %w", stories, err)
	}
	b := &bench{
		dir: dir, seeds: s.seeds, first: s.first, tales: s.tales, cap: s.cap, workers: s.workers, stories: stories,
		usual: make(map[string]spent), hits: make(map[string]int),
	}
	if s.baseline && len(drawn) > 0 {
		if err := b.prove(ctx, s.targets(drawn), func(line string) { fmt.Println(line) }); err != nil {
			return nil, err
		}
	}
	var out *os.File
	if s.out != "" {
		if out, err = os.OpenFile(s.out, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o666); err != nil {
			return nil, err
		}
		defer out.Close()
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var mu sync.Mutex
	var results []result
	take := func(r result) {
		mu.Lock()
		defer mu.Unlock()
		if r.verdict == survived && reasons[r.id] != "" {
			r.verdict = excused
		}
		results = append(results, r)
		fmt.Printf("%d/%d %v\n", len(results), len(drawn), r)
		if out != nil {
			if _, err := out.WriteString(r.line()); err != nil {
				cancel(err)
			}
		}
	}
	work := make(chan *mutant)
	var workers sync.WaitGroup
	for range s.workers {
		workers.Go(func() {
			for m := range work {
				i := slices.IndexFunc(mutated, func(t target) bool { return path(t.pkg) == m.pkg.Path })
				switch r, err := b.judge(ctx, m, b.stages(mutated[i])); {
				case ctx.Err() != nil:
				case err != nil:
					cancel(err)
				default:
					take(r)
				}
			}
		})
	}
	for _, m := range drawn {
		select {
		case work <- m:
		case <-ctx.Done():
		}
	}
	close(work)
	workers.Wait()
	if cause := context.Cause(ctx); cause != nil && !errors.Is(cause, context.Canceled) && !errors.Is(cause, context.DeadlineExceeded) {
		return results, cause
	}
	return results, nil
}

// targets returns the targets that mutants are of.
func (s *settings) targets(drawn []*mutant) (some []target) {
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
