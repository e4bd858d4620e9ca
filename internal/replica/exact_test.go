package replica

import (
	"slices"
	"testing"

	"github.com/lockmesh/mesh/internal/placement"
)

// exact is the target of all of these replicas, of a shard whose voters are said to be on the nodes from.
func (w *trio) exact(from []uint64, replicas ...int) Target {
	t := Target{Exact: true, From: from, Liveness: make(map[uint64]placement.Liveness), Unknown: placement.Departed}
	for _, i := range replicas {
		p := w.replicas[i].cfg.Self
		t.Nodes, t.Liveness[p.Node] = append(t.Nodes, p), placement.Present
	}
	return t
}

// An even number of founders votes, if the voters are exact.
func TestExactFounders(t *testing.T) {
	for n := 1; n <= 4; n++ {
		cfg := Config{ID: 1, Founders: make([]Peer, n), Exact: true}
		if m := newMembers(&cfg); len(m.conf.Voters) != n || len(m.conf.Learners) != 0 {
			t.Errorf("%d founders: %+v", n, m.conf)
		}
	}
}

// Promise: C2: voters change only from those that the target's author knows, so that a leader with an old table
// does not take back a change that the core has logged.
func TestExactTargetsFromOtherVoters(t *testing.T) {
	for _, tt := range []struct {
		name string
		from []uint64
		want []uint64
	}{
		{"from its voters", []uint64{101, 102, 103}, []uint64{1, 2}},
		{"from others", []uint64{101, 102, 104}, []uint64{1, 2, 3}},
	} {
		w, leader := led(t)
		w.run(t, 2*HeartbeatTicks)
		leader.SetTarget(w.exact(tt.from, 0, 1))
		w.run(t, 8*placeEvery)
		if got := leader.Voters(); !slices.Equal(got, tt.want) || leader.Joint() {
			t.Errorf("%s: voters %v, want %v", tt.name, got, tt.want)
		}
	}
}

// Promise: C3: a voter that a leader has not heard yet is silent only once that leader has served for so long.
func TestSilentVoters(t *testing.T) {
	w := newTrio()
	w.cut[3] = true
	w.run(t, 3)
	leader := w.replicas[0]
	if got := leader.Silent(ElectionTimeout); !leader.Serving() || len(got) > 0 {
		t.Errorf("at first: %v, it serves: %v", got, leader.Serving())
	}
	w.run(t, 2*electionTicks)
	if got, want := leader.Silent(ElectionTimeout), []uint64{103}; !leader.Serving() || !slices.Equal(got, want) {
		t.Errorf("later: %v, want %v", got, want)
	}
}
