package bubble_test

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/lockmesh/mesh"
	"github.com/lockmesh/mesh/simulate/bubble"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const ttl = 3 * time.Second

// join makes a node on the host of ctx.
func join(t *testing.T, ctx context.Context, name string) *mesh.Node {
	n, err := mesh.JoinContext(ctx, []string{"a:7300", "b:7300", "c:7300"},
		mesh.WithName(name), mesh.WithBind(":7300"), mesh.WithLeaseTTL(ttl), mesh.WithLogger(slog.New(slog.DiscardHandler)))
	if err != nil {
		t.Errorf("%s: %v", name, err)
		return nil
	}
	return n
}

// Workers with goroutines and channels of their own share work by locks of a real mesh,
// one of them is cut off in the middle of it, and nobody ever works beside somebody else.
func TestAMeshInABubble(t *testing.T) {
	bubble.Test(t, 1, func(b *bubble.Bubble) {
		working, worked, lost := "", make(map[string]int), 0
		for _, name := range []string{"a", "b", "c"} {
			b.Host(name).Go("worker", func(ctx context.Context) {
				n := join(t, ctx, name)
				if n == nil {
					return
				}
				defer n.Close()
				for ctx.Err() == nil { // as long as the others: the last one would have no majority
					l, err := n.Lock(ctx, "work")
					if err != nil {
						if ctx.Err() == nil && !errors.Is(err, mesh.ErrLost) {
							t.Errorf("%s: %v", name, err)
						}
						continue
					}
					bubble.Sleep(ctx, 0) // takes turns with those who share what follows
					if working != "" {
						t.Errorf("at %v %s works beside %s", b.Now(), name, working)
					}
					working = name
					done := make(chan struct{})
					go func() {
						defer close(done)
						select {
						case <-time.After(ttl + time.Second):
						case <-l.Context().Done():
						}
					}()
					<-done
					bubble.Sleep(ctx, 0)
					working = ""
					if l.Context().Err() != nil {
						lost++
					} else {
						worked[name]++
					}
					_ = l.Unlock(ctx) // which fails if it was lost
				}
			})
		}
		b.Sleep(40 * time.Second)
		for working != "a" && b.Now() < time.Minute {
			b.Sleep(100 * time.Millisecond)
		}
		before := maps.Clone(worked)
		b.Isolate("a")
		b.Sleep(30 * time.Second)
		cut := maps.Clone(worked)
		if lost != 1 || cut["a"] != before["a"] || cut["b"] == before["b"] || cut["c"] == before["c"] {
			t.Errorf("worked %v before a was cut off and %v after it, and lost %d leases, want 1", before, cut, lost)
		}
		b.Heal()
		b.Sleep(50 * time.Second)
		if lost != 1 || worked["a"] <= cut["a"] || worked["b"] <= cut["b"] || worked["c"] <= cut["c"] {
			t.Errorf("worked %v before the cut was healed and %v after it, and lost %d leases, want 1", cut, worked, lost)
		}
		t.Logf("worked %v, %d leases lost, %v of virtual time, %d events", worked, lost, b.Now(), b.Events())
	})
}

// A node that is killed comes back, and the others have gone on.
func TestAMeshSurvivesACrash(t *testing.T) {
	bubble.Test(t, 2, func(b *bubble.Bubble) {
		tokens := make(map[string]uint64)
		for _, name := range []string{"a", "b", "c"} {
			b.Host(name).Boot("worker", func(ctx context.Context) {
				n := join(t, ctx, name)
				if n == nil {
					return
				}
				defer n.Close()
				for {
					l, err := n.Lock(ctx, "k")
					if err != nil {
						return // the host has crashed, or the test is over
					}
					tokens[name] = l.Token()
					_ = l.Unlock(ctx)
					if bubble.Sleep(ctx, time.Second) != nil {
						return
					}
				}
			})
		}
		b.Sleep(30 * time.Second)
		b.Crash("c")
		b.Sleep(10 * time.Second)
		gone, others := tokens["c"], tokens["a"]
		if gone == 0 || others <= gone {
			t.Errorf("the tokens are %v after the crash of c", tokens)
		}
		b.Restart("c")
		b.Sleep(30 * time.Second)
		if tokens["c"] <= others {
			t.Errorf("the tokens are %v after the return of c", tokens)
		}
	})
}
