// Package replica holds one member of a shard's raft group.
//
// A [Replica] wraps the shard's table into a replicated log: messages, ticks and commands go in,
// messages and events come out. While it leads it keeps the sessions' leases, confirms by rounds
// that it still leads, and brings the shard's replicas to where they are to be. It starts no
// goroutine, reads no clock, and sends nothing itself.
//
// (P12), (C8) and the like are rules in PROTOCOL.md. ARCHITECTURE.md defines the terms, also E and ρ.
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

	"github.com/lockmesh/mesh/internal/env"
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
)

const (
	maxAppend      = 256 << 10 // bytes of entries in one raft message
	maxUncommitted = 16 << 20  // bytes that a leader holds for a majority that is away
	keptEntries    = 64        // of a cut log, beside what followers that answer still need
	entryVersion   = 1
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
	// Founders are where the shard's first replicas live, whose IDs are 1, 2 and so on. All of them vote; the first stands for
	// election first, and is another node from shard to shard. Nil if this replica was added later and learns everything from a snapshot.
	Founders []Peer
	Founding shard.Founding
	Rho      float64 // the bound on clock rates: 0.01 means 1 %
	Seed     uint64
	Logger   *slog.Logger
	Counters *Counters // which several replicas may share
	Points   point.Points
	Watch    func(fact any) // hears in simulations what the replica does: see env.Observer; nil in programs
}

// Replica is one member of a shard's raft group: the log, the table that it feeds,
// and, while it leads, the sessions' leases. It is sans-I/O: its owner brings
// messages, commands and ticks with the time, calls [Replica.Ready], and carries out
// the Output. One goroutine at a time may use it.
//
// It composes its parts, which know next to nothing of each other: it passes on what
// comes from outside, and what raft says, to the parts concerned, and does what they ask for.
type Replica struct {
	cfg   Config
	log   *slog.Logger
	rn    *raft.RawNode
	store *raft.MemoryStorage
	table *shard.Table
	rand  *rand.Rand
	now   time.Duration // of the latest input

	term uint64
	lead uint64
	role raft.StateType

	floor     uint64          // the highest revision that clients know of, as its owner has heard
	calm      bool            // the table need be quiet no longer
	above     uint64          // the table is to go on above it; zero: wherever it is
	members   members         // the shard's replicas
	applied   appliedLog      // how far the log was applied
	election  election        // when to stand for election
	leading   leadership      // what it knows only while it serves as the leader
	batch     batch           // what it is about to append
	sender    sender          // the snapshot that it sends
	receiver  receiver        // the snapshots that it receives
	sums      sums            // the digests of its table
	farewells farewells       // replicas that are to hear of their removal
	ticked    time.Duration   // when it was ticked last; zero: never
	target    Target          // where the shard's replicas are to be
	targets   int             // how many targets it was told
	limited   bool            // too many shards are moving already
	wasLate   time.Duration   // when it handed over because it was late; zero: never
	vanished  map[uint64]bool // replicas whose nodes have said that they are gone for good

	inquires bool       // it wants to know whether it is still one of the shard's: see inquire
	aligned  bool       // a leader's raft is ticked from a beat on
	told     env.Became // what Watch heard last of the role
	dirty    bool       // Ready has something to do
	stopped  error
}

// Output is what a replica wants done. Its owner carries it out and may then reuse it.
type Output struct {
	Sends   []Send        // in this order
	Events  []shard.Event // for the sessions' nodes; only from a serving leader
	Answers []Answer      // to renewals; and unasked, of what is broken (P49)
	Views   []View        // to queries
	Led     []Led         // to observers of elections
	States  []State       // to questions what is known of keys
	Dropped []Dropped
	Serving bool // this replica has just begun to serve
}

// Send is a message about the shard's replicas, and the node to which it goes.
type Send struct {
	Node    uint64
	Message wire.Message
}

// Dropped is a command that was accepted and then not appended: it is to be sent to another leader.
type Dropped struct {
	Session shard.SessionID
	Number  uint64
}

// Hosted is a replica of the shard, and where it lives.
type Hosted struct {
	Peer Peer
	ID   uint64
}

