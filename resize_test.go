package mesh_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/lockmesh/mesh"
)

// Promise: wrong input to Resize is an error, and nothing is sent.
func TestWrongResizes(t *testing.T) {
	n, err := mesh.Solo()
	if err != nil {
		t.Fatal(err)
	}
	defer n.Close()
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	ctx := context.Background()
	for _, tt := range []struct {
		name     string
		ctx      context.Context
		key      string
		from, to int64
		want     error
	}{
		{"no key", ctx, "", 1, 2, mesh.ErrInvalidKey},
		{"a long key", ctx, strings.Repeat("x", 1025), 1, 2, mesh.ErrInvalidKey},
		{"from nothing", ctx, "k", 0, 2, mesh.ErrInvalidOption},
		{"to nothing", ctx, "k", 1, 0, mesh.ErrInvalidOption},
		{"to less", ctx, "k", 1, -1, mesh.ErrInvalidOption},
		{"to too much", ctx, "k", 1, 1<<40 + 1, mesh.ErrInvalidOption},
		{"no context", nil, "k", 1, 2, mesh.ErrInvalidOption},
		{"a context that has ended", ended, "k", 1, 2, context.Canceled},
		{"a key that is not used", ctx, "k", 1, 2, nil},
	} {
		s, err := n.NewSession(ctx)
		if err != nil {
			t.Fatal(err)
		}
		for _, got := range []error{n.Resize(tt.ctx, tt.key, tt.from, tt.to), s.Resize(tt.ctx, tt.key, tt.from, tt.to)} {
			if !errors.Is(got, tt.want) {
				t.Errorf("%s: %v, want %v", tt.name, got, tt.want)
			}
		}
	}
	for _, got := range []error{(*mesh.Node)(nil).Resize(ctx, "k", 1, 2), (*mesh.Session)(nil).Resize(ctx, "k", 1, 2), (&mesh.Session{}).Resize(ctx, "k", 1, 2)} {
		if !errors.Is(got, mesh.ErrClosed) {
			t.Errorf("of nothing: %v", got)
		}
	}
	l, err := n.Lock(ctx, "lock")
	if err != nil {
		t.Fatal(err)
	}
	if err := n.Resize(ctx, "lock", 1<<40, 2); !errors.Is(err, mesh.ErrCapacityMismatch) {
		t.Errorf("a lock is resized: %v", err)
	}
	if err := l.Unlock(ctx); err != nil {
		t.Error(err)
	}
}
