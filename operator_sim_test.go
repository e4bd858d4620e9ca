package mesh_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/lockmesh/mesh"
	"github.com/lockmesh/mesh/simulate"
	"github.com/lockmesh/mesh/transport"
)

// Promise: C5: an operator ends the quiet time by a client: callers that wait get their locks at once. What cannot be ended
// is an error that says why, and changes nothing.
func TestEndQuiet(t *testing.T) {
	s := newStarts(t)
	end := func(ctx context.Context, n *mesh.Node) error { return n.EndQuiet(ctx) }
	is := func(what string, r *result, want ...error) {
		t.Helper()
		if r.at < 0 {
			t.Fatalf("%s: it does not return", what)
		}
		for _, err := range want {
			if !errors.Is(r.err, err) || err == nil && r.err != nil {
				t.Errorf("%s: %v, want %v", what, r.err, err)
			}
		}
	}
	s.start("a")
	is("in no mesh", s.call("a", time.Minute, end), mesh.ErrNotFounded)
	is("nor is there a list of members", s.call("a", time.Minute, func(ctx context.Context, n *mesh.Node) error {
		_, err := n.ListMembers(ctx)
		return err
	}), mesh.ErrNotFounded)
	s.start("b")
	s.start("c")
	s.start("d")
	s.run(4 * time.Second)
	waits := s.call("b", time.Minute, lockK)
	s.run(time.Second)
	if waits.at >= 0 || s.nodes["d"].Health().QuietUntil.IsZero() {
		t.Fatalf("it is not quiet: %v, %+v", waits.err, s.nodes["d"].Health())
	}
	ended, said := s.call("d", time.Minute, end), s.Now()
	s.run(3 * time.Second)
	is("the word of a client's operator", ended, nil)
	is("a Lock that waited", waits, nil)
	if waits.at > said+time.Second {
		t.Errorf("it had its lock %v after the word", waits.at-said)
	}
	if h := s.nodes["d"].Health(); !h.QuietUntil.IsZero() {
		t.Errorf("d says that shards are quiet until %v", h.QuietUntil)
	}
	is("once more", s.call("a", time.Minute, end), mesh.ErrNotQuiet)

	for _, host := range []string{"a", "b", "c"} {
		s.Host(host).PowerOff()
	}
	s.run(10 * time.Second)
	silent := s.call("d", 3*time.Second, end)
	s.run(4 * time.Second)
	is("no node of the core answers", silent, mesh.ErrNoQuorum, context.DeadlineExceeded)
	s.call("d", time.Minute, func(_ context.Context, n *mesh.Node) error { return n.Close() })
	s.run(time.Second)
	is("of a node that is closed", s.call("d", time.Minute, end), mesh.ErrClosed)
	var none context.Context
	if err := s.nodes["d"].EndQuiet(none); !errors.Is(err, mesh.ErrInvalidOption) {
		t.Errorf("without a context: %v", err)
	}
	if err := new(mesh.Node).EndQuiet(context.Background()); !errors.Is(err, mesh.ErrClosed) {
		t.Errorf("of a zero node: %v", err)
	}
}

// Promise: C5: where the operator's word is false, and a holder that was cut off is left, the simulator says that two hold the key.
func TestAFalseWordIsSeen(t *testing.T) {
	s := newStarts(t)
	long := []mesh.Option{mesh.WithLeaseTTL(time.Minute), mesh.WithMaxTTL(time.Minute)}
	core := []string{"a", "b", "c"}
	for _, host := range append(core, "d", "e") {
		s.start(host, long...)
	}
	s.run(4 * time.Second)
	end := func(ctx context.Context, n *mesh.Node) error { return n.EndQuiet(ctx) }
	take := func(ctx context.Context, n *mesh.Node) error { _, err := n.Lock(ctx, "k"); return err }
	s.call("e", time.Minute, end)
	holds := s.call("d", time.Minute, take)
	s.run(4 * time.Second)
	if holds.err != nil || holds.at < 0 {
		t.Fatalf("d: %v", holds.err)
	}
	s.Net.Isolate("d")
	for _, host := range core {
		s.Host(host).Crash()
	}
	for _, host := range core {
		s.Host(host).Restart()
		s.start(host, long...)
	}
	s.run(10 * time.Second)
	ended := s.call("e", time.Minute, end)
	s.run(3 * time.Second)
	if ended.err != nil || ended.at < 0 {
		t.Fatalf("the word: %v", ended.err)
	}
	s.Host("e").Go("second", func(ctx context.Context) { _ = take(ctx, s.nodes["e"]) })
	if err := s.Run(10 * time.Second); err == nil || !strings.Contains(err.Error(), "G1 exclusion") {
		t.Errorf("two believe in k, and the world says: %v", err)
	}
}

