package story

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/lockmesh/mesh"
	"github.com/lockmesh/mesh/simulate"
)

// stage is where a story happens: a world, the mesh in it, and the calls of its users.
type stage struct {
	*simulate.World
	story    *Story
	plan     *plan
	seeds    []string
	nodes    map[string]*mesh.Node // by host: those that have joined
	ids      map[uint64]string     // node ID -> host, of all nodes that ever joined
	failed   map[string]error      // by host: why its node is not in the mesh
	own      map[string]joiner     // by host: what its node asks for that others do not
	parties  []party               // all callers, in the order in which they came
	watchers []*watcher
	opened   map[string]*session
	traffic  *traffic

	answers [][]string
	ending  bool // the story is told
	over    bool
}

// longest is how long a story may take.
const longest = time.Hour

func newStage(s *Story, w *simulate.World) *stage {
	st := &stage{
		World: w, story: s, plan: s.plan, nodes: make(map[string]*mesh.Node), ids: make(map[uint64]string), failed: make(map[string]error), own: make(map[string]joiner),
		opened: make(map[string]*session), answers: make([][]string, len(s.scenes)),
	}
	st.traffic = newTraffic(st)
	return st
}

// play tells the story, and returns the first failure.
func (s *stage) play() error {
	s.Go("story", func(ctx context.Context) {
		t := &teller{stage: s, ctx: ctx}
		for i, sc := range s.story.scenes {
			for _, step := range sc.steps {
				t.scene, t.step = i, step
				step.act(t)
			}
		}
		t.end()
	})
	return s.RunUntil(func() bool { return s.over }, longest)
}

// teller tells the story, or a part of it that goes on beside. No fault reaches it.
type teller struct {
	*stage
	ctx   context.Context
	scene int
	step  step
	aside bool // what it says is not heard
}

// say adds a line to the scene's answer.
func (t *teller) say(format string, args ...any) {
	if !t.aside {
		t.answers[t.scene] = append(t.answers[t.scene], fmt.Sprintf(format, args...))
	}
}

// beside carries an act out in an actor of its own, while the story goes on.
func (t *teller) beside(name string, act func(t *teller)) {
	u := &teller{stage: t.stage, scene: t.scene, step: t.step, aside: true}
	t.Go(name, func(ctx context.Context) { u.ctx = ctx; act(u) })
}

// sleep lets d pass.
func (t *teller) sleep(d time.Duration) { _ = simulate.Sleep(t.ctx, d) }

// look is how often it is asked whether something has come about.
const look = 2 * time.Millisecond

// within waits until yes, and fails the story if that takes longer than d.
func (t *teller) within(d time.Duration, class, what string, yes func() bool) {
	for end := t.Now() + d; !yes(); t.sleep(look) {
		if t.Now() >= end {
			t.fail(class, "not within %v: %s", d, what)
		}
	}
}

// fail ends the story. It does not return.
func (t *teller) fail(class, format string, args ...any) {
	t.Fail(fmt.Errorf("%s: %s:%d: %s", class, t.story.name, t.step.line, fmt.Sprintf(format, args...)))
	for {
		t.sleep(time.Hour)
	}
}

// node returns the node of a host, which must be in the mesh.
func (t *teller) node(host string) *mesh.Node {
	if t.nodes[host] == nil {
		t.fail("story", "%s is not in the mesh", host)
	}
	return t.nodes[host]
}

// on runs f on a host, with its node, and waits for it.
func (t *teller) on(host string, f func(ctx context.Context, n *mesh.Node)) {
	n := t.node(host)
	t.Host(host).Do(t.ctx, "story", func(ctx context.Context) { f(ctx, n) })
}

// boot lets a host run a node, also after each restart.
func (s *stage) boot(host string) {
	s.Host(host).Boot("node", func(ctx context.Context) {
		delete(s.nodes, host)
		ctx, cancel := simulate.WithTimeout(ctx, longest)
		defer cancel()
		opts := []mesh.Option{
			mesh.WithName(host), mesh.WithLogger(simulate.Logger(ctx)),
		}
		own, seeds := s.own[host], s.seeds
		if !own.portless {
			opts = append(opts, mesh.WithBind(fmt.Sprintf(":%d", cmp.Or(s.plan.ports[host], firstPort))))
		}
		if !own.silent {
			opts = append(opts, mesh.WithShards(s.plan.shards), mesh.WithReplicas(s.plan.replicas),
				mesh.WithLeaseTTL(s.plan.ttl), mesh.WithMaxTTL(s.plan.maxTTL))
		}
		if s.plan.keep {
			opts = append(opts, mesh.WithStateDir("/var/lib/"+host))
		}
		if own.seeds != nil {
			seeds = own.seeds
		}
		if len(seeds) == 1 {
			opts = append(opts, mesh.WithFound())
		}
		n, err := mesh.JoinContext(ctx, seeds, append(opts, own.opts...)...)
		if err != nil {
			s.failed[host] = err
			return
		}
		for _, m := range n.Members() {
			if m.Name == n.Name() {
				id, _ := strconv.ParseUint(m.ID, 16, 64)
				s.ids[id] = host
			}
		}
		s.nodes[host] = n
	})
}

// found makes the hosts, and starts their nodes unless that comes later.
func (t *teller) found() {
	p := t.plan
	t.seeds = p.addresses(p.servers)
	for _, host := range p.first {
		t.Host(host)
	}
	if p.later {
		return
	}
	for _, host := range p.first {
		t.boot(host)
	}
	t.founded(time.Minute)
}

// founded waits until all are there and the young tables have settled (P27).
func (t *teller) founded(d time.Duration) {
	p := t.plan
	t.within(d, "G6 bound", "all are in the mesh, and "+p.servers[0]+" leads", func() bool {
		return t.well() && slices.Equal(t.Serving(0), p.servers[:1])
	})
	settled := t.take(p.servers[0], request{key: "settled"})
	t.within(2*p.maxTTL+10*time.Second, "G6 bound", "the young mesh grants", settled.holds)
	settled.letGo()
	t.within(time.Second, "G6 bound", "the young mesh frees", func() bool { return settled.over })
	t.say("founded; %s leads", p.servers[0])
}

// table returns the hosts that hold a key and those that wait for it, as its shard knows.
func (t *teller) table(key string) (holders, queue []string) { return t.Queue(t.plan.key(key)) }

// well reports whether every host that is up has joined, could not, or has ended its node, and
// all nodes in the mesh say that every shard is whole.
func (s *stage) well() bool {
	for _, h := range s.Hosts() {
		if !h.Up() || s.failed[h.Name()] != nil {
			continue
		}
		n := s.nodes[h.Name()]
		if n == nil {
			return false
		}
		if n.Err() == nil && !n.Health().FullyReplicated {
			return false
		}
	}
	return true
}

// end heals the world, lets all callers go, and judges the whole history.
func (t *teller) end() {
	t.ending = true
	t.traffic.clear()
	t.HealAll()
	for _, p := range t.parties {
		p.common().letGo()
	}
	t.within(t.plan.ttl+t.plan.maxTTL+15*time.Second, "G6", "after the story, every call ends", func() bool {
		return !slices.ContainsFunc(t.parties, func(p party) bool { return !p.common().over && !p.common().crashed() })
	})
	_ = t.History().Finish()
	t.over = true
}
