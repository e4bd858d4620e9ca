package client

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lockmesh/mesh/internal/message"
	"github.com/lockmesh/mesh/internal/point"
	"github.com/lockmesh/mesh/internal/replica"
	"github.com/lockmesh/mesh/shard"
)

// viewOf is a view of the nodes from 1 to n, of which none votes.
func viewOf(n int) View {
	var all []replica.Peer
	for node := range uint64(n) {
		all = append(all, replica.Peer{Node: node + 1})
	}
	return View{Core: all}
}

// Promise: G6, P15: a request goes to the leader, then to its relay if there is one, and then in turns
// to the nodes that should have a replica and to all members. From the third attempt on its receiver
// may relay it.
func TestWhereAnAttemptGoes(t *testing.T) {
	b := newBench(t)
	var members []replica.Peer
	for i := range uint64(5) {
		name := string(rune('f' + i))
		members = append(members, replica.Peer{Node: 6 + i, Name: name, Addr: name + ":1"})
	}
	b.looks(members...)
	names := map[string]uint64{"leader": 20, "relay": 30}
	for i, p := range members {
		names[fmt.Sprint("member", i)] = p.Node
	}
	for i, p := range b.client.view.target(0) {
		names[fmt.Sprint("wanted", i)] = p.Node
	}
	for _, tt := range []struct {
		name          string
		leader, relay uint64
		want          string // of the attempts from 0 on; with a ! it may be relayed
	}{
		{"to a leader", 20, 0, "leader leader wanted1! member1! wanted2! member2! wanted0! member3! wanted1! member4! wanted2! member0!"},
		{"to no leader", 0, 0, "wanted0 member0 wanted1! member1! wanted2! member2! wanted0! member3! wanted1! member4! wanted2! member0!"},
		{"to a leader with a relay", 20, 30, "leader relay! wanted1! member0! wanted2! relay! wanted0! member1! wanted1! relay! wanted2! member2!"},
		{"to a relay, and no leader", 0, 30, "wanted0 relay! wanted1! member0! wanted2! relay! wanted0! member1! wanted1! relay! wanted2! member2!"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := b.shard()
			s.leader, s.relay = tt.leader, tt.relay
			for attempt, want := range strings.Fields(tt.want) {
				name, relay := strings.CutSuffix(want, "!")
				if to, relayed := s.route(attempt); to != names[name] || relayed != relay {
					t.Errorf("attempt %d goes to %d, to be relayed: %t; want %s", attempt, to, relayed, want)
				}
			}
		})
	}
}

// Promise: G6, P15: a client that hears its leader only through a relay gets through on a lossy way too.
// Method: of eight nodes the ring wants the shard on none that relays. The relay is asked at every fourth
// attempt as long as it knows the way, and all others in between. Once it says that it does not, it is
// asked no more often than they are.
func TestTheRelayIsAskedAgain(t *testing.T) {
	const leader, relay = 1, 8
	b := newBench(t)
	b.do(Viewed{viewOf(relay)})
	c := b.asks(b.own, Request{Key: "k"})
	s := b.shard()
	s.leader, s.term = leader, 1
	s.spoke(relay, message.Leadership{Leader: leader, Term: 1})
	asked := func() (to []uint64) {
		for attempt := range 16 {
			node, _ := s.route(attempt)
			to = append(to, node)
		}
		return to
	}
	if got, want := asked(), []uint64{1, 8, 2, 1, 3, 8, 4, 2, 5, 8, 6, 3, 7, 8, 8, 4}; !slices.Equal(got, want) {
		t.Errorf("with a relay %v are asked, want %v", got, want)
	}
	s.redirected(5, message.Redirect{Session: c.lease.id.Number})
	if s.relay != relay {
		t.Error("a node that never relayed says that it knows no leader, and the relay is forgotten")
	}
	s.redirected(relay, message.Redirect{Session: c.lease.id.Number})
	if got, want := asked(), []uint64{1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6, 7, 7, 8, 8}; !slices.Equal(got, want) {
		t.Errorf("without a relay %v are asked, want %v", got, want)
	}
}

