// Package point names places in the library's code that simulations take part in.
//
// A [Site] is a fault point: at each, a simulation may make something unlikely and
// legal happen (FoundationDB calls it buggify). What a network, a clock or a pause can
// do needs no site.
package point

// Points decides for a node which sites are taken: whether a site's fault happens this time. It
// is nil in every program: then a site costs one comparison, and does nothing.
type Points func(Site) bool

// Taken reports whether a site is taken.
func (p Points) Taken(s Site) bool { return p != nil && p(s) }

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
