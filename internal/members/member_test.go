package members

import (
	"strings"
	"testing"
	"time"

	"github.com/lockmesh/mesh/internal/env"
	"github.com/lockmesh/mesh/transport"
)

// Promise: P30, P33: what a node believes of another, by what it heard: silence is no proof of death, and for a grace
// period it is no more than a doubt; a node that left, leaves, or is answered by its next incarnation has departed.
func TestWhatIsBelievedOfANode(t *testing.T) {
	m, next := node("b", 2), node("b", 5)
	moved := func(addr string) env.Member {
		m := m
		m.Addr = addr
		return m
	}
	for _, tt := range []struct {
		name     string
		then     func(b *bench)
		liveness liveness
		member   bool            // it is in the view
		shown    env.MemberState // or hidden
	}{
		{"alive", func(b *bench) {}, present, true, env.Alive},
		{"alive and connected", func(b *bench) { b.connects(m) }, present, true, env.Alive},
		{"silent, for less than the grace", func(b *bench) { b.gossips(m, env.Dead); b.pass(grace - 1) }, doubted, true, env.Dead},
		{"silent, for the grace", func(b *bench) { b.gossips(m, env.Dead); b.pass(grace) }, silent, false, env.Dead},
		{"silent, for long, and alive again", func(b *bench) { b.gossips(m, env.Dead); b.pass(grace); b.gossips(m, env.Alive) }, present, true, env.Alive},
		{"called dead, and connected", func(b *bench) { b.connects(m); b.gossips(m, env.Dead); b.pass(grace) }, present, true, env.Dead},
		{"called dead, and connected again", func(b *bench) { b.gossips(m, env.Dead); b.pass(grace); b.connects(m) }, present, true, env.Dead},
		{"called dead, and its connection lost", func(b *bench) {
			b.connects(m)
			b.gossips(m, env.Dead)
			b.pass(grace)
			b.parts(m, transport.Lost)
		}, silent, false, env.Dead},
		{"its connection lost", func(b *bench) { b.connects(m); b.parts(m, transport.Lost); b.pass(grace) }, present, true, env.Alive},
		{"its connection refused", func(b *bench) { b.connects(m); b.parts(m, transport.Refused); b.pass(grace) }, present, true, env.Alive},
		{"left", func(b *bench) { b.gossips(m, env.Left) }, departed, false, hidden},
		{"left, and called alive again", func(b *bench) { b.gossips(m, env.Left); b.gossips(m, env.Alive) }, departed, false, hidden},
		{"about to leave", func(b *bench) { b.connects(m); b.leaves(m) }, departed, false, env.Alive},
		{"about to leave, and gone with a goodbye", func(b *bench) { b.connects(m); b.leaves(m); b.parts(m, transport.Goodbye) }, departed, false, hidden},
		{"about to leave, and its connection lost", func(b *bench) { b.connects(m); b.leaves(m); b.parts(m, transport.Lost) }, departed, false, env.Alive},
		{"gone with a goodbye, though it said nothing before", func(b *bench) { b.connects(m); b.parts(m, transport.Goodbye) }, present, true, env.Alive},
		{"replaced", func(b *bench) { b.connects(m); b.parts(m, transport.Replaced); b.pass(grace) }, departed, false, hidden},
		{"about to leave, and replaced", func(b *bench) { b.connects(m); b.leaves(m); b.parts(m, transport.Replaced) }, departed, false, hidden},
		{"replaced, and called alive", func(b *bench) {
			b.connects(m)
			b.parts(m, transport.Replaced)
			b.pass(grace)
			b.gossips(m, env.Alive)
			b.gossips(node("c", 3), env.Alive) // so that a view is drawn
		}, departed, false, hidden},
		{"at another address", func(b *bench) { b.gossips(moved("b:2"), env.Alive) }, present, true, env.Alive},
		{"at this node's address", func(b *bench) { b.gossips(moved("a:1"), env.Alive) }, present, true, env.Alive},
		{"alive beside its next incarnation, which is connected", func(b *bench) { b.comes(next) }, present, false, hidden},
		{"connected, beside its next incarnation, which gossip knows", func(b *bench) { b.connects(m); b.gossips(next, env.Alive) }, present, true, env.Alive},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := newBench(t, 1)
			b.gossips(m, env.Alive)
			b.expect("connect 2 b:1")
			tt.then(b)
			if l := b.liveness(2); l != tt.liveness {
				t.Errorf("its liveness is %d, want %d", l, tt.liveness)
			}
			if b.view().Has(2) != tt.member || !b.view().Has(uint64(self)) {
				t.Errorf("the members: %+v", b.view().Members())
			}
			got, shown := b.shown(2)
			if want := tt.shown != hidden; shown != want || shown && (got.State != tt.shown || got.Name != "b" || got.Zone != "zb") {
				t.Errorf("it is shown as %+v", b.drawn[len(b.drawn)-1].Members)
			}
			ends := tt.shown == hidden && tt.liveness == departed
			if b.asked("disconnect 2") != ends {
				t.Errorf("it asks for %v", b.words)
			}
			if b.asked("gone 2") != strings.Contains(tt.name, "replaced") {
				t.Errorf("it is told to be gone: %v", b.words)
			}
		})
	}
}

