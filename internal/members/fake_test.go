package members

import (
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lockmesh/mesh/internal/env"
	"github.com/lockmesh/mesh/internal/wire"
	"github.com/lockmesh/mesh/transport"
)

// The mesh of the tests. Node 1 is called "a"; a test plays the others.
const (
	self     = transport.ID(1)
	testMesh = 77
	testRing = 5
)

// bench is the Machine of node 1, and what it asked for.
type bench struct {
	t      *testing.T
	m      *Machine
	now    time.Duration
	words  []string // Connect, Disconnect, Join, NodeGone, SendLeaving and NameTaken; and errors of Status
	drawn  []Drawn
	sent   []SendStatus
	seats  []env.Member
	ready  int
	gossip bool
	log    strings.Builder
}

// newBench makes a Machine that has joined a mesh of so many shards, two seconds ago, and is
// ready: it leads all of them.
func newBench(t *testing.T, shards int) *bench {
	b := alone(t)
	b.joins(shards)
	b.reports(led(shards))
	b.pass(2 * time.Second)
	b.clear()
	return b
}

// alone makes a Machine that is in no mesh.
func alone(t *testing.T) *bench {
	b := &bench{t: t, now: time.Minute}
	cfg := Config{
		Self: node("a", self), RingHash: testRing, Logger: slog.New(slog.NewTextHandler(&b.log, nil)),
	}
	b.m = New(cfg)
	return b
}

// node is the node of a name: "b" is at the address "b:1", in the zone "zb".
func node(name string, id transport.ID) env.Member {
	return env.Member{ID: id, Name: name, Addr: name + ":1", Zone: "z" + name}
}

// led is the report of a node that leads shards from 0 on, all in step.
func led(shards int) (r Report) {
	for sh := range shards {
		r.Led, r.Rest = append(r.Led, sh), append(r.Rest, sh)
	}
	return r
}

func hello(m env.Member) transport.Hello {
	return transport.Hello{MeshID: testMesh, ID: m.ID, Name: m.Name, Addr: m.Addr, Zone: m.Zone, RingHash: testRing}
}

func (b *bench) clear() { b.words, b.drawn, b.sent = nil, nil, nil }

// take notes what the machine asks for, and runs what is due.
func (b *bench) take(out []Output) {
	b.note(out)
	b.note(b.m.Tick(b.now, nil))
}

func (b *bench) note(out []Output) {
	for _, o := range out {
		switch o := o.(type) {
		case Connect:
			b.say("connect %d %s", o.ID, o.Addr)
		case Disconnect:
			b.say("disconnect %d", o.ID)
		case Gossip:
			b.gossip = o.On
		case Join:
			for _, m := range o.Members {
				b.say("join %d", m.ID)
			}
		case NodeGone:
			b.say("gone %d", o.ID)
		case SendLeaving:
			b.say("leaving to %d", o.To)
		case SendStatus:
			b.sent = append(b.sent, o)
		case Drawn:
			b.drawn = append(b.drawn, o)
		case NameTaken:
			b.say("name taken by %d", o.By.ID)
		case Ready:
			b.ready++
		}
	}
}

func (b *bench) say(format string, args ...any) {
	for i, a := range args {
		if id, ok := a.(transport.ID); ok {
			args[i] = uint64(id)
		}
	}
	b.words = append(b.words, fmt.Sprintf(format, args...))
}

// asked reports whether the machine has asked for that.
func (b *bench) asked(word string) bool { return slices.Contains(b.words, word) }

// expect compares what the machine has asked for since the last call.
func (b *bench) expect(want ...string) {
	b.t.Helper()
	if !slices.Equal(b.words, want) {
		b.t.Errorf("it asks for %q, want %q", b.words, want)
	}
	b.words = nil
}

// view is the latest one.
func (b *bench) view() *View {
	b.t.Helper()
	if len(b.drawn) == 0 {
		b.t.Fatal("nothing was drawn")
	}
	return b.drawn[len(b.drawn)-1].View
}

