package replica

import "time"

// A tick that comes later than this after the last one was held up by a stall (P10). Those
// of a busy host are late again and again, and time passes on it all the same. It is less
// than a third of the shortest timer, which is what a stall leaves of one: see excused.
const stalledTick = 5 * TickInterval

// pulse is when a replica was last ticked; zero before that.
type pulse struct{ last time.Duration }

// tick notes a tick, and returns for how long the replica stood still before it.
func (p *pulse) tick(now time.Duration) (stall time.Duration) {
	if p.last != 0 && now-p.last > stalledTick {
		stall = now - p.last - TickInterval
	}
	p.last = now
	return stall
}

// excused returns by how much a stall of d moves the end of a timer that runs out when
// nothing was heard for length, and by now was not for silence: it is left a third of its
// length, or what it had before. The mailbox has been drained. What the network has brought
// may still be unread, and a peer that lives speaks again before a third is over.
func excused(d, silence, length time.Duration) time.Duration {
	return max(0, min(d, silence-2*length/3))
}
