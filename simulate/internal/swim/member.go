// Package swim is a model of package gossip: the protocol of memberlist 0.7 with the settings of package
// gossip, that is, the same probes, suspicions, rumours and exchanges at the same times, in frames over the
// same connections. But rumours are told half as often, so that some members miss them. Package gossip's
// tests run both through the same scripts, and compare.
package swim

import (
	"slices"
	"time"

	"github.com/lockmesh/mesh/internal/env"
	"github.com/lockmesh/mesh/internal/wire"
	"github.com/lockmesh/mesh/transport"
)

const maxLateness = 6 * time.Second

// World is what a member touches.
type World interface {
	Now() time.Duration // true time
	// After calls fn when d has passed, if the member's process lives then.
	After(d time.Duration, fn func()) Timer
	// Send sends a packet, and reports whether there is a connection.
	Send(to transport.ID, class transport.Class, packet []byte) bool
	// Tell tells the member's node of another one.
	Tell(env.MemberEvent)
	// Dropped hears that a packet was of no use.
	Dropped(from transport.ID, err error)
	Faults() Faults

	// Sources of chance: numbers in [0, n), a yes so often in a million times, and times.
	Below(n int64) int64
	Chance(millionths int64) bool
	Exponential(mean time.Duration) time.Duration
}

// Timer is a call that was asked for by World.After.
type Timer interface {
	Stop()
	Move(at time.Duration) // true time
}

// Faults are what is wrong with the news beside what the links do to it.
type Faults struct {
	Lateness time.Duration // mean of what news takes beyond its frame, and no news takes more than 6 s; probes do not wait
	Lost     int64         // of a million pieces of news
	Lies     int64         // of a million probes: the probed one is called dead for nothing
}

// Member is one node's gossip. It implements env.Membership.
type Member struct {
	world   World
	stopped bool
	leaving bool

	self  *acquaintance
	list  []*acquaintance                // all that is known, self too, in the order in which they are probed
	known map[transport.ID]*acquaintance // looked up, never ranged over
	queue rumours
	next  int // in list, the next to be probed

	number uint64 // the last one given to a probe or an exchange
	asked  inquiry
	relays []relay
	talks  []talk

	probeTick, newsTick, syncTick, askTick Timer

	waiting   []transport.ID // peers to make contact with
	underWay  int            // contacts with such
	refreshed time.Duration  // when a living one was contacted last
}

// Settings, as package gossip has them.
const (
	probeInterval  = 400 * time.Millisecond
	probeTimeout   = 200 * time.Millisecond
	gossipInterval = 200 * time.Millisecond
	syncInterval   = 30 * time.Second
	syncScale      = 32 // members; beyond, syncInterval grows
	streamTimeout  = 3 * time.Second
	rememberDead   = 30 * time.Second
	indirectChecks = 3
	gossipNodes    = 3
	maxJoins       = 4
	maxWaiting     = 256
	refreshEvery   = 5 * time.Second
)

// New returns the gossip of a node that knows no other node yet.
func New(w World, self env.Member) *Member {
	m := &Member{world: w, known: make(map[transport.ID]*acquaintance)}
	m.self = &acquaintance{member: self, incarnation: 1}
	m.known[self.ID] = m.self
	m.list = []*acquaintance{m.self}
	m.queue.add(m.self.rumour(alive, self.ID), false)
	m.refreshed = -refreshEvery
	m.probeTick = w.After(probeInterval, m.probeNext)
	m.newsTick = w.After(gossipInterval, m.tellSome)
	m.syncTick = w.After(time.Duration(w.Below(int64(syncInterval)+1))+m.syncEvery(), m.syncSome)
	return m
}

func (m *Member) after(d time.Duration, fn func()) Timer { return m.world.After(d, fn) }

func (m *Member) now() time.Duration { return m.world.Now() }

// Leave implements env.Membership.
func (m *Member) Leave() {
	if m.leaving || m.stopped {
		return
	}
	m.leaving = true
	for _, a := range m.list {
		if a.told == env.Alive && a.introduced {
			m.send(a.member.ID, packet{kind: leave})
		}
	}
	m.self.incarnation++
	m.self.leaving = true
	m.queue.add(m.self.rumour(alive, m.self.member.ID), false)
}

// Close implements env.Membership.
func (m *Member) Close() {
	if m.stopped {
		return
	}
	m.stopped = true
	for _, t := range []Timer{m.probeTick, m.newsTick, m.syncTick, m.askTick} {
		if t != nil {
			t.Stop()
		}
	}
	for _, c := range m.talks {
		c.timeout.Stop()
	}
	for _, a := range m.list {
		m.clear(a)
	}
	m.talks, m.waiting = nil, nil
}

