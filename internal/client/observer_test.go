package client

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lockmesh/mesh/internal/env"
	"github.com/lockmesh/mesh/internal/fault"
	"github.com/lockmesh/mesh/internal/message"
	"github.com/lockmesh/mesh/internal/replica"
	"github.com/lockmesh/mesh/shard"
)

// watches starts an observer of the election e.
func (b *bench) watches() *Observer {
	b.tb.Helper()
	b.client.cfg.TTL = benchTTL
	o := &Observer{Key: "e"}
	b.do(Observe{o})
	return o
}

const whoLeads = "2: who leads e"

func observeOf(tb testing.TB, s Send) message.Observe {
	tb.Helper()
	q, ok := s.Message.(*message.Observe)
	if !ok {
		tb.Fatalf("%q is no question who leads", words(s))
	}
	return *q
}

// leader is b's word of who leads e, at a revision; in answer to a question if ref is not zero.
func leader(ref, revision, token, sequence uint64, value string) message.Message {
	l := shard.Leader{Token: token, Sequence: sequence, Value: []byte(value), Name: "n"}
	if token == 0 {
		l = shard.Leader{}
	}
	return &message.Led{Led: replica.Led{Ref: ref, Key: "e", Revision: revision, Leader: l}, Leadership: byB}
}

// sees fails the test unless o's latest state, which it has not taken yet, is the one that is wanted; "": there is no news.
func (o *Observer) sees(tb testing.TB, want string) {
	tb.Helper()
	l, news, err := o.Next()
	got := ""
	switch {
	case err != nil:
		got = err.Error()
	case !news:
	case l.Unknown:
		got = "unknown"
	case l.Token == 0:
		got = "nobody"
	default:
		got = fmt.Sprintf("%s %d.%d", l.Value, l.Token, l.Sequence)
	}
	if got != want {
		tb.Errorf("the observer sees %q, want %q", got, want)
	}
}

// Promise: P46: the observers of a node ask once, and are all told; what none has taken is dropped, apart from the latest.
func TestObserversShareAQuestion(t *testing.T) {
	b := newBench(t)
	first := b.watches()
	q := observeOf(t, b.expect(whoLeads))
	if q.Node != nodeA || q.Key != "e" || q.For != benchTTL || q.Relay || q.Ref == 0 {
		t.Errorf("sent %+v", q)
	}
	second := b.watches()
	b.expects()
	first.sees(t, "")
	b.hears(nodeB, leader(q.Ref, 10, 7, 0, "a"))
	first.sees(t, "a 7.0")
	first.sees(t, "")
	b.hears(nodeB, leader(0, 11, 7, 1, "b"), leader(0, 12, 7, 2, "c"))
	first.sees(t, "c 7.2")
	second.sees(t, "c 7.2")
	third := b.watches()
	b.expects()
	third.sees(t, "c 7.2")
	b.do(Unobserve{first})
	b.hears(nodeB, leader(0, 13, 0, 0, ""))
	first.sees(t, "")
	second.sees(t, "nobody")
	b.do(Unobserve{second})
	b.do(Unobserve{third})
	b.hears(nodeB, leader(0, 14, 15, 0, "d"))
	b.pass(time.Minute)
	if b.expects(); b.client.Deadline() != env.Never {
		t.Errorf("nobody observes, and the next Tick is at %v", b.client.Deadline())
	}
}

// Promise: P46: what is told late overwrites nothing; and no token goes back, not even in another generation.
func TestNothingGoesBack(t *testing.T) {
	b := newBench(t)
	o := b.watches()
	q := observeOf(t, b.expect(whoLeads))
	b.hears(nodeB, leader(q.Ref, 20, 15, 3, "c"))
	o.sees(t, "c 15.3")
	b.hears(nodeB, leader(0, 18, 15, 2, "b"), leader(0, 14, 0, 0, ""), leader(0, 12, 7, 9, "a"))
	o.sees(t, "")
	b.do(Generation{Name: 1, Quiet: time.Second})
	m := leader(observeOf(t, b.takes()[0]).Ref, 9, 7, 9, "a").(*message.Led)
	m.Generation = 1
	b.hears(nodeB, m)
	o.sees(t, "unknown")
}

