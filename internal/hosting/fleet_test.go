package hosting_test

import (
	"context"
	"flag"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"os"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lockmesh/mesh/internal/client"
	"github.com/lockmesh/mesh/internal/env"
	"github.com/lockmesh/mesh/internal/fault"
	"github.com/lockmesh/mesh/internal/founding"
	"github.com/lockmesh/mesh/internal/hosting"
	"github.com/lockmesh/mesh/internal/message"
	"github.com/lockmesh/mesh/internal/replica"
	"github.com/lockmesh/mesh/internal/seat"
	"github.com/lockmesh/mesh/ring"
	"github.com/lockmesh/mesh/shard"
	"github.com/lockmesh/mesh/simulate"
	"github.com/lockmesh/mesh/transport"
)

var worlds = flag.Int("worlds", 3, "how many worlds of each profile to play")

// TestMain lets the garbage grow as the command does: worlds make much of it and are small.
func TestMain(m *testing.M) {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(400)
	}
	m.Run()
}

// What the fleets are like.
const (
	shards   = 3
	replicas = 3

	rho = 0.01
)

var keys = []string{"a", "b", "c", "s"}

// A fleet is a core, whose seats, replicas and rules of placement are those that ship, and clients of it, in
// the simulator. A driver in this test takes the place of the node.
type fleet struct {
	*simulate.World
	list     []string
	nodes    map[string]*node // the latest of each host
	believed []*belief
	tokens   map[place]uint64 // the highest of each key that is locked as a whole
	healed   bool             // callers do nothing by themselves
	ttl      time.Duration    // of all leases; no other is longer
	oracle   bool             // who is down is gone for good, and there is an oracle that knows

	grants, lost, generations int
}

// place is a key in one mesh. A mesh that nobody remembers has tokens by its founders' clocks alone (P17).
type place struct {
	mesh uint64
	key  string
}

// node is the driver.
type node struct {
	*fleet
	host string
	env  env.Env
	self env.Member
	net  env.Network
	loop env.Loop
	rand *rand.Rand
	log  func(text string, attrs ...any)

	todo     []func()
	now      time.Duration
	tickAt   time.Duration
	ticks    int
	up       map[transport.ID]bool
	seat     *seat.Machine
	outputs  []seat.Output
	state    seat.State
	hosting  *hosting.Machine
	replicas [shards]*replica.Replica
	highest  [shards]uint64 // the last replica ID here, in this generation
	reader   message.Reader
	local    []letter
	ended    error
	aims     map[int]replica.Target // the last of each shard

	client *client.Client
	own    *client.Session
	out    client.Output
	calls  map[*client.Call]bool
	holds  []*belief
	actAt  time.Duration
}

type letter struct {
	shard int
	message.Message
}

// belief is a hold that a caller has.
type belief struct {
	*client.Hold
	node    *node
	request client.Request
	over    bool
}

// still is where no caller waits.
type still struct{ env.Parker }

func (n *node) post(do func()) {
	n.todo = append(n.todo, do)
	n.loop.Wake()
}

func (n *node) Dialed(addr string, peer transport.Hello, err error) {
	n.post(func() { n.outputs = n.seat.Dialed(n.now, addr, peer, err, n.outputs) })
}

func (n *node) Up(peer transport.Hello) {
	n.post(func() {
		n.up[peer.ID] = true
		n.outputs = n.seat.Up(n.now, peer.ID, n.outputs)
	})
}

func (n *node) Down(peer transport.ID, _ transport.Cause) {
	n.post(func() {
		delete(n.up, peer)
		n.outputs = n.seat.Down(n.now, peer, n.outputs)
	})
}

func (n *node) Receive(from transport.ID, kind transport.Kind, body []byte) {
	n.post(func() {
		if kind == transport.KindControl {
			n.outputs = n.seat.Message(n.now, from, body, n.outputs)
			return
		}
		mesh, err := message.ReadHeader(body)
		if err != nil || n.state.Table == nil || mesh != n.state.Table.Mesh {
			return
		}
		for n.reader.Reset(body, shards); n.reader.Next(); {
			n.take(uint64(from), n.reader.Shard, n.reader.Message)
		}
		if err := n.reader.Err(); err != nil {
			n.Fail(err)
		}
	})
}

