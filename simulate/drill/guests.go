package drill

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"time"

	"github.com/lockmesh/mesh"
	"github.com/lockmesh/mesh/internal/visit"
	"github.com/lockmesh/mesh/simulate"
)

// guests are a load beside the lockers: what a node offers and lockers do not use. What they
// do, and how often, how hastily and how many at a time, each world draws for itself, as it
// draws its faults. No other caller uses their keys. Beside them each host has errands. (The glossary's guests, callers outside the
// mesh, are visitors here: see visitors.go.)
type guests struct {
	each, keys int
	pause      time.Duration // between two things that a guest does, at most
	patience   time.Duration // of a call, at most
	crowd      int           // that come at a time where many come, at most
	deeds      []deed        // each as often as it is done
	longest    time.Duration // lease that the mesh allows, as far as its operator knows
	errands    time.Duration // about three times as many of each host per second, where links are fast
	quiet      func() bool
	visitors   []*visitor
	words      int                        // that candidates and leaders have had
	elects     bool                       // guests campaign
	desks      map[*mesh.Node]*visit.Desk // where they ask
	keepers    map[string][]*keeper       // by key
	users      int                        // that keepers have been
	nodes      func() []*mesh.Node        // that run
}

// deed is one thing that a guest does. It ends soon after ctx.
type deed func(g *guests, ctx context.Context, n *mesh.Node, chance *rand.Rand)

// deeds are all there are. Each world leaves out about half.
var deeds = [...]struct {
	name string
	do   deed
}{
	{"fixed", (*guests).fixed},
	{"session", (*guests).session},
	{"share", (*guests).share},
	{"permits", (*guests).permits},
	{"rush", (*guests).rush},
	{"mix", (*guests).mix},
	{"together", (*guests).together},
	{"nest", (*guests).nest},
	{"twice", (*guests).twice},
	{"resource", (*guests).resource},
	{"keep", (*guests).keep},
	{"visit", (*guests).visit},
	{"once", (*guests).once},
	{"latch", (*guests).latch},
	{"barrier", (*guests).barrier},
	{"elect", (*guests).elect},
	{"observe", (*guests).observe},
	{"set", (*guests).set},
	{"downgrade", (*guests).downgrade},
	{"inspect", (*guests).inspect},
	{"resize", (*guests).resize},
	{"break", (*guests).breaks},
}

// newGuests draws how many there are, and what they do.
func newGuests(w *simulate.World) guests {
	g := guests{
		each:     int(w.Pick("guests", 0, 2)),
		keys:     int(w.Pick("guest-keys", 1, 3)),
		pause:    time.Duration(w.Pick("guest-pause-ms", 5, 700)) * time.Millisecond,
		patience: time.Duration(w.Pick("guest-patience-ms", 10, int64(ttl/time.Millisecond))) * time.Millisecond,
		longest:  ttl,
		crowd:    int(w.Pick("guest-crowd", 1, 6)),
		errands:  time.Duration(w.Pick("errands", 0, 9)),
	}
	for _, d := range deeds {
		for range w.Pick("guest-"+d.name, 0, 9) - 4 {
			g.deeds = append(g.deeds, d.do)
			g.elects = g.elects || d.name == "elect"
		}
	}
	return g
}

// arrive brings a new node its guests.
func (g *guests) arrive(ctx context.Context, l *simulate.Lockers, n *mesh.Node) {
	w := simulate.WorldOf(ctx)
	g.quiet = l.Quiet
	if chance := rand.New(rand.NewPCG(w.Rand().Uint64(), math.MaxUint64)); g.errands > 0 {
		l.Beside(ctx, "errands", func(ctx context.Context) { g.errand(ctx, n, chance) })
	}
	if len(g.deeds) == 0 {
		return
	}
	if g.elects && g.each > 0 {
		watches := rand.New(rand.NewPCG(w.Rand().Uint64(), math.MaxUint64-1))
		l.Beside(ctx, "watcher", func(ctx context.Context) { g.watch(ctx, n, watches) })
		stands := rand.New(rand.NewPCG(w.Rand().Uint64(), math.MaxUint64-2))
		l.Go(ctx, "candidate", func(ctx context.Context) { g.candidate(ctx, n, stands) })
	}
	for i := range g.each {
		chance := rand.New(rand.NewPCG(w.Rand().Uint64(), uint64(i)))
		l.Go(ctx, fmt.Sprint("guest", i+1), func(ctx context.Context) {
			for !g.quiet() && simulate.Sleep(ctx, upTo(chance, g.pause)) == nil {
				g.deeds[chance.IntN(len(g.deeds))](g, ctx, n, chance)
			}
		})
	}
}

func (g *guests) key(kind string, chance *rand.Rand) string {
	return fmt.Sprintf("%s/%d", kind, chance.IntN(g.keys))
}

