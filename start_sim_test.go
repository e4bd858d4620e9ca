package mesh_test

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lockmesh/mesh"
	"github.com/lockmesh/mesh/simulate"
)

// starts is a world in which the nodes of a list start one after the other, as pods of an ordered roll-out do.
type starts struct {
	*simulate.World
	t     *testing.T
	nodes map[string]*mesh.Node
}

func newStarts(t *testing.T) *starts {
	s := &starts{simulate.New(simulate.Options{Seed: 41}), t, make(map[string]*mesh.Node)}
	t.Cleanup(s.Close)
	return s
}

func (s *starts) start(host string, opts ...mesh.Option) {
	s.Host(host).Go("start", func(ctx context.Context) {
		n, err := mesh.StartContext(ctx, []string{"a:7400", "b:7400", "c:7400"}, append(opts, mesh.WithBind(":7400"), mesh.WithName(host))...)
		if err != nil {
			s.Fail(err)
		}
		s.nodes[host] = n
	})
	s.run(time.Millisecond)
}

func (s *starts) run(d time.Duration) {
	s.t.Helper()
	if err := s.Run(d); err != nil {
		s.t.Fatal(err)
	}
}

// result is what a call returned, and when.
type result struct {
	err error
	at  time.Duration
}

// call makes a call on a host's node, which gives up after patience.
func (s *starts) call(host string, patience time.Duration, f func(ctx context.Context, n *mesh.Node) error) *result {
	r := &result{at: -1}
	s.Host(host).Go("call", func(ctx context.Context) {
		limited, cancel := simulate.WithTimeout(ctx, patience)
		defer cancel()
		r.err = f(limited, s.nodes[host])
		r.at = simulate.Now(ctx)
	})
	s.run(time.Millisecond)
	return r
}

func lockK(ctx context.Context, n *mesh.Node) error { return n.Do(ctx, "k", nothing) }

// The first of three nodes serves its program, though no mesh can be founded yet; calls wait for it, or say so.
func TestStartInOrder(t *testing.T) {
	s := newStarts(t)
	var log strings.Builder
	s.start("a", mesh.WithLogger(slog.New(slog.NewTextHandler(&log, nil))))
	patient := map[string]*result{
		"Do":        s.call("a", time.Minute, lockK),
		"RLock":     s.call("a", time.Minute, func(ctx context.Context, n *mesh.Node) error { _, err := n.RLock(ctx, "r"); return err }),
		"WaitReady": s.call("a", time.Minute, func(ctx context.Context, n *mesh.Node) error { return n.WaitReady(ctx) }),
		"NewSession": s.call("a", time.Minute, func(ctx context.Context, n *mesh.Node) error {
			session, err := n.NewSession(ctx, mesh.WithTTL(5*time.Second))
			if err == nil {
				err = session.Do(ctx, "s", nothing)
			}
			return err
		}),
	}
	hasty := map[string]*result{
		"TryLock":    s.call("a", time.Minute, func(ctx context.Context, n *mesh.Node) error { _, err := n.TryLock(ctx, "k"); return err }),
		"Lock":       s.call("a", 3*time.Second, lockK),
		"NewSession": s.call("a", 3*time.Second, func(ctx context.Context, n *mesh.Node) error { _, err := n.NewSession(ctx); return err }),
	}
	ready := s.call("a", 3*time.Second, func(ctx context.Context, n *mesh.Node) error { return n.WaitReady(ctx) })
	s.run(5 * time.Second)
	s.start("b")
	s.run(5 * time.Second)
	for name, r := range hasty {
		if !errors.Is(r.err, mesh.ErrNotFounded) || name != "TryLock" && !errors.Is(r.err, context.DeadlineExceeded) {
			t.Errorf("%s = %v, want ErrNotFounded", name, r.err)
		}
	}
	if !errors.Is(ready.err, mesh.ErrNotFounded) || !errors.Is(ready.err, context.DeadlineExceeded) || !strings.Contains(ready.err.Error(), "b:7400") {
		t.Errorf("WaitReady = %v, want it to say who does not answer", ready.err)
	}
	if n := s.nodes["a"]; n.Health().Ready || !n.Health().Unfounded || len(n.Members()) != 0 || n.Err() != nil || n.Name() != "a" || n.Stats() != (mesh.Stats{}) {
		t.Errorf("the first: %+v, %v", n.Health(), n.Err())
	}
	s.start("c")
	s.run(20 * time.Second) // a new mesh grants nothing for 10.2 s
	for name, r := range patient {
		if r.err != nil || r.at < 10*time.Second || r.at > 25*time.Second {
			t.Errorf("%s = %v at %v", name, r.err, r.at)
		}
	}
	if s.nodes["a"].Health().Unfounded {
		t.Error("the mesh is founded, and the first says that it is not")
	}
	if r := s.call("a", time.Second, func(ctx context.Context, n *mesh.Node) error { return n.WaitReady(ctx) }); r.err != nil {
		t.Errorf("WaitReady of a node that serves: %v", r.err)
	}
	if n := strings.Count(log.String(), "the core waits"); n != 1 || !strings.Contains(log.String(), "b:7400") {
		t.Errorf("logged %d times what it waits for:\n%s", n, log.String())
	}
}

