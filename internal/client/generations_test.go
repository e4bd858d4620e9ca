package client_test

import (
	"container/heap"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/lockmesh/mesh/internal/client"
	"github.com/lockmesh/mesh/internal/env"
	"github.com/lockmesh/mesh/internal/fault"
	"github.com/lockmesh/mesh/internal/message"
	"github.com/lockmesh/mesh/internal/replica"
	"github.com/lockmesh/mesh/shard"
)

// A world is one shard that loses its table again and again, and the clients that report to the next
// one what they hold and wait for (C8). Clients and replicas are those that ship; a shard has one
// replica at a time, since what a majority does is not the matter here. Messages are lost, late and
// doubled, clocks go at different rates, and clients hear of a new generation late.
type world struct {
	t      *testing.T
	seed   uint64
	rand   *rand.Rand
	now    time.Duration
	agenda agenda
	turns  int  // the last event's: of events at one time the first to be made comes first
	calm   bool // nothing is lost, and all is soon known
	loss   int  // how many of ten messages are lost

	generation uint64
	shard      *replica.Replica // nil: between two generations
	clock      clock            // of its node
	guests     []*guest
	believed   []*belief
	tokens     map[string]uint64 // the highest of each key that is locked as a whole
	resumed    map[uint64]bool   // the generations in which a hold was reported
	healed     bool
	resources  bool            // callers do something to resources, and lock nothing
	durables   []shard.Durable // what the replica before the last change knew of
	forsaken   map[string]bool // the uses that nobody gives back

	grants, lost, kept int
}

// Times of the world. No lease is longer than ttl.
const (
	ttl   = 3 * time.Second
	rho   = 0.01
	quiet = time.Duration(float64(ttl) * (1 + 2*rho))
	host  = 99 // the node of the shard
)

// clock is one node's clock.
type clock struct {
	rate float64
	zero time.Duration
}

func (w *world) newClock() clock {
	return clock{1 - rho + 2*rho*w.rand.Float64(), time.Duration(w.rand.Int64N(int64(time.Hour)))}
}

func (c clock) at(now time.Duration) time.Duration {
	return c.zero + time.Duration(float64(now)*c.rate)
}

// guest is one node's client, and its callers.
type guest struct {
	*world
	id       uint64
	clock    clock
	client   *client.Client
	out      client.Output
	own      *client.Session
	sessions []*client.Session
	calls    map[*client.Call]bool // without a result
	holds    []*belief
	knows    uint64 // of the shard's generations
	next     time.Duration
}

// belief is a hold that a caller has.
type belief struct {
	*client.Hold
	guest   *guest
	session *client.Session
	request client.Request
	since   uint64 // the generation in which it was granted
	over    bool
	use     bool   // of a resource
	made    uint64 // the use: in which generation
}

type agenda []event

type event struct {
	at   time.Duration
	turn int
	do   func()
}

func (a agenda) Len() int { return len(a) }
func (a agenda) Less(i, j int) bool {
	return a[i].at < a[j].at || a[i].at == a[j].at && a[i].turn < a[j].turn
}
func (a agenda) Swap(i, j int) { a[i], a[j] = a[j], a[i] }
func (a *agenda) Push(e any)   { *a = append(*a, e.(event)) }
func (a *agenda) Pop() any {
	old := *a
	e := old[len(old)-1]
	*a = old[:len(old)-1]
	return e
}

func (w *world) after(d time.Duration, do func()) {
	w.turns++
	heap.Push(&w.agenda, event{w.now + d, w.turns, do})
}

func (w *world) upTo(d time.Duration) time.Duration {
	return time.Duration(w.rand.Int64N(int64(d) + 1))
}

// run plays everything that is due within d.
func (w *world) run(d time.Duration) {
	for end := w.now + d; ; {
		if len(w.agenda) == 0 || w.agenda[0].at > end {
			w.now = end
			return
		}
		e := heap.Pop(&w.agenda).(event)
		w.now = e.at
		e.do()
	}
}

