package node

import (
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"

	"github.com/lockmesh/mesh/internal/client"
	"github.com/lockmesh/mesh/internal/core"
	"github.com/lockmesh/mesh/internal/env"
	"github.com/lockmesh/mesh/internal/fault"
	"github.com/lockmesh/mesh/internal/members"
	"github.com/lockmesh/mesh/internal/message"
	"github.com/lockmesh/mesh/internal/replica"
	"github.com/lockmesh/mesh/internal/seat"
	"github.com/lockmesh/mesh/shard"
	"github.com/lockmesh/mesh/transport"
)

// orders lets the node carry out what its seat wants done.
func (b *bench) orders(all ...seat.Output) {
	b.node.shards.post(func(l *shardLoop) { l.carryOutCore(all) })
}

// raft is a message of replica 2, which is at b, to replica 1.
func raft(kind raftpb.MessageType, term uint64) letter {
	return letter{0, &replica.Frame{Generation: benchGeneration, From: 2, To: 1, Message: &raftpb.Message{
		Type: kind.Enum(), From: proto.Uint64(2), To: proto.Uint64(1), Term: proto.Uint64(term), Index: proto.Uint64(9), LogTerm: proto.Uint64(term - 1),
	}}}
}

// speaks reports whether replicas of the node have sent something since the last call, and when its seat did.
func (b *bench) speaks() (before, after, seat bool) {
	for _, p := range b.take() {
		if p.control != nil {
			seat = true
		} else if is[*replica.Frame](p) {
			before, after = before || !seat, after || seat
		}
	}
	return before, after, seat
}

// Promise: C4, C7: what is fenced neither votes nor answers, from before the seat's message that tells of it leaves. That
// holds for what a replica had heard before, and for what it hears later; and it does not campaign.
func TestWhatIsFencedIsSilent(t *testing.T) {
	told := seat.Send{To: nodeB, Body: []byte("told")}
	for _, tt := range []struct {
		name   string
		fences func(b *bench) seat.Output
		silent bool
		drops  bool
	}{
		{"not fenced", func(*bench) seat.Output { return seat.Log{Text: "nothing"} }, false, false},
		{"fenced", func(b *bench) seat.Output { return seat.State{Table: b.node.shards.core.table, Fenced: true} }, true, false},
		{"cut", func(*bench) seat.Output { return seat.Cut{Generation: benchLife} }, true, true},
		{"cut up to a later generation", func(*bench) seat.Output {
			later := benchLife
			later.Number++
			return seat.Cut{Generation: later}
		}, true, true},
		{"cut in an earlier generation", func(*bench) seat.Output {
			earlier := benchLife
			earlier.Number--
			return seat.Cut{Generation: earlier}
		}, false, false},
		{"cut in another shard", func(*bench) seat.Output { return seat.Cut{Shard: 1, Generation: benchLife} }, false, false},
	} {
		for _, what := range []raftpb.MessageType{raftpb.MsgHeartbeat, raftpb.MsgVote} {
			t.Run(fmt.Sprint(tt.name, ", ", what), func(t *testing.T) {
				b := newBench(t, Config{Shards: 2}, nodeA, nodeB, nodeC)
				b.follows(0, 2)
				b.pass(2 * replica.ElectionTimeout) // until it would vote for another
				b.take()
				l := b.node.shards
				hears := raft(raftpb.MsgVote, l.replica(0).Term()+1)
				if what == raftpb.MsgHeartbeat {
					b.follows(0, l.replica(0).Term()+1)
					b.take()
					hears = raft(what, l.replica(0).Term())
				}
				b.mail(nodeB, hears)
				b.orders(tt.fences(b), told)
				b.play = func(p parcel) {
					if p.control != nil && (l.core.fenced || l.replica(0) == nil) != tt.silent {
						t.Errorf("when its seat speaks, fenced: %t, the replica: %v", l.core.fenced, l.replica(0))
					}
					b.sent = append(b.sent, p)
				}
				b.run()
				if before, after, seat := b.speaks(); before || after == tt.silent || !seat {
					t.Errorf("its replica speaks before the seat: %t, and after it: %t; the seat does: %t", before, after, seat)
				}
				if (l.replica(0) == nil) != tt.drops {
					t.Errorf("its replica: %v", l.replica(0))
				}
				if !tt.silent {
					return
				}
				b.hears(nodeB, hears)
				b.hears(nodeB, letter{0, &replica.Host{Generation: benchGeneration, ID: 9}})
				b.do(func(l *shardLoop) { l.nodeGone(nodeB) })
				b.pass(3 * replica.ElectionTimeout)
				for _, p := range b.take() {
					if f, ok := p.Message.(*replica.Frame); ok && p.shard == 0 {
						t.Errorf("later it says %+v", f)
					}
				}
				if tt.drops == (l.replica(0) != nil) {
					t.Errorf("later its replica is %v", l.replica(0))
				}
			})
		}
	}
}

