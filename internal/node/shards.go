package node

import (
	"fmt"
	"math/rand/v2"
	"runtime/debug"
	"slices"
	"time"

	"github.com/lockmesh/mesh/internal/client"
	"github.com/lockmesh/mesh/internal/core"
	"github.com/lockmesh/mesh/internal/env"
	"github.com/lockmesh/mesh/internal/members"
	"github.com/lockmesh/mesh/internal/message"
	"github.com/lockmesh/mesh/internal/replica"
	"github.com/lockmesh/mesh/transport"
)

// shardLoop is the event loop that owns the shards: their replicas on this node, and the client
// through which this node's callers ask for their keys. Only its loop touches what is in it;
// others put inputs into its mailbox.
//
// A run drains the mailbox, steps everything, lets the replicas that have something to
// say speak, and then sends: all messages of one class for one peer leave in one frame, if
// that does not get too large (see maxFrame).
type shardLoop struct {
	node  *Node
	rand  *rand.Rand
	box   mailbox[*shardLoop]
	spare []func(*shardLoop)

	now      time.Duration
	ticked   time.Duration
	view     *members.View
	replicas []*replica.Replica // those that this node hosts, by shard
	out      replica.Output

	core      coreSide
	keeper    keeper
	client    *client.Client // nil: in no mesh yet
	clientOut client.Output
	closing   []*client.Call // what a CloseSession has sent

	local    []letter // for this node, from itself
	in       message.Reader
	frames   []*outFrame
	framed   map[outKey]*outFrame
	via      map[uint64]way // by client node: the peer that its requests come through (P15)
	reported members.Report
	lacks    int // as reported
	ticks    uint64
	appended replica.Counters

	operations int // questions of operators that this node works on
}

func newShardLoop(n *Node) *shardLoop {
	l := &shardLoop{
		node:   n,
		rand:   rand.New(rand.NewPCG(n.env.Seed(), 0)),
		framed: make(map[outKey]*outFrame), via: make(map[uint64]way),
		view: &members.View{},
	}
	l.post(func(l *shardLoop) { l.carryOutCore(l.core.seat.Start(l.now, nil)) }) // before anything else
	return l
}

// start lets the loop run. What came before waits.
func (l *shardLoop) start() {
	l.startCore()
	l.box.start(l.node.env.NewLoop("shards", l.run))
	l.box.loop.Wake()
}

// enter: the node is part of its first mesh.
func (l *shardLoop) enter(t *core.Table) {
	n := l.node
	l.core.hosted = make([]uint64, len(t.Shards))
	l.client = client.New(client.Config{
		Node: n.id, Name: n.name, TTL: n.own.TTL(), Shards: t.Params.Shards, Rho: t.Params.Drift(), Rand: l.rand, Points: n.points,
	})
}

// post makes the loop run do. It reports false if the loop has ended.
func (l *shardLoop) post(do func(*shardLoop)) bool { return l.box.post(do) }

// run is one turn of the loop.
func (l *shardLoop) run(time.Duration) time.Duration {
	todo, _ := l.box.drain(l.spare)
	// After the mailbox: a stall between the two must not make anything look heard, or
	// sent, earlier than it was (P1).
	l.now = l.node.env.Now()
	now := l.now
	for _, do := range todo {
		do(l)
	}
	clear(todo)
	l.spare = todo
	if now >= l.core.seat.Deadline() {
		l.carryOutCore(l.core.seat.Tick(now, nil))
	}
	l.settle()
	// The mailbox comes before any timer: what arrived during a stall counts (P10).
	if now-l.ticked >= replica.TickInterval {
		l.ticked = now
		l.tick()
	}
	if !l.core.fenced {
		for _, r := range l.replicas {
			if r.WakeAt() <= now {
				l.guard(r, func() { r.Wake(now) })
			}
		}
	}
	if l.client != nil && now >= l.client.Deadline() {
		l.step(client.Tick{})
	}
	l.settle()
	l.flush()
	l.node.standing.Store(l.core.seat.Standing())
	return l.next()
}

// next returns when the loop is to run again. It does not wake for an idle seat alone, which waits for the next tick or frame: on a
// machine at rest, waking costs more than the work.
func (l *shardLoop) next() time.Duration {
	next := env.Never
	ticks := len(l.replicas) > 0 || l.seated()
	if ticks {
		next = l.ticked + replica.TickInterval
	}
	if !ticks || !l.core.seat.Idle() {
		next = min(next, l.core.seat.Deadline())
	}
	if l.client != nil {
		next = min(next, l.client.Deadline())
	}
	if !l.core.fenced {
		for _, r := range l.replicas {
			next = min(next, r.WakeAt())
		}
	}
	return next
}

