package story

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/lockmesh/mesh"
	"github.com/lockmesh/mesh/simulate"
)

// candidate is a caller that campaigns in an election, and leads until the story lets it resign.
type candidate struct {
	caller
	leadership *mesh.Leadership
	resigned   bool
	undone     error // what Resign returned
}

func (c *candidate) run(ctx context.Context, e *mesh.Election) {
	c.leadership, c.err = e.Campaign(c.patient, []byte(c.host))
	c.answered = true
	if c.err == nil {
		_ = simulate.Wait(c.patient, nil)
		if !c.resigned {
			_ = c.leadership.Resign(ctx)
		}
	}
}

// leads reports whether the caller believes that it leads.
func (c *candidate) leads() bool {
	return !c.crashed() && c.answered && c.err == nil && !c.resigned && c.leadership.Context().Err() == nil
}

func (c *candidate) fate() string {
	switch {
	case c.crashed():
		return fmt.Sprintf("%s crashed", c.host)
	case !c.answered:
		return fmt.Sprintf("%s waits for %s", c.host, c.name)
	case c.err != nil:
		return fmt.Sprintf("%s does not get %s: %s", c.host, c.name, reason(c.err))
	case c.leads():
		return fmt.Sprintf("%s leads %s", c.host, c.name)
	case !c.resigned || errors.Is(c.undone, mesh.ErrLost):
		return fmt.Sprintf("%s has lost %s", c.host, c.name)
	case c.undone != nil:
		return fmt.Sprintf("%s resigns %s: %s", c.host, c.name, reason(c.undone))
	}
	return fmt.Sprintf("%s has resigned %s", c.host, c.name)
}

// watcher is one observer of an election. It judges what it sees: tokens never go back, nor what one leader says.
type watcher struct {
	host string
	key  string
	last mesh.LeaderState
	seen bool
	back string // what it should not have seen
}

func (w *watcher) run(ctx context.Context, e *mesh.Election) {
	var before mesh.LeaderState
	for s := range e.Observe(ctx) {
		if s.Token != 0 {
			if s.Token < before.Token || s.Token == before.Token && s.Sequence < before.Sequence {
				w.back = fmt.Sprintf("token %d sequence %d after token %d sequence %d", s.Token, s.Sequence, before.Token, before.Sequence)
			}
			before = s
		}
		w.last, w.seen = s, true
	}
}

// shows says what the observer has seen last: a value, "nobody", or "unknown".
func (w *watcher) shows() string {
	switch {
	case !w.seen || w.last.Unknown:
		return "unknown"
	case w.last.Token == 0:
		return "nobody"
	}
	return string(w.last.Value)
}

var electionForms = []*form{
	{text: "{who} campaigns for {key}", make: func(c *clause) act {
		who, key := c.who("who"), c.key("key")
		c.parser.keys[key] = true
		return func(t *teller) {
			x := &candidate{}
			t.begin(x, who, "candidate for", key, func(ctx context.Context, n *mesh.Node) { x.run(ctx, n.Election(t.plan.key(key))) })
			t.hear(x, short)
		}
	}},
	{text: "{who} proclaims {name} in {key}", make: proclaims(patience)},
	{text: "{who} hastily proclaims {name} in {key}", make: proclaims(haste)},
	{text: "{who} resigns {key}", make: func(c *clause) act {
		who, key := c.who("who"), c.called("key")
		return func(t *teller) {
			x := t.candidate(who, key)
			x.resigned = true
			t.Host(who).Do(t.ctx, "story", func(ctx context.Context) {
				ctx, cancel := simulate.WithTimeout(ctx, patience)
				defer cancel()
				x.undone = x.leadership.Resign(ctx)
			})
			x.letGo()
			t.say("%s", x.fate())
		}
	}},
	{text: "{who} observes {key}", make: func(c *clause) act {
		who, key := c.who("who"), c.key("key")
		c.parser.keys[key] = true
		return func(t *teller) {
			n := t.node(who)
			w := &watcher{host: who, key: key}
			t.watchers = append(t.watchers, w)
			t.Host(who).Go("observer of "+key, func(ctx context.Context) { w.run(ctx, n.Election(t.plan.key(key))) })
		}
	}},
	{text: "{who} asks who is elected in {key}", make: func(c *clause) act {
		who, key := c.who("who"), c.key("key")
		return func(t *teller) {
			var s mesh.LeaderState
			var err error
			t.on(who, func(ctx context.Context, n *mesh.Node) { s, err = n.Election(t.plan.key(key)).Leader(ctx) })
			if err != nil {
				t.say("%s hears nothing of %s: %s", who, key, reason(err))
				return
			}
			t.say("%s leads %s and says %s", s.Node, key, s.Value)
		}
	}},
}

// proclaims proclaims something, and waits so long for the answer.
func proclaims(wait time.Duration) func(*clause) act {
	return func(c *clause) act {
		who, key, value := c.who("who"), c.called("key"), c.args["name"]
		return func(t *teller) {
			x := t.candidate(who, key)
			var err error
			t.Host(who).Do(t.ctx, "story", func(ctx context.Context) {
				ctx, cancel := simulate.WithTimeout(ctx, wait)
				defer cancel()
				err = x.leadership.Proclaim(ctx, []byte(value))
			})
			t.result(err, "%s has proclaimed %s", "%s proclaims %s", who, value)
		}
	}
}

// candidate returns the latest candidacy of a host, which must have come to its turn.
func (t *teller) candidate(host, key string) *candidate {
	c := find[*candidate](t, host, key)
	if c.leadership == nil {
		t.fail("story", "%s", c.fate())
	}
	return c
}

// seesTest is the condition of what a host's observer has seen last.
func seesTest(c *clause) test {
	who, key, value := c.who("who"), c.called("key"), c.args["name"]
	return func(t *teller) bool {
		for _, w := range slices.Backward(t.watchers) {
			if w.host != who || w.key != key {
				continue
			}
			if w.back != "" {
				t.fail("P46", "%s saw in %s %s", who, key, w.back)
			}
			return w.shows() == value
		}
		return false
	}
}
