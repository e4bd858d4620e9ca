// Package replica holds one member of a shard's raft group.
//
// A [Replica] wraps the shard's table into a replicated log: messages, ticks and commands go in,
// messages and events come out. While it leads it keeps the sessions' leases, confirms by rounds
// that it still leads, and brings the shard's replicas to where the ring wants them. It starts no
// goroutine, reads no clock, and sends nothing itself.
package replica

import (
	"errors"
	"fmt"
	"log/slog"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/raftpb"
	"go.etcd.io/raft/v3/tracker"
	"google.golang.org/protobuf/proto"

	"github.com/lockmesh/mesh/internal/bug"
	"github.com/lockmesh/mesh/internal/point"
	"github.com/lockmesh/mesh/internal/wire"
	"github.com/lockmesh/mesh/shard"
)

// The clockwork of a replica. Its owner calls Tick every TickInterval.
const (
	TickInterval    = 50 * time.Millisecond
	HeartbeatTicks  = 2
	electionTicks   = 20
	ElectionTimeout = electionTicks * TickInterval // E: a silent leader is given up after it

	// A tick that comes later than this after the last one was held up by a stall (P10). Those
	// of a busy host are late again and again, and time passes on it all the same. It is less
	// than a third of the shortest timer, which is what a stall leaves of one: see excused.
	stalledTick = 5 * TickInterval
)

const (
	maxBatch        = 128 << 10 // bytes of commands in one entry
	maxHeld         = 1 << 20   // bytes of clients' commands that wait while leadership moves
	maxAppend       = 256 << 10 // bytes of entries in one raft message
	maxUncommitted  = 16 << 20  // bytes that a leader holds for a majority that is away
	compactEntries  = 256       // applied entries after which the log is cut
	compactBytes    = 1 << 20   // of them
	keptEntries     = 64        // of a cut log, beside what followers that answer still need
	mostKept        = 16 << 20  // but no more bytes than this: a snapshot is better then, or nothing helps
	entryCost       = 128       // bytes of memory that an entry costs beside its data
	checkedEntries  = 4096      // replicas compare their tables this often (P41)
	entryVersion    = 1
	learnerPatience = time.Minute // a learner that gets nowhere for so long is removed (P40)

	// A learner that got no further for so long is passed over (P31). A silent node's
	// replicas are replaced as late: by then gossip has had its time to notice, and the
	// ring may name somebody else by itself.
	learnerGrace = 5 * time.Second
)

// Peer is where a replica lives.
type Peer struct {
	Node uint64
	Name string
	Addr string
}

// Config says which replica to make.
type Config struct {
	Shard      int
	Generation uint64
	ID         uint64 // this replica's, never used before in its shard
	Self       Peer
	// Founders are the shard's first replicas, voters unless they are Learners; nil if
	// this replica was added later and learns everything from a snapshot.
	Founders []uint64
	Learners []uint64
	Peers    map[uint64]Peer // where the founders live
	Founding shard.Founding
	Rho      float64 // the bound on clock rates: 0.01 means 1 %
	Seed     uint64
	Logger   *slog.Logger
	Bugs     bug.Set
	Points   *point.Points
	Watch    Watch
}

// Watch hears what a replica does, in simulations. Its functions may be nil.
type Watch struct {
	// Applied: an entry, the table's digest after it, and how many were told something of it
	// who had neither asked nor were granted anything.
	Applied func(index, digest uint64, unasked int)
	// Stepped: the table has taken in a command of that entry, before Applied, and tells this. The
	// events are to be read at once.
	Stepped func(index uint64, cmd shard.Command, told []shard.Event)
	// Became: its role, or the term of its role, is another one.
	Became func(term uint64, role string)
	// Served: it has begun to serve, or ceased to.
	Served func(serving bool)
	// HandsOver: it has begun to hand its office over.
	HandsOver func(node uint64)
	// Heard: as the leader it has taken a sign of life, from which the session's lease counts.
	Heard func(id shard.SessionID, ttl time.Duration)
	// Configured: after the entry at index the shard's replicas are these, by ID.
	Configured func(index uint64, replicas []Hosted)
	// Stopped: it stopped itself.
	Stopped func(err error)
}

