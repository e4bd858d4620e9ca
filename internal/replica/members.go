package replica

import (
	"maps"
	"math"
	"slices"

	"go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"

	"github.com/lockmesh/mesh/internal/env"
	"github.com/lockmesh/mesh/internal/wire"
	"github.com/lockmesh/mesh/shard"
	"github.com/lockmesh/mesh/transport"
)

// maxFormer is how many former voters a replica remembers, and how many removed replicas are to hear of their
// removal.
const maxFormer = 16

// members are the replicas of a shard, as far as one of them has applied the log: which of them
// vote, where each lives, and which were removed.
type members struct {
	self            uint64
	conf            *raftpb.ConfState // to be read only; its Voters remain when a change of voters is over
	peers           map[uint64]Peer   // replica ID -> where it lives
	unconfirmed     map[uint64]uint64 // replica ID -> node, of replicas that spoke and are not in peers yet
	highest         uint64            // the highest replica ID that was ever configured (P24)
	founders        uint64            // replicas up to this ID are the generation's first ones (C2)
	former          []Peer            // of replicas whose votes some voters may still count
	justRemoved     []uint64          // those that the last change removed
	removalsUnknown bool              // the last change came by a snapshot: it is not known which replicas it removed
}

// newMembers returns the members that cfg founds a shard with, or none.
func newMembers(cfg *Config) members {
	m := members{self: cfg.ID, conf: &raftpb.ConfState{}, peers: make(map[uint64]Peer), unconfirmed: make(map[uint64]uint64)}
	for i, p := range cfg.Founders {
		id := uint64(i + 1)
		m.peers[id] = p
		m.conf.Voters = append(m.conf.Voters, id)
		m.highest, m.founders = id, id
	}
	return m
}

// voters returns the replicas that elections count, in both halves of a joint configuration,
// ascending.
func (m *members) voters() []uint64 {
	all := append(slices.Clone(m.conf.Voters), m.conf.VotersOutgoing...)
	slices.Sort(all)
	return slices.Compact(all)
}

// joint reports whether the voters are being changed.
func (m *members) joint() bool { return len(m.conf.VotersOutgoing) > 0 }

// votes reports whether replica id is a voter.
func (m *members) votes(id uint64) bool {
	return slices.Contains(m.conf.Voters, id) || slices.Contains(m.conf.VotersOutgoing, id)
}

func (m *members) configured(id uint64) bool {
	return m.votes(id) || slices.Contains(m.conf.Learners, id)
}

// agree reports whether is holds for a majority of the voters, in each half of a joint
// configuration.
func (m *members) agree(is func(id uint64) bool) bool {
	return majority(m.conf.Voters, is) && majority(m.conf.VotersOutgoing, is)
}

// majority reports whether is holds for more than half of voters, or there are none.
func majority(voters []uint64, is func(id uint64) bool) bool {
	n := 0
	for _, id := range voters {
		if is(id) {
			n++
		}
	}
	return len(voters) == 0 || n > len(voters)/2
}

// address returns where to send what is for replica id. Of one that only spoke, the node is known.
func (m *members) address(id uint64) (p Peer, known bool) {
	if p, known = m.peers[id]; !known {
		p.Node, known = m.unconfirmed[id]
	}
	return p, known
}

// meet notes that replica id spoke from node. One that is not known was added by an entry
// that this replica has yet to apply.
func (m *members) meet(id, node uint64) {
	if _, known := m.peers[id]; !known {
		m.unconfirmed[id] = node
	}
}

// removed reports whether replica id was one of the shard's, and is none any more.
func (m *members) removed(id uint64) bool {
	_, known := m.peers[id]
	return !known && m.highest >= id
}

// removalKnown reports whether a majority knows that replica id was removed, as far as a follower
// can tell: a leader proposes a change of replicas only after it has applied the one before.
func (m *members) removalKnown(id uint64) bool {
	return !m.removalsUnknown && !slices.Contains(m.justRemoved, id)
}

// known returns the IDs of all replicas, ascending.
func (m *members) known() []uint64 { return slices.Sorted(maps.Keys(m.peers)) }

// on returns the replicas that live on node, ascending.
func (m *members) on(node uint64) []uint64 {
	return slices.DeleteFunc(m.known(), func(id uint64) bool { return m.peers[id].Node != node })
}

// hosted returns where all replicas live, by ID.
func (m *members) hosted() (all []Hosted) {
	for _, id := range m.known() {
		all = append(all, Hosted{m.peers[id], id})
	}
	return all
}

