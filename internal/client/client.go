// Package client is how the sessions of one node use the shards: it finds each shard's leader,
// repeats what got lost, keeps the leases alive, and knows until when a holder may believe in its
// lock.
//
// A [Client] is a plain state machine, like the shard's table at the other end: it starts no
// goroutine, reads no clock, encodes no frame and wakes no caller. Feed it with [Client.Step], and
// carry out what the [Output] says.
//
// A [Session] is what a user sees. In each shard in which it asks for keys it has a lease, which the
// shard's table knows as a session of its own: shard.SessionID and the session numbers of messages
// name a lease.
//
// (P12), (C8) and the like are rules in PROTOCOL.md. ARCHITECTURE.md defines the terms, also E and ρ.
package client

import (
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"time"

	"github.com/lockmesh/mesh/internal/env"
	"github.com/lockmesh/mesh/internal/fault"
	"github.com/lockmesh/mesh/internal/message"
	"github.com/lockmesh/mesh/internal/point"
	"github.com/lockmesh/mesh/internal/replica"
	"github.com/lockmesh/mesh/shard"
)

// Config is what a Client knows of its node.
type Config struct {
	Node       uint64        // its ID
	Name       string        // its name, as callers that wait for its locks are told it
	Shards     int           // of the mesh, at least 1
	TTL        time.Duration // for how long observers of elections believe what was confirmed, and no longer than a lease may last
	Generation uint64        // in which all shards live, until a Generation names another
	Rho        float64       // the bound on the rates of clocks (P1)
	Rand       *rand.Rand    // for the jitter of retries
	Points     point.Points  // nil outside simulations
}

// Client is the client side of one node, for all shards. One goroutine at a time may use it, its
// Counters apart.
type Client struct {
	cfg        Config
	shards     []*shardClient // by shard; nil: not used yet
	view       View
	limit      time.Duration // for how long a lease may last
	lastLease  uint64        // the number of the last lease
	lastAsk    uint64        // the number of the last question
	heard      []*Session    // the sessions of guests that have calls in hears
	searches   []*search     // Locks that look for a deadlock, in the order in which they began
	nextSearch time.Duration // when a Tick is to look after them; a lower bound
	counters   Counters

	now      time.Duration // of the Step under way
	out      *Output       // of the Step under way
	deadline time.Duration // no Tick has anything to do before, apart from wakes; a lower bound
	wakes    wakes
}

// Counters count what a client has done so far. They may be read at any time.
type Counters struct {
	Locks    atomic.Uint64 // calls for a lock
	Grants   atomic.Uint64 // of them, those that ended with a hold
	Unlocks  atomic.Uint64 // confirmed
	Retries  atomic.Uint64 // commands sent again
	Renewals atomic.Uint64 // sent
}

// New returns a client that knows no shard's leader yet.
func New(cfg Config) *Client {
	return &Client{cfg: cfg, shards: make([]*shardClient, cfg.Shards), limit: unlimited, deadline: env.Never, nextSearch: env.Never}
}

// View is where requests may go. A client keeps it; nobody may change it any more.
type View struct {
	Core    []replica.Peer   // the nodes that vote in some shard, or may: any of them can relay
	Targets [][]replica.Peer // by shard: those that vote in it, the likely leader first; may be nil
}

// target returns the nodes that vote in a shard.
func (v *View) target(shard int) []replica.Peer {
	if shard >= len(v.Targets) {
		return nil
	}
	return v.Targets[shard]
}

// name returns the name of a node of the core, or "".
func (v *View) name(node uint64) string {
	for _, p := range v.Core {
		if p.Node == node {
			return p.Name
		}
	}
	return ""
}

// Input is one thing that a client takes in: Start, Abandon, Received, Generation, Remembered, Keep, Observe, Unobserve, NodeGone, Viewed,
// Limited, Tick, CloseSession, LoseSession, CancelWaiters, Lapse, LetGo or Shut.
type Input interface{ isInput() }

