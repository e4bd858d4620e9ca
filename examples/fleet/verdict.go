package main

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// evidence is what the members of a row have told.
type evidence struct {
	holds  []event         // locks of the clients, to be held through the row
	drops  []event         // those of them that their holders lost
	sees   []event         // with which tokens they are held at the end, as each member sees it
	queued []event         // counts of waiters
	served []event         // grants of waiters
	swept  [shards][]event // grants of a free key of each shard, by time
}

func (v *evidence) record(e event) {
	switch e.Kind {
	case holds:
		v.holds = append(v.holds, e)
	case dropped:
		v.drops = append(v.drops, e)
	case sees:
		v.sees = append(v.sees, e)
	case queued:
		v.queued = append(v.queued, e)
	case served:
		v.served = append(v.served, e)
	case swept:
		all, i := v.swept[e.Place], len(v.swept[e.Place])
		for i > 0 && all[i-1].At > e.At {
			i-- // two members tell of their grants, and not always in their order
		}
		v.swept[e.Place] = slices.Insert(all, i, e)
	}
}

// after reports whether in each of the shards a call that began after t has been granted.
func (v *evidence) after(t time.Time, of []int) bool {
	return !slices.ContainsFunc(of, func(shard int) bool { _, ok := v.first(shard, t); return !ok })
}

// first returns when the first call that began after t was granted in a shard.
func (v *evidence) first(shard int, t time.Time) (at time.Time, ok bool) {
	for _, e := range v.swept[shard] {
		if e.Called > t.UnixNano() {
			return time.Unix(0, e.At), true
		}
	}
	return time.Time{}, false
}

// check is a time in which free keys of some shards may be out of reach for a while, and no longer.
type check struct {
	name     string // of what happens in it; empty: what the row is named for
	shards   []int
	from, to time.Time     // from is when the processes were killed, began to leave, were restarted or went on: what the check is about
	least    time.Duration // after from, for so long no free key may be granted: the quiet time, if there is one
	most     time.Duration // for how long, at most, no free key is granted
}

// times returns how long free keys of the check's shards were out of reach, in the worst shard: the time from c.from
// until a call that began after it was granted, and the longest time between two grants.
func (v *evidence) times(c check) (opened, pause time.Duration) {
	for _, shard := range c.shards {
		at, ok := v.first(shard, c.from)
		if !ok || at.After(c.to) {
			at = c.to
		}
		opened = max(opened, at.Sub(c.from))
		last := c.from
		for _, e := range v.swept[shard] {
			if at := time.Unix(0, e.At); at.After(c.from) && at.Before(c.to) {
				pause, last = max(pause, at.Sub(last)), at
			}
		}
		pause = max(pause, c.to.Sub(last))
	}
	return opened, pause
}

// early returns the first grant of a shard that came before its quiet time was over. What was granted before the check
// began may have arrived a moment later.
func (v *evidence) early(c check, shard int) (after time.Duration, ok bool) {
	const way = 500 * time.Millisecond
	for _, e := range v.swept[shard] {
		after := time.Unix(0, e.At).Sub(c.from)
		if (e.Called > c.from.UnixNano() || after > way) && after < c.least {
			return after, true
		}
	}
	return 0, false
}

// verdict is what a row has shown. It has failed if there are errors.
type verdict struct {
	held, kept      int
	queues, inOrder int
	lines           []line // of each check
	failed          int    // how many errors there are
	errs            []error
}

type line struct {
	name          string
	shards        int
	opened, pause time.Duration
}

// fail adds an error. Only the first ten are kept.
func (d *verdict) fail(format string, args ...any) {
	if d.failed++; len(d.errs) < 10 {
		d.errs = append(d.errs, fmt.Errorf(format, args...))
	}
}

// terms are what is asked of a row.
type terms struct {
	members int      // each of which was asked for every lock
	queues  []string // keys for which members wait
	waiters int      // for each of those
	ended   []string // members whose locks must have ended, and that must have said so
	checks  []check
}

