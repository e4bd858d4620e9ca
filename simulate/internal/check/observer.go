package check

import (
	"errors"
	"fmt"
	"slices"

	"github.com/lockmesh/mesh/internal/env"
	"github.com/lockmesh/mesh/transport"
)

// Observer hears what the replicas of a world do, and lets the checkers know that look
// inside of a mesh: they see what clients may never come to see, and sooner.
type Observer struct {
	h        *History
	world    World
	meshes   map[transport.ID]uint64 // by node; looked up, never ranged over
	queue    fifo
	leaders  leaders
	state    state
	identity identity
	late     late
}

var _ env.Observer = (*Observer)(nil)

func newObserver(h *History) Observer {
	w := h.world
	return Observer{
		h:        h,
		world:    w,
		meshes:   make(map[transport.ID]uint64),
		queue:    fifo{h: h, world: w, seen: make(map[decisionName]decision), keys: make(map[shardKey]*keyQueue), dropped: make(map[ownerName]int)},
		leaders:  leaders{world: w, terms: make(map[termName]transport.ID), now: make(map[ShardName]env.Became)},
		state:    state{world: w, recent: make(map[ShardName]*digests), astray: make(map[tableName]bool)},
		identity: newIdentity(w),
		late:     late{world: w, shards: make(map[ShardName]*offices)},
	}
}

// ShardName names a shard's history.
type ShardName struct {
	mesh       uint64
	generation uint64
	shard      int
}

// Name returns the name of the shard of which a node's replica tells.
func (o *Observer) Name(node transport.ID, generation uint64, shard int) ShardName {
	return ShardName{o.meshes[node], generation, shard}
}

// Decided implements env.Observer.
func (o *Observer) Decided(d env.Decision) {
	o.queue.decided(o.Name(d.Replica, d.Generation, d.Shard), d)
}

// Stepped implements env.Observer.
func (o *Observer) Stepped(env.Stepped) {}

// Applied implements env.Observer.
func (o *Observer) Applied(a env.Applied) {
	o.state.applied(o.Name(a.Replica, a.Generation, a.Shard), a)
}

// Became implements env.Observer.
func (o *Observer) Became(b env.Became) {
	name := o.Name(b.Replica, b.Generation, b.Shard)
	if b.Role == "none" {
		delete(o.state.astray, tableName{b.Replica, b.Shard}) // the node may get another one
	}
	o.leaders.became(name, b)
	if b.Role == "leader" {
		o.identity.led(name, b.Replica)
	}
}

// Served implements env.Observer.
func (o *Observer) Served(v env.Served) {
	o.late.served(o.Name(v.Replica, v.Generation, v.Shard), v)
}

// HandsOver implements env.Observer.
func (o *Observer) HandsOver(v env.Served, to transport.ID) {
	o.late.handsOver(o.Name(v.Replica, v.Generation, v.Shard), v, to)
}

// Heard implements env.Observer.
func (o *Observer) Heard(v env.Heard) {
	o.late.heard(o.Name(v.Replica, v.Generation, v.Shard), v)
}

// Hosted implements env.Observer.
func (o *Observer) Hosted(m env.Hosted) {
	o.identity.made(o.Name(m.Replica, m.Generation, m.Shard), m)
}

// Configured implements env.Observer.
func (o *Observer) Configured(c env.Configured) {
	o.identity.configured(o.Name(c.Replica, c.Generation, c.Shard), c)
}

// Founded implements env.Observer: there is one mesh in a world (P25), unless the
// scenario says otherwise.
func (o *Observer) Founded(node transport.ID, mesh uint64) {
	o.meshes[node] = mesh
	w := o.world
	seen := []uint64{mesh}
	for p, n := range w.Living() {
		id := n.Mesh()
		if id == 0 || slices.Contains(seen, id) {
			continue
		}
		if seen = append(seen, id); len(seen) > max(1, w.Meshes()) {
			w.Fail(fmt.Errorf("G1 founding: the node on %s is of mesh %x, and the one on %s of mesh %x", HostOf(w, node), mesh, p.Host(), id))
		}
	}
}

// Stopped implements env.Observer: no replica stops itself unless BreakReplica has asked
// it to, or a test has corrupted its table (P23, P41). That the mesh goes on
// without it is no excuse: what happened to one replica may happen to the next.
func (o *Observer) Stopped(s env.Stopped) {
	if !errors.Is(s.Err, env.ErrBroken) && !o.state.astray[tableName{s.Replica, s.Shard}] {
		o.world.Fail(fmt.Errorf("P23 stopped: the replica of shard %d on %s has stopped itself: %w", s.Shard, HostOf(o.world, s.Replica), s.Err))
	}
}

// Ended implements env.Observer: no node ends itself, but a mesh of one that gives way to
// another mesh, where the scenario lets there be several (P28).
func (o *Observer) Ended(node transport.ID, err error) {
	w := o.world
	fellow := ""
	for p, n := range w.Living() {
		if n.ID != node && n.Mesh() == o.meshes[node] {
			fellow = p.Host()
		}
	}
	switch {
	case w.Meshes() <= 1:
		w.Fail(fmt.Errorf("P28 ended: the node on %s has ended itself: %w", HostOf(w, node), err))
	case fellow != "":
		w.Fail(fmt.Errorf("P28 ended: the node on %s has ended itself, though its mesh has another one, on %s: %w", HostOf(w, node), fellow, err))
	}
}
