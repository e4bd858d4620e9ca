package mesh_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/lockmesh/mesh"
)

// Promise: wrong input to a resource is an error, and nothing is sent.
func TestWrongResources(t *testing.T) {
	n, err := mesh.Solo()
	if err != nil {
		t.Fatal(err)
	}
	defer n.Close()
	ctx := context.Background()
	long := strings.Repeat("x", 1025)
	for name, tt := range map[string]struct {
		r    *mesh.Resource
		want error
	}{
		"an empty ID":           {n.Resource(""), mesh.ErrInvalidKey},
		"a long ID":             {n.Resource(long), mesh.ErrInvalidKey},
		"a nil option":          {n.Resource("r", nil), mesh.ErrInvalidOption},
		"no retention":          {n.Resource("r", mesh.Retention(0)), mesh.ErrInvalidOption},
		"a negative retention":  {n.Resource("r", mesh.Retention(-time.Second)), mesh.ErrInvalidOption},
		"a retention of ages":   {n.Resource("r", mesh.Retention(366*24*time.Hour)), mesh.ErrInvalidOption},
		"a long version":        {n.Resource("r", mesh.Version(long[:256])), mesh.ErrInvalidOption},
		"a user without a name": {n.Resource("r", mesh.User("")), mesh.ErrInvalidOption},
		"a long user":           {n.Resource("r", mesh.User(long[:256])), mesh.ErrInvalidOption},
		"the first wrong one":   {n.Resource("r", mesh.User(""), mesh.Version("v")), mesh.ErrInvalidOption},
		"a nil Resource":        {nil, mesh.ErrClosed},
		"a zero Resource":       {&mesh.Resource{}, mesh.ErrClosed},
		"a zero Session's":      {(*mesh.Session)(nil).Resource("r"), mesh.ErrClosed},
	} {
		_, pullErr := tt.r.Pull(ctx, doNothing)
		_, updateErr := tt.r.Update(ctx, doNothing)
		_, deleteErr := tt.r.Delete(ctx, doNothing)
		_, beginErr := tt.r.Begin(ctx, mesh.OpPull)
		_, refsErr := tt.r.Refs(ctx)
		for call, err := range map[string]error{"Pull": pullErr, "Update": updateErr, "Delete": deleteErr, "Begin": beginErr, "Refs": refsErr, "Release": tt.r.Release(ctx)} {
			if !errors.Is(err, tt.want) {
				t.Errorf("%s: %s returns %v, want %v", name, call, err, tt.want)
			}
		}
	}
	r := n.Resource("r")
	if _, err := r.Begin(ctx, mesh.OpDelete+1); !errors.Is(err, mesh.ErrInvalidOption) {
		t.Errorf("an unknown operation: %v", err)
	}
	if _, err := r.Pull(ctx, nil); !errors.Is(err, mesh.ErrInvalidOption) {
		t.Errorf("no function: %v", err)
	}
	//lint:ignore SA1012 that is what is tried
	if _, err := r.Begin(nil, mesh.OpPull); !errors.Is(err, mesh.ErrInvalidOption) { //nolint:staticcheck
		t.Errorf("no context: %v", err)
	}
	if r.ID() != "r" || (*mesh.Resource)(nil).ID() != "" || mesh.OpUpdate.String() != "update" || mesh.Op(9).String() != "Op(9)" {
		t.Error("an ID or an operation has another name")
	}
	ended, cancel := context.WithCancel(ctx)
	cancel()
	if _, err := r.Begin(ended, mesh.OpPull); !errors.Is(err, context.Canceled) {
		t.Errorf("a context that has ended: %v", err)
	}
	if _, err := r.Refs(ended); !errors.Is(err, context.Canceled) {
		t.Errorf("Refs, by a context that has ended: %v", err)
	}
	if refs, err := r.Refs(ctx); len(refs) != 0 || err != nil {
		t.Errorf("after all that: %v, %v", refs, err)
	}
}

// Promise: a zero Operation or Use has ended.
func TestZeroOperations(t *testing.T) {
	ctx := context.Background()
	for _, o := range []*mesh.Operation{nil, {}} {
		if o.Skipped() || o.Token() != 0 || o.Context().Err() == nil || o.Err() != mesh.ErrClosed || o.Use() != nil || o.End(ctx, nil) != mesh.ErrClosed {
			t.Errorf("%+v", o)
		}
	}
	for _, u := range []*mesh.Use{nil, {}} {
		if u.User() != "" || u.Token() != 0 || u.Context().Err() == nil || u.Err() != mesh.ErrClosed || u.Release(ctx) != mesh.ErrClosed {
			t.Errorf("%+v", u)
		}
		select {
		case <-u.Lost():
			t.Error("a zero use is lost")
		default:
		}
	}
}

