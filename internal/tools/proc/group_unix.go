//go:build unix

package proc

import (
	"os/exec"
	"syscall"
)

// Lead makes the command the leader of a process group of its own: a signal of the
// terminal does not reach it.
func Lead(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }

// Signal sends a signal to the process group of a command that leads one.
func Signal(cmd *exec.Cmd, s syscall.Signal) error { return syscall.Kill(-cmd.Process.Pid, s) }