// Promise: G6, P15: a relay that fell silent keeps no other node from being asked.
// Method: the relay is silent from now on. Each of the members is asked within some attempts.
func TestASilentRelayHidesNoNode(t *testing.T) {
	for others := range 12 {
		v := viewOf(others + 2)
		b := newBench(t)
		b.do(Viewed{v})
		s := b.shard()
		s.spoke(uint64(others+2), message.Leadership{Leader: 1, Term: benchTerm})
		if s.relay != uint64(others+2) {
			t.Fatalf("%d relays, want %d", s.relay, others+2)
		}
		asked := make(map[uint64]bool)
		for attempt := range 256 {
			if attempt%2 == 1 { // the even ones go to those that the ring wants, of which there are none here
				node, _ := s.route(attempt)
				asked[node] = true
			}
		}
		for _, m := range v.Core {
			if !asked[m.Node] {
				t.Errorf("of %d members %d is never asked", len(v.Core), m.Node)
			}
		}
	}
}

// Promise: G6, P15: the node that answers as leader in a later term is the leader, and none of an
// earlier term becomes it again.
// Method: what a client believes of leader 5 in term 7 after each word that it may hear. Node 9 relays.
func TestWhoLeadsByTheLatestTerm(t *testing.T) {
	const old, other, helper = 5, 6, 9
	spoke := func(from, leader, term uint64) func(*shardClient) {
		return func(s *shardClient) { s.spoke(from, message.Leadership{Leader: leader, Term: term}) }
	}
	redirected := func(from, leader, term uint64) func(*shardClient) {
		return func(s *shardClient) {
			s.redirected(from, message.Redirect{Session: 1, Leadership: message.Leadership{Leader: leader, Term: term}})
		}
	}
	served := func(leader, term uint64) func(*shardClient) {
		return func(s *shardClient) { s.served(message.Leadership{Leader: leader, Term: term}) }
	}
	type belief struct{ leader, term, relay uint64 }
	for _, tt := range []struct {
		name  string
		given uint64 // the relay
		when  func(*shardClient)
		want  belief
	}{
		{"the leader itself speaks", 0, spoke(old, old, 7), belief{old, 7, 0}},
		{"the leader speaks through a relay", 0, spoke(helper, old, 7), belief{old, 7, helper}},
		{"the leader itself speaks again", helper, spoke(old, old, 7), belief{old, 7, 0}},
		{"a later leader speaks", 0, spoke(other, other, 8), belief{other, 8, 0}},
		{"a later leader speaks through a relay", 0, spoke(helper, other, 8), belief{other, 8, helper}},
		{"a later leader speaks through the earlier one", 0, spoke(old, other, 8), belief{other, 8, old}},
		{"another leader of the same term, which a node misnamed, speaks", 0, spoke(other, other, 7), belief{other, 7, 0}},
		{"an earlier leader speaks", helper, spoke(other, other, 6), belief{old, 7, helper}},
		{"an earlier leader speaks through a relay", 0, spoke(helper, other, 6), belief{old, 7, 0}},
		{"a node speaks that does not lead any more", helper, spoke(other, 0, 0), belief{old, 7, helper}},
		{"a node names a later leader", 0, redirected(helper, other, 8), belief{other, 8, 0}},
		{"a node names the same leader", 0, redirected(helper, old, 7), belief{old, 7, 0}},
		{"a node names an earlier leader", 0, redirected(helper, other, 6), belief{old, 7, 0}},
		{"a node knows no leader", 0, redirected(other, 0, 0), belief{old, 7, 0}},
		{"the relay knows no leader any more", helper, redirected(helper, 0, 0), belief{old, 7, 0}},
		{"the leader names its successor", 0, redirected(old, other, 8), belief{other, 8, old}},
		{"the leader names an earlier leader", helper, redirected(old, other, 6), belief{old, 7, helper}},
		{"the leader does not lead any more", 0, redirected(old, 0, 0), belief{0, 7, 0}},
		{"a later leader announces itself", helper, served(other, 8), belief{other, 8, helper}},
		{"an earlier leader's announcement is late", 0, served(other, 6), belief{old, 7, 0}},
		{"the leader announces itself again", 0, served(old, 7), belief{old, 7, 0}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := newBench(t)
			b.asks(b.own, Request{Key: "k"})
			s := b.shard()
			s.byNumber[1].jumps = maxJumps
			s.leader, s.term, s.relay = old, 7, tt.given
			tt.when(s)
			if got := (belief{s.leader, s.term, s.relay}); got != tt.want {
				t.Errorf("it believes %+v, want %+v", got, tt.want)
			}
		})
	}
}

