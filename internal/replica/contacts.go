package replica

import "time"

// answerTime is how long an answer proves that its sender lives and hears its leader.
const answerTime = 3 * HeartbeatTicks * TickInterval

// contacts is when a leader last heard the others, and how late they answer.
type contacts struct {
	heard    map[uint64]time.Duration // replica ID -> when it last answered
	lags     map[uint64]lag           // replica ID -> how long it took to answer rounds
	rounds   map[uint64]uint64        // replica ID -> the latest round that it answered
	round    uint64                   // the latest one for which any was asked
	asked    time.Duration            // when all were asked for a sign of life, before a change of voters; zero: not asked
	before   uint64                   // the latest round then: an answer to that one, or an earlier one, is no sign
	patience time.Duration            // for how long their signs count
}

// promptly is the longest time that a voter's answer may take for it to be offered leadership, unless this leader is to go, or is
// late itself. As a leader the voter would need as long to be confirmed, and has to be within ElectionTimeout.
const promptly = ElectionTimeout / 2

// lag is how long a replica takes to answer rounds. One round at a time is timed, from when it is first asked to
// when that or a later one is answered.
type lag struct {
	round  uint64        // the one that is timed, or was timed last
	asked  time.Duration // when it was asked; zero: none is timed
	took   time.Duration // the longest recent time, at most lateAfter: each quicker answer lowers it by an eighth of the difference
	proven bool          // there was an answer
}

// untimed returns what is known without the round that is timed.
func (l lag) untimed() lag {
	l.asked = 0
	return l
}

func newContacts() contacts {
	return contacts{heard: make(map[uint64]time.Duration), lags: make(map[uint64]lag), rounds: make(map[uint64]uint64)}
}

// time notes that replica id is asked for a round, and times its answer, unless one is timed. Later rounds have higher numbers.
func (c *contacts) time(id, round uint64, now time.Duration) {
	c.round = max(c.round, round)
	if l := c.lags[id]; l.asked == 0 && round > l.round {
		l.round, l.asked = round, now
		c.lags[id] = l
	}
}

// answer notes that replica id answered a round.
func (c *contacts) answer(id, round uint64, now time.Duration) {
	c.rounds[id] = max(c.rounds[id], round)
	if l := c.lags[id]; l.asked != 0 && round >= l.round {
		took := min(now-l.asked, lateAfter) // the first one may be lost, and the next may have come after hours
		c.lags[id] = lag{round: round, took: max(took, l.took-(l.took-took)/8), proven: true}
	}
}

// lag returns how long replica id takes to answer rounds; never if it has answered none.
func (c *contacts) lag(id uint64, now time.Duration) time.Duration {
	switch l := c.lags[id]; {
	case !l.proven:
		return never
	case l.asked != 0:
		return max(l.took, min(now-l.asked, lateAfter))
	default:
		return l.took
	}
}

// stalled: the leader stood still. The answers that it did not read meanwhile say nothing of who gave them.
func (c *contacts) stalled() {
	for id, l := range c.lags { // order-free: each is treated alike
		c.lags[id] = l.untimed()
	}
}

// hear notes that replica id answered. What it was asked while it was silent may be lost, and would say nothing of how
// late it is.
func (c *contacts) hear(id uint64, now time.Duration) {
	if !c.answers(id, now) {
		c.lags[id] = c.lags[id].untimed()
	}
	c.heard[id] = now
}

// forget drops what is known of replicas.
func (c *contacts) forget(ids ...uint64) {
	for _, id := range ids {
		delete(c.heard, id)
		delete(c.lags, id)
		delete(c.rounds, id)
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
// reports whether all are to be asked for one, in a round of its own. Replicas that answer late, or are seldom heard, get
// more time with each question.
func (c *contacts) ask(now time.Duration) bool {
	switch {
	case c.asked == 0:
		c.patience = answerTime
	case now-c.asked > c.patience:
		c.patience = min(max(2*c.patience, ElectionTimeout), lateAfter)
	default:
		return false
	}
	c.asked, c.before = now, c.round
	return true
}

// answered reports whether replica id has answered what it was asked since then, and is heard still. What it said before
// may have been on its way for long.
func (c *contacts) answered(id uint64, now time.Duration) bool {
	return c.rounds[id] > c.before && c.silence(id, now) <= ElectionTimeout
}

// spoke reports whether anything was heard of replica id since all were asked, late or not.
func (c *contacts) spoke(id uint64) bool { return c.heard[id] > c.asked }
