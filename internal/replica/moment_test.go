package replica

import (
	"slices"
	"testing"
	"time"

	"go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"

	"github.com/lockmesh/mesh/shard"
)

// What each limit does a nanosecond, or a byte, before it is reached, when it is reached, and one
// after: of a comparison, the case of equality.
func TestAtTheLimitItself(t *testing.T) {
	serving := func(t *testing.T) (*trio, *Replica) {
		w, leader := led(t)
		w.run(t, 2*HeartbeatTicks)
		return w, leader
	}
	follower := func(t *testing.T) *Replica {
		w, _ := serving(t)
		return w.replicas[1]
	}
	// leased returns a leader, and the only lease that it keeps.
	leased := func(t *testing.T) (*trio, *Replica, *lease) {
		w, leader := serving(t)
		a, raw := ask(1, "k")
		if err := leader.Submit(w.now, a, raw); err != nil {
			t.Fatal(err)
		}
		w.settle(t)
		leader.batch.data, leader.batch.clients = nil, nil
		return w, leader, leader.leading.leases.byID[a.Session]
	}
	// placed returns a leader with a learner that is to vote.
	placed := func(t *testing.T) (*trio, *Replica) {
		w, leader := serving(t)
		w.add(1)
		leader.addLearner(w.replicas[3].cfg.Self)
		w.run(t, 4*placeEvery)
		leader.SetTarget(targetOf(leader, 1, 2, 3, 4))
		leader.noteLearners(leader.progress())
		if !slices.Equal(leader.Learners(), []uint64{4}) {
			t.Fatalf("learners %v", leader.Learners())
		}
		return w, leader
	}
	tests := []struct {
		name    string
		at      bool // it happens at the limit already, and not only beyond it
		happens func(t *testing.T, off int) bool
	}{
		{"a silent leader is given up", true, func(t *testing.T, off int) bool {
			r := follower(t)
			r.election.contact, r.election.campaign = r.now, never
			r.now += ElectionTimeout + time.Duration(off)
			r.electionTick()
			return r.election.forgot
		}},
		{"a replica campaigns, at a tick", true, func(t *testing.T, off int) bool {
			r := follower(t)
			r.election.campaign = r.now
			r.now += time.Duration(off)
			r.electionTick()
			return r.inquires
		}},
		{"a replica campaigns, between two", true, func(t *testing.T, off int) bool {
			r := follower(t)
			r.election.campaign = r.now
			r.now += time.Duration(off)
			r.Wake(r.now)
			return r.inquires
		}},
		{"a replica campaigns ahead of time", true, func(t *testing.T, off int) bool {
			r := follower(t)
			r.election.early, r.election.campaign = r.now, never
			r.now += time.Duration(off)
			r.Wake(r.now)
			return r.inquires
		}},
		{"a replica that has nothing gives up", true, func(t *testing.T, off int) bool {
			r := newReplica(4, time.Second)
			r.election.contact = r.now
			r.now += learnerGrace + time.Duration(off)
			r.stand()
			return r.stopped != nil
		}},
		{"ticks are so far apart that there was a stall", false, func(t *testing.T, off int) bool {
			r := follower(t)
			r.election.contact, r.election.campaign = r.now-ElectionTimeout, time.Hour
			r.Tick(r.ticked+stalledTick+time.Duration(off), false)
			return r.election.excused
		}},
		{"a round gets no answer any more", true, func(t *testing.T, off int) bool {
			w, r := serving(t)
			r.leading.reads.rounds[99] = &round{begun: w.now}
			r.now = w.now + ElectionTimeout + time.Duration(off)
			r.supervise()
			return r.leading.reads.rounds[99] == nil
		}},
		{"leases are looked at", true, func(t *testing.T, off int) bool {
			w, r, l := leased(t)
			l.heard = w.now - l.ttl
			r.leading.leases.next = w.now
			r.now = w.now + time.Duration(off)
			r.supervise()
			return l.asked != 0
		}},
		{"a lease is over", true, func(t *testing.T, off int) bool {
			w, r, l := leased(t)
			l.checkpoint, l.heard = l.ttl, w.now-l.ttl-time.Duration(off)
			r.review()
			return len(r.leading.reads.waiting.expiries) == 1
		}},
		{"it is asked again whether it is", true, func(t *testing.T, off int) bool {
			w, r, l := leased(t)
			l.checkpoint, l.heard, l.asked = l.ttl, w.now-l.ttl, w.now-ElectionTimeout-time.Duration(off)
			r.review()
			return len(r.leading.reads.waiting.expiries) == 1
		}},
		{"a majority has confirmed that it is", true, func(t *testing.T, off int) bool {
			w, r, l := leased(t)
			l.heard = w.now - l.ttl - time.Duration(off)
			r.leading.reads.waiting.expiries, r.dirty = []shard.SessionID{l.id}, true
			w.settle(t)
			return l.expiring || !r.table.Has(l.id)
		}},
		{"a silence is logged", true, func(t *testing.T, off int) bool {
			w, r, l := leased(t)
			l.heard = w.now - l.ttl/2 - time.Duration(off)
			r.review()
			return l.checkpoint != 0
		}},
		{"a further silence is logged", true, func(t *testing.T, off int) bool {
			w, r, l := leased(t)
			l.checkpoint, l.heard = l.ttl/2, w.now-l.ttl*3/4-time.Duration(off)
			r.review()
			return l.checkpoint != l.ttl/2
		}},
		{"a silence is left to the next leader", true, func(t *testing.T, off int) bool {
			w, r, l := leased(t)
			l.heard = w.now - unlogged - time.Duration(off)
			r.recordSilence()
			return l.checkpoint != 0
		}},
		{"what is left of a silence is", true, func(t *testing.T, off int) bool {
			w, r, l := leased(t)
			l.checkpoint, l.heard = ttl/2, w.now-ttl/2-unlogged-time.Duration(off)
			r.recordSilence()
			return l.checkpoint != ttl/2
		}},
		{"a young table settles", true, func(t *testing.T, off int) bool {
			w, r := serving(t)
			r.table = shard.NewTable(shard.Founding{Settles: r.leading.base + w.now - r.leading.began - time.Duration(off)})
			r.supervise()
			return r.leading.settleAt != 0
		}},
		{"and again", true, func(t *testing.T, off int) bool {
			w, r := serving(t)
			was := w.now - ElectionTimeout - time.Duration(off)
			r.table, r.leading.settleAt = shard.NewTable(shard.Founding{Settles: 1}), was
			r.supervise()
			return r.leading.settleAt != was
		}},
		{"a young table's time is logged", true, func(t *testing.T, off int) bool {
			w, r := serving(t)
			r.table = shard.NewTable(shard.Founding{Settles: time.Hour})
			before := r.Applied()
			r.leading.timeAt, r.dirty = w.now-quietTimeEvery-time.Duration(off), true
			w.settle(t)
			return r.Applied() != before
		}},
		{"the removed are told again", true, func(t *testing.T, off int) bool {
			w, r := serving(t)
			r.farewells.gone, r.farewells.next = []Hosted{{Peer{Node: 9}, 9}}, w.now-time.Duration(off)
			var out Output
			r.emit(&out)
			told := sent[*Removed](&out)
			if len(told) == 1 && *told[0] != (Removed{Generation: 1, ID: 9, Highest: 3}) {
				t.Errorf("it is told %+v", told[0])
			}
			return len(told) == 1
		}},
		{"the removed are told no more", true, func(t *testing.T, off int) bool {
			w, r := serving(t)
			r.farewells.gone, r.farewells.told = []Hosted{{Peer{Node: 9}, 9}}, farewellTimes-1+off
			r.farewells.tell(w.now)
			return r.farewells.gone == nil
		}},
		{"who answered does not any more", false, func(t *testing.T, off int) bool {
			w, r := serving(t)
			r.leading.contacts.heard[2] = w.now - answerTime - time.Duration(off)
			return !r.answers(2)
		}},
		{"a change of replicas that is not applied is no longer waited for", true, func(t *testing.T, off int) bool {
			w, r := placed(t)
			r.leading.placing.pending, r.leading.placing.rests, r.leading.placing.changed = true, false, w.now-2*ElectionTimeout-time.Duration(off)
			r.place()
			return !r.leading.placing.pending
		}},
		{"a shard at rest is looked at", true, func(t *testing.T, off int) bool {
			_, r := placed(t)
			r.leading.placing.rests, r.leading.placing.skipped = true, placeEvery-1+off
			r.place()
			return r.leading.placing.skipped == 0
		}},
		{"a learner is stuck", false, func(t *testing.T, off int) bool {
			w, r := placed(t)
			l := r.leading.learners[4]
			l.progressed = w.now - learnerGrace - time.Duration(off)
			r.leading.learners[4] = l
			return r.leading.learners.stuck(4, r.now)
		}},
		{"a learner has too little for a vote", false, func(t *testing.T, off int) bool {
			w, r := placed(t)
			r.leading.contacts.heard[4] = w.now
			pr := r.progress()[4]
			pr.Match = r.applied.index
			r.applied.index += uint64(caughtUp + off)
			return !r.ready(4, pr)
		}},
		{"those whom a change needs are asked again", false, func(_ *testing.T, off int) bool {
			c := contacts{asked: time.Hour, patience: time.Second}
			return c.ask(time.Hour + time.Second + time.Duration(off))
		}},
		{"they have answered", false, func(_ *testing.T, off int) bool {
			c := contacts{before: 7, rounds: map[uint64]uint64{2: uint64(7 + off)}, heard: map[uint64]time.Duration{2: time.Hour}}
			return c.answered(2, time.Hour)
		}},
		{"their answers do not count any more", false, func(_ *testing.T, off int) bool {
			c := contacts{rounds: map[uint64]uint64{2: 1}, heard: map[uint64]time.Duration{2: time.Hour}}
			return !c.answered(2, time.Hour+ElectionTimeout+time.Duration(off))
		}},
		{"where one votes alone, the other one has spoken", false, func(_ *testing.T, off int) bool {
			c := contacts{asked: time.Hour, heard: map[uint64]time.Duration{2: time.Hour + time.Duration(off)}}
			return c.spoke(2)
		}},
		{"a new replica is ordered again", true, func(t *testing.T, off int) bool {
			w, r := placed(t)
			delete(r.leading.contacts.heard, 4)
			r.leading.placing.hostAt = w.now - time.Duration(off)
			var out Output
			r.emit(&out)
			return len(sent[*Host](&out)) == 1
		}},
		{"a silent one is", false, func(t *testing.T, off int) bool {
			w, r := placed(t)
			r.leading.contacts.heard[4], r.leading.placing.hostAt = w.now-ElectionTimeout-time.Duration(off), 0
			var out Output
			r.emit(&out)
			return len(sent[*Host](&out)) == 1
		}},
		{"leadership is offered again", true, func(t *testing.T, off int) bool {
			w, r := placed(t)
			slices.Reverse(r.target.Nodes[:2])
			was := w.now - time.Second - time.Duration(off)
			r.leading.offers.made, r.leading.offers.backoff = was, time.Second
			r.offer(2)
			return r.leading.offers.made != was
		}},
		{"no more commands are held", true, func(t *testing.T, off int) bool {
			w, r, l := leased(t)
			r.batch.data = make([]byte, maxHeld+off)
			c := shard.Close{Session: l.id, Number: 9}
			if err := r.Submit(w.now, c, shard.AppendCommand(nil, c)); err != nil {
				t.Fatal(err)
			}
			return len(r.batch.clients) == 0 && len(r.batch.data) == maxHeld+off
		}},
		{"a batch is as long as an entry", true, func(t *testing.T, off int) bool {
			_, r, _ := leased(t)
			r.batch.data = make([]byte, maxBatch+off)
			r.batch.split()
			return len(r.batch.pieces) == 1
		}},
		{"a snapshot is given up", true, func(t *testing.T, off int) bool {
			w, r := serving(t)
			r.beginTransfer(&raftpb.Message{Type: raftpb.MsgSnap.Enum(), To: proto.Uint64(3), From: proto.Uint64(1), Term: proto.Uint64(r.term)}, Peer{Node: 103})
			r.now = w.now + giveUpAfter + time.Duration(off)
			r.transferTick()
			return r.sender.transfer == nil
		}},
		{"a chunk is sent again", true, func(t *testing.T, off int) bool {
			w, r := serving(t)
			r.beginTransfer(&raftpb.Message{Type: raftpb.MsgSnap.Enum(), To: proto.Uint64(3), From: proto.Uint64(1), Term: proto.Uint64(r.term)}, Peer{Node: 103})
			r.now = w.now + resendAfter + time.Duration(off)
			r.transferTick()
			return len(r.sender.sends) == 2
		}},
		{"a chunk takes too long for one more", false, func(t *testing.T, off int) bool {
			w, r := serving(t)
			r.beginTransfer(&raftpb.Message{Type: raftpb.MsgSnap.Enum(), To: proto.Uint64(3), From: proto.Uint64(1), Term: proto.Uint64(r.term)}, Peer{Node: 103})
			tr := r.sender.transfer
			tr.quickest = 2 * time.Millisecond
			tr.flight = append(tr.flight, flying{Chunk: Chunk{Number: 1}})
			r.Receive(w.now+2*tr.quickest+time.Duration(off), 0, &ChunkAck{Generation: 1, From: 3, To: 1, Transfer: tr.head.Transfer, Next: 1})
			return tr.window == 1
		}},
		{"the leader hears of a digest again", true, func(t *testing.T, off int) bool {
			r := follower(t)
			r.sums.kept, r.sums.told = []checksum{{8, 8}}, r.now-ElectionTimeout-time.Duration(off)
			return r.sums.overdue(r.now)
		}},
		{"the log is cut, for its entries", true, func(t *testing.T, off int) bool {
			w, r := serving(t)
			w.work(t, compactEntries)
			r.applied.bytes, r.applied.cutAt = 0, r.applied.index-uint64(compactEntries+off)
			r.compact()
			return r.applied.cutAt == r.applied.index
		}},
		{"the log is cut, for its bytes", true, func(t *testing.T, off int) bool {
			w, r := serving(t)
			w.work(t, compactEntries)
			r.applied.cutAt, r.applied.bytes = r.applied.index-compactEntries+1, compactBytes+off
			r.compact()
			return r.applied.cutAt == r.applied.index
		}},
		{"there is enough of it to cut", false, func(t *testing.T, off int) bool {
			w, r := serving(t)
			w.work(t, 2*keptEntries)
			r.applied.cutAt, r.applied.bytes = r.applied.index-uint64(keptEntries+off), compactBytes
			r.compact()
			return r.applied.cutAt == r.applied.index
		}},
		{"a heartbeat's commit is beyond the log, and it counts for nothing", false, func(t *testing.T, off int) bool {
			r := follower(t)
			last, err := r.store.LastIndex()
			if err != nil {
				t.Fatal(err)
			}
			m := &raftpb.Message{
				Type: raftpb.MsgHeartbeat.Enum(), From: proto.Uint64(1), To: proto.Uint64(2), Term: proto.Uint64(r.term),
				Commit: proto.Uint64(last + uint64(off)),
			}
			now := r.now + TickInterval
			r.Receive(now, 101, &Frame{Generation: 1, From: 1, To: 2, Message: m})
			if r.Err() != nil {
				t.Errorf("it stops itself: %v", r.Err())
			}
			return r.election.contact != now
		}},
		{"a stranger is one that was removed", true, func(t *testing.T, off int) bool {
			_, r := serving(t)
			r.members.highest = uint64(9 + off)
			m := &raftpb.Message{Type: raftpb.MsgHeartbeatResp.Enum(), From: proto.Uint64(9), To: proto.Uint64(1), Term: proto.Uint64(r.term)}
			return r.Receive(r.now, 109, &Frame{Generation: 1, From: 9, To: 1, Message: m}) != nil
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			for off, want := range map[int]bool{-1: false, 0: tt.at, 1: true} {
				if got := tt.happens(t, off); got != want {
					t.Errorf("%d beyond the limit: %v, want %v", off, got, want)
				}
			}
		})
	}
}
