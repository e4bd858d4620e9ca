package simulate

import (
	"fmt"
	"slices"
	"time"

	"github.com/lockmesh/mesh/internal/env"
)

// detector is what stands between a host's nodes and the news that gossip has of other
// nodes: nothing, a delay, or silence. News is late, and never lost: see Gossip.Lost and
// LieDead for news that is lost or wrong.
type detector struct {
	delay  time.Duration
	silent bool
	fault  int
	kept   []*untold // in order: what is still to be told
}

// untold is one piece of news.
type untold struct {
	owner *process
	tell  func()
	told  bool
}

// now tells it, unless it was told.
func (n *untold) now() {
	if !n.told {
		n.told = true
		n.tell()
	}
}

// DelayGossip makes the nodes of a host hear everything that gossip tells of others d
// later, until RestoreGossip: their failure detector is slow. What they say is as ever. Zero ends it.
//
//	w.Host("a").DelayGossip(20*time.Second)
func (h *Host) DelayGossip(d time.Duration) {
	h.exists()
	if d < 0 {
		panic(fmt.Sprintf("simulate: DelayGossip: %v is negative", d))
	}
	if h.RestoreGossip(); d == 0 {
		return
	}
	h.detector.delay = d
	h.detector.fault = h.world.fault(h.name, "news comes to %s %v late", h.name, d)
}

// SilenceGossip keeps from the nodes of a host everything that gossip tells of others,
// until RestoreGossip: no host seems to come, to die or to leave.
//
//	w.Host("a").SilenceGossip()
func (h *Host) SilenceGossip() {
	h.exists()
	h.RestoreGossip()
	h.detector.silent = true
	h.detector.fault = h.world.fault(h.name, "no news comes to %s", h.name)
}

// RestoreGossip ends DelayGossip and SilenceGossip. What was kept is told now.
//
//	w.Host("a").SilenceGossip()
//	w.At(w.Now()+time.Minute, func() { w.Host("a").RestoreGossip() })
func (h *Host) RestoreGossip() {
	h.exists()
	d := &h.detector
	if !d.silent && d.delay == 0 {
		return
	}
	h.world.ended(d.fault, h.name, "news comes to %s as before", h.name)
	kept := d.kept
	h.detector = detector{}
	for _, n := range kept {
		h.world.after(0, n.owner, n.now)
	}
}

// hears returns what gossip has to call in place of events.
func (p *process) hears(events func(env.MemberEvent)) func(env.MemberEvent) {
	d, w := &p.host.detector, p.world
	return func(e env.MemberEvent) {
		if !d.silent && d.delay == 0 {
			events(e)
			return
		}
		n := &untold{owner: p, tell: func() { events(e) }}
		d.kept = append(slices.DeleteFunc(d.kept, func(n *untold) bool { return n.told }), n)
		if !d.silent {
			w.after(d.delay, p, n.now)
		}
	}
}
