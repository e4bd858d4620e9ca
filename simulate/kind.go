package simulate

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/lockmesh/mesh/simulate/timeline"
)

// kind is one kind of fault of a storm.
type kind struct {
	name  string
	mean  time.Duration // between two of them
	most  time.Duration // of one's length; zero: it happens in a moment
	long  bool          // its length is on top of all that is timed
	begin func(c *Chaos, s *stream, d time.Duration) bool
	times *stream
	drawn uint64
}

// faultKinds are drawn in this order: append only. What begin draws must not depend on
// what happens in the world, and what it does may.
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
		{name: "hold", mean: 8 * s, most: 10 * s, begin: (*Chaos).hold},
		{name: "swizzle", mean: 25 * s, most: 20 * s, begin: (*Chaos).swizzle},
		{name: "squeeze", mean: 15 * s, most: 10 * s, begin: (*Chaos).squeeze},
		{name: "tail", mean: 15 * s, most: 15 * s, begin: (*Chaos).tail},
		{name: "late-news", mean: 20 * s, most: 20 * s, begin: (*Chaos).lateNews},
		{name: "no-news", mean: 20 * s, most: 30 * s, begin: (*Chaos).noNews},
		{name: "leave", mean: 30 * s, most: 10 * s, begin: (*Chaos).leave},
		{name: "join", mean: 30 * s, begin: (*Chaos).join},
		{name: "crash-again", mean: 30 * s, most: 8 * s, begin: (*Chaos).crashAgain},
		{name: "crash-leader", mean: 20 * s, most: 10 * s, begin: (*Chaos).crashLeader},
		{name: "cut-leader", mean: 15 * s, most: 10 * s, begin: (*Chaos).cutLeader},
		{name: "pause-leader", mean: 15 * s, most: 10 * s, begin: (*Chaos).pauseLeader},
		{name: "stall", mean: 12 * s, most: 5 * s, begin: (*Chaos).stall},
		{name: "clock-wave", mean: 30 * s, begin: (*Chaos).clockWave},
		{name: "clock-noise", mean: 30 * s, begin: (*Chaos).clockNoise},
		{name: double, mean: 20 * s, most: 10 * s, begin: (*Chaos).double},
		{name: "aimed", mean: 3 * s, most: 10 * s, begin: (*Chaos).aimed},
		{name: "outlast", mean: 120 * s, most: 20 * s, long: true, begin: (*Chaos).outlast},
		{name: "pause-all", mean: 40 * s, most: 10 * s, begin: (*Chaos).pauseAll},
		{name: "isolate-all", mean: 40 * s, most: 10 * s, begin: (*Chaos).isolateAll},
		{name: "crash-all", mean: 60 * s, most: 8 * s, begin: (*Chaos).crashAll},
	}
}

// checkKinds panics if one of names is no kind's.
func checkKinds(names []string) {
	for _, name := range names {
		if !slices.Contains(FaultKinds(), name) {
			panic(fmt.Sprintf("simulate: no kind of fault %q: the kinds are %q", name, FaultKinds()))
		}
	}
}

// later ends a fault, unless the storm's end does.
func (c *Chaos) later(d time.Duration, end func()) {
	c.world.after(d, nil, func() {
		if !c.over {
			end()
		}
	})
}

// pick draws a host. A storm has at least one.
func (c *Chaos) pick(s *stream) *Host {
	return c.hosts[s.below(int64(len(c.hosts)))]
}

// two draws two hosts that differ.
func (c *Chaos) two(s *stream) (a, b *Host) {
	if len(c.hosts) < 2 {
		return nil, nil
	}
	all := s.shuffle(len(c.hosts))
	return c.hosts[all[0]], c.hosts[all[1]]
}

func (c *Chaos) split(s *stream, d time.Duration) bool {
	var one, other []string
	for _, h := range c.hosts {
		if s.below(2) == 0 {
			one = append(one, h.name)
		} else {
			other = append(other, h.name)
		}
	}
	if len(one) == 0 || len(other) == 0 {
		return false
	}
	return c.cut(c.world.Net.partition(one, other), d)
}

// cut ends a cut after d.
func (c *Chaos) cut(x *cut, d time.Duration) bool {
	c.later(d, func() { c.world.Net.mend(x) })
	return true
}

