package node

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"testing"
	"time"

	"go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"

	"github.com/lockmesh/mesh/internal/client"
	"github.com/lockmesh/mesh/internal/fault"
	"github.com/lockmesh/mesh/internal/message"
	"github.com/lockmesh/mesh/internal/replica"
	"github.com/lockmesh/mesh/shard"
	"github.com/lockmesh/mesh/transport"
)

// Nodes that are no members: a client, and one that relays for it.
const (
	outsider = 9
	helper   = 8
)

// newLeader makes a bench whose node founded its mesh alone, and leads.
func newLeader(tb testing.TB, cfg Config) *bench {
	tb.Helper()
	b := newBench(tb, cfg, nodeA)
	for range 100 {
		if b.pass(10 * time.Millisecond); b.node.shards.replica(0).Serving() {
			b.take()
			return b
		}
	}
	tb.Fatal("it does not serve")
	return nil
}

// newFollower makes a bench whose node has a replica, which follows b.
func newFollower(tb testing.TB) *bench {
	tb.Helper()
	b := newBench(tb, Config{}, nodeA, nodeB, nodeC)
	b.beats(2)
	if p, ok := b.node.shards.replica(0).Leader(); !ok || p.Node != nodeB {
		tb.Fatalf("%+v leads", p)
	}
	b.take()
	return b
}

// beats lets the replica hear that b leads in a term.
func (b *bench) beats(term uint64) { b.follows(0, term) }

// follows lets the replica of a shard hear that.
func (b *bench) follows(sh int, term uint64) {
	r := b.node.shards.replica(sh)
	from := uint64(0)
	for id := uint64(1); id <= 3; id++ {
		if p, ok := r.Peer(id); ok && p.Node == nodeB {
			from = id
		}
	}
	b.hears(nodeB, letter{sh, &replica.Frame{Generation: benchGeneration, From: from, To: r.ID(), Message: &raftpb.Message{
		Type: raftpb.MsgHeartbeat.Enum(), From: proto.Uint64(from), To: proto.Uint64(r.ID()), Term: proto.Uint64(term),
	}}})
}

func requests(number uint64, key string, relay bool) letter {
	cmd := shard.Acquire{
		Call: shard.Call{Session: shard.SessionID{Node: outsider, Number: 1}, Number: number, Since: 1 << 40}, TTL: benchTTL, Name: "x", Key: key,
		Weight: shard.Whole, Capacity: shard.Whole,
	}
	return letter{0, &message.Request{Generation: benchGeneration, Relay: relay, Command: cmd, Raw: shard.AppendCommand(nil, cmd)}}
}

func renews(ref uint64, relay bool) letter {
	return letter{0, &message.Renewal{Renewal: replica.Renewal{Session: shard.SessionID{Node: outsider, Number: 1}, Ref: ref}, Generation: benchGeneration, Relay: relay}}
}

// sentTo returns what the node sent, which is one message to a node, perhaps inside of a forward,
// and beside it reports at most.
func sentTo[M message.Message](b *bench, to uint64, class transport.Class, through bool) M {
	b.tb.Helper()
	sent := slices.DeleteFunc(b.take(), func(p parcel) bool { return p.Message == nil })
	if len(sent) != 1 || sent[0].to != to || sent[0].class != class || sent[0].shard != 0 || is[*message.Forward](sent[0]) != through {
		b.tb.Fatalf("sent %+v, want one to %d", sent, to)
	}
	m, ok := unwrap(b, sent[0]).(M)
	if !ok {
		b.tb.Fatalf("sent %+v", sent[0])
	}
	return m
}

// unwrap returns what is inside of a forward to the client, or the message itself.
func unwrap(b *bench, p parcel) message.Message {
	b.tb.Helper()
	f, ok := p.Message.(*message.Forward)
	if !ok {
		return p.Message
	}
	if f.To != outsider {
		b.tb.Errorf("it is to be passed on to %d", f.To)
	}
	return f.Inside
}

