package node

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lockmesh/mesh/internal/core"
	"github.com/lockmesh/mesh/internal/env"
	"github.com/lockmesh/mesh/internal/fault"
	"github.com/lockmesh/mesh/internal/members"
	"github.com/lockmesh/mesh/internal/seat"
	"github.com/lockmesh/mesh/internal/wire"
	"github.com/lockmesh/mesh/transport"
)

// benchB and benchC are the members that these tests play.
var (
	benchB = env.Member{ID: nodeB, Name: "b", Addr: "b:1", Zone: "zb"}
	benchC = env.Member{ID: nodeC, Name: "c", Addr: "c:1"}
)

// hello is how b introduces itself.
func (b *bench) hello() transport.Hello { return b.helloOf(benchB) }

func (b *bench) helloOf(m env.Member) transport.Hello {
	return transport.Hello{MeshID: b.node.mesh.Load().id, Name: m.Name, Addr: m.Addr, ID: m.ID, Zone: m.Zone, RingHash: b.node.hello.RingHash}
}

// meets lets members connect that have a seat.
func (b *bench) meets(all ...env.Member) {
	for _, o := range all {
		b.news(env.MemberEvent{Member: o})
		b.node.Up(b.helloOf(o))
	}
	b.seats(false, all...)
}

// seats gives nodes a seat, and perhaps a vote in every shard.
func (b *bench) seats(vote bool, all ...env.Member) {
	m := *b.node.shards.core.table
	m.Stamp, m.Seats, m.Shards = m.Stamp.Next(), slices.Clone(m.Seats), slices.Clone(m.Shards)
	for _, o := range all {
		m.Seats = append(m.Seats, core.Seat{Entry: o.Addr, Node: o})
	}
	for sh := range m.Shards {
		if vote {
			m.Shards[sh].Voters = m.Bound()
		}
	}
	b.knows(seat.State{Table: &m})
}

// emptyStatus is a status of a node without replicas.
var emptyStatus = append([]byte{ctlStatus}, wire.Marshal(members.Report{})...)

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
		{"a client connects, and asks", func() {
			b.node.Up(b.helloOf(benchC))
			b.node.Receive(nodeC, transport.KindControl, emptyStatus)
		}, "status to 3"},
		{"another one gets a seat", func() { b.seats(false, benchB) }, "connect 2 b:1"},
		{"and another one", func() { b.seats(false, env.Member{ID: 4, Name: "d", Addr: "d:1"}) }, "join 4"},
		{"it connects", func() { b.node.Up(b.hello()) }, "status to 2"},
		{"it reports", func() { b.node.Receive(nodeB, transport.KindControl, emptyStatus) }, "status to 2"},
		{"it reports nonsense", func() { b.node.Receive(nodeB, transport.KindControl, []byte{ctlStatus}) }, "disconnect 2"},
		{"it is gone, and answers again", func() {
			b.node.Down(nodeB, transport.Lost)
			b.news(env.MemberEvent{Member: benchB, State: env.Dead})
			b.node.Dialed("b:1", b.hello(), nil)
			b.node.Up(b.hello())
		}, "join 2"},
		{"this node leaves", func() { b.node.membership.post(func(m *membership) { m.carryOut(m.members.Leave(m.now, m.out)) }) }, "leaving to 2"},
		{"it says goodbye", func() { b.node.membership.post(func(m *membership) { m.goodbye() }) }, "gossip leaves"},
	} {
		b.words = nil
		tt.then()
		if b.pass(time.Second); !slices.Contains(b.words, tt.asks) {
			t.Errorf("%s: the node asks for %v, and not for %q", tt.name, b.words, tt.asks)
		}
	}
	if strings.Count(b.log.String(), "a malformed status") != 1 {
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
		"this node answers at its address": func(b *bench) { b.seats(false, env.Member{ID: nodeB, Name: "a", Addr: "a:1"}) },
	} {
		b := start(t, Config{})
		b.play = func(parcel) {}
		b.do(func(l *shardLoop) { l.via[nodeC] = way{relay: nodeB} })
		then(b)
		if b.run(); len(b.node.shards.via) > 0 {
			t.Errorf("%s: the shard loop has not heard of it", name)
		}
	}
}