// Promise: P46: the question is asked again every third of a TTL; what was not confirmed for a TTL is not known. The time counts from
// the sending of the question that was answered last, and a word that nobody asked for confirms nothing.
func TestWhatNobodyConfirms(t *testing.T) {
	b := newBench(t)
	o := b.watches()
	q := observeOf(t, b.expect(whoLeads))
	b.hears(nodeB, leader(q.Ref, 10, 7, 0, "a"))
	o.sees(t, "a 7.0")
	b.pass(benchTTL/3 - 1)
	b.expects()
	b.pass(1)
	q = observeOf(t, b.expect(whoLeads))
	b.pass(time.Millisecond)
	b.hears(nodeB, leader(q.Ref, 10, 7, 0, "a"))
	o.sees(t, "")
	b.pass(benchTTL - 2*time.Millisecond)
	o.sees(t, "")
	b.hears(nodeB, leader(0, 11, 7, 1, "b"))
	o.sees(t, "b 7.1")
	b.pass(time.Millisecond)
	o.sees(t, "unknown")
	b.takes()
	b.hears(nodeB, leader(0, 12, 7, 2, "c")) // on its way for long, perhaps
	o.sees(t, "")
	asked := b.watching()
	b.hears(nodeB, leader(asked.ref, 12, 7, 2, "c"))
	o.sees(t, "c 7.2")
}

// Promise: P46: a process stood still for longer than a TTL. Its next observer comes before the first Tick, and is not told what nobody
// confirms any more; nor are the others left with it.
func TestAnObserverComesAfterAPause(t *testing.T) {
	b := newBench(t)
	first := b.watches()
	b.hears(nodeB, leader(observeOf(t, b.expect(whoLeads)).Ref, 10, 7, 0, "a"))
	first.sees(t, "a 7.0")
	b.now += benchTTL - 1
	second := b.watches()
	second.sees(t, "a 7.0")
	b.now++
	third := &Observer{Key: "e"}
	b.step(Observe{third})
	third.sees(t, "unknown")
	first.sees(t, "unknown")
	second.sees(t, "unknown")
}

func (b *bench) watching() *watch { return b.shard().watching("e") }

// Promise: P46: an observer that was never answered knows nothing after a TTL, and says so.
func TestAnObserverIsNeverAnswered(t *testing.T) {
	b := newBench(t)
	o := b.watches()
	b.pass(benchTTL - 1)
	b.hears(nodeB, leader(0, 11, 7, 1, "b")) // of an earlier question
	o.sees(t, "")
	b.pass(1)
	o.sees(t, "unknown")
}

// Promise: P46: a new leader is asked at once; so is one that another node names, and the leader of another generation.
func TestObserversFollowTheLeader(t *testing.T) {
	b := newBench(t)
	o := b.watches()
	q := observeOf(t, b.expect(whoLeads))
	b.hears(nodeB, leader(q.Ref, 10, 7, 0, "a"))
	b.hears(nodeC, serves(benchTerm+1))
	s := b.expect("3: who leads e")
	b.hears(nodeC, &message.Redirect{Number: observeOf(t, s).Ref, Leadership: message.Leadership{Leader: nodeB, Term: benchTerm + 2}})
	s = b.expect(whoLeads)
	q = observeOf(t, s)
	b.hears(nodeB, &message.Led{Led: replica.Led{Ref: q.Ref, Key: "e", Revision: 12}, Leadership: message.Leadership{Leader: nodeB, Term: benchTerm + 2}})
	o.sees(t, "nobody")
	b.do(Generation{Name: 1, Quiet: time.Second})
	if q := observeOf(t, b.takes()[0]); q.Generation != 1 {
		t.Errorf("asked in generation %d", q.Generation)
	}
	o.sees(t, "")
	quiet := &message.Led{Led: replica.Led{Ref: b.watching().ref, Key: "e", Revision: 1, Leader: shard.Leader{Quiet: true}}, Leadership: byB}
	quiet.Generation = 1
	b.hears(nodeB, quiet)
	o.sees(t, "unknown")
	b.do(Shut{})
	o.sees(t, fault.ErrClosed.Error())
}

