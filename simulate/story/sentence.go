package story

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/lockmesh/mesh"
	"github.com/lockmesh/mesh/simulate"
)

// sentences returns every form but those of conditions, in the order in which they are tried.
var sentences = sync.OnceValue(func() []*form {
	all := slices.Concat(timeForms, callForms, resourceForms, electionForms, gateForms, nodeForms, faultForms, messageForms, questionForms)
	for _, f := range all {
		f.compile()
	}
	return all
})

// Sentences about time, and about what must be so.
var timeForms = []*form{
	{text: "pass {time}", make: func(c *clause) act {
		d := c.span("time")
		return func(t *teller) { t.sleep(d.draw(t)) }
	}},
	{text: "until {what}[,] within {time}", judges: true, make: func(c *clause) act {
		return c.until(c.span("time").to)
	}},
	{text: "until {what}", judges: true, make: func(c *clause) act { return c.until(2 * time.Minute) }},
	{text: "throughout {time}, {what}", judges: true, make: func(c *clause) act {
		d := c.span("time")
		cond, class := c.judged("story")
		return func(t *teller) {
			cond.starts(t)
			for end := t.Now() + d.draw(t); t.Now() < end; t.sleep(look) {
				t.must(cond, class)
			}
		}
	}},
	{text: "after {time}: {what}", make: func(c *clause) act {
		d, then := c.span("time"), c.inner()
		return func(t *teller) {
			t.beside("later", func(t *teller) { t.sleep(d.draw(t)); then(t) })
		}
	}},
	{text: "every {time}: {what}", make: func(c *clause) act {
		d, then := c.span("time"), c.inner()
		return func(t *teller) {
			t.beside("again and again", func(t *teller) {
				for {
					if t.sleep(d.draw(t)); t.ending {
						return
					}
					then(t)
				}
			})
		}
	}},
	{text: "when {messages} are sent: {what}", make: func(c *clause) act {
		p, err := c.parser.messages(c.args["messages"])
		c.fail(err)
		then := c.inner()
		return func(t *teller) {
			t.traffic.watches = append(t.traffic.watches, &watch{phrase: p, then: func() { t.beside("then", then) }})
		}
	}},
}

// inner reads the sentence inside of a sentence.
func (c *clause) inner() act {
	a, err := c.parser.sentence(c.args["what"])
	c.fail(err)
	return a
}

// Sentences about locks. The options of a call may follow in this order.
const options = "[ for {time:hold}][ in {name:session}][ as {name:as}][ with patience {time:patience}]"

