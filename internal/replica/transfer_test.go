package replica

import (
	"fmt"
	"testing"
	"time"

	"go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"

	"github.com/lockmesh/mesh/internal/wire"
	"github.com/lockmesh/mesh/shard"
)

// narrow returns a shard with a table of more than a megabyte, and learners that are to get it:
// so many chunks of it arrive in a second.
func narrow(t *testing.T, perSecond, learners int) (*trio, *Replica) {
	t.Helper()
	w, leader := led(t)
	w.run(t, 2*HeartbeatTicks)
	w.add(learners + 1)
	w.fill(t, leader)
	for _, l := range leader.leading.leases.byID {
		l.ttl = time.Hour // nobody renews it
	}
	second, passed := w.now, 0
	w.misses = func(Chunk) bool {
		if w.now-second >= time.Second {
			second, passed = w.now, 0
		}
		passed++
		return passed > perSecond
	}
	target := targetOf(leader, 1, 2, 3)
	target.Nodes = append(target.Nodes, peersOf(4, 5)[:learners]...)
	leader.SetTarget(target)
	return w, leader
}

// Promise: G6, P40: a learner gets its snapshot, and its vote, however long that takes; so does one that has to wait
// for that.
func TestASlowLearnerGetsItsVote(t *testing.T) {
	for learners := 1; learners <= 2; learners++ {
		w, leader := narrow(t, 1, learners)
		start := w.now
		for n := 0; !leader.AtRest(); n++ {
			if w.run(t, 1); n > 10*int(time.Minute/TickInterval) {
				t.Fatalf("voters %v, learners %v", leader.Voters(), leader.Learners())
			}
		}
		if took := w.now - start; took < time.Duration(learners)*time.Minute {
			t.Errorf("the snapshots took %v: nobody had to wait", took)
		}
		if got := leader.Voters(); len(got) != 3+learners || leader.members.highest != uint64(len(got)) {
			t.Errorf("voters %v, and replicas up to %d", got, leader.members.highest)
		}
	}
}

// Promise: G6, P40: a learner whose snapshot begins again and again, and never gets further, is stuck.
func TestALearnerThatGetsNowhereIsStuck(t *testing.T) {
	w, leader := narrow(t, 10, 1)
	most := uint64(0)
	w.misses = func(c Chunk) bool {
		most = max(most, c.Number)
		return c.Number >= 20
	}
	for most < 20 {
		w.run(t, 1)
	}
	if leader.leading.learners.stuck(4, w.now) {
		t.Error("it counts as stuck while it gets on")
	}
	w.run(t, graceTicks+2*placeEvery)
	if !leader.leading.learners.stuck(4, w.now) || leader.Moving() {
		t.Error("it counts as one that gets on")
	}
}

// Promise: P40: a snapshot that takes longer than the log can wait for is given up, and the log is cut.
func TestTheLogDoesNotOutgrowASnapshot(t *testing.T) {
	w, leader := narrow(t, 1, 1)
	for leader.sender.transfer == nil || leader.sender.transfer.got == 0 {
		w.run(t, 1)
	}
	number := leader.sender.transfer.head.Transfer
	size := func() (bytes uint64) {
		first, err := leader.store.FirstIndex()
		if err != nil {
			t.Fatal(err)
		}
		entries, err := leader.store.Entries(first, leader.applied.index+1, 1<<40)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			bytes += uint64(len(e.Data)) + entryCost
		}
		return bytes
	}
	first, _ := leader.store.FirstIndex()
	same := 0
	for n := uint64(0); leader.applied.logged < 3*mostKept; n++ {
		a, _ := ask(1000+n, fmt.Sprint("k", n%400))
		a.Try = true // refused, and in the log
		if err := leader.Submit(w.now, a, shard.AppendCommand(nil, a)); err != nil {
			t.Fatal(err)
		}
		if w.settle(t); n%8 == 0 {
			w.run(t, 1)
		}
		if now, _ := leader.store.FirstIndex(); leader.sender.transfer != nil && leader.sender.transfer.head.Transfer == number {
			same++
			if now > leader.sender.transfer.index+1 {
				t.Fatalf("the log begins at %d, and the snapshot under way is of %d", now, leader.sender.transfer.index)
			}
		}
	}
	if size() >= mostKept+2*compactBytes {
		t.Errorf("the log has %d bytes, and began at entry %d", size(), first)
	}
	if same < 3000 { // 16 MiB of them
		t.Errorf("the snapshot was given up after %d entries", same)
	}
}