// Promise: C1: a client lists all nodes of the mesh, however many pages that takes, and whatever is lost; and says so if the
// core does not answer.
func TestListMembers(t *testing.T) {
	const clients = 210
	w := newTrial(t, simulate.Options{Seed: 3}, 10*time.Second, 3)
	w.clients(clients, mesh.WithClientOnly())
	lost := 0
	w.Net.Rule(func(f simulate.Frame) simulate.Verdict {
		if f.From == "client7" && f.Kind == transport.KindControl && len(f.Body) < 16 && lost < 4 { // what it asks
			lost++
			return simulate.Drop
		}
		return simulate.Pass
	})
	list := func(host string, limit time.Duration) (all []mesh.Member, err error) {
		t.Helper()
		over := false
		w.Host(host).Go("list", func(ctx context.Context) {
			if limit > 0 {
				var cancel context.CancelFunc
				ctx, cancel = simulate.WithTimeout(ctx, limit)
				defer cancel()
			}
			all, err = w.nodes[host].ListMembers(ctx)
			over = true
		})
		w.until(host+" has its list", 20*time.Second, func() bool { return over })
		return all, err
	}
	for _, host := range []string{"client7", "a"} {
		all, err := list(host, 0)
		if err != nil || len(all) != 3+clients {
			t.Fatalf("%s lists %d, %v", host, len(all), err)
		}
		for i, m := range all {
			if m.State != mesh.MemberAlive || len(m.ID) != 16 || i > 0 && all[i-1].Name >= m.Name || m.Addr == "" != (len(m.Name) > 1) {
				t.Errorf("%s lists %+v at %d", host, m, i)
			}
		}
	}
	if lost == 0 {
		t.Error("nothing was lost")
	}
	for _, host := range []string{"b", "c"} {
		w.Host(host).PowerOff()
	}
	w.pass(10 * time.Second)
	if all, err := list("client7", 3*time.Second); !errors.Is(err, mesh.ErrNoQuorum) || !errors.Is(err, context.DeadlineExceeded) || all != nil {
		t.Errorf("without most of the core: %v, %v", all, err)
	}
	if _, err := list("client8", 0); !errors.Is(err, mesh.ErrNoQuorum) || errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("without a deadline: %v", err)
	}
	w.Host("client9").Go("close", func(context.Context) { _ = w.nodes["client9"].Close() })
	w.pass(time.Second)
	if _, err := list("client9", 0); !errors.Is(err, mesh.ErrClosed) {
		t.Errorf("of a node that is closed: %v", err)
	}
	var none context.Context
	if _, err := w.nodes["client7"].ListMembers(none); !errors.Is(err, mesh.ErrInvalidOption) {
		t.Errorf("without a context: %v", err)
	}
	if _, err := new(mesh.Node).ListMembers(context.Background()); !errors.Is(err, mesh.ErrClosed) {
		t.Errorf("of a zero node: %v", err)
	}
}

