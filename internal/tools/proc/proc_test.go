//go:build unix

package proc

import (
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
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

// A command that something else killed, as a kernel that wants memory does, has reached no limit.
func TestKilledByAnother(t *testing.T) {
	c := shell(time.Minute, "kill -KILL $$")
	c.CPU = 10 * time.Second
	if _, err := Run(t.Context(), c); err == nil || errors.Is(err, ErrHangs) {
		t.Errorf("killed: %v", err)
	}
	c = shell(time.Minute, "while :; do :; done")
	c.CPU = time.Second
	if _, err := Run(t.Context(), c); !errors.Is(err, ErrHangs) {
		t.Errorf("at its limit: %v", err)
	}
}

// A limit kills the whole group, not only the command; and what a command leaves behind is killed, too.
func TestRunKillsTheGroup(t *testing.T) {
	for script, want := range map[string]error{"sleep 60 & wait": ErrHangs, "sleep 60 >/dev/null 2>&1 &": nil} {
		// All processes of the group write to a pipe, which ends with the last of them.
		name := filepath.Join(t.TempDir(), "pipe")
		if err := syscall.Mkfifo(name, 0o600); err != nil {
			t.Fatal(err)
		}
		pipe, err := os.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer pipe.Close()
		if _, err := Run(t.Context(), shell(300*time.Millisecond, "exec 3>"+name+"; echo begun >&3; "+script)); !errors.Is(err, want) {
			t.Errorf("%s: error %v, want %v", script, err, want)
		}
		if err := pipe.SetReadDeadline(time.Now().Add(30 * time.Second)); err != nil {
			t.Fatal(err)
		}
		if out, err := io.ReadAll(pipe); string(out) != "begun\n" || err != nil {
			t.Errorf("%s: %q, %v: a process goes on", script, out, err)
		}
	}
}
