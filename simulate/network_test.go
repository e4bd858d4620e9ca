package simulate

import (
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lockmesh/mesh/internal/env"
	"github.com/lockmesh/mesh/transport"
)

// probe is a node that only writes down what its network says.
type probe struct {
	w      *World
	host   string
	id     transport.ID
	net    env.Network
	said   []string
	frames []string
	refuse error
}

func (p *probe) note(format string, args ...any) {
	p.said = append(p.said, fmt.Sprintf(format, args...))
}
func (p *probe) Dialed(addr string, h transport.Hello, err error) {
	p.note("dialed %s %s %v", addr, h.Name, err)
}
func (p *probe) Up(h transport.Hello)                       { p.note("up %s", h.Name) }
func (p *probe) Down(_ transport.ID, cause transport.Cause) { p.note("down %s", causeNames[cause]) }
func (p *probe) Receive(_ transport.ID, _ transport.Kind, body []byte) {
	p.frames = append(p.frames, string(body))
}

// listen makes a probe on a host, in whatever runs there now.
func listen(t *testing.T, w *World, host, bind string) *probe {
	t.Helper()
	h := w.Host(host)
	p := &probe{w: w, host: host, id: transport.ID(h.process.Seed() | 1)}
	cfg := transport.Config{
		Bind:   bind,
		Hello:  transport.Hello{Name: fmt.Sprintf("%s#%d", host, h.Incarnation()), ID: p.id},
		Logger: slog.New(slog.DiscardHandler),
		Accept: func(transport.Hello) error { return p.refuse },
	}
	net, err := h.process.Listen(cfg, p)
	if err != nil {
		t.Fatal(err)
	}
	p.net = net
	return p
}

func run(t *testing.T, w *World, d time.Duration) {
	t.Helper()
	if err := w.Run(d); err != nil {
		t.Fatal(err)
	}
}

// expect compares what a probe heard, and forgets it.
func expect(t *testing.T, p *probe, want ...string) {
	t.Helper()
	if !slices.Equal(p.said, want) {
		t.Errorf("at %v %s heard %q, want %q", p.w.Now(), p.host, p.said, want)
	}
	p.said = nil
}

func pairOf(t *testing.T, opts Options) (*World, *probe, *probe) {
	w := New(opts)
	t.Cleanup(w.Close)
	a, b := listen(t, w, "a", ":1"), listen(t, w, "b", ":1")
	a.net.Connect(b.id, b.net.Addr())
	b.net.Connect(a.id, a.net.Addr())
	run(t, w, time.Second)
	expect(t, a, "up b#1")
	expect(t, b, "up a#1")
	return w, a, b
}

func TestDial(t *testing.T) {
	w := New(Options{})
	defer w.Close()
	a, b := listen(t, w, "a", ":1"), listen(t, w, "b", "0.0.0.0:0")
	if b.net.Addr() != "b:40001" {
		t.Errorf("b's address is %s", b.net.Addr())
	}
	for _, addr := range []string{"a:1", "localhost:1"} { // itself
		a.net.Dial(addr)
		run(t, w, time.Second)
		expect(t, a, "dialed "+addr+" a#1 "+transport.ErrSelf.Error())
	}
	a.net.Dial("b:9")
	run(t, w, 100*time.Millisecond)
	expect(t, a, "dialed b:9  dial b:9: connection refused")
	a.net.Dial("nobody:1")
	run(t, w, 100*time.Millisecond)
	expect(t, a, "dialed nobody:1  dial nobody:1: lookup nobody: no such host")
	w.Net.Isolate("b")
	a.net.Dial("b:40001")
	run(t, w, time.Second)
	expect(t, a)
	run(t, w, 5*time.Second)
	expect(t, a, "dialed b:40001  dial b:40001: i/o timeout")
	w.Net.Heal()

	b.refuse = errors.New("not you")
	a.net.Dial("b:40001")
	run(t, w, time.Second)
	expect(t, a, "dialed b:40001 b#1 transport: b:40001 refused the connection: not you")
	b.refuse = nil
	a.refuse = errors.New("not that")
	a.net.Dial("b:40001")
	run(t, w, time.Second)
	expect(t, a, "dialed b:40001 b#1 transport: refused b:40001: not that")
	a.refuse = nil
	expect(t, b)
	a.net.Dial("b:40001")
	run(t, w, time.Second)
	slices.Sort(a.said) // either may come first
	expect(t, a, "dialed b:40001 b#1 <nil>", "up b#1")
	expect(t, b, "up a#1")
	a.net.Dial("b:40001")
	b.net.Dial("a:1")
	run(t, w, time.Second)
	expect(t, a, "dialed b:40001 b#1 <nil>")
	expect(t, b, "dialed a:1 a#1 <nil>")

	if _, err := w.Host("a").process.Listen(transport.Config{Bind: ":1"}, a); err == nil {
		t.Error("the port was given twice")
	}
}

