package seat

import (
	"slices"
	"time"

	"github.com/lockmesh/mesh/internal/core"
	"github.com/lockmesh/mesh/internal/env"
	"github.com/lockmesh/mesh/internal/founding"
)

// How far above the known revisions those of a generation begin if no time of day is above them.
const (
	// sameTime is one second, as a revision: the times of day of a core's nodes differ by less if they are kept right. So by this node's
	// clock a generation, of this shard or of another one, may have begun up to a second from now. But its quiet time is longer than
	// that: the clocks have passed its revisions when it begins to grant.
	sameTime = 1000 << 10
	// unheard is by how much a revision may exceed the highest one that anybody has told of, where clocks are kept right.
	unheard = 1 << 10
	// revisionJump is for clocks that are further apart, or have gone back, where the core forgot: there may have been other
	// generations. It is about a minute, as a time of day: if all that know of this one end, the next one goes by clocks alone.
	revisionJump = 1 << 26
)

// endow says what the tables of a shard's new generation begin with, which are empty: revisions above all
// that are known, and a quiet time that outlasts every lease of the generation before (C5, C8). All is what others
// know; at is the index of the shard in it. Revisions that clocks do not reach go up by step: by sameTime if those that tell
// know of each generation, as most of those with a seat do, and else by revisionJump.
func (m *Machine) endow(s, before *core.Shard, p founding.Params, at int, all []floors, step uint64) {
	known := max(before.Revision, m.Floor())
	s.Revision = m.clock()
	for _, f := range all {
		s.Revision = max(s.Revision, f.Clock)
		if at < len(f.Known) {
			known = max(known, f.Known[at])
		}
	}
	switch {
	case known > s.Revision+sameTime:
		s.Revision = known + step
	case known >= s.Revision:
		s.Revision = known + unheard
	}
	s.Quiet = max(p.Quiet(), m.earlier())
	for _, f := range all {
		s.Quiet = max(s.Quiet, f.Quiet)
	}
}

// earlierLeases reports whether a node knows, from its state directory or from a mesh that it was in, that leases of an earlier mesh may last.
func earlierLeases(all []floors) bool {
	return slices.ContainsFunc(all, func(f floors) bool { return f.Quiet > 0 })
}

// hearsMost notes that this node hears most of those with a seat, and what it knows of revisions.
func (m *Machine) hearsMost(now time.Duration) { m.among, m.then = now, m.knows(m.then[:0]) }

// risen returns how far a revision may have risen by now that this node knew when it last heard most of those with a seat. A
// generation that has begun since went by clocks, which went on.
func (m *Machine) risen(then uint64) uint64 {
	if then == 0 {
		return 0
	}
	return min(then+uint64(max(0, m.last-m.among).Milliseconds())<<10, maxFloor)
}

// span is a time for which a generation must grant nothing, for the sake of an earlier mesh that had longer leases, and
// until when. The zero span is over.
type span struct{ quiet, until time.Duration }

// at returns for how long a generation that begins now must grant nothing.
func (s span) at(now time.Duration) time.Duration {
	if now >= s.until {
		return 0
	}
	return s.quiet
}

// add lengthens s by a quiet time that begins now.
func (s *span) add(now, quiet time.Duration) {
	*s = span{max(s.at(now), quiet), max(s.until, now+quiet)}
}

// earlier returns for how long a generation must grant nothing, for the sake of leases of an earlier mesh that this
// node knows to have had longer ones; zero: they are over.
func (m *Machine) earlier() time.Duration { return max(m.kept.at(m.last), m.listed.at(m.last)) }

// outlast notes what a table says of earlier leases: where a generation is quiet for longer than its mesh's leases need,
// an earlier mesh had longer ones. They are over as soon as so much time has passed in this mesh.
func (m *Machine) outlast(now time.Duration, before, t *core.Table) {
	if m.kept.until == env.Never {
		m.kept.until = now + m.kept.quiet
	}
	if before != nil && before.Mesh != t.Mesh {
		m.kept.add(now, before.Params.Quiet())
	}
	for i, s := range t.Shards {
		if known := before != nil && len(before.Shards) == len(t.Shards) && before.Shards[i].Generation == s.Generation; !known && !s.Calm && s.Quiet > t.Params.Quiet() {
			m.listed.add(now, s.Quiet)
		}
	}
}

// calmed: another node tells for how long the leases may last of meshes before the one of its table. The table that this
// node knows shows how long they were, and not when they began to end: a node that has known it for longer knows better. Else
// the time would begin again with each node that starts, and never be over.
func (m *Machine) calmed(t told) {
	if own := m.acceptor.Table(); own != nil && t.Entry != "" && t.Known == own.Stamp && t.Earlier == 0 {
		m.listed = span{}
	}
}

// Quiet returns for how long a mesh that is founded after this one must grant nothing.
func (m *Machine) Quiet() time.Duration {
	q := m.earlier()
	if t := m.state.Table; t != nil {
		q = max(q, t.Params.Quiet())
	}
	return q
}

// clock returns the time of day as a revision: milliseconds, with room for a thousand grants in each. A clock that was set back since
// Start counts as if it had not been.
func (m *Machine) clock() uint64 {
	ms := m.cfg.Wall.Add(m.last - m.started).UnixMilli()
	if m.cfg.Clock != nil {
		ms = max(ms, m.cfg.Clock().UnixMilli())
	}
	return uint64(max(0, ms)) << 10
}

func (m *Machine) known(shard int) uint64 {
	if m.cfg.Known == nil {
		return 0
	}
	return m.cfg.Known(shard)
}

// floors returns what this node knows of revisions, for a roll call.
func (m *Machine) floors() floors {
	f := floors{Clock: m.clock(), Quiet: m.earlier()}
	for i, known := range m.knows(nil) {
		if i < len(m.then) {
			known = max(known, m.risen(m.then[i]))
		}
		f.Known = append(f.Known, known)
	}
	return f
}

// knows appends what this node knows of the revisions of each shard.
func (m *Machine) knows(all []uint64) []uint64 {
	if t := m.state.Table; t != nil {
		floor := m.Floor()
		for i, s := range t.Shards {
			all = append(all, max(m.known(i), floor, s.Revision))
		}
	}
	return all
}

// floorEvery is how often the highest revision of all shards is computed, at most.
const floorEvery = 500 * time.Millisecond

// Floor returns the highest revision of any shard that this node knows of, or that others told it: also clients of
// the core, which have nothing else to report (C7).
func (m *Machine) Floor() uint64 {
	if t := m.state.Table; t != nil && (m.last >= m.floorAt+floorEvery || m.floorAt == 0) {
		m.floorAt = m.last
		for i := range t.Shards {
			m.floor = min(max(m.floor, m.known(i)), maxFloor)
		}
	}
	return m.floor
}
