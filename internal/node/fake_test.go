package node

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lockmesh/mesh/internal/client"
	"github.com/lockmesh/mesh/internal/core"
	"github.com/lockmesh/mesh/internal/env"
	"github.com/lockmesh/mesh/internal/fault"
	"github.com/lockmesh/mesh/internal/founding"
	"github.com/lockmesh/mesh/internal/members"
	"github.com/lockmesh/mesh/internal/message"
	"github.com/lockmesh/mesh/internal/replica"
	"github.com/lockmesh/mesh/internal/seat"
	"github.com/lockmesh/mesh/shard"
	"github.com/lockmesh/mesh/transport"
)

// bench is node 1, called "a", to which a test plays the world. The clock stands still until
// the test moves it, what the node sends stays here until the test takes it, and a caller who
// parks lets the node's loops run, and time pass, until somebody wakes him.
type bench struct {
	tb     testing.TB
	now    time.Duration
	drawn  uint64
	node   *Node
	loops  []*benchLoop
	sent   []parcel
	frames int          // so many about shards were sent
	of     uint64       // the mesh that the last of them names
	words  []string     // what the node asked of its connections and of gossip
	play   func(parcel) // hears what is sent, in its place
	log    strings.Builder
	news   func(env.MemberEvent)
	says   transport.Hello // how the node introduces itself
	deaf   bool            // there is no gossip
	apart  bool            // no dial ends, not even of the node's own address
	store  env.Store       // nil: no test opens it
	taken  error           // why it cannot listen; nil: it can
	late   time.Duration   // so much later the next caller runs that is woken
}

// parcel is a message that the node sent: about a shard, or a control message.
type parcel struct {
	to    uint64
	class transport.Class
	letter
	control []byte
}

func is[M message.Message](p parcel) bool { _, ok := p.Message.(M); return ok }

// command returns the command of a request, or nil.
func (p parcel) command() shard.Command {
	if m, ok := p.Message.(*message.Request); ok {
		return m.Command
	}
	return nil
}

// renewal returns a renewal, or a zero one.
func (p parcel) renewal() message.Renewal {
	if m, ok := p.Message.(*message.Renewal); ok {
		return *m
	}
	return message.Renewal{}
}

// relay reports whether it is to be passed on to the leader.
func (p parcel) relay() bool {
	m, ok := p.Message.(*message.Request)
	return ok && m.Relay || p.renewal().Relay
}

// The nodes that the test plays: b leads, c is another member.
const (
	nodeA, nodeB, nodeC = 1, 2, 3
	benchTTL            = 12 * time.Second
	benchTerm           = 5
)

// believed is for how long a TTL is believed in, at a ρ of 1 % (P1).
func believed(ttl time.Duration) time.Duration { return time.Duration(float64(ttl) * 0.99 / 1.01) }

var benchMembers = []replica.Peer{{Node: nodeA, Name: "a", Addr: "a:1"}, {Node: nodeB, Name: "b", Addr: "b:1"}, {Node: nodeC, Name: "c", Addr: "c:1"}}

// benchMesh is the mesh that the nodes of the roster founded: each has a seat, and votes in every shard.
func benchMesh(shards int, roster ...uint64) *core.Table {
	t := &core.Table{
		Stamp: core.Stamp{Roll: core.Ballot{Round: 1, By: nodeB}}, Mesh: 77,
		Params: founding.Params{MeshName: "m", Shards: shards, Replicas: 3, MaxTTL: time.Minute, Rho: 100},
	}
	var voters []transport.ID
	for _, m := range benchMembers {
		if slices.Contains(roster, m.Node) {
			voters = append(voters, transport.ID(m.Node))
			t.Seats = append(t.Seats, core.Seat{Entry: m.Addr, Node: env.Member{ID: transport.ID(m.Node), Name: m.Name, Addr: m.Addr}})
		}
	}
	for range shards {
		t.Shards = append(t.Shards, core.Shard{Generation: benchLife, Voters: voters, Revision: 1 << 30})
	}
	return t
}

// benchLife is the generation in which the bench's shards live.
var (
	benchLife       = core.Generation{Core: core.Ballot{Round: 1, By: nodeB}, Number: 1}
	benchGeneration = benchLife.Name()
)