// Wrong arguments are errors at once, whether or not there is a mesh.
func TestWrongCallsBeforeTheMesh(t *testing.T) {
	s := newStarts(t)
	s.start("a")
	for want, f := range map[error]func(ctx context.Context, n *mesh.Node) error{
		mesh.ErrInvalidKey: func(ctx context.Context, n *mesh.Node) error { _, err := n.Lock(ctx, ""); return err },
		mesh.ErrInvalidOption: func(ctx context.Context, n *mesh.Node) error {
			_, err := n.Acquire(ctx, "k", 2, 1)
			return err
		},
	} {
		if r := s.call("a", time.Minute, f); !errors.Is(r.err, want) {
			t.Errorf("%v, want %v", r.err, want)
		}
	}
	var none context.Context
	n := s.nodes["a"]
	_, session := n.NewSession(none)
	_, lock := n.Lock(none, "k")
	for _, err := range []error{session, lock, n.WaitReady(none), n.Do(none, "k", nothing)} {
		if !errors.Is(err, mesh.ErrInvalidOption) {
			t.Errorf("without a context: %v", err)
		}
	}
	if _, err := mesh.StartContext(none, nil); !errors.Is(err, mesh.ErrInvalidOption) {
		t.Errorf("StartContext = %v", err)
	}
	if n, err := mesh.Start(nil); n != nil || !errors.Is(err, mesh.ErrNoSeeds) {
		t.Errorf("Start = %v, %v", n, err)
	}
}

// A node that ends before it was ready lets nobody wait for it.
func TestEndBeforeTheMesh(t *testing.T) {
	for name, end := range map[string]func(ctx context.Context, n *mesh.Node) error{
		"Close": func(_ context.Context, n *mesh.Node) error { return n.Close() },
		"Leave": func(ctx context.Context, n *mesh.Node) error { return n.Leave(ctx) },
	} {
		t.Run(name, func(t *testing.T) {
			s := newStarts(t)
			s.start("a")
			waits := []*result{
				s.call("a", time.Minute, lockK),
				s.call("a", time.Minute, func(ctx context.Context, n *mesh.Node) error { return n.WaitReady(ctx) }),
				s.call("a", time.Minute, func(ctx context.Context, n *mesh.Node) error { _, err := n.NewSession(ctx); return err }),
			}
			s.run(time.Second)
			if r := s.call("a", time.Minute, end); r.err != nil {
				t.Errorf("%v", r.err)
			}
			s.run(time.Second)
			waits = append(waits, s.call("a", time.Minute, lockK))
			for i, r := range waits {
				if !errors.Is(r.err, mesh.ErrClosed) {
					t.Errorf("call %d = %v at %v, want ErrClosed", i, r.err, r.at)
				}
			}
			select {
			case <-s.nodes["a"].Done():
			default:
				t.Error("it is not done")
			}
			if err := s.nodes["a"].Err(); !errors.Is(err, mesh.ErrClosed) {
				t.Errorf("Err = %v", err)
			}
			s.start("a") // its address is free again
			s.start("b")
			s.start("c")
			s.run(20 * time.Second) // the quiet time is over
			if !s.nodes["a"].Health().Ready {
				t.Error("no mesh")
			}
		})
	}
}

