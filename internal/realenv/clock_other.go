//go:build !linux

package realenv

import "time"

// newClock returns the monotonic clock, counted from this call.
func newClock() func() time.Duration {
	epoch := time.Now()
	return func() time.Duration { return time.Since(epoch) }
}
