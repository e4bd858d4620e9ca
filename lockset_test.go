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

// Promise: wrong input to LockAll is an error that says what is wrong, and nothing is held.
func TestWrongSets(t *testing.T) {
	n, err := mesh.Solo()
	if err != nil {
		t.Fatal(err)
	}
	defer n.Close()
	ctx := context.Background()
	over, cancel := context.WithCancel(ctx)
	cancel()
	b, err := n.Lock(ctx, "b")
	if err != nil {
		t.Fatal(err)
	}
	leads, err := n.Election("m").Campaign(ctx, nil)
	if err != nil {
		t.Fatal(err)
	}
	many := make([]string, 1025)
	for i := range many {
		many[i] = fmt.Sprint(i)
	}
	for _, tt := range []struct {
		name string
		ctx  context.Context
		keys []string
		opts []mesh.LockOption
		want error
		text string
	}{
		{"no context", nil, []string{"a"}, nil, mesh.ErrInvalidOption, "context"},
		{"no keys", ctx, nil, nil, mesh.ErrInvalidOption, "number of keys is 0"},
		{"too many", ctx, many, nil, mesh.ErrInvalidOption, "number of keys is 1025"},
		{"a key twice", ctx, []string{"a", "c", "a"}, nil, mesh.ErrInvalidOption, `"a", twice`},
		{"an empty key", ctx, []string{"a", ""}, nil, mesh.ErrInvalidKey, ""},
		{"a long key", ctx, []string{"a", strings.Repeat("x", 1025)}, nil, mesh.ErrInvalidKey, ""},
		{"a nil option", ctx, []string{"a"}, []mesh.LockOption{nil}, mesh.ErrInvalidOption, "option 1"},
		{"re-entrance", ctx, []string{"a"}, []mesh.LockOption{mesh.Reentrant()}, mesh.ErrInvalidOption, "Reentrant"},
		{"a short MaxHold", ctx, []string{"a"}, []mesh.LockOption{mesh.MaxHold(99 * time.Millisecond)}, mesh.ErrInvalidOption, "MaxHold is 99ms"},
		{"a long MaxHold", ctx, []string{"a"}, []mesh.LockOption{mesh.MaxHold(time.Minute)}, mesh.ErrInvalidOption, "MaxHold is 1m0s"},
		{"a context that has ended", over, []string{"c", "a"}, nil, context.Canceled, `"a"`},
		{"a key that the context holds", b.Context(), []string{"c", "b"}, nil, mesh.ErrSelfDeadlock, `"b"`},
		{"a key before one that the context holds", b.Context(), []string{"c", "a"}, nil, mesh.ErrSelfDeadlock, `holds "b", and "a"`},
		{"a key before what the context leads", leads.Context(), []string{"c"}, nil, mesh.ErrSelfDeadlock, `holds "m", and "c"`},
		{"a key that is something else", ctx, []string{"a", "m", "z"}, nil, mesh.ErrCapacityMismatch, `"m"`},
	} {
		set, err := n.LockAll(tt.ctx, tt.keys, tt.opts...)
		if set != nil || !errors.Is(err, tt.want) || !strings.Contains(err.Error(), tt.text) {
			t.Errorf("%s: %v, %v, want an error that is %v and says %q", tt.name, set, err, tt.want, tt.text)
		}
		_ = set.Unlock(ctx)
	}
	if _, err := (*mesh.Session)(nil).LockAll(ctx, []string{"a"}); err != mesh.ErrClosed {
		t.Errorf("a nil session: %v", err)
	}
	if _, err := (*mesh.Node)(nil).LockAll(ctx, []string{"a"}); err != mesh.ErrClosed {
		t.Errorf("a nil node: %v", err)
	}
	for _, key := range []string{"a", "c", "z", "0", "1023"} {
		if l, err := n.TryLock(ctx, key); err != nil {
			t.Errorf("%q is held after the errors: %v", key, err)
		} else if err := l.Unlock(ctx); err != nil {
			t.Error(err)
		}
	}
	if err := errors.Join(b.Unlock(ctx), leads.Resign(ctx)); err != nil {
		t.Error(err)
	}
}