// shown is what users are shown of a node, and whether they are.
func (b *bench) shown(id transport.ID) (Member, bool) {
	all := b.drawn[len(b.drawn)-1].Members
	if i := slices.IndexFunc(all, func(m Member) bool { return m.ID == id }); i >= 0 {
		return all[i], true
	}
	return Member{}, false
}

// liveness is what the machine believes of a node that it knows.
func (b *bench) liveness(id transport.ID) liveness {
	b.t.Helper()
	if !b.knows(id) {
		b.t.Fatalf("it does not know of %d", id)
	}
	l, _ := b.m.liveness(b.m.members[id])
	return l
}

func (b *bench) knows(id transport.ID) bool { return b.m.members[id] != nil }

// pass lets the time d pass.
func (b *bench) pass(d time.Duration) {
	end := b.now + d
	for at := b.m.Deadline(); at <= end; at = b.m.Deadline() {
		b.now = max(b.now, at)
		if b.note(b.m.Tick(b.now, nil)); b.m.Deadline() <= b.now {
			b.t.Fatalf("it has something to do at %v after Tick at %v", b.m.Deadline(), b.now)
		}
	}
	b.now = end
}

// joins lets the machine's node join, and have a seat beside others.
func (b *bench) joins(shards int, others ...env.Member) {
	b.seats = append([]env.Member{b.m.cfg.Self}, others...)
	b.take(b.m.Joined(b.now, Mesh{ID: testMesh, Shards: shards}, b.seats, nil))
	b.reports(b.m.own)
}

// clientOf lets it join as a client of a core of others.
func (b *bench) clientOf(shards int, others ...env.Member) {
	b.seats = others
	b.take(b.m.Joined(b.now, Mesh{ID: testMesh, Shards: shards}, others, nil))
	b.reports(b.m.own)
}

// seat gives a node a seat.
func (b *bench) seat(m env.Member) {
	if !slices.ContainsFunc(b.seats, func(o env.Member) bool { return o.ID == m.ID }) {
		b.seats = append(b.seats, m)
		b.take(b.m.Seated(b.now, b.seats, 0, nil))
	}
}

// gossips lets gossip tell of a node, which has a seat or gets one. What comes of the seat is not noted.
func (b *bench) gossips(m env.Member, state env.MemberState) {
	if words := b.words; m.ID != b.m.cfg.Self.ID {
		b.seat(m)
		b.words = words
	}
	b.take(b.m.News(b.now, env.MemberEvent{Member: m, State: state}, nil))
}

func (b *bench) connects(m env.Member) { b.take(b.m.Up(b.now, hello(m), nil)) }

func (b *bench) parts(m env.Member, cause transport.Cause) {
	b.take(b.m.Down(b.now, m.ID, cause, nil))
}

func (b *bench) leaves(m env.Member) { b.take(b.m.Leaves(b.now, m.ID, nil)) }

// comes makes a node a member that is connected.
func (b *bench) comes(m env.Member) {
	b.gossips(m, env.Alive)
	b.connects(m)
}

// reports tells the machine what its node's replicas are.
func (b *bench) reports(r Report) { b.take(b.m.Reported(b.now, r, 0, nil)) }

// hears takes in the status of another node.
func (b *bench) hears(m env.Member, r Report) {
	b.status(m.ID, wire.Marshal(r))
}

// status takes in the body of a status.
func (b *bench) status(from transport.ID, body []byte) {
	out, err := b.m.Status(b.now, from, body, nil)
	if b.take(out); err != nil {
		b.say("drop %d: %v", from, err)
	}
}

// waits is what the machine says that it waits for, or "" once it is ready.
func (b *bench) waits() string {
	if b.m.Health().Settled {
		return ""
	}
	return b.m.Waiting()
}

func hasPrefix(all []string, prefix string) bool {
	return slices.ContainsFunc(all, func(s string) bool { return strings.HasPrefix(s, prefix) })
}
