package client

import (
	"cmp"
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/lockmesh/mesh/internal/fault"
	"github.com/lockmesh/mesh/shard"
)

// A caller that holds a grant and waits, in a context that comes from it, for another key does not give the grant back before it has got
// that. So a request waits for the holders of its key, and with them for all requests that wait within their grants (shard.Within). If that leads
// back to itself, nobody in the circle goes on: a deadlock (P50).
//
// A lookout finds the circle that one request is in. It asks the leaders, step by step: who waits within the grants of those who hold my key,
// who waits within the grants of those who hold their keys, and so on. These answers are of several moments, and what they say together need
// never have been so. But each of these waits, once over, never comes back. So once it has all first answers, it asks the leaders of the
// circle's shards a second time: what was there both times was there in the moment between. A node that has died waits on in the tables until
// its lease is over. So each session must have been heard of since the first reading: the second one is repeated until that is so.
//
// Each request of a circle that looks finds the same circle. The youngest of those that want to know gives up: that whose context has
// the latest grant. The numbers by which it is chosen are in the tables, so all choose the same one.

// Bounds of what one look asks for. What is beyond them is taken for something that goes on by itself: then a circle may be missed, and
// none is imagined.
const (
	maxLevels = 16  // steps from one request to the next
	maxWaits  = 256 // requests
)

// waitID names a request that waits. It is never used again, also not in a later table of the shard.
type waitID struct {
	shard      int
	generation uint64 // of the shard
	session    shard.SessionID
	number     uint64
}

// compare orders requests, for orders that all nodes must agree on.
func (w waitID) compare(o waitID) int {
	return cmp.Or(cmp.Compare(w.shard, o.shard), w.session.Compare(o.session), cmp.Compare(w.number, o.number), cmp.Compare(w.generation, o.generation))
}

// waiter is a request that waits, as its shard's leader tells of it.
type waiter struct {
	waitID
	shard.Wait
}

// grant names one of the holds that w waits for.
func (w *waiter) grant(h shard.Holding) shard.Grant {
	return shard.Grant{Shard: w.shard, Token: h.Token}
}

// youth is by what the youngest is chosen: the latest grant that a request waits within. Tokens of two shards say little of time, but
// they are numbers that all see alike.
func (w *waiter) youth() shard.Grant {
	return slices.MaxFunc(w.Within, func(a, b shard.Grant) int {
		return cmp.Or(cmp.Compare(a.Token, b.Token), cmp.Compare(a.Shard, b.Shard))
	})
}

// younger compares two requests by their age.
func younger(a, b *waiter) int {
	x, y := a.youth(), b.youth()
	return cmp.Or(cmp.Compare(x.Token, y.Token), cmp.Compare(x.Shard, y.Shard), a.compare(b.waitID))
}

// lookQuery is what a lookout wants to know: who waits within these grants. A negative shard: of each shard.
type lookQuery struct {
	shard  int
	grants []shard.Grant
}

// lookAnswer is what a confirmed leader has told.
type lookAnswer struct {
	shard      int
	generation uint64
	waits      []shard.Wait
}

// lookout looks for a circle that a request is in.
type lookout struct {
	self    waitID // without the generation
	within  []shard.Grant
	level   int
	asked   map[shard.Grant]bool
	known   map[waitID]bool
	waiters []*waiter     // by the first reading, in the order in which they were told
	circle  []*waiter     // those of the circle, by the first reading; nil: it goes on
	since   time.Duration // when the first reading was over
}

// newLookout returns the lookout of a request that waits within some grants.
func newLookout(sh int, session shard.SessionID, number uint64, within []shard.Grant) *lookout {
	return &lookout{
		self: waitID{shard: sh, session: session, number: number}, within: within, asked: make(map[shard.Grant]bool), known: make(map[waitID]bool),
	}
}

// begin returns the first question: the request itself, for whom it waits.
func (l *lookout) begin() []lookQuery { return []lookQuery{{l.self.shard, l.within}} }

// outcome is what comes of the answers. If all is zero, the look is over, and there is nothing to be done.
type outcome struct {
	next     []lookQuery // the next questions
	later    bool        // there is a circle: it is to be looked at again, after a while
	deadlock *Deadlock   // there is a circle, and the request is the one that is to give up
}

