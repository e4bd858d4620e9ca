package drill

import (
	"context"
	"math/rand/v2"

	"github.com/lockmesh/mesh"
)

// inspect asks what is known of a key, or of all of them, who uses a resource, or which nodes there are, as a program does that
// shows it to people.
func (g *guests) inspect(ctx context.Context, n *mesh.Node, chance *rand.Rand) {
	wait, cancel := g.wait(ctx, chance)
	defer cancel()
	switch chance.IntN(6) {
	case 0:
		_, _ = n.ListMembers(wait)
		return
	case 1:
		_, _ = n.Resource(g.key("resource", chance)).Refs(wait)
		return
	case 2, 3:
		kinds := [...]string{"rush", "mix", "election", "once", "latch", "barrier", "resource", "permits"}
		_, _ = n.Inspect(wait, g.key(kinds[chance.IntN(len(kinds))], chance), mesh.AtMost(chance.IntN(300)))
		return
	}
	for _, err := range n.List(wait, "") {
		if err != nil || chance.IntN(16) == 0 {
			return
		}
	}
}
