package main

import (
	"time"

	"golang.org/x/sys/unix"
)

// bound bounds what a process takes: a mutant may well take memory, or processor time, for
// ever. Where the bound of the latter is reached the process is killed.
func bound(pid int, cpu time.Duration) {
	seconds := uint64((cpu + time.Second - 1) / time.Second)
	for resource, n := range map[int]uint64{unix.RLIMIT_AS: maxMemory, unix.RLIMIT_CPU: seconds} {
		_ = unix.Prlimit(pid, resource, &unix.Rlimit{Cur: n, Max: n}, nil) // it may be over already
	}
}