// Promise: C4: a replica that is released goes on as it was, and answers what it had heard.
func TestWhatIsReleasedSpeaksAgain(t *testing.T) {
	b := newFollower(t)
	fenced := seat.State{Table: b.node.shards.core.table, Fenced: true}
	b.knows(fenced)
	b.beats(2)
	b.expects()
	fenced.Fenced = false
	b.knows(fenced)
	if before, _, _ := b.speaks(); before {
		t.Error("it answers what came while it was fenced")
	}
	b.beats(2)
	if before, _, _ := b.speaks(); !before {
		t.Error("it does not answer")
	}
}

// Promise: C4, C6: a leader that is fenced takes no request and reports nothing; who asks it hears that nobody leads.
func TestAFencedLeaderServesNobody(t *testing.T) {
	b := newLeader(t, Config{})
	b.pass(time.Second)
	l, r := b.node.shards, b.node.shards.replica(0)
	b.take()
	last := r.Last()
	b.knows(seat.State{Table: l.core.table, Fenced: true})
	for number, asks := range []letter{renews(1, true), requests(1, "k", true)} {
		b.hears(outsider, asks)
		got := sentTo[*message.Redirect](b, outsider, transport.Normal, false)
		if want := (message.Redirect{Session: 1, Number: uint64(number), Leadership: message.Leadership{Generation: benchGeneration}}); *got != want {
			t.Errorf("it says %+v, want %+v", got, want)
		}
	}
	b.hears(nodeB, letter{0, &replica.Offer{Term: r.Term()}})
	b.pass(time.Second)
	if b.expects(); r.Last() != last || !l.reported.Equal(members.Report{}) {
		t.Errorf("its log ends at %d, and did at %d; it reports %+v", r.Last(), last, l.reported)
	}
	if all := b.node.Replicas(); len(all) != 1 || all[0].Serving {
		t.Errorf("replicas: %+v", all)
	}
	b.knows(seat.State{Table: l.core.table})
	b.hears(outsider, requests(1, "k", false))
	b.pass(time.Second)
	if got := sentTo[*message.Reply](b, outsider, transport.Normal, false); got.What != shard.Granted || len(l.reported.Led) != 1 {
		t.Errorf("it says %+v, and reports %+v", got, l.reported)
	}
}

// Promise: C6: after a stall nothing is answered before a dial has shown that the node's entry is its own still, not even
// what had come during the stall; if it is another's, the node ends.
func TestAStall(t *testing.T) {
	for _, own := range []bool{true, false} {
		b := start(t, Config{})
		l := b.node.shards
		b.apart = true
		b.pass(time.Second) // a dial that began before the stall
		b.take()
		asks := requests(1, "k", false)
		asks.Message.(*message.Request).Generation = l.replica(0).Generation()
		b.mail(outsider, asks)
		b.now += 3 * time.Second
		b.pass(time.Second)
		for _, p := range b.take() {
			if is[*message.Reply](p) {
				t.Errorf("fenced, it says %+v", p.Message)
			}
		}
		if !l.core.fenced {
			t.Error("after a stall it is not fenced")
		}
		b.apart = false
		if own {
			b.node.Dialed("a:1", transport.Hello{ID: transport.ID(b.node.id)}, transport.ErrSelf) // the next one counts
		} else {
			b.node.Dialed("a:1", transport.Hello{ID: nodeB, Name: "b", Addr: "a:1"}, nil)
		}
		b.pass(time.Second)
		replies := 0
		for _, p := range b.take() {
			if is[*message.Reply](p) {
				replies++
			}
		}
		if own && (replies == 0 || b.node.Err() != nil) {
			t.Errorf("with its entry it gives %d replies; %v", replies, b.node.Err())
		}
		if !own && (replies > 0 || !errors.Is(b.node.Err(), fault.ErrEntryTaken) || !errors.Is(b.node.Err(), fault.ErrEjected)) {
			t.Errorf("without its entry it gives %d replies; %v", replies, b.node.Err())
		}
	}
}

