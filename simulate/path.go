package simulate

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/lockmesh/mesh/transport"
)

// path is the way from one host to another, in that direction.
type path struct {
	from, to *Host

	base      *Link         // what it is like
	link      *Link         // what it is like in the weather of the moment
	cuts      int           // faults that cut it
	busy      time.Duration // until then what was sent occupies its bandwidth
	urgent    time.Duration // until then what was sent of urgent frames alone does
	was       int64         // the bandwidth before it changed: see hurry
	keeps     bool          // Hold
	sheltered bool          // HealCore: no weather reaches it
	fault     int           // the moment at which Hold began
}

// grow makes room for all hosts.
func (n *Net) grow() {
	for range n.world.hosts[len(n.paths):] {
		n.paths = append(n.paths, nil)
	}
	for i, from := range n.world.hosts {
		for _, to := range n.world.hosts[len(n.paths[i]):] {
			n.paths[i] = append(n.paths[i], &path{from: from, to: to, base: n.link, link: n.link})
		}
	}
	if len(n.weathers) > 0 {
		n.forecast()
	}
}

// path returns the way from one host to another.
func (n *Net) path(from, to *Host) *path { return n.paths[from.index][to.index] }

// all returns all paths.
func (n *Net) all() []*path { return slices.Concat(n.paths...) }

// open reports whether anything gets from one host to another.
func (n *Net) open(from, to *Host) bool {
	return from == to && !from.dark || n.path(from, to).cuts == 0 && !from.dark && !to.dark
}

// latency draws how long what opens or ends a connection takes, if it is sent now.
func (n *Net) latency(from, to *Host) time.Duration {
	d, _ := n.delay(from, to)
	return d
}

// delay draws the same, and by how much of it that is later than usual on this link.
func (n *Net) delay(from, to *Host) (d, late time.Duration) {
	wait, d, late := n.transit(from, to, 0, transport.Urgent)
	return wait + d, late
}

// transit draws how long size bytes wait for bandwidth that are sent now, how long they take
// then, and by how much of it they are later than usual on this link. Urgent ones pass all
// others that wait for bandwidth, as they do in the queue of a real connection.
func (n *Net) transit(from, to *Host, size int, class transport.Class) (wait, d, late time.Duration) {
	p := n.path(from, to)
	l := p.link
	d = l.Latency
	if d == 0 {
		d = 200 * time.Microsecond
	}
	if from == to {
		return 0, 20*time.Microsecond + l.jitter(n.delays), 0
	}
	jitter := l.jitter(n.delays)
	d, late = d+jitter, jitter-l.Jitter
	if l.Bandwidth > 0 {
		takes := time.Duration(int64(size+frameOverhead) * int64(time.Second) / l.Bandwidth)
		p.busy = max(p.busy, n.world.now) + takes
		if class != transport.Urgent {
			return p.busy - n.world.now, d, late
		}
		p.urgent = max(p.urgent, n.world.now) + takes
		wait = p.urgent - n.world.now
	}
	return wait, d, late
}

// frameOverhead is what a frame's headers take on a link, more or less.
const frameOverhead = 50

// full reports whether so much waits in the link's queue that it takes nothing more.
func (p *path) full(now time.Duration) bool {
	l := p.link
	if l.Bandwidth == 0 || l.Queue == 0 || p.busy <= now {
		return false
	}
	return int64(scale(p.busy-now, l.Bandwidth, int64(time.Second))) >= l.Queue
}

// anew returns when what waited for bandwidth until the given time has got it, now that the
// link is as broad as it is.
func (p *path) anew(now, at time.Duration) time.Duration {
	switch {
	case at <= now:
		return at
	case p.link.Bandwidth == 0:
		return now
	}
	return now + scale(at-now, p.was, p.link.Bandwidth)
}

// hurry lets what waits for bandwidth go on at the pace of links that have become broader or
// narrower, in the same order. What else makes a frame late stays as it is.
func (n *Net) hurry() {
	now := n.world.now
	var moved []*frame
	for _, f := range n.flying() {
		if p := n.path(f.from(), f.to()); f.ev.slot >= 0 && p.was > 0 {
			moved = append(moved, f)
			f.out = p.anew(now, f.out)
			if !f.free {
				f.conn.last[f.side][f.Class] = now
			}
		}
	}
	n.world.moving = true
	for _, f := range moved {
		at := max(f.out+f.rest, f.conn.since[1-f.side]+1)
		if last := &f.conn.last[f.side][f.Class]; !f.free {
			at = max(at, *last+1)
			*last = at
		}
		n.world.schedule(&f.ev, at)
	}
	for _, c := range n.conns {
		for side, bye := range c.bye {
			p := n.path(c.host(1-side), c.host(side))
			if bye != nil && bye.slot >= 0 && p.was > 0 {
				last := c.last[1-side]
				n.world.schedule(bye, max(min(bye.at, p.anew(now, bye.at)), now+p.link.Latency, last[0]+1, last[1]+1, c.since[side]+1))
			}
		}
	}
	n.world.moving = false
	for _, p := range n.all() {
		if p.was > 0 {
			p.busy, p.urgent, p.was = p.anew(now, p.busy), p.anew(now, p.urgent), 0
		}
	}
}

