package replica

import (
	"slices"
	"time"

	"go.etcd.io/raft/v3/tracker"
)

// learnerGrace is after how long without progress a learner is stuck.
const learnerGrace = 5 * time.Second

// learners is the progress of a leader's learners: one that is stuck does not count as a move.
type learners map[uint64]learner

// learner is what a leader knows of a learner. The time begins when it first saw it.
type learner struct {
	progressed time.Duration // when it last got more of a snapshot than ever, or waited for another's; or answered, and was ready or got more of the log
	match      uint64        // how far it was then
	got        int           // the most bytes of a snapshot that it ever had
	excused    bool          // a stall has moved the time since
}

// note notes the progress of learner id: what raft knows of it, whether it is ready to vote, whether it
// answers, and what s sends. To speak is not enough, for a learner that hears nothing asks whether it is
// one still. While a snapshot is sent to another replica, it may have to wait for its own. What it gets
// of a snapshot counts if it is more than it ever had: one that begins again and again makes no progress.
func (ls learners) note(id uint64, now time.Duration, pr tracker.Progress, ready, answers bool, s *sender) {
	l, seen := ls[id]
	more, waits := false, false
	if s.to() == id {
		more = s.got() > l.got
		l.got = max(l.got, s.got())
	} else {
		waits = s.busy() && answers
		if pr.State == tracker.StateReplicate {
			l.got = 0 // its next snapshot is another one
		}
	}
	if !seen || more || waits || ready || answers && pr.Match > l.match {
		l.progressed, l.match, l.excused = now, pr.Match, false
	}
	ls[id] = l
}

// keep forgets all learners but these.
func (ls learners) keep(ids []uint64) {
	for id := range ls { // order-free: each is judged alone
		if !slices.Contains(ids, id) {
			delete(ls, id)
		}
	}
}

// stuck reports whether learner id made no progress for learnerGrace.
func (ls learners) stuck(id uint64, now time.Duration) bool {
	l, seen := ls[id]
	return seen && now-l.progressed > learnerGrace
}

// stalled: the leader stood still for d.
func (ls learners) stalled(now, d time.Duration) {
	for id, l := range ls { // order-free: each is treated alike
		l.stalled(now, d)
		ls[id] = l
	}
}

// stalled: the leader stood still for d, and may not have heard the learner: see excused.
func (l *learner) stalled(now, d time.Duration) {
	if !l.excused {
		more := excused(d, now-l.progressed, learnerGrace)
		l.progressed, l.excused = l.progressed+more, more > 0
	}
}
