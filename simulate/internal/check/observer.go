package check

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/lockmesh/mesh/internal/env"
	"github.com/lockmesh/mesh/internal/fault"
	"github.com/lockmesh/mesh/shard"
	"github.com/lockmesh/mesh/transport"
)

// Observer hears what the replicas of a world do, and lets the checkers know that look
// inside of a mesh: they see what clients may never come to see, and sooner.
type Observer struct {
	h        *History
	world    World
	meshes   map[transport.ID]uint64        // by node; looked up, never ranged over
	founded  []uint64                       // the meshes in which a node had a seat, in their order
	lists    map[uint64][]string            // by mesh: the entries of its core when the first node had a seat
	voids    map[transport.ID]time.Duration // when a node's mesh gave way to an earlier one: what it held is lost (C10)
	calm     map[ShardName]bool             // whose quiet time an operator has ended; looked up, never ranged over
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
		lists:    make(map[uint64][]string),
		voids:    make(map[transport.ID]time.Duration),
		calm:     make(map[ShardName]bool),
		queue:    fifo{h: h, world: w, seen: make(map[decisionName]decision), keys: make(map[shardKey]*keyQueue), dropped: make(map[ownerName]int), tokens: make(map[tokenName]span), broken: make(map[tokenName]time.Duration), lives: make(map[int]ShardName)},
		leaders:  leaders{world: w, terms: make(map[termName]transport.ID), now: make(map[ShardName]leader)},
		state:    state{world: w, recent: make(map[ShardName]*digests), astray: make(map[tableName]bool)},
		identity: newIdentity(w),
		late:     late{world: w, shards: make(map[ShardName]*offices)},
	}
}

// ShardName names a shard's history.
type ShardName struct {
	Mesh       uint64
	Generation uint64
	Shard      int
}

// Lineage names the shard in all its generations.
func (n ShardName) Lineage() ShardName { return ShardName{Mesh: n.Mesh, Shard: n.Shard} }

// follows reports whether n, the latest generation of its shard, came after the other name.
func (n ShardName) follows(other ShardName) bool { return n.Shard == other.Shard && n != other }

// Name returns the name of the shard of which a replica tells.
func (o *Observer) Name(at env.At) ShardName {
	return ShardName{o.meshes[at.Node], at.Generation, at.Shard}
}

// Observe implements env.Observer.
func (o *Observer) Observe(at env.At, fact any) {
	name := o.Name(at)
	switch f := fact.(type) {
	case shard.Decision:
		o.queue.decided(name, at.Node, f)
	case env.Stepped:
		o.state.stepped(name, at.Node, f)
		o.appeased(name, at.Node, f)
	case env.Applied:
		o.state.applied(name, at.Node, f)
	case env.Became:
		if f.Role == "none" {
			delete(o.state.astray, tableName{at.Node, at.Shard}) // the node may get another one
		}
		o.leaders.became(name, at.Node, f)
		if f.Role == "candidate" {
			o.identity.stood(name, at.Node)
		}
		if f.Role == "leader" {
			if o.identity.led(name, at.Node) {
				o.queue.begun(name)
				o.late.begun(name)
			}
		}
	case env.Served:
		o.late.served(name, at.Node, f)
	case env.Handover:
		o.late.handsOver(name, at.Node, f)
	case env.Heard:
		o.late.heard(name, at.Node, f)
	case env.Hosted:
		o.identity.made(name, at.Node, f)
	case env.Configured:
		o.identity.configured(name, f)
	case env.Stopped:
		o.stopped(at, f)
	}
}

// stopped: no replica stops itself unless BreakReplica has asked it to, or a test has corrupted its table
// (P23, P41). That the mesh goes on without it is no excuse: what happened to one replica may happen to
// the next.
func (o *Observer) stopped(at env.At, s env.Stopped) {
	if !errors.Is(s.Err, env.ErrBroken) && !o.state.astray[tableName{at.Node, at.Shard}] {
		o.world.Fail(fmt.Errorf("P23 stopped: the replica of shard %d on %s has stopped itself: %w",
			at.Shard, HostOf(o.world, at.Node), s.Err))
	}
}

// Fenced implements env.Observer.
func (o *Observer) Fenced(node transport.ID, fenced bool) { o.late.fenced(node, fenced) }

