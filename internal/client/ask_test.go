package client

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/lockmesh/mesh/internal/env"
	"github.com/lockmesh/mesh/internal/fault"
	"github.com/lockmesh/mesh/internal/message"
	"github.com/lockmesh/mesh/internal/replica"
	"github.com/lockmesh/mesh/shard"
)

// questions starts a question who uses r.
func (b *bench) questions() *Call {
	b.tb.Helper()
	c := &Call{Kind: Ask, Session: b.own, Request: Request{Key: "r"}}
	b.do(Start{c})
	return c
}

func queryOf(tb testing.TB, s Send) message.Query {
	tb.Helper()
	q, ok := s.Message.(*message.Query)
	if !ok {
		tb.Fatalf("%q is no question", words(s))
	}
	return *q
}

// viewed is b's answer to a question.
func viewed(tb testing.TB, question Send, revision uint64, more bool, refs ...shard.Ref) message.Message {
	q := queryOf(tb, question)
	return &message.View{View: replica.View{Ref: q.Ref, Revision: revision, Refs: refs, More: more}, Leadership: byB}
}

// elsewhere is what a node says of a question: not here, but there.
func elsewhere(tb testing.TB, question Send, to, term uint64) message.Message {
	return &message.Redirect{Number: queryOf(tb, question).Ref, Leadership: message.Leadership{Leader: to, Term: term}}
}

const whoUses = "2: who uses r"

var (
	ann = shard.Ref{User: "ann", Durable: true, Stamp: 5}
	bob = shard.Ref{User: "bob", Stamp: 7}
	cid = shard.Ref{User: "cid", Stamp: 9}
)

// Promise: P39: a question goes to the leader of the resource's shard, which answers it. It opens no record.
func TestAQuestion(t *testing.T) {
	for _, refs := range [][]shard.Ref{nil, {ann, bob}} {
		b := newBench(t)
		c := b.questions()
		p := b.expect(whoUses)
		if q := queryOf(t, p); q.Node != nodeA || q.Key != "r" || q.After != 0 || q.Relay || q.Generation != 0 || c.over {
			t.Errorf("sent %+v; over: %t", q, c.over)
		}
		b.happened()
		b.hears(nodeB, viewed(t, p, 11, false, refs...))
		if !c.over || c.Err != nil || !slices.Equal(c.Refs, refs) || !slices.Equal(b.happened(), []Event{Finished{c}}) {
			t.Errorf("%t, %v, %+v", c.over, c.Err, c.Refs)
		}
		if b.client.Revision(0) != 11 || b.leases() != 0 {
			t.Errorf("the client knows revision %d, and has %d leases", b.client.Revision(0), b.leases())
		}
		b.hears(nodeB, viewed(t, p, 12, false, cid)) // again
		b.pass(time.Minute)
		if b.expects(); !slices.Equal(c.Refs, refs) || b.client.Deadline() != env.Never {
			t.Errorf("then: %+v; the next Tick is at %v", c.Refs, b.client.Deadline())
		}
	}
}

// Promise: P39: an answer that has not all uses is followed by a question for those after its last one. An answer that is told again
// adds nothing.
func TestPages(t *testing.T) {
	b := newBench(t)
	c := b.questions()
	first := b.expect(whoUses)
	b.hears(nodeB, viewed(t, first, 11, true, ann, bob))
	second := b.expect(whoUses)
	if q := queryOf(t, second); q.After != 7 || q.Ref == queryOf(t, first).Ref || c.over {
		t.Errorf("sent %+v; over: %t", q, c.over)
	}
	b.hears(nodeB, viewed(t, first, 11, true, ann, bob))
	b.expects()
	b.hears(nodeB, viewed(t, second, 12, false, cid))
	if b.expects(); !c.over || c.Err != nil || !slices.Equal(c.Refs, []shard.Ref{ann, bob, cid}) {
		t.Errorf("%t, %v, %+v", c.over, c.Err, c.Refs)
	}
}

// Promise: P39: an answer that has nothing, and says that there is more, is the last one.
func TestAnEmptyPage(t *testing.T) {
	b := newBench(t)
	c := b.questions()
	b.hears(nodeB, viewed(t, b.expect(whoUses), 11, true))
	if b.expects(); !c.over || c.Err != nil || len(c.Refs) != 0 {
		t.Errorf("%t, %v, %+v", c.over, c.Err, c.Refs)
	}
}