// Promise: G6, P15: every word of a leader shows which node leads and by which way it comes.
func TestEveryWordOfALeaderCounts(t *testing.T) {
	later := message.Leadership{Leader: 9, Term: benchTerm + 1}
	result := shard.Event{Session: shard.SessionID{Number: 99}, Number: 1, What: shard.Done}
	for _, tt := range []struct {
		name                  string
		from                  uint64
		when                  message.Message
		wantLeader, wantRelay uint64
	}{
		{"a reply", 9, &message.Reply{Event: result, Leadership: later}, 9, 0},
		{"a reply through a relay", nodeC, &message.Reply{Event: result, Leadership: later}, 9, nodeC},
		{"a reply that this node has passed on", 0, &message.Reply{Event: result, Leadership: later}, 9, 0},
		{"an answer", 9, &message.Answer{Answer: replica.Answer{Session: shard.SessionID{Number: 99}}, Leadership: later}, 9, 0},
		{"an answer through a relay", nodeC, &message.Answer{Answer: replica.Answer{Session: shard.SessionID{Number: 99}}, Leadership: later}, 9, nodeC},
		{"a view", 9, &message.View{Leadership: later}, 9, 0},
		{"a view through a relay", nodeC, &message.View{Leadership: later}, 9, nodeC},
		{"an announcement", 9, serves(benchTerm + 1), 9, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := newBench(t)
			b.hears(tt.from, tt.when)
			if s := b.shard(); s.leader != tt.wantLeader || s.relay != tt.wantRelay || s.term != benchTerm+1 {
				t.Errorf("%d leads in term %d, by way of %d; want %d, by way of %d", s.leader, s.term, s.relay, tt.wantLeader, tt.wantRelay)
			}
		})
	}
}

// Promise: P21, P15: a node of which no process is left is asked no more, as leader or as relay. It makes no
// earlier leader right.
func TestANodeThatIsGoneIsNotAsked(t *testing.T) {
	b := newBench(t, 2)
	s := b.shard()
	s.relay = nodeC
	b.do(NodeGone{nodeC})
	if s.leader != nodeB || s.relay != 0 {
		t.Errorf("when the relay is gone, %d leads and %d relays", s.leader, s.relay)
	}
	s.relay = nodeC
	b.do(NodeGone{nodeB})
	if s.leader != 0 || s.relay != nodeC {
		t.Errorf("when the leader is gone, %d leads and %d relays", s.leader, s.relay)
	}
	s.spoke(nodeC, message.Leadership{Leader: nodeC, Term: benchTerm - 1})
	if s.leader != 0 {
		t.Error("an earlier leader is believed in because the latest one is gone")
	}
}

// Promise: G6, P15: a relay stays one until it says that it knows no leader. What it repeats of an
// earlier term changes nothing, nor does an answer that names no leader.
func TestWhatARelaySays(t *testing.T) {
	for _, tt := range []struct {
		name                  string
		from                  uint64
		leader, term          uint64 // that it names
		wantRelay, wantLeader uint64
	}{
		{"it knows no leader", nodeC, 0, 0, 0, nodeB},
		{"it names one of an earlier term", nodeC, 9, benchTerm - 1, nodeC, nodeB},
		{"it names the same", nodeC, nodeB, benchTerm, nodeC, nodeB},
		{"it names a new one", nodeC, 9, benchTerm + 1, nodeC, 9},
		{"a third node knows no leader", 9, 0, 0, nodeC, nodeB},
		{"the leader leads no more, and knows none", nodeB, 0, 0, nodeC, 0},
		{"the leader names its successor, which it hears", nodeB, 9, benchTerm + 1, nodeB, 9},
		{"a third node names none, in a later term", 9, 0, benchTerm + 1, nodeC, nodeB},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := newBench(t)
			b.asks(b.own, Request{Key: "k"})
			p := b.expect("2: lock k")
			s := b.shard()
			s.relay = nodeC
			if b.hears(tt.from, redirect(p, tt.leader, tt.term)); s.relay != tt.wantRelay || s.leader != tt.wantLeader {
				t.Errorf("%d relays to %d, want %d and %d", s.relay, s.leader, tt.wantRelay, tt.wantLeader)
			}
		})
	}
}

