package founding

import (
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/lockmesh/mesh/transport"
)

// acceptor is the Paxos acceptor of this incarnation. It is kept in memory alone: the package
// comment says why that is enough.
type acceptor struct {
	promised ballot
	roster   []transport.ID // of the promised ballot, in the order of the seeds
	fresh    uint64         // asks from this number on were sent after the promise; above 0
	at       ballot         // at which value was accepted last; zero: never
	value    Mesh
	since    time.Duration // when value was accepted first
}

// prepare answers a proposer that begins a ballot.
func (m *Machine) prepare(now time.Duration, from transport.ID, p prepare) {
	a := &m.acceptor
	if p.Ballot.ID != from || len(p.Roster) != len(p.Seeds) || !m.lists(p.Seeds) ||
		!slices.Contains(p.Roster, from) || !slices.Contains(p.Roster, m.self.ID) ||
		slices.Contains(p.Roster, 0) {
		return // malformed, or for other seeds, which checkAgreement reports
	}
	if p.Ballot == a.promised {
		if slices.Equal(p.Roster, a.roster) {
			m.send(from, m.promise(now))
		}
		return
	}
	no := nack{Ballot: p.Ballot, Promised: a.promised, Hint: m.hint()}
	switch {
	case p.Ballot.less(a.promised):
		no.Why = "promised another"
	case m.living():
		no.Why = "knows of a living mesh"
	case now < m.start+m.listen:
		no.Why = "listens for a living mesh"
	case m.omittedFounder(p.Roster) != 0:
		no.Why = fmt.Sprintf("is still connected to %v", m.omittedFounder(p.Roster))
	case m.contested() != "":
		no.Why = "finds two nodes at " + m.contested()
	case m.unreached(p.Roster) != "":
		no.Why = fmt.Sprintf("cannot reach %s at the advertised address", m.unreached(p.Roster))
	default:
		m.promiseBallot(p.Ballot, p.Roster)
		m.yield(now)
		m.send(from, m.promise(now))
		return
	}
	m.send(from, no)
}

// omittedFounder returns a founder of the accepted value that is missing from roster although
// it is still connected to this node, or zero. A new incarnation at a founder's address
// proves that the founder is dead, but only where no two nodes answer at one address; this
// check covers the other cases.
func (m *Machine) omittedFounder(roster []transport.ID) transport.ID {
	for _, f := range m.acceptor.value.Roster {
		if m.isUp(f.ID) && !slices.Contains(roster, f.ID) {
			return f.ID
		}
	}
	return 0
}

// contested returns a seed at which two connected nodes answer alternately, or "".
func (m *Machine) contested() string {
	for _, s := range m.seeds {
		if s.former != 0 {
			return s.addr
		}
	}
	return ""
}

// unreached returns the advertised address of a node of the roster that has sent its card
// but does not answer at that address (P31), or "".
func (m *Machine) unreached(roster []transport.ID) string {
	for _, s := range m.seeds {
		if s.known && !s.reached && slices.Contains(roster, s.id) {
			return s.card.Addr
		}
	}
	return ""
}

// promiseBallot promises b. That ends this node's own ballot, if it is another one: the
// ballot must not be decided any more.
func (m *Machine) promiseBallot(b ballot, roster []transport.ID) {
	a := &m.acceptor
	m.proposer.running = m.proposer.running && m.proposer.ballot == b
	a.promised, a.roster = b, slices.Clone(roster)
	a.fresh = m.seq + 1
}

// promise returns the answer to a prepare of the promised ballot.
func (m *Machine) promise(now time.Duration) promise {
	a := &m.acceptor
	p := promise{Ballot: a.promised, Floor: m.floor(now)}
	if a.at != (ballot{}) {
		p.At, p.Value = a.at, a.value
	}
	return p
}

// accept answers a proposer that asks for a value to be accepted.
func (m *Machine) accept(now time.Duration, from transport.ID, msg accept) {
	a := &m.acceptor
	if msg.Ballot.ID != from {
		return
	}
	if msg.Ballot != a.promised || m.living() && a.at != msg.Ballot {
		m.send(from, nack{Ballot: msg.Ballot, Promised: a.promised, Why: "does not accept that any more", Hint: m.hint()})
		return
	}
	if !slices.Equal(msg.Value.ids(), unique(a.roster)) {
		return // not a value of this ballot
	}
	if err := m.cfg.Wants.Fits(m.self.Name, msg.Value.Params); err != nil {
		m.fail(err)
		return
	}
	m.setAccepted(now, msg.Ballot, msg.Value)
	m.send(from, accepted{Ballot: msg.Ballot})
}

// setAccepted records that v is accepted at b.
func (m *Machine) setAccepted(now time.Duration, b ballot, v Mesh) {
	a := &m.acceptor
	if a.value.MeshID != v.MeshID {
		a.since = now
	}
	a.at, a.value = b, v
}

// decision adopts what was decided. It does not if this node has promised a later ballot
// and the message may be older than that promise.
//
// The promise said that this node knows of no decision. The later ballot's proposer relies
// on that, and may have founded without the nodes that knew of a decision, since they are
// dead. If one of them lives after all, it answers an ask that was sent after the promise.
func (m *Machine) decision(now time.Duration, from transport.ID, d decide) {
	a := &m.acceptor
	if !d.Value.founder(m.self.ID) {
		return
	}
	if d.Ballot.less(a.promised) && d.Seq < a.fresh {
		if m.isUp(from) && d.Seq == 0 {
			m.ask(from)
		}
		return
	}
	m.finishFounding(now, d.Value, d.Ballot)
	m.informed(from)
	m.send(from, known{ID: d.Value.MeshID, Epoch: d.Value.Epoch})
}

// finishFounding makes this founder a member of the mesh that was decided at b.
func (m *Machine) finishFounding(now time.Duration, v Mesh, b ballot) {
	var names []string
	for _, f := range v.Roster {
		names = append(names, f.Name)
	}
	m.log(slog.LevelInfo, "founded a mesh", slog.String("mesh", v.Params.MeshName),
		slog.String("id", fmt.Sprintf("%016x", v.MeshID)), slog.Any("founders", names))
	m.becomeMember(now, v, b, nil)
}

// unique returns each node of a roster once, sorted.
func unique(roster []transport.ID) []transport.ID {
	ids := slices.Clone(roster)
	slices.Sort(ids)
	ids = slices.Compact(ids)
	return slices.DeleteFunc(ids, func(id transport.ID) bool { return id == 0 })
}
