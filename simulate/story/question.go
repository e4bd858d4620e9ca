package story

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"github.com/lockmesh/mesh"
)

// Questions. Their answers are the same for every seed, if the story is true.
var questionForms = []*form{
	{text: "who holds {key}", make: func(c *clause) act {
		key := c.key("key")
		return func(t *teller) {
			var who []string
			for _, p := range t.parties {
				if x, is := p.(*call); is && x.key == key && x.holds() {
					who = append(who, x.host)
				}
			}
			t.list(who, "holds", "hold", key)
		}
	}},
	{text: "who waits for {key}", make: func(c *clause) act {
		key := c.key("key")
		return func(t *teller) {
			_, queue := t.table(key)
			t.list(queue, "waits for", "wait for", key)
		}
	}},
	{text: "what of {who} and {key}", make: func(c *clause) act {
		who, key := c.who("who"), c.called("key")
		return func(t *teller) { t.say("%s", find[*call](t, who, key).fate()) }
	}},
	{text: "what of {who}", make: func(c *clause) act {
		who := c.who("who")
		return func(t *teller) {
			switch n := t.nodes[who]; {
			case !t.Host(who).Up():
				t.say("%s is down", who)
			case t.failed[who] != nil:
				t.say("%s cannot join: %s", who, reason(t.failed[who]))
			case n == nil:
				t.say("%s is not in the mesh", who)
			case n.Err() != nil:
				t.say("%s is out of the mesh: %s", who, reason(n.Err()))
			default:
				t.say("%s is in the mesh", who)
			}
		}
	}},
	{text: "who leads[ shard {n}]", make: func(c *clause) act {
		n := c.n("n")
		return func(t *teller) { t.list(t.Serving(n), "leads", "lead", "") }
	}},
	{text: "the tokens of {key}", make: func(c *clause) act {
		key := c.key("key")
		return func(t *teller) { t.say("%s", t.tokenOrder(key)) }
	}},
	{text: "whom {who} lists[ within {time}]", make: func(c *clause) act {
		who, d := c.who("who"), c.span("time")
		return func(t *teller) {
			var names []string
			var err error
			t.on(who, func(ctx context.Context, n *mesh.Node) {
				ctx, cancel := d.limit(ctx, t)
				defer cancel()
				var all []mesh.Member
				all, err = n.ListMembers(ctx)
				for _, m := range all {
					if m.State == mesh.MemberDead {
						m.Name += " (dead)"
					}
					names = append(names, m.Name)
				}
			})
			t.result(err, "%s lists "+strings.Join(names, ", "), "%s lists nobody", who)
		}
	}},
	{text: "the health of {who}", make: func(c *clause) act {
		who := c.who("who")
		return func(t *teller) {
			n := t.nodes[who]
			if n == nil {
				t.say("%s is not in the mesh", who)
				return
			}
			switch h := n.Health(); {
			case h.FullyReplicated:
				t.say("all is well")
			case len(h.NoMajority) > 0:
				t.say("some shards do not answer")
			default:
				t.say("some shards lack replicas")
			}
		}
	}},
}

// list says who does something.
func (t *teller) list(who []string, one, many, what string) {
	verb := one
	names := "nobody"
	if n := len(who); n == 1 {
		names = who[0]
	} else if n > 1 {
		names, verb = strings.Join(who[:n-1], ", ")+" and "+who[n-1], many
	}
	t.say("%s", strings.TrimSpace(names+" "+verb+" "+what))
}

// tokenOrder compares the tokens of all who were granted a key, in the order in which
// they were told: "ann < bob < ann".
func (t *teller) tokenOrder(key string) string {
	var granted []*call
	for _, p := range t.parties {
		if c, is := p.(*call); is && c.key == key && c.answered && c.err == nil {
			granted = append(granted, c)
		}
	}
	if len(granted) == 0 {
		return "nobody was granted " + key
	}
	slices.SortStableFunc(granted, func(a, b *call) int { return cmp.Compare(a.granted, b.granted) })
	text := granted[0].host
	for i, c := range granted[1:] {
		before, now := granted[i].lock.Token(), c.lock.Token()
		switch {
		case before < now:
			text += " < "
		case before == now:
			text += " = "
		default:
			text += " > "
		}
		text += c.host
	}
	return text
}