// Promise: C8, C10: a node goes over to a mesh that was founded anew with the same parameters: it introduces itself as
// one of that, its replicas are of that alone, and it takes and sends that one's frames. Its holds live on.
func TestGoingOverToAnotherMesh(t *testing.T) {
	b := newLeader(t, Config{})
	h, _, err := b.node.Session().Acquire(t.Context(), client.Request{Key: "k"})
	if err != nil {
		t.Fatal(err)
	}
	old := b.node.shards.replica(0)
	m := benchMesh(1, nodeA, nodeB)
	m.Mesh, m.Stamp.Roll.Round = 78, 2
	m.Shards[0].Generation.Core.Round = 2
	b.knows(seat.State{Table: m})
	r := b.node.shards.replica(0)
	if b.node.Mesh() != 78 || b.says.MeshID != 78 || b.node.Err() != nil || h.Err() != nil {
		t.Errorf("it is in mesh %d, and says %d; it ended: %v; the hold: %v", b.node.Mesh(), b.says.MeshID, b.node.Err(), h.Err())
	}
	if r == old || r.Generation() != m.Shards[0].Generation.Name() || len(r.Voters()) != 2 {
		t.Errorf("its replica is of generation %d, with voters %v", r.Generation(), r.Voters())
	}
	b.pass(3 * replica.ElectionTimeout)
	if len(b.take()) == 0 || b.of != 78 {
		t.Errorf("its frames name mesh %d", b.of)
	}
	serves := message.Append(message.AppendHeader(nil, 77), 0, serves(1).Message)
	b.node.Receive(nodeB, transport.KindShard, serves)
	if in, _ := b.node.shards.box.drain(nil); len(in) > 0 || slices.Contains(b.words, "disconnect 2") {
		t.Errorf("a frame of the mesh before is taken: %t; %v", len(in) > 0, b.words)
	}
}

// Promise: C10: a node whose mesh gave way to one that was founded before goes over, and loses its holds: both meshes had
// granted. It keeps them where it goes over to a later one, or in its own.
func TestHoldsOfTheLaterMeshAreLost(t *testing.T) {
	for _, tt := range []struct {
		name    string
		founded uint64
		mesh    uint64
		lost    bool
	}{
		{"to an earlier one", 4, 78, true},
		{"to one that was founded by a clock that is behind", 4, 78, false},
		{"to a later one", 6, 78, false},
		{"its own goes on", 4, 77, false},
	} {
		b := newLeader(t, Config{})
		before := *b.node.shards.core.table
		before.Founded, before.Stamp = 5, before.Stamp.Next()
		b.knows(seat.State{Table: &before})
		h, _, err := b.node.Session().Acquire(t.Context(), client.Request{Key: "k"})
		if err != nil {
			t.Fatal(err)
		}
		m := benchMesh(1, nodeA, nodeB)
		m.Mesh, m.Founded, m.Stamp.Roll.Round = tt.mesh, tt.founded, 9
		m.Shards[0].Generation.Core.Round = 9
		b.knows(seat.State{Table: m, Void: tt.lost})
		if b.node.Mesh() != tt.mesh || b.node.Err() != nil || (h.Err() != nil) != tt.lost || tt.lost && h.Err() != fault.ErrLost {
			t.Errorf("%s: it is in mesh %d, %v; the hold: %v", tt.name, b.node.Mesh(), b.node.Err(), h.Err())
		}
		m = benchMesh(1, nodeA, nodeB) // later changes are none of meshes
		m.Mesh, m.Founded, m.Stamp.Roll.Round = tt.mesh, tt.founded, 10
		m.Shards[0].Generation.Core.Round = 10
		if b.knows(seat.State{Table: m}); !tt.lost && h.Err() != nil {
			t.Errorf("%s: then the hold: %v", tt.name, h.Err())
		}
	}
}

// What the seat tells a mesh that is to give way is what the replicas here have applied.
func TestWhatReplicasHaveApplied(t *testing.T) {
	b := newLeader(t, Config{})
	b.pass(time.Second)
	l := b.node.shards
	before := l.applied(0)
	if l.applied(1) != 0 || before == 0 {
		t.Errorf("applied: %d, and %d of a shard that is not here", before, l.applied(1))
	}
	b.do(func(l *shardLoop) { l.replica(0).Raise(1 << 51) })
	b.pass(2 * time.Second)
	if got := l.applied(0); got <= 1<<51 {
		t.Errorf("it is at %d", got)
	}
}

