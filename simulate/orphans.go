package simulate

import (
	"fmt"
	"time"

	"github.com/lockmesh/mesh/internal/env"
	"github.com/lockmesh/mesh/transport"
)

// orphanLook is how often quiet looks for orphans.
const orphanLook = 250 * time.Millisecond

// Orphans returns a description of everything in the shards' tables that no living
// client believes in: holds, waiters, and the records of sessions, those of the dead
// above all. And of each client that waits, or holds, without a place in a table. While
// messages are under way and leases run there may be some.
func (h *History) Orphans() []string {
	w := h.world
	claimed := make(map[claimName]int) // what clients believe, less what tables say
	busy := make(map[*process]bool)
	for _, c := range h.calls {
		p := c.process
		switch {
		case p.dead:
		case c.ended == running:
			claimed[claimName{p, c.want.Key, 0}]++
			busy[p] = true
		case c.held != nil && c.held.believed():
			claimed[claimName{p, c.want.Key, c.held.token}]++
			busy[p] = true
		case c.held != nil && c.held.unlocking != running && c.held.unlocked == running:
			busy[p] = true
		}
	}
	var orphans []string
	for _, t := range w.serving() {
		for _, s := range t.Sessions() {
			p := w.nodes[s.Owner]
			alive := p != nil && !p.dead && p.member(s.Owner)
			if !alive || len(s.Requests) == 0 && !busy[p] {
				orphans = append(orphans, fmt.Sprintf("shard %d keeps the session %d of the node on %s, which knows nothing of it", t.Shard, s.Number, w.hostOf(s.Owner)))
			}
			for _, r := range s.Requests {
				name := claimName{p, r.Key, r.Token}
				switch {
				case alive && claimed[name] > 0:
					claimed[name]--
				case r.Token == 0:
					orphans = append(orphans, fmt.Sprintf("%q is waited for on %s by nobody", r.Key, w.hostOf(s.Owner)))
				default:
					orphans = append(orphans, fmt.Sprintf("%q is held on %s with token %d by nobody", r.Key, w.hostOf(s.Owner), r.Token))
				}
			}
		}
	}
	for _, c := range h.calls {
		name := claimName{c.process, c.want.Key, 0}
		if c.held != nil {
			name.token = c.held.token
		}
		if claimed[name] > 0 && (c.ended == running || c.held != nil && c.held.believed()) {
			claimed[name]--
			what := "holds"
			if c.held == nil {
				what = "waits for"
			}
			orphans = append(orphans, fmt.Sprintf("%s %s %v, and no table knows of it", c.who, what, c.want))
		}
	}
	return orphans
}

// claimName is what a client believes, or a table says: a process holds a key with that
// token, or waits for it.
type claimName struct {
	process *process
	key     string
	token   uint64
}

// member reports whether the node is one of a mesh.
func (p *process) member(id transport.ID) bool {
	for _, n := range p.nodes {
		if n.id == id {
			return n.node.Mesh() != 0
		}
	}
	return false
}

// serving returns the tables of the replicas that serve.
func (w *World) serving() (all []env.Table) {
	for _, n := range w.living() {
		for _, t := range n.node.Tables() {
			if t.Serving {
				all = append(all, t)
			}
		}
	}
	return all
}

// Quiet lets time pass until the tables and the clients agree, and fails if they do not
// within d: somebody's lock, or place in a queue, was forgotten (G4). Clients should do
// nothing new meanwhile.
func (h *History) Quiet(d time.Duration) error {
	w := h.world
	for end := w.now + d; ; {
		orphans := h.Orphans()
		switch {
		case len(orphans) == 0 && w.failure == nil:
			if parked := w.parked(); len(h.open()) == 0 && len(parked) > 0 {
				w.Fail(fmt.Errorf("G4 orphans: no call is under way, and these wait for an answer: %q", parked))
			}
			return w.failure
		case w.failure != nil:
			return w.failure
		case w.now >= end:
			w.Fail(fmt.Errorf("G4 orphans: %v after everything came to rest, %d are left: %q", d, len(orphans), orphans))
			return w.failure
		}
		if err := w.Run(orphanLook); err != nil {
			return err
		}
	}
}

// parked returns the actors that wait for an answer of a node. When no call is under
// way there should be none: nobody would ever wake them.
func (w *World) parked() (names []string) {
	for _, h := range w.hosts {
		if h.process == nil {
			continue
		}
		for _, a := range h.process.actors {
			if a.started && !a.finished && a.parker != nil && !a.parker.mail {
				names = append(names, a.String())
			}
		}
	}
	return names
}
