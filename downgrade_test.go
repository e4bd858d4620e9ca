package mesh_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/lockmesh/mesh"
	"github.com/lockmesh/mesh/simulate"
)

// Promise: a writer becomes a reader under the same token, and what may not be downgraded is an error that changes nothing.
func TestDowngrade(t *testing.T) {
	n, err := mesh.Solo()
	if err != nil {
		t.Fatal(err)
	}
	defer n.Close()
	ctx := context.Background()
	l, err := n.Lock(ctx, "k")
	if err != nil {
		t.Fatal(err)
	}
	held := l.Context()
	entered, err := n.Lock(held, "k", mesh.Reentrant())
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range []*mesh.Lock{l, entered} {
		if _, err := l.Downgrade(ctx); !errors.Is(err, mesh.ErrInvalidOption) || l.Err() != nil || held.Err() != nil {
			t.Errorf("a lock that is entered twice: %v, and it is %v", err, l.Err())
		}
	}
	if err := entered.Unlock(ctx); err != nil {
		t.Error(err)
	}
	reader, err := l.Downgrade(ctx)
	if err != nil || reader.Err() != nil || reader.Token() != l.Token() || reader.Key() != "k" {
		t.Fatalf("Downgrade = %v, %v", reader, err)
	}
	if l.Err() != mesh.ErrClosed || held.Err() == nil || context.Cause(held) != context.Canceled || l.WithContext(ctx).Err() == nil {
		t.Errorf("the writer's lock is %v, and its context %v", l.Err(), context.Cause(held))
	}
	if l.Unlock(ctx) != mesh.ErrClosed || reader.Err() != nil {
		t.Errorf("Unlock of the writer's lock ends the reader's: %v", reader.Err())
	}
	if _, err := l.Downgrade(ctx); err != mesh.ErrClosed {
		t.Errorf("a second Downgrade: %v", err)
	}
	other, err := n.TryRLock(ctx, "k")
	if err != nil {
		t.Fatalf("another reader: %v", err)
	}
	if _, err := n.TryLock(ctx, "k"); !errors.Is(err, mesh.ErrLocked) {
		t.Errorf("another writer: %v", err)
	}
	if _, err := n.Lock(reader.Context(), "k", mesh.Reentrant()); !errors.Is(err, mesh.ErrUpgrade) {
		t.Errorf("a writer in the reader's context: %v", err)
	}
	again, err := n.RLock(reader.Context(), "k", mesh.Reentrant())
	if err != nil {
		t.Errorf("a reader in the reader's context: %v", err)
	}
	if _, err := reader.Downgrade(ctx); !errors.Is(err, mesh.ErrInvalidOption) || reader.Err() != nil {
		t.Errorf("a reader's Downgrade: %v", err)
	}
	if err := errors.Join(again.Unlock(ctx), reader.Unlock(ctx), other.Unlock(ctx)); err != nil {
		t.Error(err)
	}
	if l, err := n.TryLock(ctx, "k"); err != nil {
		t.Errorf("after all were unlocked: %v", err)
	} else {
		_ = l.Unlock(ctx)
	}
	p, err := n.Acquire(ctx, "s", 2, 3)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.Downgrade(ctx); !errors.Is(err, mesh.ErrInvalidOption) || p.Err() != nil {
		t.Errorf("permits: %v", err)
	}
	for _, zero := range []*mesh.Lock{nil, {}} {
		if _, err := zero.Downgrade(ctx); err != mesh.ErrClosed {
			t.Errorf("a zero lock: %v", err)
		}
	}
	var none context.Context
	if _, err := p.Downgrade(none); !errors.Is(err, mesh.ErrInvalidOption) {
		t.Errorf("no context: %v", err)
	}

	// The context may be the lock's own, and the lock of fixed length.
	l, err = n.Lock(ctx, "fixed", mesh.MaxHold(5*time.Second))
	if err != nil {
		t.Fatal(err)
	}
	if reader, err = l.Downgrade(l.Context()); err != nil || reader.Err() != nil {
		t.Fatalf("in its own context: %v", err)
	}
	if err := errors.Join(reader.Extend(ctx, time.Second), reader.Unlock(ctx)); err != nil {
		t.Error(err)
	}
	s, err := n.NewSession(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if l, err = s.Lock(ctx, "k"); err != nil {
		t.Fatal(err)
	}
	s.Abandon()
	if _, err := l.Downgrade(ctx); err != mesh.ErrLost {
		t.Errorf("a lock that was lost: %v", err)
	}
}

// Promise: P47: the writer has stopped before any reader gets in, and no writer comes between.
func TestReadersFollowAWriter(t *testing.T) {
	for seed := range fewer[uint64](3, 20) {
		w := newTrial(t, simulate.Options{Seed: seed}, 3*time.Second, 3)
		l := w.lock("a", "k")
		writes := l.Context()
		read := func(host string) func() {
			return w.begin(host, func(ctx context.Context, n *mesh.Node) {
				l, err := n.RLock(ctx, "k")
				if w.check(err); err != nil {
					return
				}
				if writes.Err() == nil {
					t.Errorf("seed %d: a reader is in, and the writer's context has not ended", seed)
				}
				_ = simulate.Sleep(ctx, 100*time.Millisecond)
				w.check(l.Unlock(ctx))
			})
		}
		b, c := read("b"), read("c")
		w.pass(100 * time.Millisecond)
		over := false
		writer := w.begin("b", func(ctx context.Context, n *mesh.Node) {
			l, err := n.Lock(ctx, "k")
			if w.check(err); err == nil {
				w.check(l.Unlock(ctx))
			}
			over = true
		})
		w.pass(100 * time.Millisecond)
		var reader *mesh.Lock
		w.at("a", func(ctx context.Context, n *mesh.Node) {
			var err error
			reader, err = l.Downgrade(ctx)
			w.check(err)
		})
		b()
		c()
		w.pass(time.Second)
		if over || reader.Err() != nil {
			t.Errorf("seed %d: the next writer is in: %v; and the first one's reader is %v", seed, over, reader.Err())
		}
		w.check(w.unlock("a", reader, time.Second))
		writer()
	}
}

// Promise: C8, P47: a Downgrade is under way when its shard loses its table. The next table knows a reader, and lets others in; and the
// Downgrade is confirmed by that one.
func TestADowngradeOutlivesItsShard(t *testing.T) {
	for seed := range fewer[uint64](3, 20) {
		for _, heard := range []bool{false, true} {
			w := newTrial(t, simulate.Options{Seed: seed}, 5*time.Second, 3)
			w.Host("x").Go("join", func(ctx context.Context) { w.nodes["x"] = joinClient(ctx, w) })
			w.until("a client has joined", time.Minute, func() bool { return w.nodes["x"] != nil })
			l := w.lock("x", "k")
			var reader *mesh.Lock
			var err error
			down := func(patience time.Duration) {
				w.at("x", func(ctx context.Context, n *mesh.Node) {
					ctx, cancel := simulate.WithTimeout(ctx, patience)
					defer cancel()
					reader, err = l.Downgrade(ctx)
				})
			}
			if heard {
				down(time.Second)
				w.check(err)
			} else {
				w.Net.Isolate("x")
				if down(100 * time.Millisecond); !errors.Is(err, mesh.ErrUnconfirmed) || reader == nil || reader.Err() != nil {
					t.Errorf("seed %d: while it is cut off: %v, %v", seed, reader, err)
				}
			}
			for _, host := range []string{"a", "b", "c"} {
				w.Host(host).Crash()
				w.Host(host).Restart()
				w.Host(host).Go("join", func(ctx context.Context) { w.join(ctx, host) })
			}
			w.Net.Heal()
			w.pass(10 * time.Second)
			if reader.Err() != nil {
				t.Errorf("seed %d: the reader is %v", seed, reader.Err())
			}
			w.at("b", func(ctx context.Context, n *mesh.Node) {
				l, err := n.TryRLock(ctx, "k")
				if w.check(err); err == nil {
					w.check(l.Unlock(ctx))
				}
			})
			if w.free("b", "k") {
				t.Errorf("seed %d: a writer is in beside the reader", seed)
			}
			w.check(w.unlock("x", reader, time.Second))
			if !w.free("b", "k") {
				t.Errorf("seed %d: the key is not free after all", seed)
			}
		}
	}
}

// Promise: P12, P47: a Downgrade that nobody waits for any more is repeated until it is confirmed.
func TestADowngradeIsRepeated(t *testing.T) {
	w := newTrial(t, simulate.Options{Seed: 1}, 5*time.Second, 3)
	key := w.ledBy("b")
	l := w.lock("a", key)
	w.Net.Isolate("a")
	var reader *mesh.Lock
	w.at("a", func(ctx context.Context, n *mesh.Node) {
		ctx, cancel := simulate.WithTimeout(ctx, 100*time.Millisecond)
		defer cancel()
		var err error
		if reader, err = l.Downgrade(ctx); !errors.Is(err, mesh.ErrUnconfirmed) {
			t.Errorf("while it is cut off: %v", err)
		}
	})
	w.pass(time.Second)
	w.Net.Heal()
	w.pass(2 * time.Second)
	w.at("c", func(ctx context.Context, n *mesh.Node) {
		l, err := n.TryRLock(ctx, key)
		if w.check(err); err == nil {
			w.check(l.Unlock(ctx))
		}
	})
	if reader.Err() != nil {
		t.Errorf("the reader is %v", reader.Err())
	}
	w.check(w.unlock("a", reader, time.Second))
}
