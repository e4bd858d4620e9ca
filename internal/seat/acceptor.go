package seat

import (
	"time"

	"github.com/lockmesh/mesh/internal/core"
	"github.com/lockmesh/mesh/transport"
)

// handle handles a message of another node, or of this one.
func (m *Machine) handle(now time.Duration, from transport.ID, msg message) {
	switch msg := msg.(type) {
	case told:
		m.heard(now, from, msg)
	case show:
		if t := m.table(msg.Known); t != nil {
			m.send(from, shown{pack(t)})
		}
	case shown:
		t := msg.Table.unpack()
		m.saw(from, t)
		if own := m.acceptor.Table(); own != nil && own.Stamp.Roll == t.Stamp.Roll {
			m.learn(now, t) // it is decided: nobody who has a seat in it need say that he knows it
		}
	case answer, proposed, value, written, confirmed, refused:
		if m.attempt != nil && !m.attempt.moot(m.acceptor) {
			m.attempt.answered(m, now, from, msg)
		}
	case fence:
		m.fence(from, msg)
	case fenced:
		m.fenced(from, msg)
	case order:
		m.ordered(now, from, msg)
	case outcome:
		m.outcomeOf(now, from, msg)
	default:
		if m.sure {
			m.accept(now, from, msg)
		}
	}
}

// accept answers a proposer, as an acceptor.
func (m *Machine) accept(now time.Duration, from transport.ID, msg message) {
	switch msg := msg.(type) {
	case call:
		if msg.Call.Ballot.By != from {
			return
		}
		err := m.takesOver(msg.Call.List, msg.Call.Roster)
		var r core.Report
		again := m.acceptor.Report().Roll == msg.Call.Ballot
		if err == nil {
			r, err = m.acceptor.Call(msg.Call)
		}
		if err != nil {
			m.refuse(from, msg.Call.Ballot, m.acceptor.Report().Roll, err)
			return
		}
		m.publish() // before any answer, no replica on this node votes any more
		if !again {
			m.duel(now)
		}
		m.yield(now, 10*m.pace.unit)
		m.send(from, m.answer(msg.Call.Ballot, r))
	case propose:
		t := msg.Table.unpack()
		if t.Stamp.Roll.By != from {
			return
		}
		if err := m.acceptor.Propose(t); err != nil {
			m.refuse(from, t.Stamp.Roll, m.acceptor.Report().Roll, err)
			return
		}
		m.send(from, proposed{t.Stamp.Roll})
	case read:
		at, accepted, err := m.acceptor.Read(msg.Read)
		if err != nil {
			m.refuse(from, msg.Read.Ballot, m.acceptor.Promised(), err)
			return
		}
		m.yield(now, 3*m.pace.unit)
		m.send(from, value{Read: msg.Read, At: at, Accepted: packOrNone(accepted)})
	case write:
		t := msg.Table.unpack()
		err := m.takes(t)
		if err == nil {
			err = m.acceptor.Write(msg.Ballot, msg.Prev, t)
		}
		if err != nil {
			m.refuse(from, msg.Ballot, m.acceptor.Promised(), err)
			return
		}
		m.send(from, written{msg.Ballot, msg.Prev})
	case confirm:
		if t := msg.Table.unpack(); m.acceptor.Confirm(t, msg.Promised) {
			m.send(from, confirmed{msg.Promised, t.Stamp.Roll, m.raised(from, msg.Floor)})
		}
	}
}

func (m *Machine) refuse(to transport.ID, b, promised core.Ballot, err error) {
	r := refused{Ballot: b, Promised: promised, Why: err.Error()}
	if t := m.acceptor.Table(); t != nil {
		r.Known = t.Stamp
	}
	m.send(to, r)
}

// answer is this node's answer to a roll call.
func (m *Machine) answer(b core.Ballot, r core.Report) answer {
	return answer{
		Ballot: b, card: m.card(),
		Report: report{Roll: r.Roll, Refused: r.Refused, Released: r.Released, RollAt: r.RollAt, At: r.At},
		Table:  packOrNone(r.Table), Accepted: packOrNone(r.Accepted), Proposed: packOrNone(r.Proposed),
		Floors: m.floors(),
	}
}

func (m answer) unpack() core.Report {
	return core.Report{
		Node: m.Member.ID, List: m.List, Roll: m.Report.Roll, Refused: m.Report.Refused, Released: m.Report.Released,
		RollAt: m.Report.RollAt, At: m.Report.At,
		Table: m.Table.unpack(), Accepted: m.Accepted.unpack(), Proposed: m.Proposed.unpack(),
	}
}