type (
	// Start begins a caller's call.
	Start struct{ *Call }

	// Abandon: the caller of a call does not wait any more. A call that has its result keeps it. A
	// Lock or a Fix is finished with Cause, also one that was not started.
	Abandon struct {
		*Call
		Cause error
	}

	// Received is a Reply, an Answer, a View, a Led, a State, a Redirect or a Serving from another node, or from this
	// one. From is the node that sent it, the leader or a relay; zero if this node's own replica had relayed the request (P15).
	Received struct {
		Shard   int
		From    uint64
		Message message.Message
	}

	// Generation: a shard lives in another one now, whose table began with nothing (C8). The client reports to it
	// what its sessions hold and wait for, and heeds no message of another generation any more.
	Generation struct {
		Shard int
		Name  uint64
		Quiet time.Duration // for how long a new table must grant nothing, because of the leases until now
		Void  bool          // what the sessions hold was never theirs alone, and is lost: their mesh gave way to an earlier one (C10)
	}

	// Remembered: the shard's generation has changed, and this is what the node knows of the one before: what a replica here had, if
	// there was one. The client tells the table of the new one, and adds what it knows itself.
	Remembered struct {
		Shard   int
		Session *Session        // the node's own
		Uses    []shard.Durable // durable uses (P39)
		Done    []shard.Memory  // what was done once, and which latches are open, or who has arrived (P43, P44)
	}

	// Keep: no handle of a use is left, and the use lasts as long as its lease.
	Keep struct{ *Hold }

	// Observe lets an observer know who leads an election, until Unobserve.
	Observe   struct{ *Observer }
	Unobserve struct{ *Observer }

	// NodeGone: no process answers for the node any more (P21).
	NodeGone struct{ Node uint64 }

	// Viewed: the nodes that vote have changed.
	Viewed struct{ View }

	// Tick does what is due. It must come at Deadline.
	Tick struct{}

	// CloseSession closes every lease of a session that has ended. Closing names the calls.
	CloseSession struct{ *Session }

	// LoseSession gives up every lease of a session that was lost in one shard (P9).
	LoseSession struct{ *Session }

	// CancelWaiters finishes, with ErrClosed, every Lock whose caller does not have its hold yet.
	CancelWaiters struct{}

	// Lapse ends the belief in all holds, and gives up their leases. Leases without holds are
	// closed, so that their records need not expire.
	Lapse struct{}

	// LetGo gives up every lease of guests, whose sessions have ended, and sends nothing: another node carries them on.
	LetGo struct{}

	// Shut ends every lease, and sends nothing.
	Shut struct{}
)

func (Start) isInput()         {}
func (Abandon) isInput()       {}
func (Received) isInput()      {}
func (Generation) isInput()    {}
func (Remembered) isInput()    {}
func (Keep) isInput()          {}
func (Observe) isInput()       {}
func (Unobserve) isInput()     {}
func (NodeGone) isInput()      {}
func (Viewed) isInput()        {}
func (Tick) isInput()          {}
func (CloseSession) isInput()  {}
func (LoseSession) isInput()   {}
func (CancelWaiters) isInput() {}
func (Lapse) isInput()         {}
func (LetGo) isInput()         {}
func (Shut) isInput()          {}

// Output is what a Step wants done: the events, in their order, and then the messages, in theirs.
type Output struct {
	Sends  []Send
	Events []Event
}

// Reset empties o, and keeps its capacity.
func (o *Output) Reset() {
	clear(o.Sends)
	clear(o.Events)
	o.Sends, o.Events = o.Sends[:0], o.Events[:0]
}

// Send is a message about a shard to a node, which may be the client's own.
type Send struct {
	To      uint64
	Shard   int
	Message message.Message
}

// Event is something that the driver carries out, or tells a caller: Finished, End, Extended,
// Shortened, Closing, Unlocking, Observed, SessionLost or Placed.
type Event interface{ isEvent() }