// The real transport tells what answered a dial, and that the connection is up, in either order.
func TestEitherOrderOfADial(t *testing.T) {
	for name, dial := range map[string]func(*probe){
		"any node":     func(a *probe) { a.net.Dial("b:1") },
		"another node": func(a *probe) { a.net.Connect(99, "b:1") },
	} {
		upFirst := 0
		for seed := range uint64(20) {
			w := New(Options{Seed: seed})
			a := listen(t, w, "a", ":1")
			listen(t, w, "b", ":1")
			dial(a)
			run(t, w, time.Second)
			if len(a.said) != 2 {
				t.Fatalf("%s, seed %d: heard %q", name, seed, a.said)
			}
			if a.said[0] == "up b#1" {
				upFirst++
			}
			w.Close()
		}
		if upFirst == 0 || upFirst == 20 {
			t.Errorf("%s: up comes first in %d of 20 worlds", name, upFirst)
		}
	}
}

// A node that binds to loopback is found by its own host only.
func TestLoopback(t *testing.T) {
	w := New(Options{})
	defer w.Close()
	a, beside, b := listen(t, w, "a", "127.0.0.1:1"), listen(t, w, "a", ":2"), listen(t, w, "b", "localhost:0")
	if got := []string{a.net.Addr(), b.net.Addr()}; !slices.Equal(got, []string{"127.0.0.1:1", "localhost:40001"}) {
		t.Errorf("their addresses are %q", got)
	}
	for _, addr := range []string{"a:1", "127.0.0.1:1"} {
		b.net.Dial(addr)
		run(t, w, time.Second)
		expect(t, b, "dialed "+addr+"  dial "+addr+": connection refused")
	}
	beside.net.Dial("127.0.0.1:1")
	run(t, w, time.Second)
	slices.Sort(beside.said) // either may come first
	expect(t, beside, "dialed 127.0.0.1:1 a#1 <nil>", "up a#1")
	expect(t, a, "up a#1")
}

func TestVersionsMustMeet(t *testing.T) {
	w := New(Options{})
	defer w.Close()
	a, b := listen(t, w, "a", ":1"), listen(t, w, "b", ":1")
	a.net.Update(transport.Hello{Name: "a", ID: a.id, MinVersion: 3, MaxVersion: 4})
	b.net.Update(transport.Hello{Name: "b", ID: b.id, MinVersion: 1, MaxVersion: 2})
	a.net.Dial("b:1")
	run(t, w, time.Second)
	expect(t, a, "dialed b:1 b transport: b:1 refused the connection: no common version")
}

func TestSimultaneousDials(t *testing.T) {
	for seed := range uint64(50) {
		w, a, b := pairOf(t, Options{Seed: seed, Link: Link{Jitter: time.Millisecond}})
		if !a.net.Send(b.id, 0, 0, []byte("x")) || !b.net.Send(a.id, 0, 0, []byte("y")) {
			t.Fatal("not connected")
		}
		run(t, w, time.Second)
		if len(a.frames) != 1 || len(b.frames) != 1 {
			t.Fatalf("seed %d: frames %q %q", seed, a.frames, b.frames)
		}
	}
}

func TestCrashIsRefusedAtOnce(t *testing.T) {
	w, a, b := pairOf(t, Options{})
	w.Host("b").Crash()
	run(t, w, 20*time.Millisecond)
	expect(t, a, "down refused")
	expect(t, b)
	w.Host("b").Restart()
	b2 := listen(t, w, "b", ":1")
	run(t, w, 5*time.Second)
	slices.Sort(a.said)                     // either may come first
	expect(t, a, "down replaced", "up b#2") // Connect goes on dialling the address
	expect(t, b2, "up a#1")
}

func TestQuickRestartIsReplaced(t *testing.T) {
	w, a, _ := pairOf(t, Options{})
	w.Host("b").Crash()
	w.Host("b").Restart()
	listen(t, w, "b", ":1")
	run(t, w, time.Second)
	slices.Sort(a.said) // either may come first
	expect(t, a, "down replaced", "up b#2")
}

