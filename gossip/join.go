package gossip

import (
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/lockmesh/mesh/transport"
)

const (
	maxJoins     = 4   // contacts under way; one with a silent peer takes streamTimeout
	maxWaiting   = 256 // peers that wait for their contact; later calls bring the others
	refreshEvery = 5 * time.Second
)

// joiner makes contact with peers in the background. It has goroutines only while
// there is something to do; stop ends them.
type joiner struct {
	contact func(transport.ID)
	alive   func(transport.ID) bool

	mu        sync.Mutex
	stopped   bool
	waiting   []transport.ID
	underWay  []transport.ID
	refreshed time.Time // when a living peer was contacted last
	done      sync.WaitGroup
}

func newJoiner(contact func(transport.ID), alive func(transport.ID) bool) *joiner {
	return &joiner{contact: contact, alive: alive}
}

// add asks for contact with id. One that is alive knows us, most likely; since it may
// have forgotten us, some living peer is contacted every refreshEvery nevertheless.
func (j *joiner) add(id transport.ID) {
	alive := j.alive(id)
	j.mu.Lock()
	defer j.mu.Unlock()
	if alive {
		if time.Since(j.refreshed) < refreshEvery {
			return
		}
		j.refreshed = time.Now()
	}
	if j.stopped || len(j.waiting) == maxWaiting || slices.Contains(j.waiting, id) || slices.Contains(j.underWay, id) {
		return
	}
	j.waiting = append(j.waiting, id)
	if len(j.underWay) < maxJoins {
		id := j.next()
		j.done.Go(func() { j.run(id) })
	}
}

// next moves one peer from waiting to underWay. Which one is left to chance: whoever
// is asked to join many that are silent must not wait for them in the same order
// again and again.
func (j *joiner) next() transport.ID {
	i := rand.IntN(len(j.waiting))
	id := j.waiting[i]
	j.waiting = slices.Delete(j.waiting, i, i+1)
	j.underWay = append(j.underWay, id)
	return id
}

func (j *joiner) run(id transport.ID) {
	for {
		j.contact(id)
		j.mu.Lock()
		j.underWay = slices.DeleteFunc(j.underWay, func(other transport.ID) bool { return other == id })
		if j.stopped || len(j.waiting) == 0 {
			j.mu.Unlock()
			return
		}
		id = j.next()
		j.mu.Unlock()
	}
}

// stop forgets who waits, and returns when no contact is under way.
func (j *joiner) stop() {
	j.mu.Lock()
	j.stopped = true
	j.waiting = nil
	j.mu.Unlock()
	j.done.Wait()
}
