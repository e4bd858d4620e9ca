package node

import (
	"log/slog"
	"testing"
	"time"

	"github.com/lockmesh/mesh/internal/bug"
	"github.com/lockmesh/mesh/internal/env"
	"github.com/lockmesh/mesh/internal/replica"
)

// Of several incarnations the one that is connected bears the name, then one that gossip
// calls alive, then the one that was heard of last; this node bears its own.
func TestWhoBearsAName(t *testing.T) {
	h := &hall{node: &Node{id: 9}, now: time.Minute}
	late := h.now - time.Millisecond
	self := &person{Member: env.Member{ID: 9}}
	connected := &person{Member: env.Member{ID: 1}, up: true}
	alive := &person{Member: env.Member{ID: 2}}
	leaving := &person{Member: env.Member{ID: 3}, up: true, leaving: true, since: late}
	silent := &person{Member: env.Member{ID: 4}, state: env.Dead, since: late}
	dead := &person{Member: env.Member{ID: 5}, state: env.Dead, since: late - grace}
	again := &person{Member: env.Member{ID: 6}, state: env.Dead, since: late - 2*grace}
	order := []*person{self, connected, alive, silent, dead, again, leaving}
	for i, p := range order {
		for j, o := range order {
			if got, want := h.prefer(p, o), i < j; got != want {
				t.Errorf("%d is preferred to %d: %t, want %t", p.ID, o.ID, got, want)
			}
		}
	}
	h.leaving = true
	if h.prefer(self, connected) {
		t.Error("a node that leaves bears its name longer than its next incarnation")
	}
}

// Promise: G6, P30: a lane whose last replica is gone ticks no more, and says at once that it
// has none: what that replica knew would keep Join of its own node waiting.
func TestTheLastReplicaIsReportedGone(t *testing.T) {
	for bugs, want := range map[bug.Set]int{{}: 0, bug.Of(bug.LastReplicaReported): 1} {
		n := &Node{id: 9, bugs: bugs}
		n.hall = &hall{node: n}
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
