package node

import (
	"slices"

	"github.com/lockmesh/mesh/internal/client"
	"github.com/lockmesh/mesh/internal/founding"
	"github.com/lockmesh/mesh/internal/members"
	"github.com/lockmesh/mesh/internal/message"
	"github.com/lockmesh/mesh/internal/replica"
	"github.com/lockmesh/mesh/ring"
	"github.com/lockmesh/mesh/shard"
)

// maxMoves: while a node's leaders move so many shards, no other one begins to move, so that a restart
// storm does not melt the fleet. All that begin in the same tick may do so.
const maxMoves = 4

// founders returns each shard's first replicas: where the ring wants them among the
// roster. Their IDs are their positions in that list, from 1.
func founders(v founding.Mesh) [][]replica.Peer {
	members := make([]ring.Member, len(v.Roster))
	byName := make(map[string]replica.Peer)
	for i, m := range v.Roster {
		members[i] = ring.Member{Name: m.Name, Zone: m.Zone}
		byName[m.Name] = replica.Peer{Node: uint64(m.ID), Name: m.Name, Addr: m.Addr}
	}
	table := ring.New(members, v.Params.Shards, v.Params.Replicas)
	all := make([][]replica.Peer, v.Params.Shards)
	for sh := range all {
		for _, name := range table.Replicas(sh) {
			all[sh] = append(all[sh], byName[name])
		}
	}
	return all
}

// foundReplicas creates the founding replicas that live on this node.
func (l *shardLoop) foundReplicas(first [][]replica.Peer) {
	v := l.node.mesh
	for sh := range v.Params.Shards {
		mine := slices.IndexFunc(first[sh], func(p replica.Peer) bool { return p.Node == l.node.id })
		if mine < 0 {
			continue
		}
		f := shard.Founding{Revision: v.Founded << 10}
		if v.Grace {
			f.Settles = v.Params.Quiet()
		}
		l.add(replica.Config{Shard: sh, Generation: v.Epoch, ID: uint64(mine + 1), Founders: first[sh], Founding: f})
	}
}

// host creates the replica that a leader asked for. Never twice the same, and never one
// that lived here before: it would have forgotten what it promised (P24).
func (l *shardLoop) host(sh int, generation, id uint64) {
	if id <= l.hosted[sh] {
		return
	}
	if l.node.closing() {
		return // a node that leaves soon must not be given a vote (P32)
	}
	if r := l.replica(sh); r != nil {
		if r.ID() >= id || generation < r.Generation() {
			return
		}
		// A shard has one replica on a node: the leader that added this one saw, in the
		// log, that the earlier one is removed.
		l.drop(r)
	}
	l.add(replica.Config{Shard: sh, Generation: generation, ID: id})
}

// add creates the replica that cfg describes, of which the node itself is filled in.
func (l *shardLoop) add(cfg replica.Config) {
	i, _ := l.search(cfg.Shard)
	cfg.Self, cfg.Rho, cfg.Seed = l.node.peer(), l.node.mesh.Params.Drift(), l.rand.Uint64()
	cfg.Logger, cfg.Counters, cfg.Points = l.log, &l.appended, l.node.points
	cfg.Founding.Check = l.node.check
	l.observe(&cfg)
	r := replica.New(cfg, l.now)
	l.replicas = slices.Insert(l.replicas, i, r)
	l.hosted[cfg.Shard] = max(l.hosted[cfg.Shard], cfg.ID)
	l.target(r)
}

// drop destroys a replica.
func (l *shardLoop) drop(r *replica.Replica) {
	if i, ok := l.search(r.Shard()); ok && l.replicas[i] == r {
		l.replicas = slices.Delete(l.replicas, i, i+1)
		l.emptied()
	}
}

// emptied reports at once when the last replica is gone, since no tick comes any more that would.
func (l *shardLoop) emptied() {
	if len(l.replicas) == 0 {
		l.report()
	}
}

// replica returns the replica of a shard on this node, or nil.
func (l *shardLoop) replica(sh int) *replica.Replica {
	i, ok := l.search(sh)
	if !ok {
		return nil
	}
	return l.replicas[i]
}

func (l *shardLoop) search(sh int) (int, bool) {
	return slices.BinarySearchFunc(l.replicas, sh, func(r *replica.Replica, sh int) int { return r.Shard() - sh })
}

// look takes a new view of the mesh.
func (l *shardLoop) look(v *members.View) {
	l.view = v
	l.step(client.Viewed{View: v})
	for _, r := range l.replicas {
		l.target(r)
	}
	for key, f := range l.framed { // order-free: each is judged alone
		if !f.queued && !v.Has(key.to) {
			delete(l.framed, key)
		}
	}
	l.forgetWays(func(node uint64) bool { return !v.Has(node) })
}

func (l *shardLoop) target(r *replica.Replica) {
	sh := r.Shard()
	known, others := l.view.Liveness()
	r.SetTarget(replica.Target{Nodes: l.view.Target(sh), Standby: l.view.Standby(sh), Liveness: known, Unknown: others})
}

// carryOut does what a replica wants done.
func (l *shardLoop) carryOut(r *replica.Replica) {
	o := &l.out
	sh := r.Shard()
	for _, s := range o.Sends {
		l.say(s.Node, sh, s.Message)
	}
	for _, e := range o.Events {
		l.tell(r, e)
	}
	for _, a := range o.Answers {
		l.answer(r, a)
	}
	for _, d := range o.Dropped {
		l.toClient(d.Session.Node, sh, &message.Redirect{
			Session: d.Session.Number, Number: d.Number, Leadership: message.Leadership{Generation: r.Generation()},
		})
	}
	if o.Serving {
		l.announce(r)
	}
	o.Reset()
}

// declineAll asks leaders to give this node's replicas no vote, if it is to go soon (P32).
func (l *shardLoop) declineAll() {
	if !l.node.closing() {
		return
	}
	if l.declined == nil {
		l.declined = make(map[int]uint64)
	}
	for _, r := range l.replicas {
		l.decline(r)
	}
}

// decline asks the leader of one of them.
func (l *shardLoop) decline(r *replica.Replica) {
	if p, ok := r.Leader(); ok && !slices.Contains(r.Voters(), r.ID()) {
		l.declined[r.Shard()] = r.Term()
		l.say(p.Node, r.Shard(), &replica.Decline{Generation: r.Generation(), ID: r.ID()})
	}
}
