package node

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/lockmesh/mesh/internal/env"
	"github.com/lockmesh/mesh/internal/placement"
	"github.com/lockmesh/mesh/internal/replica"
	"github.com/lockmesh/mesh/transport"
)

// member is a node of the test's: "b1" is the first of name b, and so on.
func member(name string, id uint64) env.Member {
	return env.Member{ID: transport.ID(id), Name: name, Addr: name + ":1", Zone: "z" + name}
}

// helloOf is how a member introduces itself.
func (b *bench) helloOf(m env.Member) transport.Hello {
	return transport.Hello{MeshID: b.node.mesh.MeshID, Name: m.Name, Addr: m.Addr, ID: m.ID, Zone: m.Zone, RingHash: b.node.hello.RingHash}
}

// gossips, connects and parts tell the node of others.
func (b *bench) gossips(m env.Member, state env.MemberState) {
	b.news(env.MemberEvent{Member: m, State: state})
	b.run()
}

func (b *bench) connects(m env.Member) {
	b.node.Up(b.helloOf(m))
	b.run()
}

func (b *bench) parts(m env.Member, cause transport.Cause) {
	b.node.Down(m.ID, cause)
	b.run()
}

// Promise: P30, P33: what a node believes of others, by what it heard: silence is no proof of death, and for a grace
// period it is no more than a doubt; who left, leaves, or is answered by its next incarnation has departed.
func TestTheView(t *testing.T) {
	m, next := member("b", 2), member("b", 5)
	for _, tt := range []struct {
		name  string
		then  func(b *bench)
		fate  placement.Liveness
		there bool // on the ring
		shown env.MemberState
		gone  bool // it is not shown
	}{
		{"alive", func(b *bench) {}, placement.Present, true, env.Alive, false},
		{"alive and connected", func(b *bench) { b.connects(m) }, placement.Present, true, env.Alive, false},
		{"silent, for less than the grace", func(b *bench) { b.gossips(m, env.Dead); b.pass(grace - 1) }, placement.Suspect, true, env.Dead, false},
		{"silent, for the grace", func(b *bench) { b.gossips(m, env.Dead); b.pass(grace) }, placement.Silent, false, env.Dead, false},
		{"silent, for long, and alive again", func(b *bench) { b.gossips(m, env.Dead); b.pass(grace); b.gossips(m, env.Alive) }, placement.Present, true, env.Alive, false},
		{"called dead, and connected", func(b *bench) { b.connects(m); b.gossips(m, env.Dead); b.pass(grace) }, placement.Present, true, env.Dead, false},
		{"called dead, and connected again", func(b *bench) { b.gossips(m, env.Dead); b.pass(grace); b.connects(m) }, placement.Present, true, env.Dead, false},
		{"called dead, and its connection lost", func(b *bench) {
			b.connects(m)
			b.gossips(m, env.Dead)
			b.pass(grace)
			b.parts(m, transport.Lost)
		}, placement.Silent, false, env.Dead, false},
		{"its connection lost", func(b *bench) { b.connects(m); b.parts(m, transport.Lost); b.pass(grace) }, placement.Present, true, env.Alive, false},
		{"left", func(b *bench) { b.gossips(m, env.Left) }, placement.Departed, false, 0, true},
		{"left, and called alive again", func(b *bench) { b.gossips(m, env.Left); b.gossips(m, env.Alive) }, placement.Departed, false, 0, true},
		{"about to leave", func(b *bench) {
			b.connects(m)
			b.node.Receive(m.ID, transport.KindControl, []byte{ctlLeaving})
			b.run()
		}, placement.Departed, false, env.Alive, false},
		{"about to leave, and gone with a goodbye", func(b *bench) {
			b.connects(m)
			b.node.Receive(m.ID, transport.KindControl, []byte{ctlLeaving})
			b.parts(m, transport.Goodbye)
		}, placement.Departed, false, 0, true},
		{"gone with a goodbye, though it said nothing before", func(b *bench) { b.connects(m); b.parts(m, transport.Goodbye) }, placement.Present, true, env.Alive, false},
		{"replaced, a moment ago", func(b *bench) { b.connects(m); b.parts(m, transport.Replaced); b.pass(grace - 1) }, placement.Departed, true, 0, true},
		{"replaced", func(b *bench) { b.connects(m); b.parts(m, transport.Replaced); b.pass(grace) }, placement.Departed, false, 0, true},
		{"replaced, and called alive", func(b *bench) {
			b.connects(m)
			b.parts(m, transport.Replaced)
			b.pass(grace)
			b.gossips(m, env.Alive)
		}, placement.Departed, false, 0, true},
		{"at another address", func(b *bench) {
			moved := m
			moved.Addr = "b:2"
			b.gossips(moved, env.Alive)
		}, placement.Present, true, env.Alive, false},
		{"alive beside its next incarnation, which is connected", func(b *bench) { b.gossips(next, env.Alive); b.connects(next) }, placement.Present, false, env.Alive, true},
		{"connected, beside its next incarnation, which gossip knows", func(b *bench) { b.connects(m); b.gossips(next, env.Alive) }, placement.Present, true, env.Alive, false},
		{"at this node's address", func(b *bench) {
			moved := m
			moved.Addr = "a:1"
			b.gossips(moved, env.Alive)
		}, placement.Present, true, env.Alive, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := start(t, Config{})
			b.play = func(parcel) {}
			b.gossips(m, env.Alive)
			if !slices.Contains(b.words, "connect 2 b:1") {
				t.Errorf("it is told of a member, and asks for %v", b.words)
			}
			tt.then(b)
			v := b.lane().view
			liveness, _ := v.Liveness()
			if f, known := liveness[2]; !known || f != tt.fate {
				t.Errorf("its fate is %d, want %d", f, tt.fate)
			}
			if name, there := v.Name(2); there != tt.there || there && name != "b" {
				t.Errorf("it is on the ring: %t, as %q", there, name)
			}
			i := slices.IndexFunc(b.node.Members(), func(m Member) bool { return m.ID == 2 })
			if (i < 0) != tt.gone {
				t.Fatalf("members: %+v", b.node.Members())
			}
			if i >= 0 {
				if got := b.node.Members()[i]; got.Name != "b" || got.State != tt.shown || got.Zone != "zb" && got.Zone != "" {
					t.Errorf("it is shown as %+v", got)
				}
			}
			if !slices.IsSortedFunc(v.Members(), func(a, b replica.Peer) int { return int(a.Name[0]) - int(b.Name[0]) }) || !v.Has(b.node.id) {
				t.Errorf("members: %+v", v.Members())
			}
			departed := tt.fate == placement.Departed && tt.name != "about to leave"
			if slices.Contains(b.words, "disconnect 2") != departed {
				t.Errorf("it asks for %v", b.words)
			}
		})
	}
}