type (
	// Finished: the call has its result.
	Finished struct{ *Call }

	// End: the belief in a hold is to end before anything is sent, unless it is over.
	End struct {
		*Hold
		Cause error
	}

	// Extended: the belief in a hold lasts longer now.
	Extended struct{ *Hold }

	// Shortened: the belief in a hold ends earlier than was said before.
	Shortened struct{ *Hold }

	// Unlocking: a hold is given back without an Unlock: its key may be free before its lease is over.
	Unlocking struct{ *Hold }

	// Closing: the call closes a lease of the session that CloseSession named.
	Closing struct{ *Call }

	// Observed: the observer has something to take, or has ended.
	Observed struct{ *Observer }

	// Placed: a guest's request, or what it claims, waits in a queue.
	Placed struct{ *Call }

	// SessionLost: a user's session has ended, since it lost a lease (P9).
	SessionLost struct{ *Session }
)

func (Finished) isEvent()    {}
func (End) isEvent()         {}
func (Extended) isEvent()    {}
func (Shortened) isEvent()   {}
func (Unlocking) isEvent()   {}
func (Closing) isEvent()     {}
func (Observed) isEvent()    {}
func (SessionLost) isEvent() {}
func (Placed) isEvent()      {}

// Step takes one input in, and appends to out what must now be done. The time never falls.
func (c *Client) Step(now time.Duration, in Input, out *Output) {
	c.now, c.out = now, out
	switch in := in.(type) {
	case Start:
		c.start(in.Call)
	case Abandon:
		c.shard(in.Shard).abandon(in.Call, in.Cause)
	case Received:
		c.received(in)
	case Generation:
		c.shard(in.Shard).goOver(in.Name, in.Quiet, in.Void)
	case Viewed:
		c.view = in.View
	case Limited:
		c.limited(in.Limit)
	case Remembered:
		if s := c.shard(in.Shard); in.Session.Err() == nil {
			s.remember(in.Session, in.Uses)
			s.recall(in.Session, in.Done)
		}
	case Observe:
		c.shard(in.Shard).observe(in.Observer)
	case Unobserve:
		c.shard(in.Shard).unobserve(in.Observer)
	case Keep:
		in.Hold.lease.keep(in.Hold)
	case Tick:
		c.deadline = env.Never
		c.tickLeases()
		for _, s := range c.shards {
			if s != nil {
				s.tickAsks()
				s.tickWatches()
			}
		}
		c.tickSearches()
		c.answerGuests()
	case NodeGone:
		for _, s := range c.shards {
			if s != nil {
				s.nodeGone(in.Node)
			}
		}
	case CloseSession:
		c.each(func(l *lease) {
			if l.session == in.Session {
				l.closeForSession()
			}
		})
		c.answerGuest(in.Session)
	case LoseSession:
		c.each(func(l *lease) {
			if l.session == in.Session {
				l.loseForSession()
			}
		})
		c.answerGuest(in.Session)
	case CancelWaiters:
		c.each(func(l *lease) { l.cancelWaiters() })
	case Lapse:
		c.each(func(l *lease) { l.lapse() })
	case LetGo:
		c.each(func(l *lease) {
			if l.ofGuest() {
				l.drop(fault.ErrClosed)
			}
		})
		c.sendGuestsAway(fault.ErrClosed)
	case Shut:
		c.each(func(l *lease) { l.drop(fault.ErrClosed) })
		c.sendGuestsAway(fault.ErrClosed)
		for _, s := range c.shards {
			if s != nil {
				s.endAsks()
				s.endWatches()
			}
		}
	}
}

// Deadline returns when the next Tick is due.
func (c *Client) Deadline() time.Duration {
	if len(c.wakes) > 0 {
		return min(c.deadline, c.wakes[0].at)
	}
	return c.deadline
}

// Counters returns what the client counts.
func (c *Client) Counters() *Counters { return &c.counters }

// Held returns how many holds have not been given back, apart from uses and from those that were forsaken.
func (c *Client) Held() (held int) {
	c.each(func(l *lease) {
		for _, h := range l.holds {
			if !h.Forsaken() && h.use == nil {
				held++
			}
		}
	})
	return held
}

// Revision returns the highest revision of a shard that the client has heard of, in any generation.
func (c *Client) Revision(shard int) uint64 {
	if s := c.shards[shard]; s != nil {
		return max(s.revision, s.earlier.Known)
	}
	return 0
}

