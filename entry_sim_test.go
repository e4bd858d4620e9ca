package mesh_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lockmesh/mesh"
	"github.com/lockmesh/mesh/simulate"
)

// health returns what a host's node shows, and the time of day there.
func (s *starts) health(host string) (h mesh.Health, now time.Time) {
	s.t.Helper()
	s.Host(host).Go("health", func(ctx context.Context) { h, now = s.nodes[host].Health(), simulate.Wall(ctx) })
	s.run(time.Millisecond)
	return h, now
}

// What Health shows of a mesh that is founded, serves, and loses nodes.
func TestHealthOfAMesh(t *testing.T) {
	s := newStarts(t)
	shows := func(when, host string, role mesh.Role, phase mesh.Phase, safe bool, waiting ...string) {
		t.Helper()
		h, now := s.health(host)
		var entries []string
		for _, w := range h.Waiting {
			entries = append(entries, w.Entry)
			if age := now.Sub(w.Since); age < 0 || age > time.Minute || w.Why == "" {
				t.Errorf("%s: %s waits for %s since %v: %q", when, host, w.Entry, age, w.Why)
			}
		}
		if h.Role != role || h.Phase != phase || h.SafeToStop != safe || !slices.Equal(entries, waiting) || h.Ready != (phase == mesh.PhaseServing) {
			t.Errorf("%s: %s is %v, %v, safe %t, ready %t, waits for %v", when, host, h.Role, h.Phase, h.SafeToStop, h.Ready, h.Waiting)
		}
	}
	s.start("a")
	s.start("d")
	s.run(5 * time.Second)
	shows("alone", "a", mesh.RoleCore, mesh.PhaseWaiting, false, "b:7400", "c:7400")
	shows("alone", "d", mesh.RoleClient, mesh.PhaseWaiting, true, "b:7400", "c:7400")
	s.start("b")
	s.start("c")
	s.run(5 * time.Second)
	shows("young", "a", mesh.RoleCore, mesh.PhaseQuiet, true)
	shows("young", "d", mesh.RoleClient, mesh.PhaseQuiet, true)
	s.run(10 * time.Second)
	shows("grown up", "b", mesh.RoleCore, mesh.PhaseServing, true)
	shows("grown up", "d", mesh.RoleClient, mesh.PhaseServing, true)
	s.Host("c").Crash()
	s.run(10 * time.Second)
	shows("one is away", "a", mesh.RoleCore, mesh.PhaseServing, false, "c:7400")
	shows("one is away", "d", mesh.RoleClient, mesh.PhaseServing, true)
	s.Host("b").Crash()
	s.run(10 * time.Second)
	shows("two are away", "a", mesh.RoleCore, mesh.PhaseRecovering, false, "b:7400", "c:7400")
	shows("two are away", "d", mesh.RoleClient, mesh.PhaseRecovering, true, "b:7400", "c:7400")
	if err := s.nodes["a"].Live(); err != nil {
		t.Errorf("the last survivor: %v", err)
	}
}

// The last one of two is never safe to stop, however healthy the two are.
func TestSafeToStopNeedsThree(t *testing.T) {
	s := newStarts(t)
	for _, host := range []string{"a", "b"} {
		s.Host(host).Go("start", func(ctx context.Context) {
			s.nodes[host], _ = mesh.StartContext(ctx, []string{"a:7400", "b:7400"}, mesh.WithBind(":7400"), mesh.WithName(host))
		})
	}
	s.run(20 * time.Second)
	if h, _ := s.health("a"); !h.Ready || !h.FullyReplicated || h.SafeToStop {
		t.Errorf("%+v", h)
	}
}

// C12: a node that is to be at an entry, as WithEntry or its host's name says, and is not reached there, is undecided,
// and in no mesh. As soon as the entry leads to it, it takes its seat.
func TestUndecided(t *testing.T) {
	for name, opts := range map[string][]mesh.Option{"c": nil, "x": {mesh.WithEntry("c:7400")}} {
		s := newStarts(t)
		s.Net.Balance("c:7400", "nowhere:7400")
		s.start("a")
		s.start("b")
		s.start(name, opts...)
		s.run(5 * time.Second)
		h, _ := s.health(name)
		if n := s.nodes[name]; h.Role != mesh.RoleUndecided || h.Phase != mesh.PhaseWaiting || h.SafeToStop || len(n.Members()) != 0 {
			t.Errorf("%s: %+v", name, h)
		}
		ready := s.call(name, time.Second, func(ctx context.Context, n *mesh.Node) error { return n.WaitReady(ctx) })
		s.run(2 * time.Second)
		if !errors.Is(ready.err, mesh.ErrNotFounded) || !strings.Contains(ready.err.Error(), "no dial of c:7400, the entry of this node by ") {
			t.Errorf("%s waits: %v", name, ready.err)
		}
		s.Net.Balance("c:7400", name+":7400")
		s.run(20 * time.Second)
		if h, _ := s.health(name); h.Role != mesh.RoleCore || !h.Ready {
			t.Errorf("%s: %+v", name, h)
		}
	}
}

