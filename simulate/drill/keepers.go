package drill

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/lockmesh/mesh"
	"github.com/lockmesh/mesh/internal/bridge"
	"github.com/lockmesh/mesh/ring"
	"github.com/lockmesh/mesh/simulate"
)

// keeper is a user with a durable use of a resource (P39), which sessions of any node begin and end. It judges the mesh: nothing is
// deleted that it uses, while its shard lives in the generation in which the use was confirmed.
type keeper struct {
	user  string
	since table // in which its use was confirmed; zero: it may have none
	busy  bool  // a call for it goes on
}

// table names a generation of a shard.
type table struct{ mesh, generation uint64 }

// keepersOf returns the keepers of a key.
func (g *guests) keepersOf(key string) []*keeper {
	if g.keepers == nil {
		g.keepers = make(map[string][]*keeper)
	}
	if g.keepers[key] == nil {
		g.keepers[key] = []*keeper{g.newKeeper(), g.newKeeper()}
	}
	return g.keepers[key]
}

func (g *guests) newKeeper() *keeper { return &keeper{user: g.newUser()} }

func (g *guests) newUser() string {
	g.users++
	return fmt.Sprint("keeper ", g.users)
}

// tableOf returns in which generation the shard of a key lives, if all nodes that run agree on that.
func (g *guests) tableOf(key string) (t table) {
	for _, n := range g.nodes() {
		inner := bridge.NodeOf(n)
		all := inner.Generations()
		if len(all) == 0 {
			continue
		}
		known := table{inner.Mesh(), all[ring.Shard(key, len(all))].Name}
		if t != (table{}) && t != known {
			return table{}
		}
		t = known
	}
	return t
}

// keep lets a keeper pull a resource and close the session, or lets it release what it uses, or deletes the resource.
func (g *guests) keep(ctx context.Context, n *mesh.Node, chance *rand.Rand) {
	key := g.key("kept", chance)
	k := g.keepersOf(key)[chance.IntN(2)]
	wait, cancel := g.wait(ctx, chance)
	defer cancel()
	switch how := chance.IntN(4); {
	case how == 0:
		g.deletes(wait, n, key)
	case !k.busy:
		k.busy = true
		defer func() { k.busy = false }()
		if how == 1 {
			k.releases(g, func() error { return n.Resource(key, mesh.User(k.user)).Release(wait) })
		} else {
			k.pulls(ctx, wait, g, n, key, chance)
		}
	}
}

// pulls begins a use, in a session of its own, and closes that; one use of four it has released before.
func (k *keeper) pulls(ctx, wait context.Context, g *guests, n *mesh.Node, key string, chance *rand.Rand) {
	s, err := n.NewSession(wait, mesh.WithTTL(ttl/2+upTo(chance, ttl/2)))
	if err != nil {
		return
	}
	before := g.tableOf(key)
	r := s.Resource(key, mesh.User(k.user), mesh.Durable(), mesh.WhileUsed(), mesh.Retention(time.Second))
	use, err := r.Pull(wait, func(ctx context.Context, _ *mesh.Operation) error { return simulate.Sleep(ctx, upTo(chance, ttl/8)) })
	if err == nil && g.tableOf(key) == before {
		k.since = before
	}
	_ = simulate.Sleep(ctx, upTo(chance, ttl/8))
	if err == nil && chance.IntN(4) == 0 {
		k.releases(g, func() error { return use.Release(wait) })
	}
	_ = s.Close(wait)
}

// releases ends the use. Where that is not confirmed it may come later, and end what would begin: the keeper has another name then.
func (k *keeper) releases(g *guests, release func() error) {
	k.since = table{}
	confirmed := false
	defer func() { // also if the process ends
		if !confirmed {
			k.user = g.newUser()
		}
	}()
	confirmed = release() == nil
}

// deletes deletes a resource, and fails the world if a keeper uses it all the while.
func (g *guests) deletes(ctx context.Context, n *mesh.Node, key string) {
	before := g.tableOf(key)
	var users [2]keeper
	for i, k := range g.keepersOf(key) {
		users[i] = *k
	}
	op, err := n.Resource(key).Begin(ctx, mesh.OpDelete)
	if err != nil || op.Skipped() {
		return
	}
	for i, k := range g.keepersOf(key) {
		if now := g.tableOf(key); now != (table{}) && now == before && k.since == now && users[i].since == now && k.user == users[i].user {
			simulate.WorldOf(ctx).Fail(fmt.Errorf("P39 durable: %q is deleted, and %s uses it since before", key, k.user))
		}
	}
	_ = op.End(ctx, nil)
}