// Promise: a mesh that was founded anew with other parameters ends the node: it could not serve its keys.
func TestAnotherMeshWithOtherParameters(t *testing.T) {
	b := start(t, Config{})
	m := *b.node.shards.core.table
	before := m.Mesh
	m.Mesh++
	m.Params.Shards = 2
	m.Shards = append(slices.Clone(m.Shards), m.Shards[0])
	b.orders(seat.State{Table: &m}, seat.State{Table: &m}, seat.Send{To: nodeB})
	b.play = func(parcel) {
		if l := b.node.shards; !l.core.fenced || l.core.table.Mesh != before {
			t.Errorf("fenced: %t, of mesh %d", l.core.fenced, l.core.table.Mesh)
		}
	}
	b.run()
	if err := b.node.Err(); !errors.Is(err, fault.ErrEjected) || !errors.Is(err, fault.ErrForeignMesh) {
		t.Errorf("it ends with %v", err)
	}
	if n := strings.Count(b.log.String(), "the node has ended"); n != 1 {
		t.Errorf("that is logged %d times:\n%s", n, b.log.String())
	}
}

// Promise: a seat that fails ends the node: while it starts, and later.
func TestAFailedSeatEndsTheNode(t *testing.T) {
	cause := errors.New("no way")
	b := start(t, Config{})
	h, _, err := b.node.Session().Acquire(t.Context(), client.Request{Key: "k"})
	if err != nil {
		t.Fatal(err)
	}
	b.take()
	b.orders(seat.Failed{Err: cause})
	b.mail(outsider, requests(1, "k", false))
	if b.run(); !errors.Is(b.node.Err(), fault.ErrEjected) || !errors.Is(b.node.Err(), cause) || h.Err() != fault.ErrLost {
		t.Errorf("it ends with %v, and its hold with %v", b.node.Err(), h.Err())
	}
	for _, p := range b.take() {
		if is[*message.Reply](p) {
			t.Errorf("then it says %+v", p.Message)
		}
	}
	b = &bench{tb: t}
	_, err = ready(t.Context(), Config{Env: b, Name: "a", Shards: 1, Logger: slog.New(slog.DiscardHandler)})
	if !errors.Is(err, fault.ErrInvalidOption) || errors.Is(err, fault.ErrEjected) || !strings.HasPrefix(err.Error(), "mesh: join: ") {
		t.Errorf("one entry off loopback: %v", err)
	}
}

// Promise: C7, C10: what the node tells as the highest revision of a shard is from its replica or its client, whichever
// has heard of more.
func TestKnown(t *testing.T) {
	known := func(b *bench) (revision uint64) {
		b.do(func(l *shardLoop) { revision = l.known(0) })
		return revision
	}
	if got := (&shardLoop{}).known(0); got != 0 {
		t.Errorf("before there is a mesh: %d", got)
	}
	b := newBench(t, Config{})
	b.holds(b.node.Session(), client.Request{Key: "k"}, 7)
	if got := known(b); got != 7 {
		t.Errorf("a client: %d", got)
	}
	b = newFollower(t)
	if got := known(b); got != 1<<30 {
		t.Errorf("a replica: %d", got)
	}
	m := serves(3)
	b.hears(nodeB, m)
	c := b.asks(b.node.Session(), client.Request{Key: "k"})
	lock := b.take()
	reply := grant(lock[len(lock)-1], 1<<31)
	reply.Message.(*message.Reply).Term = 3
	if b.hears(nodeB, reply); !isOver(c) || known(b) != 1<<31 {
		t.Errorf("a client that has heard more than the replica: %d", known(b))
	}
}

// Promise: P17, C7: a quiet table goes on above the revisions that the node has heard of since its generation began.
func TestAQuietTableHearsOfRevisions(t *testing.T) {
	b := start(t, Config{})
	m := *b.node.shards.core.table
	m.Stamp, m.Shards = m.Stamp.Next(), slices.Clone(m.Shards)
	m.Shards[0].Generation.Number++
	m.Shards[0].Quiet = 5 * time.Second
	b.knows(seat.State{Table: &m})
	told := &message.Reply{Revision: 1 << 51, Leadership: message.Leadership{Generation: m.Shards[0].Generation.Name()}}
	b.do(func(l *shardLoop) { l.step(client.Received{From: nodeB, Message: told}) })
	b.pass(10 * time.Second)
	if r := b.node.shards.replica(0); r.Table().Settles() != 0 || r.Revision() <= 1<<51 {
		t.Errorf("it goes on at %d", r.Revision())
	}
}