func (n *node) run(now time.Duration) time.Duration {
	n.now = n.env.Now()
	if n.ended != nil {
		return env.Never
	}
	todo := n.todo
	n.todo = nil
	for _, do := range todo {
		do()
		n.carryOut()
		n.settle()
	}
	if n.now >= n.seat.Deadline() {
		n.outputs = n.seat.Tick(n.now, n.outputs)
	}
	n.carryOut()
	if n.now >= n.tickAt {
		n.tickAt = n.now + replica.TickInterval
		n.tick()
	}
	if n.client != nil && n.now >= n.client.Deadline() {
		n.step(client.Tick{})
	}
	if n.now >= n.actAt && n.client != nil && !n.healed {
		n.actAt = n.now + time.Duration(n.rand.Int64N(int64(800*time.Millisecond)))
		n.act()
	}
	n.settle()
	next := min(n.seat.Deadline(), n.tickAt)
	if n.client != nil {
		if next = min(next, n.client.Deadline()); !n.healed {
			next = min(next, n.actAt)
		}
	}
	for _, r := range n.replicas {
		if r != nil && !n.state.Fenced {
			next = min(next, r.WakeAt())
		}
	}
	return next
}

// carryOut does what the seat wants done.
func (n *node) carryOut() {
	for len(n.outputs) > 0 {
		outputs := n.outputs
		n.outputs = nil
		for _, o := range outputs {
			switch o := o.(type) {
			case seat.Dial:
				n.net.Dial(o.Addr)
			case seat.Send:
				n.net.Send(o.To, transport.KindControl, transport.Normal, o.Body)
			case seat.Drop:
				n.Fail(o.Err)
			case seat.Log:
				n.log(o.Text, "attrs", fmt.Sprint(o.Attrs))
			case seat.State:
				n.know(o)
			case seat.Cut:
				n.carry(n.hosting.Cut(o, nil))
			case seat.Inquire:
				n.env.Go("oracle", time.Second, func(context.Context) {
					dead := !n.Host(o.Node.Name).Up()
					n.post(func() { n.outputs = n.seat.Answered(n.now, o.Node.ID, dead, nil, n.outputs) })
				})
			case seat.Failed:
				n.log("ended", "because", o.Err)
				n.ended = o.Err
				n.Fail(fmt.Errorf("%s: %w", n.host, o.Err))
			}
		}
	}
}

// know takes in what the seat knows of the core.
func (n *node) know(s seat.State) {
	n.state = s
	if s.Table != nil && n.client == nil {
		n.own = client.NewSession(true, n.ttl)
		n.client = client.New(client.Config{
			Node: uint64(n.self.ID), Name: n.host, Shards: shards, Rho: rho, Rand: rand.New(rand.NewPCG(n.env.Seed(), 1)),
		})
	}
	n.carry(n.hosting.Core(n.now, s, nil))
	if s.Table != nil {
		var v client.View
		for _, e := range s.Table.Seats {
			if e.Node.ID != 0 {
				v.Core = append(v.Core, replica.Peer{Node: uint64(e.Node.ID), Name: e.Entry, Addr: e.Node.Addr})
			}
		}
		for i := range s.Table.Shards {
			v.Targets = append(v.Targets, n.aims[i].Nodes)
		}
		n.step(client.Viewed{View: v})
	}
}

// carry does what hosting wants done.
func (n *node) carry(out []hosting.Output) {
	for _, o := range out {
		switch o := o.(type) {
		case hosting.Make:
			n.make(o.Config)
		case hosting.Drop:
			n.replicas[o.Shard] = nil
		case hosting.Aim:
			if r := n.replicas[o.Shard]; r != nil {
				r.SetTarget(o.Target)
			}
			n.aims[o.Shard] = o.Target
		case hosting.Ask:
			n.outputs = n.seat.Change(n.now, o.Change, n.outputs)
		case hosting.Begun:
			n.highest[o.Shard] = o.Used
			n.generations++
			n.step(client.Generation{Shard: o.Shard, Name: o.Generation, Quiet: o.Quiet})
		}
	}
}

