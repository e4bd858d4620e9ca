package drill

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/lockmesh/mesh"
	"github.com/lockmesh/mesh/internal/bridge"
	"github.com/lockmesh/mesh/internal/client"
	"github.com/lockmesh/mesh/internal/node"
	"github.com/lockmesh/mesh/simulate"
)

// visitor is a caller outside the mesh (P42), which goes from node to node. It believes what the nodes say of its lease, by the true
// time, and judges them: no other visitor may hold at that time what it believes to hold.
type visitor struct {
	name  string
	until time.Duration     // of its lease
	holds map[string]uint64 // tokens, by key
	gave  map[string]int    // how often it has given a key back: it may be at two nodes at a time
}

// visitors is how many there are.
const visitors = 3

// visit is a while of a visitor at a node. Another one may begin elsewhere meanwhile.
func (g *guests) visit(ctx context.Context, n *mesh.Node, chance *rand.Rand) {
	w := simulate.WorldOf(ctx)
	for len(g.visitors) < visitors {
		g.visitors = append(g.visitors, &visitor{name: fmt.Sprint("visitor", len(g.visitors)), holds: make(map[string]uint64), gave: make(map[string]int)})
	}
	v := g.visitors[chance.IntN(visitors)]
	wait, cancel := g.wait(ctx, chance)
	s, err := bridge.NodeOf(n).Carry(wait, v.name, ttl/2+upTo(chance, ttl/2))
	cancel()
	if err != nil {
		return
	}
	for range 1 + chance.IntN(6) {
		sent := w.Now()
		wait, cancel := g.wait(ctx, chance)
		_, err := s.Heard(wait)
		cancel()
		if err != nil {
			return
		}
		v.hears(w, sent, s)
		switch key := g.key("visited", chance); {
		case v.holds[key] != 0 && chance.IntN(2) == 0:
			v.unlocks(ctx, g, s, key, chance)
		default:
			v.locks(ctx, g, s, key, chance)
		}
		if s.Err() != nil || g.quiet() {
			return
		}
		_ = simulate.Sleep(ctx, upTo(chance, ttl/2))
	}
}

// hears notes what a node says of the visitor's lease, which counts from when it was asked.
func (v *visitor) hears(w *simulate.World, asked time.Duration, s *node.Session) {
	if w.Now() >= v.until {
		clear(v.holds) // it has given them up
	}
	if lease := s.Lease(); lease > 0 {
		v.until = max(v.until, asked+lease)
	}
}

func asks(key string) client.Request { return client.Request{Key: key, Tag: "lock"} }

// locks asks for a key, or hears what has become of that.
func (v *visitor) locks(ctx context.Context, g *guests, s *node.Session, key string, chance *rand.Rand) {
	w := simulate.WorldOf(ctx)
	sent, gave := w.Now(), v.gave[key]
	req := asks(key)
	req.Claim = chance.IntN(3) == 0
	p, err := s.Request(req, nil)
	if err != nil {
		return
	}
	wait, cancel := g.wait(ctx, chance)
	defer cancel()
	if p.Wait(wait) != nil {
		if chance.IntN(2) == 0 {
			v.gives(key) // it may be held by now, or have been before
			p.Cancel()
		}
		return
	}
	o, err := p.Outcome()
	v.hears(w, sent, s)
	if err != nil || o.Hold == nil || v.gave[key] != gave || w.Now() >= v.until || s.Err() != nil || o.Hold.Err() != nil {
		return
	}
	v.holds[key] = o.Hold.Token()
	for _, other := range g.visitors {
		if other != v && other.holds[key] != 0 && w.Now() < other.until {
			w.Fail(fmt.Errorf("G1 guests: %s holds %q with token %d until %v, and %s believes in token %d until %v",
				v.name, key, v.holds[key], v.until, other.name, other.holds[key], other.until))
		}
	}
}

// unlocks gives a key back.
func (v *visitor) unlocks(ctx context.Context, g *guests, s *node.Session, key string, chance *rand.Rand) {
	token := v.holds[key]
	v.gives(key)
	wait, cancel := g.wait(ctx, chance)
	defer cancel()
	o, err := s.Claim(wait, asks(key))
	if err == nil && o.Hold != nil && o.Token == token {
		v.gives(key) // what it asked for meanwhile may have been answered with this
		_ = o.Hold.Release(wait)
	}
}

func (v *visitor) gives(key string) {
	delete(v.holds, key)
	v.gave[key]++
}
