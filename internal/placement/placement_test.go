package placement

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

// text returns an action in words.
func text(a Action) string {
	var did []string
	say := func(verb string, ids []uint64) {
		for _, id := range ids {
			did = append(did, fmt.Sprint(verb, " ", id))
		}
	}
	switch a := a.(type) {
	case AddLearner:
		return fmt.Sprint("adds a learner on ", a.Node)
	case RemoveLearner:
		return fmt.Sprint("removes ", a.ID)
	case HandOver:
		return fmt.Sprint("hands over to ", a.To)
	case ChangeVoters:
		say("promotes", a.Promote)
		say("removes", a.Remove)
	}
	return strings.Join(did, ", ")
}

// Promise: G6 and G9, C11, P19, P22, P24, P30 to P32 and P41: what a leader does to bring its shard's replicas
// where the core wants them, one step at a time.
// Method: replicas 1 to so many vote, and as many learners follow, each on the node of its number. All
// are ready and prompt, but for those that are not. Replica 1 leads.
func TestNext(t *testing.T) {
	type ids = []uint64
	tests := []struct {
		name             string
		voters, learners int
		target           ids // nodes
		goes             bool
		leave            ids // nodes
		unready          ids // replicas
		missing          ids
		doubted          ids
		failed           ids // voters that were handed leadership in vain
		dropped          ids // nodes, which count as leaving
		slow             ids // replicas in the order of their lags, the first one the shortest; beyond what is prompt
		late, limited    bool
		want             string
	}{
		{name: "all is well", voters: 3, target: ids{1, 2, 3}},
		{name: "an even number votes", voters: 4, target: ids{1, 2, 3, 4}},
		{name: "one more is to vote", voters: 3, target: ids{1, 2, 3, 4}, want: "adds a learner on 4"},
		{name: "and it follows", voters: 3, learners: 1, target: ids{1, 2, 3, 4}, want: "promotes 4"},
		{name: "and it is not ready", voters: 3, learners: 1, target: ids{1, 2, 3, 4}, unready: ids{4}},
		{name: "and it leaves", voters: 3, learners: 1, target: ids{1, 2, 3, 4}, leave: ids{4}, want: "promotes 4"},
		{name: "and enough shards move", voters: 3, target: ids{1, 2, 3, 4}, limited: true},
		{name: "a second one is to vote", voters: 1, learners: 1, target: ids{1, 2}, want: "promotes 2"},
		{name: "one fewer is to vote", voters: 3, target: ids{1, 2}, want: "removes 3"},
		{name: "another one is to vote instead", voters: 3, target: ids{1, 2, 4}, want: "adds a learner on 4"},
		{name: "and it follows", voters: 3, learners: 1, target: ids{1, 2, 4}, want: "promotes 4, removes 3"},
		{name: "two are to be replaced", voters: 3, target: ids{1, 4, 5}, want: "adds a learner on 4"},
		{name: "and one follows", voters: 3, learners: 1, target: ids{1, 4, 5}, want: "adds a learner on 5"},
		{name: "though it is not ready", voters: 3, learners: 1, target: ids{1, 4, 5}, unready: ids{4}, want: "adds a learner on 5"},
		{name: "together", voters: 3, learners: 2, target: ids{1, 4, 5}, want: "promotes 4, promotes 5, removes 2, removes 3"},
		{name: "or not at all: the first is not ready", voters: 3, learners: 2, target: ids{1, 4, 5}, unready: ids{4}},
		{name: "the second is not", voters: 3, learners: 2, target: ids{1, 4, 5}, unready: ids{5}},
		{name: "a voter's replica is missing", voters: 3, target: ids{1, 2, 3}, missing: ids{3}, want: "adds a learner on 3"},
		{name: "a learner is missing", voters: 3, learners: 1, target: ids{1, 2, 4}, missing: ids{4}, want: "adds a learner on 4"},

		{name: "a learner is not to vote", voters: 3, learners: 1, target: ids{1, 2, 3}, want: "removes 4"},
		{name: "though there is more to do", voters: 3, learners: 2, target: ids{1, 2, 5}, want: "removes 4"},
		{name: "and the leader is to go", voters: 3, learners: 1, target: ids{2, 3}, goes: true, want: "removes 4"},

		{name: "a leader that is to go hands over", voters: 3, target: ids{2, 3}, goes: true, want: "hands over to 2"},
		{name: "before it is replaced", voters: 3, learners: 1, target: ids{2, 3, 4}, goes: true, want: "hands over to 2"},
		{name: "and before others are", voters: 3, learners: 2, target: ids{2, 4, 5}, goes: true, want: "hands over to 2"},
		{name: "one that leaves, though it is to vote", voters: 3, target: ids{1, 2, 3}, goes: true, leave: ids{1}, want: "hands over to 2"},
		{name: "not to one that leaves", voters: 3, target: ids{2, 3}, goes: true, leave: ids{2}, want: "hands over to 3"},
		{name: "even if nobody else is ready", voters: 3, target: ids{2, 3}, goes: true, leave: ids{2}, unready: ids{3}},
		{name: "but if all that vote on leave", voters: 3, learners: 2, target: ids{3, 4, 5}, goes: true, leave: ids{3}, want: "hands over to 3"},
		{name: "unless the leader votes on", voters: 3, learners: 1, target: ids{1, 3, 4}, goes: true, leave: ids{1, 3}},
		{name: "nor to one that is to go as well", voters: 3, learners: 1, target: ids{3, 4}, goes: true, unready: ids{3}},
		{name: "to another one if that failed", voters: 3, learners: 1, target: ids{2, 3, 4}, goes: true, failed: ids{2}, want: "hands over to 3"},
		{name: "and changes nothing if it failed with all", voters: 3, learners: 1, target: ids{2, 3, 4}, goes: true, failed: ids{2, 3}},
		{name: "nor if nobody can take over", voters: 2, learners: 1, target: ids{2, 3}, goes: true, unready: ids{2}},
		{name: "to who is ready", voters: 4, target: ids{2, 3, 4}, goes: true, doubted: ids{2}, unready: ids{3}, want: "hands over to 4"},
		{name: "and nobody is", voters: 4, target: ids{2, 3, 4}, goes: true, doubted: ids{2, 4}, unready: ids{3}},

		{name: "another one is to lead", voters: 3, target: ids{2, 1, 3}, want: "hands over to 2"},
		{name: "and its table differs", voters: 3, target: ids{2, 1, 3}, doubted: ids{2}},
		{name: "and it is not ready", voters: 3, target: ids{2, 1, 3}, unready: ids{2}},
		{name: "and it leaves", voters: 3, target: ids{2, 1, 3}, leave: ids{2}},
		{name: "and its answers are late", voters: 3, target: ids{2, 1, 3}, slow: ids{2}},
		{name: "though another one's are later", voters: 3, target: ids{2, 1, 3}, slow: ids{2, 3}},
		{name: "and the leader is to go", voters: 3, target: ids{2, 3}, goes: true, slow: ids{2}, want: "hands over to 3"},
		{name: "and all are late: to the soonest", voters: 4, target: ids{2, 3, 4}, goes: true, slow: ids{4, 3, 2}, want: "hands over to 4"},

		{name: "a late leader hands over, though it is to lead", voters: 3, target: ids{1, 2, 3}, late: true, want: "hands over to 2"},
		{name: "to the one that answers soonest", voters: 4, target: ids{1, 2, 3, 4}, late: true, slow: ids{3, 4, 2}, want: "hands over to 3"},
		{name: "though that is not the owner", voters: 3, target: ids{2, 1, 3}, late: true, slow: ids{3, 2}, want: "hands over to 3"},
		{name: "not to one that leaves", voters: 3, target: ids{1, 2, 3}, late: true, leave: ids{2, 3}},
		{name: "before it changes the voters", voters: 3, target: ids{1, 2, 4}, late: true, want: "hands over to 2"},
		{name: "and changes them if nobody is ready", voters: 3, target: ids{1, 2, 4}, late: true, unready: ids{2}, want: "adds a learner on 4"},

		{name: "a dropped leader, to one that leaves", voters: 2, target: ids{1, 2}, goes: true, dropped: ids{1}, leave: ids{2}, want: "hands over to 2"},
		{name: "if nobody stays", voters: 3, target: ids{1, 2, 3}, goes: true, dropped: ids{1}, leave: ids{2}, slow: ids{2, 3}, want: "hands over to 3"},
		{name: "not to another dropped one", voters: 3, target: ids{1, 2, 3}, goes: true, dropped: ids{1, 2}, leave: ids{3}, want: "hands over to 3"},
		{name: "nor if there is no other", voters: 2, target: ids{1, 2}, goes: true, dropped: ids{1, 2}},
		{name: "a leaving one leads on beside it", voters: 2, target: ids{2, 1}, dropped: ids{2}, leave: ids{1}},
		{name: "of a dropped leader's heirs one is to vote on", voters: 3, learners: 2, target: ids{3, 4, 5}, goes: true, dropped: ids{1}, want: "hands over to 3"},
		{name: "but has ended: to who is not", voters: 3, learners: 2, target: ids{3, 4, 5}, goes: true, dropped: ids{1, 3}, unready: ids{3}, want: "hands over to 2"},
		{name: "unless that cannot ask the core either", voters: 3, learners: 2, target: ids{3, 4, 5}, goes: true, dropped: ids{1, 2, 3}, unready: ids{3}},
		{name: "and one that can leads on", voters: 3, learners: 2, target: ids{3, 4, 5}, goes: true, dropped: ids{3}, unready: ids{3}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := &State{
				Leader: 1, Node: 1, Goes: tt.goes, Dropped: slices.Contains(tt.dropped, 1), Late: tt.late, Target: tt.target, Limited: tt.limited,
			}
			for id := uint64(1); id <= uint64(tt.voters+tt.learners); id++ {
				is := func(ids ids) bool { return slices.Contains(ids, id) }
				r := Replica{
					ID: id, Node: id, Leaves: is(tt.leave) || is(tt.dropped), Dropped: is(tt.dropped), Missing: is(tt.missing),
					Ready: !is(tt.unready), Doubted: is(tt.doubted), Failed: is(tt.failed), Prompt: !is(tt.slow),
					Lag: time.Duration(slices.Index(tt.slow, id) + 1),
				}
				if int(id) <= tt.voters {
					s.Voters = append(s.Voters, r)
				} else {
					s.Learners = append(s.Learners, r)
				}
			}
			if a, _ := Next(s); text(a) != tt.want {
				t.Errorf("it %q, want %q", text(a), tt.want)
			}
		})
	}
}

