package node

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/lockmesh/mesh/internal/client"
	"github.com/lockmesh/mesh/internal/fault"
	"github.com/lockmesh/mesh/internal/replica"
	"github.com/lockmesh/mesh/transport"
)

const (
	leaveWait    = 20 * time.Second // for locks to be unlocked, if ctx has no deadline
	handoverWait = 20 * time.Second // for shards to be handed over, whatever ctx says
	leavePause   = 20 * time.Millisecond
	reconnect    = time.Second // for how long nodes that stay are not heard before they count as gone: connections are made anew
)

// Leave hands everything over and stops the node (P32). New calls fail with ErrClosed at
// once, and own waiters are cancelled; then it waits until held locks are unlocked, or ctx
// ends (20 s, if ctx has no deadline). Those that are held still are lost to their
// holders, and lapse with their leases: they are not released, for the holder may not
// have stopped yet. Then other nodes take over this one's shards, within another 20 s. It
// returns nil if nothing was left behind, errHeld, or else errHandover or errNeeded; nil if the node had ended
// before; ErrClosed if another Leave is under way; and the reason if the node ends meanwhile.
func (n *Node) Leave(ctx context.Context) error {
	n.mu.Lock()
	switch n.status {
	case closed:
		n.mu.Unlock()
		return nil
	case leaving:
		n.mu.Unlock()
		return fault.ErrClosed
	case starting:
		if n.mesh.Load() == nil { // it is in no mesh yet
			n.mu.Unlock()
			return n.Close()
		}
	}
	n.status = leaving
	n.mu.Unlock()
	n.turned.Ring()
	if n.observer != nil {
		n.observer.Leaving(transport.ID(n.id), ctx)
	}

	n.leaves.tell(fault.ErrClosed)
	limit := n.limit(ctx, leaveWait)
	n.letGuestsGo()
	n.ask(func(l *shardLoop) { l.step(client.CancelWaiters{}) })
	left := error(nil)
	if !n.pollUntil(ctx, limit, func() bool {
		held := 0
		n.ask(func(l *shardLoop) { held = l.client.Held() })
		return held == 0
	}) {
		left = errHeld
	}
	n.ask(func(l *shardLoop) { l.step(client.Lapse{}) })

	n.membership.post(func(m *membership) { m.carryOut(m.members.Leave(m.now, m.out)) })
	heard := n.env.Now() // when no node that stays, and that the others need, was missed last
	var misses bool
	var wanted, needed int
	over := n.pollUntil(context.WithoutCancel(ctx), n.env.Now()+handoverWait, func() bool {
		misses, wanted, needed = false, 0, 0
		n.ask(func(l *shardLoop) {
			misses, wanted, needed = l.misses(), l.wanted(), l.needed() // at one moment: connections come and go
		})
		if !misses {
			heard = n.env.Now()
		}
		return wanted == 0 && (!misses || n.env.Now() >= heard+reconnect)
	})
	switch {
	case left != nil:
	case !over:
		left = errHandover
	case needed > 0:
		left = errNeeded
	}
	if n.Err() == nil {
		// A connection that it made after its goodbye would break without one. The other end, which was only dialled, would miss that
		// after a second (P21), and until then a process that is started at the same entry would not count (C6).
		n.ask(func(l *shardLoop) { l.core.parting = true })
		n.membership.post(func(m *membership) { m.goodbye() })
		p := n.env.NewParker()
		p.Park(context.WithoutCancel(ctx), n.env.Now()+5*leavePause) // for the last words to go out
	}
	if err := n.Err(); err != nil {
		return err // it was closed, or ejected, meanwhile
	}
	if n.observer != nil {
		n.observer.Left(transport.ID(n.id), over && needed == 0)
	}
	if left == nil {
		n.log.Info("left the mesh")
	} else {
		n.log.Warn("left the mesh; something was left behind", "error", left)
	}
	n.fail(fault.ErrLeft)
	n.shut()
	return left
}

// wanted counts the replicas here that other nodes can still take over. Where too few nodes are left to do without
// this one's vote, it keeps that to its end, and only hands leadership over. A replica goes when its leader tells
// it that it was removed; if it hears nothing, it asks.
func (l *shardLoop) wanted() (wanted int) {
	switch {
	case l.core.fenced || len(l.replicas) == 0:
		return 0
	case !l.view.Leaving():
		return 1 // the new view is under way
	case l.dispensable():
		return len(l.replicas)
	}
	for _, r := range l.replicas {
		if r.Serving() && l.stay(l.core.table.Shards[r.Shard()].Voters) > 0 {
			wanted++
		}
	}
	return wanted
}

// needed counts the shards that wait for this node's return, as far as it knows: it votes in them, other nodes stay,
// and too few of those have a seat and are heard.
func (l *shardLoop) needed() (needed int) {
	stays := func(node uint64) bool { return node != l.node.id && !l.leaves(node) }
	switch t := l.core.table; {
	case t == nil || l.dispensable():
		return 0
	case slices.ContainsFunc(t.Bound(), func(id transport.ID) bool { return stays(uint64(id)) }):
	case slices.ContainsFunc(l.view.Members(), func(m replica.Peer) bool { return stays(m.Node) }):
	default:
		return 0
	}
	for _, r := range l.replicas {
		if slices.Contains(r.Voters(), r.ID()) {
			needed++
		}
	}
	return needed
}

// misses reports whether others could do without this node, were it connected with all that stay.
func (l *shardLoop) misses() bool {
	t, stay := l.core.table, 0
	if t == nil || l.core.fenced || len(l.replicas) == 0 || l.dispensable() {
		return false
	}
	for _, id := range t.Living() {
		if uint64(id) != l.node.id && !l.leaves(uint64(id)) {
			stay++
		}
	}
	return stay >= min(2, len(t.Seats))
}

// nodeGone: no process answers for the node any more (P21).
func (l *shardLoop) nodeGone(node uint64) {
	for _, r := range l.replicas {
		l.guard(r, func() { r.NodeGone(l.now, node) })
	}
	l.core.seat.Gone(transport.ID(node))
	l.step(client.NodeGone{Node: node})
	l.forgetWays(func(relay uint64) bool { return relay == node })
}

// shut ends the loop: every call on it fails with ErrClosed, and holds are lost.
func (l *shardLoop) shut() {
	l.node.ask((*shardLoop).close)
	l.box.loop.Stop()
}

// close is the loop's last act.
func (l *shardLoop) close() {
	l.step(client.Shut{})
	l.replicas = nil
	for _, do := range l.box.close() {
		do(l) // its caller waits for an answer, and gets ErrClosed
	}
}

// What Leave could not hand over.
var (
	errHeld     = errors.New("mesh: leave: locks were still held; they lapse with their leases")
	errNeeded   = errors.New("mesh: leave: too few nodes of the core are left to do without this one: shards wait for its return")
	errHandover = errors.New("mesh: leave: not every replica was handed over")
)
