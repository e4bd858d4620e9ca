package replica

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/raftpb"
	"go.etcd.io/raft/v3/tracker"
	"google.golang.org/protobuf/proto"

	"github.com/lockmesh/mesh/internal/bug"
	"github.com/lockmesh/mesh/internal/placement"
	"github.com/lockmesh/mesh/internal/point"
	"github.com/lockmesh/mesh/internal/wire"
	"github.com/lockmesh/mesh/shard"
)

// Target is where the ring wants a shard's replicas.
type Target struct {
	Nodes    []Peer                        // the owner and its successors, of the members that are there
	Standby  []Peer                        // all other members, in the order in which they step in
	Liveness map[uint64]placement.Liveness // of every node that the view knows
	Unknown  placement.Liveness            // of all others: Silent, once there was time to hear of them
}

func (t *Target) liveness(node uint64) placement.Liveness {
	if l, known := t.Liveness[node]; known {
		return l
	}
	return t.Unknown
}

// peer returns the member on a node.
func (t *Target) peer(node uint64) Peer {
	for _, p := range slices.Concat(t.Nodes, t.Standby) {
		if p.Node == node {
			return p
		}
	}
	panic("replica: placement names a node that is not in its state")
}

// placing is what a leader has under way to reach the target.
type placing struct {
	changed  time.Duration       // when the last change was proposed
	pending  bool                // and it is not applied yet
	learning map[uint64]learning // by learner
	hostAt   time.Duration       // when Hosts may be asked for again
	roused   time.Duration       // when those whom a change of voters needs were asked for a sign; zero: none is wanted
	patience time.Duration       // for how long their signs count
	rouse    bool                // they are still to be asked
	offered  time.Duration       // when leadership was last offered
	backoff  time.Duration       // until it is again
	offer    Offer               // the last one
	missing  map[uint64]bool     // replicas whose nodes say that they are gone for good
	rests    bool                // there was nothing to do, and nothing changed since
	skipped  int                 // ticks since the last look
}

// learning is what a leader knows of a learner. The times begin when it first saw it.
type learning struct {
	follows time.Duration // when it last followed the log, or got more of a snapshot than ever before
	gotOn   time.Duration // when it last did that; or answered, and was ready to vote or got more of the log
	match   uint64        // how far it was then
	got     int           // the most bytes of a snapshot that it ever had
	excused bool          // a stall has moved these times since
}

// stalled: the leader stood still for d, and may not have heard the learner: see excused.
func (l *learning) stalled(now, d time.Duration) {
	if !l.excused {
		follows, gotOn := excused(d, now-l.follows, learnerPatience), excused(d, now-l.gotOn, learnerGrace)
		l.follows, l.gotOn, l.excused = l.follows+follows, l.gotOn+gotOn, follows+gotOn > 0
	}
}

// placeEvery is how many ticks pass between two looks at a shard that is where it shall be.
const placeEvery = 8

const (
	hostInterval  = 250 * time.Millisecond
	firstBackoff  = time.Second
	longestOffers = time.Minute
	caughtUp      = 256 // entries that a learner may lag when it is made a voter
)

// Offer asks the node of a voter whether it would lead the shard (P22).
type Offer struct {
	Node uint64
	Term uint64
}

// SetTarget tells the replica where the ring wants it and its fellows to be.
func (r *Replica) SetTarget(t Target) {
	r.target = t
	r.reign.placing.rests = false
}

// Limit tells a leader whether too many shards are moving already to begin with another.
func (r *Replica) Limit(limited bool) { r.limited = limited }

// Missing tells a leader that replica id, which it counts on node, is gone from there for
// good: no node ever hosts an ID again (P24). It is replaced like one of a dead node.
func (r *Replica) Missing(node, id uint64) {
	pl := &r.reign.placing
	if p, known := r.peers[id]; !r.reign.serving || !known || p.Node != node || pl.missing[id] {
		return
	}
	if pl.missing == nil {
		pl.missing = make(map[uint64]bool)
	}
	pl.missing[id], pl.rests = true, false
	r.log.Warn("a replica stopped itself, and will be replaced", "gone", id)
}

