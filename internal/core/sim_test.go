package core_test

import (
	"context"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"testing"
	"time"

	"github.com/lockmesh/mesh/internal/core"
	"github.com/lockmesh/mesh/internal/seam"
	"github.com/lockmesh/mesh/simulate"
	"github.com/lockmesh/mesh/transport"
)

var (
	seedFlag = flag.Uint64("seed", 1, "seed")
	verbose  = flag.Bool("vv", false, "trace")
)

type client struct{ n *core.Node }

type handle struct {
	*core.Hold
	ctx context.Context
}

func (h handle) Context() context.Context { return h.ctx }

func (h handle) Unlock(ctx context.Context) error { return h.Release(ctx) }

func (c client) get(ctx context.Context, q core.Request) (simulate.Handle, error) {
	h, _, err := c.n.Session().Acquire(ctx, q)
	if err != nil {
		return nil, err
	}
	inner, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	h.OnEnd(func(cause error) { cancel(cause) })
	return handle{h, inner}, nil
}

func (c client) Lock(ctx context.Context, key string) (simulate.Handle, error) {
	return c.get(ctx, core.Request{Key: key})
}

func (c client) TryLock(ctx context.Context, key string) (simulate.Handle, error) {
	return c.get(ctx, core.Request{Key: key, Try: true})
}

func (c client) RLock(ctx context.Context, key string) (simulate.Handle, error) {
	return c.get(ctx, core.Request{Key: key, Mode: core.Shared})
}

func (c client) Acquire(ctx context.Context, key string, n, capacity int64) (simulate.Handle, error) {
	return c.get(ctx, core.Request{Key: key, Mode: core.Permits, Weight: n, Capacity: capacity})
}

func join(ctx context.Context, host string, seeds []string) (*core.Node, error) {
	out := io.Discard
	level := slog.LevelDebug
	if *verbose {
		out = os.Stderr
	}
	ctx, cancel := simulate.WithTimeout(ctx, 15*time.Second)
	defer cancel()
	return core.Start(ctx, core.Config{
		World: seam.FromContext(ctx), Seeds: seeds, Name: host, Shards: 8, Replicas: 3, LeaseTTL: 3 * time.Second,
		Transport: transport.Config{Bind: ":7400"},
		Logger:    slog.New(slog.NewTextHandler(out, &slog.HandlerOptions{Level: level})),
	})
}

func TestFirst(t *testing.T) {
	opts := simulate.Options{Seed: *seedFlag, Timeline: *verbose}
	w := simulate.New(opts)
	defer w.Close()
	seeds := []string{"a:7400", "b:7400", "c:7400"}
	done := 0
	for _, name := range []string{"a", "b", "c"} {
		w.Host(name).Go("main", func(ctx context.Context) {
			n, err := join(ctx, name, seeds)
			if err != nil {
				t.Errorf("%s: %v", name, err)
				return
			}
			fmt.Println(name, "joined at", w.Now())
			for i := range 5 {
				h, info, err := n.Session().Acquire(ctx, core.Request{Key: "k"})
				if err != nil {
					t.Errorf("%s: %v %v", name, err, info)
					return
				}
				fmt.Println(w.Now(), name, i, h.Token())
				simulate.Sleep(ctx, 10*time.Millisecond)
				if err := h.Release(ctx); err != nil {
					t.Errorf("release %v", err)
				}
			}
			done++
		})
	}
	if err := w.RunUntil(func() bool { return done == 3 }, 60*time.Second); err != nil {
		t.Fatal(err)
	}
}

func TestStorm(t *testing.T) {
	opts := simulate.RandomOptions(*seedFlag)
	opts.Timeline = *verbose
	w := simulate.New(opts)
	defer w.Close()
	var seeds []string
	for _, name := range []string{"a", "b", "c", "d", "e"} {
		w.Host(name)
		seeds = append(seeds, name+":7400")
	}
	l := &simulate.Lockers{TTL: 3 * time.Second, Join: func(ctx context.Context, host string) (simulate.Client, error) {
		n, err := join(ctx, host, seeds)
		if err != nil {
			return nil, err
		}
		return client{n}, nil
	}}
	start := time.Now()
	err := l.Run(w, simulate.ChaosOptions{For: 20 * time.Second})
	fmt.Println("grants", l.Grants(), "events", w.Events(), "sim", w.Now(), "real", time.Since(start))
	if err != nil {
		t.Fatal(err)
	}
}
