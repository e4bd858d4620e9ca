package simulate

import (
	"context"
	"fmt"
	"time"

	"github.com/lockmesh/mesh/simulate/timeline"
	"github.com/lockmesh/mesh/transport"
)

// Leave lets the nodes of a host leave their meshes, as Node.Leave does, and then ends the
// host's process, as an orderly shutdown does. It returns at once; the host is down when
// [Host.Up] says so, and Restart starts it again.
//
//	w.Host("a").Leave()
//	err := w.RunUntil(func() bool { return !w.Host("a").Up() }, time.Minute)
func (h *Host) Leave() {
	h.exists()
	h.world.leave(h, 0, nil)
}

// leave calls left when the process is gone, unless it was gone already. The nodes wait so long
// for what is held there; zero: as long as they do by themselves.
func (w *World) leave(h *Host, wait time.Duration, left func()) {
	p := h.process
	if p == nil || p.leaving {
		return
	}
	p.leaving = true
	h.fault = w.change(timeline.Fault, h.name, "%s leaves", h.name)
	p.spawn("leave", func(ctx context.Context) {
		for _, n := range p.nodes {
			patience, cancel := ctx, func() {}
			if wait > 0 {
				patience, cancel = WithTimeout(ctx, wait)
			}
			if err := n.node.Leave(patience); err != nil {
				Logf(ctx, "leave: %v", err)
			}
			cancel()
		}
		p.kill()
		if left != nil {
			w.after(0, nil, left)
		}
		_ = Sleep(ctx, 0) // does not return
	})
}

// departure is a node's Leave.
type departure struct {
	process *process
	ctx     context.Context
	until   time.Duration // by the process's clock: when it has waited for long enough
}

// leaveWait is how long Leave waits for what is held, if its context has no deadline.
const leaveWait = 20 * time.Second

// waits reports whether Leave waits for what is held still.
func (l *departure) waits() bool { return l.ctx.Err() == nil && l.process.Now() < l.until }

// end is the same in true time, as far as it was known when Leave was called.
func (l *departure) end() time.Duration { return l.process.host.clock.truth(l.until - l.process.base) }

// Leaving implements env.Observer.
func (o *observer) Leaving(node transport.ID, ctx context.Context) {
	p := o.world.nodes[node]
	l := &departure{process: p, ctx: ctx, until: p.Now() + leaveWait}
	if t, ok := ctx.Deadline(); ok {
		l.until = p.Now() + t.Sub(p.Wall())
	}
	o.world.history.leaves[node] = l
}

// Left implements env.Observer: what is held still has ended for its holders (G9, P32). A node that
// leaves on a good day hands over all that it has, if there is anybody to take it.
func (o *observer) Left(node transport.ID, handed bool) {
	o.marks.left(node, handed)
	w := o.world
	for _, c := range w.history.calls {
		if x := c.held; c.node == node && x != nil && x.end == running && !c.process.dead {
			w.Fail(fmt.Errorf("G9 leave: %v is believed in, and its node has left", x))
		}
	}
	if handed {
		return
	}
	for h, n := range w.living() {
		if n.id != node && n.node.Ready() && !w.ailed {
			w.Fail(fmt.Errorf("G9 leave: nothing ailed the world, and the node on %s left without having handed its replicas over, though there is one on %s", w.hostOf(node), h.name))
		}
	}
	w.ailed = true
}

// Closed implements env.Observer. To the rest of its mesh that is a crash.
func (o *observer) Closed(node transport.ID) {
	o.world.ailed = true
	o.marks.closed[node] = true
}

// checkLeft (G9, P32): a hold whose node leaves, and has waited for it, ends at once.
func (x *HoldRecord) checkLeft(l *departure) {
	if l == nil || x.end != running || x.unlocking != running {
		return
	}
	p := x.call.process
	w, h, late := p.world, p.host, p.Now()-l.until
	if late > lossGrace && h.slow == 1 && w.now-h.resumed > lossGrace && w.now-p.hung > lossGrace {
		w.Fail(fmt.Errorf("G9 leave: %v ended %v after its node, which leaves, had waited for it", x, late))
	}
}
