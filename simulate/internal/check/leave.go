package check

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/lockmesh/mesh/transport"
)

// departure is a node's Leave.
type departure struct {
	process Process
	ctx     context.Context
	until   time.Duration // by the process's clock: when it has waited for long enough
}

// leaveWait is how long Leave waits for what is held, if its context has no deadline.
const leaveWait = 20 * time.Second

// waits reports whether Leave waits for what is held still.
func (l *departure) waits() bool { return l.ctx.Err() == nil && l.process.Now() < l.until }

// end is the same in true time, as far as it was known when Leave was called.
func (l *departure) end() time.Duration { return l.process.Truth(l.until) }

// Leaving implements env.Observer.
func (o *Observer) Leaving(node transport.ID, ctx context.Context) {
	p := o.world.Process(node)
	l := &departure{process: p, ctx: ctx, until: p.Now() + leaveWait}
	if t, ok := ctx.Deadline(); ok {
		l.until = p.Now() + t.Sub(p.Wall())
	}
	o.h.leaves[node] = l
}

// Left implements env.Observer: once a node has left, none of its callers believes in a hold any more (G9, P32). On a good day the
// node has also handed over all that it led, if two others have a seat as far as it knows: the list may have changed a
// moment ago.
func (o *Observer) Left(node transport.ID, handed bool) {
	w := o.world
	for _, c := range o.h.calls {
		if x := c.held; c.node == node && x != nil && x.end == running && !c.process.Dead() {
			w.Fail(fmt.Errorf("G9 leave: %v is believed in, and its node has left", x))
		}
	}
	var others []string // two can do without it
	seats := 0
	var known []transport.ID
	if n, runs := nodeOf(w, node); runs {
		known = n.Seats()
	}
	for p, n := range w.Living() {
		seats = max(seats, len(n.Seats()))
		if n.ID != node && n.Ready() && seated(n) && (known == nil || slices.Contains(known, n.ID)) {
			others = append(others, p.Host())
		}
	}
	if handed {
		if len(others) < seats-seats/2 { // those that are gone may have decided something alone: once all are back, every shard begins anew
			w.Ail()
		}
		return
	}
	if len(others) >= 2 && !w.Ailed() {
		w.Fail(fmt.Errorf("G9 leave: nothing ailed the world, and the node on %s left without having handed its replicas over, though there are some on %v", HostOf(w, node), others))
	}
	w.Ail()
}

// Closed implements env.Observer. To the rest of its mesh that is a crash.
func (o *Observer) Closed(transport.ID) {
	o.world.Ail()
}

// checkLeft (G9, P32): a hold whose node leaves, and has waited for it, ends at once.
func (x *Hold) checkLeft(l *departure) {
	if l == nil || x.end != running || x.unlocking != running {
		return
	}
	w, p := x.call.history.world, x.call.process
	late := p.Now() - l.until
	if late > lossGrace && p.Well(lossGrace) && w.Now()-p.Hung() > lossGrace {
		w.Fail(fmt.Errorf("G9 leave: %v ended %v after its node, which leaves, had waited for it", x, late))
	}
}