// Replica is one member of a shard's raft group: the log, the table that it feeds,
// and, while it leads, the sessions' leases. It is sans-I/O: its owner brings
// messages, commands and ticks with the time, calls [Replica.Ready], and carries out
// the Output. One goroutine at a time may use it.
type Replica struct {
	cfg   Config
	log   *slog.Logger
	rn    *raft.RawNode
	store *raft.MemoryStorage
	table *shard.Table
	rand  *rand.Rand
	now   time.Duration // of the latest input

	conf      *raftpb.ConfState
	late      *raftpb.ConfChangeV2 // of the deliberate bug LateConfiguration: the latest change of voters
	peers     map[uint64]Peer      // replica ID -> where it lives; what the log says, as far as applied
	highest   uint64               // the highest replica ID that was ever configured (P24)
	strangers map[uint64]uint64    // replica ID -> node, of replicas that spoke and are not in peers yet

	applied      uint64
	appliedTerm  uint64
	appliedBytes int // since the log was cut
	cutAt        uint64
	logged       uint64     // bytes of all entries that were applied, with their cost
	cuts         []loggedAt // where the log was looked at, the latest last

	term uint64
	lead uint64
	role raft.StateType

	election election
	reign    reign
	transfer *transfer   // the snapshot that this replica sends
	incoming *incoming   // the snapshot that it receives
	whole    []*incoming // those that arrived whole, until raft has taken or left them
	former   []Peer      // voters that were removed, and may still be counted by some
	gone     []Removed   // replicas that were removed, and may not know of it: see farewell
	young    []uint64    // those that the last change removed
	declined []uint64    // learners that asked for no vote, for good
	blind    bool        // the last change came by a snapshot: it is not known whom it removed
	chunks   []Chunk     // of transfer, to be sent
	acks     []ChunkAck
	asks     bool // it wants to know whether it is still one of the shard's: see ask
	target   Target
	limited  bool
	founders uint64 // replicas up to this ID were made by the founding act (P26)
	sums     sums
	entries  uint64 // that this replica proposed
	commands uint64 // in them
	aligned  bool   // a leader's raft is ticked from a beat on
	told     told   // what Watch.Became heard last
	dirty    bool
	stopped  error
}

// loggedAt is how many bytes were logged up to an entry.
type loggedAt struct{ index, bytes uint64 }

// Output is what a replica wants done. Its owner carries it out and may then reuse it.
type Output struct {
	Frames  []Outgoing
	Events  []shard.Event // for the sessions' nodes; only from a serving leader
	Answers []Answer      // to renewals
	Dropped []Dropped
	Hosts   []Hosted  // replicas that shall be created
	Removed []Removed // replicas that may not know of their end
	Chunks  []Chunk
	Acks    []ChunkAck
	Sums    []Sum
	Offers  []Offer
	Serving bool // this replica has just begun to serve
}

// Outgoing is a raft message and where it goes.
type Outgoing struct {
	Node   uint64
	Urgent bool
	Frame  Frame
}

// Dropped is a command that was accepted and then not appended: it is to be sent to another leader.
type Dropped struct {
	Session shard.SessionID
	Number  uint64
}

// Hosted says that peer's node shall host replica ID of this shard.
type Hosted struct {
	Peer Peer
	ID   uint64
}

// Removed says that the node's replica ID is no longer one of this shard's.
type Removed struct {
	Node    uint64
	ID      uint64
	Highest uint64
}

// Reset empties out for its next use.
func (out *Output) Reset() {
	*out = Output{
		Frames: out.Frames[:0], Events: out.Events[:0], Answers: out.Answers[:0], Dropped: out.Dropped[:0],
		Hosts: out.Hosts[:0], Removed: out.Removed[:0], Chunks: out.Chunks[:0], Acks: out.Acks[:0],
		Sums: out.Sums[:0], Offers: out.Offers[:0],
	}
}

// firstIndex is the log index of the founding act: the snapshot from which every
// founder starts.
const firstIndex = 1

