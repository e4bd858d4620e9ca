package simulate

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/lockmesh/mesh/simulate/internal/check"
)

// Lockers are a random load: on each host some actors that lock, read-lock, try,
// take permits, give up waiting, work, and unlock, over and over, through every
// crash of their host, and report all of it to the world's history. They are for one world.
type Lockers struct {
	// Hosts run them. Default: all hosts.
	Hosts []string
	// Join is called on each host, and again after each restart: see [AsNode].
	Join func(ctx context.Context, host string) (Node, error)
	// Each is how many actors each host runs (default 3), and Keys how many
	// keys of each kind they share (default 4).
	Each, Keys int
	// Everywhere are further keys that every host locks in the end. The load has few keys; with one key of
	// each shard here, no shard is left out.
	Everywhere []string
	// TTL is the lease of their locks (default 10 s), and Bound how long a healthy
	// mesh may take beyond it to grant what can be granted (default 15 s). Within Bound, too,
	// every voter must be in step with its leader: two elections that fail and one that does not
	// take 6 s at most, a voter that is gone is replaced 6 s later, and its successor has to be
	// sent the table.
	TTL, Bound time.Duration
	// Calls is how many calls there must be in a Run: after a storm that left fewer, Run waits for more, for a minute at
	// most, and then fails.
	Calls int
	// Newcomers lets the storm bring hosts that were not there before. Join must be able
	// to join from any host.
	Newcomers bool
	// Underway is called after the storm, again and again; nil: nothing is under way. From its first call on, the work that it counts
	// must begin nothing new. It returns how many steps are left of work that ends by itself once all is well, a change of the core's
	// list for example. If steps are left, Run heals everything with HealAll and waits until none is. The number may grow, but
	// Run fails if it stays the same for longer than two nodes may take to leave.
	Underway func() int

	world *World
	quiet bool           // begin nothing new
	busy  map[string]int // by host: actors that run
	aside map[string]int // by host: those of Beside that run
	swept bool           // every key was locked once more
	storm *Chaos
	posts map[string]post
	core  []string // the hosts that must work in the end; nil: all
}

// post is what lockers on a host work with.
type post struct {
	node    Node
	process *process
}

// node returns the node of a host, or nil if it has none at the moment.
func (l *Lockers) node(host string) Node {
	p := l.posts[host]
	if p.node == nil || p.process != l.world.Host(host).process || p.process.leaving {
		return nil
	}
	return p.node
}

// Run lets the lockers work through a storm of faults, heals everything, and then
// demands what the mesh promises: all calls end, every key can be locked again from
// every host within TTL and Bound (G4, G6), every voter of every shard is in step with its
// leader within Bound and the time that frames take, and the whole history holds up. These times begin when the nodes that
// were leaving at the end of the storm are gone.
//
// In half of the worlds it does not heal everything, but only a core of hosts in which
// every shard has a majority of its voters, if there can be one: see [World.HealSomeCore]. The faults of the
// other hosts go on for good, and the core must keep the same promises in the same time: TTL, after which
// a key that an outsider held is free, and Bound.
//
//	w := simulate.New(simulate.Options{Seed: seed, Profile: simulate.Flaky})
//	for _, name := range []string{"a", "b", "c"} { w.Host(name) }
//	err := (&simulate.Lockers{Join: join}).Run(w, simulate.ChaosOptions{For: time.Minute})
func (l *Lockers) Run(w *World, opts ChaosOptions) error {
	l.Start(w)
	if s := w.stream(profileStream << 8); s.below(2) == 0 { // in half of the worlds they may meet in peace
		if err := w.Run(s.between(0, 8*time.Second)); err != nil {
			return err
		}
	}
	if l.Newcomers && opts.Join == nil {
		opts.Join = l.Add
	}
	part := w.Pick("core", 0, 1) == 1
	opts.Unhealed = part
	opts.Longest = cmp.Or(opts.Longest, l.TTL)
	l.storm = w.Chaos(opts)
	if err := w.RunUntil(l.storm.Over, 10*opts.For+2*timers+opts.Longest); err != nil {
		return err
	}
	if l.Underway != nil && l.Underway() > 0 {
		if err := l.waitForWhatIsUnderway(part); err != nil {
			return err
		}
	} else if part {
		if err := l.retreat(); err != nil {
			return err
		}
	}
	if enough := func() bool { begun, _ := w.history.Calls(); return begun >= l.Calls }; !enough() {
		if err := w.RunUntil(enough, time.Minute); err != nil {
			return missed(err, "%d calls did not come about", l.Calls)
		}
	}
	return l.Settle()
}

