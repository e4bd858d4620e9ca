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
	eras    map[ShardName][]*era         // by lineage: the generations that there were, in the order of their first candidates; looked up, never ranged over
	stands  map[nodeShard]uint64         // when each node was a candidate last; looked up, never ranged over
	heard   uint64                       // candidates and leaders so far: the time of eras and stands
}

// era is one generation of a shard.
type era struct {
	name uint64
	led  uint64 // when it had its first leader; zero: it had none yet
}

type replicaName struct {
	ShardName
	id uint64
}

type nodeShard struct {
	ShardName
	node transport.ID
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
		members: make(map[ShardName]*roster), eras: make(map[ShardName][]*era), stands: make(map[nodeShard]uint64),
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

// stood hears of each candidate.
func (i *identity) stood(name ShardName, node transport.ID) {
	i.era(name)
	i.heard++
	i.stands[nodeShard{name, node}] = i.heard
}

// era returns a generation, and those that came after it.
func (i *identity) era(name ShardName) (e *era, later []*era) {
	at := name.Lineage()
	all := i.eras[at]
	place := slices.IndexFunc(all, func(e *era) bool { return e.name == name.Generation })
	if place < 0 {
		place, all = len(all), append(all, &era{name: name.Generation})
		i.eras[at] = all
	}
	return all[place], all[place+1:]
}

// led hears of each leader, and returns whether it begins a generation. A generation is over once a later one is led: no node
// that stands for election after that is elected, since most voters are fenced. One that stood before may have their votes.
func (i *identity) led(name ShardName, node transport.ID) (begins bool) {
	i.heard++
	e, later := i.era(name)
	stood, ok := i.stands[nodeShard{name, node}]
	if !ok {
		stood = i.heard
	}
	begins = e.led == 0
	for _, l := range later {
		if l.led != 0 && l.led < stood {
			i.world.Fail(fmt.Errorf("G1 identity: the node on %s leads shard %d in generation %x, and there was generation %x after it",
				HostOf(i.world, node), name.Shard, name.Generation, l.name))
		}
		begins = begins && l.led == 0
	}
	if e.led == 0 {
		e.led = i.heard
	}
	return begins
}
