package node

import (
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lockmesh/mesh/internal/env"
	"github.com/lockmesh/mesh/internal/fault"
)

const (
	pulseEvery = time.Second
	maxMissed  = 10 // turns of the pulse that a loop may miss
)

// pulse notices loops that hang, for probes. From the first question on it gives each loop something to do once a
// second, on a loop of its own, and counts how many of its own turns pass until that is done. So a pause of the whole
// process is one turn, after which no loop counts as one that hangs.
type pulse struct {
	node  *Node
	beats [2]beat

	mu   sync.Mutex
	loop env.Loop // nil: nobody has asked yet
	down bool
}

// beat is what the pulse knows of one loop.
type beat struct {
	name   string
	post   func(done func())
	under  atomic.Bool  // the loop has something to do
	missed atomic.Int32 // turns since then
}

func newPulse(n *Node) *pulse {
	p := &pulse{node: n}
	p.beats[0].name, p.beats[0].post = "shard", func(done func()) { n.shards.post(func(*shardLoop) { done() }) }
	p.beats[1].name, p.beats[1].post = "membership", func(done func()) { n.membership.post(func(*membership) { done() }) }
	return p
}

// run is one turn.
func (p *pulse) run(now time.Duration) time.Duration {
	if p.node.Err() != nil {
		return env.Never
	}
	for i := range p.beats {
		b := &p.beats[i]
		if b.under.Load() {
			b.missed.Add(1)
			continue
		}
		b.missed.Store(0)
		b.under.Store(true)
		b.post(func() { b.under.Store(false) })
	}
	return now + pulseEvery
}

// ask returns an error that wraps ErrHung, and names a loop that hangs, or nil.
func (p *pulse) ask() error {
	p.mu.Lock()
	if p.loop == nil && !p.down {
		p.loop = p.node.env.NewLoop("pulse", p.run)
		p.loop.Wake()
	}
	p.mu.Unlock()
	for i := range p.beats {
		b := &p.beats[i]
		if missed := b.missed.Load(); missed >= maxMissed && b.under.Load() {
			return fmt.Errorf("%w: the %s loop has done nothing for %v", fault.ErrHung, b.name, time.Duration(missed)*pulseEvery)
		}
	}
	return nil
}

// shut ends the pulse's loop.
func (p *pulse) shut() {
	p.mu.Lock()
	loop := p.loop
	p.down = true
	p.mu.Unlock()
	if loop != nil {
		loop.Stop()
	}
}

// Live returns nil as long as the node runs: else the reason for which it has ended, or ErrHung.
func (n *Node) Live() error {
	if err := n.Err(); err != nil {
		return err
	}
	return n.pulse.ask()
}