// wait is a context for one call.
func (g *guests) wait(ctx context.Context, chance *rand.Rand) (context.Context, context.CancelFunc) {
	return simulate.WithTimeout(ctx, upTo(chance, g.patience))
}

// tries makes a call, whatever comes of it.
func (g *guests) tries(ctx context.Context, chance *rand.Rand, call func(ctx context.Context) error) {
	wait, cancel := g.wait(ctx, chance)
	defer cancel()
	_ = call(wait)
}

// options draws what may be said with a call.
func (g *guests) options(chance *rand.Rand) (opts []mesh.LockOption) {
	if chance.IntN(4) == 0 {
		opts = append(opts, mesh.MaxHold(g.fixedLength(chance)))
	}
	if chance.IntN(4) == 0 {
		opts = append(opts, mesh.Value(make([]byte, chance.IntN(4097)>>chance.IntN(10))))
	}
	return opts
}

// locker is a node, or a session.
type locker interface {
	Lock(ctx context.Context, key string, opts ...mesh.LockOption) (*mesh.Lock, error)
	TryLock(ctx context.Context, key string, opts ...mesh.LockOption) (*mesh.Lock, error)
	RLock(ctx context.Context, key string, opts ...mesh.LockOption) (*mesh.Lock, error)
	TryRLock(ctx context.Context, key string, opts ...mesh.LockOption) (*mesh.Lock, error)
	Acquire(ctx context.Context, key string, n, capacity int64, opts ...mesh.LockOption) (*mesh.Lock, error)
	TryAcquire(ctx context.Context, key string, n, capacity int64, opts ...mesh.LockOption) (*mesh.Lock, error)
}

// anyCall makes one call, of any kind.
func (g *guests) anyCall(ctx context.Context, n locker, key string, chance *rand.Rand) (*mesh.Lock, error) {
	opts := g.options(chance)
	switch permits := 1 + chance.Int64N(3); chance.IntN(6) {
	case 0:
		return n.TryLock(ctx, key, opts...)
	case 1:
		return n.RLock(ctx, key, opts...)
	case 2:
		return n.TryRLock(ctx, key, opts...)
	case 3:
		return n.Acquire(ctx, key, permits, 3, opts...)
	case 4:
		return n.TryAcquire(ctx, key, permits, 3, opts...)
	}
	return n.Lock(ctx, key, opts...)
}

// many runs do in some actors at a time, and waits for all.
func (g *guests) many(ctx context.Context, chance *rand.Rand, do func(ctx context.Context, chance *rand.Rand)) {
	gather(ctx, 1+chance.IntN(g.crowd), "friend", func() func(ctx context.Context) {
		chance := rand.New(rand.NewPCG(chance.Uint64(), 0))
		return func(ctx context.Context) { do(ctx, chance) }
	})
}

// gather runs so many actors at a time, and waits for all. What each does, next draws.
func gather(ctx context.Context, size int, name string, next func() func(ctx context.Context)) {
	left := size
	over := make(chan struct{})
	for range size {
		do := next()
		simulate.Go(ctx, name, func(ctx context.Context) {
			defer func() {
				if left--; left == 0 {
					close(over)
				}
			}()
			do(ctx)
		})
	}
	_ = simulate.Wait(ctx, over)
}

// rush: many callers come for a key at once, and few of them wait for long.
func (g *guests) rush(ctx context.Context, n *mesh.Node, chance *rand.Rand) {
	key := g.key("rush", chance)
	g.many(ctx, chance, func(ctx context.Context, chance *rand.Rand) {
		patience := 16 * time.Millisecond
		if chance.IntN(8) == 0 {
			patience = g.patience
		}
		wait, cancel := simulate.WithTimeout(ctx, upTo(chance, patience))
		l, err := n.Lock(wait, key, g.options(chance)...)
		cancel()
		if err != nil {
			return
		}
		_ = simulate.Sleep(ctx, upTo(chance, 20*time.Millisecond))
		g.tries(ctx, chance, l.Unlock)
	})
}

// mix uses a key as a lock, for readers, or as a semaphore.
func (g *guests) mix(ctx context.Context, n *mesh.Node, chance *rand.Rand) {
	wait, cancel := g.wait(ctx, chance)
	l, err := g.anyCall(wait, n, g.key("mix", chance), chance)
	cancel()
	if err != nil {
		return
	}
	_ = simulate.Sleep(l.Context(), upTo(chance, ttl/8))
	g.tries(ctx, chance, l.Unlock)
}

