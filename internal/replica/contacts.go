package replica

import "time"

// answerTime is how long an answer proves that its sender lives and hears its leader.
const answerTime = 3 * HeartbeatTicks * TickInterval

// contacts is when a leader last heard the others.
type contacts struct {
	heard    map[uint64]time.Duration // replica ID -> when it last answered
	asked    time.Duration            // when all were asked for a sign of life, before a change of voters; zero: not asked
	patience time.Duration            // for how long their signs count
}

func newContacts() contacts { return contacts{heard: make(map[uint64]time.Duration)} }

// forget drops what is known of replicas.
func (c *contacts) forget(ids ...uint64) {
	for _, id := range ids {
		delete(c.heard, id)
	}
}

// silence returns for how long replica id has not answered; never if it has not yet.
func (c *contacts) silence(id uint64, now time.Duration) time.Duration {
	if heard, ever := c.heard[id]; ever {
		return now - heard
	}
	return never
}

// answers reports whether replica id answered the last heartbeats.
func (c *contacts) answers(id uint64, now time.Duration) bool {
	return c.silence(id, now) <= answerTime
}

// ask begins to wait for signs of life, if that has not begun, or has lasted for too long. It
// reports whether all are to be asked for one. Replicas that are seldom heard get more time,
// from the second question on.
func (c *contacts) ask(now time.Duration) bool {
	switch {
	case c.asked == 0:
		c.patience = answerTime
	case now-c.asked > c.patience:
		c.patience = ElectionTimeout
	default:
		return false
	}
	c.asked = now
	return true
}

// answered reports whether replica id has answered since all were asked.
func (c *contacts) answered(id uint64) bool { return c.heard[id] > c.asked }
