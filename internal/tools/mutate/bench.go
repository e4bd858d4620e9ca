package main

import (
	"cmp"
	"context"
	"encoding/json"
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

// bench runs tests, simulated worlds and stories against mutants. It writes nothing into
// the module: the go command reads a mutant's file from another place (-overlay).
type bench struct {
	dir     string // of the module
	seeds   int    // how many worlds of the standard drill to run, over all profiles
	first   uint64 // the first of their seeds
	tales   int    // how many seeds to run of each story
	cap     time.Duration
	workers int
	stories []string

	mu    sync.Mutex
	usual map[string]spent // what the unchanged program takes, by stage or story
	hits  map[string]int   // how many mutants each story has noticed
}

const buildLimit = 5 * time.Minute

// spent is the wall-clock time and the processor time of a command.
type spent struct{ wall, cpu time.Duration }

// limit returns what a mutant may take for a stage or a story. A mutant that takes more is
// taken to hang. Most of those are in a loop, which shows in the processor time even on a
// busy machine.
func (b *bench) limit(what string) spent {
	b.mu.Lock()
	defer b.mu.Unlock()
	if u, ok := b.usual[what]; ok {
		return spent{30*time.Second + 5*u.wall, 10*time.Second + 3*u.cpu}
	}
	return spent{2 * time.Minute, 40 * time.Second}
}

// place is where one mutant is built and tried.
type place struct {
	*bench
	dir     string
	overlay string            // a file; empty for the unchanged program
	built   map[string]string // executables, by package and kind
	cpu     time.Duration     // processor time of all commands so far
}

// newPlace returns a place for m, or for the unchanged program if m is nil. Close the place
// after use, even if there is an error.
func (b *bench) newPlace(m *mutant) (*place, error) {
	dir, err := os.MkdirTemp("", "mutant")
	if err != nil {
		return nil, err
	}
	p := &place{bench: b, dir: dir, built: make(map[string]string)}
	if m == nil {
		return p, nil
	}
	src, err := m.source()
	if err != nil {
		return p, err
	}
	file := filepath.Join(dir, filepath.Base(m.path))
	p.overlay = filepath.Join(dir, "overlay.json")
	overlay, err := json.Marshal(map[string]any{"Replace": map[string]string{m.path: file}})
	if err != nil {
		return p, err
	}
	return p, errors.Join(os.WriteFile(file, src, 0o666), os.WriteFile(p.overlay, overlay, 0o666))
}

func (p *place) close() { _ = os.RemoveAll(p.dir) }

// command runs a command within limits and returns its output, cut off if it is long. If
// limit.cpu is zero, neither processor time nor memory is limited.
func (p *place) command(ctx context.Context, limit spent, dir, name string, args ...string) (string, error) {
	r, err := proc.Run(ctx, proc.Command{
		Dir: dir, Args: append([]string{name}, args...), Wall: limit.wall, CPU: limit.cpu,
		Env: append(os.Environ(), "GOMAXPROCS="+strconv.Itoa(max(1, runtime.NumCPU()/p.workers)), "TMPDIR="+p.dir),
	})
	p.cpu += r.CPU
	return r.Output, err
}

// errUnbuilt is the error of code that does not compile.
var errUnbuilt = errors.New("it does not compile")

// build builds a command, or with test a package's test binary, and returns its file.
func (p *place) build(ctx context.Context, pkg string, test bool) (string, error) {
	key := fmt.Sprint(pkg, test)
	if file := p.built[key]; file != "" {
		return file, nil
	}
	file := filepath.Join(p.dir, fmt.Sprintf("program%d", len(p.built)))
	args := []string{"build", "-buildvcs=false"}
	if test {
		args = []string{"test", "-c", "-vet=off"}
	}
	args = append(args, "-ldflags=-w", "-o", file)
	if p.overlay != "" {
		args = append(args, "-overlay", p.overlay)
	}
	out, err := p.command(ctx, spent{wall: buildLimit}, p.bench.dir, "go", append(args, "./"+pkg)...)
	if err != nil {
		if _, ok := errors.AsType[*exec.ExitError](err); ok {
			err = fmt.Errorf("%w: %s", errUnbuilt, out)
		}
		return "", err
	}
	p.built[key] = file
	return file, nil
}

// stage is one way to notice a mutant.
type stage struct {
	name string
	// run returns what noticed the mutant, or "" if nothing did. An error means that the
	// stage could not be run to its end.
	run func(ctx context.Context, p *place) (string, error)
}

// stages returns the stages for mutants of a target, the cheapest first.
func (b *bench) stages(t target) (all []stage) {
	for _, s := range t.before {
		all = append(all, b.tests(s))
	}
	all = append(all, stage{"seeds", b.storm}, stage{"stories", b.tell})
	for _, s := range t.after {
		all = append(all, b.tests(s))
	}
	return all
}

// failedTest matches the line in which a test binary names the first failed test.
var failedTest = regexp.MustCompile(`(?m)^\s*--- FAIL: (\S+)|^panic: (.*)|^fatal error: (.*)`)

// tests returns the stage that runs a suite.
func (b *bench) tests(s suite) stage {
	return stage{s.String(), func(ctx context.Context, p *place) (string, error) {
		file, err := p.build(ctx, s.pkg, true)
		if err != nil {
			return "", err
		}
		args := []string{"-test.failfast", "-test.timeout=0"}
		if s.short {
			args = append(args, "-test.short")
		}
		tries := 1
		if s.real {
			tries = 2
		}
		var found string
		for range tries {
			out, err := p.timed(ctx, s.String(), filepath.Join(b.dir, s.pkg), file, args...)
			if found, err = noticed(out, err); found == "" || found == byTime || err != nil {
				return found, err
			}
		}
		return found, nil
	}}
}

// byTime is what stage.run returns for a mutant that hangs.
const byTime = "time"

// noticed derives from a command's output and error what noticed the mutant. Its results
// are those of stage.run.
func noticed(out string, err error) (string, error) {
	_, exited := errors.AsType[*exec.ExitError](err)
	switch {
	case err == nil:
		return "", nil
	case errors.Is(err, proc.ErrHangs):
		return byTime, nil
	case !exited:
		return "", err
	}
	if m := failedTest.FindStringSubmatch(out); m != nil {
		return cmp.Or(m[1], m[2], m[3]), nil
	}
	return err.Error(), nil
}

// timed runs a command of a stage or a story, and records what the unchanged program takes
// for it.
func (p *place) timed(ctx context.Context, what, dir, name string, args ...string) (string, error) {
	begun, before := time.Now(), p.cpu
	out, err := p.command(ctx, p.limit(what), dir, name, args...)
	if p.overlay == "" {
		p.mu.Lock()
		p.usual[what] = spent{time.Since(begun), p.cpu - before}
		p.mu.Unlock()
	}
	return out, err
}

// simulate runs cmd/lockmesh simulate, which ends at the first failure. Its results are
// those of stage.run.
func (p *place) simulate(ctx context.Context, what string, args ...string) (string, error) {
	file, err := p.build(ctx, "cmd/lockmesh", false)
	if err != nil {
		return "", err
	}
	out, err := p.timed(ctx, what, p.bench.dir, file, append([]string{"simulate"}, args...)...)
	found, err := noticed(out, err)
	if found != "" && found != byTime {
		if _, after, ok := strings.Cut(out, "FAILED"); ok {
			_, after, _ = strings.Cut(after, ": ")
			found, _, _ = strings.Cut(after, "\n")
		}
	}
	return found, err
}

// storm is the stage of the standard drill.
func (b *bench) storm(ctx context.Context, p *place) (string, error) {
	return p.simulate(ctx, "seeds", "-profile", "all", "-shrink=false",
		"-seeds", strconv.Itoa(b.seeds), "-seed", strconv.FormatUint(b.first, 10))
}

// tell is the stage of the stories. Those that have noticed most mutants come first.
func (b *bench) tell(ctx context.Context, p *place) (string, error) {
	b.mu.Lock()
	order := slices.Clone(b.stories)
	slices.SortStableFunc(order, func(x, y string) int {
		return cmp.Or(cmp.Compare(b.hits[y], b.hits[x]), cmp.Compare(b.usual[x].cpu, b.usual[y].cpu))
	})
	b.mu.Unlock()
	for _, file := range order {
		found, err := p.simulate(ctx, file, "-story", file, "-seed", "1", "-seeds", strconv.Itoa(b.tales))
		if err != nil {
			return "", err
		}
		if found != "" {
			b.mu.Lock()
			b.hits[file]++
			b.mu.Unlock()
			name := strings.TrimSuffix(filepath.Base(file), ".txt")
			if found == byTime {
				return byTime, nil
			}
			return name + ": " + found, nil
		}
	}
	return "", nil
}

// prove runs all stages against the unchanged program, which must pass. The time that it
// takes sets the limits for mutants. Each passed stage is reported to tell.
func (b *bench) prove(ctx context.Context, targets []target, tell func(string)) error {
	p, err := b.newPlace(nil)
	if err != nil {
		return err
	}
	defer p.close()
	proven := make(map[string]bool)
	for _, t := range targets {
		for _, s := range b.stages(t) {
			if proven[s.name] {
				continue
			}
			proven[s.name] = true
			begun, before := time.Now(), p.cpu
			found, err := s.run(ctx, p)
			if err != nil {
				return err
			}
			if found != "" {
				return fmt.Errorf("%s: fails without a mutant: %s", s.name, found)
			}
			tell(fmt.Sprintf("%s: passes in %.1fs (processor time %.1fs)", s.name, time.Since(begun).Seconds(), (p.cpu - before).Seconds()))
		}
	}
	return nil
}

// judge runs one stage after another against m, until one notices it.
func (b *bench) judge(ctx context.Context, m *mutant, stages []stage) (result, error) {
	r := result{verdict: survived, id: m.id, place: fmt.Sprintf("%s:%d: %s", m.file, m.line, m.change())}
	begun := time.Now()
	p, err := b.newPlace(m)
	if p != nil {
		defer p.close()
	}
	if err != nil {
		return r, err
	}
	capped, cancel := context.WithTimeout(ctx, b.cap)
	defer cancel()
	for _, s := range stages {
		found, err := s.run(capped, p)
		r.took, r.cpu = time.Since(begun), p.cpu
		switch {
		case ctx.Err() != nil:
			return r, ctx.Err()
		case found != "":
			r.verdict, r.stage, r.detail = killed, s.name, found
			return r, nil
		case capped.Err() != nil:
			r.verdict, r.stage = undecided, s.name
			return r, nil
		case errors.Is(err, errUnbuilt):
			r.verdict, r.stage, r.detail = unbuilt, s.name, err.Error()
			return r, nil
		case err != nil:
			return r, fmt.Errorf("%s: %w", m.id, err)
		}
	}
	return r, nil
}

// judgeAll judges mutants, several at once, and reports each result to add, which may be
// called by several goroutines at once. The end of ctx is no error: the remaining mutants
// are left unjudged.
func (b *bench) judgeAll(ctx context.Context, all []*mutant, add func(result) error) error {
	err := proc.Each(ctx, len(all), b.workers, func(ctx context.Context, i int) error {
		r, err := b.judge(ctx, all[i], b.stages(targetsOf(all[i : i+1])[0]))
		if err != nil || ctx.Err() != nil {
			return err
		}
		return add(r)
	})
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return nil
	}
	return err
}