// Reset empties out for its next use.
func (out *Output) Reset() {
	*out = Output{
		Sends: out.Sends[:0], Events: out.Events[:0], Answers: out.Answers[:0], Views: out.Views[:0], Led: out.Led[:0], States: out.States[:0], Dropped: out.Dropped[:0],
	}
}

// send adds a message for a node.
func (out *Output) send(node uint64, m wire.Message) {
	out.Sends = append(out.Sends, Send{node, m})
}

// firstIndex is the log index of what a generation begins with: the snapshot from which every
// founder starts.
const firstIndex = 1

// New makes the replica that cfg describes.
func New(cfg Config, now time.Duration) *Replica {
	random := rand.New(rand.NewPCG(cfg.Seed, uint64(cfg.Shard)<<32|cfg.ID))
	r := &Replica{
		cfg:      cfg,
		log:      cfg.Logger.With("shard", cfg.Shard, "replica", cfg.ID),
		store:    raft.NewMemoryStorage(),
		table:    shard.NewTable(cfg.Founding),
		rand:     random,
		now:      now,
		members:  newMembers(&cfg),
		election: election{rand: random},
		batch:    batch{points: cfg.Points, counters: cfg.Counters},
		receiver: receiver{generation: cfg.Generation, self: cfg.ID, founding: cfg.Founding},
		vanished: make(map[uint64]bool),
	}
	if cfg.Founders != nil {
		err := r.store.ApplySnapshot(&raftpb.Snapshot{Metadata: &raftpb.SnapshotMetadata{
			ConfState: r.members.conf, Index: proto.Uint64(firstIndex), Term: proto.Uint64(1),
		}})
		if err != nil {
			panic(fmt.Sprintf("replica: founding snapshot: %v", err))
		}
		r.store.SetHardState(&raftpb.HardState{Term: proto.Uint64(1), Vote: proto.Uint64(0), Commit: proto.Uint64(firstIndex)})
		r.applied.restore(firstIndex, 1)
		r.term = 1
	}
	rn, err := raft.NewRawNode(r.settings())
	if err != nil {
		panic(fmt.Sprintf("replica: raft's settings: %v", err))
	}
	r.rn = rn
	r.election.arm(now)
	if cfg.ID == 1 {
		r.election.campaign = now // at once: nobody led before
	}
	return r
}

// settings returns how raft is to work.
func (r *Replica) settings() *raft.Config {
	settings := &raft.Config{
		ID:                        r.cfg.ID,
		ElectionTick:              electionTicks,
		HeartbeatTick:             HeartbeatTicks,
		Storage:                   r.store,
		Applied:                   r.applied.index,
		MaxSizePerMsg:             maxAppend,
		MaxUncommittedEntriesSize: maxUncommitted,
		MaxInflightMsgs:           256,
		CheckQuorum:               true,
		PreVote:                   true,
		ReadOnlyOption:            raft.ReadOnlySafe,
		DisableProposalForwarding: true,
		StepDownOnRemoval:         true,
		// Most of what raft says is about elections, which a replica reports by itself. Its panics stay.
		Logger: &raft.DefaultLogger{Logger: slog.NewLogLogger(slog.DiscardHandler, slog.LevelDebug)},
	}
	squeeze(settings, r.cfg.Points)
	return settings
}