// Promise: P39: two questions at once have an answer each.
func TestTwoQuestions(t *testing.T) {
	b := newBench(t)
	first, second := b.questions(), b.questions()
	sent := b.expects(whoUses, whoUses)
	b.hears(nodeB, viewed(t, sent[1], 11, false, bob))
	if first.over || !second.over || !slices.Equal(second.Refs, []shard.Ref{bob}) {
		t.Errorf("the second: %t, %+v; the first: %t", second.over, second.Refs, first.over)
	}
	b.hears(nodeB, viewed(t, sent[0], 12, false, ann))
	if !first.over || !slices.Equal(first.Refs, []shard.Ref{ann}) {
		t.Errorf("the first: %t, %+v", first.over, first.Refs)
	}
}

// Promise: P39, P15: a question without an answer is repeated, under its number: from the third attempt on its receiver may relay it.
// After 2·E the shard counts as having no majority.
func TestAQuestionWithoutAnAnswer(t *testing.T) {
	b := newBench(t)
	c := b.questions()
	b.pass(noQuorumAfter - 1)
	sent := b.takes()
	if len(sent) < 4 || c.over {
		t.Fatalf("sent %q; over: %t", inWords(sent), c.over)
	}
	for i, p := range sent {
		if q := queryOf(t, p); q.Ref != queryOf(t, sent[0]).Ref || q.Relay != (i >= 2) || i < 2 && p.To != nodeB {
			t.Errorf("attempt %d goes to %d: %+v", i, p.To, q)
		}
	}
	if n := b.client.Counters().Retries.Load(); n != uint64(len(sent)-1) {
		t.Errorf("%d retries are counted, want %d", n, len(sent)-1)
	}
	if b.pass(1); !c.over || c.Err != fault.ErrNoQuorum {
		t.Errorf("%t, %v", c.over, c.Err)
	}
	b.pass(time.Minute)
	b.expects()
}

// Promise: P39: each page has its own 2·E, and is repeated soon again.
func TestEachPageHasItsTime(t *testing.T) {
	b := newBench(t)
	c := b.questions()
	p := b.expect(whoUses)
	b.pass(noQuorumAfter - 1)
	b.takes()
	b.hears(nodeB, viewed(t, p, 11, true, ann))
	b.expect(whoUses)
	b.pass(firstRetry)
	if b.expect(whoUses); c.over {
		t.Errorf("over: %v", c.Err)
	}
	b.pass(noQuorumAfter - firstRetry - 1)
	if c.over {
		t.Errorf("over: %v", c.Err)
	}
	if b.pass(1); !c.over || c.Err != fault.ErrNoQuorum {
		t.Errorf("%t, %v", c.over, c.Err)
	}
}

// Promise: P39, P15: a question that reached a node which does not lead goes on at once: to the leader that is named, or to a node that
// may know it; but not for ever in a circle.
func TestAQuestionIsRedirected(t *testing.T) {
	b := newBench(t)
	c := b.questions()
	p := b.expect(whoUses)
	b.hears(nodeB, elsewhere(t, p, nodeC, benchTerm+1))
	if q := queryOf(t, b.expect("3: who uses r")); q.Relay || q.Ref != queryOf(t, p).Ref {
		t.Errorf("sent %+v", q)
	}
	jumps := 1
	for term := uint64(benchTerm + 2); term < 100; term++ {
		b.hears(nodeC, elsewhere(t, p, nodeC, term))
		if len(b.takes()) == 0 {
			break
		}
		jumps++
	}
	if jumps != maxJumps {
		t.Errorf("%d redirects are followed at once, want %d", jumps, maxJumps)
	}
	b.pass(firstRetry)
	b.takes()
	b.hears(nodeC, elsewhere(t, p, 0, 0)) // they count afresh; and the next attempt is the third
	if q := b.takes(); len(q) != 1 || !queryOf(t, q[0]).Relay {
		t.Errorf("sent %q", inWords(q))
	}
	other := &message.Redirect{Session: 1, Number: queryOf(t, p).Ref, Leadership: message.Leadership{Leader: nodeB, Term: 100}}
	b.hears(nodeC, other, elsewhere(t, Send{Message: &message.Query{Query: replica.Query{Ref: 99}}}, nodeB, 100))
	if b.expects(); c.over || b.shard().leader == nodeB {
		t.Errorf("a redirect of something else: %d leads; over: %t", b.shard().leader, c.over)
	}
}

// Promise: P39: a redirect of a command is none of the question with the same number.
func TestACommandIsRedirectedBesideAQuestion(t *testing.T) {
	b := newBench(t)
	b.asks(b.own, Request{Key: "k"})
	p := b.expect("2: lock k")
	c := b.questions()
	b.expect(whoUses)
	b.hears(nodeB, redirect(p, nodeC, benchTerm+1))
	if b.expect("3: lock k"); c.attempt != 0 || c.jumps != 0 {
		t.Errorf("the question is at attempt %d", c.attempt)
	}
}