// A node that has a voter, and a learner beside it, or had one: several replicas of one shard have lived on it.
func TestReplicasOfOneNode(t *testing.T) {
	voters := []Replica{{ID: 1, Node: 1, Ready: true}, {ID: 2, Node: 2, Ready: true}}
	for _, tt := range []struct {
		name     string
		missing  bool // the voter of node 2
		learners []Replica
		want     string
	}{
		{"a learner beside a voter is left alone", false, []Replica{{ID: 3, Node: 2, Ready: true}}, ""},
		{"a learner beside a voter is missing", false, []Replica{{ID: 3, Node: 2, Missing: true}}, "removes 3"},
		{"a missing voter is replaced there", true, []Replica{{ID: 3, Node: 2, Ready: true}}, "promotes 3, removes 2"},
		{"by the latest one", true, []Replica{{ID: 3, Node: 2, Ready: true}, {ID: 4, Node: 2, Ready: true}}, "promotes 4, removes 2"},
		{"that is not missing", true, []Replica{{ID: 3, Node: 2, Ready: true}, {ID: 4, Node: 2, Missing: true}}, "promotes 3, removes 2"},
	} {
		s := &State{Leader: 1, Node: 1, Voters: slices.Clone(voters), Learners: tt.learners, Target: []uint64{1, 2}}
		s.Voters[1].Missing = tt.missing
		if a, _ := Next(s); text(a) != tt.want {
			t.Errorf("%s: it %q, want %q", tt.name, text(a), tt.want)
		}
	}
}

