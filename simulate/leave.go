package simulate

import (
	"context"
	"time"

	"github.com/lockmesh/mesh/simulate/timeline"
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
