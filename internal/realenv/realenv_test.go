package realenv

import (
	"context"
	"log/slog"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/lockmesh/mesh/internal/env"
	"github.com/lockmesh/mesh/transport"
)

func TestNowOnlyGrows(t *testing.T) {
	w := New(nil)
	start, wall := w.Now(), w.Wall()
	last := start
	for range 10_000 {
		now := w.Now()
		if now < last {
			t.Fatalf("Now went back from %v to %v", last, now)
		}
		last = now
	}
	if passed, want := w.Now()-start, w.Wall().Sub(wall); passed <= 0 || (passed-want).Abs() > 100*time.Millisecond {
		t.Errorf("Now grew by %v while %v passed", passed, want)
	}
}

func TestSeedsDiffer(t *testing.T) {
	w := New(nil)
	seen := make(map[uint64]bool)
	for range 1000 {
		s := w.Seed()
		if s == 0 || seen[s] {
			t.Fatalf("Seed returned %d, which is zero or not new", s)
		}
		seen[s] = true
	}
}

// ear is a handler that hears of connections and frames.
type ear struct {
	up       chan transport.Hello
	down     chan transport.ID
	received chan string
}

func newEar() *ear {
	return &ear{up: make(chan transport.Hello, 10), down: make(chan transport.ID, 10), received: make(chan string, 10)}
}

func (e *ear) Dialed(string, transport.Hello, error)     {}
func (e *ear) Up(peer transport.Hello)                   { e.up <- peer }
func (e *ear) Down(peer transport.ID, _ transport.Cause) { e.down <- peer }
func (e *ear) Receive(_ transport.ID, _ transport.Kind, body []byte) {
	e.received <- string(body)
}

// await takes one value within a generous time: real sockets are waited for.
func await[T any](t *testing.T, c <-chan T, what string) T {
	t.Helper()
	select {
	case v := <-c:
		return v
	case <-time.After(20 * time.Second):
		t.Fatalf("no %s", what)
		panic("not reached")
	}
}

type member struct {
	env.Member
	ear        *ear
	net        env.Network
	membership env.Membership
	events     chan env.MemberEvent
}

