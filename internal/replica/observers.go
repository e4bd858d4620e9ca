package replica

import (
	"maps"
	"slices"
	"time"

	"github.com/lockmesh/mesh/shard"
)

// Observe is a client's question who leads an election (P46), and its wish to be told of changes. Ref comes back in
// the answer.
type Observe struct {
	Node uint64 // the client's
	Ref  uint64
	Key  string
	For  time.Duration // for how long the leader is to tell of changes; zero: not at all
}

// Led is what a leader says of an election: a confirmed one in answer to an Observe; or unasked, when something has changed.
// Unasked, Ref is zero, no majority has confirmed the leader, and Leader is what the table had at Revision.
type Led struct {
	Node     uint64
	Ref      uint64
	Key      string
	Revision uint64
	shard.Leader
}

const (
	maxObserved = 1 << 16          // nodes and keys that a leader tells of changes; others hear of them with their next question
	maxObserve  = 10 * time.Minute // for how long it does so after one question, at most
)

// observers are the nodes that a leader tells of changes in elections. It forgets them with its leadership: they ask again.
type observers struct {
	keys  map[string]*observed
	count int                 // of all nodes of all keys
	dirty map[string]struct{} // may have changed since they were last told
	quiet bool                // the table was quiet when they were last told
}

// observed is an election with observers.
type observed struct {
	told  shard.Leader             // what its observers know
	until map[uint64]time.Duration // by node
}

func newObservers(quiet bool) observers {
	return observers{keys: make(map[string]*observed), dirty: make(map[string]struct{}), quiet: quiet}
}

// add notes that a node is to be told of changes. Now is what it is told in answer to its question.
func (o *observers) add(q Observe, now shard.Leader, at time.Duration) {
	if q.For == 0 {
		return
	}
	k := o.keys[q.Key]
	if k == nil {
		k = &observed{told: now, until: make(map[uint64]time.Duration)}
	}
	if _, known := k.until[q.Node]; !known {
		if o.count >= maxObserved {
			return
		}
		o.count++
	}
	o.keys[q.Key] = k
	k.until[q.Node] = at + min(q.For, maxObserve)
	if !k.told.Same(now) {
		o.dirty[q.Key] = struct{}{} // the others are told with the next step
	}
}

// changed notes what a step of the table has said.
func (o *observers) changed(key string) {
	if o.keys[key] != nil {
		o.dirty[key] = struct{}{}
	}
}

// tell tells of each election whose leader or value has changed, once to each of its observers.
func (o *observers) tell(t *shard.Table, out []Led) []Led {
	if quiet := t.Settles() != 0; quiet != o.quiet {
		o.quiet = quiet
		for key := range o.keys { // order-free: a set
			o.dirty[key] = struct{}{}
		}
	}
	if len(o.dirty) == 0 {
		return out
	}
	for _, key := range slices.Sorted(maps.Keys(o.dirty)) {
		k, now := o.keys[key], t.Leader(key)
		if k == nil || k.told.Same(now) {
			continue
		}
		k.told = now
		for _, node := range slices.Sorted(maps.Keys(k.until)) {
			out = append(out, Led{Node: node, Key: key, Revision: t.Revision(), Leader: now})
		}
	}
	clear(o.dirty)
	return out
}

// forget forgets the observers that have not asked again in time.
func (o *observers) forget(now time.Duration) {
	for key, k := range o.keys { // order-free: each is judged alone
		for node, until := range k.until { // order-free: each is judged alone
			if now >= until {
				delete(k.until, node)
				o.count--
			}
		}
		if len(k.until) == 0 {
			delete(o.keys, key)
		}
	}
}

// forgetEvery is how often a leader looks for observers that are gone.
const forgetEvery = 10 * time.Second

// Observe takes a question. It returns ErrNotServing if this replica cannot answer it. Otherwise a Led follows; but none does if
// a majority stays silent or leadership is lost.
func (r *Replica) Observe(now time.Duration, q Observe) error {
	r.now = now
	if !r.leading.serving {
		return ErrNotServing
	}
	r.leading.reads.observe(q)
	r.dirty = true
	return nil
}

// observed answers a question, and tells of later changes.
func (r *Replica) observed(q Observe, out *Output) {
	now := r.table.Leader(q.Key)
	r.leading.observers.add(q, now, r.now)
	out.Led = append(out.Led, Led{Node: q.Node, Ref: q.Ref, Key: q.Key, Revision: r.table.Revision(), Leader: now})
}

// tellObservers tells of what has changed since the last time.
func (r *Replica) tellObservers(out *Output) {
	if r.leading.serving {
		out.Led = r.leading.observers.tell(r.table, out.Led)
	}
}
