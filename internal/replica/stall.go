package replica

import "time"

// stalledTick is the longest time between two ticks that is no stall (P10). On a busy host ticks are
// often a little late, and that time counts. It is less than a third of the shortest timer, which
// is what a stall leaves of one: see excused.
const stalledTick = 5 * TickInterval

// excused returns the extension of a timer after a stall of d. The timer runs out when nothing was
// heard for length; by now nothing was for silence, the stall included. After a stall it keeps at
// least a third of its length, or what it had left before if that is less. Messages that the network
// brought meanwhile may still be unread, and a live peer speaks again before a third is over.
//
// Example: 3 s of 9 s are over when a stall of 5 s begins. 1 s is left after it, and a third is
// 3 s: the extension is 2 s.
func excused(d, silence, length time.Duration) time.Duration {
	return max(0, min(d, silence-2*length/3))
}
