package simulate

import "context"

// Leave lets the nodes of a host leave their meshes, as Node.Leave does, and then ends the
// host's process, as an orderly shutdown does. It returns at once; the host is down when
// [Host.Up] says so, and Restart starts it again.
//
//	w.Leave("a")
//	err := w.RunUntil(func() bool { return !w.Host("a").Up() }, time.Minute)
func (w *World) Leave(host string) { w.leave(w.named(host), nil) }

// leave calls left when the process is gone, unless it was gone already.
func (w *World) leave(h *Host, left func()) {
	p := h.process
	if p == nil || p.leaving {
		return
	}
	p.leaving = true
	h.fault = w.fault(h.name, "%s leaves", h.name)
	p.spawn("leave", func(ctx context.Context) {
		for _, n := range p.nodes {
			if err := n.node.Leave(ctx); err != nil {
				Logf(ctx, "leave: %v", err)
			}
		}
		p.kill()
		if left != nil {
			w.after(0, nil, left)
		}
		_ = Sleep(ctx, 0) // does not return
	})
}