// Promise: G6, P15: a leader's words go back by the way on which the client's latest request came.
func TestRepliesGoBackByTheSameWay(t *testing.T) {
	b := newLeader(t, Config{})
	as := message.Leadership{Generation: benchGeneration, Leader: nodeA, Term: b.node.shards.replica(0).Term()}
	settle := func() { b.pass(5 * time.Millisecond) }
	b.hears(outsider, requests(1, "k", false))
	settle()
	first := sentTo[*message.Reply](b, outsider, transport.Normal, false)
	if first.Session.Number != 1 || first.Number != 1 || first.What != shard.Granted || first.Token == 0 || first.Revision != first.Token || first.Leadership != as {
		t.Errorf("the reply is %+v", first)
	}
	b.hears(helper, requests(2, "k", false))
	settle()
	second := sentTo[*message.Reply](b, helper, transport.Normal, true)
	want := message.Reply{
		Event:    shard.Event{Session: shard.SessionID{Number: 1}, Number: 2, What: shard.Queued, Holder: "x", Token: first.Token, Entered: first.Token + 1},
		Revision: first.Token + 1, Leadership: as,
	}
	if *second != want {
		t.Errorf("the reply is %+v, want %+v", second, want)
	}
	b.hears(helper, renews(5, false))
	settle()
	a := sentTo[*message.Answer](b, helper, transport.Urgent, true)
	if a.Session.Number != 1 || a.Ref != 5 || !a.Alive || a.More || a.Revision != second.Revision || len(a.Results) != 1 || a.Leadership != as {
		t.Errorf("the answer is %+v", a)
	}
	if !slices.Equal(a.Results, []shard.Event{first.Event}) {
		t.Errorf("it repeats %+v, want %+v", a.Results, first)
	}
	b.hears(outsider, renews(6, false))
	settle()
	if a := sentTo[*message.Answer](b, outsider, transport.Urgent, false); a.Ref != 6 || a.Leadership != as {
		t.Errorf("the answer is %+v", a)
	}
	b.hears(outsider, letter{0, &message.Renewal{Renewal: replica.Renewal{Session: shard.SessionID{Node: outsider, Number: 2}, Ref: 7}, Generation: benchGeneration}})
	settle()
	if a := sentTo[*message.Answer](b, outsider, transport.Urgent, false); a.Alive || a.Session.Number != 2 || a.Leadership != as {
		t.Errorf("the answer to one without a record is %+v", a)
	}
}

// Promise: P15, P21: a way is forgotten when its relay is gone, or is no member any more, and when nothing came that
// way for as long as a lease may last. It lasts though its client is no member: the two do not reach each other.
func TestWaysAreForgotten(t *testing.T) {
	const nodeD = 4
	all := append(slices.Clone(benchMembers), replica.Peer{Node: nodeD, Name: "d", Addr: "d:1"})
	none := map[uint64]uint64{}
	both := map[uint64]uint64{nodeB: nodeC, nodeC: nodeD}
	gone := func(node uint64) func(*bench) {
		return func(b *bench) { b.do(func(l *shardLoop) { l.nodeGone(node) }) }
	}
	unlisted := func(node uint64) func(*bench) {
		return func(b *bench) {
			b.looks(slices.DeleteFunc(slices.Clone(all), func(p replica.Peer) bool { return p.Node == node })...)
		}
	}
	for _, tt := range []struct {
		what string
		then func(b *bench)
		want map[uint64]uint64
	}{
		{"a client is gone", gone(nodeB), both},
		{"a client is unlisted", unlisted(nodeB), both},
		{"a relay is gone", gone(nodeD), map[uint64]uint64{nodeB: nodeC}},
		{"a relay is unlisted", unlisted(nodeD), map[uint64]uint64{nodeB: nodeC}},
		{"a lease may last", func(b *bench) { b.pass(time.Minute - time.Second) }, both},
		{"all leases are over", func(b *bench) { b.pass(time.Minute + time.Second) }, none},
	} {
		b := newLeader(t, Config{})
		b.play = func(parcel) {}
		b.looks(all...)
		b.do(func(l *shardLoop) { l.via[nodeB], l.via[nodeC] = way{nodeC, l.now}, way{nodeD, l.now} })
		tt.then(b)
		got := make(map[uint64]uint64)
		for client, w := range b.node.shards.via {
			got[client] = w.relay
		}
		if !maps.Equal(got, tt.want) {
			t.Errorf("%s: ways %v, want %v", tt.what, got, tt.want)
		}
	}
}