// viewOf is the view of the node when it leaves, or stays, and those others leave.
func viewOf(leaving bool, leaves ...transport.ID) (v *members.View) {
	m := members.New(members.Config{Self: env.Member{ID: nodeA, Name: "a", Addr: "a:1"}, Logger: slog.New(slog.DiscardHandler)})
	m.Joined(0, members.Mesh{ID: 77, Shards: 1}, []env.Member{benchB, benchC}, nil)
	for _, id := range leaves {
		m.Leaves(0, id, nil)
	}
	if leaving {
		m.Leave(0, nil)
	}
	for _, o := range m.Tick(0, nil) {
		if d, ok := o.(members.Drawn); ok {
			v = d.View
		}
	}
	return v
}

// Promise: P32, C3: a node that leaves waits for as many replicas as others are to take over: all of them if two others
// stay; else those that it leads, if another voter can lead.
func TestWanted(t *testing.T) {
	const b, c = transport.ID(nodeB), transport.ID(nodeC)
	leave := func(leaves ...transport.ID) *members.View { return viewOf(true, leaves...) }
	for _, tt := range []struct {
		name     string
		leads    bool
		seats    []env.Member // beside its own
		voters   []transport.ID
		up       []transport.ID
		view     *members.View
		want     int
		without  bool // it has no replica
		unseated bool
		fenced   bool
	}{
		{name: "its view is under way", seats: []env.Member{benchB, benchC}, up: []transport.ID{b, c}, view: viewOf(false), want: 1},
		{name: "two others are there", seats: []env.Member{benchB, benchC}, up: []transport.ID{b, c}, view: leave(), want: 2},
		{name: "it leads, and two others are there", leads: true, seats: []env.Member{benchB, benchC}, up: []transport.ID{b, c}, view: leave(), want: 2},
		{name: "it has no replica any more", without: true, seats: []env.Member{benchB, benchC}, up: []transport.ID{b, c}, view: leave()},
		{name: "it is fenced", fenced: true, seats: []env.Member{benchB, benchC}, up: []transport.ID{b, c}, view: leave()},
		{name: "one of two others is not connected", seats: []env.Member{benchB, benchC}, up: []transport.ID{b}, view: leave()},
		{name: "one of two others leaves, too", seats: []env.Member{benchB, benchC}, up: []transport.ID{b, c}, view: leave(c)},
		{
			name: "it leads, and of two voters one leaves, too", leads: true,
			seats: []env.Member{benchB, benchC}, voters: []transport.ID{nodeA, b, c}, up: []transport.ID{b, c}, view: leave(c), want: 2,
		},
		{
			name: "it leads, and the only other voter leaves, too", leads: true,
			seats: []env.Member{benchB, benchC}, voters: []transport.ID{nodeA, c}, up: []transport.ID{b, c}, view: leave(c),
		},
		{name: "it leads, of a mesh of two", leads: true, seats: []env.Member{benchB}, voters: []transport.ID{nodeA, b}, up: []transport.ID{b}, view: leave(), want: 2},
		{name: "it follows, in a mesh of two", seats: []env.Member{benchB}, voters: []transport.ID{nodeA, b}, up: []transport.ID{b}, view: leave()},
		{name: "it leads, of a mesh of two, alone", leads: true, seats: []env.Member{benchB}, voters: []transport.ID{nodeA, b}, view: leave()},
		{name: "its seat is another's, of a mesh of one", unseated: true, seats: []env.Member{benchB}, up: []transport.ID{b}, view: leave(), want: 2},
		{name: "a mesh of one", leads: true, view: leave()},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := newBench(t, Config{Shards: 2}, nodeA, nodeB, nodeC)
			if tt.leads {
				b = newLeader(t, Config{Shards: 2})
				b.pass(time.Second)
			}
			m := *b.node.shards.core.table
			m.Seats, m.Shards = slices.Clone(m.Seats[:1]), slices.Clone(m.Shards)
			if tt.unseated {
				m.Seats = nil
			}
			for _, o := range tt.seats {
				m.Seats = append(m.Seats, core.Seat{Entry: o.Addr, Node: o})
			}
			for sh := range m.Shards {
				if tt.voters != nil {
					m.Shards[sh].Voters = tt.voters
				}
			}
			wanted := -1
			b.node.shards.post(func(l *shardLoop) { // in one turn: without a fellow that answers nobody leads for long
				m.Stamp = m.Stamp.Next()
				l.know(seat.State{Table: &m, Fenced: tt.fenced})
				for _, id := range tt.up {
					l.connected(id)
				}
				if tt.without {
					l.replicas = nil
				}
				l.look(tt.view)
				wanted = l.wanted()
			})
			if b.run(); wanted != tt.want {
				t.Errorf("wanted: %d, want %d", wanted, tt.want)
			}
		})
	}
}

