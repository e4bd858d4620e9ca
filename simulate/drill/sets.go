package drill

import (
	"context"
	"math/rand/v2"

	"github.com/lockmesh/mesh"
	"github.com/lockmesh/mesh/simulate"
)

// set: some take several keys together, now and then for a fixed time, or inside of a lock of the first, and some take one of them, and then another
// one, in any order: they may wait in a circle.
func (g *guests) set(ctx context.Context, n *mesh.Node, chance *rand.Rand) {
	g.many(ctx, chance, func(ctx context.Context, chance *rand.Rand) {
		keys := []string{"set/a", "set/b", "set/c", "set/d"}
		chance.Shuffle(len(keys), func(i, j int) { keys[i], keys[j] = keys[j], keys[i] })
		keys = keys[:1+chance.IntN(len(keys))]
		in := ctx
		if len(keys) == 1 || chance.IntN(4) == 0 {
			wait, cancel := g.wait(ctx, chance)
			l, err := n.Lock(wait, keys[0])
			cancel()
			if err != nil {
				return
			}
			_ = simulate.Sleep(l.Context(), upTo(chance, ttl/16))
			defer g.tries(ctx, chance, l.Unlock)
			in, keys = l.WithContext(ctx), keys[1:]
		}
		if len(keys) == 0 {
			g.inside(ctx, in, n, chance)
			return
		}
		wait, cancel := g.wait(in, chance)
		var opts []mesh.LockOption
		if chance.IntN(3) == 0 {
			opts = append(opts, mesh.MaxHold(g.fixedLength(chance)))
		}
		set, err := n.LockAll(wait, keys, opts...)
		cancel()
		if err != nil {
			return
		}
		work := upTo(chance, ttl/8)
		if opts != nil && chance.IntN(2) == 0 {
			work = g.longest // it ends by itself
		}
		_ = simulate.Sleep(set.Context(), work)
		g.tries(ctx, chance, set.Unlock)
	})
}

// inside takes one of the keys inside of a lock of another one, and wants to know of a deadlock.
func (g *guests) inside(ctx, in context.Context, n *mesh.Node, chance *rand.Rand) {
	wait, cancel := g.wait(in, chance)
	l, err := n.Lock(wait, "set/"+string(rune('a'+chance.IntN(4))), mesh.DetectDeadlock())
	cancel()
	if err != nil {
		return
	}
	_ = simulate.Sleep(l.Context(), upTo(chance, ttl/16))
	g.tries(ctx, chance, l.Unlock)
}