func newWorld(t *testing.T, seed uint64, calm, resources bool) *world {
	w := &world{t: t, seed: seed, rand: rand.New(rand.NewPCG(seed, 8)), calm: calm, tokens: make(map[string]uint64), resumed: make(map[uint64]bool), resources: resources, forsaken: make(map[string]bool)}
	w.loss = []int{1, 1, 5}[w.rand.IntN(3)]
	w.clock = w.newClock()
	w.begin(false)
	only := []replica.Peer{{Node: host, Name: "host"}}
	view := client.View{Core: only, Targets: [][]replica.Peer{only}}
	for i := range 2 + w.rand.IntN(4) {
		g := &guest{world: w, id: uint64(1 + i), clock: w.newClock(), calls: make(map[*client.Call]bool), own: client.NewSession(true, ttl), knows: 1}
		g.client = client.New(client.Config{
			Node: g.id, Name: fmt.Sprint("guest", i), Shards: 1, Generation: 1, Rho: rho, Rand: rand.New(rand.NewPCG(seed, uint64(i))),
		})
		w.guests = append(w.guests, g)
		g.step(client.Viewed{View: view})
		w.after(w.upTo(time.Second), g.act)
	}
	w.after(0, w.tick)
	return w
}

// begin begins a generation. The first grants at once.
func (w *world) begin(young bool) {
	w.generation++
	name := w.generation
	f := shard.Founding{Revision: 1000 * name, Check: true, Observe: func(d shard.Decision) {
		if d.What == shard.Resumed {
			w.resumed[name] = true
		}
	}}
	if w.behind() {
		f.Revision = 1000
	}
	if young {
		f.Settles = quiet
	}
	w.shard = replica.New(replica.Config{
		Generation: name, ID: 1, Self: replica.Peer{Node: host}, Founders: []replica.Peer{{Node: host}},
		Founding: f, Rho: rho, Seed: w.rand.Uint64(), Logger: slog.New(slog.DiscardHandler), Counters: new(replica.Counters),
	}, w.clock.at(w.now))
}

// behind reports whether the clocks by which tables get their first revisions stand still (P17).
func (w *world) behind() bool { return w.seed%3 == 0 }

// change ends the generation: the replica is fenced, and forgotten. Another one begins after a while, and
// each client hears of it at some time.
func (w *world) change() {
	if w.shard != nil {
		w.durables = w.shard.Table().Durables()
	}
	w.shard = nil
	most := 3 * time.Second
	if w.calm || w.seed%2 == 0 {
		most = 200 * time.Millisecond
	}
	w.after(w.upTo(most), func() {
		w.clock = w.newClock()
		w.begin(true)
		name := w.generation
		for _, g := range w.guests {
			w.after(w.upTo(most), func() { g.hear(name) })
		}
	})
}

func (g *guest) hear(generation uint64) {
	if generation > g.knows {
		g.knows = generation
		g.step(client.Generation{Name: generation, Quiet: quiet})
		g.step(client.Remembered{Session: g.own, Uses: g.durables})
	}
}

// tick drives the replica.
func (w *world) tick() {
	if w.shard != nil {
		w.shard.Tick(w.clock.at(w.now), true)
		w.ready()
		w.lookAtUses()
	}
	w.after(replica.TickInterval, w.tick)
}

func (w *world) ready() {
	var out replica.Output
	now := w.clock.at(w.now)
	for r := w.shard; !r.Rests() || r.WakeAt() <= now; {
		if r.WakeAt() <= now {
			r.Wake(now)
		}
		r.Ready(now, &out)
	}
	if err := w.shard.Err(); err != nil {
		w.t.Fatalf("seed %d: %v", w.seed, err)
	}
	by := message.Leadership{Generation: w.generation}
	if w.shard.Serving() {
		by.Leader, by.Term = host, w.shard.Term()
	}
	for _, e := range out.Events {
		if e.Answers() {
			w.reply(e.Session.Node, &message.Reply{Event: e, Revision: w.shard.Revision(), Leadership: by})
		}
	}
	for _, a := range out.Answers {
		w.reply(a.Session.Node, &message.Answer{Answer: a, Leadership: by})
	}
	for _, v := range out.Views {
		w.reply(v.Node, &message.View{View: v, Leadership: by})
	}
	if out.Serving {
		for _, g := range w.guests {
			w.reply(g.id, &message.Serving{Generation: w.generation, Term: by.Term})
		}
	}
}

