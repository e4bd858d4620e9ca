package replica

import (
	"time"

	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/raftpb"

	"github.com/lockmesh/mesh/internal/bug"
	"github.com/lockmesh/mesh/internal/point"
)

// never is a time that does not come.
const never = time.Duration(1<<63 - 1)

// earlyStep is how far apart the replicas of a dead leader campaign (P21).
const earlyStep = 20 * time.Millisecond

// election is our own election timer (P20). Raft draws its timeouts from a source that
// nobody can seed, so it is ticked on leaders only; everybody else's silence is counted
// here.
type election struct {
	ticked    time.Duration // the last tick; zero before the first
	contact   time.Duration // the last sign of this term's leader, or of a vote
	campaign  time.Duration // when to stand for election, E to 2E after contact
	excused   bool          // a stall has moved both since they were set
	forgot    bool          // the silent leader was given up
	early     time.Duration // when to campaign ahead of time; never: not planned
	earlyTerm uint64        // the term in which that was planned: once in each
}

// arm draws a new deadline.
func (e *election) arm(r *Replica, now time.Duration) {
	e.contact = now
	e.campaign = now + ElectionTimeout + time.Duration(r.rand.Int64N(int64(ElectionTimeout)))
	e.forgot, e.excused = false, false
	e.early = never
}

// stepped looks at a message before raft takes it.
func (e *election) stepped(r *Replica, m *raftpb.Message) {
	switch m.GetType() {
	case raftpb.MsgApp, raftpb.MsgHeartbeat, raftpb.MsgSnap:
		if m.GetTerm() == r.term && r.role != raft.StateLeader {
			e.arm(r, r.now)
		}
	}
}

// newTerm: whoever made it deserves the time to win it.
func (e *election) newTerm(r *Replica) { e.arm(r, r.now) }

// voted: a real vote was granted.
func (e *election) voted(r *Replica) { e.arm(r, r.now) }

// stalled: this replica stood still for d. That moves its deadlines once after each sign of a
// leader, so that one which lives can be heard, and not by more than that takes (P10).
func (e *election) stalled(r *Replica, d time.Duration) {
	by := excused(d, r.now-e.contact, ElectionTimeout)
	switch {
	case r.cfg.Bugs.Has(bug.StallDelaysElections):
		by = d
	case r.cfg.Bugs.Has(bug.StallsAddUp):
		by = min(d, r.now-e.contact)
	case e.excused:
		return
	}
	if by > 0 {
		e.contact += by
		e.campaign += by
		e.excused = true
	}
}

func (e *election) tick(r *Replica) {
	silence := r.now - e.contact
	rash := silence >= ElectionTimeout/2 && !e.forgot && r.cfg.Points.Taken(point.RashCampaign)
	if (silence >= ElectionTimeout || rash) && !e.forgot {
		e.forget(r)
	}
	if r.now >= e.campaign || rash {
		e.stand(r)
	}
}

// forget gives up the silent leader, so that this replica's vote is free (P20).
func (e *election) forget(r *Replica) {
	e.forgot = true
	if err := r.rn.ForgetLeader(); err != nil {
		r.log.Debug("forget leader", "error", err)
	}
	r.dirty = true
}

// stand campaigns, and asks whether this replica is still one of the shard's: one without a
// vote does only that.
func (e *election) stand(r *Replica) {
	if !e.forgot {
		e.forget(r) // no tick came between E and the deadline; a learner does not campaign, and would not forget
	}
	contact, excused := e.contact, e.excused
	e.arm(r, r.now)
	e.contact, e.forgot = contact, true
	// Without a leader none can be heard late. A learner's may live, and wait to be read.
	e.excused = excused || r.mayVote(r.cfg.ID)
	if f := r.cfg.Founders; len(f) > 0 && f[0] == r.cfg.ID && r.term == 1 {
		// The shard was founded a moment ago, and the others may not know yet: there is
		// no leader to be patient with.
		e.campaign = r.now + 2*TickInterval
	}
	if r.cfg.Bugs.Has(bug.CampaignOnce) {
		e.campaign = never
	}
	r.dirty = true
	// Also one that has a vote, as far as it knows: it may have been removed while it stood
	// still, and the leader be none of those whom it asks for theirs.
	r.asks = !r.cfg.Bugs.Has(bug.WaitsForFarewell)
	if !r.mayVote(r.cfg.ID) {
		if last, _ := r.store.LastIndex(); last == 0 && r.now-contact >= learnerGrace && !r.cfg.Bugs.Has(bug.StrayStays) {
			r.giveUp()
		}
	} else if err := r.rn.Campaign(); err != nil {
		r.log.Debug("campaign", "error", err)
	}
}

// NodeGone tells the replica that no process answers for node any more: a redial was
// refused, or another incarnation answered (P21). If the leader lived there, the
// replicas stand for election at once, in the ring's order.
func (r *Replica) NodeGone(now time.Duration, node uint64) {
	r.now = now
	for id, p := range r.peers { // order-free: each is judged alone
		if p.Node == node {
			delete(r.reign.heard, id)
		}
	}
	leader, ok := r.Leader()
	if !ok || leader.Node != node || r.role == raft.StateLeader || r.stopped != nil || r.cfg.Bugs.Has(bug.WaitsForSilence) {
		return
	}
	e := &r.election
	e.forget(r)
	if !r.mayVote(r.cfg.ID) || e.earlyTerm == r.term {
		return
	}
	e.earlyTerm = r.term
	rank := 0
	for _, p := range r.target.Nodes {
		if p.Node == r.cfg.Self.Node {
			break
		}
		if p.Node != node {
			rank++
		}
	}
	if r.cfg.Points.Taken(point.CampaignTogether) {
		rank = 0
	}
	e.early = now + time.Duration(rank)*earlyStep
	if rank == 0 {
		e.wake(r)
	}
}

// wake campaigns if it is time to. Deadlines are kept to the moment, not to the tick: of
// two followers whose ticks coincide one in twenty pairs would stand at once, and split
// the votes.
func (e *election) wake(r *Replica) {
	if r.role == raft.StateLeader || r.stopped != nil {
		return
	}
	switch {
	case r.now >= e.campaign:
		e.stand(r)
	case r.now >= e.early:
		e.early = never
		if r.role == raft.StateFollower {
			e.stand(r)
		}
	}
}

// mayVote reports whether replica id is a voter, as far as this one has applied.
func (r *Replica) mayVote(id uint64) bool {
	for _, v := range r.conf.Voters {
		if v == id {
			return true
		}
	}
	for _, v := range r.conf.VotersOutgoing {
		if v == id {
			return true
		}
	}
	return false
}
