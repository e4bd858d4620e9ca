package mesh

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// Promise: C1: fifty clients that open no port lock over loopback while the leaders of shards go, one after the other.
// Each has three connections.
func TestFiftyClients(t *testing.T) {
	const clients = 50
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	defer cancel()
	list := listed(t, 3)
	core := coreOf(t, ctx, list, func(i int) []Option { return []Option{WithName(string(rune('a' + i)))} })
	before := runtime.NumGoroutine()
	nodes := make([]*Node, clients)
	var joining sync.WaitGroup
	for i := range nodes {
		joining.Go(func() {
			n, err := JoinContext(ctx, list, WithClientOnly(), WithLogger(core[0].config.log))
			if err != nil {
				t.Error(err)
				return
			}
			nodes[i] = n
		})
	}
	joining.Wait()
	if t.Failed() {
		return
	}
	for _, n := range nodes {
		defer n.Close()
		if n.Addr() != "" || !strings.HasPrefix(n.Name(), "client-") || len(n.Members()) != 4 {
			t.Errorf("%q at %q knows %d members", n.Name(), n.Addr(), len(n.Members()))
		}
	}
	for len(core[0].Members()) != 3+clients {
		if err := core[0].WaitHealthy(ctx); err != nil {
			t.Fatalf("a node of the core knows %d members: %v", len(core[0].Members()), err)
		}
	}
	// Both ends are in this process: a client's own, and two for each connection at the other end.
	t.Logf("%.1f goroutines for a client, those of the core among them", float64(runtime.NumGoroutine()-before)/clients)

	var count atomic.Int64
	stop := make(chan struct{})
	var working sync.WaitGroup
	for i, n := range nodes {
		working.Go(func() {
			for round := 0; ; round++ {
				select {
				case <-stop:
					return
				default:
				}
				if err := n.Do(ctx, fmt.Sprint("k", (i+round)%3), func(context.Context, *Lock) error { return nil }); err != nil {
					t.Error(err)
					return
				}
				if err := n.Do(ctx, "all", func(context.Context, *Lock) error { count.Add(1); return nil }); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	for i, addr := range list {
		if err := core[i].WaitHealthy(ctx); err != nil {
			t.Error(err)
		}
		if err := core[i].Close(); err != nil {
			t.Error(err)
		}
		n, err := JoinContext(ctx, list, quiet(WithName(string(rune('a'+i))), WithBind(addr))...)
		if err != nil {
			t.Fatal(err)
		}
		defer n.Close()
		if err := n.WaitHealthy(ctx); err != nil {
			t.Error(err)
		}
	}
	close(stop)
	working.Wait()
	if count.Load() == 0 {
		t.Error("nobody worked")
	}
	if err := nodes[0].Leave(ctx); err != nil {
		t.Errorf("Leave = %v", err)
	}
}

// Promise: C1, P30: what makes no sense for a client is refused, and its name may be taken by another client.
func TestClientOnly(t *testing.T) {
	t.Parallel() // it waits for real time
	for _, opts := range [][]Option{
		{WithClientOnly(), WithBind("127.0.0.1:0")},
		{WithAdvertise("10.0.0.1:7300"), WithClientOnly()},
		{WithClientOnly(), WithFound()},
	} {
		if _, err := Join([]string{"127.0.0.1:1"}, opts...); !errors.Is(err, ErrInvalidOption) || !strings.Contains(err.Error(), "opens no port") {
			t.Errorf("Join = %v, want ErrInvalidOption", err)
		}
	}
	if _, err := Join(nil, WithClientOnly()); !errors.Is(err, ErrNoSeeds) {
		t.Errorf("Join without seeds = %v, want ErrNoSeeds", err)
	}
	if _, err := Solo(WithClientOnly()); !errors.Is(err, ErrInvalidOption) {
		t.Errorf("Solo = %v, want ErrInvalidOption", err)
	}
	core := join(t, nil, WithName("core"))
	client := func(name string) (*Node, error) {
		return Join([]string{core.Addr()}, WithClientOnly(), WithName(name), WithZone("z"), WithLogger(core.config.log))
	}
	found, err := Join(nil, WithClientOnly(), WithDiscovery(func(context.Context) ([]string, error) { return []string{core.Addr()}, nil }), WithLogger(core.config.log))
	if err != nil {
		t.Fatalf("with WithDiscovery beside it: %v", err)
	}
	if found.Close(); found.Addr() != "" {
		t.Errorf("with WithDiscovery beside it, the node listens at %q", found.Addr())
	}
	first, err := client("same")
	if err != nil {
		t.Fatal(err)
	}
	defer first.Close()
	for _, name := range []string{"same", "core"} {
		if n, err := client(name); !errors.Is(err, ErrNameTaken) {
			t.Errorf("Join under the name %q = %v, want ErrNameTaken", name, err)
			if n != nil {
				n.Close()
			}
		}
	}
	if err := first.Close(); err != nil {
		t.Error(err)
	}
	again, err := client("same")
	if err != nil {
		t.Fatalf("Join under the name of a client that was closed = %v", err)
	}
	again.Close()
}
