package founding

import (
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/lockmesh/mesh/internal/env"
	"github.com/lockmesh/mesh/internal/fault"
	"github.com/lockmesh/mesh/transport"
)

const (
	dialMin    = 300 * time.Millisecond // between two attempts at one address, at random; loopback: a sixth
	dialMax    = 1000 * time.Millisecond
	meshMemory = 10 * time.Second // how long a mesh counts as living after its last sign of life
	maxTargets = 64
)

// seed is one listed address, and the node that answers there.
type seed struct {
	addr  string
	id    transport.ID // of the node that answered last; zero: none yet
	since time.Duration
	known bool // card is what id sent
	card  card
	// reached: the node also answers at the address that it advertises (P31).
	reached bool
	former  transport.ID // answered before id and is still connected; zero: none
	err     string       // why the last attempt failed

	next time.Duration
}

// target is a member of a living mesh or, with a zero ID, an address at which another node
// met one.
type target struct {
	id   transport.ID
	addr string
	mesh uint64
	name string // the mesh's
	seed bool   // it answers at a listed address
	seen time.Duration
	next time.Duration // when to dial it again
}

// search does what is due while this node looks for a mesh.
func (m *Machine) search(now time.Duration) {
	for i := range m.seeds {
		s := &m.seeds[i]
		if !m.isUp(s.former) {
			s.former = 0
		}
		if now < s.next {
			continue
		}
		s.next = env.Never // until Dialed
		m.dial(now, s.addr)
		if s.known && !s.reached && s.card.Addr != "" {
			m.dial(now, s.card.Addr)
		}
	}
	m.targets = slices.DeleteFunc(m.targets, func(t target) bool {
		return now >= t.seen+meshMemory && !m.isUp(t.id)
	})
	for i := range m.targets {
		if t := &m.targets[i]; now >= t.next && !m.isUp(t.id) && t.addr != "" {
			t.next = env.Never
			m.dial(now, t.addr)
		}
	}
	if m.checkAgreement(); m.phase != searching {
		return
	}
	m.askToJoin(now)
	m.propose(now)
}

func (m *Machine) searchDeadline() time.Duration {
	next := min(m.joining.deadline(), m.proposer.deadline())
	for _, s := range m.seeds {
		next = min(next, s.next)
	}
	for _, t := range m.targets {
		if !m.isUp(t.id) {
			next = min(next, t.seen+meshMemory)
			if t.addr != "" {
				next = min(next, t.next)
			}
		}
	}
	return next
}

// pace draws the time until the next attempt at an address.
func (m *Machine) pace() time.Duration {
	if AllLoopback(m.card.Seeds) {
		return m.between(dialMin/6, dialMax/6)
	}
	return m.between(dialMin, dialMax)
}

func (m *Machine) ask(id transport.ID) {
	m.seq++
	m.send(id, ask{Seq: m.seq, card: m.card})
}

// seedDialed handles the outcome of a dial of a listed address.
func (m *Machine) seedDialed(now time.Duration, addr string, peer transport.Hello, err error) {
	for i := range m.seeds {
		s := &m.seeds[i]
		if addr == s.card.Addr && err == nil && peer.ID == s.id {
			s.reached = true
		}
		if s.addr != addr {
			continue
		}
		s.next = now + m.pace()
		var refused *transport.RefusedError
		if errors.As(err, &refused) {
			peer = refused.Peer
		}
		switch {
		case peer.ID == m.self.ID:
			if s.id != m.self.ID {
				s.id, s.since, s.known, s.card, s.reached = m.self.ID, now, true, m.card, true
			}
		case err != nil:
			s.err = err.Error()
			if refused != nil {
				if err := CheckHello(m.hello(), peer); err != nil {
					m.fail(err)
				}
			}
		case s.id == m.self.ID:
			m.fail(fmt.Errorf("%w: the seed %s is answered by this node and by node %q at %s: list every node by an address of its own",
				fault.ErrInvalidOption, addr, peer.Name, peer.Addr))
		default:
			s.err = ""
			if s.id != peer.ID {
				if s.id != 0 {
					m.log(slog.LevelInfo, "another node answers at a seed",
						slog.String("seed", addr), slog.String("node", peer.Name), slog.String("id", peer.ID.String()))
					s.former = 0
					if m.isUp(s.id) {
						s.former = s.id
					}
					// Its predecessor must be dead; what was known of it does not count any more.
					old := s.id
					m.targets = slices.DeleteFunc(m.targets, func(t target) bool { return t.id == old })
				}
				s.id, s.since, s.known, s.card, s.reached = peer.ID, now, false, card{}, peer.Addr == addr
			}
			if peer.MeshID != 0 {
				m.noteMember(now, target{id: peer.ID, addr: addr, mesh: peer.MeshID, name: peer.MeshName})
			}
			m.ask(peer.ID)
		}
	}
}

