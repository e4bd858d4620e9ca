package seat

import (
	"slices"
	"time"

	"github.com/lockmesh/mesh/internal/core"
	"github.com/lockmesh/mesh/transport"
)

// release is an attempt to be released from a roll call, by the mesh that serves.
type release struct {
	clock
	table     *core.Table
	promised  core.Ballot
	confirmed []transport.ID
}

func (r *release) moot(a *core.Acceptor) bool { return a.Report().Roll != r.promised }

func (r *release) send(m *Machine) {
	for _, id := range r.table.Bound() {
		if !slices.Contains(r.confirmed, id) {
			m.send(id, confirm{r.promised, pack(r.table)})
		}
	}
}

func (r *release) answered(m *Machine, now time.Duration, from transport.ID, msg message) {
	c, ok := msg.(confirmed)
	bound := r.table.Bound()
	if !ok || c.Promised != r.promised || c.Roll != r.table.Stamp.Roll || !slices.Contains(bound, from) || slices.Contains(r.confirmed, from) {
		return
	}
	if r.confirmed = append(r.confirmed, from); len(r.confirmed) < core.Majority(len(bound)) {
		return
	}
	m.attempt = nil
	before := m.acceptor.Table()
	if m.acceptor.Release(r.table, r.promised) {
		m.entered(now, before)
	}
}
