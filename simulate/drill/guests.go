package drill

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"time"

	"github.com/lockmesh/mesh"
	"github.com/lockmesh/mesh/simulate"
)

// guests are a load beside the lockers: what a node offers and lockers do not use. They
// take locks of fixed length, move their ends, or let them end; have sessions of their
// own, and hold several keys in them; try to read, and to get permits. Their keys are
// theirs. Beside them each host has errands.
type guests struct {
	each, keys int
	pause      time.Duration // between two things that a guest does, at most
	fixed      int           // how often they take locks of fixed length, where each of the rest is done twice
	errands    time.Duration // so many of each host per second, on average
	quiet      func() bool
}

// newGuests draws how many there are, and what they do most.
func newGuests(w *simulate.World) guests {
	return guests{
		each:    int(w.Pick("guests", 0, 2)),
		keys:    int(w.Pick("guest-keys", 1, 3)),
		pause:   time.Duration(w.Pick("guest-pause-ms", 5, 400)) * time.Millisecond,
		fixed:   int(w.Pick("guest-fixed", 1, 12)),
		errands: time.Duration(w.Pick("errands", 0, 15)),
	}
}

// arrive brings a new node its guests.
func (g *guests) arrive(ctx context.Context, l *simulate.Lockers, n *mesh.Node) {
	w := simulate.WorldOf(ctx)
	g.quiet = l.Quiet
	if chance := rand.New(rand.NewPCG(w.Rand().Uint64(), math.MaxUint64)); g.errands > 0 {
		l.Beside(ctx, "errands", func(ctx context.Context) { g.errand(ctx, n, chance) })
	}
	for i := range g.each {
		chance := rand.New(rand.NewPCG(w.Rand().Uint64(), uint64(i)))
		l.Go(ctx, fmt.Sprint("guest", i+1), func(ctx context.Context) {
			for !g.quiet() && simulate.Sleep(ctx, upTo(chance, g.pause)) == nil {
				g.once(ctx, n, chance)
			}
		})
	}
}

// once is one thing that a guest does.
func (g *guests) once(ctx context.Context, n *mesh.Node, chance *rand.Rand) {
	what := chance.IntN(6 + g.fixed)
	if what >= 6 {
		g.extend(ctx, n, chance)
		return
	}
	ctx, cancel := simulate.WithTimeout(ctx, upTo(chance, ttl))
	defer cancel()
	switch what / 2 {
	case 0:
		g.session(ctx, n, chance)
	case 1:
		g.share(ctx, n, chance)
	case 2:
		g.crowd(ctx, n, chance)
	}
}

func (g *guests) key(kind string, chance *rand.Rand) string {
	return fmt.Sprintf("%s/%d", kind, chance.IntN(g.keys))
}

// extend takes a lock of fixed length, and gives it back, in time or not, after it has moved
// its end some times, to later or to earlier. Now and then it does not wait for that.
func (g *guests) extend(ctx context.Context, n *mesh.Node, chance *rand.Rand) {
	length := fixedLength(chance)
	wait, cancel := simulate.WithTimeout(ctx, upTo(chance, ttl))
	l, err := n.Lock(wait, g.key("fixed", chance), mesh.MaxHold(length))
	cancel()
	if err != nil {
		return
	}
	for !g.quiet() {
		work := upTo(chance, length*5/4)
		if chance.IntN(2) == 0 { // until the end is near
			work = length/2 + time.Duration(chance.Int64N(int64(length/2)))
		}
		_ = simulate.Sleep(ctx, work)
		if chance.IntN(4) == 0 {
			break
		}
		wait, cancel := simulate.WithTimeout(ctx, upTo(chance, ttl))
		length = fixedLength(chance)
		err := l.Extend(wait, length)
		cancel()
		if errors.Is(err, mesh.ErrLost) {
			return
		}
	}
	wait, cancel = simulate.WithTimeout(ctx, ttl)
	defer cancel()
	_ = l.Unlock(wait)
}

// fixedLength draws a length from a tenth of the TTL up to all of it.
func fixedLength(chance *rand.Rand) time.Duration { return ttl/10 + upTo(chance, ttl*9/10) }

// errand is a session for a key that nobody else wants, and closed as soon as it has it: to
// the key's shard a record that comes and goes.
func (g *guests) errand(ctx context.Context, n *mesh.Node, chance *rand.Rand) {
	_ = simulate.Sleep(ctx, upTo(chance, 2*time.Second/g.errands))
	ctx, cancel := simulate.WithTimeout(ctx, ttl)
	defer cancel()
	if s, err := n.NewSession(ctx); err == nil {
		_, _ = s.Lock(ctx, fmt.Sprintf("errand/%d", chance.Uint32()))
		_ = s.Close(ctx)
	}
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
