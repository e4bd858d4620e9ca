// Command mutants proves that the tests notice deliberate bugs. Each is a patch in
// simulate/mutants. Most remove a rule of the protocol; each says which tests must
// notice it, and with what message. The README in that directory says how to write one.
// (Command mutate is another tool: it makes small changes itself, by the hundred.)
//
//	go run ./internal/tools/mutants                       all mutants
//	go run ./internal/tools/mutants -run '^Queue'         some mutants
//	go run ./internal/tools/mutants -third 2              every third mutant, beginning with the second
//	go run ./internal/tools/mutants -with QueueJumpers go test ./shard
//	go run ./internal/tools/mutants -with A+B go build -o lockmesh ./cmd/lockmesh
//
// All mutants are compiled into the same test binaries, beside the correct code. Each
// function that a mutant changes is there a second time, under another name, and the
// original function passes its calls on while the mutant is switched on. So each test
// binary is built once, and run once for each mutant, with the environment variable
// LOCKMESH_MUTANTS=Name. Names joined by + switch several mutants on; mutants that change
// the same function cannot be on together. The go command reads the woven files from
// another place (-overlay): nothing is written into the module, which must not change
// meanwhile.
//
// For each Noticed line of a patch the tool makes sure that the test passes in the same
// binary without the mutant, and fails with it, with that message. If the line has Seeds,
// the test must pass without the mutant for the seed that showed the mutant. A test that
// reaches -cap is killed with all its processes, and counts as not having noticed anything.
//
// A patch may change functions and methods, add functions, constants, types and imports,
// and add fields to structs. The tool refuses everything that would also change the program
// with the mutant switched off: changed constants, variables, types and signatures, new
// variables and exported methods, init functions, and files that are new or removed. It
// also refuses changes to a function with an unnamed parameter, which the function could
// not pass on, and two mutants that add the same name to a package.
//
// With -with, the tool runs a command with an overlay of only the named mutants (in
// GOFLAGS) and with these switched on, and exits with the command's status.
//
// At the end the tool prints once more every result that is not as the patches say.
//
// The exit status is 0 if every mutant was noticed as its patch says, 1 if not, and 2 if
// the tool fails.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"syscall"
	"time"
)

// settings holds the values of the flags.
type settings struct {
	dir     string // where the module is
	match   *regexp.Regexp
	third   int // 0: try all mutants
	cap     time.Duration
	workers int
	results string
	with    string
}

// patchesIn is where the patches are, relative to the module.
const patchesIn = "simulate/mutants"

var everyName = regexp.MustCompile("")

func main() {
	s := settings{dir: ".", match: everyName}
	flag.Func("run", "only use mutants whose names match the `pattern`", func(text string) (err error) {
		s.match, err = regexp.Compile(text)
		return err
	})
	flag.IntVar(&s.third, "third", 0, "apply and build all mutants, but try only every third, beginning with the one of this `number` (4 is the same as 1)")
	flag.DurationVar(&s.cap, "cap", time.Minute, "kill a test after this `time`")
	flag.IntVar(&s.workers, "p", runtime.NumCPU(), "how many tests to run at once")
	flag.StringVar(&s.results, "o", "", "append each result to this `file`")
	flag.StringVar(&s.with, "with", "", "switch on the mutants with these `names`, joined by +, and run the command that follows the flags")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	code, err := s.main(ctx, flag.Args(), os.Stdout)
	if err != nil {
		fmt.Fprintln(os.Stderr, "mutants:", err)
	}
	os.Exit(code)
}

const (
	exitOK     = 0
	exitFailed = 1
	exitUsage  = 2 // the tool failed
)

func (s *settings) main(ctx context.Context, args []string, out io.Writer) (int, error) {
	switch {
	case s.with == "" && len(args) > 0:
		return exitUsage, fmt.Errorf("unexpected argument %q", args[0])
	case s.with != "" && len(args) == 0:
		return exitUsage, errors.New("-with needs a command after the flags")
	case s.third < 0 || s.workers < 1 || s.cap <= 0:
		return exitUsage, errors.New("-p and -cap must be positive, and -third must not be negative")
	}
	t, err := openTree(s.dir)
	if err != nil {
		return exitUsage, err
	}
	defer t.close()
	if s.with != "" {
		return s.runWith(ctx, t, args)
	}
	failed, err := s.judge(ctx, t, out)
	switch {
	case err != nil:
		return exitUsage, err
	case failed:
		return exitFailed, nil
	}
	return exitOK, nil
}

