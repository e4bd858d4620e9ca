package node

import (
	"reflect"
	"slices"
	"testing"
	"time"

	"go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"

	"github.com/lockmesh/mesh/internal/client"
	"github.com/lockmesh/mesh/internal/env"
	"github.com/lockmesh/mesh/internal/founding"
	"github.com/lockmesh/mesh/internal/members"
	"github.com/lockmesh/mesh/internal/message"
	"github.com/lockmesh/mesh/internal/replica"
	"github.com/lockmesh/mesh/transport"
)

// Promise: P22, P24, P32, P41: what nodes say to each other of replicas, and what comes of it.
// Method: the node has the replica with ID own, of generation 1, which follows b in term 2; or it had one,
// or its replica leads alone.
func TestWordsOfReplicas(t *testing.T) {
	own := newFollower(t).node.shards.replica(0).ID()
	follower := newFollower
	without := func(t testing.TB) *bench {
		b := newFollower(t)
		b.do(func(l *shardLoop) { l.drop(l.replica(0)) })
		return b
	}
	leaving := func(t testing.TB) *bench {
		b := newFollower(t)
		b.node.status = leaving
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
		{"host another one, that is newer", follower, host(1, own+1), own + 1, nil},
		{"host another one, of a later generation", follower, host(2, own+1), own + 1, nil},
		{"host another one, of an earlier generation", follower, host(0, own+1), own, nil},
		{"host what there is", follower, host(1, own), own, nil},
		{"host a new one", without, host(1, own+1), own + 1, nil},
		{"host one that was here", without, host(1, own), none, nil},
		{"host one that is older than what was here", without, host(2, own-1), none, nil},
		{"host one, when it is to go soon", leaving, host(1, own+1), own, nil},
		{"it is removed", follower, removed(1, own, own), none, nil},
		{"it is removed, and others came later", follower, removed(1, own, own+5), none, nil},
		{"it is removed, says one who does not know it yet", follower, removed(1, own, own-1), own, nil},
		{"another one is removed", follower, removed(1, own+1, own+5), own, nil},
		{"one of another generation is removed", follower, removed(2, own, own+5), own, nil},
		{"what there is not is removed", without, removed(1, own, own+5), none, nil},
		{"raft, for one that was here", without, raft(1, own), none, []string{"2: no such replica"}},
		{"raft, for one that was here earlier", without, raft(1, own-1), none, []string{"2: no such replica"}},
		{"raft, for one that is to come", without, raft(1, own+1), none, nil},
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
			if r := b.node.shards.replica(0); r != nil && id != own && r.Generation() != tt.says.(*replica.Host).Generation {
				t.Errorf("it is of generation %d", r.Generation())
			}
		})
	}
	// An offer is accepted by whom its own view names, as long as it stays.
	for _, tt := range []struct {
		name    string
		members []replica.Peer
		leaves  bool
		accepts bool
	}{
		{"the ring's own", benchMembers[:1], false, true},
		{"the ring's own, which leaves", benchMembers[:1], true, false},
		{"another one", benchMembers[1:2], false, false},
		{"nobody is", nil, false, false},
	} {
		b := newFollower(t)
		b.views(tt.leaves, tt.members)
		b.take()
		b.hears(nodeB, letter{0, offer(2)})
		sent := b.take()
		if accepts := len(sent) == 1 && sent[0].to == nodeB && reflect.DeepEqual(sent[0].Message, &replica.Accept{Term: 2}); accepts != tt.accepts || !accepts && len(sent) > 0 {
			t.Errorf("%s: sent %+v", tt.name, sent)
		}
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
	if b.pass(time.Minute); l.due != env.Never {
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

// Promise: P26, P30: founders' replicas: of each shard those that the ring wants, in its order; of two the second
// learns. They know each other, begin with the founding's revision, and, if an earlier mesh may have left leases,
// grant nothing for MaxTTL·(1+2ρ). No two draw the same numbers.
func TestFounders(t *testing.T) {
	for _, nodes := range []int{1, 2, 3} {
		b := newBench(t, Config{Shards: 4}, []uint64{nodeA, nodeB, nodeC}[:nodes]...)
		if n := len(b.node.shards.replicas); n != 4 {
			t.Fatalf("of %d founders one has %d replicas", nodes, n)
		}
		for sh := range 4 {
			r := b.node.shards.replica(sh)
			voters, learners := nodes-1+nodes%2, 1-nodes%2
			if r.Shard() != sh || r.Generation() != 1 || len(r.Voters()) != voters || len(r.Learners()) != learners || r.Revision() != 1<<30 {
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
	// A founder that the ring does not want somewhere has no replica there.
	v := founding.Mesh{MeshID: 77, Epoch: 3, Params: founding.Params{Shards: 64, Replicas: 1, MaxTTL: time.Minute}}
	for _, m := range benchMembers {
		v.Roster = append(v.Roster, env.Member{ID: transport.ID(m.Node), Name: m.Name, Addr: m.Addr})
	}
	b := newBench(t, Config{Shards: 64})
	b.do(func(l *shardLoop) { l.node.mesh = v; l.foundReplicas(founders(v)) })
	if n := len(b.node.shards.replicas); n < 5 || n > 50 {
		t.Errorf("of 64 shards with one replica each a founder of three has %d", n)
	}
	// When they campaign is a matter of chance: that of another node, and of another shard.
	at := make(map[time.Duration]bool)
	for range 3 {
		b := newBench(t, Config{Shards: 8}, nodeA, nodeB, nodeC)
		b.drawn = 0
		for _, r := range b.node.shards.replicas {
			at[r.WakeAt()] = true
		}
	}
	if len(at) < 5 {
		t.Errorf("replicas of different shards wake at %v", at)
	}
}

// Promise: P27: in a mesh that was founded over seeds nothing is granted for MaxTTL·(1+2ρ), and the shard loop
// reports until when.
func TestAFreshMeshGrantsNothing(t *testing.T) {
	b := newLeader(t, Config{})
	b.do(func(l *shardLoop) { l.drop(l.replica(0)) })
	v := founding.Mesh{
		MeshID: 77, Epoch: 1, Founded: 5, Grace: true, Params: founding.Params{Shards: 1, Replicas: 1, MaxTTL: 10 * time.Second, Rho: 100},
		Roster: []env.Member{{ID: nodeA, Name: "a", Addr: "a:1"}},
	}
	begun := b.now
	b.do(func(l *shardLoop) { l.node.mesh = v; l.foundReplicas(founders(v)) })
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
			l.say(nodeA, 0, &replica.Host{Generation: 1, ID: id + 1})
		}
	})
	if r := b.node.shards.replica(0); r == nil || r.ID() != 2 || len(b.take()) > 0 {
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
