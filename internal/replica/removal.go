package replica

import (
	"errors"
	"slices"
	"time"

	"go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"
)

// How often a leader tells a removed replica of its end, unasked, and how far apart.
const (
	farewellTimes    = 5
	farewellInterval = time.Second
)

// farewells are how removed replicas hear of their end, so that they are destroyed.
type farewells struct {
	gone []Hosted      // they may not know of it
	told int           // how often this leader told them
	next time.Duration // when they may hear of it again
}

// add takes in replicas that a change removed.
func (f *farewells) add(gone []Hosted) {
	f.gone = append(f.gone, gone...)
	f.gone = f.gone[max(0, len(f.gone)-maxFormer):]
	f.told = 0
}

// restart: this replica begins to lead, and tells them all again.
func (f *farewells) restart() { f.told, f.next = 0, 0 }

// due reports whether they are to hear of it.
func (f *farewells) due(now time.Duration) bool { return len(f.gone) > 0 && now >= f.next }

// tell returns the replicas that are to be told now.
func (f *farewells) tell(now time.Duration) []Hosted {
	told := f.gone
	f.next = now + farewellInterval
	if f.told++; f.told >= farewellTimes {
		f.gone = nil
	}
	return told
}

// farewell tells removed replicas of their end, once the change that removed them is sealed. Before
// that, others may not know that it is committed: if the leader were lost then, they would still count
// the votes of the removed, and need them. If the leader is lost before it tells a replica, the next
// leader does.
func (r *Replica) farewell(out *Output) {
	if !r.farewells.due(r.now) || !r.sealed() {
		return
	}
	for _, gone := range r.farewells.tell(r.now) {
		out.send(gone.Peer.Node, &Removed{r.cfg.Generation, gone.ID, r.members.highest})
	}
}

// mayTell reports whether a removed replica that speaks to this one may hear of its end. It may
// once a majority knows of it, which a leader sees by its seal.
func (r *Replica) mayTell(id uint64) bool {
	if r.Serving() {
		return r.sealed()
	}
	return r.members.removalKnown(id)
}

// anybody is no replica's ID. A question is for whatever replica its node has.
const anybody = maxID

// question is the context of what inquire sends, which answers no heartbeat: the number of a
// ReadIndex round that there is not, for raft counts from one.
const question = "\x00\x00\x00\x00\x00\x00\x00\x00"

// inquire asks others whether this replica is still one of the shard's, by a message that only a
// removed replica gets an answer to. The replicas that it knows may all be gone, or may not tell it,
// so it also asks the nodes where replicas are to be now.
func (r *Replica) inquire(out *Output) {
	others := slices.Clone(r.target.Nodes)
	for _, h := range r.members.hosted() {
		others = append(others, h.Peer)
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

// giveUp ends a replica that has received nothing of its shard, and hears from no other replica. Its
// leader may have removed it without reaching it, and those that do reach it must not tell it. Since
// it never confirmed an entry, it has no vote. A leader that still counts it hears that it is missing,
// and makes another one (P24).
func (r *Replica) giveUp() {
	r.stopped = errors.New("replica: received nothing since it was created")
	r.became()
	r.log.Info("this replica is given up: it has received nothing since it was created")
}
