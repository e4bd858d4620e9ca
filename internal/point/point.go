// Package point names places in the library's code that simulations take part in.
//
// A [Site] is a fault point: at each, a simulation may make something unlikely and
// legal happen (FoundationDB calls it buggify). A [Mark] is a rare situation that
// searches must have met, or they prove little (a sometimes-assertion).
//
// Nodes carry a *Points, which is nil in every program: then a site costs one
// comparison, and does nothing.
package point

import "slices"

// Points is how a node asks whether a site is taken, and tells which marks it met.
// A nil *Points takes no site and ignores marks.
type Points struct {
	// Take decides whether a site is taken this time.
	Take func(Site) bool
	// Meet hears of marks.
	Meet func(Mark)
}

// Taken reports whether the site is taken this time.
func (p *Points) Taken(s Site) bool { return p != nil && p.Take(s) }

// Reach says that the situation of the mark has come about.
func (p *Points) Reach(m Mark) {
	if p != nil {
		p.Meet(m)
	}
}

// Sites returns all sites.
func Sites() (all []Site) {
	for s := Site(1); s < endOfSites; s++ {
		all = append(all, s)
	}
	return all
}

// ParseSite returns the site of that name.
func ParseSite(name string) (Site, bool) {
	i := slices.Index(siteNames[:], name)
	return Site(max(i, 0)), i > 0
}

func (s Site) String() string {
	if s > 0 && s < endOfSites {
		return siteNames[s]
	}
	return "none"
}

// Marks returns all marks.
func Marks() (all []Mark) {
	for m := Mark(1); m < endOfMarks; m++ {
		all = append(all, m)
	}
	return all
}

func (m Mark) String() string {
	if m > 0 && m < endOfMarks {
		return markNames[m]
	}
	return "none"
}