// A founder that leaves before it is ready leaves as others do: it hands over what it leads.
func TestLeaveBeforeReady(t *testing.T) {
	s := newStarts(t)
	for _, host := range []string{"a", "b", "c"} {
		s.start(host)
	}
	n := s.nodes["a"]
	for len(n.Members()) == 0 {
		s.run(100 * time.Microsecond)
	}
	if h := n.Health(); h.Settled {
		t.Fatalf("it is ready as soon as the mesh is founded: %+v", h)
	}
	waits := s.call("a", time.Minute, lockK)
	left := s.call("a", time.Minute, func(ctx context.Context, n *mesh.Node) error { return n.Leave(ctx) })
	s.run(20 * time.Second)
	if left.at < 0 || left.err != nil || !errors.Is(n.Err(), mesh.ErrLeft) || !errors.Is(waits.err, mesh.ErrClosed) {
		t.Errorf("Leave = %v at %v, Err = %v, Lock = %v", left.err, left.at, n.Err(), waits.err)
	}
	if m := s.nodes["b"].Members(); len(m) != 2 {
		t.Errorf("members afterwards: %+v", m)
	}
	r := s.call("b", 10*time.Second, lockK)
	if s.run(10 * time.Second); r.at < 0 || r.err != nil {
		t.Errorf("Lock = %v at %v", r.err, r.at)
	}
}

// What Join would return ends a node that was started.
func TestStartThatFails(t *testing.T) {
	s := newStarts(t)
	for _, host := range []string{"a", "b", "c"} {
		s.start(host)
	}
	s.run(10 * time.Second)
	var log strings.Builder
	s.Host("d").Go("start", func(ctx context.Context) {
		s.nodes["d"], _ = mesh.StartContext(ctx, []string{"a:7400"}, mesh.WithBind(":7400"), mesh.WithShards(3),
			mesh.WithLogger(slog.New(slog.NewTextHandler(&log, nil))))
	})
	s.run(10 * time.Second)
	r := s.call("d", time.Minute, func(ctx context.Context, n *mesh.Node) error { return n.WaitReady(ctx) })
	if err := s.nodes["d"].Err(); !errors.Is(err, mesh.ErrInvalidOption) || !errors.Is(r.err, mesh.ErrInvalidOption) {
		t.Errorf("Err = %v, WaitReady = %v, want ErrInvalidOption", err, r.err)
	}
	if r := s.call("d", time.Minute, lockK); !errors.Is(r.err, mesh.ErrClosed) {
		t.Errorf("Lock = %v, want ErrClosed", r.err)
	}
	if !strings.Contains(log.String(), "level=ERROR") || !strings.Contains(log.String(), "WithShards") {
		t.Errorf("logged %s", log.String())
	}
	if err := s.nodes["d"].Close(); err != nil {
		t.Errorf("Close = %v", err)
	}
}

func TestSolo(t *testing.T) {
	n, err := mesh.Solo(mesh.WithName("ann"))
	if err != nil {
		t.Fatal(err)
	}
	defer n.Close()
	if err := n.Do(t.Context(), "k", nothing); err != nil || n.Name() != "ann" || !strings.HasPrefix(n.Addr(), "127.0.0.1:") {
		t.Errorf("%s at %s: %v", n.Name(), n.Addr(), err)
	}
	for _, bind := range []string{":0", "10.0.0.1:0", "nowhere:1"} {
		if n, err := mesh.Solo(mesh.WithBind(bind)); n != nil || !errors.Is(err, mesh.ErrInvalidOption) {
			t.Errorf("Solo at %s = %v", bind, err)
		}
	}
	opts := slices.Grow([]mesh.Option{mesh.WithBind("localhost:0")}, 5)
	two, err := mesh.Solo(opts...)
	if err != nil || opts[:2][1] != nil {
		t.Errorf("Solo = %v, and it changed its arguments: %v", err, opts[:2][1] != nil)
	}
	two.Close()
}
