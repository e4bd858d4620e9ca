package simulate

import (
	"fmt"

	"github.com/cespare/xxhash/v2"

	"github.com/lockmesh/mesh/internal/point"
	"github.com/lockmesh/mesh/simulate/timeline"
)

// sitePrefix begins the names of the parameters that say how often fault points are taken.
const sitePrefix = "site-"

// drawSites draws which of the fault points in the library's code this world takes,
// and how often. The trace does not count these draws: one site more or less leaves the
// worlds alone in which it is off.
func (w *World) drawSites() {
	defer func(before uint64) { w.draws = before }(w.draws)
	sites := point.Sites()
	w.sites = make([]int64, len(sites)+1)
	w.taken = make([]uint64, len(sites)+1)
	for _, s := range sites {
		w.sites[s] = w.sometimes(sitePrefix+s.String()+"-percent", w.climate.sites)
	}
}

// newPoints returns what the nodes of a process ask at their fault points.
func (p *process) newPoints() point.Points {
	w := p.world
	chances := make([]*stream, len(w.sites)) // a stream for each site, made when it is first asked
	return func(s point.Site) bool {
		if w.sites[s] == 0 {
			return false
		}
		if chances[s] == nil {
			chances[s] = w.stream(siteStream<<56 ^ xxhash.Sum64String(fmt.Sprintf("%v/%d", s, p.id))>>8)
		}
		if !chances[s].chance(w.sites[s]*million/100) || w.faultless {
			return false
		}
		w.taken[s]++
		w.note(timeline.Site, p.host.name, "%v", s)
		return true
	}
}
