package node

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/lockmesh/mesh/internal/client"
	"github.com/lockmesh/mesh/internal/core"
	"github.com/lockmesh/mesh/internal/env"
	"github.com/lockmesh/mesh/internal/fault"
	"github.com/lockmesh/mesh/internal/founding"
	"github.com/lockmesh/mesh/internal/hosting"
	"github.com/lockmesh/mesh/internal/replica"
	"github.com/lockmesh/mesh/internal/seat"
	"github.com/lockmesh/mesh/shard"
	"github.com/lockmesh/mesh/transport"
)

// coreSide is the shard loop's part in the core of the mesh. It is in the loop that has the replicas, and not
// in the membership loop: what the seat promises holds for the replicas from that moment on, and a loop that stood
// still must not let them vote before the seat has noticed.
type coreSide struct {
	seat    *seat.Machine
	asked   []seat.Output // what came of hosting's questions: it is carried out next
	hosting *hosting.Machine
	fenced  bool // no replica here may vote, append or answer
	ended   bool // and none ever will
	void    bool // the mesh before gave way to an earlier one: what was held there is lost
	parting bool // this node has left: it dials nobody any more
	table   *core.Table
	up      map[uint64]bool        // the nodes that this one is connected with
	aims    map[int]replica.Target // by shard
	hosted  []uint64               // by shard: the highest replica ID of its generation that has lived here, or may never live here (P24)
}

// mesh is which mesh a node is in, and its parameters. A node goes over to another one only if that has the same ones: see fits.
type mesh struct {
	id     uint64
	params founding.Params
}

func (l *shardLoop) startCore() {
	n := l.node
	list := n.cfg.Seeds
	if len(list) == 0 && n.cfg.Discover == nil {
		list = []string{n.addr}
	}
	l.core = coreSide{
		hosting: hosting.New(transport.ID(n.id)), up: make(map[uint64]bool), aims: make(map[int]replica.Target),
		seat: seat.New(seat.Config{
			Self: n.self(), List: list, Entry: n.cfg.Entry, Host: n.env.Hostname(),
			Client: n.cfg.Client || n.cfg.Discover != nil, Discovers: n.cfg.Discover != nil, Found: n.cfg.Found, Anew: strings.HasSuffix(n.cfg.Transport.Bind, ":0"),
			Oracle: n.cfg.Oracle != nil, Floor: l.keeper.floor(), Quiet: l.keeper.last.Quiet, Replaces: l.keeper.replaces,
			Wants: n.wants(), Saved: l.keeper.saved(),
			Rand: n.env.Seed(), Wall: n.env.Wall(), Clock: n.env.Wall, Known: l.known, Applied: l.applied, Place: hosting.Place,
		}),
	}
}

// wants returns what this node asks for of its mesh.
func (n *Node) wants() founding.Options {
	return founding.Options{
		MeshName: n.cfg.MeshName, Shards: n.cfg.Shards, Replicas: n.cfg.Replicas, MaxTTL: n.cfg.MaxTTL, LeaseTTL: n.cfg.LeaseTTL,
	}
}

// known returns the highest revision of a shard that this node has heard of.
func (l *shardLoop) known(sh int) (revision uint64) {
	if l.client != nil {
		revision = l.client.Revision(sh)
	}
	return max(revision, l.applied(sh))
}

// applied returns the revision of a shard's table in the replica here; zero: there is none.
func (l *shardLoop) applied(sh int) uint64 {
	if r := l.replica(sh); r != nil {
		return r.Revision()
	}
	return 0
}

// dialed, connected, disconnected and hearCore are what the seat takes in. What comes of each is carried out
// before the next input.
func (l *shardLoop) dialed(addr string, peer transport.Hello, err error) {
	l.carryOutCore(l.core.seat.Dialed(l.now, addr, peer, err, nil))
}

func (l *shardLoop) connected(id transport.ID) {
	l.core.up[uint64(id)] = true
	l.carryOutCore(l.core.seat.Up(l.now, id, nil))
}

func (l *shardLoop) disconnected(id transport.ID) {
	delete(l.core.up, uint64(id))
	l.carryOutCore(l.core.seat.Down(l.now, id, nil))
}

func (l *shardLoop) hearCore(from transport.ID, body []byte) {
	l.carryOutCore(l.core.seat.Message(l.now, from, body, nil))
}

