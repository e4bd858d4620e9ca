package replica

import (
	"errors"
	"slices"
	"time"

	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/raftpb"
	"go.etcd.io/raft/v3/tracker"
	"google.golang.org/protobuf/proto"

	"github.com/lockmesh/mesh/internal/env"
	"github.com/lockmesh/mesh/internal/placement"
	"github.com/lockmesh/mesh/internal/point"
	"github.com/lockmesh/mesh/internal/wire"
	"github.com/lockmesh/mesh/transport"
)

// Target is where a shard's replicas are to be. The zero Target says nothing yet.
type Target struct {
	Nodes   []Peer   // all of these are to vote, and no others; the first one is to lead
	From    []uint64 // the nodes that vote now, sorted, as far as the target's author knows
	Move    uint64   // the number of the last change of voters that its author knows of
	Moving  bool     // that change is under way: the leader is to be sure that it leads, and then it is seen what came of the change
	Leave   []uint64 // those of Nodes that leave: they are not to lead
	Dropped []uint64 // those of Nodes and of From that cannot ask for other targets
	Yields  bool     // the replica's own node leaves, and another one is to lead
}

// stays reports whether a node is to have a replica, and does not leave.
func (t *Target) stays(node uint64) bool {
	return len(t.Nodes) == 0 || t.has(node) && !slices.Contains(t.Leave, node)
}

func (t *Target) has(node uint64) bool {
	return slices.ContainsFunc(t.Nodes, func(p Peer) bool { return p.Node == node })
}

// peer returns the member on a node.
func (t *Target) peer(node uint64) Peer {
	i := slices.IndexFunc(t.Nodes, func(p Peer) bool { return p.Node == node })
	if i < 0 {
		panic("replica: placement names a node that is not in its state")
	}
	return t.Nodes[i]
}

// rank returns how many of the nodes that the ring names come before node, without the one that is
// gone.
func (t *Target) rank(node, gone uint64) (n int) {
	for _, p := range t.Nodes {
		if p.Node == node {
			break
		}
		if p.Node != gone {
			n++
		}
	}
	return n
}

// placing is what a leader has under way to reach the target.
type placing struct {
	changed time.Duration // when the last change was proposed
	pending bool          // and it is not applied yet
	hostAt  time.Duration // when Hosts may be asked for again
	rests   bool          // nothing but a hand-over was left to do, and nothing changed since
	skipped int           // ticks since the last look
}

// placeEvery is how many ticks pass between two looks at a shard for which nothing but a hand-over is
// left to do.
const placeEvery = 8

const (
	hostInterval = 250 * time.Millisecond
	caughtUp     = 256 // entries that a learner may lag when it is made a voter
)

// look reports whether it is time to look for the next step.
func (pl *placing) look(now time.Duration) bool {
	if pl.skipped++; pl.rests && pl.skipped < placeEvery {
		return false
	}
	pl.rests, pl.skipped = false, 0
	if pl.pending && now-pl.changed < 2*ElectionTimeout {
		return false
	}
	pl.pending = false
	return true
}

// propose notes that a change of replicas is on its way.
func (pl *placing) propose(now time.Duration) { pl.pending, pl.changed = true, now }

// apply notes that one was applied.
func (pl *placing) apply() { pl.pending, pl.rests, pl.hostAt = false, false, 0 }

// askHosts reports whether nodes are to be asked now to host their replicas.
func (pl *placing) askHosts(now time.Duration) bool {
	if now < pl.hostAt {
		return false
	}
	pl.hostAt = now + hostInterval
	return true
}

const (
	// passOver is for how long a leader that leaves, or is late, passes over a voter to which it handed over in
	// vain. It tries the others; if there are none, one that leaves waits, and one that is late replaces voters.
	passOver = 3 * time.Second

	// latePause is the pause between two voters that a late leader hands over to: what it says takes long.
	latePause = 2 * time.Second

	firstBackoff   = time.Second
	longestBackoff = time.Minute
)

// offers are a leader's offers of leadership, with growing pauses between them.
type offers struct {
	to      uint64        // the node to which one is to be sent; zero: none
	made    time.Duration // when the last one was; zero: never
	backoff time.Duration // until the next one is

	handed map[uint64]time.Duration // when a leader that leaves, or is late, handed over to a voter, by its ID
	summon uint64                   // the voter that is to stand for election at once, by its ID; zero: none
}

