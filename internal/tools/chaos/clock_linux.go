package main

import (
	"time"

	"golang.org/x/sys/unix"
)

// clock reads the clock that runs during suspend. It is the same for all processes of the machine.
func clock() moment {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &t); err != nil {
		panic("chaos: no CLOCK_BOOTTIME: " + err.Error()) // cannot happen: every Linux that Go supports has it
	}
	return moment(t.Nano() / int64(time.Microsecond))
}