func (n *node) make(cfg replica.Config) {
	cfg.Self = replica.Peer{Node: uint64(n.self.ID), Name: n.host, Addr: n.self.Addr}
	cfg.Seed, cfg.Logger, cfg.Counters, cfg.Founding.Check = n.rand.Uint64(), slog.New(slog.DiscardHandler), new(replica.Counters), true
	cfg.Rho = rho
	n.highest[cfg.Shard] = max(n.highest[cfg.Shard], cfg.ID)
	n.replicas[cfg.Shard] = replica.New(cfg, n.now)
	if t, ok := n.aims[cfg.Shard]; ok {
		n.replicas[cfg.Shard].SetTarget(t)
	}
}

func (n *node) tick() {
	if n.state.Fenced {
		return
	}
	n.ticks++
	for i, r := range n.replicas {
		if r == nil {
			continue
		}
		if r.Tick(n.now, n.ticks%replica.HeartbeatTicks == 0); r.Err() != nil {
			n.log("replica stopped", "shard", i, "error", r.Err())
			n.replicas[i] = nil
		}
	}
	n.judge()
	if n.ticks%4 == 0 {
		var seen []hosting.Seen
		for _, r := range n.replicas {
			if r != nil {
				seen = append(seen, hosting.See(r))
			}
		}
		n.carry(n.hosting.Look(n.now, seen, func(id transport.ID) bool { return n.up[id] }, func(transport.ID) bool { return false }, nil))
		n.carryOut()
	}
}

// judge checks that a shard votes where the core has logged that it does or may (C2), by the latest of the
// tables in this node's generation of the core.
func (n *node) judge() {
	t := n.state.Table
	if t == nil {
		return
	}
	for _, o := range n.nodes {
		if s := o.state.Table; s != nil && s.Stamp.Roll == t.Stamp.Roll && s.Stamp.Version > t.Stamp.Version {
			t = s
		}
	}
shards:
	for i, r := range n.replicas {
		s := t.Shards[i]
		if r == nil || !r.Serving() || r.Generation() != s.Generation.Name() {
			continue
		}
		for _, o := range n.nodes {
			if x := o.replicas[i]; x != nil && x.Generation() == r.Generation() && x.Term() > r.Term() {
				continue shards // it does not know yet that it leads no more
			}
		}
		if voters := hosting.See(r).Voters; !slices.Equal(voters, s.Voters) && !slices.Equal(voters, s.Next) {
			n.Fail(fmt.Errorf("C2: shard %d has the voters %v, though by the core it has %v and may have %v", i, voters, s.Voters, s.Next))
		}
	}
}

// settle lets the replicas speak.
func (n *node) settle() {
	for again := true; again; {
		again = false
		if !n.state.Fenced {
			for i, r := range n.replicas {
				if r == nil {
					continue
				}
				if r.WakeAt() <= n.now {
					r.Wake(n.now)
				}
				for !r.Rests() {
					var out replica.Output
					r.Ready(n.now, &out)
					n.speak(r, i, &out)
				}
			}
		}
		local := n.local
		n.local = nil
		for _, l := range local {
			again = true
			n.take(uint64(n.self.ID), l.shard, l.Message)
		}
	}
}

