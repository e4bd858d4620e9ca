// Package realenv is the real environment of nodes: goroutines, clocks, TCP and gossip,
// behind the interface that the simulator implements, too.
package realenv

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"log/slog"
	"time"

	"github.com/lockmesh/mesh/gossip"
	"github.com/lockmesh/mesh/internal/env"
	"github.com/lockmesh/mesh/transport"
)

// Env implements env.Env. It has no goroutines of its own.
type Env struct {
	logger  *slog.Logger
	now     func() time.Duration
	sockets transport.Sockets // nil: TCP
}

var _ env.Env = (*Env)(nil)

// New returns the real world. What gossip logs goes to logger; nil logs nothing.
func New(logger *slog.Logger) *Env {
	if logger == nil {
		logger = slog.New(slog.DiscardHandler)
	}
	return &Env{logger: logger, now: newClock()}
}

// Over returns the real world over another network, and another clock, which must not
// go back.
func Over(sockets transport.Sockets, now func() time.Duration, logger *slog.Logger) *Env {
	w := New(logger)
	w.sockets, w.now = sockets, now
	return w
}

// Now implements env.Env. On Linux it is CLOCK_BOOTTIME, which runs while the
// machine sleeps; elsewhere it is Go's monotonic clock, which on some systems does not.
func (w *Env) Now() time.Duration { return w.now() }

// Wall implements env.Env.
func (w *Env) Wall() time.Time { return time.Now() }

// Seed implements env.Env. It is never zero.
func (w *Env) Seed() uint64 {
	var b [8]byte
	for {
		_, _ = rand.Read(b[:]) // never fails
		if v := binary.LittleEndian.Uint64(b[:]); v != 0 {
			return v
		}
	}
}

// NewParker implements env.Env.
func (w *Env) NewParker() env.Parker { return newParker(w.now) }

// NewLoop implements env.Env: it starts one goroutine, which Stop ends. A panic in
// run is not caught.
func (w *Env) NewLoop(_ string, run func(now time.Duration) (next time.Duration)) env.Loop {
	return startLoop(w.now, run)
}

// Go implements env.Env: it starts one goroutine, which ends with f. A panic in f is not caught.
func (w *Env) Go(_ string, limit time.Duration, f func(ctx context.Context)) {
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), limit)
		defer cancel()
		f(ctx)
	}()
}

// Listen implements env.Env.
func (w *Env) Listen(cfg transport.Config, h transport.Handler) (env.Network, error) {
	n := &network{Handler: h}
	if cfg.Sockets == nil {
		cfg.Sockets = w.sockets
	}
	t, err := transport.Listen(cfg, n)
	if err != nil {
		return nil, err
	}
	n.Network = t
	return n, nil
}

// NewMembership implements env.Env. The network must be one that Listen returned; there is
// one membership on it at a time.
func (w *Env) NewMembership(self env.Member, net env.Network, events func(env.MemberEvent)) (env.Membership, error) {
	n := net.(*network)
	g, err := gossip.New(gossip.Config{Self: self, Network: n, Events: events, Logger: w.logger})
	if err != nil {
		return nil, err
	}
	n.gossip.Store(g)
	return g, nil
}