// make makes an offer to a node, unless the last one is too recent, and reports whether it did. A leader that hurries has a
// pause of its own, however often it was refused before; zero: it does not hurry.
func (o *offers) make(now time.Duration, to uint64, pause time.Duration) bool {
	hurries := pause != 0
	if !hurries {
		pause = o.backoff
	}
	if now-o.made < pause && o.any() {
		return false
	}
	o.to, o.made = to, now
	if o.backoff = min(max(2*o.backoff, firstBackoff), longestBackoff); hurries {
		o.backoff = firstBackoff
	}
	return true
}

// failed reports whether leadership was handed to voter id a moment ago: in vain, for it is still here.
func (o *offers) failed(id uint64, now time.Duration) bool {
	at, tried := o.handed[id]
	return tried && now-at < passOver
}

// any reports whether there was an offer.
func (o *offers) any() bool { return o.made != 0 }

// skip counts as an offer that is not sent.
func (o *offers) skip(now time.Duration) { o.made = now }

// bequest is a hand-over that has begun: it waits until the voter has what was logged for it. Those who are said to have
// been silent are answered meanwhile, since the log can take that back: in a transfer it takes nothing (P5, P22).
type bequest struct {
	heir  uint64        // the voter, by its ID; zero: nothing waits
	last  uint64        // the entry that it is to have; zero: that is not in the log yet
	began time.Duration // when; it waits for no longer than ElectionTimeout
}

// appended notes the last entry that was appended.
func (b *bequest) appended(index uint64) {
	if b.heir != 0 && b.last == 0 {
		b.last = index
	}
}

// SetTarget tells the replica where the shard's replicas are to be.
func (r *Replica) SetTarget(t Target) {
	if !slices.Equal(t.Nodes, r.target.Nodes) {
		r.leading.contacts.asked = 0 // who has answered for one change has not for another
	}
	if !slices.Equal(t.Nodes, r.target.Nodes) || !slices.Equal(t.From, r.target.From) || t.Move != r.target.Move {
		r.targets++
	}
	r.target = t
	r.leading.placing.rests = false
}

// Sure reports whether this replica leads, as a majority has confirmed since it was told where its shard's replicas are to be (a round of
// reads that was begun since). What a leader is not sure of may be long past: a later leader may have changed the voters.
func (r *Replica) Sure() bool { return r.Serving() && r.leading.sure == r.targets }

// Limit tells a leader whether too many shards are moving already to begin with another.
func (r *Replica) Limit(limited bool) { r.limited = limited }

// missing tells that replica id, which is counted on node, is gone from there for good: no node ever hosts an ID again (P24). A
// leader replaces it like one of a dead node.
func (r *Replica) missing(node, id uint64) {
	if p, known := r.Peer(id); !known || p.Node != node || r.vanished[id] {
		return
	}
	r.vanished[id] = true
	r.leading.placing.rests = false
	r.logVanished(id)
}

// logVanished logs which of these replicas are gone for good, if this one serves, and so is to replace them. A replica that
// lags behind the log may still count one that was removed in good order.
func (r *Replica) logVanished(ids ...uint64) {
	for _, id := range ids {
		if r.Serving() && r.vanished[id] {
			r.log.Warn("a replica of the shard is gone from its node, and will be replaced", "gone", id)
		}
	}
}

// Vanished returns the nodes of the voters whose replicas are gone for good, as these nodes have said.
func (r *Replica) Vanished() []uint64 {
	return r.others(func(id uint64) bool { return r.vanished[id] })
}

// stays reports whether replica id is on a node that is to have one, and does not leave.
func (r *Replica) stays(id uint64) bool {
	p, _ := r.Peer(id)
	return r.target.stays(p.Node)
}

// Moving reports whether this leader is moving replicas. A learner that already replicates may stay
// one forever, and one whose node leaves, or is out of this leader's reach, makes no progress:
// neither is a move.
func (r *Replica) Moving() bool {
	g := &r.leading
	return g.serving && (r.Joint() || g.placing.pending || slices.ContainsFunc(r.members.conf.Learners, func(id uint64) bool {
		return r.stays(id) && !g.learners.stuck(id, r.now) && !r.replicates(id)
	}))
}

