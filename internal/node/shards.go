package node

import (
	"fmt"
	"log/slog"
	"math/rand/v2"
	"runtime/debug"
	"slices"
	"sync/atomic"
	"time"

	"github.com/lockmesh/mesh/internal/client"
	"github.com/lockmesh/mesh/internal/env"
	"github.com/lockmesh/mesh/internal/members"
	"github.com/lockmesh/mesh/internal/message"
	"github.com/lockmesh/mesh/internal/point"
	"github.com/lockmesh/mesh/internal/replica"
	"github.com/lockmesh/mesh/shard"
	"github.com/lockmesh/mesh/transport"
)

// shardLoop is the event loop that owns the shards: their replicas on this node, and the client
// through which this node's callers ask for their keys. Only its loop touches what is in it;
// others put inputs into its mailbox.
//
// A run drains the mailbox, steps everything, lets the replicas that have something to
// say speak once, and then sends: all messages for one peer leave in one frame.
type shardLoop struct {
	node  *Node
	env   env.Env
	log   *slog.Logger
	rand  *rand.Rand
	loop  env.Loop
	box   mailbox
	spare []input

	now      time.Duration
	ticked   time.Duration
	declined map[int]uint64 // by shard: in which term its leader was asked for no vote; nil: the node stays (P32)
	view     *members.View
	replicas []*replica.Replica // those that this node hosts, by shard
	hosted   map[int]uint64     // shard -> the highest replica ID that lived here (P24)
	out      replica.Output

	client    *client.Client
	clientOut client.Output
	closing   []*client.Call // what a CloseSession has sent

	local    []letter // for this node, from itself
	in       message.Reader
	frames   []*outFrame
	framed   map[outKey]*outFrame
	via      map[uint64]uint64 // client node -> the peer that its requests come through (P15)
	reported members.Report
	ticks    uint64
	entries  atomic.Uint64 // that leaders on this node appended
	commands atomic.Uint64 // in them
}

type outKey struct {
	to    uint64
	class transport.Class
}

// letter is a message about a shard.
type letter struct {
	shard int
	message.Message
}

// outFrame is where the messages for one peer gather during a run. Its room is used
// again; what is sent is a copy of the right size.
type outFrame struct {
	outKey
	body   []byte
	queued bool // it is among the loop's frames
}

// maxFrame is when a frame is sent although the run goes on.
const maxFrame = 512 << 10

func newShardLoop(n *Node) *shardLoop {
	l := &shardLoop{
		node: n, env: n.env, log: n.log,
		rand:   rand.New(rand.NewPCG(n.env.Seed(), 0)),
		hosted: make(map[int]uint64),
		framed: make(map[outKey]*outFrame), via: make(map[uint64]uint64),
		view: &members.View{},
	}
	l.client = client.New(client.Config{
		Node: n.id, Name: n.name, Shards: n.params.Shards, Rho: n.mesh.rho(), Rand: l.rand, Points: n.points,
	})
	return l
}

// post makes the loop run do. It reports false if the loop has ended.
func (l *shardLoop) post(do func(*shardLoop)) bool {
	ok := l.box.put(input{do: do})
	if ok {
		l.loop.Wake()
	}
	return ok
}

// run is one turn of the loop.
func (l *shardLoop) run(time.Duration) time.Duration {
	inputs := l.box.drain(l.spare)
	// After the mailbox: a stall between the two must not make anything look heard, or
	// sent, earlier than it was (P1).
	l.now = l.env.Now()
	now := l.now
	for _, in := range inputs {
		if in.do != nil {
			in.do(l)
		} else {
			l.receive(in.from, in.frame)
		}
	}
	clear(inputs)
	l.spare = inputs
	l.settle()
	// The mailbox comes before any timer: what arrived during a stall counts (P10).
	if now-l.ticked >= replica.TickInterval {
		l.ticked = now
		l.tick()
	}
	for _, r := range l.replicas {
		if r.WakeAt() <= now {
			l.guard(r, func() { r.Wake(now) })
		}
	}
	if now >= l.client.Deadline() {
		l.step(client.Tick{})
	}
	l.settle()
	l.flush()
	next := l.client.Deadline()
	if len(l.replicas) > 0 {
		next = min(next, l.ticked+replica.TickInterval)
		for _, r := range l.replicas {
			next = min(next, r.WakeAt())
		}
	}
	return next
}

// observed is how many ticks pass between two looks at what this node leads.
const observed = 4