// Promise: P32: a node that leaves says that shards wait for its return if it votes in them, others stay, and too few of
// those have a seat.
func TestNeeded(t *testing.T) {
	const b, c = transport.ID(nodeB), transport.ID(nodeC)
	for _, tt := range []struct {
		name  string
		seats []env.Member // beside its own
		up    []transport.ID
		view  *members.View
		want  int
	}{
		{"two others are there", []env.Member{benchB, benchC}, []transport.ID{b, c}, viewOf(true), 0},
		{"one of two others is not connected", []env.Member{benchB, benchC}, []transport.ID{b}, viewOf(true), 2},
		{"one of two others leaves, too", []env.Member{benchB, benchC}, []transport.ID{b, c}, viewOf(true, c), 2},
		{"all leave", []env.Member{benchB, benchC}, []transport.ID{b, c}, viewOf(true, b, c), 0},
		{"a client stays", nil, []transport.ID{c}, viewOf(true), 2},
	} {
		b := newBench(t, Config{Shards: 2}, nodeA, nodeB, nodeC)
		m := *b.node.shards.core.table
		m.Stamp, m.Seats = m.Stamp.Next(), slices.Clone(m.Seats[:1])
		for _, o := range tt.seats {
			m.Seats = append(m.Seats, core.Seat{Entry: o.Addr, Node: o})
		}
		b.do(func(l *shardLoop) {
			l.know(seat.State{Table: &m})
			for _, id := range tt.up {
				l.connected(id)
			}
			l.look(tt.view)
			if got := l.needed(); got != tt.want {
				t.Errorf("%s: %d shards need it, want %d", tt.name, got, tt.want)
			}
		})
	}
}

// A connection that has ended does not count any more.
func TestWhoIsConnected(t *testing.T) {
	b := newBench(t, Config{}, nodeA, nodeB, nodeC)
	for _, o := range []env.Member{benchB, benchC} {
		b.node.Up(b.helloOf(o))
	}
	b.run()
	if l := b.node.shards; !l.dispensable() {
		t.Errorf("with %v it is not dispensable", l.core.up)
	}
	b.node.Down(nodeC, transport.Lost)
	b.run()
	if l := b.node.shards; l.dispensable() || !maps.Equal(l.core.up, map[uint64]bool{nodeB: true}) {
		t.Errorf("with %v it is dispensable", l.core.up)
	}
}

// Promise: P32: a shard's replicas are to be where the core says; leadership is to go from a node that leaves, and not to
// others that do.
func TestWhereReplicasAreToBe(t *testing.T) {
	for _, tt := range []struct {
		name   string
		view   *members.View
		yields bool
		leave  []uint64 // sorted
	}{
		{"all stay", viewOf(false), false, nil},
		{"this node leaves", viewOf(true), true, []uint64{nodeA}},
		{"another one leaves", viewOf(false, nodeB), false, []uint64{nodeB}},
		{"both leave", viewOf(true, nodeB), true, []uint64{nodeA, nodeB}},
		{"all leave", viewOf(true, nodeB, nodeC), false, []uint64{nodeA, nodeB, nodeC}},
		{"all stay after all", viewOf(false), false, nil},
	} {
		b := newBench(t, Config{}, nodeA, nodeB, nodeC)
		b.do(func(l *shardLoop) {
			l.look(viewOf(true, nodeB, nodeC)) // leaves no trace
			l.look(tt.view)
			got, ok := l.aim(0)
			slices.Sort(got.Leave)
			if !ok || got.Yields != tt.yields || !slices.Equal(got.Leave, tt.leave) || len(got.Nodes) != 3 || !slices.Equal(got.From, []uint64{nodeA, nodeB, nodeC}) {
				t.Errorf("%s: %+v, want %v, %v", tt.name, got, tt.yields, tt.leave)
			}
			for _, node := range []uint64{nodeA, nodeB, nodeC} {
				if l.leaves(node) != slices.Contains(tt.leave, node) {
					t.Errorf("%s: node %d leaves: %t", tt.name, node, l.leaves(node))
				}
			}
			if _, ok := l.aim(1); ok {
				t.Error("there is an aim for a shard that is not")
			}
		})
	}
}