// C12: two nodes with one WithEntry, one of which is reached elsewhere: it ends, and its error names both entries.
func TestWrongEntry(t *testing.T) {
	s := newStarts(t)
	s.start("a")
	s.start("b", mesh.WithEntry("a:7400"))
	s.start("c")
	s.run(5 * time.Second)
	err := s.nodes["b"].Err()
	if !errors.Is(err, mesh.ErrInvalidOption) || !strings.Contains(err.Error(), "WithEntry is a:7400") || !strings.Contains(err.Error(), "b:7400") {
		t.Errorf("b: %v", err)
	}
	if err := s.nodes["a"].Err(); err != nil {
		t.Errorf("a: %v", err)
	}
}

// A client that has no seeds finds the core by its function, which may block. It is asked again when the core is lost, its
// errors are told, and the node's end is the end of its context.
func TestDiscovery(t *testing.T) {
	s := newStarts(t)
	for _, host := range []string{"a", "b", "c"} {
		s.start(host)
	}
	calls := 0
	var ended error
	answer := func(ctx context.Context) ([]string, error) {
		return []string{"", "b:7400"}, simulate.Sleep(ctx, time.Second)
	}
	s.Host("d").Go("start", func(ctx context.Context) {
		n, err := mesh.StartContext(ctx, nil, mesh.WithName("d"), mesh.WithDiscovery(func(ctx context.Context) ([]string, error) {
			calls++
			return answer(ctx)
		}))
		if err != nil {
			s.Fail(err)
		}
		s.nodes["d"] = n
	})
	s.run(20 * time.Second)
	locked := s.call("d", 5*time.Second, lockK)
	s.run(5 * time.Second)
	if h, _ := s.health("d"); calls != 1 || h.Role != mesh.RoleClient || !h.Ready || locked.err != nil {
		t.Fatalf("after %d calls: %+v, %v", calls, h, locked.err)
	}

	answer = func(context.Context) ([]string, error) { return []string{"a:0"}, nil }
	s.Host("a").Crash()
	s.Host("b").Crash()
	s.Host("c").Crash()
	s.run(20 * time.Second)
	if calls < 3 || calls > 5 {
		t.Errorf("%d calls, of which 20 s are for at most 4", calls)
	}
	answer = func(ctx context.Context) ([]string, error) {
		ended = simulate.Sleep(ctx, time.Hour)
		return nil, ended
	}
	s.run(7 * time.Second)
	before := calls
	s.run(30 * time.Second)
	if !errors.Is(ended, context.DeadlineExceeded) || calls > before+3 {
		t.Errorf("a call that blocks ends by %v; %d calls in 30 s", ended, calls-before)
	}
	ended = nil
	s.run(6 * time.Second)
	s.call("d", time.Minute, func(ctx context.Context, n *mesh.Node) error { return n.Close() })
	s.run(time.Millisecond)
	before = calls
	s.run(20 * time.Second)
	if calls > before || ended == nil {
		t.Errorf("after Close: %d calls, and the last one ended by %v", calls-before, ended)
	}
}

// A client that discovers takes what it discovers beside its seeds, and is in the core nowhere.
func TestDiscoveryBesideSeeds(t *testing.T) {
	s := newStarts(t)
	discover := func(points ...string) mesh.Option {
		return mesh.WithDiscovery(func(context.Context) ([]string, error) { return points, nil })
	}
	s.start("a", discover("b:7400"))
	s.start("b")
	s.start("c")
	s.run(5 * time.Second)
	h, _ := s.health("a")
	if h.Role != mesh.RoleClient || h.Phase != mesh.PhaseWaiting || !slices.ContainsFunc(h.Waiting, func(w mesh.Waiting) bool { return strings.Contains(w.Why, "leads to this node") }) {
		t.Errorf("a client at an entry: %+v", h)
	}
	s.call("a", time.Minute, func(ctx context.Context, n *mesh.Node) error { return n.Close() })
	s.run(time.Second)
	s.start("a")
	s.run(15 * time.Second)
	s.Host("d").Go("start", func(ctx context.Context) {
		s.nodes["d"], _ = mesh.StartContext(ctx, []string{"nowhere:1"}, discover("x:1", "c:7400"))
	})
	s.run(5 * time.Second)
	if h, _ := s.health("d"); !h.Ready {
		t.Errorf("%+v", h)
	}
}

