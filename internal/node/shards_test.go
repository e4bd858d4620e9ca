package node

import (
	"reflect"
	"slices"
	"testing"
	"time"

	"go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"

	"github.com/lockmesh/mesh/internal/client"
	"github.com/lockmesh/mesh/internal/core"
	"github.com/lockmesh/mesh/internal/members"
	"github.com/lockmesh/mesh/internal/message"
	"github.com/lockmesh/mesh/internal/replica"
	"github.com/lockmesh/mesh/internal/seat"
	"github.com/lockmesh/mesh/transport"
)

// Promise: P22, P24, P32, P41: what nodes say to each other of replicas, and what comes of it.
// Method: the node has the replica with ID own, of the shard's generation, which follows b in term 2; or it
// had that and then another one, with the ID 5.
func TestWordsOfReplicas(t *testing.T) {
	const other = 99
	now, own := benchGeneration, newFollower(t).node.shards.replica(0).ID()
	follower := newFollower
	without := func(t testing.TB) *bench {
		b := newFollower(t)
		b.hears(nodeB, letter{0, &replica.Host{Generation: benchGeneration, ID: 5}})
		b.do(func(l *shardLoop) { l.drop(l.replica(0)) })
		return b
	}
	leaving := func(t testing.TB) *bench {
		b := newFollower(t)
		b.node.status = leaving
		return b
	}
	fenced := func(t testing.TB) *bench {
		b := newFollower(t)
		b.knows(seat.State{Table: b.node.shards.core.table, Fenced: true})
		return b
	}
	host := func(generation, id uint64) message.Message { return &replica.Host{Generation: generation, ID: id} }
	removed := func(generation, id, highest uint64) message.Message {
		return &replica.Removed{Generation: generation, ID: id, Highest: highest}
	}
	offer := func(term uint64) message.Message { return &replica.Offer{Term: term} }
	raft := func(generation, to uint64) message.Message {
		return &replica.Frame{Generation: generation, From: 9, To: to, Message: &raftpb.Message{
			Type: raftpb.MsgHeartbeat.Enum(), From: proto.Uint64(9), To: proto.Uint64(to), Term: proto.Uint64(2),
		}}
	}
	none := uint64(0)
	for _, tt := range []struct {
		name string
		in   func(testing.TB) *bench
		says message.Message
		id   uint64 // of the replica, in the end
		sent []string
	}{
		{"host another one, that is newer", follower, host(now, 4), 4, nil},
		{"host another one, of another generation", follower, host(other, 4), own, nil},
		{"host what there is", follower, host(now, own), own, nil},
		{"host what another founder was", follower, host(now, own+1), own, nil},
		{"host a new one", without, host(now, 6), 6, nil},
		{"host a new one, of another generation", without, host(other, 6), none, nil},
		{"host one that was here", without, host(now, 5), none, nil},
		{"host one that is older than what was here", without, host(now, 4), none, nil},
		{"host one, where replicas are fenced", fenced, host(now, 4), own, nil},
		{"host one, when it is to go soon, as the core has decided", leaving, host(now, 4), 4, nil},
		{"it is removed", follower, removed(now, own, own), none, nil},
		{"it is removed, and others came later", follower, removed(now, own, own+5), none, nil},
		{"it is removed, says one who does not know it yet", follower, removed(now, own, own-1), own, nil},
		{"another one is removed", follower, removed(now, own+1, own+5), own, nil},
		{"one of another generation is removed", follower, removed(other, own, own+5), own, nil},
		{"what there is not is removed", without, removed(now, own, own+5), none, nil},
		{"raft, for one that was here", without, raft(now, 5), none, []string{"2: no such replica"}},
		{"raft, for one that is older than what was here", without, raft(now, 4), none, []string{"2: no such replica"}},
		{"raft, for one that is to come", without, raft(now, 6), none, nil},
		{"raft, for one that was here in another generation", without, raft(other, own), none, nil},
		{"raft, where replicas are fenced", fenced, raft(now, own), own, nil},
		{"would it lead, in an earlier term", follower, offer(1), own, nil},
		{"would it lead, in a later term", follower, offer(3), own, nil},
		{"would it lead, without a replica", without, offer(2), none, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := tt.in(t)
			b.looks(benchMembers[0])
			b.take()
			b.hears(nodeB, letter{0, tt.says})
			id := none
			if r := b.node.shards.replica(0); r != nil {
				id = r.ID()
			}
			if id != tt.id {
				t.Errorf("replica %d is there, want %d", id, tt.id)
			}
			for _, p := range b.expects(tt.sent...) {
				m, frame := p.Message.(*replica.Missing), tt.says.(*replica.Frame)
				if *m != (replica.Missing{Generation: frame.Generation, ID: frame.To}) {
					t.Errorf("it says that there is no %+v", m)
				}
			}
		})
	}
	// An offer is accepted by the first of the shard's voters in the ring of entries, as long as it stays, and is
	// connected with a majority of them.
	const shards = 16
	accepted := 0
	for _, leaves := range []bool{false, true} {
		for sh := range shards {
			b := newBench(t, Config{Shards: shards}, nodeA, nodeB, nodeC)
			b.follows(sh, 2)
			b.do(func(l *shardLoop) { l.connected(nodeB) })
			b.views(leaves, benchMembers)
			b.take()
			b.hears(nodeB, letter{sh, offer(2)})
			sent := b.take()
			first := b.node.shards.core.aims[sh].Nodes[0].Node == nodeA && !leaves
			if accepts := len(sent) == 1 && sent[0].to == nodeB && reflect.DeepEqual(sent[0].Message, &replica.Accept{Term: 2}); accepts != first || !accepts && len(sent) > 0 {
				t.Errorf("shard %d, this node leaves: %t, is the first: %t; sent %+v", sh, leaves, first, sent)
			}
			if !first {
				continue
			}
			accepted++
			b.do(func(l *shardLoop) { l.disconnected(nodeB) }) // it would get one of three votes
			b.take()
			b.hears(nodeB, letter{sh, offer(2)})
			if sent := b.take(); len(sent) > 0 {
				t.Errorf("shard %d, without a majority: sent %+v", sh, sent)
			}
		}
	}
	if accepted == 0 || accepted == shards {
		t.Errorf("of %d shards the node is first in %d", shards, accepted)
	}
}

