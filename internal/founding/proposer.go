package founding

import (
	"cmp"
	"slices"
	"time"

	"github.com/lockmesh/mesh/internal/point"
	"github.com/lockmesh/mesh/transport"
)

const (
	resend  = 200 * time.Millisecond // between two sendings of an unanswered message of a ballot
	stagger = 150 * time.Millisecond // between the first attempts of the seeds, in their order
	maxTurn = 8                      // the ninth and all later seeds wait equally long
)

// proposer runs at most one ballot at a time.
type proposer struct {
	at    time.Duration // when to begin the next ballot, if armed
	armed bool
	after time.Duration // no ballot before that, so that another proposer's can end
	wake  time.Duration // when this node becomes ready by itself
	tries int           // ballots that met a higher one
	seen  uint64        // the highest round that a nack has named

	running   bool
	ballot    ballot
	roster    []transport.ID // in the order of the seeds
	voters    []voter        // all but this node, by ID
	own       promise
	proposed  bool // phase one has ended, and value is proposed
	value     Mesh
	next      time.Duration // when to send again
	objection string        // why a voter refuses for now
}

type voter struct {
	id       transport.ID
	card     card
	promised bool
	promise  promise
	accepted bool
}

func (p *proposer) deadline() time.Duration {
	switch {
	case p.running:
		return p.next
	case p.armed:
		return p.at
	}
	return p.wake
}

// propose begins a ballot if it is time to, and repeats what is unanswered.
func (m *Machine) propose(now time.Duration) {
	p := &m.proposer
	if m.living() || !slices.Equal(p.roster, m.roster()) {
		p.running = false // another node answers at a seed now, or there is a mesh to join
	}
	if p.running {
		if now >= p.next {
			m.sendPhase(now)
		}
		return
	}
	ready, at := m.ready(now)
	if !ready {
		p.armed, p.wake = false, at
		return
	}
	if !p.armed {
		turn := slices.IndexFunc(m.seeds, func(s seed) bool { return s.id == m.self.ID })
		p.armed = true
		p.at = max(now, p.after) + time.Duration(min(turn, maxTurn))*stagger + m.between(0, stagger)
		if m.cfg.Points.Taken(point.HastyBallot) {
			p.at = max(now, p.after)
		}
	}
	if now >= p.at {
		m.ballot(now)
	}
}

// roster returns the nodes that answer at the seeds, in their order.
func (m *Machine) roster() []transport.ID {
	ids := make([]transport.ID, 0, len(m.seeds))
	for i := range m.seeds {
		ids = append(ids, m.seeds[i].id)
	}
	return ids
}

// ballot begins one: phase one, in which this node promises first.
func (m *Machine) ballot(now time.Duration) {
	p := &m.proposer
	roster := m.roster()
	if m.omittedFounder(roster) != 0 {
		p.pause(now + resend)
		return
	}
	p.running, p.proposed, p.objection = true, false, ""
	p.ballot = ballot{Round: max(m.acceptor.promised.Round, p.seen) + 1, ID: m.self.ID}
	p.roster = roster
	p.voters = nil
	for _, id := range unique(p.roster) {
		if id == m.self.ID {
			continue
		}
		i := slices.IndexFunc(m.seeds, func(s seed) bool { return s.id == id })
		p.voters = append(p.voters, voter{id: id, card: m.seeds[i].card})
	}
	m.promiseBallot(p.ballot, p.roster)
	p.own = m.promise(now)
	m.sendPhase(now)
	m.proposeValue(now)
}

// sendPhase sends the current phase's message to the voters that have not answered it.
func (m *Machine) sendPhase(now time.Duration) {
	p := &m.proposer
	p.next = now + resend
	for _, v := range p.voters {
		switch {
		case v.accepted:
		case p.proposed:
			m.send(v.id, accept{Ballot: p.ballot, Value: p.value})
		case !v.promised:
			m.send(v.id, prepare{Ballot: p.ballot, Seeds: m.card.Seeds, Roster: p.roster})
		}
	}
}

// yield pauses this node's ballots for 1 s to 2 s, so that a proposer with a higher ballot
// can finish.
func (m *Machine) yield(now time.Duration) {
	m.proposer.pause(now + m.between(time.Second, 2*time.Second))
}

