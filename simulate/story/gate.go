package story

import (
	"context"
	"fmt"

	"github.com/lockmesh/mesh"
	"github.com/lockmesh/mesh/simulate"
)

// gate is a caller that waits at a latch, or enters a barrier, and leaves it when the story says so.
type gate struct {
	caller
	passage *mesh.Passage // through a barrier
	left    bool
}

// wait waits at a latch.
func (g *gate) wait(_ context.Context, n *mesh.Node, key string, size int) {
	g.err = n.Latch(key, size).Wait(g.patient)
	g.answered = true
}

// enter enters a barrier, and is inside until the story lets it go.
func (g *gate) enter(ctx context.Context, n *mesh.Node, key string, size int) {
	g.passage, g.err = n.Barrier(key, size).Enter(g.patient)
	g.answered = true
	if g.err != nil {
		return
	}
	_ = simulate.Wait(g.patient, nil)
	_ = g.passage.Leave(ctx)
}

// through reports whether the caller was let through.
func (g *gate) through() bool { return g.answered && g.err == nil }

// inside reports whether the caller believes that it is inside a barrier.
func (g *gate) inside() bool {
	return !g.crashed() && g.passage != nil && !g.left && g.passage.Context().Err() == nil
}

func (g *gate) fate() string {
	switch {
	case g.crashed():
		return fmt.Sprintf("%s crashed", g.host)
	case !g.answered:
		return fmt.Sprintf("%s waits at %s", g.host, g.name)
	case g.err != nil:
		return fmt.Sprintf("%s is not let through %s: %s", g.host, g.name, reason(g.err))
	case g.passage == nil:
		return fmt.Sprintf("%s is let through %s", g.host, g.name)
	case g.left:
		return fmt.Sprintf("%s has left %s", g.host, g.name)
	case g.inside():
		return fmt.Sprintf("%s is inside %s", g.host, g.name)
	}
	return fmt.Sprintf("%s was inside %s, and is lost", g.host, g.name)
}

var gateForms = []*form{
	{text: "{who} arrives at {key} of {n} as {name}", make: func(c *clause) act {
		who, key, size, name := c.who("who"), c.key("key"), c.n("n"), c.args["name"]
		return func(t *teller) {
			var err error
			t.on(who, func(ctx context.Context, n *mesh.Node) {
				ctx, cancel := simulate.WithTimeout(ctx, patience)
				defer cancel()
				err = n.Latch(t.plan.key(key), size).Arrive(ctx, name)
			})
			t.result(err, "%s has arrived at %s as %s", "%s arrives at %s as %s", who, key, name)
		}
	}},
	gateForm("{who} waits at {key} of {n}", (*gate).wait),
	gateForm("{who} enters {key} of {n}", (*gate).enter),
	{text: "{who} turns back from {key}", make: func(c *clause) act {
		who, key := c.who("who"), c.called("key")
		return func(t *teller) {
			g := find[*gate](t, who, key)
			g.letGo()
			t.within(short, "story", fmt.Sprintf("%s turns back from %s", who, key), func() bool { return g.answered })
			t.say("%s", g.fate())
		}
	}},
	{text: "{who} goes out of {key}", make: func(c *clause) act {
		who, key := c.who("who"), c.called("key")
		return func(t *teller) {
			g := find[*gate](t, who, key)
			if g.passage == nil {
				t.fail("story", "%s", g.fate())
			}
			var err error
			t.Host(who).Do(t.ctx, "story", func(ctx context.Context) { err = g.passage.Leave(ctx) })
			g.left = err == nil
			t.result(err, "%s has left %s", "%s leaves %s", who, key)
		}
	}},
}

// gateForm is a form of a call that waits at a latch or a barrier. It waits for half a second, and goes on beside the story.
func gateForm(text string, run func(g *gate, ctx context.Context, n *mesh.Node, key string, size int)) *form {
	return &form{text: text, make: func(c *clause) act {
		who, key, size := c.who("who"), c.key("key"), c.n("n")
		c.parser.keys[key] = true
		return func(t *teller) {
			g := &gate{}
			t.begin(g, who, "caller of", key, func(ctx context.Context, n *mesh.Node) { run(g, ctx, n, t.plan.key(key), size) })
			t.hear(g, short)
		}
	}}
}
