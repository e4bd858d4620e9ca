package simulate

import (
	"fmt"
	"slices"
	"time"

	"github.com/lockmesh/mesh/internal/seam"
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
// later, until RestoreGossip: their failure detector is slow. What they say is as ever.
//
//	w.DelayGossip("a", 20*time.Second)
func (w *World) DelayGossip(host string, d time.Duration) {
	if d < 0 {
		panic(fmt.Sprintf("simulate: DelayGossip: %v is negative", d))
	}
	h := w.named(host)
	w.RestoreGossip(host)
	h.detector.delay = d
	h.detector.fault = w.fault(host, "news comes to %s %v late", host, d)
}

// SilenceGossip keeps from the nodes of a host everything that gossip tells of others,
// until RestoreGossip: nobody seems to come, to die or to leave.
//
//	w.SilenceGossip("a")
func (w *World) SilenceGossip(host string) {
	h := w.named(host)
	w.RestoreGossip(host)
	h.detector.silent = true
	h.detector.fault = w.fault(host, "no news comes to %s", host)
}

// RestoreGossip ends DelayGossip and SilenceGossip. What was kept is told now.
//
//	w.SilenceGossip("a")
//	w.At(w.Now()+time.Minute, func() { w.RestoreGossip("a") })
func (w *World) RestoreGossip(host string) {
	h := w.named(host)
	d := &h.detector
	if !d.silent && d.delay == 0 {
		return
	}
	w.ended(d.fault, host, "news comes to %s as before", host)
	kept := d.kept
	h.detector = detector{}
	for _, n := range kept {
		w.after(0, n.owner, n.now)
	}
}

// hears returns what gossip has to call in place of events.
func (p *process) hears(events func(seam.MemberEvent)) func(seam.MemberEvent) {
	d, w := &p.host.detector, p.world
	return func(e seam.MemberEvent) {
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