// Decline tells a leader that learner id had better get no vote: its node is to go soon (P32).
func (r *Replica) Decline(id uint64) {
	if slices.Contains(r.conf.Learners, id) && !slices.Contains(r.declined, id) {
		r.declined = append(r.declined, id)
	}
}

// Moving reports whether this leader is moving replicas. A learner that has caught up may
// stay one for ever, and one whose node is gone, or is out of this leader's reach, goes
// nowhere: neither is a move.
func (r *Replica) Moving() bool {
	if !r.reign.serving {
		return false
	}
	moving := r.Joint() || r.reign.placing.pending
	for _, id := range r.conf.Learners {
		goes := r.target.liveness(r.peers[id].Node) == placement.Present && !r.stuck(id)
		moving = moving || goes && !r.confirmedUpTo(id, 0)
	}
	return moving
}

// AtRest reports whether the shard has the voters that its target allows, all in step.
func (r *Replica) AtRest() bool {
	if !r.reign.serving || r.Joint() || r.reign.placing.pending || len(r.target.Nodes) == 0 {
		return false
	}
	if len(r.conf.Voters) < placement.OddUpTo(len(r.target.Nodes)) || len(r.conf.Voters)+len(r.conf.Learners) < len(r.target.Nodes) {
		return false
	}
	rests := r.reign.seal.index != 0
	r.rn.WithProgress(func(id uint64, _ raft.ProgressType, pr tracker.Progress) {
		p, ok := r.peers[id]
		if !ok || r.target.liveness(p.Node) != placement.Present {
			rests = false
		}
		if id != r.cfg.ID && (pr.State != tracker.StateReplicate || !r.answers(id) || pr.Match < r.reign.seal.index || r.doubted(id)) {
			rests = false
		}
	})
	return rests
}

// Counted returns where the replicas live that some voter may count in an election: those
// that vote now, as far as this one knows, and those that did until a moment ago, of whom
// only a leader knows when all have forgotten them.
func (r *Replica) Counted() []Peer {
	var all []Peer
	if r.reign.serving {
		all = slices.Clone(r.former)
	}
	for _, id := range r.Voters() {
		all = append(all, r.peers[id])
	}
	return all
}

// maxFormer is how many former voters a replica remembers.
const maxFormer = 16

// Fellows reports whether the shard has a replica on another node that has not departed.
func (r *Replica) Fellows() bool {
	for id, p := range r.peers { // order-free: any will do
		if id != r.cfg.ID && r.target.liveness(p.Node) != placement.Departed {
			return true
		}
	}
	return false
}

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

// answerTime is how long an answer proves that its sender lives and hears its leader.
const answerTime = 3 * HeartbeatTicks * TickInterval

// answers reports whether replica id answered the last heartbeats.
func (r *Replica) answers(id uint64) bool {
	heard, ok := r.reign.heard[id]
	return ok && r.now-heard <= answerTime
}

// Missed returns the nodes of the voters that a serving leader does not hear, or believes gone:
// they may soon have no vote.
func (r *Replica) Missed() (nodes []uint64) {
	if !r.reign.serving {
		return nil
	}
	for _, id := range without(r.conf.Voters, r.cfg.ID) {
		if node := r.peers[id].Node; r.target.liveness(node) != placement.Present || !r.answers(id) {
			nodes = append(nodes, node)
		}
	}
	return nodes
}

// place moves the shard one safe step towards the target, as package placement decides.
func (r *Replica) place() {
	pl := &r.reign.placing
	if len(r.target.Nodes) == 0 || r.Joint() {
		return
	}
	if pl.skipped++; pl.rests && pl.skipped < placeEvery {
		return
	}
	pl.rests, pl.skipped = false, 0
	if pl.pending && r.now-pl.changed < 2*ElectionTimeout {
		return
	}
	pl.pending = false
	progress := r.progress()
	r.watchLearners(progress)
	action, settled := placement.Next(r.placement(progress))
	pl.rests = settled
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
		if settled && r.target.Nodes[0].Node == r.cfg.Self.Node && !r.leaving() {
			r.stray()
		}
	}
}