// placed returns the same for an observer.
func (m *members) placed() (all []env.Placed) {
	for _, h := range m.hosted() {
		all = append(all, env.Placed{ID: h.ID, Node: transport.ID(h.Peer.Node)})
	}
	return all
}

// added returns the replicas that are not the generation's first ones, this one aside, by ID.
func (m *members) added() []Hosted {
	if m.highest == m.founders {
		return nil
	}
	return slices.DeleteFunc(m.hosted(), func(h Hosted) bool { return h.ID <= m.founders || h.ID == m.self })
}

// next returns the ID of the next replica. The shard never used it (P24).
func (m *members) next() uint64 { return m.highest + 1 }

// counted returns where the replicas live that some voter may count in an election: those that
// vote now, and if former is set also those that lost their votes a moment ago.
func (m *members) counted(former bool) []Peer {
	all := make([]Peer, 0, len(m.former)+len(m.conf.Voters)+len(m.conf.VotersOutgoing))
	if former {
		all = append(all, m.former...)
	}
	for _, id := range m.conf.Voters {
		all = append(all, m.peers[id])
	}
	for _, id := range m.conf.VotersOutgoing {
		if !slices.Contains(m.conf.Voters, id) {
			all = append(all, m.peers[id])
		}
	}
	return all
}

// change takes over a configuration that the log committed, and where its new replicas live. It
// returns the other replicas that it removed.
func (m *members) change(conf *raftpb.ConfState, added map[uint64]Peer) (removed []Hosted) {
	for id, p := range added { // order-free: one map is copied into another
		m.peers[id] = p
		m.highest = max(m.highest, id)
		delete(m.unconfirmed, id)
	}
	voters := m.voters()
	m.conf = conf
	for _, id := range voters {
		if p, known := m.peers[id]; known && !m.votes(id) {
			m.former = append(m.former, p)
		}
	}
	m.justRemoved, m.removalsUnknown = m.justRemoved[:0], false
	for _, id := range m.known() {
		if m.configured(id) {
			continue
		}
		if id != m.self {
			removed = append(removed, Hosted{m.peers[id], id})
			m.justRemoved = append(m.justRemoved, id)
		}
		delete(m.peers, id)
	}
	m.former = m.former[max(0, len(m.former)-maxFormer):]
	return removed
}

// restore takes over what a snapshot says.
func (m *members) restore(conf *raftpb.ConfState, h *history) {
	m.conf, m.peers, m.highest, m.founders = conf, h.homes, h.highest, h.founders
	m.justRemoved, m.removalsUnknown = nil, true
	clear(m.unconfirmed)
}

// history returns what a snapshot has to say.
func (m *members) history() history { return history{m.peers, m.highest, m.founders} }

// nodes returns the nodes of replicas; zero for one that is not known.
func (m *members) nodes(ids []uint64) []uint64 {
	nodes := make([]uint64, len(ids))
	for i, id := range ids {
		nodes[i] = m.peers[id].Node
	}
	return nodes
}

// after returns which replicas vote when these entries are applied.
func (m *members) after(entries []*raftpb.Entry) []uint64 {
	voters := slices.Clone(m.conf.Voters)
	for _, e := range entries {
		cc := &raftpb.ConfChangeV2{}
		if e.GetType() != raftpb.EntryConfChangeV2 || proto.Unmarshal(e.Data, cc) != nil {
			continue
		}
		for _, c := range cc.Changes {
			voters = slices.DeleteFunc(voters, func(id uint64) bool { return id == c.GetNodeId() })
			if c.GetType() == raftpb.ConfChangeAddNode {
				voters = append(voters, c.GetNodeId())
			}
		}
	}
	return voters
}

// movedBy reports whether an entry of the log changes which replicas vote, or ends such a change.
// Learners may come and go meanwhile.
func (m *members) movedBy(e *raftpb.Entry) bool {
	if e.GetType() == raftpb.EntryNormal {
		return false
	}
	cc := &raftpb.ConfChangeV2{}
	if e.GetType() != raftpb.EntryConfChangeV2 || proto.Unmarshal(e.Data, cc) != nil {
		return true
	}
	return len(cc.Changes) == 0 || m.revotes(cc.Changes)
}

// revotes reports whether changes give a vote or take one: a voter that is to be a learner loses it.
func (m *members) revotes(changes []*raftpb.ConfChangeSingle) bool {
	return slices.ContainsFunc(changes, func(c *raftpb.ConfChangeSingle) bool {
		return c.GetType() == raftpb.ConfChangeAddNode || m.votes(c.GetNodeId())
	})
}

// history is what members cannot be told of by a configuration alone.
type history struct {
	homes             homes
	highest, founders uint64
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