func start(t *testing.T, w *Env, name string) *member {
	t.Helper()
	m := &member{ear: newEar(), events: make(chan env.MemberEvent, 100)}
	m.ID, m.Name = transport.ID(w.Seed()), name
	net, err := w.Listen(transport.Config{
		Bind:   "127.0.0.1:0",
		Hello:  transport.Hello{MeshName: "test", Name: name, ID: m.ID, MinVersion: 1, MaxVersion: 1},
		Logger: slog.New(slog.DiscardHandler),
	}, m.ear)
	if err != nil {
		t.Fatal(err)
	}
	m.net, m.Addr = net, net.Addr()
	m.membership, err = w.NewMembership(m.Member, net, func(e env.MemberEvent) { m.events <- e })
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func (m *member) stop() {
	m.membership.Close()
	m.net.Close()
}

func TestNodesMeetOverRealConnections(t *testing.T) {
	w := New(nil)
	ann, bob := start(t, w, "ann"), start(t, w, "bob")
	defer ann.stop()
	defer bob.stop()

	bob.net.Connect(ann.ID, ann.Addr)
	await(t, ann.ear.up, "connection")
	await(t, bob.ear.up, "connection")
	bob.membership.Join([]env.Member{ann.Member})
	if e := await(t, ann.events, "news of bob"); e != (env.MemberEvent{Member: bob.Member, State: env.Alive}) {
		t.Errorf("ann heard %+v", e)
	}
	if e := await(t, bob.events, "news of ann"); e != (env.MemberEvent{Member: ann.Member, State: env.Alive}) {
		t.Errorf("bob heard %+v", e)
	}

	if !bob.net.Send(ann.ID, transport.KindShard, transport.Normal, []byte("to the node")) {
		t.Error("Send found no connection")
	}
	if got := await(t, ann.ear.received, "frame"); got != "to the node" {
		t.Errorf("ann received %q", got)
	}

	bob.membership.Leave()
	if e := await(t, ann.events, "news of bob"); e != (env.MemberEvent{Member: bob.Member, State: env.Left}) {
		t.Errorf("ann heard %+v", e)
	}
	bob.stop()
	if id := await(t, ann.ear.down, "end of the connection"); id != bob.ID {
		t.Errorf("ann lost %s", id)
	}
	select {
	case body := <-ann.ear.received:
		t.Errorf("ann's node received %q, which is gossip", body)
	default:
	}
}

func TestListenPassesErrorsOn(t *testing.T) {
	w := New(nil)
	cfg := transport.Config{Bind: "not an address", Logger: slog.New(slog.DiscardHandler)}
	if net, err := w.Listen(cfg, newEar()); net != nil || err == nil {
		t.Errorf("Listen = %v, %v, want an error and nothing else", net, err)
	}
}

func TestFramesGoWhereTheyBelong(t *testing.T) {
	ear := newEar()
	r := &network{Handler: ear}
	r.Receive(1, transport.KindGossip, []byte("nobody gossips yet"))
	r.Receive(1, transport.KindControl, []byte("control"))
	r.Receive(1, transport.KindShard, []byte("shard"))
	close(ear.received)
	if got := slices.Collect(all(ear.received)); !slices.Equal(got, []string{"control", "shard"}) {
		t.Errorf("the node received %q", got)
	}
	r.Down(1, transport.Lost)
	if id := <-ear.down; id != 1 {
		t.Errorf("the node lost %s", id)
	}
}

func all(c <-chan string) func(yield func(string) bool) {
	return func(yield func(string) bool) {
		for s := range c {
			if !yield(s) {
				return
			}
		}
	}
}

func BenchmarkNow(b *testing.B) {
	w := New(nil)
	b.ReportAllocs()
	for b.Loop() {
		w.Now()
	}
}

func BenchmarkPark(b *testing.B) {
	w := New(nil)
	ctx, end := context.WithCancel(context.Background())
	defer end()
	b.Run("unparked", func(b *testing.B) {
		p := w.NewParker()
		b.ReportAllocs()
		for b.Loop() {
			p.Unpark()
			p.Park(ctx, env.Never)
		}
	})
	b.Run("unparked with a limit", func(b *testing.B) {
		p := w.NewParker()
		b.ReportAllocs()
		for b.Loop() {
			p.Unpark()
			p.Park(ctx, w.Now()+time.Hour)
		}
	})
	b.Run("handed over", func(b *testing.B) {
		ping, pong := w.NewParker(), w.NewParker()
		done := make(chan struct{})
		go func() {
			defer close(done)
			for ping.Park(ctx, env.Never) == env.Unparked {
				pong.Unpark()
			}
		}()
		b.ReportAllocs()
		for b.Loop() {
			ping.Unpark()
			pong.Park(context.Background(), env.Never)
		}
		end()
		<-done
	})
}

func BenchmarkLoop(b *testing.B) {
	w := New(nil)
	p := w.NewParker()
	l := w.NewLoop("bench", func(time.Duration) time.Duration {
		p.Unpark()
		return w.Now() + time.Hour
	})
	defer l.Stop()
	b.ReportAllocs()
	for b.Loop() {
		l.Wake()
		p.Park(context.Background(), env.Never)
	}
}

// Go gives a function a thread of its own and a context that carries the environment, and ends after the limit or by
// cancel, which does not wait.
func TestGo(t *testing.T) {
	w := New(nil)
	for _, cancels := range []bool{false, true} {
		limit := 10 * time.Millisecond
		if cancels {
			limit = time.Hour
		}
		ended := make(chan error)
		cancel := w.Go("f", limit, func(ctx context.Context) {
			if env.FromContext(ctx) != env.Env(w) {
				t.Error("another environment")
			}
			<-ctx.Done()
			ended <- ctx.Err()
		})
		want := context.DeadlineExceeded
		if cancels {
			cancel()
			want = context.Canceled
		}
		if err := <-ended; err != want {
			t.Errorf("it ends by %v, want %v", err, want)
		}
	}
	if name, err := os.Hostname(); err == nil && w.Hostname() != name {
		t.Errorf("the host is %q, want %q", w.Hostname(), name)
	}
}
