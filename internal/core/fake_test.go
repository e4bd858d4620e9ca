package core

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lockmesh/mesh/internal/founding"
	"github.com/lockmesh/mesh/internal/placement"
	"github.com/lockmesh/mesh/internal/replica"
	"github.com/lockmesh/mesh/internal/seam"
	"github.com/lockmesh/mesh/internal/wire"
	"github.com/lockmesh/mesh/ring"
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
	frames int          // so many of lanes were sent
	words  []string     // what the node asked of its connections and of gossip
	play   func(parcel) // hears what is sent, in its place
	log    strings.Builder
	news   func(seam.MemberEvent)
	deaf   bool // there is no gossip
}

// parcel is a message that the node sent: of a lane, or, if its kind is zero, a control message.
type parcel struct {
	to    uint64
	class transport.Class
	message
	control []byte
}

// The nodes that the test plays: b leads, c is another member.
const (
	nodeA, nodeB, nodeC = 1, 2, 3
	benchTTL            = 12 * time.Second
	benchTerm           = 5
)

var benchMembers = []replica.Peer{{Node: nodeA, Name: "a", Addr: "a:1"}, {Node: nodeB, Name: "b", Addr: "b:1"}, {Node: nodeC, Name: "c", Addr: "c:1"}}

// newBench makes a node that is part of a mesh of one shard, or as many as cfg says, which was
// founded by the nodes of the roster. Without a roster b leads.
func newBench(tb testing.TB, cfg Config, roster ...uint64) *bench {
	tb.Helper()
	b := &bench{tb: tb, now: time.Minute}
	cfg.World, cfg.Name, cfg.LeaseTTL = b, "a", benchTTL
	cfg.Logger = slog.New(slog.NewTextHandler(&b.log, &slog.HandlerOptions{Level: slog.LevelWarn}))
	b.node = &Node{
		cfg: cfg, world: b, log: cfg.Logger, bugs: cfg.Bugs, check: true, id: nodeA, name: "a", addr: "a:1", net: b,
		done: make(chan struct{}), starter: b.NewParker(), sessions: make(map[*Session]bool), status: serving,
	}
	b.node.hall = newHall(b.node)
	mesh := founding.Mesh{
		MeshID: 77, Epoch: 1, Founded: 1 << 20,
		Params: founding.Params{MeshName: "m", Shards: max(cfg.Shards, 1), Replicas: 3, MaxTTL: time.Minute, Rho: 100},
	}
	for _, m := range benchMembers {
		if slices.Contains(roster, m.Node) || len(roster) == 0 && m.Node != nodeA {
			mesh.Roster = append(mesh.Roster, seam.Member{ID: transport.ID(m.Node), Name: m.Name, Addr: m.Addr})
		}
	}
	b.node.found(mesh)
	b.looks(benchMembers...)
	if len(roster) == 0 {
		b.looks(benchMembers[1:]...) // what a node says to itself is not sent
		b.hears(nodeB, serves(benchTerm))
	}
	return b
}

// start starts a node that founds a mesh of one, with a hall of its own.
func start(tb testing.TB, cfg Config) *bench {
	tb.Helper()
	b := &bench{tb: tb, now: time.Minute}
	cfg.World, cfg.Name, cfg.Found, cfg.Shards, cfg.LeaseTTL, cfg.Check = b, "a", true, max(cfg.Shards, 1), benchTTL, true
	cfg.Logger = slog.New(slog.NewTextHandler(&b.log, &slog.HandlerOptions{Level: slog.LevelWarn}))
	if _, err := Start(tb.Context(), cfg); err != nil {
		tb.Fatal(err)
	}
	b.pass(time.Second)
	b.take()
	b.words = nil
	return b
}

// looks gives the node a view in which these are the members.
func (b *bench) looks(members ...replica.Peer) {
	v := &view{
		members: members, unknown: placement.Silent, liveness: make(map[uint64]placement.Liveness), byName: make(map[string]replica.Peer),
	}
	var names []ring.Member
	for _, m := range members {
		v.byName[m.Name], v.liveness[m.Node] = m, placement.Present
		names = append(names, ring.Member{Name: m.Name})
	}
	v.table = ring.New(names, b.node.params.Shards, 3)
	for _, l := range b.node.all {
		l.post(func(l *lane) { l.look(v) })
	}
	b.run()
}

func (b *bench) lane() *lane { return b.node.all[0] }
func (b *bench) desk() *desk { return b.lane().desks[0] }

