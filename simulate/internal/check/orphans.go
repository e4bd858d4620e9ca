package check

import (
	"fmt"
	"time"

	"github.com/lockmesh/mesh/internal/env"
	"github.com/lockmesh/mesh/transport"
)

// orphanLook is how often quiet looks for orphans.
const orphanLook = 250 * time.Millisecond

// Orphans describes everything in the shards' tables that no living client believes in (holds, waiters
// and records of sessions, above all those of dead clients), and each client that waits or holds without
// a place in a table. While messages are under way and leases run, there may be some.
func (h *History) Orphans() []string {
	w := h.world
	claimed := make(map[claimName]int) // what clients believe, less what tables say
	busy := make(map[Process]bool)
	for _, c := range h.calls {
		p := c.process
		switch {
		case p.Dead():
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
	for _, r := range replicas(w) {
		if !r.Serving {
			continue
		}
		for _, rec := range r.Records() {
			owner := transport.ID(rec.Session.Node)
			p, host := w.Process(owner), HostOf(w, owner)
			n, runs := nodeOf(w, owner)
			alive := runs && n.Mesh() != 0
			if !alive || len(rec.Requests) == 0 && !busy[p] {
				orphans = append(orphans, fmt.Sprintf("shard %d keeps the session %d of the node on %s, which knows nothing of it",
					r.Shard, rec.Session.Number, host))
			}
			for _, q := range rec.Requests {
				name := claimName{p, q.Key, q.Token}
				switch {
				case q.Uses && alive && h.usedBy(p, q.Key, claimed):
				case q.Uses:
					orphans = append(orphans, fmt.Sprintf("%q is used on %s by nobody", q.Key, host))
				case alive && claimed[name] > 0:
					claimed[name]--
				case q.Token == 0:
					orphans = append(orphans, fmt.Sprintf("%q is waited for on %s by nobody", q.Key, host))
				default:
					orphans = append(orphans, fmt.Sprintf("%q is held on %s with token %d by nobody", q.Key, host, q.Token))
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

// usedBy reports whether a process has handles of a use of the key, and takes them out of what is claimed.
func (h *History) usedBy(p Process, key string, claimed map[claimName]int) (used bool) {
	for _, c := range h.calls {
		if name := (claimName{p, env.UsesOf(key), 0}); c.held != nil && c.process == p && c.want.Key == name.key {
			if name.token = c.held.token; claimed[name] > 0 {
				claimed[name]--
				used = true
			}
		}
	}
	return used
}

// claimName is what a client believes, or a table says: a process holds a key with that
// token, or waits for it.
type claimName struct {
	process Process
	key     string
	token   uint64
}

// Quiet lets time pass until the tables and the clients agree, and fails if they do not
// within d: a lock, or a place in a queue, was forgotten (G4). Clients should do
// nothing new meanwhile.
func (h *History) Quiet(d time.Duration) error {
	w := h.world
	for end := w.Now() + d; ; {
		orphans := h.Orphans()
		switch {
		case len(orphans) == 0 && w.Err() == nil:
			if parked := w.Parked(); len(h.Open()) == 0 && len(parked) > 0 {
				w.Fail(fmt.Errorf("G4 orphans: no call is under way, and these wait for an answer: %q", parked))
			}
			return w.Err()
		case w.Err() != nil:
			return w.Err()
		case w.Now() >= end:
			w.Fail(fmt.Errorf("G4 orphans: %v after everything came to rest, %d are left: %q", d, len(orphans), orphans))
			return w.Err()
		}
		if err := w.Run(orphanLook); err != nil {
			return err
		}
	}
}