// placement returns what is to be known for the next step.
func (r *Replica) placement(progress map[uint64]tracker.Progress) *placement.State {
	pl := &r.reign.placing
	describe := func(ids []uint64) (all []placement.Replica) {
		for _, id := range ids {
			p := r.peers[id]
			heard, ever := r.reign.heard[id]
			l, seen := pl.learning[id]
			all = append(all, placement.Replica{
				ID: id, Node: p.Node, Liveness: r.target.liveness(p.Node), Missing: pl.missing[id],
				Recent: ever && r.now-heard < 2*ElectionTimeout, Answers: r.answers(id),
				Ready: r.ready(id, progress), Doubted: r.doubted(id),
				Stuck: r.stuck(id), Lapsed: seen && r.now-l.follows > learnerPatience,
				Declined: slices.Contains(r.declined, id),
			})
		}
		return all
	}
	s := &placement.State{
		Leader: r.cfg.ID, Node: r.cfg.Self.Node, Leaving: r.leaving(),
		Voters: describe(r.conf.Voters), Learners: describe(r.conf.Learners), Limited: r.limited,
	}
	for _, p := range r.target.Nodes {
		s.Target = append(s.Target, p.Node)
	}
	for _, p := range r.target.Standby {
		if r.target.liveness(p.Node) == placement.Present {
			s.Standby = append(s.Standby, p.Node)
		}
	}
	return s
}

// stuck reports whether learner id has not got on for so long that it is passed over.
func (r *Replica) stuck(id uint64) bool {
	l, seen := r.reign.placing.learning[id]
	return seen && r.now-l.gotOn > learnerGrace
}

// ready reports whether replica id answers, follows, and has nearly the whole log.
func (r *Replica) ready(id uint64, progress map[uint64]tracker.Progress) bool {
	pr := progress[id]
	return pr.State == tracker.StateReplicate && pr.Match+caughtUp >= r.applied && r.answers(id)
}

func without(ids []uint64, id uint64) []uint64 {
	return slices.DeleteFunc(slices.Clone(ids), func(x uint64) bool { return x == id })
}

// watchLearners notes how each learner gets on: it must catch up in time (P40), and who does
// not get on at all is passed over (P31). To speak is not enough, for a learner that hears
// nothing asks whether it is one still. While a snapshot is sent to another replica, it may
// have to wait for its own. What it gets of a snapshot counts if it is more than it ever had: one
// that begins again and again gets nowhere.
func (r *Replica) watchLearners(progress map[uint64]tracker.Progress) {
	pl := &r.reign.placing
	if pl.learning == nil {
		pl.learning = make(map[uint64]learning)
	}
	for _, id := range r.conf.Learners {
		pr := progress[id]
		l, seen := pl.learning[id]
		more, waits := false, false
		if t := r.transfer; t != nil && t.to == id {
			more = t.got > l.got
			l.got = max(l.got, t.got)
		} else {
			waits = t != nil && r.answers(id)
			if pr.State == tracker.StateReplicate {
				l.got = 0 // its next snapshot is another one
			}
		}
		if !seen || pr.State == tracker.StateReplicate || (more || waits) && !r.cfg.Bugs.Has(bug.SlowLearnersGo) {
			l.follows = r.now
		}
		if !seen || more || waits || r.ready(id, progress) || r.answers(id) && pr.Match > l.match {
			l.gotOn, l.match, l.excused = r.now, pr.Match, false
		}
		pl.learning[id] = l
	}
	for id := range pl.learning { // order-free: each is judged alone
		if !slices.Contains(r.conf.Learners, id) {
			delete(pl.learning, id)
		}
	}
}

func single(t raftpb.ConfChangeType, id uint64) *raftpb.ConfChangeSingle {
	return &raftpb.ConfChangeSingle{Type: t.Enum(), NodeId: proto.Uint64(id)}
}

// addLearner gives the shard a new replica, under an ID that it never used (P24).
func (r *Replica) addLearner(p Peer) {
	id := r.highest + 1
	if r.cfg.Bugs.Has(bug.NumbersComeBack) {
		id = slices.Max(r.known()) + 1
	}
	r.change([]*raftpb.ConfChangeSingle{single(raftpb.ConfChangeAddLearnerNode, id)}, map[uint64]Peer{id: p})
}

