package simulate

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/lockmesh/mesh/internal/env"
	"github.com/lockmesh/mesh/internal/point"
	"github.com/lockmesh/mesh/simulate/timeline"
	"github.com/lockmesh/mesh/transport"
)

// errCrashed is what a node is told that still wants a network when its process has crashed.
var errCrashed = errors.New("simulate: the host crashed")

// process is one incarnation of a host: the env.Env of the nodes in it. It dies
// with a crash, and whatever is asked of it then does nothing.
type process struct {
	world   *World
	host    *Host
	id      int
	dead    bool
	ended   time.Duration // when it died
	leaving bool          // Host.Leave is under way
	hung    time.Duration // the latest end of a stall of one of its loops
	base    time.Duration // Now's zero: of no meaning outside of the process
	seeds   uint64

	root      *simContext
	loops     []*loop
	actors    []*actor
	timers    []*simContext // contexts with a deadline ahead
	endpoints []*endpoint
	members   []*member
	nodes     []inspected
	points    point.Points

	inboxes map[string]*inbox  // of the actors, by port; looked up, never ranged over
	lines   map[*process]*conn // for their messages; looked up, never ranged over
}

var _ env.Instrumented = (*process)(nil)

func newProcess(h *Host) *process {
	h.world.processes++
	p := &process{
		world: h.world, host: h, id: h.world.processes,
		inboxes: make(map[string]*inbox), lines: make(map[*process]*conn),
	}
	p.base = h.sched.between(0, time.Hour) - h.clock.at(h.world.now)
	p.points = p.newPoints()
	p.root = newContext(env.With(context.Background(), p), p)
	return p
}

// Now implements env.Env.
func (p *process) Now() time.Duration { return p.host.clock.at(p.world.now) + p.base }

// Wall implements env.Env. It runs at the host's rate, as an undisciplined
// clock does.
func (p *process) Wall() time.Time {
	h := p.host
	return epoch.Add(h.clock.at(p.world.now) - h.clock.zero + h.clock.offset)
}

// Hostname implements env.Env: it is the name under which others dial the host.
func (p *process) Hostname() string { return p.host.name }

// when returns the true time at which Now shows local.
func (p *process) when(local time.Duration) time.Duration {
	return max(p.host.clock.when(local-p.base), p.world.now)
}

// Seed implements env.Env. Within a world no number comes twice.
func (p *process) Seed() uint64 {
	p.seeds++
	return mix(mix(p.world.varied()) ^ (uint64(p.id)<<24 | p.seeds))
}

// Points implements env.Instrumented.
func (p *process) Points() point.Points { return p.points }

// Observer implements env.Instrumented.
func (p *process) Observer() env.Observer { return p.world.observer() }

// Clients implements env.Instrumented.
func (p *process) Clients() env.Clients { return p.world.history.checks.Clients(p) }

// Inspect implements env.Instrumented.
func (p *process) Inspect(id transport.ID, node env.Inspected) {
	p.world.history.checks.Born(p, id)
	p.nodes = append(p.nodes, inspected{id, node})
	p.world.nodes[id] = p
}

// NewParker implements env.Env.
func (p *process) NewParker() env.Parker { return &parker{process: p} }

// NewLoop implements env.Env.
func (p *process) NewLoop(name string, run func(now time.Duration) time.Duration) env.Loop {
	l := &loop{process: p, id: len(p.loops) + 1, name: name, run: run, until: env.Never}
	l.ev = event{kind: loopEvent, slot: idle, owner: p, loop: l}
	if !p.dead {
		p.loops = append(p.loops, l)
	}
	return l
}

// Go implements env.Env: fn is an actor's.
func (p *process) Go(name string, limit time.Duration, fn func(ctx context.Context)) (cancel func()) {
	if p.dead {
		return func() {}
	}
	ctx, cancel := WithTimeout(p.root, limit)
	p.spawn(name, func(context.Context) {
		defer cancel()
		fn(ctx)
	})
	return cancel
}

// Listen implements env.Env.
func (p *process) Listen(cfg transport.Config, h transport.Handler) (env.Network, error) {
	if p.dead {
		return nil, errCrashed
	}
	if p.host.index == 0 {
		return nil, errors.New("simulate: actors of World.Go cannot run a node: use Host.Go")
	}
	return p.world.Net.listen(p, cfg, h)
}

// NewMembership implements env.Env.
func (p *process) NewMembership(self env.Member, net env.Network, events func(env.MemberEvent)) (env.Membership, error) {
	if p.dead {
		return nil, errCrashed
	}
	e, ok := net.(*endpoint)
	if !ok {
		return nil, fmt.Errorf("simulate: %T is no network of this world", net)
	}
	return p.newMember(self, e, p.hears(events)), nil
}

// spawn starts an actor.
func (p *process) spawn(name string, fn func(context.Context)) *actor {
	a := newActor(p, name, fn)
	p.host.known = true
	p.actors = append(p.actors, a)
	p.world.schedule(&a.ev, p.world.now+p.host.delay())
	return a
}

// kill ends the process at once. Its actors are unwound as soon as the event that
// is under way is over.
func (p *process) kill() {
	if p.dead {
		return
	}
	w, h := p.world, p.host
	w.history.checks.Dies(p)
	p.dead, p.ended = true, w.now
	h.process = nil
	if h.index > 0 && !w.closed {
		w.note(timeline.Down, h.name, "")
	}
	if h.paused {
		h.paused = false
		w.ended(h.stall, h.name, "")
	}
	for _, ev := range h.deferred {
		if ev.slot == deferred {
			ev.slot = idle
			w.drop(ev)
		}
	}
	h.deferred = h.deferred[:0]
	for _, l := range p.loops {
		w.cancel(&l.ev)
	}
	for _, c := range p.timers {
		w.cancel(&c.ev)
		c.timer = -1
	}
	p.timers = nil
	for _, e := range p.endpoints {
		e.die()
	}
	for _, m := range p.members {
		m.Close()
	}
	w.reaping = append(w.reaping, p)
}

// reap unwinds the actors of processes that were killed.
func (w *World) reap() {
	for len(w.reaping) > 0 {
		p := w.reaping[0]
		w.reaping = w.reaping[1:]
		p.root.cancel(context.Canceled)
		for _, a := range p.actors {
			a.unwind()
		}
		p.actors, p.loops = nil, nil
		w.history.checks.Crashed(p)
		// The world knows for ever in which process a node lived, but not what was in it.
		p.endpoints, p.members, p.nodes, p.lines = nil, nil, nil, nil
		clear(p.inboxes)
	}
	w.reaping = nil
}
