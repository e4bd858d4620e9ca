package simulate

import (
	"fmt"
	"slices"
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
// from the seed, differently for each world. What it draws does not depend on what
// happens, so that a storm can be had again without some of its faults: see
// Options.Only.
type Chaos struct {
	world   *World
	opts    ChaosOptions
	number  uint64 // of the world's storms
	prefix  string // of its faults' names
	until   time.Duration
	kinds   []*kind
	faults  []Fault
	waiting map[string]bool // of Options.Only: not drawn yet
	last    time.Duration   // when the last one of Options.Only ends
	over    bool
	calm    Link
}

// Fault is one fault of a storm.
type Fault struct {
	// Name is the fault's kind, and its number among those of its kind: "crash/3".
	// A second storm's begins with "2:".
	Name    string
	At, For time.Duration // For is zero for what happens in a moment
	// Happened is false if it could not be: its host was down already, or no majority
	// would have been left.
	Happened bool
}

// kind is one kind of fault of a storm.
type kind struct {
	name  string
	mean  time.Duration // between two of them; zero: none in this world
	most  time.Duration // of one's length
	begin func(c *Chaos, s *stream, d time.Duration) bool
	times *stream
	drawn uint64
}

// faultKinds are drawn in this order: append only.
func faultKinds() []*kind {
	const s = time.Second
	return []*kind{
		{name: "partition", mean: 10 * s, most: 15 * s, begin: (*Chaos).split},
		{name: "isolate", mean: 10 * s, most: 15 * s, begin: (*Chaos).isolate},
		{name: "one-way", mean: 10 * s, most: 15 * s, begin: (*Chaos).oneWay},
		{name: "pair", mean: 8 * s, most: 20 * s, begin: (*Chaos).pair},
		{name: "crash", mean: 10 * s, most: 10 * s, begin: (*Chaos).crash},
		{name: "power-off", mean: 25 * s, most: 10 * s, begin: (*Chaos).powerOff},
		{name: "pause", mean: 5 * s, most: 15 * s, begin: (*Chaos).pause},
		{name: "clock-rate", mean: 10 * s, begin: (*Chaos).clockRate},
		{name: "clock-step", mean: 20 * s, begin: (*Chaos).clockStep},
		{name: "reset", mean: 3 * s, begin: (*Chaos).reset},
		{name: "link", mean: 6 * s, most: 10 * s, begin: (*Chaos).link},
		{name: "slow", mean: 10 * s, most: 10 * s, begin: (*Chaos).slow},
		{name: "lie", mean: 5 * s, begin: (*Chaos).lie},
	}
}

// Chaos begins a storm, as the world's profile has it; without a profile, one with
// every kind of fault. It ends by itself, with HealAll.
//
//	storm := w.Chaos(simulate.ChaosOptions{For: time.Minute})
//	err := w.Run(time.Minute + 30*time.Second)
//	fmt.Println(storm.Counts())
func (w *World) Chaos(opts ChaosOptions) *Chaos {
	c := &Chaos{world: w, opts: opts, until: w.now + opts.For, calm: *w.net.link, kinds: faultKinds()}
	w.storms = append(w.storms, c)
	if c.number = uint64(len(w.storms)); c.number > 1 {
		c.prefix = fmt.Sprintf("%d:", len(w.storms))
	}
	if w.opts.Only != nil {
		c.waiting = make(map[string]bool)
		for _, name := range w.opts.Only {
			if strings.Contains(name, ":") == (c.prefix != "") && strings.HasPrefix(name, c.prefix) {
				c.waiting[name] = true
			}
		}
	}
	for i, k := range c.kinds {
		k.times = w.stream(chaosStream<<48 | c.number<<40 | uint64(i)<<32)
		k.mean = k.mean/4 + k.times.exponential(k.mean)
		percent := w.climate.oftenness(k.name)
		if k.times.chance(million/3) || percent == 0 || slices.Contains(opts.Without, k.name) {
			continue // swarm: each world lacks some kinds
		}
		k.mean = k.mean * 100 / time.Duration(percent)
		c.next(k, uint64(i))
	}
	w.after(opts.For, nil, c.subside)
	return c
}

// subside ends the storm, if it had enough faults.
func (c *Chaos) subside() {
	enough := c.Total() >= c.opts.Least
	if c.waiting != nil {
		enough = len(c.waiting) == 0 && c.world.now >= c.last
	}
	if !enough && c.world.now < c.until+9*c.opts.For {
		c.world.after(c.opts.For/4, nil, c.subside)
		return
	}
	c.Stop()
}

// next schedules the next fault of a kind.
func (c *Chaos) next(k *kind, index uint64) {
	w := c.world
	w.after(time.Millisecond+k.times.exponential(k.mean), nil, func() {
		if c.over {
			return
		}
		k.drawn++
		f := Fault{Name: fmt.Sprintf("%s%s/%d", c.prefix, k.name, k.drawn), At: w.now}
		s := w.stream(chaosStream<<48 | c.number<<40 | index<<32 | k.drawn)
		f.For = c.length(s, k.most)
		if c.waiting == nil || c.waiting[f.Name] {
			if delete(c.waiting, f.Name); c.waiting != nil {
				c.last = max(c.last, w.now+f.For)
			}
			f.Happened = k.begin(c, s, f.For)
			c.faults = append(c.faults, f)
		}
		c.next(k, index)
	})
}

// length draws how long a fault lasts: as often some milliseconds as some seconds.
func (c *Chaos) length(s *stream, most time.Duration) time.Duration {
	if most == 0 {
		return 0
	}
	most >>= s.below(8)
	return s.between(most/2, most)
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

// Faults returns the storm's faults so far.
func (c *Chaos) Faults() []Fault { return c.faults[:len(c.faults):len(c.faults)] }

// Counts tells how many faults of each kind there were.
func (c *Chaos) Counts() string {
	var counts []string
	for _, k := range c.kinds {
		n := 0
		for _, f := range c.faults {
			if f.Happened && strings.HasPrefix(f.Name, c.prefix+k.name+"/") {
				n++
			}
		}
		if n > 0 {
			counts = append(counts, fmt.Sprintf("%s %d", k.name, n))
		}
	}
	return strings.Join(counts, ", ")
}

// Total is the number of faults that happened.
func (c *Chaos) Total() (n int) {
	for _, f := range c.faults {
		if f.Happened {
			n++
		}
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
func (c *Chaos) pick(s *stream) *Host {
	hosts := c.world.Hosts()
	if len(hosts) == 0 {
		return nil
	}
	return hosts[s.below(int64(len(hosts)))]
}

// two draws two hosts that differ.
func (c *Chaos) two(s *stream) (a, b *Host) {
	if len(c.world.Hosts()) < 2 {
		return nil, nil
	}
	a = c.pick(s)
	for b = a; b == a; {
		b = c.pick(s)
	}
	return a, b
}

func (c *Chaos) split(s *stream, d time.Duration) bool {
	var one, other []string
	for _, h := range c.world.Hosts() {
		if s.below(2) == 0 {
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
		c.world.net.mend(x)
	}
}

func (c *Chaos) isolate(s *stream, d time.Duration) bool {
	h := c.pick(s)
	if h == nil {
		return false
	}
	x := c.world.partition([]string{h.name})
	c.later(d, func() { c.mend(x) })
	return true
}

func (c *Chaos) oneWay(s *stream, d time.Duration) bool {
	h := c.pick(s)
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
	if s.below(2) == 0 {
		from, to = to, from
	}
	x := c.world.partitionOneWay(from, to)
	c.later(d, func() { c.mend(x) })
	return true
}

func (c *Chaos) pair(s *stream, d time.Duration) bool {
	a, b := c.two(s)
	if a == nil {
		return false
	}
	x := c.world.partitionOneWay([]string{a.name}, []string{b.name})
	c.later(d, func() { c.mend(x) })
	if s.below(2) == 0 {
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

func (c *Chaos) crash(s *stream, d time.Duration) bool {
	h := c.pick(s)
	if !c.mayCrash(h) {
		return false
	}
	c.world.Crash(h.name)
	c.later(d, func() { c.world.Restart(h.name) })
	return true
}

func (c *Chaos) powerOff(s *stream, d time.Duration) bool {
	h := c.pick(s)
	if !c.mayCrash(h) {
		return false
	}
	c.world.PowerOff(h.name)
	c.later(d, func() { c.world.Restart(h.name) })
	return true
}

func (c *Chaos) pause(s *stream, d time.Duration) bool {
	h := c.pick(s)
	if h == nil || h.process == nil || h.paused {
		return false
	}
	c.world.Pause(h.name)
	c.later(d, func() { c.world.Resume(h.name) })
	return true
}

func (c *Chaos) clockRate(s *stream, _ time.Duration) bool {
	h, most := c.pick(s), c.world.opts.ClockRate
	if h == nil || most == 0 {
		return false
	}
	c.world.ClockRate(h.name, s.below(2*most+1)-most)
	return true
}

func (c *Chaos) clockStep(s *stream, _ time.Duration) bool {
	h := c.pick(s)
	if h == nil {
		return false
	}
	c.world.ClockStep(h.name, s.between(-time.Hour, time.Hour))
	return true
}

func (c *Chaos) reset(s *stream, _ time.Duration) bool {
	a, b := c.two(s)
	if a == nil {
		return false
	}
	c.world.Reset(a.name, b.name)
	return true
}

// link makes all links bad for a while, in some of the ways in which they can be.
func (c *Chaos) link(s *stream, d time.Duration) bool {
	l := c.calm
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
	fault := c.world.fault(lab, "links: loss %d ppm, duplicate %d ppm, reorder %d ppm, latency %v", l.Loss, l.Duplicate, l.Reorder, l.Latency)
	*c.world.net.link = l
	c.later(d, func() {
		c.world.ended(fault, lab, "links: as before")
		*c.world.net.link = c.calm
	})
	return true
}

func (c *Chaos) slow(s *stream, d time.Duration) bool {
	h := c.pick(s)
	if h == nil {
		return false
	}
	c.world.Slow(h.name, 1<<s.between(3, 9))
	c.later(d, func() { c.world.Slow(h.name, 1) })
	return true
}

func (c *Chaos) lie(s *stream, _ time.Duration) bool {
	a, b := c.two(s)
	if a == nil {
		return false
	}
	c.world.LieDead(a.name, b.name)
	return true
}