func (l *shardLoop) tick() {
	moving, entries, commands := 0, uint64(0), uint64(0)
	for _, r := range l.replicas {
		if r.Moving() {
			moving++
		}
	}
	for _, r := range l.replicas {
		r.Limit(moving >= maxMoves && !r.Moving())
		l.guard(r, func() { r.Tick(l.now, l.ticks%replica.HeartbeatTicks == 0) })
		e, c := r.Batches()
		entries, commands = entries+e, commands+c
	}
	// One that stopped itself is destroyed: its leader hears that it is missing, and
	// replaces it (P41).
	l.replicas = slices.DeleteFunc(l.replicas, func(r *replica.Replica) bool { return r.Err() != nil })
	l.entries.Store(entries)
	l.commands.Store(commands)
	l.emptied()
	if l.ticks++; l.ticks%observed == 0 {
		l.observe()
		l.declineAll()
	}
}

// declineAll asks leaders to give this node's replicas no vote, if it is to go soon (P32).
func (l *shardLoop) declineAll() {
	if !l.node.closing() {
		return
	}
	if l.declined == nil {
		l.declined = make(map[int]uint64)
	}
	for _, r := range l.replicas {
		l.decline(r)
	}
}

// decline asks the leader of one of them.
func (l *shardLoop) decline(r *replica.Replica) {
	if p, ok := r.Leader(); ok && !slices.Contains(r.Voters(), r.ID()) {
		l.declined[r.Shard()] = r.Term()
		l.say(p.Node, transport.Normal, r.Shard(), &message.Decline{Generation: r.Generation(), ID: r.ID()})
	}
}

// settle lets the replicas and the client talk until neither has more to say.
func (l *shardLoop) settle() {
	for {
		for _, r := range l.replicas {
			if !r.Rests() {
				l.guard(r, func() { r.Ready(l.now, &l.out) })
				if l.declined != nil && l.declined[r.Shard()] != r.Term() {
					l.decline(r) // before a new leader hears how much it has
				}
				l.carryOut(r)
			}
		}
		if len(l.local) == 0 {
			return
		}
		local := l.local
		l.local = nil
		for _, m := range local {
			l.take(l.node.id, m.shard, m.Message)
		}
	}
}

// guard keeps a panic inside a replica from reaching the host program (P23): the replica
// stops, and its fellows replace it.
func (l *shardLoop) guard(r *replica.Replica, f func()) {
	defer func() {
		if p := recover(); p != nil {
			err, ok := p.(error)
			if !ok {
				err = fmt.Errorf("%v", p)
			}
			r.Fail(fmt.Errorf("panic: %w\n%s", err, debug.Stack()))
			l.out.Reset()
		}
	}()
	f()
}

// receive takes a frame from a peer.
func (l *shardLoop) receive(from transport.ID, frame []byte) {
	for l.in.Reset(frame, l.node.params.Shards); l.in.Next(); { // Node.route has looked at the header
		l.take(uint64(from), l.in.Shard, l.in.Message)
	}
	if err := l.in.Err(); err != nil {
		l.node.refuse(from, "frame", err)
	}
}

// take steps one message. The Reader uses m again: nobody may keep it.
func (l *shardLoop) take(from uint64, sh int, m message.Message) {
	r := l.replica(sh)
	switch m := m.(type) {
	case *replica.Frame:
		if r == nil {
			if m.To <= l.hosted[sh] {
				l.say(from, transport.Normal, sh, &message.Missing{Generation: m.Generation, ID: m.To})
			}
			return
		}
		l.guard(r, func() {
			if gone := r.Step(l.now, from, *m); gone != nil {
				l.out.Removed = append(l.out.Removed, *gone)
				l.carryOut(r)
			}
		})
	case *replica.Chunk:
		if r != nil {
			l.guard(r, func() { r.StepChunk(l.now, from, *m) })
		}
	case *replica.ChunkAck:
		if r != nil {
			l.guard(r, func() { r.StepAck(l.now, *m) })
		}
	case *replica.Sum:
		if r != nil {
			l.guard(r, func() { r.StepSum(l.now, from, *m) })
		}
	case *message.Host:
		l.host(sh, m.Generation, m.ID)
	case *message.Removed:
		// True only from a table that knows this replica's ID and lacks it (P24).
		if r != nil && r.Generation() == m.Generation && r.ID() == m.ID && m.Highest >= r.ID() {
			l.drop(r)
		}
	case *message.Missing:
		if r != nil && r.Generation() == m.Generation {
			r.Missing(from, m.ID)
		}
	case *message.Decline:
		if r != nil && r.Generation() == m.Generation {
			r.Decline(m.ID)
		}
	case *message.Offer:
		target := l.view.Target(sh)
		agrees := !l.view.Leaving() && len(target) > 0 && target[0].Node == l.node.id
		if r != nil && agrees && r.Term() == m.Term {
			l.say(from, transport.Normal, sh, &message.Accept{Term: m.Term})
		}
	case *message.Accept:
		if r != nil {
			l.guard(r, func() { r.Handover(l.now, from, m.Term) })
		}
	case *message.Request:
		l.request(from, sh, m)
	case *message.Renewal:
		l.renew(from, sh, *m)
	case *message.Forward:
		l.forward(from, sh, m)
	case *message.Reply, *message.Answer, *message.Redirect, *message.Serving:
		l.step(client.Received{Shard: sh, From: from, Message: m})
	}
}