// targetDialed handles the outcome of a dial of an address where a member of a living mesh is
// expected.
func (m *Machine) targetDialed(now time.Duration, addr string, peer transport.Hello, err error) {
	for i := range m.targets {
		if t := &m.targets[i]; t.addr == addr {
			t.next = now + m.pace()
		}
	}
	if err == nil && peer.ID != m.self.ID && peer.MeshID != 0 {
		m.noteMember(now, target{id: peer.ID, addr: addr, mesh: peer.MeshID, name: peer.MeshName})
	}
}

func (m *Machine) hello() transport.Hello {
	return transport.Hello{MeshName: m.cfg.Wants.MeshName, Name: m.self.Name}
}

// noteMember notes that t is in a mesh.
func (m *Machine) noteMember(now time.Duration, t target) {
	if len(t.addr) > maxString {
		t.addr = ""
	}
	t.seen = now
	t.next = now + m.pace()
	if i := slices.IndexFunc(m.seeds, func(s seed) bool { return s.id == t.id }); i >= 0 {
		t.seed, t.addr = true, m.seeds[i].addr
	}
	if w := m.cfg.Wants.MeshName; w != "" && t.name != "" && t.name != w {
		if t.seed {
			m.fail(fmt.Errorf("%w: node %q asks for the mesh name %q, the seed %s is in mesh %q", fault.ErrForeignMesh, m.self.Name, w, t.addr, t.name))
		}
		return
	}
	for i := range m.targets {
		if old := &m.targets[i]; old.id == t.id {
			if t.addr == "" {
				t.addr = old.addr
			}
			*old = t
			return
		}
	}
	if len(m.targets) < maxTargets {
		m.log(slog.LevelInfo, "found a living mesh",
			slog.String("mesh", t.name), slog.String("member", t.id.String()), slog.String("addr", t.addr))
		m.targets = append(m.targets, t)
	}
}

// noteHint notes that another node met a living mesh at addr, so that addr is dialled.
func (m *Machine) noteHint(now time.Duration, addr string) {
	if addr == "" || len(m.targets) >= maxTargets {
		return
	}
	if !slices.ContainsFunc(m.targets, func(t target) bool { return t.addr == addr }) {
		m.targets = append(m.targets, target{addr: addr, seen: now, next: now})
	}
}

// hint returns the address of a member of a living mesh that this node knows, or "".
func (m *Machine) hint() string {
	for _, t := range m.targets {
		if m.usable(t) && m.isUp(t.id) {
			return t.addr
		}
	}
	return ""
}

// usable reports whether t is in a mesh that this node would join.
//
// A node that has accepted a value must not give it up, since it may have been decided: the
// node joins no other mesh, unless a seed is in that mesh. Then the founder that was at that
// seed is dead, or has itself given the value up by joining that mesh.
func (m *Machine) usable(t target) bool {
	a := &m.acceptor
	return t.mesh != 0 &&
		(a.at == (ballot{}) || a.value.MeshID == t.mesh || t.seed)
}

// living reports whether this node knows of a living mesh that it would join.
func (m *Machine) living() bool { return slices.ContainsFunc(m.targets, m.usable) }