// carryOutCore does what the seat wants done, in its order.
func (l *shardLoop) carryOutCore(outputs []seat.Output) {
	n, c := l.node, &l.core
	for len(outputs) > 0 {
		for _, o := range outputs {
			switch o := o.(type) {
			case seat.Dial:
				if !c.parting {
					n.net.Dial(o.Addr)
				}
			case seat.Send:
				n.control(o.To, ctlCore, o.Body)
			case seat.Part:
				n.net.Disconnect(o.Peer)
			case seat.Drop:
				n.refuse(o.Peer, "message", o.Err)
			case seat.Log:
				l.node.log.LogAttrs(context.Background(), o.Level, o.Text, o.Attrs...)
			case seat.State:
				l.know(o)
			case seat.Discover:
				l.discover()
			case seat.Cut:
				l.carryOutHosting(c.hosting.Cut(o, nil))
			case seat.Inquire:
				n.inquire(o.Node)
			case seat.Keep:
				l.keeper.list = strings.Join(o.List, " ")
				l.keep()
			case seat.Failed:
				l.fail(o.Err)
			}
		}
		outputs, c.asked = c.asked, nil
	}
}

// fail ends the node: its replicas at once, the rest from the membership loop.
func (l *shardLoop) fail(err error) {
	l.fence(true)
	l.core.ended = true
	if l.client != nil {
		err = fmt.Errorf("%w: %w", fault.ErrEjected, err)
	} else {
		err = fmt.Errorf("mesh: join: %w", err)
	}
	l.node.membership.post(func(m *membership) { m.eject(err) })
}

// know takes in what the seat knows of the core.
func (l *shardLoop) know(s seat.State) {
	c, n := &l.core, l.node
	if c.ended {
		return
	}
	l.fence(s.Fenced)
	m := n.mesh.Load()
	another := m == nil || m.id != s.Table.Mesh
	if another && m != nil && !n.fits(m.params, s.Table.Params) {
		l.fail(fmt.Errorf("%w: the core is in another mesh now, with other parameters: %+v in place of %+v", fault.ErrForeignMesh, s.Table.Params, m.params))
		return
	}
	c.void = another && m != nil && s.Void
	c.table = s.Table // before an observer hears of the mesh: it looks at the seats
	switch {
	case another && !n.enter(s.Table):
		return // it was closed meanwhile
	case !another && m.params != s.Table.Params:
		n.mesh.Store(&mesh{m.id, s.Table.Params})
		if was, is := m.params.MaxTTL, s.Table.Params.MaxTTL; was != is && !l.seated() { // else the seat has logged more
			n.log.Info("MaxTTL has changed", "was", was, "is", is)
		}
	}
	l.step(client.Limited{Limit: s.Table.Params.Limit()}) // before anything is asked for in another generation
	l.carryOutHosting(c.hosting.Core(l.now, s, nil))
	all, dropped := seated(s.Table), s.Table.Dropped
	v := client.View{Targets: make([][]replica.Peer, len(s.Table.Shards))}
	for _, m := range all {
		v.Core = append(v.Core, replica.Peer{Node: uint64(m.ID), Name: m.Name, Addr: m.Addr})
	}
	for i := range v.Targets {
		v.Targets[i] = c.aims[i].Nodes
	}
	l.step(client.Viewed{View: v})
	n.membership.post(func(m *membership) { m.carryOut(m.members.Seated(m.now, all, dropped, m.out)) })
	if another {
		l.lacks = unreported
	}
	l.report() // whether it lacks votes is to be known before it is ready
}

// fence stops this node's replicas, or lets them go on.
func (l *shardLoop) fence(fenced bool) {
	if n := l.node; n.observer != nil && fenced != l.core.fenced {
		n.observer.Fenced(transport.ID(n.id), fenced)
	}
	l.core.fenced = fenced
}

// fits reports whether this node, which is in a mesh with the parameters of before, can go over to one with the parameters next. If
// MaxTTL is shorter there, and no SetMaxTTL made it so, this node's holds of fixed length could outlast the quiet time, which follows from
// the shorter MaxTTL.
func (n *Node) fits(before, next founding.Params) bool {
	if next.MaxTTL < before.MaxTTL && !before.Changed && !next.Changed {
		return false
	}
	return before.Like(next) && n.wants().Follows(n.name, next) == nil
}

