package simulate

import (
	"flag"
	"time"
)

// Flags of the tests that draw worlds.
var (
	SeedFlag  = flag.Uint64("seed", 0, "the first seed of TestFreshSeeds; the only seed of the other tests")
	SeedsFlag = flag.Int("seeds", 20, "how many seeds TestFreshSeeds runs")
)

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

// NodeOf returns the ID of the node on a host.
func (w *World) NodeOf(host string) uint64 {
	nodes := w.named(host).process.nodes
	return uint64(nodes[len(nodes)-1].id)
}

// WallOf returns the true time at which a host's clocks show t.
func (w *World) WallOf(host string, t time.Time) time.Duration {
	p := w.named(host).process
	return p.host.clock.truth(p.Now() + t.Sub(p.Wall()) - p.base)
}
