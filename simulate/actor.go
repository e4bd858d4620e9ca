package simulate

import (
	"context"
	"fmt"
	"iter"
	"runtime/debug"
	"sync/atomic"
	"time"

	"github.com/lockmesh/mesh/internal/env"
	"github.com/lockmesh/mesh/simulate/timeline"
)

// actor is one thread of user code: a coroutine that runs until it parks.
type actor struct {
	process *process
	id      int
	slot    int // in process.actors
	name    string
	fn      func(context.Context)
	ev      event
	done    chan struct{}
	next    func() (struct{}, bool)
	stop    func()
	yield   func(struct{}) bool

	goroutine atomic.Pointer[string] // its name; nil: it has not begun

	started, finished, dying bool
	refused                  int // parks refused since dying

	// While it is parked:
	parker  *parker
	until   time.Duration // by the process's clock
	ctx     *simContext   // hears of its end directly
	watches [2]watch      // or by being asked
	woken   bool          // ev is a wake, and no more the timer
}

// unwound is the panic that takes a crashed process's actors down.
type unwound struct{}

func newActor(p *process, name string, fn func(context.Context)) *actor {
	p.world.actors++
	a := &actor{process: p, id: p.world.actors, slot: len(p.actors), name: name, fn: fn, done: make(chan struct{})}
	a.ev = event{kind: actorEvent, slot: idle, owner: p, actor: a}
	a.woken = true
	for i := range a.watches {
		a.watches[i] = watch{fn: a.wake, slot: idle}
	}
	a.next, a.stop = iter.Pull(a.body)
	return a
}

func (a *actor) String() string { return a.process.host.name + "/" + a.name }

func (a *actor) body(yield func(struct{}) bool) {
	a.yield = yield
	goroutine := thisGoroutine()
	a.goroutine.Store(&goroutine)
	returned := false
	defer func() {
		w := a.process.world
		r := recover()
		if _, dying := r.(unwound); r != nil && !dying {
			w.Fail(fmt.Errorf("simulate: actor %v panicked: %v\n%s", a, r, debug.Stack()))
		} else if r == nil && !returned {
			w.Fail(exited("actor " + a.String())) // and the goroutine of Run ends with it
		}
		a.finish()
	}()
	a.fn(a.process.root)
	returned = true
}

func (a *actor) finish() {
	a.finished = true
	close(a.done)
	if p := a.process; !p.dead {
		last := p.actors[len(p.actors)-1]
		p.actors[a.slot], last.slot = last, a.slot
		p.actors = p.actors[:len(p.actors)-1]
	}
}

// resume runs the actor until it parks again.
func (a *actor) resume() {
	if a.finished {
		return
	}
	w := a.process.world
	caller := w.current
	w.current = a
	w.dog.actor.Store(a)
	w.dog.progress.Add(1) // each actor that is unwound has a turn of its own
	a.started = true
	a.next()
	w.current = caller
	w.dog.actor.Store(caller)
}

// unwind ends the actor of a dead process.
func (a *actor) unwind() {
	w := a.process.world
	w.cancel(&a.ev)
	if a.finished {
		return
	}
	if !a.started {
		a.stop()
		a.finished = true
		close(a.done)
		return
	}
	a.dying = true
	a.resume()
}

// maxRefused is how often a dying actor may come back, for it may recover from
// the panic that unwinds it, before it is left where it is for good.
const maxRefused = 1000

// wait parks the actor that runs until it is unparked, ctx ends, ch is closed, or
// its process's clock shows until.
func (a *actor) wait(ctx context.Context, ch <-chan struct{}, pk *parker, until time.Duration) {
	p := a.process
	if p.dead {
		if a.refused++; a.refused <= maxRefused {
			panic(unwound{})
		}
		for {
			a.yield(struct{}{})
		}
	}
	w := p.world
	checkDeadline(a, ctx)
	a.parker, a.until, a.woken = pk, until, false
	switch {
	case pk != nil && pk.unparked, closed(ch), closed(ctx.Done()):
		a.wake()
	default:
		a.rearm()
		if done := ctx.Done(); done != nil {
			if c := nearest(ctx); c != nil && c.done == done {
				a.ctx = c
				c.waiters = append(c.waiters, a)
			} else {
				w.watch(&a.watches[0], done)
			}
		}
		if ch != nil {
			w.watch(&a.watches[1], ch)
		}
	}
	a.yield(struct{}{})
	a.parker, a.until, a.woken = nil, env.Never, true
	if a.ctx != nil {
		a.ctx.forget(a)
		a.ctx = nil
	}
	for i := range a.watches {
		w.unwatch(&a.watches[i])
	}
	if a.dying {
		panic(unwound{})
	}
}

// wake makes a parked actor run soon.
func (a *actor) wake() {
	if a.woken || a.process.dead {
		return
	}
	a.woken = true
	w := a.process.world
	at := w.now + a.process.host.delay()
	if a.ev.slot >= 0 {
		at = min(at, a.ev.at)
	}
	w.schedule(&a.ev, at)
}

