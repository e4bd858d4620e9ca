package simulate

import "github.com/lockmesh/mesh/internal/seam"

// Serving returns the hosts on which a replica of the shard leads and serves.
func (w *World) Serving(shard int) (hosts []string) {
	for _, h := range w.Hosts() {
		if h.process == nil {
			continue
		}
		for _, n := range h.process.nodes {
			for _, r := range n.node.Replicas() {
				if r.Shard == shard && r.Serving {
					hosts = append(hosts, h.name)
				}
			}
		}
	}
	return hosts
}

// Observe lets o hear what the tables of this world decide from now on, beside those who
// do already. The type is internal: this is for the project's own tools.
func (w *World) Observe(o seam.Decider) {
	w.history.watch.next = deciders{w.history.watch.next, o}
}

// deciders hear the same. The first may be nil.
type deciders [2]seam.Decider

// Decided implements seam.Decider.
func (all deciders) Decided(d seam.Decision) {
	for _, o := range all {
		if o != nil {
			o.Decided(d)
		}
	}
}