// newBench makes a node that is part of a mesh of one shard, or as many as cfg says, in whose core are the nodes of
// the roster. What it is to know of the core the test says: no dial ends. Without a roster the node is a client of b,
// which leads, and c.
func newBench(tb testing.TB, cfg Config, roster ...uint64) *bench {
	tb.Helper()
	b := &bench{tb: tb, now: time.Minute, apart: true}
	cfg.Env, cfg.Name, cfg.LeaseTTL, cfg.Check = b, "a", benchTTL, true
	cfg.Logger = slog.New(slog.NewTextHandler(&b.log, &slog.HandlerOptions{Level: slog.LevelWarn}))
	b.node = &Node{
		cfg: cfg, env: b, log: cfg.Logger, id: nodeA, name: "a", addr: "a:1", net: b,
		done: make(chan struct{}), sessions: make(map[*Session]bool), status: serving,
	}
	b.node.turned = b.node.NewBell()
	b.node.begun.Store(true)
	b.node.standing.Store(new(seat.Standing))
	b.node.membership = newMembership(b.node)
	b.node.shards, b.node.watch, b.node.pulse = newShardLoop(b.node), newWatch(b.node), newPulse(b.node)
	b.node.watch.loop = b.NewLoop("watch", b.node.watch.run)
	b.node.shards.start()
	client := len(roster) == 0
	if client {
		roster = []uint64{nodeB, nodeC}
	}
	b.knows(seat.State{Table: benchMesh(max(cfg.Shards, 1), roster...)})
	b.looks(benchMembers...)
	if client {
		b.looks(benchMembers[1:]...) // what a node says to itself is not sent
		b.hears(nodeB, serves(benchTerm))
	}
	return b
}

// knows lets the node know this of the core.
func (b *bench) knows(s seat.State) { b.do(func(l *shardLoop) { l.know(s) }) }

// ready returns a node that can serve.
func ready(ctx context.Context, cfg Config) (*Node, error) {
	n, err := Start(cfg)
	if err != nil {
		return nil, err
	}
	if err := n.WaitReady(ctx); err != nil {
		_ = n.Close()
		return nil, err
	}
	return n, nil
}

// start starts a node that founds a mesh of one, with a membership loop of its own.
func start(tb testing.TB, cfg Config) *bench {
	tb.Helper()
	b := &bench{tb: tb, now: time.Minute}
	cfg.Env, cfg.Name, cfg.Found, cfg.Shards, cfg.LeaseTTL, cfg.Check = b, "a", true, max(cfg.Shards, 1), benchTTL, true
	cfg.Logger = slog.New(slog.NewTextHandler(&b.log, &slog.HandlerOptions{Level: slog.LevelWarn}))
	if _, err := ready(tb.Context(), cfg); err != nil {
		tb.Fatal(err)
	}
	b.pass(time.Second)
	b.take()
	b.words = nil
	return b
}

// looks gives the node a view in which these are the members.
func (b *bench) looks(all ...replica.Peer) { b.views(false, all) }

// views gives the node a view of one that leaves, or stays.
func (b *bench) views(leaving bool, all []replica.Peer) {
	v := members.NewView(leaving, all)
	b.node.shards.post(func(l *shardLoop) { l.look(v) })
	b.run()
}

// Now, Wall, Seed, NewParker, NewLoop, Go, OpenStore, Listen and NewMembership make bench a env.Env.
func (b *bench) Now() time.Duration { return b.now }

func (b *bench) Wall() time.Time { return time.UnixMilli(1 << 40).Add(b.now) }

func (b *bench) Hostname() string { return "somewhere" }

func (b *bench) Seed() uint64 {
	b.drawn++
	return b.drawn
}

func (b *bench) NewParker() env.Parker { return &benchParker{b: b} }

func (b *bench) NewLoop(name string, run func(time.Duration) time.Duration) env.Loop {
	l := &benchLoop{name: name, run: run, due: env.Never}
	b.loops = append(b.loops, l)
	return l
}

func (b *bench) Go(name string, limit time.Duration, fn func(ctx context.Context)) (cancel func()) {
	ctx, cancel := context.WithCancel(context.Background())
	b.at(b.now, func() { fn(ctx) })
	return cancel
}

func (b *bench) OpenStore(string) (env.Store, error) { return b.store, nil }

func (b *bench) Listen(_ transport.Config, h transport.Handler) (env.Network, error) {
	b.node = h.(*Node)
	if b.taken != nil {
		return nil, b.taken
	}
	return b, nil
}

func (b *bench) NewMembership(_ env.Member, _ env.Network, events func(env.MemberEvent)) (env.Membership, error) {
	b.news = events
	if b.deaf {
		return nil, errDeaf
	}
	return benchGossip{b}, nil
}

// Addr, Dial, Connect, Disconnect, Send, Update and Close make it a env.Network.
func (b *bench) Addr() string                         { return "a:1" }
func (b *bench) Connect(id transport.ID, addr string) { b.note("connect %d %s", uint64(id), addr) }
func (b *bench) Disconnect(id transport.ID)           { b.note("disconnect %d", uint64(id)) }
func (b *bench) Close()                               { b.note("close") }

