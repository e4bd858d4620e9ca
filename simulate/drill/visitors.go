package drill

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/lockmesh/mesh"
	"github.com/lockmesh/mesh/internal/bridge"
	"github.com/lockmesh/mesh/internal/client"
	"github.com/lockmesh/mesh/internal/visit"
	"github.com/lockmesh/mesh/simulate"
)

// visitor is a caller outside the mesh (P42), which asks now this node, now another one, and several at a time. It believes what they
// say of its lease, by the true time, and judges them: no other visitor may hold at that time what it believes to hold.
type visitor struct {
	name  string
	until time.Duration     // of its lease
	holds map[string]uint64 // tokens, by key
	gave  map[string]int    // how often it has begun to give a key back, or has done so: what it asked before tells it nothing
	gives map[string]int    // how many of those go on: it believes nothing meanwhile
	at    int               // how many nodes: each move costs a command in every shard
}

// visitors is how many there are.
const visitors = 3

// desk returns where visitors ask a node.
func (g *guests) desk(n *mesh.Node, chance *rand.Rand) *visit.Desk {
	if g.desks == nil {
		g.desks = make(map[*mesh.Node]*visit.Desk)
	}
	if g.desks[n] == nil {
		lease := ttl/2 + upTo(chance, ttl/2)
		g.desks[n] = visit.New(bridge.NodeOf(n), visit.Config{
			TTL: func() (time.Duration, error) { return lease, nil }, WithTimeout: simulate.WithTimeout,
		})
	}
	return g.desks[n]
}

// visit is a while of a visitor at a node. Another one may begin elsewhere meanwhile.
func (g *guests) visit(ctx context.Context, n *mesh.Node, chance *rand.Rand) {
	for len(g.visitors) < visitors {
		g.visitors = append(g.visitors, &visitor{
			name: fmt.Sprint("visitor", len(g.visitors)), holds: make(map[string]uint64), gave: make(map[string]int), gives: make(map[string]int),
		})
	}
	v, d := g.visitors[chance.IntN(visitors)], g.desk(n, chance)
	wait, cancel := g.wait(ctx, chance)
	defer cancel()
	if n.WaitReady(wait) != nil || v.at == 2 { // package lockhttp waits for it, too
		return
	}
	v.at++
	defer func() { v.at-- }()
	for range 1 + chance.IntN(6) {
		key := g.key("visited", chance)
		wait, cancel := simulate.WithTimeout(ctx, upTo(chance, g.patience+ttl))
		switch {
		case v.holds[key] != 0 && chance.IntN(2) == 0:
			v.unlocks(wait, d, key, chance)
		case chance.IntN(5) == 0:
			v.renews(wait, g, d)
		default:
			v.asks(wait, g, d, key, chance)
		}
		cancel()
		if n.Err() != nil || g.quiet() {
			return
		}
		_ = simulate.Sleep(ctx, upTo(chance, ttl/2))
	}
}

// hears notes what a node says of the visitor's lease, which counts from when it was asked.
func (v *visitor) hears(w *simulate.World, asked, lease time.Duration) {
	if w.Now() >= v.until {
		clear(v.holds) // it has given them up
	}
	if lease > 0 {
		v.until = max(v.until, asked+lease)
	}
}

// believe reports whether a visitor believes in a lock.
func (g *guests) believe(now time.Duration) bool {
	return slices.ContainsFunc(g.visitors, func(v *visitor) bool { return len(v.holds) > 0 && now < v.until })
}

// visited is what a visitor asks for.
func visited(key string) client.Request { return client.Request{Key: key, Tag: "lock"} }

// asks asks for a key, or hears what has become of that, or does not want it any more.
func (v *visitor) asks(ctx context.Context, g *guests, d *visit.Desk, key string, chance *rand.Rand) {
	w := simulate.WorldOf(ctx)
	sent, gave := w.Now(), v.gave[key]
	q := visit.Request{Request: visited(key), Wait: upTo(chance, ttl/4)}
	ask := (*visit.Desk).Ask
	switch chance.IntN(6) {
	case 0, 1:
		ask = (*visit.Desk).Look
	case 2:
		ask = (*visit.Desk).Leave
	}
	a, err := ask(d, ctx, v.name, q)
	v.hears(w, sent, a.Lease)
	if err == nil {
		v.told(w, g, key, gave, a)
	}
}

// told: a node has answered a question about a key, which was asked when the visitor had given it back so often.
func (v *visitor) told(w *simulate.World, g *guests, key string, gave int, a visit.Answer) {
	switch {
	case v.gave[key] != gave || v.gives[key] > 0:
		return
	case a.State != visit.Running:
		delete(v.holds, key)
		return
	case w.Now() >= v.until:
		return
	}
	v.holds[key] = a.Token
	for _, other := range g.visitors {
		if other != v && other.holds[key] != 0 && w.Now() < other.until {
			w.Fail(fmt.Errorf("G1 guests: %s holds %q with token %d until %v, and %s believes in token %d until %v",
				v.name, key, v.holds[key], v.until, other.name, other.holds[key], other.until))
		}
	}
}

// renews names what the visitor holds, unless it asks elsewhere as well: an answer may be on its way.
func (v *visitor) renews(ctx context.Context, g *guests, d *visit.Desk) {
	w := simulate.WorldOf(ctx)
	v.hears(w, w.Now(), 0)
	var all []client.Request
	var gave []int
	if v.at == 1 {
		all = []client.Request{}
		for key, token := range v.holds { // order-free: sorted below
			q := visited(key)
			q.Held = token
			all = append(all, q)
		}
	}
	slices.SortFunc(all, func(q, o client.Request) int { return strings.Compare(q.Key, o.Key) })
	for _, q := range all {
		gave = append(gave, v.gave[q.Key])
	}
	sent := w.Now()
	answers, lease, _, err := d.Renew(ctx, v.name, all)
	v.hears(w, sent, lease)
	if err != nil {
		return
	}
	for i, a := range answers {
		v.told(w, g, all[i].Key, gave[i], a)
	}
}

// unlocks gives a key back.
func (v *visitor) unlocks(ctx context.Context, d *visit.Desk, key string, chance *rand.Rand) {
	w := simulate.WorldOf(ctx)
	token := v.holds[key]
	if chance.IntN(3) == 0 {
		token = 0 // whatever it has
	}
	stops := func(more int) {
		delete(v.holds, key)
		v.gave[key]++
		v.gives[key] += more
	}
	sent := w.Now()
	stops(1)
	a, _ := d.End(ctx, v.name, visit.Request{Request: visited(key)}, token, false)
	stops(-1)
	v.hears(w, sent, a.Lease)
}