// Promise: an operation whose function panics has failed; End has one result, and needs a context.
func TestOperations(t *testing.T) {
	n, err := mesh.Solo(mesh.WithName("ann"))
	if err != nil {
		t.Fatal(err)
	}
	defer n.Close()
	ctx := context.Background()
	r := n.Resource("r", mesh.Durable(), mesh.User("team"))
	func() {
		defer func() {
			if recover() != "oh" {
				t.Error("the panic was kept")
			}
		}()
		_, _ = r.Update(ctx, func(context.Context, *mesh.Operation) error { panic("oh") })
	}()
	if ran, err := r.Update(ctx, doNothing); !ran || err != nil {
		t.Errorf("after a panic: %t, %v", ran, err)
	}
	op, err := r.Begin(ctx, mesh.OpPull)
	if err != nil || op.Skipped() || op.Token() == 0 || op.Err() != nil || op.Context().Err() != nil || op.Use() != nil {
		t.Fatalf("%+v, %v", op, err)
	}
	//lint:ignore SA1012 that is what is tried
	if err := op.End(nil, nil); !errors.Is(err, mesh.ErrInvalidOption) { //nolint:staticcheck
		t.Errorf("no context: %v", err)
	}
	first, second := op.End(ctx, nil), op.End(ctx, errors.New("too late"))
	if first != nil || second != nil || op.Err() != mesh.ErrClosed || op.Context().Err() == nil {
		t.Errorf("ended with %v, then %v; %v", first, second, op.Err())
	}
	use := op.Use()
	if use.User() != "team" || use.Token() <= op.Token() || use.Err() != nil {
		t.Errorf("the use of %s: %v", use.User(), use.Err())
	}
	refs, err := n.Resource("r").Refs(ctx)
	if want := (mesh.Ref{User: "team", Durable: true, Token: use.Token()}); err != nil || len(refs) != 1 || refs[0] != want {
		t.Errorf("refs %v, %v", refs, err)
	}
	s, err := n.NewSession(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Resource("r", mesh.User("other")).Pull(ctx, doNothing); err != nil {
		t.Error(err)
	}
	if err := s.Close(ctx); err != nil {
		t.Error(err)
	}
	if refs, err := r.Refs(ctx); err != nil || len(refs) != 1 {
		t.Errorf("after a user's session was closed: %v, %v", refs, err)
	}
	if err := r.Release(ctx); err != nil || use.Err() != mesh.ErrClosed {
		t.Errorf("released by name: %v; the handle: %v", err, use.Err())
	}
	text := (&mesh.InUseError{Resource: "r", Op: mesh.OpDelete, Users: []mesh.Ref{{User: "a"}, {User: "b"}, {User: "c"}, {User: "d"}, {User: "e"}}}).Error()
	if text != `mesh: delete of "r": it is used by "a", "b", "c" and 2 others` {
		t.Error(text)
	}
	text = (&mesh.InUseError{Resource: strings.Repeat("ä", 40), Op: mesh.OpPull}).Error()
	if want := fmt.Sprintf(`mesh: pull of "%s…": it is used`, strings.Repeat("ä", 32)); text != want {
		t.Errorf("%s, want %s", text, want)
	}
}

// Promise: a function may end its operation itself: what it says there counts. No pull returns neither a use nor an error, and no use
// stays that nobody has.
func TestAFunctionEndsItsOperation(t *testing.T) {
	n, err := mesh.Solo()
	if err != nil {
		t.Fatal(err)
	}
	defer n.Close()
	ctx, oh := context.Background(), errors.New("oh")
	for i, tt := range []struct {
		says, returns error
		used          bool
	}{{nil, nil, true}, {oh, nil, false}, {oh, oh, false}, {nil, oh, false}} {
		r := n.Resource(fmt.Sprint("r", i))
		use, err := r.Pull(ctx, func(_ context.Context, op *mesh.Operation) error {
			if err := op.End(op.Context(), tt.says); err != nil { // its context ends, and that does not keep it from waiting
				t.Errorf("%d: ended with %v", i, err)
			}
			return tt.returns
		})
		if (use != nil) != tt.used || (err == nil) != tt.used || err != nil && !errors.Is(err, oh) {
			t.Errorf("%d: %v, %v", i, use, err)
		}
		if refs, err := r.Refs(ctx); err != nil || (len(refs) > 0) != tt.used {
			t.Errorf("%d: used by %v, %v", i, refs, err)
		}
		if tt.used {
			if err := use.Release(use.Context()); err != nil {
				t.Errorf("%d: released with %v", i, err)
			}
		}
		ran, err := n.Resource(fmt.Sprint("u", i)).Update(ctx, func(_ context.Context, op *mesh.Operation) error {
			_ = op.End(ctx, tt.says)
			return tt.returns
		})
		if ran != tt.used || (err == nil) != tt.used {
			t.Errorf("%d: an update: %t, %v", i, ran, err)
		}
	}
	l, err := n.Lock(ctx, "k")
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Unlock(l.Context()); err != nil {
		t.Errorf("unlocked with %v", err)
	}
}