func (b *bench) Update(h transport.Hello) { b.says = h }

// Dial reaches the node itself, or nobody.
func (b *bench) Dial(addr string) {
	switch {
	case addr != "a:1":
		b.note("dial %s", addr)
	case !b.apart:
		b.node.Dialed(addr, transport.Hello{ID: transport.ID(b.node.id), Name: "a", Addr: addr}, transport.ErrSelf)
	}
}

func (b *bench) Send(id transport.ID, kind transport.Kind, class transport.Class, body []byte) bool {
	if kind == transport.KindControl {
		b.post(parcel{to: uint64(id), class: class, control: body})
		return true
	}
	b.frames++
	b.of, _ = message.ReadHeader(body)
	var r message.Reader
	for r.Reset(body, b.node.Params().Shards); r.Next(); r.Keep() {
		b.post(parcel{to: uint64(id), class: class, letter: letter{r.Shard, r.Message}})
	}
	if r.Err() != nil {
		b.tb.Fatalf("node %d is sent %x: %v", id, body, r.Err())
	}
	return true
}

func (b *bench) post(p parcel) {
	if b.play != nil {
		b.play(p)
	} else {
		b.sent = append(b.sent, p)
	}
}

func (b *bench) note(format string, args ...any) {
	b.words = append(b.words, fmt.Sprintf(format, args...))
}

// errDeaf is why a bench without gossip has none.
var errDeaf = errors.New("no gossip")

type benchGossip struct{ b *bench }

func (g benchGossip) Join(peers []env.Member) {
	for _, p := range peers {
		g.b.note("join %d", uint64(p.ID))
	}
}
func (g benchGossip) Leave() { g.b.note("gossip leaves") }
func (g benchGossip) Close() { g.b.note("gossip closes") }

type benchLoop struct {
	name string
	run  func(time.Duration) time.Duration
	due  time.Duration
	over bool
}

func (l *benchLoop) Wake() { l.due = 0 }
func (l *benchLoop) Stop() { l.over = true }

type benchParker struct {
	b     *bench
	woken bool
}

func (p *benchParker) Unpark() { p.woken = true }

func (p *benchParker) Park(ctx context.Context, until time.Duration) env.Wake {
	for {
		switch {
		case p.woken:
			p.woken = false
			p.b.now, p.b.late = p.b.now+p.b.late, 0
			return env.Unparked
		case ctx.Err() != nil:
			return env.ContextEnded
		case p.b.now >= until:
			return env.TimedOut
		case !p.b.step(until):
			p.b.tb.Fatal("a caller parks for ever")
		}
	}
}

// step runs the loop that is due first, if that is before the limit, or lets the time come.
func (b *bench) step(limit time.Duration) bool {
	var first *benchLoop
	for _, l := range b.loops {
		if !l.over && (first == nil || l.due < first.due) {
			first = l
		}
	}
	if first == nil || first.due > limit || first.due == env.Never {
		b.now = max(b.now, limit)
		return limit != env.Never
	}
	b.now = max(b.now, first.due)
	first.due = env.Never
	if next := first.run(b.now); first.due != 0 {
		first.due = next
	}
	return true
}

// at lets f run at a time, as another thread of control.
func (b *bench) at(when time.Duration, f func()) {
	b.NewLoop("", func(time.Duration) time.Duration { f(); return env.Never }).(*benchLoop).due = when
}

// run lets the loops do what is to be done now.
func (b *bench) run() { b.pass(0) }

// pass lets the time d pass.
func (b *bench) pass(d time.Duration) {
	for end, turns := b.now+d, 0; ; {
		due := false
		for _, l := range b.loops {
			due = due || !l.over && l.due <= end
		}
		if !due {
			b.now = end
			return
		}
		before := b.now
		b.step(end)
		if turns++; b.now > before {
			turns = 0
		} else if turns > 1000 {
			b.tb.Fatalf("loops run on and on at %v", b.now)
		}
	}
}

// do runs f on the shard loop.
func (b *bench) do(f func(*shardLoop)) {
	b.node.shards.post(f)
	b.run()
}

// take returns what was sent since the last call.
func (b *bench) take() []parcel {
	sent := b.sent
	b.sent = nil
	return sent
}

func (p *parcel) words() string {
	if p.Message == nil {
		return []string{0: "nothing", ctlCore: "core", ctlStatus: "status", ctlLeaving: "leaving"}[p.control[0]]
	}
	return message.Name(p.Message, 0, func(transport.ID, uint64, uint64) string { return "" })
}