// New makes the replica that cfg describes.
func New(cfg Config, now time.Duration) *Replica {
	r := &Replica{
		cfg:       cfg,
		log:       cfg.Logger.With("shard", cfg.Shard, "replica", cfg.ID),
		store:     raft.NewMemoryStorage(),
		table:     shard.NewTable(cfg.Founding),
		rand:      rand.New(rand.NewPCG(cfg.Seed, uint64(cfg.Shard)<<32|cfg.ID)),
		now:       now,
		conf:      &raftpb.ConfState{},
		peers:     make(map[uint64]Peer),
		strangers: make(map[uint64]uint64),
	}
	if cfg.Founders != nil {
		for id, p := range cfg.Peers { // order-free: one map is copied into another
			r.peers[id] = p
			r.highest = max(r.highest, id)
		}
		r.founders = r.highest
		r.conf = &raftpb.ConfState{Voters: slices.Clone(cfg.Founders), Learners: slices.Clone(cfg.Learners)}
		err := r.store.ApplySnapshot(&raftpb.Snapshot{Metadata: &raftpb.SnapshotMetadata{
			ConfState: r.conf, Index: proto.Uint64(firstIndex), Term: proto.Uint64(1),
		}})
		if err != nil {
			panic(fmt.Sprintf("replica: founding snapshot: %v", err))
		}
		r.store.SetHardState(&raftpb.HardState{Term: proto.Uint64(1), Vote: proto.Uint64(0), Commit: proto.Uint64(firstIndex)})
		r.applied, r.appliedTerm, r.cutAt, r.term = firstIndex, 1, firstIndex, 1
	}
	settings := raft.Config{
		ID:                        cfg.ID,
		ElectionTick:              electionTicks,
		HeartbeatTick:             HeartbeatTicks,
		Storage:                   r.store,
		Applied:                   r.applied,
		MaxSizePerMsg:             maxAppend,
		MaxUncommittedEntriesSize: maxUncommitted,
		MaxInflightMsgs:           256,
		CheckQuorum:               !cfg.Bugs.Has(bug.OpenElections),
		PreVote:                   !cfg.Bugs.Has(bug.OpenElections),
		ReadOnlyOption:            raft.ReadOnlySafe,
		DisableProposalForwarding: true,
		StepDownOnRemoval:         true,
		Logger:                    quiet{r.log},

		DisableConfChangeValidation: cfg.Bugs.Has(bug.ChangesInRow),
	}
	r.squeeze(&settings)
	rn, err := raft.NewRawNode(&settings)
	if err != nil {
		panic(fmt.Sprintf("replica: raft's settings: %v", err))
	}
	r.rn = rn
	r.election.arm(r, now)
	if len(cfg.Founders) > 0 && cfg.Founders[0] == cfg.ID {
		r.election.campaign = now // the owner, at once: nobody led before
	}
	return r
}

// squeeze makes raft's settings small where a fault point is taken. Single entries and a window
// of one message together would be one entry per round trip, which is less than clients ask for
// again where links are slow: such a shard would never catch up.
func (r *Replica) squeeze(settings *raft.Config) {
	p := r.cfg.Points
	single := p.Taken(point.SmallAppends)
	if single {
		settings.MaxSizePerMsg, settings.MaxCommittedSizePerReady = 1, maxAppend
	}
	if p.Taken(point.SmallCommits) {
		settings.MaxCommittedSizePerReady = 1
	}
	if !single && p.Taken(point.FewInFlight) {
		settings.MaxInflightMsgs = 1
	}
	if p.Taken(point.FewUncommitted) {
		settings.MaxUncommittedEntriesSize = 512
	}
}

// ID returns the replica's ID in its shard.
func (r *Replica) ID() uint64 { return r.cfg.ID }

// Shard returns the number of the replica's shard.
func (r *Replica) Shard() int { return r.cfg.Shard }

// Fail stops the replica, after a panic in one of its methods for example.
func (r *Replica) Fail(err error) { r.stop(err) }

// Batches returns how many entries this replica proposed, and how many clients' commands
// were in them.
func (r *Replica) Batches() (entries, commands uint64) { return r.entries, r.commands }

// Revision returns the table's revision, as far as this replica has applied the log.
func (r *Replica) Revision() uint64 { return r.table.Revision() }