// judge tries the mutants. It reports whether any was not noticed as its patch says.
func (s *settings) judge(ctx context.Context, t *tree, out io.Writer) (failed bool, err error) {
	begun := time.Now()
	patches, wrong, err := readPatches(filepath.Join(t.dir, filepath.FromSlash(patchesIn)), s.match)
	if err != nil {
		return false, err
	}
	count := len(patches) + len(wrong)
	if count == 0 {
		return false, fmt.Errorf("no patch in %s matches %q", patchesIn, s.match)
	}
	var all []*mutant
	for _, p := range patches {
		m, err := t.load(p)
		if err != nil {
			wrong = append(wrong, problem{p.name, err})
			continue
		}
		all = append(all, m)
	}
	j, all, unbuilt, err := joint(ctx, t, all, s.cap, s.workers)
	if err != nil {
		return false, err
	}
	to := &report{out: out}
	if s.results != "" {
		if to.file, err = os.OpenFile(s.results, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o666); err != nil {
			return false, err
		}
		defer to.file.Close()
	}
	for _, p := range append(wrong, unbuilt...) {
		if err := to.add(result{mutant: p.mutant, verdict: unusable, detail: p.err.Error()}); err != nil {
			return true, err
		}
	}
	built := time.Since(begun)
	tried := s.thirdOf(all)
	if err := j.judgeAll(ctx, tried, to.add); err != nil {
		return len(to.bad) > 0, err
	}
	fmt.Fprintf(out, "%d patches, %d of them tried: noticed %d times as they should be, and %d times not; %.1fs to build, %.1fs in all\n",
		count, len(tried), to.good, len(to.bad), built.Seconds(), time.Since(begun).Seconds())
	for _, r := range to.bad {
		fmt.Fprintln(out, r)
	}
	return len(to.bad) > 0, nil
}

// report prints results, appends them to a file, and counts them.
type report struct {
	out  io.Writer
	file *os.File // nil: none
	good int      // how many results are as the patches say
	bad  []result // the others
}

func (t *report) add(r result) error {
	if r.verdict == noticed {
		t.good++
	} else {
		t.bad = append(t.bad, r)
	}
	fmt.Fprintln(t.out, r)
	if t.file == nil {
		return nil
	}
	_, err := t.file.WriteString(r.line())
	return err
}

// thirdOf returns the mutants to try.
func (s *settings) thirdOf(all []*mutant) (some []*mutant) {
	if s.third == 0 {
		return all
	}
	for i, m := range all {
		if i%3 == (s.third-1)%3 {
			some = append(some, m)
		}
	}
	return some
}

// runWith runs a command with the mutants of -with compiled in and switched on, and returns
// its exit status.
func (s *settings) runWith(ctx context.Context, t *tree, args []string) (int, error) {
	all, err := t.named(strings.Split(s.with, "+"))
	if err != nil {
		return exitUsage, err
	}
	if err := together(all); err != nil {
		return exitUsage, err
	}
	overlay, err := t.overlay(all)
	if err != nil {
		return exitUsage, err
	}
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Dir = s.dir
	cmd.Env = append(os.Environ(), environment+"="+s.with, "GOFLAGS="+strings.TrimSpace(os.Getenv("GOFLAGS")+" -overlay="+overlay))
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	if err := cmd.Start(); err != nil {
		return exitUsage, err
	}
	// The signal that ended ctx may have been sent to this process only.
	stop := context.AfterFunc(ctx, func() { _ = cmd.Process.Signal(syscall.SIGTERM) })
	defer stop()
	err = cmd.Wait()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		return max(exit.ExitCode(), exitFailed), nil // the code is negative if a signal killed the command
	}
	if err != nil {
		return exitUsage, err
	}
	return exitOK, nil
}

// named loads the mutants with these names.
func (t *tree) named(names []string) (all []*mutant, err error) {
	for _, name := range names {
		file := filepath.Join(t.dir, filepath.FromSlash(patchesIn), name+".patch")
		text, err := os.ReadFile(file)
		if errors.Is(err, os.ErrNotExist) || !mutantName.MatchString(name) {
			return nil, fmt.Errorf("there is no mutant %q in %s", name, patchesIn)
		} else if err != nil {
			return nil, err
		}
		p, err := parsePatch(name, text)
		if err != nil {
			return nil, problem{name, err}
		}
		p.file = file
		m, err := t.load(p)
		if err != nil {
			return nil, problem{name, err}
		}
		all = append(all, m)
	}
	return all, nil
}
