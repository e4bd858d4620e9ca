package replica

import (
	"fmt"
	"slices"
	"testing"
)

// peersOf returns where these replicas live.
func peersOf(replicas ...uint64) (all []Peer) {
	for _, id := range replicas {
		all = append(all, Peer{Node: 100 + id, Name: fmt.Sprint("n", id), Addr: fmt.Sprint("n", id, ":1")})
	}
	return all
}

// targetOf returns the target of a shard that is to have these voters, the first one leading, in the place of
// those that it has as far as r knows.
func targetOf(r *Replica, replicas ...uint64) Target {
	t := Target{Nodes: peersOf(replicas...), From: r.members.nodes(r.members.conf.Voters)}
	slices.Sort(t.From)
	return t
}

// All founders vote, also an even number of them.
func TestFoundersVote(t *testing.T) {
	for n := 1; n <= 4; n++ {
		cfg := Config{ID: 1, Founders: make([]Peer, n)}
		if m := newMembers(&cfg); len(m.conf.Voters) != n || len(m.conf.Learners) != 0 {
			t.Errorf("%d founders: %+v", n, m.conf)
		}
	}
}

// Promise: C2: voters change only from those that the target's author knows, so that a leader with an old table
// does not take back a change that the core has logged.
func TestTargetsFromOtherVoters(t *testing.T) {
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
		leader.SetTarget(Target{Nodes: peersOf(1, 2), From: tt.from})
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