// told takes in the answers to all questions of a step, which were sent at the time asked.
func (l *lookout) told(asked, now time.Duration, answers []lookAnswer) outcome {
	if l.circle != nil {
		return l.second(asked, answers)
	}
	var next []shard.Grant
	for _, w := range waitersOf(answers) {
		if l.known[w.waitID] || len(l.waiters) == maxWaits {
			continue
		}
		l.known[w.waitID] = true
		l.waiters = append(l.waiters, w)
		for _, h := range w.Holders {
			if g := w.grant(h); !l.asked[g] && len(next) < shard.MaxAsked {
				l.asked[g] = true
				next = append(next, g)
			}
		}
	}
	self := l.find(l.waiters)
	if self == nil {
		return outcome{}
	}
	if l.level++; len(next) > 0 && l.level <= maxLevels {
		return outcome{next: []lookQuery{{-1, next}}}
	}
	circle := newWaits(l.waiters).circleOf(self)
	if youngest(circle) != self {
		return outcome{}
	}
	l.circle, l.since = circle, now
	return outcome{later: true}
}

// again returns the questions that ask for the requests of the circle once more.
func (l *lookout) again() (all []lookQuery) {
	by := make(map[int][]shard.Grant)
	for _, w := range l.circle {
		if g := w.Within[0]; !slices.Contains(by[w.shard], g) {
			by[w.shard] = append(by[w.shard], g)
		}
	}
	for sh, grants := range by { // order-free: sorted below
		all = append(all, lookQuery{sh, grants})
	}
	slices.SortFunc(all, func(a, b lookQuery) int { return cmp.Compare(a.shard, b.shard) })
	return all
}

// second judges by what was there in both readings. The questions of the second one were sent at the time asked.
func (l *lookout) second(asked time.Duration, answers []lookAnswer) outcome {
	var both []*waiter
	now := waitersOf(answers)
	for _, was := range l.circle {
		if i := slices.IndexFunc(now, func(w *waiter) bool { return w.waitID == was.waitID }); i >= 0 {
			both = append(both, was.and(now[i]))
		}
	}
	self := l.find(both)
	if self == nil {
		return outcome{}
	}
	g := newWaits(both)
	circle := g.circleOf(self)
	if youngest(circle) != self {
		return outcome{}
	}
	// Whoever was silent for less than this was heard after the first reading, though a leader's clock is slow.
	since := time.Duration(float64(asked-l.since) * (1 - slowest))
	if slices.ContainsFunc(circle, func(w *waiter) bool { return w.Silent >= since }) {
		return outcome{later: true}
	}
	return outcome{deadlock: g.way(self)}
}

// slowest is by how much a leader's clock may be slower than this one's, generously (P1).
const slowest = 0.05

// and returns what was so in both of two readings of a request.
func (w *waiter) and(o *waiter) *waiter {
	both := *w
	both.Needs, both.Capacity, both.Silent, both.Holders = min(w.Needs, o.Needs), max(w.Capacity, o.Capacity), o.Silent, nil
	for _, h := range w.Holders {
		if i := slices.IndexFunc(o.Holders, func(other shard.Holding) bool { return other.Token == h.Token }); i >= 0 {
			h.Weight = min(h.Weight, o.Holders[i].Weight) // it may be a reader's by now
			both.Holders = append(both.Holders, h)
		}
	}
	return &both
}

// find returns the request that looks, or nil.
func (l *lookout) find(all []*waiter) *waiter {
	for _, w := range all {
		if w.shard == l.self.shard && w.session == l.self.session && w.number == l.self.number {
			return w
		}
	}
	return nil
}

// waitersOf returns the requests of which the answers tell.
func waitersOf(answers []lookAnswer) (all []*waiter) {
	for _, a := range answers {
		for _, w := range a.waits {
			all = append(all, &waiter{waitID{a.shard, a.generation, w.Session, w.Number}, w})
		}
	}
	return all
}

// youngest returns the youngest of those that want to know of a deadlock, or nil.
func youngest(circle []*waiter) (most *waiter) {
	for _, w := range circle {
		if w.Detects && (most == nil || younger(w, most) > 0) {
			most = w
		}
	}
	return most
}

// waits are requests, and which of them wait within a grant.
type waits struct {
	all    []*waiter
	within map[shard.Grant][]*waiter
	stuck  map[*waiter]bool
}

