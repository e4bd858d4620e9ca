package simulate

import (
	"fmt"
	"strings"
	"time"
)

// ChaosOptions say what [World.Chaos] may do.
type ChaosOptions struct {
	// For is how long faults go on. Then everything is healed.
	For time.Duration
	// Least is how many faults there shall be at least: a storm that had fewer by then
	// goes on, up to ten times as long.
	Least int
	// MayCrash tells whether the process on a host may be ended now, with all that it
	// remembers. The default is [World.MaySpare]: no shard may lose a majority.
	MayCrash func(host string) bool
	// Without names kinds of faults that shall not happen: see [Chaos.Counts].
	Without []string
}

// Chaos is a storm of faults: which kinds, how often and for how long is drawn
// from the seed, differently for each world.
type Chaos struct {
	world  *World
	opts   ChaosOptions
	until  time.Duration
	faults []*fault
	over   bool
	calm   Link
}

// fault is one kind of fault of a storm.
type fault struct {
	name  string
	mean  time.Duration // between two of them; zero: none in this world
	most  time.Duration // of one's length
	begin func(c *Chaos, d time.Duration) bool
	count int
}

// faultKinds are drawn in this order: append only.
func faultKinds() []*fault {
	const s = time.Second
	return []*fault{
		{name: "partition", mean: 10 * s, most: 15 * s, begin: (*Chaos).split},
		{name: "isolate", mean: 10 * s, most: 15 * s, begin: (*Chaos).isolate},
		{name: "one way", mean: 10 * s, most: 15 * s, begin: (*Chaos).oneWay},
		{name: "pair", mean: 8 * s, most: 20 * s, begin: (*Chaos).pair},
		{name: "crash", mean: 10 * s, most: 10 * s, begin: (*Chaos).crash},
		{name: "power off", mean: 25 * s, most: 10 * s, begin: (*Chaos).powerOff},
		{name: "pause", mean: 5 * s, most: 15 * s, begin: (*Chaos).pause},
		{name: "clock rate", mean: 10 * s, begin: (*Chaos).clockRate},
		{name: "clock step", mean: 20 * s, begin: (*Chaos).clockStep},
		{name: "reset", mean: 3 * s, begin: (*Chaos).reset},
		{name: "link", mean: 6 * s, most: 10 * s, begin: (*Chaos).link},
		{name: "slow", mean: 10 * s, most: 10 * s, begin: (*Chaos).slow},
		{name: "lie", mean: 5 * s, begin: (*Chaos).lie},
	}
}

// Chaos begins a storm. It ends by itself, with HealAll.
//
//	storm := w.Chaos(simulate.ChaosOptions{For: time.Minute})
//	err := w.Run(time.Minute + 30*time.Second)
//	fmt.Println(storm.Counts())
func (w *World) Chaos(opts ChaosOptions) *Chaos {
	c := &Chaos{world: w, opts: opts, until: w.now + opts.For, calm: *w.net.link, faults: faultKinds()}
	for _, f := range c.faults {
		mean := f.mean/4 + w.chaos.exponential(f.mean)
		if w.chaos.chance(million / 3) {
			mean = 0 // swarm: each world lacks some kinds
		}
		f.mean = mean
		for _, name := range opts.Without {
			if name == f.name {
				f.mean = 0
			}
		}
		if f.mean > 0 {
			c.next(f)
		}
	}
	w.after(opts.For, nil, c.subside)
	return c
}

// subside ends the storm, if it had enough faults.
func (c *Chaos) subside() {
	if c.Total() < c.opts.Least && c.world.now < c.until+9*c.opts.For {
		c.world.after(c.opts.For/4, nil, c.subside)
		return
	}
	c.Stop()
}

// next schedules the next fault of a kind.
func (c *Chaos) next(f *fault) {
	w := c.world
	w.after(time.Millisecond+w.chaos.exponential(f.mean), nil, func() {
		if c.over {
			return
		}
		if f.begin(c, c.length(f.most)) {
			f.count++
		}
		c.next(f)
	})
}

// length draws how long a fault lasts: as often some milliseconds as some seconds.
func (c *Chaos) length(most time.Duration) time.Duration {
	if most == 0 {
		return 0
	}
	most >>= c.world.chaos.below(8)
	return c.world.chaos.between(most/2, most)
}

// Stop ends the storm and heals everything.
func (c *Chaos) Stop() {
	if !c.over {
		c.over = true
		*c.world.net.link = c.calm
		c.world.HealAll()
	}
}

// Over tells whether the storm has ended.
func (c *Chaos) Over() bool { return c.over }

// Counts tells how many faults of each kind there were.
func (c *Chaos) Counts() string {
	var b strings.Builder
	for _, f := range c.faults {
		if f.count > 0 {
			fmt.Fprintf(&b, "%s %d, ", f.name, f.count)
		}
	}
	return strings.TrimSuffix(b.String(), ", ")
}

// Total is the number of faults.
func (c *Chaos) Total() (n int) {
	for _, f := range c.faults {
		n += f.count
	}
	return n
}

// later ends a fault, unless the storm's end does.
func (c *Chaos) later(d time.Duration, end func()) {
	c.world.after(d, nil, func() {
		if !c.over {
			end()
		}
	})
}

