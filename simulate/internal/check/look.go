package check

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/lockmesh/mesh/internal/env"
	"github.com/lockmesh/mesh/shard"
	"github.com/lockmesh/mesh/transport"
)

// What the simulator asks of a history, beside its checks.

// Standing returns a line for each hold, and one for each call under way.
func (h *History) Standing() (holds, calls []string) {
	for _, k := range h.order {
		for _, x := range slices.Clone(k.live) { // a hold that is asked may find that it is over, and be removed
			belief := ", no longer believed in"
			if x.believed() {
				belief = fmt.Sprintf(", leased until %v", x.leasedUntil())
			}
			holds = append(holds, x.String()+belief)
		}
	}
	return holds, h.Open()
}

// Held reports whether a living process has a hold of whose end nobody has heard.
func (h *History) Held() bool {
	for _, k := range h.order {
		if slices.ContainsFunc(k.live, func(x *Hold) bool { return x.end == running && !x.call.process.Dead() }) {
			return true
		}
	}
	return false
}

// Queue returns the hosts whose nodes hold a key, in the order of the grants, and those
// that wait for it, the next one first.
func (o *Observer) Queue(key string) (holders, waiting []string) {
	for _, k := range o.queue.order {
		if k.key != key || k.over {
			continue
		}
		byToken := func(a, b requestName) int { return cmp.Compare(k.held[a].token, k.held[b].token) }
		for _, r := range slices.SortedFunc(maps.Keys(k.held), byToken) { // order-free: sorted
			holders = append(holders, HostOf(o.world, r.owner()))
		}
		byPlace := func(a, b requestName) int { return k.place[a].compare(k.place[b]) }
		for _, r := range slices.SortedFunc(maps.Keys(k.place), byPlace) { // order-free: sorted
			waiting = append(waiting, HostOf(o.world, r.owner()))
		}
	}
	return holders, waiting
}

// Room returns how many wait for the key of a decision of which the Observer has heard, and whether its request fits beside the holds.
func (o *Observer) Room(name ShardName, d shard.Decision) (waiting int, fits bool) {
	k := o.queue.keys[shardKey{name, d.Key}]
	return len(k.place), k.used+d.Weight <= d.Capacity
}

// Queued reports whether a request was ever in a queue of the shard.
func (o *Observer) Queued(name ShardName, session shard.SessionID, request uint64) bool {
	_, queued := o.queue.seen[decisionName{name, shard.Entered, requestName{session, request}}]
	return queued
}

// HoldsSince reports whether a session holds the key with a later token.
func (o *Observer) HoldsSince(name ShardName, key string, session shard.SessionID, token uint64) bool {
	k := o.queue.keys[shardKey{name, key}]
	if k == nil {
		return false
	}
	for r, g := range k.held { // order-free: whether there is any
		if r.session == session && g.token > token {
			return true
		}
	}
	return false
}

// Leader returns the shard's latest leader; zero: it had none yet.
func (o *Observer) Leader(name ShardName) transport.ID { return o.leaders.now[name].node }

// Replaced reports whether a node has had a replica of the shard before.
func (o *Observer) Replaced(name ShardName, node transport.ID) bool {
	return o.identity.latest[nodeShard{name, node}] > 0
}

// Corrupted notes that a test has corrupted a node's table: no checker compares it until its replica has
// stopped, which stopped reports.
func (o *Observer) Corrupted(node transport.ID, shard int) (stopped func() bool) {
	name := tableName{node, shard}
	o.state.astray[name] = true
	return func() bool { return !o.state.astray[name] }
}

// At sets the node of a call that the node does not tell of, and returns what hears of the hold in its place.
func (c *Call) At(node transport.ID) env.Holder {
	c.node = node
	return (*recorder)(c)
}
