package members

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/lockmesh/mesh/internal/env"
	"github.com/lockmesh/mesh/transport"
)

// asks lets a client ask for a status.
func (b *bench) asks(m env.Member) { b.hears(m, Report{}) }

// told returns to whom statuses were sent since the last call.
func (b *bench) told() (all []transport.ID) {
	for _, s := range b.sent {
		all = append(all, s.To)
	}
	b.sent = nil
	return all
}

// Promise: C1: a node of the core knows clients by their connections alone: it dials none, tells gossip of none, and
// gossip does not make one live or die. One that is gone is shown for a minute.
func TestClientsAreKnownByTheirConnections(t *testing.T) {
	m := node("b", 2)
	for _, tt := range []struct {
		name     string
		then     func(b *bench)
		liveness liveness
		shown    env.MemberState // or hidden
	}{
		{"connected", func(b *bench) {}, present, env.Alive},
		{"connected, and called dead", func(b *bench) { b.take(b.m.News(b.now, env.MemberEvent{Member: m, State: env.Dead}, nil)) }, present, env.Alive},
		{"lost, for less than the grace", func(b *bench) { b.parts(m, transport.Lost); b.pass(grace - 1) }, doubted, env.Dead},
		{"lost", func(b *bench) { b.parts(m, transport.Lost); b.pass(grace) }, silent, env.Dead},
		{"lost, and called alive", func(b *bench) {
			b.parts(m, transport.Lost)
			b.take(b.m.News(b.now, env.MemberEvent{Member: m}, nil))
			b.pass(grace)
		}, silent, env.Dead},
		{"back", func(b *bench) { b.parts(m, transport.Lost); b.pass(2 * grace); b.connects(m) }, present, env.Alive},
		{"about to leave", func(b *bench) { b.leaves(m) }, departed, env.Alive},
		{"gone with a goodbye", func(b *bench) { b.leaves(m); b.parts(m, transport.Goodbye) }, departed, hidden},
	} {
		b := newBench(t, 1)
		b.connects(m)
		tt.then(b)
		if l := b.liveness(2); l != tt.liveness || b.view().Has(2) != (l <= doubted) {
			t.Errorf("%s: its liveness is %d, want %d; the view: %+v", tt.name, l, tt.liveness, b.view().Members())
		}
		if got, shown := b.shown(2); shown != (tt.shown != hidden) || shown && got.State != tt.shown {
			t.Errorf("%s: it is shown (%t) as %+v", tt.name, shown, got)
		}
		if hasPrefix(b.words, "connect ") || hasPrefix(b.words, "join ") {
			t.Errorf("%s: it asks for %q", tt.name, b.words)
		}
		b.parts(m, transport.Lost)
		if b.pass(2 * forgetAfter); b.knows(2) {
			t.Errorf("%s: it is remembered", tt.name)
		}
	}
}

// Promise: C1: a client keeps connections with the nodes that have a seat, and knows no others; it does not gossip.
func TestAClientKnowsTheCore(t *testing.T) {
	core, next, other := node("b", 2), node("c", 3), node("x", 9)
	b := alone(t)
	b.clientOf(1, core)
	b.expect("connect 2 b:1")
	b.connects(core)
	b.connects(other) // another client, or a contact point
	b.asks(other)
	b.take(b.m.News(b.now, env.MemberEvent{Member: other}, nil)) // late
	if b.expect(); b.gossip || b.knows(9) || !b.view().Has(2) || !b.view().Has(uint64(self)) {
		t.Errorf("it gossips: %t; it knows %+v", b.gossip, b.view().Members())
	}
	b.seats = nil
	b.seat(next)
	if b.expect("disconnect 2", "connect 3 c:1"); b.knows(2) || !b.view().Has(3) {
		t.Errorf("it knows %+v", b.view().Members())
	}
	b.pass(2 * grace)
	if got, _ := b.shown(3); got.State != env.Dead {
		t.Errorf("one that it never reached is shown as %+v", got)
	}
	b.connects(next)
	if got, _ := b.shown(3); got.State != env.Alive {
		t.Errorf("one that it reaches is shown as %+v", got)
	}
	b.parts(next, transport.Lost)
	if got, _ := b.shown(3); got.State != env.Dead {
		t.Errorf("one that it lost is shown as %+v", got)
	}
}

// A client that gets a seat gossips, and takes others for clients that are connected. When it loses the seat, it stops
// that, and knows the core alone.
func TestRolesChange(t *testing.T) {
	core, other := node("b", 2), node("x", 9)
	b := alone(t)
	b.clientOf(1, core)
	b.connects(core)
	b.connects(other)
	b.words = nil
	b.seat(node("a", self))
	if b.expect("join 2"); !b.gossip || !b.knows(9) {
		t.Errorf("with a seat it gossips: %t; it knows the client: %t", b.gossip, b.knows(9))
	}
	b.seats = nil
	b.seat(core)
	if b.expect(); b.gossip || b.knows(9) || !b.knows(2) {
		t.Errorf("without a seat it gossips: %t; it knows the client: %t", b.gossip, b.knows(9))
	}
	b.pass(time.Second)
	b.told()
	if b.pass(time.Minute); slices.Contains(b.told(), 9) {
		t.Error("without a seat it reports to a client")
	}
	// A node of the core whose entry is dropped is a client, and is not dialled any more.
	b = newBench(t, 1)
	b.gossips(core, env.Alive)
	b.connects(core)
	b.words, b.seats = nil, nil
	b.seat(node("a", self))
	b.expect("disconnect 2")
	b.parts(core, transport.Disconnected)
	b.connects(core)
	if b.expect(); b.liveness(2) != present {
		t.Errorf("the former node of the core is %d", b.liveness(2))
	}
}

