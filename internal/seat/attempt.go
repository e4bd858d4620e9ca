package seat

import (
	"slices"
	"time"

	"github.com/lockmesh/mesh/internal/core"
	"github.com/lockmesh/mesh/transport"
)

// attempt is what this node tries to get decided: a roll call, a version, or its own release. The
// messages of an attempt are sent again until they are answered, or it is over.
type attempt interface {
	// send sends what is not answered yet.
	send(m *Machine)
	// moot reports whether the attempt makes no sense any more.
	moot(a *core.Acceptor) bool
	// answered takes in one answer.
	answered(m *Machine, now time.Duration, from transport.ID, msg message)
}

// begin begins an attempt.
func (m *Machine) begin(now time.Duration, action core.Action) {
	m.resend, m.giveUp = now+3*m.pace.unit, now+20*m.pace.unit
	switch a := action.(type) {
	case core.Ask:
		m.attempt = m.release(a.Table)
	case core.Begin:
		m.call(now, &rollCall{call: a.Call, answers: make([]*answer, len(a.Call.Roster)), accepts: make([]bool, len(a.Call.Roster))})
	case core.Propose:
		m.round++
		m.attempt = &version{
			ballot: core.Ballot{Round: m.round, By: m.cfg.Self.ID}, prev: m.acceptor.Table(), own: m.dress(a.Table),
		}
	}
	if m.attempt != nil {
		m.attempt.send(m)
	}
}

// pursue ends an attempt that is over, and sends its messages again.
func (m *Machine) pursue(now time.Duration) {
	if m.attempt == nil {
		return
	}
	switch {
	case m.attempt.moot(m.acceptor):
		m.abandon()
	case now >= m.giveUp:
		m.miss(now)
	case now >= m.resend:
		m.resend = now + 3*m.pace.unit
		m.attempt.send(m)
	}
}

// abandon ends the attempt. A roll call is withdrawn, unless its value may have been accepted: who promised it is not fenced by it
// any more.
func (m *Machine) abandon() {
	if r, ok := m.attempt.(*rollCall); ok && r.value == nil {
		m.withdrew.UpTo = r.call.Ballot.Round
		m.acceptor.Withdraw(m.cfg.Self.ID, m.withdrew.After, m.withdrew.UpTo)
	}
	m.attempt = nil
}

// miss gives an attempt up. The pauses before the next ones grow.
func (m *Machine) miss(now time.Duration) {
	m.abandon()
	m.misses = min(m.misses+1, 4)
	m.yield(now, m.pace.unit<<m.misses)
}

// yield begins no attempt for a while: others may finish theirs.
func (m *Machine) yield(now, d time.Duration) { m.rest = max(m.rest, now+m.upTo(d)) }

// duel notes that this node has promised a roll call. Where calls overtake each other, before a generation has served, the pauses before
// this node's next attempts grow: nodes whose lists differ may call in turns for ever, each as soon as the other one's call was answered,
// though all of these calls be decided.
func (m *Machine) duel(now time.Duration) {
	if now-m.called >= 20*m.pace.unit {
		m.calls = 0
	}
	m.called = now
	if m.calls = min(m.calls+1, 4); m.calls > 1 {
		m.lull = now + m.upTo(5*m.pace.unit<<(m.calls-1))
	}
}

// learn takes over a decision, and reports whether it was news.
func (m *Machine) learn(now time.Duration, t *core.Table) bool {
	before := m.acceptor.Table()
	if !m.acceptor.Learn(t) {
		return false
	}
	m.entered(now, before)
	return true
}

// entered: this node knows another table than before.
func (m *Machine) entered(now time.Duration, before *core.Table) {
	t := m.acceptor.Table()
	m.wants, m.misses, m.couldCall = wish{}, 0, 0
	m.outlast(now, before, t)
	m.appeased(before, t)
	m.relived(before, t)
	m.cover(now)
	m.tellOf(now, before, t)
	if before != nil && before.Mesh != t.Mesh {
		m.givesWay(before, t)
		if t.Before(before) {
			m.voids = t.Mesh
		}
	}
	m.publish()
	if before == nil || before.Stamp.Roll != t.Stamp.Roll {
		m.hearsMost(now) // or did a moment ago
	}
	if m.acceptor.Ended() {
		m.fail(errSaidDead)
	}
}

// decided: this node's attempt has come to a decision. All that it concerns are shown it.
func (m *Machine) decided(now time.Duration, t *core.Table, others []transport.ID) {
	m.attempt = nil
	m.learn(now, t)
	to := slices.Concat(t.Bound(), others)
	for _, e := range m.book.entries {
		if e.node != 0 {
			to = append(to, e.node)
		}
	}
	slices.Sort(to)
	for _, id := range slices.Compact(to) {
		if id != m.cfg.Self.ID {
			m.send(id, shown{pack(t)})
		}
	}
}
