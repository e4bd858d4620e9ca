package simulate

import (
	"time"

	"github.com/lockmesh/mesh/internal/seam"
	"github.com/lockmesh/mesh/simulate/timeline"
	"github.com/lockmesh/mesh/transport"
)

// Gossip is how well news of members travels. It is never an oracle: it is late,
// and wrong whenever the network makes it so, or LieDead or Lies do.
type Gossip struct {
	Lateness time.Duration // mean of what a piece of news takes beyond 200 ms; zero means 400 ms
	Lost     int64         // of a million pieces of news
	Lies     int64         // of a million probes: the probed one is called dead for nothing
}

const (
	probeEvery  = time.Second
	minLateness = 200 * time.Millisecond
	maxLateness = 6 * time.Second
	rememberFor = 30 * time.Second // the dead
	fanOut      = 4
)

// gossip is the model of all nodes' gossip: SWIM in outline, with probes, rumours,
// refutations, and full exchanges now and then.
type gossip struct {
	world   *World
	opts    Gossip
	chance  *stream
	members map[transport.ID]*membership // the living; looked up, never ranged over
}

// membership implements seam.Membership.
type membership struct {
	gossip      *gossip
	process     *process
	self        seam.Member
	events      func(seam.MemberEvent)
	incarnation uint64
	view        map[transport.ID]*acquaintance // looked up, never ranged over
	order       []*acquaintance
	tick        *event
	left        bool
	stopped     bool
}

// acquaintance is what one member believes of another.
type acquaintance struct {
	rumour
	since    time.Duration // true time of the last change
	misses   int
	patience int
}

// rumour is one piece of news.
type rumour struct {
	member      seam.Member
	state       seam.MemberState
	incarnation uint64
}

func newGossip(w *World, opts Gossip) *gossip {
	if opts.Lateness == 0 {
		opts.Lateness = 400 * time.Millisecond
	}
	return &gossip{world: w, opts: opts, chance: w.stream(gossipStream), members: make(map[transport.ID]*membership)}
}

func (g *gossip) add(p *process, self seam.Member, events func(seam.MemberEvent)) *membership {
	m := &membership{gossip: g, process: p, self: self, events: events, view: make(map[transport.ID]*acquaintance)}
	g.members[self.ID] = m
	p.members = append(p.members, m)
	m.again()
	return m
}

func (m *membership) again() {
	d := m.gossip.chance.between(probeEvery*9/10, probeEvery*11/10)
	m.tick = m.gossip.world.after(d, m.process, m.round)
}

// Join implements seam.Membership.
func (m *membership) Join(peers []seam.Member) {
	for _, p := range peers {
		if p.ID != m.self.ID && !m.stopped {
			m.exchange(p.ID)
		}
	}
}

// Leave implements seam.Membership.
func (m *membership) Leave() {
	if !m.left && !m.stopped {
		m.left = true
		m.spread(rumour{m.self, seam.Left, m.incarnation})
	}
}

// Close implements seam.Membership.
func (m *membership) Close() { m.stop() }

func (m *membership) stop() {
	if !m.stopped {
		m.stopped = true
		m.gossip.world.cancel(m.tick)
		delete(m.gossip.members, m.self.ID)
	}
}

// reaches tells whether a probe would be answered.
func (m *membership) reaches(id transport.ID) bool {
	other := m.gossip.members[id]
	if other == nil || other.left || other.process.host.paused {
		return false
	}
	a, b, n := m.process.host, other.process.host, m.gossip.world.net
	return n.open(a, b) && n.open(b, a)
}

// round is what a member does every second.
func (m *membership) round() {
	g := m.gossip
	m.again()
	if m.left {
		return
	}
	var dead []rumour
	for _, a := range m.order {
		if a.state != seam.Alive {
			continue
		}
		switch {
		case m.reaches(a.member.ID):
			a.misses = 0
			if g.chance.chance(g.opts.Lies) {
				dead = append(dead, a.rumour)
			}
		case a.misses == 0:
			a.misses = 1
			a.patience = 1 + int(g.chance.below(5))
		default:
			if a.misses++; a.misses > a.patience {
				dead = append(dead, a.rumour)
			}
		}
	}
	for _, r := range dead {
		r.state = seam.Dead
		m.learn(r)
	}
	kept := m.order[:0]
	for _, a := range m.order {
		if a.state == seam.Dead && g.world.now-a.since > rememberFor {
			delete(m.view, a.member.ID)
		} else {
			kept = append(kept, a)
		}
	}
	clear(m.order[len(kept):])
	m.order = kept
	if len(m.order) > 0 && g.chance.below(8) == 0 {
		m.exchange(m.order[g.chance.below(int64(len(m.order)))].member.ID)
	}
}

