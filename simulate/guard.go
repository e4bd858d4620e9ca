package simulate

import (
	"slices"

	"github.com/lockmesh/mesh/internal/seam"
	"github.com/lockmesh/mesh/transport"
)

// inspected is a node of a process, and its ID.
type inspected struct {
	id   transport.ID
	node seam.Inspected
}

// MaySpare reports whether every shard keeps a majority of its real voters, with what
// they remember, if the process on host ends now: in each half of the configuration,
// as each living replica knows it, and with no change of voters on its way.
func (w *World) MaySpare(host string) bool {
	h := w.byName[host]
	alive := make(map[transport.ID]bool)
	for _, o := range w.Hosts() {
		if o != h && o.process != nil {
			for _, n := range o.process.nodes {
				alive[n.id] = true
			}
		}
	}
	majority := func(voters []transport.ID) bool {
		there := 0
		for _, id := range voters {
			if alive[id] {
				there++
			}
		}
		return len(voters) == 0 || there > len(voters)/2
	}
	for _, o := range w.Hosts() {
		if o.process == nil {
			continue
		}
		for _, n := range o.process.nodes {
			if slices.ContainsFunc(n.node.Replicas(), func(r seam.Replica) bool {
				return r.Unsettled || !majority(r.Voters) || !majority(r.Outgoing)
			}) {
				return false
			}
		}
	}
	return true
}