// Promise: P30: who bears this node's name at this node's address was here before it, and is dead.
func TestThePredecessorIsProvenDead(t *testing.T) {
	for _, tt := range []struct {
		m      env.Member
		proven bool
	}{
		{env.Member{ID: 2, Name: "a", Addr: "a:1"}, true},
		{env.Member{ID: 2, Name: "a", Addr: "a:2"}, false},
		{env.Member{ID: 2, Name: "b", Addr: "a:1"}, false},
	} {
		b := start(t, Config{})
		b.gossips(tt.m, env.Alive)
		liveness, _ := b.lane().view.Liveness()
		if got := liveness[2] == placement.Departed; got != tt.proven || slices.Contains(b.words, "disconnect 2") != tt.proven {
			t.Errorf("%+v is proven dead: %t; %v", tt.m, got, b.words)
		}
		if liveness[b.node.id] != placement.Present {
			t.Errorf("and this node itself, with it")
		}
	}
}

// Promise: P30: who was silent for a day is forgotten, and who was proven dead a while ago: then late gossip may bring
// him back, but nobody tells it any more.
func TestTheHallForgets(t *testing.T) {
	m := member("b", 2)
	for _, tt := range []struct {
		after time.Duration
		then  func(b *bench)
	}{
		{forgetAfter, func(b *bench) { b.gossips(m, env.Dead) }},
		{forgetAfter, func(b *bench) { b.gossips(m, env.Left) }},
		{forgetProven, func(b *bench) { b.connects(m); b.parts(m, transport.Replaced) }},
	} {
		b := start(t, Config{})
		b.play = func(parcel) {}
		h := b.node.hall
		b.gossips(m, env.Alive)
		tt.then(b)
		look := func(want bool) {
			t.Helper()
			b.gossips(member("c", 3), env.MemberState(b.drawn%2)) // something changes, so that it looks
			b.drawn++
			if h.people[2] == nil == want {
				t.Errorf("after %v it knows of it: %t", b.now, h.people[2] != nil)
			}
		}
		b.now += tt.after - time.Second
		look(true)
		b.words = nil
		b.pass(2 * time.Second)
		if look(false); !slices.Contains(b.words, "disconnect 2") {
			t.Errorf("it asks for %v", b.words)
		}
	}
}