// leads returns a leadership.
func (b *bench) leads(token uint64) *Hold {
	b.tb.Helper()
	c := b.asks(b.own, Request{Key: "e", Mode: Elects, Value: []byte("a")})
	b.hears(nodeB, granted(b.expect("2: stand for e"), token))
	if !c.over || c.Err != nil {
		b.tb.Fatalf("no leadership: %v, %v", c.over, c.Err)
	}
	return c.Hold
}

func (b *bench) proclaims(h *Hold, value string) *Call {
	b.tb.Helper()
	c := &Call{Kind: Proclaim, Hold: h, Request: Request{Value: []byte(value)}}
	b.do(Start{c})
	return c
}

// Promise: P46: each Proclaim has a sequence of its own. One that is given up is not sent again.
func TestProclaims(t *testing.T) {
	b := newBench(t)
	h := b.leads(7)
	var sent []Send
	var calls []*Call
	for i, value := range []string{"x", "y", "z"} {
		calls = append(calls, b.proclaims(h, value))
		s := b.expect(fmt.Sprintf("2: proclaim e sequence %d", i+1))
		if p := commandOf(s).(shard.Proclaim); p.Token != 7 || p.Key != "e" || string(p.Value) != value {
			t.Errorf("sent %+v", p)
		}
		sent = append(sent, s)
	}
	b.do(Abandon{calls[0], fault.ErrClosed})
	b.hears(nodeB, done(sent[1], 12), refused(sent[2], shard.Lost, 13))
	for i, want := range []error{fault.ErrClosed, nil, fault.ErrLost} {
		if c := calls[i]; !c.over || c.Err != want {
			t.Errorf("Proclaim %d: %t, %v, want %v", i+1, c.over, c.Err, want)
		}
	}
	b.pass(3 * time.Second)
	if all := inWords(b.takes()); slices.ContainsFunc(all, func(s string) bool { return strings.Contains(s, "proclaim") }) {
		t.Errorf("then %q", all)
	}
}

// Promise: P46, C8: a leadership is reported with what it has proclaimed last, answered or not; a Proclaim that is under way follows.
func TestALeadershipIsReported(t *testing.T) {
	b := newBench(t)
	h := b.leads(7)
	b.proclaims(h, "x")
	b.expect("2: proclaim e sequence 1")
	c := b.proclaims(h, "y")
	b.takes()
	b.do(Generation{Name: 1, Quiet: time.Second})
	b.hears(nodeB, &message.Serving{Generation: 1, Term: benchTerm + 1})
	var report Send
	for _, s := range b.takes() {
		switch cmd := commandOf(s).(type) {
		case shard.Report:
			report = s
			if cmd.Kind != shard.Election || cmd.Token != 7 || cmd.Sequence != 2 || string(cmd.Value) != "y" || cmd.Weight != 1 || cmd.Capacity != 1 {
				t.Errorf("reported %+v", cmd)
			}
		case shard.Proclaim:
			t.Error("a Proclaim comes before the report")
		}
	}
	m := granted(report, 7).(*message.Reply)
	m.Generation = 1
	b.hears(nodeB, m)
	if all := inWords(b.takes()); !slices.Contains(all, "2: proclaim e sequence 2") {
		t.Errorf("then %q", all)
	}
	if c.over || h.Err() != nil {
		t.Errorf("%t, %v", c.over, h.Err())
	}
}

// Promise: a question who leads is answered once.
func TestAskingWhoLeads(t *testing.T) {
	b := newBench(t)
	c := &Call{Kind: Ask, Session: b.own, Request: Request{Key: "e", Mode: Elects}}
	b.do(Start{c})
	q := observeOf(t, b.expect(whoLeads))
	if q.For != 0 {
		t.Errorf("a question for a moment is told of changes: %+v", q)
	}
	b.hears(nodeB, leader(q.Ref, 10, 7, 2, "a"))
	if !c.over || c.Err != nil || c.Leader.Token != 7 || c.Leader.Sequence != 2 || string(c.Leader.Value) != "a" || c.Leader.Name != "n" || c.Leader.Unknown {
		t.Errorf("%t, %v, %+v", c.over, c.Err, c.Leader)
	}
	b.pass(time.Minute)
	b.expects()
}