// swap changes the voters in one joint step. A leader never removes itself: it adds its
// successors, hands over, and is removed by the next one (P19).
func (r *Replica) swap(c placement.ChangeVoters) {
	var changes []*raftpb.ConfChangeSingle
	for _, id := range c.Promote {
		changes = append(changes, single(raftpb.ConfChangeAddNode, id))
	}
	for _, id := range c.Remove {
		changes = append(changes, single(raftpb.ConfChangeRemoveNode, id))
	}
	for _, id := range c.Demote {
		changes = append(changes, single(raftpb.ConfChangeAddLearnerNode, id))
	}
	next := slices.DeleteFunc(append(slices.Clone(r.conf.Voters), c.Promote...), func(id uint64) bool {
		return slices.Contains(c.Demote, id) || slices.Contains(c.Remove, id)
	})
	if !(r.heardMost(r.conf.Voters) && r.heardMost(next)) && !r.cfg.Bugs.Has(bug.ChangesAlone) {
		return
	}
	r.reign.placing.roused = 0
	r.change(changes, nil)
}

// heardMost reports whether a majority of voters, this replica among them, has answered
// since a change of voters was first wanted; the first question rouses them all. What is
// appended stays in the log, however little is known of the others when it is: it would be
// committed when some voter is back, perhaps the one that is to go, and the shard then
// need others that died meanwhile (P30).
func (r *Replica) heardMost(voters []uint64) bool {
	pl := &r.reign.placing
	if pl.roused == 0 || r.now-pl.roused > pl.patience {
		// Who is seldom heard gets more time, from the second question on.
		pl.patience = ElectionTimeout
		if pl.roused == 0 {
			pl.patience = answerTime
		}
		pl.roused, pl.rouse = r.now, true
	}
	return majority(voters, func(id uint64) bool { return id == r.cfg.ID || r.reign.heard[id] > pl.roused })
}

// change proposes a new configuration. The context says where new replicas live.
func (r *Replica) change(changes []*raftpb.ConfChangeSingle, added map[uint64]Peer) {
	if len(changes) > 1 && r.cfg.Bugs.Has(bug.ChangesInRow) {
		for i := range changes {
			r.change(changes[i:i+1], nil)
		}
		return
	}
	cc := &raftpb.ConfChangeV2{Changes: changes}
	if len(added) > 0 {
		cc.Context = wire.Append(nil, (*homes)(&added))
	}
	if err := r.rn.ProposeConfChange(cc); err != nil {
		if !errors.Is(err, raft.ErrProposalDropped) {
			r.log.Warn("change of replicas", "error", err)
		}
		return
	}
	r.reign.placing.pending, r.reign.placing.changed = true, r.now
}

// applyChange takes a committed configuration change.
func (r *Replica) applyChange(e *raftpb.Entry) {
	cc := &raftpb.ConfChangeV2{}
	if err := proto.Unmarshal(e.Data, cc); err != nil {
		r.stop(fmt.Errorf("configuration change: %w", err))
		return
	}
	var added homes
	if len(cc.Context) > 0 {
		if err := wire.Decode(cc.Context, &added); err != nil {
			r.stop(fmt.Errorf("configuration change: %w", err))
			return
		}
	}
	for id, p := range added { // order-free: one map is copied into another
		r.peers[id] = p
		r.highest = max(r.highest, id)
		delete(r.strangers, id)
	}
	r.configure(cc)
	r.young, r.blind = r.young[:0], false
	for _, id := range r.known() {
		if !r.configured(id) {
			if id != r.cfg.ID {
				r.gone = append(r.gone, Removed{Node: r.peers[id].Node, ID: id})
				r.young = append(r.young, id)
			}
			r.former = append(r.former, r.peers[id])
			delete(r.peers, id)
			delete(r.reign.heard, id)
		}
	}
	if r.cfg.Watch.Configured != nil {
		var all []Hosted
		for _, id := range r.known() {
			all = append(all, Hosted{r.peers[id], id})
		}
		r.cfg.Watch.Configured(r.applied, all)
	}
	r.declined = slices.DeleteFunc(r.declined, func(id uint64) bool { return !r.configured(id) })
	r.former = r.former[max(0, len(r.former)-maxFormer):]
	r.gone = r.gone[max(0, len(r.gone)-maxFormer):]
	r.reign.told = 0
	r.reign.seal = seal{}
	r.reign.placing.pending, r.reign.placing.rests = false, false
	r.reign.placing.hostAt = 0
	r.dirty = true
	r.log.Debug("replicas", "voters", r.conf.Voters, "outgoing", r.conf.VotersOutgoing, "learners", r.conf.Learners)
}