// Founded implements env.Observer: there is one mesh in a world (C4), unless the
// scenario says otherwise.
func (o *Observer) Founded(node transport.ID, mesh uint64) {
	if before := o.meshes[node]; before != mesh {
		o.late.left(before, node)
		if at := slices.Index(o.founded, mesh); at >= 0 && at < slices.Index(o.founded, before) {
			o.voids[node] = o.world.Now()
		}
	}
	o.meshes[node] = mesh
	w := o.world
	seen := []uint64{mesh}
	founder, runs := nodeOf(w, node)
	if runs && !seated(founder) {
		return // it follows those that have a seat
	}
	if !slices.Contains(o.founded, mesh) {
		if o.founded = append(o.founded, mesh); len(o.founded) > 1 {
			o.behind()
		}
		if runs {
			o.lists[mesh] = founder.Entries()
		}
	}
	for p, n := range w.Living() {
		id := n.Mesh()
		if id == 0 || slices.Contains(seen, id) || !seated(n) || w.Relists() && !o.decides(id, mesh, founder) {
			continue
		}
		if seen = append(seen, id); len(seen) > max(1, w.Meshes()) {
			w.Fail(fmt.Errorf("G1 founding: the node on %s is of mesh %x, and the one on %s of mesh %x", HostOf(w, node), mesh, p.Host(), id))
		}
	}
}

// decides reports whether the nodes of a mesh that live can still decide anything, as far as those with a seat or a vote know
// themselves: they are a majority of its core, or of the voters of a shard. What a client knows may be older. One at an entry with which the next mesh was founded was to be asked
// before, and counts as well; not so at an entry that was added since. Those that have a seat in the next mesh were asked, are
// fenced, and hear of it soon.
func (o *Observer) decides(mesh, next uint64, founder Node) bool {
	list := o.lists[next]
	var asked []transport.ID
	if founder.Inspected != nil {
		asked = founder.Seats()
	}
	alive := make(map[transport.ID]bool)
	for _, n := range o.world.Living() {
		alive[n.ID] = alive[n.ID] || n.Mesh() == mesh && !slices.Contains(asked, n.ID)
	}
	most := func(ids []transport.ID) bool {
		lives, all := 0, 0
		for _, id := range ids {
			if id != 0 {
				all++
			}
			if alive[id] {
				lives++
			}
		}
		return lives > all/2
	}
	for _, n := range o.world.Living() {
		if !alive[n.ID] {
			continue
		}
		if i := slices.Index(n.Seats(), n.ID); i >= 0 && (most(n.Seats()) || slices.Contains(list, n.Entries()[i])) {
			return true
		}
		for _, r := range n.Replicas() {
			if most(r.Voters) && (len(r.Outgoing) == 0 || most(r.Outgoing)) {
				return true
			}
		}
	}
	return false
}

// behind (P17): the core has forgotten its mesh, and founded another one. Only clocks, and clients that live on, say
// with which tokens that begins. Where no clock of the core is past the tokens that there were, they may begin again:
// G2 is a promise of one mesh.
func (o *Observer) behind() {
	latest := uint64(0)
	for p, n := range o.world.Living() {
		if seated(n) {
			latest = max(latest, uint64(max(0, p.Wall().UnixMilli()))<<10)
		}
	}
	for _, k := range o.h.keys { // order-free: each is judged alone
		highest := k.highest
		for w := range k.words { // order-free: the highest; an observer may have heard of a leader whose own call has not returned
			highest = max(highest, w.token)
		}
		if highest >= latest {
			k.behind, k.highest, k.exclusive, k.returns, k.words = true, 0, 0, nil, nil
		}
	}
}

// seated reports whether a node has a seat in the core of its mesh.
func seated(n Node) bool { return slices.Contains(n.Seats(), n.ID) }

// Ended implements env.Observer: no node ends itself, but a mesh of one that gives way to
// another mesh, where the scenario lets there be several (P28), and one that has met another one at its entry, where the
// scenario lets an address lead to several (C12).
func (o *Observer) Ended(node transport.ID, err error) {
	w := o.world
	fellow := ""
	for p, n := range w.Living() {
		if n.ID != node && n.Mesh() == o.meshes[node] {
			fellow = p.Host()
		}
	}
	switch {
	case w.Balanced() && errors.Is(err, fault.ErrEntryTaken):
	case w.Meshes() <= 1:
		w.Fail(fmt.Errorf("P28 ended: the node on %s has ended itself: %w", HostOf(w, node), err))
	case fellow != "":
		w.Fail(fmt.Errorf("P28 ended: the node on %s has ended itself, though its mesh has another one, on %s: %w", HostOf(w, node), fellow, err))
	}
}