// replica returns the replica of a shard on this node, or nil.
func (l *shardLoop) replica(sh int) *replica.Replica {
	i, ok := l.search(sh)
	if !ok {
		return nil
	}
	return l.replicas[i]
}

func (l *shardLoop) search(sh int) (int, bool) {
	return slices.BinarySearchFunc(l.replicas, sh, func(r *replica.Replica, sh int) int { return r.Shard() - sh })
}

// host creates the replica that a leader asked for. Never twice the same, and never one
// that lived here before: it would have forgotten what it promised (P24).
func (l *shardLoop) host(sh int, generation, id uint64) {
	if id <= l.hosted[sh] {
		return
	}
	if l.node.closing() {
		return // a node that leaves soon must not be given a vote (P32)
	}
	if r := l.replica(sh); r != nil {
		if r.ID() >= id || generation < r.Generation() {
			return
		}
		// A shard has one replica on a node: the leader that added this one saw, in the
		// log, that the earlier one is removed.
		l.drop(r)
	}
	l.add(replica.Config{
		Shard: sh, Generation: generation, ID: id, Self: l.node.peer(), Rho: l.node.mesh.rho(),
		Seed: l.rand.Uint64(), Logger: l.log, Points: l.node.points,
		Founding: l.founding(sh, generation),
	})
}

func (l *shardLoop) add(cfg replica.Config) {
	i, _ := l.search(cfg.Shard)
	l.watch(&cfg)
	if o := l.node.observer; o != nil {
		o.Hosted(env.Hosted{Shard: cfg.Shard, Generation: cfg.Generation, Replica: transport.ID(l.node.id), ID: cfg.ID})
	}
	r := replica.New(cfg, l.now)
	l.replicas = slices.Insert(l.replicas, i, r)
	l.hosted[cfg.Shard] = max(l.hosted[cfg.Shard], cfg.ID)
	l.target(r)
}

// watch lets those who watch a simulation hear of a replica.
func (l *shardLoop) watch(cfg *replica.Config) {
	o, self := l.node.observer, transport.ID(l.node.id)
	if o == nil {
		return
	}
	sh, generation := cfg.Shard, cfg.Generation
	cfg.Watch.Applied = func(index, digest uint64, unasked int) {
		o.Applied(env.Applied{Shard: sh, Generation: generation, Replica: self, Index: index, Digest: digest, Unasked: unasked})
	}
	cfg.Watch.Stepped = func(index uint64, cmd shard.Command, told []shard.Event) {
		o.Stepped(env.Stepped{Shard: sh, Generation: generation, Replica: self, Index: index, Command: cmd, Told: told})
	}
	cfg.Watch.Became = func(term uint64, role string) {
		o.Became(env.Became{Shard: sh, Generation: generation, Replica: self, Term: term, Role: role})
	}
	office := env.Served{Shard: sh, Generation: generation, Replica: self, Serving: true}
	cfg.Watch.Served = func(serving bool) {
		office := office
		office.Serving = serving
		o.Served(office)
	}
	cfg.Watch.HandsOver = func(node uint64) { o.HandsOver(office, transport.ID(node)) }
	cfg.Watch.Heard = func(id shard.SessionID, ttl time.Duration) {
		o.Heard(env.Heard{Shard: sh, Generation: generation, Replica: self, Owner: transport.ID(id.Node), Session: id.Number, TTL: ttl})
	}
	cfg.Watch.Configured = func(index uint64, replicas []replica.Hosted) {
		placed := make([]env.Placed, len(replicas))
		for i, h := range replicas {
			placed[i] = env.Placed{ID: h.ID, Node: transport.ID(h.Peer.Node)}
		}
		o.Configured(env.Configured{Shard: sh, Generation: generation, Replica: self, Index: index, Replicas: placed})
	}
	cfg.Watch.Stopped = func(err error) {
		o.Stopped(env.Stopped{Shard: sh, Replica: self, Err: err})
	}
}

