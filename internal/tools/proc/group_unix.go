//go:build unix

package proc

import (
	"os/exec"
	"syscall"
)

// Lead makes the command the leader of a process group of its own: a signal of the
// terminal does not reach it.
func Lead(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }

// kill kills the command's process group.
func kill(cmd *exec.Cmd) error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
