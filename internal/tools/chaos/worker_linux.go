package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/lockmesh/mesh"
)

const (
	workersEach = 3                     // workers of a process, beside the one that keeps a lock of its own
	lockKeys    = 8                     // keys that are locked
	poolKeys    = 3                     // keys that are semaphores
	capacity    = 3                     // of those
	leaseTTL    = 2 * time.Second       // of the node's own session; user sessions have the longest that the mesh allows
	lookEvery   = 80 * time.Millisecond // how often a holder looks whether it still holds
	longestHold = 1500 * time.Millisecond
	unlockTime  = 5 * time.Second
)

// workers are the load of one process. Their randomness follows from the seed, the process and its start.
type workers struct {
	m      *member
	random [workersEach]*rand.Rand
	cancel context.CancelFunc // ends all; nil: none work
	ended  sync.WaitGroup
	calls  [workersEach + 3]int // of each worker; the last three are of the keeper, of probes and of grabs
}

func newWorkers(m *member) *workers {
	w := &workers{m: m}
	for i := range w.random {
		name := uint64(0)
		for _, c := range m.name {
			name = name*31 + uint64(c)
		}
		w.random[i] = rand.New(rand.NewPCG(m.seed^name<<20, uint64(m.start*workersEach+i)))
	}
	return w
}

