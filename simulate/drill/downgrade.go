package drill

import (
	"context"
	"math/rand/v2"

	"github.com/lockmesh/mesh"
	"github.com/lockmesh/mesh/simulate"
)

// downgrade writes a key, and then reads it, while others do, too. Some do not wait for the answer.
func (g *guests) downgrade(ctx context.Context, n *mesh.Node, chance *rand.Rand) {
	g.many(ctx, chance, func(ctx context.Context, chance *rand.Rand) {
		key := g.key("downgrade", chance)
		wait, cancel := g.wait(ctx, chance)
		defer cancel()
		if chance.IntN(3) == 0 {
			l, err := n.RLock(wait, key)
			if err == nil {
				_ = simulate.Sleep(l.Context(), upTo(chance, ttl/8))
				_ = l.Unlock(ctx)
			}
			return
		}
		var opts []mesh.LockOption
		if chance.IntN(6) == 0 {
			opts = append(opts, mesh.MaxHold(g.fixedLength(chance)))
		}
		l, err := n.Lock(wait, key, opts...)
		if err != nil {
			return
		}
		_ = simulate.Sleep(l.Context(), upTo(chance, ttl/8))
		wait, cancel = g.wait(ctx, chance)
		defer cancel()
		reader, _ := l.Downgrade(wait)
		if reader != nil {
			_ = simulate.Sleep(reader.Context(), upTo(chance, ttl/4))
			g.tries(ctx, chance, reader.Unlock)
		}
	})
}
