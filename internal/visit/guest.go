package visit

import (
	"cmp"
	"slices"
	"sync"
	"time"

	"github.com/lockmesh/mesh/internal/client"
	"github.com/lockmesh/mesh/internal/node"
)

// guest is a guest that this node carries, and what became of its requests here.
type guest struct {
	name string
	bell *node.Bell // rings when session and err are set, and each time the guest has named all that it has

	mu       sync.Mutex
	begun    bool
	session  *node.Session
	err      error // why it is not carried
	requests map[id]*request
	made     uint64        // how many requests it has made
	sweepAt  int           // how many there may be before ends are forgotten
	named    map[id]uint64 // the tokens of what the guest has said that it holds, when it last named all
	sure     time.Duration // until when its node was unsure then
}

// id names a request of a guest.
type id struct{ key, tag string }

// maxEnds is how many ends a Desk remembers of a guest. Earlier ones may be known to the shards.
const maxEnds = 256

func newGuest(name string, b *node.Bell) *guest {
	return &guest{name: name, bell: b, requests: make(map[id]*request), sweepAt: 2 * maxEnds}
}

func (g *guest) begin(s *node.Session, err error) {
	g.mu.Lock()
	g.begun, g.session, g.err = true, s, err
	g.mu.Unlock()
	g.bell.Ring()
}

func (g *guest) hasBegun() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.begun
}

// gone reports whether the guest is not carried here any more.
func (g *guest) gone() bool { return g.hasBegun() && (g.err != nil || g.session.Err() != nil) }

// names: the guest names all that it has.
func (g *guest) names(all []client.Request) {
	_, until := g.session.Unsure()
	defer g.bell.Ring()
	g.mu.Lock()
	defer g.mu.Unlock()
	g.sure, g.named = until, make(map[id]uint64)
	for _, q := range all {
		g.named[id{q.Key, q.Tag}] = q.Held
	}
}

// sureOf reports whether the guest has nothing of which its node does not know, and whether it holds a request's key under a token if its node
// says so. While the node is unsure, that is what the guest has named.
func (g *guest) sureOf(name id, token uint64) (all, this bool) {
	rest, until := g.session.Unsure()
	g.mu.Lock()
	defer g.mu.Unlock()
	all = rest == 0 || g.sure == until
	return all, rest == 0 || all && g.named[name] == token
}

// request is one request of a guest.
type request struct {
	asks    client.Request
	pending *node.Pending
	number  uint64
	kept    bool // the use that it has made
}

func (r *request) id() id { return id{r.asks.Key, r.asks.Tag} }

// at returns the guest's request of that name.
func (g *guest) at(name id) *request {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.requests[name]
}

// last returns the number of the guest's last request.
func (g *guest) last() uint64 {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.made
}

// make makes a request, unless the guest has one of that name: then it returns that.
func (g *guest) make(q client.Request) (r *request, made bool, err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	r = &request{asks: q}
	if was := g.requests[r.id()]; was != nil {
		return was, false, nil
	}
	if r.pending, err = g.session.Request(q); err != nil {
		return nil, false, err
	}
	g.made++
	r.number = g.made
	g.requests[r.id()] = r
	g.sweep()
	return r, true, nil
}

// sweep keeps the number of ends that are remembered in bounds. It is called with the mutex held.
func (g *guest) sweep() {
	if len(g.requests) < g.sweepAt {
		return
	}
	var ended []*request
	for _, r := range g.requests { // order-free: sorted below
		if r.ended() {
			ended = append(ended, r)
		}
	}
	slices.SortFunc(ended, func(r, o *request) int { return cmp.Compare(r.number, o.number) })
	for _, r := range ended[:max(0, len(ended)-maxEnds)] {
		g.keepUse(r)
		delete(g.requests, r.id())
	}
	g.sweepAt = 2 * max(maxEnds, len(g.requests))
}

func (g *guest) forget(r *request) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.requests[r.id()] == r {
		g.keepUse(r)
		delete(g.requests, r.id())
	}
}

// ended reports whether nothing of the request goes on.
func (r *request) ended() bool {
	if !r.pending.Over() {
		return false
	}
	o, err := r.pending.Outcome()
	return err != nil || o.Skipped || o.Ended || o.Hold == nil || o.Hold.Over()
}

// keepUse keeps the use that came of a request: a guest names its uses by their users, and has no handles of them. It is called with
// the mutex held.
func (g *guest) keepUse(r *request) {
	if r.kept || !r.pending.Over() {
		return
	}
	o, err := r.pending.Outcome()
	if err != nil || o.Hold == nil {
		return
	}
	made := o.Hold
	if !o.Skipped {
		made = o.Hold.Use()
	}
	if made != nil {
		r.kept = true
		made.Keep()
	}
}
