package drill

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/lockmesh/mesh"
	"github.com/lockmesh/mesh/simulate"
)

// elect: some campaign, and proclaim this and that while they lead. Some ask who leads.
func (g *guests) elect(ctx context.Context, n *mesh.Node, chance *rand.Rand) {
	g.many(ctx, chance, func(ctx context.Context, chance *rand.Rand) {
		e := n.Election(g.key("election", chance))
		wait, cancel := g.wait(ctx, chance)
		defer cancel()
		switch chance.IntN(4) {
		case 0:
			_, _ = e.Leader(wait)
		case 1:
			_ = e.Lead(wait, g.word(chance), func(ctx context.Context, l *mesh.Leadership) error {
				g.lead(ctx, l, chance)
				return nil
			})
		default:
			l, err := e.Campaign(wait, g.word(chance))
			if err != nil {
				return
			}
			g.lead(l.Context(), l, chance)
			g.tries(ctx, chance, l.Resign)
		}
	})
}

// candidate campaigns for the same leadership as those of the other hosts, again and again, as a program does whose processes are equal.
func (g *guests) candidate(ctx context.Context, n *mesh.Node, chance *rand.Rand) {
	for !g.quiet() && simulate.Sleep(ctx, upTo(chance, ttl/4)) == nil {
		wait, cancel := simulate.WithTimeout(ctx, ttl+upTo(chance, 2*ttl))
		l, err := n.Election(contest).Campaign(wait, g.word(chance))
		cancel()
		if err != nil {
			continue
		}
		g.lead(l.Context(), l, chance)
		if chance.IntN(2) == 0 {
			g.stay(l.Context(), 3*ttl) // for longer than a lease lasts: what an observer is told may have been so a lease ago
		}
		g.tries(ctx, chance, l.Resign)
	}
}

// contest is the election that the hosts' candidates and watchers have in common.
const contest = "election/0"

// lead proclaims some words, often without waiting for the answer.
func (g *guests) lead(ctx context.Context, l *mesh.Leadership, chance *rand.Rand) {
	for range chance.IntN(4) {
		if simulate.Sleep(ctx, upTo(chance, ttl/4)) != nil || g.quiet() {
			return
		}
		wait, cancel := g.wait(ctx, chance)
		_ = l.Proclaim(wait, g.word(chance))
		cancel()
	}
	g.stay(ctx, upTo(chance, ttl))
}

// stay lets time pass while the load goes on.
func (g *guests) stay(ctx context.Context, d time.Duration) {
	for ; d > 0 && !g.quiet(); d -= ttl / 8 {
		if simulate.Sleep(ctx, min(d, ttl/8)) != nil {
			return
		}
	}
}

// word is a value that no other leader has.
func (g *guests) word(chance *rand.Rand) []byte {
	g.words++
	return fmt.Appendf(nil, "%d%*s", g.words, chance.IntN(4000)>>chance.IntN(12), "")
}

// observe watches an election for a while. Some are slow to take what they are told.
func (g *guests) observe(ctx context.Context, n *mesh.Node, chance *rand.Rand) {
	look, cancel := simulate.WithTimeout(ctx, upTo(chance, 2*ttl))
	defer cancel()
	for range n.Election(g.key("election", chance)).Observe(look) {
		if chance.IntN(2) == 0 {
			_ = simulate.Sleep(look, upTo(chance, ttl/4))
		}
		if g.quiet() || chance.IntN(8) == 0 {
			return
		}
	}
}

// watch observes the contest again and again. When the load is over, nobody leads any more, and it must come to see that.
func (g *guests) watch(ctx context.Context, n *mesh.Node, chance *rand.Rand) {
	_ = simulate.Sleep(ctx, upTo(chance, ttl/4))
	if !g.quiet() {
		var cancel context.CancelFunc
		ctx, cancel = simulate.WithTimeout(ctx, upTo(chance, 4*ttl)) // for longer than what is confirmed counts
		defer cancel()
	}
	for s := range n.Election(contest).Observe(ctx) {
		if g.quiet() && s.Token == 0 && !s.Unknown {
			return
		}
	}
}
