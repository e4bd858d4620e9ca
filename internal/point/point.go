// Package point names places in the library's code that simulations take part in.
//
// A [Site] is a fault point: at each, a simulation may make something unlikely and
// legal happen (FoundationDB calls it buggify). What a network, a clock or a pause can
// do needs no site.
//
// Nodes carry a *Points, which is nil in every program: then a site costs one
// comparison, and does nothing.
package point

// Points decides for a node which sites are taken. A nil *Points takes none.
type Points struct {
	// Take decides whether the fault of a site happens this time: the site is taken.
	Take func(Site) bool
}

// Taken calls Take, and returns its decision.
func (p *Points) Taken(s Site) bool { return p != nil && p.Take(s) }

// Sites returns all sites.
func Sites() (all []Site) {
	for s := Site(1); s < endOfSites; s++ {
		all = append(all, s)
	}
	return all
}

func (s Site) String() string {
	if s > 0 && s < endOfSites {
		return siteNames[s]
	}
	return "none"
}
