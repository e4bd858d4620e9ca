package client_test

import (
	"slices"
	"testing"
	"time"

	"github.com/lockmesh/mesh/internal/client"
	"github.com/lockmesh/mesh/internal/env"
	"github.com/lockmesh/mesh/internal/fault"
	"github.com/lockmesh/mesh/shard"
)

// operate is a caller's next move in a world of resources (P39). Callers of one session share users' names, and so do sessions.
func (g *guest) operate() {
	pick := func(use bool) *belief {
		var all []*belief
		for _, b := range g.holds {
			if b.use == use {
				all = append(all, b)
			}
		}
		if len(all) == 0 {
			return nil
		}
		return all[g.rand.IntN(len(all))]
	}
	switch k := g.rand.IntN(16); {
	case k == 0:
		g.sessions = append(g.sessions, client.NewSession(false, ttl))
	case k == 1 && len(g.sessions) > 0:
		s := g.sessions[0]
		g.sessions = g.sessions[1:]
		if s.End(fault.ErrClosed) {
			g.step(client.CloseSession{Session: s})
		}
	case k < 6:
		if b := pick(false); b != nil {
			g.finish(b)
		}
	case k < 9:
		if b := pick(true); b != nil {
			g.unlock(b)
		}
	case k == 9:
		g.drop(g.session(), g.resource(), g.user())
	case k == 10 && g.seed%4 == 0:
		if b := pick(true); b != nil {
			g.holds = slices.DeleteFunc(g.holds, func(o *belief) bool { return o == b })
			g.believed = slices.DeleteFunc(g.believed, func(o *belief) bool { return o == b })
			g.forsaken[b.Key+" "+b.User()] = true
			g.step(client.Keep{Hold: b.Hold})
		}
	case k > 10:
		for range 1 + g.rand.IntN(3) {
			g.begin()
		}
	}
}

func (g *guest) session() *client.Session {
	if n := len(g.sessions); n > 0 && g.rand.IntN(3) == 0 {
		return g.sessions[g.rand.IntN(n)]
	}
	return g.own
}

func (g *guest) resource() string { return []string{"a", "b"}[g.rand.IntN(2)] }
func (g *guest) user() string     { return []string{"ann", "bob"}[g.rand.IntN(2)] }

func (g *guest) begin() {
	o := &shard.Operation{Version: []string{"1", "2"}[g.rand.IntN(4)/3], Alone: g.rand.IntN(2) == 0, Retention: g.upTo(4 * time.Second)}
	switch k := g.rand.IntN(8); {
	case k < 6:
		o.User, o.Durable = g.user(), g.rand.IntN(8) == 0
	case k == 6:
		o.Op = shard.Update
	default:
		o.Op, o.Alone = shard.Delete, true
	}
	c := &client.Call{Kind: client.Lock, Session: g.session(), Request: client.Request{Key: g.resource(), Mode: client.Operates, Operation: o}}
	g.start(c)
	if g.rand.IntN(2) == 0 {
		g.after(g.upTo([]time.Duration{50 * time.Millisecond, 4 * time.Second}[g.rand.IntN(2)]), func() { g.abandon(c) })
	}
}

// finish ends an operation.
func (g *guest) finish(b *belief) {
	b.over = true
	if !b.End(env.Never, fault.ErrClosed) {
		return
	}
	c := &client.Call{Kind: client.Unlock, Session: b.session, Request: b.request, Hold: b.Hold, Failed: g.rand.IntN(5) == 0}
	g.start(c)
	if !g.healed && g.rand.IntN(4) == 0 {
		g.after(g.upTo(200*time.Millisecond), func() { g.abandon(c) })
	}
}

func (g *guest) drop(s *client.Session, key, user string) *client.Call {
	c := &client.Call{Kind: client.Drop, Session: s, Request: client.Request{Key: key, Operation: &shard.Operation{User: user}}}
	g.start(c)
	if !g.healed && g.rand.IntN(3) == 0 {
		g.after(g.upTo(200*time.Millisecond), func() { g.abandon(c) })
	}
	return c
}

