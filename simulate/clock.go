package simulate

import "time"

// epoch is the time of day at which every world begins. It lies in the future, so
// that a deadline made by the standard library's context.WithTimeout, which runs
// on the real clock, cannot be taken for a simulated one.
var epoch = time.Date(2100, time.January, 1, 0, 0, 0, 0, time.UTC)

// million is the base of rates: a clock of rate +10000 gains one percent.
const million = 1_000_000

// endOfTime is as late as anything happens: clocks would overflow some time after it.
const endOfTime = 100 * 365 * 24 * time.Hour

// add returns t+d, but nothing later than the end of time.
func add(t, d time.Duration) time.Duration {
	if d > endOfTime-t {
		return endOfTime
	}
	return t + d
}

// clock is one host's clock: a line through (since, base), with a slope.
type clock struct {
	since  time.Duration // true time of the last change
	base   time.Duration // what the clock showed then
	rate   int64         // gain in millionths
	zero   time.Duration // what it would have shown at true time zero, had it been right: the time of day counts from it
	offset time.Duration // of the time of day
	past   []clock       // the lines before this one
}

// at returns what the clock shows at the true time t.
func (c *clock) at(t time.Duration) time.Duration {
	return c.base + scale(t-c.since, million+c.rate, million)
}

// when returns the first true time at which the clock shows local or more.
func (c *clock) when(local time.Duration) time.Duration {
	t := c.since + scale(local-c.base, million, million+c.rate)
	for c.at(t) < local {
		t++
	}
	return t
}

// setRate changes the slope at the true time t, without a jump.
func (c *clock) setRate(t time.Duration, rate int64) {
	c.past = append(c.past, clock{since: c.since, base: c.base, rate: c.rate})
	c.base, c.since, c.rate = c.at(t), t, rate
}

// truth is when, for times that may be past.
func (c *clock) truth(local time.Duration) time.Duration {
	for i := len(c.past) - 1; i >= 0 && local < c.base; i-- {
		c = &clock{since: c.past[i].since, base: c.past[i].base, rate: c.past[i].rate, past: c.past[:i]}
	}
	return c.when(local)
}

// scale is d·num/den without overflow for any span that a world lasts.
func scale(d time.Duration, num, den int64) time.Duration {
	return d/time.Duration(den)*time.Duration(num) + d%time.Duration(den)*time.Duration(num)/time.Duration(den)
}