// Pending returns the command that was sent to a shard under a number, or nil if its result is known.
func (c *Client) Pending(shard int, session, number uint64) shard.Command {
	if l := c.shard(shard).byNumber[session]; l != nil {
		if call := l.calls[number]; call != nil {
			return call.command
		}
	}
	return nil
}

// shard returns the part of the client that asks for a shard's keys.
func (c *Client) shard(number int) *shardClient {
	s := c.shards[number]
	if s == nil {
		s = newShardClient(c, number)
		c.shards[number] = s
	}
	return s
}

// each calls do for every lease that there is at its turn.
func (c *Client) each(do func(*lease)) {
	for _, s := range c.shards {
		if s != nil {
			for _, l := range slices.Clone(s.leases) {
				do(l)
			}
		}
	}
}

func (c *Client) start(call *Call) {
	s := c.shard(call.Shard)
	if err := call.inVain(); err != nil {
		c.finish(call, err)
		return
	}
	switch call.Kind {
	case Lock:
		s.lock(call)
	case Unlock:
		s.unlock(call)
	case Fix:
		call.Hold.lease.extend(call)
	case Drop:
		s.drop(call)
	case Arrive:
		s.arrive(call)
	case Resize, Break:
		s.request(call)
	case Waive:
		s.waive(call)
	case Ask:
		s.ask(call)
	case Proclaim:
		call.Hold.lease.proclaim(call)
	case Downgrade:
		call.Hold.lease.downgrade(call)
	case Carry:
		s.carry(call)
	case Hear, Confirm:
		c.hear(call)
	}
}

// inVain returns why a call need not be sent: its session or its hold has ended. Nil: it is sent.
func (c *Call) inVain() error {
	switch c.Kind {
	case Lock, Drop, Arrive, Resize, Break, Carry, Hear, Confirm:
		return c.Session.Err()
	case Fix, Proclaim, Downgrade:
		switch h := c.Hold; {
		case !h.lease.kept() || h.lost():
			return fault.ErrLost
		case h.Err() != nil:
			return fault.ErrClosed // its Unlock or Close is on its way
		}
	}
	return nil
}

// received takes a message, unless it speaks of another generation of its shard.
func (c *Client) received(in Received) {
	s := c.shard(in.Shard)
	switch m := in.Message.(type) {
	case *message.Reply:
		if m.Generation == s.generation {
			s.spoke(in.From, m.Leadership)
			s.heed(m.Event.Session.Number, m.Limit)
			s.replied(m.Event, m.Revision)
		}
	case *message.Answer:
		if m.Generation == s.generation {
			s.spoke(in.From, m.Leadership)
			s.heed(m.Session.Number, m.Limit)
			s.answered(*m)
		}
	case *message.View:
		if m.Generation == s.generation {
			s.spoke(in.From, m.Leadership)
			s.viewed(m)
		}
	case *message.Led:
		if m.Generation == s.generation {
			s.spoke(in.From, m.Leadership)
			s.led(m)
		}
	case *message.State:
		if m.Generation == s.generation {
			s.spoke(in.From, m.Leadership)
			s.inspected(m)
		}
	case *message.Redirect:
		if m.Generation == s.generation {
			s.redirected(in.From, *m)
		}
	case *message.Serving:
		if m.Generation == s.generation {
			s.served(message.Leadership{Generation: m.Generation, Leader: in.From, Term: m.Term})
		}
	}
}

func (c *Client) emit(e Event) { c.out.Events = append(c.out.Events, e) }

func (c *Client) wakeAt(t time.Duration) { c.deadline = min(c.deadline, t) }

// finish gives a call its result. A call is finished once.
func (c *Client) finish(call *Call, err error) {
	switch {
	case call.over:
		return
	case call.search != nil && call.Kind == Ask:
		call.over, call.Err = true, err
		c.searched(call)
		return
	case call.search != nil:
		c.endSearch(call.search)
	}
	call.over, call.Err = true, err
	c.emit(Finished{call})
}