// The ring is built once for each set of names and zones.
func TestTheRingIsBuiltOnce(t *testing.T) {
	b := start(t, Config{})
	b.play = func(parcel) {}
	b.gossips(member("b", 2), env.Alive)
	v := b.lane().view
	b.connects(member("b", 2))
	b.gossips(member("b", 5), env.Alive)
	b.parts(member("b", 2), transport.Replaced)
	if again := b.lane().view; again == v || !slices.Contains(again.Target(0), replica.Peer{Node: 5, Name: "b", Addr: "b:1"}) {
		t.Error("the next incarnation is not where its predecessor was")
	}
	b.gossips(member("c", 3), env.Alive)
	three := b.lane().view
	if len(three.Target(0)) != 3 || !slices.Contains(three.Target(0), replica.Peer{Node: 5, Name: "b", Addr: "b:1"}) {
		t.Errorf("with another member the ring wants %+v", three.Target(0))
	}
	m := member("d", 4)
	b.gossips(m, env.Alive)
	m.ID, m.Zone = 6, "elsewhere"
	b.connects(m)
	b.gossips(m, env.Alive)
	four := b.lane().view
	if b.gossips(member("d", 4), env.Left); !b.lane().view.Has(6) {
		t.Error("one that lives elsewhere has its namesake's place")
	}
	if len(four.Target(0)) != 3 || len(four.Standby(0)) != 1 {
		t.Errorf("of four %+v are wanted, and %+v are spare", four.Target(0), four.Standby(0))
	}
}

