package core

import (
	"slices"

	"github.com/lockmesh/mesh/internal/bug"
	"github.com/lockmesh/mesh/internal/point"
	"github.com/lockmesh/mesh/internal/replica"
	"github.com/lockmesh/mesh/internal/wire"
	"github.com/lockmesh/mesh/shard"
	"github.com/lockmesh/mesh/transport"
)

// request takes a client's command that came from a peer, or from this node's own desk.
func (l *lane) request(from uint64, m message) {
	client, _ := clientOf(m.command)
	r := l.replica(m.shard)
	if r != nil && r.Serving() {
		l.comesThrough(client.Node, from)
		l.guard(r, func() {
			if r.Submit(l.now, m.command, m.raw) != nil {
				l.refer(from, client, numberOf(m.command), m.shard, r)
			}
		})
		return
	}
	if m.relay && r != nil {
		if p, ok := r.Leader(); ok && p.Node != l.node.id && p.Node != from {
			b, f := l.begin(p.Node, transport.Normal, msgRequest, m.shard, 2)
			b = wire.AppendBool(b, false)
			l.end(f, append(b, m.raw...))
			return
		}
	}
	l.refer(from, client, numberOf(m.command), m.shard, r)
}

// renew takes a renewal.
func (l *lane) renew(from uint64, m message) {
	q := m.renewal
	r := l.replica(m.shard)
	if r != nil && r.Serving() {
		l.comesThrough(q.session.Node, from)
		l.guard(r, func() {
			if r.Renew(l.now, replica.Renewal{Session: q.session, Ref: q.ref, After: q.after, Abandoned: q.orphans}) != nil {
				l.refer(from, q.session, 0, m.shard, r)
			}
		})
		return
	}
	if q.relay && r != nil {
		if p, ok := r.Leader(); ok && p.Node != l.node.id && p.Node != from {
			q.relay = false
			b, f := l.begin(p.Node, transport.Urgent, msgRenew, m.shard, renewalFields)
			l.end(f, appendRenewal(b, q))
			return
		}
	}
	l.refer(from, q.session, 0, m.shard, r)
}

// comesThrough remembers by which way a client's latest request came: its replies go
// back by it.
func (l *lane) comesThrough(client, from uint64) {
	if client == from {
		delete(l.via, client)
	} else {
		l.via[client] = from
	}
}

// refer tells a client who leads the shard. It goes to whoever brought the request: the
// client itself, or the one that relayed it and passes it on.
func (l *lane) refer(from uint64, client shard.SessionID, number uint64, sh int, r *replica.Replica) {
	d := redirect{session: client.Number, number: number}
	if r != nil {
		if p, ok := r.Leader(); ok && p.Node != l.node.id {
			d.office = office{p.Node, r.Term()}
		}
	}
	if l.node.points.Taken(point.StaleRedirect) {
		if target := l.view.target(sh); len(target) > 0 {
			d.leader = target[0].Node
		}
	}
	if from != client.Node || !l.node.bugs.Has(bug.RedirectsAstray) {
		l.comesThrough(client.Node, from)
	}
	l.redirectClient(client.Node, sh, d)
}

func (l *lane) redirectClient(node uint64, sh int, d redirect) {
	if node == l.node.id {
		l.local = append(l.local, message{kind: msgRedirect, shard: sh, redirect: d})
		return
	}
	l.toClient(node, transport.Normal, sh, msgRedirect, redirectFields, func(b []byte) []byte { return appendRedirect(b, d) })
}

// toClient sends a message to a client's node, the way that its requests came.
func (l *lane) toClient(node uint64, class transport.Class, sh, kind, fields int, fill func([]byte) []byte) {
	if v, ok := l.via[node]; ok {
		inner := fill(appendMessage(nil, kind, sh, fields))
		b, f := l.begin(v, class, msgForward, sh, 2)
		l.end(f, wire.AppendBytes(wire.AppendUint(b, node), inner))
		return
	}
	b, f := l.begin(node, class, kind, sh, fields)
	l.end(f, fill(b))
}

// forward passes a message on to the client that asked through this node, as it is.
func (l *lane) forward(from uint64, m message) {
	if m.numbers[0] == l.node.id {
		if m.inside.kind != msgRedirect {
			from = 0 // the leader speaks through it
		}
		l.take(from, *m.inside)
		return
	}
	class := transport.Normal
	if m.inside.kind == msgAnswer {
		class = transport.Urgent
	}
	f := l.frame(m.numbers[0], class)
	f.body = append(f.body, m.inner...)
}

// office says as whom this node speaks of a shard.
func (l *lane) office(r *replica.Replica) office {
	if !r.Serving() {
		return office{}
	}
	return office{l.node.id, r.Term()}
}

// tell sends one of the table's events to the client that it is for.
func (l *lane) tell(r *replica.Replica, e shard.Event) {
	node, p, ok := replyOf(e)
	if !ok {
		return
	}
	p.generation, p.revision = r.Generation(), r.Revision()
	as := l.office(r)
	if node == l.node.id {
		l.local = append(l.local, message{kind: msgReply, shard: r.Shard(), reply: p, office: as})
		return
	}
	fill := func(b []byte) []byte { return appendOffice(appendReply(b, p), as) }
	l.toClient(node, transport.Normal, r.Shard(), msgReply, replyFields+officeFields, fill)
}

// answer sends what came of a renewal.
func (l *lane) answer(r *replica.Replica, a replica.Answer) {
	m := answer{
		session: a.Session.Number, ref: a.Ref, alive: a.Alive,
		generation: r.Generation(), revision: a.Revision, more: a.More,
	}
	for _, e := range a.Results {
		if _, p, ok := replyOf(e); ok {
			p.generation, p.revision = m.generation, m.revision
			m.results = append(m.results, p)
		}
	}
	as := l.office(r)
	if a.Session.Node == l.node.id {
		l.local = append(l.local, message{kind: msgAnswer, shard: r.Shard(), answer: m, office: as})
		return
	}
	l.toClient(a.Session.Node, transport.Urgent, r.Shard(), msgAnswer, answerFields+officeFields, func(b []byte) []byte {
		return appendOffice(appendAnswer(b, m), as)
	})
}

// announced is the largest mesh in which a new leader tells everybody. In a larger one
// the nodes that have sessions in the shard hear it, and others are redirected.
const announced = 64

// announce tells the clients of a shard who serves it now, so that they ask at once for
// what they missed.
func (l *lane) announce(r *replica.Replica) {
	nodes := make(map[uint64]bool)
	for _, s := range r.Table().Leases() {
		nodes[s.Session.Node] = true
	}
	if len(l.view.members) <= announced {
		for _, m := range l.view.members {
			nodes[m.Node] = true
		}
	}
	for _, node := range sortedNodes(nodes) {
		if node == l.node.id {
			l.local = append(l.local, message{kind: msgServing, shard: r.Shard(), numbers: [3]uint64{r.Term()}})
			continue
		}
		b, f := l.begin(node, transport.Normal, msgServing, r.Shard(), 1)
		l.end(f, wire.AppendUint(b, r.Term()))
	}
}

func sortedNodes(set map[uint64]bool) []uint64 {
	nodes := make([]uint64, 0, len(set))
	for n := range set { // order-free: sorted below
		nodes = append(nodes, n)
	}
	slices.Sort(nodes)
	return nodes
}
