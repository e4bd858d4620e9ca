package gossip_test

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"sync"
	"testing"
	"time"

	"github.com/lockmesh/mesh"
)

const ttl = 3 * time.Second

// join starts a node on the host of ctx.
func join(t *testing.T, ctx context.Context, name string) *mesh.Node {
	n, err := mesh.JoinContext(ctx, []string{"a:7300", "b:7300", "c:7300"},
		mesh.WithName(name), mesh.WithBind(":7300"), mesh.WithLeaseTTL(ttl), mesh.WithMaxTTL(ttl), mesh.WithLogger(slog.New(slog.DiscardHandler)))
	if err != nil {
		t.Errorf("%s: %v", name, err)
		return nil
	}
	return n
}

// shift records which workers of a mesh work.
type shift struct {
	sync.Mutex
	working string
	worked  map[string]int
	lost    int
}

func (s *shift) begins(t *testing.T, b *bubble, name string) {
	s.Lock()
	defer s.Unlock()
	if s.working != "" {
		t.Errorf("at %v %s works beside %s", b.Now(), name, s.working)
	}
	s.working = name
}

func (s *shift) ends(name string, lost bool) {
	s.Lock()
	defer s.Unlock()
	s.working = ""
	if lost {
		s.lost++
	} else {
		s.worked[name]++
	}
}

func (s *shift) now() (working string, worked map[string]int, lost int) {
	s.Lock()
	defer s.Unlock()
	return s.working, maps.Clone(s.worked), s.lost
}

// Workers with goroutines and channels of their own share work by locks of a real mesh. One of them is cut
// off while it works, and no two of them ever work at the same time.
func TestAMeshInABubble(t *testing.T) {
	inBubble(t, 1, func(b *bubble) {
		s := &shift{worked: make(map[string]int)}
		for _, name := range []string{"a", "b", "c"} {
			b.host(name).run(func(ctx context.Context) {
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
					s.begins(t, b, name)
					select {
					case <-time.After(ttl + time.Second):
					case <-l.Context().Done():
					}
					s.ends(name, l.Context().Err() != nil)
					_ = l.Unlock(ctx) // fails if the lock was lost
				}
			})
		}
		time.Sleep(40 * time.Second)
		// The cut comes when a has just begun: work that is about to end outlives no lease.
		for _, begun := range []bool{false, true} {
			for working, _, _ := s.now(); (working == "a") != begun && b.Now() < time.Minute; working, _, _ = s.now() {
				time.Sleep(100 * time.Millisecond)
			}
		}
		_, before, _ := s.now()
		b.Partition([]string{"a"})
		time.Sleep(30 * time.Second)
		_, cut, lost := s.now()
		if lost != 1 || cut["a"] != before["a"] || cut["b"] == before["b"] || cut["c"] == before["c"] {
			t.Errorf("worked %v before a was cut off and %v after it, and lost %d leases, want 1", before, cut, lost)
		}
		b.Heal()
		time.Sleep(50 * time.Second)
		_, healed, lost := s.now()
		if lost != 1 || healed["a"] <= cut["a"] || healed["b"] <= cut["b"] || healed["c"] <= cut["c"] {
			t.Errorf("worked %v before the cut was healed and %v after it, and lost %d leases, want 1", cut, healed, lost)
		}
		t.Logf("worked %v, %d leases lost, %v of virtual time", healed, lost, b.Now())
	})
}

// A node is killed, and the others go on; then it comes back.
func TestAMeshSurvivesACrash(t *testing.T) {
	inBubble(t, 2, func(b *bubble) {
		var mu sync.Mutex
		tokens := make(map[string]uint64)
		now := func() map[string]uint64 {
			mu.Lock()
			defer mu.Unlock()
			return maps.Clone(tokens)
		}
		for _, name := range []string{"a", "b", "c"} {
			b.host(name).boot(func(ctx context.Context) {
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
					mu.Lock()
					tokens[name] = l.Token()
					mu.Unlock()
					_ = l.Unlock(ctx)
					if sleep(ctx, time.Second) != nil {
						return
					}
				}
			})
		}
		time.Sleep(30 * time.Second)
		b.Crash("c")
		time.Sleep(10 * time.Second)
		crashed := now()
		if crashed["c"] == 0 || crashed["a"] <= crashed["c"] {
			t.Errorf("the tokens are %v after the crash of c", crashed)
		}
		b.Restart("c")
		time.Sleep(30 * time.Second)
		if back := now(); back["c"] <= crashed["a"] {
			t.Errorf("the tokens are %v after the return of c", back)
		}
	})
}
