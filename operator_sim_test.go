package mesh_test

import (
	"context"
	"errors"
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