func TestConnectNoticesAnotherIncarnation(t *testing.T) {
	w := New(Options{})
	defer w.Close()
	a, b := listen(t, w, "a", ":1"), listen(t, w, "b", ":1")
	a.net.Connect(99, "b:1") // which is no more
	run(t, w, time.Minute)
	slices.Sort(a.said) // either may come first
	expect(t, a, "down replaced", "up b#1")
	a.net.Connect(b.id, "")
	w.Net.Reset("a", "b")
	run(t, w, time.Minute)
	expect(t, a)
}

func TestPowerOffIsSilent(t *testing.T) {
	w, a, _ := pairOf(t, Options{})
	w.Host("b").PowerOff()
	run(t, w, time.Second)
	expect(t, a)
	run(t, w, 9*time.Second)
	expect(t, a, "down lost")
	w.Host("b").Restart()
	listen(t, w, "b", ":1")
	run(t, w, 10*time.Second)
	slices.Sort(a.said) // either may come first
	expect(t, a, "down replaced", "up b#2")
}

func TestPartitionIsSilent(t *testing.T) {
	w, a, b := pairOf(t, Options{})
	w.Net.Partition([]string{"a"}, []string{"b"})
	run(t, w, 1500*time.Millisecond)
	expect(t, a)
	if !a.net.Send(b.id, 0, 0, []byte("x")) {
		t.Error("the connection is down before anybody can know")
	}
	run(t, w, 9*time.Second)
	expect(t, a, "down lost")
	expect(t, b, "down lost")
	w.Net.Heal()
	run(t, w, 10*time.Second)
	expect(t, a, "up b#1")
	expect(t, b, "up a#1")
	if len(b.frames) != 0 {
		t.Errorf("a frame outlived its connection: %q", b.frames)
	}
}

func TestShortCutOnlyDelays(t *testing.T) {
	w, a, b := pairOf(t, Options{})
	w.Net.Isolate("b")
	var want []string
	for i := range 5 {
		want = append(want, fmt.Sprint(i))
		a.net.Send(b.id, 0, 0, []byte(want[i]))
		run(t, w, 100*time.Millisecond)
	}
	if len(b.frames) != 0 {
		t.Errorf("%q passed the cut", b.frames)
	}
	w.Net.Heal()
	run(t, w, 10*time.Second)
	expect(t, a)
	expect(t, b)
	if !slices.Equal(b.frames, want) {
		t.Errorf("received %q, want %q", b.frames, want)
	}
}

func TestOneWayCut(t *testing.T) {
	w, a, b := pairOf(t, Options{})
	w.Net.PartitionOneWay([]string{"a"}, []string{"b"})
	a.net.Send(b.id, 0, 0, []byte("x"))
	b.net.Send(a.id, 0, 0, []byte("y"))
	run(t, w, time.Second)
	if len(b.frames) != 0 || len(a.frames) != 1 {
		t.Errorf("frames %q %q", a.frames, b.frames)
	}
	run(t, w, 15*time.Second)
	expect(t, a, "down lost")
	expect(t, b, "down lost")
	w.Net.Heal()
	run(t, w, 5*time.Second)
	expect(t, a, "up b#1")
	expect(t, b, "up a#1")
}

func TestResetLosesFramesOnly(t *testing.T) {
	w, a, b := pairOf(t, Options{})
	a.net.Send(b.id, 0, 0, []byte("before"))
	run(t, w, 10*time.Millisecond)
	w.Net.Reset("a", "b")
	for range 100 {
		a.net.Send(b.id, 0, 0, []byte("lost"))
		run(t, w, 50*time.Microsecond)
	}
	run(t, w, time.Second)
	a.net.Send(b.id, 0, 0, []byte("after"))
	run(t, w, time.Second)
	expect(t, a)
	expect(t, b)
	if n := len(b.frames); n < 2 || n >= 102 || b.frames[0] != "before" || b.frames[n-1] != "after" {
		t.Errorf("%d frames arrived", n)
	}
}

