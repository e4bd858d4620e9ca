package check

import (
	"fmt"
	"slices"
	"time"
)

// What is done once (P43), in true time: no function begins after another one's success was confirmed, until the retention may be
// over; and no call is skipped before somebody has said that it succeeded.

// success is one that a caller has told its node of.
type success struct {
	by      *Hold
	from    time.Duration // when the caller said so: the retention counts from then on, or from later
	until   time.Duration // the retention is not over before
	certain bool          // it was confirmed
}

// successes are those of a key, in their order. It is nil once the key's table may have forgotten them.
type successes []success

// slack is by how much of it a retention may be over earlier in true time: two clocks are fast.
const slack = 0.03

// succeeding: the holder is about to say that what is done once has succeeded.
func (x *Hold) succeeding(retention time.Duration) {
	now := x.call.history.world.Now()
	x.succeeded = true
	x.key.done = append(x.key.done, success{by: x, from: now, until: now + time.Duration(float64(retention)*(1-slack))})
}

// confirmed: the mesh remembers the success of x, if it had any.
func (s successes) confirmed(x *Hold) {
	for i := range s {
		s[i].certain = s[i].certain || s[i].by == x
	}
}

// checkOnce: x begins, and nothing has succeeded before that is to be remembered.
func (h *History) checkOnce(k *keyHistory, x *Hold) {
	now := h.world.Now()
	for _, s := range k.done {
		if x.call.want.Once && s.certain && now < s.until {
			h.world.Fail(fmt.Errorf("P43 once: %v begins, and %v has succeeded, which is remembered until %v", x, s.by, s.until))
			return
		}
	}
}

// checkSkip: a call is skipped, so a caller has said that it succeeded.
func (h *History) checkSkip(c *Call) {
	k := h.keys[c.want.Key]
	if !slices.ContainsFunc(k.calls, func(o *Call) bool { return o.held != nil && o.held.succeeded }) {
		h.world.Fail(fmt.Errorf("P43 skip: %s, who wanted to do %v since %v, was told that it is done, and nobody has succeeded", c.who, c.want, c.began))
	}
}