// What the shard loop reports is what Health says, until it reports something else.
func TestHealthIsPublished(t *testing.T) {
	b := start(t, Config{Shards: 2})
	if h := b.node.Health(); !h.Settled || h.Ready || h.Phase != Quiet || !h.FullyReplicated {
		t.Errorf("health in the quiet time: %+v", h)
	}
	b.pass(12 * time.Second)
	if h := b.node.Health(); h.Phase != Serving || !h.Ready || !h.FullyReplicated {
		t.Errorf("health: %+v", h)
	}
	b.node.membership.post(func(m *membership) {
		m.carryOut(m.members.Reported(m.now, members.Report{Led: []int{0, 1}, Rest: []int{1}}, 0, m.out))
	})
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
		b.seats(false, benchB)
		b.node.Up(b.hello())
		b.words = nil
		if b.pass(2 * time.Second); !slices.Contains(b.words, "status to 2") {
			t.Fatalf("it does not report to a node of the core: %v", b.words)
		}
		b.node.Down(nodeB, cause)
		b.words = nil
		if b.pass(2 * time.Second); slices.Contains(b.words, "status to 2") {
			t.Errorf("cause %d: it goes on: %v", cause, b.words)
		}
	}
}

// Promise: P30: a node that is not ready yet ends if another one that lives has its name, and says which. A client hears
// of another client from the core.
func TestANameThatIsTaken(t *testing.T) {
	rival := env.Member{ID: nodeB + 100, Name: "a", Addr: "elsewhere:1"}
	for _, tt := range []struct {
		name   string
		roster []uint64
		from   env.Member // who says so
		says   members.Report
	}{
		{"a node of the core, and a client", []uint64{nodeA}, rival, members.Report{}},
		{"two clients", nil, benchB, members.Report{Rival: members.Rival{Node: uint64(rival.ID), Addr: rival.Addr, Lives: true}}},
	} {
		b := newBench(t, Config{}, tt.roster...)
		b.node.status = starting
		b.node.membership.start()
		b.run()
		b.play = func(parcel) {}
		b.node.Up(b.helloOf(tt.from))
		for range 30 {
			b.pass(time.Second)
			b.node.Receive(tt.from.ID, transport.KindControl, append([]byte{ctlStatus}, wire.Marshal(tt.says)...))
		}
		if err := b.node.Err(); !errors.Is(err, fault.ErrNameTaken) || !strings.Contains(err.Error(), `"a", by the node at elsewhere:1`) {
			t.Errorf("%s: it ends with %v", tt.name, err)
		}
	}
}

// A node gossips while it has a seat: it begins when it gets one, and stops without a word when it has none any more.
func TestWhoHasASeatGossips(t *testing.T) {
	b := newBench(t, Config{})
	b.node.membership.start()
	b.run()
	if b.news != nil || b.node.gossip != nil {
		t.Fatal("a client gossips")
	}
	b.words = nil
	b.knows(seat.State{Table: benchMesh(1, nodeA, nodeB)})
	b.run()
	if b.node.gossip == nil || !slices.Contains(b.words, "join 2") {
		t.Errorf("it has a seat, and does not gossip: %v", b.words)
	}
	b.words = nil
	b.knows(seat.State{Table: benchMesh(1, nodeB, nodeC)})
	b.run()
	if b.node.gossip != nil || !slices.Contains(b.words, "gossip closes") || slices.Contains(b.words, "gossip leaves") {
		t.Errorf("it has no seat any more, and gossips: %v", b.words)
	}
}

// A node that waits in its mesh says what for, and WaitHealthy says what is wrong when its context ends.
func TestWhatIsWaitedFor(t *testing.T) {
	b := newBench(t, Config{Shards: 2})
	b.node.status = starting
	b.node.membership.start()
	b.pass(3 * time.Second)
	if w := b.node.Waiting(); !strings.HasPrefix(w, "joined; ") {
		t.Errorf("it waits: %s", w)
	}
	healthy := func() error {
		ctx, cancel := context.WithCancel(t.Context())
		b.at(b.now+time.Second, cancel)
		return b.node.WaitHealthy(ctx)
	}
	if err := healthy(); !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), "joined; ") {
		t.Errorf("a node that starts: %v", err)
	}
	b = start(t, Config{Shards: 2})
	if err := healthy(); err != nil {
		t.Errorf("a mesh of one: %v", err)
	}
	for _, tt := range []struct {
		reports members.Report
		want    string
	}{
		{members.Report{Led: []int{0, 1}, Rest: []int{0}}, "0 shards without a leader, 1 under-replicated"},
		{members.Report{Led: []int{1}, Rest: []int{1}}, "1 shards without a leader, 0 under-replicated"},
		{members.Report{Led: []int{0, 1}, Rest: []int{0, 1}, Voters: []members.Voter{{Node: nodeB, Name: "b"}}}, "a voter is not connected"},
	} {
		b.node.membership.post(func(m *membership) { m.carryOut(m.members.Reported(m.now, tt.reports, 0, m.out)) })
		b.run()
		if err := healthy(); !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%+v: %v, want %s", tt.reports, err, tt.want)
		}
	}
}
