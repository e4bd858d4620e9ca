package mesh_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/lockmesh/mesh"
)

// Promise: wrong input to Break is an error, and nothing is sent.
func TestWrongBreaks(t *testing.T) {
	n, err := mesh.Solo()
	if err != nil {
		t.Fatal(err)
	}
	defer n.Close()
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	ctx := context.Background()
	l, err := n.Lock(ctx, "k")
	if err != nil {
		t.Fatal(err)
	}
	waits, cancelWait := context.WithCancel(ctx)
	defer cancelWait()
	go func() { _, _ = n.Lock(waits, "k") }()
	for _, tt := range []struct {
		name  string
		ctx   context.Context
		key   string
		token uint64
		opts  []mesh.BreakOption
		want  error
	}{
		{"no key", ctx, "", 1, nil, mesh.ErrInvalidKey},
		{"a long key", ctx, strings.Repeat("x", 1025), 1, nil, mesh.ErrInvalidKey},
		{"no token", ctx, "k", 0, nil, mesh.ErrInvalidOption},
		{"a long reason", ctx, "k", 1, []mesh.BreakOption{mesh.Because(strings.Repeat("x", 256))}, mesh.ErrInvalidOption},
		{"no option", ctx, "k", 1, []mesh.BreakOption{nil}, mesh.ErrInvalidOption},
		{"no context", nil, "k", 1, nil, mesh.ErrInvalidOption},
		{"a context that has ended", ended, "k", l.Token(), nil, context.Canceled},
		{"a key that is not used", ctx, "j", 1, nil, mesh.ErrNotHeld},
		{"another token", ctx, "k", l.Token() + 1, nil, mesh.ErrNotHeld},
		{"the token, of another key", ctx, "j", l.Token(), nil, mesh.ErrNotHeld},
	} {
		if got := n.Break(tt.ctx, tt.key, tt.token, tt.opts...); !errors.Is(got, tt.want) {
			t.Errorf("%s: %v, want %v", tt.name, got, tt.want)
		}
	}
	if err := l.Err(); err != nil {
		t.Errorf("the lock: %v", err)
	}
	for _, n := range []*mesh.Node{nil, {}} {
		if got := n.Break(ctx, "k", 1); !errors.Is(got, mesh.ErrClosed) {
			t.Errorf("a zero node: %v", got)
		}
	}
	wait, cancelBreak := context.WithTimeout(ctx, 100*time.Millisecond)
	defer cancelBreak()
	if got := n.Break(wait, "k", l.Token(), mesh.Because("it hangs")); !errors.Is(got, mesh.ErrUnconfirmed) || !errors.Is(got, context.DeadlineExceeded) {
		t.Errorf("the holder does not unlock: %v", got)
	}
	if err := l.Err(); !errors.Is(err, mesh.ErrBroken) || !errors.Is(err, mesh.ErrLost) {
		t.Errorf("the lock: %v", err)
	}
}

// Promise: P49: whatever holds a key can be broken: its context ends with ErrBroken, and the key is free when its holder gives it back.
func TestWhatCanBeBroken(t *testing.T) {
	n, err := mesh.Solo()
	if err != nil {
		t.Fatal(err)
	}
	defer n.Close()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	breaks := func(key string, token uint64) <-chan error {
		done := make(chan error, 1)
		go func() { done <- n.Break(ctx, key, token) }()
		return done
	}
	check := func(what string, got, want error) {
		t.Helper()
		if !errors.Is(got, want) || want == nil && got != nil {
			t.Errorf("%s: %v, want %v", what, got, want)
		}
	}
	broken := func(what, key string, token uint64, held context.Context, gives func() error) {
		t.Helper()
		done := breaks(key, token)
		select {
		case <-held.Done():
			check(what+": the cause", context.Cause(held), mesh.ErrBroken)
		case <-ctx.Done():
			t.Fatalf("%s is not told", what)
		}
		check(what+": to give it back", gives(), mesh.ErrBroken)
		check(what+": Break", <-done, nil)
	}
	reader, err := n.RLock(ctx, "read")
	check("RLock", err, nil)
	other, err := n.RLock(ctx, "read")
	check("RLock", err, nil)
	broken("a reader", "read", reader.Token(), reader.Context(), func() error { return reader.Unlock(ctx) })
	check("another reader", other.Err(), nil)

	permits, err := n.Acquire(ctx, "permits", 2, 3)
	check("Acquire", err, nil)
	more, err := n.Acquire(ctx, "permits", 1, 3)
	check("Acquire", err, nil)
	broken("permits", "permits", permits.Token(), permits.Context(), func() error { return permits.Unlock(ctx) })
	check("other permits", more.Err(), nil)

	outer, err := n.Lock(ctx, "nested", mesh.Reentrant())
	check("Lock", err, nil)
	inner, err := n.Lock(outer.Context(), "nested", mesh.Reentrant())
	check("Lock", err, nil)
	broken("a lock that is entered twice", "nested", inner.Token(), inner.Context(), func() error { return errors.Join(inner.Unlock(ctx), outer.Unlock(ctx)) })

	op, err := n.Resource("thing").Begin(ctx, mesh.OpUpdate)
	check("Begin", err, nil)
	broken("an operation", "thing", op.Token(), op.Context(), func() error { return op.End(ctx, nil) })
	op, err = n.Resource("thing").Begin(ctx, mesh.OpUpdate)
	check("Begin", err, nil)
	if op.Skipped() {
		t.Error("what was broken counts as done")
	}
	check("End", op.End(ctx, nil), nil)

	p, err := n.Barrier("meet", 1).Enter(ctx)
	check("Enter", err, nil)
	broken("a passage", "meet", p.Token(), p.Context(), func() error { return p.Leave(ctx) })

	set, err := n.LockAll(ctx, []string{"x", "y"})
	check("LockAll", err, nil)
	broken("one of a set", "y", set.Lock("y").Token(), set.Context(), func() error { return errors.Join(set.Err(), set.Lock("y").Unlock(ctx)) })
	check("the other one", set.Lock("x").Err(), nil)
	check("Unlock", set.Unlock(ctx), mesh.ErrBroken)

	terms := 0
	check("Lead", n.Election("boss").Lead(ctx, nil, func(ctx context.Context, l *mesh.Leadership) error {
		if terms++; terms > 1 {
			return nil
		}
		breaks("boss", l.Token())
		<-ctx.Done()
		check("a leadership", context.Cause(ctx), mesh.ErrBroken)
		return nil
	}), nil)
	if terms != 2 {
		t.Errorf("it led %d times", terms)
	}
	check("Do", n.Do(ctx, "do", func(ctx context.Context, l *mesh.Lock) error {
		breaks("do", l.Token())
		<-ctx.Done()
		return nil
	}), mesh.ErrBroken)
}
