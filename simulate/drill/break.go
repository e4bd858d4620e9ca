package drill

import (
	"context"
	"math/rand/v2"

	"github.com/lockmesh/mesh"
	"github.com/lockmesh/mesh/simulate"
)

// breaks looks who holds a key, and breaks one of the grants, as an operator does with what seems to hang. Now and then somebody else has the key by then.
func (g *guests) breaks(ctx context.Context, n *mesh.Node, chance *rand.Rand) {
	wait, cancel := simulate.WithTimeout(ctx, upTo(chance, g.patience+2*ttl))
	defer cancel()
	kinds := [...]string{
		"rush", "mix", "election", "once", "barrier", "resource", "permits", "shared", "fixed", "twice", "nest", "together", "session", "downgrade", "visited", "visited",
	}
	key := g.key(kinds[chance.IntN(len(kinds))], chance)
	k, err := n.Inspect(wait, key)
	if err != nil || len(k.Holders) == 0 {
		return
	}
	token := k.Holders[chance.IntN(len(k.Holders))].Token
	if chance.IntN(8) == 0 {
		token++
	}
	_ = simulate.Sleep(wait, upTo(chance, ttl/16))
	_ = n.Break(wait, key, token, mesh.Because("a guest says so"))
}