// Now, Wall, Seed, NewParker, NewLoop, Listen and NewMembership make bench a seam.World.
func (b *bench) Now() time.Duration { return b.now }

func (b *bench) Wall() time.Time { return time.UnixMilli(1 << 40).Add(b.now) }

func (b *bench) Seed() uint64 {
	b.drawn++
	return b.drawn
}

func (b *bench) NewParker() seam.Parker { return &benchParker{b: b} }

func (b *bench) NewLoop(name string, run func(time.Duration) time.Duration) seam.Loop {
	l := &benchLoop{name: name, run: run, due: seam.Never}
	b.loops = append(b.loops, l)
	return l
}

func (b *bench) Listen(_ transport.Config, h transport.Handler) (seam.Network, error) {
	b.node = h.(*Node)
	return b, nil
}

func (b *bench) NewMembership(_ seam.Member, _ seam.Network, events func(seam.MemberEvent)) (seam.Membership, error) {
	b.news = events
	if b.deaf {
		return nil, errDeaf
	}
	return benchGossip{b}, nil
}

// Addr, Dial, Connect, Disconnect, Send, Update and Close make it a seam.Network.
func (b *bench) Addr() string                         { return "a:1" }
func (b *bench) Dial(addr string)                     { b.note("dial %s", addr) }
func (b *bench) Connect(id transport.ID, addr string) { b.note("connect %d %s", uint64(id), addr) }
func (b *bench) Disconnect(id transport.ID)           { b.note("disconnect %d", uint64(id)) }
func (b *bench) Update(transport.Hello)               {}
func (b *bench) Close()                               { b.note("close") }

