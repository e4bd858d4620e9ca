package placement

import (
	"fmt"
	"slices"
	"strings"
	"testing"
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
		say("demotes", a.Demote)
	}
	return strings.Join(did, ", ")
}

// Promise: G6 and G9, P19, P24, P30 to P33 and P41: what a leader does to bring its shard's replicas
// where the ring wants them, one step at a time.
// Method: replicas 1 to so many vote, and as many learners follow, each on the node of its number. All
// answer and are ready, but for those that are silent. Replica 1 leads.
func TestNext(t *testing.T) {
	type ids = []uint64
	type liveness = map[uint64]Liveness
	tests := []struct {
		name             string
		voters, learners int
		target, standby  ids
		liveness         liveness // of nodes that are not present
		silent           ids      // replicas that have not answered for long
		stuck            ids      // learners that are passed over
		lapsed           ids      // learners that have not followed for long
		declined         ids
		missing          ids
		doubted          ids
		failed           ids // voters that were handed leadership in vain
		limited          bool
		want             string
	}{
		{name: "all is well", voters: 3, target: ids{1, 2, 3}},
		{name: "with a learner", voters: 3, learners: 1, target: ids{1, 2, 3, 4}},
		{name: "the ring names one more", voters: 3, target: ids{1, 2, 3, 4}, want: "adds a learner on 4"},
		{name: "and another one instead", voters: 3, target: ids{1, 2, 4}, want: "adds a learner on 4"},
		{name: "the ring names one more, and enough shards move", voters: 3, target: ids{1, 2, 3, 4}, limited: true},
		{name: "the ring names two more: five vote", voters: 3, learners: 2, target: ids{1, 2, 3, 4, 5}, want: "promotes 4, promotes 5"},

		{name: "a voter has left", voters: 3, learners: 1, target: ids{1, 2, 4}, liveness: liveness{3: Departed}, want: "promotes 4, removes 3"},
		{name: "and nobody is there in its place", voters: 3, target: ids{1, 2, 4}, liveness: liveness{3: Departed}, want: "adds a learner on 4"},
		{name: "while enough shards move", voters: 3, target: ids{1, 2, 4}, liveness: liveness{3: Departed}, limited: true},
		{name: "and who has its place is silent", voters: 3, learners: 1, target: ids{1, 2, 4}, liveness: liveness{3: Departed}, silent: ids{4}},
		{name: "a voter is silent, and only the view says so", voters: 3, learners: 1, target: ids{1, 2, 4}, liveness: liveness{3: Silent}},
		{name: "a voter is silent", voters: 3, learners: 1, target: ids{1, 2, 4}, liveness: liveness{3: Silent}, silent: ids{3}, want: "promotes 4, removes 3"},
		{name: "a voter was never heard", voters: 3, learners: 1, target: ids{1, 2, 4}, liveness: liveness{3: Silent}, silent: ids{3}, want: "promotes 4, removes 3"},
		{name: "a voter is silent, for less than the grace", voters: 3, learners: 1, target: ids{1, 2, 4}, liveness: liveness{3: Suspect}, silent: ids{3}},
		{name: "a voter's replica is missing", voters: 3, target: ids{1, 2, 3}, missing: ids{3}, want: "adds a learner on 3"},
		{name: "a learner is missing, and a voter has left", voters: 3, learners: 1, target: ids{1, 2, 4}, liveness: liveness{3: Departed}, missing: ids{4}, want: "adds a learner on 4"},

		{name: "the ring's node is out of reach, and a spare one is there", voters: 3, learners: 1, target: ids{1, 2, 4}, standby: ids{5}, liveness: liveness{3: Departed}, stuck: ids{4}, want: "adds a learner on 5"},
		{name: "the spare one follows", voters: 3, learners: 2, target: ids{1, 2, 4}, standby: ids{5}, liveness: liveness{3: Departed}, stuck: ids{4}, want: "promotes 5, removes 3"},
		{name: "and is silent as well", voters: 3, learners: 2, target: ids{1, 2, 4}, standby: ids{5}, liveness: liveness{3: Departed}, stuck: ids{4}, silent: ids{5}},
		{name: "and is out of reach as well", voters: 3, learners: 2, target: ids{1, 2, 4}, standby: ids{5}, liveness: liveness{3: Departed}, stuck: ids{4, 5}},
		{name: "and there is another one", voters: 3, learners: 2, target: ids{1, 2, 4}, standby: ids{5, 6}, liveness: liveness{3: Departed}, stuck: ids{4, 5}, want: "adds a learner on 6"},
		{name: "and is thought to be silent", voters: 3, learners: 1, target: ids{1, 2, 4}, standby: ids{5}, liveness: liveness{3: Departed, 5: Suspect}, stuck: ids{4}},
		{name: "and has a vote", voters: 3, learners: 2, target: ids{1, 4, 5}, standby: ids{2}, liveness: liveness{3: Departed}, stuck: ids{4, 5}},
		{name: "but not the next", voters: 3, learners: 2, target: ids{1, 4, 5}, standby: ids{2, 6}, liveness: liveness{3: Departed}, stuck: ids{4, 5}, want: "adds a learner on 6"},
		{name: "the ring's node is within reach, and a spare one follows", voters: 3, learners: 2, target: ids{1, 2, 4}, standby: ids{5}, liveness: liveness{3: Departed}, want: "promotes 4, removes 3"},
		{name: "one of two is out of reach, and nobody is spare", voters: 3, learners: 2, target: ids{1, 4, 5}, liveness: liveness{2: Departed, 3: Departed}, stuck: ids{4}, want: "promotes 5, removes 2"},
		{name: "who left is replaced before who is silent", voters: 3, learners: 2, target: ids{1, 4, 5}, liveness: liveness{2: Silent, 3: Departed}, silent: ids{2}, stuck: ids{4}, want: "promotes 5, removes 3"},
		{name: "and so is who is missing", voters: 3, learners: 2, target: ids{1, 4, 5}, liveness: liveness{2: Silent, 3: Silent}, silent: ids{2}, missing: ids{3}, stuck: ids{4}, want: "promotes 5, removes 3"},
		{name: "of four voters two left, and one of three is within reach: then five vote", voters: 4, learners: 3, target: ids{1, 2, 5, 6, 7}, liveness: liveness{3: Departed, 4: Departed}, stuck: ids{6, 7}, want: "promotes 5"},
		{name: "or two are", voters: 4, learners: 3, target: ids{1, 2, 5, 6, 7}, liveness: liveness{3: Departed, 4: Departed}, stuck: ids{6}, want: "promotes 5, promotes 7, removes 3"},

		{name: "whose node goes soon gets no vote", voters: 3, learners: 1, target: ids{1, 2, 4}, liveness: liveness{3: Departed}, silent: ids{3}, declined: ids{4}},
		{name: "but a spare one does", voters: 3, learners: 2, target: ids{1, 2, 4}, standby: ids{5}, liveness: liveness{3: Departed}, silent: ids{3}, declined: ids{4}, want: "promotes 5, removes 3"},
		{name: "and a voter that leaves waits for it", voters: 3, learners: 1, target: ids{1, 2, 4}, liveness: liveness{3: Departed}, declined: ids{4}, want: "promotes 4, removes 3"},
		{name: "and the leader that leaves does", voters: 3, learners: 1, target: ids{2, 3, 4}, liveness: liveness{1: Departed}, doubted: ids{2, 3}, declined: ids{4}, want: "promotes 4"},
		{name: "a spare one whose node goes soon gets none either", voters: 3, learners: 2, target: ids{1, 2, 4}, standby: ids{5}, liveness: liveness{3: Departed}, silent: ids{3}, stuck: ids{4}, declined: ids{5}},

		{name: "a leader that leaves hands over", voters: 3, target: ids{2, 3}, liveness: liveness{1: Departed}, want: "hands over to 2"},
		{name: "before it is replaced", voters: 3, learners: 1, target: ids{2, 3, 4}, liveness: liveness{1: Departed}, want: "hands over to 2"},
		{name: "and before others that left are", voters: 3, learners: 2, target: ids{2, 4, 5}, liveness: liveness{1: Departed, 3: Departed}, want: "hands over to 2"},
		{name: "but replaces them itself if nobody can take over", voters: 3, learners: 2, target: ids{2, 4, 5}, liveness: liveness{1: Departed, 3: Departed}, doubted: ids{2}, want: "promotes 4, promotes 5, removes 3"},
		{name: "to another one if that failed", voters: 3, learners: 1, target: ids{2, 3, 4}, liveness: liveness{1: Departed}, failed: ids{2}, want: "hands over to 3"},
		{name: "and is replaced if it failed with all", voters: 3, learners: 1, target: ids{2, 3, 4}, liveness: liveness{1: Departed}, failed: ids{2, 3}, want: "promotes 4"},
		{name: "and only after learners that left are removed", voters: 3, learners: 1, target: ids{2, 3, 5}, liveness: liveness{1: Departed, 4: Departed}, want: "removes 4"},
		{name: "and waits for no learner that gets nowhere", voters: 3, learners: 1, target: ids{2, 3, 4}, liveness: liveness{1: Departed}, stuck: ids{4}, want: "hands over to 2"},
		{name: "and leaves silent voters to its successor", voters: 5, target: ids{2, 3, 4}, liveness: liveness{1: Departed, 5: Silent}, silent: ids{5}, want: "hands over to 2"},
		{name: "even if none can take over yet", voters: 5, target: ids{2, 3, 4}, liveness: liveness{1: Departed, 5: Silent}, silent: ids{5}, doubted: ids{2, 3, 4}},
		{name: "but not voters that left", voters: 5, target: ids{2, 3, 4}, liveness: liveness{1: Departed, 5: Departed}, doubted: ids{2, 3, 4}, want: "removes 5"},

		{name: "who is not wanted keeps its vote", voters: 5, target: ids{1, 2, 3}},
		{name: "a fourth voter has left", voters: 4, target: ids{1, 2, 3}, liveness: liveness{4: Departed}, want: "removes 4"},
		{name: "a fourth voter is silent", voters: 4, target: ids{1, 2, 3}, liveness: liveness{4: Silent}, silent: ids{4}, want: "removes 4"},
		{name: "three are left of five", voters: 5, target: ids{1, 2, 3}, liveness: liveness{4: Departed, 5: Departed}, want: "removes 4, removes 5"},
		{name: "four are left of five", voters: 5, target: ids{1, 2, 3, 4}, liveness: liveness{5: Departed}, want: "removes 5, demotes 4"},
		{name: "of four, the one that the ring names last loses its vote", voters: 5, target: ids{4, 2, 1, 3}, liveness: liveness{5: Departed}, want: "removes 5, demotes 3"},
		{name: "and the leader never does", voters: 5, target: ids{4, 2, 3, 1}, liveness: liveness{5: Departed}, want: "removes 5, demotes 3"},
		{name: "four are left of five, and one of them may be silent", voters: 5, target: ids{1, 2, 3, 4}, liveness: liveness{5: Departed, 4: Suspect}},
		{name: "four are left of five, and the fifth is silent", voters: 5, target: ids{1, 2, 3, 4}, liveness: liveness{5: Silent}, silent: ids{5}},
		{name: "two are left of three", voters: 3, target: ids{1, 2}, liveness: liveness{3: Departed}, want: "removes 3, demotes 2"},
		{name: "two are left of three, and the third is silent", voters: 3, target: ids{1, 2}, liveness: liveness{3: Silent}, silent: ids{3}},

		{name: "a learner's node left", voters: 3, learners: 1, target: ids{1, 2, 3}, liveness: liveness{4: Departed}, want: "removes 4"},
		{name: "though there is more to do", voters: 3, learners: 2, target: ids{1, 2, 5}, liveness: liveness{3: Departed, 4: Departed}, want: "removes 4"},
		{name: "and the ring names it still", voters: 3, learners: 1, target: ids{1, 2, 3, 4}, liveness: liveness{4: Departed}},
		{name: "the ring does not name a learner's node", voters: 3, learners: 1, target: ids{1, 2, 3}, want: "removes 4"},
		{name: "and it may be silent", voters: 3, learners: 1, target: ids{1, 2, 3}, liveness: liveness{4: Suspect}},
		{name: "a learner is missing", voters: 3, learners: 1, target: ids{1, 2, 3, 4}, missing: ids{4}, want: "removes 4"},
		{name: "a learner gets nowhere for a minute", voters: 3, learners: 1, target: ids{1, 2, 3, 4}, lapsed: ids{4}, want: "removes 4"},
		{name: "another one leads, says the ring", voters: 3, target: ids{2, 1, 3}, want: "hands over to 2"},
		{name: "and its table differs", voters: 3, target: ids{2, 1, 3}, doubted: ids{2}},
		{name: "and it is silent", voters: 3, target: ids{2, 1, 3}, silent: ids{2}},
		{name: "and it may be gone", voters: 3, target: ids{2, 1, 3}, liveness: liveness{2: Suspect}},
		{name: "a leader that leaves hands over to who is ready", voters: 4, target: ids{2, 3, 4}, liveness: liveness{1: Departed}, doubted: ids{2}, silent: ids{3}, want: "hands over to 4"},
		{name: "and nobody is", voters: 4, target: ids{2, 3, 4}, liveness: liveness{1: Departed}, doubted: ids{2, 4}, silent: ids{3}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := &State{
				Leader: 1, Node: 1, Leaving: tt.liveness[1] == Departed,
				Target: tt.target, Standby: tt.standby, Limited: tt.limited,
			}
			s.Standby = slices.DeleteFunc(slices.Clone(tt.standby), func(n uint64) bool { return tt.liveness[n] != Present })
			for id := uint64(1); id <= uint64(tt.voters+tt.learners); id++ {
				is := func(ids ids) bool { return slices.Contains(ids, id) }
				answers := !is(tt.silent) && !is(tt.stuck)
				r := Replica{
					ID: id, Node: id, Liveness: tt.liveness[id], Missing: is(tt.missing), Recent: answers, Answers: answers,
					Ready: answers && !is(tt.lapsed), Doubted: is(tt.doubted), Stuck: is(tt.stuck), Lapsed: is(tt.lapsed), Declined: is(tt.declined), Failed: is(tt.failed),
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

// A leader need not look again soon once only a hand-over is left; else it waits for something that
// nobody tells it.
func TestSettled(t *testing.T) {
	voters := func() (all []Replica) {
		for id := uint64(1); id <= 3; id++ {
			all = append(all, Replica{ID: id, Node: id, Recent: true, Answers: true, Ready: true})
		}
		return all
	}
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
		{"a lost voter has no successor", func(s *State) { s.Target, s.Voters[2].Liveness = []uint64{1, 2}, Silent; s.Voters[2].Recent = false }, true},
		{"a lost voter's successor is not ready", func(s *State) {
			s.Target, s.Voters[2].Liveness, s.Learners = []uint64{1, 2, 4}, Departed, []Replica{{ID: 4, Node: 4}}
		}, false},
		{"the leader leaves before its own is there", func(s *State) {
			s.Leaving, s.Voters[0].Liveness, s.Learners, s.Target = true, Departed, []Replica{{ID: 4, Node: 4, Stuck: true}}, []uint64{2, 3, 4}
		}, false},
	}
	for _, tt := range tests {
		s := &State{Leader: 1, Node: 1, Voters: voters(), Target: []uint64{1, 2, 3}}
		tt.change(s)
		if a, done := Next(s); done != tt.want {
			t.Errorf("%s: it %q, and is done: %v", tt.name, text(a), done)
		}
	}
}

// Where the voters are to be exact, they are changed to all of the target by one change, or not at all.
func TestExact(t *testing.T) {
	for _, tt := range []struct {
		name             string
		voters, learners int
		target           []uint64
		stuck, unready   uint64 // a learner
		want             string
	}{
		{"an even number votes", 3, 1, []uint64{1, 2, 3, 4}, 0, 0, "promotes 4"},
		{"of two as well", 1, 1, []uint64{1, 2}, 0, 0, "promotes 2"},
		{"and nobody is demoted for that", 4, 0, []uint64{1, 2, 3, 4}, 0, 0, ""},
		{"two of three stay", 3, 0, []uint64{1, 2}, 0, 0, "removes 3"},
		{"one is replaced", 3, 1, []uint64{1, 2, 4}, 0, 0, "promotes 4, removes 3"},
		{"two are replaced together", 3, 2, []uint64{1, 4, 5}, 0, 0, "promotes 4, promotes 5, removes 2, removes 3"},
		{"or none", 3, 2, []uint64{1, 4, 5}, 4, 0, ""},
		{"who is not ready is waited for", 3, 2, []uint64{1, 4, 5}, 0, 5, ""},
		{"a leader that is to go hands over first", 3, 1, []uint64{2, 3, 4}, 0, 0, "hands over to 2"},
		{"and changes nothing if nobody can take over", 2, 1, []uint64{2, 3}, 0, 2, ""},
	} {
		s := &State{Leader: 1, Node: 1, Target: tt.target, Exact: true}
		for id := uint64(1); id <= uint64(tt.voters+tt.learners); id++ {
			r := Replica{ID: id, Node: id, Recent: true, Answers: true, Ready: id != tt.stuck && id != tt.unready, Stuck: id == tt.stuck}
			if !slices.Contains(tt.target, id) {
				r.Liveness = Departed
			}
			if int(id) <= tt.voters {
				s.Voters = append(s.Voters, r)
			} else {
				s.Learners = append(s.Learners, r)
			}
		}
		s.Leaving = s.Voters[0].Liveness == Departed
		if a, _ := Next(s); text(a) != tt.want {
			t.Errorf("%s: it %q, want %q", tt.name, text(a), tt.want)
		}
	}
}

func TestOddUpTo(t *testing.T) {
	for n, want := range []int{0: -1, 1: 1, 2: 1, 3: 3, 4: 3, 5: 5} {
		if got := OddUpTo(n); got != want {
			t.Errorf("%d: %d, want %d", n, got, want)
		}
	}
}