// Table returns the replica's table, to be read only.
func (r *Replica) Table() *shard.Table { return r.table }

// Generation returns the shard's generation: it grows when a lost majority is recovered.
func (r *Replica) Generation() uint64 { return r.cfg.Generation }

// Term returns the current term.
func (r *Replica) Term() uint64 { return r.term }

// Applied returns the index of the last entry that was applied.
func (r *Replica) Applied() uint64 { return r.applied }

// Leader returns where the leader lives, as far as this replica knows.
func (r *Replica) Leader() (Peer, bool) {
	p, ok := r.peers[r.lead]
	return p, ok && r.lead != 0
}

// Serving reports whether this replica leads and has applied an entry of its own term
// (P19): only then it takes commands and renewals.
func (r *Replica) Serving() bool { return r.reign.serving }

// Voters returns the replica IDs that elections count, in both halves of a joint
// configuration, ascending.
func (r *Replica) Voters() []uint64 {
	all := append(slices.Clone(r.conf.Voters), r.conf.VotersOutgoing...)
	slices.Sort(all)
	return slices.Compact(all)
}

// Configuration returns the nodes that vote in the two halves of the shard's
// configuration, as far as this replica has applied its log, and whether the log holds
// a change of voters that it has not applied: then also who votes after that. The second half
// is empty unless the voters change. A node that this replica does not know is zero.
func (r *Replica) Configuration() (incoming, outgoing, coming []uint64, unsettled bool) {
	nodes := func(ids []uint64) (nodes []uint64) {
		for _, id := range ids {
			nodes = append(nodes, r.peers[id].Node)
		}
		return nodes
	}
	last, _ := r.store.LastIndex()
	if last > r.applied {
		entries, err := r.store.Entries(r.applied+1, last+1, 1<<30)
		unsettled = err != nil || slices.ContainsFunc(entries, r.movesVoters)
		coming = nodes(r.after(entries))
	}
	return nodes(r.conf.Voters), nodes(r.conf.VotersOutgoing), coming, unsettled
}