const hidden env.MemberState = 99

// Promise: P30: a node of this node's name at this node's address was here before it, and is dead.
func TestThePredecessorIsProvenDead(t *testing.T) {
	for _, tt := range []struct {
		m      env.Member
		proven bool
	}{
		{env.Member{ID: 2, Name: "a", Addr: "a:1"}, true},
		{env.Member{ID: 2, Name: "a", Addr: "a:2"}, false},
		{env.Member{ID: 2, Name: "b", Addr: "a:1"}, false},
	} {
		b := newBench(t, 1)
		b.seat(tt.m)
		if got := b.liveness(2) == departed; got != tt.proven || b.asked("disconnect 2") != tt.proven || b.asked("gone 2") != tt.proven {
			t.Errorf("%+v is proven dead: %t; %v", tt.m, got, b.words)
		}
		if b.liveness(self) != present {
			t.Errorf("and this node itself, with it")
		}
	}
}

// Promise: P30: gossip does not bring back a node that is proven dead: it calls the dead alive and dead by turns until all
// have heard of the next incarnation.
func TestTheProvenDeadStayDead(t *testing.T) {
	b := newBench(t, 1)
	m := node("b", 2)
	b.comes(m)
	b.parts(m, transport.Replaced)
	b.pass(grace)
	b.words = nil
	b.gossips(m, env.Dead)
	b.gossips(m, env.Alive)
	if b.expect(); b.view().Has(2) || b.liveness(2) != departed {
		t.Errorf("its liveness is %d; the members: %+v", b.liveness(2), b.view().Members())
	}
}

// Gossip about this node itself changes nothing: it knows better.
func TestNewsOfItselfIsIgnored(t *testing.T) {
	b := newBench(t, 1)
	b.gossips(node("a", self), env.Dead)
	b.gossips(node("a", self), env.Left)
	if b.expect(); len(b.drawn) > 0 {
		t.Errorf("drawn: %+v", b.drawn)
	}
}

// A proof that comes twice is told once, and an address that is empty replaces none.
func TestWhatIsKnownIsNotToldAgain(t *testing.T) {
	b := newBench(t, 1)
	m := node("b", 2)
	b.comes(m)
	b.expect("connect 2 b:1")
	b.gossips(env.Member{ID: 2, Name: "b"}, env.Alive)
	b.expect()
	b.leaves(m)
	b.leaves(node("nobody", 9))
	b.drawn = nil
	if b.leaves(m); len(b.drawn) > 0 {
		t.Error("a node that says again that it leaves changes the view")
	}
	b.parts(m, transport.Replaced)
	b.expect("disconnect 2", "gone 2")
	b.parts(m, transport.Replaced)
	b.parts(node("nobody", 9), transport.Replaced)
	b.expect()
}

// Promise: P33: a node that is gone is remembered while it has a seat, and for a while after that.
func TestTheGoneAreForgotten(t *testing.T) {
	m := node("b", 2)
	for _, tt := range []struct {
		name string
		then func(b *bench)
	}{
		{"silent", func(b *bench) { b.gossips(m, env.Dead) }},
		{"left", func(b *bench) { b.gossips(m, env.Left) }},
		{"proven dead", func(b *bench) { b.connects(m); b.parts(m, transport.Replaced) }},
	} {
		b := newBench(t, 1)
		b.gossips(m, env.Alive)
		tt.then(b)
		if b.pass(time.Hour); !b.knows(2) {
			t.Errorf("%s: it is forgotten, though it has a seat", tt.name)
		}
		b.seats = b.seats[:1]
		b.take(b.m.Seated(b.now, b.seats, 0, nil))
		if b.pass(2 * forgetAfter); b.knows(2) || !b.asked("disconnect 2") {
			t.Errorf("%s: without a seat it is remembered; %v", tt.name, b.words)
		}
	}
}

