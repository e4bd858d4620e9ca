//go:build unix

package main

import (
	"os"
	"syscall"
)

// pauseProcess stops a process, which does not notice, until resumeProcess.
func pauseProcess(p *os.Process) error { return p.Signal(syscall.SIGSTOP) }

func resumeProcess(p *os.Process) error { return p.Signal(syscall.SIGCONT) }