// What a replica told its leader, and it passes on to raft, reaches it.
func TestTheShardLoopFeedsItsReplicas(t *testing.T) {
	b := newFollower(t)
	r := b.node.shards.replica(0)
	heard := func() time.Duration { return r.WakeAt() }
	_ = heard
	// Without a word of the leader it campaigns within 2 E; with one it does not.
	for range 30 {
		b.pass(100 * time.Millisecond)
		b.beats(2)
	}
	if p, ok := r.Leader(); !ok || p.Node != nodeB || r.Term() != 2 {
		t.Errorf("%+v leads in term %d, though b was heard all the time", p, r.Term())
	}
	b.take()
	b.pass(2*replica.ElectionTimeout + replica.TickInterval)
	votes := 0
	for _, p := range b.take() {
		if p.words() == "prevote term 3" {
			votes++
		}
	}
	if _, ok := r.Leader(); ok || votes < 2 {
		t.Errorf("after 2 E of silence it follows still: %t; it asks for %d votes", ok, votes)
	}
}

// Promise: P19, P23: a leader's replica beats every so many ticks, and nothing runs between them.
func TestTheShardLoopSleepsBetweenTicks(t *testing.T) {
	b := newBench(t, Config{})
	l := b.loops[slices.IndexFunc(b.loops, func(l *benchLoop) bool { return l.name == "shards" })]
	if b.pass(time.Minute); l.due-b.now < time.Second-replica.TickInterval {
		t.Errorf("the shard loop with nothing to do wants to run in %v", l.due-b.now)
	}
	b = newLeader(t, Config{})
	l = b.loops[slices.IndexFunc(b.loops, func(l *benchLoop) bool { return l.name == "shards" })]
	runs, run := 0, l.run
	l.run = func(now time.Duration) time.Duration {
		runs++
		return run(now)
	}
	const ticks = 100
	b.pass(ticks * replica.TickInterval)
	if runs < ticks || runs > ticks+1 {
		t.Errorf("it runs %d times in %d ticks", runs, ticks)
	}
}

