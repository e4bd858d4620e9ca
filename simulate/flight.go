package simulate

import (
	"cmp"
	"slices"
	"time"

	"github.com/lockmesh/mesh/simulate/timeline"
)

// Flight is a frame on its way.
type Flight struct {
	Frame
	// Arrives is the true time at which it is to arrive; zero for a frame that Hold, a
	// rule's Keep or a cut keeps back for now, and for one that waits at a paused host.
	Arrives time.Duration
	// Kept is true for a frame that waits for Release.
	Kept bool
}

// Hold keeps every frame that one host sends to another from now on, and those on their
// way, until Release. The connection stays up: the hosts notice only that the frames are
// missing. To keep only some frames back, see [Net.Rule] and [Keep].
//
//	w.Net.Hold("a", "b")
//	w.At(w.Now()+time.Minute, func() { w.Net.Release("a", "b") }) // a minute late, in order
func (n *Net) Hold(from, to string) {
	w := n.world
	a, b := w.named(from), w.named(to)
	p := n.path(a, b)
	if p.keeps {
		return
	}
	p.keeps = true
	p.fault = w.fault(lab, "hold what %s sends to %s", from, to)
	for _, f := range n.flying() {
		if f.ev.slot >= 0 && f.from() == a && f.to() == b {
			w.cancel(&f.ev)
			n.keep(f)
		}
	}
}

// Release ends Hold, and lets go what was kept on the way from one host to the other, by
// Hold or by a rule's Keep: frames of one class and connection arrive in the order in which they
// were sent, after those that are on their way.
//
//	w.Net.Hold("a", "b")
//	w.At(w.Now()+time.Second, func() { w.Net.Release("a", "b") })
func (n *Net) Release(from, to string) {
	a, b := n.world.named(from), n.world.named(to)
	n.path(a, b).unhold()
	n.release(func(f *frame) bool { return f.from() == a && f.to() == b })
}

// ReleaseAll is Release for every pair of hosts.
//
//	stop := w.Net.Rule(func(simulate.Frame) simulate.Verdict { return simulate.Keep })
//	w.At(w.Now()+time.Second, func() { stop(); w.Net.ReleaseAll() })
func (n *Net) ReleaseAll() {
	for _, p := range n.all() {
		p.unhold()
	}
	n.release(func(*frame) bool { return true })
}

// unhold ends Hold, if it has begun.
func (p *path) unhold() {
	if p.keeps {
		p.keeps = false
		p.from.world.ended(p.fault, lab, "release what %s sends to %s", p.from.name, p.to.name)
	}
}

// InFlight returns the frames on their way, in the order in which they are to arrive, and
// then those that are kept back, in the order in which they were sent.
//
//	for _, f := range w.Net.InFlight() {
//		fmt.Println(f.From, f.To, f.Messages(), f.Kept)
//	}
func (n *Net) InFlight() []Flight {
	var all []Flight
	for _, f := range n.flying() {
		x := Flight{Frame: f.Frame, Kept: f.kept}
		if f.ev.slot >= 0 {
			x.Arrives = f.ev.at
		}
		all = append(all, x)
	}
	return all
}

func bySending(a, b *frame) int { return cmp.Compare(a.number, b.number) }

func (f Frame) from() *Host { return f.conn.host(f.side) }
func (f Frame) to() *Host   { return f.conn.host(1 - f.side) }

// flying returns all frames that have not arrived, in the order of InFlight.
func (n *Net) flying() []*frame {
	var moving, waiting []*frame
	for _, e := range n.world.queue.heap {
		if e.ev.kind == frameEvent {
			moving = append(moving, e.ev.frame)
		}
	}
	slices.SortFunc(moving, func(a, b *frame) int {
		return cmp.Or(cmp.Compare(a.ev.at, b.ev.at), cmp.Compare(a.ev.seq, b.ev.seq))
	})
	for _, h := range n.world.Hosts() {
		for _, ev := range h.deferred {
			if ev.kind == frameEvent && ev.slot == deferred {
				waiting = append(waiting, ev.frame)
			}
		}
	}
	for _, c := range n.conns {
		waiting = append(append(waiting, c.held[0]...), c.held[1]...)
	}
	waiting = append(waiting, n.kept...)
	slices.SortStableFunc(waiting, bySending)
	return append(moving, waiting...)
}

// keep puts a frame by until Release. Its connection keeps it on its books.
func (n *Net) keep(f *frame) {
	f.kept = true
	n.kept = append(n.kept, f)
}

// release lets the kept frames go that which names, in the order in which they were sent.
func (n *Net) release(which func(*frame) bool) {
	kept := n.kept
	n.kept = nil
	var free []*frame
	for _, f := range kept {
		if which(f) {
			free = append(free, f)
		} else {
			n.kept = append(n.kept, f)
		}
	}
	slices.SortStableFunc(free, bySending)
	for _, f := range free {
		f.kept = false
		if !f.conn.open[1-f.side] || f.ev.owner.dead {
			n.world.recordFrame(timeline.Lost, f.Frame, f.sent, "closed")
			n.free(f)
			continue
		}
		n.fly(f, 0, false)
	}
}