// Promise: P33: of several incarnations the one that is connected bears the name, then one that gossip calls alive,
// then the one that was heard of last; this node bears its own.
func TestWhichNodeBearsAName(t *testing.T) {
	m := New(Config{Self: env.Member{ID: 9}})
	m.now = time.Minute
	late := m.now - time.Millisecond
	own := &member{Member: env.Member{ID: 9}}
	connected := &member{Member: env.Member{ID: 1}, connected: true}
	alive := &member{Member: env.Member{ID: 2}, seated: true}
	leaving := &member{Member: env.Member{ID: 3}, connected: true, leaving: true, since: late}
	silent := &member{Member: env.Member{ID: 4}, state: env.Dead, since: late}
	dead := &member{Member: env.Member{ID: 5}, state: env.Dead, since: late - grace}
	again := &member{Member: env.Member{ID: 6}, state: env.Dead, since: late - 2*grace}
	order := []*member{own, connected, alive, silent, dead, again, leaving}
	for i, o := range order {
		for j, p := range order {
			if got, want := m.prefer(o, p), i < j; got != want {
				t.Errorf("%d is preferred to %d: %t, want %t", o.ID, p.ID, got, want)
			}
		}
	}
	m.leaving = true
	if m.prefer(own, connected) {
		t.Error("a node that leaves bears its name longer than its next incarnation")
	}
}

// Promise: G6: a node that has a seat, answers, and is not believed to live, is told to gossip: it gives the long lost
// up, and its rumours miss a node now and then.
func TestGossipHearsOfThoseThatAnswer(t *testing.T) {
	m := node("b", 2)
	for _, tt := range []struct {
		name string
		then func(b *bench)
		peer transport.Hello
		told bool
	}{
		{"a client", func(*bench) {}, hello(m), false},
		{"one of another mesh", func(b *bench) { b.gossips(m, env.Dead) }, transport.Hello{ID: 2, MeshID: testMesh + 1}, false},
		{"this node itself", func(*bench) {}, hello(node("a", self)), false},
		{"one that is known to live", func(b *bench) { b.gossips(m, env.Alive) }, hello(m), false},
		{"one that is called dead", func(b *bench) { b.gossips(m, env.Dead) }, hello(m), true},
		{"one that left", func(b *bench) { b.gossips(m, env.Left) }, hello(m), false},
		{"one that is proven dead", func(b *bench) {
			b.gossips(m, env.Dead)
			b.parts(m, transport.Replaced)
		}, hello(m), false},
	} {
		for how, input := range map[string]func(b *bench){
			"connected": func(b *bench) { b.take(b.m.Up(b.now, tt.peer, nil)) },
			"dialled":   func(b *bench) { b.take(b.m.Answered(b.now, tt.peer, nil)) },
		} {
			b := newBench(t, 1)
			tt.then(b)
			b.words = nil
			input(b)
			if got := hasPrefix(b.words, "join "); got != tt.told {
				t.Errorf("%s, %s: gossip is told: %t; %v", tt.name, how, got, b.words)
			}
		}
	}
}

// What a node hears before it is in a mesh counts from when it is; until then it does nothing.
func TestJoining(t *testing.T) {
	b := alone(t)
	b.connects(node("c", 3))
	b.take(b.m.Up(b.now, transport.Hello{ID: 4, RingHash: testRing}, nil)) // of no mesh yet
	b.status(3, []byte("nonsense"))
	if b.expect(); b.m.Deadline() != env.Never || len(b.sent)+len(b.drawn) > 0 {
		t.Errorf("before it has joined it has something to do at %v: %v, %v", b.m.Deadline(), b.sent, b.drawn)
	}
	b.joins(1, node("b", 2))
	b.expect("connect 2 b:1", "join 2")
	if !b.gossip || !b.knows(3) || b.knows(4) {
		t.Errorf("it gossips: %t; it knows the client: %t, and one of no mesh: %t", b.gossip, b.knows(3), b.knows(4))
	}
	alone := alone(t)
	alone.joins(1)
	alone.expect()
}

