//go:build !unix

package proc

import (
	"os/exec"
	"syscall"
)

// Lead does nothing here: there are no process groups.
func Lead(*exec.Cmd) {}

// Signal sends a signal to the command's process.
func Signal(cmd *exec.Cmd, s syscall.Signal) error { return cmd.Process.Signal(s) }
