package check

import (
	"cmp"
	"fmt"
	"time"

	"github.com/lockmesh/mesh/shard"
	"github.com/lockmesh/mesh/simulate/timeline"
	"github.com/lockmesh/mesh/transport"
)

// fifo checks the order of grants against the order in which the requests were
// committed to the queue (G3), that no more is granted than there is (G1), that no try
// is refused that would not have had to wait (P16), and that replicas decide alike. It
// hears what the replicas' tables decide.
type fifo struct {
	h     *History
	world World
	seen  map[decisionName]decision // looked up, never ranged over
	keys  map[shardKey]*keyQueue    // looked up, never ranged over
	order []*keyQueue
	// dropped counts the requests that left a queue without a grant. It is looked up, never
	// ranged over.
	dropped map[ownerName]int
	tokens  map[tokenName]span          // looked up, never ranged over
	broken  map[tokenName]time.Duration // when an operator has broken a grant; looked up, never ranged over
	lives   map[int]ShardName           // by shard: its latest generation; looked up, never ranged over
}

// ownerName names a node as the owner of requests for a key.
type ownerName struct {
	key  string
	node transport.ID
}

type decisionName struct {
	ShardName
	what    shard.DecisionKind
	request requestName
}

// decision is what must be the same on all replicas, and happen once.
type decision struct{ revision, token uint64 }

type requestName struct {
	session shard.SessionID
	request uint64
}

func (r requestName) owner() transport.ID { return transport.ID(r.session.Node) }

type shardKey struct {
	ShardName
	key string
}

// keyQueue is the order of one key's queue.
type keyQueue struct {
	key      string
	place    map[requestName]place // of those that wait
	ranks    int                   // that were ever given
	held     map[requestName]grant // of those that hold
	used     int64                 // the sum of their weights
	granted  place                 // the latest in the queue of those that were granted
	token    uint64                // its token
	who      requestName           // and whose it is
	depth    int                   // as far as the timeline knows
	over     bool                  // the shard lives in another generation
	capacity int64                 // of a semaphore
	round    int64                 // of a barrier: that were let in since nobody was inside
}

type grant struct {
	token  uint64
	weight int64
	told   *tableGrant // nil if there was no call for the key
}

type place struct {
	anew     bool   // it did not wait in an earlier table: those that did come first (C8)
	earlier  uint64 // when it entered the queue there; zero: unknown
	revision uint64
	rank     int           // among those of one revision
	at       time.Duration // when it was given
}

func (p place) compare(q place) int {
	if p.anew != q.anew {
		if p.anew {
			return 1
		}
		return -1
	}
	return cmp.Or(cmp.Compare(p.earlier-1, q.earlier-1), cmp.Compare(p.revision, q.revision), p.rank-q.rank)
}

func (f *fifo) decided(name ShardName, node transport.ID, d shard.Decision) {
	r := requestName{d.Session, d.Number}
	if first, again := f.seen[decisionName{name, d.What, r}]; again {
		f.sameAs(first, name, node, d)
		return
	}
	f.seen[decisionName{name, d.What, r}] = decision{d.Revision, d.Token}
	k := f.keys[shardKey{name, d.Key}]
	if k == nil {
		now, led := f.lives[name.Shard]
		k = &keyQueue{key: d.Key, place: make(map[requestName]place), held: make(map[requestName]grant), over: led && now != name}
		f.keys[shardKey{name, d.Key}] = k
		f.order = append(f.order, k)
	}
	f.sized(name, k, r, d)
	switch d.What {
	case shard.Entered:
		k.ranks++
		k.place[r] = place{anew: true, revision: d.Revision, rank: k.ranks, at: f.world.Now()}
		if d.Reported {
			k.place[r] = place{earlier: d.Earlier, revision: d.Revision, rank: k.ranks, at: f.world.Now()}
		}
	case shard.Withdrawn:
		delete(k.place, r)
		f.dropped[ownerName{d.Key, r.owner()}]++
	case shard.Finished:
		f.h.inside.late.released(name, r)
		f.h.checkFreed(name, d)
		k.used -= k.held[r].weight
		if t := k.held[r].told; t != nil {
			t.to = f.world.Now()
		}
		f.over(k.key, k.held[r].token)
		delete(k.held, r)
		f.mended(name, d)
	case shard.BrokenUp:
		f.brokenUp(name, k, r, d)
	case shard.Declined:
		if d.Settling {
			if c := f.h.keys[d.Key]; c != nil {
				c.settling = append(c.settling, f.world.Now())
			}
		} else if len(k.place) == 0 && k.used+d.Weight <= d.Capacity {
			f.world.Fail(fmt.Errorf("G3 try: shard %d refused %d of %q to %s, and nobody waits, and %d of %d are in use",
				name.Shard, d.Weight, d.Key, f.named(r), k.used, d.Capacity))
		}
	case shard.Admitted:
		f.admitted(name, k, r, d)
	case shard.Lessened:
		g := k.held[r]
		k.used -= g.weight - d.Weight
		g.weight = d.Weight
		k.held[r] = g
		f.h.checkLessened(name, d)
	case shard.Renamed:
		f.renamed(name, k, requestName{d.Was, d.WasNumber}, r)
		f.h.inside.late.renamedBroken(name, d)
	case shard.Resumed:
		if k.who != (requestName{}) {
			f.world.Fail(fmt.Errorf("C8 reports: shard %d gives %q back to %s with token %d, and has granted it with token %d", name.Shard, d.Key, f.named(r), d.Token, k.token))
		}
		k.token, k.round = max(k.token, d.Token), d.Capacity
		f.holds(name, k, r, d, f.world.Now())
	}
	if depth := len(k.place); depth != k.depth {
		k.depth = depth
		f.world.Record(timeline.Moment{
			Kind: timeline.Depth, Host: f.h.inside.leaders.host(name),
			Shard: name.Shard, Key: d.Key, Depth: depth,
		})
	}
}