// Promise: C5: MaxTTL is raised and lowered in a living mesh, by a client. Sessions and holds go by what is in force; a wrong value is
// an error, and changes nothing.
func TestSetMaxTTL(t *testing.T) {
	w := newTrial(t, simulate.Options{Seed: 5}, 4*time.Second, 3)
	w.clients(2)
	do := func(host string, f func(ctx context.Context, n *mesh.Node) error) (err error) {
		t.Helper()
		over := false
		w.Host(host).Go("do", func(ctx context.Context) {
			ctx, cancel := simulate.WithTimeout(ctx, 18*time.Second)
			defer cancel()
			err = f(ctx, w.nodes[host])
			over = true
		})
		w.until("it is done", 20*time.Second, func() bool { return over })
		return err
	}
	set := func(host string, d time.Duration) error {
		t.Helper()
		return do(host, func(ctx context.Context, n *mesh.Node) error { return n.SetMaxTTL(ctx, d) })
	}
	opens := func(host string, ttl time.Duration) error {
		t.Helper()
		return do(host, func(ctx context.Context, n *mesh.Node) error {
			s, err := n.NewSession(ctx, mesh.WithTTL(ttl))
			if err == nil {
				err = s.Do(ctx, "s", nothing)
			}
			return err
		})
	}
	usual := w.nodes["a"].MaxTTL()
	if err := opens("client0", 30*time.Second); usual > 20*time.Second || !errors.Is(err, mesh.ErrInvalidOption) {
		t.Fatalf("MaxTTL is %v; a session of 30 s: %v", usual, err)
	}
	if err := set("client0", time.Minute); err != nil {
		t.Fatal(err)
	}
	if err := opens("client0", 30*time.Second); err != nil {
		t.Errorf("a session of 30 s as soon as that is set: %v", err)
	}
	w.pass(2 * time.Second)
	var kept *mesh.Lock
	if err := do("client1", func(ctx context.Context, n *mesh.Node) (err error) {
		s, err := n.NewSession(ctx, mesh.WithTTL(30*time.Second))
		if err == nil {
			kept, err = s.Lock(ctx, "kept")
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	for host := range w.nodes {
		if d := w.nodes[host].MaxTTL(); d != time.Minute {
			t.Errorf("%s says that MaxTTL is %v", host, d)
		}
		if err := opens(host, 30*time.Second); err != nil {
			t.Errorf("a session of 30 s at %s: %v", host, err)
		}
	}
	if err := set("client0", 2*time.Second); !errors.Is(err, mesh.ErrInvalidOption) || !strings.Contains(err.Error(), "WithLeaseTTL 4s") {
		t.Errorf("less than nodes ask for: %v", err)
	}
	if err := set("b", 5*time.Second); err != nil {
		t.Fatal(err)
	}
	w.pass(2 * time.Second)
	if err := opens("client0", 30*time.Second); !errors.Is(err, mesh.ErrInvalidOption) || !strings.Contains(err.Error(), "5s") {
		t.Errorf("a session of 30 s after the lowering: %v", err)
	}
	if err := do("a", func(ctx context.Context, n *mesh.Node) error {
		_, err := n.Lock(ctx, "k", mesh.MaxHold(20*time.Second))
		return err
	}); !errors.Is(err, mesh.ErrInvalidOption) {
		t.Errorf("a MaxHold of 20 s after the lowering: %v", err)
	}
	w.pass(40 * time.Second)
	w.Host("client1").Go("look", func(ctx context.Context) {
		if left := kept.Deadline().Sub(simulate.Wall(ctx)); kept.Err() != nil || left > 5*time.Second {
			t.Errorf("the lock of the long session: %v, and its lease lasts %v", kept.Err(), left)
		}
	})
	w.pass(time.Second)
	for _, d := range []time.Duration{0, time.Second - 1, 24*time.Hour + 1} {
		if err := set("a", d); !errors.Is(err, mesh.ErrInvalidOption) {
			t.Errorf("%v: %v", d, err)
		}
	}
	var none context.Context
	if err := w.nodes["a"].SetMaxTTL(none, time.Minute); !errors.Is(err, mesh.ErrInvalidOption) {
		t.Errorf("without a context: %v", err)
	}
	if err, d := new(mesh.Node).SetMaxTTL(context.Background(), time.Minute), new(mesh.Node).MaxTTL(); !errors.Is(err, mesh.ErrClosed) || d != 0 {
		t.Errorf("of a zero node: %v, %v", err, d)
	}
}

// Promise: C5, C8: MaxTTL is raised, and all of the core ends, and starts with the new value. Clients that were started with
// the one of before follow, with their locks: also one that was cut off when it was raised.
func TestClientsFollowThoughMaxTTLIsAnother(t *testing.T) {
	w := simulate.New(simulate.Options{Seed: 5})
	defer w.Close()
	core, maxTTL := []string{"a", "b", "c"}, 10*time.Second
	nodes, locks := make(map[string]*mesh.Node), make(map[string]*mesh.Lock)
	for _, host := range []string{"a", "b", "c", "near", "far"} {
		w.Host(host).Boot("node", func(ctx context.Context) {
			n, err := mesh.JoinContext(ctx, core, mesh.WithName(host), mesh.WithMaxTTL(maxTTL))
			if err != nil {
				w.Fail(err)
			}
			nodes[host] = n
		})
	}
	must := func(what string, cond func() bool) {
		t.Helper()
		if err := w.RunUntil(cond, time.Minute); err != nil {
			t.Fatalf("%s: %v", what, err)
		}
	}
	must("joined", func() bool { return len(nodes) == 5 })
	for _, host := range []string{"near", "far"} {
		w.Host(host).Go("hold", func(ctx context.Context) {
			l, err := nodes[host].Lock(ctx, host)
			if err != nil {
				w.Fail(err)
			}
			locks[host] = l
		})
	}
	must("locked", func() bool { return len(locks) == 2 })
	w.Net.Isolate("far")
	raised := false
	w.Host("a").Go("raise", func(ctx context.Context) {
		if err := nodes["a"].SetMaxTTL(ctx, 20*time.Second); err != nil {
			w.Fail(err)
		}
		raised = true
	})
	must("raised", func() bool { return raised })
	maxTTL = 20 * time.Second
	for _, host := range core {
		delete(nodes, host)
		w.Host(host).Crash()
		w.Host(host).Restart()
	}
	must("founded anew", func() bool { return len(nodes) == 5 })
	w.Net.Heal()
	if err := w.Run(30 * time.Second); err != nil {
		t.Fatal(err)
	}
	for host, l := range locks {
		if nodes[host].Err() != nil || l.Err() != nil || nodes[host].MaxTTL() != maxTTL {
			t.Errorf("%s: %v, its lock %v, and MaxTTL is %v", host, nodes[host].Err(), l.Err(), nodes[host].MaxTTL())
		}
	}
}

// Promise: C5, P35: MaxTTL is raised, all of a fleet ends, and is started with the options of before: state directories remember
// for how long leases may last.
func TestStateDirOutlivesARaise(t *testing.T) {
	for _, seed := range []uint64{1, 3, 8} { // in 1 and 3, it is in force before it is saved, if nobody waits for that
		outlivesARaise(t, seed)
	}
}

func outlivesARaise(t *testing.T, seed uint64) {
	w := simulate.New(simulate.Options{Seed: seed})
	defer w.Close()
	hosts := []string{"h1", "h2", "h3"}
	raised, granted := false, time.Duration(0)
	for _, host := range hosts {
		w.Host(host).Boot("node", func(ctx context.Context) {
			n, err := mesh.StartContext(ctx, hosts, mesh.WithName(host), mesh.WithMaxTTL(10*time.Second), mesh.WithStateDir("/var/lib/"+host))
			if err != nil {
				w.Fail(err)
				return
			}
			if host != "h1" {
				return
			}
			if !raised {
				if err := n.SetMaxTTL(ctx, time.Minute); !errors.Is(err, mesh.ErrNotFounded) {
					t.Errorf("in no mesh: %v", err)
				}
			}
			l, err := n.Lock(ctx, "k")
			if err != nil {
				return // it crashed
			}
			granted = simulate.Now(ctx)
			if !raised {
				if err := n.SetMaxTTL(ctx, time.Minute); err != nil {
					w.Fail(err)
				}
				raised = true
			}
			_ = l.Unlock(ctx)
		})
	}
	if err := w.RunUntil(func() bool { return raised }, time.Minute); err != nil {
		t.Fatal(err)
	}
	granted = 0
	for _, host := range hosts { // at once: what is not saved yet is lost
		w.Host(host).Crash()
		w.Host(host).Restart()
	}
	crashed := w.Now()
	if err := w.RunUntil(func() bool { return granted != 0 }, 2*time.Minute); err != nil {
		t.Fatal(err)
	}
	if granted-crashed < time.Minute {
		t.Errorf("granted %v after all crashed, in world %d", granted-crashed, seed)
	}
}
