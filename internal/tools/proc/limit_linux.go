package proc

import (
	"time"

	"golang.org/x/sys/unix"
)

// bound bounds the processor time and the memory of a process. The kernel kills the
// process when its processor time is used up.
func bound(pid int, cpu time.Duration) {
	seconds := uint64((cpu + time.Second - 1) / time.Second)
	for resource, n := range map[int]uint64{unix.RLIMIT_AS: maxMemory, unix.RLIMIT_CPU: seconds} {
		_ = unix.Prlimit(pid, resource, &unix.Rlimit{Cur: n, Max: n}, nil) // it may be over already
	}
}
