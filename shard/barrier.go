package shard

// A barrier is a key that so many hold together (P45): nobody gets in until as many requests wait as its capacity says; then all these get in. The
// next round begins once all of them have left, or their sessions have ended. Who gives up before the round is full is not in it.

// gathered reports whether a round may begin: the one before is over, and as many wait as there are to be.
func (e *entry) gathered() bool {
	return e.holders.len == 0 && int64(e.queue.len) >= e.capacity
}

// assemble begins the next round of a barrier, if it may. All get in in one step: there are at most MaxMembers.
func (t *Table) assemble(e *entry, out []Event) []Event {
	if e.gathered() {
		for range e.capacity {
			out = t.admit(e.queue.first(), out)
		}
	}
	return out
}
