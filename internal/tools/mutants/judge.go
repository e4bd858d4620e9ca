package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/lockmesh/mesh/internal/tools/proc"
)

// verdict is the outcome of one watcher's test of a mutant, or of a broken patch.
type verdict string

const (
	noticed   verdict = "noticed"
	unnoticed verdict = "NOT NOTICED"
	otherwise verdict = "OTHER TEXT" // the test fails, with another message
	hangs     verdict = "HANGS"
	unproven  verdict = "FAILS ANYWAY" // the test also fails without the mutant
	missing   verdict = "NO SUCH TEST"
	unusable  verdict = "BROKEN" // the patch cannot be used
)

// result is the verdict of one watcher on a mutant.
type result struct {
	mutant, rule string
	watcher      string // empty if the patch is broken
	verdict      verdict
	detail       string // the test's message, or what is wrong
	took         time.Duration
}

// line returns the result as a line of the results file.
func (r result) line() string {
	detail, _, _ := strings.Cut(strings.ReplaceAll(r.detail, "\t", " "), "\n")
	return fmt.Sprintf("%s\t%s\t%s\t%s\t%.2f\t%s\n", r.mutant, r.rule, r.watcher, r.verdict, r.took.Seconds(), detail)
}

func (r result) String() string {
	text := fmt.Sprintf("%-24s %-8s %-60s %6.2fs  %s", r.mutant, r.rule, r.watcher, r.took.Seconds(), r.verdict)
	if r.verdict != noticed {
		return text + "\n\t" + strings.ReplaceAll(r.detail, "\n", "\n\t")
	}
	return text
}

// judge runs watchers' tests against mutants that are all in one overlay.
type judge struct {
	*tree
	overlay string
	cap     time.Duration // for each run of a test
	workers int

	mu       sync.Mutex
	binaries map[string]func() (string, error) // test binaries by package, each built once
	clean    map[string]func() error           // results of prove by watcher and arguments, each found once
}

func newJudge(t *tree, overlay string, limit time.Duration, workers int) *judge {
	return &judge{
		tree: t, overlay: overlay, cap: limit, workers: workers,
		binaries: make(map[string]func() (string, error)), clean: make(map[string]func() error),
	}
}

// binary returns the test binary of a package. It is built on the first call.
func (j *judge) binary(ctx context.Context, pkg string) (string, error) {
	j.mu.Lock()
	once := j.binaries[pkg]
	if once == nil {
		once = sync.OnceValues(func() (string, error) { return j.testBinary(ctx, j.overlay, pkg) })
		j.binaries[pkg] = once
	}
	j.mu.Unlock()
	return once()
}

// prove runs a watcher's test with no mutant switched on, and returns an error if it does
// not pass. The seed is only used by a watcher with seeds.
func (j *judge) prove(ctx context.Context, w watcher, seed string) error {
	args := slices.Clone(w.args)
	if w.seeds > 0 {
		args = append(args, "-seed", seed)
	}
	key := fmt.Sprint(w, args)
	j.mu.Lock()
	once := j.clean[key]
	if once == nil {
		once = sync.OnceValue(func() error {
			out, err := j.run(ctx, "", w, args)
			if err != nil && ctx.Err() == nil {
				return fmt.Errorf("%w: %s", err, strings.Join(messages(out), "\n"))
			}
			if err == nil && strings.Contains(out, noTests) {
				return errNoTest
			}
			return err
		})
		j.clean[key] = once
	}
	j.mu.Unlock()
	return once()
}

var errNoTest = errors.New("there is no such test")

// noTests is what a test binary prints if -test.run matches no test.
const noTests = "testing: warning: no tests to run"

// run runs a watcher's test and returns its output. If mutant is not empty, that mutant is
// switched on.
func (j *judge) run(ctx context.Context, mutant string, w watcher, args []string) (string, error) {
	file, err := j.binary(ctx, w.pkg)
	if err != nil {
		return "", err
	}
	parts := strings.Split(w.test, "/")
	for i, part := range parts {
		parts[i] = "^" + regexp.QuoteMeta(part) + "$"
	}
	r, err := proc.Run(ctx, proc.Command{
		Dir:  filepath.Join(j.dir, filepath.FromSlash(w.pkg)),
		Args: append([]string{file, "-test.run=" + strings.Join(parts, "/"), "-test.failfast", "-test.timeout=0"}, args...),
		Env: append(os.Environ(), environment+"="+mutant, "TMPDIR="+filepath.Dir(j.overlay),
			"GOMAXPROCS="+strconv.Itoa(max(1, runtime.NumCPU()/j.workers))),
		Wall: j.cap, CPU: j.cap * time.Duration(runtime.NumCPU()),
	})
	return r.Output, err
}

var (
	said   = regexp.MustCompile(`^\s+\S+\.go:[0-9]+: (.*)|^((?:panic|fatal error): .*)`)
	seeded = regexp.MustCompile(`^seed ([0-9]+)[:,] (.*)`)
)

// messages returns the first line of each message in a test's output.
func messages(out string) (all []string) {
	for line := range strings.Lines(out) {
		if m := said.FindStringSubmatch(strings.TrimSuffix(line, "\n")); m != nil {
			all = append(all, m[1]+m[2])
		}
	}
	return all
}