// Promise: P32: a leader that leaves changes voters itself if none of those that vote on could lead: one that is to get a
// vote cannot lead yet.
func TestALeaverWithoutAnHeir(t *testing.T) {
	for _, tt := range []struct {
		name   string
		leaves []transport.ID
		want   bool // it yields
	}{
		{"another one votes on", []transport.ID{nodeC}, true},
		{"the other one that votes on leaves as well", []transport.ID{nodeB}, false},
	} {
		b := newBench(t, Config{}, nodeA, nodeB, nodeC)
		m := *b.node.shards.core.table
		m.Stamp, m.Shards = m.Stamp.Next(), slices.Clone(m.Shards)
		s := &m.Shards[0]
		s.Voters, s.Next, s.Move = []transport.ID{nodeA, nodeB}, []transport.ID{nodeA, nodeB, nodeC}, 1
		b.knows(seat.State{Table: &m})
		b.do(func(l *shardLoop) {
			l.look(viewOf(true, tt.leaves...))
			if got, _ := l.aim(0); got.Yields != tt.want || len(got.Nodes) != 3 {
				t.Errorf("%s: %+v, want %v", tt.name, got, tt.want)
			}
		})
	}
}

// A replica hears where its shard's are to be: when that changes, and when the view does.
func TestReplicasHearWhereTheyAreToBe(t *testing.T) {
	for what, then := range map[string]func(b *bench){
		"the node leaves": func(b *bench) { b.do(func(l *shardLoop) { l.look(viewOf(true)) }) },
		"the core moves the shard": func(b *bench) {
			m := *b.node.shards.core.table
			m.Stamp, m.Shards = m.Stamp.Next(), slices.Clone(m.Shards)
			m.Shards[0].Next, m.Shards[0].Move = []transport.ID{nodeB}, 1
			b.knows(seat.State{Table: &m})
		},
	} {
		b := newLeader(t, Config{})
		b.seats(false, benchB)
		r := b.node.shards.replica(0)
		if b.pass(3 * time.Second); !r.AtRest() {
			t.Fatal("it is not at rest")
		}
		if then(b); r.AtRest() {
			t.Errorf("%s: its replica rests", what)
		}
	}
}

// Promise: C7: a shard that has had a replica and no leader for long begins a new generation, without a word from outside.
func TestAShardWithoutALeaderBeginsAnew(t *testing.T) {
	b := start(t, Config{})
	l := b.node.shards
	life := l.core.table.Shards[0].Generation
	for id := range uint64(12) {
		b.do(func(l *shardLoop) { l.host(0, life.Name(), 9+id) }) // it learns from nobody, and gives up
		b.pass(5 * time.Second)
	}
	now := l.core.table.Shards[0].Generation
	if r := l.replica(0); now == life || r == nil || r.Generation() != now.Name() || !r.Serving() {
		t.Errorf("the shard lives in %+v, and did in %+v; its replica: %+v", now, life, r)
	}
}

// Who has a seat is a member, also if gossip has not told of it.
func TestWhoHasASeatIsAMember(t *testing.T) {
	b := start(t, Config{})
	b.play = func(parcel) {}
	b.seats(false, benchB)
	b.pass(time.Second)
	if all := b.node.Members(); len(all) != 2 || all[1].Member != benchB || !slices.Contains(b.words, "join 2") {
		t.Errorf("members: %+v; %v", all, b.words)
	}
}