// Promise: a set has a lock for each key, and gives all back together.
func TestASet(t *testing.T) {
	n, err := mesh.Solo()
	if err != nil {
		t.Fatal(err)
	}
	defer n.Close()
	ctx := context.Background()
	lock := func(keys ...string) *mesh.LockSet {
		t.Helper()
		set, err := n.LockAll(ctx, keys, mesh.Value([]byte("v")))
		if err != nil {
			t.Fatal(err)
		}
		return set
	}
	set := lock("c", "a", "b")
	for _, key := range []string{"a", "b", "c"} {
		if l := set.Lock(key); l == nil || l.Key() != key || l.Err() != nil || l.Token() == 0 {
			t.Errorf("the lock of %q is %v", key, l)
		}
		if _, err := n.TryLock(ctx, key); !errors.Is(err, mesh.ErrLocked) {
			t.Errorf("%q beside the set: %v", key, err)
		}
	}
	if l := set.Lock("d"); l != nil {
		t.Errorf("the lock of a key that is not in the set is %v", l)
	}
	held := set.Context()
	if _, err := n.Lock(held, "b"); !errors.Is(err, mesh.ErrSelfDeadlock) {
		t.Errorf("a key of the set in its context: %v", err)
	}
	if _, err := n.LockAll(held, []string{"c", "d"}); !errors.Is(err, mesh.ErrSelfDeadlock) {
		t.Errorf("a set in its context: %v", err)
	}
	inner, err := n.LockAll(held, []string{"e", "d"})
	if err != nil {
		t.Fatalf("a set of later keys in its context: %v", err)
	}
	entered, err := n.Lock(held, "b", mesh.Reentrant())
	if err != nil {
		t.Fatal(err)
	}
	if err := inner.Unlock(ctx); err != nil || set.Err() != nil || held.Err() != nil {
		t.Errorf("the inner set is unlocked: %v; the outer one: %v, %v", err, set.Err(), held.Err())
	}
	if err := set.Unlock(ctx); err != nil || set.Err() != mesh.ErrClosed || context.Cause(held) != context.Canceled {
		t.Errorf("the set is unlocked: %v, %v, and its context ends with %v", err, set.Err(), context.Cause(held))
	}
	if err := set.Unlock(ctx); err != nil {
		t.Errorf("and again: %v", err)
	}
	for key, want := range map[string]error{"a": nil, "b": mesh.ErrLocked, "c": nil, "d": nil} { // b is entered still
		if l, err := n.TryLock(ctx, key); !errors.Is(err, want) {
			t.Errorf("%q after the set: %v, want %v", key, err, want)
		} else if err == nil {
			_ = l.Unlock(ctx)
		}
	}
	if err := entered.Unlock(ctx); err != nil {
		t.Error(err)
	}

	// One lock of a set is unlocked alone: the set's context ends, and the others are held still.
	set = lock("a", "b")
	held = set.WithContext(ctx)
	if err := set.Lock("b").Unlock(ctx); err != nil || held.Err() == nil || set.Err() != mesh.ErrClosed || set.Lock("a").Err() != nil {
		t.Errorf("one of two is unlocked: %v, the context: %v, the set: %v, the other one: %v", err, held.Err(), set.Err(), set.Lock("a").Err())
	}
	if err := set.Unlock(ctx); err != nil {
		t.Error(err)
	}
	for _, zero := range []*mesh.LockSet{nil, {}} {
		if zero.Lock("a") != nil || zero.Err() != mesh.ErrClosed || zero.Context().Err() == nil || zero.WithContext(ctx).Err() == nil || zero.Unlock(ctx) != mesh.ErrClosed {
			t.Error("a zero LockSet is not like one that was unlocked")
		}
	}
	var none context.Context
	if err := set.Unlock(none); !errors.Is(err, mesh.ErrInvalidOption) {
		t.Errorf("Unlock without a context: %v", err)
	}
}
