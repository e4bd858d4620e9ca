package search

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/lockmesh/mesh/simulate"
)

// ages is a scenario that takes hours of real time, and tells once that it has begun.
func ages(begun func()) func(w *simulate.World) error {
	return func(w *simulate.World) error {
		ticking(w)
		w.At(time.Second, begun)
		return w.Run(1e9 * time.Second)
	}
}

// A search that is interrupted has what it has done, and names what it was about to.
func TestSearchIsInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	enough := errors.New("enough")
	var long atomic.Int32
	endless := ages(func() {
		if long.Add(1) == 2 {
			cancel(enough)
		}
	})
	s := Plan{Seeds: 100, Workers: 2, KeepGoing: true, Options: simulate.Options{Seed: 1}, Repeat: Case.String, Play: func(w *simulate.World) error {
		if w.Seed() >= 5 {
			return endless(w)
		}
		return fails(3)(w)
	}}
	r, err := s.Run(ctx)
	if !errors.Is(err, enough) || r.Seeds != 4 || r.Failures != 1 || len(r.Findings) != 1 || r.Simulated != 4*time.Second || len(r.UnderWay) != 2 || r.UnderWay[0].Case.Seed != 5 || r.UnderWay[1].Case.Seed != 6 {
		t.Fatalf("error %v, %+v, %d ways to fail, %d under way", err, r.Progress, len(r.Findings), len(r.UnderWay))
	}
	text := s.soFar(r)
	for _, want := range []string{"4 seeds from 1 on, 4s simulated", "\nunder way: seed 5, at ", "\nrepeat: seed=5\nunder way: seed 6, at ", "\nrepeat: seed=6\n"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
}

// What was seen to fail once is told of, also if there is no time to see it again.
func TestSearchTellsOfWhatItCannotRepeat(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	var runs atomic.Int32
	r, err := Plan{Seeds: 1, Workers: 1, Play: func(w *simulate.World) error {
		if runs.Add(1) == 1 {
			return errors.New("broken: once")
		}
		return ages(cancel)(w)
	}}.Run(ctx)
	if !errors.Is(err, context.Canceled) || r.Failures != 1 || !strings.Contains(r.Err().Error(), "broken: once") || len(r.UnderWay) != 0 {
		t.Errorf("error %v, %+v, %v, %d under way", err, r.Progress, r.Err(), len(r.UnderWay))
	}
}

// Shrinking that is interrupted, also in the midst of a run, returns the smallest so far.
func TestShrinkIsInterrupted(t *testing.T) {
	for _, at := range []int32{1, 12, 40} {
		ctx, cancel := context.WithCancel(t.Context())
		var runs atomic.Int32
		var went atomic.Bool // on, after the cancel
		s := Plan{Workers: 1, Play: func(w *simulate.World) error {
			n := w.Pick("n", 0, 1<<40)
			m := w.Pick("m", 0, 1<<40)
			if runs.Add(1) == at+1 { // the first one finds it
				w.At(2*time.Second, func() { went.Store(true) })
				return ages(cancel)(w)
			}
			if n > 100 {
				return fmt.Errorf("broken: %d %d", n, m)
			}
			return nil
		}}
		first := s.Replay(s.Case(0), false)
		shrunk := s.Shrink(ctx, first)
		if !shrunk.Interrupted || shrunk.Confirmed || runs.Load() != at+1 || !strings.HasPrefix(shrunk.After.Err.Error(), "broken: ") || !strings.Contains(shrunk.String(), ", and interrupted: ") || strings.Contains(shrunk.String(), "something other") {
			t.Errorf("interrupted in run %d: %v, after %d runs, %v", at, shrunk, runs.Load(), shrunk.After.Err)
		}
		if went.Load() {
			t.Errorf("interrupted in run %d: its world went on", at)
		}
		if smaller := len(shrunk.After.Case.Set) > 0; smaller != (at > 1) {
			t.Errorf("interrupted in run %d: %v", at, shrunk.After.Case)
		}
	}
}

// childMode is the variable that makes TestInterruptedProcess the process that is interrupted.
const childMode = "LOCKMESH_TEST_INTERRUPTED"

