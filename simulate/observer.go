package simulate

import (
	"errors"
	"fmt"
	"slices"

	"github.com/lockmesh/mesh/internal/env"
	"github.com/lockmesh/mesh/transport"
)

// observer hears what the replicas of a world do, and lets the checkers know that look
// inside of a mesh: they see what clients may never come to see, and sooner.
type observer struct {
	world   *World
	meshes  map[transport.ID]uint64 // by node; looked up, never ranged over
	queue   fifo
	leaders leaders
	state   state

	identity identity
	late     late
	marks    marks
}

var _ env.Observer = (*observer)(nil)

func newObserver(w *World) observer {
	return observer{
		world:   w,
		meshes:  make(map[transport.ID]uint64),
		queue:   fifo{world: w, seen: make(map[decisionName]decision), keys: make(map[shardKey]*keyQueue), dropped: make(map[ownerName]int)},
		leaders: leaders{world: w, terms: make(map[termName]transport.ID), now: make(map[shardName]env.Became)},
		state:   state{world: w, recent: make(map[shardName]*digests), astray: make(map[tableName]bool)},

		identity: newIdentity(w),
		late:     late{world: w, shards: make(map[shardName]*offices)},
		marks:    newMarks(w),
	}
}

// shardName names a shard's history.
type shardName struct {
	mesh       uint64
	generation uint64
	shard      int
}

// Decided implements env.Observer.
func (o *observer) Decided(d env.Decision) {
	name := shardName{o.meshes[d.Replica], d.Generation, d.Shard}
	o.queue.decided(name, d)
	o.marks.rules(name, d)
}

// Stepped implements env.Observer.
func (o *observer) Stepped(s env.Stepped) {
	o.marks.stepped(shardName{o.meshes[s.Replica], s.Generation, s.Shard}, s)
}

// Applied implements env.Observer.
func (o *observer) Applied(a env.Applied) {
	o.state.applied(shardName{o.meshes[a.Replica], a.Generation, a.Shard}, a)
	o.marks.entered(a)
}

// Became implements env.Observer.
func (o *observer) Became(b env.Became) {
	name := shardName{o.meshes[b.Replica], b.Generation, b.Shard}
	if b.Role == "none" {
		delete(o.state.astray, tableName{b.Replica, b.Shard}) // the node may get another one
	}
	o.marks.became(name, b)
	o.leaders.became(name, b)
	if b.Role == "leader" {
		o.identity.led(name, b.Replica)
	}
}

// Served implements env.Observer.
func (o *observer) Served(v env.Served) {
	name := shardName{o.meshes[v.Replica], v.Generation, v.Shard}
	o.late.served(name, v)
	o.marks.served(name, v)
}

// HandsOver implements env.Observer.
func (o *observer) HandsOver(v env.Served, to transport.ID) {
	name := shardName{o.meshes[v.Replica], v.Generation, v.Shard}
	o.late.handsOver(name, v, to)
	o.marks.of(name).heir = to
}

// Heard implements env.Observer.
func (o *observer) Heard(v env.Heard) {
	o.late.heard(shardName{o.meshes[v.Replica], v.Generation, v.Shard}, v)
}

// Hosted implements env.Observer.
func (o *observer) Hosted(m env.Hosted) {
	name := shardName{o.meshes[m.Replica], m.Generation, m.Shard}
	o.marks.hosted(name, m)
	o.identity.made(name, m)
}

// Configured implements env.Observer.
func (o *observer) Configured(c env.Configured) {
	name := shardName{o.meshes[c.Replica], c.Generation, c.Shard}
	o.identity.configured(name, c)
	o.marks.configured(name, c)
}

// Founded implements env.Observer: there is one mesh in a world (P25), unless the
// scenario says otherwise.
func (o *observer) Founded(node transport.ID, mesh uint64) {
	o.meshes[node] = mesh
	o.marks.founded(node)
	w := o.world
	seen := []uint64{mesh}
	for h, n := range w.living() {
		id := n.node.Mesh()
		if id == 0 || slices.Contains(seen, id) {
			continue
		}
		if seen = append(seen, id); len(seen) > max(1, w.history.Meshes) {
			w.Fail(fmt.Errorf("G1 founding: the node on %s is of mesh %x, and the one on %s of mesh %x", w.hostOf(node), mesh, h.name, id))
		}
	}
}

// Stopped implements env.Observer: no replica stops itself unless BreakReplica has asked
// it to, or a test has corrupted its table (P23, P41). A mesh that goes on without it is none the better: what happened to one
// may happen to the next.
func (o *observer) Stopped(s env.Stopped) {
	if !errors.Is(s.Err, env.ErrBroken) && !o.state.astray[tableName{s.Replica, s.Shard}] {
		o.world.Fail(fmt.Errorf("P23 stopped: the replica of shard %d on %s has stopped itself: %w", s.Shard, o.world.hostOf(s.Replica), s.Err))
	}
}

// Ended implements env.Observer: no node ends itself, but a mesh of one that gives way to
// another mesh, where the scenario lets there be several (P28).
func (o *observer) Ended(node transport.ID, err error) {
	w := o.world
	fellow := ""
	for h, n := range w.living() {
		if n.id != node && n.node.Mesh() == o.meshes[node] {
			fellow = h.name
		}
	}
	switch {
	case w.history.Meshes <= 1:
		w.Fail(fmt.Errorf("P28 ended: the node on %s has ended itself: %w", w.hostOf(node), err))
	case fellow != "":
		w.Fail(fmt.Errorf("P28 ended: the node on %s has ended itself, though its mesh has another one, on %s: %w", w.hostOf(node), fellow, err))
	}
}

// hostOf returns the host that a node lives on, or lived on.
func (w *World) hostOf(node transport.ID) string {
	if p := w.nodes[node]; p != nil {
		return p.host.name
	}
	return fmt.Sprintf("node %x", uint64(node))
}