// A client that knows no other node sends nothing, and goes on once it knows one.
func TestNoNodeIsKnown(t *testing.T) {
	b := newBench(t)
	b.do(NodeGone{nodeB})
	b.do(Viewed{})
	c := b.asks(b.own, Request{Key: "k"})
	b.pass(time.Second)
	b.expects()
	b.do(Viewed{View{Core: benchMembers}})
	b.pass(longestRetry)
	if sent := b.takes(); c.over || len(sent) == 0 || words(sent[0]) != "lock k" {
		t.Errorf("%v; sent %q", c.Err, inWords(sent))
	}
}

// What is said of a session or a call that is over changes nothing.
func TestWordsOfWhatIsOver(t *testing.T) {
	result := func(session uint64) shard.Event {
		return shard.Event{Session: shard.SessionID{Number: session}, Number: 99, What: shard.Done}
	}
	for _, tt := range []struct {
		name string
		when message.Message
	}{
		{"a reply to another session", &message.Reply{Event: result(99), Revision: 3, Leadership: byB}},
		{"an answer to another session", &message.Answer{Answer: replica.Answer{Session: shard.SessionID{Number: 99}, Alive: true, Revision: 3, Results: []shard.Event{result(1)}}, Leadership: byB}},
		{"an answer to a renewal that was not sent", &message.Answer{Answer: replica.Answer{Session: shard.SessionID{Number: 1}, Ref: 99, Revision: 9}, Leadership: byB}},
		{"a redirect in another session", &message.Redirect{Session: 99, Number: 1, Leadership: message.Leadership{Leader: nodeC, Term: 9}}},
		{"a redirect of another call", &message.Redirect{Session: 1, Number: 99, Leadership: byB}},
		{"a redirect of a call that waits in the queue", &message.Redirect{Session: 1, Number: 2, Leadership: byB}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := newBench(t)
			h := b.holds(b.own, Request{Key: "k"}, 2)
			c := b.asks(b.own, Request{Key: "m"})
			b.hears(nodeB, queued(b.expect("2: lock m"), 3))
			b.happened()
			b.hears(nodeB, tt.when)
			if b.expects(); len(b.happened()) > 0 || h.Err() != nil || c.over || b.shard().leader != nodeB {
				t.Errorf("%d leads; the hold: %v; the Lock: %v", b.shard().leader, h.Err(), c.over)
			}
		})
	}
}

// At the fault points of a simulation a client does what a slower or less lucky one would.
func TestFaultPoints(t *testing.T) {
	at := func(site point.Site) *bench {
		b := newBench(t)
		b.client.cfg.Points = func(s point.Site) bool { return s == site }
		return b
	}
	b := at(point.HastyRelay)
	b.asks(b.own, Request{Key: "k"})
	if p := b.takes(); len(p) != 1 || !relayed(p[0]) {
		t.Error("the first attempt is not to be relayed")
	}
	b = at(point.ForgetLeader)
	b.asks(b.own, Request{Key: "k"})
	if b.takes(); b.shard().leader != 0 {
		t.Error("the leader is not forgotten")
	}
	b = at(point.LateAcks)
	b.holds(b.own, Request{Key: "k"}, 7)
	b.asks(b.own, Request{Key: "m"})
	if a := commandOf(b.expect("2: lock m")).(shard.Acquire).Acked; len(a) > 0 {
		t.Errorf("a command acknowledges %v", a)
	}
	b = at(point.FreshSeat)
	u := b.unlocks(b.holds(b.own, Request{Key: "k"}, 7))
	b.hears(nodeB, done(b.expect("2: unlock k token 7"), 8))
	b.asks(b.own, Request{Key: "m"})
	if id := sessionOf(b.expect("2: lock m")); !u.over || id.Number != 2 {
		t.Errorf("an idle lease is kept: %v", id)
	}
}
