package bubble

import (
	"context"
	"math/rand/v2"
	"net"
	"sync"
	"time"

	"github.com/lockmesh/mesh/internal/env"
	"github.com/lockmesh/mesh/internal/realenv"
)

// hostEnv is what a node on a host is born into: the real world, goroutines and
// gossip included, by the bubble's clock and over its network.
type hostEnv struct {
	*realenv.Env

	mu    sync.Mutex
	seeds *rand.Rand
}

func newEnv(p *process) env.Env {
	g := p.bubble.gate
	began := g.now() - time.Duration(g.chance.Int64N(int64(time.Hour))) // of no meaning outside of the process
	now := func() time.Duration { return g.now() - began }
	return &hostEnv{
		Env:   realenv.Over(sockets{p}, now, nil),
		seeds: rand.New(rand.NewPCG(g.chance.Uint64(), g.chance.Uint64())),
	}
}

// Seed implements env.Env.
func (w *hostEnv) Seed() uint64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.seeds.Uint64() | 1
}

// sockets implements transport.Sockets.
type sockets struct{ process *process }

func (s sockets) Listen(addr string) (net.Listener, error) {
	return s.process.listen(s.process.kernel, s.process.kernel.ctx, addr)
}

func (s sockets) Dial(ctx context.Context, addr string) (net.Conn, error) {
	return s.process.dial(s.process.kernel, ctx, addr)
}