// A signal ends a test that searches, shrinks or plays one seed, alone or beside others: the
// process says what it has, and ends with a status of its own, and at once.
func TestInterruptedProcess(t *testing.T) {
	if mode := os.Getenv(childMode); mode != "" {
		interruptedProcess(t, mode)
		return
	}
	for _, tt := range []struct {
		mode, words string
		signal      os.Signal
		want        []string
		pages       int
	}{
		{"search", "", os.Interrupt, []string{"--- INTERRUPTED: TestInterruptedProcess: interrupt\n    2 seeds from 0 on, ", ": no failure so far\n    under way: seed 2, at ", "repeat: LOCKMESH_SIMULATE='seed=2' go test "}, 0},
		{"search", "seed=7", syscall.SIGTERM, []string{"--- INTERRUPTED: TestInterruptedProcess: terminated\n    simulate: interrupted at ", "hosts: 1", "open "}, 1},
		{"shrinking", "", syscall.SIGTERM, []string{"3 seeds from 0 on, ", "\n    broken: n is ", "\n    seed 2, at 1s", "\n    repeat: LOCKMESH_SIMULATE='seed=2 ", ", and interrupted: "}, 0},
		{"parallel", "", os.Interrupt, []string{"--- INTERRUPTED: TestInterruptedProcess/a: interrupt\n", "--- INTERRUPTED: TestInterruptedProcess/b: interrupt\n"}, 0},
	} {
		dir := t.TempDir()
		cmd := exec.Command(os.Args[0], "-test.run=^TestInterruptedProcess$")
		cmd.Env = append(os.Environ(), childMode+"="+tt.mode, Environment+"="+tt.words, "TMPDIR="+dir)
		var out bytes.Buffer
		cmd.Stderr = &out
		ready, err := cmd.StdoutPipe()
		if err == nil {
			err = cmd.Start()
		}
		if err != nil {
			t.Fatal(err)
		}
		if _, err := ready.Read(make([]byte, 1)); err != nil {
			t.Fatalf("%s: it never began: %v\n%s", tt.mode, err, out.String())
		}
		_ = cmd.Process.Signal(tt.signal)
		late := time.AfterFunc(20*time.Second, func() { _ = cmd.Process.Kill() }) // the machine may be busy
		err = cmd.Wait()
		if !late.Stop() || cmd.ProcessState.ExitCode() != exitInterrupted {
			t.Errorf("%s %s: it ended with %v\n%s", tt.mode, tt.words, err, out.String())
		}
		for _, want := range tt.want {
			if !strings.Contains(out.String(), want) {
				t.Errorf("%s %s: no %q in\n%s", tt.mode, tt.words, want, out.String())
			}
		}
		pages, _ := filepath.Glob(filepath.Join(dir, "lockmesh-*", "*"))
		if len(pages) != 2*tt.pages || len(pages) > 0 && filepath.Base(pages[0]) != "run.html" {
			t.Errorf("%s %s: it leaves %q", tt.mode, tt.words, pages)
		}
	}
}

func interruptedProcess(t *testing.T, mode string) {
	var long atomic.Int32
	begun := func() { _, _ = os.Stdout.WriteString("!") }
	endless := ages(begun)
	switch mode {
	case "search":
		Test(t, Plan{Workers: 1, Play: func(w *simulate.World) error {
			if w.Seed() >= 2 {
				return endless(w)
			}
			return w.Run(time.Second)
		}})
	case "shrinking":
		Test(t, Plan{Workers: 1, Play: func(w *simulate.World) error {
			n := w.Pick("n", 0, 1<<40)
			switch {
			case w.Seed() < 2 || n <= 100:
				return w.Run(time.Second)
			case long.Add(1) >= 9: // each is given up for being long
				return endless(w)
			}
			if err := w.Run(time.Second); err != nil {
				return err
			}
			return fmt.Errorf("broken: n is %d", n)
		}})
	case "parallel":
		both := ages(func() {
			if long.Add(1) == 2 {
				begun()
			}
		})
		for _, name := range []string{"a", "b"} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				Test(t, Plan{Workers: 1, Play: both})
			})
		}
	}
}