// work starts the workers, unless they work.
func (w *workers) work() {
	if w.cancel != nil {
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	w.cancel = cancel
	for i := range w.random {
		w.ended.Go(func() { w.run(ctx, i) })
	}
	w.ended.Go(func() { w.keep(ctx) })
}

// rest ends the workers, with their holds and calls.
func (w *workers) rest() {
	if w.cancel != nil {
		w.cancel()
		w.ended.Wait()
		w.cancel = nil
	}
}

// run locks keys, and holds them for a while, one after the other.
func (w *workers) run(ctx context.Context, i int) {
	r := w.random[i]
	var session *mesh.Session
	defer func() {
		if session != nil {
			w.closeSession(session)
		}
	}()
	for ctx.Err() == nil {
		if session != nil && session.Err() != nil {
			session = nil
		}
		if i == 0 && session == nil { // one worker of each process uses sessions of its own
			session, _ = w.m.node.NewSession(ctx, mesh.WithTTL(w.m.maxTTL))
		}
		c := w.draw(r, i)
		if session != nil {
			c.locker, c.ttl = session, w.m.maxTTL
		}
		_ = w.one(ctx, c) // the judge sees it
		sleep(ctx, time.Duration(r.Int64N(int64(700*time.Millisecond))))
	}
}

func (w *workers) closeSession(s *mesh.Session) {
	ctx, cancel := context.WithTimeout(context.Background(), unlockTime)
	defer cancel()
	_ = s.Close(ctx) // it holds nothing any more
}

// keep holds a lock of the process's own all the time.
func (w *workers) keep(ctx context.Context) {
	for ctx.Err() == nil {
		c := call{
			worker: workersEach, key: "own-" + w.m.name, mode: exclusive, locker: w.m.node, ttl: min(leaseTTL, w.m.maxTTL),
			timeout: 20 * time.Second, hold: 1 << 62, every: 10 * lookEvery,
		}
		_ = w.one(ctx, c)
		sleep(ctx, 100*time.Millisecond)
	}
}

// locker is a node or a session.
type locker interface {
	Lock(context.Context, string, ...mesh.LockOption) (*mesh.Lock, error)
	TryLock(context.Context, string, ...mesh.LockOption) (*mesh.Lock, error)
	RLock(context.Context, string, ...mesh.LockOption) (*mesh.Lock, error)
	Acquire(context.Context, string, int64, int64, ...mesh.LockOption) (*mesh.Lock, error)
	TryAcquire(context.Context, string, int64, int64, ...mesh.LockOption) (*mesh.Lock, error)
}

// call is what a worker is going to do.
type call struct {
	worker  int
	key     string
	mode    mode
	weight  int64
	locker  locker
	try     bool
	ttl     time.Duration // of the lease, or with fixed the length
	fixed   bool
	timeout time.Duration
	hold    time.Duration // at most so long
	every   time.Duration // between looks
	busy    time.Duration // between a look and the write
	context bool          // it looks at the context alone
}

// draw draws the next call of a worker.
func (w *workers) draw(r *rand.Rand, worker int) call {
	c := call{
		worker: worker, locker: w.m.node, ttl: min(leaseTTL, w.m.maxTTL), mode: exclusive,
		key: fmt.Sprintf("lock-%d", r.IntN(lockKeys)), timeout: 500*time.Millisecond + time.Duration(r.ExpFloat64()*float64(8*time.Second)),
		hold: min(longestHold, time.Duration(r.ExpFloat64()*float64(250*time.Millisecond))), every: lookEvery,
		context: r.IntN(4) == 0,
	}
	c.timeout = min(c.timeout, 20*time.Second).Truncate(time.Millisecond)
	if r.IntN(2) == 0 {
		c.busy = time.Duration(r.Int64N(int64(15 * time.Millisecond)))
	}
	switch n := r.IntN(20); {
	case n < 4:
		c.mode = shared
	case n < 9:
		c.mode, c.key, c.weight = permits, fmt.Sprintf("pool-%d", r.IntN(poolKeys)), 1+r.Int64N(capacity-1)
		c.try = n == 8
	case n < 11:
		c.try = true
	case n < 13:
		c.fixed, c.busy = true, 0
		c.ttl = 400*time.Millisecond + time.Duration(r.Int64N(int64(w.m.maxTTL-400*time.Millisecond))).Truncate(time.Millisecond)
		if n == 12 {
			c.hold = 1 << 62 // to its end
		}
	}
	return c
}

// one makes a call, and holds what it gets. It notes all of it, and returns the error of the call.
func (w *workers) one(ctx context.Context, c call) error {
	r, l, err := w.get(ctx, c)
	if err == nil {
		w.hold(ctx, c, r, l)
	}
	return err
}

// grab locks a key in a session with the longest lease, and holds it until it is lost. It returns when it has the lock.
func (w *workers) grab(ctx context.Context, key string) error {
	s, err := w.m.node.NewSession(ctx, mesh.WithTTL(w.m.maxTTL))
	if err != nil {
		return err
	}
	deadline, _ := ctx.Deadline()
	c := call{
		worker: workersEach + 2, key: key, mode: exclusive, locker: s, ttl: w.m.maxTTL, hold: 1 << 62, every: lookEvery,
		timeout: max(time.Millisecond, time.Until(deadline).Truncate(time.Millisecond)),
	}
	r, l, err := w.get(ctx, c)
	if err == nil {
		go w.hold(context.Background(), c, r, l)
	}
	return err
}

// get makes a call, and notes it.
func (w *workers) get(ctx context.Context, c call) (record, *mesh.Lock, error) {
	w.calls[c.worker]++
	r := record{
		kind: called, call: fmt.Sprintf("%d/%d", c.worker, w.calls[c.worker]), key: c.key, mode: c.mode,
		weight: c.weight, ttl: c.timeout, from: clock(),
	}
	if c.mode == permits {
		r.capacity = capacity
	}
	w.m.note(r)
	bounded, cancel := context.WithTimeout(ctx, c.timeout)
	l, err := c.acquire(bounded)
	cancel()
	r.to, r.ttl = clock(), c.ttl
	switch {
	case err == nil:
		r.kind, r.token = granted, l.Token()
		if c.fixed {
			r.note = fixedLength
		}
	case ctx.Err() != nil && c.worker <= workersEach:
		r.kind, r.note = failed, "rest" // it was told to
	default:
		r.kind, r.note = failed, class(err)
	}
	w.m.note(r)
	if err != nil {
		return r, nil, fmt.Errorf("%s: %w", c.key, err)
	}
	return r, l, nil
}

func (c call) acquire(ctx context.Context) (*mesh.Lock, error) {
	var opts []mesh.LockOption
	if c.fixed {
		opts = append(opts, mesh.MaxHold(c.ttl))
	}
	switch {
	case c.mode == permits && c.try:
		return c.locker.TryAcquire(ctx, c.key, c.weight, capacity, opts...)
	case c.mode == permits:
		return c.locker.Acquire(ctx, c.key, c.weight, capacity, opts...)
	case c.mode == shared:
		return c.locker.RLock(ctx, c.key, opts...)
	case c.try:
		return c.locker.TryLock(ctx, c.key, opts...)
	}
	return c.locker.Lock(ctx, c.key, opts...)
}

// hold looks again and again whether the lock is held, and writes, until its time is over. Then it unlocks.
func (w *workers) hold(ctx context.Context, c call, r record, l *mesh.Lock) {
	over := time.Now().Add(min(c.hold, 24*time.Hour)) // nothing lasts a day here
	for {
		if !w.look(c, r, l) {
			return
		}
		d := min(c.every, time.Until(over))
		if d <= 0 {
			break
		}
		waiting, cancel := context.WithTimeout(l.WithContext(ctx), d)
		<-waiting.Done()
		cancel()
		if ctx.Err() != nil {
			break
		}
	}
	r.kind, r.note, r.from = ended, "", clock()
	believed := w.watchEnd(l, r, c.context)
	bounded, cancel := context.WithTimeout(context.Background(), unlockTime)
	defer cancel()
	err := l.Unlock(bounded)
	r.from, r.to = max(r.from, believed()), clock()
	switch {
	case err == nil:
		r.note = released
	case errors.Is(err, mesh.ErrUnconfirmed):
		r.note = unconfirmed
	case errors.Is(err, mesh.ErrLost):
		r.note = lost
	default:
		r.note = class(err)
	}
	w.m.note(r)
	if err := l.Err(); err == nil {
		w.m.note(record{kind: broken, call: r.call, key: r.key, from: r.to, note: "Err is nil after Unlock"})
	}
}

// watchEnd looks at a lock's context all the time while it is unlocked, if it is to. The result returns the last time
// before a look at which the context had not ended: it should end first (P8).
func (w *workers) watchEnd(l *mesh.Lock, r record, really bool) (believed func() moment) {
	if !really {
		return func() moment { return 0 }
	}
	ctx, last, done := l.Context(), moment(0), make(chan struct{})
	go func() {
		defer close(done)
		for {
			now := clock()
			if ctx.Err() != nil {
				return
			}
			last = now
			time.Sleep(100 * time.Microsecond)
		}
	}()
	return func() moment {
		if !closes(done) {
			w.m.note(record{kind: broken, call: r.call, key: r.key, from: clock(), note: "its context outlives Unlock"})
			<-done
		}
		return last
	}
}

// look looks whether the lock is held. If so it writes, else it notes the end, and reports false.
func (w *workers) look(c call, r record, l *mesh.Lock) bool {
	r.kind, r.note, r.from = act, byErr, clock()
	var over bool
	if c.context {
		r.note, over = byContext, l.Context().Err() != nil
	} else {
		over = l.Err() != nil
	}
	if !over {
		if c.busy > 0 && r.mode == exclusive {
			time.Sleep(c.busy)
		}
		r.to = clock()
		w.m.note(r)
		return true
	}
	r.kind, r.note, r.from = ended, lost, clock()
	if err := l.Err(); !errors.Is(err, mesh.ErrLost) {
		w.m.note(record{kind: broken, call: r.call, key: r.key, from: r.from, note: "context ended, Err is " + class(err)})
	}
	if !closes(l.Lost()) {
		w.m.note(record{kind: broken, call: r.call, key: r.key, from: r.from, note: "Lost stays open"})
	}
	if cause := context.Cause(l.Context()); !errors.Is(cause, mesh.ErrLost) {
		w.m.note(record{kind: broken, call: r.call, key: r.key, from: r.from, note: "the cause is " + class(cause)})
	}
	r.to = clock()
	w.m.note(r)
	return false
}

// closes waits for a second in which this process runs until a channel is closed.
func closes(c <-chan struct{}) bool {
	for range 20 {
		select {
		case <-c:
			return true
		case <-time.After(50 * time.Millisecond): // if the process was stopped meanwhile, it waits again
		}
	}
	return false
}

// probe locks each key as a whole, one after the other.
func (w *workers) probe(ctx context.Context) error {
	var errs []error
	for i := range lockKeys + poolKeys {
		deadline, _ := ctx.Deadline()
		c := call{
			worker: workersEach + 1, key: fmt.Sprintf("lock-%d", i), mode: exclusive, locker: w.m.node,
			ttl: min(leaseTTL, w.m.maxTTL), timeout: max(time.Millisecond, time.Until(deadline).Truncate(time.Millisecond)),
		}
		if i >= lockKeys {
			c.key, c.mode, c.weight = fmt.Sprintf("pool-%d", i-lockKeys), permits, capacity
		}
		errs = append(errs, w.one(ctx, c))
	}
	return errors.Join(errs...)
}

func sleep(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}
