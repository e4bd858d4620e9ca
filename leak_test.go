package mesh

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// All goroutines that a node started end with it, whichever way it ends.
func TestNothingIsLeftBehind(t *testing.T) {
	others := goleak.IgnoreCurrent()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	a := join(t, nil, WithName("a"), WithShards(8))
	b := join(t, []string{a.Addr()}, WithName("b")) // clients of it
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
	// A failed Join leaves nothing either.
	short, stop := context.WithTimeout(ctx, 100*time.Millisecond)
	defer stop()
	if _, err := JoinContext(short, []string{"127.0.0.1:1"}, quiet()...); err == nil {
		t.Error("Join without a mesh = nil")
	}
	cancel()
	goleak.VerifyNone(t, others)
}

// collected runs the garbage collector until told returns true.
func collected(t *testing.T, told func() bool) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); !told(); runtime.GC() {
		if time.Now().After(deadline) {
			t.Fatal("no report of a dropped lock by the garbage collector")
		}
		runtime.Gosched()
	}
}

// A node logs to its WithLogger. It warns there of each lock that the program dropped, and does not
// release it.
func TestADroppedLockIsReportedAndNotReleased(t *testing.T) {
	log := &page{}
	n := join(t, nil, WithName("one"), WithLogger(slog.New(slog.NewTextHandler(log, nil))))
	ctx := context.Background()
	unlocked := mustLock(t, n, ctx, "unlocked")
	unlocked.Context()
	unlocked.Unlock(ctx)
	var lines []int
	func() { // so that nothing on this frame refers to the locks
		_, _, line, _ := runtime.Caller(0)
		l, _ := n.Lock(ctx, "dropped") // line + 1
		l.Context()
		n.RLock(ctx, "dropped/read")                           // line + 3
		n.session().TryAcquire(ctx, "dropped/semaphore", 1, 2) // line + 4
		lines = append(lines, line+1, line+3, line+4)
	}()
	collected(t, func() bool { return strings.Count(log.String(), "a lock was dropped") == 3 })
	text := log.String()
	_, file, _, _ := runtime.Caller(0)
	for i, key := range []string{"dropped", "dropped/read", "dropped/semaphore"} {
		line := fmt.Sprintf("taken.line=%d", lines[i])
		found := false
		for _, s := range strings.Split(text, "\n") {
			found = found || strings.Contains(s, "node=one key="+key+" ") && strings.Contains(s, line) && strings.Contains(s, filepath.Base(file))
		}
		if !found {
			t.Errorf("no line for key %s with %s in\n%s", key, line, text)
		}
		if _, err := n.TryLock(ctx, key); err == nil || errors.Is(err, ErrSelfDeadlock) {
			t.Errorf("TryLock(%q) = %v: what was dropped was released", key, err)
		}
	}
	if !strings.Contains(text, "the mesh is founded") || strings.Contains(text, "key=unlocked") {
		t.Errorf("the log is\n%s", text)
	}
}

// A lock with MaxHold that the program drops ends by itself, as requested, so it is not logged, and
// its end does not count as a loss. Leave does not wait for it, since the program can no longer
// unlock it; but it waits if another handle shares the lock, or if a context or channel may still
// show its end.
func TestADroppedLockOfFixedLengthIsForsaken(t *testing.T) {
	log := &page{}
	n := join(t, nil, WithMaxTTL(time.Hour), WithLogger(slog.New(slog.NewTextHandler(log, nil))))
	ctx := context.Background()
	var sessions []*Session
	for range 2 {
		s, err := n.NewSession(ctx)
		if err != nil {
			t.Fatal(err)
		}
		sessions = append(sessions, s)
	}
	early, late := sessions[0], sessions[1] // when they are closed
	grants := make(map[string]*grant)
	take := func(s locker, key string) *Lock {
		l := mustLock(t, s, ctx, key, MaxHold(time.Hour))
		grants[key] = l.grant
		return l
	}
	kept := take(n, "kept")
	func() { // so that nothing on this frame refers to the other locks
		take(late, "watched").Context()
		take(late, "heard of").Lost()
		take(early, "over")
		mustLock(t, n, kept.WithContext(ctx), "kept", Reentrant()) // kept shares it
		take(n, "dropped")
		if err := early.Close(ctx); err != nil {
			t.Fatal(err)
		}
	}()
	forsaken := func(key string) bool {
		g := grants[key]
		g.mu.Lock()
		defer g.mu.Unlock()
		return g.entries == 0
	}
	collected(t, func() bool { return forsaken("dropped") })
	func() { mustLock(t, late, ctx, "logged") }()
	collected(t, func() bool { return strings.Contains(log.String(), "a lock was dropped") })
	for key := range grants {
		if forsaken(key) != (key == "dropped") {
			t.Errorf("%s: forsaken %v", key, forsaken(key))
		}
	}
	if text := log.String(); strings.Count(text, "a lock was dropped") != 1 || !strings.Contains(text, "key=logged") {
		t.Errorf("logged:\n%s", text)
	}
	if _, err := n.TryLock(ctx, "dropped"); !errors.Is(err, ErrLocked) {
		t.Errorf("TryLock = %v, want ErrLocked", err)
	}
	if err := errors.Join(kept.Unlock(ctx), late.Close(ctx)); err != nil {
		t.Error(err)
	}
	start := time.Now()
	if err := n.Leave(ctx); err != nil {
		t.Errorf("Leave = %v", err)
	}
	if d := time.Since(start); d > 10*time.Second {
		t.Errorf("Leave took %v", d)
	}
	if s := n.Stats(); s.Losses > 0 {
		t.Errorf("%d losses", s.Losses)
	}
}