// judge compares what the members told with what is asked of a row.
func (v *evidence) judge(t terms) *verdict {
	d := &verdict{queues: len(t.queues)}
	for _, h := range v.holds {
		if slices.Contains(t.ended, h.Member) {
			v.judgeEnded(d, h)
			continue
		}
		d.held++
		v.judgeHold(d, h, t.members)
	}
	if len(v.holds) == 0 {
		d.fail("no locks were held")
	}
	for _, key := range t.queues {
		v.judgeQueue(d, key, t.waiters)
	}
	for shard := range v.swept {
		v.judgeSwept(d, shard)
	}
	for _, c := range t.checks {
		v.judgeCheck(d, c)
	}
	return d
}

// judgeEnded: the holder has said that it lost its lock, and no member sees it.
func (v *evidence) judgeEnded(d *verdict, h event) {
	if !slices.ContainsFunc(v.drops, func(e event) bool { return e.Text == h.Text && e.Token == h.Token }) {
		d.fail("%s has not lost %s", h.Member, h.Text)
	}
	for _, e := range v.sees {
		if e.Text == h.Text && e.Token == h.Token {
			d.fail("%s lost %s, and %s sees its token %d", h.Member, h.Text, e.Member, e.Token)
		}
	}
}

// judgeSwept: a free key of a shard, which members lock in turn, is never held by two, and its tokens grow.
func (v *evidence) judgeSwept(d *verdict, shard int) {
	until := event{}
	for i, e := range v.swept[shard] {
		if i > 0 && e.Token <= v.swept[shard][i-1].Token {
			d.fail("%s: %s got token %d, after %s had got %d", e.Text, e.Member, e.Token, v.swept[shard][i-1].Member, v.swept[shard][i-1].Token)
			return
		}
		if until.Until > e.At {
			d.fail("%s: %s held it with token %d, when %s had got it with token %d", e.Text, until.Member, until.Token, e.Member, e.Token)
			return
		}
		if e.Until > until.Until {
			until = e
		}
	}
}

// judgeHold: the holder has not lost its lock, and all members see it, with the token of its grant.
func (v *evidence) judgeHold(d *verdict, h event, members int) {
	before, seen := d.failed, 0
	if slices.ContainsFunc(v.drops, func(e event) bool { return e.Text == h.Text }) {
		d.fail("%s lost %s", h.Member, h.Text)
	}
	for _, e := range v.sees {
		switch {
		case e.Text != h.Text:
			continue
		case e.Token != h.Token:
			d.fail("%s is held by %s with token %d, and %s sees token %d", h.Text, h.Member, h.Token, e.Member, e.Token)
		}
		seen++
	}
	if seen != members {
		d.fail("%d of %d members have said with which token %s is held", seen, members, h.Text)
	}
	if d.failed == before {
		d.kept++
	}
}

// judgeQueue: all waiters were served, in their order, with tokens that grow from that of the holder.
func (v *evidence) judgeQueue(d *verdict, key string, waiters int) {
	last := uint64(0)
	if i := slices.IndexFunc(v.holds, func(e event) bool { return e.Text == key }); i >= 0 {
		last = v.holds[i].Token
	}
	var got []event
	for _, e := range v.served {
		if e.Text == key {
			got = append(got, e)
		}
	}
	slices.SortFunc(got, func(x, y event) int { return cmp.Compare(x.At, y.At) })
	if len(got) != waiters {
		d.fail("%s: %d of %d waiters were served", key, len(got), waiters)
		return
	}
	for i, e := range got {
		if e.Place != i || e.Token <= last {
			d.fail("%s: waiter %d was served as number %d, with token %d after token %d", key, e.Place, i, e.Token, last)
			return
		}
		last = e.Token
	}
	d.inOrder++
}

// judgeCheck: free keys are granted when the quiet time is over, and soon enough, and then again and again.
func (v *evidence) judgeCheck(d *verdict, c check) {
	l := line{name: c.name, shards: len(c.shards)}
	l.opened, l.pause = v.times(c)
	d.lines = append(d.lines, l)
	if len(c.shards) == 0 {
		d.fail("%s: no shards", c.name)
	}
	for _, shard := range c.shards {
		if after, ok := v.early(c, shard); ok {
			d.fail("%s: a free key was granted after %v, want none for %v", c.name, round(after), c.least)
			break
		}
	}
	if worst := max(l.opened, l.pause); worst > c.most {
		d.fail("%s: no free key was granted in a shard for %v, want at most %v", c.name, round(worst), c.most)
	}
}