// Promise: G6, P25: all members together look about once in a second at each address where somebody may be who is
// not in the mesh: seeds, and members that are silent. A seed at which a member is, is not among them.
func TestTheHallSeeks(t *testing.T) {
	const long = 100 * time.Second
	const here = "a:1" // a seed list of no other host would make all of it faster, as on loopback
	for _, tt := range []struct {
		alive, lost int
		seeds       []string
		want        float64 // dials per second, of this node
	}{
		{0, 0, []string{here}, 0},
		{0, 1, []string{here}, 1},
		{0, 2, []string{here}, 2},
		{0, 9, []string{here}, 4},
		{0, 0, []string{"s:1"}, 1},
		{0, 1, []string{"s:1", "m0:1"}, 2},
		{1, 1, []string{here}, 1. / 2},
		{3, 1, []string{here}, 1. / 4},
		{3, 2, []string{here}, 2. / 4},
		{1, 0, []string{here, "m0:1"}, 0},
		{1, 0, []string{here, "m0:1", "s:1"}, 1. / 2},
	} {
		t.Run(fmt.Sprintf("%d there, %d lost, seeds %v", tt.alive, tt.lost, tt.seeds), func(t *testing.T) {
			b := start(t, Config{})
			b.play = func(parcel) {}
			var away []env.Member
			for i := range tt.alive + tt.lost {
				m := member(fmt.Sprint("m", i), uint64(i+2))
				if b.gossips(m, env.Alive); i < tt.alive {
					b.connects(m)
				} else {
					away = append(away, m)
					if i%2 == 0 {
						b.gossips(m, env.Dead) // or nobody has noticed yet
					}
				}
			}
			b.node.cfg.Seeds = tt.seeds
			b.pass(20 * time.Second)
			b.words = nil
			b.pass(long)
			dials, to := 0, make(map[string]int)
			for _, w := range b.words {
				if len(w) > 5 && w[:5] == "dial " {
					dials++
					to[w[5:]]++
				}
			}
			if got := float64(dials) / long.Seconds(); got < tt.want*0.8 || got > tt.want*1.2 {
				t.Errorf("%.2f dials per second, want %.2f: %v", got, tt.want, to)
			}
			for _, m := range away {
				if float64(to[m.Addr]) < float64(dials)/float64(tt.lost)/3 {
					t.Errorf("%s is dialled %d times of %d", m.Addr, to[m.Addr], dials)
				}
			}
			if to["a:1"] > 0 || tt.alive > 0 && to["m0:1"] > 0 {
				t.Errorf("who is there is dialled: %v", to)
			}
		})
	}
	b := start(t, Config{})
	left, proven := member("l", 2), member("p", 3)
	b.play = func(parcel) {}
	b.gossips(left, env.Alive)
	b.gossips(left, env.Left)
	b.gossips(proven, env.Alive)
	b.connects(proven)
	b.parts(proven, transport.Replaced)
	b.words = nil
	if b.pass(time.Minute); len(b.words) > 0 {
		t.Errorf("who is known to be gone is looked for: %v", b.words)
	}
}

// Promise: G6: who is connected, of this mesh, and not known to live, is told to gossip: it gives the long lost up, and
// its rumours miss somebody now and then.
func TestTheHallMeets(t *testing.T) {
	m := member("b", 2)
	for _, tt := range []struct {
		name string
		then func(b *bench)
		m    func(h *transport.Hello)
		told bool
	}{
		{"a stranger", func(*bench) {}, nil, true},
		{"a stranger of another mesh", func(*bench) {}, func(h *transport.Hello) { h.MeshID++ }, false},
		{"this node itself", func(*bench) {}, func(h *transport.Hello) { h.ID = 1 }, false},
		{"one that is known to live", func(b *bench) { b.gossips(m, env.Alive) }, nil, false},
		{"one that is called dead", func(b *bench) { b.gossips(m, env.Alive); b.gossips(m, env.Dead) }, nil, true},
		{"one that left", func(b *bench) { b.gossips(m, env.Alive); b.gossips(m, env.Left) }, nil, false},
		{"one that is proven dead", func(b *bench) {
			b.gossips(m, env.Alive)
			b.gossips(m, env.Dead)
			b.connects(m)
			b.parts(m, transport.Replaced)
		}, nil, false},
	} {
		b := start(t, Config{})
		b.play = func(parcel) {}
		tt.then(b)
		hello := b.helloOf(m)
		if tt.m != nil {
			tt.m(&hello)
		}
		if hello.ID == 1 {
			hello.ID = transport.ID(b.node.id)
		}
		b.words = nil
		b.node.Up(hello)
		b.run()
		if got := slices.Contains(b.words, fmt.Sprintf("join %d", uint64(hello.ID))); got != tt.told {
			t.Errorf("%s: gossip is told: %t; %v", tt.name, got, b.words)
		}
		b.words = nil
		b.node.Dialed("b:1", hello, nil)
		b.run()
		if got := slices.Contains(b.words, fmt.Sprintf("join %d", uint64(hello.ID))); got != tt.told {
			t.Errorf("%s, dialled: gossip is told: %t; %v", tt.name, got, b.words)
		}
	}
}
