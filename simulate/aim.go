package simulate

import (
	"regexp"
	"slices"
	"time"

	"github.com/lockmesh/mesh/transport"
)

// aim is a fault that waits for its moment: for a message on which much hangs, and strikes right after
// that was sent; or for a rare situation, and strikes right after that came about. All that it draws is
// drawn when it begins to wait.
type aim struct {
	storm  *Chaos
	fault  int // its place in storm.faults
	target target
	blow   blow
	skip   int64         // so many of the messages pass before
	late   time.Duration // how long after the message it strikes
	length time.Duration

	other int64 // a rare situation has no receiver: this draws the host that takes its part

	striking bool // late has begun
	from, to *Host
	rare     mark // the situation
	losing   bool // the message was sent, and the answer to it is to be lost
}

// target is what an aim waits for.
type target struct {
	name     string
	what     *regexp.Regexp // by the name of a message; nil: it waits for none
	answer   *regexp.Regexp // to it; nil: it is an answer itself
	mostSkip int64
	mark     mark
}

var targets = [...]target{
	{"a renewal", begins(`renewal$`), begins(`renewal answered`), 8, struckRenewal},
	{"a Fix", begins(`fix `), begins(`granted|queued|refused|done`), 3, struckFix},
	{"a grant", begins(`granted`), nil, 12, struckGrant},
	{"a change of replicas", begins(`append \d+ with a change`), begins(`appended`), 3, struckChange},
	{"the beginning of a snapshot", begins(`snapshot chunk 0`), begins(`chunk received`), 1, struckSnapshot},
	{"a word of handing over", begins(handsOver), begins(handsOver), 2, struckHandover},
	{"a fence", begins(`core: fence$`), begins(`core: fenced`), 1, struckFence},
	{"a version of the core's table", begins(`core: write$`), begins(`core: written`), 6, struckVersion},
	{"a roll call's proposal", begins(`core: propose$`), begins(`core: proposed`), 2, struckProposal},
	{"a rare situation", nil, nil, 40, struckRare},
}

const handsOver = `will you lead|I will lead|campaign`

// begins matches the beginnings of messages' names, passed on or not.
func begins(pattern string) *regexp.Regexp {
	return regexp.MustCompile("^(" + passedOn + ")?(" + pattern + ")")
}

// rarely is how often a situation counts as rare in a world: only its first times do.
const rarely = 2

// blow is what an aim does. It returns false if that cannot be now.
type blow struct {
	name   string
	strike func(c *Chaos, from, to *Host, d time.Duration) bool
}

// blows are drawn by their place. The last one is done by aim.see.
var blows = [...]blow{
	{"the sender crashes", func(c *Chaos, from, _ *Host, d time.Duration) bool { return c.end(from, d, (*Host).Crash) }},
	{"the receiver crashes", func(c *Chaos, _, to *Host, d time.Duration) bool { return c.end(to, d, (*Host).Crash) }},
	{"the sender loses power", func(c *Chaos, from, _ *Host, d time.Duration) bool { return c.end(from, d, (*Host).PowerOff) }},
	{"the sender stops", func(c *Chaos, from, _ *Host, d time.Duration) bool { return c.halt(from, d) }},
	{"the receiver stops", func(c *Chaos, _, to *Host, d time.Duration) bool { return c.halt(to, d) }},
	{"they are cut off from each other", func(c *Chaos, from, to *Host, d time.Duration) bool {
		c.cut(c.world.Net.partitionOneWay([]string{to.name}, []string{from.name}), d)
		return c.cut(c.world.Net.partitionOneWay([]string{from.name}, []string{to.name}), d)
	}},
	{"the way there is cut", func(c *Chaos, from, to *Host, d time.Duration) bool {
		return c.cut(c.world.Net.partitionOneWay([]string{from.name}, []string{to.name}), d)
	}},
	{"the way back is cut", func(c *Chaos, from, to *Host, d time.Duration) bool {
		return c.cut(c.world.Net.partitionOneWay([]string{to.name}, []string{from.name}), d)
	}},
	{"the sender is cut off", func(c *Chaos, from, _ *Host, d time.Duration) bool {
		return c.cut(c.world.Net.partition([]string{from.name}), d)
	}},
	{"the receiver is cut off", func(c *Chaos, _, to *Host, d time.Duration) bool {
		return c.cut(c.world.Net.partition([]string{to.name}), d)
	}},
	{"the answer is lost", nil},
}

// aimed lets an aim wait. Whether it ever happens is known when its message was sent.
func (c *Chaos) aimed(s *stream, d time.Duration) bool {
	a := &aim{
		storm: c, fault: len(c.faults), target: targets[s.below(int64(len(targets)))], blow: blows[s.below(int64(len(blows)))],
		length: d,
	}
	a.skip, a.other = s.below(a.target.mostSkip+1), s.below(mostRank)
	if a.target.what == nil && a.blow.strike == nil {
		a.blow = blows[0] // no message, no answer
	}
	// At once, so that the message is still on its way; or about when it arrives, or its answer does.
	if s.below(2) == 0 {
		l := c.world.opts.Link
		a.late = s.between(0, 3*max(l.Latency+l.Jitter, 200*time.Microsecond))
	}
	c.world.Net.aims = append(c.world.Net.aims, a)
	return false
}