var callForms = []*form{
	callForm("{who} locks {key}"+options, locks, true),
	callForm("{who} asks for {n} of {n:of} permits of {key}"+options, permits, false),
	callForm("{who} takes {n} of {n:of} permits of {key}"+options, permits, true),
	callForm("{who} tries for {n} of {n:of} permits of {key}"+options, triesPermits, true),
	callForm("{who} asks to read {key}"+options, reads, false),
	callForm("{who} asks for {key}"+options, locks, false),
	callForm("{who} tries to read {key}"+options, triesToRead, true),
	callForm("{who} tries {key}"+options, triesToLock, true),
	callForm("{who} reads {key}"+options, reads, true),
	{text: "{who} enters {key} again as {name}", make: func(c *clause) act { return c.inside(true) }},
	{text: "{who} forgets that it has {key}, and locks it as {name}", make: func(c *clause) act { return c.inside(false) }},
	{text: "{who} asks for {n} keys[ with {n:bytes} bytes each]", make: func(c *clause) act {
		who, n, size := c.who("who"), c.n("n"), c.n("bytes")
		for i := range n {
			c.parser.keys[oneOfMany(i)] = true
		}
		return func(t *teller) {
			for i := range n {
				t.take(who, request{key: oneOfMany(i), value: make([]byte, size)})
			}
		}
	}},
	{text: "{n} callers of {who} ask for {key}", make: func(c *clause) act {
		n, who, key := c.n("n"), c.who("who"), c.key("key")
		c.parser.keys[key] = true
		return func(t *teller) {
			for range n {
				t.take(who, request{key: key})
			}
		}
	}},
	{text: "{who} unlocks {key}", make: func(c *clause) act { return c.unlock(false, true) }},
	{text: "{who} downgrades {key}", make: downgrades(patience)},
	{text: "{who} hastily downgrades {key}", make: downgrades(haste)},
	{text: "{who} hastily unlocks {key}", make: func(c *clause) act { return c.unlock(true, true) }},
	{text: "{who} begins to unlock {key}", make: func(c *clause) act { return c.unlock(false, false) }},
	{text: "{who} gives up {key}", make: func(c *clause) act { return c.unlock(false, true) }},
	{text: "{who} extends {key} by {time}[ with patience {time:patience}]", make: func(c *clause) act {
		who, key, d, patient := c.who("who"), c.called("key"), c.span("time"), c.span("patience")
		return func(t *teller) {
			x := t.granted(who, key)
			var err error
			t.Host(who).Do(t.ctx, "story", func(ctx context.Context) {
				ctx, cancel := patient.limit(ctx, t)
				defer cancel()
				err = x.lock.Extend(ctx, d.draw(t))
			})
			t.result(err, "%s has extended %s", "%s cannot extend %s", who, key)
		}
	}},
	{text: "{who} opens session {name}[ with ttl {time}]", make: func(c *clause) act {
		who, name, ttl := c.who("who"), c.args["name"], c.span("time")
		c.parser.sessions = append(c.parser.sessions, name)
		return func(t *teller) {
			s := &session{}
			t.on(who, func(ctx context.Context, n *mesh.Node) {
				var opts []mesh.SessionOption
				if ttl.to > 0 {
					opts = append(opts, mesh.WithTTL(ttl.draw(t)))
				}
				s.Session, s.err = n.NewSession(ctx, opts...)
			})
			if s.err != nil {
				t.say("%s does not open session %s: %s", who, name, reason(s.err))
				return
			}
			t.opened[name] = s
		}
	}},
	{text: "{who} closes session {name}", make: func(c *clause) act {
		who, name := c.who("who"), c.session("name")
		return func(t *teller) {
			s := t.session(name)
			t.Host(who).Do(t.ctx, "story", func(ctx context.Context) { s.err = s.Close(ctx) })
			t.result(s.err, "%s has closed session %s", "%s closes session %s", who, name)
		}
	}},
	{text: "{who} writes to {name} under {key}[, {time} on its way]", make: func(c *clause) act {
		who, name, key, d := c.who("who"), c.args["name"], c.called("key"), c.span("time")
		return func(t *teller) {
			token := t.granted(who, key).lock.Token()
			write := func(t *teller) {
				if t.Register(name).Write(token) {
					t.say("%s takes the write of %s", name, who)
				} else {
					t.say("%s refuses the write of %s", name, who)
				}
			}
			if d.to == 0 {
				write(t)
				return
			}
			u := *t // it is heard in the scene in which it arrives
			t.Go("write", func(ctx context.Context) {
				u.ctx = ctx
				u.sleep(d.draw(&u))
				u.scene = t.scene
				write(&u)
			})
		}
	}},
}

func oneOfMany(i int) string { return fmt.Sprintf("one-of-many-%d", i) }

// patience is how long a sentence waits for the end of a call that is not to go on
// beside the story.
const patience = 10 * time.Second

// callForm is a form of a call that takes a key.
func callForm(text string, m mode, wait bool) *form {
	return &form{text: text, make: func(c *clause) act {
		who, r := c.who("who"), request{key: c.key("key"), mode: m, n: int64(c.n("n")), of: int64(c.n("of")), as: c.args["as"]}
		hold, patient, in := c.span("hold"), c.span("patience"), ""
		if c.given("session") {
			in = c.session("session")
		}
		c.parser.keys[r.key], c.parser.keys[r.as] = true, true
		return func(t *teller) {
			r := r
			r.hold, r.patience = hold.draw(t), patient.draw(t)
			if in != "" {
				r.session = t.session(in)
			}
			x := t.take(who, r)
			if wait {
				t.hear(x, patience)
			}
		}
	}}
}

// inside is a call by a context that holds the key already (P37).
func (c *clause) inside(reentrant bool) act {
	who, key, name := c.who("who"), c.called("key"), c.args["name"]
	c.parser.keys[name] = true
	return func(t *teller) {
		outer := find[*call](t, who, key)
		if !outer.holds() {
			t.fail("story", "%s does not hold %s", who, key)
		}
		r := outer.request
		r.as, r.outer, r.reentrant, r.hold, r.patience = name, outer, reentrant, 0, 0
		x := t.take(who, r)
		t.within(patience, "G6 bound", who+" enters "+key+", or not", func() bool { return x.answered })
		t.say("%s", x.fate())
	}
}

// key returns a key, as the story calls it.
func (c *clause) key(name string) string {
	key := c.args[name]
	c.fail(c.parser.story.plan.hasKey(key))
	return key
}

// called returns a key, or the name of a call, that was mentioned before.
func (c *clause) called(name string) string {
	key := c.args[name]
	if !c.parser.keys[key] {
		c.fail(fmt.Errorf("nobody has asked for %q yet", key))
	}
	return key
}