// The lines that a node logs, one for an event.
func TestLinesOfALife(t *testing.T) {
	s := newStarts(t)
	logs := make(map[string]*strings.Builder)
	start := func(host string) {
		if logs[host] == nil {
			logs[host] = new(strings.Builder)
		}
		s.start(host, mesh.WithLogger(slog.New(slog.NewTextHandler(logs[host], nil))))
	}
	lines := func(host, text string, want int) {
		t.Helper()
		if n := strings.Count(logs[host].String(), text); n != want {
			t.Errorf("%s logs %d times, not %d, that %s:\n%s", host, n, want, text, logs[host])
		}
	}
	start("a")
	s.run(5 * time.Second)
	lines("a", "the core waits", 1)
	lines("a", "advice=", 1)
	start("b")
	start("c")
	s.run(15 * time.Second)
	lines("a", "the mesh is founded", 1)
	lines("a", "joined the mesh", 1)
	lines("a", "quiet time begins", 1)
	lines("a", "quiet time is over", 1)
	left := s.call("c", time.Minute, func(ctx context.Context, n *mesh.Node) error { return n.Leave(ctx) })
	s.run(30 * time.Second)
	lines("c", "left the mesh", 1)
	lines("a", "a node left", 1)
	lines("a", "votes have moved", 1)
	start("c")
	s.run(30 * time.Second)
	if left.err != nil || !s.nodes["c"].Health().FullyReplicated {
		t.Errorf("c left, and came back: %v", left.err)
	}
	lines("a", "votes have moved", 2)
	lines("c", "joined the mesh", 2)
	s.Host("b").Crash()
	s.Host("c").Crash()
	s.run(time.Second)
	s.Host("b").Restart()
	s.Host("c").Restart()
	start("b")
	start("c")
	s.run(30 * time.Second)
	lines("a", "the core has recovered", 1)
	lines("a", "quiet time begins", 2)
	for host, log := range logs {
		if n := strings.Count(log.String(), "\n"); n > 40 {
			t.Errorf("%s logs %d lines", host, n)
		}
	}
}

// A probe hears of a loop that hangs, and of nothing when the whole process was suspended, however long.
func TestAHangingLoop(t *testing.T) {
	s := newStarts(t)
	for _, host := range []string{"a", "b", "c"} {
		s.start(host)
	}
	s.run(15 * time.Second)
	live := func(want error) {
		t.Helper()
		r := s.call("a", time.Minute, func(_ context.Context, n *mesh.Node) error { return n.Live() })
		if s.run(time.Millisecond); r.at < 0 || !errors.Is(r.err, want) {
			t.Errorf("at %v: Live = %v, want %v", s.Now(), r.err, want)
		}
	}
	live(nil)
	s.run(5 * time.Second)
	for _, loop := range []string{"shards", "membership"} {
		s.Host("a").Stall(loop, 15*time.Second)
		s.run(8 * time.Second)
		live(nil)
		s.run(5 * time.Second)
		live(mesh.ErrHung)
		s.run(10 * time.Second)
		live(nil)
	}
	for range 4 { // each time, another loop may be the first to go on
		s.Host("a").Pause()
		s.run(15 * time.Second)
		s.Host("a").Resume()
		live(nil)
		s.run(5 * time.Second)
		live(nil)
	}
}

func TestNamesOfRolesAndPhases(t *testing.T) {
	got := fmt.Sprint(mesh.RoleUndecided, mesh.RoleCore, mesh.RoleClient, mesh.PhaseWaiting, mesh.PhaseFounding, mesh.PhaseQuiet, mesh.PhaseServing, mesh.PhaseRecovering, mesh.Role(3), mesh.Phase(9))
	if want := "undecided core client waiting founding quiet serving recovering unknown 3 unknown 9"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	for _, v := range []interface{ MarshalText() ([]byte, error) }{mesh.RoleCore, mesh.PhaseQuiet} {
		if text, err := v.MarshalText(); err != nil || string(text) != fmt.Sprint(v) {
			t.Errorf("%v: %s, %v", v, text, err)
		}
	}
}