// waitForWhatIsUnderway heals everything, if the storm did not, and waits.
func (l *Lockers) waitForWhatIsUnderway(unhealed bool) error {
	if unhealed {
		l.healAll()
	}
	for left := l.Underway(); left > 0; left = l.Underway() {
		if err := l.world.RunUntil(func() bool { return l.Underway() != left }, 2*l.leaveBound()); err != nil {
			return missed(err, "what was begun does not end: %d steps are left", left)
		}
	}
	return nil
}

// Start begins the load. Settle ends it: Run does both, with a storm between them.
func (l *Lockers) Start(w *World) {
	l.world = w
	l.posts, l.busy, l.aside = make(map[string]post), make(map[string]int), make(map[string]int)
	if len(l.Hosts) == 0 {
		for _, h := range w.Hosts() {
			l.Hosts = append(l.Hosts, h.Name())
		}
	}
	l.Each, l.Keys = cmp.Or(l.Each, 3), cmp.Or(l.Keys, 4)
	l.TTL, l.Bound = cmp.Or(l.TTL, 10*time.Second), cmp.Or(l.Bound, 15*time.Second)
	w.history.Bound = l.TTL + l.Bound
	for _, host := range l.Hosts {
		l.boot(host)
	}
}

// Add starts the load on one more host, which may be new.
func (l *Lockers) Add(host string) {
	l.Hosts = append(l.Hosts, host)
	l.boot(host)
}

func (l *Lockers) boot(host string) {
	h := l.world.Host(host)
	h.Boot("node", func(ctx context.Context) {
		node, err := l.Join(ctx, host)
		for ; err != nil; node, err = l.Join(ctx, host) {
			Logf(ctx, "join: %v", err)
			if Sleep(ctx, time.Second) != nil {
				return
			}
		}
		l.posts[host] = post{node, h.process}
		for i := range l.Each {
			l.Go(ctx, fmt.Sprint("locker", i+1), func(ctx context.Context) { l.work(ctx, node) })
		}
	})
}

// Settle ends the load in a healed world and checks the end.
func (l *Lockers) Settle() error {
	w := l.world
	l.quiet = true
	hosts := l.core
	if hosts == nil {
		hosts = l.Hosts
	}
	if err := l.leaversGo(hosts); err != nil {
		return err
	}
	steps := &inStep{world: w, hosts: l.core, upTo: make(map[check.ShardName]uint64)}
	steps.within(l.stepBound())
	settled := func() bool {
		for _, host := range hosts {
			if l.busy[host] > 0 || l.node(host) == nil {
				return false
			}
		}
		return true
	}
	if err := w.RunUntil(settled, l.TTL+l.Bound); err != nil {
		var away []string
		for _, host := range hosts {
			if l.node(host) == nil {
				away = append(away, host)
			}
		}
		return missed(err, "these calls go on: %q; and these nodes are not back: %q", w.history.checks.Open(), away)
	}
	swept := 0
	for _, host := range hosts {
		node := l.node(host)
		w.Host(host).Go("sweep", func(ctx context.Context) {
			if l.sweep(ctx, node, len(hosts)) {
				swept++
			}
		})
	}
	if err := w.RunUntil(func() bool { return swept == len(hosts) }, l.sweepBound(len(hosts))); err != nil {
		return missed(err, "the keys cannot be locked from everywhere")
	}
	l.swept = true
	rest := func() bool {
		return !slices.ContainsFunc(hosts, func(host string) bool { return l.aside[host] > 0 })
	}
	if err := w.RunUntil(rest, l.TTL+l.Bound); err != nil {
		return missed(err, "these calls go on: %q; and beside the load: %v", w.history.checks.Open(), l.aside)
	}
	if err := w.RunUntil(func() bool { return steps.over }, l.stepBound()+stepLook); err != nil {
		return err
	}
	if err := l.dismiss(); err != nil {
		return err
	}
	if l.core == nil {
		if err := w.history.Quiet(l.TTL + l.Bound); err != nil {
			return err
		}
	}
	return w.history.Finish()
}