// Those that have a seat are members before gossip knows them, and it is told of each once.
func TestGossipHearsOfThoseWithASeat(t *testing.T) {
	seats := func(b *bench, all ...env.Member) { b.take(b.m.Seated(b.now, all, 0, nil)) }
	b := alone(t)
	seats(b, node("b", 2))
	b.expect() // it is in no mesh yet
	b.joins(1, node("b", 2))
	b.expect("connect 2 b:1", "join 2")
	b.gossips(node("c", 3), env.Alive)
	b.words = nil
	seats(b, node("a", self), node("b", 2), node("c", 3), node("d", 4), node("e", 5))
	if b.expect("connect 4 d:1", "connect 5 e:1", "join 4", "join 5"); !b.view().Has(4) {
		t.Errorf("the members: %+v", b.view().Members())
	}
	seats(b, node("a", self), node("b", 2), node("d", 4), node("e", 5))
	b.expect("disconnect 3")
}

// A node whose entry was dropped may lead shards: nobody parts with it before its votes have moved, itself included.
func TestTheDroppedStayUntilTheirVotesHaveMoved(t *testing.T) {
	a, m, c := node("a", self), node("b", 2), node("c", 3)
	for _, tt := range []struct {
		name    string
		join    func(b *bench)
		rest    []env.Member // the nodes of the core without the one that was dropped
		dropped transport.ID
		after   []string // what it does when that one votes no more
		gossip  bool     // then
	}{
		{"another node of the core", func(b *bench) { b.joins(1, m, c) }, []env.Member{a, m}, 3, []string{"disconnect 3"}, true},
		{"a client", func(b *bench) { b.clientOf(1, m, c) }, []env.Member{m}, 3, []string{"disconnect 3"}, false},
		{"the node itself", func(b *bench) { b.joins(1, m, c) }, []env.Member{m, c}, self, nil, false},
		{"a node that does not know it", func(b *bench) { b.joins(1, m) }, []env.Member{a, m}, 3, nil, true},
	} {
		b := alone(t)
		tt.join(b)
		for _, o := range b.seats {
			if o.ID != self {
				b.connects(o)
			}
		}
		b.hears(m, Report{})
		if b.knows(3) {
			b.hears(c, led(1))
		}
		b.words = nil
		before, leaderless := b.gossip, len(b.m.Health().NoMajority)
		b.take(b.m.Seated(b.now, tt.rest, tt.dropped, nil))
		b.expect()
		if b.gossip != before || len(b.m.Health().NoMajority) != leaderless {
			t.Errorf("%s: it gossips: %t; shards without a leader: %v", tt.name, b.gossip, b.m.Health().NoMajority)
		}
		b.take(b.m.Seated(b.now, tt.rest, 0, nil))
		if b.expect(tt.after...); b.gossip != tt.gossip {
			t.Errorf("%s: it gossips when that is over: %t", tt.name, b.gossip)
		}
	}
}

// A node that has a seat may be dead for long: no gossip tells of it then. So it counts as silent if nothing is heard of it.
func TestASeatIsNoSignOfLife(t *testing.T) {
	m := node("b", 2)
	for _, tt := range []struct {
		name  string
		then  func(b *bench)
		shown env.MemberState
	}{
		{"nothing", func(b *bench) {}, env.Dead},
		{"gossip", func(b *bench) { b.gossips(m, env.Alive) }, env.Alive},
		{"gossip, late", func(b *bench) { b.pass(grace); b.gossips(m, env.Alive) }, env.Alive},
		{"a connection", func(b *bench) { b.connects(m) }, env.Alive},
		{"a connection that was lost", func(b *bench) { b.connects(m); b.parts(m, transport.Lost) }, env.Alive}, // gossip was told
		{"a connection from before", nil, env.Alive},
	} {
		b := alone(t)
		if tt.then == nil {
			b.connects(m)
		}
		b.joins(1, m)
		b.pass(grace - 1)
		if got, shown := b.shown(2); !shown || got.State != env.Alive || b.liveness(2) != present {
			t.Errorf("%s is heard of it: it is shown as %+v at first", tt.name, got)
		}
		if tt.then != nil {
			tt.then(b)
		}
		b.pass(2 * grace)
		want := map[env.MemberState]liveness{env.Alive: present, env.Dead: silent}[tt.shown]
		if got, shown := b.shown(2); !shown || got.State != tt.shown || b.liveness(2) != want {
			t.Errorf("%s is heard of it: it is shown as %+v, its liveness is %d", tt.name, got, b.liveness(2))
		}
	}
}