// rearm sets the timer of a parked actor.
func (a *actor) rearm() {
	if a.woken {
		return
	}
	w := a.process.world
	if a.until == env.Never {
		w.cancel(&a.ev)
		return
	}
	// Even an actor whose time has come does not run in that very instant.
	w.schedule(&a.ev, a.process.when(a.until)+a.process.host.delay())
}

// parker implements env.Parker.
type parker struct {
	process  *process
	waiter   *actor
	unparked bool
	mail     bool // for a message, which may never come, and not for an answer of a node
}

var _ env.Parker = (*parker)(nil)

// Park implements env.Parker.
func (pk *parker) Park(ctx context.Context, until time.Duration) env.Wake {
	a := pk.process.world.runner("a call of a node")
	if a.process != pk.process {
		panic(fmt.Sprintf("simulate: actor %v uses a node of host %s: see Host.Do", a, pk.process.host.name))
	}
	if pk.waiter != nil {
		panic(fmt.Sprintf("simulate: actor %v parks where %v is parked", a, pk.waiter))
	}
	pk.waiter = a
	defer func() { pk.waiter = nil }()
	a.wait(ctx, nil, pk, until)
	switch {
	case pk.unparked:
		pk.unparked = false
		return env.Unparked
	case closed(ctx.Done()):
		return env.ContextEnded
	}
	return env.TimedOut
}

// Unpark implements env.Parker.
func (pk *parker) Unpark() {
	pk.unparked = true
	if pk.waiter != nil {
		pk.waiter.wake()
	}
}

// runner returns the actor that runs. It cannot identify its caller: a goroutine of an actor's
// own is noticed only while no actor runs.
func (w *World) runner(what string) *actor {
	if w.current == nil {
		panic("simulate: " + what + " outside of an actor: in a simulation, start nothing with a go statement (use simulate.Go), and do not wait in World.At")
	}
	return w.current
}

// caller returns the actor that runs in the world that ctx belongs to.
func caller(ctx context.Context, what string) *actor {
	return processOf(ctx, what).world.runner(what)
}

// processOf returns the process that ctx belongs to.
func processOf(ctx context.Context, what string) *process {
	if p, ok := env.FromContext(ctx).(*process); ok {
		return p
	}
	panic("simulate: " + what + " needs the context of an actor, or one that comes from it")
}

// Sleep waits until d has passed on the actor's host, and returns nil, or until ctx
// ends, and returns its error.
//
//	for simulate.Sleep(l.Context(), time.Second) == nil {
//		// still holding l
//	}
func Sleep(ctx context.Context, d time.Duration) error {
	a := caller(ctx, "Sleep")
	a.wait(ctx, nil, nil, add(a.process.Now(), max(d, 0)))
	return ctx.Err()
}

// Wait waits until done is closed, and returns nil, or until ctx ends, and returns
// its error. It takes the place of a select over the two. A nil done is never closed.
//
//	done := simulate.Go(ctx, "helper", help)
//	err := simulate.Wait(ctx, done)
func Wait(ctx context.Context, done <-chan struct{}) error {
	a := caller(ctx, "Wait")
	for !closed(done) {
		if err := ctx.Err(); err != nil {
			return err
		}
		a.wait(ctx, done, nil, env.Never)
	}
	return nil
}

// Go starts another actor on the host of ctx, and passes ctx to it. The channel returned
// is closed when that actor has ended.
//
//	done := simulate.Go(ctx, "helper", func(ctx context.Context) { … })
func Go(ctx context.Context, name string, fn func(ctx context.Context)) <-chan struct{} {
	p := processOf(ctx, "Go")
	if p.dead {
		done := make(chan struct{})
		close(done)
		return done
	}
	return p.spawn(name, func(context.Context) { fn(ctx) }).done
}

// Now returns the true time since the world of ctx began, which no clock shows.
func Now(ctx context.Context) time.Duration { return processOf(ctx, "Now").world.now }

// Wall returns the time of day on the host of ctx. Use it in place of time.Now.
func Wall(ctx context.Context) time.Time { return processOf(ctx, "Wall").Wall() }

// Logf writes a line into the timeline; without one it does nothing.
//
//	simulate.Logf(ctx, "token %d", l.Token())
func Logf(ctx context.Context, format string, args ...any) {
	p := processOf(ctx, "Logf")
	if w := p.world; w.timeline != nil {
		actor := ""
		if w.current != nil {
			actor = w.current.name
		}
		w.record(timeline.Moment{Kind: timeline.Note, Host: p.host.name, Actor: actor, Text: fmt.Sprintf(format, args...)})
	}
}

// closed reports whether ch is closed; nil never is.
func closed(ch <-chan struct{}) bool {
	select {
	case <-ch:
		return true
	default:
		return false
	}
}