// leaveBound is how long a Leave may take once all is well: TTL and Bound for what its node holds, and 20 s for its shards,
// which move elsewhere a few at a time.
func (l *Lockers) leaveBound() time.Duration { return l.TTL + l.Bound + 20*time.Second }

// leaversGo waits for nodes that were leaving when the storm ended. All other bounds count from then: they begin anew, and move
// shards again.
func (l *Lockers) leaversGo(hosts []string) error {
	leaving := func() (all []string) {
		for _, host := range hosts {
			if p := l.world.Host(host).process; p != nil && p.leaving {
				all = append(all, host)
			}
		}
		return all
	}
	if err := l.world.RunUntil(func() bool { return len(leaving()) == 0 }, l.leaveBound()); err != nil {
		return missed(err, "these nodes do not come to leave: %q", leaving())
	}
	return nil
}

// missed says what did not come about in its time. Another failure speaks for itself.
func missed(err error, format string, args ...any) error {
	if !errors.Is(err, ErrNotWithin) {
		return err
	}
	return fmt.Errorf("G6: after all faults ended, %s; %w", fmt.Sprintf(format, args...), err)
}

// Quiet reports whether the load is over: what adds to it must begin nothing new.
func (l *Lockers) Quiet() bool { return l.quiet }

// Go starts an actor on the host of ctx that is part of the load, as Join may want: it
// ends soon after the load is Quiet, and Settle waits for it.
func (l *Lockers) Go(ctx context.Context, name string, fn func(ctx context.Context)) {
	host := processOf(ctx, "Lockers.Go").host.name
	Go(ctx, name, func(ctx context.Context) {
		l.busy[host]++
		defer func() { l.busy[host]-- }()
		fn(ctx)
	})
}

// Beside calls step again and again on the host of ctx, also when the load is Quiet, until
// Settle has seen that every key can be locked all the same. A step takes TTL at most.
func (l *Lockers) Beside(ctx context.Context, name string, step func(ctx context.Context)) {
	host := processOf(ctx, "Lockers.Beside").host.name
	Go(ctx, name, func(ctx context.Context) {
		l.aside[host]++
		defer func() { l.aside[host]-- }()
		for !l.swept && ctx.Err() == nil {
			step(ctx)
		}
	})
}

// sweepBound is how long a sweep may take. Each key has its own bound, of which a sweep may need two in
// full. The rest is the time that frames take, for a sweep asks for one key after the other: where a
// caller reaches the leader, and the leader a voter, through a third host, a grant takes eight trips
// over links, and an unlock as many.
func (l *Lockers) sweepBound(callers int) time.Duration {
	const trips = 16
	keys := len(keyKinds)*l.Keys + len(l.Everywhere)
	return 2*(l.TTL+l.Bound) + l.queueBound(callers) + time.Duration(keys)*l.trips(trips)
}

// queueBound is how long a key takes to go through a queue of so many callers. From one to the next there are an unlock, a
// round of the voters and a grant, each through a third host at worst: eight trips over links.
func (l *Lockers) queueBound(callers int) time.Duration {
	const trips = 8
	return time.Duration(callers) * l.trips(trips)
}

// stepBound is how long all voters may take to come into step. A shard that gets others needs two decisions of the core, each a
// read and a write at a majority: eight trips over links. The decisions on all shards may have to come one after the other.
func (l *Lockers) stepBound() time.Duration {
	const trips = 8
	return l.Bound + time.Duration(len(l.Everywhere))*l.trips(trips)
}

// trips is how long so many trips take, one after the other.
func (l *Lockers) trips(n int) time.Duration {
	link := l.world.opts.Link
	return time.Duration(n) * (link.Latency + link.Jitter)
}

// sweep locks every key once more, as so many callers do.
func (l *Lockers) sweep(ctx context.Context, node Node, callers int) bool {
	wait := l.TTL + l.Bound + l.queueBound(callers)
	for i := range l.Keys {
		for kind := range keyKinds {
			if !l.locks(ctx, node, wait, kind, fmt.Sprintf("%s/%d", keyKinds[kind], i)) {
				return false
			}
		}
	}
	for _, key := range l.Everywhere {
		if !l.locks(ctx, node, wait, 0, key) {
			return false
		}
	}
	return true
}