func TestGoodbyeComesLast(t *testing.T) {
	w, a, b := pairOf(t, Options{})
	b.net.Disconnect(a.id)
	a.net.Disconnect(b.id) // both at once
	run(t, w, time.Second)
	a.net.Connect(b.id, "b:1")
	run(t, w, time.Second)
	a.said, b.said = nil, nil
	for range 10 {
		a.net.Send(b.id, 0, transport.Normal, []byte("x"))
	}
	a.net.Disconnect(b.id)
	if a.net.Send(b.id, 0, 0, []byte("y")) {
		t.Error("sent after Disconnect")
	}
	run(t, w, 30*time.Millisecond)
	expect(t, a, "down ended here")
	expect(t, b, "down goodbye")
	if len(b.frames) != 10 {
		t.Errorf("%d frames before the goodbye, want 10", len(b.frames))
	}
}

func TestCloseIsRefused(t *testing.T) {
	w, a, b := pairOf(t, Options{})
	b.net.Close()
	run(t, w, time.Second)
	expect(t, a, "down refused")
	expect(t, b)
	if b.net.Send(a.id, 0, 0, nil) {
		t.Error("sent after Close")
	}
}

// A dialler hears nothing before its last word has arrived. If that takes too long it gives the connection up, as the pulse of
// package transport does; until then it may turn down each connection that the other end dials.
func TestALateHandshakeIsGivenUp(t *testing.T) {
	kept := 0
	for seed := range uint64(20) {
		w := New(Options{Seed: seed, Link: Link{Latency: 100 * time.Millisecond, Shape: Fixed}})
		a, b := listen(t, w, "a", ":1"), listen(t, w, "b", ":1")
		a.net.Connect(b.id, b.net.Addr())
		run(t, w, 150*time.Millisecond) // the answer is on its way
		w.Net.SetLinkOneWay("a", "b", Link{Latency: 20 * time.Second})
		run(t, w, 100*time.Millisecond)
		expect(t, a, "up b#1")
		expect(t, b)
		w.Net.SetLinks(Link{Latency: 100 * time.Millisecond})
		b.net.Connect(a.id, a.net.Addr())
		run(t, w, 2*time.Second)
		exchange := func() int {
			a.frames, b.frames = nil, nil
			a.net.Send(b.id, 0, transport.Urgent, []byte("x"))
			b.net.Send(a.id, 0, transport.Urgent, []byte("y"))
			run(t, w, time.Second)
			return len(a.frames) + len(b.frames)
		}
		if exchange() == 0 {
			kept++
		}
		run(t, w, maxSilence-2*time.Second)
		if got := exchange(); got != 2 {
			t.Errorf("seed %d: at %v, %d of 2 frames arrive", seed, w.Now(), got)
		}
		w.Close()
	}
	if kept == 0 {
		t.Error("no end held on to the late connection")
	}
}

// The news that the other end is gone may be late. Who hears nothing meanwhile gives the connection up.
func TestTheLateEndOfAConnection(t *testing.T) {
	const jitter = 2 * time.Second
	for name, end := range map[string]func(w *World, a, b *probe){ // order-free: each is a world of its own
		"a crash":   func(w *World, _, _ *probe) { w.Host("a").Crash() },
		"a goodbye": func(_ *World, a, b *probe) { a.net.Disconnect(b.id) },
		"a reset": func(_ *World, a, b *probe) {
			p := a.net.(*endpoint).peers[b.id]
			conn := p.conn
			p.conn = nil
			conn.close(p.side)
		},
	} {
		late := 0
		for seed := range uint64(100) {
			w, a, b := pairOf(t, Options{Seed: seed})
			conn := b.net.(*endpoint).peers[a.id].conn
			w.Net.SetLinkOneWay("a", "b", Link{Jitter: jitter})
			end(w, a, b)
			w.Net.SetLinks(Link{Latency: ms})
			run(t, w, minSilence)
			if b.holds(conn) {
				late++
			}
			run(t, w, jitter+maxSilence-minSilence+ms)
			if b.holds(conn) {
				t.Errorf("%s, seed %d: after %v b holds on to the connection", name, seed, w.Now()-time.Second)
			}
		}
		if late == 0 {
			t.Errorf("%s: the news was never late", name)
		}
	}
}

// holds reports whether the probe holds on to a connection.
func (p *probe) holds(c *conn) bool {
	return c.open[slices.IndexFunc(c.hellos[:], func(h transport.Hello) bool { return h.ID == p.id })]
}

