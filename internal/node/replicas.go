package node

import (
	"slices"

	"github.com/lockmesh/mesh/internal/members"
	"github.com/lockmesh/mesh/internal/message"
	"github.com/lockmesh/mesh/internal/replica"
)

// maxMoves: while a node's leaders move so many shards, no other one begins to move, so that a restart
// storm does not melt the fleet. A move counts from the moment when it begins.
const maxMoves = 4

// host creates the replica that a leader asked for. Never twice the same, and never one
// that lived here before: it would have forgotten what it promised (P24).
func (l *shardLoop) host(sh int, generation, id uint64) {
	if !l.core.hosting.Hosts(sh, generation) || id <= l.core.hosted[sh] {
		return
	}
	if r := l.replica(sh); r != nil {
		// A shard has one replica on a node: the leader that added this one saw, in the
		// log, that the earlier one is removed.
		l.drop(r)
	}
	l.add(replica.Config{Shard: sh, Generation: generation, ID: id})
}

// add creates the replica that cfg describes, of which the node itself is filled in.
func (l *shardLoop) add(cfg replica.Config) {
	i, _ := l.search(cfg.Shard)
	cfg.Self, cfg.Rho, cfg.Seed = l.node.peer(), l.core.table.Params.Drift(), l.rand.Uint64()
	cfg.Logger, cfg.Counters, cfg.Points = l.node.log, &l.appended, l.node.points
	cfg.Founding.Check = l.node.cfg.Check
	l.observe(&cfg)
	r := replica.New(cfg, l.now)
	l.replicas = slices.Insert(l.replicas, i, r)
	l.core.hosted[cfg.Shard] = max(l.core.hosted[cfg.Shard], cfg.ID)
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
	for _, r := range l.replicas {
		l.target(r)
	}
	for key, f := range l.framed { // order-free: each is judged alone
		if !f.queued && !v.Has(key.to) {
			delete(l.framed, key)
		}
	}
	l.forgetWays(func(relay uint64) bool { return !v.Has(relay) })
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
	for _, v := range o.Views {
		l.toClient(v.Node, sh, &message.View{View: v, Leadership: l.leadership(r)})
	}
	for _, e := range o.Led {
		l.toClient(e.Node, sh, &message.Led{Led: e, Leadership: l.leadership(r)})
	}
	for _, s := range o.States {
		l.toClient(s.Node, sh, &message.State{State: s, Leadership: l.leadership(r)})
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
