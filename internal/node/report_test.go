package node

import (
	"log/slog"
	"testing"
	"time"

	"github.com/lockmesh/mesh/internal/bug"
	"github.com/lockmesh/mesh/internal/replica"
)

// Promise: G6, P30: a lane whose last replica is gone ticks no more, and says at once that it
// has none: what that replica knew would keep Join of its own node waiting.
func TestTheLastReplicaIsReportedGone(t *testing.T) {
	for bugs, want := range map[bug.Set]int{{}: 0, bug.Of(bug.LastReplicaReported): 1} {
		n := &Node{id: 9, bugs: bugs}
		n.membership = &membership{node: n}
		self := replica.Peer{Node: 9, Name: "a", Addr: "a:1"}
		r := replica.New(replica.Config{
			ID: 1, Self: self, Founders: []uint64{1}, Peers: map[uint64]replica.Peer{1: self},
			Rho: 0.01, Logger: slog.New(slog.DiscardHandler),
		}, time.Second)
		r.Wake(time.Second)
		r.Ready(time.Second, &replica.Output{})
		l := &lane{node: n, replicas: []*replica.Replica{r}}
		if l.observe(); len(l.reported.Led) != 1 {
			t.Fatalf("the report of one that leads is %+v", l.reported)
		}
		if l.drop(r); len(l.reported.Led) != want {
			t.Errorf("with %v the report without it is %+v", bugs.Names(), l.reported)
		}
	}
}