// Promise: G6, P15: who does not lead passes a request on to the leader, once, if it is asked to, and else says
// who leads.
func TestWhoDoesNotLead(t *testing.T) {
	const gone, blind = 1, 2
	for _, tt := range []struct {
		name    string
		state   int // gone: it has no replica; blind: it knows of no leader
		from    uint64
		hears   letter
		to      uint64
		through bool   // as a forward
		says    string // "not here", or what is passed on
		leader  uint64 // named
	}{
		{"a request", 0, outsider, requests(1, "k", false), outsider, false, "not here", nodeB},
		{"a request, to be passed on", 0, outsider, requests(1, "k", true), nodeB, false, "lock k", 0},
		{"a request that the leader passes on", 0, nodeB, requests(1, "k", true), nodeB, true, "not here", nodeB},
		{"a request by another way", 0, helper, requests(1, "k", false), helper, true, "not here", nodeB},
		{"a request where no leader is known", blind, outsider, requests(1, "k", true), outsider, false, "not here", 0},
		{"a request where there is no replica", gone, outsider, requests(1, "k", true), outsider, false, "not here", 0},
		{"a renewal", 0, outsider, renews(1, false), outsider, false, "not here", nodeB},
		{"a renewal, to be passed on", 0, outsider, renews(1, true), nodeB, false, "renewal", 0},
		{"a renewal that the leader passes on", 0, nodeB, renews(1, true), nodeB, true, "not here", nodeB},
		{"a renewal by another way", 0, helper, renews(1, false), helper, true, "not here", nodeB},
		{"a renewal where no leader is known", blind, outsider, renews(1, true), outsider, false, "not here", 0},
		{"a renewal where there is no replica", gone, outsider, renews(1, true), outsider, false, "not here", 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := newFollower(t)
			switch tt.state {
			case gone:
				b.do(func(l *shardLoop) { l.drop(l.replica(0)) })
			case blind:
				b = newBench(t, Config{}, nodeA, nodeB, nodeC)
			}
			b.take()
			b.hears(tt.from, tt.hears)
			sent := b.take()
			if len(sent) != 1 || sent[0].to != tt.to || is[*message.Forward](sent[0]) != tt.through {
				t.Fatalf("sent %+v", sent)
			}
			p := parcel{letter: letter{0, unwrap(b, sent[0])}}
			if p.words() != tt.says || p.relay() {
				t.Errorf("%q is sent, to be passed on: %t", p.words(), p.relay())
			}
			number, term := uint64(0), uint64(2)
			class := transport.Urgent
			want := letter{0, &message.Renewal{Renewal: replica.Renewal{Session: shard.SessionID{Node: outsider, Number: 1}, Ref: 1}, Generation: benchGeneration}}
			if is[*message.Request](parcel{letter: tt.hears}) {
				number, class, want = 1, transport.Normal, requests(1, "k", false)
			}
			if tt.leader == 0 {
				term = 0
			}
			if tt.says == "not here" {
				class = transport.Normal
				want.Message = &message.Redirect{Session: 1, Number: number, Leadership: message.Leadership{Generation: benchGeneration, Leader: tt.leader, Term: term}}
			}
			if !reflect.DeepEqual(p.letter, want) || sent[0].class != class {
				t.Errorf("it says %+v in class %d, want %+v in class %d", p.Message, sent[0].class, want.Message, class)
			}
		})
	}
}

// Promise: C8: what a client asks of one generation of a shard means nothing in another: neither a leader of that one
// nor a relay takes it, and the answer speaks of the generation that was asked.
func TestARequestForAnotherGeneration(t *testing.T) {
	for _, generation := range []uint64{0, benchGeneration + 1} {
		for _, relay := range []bool{false, true} {
			request, renewal := requests(1, "k", relay), renews(1, relay)
			request.Message.(*message.Request).Generation = generation
			renewal.Message.(*message.Renewal).Generation = generation
			for number, hears := range []letter{renewal, request} {
				for who, b := range map[string]*bench{"a leader": newLeader(t, Config{}), "a follower": newFollower(t)} {
					before := b.node.shards.replica(0).Revision()
					b.hears(outsider, hears)
					b.pass(5 * time.Millisecond)
					got := sentTo[*message.Redirect](b, outsider, transport.Normal, false)
					want := message.Redirect{Session: 1, Number: uint64(number), Leadership: message.Leadership{Generation: generation}}
					if *got != want || b.node.shards.replica(0).Revision() != before {
						t.Errorf("%s of another generation hears %+v: it says %+v, want %+v", who, hears.Message, got, want)
					}
				}
			}
		}
	}
}

// Promise: P15: a client that asks this node directly is told directly, though a helper brought its request before.
func TestTheAnswerGoesToTheOneThatAsked(t *testing.T) {
	b := newFollower(t)
	b.do(func(l *shardLoop) { l.via[outsider] = way{helper, l.now} })
	b.hears(outsider, requests(1, "k", false))
	if p := b.expect(fmt.Sprintf("%d: not here", outsider)); len(b.node.shards.via) > 0 {
		t.Errorf("sent %+v; ways: %v", p, b.node.shards.via)
	}
}