// travel lets a message arrive soon, late, twice or never.
func (w *world) travel(arrive func()) {
	copies := 1
	if !w.calm && !w.healed {
		switch k := w.rand.IntN(10); {
		case k < w.loss:
			copies = 0
		case k == 9:
			copies = 2
		}
	}
	for range copies {
		d := w.upTo(20 * time.Millisecond)
		if !w.calm && !w.healed && w.rand.IntN(20) == 0 {
			d = w.upTo(4 * time.Second)
		}
		w.after(d, arrive)
	}
}

func (w *world) reply(node uint64, m message.Message) {
	g := w.guests[node-1]
	w.travel(func() { g.step(client.Received{From: host, Message: m}) })
}

// receive is what the shard's node does with a message of a client.
func (w *world) receive(m message.Message) {
	if w.shard == nil || !w.shard.Serving() {
		return
	}
	now := w.clock.at(w.now)
	switch m := m.(type) {
	case *message.Request:
		if m.Generation != w.generation {
			return
		}
		_ = w.shard.Submit(now, m.Command, m.Raw) // it serves
	case *message.Renewal:
		if m.Generation != w.generation {
			return
		}
		_ = w.shard.Renew(now, m.Renewal)
	case *message.Query:
		if m.Generation != w.generation {
			return
		}
		_ = w.shard.Query(now, m.Query)
	}
	w.ready()
}

// step gives the client an input, and carries out what comes of it.
func (g *guest) step(in client.Input) {
	now := g.clock.at(g.now)
	g.client.Step(now, in, &g.out)
	for g.client.Deadline() <= now {
		g.client.Step(now, client.Tick{}, &g.out)
	}
	events, sends := slices.Clone(g.out.Events), slices.Clone(g.out.Sends)
	g.out.Reset()
	var lost []*client.Session
	for _, e := range events {
		switch e := e.(type) {
		case client.Finished:
			g.finished(e.Call)
		case client.End:
			e.Hold.End(env.Never, e.Cause)
		case client.SessionLost:
			lost = append(lost, e.Session)
		}
	}
	for _, s := range sends {
		g.travel(func() { g.receive(s.Message) })
	}
	g.look()
	for _, s := range lost {
		g.step(client.LoseSession{Session: s})
	}
	if d := g.client.Deadline(); d != env.Never && (g.next <= g.now || g.due(d) < g.next) {
		g.next = g.due(d)
		g.after(g.next-g.now, func() {
			if g.next <= g.now {
				g.next = 0
			}
			g.step(client.Tick{})
		})
	}
}

// due returns when the guest's clock shows d, or a little later.
func (g *guest) due(d time.Duration) time.Duration {
	return max(g.now, time.Duration(float64(d-g.clock.zero)/g.clock.rate)) + time.Millisecond
}

