package mesh_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/lockmesh/mesh"
	"github.com/lockmesh/mesh/meshtest"
)

// Promise: P50: two nodes whose callers wait for each other: one of them gives up, and what it holds stays held until it unlocks it.
func TestTwoNodesInACircle(t *testing.T) {
	fleet := meshtest.Fleet(t, 3, mesh.WithLeaseTTL(time.Second))
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	one, other := fleet.Node(0), fleet.Node(1)
	a, err := one.Lock(ctx, "a")
	if err != nil {
		t.Fatal(err)
	}
	b, err := other.Lock(ctx, "b")
	if err != nil {
		t.Fatal(err)
	}
	type outcome struct {
		l   *mesh.Lock
		err error
	}
	results := make(chan outcome)
	go func() {
		l, err := other.Lock(b.WithContext(ctx), "a")
		results <- outcome{l, err}
	}()
	_, err = one.Lock(a.WithContext(ctx), "b", mesh.DetectDeadlock())
	var d *mesh.DeadlockError
	if !errors.Is(err, mesh.ErrDeadlock) || !errors.As(err, &d) || len(d.Circle) != 2 || d.Circle[0] != (mesh.DeadlockedCall{Node: one.Name(), Key: "b", Token: b.Token()}) ||
		d.Circle[1] != (mesh.DeadlockedCall{Node: other.Name(), Key: "a", Token: a.Token()}) {
		t.Fatalf("%v", err)
	}
	if a.Err() != nil {
		t.Errorf("what it holds: %v", a.Err())
	}
	if err := a.Unlock(ctx); err != nil {
		t.Error(err)
	}
	r := <-results
	if r.err != nil || r.l.Token() <= a.Token() {
		t.Errorf("the other one: %v", r.err)
	}
	if err := r.l.Unlock(ctx); err != nil {
		t.Error(err)
	}
}

// An option without effect is none that fails, and the error says what is in the way.
func TestDetectDeadlockWhereNobodyWaits(t *testing.T) {
	node, err := mesh.Solo()
	if err != nil {
		t.Fatal(err)
	}
	defer node.Close()
	ctx := t.Context()
	l, err := node.TryLock(ctx, "k", mesh.DetectDeadlock())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := node.Lock(l.WithContext(ctx), "k", mesh.Reentrant(), mesh.DetectDeadlock()); err != nil {
		t.Error(err)
	}
	if _, err := node.Lock(l.WithContext(ctx), "k", mesh.DetectDeadlock()); !errors.Is(err, mesh.ErrSelfDeadlock) || errors.Is(err, mesh.ErrDeadlock) {
		t.Errorf("%v", err)
	}
	calls := make([]mesh.DeadlockedCall, 6)
	for i := range calls {
		calls[i] = mesh.DeadlockedCall{Node: "n", Key: strings.Repeat("ä", 40), Token: 7}
	}
	e := &mesh.DeadlockError{Circle: calls}
	if text := e.Error(); !strings.HasSuffix(text, ", and so on, 6 in a circle") || len(text) > 600 {
		t.Errorf("%s", text)
	}
}
