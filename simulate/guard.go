package simulate

import (
	"iter"
	"slices"

	"github.com/lockmesh/mesh/internal/env"
	"github.com/lockmesh/mesh/transport"
)

// inspected is a node of a process, and its ID.
type inspected struct {
	id   transport.ID
	node env.Inspected
}

// living returns each node that runs, with its host.
func (w *World) living() iter.Seq2[*Host, inspected] {
	return func(yield func(*Host, inspected) bool) {
		for _, h := range w.Hosts() {
			if h.process == nil {
				continue
			}
			for _, n := range h.process.nodes {
				if !yield(h, n) {
					return
				}
			}
		}
	}
}

// node returns a node that runs; nil if it does not.
func (w *World) node(id transport.ID) env.Inspected {
	if p := w.nodes[id]; p != nil && !p.dead {
		return p.node(id)
	}
	return nil
}

// node returns a node of the process; nil if it has none of that ID.
func (p *process) node(id transport.ID) env.Inspected {
	for _, n := range p.nodes {
		if n.id == id {
			return n.node
		}
	}
	return nil
}

// replica is a replica on a node that runs.
type replica struct {
	env.Replica
	host *Host
	on   inspected
}

// replicas returns each replica of a node that runs.
func (w *World) replicas() iter.Seq[replica] {
	return func(yield func(replica) bool) {
		for h, n := range w.living() {
			for _, r := range n.node.Replicas() {
				if !yield(replica{r, h, n}) {
					return
				}
			}
		}
	}
}

// MaySpare reports whether the core, and every shard, keeps a majority of its real voters, with what
// they remember, if the process on the host ends now: in each half of the configuration,
// as each living replica knows it, and in the one that a change of voters under way leads to.
// Hosts that are about to leave count as gone: they leave in the end, whether or not they could hand over.
func (h *Host) MaySpare() bool {
	return h.world.suffice(func(o *Host) bool { return o != h }, false)
}

// suffice reports whether every shard keeps such majorities if all processes end except those on the hosts
// for which stays returns true. If settled is set, no change of voters may be in a log that has not been applied, and no shard may
// recover: the nodes on which it is to live on may be any. A majority must be left of the next voters on which the core has
// decided, too: their leader may begin that change with what it has heard already, and nobody can take it back (P30). Nor may
// one that stays call, or have accepted a roll call that may not be decided: a node that was asked may be waited for (C4).
func (w *World) suffice(stays func(*Host) bool, settled bool) bool {
	alive := make(map[transport.ID]bool)
	for h, n := range w.living() {
		if !h.process.leaving && stays(h) { // a leaver goes in the end, whatever it leaves behind
			alive[n.id] = true
		}
	}
	most := func(voters []transport.ID, are func(transport.ID) bool) bool {
		there := 0
		for _, id := range voters {
			if are(id) {
				there++
			}
		}
		return there > len(voters)/2
	}
	majority := func(voters []transport.ID) bool {
		return len(voters) == 0 || most(voters, func(id transport.ID) bool { return alive[id] })
	}
	type placed struct {
		node       transport.ID
		shard      int
		generation uint64
	}
	remain := make(map[placed]bool)
	for r := range w.replicas() {
		remain[placed{r.on.id, r.Shard, r.Generation}] = alive[r.on.id]
	}
	// lives reports whether the shard can live in that generation, though it may have no leader now.
	lives := func(shard int, g env.Generation) bool {
		with := func(id transport.ID) bool { return remain[placed{id, shard, g.Name}] }
		return most(g.Voters, with) || most(g.Next, with)
	}
	known, seated := false, false
	for _, n := range w.living() {
		if settled && alive[n.id] && n.node.Pending() {
			return false
		}
		seats := n.node.Seats()
		known = known || seats != nil
		if alive[n.id] && slices.Contains(seats, n.id) {
			seated = true
			if !majority(seats) {
				return false
			}
			for i, g := range n.node.Generations() {
				if settled && (!lives(i, g) || !majority(g.Next)) {
					return false
				}
			}
		}
		if slices.ContainsFunc(n.node.Replicas(), func(r env.Replica) bool {
			return r.Unsettled && settled || !majority(r.Voters) || !majority(r.Outgoing) || !majority(r.Coming)
		}) {
			return false
		}
	}
	return seated || !known
}
