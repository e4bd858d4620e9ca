package client

import (
	"slices"

	"github.com/lockmesh/mesh/internal/env"
	"github.com/lockmesh/mesh/internal/fault"
)

// A hold of fixed length (MaxHold, P7) has a lease of its own, which is not renewed: a Fix tells
// the table when the hold ends. The first one goes out as soon as the table has granted the key,
// and its caller has the hold once it is answered; Extend sends the others. A hold that was asked for Alone
// is renewed until its caller sends the first one, so that several holds can end together (P36).

// startFixed asks for the fixed time of a hold that was granted.
func (l *lease) startFixed(c *Call) {
	c.fixing = true
	fix := &Call{Kind: Fix, Shard: c.Shard, Hold: c.Hold, Length: c.Request.MaxHold}
	l.fixes = append(l.fixes, fix)
	l.sendFix(fix)
}

// extend asks for another fixed time for a hold. The table may apply a Fix whose answer is lost:
// from its sending on, the holder believes in no more than both the old end and the new one allow.
// One Fix is under way at a time, or an answer could be taken for another's.
func (l *lease) extend(c *Call) {
	h := c.Hold
	if !h.timed {
		h.timed, l.renewAt, l.asked = true, env.Never, nil // an answer that is on its way must not move the end
	}
	if end := l.client.now + l.believable(c.Length); end < h.Deadline() {
		h.deadline.Store(int64(end))
		l.client.emit(Shortened{h})
	}
	l.until = min(l.until, h.Deadline())
	l.wakeAt(l.until)
	if l.fixes = append(l.fixes, c); len(l.fixes) == 1 {
		l.sendFix(c)
	}
}

func (l *lease) sendFix(c *Call) {
	c.first = l.client.now
	l.issue(c)
}

// forgetFix removes a Fix, waiting or under way, from the lease.
func (l *lease) forgetFix(c *Call) {
	l.fixes = slices.DeleteFunc(l.fixes, func(o *Call) bool { return o == c })
}

// fixConfirmed handles the answer to a Fix. Three ends must be told apart:
//
//   - until: when the fixed time is over, counted from the sending of the Fix; or the longest that a lease may last,
//     if that is less by now.
//   - believed: the earlier of until and of what the waiting Fixes allow. The holder goes by it.
//   - lasts: until when the table may keep the record, counted from this answer. It may keep it a
//     little longer (2ρ of the fixed time); then the record ends by itself.
func (l *lease) fixConfirmed(c *Call, err error) {
	h, now := c.Hold, l.client.now
	waiting := h.pending
	if err != nil {
		l.lose(false) // c among its fixes
		return
	}
	until := c.first + l.believable(min(c.Length, l.limit))
	believed := until
	for _, next := range l.fixes {
		if next != c {
			believed = min(believed, now+l.believable(next.Length))
		}
	}
	if goesOn := h.fix(believed); waiting == nil && (!goesOn || now >= until) {
		l.giveUpFixed(c) // its holder looked at the clock before this answer came, and stopped; or it is over
		return
	}
	h.timed = true
	l.lasts = now + l.believable(c.Length)
	if l.forgetFix(c); len(l.fixes) > 0 {
		l.sendFix(l.fixes[0])
	}
	l.until = believed // the next Tick is due no later than the earlier end, which it was told before
	l.renewAt = env.Never
	l.asked = nil // what is said of the session from now on moves nothing
	l.client.finish(c, nil)
	if waiting == nil {
		return
	}
	if now >= l.until {
		l.lose(false)
		return
	}
	l.deliver(h)
}

// giveUpFixed closes the record of a hold that is over for its holder, while the table has
// extended it, or may have: nothing brings a lost lock back, and without the Close the key would
// stay blocked without a holder. C is the Fix under way.
func (l *lease) giveUpFixed(c *Call) {
	l.client.emit(End{c.Hold, fault.ErrLost})
	l.dropFixes(fault.ErrLost)
	l.forget(c.Hold)
	l.close()
}

// lateFix returns the Fix under way of a hold that is over, if its record may still last.
func (l *lease) lateFix() *Call {
	if len(l.fixes) == 0 {
		return nil
	}
	if c := l.fixes[0]; c.Hold.pending == nil && l.lasts > l.client.now {
		return c
	}
	return nil
}

// dropFixes fails the Fix under way, and those that wait for it.
func (l *lease) dropFixes(why error) {
	for _, c := range l.fixes {
		l.remove(c)
		l.client.finish(c, why)
	}
	l.fixes = nil
}
