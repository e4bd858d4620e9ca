// Package placement decides how the leader of a shard brings the shard's replicas to where they
// are to be: [Next] is a pure function of what the leader knows. It takes one safe step at a
// time: add a learner, let it catch up, change the voters in one joint change, hand
// leadership to the target's first node (P30 to P32). Nodes set exact targets alone, by the core's table.
package placement

import "slices"

// Liveness is what a node's own view says of another node. It is a hint: it decides where
// replicas are wanted, never who holds a lock.
type Liveness uint8

// The kinds of liveness, from good to bad.
const (
	Present  Liveness = iota
	Suspect           // silent, for less than the grace period
	Silent            // silent for longer
	Departed          // it left, is leaving, or is proven dead
)

// Replica is what the leader knows of one of its shard's replicas, itself among them.
type Replica struct {
	ID, Node uint64
	Liveness Liveness // of the node; of the leader's own node: Present, or Departed once it leaves
	Missing  bool     // the node lives, and says that the replica is gone for good
	Recent   bool     // it answered within two election timeouts
	Answers  bool     // it answered the last heartbeats
	Ready    bool     // it answers, follows, and has nearly the whole log
	Doubted  bool     // its table differs from the leader's
	Stuck    bool     // a learner: it has not got on for so long that it is passed over
	Lapsed   bool     // a learner: it has not followed for so long that it is removed
	Declined bool     // a learner: its node will leave soon, and asked for no vote
	Failed   bool     // a voter: it was handed leadership a moment ago, and did not become leader
}

// State is all that the decision depends on.
type State struct {
	Leader   uint64    // the leader's replica ID
	Node     uint64    // the node that it is on
	Leaving  bool      // that node is leaving
	Voters   []Replica // the leader among them; no change of voters is under way
	Learners []Replica
	Target   []uint64 // the nodes where replicas are to be, the owner first; never empty
	Standby  []uint64 // all other nodes that are present, in the order in which they step in
	Limited  bool     // too many shards are moving already to start another move
	Exact    bool     // all of Target are to vote, and no others, by one change
}

// Action is what the leader does: one of [AddLearner], [RemoveLearner], [ChangeVoters] and
// [HandOver]; nil if it waits.
type Action interface{ isAction() }

// AddLearner gives the shard a new replica on a node.
type AddLearner struct{ Node uint64 }

// RemoveLearner takes a learner out of the shard.
type RemoveLearner struct{ ID uint64 }

// ChangeVoters changes the voters in one joint step, by replica ID.
type ChangeVoters struct{ Promote, Remove, Demote []uint64 }

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
	// voters are replaced. Where the target still names the node, its successor comes in a moment,
	// and would get a learner again.
	departed := func(l *Replica) bool {
		return l.Liveness == Departed && !s.targets(l.Node)
	}
	if a := s.removeLearner(departed); a != nil {
		return a, false
	}
	// The successor removes the leader together with other lost voters. If the leader replaced these
	// first, there would be one voter more than there should be, and itself among them: the shard
	// would stop if the leader were cut off now, and one of the new voters died (P32).
	if s.Leaving {
		if a := s.handOver(); a != nil || s.Exact {
			// An exact target lacks a leader that is to go, and it does not remove itself: if it changed the voters
			// without that, a majority of them might be of neither those of now nor the next, and a recovery of the
			// shard would miss it (C7).
			return a, false
		}
	}
	c := s.count()
	need := s.votes() - c.kept
	if need > 0 {
		return s.replace(need, &c), false
	}
	if a := s.shrink(-need, &c); a != nil {
		return a, false
	}
	unwanted := func(l *Replica) bool {
		return l.Missing || l.Lapsed || !s.targets(l.Node) && l.Liveness != Suspect
	}
	if a := s.removeLearner(unwanted); a != nil {
		return a, false
	}
	for _, node := range s.Target {
		if !c.voters[node] && c.learners[node] == nil {
			return s.add(node), false
		}
	}
	return s.handOver(), true
}

// census counts the usable voters, and has the nodes with usable replicas.
type census struct {
	kept     int                 // voters that are present, or may be
	sure     bool                // none of them is suspect
	lost     []*Replica          // voters that are gone, or silent for too long, but not the leader
	silent   bool                // one of lost may come back
	voters   map[uint64]bool     // nodes
	learners map[uint64]*Replica // by node
}

// count takes the census. A missing replica counts like one on a departed node; but its node may
// get a new replica. A voter that answers is not silent, whatever the view says or lacks.
func (s *State) count() census {
	c := census{sure: true, voters: make(map[uint64]bool), learners: make(map[uint64]*Replica)}
	for i := range s.Voters {
		v := &s.Voters[i]
		liveness := v.Liveness
		switch {
		case v.Missing:
			liveness = Departed
		case liveness == Silent && v.Recent:
			liveness = Suspect
		}
		c.voters[v.Node] = c.voters[v.Node] || !v.Missing
		switch liveness {
		case Suspect:
			c.sure = false
			fallthrough
		case Present:
			c.kept++
			continue
		case Silent:
			c.silent = true
		}
		if v.ID != s.Leader {
			c.lost = append(c.lost, v)
		}
	}
	for i := range s.Learners {
		if l := &s.Learners[i]; !l.Missing {
			c.learners[l.Node] = l
		}
	}
	return c
}