func (c *clause) session(name string) string {
	if s := c.args[name]; !slices.Contains(c.parser.sessions, s) {
		c.fail(fmt.Errorf("nobody has opened a session %q yet", s))
	}
	return c.args[name]
}

func (t *teller) session(name string) *session {
	s := t.opened[name]
	if s == nil {
		t.fail("story", "session %s was not opened", name)
	}
	return s
}

// downgrades makes a writer a reader, and waits so long for the answer.
func downgrades(wait time.Duration) func(*clause) act {
	return func(c *clause) act {
		who, key := c.who("who"), c.called("key")
		return func(t *teller) {
			x := t.granted(who, key)
			var reader *mesh.Lock
			var err error
			x.downgrading = make(chan struct{})
			t.Host(who).Do(t.ctx, "story", func(ctx context.Context) {
				ctx, cancel := simulate.WithTimeout(ctx, wait)
				defer cancel()
				if reader, err = x.lock.Downgrade(ctx); reader != nil {
					x.lock = reader
				}
				close(x.downgrading)
			})
			t.result(err, "%s reads %s", "%s downgrades %s", who, key)
		}
	}
}

// unlock lets a caller go: it gives up waiting, or unlocks.
func (c *clause) unlock(hasty, wait bool) act {
	who, key := c.who("who"), c.called("key")
	return func(t *teller) {
		x := find[*call](t, who, key)
		x.hasty = hasty
		x.letGo()
		if !wait {
			return
		}
		t.within(t.plan.ttl+patience, "G6 bound", who+" is done with "+key, func() bool { return x.over || x.crashed() })
		t.say("%s", x.fate())
	}
}

// result says how a call that returns an error alone went.
func (t *teller) result(err error, well, badly string, args ...any) {
	if err == nil {
		t.say(well, args...)
	} else {
		t.say(badly+": %s", append(args, reason(err))...)
	}
}