func TestOrderWithinAClass(t *testing.T) {
	w, a, b := pairOf(t, Options{Link: Link{Jitter: 10 * time.Millisecond}})
	for i := range 200 {
		a.net.Send(b.id, 0, transport.Class(i%2), fmt.Appendf(nil, "%d%03d", i%2, i))
		run(t, w, 100*time.Microsecond)
	}
	run(t, w, time.Second)
	if len(b.frames) != 200 {
		t.Fatalf("%d frames", len(b.frames))
	}
	if slices.IsSorted(b.frames) {
		t.Error("the urgent ones overtook nobody, or everybody")
	}
	slices.SortStableFunc(b.frames, func(x, y string) int { return strings.Compare(x[:1], y[:1]) })
	if !slices.IsSorted(b.frames) {
		t.Errorf("out of order: %q", b.frames)
	}
}

func TestHarshLinks(t *testing.T) {
	w, a, b := pairOf(t, Options{Link: Link{Loss: 100_000, Duplicate: 100_000, Reorder: 100_000}})
	for i := range 1000 {
		a.net.Send(b.id, 0, 0, fmt.Appendf(nil, "%04d", i))
		run(t, w, time.Millisecond)
	}
	run(t, w, time.Second)
	inOrder := slices.IsSorted(b.frames)
	slices.Sort(b.frames)
	unique := len(slices.Compact(slices.Clone(b.frames)))
	if unique < 850 || unique > 950 || len(b.frames)-unique < 50 || inOrder {
		t.Errorf("of 1000 frames %d arrived, %d of them twice, in order: %v", unique, len(b.frames)-unique, inOrder)
	}
}

func TestQueuesAreBounded(t *testing.T) {
	w, a, b := pairOf(t, Options{})
	w.Host("b").Pause()
	sent := 0
	for a.net.Send(b.id, 0, 0, make([]byte, 10)) {
		sent++
	}
	if sent != maxFrames {
		t.Errorf("%d frames went into the queue, want %d", sent, maxFrames)
	}
	if a.net.Send(b.id, 0, 0, make([]byte, transport.MaxFrame+1)) {
		t.Error("a frame beyond the limit was taken")
	}
	run(t, w, time.Second)
	if len(b.frames) != 0 {
		t.Error("a paused host took a frame")
	}
	w.Host("b").Resume()
	run(t, w, time.Second)
	if len(b.frames) != sent {
		t.Errorf("%d frames arrived, want %d", len(b.frames), sent)
	}
	expect(t, a)
}

func TestLongPauseLooksLikeACut(t *testing.T) {
	w, a, b := pairOf(t, Options{})
	w.Host("b").Pause()
	run(t, w, 20*time.Second)
	expect(t, a, "down lost")
	expect(t, b)
	w.Host("b").Resume()
	run(t, w, 5*time.Second)
	expect(t, a, "up b#1")
	if n := len(b.said); n != 0 && n != 2 { // b may notice, or be redialled before
		t.Errorf("b heard %q", b.said)
	}
}

func TestRules(t *testing.T) {
	w, a, b := pairOf(t, Options{})
	stop := w.Net.Rule(func(f Frame) Verdict {
		switch {
		case string(f.Body) == "drop":
			return Drop
		case string(f.Body) == "late" && f.From == "a" && f.To == "b":
			return Verdict(time.Minute)
		}
		return Pass
	})
	for _, body := range []string{"drop", "late", "pass"} {
		a.net.Send(b.id, 0, 0, []byte(body))
	}
	run(t, w, time.Second)
	if !slices.Equal(b.frames, []string{"pass"}) {
		t.Errorf("received %q", b.frames)
	}
	stop()
	a.net.Send(b.id, 0, 0, []byte("drop"))
	run(t, w, time.Minute)
	if !slices.Equal(b.frames, []string{"pass", "drop", "late"}) {
		t.Errorf("received %q", b.frames)
	}
}

func TestChangedBodyIsNoticed(t *testing.T) {
	w, a, b := pairOf(t, Options{})
	body := []byte("hello")
	a.net.Send(b.id, 0, 0, body)
	body[0] = 'j'
	if err := w.Run(time.Second); err == nil || !strings.Contains(err.Error(), "changed after Send") {
		t.Errorf("Run = %v", err)
	}
}