// Promise: C2, C4: a shard's life begins with a replica at each of its voters, as the core's table says. They know each
// other, and begin with the table's revision. No two draw the same numbers.
func TestFounders(t *testing.T) {
	for _, nodes := range []int{1, 2, 3} {
		b := newBench(t, Config{Shards: 4}, []uint64{nodeA, nodeB, nodeC}[:nodes]...)
		if n := len(b.node.shards.replicas); n != 4 {
			t.Fatalf("of %d founders one has %d replicas", nodes, n)
		}
		for sh := range 4 {
			r := b.node.shards.replica(sh)
			if r.Shard() != sh || r.Generation() != benchGeneration || len(r.Voters()) != nodes || len(r.Learners()) != 0 || r.Revision() != 1<<30 {
				t.Errorf("of %d: shard %d, generation %d, voters %v, learners %v, revision %d", nodes, r.Shard(), r.Generation(), r.Voters(), r.Learners(), r.Revision())
			}
			for id := range nodes {
				p, ok := r.Peer(uint64(id + 1))
				if !ok || p.Node == nodeA != (r.ID() == uint64(id+1)) || p != benchMembers[p.Node-1] {
					t.Errorf("its replica %d is at %+v", id+1, p)
				}
			}
		}
	}
	// Where it does not vote it has no replica, and without a seat it has none at all.
	m := benchMesh(2, nodeA, nodeB, nodeC)
	m.Shards[1].Voters = m.Shards[1].Voters[1:]
	b := newBench(t, Config{Shards: 2})
	if n := len(b.node.shards.replicas); n != 0 {
		t.Errorf("a client has %d replicas", n)
	}
	m.Stamp = m.Stamp.Next()
	for i := range m.Shards {
		m.Shards[i].Generation.Number++
	}
	if b.knows(seat.State{Table: m}); b.node.shards.replica(0) == nil || b.node.shards.replica(1) != nil {
		t.Errorf("it has replicas in %d shards, want one in the one in which it votes", len(b.node.shards.replicas))
	}
	// When they campaign is a matter of chance: that of another node, and of another shard.
	at := make(map[time.Duration]bool)
	for range 3 {
		b := newBench(t, Config{Shards: 8}, nodeA, nodeB, nodeC)
		b.drawn = 0
		for sh, r := range b.node.shards.replicas {
			b.follows(sh, 2)
			at[r.WakeAt()] = true
		}
	}
	if len(at) < 5 {
		t.Errorf("replicas of different shards wake at %v", at)
	}
}

// Promise: C5, P27: a new life of a shard that is to be quiet grants nothing until its quiet time is over, and the shard
// loop reports until when.
func TestANewLifeIsQuiet(t *testing.T) {
	b := newLeader(t, Config{})
	m := benchMesh(1, nodeA)
	m.Stamp = m.Stamp.Next()
	m.Shards[0].Generation.Number++
	m.Shards[0].Quiet = 10200 * time.Millisecond
	begun := b.now
	b.knows(seat.State{Table: m})
	c := b.asks(b.node.Session(), client.Request{Key: "k"})
	b.pass(time.Second)
	var quiet []members.Quiet
	if b.do(func(l *shardLoop) { quiet = l.reported.Quiet }); len(quiet) != 1 || quiet[0].Shard != 0 {
		t.Fatalf("it reports that these are quiet: %+v", quiet)
	}
	for !isOver(c) && b.now < begun+time.Minute {
		b.pass(10 * time.Millisecond)
	}
	if late := b.now - quiet[0].Until; late < 0 || late > 2*replica.TickInterval {
		t.Errorf("the first grant comes %v later than was reported", late)
	}
	if took, want := b.now-begun, 10200*time.Millisecond; took < want || took > want+2*time.Second || c.Err != nil {
		t.Errorf("the first grant comes after %v, want %v; %v", took, want, c.Err)
	}
	b.pass(time.Second)
	if b.do(func(l *shardLoop) { quiet = l.reported.Quiet }); len(quiet) > 0 {
		t.Errorf("it reports that these are quiet still: %+v", quiet)
	}
}

