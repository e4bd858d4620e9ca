package founding

import (
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/lockmesh/mesh/internal/env"
	"github.com/lockmesh/mesh/internal/fault"
	"github.com/lockmesh/mesh/internal/point"
	"github.com/lockmesh/mesh/transport"
)

const (
	informEvery = time.Second
	// informFor is how long a founder lets no node join while another founder may not
	// know of the mesh and was not replaced by a new incarnation.
	informFor = 30 * time.Second

	admitIn       = 5 * time.Second  // a dial-back that takes longer has failed
	admitMemory   = 10 * time.Second // a node that was let in so recently is let in again without a check
	maxAdmissions = 1024             // at a time; more are refused for now
)

// admission is one node that wants to join, or joined just now.
type admission struct {
	id    transport.ID
	card  card
	since time.Duration // when the stage began
	until time.Duration
	stage stage
	rival Member // in stage dialledRival: the member that may have the name
}

type stage uint8

const (
	dialledBack  stage = iota // its own address was dialled
	dialledRival              // the address of a member with its name was dialled
	admitted
	turnedDown
)

// serve does what is due while this node is a member.
func (m *Machine) serve(now time.Duration) {
	if now >= m.nextInform {
		m.nextInform = now + informEvery
		for _, id := range m.uninformed {
			if m.isUp(id) {
				m.send(id, decide{Ballot: m.decidedAt, Value: m.mesh})
			}
			if i := m.founderIndex(id); now < m.informUntil && m.mesh.Roster[i].Addr != "" {
				m.dial(now, m.mesh.Roster[i].Addr) // or its successor answers there
			}
		}
	}
	for i := range m.admissions {
		if a := &m.admissions[i]; a.stage < admitted && now >= a.until {
			m.dialFailed(now, a, errors.New("no answer"))
		}
	}
	m.admissions = slices.DeleteFunc(m.admissions, func(a admission) bool {
		return a.stage == turnedDown || now >= a.until
	})
}

func (m *Machine) serveDeadline() time.Duration {
	next := env.Never
	if len(m.uninformed) > 0 && (m.nextInform < m.informUntil || slices.ContainsFunc(m.uninformed, m.isUp)) {
		next = m.nextInform
	}
	for _, a := range m.admissions {
		next = min(next, a.until)
	}
	return next
}

func (m *Machine) founderIndex(id transport.ID) int {
	return slices.IndexFunc(m.mesh.Roster, func(f Member) bool { return f.ID == id })
}

// informed notes that a founder knows of the mesh, or is dead.
func (m *Machine) informed(id transport.ID) {
	if i, ok := slices.BinarySearch(m.uninformed, id); ok {
		m.uninformed = slices.Delete(m.uninformed, i, i+1)
	}
}

// founderDialed checks whether a founder was replaced: then it is dead, and need not be
// informed.
func (m *Machine) founderDialed(begun time.Duration, addr string, peer transport.Hello, err error) {
	if err != nil || peer.ID == m.self.ID || begun < m.since {
		return // an older dial may have met an incarnation from before the founder
	}
	for _, f := range m.mesh.Roster {
		if f.Addr == addr && f.ID != peer.ID {
			m.informed(f.ID)
		}
	}
}

// memberMessage handles what arrives while this node is in a mesh.
func (m *Machine) memberMessage(now time.Duration, from transport.ID, msg message) {
	switch msg := msg.(type) {
	case ask:
		if m.mesh.founder(from) {
			m.send(from, decide{Seq: msg.Seq, Ballot: m.decidedAt, Value: m.mesh})
		} else {
			m.send(from, living{Seq: msg.Seq, ID: m.mesh.MeshID, Name: m.mesh.Params.MeshName})
		}
	case prepare, accept:
		m.announceMesh(from)
	case decide:
		if msg.Value.MeshID == m.mesh.MeshID && msg.Value.Epoch == m.mesh.Epoch {
			m.informed(from)
			m.send(from, known{ID: m.mesh.MeshID, Epoch: m.mesh.Epoch})
			return
		}
		m.log(slog.LevelError, "a node reports that another mesh was founded",
			slog.String("node", from.String()),
			slog.String("its mesh", fmt.Sprintf("%016x/%d", msg.Value.MeshID, msg.Value.Epoch)),
			slog.String("this mesh", fmt.Sprintf("%016x/%d", m.mesh.MeshID, m.mesh.Epoch)))
	case known:
		if msg.ID == m.mesh.MeshID && msg.Epoch == m.mesh.Epoch {
			m.informed(from)
		}
	case join:
		m.join(now, from, msg.card)
	}
}

// announceMesh informs a node that does not know of the mesh.
func (m *Machine) announceMesh(to transport.ID) {
	if m.mesh.founder(to) {
		m.send(to, decide{Ballot: m.decidedAt, Value: m.mesh})
	} else {
		m.send(to, living{ID: m.mesh.MeshID, Name: m.mesh.Params.MeshName})
	}
}

