package simulate

import (
	"time"

	"github.com/lockmesh/mesh/internal/env"
	"github.com/lockmesh/mesh/simulate/internal/swim"
	"github.com/lockmesh/mesh/simulate/timeline"
	"github.com/lockmesh/mesh/transport"
)

// Gossip says how much later, and how much less reliably, news of members travels than the links alone would let it.
// With all fields zero the simulated gossip is as late as the real one, and as often wrong: it never knows more than that.
type Gossip struct {
	Lateness time.Duration // the mean of what news takes beyond its frame; no news takes more than 6 s beyond it; probes are not delayed
	Lost     int64         // how many of a million pieces of news are lost
	Lies     int64         // after how many of a million probes the probed node is called dead although it lives
}

// gossip is what all nodes' gossip has in common.
type gossip struct {
	*stream
	faults swim.Faults
}

func newGossip(w *World, g Gossip) *gossip {
	return &gossip{stream: w.stream(gossipStream), faults: swim.Faults(g)}
}

// newsStates are what news says of a node.
var newsStates = [...]string{env.Alive: "alive", env.Dead: "dead", env.Left: "gone"}

// member is one node's gossip, and implements swim.World for it.
type member struct {
	*gossip
	*swim.Member
	process *process
	net     *endpoint
	events  func(env.MemberEvent)
}

func (p *process) newMember(self env.Member, net *endpoint, events func(env.MemberEvent)) *member {
	m := &member{gossip: p.world.gossip, process: p, net: net, events: events}
	net.gossip = m
	p.members = append(p.members, m)
	m.Member = swim.New(m, self)
	return m
}

// Close implements env.Membership.
func (m *member) Close() {
	m.Member.Close()
	if m.net.gossip == m {
		m.net.gossip = nil
	}
}

// Now implements swim.World, like those that follow.
func (m *member) Now() time.Duration { return m.process.world.now }

func (m *member) After(d time.Duration, fn func()) swim.Timer {
	w := m.process.world
	return timer{w, w.after(d, m.process, fn)}
}

func (m *member) Send(to transport.ID, class transport.Class, packet []byte) bool {
	return m.net.Send(to, transport.KindGossip, class, packet)
}

func (m *member) Tell(e env.MemberEvent) {
	m.process.world.note(timeline.News, m.process.host.name, "hears that %s is %s", e.Member.Name, newsStates[e.State])
	m.events(e)
}

func (m *member) Dropped(_ transport.ID, err error) {
	m.process.world.note(timeline.Note, m.process.host.name, "WARN gossip: dropped a frame: %v", err)
}

func (m *member) Faults() swim.Faults                          { return m.faults }
func (m *member) Below(n int64) int64                          { return m.below(n) }
func (m *member) Chance(millionths int64) bool                 { return m.chance(millionths) }
func (m *member) Exponential(mean time.Duration) time.Duration { return m.exponential(mean) }

// timer implements swim.Timer.
type timer struct {
	world *World
	event *event
}

func (t timer) Stop()                 { t.world.cancel(t.event) }
func (t timer) Move(at time.Duration) { t.world.schedule(t.event, at) }

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
			if v.process == nil {
				return
			}
			for _, m := range v.process.members {
				liar.Lie(m.Member)
			}
		})
	}
}
