package bubble

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// Bubble is a simulated network of hosts in a synctest bubble, and the gate through
// which what they do to each other passes. Its methods, and those of its hosts, may
// be called by any goroutine of the bubble, but by one at a time, unless the other
// one is in Sleep.
type Bubble struct {
	gate  *gate
	root  *actor // on the lab, which no fault reaches
	ids   uint64
	hosts []*Host // the first is the lab, which has no name
	over  bool    // no goroutine starts any more
	named map[string]*Host

	link  *Link
	paths [][]*path // from, to
	conns []*conn
	ports map[string]*listener // looked up, never ranged over
}

var (
	errCrashed = errors.New("bubble: the host crashed") // why the contexts of its process end
	errOver    = errors.New("bubble: the test is over") // why all contexts end
	errNowhere = errors.New("bubble: goroutines of Bubble.Go have no network: use Host.Go")
)

// Test runs f in a bubble: the clock of package time is virtual, and starts when f
// does. When f has returned, the contexts of all goroutines end, and Test waits
// until the goroutines have; whatever f started past the bubble it ends itself.
//
// Time goes on as long as anybody has a timer, as each node has. So an f that waits
// for what never comes never returns; one that sleeps, and then looks, does.
//
// Test is synctest.Test with a gate: what that says of t, of sub-tests and of
// parallel tests holds here, too. A failure is followed by the seed, with which f plays
// again: there is no search, and no smaller run.
func Test(t *testing.T, seed uint64, f func(b *Bubble)) {
	t.Helper()
	test(t, seed, false, f)
}

func test(t *testing.T, seed uint64, ajar bool, f func(b *Bubble)) {
	t.Helper()
	returned := false
	defer func() {
		if t.Failed() || !returned { // a panic, as of a deadlock
			t.Logf("bubble: the seed is %d: bubble.Test(t, %[1]d, …) has this run again", seed)
		}
	}()
	synctest.Test(t, func(t *testing.T) {
		b := &Bubble{named: make(map[string]*Host), link: &Link{}, ports: make(map[string]*listener)}
		b.gate = newGate(seed, time.Now())
		b.gate.ajar = ajar
		lab := b.newHost("")
		b.root = lab.process.newActor()
		go b.gate.run()
		defer b.close()
		f(b)
	})
	returned = true
}

// close ends the goroutines, then the connections, then the gate.
func (b *Bubble) close() {
	var hosts []*Host
	b.act(func() {
		b.over = true
		hosts = b.hosts
		for _, h := range hosts[1:] {
			h.paused = false
			if h.process != nil {
				h.process.kill(errOver)
			}
		}
		hosts[0].process.end(errOver)
	})
	for _, h := range hosts {
		h.running.Wait()
	}
	time.Sleep(time.Second) // nodes that were closed may still wait for the last answer to a probe
	b.gate.stop <- struct{}{}
	<-b.gate.ended
}

// Now is the time since the bubble began.
func (b *Bubble) Now() time.Duration { return b.gate.now() }

// Hash is the hash of everything that the gate has let through. Equal seeds give
// equal hashes where user code keeps the rules of this package; where they do not,
// it shows.
func (b *Bubble) Hash() uint64 {
	b.gate.mu.Lock()
	defer b.gate.mu.Unlock()
	return b.gate.digest.Sum64()
}

// Events is how much the gate has let through.
func (b *Bubble) Events() uint64 {
	b.gate.mu.Lock()
	defer b.gate.mu.Unlock()
	return b.gate.count
}

// Go starts a goroutine that belongs to no host, and that no fault reaches. See
// [Host.Go].
func (b *Bubble) Go(name string, fn func(ctx context.Context)) <-chan struct{} {
	return b.hosts[0].Go(name, fn)
}

// Sleep waits for d, and then for the caller's turn. It is for f; goroutines of the
// bubble use the function [Sleep].
func (b *Bubble) Sleep(d time.Duration) { _ = b.root.pass(b.root.ctx, d, nil) }

// act lets fn happen in turn.
func (b *Bubble) act(fn func()) { _ = b.root.pass(b.root.ctx, 0, fn) }

func (b *Bubble) newID() uint64 {
	b.ids++
	return b.ids
}

// actor is a goroutine that the gate knows.
type actor struct {
	origin
	process *process
	ctx     context.Context
	cancel  context.CancelCauseFunc
}

type actorKey struct{}

// here returns whose context it is.
func here(ctx context.Context) *actor {
	a, _ := ctx.Value(actorKey{}).(*actor)
	if a == nil {
		panic("bubble: the context is none that Go gave")
	}
	return a
}

// pass waits for d, and then for the actor's turn, in which do happens. When ctx
// ends before, it returns the cause, and do does not happen.
func (a *actor) pass(ctx context.Context, d time.Duration, do func()) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	g := a.process.bubble.gate
	turns := make(chan struct{})
	over := false // the gate's mutex guards it
	g.put(&a.origin, func() {
		g.at(g.now()+d, &event{kind: turn, who: a.id, owner: a.process, host: a.process.host, fn: func() {
			if over {
				return
			}
			if do != nil {
				do()
			}
			close(turns)
		}})
	})
	select {
	case <-turns:
	case <-ctx.Done():
		g.mu.Lock()
		defer g.mu.Unlock()
		select {
		case <-turns:
		default:
			over = true
			return context.Cause(ctx)
		}
	}
	return nil
}

// Sleep waits for d by the virtual clock, and then for the caller's turn: of
// several that wake at one instant, the seed says who is first, and each has
// blocked again before the next one goes on. It returns the cause when ctx, which
// is one that Go gave or made of it, ends before. With d zero it only yields.
func Sleep(ctx context.Context, d time.Duration) error { return here(ctx).pass(ctx, max(d, 0), nil) }

// Go starts a goroutine beside the one that has ctx, on its host. See [Host.Go].
func Go(ctx context.Context, name string, fn func(ctx context.Context)) <-chan struct{} {
	a := here(ctx)
	return a.process.spawn(&a.origin, name, fn)
}

// Chance returns a number in [0, n) that the seed decides, for the goroutine that
// has ctx. n is at least 1. When ctx has ended, it is 0.
func Chance(ctx context.Context, n int) int {
	a := here(ctx)
	v := 0
	g := a.process.bubble.gate
	if a.pass(ctx, 0, func() { v = g.chance.IntN(n) }) != nil {
		return 0
	}
	return v
}