func (b *bench) Send(id transport.ID, kind transport.Kind, class transport.Class, body []byte) bool {
	if kind == transport.KindControl {
		b.post(parcel{to: uint64(id), class: class, control: body})
		return true
	}
	b.frames++
	r := wire.NewReader(body)
	for range 3 {
		r.Uint(anyUint)
	}
	for r.Len() > 0 {
		m := readMessage(r, b.node.params.Shards)
		if r.Err() != nil {
			b.tb.Fatalf("node %d is sent %x: %v", id, body, r.Err())
		}
		b.post(parcel{to: uint64(id), class: class, message: m})
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

func (g benchGossip) Join(peers []seam.Member) {
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

func (p *benchParker) Park(ctx context.Context, until time.Duration) seam.Wake {
	for {
		switch {
		case p.woken:
			p.woken = false
			return seam.Unparked
		case ctx.Err() != nil:
			return seam.ContextEnded
		case p.b.now >= until:
			return seam.TimedOut
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
	if first == nil || first.due > limit || first.due == seam.Never {
		b.now = max(b.now, limit)
		return limit != seam.Never
	}
	b.now = max(b.now, first.due)
	first.due = seam.Never
	if next := first.run(b.now); first.due != 0 {
		first.due = next
	}
	return true
}

// at lets f run at a time, as somebody else's thread of control.
func (b *bench) at(when time.Duration, f func()) {
	b.NewLoop("", func(time.Duration) time.Duration { f(); return seam.Never }).(*benchLoop).due = when
}

// meanwhile lets f run when the next caller parks, and the node has done what he wants of it.
func (b *bench) meanwhile(f func()) { b.at(b.now, f) }

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

// stall lets the time d pass while nothing of the node runs, and then all of it.
func (b *bench) stall(d time.Duration) {
	b.now += d
	b.run()
}

// do runs f on the lane.
func (b *bench) do(f func(*lane)) {
	b.lane().post(f)
	b.run()
}

// take returns what was sent since the last call.
func (b *bench) take() []parcel {
	sent := b.sent
	b.sent = nil
	return sent
}

func (p *parcel) words() string {
	if p.kind == 0 {
		return []string{0: "nothing", ctlFounding: "founding", ctlStatus: "status", ctlLeaving: "leaving"}[p.control[0]]
	}
	return p.describe(0, func(transport.ID, int, uint64, uint64) string { return "" })
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

// mail leaves messages of a peer, in one frame, for the next run of the lane.
func (b *bench) mail(from uint64, messages ...message) {
	frame := wire.AppendUint(wire.AppendUint(wire.AppendUint(nil, b.node.mesh.MeshID), 1), 0)
	for _, m := range messages {
		frame = appendWhole(frame, m)
	}
	b.node.Receive(transport.ID(from), transport.KindLane, frame)
}

// hears lets the node receive them.
func (b *bench) hears(from uint64, messages ...message) {
	b.mail(from, messages...)
	b.run()
}

// appendWhole appends a message with its fields.
func appendWhole(b []byte, m message) []byte {
	begin := func(fields int) []byte { return appendMessage(b, m.kind, m.shard, fields) }
	switch m.kind {
	case msgRaft:
		return replica.AppendFrame(begin(replica.FrameFields), m.frame)
	case msgRequest:
		return shard.AppendCommand(wire.AppendBool(begin(2), m.relay), m.command)
	case msgRenew:
		return appendRenewal(begin(renewalFields), m.renewal)
	case msgReply:
		return appendOffice(appendReply(begin(replyFields+officeFields), m.reply), m.office)
	case msgAnswer:
		return appendOffice(appendAnswer(begin(answerFields+officeFields), m.answer), m.office)
	case msgRedirect:
		return appendRedirect(begin(redirectFields), m.redirect)
	case msgForward:
		return wire.AppendBytes(wire.AppendUint(begin(2), m.numbers[0]), appendWhole(nil, *m.inside))
	}
	n := max(map[int]int{msgHost: 2, msgMissing: 2, msgDecline: 2, msgRemoved: 3}[m.kind], 1)
	b = begin(n)
	for _, v := range m.numbers[:n] {
		b = wire.AppendUint(b, v)
	}
	return b
}

// serves is a new leader's word that it leads in a term.
func serves(term uint64) message { return message{kind: msgServing, numbers: [3]uint64{term}} }

// told is what b, who leads, says of a request: p, in which only the outcome matters.
func told(request parcel, p reply) message {
	id, _ := clientOf(request.command)
	p.session, p.number, p.generation = id.Number, numberOf(request.command), 1
	return message{kind: msgReply, reply: p, office: office{nodeB, benchTerm}}
}

// grant grants a request at the revision that is the token.
func grant(request parcel, token uint64) message {
	return told(request, reply{outcome: granted, token: token, revision: token})
}

// alive answers a renewal: the session lives at that revision, and was told results.
func alive(renewal parcel, revision uint64, results ...reply) message {
	a := answer{session: renewal.renewal.session.Number, ref: renewal.renewal.ref, alive: true, generation: 1, revision: revision, results: results}
	return message{kind: msgAnswer, answer: a, office: office{nodeB, benchTerm}}
}

// unknown answers a renewal: there is no such session at that revision.
func unknown(renewal parcel, revision uint64) message {
	m := alive(renewal, revision)
	m.answer.alive = false
	return m
}

// redirected is what a node says of a request or a renewal: not here, but there.
func redirected(request parcel, to, term uint64) message {
	id, _ := clientOf(request.command)
	if request.kind == msgRenew {
		id = request.renewal.session
	}
	return message{kind: msgRedirect, redirect: redirect{session: id.Number, number: numberOf(request.command), office: office{to, term}}}
}

// asks makes a call of a session, as Session.Acquire does.
func (b *bench) asks(s *Session, req Request) *call {
	c := &call{what: acquires, session: s, req: req, parker: b.NewParker()}
	b.do(func(l *lane) { l.desk(0).acquire(c) })
	return c
}

// unlocks and extends make calls of a holder's, as Hold.Release and Hold.Extend do.
func (b *bench) unlocks(h *Hold) *call {
	c := &call{what: releases, hold: h, parker: b.NewParker()}
	h.end(ErrClosed)
	b.do(func(l *lane) { l.desk(0).release(c) })
	return c
}

func (b *bench) extends(h *Hold, d time.Duration) *call {
	c := &call{what: claims, hold: h, length: d, parker: b.NewParker()}
	b.do(func(l *lane) { l.desk(0).claim(c) })
	return c
}

// holds makes a hold, whose grant has that token.
func (b *bench) holds(s *Session, req Request, token uint64) *Hold {
	b.tb.Helper()
	c := b.asks(s, req)
	b.hears(nodeB, grant(b.expect("2: lock "+req.Key), token))
	if req.MaxHold > 0 {
		b.hears(nodeB, told(b.expect(fmt.Sprintf("2: claim %s token %d", req.Key, token)), reply{outcome: done, revision: token}))
	}
	if !c.over || c.err != nil || c.got == nil {
		b.tb.Fatalf("%+v is not granted: %v, %v", req, c.over, c.err)
	}
	return c.got
}
