package node

import (
	"github.com/lockmesh/mesh/internal/env"
	"github.com/lockmesh/mesh/internal/message"
	"github.com/lockmesh/mesh/internal/replica"
	"github.com/lockmesh/mesh/internal/seat"
	"github.com/lockmesh/mesh/shard"
	"github.com/lockmesh/mesh/transport"
)

// observe lets the observer of a simulation hear of a replica.
func (l *shardLoop) observe(cfg *replica.Config) {
	o := l.node.observer
	if o == nil {
		return
	}
	at := env.At{Shard: cfg.Shard, Generation: cfg.Generation, Node: transport.ID(l.node.id)}
	cfg.Watch = func(fact any) { o.Observe(at, fact) }
	cfg.Founding.Observe = func(d shard.Decision) { o.Observe(at, d) }
	o.Observe(at, env.Hosted{ID: cfg.ID})
}

// Replicas implements env.Inspected.
func (n *Node) Replicas() []env.Replica {
	ids := func(nodes []uint64) (ids []transport.ID) {
		for _, node := range nodes {
			ids = append(ids, transport.ID(node))
		}
		return ids
	}
	var all []env.Replica
	for _, r := range n.shards.replicas {
		voters, outgoing, coming, unsettled := r.Configuration()
		all = append(all, env.Replica{
			Shard: r.Shard(), Generation: r.Generation(),
			Voters: ids(voters), Outgoing: ids(outgoing), Coming: ids(coming), Unsettled: unsettled, Serving: r.Serving() && !n.shards.core.fenced,
			Missed: ids(r.Missed()), Last: r.Last(), Applied: r.Applied(), Sum: r.Table().Sum, Records: r.Table().Records,
		})
	}
	return all
}

// Break implements env.Inspected.
func (n *Node) Break(sh int) {
	n.shards.post(func(l *shardLoop) {
		if r := l.replica(sh); r != nil {
			l.guard(r, func() { panic(env.ErrBroken) })
		}
	})
}

// Corrupt implements env.Inspected.
func (n *Node) Corrupt(sh int) {
	n.shards.post(func(l *shardLoop) {
		if r := l.replica(sh); r != nil {
			r.Corrupt()
		}
	})
}

// Ready implements env.Inspected.
func (n *Node) Ready() bool { return n.phase() == serving }

// Mesh implements env.Inspected.
func (n *Node) Mesh() uint64 {
	if m := n.mesh.Load(); m != nil && n.phase() != closed {
		return m.id
	}
	return 0
}

// Seats implements env.Inspected.
func (n *Node) Seats() (all []transport.ID) {
	if t := n.shards.core.table; t != nil {
		for _, s := range t.Seats {
			all = append(all, s.Node.ID)
		}
	}
	return all
}

// Entries implements env.Inspected.
func (n *Node) Entries() []string {
	if t := n.shards.core.table; t != nil {
		return t.List()
	}
	return nil
}

// Generations implements env.Inspected.
func (n *Node) Generations() (all []env.Generation) {
	if t := n.shards.core.table; t != nil {
		for _, s := range t.Shards {
			all = append(all, env.Generation{Name: s.Generation.Name(), Voters: s.Voters, Next: s.Next})
		}
	}
	return all
}

// Pending implements env.Inspected.
func (n *Node) Pending() bool { return n.shards.core.seat.Pending() }

// Messages implements env.Inspected.
func (n *Node) Messages(kind transport.Kind, frame []byte, to transport.ID, asked env.Asked) (names []string) {
	switch {
	case kind == transport.KindControl && len(frame) == 0: // a rule has garbled it
		return nil
	case kind == transport.KindControl && frame[0] == ctlCore:
		return []string{"core: " + seat.Describe(frame[1:])}
	case kind == transport.KindControl:
		return []string{[...]string{
			ctlStatus: "status", ctlLeaving: "leaving", ctlAsk: "operator asks", ctlAnswer: "operator is answered", ctlQuery: "listing", ctlPage: "listing",
		}[frame[0]]}
	case kind != transport.KindShard || n.mesh.Load() == nil:
		return []string{"gossip"}
	}
	var r message.Reader
	for r.Reset(frame, n.mesh.Load().params.Shards); r.Next(); {
		names = append(names, message.Name(r.Message, to, func(to transport.ID, session, number uint64) string {
			return asked(to, r.Shard, session, number)
		}))
	}
	return names
}

// Asked implements env.Inspected.
func (n *Node) Asked(sh int, session, number uint64) string {
	if n.mesh.Load() == nil {
		return ""
	}
	if cmd := n.shards.client.Pending(sh, session, number); cmd != nil {
		return message.CommandName(cmd)
	}
	return ""
}
