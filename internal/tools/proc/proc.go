// Package proc runs commands that may hang or use up the machine, for tools that try out
// wrong programs.
package proc

import (
	"context"
	"errors"
	"os/exec"
	"syscall"
	"time"
)

const (
	maxMemory = 8 << 30 // bytes of address space
	maxOutput = 64 << 10
)

// ErrHangs is the error of a command that reached one of its limits.
var ErrHangs = errors.New("it takes too long")

// Command is what to run.
type Command struct {
	Dir  string
	Env  []string
	Args []string // the first one is the program

	Wall time.Duration // more than zero
	CPU  time.Duration // processor time; if it is given, memory is limited, too, to 8 GiB of address space; zero: neither is
}

// Result is what a command wrote and used.
type Result struct {
	Output string // the first 64 KiB of what it wrote
	CPU    time.Duration
}

// Run runs a command in a process group of its own and kills the whole group when the
// command ends, reaches a limit, or when ctx ends. The error is ErrHangs for a limit, the
// cause of ctx, or that of [exec.Cmd.Wait].
func Run(ctx context.Context, c Command) (Result, error) {
	timed, cancel := context.WithTimeoutCause(ctx, c.Wall, ErrHangs)
	defer cancel()
	cmd := exec.CommandContext(timed, c.Args[0], c.Args[1:]...)
	cmd.Dir, cmd.Env = c.Dir, c.Env
	out := &head{}
	cmd.Stdout, cmd.Stderr = out, out
	Group(cmd)
	var r Result
	err := cmd.Start()
	if err == nil {
		if c.CPU > 0 {
			bound(cmd.Process.Pid, c.CPU)
		}
		err = cmd.Wait()
		_ = Signal(cmd, syscall.SIGKILL) // what the command left behind
		r.CPU = cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
		// The kernel counts for its limit by ticks, which differ. Far below it, it has killed the command for want of memory.
		atLimit := c.CPU > 0 && r.CPU > c.CPU/2
		if w, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); ok && w.Signaled() && w.Signal() == syscall.SIGKILL && atLimit {
			err = ErrHangs // see bound
		}
	}
	if cause := context.Cause(timed); err != nil && cause != nil {
		err = cause
	}
	r.Output = string(out.text)
	return r, err
}

// Group gives the command a process group of its own. The end of the command's context kills the
// whole group.
func Group(cmd *exec.Cmd) {
	Lead(cmd)
	cmd.Cancel = func() error { return Signal(cmd, syscall.SIGKILL) }
	cmd.WaitDelay = time.Second
}

// head keeps the beginning of what is written.
type head struct{ text []byte }

func (h *head) Write(b []byte) (int, error) {
	h.text = append(h.text, b[:min(len(b), maxOutput-len(h.text))]...)
	return len(b), nil
}
