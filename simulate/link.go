package simulate

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// Link is what the way from one host to another is like. With Loss, Duplicate and
// Reorder all zero it is a TCP connection: while it lasts, frames of one class
// arrive once, in order, and those sent into a short cut arrive after it. With any
// of them it is harsher than any real one.
type Link struct {
	Latency time.Duration // the least, up to 1 h; zero means 200 µs
	Jitter  time.Duration // the mean of what comes on top, up to 1 h; a frame that is late by seconds breaks the connection
	Shape   Shape         // how Jitter is spread
	// Loss, Duplicate and Reorder say how many of a million frames are lost, come twice, or come late. A frame that is
	// reordered is late by 5 ms in the mean.
	Loss, Duplicate, Reorder int64
	// Bandwidth is in bytes per second; zero means no limit. What is sent faster queues
	// up, one frame behind the other, all connections in one queue; urgent frames pass
	// the others. A change of Bandwidth counts for frames that wait already, too.
	Bandwidth int64
	// Queue limits how many bytes may wait behind Bandwidth; zero means no limit but those of
	// the connections. A frame that is sent while so many wait is refused, as by the full queue of a real connection:
	// the sender is told. The frame's own size does not count: real queues have room for the largest frame.
	Queue int64
}

// Shape is how a link's jitter is spread. Its mean is Link.Jitter in each shape.
type Shape int64

// The shapes.
const (
	Exponential Shape = iota // mostly less than the mean, and now and then several times as much
	Fixed                    // always the mean
	Uniform                  // anything from nothing to twice the mean
	HeavyTail                // mostly a third to two thirds of the mean, and one in thousands hundreds of times as much
)

func (l Link) harsh() bool { return l.Loss > 0 || l.Duplicate > 0 || l.Reorder > 0 }

// healed returns the link without what is wrong with it, as broad as usual.
func (l Link) healed(usual Link) Link {
	l.Loss, l.Duplicate, l.Reorder = 0, 0, 0
	l.Bandwidth, l.Queue = usual.Bandwidth, usual.Queue
	return l
}

// check panics if a link makes no sense.
func (l Link) check() {
	for _, v := range []struct {
		name        string
		value, most int64
		duration    bool
	}{
		{name: "Latency", value: int64(l.Latency), most: int64(time.Hour), duration: true},
		{name: "Jitter", value: int64(l.Jitter), most: int64(time.Hour), duration: true},
		{name: "Shape", value: int64(l.Shape), most: int64(HeavyTail)},
		{name: "Loss", value: l.Loss, most: million},
		{name: "Duplicate", value: l.Duplicate, most: million},
		{name: "Reorder", value: l.Reorder, most: million},
		{name: "Bandwidth", value: l.Bandwidth, most: 1 << 33},
		{name: "Queue", value: l.Queue, most: 1 << 50},
	} {
		switch {
		case v.value >= 0 && v.value <= v.most:
		case v.duration:
			panic(fmt.Sprintf("simulate: Link.%s is %v, which is not in [0s, %v]", v.name, time.Duration(v.value), time.Duration(v.most)))
		default:
			panic(fmt.Sprintf("simulate: Link.%s is %d, which is not in [0, %d]", v.name, v.value, v.most))
		}
	}
}

// good reports whether a link is as on a good day: a mesh loses nothing over it.
func (l Link) good() bool {
	c := Calm.climate()
	return !l.harsh() && l.Latency <= c.latency.most && l.Jitter <= c.jitter.most && l.Shape != HeavyTail && l.Bandwidth == 0
}

// good reports whether a world begins as on a good day.
func (o Options) good() bool {
	return o.Link.good() && o.Gossip.Lost == 0 && o.Gossip.Lies == 0 && o.Gossip.Lateness <= Calm.climate().lateness.most &&
		o.ClockRate <= promisedRate
}

// promisedRate is up to which rate of clocks a mesh promises anything, in millionths (G8).
const promisedRate = 10_000

// check panics if news travels in a way that makes no sense.
func (g Gossip) check() {
	if g.Lateness < 0 || g.Lost < 0 || g.Lost > million || g.Lies < 0 || g.Lies > million {
		panic(fmt.Sprintf("simulate: Gossip %+v: a rate is not in [0, %d], or Lateness is negative", g, million))
	}
}

