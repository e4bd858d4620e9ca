package mesh_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/lockmesh/mesh"
)

func idle(context.Context, *mesh.Leadership) error { return nil }

// Promise: wrong input to an election is an error, and nothing is sent.
func TestWrongElections(t *testing.T) {
	n, err := mesh.Solo()
	if err != nil {
		t.Fatal(err)
	}
	defer n.Close()
	ctx := context.Background()
	long := strings.Repeat("x", 1025)
	for name, tt := range map[string]struct {
		e    *mesh.Election
		want error
	}{
		"an empty name":    {n.Election(""), mesh.ErrInvalidKey},
		"a long name":      {n.Election(long), mesh.ErrInvalidKey},
		"a nil Election":   {nil, mesh.ErrClosed},
		"a zero Election":  {&mesh.Election{}, mesh.ErrClosed},
		"a zero Session's": {(*mesh.Session)(nil).Election("e"), mesh.ErrClosed},
		"a zero Node's":    {(*mesh.Node)(nil).Election("e"), mesh.ErrClosed},
	} {
		_, campaignErr := tt.e.Campaign(ctx, nil)
		_, leaderErr := tt.e.Leader(ctx)
		for call, err := range map[string]error{"Campaign": campaignErr, "Leader": leaderErr, "Lead": tt.e.Lead(ctx, nil, idle)} {
			if !errors.Is(err, tt.want) {
				t.Errorf("%s: %s returns %v, want %v", name, call, err, tt.want)
			}
		}
		for s := range tt.e.Observe(ctx) {
			t.Errorf("%s: it is observed: %+v", name, s)
		}
	}
	e, value := n.Election("e"), make([]byte, 4097)
	if e.Name() != "e" || (*mesh.Election)(nil).Name() != "" {
		t.Errorf("the name is %q", e.Name())
	}
	invalid := func(what string, err error) {
		t.Helper()
		if !errors.Is(err, mesh.ErrInvalidOption) {
			t.Errorf("%s: %v", what, err)
		}
	}
	_, err = e.Campaign(ctx, value)
	invalid("a long value", err)
	invalid("a long value to lead with", e.Lead(ctx, value, idle))
	invalid("no function", e.Lead(ctx, nil, nil))
	var none context.Context
	_, err = e.Campaign(none, nil)
	invalid("no context", err)
	_, err = e.Leader(none)
	invalid("no context to ask", err)
	invalid("no context to lead", e.Lead(none, nil, idle))
	for s := range e.Observe(none) {
		t.Errorf("observed without a context: %+v", s)
	}
	l, err := e.Campaign(ctx, []byte("a"))
	if err != nil {
		t.Fatal(err)
	}
	invalid("a long proclamation", l.Proclaim(ctx, value))
	invalid("a proclamation without a context", l.Proclaim(none, nil))
	invalid("no context to resign", l.Resign(none))
	over, cancel := context.WithCancel(ctx)
	cancel()
	if err := l.Proclaim(over, []byte("b")); !errors.Is(err, context.Canceled) {
		t.Errorf("proclaimed with a context that has ended: %v", err)
	}
	for s := range e.Observe(over) {
		t.Errorf("observed with a context that has ended: %+v", s)
	}
	if s, err := e.Leader(ctx); err != nil || string(s.Value) != "a" || s.Sequence != 0 || s.Token != l.Token() {
		t.Errorf("then the leader is %+v, %v", s, err)
	}
	for _, l := range []*mesh.Leadership{nil, {}} {
		if l.Err() != mesh.ErrClosed || l.Token() != 0 || l.Proclaim(ctx, nil) != mesh.ErrClosed || l.Resign(ctx) != mesh.ErrClosed || l.Context().Err() == nil {
			t.Errorf("a leadership of nobody lives")
		}
	}
}

// Promise: what a program gives away or is given is its own: it may change the bytes afterwards.
func TestValuesAreCopies(t *testing.T) {
	n, err := mesh.Solo()
	if err != nil {
		t.Fatal(err)
	}
	defer n.Close()
	ctx, e := context.Background(), n.Election("e")
	value := []byte("a")
	l, err := e.Campaign(ctx, value)
	if err != nil {
		t.Fatal(err)
	}
	value[0] = 'x'
	says := func(want string) {
		t.Helper()
		for range 2 {
			s, err := e.Leader(ctx)
			if err != nil || string(s.Value) != want {
				t.Errorf("it says %q, %v, want %q", s.Value, err, want)
			}
			clear(s.Value)
			for s := range e.Observe(ctx) {
				if string(s.Value) != want {
					t.Errorf("an observer sees %q, want %q", s.Value, want)
				}
				clear(s.Value)
				break
			}
		}
	}
	says("a")
	value = []byte("b")
	if err := l.Proclaim(ctx, value); err != nil {
		t.Error(err)
	}
	clear(value)
	says("b")
}

// Promise: observers end with the node, and with a program that stops looking.
func TestObserversEnd(t *testing.T) {
	n, err := mesh.Solo()
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan int)
	for range 3 {
		go func() {
			states := slices.Collect(n.Election("e").Observe(context.Background()))
			ended <- len(states)
		}()
	}
	for range n.Election("e").Observe(context.Background()) {
		break
	}
	n.Close()
	for range 3 {
		<-ended
	}
	for s := range n.Election("e").Observe(context.Background()) {
		t.Errorf("a node that has ended is observed: %+v", s)
	}
}