// pick draws a host.
func (c *Chaos) pick() *Host {
	hosts := c.world.Hosts()
	if len(hosts) == 0 {
		return nil
	}
	return hosts[c.world.chaos.below(int64(len(hosts)))]
}

// two draws two hosts that differ.
func (c *Chaos) two() (a, b *Host) {
	if len(c.world.Hosts()) < 2 {
		return nil, nil
	}
	a = c.pick()
	for b = a; b == a; {
		b = c.pick()
	}
	return a, b
}

func (c *Chaos) split(d time.Duration) bool {
	var one, other []string
	for _, h := range c.world.Hosts() {
		if c.world.chaos.below(2) == 0 {
			one = append(one, h.name)
		} else {
			other = append(other, h.name)
		}
	}
	if len(one) == 0 || len(other) == 0 {
		return false
	}
	x := c.world.partition(one, other)
	c.later(d, func() { c.mend(x) })
	return true
}

func (c *Chaos) mend(x *cut) {
	if !x.over {
		c.world.logf(lab, "a partition ends")
		c.world.net.mend(x)
	}
}

func (c *Chaos) isolate(d time.Duration) bool {
	h := c.pick()
	if h == nil {
		return false
	}
	x := c.world.partition([]string{h.name})
	c.later(d, func() { c.mend(x) })
	return true
}

func (c *Chaos) oneWay(d time.Duration) bool {
	h := c.pick()
	if h == nil {
		return false
	}
	var rest []string
	for _, other := range c.world.Hosts() {
		if other != h {
			rest = append(rest, other.name)
		}
	}
	from, to := []string{h.name}, rest
	if c.world.chaos.below(2) == 0 {
		from, to = to, from
	}
	x := c.world.partitionOneWay(from, to)
	c.later(d, func() { c.mend(x) })
	return true
}

func (c *Chaos) pair(d time.Duration) bool {
	a, b := c.two()
	if a == nil {
		return false
	}
	x := c.world.partitionOneWay([]string{a.name}, []string{b.name})
	c.later(d, func() { c.mend(x) })
	if c.world.chaos.below(2) == 0 {
		y := c.world.partitionOneWay([]string{b.name}, []string{a.name})
		c.later(d, func() { c.mend(y) })
	}
	return true
}

// mayCrash asks the guard.
func (c *Chaos) mayCrash(h *Host) bool {
	if h == nil || h.process == nil {
		return false
	}
	if c.opts.MayCrash != nil {
		return c.opts.MayCrash(h.name)
	}
	return c.world.MaySpare(h.name)
}

func (c *Chaos) crash(d time.Duration) bool {
	h := c.pick()
	if !c.mayCrash(h) {
		return false
	}
	c.world.Crash(h.name)
	c.later(d, func() { c.world.Restart(h.name) })
	return true
}

func (c *Chaos) powerOff(d time.Duration) bool {
	h := c.pick()
	if !c.mayCrash(h) {
		return false
	}
	c.world.PowerOff(h.name)
	c.later(d, func() { c.world.Restart(h.name) })
	return true
}

func (c *Chaos) pause(d time.Duration) bool {
	h := c.pick()
	if h == nil || h.process == nil || h.paused {
		return false
	}
	c.world.Pause(h.name)
	c.later(d, func() { c.world.Resume(h.name) })
	return true
}

func (c *Chaos) clockRate(time.Duration) bool {
	h, most := c.pick(), c.world.opts.ClockRate
	if h == nil || most == 0 {
		return false
	}
	c.world.ClockRate(h.name, c.world.chaos.below(2*most+1)-most)
	return true
}

func (c *Chaos) clockStep(time.Duration) bool {
	h := c.pick()
	if h == nil {
		return false
	}
	c.world.ClockStep(h.name, c.world.chaos.between(-time.Hour, time.Hour))
	return true
}

func (c *Chaos) reset(time.Duration) bool {
	a, b := c.two()
	if a == nil {
		return false
	}
	c.world.Reset(a.name, b.name)
	return true
}

// link makes all links bad for a while, in some of the ways in which they can be.
func (c *Chaos) link(d time.Duration) bool {
	s, l := c.world.chaos, c.calm
	ppm := func(most int64) int64 {
		if s.below(2) == 0 {
			return 0
		}
		return s.below(most)
	}
	l.Loss, l.Duplicate, l.Reorder = ppm(200_000), ppm(100_000), ppm(200_000)
	if s.below(3) == 0 {
		l.Latency += s.between(time.Millisecond, 100*time.Millisecond)
	}
	c.world.logf(lab, "links: loss %d ppm, duplicate %d ppm, reorder %d ppm, latency %v", l.Loss, l.Duplicate, l.Reorder, l.Latency)
	*c.world.net.link = l
	c.later(d, func() {
		c.world.logf(lab, "links: as before")
		*c.world.net.link = c.calm
	})
	return true
}

func (c *Chaos) slow(d time.Duration) bool {
	h := c.pick()
	if h == nil {
		return false
	}
	c.world.Slow(h.name, 1<<c.world.chaos.between(3, 9))
	c.later(d, func() { c.world.Slow(h.name, 1) })
	return true
}

func (c *Chaos) lie(time.Duration) bool {
	a, b := c.two()
	if a == nil {
		return false
	}
	c.world.LieDead(a.name, b.name)
	return true
}