// searcherMessage handles what arrives while this node looks for a mesh.
func (m *Machine) searcherMessage(now time.Duration, from transport.ID, msg message) {
	switch msg := msg.(type) {
	case ask:
		m.send(from, answer{Seq: msg.Seq, Hint: m.hint(), card: m.card})
		m.storeCard(from, msg.card)
	case answer:
		m.storeCard(from, msg.card)
		m.noteHint(now, msg.Hint)
	case living:
		m.noteMember(now, target{id: from, mesh: msg.ID, name: msg.Name})
	case prepare:
		m.prepare(now, from, msg)
	case promise:
		m.promised(now, from, msg)
	case nack:
		m.nacked(now, from, msg)
	case accept:
		m.accept(now, from, msg)
	case accepted:
		m.acceptedBy(now, from, msg)
	case decide:
		m.decision(now, from, msg)
	case welcome:
		m.welcomed(now, from, msg)
	case refuse:
		m.refused(now, from, msg)
	}
}

// storeCard stores the card that a seed sent.
func (m *Machine) storeCard(from transport.ID, c card) {
	for i := range m.seeds {
		if s := &m.seeds[i]; s.id == from {
			s.known, s.card = true, c
		}
	}
}

// listed reports whether this node answers at one of the seeds.
func (m *Machine) listed() bool {
	return slices.ContainsFunc(m.seeds, func(s seed) bool { return s.id == m.self.ID })
}

// answered reports whether a node answers at s, and is connected or this node.
func (m *Machine) answered(s *seed) bool {
	return s.id == m.self.ID || m.isUp(s.id)
}

// lists reports whether this node lists exactly these seeds.
func (m *Machine) lists(seeds []string) bool {
	return slices.Equal(seeds, m.card.Seeds)
}

// checkAgreement fails the Machine if this node and another founder can never found together.
// A node that is not listed takes no part in a founding, and need not agree.
func (m *Machine) checkAgreement() {
	if !m.listed() {
		return
	}
	for i := range m.seeds {
		s := &m.seeds[i]
		if !s.known || s.id == m.self.ID || !m.answered(s) {
			continue
		}
		if slices.ContainsFunc(m.targets, func(t target) bool { return t.id == s.id }) {
			continue // it is in a mesh by now, and that mesh's parameters count
		}
		c := s.card
		err := m.cfg.Wants.Agrees(m.self.Name, c.Wants, fmt.Sprintf("node %q", c.Name))
		if err == nil {
			err = c.Wants.Agrees(c.Name, m.cfg.Wants, fmt.Sprintf("node %q", m.self.Name))
		}
		switch {
		case !m.lists(c.Seeds):
			m.fail(fmt.Errorf("%w: founders must list the same seeds: node %q lists %q, node %q at %s lists %q",
				fault.ErrInvalidOption, m.self.Name, m.card.Seeds, c.Name, s.addr, c.Seeds))
		case err != nil:
			m.fail(err)
		case c.Name == m.self.Name:
			m.fail(fmt.Errorf("%w: %q, by the founder at %s", fault.ErrNameTaken, c.Name, s.addr))
		}
	}
}

// ready reports whether this node may propose now, and if not, when time alone may change
// that. Every listed seed must be connected and agree. Each must have been there for long
// enough for a living mesh to reach it, and no mesh must be known. The connected seeds all
// list the same seeds: see checkAgreement.
func (m *Machine) ready(now time.Duration) (bool, time.Duration) {
	if !m.listed() || m.living() {
		return false, env.Never
	}
	var cards []card
	var names []string
	agree := 0
	quiet := m.start
	for i, s := range m.seeds {
		if !m.answered(&s) || !s.known || !s.reached || s.former != 0 {
			continue
		}
		agree++
		quiet = max(quiet, s.since)
		if !slices.ContainsFunc(m.seeds[:i], func(o seed) bool { return o.id == s.id }) {
			cards = append(cards, s.card)
			names = append(names, s.card.Name)
		}
	}
	if agree < len(m.seeds) {
		return false, env.Never
	}
	slices.Sort(names)
	if len(slices.Compact(names)) < len(cards) {
		return false, env.Never
	}
	if _, err := params(cards); err != nil {
		return false, env.Never
	}
	return now >= quiet+m.listen, quiet + m.listen
}
