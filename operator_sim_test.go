package mesh_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/lockmesh/mesh"
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