// Promise: C1: a client is told when it asks, and when the status has changed, but at most once a second.
func TestWhenAClientIsTold(t *testing.T) {
	const second = time.Second
	m := node("b", 2)
	for _, tt := range []struct {
		name string
		then func(b *bench)
		want int // statuses at once, and in the second after that, and in the next minute
		more int
		late int
	}{
		{"nothing happens", func(b *bench) {}, 0, 0, 0},
		{"it asks", func(b *bench) { b.asks(m) }, 1, 0, 0},
		{"it asks three times", func(b *bench) { b.asks(m); b.asks(m); b.asks(m) }, 1, 1, 0},
		{"this node leads another shard", func(b *bench) { b.reports(led(2)) }, 1, 0, 0},
		{"three times", func(b *bench) { b.reports(led(2)); b.reports(led(1)); b.reports(led(2)) }, 1, 1, 0},
		{"what this node reports is the same", func(b *bench) { b.reports(led(1)) }, 0, 0, 0},
		{"a leader that it follows reports, and falls silent", func(b *bench) {
			b.reports(Report{Led: []int{0}, Rest: []int{0}, Follows: []int{1}})
			b.pass(second)
			b.told()
			b.comes(node("c", 3))
			b.hears(node("c", 3), Report{Led: []int{1}})
		}, 1, 0, 1},
		{"it connects anew, and asks", func(b *bench) { b.parts(m, transport.Lost); b.connects(m); b.asks(m) }, 1, 0, 0},
		{"it is gone", func(b *bench) { b.reports(led(2)); b.told(); b.parts(m, transport.Lost); b.reports(led(1)) }, 0, 0, 0},
	} {
		b := newBench(t, 2)
		b.reports(led(1))
		b.connects(m)
		b.asks(m)
		b.pass(5 * second)
		b.told()
		tt.then(b)
		count := func() (n int) {
			for _, id := range b.told() {
				if id == m.ID {
					n++
				}
			}
			return n
		}
		now := count()
		b.pass(second)
		soon := count()
		b.pass(time.Minute)
		if late := count(); now != tt.want || soon != tt.more || late != tt.late {
			t.Errorf("%s: it is told %d times, then %d, then %d; want %d, %d and %d", tt.name, now, soon, late, tt.want, tt.more, tt.late)
		}
	}
}

// A client asks the nodes of the core that it is connected with: at once when one connects, every second until it is
// ready and while it leaves, and else every five seconds.
func TestWhenAClientAsks(t *testing.T) {
	core, other := node("b", 2), node("c", 3)
	b := alone(t)
	b.clientOf(1, core, other)
	b.connects(core)
	if got := b.told(); !slices.Equal(got, []transport.ID{2}) {
		t.Errorf("it asks %v when one connects", got)
	}
	count := func(d time.Duration) int {
		b.pass(d)
		return len(b.told())
	}
	if n := count(10 * time.Second); n != 10 {
		t.Errorf("it asks %d times in ten seconds, and is not ready", n)
	}
	if b.hears(core, led(1)); b.ready != 1 {
		t.Fatalf("it waits for %q", b.waits())
	}
	if got := b.told(); len(got) > 0 {
		t.Errorf("it answers %v", got)
	}
	count(time.Second)
	if n := count(20 * time.Second); n != 4 {
		t.Errorf("it asks %d times in twenty seconds", n)
	}
	b.take(b.m.Leave(b.now, nil))
	b.pass(askEvery)
	b.words, b.sent = nil, nil
	if n := count(3 * time.Second); n != 3 || !b.asked("leaving to 2") || b.asked("leaving to 3") {
		t.Errorf("it asks %d times in three seconds while it leaves: %q", n, b.words)
	}
}

// Promise: C1, G6: what a leader said counts for a client for 15 seconds, three times as long as it takes to ask.
func TestHealthOfAClient(t *testing.T) {
	core := node("b", 2)
	for _, tt := range []struct {
		name  string
		then  func(b *bench)
		ready bool
	}{
		{"it has just said so", func(b *bench) {}, true},
		{"it has said so 15 s ago", func(b *bench) { b.pass(3 * askEvery) }, true},
		{"it has been silent for longer", func(b *bench) { b.pass(4*askEvery + time.Second) }, false},
		{"its connection is lost", func(b *bench) { b.parts(core, transport.Lost) }, false},
		{"it follows the leaders", func(b *bench) { b.hears(core, Report{Follows: []int{0, 1}}) }, true},
		{"it has no seat any more", func(b *bench) { b.seats = nil; b.seat(node("c", 3)); b.pass(askEvery) }, false},
	} {
		b := alone(t)
		b.clientOf(2, core)
		b.connects(core)
		b.hears(core, led(2))
		tt.then(b)
		if h := b.m.Health(); !h.Settled || h.Ready != tt.ready {
			t.Errorf("%s: %+v", tt.name, h)
		}
	}
}

