package simulate

import (
	"context"
	"fmt"
	"slices"
	"time"
)

// simContext is a context in virtual time. It wraps one of the standard library's, so that the library's
// contexts can be its children without starting a goroutine. One of the library's can also be its parent:
// then the world looks after each event whether that has ended.
type simContext struct {
	context.Context // *context.cancelCtx, a child of source
	release         context.CancelFunc
	source          *source
	process         *process
	done            <-chan struct{}
	err             error
	deadline        time.Time     // by the host's time of day when it was made; zero: none
	until           time.Duration // the same by the process's clock, which no step of the time of day moves
	foreign         bool          // a context above has a deadline of the real clock
	ev              event
	timer           int // in process.timers, or -1

	watch    watch         // of a parent that cannot tell
	up       *simContext   // a parent that can: this is one of its children; nil: none
	place    int           // among them
	children []*simContext // that end with this one, in the order in which it ends them
	waiters  []*actor      // that are parked with this very context
}

// source is the hidden parent of the standard context in a simContext: it is
// what lets us choose with which error that one ends.
type source struct {
	context.Context // the parent that the user knows, for its values
	done            chan struct{}
	err             error
	ended           func()
}

func (s *source) Deadline() (time.Time, bool) { return time.Time{}, false }
func (s *source) Done() <-chan struct{}       { return s.done }
func (s *source) Err() error                  { return s.err }

// AfterFunc is looked for by the standard library's contexts, to be told of their
// parent's end without a goroutine.
func (s *source) AfterFunc(f func()) (stop func() bool) {
	s.ended = f
	return func() bool { return true }
}

func (s *source) end(err error) {
	s.err = err
	close(s.done)
	s.ended()
}

type contextKey struct{}

// WithCancel is context.WithCancel in virtual time. context.WithCancel itself may
// be used as well.
func WithCancel(parent context.Context) (context.Context, context.CancelFunc) {
	c := newContext(parent, processOf(parent, "WithCancel"))
	return c, func() { c.cancel(context.Canceled) }
}

// WithTimeout is context.WithTimeout in virtual time, by the clock of parent's host.
//
//	ctx, cancel := simulate.WithTimeout(ctx, 2*time.Second)
//	defer cancel()
//	l, err := node.Lock(ctx, "orders/42")
func WithTimeout(parent context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	p := processOf(parent, "WithTimeout")
	c := newContext(parent, p)
	c.setDeadline(p.Wall().Add(d), add(p.Now(), d))
	return c, func() { c.cancel(context.Canceled) }
}

func newContext(parent context.Context, p *process) *simContext {
	c := &simContext{source: &source{Context: parent, done: make(chan struct{})}, process: p, timer: -1}
	c.Context, c.release = context.WithCancel(c.source)
	c.done = c.Context.Done()
	c.ev = event{kind: contextEvent, slot: idle, owner: p, context: c}
	c.watch = watch{fn: func() { c.cancel(parent.Err()) }, slot: idle}
	up := nearest(parent)
	if t, ok := parent.Deadline(); ok {
		if c.deadline, c.foreign = t, up == nil || up.foreign || !up.deadline.Equal(t); !c.foreign {
			c.until = up.until
		}
	}
	if done := parent.Done(); done != nil {
		switch {
		case closed(done):
			c.cancel(parent.Err())
		case up != nil && up.done == done:
			c.up, c.place = up, len(up.children)
			up.children = append(up.children, c)
		default:
			p.world.watch(&c.watch, done)
		}
	}
	return c
}

func (c *simContext) setDeadline(t time.Time, until time.Duration) {
	if c.foreign || !c.deadline.IsZero() && until >= c.until {
		return // the parent's comes first, or is refused: see checkDeadline
	}
	c.deadline, c.until = t, until
	switch p := c.process; {
	case c.err != nil || p.dead:
	case until <= p.Now():
		c.cancel(context.DeadlineExceeded)
	default:
		c.timer = len(p.timers)
		p.timers = append(p.timers, c)
		c.rearm()
	}
}

func (c *simContext) rearm() {
	c.process.world.schedule(&c.ev, c.process.when(c.until))
}

// Deadline implements context.Context.
func (c *simContext) Deadline() (time.Time, bool) { return c.deadline, !c.deadline.IsZero() }

// Value implements context.Context.
func (c *simContext) Value(key any) any {
	if _, ok := key.(contextKey); ok {
		return c
	}
	return c.Context.Value(key)
}

func (c *simContext) String() string { return "simulate.Context" }

// leave takes the context off its parent's list.
func (c *simContext) leave() {
	last := len(c.up.children) - 1
	c.up.children[c.place] = c.up.children[last]
	c.up.children[c.place].place = c.place
	c.up.children[last] = nil
	c.up.children = c.up.children[:last]
}

func (c *simContext) cancel(err error) {
	if c.err != nil {
		return
	}
	c.err = err
	c.source.end(err)
	c.release()
	p := c.process
	p.world.cancel(&c.ev)
	if c.timer >= 0 {
		last := p.timers[len(p.timers)-1]
		p.timers[c.timer], last.timer = last, c.timer
		p.timers = p.timers[:len(p.timers)-1]
		c.timer = -1
	}
	p.world.unwatch(&c.watch)
	if c.up != nil && c.up.err == nil {
		c.leave()
	}
	for _, a := range c.waiters {
		a.wake()
	}
	c.waiters = nil
	children := c.children
	c.children = nil
	for _, child := range children {
		child.cancel(err)
	}
}

// forget takes an actor off the list of those that wait.
func (c *simContext) forget(a *actor) {
	c.waiters = slices.DeleteFunc(c.waiters, func(other *actor) bool { return other == a })
}

// nearest returns the first simulated context on the way from ctx to the root.
func nearest(ctx context.Context) *simContext {
	c, _ := ctx.Value(contextKey{}).(*simContext)
	return c
}

// checkDeadline panics if ctx has a deadline that runs on the real clock.
func checkDeadline(a *actor, ctx context.Context) {
	t, ok := ctx.Deadline()
	if !ok {
		return
	}
	if c := nearest(ctx); c == nil || c.foreign || !c.deadline.Equal(t) { // to name t would make each run another one
		panic(fmt.Sprintf("simulate: actor %v waits with a deadline of the real clock: "+
			"use simulate.WithTimeout in place of the context package's functions", a))
	}
}

// watch waits until a channel is closed: the Done of a context of the standard library. Its
// end wakes nobody in the simulation, so the world looks at the channel after each event.
type watch struct {
	ch   <-chan struct{}
	fn   func() // to call then
	slot int
}

func (w *World) watch(x *watch, ch <-chan struct{}) {
	x.ch, x.slot = ch, len(w.watches)
	w.watches = append(w.watches, x)
}

func (w *World) unwatch(x *watch) {
	if x.slot < 0 {
		return
	}
	last := len(w.watches) - 1
	w.watches[x.slot] = w.watches[last]
	w.watches[x.slot].slot = x.slot
	w.watches[last] = nil
	w.watches = w.watches[:last]
	x.slot, x.ch = idle, nil
}

// poll calls those whose channels were closed, until that closes no more.
func (w *World) poll() {
	for {
		w.triggered = w.triggered[:0]
		for _, x := range w.watches {
			if closed(x.ch) {
				w.triggered = append(w.triggered, x)
			}
		}
		if len(w.triggered) == 0 {
			return
		}
		for _, x := range w.triggered {
			if x.slot < 0 || !closed(x.ch) {
				continue // an earlier one took it off
			}
			w.unwatch(x)
			x.fn()
		}
	}
}
