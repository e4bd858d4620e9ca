package check

import (
	"fmt"
	"slices"

	"github.com/lockmesh/mesh/internal/env"
	"github.com/lockmesh/mesh/transport"
)

// identity checks that what names a replica, a node or a shard's history only grows (P24):
// a replica under a name that was used before would be taken for its predecessor, and be held
// to what that had promised.
type identity struct {
	world   World
	hosted  map[replicaName]transport.ID // where each was made; looked up, never ranged over
	latest  map[nodeShard]uint64         // the ID of each node's latest replica; looked up, never ranged over
	members map[ShardName]*roster        // looked up, never ranged over
	reached map[meshShard][]uint64       // the generations in which there was a leader, in the order of the first; looked up, never ranged over
}

type replicaName struct {
	ShardName
	id uint64
}

type nodeShard struct {
	ShardName
	node transport.ID
}

type meshShard struct {
	mesh  uint64
	shard int
}

// roster is what a shard's log says of its replicas.
type roster struct {
	index   uint64                  // of the latest change
	highest uint64                  // ID
	nodes   map[uint64]transport.ID // of each replica that there ever was; looked up, never ranged over
	now     []env.Placed
}

func newIdentity(w World) identity {
	return identity{
		world: w, hosted: make(map[replicaName]transport.ID), latest: make(map[nodeShard]uint64),
		members: make(map[ShardName]*roster), reached: make(map[meshShard][]uint64),
	}
}

// born hears of a node before it has joined.
func (i *identity) born(p Process, id transport.ID) {
	if before := i.world.Process(id); before != nil {
		i.world.Fail(fmt.Errorf("G1 identity: the node on %s has the ID of an earlier one, on %s", p.Host(), before.Host()))
	}
}

func (i *identity) made(name ShardName, node transport.ID, m env.Hosted) {
	w, id := i.world, replicaName{name, m.ID}
	if before, is := i.hosted[id]; is {
		w.Fail(fmt.Errorf("G1 identity: replica %d of shard %d is made on %s, and was made on %s before", m.ID, name.Shard, HostOf(w, node), HostOf(w, before)))
	}
	i.hosted[id] = node
	at := nodeShard{name, node}
	if m.ID <= i.latest[at] {
		w.Fail(fmt.Errorf("G1 identity: replica %d of shard %d is made on %s, which had replica %d before", m.ID, name.Shard, HostOf(w, node), i.latest[at]))
	}
	i.latest[at] = m.ID
}

// configured hears of each change of a shard's replicas from all that apply it. The first one
// counts.
func (i *identity) configured(name ShardName, c env.Configured) {
	r := i.members[name]
	if r == nil {
		r = &roster{nodes: make(map[uint64]transport.ID)}
		i.members[name] = r
	}
	if c.Index <= r.index {
		return
	}
	w, before, highest := i.world, r.now, r.highest
	r.index, r.now = c.Index, c.Replicas
	for _, p := range c.Replicas {
		node, known := r.nodes[p.ID]
		switch {
		case known && node != p.Node:
			w.Fail(fmt.Errorf("G1 identity: replica %d of shard %d is on %s, and was another node's, on %s", p.ID, name.Shard, HostOf(w, p.Node), HostOf(w, node)))
		case known && !slices.ContainsFunc(before, func(b env.Placed) bool { return b.ID == p.ID }):
			w.Fail(fmt.Errorf("G1 identity: replica %d of shard %d was removed, and is there again, on %s", p.ID, name.Shard, HostOf(w, p.Node)))
		case !known && p.ID <= highest:
			w.Fail(fmt.Errorf("G1 identity: the new replica of shard %d on %s has ID %d, and there was %d before", name.Shard, HostOf(w, p.Node), p.ID, highest))
		}
		r.nodes[p.ID], r.highest = p.Node, max(r.highest, p.ID)
	}
}

// led hears of each leader, and returns whether it is the first of a generation.
func (i *identity) led(name ShardName, node transport.ID) (begun bool) {
	at := meshShard{name.Mesh, name.Shard}
	all := i.reached[at]
	switch place := slices.Index(all, name.Generation); {
	case place < 0:
		i.reached[at] = append(all, name.Generation)
		return true
	case place < len(all)-1:
		i.world.Fail(fmt.Errorf("G1 identity: the node on %s leads shard %d in generation %x, and there was generation %x after it",
			HostOf(i.world, node), name.Shard, name.Generation, all[len(all)-1]))
	}
	return false
}