// see shows the aims a frame that is sent, and returns what becomes of it: Pass, or Drop.
func (n *Net) see(f Frame) Verdict {
	from, to := f.from(), f.to()
	if f.Kind == transport.KindGossip || from == to {
		return Pass
	}
	var names []string
	for i, a := range n.aims {
		if a.target.what == nil || a.striking || a.losing && (a.from != to || a.to != from) || !slices.Contains(a.storm.hosts, from) || !slices.Contains(a.storm.hosts, to) {
			continue
		}
		if names == nil {
			names = f.named(unasked)
		}
		if a.losing {
			if slices.ContainsFunc(names, a.target.answer.MatchString) {
				n.aims = slices.Delete(n.aims, i, i+1)
				a.lose(from, to)
				return Drop
			}
			continue
		}
		if !slices.ContainsFunc(names, a.target.what.MatchString) {
			continue
		}
		if a.skip--; a.skip >= 0 {
			continue
		}
		a.from, a.to = from, to
		switch {
		case a.blow.strike != nil:
			a.striking = true
			n.world.after(a.late, nil, a.strike)
		case a.target.answer == nil:
			n.aims = slices.Delete(n.aims, i, i+1)
			a.lose(from, to)
			return Drop
		default:
			a.losing = true
		}
		return Pass // the others wait for the next one
	}
	return Pass
}

// meet shows the aims a situation that has come about on a host.
func (n *Net) meet(h *Host, m mark) {
	for _, a := range n.aims {
		if a.target.what != nil || a.striking || len(a.storm.hosts) < 2 || !slices.Contains(a.storm.hosts, h) {
			continue
		}
		if a.skip--; a.skip >= 0 {
			continue
		}
		others := a.storm.others(h)
		a.striking, a.from, a.to, a.rare = true, h, n.world.named(others[a.other%int64(len(others))]), m
		n.world.after(a.late, nil, a.strike)
		return
	}
}

// strike does what the aim is for, or lets it wait for another chance.
func (a *aim) strike() {
	n := a.storm.world.Net
	if a.storm.over {
		return
	}
	if !a.blow.strike(a.storm, a.from, a.to, a.length) {
		a.striking = false
		return
	}
	n.aims = slices.DeleteFunc(n.aims, func(b *aim) bool { return a == b })
	a.happened()
}

// lose loses the frame that is being sent: as frames get lost where links are bad, and
// elsewhere with its connection.
func (a *aim) lose(from, to *Host) {
	a.happened()
	w := a.storm.world
	if !w.Net.path(from, to).link.harsh() {
		w.after(0, nil, func() { w.Net.Reset(from.name, to.name) })
	}
}

func (a *aim) happened() {
	c := a.storm
	f := &c.faults[a.fault]
	f.Happened = true
	if c.waiting != nil {
		c.last = max(c.last, c.world.now+a.length)
	}
	c.world.came(a.target.mark)
	if a.target.what == nil {
		c.world.struck(lab, "%s: on %s, %v, and %s; the receiver is %s", f.Name, a.from.name, a.rare, a.blow.name, a.to.name)
	} else {
		c.world.struck(lab, "%s: after %s from %s to %s, %s", f.Name, a.target.name, a.from.name, a.to.name, a.blow.name)
	}
}

// outlast cuts hosts off for longer than anything that is timed takes: leases, elections, the
// patience with silent replicas, and gossip's memory of the dead. The storm goes on until it ends.
func (c *Chaos) outlast(s *stream, d time.Duration) bool {
	how, h, leader := s.below(5), c.pick(s), c.leader(s.below(mostRank))
	a, b := c.two(s)
	some := s.shuffle(len(c.hosts))[:(len(c.hosts)+1)/2]
	if len(c.hosts) < 2 || c.last > c.until || c.waiting == nil && c.world.now > c.until {
		return false
	}
	var x *cut
	switch {
	case how == 0 && leader != nil:
		x = c.world.Net.partition([]string{leader.name})
	case how <= 1:
		x = c.world.Net.partition([]string{h.name})
	case how == 2:
		x = c.world.Net.partitionOneWay([]string{h.name}, c.others(h))
	case how == 3:
		x = c.world.Net.partitionOneWay([]string{a.name}, []string{b.name})
	default:
		var names []string
		for _, i := range some {
			names = append(names, c.hosts[i].name)
		}
		x = c.world.Net.partition(names)
	}
	c.last = c.world.now + d
	c.later(d, func() { c.world.came(outlasted) })
	return c.cut(x, d)
}

// timers is longer than everything together that is timed in a mesh and does not depend on its
// leases: gossip finds the dead in three seconds and forgets them after 30; replicas are replaced
// 6 s later; two elections in a row take some seconds.
const timers = 45 * time.Second

// pauseAll stops all hosts at once. They go on one by one.
func (c *Chaos) pauseAll(s *stream, d time.Duration) bool {
	happened := false
	for _, h := range c.hosts {
		happened = c.halt(h, d+s.between(0, 200*time.Millisecond)) || happened
	}
	if happened {
		c.world.came(allPaused)
	}
	return happened
}

// isolateAll cuts all hosts off from all.
func (c *Chaos) isolateAll(_ *stream, d time.Duration) bool {
	var alone [][]string
	for _, h := range c.hosts {
		alone = append(alone, []string{h.name})
	}
	c.world.came(allIsolated)
	return c.cut(c.world.Net.partition(alone...), d)
}

// crashAll ends all processes at once, with all that the mesh remembers, and starts them again one
// by one. What the core founds then is another mesh.
func (c *Chaos) crashAll(s *stream, d time.Duration) bool {
	w := c.world
	const apart = 200 * time.Millisecond
	late := make([]time.Duration, len(c.hosts))
	for i := range late {
		late[i] = s.between(0, apart)
	}
	if c.opts.MayCrashAll == nil || w.backwards || !c.opts.MayCrashAll(d+apart) {
		return false
	}
	w.fresh = true
	for _, h := range w.Hosts() {
		h.Crash()
	}
	for i, h := range w.Hosts() {
		c.later(d+late[i%len(late)], func() { h.Restart() })
	}
	w.came(allCrashed)
	return true
}