// join begins, or repeats, the admission of a joiner.
func (m *Machine) join(now time.Duration, from transport.ID, c card) {
	if m.mesh.founder(from) {
		m.announceMesh(from)
		return
	}
	if err := c.Wants.Fits(c.Name, m.mesh.Params); err != nil {
		m.refuse(from, err)
		return
	}
	if len(m.uninformed) > 0 && now < m.informUntil {
		f := m.mesh.Roster[m.founderIndex(m.uninformed[0])]
		m.refuse(from, fmt.Errorf("the founder %q at %s does not know of the mesh yet", f.Name, f.Addr))
		return
	}
	for i := range m.admissions {
		if a := &m.admissions[i]; a.id == from {
			if a.stage == admitted {
				m.welcome(now, a)
			}
			return
		}
	}
	a := admission{id: from, card: c, since: now, until: now + admitIn}
	if c.Addr == "" {
		m.welcome(now, &a)
		return
	}
	if len(m.admissions) >= maxAdmissions || m.cfg.Points.Taken(point.BusyMember) {
		m.refuse(from, errors.New("too many nodes join at once"))
		return
	}
	m.admissions = append(m.admissions, a)
	m.dial(now, c.Addr)
}

// joinerDialed goes on with the admissions that waited for a dial of addr.
func (m *Machine) joinerDialed(now, begun time.Duration, addr string, peer transport.Hello, err error) {
	for i := range m.admissions {
		a := &m.admissions[i]
		switch {
		case begun < a.since:
		case a.stage == dialledBack && a.card.Addr == addr:
			if err == nil && peer.ID != a.id {
				err = fmt.Errorf("node %q (%v) answers there, not %v", peer.Name, peer.ID, a.id)
			}
			if err != nil {
				m.dialFailed(now, a, err)
				continue
			}
			m.checkName(now, a)
		case a.stage == dialledRival && a.rival.Addr == addr:
			if err == nil && peer.ID == a.rival.ID {
				m.nameTaken(a)
			} else {
				m.welcome(now, a) // the rival is dead, whatever gossip says
			}
		}
	}
}

// checkName lets a joiner in unless a living member may have its name. A member at whose
// address the joiner answers is its dead predecessor.
func (m *Machine) checkName(now time.Duration, a *admission) {
	rival, ok := m.named(a.card.Name, a.id)
	switch {
	case !ok || rival.Addr == a.card.Addr && rival.ID != m.self.ID:
		m.welcome(now, a)
	case rival.ID == m.self.ID:
		a.rival = rival
		m.nameTaken(a)
	default:
		a.rival, a.stage, a.since, a.until = rival, dialledRival, now, now+admitIn
		m.dial(now, rival.Addr)
	}
}

// named returns the member with that name, other than the node except, if one is known.
func (m *Machine) named(name string, except transport.ID) (Member, bool) {
	if name == m.self.Name {
		return m.self, true
	}
	for _, a := range m.admissions {
		if a.stage == admitted && a.card.Name == name {
			return Member{ID: a.id, Addr: a.card.Addr}, true
		}
	}
	if m.cfg.Named != nil {
		return m.cfg.Named(name, except)
	}
	return Member{}, false
}

// dialFailed handles a dial without an answer. At the joiner's own address it turns the
// joiner down; at a rival's address it lets the joiner in.
func (m *Machine) dialFailed(now time.Duration, a *admission, err error) {
	if a.stage == dialledRival {
		m.welcome(now, a)
		return
	}
	a.stage = turnedDown
	m.refuse(a.id, fmt.Errorf("%w: node %q at %s: %w", fault.ErrUnreachable, a.card.Name, a.card.Addr, err))
}

// nameTaken refuses a joiner because of its rival.
func (m *Machine) nameTaken(a *admission) {
	a.stage = turnedDown
	m.refuse(a.id, fmt.Errorf("%w: %q, by the node at %s", fault.ErrNameTaken, a.card.Name, a.rival.Addr))
}

func (m *Machine) welcome(now time.Duration, a *admission) {
	if a.stage != admitted {
		a.stage = admitted
		a.until = now + admitMemory
	}
	members := m.mesh.Roster
	if m.cfg.Members != nil {
		members = m.cfg.Members()
	}
	m.solo = m.solo && a.card.Addr == ""
	m.send(a.id, welcome{Value: m.mesh, Members: members[:min(len(members), maxMembers)]})
}

func (m *Machine) refuse(to transport.ID, err error) {
	r := refuse{Text: err.Error()}
	r.Text = r.Text[:min(len(r.Text), maxText)]
	switch {
	case errors.Is(err, fault.ErrForeignMesh):
		r.Why = refusedForeign
	case errors.Is(err, fault.ErrInvalidOption):
		r.Why = refusedOption
	case errors.Is(err, fault.ErrNameTaken):
		r.Why = refusedName
	case errors.Is(err, fault.ErrUnreachable):
		r.Why = refusedUnreachable
	}
	m.send(to, r)
}