// together: some share a session, and take locks there of all kinds, until one closes it or
// all have had enough.
func (g *guests) together(ctx context.Context, n *mesh.Node, chance *rand.Rand) {
	s, err := n.NewSession(ctx, mesh.WithTTL(ttl/2+upTo(chance, g.longest-ttl/2)))
	if err != nil {
		return
	}
	g.many(ctx, chance, func(ctx context.Context, chance *rand.Rand) {
		for s.Err() == nil && !g.quiet() && chance.IntN(4) > 0 {
			wait, cancel := g.wait(ctx, chance)
			l, err := g.anyCall(wait, s, g.key("together", chance), chance)
			cancel()
			if err == nil {
				_ = simulate.Sleep(l.Context(), upTo(chance, ttl/8))
			}
			if err == nil && chance.IntN(4) > 0 {
				g.tries(ctx, chance, l.Unlock)
			}
		}
		if chance.IntN(4) == 0 {
			g.tries(ctx, chance, s.Close)
		}
	})
	_ = s.Close(ctx)
}

// nest enters a lock again, and gives the handles back in any order.
func (g *guests) nest(ctx context.Context, n *mesh.Node, chance *rand.Rand) {
	key := g.key("nest", chance)
	var handles []*mesh.Lock
	for in := ctx; len(handles) < 4; {
		wait, cancel := g.wait(in, chance)
		l, err := n.Lock(wait, key, append(g.options(chance), mesh.Reentrant())...)
		cancel()
		if err != nil {
			break
		}
		handles, in = append(handles, l), l.Context()
		if simulate.Sleep(in, upTo(chance, ttl/8)) != nil || chance.IntN(3) == 0 {
			break
		}
	}
	chance.Shuffle(len(handles), func(i, j int) { handles[i], handles[j] = handles[j], handles[i] })
	for _, l := range handles {
		_ = simulate.Sleep(l.Context(), upTo(chance, ttl/16))
		g.tries(ctx, chance, l.Unlock)
	}
}

// twice: some extend one lock of fixed length, and unlock it, all at once.
func (g *guests) twice(ctx context.Context, n *mesh.Node, chance *rand.Rand) {
	wait, cancel := g.wait(ctx, chance)
	l, err := n.Lock(wait, g.key("twice", chance), mesh.MaxHold(g.fixedLength(chance)))
	cancel()
	if err != nil {
		return
	}
	g.many(ctx, chance, func(ctx context.Context, chance *rand.Rand) {
		for l.Err() == nil && !g.quiet() {
			_ = simulate.Sleep(l.Context(), upTo(chance, ttl/8))
			wait, cancel := g.wait(ctx, chance)
			if chance.IntN(4) == 0 {
				_ = l.Unlock(wait)
			} else {
				_ = l.Extend(wait, g.fixedLength(chance))
			}
			cancel()
		}
	})
	_ = l.Unlock(ctx)
}

// resource: some pull one thing, update it or delete it, and use it for a while. Some of them fail, or do not wait for an answer.
func (g *guests) resource(ctx context.Context, n *mesh.Node, chance *rand.Rand) {
	g.many(ctx, chance, func(ctx context.Context, chance *rand.Rand) {
		r := n.Resource(g.key("resource", chance), g.resourceOptions(chance)...)
		wait, cancel := g.wait(ctx, chance)
		op, err := r.Begin(wait, mesh.Op(chance.IntN(3)))
		cancel()
		if err != nil {
			return
		}
		if !op.Skipped() {
			_ = simulate.Sleep(op.Context(), upTo(chance, ttl/8))
			var failure error
			if chance.IntN(4) == 0 {
				failure = errors.New("failed")
			}
			wait, cancel := g.wait(ctx, chance)
			_ = op.End(wait, failure)
			cancel()
		}
		use := op.Use()
		if use == nil {
			return
		}
		_ = simulate.Sleep(use.Context(), upTo(chance, ttl/4))
		wait, cancel = g.wait(ctx, chance)
		defer cancel()
		if chance.IntN(8) == 0 {
			_ = r.Release(wait)
		} else {
			_ = use.Release(wait)
		}
	})
}

// resourceOptions draws what may be said of a resource.
func (g *guests) resourceOptions(chance *rand.Rand) []mesh.ResourceOption {
	opts := []mesh.ResourceOption{mesh.Retention(time.Second + upTo(chance, ttl))}
	if chance.IntN(4) == 0 {
		opts = append(opts, mesh.Version("other"))
	}
	if chance.IntN(3) == 0 {
		opts = append(opts, mesh.User("guest"))
	}
	if chance.IntN(3) == 0 {
		opts = append(opts, mesh.WhileUsed(), mesh.UpdateRequiresNoRef())
	}
	return opts
}

