package node

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lockmesh/mesh/internal/env"
	"github.com/lockmesh/mesh/internal/founding"
	"github.com/lockmesh/mesh/internal/members"
	"github.com/lockmesh/mesh/transport"
)

// benchB is the member that these tests play.
var benchB = env.Member{ID: nodeB, Name: "b", Addr: "b:1", Zone: "zb"}

// hello is how b introduces itself.
func (b *bench) hello() transport.Hello {
	return transport.Hello{MeshID: b.node.mesh.MeshID, Name: benchB.Name, Addr: benchB.Addr, ID: benchB.ID, Zone: benchB.Zone, RingHash: b.node.hello.RingHash}
}

// The membership loop hands to members' machine what gossip, the network and other nodes say, and does what that
// wants done. What it decides is tested there.
func TestWhatIsHeardReachesTheMachine(t *testing.T) {
	b := start(t, Config{})
	b.play = func(p parcel) { b.note("%s to %d", p.words(), p.to) }
	for _, tt := range []struct {
		name string
		then func()
		asks string // in place of all, that one
	}{
		{"a stranger answers a dial", func() { b.node.Dialed("b:1", b.hello(), nil) }, "join 2"},
		{"gossip knows it", func() { b.news(env.MemberEvent{Member: benchB}) }, "connect 2 b:1"},
		{"it connects", func() { b.node.Up(b.hello()) }, "status to 2"},
		{"it reports", func() {
			b.node.Receive(nodeB, transport.KindControl, []byte{ctlStatus, 0x95, 0xc0, 0xc0, 0xc0, 0xc0, 0xc0})
		}, "status to 2"},
		{"it reports nonsense", func() { b.node.Receive(nodeB, transport.KindControl, []byte{ctlStatus}) }, "disconnect 2"},
		{"it is gone", func() { b.node.Down(nodeB, transport.Lost); b.news(env.MemberEvent{Member: benchB, State: env.Dead}) }, "dial b:1"},
		{"it answers again", func() { b.node.Up(b.hello()) }, "join 2"},
		{"this node leaves", func() { b.node.membership.post(func(m *membership) { m.leave() }) }, "leaving to 2"},
		{"it says goodbye", func() { b.node.membership.post(func(m *membership) { m.goodbye() }) }, "gossip leaves"},
	} {
		b.words = nil
		tt.then()
		if b.pass(time.Second); !slices.Contains(b.words, tt.asks) {
			t.Errorf("%s: the node asks for %v, and not for %q", tt.name, b.words, tt.asks)
		}
	}
	if !strings.Contains(b.log.String(), "a malformed status") {
		t.Errorf("logged: %s", b.log.String())
	}
}

// A new view reaches the shard loop and Members, and a node that says that it leaves has no place in it.
func TestANewViewReachesTheShardLoop(t *testing.T) {
	b := start(t, Config{Shards: 2})
	b.play = func(parcel) {}
	b.news(env.MemberEvent{Member: benchB})
	b.node.Up(b.hello())
	b.run()
	if !b.node.shards.view.Has(nodeB) {
		t.Errorf("the shard loop has %+v", b.node.shards.view.Members())
	}
	b.node.Receive(nodeB, transport.KindControl, []byte{ctlLeaving})
	b.run()
	if b.node.shards.view.Has(nodeB) {
		t.Errorf("the shard loop has a node that leaves")
	}
	if all := b.node.Members(); len(all) != 2 || all[1] != (members.Member{Member: benchB}) {
		t.Errorf("members: %+v", all)
	}
}

// Promise: P21, P30: elections hear at once of a node that is proven dead: by its address, or by gossip about it.
func TestTheShardLoopHearsOfTheDead(t *testing.T) {
	for name, then := range map[string]func(b *bench){
		"its connection is refused":        func(b *bench) { b.node.Down(nodeB, transport.Refused) },
		"another answers at its address":   func(b *bench) { b.node.Down(nodeB, transport.Replaced) },
		"this node answers at its address": func(b *bench) { b.news(env.MemberEvent{Member: env.Member{ID: nodeB, Name: "a", Addr: "a:1"}}) },
	} {
		b := start(t, Config{})
		b.play = func(parcel) {}
		b.do(func(l *shardLoop) { l.via[nodeB] = nodeC })
		then(b)
		if b.run(); len(b.node.shards.via) > 0 {
			t.Errorf("%s: the shard loop has not heard of it", name)
		}
	}
}

// What the shard loop reports is what Health says, until it reports something else.
func TestHealthIsPublished(t *testing.T) {
	b := start(t, Config{Shards: 2})
	if h := b.node.Health(); !h.Ready || !h.FullyReplicated {
		t.Errorf("health: %+v", h)
	}
	b.node.membership.post(func(m *membership) { m.reported(members.Report{Led: []int{0, 1}, Rest: []int{1}}) })
	b.run()
	if h := b.node.Health(); h.FullyReplicated || !slices.Equal(h.UnderReplicated, []int{0}) || len(h.NoMajority) > 0 {
		t.Errorf("health: %+v", h)
	}
}

// Promise: P23: a connection is over however it ends, also if this node ended it.
func TestEveryEndOfAConnectionCounts(t *testing.T) {
	for cause := transport.Lost; cause <= transport.Disconnected; cause++ {
		b := start(t, Config{})
		b.play = func(p parcel) { b.note("%s to %d", p.words(), p.to) }
		b.news(env.MemberEvent{Member: benchB})
		b.node.Up(b.hello())
		b.run()
		b.node.Down(nodeB, cause)
		b.words = nil
		if b.pass(2 * time.Second); slices.Contains(b.words, "status to 2") {
			t.Errorf("cause %d: it goes on: %v", cause, b.words)
		}
	}
}

// Promise: P26: the founding says where the first replicas are, whichever founders are connected.
func TestFoundersNeedNotBeConnected(t *testing.T) {
	b := start(t, Config{})
	roster := []env.Member{b.node.self(), {ID: nodeB, Name: "b", Addr: "b:1"}, {ID: nodeC, Name: "c", Addr: "c:1"}}
	b.node.membership.post(func(m *membership) {
		m.enter(founding.Done{Mesh: founding.Mesh{
			MeshID: 77, Epoch: 1, Roster: roster, Params: founding.Params{Shards: 1, Replicas: 3, MaxTTL: time.Minute, Rho: 100},
		}})
	})
	b.run()
	if voters := b.node.shards.replica(0).Voters(); len(voters) != 3 {
		t.Errorf("the first voters are %v", voters)
	}
}