// Promise: Health says that a shard is fully replicated only while it has as many voters as there are entries, or
// replicas in a mesh of more.
func TestRestIsOfAsManyVotersAsThereShouldBe(t *testing.T) {
	for _, tt := range []struct {
		name  string
		seats []env.Member // beside its own
		most  int          // voters
		rests bool
	}{
		{"the only entry", nil, 3, true},
		{"of two, the other one is seated", []env.Member{benchB}, 3, false},
		{"of two, the other one is not seated", []env.Member{{Addr: "b:1"}}, 3, false},
		{"of two, where the mesh asks for one replica: two are the floor (C3)", []env.Member{benchB}, 1, false},
	} {
		b := newBench(t, Config{}, nodeA)
		m := *b.node.shards.core.table
		m.Params.Replicas = tt.most
		b.node.mesh.Store(&mesh{m.Mesh, m.Params})
		b.node.shards.core.table = &m
		b.seats(false, tt.seats...)
		b.pass(3 * time.Second)
		if r := b.node.shards.reported; !slices.Equal(r.Led, []int{0}) || slices.Equal(r.Rest, []int{0}) != tt.rests {
			t.Errorf("%s: it reports %+v", tt.name, r)
		}
	}
}

// Promise: C8: the client hears in which generation a shard lives, and asks there.
func TestTheClientHearsOfANewGeneration(t *testing.T) {
	b := newBench(t, Config{Shards: 2})
	b.asks(b.node.Session(), client.Request{Key: "k"})
	b.take()
	m := benchMesh(2, nodeB, nodeC)
	m.Stamp = m.Stamp.Next()
	m.Shards[0].Generation.Number++
	b.knows(seat.State{Table: m})
	b.pass(time.Second)
	told := false
	for _, p := range b.take() {
		if r, ok := p.Message.(*message.Request); ok {
			told = told || r.Generation == m.Shards[0].Generation.Name()
			if r.Generation == benchGeneration {
				t.Errorf("it asks in the generation before: %+v", r)
			}
		}
	}
	if !told {
		t.Error("the client asks nobody in the new generation")
	}
}

// Promise: P23: messages of the core go to the seat, and nonsense among them ends the connection.
func TestMessagesOfTheCore(t *testing.T) {
	b := newBench(t, Config{})
	for _, body := range [][]byte{{ctlCore}, {ctlCore, 0xff}} {
		b.words = nil
		b.node.Receive(nodeB, transport.KindControl, body)
		if b.run(); !slices.Contains(b.words, "disconnect 2") {
			t.Errorf("%x: %v", body, b.words)
		}
	}
}

// What a simulation shows of a node's frames has the words of the packages that they belong to.
func TestMessagesInWords(t *testing.T) {
	b := newBench(t, Config{})
	frame := message.Append(message.AppendHeader(nil, 77), 0, serves(1).Message)
	frame = message.Append(frame, 0, requests(1, "k", false).Message)
	asked := func(transport.ID, int, uint64, uint64) string { return "" }
	for _, tt := range []struct {
		kind  transport.Kind
		frame []byte
		want  []string
	}{
		{transport.KindControl, []byte{ctlStatus, 1}, []string{"status"}},
		{transport.KindControl, []byte{ctlLeaving}, []string{"leaving"}},
		{transport.KindControl, []byte{ctlQuery}, []string{"listing"}},
		{transport.KindControl, []byte{ctlPage, 1}, []string{"listing"}},
		{transport.KindControl, nil, nil}, // a garbled "leaving"
		{transport.KindControl, []byte{ctlCore, 0xff}, []string{"core: " + seat.Describe([]byte{0xff})}},
		{transport.KindShard, frame, []string{"I lead", "lock k"}},
		{transport.KindShard + 1, nil, []string{"gossip"}},
	} {
		if got := b.node.Messages(tt.kind, tt.frame, nodeB, asked); !reflect.DeepEqual(got, tt.want) {
			t.Errorf("%x: %q, want %q", tt.frame, got, tt.want)
		}
	}
	b.asks(b.node.Session(), client.Request{Key: "k"})
	p := b.take()[0]
	id, number := shard.ClientOf(p.command())
	if got := b.node.Asked(0, id.Number, number); got != "lock k" && got != "lock" {
		t.Errorf("asked for: %q", got)
	}
	if got := b.node.Asked(0, id.Number, number+1); got != "" {
		t.Errorf("asked for: %q", got)
	}
	b.node.mesh.Store(nil)
	if got := fmt.Sprint(b.node.Asked(0, id.Number, number), b.node.Messages(transport.KindShard, frame, nodeB, asked)); got != "[gossip]" {
		t.Errorf("in no mesh: %s", got)
	}
}