// A node that follows its core into another mesh stays what it is, and goes by what is said there alone.
func TestAnotherMesh(t *testing.T) {
	b := newBench(t, 2)
	m := node("b", 2)
	b.comes(m)
	b.reports(Report{})
	b.hears(m, led(2))
	if h := b.m.Health(); !h.Ready {
		t.Fatalf("before: %+v", h)
	}
	b.clear()
	later, c := hello(node("c", 3)), node("d", 4)
	later.MeshID = testMesh + 1
	b.take(b.m.Up(b.now, later, nil))
	b.expect()
	b.take(b.m.Joined(b.now, Mesh{ID: testMesh + 1, Shards: 2}, []env.Member{node("a", self), m, c}, nil))
	if b.expect("connect 4 d:1", "join 4"); !b.knows(3) || !b.gossip {
		t.Error("a client that was in the mesh before is not known")
	}
	if h := b.m.Health(); !h.Settled || h.Ready || len(h.NoMajority) != 2 {
		t.Errorf("what was said in the mesh before counts: %+v", h)
	}
	b.sent = nil
	b.hears(m, led(2))
	if h := b.m.Health(); !h.Ready || b.ready != 1 || len(b.sent) != 1 {
		t.Errorf("%+v; it became ready %d times, and reported %d times", h, b.ready, len(b.sent))
	}
}

// Promise: G6: a node that reports is of this mesh, though it was of none when it connected.
func TestWhoReportsIsAMember(t *testing.T) {
	b := newBench(t, 1)
	m := node("b", 2)
	b.take(b.m.Up(b.now, transport.Hello{ID: 2, Name: "b", Addr: "b:1", RingHash: testRing}, nil))
	if b.knows(2) {
		t.Error("a node of no mesh is a member")
	}
	if b.hears(m, Report{}); !b.knows(2) {
		t.Error("a node that reports is no member")
	}
	b = newBench(t, 1)
	b.hears(m, Report{}) // what was on its way when the connection ended
	if b.expect(); b.knows(2) {
		t.Error("a node that is not connected is a client")
	}
}

// Promise: P29: another ring is legal, and worth one warning.
func TestAnotherRingIsLoggedOnce(t *testing.T) {
	b := newBench(t, 1)
	other := hello(node("b", 2))
	other.RingHash = testRing + 1
	b.take(b.m.Up(b.now, hello(node("c", 3)), nil))
	b.take(b.m.Up(b.now, other, nil))
	b.take(b.m.Up(b.now, other, nil))
	log := b.log.String()
	if strings.Count(log, "\n") != 1 || !strings.Contains(log, "peer=b ring=0000000000000006 mine=0000000000000005") {
		t.Errorf("logged: %q", log)
	}
}

// Promise: P32: a node that leaves says so to all members that are connected, with each status again, and to those
// that connect later; its view says so, too, and it is not among the members any more.
func TestLeaving(t *testing.T) {
	b := newBench(t, 1)
	for _, m := range []env.Member{node("b", 2), node("c", 3)} {
		b.comes(m)
	}
	b.gossips(node("d", 4), env.Alive)
	b.pass(time.Second / 2)
	b.clear()
	b.take(b.m.Leave(b.now, nil))
	b.expect("leaving to 2", "leaving to 3")
	if v := b.view(); !v.Leaving() || v.Has(uint64(self)) || b.liveness(self) != departed || !v.Has(2) {
		t.Errorf("its view: leaving %t, %+v", v.Leaving(), v.Members())
	}
	b.connects(node("d", 4))
	b.expect("leaving to 4")
	b.pass(statusEvery)
	b.expect("leaving to 2", "leaving to 3", "leaving to 4")
	b.note(b.m.Goodbye(b.now, nil))
	b.expect("disconnect 2", "disconnect 3", "disconnect 4")
}