// How a sender goes by the receiver's acks: of a link that carries one chunk in so long.
func TestChunksGoAtThePaceOfTheLink(t *testing.T) {
	for _, tt := range []struct {
		each, latency time.Duration // of a chunk
		most, least   int           // how many are on their way at a time, at most
		again         int           // how many chunks are sent more than once
	}{
		{0, time.Millisecond, chunkWindow, 32, 0}, // the table has no more chunks
		{0, 400 * time.Millisecond, chunkWindow, 32, 0},
		{131 * time.Millisecond, time.Millisecond, 6, 2, 0}, // 1 Mbit/s
		{131 * time.Millisecond, 200 * time.Millisecond, 12, 3, 0},
		{800 * time.Millisecond, 20 * time.Millisecond, 6, 2, 2}, // 160 kbit/s
		{2 * time.Second, 20 * time.Millisecond, 6, 2, 4},        // 64 kbit/s
	} {
		t.Run(fmt.Sprint(tt.each, " ", tt.latency), func(t *testing.T) {
			w, leader := narrow(t, 0, 1)
			for leader.sender.transfer == nil {
				w.run(t, 1)
			}
			number := leader.sender.transfer.head.Transfer
			type event struct {
				at  time.Duration
				ack uint64
			}
			var acks []event
			busy, next, away, again := w.now, uint64(0), 0, 0
			seen := make(map[uint64]bool)
			send := func() {
				for _, s := range leader.sender.sends {
					c := s.Message.(*Chunk)
					if seen[c.Number] {
						again++
					}
					seen[c.Number] = true
					busy = max(busy, w.now) + tt.each
					if c.Number == next {
						next++
					}
					acks = append(acks, event{busy + tt.latency, next})
				}
				leader.sender.sends = nil
			}
			for end := w.now + 10*time.Minute; w.now < end; w.now += time.Millisecond {
				send()
				for len(acks) > 0 && acks[0].at <= w.now {
					leader.Receive(w.now, 0, &ChunkAck{Generation: 1, From: 4, To: 1, Transfer: number, Next: acks[0].ack})
					acks = acks[1:]
					send()
				}
				if leader.sender.transfer == nil || leader.sender.transfer.head.Transfer != number {
					break
				}
				away = max(away, leader.sender.transfer.away)
				if w.now/time.Millisecond%50 == 0 {
					leader.now = w.now
					leader.transferTick()
				}
			}
			if leader.sender.transfer != nil {
				t.Fatalf("the snapshot is not through: %d chunks of %d are away", leader.sender.transfer.away, len(leader.sender.transfer.flight))
			}
			if away > tt.most || away < tt.least || again > tt.again {
				t.Errorf("%d chunks were on their way, and %d sent again; want %d to %d, and at most %d again", away, again, tt.least, tt.most, tt.again)
			}
		})
	}
}

// Promise: G6, P40: while a snapshot is sent, the other learners wait. So it ends at once if its receiver is
// gone, however slow that was before.
func TestASnapshotForOneThatIsGoneEnds(t *testing.T) {
	for _, missing := range []bool{true, false} {
		w, leader := narrow(t, 1, 2)
		for leader.sender.transfer == nil || leader.sender.transfer.gap < time.Second {
			w.run(t, 1)
		}
		s := leader.sender.transfer
		s.gap = longestGap
		id := s.head.To
		if w.cut[id] = true; missing {
			leader.missing(100+id, id)
		}
		w.run(t, 2)
		if ended := leader.sender.transfer != s; ended != missing {
			t.Errorf("its node says that it is missing: %v; the snapshot has ended: %v", missing, ended)
		}
	}
}

// A snapshot that raft does not take leaves no table in memory. Its chunks are acknowledged still.
func TestALeftSnapshotIsForgotten(t *testing.T) {
	message, err := proto.Marshal(&raftpb.Message{
		Type: raftpb.MsgSnap.Enum(), From: proto.Uint64(1), To: proto.Uint64(2),
		Snapshot: &raftpb.Snapshot{Metadata: &raftpb.SnapshotMetadata{
			ConfState: &raftpb.ConfState{Voters: []uint64{1, 2}}, Index: proto.Uint64(9), Term: proto.Uint64(3),
		}},
	})
	if err != nil {
		t.Fatal(err)
	}
	data, _ := shard.NewTable(shard.Founding{}).Cut().Next(chunkBytes)
	meta := wire.Append(nil, &snapshotMeta{message: message, history: history{homes: homes{1: {}, 2: {}}, highest: 2}})
	rc, chunk := receiver{self: 2}, Chunk{From: 1, To: 2, Transfer: 5, Data: data, Meta: meta}
	if whole, _, err := rc.add(1, chunk); whole == nil || rc.incoming.table == nil {
		t.Fatalf("%v, error %v", whole, err)
	}
	rc.decided()
	if rc.incoming.table != nil {
		t.Error("its table is kept")
	}
	if whole, taken, err := rc.add(1, chunk); whole != nil || !taken || err != nil || len(rc.acks) != 2 {
		t.Errorf("its chunk again: %v, taken: %v, error %v; %d acks", whole, taken, err, len(rc.acks))
	}
}

// Promise: G6, P40: a snapshot that did not arrive is sent once more.
// Method: all chunks are lost until the leader has given up.
func TestALostSnapshotIsSentAnew(t *testing.T) {
	w, leader := narrow(t, 0, 1)
	w.misses = func(Chunk) bool { return true }
	for leader.sender.transfer == nil {
		w.run(t, 1)
	}
	first := leader.sender.transfer.head.Transfer
	for n := 0; leader.sender.transfer != nil && leader.sender.transfer.head.Transfer == first; n++ {
		if w.run(t, 1); n > 2*int(giveUpAfter/TickInterval) {
			t.Fatal("it is not given up")
		}
	}
	w.misses = nil
	if w.run(t, graceTicks); !leader.AtRest() {
		t.Errorf("learners %v, and another snapshot is under way: %v", leader.Learners(), leader.sender.transfer != nil)
	}
}