// configure lets raft count by a change from now on.
func (r *Replica) configure(cc *raftpb.ConfChangeV2) {
	if r.late != nil {
		r.conf, r.late = r.rn.ApplyConfChange(r.late), nil
	}
	if r.cfg.Bugs.Has(bug.LateConfiguration) && r.role != raft.StateLeader && len(cc.Changes) != 1 {
		r.late = cc
		return
	}
	r.conf = r.rn.ApplyConfChange(cc)
	if r.Joint() && r.cfg.Bugs.Has(bug.JointLeftEarly) {
		r.conf = r.rn.ApplyConfChange(&raftpb.ConfChangeV2{})
	}
}

func (r *Replica) configured(id uint64) bool {
	return r.mayVote(id) || slices.Contains(r.conf.Learners, id) || slices.Contains(r.conf.LearnersNext, id)
}

// emit adds to out what the replica wants of other nodes beside what raft does.
func (r *Replica) emit(out *Output) {
	out.Chunks, r.chunks = append(out.Chunks, r.chunks...), r.chunks[:0]
	out.Acks, r.acks = append(out.Acks, r.acks...), r.acks[:0]
	if r.asks {
		r.asks = false
		r.ask(out)
	}
	r.tellSum(out)
	pl := &r.reign.placing
	if !r.reign.serving {
		return
	}
	if len(r.gone) > 0 && r.now >= r.reign.tellAt && (r.sealed() || r.cfg.Bugs.Has(bug.EarlyFarewell)) {
		r.farewell(out)
	}
	if pl.offered == r.now && pl.offered != 0 {
		out.Offers = append(out.Offers, pl.offer)
	}
	if r.now >= pl.hostAt {
		pl.hostAt = r.now + hostInterval
		for _, id := range r.added() {
			if heard, ok := r.reign.heard[id]; !ok || r.now-heard > ElectionTimeout {
				out.Hosts = append(out.Hosts, Hosted{r.peers[id], id})
			}
		}
	}
}

// How often a leader tells a removed replica of its end, unasked, and how far apart.
const (
	farewells        = 5
	farewellInterval = time.Second
)

// farewell tells removed replicas of their end, so that they are destroyed. That must not
// be as soon as the leader has applied the change: others may not know yet that it is
// committed, and if the leader were lost then they would count votes of the removed ones
// too, and need them. So it waits for the seal, and a replica that is not told here, for
// its leader was lost before, hears it from the next one.
func (r *Replica) farewell(out *Output) {
	for _, g := range r.gone {
		g.Highest = r.highest
		out.Removed = append(out.Removed, g)
	}
	r.reign.tellAt = r.now + farewellInterval
	if r.reign.told++; r.reign.told >= farewells {
		r.gone = nil
	}
}

// ask sends others a word that costs nothing, and is answered to a replica that was removed:
// see Step. All whom it knows may be gone, or may not tell it: so it asks those as well whom
// the ring names now. If its node waits for it, to leave, it asks everybody: it may be a spare
// one that leads (P31).
func (r *Replica) ask(out *Output) {
	var others []Peer
	if !r.cfg.Bugs.Has(bug.AsksAcquaintances) {
		others = append(others, r.target.Nodes...)
		if r.leaving() {
			others = append(others, r.target.Standby...)
		}
	}
	for _, id := range r.known() {
		others = append(others, r.peers[id])
	}
	asked := map[uint64]bool{r.cfg.Self.Node: true}
	for _, p := range others {
		if asked[p.Node] {
			continue
		}
		asked[p.Node] = true
		r.sendTo(p.Node, &raftpb.Message{
			Type: raftpb.MsgHeartbeatResp.Enum(), From: proto.Uint64(r.cfg.ID), To: proto.Uint64(anybody), Term: proto.Uint64(r.term),
			Context: []byte(question),
		}, out)
	}
}