// watch runs a watcher's test against a mutant, and makes sure that it passes without.
func (j *judge) watch(ctx context.Context, m *mutant, w watcher) (result, error) {
	r := result{mutant: m.name, rule: m.rule, watcher: w.String()}
	if w.seeds == 0 { // with seeds, only the run tells which seed to prove
		if ok, err := j.proves(ctx, &r, w, ""); !ok {
			return r, err
		}
	}
	args := slices.Clone(w.args)
	if w.seeds > 0 {
		args = append(args, "-seeds", strconv.Itoa(w.seeds))
	}
	if _, err := j.binary(ctx, w.pkg); err != nil { // built here, so that took is the test's time alone
		return r, err
	}
	begun := time.Now()
	out, err := j.run(ctx, m.name, w, args)
	r.took = time.Since(begun)
	_, failed := errors.AsType[*exec.ExitError](err)
	switch {
	case ctx.Err() != nil:
		return r, ctx.Err()
	case err == nil && strings.Contains(out, noTests):
		r.verdict = missing
		return r, nil
	case err == nil:
		r.verdict, r.detail = unnoticed, fmt.Sprintf("want %q", w.message)
		return r, nil
	case errors.Is(err, proc.ErrHangs):
		r.verdict, r.detail = hangs, fmt.Sprintf("after %v", j.cap)
		return r, nil
	case !failed:
		return r, err
	}
	var seed string
	r.verdict, r.detail, seed = w.read(out)
	if r.verdict == noticed && w.seeds > 0 {
		if ok, err := j.proves(ctx, &r, w, seed); !ok {
			return r, err
		}
		r.detail = "seed " + seed + ": " + r.detail
	}
	return r, nil
}

// read returns the verdict on a failed test's output: whether it has the expected message.
// The seed is the one that the first message with a seed names.
func (w watcher) read(out string) (v verdict, detail, seed string) {
	texts := messages(out)
	for i, text := range texts {
		if s := seeded.FindStringSubmatch(text); s != nil {
			if texts[i] = s[2]; seed == "" {
				seed = s[1]
			}
		}
	}
	i := slices.IndexFunc(texts, w.expects)
	switch {
	case len(texts) == 0:
		return otherwise, fmt.Sprintf("want %q, got\n%s", w.message, out), ""
	case i < 0:
		return otherwise, fmt.Sprintf("want %q, got\n%s", w.message, strings.Join(texts, "\n")), ""
	case w.seeds > 0 && seed == "":
		return otherwise, "no message begins with seed and its number: " + texts[i], ""
	}
	return noticed, texts[i], seed
}

// proves calls prove and reports whether the test passes. If not, it puts the reason into
// r or returns an error.
func (j *judge) proves(ctx context.Context, r *result, w watcher, seed string) (ok bool, err error) {
	err = j.prove(ctx, w, seed)
	_, failed := errors.AsType[*exec.ExitError](err)
	switch {
	case err == nil:
		return true, nil
	case ctx.Err() != nil:
		return false, ctx.Err()
	case errors.Is(err, errNoTest):
		r.verdict, r.detail = missing, ""
	case failed || errors.Is(err, proc.ErrHangs):
		r.verdict, r.detail = unproven, err.Error()
	default:
		return false, err
	}
	return false, nil
}

// joint writes an overlay for mutants and builds the tests of their watchers with it. It
// returns a judge for the mutants that compile, these mutants, and what is wrong with the
// rest.
func joint(ctx context.Context, t *tree, all []*mutant, limit time.Duration, workers int) (j *judge, good []*mutant, wrong []problem, err error) {
	for {
		overlay, err := t.overlay(all)
		if err != nil {
			return nil, nil, nil, err
		}
		j = newJudge(t, overlay, limit, workers)
		err = j.buildAll(ctx, all)
		if err == nil || !errors.Is(err, errUnbuilt) {
			return j, all, wrong, err
		}
		culprits, broken := t.culprits(ctx, all)
		if broken != nil {
			return nil, nil, nil, broken
		}
		if len(culprits) == 0 {
			return nil, nil, nil, fmt.Errorf("each mutant compiles alone, but the tests do not compile with all of them: %w", err)
		}
		wrong = append(wrong, culprits...)
		all = slices.DeleteFunc(slices.Clone(all), func(m *mutant) bool {
			return slices.ContainsFunc(culprits, func(p problem) bool { return p.mutant == m.name })
		})
	}
}

// buildAll builds the tests of all watchers.
func (j *judge) buildAll(ctx context.Context, all []*mutant) error {
	var pkgs []string
	for _, m := range all {
		for _, w := range m.watchers {
			pkgs = append(pkgs, w.pkg)
		}
	}
	slices.Sort(pkgs)
	for _, pkg := range slices.Compact(pkgs) {
		if _, err := j.binary(ctx, pkg); err != nil {
			return fmt.Errorf("tests of %s: %w", pkg, err)
		}
	}
	return nil
}

// judgeAll runs all watchers' tests, several at once, and reports each result to tell, one at
// a time.
func (j *judge) judgeAll(ctx context.Context, all []*mutant, tell func(result) error) error {
	type look struct {
		*mutant
		watcher
	}
	var looks []look
	for _, m := range all {
		for _, w := range m.watchers {
			looks = append(looks, look{m, w})
		}
	}
	var mu sync.Mutex
	return proc.Each(ctx, len(looks), j.workers, func(ctx context.Context, i int) error {
		r, err := j.watch(ctx, looks[i].mutant, looks[i].watcher)
		mu.Lock()
		defer mu.Unlock()
		if err != nil || ctx.Err() != nil {
			return err
		}
		return tell(r)
	})
}
