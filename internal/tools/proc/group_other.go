//go:build !unix

package proc

import "os/exec"

// Lead does nothing here: there are no process groups.
func Lead(*exec.Cmd) {}

// kill kills the command's process.
func kill(cmd *exec.Cmd) error { return cmd.Process.Kill() }
