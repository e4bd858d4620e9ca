package replica

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/lockmesh/mesh/shard"
)

// A grant that an operator has broken is free when its session gives it back, or when the leader frees it (P49). From when a leader has applied the
// Break, or has begun to serve, each of its answers names the grant. So what confirms a belief in it was sent before, and the belief is
// over a TTL later. The next leader counts anew: the one before may have had an answer under way. A grant of fixed length ends with its session's lease.

// breaches are what a serving leader knows of broken grants.
type breaches struct {
	waits map[shard.Breach]*breachWait
	next  time.Duration // none needs a look before; a lower bound
}

// breachWait is for how long a leader has waited for a session to give a broken grant back.
type breachWait struct {
	since time.Duration // when it applied the Break, or began to serve
	told  time.Duration // when it last told the session unasked
	freed time.Duration // when a Free was last appended; zero: none was
}

// tellEvery is how often a leader tells a session unasked that a grant of fixed length is broken: it does not ask.
const tellEvery = time.Second

func newBreaches() breaches { return breaches{waits: make(map[shard.Breach]*breachWait), next: never} }

// broken notes that a grant is broken, and tells its session.
func (r *Replica) broken(b shard.Breach, id shard.SessionID, out *Output) {
	bs := &r.leading.breaches
	bs.waits[b] = &breachWait{since: r.now, told: r.now}
	bs.next = 0
	r.tellBroken(id, out)
}

// logBreak logs who has broken a grant.
func (r *Replica) logBreak(cmd shard.Command, told []shard.Event) {
	c, ok := cmd.(shard.Break)
	if i := slices.IndexFunc(told, func(e shard.Event) bool { return e.What == shard.Breached }); ok && i >= 0 {
		r.log.Warn("an operator has broken a grant", "key", c.Key, "token", c.Token, "holder", told[i].Holder, "through", c.Name, "why", c.Why)
	}
}

// tellBroken tells a session unasked which of its grants are broken.
func (r *Replica) tellBroken(id shard.SessionID, out *Output) {
	out.Answers = append(out.Answers, Answer{Session: id, Alive: true, Revision: r.table.Revision(), Broken: r.table.Breaches(id)})
}

// inheritBreaches begins to wait for all grants that are broken.
func (r *Replica) inheritBreaches(out *Output) {
	for _, b := range r.table.Broken() {
		r.broken(b.Breach, b.Session, out)
	}
}

// reviewBreaches frees the grants for which this leader has waited long enough.
func (r *Replica) reviewBreaches(out *Output) {
	bs := &r.leading.breaches
	if r.now < bs.next {
		return
	}
	bs.next = never
	all := make([]shard.Breach, 0, len(bs.waits))
	for b := range bs.waits { // order-free: sorted below
		all = append(all, b)
	}
	slices.SortFunc(all, func(a, b shard.Breach) int {
		return cmp.Or(cmp.Compare(a.Token, b.Token), strings.Compare(a.Key, b.Key))
	})
	for _, b := range all {
		w := bs.waits[b]
		now, still := r.table.StillBroken(b)
		switch {
		case !still:
			delete(bs.waits, b)
			continue
		case now.Fixed:
			if r.now-w.told >= tellEvery {
				w.told = r.now
				r.tellBroken(now.Session, out)
			}
			bs.next = min(bs.next, w.told+tellEvery)
		case r.now-w.since < now.TTL:
			bs.next = min(bs.next, w.since+now.TTL)
		case again(w.freed, r.now):
			w.freed = r.now
			r.appendOwn(shard.Free{Key: b.Key, Token: b.Token, Term: r.term})
			bs.next = min(bs.next, r.now+ElectionTimeout)
		default:
			bs.next = min(bs.next, w.freed+ElectionTimeout)
		}
	}
}