// reportTicks is how many ticks pass between two looks at what this node's replicas are.
const reportTicks = 4

func (l *shardLoop) tick() {
	if l.ticks++; l.ticks%reportTicks == 0 {
		l.lookAround()
		l.report()
		l.forgetOldWays()
	}
	if l.core.fenced {
		return
	}
	moving := 0
	for _, r := range l.replicas {
		if r.Moving() {
			moving++
		}
	}
	for _, r := range l.replicas {
		moved := r.Moving()
		r.Limit(moving >= maxMoves && !moved)
		l.guard(r, func() { r.Tick(l.now, l.ticks%replica.HeartbeatTicks == 0) })
		if !moved && r.Moving() {
			moving++ // it counts from now on, not from the next tick
		}
	}
	// One that stopped itself is destroyed: its leader hears that it is missing, and
	// replaces it (P41).
	l.replicas = slices.DeleteFunc(l.replicas, func(r *replica.Replica) bool { return r.Err() != nil })
	l.emptied()
}

// settle lets the replicas speak, and passes on what this node says to itself, until it says nothing
// more to itself.
func (l *shardLoop) settle() {
	for {
		for _, r := range l.replicas {
			if !l.core.fenced && !r.Rests() {
				l.guard(r, func() { r.Ready(l.now, &l.out) })
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
	for l.in.Reset(frame, l.node.mesh.Load().params.Shards); l.in.Next(); { // Node.route has looked at the header
		l.take(uint64(from), l.in.Shard, l.in.Message)
	}
	if err := l.in.Err(); err != nil {
		l.node.refuse(from, "frame", err)
	}
}

// electable reports whether the node is connected with a majority of a replica's voters, in both halves of a change: else it
// would depose the leader, and not be elected.
func (l *shardLoop) electable(r *replica.Replica) bool {
	incoming, outgoing, _, _ := r.Configuration()
	for _, voters := range [][]uint64{incoming, outgoing} {
		n := 0
		for _, id := range voters {
			if id == l.node.id || l.core.up[id] {
				n++
			}
		}
		if len(voters) > 0 && n < core.Majority(len(voters)) {
			return false
		}
	}
	return true
}

// take steps one message. The Reader uses m again: nobody may keep it.
func (l *shardLoop) take(from uint64, sh int, m message.Message) {
	r := l.replica(sh)
	if l.core.fenced {
		r = nil
	}
	switch m := m.(type) {
	case *replica.Host:
		l.host(sh, m.Generation, m.ID)
	case *replica.Removed:
		// True only from a table that knows this replica's ID and lacks it (P24).
		if r != nil && r.Generation() == m.Generation && r.ID() == m.ID && m.Highest >= r.ID() {
			l.drop(r)
		}
	case *replica.Offer:
		target := l.core.aims[sh].Nodes
		agrees := !l.view.Leaving() && len(target) > 0 && target[0].Node == l.node.id
		if r != nil && agrees && l.electable(r) && !r.Tired(l.now) && r.Term() == m.Term {
			l.say(from, sh, &replica.Accept{Term: m.Term})
		}
	case *message.Request:
		l.request(from, sh, m)
	case *message.Renewal:
		l.renew(from, sh, m)
	case *message.Query:
		l.query(from, sh, m)
	case *message.Observe:
		l.observes(from, sh, m)
	case *message.Inspect:
		l.inspect(from, sh, m)
	case *message.Forward:
		l.forward(from, sh, m)
	case *message.Reply, *message.Answer, *message.View, *message.Led, *message.State, *message.Redirect, *message.Serving:
		l.step(client.Received{Shard: sh, From: from, Message: m})
	default: // from a replica to another
		if r != nil {
			l.guard(r, func() {
				if answer := r.Receive(l.now, from, m); answer != nil {
					l.say(from, sh, answer)
				}
			})
		} else if f, is := m.(*replica.Frame); is && l.core.hosting.Hosts(sh, f.Generation) && f.To <= l.core.hosted[sh] {
			l.say(from, sh, &replica.Missing{Generation: f.Generation, ID: f.To})
		}
	}
}