// Sentences about nodes as members of the mesh.
var nodeForms = []*form{
	{text: "start {who} at the entry of {who:other}", make: func(c *clause) act {
		who, entry := c.who("who"), c.who("other")
		return func(t *teller) {
			t.own[who] = joiner{opts: []mesh.Option{mesh.WithEntry(t.plan.address(entry))}}
			t.boot(who)
		}
	}},
	{text: "start {hosts}[ with seeds {hosts:seeds}]", make: func(c *clause) act {
		hosts, seeds := c.hosts("hosts"), c.hosts("seeds")
		if c.args["hosts"] == "all" {
			hosts = c.parser.story.plan.first
		}
		return func(t *teller) {
			for _, h := range hosts {
				if seeds != nil {
					t.own[h] = joiner{seeds: c.parser.story.plan.addresses(seeds)}
				}
				t.boot(h)
			}
		}
	}},
	{text: "the entry of {who} leads to {hosts:to}", make: func(c *clause) act {
		who, to := c.who("who"), c.hosts("to")
		return func(t *teller) { t.Net.Balance(t.plan.address(who), t.plan.addresses(to)...) }
	}},
	{text: "the mesh settles[ within {time}]", make: func(c *clause) act {
		d := c.span("time").to
		if d == 0 {
			d = time.Minute
		}
		return func(t *teller) { t.founded(d) }
	}},
	{text: "there may be {n} meshes", make: func(c *clause) act {
		n := c.n("n")
		return func(t *teller) { t.History().Meshes = n }
	}},
	joinForm("{who} joins", func(*clause) joiner { return joiner{} }),
	joinForm("{who} joins with {n} shards", func(c *clause) joiner {
		return joiner{opts: []mesh.Option{mesh.WithShards(c.n("n"))}}
	}),
	joinForm("{who} joins and asks for nothing", func(*clause) joiner { return joiner{silent: true} }),
	joinForm("{who} joins mesh {name}", func(c *clause) joiner {
		return joiner{opts: []mesh.Option{mesh.WithMeshName(c.args["name"])}}
	}),
	joinForm("{who} joins by the name of {who:other}", func(c *clause) joiner {
		return joiner{opts: []mesh.Option{mesh.WithName(c.who("other"))}}
	}),
	joinForm("{who} joins as {what:address}", func(c *clause) joiner {
		return joiner{opts: []mesh.Option{mesh.WithAdvertise(c.args["address"])}}
	}),
	joinForm("{who} joins without a port", func(*clause) joiner {
		return joiner{portless: true, opts: []mesh.Option{mesh.WithClientOnly()}}
	}),
	joinForm("{who} joins without seeds", func(*clause) joiner { return joiner{seeds: []string{}} }),
	joinForm("{who} founds a mesh of one", func(*clause) joiner {
		return joiner{seeds: []string{}, opts: []mesh.Option{mesh.WithFound()}}
	}),
	operatorForm("{who} leaves[ within {time}]", leaves),
	{text: "{who} begins to leave[ within {time}]", make: func(c *clause) act {
		leave := c.operates(leaves)
		return func(t *teller) { t.beside("leave", leave) }
	}},
	operatorForm("{who} declares {who:other} dead[ within {time}]", func(c *clause) operator {
		other := c.who("other")
		return operator{func(ctx context.Context, n *mesh.Node, at addresses) error {
			return n.DeclareDead(ctx, at(other))
		}, "has declared " + other + " dead", "cannot declare " + other + " dead"}
	}),
	operatorForm("{who} adds {who:other} to the core[ within {time}]", func(c *clause) operator {
		other := c.who("other")
		return operator{func(ctx context.Context, n *mesh.Node, at addresses) error {
			return n.ChangeCore(ctx, at(other), "")
		}, "has added " + other, "cannot add " + other}
	}),
	operatorForm("{who} removes {who:other} from the core[ within {time}]", func(c *clause) operator {
		other := c.who("other")
		return operator{func(ctx context.Context, n *mesh.Node, at addresses) error {
			return n.ChangeCore(ctx, "", at(other))
		}, "has removed " + other, "cannot remove " + other}
	}),
	operatorForm("{who} replaces {who:other} in the core by {who:next}[ within {time}]", func(c *clause) operator {
		other, next := c.who("other"), c.who("next")
		return operator{func(ctx context.Context, n *mesh.Node, at addresses) error {
			return n.ChangeCore(ctx, at(next), at(other))
		}, "has replaced " + other, "cannot replace " + other}
	}),
	operatorForm("{who} ends the quiet time[ within {time}]", func(*clause) operator {
		return operator{func(ctx context.Context, n *mesh.Node, _ addresses) error {
			return n.EndQuiet(ctx)
		}, "has ended the quiet time", "cannot end the quiet time"}
	}),
	operatorForm("{who} sets MaxTTL to {time:d}[ within {time}]", func(c *clause) operator {
		d := c.span("d").to
		return operator{func(ctx context.Context, n *mesh.Node, _ addresses) error {
			return n.SetMaxTTL(ctx, d)
		}, "has set MaxTTL", "cannot set MaxTTL"}
	}),
	{text: "{who} closes its node", make: func(c *clause) act {
		who := c.who("who")
		return func(t *teller) {
			t.on(who, func(_ context.Context, n *mesh.Node) { _ = n.Close() })
		}
	}},
}

// joiner is what a node asks for that others do not.
type joiner struct {
	opts  []mesh.Option
	seeds []string // nil: those of all
	// silent: it says nothing of the mesh's parameters.
	silent   bool
	portless bool // it opens no port
}

// operator is what an operator does by a node, and what the story says of it.
type operator struct {
	do           func(context.Context, *mesh.Node, addresses) error
	done, failed string
}

// addresses returns where a host's node is.
type addresses = func(host string) string

func operatorForm(text string, own func(c *clause) operator) *form {
	return &form{text: text, make: func(c *clause) act { return c.operates(own) }}
}

func (c *clause) operates(own func(c *clause) operator) act {
	who, d, op := c.who("who"), c.span("time"), own(c)
	return func(t *teller) {
		var err error
		t.on(who, func(ctx context.Context, n *mesh.Node) {
			ctx, cancel := d.limit(ctx, t)
			defer cancel()
			err = op.do(ctx, n, t.plan.address)
		})
		t.result(err, "%s "+op.done, "%s "+op.failed, who)
	}
}

func leaves(*clause) operator {
	return operator{func(ctx context.Context, n *mesh.Node, _ addresses) error { return n.Leave(ctx) }, "has left", "leaves"}
}

func joinForm(text string, own func(c *clause) joiner) *form {
	return &form{text: text, make: func(c *clause) act {
		who := c.args["who"]
		if _, err := c.parser.declare(who); err != nil {
			c.fail(err)
			return nil
		}
		j := own(c)
		return func(t *teller) {
			t.own[who] = j
			t.boot(who)
			t.within(time.Minute, "G6 bound", who+" is in the mesh", func() bool { return t.nodes[who] != nil || t.failed[who] != nil })
			t.result(t.failed[who], "%s is in the mesh", "%s cannot join", who)
		}
	}}
}