func (n *node) speak(r *replica.Replica, sh int, out *replica.Output) {
	by := message.Leadership{Generation: r.Generation()}
	if r.Serving() {
		by.Leader, by.Term = uint64(n.self.ID), r.Term()
	}
	for _, s := range out.Sends {
		n.send(s.Node, sh, s.Message)
	}
	for _, e := range out.Events {
		if e.Answers() {
			n.send(e.Session.Node, sh, &message.Reply{Event: e, Revision: r.Revision(), Leadership: by})
		}
	}
	for _, a := range out.Answers {
		n.send(a.Session.Node, sh, &message.Answer{Answer: a, Leadership: by})
	}
	for _, d := range out.Dropped {
		n.send(d.Session.Node, sh, &message.Redirect{Session: d.Session.Number, Number: d.Number, Leadership: message.Leadership{Generation: r.Generation()}})
	}
	if out.Serving {
		for _, id := range slices.Sorted(maps.Keys(n.up)) {
			n.send(uint64(id), sh, &message.Serving{Generation: r.Generation(), Term: r.Term()})
		}
		n.send(uint64(n.self.ID), sh, &message.Serving{Generation: r.Generation(), Term: r.Term()})
	}
}

func (n *node) send(to uint64, sh int, m message.Message) {
	if to == uint64(n.self.ID) {
		n.local = append(n.local, letter{sh, m})
		return
	}
	n.net.Send(transport.ID(to), transport.KindShard, transport.Normal, message.Append(message.AppendHeader(nil, n.state.Table.Mesh), sh, m))
}

// take steps one message of a shard.
func (n *node) take(from uint64, sh int, m message.Message) {
	r := n.replicas[sh]
	if n.state.Fenced {
		r = nil
	}
	switch m := m.(type) {
	case *replica.Host:
		if n.hosting.Hosts(sh, m.Generation) && m.ID > n.highest[sh] {
			n.make(replica.Config{Shard: sh, Generation: m.Generation, ID: m.ID})
		}
	case *replica.Removed:
		if r != nil && r.Generation() == m.Generation && r.ID() == m.ID && m.Highest >= r.ID() {
			n.replicas[sh] = nil
		}
	case *replica.Offer:
		t := n.aims[sh]
		if r != nil && r.Term() == m.Term && len(t.Nodes) > 0 && t.Nodes[0].Node == uint64(n.self.ID) {
			n.send(from, sh, &replica.Accept{Term: m.Term})
		}
	case *message.Request:
		id, number := shard.ClientOf(m.Command)
		n.serve(from, sh, r, m.Generation, id.Number, number, func() { _ = r.Submit(n.now, m.Command, m.Raw) })
	case *message.Renewal:
		n.serve(from, sh, r, m.Generation, m.Session.Number, 0, func() { _ = r.Renew(n.now, m.Renewal) })
	case *message.Reply, *message.Answer, *message.Redirect, *message.Serving:
		if n.client != nil {
			n.reader.Keep()
			n.step(client.Received{Shard: sh, From: from, Message: m})
		}
	default:
		if r != nil {
			if answer := r.Receive(n.now, from, m); answer != nil {
				n.send(from, sh, answer)
			}
		} else if f, is := m.(*replica.Frame); is && !n.state.Fenced && n.hosting.Hosts(sh, f.Generation) && f.To <= n.highest[sh] {
			n.send(from, sh, &replica.Missing{Generation: f.Generation, ID: f.To})
		}
	}
}

func (n *node) serve(from uint64, sh int, r *replica.Replica, generation, session, number uint64, accept func()) {
	if r != nil && r.Generation() == generation && r.Serving() {
		accept()
		return
	}
	d := &message.Redirect{Session: session, Number: number, Leadership: message.Leadership{Generation: generation}}
	if r != nil && r.Generation() == generation {
		if p, ok := r.Leader(); ok && p.Node != uint64(n.self.ID) {
			d.Leader, d.Term = p.Node, r.Term()
		}
	}
	n.send(from, sh, d)
}

// step gives the client an input, and carries out what comes of it.
func (n *node) step(in client.Input) {
	if n.client == nil {
		return
	}
	n.client.Step(n.now, in, &n.out)
	events, sends := slices.Clone(n.out.Events), slices.Clone(n.out.Sends)
	n.out.Reset()
	for _, e := range events {
		switch e := e.(type) {
		case client.Finished:
			n.finished(e.Call)
		case client.End:
			e.Hold.End(env.Never, e.Cause)
		}
	}
	for _, s := range sends {
		n.send(s.To, s.Shard, s.Message)
	}
	n.look()
}

