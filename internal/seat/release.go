package seat

import (
	"slices"
	"time"

	"github.com/lockmesh/mesh/internal/core"
	"github.com/lockmesh/mesh/transport"
)

// release is an attempt to be released from a roll call, by the mesh that serves.
type release struct {
	table     *core.Table
	promised  core.Ballot
	confirmed []transport.ID
	raised    []uint64 // if an earlier mesh confirms, by shard: the highest revision that a replica of its has applied
}

// release asks those that are bound in t to confirm it. If this node's mesh was founded later than t's, both may have
// granted at one time: then this one ends only once all revisions of the other are above its own (C10).
func (m *Machine) release(t *core.Table) *release {
	r := &release{table: t, promised: m.acceptor.Report().Roll}
	if own := m.acceptor.Table(); own != nil && own.Mesh != t.Mesh && t.Before(own) {
		r.raised = make([]uint64, len(t.Shards))
	}
	return r
}

// floor returns what the other mesh must raise all revisions above: zero if it need not, or has.
func (r *release) floor(m *Machine) (floor uint64) {
	for i, raised := range r.raised {
		if known := m.known(i); known > raised {
			floor = max(floor, known)
		}
	}
	return floor
}

func (r *release) moot(a *core.Acceptor) bool { return a.Report().Roll != r.promised }

func (r *release) send(m *Machine) {
	for _, id := range r.table.Bound() {
		if floor := r.floor(m); floor > 0 || !slices.Contains(r.confirmed, id) {
			m.send(id, confirm{r.promised, pack(r.table), min(floor, maxFloor)})
		}
	}
}

func (r *release) answered(m *Machine, now time.Duration, from transport.ID, msg message) {
	c, ok := msg.(confirmed)
	bound := r.table.Bound()
	if !ok || c.Promised != r.promised || c.Roll != r.table.Stamp.Roll || !slices.Contains(bound, from) {
		return
	}
	if !slices.Contains(r.confirmed, from) {
		r.confirmed = append(r.confirmed, from)
	}
	for i := range min(len(r.raised), len(c.Revisions)) {
		r.raised[i] = max(r.raised[i], c.Revisions[i])
	}
	if len(r.confirmed) < core.Majority(len(bound)) || r.floor(m) > 0 {
		return
	}
	m.attempt = nil
	before := m.acceptor.Table()
	if !m.acceptor.Release(r.table, r.promised) {
		m.miss(now)
		return
	}
	m.moved = m.moved || before != nil && before.Mesh != r.table.Mesh
	m.entered(now, before)
}
