package node

import (
	"maps"
	"slices"
	"time"

	"github.com/lockmesh/mesh/internal/message"
	"github.com/lockmesh/mesh/internal/point"
	"github.com/lockmesh/mesh/internal/replica"
	"github.com/lockmesh/mesh/shard"
)

// request takes a client's command that came from a peer, or from this node's own client.
func (l *shardLoop) request(from uint64, sh int, m *message.Request) {
	client, number := shard.ClientOf(m.Command)
	l.serve(from, sh, m.Generation, client, number, &m.Relay, m, func(r *replica.Replica) error {
		return r.Submit(l.now, m.Command, m.Raw)
	})
}

// renew takes a renewal.
func (l *shardLoop) renew(from uint64, sh int, m *message.Renewal) {
	l.serve(from, sh, m.Generation, m.Session, 0, &m.Relay, m, func(r *replica.Replica) error {
		return r.Renew(l.now, m.Renewal)
	})
}

// query takes a question.
func (l *shardLoop) query(from uint64, sh int, m *message.Query) {
	l.serve(from, sh, m.Generation, shard.SessionID{Node: m.Node}, m.Ref, &m.Relay, m, func(r *replica.Replica) error {
		return r.Query(l.now, m.Query)
	})
}

// observes takes a question who leads an election.
func (l *shardLoop) observes(from uint64, sh int, m *message.Observe) {
	l.serve(from, sh, m.Generation, shard.SessionID{Node: m.Node}, m.Ref, &m.Relay, m, func(r *replica.Replica) error {
		return r.Observe(l.now, m.Observe)
	})
}

// inspect takes a question what is known of keys.
func (l *shardLoop) inspect(from uint64, sh int, m *message.Inspect) {
	l.serve(from, sh, m.Generation, shard.SessionID{Node: m.Node}, m.Ref, &m.Relay, m, func(r *replica.Replica) error {
		return r.Inspect(l.now, m.Inspect)
	})
}

// serve gives m, a request, a question or a renewal (number zero), to the replica here, if it leads its shard in the
// generation that m is for. Else its client is told which node does; or m, of which relay is the field Relay, is relayed to the leader.
func (l *shardLoop) serve(
	from uint64, sh int, generation uint64, client shard.SessionID, number uint64,
	relay *bool, m message.Message, accept func(*replica.Replica) error,
) {
	r := l.replica(sh)
	if r != nil && (l.core.fenced || r.Generation() != generation) {
		r = nil // what was asked of one life of the shard means nothing in another (C8)
	}
	if r != nil && r.Serving() {
		l.comesThrough(client.Node, from)
		l.guard(r, func() { _ = accept(r) }) // it serves, so it accepts
		return
	}
	if *relay && r != nil {
		if p, ok := r.Leader(); ok && p.Node != l.node.id && p.Node != from {
			*relay = false // once
			l.say(p.Node, sh, m)
			return
		}
	}
	l.refer(from, generation, client, number, sh, r)
}

// comesThrough remembers by which way a client's latest request came: its replies go back that way.
func (l *shardLoop) comesThrough(client, from uint64) {
	if client == from {
		delete(l.via, client)
	} else {
		l.via[client] = way{from, l.now}
	}
}

// way is how a client's requests come that does not reach this node itself.
type way struct {
	relay uint64
	at    time.Duration // of its latest request
}

// forgetWays forgets the ways through relays that are gone. The next message to such a relay's client goes to the
// client itself.
func (l *shardLoop) forgetWays(gone func(node uint64) bool) {
	maps.DeleteFunc(l.via, func(_ uint64, w way) bool { return gone(w.relay) }) // order-free: each is judged alone
}

// forgetOldWays forgets the ways to clients that nobody hears any more: none of their leases is left.
func (l *shardLoop) forgetOldWays() {
	if len(l.via) > 0 {
		oldest := l.now - l.core.table.Params.Outlast()
		maps.DeleteFunc(l.via, func(_ uint64, w way) bool { return w.at < oldest }) // order-free: each is judged alone
	}
}

// refer tells a client which node leads the shard. The answer takes the way by which the request
// came: to the client itself, or to the node that relayed it and passes the answer on.
func (l *shardLoop) refer(from, generation uint64, client shard.SessionID, number uint64, sh int, r *replica.Replica) {
	d := &message.Redirect{Session: client.Number, Number: number}
	d.Generation = generation
	if r != nil {
		if p, ok := r.Leader(); ok && p.Node != l.node.id {
			d.Leader, d.Term = p.Node, r.Term()
		}
	}
	if l.node.points.Taken(point.StaleRedirect) {
		if target := l.core.aims[sh].Nodes; len(target) > 0 {
			d.Leader = target[0].Node
		}
	}
	l.comesThrough(client.Node, from)
	l.toClient(client.Node, sh, d)
}

// toClient sends a message to a client's node, the way that its requests came.
func (l *shardLoop) toClient(node uint64, sh int, m message.Message) {
	if via, relayed := l.via[node]; relayed && node != l.node.id {
		l.say(via.relay, sh, message.NewForward(node, sh, m))
		return
	}
	l.say(node, sh, m)
}

// forward takes a message that a relay passed on to this node's client; or, as the relay, passes one
// on to the client's node as it is.
func (l *shardLoop) forward(from uint64, sh int, m *message.Forward) {
	if m.To == l.node.id {
		if _, redirects := m.Inside.(*message.Redirect); !redirects {
			from = 0 // the leader speaks, not the relay: see client.Received
		}
		l.take(from, sh, m.Inside)
		return
	}
	l.say(m.To, sh, m.Inside)
}

// leadership names this node as the shard's leader, if it is.
func (l *shardLoop) leadership(r *replica.Replica) message.Leadership {
	o := message.Leadership{Generation: r.Generation()}
	if p := l.core.table.Params; p.Changed {
		o.Limit = p.Limit()
	}
	if r.Serving() {
		o.Leader, o.Term = l.node.id, r.Term()
	}
	return o
}

// tell sends one of the table's events to the client that it is for.
func (l *shardLoop) tell(r *replica.Replica, e shard.Event) {
	if !e.Answers() {
		return
	}
	l.toClient(e.Session.Node, r.Shard(), &message.Reply{Event: e, Revision: r.Revision(), Leadership: l.leadership(r)})
}

// answer sends what came of a renewal.
func (l *shardLoop) answer(r *replica.Replica, a replica.Answer) {
	l.toClient(a.Session.Node, r.Shard(), &message.Answer{Answer: a, Leadership: l.leadership(r)})
}

// announceLimit is the largest mesh in which a new leader tells everybody. In a larger one
// the nodes that have sessions in the shard hear it, and others are redirected.
const announceLimit = 64

// announce tells the clients of a shard that this node serves it now, so that they ask at once for
// what they missed.
func (l *shardLoop) announce(r *replica.Replica) {
	nodes := make(map[uint64]bool)
	for _, s := range r.Table().Leases() {
		nodes[s.Session.Node] = true
	}
	if len(l.view.Members()) <= announceLimit {
		for _, m := range l.view.Members() {
			nodes[m.Node] = true
		}
	}
	for _, node := range slices.Sorted(maps.Keys(nodes)) {
		l.say(node, r.Shard(), &message.Serving{Generation: r.Generation(), Term: r.Term()})
	}
}