// learn takes in a piece of news, reports it, and passes it on.
func (m *membership) learn(r rumour) {
	if m.stopped || m.left {
		return
	}
	if r.member.ID == m.self.ID {
		if r.state != seam.Alive && r.incarnation >= m.incarnation {
			m.incarnation = r.incarnation + 1
			m.spread(rumour{m.self, seam.Alive, m.incarnation})
		}
		return
	}
	a := m.view[r.member.ID]
	switch {
	case a == nil && r.state != seam.Alive:
		return // nothing to unlearn
	case a == nil:
		a = &acquaintance{}
		m.view[r.member.ID] = a
		m.order = append(m.order, a)
	case a.state == seam.Left, r.incarnation < a.incarnation, r.incarnation == a.incarnation && r.state <= a.state:
		return // old
	case r.state == a.state:
		a.incarnation = r.incarnation
		return
	}
	a.rumour, a.misses, a.since = r, 0, m.gossip.world.now
	m.gossip.world.note(timeline.News, m.process.host.name, "hears that %s is %s", r.member.Name, stateNames[r.state])
	m.events(seam.MemberEvent{Member: r.member, State: r.state})
	m.spread(r)
}

var stateNames = [...]string{seam.Alive: "alive", seam.Dead: "dead", seam.Left: "gone"}

// spread tells others, some of them.
func (m *membership) spread(r rumour) {
	g := m.gossip
	start, n := 0, len(m.order)
	if n > fanOut+2 {
		start, n = int(g.chance.below(int64(n))), fanOut
	}
	for i := range n {
		to := m.order[(start+i)%len(m.order)]
		if to.state == seam.Left && to.member.ID != r.member.ID || g.chance.chance(g.opts.Lost) {
			continue
		}
		m.tell(to.member.ID, []rumour{r}, min(minLateness+g.chance.exponential(g.opts.Lateness), maxLateness))
	}
}

// tell sends news to one member.
func (m *membership) tell(id transport.ID, news []rumour, d time.Duration) {
	to, n := m.gossip.members[id], m.gossip.world.net
	if to == nil || !n.open(m.process.host, to.process.host) {
		return
	}
	from := m.process.host
	m.gossip.world.after(d, to.process, func() {
		if n.open(from, to.process.host) {
			for _, r := range news {
				to.learn(r)
			}
		}
	})
}

// exchange gives everything that either knows to the other.
func (m *membership) exchange(id transport.ID) {
	other := m.gossip.members[id]
	if other == nil || !m.reaches(id) {
		return
	}
	m.tell(id, m.all(), m.gossip.chance.between(time.Millisecond, 20*time.Millisecond))
	other.tell(m.self.ID, other.all(), m.gossip.chance.between(time.Millisecond, 20*time.Millisecond))
}

func (m *membership) all() []rumour {
	all := []rumour{{m.self, seam.Alive, m.incarnation}}
	for _, a := range m.order {
		all = append(all, a.rumour)
	}
	return all
}

// LieDead makes the nodes of one host believe, and tell others, that those of
// another are dead.
func (w *World) LieDead(at, victim string) {
	w.fault(lab, "lie: %s calls %s dead", at, victim)
	h, v := w.named(at), w.named(victim)
	if h.process == nil || v.process == nil {
		return
	}
	for _, liar := range h.process.members {
		w.after(0, h.process, func() {
			if v.process == nil {
				return
			}
			for _, m := range v.process.members {
				if a := liar.view[m.self.ID]; a != nil && a.state == seam.Alive {
					r := a.rumour
					r.state = seam.Dead
					liar.learn(r)
				}
			}
		})
	}
}
