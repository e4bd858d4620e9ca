// Command mutants proves that the tests notice deliberate bugs. Each is a patch in
// simulate/mutants, which leaves one rule of the protocol out and says which test must
// notice that, and with what message. That directory's README tells how to write one.
// (Command mutate is something else: it makes up small changes itself, by the hundred.)
//
//	go run ./internal/tools/mutants                       all of them
//	go run ./internal/tools/mutants -run '^Queue'         some of them
//	go run ./internal/tools/mutants -third 2              every third, from the second on
//	go run ./internal/tools/mutants -with QueueJumpers go test ./shard
//	go run ./internal/tools/mutants -with A+B go build -o lockmesh ./cmd/lockmesh
//
// All mutants are compiled into the same test binaries, beside the correct code: a mutant's
// functions are there a second time under names of their own, and the original functions
// hand their calls on to them while the mutant is switched on. So each test binary is built
// once, and then run once for each mutant, with the variable LOCKMESH_MUTANTS=Name. Names
// are joined by + to switch several on; mutants that change the same function cannot be on
// at once. The go command takes the woven files from elsewhere (-overlay): nothing is
// written into the module, which must not change meanwhile.
//
// For each line Noticed of a patch the tool makes sure that the test passes in the same
// binary without the mutant, and fails with it, with that message. For a watcher with Seeds
// it does the first for the seed that showed the mutant. A test that reaches -cap is
// killed with all its processes, and has not noticed anything.
//
// A patch can change functions and methods of any kind, add functions, constants, types and
// imports, and add fields to structs. The tool refuses what would change the program with
// the mutant switched off, too: changed constants, variables, types and signatures, new
// variables and exported methods, functions init, and files that are new or removed. It
// also refuses to change a function with an unnamed parameter, which it could not hand on,
// and two mutants that add the same name to a package.
//
// With -with, the tool runs a command with the overlay of only these mutants (in GOFLAGS)
// and has them switched on, and exits with that command's status.
//
// The tool exits with 0 if every mutant was noticed as its patch says, with 1 if not, and with 2
// if it cannot do its work.
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

// settings are what the flags say.
type settings struct {
	dir     string // where the module is
	match   *regexp.Regexp
	third   int // not zero: which
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
	flag.Func("run", "take only the mutants whose names match the `pattern`", func(text string) (err error) {
		s.match, err = regexp.Compile(text)
		return err
	})
	flag.IntVar(&s.third, "third", 0, "apply and build all, but try only every third: a `number` from 1 on, such as that of the day, says which")
	flag.DurationVar(&s.cap, "cap", time.Minute, "kill a test after this `time`")
	flag.IntVar(&s.workers, "p", runtime.NumCPU(), "how many tests to run at once")
	flag.StringVar(&s.results, "o", "", "append each result to this `file`")
	flag.StringVar(&s.with, "with", "", "switch these mutants on, `names` joined by +, and run the command behind the flags")
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
	exitUsage  = 2 // nothing was found out
)

func (s *settings) main(ctx context.Context, args []string, out io.Writer) (int, error) {
	switch {
	case s.with == "" && len(args) > 0:
		return exitUsage, fmt.Errorf("unexpected argument %q", args[0])
	case s.with != "" && len(args) == 0:
		return exitUsage, errors.New("-with needs a command behind the flags")
	case s.third < 0 || s.workers < 1 || s.cap <= 0:
		return exitUsage, errors.New("-third, -p and -cap must be more than zero")
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

// judge tries the mutants out. It reports whether one was not noticed as it should be.
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
	var file *os.File
	if s.results != "" {
		if file, err = os.OpenFile(s.results, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o666); err != nil {
			return false, err
		}
		defer file.Close()
	}
	good := 0
	tell := func(r result) (err error) {
		if r.verdict == noticed {
			good++
		} else {
			failed = true
		}
		fmt.Fprintln(out, r)
		if file != nil {
			_, err = file.WriteString(r.line())
		}
		return err
	}
	for _, p := range append(wrong, unbuilt...) {
		if err := tell(result{mutant: p.mutant, verdict: unusable, detail: p.err.Error()}); err != nil {
			return failed, err
		}
	}
	built := time.Since(begun)
	tried := s.thirdOf(all)
	if err := j.judgeAll(ctx, tried, tell); err != nil {
		return failed, err
	}
	fmt.Fprintf(out, "%d patches, %d of them tried: noticed %d times, as they should be; %.1fs to build, %.1fs in all\n",
		count, len(tried), good, built.Seconds(), time.Since(begun).Seconds())
	return failed, nil
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

// runWith runs a command with mutants compiled in and switched on, and returns its status.
func (s *settings) runWith(ctx context.Context, t *tree, args []string) (int, error) {
	var all []*mutant
	for _, name := range strings.Split(s.with, "+") {
		file := filepath.Join(t.dir, filepath.FromSlash(patchesIn), name+".patch")
		text, err := os.ReadFile(file)
		if errors.Is(err, os.ErrNotExist) || !mutantName.MatchString(name) {
			return exitUsage, fmt.Errorf("there is no mutant %q in %s", name, patchesIn)
		} else if err != nil {
			return exitUsage, err
		}
		p, err := parsePatch(name, text)
		if err != nil {
			return exitUsage, problem{name, err}
		}
		p.file = file
		m, err := t.load(p)
		if err != nil {
			return exitUsage, problem{name, err}
		}
		all = append(all, m)
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
	over := context.AfterFunc(ctx, func() { _ = cmd.Process.Signal(syscall.SIGTERM) }) // it may be a signal for this process only
	defer over()
	err = cmd.Wait()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		return max(exit.ExitCode(), exitFailed), nil // killed: less than zero
	}
	if err != nil {
		return exitUsage, err
	}
	return exitOK, nil
}