// pause ends the ballot; the next begins no earlier than until.
func (p *proposer) pause(until time.Duration) {
	p.running, p.armed = false, false
	p.after, p.wake = until, until
}

// voter returns the voter id of the running ballot, or nil if that is not b.
func (p *proposer) voter(b ballot, id transport.ID) *voter {
	if !p.running || b != p.ballot {
		return nil
	}
	i := slices.IndexFunc(p.voters, func(v voter) bool { return v.id == id })
	if i < 0 {
		return nil
	}
	return &p.voters[i]
}

func (m *Machine) promised(now time.Duration, from transport.ID, msg promise) {
	v := m.proposer.voter(msg.Ballot, from)
	if v == nil || v.promised || m.proposer.proposed {
		return
	}
	v.promised, v.promise = true, msg
	m.proposeValue(now)
}

// proposeValue ends phase one once all acceptors have promised: the quorum is all of them,
// since an acceptor remembers nothing after a restart. It proposes the value that was accepted
// at the highest ballot, or else a new one.
func (m *Machine) proposeValue(now time.Duration) {
	p := &m.proposer
	promises := []promise{p.own}
	members := []Member{m.self}
	cards := []card{m.card}
	for _, v := range p.voters {
		if v.promised {
			promises = append(promises, v.promise)
		}
		members = append(members, Member{ID: v.id, Name: v.card.Name, Addr: v.card.Addr, Zone: v.card.Zone})
		cards = append(cards, v.card)
	}
	if len(promises) < len(members) {
		return
	}
	slices.SortFunc(members, func(a, b Member) int { return cmp.Compare(a.Name, b.Name) })
	var last promise
	var floor uint64
	for _, pr := range promises {
		floor = max(floor, pr.Floor)
		if last.At.less(pr.At) {
			last = pr
		}
	}
	switch value := last.Value; {
	case last.At == (ballot{}):
		ps, err := params(cards)
		if err != nil {
			p.pause(now + resend) // ready looked at fewer cards than there are voters
			return
		}
		p.value = Mesh{
			MeshID: m.newMeshID(), Epoch: 1, Params: ps, Founded: floor,
			Grace: !AllLoopback(m.card.Seeds), Roster: members,
		}
	case slices.Equal(value.ids(), unique(p.roster)):
		p.value = value
	default:
		// A founder of that value is dead. No acceptor knows of a decision, so every node
		// that may have learnt of one is dead too, and has let no node join. The mesh stays
		// the same; its founders change, and the tokens of its new tables begin above all
		// that the dead may have granted.
		value.Epoch++
		value.Roster = members
		value.Founded = floor
		value.Grace = true
		p.value = value
	}
	if err := m.cfg.Wants.Fits(m.self.Name, p.value.Params); err != nil {
		m.fail(err)
		return
	}
	p.proposed = true
	p.objection = ""
	m.sendPhase(now)
	m.conclude(now)
}

func (m *Machine) acceptedBy(now time.Duration, from transport.ID, msg accepted) {
	if v := m.proposer.voter(msg.Ballot, from); v != nil && m.proposer.proposed {
		v.accepted = true
		m.conclude(now)
	}
}

// conclude ends phase two once all other acceptors have accepted. This node accepts last:
// while the proposer lives and has not accepted, nothing is decided, and a founder that is
// lost until then costs nothing.
func (m *Machine) conclude(now time.Duration) {
	p := &m.proposer
	n := 1
	for _, v := range p.voters {
		if v.accepted {
			n++
		}
	}
	if n <= len(p.voters) {
		return
	}
	m.finishFounding(now, p.value, p.ballot)
}

func (m *Machine) nacked(now time.Duration, from transport.ID, msg nack) {
	p := &m.proposer
	p.seen = max(p.seen, msg.Promised.Round)
	m.noteHint(now, msg.Hint)
	v := p.voter(msg.Ballot, from)
	switch {
	case v == nil:
	case p.ballot.less(msg.Promised):
		p.tries++
		p.pause(now + m.between(0, 100*time.Millisecond<<min(p.tries, 4)))
	default:
		p.objection = v.card.Name + " " + msg.Why
	}
}
