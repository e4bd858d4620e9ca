// Package placement decides how the leader of a shard brings the shard's replicas to where they
// are to be: [Next] is a pure function of what the leader knows. It takes one safe step at a
// time: add a learner, let it catch up, change the voters in one joint change, hand
// leadership to the target's first node (P30 to P32).
package placement

import (
	"slices"
	"time"
)

// Replica is what the leader knows of one of its shard's replicas, itself among them.
type Replica struct {
	ID, Node uint64
	Leaves   bool // the node is to vote, and leaves, or its entry was dropped
	Dropped  bool // its entry was dropped, or it has ended: it cannot ask the core for anything
	Missing  bool // the node lives, and says that the replica is gone for good
	Ready    bool // it answers, follows, and has nearly the whole log
	Doubted  bool // its table differs from the leader's
	Failed   bool // a voter: it was handed leadership a moment ago, and did not become leader
	Prompt   bool // it answers the leader's rounds soon enough to lead

	Lag time.Duration // how long its answers to them took of late; the longest time if it gave none
}

// State is all that the decision depends on.
type State struct {
	Leader   uint64    // the leader's replica ID
	Node     uint64    // the node that it is on
	Goes     bool      // that node is not in Target, or leaves and another one is to lead
	Dropped  bool      // it cannot ask the core for another target
	Late     bool      // no majority confirmed this leader in time for long: it serves nobody
	Voters   []Replica // the leader among them; no change of voters is under way
	Learners []Replica
	Target   []uint64 // the nodes that are to vote, and no others, the owner first; never empty
	Limited  bool     // too many shards are moving already to start another move
}

// Action is what the leader does: one of [AddLearner], [RemoveLearner], [ChangeVoters] and
// [HandOver]; nil if it waits.
type Action interface{ isAction() }

// AddLearner gives the shard a new replica on a node.
type AddLearner struct{ Node uint64 }

// RemoveLearner takes a learner out of the shard.
type RemoveLearner struct{ ID uint64 }

// ChangeVoters changes the voters in one joint step, by replica ID.
type ChangeVoters struct{ Promote, Remove []uint64 }

// HandOver makes another voter the leader.
type HandOver struct{ To uint64 }

func (AddLearner) isAction()    {}
func (RemoveLearner) isAction() {}
func (ChangeVoters) isAction()  {}
func (HandOver) isAction()      {}

// Next returns the next step towards the target. Done: nothing but a hand-over is left until
// something changes.
func Next(s *State) (a Action, done bool) {
	// A node that leaves waits until its learners are removed. That is done first, not after lost
	// voters are replaced.
	unwanted := func(l *Replica) bool { return !s.targets(l.Node) }
	if a := s.removeLearner(unwanted); a != nil {
		return a, false
	}
	// The successor removes the leader together with other voters. A leader does not remove itself: if it changed
	// the voters without that, there would be one voter more than there should be, and itself among them; a majority
	// of these might be a majority neither of the present voters nor of the next ones, and a recovery of the shard would miss it (P32, C7).
	if s.Goes {
		return s.handOver(), false
	}
	if s.Late {
		if a := s.handOver(); a != nil {
			return a, false
		}
	}
	// All of the change is made, or none of it (P31). First each node gets a learner.
	var change ChangeVoters
	waits := false
	for _, node := range s.Target {
		if voterOn(s.Voters, node) {
			continue
		}
		l := latestOn(s.Learners, node)
		switch {
		case l == nil && s.Limited:
			return nil, false
		case l == nil:
			return AddLearner{node}, false
		}
		change.Promote = append(change.Promote, l.ID)
		waits = waits || !l.Ready
	}
	if waits {
		return nil, false
	}
	for _, v := range s.Voters {
		if v.ID != s.Leader && (v.Missing || !s.targets(v.Node)) {
			change.Remove = append(change.Remove, v.ID)
		}
	}
	if len(change.Promote)+len(change.Remove) > 0 {
		return change, false
	}
	gone := func(l *Replica) bool { return l.Missing }
	if a := s.removeLearner(gone); a != nil {
		return a, false
	}
	return s.handOver(), true
}

// handOver hands leadership to the voter on the target's first node, if that answers promptly: a leader that
// is heard, but always late, serves nobody, and nobody elects another. If this leader is to go, or is late itself, it
// hands over to the one of those ready that answers soonest: they may all be late, as seen from here. It returns
// nil if no other voter is to lead, or none can.
//
// A voter that leaves gets it only if no other one is ready, and nobody else can bring the shard on: this leader is
// not to vote, and all that vote on leave, so that none of them changes the voters. A leader that cannot ask the core
// for others, nor tell it that they never will vote, hands over in that case to any voter that can, also to one that is
// not to vote: of those that are to, all may have ended.
func (s *State) handOver() Action {
	if s.Node == s.Target[0] && !s.Goes && !s.Late {
		return nil
	}
	stays := func(v *Replica) bool { return s.targets(v.Node) && !v.Leaves }
	if a := s.successor(stays); a != nil {
		return a
	}
	if s.Dropped {
		return s.successor(func(v *Replica) bool { return !v.Dropped })
	}
	nobody := !s.targets(s.Node) && !slices.ContainsFunc(s.Voters, func(v Replica) bool { return stays(&v) })
	return s.successor(func(v *Replica) bool { return nobody && s.targets(v.Node) })
}

// successor hands leadership to one of the voters that may get it, and are ready.
func (s *State) successor(may func(*Replica) bool) Action {
	var soonest *Replica
	for i := range s.Voters {
		v := &s.Voters[i]
		owns := v.Node == s.Target[0]
		switch {
		case v.ID == s.Leader || !v.Ready || v.Doubted || v.Failed || !may(v):
		case owns && v.Prompt:
			return HandOver{v.ID}
		case (s.Goes || s.Late) && (soonest == nil || v.Lag < soonest.Lag || v.Lag == soonest.Lag && owns):
			soonest = v
		}
	}
	if soonest == nil {
		return nil
	}
	return HandOver{soonest.ID}
}

func (s *State) removeLearner(is func(*Replica) bool) Action {
	for i := range s.Learners {
		if is(&s.Learners[i]) {
			return RemoveLearner{s.Learners[i].ID}
		}
	}
	return nil
}

func (s *State) targets(node uint64) bool { return slices.Contains(s.Target, node) }

// voterOn reports whether a voter is on a node, and is not missing.
func voterOn(voters []Replica, node uint64) bool {
	return slices.ContainsFunc(voters, func(v Replica) bool { return v.Node == node && !v.Missing })
}

// latestOn returns the latest learner on a node that is not missing, or nil.
func latestOn(learners []Replica, node uint64) *Replica {
	for i, l := range slices.Backward(learners) {
		if l.Node == node && !l.Missing {
			return &learners[i]
		}
	}
	return nil
}
