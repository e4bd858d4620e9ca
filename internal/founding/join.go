package founding

import (
	"cmp"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/lockmesh/mesh/internal/env"
	"github.com/lockmesh/mesh/internal/fault"
	"github.com/lockmesh/mesh/transport"
)

const (
	joinEvery = 500 * time.Millisecond // between two requests to one member
	// Then another member is asked. An admission takes up to admitIn, or twice that if a member may
	// have the joiner's name.
	joinPatience = 6 * time.Second
	maxRefusals  = 3 // unreachable this often, for all members together, and Join fails
)

// joining is a join as the joiner sees it.
type joining struct {
	member  transport.ID // the member that this node asks
	since   time.Duration
	next    time.Duration
	why     string // the text of a member that refuses for now
	refused int    // how often members could not reach this node's address
}

func (j *joining) deadline() time.Duration {
	if j.member == 0 {
		return env.Never
	}
	return j.next
}

// askToJoin asks a member of a living mesh to let this node in, one member at a time.
func (m *Machine) askToJoin(now time.Duration) {
	j := &m.joining
	var choice []target
	for _, t := range m.targets {
		if m.usable(t) && m.isUp(t.id) {
			choice = append(choice, t)
		}
	}
	if len(choice) == 0 {
		j.member = 0
		return
	}
	seeds := slices.DeleteFunc(slices.Clone(choice), func(t target) bool { return !t.seed })
	for _, t := range seeds {
		if first := seeds[0]; t.mesh != first.mesh {
			m.fail(fmt.Errorf("%w: the seeds are in two meshes, %s in %q (%016x) and %s in %q (%016x)",
				fault.ErrForeignMesh, first.addr, first.name, first.mesh, t.addr, t.name, t.mesh))
			return
		}
	}
	if len(seeds) > 0 {
		choice = seeds
	}
	slices.SortFunc(choice, func(a, b target) int { return cmp.Compare(a.id, b.id) })
	current := slices.IndexFunc(choice, func(t target) bool { return t.id == j.member })
	switch {
	case current < 0:
		// Joiners spread over the members.
		*j = joining{member: choice[m.rng.IntN(len(choice))].id, since: now, next: max(now, j.next), refused: j.refused}
	case now >= j.since+joinPatience:
		*j = joining{member: choice[(current+1)%len(choice)].id, since: now, next: max(now, j.next), refused: j.refused}
	}
	if now >= j.next {
		j.next = now + joinEvery
		m.send(j.member, join{card: m.card})
	}
}

// welcomed makes this node a member of the mesh that it asked to let it in. A founder learns
// of its mesh only by a decide, which carries a ballot.
func (m *Machine) welcomed(now time.Duration, from transport.ID, w welcome) {
	if from != m.joining.member || w.Value.founder(m.self.ID) {
		return
	}
	if err := m.cfg.Wants.Fits(m.self.Name, w.Value.Params); err != nil {
		m.fail(err)
		return
	}
	m.log(slog.LevelInfo, "joined a mesh", slog.String("mesh", w.Value.Params.MeshName),
		slog.String("id", fmt.Sprintf("%016x", w.Value.MeshID)), slog.String("through", from.String()))
	m.becomeMember(now, w.Value, ballot{}, w.Members)
}

// refusalError is a member's refusal of this node, with the member's text.
type refusalError struct {
	kind error
	text string
}

func (e *refusalError) Error() string { return e.text }
func (e *refusalError) Unwrap() error { return e.kind }

// refused handles a member's refusal.
func (m *Machine) refused(now time.Duration, from transport.ID, r refuse) {
	j := &m.joining
	if from != j.member {
		return
	}
	j.why = r.Text
	switch r.Why {
	case refusedForeign:
		m.fail(&refusalError{fault.ErrForeignMesh, r.Text})
	case refusedOption:
		m.fail(&refusalError{fault.ErrInvalidOption, r.Text})
	case refusedName:
		m.fail(&refusalError{fault.ErrNameTaken, r.Text})
	case refusedUnreachable:
		m.log(slog.LevelWarn, "a member could not dial this node back", slog.String("why", r.Text))
		if j.refused++; j.refused >= maxRefusals {
			m.fail(&refusalError{fault.ErrUnreachable, r.Text})
		}
		j.since, j.next = now-joinPatience, now+joinEvery // another member may reach this node
	case refusedForNow:
		j.since, j.next = now, now+joinEvery
	}
}