// check panics if there can be no such world.
func (o Options) check() {
	o.Link.check()
	o.Gossip.check()
	checkRate("Options.ClockRate", o.ClockRate, fastestClock)
	if o.ClockRate < 0 || o.ClockOffset < 0 {
		panic(fmt.Sprintf("simulate: Options: ClockRate %d or ClockOffset %v is negative", o.ClockRate, o.ClockOffset))
	}
	if err := o.Check(); err != nil {
		panic(err.Error())
	}
}

// Check returns an error if Profile, Set or Only, which come from the lines that repeat a run, name
// what does not exist. Which parameters the scenario picks is known only after the run.
func (o Options) Check() error {
	var errs []error
	if o.Profile != "" {
		_, err := ParseProfile(string(o.Profile))
		errs = append(errs, err)
	}
	for _, name := range slices.Sorted(maps.Keys(o.Set)) {
		if !plainName(strings.TrimSuffix(name, "*")) && name != "*" {
			errs = append(errs, fmt.Errorf("simulate: %q is not the name of a parameter", name))
		}
	}
	for _, name := range o.Only {
		errs = append(errs, checkFault(name))
	}
	return errors.Join(errs...)
}

// jitter draws what comes on top of the latency.
func (l *Link) jitter(s *stream) time.Duration {
	switch l.Shape {
	case Fixed:
		return l.Jitter
	case Uniform:
		if l.Jitter == 0 {
			return 0
		}
		return s.between(0, 2*l.Jitter)
	case HeavyTail:
		return s.heavyTail(l.Jitter)
	}
	return s.exponential(l.Jitter)
}

// SetLink changes what the links between two hosts are like, both ways.
//
//	w.Net.SetLink("a", "b", simulate.Link{Latency: 80 * time.Millisecond, Bandwidth: 1 << 20, Queue: 64 << 10})
func (n *Net) SetLink(a, b string, l Link) {
	n.SetLinkOneWay(a, b, l)
	n.SetLinkOneWay(b, a, l)
}

// SetLinkOneWay changes what the way from one host to another is like. The way back
// stays as it is.
//
//	n.SetLinkOneWay("a", "b", simulate.Link{Loss: 500_000}) // what a sends to b: half of it
func (n *Net) SetLinkOneWay(from, to string, l Link) {
	l.check()
	n.world.ailed = n.world.ailed || !l.good()
	n.path(n.world.named(from), n.world.named(to)).base = &l
	n.forecast()
}

// SetLinks changes what all links are like.
//
//	w.Net.SetLinks(simulate.Link{Latency: 40 * time.Millisecond, Jitter: 10 * time.Millisecond})
func (n *Net) SetLinks(l Link) {
	l.check()
	n.world.ailed = n.world.ailed || !l.good()
	n.link = &l
	for _, p := range n.all() {
		p.base = n.link
	}
	n.forecast()
}

// weather is what a fault makes of some links, on top of what they are like.
type weather struct {
	from, to *Host // nil: any
	change   func(*Link)
	waits    time.Duration // in a full queue; zero: the queue stays as it is
	over     bool
	fault    int
}

// blow begins a weather.
func (n *Net) blow(x *weather) {
	n.weathers = append(n.weathers, x)
	n.forecast()
}

// calm ends it.
func (n *Net) calm(x *weather) {
	if x.over {
		return
	}
	x.over = true
	n.world.ended(x.fault, lab, "links: as before")
	n.weathers = slices.DeleteFunc(n.weathers, func(y *weather) bool { return y == x })
	n.forecast()
}

// forecast finds out what each link is like now, and lets what waits go on at the new pace.
func (n *Net) forecast() {
	changed := false
	for _, p := range n.all() {
		was := p.link.Bandwidth
		p.link = n.current(p)
		p.was = 0
		if p.busy > n.world.now && was > 0 && p.link.Bandwidth != was {
			p.was, changed = was, true
		}
	}
	if changed {
		n.hurry()
	}
}

// current returns what a path's link is like in the weather of the moment.
func (n *Net) current(p *path) *Link {
	l := *p.base
	changed := false
	for _, x := range n.weathers {
		if !p.sheltered && (x.from == nil || x.from == p.from) && (x.to == nil || x.to == p.to) {
			x.change(&l)
			changed = true
		}
	}
	if !changed {
		return p.base
	}
	return &l
}

// expose lets the weather reach all links again.
func (n *Net) expose() {
	for _, p := range n.all() {
		p.sheltered = false
	}
	n.forecast()
}