// Promise: P30: a client cannot see another one of its name: the core tells it. Who does not live is waited for, until
// its connection has ended.
func TestNamesOfClients(t *testing.T) {
	b := newBench(t, 1)
	old, young := env.Member{ID: 5, Name: "same", Addr: "old:1"}, env.Member{ID: 6, Name: "same"}
	says := func(name string, want Rival) {
		t.Helper()
		if r, err := readStatus(b.sent[len(b.sent)-1].Body, 1); err != nil || r.Rival != want || b.sent[len(b.sent)-1].To != young.ID {
			t.Errorf("%s: to %d it says %+v, %v; want %+v", name, b.sent[len(b.sent)-1].To, r.Rival, err, want)
		}
	}
	b.connects(old)
	b.asks(old)
	b.pass(time.Second)
	b.connects(young)
	b.asks(young)
	says("the other may be gone", Rival{5, "old:1", false})
	b.pass(time.Second)
	b.reports(Report{})
	says("and what is new is told with that", Rival{5, "old:1", false})
	b.pass(time.Second)
	b.asks(old)
	b.asks(young)
	says("the other lives", Rival{5, "old:1", true})
	b.pass(time.Second)
	b.parts(old, transport.Lost)
	b.asks(young)
	says("the other is gone", Rival{})
	b.pass(time.Second)
	b.connects(env.Member{ID: 7, Name: "a"})
	b.asks(env.Member{ID: 7, Name: "a"})
	young.ID = 7
	says("this node itself", Rival{uint64(self), "a:1", true})

	core := node("b", 2)
	with := func(id uint64, lives bool) Report {
		r := led(1)
		r.Rival = Rival{id, "r:1", lives}
		return r
	}
	for _, tt := range []struct {
		name  string
		says  Report
		later Report
		taken bool
		after time.Duration // of being ready, or of the end
	}{
		{"nobody has it", led(1), led(1), false, 0},
		{"one that may be gone", with(1, false), led(1), false, time.Second},
		{"one that may be gone, and lives", with(1, false), with(1, true), true, time.Second},
		{"one with a lower ID", with(1, true), led(1), true, 0},
		{"one with a higher ID, which ends", with(9, true), led(1), false, time.Second},
		{"one with a higher ID, which stays", with(9, true), with(9, true), true, askEvery},
	} {
		b := alone(t)
		b.m.cfg.Self.ID = 4
		b.clientOf(1, core)
		b.connects(core)
		began := b.now
		b.hears(core, tt.says)
		for b.ready == 0 && !hasPrefix(b.words, "name taken") && b.now < began+time.Minute {
			b.pass(time.Second)
			b.hears(core, tt.later)
		}
		if taken := hasPrefix(b.words, "name taken"); taken != tt.taken || b.now-began != tt.after {
			t.Errorf("%s: taken: %t, after %v", tt.name, taken, b.now-began)
		}
	}
}

// What a thousand clients cost a node of the core, in frames of statuses: those that ask, and one each when something
// changes, however fast.
func TestAThousandClients(t *testing.T) {
	const clients = 1000
	b := newBench(t, 16)
	for _, m := range []env.Member{node("b", 2), node("c", 3)} {
		b.comes(m)
		b.hears(m, Report{Follows: []int{0, 1}})
	}
	all := make([]env.Member, clients)
	for i := range all {
		all[i] = node(fmt.Sprint("client", i), transport.ID(100+i))
		b.m.Up(b.now, hello(all[i]), nil)
	}
	second := func(asks bool) (frames, bytes int) {
		for i, m := range all {
			if asks && i%int(askEvery/time.Second) == 0 {
				b.asks(m)
			}
		}
		b.pass(time.Second)
		for _, s := range b.sent {
			if s.To >= 100 {
				frames, bytes = frames+1, bytes+len(s.Body)
			}
		}
		b.sent = nil
		return frames, bytes
	}
	second(true)
	second(false)
	frames, bytes := second(true)
	t.Logf("at rest: %d frames, %d bytes in a second", frames, bytes)
	if frames > clients/5 {
		t.Errorf("at rest it sends %d frames in a second", frames)
	}
	for sh := range 16 { // leadership changes, shard by shard, within a second
		b.pass(10 * time.Millisecond)
		b.reports(led(sh))
	}
	if frames, bytes = second(false); frames > 2*clients {
		t.Errorf("while it changes it sends %d frames", frames)
	}
	t.Logf("16 changes in a sixth of a second: %d frames, %d bytes", frames, bytes)
	if frames, _ := second(false); frames > 0 {
		t.Errorf("it goes on: %d frames", frames)
	}
}