// finished notes the result of a call.
func (g *guest) finished(c *client.Call) {
	if !g.calls[c] {
		if c.Parker == nil { // none of a caller's
			return
		}
		g.t.Fatalf("seed %d: guest %d: a call is finished twice: %+v", g.seed, g.id, c)
	}
	delete(g.calls, c)
	if g.resources {
		g.did(c)
		return
	}
	if c.Kind != client.Lock || c.Err != nil {
		return
	}
	b := &belief{Hold: c.Hold, guest: g, session: c.Session, request: c.Request, since: g.knows}
	c.Hold.Owner = b
	if !b.valid() {
		return // its caller looks at the clock
	}
	g.grants++
	weight, capacity := b.request.Share()
	var beside []string
	for _, o := range g.believed {
		if o.Key == b.Key && o.valid() {
			used, _ := o.request.Share()
			weight += used
			beside = append(beside, fmt.Sprintf("guest %d token %d of generation %d", o.guest.id, o.Token, o.since))
		}
	}
	if weight > capacity {
		g.t.Fatalf("seed %d at %v: G1: guest %d has %s with token %d in generation %d, beside %v", g.seed, g.now, g.id, b.Key, b.Token, g.knows, beside)
	}
	if g.behind() && g.knows > 1 && !g.resumed[g.knows] {
		clear(g.tokens) // a shard learns of a token when one is reported
	}
	if whole, _ := b.request.Share(); whole == capacity {
		if b.Token <= g.tokens[b.Key] {
			g.t.Fatalf("seed %d at %v: G2: guest %d has %s with token %d in generation %d, after %d", g.seed, g.now, g.id, b.Key, b.Token, g.knows, g.tokens[b.Key])
		}
		g.tokens[b.Key] = b.Token
	}
	g.believed = append(g.believed, b)
	g.holds = append(g.holds, b)
}

// valid reports whether the holder may count on its hold.
func (b *belief) valid() bool {
	return !b.over && b.Err() == nil && b.guest.clock.at(b.guest.now) < b.Deadline()
}

// look ends what is over by the guest's clock, as the node's watch does.
func (g *guest) look() {
	now := g.clock.at(g.now)
	var ended []*client.Session
	g.holds = slices.DeleteFunc(g.holds, func(b *belief) bool {
		if b.End(now, fault.ErrLost) && !b.session.Own && !b.Fixed() && b.session.End(fault.ErrLost) {
			ended = append(ended, b.session)
		}
		if b.Err() == fault.ErrLost && !b.over && !b.Fixed() {
			g.lost++
		}
		if b.Err() == nil && b.since != g.knows {
			g.kept++
			b.since = g.knows
		}
		b.over = b.over || b.Err() != nil
		return b.over
	})
	g.believed = slices.DeleteFunc(g.believed, func(b *belief) bool { return b.over })
	for _, s := range ended {
		g.step(client.LoseSession{Session: s})
	}
}

// act is a caller's next move.
func (g *guest) act() {
	if g.healed {
		return
	}
	g.after(g.upTo(600*time.Millisecond), g.act)
	if g.resources {
		g.operate()
		return
	}
	switch k := g.rand.IntN(10); {
	case k == 0:
		g.sessions = append(g.sessions, client.NewSession(false, []time.Duration{ttl, ttl / 2}[g.rand.IntN(2)]))
	case k == 1 && len(g.sessions) > 0:
		s := g.sessions[0]
		g.sessions = g.sessions[1:]
		if s.End(fault.ErrClosed) {
			g.step(client.CloseSession{Session: s})
		}
	case k < 5 && len(g.holds) > 0:
		g.unlock(g.holds[g.rand.IntN(len(g.holds))])
	case k == 5 && len(g.holds) > 0:
		if b := g.holds[g.rand.IntN(len(g.holds))]; b.Fixed() && b.valid() {
			g.start(&client.Call{Kind: client.Fix, Hold: b.Hold, Length: 200*time.Millisecond + g.upTo(ttl-200*time.Millisecond)})
		}
	default:
		g.lock()
	}
}

func (g *guest) lock() {
	s := g.own
	if n := len(g.sessions); n > 0 && g.rand.IntN(2) == 0 {
		s = g.sessions[g.rand.IntN(n)]
	}
	q := client.Request{Key: []string{"a", "b", "s"}[g.rand.IntN(3)], Mode: client.Mode(g.rand.IntN(2)), Try: g.rand.IntN(5) == 0}
	if q.Key == "s" {
		q.Mode, q.Capacity, q.Weight = client.Permits, 3, 1+g.rand.Int64N(2)
	}
	if g.rand.IntN(5) == 0 {
		q.MaxHold = 300*time.Millisecond + g.upTo(ttl-300*time.Millisecond)
	}
	c := &client.Call{Kind: client.Lock, Session: s, Request: q}
	g.start(c)
	if g.rand.IntN(2) == 0 {
		g.after(g.upTo(8*time.Second), func() { g.abandon(c) })
	}
}

