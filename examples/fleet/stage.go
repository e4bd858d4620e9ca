package main

import (
	"context"
	"fmt"
	"time"
)

const (
	locks   = 50 // that the clients of a row hold together
	waiters = 3  // in each queue
	quiet   = longLease + longLease/50
	hurry   = time.Second     // for all that is not quiet time
	settle  = quiet + hurry/2 // after this time, leases that are not renewed have ended
)

// queues are those of the held keys that have waiters, unless some clients are idle.
var queues = []string{held(0), held(1), held(2), held(3)}

func held(n int) string { return fmt.Sprint("held-", n) }

// stage is the fleet of one row: a core, and its clients.
type stage struct {
	*supervisor
	told   evidence
	queues []string
	ended  []string // members whose locks are to end
	checks []check
	last   time.Time // of a kill or restart
}

// newStage starts a fleet, lets its clients hold locks and wait in queues, and lets one of them lock free keys.
func newStage(ctx context.Context, c crew, verbose bool) (*stage, error) {
	g := &stage{}
	if c.idle == 0 {
		g.queues = queues
	}
	s, err := newSupervisor(c, verbose, g.told.record)
	if err != nil {
		return nil, err
	}
	g.supervisor = s
	for _, step := range []func(context.Context) error{g.launchAll, g.hold, g.queue, g.sweep} {
		if err := step(ctx); err != nil {
			g.close()
			return nil, err
		}
	}
	return g, nil
}

// holder returns the client that holds the n-th lock.
func (g *stage) holder(n int) *process { return g.clients[n%(len(g.clients)-g.crew.idle)] }

func (g *stage) hold(ctx context.Context) error {
	for n := range locks {
		if err := g.holder(n).command(commandHold + " " + held(n)); err != nil {
			return err
		}
	}
	return g.until(ctx, "the clients' locks", func() bool { return len(g.told.holds) == locks })
}

// queue lets clients wait for held keys. Each one waits only when the one before it is in the queue.
func (g *stage) queue(ctx context.Context) error {
	for n, key := range g.queues {
		for place := range waiters {
			p := g.holder(n + 1 + place%2) // two clients that do not hold the key
			if err := p.command(fmt.Sprint(commandWait, " ", key, " ", place)); err != nil {
				return err
			}
			if err := g.awaitPlace(ctx, p, key, place+1); err != nil {
				return err
			}
		}
	}
	return nil
}

// awaitPlace asks a client how many wait for a key, until it says want twice in a row. One answer alone may still count a
// waiter of an earlier question, which waits for a moment itself.
func (g *stage) awaitPlace(ctx context.Context, p *process, key string, want int) error {
	right := 0
	for began := time.Now(); right < 2; {
		if err := p.command(commandCount + " " + key); err != nil {
			return err
		}
		e, err := g.await(ctx, "the length of a queue", p.says(queued))
		if err != nil {
			return err
		}
		if right++; e.Place != want {
			right = 0
		}
		if time.Since(began) > patience {
			return fmt.Errorf("%d wait for %s, want %d", e.Place, key, want)
		}
	}
	return nil
}

// sweepers are the clients that lock free keys, in turn.
func (g *stage) sweepers() []*process { return g.clients[len(g.clients)-2:] }

// sweep lets the sweepers lock free keys of all shards, to the end.
func (g *stage) sweep(ctx context.Context) error {
	began := time.Now()
	for _, p := range g.sweepers() {
		if err := p.command(commandSweep); err != nil {
			return err
		}
	}
	return g.reopen(ctx, began)
}

// until receives events until the condition is met.
func (g *stage) until(ctx context.Context, what string, done func() bool) error {
	if done() {
		return nil
	}
	_, err := g.await(ctx, what, func(event) bool { return done() })
	return err
}

// reopen waits until free keys of all shards have been granted after t.
func (g *stage) reopen(ctx context.Context, t time.Time) error {
	return g.until(ctx, "free keys of all shards", func() bool { return g.told.after(t, allShards()) })
}

func allShards() []int {
	all := make([]int, shards)
	for i := range all {
		all[i] = i
	}
	return all
}

// crash kills members, and starts them again after d. The result is when they were killed; if d is not zero, when they were started.
func (g *stage) crash(ctx context.Context, d time.Duration, victims ...*process) (time.Time, error) {
	at, err := g.kill(ctx, victims...)
	if err != nil {
		return at, err
	}
	if d > 0 {
		if err := g.watch(ctx, d); err != nil {
			return at, err
		}
		at = time.Now()
	}
	g.last = time.Now()
	return at, g.launchEach(victims)
}

// replace starts a process with another name at the entry of one that was killed.
func (g *stage) replace(p *process) (time.Time, error) {
	p.name += "b"
	return g.again(p)
}

// again starts a member that has ended. The result is when.
func (g *stage) again(p *process) (time.Time, error) {
	g.last = time.Now()
	return g.last, g.launch(p)
}

// recover waits until the members that were started again see a healthy mesh, and free keys of all shards have been granted
// after t.
func (g *stage) recover(ctx context.Context, t time.Time, started ...*process) error {
	if err := g.awaitHealthy(ctx, started...); err != nil {
		return err
	}
	return g.reopen(ctx, t)
}

// expect adds a check that ends now: shards pause for so long at most.
func (g *stage) expect(name string, from time.Time, of []int, most time.Duration) {
	g.checks = append(g.checks, check{name: name, shards: of, from: from, to: time.Now(), most: most})
}

// expectQuiet adds a check that ends now: shards grant nothing for a quiet time, and then soon.
func (g *stage) expectQuiet(name string, from time.Time, of []int) {
	g.checks = append(g.checks, check{name: name, shards: of, from: from, to: time.Now(), least: quiet, most: quiet + hurry})
}

// finish waits until a lease that nobody renews would have ended, asks all members for all locks, and lets the waiters have
// their keys.
func (g *stage) finish(ctx context.Context) error {
	if err := g.watch(ctx, max(time.Until(g.last.Add(settle)), 0)); err != nil {
		return err
	}
	for _, p := range g.members {
		for n := range locks {
			if err := p.command(commandSee + " " + held(n)); err != nil {
				return err
			}
		}
	}
	if err := g.until(ctx, "what all members see", func() bool { return len(g.told.sees) == locks*len(g.members) }); err != nil {
		return err
	}
	for n, key := range g.queues {
		if err := g.holder(n).command(commandUnlock + " " + key); err != nil {
			return err
		}
	}
	return g.until(ctx, "the waiters' turns", func() bool { return len(g.told.served) >= waiters*len(g.queues) })
}

// judge judges the row as far as it was played.
func (g *stage) judge() *verdict {
	return g.told.judge(terms{len(g.members), g.queues, waiters, g.ended, g.checks})
}