// anybody is no replica's ID. A question is for whatever replica its node has.
const anybody = maxID

// question is the context of what ask sends, which answers no heartbeat: the number of a
// ReadIndex round that there is not, for raft counts from one.
const question = "\x00\x00\x00\x00\x00\x00\x00\x00"

// mayTell reports whether a removed replica that speaks to this one may hear of its end:
// if a majority knows of it. A leader sees its seal; and a change of replicas is proposed
// by who has applied the one before, so that it is a seal of that one.
func (r *Replica) mayTell(id uint64) bool {
	if r.cfg.Bugs.Has(bug.EarlyFarewell) {
		return true
	}
	if r.reign.serving {
		return r.sealed()
	}
	return !r.blind && !slices.Contains(r.young, id)
}

// known returns the IDs of all replicas, ascending.
func (r *Replica) known() []uint64 {
	ids := make([]uint64, 0, len(r.peers))
	for id := range r.peers { // order-free: sorted below
		ids = append(ids, id)
	}
	slices.Sort(ids)
	return ids
}

// added returns the replicas that the founding act did not make, this one aside, ascending.
func (r *Replica) added() []uint64 {
	first := r.founders
	if r.cfg.Bugs.Has(bug.Amnesia) {
		first = 0
	}
	return slices.DeleteFunc(r.known(), func(id uint64) bool { return id <= first || id == r.cfg.ID })
}

// offer asks the node of a voter whether it would lead, with growing pauses. A leader that leaves does
// not wait for the answer, and asks soon again, however often it was refused before.
func (r *Replica) offer(to uint64) {
	pl := &r.reign.placing
	pause := pl.backoff
	if r.leaving() {
		pause = min(pause, firstBackoff)
	}
	if r.now-pl.offered < pause && pl.offered != 0 {
		return
	}
	pl.offered, pl.offer = r.now, Offer{r.peers[to].Node, r.term}
	if r.leaving() {
		pl.backoff = firstBackoff
		r.Handover(r.now, pl.offer.Node, pl.offer.Term)
		return
	}
	pl.backoff = min(max(2*pl.backoff, firstBackoff), longestOffers)
}

// stray hands leadership over though this replica shall lead, once in its reign (a fault point).
func (r *Replica) stray() {
	others := without(r.conf.Voters, r.cfg.ID)
	if pl := &r.reign.placing; pl.offered == 0 && len(others) > 0 && r.cfg.Points.Taken(point.StrayTransfer) {
		pl.offered = r.now - 1
		r.Handover(r.now, r.peers[others[0]].Node, r.term)
	}
}

// leaving reports whether the replica's node leaves.
func (r *Replica) leaving() bool { return r.target.liveness(r.cfg.Self.Node) == placement.Departed }

// Handover moves leadership to the voter at node, which said in term that it would lead.
func (r *Replica) Handover(now time.Duration, node, term uint64) {
	r.now = now
	if !r.reign.serving || r.term != term || r.Joint() {
		return
	}
	for _, id := range r.conf.Voters {
		if r.peers[id].Node == node && r.answers(id) {
			if r.cfg.Watch.HandsOver != nil {
				r.cfg.Watch.HandsOver(node)
			}
			r.bequeath()
			r.rn.TransferLeader(id)
			r.dirty = true
		}
	}
}

// homes are where replicas live. On the wire they are in the order of their IDs, four
// elements each.
type homes map[uint64]Peer

const maxHomes = 64

// Fields is their wire form, an array.
func (h *homes) Fields(c *wire.Codec) {
	ids := slices.Sorted(maps.Keys(*h))
	n := c.Array(4*len(ids), 4*maxHomes)
	c.Check(n%4 == 0, "part of a peer")
	if c.Reads() {
		ids, *h = make([]uint64, n/4), make(homes, n/4)
	}
	for _, id := range ids {
		p := (*h)[id]
		ReplicaID(c, &id)
		c.Uint(&p.Node, math.MaxUint64)
		c.String(&p.Name, shard.MaxName)
		c.String(&p.Addr, shard.MaxName)
		if c.Reads() {
			(*h)[id] = p
		}
	}
}