// locks reports whether the node's callers can lock a key within d. If not, the run has failed.
func (l *Lockers) locks(ctx context.Context, node Node, d time.Duration, kind int, key string) bool {
	wait, cancel := WithTimeout(ctx, d)
	defer cancel()
	held, err := l.once(wait, node, kind, key, call{weight: permits, hold: time.Millisecond})
	for (l.core != nil || held) && err != nil && wait.Err() == nil && Sleep(wait, 100*time.Millisecond) == nil {
		// An outsider that not all of the core reach may still lead. Or a
		// frame took longer than a lease lasts, as one in some thousands does on
		// links with a heavy tail: then no unlock can be confirmed, but the next.
		held, err = l.once(wait, node, kind, key, call{weight: permits, hold: time.Millisecond})
	}
	if err != nil {
		l.world.Fail(fmt.Errorf("G4, G6: after all faults ended, %q cannot be locked: %w", key, err))
	}
	return err == nil
}

// keyKinds are the kinds of keys that lockers use. The names of the keys begin with them.
var keyKinds = [...]string{"lock", "semaphore"}

// permits is the capacity of the lockers' semaphores.
const permits = 3

// call is how one call goes.
type call struct {
	shared, try bool
	hasty       bool // unlock without waiting for the answer
	weight      int64
	hold        time.Duration
}

// work is one locker's life.
func (l *Lockers) work(ctx context.Context, node Node) {
	chance := newStream(l.world.Rand().Uint64(), userStream, &l.world.draws)
	var kind int
	var key string
	for !l.quiet {
		// Often the same key again, at once: late messages of the last hold may meet it.
		again := key != "" && chance.below(3) == 0
		if !again {
			if Sleep(ctx, chance.exponential(100*time.Millisecond)) != nil {
				return
			}
			kind = int(chance.below(3) / 2) // two of three are locks
			key = fmt.Sprintf("%s/%d", keyKinds[kind], chance.below(int64(l.Keys)))
		}
		c := call{weight: 1 + chance.below(permits), hasty: chance.below(6) == 0}
		switch chance.below(8) {
		case 0, 1:
			c.shared = true
		case 2:
			c.try = kind == 0
		}
		// Most holds are short; one in some outlives the lease, so that it is renewed.
		c.hold = chance.exponential(50 * time.Millisecond)
		if chance.below(40) == 0 {
			c.hold = chance.between(0, 2*l.TTL)
		}
		wait, cancel := WithTimeout(ctx, l.patience(chance))
		_, _ = l.once(wait, node, kind, key, c)
		cancel()
	}
}

// patience draws how long a call waits.
func (l *Lockers) patience(s *stream) time.Duration {
	switch s.below(4) {
	case 0:
		return s.exponential(20 * time.Millisecond)
	case 1:
		return s.exponential(time.Second)
	}
	return l.TTL + l.Bound
}

// once makes one call, holds what it got for a while, and unlocks it. It reports whether
// there was anything to hold.
func (l *Lockers) once(ctx context.Context, node Node, kind int, key string, c call) (bool, error) {
	want, ask := check.Exclusive(key), node.Lock
	switch {
	case kind == 1:
		want = check.Permits(key, c.weight, permits)
		ask = func(ctx context.Context, key string) (Lock, error) { return node.Acquire(ctx, key, c.weight, permits) }
	case c.shared:
		want, ask = check.Shared(key), node.RLock
	case c.try:
		ask = node.TryLock
	}
	record := l.world.history.checks.Call(processOf(ctx, "Lockers"), want)
	lock, err := ask(ctx, key)
	held := record.Returned(lock, err)
	if held == nil {
		return false, err
	}
	for end := Now(ctx) + c.hold; Now(ctx) < end && !l.quiet; { // once the load is over, there is no need to wait for it
		held.Use()
		if Sleep(lock.Context(), min(c.hold/4+1, end-Now(ctx))) != nil {
			break
		}
	}
	held.Use()
	if c.hasty {
		var cancel context.CancelFunc
		ctx, cancel = WithTimeout(ctx, time.Millisecond)
		defer cancel()
	}
	held.Unlocking()
	err = lock.Unlock(ctx)
	held.Unlocked(err)
	return true, err
}
