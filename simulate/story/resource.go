package story

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/lockmesh/mesh"
	"github.com/lockmesh/mesh/simulate"
)

// work is a caller that does something to a resource, when the story lets it, and uses the resource then.
type work struct {
	caller
	op        mesh.Op
	operation *mesh.Operation
	skipped   bool // of what is done once
	ended     bool
	failed    bool  // as the story says
	failure   error // of its end
	released  bool
}

func (w *work) run(ctx context.Context, r *mesh.Resource) {
	w.operation, w.err = r.Begin(w.patient, w.op)
	w.answered = true
	_ = simulate.Wait(w.patient, nil)
	if w.runs() {
		_ = w.operation.End(ctx, errFails)
	}
	if w.uses() {
		_ = w.operation.Use().Release(ctx)
	}
}

// runOnce calls Once, whose function ends as the story says.
func (w *work) runOnce(n *mesh.Node, key string, retention time.Duration, opts []mesh.OnceOption) {
	ran, err := n.Once(w.patient, key, retention, func(ctx context.Context, op *mesh.Operation) error {
		w.operation, w.answered = op, true
		_ = simulate.Wait(ctx, nil)
		return errFails // if the story has not ended it
	}, opts...)
	if w.operation == nil {
		w.err, w.skipped, w.answered = err, err == nil && !ran, true
	}
}

// verbs are how stories call operations: as they are asked for, and once they are done.
var verbs = []struct {
	op         mesh.Op
	does, done string
}{
	{mesh.OpPull, "pulls", "has pulled"},
	{mesh.OpUpdate, "updates", "has updated"},
	{mesh.OpDelete, "deletes", "has deleted"},
	{once, "does", "has done"},
}

// once stands for what Once does.
const once = mesh.OpDelete + 1

var errFails = errors.New("it fails")

var resourceForms = []*form{
	workForm("{who} pulls {key}[ version {name}]", mesh.OpPull),
	workForm("{who} updates {key}[ version {name}]", mesh.OpUpdate),
	workForm("{who} deletes {key}[ version {name}]", mesh.OpDelete),
	{text: "{who} does {key} once[ per {time}][ in {n} attempts]", make: func(c *clause) act {
		retention := span{time.Hour, time.Hour}
		if c.given("time") {
			if retention = c.span("time"); retention.from != retention.to {
				c.fail(errors.New("once per a time that is not drawn: one duration"))
			}
		}
		var opts []mesh.OnceOption
		if c.given("n") {
			opts = append(opts, mesh.Attempts(c.n("n")))
		}
		return c.works(once, func(_ context.Context, n *mesh.Node, key string, w *work) {
			w.runOnce(n, key, retention.from, opts)
		})
	}},
	{text: "{who} is done with {key}", make: func(c *clause) act { return c.ends(nil) }},
	{text: "{who} fails with {key}", make: func(c *clause) act { return c.ends(errFails) }},
	{text: "{who} releases {key}", make: func(c *clause) act {
		who, key := c.who("who"), c.called("key")
		return func(t *teller) {
			w := t.work(who, key)
			var err error
			t.Host(who).Do(t.ctx, "story", func(ctx context.Context) { err = w.operation.Use().Release(ctx) })
			w.released = err == nil
			t.result(err, "%s has released %s", "%s releases %s", who, key)
		}
	}},
	{text: "{who} asks who uses {key}", make: func(c *clause) act {
		who, key := c.who("who"), c.key("key")
		return func(t *teller) {
			var users []string
			var err error
			t.on(who, func(ctx context.Context, n *mesh.Node) {
				var refs []mesh.Ref
				refs, err = n.Resource(t.plan.key(key)).Refs(ctx)
				for _, r := range refs {
					users = append(users, r.User)
				}
			})
			if err != nil {
				t.say("%s hears nothing of %s: %s", who, key, reason(err))
				return
			}
			t.list(users, "uses", "use", key)
		}
	}},
}

// workForm is a form of a call that does something to a resource. It waits for the caller's turn for half a second, and
// goes on beside the story.
func workForm(text string, op mesh.Op) *form {
	return &form{text: text, make: func(c *clause) act {
		version := c.args["name"]
		return c.works(op, func(ctx context.Context, n *mesh.Node, key string, w *work) {
			w.run(ctx, n.Resource(key, mesh.Version(version)))
		})
	}}
}

// works begins an operation.
func (c *clause) works(op mesh.Op, run func(ctx context.Context, n *mesh.Node, key string, w *work)) act {
	who, key := c.who("who"), c.key("key")
	c.parser.keys[key] = true
	return func(t *teller) {
		w := &work{op: op}
		t.begin(w, who, "caller of", key, func(ctx context.Context, n *mesh.Node) { run(ctx, n, t.plan.key(key), w) })
		t.hear(w, short)
	}
}

// ends ends a caller's operation.
func (c *clause) ends(failure error) act {
	who, key := c.who("who"), c.called("key")
	return func(t *teller) {
		w := t.work(who, key)
		t.Host(who).Do(t.ctx, "story", func(ctx context.Context) {
			ctx, cancel := simulate.WithTimeout(ctx, patience)
			defer cancel()
			w.failure = w.operation.End(ctx, failure)
		})
		w.ended, w.failed = true, failure != nil
		t.say("%s", w.fate())
	}
}

// work returns the latest operation of a host on a resource, which must have come to its turn.
func (t *teller) work(host, key string) *work {
	w := find[*work](t, host, key)
	if w.operation == nil {
		t.fail("story", "%s", w.fate())
	}
	return w
}

// uses reports whether the caller believes that it uses the resource.
func (w *work) uses() bool {
	return !w.crashed() && w.operation != nil && w.operation.Use() != nil && !w.released && w.operation.Use().Context().Err() == nil
}

// runs reports whether the caller believes that it is its turn.
func (w *work) runs() bool {
	return !w.crashed() && w.operation != nil && !w.operation.Skipped() && !w.ended && w.operation.Context().Err() == nil
}

func (w *work) fate() string {
	verb := verbs[w.op]
	switch {
	case w.crashed():
		return fmt.Sprintf("%s crashed", w.host)
	case !w.answered:
		return fmt.Sprintf("%s waits for %s", w.host, w.name)
	case w.err != nil:
		return fmt.Sprintf("%s does not get %s: %s", w.host, w.name, reason(w.err))
	case w.skipped || w.operation.Skipped():
		return fmt.Sprintf("%s skips %s", w.host, w.name)
	case w.runs():
		return fmt.Sprintf("%s %s %s", w.host, verb.does, w.name)
	case !w.ended:
		return fmt.Sprintf("%s has lost %s", w.host, w.name)
	case w.failed && w.failure == nil:
		return fmt.Sprintf("%s has failed with %s", w.host, w.name)
	case w.failure != nil:
		return fmt.Sprintf("%s is done with %s: %s", w.host, w.name, reason(w.failure))
	}
	return fmt.Sprintf("%s %s %s", w.host, verb.done, w.name)
}
