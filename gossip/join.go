package gossip

import (
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/lockmesh/mesh/transport"
)

const (
	maxJoins     = 4   // contacts under way; one with a silent peer lasts streamTimeout
	maxWaiting   = 256 // peers to be contacted; more are ignored, and later calls add them
	refreshEvery = 5 * time.Second
)

// joiner contacts peers in the background. It has goroutines only while there are peers
// to contact; stop ends them.
type joiner struct {
	contact func(transport.ID)
	alive   func(transport.ID) bool

	mu        sync.Mutex
	stopped   bool
	waiting   []transport.ID
	underWay  []transport.ID
	refreshed time.Time // when a living peer was last contacted
	done      sync.WaitGroup
}

func newJoiner(contact func(transport.ID), alive func(transport.ID) bool) *joiner {
	return &joiner{contact: contact, alive: alive}
}

// add requests contact with id. A peer that is alive most likely knows this node, so it
// need not be contacted. But it may have forgotten this node, so one living peer is
// contacted every refreshEvery nevertheless.
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

// next moves a random peer from waiting to underWay. In a fixed order, a node that is
// asked again and again to join many peers might wait for the same silent ones each time.
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
		if len(j.waiting) == 0 { // as after stop
			j.mu.Unlock()
			return
		}
		id = j.next()
		j.mu.Unlock()
	}
}

// stop drops the waiting peers, and returns when no contact is under way.
func (j *joiner) stop() {
	j.mu.Lock()
	j.stopped = true
	j.waiting = nil
	j.mu.Unlock()
	j.done.Wait()
}