// look ends what is over by the node's clock.
func (n *node) look() {
	n.holds = slices.DeleteFunc(n.holds, func(b *belief) bool {
		b.End(n.now, fault.ErrLost)
		if b.Err() == fault.ErrLost && !b.over && !b.Fixed() {
			n.lost++
		}
		b.over = b.over || b.Err() != nil
		return b.over
	})
	n.believed = slices.DeleteFunc(n.believed, func(b *belief) bool { return b.over })
}

// valid reports whether the holder may count on its hold.
func (b *belief) valid() bool {
	h := b.node.Host(b.node.host)
	return !b.over && b.Err() == nil && h.Up() && b.node.nodes[b.node.host] == b.node && b.node.env.Now() < b.Deadline()
}

func (n *node) finished(c *client.Call) {
	if c.Parker == nil {
		return // none of a caller's
	}
	if !n.calls[c] {
		n.Fail(fmt.Errorf("%s: a call is finished twice: %+v", n.host, c))
	}
	delete(n.calls, c)
	if c.Kind != client.Lock || c.Err != nil {
		return
	}
	b := &belief{Hold: c.Hold, node: n, request: c.Request}
	if !b.valid() {
		return
	}
	n.grants++
	weight, capacity := b.request.Share()
	whole := weight == capacity
	var beside []string
	for _, o := range n.believed {
		if o.Key == b.Key && o.valid() {
			used, _ := o.request.Share()
			weight += used
			beside = append(beside, fmt.Sprintf("%s with token %d", o.node.host, o.Token))
		}
	}
	if weight > capacity {
		n.Fail(fmt.Errorf("G1: %s has %s with token %d, beside %v", n.host, b.Key, b.Token, beside))
	}
	if at := (place{n.state.Table.Mesh, b.Key}); whole {
		if b.Token <= n.tokens[at] {
			n.Fail(fmt.Errorf("G2: %s has %s with token %d, after %d", n.host, b.Key, b.Token, n.tokens[at]))
		}
		n.tokens[at] = b.Token
	}
	n.believed = append(n.believed, b)
	n.holds = append(n.holds, b)
}

// act is a caller's next move.
func (n *node) act() {
	switch k := n.rand.IntN(10); {
	case k < 4 && len(n.holds) > 0:
		n.unlock(n.holds[n.rand.IntN(len(n.holds))])
	case k == 4 && len(n.holds) > 0:
		if b := n.holds[n.rand.IntN(len(n.holds))]; b.Fixed() && b.valid() {
			n.start(&client.Call{Kind: client.Fix, Shard: b.Shard, Hold: b.Hold, Length: time.Second})
		}
	case len(n.calls) < 6:
		q := client.Request{Key: keys[n.rand.IntN(len(keys))], Mode: client.Mode(n.rand.IntN(2)), Try: n.rand.IntN(5) == 0}
		if q.Key == "s" {
			q.Mode, q.Capacity, q.Weight = client.Permits, 3, 1+n.rand.Int64N(2)
		}
		if n.rand.IntN(5) == 0 {
			q.MaxHold = n.ttl
		}
		n.lock(q)
	}
}

func (n *node) lock(q client.Request) *client.Call {
	c := &client.Call{Kind: client.Lock, Shard: ring.Shard(q.Key, shards), Session: n.own, Request: q}
	n.start(c)
	return c
}

func (n *node) start(c *client.Call) {
	n.calls[c], c.Parker = true, still{}
	n.step(client.Start{Call: c})
}

func (n *node) unlock(b *belief) {
	b.over = true
	if b.End(env.Never, fault.ErrClosed) {
		n.start(&client.Call{Kind: client.Unlock, Shard: b.Shard, Hold: b.Hold})
	}
}

// known is the highest revision of a shard that the node has heard of.
func (n *node) known(shard int) (revision uint64) {
	if n.client != nil {
		revision = n.client.Revision(shard)
	}
	if r := n.replicas[shard]; r != nil {
		revision = max(revision, r.Revision())
	}
	return revision
}