// squeeze makes raft's settings small where a fault point is taken. Single entries and a window
// of one message together would be one entry per round trip, which is less than clients ask for
// again where links are slow: such a shard would never catch up.
func squeeze(settings *raft.Config, p point.Points) {
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

// Revision returns the table's revision, as far as this replica has applied the log.
func (r *Replica) Revision() uint64 { return r.table.Revision() }

// Table returns the replica's table, to be read only.
func (r *Replica) Table() *shard.Table { return r.table }

// Generation returns the name of the shard's generation: see core.Generation.
func (r *Replica) Generation() uint64 { return r.cfg.Generation }

// Term returns the current term.
func (r *Replica) Term() uint64 { return r.term }

// Applied returns the index of the last entry that was applied.
func (r *Replica) Applied() uint64 { return r.applied.index }

// Last returns the index of the last entry of the log.
func (r *Replica) Last() uint64 {
	last, _ := r.store.LastIndex()
	return last
}

// Leader returns where the leader lives, and whether this replica knows that.
func (r *Replica) Leader() (Peer, bool) {
	p, ok := r.Peer(r.lead)
	return p, ok && r.lead != 0
}

// Serving reports whether this replica leads and has applied an entry of its own term
// (P19): only then it takes commands and renewals.
func (r *Replica) Serving() bool { return r.leading.serving }

// Voters returns the replica IDs that elections count, in both halves of a joint
// configuration, ascending.
func (r *Replica) Voters() []uint64 { return r.members.voters() }

// Configuration returns the nodes that vote in the two halves of the shard's
// configuration, as far as this replica has applied its log, and whether the log holds
// a change of voters that it has not applied. Coming are the nodes that vote once all of the log is
// applied; nil if all is. The second half is empty unless the voters change. A node that this replica does not know is zero.
func (r *Replica) Configuration() (incoming, outgoing, coming []uint64, unsettled bool) {
	m := &r.members
	entries, unsettled := r.unapplied()
	if len(entries) > 0 {
		coming = m.nodes(m.after(entries))
	}
	return m.nodes(m.conf.Voters), m.nodes(m.conf.VotersOutgoing), coming, unsettled
}

// unapplied returns the entries of the log that are not applied, and whether they may change the voters.
func (r *Replica) unapplied() (entries []*raftpb.Entry, moves bool) {
	last := r.Last()
	if last <= r.applied.index {
		return nil, false
	}
	entries, err := r.store.Entries(r.applied.index+1, last+1, 1<<30)
	return entries, err != nil || slices.ContainsFunc(entries, r.members.movedBy)
}

// Joint reports whether the shard is in a joint configuration, as far as this replica has applied the log.
func (r *Replica) Joint() bool { return r.members.joint() }

// Learners returns the replica IDs that follow without a vote.
func (r *Replica) Learners() []uint64 { return slices.Clone(r.members.conf.Learners) }

// Peer returns where a replica lives, and whether that is known.
func (r *Replica) Peer(id uint64) (Peer, bool) {
	p, known := r.members.peers[id]
	return p, known
}

// Err returns why the replica stopped itself; nil while it works.
func (r *Replica) Err() error { return r.stopped }

// ErrNotServing: this replica does not lead, or not yet.
var ErrNotServing = errors.New("replica: not the leader")

// Receive takes a message that came from node. The answer, if there is one, is to go there at once.
func (r *Replica) Receive(now time.Duration, node uint64, m wire.Message) (answer wire.Message) {
	r.now = now
	if r.stopped != nil {
		return nil
	}
	switch m := m.(type) {
	case *Frame:
		return r.step(node, *m)
	case *Chunk:
		r.addChunk(node, *m)
	case *ChunkAck:
		r.ack(*m)
	case *Sum:
		r.hearSum(node, *m)
	case *Missing:
		if m.Generation == r.cfg.Generation {
			r.missing(node, m.ID)
		}
	case *Accept:
		r.handover(node, m.Term)
	}
	return nil
}

// step takes a raft message that came from node. If it came from a replica that does not
// know of its end, the answer says so.
func (r *Replica) step(node uint64, f Frame) (answer wire.Message) {
	if f.Generation != r.cfg.Generation {
		return nil
	}
	asks := string(f.Message.Context) == question
	if f.To != r.cfg.ID && !(asks && f.To == anybody) {
		return nil
	}
	if r.members.removed(f.From) {
		if !r.mayTell(f.From) {
			return nil
		}
		return &Removed{Generation: r.cfg.Generation, ID: f.From, Highest: r.members.highest}
	}
	r.members.meet(f.From, node)
	m := f.Message
	if asks {
		return nil // it must not depose a leader, nor keep one that no majority hears
	}
	switch m.GetType() {
	case raftpb.MsgHeartbeat:
		// Raft panics on a commit beyond its log: the sender took us for another (P23).
		if m.GetCommit() > r.Last() {
			return nil
		}
	case raftpb.MsgProp, raftpb.MsgReadIndex, raftpb.MsgReadIndexResp:
		return nil // nothing takes effect by being forwarded (P3)
	}
	if r.Serving() && r.isAnswer(m) {
		r.leading.contacts.hear(f.From, r.now)
		if round, asked := roundOf(m); asked {
			r.leading.contacts.answer(f.From, round, r.now)
		}
	}
	if err := r.stepRaft(m); err != nil && !errors.Is(err, raft.ErrStepPeerNotFound) {
		r.log.Debug("raft refused a message", "type", m.GetType(), "error", err)
	}
	switch m.GetType() {
	case raftpb.MsgPreVote:
		r.hearCommit(m.GetCommit(), m.GetRejectHint())
	case raftpb.MsgPreVoteResp:
		r.hearCommit(m.GetCommit(), m.GetLogTerm())
	}
	r.dirty = true
	return nil
}

// isAnswer reports whether m shows that its sender hears this leader. A candidate may have heard
// nothing for long.
func (r *Replica) isAnswer(m *raftpb.Message) bool {
	return m.GetTerm() == r.term && (m.GetType() == raftpb.MsgAppResp || m.GetType() == raftpb.MsgHeartbeatResp)
}

// Tick tells the replica that a TickInterval passed, or more: it counts as one tick, and
// after a stall some deadlines are moved (P10).
//
// Beat is true at every HeartbeatTicks-th tick, the same ones for all replicas of an owner.
func (r *Replica) Tick(now time.Duration, beat bool) {
	last := r.ticked
	r.now, r.ticked = now, now
	if r.stopped != nil {
		return
	}
	if last != 0 && now-last > stalledTick {
		stall := now - last - TickInterval
		r.election.stalled(now, stall)
		r.stalled(stall)
	}
	if r.role == raft.StateLeader {
		// All leaders of a node beat at the same tick: one frame carries all heartbeats.
		if r.aligned = r.aligned || beat; r.aligned {
			r.rn.Tick()
		}
		r.dirty = true // whatever raft or supervise did
		if r.Serving() {
			r.supervise()
		}
	} else {
		r.electionTick()
		if r.lead != 0 && r.members.votes(r.cfg.ID) && r.sums.overdue(now) {
			r.sums.fresh, r.dirty = true, true
		}
	}
	r.transferTick()
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
	r.bequeath()
	if r.Serving() {
		r.reviewBreaches(out)
	}
	r.propose()
	r.serve(out)
	r.readIndex()
	for r.rn.HasReady() && r.stopped == nil {
		rd := r.rn.Ready()
		r.take(rd, out)
		r.rn.Advance(rd)
		r.propose() // what applying made the leader say
		r.readIndex()
	}
	r.tellObservers(out)
	r.receiver.decided()
	r.emit(out)
	r.compact()
}

// take carries out what one Ready of raft says: it notes term and role, stores the snapshot and the
// entries, sends the messages, applies the committed entries, and ends the confirmed rounds. Once the
// replica has stopped itself, nothing more is applied.
func (r *Replica) take(rd raft.Ready, out *Output) {
	if rd.HardState != nil && rd.HardState.GetTerm() != r.term {
		r.term = rd.HardState.GetTerm()
		r.election.arm(r.now)
	}
	if rd.SoftState != nil {
		r.lead, r.role = rd.SoftState.Lead, rd.SoftState.RaftState
		if r.role != raft.StateLeader {
			r.aligned = false
			r.stepDown(out)
		}
	}
	if !raft.IsEmptySnap(rd.Snapshot) {
		r.install(rd.Snapshot)
	}
	if len(rd.Entries) > 0 {
		if err := r.store.Append(rd.Entries); err != nil {
			panic(fmt.Sprintf("replica: append: %v", err))
		}
		if r.Serving() {
			r.leading.seal.appended(rd.Entries[0].GetIndex())
			r.leading.bequest.appended(rd.Entries[len(rd.Entries)-1].GetIndex())
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
	r.serve(out)
	r.became()
}

// became tells of a new role.
func (r *Replica) became() {
	if r.cfg.Watch == nil {
		return
	}
	now := env.Became{Term: r.term, Role: "follower"}
	switch {
	case r.stopped != nil:
		now.Role = "none"
	case r.role == raft.StateLeader:
		now.Role = "leader"
	case r.role != raft.StateFollower:
		now.Role = "candidate"
	case !r.members.votes(r.cfg.ID):
		now.Role = "learner"
	}
	if now != r.told {
		r.told = now
		r.tell(now)
	}
}

// tell lets Watch hear a fact.
func (r *Replica) tell(fact any) {
	if r.cfg.Watch != nil {
		r.cfg.Watch(fact)
	}
}

func (r *Replica) send(m *raftpb.Message, out *Output) {
	to, known := r.members.address(m.GetTo())
	if !known {
		return
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
	case raftpb.MsgHeartbeat:
		if round, asked := roundOf(m); asked && r.Serving() {
			r.leading.contacts.time(m.GetTo(), round, r.now)
		}
	case raftpb.MsgPreVote: // LogTerm is taken: it is the term of the last entry
		m.Commit, m.RejectHint = proto.Uint64(r.applied.index), proto.Uint64(r.applied.term)
	case raftpb.MsgPreVoteResp:
		m.Commit, m.LogTerm = proto.Uint64(r.applied.index), proto.Uint64(r.applied.term)
	case raftpb.MsgVoteResp:
		if !m.GetReject() {
			r.election.arm(r.now)
		}
	}
	r.sendTo(to.Node, m, out)
}

// sendTo sends m to a node.
func (r *Replica) sendTo(node uint64, m *raftpb.Message, out *Output) {
	out.send(node, &Frame{Generation: r.cfg.Generation, From: r.cfg.ID, To: m.GetTo(), Message: m})
}

// apply takes one committed entry.
func (r *Replica) apply(e *raftpb.Entry, out *Output) {
	r.applied.apply(e.GetIndex(), e.GetTerm(), len(e.Data))
	switch e.GetType() {
	case raftpb.EntryConfChange, raftpb.EntryConfChangeV2:
		r.applyChange(e)
	default:
		if len(e.Data) > 0 {
			if err := r.applyBatch(e, out); err != nil {
				// A command that this version does not know. Skipping it would make
				// this table differ from the other replicas' (P41).
				r.Fail(fmt.Errorf("entry %d: %w", e.GetIndex(), err))
				return
			}
		}
	}
	if i := r.applied.index; i%checkedEntries == 0 || i%8 == 0 && r.cfg.Points.Taken(point.CheckOften) {
		if r.addSum(); r.stopped != nil {
			return
		}
	}
	if r.cfg.Watch != nil {
		r.tell(env.Applied{Index: r.applied.index, Digest: r.table.Digest()})
	}
}

// applyBatch takes the commands of an entry.
func (r *Replica) applyBatch(e *raftpb.Entry, out *Output) error {
	rd := wire.NewReader(e.Data)
	if v := rd.Uint(math.MaxUint64); rd.Err() == nil && v != entryVersion {
		return fmt.Errorf("its form has version %d, which this node does not know: the leader's release may be newer", v)
	}
	r.table.Enter(e.GetTerm(), time.Duration(rd.Uint(math.MaxInt64)))
	r.batch.unblock()
	for rd.Len() > 0 {
		cmd := shard.ReadCommand(rd)
		if rd.Err() != nil {
			return rd.Err()
		}
		if c, ok := cmd.(shard.Check); ok && c.Term == e.GetTerm() && !r.sums.check(c) {
			return errDiverged
		}
		before := len(out.Events)
		out.Events = r.table.Step(cmd, out.Events)
		told := out.Events[before:]
		if r.cfg.Watch != nil {
			r.tell(env.Stepped{Index: r.applied.index, Command: cmd, Told: told})
		}
		// Only the leader that appended the entry, in its term, tells what comes of it. An older
		// entry's client asks again, and gets its answer from a confirmed leader (P6).
		if r.Serving() {
			r.logBreak(cmd, told)
			r.note(told, out)
		} else {
			out.Events = out.Events[:before]
		}
	}
	if r.Serving() {
		r.walk()
	}
	return rd.Err()
}

// applyChange takes a committed configuration change.
func (r *Replica) applyChange(e *raftpb.Entry) {
	cc := &raftpb.ConfChangeV2{}
	var added homes
	err := proto.Unmarshal(e.Data, cc)
	if err == nil && len(cc.Context) > 0 {
		err = wire.Decode(cc.Context, &added)
	}
	if err != nil {
		r.Fail(fmt.Errorf("configuration change: %w", err))
		return
	}
	gone := r.members.change(r.rn.ApplyConfChange(cc), added)
	r.farewells.add(gone)
	for _, g := range gone {
		r.leading.contacts.forget(g.ID)
	}
	r.tell(env.Configured{Index: r.applied.index, Replicas: r.members.placed()})
	r.leading.seal = seal{}
	r.leading.placing.apply()
	r.dirty = true
	c := r.members.conf
	r.log.Debug("replicas changed", "voters", c.Voters, "outgoing", c.VotersOutgoing, "learners", c.Learners)
}

// emit adds to out what the replica wants of other nodes beside what raft does.
func (r *Replica) emit(out *Output) {
	out.Sends = append(append(out.Sends, r.sender.sends...), r.receiver.acks...)
	r.sender.sends, r.receiver.acks = nil, nil
	if r.inquires {
		r.inquires = false
		r.inquire(out)
	}
	r.tellSum(out)
	g := &r.leading
	if !g.serving {
		return
	}
	r.farewell(out)
	if id := g.offers.summon; id != 0 {
		g.offers.summon = 0
		r.send(&raftpb.Message{
			Type: raftpb.MsgTimeoutNow.Enum(), To: proto.Uint64(id), From: proto.Uint64(r.cfg.ID), Term: proto.Uint64(r.term),
			Context: []byte(behind),
		}, out)
	}
	if to := g.offers.to; to != 0 {
		g.offers.to = 0
		out.send(to, &Offer{r.term})
	}
	if !g.placing.askHosts(r.now) {
		return
	}
	for _, h := range r.members.added() {
		if g.contacts.silence(h.ID, r.now) > ElectionTimeout {
			out.send(h.Peer.Node, &Host{r.cfg.Generation, h.ID})
		}
	}
}

// Fail ends this replica, and only it (P23, P41): also after a panic in one of its methods.
func (r *Replica) Fail(err error) {
	r.stopped = err
	if r.Serving() {
		r.tell(env.Served{Serving: false})
	}
	r.leading = leadership{}
	r.batch.reset()
	r.tell(env.Stopped{Err: err})
	r.became()
	r.log.Error("the replica stops itself", "error", err)
}

// compact cuts the log, never past what a snapshot under way stands on (P40), nor past what
// a follower that answers, and follows without pause, has yet to get; unless that would be more than mostKept.
// A follower that cannot keep up with the log gets another snapshot, from further on.
func (r *Replica) compact() {
	early, kept := r.cfg.Points.Taken(point.CompactEarly), uint64(keptEntries)
	if !r.applied.long() && !early {
		return
	}
	if r.cfg.Points.Taken(point.KeepLittle) {
		kept = 1
	}
	if !r.applied.exceeds(kept) {
		return
	}
	to := r.applied.index - kept
	if r.role == raft.StateLeader {
		r.rn.WithProgress(func(id uint64, _ raft.ProgressType, pr tracker.Progress) {
			if pr.State == tracker.StateReplicate && r.answers(id) {
				to = min(to, pr.Match)
			}
		})
	}
	if r.sender.busy() {
		to = min(to, r.sender.index())
	}
	if to = max(to, r.applied.excess()); r.sender.busy() && to > r.sender.index() {
		r.endTransfer(raft.SnapshotFailure)
	}
	if _, err := r.store.CreateSnapshot(r.applied.index, r.members.conf, nil); err != nil && !errors.Is(err, raft.ErrSnapOutOfDate) {
		panic(fmt.Sprintf("replica: snapshot: %v", err))
	}
	if err := r.store.Compact(to); err != nil && !errors.Is(err, raft.ErrCompacted) {
		panic(fmt.Sprintf("replica: compact: %v", err))
	}
	r.applied.cut()
}
