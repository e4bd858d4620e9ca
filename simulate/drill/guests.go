package drill

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/lockmesh/mesh"
	"github.com/lockmesh/mesh/simulate"
)

// guests are a load beside the lockers: what a node offers and lockers do not use. They
// take locks of fixed length, move their ends, or let them end; have sessions of their
// own, and hold several keys in them; try to read, and to get permits. Their keys are
// theirs.
type guests struct {
	each, keys int
}

// arrive brings a new node its guests.
func (g *guests) arrive(ctx context.Context, l *simulate.Lockers, n *mesh.Node) {
	w := simulate.WorldOf(ctx)
	for i := range g.each {
		chance := rand.New(rand.NewPCG(w.Rand().Uint64(), uint64(i)))
		l.Go(ctx, fmt.Sprint("guest", i+1), func(ctx context.Context) {
			for !l.Quiet() && simulate.Sleep(ctx, upTo(chance, 400*time.Millisecond)) == nil {
				g.once(ctx, n, chance)
			}
		})
	}
}

// once is one thing that a guest does.
func (g *guests) once(ctx context.Context, n *mesh.Node, chance *rand.Rand) {
	ctx, cancel := simulate.WithTimeout(ctx, upTo(chance, ttl))
	defer cancel()
	switch chance.IntN(4) {
	case 0:
		g.fixed(ctx, n, chance)
	case 1:
		g.session(ctx, n, chance)
	case 2:
		g.share(ctx, n, chance)
	case 3:
		g.crowd(ctx, n, chance)
	}
}

func (g *guests) key(kind string, chance *rand.Rand) string {
	return fmt.Sprintf("%s/%d", kind, chance.IntN(g.keys))
}

// fixed takes a lock of fixed length, and most often gives it back in time, or extends it.
func (g *guests) fixed(ctx context.Context, n *mesh.Node, chance *rand.Rand) {
	length := ttl/10 + upTo(chance, ttl/2)
	l, err := n.Lock(ctx, g.key("fixed", chance), mesh.MaxHold(length))
	if err != nil {
		return
	}
	for range chance.IntN(3) {
		_ = simulate.Sleep(ctx, upTo(chance, length*5/4)) // now and then too long
		if l.Extend(ctx, length) != nil {
			return
		}
	}
	_ = simulate.Sleep(ctx, upTo(chance, length*5/4))
	_ = l.Unlock(ctx)
}

// session takes several keys in a session of its own.
func (g *guests) session(ctx context.Context, n *mesh.Node, chance *rand.Rand) {
	s, err := n.NewSession(ctx, mesh.WithTTL(ttl/2+upTo(chance, ttl/2)))
	if err != nil {
		return
	}
	for range 1 + chance.IntN(3) {
		l, err := s.Lock(ctx, g.key("session", chance))
		if err != nil {
			break
		}
		_ = simulate.Sleep(ctx, upTo(chance, ttl/4))
		if chance.IntN(2) == 0 {
			_ = l.Unlock(ctx)
		}
	}
	_ = s.Close(ctx)
}

// share reads or writes a key that most only read, without waiting for it.
func (g *guests) share(ctx context.Context, n *mesh.Node, chance *rand.Rand) {
	key := g.key("shared", chance)
	var l *mesh.Lock
	var err error
	switch chance.IntN(6) {
	case 0:
		l, err = n.Lock(ctx, key)
	case 1:
		l, err = n.RLock(ctx, key)
	default:
		l, err = n.TryRLock(ctx, key)
	}
	if err == nil {
		_ = simulate.Sleep(ctx, upTo(chance, time.Second))
		_ = l.Unlock(ctx)
	}
}

// crowd takes some of few permits, often without waiting.
func (g *guests) crowd(ctx context.Context, n *mesh.Node, chance *rand.Rand) {
	key, permits := g.key("crowd", chance), 1+chance.Int64N(5)
	acquire := n.Acquire
	if chance.IntN(2) == 0 {
		acquire = n.TryAcquire
	}
	l, err := acquire(ctx, key, permits, 5)
	if err == nil {
		_ = simulate.Sleep(ctx, upTo(chance, time.Second))
		_ = l.Unlock(ctx)
	}
}

// upTo draws a duration, as often a short one as a long one.
func upTo(chance *rand.Rand, most time.Duration) time.Duration {
	most >>= chance.IntN(6)
	return time.Duration(chance.Int64N(int64(most)) + 1)
}
