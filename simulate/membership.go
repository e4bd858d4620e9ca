package simulate

import (
	"slices"
	"time"

	"github.com/lockmesh/mesh/internal/env"
	"github.com/lockmesh/mesh/simulate/timeline"
	"github.com/lockmesh/mesh/transport"
)

// Gossip is how much worse news of members travels than the links let it. It is
// never an oracle: without any of these it is as late as the real gossip is, and
// as wrong.
type Gossip struct {
	Lateness time.Duration // mean of what news takes beyond its frame, up to 6 s; probes do not wait
	Lost     int64         // of a million pieces of news
	Lies     int64         // of a million probes: the probed one is called dead for nothing
}

const maxLateness = 6 * time.Second

// gossip is what all nodes' gossip has in common.
//
// The model is the protocol of memberlist 0.7 with the settings of package gossip:
// the same probes, suspicions, rumours and exchanges at the same times, in frames
// over the same connections. Package gossip's tests run both through the same
// scripts, and compare.
type gossip struct {
	world  *World
	opts   Gossip
	chance *stream
}

func newGossip(w *World, opts Gossip) *gossip {
	return &gossip{world: w, opts: opts, chance: w.stream(gossipStream)}
}

// membership implements env.Membership.
type membership struct {
	gossip  *gossip
	process *process
	net     *endpoint
	events  func(env.MemberEvent)
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

	probeTick, newsTick, syncTick, askTick *event

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

func (g *gossip) add(p *process, self env.Member, net *endpoint, events func(env.MemberEvent)) *membership {
	m := &membership{gossip: g, process: p, net: net, events: events, known: make(map[transport.ID]*acquaintance)}
	m.self = &acquaintance{member: self, incarnation: 1}
	m.known[self.ID] = m.self
	m.list = []*acquaintance{m.self}
	m.queue.add(m.self.rumour(alive, self.ID), false)
	m.refreshed = -refreshEvery
	net.gossip = m
	p.members = append(p.members, m)
	m.probeTick = m.after(probeInterval, m.probeNext)
	m.newsTick = m.after(gossipInterval, m.tellSome)
	m.syncTick = m.after(g.chance.between(0, syncInterval)+m.syncEvery(), m.syncSome)
	return m
}

func (m *membership) after(d time.Duration, fn func()) *event {
	return m.gossip.world.after(d, m.process, fn)
}

func (m *membership) now() time.Duration { return m.gossip.world.now }

// Leave implements env.Membership.
func (m *membership) Leave() {
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
func (m *membership) Close() { m.stop() }

func (m *membership) stop() {
	if m.stopped {
		return
	}
	m.stopped = true
	w := m.gossip.world
	for _, ev := range []*event{m.probeTick, m.newsTick, m.syncTick, m.askTick} {
		if ev != nil {
			w.cancel(ev)
		}
	}
	for _, c := range m.talks {
		w.cancel(c.timeout)
	}
	for _, a := range m.list {
		m.clear(a)
	}
	m.talks, m.waiting = nil, nil
	if m.net.gossip == m {
		m.net.gossip = nil
	}
}

// Join implements env.Membership. Only some of the living are contacted again.
func (m *membership) Join(peers []env.Member) {
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

// contact makes contact with those who wait for it, a few at a time and in any order.
func (m *membership) contact() {
	for m.underWay < maxJoins && len(m.waiting) > 0 {
		i := m.gossip.chance.below(int64(len(m.waiting)))
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
	timeout *event
}

// exchange gives everything that either knows to the other.
func (m *membership) exchange(id transport.ID, joins bool) {
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
func (m *membership) hungUp(number uint64) bool {
	i := slices.IndexFunc(m.talks, func(c talk) bool { return c.number == number })
	if i < 0 {
		return false
	}
	c := m.talks[i]
	m.gossip.world.cancel(c.timeout)
	m.talks = slices.Delete(m.talks, i, i+1)
	if c.joins {
		m.underWay--
		m.contact()
	}
	return true
}

// send puts a packet into a frame, and reports whether there was a connection.
func (m *membership) send(to transport.ID, p packet) bool {
	class := transport.Urgent
	if p.kind == pull || p.kind == push {
		class = transport.Normal
	}
	return m.net.Send(to, transport.KindGossip, class, p.append(nil))
}

// receive takes a frame.
func (m *membership) receive(from transport.ID, body []byte) {
	p, err := readPacket(body)
	if err != nil {
		m.gossip.world.Fail(err)
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
func (m *membership) answer(to transport.ID, p packet) {
	p.rumours = m.queue.take(len(m.list))
	m.send(to, p)
}

// hear takes the news in a packet, some time after it has come.
func (m *membership) hear(p packet) {
	if p.kind == pull || p.kind == push {
		return
	}
	g := m.gossip
	news := p.rumours
	if g.opts.Lost > 0 {
		news = slices.DeleteFunc(news, func(rumour) bool { return g.chance.chance(g.opts.Lost) })
	}
	m.later(func() {
		// Whoever says that it lives is heard first, and the latest news before older.
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
func (m *membership) later(fn func()) {
	g := m.gossip
	d := min(g.chance.exponential(g.opts.Lateness), maxLateness)
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
func (m *membership) tell(a *acquaintance, state env.MemberState) {
	a.introduced, a.told = state != env.Dead, state
	m.gossip.world.note(timeline.News, m.process.host.name, "hears that %s is %s", a.member.Name, stateNames[state])
	m.events(env.MemberEvent{Member: a.member, State: state})
}

var stateNames = [...]string{env.Alive: "alive", env.Dead: "dead", env.Left: "gone"}

// LieDead makes the nodes of the host believe, and tell others, that those of another one
// are dead.
//
//	w.Host("a").LieDead("b") // b answers soon; meanwhile its fellows may have acted on it
func (h *Host) LieDead(victim string) {
	h.exists()
	w := h.world
	v := w.named(victim)
	w.struck(lab, "lie: %s calls %s dead", h.name, victim)
	if h.process == nil || v.process == nil {
		return
	}
	for _, liar := range h.process.members {
		w.after(0, h.process, func() {
			if v.process == nil || liar.stopped {
				return
			}
			for _, m := range v.process.members {
				if a := liar.known[m.self.member.ID]; a != nil {
					liar.learn(a.rumour(dead, liar.self.member.ID))
				}
			}
		})
	}
}