// after returns who votes when these entries are applied.
func (r *Replica) after(entries []*raftpb.Entry) []uint64 {
	voters := slices.Clone(r.conf.Voters)
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

// movesVoters reports whether an entry of the log changes who votes, or ends such a
// change. Learners may come and go meanwhile.
func (r *Replica) movesVoters(e *raftpb.Entry) bool {
	if e.GetType() == raftpb.EntryNormal {
		return false
	}
	cc := &raftpb.ConfChangeV2{}
	if e.GetType() != raftpb.EntryConfChangeV2 || proto.Unmarshal(e.Data, cc) != nil {
		return true
	}
	voters := append(slices.Clone(r.conf.Voters), r.conf.VotersOutgoing...)
	return len(cc.Changes) == 0 || slices.ContainsFunc(cc.Changes, func(c *raftpb.ConfChangeSingle) bool {
		return c.GetType() == raftpb.ConfChangeAddNode || slices.Contains(voters, c.GetNodeId())
	})
}

// Joint reports whether the shard is changing its voters.
func (r *Replica) Joint() bool { return len(r.conf.VotersOutgoing) > 0 }

// Learners returns the replica IDs that follow without a vote.
func (r *Replica) Learners() []uint64 { return slices.Clone(r.conf.Learners) }

// Peer returns where a replica lives.
func (r *Replica) Peer(id uint64) (Peer, bool) {
	p, ok := r.peers[id]
	return p, ok
}

// Err returns why the replica stopped itself; nil while it works.
func (r *Replica) Err() error { return r.stopped }

// ErrNotServing: this replica does not lead, or not yet.
var ErrNotServing = errors.New("replica: not the leader")

// Step takes a raft message that came from node. If it came from a replica that does not
// know of its end, Step says so.
func (r *Replica) Step(now time.Duration, node uint64, f Frame) (removed *Removed) {
	r.now = now
	if r.stopped != nil || f.Generation != r.cfg.Generation {
		return nil
	}
	asks := string(f.Message.Context) == question
	if f.To != r.cfg.ID && !(asks && f.To == anybody) && !r.cfg.Bugs.Has(bug.MisdirectedFrames) {
		return nil
	}
	if _, known := r.peers[f.From]; !known && r.highest >= f.From && !r.cfg.Bugs.Has(bug.RemovedHeard) {
		if !r.mayTell(f.From) {
			return nil
		}
		return &Removed{Node: node, ID: f.From, Highest: r.highest}
	} else if !known {
		// It was added by an entry that this replica has yet to apply.
		r.strangers[f.From] = node
	}
	m := f.Message
	if asks && !r.cfg.Bugs.Has(bug.QuestionsAnswer) {
		return nil // it deposes nobody, and keeps nobody in office whom no majority hears
	}
	switch m.GetType() {
	case raftpb.MsgHeartbeat:
		// Raft panics on a commit beyond its log: the sender took us for another (P23).
		if last, _ := r.store.LastIndex(); m.GetCommit() > last && !r.cfg.Bugs.Has(bug.MisdirectedFrames) {
			return nil
		}
	case raftpb.MsgProp, raftpb.MsgReadIndex, raftpb.MsgReadIndexResp:
		return nil // nothing takes effect by being forwarded (P3)
	}
	if r.reign.serving && r.isAnswer(m) {
		r.reign.heard[f.From] = now
	}
	r.election.stepped(r, m)
	if err := r.rn.Step(m); err != nil && !errors.Is(err, raft.ErrStepPeerNotFound) {
		r.log.Debug("raft refused a message", "type", m.GetType(), "error", err)
	}
	r.dirty = true
	return nil
}

// Submit takes a client's command, raw being its wire form. It returns ErrNotServing
// if this replica cannot take it; otherwise the command is appended at the next Ready
// or comes back as Dropped.
func (r *Replica) Submit(now time.Duration, cmd shard.Command, raw []byte) error {
	r.now = now
	if !r.reign.serving {
		return ErrNotServing
	}
	id, number := shard.ClientOf(cmd)
	if !r.heardFrom(id) {
		return nil // expiring: no answer, as if it had come after (P4)
	}
	if len(r.reign.batch) >= maxHeld {
		return nil // nothing can be appended for now; its client asks again
	}
	if c, claims := cmd.(shard.Claim); claims && !r.cfg.Bugs.Has(bug.ClaimUnheard) {
		if r.cfg.Bugs.Has(bug.ClaimByOldLength) {
			c.Hold = 0
		}
		if l := r.reign.leases.get(id); l != nil && r.table.Expects(id, number) {
			l.claimed(r.now, c.Hold, number)
			r.heard(l)
		}
	}
	r.reign.batch = append(r.reign.batch, raw...)
	r.reign.batched = append(r.reign.batched, Dropped{id, number})
	r.reign.gathered(r.cfg.Points)
	if len(r.reign.batch) >= maxBatch {
		r.propose()
	}
	r.dirty = true
	return nil
}

// office appends a command of the leader's own.
func (r *Replica) office(cmd shard.Command) {
	r.reign.batch = shard.AppendCommand(r.reign.batch, cmd)
	r.reign.gathered(r.cfg.Points)
	r.dirty = true
}

// isAnswer reports whether who sent m has heard this leader. Who asks for votes has perhaps
// heard nothing for long.
func (r *Replica) isAnswer(m *raftpb.Message) bool {
	return m.GetTerm() == r.term && (m.GetType() == raftpb.MsgAppResp || m.GetType() == raftpb.MsgHeartbeatResp)
}

// Tick tells the replica that a TickInterval passed, or more: it counts as one tick, and
// after a stall some deadlines are moved (P10).
//
// Beat is true at every HeartbeatTicks-th tick, the same ones for all replicas of an owner.
func (r *Replica) Tick(now time.Duration, beat bool) {
	longest := stalledTick
	if r.cfg.Bugs.Has(bug.StallsAddUp) {
		longest = 2 * TickInterval
	}
	stall := time.Duration(0)
	if last := r.election.ticked; last != 0 && now-last > longest {
		stall = now - last - TickInterval
	}
	r.election.ticked = now
	r.now = now
	if r.stopped != nil {
		return
	}
	if stall > 0 {
		r.election.stalled(r, stall)
		if !r.cfg.Bugs.Has(bug.StallCounts) {
			r.stalled(stall)
		}
	}
	if r.role == raft.StateLeader {
		// All leaders of a lane beat at the same tick: one frame carries all heartbeats.
		if r.aligned = r.aligned || beat; r.aligned {
			r.rn.Tick()
		}
		r.dirty = true // whatever raft or supervise did
		if r.reign.serving {
			r.supervise()
		}
	} else {
		r.election.tick(r)
		r.sumTick()
	}
	r.transferTick()
}

// WakeAt returns when the replica wants a Wake beside its ticks.
func (r *Replica) WakeAt() time.Duration {
	if r.role == raft.StateLeader || r.stopped != nil {
		return never
	}
	return min(r.election.early, r.election.campaign)
}

// Wake tells the replica that the time of WakeAt has come.
func (r *Replica) Wake(now time.Duration) {
	r.now = now
	r.election.wake(r)
}

// Rests reports whether Ready would do nothing.
func (r *Replica) Rests() bool { return !r.dirty || r.stopped != nil }

// Ready appends what was submitted, steps raft until it rests, and adds to out what is
// to be done.
func (r *Replica) Ready(now time.Duration, out *Output) {
	r.now = now
	if r.Rests() {
		return
	}
	r.dirty = false
	r.propose()
	r.rise(out)
	r.readIndex()
	for r.rn.HasReady() && r.stopped == nil {
		rd := r.rn.Ready()
		r.take(rd, out)
		r.rn.Advance(rd)
		r.propose() // what applying made the leader say
		r.readIndex()
	}
	r.whole = nil
	r.redirect(out)
	r.emit(out)
	r.compact()
}

func (r *Replica) take(rd raft.Ready, out *Output) {
	if rd.HardState != nil && rd.HardState.GetTerm() != r.term {
		r.term = rd.HardState.GetTerm()
		r.election.newTerm(r)
	}
	if rd.SoftState != nil {
		r.lead, r.role = rd.SoftState.Lead, rd.SoftState.RaftState
		if r.role != raft.StateLeader {
			r.aligned = false
			r.abdicate(out)
		}
	}
	if !raft.IsEmptySnap(rd.Snapshot) {
		r.install(rd.Snapshot)
	}
	if len(rd.Entries) > 0 {
		if err := r.store.Append(rd.Entries); err != nil {
			panic(fmt.Sprintf("replica: append: %v", err))
		}
		if s := &r.reign.seal; r.reign.serving && s.index == 0 {
			s.index = rd.Entries[0].GetIndex()
		}
	}
	if !raft.IsEmptyHardState(rd.HardState) {
		r.store.SetHardState(rd.HardState)
	}
	for _, m := range rd.Messages {
		r.send(m, out)
	}
	for _, e := range rd.CommittedEntries {
		r.apply(e, out)
		if r.stopped != nil {
			return
		}
	}
	for _, rs := range rd.ReadStates {
		r.confirmed(rs.RequestCtx, out)
	}
	r.rise(out)
	r.became()
}

// rise lets a leader serve, if it may by now.
func (r *Replica) rise(out *Output) {
	switch {
	case r.role != raft.StateLeader || r.reign.serving || r.appliedTerm != r.term && !r.cfg.Bugs.Has(bug.ServeBeforeOwnTerm):
	case r.cfg.Points.Taken(point.LateAccession):
		r.dirty = true // raft may have nothing more to say
	default:
		r.accede(out)
	}
}

// told is what was said of a replica's role.
type told struct {
	term uint64
	role string
}

// became tells those who watch of another role.
func (r *Replica) became() {
	if r.cfg.Watch.Became == nil {
		return
	}
	now := told{r.term, "follower"}
	switch {
	case r.stopped != nil:
		now.role = "none"
	case r.role == raft.StateLeader:
		now.role = "leader"
	case r.role != raft.StateFollower:
		now.role = "candidate"
	case !r.mayVote(r.cfg.ID):
		now.role = "learner"
	}
	if now != r.told {
		r.told = now
		r.cfg.Watch.Became(now.term, now.role)
	}
}

func (r *Replica) send(m *raftpb.Message, out *Output) {
	to, ok := r.peers[m.GetTo()]
	if !ok {
		if to.Node, ok = r.strangers[m.GetTo()]; !ok {
			return
		}
	}
	switch m.GetType() {
	case raftpb.MsgSnap:
		r.beginTransfer(m, to)
		return
	case raftpb.MsgApp:
		// After each commit raft tells the followers at once, in an append of its own.
		// The next append or heartbeat tells them as well, and nobody waits for a
		// follower to apply: half of all messages are saved. Where the follower has
		// not confirmed what came before, an empty append is how a loss is found.
		if len(m.Entries) == 0 && r.confirmedUpTo(m.GetTo(), m.GetIndex()) {
			return
		}
	case raftpb.MsgVoteResp:
		if !m.GetReject() {
			r.election.voted(r)
		}
	}
	r.sendTo(to.Node, m, out)
}

// sendTo sends m to a node.
func (r *Replica) sendTo(node uint64, m *raftpb.Message, out *Output) {
	out.Frames = append(out.Frames, Outgoing{node, urgent(m), Frame{
		Generation: r.cfg.Generation, From: r.cfg.ID, To: m.GetTo(), Message: m,
	}})
}

// apply takes one committed entry.
func (r *Replica) apply(e *raftpb.Entry, out *Output) {
	r.applied, r.appliedTerm = e.GetIndex(), e.GetTerm()
	r.appliedBytes += len(e.Data)
	r.logged += uint64(len(e.Data)) + entryCost
	unasked := 0
	switch e.GetType() {
	case raftpb.EntryConfChange, raftpb.EntryConfChangeV2:
		r.applyChange(e)
	default:
		if len(e.Data) > 0 {
			var err error
			if unasked, err = r.applyBatch(e, out); err != nil {
				// A command that this version does not know. Skipping it would make
				// this table another one than its fellows' (P41).
				r.stop(fmt.Errorf("entry %d: %w", e.GetIndex(), err))
				return
			}
		}
	}
	if r.applied%checkedEntries == 0 || r.applied%8 == 0 && r.cfg.Points.Taken(point.CheckOften) {
		if r.sum(); r.stopped != nil {
			return
		}
	}
	if r.cfg.Watch.Applied != nil {
		r.cfg.Watch.Applied(r.applied, r.table.Digest(), unasked)
	}
}

// applyBatch takes the commands of an entry. It counts what the table says to others than
// those that sent them, beside grants (G3: one release wakes whom it lets in).
func (r *Replica) applyBatch(e *raftpb.Entry, out *Output) (unasked int, err error) {
	rd := wire.NewReader(e.Data)
	if v := rd.Uint(math.MaxUint64); rd.Err() == nil && v != entryVersion {
		return 0, fmt.Errorf("unknown version %d", v)
	}
	r.table.Enter(e.GetTerm(), time.Duration(rd.Uint(math.MaxInt64)))
	if e.GetTerm() == r.term {
		r.reign.flying = false
	}
	// Only the leader of the entry's own reign tells what comes of it. An older
	// entry's client asks again, and gets its answer from a confirmed leader (P6).
	told := &out.Events
	var unheard []shard.Event
	if !r.reign.serving && e.GetTerm() != r.term || r.role != raft.StateLeader {
		told = &unheard
	}
	for rd.Len() > 0 {
		cmd := shard.ReadCommand(rd)
		if rd.Err() != nil {
			return unasked, rd.Err()
		}
		if c, ok := cmd.(shard.Check); ok && c.Term == e.GetTerm() && !r.checked(c) {
			return unasked, errDiverged
		}
		first := len(*told)
		*told = r.table.Step(cmd, *told)
		if r.cfg.Watch.Applied != nil {
			unasked += max(0, answers((*told)[first:])-1)
		}
		if r.cfg.Watch.Stepped != nil {
			r.cfg.Watch.Stepped(r.applied, cmd, (*told)[first:])
		}
		if r.reign.serving {
			r.note((*told)[first:], out)
		}
	}
	return unasked, rd.Err()
}

// answers counts the events that answer a command.
func answers(events []shard.Event) (n int) {
	for _, e := range events {
		switch e.(type) {
		case shard.Queued, shard.Done, shard.Refused:
			n++
		}
	}
	return n
}

// stop ends this replica, and only it (P23, P41).
func (r *Replica) stop(err error) {
	r.stopped = err
	if r.reign.serving {
		r.served(false)
	}
	r.reign = reign{}
	if r.cfg.Watch.Stopped != nil {
		r.cfg.Watch.Stopped(err)
	}
	r.became()
	r.log.Error("the replica stops itself", "error", err)
}

// giveUp ends a replica that has got nothing of its shard, and hears of nobody: its leader
// may have taken it back without reaching it, and those who do reach it must not tell it. It
// has told nobody that it has anything, so that nobody gave it a vote. A leader that counts
// it still hears that it is missing, and makes another one (P24).
func (r *Replica) giveUp() {
	r.stopped = errors.New("nobody sent it anything")
	r.became()
	r.log.Info("a replica that got nothing is given up")
}

// compact cuts the log, never past what a snapshot under way stands on (P40), nor past what
// a follower that answers has yet to get; unless that would be more than mostKept. Who cannot
// be told as fast as the log grows gets its snapshot again, from further on.
func (r *Replica) compact() {
	early, kept := r.cfg.Points.Taken(point.CompactEarly), uint64(keptEntries)
	if r.applied-r.cutAt < compactEntries && r.appliedBytes < compactBytes && !early {
		return
	}
	if r.cfg.Points.Taken(point.KeepLittle) {
		kept = 1
	}
	if r.applied <= r.cutAt+kept || r.transfer != nil && r.cfg.Bugs.Has(bug.LogOutgrowsSnapshot) {
		return
	}
	to := r.applied - kept
	if r.role == raft.StateLeader {
		r.rn.WithProgress(func(id uint64, _ raft.ProgressType, pr tracker.Progress) {
			if pr.State == tracker.StateReplicate && r.answers(id) {
				to = min(to, pr.Match)
			}
		})
	}
	if r.transfer != nil {
		to = min(to, r.transfer.index)
	}
	if to = max(to, r.leastKept()); r.transfer != nil && to > r.transfer.index {
		r.endTransfer(raft.SnapshotFailure)
	}
	if _, err := r.store.CreateSnapshot(r.applied, r.conf, nil); err != nil && !errors.Is(err, raft.ErrSnapOutOfDate) {
		panic(fmt.Sprintf("replica: snapshot: %v", err))
	}
	if err := r.store.Compact(to); err != nil && !errors.Is(err, raft.ErrCompacted) {
		panic(fmt.Sprintf("replica: compact: %v", err))
	}
	r.cutAt, r.appliedBytes = r.applied, 0
}

// leastKept returns the last entry behind which there are more bytes in the log than are kept.
func (r *Replica) leastKept() (index uint64) {
	if n := len(r.cuts); n == 0 || r.logged-r.cuts[n-1].bytes >= mostKept/64 {
		r.cuts = append(r.cuts, loggedAt{r.applied, r.logged})
	}
	for r.logged-r.cuts[0].bytes > mostKept {
		index, r.cuts = r.cuts[0].index, r.cuts[1:]
	}
	return index
}

// quiet passes on what raft says of trouble. Its chatter about elections is ours to tell.
type quiet struct{ log *slog.Logger }

func (quiet) Debug(...any)            {}
func (quiet) Debugf(string, ...any)   {}
func (quiet) Info(...any)             {}
func (quiet) Infof(string, ...any)    {}
func (quiet) Warning(...any)          {}
func (quiet) Warningf(string, ...any) {}
func (q quiet) Error(v ...any)        { q.log.Warn("raft", "error", fmt.Sprint(v...)) }
func (q quiet) Errorf(f string, v ...any) {
	q.log.Warn("raft", "error", fmt.Sprintf(f, v...))
}
func (quiet) Fatal(v ...any)            { panic(fmt.Sprint(v...)) }
func (quiet) Fatalf(f string, v ...any) { panic(fmt.Sprintf(f, v...)) }
func (quiet) Panic(v ...any)            { panic(fmt.Sprint(v...)) }
func (quiet) Panicf(f string, v ...any) { panic(fmt.Sprintf(f, v...)) }
