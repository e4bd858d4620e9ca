package node

import (
	"log/slog"
	"reflect"
	"testing"
	"time"

	"github.com/lockmesh/mesh/internal/client"
	"github.com/lockmesh/mesh/internal/hosting"
	"github.com/lockmesh/mesh/internal/members"
	"github.com/lockmesh/mesh/internal/replica"
	"github.com/lockmesh/mesh/internal/seat"
)

// Promise: G6, P30: the shard loop whose last replica is gone ticks no more, and says at once that it
// has none: what that replica knew would keep Join of its own node waiting.
func TestTheLastReplicaIsReportedGone(t *testing.T) {
	n := &Node{id: 9}
	n.membership = &membership{node: n}
	self := replica.Peer{Node: 9, Name: "a", Addr: "a:1"}
	r := replica.New(replica.Config{
		ID: 1, Self: self, Founders: []replica.Peer{self},
		Rho: 0.01, Logger: slog.New(slog.DiscardHandler), Counters: &replica.Counters{},
	}, time.Second)
	r.Wake(time.Second)
	r.Ready(time.Second, &replica.Output{})
	l := &shardLoop{node: n, replicas: []*replica.Replica{r}, core: coreSide{table: benchMesh(1, nodeA), hosting: hosting.New(9), seat: seat.New(seat.Config{})}}
	if l.report(); len(l.reported.Led) != 1 {
		t.Fatalf("the report of one that leads is %+v", l.reported)
	}
	if l.drop(r); len(l.reported.Led) > 0 {
		t.Errorf("the report without it is %+v", l.reported)
	}
}

// Promise: P15: the shard loop reports what it leads, and what it follows, and the voters of both.
func TestWhatTheShardLoopReports(t *testing.T) {
	leader := newLeader(t, Config{})
	leader.pass(time.Second)
	all := []members.Voter{{Node: nodeA, Name: "a"}, {Node: nodeB, Name: "b"}, {Node: nodeC, Name: "c"}}
	for _, tt := range []struct {
		name  string
		bench *bench
		want  members.Report
	}{
		{"it leads", leader, members.Report{Led: []int{0}, Rest: []int{0}, Voters: all[:1]}},
		{"it follows", newFollower(t), members.Report{Follows: []int{0}, Voters: all}},
		{"it knows no leader", newBench(t, Config{}, nodeA, nodeB, nodeC), members.Report{}},
		{"it has no replica", newBench(t, Config{}), members.Report{}},
	} {
		if tt.bench.do((*shardLoop).report); !reflect.DeepEqual(tt.bench.node.shards.reported, tt.want) {
			t.Errorf("%s: %+v, want %+v", tt.name, tt.bench.node.shards.reported, tt.want)
		}
	}
}

// Stats are counters: a replica that leaves the node takes nothing of them along.
func TestStatsDoNotFall(t *testing.T) {
	b := newLeader(t, Config{Shards: 2})
	b.asks(b.node.Session(), client.Request{Key: "k"})
	b.pass(time.Second)
	before := b.node.Stats()
	if before.Entries == 0 || before.Commands != 1 {
		t.Errorf("after one command: %+v", before)
	}
	b.do(func(l *shardLoop) { l.drop(l.replica(0)) })
	b.pass(time.Second)
	if after := b.node.Stats(); after.Entries < before.Entries || after.Commands < before.Commands {
		t.Errorf("without one replica the node has %+v, and had %+v before", after, before)
	}
}