// expects compares what was sent since the last call, in words, and returns it.
func (b *bench) expects(want ...string) []parcel {
	b.tb.Helper()
	sent := b.take()
	var got []string
	for _, p := range sent {
		got = append(got, fmt.Sprintf("%d: %s", p.to, p.words()))
	}
	if !slices.Equal(got, want) {
		b.tb.Fatalf("sent %q, want %q", got, want)
	}
	return sent
}

// expect is expects of one message.
func (b *bench) expect(want string) parcel {
	b.tb.Helper()
	return b.expects(want)[0]
}

// mail leaves messages of a peer, in one frame, for the next run of the shard loop.
func (b *bench) mail(from uint64, messages ...letter) {
	frame := message.AppendHeader(nil, b.node.mesh.Load().id)
	for _, m := range messages {
		frame = message.Append(frame, m.shard, m.Message)
	}
	b.node.Receive(transport.ID(from), transport.KindShard, frame)
}

// hears lets the node receive them.
func (b *bench) hears(from uint64, messages ...letter) {
	b.mail(from, messages...)
	b.run()
}

// serves is a new leader's word that it leads in a term.
func serves(term uint64) letter {
	return letter{0, &message.Serving{Generation: benchGeneration, Term: term}}
}

// byB is how b speaks as the leader.
var byB = message.Leadership{Generation: benchGeneration, Leader: nodeB, Term: benchTerm}

// told is what b, who leads, says of a request: p, in which only the outcome matters.
func told(request parcel, p message.Reply) letter {
	id, number := shard.ClientOf(request.command())
	p.Session.Number, p.Number = id.Number, number
	p.Leadership = byB
	return letter{0, &p}
}

// grant grants a request at the revision that is the token.
func grant(request parcel, token uint64) letter {
	return told(request, message.Reply{Event: shard.Event{What: shard.Granted, Token: token}, Revision: token})
}

// alive answers a renewal: the session lives at that revision, and was told results.
func alive(renewal parcel, revision uint64, results ...shard.Event) letter {
	q := renewal.renewal()
	return letter{0, &message.Answer{Answer: replica.Answer{Session: shard.SessionID{Number: q.Session.Number}, Ref: q.Ref, Alive: true, Revision: revision, Results: results}, Leadership: byB}}
}

// redirected is what a node says of a request or a renewal: not here, but there.
func redirected(request parcel, to, term uint64) letter {
	id, number := shard.ClientOf(request.command())
	if is[*message.Renewal](request) {
		id = request.renewal().Session
	}
	return letter{0, &message.Redirect{Session: id.Number, Number: number, Leadership: message.Leadership{Generation: benchGeneration, Leader: to, Term: term}}}
}

// asks makes a call of a session in shard 0, as Session.Acquire does.
func (b *bench) asks(s *Session, req client.Request) *client.Call { return b.asksOf(0, s, req) }

// asksOf makes a call of a session in any shard.
func (b *bench) asksOf(sh int, s *Session, req client.Request) *client.Call {
	c := &client.Call{Kind: client.Lock, Shard: sh, Session: s.life, Request: req, Parker: b.NewParker()}
	b.node.shards.post(func(l *shardLoop) { l.admit(c) })
	b.run()
	return c
}

// unlocks makes a call of a holder's, as Hold.Release does.
func (b *bench) unlocks(h *Hold) *client.Call {
	c := &client.Call{Kind: client.Unlock, Hold: h.belief, Parker: b.NewParker()}
	h.end(env.Never, fault.ErrClosed)
	b.do(func(l *shardLoop) { l.step(client.Start{Call: c}) })
	return c
}

// isOver reports whether a call has its result, if no caller parks for it.
func isOver(c *client.Call) bool { return c.Parker.(*benchParker).woken }

// holds makes a hold, whose grant has that token.
func (b *bench) holds(s *Session, req client.Request, token uint64) *Hold {
	b.tb.Helper()
	c := b.asks(s, req)
	b.hears(nodeB, grant(b.expect("2: lock "+req.Key), token))
	if req.MaxHold > 0 {
		b.hears(nodeB, told(b.expect(fmt.Sprintf("2: fix %s token %d", req.Key, token)), message.Reply{Event: shard.Event{What: shard.Done}, Revision: token}))
	}
	if !isOver(c) || c.Err != nil || c.Hold == nil {
		b.tb.Fatalf("%+v is not granted: %v, %v", req, isOver(c), c.Err)
	}
	return c.Hold.Owner.(*Hold)
}