// seated returns the nodes that have a seat, and are not known to have ended.
func seated(t *core.Table) (all []env.Member) {
	for _, s := range t.Seats {
		if s.Node.ID != 0 && !s.Ended {
			all = append(all, s.Node)
		}
	}
	return all
}

// carryOutHosting does what hosting wants done.
func (l *shardLoop) carryOutHosting(out []hosting.Output) {
	c := &l.core
	// By shard: what a replica knew which is dropped here.
	durables := make(map[int][]shard.Durable)
	memories := make(map[int][]shard.Memory)
	for _, o := range out {
		switch o := o.(type) {
		case hosting.Make:
			l.add(o.Config)
		case hosting.Drop:
			if r := l.replica(o.Shard); r != nil {
				durables[o.Shard], memories[o.Shard] = r.Table().Durables(), r.Table().Memories()
				l.drop(r)
			}
		case hosting.Aim:
			c.aims[o.Shard] = o.Target
			if r := l.replica(o.Shard); r != nil {
				l.target(r)
			}
		case hosting.Ask:
			c.asked = c.seat.Change(l.now, o.Change, c.asked)
		case hosting.Begun:
			c.hosted[o.Shard] = o.Used
			l.step(client.Generation{Shard: o.Shard, Name: o.Generation, Quiet: o.Quiet, Void: c.void})
			if s := l.node.Session(); s != nil && !c.void {
				l.step(client.Remembered{Shard: o.Shard, Session: s.life, Uses: durables[o.Shard], Done: memories[o.Shard]})
			}
		}
	}
}

// lookAround lets hosting see the replicas here.
func (l *shardLoop) lookAround() {
	seen := make([]hosting.Seen, len(l.replicas))
	for i, r := range l.replicas {
		seen[i] = hosting.See(r)
		if r.QuietUntil() != 0 {
			r.Surpass(l.core.seat.Floor())
			if l.core.hosting.Calm(r.Shard(), r.Generation()) {
				r.Calm()
			}
		}
		r.Raise(l.core.seat.Raise())
	}
	reaches := func(id transport.ID) bool { return l.core.up[uint64(id)] }
	leaves := func(id transport.ID) bool { return l.leaves(uint64(id)) }
	l.carryOutHosting(l.core.hosting.Look(l.now, seen, reaches, leaves, nil))
	asked := l.core.asked
	l.core.asked = nil
	l.carryOutCore(asked)
	l.keep()
}

// leaves reports whether a node leaves the mesh, as far as this one has heard.
func (l *shardLoop) leaves(node uint64) bool {
	return node == l.node.id && l.view.Leaving() || l.view.Leaves(node)
}

// seated reports whether this node has a seat.
func (l *shardLoop) seated() bool {
	t := l.core.table
	return t != nil && slices.Contains(t.Bound(), transport.ID(l.node.id))
}

// target tells a replica where its shard's are to be.
func (l *shardLoop) target(r *replica.Replica) {
	if t, ok := l.aim(r.Shard()); ok {
		r.SetTarget(t)
	}
}

// aim returns where a shard's replicas are to be. Leadership goes from nodes that leave, and not to them. A leader
// that leaves hands over before it changes voters; unless all that vote and are to go on voting leave as well.
func (l *shardLoop) aim(sh int) (t replica.Target, ok bool) {
	if t, ok = l.core.aims[sh]; !ok {
		return t, false
	}
	stays := func(node uint64) bool { return !l.leaves(node) && !slices.Contains(t.Leave, node) }
	heir := slices.ContainsFunc(t.Nodes, func(p replica.Peer) bool { return slices.Contains(t.From, p.Node) && stays(p.Node) })
	t.Yields = t.Yields || heir && l.view.Leaving()
	t.Leave = slices.Clone(t.Leave)
	for _, p := range t.Nodes {
		if l.leaves(p.Node) {
			t.Leave = append(t.Leave, p.Node)
		}
	}
	return t, true
}

// dispensable reports whether others can do without this node's vote in a shard: enough of the nodes that have a seat
// are connected, and do not leave.
func (l *shardLoop) dispensable() bool {
	t := l.core.table
	return l.stay(t.Bound()) >= min(2, len(t.Seats))
}

// stay counts those of the nodes that this one is connected with, and that do not leave.
func (l *shardLoop) stay(nodes []transport.ID) (n int) {
	for _, id := range nodes {
		if l.core.up[uint64(id)] && !l.leaves(uint64(id)) {
			n++
		}
	}
	return n
}
