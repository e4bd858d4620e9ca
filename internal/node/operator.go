package node

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/lockmesh/mesh/internal/core"
	"github.com/lockmesh/mesh/internal/operator"
	"github.com/lockmesh/mesh/transport"
)

// maxOperations is how many questions of operators that take time a node works on at once.
const maxOperations = 4

// asked takes a question of an operator, which any peer may be: as all peers, it is trusted.
func (n *Node) asked(from transport.ID, body []byte) {
	q, err := operator.DecodeQuestion(body)
	if err != nil {
		n.refuse(from, "question", err)
		return
	}
	n.shards.post(func(l *shardLoop) { l.operate(from, q) })
}

// operate answers a question, at once or when what it asks for has come about.
func (l *shardLoop) operate(from transport.ID, q operator.Question) {
	n := l.node
	switch {
	case q.Verb == operator.Tell:
		n.answer(from, operator.Answer{Number: q.Number, Status: l.status()})
		return
	case l.operations >= maxOperations:
		n.answer(from, operator.Refuse(q.Number, operator.ErrBusy))
		return
	}
	l.operations++
	switch q.Verb {
	case operator.DeclareDead:
		n.log.Info("an operator declares a node dead", "entry", q.Entry, "peer", from)
	case operator.Change:
		n.log.Info("an operator asks for another list of the core", "add", q.Add, "remove", q.Remove, "peer", from)
	case operator.Break:
		n.log.Info("an operator asks to break a grant", "key", q.Key, "token", q.Token, "why", q.Text, "peer", from)
	case operator.Release:
		n.log.Info("an operator asks to release a use", "resource", q.Key, "user", q.Text, "peer", from)
	}
	n.env.Go("operator", max(q.Wait, time.Second), func(ctx context.Context) {
		var sight *operator.Sight
		var err error
		switch q.Verb {
		case operator.Look, operator.Break, operator.Release:
			sight, err = n.operateOn(ctx, q)
		case operator.DeclareDead:
			err = n.DeclareDead(ctx, q.Entry)
		case operator.Change:
			err = n.ChangeCore(ctx, q.Add, q.Remove)
		}
		a := operator.Answer{Number: q.Number, Sight: sight}
		if err != nil {
			a = operator.Refuse(q.Number, err)
		}
		l.post(func(l *shardLoop) {
			l.operations--
			a.Status = l.status()
			n.answer(from, a)
		})
	})
}

func (n *Node) answer(to transport.ID, a operator.Answer) { n.control(to, ctlAnswer, a.Encode()) }

// status is what this node tells an operator.
func (l *shardLoop) status() *operator.Status {
	n, h := l.node, l.node.Health()
	standing := l.core.seat.Standing()
	s := &operator.Status{
		ID: idText(transport.ID(n.id)), Name: n.name, Addr: n.addr, Zone: n.cfg.Zone, Entry: l.core.seat.Entry(),
		List: l.core.seat.List(), StateDir: l.keeper.store != nil,
		Role: h.Role.String(), Phase: h.Phase.String(), Settled: h.Settled, Ready: h.Ready, SafeToStop: h.SafeToStop,
		FullyReplicated: h.FullyReplicated, NoMajority: h.NoMajority, UnderReplicated: h.UnderReplicated, Why: standing.Why,
	}
	if h.QuietUntil > l.now {
		s.Quiet = h.QuietUntil - l.now
	}
	for _, a := range standing.Away {
		s.Waiting = append(s.Waiting, operator.Away{Entry: a.Entry, For: (l.now - a.Since).Round(time.Millisecond), Why: a.Why})
	}
	if t := l.core.table; t != nil {
		s.Core = l.coreOf(t)
	}
	return s
}

func (l *shardLoop) coreOf(t *core.Table) *operator.Core {
	c := &operator.Core{
		Mesh: idText(transport.ID(t.Mesh)), Name: t.Params.MeshName, Version: fmt.Sprintf("%d.%d", t.Stamp.Roll.Round, t.Stamp.Version),
		Shards: len(t.Shards), Voters: t.Params.Voters(len(t.Seats)), Dropped: idText(t.Dropped),
		Ordered: t.OrderedList(), Unfinished: t.Unfinished(),
	}
	for _, s := range t.Seats {
		c.Seats = append(c.Seats, operator.Seat{
			Entry: s.Entry, ID: idText(s.Node.ID), Name: s.Node.Name, Addr: s.Node.Addr, List: strings.Fields(s.List), Ended: s.Ended,
			Connected: l.core.up[uint64(s.Node.ID)] || s.Node.ID == transport.ID(l.node.id),
		})
	}
	return c
}

// idText returns an ID as operators see it; "" for none.
func idText(id transport.ID) string {
	if id == 0 {
		return ""
	}
	return id.String()
}

// String returns the name of a phase, as in package mesh.
func (p Phase) String() string {
	return [...]string{Waiting: "waiting", Founding: "founding", Quiet: "quiet", Serving: "serving", Recovering: "recovering"}[p]
}