// clientOnly has no port.
func TestClientCannotBeDialled(t *testing.T) {
	w := New(Options{})
	defer w.Close()
	a, c := listen(t, w, "a", ":1"), listen(t, w, "c", "")
	if c.net.Addr() != "" {
		t.Errorf("the client's address is %q", c.net.Addr())
	}
	c.net.Connect(a.id, "a:1")
	run(t, w, time.Second)
	expect(t, a, "up c#1")
	expect(t, c, "up a#1")
	w.Net.Reset("a", "c")
	run(t, w, time.Second)
	// The client redials at once; the node cannot, so it may notice first.
	if n := len(a.said); n != 0 && n != 2 {
		t.Errorf("a heard %q", a.said)
	}
	expect(t, c)
	w.Host("c").Crash()
	a.said = nil
	run(t, w, time.Second)
	expect(t, a, "down lost")
}

// gossipers are members on three hosts that know each other.
func gossipers(t *testing.T, opts Options) (*World, map[string]*probe, map[string]env.Membership) {
	w := New(opts)
	t.Cleanup(w.Close)
	probes, members := make(map[string]*probe), make(map[string]env.Membership)
	var first env.Member
	for _, host := range []string{"a", "b", "c"} {
		p := listen(t, w, host, ":1")
		self := env.Member{ID: p.id, Name: host, Addr: p.net.Addr()}
		m, err := w.Host(host).process.NewMembership(self, p.net, func(e env.MemberEvent) {
			p.note("%s %s", newsStates[e.State], e.Member.Name)
		})
		if err != nil {
			t.Fatal(err)
		}
		if host == "a" {
			first = self
		}
		for _, other := range probes {
			p.net.Connect(other.id, other.net.Addr())
			other.net.Connect(p.id, p.net.Addr())
		}
		probes[host], members[host] = p, m
	}
	run(t, w, time.Second)
	members["b"].Join([]env.Member{first})
	members["c"].Join([]env.Member{first})
	run(t, w, 20*time.Second)
	for host, p := range probes {
		p.said = news(p)
		slices.Sort(p.said)
		var want []string
		for _, other := range []string{"a", "b", "c"} {
			if other != host {
				want = append(want, "alive "+other)
			}
		}
		expect(t, p, want...)
	}
	return w, probes, members
}

// news is what a probe heard of members, and not of connections.
func news(p *probe) []string {
	return slices.DeleteFunc(p.said, func(s string) bool { return strings.HasPrefix(s, "up") || strings.HasPrefix(s, "down") })
}

// expectNews is expect without what is said of connections.
func expectNews(t *testing.T, p *probe, want ...string) {
	t.Helper()
	p.said = news(p)
	expect(t, p, want...)
}

func TestMembership(t *testing.T) {
	w, probes, members := gossipers(t, Options{Seed: 3})
	w.Host("c").Crash()
	run(t, w, 500*time.Millisecond)
	expectNews(t, probes["a"]) // gossip is late
	run(t, w, 15*time.Second)
	expectNews(t, probes["a"], "dead c")
	expectNews(t, probes["b"], "dead c")

	w.Net.Isolate("a")
	run(t, w, 15*time.Second)
	expectNews(t, probes["a"], "dead b")
	w.Net.Heal()
	run(t, w, 30*time.Second)
	expectNews(t, probes["a"]) // gossip alone does not heal, though no member is forgotten yet
	expectNews(t, probes["b"], "dead a")
	b := probes["b"]
	members["a"].Join([]env.Member{{ID: b.id, Name: "b"}})
	run(t, w, 10*time.Second)
	expectNews(t, probes["a"], "alive b")
	expectNews(t, probes["b"], "alive a")

	w.Net.Isolate("a")
	run(t, w, 2*time.Minute)
	w.Net.Heal()
	run(t, w, time.Minute)
	expectNews(t, probes["a"], "dead b") // forgotten
	expectNews(t, probes["b"], "dead a")
	members["a"].Join([]env.Member{{ID: b.id, Name: "b"}})
	run(t, w, 10*time.Second)
	expectNews(t, probes["a"], "alive b")
	expectNews(t, probes["b"], "alive a")

	members["b"].Leave()
	run(t, w, 10*time.Second)
	expectNews(t, probes["a"], "gone b")
}

func TestLiesAreCorrected(t *testing.T) {
	w, probes, _ := gossipers(t, Options{Seed: 5})
	w.Host("a").LieDead("b")
	run(t, w, 20*time.Second)
	expectNews(t, probes["a"], "dead b", "alive b")
	expectNews(t, probes["c"], "dead b", "alive b")
	expectNews(t, probes["b"])
}
