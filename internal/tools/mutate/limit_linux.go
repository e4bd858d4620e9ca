package main

import "golang.org/x/sys/unix"

// limitMemory bounds what a process takes: a mutant may well take memory for ever.
func limitMemory(pid int) {
	limit := unix.Rlimit{Cur: maxMemory, Max: maxMemory}
	_ = unix.Prlimit(pid, unix.RLIMIT_AS, &limit, nil) // it may be over already
}
