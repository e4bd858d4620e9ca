package replica

import (
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"

	"github.com/lockmesh/mesh/internal/point"
)

// never is a time that does not come.
const never = time.Duration(1<<63 - 1)

// earlyStep is how far apart the replicas of a shard whose leader died campaign (P21).
const earlyStep = 20 * time.Millisecond

// earlyAsks is how long after its turn has come the first of them asks for votes, until it has them: who has not noticed yet
// that the leader is dead ignores the question. The others ask once, for votes are split when two ask at one moment.
var earlyAsks = [...]time.Duration{0, time.Millisecond, 5 * time.Millisecond}

// election is our own election timer (P20). Raft draws its timeouts from a source that
// nobody can seed, so it is ticked on leaders only; on all other replicas the leader's silence is
// counted here.
type election struct {
	rand      *rand.Rand
	contact   time.Duration // the last sign of this term's leader, a vote that was given, or the term's beginning
	campaign  time.Duration // when to stand for election, E to 2E after contact
	excused   bool          // a stall has moved contact and campaign since they were set
	forgot    bool          // the silent leader was given up
	early     time.Duration // when to campaign ahead of time; never: not planned
	asked     int           // index in earlyAsks of the next time
	earlyTerm uint64        // the term in which that was planned: once in each
}

// arm draws a new deadline, after a sign of this term's leader, a vote that was given, or a new term:
// its candidate deserves the time to win it.
func (e *election) arm(now time.Duration) {
	e.contact = now
	e.campaign = now + ElectionTimeout + time.Duration(e.rand.Int64N(int64(ElectionTimeout)))
	e.forgot, e.excused = false, false
	e.early = never
}

// stalled: the replica stood still for d. That moves its deadlines once after each sign of a
// leader, so that one which lives can be heard, and not by more than that takes (P10).
func (e *election) stalled(now, d time.Duration) {
	if by := excused(d, now-e.contact, ElectionTimeout); by > 0 && !e.excused {
		e.contact += by
		e.campaign += by
		e.excused = true
	}
}

// silent reports whether nothing was heard of a leader for that long, and it was not given up yet.
func (e *election) silent(now, length time.Duration) bool {
	return now-e.contact >= length && !e.forgot
}

// due reports whether it is time to stand. Deadlines are kept to the moment, not to the tick: of
// two followers whose ticks coincide one in twenty pairs would stand at once, and split the votes.
func (e *election) due(now time.Duration) bool { return now >= e.campaign }

// takeEarly reports whether it is time to stand ahead of time. Then early is when to do so again.
func (e *election) takeEarly(now time.Duration) bool {
	if now < e.early {
		return false
	}
	e.early = never
	if e.asked++; e.asked < len(earlyAsks) {
		e.early = now + earlyAsks[e.asked] - earlyAsks[e.asked-1]
	}
	return true
}

// stand draws the deadline of the next attempt, and returns for how long nothing was heard of a
// leader. The silence keeps counting. If patient is set, a stall may still be excused, unless one
// was since the leader was last heard: the leader of a non-voter may live, its messages unread after a
// stall. A voter that stands has no leader that could be heard late.
func (e *election) stand(now time.Duration, patient bool) (silence time.Duration) {
	contact, excused := e.contact, e.excused
	e.arm(now)
	e.contact, e.forgot = contact, true
	e.excused = excused || !patient
	return now - contact
}

// plan makes the replica stand ahead of time, after those of a lower rank, once in a term.
func (e *election) plan(now time.Duration, term uint64, rank int) {
	e.earlyTerm = term
	e.early, e.asked = now+time.Duration(rank)*earlyStep, 0
	if rank > 0 {
		e.asked = len(earlyAsks) - 1
	}
}

// stepRaft lets raft take a message. One of this term's leader is a sign of its life.
func (r *Replica) stepRaft(m *raftpb.Message) error {
	switch m.GetType() {
	case raftpb.MsgApp, raftpb.MsgHeartbeat, raftpb.MsgSnap:
		if m.GetTerm() == r.term && r.role != raft.StateLeader {
			r.election.arm(r.now)
		}
	}
	return r.rn.Step(m)
}

// electionTick is the part of a tick of a replica that does not lead.
func (r *Replica) electionTick() {
	rash := r.election.silent(r.now, ElectionTimeout/2) && r.cfg.Points.Taken(point.RashCampaign)
	if rash || r.election.silent(r.now, ElectionTimeout) {
		r.forgetLeader()
	}
	if rash || r.election.due(r.now) {
		r.stand()
	}
}