// drop destroys a replica.
func (l *shardLoop) drop(r *replica.Replica) {
	if i, ok := l.search(r.Shard()); ok && l.replicas[i] == r {
		l.replicas = slices.Delete(l.replicas, i, i+1)
		l.emptied()
	}
}

// emptied tells of the last replica that it is gone: the loop ticks no more.
func (l *shardLoop) emptied() {
	if len(l.replicas) == 0 {
		l.observe()
	}
}

// look takes a new view of the mesh.
func (l *shardLoop) look(v *members.View) {
	l.view = v
	l.step(client.Viewed{View: v})
	for _, r := range l.replicas {
		l.target(r)
	}
	for key, f := range l.framed { // order-free: each is judged alone
		if !f.queued && !v.Has(key.to) {
			delete(l.framed, key)
		}
	}
}

// maxMoves is how many shards one node's leaders move at a time, so that a restart storm
// does not melt the fleet.
const maxMoves = 4

func (l *shardLoop) target(r *replica.Replica) {
	sh := r.Shard()
	known, others := l.view.Liveness()
	r.SetTarget(replica.Target{Nodes: l.view.Target(sh), Standby: l.view.Standby(sh), Liveness: known, Unknown: others})
}

// carryOut does what a replica wants done.
func (l *shardLoop) carryOut(r *replica.Replica) {
	o := &l.out
	sh := r.Shard()
	for _, f := range o.Frames {
		class := transport.Normal
		if f.Urgent {
			class = transport.Urgent
		}
		l.say(f.Node, class, sh, &f.Frame)
	}
	for _, c := range o.Chunks {
		l.say(c.Node, transport.Normal, sh, &c)
	}
	for _, a := range o.Acks {
		l.say(a.Node, transport.Normal, sh, &a)
	}
	for _, s := range o.Sums {
		l.say(s.Node, transport.Normal, sh, &s)
	}
	for _, h := range o.Hosts {
		l.say(h.Peer.Node, transport.Normal, sh, &message.Host{Generation: r.Generation(), ID: h.ID})
	}
	for _, of := range o.Offers {
		l.say(of.Node, transport.Normal, sh, &message.Offer{Term: of.Term})
	}
	for _, g := range o.Removed {
		l.say(g.Node, transport.Normal, sh, &message.Removed{Generation: r.Generation(), ID: g.ID, Highest: g.Highest})
	}
	for _, e := range o.Events {
		l.tell(r, e)
	}
	for _, a := range o.Answers {
		l.answer(r, a)
	}
	for _, d := range o.Dropped {
		l.redirectClient(d.Session.Node, sh, message.Redirect{Session: d.Session.Number, Number: d.Number})
	}
	if o.Serving {
		l.announce(r)
	}
	o.Reset()
}

// frame returns the frame that gathers for node.
func (l *shardLoop) frame(node uint64, class transport.Class) *outFrame {
	key := outKey{node, class}
	f := l.framed[key]
	if f == nil {
		f = &outFrame{outKey: key}
		l.framed[key] = f
	}
	if !f.queued {
		f.queued = true
		l.frames = append(l.frames, f)
	}
	if len(f.body) > maxFrame || len(f.body) > 0 && l.node.points.Taken(point.SplitFrame) {
		l.send(f)
	}
	if len(f.body) == 0 {
		f.body = message.AppendHeader(f.body, l.node.mesh.MeshID)
	}
	return f
}

// say puts a message about a shard into the frame for node.
func (l *shardLoop) say(node uint64, class transport.Class, sh int, m message.Message) {
	f := l.frame(node, class)
	f.body = message.Append(f.body, sh, m)
}

// keptRoom is how large a frame's room may be to be kept for the next.
const keptRoom = 16 << 10

func (l *shardLoop) send(f *outFrame) {
	if len(f.body) == 0 {
		return
	}
	if f.to == l.node.id {
		// Rare: what a node has to say to itself goes by function calls, a few
		// cold messages aside.
		l.loopBack(slices.Clone(f.body))
	} else {
		l.node.net.Send(transport.ID(f.to), transport.KindShard, f.class, slices.Clone(f.body))
	}
	if cap(f.body) > keptRoom {
		f.body = nil
	}
	f.body = f.body[:0]
}

func (l *shardLoop) loopBack(body []byte) {
	var r message.Reader
	for r.Reset(body, l.node.params.Shards); r.Next(); r.Keep() {
		l.local = append(l.local, letter{r.Shard, r.Message})
		l.loop.Wake()
	}
}

// flush sends what the run has gathered.
func (l *shardLoop) flush() {
	for _, f := range l.frames {
		l.send(f)
		f.queued = false
	}
	l.frames = l.frames[:0]
}
