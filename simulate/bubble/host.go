package bubble

import (
	"context"
	"runtime/pprof"
	"sync"

	"github.com/lockmesh/mesh/internal/env"
)

// Host is one machine. It runs one process at a time, its incarnation.
type Host struct {
	bubble  *Bubble
	index   int
	name    string
	boots   []boot
	process *process // nil: down
	started int
	dark    bool
	paused  bool
	late    []*event // due while it was paused
	ports   int
	running sync.WaitGroup // goroutines, of all incarnations
}

type boot struct {
	name string
	fn   func(context.Context)
}

// process is one incarnation of a host.
type process struct {
	bubble    *Bubble
	host      *Host
	dead      bool
	actors    []*actor
	listeners []*listener
	kernel    *actor // does what nodes ask of the network
	world     env.Env
}

// Host returns the host of that name, and makes it, running, if there is none.
func (b *Bubble) Host(name string) *Host {
	if h := b.named[name]; h != nil {
		return h
	}
	var h *Host
	b.act(func() {
		h = b.newHost(name)
		b.named[name] = h
	})
	return h
}

func (b *Bubble) newHost(name string) *Host {
	h := &Host{bubble: b, index: len(b.hosts), name: name, ports: 40000}
	b.hosts = append(b.hosts, h)
	b.grow()
	h.start()
	return h
}

func (b *Bubble) host(name string) *Host {
	h := b.named[name]
	if h == nil {
		panic("bubble: no host " + name)
	}
	return h
}

func (h *Host) start() {
	h.started++
	h.process = &process{bubble: h.bubble, host: h}
	h.process.world = newEnv(h.process)
	h.process.kernel = h.process.newActor()
}

// Name returns the host's name, which is also where it can be dialled.
func (h *Host) Name() string { return h.name }

// Incarnation returns how often the host has started: 1 for the first process.
func (h *Host) Incarnation() int { return h.started }

// Go starts a goroutine on the host, in its turn. ctx is how that uses [Sleep],
// [Dial] and [Listen], and how a node comes to live on the host
// (mesh.JoinContext); it ends when the host crashes, or the test does, and the
// goroutine has to end then, too: nobody can stop it. One goroutine at a time may
// use a ctx: another one wants its own, by [Go]. The channel returned is closed
// when the goroutine has ended. The name labels it in profiles, and in tracebacks
// with GODEBUG=tracebacklabels=1.
//
// On a host that is down, Go does nothing.
func (h *Host) Go(name string, fn func(ctx context.Context)) <-chan struct{} {
	p := h.process
	if p == nil {
		done := make(chan struct{})
		close(done)
		return done
	}
	return p.spawn(&h.bubble.root.origin, name, fn)
}

// Boot starts a goroutine now and after each restart of the host.
func (h *Host) Boot(name string, fn func(ctx context.Context)) {
	h.boots = append(h.boots, boot{name, fn})
	h.Go(name, fn)
}

func (p *process) newActor() *actor {
	a := &actor{process: p}
	a.id = p.bubble.newID()
	ctx, cancel := context.WithCancelCause(context.Background())
	a.ctx, a.cancel = context.WithValue(env.With(ctx, p.world), actorKey{}, a), cancel
	p.actors = append(p.actors, a)
	return a
}

// spawn asks for a goroutine.
func (p *process) spawn(o *origin, name string, fn func(context.Context)) <-chan struct{} {
	done := make(chan struct{})
	p.bubble.gate.put(o, func() { p.bear(name, fn, done) })
	return done
}

func (p *process) bear(name string, fn func(context.Context), done chan struct{}) {
	g := p.bubble.gate
	if p.dead || p.bubble.over {
		close(done)
		return
	}
	a := p.newActor()
	p.host.running.Add(1)
	g.at(g.now(), &event{kind: birth, who: a.id, fn: func() {
		go func() {
			defer p.host.running.Done()
			defer close(done)
			defer a.cancel(nil)
			if a.ctx.Err() == nil {
				pprof.Do(a.ctx, pprof.Labels("host", p.host.name, "goroutine", name), fn)
			}
		}()
	}})
}

// end ends the contexts of a process, one after the other.
func (p *process) end(why error) {
	g := p.bubble.gate
	for _, a := range p.actors {
		if a != p.bubble.root {
			g.at(g.now(), &event{kind: end, who: a.id, fn: func() { a.cancel(why) }})
		}
	}
}

// kill ends a process at once. It happens within an event.
func (p *process) kill(why error) {
	p.dead = true
	p.host.process, p.host.late = nil, nil
	p.end(why)
	for _, l := range p.listeners {
		l.shut()
	}
	for _, c := range p.bubble.conns {
		for _, s := range c.sides {
			if s.process == p {
				s.die()
			}
		}
	}
}