// A leader need not look again soon once only a hand-over is left; else it waits for something that
// nobody tells it.
func TestSettled(t *testing.T) {
	tests := []struct {
		name   string
		change func(*State)
		want   bool
	}{
		{"all is well", func(*State) {}, true},
		{"another voter is to lead", func(s *State) { s.Target = []uint64{2, 1, 3} }, true},
		{"and cannot yet", func(s *State) { s.Target, s.Voters[1].Ready = []uint64{2, 1, 3}, false }, true},
		{"a learner is to be added", func(s *State) { s.Target = append(s.Target, 4) }, false},
		{"and cannot yet", func(s *State) { s.Target, s.Limited = append(s.Target, 4), true }, false},
		{"a learner is not wanted", func(s *State) { s.Learners = []Replica{{ID: 4, Node: 4}} }, false},
		{"a voter is not wanted", func(s *State) { s.Target = []uint64{1, 2} }, false},
		{"a voter's successor is not ready", func(s *State) {
			s.Target, s.Learners = []uint64{1, 2, 4}, []Replica{{ID: 4, Node: 4}}
		}, false},
		{"the leader is to go, and nobody can take over", func(s *State) {
			s.Goes, s.Target, s.Voters[1].Ready, s.Voters[2].Ready = true, []uint64{2, 3}, false, false
		}, false},
	}
	for _, tt := range tests {
		s := &State{Leader: 1, Node: 1, Target: []uint64{1, 2, 3}}
		for id := uint64(1); id <= 3; id++ {
			s.Voters = append(s.Voters, Replica{ID: id, Node: id, Ready: true, Prompt: true})
		}
		tt.change(s)
		if a, done := Next(s); done != tt.want {
			t.Errorf("%s: it %q, and is done: %v", tt.name, text(a), done)
		}
	}
}
