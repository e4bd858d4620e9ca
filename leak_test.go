package mesh

import (
	"context"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// What a node started ends with it, whichever way it ends.
func TestNothingIsLeftBehind(t *testing.T) {
	others := goleak.IgnoreCurrent()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	a := join(t, nil, WithName("a"), WithShards(8))
	b := join(t, []string{a.Addr()}, WithName("b"))
	c := join(t, []string{a.Addr()}, WithName("c"))
	for _, n := range []*Node{a, b, c} {
		if err := n.WaitHealthy(ctx); err != nil {
			t.Fatal(err)
		}
	}
	// One leaves, one is closed while a call waits, one is closed idle.
	if err := b.Leave(ctx); err != nil {
		t.Errorf("Leave = %v", err)
	}
	if err := a.WaitHealthy(ctx); err != nil {
		t.Fatal(err)
	}
	l, err := a.Lock(ctx, "k")
	if err != nil {
		t.Fatal(err)
	}
	derived := l.WithContext(ctx)
	asked := a.Stats().Acquires
	ends := make(chan error)
	go func() {
		_, err := a.Lock(ctx, "k")
		ends <- err
	}()
	for a.Stats().Acquires == asked {
		if err := a.WaitHealthy(ctx); err != nil {
			t.Fatal(err)
		}
	}
	if err := a.Close(); err != nil {
		t.Error(err)
	}
	if err := <-ends; err == nil {
		t.Error("a call outlived its node")
	}
	if derived.Err() == nil || l.Context().Err() == nil {
		t.Error("a hold outlived its node")
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	// A Join that fails leaves nothing either.
	short, stop := context.WithTimeout(ctx, 100*time.Millisecond)
	defer stop()
	if _, err := JoinContext(short, []string{"127.0.0.1:1"}, quiet()...); err == nil {
		t.Error("joined nobody")
	}
	cancel()
	goleak.VerifyNone(t, others)
}
