package replica

import (
	"time"

	"github.com/lockmesh/mesh/shard"
)

// Inspect is a client's question what is known of a key, or of keys (P48). Ref comes back in the State.
type Inspect struct {
	Node uint64 // the client's
	Ref  uint64
	shard.Inspection
}

// State is what a confirmed leader answers to an Inspect.
type State struct {
	Node     uint64
	Ref      uint64
	Revision uint64 // of the table
	shard.Page
}

// maxInspects is how many pages a leader tells after one round. The others come after the next one, so that no number of questions
// keeps its node from its other work.
const maxInspects = 8

// Inspect takes a question. It returns ErrNotServing if this replica cannot answer it. Otherwise a State follows; but none does if a
// majority stays silent or leadership is lost.
func (r *Replica) Inspect(now time.Duration, q Inspect) error {
	r.now = now
	if !r.leading.serving {
		return ErrNotServing
	}
	r.leading.reads.inspect(q)
	r.dirty = true
	return nil
}

// inspected answers questions, now that this leader is confirmed.
func (r *Replica) inspected(all []Inspect, out *Output) {
	for i, q := range all {
		if i == maxInspects {
			r.leading.reads.waiting.inspects = append(all[i:], r.leading.reads.waiting.inspects...)
			r.dirty = true
			return
		}
		page := r.table.Inspect(q.Inspection, r.leading.tableTime(r.now))
		for i := range page.Waits {
			w := &page.Waits[i]
			w.Silent = r.leading.leases.unheard(w.Session, r.now)
		}
		out.States = append(out.States, State{q.Node, q.Ref, r.table.Revision(), page})
	}
}
