package drill

import (
	"context"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/lockmesh/mesh"
	"github.com/lockmesh/mesh/simulate"
)

// breaks looks who holds which of the guests' keys, and breaks one of the grants, as an operator does with what seems to hang. Now and then somebody else has
// the key by then.
func (g *guests) breaks(ctx context.Context, n *mesh.Node, chance *rand.Rand) {
	look, cancel := simulate.WithTimeout(ctx, 2*ttl)
	defer cancel()
	theirs := []string{
		"rush", "mix", "election", "once", "barrier", "resource", "permits", "shared", "fixed", "twice", "nest", "together", "session", "downgrade", "visited",
	}
	var held []mesh.KeyState
	for k, err := range n.List(look, "") {
		if err != nil {
			break
		}
		if kind, _, _ := strings.Cut(k.Key, "/"); len(k.Holders) > 0 && slices.Contains(theirs, kind) {
			held = append(held, k)
		}
	}
	if len(held) == 0 {
		return
	}
	k := held[chance.IntN(len(held))]
	token := k.Holders[chance.IntN(len(k.Holders))].Token
	if chance.IntN(8) == 0 {
		token++
	}
	wait, cancelWait := simulate.WithTimeout(ctx, upTo(chance, g.patience+2*ttl))
	defer cancelWait()
	_ = n.Break(wait, k.Key, token, mesh.Because("a guest says so"))
}