// hearCommit takes in up to which entry another replica has applied the log, as a pre-vote request and its answer say. Raft goes
// by a change of voters only once the entry is applied, and only a leader tells what is committed. So a replica with a change in
// its log may still go by the old voters, and win no election, while one that knows of the change has a shorter log, and wins none
// either (P30). An entry that is committed elsewhere, and is in this log with the same term, is committed here as well: TiKV's
// raft-rs does so in maybe_commit_by_vote.
func (r *Replica) hearCommit(index, term uint64) {
	now := r.rn.BasicStatus()
	stands := now.RaftState == raft.StatePreCandidate // no more, if the answer has lost it the pre-vote: then it waits for its next deadline
	switch {
	case now.Lead != raft.None:
		return
	case !stands && now.RaftState != raft.StateFollower:
		return
	case index <= now.GetCommit() || index > r.Last():
		return
	}
	if t, err := r.store.Term(index); err != nil || t != term {
		return
	}
	entries, err := r.store.Entries(now.GetCommit()+1, index+1, math.MaxUint64)
	if err != nil || !slices.ContainsFunc(entries, r.members.movedBy) {
		return // its votes count as they are
	}
	// For raft this is a snapshot of what it has already. It is from nobody: so raft follows nobody, and send drops raft's answer.
	err = r.rn.Step(&raftpb.Message{
		Type: raftpb.MsgSnap.Enum(), To: proto.Uint64(r.cfg.ID), Term: proto.Uint64(now.GetTerm()),
		Snapshot: &raftpb.Snapshot{Metadata: &raftpb.SnapshotMetadata{
			ConfState: r.members.conf, Index: proto.Uint64(index), Term: proto.Uint64(term),
		}},
	})
	switch {
	case err != nil:
		r.log.Debug("raft refused what is committed", "error", err)
	case stands && r.election.early == never: // raft gives a pre-vote up for any snapshot, and its votes were of the voters before
		r.election.campaign = r.now
	}
}

// forgetLeader gives up the silent leader, so that this replica's vote is free (P20).
func (r *Replica) forgetLeader() {
	r.election.forgot = true
	if err := r.rn.ForgetLeader(); err != nil {
		r.log.Debug("forgetting the leader failed", "error", err)
	}
	r.dirty = true
}

// stand campaigns, and asks whether this replica is still one of the shard's: one without a
// vote does only that.
func (r *Replica) stand() {
	if !r.election.forgot {
		r.forgetLeader() // no tick came between E and the deadline; a learner does not campaign, and would not forget
	}
	votes := r.members.votes(r.cfg.ID)
	silence := r.election.stand(r.now, !votes)
	if r.cfg.ID == 1 && r.term == 1 {
		// The shard was founded a moment ago, and the others may not know yet: there is
		// no leader to be patient with.
		r.election.campaign = r.now + 2*TickInterval
	}
	r.dirty = true
	// A replica that believes it has a vote asks, too: it may have been removed while it stood
	// still, and the leader may be none of those that it asks for votes.
	r.inquires = true
	if !votes {
		if r.Last() == 0 && silence >= learnerGrace {
			r.giveUp()
		}
	} else if err := r.rn.Campaign(); err != nil {
		r.log.Debug("campaign failed", "error", err)
	}
}

// NodeGone tells the replica that no process answers for node any more: a redial was
// refused, or another incarnation answered (P21). If the leader lived there, the
// replicas stand for election soon, in the order of the ring.
func (r *Replica) NodeGone(now time.Duration, node uint64) {
	r.now = now
	r.leading.contacts.forget(r.members.on(node)...)
	leader, ok := r.Leader()
	if !ok || leader.Node != node || r.role == raft.StateLeader || r.stopped != nil {
		return
	}
	r.forgetLeader()
	if !r.members.votes(r.cfg.ID) || r.election.earlyTerm == r.term {
		return
	}
	rank := r.target.rank(r.cfg.Self.Node, node)
	if r.cfg.Points.Taken(point.CampaignTogether) {
		rank = 0
	}
	r.election.plan(now, r.term, rank)
}

// WakeAt returns when the replica wants a Wake beside its ticks.
func (r *Replica) WakeAt() time.Duration {
	if r.role == raft.StateLeader || r.stopped != nil {
		return never
	}
	return min(r.election.early, r.election.campaign)
}

// Wake tells the replica that the time of WakeAt has come. It campaigns if it is time to.
func (r *Replica) Wake(now time.Duration) {
	r.now = now
	switch {
	case r.role == raft.StateLeader || r.stopped != nil:
	case r.election.due(r.now):
		r.stand()
	case r.election.takeEarly(r.now):
		again := r.election.early
		r.stand() // which forgets it
		r.election.early = again
	}
}