// sameAs judges what another replica has decided first.
func (f *fifo) sameAs(first decision, name ShardName, node transport.ID, d shard.Decision) {
	who := f.named(requestName{d.Session, d.Number})
	switch {
	case first.revision != d.Revision:
		f.world.Fail(fmt.Errorf("G4 once: shard %d %s %s for %q at revision %d and at %d", name.Shard, verbs[d.What], who, d.Key, first.revision, d.Revision))
	case first.token != d.Token:
		f.world.Fail(fmt.Errorf("replicas of shard %d disagree: the one on %s %s %s for %q with token %d, another one %d", name.Shard, HostOf(f.world, node), verbs[d.What], who, d.Key, d.Token, first.token))
	}
}

// admitted: a request has its turn.
func (f *fifo) admitted(name ShardName, k *keyQueue, r requestName, d shard.Decision) {
	p, ok := k.place[r]
	if !ok {
		f.world.Fail(fmt.Errorf("G3 order: shard %d granted %q to %s, which never queued", name.Shard, d.Key, f.named(r)))
		return
	}
	delete(k.place, r)
	if k.who != (requestName{}) && p.compare(k.granted) < 0 {
		f.world.Fail(fmt.Errorf("G3 order: shard %d granted %q to %s (queued at %d, token %d) after %s (queued at %d, token %d)",
			name.Shard, d.Key, f.named(r), p.revision, d.Token, f.named(k.who), k.granted.revision, k.token))
	}
	if d.Token <= k.token {
		f.world.Fail(fmt.Errorf("G2 tokens: shard %d granted %q with token %d after token %d", name.Shard, d.Key, d.Token, k.token))
	}
	k.granted, k.token, k.who = p, d.Token, r
	if k.used == 0 {
		k.round = 0
	}
	if k.round++; d.Kind == shard.Barrier && k.round > d.Capacity {
		f.world.Fail(fmt.Errorf("P45 round: shard %d lets %s into %q, and %d of the round before are inside", name.Shard, f.named(r), d.Key, k.used))
	}
	f.holds(name, k, r, d, p.at)
}

// renamed: a request is that of another session now, as another node carries its guest (P42), or has another number.
func (f *fifo) renamed(name ShardName, k *keyQueue, was, r requestName) {
	if p, ok := k.place[was]; ok {
		delete(k.place, was)
		k.place[r] = p
	}
	if g, ok := k.held[was]; ok {
		delete(k.held, was)
		if k.held[r] = g; g.told != nil {
			g.told.owner = r.owner()
		}
		f.h.inside.late.released(name, was)
		if !k.over {
			f.h.inside.late.granted(name, k.key, r)
		}
	}
	if k.who == was {
		k.who = r
	}
}

// holds: a table gives a key to a request that was queued at some time.
func (f *fifo) holds(name ShardName, k *keyQueue, r requestName, d shard.Decision, queued time.Duration) {
	g := grant{token: d.Token, weight: d.Weight}
	if c := f.h.keys[d.Key]; c != nil && !k.over {
		g.told = &tableGrant{token: d.Token, owner: r.owner(), queued: queued, from: f.world.Now(), to: running}
		c.granted = append(c.granted, g.told)
	}
	k.held[r] = g
	f.tokens[tokenName{d.Key, d.Token}] = span{f.world.Now(), running}
	if !k.over {
		f.h.inside.late.granted(name, d.Key, r)
	}
	if k.used += d.Weight; k.used > f.room(k, d) {
		f.world.Fail(fmt.Errorf("G1 table: shard %d granted %q to %s: %d of %d", name.Shard, d.Key, f.named(r), k.used, d.Capacity))
	}
}

// begun: a shard has another generation. What is held in the earlier ones is forgotten, and counts no more (C7). A
// replica that was not fenced may still apply what was committed before.
func (f *fifo) begun(now ShardName) {
	f.lives[now.Shard] = now
	for name, k := range f.keys { // order-free: each is ended alone
		if !now.follows(name.ShardName) {
			continue
		}
		k.over = true
		if c := f.h.keys[k.key]; c != nil {
			c.done = nil // whether the next table hears of it depends on who lives
		}
		for _, g := range k.held { // order-free: each is ended alone
			f.over(k.key, g.token)
			if g.told != nil {
				g.told.to = f.world.Now()
			}
		}
	}
}

// over notes that a hold is over.
func (f *fifo) over(key string, token uint64) {
	name := tokenName{key, token}
	if s, held := f.tokens[name]; held && s.to == running {
		s.to = f.world.Now()
		f.tokens[name] = s
	}
}

var verbs = [...]string{
	shard.Entered: "queued", shard.Admitted: "granted", shard.Finished: "released", shard.Withdrawn: "dropped",
	shard.Declined: "refused", shard.Resumed: "resumed", shard.Renamed: "renamed", shard.Lessened: "downgraded", shard.Resized: "resized", shard.BrokenUp: "broken",
}

// named says whose request it is.
func (f *fifo) named(r requestName) string {
	return fmt.Sprintf("request %d of session %d on %s", r.request, r.session.Number, HostOf(f.world, r.owner()))
}
