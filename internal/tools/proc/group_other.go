//go:build !unix

package proc

import "os/exec"

// lead does nothing here: there are no process groups.
func lead(*exec.Cmd) {}

// kill kills the command's process.
func kill(cmd *exec.Cmd) error { return cmd.Process.Kill() }
