package search

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/lockmesh/mesh/simulate"
)

// What takes long reports progress every ten seconds, and then more and more seldom, beside the
// functions that the plan had before.
func TestTeller(t *testing.T) {
	var said []string
	heard, shrunk := 0, 0
	x := &teller{next: tellEvery, say: func(line string) { said = append(said, line) }}
	s := &Plan{Progress: func(Progress) { heard++ }, Shrinking: func(Shrunk) { shrunk++ }}
	x.hear(s)
	for i := range 3000 { // an hour and a half
		s.Progress(Progress{Seeds: i, Failures: i / 100, Simulated: time.Duration(i) * time.Minute, Elapsed: time.Duration(2*i) * time.Second})
	}
	if heard != 3000 || len(said) < 30 || len(said) > 60 || said[0] != "5 seeds in 10s, 0 failed, 5m0s simulated" {
		t.Errorf("of %d, %d are told: %q", heard, len(said), said)
	}
	said = nil
	x.shrinks(s, Outcome{Case{Seed: 7}, simulate.Outcome{Err: fmt.Errorf("broken: by chance\nstack")}})
	s.Shrinking(Shrunk{Runs: 1})
	x.start = x.start.Add(-10 * time.Second)
	s.Shrinking(Shrunk{Before: Outcome{Outcome: simulate.Outcome{Faults: make([]simulate.Fault, 9)}}, After: Outcome{Outcome: simulate.Outcome{Faults: make([]simulate.Fault, 2)}}, Runs: 2})
	s.Shrinking(Shrunk{Runs: 3})
	want := []string{"seed 7 failed: broken: by chance\nmaking it smaller, for 2m0s at most; if interrupted, the smallest failure so far is shown", "2 runs, faults 9 -> 2 in 10s"}
	if shrunk != 3 || fmt.Sprint(said) != fmt.Sprint(want) {
		t.Errorf("of %d, it tells %q, want %q", shrunk, said, want)
	}
	x.say = nil
	x.shrinks(s, Outcome{Outcome: simulate.Outcome{Err: fmt.Errorf("broken")}})
	s.Shrinking(Shrunk{Runs: 3})
}

// Shrinking tells of each of its runs, and what is the smallest by then.
func TestShrinkingIsHeard(t *testing.T) {
	runs, least := 0, int64(1)<<40
	s := Plan{Workers: 3, Play: func(w *simulate.World) error {
		if n := w.Pick("n", 0, 1<<40); n > 100 {
			return fmt.Errorf("broken: %d", n)
		}
		return nil
	}, Shrinking: func(s Shrunk) {
		n := s.After.Parameters[0].Value
		if runs++; s.Runs != runs || n > least {
			t.Errorf("of run %d it hears %v, with n = %d after %d", runs, s, n, least)
		}
		least = n
	}}
	shrunk := s.Shrink(t.Context(), s.Replay(s.Case(0), false))
	if runs < shrunk.Runs-1 || least > 1<<30 {
		t.Errorf("it hears of %d of %d runs, and n is %d at last", runs, shrunk.Runs, least)
	}
}

// dated is a test with a deadline.
type dated struct {
	silent
	end time.Time
}

func (d *dated) Deadline() (time.Time, bool) { return d.end, !d.end.IsZero() }

// Shrinking takes half of the time that the test has left at most.
func TestShrinkingEndsBeforeTheTest(t *testing.T) {
	for left, want := range map[time.Duration]time.Duration{time.Hour: 2 * time.Minute, 20 * time.Second: 10 * time.Second, -time.Second: 0} {
		got := spare(&dated{end: time.Now().Add(left)}, Budget{Runs: 7}).For
		if got < want-time.Second || got > max(want, 1) {
			t.Errorf("with %v left: %v, want %v", left, got, want)
		}
	}
	if got := spare(&dated{}, Budget{For: time.Second}); got != (Budget{For: time.Second}) {
		t.Errorf("without a deadline: %+v", got)
	}
}

// With -v a test says at once that it makes a failure smaller; without it, and where nobody
// looks, it does not.
func TestTestShowsThatItShrinks(t *testing.T) {
	if os.Getenv(childMode) == "fails" {
		Test(t, Plan{Workers: 1, Play: func(w *simulate.World) error { return fmt.Errorf("broken: n is %d", w.Pick("n", 3, 9)) }})
		return
	}
	for flag, want := range map[string]string{"-test.v=true": "seed 0 failed: broken: n is ", "-test.v=test2json": "making it smaller, for ", "-test.v=false": ""} {
		cmd := exec.Command(os.Args[0], "-test.run=^TestTestShowsThatItShrinks$", flag)
		cmd.Env = append(os.Environ(), childMode+"=fails", Environment+"=", "TMPDIR="+t.TempDir())
		var out bytes.Buffer
		cmd.Stdout, cmd.Stderr = &out, &out
		err := cmd.Run()
		says := strings.Contains(out.String(), "making it smaller")
		if cmd.ProcessState.ExitCode() != 1 || says != (want != "") || !strings.Contains(out.String(), want) || !strings.Contains(out.String(), "shrunk in ") {
			t.Errorf("%s: %v\n%s", flag, err, out.String())
		}
	}
}
