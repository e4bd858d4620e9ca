package seat

import (
	"slices"
	"time"

	"github.com/lockmesh/mesh/internal/core"
	"github.com/lockmesh/mesh/internal/founding"
	"github.com/lockmesh/mesh/transport"
)

// rollCall is an attempt to begin a generation of the core.
type rollCall struct {
	call    core.Call
	answers []*answer
	value   *core.Table
	accepts []bool
}

// call begins a roll call. Its proposer is the first to answer, so that no other has its ballot.
func (m *Machine) call(now time.Duration, r *rollCall) {
	report, err := m.acceptor.Call(r.call)
	if err != nil {
		m.miss(now) // what made it necessary has changed
		return
	}
	m.duel(now)
	m.publish()
	m.attempt = r
	m.here = append(m.here, m.answer(r.call.Ballot, report))
}

func (r *rollCall) moot(a *core.Acceptor) bool { return a.Report().Roll != r.call.Ballot }

func (r *rollCall) send(m *Machine) {
	for i, id := range r.call.Roster {
		switch {
		case id == 0: // nobody answered there
		case r.value != nil && !r.accepts[i]:
			m.send(id, propose{pack(r.value)})
		case r.value == nil && r.answers[i] == nil && id != m.cfg.Self.ID:
			m.send(id, call{r.call})
		}
	}
}

func (r *rollCall) answered(m *Machine, now time.Duration, from transport.ID, msg message) {
	i := slices.Index(r.call.Roster, from)
	if i < 0 {
		return
	}
	switch msg := msg.(type) {
	case answer:
		if msg.Ballot == r.call.Ballot && msg.Member.ID == from && r.value == nil {
			r.answers[i] = &msg
			if r.have(func(i int) bool { return r.answers[i] != nil }) {
				r.propose(m, now)
			}
		}
	case proposed:
		if msg.Ballot == r.call.Ballot && r.value != nil {
			r.accepts[i] = true
			if r.have(func(i int) bool { return r.accepts[i] }) {
				m.decided(now, r.value, nil)
			}
		}
	case refused:
		if msg.Ballot == r.call.Ballot {
			m.miss(now) // all must answer
		}
	}
}

// have reports whether something holds for each node that is asked.
func (r *rollCall) have(is func(i int) bool) bool {
	for i, id := range r.call.Roster {
		if id != 0 && !is(i) {
			return false
		}
	}
	return true
}

// propose makes the value of the call, and proposes it.
func (r *rollCall) propose(m *Machine, now time.Duration) {
	reports := make([]core.Report, len(r.answers))
	var wants, others founding.Options // of those that know of no mesh, and of the others
	var known []floors
	seats := make([]core.Seat, len(r.answers))
	for i, a := range r.answers {
		if seats[i].Entry = r.call.List[i]; a == nil {
			continue
		}
		reports[i], seats[i].Node = a.unpack(), a.Member
		if known = append(known, a.Floors); a.Table == nil {
			wants = together(wants, a.Wants)
		} else {
			others = together(others, a.Wants)
		}
	}
	from := r.call.Recovered(reports)
	founded := from == nil
	if founded {
		known = append(known, floors{Quiet: quietOf(reports)}) // some may know a mesh that has dropped them
		p := params(together(wants, others))
		from = &core.Table{Mesh: m.meshID(), Params: p, Shards: make([]core.Shard, p.Shards)}
	}
	r.value = r.call.Value(reports, from, m.cfg.Place(seats, from.Params))
	if r.value == nil {
		m.miss(now) // what those that answered have learned meanwhile, a silent entry may know more of
		return
	}
	step := uint64(revisionJump)
	if !founded && r.knowEach(from) { // of a mesh before this one nobody knows each
		step = sameTime
	}
	for i := range r.value.Shards {
		s := &r.value.Shards[i]
		if s.Generation == from.Shards[i].Generation {
			continue // it goes on
		}
		m.endow(s, &from.Shards[i], from.Params, i, known, step)
		switch {
		case !founded:
		case founding.AllLoopback(r.call.List) && m.Floor() == 0 && !earlierLeases(known):
			s.Quiet = 0 // nobody is around who remembers an earlier mesh on this machine
		default:
			s.Quiet = max(s.Quiet, listens)
		}
		if founded {
			r.value.Founded = max(r.value.Founded, s.Revision)
		}
	}
	for i, a := range r.answers {
		if a != nil {
			r.value.Seats[i].Node = a.Member
		}
	}
	m.giveUp = now + 20*m.pace.unit
	m.withdrew = rounds{r.call.Ballot.Round, r.call.Ballot.Round}
	r.send(m)
}

// knowEach reports whether those that answer know of each generation there may be: the incarnations with a seat that do not
// answer are no majority, so one that answers has accepted each decision.
func (r *rollCall) knowEach(from *core.Table) bool {
	seats, know := from.Bound(), 0
	for _, a := range r.answers {
		if a != nil && slices.Contains(seats, a.Member.ID) {
			know++
		}
	}
	return len(seats)-know < core.Majority(len(seats))
}

// quietOf is for how long a mesh must grant nothing that is founded after those that answers show.
func quietOf(answers []core.Report) (quiet time.Duration) {
	for _, r := range answers {
		if r.Table != nil {
			quiet = max(quiet, r.Table.Params.Quiet())
		}
	}
	return quiet
}

func (m *Machine) meshID() uint64 {
	for {
		if id := m.rng.Uint64(); id != 0 {
			return id
		}
	}
}