func (f *fleet) boot(host string) {
	f.Host(host).Boot("node", func(ctx context.Context) {
		e := env.FromContext(ctx)
		n := &node{
			fleet: f, host: host, env: e, self: env.Member{ID: transport.ID(e.Seed()), Name: host}, rand: rand.New(rand.NewPCG(e.Seed(), 2)),
			up: make(map[transport.ID]bool), aims: make(map[int]replica.Target), calls: make(map[*client.Call]bool),
		}
		log := simulate.Logger(ctx)
		n.log = log.Info
		var err error
		n.net, err = e.Listen(transport.Config{Bind: ":7400", Hello: transport.Hello{ID: n.self.ID, Name: host}, Logger: log}, n)
		if err != nil {
			f.Fail(err)
			return
		}
		n.self.Addr = n.net.Addr()
		n.hosting = hosting.New(n.self.ID)
		n.seat = seat.New(seat.Config{
			Self: n.self, List: f.list, Rand: e.Seed(), Wall: e.Wall(), Wants: founding.Options{Shards: shards, Replicas: replicas, MaxTTL: f.ttl},
			Known: n.known, Oracle: f.oracle,
			Place: hosting.Place, Found: true,
		})
		n.loop = e.NewLoop("node", n.run)
		n.post(func() { n.outputs = n.seat.Start(n.now, n.outputs) })
		f.nodes[host] = n
	})
}

// serves reports whether every shard has a leader, and no node of the core is fenced.
func (f *fleet) serves() bool {
	led := 0
	for _, h := range f.Hosts() {
		n := f.nodes[h.Name()]
		if n == nil || !h.Up() || n.state.Table == nil || n.state.Fenced {
			return false
		}
		for i, r := range n.replicas {
			if r != nil && r.Serving() && r.Generation() == n.state.Table.Shards[i].Generation.Name() && r.Table().Settles() == 0 {
				led++
			}
		}
	}
	return led >= shards
}

// whole reports whether a node can be stopped without harm: every node of the core has its seat, every shard
// serves, all its voters have a seat, and there are as many as there should be.
func (f *fleet) whole() bool {
	if !f.serves() {
		return false
	}
	for _, entry := range f.list {
		n := f.nodes[strings.TrimSuffix(entry, ":7400")]
		bound := n.state.Table.Bound()
		if !slices.Contains(bound, n.self.ID) {
			return false
		}
		for i, s := range n.state.Table.Shards {
			gone := func(id transport.ID) bool { return !slices.Contains(bound, id) }
			if s.Next != nil || len(s.Voters) != min(replicas, len(bound)) || slices.ContainsFunc(s.Voters, gone) {
				return false
			}
			if r := n.replicas[i]; r == nil && slices.Contains(s.Voters, n.self.ID) {
				return false
			}
		}
	}
	return true
}

// newFleet starts a fleet whose core has so many entries.
func newFleet(w *simulate.World, cores, clients int, ttl time.Duration) *fleet {
	f := &fleet{World: w, ttl: ttl, nodes: make(map[string]*node), tokens: make(map[place]uint64)}
	for i := range cores {
		f.list = append(f.list, fmt.Sprintf("h%d:7400", i+1))
	}
	for i := range cores {
		f.boot(fmt.Sprint("h", i+1))
	}
	for i := range clients {
		f.boot(fmt.Sprint("x", i+1))
	}
	return f
}

// play lets a storm go over a fleet, and checks the end.
func play(w *simulate.World, cores, clients int, storm simulate.ChaosOptions) (*fleet, error) {
	f := newFleet(w, cores, clients, 3*time.Second)
	c := w.Chaos(storm)
	if err := w.RunUntil(c.Over, 10*time.Minute); err != nil {
		return f, err
	}
	w.HealAll()
	return f, f.end()
}

