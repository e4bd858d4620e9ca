package realenv

import (
	"time"

	"golang.org/x/sys/unix"
)

// newClock returns the clock that runs while the machine sleeps.
func newClock() func() time.Duration { return boottime }

func boottime() time.Duration {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &t); err != nil {
		panic("realenv: no CLOCK_BOOTTIME: " + err.Error()) // cannot happen: every Linux that Go supports has it
	}
	return time.Duration(t.Nano())
}
