package bubble_test

import (
	"context"
	"errors"
	"log/slog"
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
// one host is cut off for a while, and nobody ever works beside somebody else.
func TestAMeshInABubble(t *testing.T) {
	bubble.Test(t, 1, func(b *bubble.Bubble) {
		working, worked, lost := 0, make(map[string]int), 0
		var all []<-chan struct{}
		for _, name := range []string{"a", "b", "c"} {
			all = append(all, b.Host(name).Go("worker", func(ctx context.Context) {
				n := join(t, ctx, name)
				if n == nil {
					return
				}
				defer n.Close()
				for b.Now() < 2*time.Minute {
					l, err := n.Lock(ctx, "work")
					if err != nil {
						if !errors.Is(err, mesh.ErrLost) {
							t.Errorf("%s: %v", name, err)
						}
						continue
					}
					if working++; working != 1 {
						t.Errorf("at %v %d work", b.Now(), working)
					}
					done := make(chan struct{})
					go func() {
						defer close(done)
						select {
						case <-time.After(time.Second):
						case <-l.Context().Done():
						}
					}()
					<-done
					working--
					worked[name]++
					if l.Context().Err() != nil {
						lost++
					}
					_ = l.Unlock(ctx) // which fails if it was lost
				}
			}))
		}
		b.Sleep(40 * time.Second)
		before := worked["a"]
		b.Isolate("a")
		b.Sleep(30 * time.Second)
		if cut := worked["a"] - before; cut > 4 {
			t.Errorf("a worked %d times while it was cut off", cut)
		}
		b.Heal()
		for _, done := range all {
			<-done
		}
		if worked["a"] <= before+4 || worked["b"] < 10 || worked["c"] < 10 {
			t.Errorf("worked %v, and a %d times before the cut", worked, before)
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