// end: in a healed world all calls end, and every key can be locked once all holds are given back.
func (f *fleet) end() error {
	f.healed = true
	if err := f.RunUntil(f.serves, time.Minute); err != nil {
		return fmt.Errorf("%w: %s", err, f.why())
	}
	over := func() (all bool) {
		all = true
		for _, h := range f.Hosts() {
			n := f.nodes[h.Name()]
			n.post(func() {
				for _, b := range slices.Clone(n.holds) {
					n.unlock(b)
				}
			})
			all = all && (!h.Up() || len(n.calls) == 0)
		}
		return all
	}
	for limit := f.Now() + time.Minute; !over(); {
		if f.Now() > limit {
			return fmt.Errorf("calls do not end: %s", f.why())
		}
		if err := f.Run(100 * time.Millisecond); err != nil {
			return err
		}
	}
	if err := f.Run(2 * f.ttl); err != nil { // leases that nobody closed
		return err
	}
	for _, key := range keys[:3] {
		n := f.nodes[f.Hosts()[0].Name()]
		var c *client.Call
		n.post(func() { c = n.lock(client.Request{Key: key}) })
		// Where links take nearly as long as an election, leaders come and go.
		if err := f.RunUntil(func() bool { return c != nil && !n.calls[c] }, 20*time.Second); err != nil || c.Err != nil {
			return fmt.Errorf("%s is free, and is not granted: %w, %v: %s", key, err, c.Err, f.why())
		}
	}
	return nil
}

// why tells what is known where.
func (f *fleet) why() (text string) {
	for _, h := range f.Hosts() {
		n := f.nodes[h.Name()]
		if n == nil || n.state.Table == nil {
			text += fmt.Sprintf("\n%s knows nothing: %s", h.Name(), n.seat.Waiting())
			continue
		}
		text += fmt.Sprintf("\n%s (%d) fenced %v, %d calls, waits for %q, table %+v", h.Name(), n.self.ID, n.state.Fenced, len(n.calls), n.seat.Waiting(), n.state.Table.Stamp)
		for i, r := range n.replicas {
			s := n.state.Table.Shards[i]
			text += fmt.Sprintf("\n  shard %d: generation %d voters %v next %v", i, s.Generation.Number, s.Voters, s.Next)
			if r != nil {
				text += fmt.Sprintf(", here %+v, settles %v", hosting.See(r), r.Table().Settles())
			}
		}
	}
	return text
}

// Promise: G1, G2 in any storm in which any process may end; and G6: once all are up and connected, every
// shard serves, every call ends, and every key can be locked.
func TestFleetsInStorms(t *testing.T) {
	grants, lost, generations, crashes := 0, 0, 0, 0
	for _, p := range simulate.Profiles() {
		for seed := uint64(1); seed <= uint64(*worlds) && (seed == 1 || !testing.Short()); seed++ {
			o := simulate.Play(simulate.Options{Seed: seed, Profile: p}, func(w *simulate.World) error {
				f, err := play(w, 1+int(seed%6), int(seed%4), simulate.ChaosOptions{
					For: 40 * time.Second, MayCrash: func(string) bool { return true }, MayCrashAll: func(time.Duration) bool { return true },
				})
				grants, lost, generations = grants+f.grants, lost+f.lost, generations+f.generations
				for _, h := range w.Hosts() {
					crashes += h.Incarnation() - 1
				}
				return err
			})
			if o.Err != nil {
				t.Errorf("%s, seed %d: %v", p, seed, o.Err)
			}
		}
	}
	t.Logf("%d grants, %d locks lost, %d restarts, %d generations of shards, as the nodes counted them", grants, lost, crashes, generations)
}

// One seed is one world, bit for bit.
func TestFleetsAreDeterministic(t *testing.T) {
	var hashes [2]uint64
	for i := range hashes {
		hashes[i] = simulate.Play(simulate.Options{Seed: 4, Profile: "hostile"}, func(w *simulate.World) error {
			_, err := play(w, 5, 3, simulate.ChaosOptions{For: 20 * time.Second, MayCrash: func(string) bool { return true }})
			return err
		}).Hash
	}
	if hashes[0] != hashes[1] {
		t.Errorf("%x and %x", hashes[0], hashes[1])
	}
}
