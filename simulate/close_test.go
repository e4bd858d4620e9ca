package simulate

import (
	"context"
	"strings"
	"testing"
	"time"
)

// A panic of a deferred call is a failure, also when the world is closed.
func TestPanicAtClose(t *testing.T) {
	o := Play(Options{}, func(w *World) error {
		w.Host("a").Go("x", func(ctx context.Context) {
			defer func() { panic("oh no") }()
			_ = Sleep(ctx, time.Hour)
		})
		return w.Run(2 * time.Second)
	})
	if o.Err == nil || !strings.Contains(o.Err.Error(), "oh no") {
		t.Errorf("Play returns %v", o.Err)
	}
}

// The watchdog names an actor whose deferred call blocks when the world is closed.
func TestTheWatchdogSeesTheEnd(t *testing.T) {
	free, said := make(chan struct{}), make(chan string, 9)
	w := New(Options{Stalled: func(report string) {
		said <- report
		close(free)
	}})
	w.dog.limit = 200 * time.Millisecond
	w.Host("a").Go("x", func(ctx context.Context) {
		defer func() { <-free }()
		_ = Sleep(ctx, time.Hour)
	})
	_ = w.Run(time.Second)
	closed := make(chan struct{})
	go func() { w.Close(); close(closed) }()
	select {
	case <-closed:
	case <-time.After(3 * time.Second):
		close(free)
		t.Fatal("nobody says anything")
	}
	if report := <-said; !strings.Contains(report, "actor a/x does not go on") {
		t.Error(report)
	}
}