// cut is one fault's set of severed directions.
type cut struct {
	paths []*path
	over  bool
	fault int // the moment at which it began
}

// sever cuts the directions given.
func (n *Net) sever(paths []*path, fault int) *cut {
	c := &cut{paths: paths, fault: fault}
	for _, p := range paths {
		p.cuts++
	}
	n.cuts = append(n.cuts, c)
	n.refresh()
	return c
}

// mend ends one cut.
func (n *Net) mend(c *cut) {
	if c.over {
		return
	}
	c.over = true
	n.world.ended(c.fault, lab, "the partition ends")
	for _, p := range c.paths {
		p.cuts--
	}
	n.cuts = slices.DeleteFunc(n.cuts, func(d *cut) bool { return d == c })
	n.refresh()
}

// Partition splits the hosts into groups that hear nothing of each other. Hosts
// that no group names are one more group. Hosts that are made later are in no group, and
// reach all others. A partition comes on top of other cuts; Heal ends them all. Partition panics if a host is in two groups.
//
//	w.Net.Partition([]string{"a"}, []string{"b", "c"})
func (n *Net) Partition(groups ...[]string) { n.partition(groups...) }

func (n *Net) partition(groups ...[]string) *cut {
	group := make([]int, len(n.world.hosts))
	var names []string
	for i, g := range groups {
		for _, name := range g {
			h := n.world.named(name)
			if group[h.index] != 0 {
				panic(fmt.Sprintf("simulate: Partition: host %q is in two groups", name))
			}
			group[h.index] = i + 1
		}
		names = append(names, strings.Join(g, " "))
	}
	fault := n.world.fault(lab, "partition %s", strings.Join(names, " | "))
	var severed []*path
	for _, p := range n.all() {
		if p.from.index > 0 && p.to.index > 0 && group[p.from.index] != group[p.to.index] {
			severed = append(severed, p)
		}
	}
	return n.sever(severed, fault)
}

// PartitionOneWay lets nothing through from the hosts of one list to those of the
// other, while the way back stays as it is.
//
//	w.Net.PartitionOneWay([]string{"a"}, []string{"b", "c"}) // a hears, and is not heard
func (n *Net) PartitionOneWay(from, to []string) { n.partitionOneWay(from, to) }

func (n *Net) partitionOneWay(from, to []string) *cut {
	for _, name := range slices.Concat(from, to) {
		n.world.named(name)
	}
	var severed []*path
	for _, a := range from {
		for _, b := range to {
			if a != b {
				severed = append(severed, n.path(n.world.named(a), n.world.named(b)))
			}
		}
	}
	return n.sever(severed, n.world.fault(lab, "partition one way: %s -> %s", strings.Join(from, " "), strings.Join(to, " ")))
}

// Isolate cuts a host off from all others.
//
//	w.Net.Isolate("a")
func (n *Net) Isolate(host string) { n.partition([]string{host}) }

// Swizzle cuts the hosts off, one after another in the first half of d, and lets them
// in again in the second half, in another order: what each of them missed differs. The seed draws both
// orders. Swizzle panics if d is not positive or no host is named.
//
//	w.Net.Swizzle(10*time.Second, "a", "b", "c")
func (n *Net) Swizzle(d time.Duration, hosts ...string) {
	if d <= 0 || len(hosts) == 0 {
		panic(fmt.Sprintf("simulate: Swizzle: %d hosts for %v: want at least one host, and more than 0s", len(hosts), d))
	}
	n.swizzle(n.dials, d, hosts, func() bool { return true })
}

// swizzle goes on while may says so.
func (n *Net) swizzle(s *stream, d time.Duration, hosts []string, may func() bool) {
	for _, name := range hosts {
		n.world.named(name)
	}
	cuts := make([]*cut, len(hosts))
	piece := d / time.Duration(2*len(hosts))
	for i, j := range s.shuffle(len(hosts)) {
		n.world.after(piece*time.Duration(i), nil, func() {
			if may() {
				cuts[j] = n.partition([]string{hosts[j]})
			}
		})
	}
	for i, j := range s.shuffle(len(hosts)) {
		n.world.after(d/2+piece*time.Duration(i+1), nil, func() {
			if may() && cuts[j] != nil {
				n.mend(cuts[j])
			}
		})
	}
}

// Heal ends all cuts, and nothing else: see HealAll.
//
//	w.Net.Isolate("a")
//	w.At(w.Now()+10*time.Second, w.Net.Heal)
func (n *Net) Heal() {
	for len(n.cuts) > 0 {
		n.mend(n.cuts[0])
	}
}

// Reaches reports whether no cut is on the way from one host to another, and neither has
// lost its power. It does not ask whether a process runs there, or whether frames are held.
func (n *Net) Reaches(from, to string) bool { return n.open(n.world.named(from), n.world.named(to)) }