// Join implements env.Membership. Only some of the living are contacted again.
func (m *Member) Join(peers []env.Member) {
	if m.leaving || m.stopped {
		return
	}
	for _, p := range peers {
		if p.ID == 0 || p.ID == m.self.member.ID {
			continue
		}
		if a := m.known[p.ID]; a != nil && a.introduced && a.told == env.Alive {
			if m.now()-m.refreshed < refreshEvery {
				continue
			}
			m.refreshed = m.now()
		}
		contacted := slices.ContainsFunc(m.talks, func(c talk) bool { return c.joins && c.peer == p.ID })
		if !contacted && len(m.waiting) < maxWaiting && !slices.Contains(m.waiting, p.ID) {
			m.waiting = append(m.waiting, p.ID)
		}
	}
	m.contact()
}

// contact makes contact with the members that wait for it, a few at a time and in any order.
func (m *Member) contact() {
	for m.underWay < maxJoins && len(m.waiting) > 0 {
		i := m.world.Below(int64(len(m.waiting)))
		id := m.waiting[i]
		m.waiting = slices.Delete(m.waiting, int(i), int(i)+1)
		m.exchange(id, true)
	}
}

// talk is an exchange under way.
type talk struct {
	number  uint64
	peer    transport.ID
	joins   bool
	timeout Timer
}

// exchange gives everything that either knows to the other.
func (m *Member) exchange(id transport.ID, joins bool) {
	m.number++
	c := talk{number: m.number, peer: id, joins: joins}
	if !m.send(id, packet{kind: pull, number: c.number, rumours: m.all()}) {
		return
	}
	if joins {
		m.underWay++
	}
	c.timeout = m.after(streamTimeout, func() { m.hungUp(c.number) })
	m.talks = append(m.talks, c)
}

// hungUp is the end of an exchange, and tells whether it was under way.
func (m *Member) hungUp(number uint64) bool {
	i := slices.IndexFunc(m.talks, func(c talk) bool { return c.number == number })
	if i < 0 {
		return false
	}
	c := m.talks[i]
	c.timeout.Stop()
	m.talks = slices.Delete(m.talks, i, i+1)
	if c.joins {
		m.underWay--
		m.contact()
	}
	return true
}

// send puts a packet into a frame, and reports whether there was a connection.
func (m *Member) send(to transport.ID, p packet) bool {
	class := transport.Urgent
	if p.kind == pull || p.kind == push {
		class = transport.Normal
	}
	return m.world.Send(to, class, wire.Append(nil, &p))
}

// Receive takes a packet. It drops one that it cannot read, as package gossip does.
func (m *Member) Receive(from transport.ID, body []byte) {
	p, err := readPacket(body)
	if err != nil {
		m.world.Dropped(from, err)
		return
	}
	if len(p.rumours) > 0 {
		m.hear(p)
	}
	switch p.kind {
	case ping:
		m.answer(from, packet{kind: ack, number: p.number})
	case ack:
		m.acknowledged(p.number)
	case ask:
		m.relay(from, p)
	case pull:
		m.send(from, packet{kind: push, number: p.number, rumours: m.all()})
		m.later(func() { m.merge(p.rumours) })
	case push:
		if m.hungUp(p.number) {
			m.later(func() { m.merge(p.rumours) })
		}
	case leave:
		if a := m.known[from]; a != nil && a.introduced && a.told == env.Alive {
			m.tell(a, env.Left)
		}
	}
}

// answer sends a packet with as much news as there is room for.
func (m *Member) answer(to transport.ID, p packet) {
	p.rumours = m.queue.take(len(m.list))
	m.send(to, p)
}

// hear takes the news in a packet, some time after it has come.
func (m *Member) hear(p packet) {
	if p.kind == pull || p.kind == push {
		return
	}
	news := p.rumours
	if lost := m.world.Faults().Lost; lost > 0 {
		news = slices.DeleteFunc(news, func(rumour) bool { return m.world.Chance(lost) })
	}
	m.later(func() {
		// News of the living is heard first, and later news before older.
		for _, first := range []bool{true, false} {
			for _, r := range slices.Backward(news) {
				if (r.belief == alive) == first {
					m.learn(r)
				}
			}
		}
	})
}

// later calls fn when late news has come.
func (m *Member) later(fn func()) {
	d := min(m.world.Exponential(m.world.Faults().Lateness), maxLateness)
	if d == 0 {
		fn()
		return
	}
	m.after(d, func() {
		if !m.stopped {
			fn()
		}
	})
}

// tell passes on what is new of a member.
func (m *Member) tell(a *acquaintance, state env.MemberState) {
	a.introduced, a.told = state != env.Dead, state
	m.world.Tell(env.MemberEvent{Member: a.member, State: state})
}

// Lie makes the member believe, and tell others, that another one is dead.
func (m *Member) Lie(victim *Member) {
	if a := m.known[victim.self.member.ID]; a != nil && !m.stopped {
		m.learn(a.rumour(dead, m.self.member.ID))
	}
}