func (g *guest) start(c *client.Call) {
	g.calls[c], c.Parker = true, still{}
	g.step(client.Start{Call: c})
}

// still is where no caller waits.
type still struct{ env.Parker }

func (g *guest) abandon(c *client.Call) {
	if g.calls[c] {
		g.step(client.Abandon{Call: c, Cause: fmt.Errorf("given up")})
	}
}

func (g *guest) unlock(b *belief) {
	b.over = true
	if !b.End(env.Never, fault.ErrClosed) {
		return
	}
	c := &client.Call{Kind: client.Unlock, Hold: b.Hold}
	g.start(c)
	if !g.healed && g.rand.IntN(3) == 0 {
		g.after(g.upTo(time.Second), func() { g.abandon(c) })
	}
}

// play lets a shard change its generation several times, and then checks the end.
func (w *world) play() {
	w.run(3 * time.Second)
	for range 1 + w.rand.IntN(4) {
		w.change()
		w.run(w.upTo(9 * time.Second))
	}
	w.run(quiet)
	w.end()
}

// end heals the world, in which every call must then end, and every key be free once all have unlocked.
func (w *world) end() {
	w.healed = true
	w.run(3 * time.Second) // the last generation has begun
	for _, g := range w.guests {
		g.hear(w.generation)
	}
	free := func() {
		for _, g := range w.guests {
			for _, b := range slices.Clone(g.holds) {
				g.unlock(b)
			}
		}
	}
	calls := func() (n int) {
		for _, g := range w.guests {
			n += len(g.calls)
		}
		return n
	}
	// The last quiet time, and the longest lease that nobody closed.
	for limit := w.now + quiet + 2*ttl + 5*time.Second; w.now < limit && calls() > 0; free() {
		w.run(50 * time.Millisecond)
	}
	for _, g := range w.guests {
		for c := range g.calls {
			w.t.Fatalf("seed %d: guest %d: a call does not end: %+v", w.seed, g.id, c)
		}
	}
	free()
	for limit := w.now + 2*ttl; w.now < limit; free() {
		w.run(50 * time.Millisecond)
	}
	g := w.guests[0]
	for _, key := range []string{"a", "b"} {
		c := &client.Call{Kind: client.Lock, Session: g.own, Request: client.Request{Key: key}}
		g.start(c)
		w.run(time.Second)
		if g.calls[c] || c.Err != nil {
			w.t.Fatalf("seed %d at %v: %s is free, and is not granted: %+v, the table has %+v", w.seed, w.now, key, c, w.shard.Table().Records())
		}
	}
}

// Promise: G1, G2: nobody believes in a key beside another one, and tokens rise, though the shard forgets.
func TestGenerations(t *testing.T) {
	worlds := 300
	if testing.Short() {
		worlds = 50
	}
	var sum world
	for seed := range uint64(worlds) {
		w := newWorld(t, seed, false, false)
		w.play()
		sum.grants, sum.kept, sum.lost = sum.grants+w.grants, sum.kept+w.kept, sum.lost+w.lost
	}
	t.Logf("%d worlds: %d grants, %d holds went over into another generation, %d were lost", worlds, sum.grants, sum.kept, sum.lost)
	if sum.grants < 20*worlds || sum.kept < worlds || sum.lost == 0 {
		t.Error("too little happened")
	}
}

// Promise: C8: where nothing is lost and clients hear soon of a new generation, no hold is lost with the old one.
func TestHoldsOutliveTheirTable(t *testing.T) {
	worlds := 200
	if testing.Short() {
		worlds = 30
	}
	kept := 0
	for seed := range uint64(worlds) {
		w := newWorld(t, seed, true, false)
		w.play()
		if kept += w.kept; w.lost > 0 {
			t.Errorf("seed %d: %d holds are lost, %d are kept", seed, w.lost, w.kept)
		}
	}
	if kept < 3*worlds {
		t.Errorf("%d holds in %d worlds went over into another generation", kept, worlds)
	}
}
