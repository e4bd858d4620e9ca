package mesh

import (
	"context"
	"errors"
	"log/slog"
	"runtime"
	"strings"
	"sync/atomic"
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

// A lock with MaxHold that the program drops ends by itself, as requested, so it is not logged.
// The node is told that the program can no longer unlock it, except if another handle shares it,
// or if a context or channel may still show its end.
func TestADroppedLockOfFixedLengthIsForsaken(t *testing.T) {
	s, fake := newFakeSession(t)
	log := &page{}
	s.config.log, s.config.reportDropped = slog.New(slog.NewTextHandler(log, nil)), true
	ctx := context.Background()
	func() { // so that nothing on this frame refers to the locks
		mustLock(t, s, ctx, "watched", MaxHold(time.Second)).Context()
		mustLock(t, s, ctx, "heard of", MaxHold(time.Second)).Lost()
	}()
	func() {
		mustLock(t, s, ctx, "over", MaxHold(time.Second))
		fake.holds[2].lose()
	}()
	kept := mustLock(t, s, ctx, "kept", MaxHold(time.Second))
	func() {
		mustLock(t, s, kept.WithContext(ctx), "kept", Reentrant()) // kept shares it
	}()
	func() {
		mustLock(t, s, ctx, "dropped", MaxHold(time.Second))
	}()
	collected(t, fake.holds[4].forsaken.Load)
	func() { mustLock(t, s, ctx, "logged") }()
	collected(t, func() bool { return log.String() != "" })
	for i, h := range fake.holds {
		if h.forsaken.Load() != (i == 4) || h.releases > 0 {
			t.Errorf("hold %d: forsaken %v, released %d times", i, h.forsaken.Load(), h.releases)
		}
	}
	if text := log.String(); strings.Count(text, "\n") != 1 || !strings.Contains(text, "key=logged") {
		t.Errorf("logged:\n%s", text)
	}
	if err := kept.Unlock(ctx); err != nil {
		t.Error(err)
	}
}

// A node logs to its WithLogger, including the warning of a dropped lock.
func TestWhereANodeLogs(t *testing.T) {
	log := &page{}
	n, err := Join(nil, WithName("one"), WithLogger(slog.New(slog.NewTextHandler(log, nil))))
	if err != nil {
		t.Fatal(err)
	}
	defer n.Close()
	func() { // so that nothing on this frame refers to the lock
		if _, err := n.Lock(context.Background(), "k"); err != nil {
			t.Fatal(err)
		}
	}()
	collected(t, func() bool { return strings.Contains(log.String(), "a lock was dropped") })
	text := log.String()
	_, dropped, _ := strings.Cut(text, "a lock was dropped")
	if !strings.Contains(text, "founded a mesh of one") || !strings.Contains(dropped, "node=one key=k") {
		t.Errorf("the log is\n%s", text)
	}
}

// forsaken is a hold that records a call of Forsake.
type forsaken struct {
	hold
	told atomic.Bool
}

func (f *forsaken) Forsake() {
	f.hold.Forsake()
	f.told.Store(true)
}

// Leave does not wait for a lock that the program can no longer unlock. The lock ends by its
// MaxHold, which does not count as a loss.
func TestLeaveDoesNotWaitForWhatNobodyHas(t *testing.T) {
	n := join(t, nil, WithMaxTTL(time.Hour))
	defer n.Close()
	ctx := context.Background()
	told := &forsaken{}
	func() { // so that nothing on this frame refers to the lock
		l, err := n.Lock(ctx, "k", MaxHold(time.Hour))
		if err != nil {
			t.Fatal(err)
		}
		told.hold, l.grant.hold = l.grant.hold, told
	}()
	collected(t, told.told.Load)
	if _, err := n.TryLock(ctx, "k"); !errors.Is(err, ErrLocked) {
		t.Errorf("TryLock = %v, want ErrLocked", err)
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
