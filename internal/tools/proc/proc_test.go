//go:build unix

package proc

import (
	"context"
	"errors"
	"os/exec"
	"strings"
	"testing"
	"time"
)

func shell(wall time.Duration, script string) Command {
	return Command{Args: []string{"sh", "-c", script}, Wall: wall}
}

func TestRun(t *testing.T) {
	r, err := Run(t.Context(), shell(time.Minute, "echo out; echo err >&2; exit 3"))
	exit, ok := errors.AsType[*exec.ExitError](err)
	if r.Output != "out\nerr\n" || !ok || exit.ExitCode() != 3 {
		t.Errorf("output %q, error %v, want both lines and exit status 3", r.Output, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Run(ctx, shell(time.Minute, "sleep 60")); !errors.Is(err, context.Canceled) {
		t.Errorf("a command whose context is over: %v", err)
	}
	if r, err := Run(t.Context(), shell(time.Minute, "yes | head -c 1000000")); err != nil || len(r.Output) != maxOutput {
		t.Errorf("a long output: %d bytes, %v, want %d", len(r.Output), err, maxOutput)
	}
}

// A limit kills the whole group, not only the command.
func TestRunKillsTheGroup(t *testing.T) {
	begun := time.Now()
	r, err := Run(t.Context(), shell(300*time.Millisecond, "sleep 60 & echo $!; wait"))
	if !errors.Is(err, ErrHangs) || time.Since(begun) > 30*time.Second {
		t.Errorf("error %v after %v, want %v", err, time.Since(begun), ErrHangs)
	}
	gone(t, r.Output)
	r, err = Run(t.Context(), shell(time.Minute, "sleep 60 >/dev/null 2>&1 & echo $!"))
	if err != nil {
		t.Error(err)
	}
	gone(t, r.Output)
}

// gone waits until no process of that number is alive.
func gone(t *testing.T, number string) {
	t.Helper()
	number = strings.TrimSpace(number)
	for range 200 {
		out, err := exec.Command("ps", "-o", "stat=", "-p", number).Output()
		if _, exited := errors.AsType[*exec.ExitError](err); exited || strings.HasPrefix(string(out), "Z") {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Errorf("process %s goes on", number)
}
