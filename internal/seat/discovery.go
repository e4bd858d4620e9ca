package seat

import (
	"errors"
	"fmt"
	"time"

	"github.com/lockmesh/mesh/internal/env"
	"github.com/lockmesh/mesh/internal/founding"
)

// Discover asks for contact points, and for exactly one call of Discovered, however long that takes.
type Discover struct{}

func (Discover) isOutput() {}

const (
	// discoverEvery is the time between the end of one search for contact points and the next one, at least.
	discoverEvery = 5 * time.Second
	// DiscoverLimit is for how long a search may take. One that takes longer is waited for: there are never two.
	DiscoverLimit = 10 * time.Second
)

// discovery is a client's search for contact points.
type discovery struct {
	points []string      // found last
	err    error         // why the last search failed
	runs   bool          // a search is under way
	begun  time.Duration // when the last one began
	next   time.Duration // no search begins before
}

// Discovered reports the outcome of a Discover. Points are contact points beside Config.List, in place of those found
// before; after an error these stay. They are host:port; what is beyond 64 does not count.
func (m *Machine) Discovered(now time.Duration, points []string, err error, out []Output) []Output {
	return m.input(now, out, func() {
		d := &m.discovery
		d.runs, d.next, d.err = false, now+discoverEvery, err
		if err == nil {
			d.points = founding.Normalise(points)
			d.points = d.points[:min(len(d.points), maxEntries)]
			var l limits
			if len(d.points) == 0 {
				d.err = errors.New("it found none")
			} else if l.list(d.points); l.broken != "" {
				d.points, d.err = nil, errors.New(l.broken)
			}
		}
	})
}

// discover begins a search, if it is time: this node knows of no mesh that serves.
func (m *Machine) discover(now time.Duration) {
	if d := &m.discovery; now >= m.discoverAt() {
		d.runs, d.begun = true, now
		m.emit(Discover{})
	}
}

// discoverAt returns when the next search is to begin, or env.Never.
func (m *Machine) discoverAt() time.Duration {
	if d := &m.discovery; m.cfg.Discovers && m.waiting.why != nil && !d.runs {
		return d.next
	}
	return env.Never
}

// discoveryTrouble says what is wrong with the search, or returns nil.
func (m *Machine) discoveryTrouble(now time.Duration) error {
	switch d := &m.discovery; {
	case d.runs && now >= d.begun+2*DiscoverLimit:
		return fmt.Errorf("discovery of contact points: a call that was to end after %v has not returned", DiscoverLimit)
	case d.err != nil:
		return fmt.Errorf("discovery of contact points: %w", d.err)
	}
	return nil
}
