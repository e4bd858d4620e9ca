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

// Promise: C2: a leader is sure that it leads once a majority has confirmed that since it has its target, and not by what it heard before.
func TestSure(t *testing.T) {
	w, leader := led(t)
	target := targetOf(leader, 1, 2, 3)
	is := func(what string, want bool) {
		t.Helper()
		if leader.Sure() != want {
			t.Errorf("%s: sure: %v, want %v", what, !want, want)
		}
	}
	target.Move, target.Moving = 1, true
	leader.SetTarget(target)
	is("a target", false)
	w.run(t, 2*HeartbeatTicks)
	is("and some time", true)
	leader.SetTarget(target)
	is("the same target", true)

	w.cut[2], w.cut[3] = true, true
	leader.leading.reads.sign = true
	w.run(t, 1) // a round begins that nobody answers
	target.Move = 3
	leader.SetTarget(target)
	is("another change", false)
	w.run(t, HeartbeatTicks)
	is("while nobody answers", false)
	clear(w.cut)
	w.run(t, 2*HeartbeatTicks+int(ElectionTimeout/TickInterval))
	is("when all answer", true)
	if w.replicas[1].Sure() {
		t.Error("a follower is sure that it leads")
	}
}