// AtRest reports whether the shard has the voters that its target names, and nobody else, all up to date.
func (r *Replica) AtRest() bool {
	g, wanted := &r.leading, len(r.target.Nodes)
	if !g.serving || r.Joint() || g.placing.pending || wanted == 0 || len(r.members.conf.Voters) != wanted {
		return false
	}
	seal, rests := g.seal.entry()
	r.rn.WithProgress(func(id uint64, _ raft.ProgressType, pr tracker.Progress) {
		if _, known := r.Peer(id); !known || !r.stays(id) {
			rests = false
		}
		if id != r.cfg.ID && (pr.State != tracker.StateReplicate || !r.answers(id) || pr.Match < seal || r.doubted(id)) {
			rests = false
		}
	})
	return rests
}

// Counted returns where the replicas live that some voter may count in an election: those
// that vote now, as far as this one knows, and, if it serves, those that lost their votes a moment ago: only
// a leader knows when no voter counts these any more.
func (r *Replica) Counted() []Peer { return r.members.counted(r.Serving()) }

func (r *Replica) progress() map[uint64]tracker.Progress {
	all := make(map[uint64]tracker.Progress)
	r.rn.WithProgress(func(id uint64, _ raft.ProgressType, pr tracker.Progress) { all[id] = pr })
	return all
}

// confirmedUpTo reports whether replica id follows without pause and has said that it has
// the log up to index.
func (r *Replica) confirmedUpTo(id, index uint64) (is bool) {
	r.rn.WithProgress(func(p uint64, _ raft.ProgressType, pr tracker.Progress) {
		is = is || p == id && pr.State == tracker.StateReplicate && pr.Match >= index
	})
	return is
}

// replicates reports whether replica id follows the log without pause, however far it has come.
func (r *Replica) replicates(id uint64) bool { return r.confirmedUpTo(id, 0) }

// answers reports whether replica id answered the last heartbeats.
func (r *Replica) answers(id uint64) bool { return r.leading.contacts.answers(id, r.now) }

// Missed returns the nodes of the voters that a serving leader does not hear, or that leave, or are not to vote:
// they may soon have no vote.
func (r *Replica) Missed() (nodes []uint64) {
	if !r.Serving() {
		return nil
	}
	return r.others(func(id uint64) bool { return !r.stays(id) || !r.answers(id) })
}

// Silent returns the nodes of the voters that a serving leader has not heard for d, since it serves.
func (r *Replica) Silent(d time.Duration) (nodes []uint64) {
	if !r.Serving() {
		return nil
	}
	return r.others(func(id uint64) bool { return min(r.leading.contacts.silence(id, r.now), r.now-r.leading.began) >= d })
}

// others returns the nodes of the other voters for which is holds.
func (r *Replica) others(is func(id uint64) bool) (nodes []uint64) {
	for _, id := range r.members.conf.Voters {
		if id != r.cfg.ID && is(id) {
			nodes = append(nodes, r.members.peers[id].Node)
		}
	}
	return nodes
}

// Changing reports whether the replicas are changing, or a change is in the log.
func (r *Replica) Changing() bool {
	_, unsettled := r.unapplied()
	return r.Joint() || r.leading.placing.pending || unsettled
}

// place moves the shard one safe step towards the target, as package placement decides.
func (r *Replica) place() {
	pl := &r.leading.placing
	if r.target.Moving && !r.Sure() && !r.leading.reads.underWay() {
		r.leading.reads.sign = true
	}
	if len(r.target.Nodes) == 0 || r.Joint() || r.leading.bequest.heir != 0 || !pl.look(r.now) || r.outdated() {
		return
	}
	progress := r.progress()
	r.noteLearners(progress)
	action, done := placement.Next(r.placement(progress))
	if done {
		pl.rests = true
		r.leading.reads.sign = r.leading.reads.sign || r.target.Nodes[0].Node != r.cfg.Self.Node // how late is the owner?
	}
	switch a := action.(type) {
	case placement.AddLearner:
		r.addLearner(r.target.peer(a.Node))
	case placement.RemoveLearner:
		r.change([]*raftpb.ConfChangeSingle{single(raftpb.ConfChangeRemoveNode, a.ID)}, nil)
	case placement.ChangeVoters:
		r.swap(a)
	case placement.HandOver:
		r.offer(a.To)
	case nil:
		if done && r.target.Nodes[0].Node == r.cfg.Self.Node {
			r.stray()
		}
	}
}