// What the shard loop says to itself is taken in the same run, and in its order.
func TestTheShardLoopHearsItself(t *testing.T) {
	b := newBench(t, Config{})
	b.do(func(l *shardLoop) {
		for id := range uint64(2) {
			l.say(nodeA, 0, &replica.Host{Generation: benchGeneration, ID: id + 3})
		}
	})
	if r := b.node.shards.replica(0); r == nil || r.ID() != 4 || len(b.take()) > 0 {
		t.Errorf("it hosts %+v", r)
	}
}

// Promise: P16: the words on which leases and elections depend do not wait behind lock traffic, on no part of
// their way.
func TestWhatIsUrgent(t *testing.T) {
	raft := func(kind raftpb.MessageType) message.Message {
		return &replica.Frame{Message: &raftpb.Message{Type: kind.Enum()}}
	}
	for _, tt := range []struct {
		name    string
		message message.Message
		want    bool
	}{
		{"a renewal", &message.Renewal{}, true},
		{"an answer", &message.Answer{}, true},
		{"an answer that is passed on", message.NewForward(outsider, 0, &message.Answer{}), true},
		{"a heartbeat", raft(raftpb.MsgHeartbeat), true},
		{"a vote", raft(raftpb.MsgVoteResp), true},
		{"an append", raft(raftpb.MsgApp), false},
		{"a request", &message.Request{}, false},
		{"a reply that is passed on", message.NewForward(outsider, 0, &message.Reply{}), false},
		{"a chunk", &replica.Chunk{}, false},
	} {
		if got := urgent(tt.message); got != tt.want {
			t.Errorf("%s is urgent: %t", tt.name, got)
		}
	}
}

// Promise: C13: the leaders of a node move so many shards at a time, also if all of them want to begin in one tick. The
// others follow as those come to an end.
func TestMovesAreLimited(t *testing.T) {
	const shards = 4 * maxMoves
	b := newLeader(t, Config{Shards: shards})
	l := b.node.shards
	b.pass(3 * time.Second) // all of them serve
	b.play = func(parcel) {}
	m := *l.core.table
	m.Stamp, m.Shards = m.Stamp.Next(), slices.Clone(m.Shards)
	m.Seats = append(slices.Clone(m.Seats), core.Seat{Entry: benchB.Addr, Node: benchB})
	for sh := range m.Shards {
		m.Shards[sh].Next, m.Shards[sh].Move = []transport.ID{nodeA, nodeB}, 1
	}
	b.knows(seat.State{Table: &m})
	most, begun := 0, make(map[int]bool)
	for range 200 { // 20 s
		b.pass(100 * time.Millisecond)
		moving := 0
		for _, r := range l.replicas {
			if len(r.Learners()) > 0 {
				begun[r.Shard()] = true
			}
			if r.Moving() {
				moving++
			}
		}
		most = max(most, moving)
	}
	if most != maxMoves {
		t.Errorf("%d shards move at a time, want %d", most, maxMoves)
	}
	if len(begun) < 2*maxMoves { // the first ones come to nothing, and count no more after a while
		t.Errorf("%d shards begin to move in all", len(begun))
	}
}