// once: some do a thing once, or find it done. Some of them fail, and some give up after a few that did.
func (g *guests) once(ctx context.Context, n *mesh.Node, chance *rand.Rand) {
	g.many(ctx, chance, func(ctx context.Context, chance *rand.Rand) {
		var opts []mesh.OnceOption
		if chance.IntN(2) == 0 {
			opts = append(opts, mesh.Attempts(1+chance.IntN(3)))
		}
		wait, cancel := g.wait(ctx, chance)
		defer cancel()
		_, _ = n.Once(wait, g.key("once", chance), time.Second+upTo(chance, 2*ttl), func(ctx context.Context, op *mesh.Operation) error {
			_ = simulate.Sleep(ctx, upTo(chance, ttl/4))
			switch chance.IntN(6) {
			case 0:
				return errors.New("failed")
			case 1:
				return op.End(ctx, nil) // before it returns
			}
			return ctx.Err()
		}, opts...)
	})
}

// latch: some wait for a latch at which some arrive, under few names.
func (g *guests) latch(ctx context.Context, n *mesh.Node, chance *rand.Rand) {
	g.many(ctx, chance, func(ctx context.Context, chance *rand.Rand) {
		size := 3
		if chance.IntN(8) == 0 {
			size = 2
		}
		l := n.Latch(g.key("latch", chance), size, mesh.OpenFor(time.Second+upTo(chance, ttl)))
		wait, cancel := g.wait(ctx, chance)
		defer cancel()
		if chance.IntN(2) == 0 {
			_ = l.Wait(wait)
		} else {
			_ = l.Arrive(wait, fmt.Sprint("name", chance.IntN(4)))
		}
	})
}

// barrier: some enter a barrier together, and leave it one after the other. Some turn back.
func (g *guests) barrier(ctx context.Context, n *mesh.Node, chance *rand.Rand) {
	g.many(ctx, chance, func(ctx context.Context, chance *rand.Rand) {
		wait, cancel := g.wait(ctx, chance)
		p, err := n.Barrier(g.key("barrier", chance), 1+g.crowd/2).Enter(wait)
		cancel()
		if err != nil {
			return
		}
		_ = simulate.Sleep(p.Context(), upTo(chance, ttl/8))
		g.tries(ctx, chance, p.Leave)
	})
}

// fixed takes a lock of fixed length, and gives it back, in time or not, after it has moved
// its end some times, to later or to earlier. Now and then it does not wait for that.
func (g *guests) fixed(ctx context.Context, n *mesh.Node, chance *rand.Rand) {
	length := g.fixedLength(chance)
	wait, cancel := g.wait(ctx, chance)
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
		length = g.fixedLength(chance)
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

// fixedLength draws a length from a tenth of the TTL up to as long as a lease may last.
func (g *guests) fixedLength(chance *rand.Rand) time.Duration {
	return ttl/10 + upTo(chance, g.longest-ttl/10)
}

// errand is a session for a key that no other caller wants, and closed as soon as it has it: to
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
	ctx, cancel := simulate.WithTimeout(ctx, upTo(chance, ttl))
	defer cancel()
	s, err := n.NewSession(ctx, mesh.WithTTL(ttl/2+upTo(chance, g.longest-ttl/2)))
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
	ctx, cancel := simulate.WithTimeout(ctx, upTo(chance, ttl))
	defer cancel()
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

// permits takes some of few permits, often without waiting.
func (g *guests) permits(ctx context.Context, n *mesh.Node, chance *rand.Rand) {
	ctx, cancel := simulate.WithTimeout(ctx, upTo(chance, ttl))
	defer cancel()
	key, few := g.key("permits", chance), 1+chance.Int64N(5)
	acquire := n.Acquire
	if chance.IntN(2) == 0 {
		acquire = n.TryAcquire
	}
	l, err := acquire(ctx, key, few, 5)
	if err == nil {
		_ = simulate.Sleep(ctx, upTo(chance, time.Second))
		_ = l.Unlock(ctx)
	}
}

// resize changes how many permits there are, while it has one of them: back and forth, and often in vain.
func (g *guests) resize(ctx context.Context, n *mesh.Node, chance *rand.Rand) {
	key := g.key("permits", chance)
	wait, cancel := g.wait(ctx, chance)
	l, err := n.Acquire(wait, key, 1, 5)
	cancel()
	if err != nil {
		return
	}
	for range 1 + chance.IntN(4) {
		sizes := []int64{5, 3, 8, 4}
		chance.Shuffle(len(sizes), func(i, j int) { sizes[i], sizes[j] = sizes[j], sizes[i] })
		wait, cancel := g.wait(ctx, chance)
		_ = n.Resize(wait, key, sizes[0], sizes[1])
		cancel()
		_ = simulate.Sleep(l.Context(), upTo(chance, ttl/8))
	}
	g.tries(ctx, chance, l.Unlock)
}

// upTo draws a duration, as often a short one as a long one.
func upTo(chance *rand.Rand, most time.Duration) time.Duration {
	most >>= chance.IntN(6)
	return time.Duration(chance.Int64N(int64(most)) + 1)
}