// outdated reports whether the target is about other voters than the shard has: it would take back a
// change that its author has not heard of yet.
func (r *Replica) outdated() bool {
	voters := r.members.nodes(r.members.conf.Voters)
	slices.Sort(voters)
	to := make([]uint64, len(r.target.Nodes))
	for i, p := range r.target.Nodes {
		to[i] = p.Node
	}
	slices.Sort(to)
	return !slices.Equal(voters, r.target.From) && !slices.Equal(voters, to)
}

// placement returns what is to be known for the next step.
func (r *Replica) placement(progress map[uint64]tracker.Progress) *placement.State {
	describe := func(ids []uint64) (all []placement.Replica) {
		for _, id := range ids {
			all = append(all, r.describe(id, progress[id]))
		}
		return all
	}
	s := &placement.State{
		Leader: r.cfg.ID, Node: r.cfg.Self.Node, Goes: r.goes(), Late: r.late(),
		Dropped: slices.Contains(r.target.Dropped, r.cfg.Self.Node),
		Voters:  describe(r.members.conf.Voters), Learners: describe(r.members.conf.Learners), Limited: r.limited,
	}
	for _, p := range r.target.Nodes {
		s.Target = append(s.Target, p.Node)
	}
	return s
}

// describe returns what is known of replica id.
func (r *Replica) describe(id uint64, pr tracker.Progress) placement.Replica {
	g := &r.leading
	p, _ := r.Peer(id)
	lag := g.contacts.lag(id, r.now)
	return placement.Replica{
		ID: id, Node: p.Node, Leaves: slices.Contains(r.target.Leave, p.Node), Dropped: slices.Contains(r.target.Dropped, p.Node),
		Missing: r.vanished[id], Ready: r.ready(id, pr), Doubted: r.doubted(id), Failed: g.offers.failed(id, r.now),
		Prompt: lag <= promptly, Lag: lag,
	}
}

// ready reports whether replica id answers, follows, and has nearly the whole log.
func (r *Replica) ready(id uint64, pr tracker.Progress) bool {
	return pr.State == tracker.StateReplicate && pr.Match+caughtUp >= r.applied.index && r.answers(id)
}

// noteLearners notes each learner's progress.
func (r *Replica) noteLearners(progress map[uint64]tracker.Progress) {
	ids := r.members.conf.Learners
	for _, id := range ids {
		pr := progress[id]
		r.leading.learners.note(id, r.now, pr, r.ready(id, pr), r.answers(id), &r.sender)
	}
	r.leading.learners.keep(ids)
}

func single(t raftpb.ConfChangeType, id uint64) *raftpb.ConfChangeSingle {
	return &raftpb.ConfChangeSingle{Type: t.Enum(), NodeId: proto.Uint64(id)}
}

// addLearner gives the shard a new replica, under an ID that it never used (P24).
func (r *Replica) addLearner(p Peer) {
	id := r.members.next()
	r.change([]*raftpb.ConfChangeSingle{single(raftpb.ConfChangeAddLearnerNode, id)}, map[uint64]Peer{id: p})
}

// swap changes the voters in one joint step. A leader never removes itself: it hands over, and is
// removed by its successor (P19).
//
// A majority of both the current and the new voters must have answered what all were last asked, for
// a sign of life, which is after the change was wanted. What was on its way then says nothing: its sender may have
// heard nothing since. A proposed change stays in the log: it could
// commit later, when a voter returns, perhaps the removed one, and then require replicas that have died
// since (P30).
func (r *Replica) swap(c placement.ChangeVoters) {
	var changes []*raftpb.ConfChangeSingle
	for _, id := range c.Promote {
		changes = append(changes, single(raftpb.ConfChangeAddNode, id))
	}
	for _, id := range c.Remove {
		changes = append(changes, single(raftpb.ConfChangeRemoveNode, id))
	}
	voters := r.members.conf.Voters
	next := slices.DeleteFunc(append(slices.Clone(voters), c.Promote...), func(id uint64) bool {
		return slices.Contains(c.Remove, id)
	})
	ct := &r.leading.contacts
	if ct.ask(r.now) {
		r.leading.reads.sign = true
	}
	alone := len(voters) == 1 // raft asks nobody else then, so there are no rounds
	lives := func(id uint64) bool { return id == r.cfg.ID || ct.answered(id, r.now) || alone && ct.spoke(id) }
	if majority(voters, lives) && majority(next, lives) {
		ct.asked = 0
		r.change(changes, nil)
	}
}

