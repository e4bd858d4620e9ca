package client

import (
	"testing"

	"github.com/lockmesh/mesh/internal/fault"
	"github.com/lockmesh/mesh/internal/message"
	"github.com/lockmesh/mesh/internal/replica"
	"github.com/lockmesh/mesh/shard"
)

// inspects starts a look at k.
func (b *bench) inspects(q shard.Inspection) *Call {
	b.tb.Helper()
	c := &Call{Kind: Ask, Session: b.own, Request: Request{Key: q.Key}, Inspect: &q}
	b.do(Start{c})
	return c
}

func inspectOf(tb testing.TB, s Send) message.Inspect {
	tb.Helper()
	q, ok := s.Message.(*message.Inspect)
	if !ok {
		tb.Fatalf("%q is no look", words(s))
	}
	return *q
}

// seen is b's answer to a look: so many wait.
func seen(tb testing.TB, question Send, revision uint64, waiting int) *message.State {
	q := inspectOf(tb, question)
	by := byB
	by.Generation = q.Generation
	page := shard.Page{Keys: []shard.KeyState{{Key: "k", Waiting: waiting}}}
	return &message.State{State: replica.State{Ref: q.Ref, Revision: revision, Page: page}, Leadership: by}
}

const aLook = "2: look at k"

// Promise: P48: a look goes to the leader of the key's shard, with all that was asked, and its answer says who has given it. It opens no record.
func TestALook(t *testing.T) {
	b := newBench(t)
	asked := shard.Inspection{Key: "k", Most: 3, After: shard.Cursor{After: 7, Number: 2}}
	c := b.inspects(asked)
	p := b.expect(aLook)
	if q := inspectOf(t, p); q.Node != nodeA || q.Key != "k" || q.Most != 3 || q.After != asked.After || q.Relay || q.Generation != 0 || c.over {
		t.Errorf("sent %+v; over: %t", q, c.over)
	}
	b.hears(nodeB, seen(t, p, 11, 5))
	if !c.over || c.Err != nil || len(c.Page.Keys) != 1 || c.Page.Keys[0].Waiting != 5 || c.Page.Leader != "b" {
		t.Errorf("%t, %v, %+v", c.over, c.Err, c.Page)
	}
	if b.client.Revision(0) != 11 || b.leases() != 0 {
		t.Errorf("the client knows revision %d, and has %d leases", b.client.Revision(0), b.leases())
	}
	b.hears(nodeB, seen(t, p, 12, 6)) // again
	if b.expects(); c.Page.Keys[0].Waiting != 5 {
		t.Errorf("then: %+v", c.Page)
	}
}

// Promise: P48: of two looks each has its own answer, and a question who uses a key takes none of them.
func TestLooksAreToldApart(t *testing.T) {
	b := newBench(t)
	users := b.questions()
	asked := b.expect(whoUses)
	first, second := b.inspects(shard.Inspection{Key: "k"}), b.inspects(shard.Inspection{Key: "k"})
	sent := b.expects(aLook, aLook)
	b.hears(nodeB, seen(t, sent[1], 11, 2))
	if first.over || !second.over || second.Page.Keys[0].Waiting != 2 {
		t.Errorf("the first: %t; the second: %t, %+v", first.over, second.over, second.Page)
	}
	crossed := seen(t, sent[0], 11, 3)
	crossed.Ref = queryOf(t, asked).Ref
	b.hears(nodeB, crossed)
	b.hears(nodeB, &message.View{View: replica.View{Ref: inspectOf(t, sent[0]).Ref, Revision: 11}, Leadership: byB})
	if users.over || first.over {
		t.Errorf("an answer of the other kind ends the question: %t, or the look: %t", users.over, first.over)
	}
	b.hears(nodeB, seen(t, sent[0], 11, 4), viewed(t, asked, 11, false, ann))
	if !users.over || !first.over || first.Page.Keys[0].Waiting != 4 {
		t.Errorf("the question: %t; the look: %t, %+v", users.over, first.over, first.Page)
	}
}

// Promise: P48: a look that finds another leader is asked there, and one that is on its way while the shard changes its generation is asked in the next
// one: what the generation before answers counts no more, and the page says of which one it is.
func TestALookFollowsItsShard(t *testing.T) {
	b := newBench(t)
	c := b.inspects(shard.Inspection{Key: "k"})
	p := b.expect(aLook)
	b.hears(nodeB, &message.Redirect{Number: inspectOf(t, p).Ref, Leadership: message.Leadership{Leader: nodeC, Term: benchTerm + 1}})
	p = b.expect("3: look at k")
	next := b.changes(9, aLook)[0]
	if q := inspectOf(t, next); q.Generation != 9 || q.Ref == inspectOf(t, p).Ref {
		t.Errorf("sent %+v", q)
	}
	b.hears(nodeC, seen(t, p, 11, 5))
	if c.over {
		t.Fatalf("the former generation's answer counts: %+v", c.Page)
	}
	b.hears(nodeB, seen(t, next, 11, 6))
	if !c.over || c.Page.Generation != 9 || c.Page.Keys[0].Waiting != 6 {
		t.Errorf("%t, %+v", c.over, c.Page)
	}
}

// Promise: P48, P15: a look without an answer is repeated, and given up after 2·E.
func TestALookWithoutAnAnswer(t *testing.T) {
	b := newBench(t)
	c := b.inspects(shard.Inspection{Key: "k"})
	b.pass(noQuorumAfter - 1)
	if sent := b.takes(); len(sent) < 4 || c.over {
		t.Fatalf("sent %q; over: %t", inWords(sent), c.over)
	}
	if b.pass(1); !c.over || c.Err != fault.ErrNoQuorum {
		t.Errorf("%t, %v", c.over, c.Err)
	}
}
