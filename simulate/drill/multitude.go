package drill

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/lockmesh/mesh"
	"github.com/lockmesh/mesh/simulate"
)

// multitude is a load of hundreds to thousands, once, in one of a hundred worlds: what costs
// the square of it shows there.
type multitude struct {
	size int // zero: there is none
	of   int64
	come bool
}

// multitudes are how many would come to a drill by its parameter: from rare on, step more each.
const (
	rare = 990
	step = 300
)

func newMultitude(w *simulate.World) multitude {
	size := int(w.Pick("thousands", 0, 999)) - rare + 1
	return multitude{size: max(size, 0) * step, of: w.Pick("thousands-of", 0, int64(len(multitudes)-1))}
}

// arrive lets a multitude come to the first node that does, some time later.
func (m *multitude) arrive(ctx context.Context, l *simulate.Lockers, n *mesh.Node) {
	if m.size == 0 || m.come {
		return
	}
	m.come = true
	chance := rand.New(rand.NewPCG(simulate.WorldOf(ctx).Rand().Uint64(), 0))
	l.Go(ctx, "multitude", func(ctx context.Context) {
		if simulate.Sleep(ctx, upTo(chance, 8*time.Second)) == nil {
			multitudes[m.of](ctx, n, chance, m.size)
		}
	})
}

// multitudes are what many may want. Each ends some seconds after it began.
var multitudes = [...]func(ctx context.Context, n *mesh.Node, chance *rand.Rand, size int){
	// Readers wait for a writer, and are let in together.
	func(ctx context.Context, n *mesh.Node, chance *rand.Rand, size int) {
		wait, cancel := simulate.WithTimeout(ctx, ttl)
		defer cancel()
		writer, err := n.Lock(wait, "multitude")
		if err != nil {
			return
		}
		simulate.Go(ctx, "writer", func(ctx context.Context) {
			_ = simulate.Sleep(ctx, upTo(chance, ttl))
			_ = writer.Unlock(ctx)
		})
		crowd(ctx, size, chance, func(ctx context.Context) (*mesh.Lock, error) { return n.RLock(ctx, "multitude") })
	},
	// Twice as many want a permit as there are.
	func(ctx context.Context, n *mesh.Node, chance *rand.Rand, size int) {
		crowd(ctx, size, chance, func(ctx context.Context) (*mesh.Lock, error) {
			return n.Acquire(ctx, "multitude", 1, int64(size/2))
		})
	},
	// All wait for one key, and most of them in vain.
	func(ctx context.Context, n *mesh.Node, chance *rand.Rand, size int) {
		crowd(ctx, size, chance, func(ctx context.Context) (*mesh.Lock, error) { return n.Lock(ctx, "multitude") })
	},
	// Each wants a key of its own.
	func(ctx context.Context, n *mesh.Node, chance *rand.Rand, size int) {
		next := 0
		crowd(ctx, size, chance, func(ctx context.Context) (*mesh.Lock, error) {
			next++
			return n.Lock(ctx, fmt.Sprintf("multitude/%d", next))
		})
	},
}

// crowd lets size callers ask at once, and waits for all. A call may take 2 TTL, and what it
// comes to is kept for up to a TTL.
func crowd(ctx context.Context, size int, chance *rand.Rand, take func(ctx context.Context) (*mesh.Lock, error)) {
	wait, cancel := simulate.WithTimeout(ctx, ttl+upTo(chance, ttl))
	defer cancel()
	gather(ctx, size, "one of many", func() func(ctx context.Context) {
		work := upTo(chance, ttl)
		return func(ctx context.Context) {
			l, err := take(wait)
			if err != nil {
				return
			}
			_ = simulate.Sleep(ctx, work)
			_ = l.Unlock(ctx)
		}
	})
}