// newWaits finds out which of the requests are stuck: each of these can be granted only once others of them are. At first all count as stuck. A request
// is taken out if it would be granted once all holds were given back within which no stuck request waits; and so on, until none is taken out.
//
// One reader's hold that is not given back keeps a writer stuck. A request for permits stays stuck only if too few permits would be given back.
func newWaits(all []*waiter) *waits {
	g := &waits{all, make(map[shard.Grant][]*waiter), make(map[*waiter]bool)}
	for _, w := range all {
		g.stuck[w] = true
		for _, t := range w.Within {
			g.within[t] = append(g.within[t], w)
		}
	}
	for goes := true; goes; {
		goes = false
		for _, w := range all {
			if !g.stuck[w] {
				continue
			}
			free := w.Capacity
			for _, h := range w.Holders {
				if g.blocks(w.grant(h)) {
					free -= h.Weight
				}
			}
			if w.Needs <= free {
				g.stuck[w], goes = false, true
			}
		}
	}
	return g
}

// blocks reports whether a grant is not given back before a stuck request is granted.
func (g *waits) blocks(t shard.Grant) bool {
	return slices.ContainsFunc(g.within[t], func(w *waiter) bool { return g.stuck[w] })
}

// next yields the stuck requests for which w waits, some of them more than once.
func (g *waits) next(w *waiter) iter.Seq[*waiter] {
	return func(yield func(*waiter) bool) {
		for _, h := range w.Holders {
			for _, o := range g.within[w.grant(h)] {
				if g.stuck[o] && !yield(o) {
					return
				}
			}
		}
	}
}

// circleOf returns the stuck requests for which w waits and which wait for w, over others or not. If w is in no circle, there are none.
func (g *waits) circleOf(w *waiter) []*waiter {
	if !g.stuck[w] {
		return nil
	}
	ahead := reach(w, g.next)
	before := make(map[*waiter][]*waiter) // of those, the ones that wait for it
	for _, o := range ahead {
		for n := range g.next(o) {
			before[n] = append(before[n], o)
		}
	}
	behind := make(map[*waiter]bool)
	for _, o := range reach(w, func(o *waiter) iter.Seq[*waiter] { return slices.Values(before[o]) }) {
		behind[o] = true
	}
	return slices.DeleteFunc(ahead, func(o *waiter) bool { return !behind[o] })
}

// reach returns all requests to which next leads from w in one step or more, the nearest first.
func reach(w *waiter, next func(*waiter) iter.Seq[*waiter]) (all []*waiter) {
	seen := make(map[*waiter]bool)
	for o, i := w, 0; ; i++ {
		for n := range next(o) {
			if !seen[n] {
				seen[n] = true
				all = append(all, n)
			}
		}
		if i == len(all) {
			return all
		}
		o = all[i]
	}
}

// way returns a shortest way from w to itself.
func (g *waits) way(w *waiter) *Deadlock {
	type step struct {
		*waiter
		before *step
		token  uint64 // of the hold of the key of the one before, within which this one waits
	}
	seen := make(map[*waiter]bool)
	steps := []*step{{waiter: w}}
	for i := 0; i < len(steps); i++ {
		s := steps[i]
		for _, h := range s.Holders {
			for _, o := range g.within[s.grant(h)] {
				if !g.stuck[o] || seen[o] {
					continue
				}
				seen[o] = true
				n := &step{o, s, h.Token}
				if o != w {
					steps = append(steps, n)
					continue
				}
				d := &Deadlock{}
				for ; n.before != nil; n = n.before {
					d.Circle = append(d.Circle, Waiting{n.before.Key, n.before.Name, n.token})
				}
				slices.Reverse(d.Circle)
				return d
			}
		}
	}
	return nil // it is in no circle
}

// Deadlock is the error of a Lock that was in a circle, and gave up. It is fault.ErrDeadlock.
type Deadlock struct {
	Circle []Waiting // the first is the one that gave up; each waits for the next, and the last for the first
}

// Waiting is a request in a circle.
type Waiting struct {
	Key   string // that it waits for
	Node  string // the name of its node
	Token uint64 // under which the next one's caller holds the key
}

// Error implements error.
func (d *Deadlock) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%v:", fault.ErrDeadlock)
	for i, w := range d.Circle {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, " %s waits for %q, token %d", w.Node, w.Key, w.Token)
	}
	return b.String()
}

// Unwrap returns fault.ErrDeadlock.
func (d *Deadlock) Unwrap() error { return fault.ErrDeadlock }