// Promise: P39, P15: an answer shows which node leads, and by which way it comes.
func TestAnAnswerShowsWhoLeads(t *testing.T) {
	b := newBench(t)
	p := b.questions()
	m := viewed(t, b.expect(whoUses), 11, true, ann).(*message.View)
	m.Leadership = message.Leadership{Leader: 9, Term: benchTerm + 1}
	b.hears(nodeC, m)
	if q := b.expect("9: who uses r"); b.shard().relay != nodeC || p.over || queryOf(t, q).After != 5 {
		t.Errorf("%d relays", b.shard().relay)
	}
}

// Promise: P39, G6: a new leader, and one of another generation, is asked at once, from the beginning: what an earlier one has told does
// not count.
func TestANewLeaderIsAskedWhoUses(t *testing.T) {
	for _, generation := range []uint64{0, 2} {
		b := newBench(t)
		c := b.questions()
		b.hears(nodeB, viewed(t, b.expect(whoUses), 11, true, ann, bob))
		old := b.expect(whoUses)
		b.pass(time.Second)
		b.takes()
		var p Send
		if generation == 0 {
			b.hears(nodeC, serves(benchTerm-1))
			b.expects()
			b.hears(nodeC, serves(benchTerm+1))
			p = b.expect("3: who uses r")
		} else {
			b.do(Generation{Name: generation, Quiet: benchQuiet})
			first := b.expectTo("who uses r")
			if q := queryOf(t, first); q.Generation != generation || q.After != 0 {
				t.Errorf("sent %+v", q)
			}
			b.hears(nodeB, of(generation, serves(1)))
			p = b.expect(whoUses)
		}
		if q := queryOf(t, p); q.After != 0 || q.Relay || q.Generation != generation || c.over {
			t.Errorf("sent %+v", q)
		}
		b.hears(nodeB, of(generation, viewed(t, old, 12, false, cid)))
		if generation != 0 {
			b.hears(nodeB, viewed(t, p, 12, false, cid))
		}
		if b.expects(); c.over {
			t.Fatalf("an answer to an earlier question counts: %+v", c.Refs)
		}
		b.pass(firstRetry)
		b.takes()
		b.hears(nodeB, of(generation, viewed(t, p, 12, false, bob)))
		if !c.over || c.Err != nil || !slices.Equal(c.Refs, []shard.Ref{bob}) {
			t.Errorf("%t, %v, %+v", c.over, c.Err, c.Refs)
		}
	}
}

// Promise: P39: a caller that gives up a question asks no more, also if it had not begun. A node that ends tells those that wait.
func TestAQuestionIsGivenUp(t *testing.T) {
	b := newBench(t)
	first, second := b.questions(), b.questions()
	sent := b.takes()
	b.do(Abandon{first, context.Canceled})
	if !first.over || first.Err != context.Canceled || second.over {
		t.Errorf("%t, %v; the second: %t", first.over, first.Err, second.over)
	}
	b.hears(nodeB, viewed(t, sent[0], 11, false, ann))
	if b.expects(); first.Err != context.Canceled || len(first.Refs) != 0 {
		t.Errorf("%v, %+v", first.Err, first.Refs)
	}
	b.do(Shut{})
	if !second.over || second.Err != fault.ErrClosed {
		t.Errorf("at the end: %t, %v", second.over, second.Err)
	}
	b.pass(time.Minute)
	if b.expects(); b.client.Deadline() != env.Never {
		t.Errorf("the next Tick is at %v", b.client.Deadline())
	}
	third := &Call{Kind: Ask, Session: b.own, Request: Request{Key: "r"}}
	b.do(Abandon{third, fault.ErrClosed})
	if b.expects(); !third.over || third.Err != fault.ErrClosed {
		t.Errorf("one that was not begun: %t, %v", third.over, third.Err)
	}
}

// Promise: P39: where no node is known nothing is sent. The question goes out once one is.
func TestAQuestionToNobody(t *testing.T) {
	b := newBench(t)
	b.do(NodeGone{nodeB})
	b.do(Viewed{})
	c := b.questions()
	b.pass(firstRetry)
	b.expects()
	b.do(Viewed{View{Core: benchMembers}})
	b.pass(2 * firstRetry)
	if sent := b.takes(); len(sent) == 0 || words(sent[0]) != "who uses r" || c.over {
		t.Errorf("sent %q; over: %t", inWords(sent), c.over)
	}
}