// did notes the result of a call.
func (g *guest) did(c *client.Call) {
	h, use := c.Hold, c.Skipped
	switch {
	case c.Kind == client.Unlock && c.Use != nil:
		h, use = c.Use, true
	case c.Kind != client.Lock || c.Err != nil || h == nil:
		return
	}
	b := &belief{Hold: h, guest: g, session: c.Session, request: c.Request, since: g.knows, use: use, made: g.knows}
	h.Owner = b
	if !b.valid() {
		return // its caller looks at the clock
	}
	g.grants++
	for _, o := range g.believed {
		if o.Key != b.Key || b.Key == "keep" || !o.valid() {
			continue
		}
		// One operation at a time; and none that is to run alone beside a use.
		if !o.use && !b.use || !o.use && b.use && o.request.Operation.Alone || o.use && !b.use && b.request.Operation.Alone {
			g.t.Fatalf("seed %d at %v: P39: guest %d has %s as %+v with token %d (a use: %t) in generation %d, beside guest %d with %+v token %d (a use: %t)",
				g.seed, g.now, g.id, b.Key, *b.request.Operation, b.Token, b.use, g.knows, o.guest.id, *o.request.Operation, o.Token, o.use)
		}
	}
	g.believed = append(g.believed, b)
	g.holds = append(g.holds, b)
}

// lookAtUses checks that the table has each use that a caller counts on; in another generation at the latest when it may grant.
func (w *world) lookAtUses() {
	for _, b := range w.believed {
		if !b.use || b.made != w.generation && w.shard.Table().Quiet() > 0 || !b.valid() {
			continue
		}
		refs, _ := w.shard.Table().Refs(b.Key, 0, 1000)
		if !slices.ContainsFunc(refs, func(r shard.Ref) bool { return r.User == b.User() && r.Stamp >= b.Token }) {
			w.t.Fatalf("seed %d at %v: P39: guest %d counts on a use of %s with stamp %d, and the table has %+v", w.seed, w.now, b.guest.id, b.Key, b.Token, refs)
		}
	}
}

// leave heals a world of resources, ends all that runs and is used, and then wants nothing to be used: but durable uses, until
// they are dropped by name. The node's own sessions live on.
func (w *world) leave() {
	w.healed = true
	w.run(3 * time.Second)
	for _, g := range w.guests {
		g.hear(w.generation)
		g.start(&client.Call{Kind: client.Lock, Session: g.own, Request: client.Request{Key: "keep", Mode: client.Shared}})
	}
	calls := func() (n int) {
		for _, g := range w.guests {
			n += len(g.calls)
		}
		return n
	}
	free := func() {
		for _, g := range w.guests {
			for _, b := range slices.Clone(g.holds) {
				switch {
				case b.Key == "keep":
				case b.use:
					g.unlock(b)
				default:
					g.finish(b)
				}
			}
		}
	}
	for limit := w.now + quiet + 4*ttl + 5*time.Second; w.now < limit; free() {
		w.run(50 * time.Millisecond)
	}
	if calls() > 0 {
		for _, g := range w.guests {
			for c := range g.calls {
				w.t.Fatalf("seed %d: guest %d: a call does not end: %+v", w.seed, g.id, c)
			}
		}
	}
	g := w.guests[0]
	refs := func(key string) []shard.Ref {
		c := &client.Call{Kind: client.Ask, Session: g.own, Request: client.Request{Key: key}}
		g.start(c)
		if w.run(time.Second); g.calls[c] || c.Err != nil {
			w.t.Fatalf("seed %d: a question is not answered: %v", w.seed, c.Err)
		}
		return c.Refs
	}
	for _, key := range []string{"a", "b"} {
		for _, r := range refs(key) {
			if !r.Durable && !w.forsaken[key+" "+r.User] {
				w.t.Fatalf("seed %d: nobody has a handle of %s, and it is used: %+v; the table has %+v", w.seed, key, r, w.shard.Table().Records())
			}
		}
		for _, user := range []string{"ann", "bob"} {
			for _, g := range w.guests {
				g.drop(g.own, key, user)
			}
		}
		w.run(time.Second)
		for _, r := range refs(key) {
			if !w.forsaken[key+" "+r.User] {
				w.t.Fatalf("seed %d: %s was dropped by name, and is used: %+v", w.seed, key, r)
			}
		}
	}
}

// Promise: P39, G5: one operation runs at a time, none that is to run alone while anybody counts on a use, and no use is left that nobody
// has: though messages are lost and late, callers give up, and the shard forgets.
func TestResources(t *testing.T) {
	worlds := 150
	if testing.Short() {
		worlds = 40
	}
	grants := 0
	for seed := range uint64(worlds) {
		w := newWorld(t, seed, false, true)
		w.run(3 * time.Second)
		for range 1 + w.rand.IntN(3) {
			w.run(w.upTo(9 * time.Second))
			w.change()
		}
		w.run(quiet)
		w.leave()
		grants += w.grants
	}
	t.Logf("%d worlds: %d grants", worlds, grants)
	if grants < 20*worlds {
		t.Error("too little happened")
	}
}