func (c *Chaos) isolate(s *stream, d time.Duration) bool {
	return c.cut(c.world.Net.partition([]string{c.pick(s).name}), d)
}

func (c *Chaos) oneWay(s *stream, d time.Duration) bool {
	h := c.pick(s)
	from, to := []string{h.name}, c.others(h)
	if s.below(2) == 0 {
		from, to = to, from
	}
	return c.cut(c.world.Net.partitionOneWay(from, to), d)
}

// others names all hosts but one.
func (c *Chaos) others(h *Host) (names []string) {
	for _, other := range c.hosts {
		if other != h {
			names = append(names, other.name)
		}
	}
	return names
}

func (c *Chaos) pair(s *stream, d time.Duration) bool {
	a, b := c.two(s)
	if a == nil {
		return false
	}
	c.cut(c.world.Net.partitionOneWay([]string{a.name}, []string{b.name}), d)
	if s.below(2) == 0 {
		c.cut(c.world.Net.partitionOneWay([]string{b.name}, []string{a.name}), d)
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
	return h.MaySpare()
}

// end ends a host's process by Crash or PowerOff, and starts it again after d.
func (c *Chaos) end(h *Host, d time.Duration, verb func(*Host)) bool {
	if !c.mayCrash(h) {
		return false
	}
	verb(h)
	c.later(d, func() { h.Restart() })
	return true
}

func (c *Chaos) crash(s *stream, d time.Duration) bool { return c.end(c.pick(s), d, (*Host).Crash) }

func (c *Chaos) powerOff(s *stream, d time.Duration) bool {
	return c.end(c.pick(s), d, (*Host).PowerOff)
}

func (c *Chaos) pause(s *stream, d time.Duration) bool { return c.halt(c.pick(s), d) }

// halt pauses a host for d.
func (c *Chaos) halt(h *Host, d time.Duration) bool {
	if h == nil || h.process == nil || h.paused {
		return false
	}
	h.Pause()
	c.later(d, func() { h.Resume() })
	return true
}

func (c *Chaos) clockRate(s *stream, _ time.Duration) bool {
	h, most := c.pick(s), c.world.opts.ClockRate
	if most == 0 {
		return false
	}
	h.Clock.SetRate(s.below(2*most+1) - most)
	return true
}

func (c *Chaos) clockStep(s *stream, _ time.Duration) bool {
	h := c.pick(s)
	step := s.between(-time.Hour, time.Hour)
	if step < 0 && c.world.fresh {
		return false // tokens of the second mesh may be below those of the first, then
	}
	h.Clock.Step(step)
	return true
}

func (c *Chaos) reset(s *stream, _ time.Duration) bool { return c.between(s, c.world.Net.Reset) }

// between does something to two hosts.
func (c *Chaos) between(s *stream, verb func(a, b string)) bool {
	a, b := c.two(s)
	if a == nil {
		return false
	}
	verb(a.name, b.name)
	return true
}

// link makes all links bad for a while, in some of the ways in which they can be.
func (c *Chaos) link(s *stream, d time.Duration) bool {
	ppm := func(most int64) int64 {
		if s.below(2) == 0 {
			return 0
		}
		return s.below(most)
	}
	worse := Link{Loss: ppm(200_000), Duplicate: ppm(100_000), Reorder: ppm(200_000)}
	if s.below(3) == 0 {
		worse.Latency = s.between(time.Millisecond, 100*time.Millisecond)
	}
	return c.weather(d, &weather{
		change: func(l *Link) {
			l.Loss, l.Duplicate, l.Reorder = max(l.Loss, worse.Loss), max(l.Duplicate, worse.Duplicate), max(l.Reorder, worse.Reorder)
			l.Latency += worse.Latency
		},
		fault: c.world.fault(lab, "links: loss %d ppm, duplicate %d ppm, reorder %d ppm, %v later", worse.Loss, worse.Duplicate, worse.Reorder, worse.Latency),
	})
}

// weather begins a weather, and ends it after d.
func (c *Chaos) weather(d time.Duration, x *weather) bool {
	c.world.Net.blow(x)
	c.later(d, func() { c.world.Net.calm(x) })
	return true
}

// somewhere draws which links a weather is for: all, what one host sends, or one way.
func (c *Chaos) somewhere(s *stream) (x *weather, where string, ok bool) {
	a, b := c.two(s)
	how := s.below(3)
	switch {
	case a == nil:
		return nil, "", false
	case how == 0:
		return &weather{}, "links", true
	case how == 1:
		return &weather{from: a}, "links from " + a.name, true
	}
	return &weather{from: a, to: b}, "link " + a.name + " -> " + b.name, true
}

// squeeze makes links narrow, and their queues short.
func (c *Chaos) squeeze(s *stream, d time.Duration) bool {
	x, where, ok := c.somewhere(s)
	bandwidth, queue := int64(1)<<(13+s.below(8)), int64(1)<<(11+s.below(8))
	if !ok {
		return false
	}
	x.change = func(l *Link) { l.Bandwidth, l.Queue = bandwidth, queue }
	x.waits = time.Duration(queue) * time.Second / time.Duration(bandwidth)
	x.fault = c.world.fault(lab, "%s: %d bytes per second, and a queue of %d", where, bandwidth, queue)
	return c.weather(d, x)
}

// tail makes a few frames very late.
func (c *Chaos) tail(s *stream, d time.Duration) bool {
	x, where, ok := c.somewhere(s)
	jitter := s.between(time.Millisecond, 20*time.Millisecond)
	if !ok {
		return false
	}
	x.change = func(l *Link) { l.Shape, l.Jitter = HeavyTail, l.Jitter+jitter }
	x.fault = c.world.fault(lab, "%s: %v later with a heavy tail", where, jitter)
	return c.weather(d, x)
}

func (c *Chaos) slow(s *stream, d time.Duration) bool {
	h := c.pick(s)
	h.Slow(1 << s.between(3, 9))
	c.later(d, func() { h.Slow(1) })
	return true
}

func (c *Chaos) lie(s *stream, _ time.Duration) bool {
	return c.between(s, func(at, victim string) { c.world.named(at).LieDead(victim) })
}

func (c *Chaos) hold(s *stream, d time.Duration) bool {
	a, b := c.two(s)
	if a == nil || c.world.Net.path(a, b).keeps {
		return false
	}
	c.world.Net.Hold(a.name, b.name)
	c.later(d, func() { c.world.Net.Release(a.name, b.name) })
	return true
}

func (c *Chaos) swizzle(s *stream, d time.Duration) bool {
	var some []string
	for _, i := range s.shuffle(len(c.hosts)) {
		if s.below(2) == 0 {
			some = append(some, c.hosts[i].name)
		}
	}
	if len(some) == 0 {
		return false
	}
	c.world.Net.swizzle(s, d, some, func() bool { return !c.over })
	return true
}

func (c *Chaos) lateNews(s *stream, d time.Duration) bool {
	h, late := c.pick(s), s.between(time.Second, 20*time.Second)
	h.DelayGossip(late)
	c.later(d, func() { h.RestoreGossip() })
	return true
}

func (c *Chaos) noNews(s *stream, d time.Duration) bool {
	h := c.pick(s)
	h.SilenceGossip()
	c.later(d, func() { h.RestoreGossip() })
	return true
}

// leave lets a host's nodes leave, and starts it again some time later. In half of the cases they wait
// for what is held there for 3 s at most; in the others, for as long as they do by themselves.
func (c *Chaos) leave(s *stream, d time.Duration) bool {
	h, wait := c.pick(s), s.between(0, 3*time.Second)
	if s.below(2) == 0 {
		wait = 0
	}
	if !c.mayCrash(h) || h.process.leaving {
		return false
	}
	c.world.leave(h, wait, func() {
		switch {
		case !c.over:
			c.later(d, func() { h.Restart() })
		case !c.opts.Unhealed:
			h.Restart() // HealAll was too early for it
		}
	})
	return true
}

// mostNewcomers is how many new hosts a storm may bring.
const mostNewcomers = 2

// join starts a host that was never there before. It stays.
func (c *Chaos) join(*stream, time.Duration) bool {
	if c.opts.Join == nil || c.joined == mostNewcomers {
		return false
	}
	c.joined++
	name := fmt.Sprintf("new%d", c.joined)
	c.world.change(timeline.Struck, lab, "%s is new", name)
	c.opts.Join(name)
	return true
}

// crashAgain ends a process, and the next one right after it has started: the storm's guard
// is asked about the first; the second, which has next to nothing to forget, needs MaySpare only.
func (c *Chaos) crashAgain(s *stream, d time.Duration) bool {
	h, between := c.pick(s), s.exponential(500*time.Millisecond)
	if !c.mayCrash(h) {
		return false
	}
	h.Crash()
	c.later(d, func() {
		h.Restart()
		p := h.process
		c.later(between, func() {
			if h.process != p || !h.MaySpare() {
				return
			}
			h.Crash()
			c.later(d, func() { h.Restart() })
		})
	})
	return true
}

// leader returns the host whose replica leads one of the shards, the rank-th of those that
// are led.
func (c *Chaos) leader(rank int64) *Host {
	var all []replica
	for r := range c.world.replicas() {
		if r.Serving && slices.Contains(c.hosts, r.host) {
			all = append(all, r)
		}
	}
	if len(all) == 0 {
		return nil
	}
	slices.SortStableFunc(all, func(a, b replica) int { return a.Shard - b.Shard })
	return all[rank%int64(len(all))].host
}

// mostRank is beyond any number of shards.
const mostRank = 1 << 30

func (c *Chaos) crashLeader(s *stream, d time.Duration) bool {
	return c.end(c.leader(s.below(mostRank)), d, (*Host).Crash)
}

// cutLeader isolates a leader, or lets it only speak, or only hear.
func (c *Chaos) cutLeader(s *stream, d time.Duration) bool {
	h, how := c.leader(s.below(mostRank)), s.below(3)
	if h == nil {
		return false
	}
	rest := c.others(h)
	var x *cut
	switch how {
	case 0:
		x = c.world.Net.partition([]string{h.name})
	case 1:
		x = c.world.Net.partitionOneWay([]string{h.name}, rest)
	default:
		x = c.world.Net.partitionOneWay(rest, []string{h.name})
	}
	return c.cut(x, d)
}

func (c *Chaos) pauseLeader(s *stream, d time.Duration) bool {
	return c.halt(c.leader(s.below(mostRank)), d)
}

func (c *Chaos) stall(s *stream, d time.Duration) bool {
	h, loop := c.pick(s), "shards"
	if s.below(3) == 0 {
		loop = "membership"
	}
	if h.process == nil {
		return false
	}
	return c.world.stallLoop(h, loop, d)
}

func (c *Chaos) clockWave(s *stream, _ time.Duration) bool {
	h, most := c.pick(s), c.world.opts.ClockRate
	ppm, period := s.below(most+1), s.between(time.Second, 30*time.Second)
	if most == 0 {
		return false
	}
	h.Clock.Wave(ppm, period)
	return true
}

func (c *Chaos) clockNoise(s *stream, _ time.Duration) bool {
	h, most := c.pick(s), c.world.opts.ClockRate
	ppm := s.below(most + 1)
	if most == 0 {
		return false
	}
	h.Clock.Noise(ppm)
	return true
}

// double is the name of what double does.
const double = "double"

// double begins up to three faults of different kinds in the same instant.
func (c *Chaos) double(s *stream, d time.Duration) bool {
	happened := false
	for _, i := range s.shuffle(len(c.kinds))[:3] {
		k := c.kinds[i]
		if k.name == double || k.long {
			continue
		}
		own := newStream(s.Uint64(), chaosStream, s.draws)
		if c.may(k) && k.begin(c, own, min(d, k.most)) {
			happened = true
		}
	}
	return happened
}

// checkFault tells what is wrong with the name of a fault: "crash/3".
func checkFault(name string) error {
	kind, number, _ := strings.Cut(name, "/")
	if n, err := strconv.ParseUint(number, 10, 32); err != nil || n == 0 {
		return fmt.Errorf("simulate: fault %q is not of the form kind/number", name)
	}
	if kinds := FaultKinds(); !slices.Contains(kinds, kind) {
		return fmt.Errorf("simulate: fault %q: the kinds of faults are %s", name, strings.Join(kinds, ", "))
	}
	return nil
}

// FaultKinds returns the kinds of faults that storms have: a fault is named after its
// kind.
func FaultKinds() (names []string) {
	for _, k := range faultKinds() {
		names = append(names, k.name)
	}
	return names
}