// Promise: P15: what a leader has a outsider told through this node is passed on as it is; what is for this node's own
// clients is taken from the leader, but a redirect from whoever sent it.
func TestForwards(t *testing.T) {
	b := newBench(t, Config{})
	c := b.asks(b.node.Session(), client.Request{Key: "k"})
	p := b.expect("2: lock k")
	for _, tt := range []struct {
		inside letter
		class  transport.Class
	}{
		{grant(p, 7), transport.Normal},
		{alive(parcel{letter: renews(3, false)}, 7), transport.Urgent},
		{redirected(p, nodeC, 9), transport.Normal},
	} {
		b.hears(nodeB, letter{0, message.NewForward(outsider, 0, tt.inside.Message)})
		sent := b.take()
		if len(sent) != 1 || sent[0].to != outsider || sent[0].class != tt.class || !reflect.DeepEqual(sent[0].letter, tt.inside) {
			t.Errorf("%+v is passed on as %+v", tt.inside, sent)
		}
	}
	in := redirected(p, nodeB, 9)
	b.hears(helper, letter{0, message.NewForward(nodeA, 0, in.Message)})
	b.expect("2: lock k")
	b.pass(200 * time.Millisecond)
	if b.expect("2: lock k").relay() {
		t.Error("a node that passes on a redirect is taken for one that passes on the leader's words")
	}
	in = grant(p, 7)
	in.Message.(*message.Reply).Term = 9
	b.hears(helper, letter{0, message.NewForward(nodeA, 0, in.Message)})
	if !isOver(c) || c.Err != nil {
		t.Errorf("a grant that was passed on: %v, %v", isOver(c), c.Err)
	}
	b.asks(b.node.Session(), client.Request{Key: "n"})
	for range 2 {
		if b.expect("2: lock n").relay() { // the leader that the grant named
			t.Error("a grant that another node brings is taken for that node's word")
		}
		b.pass(200 * time.Millisecond)
	}
}

// Promise: G6: a new leader tells all members, and all who have a session in the shard; in a large mesh these alone.
func TestALeaderAnnouncesItself(t *testing.T) {
	for _, members := range []int{2, announceLimit, announceLimit + 1} {
		b := newLeader(t, Config{})
		b.hears(outsider, requests(1, "k", false))
		b.pass(5 * time.Millisecond)
		var all []replica.Peer
		for i := range members {
			all = append(all, replica.Peer{Node: uint64(100 + i), Name: fmt.Sprint(i)})
		}
		b.looks(all...)
		b.take()
		b.do(func(l *shardLoop) { l.announce(l.replica(0)) })
		told := make(map[uint64]int)
		for _, p := range b.take() {
			m, ok := p.Message.(*message.Serving)
			if told[p.to]++; !ok || m.Term != b.node.shards.replica(0).Term() || p.class != transport.Normal {
				t.Errorf("it says %+v", p)
			}
		}
		want := members + 1
		if members > announceLimit {
			want = 1
		}
		if len(told) != want || told[outsider] != 1 {
			t.Errorf("of %d members and a client %d are told", members, len(told))
		}
	}
	// Its own clients hear it, too.
	b := newBench(t, Config{}, nodeA)
	c := b.asks(b.node.Session(), client.Request{Key: "k"})
	if b.pass(time.Second); !isOver(c) || c.Err != nil {
		t.Errorf("in a mesh of one: %v, %v", isOver(c), c.Err)
	}
	c = b.asks(b.node.Session(), client.Request{Key: "k"})
	b.pass(time.Second)
	if b.do(func(l *shardLoop) { l.step(client.Abandon{Call: c, Cause: fault.ErrClosed}) }); !isOver(c) || c.Info.Leader != "a" {
		t.Errorf("in a mesh of one %q leads", c.Info.Leader)
	}
}

// Stats counts what the node's leaders appended.
func TestEntriesAreCounted(t *testing.T) {
	b := start(t, Config{Shards: 2})
	b.pass(2 * benchTTL) // the tables have settled (P27)
	before := b.node.Stats()
	for sh := range 2 {
		if c := b.asksOf(sh, b.node.Session(), client.Request{Key: "k"}); !isOver(c) || c.Err != nil {
			t.Fatalf("shard %d: over %t, %v", sh, isOver(c), c.Err)
		}
	}
	b.pass(time.Second) // counters are read out in ticks
	if st := b.node.Stats(); st.Entries != before.Entries+2 || st.Commands != before.Commands+2 {
		t.Errorf("%+v, and before %+v", st, before)
	}
}