// change proposes a new configuration. It is joint if any replica gets a vote or loses one, also one alone
// (P30). The context says where new replicas live.
func (r *Replica) change(changes []*raftpb.ConfChangeSingle, added homes) {
	cc := &raftpb.ConfChangeV2{Changes: changes}
	if r.members.revotes(changes) {
		// Raft counts by a configuration only once it has applied its entry: after a simple change from
		// {1, 2, 3} to {2, 3}, a grant that was appended behind it may be committed by 1 and 2. A joint
		// configuration ends with an entry that most of the new voters have, with all before it; while
		// it lasts, what follows that needs them, too. No majority counts learners: theirs are simple.
		cc.Transition = raftpb.ConfChangeTransitionJointImplicit.Enum()
	}
	if len(added) > 0 {
		cc.Context = wire.Append(nil, &added)
	}
	if err := r.rn.ProposeConfChange(cc); err != nil {
		if !errors.Is(err, raft.ErrProposalDropped) {
			r.log.Warn("raft refused a change of the replicas", "error", err)
		}
		return
	}
	r.leading.placing.propose(r.now)
}

// offer asks the node of a voter whether it would lead. A leader that leaves, or is late, does not wait for the
// answer.
func (r *Replica) offer(to uint64) {
	p, _ := r.Peer(to)
	var pause time.Duration
	switch {
	case r.goes():
		pause = firstBackoff
	case r.late():
		pause = latePause
	}
	if o := &r.leading.offers; o.make(r.now, p.Node, pause) && pause != 0 {
		if o.handed == nil {
			o.handed = make(map[uint64]time.Duration)
		}
		o.handed[to] = r.now
		r.handover(p.Node, r.term)
	}
}

// stray hands leadership over though this replica shall lead, once in a leadership (a fault point).
func (r *Replica) stray() {
	others := r.others(func(uint64) bool { return true })
	if o := &r.leading.offers; !o.any() && len(others) > 0 && r.cfg.Points.Taken(point.StrayTransfer) {
		o.skip(r.now)
		r.handover(others[0], r.term)
	}
}

// goes reports whether the replica hands over if it leads: its node is not to vote any more, or leaves.
func (r *Replica) goes() bool {
	t := &r.target
	return len(t.Nodes) > 0 && (t.Yields || !t.has(r.cfg.Self.Node))
}

// Tired reports whether this replica is to take no leadership that it is offered: its links were too slow when it led a
// moment ago. They may be quick only since it leads no more.
func (r *Replica) Tired(now time.Duration) bool {
	return r.wasLate != 0 && now-r.wasLate < longestBackoff
}

// late reports whether this leader hands over because no majority confirms it in time.
func (r *Replica) late() bool { return r.leading.reads.late(r.now) }

// handover moves leadership to the voter at node, which said in term that it would lead. Since it
// was asked, its table may have proven to differ (P41). A leader that leaves, or is late, does not wait for what it says: see offer.
func (r *Replica) handover(node, term uint64) {
	g := &r.leading
	if !r.Serving() || r.term != term || r.Joint() || g.bequest.heir != 0 {
		return
	}
	for _, id := range r.members.conf.Voters {
		if p, _ := r.Peer(id); p.Node == node && r.answers(id) && !r.doubted(id) {
			r.tell(env.Handover{To: transport.ID(node)})
			if r.recordSilence() && !r.late() {
				g.bequest = bequest{heir: id, began: r.now}
			} else {
				r.rn.TransferLeader(id)
			}
			if r.late() {
				// Raft waits until the voter has confirmed the whole log, but for no longer than ElectionTimeout. This
				// comes behind all that was appended: see Frame.Urgent.
				g.offers.summon, r.wasLate = id, r.now
				r.log.Warn("no majority answers this leader in time: it hands over", "to", p.Name, "for", lateAfter)
			}
			r.dirty = true
		}
	}
}

// bequeath moves leadership to the heir once that has what was logged for it.
func (r *Replica) bequeath() {
	g := &r.leading
	switch b := g.bequest; {
	case b.heir == 0:
	case b.last != 0 && r.confirmedUpTo(b.heir, b.last) && !r.doubted(b.heir):
		g.bequest = bequest{}
		g.offers.skip(r.now) // a leader that hurries tries another voter a while after this
		r.rn.TransferLeader(b.heir)
	case r.now-b.began >= ElectionTimeout:
		g.bequest = bequest{} // as raft does
	}
}
