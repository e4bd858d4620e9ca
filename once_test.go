package mesh_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/lockmesh/mesh"
)

// Promise: wrong input to Once is an error, and nothing is sent.
func TestWrongOnce(t *testing.T) {
	n, err := mesh.Solo()
	if err != nil {
		t.Fatal(err)
	}
	defer n.Close()
	ctx := context.Background()
	for name, tt := range map[string]struct {
		key       string
		retention time.Duration
		fn        mesh.OpFunc
		opts      []mesh.OnceOption
		want      error
	}{
		"an empty key":            {"", time.Hour, doNothing, nil, mesh.ErrInvalidKey},
		"a long key":              {strings.Repeat("x", 1025), time.Hour, doNothing, nil, mesh.ErrInvalidKey},
		"no retention":            {"r", 0, doNothing, nil, mesh.ErrInvalidOption},
		"a short retention":       {"r", time.Second - 1, doNothing, nil, mesh.ErrInvalidOption},
		"a retention of ages":     {"r", 366 * 24 * time.Hour, doNothing, nil, mesh.ErrInvalidOption},
		"no function":             {"r", time.Hour, nil, nil, mesh.ErrInvalidOption},
		"a nil option":            {"r", time.Hour, doNothing, []mesh.OnceOption{nil}, mesh.ErrInvalidOption},
		"no attempt":              {"r", time.Hour, doNothing, []mesh.OnceOption{mesh.Attempts(0)}, mesh.ErrInvalidOption},
		"fewer attempts":          {"r", time.Hour, doNothing, []mesh.OnceOption{mesh.Attempts(-1)}, mesh.ErrInvalidOption},
		"too many attempts":       {"r", time.Hour, doNothing, []mesh.OnceOption{mesh.Attempts(1_000_001)}, mesh.ErrInvalidOption},
		"the first that is wrong": {"", 0, doNothing, []mesh.OnceOption{nil}, mesh.ErrInvalidKey},
	} {
		if ran, err := n.Once(ctx, tt.key, tt.retention, tt.fn, tt.opts...); ran || !errors.Is(err, tt.want) {
			t.Errorf("%s: %t, %v, want %v", name, ran, err, tt.want)
		}
	}
	//lint:ignore SA1012 that is what is tried
	if ran, err := n.Once(nil, "r", time.Hour, doNothing); ran || !errors.Is(err, mesh.ErrInvalidOption) { //nolint:staticcheck
		t.Errorf("no context: %t, %v", ran, err)
	}
	for _, s := range []*mesh.Session{nil, {}} {
		if ran, err := s.Once(ctx, "r", time.Hour, doNothing); ran || err != mesh.ErrClosed {
			t.Errorf("a zero session: %t, %v", ran, err)
		}
	}
	if _, err := n.Resource("r").Begin(ctx, mesh.OpDelete+1); !errors.Is(err, mesh.ErrInvalidOption) {
		t.Errorf("an operation that no resource has: %v", err)
	}
}

// Promise: what has succeeded is skipped, what has failed or panicked is not; and a key is either done once or something else.
func TestOnce(t *testing.T) {
	n, err := mesh.Solo()
	if err != nil {
		t.Fatal(err)
	}
	defer n.Close()
	s, err := n.NewSession(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	ctx, oh := context.Background(), errors.New("oh")
	if ran, err := n.Once(ctx, "r", time.Hour, func(context.Context, *mesh.Operation) error { return oh }); ran || err != oh {
		t.Errorf("a function that fails: %t, %v", ran, err)
	}
	func() {
		defer func() {
			if recover() != "oh" {
				t.Error("the panic was kept")
			}
		}()
		_, _ = n.Once(ctx, "r", time.Hour, func(context.Context, *mesh.Operation) error { panic("oh") })
	}()
	if ran, err := s.Once(ctx, "r", time.Hour, func(ctx context.Context, op *mesh.Operation) error {
		if op.Token() == 0 || op.Err() != nil || ctx.Err() != nil || op.Skipped() || op.Use() != nil {
			t.Errorf("the operation: %+v", op)
		}
		if _, err := s.Once(ctx, "r", time.Hour, doNothing); !errors.Is(err, mesh.ErrSelfDeadlock) {
			t.Errorf("once in once: %v", err)
		}
		return nil
	}, mesh.Attempts(1)); !ran || err != nil {
		t.Errorf("the next one: %t, %v", ran, err)
	}
	for range 2 {
		if ran, err := n.Once(ctx, "r", time.Hour, func(context.Context, *mesh.Operation) error { t.Error("again"); return nil }); ran || err != nil {
			t.Errorf("what was done: %t, %v", ran, err)
		}
	}
	if _, err := n.Lock(ctx, "r"); !errors.Is(err, mesh.ErrCapacityMismatch) {
		t.Errorf("what was done once is locked: %v", err)
	}
	if _, err := n.Resource("r").Pull(ctx, doNothing); !errors.Is(err, mesh.ErrCapacityMismatch) {
		t.Errorf("what was done once is pulled: %v", err)
	}
	if refs, err := n.Resource("r").Refs(ctx); err != nil || len(refs) != 0 {
		t.Errorf("what was done once is used by %v, %v", refs, err)
	}
}