// replace gives learners the votes of lost voters; need votes are missing. First it finds a
// node for each, and adds a learner where there is none yet.
func (s *State) replace(need int, c *census) Action {
	promote, newcomer := s.recruit(need, c)
	if newcomer != 0 {
		return s.add(newcomer)
	}
	lost := c.lost
	if len(promote) < need {
		// Some are passed over, and no other node is left. Each of the others replaces a lost voter
		// nevertheless (P31). The number of voters stays odd, or becomes so.
		if s.Exact {
			return nil
		}
		odd := len(s.Voters) % 2
		lost = departedFirst(lost)
		promote = promote[:min(len(promote), len(lost)+1-odd)]
		if len(promote) == 0 {
			return nil
		}
		lost = lost[:len(promote)-1+odd]
	}
	if slices.ContainsFunc(promote, func(l *Replica) bool { return !l.Ready }) {
		return nil
	}
	return ChangeVoters{Promote: ids(promote), Remove: ids(lost)}
}

// shrink removes the lost voters once enough others are there, and demotes the surplus among these,
// beginning with the last node of the target. On silence alone nothing shrinks below what there
// should be (P30); a node that left is not waited for. A leader that leaves does not remove silent
// voters: its successor removes it and them in one step; and if there is none in time, the silent
// ones may come back and make a majority. It returns nil if there is nothing to remove.
func (s *State) shrink(over int, c *census) Action {
	if exact := over == 0 && !(c.silent && s.Leaving); len(c.lost) == 0 || !exact && (c.silent || !c.sure) {
		return nil
	}
	var demote []uint64
	for _, node := range slices.Backward(s.Target) {
		v := s.voterOn(node)
		if v != nil && len(demote) < over && v.ID != s.Leader && !slices.Contains(c.lost, v) {
			demote = append(demote, v.ID)
		}
	}
	return ChangeVoters{Remove: ids(c.lost), Demote: demote}
}

// recruit chooses the learners that shall become voters, or the node that shall get a learner first.
// Those that the target names come first. For each of them that is passed over, a standby may step
// in: a voter that is gone must not stay one for ever (P31).
func (s *State) recruit(need int, c *census) (promote []*Replica, newcomer uint64) {
	// A voter that leaves waits until it is replaced, if only for a short time.
	waits := slices.ContainsFunc(s.Voters, func(v Replica) bool {
		return v.Liveness == Departed && (v.ID == s.Leader || v.Answers)
	})
	passed := func(l *Replica) bool { return l.Stuck || l.Declined && !waits }
	over := 0
	for _, node := range s.Target {
		if c.voters[node] || len(promote) == need {
			continue
		}
		switch l := c.learners[node]; {
		case l == nil:
			return nil, node
		case passed(l):
			over++
		default:
			promote = append(promote, l)
		}
	}
	for _, node := range s.Standby {
		if c.voters[node] || over == 0 || len(promote) == need {
			continue
		}
		switch l := c.learners[node]; {
		case l == nil:
			return nil, node
		case !passed(l):
			promote = append(promote, l)
			over--
		}
	}
	return promote, 0
}

// handOver hands leadership to the voter on the target's first node; or, if the leader's own node
// leaves, to any that is ready. It returns nil if no other voter is to lead, or none can.
func (s *State) handOver() Action {
	if s.Node == s.Target[0] && !s.Leaving {
		return nil
	}
	ready := func(v *Replica) bool {
		return v.ID != s.Leader && v.Ready && v.Liveness == Present && !v.Doubted && !v.Failed
	}
	for i := range s.Voters {
		if v := &s.Voters[i]; v.Node == s.Target[0] && ready(v) {
			return HandOver{v.ID}
		}
	}
	for i := range s.Voters {
		if v := &s.Voters[i]; s.Leaving && ready(v) {
			return HandOver{v.ID}
		}
	}
	return nil
}

func (s *State) add(node uint64) Action {
	if s.Limited {
		return nil
	}
	return AddLearner{node}
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

// voterOn returns the voter on a node unless that replica is missing, or nil.
func (s *State) voterOn(node uint64) *Replica {
	for i := range s.Voters {
		if v := &s.Voters[i]; v.Node == node && !v.Missing {
			return v
		}
	}
	return nil
}

// departedFirst sorts lost voters: those that are only silent, and may come back, are last.
func departedFirst(lost []*Replica) []*Replica {
	lost = slices.Clone(lost)
	slices.SortStableFunc(lost, func(a, b *Replica) int { return silent(a) - silent(b) })
	return lost
}

func silent(v *Replica) int {
	if v.Liveness == Silent && !v.Missing {
		return 1
	}
	return 0
}

func ids(replicas []*Replica) (all []uint64) {
	for _, r := range replicas {
		all = append(all, r.ID)
	}
	return all
}

// votes is how many voters there are to be.
func (s *State) votes() int {
	if s.Exact {
		return len(s.Target)
	}
	return OddUpTo(len(s.Target))
}

// OddUpTo is the largest odd number up to n: so many voters a shard is to have on n nodes (P30).
func OddUpTo(n int) int { return n - 1 + n%2 }
